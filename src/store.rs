//! What we know: sources, entries, articles, fetches and the log of events.
//!
//! [`Store::lookup`] answers what a handler asks, [`Store::commit`] makes an outcome true, as a
//! whole or not at all. What other tasks may change meanwhile is settled inside the commit by the
//! pure functions of [`apply`]. The store makes no decision about the web.

pub mod apply;
pub mod browse;
pub mod damage;
mod events;
mod forms;
pub mod gate;
pub mod near;
pub mod outbox;
pub mod postgres;
mod prints;
mod raw;
pub mod sqlite;
pub mod takedown;
pub mod times;
pub mod usage;

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::db::DbError;
use crate::db::statement::Statements;
use crate::frontier::{
    Act, Counts, Extension, Frontier, HostFilter, HostPatch, HostState, Rules, Share, Stats,
    SubmitReport, Sweep, TaskFilter, WorkerShares,
};
use crate::model::{
    Admission, ArticleId, ArticleRow, Ask, Code, Discovery, EntryId, EntryRow, Event, FetchId,
    FetchRecord, Health, Known, Lane, Lease, LeaseId, NewEvent, NewSource, NewTask, Outcome,
    PastForm, Reference, Revision, RobotsState, Source, SourceChange, SourceId, Task, TaskId, Ts,
    Warned,
};

pub use damage::{DamagedEvent, DamagedRow, DamagedTable};
pub use events::EventFilter;
pub use outbox::Outbox;
pub use postgres::PgStore;
pub use raw::{FetchFilter, MovedRaw, Reread, SegmentUse};
pub use sqlite::SqliteStore;
pub use takedown::Takedowns;
pub use times::TimesAhead;

/// Discoveries that go into one commit at the most; more go ahead in chunks.
pub const MAX_DISCOVERED: usize = 2_000;

/// Copies of an article that are told at the most.
pub const MAX_COPIES: i64 = 1_000;

/// A page of articles.
#[derive(Clone, Debug, Default)]
pub struct ArticlePage {
    /// Those that can be read, with their rows.
    pub articles: Vec<(i64, ArticleRow)>,
    /// Those that cannot.
    pub damaged: Vec<DamagedRow>,
    /// The last row of the page; nothing behind the last page.
    pub last: Option<i64>,
}

/// A lease with what came of it.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The lease under which it was done.
    pub lease: Lease,
    /// What came of it.
    pub outcome: Outcome,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is true now.
    Done,
    /// The lease was no longer valid: nothing has changed.
    Stale,
    /// The feed changed since the look-up: look up and decide again. Nothing has changed.
    Conflict,
}

/// Why a source could not be added, found or changed.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Names are unique.
    #[error("a source named `{0}` exists already: choose another name with --name")]
    NameTaken(String),
    /// There is no such source.
    #[error("no source is called `{0}`: `feedmill source list` shows them")]
    Unknown(String),
    /// Somebody else was faster.
    #[error("`{0}` was changed by somebody else meanwhile: try again")]
    Changed(String),
    /// It was taken down.
    #[error(
        "`{0}` was taken down: `feedmill forget --list` tells by whom and why, --undo lifts it"
    )]
    Withdrawn(String),
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

/// Which articles to list.
#[derive(Clone, Debug, Default)]
pub struct ArticleFilter {
    /// Of the source with this name or id.
    pub source: Option<String>,
    /// First seen at or after this time.
    pub since: Option<Ts>,
    /// Seen before the article in this row (newest first).
    pub before_row: Option<i64>,
    /// At most so many.
    pub limit: usize,
}

/// How a source's channels do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChannelState {
    /// Whose it is.
    #[serde(skip)]
    pub source: SourceId,
    /// Its task's public id.
    pub id: String,
    /// feed or sitemap.
    pub kind: crate::model::Kind,
    /// Where it is.
    pub url: String,
    /// Where it was before it moved for good.
    pub moved_from: Option<String>,
    /// Where its task stands.
    pub status: crate::model::Status,
    /// When it is polled next.
    pub next_fetch_at: Ts,
    /// When it was polled last.
    pub last_fetched_at: Option<Ts>,
    /// When a poll last succeeded.
    pub last_success_at: Option<Ts>,
    /// Failures in a row.
    pub failures: u32,
    /// Items in the last document.
    pub items: u32,
    /// What went wrong last.
    pub last_error: Option<Code>,
    /// Why it comes back when it does.
    pub reason: Option<String>,
    /// How it does.
    pub health: crate::model::Health,
    /// Since when it does like that.
    pub health_since: Option<Ts>,
    /// Since when it has only been probed, or was given up.
    pub disabled_since: Option<Ts>,
    /// What was wrong with its last document.
    pub warnings: Vec<Warned>,
}

