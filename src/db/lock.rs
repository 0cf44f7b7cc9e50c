//! One engine per embedded directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

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
        "another engine (process {pid}) already runs on {dir}: stop it, or choose another data_dir"
    )]
    Held {
        /// The directory.
        dir: String,
        /// The other process, as far as it said.
        pid: String,
    },
    /// The directory cannot be written.
    #[error("cannot write to {dir}: {source}")]
    Unwritable {
        /// The directory.
        dir: String,
        /// What the system says.
        source: std::io::Error,
    },
}

impl EngineLock {
    /// The file that says whether an engine runs on a database.
    #[must_use]
    pub fn of_database(database: &Path) -> PathBuf {
        let mut name = database.as_os_str().to_owned();
        name.push(".lock");
        name.into()
    }

    /// Takes a lock file for this process, or says who has it.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let dir = path.parent().unwrap_or(path);
        let shown = || dir.display().to_string();
        let unwritable = |source| LockError::Unwritable { dir: shown(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(unwritable)?;
        let mut taken = file.try_lock();
        for _ in 0..LOOKS {
            // Somebody who only looks holds it for a moment.
            if !matches!(taken, Err(TryLockError::WouldBlock)) {
                break;
            }
            std::thread::sleep(LOOK);
            taken = file.try_lock();
        }
        match taken {
            Ok(()) => {
                file.set_len(0).map_err(unwritable)?;
                file.write_all(std::process::id().to_string().as_bytes()).map_err(unwritable)?;
                Ok(Self { _file: file })
            }
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).map_err(unwritable)?;
                Err(LockError::Held { dir: shown(), pid: pid.trim().to_owned() })
            }
            Err(TryLockError::Error(source)) => Err(unwritable(source)),
        }
    }

    /// Whether an engine runs on a database now.
    #[must_use]
    pub fn is_held(database: &Path) -> bool {
        match File::open(Self::of_database(database)) {
            Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
