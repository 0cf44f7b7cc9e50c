//! The frontier in the embedded database.
//!
//! `host` is the head of the queue and the lease, `queue` holds what may be handed out now,
//! `delayed` what waits for its time, `task` the history. A claim reads host rows through one
//! partial index per lane and never looks at the tasks of a host that has to wait.

mod admin;
mod adopt;
mod claim;
mod complete;
mod moves;
mod rows;
mod strikes;
mod submit;
mod sweep;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::Notify;

use super::{
    Act, Adopted, Counts, Cursor, Extension, Frontier, HostFilter, HostPatch, HostState, Order,
    Rejected, Rules, Share, Stats, SubmitReport, Sweep, TaskFilter, WorkerShares, admit,
};
use crate::clock::Clock;
use crate::db::{Db, DbError};
use crate::model::{Lane, Lease, LeaseId, NewTask, Task, TaskId, Ts};

pub(crate) use complete::{Completed, complete};
pub(crate) use moves::{allow_again, become_channel, rehome, release, rerank};
pub(crate) use rows::{SOURCE_COLUMNS, number, park, read_source, resume, revive, settle};
pub(crate) use submit::{refusals, take};

/// Writes down, within the transaction, that a task was given up because its leases ran out. The
/// frontier does not know what anybody does with that.
pub(crate) type Obituary = fn(&Connection, &Task, Ts) -> Result<(), DbError>;

/// The frontier in the embedded database.
#[derive(Clone, Debug)]
pub struct SqliteFrontier {
    db: Db,
    clock: Clock,
    rules: Arc<Rules>,
    changed: Arc<Notify>,
    /// Leases of this process so far: every tenth is for who waits longest.
    handed_out: Arc<AtomicU64>,
    obituary: Obituary,
}

impl SqliteFrontier {
    /// A frontier on an open database.
    pub(crate) fn new(db: Db, clock: Clock, rules: Rules, obituary: Obituary) -> Self {
        Self {
            db,
            clock,
            rules: Arc::new(rules),
            changed: Arc::default(),
            handed_out: Arc::default(),
            obituary,
        }
    }

    /// Wakes whoever waits for work.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// What was adopted of the configuration.
    pub fn adopted(conn: &Connection) -> Result<Option<Adopted>, DbError> {
        adopt::adopted(conn)
    }

    /// Adopts what the rules say of groups and slots; how many tasks changed their queue. Only for the
    /// one who holds the directory's lock, once no lease is left.
    pub async fn adopt(&self) -> Result<u64, DbError> {
        self.write(adopt::adopt).await
    }

    /// Frees the leases of an engine that ended without completing them. Only for the one who
    /// holds the directory's lock: nobody else's lease can be alive then.
    pub async fn free_leases(&self) -> Result<u64, DbError> {
        let obituary = self.obituary;
        self.write(move |conn, now, rules| strikes::free_leases(conn, now, rules, obituary)).await
    }

    async fn write<T, F>(&self, mut work: F) -> Result<T, DbError>
    where
        F: FnMut(&Connection, Ts, &Rules) -> Result<T, DbError> + Send + 'static,
        T: Send + 'static,
    {
        let (clock, rules) = (self.clock.clone(), Arc::clone(&self.rules));
        // Now is when the writer gets to it: a queue before the writer must not age the answer.
        self.db.write(move |conn| work(conn, clock.now(), &rules)).await
    }
}

#[async_trait]
impl Frontier for SqliteFrontier {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    async fn submit(&self, batch: Vec<NewTask>) -> Result<SubmitReport, DbError> {
        let mut report = SubmitReport::default();
        let mut candidates = Vec::with_capacity(batch.len());
        let mut places = Vec::with_capacity(batch.len());
        for (at, new) in batch.iter().enumerate() {
            match admit(new, &self.rules) {
                Ok(candidate) => {
                    candidates.push(candidate);
                    places.push(at);
                }
                Err(rejected) => report.rejected.push(Rejected { at, ..rejected }),
            }
        }
        let taken = self.write(move |conn, now, rules| take(conn, &candidates, now, rules)).await?;
        let collided = taken.collided.iter().filter_map(|at| places.get(*at));
        let collided = collided.filter_map(|at| Some((*at, batch.get(*at)?.url.clone())));
        report.rejected.extend(collided.map(|(at, url)| Rejected::collided(at, url)));
        let refused = taken.refused.iter().filter_map(|at| places.get(*at));
        let refused = refused.filter_map(|at| Some((*at, batch.get(*at)?.url.clone())));
        report.rejected.extend(refused.map(|(at, url)| Rejected::withdrawn(at, url)));
        report.new = taken.new;
        report.known = taken.known;
        report.raised = taken.raised;
        self.wake();
        Ok(report)
    }

