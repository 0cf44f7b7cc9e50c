//! The file of an embedded database, and the files that SQLite keeps beside it.
//!
//! SQLite opens whatever has the right name: a FIFO blocks it for ever, and another name of a foreign file is
//! written over. It finds its log beside the name by which it opens the database, so that a second name, or a
//! second directory in which the file is mounted, has a log and a lock of its own. So every connection begins
//! here.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::DbError;
use super::lock::resolved;

/// Why a file is not opened as a database.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FileError {
    /// It is a directory, a FIFO, a device or a socket.
    #[error(
        "{path} is not a file but a directory, a FIFO or the like: move it away, or name another file"
    )]
    NotFile {
        /// Where the database should be.
        path: String,
    },
    /// A file that SQLite keeps beside it leads elsewhere or is no file at all.
    #[error(
        "{path} is not a regular file with one name but a link, a directory or the like: remove it, the next start \
         makes it anew"
    )]
    Beside {
        /// The file.
        path: String,
    },
    /// It has several names.
    #[error(
        "{path} has {links} hard links: SQLite keeps its log beside the name that it opens, so that two names would damage the database; remove the others, or copy the file"
    )]
    Linked {
        /// The database.
        path: String,
        /// How many names it has.
        links: u64,
    },
    /// It is mounted by itself, without its directory.
    #[error(
        "{path} is mounted into its directory: SQLite keeps its log beside it, where no other process finds it, so that the database would be damaged; mount the whole directory"
    )]
    Mounted {
        /// The database.
        path: String,
    },
}

impl FileError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFile { .. } => "database_open",
            Self::Beside { .. } => "lock_not_regular",
            Self::Linked { .. } => "database_linked",
            Self::Mounted { .. } => "database_mounted",
        }
    }
}

/// Refuses a database of ours that another process could open with another log, and whatever cannot be opened
/// without harm.
pub(super) fn check(database: &Path) -> Result<(), FileError> {
    check_kind(database)?;
    let path = || database.display().to_string();
    match fs::metadata(database).map(|found| found.nlink()) {
        Ok(links) if links > 1 => Err(FileError::Linked { path: path(), links }),
        _ if is_mounted(&resolved(database)) => Err(FileError::Mounted { path: path() }),
        _ => Ok(()),
    }
}

/// Refuses what is no file, and files beside it that are not SQLite's alone.
fn check_kind(database: &Path) -> Result<(), FileError> {
    if fs::metadata(database).is_ok_and(|found| !found.is_file()) {
        return Err(FileError::NotFile { path: database.display().to_string() });
    }
    let is_other = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|found| !found.is_file() || found.nlink() > 1)
    };
    let beside = ["-wal", "-shm", "-journal"].map(|suffix| with_suffix(database, suffix));
    match beside.into_iter().find(is_other) {
        Some(path) => Err(FileError::Beside { path: path.display().to_string() }),
        None => Ok(()),
    }
}

/// Opens a file that may be a database, unless that could block or write over another file.
pub(super) fn open(path: &Path, flags: OpenFlags) -> Result<Connection, DbError> {
    check_kind(path)?;
    Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| DbError::opening(path, error))
}

/// Opens a database of ours as it is, for a look at its schema; it must exist unless `create` is among the flags.
pub fn open_own(path: &Path, more: OpenFlags) -> Result<Connection, DbError> {
    check(path)?;
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | more)?;
    let look = || {
        conn.busy_timeout(Duration::from_secs(5))?;
        conn.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))
    };
    look().map_err(|error| DbError::opening(path, error))?;
    Ok(conn)
}

/// Whether a file is on another mount than its directory; not where the system cannot tell.
fn is_mounted(file: &Path) -> bool {
    let mount = |path: &Path| {
        let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
        let is_known = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        is_known.then_some(found.stx_mnt_id)
    };
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    matches!((mount(file), mount(dir)), (Some(file), Some(dir)) if file != dir)
}

/// A file beside the one that a path leads to.
pub(super) fn with_suffix(database: &Path, suffix: &str) -> PathBuf {
    let mut name = resolved(database).into_os_string();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn fifo(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    /// Whether a file is refused both before it is locked and when it is opened.
    fn refusal(database: &Path) -> String {
        let checked = check(database).unwrap_err().to_string();
        let opened = open(database, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap_err().to_string();
        assert_eq!(checked, opened);
        checked
    }

    #[test]
    fn what_is_beside_a_database_is_a_file_with_one_name() {
        let dir = tempfile::tempdir().unwrap();
        let (database, other) = (dir.path().join("x.db"), dir.path().join("other"));
        fs::write(&database, "").unwrap();
        fs::write(&other, "precious").unwrap();
        for suffix in ["-wal", "-shm", "-journal"] {
            let beside = with_suffix(&database, suffix);
            fs::write(&beside, "").unwrap();
            check(&database).unwrap();
            let made: [fn(&Path, &Path); 4] = [
                |_, to| fifo(to),
                |_, to| fs::create_dir(to).unwrap(),
                |other, to| symlink(other, to).unwrap(),
                |other, to| fs::hard_link(other, to).unwrap(),
            ];
            for make in made {
                fs::remove_file(&beside).or_else(|_| fs::remove_dir(&beside)).unwrap();
                make(&other, &beside);
                let refused = refusal(&database);
                assert!(refused.contains(&beside.display().to_string()), "{refused}");
            }
            fs::remove_file(&beside).unwrap();
        }
    }

    #[test]
    fn a_database_is_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let (database, link) = (dir.path().join("x.db"), dir.path().join("link.db"));
        symlink(&database, &link).unwrap();
        for make in [fifo, |path: &Path| fs::create_dir(path).unwrap()] {
            make(&database);
            for path in [&database, &link] {
                assert!(refusal(path).contains("is not a file"));
            }
            fs::remove_file(&database).or_else(|_| fs::remove_dir(&database)).unwrap();
        }
    }

    #[test]
    fn a_file_that_is_mounted_by_itself_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.db");
        fs::write(&file, "").unwrap();
        assert!(!is_mounted(&file));
        assert!(is_mounted(Path::new("/proc")), "a mount in the directory above it");
    }
}
