//! Backups: one file that is an ordinary embedded database, whatever store it was taken from, and
//! beside it, if wanted, the archive's segments that it refers to.
//!
//! A file has its name only once it is whole, checked and on disk. Restoring never destroys what
//! was there: it is refused, or set aside.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::carry::{
    Alone, CarryError, Place, Watch, blocking, check_present, identity, renamed_sinks, transfer,
};
use super::catalog::{self, Catalog};
use super::{pg_limits, rules};
use crate::archive::{self, Carried as Segments};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::transfer::{PgSide, Plan, SqliteSide, holds_data, rename_sinks, tables};
use crate::db::{Connection, Db, DbError, PgDb, backup};
use crate::store::{Outbox as _, RestoredIds, SqliteStore, Store as _};

/// What was backed up.
#[derive(Clone, Debug, Serialize)]
pub struct BackedUp {
    /// The file.
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// What came along of the archive, and where it is.
    pub archive: Option<(PathBuf, Segments)>,
}

/// Writes a backup of the configured store, beside engines that may be running.
pub async fn back_up(
    config: &Config,
    clock: &Clock,
    to: &Path,
    with_archive: bool,
    watch: Watch,
) -> Result<BackedUp, CarryError> {
    super::rebuild::check_finished(config)?;
    let file =
        if to.is_dir() { to.join(format!("feedmill-{}.db", stamp(clock))) } else { to.into() };
    let beside = segments_of(&file);
    if let Some(taken) = [&file, &beside].into_iter().find(|path| path.exists()) {
        return Err(CarryError::Exists(taken.display().to_string()));
    }
    let partial = backup::with(&file, ".partial");
    backup::remove(&partial).map_err(CarryError::io(&partial))?;
    let written = write(config, &partial, watch).await;
    if written.is_err() {
        // What is left of it is of no use; that it cannot be removed is not what went wrong.
        drop(backup::remove(&partial));
    }
    written?;
    let archive = if with_archive {
        let carried = carry_beside(config, &partial, &beside).await;
        if carried.is_err() {
            // Else its name would be taken when it is tried again.
            drop((std::fs::remove_dir_all(&beside), backup::remove(&partial)));
        }
        Some((beside, carried?))
    } else {
        None
    };
    backup::publish(&partial, &file)?;
    let bytes = file.metadata().map_err(CarryError::io(&file))?.len();
    Ok(BackedUp { file, bytes, archive })
}

async fn write(config: &Config, partial: &Path, mut watch: Watch) -> Result<(), CarryError> {
    let file = partial.to_owned();
    match Place::configured(config) {
        Place::Embedded(path) => {
            check_present(config, &path)?;
            blocking(move || backup::copy(&path, &file, watch.as_mut())).await?;
        }
        Place::Shared(url) => {
            let db = PgDb::open_with(url.expose(), None, pg_limits(config)).await?;
            let source = Box::new(PgSide::open(&db).await?);
            let target = Box::new(blocking(move || SqliteSide::open(&file)).await?);
            let plan = Plan { from: db.place(), ..Plan::default() };
            transfer(source, target, plan, watch).await?;
            db.close().await;
        }
    }
    let file = partial.to_owned();
    let of = config.database_path().display().to_string();
    let is_embedded = config.postgres_url().is_none();
    blocking(move || {
        backup::seal(&file)?;
        backup::check(&file).map_err(|error| match error {
            // The copy has what the database has.
            backup::Unsound::Damaged { message, .. } if is_embedded => {
                DbError::Damaged { path: of, message }.into()
            }
            error => error.into(),
        })
    })
    .await
}

/// Where the segments of a backup are.
fn segments_of(file: &Path) -> PathBuf {
    file.with_extension("archive")
}

/// Brings the segments that a backup refers to beside it, wherever they are.
async fn carry_beside(config: &Config, file: &Path, to: &Path) -> Result<Segments, CarryError> {
    let (from, wanted) = (super::reader(config)?, backup::segments(file)?);
    let mut carried = carry_segments(from.dir().to_owned(), to.to_owned(), wanted).await?;
    if let Some(remote) = from.remote() {
        carried.fetch(remote, to).await?;
    }
    Ok(carried)
}

/// Forgets those missing that can be read from the bucket; one that cannot be asked has none.
async fn without_kept_elsewhere(config: &Config, mut back: Segments) -> Segments {
    let Some(remote) = super::reader(config).ok().and_then(|reader| reader.remote().cloned())
    else {
        return back;
    };
    for name in std::mem::take(&mut back.missing) {
        if !matches!(remote.size(&name).await, Ok(Some(_))) {
            back.missing.push(name);
        }
    }
    back
}

async fn carry_segments(
    from: PathBuf,
    to: PathBuf,
    wanted: Vec<(String, u64)>,
) -> Result<Segments, CarryError> {
    blocking(move || Ok(archive::carry(&from, &to, &wanted)?)).await
}

/// A time as part of a name.
fn stamp(clock: &Clock) -> String {
    clock.now().to_string().chars().filter(char::is_ascii_digit).take(14).collect()
}

/// What was restored.
#[derive(Clone, Debug, Serialize)]
pub struct Restored {
    /// Where to.
    pub place: String,
    /// What was there before.
    pub set_aside: Option<PathBuf>,
    /// What came back of the archive.
    pub archive: Option<Segments>,
}

