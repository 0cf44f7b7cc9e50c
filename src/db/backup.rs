//! A copy of the embedded database as one sound file, taken while others write.
//!
//! The pages are copied within one read transaction: the copy is of one moment, a writer does not
//! make it begin again, and it can tell how far it is. `VACUUM INTO` would be of one moment too,
//! but builds every table anew and says nothing until it is done.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::lock::resolved;
use super::transfer::{Phase, Progress};
use super::{DbError, file, migrate, private, transfer};

/// Pages that are copied at once.
const PAGES: std::ffi::c_int = 2_048;

/// Why a file is not what can be restored.
#[derive(Debug, thiserror::Error)]
pub enum Unsound {
    /// The system or the database says so.
    #[error(transparent)]
    Db(#[from] DbError),
    /// Nothing of ours is in it.
    #[error("{0} is not a backup of feedmill: name a file that `feedmill backup` wrote")]
    Foreign(String),
    /// Its pages do not fit together.
    #[error("{path} is damaged ({message}): use another backup")]
    Damaged {
        /// The file.
        path: String,
        /// What SQLite says.
        message: String,
    },
    /// There is none.
    #[error("there is no file {0}")]
    Absent(String),
    /// It is half of something.
    #[error("{0} is the target of a move that has not come to its end: use another file")]
    Unfinished(String),
}

impl Unsound {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Db(error) => error.code(),
            Self::Foreign(_) => "not_a_backup",
            Self::Damaged { .. } => "backup_damaged",
            Self::Absent(_) => "no_such_file",
            Self::Unfinished(_) => "unfinished_move",
        }
    }
}

/// Copies a database file that may be in use to a new file.
pub fn copy(from: &Path, to: &Path, watch: &mut dyn FnMut(&Progress)) -> Result<(), DbError> {
    let source = look(from)?;
    // The moment is that of the first look; it holds until the connection is closed.
    let moment = source.execute_batch("BEGIN; SELECT count(*) FROM sqlite_master");
    moment.map_err(|error| DbError::opening(from, error))?;
    make(to);
    let mut target = open(to, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    let backup = Backup::new(&source, &mut target)?;
    loop {
        let step = backup.step(PAGES)?;
        let pages = backup.progress();
        let number = |n: std::ffi::c_int| u64::try_from(n).unwrap_or(0);
        let (total, table) = (number(pages.pagecount), String::new());
        let rows = total.saturating_sub(number(pages.remaining));
        watch(&Progress { phase: Phase::Pages, table, rows, total });
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ => return Err(DbError::Busy),
        }
    }
}

/// Makes sure that a file is ours, whole, and of a version that we know.
pub fn check(path: &Path) -> Result<(), Unsound> {
    let shown = || path.display().to_string();
    if !path.exists() {
        return Err(Unsound::Absent(shown()));
    }
    let conn = look(path)?;
    let damaged = |message: String| Unsound::Damaged { path: shown(), message };
    let known = conn.query_row(
        "SELECT count(*) = 2 FROM sqlite_master WHERE name IN ('meta', 'task')",
        [],
        |row| row.get(0),
    );
    let ours = match known {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => false,
        Err(error) => return Err(damaged(error.to_string())),
        Ok(ours) => ours,
    };
    if !ours || !migrate::status(&conn)?.iter().any(|step| step.applied) {
        return Err(Unsound::Foreign(shown()));
    }
    let said: Result<String, _> = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
    let message = said.unwrap_or_else(|error| error.to_string());
    if message != "ok" {
        return Err(damaged(message));
    }
    match transfer::noted(&conn)? {
        true => Err(Unsound::Unfinished(shown())),
        false => Ok(()),
    }
}

/// Brings a file into the form in which it is kept: one file, without a log beside it, on disk.
pub fn seal(path: &Path) -> Result<(), DbError> {
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.pragma_update(None, "journal_mode", "DELETE")?;
    conn.close().map_err(|(_, error)| error)?;
    sync(path).map_err(|error| cannot(path, &error))
}

