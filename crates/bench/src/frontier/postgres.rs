//! The queue on PostgreSQL, ours and the seed's in turns, so that whatever else the machine does hits
//! both. Fetches take no time: what is measured is the database.
//!
//! Politeness, double claims and sums are checked on the very claims that are measured.

use std::io::Write as _;
use std::time::{Duration, Instant};

use feedmill::frontier::Frontier as _;
use tokio::task::JoinSet;

use super::ours::Ours;
use super::seed::Seed;
use super::server::Server;
use super::{sitemaps, task};
use crate::report::{Better, Report};

/// The pause of every host, which is also the seed's default.
const PAUSE: Duration = Duration::from_secs(1);
/// Turns of each design, and how long each lasts.
const TURNS: usize = 3;
const TURN: Duration = Duration::from_secs(4);
/// Workers beside the host that must wait. A single claim of the seed keeps a core busy for seconds
/// there: more workers would only stand in each other's way.
const HOT_WORKERS: usize = 4;
/// Addresses of other hosts for each one of that host, and addresses of each of them.
const OTHERS: usize = 5;
const PER_HOST: usize = 20;
/// Hosts that are all due all the time, and the leases for which one of them may wait: every tenth
/// lease goes to who waits longest, and as much again is left for claims that meet.
const CROWD: u16 = 200;
const PATIENCE: u64 = 2 * 10 * CROWD as u64;

/// The host with the most addresses, all at top priority.
pub(super) const HOT: &str = "www.hot.example.com";

/// What to fill the queue with.
#[derive(Debug)]
pub(super) enum Work {
    /// Hosts by a power law, priorities by chance.
    Others { urls: usize, hosts: usize },
    /// One host, top priority.
    Hot { urls: usize },
}

impl Work {
    /// A query that makes it: host, url, prio, `age_ms`.
    pub(super) fn rows(&self) -> String {
        let (urls, from, host, prio) = match self {
            Self::Others { urls, hosts } => {
                // Numbers by chance, but the same ones in every run.
                let chance = "(hashint8(n)::bigint & 2147483647)";
                let host =
                    format!("floor({hosts} * power({chance} / 2147483648.0::float8, 3))::bigint");
                let host = format!("'www.host-' || {host} || '.example.com'");
                (urls, 0, host, "1 + (hashint8(-n)::bigint & 2147483647) % 10")
            }
            Self::Hot { urls } => (urls, 1_000_000_000, format!("'{HOT}'"), "10"),
        };
        format!(
            "SELECT host, prio, n % 3600000 AS age_ms, 'https://' || host || '/2026/11/15/section-'
               || n % 7 || '/the-title-of-story-' || n AS url
             FROM (SELECT n, {host} AS host, {prio} AS prio
               FROM generate_series({from} + 1::bigint, {from} + {urls}) n) x"
        )
    }
}

/// Claims with their completions, and how long they took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    done: u64,
    took: Duration,
}

impl Slice {
    /// Waits for all workers.
    pub(super) async fn of(
        mut running: JoinSet<anyhow::Result<u64>>,
        begin: Instant,
    ) -> anyhow::Result<Self> {
        let mut done = 0;
        while let Some(worker) = running.join_next().await {
            done += worker??;
        }
        Ok(Self { done, took: begin.elapsed() })
    }

    fn add(&mut self, other: Self) {
        self.done += other.done;
        self.took += other.took;
    }

    fn per_second(&self) -> f64 {
        self.done as f64 / self.took.as_secs_f64()
    }
}

pub(super) async fn run(url: &str, urls: usize, workers: usize) -> anyhow::Result<Report> {
    let server = Server::new(url)?;
    let measured = tokio::select! {
        measured = measure(&server, urls, workers) => measured,
        stopped = tokio::signal::ctrl_c() => stopped.map_err(Into::into).and_then(|()| {
            anyhow::bail!("stopped; nothing is left in the database")
        }),
    };
    let cleared = server.clear().await;
    let report = measured?;
    cleared?;
    Ok(report)
}

