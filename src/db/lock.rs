//! One engine per embedded directory and per embedded database, by whatever path it is reached.
//!
//! The lock of a database is beside the file that its path leads to, as its write-ahead log is.
//! Others can neither read nor hold it.
//!
//! A lock file can be deleted while it is held, and the next process would make and lock another. So
//! an engine also locks what nobody deletes without harm: the data directory itself, and the
//! write-ahead log. SQLite has no locks of its own on that file, unlike the database file, whose locks a
//! process loses as soon as it closes any handle on it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file::{self, FileError, with_suffix};
use super::private;

/// How often a lock that is held is looked at again before it counts.
const LOOKS: u32 = 10;
/// The time between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Held while an engine runs; the system frees it even when the process is killed.
#[derive(Debug)]
pub struct EngineLock {
    _file: File,
}

/// Why no engine can start here.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another one runs.
    #[error(
        "another engine{} already runs on {dir}: stop it, or choose another data_dir",
        process(pid)
    )]
    Held {
        /// The directory.
        dir: String,
        /// The other process, as far as it said.
        pid: String,
    },
    /// Its lock file leads elsewhere or is no file at all.
    #[error(
        "{path} is not a regular file with one name but a link, a directory or the like: remove it, the next start \
         makes it anew"
    )]
    NotRegular {
        /// The file.
        path: String,
    },
    /// Its database cannot be opened without harm.
    #[error(transparent)]
    File(#[from] FileError),
    /// The directory cannot be written.
    #[error("cannot write to {dir}: {source}")]
    Unwritable {
        /// The directory.
        dir: String,
        /// What the system says.
        source: std::io::Error,
    },
}

fn process(pid: &str) -> String {
    if pid.is_empty() { String::new() } else { format!(" (process {pid})") }
}

impl EngineLock {
    /// The file that says whether an engine runs on a database: the same for every path that leads
    /// to it.
    #[must_use]
    pub fn of_database(database: &Path) -> PathBuf {
        with_suffix(database, ".lock")
    }

    /// Takes the lock of a database for this process, or says who has it.
    pub fn take_database(database: &Path) -> Result<Self, LockError> {
        Self::check_file(database)?;
        let lock = Self::take(&Self::of_database(database))?;
        if is_locked(&log_of(database)) {
            // The lock file of the engine that has the log was deleted.
            return Err(LockError::Held { dir: shown_dir(database), pid: String::new() });
        }
        Ok(lock)
    }

    /// Refuses a database that another engine could open beside this one, with a lock and a log of its own, and
    /// whatever blocks or leads elsewhere in the place of the files that SQLite keeps beside it.
    pub fn check_file(database: &Path) -> Result<(), LockError> {
        Ok(file::check(database)?)
    }

    /// Takes a lock file for this process, or says who has it.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let mut file = open_lock(path)?;
        let unwritable = |source| LockError::Unwritable { dir: shown_dir(path), source };
        match try_lock(&file, File::try_lock) {
            Ok(()) => {
                file.set_len(0).map_err(unwritable)?;
                file.write_all(std::process::id().to_string().as_bytes()).map_err(unwritable)?;
                Ok(Self { _file: file })
            }
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).map_err(unwritable)?;
                Err(LockError::Held { dir: shown_dir(path), pid: pid.trim().to_owned() })
            }
            Err(TryLockError::Error(source)) => Err(unwritable(source)),
        }
    }

    /// Locks a directory itself. Nothing is held where the file system knows no such locks.
    pub fn take_dir(dir: &Path) -> Result<Option<Self>, LockError> {
        let unwritable = |source| LockError::Unwritable { dir: dir.display().to_string(), source };
        Self::keep(File::open(dir).map_err(unwritable)?, dir)
    }

    /// Locks the write-ahead log of a database that is open in this process, and so stays where it is.
    pub fn take_log(database: &Path) -> Result<Option<Self>, LockError> {
        let mut options = private::options();
        match private::open_regular(options.read(true).write(true), &log_of(database)) {
            Ok(file) => Self::keep(file, database.parent().unwrap_or(database)),
            // A file system without shared memory has no such log.
            Err(_) => Ok(None),
        }
    }

    fn keep(file: File, dir: &Path) -> Result<Option<Self>, LockError> {
        match try_lock(&file, File::try_lock) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => {
                Err(LockError::Held { dir: dir.display().to_string(), pid: String::new() })
            }
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }

    /// Whether an engine runs on a database now.
    #[must_use]
    pub fn is_held(database: &Path) -> bool {
        is_locked(&Self::of_database(database)) || is_locked(&log_of(database))
    }
}

