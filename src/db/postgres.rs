//! PostgreSQL: a pool of connections, the store's time, and the news of other processes.
//!
//! A statement is prepared once per connection. An operation whose connection is gone fails with
//! an error that is transient, and the next one gets a new connection: whoever calls pauses and
//! goes on. No message of ours ever holds the password.

mod conn;
mod engine;
mod listen;
mod ping;
mod tls;
mod values;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    GenericClient, Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod,
    Runtime, TimeoutType,
};
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Row};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{DbError, migrate, schema_gone};

pub(crate) use conn::Tx;
pub use conn::{Conn, PgLimits, Session};
pub use engine::{Eviction, Hold, InUse, Role};
pub(crate) use listen::{LOGGED, WORK};
pub(crate) use tls::Address;
use tls::Connector;
pub(crate) use values::{Num, clean, column};

/// What a statement is given.
pub(crate) type Given<'a> = &'a (dyn tokio_postgres::types::ToSql + Sync);

/// How long a server may take to answer the first time.
const PATIENCE: Duration = Duration::from_secs(10);
/// A connection that is silent for so long is asked whether anybody is there.
const SILENCE: Duration = Duration::from_secs(30);
/// What all our connections share. A process that hangs in a transaction must not hold up the
/// others for ever. Every statement is made for its indexes: planned once, to use them, whatever
/// the statistics of the moment say; planning anew each time costs more than running it. None may take
/// more than its share of the server's processors from those that hand out and commit.
const SESSION: &str = "SET default_transaction_isolation = 'read committed';
    SET idle_in_transaction_session_timeout = '60s'; SET timezone = 'UTC'; SET jit = off;
    SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET max_parallel_workers_per_gather = 0";

/// A source of Unix milliseconds, instead of the server's.
#[derive(Clone)]
pub struct OwnTime(Arc<dyn Fn() -> i64 + Send + Sync>);

impl OwnTime {
    /// Time as `now` tells it.
    pub fn new(now: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }
}

impl std::fmt::Debug for OwnTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnTime({})", (self.0)())
    }
}

/// A handle on the database; clones share it.
#[derive(Clone, Debug)]
pub struct PgDb(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: Pool,
    config: Config,
    tls: Connector,
    time: Option<OwnTime>,
    limits: PgLimits,
    /// The connection that is asked whether the server answers.
    pinged: tokio::sync::Mutex<Option<ping::Line>>,
    tasks: TaskTracker,
    closed: CancellationToken,
}

impl PgDb {
    /// Connects and brings the schema up to date. Time is the server's own, the same for all
    /// processes, unless another is given: tests run on theirs.
    pub async fn open(url: &str, time: Option<OwnTime>) -> Result<Self, DbError> {
        Self::open_with(url, time, PgLimits::default()).await
    }

    /// The same with other limits.
    pub async fn open_with(
        url: &str,
        time: Option<OwnTime>,
        limits: PgLimits,
    ) -> Result<Self, DbError> {
        let db = Self::connect_with(url, time, limits).await?;
        let is_current = migrate::postgres::is_current(&db.client().await?).await?;
        if !is_current {
            migrate::postgres::up(&mut db.maintenance().await?).await?;
        }
        Ok(db)
    }

    /// Connects and leaves the schema as it is.
    pub async fn connect(url: &str, time: Option<OwnTime>) -> Result<Self, DbError> {
        Self::connect_with(url, time, PgLimits::default()).await
    }

