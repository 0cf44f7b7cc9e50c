//! Who works on a database: engines, and processes that only serve the API.
//!
//! Each holds a lock that its kind shares; whoever needs the database for himself asks for the same
//! locks alone. The server frees them with the connection, also when somebody cuts that while the
//! process lives. So each process has a row as well and renews its time: as long as that is fresh,
//! nobody gets the database alone. A process that ends removes its row.

use std::fmt;
use std::time::Duration;

use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use super::{PATIENCE, PgDb, Session, conn};
use crate::db::DbError;

/// Between two renewals of a row.
const BEAT: Duration = Duration::from_secs(2);
/// A process that was not seen for so long is gone.
const STALE: Duration = Duration::from_secs(30);
/// Engines that are counted were seen within this time.
const FRESH: Duration = Duration::from_secs(6);
/// How long the server may take for one statement: the next connection may be better.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait before a lost connection is tried again.
const PAUSE: Duration = Duration::from_millis(200);
/// How long to wait for the server when a lock is freed: it is freed with the connection anyway.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The time of a row, or of the server's start when that is later: nobody could renew a row before.
const AGO: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint
    - greatest(seen_at, (extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint)";

/// What a process does with a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Engine,
    /// It serves the API, and leaves the work to engines.
    Api,
}

impl Role {
    /// The number of its lock; the log, the migrations and the sources have theirs.
    const fn lock(self) -> i64 {
        match self {
            Self::Engine => 0x6665_6564_0003,
            Self::Api => 0x6665_6564_0005,
        }
    }

    const fn number(self) -> i16 {
        match self {
            Self::Engine => 0,
            Self::Api => 1,
        }
    }

    const fn name(number: i16) -> &'static str {
        if number == Self::Engine.number() { "an engine" } else { "an API server" }
    }
}

/// Why a database cannot be had alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    place: String,
    by: Option<Seen>,
}

/// A process that was seen not long ago.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    role: i16,
    name: String,
    ago: Duration,
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, by } = self;
        match by {
            None => write!(f, "an engine runs on {place}: stop it first"),
            Some(Seen { role, name, ago }) => {
                let (ago, left) = (ago.as_secs(), STALE.saturating_sub(*ago).as_secs() + 1);
                let who = Role::name(*role);
                write!(f, "{who} runs on {place}: {name} was alive {ago} s ago; stop it first")?;
                write!(f, ", or wait {left} s if it was killed")
            }
        }
    }
}

/// How a process loses the database that it works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Somebody has it alone, since the process could not be seen for a while.
    Taken,
    /// Its tables are gone.
    SchemaGone(String),
}

/// Locks, held by a connection of their own.
#[derive(Debug)]
pub struct Hold {
    client: Client,
    ended: CancellationToken,
}

impl Hold {
    /// Frees them now. They are freed without this too, but a moment later.
    pub async fn release(self) {
        // A connection that is gone holds nothing.
        let freed = self.client.batch_execute("SELECT pg_advisory_unlock_all()");
        drop(tokio::time::timeout(RELEASE_TIMEOUT, freed).await);
    }

    async fn try_lock(&self, take: &str, role: Role) -> Result<bool, DbError> {
        let sql = format!("SELECT {take}({})", role.lock());
        let row = answered(self.client.query_one(&sql, &[])).await?;
        Ok(row.try_get(0)?)
    }
}