/// Makes a backup the configured store.
pub async fn restore(
    config: &Config,
    clock: &Clock,
    file: &Path,
    force: bool,
    watch: Watch,
) -> Result<Restored, CarryError> {
    if !file.is_file() {
        return Err(backup::Unsound::Foreign(file.display().to_string()).into());
    }
    let checked = file.to_owned();
    blocking(move || Ok::<_, CarryError>(backup::check(&checked)?)).await?;
    super::make_dir(&config.data_dir)?;
    let place = Place::configured(config);
    let target = Alone::with(&place, config).await?;
    let copy = backup::with(&config.database_path(), ".restoring");
    backup::remove(&copy).map_err(CarryError::io(&copy))?;
    let restored = match &place {
        Place::Embedded(path) => restore_file(config, clock, file, &copy, path, force, watch).await,
        Place::Shared(_) => restore_rows(config, clock, file, &copy, &target, force, watch).await,
    };
    // Only something that failed leaves a copy.
    backup::remove(&copy).map_err(CarryError::io(&copy))?;
    let (set_aside, events) = restored?;
    target.close().await;
    super::rebuild::abandon(config);
    catalog::note_events(config, clock, events).await?;
    let kept = segments_of(file);
    let archive = match kept.is_dir() {
        true => {
            let back = carry_segments(kept, config.archive_dir(), backup::segments(file)?).await?;
            Some(without_kept_elsewhere(config, back).await)
        }
        false => None,
    };
    Ok(Restored { place: place.to_string(), set_aside, archive })
}

/// A copy of the backup, up to date: the backup itself stays as it is.
///
/// The log goes on behind everything that was written to it since the backup, and channels get new numbers:
/// whoever was given an event since then must not be given another one with the same id. The place in the log that
/// the next event is behind is returned.
async fn renew(
    config: &Config,
    clock: &Clock,
    file: &Path,
    copy: &Path,
    mut watch: Watch,
) -> Result<i64, CarryError> {
    let (from, to) = (file.to_owned(), copy.to_owned());
    let db = blocking(move || {
        backup::copy(&from, &to, watch.as_mut())?;
        Ok::<_, CarryError>(Db::open(&to)?)
    })
    .await?;
    let catalog = Catalog::read(&Catalog::path(config)).ok().flatten();
    let store = SqliteStore::new(db, clock.clone(), rules(config, clock));
    let restored = async {
        let last = store.log_ends(0).await?.last;
        let events = catalog::events_behind(catalog.as_ref(), last);
        let reserve = catalog.as_ref().map_or(0, catalog::highest);
        store.restore_ids(RestoredIds { events, reserve, ..RestoredIds::default() }).await?;
        Ok::<_, DbError>(events)
    };
    let restored = restored.await;
    store.close().await;
    Ok(restored?)
}

async fn restore_file(
    config: &Config,
    clock: &Clock,
    file: &Path,
    copy: &Path,
    path: &Path,
    force: bool,
    watch: Watch,
) -> Result<(Option<PathBuf>, i64), CarryError> {
    let there = path.exists();
    let target = path.to_owned();
    // What cannot be read may still be of use to somebody.
    let used = there && blocking(move || is_used(&target)).await.unwrap_or(true);
    if used && !force {
        return Err(CarryError::Occupied(path.display().to_string()));
    }
    let events = renew(config, clock, file, copy, watch).await?;
    rename_sinks(
        &Connection::open(copy).map_err(DbError::from)?,
        &renamed_sinks(config, &Place::Embedded(path.to_owned())),
    )?;
    backup::seal(copy)?;
    let aside = used.then(|| backup::with(path, &format!(".{}", stamp(clock))));
    match &aside {
        Some(aside) => backup::rename(path, aside).map_err(CarryError::io(aside))?,
        None => backup::remove(path).map_err(CarryError::io(path))?,
    }
    backup::publish(copy, path)?;
    Ok((aside, events))
}

fn is_used(path: &Path) -> Result<bool, DbError> {
    holds_data(&mut SqliteSide::open(path)?, &tables()?)
}

async fn restore_rows(
    config: &Config,
    clock: &Clock,
    file: &Path,
    copy: &Path,
    target: &Alone,
    force: bool,
    watch: Watch,
) -> Result<(Option<PathBuf>, i64), CarryError> {
    let events = renew(config, clock, file, copy, Box::new(|_| {})).await?;
    let mut side = target.side().await?;
    let (mut side, used) = blocking(move || {
        let used = side.note()?.is_none() && holds_data(side.as_mut(), &tables()?)?;
        Ok::<_, DbError>((side, used))
    })
    .await?;
    let mut aside = None;
    if used {
        if !force {
            return Err(CarryError::Occupied(target.identity()));
        }
        let kept = config.data_dir.join(format!("before-restore-{}.db", stamp(clock)));
        Box::pin(back_up(config, clock, &kept, false, Box::new(|_| {}))).await?;
        side = blocking(move || {
            side.clear(&tables()?)?;
            Ok::<_, DbError>(side)
        })
        .await?;
        aside = Some(kept);
    }
    let opened = copy.to_owned();
    let source = Box::new(blocking(move || SqliteSide::open(&opened)).await?);
    let sinks = renamed_sinks(config, &Place::configured(config));
    let plan = Plan { from: identity(file), restart: force, alone: false, sinks };
    transfer(source, side, plan, watch).await?;
    target.free_leases(config, clock).await?;
    Ok((aside, events))
}