/// A host that pages of a source link to, and that may be worth following itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutsideHost {
    /// The host.
    pub host: String,
    /// The first link to it that was seen.
    pub url: String,
    /// Links to it that were seen on pages, each time that these were read.
    pub links: u64,
    /// When the first one was seen.
    pub first_seen: Ts,
    /// When the last one was seen.
    pub last_seen: Ts,
}

/// The price of a request, as it is kept for all who plan polls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct PriceNote {
    /// In item-seconds.
    pub value: f64,
    /// What polls that were really made taught about it, as a power of e.
    pub correction: f64,
    /// Polls that were made beyond the budget so far; negative when it was not used up.
    #[serde(default)]
    pub owed: f64,
    /// When it was worked out.
    pub at: Ts,
    /// Since when it has been worked out without a break.
    pub since: Ts,
}

/// What the price of a request follows from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demand {
    /// Channels by the bucket of their rate, whose polls follow the price.
    pub buckets: Vec<(u8, u32)>,
    /// Feeds that are followed and were never polled.
    pub unpolled: u32,
    /// Polls a day of the others.
    pub fixed: f64,
    /// Requests of channels in the last day.
    pub made: u64,
    /// Those of them that were made since the price was worked out.
    pub made_since: u64,
    /// The price until now.
    pub price: Option<PriceNote>,
}

/// The store in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Sources followed.
    pub sources: u64,
    /// Entries known.
    pub entries: u64,
    /// Articles kept.
    pub articles: u64,
    /// Articles with the very text of an earlier one.
    pub duplicates: u64,
    /// Requests made.
    pub requests: u64,
    /// Requests answered with "nothing changed".
    pub not_modified: u64,
    /// Bytes of body received.
    pub bytes: u64,
    /// Events in the log.
    pub events: u64,
}

/// How the house does, as far as a look at few rows tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Vitals {
    /// Sources followed.
    pub sources: u64,
    /// Sources that are not.
    pub sources_disabled: u64,
    /// Channels that are polled, by their health.
    pub channels: Vec<(Health, u64)>,
    /// Those of them that were not polled within twice their interval.
    pub overdue: u64,
    /// Hosts that are being asked.
    pub hosts_busy: u64,
    /// Hosts that are blocked for more than an hour from now.
    pub hosts_blocked: u64,
    /// Bytes of the database.
    pub bytes: u64,
    /// Bytes of its write-ahead log, where that is a file of ours.
    pub wal_bytes: u64,
}

/// Numbers that rows had in a store that is being rebuilt: the ids of entries follow from those of
/// their feeds' tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredIds {
    /// No task that is new gets this number or a lower one.
    pub reserve: i64,
    /// The source, the id it had, and when it was added.
    pub source: Option<(SourceId, String, Ts)>,
    /// Tasks, each with the number that it had.
    pub tasks: Vec<(TaskId, TaskId)>,
    /// No event that is new gets this place in the log or an earlier one: targets may know those by
    /// other events.
    pub events: i64,
}

/// A host is blocked, and not just paused, when it is for longer than this.
const BLOCKED_MS: i64 = 3_600_000;

/// The boundary that both backends keep, beside [`Frontier`].
#[async_trait]
pub trait Store: Frontier + Outbox + Takedowns + Statements {
    /// The frontier within; a store can be used as one.
    fn queue(&self) -> &dyn Frontier;

    /// Answers what a handler asks, from one snapshot.
    async fn lookup(&self, ask: Ask) -> Result<Known, DbError>;

    /// Makes outcomes true. Each stands or falls alone; the answers are in their order.
    async fn commit(&self, batch: Vec<Commit>) -> Vec<Result<Committed, DbError>>;

    /// The kept copy of an origin's robots.txt.
    async fn robots(&self, origin: &str) -> Result<Option<RobotsState>, DbError>;

    /// Adds a source and its channels.
    async fn admit_source(&self, new: Admission) -> Result<Source, SourceError>;

    /// Adds a source that is followed from now on.
    async fn add_source(&self, new: NewSource) -> Result<Source, SourceError> {
        self.admit_source(new.into()).await
    }

    /// All sources, by name.
    async fn sources(&self) -> Result<Vec<Source>, DbError>;

    /// The searches for channels of sources.
    async fn discoveries(&self) -> Result<Vec<(SourceId, Discovery)>, DbError>;

    /// The channels of all sources, in the order in which they were added.
    async fn channels(&self) -> Result<Vec<ChannelState>, DbError>;

    /// The source with this name or id, and its channels.
    async fn source(&self, name: &str) -> Result<(Source, Vec<ChannelState>), SourceError>;

    /// Hosts that pages of a source link to and that are not its own, most links first.
    async fn outside(&self, source: SourceId) -> Result<Vec<OutsideHost>, DbError>;

