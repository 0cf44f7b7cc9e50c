//! The frontier on PostgreSQL, shared by several processes.
//!
//! The tables are those of the embedded one: a row of `host` is the head of a queue and its lease,
//! `queue` holds what may be handed out now, `delayed` what waits for its time, `task` the history.
//! A host with k requests at a time has k rows, its slots; the row of slot 0 is the lock of them
//! all: nobody else changes or locks one. Whoever waits for locks takes them in one statement, in the
//! order of their ids, and takes no more afterwards; claims wait for none. So nobody waits in a circle, and what is read after the
//! locks is what the last holder left. Leases of a process that died run out by themselves.

mod admin;
mod adopt;
mod claim;
mod complete;
mod moves;
mod rows;
mod sources;
mod strikes;
mod submit;
mod sweep;
mod terms;

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, Notify};

use super::{
    Act, Adopted, Counts, Extension, Frontier, HostFilter, HostPatch, HostState, Order, Rejected,
    Rules, Share, Stats, SubmitReport, Sweep, TaskFilter, WorkerShares, admit,
};
use crate::db::postgres::{Tx, WORK};
use crate::db::{DbError, PgDb, Session as _};
use crate::model::{Lane, Lease, LeaseId, NewTask, Task, TaskId, Ts, UrlHash};

pub(crate) use complete::{Completed, Leases, settle};
pub(crate) use moves::{allow_again, become_channel, rehome};
pub(crate) use rows::{
    SOURCE_COLUMNS, int, lock, lock_held, maybe, maybe_code, maybe_ts, named, narrow, now,
    queue_ids, read_source, renew_tops,
};
pub(crate) use sources::{
    change, keep, owned_queues, park, parked_queues, release, rerank, resume, revive,
};
pub(crate) use submit::{refusals, take};

/// Addresses that go into one transaction at the most.
const CHUNK: usize = 5_000;
/// Every so many leases, one goes to the host that waits longest.
const FAIR: usize = 10;
/// Leases that ran out are looked for once in so many milliseconds.
const LOOK_MS: u64 = 1_000;

/// Writes down, at the end of the transaction, that tasks were given up because their leases ran
/// out. The frontier does not know what anybody does with that.
pub(crate) type Obituary =
    for<'a, 'b> fn(&'a Tx<'b>, Vec<Task>, Ts) -> BoxFuture<'a, Result<(), DbError>>;

/// The frontier on PostgreSQL.
#[derive(Clone, Debug)]
pub struct PgFrontier {
    db: PgDb,
    rules: Arc<Rules>,
    changed: Arc<Notify>,
    /// Its claims take turns: at the same time they would only step over the hosts that the others
    /// hold.
    turn: Arc<Mutex<Turn>>,
    obituary: Obituary,
}

impl PgFrontier {
    /// A frontier on an open database.
    pub(crate) fn new(db: PgDb, rules: Rules, obituary: Obituary) -> Self {
        let (changed, turn) = (Arc::default(), Arc::default());
        Self { db, rules: Arc::new(rules), changed, turn, obituary }
    }

    /// Wakes whoever waits for work in this process.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Wakes whoever waits for work, in all processes.
    pub(crate) async fn announce(&self, channel: &str) {
        self.wake();
        // Nothing is lost when this fails: everybody also looks by itself.
        if let Ok(client) = self.db.client().await
            && let Err(error) = client.batch_execute(&format!("NOTIFY {channel}")).await
        {
            tracing::debug!(%error, "cannot tell other processes");
        }
    }

    /// What was adopted of the configuration.
    pub async fn adopted(db: &PgDb) -> Result<Option<Adopted>, DbError> {
        adopt::adopted(db).await
    }

    /// Whether what the rules say of groups and slots is adopted; it is where nothing was before.
    pub async fn has_adopted(&self) -> Result<bool, DbError> {
        Ok(adopt::begin(&self.db, &self.rules).await? == Some(Adopted::of(&self.rules)))
    }

    /// Adopts what the rules say of groups and slots; how many tasks changed their queue. Only for
    /// somebody who is alone, once no lease is left.
    pub async fn adopt(&self) -> Result<u64, DbError> {
        adopt::adopt(&self.db, &self.rules).await
    }

    /// Ends every lease. Only for somebody who knows that no engine runs.
    pub async fn free_leases(&self) -> Result<u64, DbError> {
        strikes::free_leases(&self.db, &self.rules, self.obituary).await
    }

    async fn submit_chunk(&self, batch: &[NewTask]) -> Result<SubmitReport, DbError> {
        let mut report = SubmitReport::default();
        let mut candidates = Vec::with_capacity(batch.len());
        for (at, new) in batch.iter().enumerate() {
            match admit(new, &self.rules) {
                Ok(candidate) => candidates.push(candidate),
                Err(rejected) => report.rejected.push(Rejected { at, ..rejected }),
            }
        }
        let names = candidates.iter().map(|new| new.host.as_str()).collect();
        let queues = queue_ids(&self.db, names, &self.rules).await?;
        let ids: Vec<i64> = queues.values().copied().collect();
        let mut client = self.db.client().await?;
        let tx = client.transaction().await?;
        if candidates.iter().any(|new| new.source.is_some()) {
            keep(&tx).await?;
        }
        lock(&tx, &ids).await?;
        let now = now(&self.db, &tx).await?;
        let hashes: Vec<UrlHash> = candidates.iter().map(|new| new.hash).collect();
        let refusals = refusals(&tx, &hashes).await?;
        let batch_of = candidates.iter().collect::<Vec<_>>();
        let taken = take(&tx, &batch_of, &refusals, &queues, now).await?;
        renew_tops(&tx, &ids).await?;
        tx.commit().await?;
        (report.new, report.known, report.raised) = (taken.new, taken.known, taken.raised);
        let place = |url: &str| batch.iter().position(|new| new.url.trim() == url);
        let collided = taken.collided.into_iter();
        let collided = collided.map(|url| Rejected::collided(place(&url).unwrap_or(0), url));
        report.rejected.extend(collided);
        let refused = taken.refused.into_iter();
        let refused = refused.map(|url| Rejected::withdrawn(place(&url).unwrap_or(0), url));
        report.rejected.extend(refused);
        Ok(report)
    }
}

