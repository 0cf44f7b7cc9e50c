//! One SQLite file: a writer thread that owns the writing connection, and readers beside it.
//!
//! Whatever waits for the writer goes into one transaction, and no job is answered before that is
//! on disk: `synchronous=FULL` is paid once for all. A job that fails takes nothing with it: the
//! transaction is begun again, with a savepoint for each. So a job may run twice; it must be quick
//! and do nothing but SQL. Other processes may write between two batches.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

use super::{DbError, backup, file, migrate};

/// How long to wait for another process that writes, such as one that purges a million tasks.
const BUSY: Duration = Duration::from_secs(30);

/// Jobs that share a transaction at the most.
const BATCH: usize = 1_024;
/// The writer's page cache, as SQLite wants it: minus kibibytes.
const WRITER_CACHE: i64 = -65_536;
/// The page cache of each reading connection. With the writer's these are the most that grows with the
/// database: 96 MB.
const READER_CACHE: i64 = -8_192;
/// Reading connections kept open.
const READERS: usize = 4;

/// A handle on the database; clones share it.
#[derive(Clone, Debug)]
pub struct Db(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Device and number of the file.
    identity: Option<(u64, u64)>,
    /// The bytes that the file has at least.
    length: AtomicU64,
    /// Whether SQLite writes to a log first, which some file systems do not allow.
    has_log: bool,
    jobs: Mutex<Option<Sender<Jobs>>>,
    writer: Mutex<Option<thread::JoinHandle<()>>>,
    readers: Mutex<Vec<Connection>>,
    open: Mutex<Option<OpenHere>>,
}

trait Job: Send {
    fn run(&mut self, conn: &Connection) -> Result<(), DbError>;
    fn answer(self: Box<Self>, committed: Result<(), DbError>);
}

/// What one caller wants done, sent at once so that it stays together.
type Jobs = Vec<Box<dyn Job>>;

struct Work<F, T> {
    work: F,
    result: Option<Result<T, DbError>>,
    answer: oneshot::Sender<Result<T, DbError>>,
}

impl<F, T> Job for Work<F, T>
where
    F: FnMut(&Connection) -> Result<T, DbError> + Send,
    T: Send,
{
    fn run(&mut self, conn: &Connection) -> Result<(), DbError> {
        let result = (self.work)(conn);
        let done = result.as_ref().map(|_| ()).map_err(Clone::clone);
        self.result = Some(result);
        done
    }

    fn answer(self: Box<Self>, committed: Result<(), DbError>) {
        let answer = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(DbError::Closed),
            (Err(error), _) => Err(error),
        };
        // Nobody waits any more when the caller was cancelled; the work is done all the same.
        drop(self.answer.send(answer));
    }
}

impl Db {
    /// Opens or makes the file and brings its schema up to date.
    pub fn open(path: &Path) -> Result<Self, DbError> {
        let open = OpenHere::enter(path);
        Self::start(path, connect(path)?, open)
    }

    /// The same for work that can be done again: a crash of the system may lose the last of it, and
    /// nothing else. Not every transaction waits for the disk.
    pub fn open_unsynced(path: &Path) -> Result<Self, DbError> {
        let open = OpenHere::enter(path);
        let conn = connect(path)?;
        conn.pragma_update(None, "synchronous", "NORMAL")?;
        Self::start(path, conn, open)
    }

