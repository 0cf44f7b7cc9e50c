//! One SQLite file: a writer thread that owns the writing connection, and readers beside it.
//!
//! Whatever waits for the writer goes into one transaction, each job in its own savepoint, and no
//! job is answered before that transaction is on disk: `synchronous=FULL` is paid once for all.
//! A job must be quick and do nothing but SQL; other processes may write between two batches.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

use super::{DbError, migrate};

/// Jobs that share a transaction at the most.
const BATCH: usize = 256;
/// The writer's page cache, as SQLite wants it: minus kibibytes.
const WRITER_CACHE: i64 = -262_144;
/// Reading connections kept open.
const READERS: usize = 4;

/// A handle on the database; clones share it.
#[derive(Clone, Debug)]
pub struct Db(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    jobs: Mutex<Option<Sender<Box<dyn Job>>>>,
    writer: Mutex<Option<thread::JoinHandle<()>>>,
    readers: Mutex<Vec<Connection>>,
}

trait Job: Send {
    fn run(&mut self, conn: &Connection) -> Result<(), DbError>;
    fn answer(self: Box<Self>, committed: Result<(), DbError>);
}

struct Work<F, T> {
    work: Option<F>,
    result: Option<Result<T, DbError>>,
    answer: oneshot::Sender<Result<T, DbError>>,
}

impl<F, T> Job for Work<F, T>
where
    F: FnOnce(&Connection) -> Result<T, DbError> + Send,
    T: Send,
{
    fn run(&mut self, conn: &Connection) -> Result<(), DbError> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let result = work(conn);
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
        let mut conn = connect(path)?;
        conn.pragma_update(None, "cache_size", WRITER_CACHE)?;
        migrate::up(&mut conn)?;
        let (jobs, waiting) = mpsc::channel();
        let writer = thread::Builder::new()
            .name("feedmill-writer".into())
            .spawn(move || write_all(&conn, &waiting))
            .map_err(|error| DbError::Engine(error.to_string()))?;
        Ok(Self(Arc::new(Inner {
            path: path.to_owned(),
            jobs: Mutex::new(Some(jobs)),
            writer: Mutex::new(Some(writer)),
            readers: Mutex::default(),
        })))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Runs `work` in a transaction and answers once that is on disk.
    pub async fn write<T, F>(&self, work: F) -> Result<T, DbError>
    where
        F: FnOnce(&Connection) -> Result<T, DbError> + Send + 'static,
        T: Send + 'static,
    {
        let (answer, done) = oneshot::channel();
        let job = Box::new(Work { work: Some(work), result: None, answer });
        {
            let jobs = self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.as_ref().ok_or(DbError::Closed)?.send(job).map_err(|_| DbError::Closed)?;
        }
        done.await.map_err(|_| DbError::Closed)?
    }

    /// Runs `work` on a reading connection, beside the writer.
    pub async fn read<T, F>(&self, work: F) -> Result<T, DbError>
    where
        F: FnOnce(&Connection) -> Result<T, DbError> + Send + 'static,
        T: Send + 'static,
    {
        let db = self.clone();
        tokio::task::spawn_blocking(move || db.read_now(work))
            .await
            .map_err(|error| DbError::Engine(error.to_string()))?
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
    }
}

/// A connection with the settings that all of ours share.
pub(super) fn connect(path: &Path) -> Result<Connection, DbError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).and_then(|conn| {
        conn.busy_timeout(Duration::from_secs(5))?;
        conn.set_prepared_statement_cache_capacity(128);
        // Without this, SQLite plans a prepared statement anew whenever a bound value changes.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "cache_size", -16_384)?;
        conn.pragma_update(None, "wal_autocheckpoint", 32_768)?;
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(conn)
    });
    opened.map_err(|error| DbError::Open {
        path: path.display().to_string(),
        message: error.to_string(),
    })
}

fn write_all(conn: &Connection, waiting: &Receiver<Box<dyn Job>>) {
    while let Ok(first) = waiting.recv() {
        let mut jobs = vec![first];
        jobs.extend(waiting.try_iter().take(BATCH - 1));
        let committed = run_batch(conn, &mut jobs);
        if committed.is_err() && !conn.is_autocommit() {
            drop(conn.execute_batch("ROLLBACK"));
        }
        for job in jobs {
            job.answer(committed.clone());
        }
    }
}

fn run_batch(conn: &Connection, jobs: &mut [Box<dyn Job>]) -> Result<(), DbError> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    for job in jobs {
        // What the job itself says is kept for its answer.
        drop(alone(conn, || job.run(conn))?);
    }
    conn.execute_batch("COMMIT")?;
    Ok(())
}

/// Runs a part of a transaction so that it fails alone: in a savepoint. The outer error means that
/// the whole transaction is lost, as a full disk may do.
pub fn alone<T>(
    conn: &Connection,
    work: impl FnOnce() -> Result<T, DbError>,
) -> Result<Result<T, DbError>, DbError> {
    let run = |sql| conn.prepare_cached(sql)?.execute([]);
    run("SAVEPOINT part")?;
    let result = work();
    match &result {
        Ok(_) => {}
        Err(error) if conn.is_autocommit() => return Err(error.clone()),
        Err(_) => {
            run("ROLLBACK TO part")?;
        }
    }
    run("RELEASE part")?;
    Ok(result)
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
