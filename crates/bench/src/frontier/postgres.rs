//! The queue on PostgreSQL, ours and the seed's in turns, so that whatever else the machine does hits
//! both. Fetches take no time: what is measured is the database.
//!
//! Politeness, double claims and sums are checked on the very claims that are measured.

use std::time::{Duration, Instant};

use feedmill::frontier::Frontier as _;
use tokio::task::JoinSet;

use super::ours::Ours;
use super::seed::Seed;
use super::server::Server;
use super::{sitemaps, task};
use crate::report::{Better, Report, say};

/// The pause of every host, which is also the seed's default.
const PAUSE: Duration = Duration::from_secs(1);
/// Turns of each design, and how long each lasts.
const TURNS: usize = 3;
const TURN: Duration = Duration::from_secs(3);
/// How long both run before anything counts, for connections to be made and statements planned.
const WARM_UP: Duration = Duration::from_secs(2);
/// Workers beside the host that must wait. A single claim of the seed keeps a core busy for seconds
/// there: more workers would only stand in each other's way.
const HOT_WORKERS: usize = 4;
/// One host for so many addresses; of so many addresses of the one that must wait, one is another's.
const PER_HOST: usize = 100;
const OTHERS: usize = 5;
/// Who published it all.
pub(super) const SOURCES: usize = 200;
/// Hosts that are all due all the time, and the leases for which one of them may wait: every tenth
/// lease goes to who waits longest, and as much again is left for claims that meet.
const CROWD: u16 = 100;
const PATIENCE: u64 = 2 * 10 * CROWD as u64;

/// The host with the most addresses, all at top priority.
pub(super) const HOT: &str = "www.hot.example.com";

/// What to fill the queue with: addresses of many hosts, and of one that must wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Addresses of many hosts: hosts by Zipf's law, priorities by chance.
    many: usize,
    hosts: usize,
    /// Addresses of [`HOT`], all at top priority.
    hot: usize,
}

impl Work {
    /// A query that makes it: `host`, `publisher`, `url`, `prio`, `age_ms`.
    pub(super) fn rows(&self) -> String {
        let Self { many, hosts, hot } = self;
        // Numbers by chance, but the same ones in every run.
        format!(
            "SELECT host, prio, n % 3600000 AS age_ms, (hashtext(host) & 2147483647) % {SOURCES} AS publisher,
               'https://' || host || '/2026/11/15/section-' || n % 7 || '/the-title-of-story-' || n AS url
             FROM (SELECT n, 'www.host-' || floor(power({hosts}, (hashint8(n) & 2147483647)
                   / 2147483648.0::float8))::bigint || '.example.com' AS host,
                 1 + (hashint8(-n) & 2147483647) % 10 AS prio
               FROM generate_series(1::bigint, {many}) n
               UNION ALL SELECT n + 1000000000, '{HOT}', 10 FROM generate_series(1::bigint, {hot}) n) x"
        )
    }
}

/// Claims with their completions, how long they took, and what they cost the server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    done: u64,
    took: Duration,
    cpu: Duration,
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
        Ok(Self { done, took: begin.elapsed(), cpu: Duration::ZERO })
    }

    fn add(&mut self, other: Self, cpu: Duration) {
        self.done += other.done;
        self.took += other.took;
        self.cpu += cpu;
    }

    fn cpu_ms(&self) -> f64 {
        self.cpu.as_secs_f64() * 1000.0 / self.done as f64
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
    let ours = Ours::open(server, "ours", workers, PAUSE).await?;
    let seed = Seed::open(server, workers, PAUSE).await?;

    let hosts = urls / PER_HOST;
    fill(&ours, &seed, Work { many: urls, hosts, hot: 0 }).await?;
    say(&format!("claims of {workers} workers"))?;
    seed.run(workers, WARM_UP).await?;
    ours.run(workers, WARM_UP).await?;
    let (us, them) = turns(server, &ours, &seed, workers, TURNS).await?;
    report.figure("claims_per_s", us.per_second());
    report.figure("claims_per_s_seed", them.per_second());
    report.figure("claim_server_cpu_ms", us.cpu_ms());
    report.figure("claim_server_cpu_ms_seed", them.cpu_ms());
    report.bar("claims_ratio", us.per_second() / them.per_second(), 10.0, Better::Higher);
    let hidden = judge(&ours, &seed, urls, &mut report).await?;

    fill(&ours, &seed, Work { many: urls / OTHERS, hosts, hot: urls }).await?;
    tokio::try_join!(ours.hold(), seed.hold())?;
    say(&format!("claims beside a host that must wait, with {urls} addresses at top priority"))?;
    let (us, them) = turns(server, &ours, &seed, workers.min(HOT_WORKERS), 1).await?;
    report.figure("hot_host_claims_per_s", us.per_second());
    report.figure("hot_host_claims_per_s_seed", them.per_second());
    report.bar("hot_host_ratio", us.per_second() / them.per_second(), 500.0, Better::Higher);

    say("three sitemaps of 50,000 addresses")?;
    sitemaps(ours.store(), ours.source(), &mut report).await?;
    let starved = crowd(server, workers, &mut report).await?;
    report.bar("starved_hosts", (hidden + starved) as f64, 0.0, Better::Lower);
    Ok(report)
}

async fn fill(ours: &Ours, seed: &Seed, work: Work) -> anyhow::Result<()> {
    say(&format!("filling both with {} addresses", work.many + work.hot))?;
    tokio::try_join!(ours.fill(work), seed.fill(work))?;
    Ok(())
}

/// Lets both designs run in turns.
async fn turns(
    server: &Server,
    ours: &Ours,
    seed: &Seed,
    workers: usize,
    turns: usize,
) -> anyhow::Result<(Slice, Slice)> {
    let (mut us, mut them) = (Slice::default(), Slice::default());
    for _ in 0..turns {
        let cpu = server.cpu("seed").await?;
        let slice = seed.run(workers, TURN).await?;
        them.add(slice, server.cpu("seed").await?.saturating_sub(cpu));
        let cpu = server.cpu("ours").await?;
        let slice = ours.run(workers, TURN).await?;
        us.add(slice, server.cpu("ours").await?.saturating_sub(cpu));
    }
    let ratio = us.per_second() / them.per_second();
    say(&format!(
        "{:.1} per second, the seed's {:.1}: {ratio:.1}",
        us.per_second(),
        them.per_second()
    ))?;
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
    let ours = Ours::open(server, "crowd", workers, Duration::ZERO).await?;
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