    fn start(path: &Path, mut conn: Connection, open: Option<OpenHere>) -> Result<Self, DbError> {
        conn.pragma_update(None, "cache_size", WRITER_CACHE)?;
        migrate::up(&mut conn)?;
        let mode: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        let has_log = mode == "wal";
        let (jobs, waiting) = mpsc::channel();
        let writer = thread::Builder::new()
            .name("feedmill-writer".into())
            .spawn(move || write_all(&conn, &waiting))
            .map_err(|error| DbError::Engine(error.to_string()))?;
        Ok(Self(Arc::new(Inner {
            path: path.to_owned(),
            identity: identity(path).ok(),
            has_log,
            length: AtomicU64::new(std::fs::metadata(path).map_or(0, |found| found.len())),
            jobs: Mutex::new(Some(jobs)),
            writer: Mutex::new(Some(writer)),
            readers: Mutex::default(),
            open: Mutex::new(open),
        })))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Fails when the file was removed, replaced or cut short since it was opened: what is written is lost then.
    pub fn check_in_place(&self) -> Result<(), DbError> {
        let Inner { path, identity: opened, length, has_log, .. } = &*self.0;
        let what = match std::fs::metadata(path) {
            Ok(found) if Some(identity_of(&found)) != *opened => "removed or replaced",
            Ok(found) if found.len() < length.load(Ordering::Relaxed) => "cut short",
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "removed or replaced",
            // Nothing here gives pages back to the system; only without a log does a failed write.
            Ok(found) => {
                if *has_log {
                    length.store(found.len(), Ordering::Relaxed);
                }
                return Ok(());
            }
            // A disk that cannot be asked says nothing about the file.
            Err(_) => return Ok(()),
        };
        Err(DbError::Schema(format!("{} was {what}", path.display())))
    }

    /// Runs `work` in a transaction and answers once that is on disk.
    pub async fn write<T, F>(&self, work: F) -> Result<T, DbError>
    where
        F: FnMut(&Connection) -> Result<T, DbError> + Send + 'static,
        T: Send + 'static,
    {
        self.write_each(vec![work]).await.pop().unwrap_or(Err(DbError::Closed))
    }

    /// Runs many pieces of work in one transaction, each of which may fail alone.
    pub async fn write_each<T, F>(&self, works: Vec<F>) -> Vec<Result<T, DbError>>
    where
        F: FnMut(&Connection) -> Result<T, DbError> + Send + 'static,
        T: Send + 'static,
    {
        let mut jobs: Jobs = Vec::with_capacity(works.len());
        let mut answers = Vec::with_capacity(works.len());
        for work in works {
            let (answer, done) = oneshot::channel();
            jobs.push(Box::new(Work { work, result: None, answer }));
            answers.push(done);
        }
        // A writer that is gone drops the jobs, and their answers say so.
        match &*self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(sender) => drop(sender.send(jobs)),
            None => drop(jobs),
        }
        let mut results = Vec::with_capacity(answers.len());
        for answer in answers {
            let result = answer.await.unwrap_or(Err(DbError::Closed));
            results.push(result.map_err(|error| error.at(&self.0.path)));
        }
        results
    }

    /// Runs `work` on a reading connection, beside the writer.
    pub async fn read<T, F>(&self, work: F) -> Result<T, DbError>
    where
        F: FnOnce(&Connection) -> Result<T, DbError> + Send + 'static,
        T: Send + 'static,
    {
        let db = self.clone();
        let done = tokio::task::spawn_blocking(move || db.read_now(work))
            .await
            .map_err(|error| DbError::Engine(error.to_string()))?;
        done.map_err(|error| error.at(&self.0.path))
    }

    fn read_now<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let kept = self.0.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = match kept {
            Some(conn) => conn,
            None => {
                let conn = connect(&self.0.path)?;
                conn.pragma_update(None, "query_only", true)?;
                conn
            }
        };
        // One snapshot for all that the work reads.
        conn.execute_batch("BEGIN")?;
        let result = work(&conn);
        conn.execute_batch("COMMIT")?;
        let mut readers = self.0.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < READERS {
            readers.push(conn);
        }
        result
    }

    /// Writes what is waiting and closes; later calls are refused.
    pub async fn close(&self) {
        let jobs = self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(jobs);
        let writer = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // The writer ends by itself once its last job is done; a panic of its was logged.
            drop(tokio::task::spawn_blocking(move || writer.join()).await);
        }
        self.0.readers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The database files that this process has open, by device and number.
///
/// Closing any handle on a file drops all locks that the process has on it, those of SQLite too. Another
/// program that reads the database and closes it would then remove its log while it is written to.
static OPEN_HERE: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct OpenHere((u64, u64));

impl OpenHere {
    /// Makes the file when it is missing, for it to have a number.
    fn enter(path: &Path) -> Option<Self> {
        backup::make(path);
        let identity = identity(path).ok()?;
        OPEN_HERE.lock().unwrap_or_else(PoisonError::into_inner).push(identity);
        Some(Self(identity))
    }
}

impl Drop for OpenHere {
    fn drop(&mut self) {
        let mut open = OPEN_HERE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|identity| *identity == self.0) {
            open.swap_remove(at);
        }
    }
}