/// The presence of a process that serves an embedded database beside the engine: several may, and
/// nobody gets the database alone meanwhile.
#[derive(Debug)]
pub struct ServerLock {
    path: PathBuf,
    file: File,
}

impl ServerLock {
    fn of_database(database: &Path) -> PathBuf {
        with_suffix(database, ".api.lock")
    }

    /// Notes the presence of this process; `None` when somebody has the database alone.
    pub fn share(database: &Path) -> Result<Option<Self>, LockError> {
        let path = Self::of_database(database);
        let file = open_lock(&path)?;
        match try_lock(&file, File::try_lock_shared) {
            Ok(()) => Ok(Some(Self { path, file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => {
                Err(LockError::Unwritable { dir: shown_dir(database), source })
            }
        }
    }

    /// Keeps others from serving the database; `None` while somebody does.
    pub fn alone(database: &Path) -> Result<Option<Self>, LockError> {
        let path = Self::of_database(database);
        let file = open_lock(&path)?;
        match try_lock(&file, File::try_lock) {
            Ok(()) => Ok(Some(Self { path, file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => {
                Err(LockError::Unwritable { dir: shown_dir(database), source })
            }
        }
    }

    /// Whether its file is still where others look for it.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        let identity = |found: fs::Metadata| (found.dev(), found.ino());
        let named = fs::symlink_metadata(&self.path).ok().map(identity);
        named.is_some() && named == self.file.metadata().ok().map(identity)
    }
}

/// Opens a lock file, which others can neither read nor hold.
fn open_lock(path: &Path) -> Result<File, LockError> {
    let unwritable = |source| LockError::Unwritable { dir: shown_dir(path), source };
    let not_regular = || LockError::NotRegular { path: path.display().to_string() };
    private::tighten(path).map_err(unwritable)?;
    let options = &mut private::options();
    options.read(true).write(true).create(true).truncate(false);
    let file = private::open_regular(options, path).map_err(|error| {
        if private::NotRegular::is(&error) { not_regular() } else { unwritable(error) }
    })?;
    let found = file.metadata().map_err(unwritable)?;
    // A deleted lock file has no name, and is noticed where that matters.
    if found.nlink() > 1 { Err(not_regular()) } else { Ok(file) }
}

/// Takes a lock, also when somebody who only looks holds it for a moment.
fn try_lock(file: &File, take: fn(&File) -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    let mut taken = take(file);
    for _ in 0..LOOKS {
        if !matches!(taken, Err(TryLockError::WouldBlock)) {
            break;
        }
        std::thread::sleep(LOOK);
        taken = take(file);
    }
    taken
}

fn is_locked(path: &Path) -> bool {
    match private::read_regular(path) {
        Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
        Err(_) => false,
    }
}

/// The write-ahead log of a database, by whatever path that is reached.
fn log_of(database: &Path) -> PathBuf {
    with_suffix(database, "-wal")
}

fn shown_dir(path: &Path) -> String {
    path.parent().unwrap_or(path).display().to_string()
}

/// How many links are followed before they count as a circle.
const MAX_LINKS: usize = 40;

/// The file that a path leads to, also where that is still to be made.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::canonicalize(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found.unwrap_or(path),
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new(".")).to_owned();
        match fs::read_link(&path) {
            Ok(to) => path = dir.join(to),
            // There is nothing yet: its directory tells where it is going to be.
            Err(_) => {
                let dir = fs::canonicalize(&dir).unwrap_or(dir);
                return path.file_name().map_or_else(|| path.clone(), |name| dir.join(name));
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn every_path_to_a_database_has_the_same_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (real, by_dir) = (dir.path().join("real"), dir.path().join("dir"));
        let (by_file, by_name) = (dir.path().join("link.db"), dir.path().join("name.db"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &by_dir).unwrap();
        symlink("dir/x.db", &by_file).unwrap();
        let database = real.join("x.db");
        for made in [false, true] {
            if made {
                fs::write(&database, "").unwrap();
            }
            let held = EngineLock::take_database(&database).unwrap();
            for path in [&database, &by_dir.join("x.db"), &by_file, &real.join("../dir/x.db")] {
                assert!(EngineLock::is_held(path), "{} ({made})", path.display());
                let second = EngineLock::take_database(path);
                assert!(matches!(second, Err(LockError::Held { .. })), "{}", path.display());
            }
            drop(held);
            EngineLock::take_database(&by_file).unwrap();
        }
        fs::hard_link(&database, &by_name).unwrap();
        for path in [&database, &by_name, &by_file] {
            let refused = EngineLock::take_database(path).unwrap_err();
            assert!(refused.to_string().contains("2 hard links"), "{refused}");
        }
    }

    #[test]
    fn others_cannot_hold_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (new, old, link) =
            (dir.path().join("new"), dir.path().join("old"), dir.path().join("link"));
        drop(EngineLock::take(&new).unwrap());
        assert_eq!(mode(&new), 0o600);
        // As an earlier version left it.
        fs::write(&old, "1").unwrap();
        fs::set_permissions(&old, PermissionsExt::from_mode(0o644)).unwrap();
        drop(EngineLock::take(&old).unwrap());
        assert_eq!(mode(&old), 0o600);
        let (other, linked) = (dir.path().join("other"), dir.path().join("linked"));
        fs::write(&other, "precious").unwrap();
        fs::hard_link(&other, &linked).unwrap();
        let said = EngineLock::take(&linked).unwrap_err().to_string();
        assert!(said.contains("one name"), "{said}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
        symlink(dir.path().join("elsewhere"), &link).unwrap();
        let said = EngineLock::take(&link).unwrap_err().to_string();
        assert!(said.contains(&link.display().to_string()) && said.contains("remove it"), "{said}");
        assert!(!dir.path().join("elsewhere").exists());
        // A FIFO would block until somebody opens its other end.
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let fifo = dir.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(matches!(EngineLock::take(&fifo), Err(LockError::NotRegular { .. })));
    }

    #[test]
    fn the_second_engine_is_told_about_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("x.db");
        let lock = EngineLock::of_database(&database);
        assert!(!EngineLock::is_held(&database));
        let first = EngineLock::take(&lock).unwrap();
        assert!(EngineLock::is_held(&database));
        let message = EngineLock::take(&lock).unwrap_err().to_string();
        assert!(message.contains(&std::process::id().to_string()), "{message}");
        drop(first);
        EngineLock::take(&lock).unwrap();
    }

    #[test]
    fn a_deleted_lock_file_undoes_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("x.db");
        let db = crate::db::Db::open(&database).unwrap();
        let held = (
            EngineLock::take_database(&database).unwrap(),
            EngineLock::take_log(&database).unwrap().expect("a log"),
            EngineLock::take_dir(dir.path()).unwrap().expect("a directory"),
        );
        fs::remove_file(EngineLock::of_database(&database)).unwrap();
        assert!(EngineLock::is_held(&database));
        let is_refused = |taken| matches!(taken, Err(LockError::Held { .. }));
        assert!(is_refused(EngineLock::take_database(&database).map(Some)));
        assert!(is_refused(EngineLock::take_log(&database)));
        assert!(is_refused(EngineLock::take_dir(dir.path())));
        drop(held);
        assert!(!EngineLock::is_held(&database));
        EngineLock::take_database(&database).unwrap();
        drop(db);
    }

    #[test]
    fn those_who_serve_a_database_share_it_and_nobody_has_it_alone() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("x.db");
        let served = [(), ()].map(|()| ServerLock::share(&database).unwrap().unwrap());
        assert!(ServerLock::alone(&database).unwrap().is_none());
        assert!(served.iter().all(ServerLock::is_in_place));
        fs::remove_file(ServerLock::of_database(&database)).unwrap();
        assert!(!served.iter().any(ServerLock::is_in_place));
        let again = ServerLock::share(&database).unwrap().unwrap();
        assert!(ServerLock::alone(&database).unwrap().is_none());
        drop(again);
        let _alone = ServerLock::alone(&database).unwrap().unwrap();
        assert!(ServerLock::share(&database).unwrap().is_none());
    }
}
