//! The demonstration: the whole engine against the simulated newsroom, judged by its truth.
//!
//! Nothing here is a special road: sources are added as an operator would add them and the same
//! engine follows them, on a clock on which hours pass in seconds.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedmill_newsroom::{Newsroom, Publisher, Setup};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::api::{self, ApiError, Listening};
use crate::app::{self, AppError, Mode, Progress, Reload, RunOptions, Snapshot};
use crate::clock::Clock;
use crate::config::{Config, Policy, Span};
use crate::db::DbError;
use crate::frontier::{Cursor, Order, TaskFilter};
use crate::model::{Kind, Lane, NewSource, Ts};
use crate::store::{ArticleFilter, SourceError, Store, Totals};

/// So many of what went wrong are named.
const EXAMPLES: usize = 5;
/// Rows read at once.
const PAGE: usize = 2_000;
/// How often those who watch are told.
const TICK: Duration = Duration::from_millis(200);

/// What to show.
#[derive(Clone, Debug)]
pub struct Options {
    /// Simulated publishers.
    pub publishers: usize,
    /// Everything simulated follows from it.
    pub seed: u64,
    /// Simulated seconds in a real one.
    pub rate: f64,
    /// How long news appears, in real time.
    pub publish_for: Duration,
    /// When to give up, in real time.
    pub limit: Duration,
    /// Where to keep what was gathered.
    pub dir: PathBuf,
    /// Go on until told to stop.
    pub keep: bool,
}

/// Why the demonstration failed.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The engine could not run.
    #[error(transparent)]
    App(#[from] AppError),
    /// The dashboard could not be shown.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The newsroom could not listen.
    #[error("cannot start the newsroom on loopback: {0}")]
    Newsroom(#[from] std::io::Error),
    /// A source could not be added.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The store could not be read.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The newsroom's address could not be given to the fetcher.
    #[error("cannot lead the fetcher to the newsroom: {0}")]
    Resolve(String),
}

/// How things stand, for those who watch.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Stories published so far.
    pub published: usize,
    /// Simulated time since the start.
    pub simulated: Duration,
    /// What the engine has done.
    pub progress: Snapshot,
    /// Where the dashboard is.
    pub dashboard: SocketAddr,
    /// The same with a token for this run, for a terminal only.
    pub login: Option<String>,
}

/// What was gathered, beside the truth.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Simulated publishers.
    pub publishers: u64,
    /// Stories that they published.
    pub published: u64,
    /// Articles gathered.
    pub articles: u64,
    /// Stories without an article.
    pub missing: u64,
    /// Articles beyond the first of the same story.
    pub doubled: u64,
    /// Articles whose text is not the story's.
    pub text_differs: u64,
    /// The first of them.
    pub differing: Vec<String>,
    /// Articles that are no story's.
    pub unknown: u64,
    /// Articles that are word for word another publisher's.
    pub duplicates: u64,
    /// Feed entries seen.
    pub entries: u64,
    /// Requests that the newsroom counted.
    pub requests: u64,
    /// Of them, answered with 304.
    pub not_modified: u64,
    /// Bytes served.
    pub bytes: u64,
    /// Requests that broke a rule of politeness.
    pub impolite_requests: u64,
    /// The first of them, for people.
    pub impolite: Vec<String>,
    /// From publication to discovery, half of the stories at most, in simulated seconds.
    pub discovery_p50_s: u64,
    /// The same for 95 of 100.
    pub discovery_p95_s: u64,
    /// Real time that it took.
    pub seconds: f64,
    /// Simulated time that passed.
    pub simulated_seconds: u64,
    /// Where everything is.
    pub data_dir: String,
}

impl Report {
    /// Whether every story was found exactly once, with its text, and nobody was disturbed.
    #[must_use]
    pub const fn is_perfect(&self) -> bool {
        self.missing == 0
            && self.doubled == 0
            && self.text_differs == 0
            && self.unknown == 0
            && self.impolite_requests == 0
    }
}