    /// The same with other limits.
    pub async fn connect_with(
        url: &str,
        time: Option<OwnTime>,
        limits: PgLimits,
    ) -> Result<Self, DbError> {
        let (config, tls) = settings(url)?;
        let manager = Manager::from_config(
            config.clone(),
            tls.clone(),
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let pool = Pool::builder(manager)
            .max_size(limits.connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(limits.acquire_timeout))
            .create_timeout(Some(PATIENCE))
            .post_create(Hook::async_fn(move |client, _| {
                let session = format!("{SESSION}; {}", limits.session());
                Box::pin(async move {
                    // The time limit on making a connection does not hold for what follows it.
                    match tokio::time::timeout(PATIENCE, client.batch_execute(&session)).await {
                        Ok(set) => set.map_err(HookError::Backend),
                        Err(_) => Err(HookError::message("no answer")),
                    }
                })
            }))
            .build()
            .map_err(|error| DbError::Engine(error.to_string()))?;
        let db = Self(Arc::new(Inner {
            pool,
            config,
            tls,
            time,
            limits,
            pinged: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            closed: CancellationToken::new(),
        }));
        db.greet().await.map_err(|message| DbError::Open { path: db.place(), message })?;
        Ok(db)
    }

    /// The first word with the server: whether it is there, and can hold what the web writes.
    async fn greet(&self) -> Result<(), String> {
        let client = self.0.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => told(&error),
            other => other.to_string(),
        })?;
        let client = Conn::new(client, &self.0.limits);
        let row = client.query_one("SHOW server_encoding", &[]).await;
        let row = row.map_err(|error| error.to_string())?;
        let encoding: String = row.try_get(0).map_err(|error| told(&error))?;
        if encoding == "UTF8" {
            Ok(())
        } else {
            Err(format!("its encoding is {encoding}: make one with ENCODING 'UTF8'"))
        }
    }

    /// The database by its public name: server and name, never the password.
    #[must_use]
    pub fn place(&self) -> String {
        let config = &self.0.config;
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let port = config.get_ports().first().map_or(String::new(), |port| format!(":{port}"));
        let name = config.get_dbname().or(config.get_user()).unwrap_or_default();
        format!("postgres://{host}{port}/{name}")
    }

    /// A connection from the pool. Whoever holds one must not ask for another.
    pub async fn client(&self) -> Result<Conn, DbError> {
        Ok(Conn::new(self.pooled().await?, &self.0.limits))
    }

    /// The same for statements that may take long: it ends with its use.
    pub async fn maintenance(&self) -> Result<Conn, DbError> {
        Conn::for_maintenance(self.pooled().await?, &self.0.limits).await
    }

    async fn pooled(&self) -> Result<deadpool_postgres::Client, DbError> {
        if self.0.closed.is_cancelled() {
            return Err(DbError::Closed);
        }
        match self.0.pool.get().await {
            Err(PoolError::Timeout(TimeoutType::Wait)) => {
                // Tests give a process one connection: whoever waits in vain for it holds it himself.
                debug_assert!(self.0.limits.connections > 1, "a second connection was asked for");
                let waited = self.0.limits.acquire_timeout.as_secs();
                Err(DbError::Lost(format!("no connection was free for {waited} s")))
            }
            Err(PoolError::Timeout(_)) => Err(conn::no_answer(PATIENCE)),
            pooled => Ok(pooled?),
        }
    }

    /// The time to use instead of the server's, for a statement that reads the clock itself.
    pub(crate) fn given_now(&self) -> Option<i64> {
        self.0.time.as_ref().map(|time| (time.0)())
    }

    /// The store's time in Unix milliseconds. A statement of its own, so that it is read after the
    /// locks that were waited for.
    pub(crate) async fn now<C: Session>(&self, client: &C) -> Result<i64, DbError> {
        match self.given_now() {
            Some(now) => Ok(now),
            None => {
                let found = first(client, "SELECT feedmill_now()", &[]).await?;
                Ok(found.ok_or(DbError::Closed)?.try_get(0)?)
            }
        }
    }

    /// Calls `heard` with the channel's name whenever another process, or this one, has news, and
    /// when a lost connection is back: news may have passed unheard.
    pub(crate) fn listen(&self, heard: impl Fn(&str) + Send + Sync + 'static) {
        let (config, tls) = (self.0.config.clone(), self.0.tls.clone());
        self.0.tasks.spawn(listen::listen(config, tls, heard, self.0.closed.clone()));
    }

    /// Ends all connections; later calls are refused.
    pub async fn close(&self) {
        self.0.closed.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.pool.close();
        // A ping that is under way ends by itself.
        drop(self.0.pinged.try_lock().map(|mut kept| kept.take()));
    }
}

