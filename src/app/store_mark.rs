//! Whether a store is where one was: an emptied database file beside an archive is not a new
//! installation.
//!
//! A small file in the data directory says that there was a store; so do segments of the archive. Where
//! either is found, a store is never made anew without the operator's word.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::AppError;
use crate::archive::Archive;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{
    DbError, EngineLock, PgDb, backup, migrate, private, quick_check, read_unless_open,
};
use crate::model::Ts;

/// How every SQLite file begins.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Its header, and the first bytes of the page that lists its tables.
const PAGE_HEAD: u64 = 105;
/// Those bytes where there are none: a leaf, no free block, no cell.
const NO_TABLES: &[u8] = &[13, 0, 0, 0, 0];

/// The mark: a store was made, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    store: String,
    since: String,
}

/// What is where the store should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// No file, or a database without our tables.
    Nothing,
    /// A file of 0 bytes.
    Empty,
    /// A database without a table, as is left when its log (`-wal`) is lost.
    Blank,
    /// Something that is not a database.
    Foreign,
    /// A store, as far as a first look tells.
    Store,
}

/// What tells that there was a store.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Evidence {
    Mark(PathBuf),
    Segments(PathBuf),
}

/// Why a store must not be made anew, or used; `None` when it may. Pure.
fn refusal(found: Found, place: &str, evidence: Option<&Evidence>) -> Option<String> {
    let what = match found {
        Found::Store => return None,
        Found::Nothing => "there is no database at",
        Found::Empty => "the database file is empty (0 bytes):",
        Found::Blank => "the database has no tables:",
        Found::Foreign => "the file is not a database:",
    };
    let (why, aside) = match evidence? {
        Evidence::Mark(path) => (format!("{} says that there was one", path.display()), path),
        Evidence::Segments(dir) => (format!("{} holds archived responses", dir.display()), dir),
    };
    let first = if found == Found::Foreign {
        "Move it away. Then restore a backup"
    } else {
        "Restore a backup"
    };
    Some(format!(
        "{what} {place}, but {why}. {first} with `feedmill restore FILE`, or build the \
         database from the archive with `feedmill rebuild`. To start with an empty one, move {} away",
        aside.display()
    ))
}

fn mark_path(config: &Config) -> PathBuf {
    config.data_dir.join("store.json")
}

fn evidence(config: &Config) -> Option<Evidence> {
    let (mark, archive) = (mark_path(config), config.archive_dir());
    if fs::symlink_metadata(&mark).is_ok() {
        return Some(Evidence::Mark(mark));
    }
    has_segments(&archive).then_some(Evidence::Segments(archive))
}

/// Whether there are segments in a directory, closed or open.
pub(super) fn has_segments(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_file = entry.metadata().is_ok_and(|found| found.is_file() && found.len() > 0);
        is_file && Archive::is_segment(&name)
    })
}

fn look(path: &Path) -> Found {
    let mut head = Vec::new();
    let read = read_unless_open(path, || {
        fs::metadata(path).and_then(|about| match about.is_file() {
            true => {
                fs::File::open(path)?.take(PAGE_HEAD).read_to_end(&mut head).map(|_| about.len())
            }
            false => Ok(1),
        })
    });
    let Some(read) = read else { return Found::Store };
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
        // Whoever opens it says what is wrong.
        Err(_) => Found::Store,
        Ok(0) => Found::Empty,
        Ok(_) if !head.starts_with(MAGIC) => Found::Foreign,
        Ok(_) if head.ends_with(NO_TABLES) && !has_log(path) => Found::Blank,
        Ok(_) => Found::Store,
    }
}

/// Whether tables may be in the log beside a database, where a process that was killed left them. SQLite
/// keeps it where a link leads.
fn has_log(path: &Path) -> bool {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    fs::metadata(backup::with(&path, "-wal")).is_ok_and(|log| log.len() > 0)
}

fn refuse(config: &Config, found: Found, place: &str) -> Result<(), AppError> {
    match refusal(found, place, evidence(config).as_ref()) {
        Some(message) => Err(AppError::StoreGone(message)),
        None => Ok(()),
    }
}

/// Whether something is in a file that is not a database.
pub(super) fn is_foreign(path: &Path) -> bool {
    look(path) == Found::Foreign
}