/// The archive segments that a database refers to, each with the length that it refers to.
pub fn segments(path: &Path) -> Result<Vec<(String, u64)>, DbError> {
    let conn = look(path)?;
    let sql = "SELECT segment, max(\"offset\" + length) FROM fetch
        WHERE segment IS NOT NULL GROUP BY segment ORDER BY segment";
    let mut select = conn.prepare(sql)?;
    let found = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Gives a finished file its name, for good. Nothing that has this name is lost unnoticed: the
/// caller made room.
pub fn publish(file: &Path, name: &Path) -> Result<(), DbError> {
    let dir = name.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = sync(file).and_then(|()| fs::rename(file, name)).and_then(|()| sync(dir));
    named.map_err(|error| cannot(name, &error))
}

/// Removes a database file and what SQLite keeps beside it.
pub fn remove(path: &Path) -> io::Result<()> {
    for file in std::iter::once(path.to_owned()).chain(beside(path)) {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Gives a database file another name, with what SQLite keeps beside it.
pub fn rename(path: &Path, name: &Path) -> io::Result<()> {
    fs::rename(path, name)?;
    for (old, new) in beside(path).into_iter().zip(beside(name)) {
        match fs::rename(&old, &new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Makes a database file that only we may read, or closes what is there to others: SQLite gives its
/// files the mode of the first one. What cannot be made cannot be opened either, and that tells why.
///
/// An operator may have linked the file to another place, and means that one: SQLite keeps all of its
/// files there. A link that somebody else made is left alone, and so is what it leads to.
pub fn make(path: &Path) {
    let path = &if private::is_own_link(path) { resolved(path) } else { path.to_owned() };
    drop(private::make_file(path));
    beside(path).iter().for_each(|file| drop(private::tighten(file)));
}

fn beside(path: &Path) -> [PathBuf; 3] {
    ["-wal", "-shm", "-journal"].map(|end| with(path, end))
}

/// The path with something after its name.
#[must_use]
pub fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn cannot(path: &Path, error: &io::Error) -> DbError {
    DbError::Open { path: path.display().to_string(), message: error.to_string() }
}

/// A connection that changes nothing.
fn look(path: &Path) -> Result<Connection, DbError> {
    // A file that we must not write to can be read all the same.
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, DbError> {
    let conn = file::open(path, flags)?;
    conn.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_of_one_moment_while_others_write() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copied) = (dir.path().join("a.db"), dir.path().join("b.db"));
        let mut writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        migrate::up(&mut writer).unwrap();
        let put = |key: i64| {
            let value = "x".repeat(40_000);
            writer.execute("INSERT INTO meta VALUES(?1, ?2)", (key, value)).unwrap();
        };
        (0..600).for_each(put);
        let mut steps = 0;
        copy(&path, &copied, &mut |progress| {
            steps += 1;
            assert!(steps < 100, "a writer makes it begin again");
            assert!(progress.rows <= progress.total && progress.total > 5_000);
            put(1_000 + steps);
        })
        .unwrap();
        assert!(steps > 2, "it takes several steps");
        seal(&copied).unwrap();
        check(&copied).unwrap();
        let kept: i64 = Connection::open(&copied)
            .unwrap()
            .query_row("SELECT count(*) FROM meta", [], |row| row.get(0))
            .unwrap();
        assert_eq!(kept, 600);
        assert!(beside(&copied).iter().all(|file| !file.exists()));
    }

    #[test]
    fn what_is_no_sound_backup_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        let code = |name: &str| check(&file(name)).unwrap_err().code();
        assert_eq!(code("none"), "no_such_file");
        fs::write(file("text"), "not a database at all, but long enough to be one").unwrap();
        assert_eq!(code("text"), "not_a_backup");
        Connection::open(file("other")).unwrap().execute_batch("CREATE TABLE theirs(x)").unwrap();
        assert_eq!(code("other"), "not_a_backup");

        let mut conn = Connection::open(file("ours")).unwrap();
        migrate::up(&mut conn).unwrap();
        check(&file("ours")).unwrap();
        conn.execute("INSERT INTO meta VALUES('move', '{}')", []).unwrap();
        assert_eq!(code("ours"), "unfinished_move");
        conn.execute("DELETE FROM meta", []).unwrap();
        conn.pragma_update(None, "user_version", 9_999).unwrap();
        assert_eq!(code("ours"), "database_schema");
        drop(conn);

        let mut bytes = fs::read(file("ours")).unwrap();
        let from = bytes.len() - 20_000;
        bytes[from..].fill(0x5a);
        bytes[60..64].copy_from_slice(&1_u32.to_be_bytes());
        fs::write(file("torn"), bytes).unwrap();
        assert_eq!(code("torn"), "backup_damaged");
    }
}
