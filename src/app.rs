//! Builds the parts from the configuration, starts them, and stops them in order: first what
//! claims, then what is under way, then what commits, then the sinks, then the database.

pub mod backup;
pub mod carry;
pub mod deliver;
pub mod discover;
pub mod edit;
mod erase;
pub mod etiquette;
pub mod explain;
pub mod export;
pub mod forget;
pub mod hosts;
pub mod import;
pub mod keep;
pub mod lists;
mod poll;
mod price;
pub mod raw;
mod reload;
pub mod replay;
mod sample;
pub mod shelf;
pub mod sinks;
pub mod standing;
pub mod told;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use feedmill_formats::url::KeyRules;

use crate::archive::{self, Archive, ArchiveError, Bucket, Reader, Remote};
use crate::clock::Clock;
use crate::config::{
    self, Check, Config, Group, OnServerError, Policy as Choose, RetryMode, SchemeInKey,
    UrlEquality,
};
use crate::db::transfer::{self, TransferError};
use crate::db::{Db, DbError, EngineLock, LockError, OwnTime, PgDb};
use crate::fetch::{
    Client, ClientSettings, Committer, Desk, Dispatcher, FetchError, Guard, Hold, ServeSettings,
    Server, Stuck,
};
use crate::frontier::postgres::PgFrontier;
use crate::frontier::sqlite::SqliteFrontier;
use crate::frontier::{Adopted, Rules};
use crate::handle::probe::Search;
use crate::handle::{
    External, House, RedirectPolicy, Redirects, Refetching, Spidering, Taking, Validation,
};
use crate::model::{Lane, PollPolicy, RefetchPolicy};
use crate::schedule::{Backoff, Factors, OnPermanent, OnThreshold, Policy, Waits};
use crate::store::{PgStore, SqliteStore, Store};

pub use crate::fetch::Mode;
pub use crate::progress::{Progress, Snapshot};
pub(crate) use poll::first_interval;
pub use poll::poll;
pub use reload::{Reload, ReloadError};

/// Sinks get this long to hand over the rest of the log when the engine stops.
const LAST_DELIVERY: Duration = Duration::from_secs(20);

/// Why the house could not be built.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The data directory cannot be made.
    #[error(
        "cannot make the data directory {dir}: {source}; choose another with --data-dir or data_dir"
    )]
    DataDir {
        /// Which.
        dir: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// Another engine runs, or the directory cannot be written.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Somebody has the database alone.
    #[error("{0} is being moved or restored: wait until that has ended")]
    Taken(String),
    /// Another engine works with other rules.
    #[error(
        "hosts.groups or hosts.concurrency is not what the engines on {0} run with: stop them all, and give all of them the same"
    )]
    Differs(String),
    /// The database cannot be used.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The database holds half of another one.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The archive cannot be used.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// What was to be done once cannot be done now.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// A sink cannot be made of what is configured.
    #[error("sink {name}: {reason}")]
    Sink {
        /// Which.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The HTTP client cannot be made.
    #[error("cannot make the HTTP client: {0}")]
    Client(#[from] FetchError),
}

impl AppError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::DataDir { .. } => "data_dir",
            Self::Lock(LockError::Held { .. }) => "engine_running",
            Self::Lock(LockError::Unwritable { .. }) => "data_dir_unwritable",
            Self::Taken(_) => "database_taken",
            Self::Differs(_) => "hosts_differ",
            Self::Db(error) => error.code(),
            Self::Transfer(error) => error.code(),
            Self::Archive(error) => error.code(),
            Self::Stuck(_) => "stuck",
            Self::Sink { .. } => "sink",
            Self::Client(_) => "client",
        }
    }

    fn sink(name: &str, reason: &dyn std::fmt::Display) -> Self {
        Self::Sink { name: name.to_owned(), reason: reason.to_string() }
    }

    /// What the process ends with: 1, because the command line and the configuration were fine.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        1
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Until when.
    pub mode: Mode,
    /// Which lanes to serve.
    pub lanes: Vec<Lane>,
}