/// What one claim knows of those before it.
#[derive(Debug)]
struct Turn {
    /// Leases that this process handed out.
    handed_out: usize,
    /// When leases that ran out were last looked for.
    looked: Option<i64>,
    began: Instant,
}

impl Default for Turn {
    fn default() -> Self {
        Self { handed_out: 0, looked: None, began: Instant::now() }
    }
}

/// What a claim is to do.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// Leases at the most.
    n: usize,
    /// Of them, for those who wait longest.
    fair: usize,
    /// Whether to look for leases that ran out: that is a look at all that are under way.
    expired: bool,
}

impl Wanted {
    fn of(n: usize, turn: &mut Turn, given_now: Option<i64>) -> Self {
        let before = turn.handed_out;
        let fair = before.saturating_add(n) / FAIR - before / FAIR;
        let real = || i64::try_from(turn.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let now = given_now.unwrap_or_else(real);
        let expired = turn.looked.is_none_or(|looked| now.abs_diff(looked) >= LOOK_MS);
        if expired {
            turn.looked = Some(now);
        }
        Self { n, fair, expired }
    }
}

#[async_trait]
impl Frontier for PgFrontier {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    async fn submit(&self, batch: Vec<NewTask>) -> Result<SubmitReport, DbError> {
        let mut report = SubmitReport::default();
        for (n, chunk) in batch.chunks(CHUNK).enumerate() {
            let part = self.submit_chunk(chunk).await?;
            report.new += part.new;
            report.known += part.known;
            report.raised += part.raised;
            let moved = |rejected: Rejected| Rejected { at: rejected.at + n * CHUNK, ..rejected };
            report.rejected.extend(part.rejected.into_iter().map(moved));
        }
        if report.new + report.raised > 0 {
            self.announce(WORK).await;
        }
        Ok(report)
    }

    async fn claim_shared(
        &self,
        n: usize,
        lanes: &[Lane],
        shares: WorkerShares,
    ) -> Result<Vec<Lease>, DbError> {
        if n == 0 || lanes.is_empty() {
            return Ok(Vec::new());
        }
        let mut turn = self.turn.lock().await;
        let wanted = Wanted::of(n, &mut turn, self.db.given_now());
        let leases =
            claim::claim(&self.db, wanted, lanes, &self.rules, shares, self.obituary).await?;
        turn.handed_out += leases.len();
        Ok(leases)
    }

    async fn claim_task(&self, task: TaskId) -> Result<Option<Lease>, DbError> {
        claim::claim_task(&self.db, task, &self.rules, self.obituary).await
    }

    async fn renew(&self, lease: LeaseId) -> Result<bool, DbError> {
        terms::renew(&self.db, lease, &self.rules).await
    }

    async fn extend(&self, lease: LeaseId, host: &str) -> Result<Extension, DbError> {
        terms::extend(&self.db, lease, host, &self.rules).await
    }

    async fn next_due(&self, lanes: &[Lane]) -> Result<Option<Ts>, DbError> {
        admin::next_due(&self.db, lanes).await
    }

    async fn has_work(&self, lanes: &[Lane]) -> Result<bool, DbError> {
        admin::has_work(&self.db, lanes).await
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }

    async fn set_host(&self, host: &str, patch: HostPatch) -> Result<(), DbError> {
        admin::set_host(&self.db, host, &patch, &self.rules).await?;
        self.announce(WORK).await;
        Ok(())
    }

    async fn maintain(&self) -> Result<u64, DbError> {
        rows::repair(&self.db).await
    }

    async fn list(&self, filter: TaskFilter) -> Result<Vec<Task>, DbError> {
        admin::list(&self.db, &filter).await
    }

    async fn count(&self, filter: TaskFilter) -> Result<u64, DbError> {
        admin::tally(&self.db, &filter).await
    }

    async fn sweep(&self, act: Act, filter: TaskFilter, dry: bool) -> Result<Sweep, DbError> {
        let filter = TaskFilter { order: Order::default(), ..filter };
        let swept = sweep::sweep(&self.db, act, &filter, dry).await?;
        if act == Act::Retry && !dry && swept.done > 0 {
            self.announce(WORK).await;
        }
        Ok(swept)
    }

    async fn hosts(&self, filter: HostFilter) -> Result<Vec<HostState>, DbError> {
        admin::hosts(&self.db, &filter, &self.rules).await
    }

    async fn shares(&self, by: Share, top: usize) -> Result<Vec<(String, Counts)>, DbError> {
        admin::shares(&self.db, by, top).await
    }

    async fn stats(&self) -> Result<Stats, DbError> {
        admin::stats(&self.db).await
    }
}