    async fn claim_shared(
        &self,
        n: usize,
        lanes: &[Lane],
        shares: WorkerShares,
    ) -> Result<Vec<Lease>, DbError> {
        let lanes = lanes.to_vec();
        let (handed_out, obituary) = (self.handed_out.load(Ordering::Relaxed), self.obituary);
        let leases = self
            .write(move |conn, now, rules| {
                let wanted = claim::Wanted { n, lanes: &lanes, handed_out, shares: &shares };
                claim::claim(conn, wanted, now, rules, obituary)
            })
            .await?;
        self.handed_out.fetch_add(leases.len() as u64, Ordering::Relaxed);
        Ok(leases)
    }

    async fn claim_task(&self, task: TaskId) -> Result<Option<Lease>, DbError> {
        let obituary = self.obituary;
        self.write(move |conn, now, rules| claim::claim_task(conn, task, now, rules, obituary))
            .await
    }

    async fn renew(&self, lease: LeaseId) -> Result<bool, DbError> {
        self.write(move |conn, now, rules| claim::renew(conn, lease, now, rules)).await
    }

    async fn extend(&self, lease: LeaseId, host: &str) -> Result<Extension, DbError> {
        let host = host.to_owned();
        self.write(move |conn, now, rules| claim::extend(conn, lease, &host, now, rules)).await
    }

    async fn next_due(&self, lanes: &[Lane]) -> Result<Option<Ts>, DbError> {
        let lanes = lanes.to_vec();
        self.db.read(move |conn| claim::next_due(conn, &lanes)).await
    }

    async fn has_work(&self, lanes: &[Lane]) -> Result<bool, DbError> {
        let (lanes, now) = (lanes.to_vec(), self.clock.now());
        self.db.read(move |conn| claim::has_work(conn, &lanes, now)).await
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }

    async fn set_host(&self, host: &str, patch: HostPatch) -> Result<(), DbError> {
        let host = host.to_owned();
        self.write(move |conn, now, rules| admin::set_host(conn, &host, &patch, now, rules))
            .await?;
        self.wake();
        Ok(())
    }

    async fn maintain(&self) -> Result<u64, DbError> {
        self.write(|conn, _, _| rows::repair(conn)).await
    }

    async fn list(&self, filter: TaskFilter) -> Result<Vec<Task>, DbError> {
        self.db.read(move |conn| admin::list(conn, &filter)).await
    }

    async fn count(&self, filter: TaskFilter) -> Result<u64, DbError> {
        self.db.read(move |conn| admin::count(conn, &filter)).await
    }

    async fn sweep(&self, act: Act, filter: TaskFilter, dry: bool) -> Result<Sweep, DbError> {
        let filter = TaskFilter { order: Order::default(), ..filter };
        let (wanted, limit) = (filter.clone(), filter.limit);
        let rows = self.db.read(move |conn| sweep::find(conn, &wanted)).await?;
        let last = rows.last().filter(|_| rows.len() >= limit);
        let next = last.map(|last| Cursor::behind_row(*last));
        let swept = if dry {
            self.db.read(move |conn| sweep::weigh(conn, act, &filter, &rows)).await?
        } else {
            self.write(move |conn, now, _| sweep::sweep(conn, act, &filter, &rows, now)).await?
        };
        self.wake();
        Ok(Sweep { next, ..swept })
    }

    async fn hosts(&self, filter: HostFilter) -> Result<Vec<HostState>, DbError> {
        let (now, rules) = (self.clock.now(), Arc::clone(&self.rules));
        self.db.read(move |conn| admin::hosts(conn, &filter, now, &rules)).await
    }

    async fn shares(&self, by: Share, top: usize) -> Result<Vec<(String, Counts)>, DbError> {
        self.db.read(move |conn| admin::shares(conn, by, top)).await
    }

    async fn stats(&self) -> Result<Stats, DbError> {
        let now = self.clock.now();
        self.db.read(move |conn| admin::stats(conn, now)).await
    }
}