/// Opens the store that the configuration names, making what is missing.
pub async fn open(config: &Config, clock: &Clock) -> Result<Arc<dyn Store>, AppError> {
    match config.postgres_url() {
        Some(url) => open_shared(url, config, clock).await,
        None => Ok(Arc::new(open_embedded(config, clock).await?)),
    }
}

/// A shared store's time is its server's own, unless the process runs on a clock of its making.
async fn open_shared(
    url: &str,
    config: &Config,
    clock: &Clock,
) -> Result<Arc<dyn Store>, AppError> {
    let db = PgDb::open(url, own_time(clock)).await?;
    whole(transfer::noted_on(&db).await?, &db.place())?;
    let adopted = PgFrontier::adopted(&db).await?;
    Ok(Arc::new(PgStore::new(db, as_adopted(adopted, rules(config, clock)))))
}

/// Beside an engine, and without one, hosts are where the last engine put them.
fn as_adopted(adopted: Option<Adopted>, rules: Rules) -> Rules {
    match adopted {
        Some(adopted) => adopted.in_place_of(rules),
        None => rules,
    }
}

/// Half of a store is none: what is written there is lost when the move begins again.
fn whole(noted: bool, place: &str) -> Result<(), AppError> {
    if noted { Err(TransferError::Unfinished(place.to_owned()).into()) } else { Ok(()) }
}

/// The same for an engine, which nobody may take the database from while it works.
async fn work_on_shared(
    url: &str,
    config: &Config,
    clock: &Clock,
    stop: &CancellationToken,
) -> Result<Arc<dyn Store>, AppError> {
    let db = PgDb::open(url, own_time(clock)).await?;
    let (place, evicted) = (db.place(), stop.clone());
    let stop_work = move || {
        tracing::error!("the database was taken while its connection was lost: the engine stops");
        evicted.cancel();
    };
    whole(transfer::noted_on(&db).await?, &place)?;
    let store = PgStore::new(db.clone(), rules(config, clock));
    adopt_shared(&db, store.frontier(), &place).await?;
    if !db.work(stop_work).await? {
        return Err(AppError::Taken(place));
    }
    // Somebody may have begun to move it since.
    whole(transfer::noted_on(&db).await?, &place)?;
    Ok(Arc::new(store))
}

/// Puts hosts where the configuration wants them, which needs nobody else to work.
async fn adopt_shared(db: &PgDb, frontier: &PgFrontier, place: &str) -> Result<(), AppError> {
    if frontier.has_adopted().await? {
        return Ok(());
    }
    let Some(alone) = db.alone().await? else { return Err(AppError::Differs(place.to_owned())) };
    frontier.free_leases().await?;
    let moved = frontier.adopt().await?;
    alone.release().await;
    tracing::info!(moved, "hosts are grouped as configured");
    Ok(())
}

fn own_time(clock: &Clock) -> Option<OwnTime> {
    let reading = clock.clone();
    (!clock.is_system()).then(|| OwnTime::new(move || reading.now().ms()))
}

async fn open_embedded(config: &Config, clock: &Clock) -> Result<SqliteStore, AppError> {
    let db = open_file(config).await?;
    let adopted = db.read(SqliteFrontier::adopted).await?;
    Ok(SqliteStore::new(db, clock.clone(), as_adopted(adopted, rules(config, clock))))
}

async fn open_file(config: &Config) -> Result<Db, AppError> {
    make_dir(&config.data_dir)?;
    let path = config.database_path();
    let place = path.display().to_string();
    let db = carry::blocking(move || Db::open(&path)).await?;
    whole(db.read(transfer::noted).await?, &place)?;
    Ok(db)
}

fn make_dir(dir: &Path) -> Result<(), AppError> {
    fs::create_dir_all(dir)
        .map_err(|source| AppError::DataDir { dir: dir.display().to_string(), source })
}

/// Runs the engine until it is told to stop, or until everything due is done.
pub async fn run(
    config: &Config,
    clock: &Clock,
    options: RunOptions,
    stop: CancellationToken,
    progress: Arc<Progress>,
) -> Result<Snapshot, AppError> {
    run_reloading(config, clock, options, stop, progress, None).await
}

