//! The whole engine behind many publishers at a multiple of real time: how soon it finds what they
//! publish, measured by the intervals that it chose itself, and whether it keeps its budget.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use feedmill::app::{self, Mode, Progress, RunOptions};
use feedmill::clock::Clock;
use feedmill::config::Policy;
use feedmill::demo;
use feedmill::frontier::{Cursor, Order, TaskFilter};
use feedmill::model::{Kind, Lane, Ts};
use feedmill::store::Store;
use feedmill_formats::url::{self as web, KeyRules};
use feedmill_newsroom::{Newsroom, Setup};
use rusqlite::{Connection, OpenFlags};
use tokio_util::sync::CancellationToken;

use crate::report::{Better, Report, rss_mb, say};

/// Rows read at once.
const PAGE: usize = 2_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Simulated publishers
    #[arg(long, default_value_t = 500)]
    publishers: usize,
    /// Simulated seconds in a real one
    #[arg(long, default_value_t = 60.0)]
    rate: f64,
    /// Simulated hours before anything is measured
    #[arg(long, default_value_t = 24)]
    warm_hours: u32,
    /// Simulated hours that are measured
    #[arg(long, default_value_t = 24)]
    hours: u32,
    /// Polls a day that the engine may make
    #[arg(long, default_value_t = 24_000)]
    budget: u32,
}

/// The interval that a host's slowest channel had, each from a time on: where a sitemap leads to
/// others, a story is found once the last of them was read.
type Chosen = HashMap<String, Vec<(Ts, i64)>>;

pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let dir = tempfile::tempdir()?;
    let clock = Clock::fast(args.rate);
    let start = clock.now();
    let reading = clock.clone();
    let newsroom = Newsroom::start(Setup {
        publishers: args.publishers,
        ..Setup::new(Arc::new(move || reading.now().ms()))
    })
    .await?;
    let options = demo::Options {
        publishers: args.publishers,
        seed: 1,
        rate: args.rate,
        publish_for: Duration::MAX,
        limit: Duration::MAX,
        dir: dir.path().to_owned(),
        keep: true,
    };
    let mut config = demo::config(&options, &newsroom)?;
    config.schedule.policy = Policy::Value;
    config.schedule.budget = format!("{}/day", args.budget).parse()?;
    let store = app::open(&config, &clock).await?;
    demo::follow(&newsroom, &*store).await?;

    let hour = Duration::from_hours(1);
    let from = start.after(hour * args.warm_hours);
    let until = from.after(hour * args.hours);
    let stop = CancellationToken::new();
    let running = RunOptions { mode: Mode::Forever, lanes: Lane::ALL.to_vec() };
    let progress = Arc::new(Progress::default());
    let engine = app::run(&config, &clock, running, stop.clone(), Arc::clone(&progress));
    let database = config.database_path();
    let watcher = async {
        let watched = watch(&database, &clock, (start, until), &progress).await;
        stop.cancel();
        watched
    };
    let (ran, chosen) = tokio::join!(engine, watcher);
    ran?;
    let mut report = Report::new("follow");
    judge(&newsroom, &*store, &chosen?, (from, until), &mut report).await?;
    let polls = polls(&newsroom, (from, until)) as f64;
    let allowed = f64::from(args.budget) * f64::from(args.hours) / 24.0;
    report.figure("polls", polls);
    report.bar("budget_error_percent", (polls / allowed - 1.0).abs() * 100.0, 5.0, Better::Lower);
    report.figure("rss_mb", rss_mb()?);
    store.close().await;
    newsroom.stop().await;
    Ok(report)
}

