//! What next: the one queue through which every address goes.
//!
//! The frontier knows addresses, hosts, priorities and times. It knows nothing of feeds, articles
//! or HTTP, and it makes no request. The host is the unit of politeness: its row is the head of
//! its queue and its lease, so at most one request is under way to it, in all processes, and its
//! pause is counted from the end of the last one, also over a restart.

mod adopt;
mod budget;
pub mod fairness;
mod hosts;
mod intake;
mod listing;
pub mod postgres;
mod refusals;
mod rulings;
pub mod sqlite;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::db::DbError;
use crate::model::{Code, Kind, Lane, Lease, LeaseId, NewTask, Task, TaskId, Ts};

pub use adopt::Adopted;
pub use budget::{Pace, PauseOrigin};
pub use fairness::WorkerShares;
pub use hosts::{FOREVER, HostFilter, HostState, RobotsCopy, UNKNOWN_TASK};
pub use intake::{Candidate, Rejected, admit, priority, queue_key};
pub use listing::{BadCursor, Cursor, Order, Sort, TaskFilter};
pub use refusals::{Refusals, is_below};

/// Leases in a row without an answer after which a task is given up.
pub const MAX_STRIKES: i64 = 5;

/// What the frontier has to be told about the house's rules.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How addresses are normalised into keys.
    pub key: feedmill_formats::url::KeyRules,
    /// The pause between two requests to a host that asks for none.
    pub delay: Delay,
    /// How long a lease lasts, in the clock's time.
    pub lease: Duration,
    /// Whether robots.txt also rules feeds that the operator declared.
    pub robots_for_feeds: bool,
    /// Requests at a time to a host that nobody said anything else about.
    pub concurrency: u32,
    /// Hosts that share one budget: the group's name, and its hosts (exact, or `*.suffix`).
    pub groups: Vec<(String, Vec<String>)>,
    /// Whether a source without channels has its home page looked at for some.
    pub discover: bool,
    /// Whether a task that is claimed by its id is handed out during its host's pause. Only for who
    /// asks nobody, such as a rebuild.
    pub ignore_pauses: bool,
}

impl Rules {
    /// A claim by id at this time is for slots whose pause ends by then.
    const fn ready_by(&self, now: Ts) -> Ts {
        if self.ignore_pauses { Ts::from_ms(i64::MAX) } else { now }
    }
}

/// A pause that can change while the engine runs; all who have it see the change.
#[derive(Clone, Debug)]
pub struct Delay(Arc<AtomicU64>);

impl Delay {
    /// The pause now.
    #[must_use]
    pub fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    /// From now on it is this.
    pub fn set(&self, pause: Duration) {
        self.0.store(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl From<Duration> for Delay {
    fn from(pause: Duration) -> Self {
        let delay = Self(Arc::default());
        delay.set(pause);
        delay
    }
}

/// What became of a batch of submissions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SubmitReport {
    /// Addresses that we did not know.
    pub new: u64,
    /// Addresses that we knew.
    pub known: u64,
    /// Known ones that are now served earlier; they count as known too.
    pub raised: u64,
    /// Addresses that cannot be taken, each with its reason.
    pub rejected: Vec<Rejected>,
}

/// Whether a lease may also ask another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// That host is now part of the lease.
    Granted {
        /// Time that has to pass before it is asked.
        wait: Duration,
        /// The pause that it wants between two requests.
        pause: Duration,
    },
    /// Somebody else is asking it.
    Busy {
        /// The pause that it wants between two requests.
        pause: Duration,
    },
    /// It is not to be asked for long.
    Blocked {
        /// Until when.
        until: Ts,
    },
    /// The lease itself is no longer valid.
    Stale,
}

/// What an operator may say about a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPatch {
    /// The shortest pause between two requests, whatever robots.txt and sources say.
    pub delay: Option<Duration>,
    /// Nothing before this time.
    pub blocked_until: Option<Ts>,
    /// The task whose response asked for that, [`UNKNOWN_TASK`] when it was none; `None` for the operator.
    pub blocked_by: Option<TaskId>,
    /// Requests at a time.
    pub concurrency: Option<u32>,
    /// Forget the pause that complaints taught, and end one that a response asked for.
    pub forget: bool,
}

/// What an operator may do to many tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Asks for them again, now.
    Retry,
    /// Asks now for those that wait; their failures stay counted.
    Hasten,
    /// Forgets them. What was read there stays.
    Delete,
    /// Gives them up for good, also the channels of sources: they were taken down.
    Withdraw,
}

