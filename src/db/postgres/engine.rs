//! Whether engines work on a database. Each holds a lock that all engines share; whoever needs the
//! database for himself asks for the same lock alone. The server frees it with the connection.

use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object};

use super::PgDb;
use crate::db::DbError;

/// The number of the lock; the log and the migrations have theirs.
const LOCK: i64 = 0x6665_6564_0003;
/// How often the connection is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// The lock, held.
#[derive(Debug)]
pub struct Hold {
    client: ClientWrapper,
    free: &'static str,
}

impl Hold {
    /// Frees it now. It is freed without this too, but a moment later.
    pub async fn release(self) {
        // A connection that is gone holds nothing.
        drop(self.client.execute(self.free, &[&LOCK]).await);
    }
}

impl PgDb {
    /// Works on the database until it is closed; false when somebody has it alone. Should the
    /// connection break and somebody take the database before it is back, `evicted` is called.
    pub async fn work(&self, evicted: impl Fn() + Send + 'static) -> Result<bool, DbError> {
        let Some(mut held) = self.share().await? else { return Ok(false) };
        let db = self.clone();
        self.0.tasks.spawn(async move {
            let closed = db.0.closed.clone();
            loop {
                tokio::select! {
                    () = closed.cancelled() => return held.release().await,
                    () = tokio::time::sleep(LOOK) => {}
                }
                if !held.client.is_closed() {
                    continue;
                }
                match db.share().await {
                    Ok(Some(again)) => held = again,
                    Ok(None) => return evicted(),
                    Err(error) => tracing::debug!(%error, "the lock of the engines is not back"),
                }
            }
        });
        Ok(true)
    }

    /// How many engines work on the database now.
    pub async fn engines(&self) -> Result<u64, DbError> {
        let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
            AND mode = 'ShareLock' AND (classid::bigint << 32 | objid::bigint) = $1
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let engines: i64 = self.client().await?.query_one(sql, &[&LOCK]).await?.try_get(0)?;
        Ok(u64::try_from(engines).unwrap_or(0))
    }

    async fn share(&self) -> Result<Option<Hold>, DbError> {
        self.hold("SELECT pg_try_advisory_lock_shared($1)", "SELECT pg_advisory_unlock_shared($1)")
            .await
    }

    /// Takes the database for as long as the answer is kept; `None` while engines work on it.
    pub async fn alone(&self) -> Result<Option<Hold>, DbError> {
        self.hold("SELECT pg_try_advisory_lock($1)", "SELECT pg_advisory_unlock($1)").await
    }

    async fn hold(&self, take: &str, free: &'static str) -> Result<Option<Hold>, DbError> {
        // Out of the pool: the lock must end with it, and not go on to whoever is next.
        let client = Object::take(self.client().await?);
        let taken: bool = client.query_one(take, &[&LOCK]).await?.try_get(0)?;
        Ok(taken.then_some(Hold { client, free }))
    }
}