/// Looks at the intervals once a real second, which no poll is faster than, until the end.
async fn watch(
    database: &Path,
    clock: &Clock,
    (start, until): (Ts, Ts),
    progress: &Progress,
) -> anyhow::Result<Chosen> {
    let conn = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut select = conn.prepare(
        "SELECT t.url, max(f.interval_ms) FROM feed f JOIN task t ON t.id = f.task_id
         WHERE f.interval_ms IS NOT NULL GROUP BY t.host_id",
    )?;
    let (mut chosen, mut hours) = (Chosen::new(), 0);
    loop {
        let now = clock.now();
        let rows = select.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        for row in rows {
            let (url, interval) = row?;
            let of_host = chosen.entry(host(&url)?).or_default();
            if of_host.last().is_none_or(|(_, last)| *last != interval) {
                of_host.push((now, interval));
            }
        }
        let passed = now.since(start).as_secs() / 3600;
        if passed > hours {
            hours = passed;
            let so_far = progress.snapshot();
            say(&format!("{hours} h: {} requests, {} articles", so_far.requests, so_far.articles))?;
        }
        if now >= until {
            return Ok(chosen);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn host(url: &str) -> anyhow::Result<String> {
    let url = web::parse(url).context("an address of the newsroom")?;
    Ok(web::host(&url))
}

/// How long stories of the measured time waited, in intervals that held when they appeared.
async fn judge(
    newsroom: &Newsroom,
    store: &dyn Store,
    chosen: &Chosen,
    (from, until): (Ts, Ts),
    report: &mut Report,
) -> anyhow::Result<()> {
    let found = discovered(store).await?;
    let (mut stories, mut in_time, mut delays) = (0_u32, 0_u32, Vec::new());
    for story in newsroom.published(until.ms()) {
        let at = Ts::from_ms(story.published_at);
        let intervals = chosen.get(&host(&story.url)?).map_or(&[][..], Vec::as_slice);
        let held = intervals.iter().rev().find(|(since, _)| *since <= at);
        let Some((_, interval)) = held.filter(|_| at >= from) else { continue };
        let limit = Duration::from_millis(2 * interval.unsigned_abs());
        // What appeared so late that its time is not over yet says nothing.
        if at.after(limit) > until {
            continue;
        }
        stories += 1;
        let delay = found.get(&key(&story.url)?).map(|seen| seen.since(at));
        in_time += u32::from(delay.is_some_and(|delay| delay <= limit));
        delays.extend(delay.map(|delay| delay.as_secs_f64() / 60.0));
    }
    delays.sort_by(f64::total_cmp);
    let at = |share: usize| delays.get(delays.len() * share / 100).copied().unwrap_or_default();
    report.figure("stories", f64::from(stories));
    report.figure("delay_p50_min", at(50));
    report.figure("delay_p95_min", at(95));
    let share = f64::from(in_time) / f64::from(stories.max(1)) * 100.0;
    report.bar("within_two_intervals_percent", share, 95.0, Better::Higher);
    Ok(())
}

/// What a page is known by: its address without what only tracks who comes.
pub(crate) fn key(url: &str) -> anyhow::Result<String> {
    let url = web::parse(url).context("an address of the newsroom")?;
    Ok(web::key(&url, &KeyRules::default()))
}

/// When each page was first told of.
pub(crate) async fn discovered(store: &dyn Store) -> anyhow::Result<HashMap<String, Ts>> {
    let mut found = HashMap::new();
    let mut after = None;
    loop {
        let filter =
            TaskFilter { kind: Some(Kind::Article), after, limit: PAGE, ..TaskFilter::default() };
        let page = store.list(filter).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(Cursor::behind(last, Order::default()));
        for task in page {
            found.insert(key(&task.url)?, task.discovered_at);
        }
    }
}

/// Requests for feeds and sitemaps in the measured time.
fn polls(newsroom: &Newsroom, (from, until): (Ts, Ts)) -> usize {
    let log = newsroom.log();
    let within = log.iter().filter(|request| (from.ms()..until.ms()).contains(&request.began));
    let is_page = |url: &str| newsroom.story(url).is_some();
    within
        .filter(|request| !request.path.starts_with("/robots.txt"))
        .filter(|request| !is_page(&format!("http://{}{}", request.host, request.path)))
        .count()
}