/// The same, with a configuration that is read again while it runs.
pub async fn run_reloading(
    config: &Config,
    clock: &Clock,
    options: RunOptions,
    stop: CancellationToken,
    progress: Arc<Progress>,
    reloading: Option<Reload>,
) -> Result<Snapshot, AppError> {
    make_dir(&config.data_dir)?;
    let locks = lock(config)?;
    let store = take_up(config, clock, &stop).await?;
    let config = &with_settings(config, reloading.as_ref(), &*store).await;
    let archive = Arc::new(Archive::open(archive_settings(config), clock.clone())?);
    let (tuned, running) = (Arc::new(reload::tuning(config, clock)?), Arc::new(config.clone()));
    let (work, tuning) = watch::channel(Arc::clone(&tuned));
    let (running, configured) = watch::channel(running);

    let sinks_stop = CancellationToken::new();
    let sinks = TaskTracker::new();
    for pump in deliver::pumps(config, clock, &store, &progress, &sinks_stop)? {
        sinks.spawn(pump.run());
    }
    let (upkeep, upkeep_stop) = (TaskTracker::new(), CancellationToken::new());
    upkeep.spawn(price::keep(
        Arc::clone(&store),
        move || {
            let config = configured.borrow();
            (config.schedule.budget.per_day(), policy(&config).bounds())
        },
        clock.clone(),
        Arc::clone(&progress),
        upkeep_stop.clone(),
    ));
    upkeep.spawn(lists::keep(
        Arc::new(config.clone()),
        Arc::clone(&store),
        clock.clone(),
        upkeep_stop.clone(),
    ));
    if let Some(reload) = reloading {
        let (store, clock, stop) = (Arc::clone(&store), clock.clone(), upkeep_stop.clone());
        upkeep.spawn(reload::keep(reload, running, work, store, clock, stop));
    }
    let log = (config.clone(), Arc::clone(&store), clock.clone(), upkeep_stop.clone());
    upkeep.spawn(async move { deliver::keep_log(&log.0, log.1, log.2, log.3).await });
    let sampler = sample::Sampler {
        store: Arc::clone(&store),
        progress: Arc::clone(&progress),
        clock: clock.clone(),
        dirs: dirs(config),
        archive: config.archive_dir(),
        messages: config.log.messages,
    };
    upkeep.spawn(sampler.keep(upkeep_stop.clone()));
    let keeper =
        keep::Keeper::new(config, Arc::clone(&archive), Arc::clone(&store), clock.clone())?;
    let keeping = keeper.keep(upkeep_stop.clone());
    let keeping = upkeep.spawn(keeping);
    let asking = (tuned.client.clone(), tuned.guard.clone());
    let (server, committing) = serving(config, clock, asking, &store, &archive, &progress);
    let dispatcher = Dispatcher {
        server,
        tuning,
        lanes: options.lanes,
        workers: config.fetch.workers,
        mode: options.mode,
        dirs: dirs(config),
        min_free: config.retention.min_free.as_bytes(),
    };
    let ran = dispatcher.run(stop).await;

    upkeep_stop.cancel();
    upkeep.close();
    upkeep.wait().await;
    committing.close();
    committing.wait().await;
    sinks_stop.cancel();
    sinks.close();
    if tokio::time::timeout(LAST_DELIVERY, sinks.wait()).await.is_err() {
        tracing::warn!("a sink is behind; it goes on at the next start");
    }
    archive.close()?;
    if let Ok(mut keeper) = keeping.await {
        match tokio::time::timeout(LAST_DELIVERY, keeper.bring_away()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "segments wait here for the next start"),
            Err(_) => tracing::warn!("segments wait here for the next start"),
        }
    }
    store.close().await;
    drop(locks);
    ran?;
    Ok(progress.snapshot())
}

/// What serves leases, and what commits their outcomes.
fn serving(
    config: &Config,
    clock: &Clock,
    (client, guard): (Client, Guard),
    store: &Arc<dyn Store>,
    archive: &Arc<Archive>,
    progress: &Arc<Progress>,
) -> (Server, TaskTracker) {
    let committing = TaskTracker::new();
    let hold = Hold::new(Arc::clone(progress));
    let (store, archive) = (Arc::clone(store), Arc::clone(archive));
    let committer = Committer::start(
        Arc::clone(&store),
        Arc::clone(&archive),
        hold.clone(),
        Arc::clone(progress),
        &committing,
    );
    let server = Server {
        client,
        guard,
        store,
        archive,
        committer,
        hold,
        desk: Desk::default(),
        house: Arc::new(house(config)),
        settings: serve_settings(config, clock),
        clock: clock.clone(),
        progress: Arc::clone(progress),
        robots: Arc::default(),
    };
    (server, committing)
}