async fn measure(server: &Server, urls: usize, workers: usize) -> anyhow::Result<Report> {
    let mut report = Report::new("frontier_postgres");
    let ours = Ours::open(server, "ours", PAUSE).await?;
    let seed = Seed::open(server, workers, PAUSE).await?;

    let others = Work::Others { urls: urls / OTHERS, hosts: urls / OTHERS / PER_HOST };
    fill(&ours, &seed, &others).await?;
    say(&format!("claims of {workers} workers"))?;
    let (us, them) = turns(&ours, &seed, workers, TURNS).await?;
    report.figure("claims_per_s", us.per_second());
    report.figure("claims_per_s_seed", them.per_second());
    report.bar("claims_ratio", us.per_second() / them.per_second(), 10.0, Better::Higher);

    fill(&ours, &seed, &Work::Hot { urls }).await?;
    ours.hold().await?;
    seed.hold().await?;
    say(&format!("claims beside a host that must wait, with {urls} addresses at top priority"))?;
    let (us, them) = turns(&ours, &seed, workers.min(HOT_WORKERS), 1).await?;
    report.figure("hot_host_claims_per_s", us.per_second());
    report.figure("hot_host_claims_per_s_seed", them.per_second());
    report.bar("hot_host_ratio", us.per_second() / them.per_second(), 500.0, Better::Higher);
    let hidden = judge(&ours, &seed, urls + urls / OTHERS, &mut report).await?;

    say("three sitemaps of 50,000 addresses")?;
    sitemaps(ours.store(), ours.source(), &mut report).await?;
    let starved = crowd(server, workers, &mut report).await?;
    report.bar("starved_hosts", (hidden + starved) as f64, 0.0, Better::Lower);
    Ok(report)
}

async fn fill(ours: &Ours, seed: &Seed, work: &Work) -> anyhow::Result<()> {
    say(&format!("filling both with {work:?}"))?;
    ours.fill(work).await?;
    seed.fill(work).await
}

/// Lets both designs run in turns.
async fn turns(
    ours: &Ours,
    seed: &Seed,
    workers: usize,
    turns: usize,
) -> anyhow::Result<(Slice, Slice)> {
    let (mut us, mut them) = (Slice::default(), Slice::default());
    for _ in 0..turns {
        them.add(seed.run(workers, TURN).await?);
        us.add(ours.run(workers, TURN).await?);
    }
    Ok((us, them))
}

/// What can be said of all claims so far; returns hosts with work that nobody would find.
async fn judge(ours: &Ours, seed: &Seed, total: usize, report: &mut Report) -> anyhow::Result<u64> {
    let (us, them) = (ours.judge().verdict(0), seed.judge().verdict(0));
    report.bar("politeness_violations", us.impolite as f64, 0.0, Better::Lower);
    report.figure("politeness_violations_seed", them.impolite as f64);
    report.figure("claims_seed", them.claims as f64);
    report.figure("claims", us.claims as f64);
    report.bar("double_claims", us.doubles as f64, 0.0, Better::Lower);
    report.figure("double_claims_seed", them.doubles as f64);
    let (now, total) = (ours.standing().await?, total as u64);
    let lost = now.done.abs_diff(us.claims) + total.abs_diff(now.done + now.queued);
    report.bar("sums_differ_by", lost as f64, 0.0, Better::Lower);
    let (done, queued) = seed.sums().await?;
    let lost = done.abs_diff(them.claims) + total.abs_diff(done + queued);
    report.figure("sums_differ_by_seed", lost as f64);
    Ok(now.hidden)
}

/// More hosts than can be served, all due all the time, half of them at low priority: returns whether
/// any of them waited for longer than its turn can take.
async fn crowd(server: &Server, workers: usize, report: &mut Report) -> anyhow::Result<u64> {
    say("hosts of low priority beside hosts of high priority")?;
    let ours = Ours::open(server, "crowd", Duration::ZERO).await?;
    for host in 0..CROWD {
        let prio = if host % 2 == 0 { 8 } else { 1 };
        let url = |n: usize| format!("https://www.host-{host}.example.com/story-{n}");
        let batch = (0..200).map(|n| task(ours.source(), url(n), prio)).collect();
        ours.store().submit(batch).await?;
    }
    ours.allow_robots().await?;
    while ours.judge().verdict(0).claims < 3 * PATIENCE {
        ours.run(workers, Duration::from_millis(200)).await?;
    }
    let verdict = ours.judge().verdict(CROWD.into());
    report.figure("longest_wait_in_claims", verdict.longest_wait as f64);
    let hidden = ours.standing().await?.hidden;
    Ok(hidden + u64::from(verdict.longest_wait > PATIENCE))
}

fn say(what: &str) -> std::io::Result<()> {
    writeln!(std::io::stderr(), "{what} ...")
}
