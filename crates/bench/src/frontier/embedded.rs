//! The queue under load: submissions of which half are known, and claims with their completion,
//! durable, at one size and at the size asked for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use feedmill::clock::Clock;
use feedmill::db::Db;
use feedmill::frontier::Frontier;
use feedmill::model::{Code, Lane, NewTask, Next, Outcome, SourceId};
use feedmill::store::{Commit, Committed, SqliteStore, Store};

use super::{rules, sitemaps, source, task};
use crate::report::{Better, Report, cpu_time, rss_mb};

/// Addresses in a submission.
const BATCH: usize = 1_000;
/// Addresses of a host that come together, as outlinks and sitemaps do.
const RUN: usize = 50;
/// Claims and completions measured at each size.
const CLAIMS: usize = 100_000;
/// Tasks in a claim.
const CLAIM: usize = 100;
/// Who claims at the same time, as fetchers do: their transactions are one.
const WORKERS: usize = 8;
/// The size that growth is measured from.
const BASE: usize = 1_000_000;

/// Rates at one size.
struct Rates {
    submit: f64,
    claim: f64,
}

pub(super) async fn run(urls: usize, dir: Option<PathBuf>) -> anyhow::Result<Report> {
    let scratch = tempfile::tempdir()?;
    let dir = dir.unwrap_or_else(|| scratch.path().to_owned());
    std::fs::create_dir_all(&dir)?;
    let path = dir.join("bench.db");
    let store = SqliteStore::new(Db::open(&path)?, Clock::system(), rules(Duration::ZERO));
    let source = store.add_source(source(0)).await?.id;
    let mut work = Work { source, next: 0, seed: 1 };
    let mut report = Report::new("frontier");

    let base = urls.min(BASE);
    let small = measure(&store, &path, &mut work, base, &mut report).await?;
    report.bar("submit_per_cpu_s", small.submit, 50_000.0, Better::Higher);
    report.bar("claim_complete_per_cpu_s", small.claim, 20_000.0, Better::Higher);
    if urls > BASE {
        let large = measure(&store, &path, &mut work, urls, &mut report).await?;
        report.figure("submit_per_cpu_s_full", large.submit);
        report.figure("claim_complete_per_cpu_s_full", large.claim);
        report.bar("growth_submit", small.submit / large.submit, 2.0, Better::Lower);
        report.bar("growth_claim", small.claim / large.claim, 2.0, Better::Lower);
    }
    sitemaps(&store, source, &mut report).await?;
    report.bar("rss_mb", rss_mb()?, 500.0, Better::Lower);
    Ok(report)
}

/// Fills the queue up to `size` and measures the last part of it, then claims.
async fn measure(
    store: &SqliteStore,
    path: &Path,
    work: &mut Work,
    size: usize,
    report: &mut Report,
) -> anyhow::Result<Rates> {
    let (mut cpu, mut sent) = (Duration::ZERO, 0);
    let measured_from = size - size.min(BASE / 2);
    while work.next < size {
        let batch = work.batch();
        let timed = work.next > measured_from;
        let before = cpu_time();
        let done = store.submit(batch).await?;
        anyhow::ensure!(done.new == (BATCH / 2) as u64, "half of a batch is new: {done:?}");
        if timed {
            cpu += cpu_time() - before;
            sent += BATCH;
        }
    }
    let submit = sent as f64 / cpu.as_secs_f64();
    let bytes =
        std::fs::metadata(path)?.len() + std::fs::metadata(wal(path)).map_or(0, |m| m.len());
    checkpoint(path)?;
    report.bar(
        "bytes_per_url",
        std::fs::metadata(path)?.len() as f64 / work.next as f64,
        220.0,
        Better::Lower,
    );
    report.figure("bytes_per_url_with_wal", bytes as f64 / work.next as f64);
    allow_robots(path)?;

    let before = cpu_time();
    let each = CLAIMS.min(size / 4) / WORKERS;
    futures_util::future::try_join_all((0..WORKERS).map(|_| serve(store, each))).await?;
    let cpu = cpu_time() - before;
    Ok(Rates { submit, claim: (each * WORKERS) as f64 / cpu.as_secs_f64() })
}

/// One worker: claims, and completes what it has before it claims again.
async fn serve(store: &SqliteStore, tasks: usize) -> anyhow::Result<()> {
    for _ in 0..tasks / CLAIM {
        let leases = store.claim(CLAIM, &[Lane::Page]).await?;
        anyhow::ensure!(leases.len() == CLAIM, "{} of {CLAIM} were handed out", leases.len());
        let commits = leases.into_iter().map(|lease| Commit {
            lease,
            outcome: Outcome::new(Code::Ok, Next::Fetched, "812 words"),
        });
        for committed in store.commit(commits.collect()).await {
            anyhow::ensure!(committed? == Committed::Done, "every lease was good");
        }
    }
    Ok(())
}

/// Makes the addresses: hosts by the run, half of a batch known from before.
struct Work {
    source: SourceId,
    next: usize,
    seed: u64,
}

impl Work {
    fn batch(&mut self) -> Vec<NewTask> {
        let half = BATCH / 2;
        let fresh = self.next..self.next + half;
        let known = if self.next == 0 {
            // The very first batch knows nothing: it repeats itself.
            0..half
        } else {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let batches = (self.next / half) as u64;
            let from = usize::try_from((self.seed >> 33) % batches).unwrap_or(0) * half;
            from..from + half
        };
        self.next += half;
        fresh.chain(known).map(|n| self.task(n)).collect()
    }

    fn task(&self, n: usize) -> NewTask {
        let host = n / RUN;
        let url = format!(
            "https://www.host-{host:07}.example.com/2026/11/15/section-{}/the-title-of-story-{n:09}",
            n % 7
        );
        task(self.source, url, 1 + u8::try_from(host % 8).unwrap_or(0))
    }
}

/// Pages ask for robots.txt: here every host has a fresh one, as in a crawl that is under way.
fn allow_robots(path: &Path) -> anyhow::Result<()> {
    let conn = rusqlite::Connection::open(path)?;
    conn.busy_timeout(Duration::from_secs(30))?;
    conn.execute(
        "INSERT OR IGNORE INTO robots(origin, host, body, fetched_at, expires_at)
         SELECT 'https://' || name, name, NULL, 0, 9000000000000 FROM host",
        [],
    )?;
    Ok(())
}

fn checkpoint(path: &Path) -> anyhow::Result<()> {
    let conn = rusqlite::Connection::open(path)?;
    conn.busy_timeout(Duration::from_secs(30))?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

fn wal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}
