//! Where an installation is: its directories, who may work there, and its store, for an engine or beside one.
//!
//! Whoever opens a store gets a whole one. Two engines never share a directory or an embedded database.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::wiring::rules;
use super::{AppError, carry, discover};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::transfer::{self, TransferError};
use crate::db::{Db, EngineLock, LockError, OwnTime, PgDb};
use crate::frontier::postgres::PgFrontier;
use crate::frontier::sqlite::SqliteFrontier;
use crate::frontier::{Adopted, Rules};
use crate::store::{PgStore, SqliteStore, Store};

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

pub(super) fn make_dir(dir: &Path) -> Result<(), AppError> {
    fs::create_dir_all(dir)
        .map_err(|source| AppError::DataDir { dir: dir.display().to_string(), source })
}

/// Directories that the engine writes to. A sink's are not among them: it is held up alone.
pub(super) fn dirs(config: &Config) -> Vec<PathBuf> {
    let embedded = config.postgres_url().is_none().then(|| config.database_path());
    let database = embedded.and_then(|path| path.parent().map(Path::to_owned));
    let all = [Some(config.data_dir.clone()), database, Some(config.archive_dir())];
    all.into_iter().flatten().filter(|dir| dir.is_dir()).collect()
}

/// One engine per directory, for the archive has one writer; and per embedded database, wherever
/// that is.
pub(super) fn lock(config: &Config) -> Result<Vec<EngineLock>, AppError> {
    let mut locks = vec![EngineLock::take(&config.data_dir.join("engine.lock"))?];
    if config.postgres_url().is_none() {
        locks.push(lock_of(&config.database_path())?);
    }
    Ok(locks)
}

pub(super) fn lock_of(database: &Path) -> Result<EngineLock, LockError> {
    EngineLock::take(&EngineLock::of_database(database))
}

/// Opens the store for an engine and puts right what an earlier one left. Leases in an embedded
/// store are nobody's any more; in a shared one they may be another machine's, and run out.
pub(super) async fn take_up(
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

/// Where a sink's place in the log is kept. Files are of one machine, and so is the place of a sink
/// that writes them: each machine that shares a store writes the whole log.
pub(crate) fn cursor_name(config: &Config, name: &str) -> String {
    let shared = config.postgres_url().and_then(|_| shared_name(config, name));
    shared.unwrap_or_else(|| name.to_owned())
}

/// The name of this machine's place on a shared store; `None` for a sink that writes no files.
pub(super) fn shared_name(config: &Config, name: &str) -> Option<String> {
    let dir = config.sink_dir(name)?;
    let node = rustix::system::uname();
    let dir = std::path::absolute(&dir).unwrap_or(dir);
    Some(format!("{name}@{}:{}", node.nodename().to_string_lossy(), dir.display()))
}