    /// The source in this row.
    async fn source_by_id(&self, id: SourceId) -> Result<Option<Source>, DbError>;

    /// Enables (no reason) or disables (with one) a source. Enabling also takes up channels that were
    /// given up or are only probed.
    async fn set_enabled(
        &self,
        name: &str,
        disabled: Option<String>,
    ) -> Result<Source, SourceError>;

    /// Changes what was said about a source, from its next request on. Channels that it no longer
    /// names are set aside with all that is known of them, and new ones are taken up.
    async fn respecify(&self, name: &str, change: SourceChange) -> Result<Source, SourceError>;

    /// Takes back articles that nobody but this source gave, so many at the most, and tells the log; how
    /// many there were.
    async fn withdraw(&self, name: &str, limit: usize) -> Result<u64, SourceError>;

    /// Forgets a source; its articles stay.
    async fn remove_source(&self, name: &str) -> Result<Source, SourceError>;

    /// A page of articles by filter, newest first, and those of it that are damaged.
    async fn article_page(&self, filter: ArticleFilter) -> Result<ArticlePage, DbError>;

    /// Articles by filter, newest first, with their rows for paging. Damaged ones are left out.
    async fn articles(&self, mut filter: ArticleFilter) -> Result<Vec<(i64, ArticleRow)>, DbError> {
        loop {
            let page = self.article_page(filter.clone()).await?;
            match page.last {
                Some(last) if page.articles.is_empty() => filter.before_row = Some(last),
                _ => return Ok(page.articles),
            }
        }
    }

    /// An article and its text.
    async fn article(&self, id: ArticleId) -> Result<Option<(ArticleRow, String)>, DbError>;

    /// An article and all that tell the same with the same words, in the order in which we had
    /// them, [`MAX_COPIES`] at the most; nothing when there is no such article.
    async fn copies(&self, id: ArticleId) -> Result<Vec<ArticleRow>, DbError>;

    /// All who told of these tasks, in the order in which they first did.
    async fn references(&self, tasks: Vec<TaskId>) -> Result<Vec<Reference>, DbError>;

    /// All forms that an article has had, the first one first; nothing when there is no such article.
    async fn revisions(&self, id: ArticleId) -> Result<Vec<Revision>, DbError>;

    /// A form of an article that another one followed, with its text.
    async fn past(
        &self,
        id: ArticleId,
        revision: u32,
    ) -> Result<Option<(PastForm, String)>, DbError>;

    /// Entries of a feed whose kept form came with that fetch or a later one, each with its fetch.
    async fn entries_since(
        &self,
        feed: TaskId,
        fetch: FetchId,
    ) -> Result<Vec<(EntryId, FetchId)>, DbError>;

    /// An entry.
    async fn entry(&self, id: EntryId) -> Result<Option<EntryRow>, DbError>;

    /// The last fetches of a task, newest first.
    async fn fetches(&self, task: TaskId, limit: usize) -> Result<Vec<FetchRecord>, DbError>;

    /// Fetches by filter, in the order of their time.
    async fn find_fetches(&self, filter: FetchFilter) -> Result<Vec<FetchRecord>, DbError>;

    /// Segments of the archive that fetches refer to, oldest first.
    async fn segments(&self) -> Result<Vec<SegmentUse>, DbError>;

    /// Fetches in a segment that are among the last `per_feed` documents of their feed.
    async fn needed(&self, segment: &str, per_feed: u32) -> Result<Vec<FetchRecord>, DbError>;

    /// Notes where bytes are now that were copied; of fetches that are no longer there, nothing.
    async fn move_raw(&self, moved: Vec<MovedRaw>) -> Result<(), DbError>;

    /// Notes that the bytes of a segment are no longer kept but for its first `kept`, of so many
    /// fetches at the most; how many there were.
    async fn forget_segment(&self, segment: &str, kept: u64, limit: usize) -> Result<u64, DbError>;

    /// Gives rows the numbers that they had in a store that is being rebuilt. Nobody else may work on
    /// it meanwhile.
    async fn restore_ids(&self, ids: RestoredIds) -> Result<(), DbError>;

    /// Keeps what was read again in archived bytes, where it is different and nothing later is
    /// kept; how many entries and articles that were. Tasks stay as they are.
    async fn reread(&self, read: Reread) -> Result<u64, DbError>;

    /// Events by filter, in the order of the log, damaged ones among them.
    async fn read_events(
        &self,
        filter: EventFilter,
    ) -> Result<Vec<Result<Event, DamagedEvent>>, DbError>;

