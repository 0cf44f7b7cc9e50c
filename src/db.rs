//! Connections: the embedded database's writer and readers, PostgreSQL's pool, migrations, the lock
//! of a directory, and who may read its files.
//!
//! No SQL of the product lives here; it is beside the code that means something by it.

pub mod backup;
mod check;
mod damaged;
mod file;
mod lock;
pub mod migrate;
pub(crate) mod postgres;
pub mod private;
mod sqlite;
pub mod statement;
pub mod transfer;

pub use check::quick_check;
pub(crate) use damaged::{whole, whole_rows};
pub use file::{FileError, open_own};
pub use lock::{EngineLock, LockError, ServerLock};
pub use postgres::{Conn, Eviction, Hold, InUse, OwnTime, PgDb, PgLimits, Role, Session};
pub use rusqlite::Connection;
pub use sqlite::{Db, read_unless_open};

/// Whether the address of a PostgreSQL server can be read; if not, why.
pub fn check_postgres_url(url: &str) -> Result<(), &'static str> {
    url.parse::<postgres::Address>().map(|_| ())
}

/// Bytes free on the disk that holds a directory.
pub fn free_bytes(dir: &std::path::Path) -> std::io::Result<u64> {
    let disk = rustix::fs::statvfs(dir)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Why the database did not do what it was asked to.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DbError {
    /// It cannot be opened or made.
    #[error("cannot open the database {path}: {message}")]
    Open {
        /// The file.
        path: String,
        /// What the system says.
        message: String,
    },
    /// Opening it could do harm.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its pages do not fit together, some are missing, or it is something else.
    #[error(
        "the database {path} is damaged ({message}): restore a backup with `feedmill restore FILE --force`, or move it away and build it from the archive with `feedmill rebuild`"
    )]
    Damaged {
        /// The file.
        path: String,
        /// What SQLite says.
        message: String,
    },
    /// Its schema does not fit this program.
    #[error("{0}")]
    Schema(String),
    /// Another process holds it for longer than we wait.
    #[error("the database is busy: another process holds it")]
    Busy,
    /// The server cannot be reached, or the connection broke. What was under way may or may not
    /// have happened.
    #[error("the database cannot be reached: {0}; work goes on by itself once it answers")]
    Lost(String),
    /// A statement took longer than it may.
    #[error(
        "the database is too slow: {0}; tried again later (database.statement_timeout is the limit)"
    )]
    Slow(String),
    /// There is no room left.
    #[error("the disk under {0} is full: free some room, work goes on by itself")]
    Full(String),
    /// The disk refuses to read or to write.
    #[error("the disk fails: {0}; work goes on by itself once it does not")]
    Disk(String),
    /// Anything else that the engine below says.
    #[error("database: {0}")]
    Engine(String),
    /// A row holds what no version of this program writes.
    #[error("damaged {what} in the database: {value}; `feedmill doctor` lists what is damaged")]
    Corrupt {
        /// Which column.
        what: &'static str,
        /// What it holds.
        value: String,
    },
    /// The writer has stopped.
    #[error("the database is closed")]
    Closed,
}

impl DbError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Open { .. } => "database_open",
            Self::File(error) => error.code(),
            Self::Damaged { .. } => "store_damaged",
            Self::Schema(_) => "database_schema",
            Self::Busy => "database_busy",
            Self::Lost(_) => "database_lost",
            Self::Slow(_) => "database_slow",
            Self::Full(_) => "disk_full",
            Self::Disk(_) => "disk_failed",
            Self::Engine(_) => "database_error",
            Self::Corrupt { .. } => "database_corrupt",
            Self::Closed => "database_closed",
        }
    }

    /// Whether waiting may help.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Busy | Self::Lost(_) | Self::Slow(_) | Self::Full(_) | Self::Disk(_))
    }

    /// Why a file could not be opened as a database. SQLite reads nothing before the first statement,
    /// so that one counts as well.
    pub(crate) fn opening(path: &std::path::Path, error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        let (shown, message) = (path.display().to_string(), error.to_string());
        if let Some(DatabaseCorrupt | NotADatabase) = error.sqlite_error_code() {
            return Self::Damaged { path: shown, message };
        }
        match Self::from(error) {
            full @ Self::Full(_) => full.at(path),
            _ => Self::Open { path: shown, message },
        }
    }

    /// The same with the place that it is about.
    fn at(self, path: &std::path::Path) -> Self {
        match self {
            Self::Full(_) => Self::Full(path.display().to_string()),
            Self::Disk(message) => Self::Disk(format!("{}: {message}", path.display())),
            other => other,
        }
    }
}

/// That tables which were there are gone.
fn schema_gone(message: &str) -> String {
    format!("the tables of the database are gone or another version's ({message})")
}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error;
        use rusqlite::ErrorCode;
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DiskFull) => Self::Full("the database".to_owned()),
            Some(ErrorCode::SystemIoFailure) => Self::Disk(error.to_string()),
            Some(ErrorCode::DatabaseCorrupt) => {
                Self::Corrupt { what: "page", value: error.to_string() }
            }
            // That error shows the whole statement; its message says what is wrong.
            _ => match error {
                // The first is of a new statement, the second of one that was prepared before.
                Error::SqlInputError { msg, .. } | Error::SqliteFailure(_, Some(msg))
                    if msg.starts_with("no such table") || msg.starts_with("no such column") =>
                {
                    Self::Schema(schema_gone(&msg))
                }
                Error::SqlInputError { msg, .. } => Self::Engine(msg),
                other @ (Error::FromSqlConversionFailure(..)
                | Error::IntegralValueOutOfRange(..)
                | Error::InvalidColumnType(..)
                | Error::Utf8Error(..)) => {
                    Self::Corrupt { what: "column", value: other.to_string() }
                }
                other => Self::Engine(other.to_string()),
            },
        }
    }
}
