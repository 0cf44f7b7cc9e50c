//! Connections and transactions whose statements have a time limit.
//!
//! The server ends a statement that takes too long. A server that does not answer at all cannot, so
//! that the limit is also kept here, a little later. A connection that was given up on is not used
//! again: nobody knows what it is going to say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Client, GenericClient, Object, Transaction};
use tokio_postgres::{IsolationLevel, Row};

use super::Given;
use crate::db::DbError;

/// The server gets this much longer than it gives itself, for its answer to arrive.
const ANSWER_MARGIN: Duration = Duration::from_secs(5);

/// How many connections, and how long a statement may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PgLimits {
    /// Connections of a process at the most, beside those for news and locks.
    pub connections: usize,
    /// The longest time for a connection to become free.
    pub acquire_timeout: Duration,
    /// The longest time for a statement.
    pub statement_timeout: Duration,
    /// The same for migrations, moves and other maintenance.
    pub maintenance_timeout: Duration,
}

impl Default for PgLimits {
    fn default() -> Self {
        Self {
            connections: 12,
            acquire_timeout: Duration::from_secs(30),
            statement_timeout: Duration::from_secs(30),
            maintenance_timeout: Duration::from_secs(3600),
        }
    }
}

impl PgLimits {
    /// The statements that make the server keep the limits. Waiting for a lock ends earlier than the
    /// statement, so that it can be told what was waited for.
    pub(super) fn session(&self) -> String {
        session(self.statement_timeout)
    }
}

fn session(limit: Duration) -> String {
    let (all, lock) = (limit.as_millis().max(1), (limit * 2 / 3).as_millis().max(1));
    format!("SET statement_timeout = {all}; SET lock_timeout = {lock}")
}

/// A time limit on what a connection is asked.
#[derive(Clone, Debug)]
pub struct Limit {
    time: Duration,
    /// Whether an answer did not come in time.
    exceeded: Arc<AtomicBool>,
}

impl Limit {
    fn new(statement_timeout: Duration) -> Self {
        let time = statement_timeout.saturating_add(ANSWER_MARGIN);
        Self { time, exceeded: Arc::default() }
    }

    /// Waits for an answer, and gives the connection up when there is none in time.
    pub(crate) async fn apply<T, E>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, DbError>
    where
        DbError: From<E>,
    {
        if self.is_exceeded() {
            return Err(no_answer(self.time));
        }
        match tokio::time::timeout(self.time, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                self.exceeded.store(true, Ordering::Relaxed);
                Err(no_answer(self.time))
            }
        }
    }

    fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }
}

/// That the server is silent.
pub(super) fn no_answer(within: Duration) -> DbError {
    DbError::Lost(format!("no answer within {} s", within.as_secs()))
}

/// What can be asked: a connection or a transaction.
pub trait Session: Sync {
    /// The same without a limit.
    type Raw: GenericClient;

    /// The same without a limit, to be used with [`Session::limit`].
    fn raw(&self) -> Result<&Self::Raw, DbError>;

    /// The limit on each statement.
    fn limit(&self) -> &Limit;

    /// The rows that a statement answers with.
    fn query(
        &self,
        sql: &str,
        given: &[Given<'_>],
    ) -> impl Future<Output = Result<Vec<Row>, DbError>> + Send {
        async move { self.limit().apply(self.raw()?.query(sql, given)).await }
    }

    /// The one row that a statement answers with.
    fn query_one(
        &self,
        sql: &str,
        given: &[Given<'_>],
    ) -> impl Future<Output = Result<Row, DbError>> + Send {
        async move { self.limit().apply(self.raw()?.query_one(sql, given)).await }
    }

    /// Runs a statement; how many rows it touched.
    fn execute(
        &self,
        sql: &str,
        given: &[Given<'_>],
    ) -> impl Future<Output = Result<u64, DbError>> + Send {
        async move { self.limit().apply(self.raw()?.execute(sql, given)).await }
    }

    /// Runs several statements.
    fn batch_execute(&self, sql: &str) -> impl Future<Output = Result<(), DbError>> + Send {
        async move { self.limit().apply(self.raw()?.batch_execute(sql)).await }
    }
}

/// A connection from the pool. Whoever holds one must not ask for a second: with as many at work as
/// there are connections, all of them would wait for ever.
#[derive(Debug)]
pub struct Conn {
    /// There until this is dropped.
    client: Option<Client>,
    limit: Limit,
    /// Whether it ends with this, because its settings are not everybody's.
    ends: bool,
}

impl Conn {
    pub(super) fn new(client: Client, limits: &PgLimits) -> Self {
        Self { client: Some(client), limit: Limit::new(limits.statement_timeout), ends: false }
    }

    /// One for statements that may take long.
    pub(super) async fn for_maintenance(
        client: Client,
        limits: &PgLimits,
    ) -> Result<Self, DbError> {
        let limit = Limit::new(limits.maintenance_timeout);
        let conn = Self { client: Some(client), limit, ends: true };
        // The other side of a move may take its time within a transaction.
        let idle = "SET idle_in_transaction_session_timeout = 0";
        conn.batch_execute(&format!("{}; {idle}", session(limits.maintenance_timeout))).await?;
        Ok(conn)
    }

    /// Begins a transaction, which is undone unless it is committed.
    pub(crate) async fn transaction(&mut self) -> Result<Tx<'_>, DbError> {
        let client = self.client.as_mut().ok_or(DbError::Closed)?;
        let raw = self.limit.apply(client.transaction()).await?;
        Ok(Tx { raw, limit: self.limit.clone() })
    }

    /// Begins a transaction that reads one state of everything.
    pub(crate) async fn snapshot(&mut self) -> Result<Tx<'_>, DbError> {
        let client = self.client.as_mut().ok_or(DbError::Closed)?;
        let snapshot = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
        let raw = self.limit.apply(snapshot.read_only(true).start()).await?;
        Ok(Tx { raw, limit: self.limit.clone() })
    }
}

impl Session for Conn {
    type Raw = Client;

    fn raw(&self) -> Result<&Client, DbError> {
        self.client.as_ref().ok_or(DbError::Closed)
    }

    fn limit(&self) -> &Limit {
        &self.limit
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if (self.ends || self.limit.is_exceeded())
            && let Some(client) = self.client.take()
        {
            drop(Object::take(client));
        }
    }
}

/// A transaction, undone unless it is committed.
pub(crate) struct Tx<'a> {
    raw: Transaction<'a>,
    limit: Limit,
}

impl std::fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Tx<'_> {
    /// Makes it true.
    pub(crate) async fn commit(self) -> Result<(), DbError> {
        self.limit.apply(self.raw.commit()).await
    }
}

impl<'a> Session for Tx<'a> {
    type Raw = Transaction<'a>;

    fn raw(&self) -> Result<&Transaction<'a>, DbError> {
        Ok(&self.raw)
    }

    fn limit(&self) -> &Limit {
        &self.limit
    }
}
