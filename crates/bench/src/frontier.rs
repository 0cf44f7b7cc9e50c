//! The queue under load, embedded or on PostgreSQL beside the design that it grew from.
//!
//! What both benchmarks share: the house's rules, the source that everything comes from, and the
//! sitemap whose addresses are taken in as the product does.

mod embedded;
mod judge;
mod ours;
mod postgres;
mod seed;
mod server;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use feedmill::frontier::{Frontier, Rules};
use feedmill::model::{Kind, NewSource, NewTask, Origin, SourceId, TaskId};
use feedmill::store::MAX_DISCOVERED;
use feedmill_formats::url::KeyRules;

use crate::report::{Better, Report};

/// Addresses in a large sitemap.
const SITEMAP: usize = 50_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Addresses in the queue when it is full; on PostgreSQL those of the one host that must wait
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..))]
    urls: u32,
    /// Where to put the embedded database [default: a temporary directory]
    #[arg(long, conflicts_with = "postgres")]
    dir: Option<PathBuf>,
    /// Measure on this PostgreSQL instead: a throw-away one, as `scripts/postgres` starts it
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Workers of each design that claim at the same time on PostgreSQL
    #[arg(long, default_value_t = 50, requires = "postgres", value_parser = clap::value_parser!(u16).range(1..))]
    workers: u16,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let urls = usize::try_from(args.urls)?;
    match &args.postgres {
        Some(url) => postgres::run(url, urls, args.workers.into()).await,
        None => embedded::run(urls, args.dir.clone()).await,
    }
}

pub(crate) fn rules(delay: Duration) -> Rules {
    Rules {
        key: KeyRules::default(),
        delay: delay.into(),
        lease: Duration::from_secs(120),
        robots_for_feeds: false,
        discover: false,
        ignore_pauses: false,
        concurrency: 1,
        groups: vec![],
    }
}

fn source(n: usize) -> NewSource {
    NewSource::new(format!("bench-{n}"), "https://example.com/")
}

fn task(source: SourceId, url: String, base_priority: u8) -> NewTask {
    NewTask {
        url,
        kind: Kind::Article,
        origin: Origin::Feed,
        source: Some(source),
        base_priority,
        depth: 1,
        redirects: 0,
        parent: Some(TaskId(1)),
        not_before: None,
        refetch: None,
    }
}

/// Takes in the addresses of three large sitemaps, in the chunks that the committer makes of them.
/// The middle one of three times counts, for a neighbour on the machine may disturb one.
async fn sitemaps(
    frontier: &dyn Frontier,
    source: SourceId,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for site in 0..3 {
        let address = |n: usize| {
            format!(
                "https://www.sitemap-{site}.example.com/2026/11/15/news/the-title-of-story-{n:06}"
            )
        };
        let found: Vec<NewTask> = (0..SITEMAP).map(|n| task(source, address(n), 5)).collect();
        let begin = Instant::now();
        let mut new = 0;
        for chunk in found.chunks(MAX_DISCOVERED) {
            new += frontier.submit(chunk.to_vec()).await?.new;
        }
        times.push(begin.elapsed());
        anyhow::ensure!(new == SITEMAP as u64, "{new} of {SITEMAP} addresses were new");
    }
    times.sort();
    let middle = times.get(1).copied().unwrap_or_default();
    report.bar("submit_50k_s", middle.as_secs_f64(), 2.0, Better::Lower);
    Ok(())
}
