//! A site without feeds and with traps, walked once and then followed: whether every article is found
//! once, and what that costs in requests.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use feedmill::app::{self, Mode, Progress, RunOptions};
use feedmill::clock::Clock;
use feedmill::demo;
use feedmill::model::{IngestionMode, Lane, NewSource, Ts};
use feedmill_newsroom::{Newsroom, Setup};
use rusqlite::{Connection, OpenFlags};
use tokio_util::sync::CancellationToken;

use crate::follow::{discovered, key};
use crate::report::{Better, Report, say};

/// News that is younger need not be found yet.
const YOUNG: Duration = Duration::from_hours(3);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Articles that the site has at the start; it has about a seventh as many other pages
    #[arg(long, default_value_t = 4_400)]
    articles: usize,
    /// Articles an hour from then on
    #[arg(long, default_value_t = 12.0)]
    per_hour: f64,
    /// Simulated seconds in a real one
    #[arg(long, default_value_t = 600.0)]
    rate: f64,
    /// Simulated hours that the site is followed after the first crawl
    #[arg(long, default_value_t = 48)]
    hours: u32,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let dir = tempfile::tempdir()?;
    let clock = Clock::fast(args.rate);
    let start = clock.now();
    let reading = clock.clone();
    let newsroom = Newsroom::start(Setup {
        publishers: 1,
        maze: true,
        history: args.articles,
        deep_history: true,
        rate_per_hour: args.per_hour,
        ..Setup::new(Arc::new(move || reading.now().ms()))
    })
    .await?;
    let options = demo::Options {
        publishers: 1,
        seed: 1,
        rate: args.rate,
        publish_for: Duration::MAX,
        limit: Duration::MAX,
        dir: dir.path().to_owned(),
        keep: true,
    };
    let config = demo::config(&options, &newsroom)?;
    let store = app::open(&config, &clock).await?;
    for site in newsroom.publishers() {
        let spider = NewSource {
            ingestion_mode: IngestionMode::Spider,
            max_depth: Some(-1),
            ..NewSource::new("maze", site.url("/"))
        };
        store.add_source(spider).await?;
    }
    let stop = CancellationToken::new();
    let running = RunOptions { mode: Mode::Forever, lanes: Lane::ALL.to_vec() };
    let engine = app::run(&config, &clock, running, stop.clone(), Arc::new(Progress::default()));
    let watcher = async {
        let watched = watch(&config.database_path(), &clock, args).await;
        stop.cancel();
        watched
    };
    let (ran, crawled) = tokio::join!(engine, watcher);
    ran?;
    let (crawled, until) = crawled?;

    let mut report = Report::new("spider");
    let log = newsroom.log();
    let pages: HashSet<&str> = log.iter().map(|one| one.path.as_str()).collect();
    report.figure("pages_asked_for", pages.len() as f64);
    report.figure("first_crawl_hours", crawled.since(start).as_secs_f64() / 3600.0);
    let found = discovered(&*store).await?;
    let mut missing = 0_u32;
    for story in newsroom.published(until.before(YOUNG).ms()) {
        missing += u32::from(!found.contains_key(&key(&story.url)?));
    }
    report.bar("missing_articles", f64::from(missing), 0.0, Better::Lower);
    let compared = demo::compare(&newsroom, &*store, &config, start, until).await?;
    report.figure("articles", compared.articles as f64);
    report.bar("doubled_articles", compared.doubled as f64, 0.0, Better::Lower);
    report.bar("impolite_requests", compared.impolite_requests as f64, 0.0, Better::Lower);
    report.figure("delay_p50_min", compared.discovery_p50_s as f64 / 60.0);
    report.figure("delay_p95_min", compared.discovery_p95_s as f64 / 60.0);

    let later = log.iter().filter(|one| (crawled.ms()..until.ms()).contains(&one.began));
    let is_story = |path: &str| {
        newsroom.publishers().iter().any(|site| newsroom.story(&site.url(path)).is_some())
    };
    let (stories, others): (Vec<_>, Vec<_>) = later.partition(|one| is_story(&one.path));
    report.figure("news_after_first_crawl", stories.len() as f64);
    report.figure("other_requests", others.len() as f64);
    let each = (stories.len() + others.len()) as f64 / stories.len().max(1) as f64;
    report.bar("requests_per_article", each, 1.2, Better::Lower);
    let trapped = log
        .iter()
        .filter(|one| one.path.starts_with("/calendar/") || one.path.starts_with("/everything"));
    report.figure("requests_to_traps", trapped.count() as f64);
    store.close().await;
    newsroom.stop().await;
    Ok(report)
}

/// Waits until all that was found was asked for, and then for the hours to follow; when the first
/// crawl ended, and now.
async fn watch(database: &Path, clock: &Clock, args: &Args) -> anyhow::Result<(Ts, Ts)> {
    let conn = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut unasked = conn.prepare(
        "SELECT count(*), (SELECT count(*) FROM article) FROM task
         WHERE status = 0 AND fetch_count = 0 AND kind <> 0",
    )?;
    let (mut crawled, mut rounds) = (None, 0_u32);
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let (left, kept): (usize, usize) =
            unasked.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rounds += 1;
        if rounds.is_multiple_of(50) {
            say(&format!("{kept} articles, {left} addresses to ask for"))?;
        }
        let now = clock.now();
        if crawled.is_none() && left == 0 && kept >= args.articles {
            crawled = Some(now);
        }
        match crawled {
            Some(since) if now.since(since) >= Duration::from_hours(1) * args.hours => {
                return Ok((since, now));
            }
            _ => {}
        }
    }
}