fn settings(url: &str) -> Result<(Config, Connector), DbError> {
    let refuse =
        |message: String| DbError::Open { path: "that database.url names".to_owned(), message };
    let address: Address = url.parse().map_err(|message: &str| refuse(message.to_owned()))?;
    let tls = address.connector().map_err(refuse)?;
    let mut config = address.config;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(PATIENCE);
    }
    // A server that vanishes without a word is noticed all the same.
    config.keepalives_idle(SILENCE).keepalives_interval(SILENCE / 3).keepalives_retries(3);
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE * 2);
    }
    if config.get_application_name().is_none() {
        config.application_name("feedmill");
    }
    Ok((config, tls))
}

/// What the server or the system says, in one line.
fn told(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    match (error.as_db_error(), error.source()) {
        (Some(said), _) => said.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}

impl From<tokio_postgres::Error> for DbError {
    fn from(error: tokio_postgres::Error) -> Self {
        use std::error::Error as _;
        let message = told(&error);
        let Some(code) = error.code() else {
            let broken = error.source().is_some_and(|cause| cause.is::<std::io::Error>());
            let lost = broken || error.is_closed() || message.contains("timeout");
            return match message.starts_with("error deserializing column") {
                true => Self::Corrupt { what: "column", value: message },
                false if lost => Self::Lost(message),
                false => Self::Engine(message),
            };
        };
        match code {
            &SqlState::T_R_DEADLOCK_DETECTED
            | &SqlState::T_R_SERIALIZATION_FAILURE
            | &SqlState::LOCK_NOT_AVAILABLE => Self::Busy,
            &SqlState::QUERY_CANCELED => Self::Slow(message),
            // What every statement of ours needs was there when we connected.
            &SqlState::UNDEFINED_TABLE
            | &SqlState::UNDEFINED_COLUMN
            | &SqlState::UNDEFINED_FUNCTION
            | &SqlState::INVALID_SCHEMA_NAME
            | &SqlState::INVALID_CATALOG_NAME => Self::Schema(schema_gone(&message)),
            &SqlState::DISK_FULL => Self::Full("the database server".to_owned()),
            // The server stops, starts, is full up, or has become a standby.
            &SqlState::TOO_MANY_CONNECTIONS | &SqlState::READ_ONLY_SQL_TRANSACTION => {
                Self::Lost(message)
            }
            code if code.code().starts_with("08") || code.code().starts_with("57P") => {
                Self::Lost(message)
            }
            code => Self::Engine(format!("{message} ({})", code.code())),
        }
    }
}

impl From<PoolError> for DbError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => error.into(),
            PoolError::Closed => Self::Closed,
            other => Self::Lost(other.to_string()),
        }
    }
}

async fn prepared<C: Session>(client: &C, sql: &str) -> Result<tokio_postgres::Statement, DbError> {
    client.limit().apply(client.raw()?.prepare_cached(sql)).await
}

/// The rows that a statement answers with.
pub(crate) async fn rows<C: Session>(
    client: &C,
    sql: &str,
    given: &[Given<'_>],
) -> Result<Vec<Row>, DbError> {
    let statement = prepared(client, sql).await?;
    client.limit().apply(client.raw()?.query(&statement, given)).await
}

/// The first row that a statement answers with.
pub(crate) async fn first<C: Session>(
    client: &C,
    sql: &str,
    given: &[Given<'_>],
) -> Result<Option<Row>, DbError> {
    Ok(rows(client, sql, given).await?.into_iter().next())
}

/// Runs a statement; how many rows it touched.
pub(crate) async fn run<C: Session>(
    client: &C,
    sql: &str,
    given: &[Given<'_>],
) -> Result<u64, DbError> {
    let statement = prepared(client, sql).await?;
    client.limit().apply(client.raw()?.execute(&statement, given)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_used_is_refused_without_its_password() {
        for (url, expected) in [
            ("postgres://me:secret@host:x/db", "cannot be read"),
            ("postgres://me:secret@host/db?sslmode=some", "sslmode is unknown"),
            ("postgres://me:secret@host/db?sslrootcert=/none", "sslrootcert /none"),
        ] {
            let message = settings(url).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_named() {
        let error = PgDb::connect("postgres://me:secret@127.0.0.1:1/db", None).await.unwrap_err();
        let message = error.to_string();
        assert!(message.contains("postgres://127.0.0.1:1/db"), "{message}");
        assert!(!message.contains("secret"), "{message}");
        assert_eq!(error.code(), "database_open");
    }
}
