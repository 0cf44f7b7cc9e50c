//! Who may work on a directory and on an embedded database, and the presence of processes that only
//! serve the API.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::premises::own_time;
use super::{AppError, Ending, pg_limits};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{EngineLock, Eviction, LockError, PgDb, Role, ServerLock};

/// How often a process that serves a database looks whether its lock file is still there.
const LOOK: Duration = Duration::from_secs(2);

/// One engine per directory, for the archive has one writer; and per embedded database, wherever
/// that is.
pub(super) fn lock(config: &Config) -> Result<Vec<EngineLock>, AppError> {
    let mut locks = vec![EngineLock::take(&config.data_dir.join("engine.lock"))?];
    locks.extend(EngineLock::take_dir(&config.data_dir)?);
    if config.postgres_url().is_none() {
        locks.push(EngineLock::take_database(&config.database_path())?);
    }
    Ok(locks)
}

/// An embedded database that nobody works on while this is kept.
#[derive(Debug)]
pub struct FileLocks {
    _engine: EngineLock,
    _server: ServerLock,
}

/// Why an embedded database cannot be had alone.
#[derive(Debug)]
pub enum AloneError {
    /// Somebody works on it.
    InUse(String),
    /// The locks cannot be used.
    Lock(LockError),
}

impl From<LockError> for AloneError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

/// Takes an embedded database from engines and from those who serve it.
pub fn lock_alone(database: &Path) -> Result<FileLocks, AloneError> {
    let in_use = |who| {
        Err(AloneError::InUse(format!("{who} runs on {}: stop it first", database.display())))
    };
    let engine = match EngineLock::take_database(database) {
        Err(LockError::Held { .. }) => return in_use("an engine"),
        taken => taken?,
    };
    match ServerLock::alone(database)? {
        Some(server) => Ok(FileLocks { _engine: engine, _server: server }),
        None => in_use("an API server"),
    }
}

/// The presence of a process that only serves the API, until it is told to end.
#[derive(Debug)]
pub struct Presence {
    shared: Option<PgDb>,
    looking: TaskTracker,
    end: CancellationToken,
}

impl Presence {
    /// Ends it.
    pub async fn end(self) {
        self.end.cancel();
        self.looking.close();
        self.looking.wait().await;
        if let Some(db) = self.shared {
            db.close().await;
        }
    }
}

/// Lets nobody take the store from a process that only serves the API.
pub async fn be_present(
    config: &Config,
    clock: &Clock,
    ending: &Ending,
) -> Result<Presence, AppError> {
    let (looking, end) = (TaskTracker::new(), CancellationToken::new());
    let Some(url) = config.postgres_url() else {
        let path = config.database_path();
        let held = ServerLock::share(&path)?.ok_or_else(|| taken(&path))?;
        looking.spawn(stay(path, held, ending.clone(), end.clone()));
        return Ok(Presence { shared: None, looking, end });
    };
    let db = PgDb::connect_with(url, own_time(clock), pg_limits(config)).await?;
    if !db.work(Role::Api, evicted(&db, ending)).await? {
        return Err(AppError::Taken(db.place()));
    }
    Ok(Presence { shared: Some(db), looking, end })
}

fn taken(database: &Path) -> AppError {
    AppError::Taken(database.display().to_string())
}

/// Puts the lock file back when somebody deletes it.
async fn stay(database: PathBuf, mut held: ServerLock, ending: Ending, end: CancellationToken) {
    loop {
        tokio::select! {
            () = end.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        if held.is_in_place() {
            continue;
        }
        match ServerLock::share(&database) {
            Ok(Some(again)) => held = again,
            Ok(None) => return ending.fail(taken(&database)),
            Err(error) => tracing::warn!(%error, "the lock file of the API server is gone"),
        }
    }
}

/// What ends a process that loses its database.
pub(super) fn evicted(db: &PgDb, ending: &Ending) -> impl Fn(Eviction) + Send + use<> {
    let (place, ending) = (db.place(), ending.clone());
    move |eviction| {
        ending.fail(match eviction {
            Eviction::Taken => AppError::Evicted(place.clone()),
            Eviction::SchemaGone(message) => AppError::SchemaGone { place: place.clone(), message },
        });
    }
}