/// What is configured, with what the store keeps of it. What cannot be used is told, and left out.
async fn with_settings(config: &Config, reload: Option<&Reload>, store: &dyn Store) -> Config {
    let Some(reload) = reload else { return config.clone() };
    match reload.now(store).await {
        Ok(read) => config::reload(config, &read).config,
        Err(error) => {
            tracing::error!(%error, "what `config set` changed cannot be used");
            config.clone()
        }
    }
}

/// Directories that the engine writes to. A sink's are not among them: it is held up alone.
fn dirs(config: &Config) -> Vec<PathBuf> {
    let embedded = config.postgres_url().is_none().then(|| config.database_path());
    let database = embedded.and_then(|path| path.parent().map(Path::to_owned));
    let all = [Some(config.data_dir.clone()), database, Some(config.archive_dir())];
    all.into_iter().flatten().filter(|dir| dir.is_dir()).collect()
}

/// One engine per directory, for the archive has one writer; and per embedded database, wherever
/// that is.
fn lock(config: &Config) -> Result<Vec<EngineLock>, AppError> {
    let mut locks = vec![EngineLock::take(&config.data_dir.join("engine.lock"))?];
    if config.postgres_url().is_none() {
        locks.push(lock_of(&config.database_path())?);
    }
    Ok(locks)
}

fn lock_of(database: &Path) -> Result<EngineLock, LockError> {
    EngineLock::take(&EngineLock::of_database(database))
}

/// Opens the store for an engine and puts right what an earlier one left. Leases in an embedded
/// store are nobody's any more; in a shared one they may be another machine's, and run out.
async fn take_up(
    config: &Config,
    clock: &Clock,
    stop: &CancellationToken,
) -> Result<Arc<dyn Store>, AppError> {
    let (store, freed): (Arc<dyn Store>, u64) = match config.postgres_url() {
        Some(url) => (work_on_shared(url, config, clock, stop).await?, 0),
        None => {
            let db = open_file(config).await?;
            let store = SqliteStore::new(db, clock.clone(), rules(config, clock));
            let freed = store.frontier().free_leases().await?;
            let moved = store.frontier().adopt().await?;
            if moved > 0 {
                tracing::info!(moved, "hosts are grouped as configured");
            }
            (Arc::new(store), freed)
        }
    };
    let mended = store.maintain().await?;
    let begun = discover::begin(config, &*store).await?;
    if begun > 0 {
        tracing::info!(begun, "channels are looked for");
    }
    if freed + mended > 0 {
        tracing::info!(freed, mended, "took up what an earlier run left");
    }
    Ok(store)
}

pub(crate) fn key_rules(config: &Config) -> KeyRules {
    KeyRules {
        keep_trailing_slash: config.normalize.keep_trailing_slash,
        keeping: config
            .normalize
            .keep_trailing_slash_on
            .iter()
            .map(|host| host.to_ascii_lowercase())
            .collect(),
        keep_scheme: config.normalize.scheme_in_key == SchemeInKey::Given,
        exact: config.dedup.url_equality == UrlEquality::Exact,
        tracking: config.normalize.tracking.iter().map(|name| name.to_ascii_lowercase()).collect(),
    }
}

/// Leases outlast real time limits, whatever clock the store runs on.
fn lease(config: &Config, clock: &Clock) -> Duration {
    clock.stretch(config.fetch.task_timeout.duration() * 2)
}

fn rules(config: &Config, clock: &Clock) -> Rules {
    Rules {
        key: key_rules(config),
        delay: config.hosts.delay.duration().into(),
        lease: lease(config, clock),
        robots_for_feeds: config.robots.apply_to_feeds,
        concurrency: config.hosts.concurrency,
        groups: config.hosts.groups.iter().map(Group::parts).collect(),
        discover: config.discovery.enabled,
    }
}