/// Refuses when the embedded store is gone; nothing is made or changed.
pub fn check_file(config: &Config) -> Result<(), AppError> {
    let path = config.database_path();
    // By another name its tables may be in a log that is not found.
    EngineLock::check_file(&path)?;
    refuse(config, look(&path), &path.display().to_string())
}

/// The same for a shared store that has no tables of ours.
pub async fn check_shared(config: &Config, db: &PgDb) -> Result<(), AppError> {
    let steps = migrate::postgres::status(&db.client().await?).await?;
    let is_made = steps.iter().any(|step| step.applied);
    refuse(config, if is_made { Found::Store } else { Found::Nothing }, &db.place())
}

/// Leaves the mark, once there is a store. A directory that cannot be written to gets none.
pub(super) fn leave(config: &Config, place: &str, clock: &Clock) {
    let path = mark_path(config);
    // Beside PostgreSQL only engines make the directory.
    if path.exists() || !config.data_dir.is_dir() {
        return;
    }
    if let Err(error) = write(&path, place, clock.now()) {
        let path = path.display();
        tracing::warn!(%path, %error, "cannot write the file that tells that there is a store");
    }
}

fn write(path: &Path, place: &str, now: Ts) -> io::Result<()> {
    let mark = Mark { store: place.to_owned(), since: now.to_string() };
    // Each process has its own: two may be first.
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let mut file = private::create_regular(&part)?;
    file.write_all(&serde_json::to_vec_pretty(&mark)?)?;
    file.sync_all()?;
    fs::rename(&part, path)
}

/// Refuses a damaged database. One that is too large to be read in a moment is read to its end beside
/// the work that begins; `on_damage` is called when something is wrong then.
pub(super) async fn check_pages(
    path: &Path,
    on_damage: impl FnOnce(AppError) + Send + 'static,
) -> Result<(), AppError> {
    if look(path) != Found::Store {
        return Ok(());
    }
    let place = path.display().to_string();
    let shown = place.clone();
    let mut check = quick_check(path, move |message| {
        on_damage(DbError::Damaged { path: shown, message }.into());
    });
    let done = match tokio::time::timeout(CHECK_BUDGET, &mut check).await {
        Ok(done) => done.ok().flatten(),
        Err(_) => {
            // From here on damage is told as it is found; what was found just now is still here.
            check.close();
            tracing::info!("the database is large: it is checked while the engine runs");
            check.try_recv().ok().flatten()
        }
    };
    done.map_or(Ok(()), |message| Err(DbError::Damaged { path: place, message }.into()))
}

/// How long a start waits for the check of the database's pages.
const CHECK_BUDGET: std::time::Duration = std::time::Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Connection;

    #[test]
    fn a_store_that_was_is_never_made_anew() {
        let mark = Evidence::Mark("data/store.json".into());
        let segments = Evidence::Segments("data/archive".into());
        for found in [Found::Nothing, Found::Empty, Found::Blank, Found::Foreign] {
            assert_eq!(refusal(found, "a.db", None), None);
            for evidence in [&mark, &segments] {
                let said = refusal(found, "a.db", Some(evidence)).unwrap();
                for word in ["a.db", "feedmill restore FILE", "feedmill rebuild", "data/"] {
                    assert!(said.contains(word), "{said}");
                }
            }
        }
        assert_eq!(refusal(Found::Store, "a.db", Some(&mark)), None);
    }

    #[test]
    fn a_file_is_a_store_by_its_first_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        assert_eq!(look(&path), Found::Nothing);
        fs::write(&path, "").unwrap();
        assert_eq!(look(&path), Found::Empty);
        fs::write(&path, "SQLite").unwrap();
        assert_eq!(look(&path), Found::Foreign);
        fs::remove_file(&path).unwrap();
        // All that it has is in its log until it is closed. `Db` would be known to be open here.
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(x)").unwrap();
        assert_eq!(look(&path), Found::Store);
        let below = dir.path().join("below");
        fs::create_dir(&below).unwrap();
        let link = below.join("linked.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(look(&link), Found::Store);
        let lone = dir.path().join("b.db");
        fs::copy(&path, &lone).unwrap();
        assert_eq!(look(&lone), Found::Blank);
        drop(conn);
        assert_eq!(look(dir.path()), Found::Foreign);
    }
}