/// Runs the demonstration; `watch` is called several times a second.
pub async fn run(
    options: &Options,
    stop: CancellationToken,
    mut watch: impl FnMut(&Watch),
) -> Result<Report, DemoError> {
    let began = Instant::now();
    let clock = Clock::fast(options.rate);
    let start = clock.now();
    let end = start.after(clock.stretch(options.publish_for));
    let reading = clock.clone();
    let newsroom = Newsroom::start(Setup {
        publishers: options.publishers,
        seed: options.seed,
        history: 6,
        rate_per_hour: 4.0,
        day_profile: false,
        publish_until: (!options.keep).then_some(end.ms()),
        ..Setup::new(Arc::new(move || reading.now().ms()))
    })
    .await?;
    let config = config(options, &newsroom)?;
    let store = app::open(&config, &clock).await?;
    follow(&newsroom, &*store).await?;

    let progress = Arc::new(Progress::default());
    let engine_stop = CancellationToken::new();
    let api = listen(&config, &clock, &progress, &engine_stop).await?;
    let (dashboard, login) = (api.address(), api.login_link());
    let engine = app::run(
        &config,
        &clock,
        RunOptions { mode: Mode::Forever, lanes: Lane::ALL.to_vec() },
        engine_stop.clone(),
        Arc::clone(&progress),
    );
    let director = async {
        loop {
            let now = clock.now();
            let published = newsroom.published_count(now.ms());
            let (simulated, progress) = (now.since(start), progress.snapshot());
            watch(&Watch { published, simulated, progress, dashboard, login: login.clone() });
            let told = stop.is_cancelled();
            let late = !options.keep && began.elapsed() >= options.limit;
            let all = !options.keep && now > end && found_all(&*store, published).await;
            if told || late || all {
                engine_stop.cancel();
                return;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    };
    let (ran, (), ()) = tokio::join!(engine, director, api.run());
    ran?;
    let mut report = compare(&newsroom, &*store, &config, start, clock.now()).await?;
    report.seconds = began.elapsed().as_secs_f64();
    report.data_dir = options.dir.display().to_string();
    store.close().await;
    newsroom.stop().await;
    Ok(report)
}

/// The HTTP server, where it usually is, or anywhere when that place is taken.
async fn listen(
    config: &Config,
    clock: &Clock,
    progress: &Arc<Progress>,
    stop: &CancellationToken,
) -> Result<Listening, DemoError> {
    let mut config = config.clone();
    let (again, progress) = (Reload::fixed(&config), Arc::clone(progress));
    match api::listen(&config, clock, again.clone(), Arc::clone(&progress), stop.clone()).await {
        Err(ApiError::Listen { .. }) => {
            config.api.listen.set_port(0);
            Ok(api::listen(&config, clock, again, progress, stop.clone()).await?)
        }
        listening => Ok(listening?),
    }
}

async fn found_all(store: &dyn Store, published: usize) -> bool {
    let totals = store.totals().await.unwrap_or_else(|_| Totals::default());
    totals.articles >= published as u64
}

/// The configuration for following a newsroom.
pub fn config(options: &Options, newsroom: &Newsroom) -> Result<Config, DemoError> {
    let lead = format!("*.test={}", newsroom.addr());
    let lead = lead.parse().map_err(|error| DemoError::Resolve(format!("{error}")))?;
    let mut config = Config { data_dir: options.dir.clone(), ..Config::default() };
    config.fetch.resolve.push(lead);
    config.fetch.contact = "https://newsroom.test/about-this-robot".to_owned();
    config.schedule.policy = Policy::Fixed;
    config.schedule.default_interval = Span::minutes(15);
    config.schedule.sitemap_interval = Span::minutes(30);
    Ok(config)
}

/// Adds a newsroom's publishers as sources, as an operator would.
pub async fn follow(newsroom: &Newsroom, store: &dyn Store) -> Result<(), DemoError> {
    for publisher in newsroom.publishers() {
        store.add_source(source(publisher)).await?;
    }
    Ok(())
}

/// What an operator would say about a simulated publisher.
fn source(publisher: &Publisher) -> NewSource {
    let feed = publisher.feed_url();
    NewSource {
        sitemap_urls: if feed.is_some() { Vec::new() } else { publisher.sitemap_urls() },
        feed_urls: feed.into_iter().collect(),
        category: publisher.categories.first().map(ToString::to_string),
        ..NewSource::new(publisher.host.clone(), publisher.url("/"))
    }
}

/// Lays what was gathered beside the truth.
pub async fn compare(
    newsroom: &Newsroom,
    store: &dyn Store,
    config: &Config,
    start: Ts,
    now: Ts,
) -> Result<Report, DemoError> {
    let published = newsroom.published(now.ms());
    let totals = store.totals().await?;
    let counters = newsroom.counters();
    let impolite = newsroom.impolite(i64::try_from(config.hosts.delay.as_millis()).unwrap_or(1000));
    let mut report = Report {
        publishers: newsroom.publishers().len() as u64,
        published: published.len() as u64,
        articles: totals.articles,
        duplicates: totals.duplicates,
        entries: totals.entries,
        requests: counters.requests,
        not_modified: counters.not_modified,
        bytes: counters.bytes,
        impolite_requests: impolite.len() as u64,
        impolite: impolite.iter().take(EXAMPLES).map(|one| format!("{one:?}")).collect(),
        simulated_seconds: now.since(start).as_secs(),
        ..Report::default()
    };
    let mut times: HashMap<String, u64> = HashMap::new();
    let mut before_row = None;
    loop {
        let filter = ArticleFilter { before_row, limit: PAGE, ..ArticleFilter::default() };
        let page = store.articles(filter).await?;
        let Some((last, _)) = page.last() else { break };
        before_row = Some(*last);
        for (_, row) in &page {
            let Some(story) = newsroom.story(&row.article.url) else {
                report.unknown += 1;
                continue;
            };
            let text = store.article(row.id).await?.map(|(_, text)| text).unwrap_or_default();
            if text != story.text {
                report.text_differs += 1;
                if report.differing.len() < EXAMPLES {
                    report.differing.push(story.url.clone());
                }
            }
            *times.entry(story.url).or_default() += 1;
        }
    }
    report.doubled = times.values().map(|n| n - 1).sum();
    report.missing =
        published.iter().filter(|story| !times.contains_key(&story.url)).count() as u64;
    (report.discovery_p50_s, report.discovery_p95_s) = delays(newsroom, store, start).await?;
    Ok(report)
}

/// From publication to discovery, for what was published while we looked.
async fn delays(
    newsroom: &Newsroom,
    store: &dyn Store,
    start: Ts,
) -> Result<(u64, u64), DemoError> {
    let mut delays = Vec::new();
    let mut after = None;
    loop {
        let filter =
            TaskFilter { kind: Some(Kind::Article), after, limit: PAGE, ..TaskFilter::default() };
        let page = store.list(filter).await?;
        let Some(last) = page.last() else { break };
        after = Some(Cursor::behind(last, Order::default()));
        for task in &page {
            let published = newsroom.story(&task.url).map(|story| Ts::from_ms(story.published_at));
            if let Some(published) = published.filter(|at| *at >= start) {
                delays.push(task.discovered_at.since(published).as_secs());
            }
        }
    }
    delays.sort_unstable();
    let at = |share: usize| delays.get(delays.len() * share / 100).copied().unwrap_or_default();
    Ok((at(50), at(95)))
}