fn house(config: &Config) -> House {
    House {
        policy: policy(config),
        key: key_rules(config),
        max_decoded: config.fetch.max_decoded.as_len(),
        robots_ttl: config.robots.ttl.duration(),
        robots_agent: robots_agent(&config.user_agent()),
        robots_lenient: config.robots.on_server_error == OnServerError::Allow,
        sitemap_max_age: config.sitemap.max_age.duration(),
        min_html_chars: config.extract.min_html_chars,
        max_redirects: config.fetch.max_redirects,
        validation: validation(&config.validation),
        refetch: Refetching {
            policy: match config.refetch.policy {
                config::RefetchPolicy::Never => RefetchPolicy::Never,
                config::RefetchPolicy::Interval => RefetchPolicy::Interval,
                config::RefetchPolicy::OnLastmodNewer => RefetchPolicy::OnLastmodNewer,
            },
            interval: config.refetch.interval.duration(),
            times: config.refetch.times,
        },
        search: Search {
            requests: if config.discovery.enabled { config.discovery.max_requests } else { 0 },
            time: config.discovery.time_limit.duration(),
            again: config.discovery.retry.duration(),
        },
        spider: Spidering {
            max_depth: config.spider.max_depth,
            max_pages: config.spider.max_pages,
            max_page_number: config.spider.max_page_number,
            min_interval: config.spider.min_interval.duration(),
            external: match config.spider.external_links {
                config::External::Candidate => External::Candidate,
                config::External::Submit => External::Submit,
                config::External::Ignore => External::Ignore,
            },
        },
        taking: Taking {
            initial_cap: config.feed.initial_item_cap as usize,
            stale_after: config.feed.stale_after.duration(),
            unwraps: config.feed.unwrap_links,
            rejects: config.feed.reject_links.clone(),
            by_link: config.dedup.use_link_step,
            upgrades: config.normalize.upgrade_stored_url,
        },
        redirects: Redirects {
            policy: match config.redirect.policy {
                config::RedirectPolicy::Alias => RedirectPolicy::Alias,
                config::RedirectPolicy::SubmitFinal => RedirectPolicy::SubmitFinal,
                config::RedirectPolicy::Follow => RedirectPolicy::Follow,
            },
            permanent_only: config.redirect.permanent_only_alias,
        },
    }
}

fn validation(config: &config::Validation) -> Validation {
    let rejects = |check: Check| config.reject.contains(&check);
    let earliest = format!("{:04}-01-01T00:00:00Z", config.earliest_year).parse().ok();
    Validation {
        title: rejects(Check::Title).then_some(config.max_title_chars),
        earliest: earliest.filter(|_| rejects(Check::Date)),
        same_site: rejects(Check::Site),
    }
}

fn policy(config: &Config) -> Policy {
    Policy {
        choose: match config.schedule.policy {
            Choose::Value => PollPolicy::Value,
            Choose::Ewma => PollPolicy::Ewma,
            Choose::Fixed => PollPolicy::Fixed,
        },
        feed_interval: config.schedule.default_interval.duration(),
        sitemap_interval: config.schedule.sitemap_interval.duration(),
        min_interval: config.schedule.min_interval.duration(),
        max_interval: config.schedule.max_interval.duration(),
        jitter: config.schedule.jitter,
        jitter_respects_min: config.schedule.jitter_respects_min,
        ewma: Factors {
            up: config.schedule.ewma_up,
            down: config.schedule.ewma_down,
            alpha: config.schedule.ewma_alpha,
            blend: config.schedule.ewma_blend,
        },
        waits: waits(&config.schedule),
        once: config.retry.mode == RetryMode::Once,
        retries: config.retry.max,
        retry_first: config.retry.first.duration(),
        retry_cap: config.retry.cap.duration(),
        seed: 0,
    }
}