/// What one stretch of a sweep came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Tasks that it was done to.
    pub done: u64,
    /// Tasks that were left alone: others rely on them.
    pub spared: u64,
    /// Where the next stretch begins; `None` when this was the last one.
    pub next: Option<Cursor>,
}

/// What tasks can be shared out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// By the source that owns them.
    Source,
    /// By their host, or its group.
    Host,
}

/// Tasks by where they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Waiting, never failed.
    pub pending: u64,
    /// Under way now.
    pub fetching: u64,
    /// Done.
    pub fetched: u64,
    /// Waiting after a failure.
    pub failed: u64,
    /// Given up.
    pub dead: u64,
    /// Set aside with their sources.
    pub parked: u64,
}

/// The frontier in figures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    /// All tasks.
    pub total: Counts,
    /// By kind, kinds without tasks left out.
    pub by_kind: Vec<(Kind, Counts)>,
    /// Given up, by code, most frequent first.
    pub dead_by_code: Vec<(Code, u64)>,
    /// Hosts known.
    pub hosts: u64,
    /// Tasks whose time has come.
    pub due: u64,
    /// When the next task can be handed out.
    pub next_due: Option<Ts>,
}

/// The boundary that both backends keep. Completion is not here: it is part of the store's commit.
#[async_trait]
pub trait Frontier: Send + Sync {
    /// The rules of the house.
    fn rules(&self) -> &Rules;

    /// Takes addresses in; each is known once.
    async fn submit(&self, batch: Vec<NewTask>) -> Result<SubmitReport, DbError>;

    /// Hands out at most `n` tasks of these lanes, each on another host.
    async fn claim(&self, n: usize, lanes: &[Lane]) -> Result<Vec<Lease>, DbError> {
        self.claim_shared(n, lanes, WorkerShares::unlimited()).await
    }

    /// The same within the shares that sources and sites have of the workers.
    async fn claim_shared(
        &self,
        n: usize,
        lanes: &[Lane],
        shares: WorkerShares,
    ) -> Result<Vec<Lease>, DbError>;

    /// Hands out this very task, when it is due and its host is free; first its robots.txt, where that
    /// is needed.
    async fn claim_task(&self, task: TaskId) -> Result<Option<Lease>, DbError>;

    /// Makes a lease last for another full term; false when it is stale.
    async fn renew(&self, lease: LeaseId) -> Result<bool, DbError>;

    /// Asks for a second host under the same lease, for a redirect.
    async fn extend(&self, lease: LeaseId, host: &str) -> Result<Extension, DbError>;

    /// When the next task of these lanes can be handed out, or when to look again where very many of other
    /// lanes come before it; `None` when nothing waits.
    async fn next_due(&self, lanes: &[Lane]) -> Result<Option<Ts>, DbError>;

    /// Whether a task of these lanes is due and could be served soon: its host is not blocked.
    async fn has_work(&self, lanes: &[Lane]) -> Result<bool, DbError>;

    /// Waits until something was submitted or completed by this process.
    async fn changed(&self);

    /// Applies what an operator says about a host.
    async fn set_host(&self, host: &str, patch: HostPatch) -> Result<(), DbError>;

    /// Puts right what a crash may have left; returns how many rows it touched.
    async fn maintain(&self) -> Result<u64, DbError>;

    /// Tasks by filter, in its order.
    async fn list(&self, filter: TaskFilter) -> Result<Vec<Task>, DbError>;

    /// How many tasks the filter lets through, whatever its place and limit.
    async fn count(&self, filter: TaskFilter) -> Result<u64, DbError>;

    /// Does this to the next tasks of the filter, oldest first and at most `filter.limit` of them, in
    /// one transaction; a dry run only counts.
    async fn sweep(&self, act: Act, filter: TaskFilter, dry: bool) -> Result<Sweep, DbError>;

    /// Hosts by filter, in the order of their names.
    async fn hosts(&self, filter: HostFilter) -> Result<Vec<HostState>, DbError>;

    /// The sources or hosts with most tasks, the largest first.
    async fn shares(&self, by: Share, top: usize) -> Result<Vec<(String, Counts)>, DbError>;

    /// The frontier in figures.
    async fn stats(&self) -> Result<Stats, DbError>;
}
