//! Builds the parts from the configuration, starts them, and stops them in order: first what
//! claims, then what is under way, then what commits, then the sinks, then the database.

pub mod backup;
pub mod carry;
mod catalog;
pub mod deliver;
pub mod discover;
pub mod edit;
mod ending;
mod erase;
pub mod etiquette;
pub mod explain;
pub mod export;
pub mod forget;
pub mod hosts;
pub mod import;
pub mod keep;
pub mod lists;
mod locks;
pub mod pace;
pub mod pauses;
mod poll;
mod premises;
mod price;
mod quota;
pub mod raw;
pub mod rebuild;
mod reload;
pub mod replay;
mod sample;
pub mod shelf;
pub mod sinks;
pub mod standing;
mod store_mark;
pub mod submit;
pub(crate) mod times;
pub mod told;
mod wiring;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::archive::{Archive, ArchiveError};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::transfer::TransferError;
use crate::db::{DbError, LockError};
use crate::fetch::{
    self, Client, Committer, Desk, Dispatcher, FetchError, Guard, Handover, Hold, Server, Stuck,
    note_losses,
};
use crate::model::Lane;
use crate::store::{Store, TimesAhead};

pub use crate::fetch::Mode;
pub use crate::progress::{Progress, Snapshot};
pub use ending::Ending;
use locks::lock;
pub use locks::{AloneError, FileLocks, Presence, be_present, lock_alone};
pub(crate) use poll::first_interval;
pub use poll::poll;
pub(crate) use premises::cursor_name;
pub use premises::open;
use premises::{dirs, make_dir, shared_name, take_up};
pub use reload::{Reload, ReloadError};
pub use store_mark::{check_file, check_shared};
pub use times::longest_interval;
pub(crate) use wiring::key_rules;
use wiring::{
    archive_settings, house, lease, policy, robots_agent, rules, serve_settings, with_settings,
};
pub use wiring::{client, client_behind, pg_limits, reader};

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
        "hosts.groups or hosts.concurrency is not what the engines on {0} run with: stop them all, and give all of them the same ({1})"
    )]
    Differs(String, String),
    /// Somebody has the database alone, and took it while it could not be reached.
    #[error(
        "{0} was taken for a move, a restore or a migration while it could not be reached: start again when that has ended"
    )]
    Evicted(String),
    /// The tables were removed under a process that uses them.
    #[error(
        "the tables in {place} are gone ({message}): somebody removed them while this process ran. Restore a backup with `feedmill restore FILE`, or build the database from the archive with `feedmill rebuild`"
    )]
    SchemaGone {
        /// The database.
        place: String,
        /// What it says.
        message: String,
    },
    /// The database cannot be used.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The database holds half of another one.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// There was a store, and it is gone.
    #[error("{0}")]
    StoreGone(String),
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
            Self::Lock(LockError::File(error)) => error.code(),
            Self::Lock(LockError::Unwritable { .. }) => "data_dir_unwritable",
            Self::Lock(LockError::NotRegular { .. }) => "lock_not_regular",
            Self::Taken(_) | Self::Evicted(_) => "database_taken",
            Self::SchemaGone { .. } => "schema_gone",
            Self::Differs(..) => "hosts_differ",
            Self::Db(error) => error.code(),
            Self::Transfer(error) => error.code(),
            Self::StoreGone(_) => "store_gone",
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
    let (mut locks, ending) = (lock(config)?, Ending::new(stop.clone()));
    let store = take_up(config, clock, &ending, &mut locks).await?;
    let config = &with_settings(config, reloading.as_ref(), &*store).await;
    Handover::of(&config.data_dir).clear();
    times::check(config, &*store).await;
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
    upkeep.spawn(times::keep(
        Arc::new(config.clone()),
        Arc::clone(&store),
        clock.clone(),
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
    let log = (Arc::clone(&store), clock.clone(), Arc::clone(&progress), upkeep_stop.clone());
    let events_age = config.retention.events.duration();
    upkeep.spawn(deliver::keep_log(events_age, log.0, log.1, log.2, log.3));
    upkeep.spawn(gauges(config, clock, &store, &progress, upkeep_stop.clone()));
    let keeper =
        keep::Keeper::new(config, Arc::clone(&archive), Arc::clone(&store), clock.clone())?;
    progress.clock_trust.start(keeper.last_write()?, clock.now());
    let keeping = keeper.keep(Arc::clone(&progress), upkeep_stop.clone());
    let keeping = upkeep.spawn(keeping);
    let asking = (tuned.client.clone(), tuned.guard.clone());
    let (server, committing) = serving(config, clock, asking, &store, &archive, &progress);
    upkeep.spawn(watch_database(config, &store, &server, &ending, upkeep_stop.clone()));
    let quota = quota::QuotaKeeper::new(config, clock, &store, &server.usage, dirs(config));
    upkeep.spawn(quota.keep(upkeep_stop.clone()));
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
    if let Err(error) = note_losses(&*store, &archive).await {
        tracing::warn!(%error, "lost archive segments could not be noted");
    }
    if let Err(error) = catalog::keep(&*store, &catalog::Catalog::path(config)).await {
        tracing::warn!(%error, "cannot write the catalog that a rebuild needs");
    }
    if let Ok(mut keeper) = keeping.await {
        match tokio::time::timeout(LAST_DELIVERY, keeper.bring_away()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "segments wait here for the next start"),
            Err(_) => tracing::warn!("segments wait here for the next start"),
        }
    }
    store.close().await;
    drop(locks);
    ending.result()?;
    ran?;
    Ok(progress.snapshot())
}

/// Pauses work while the database does not answer, and ends it when the tables are gone.
fn watch_database(
    config: &Config,
    store: &Arc<dyn Store>,
    server: &Server,
    ending: &Ending,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let (ending, place) = (ending.clone(), carry::Place::configured(config).to_string());
    let gone = move |message| ending.fail(AppError::SchemaGone { place, message });
    fetch::watch_database(Arc::clone(store), server.hold.clone(), gone, stop)
}

/// Looks for stored times that lie too far ahead, and changes nothing.
pub async fn look_for_times_ahead(config: &Config, clock: &Clock) -> Result<TimesAhead, AppError> {
    let store = open(config, clock).await?;
    let sources = store.sources().await?;
    let found = store.times_ahead(times::horizon(config, &sources)).await;
    store.close().await;
    Ok(found?)
}

/// Keeps the gauges that come from the store and from disks true, until it is told to stop.
pub fn gauges(
    config: &Config,
    clock: &Clock,
    store: &Arc<dyn Store>,
    progress: &Arc<Progress>,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let sampler = sample::Sampler {
        store: Arc::clone(store),
        progress: Arc::clone(progress),
        clock: clock.clone(),
        dirs: dirs(config),
        archive: config.archive_dir(),
        messages: config.log.messages,
    };
    sampler.keep(stop)
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
        desk: Desk::new(progress),
        large_documents: Arc::new(Semaphore::new(1)),
        house: Arc::new(house(config)),
        settings: serve_settings(config, clock),
        clock: clock.clone(),
        progress: Arc::clone(progress),
        robots: Arc::default(),
        usage: Default::default(),
    };
    (server, committing)
}