/// Reads a file that may be a database with `read`, unless this process has it open as one.
pub fn read_unless_open<T>(path: &Path, read: impl FnOnce() -> T) -> Option<T> {
    let open = OPEN_HERE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_open = identity(path).is_ok_and(|identity| open.contains(&identity));
    (!is_open).then(read)
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|found| identity_of(&found))
}

fn identity_of(found: &std::fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (found.dev(), found.ino())
}

/// A connection with the settings that all of ours share.
pub(super) fn connect(path: &Path) -> Result<Connection, DbError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    backup::make(path);
    let conn = file::open(path, flags)?;
    let settings = || {
        conn.busy_timeout(BUSY)?;
        conn.set_prepared_statement_cache_capacity(128);
        // Without this, SQLite plans a prepared statement anew whenever a bound value changes.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "cache_size", READER_CACHE)?;
        conn.pragma_update(None, "wal_autocheckpoint", 32_768)?;
        conn.pragma_update(None, "temp_store", "MEMORY")
    };
    settings().map_err(|error| DbError::opening(path, error))?;
    Ok(conn)
}

fn write_all(conn: &Connection, waiting: &Receiver<Jobs>) {
    while let Ok(mut jobs) = waiting.recv() {
        while jobs.len() < BATCH
            && let Ok(more) = waiting.try_recv()
        {
            jobs.extend(more);
        }
        let committed = run_batch(conn, &mut jobs);
        if !conn.is_autocommit() {
            drop(conn.execute_batch("ROLLBACK"));
        }
        // Whoever waits for many waits for the first: the last one first, and it wakes once.
        for job in jobs.into_iter().rev() {
            job.answer(committed.clone());
        }
    }
}

/// Runs the jobs in one transaction; those that fail are left out of it and know why.
fn run_batch(conn: &Connection, jobs: &mut [Box<dyn Job>]) -> Result<(), DbError> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let failed = jobs.iter_mut().find_map(|job| job.run(conn).err());
    if let Some(error) = failed {
        if let [_] = jobs {
            return Err(error);
        }
        if !conn.is_autocommit() {
            conn.execute_batch("ROLLBACK")?;
        }
        conn.execute_batch("BEGIN IMMEDIATE")?;
        for job in jobs {
            // A savepoint costs as much as the work: only a batch with a bad job pays for it.
            alone(conn, job.as_mut())?;
        }
    }
    conn.execute_batch("COMMIT")?;
    Ok(())
}

/// Runs a job in a savepoint, so that it fails alone. An error means that the whole transaction is
/// lost, as a full disk may do.
fn alone(conn: &Connection, job: &mut dyn Job) -> Result<(), DbError> {
    let run = |sql| conn.prepare_cached(sql)?.execute([]);
    run("SAVEPOINT part")?;
    match job.run(conn) {
        Ok(()) => {}
        Err(error) if conn.is_autocommit() => return Err(error),
        // What the job itself says is kept for its answer.
        Err(_) => {
            run("ROLLBACK TO part")?;
        }
    }
    run("RELEASE part")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failing_job_takes_nothing_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&dir.path().join("t.db")).unwrap();
        let put = |key: &'static str, fail: bool| {
            db.write(move |conn| {
                conn.execute("INSERT INTO meta VALUES(?1, 'x')", [key])?;
                if fail { Err(DbError::Engine("no".into())) } else { Ok(()) }
            })
        };
        let (a, b, c) = tokio::join!(put("a", false), put("b", true), put("c", false));
        assert!(a.is_ok() && b.is_err() && c.is_ok());
        let kept: i64 = db
            .read(|conn| {
                Ok(conn.query_row(
                    "SELECT count(*) FROM meta WHERE key IN ('a','b','c')",
                    [],
                    |row| row.get(0),
                )?)
            })
            .await
            .unwrap();
        assert_eq!(kept, 2);
    }

    #[tokio::test]
    async fn a_closed_database_refuses_politely() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&dir.path().join("t.db")).unwrap();
        db.close().await;
        assert!(matches!(db.write(|_| Ok(())).await, Err(DbError::Closed)));
    }

    #[test]
    fn a_path_that_cannot_be_is_named() {
        let error = Db::open(Path::new("/proc/nowhere/feedmill.db")).unwrap_err();
        assert!(error.to_string().contains("/proc/nowhere/feedmill.db"), "{error}");
    }
}