async fn answered<T>(
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, DbError> {
    let late = |_| conn::no_answer(ANSWER_TIMEOUT);
    Ok(tokio::time::timeout(ANSWER_TIMEOUT, answer).await.map_err(late)??)
}

/// A process that works on the database.
#[derive(Clone, Debug)]
struct Worker {
    id: String,
    name: String,
    role: Role,
}

impl Worker {
    fn new(role: Role) -> Self {
        let node = rustix::system::uname();
        let name =
            format!("process {} on {}", std::process::id(), node.nodename().to_string_lossy());
        // The time in it says nothing, the rest is chance.
        let id = uuid::Uuid::new_v7(uuid::Timestamp::from_unix_time(0, 0, 0, 0)).to_string();
        Self { id, name, role }
    }

    /// Renews its row.
    async fn beat(&self, held: &Hold) -> Result<(), DbError> {
        let sql = "INSERT INTO process(id, role, name, seen_at)
            VALUES($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
            ON CONFLICT(id) DO UPDATE SET seen_at = excluded.seen_at";
        let role = self.role.number();
        answered(held.client.execute(sql, &[&self.id, &role, &self.name])).await?;
        Ok(())
    }

    /// Removes its row and frees its lock.
    async fn leave(&self, held: Hold) {
        let sql = "DELETE FROM process WHERE id = $1";
        drop(tokio::time::timeout(RELEASE_TIMEOUT, held.client.execute(sql, &[&self.id])).await);
        held.release().await;
    }
}

impl PgDb {
    /// Works on the database until it is closed; false when somebody has it alone. `evicted` is
    /// called when it is lost.
    pub async fn work(
        &self,
        role: Role,
        evicted: impl Fn(Eviction) + Send + 'static,
    ) -> Result<bool, DbError> {
        let worker = Worker::new(role);
        let Some(held) = self.share(&worker).await? else { return Ok(false) };
        let stale = format!("DELETE FROM process WHERE abs({AGO}) > $1");
        answered(held.client.execute(&stale, &[&millis(STALE)])).await?;
        let db = self.clone();
        self.0.tasks.spawn(async move {
            if let Some(eviction) = db.stay(worker, held).await {
                evicted(eviction);
            }
        });
        Ok(true)
    }

    /// Renews the row, and makes a new connection when one is lost, until the database is closed.
    async fn stay(&self, worker: Worker, first: Hold) -> Option<Eviction> {
        let (closed, mut held) = (&self.0.closed, Some(first));
        loop {
            let done = match &held {
                Some(held) => worker.beat(held).await.map(|()| None),
                None => self.share(&worker).await.map(Some),
            };
            match done {
                Ok(None) => {}
                Ok(Some(Some(again))) => held = Some(again),
                Ok(Some(None)) => return Some(Eviction::Taken),
                Err(DbError::Schema(message)) => return Some(Eviction::SchemaGone(message)),
                Err(error) => {
                    tracing::debug!(%error, "the lock of this process is lost");
                    held = None;
                }
            }
            let (ended, wait) = match &held {
                Some(held) => (held.ended.clone(), BEAT),
                None => (CancellationToken::new(), PAUSE),
            };
            tokio::select! {
                () = closed.cancelled() => break,
                () = ended.cancelled() => held = None,
                () = tokio::time::sleep(wait) => {}
            }
        }
        if let Some(held) = held {
            worker.leave(held).await;
        }
        None
    }

    /// How many engines work on the database now.
    pub async fn engines(&self) -> Result<u64, DbError> {
        let sql = format!("SELECT count(*) FROM process WHERE role = $1 AND abs({AGO}) < $2");
        let given = (Role::Engine.number(), millis(FRESH));
        let row = self.client().await?.query_one(&sql, &[&given.0, &given.1]).await?;
        Ok(u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0))
    }

    async fn share(&self, worker: &Worker) -> Result<Option<Hold>, DbError> {
        let held = self.hold().await?;
        if !held.try_lock("pg_try_advisory_lock_shared", worker.role).await? {
            return Ok(None);
        }
        worker.beat(&held).await?;
        Ok(Some(held))
    }

    /// Takes the database for as long as the answer is kept, unless somebody works on it.
    pub async fn alone(&self) -> Result<Result<Hold, InUse>, DbError> {
        self.alone_among(&[Role::Engine, Role::Api]).await
    }

    /// The same beside those who only serve the API.
    pub async fn alone_among_engines(&self) -> Result<Result<Hold, InUse>, DbError> {
        self.alone_among(&[Role::Engine]).await
    }

    async fn alone_among(&self, roles: &[Role]) -> Result<Result<Hold, InUse>, DbError> {
        let held = self.hold().await?;
        let in_use = |by| InUse { place: self.place(), by };
        // Looked for before the lock is taken: a process that only lost its connection must find it
        // free.
        if let Some(seen) = seen(&held, roles).await? {
            return Ok(Err(in_use(Some(seen))));
        }
        for role in roles {
            if !held.try_lock("pg_try_advisory_lock", *role).await? {
                return Ok(Err(in_use(seen(&held, roles).await?)));
            }
        }
        // One may have come and lost its connection meanwhile.
        Ok(match seen(&held, roles).await? {
            Some(seen) => Err(in_use(Some(seen))),
            None => Ok(held),
        })
    }

    /// A connection of its own: it must not go on to whoever is next, or wait for others.
    async fn hold(&self) -> Result<Hold, DbError> {
        let connecting = self.0.config.connect(self.0.tls.clone());
        let connected = tokio::time::timeout(PATIENCE, connecting).await;
        let (client, connection) = connected.map_err(|_| conn::no_answer(PATIENCE))??;
        let ended = CancellationToken::new();
        let ends = ended.clone();
        #[expect(clippy::disallowed_methods, reason = "it ends with its client")]
        tokio::spawn(async move {
            drop(connection.await);
            ends.cancel();
        });
        Ok(Hold { client, ended })
    }
}

/// The process in one of these roles that was seen last, unless that is long ago.
async fn seen(held: &Hold, roles: &[Role]) -> Result<Option<Seen>, DbError> {
    let sql = format!(
        "SELECT role, name, {AGO} FROM process WHERE abs({AGO}) < $1 AND role = ANY($2)
         ORDER BY abs({AGO}) LIMIT 1"
    );
    let roles: Vec<i16> = roles.iter().map(|role| role.number()).collect();
    let found = match answered(held.client.query_opt(&sql, &[&millis(STALE), &roles])).await {
        // An older schema has no such rows.
        Err(DbError::Schema(_)) => None,
        found => found?,
    };
    let Some(row) = found else { return Ok(None) };
    let ago = Duration::from_millis(u64::try_from(row.try_get::<_, i64>(2)?).unwrap_or(0));
    Ok(Some(Seen { role: row.try_get(0)?, name: row.try_get(1)?, ago }))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_works_is_told_with_the_time_to_wait() {
        let place = "postgres://db/news".to_owned();
        let told = InUse { place: place.clone(), by: None }.to_string();
        assert_eq!(told, "an engine runs on postgres://db/news: stop it first");
        let seen = |role: Role| Seen {
            role: role.number(),
            name: "process 7 on host".to_owned(),
            ago: Duration::from_millis(3_400),
        };
        let told = InUse { place: place.clone(), by: Some(seen(Role::Engine)) }.to_string();
        assert_eq!(
            told,
            "an engine runs on postgres://db/news: process 7 on host was alive 3 s ago; stop it \
             first, or wait 27 s if it was killed"
        );
        let told = InUse { place, by: Some(seen(Role::Api)) }.to_string();
        assert!(told.starts_with("an API server runs on postgres://db/news: "), "{told}");
    }
}
