//! Where an installation is: its directories, who may work there, and its store, for an engine or beside one.
//!
//! Whoever opens a store gets a whole one. Two engines never share a directory or an embedded database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::locks::evicted;
use super::wiring::{pg_limits, rules};
use super::{AppError, Ending, carry, discover, rebuild, store_mark};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::private;
use crate::db::transfer::{self, TransferError};
use crate::db::{Db, EngineLock, InUse, OwnTime, PgDb, Role, migrate};
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
    let db = connect_shared(url, config, clock).await?;
    whole(transfer::noted_on(&db).await?, &db.place())?;
    let adopted = PgFrontier::adopted(&db).await?;
    Ok(Arc::new(PgStore::new(db, as_adopted(adopted, rules(config, clock)))))
}

/// Connects and brings the schema up to date, unless there was a store that is gone.
async fn connect_shared(url: &str, config: &Config, clock: &Clock) -> Result<PgDb, AppError> {
    rebuild::check_finished(config)?;
    let db = PgDb::connect_with(url, own_time(clock), pg_limits(config)).await?;
    store_mark::check_shared(config, &db).await?;
    migrate::postgres::up(&mut db.maintenance().await?).await?;
    store_mark::leave(config, &db.place(), clock);
    Ok(db)
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
    ending: &Ending,
) -> Result<Arc<dyn Store>, AppError> {
    let db = connect_shared(url, config, clock).await?;
    let place = db.place();
    whole(transfer::noted_on(&db).await?, &place)?;
    let store = PgStore::new(db.clone(), rules(config, clock));
    adopt_shared(&db, store.frontier(), &place).await?;
    if !db.work(Role::Engine, evicted(&db, ending)).await? {
        return Err(AppError::Taken(place));
    }
    // Somebody may have begun to move it since.
    whole(transfer::noted_on(&db).await?, &place)?;
    // A directory that cannot be made is told by the archive, which is in it.
    if private::make_dir(&config.data_dir).is_ok() {
        store_mark::leave(config, &place, clock);
    }
    Ok(Arc::new(store))
}

/// Puts hosts where the configuration wants them, which needs nobody else to work.
async fn adopt_shared(db: &PgDb, frontier: &PgFrontier, place: &str) -> Result<(), AppError> {
    if frontier.has_adopted().await? {
        return Ok(());
    }
    let alone = db.alone_among_engines().await?;
    let differs = |in_use: InUse| AppError::Differs(place.to_owned(), in_use.to_string());
    let alone = alone.map_err(differs)?;
    frontier.free_leases().await?;
    let moved = frontier.adopt().await?;
    alone.release().await;
    tracing::info!(moved, "hosts are grouped as configured");
    Ok(())
}

pub(super) fn own_time(clock: &Clock) -> Option<OwnTime> {
    let reading = clock.clone();
    (!clock.is_system()).then(|| OwnTime::new(move || reading.now().ms()))
}

async fn open_embedded(config: &Config, clock: &Clock) -> Result<SqliteStore, AppError> {
    let db = open_file(config).await?;
    store_mark::leave(config, &config.database_path().display().to_string(), clock);
    let adopted = db.read(SqliteFrontier::adopted).await?;
    Ok(SqliteStore::new(db, clock.clone(), as_adopted(adopted, rules(config, clock))))
}

async fn open_file(config: &Config) -> Result<Db, AppError> {
    rebuild::check_finished(config)?;
    store_mark::check_file(config)?;
    make_dir(&config.data_dir)?;
    let path = config.database_path();
    let place = path.display().to_string();
    let db = carry::blocking(move || Db::open(&path)).await?;
    whole(db.read(transfer::noted).await?, &place)?;
    Ok(db)
}

pub(super) fn make_dir(dir: &Path) -> Result<(), AppError> {
    private::make_dir(dir)
        .map_err(|source| AppError::DataDir { dir: dir.display().to_string(), source })
}

/// Directories that the engine writes to. A sink's are not among them: it is held up alone.
pub(super) fn dirs(config: &Config) -> Vec<PathBuf> {
    let embedded = config.postgres_url().is_none().then(|| config.database_path());
    let database = embedded.and_then(|path| path.parent().map(Path::to_owned));
    let all = [Some(config.data_dir.clone()), database, Some(config.archive_dir())];
    all.into_iter().flatten().filter(|dir| dir.is_dir()).collect()
}

/// Opens the store for an engine and puts right what an earlier one left.
///
/// What keeps other engines away from it is added to `locks`. Leases in an embedded store are left over from
/// an engine that has ended; in a shared one they may be another machine's, and run out.
pub(super) async fn take_up(
    config: &Config,
    clock: &Clock,
    ending: &Ending,
    locks: &mut Vec<EngineLock>,
) -> Result<Arc<dyn Store>, AppError> {
    let (store, freed): (Arc<dyn Store>, u64) = match config.postgres_url() {
        Some(url) => (work_on_shared(url, config, clock, ending).await?, 0),
        None => {
            let (path, ending) = (config.database_path(), ending.clone());
            store_mark::check_pages(&path, move |error| ending.fail(error)).await?;
            let db = open_file(config).await?;
            locks.extend(EngineLock::take_log(&path)?);
            store_mark::leave(config, &path.display().to_string(), clock);
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