fn waits(schedule: &config::Schedule) -> Waits {
    Waits {
        backoff: match schedule.backoff {
            config::Backoff::Table => Backoff::Table,
            config::Backoff::Interval => Backoff::Interval,
            config::Backoff::None => Backoff::None,
        },
        base: schedule.backoff_base,
        cap: schedule.backoff_cap.duration(),
        threshold: schedule.failure_threshold,
        permanent: match schedule.disable_on_permanent {
            config::OnPermanent::AfterAFew => OnPermanent::AfterAFew,
            config::OnPermanent::AtOnce => OnPermanent::AtOnce,
            config::OnPermanent::Never => OnPermanent::Never,
        },
        then: match schedule.on_failure_threshold {
            config::OnThreshold::Cooldown => OnThreshold::Cooldown,
            config::OnThreshold::KeepRetrying => OnThreshold::KeepRetrying,
            config::OnThreshold::Disable => OnThreshold::Disable,
        },
    }
}

/// The product token of an agent string: what robots.txt knows us by.
fn robots_agent(agent: &str) -> String {
    agent.split(['/', ' ']).next().unwrap_or_default().to_owned()
}

fn archive_settings(config: &Config) -> archive::Settings {
    archive::Settings {
        dir: config.archive_dir(),
        segment_size: config.archive.segment_size.as_bytes(),
        segment_age: config.archive.segment_age.duration(),
        gzip_level: config.archive.gzip_level,
        agent: config.user_agent(),
    }
}

/// What reads the archive, also beside an engine.
pub fn reader(config: &Config) -> Result<Reader, ArchiveError> {
    let settings = &config.archive;
    let bucket = Bucket {
        url: settings.url.clone(),
        endpoint: settings.endpoint.clone(),
        region: settings.region.clone(),
        access_key: settings.access_key.clone(),
        secret_key: settings.secret_key.expose().to_owned(),
    };
    let remote = (!bucket.url.is_empty()).then(|| Remote::new(&bucket)).transpose()?;
    Ok(Reader::new(config.archive_dir(), remote))
}

/// The client, and the guard that it stands behind.
pub fn client(config: &Config, clock: &Clock) -> Result<(Client, Guard), AppError> {
    let guard = Guard::new(&config.fetch);
    Ok((client_behind(config, guard.clone(), clock)?, guard))
}

/// The client behind another guard.
pub fn client_behind(config: &Config, guard: Guard, clock: &Clock) -> Result<Client, AppError> {
    Ok(Client::new(client_settings(config), guard, clock.clone())?)
}

fn client_settings(config: &Config) -> ClientSettings {
    ClientSettings {
        agent: config.user_agent(),
        request_timeout: config.fetch.request_timeout.duration(),
        connect_timeout: config.fetch.connect_timeout.duration(),
        read_timeout: config.fetch.read_timeout.duration(),
        max_body: config.fetch.max_body.as_len(),
        max_sitemap: config.fetch.max_sitemap.as_len(),
        proxy: config.fetch.proxy.clone(),
        bind: config.fetch.bind.clone(),
    }
}

fn serve_settings(config: &Config, clock: &Clock) -> ServeSettings {
    ServeSettings {
        task_timeout: config.fetch.task_timeout.duration(),
        max_redirects: config.fetch.max_redirects,
        conditional_pages: config.fetch.conditional_pages,
        lease: lease(config, clock),
        messages: config.log.messages,
    }
}

/// Where a sink's place in the log is kept. Files are of one machine, and so is the place of a sink
/// that writes them: each machine that shares a store writes the whole log.
pub(crate) fn cursor_name(config: &Config, name: &str) -> String {
    let shared = config.postgres_url().and_then(|_| shared_name(config, name));
    shared.unwrap_or_else(|| name.to_owned())
}

/// The name of this machine's place on a shared store; `None` for a sink that writes no files.
fn shared_name(config: &Config, name: &str) -> Option<String> {
    let dir = config.sink_dir(name)?;
    let node = rustix::system::uname();
    let dir = std::path::absolute(&dir).unwrap_or(dir);
    Some(format!("{name}@{}:{}", node.nodename().to_string_lossy(), dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn robots_know_us_by_the_product_token() {
        assert_eq!(robots_agent("Feedmill/0.1.0 (+https://example.com/bot)"), "Feedmill");
        assert_eq!(robots_agent("NorthCloud-Crawler/1.0 (+https://x)"), "NorthCloud-Crawler");
        assert_eq!(robots_agent("plain"), "plain");
    }
}
