//! One engine per embedded directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

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
    /// Takes the directory for this process, or says who has it.
    pub fn take(dir: &Path) -> Result<Self, LockError> {
        let shown = || dir.display().to_string();
        let unwritable = |source| LockError::Unwritable { dir: shown(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join("engine.lock"))
            .map_err(unwritable)?;
        match file.try_lock() {
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

    /// Whether an engine runs there now.
    #[must_use]
    pub fn is_held(dir: &Path) -> bool {
        match File::open(dir.join("engine.lock")) {
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
        assert!(!EngineLock::is_held(dir.path()));
        let first = EngineLock::take(dir.path()).unwrap();
        assert!(EngineLock::is_held(dir.path()));
        let message = EngineLock::take(dir.path()).unwrap_err().to_string();
        assert!(message.contains(&std::process::id().to_string()), "{message}");
        drop(first);
        EngineLock::take(dir.path()).unwrap();
    }
}