    /// Events by filter, in the order of the log. One whose payload is damaged says so instead.
    async fn events(&self, filter: EventFilter) -> Result<Vec<Event>, DbError> {
        let shown = |read: Result<Event, DamagedEvent>| match read {
            Ok(event) => Some(event),
            Err(DamagedEvent { reason, left, .. }) => {
                Some(Event { payload: serde_json::json!({ "damaged": reason }), ..*left? })
            }
        };
        Ok(self.read_events(filter).await?.into_iter().filter_map(shown).collect())
    }

    /// Events after a place in the log, in order.
    async fn events_after(&self, seq: i64, limit: usize) -> Result<Vec<Event>, DbError> {
        self.events(EventFilter { after: seq, limit, ..EventFilter::default() }).await
    }

    /// Waits for any answer of the database.
    async fn ping(&self, within: Duration) -> Result<(), DbError>;

    /// Writes events to the log that no other operation stands for.
    async fn log_events(&self, events: Vec<NewEvent>) -> Result<(), DbError>;

    /// How many engines work on it now.
    async fn engines(&self) -> Result<u64, DbError>;

    /// Waits until this process wrote to the log.
    async fn logged(&self);

    /// What the price of a request follows from.
    async fn demand(&self) -> Result<Demand, DbError>;

    /// Keeps the price of a request for all who plan polls.
    async fn set_price(&self, price: PriceNote) -> Result<(), DbError>;

    /// Keys and values of the configuration that were said to the running installation, by key.
    async fn settings(&self) -> Result<Vec<(String, String)>, DbError>;

    /// Keeps a value for a key of the configuration, or forgets it; whether one was kept before.
    async fn keep_setting(&self, key: &str, value: Option<String>) -> Result<bool, DbError>;

    /// How many rows hold times that lie too far ahead, as a faulty clock leaves them. `horizon` is
    /// the longest that anything is planned ahead.
    async fn times_ahead(&self, horizon: Duration) -> Result<TimesAhead, DbError>;

    /// Puts such times right; which they were.
    async fn repair_times(&self, horizon: Duration) -> Result<TimesAhead, DbError>;

    /// Replaces what the scheduler remembers of a feed, unless that changed meanwhile.
    async fn keep_schedule(
        &self,
        task: TaskId,
        based_on: i64,
        schedule: Vec<u8>,
    ) -> Result<bool, DbError>;

    /// The store in figures.
    async fn totals(&self) -> Result<Totals, DbError>;

    /// How the house does.
    async fn vitals(&self) -> Result<Vitals, DbError>;

    /// Writes what is waiting and closes; later calls are refused.
    async fn close(&self);
}

#[async_trait]
impl<S: Store> Frontier for S {
    fn rules(&self) -> &Rules {
        self.queue().rules()
    }
    async fn submit(&self, batch: Vec<NewTask>) -> Result<SubmitReport, DbError> {
        self.queue().submit(batch).await
    }
    async fn claim_shared(
        &self,
        n: usize,
        lanes: &[Lane],
        shares: WorkerShares,
    ) -> Result<Vec<Lease>, DbError> {
        self.queue().claim_shared(n, lanes, shares).await
    }
    async fn claim_task(&self, task: TaskId) -> Result<Option<Lease>, DbError> {
        self.queue().claim_task(task).await
    }
    async fn renew(&self, lease: LeaseId) -> Result<bool, DbError> {
        self.queue().renew(lease).await
    }
    async fn extend(&self, lease: LeaseId, host: &str) -> Result<Extension, DbError> {
        self.queue().extend(lease, host).await
    }
    async fn next_due(&self, lanes: &[Lane]) -> Result<Option<Ts>, DbError> {
        self.queue().next_due(lanes).await
    }
    async fn has_work(&self, lanes: &[Lane]) -> Result<bool, DbError> {
        self.queue().has_work(lanes).await
    }
    async fn changed(&self) {
        self.queue().changed().await;
    }
    async fn set_host(&self, host: &str, patch: HostPatch) -> Result<(), DbError> {
        self.queue().set_host(host, patch).await
    }
    async fn maintain(&self) -> Result<u64, DbError> {
        self.queue().maintain().await
    }
    async fn list(&self, filter: TaskFilter) -> Result<Vec<Task>, DbError> {
        self.queue().list(filter).await
    }
    async fn count(&self, filter: TaskFilter) -> Result<u64, DbError> {
        self.queue().count(filter).await
    }
    async fn sweep(&self, act: Act, filter: TaskFilter, dry: bool) -> Result<Sweep, DbError> {
        self.queue().sweep(act, filter, dry).await
    }
    async fn hosts(&self, filter: HostFilter) -> Result<Vec<HostState>, DbError> {
        self.queue().hosts(filter).await
    }
    async fn shares(&self, by: Share, top: usize) -> Result<Vec<(String, Counts)>, DbError> {
        self.queue().shares(by, top).await
    }
    async fn stats(&self) -> Result<Stats, DbError> {
        self.queue().stats().await
    }
}
