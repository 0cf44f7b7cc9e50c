//! The store in the embedded database.

mod article;
mod commit;
mod lookup;
mod outbox;
mod prints;
mod raw;
mod read;
mod restore_ids;
mod sources;
mod takedown;
mod times;
mod told;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::Notify;

use super::forms::SETTING;
use super::takedown::check;
use super::times::Look;
use super::{
    ArticleFilter, ArticlePage, ChannelState, Commit, Committed, DamagedEvent, Demand, EventFilter,
    FetchFilter, MovedRaw, OutsideHost, PriceNote, Reread, RestoredIds, SegmentUse, SourceError,
    Store, TimesAhead, Totals, Vitals,
};
use crate::clock::Clock;
use crate::db::statement::{Cells, Dialect, Statement, Statements};
use crate::db::transfer::names_every_table;
use crate::db::{Db, DbError, EngineLock};
use crate::frontier::sqlite::SqliteFrontier;
use crate::frontier::{Act, Frontier, Rules, TaskFilter};
use crate::model::{
    Admission, ArticleId, ArticleRow, Ask, Discovery, EntryId, EntryRow, Event, FetchId,
    FetchRecord, Known, NewEvent, PastForm, Reference, Revision, RobotsState, Source, SourceChange,
    SourceId, TaskId,
};

/// Everything Feedmill knows, in one file.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    db: Db,
    clock: Clock,
    frontier: SqliteFrontier,
    logged: Arc<Notify>,
}

impl SqliteStore {
    /// A store on an open database.
    #[must_use]
    pub fn new(db: Db, clock: Clock, rules: Rules) -> Self {
        let frontier = SqliteFrontier::new(db.clone(), clock.clone(), rules, commit::bury);
        Self { db, clock, frontier, logged: Arc::default() }
    }

    /// The frontier within.
    #[must_use]
    pub const fn frontier(&self) -> &SqliteFrontier {
        &self.frontier
    }

    /// A look for times that lie too far ahead, whenever it is made.
    fn look(&self, horizon: Duration) -> impl Fn() -> Look + Send + use<> {
        let (clock, lease) = (self.clock.clone(), self.frontier.rules().lease);
        move || Look::new(clock.now(), horizon, lease, Dialect::Sqlite)
    }
}

#[async_trait]
impl Statements for SqliteStore {
    fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    async fn select(&self, statement: Statement) -> Result<Vec<Cells>, DbError> {
        self.db.select(statement).await
    }

    async fn change(&self, statements: Vec<Statement>) -> Result<u64, DbError> {
        self.db.change(statements).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn queue(&self) -> &dyn Frontier {
        &self.frontier
    }

    async fn lookup(&self, ask: Ask) -> Result<Known, DbError> {
        let rules = self.rules().clone();
        self.db.read(move |conn| lookup::lookup(conn, &ask, &rules)).await
    }

    async fn commit(&self, batch: Vec<Commit>) -> Vec<Result<Committed, DbError>> {
        let (clock, rules) = (&self.clock, Arc::new(self.frontier.rules().clone()));
        // Normalising is work that the writer need not wait for.
        let jobs = batch.into_iter().map(|commit| {
            let (clock, rules) = (clock.clone(), Arc::clone(&rules));
            let ready = commit::Ready::new(commit, &rules);
            move |conn: &Connection| commit::commit(conn, &ready, clock.now(), &rules)
        });
        let done = self.db.write_each(jobs.collect()).await;
        self.frontier.wake();
        self.logged.notify_waiters();
        done
    }

    async fn robots(&self, origin: &str) -> Result<Option<RobotsState>, DbError> {
        let origin = origin.to_owned();
        self.db.read(move |conn| lookup::robots(conn, &origin)).await
    }

    async fn admit_source(&self, new: Admission) -> Result<Source, SourceError> {
        let (clock, rules) = (self.clock.clone(), self.frontier.rules().clone());
        let name = new.spec.name.clone();
        let added =
            self.db.write(move |conn| sources::add(conn, &new, clock.now(), &rules)).await?;
        self.frontier.wake();
        added.ok_or(SourceError::NameTaken(name))
    }

    async fn sources(&self) -> Result<Vec<Source>, DbError> {
        self.db.read(sources::list).await
    }

    async fn discoveries(&self) -> Result<Vec<(SourceId, Discovery)>, DbError> {
        self.db.read(lookup::discoveries).await
    }

    async fn channels(&self) -> Result<Vec<ChannelState>, DbError> {
        self.db.read(|conn| sources::channels(conn, None)).await
    }

    async fn references(&self, tasks: Vec<TaskId>) -> Result<Vec<Reference>, DbError> {
        self.db.read(move |conn| told::references(conn, &tasks)).await
    }

    async fn outside(&self, source: SourceId) -> Result<Vec<OutsideHost>, DbError> {
        self.db.read(move |conn| sources::outside(conn, source)).await
    }

    async fn source(&self, name: &str) -> Result<(Source, Vec<ChannelState>), SourceError> {
        let wanted = name.to_owned();
        let found = self.db.read(move |conn| sources::show(conn, &wanted)).await?;
        found.ok_or_else(|| SourceError::Unknown(name.to_owned()))
    }

    async fn source_by_id(&self, id: SourceId) -> Result<Option<Source>, DbError> {
        self.db.read(move |conn| sources::by_id(conn, id)).await
    }

    async fn set_enabled(
        &self,
        name: &str,
        disabled: Option<String>,
    ) -> Result<Source, SourceError> {
        if disabled.is_none() {
            check(self, name).await?;
        }
        let (wanted, clock) = (name.to_owned(), self.clock.clone());
        let found = self
            .db
            .write(move |conn| {
                sources::set_enabled(conn, &wanted, disabled.as_deref(), clock.now())
            })
            .await?;
        let (source, forgiven) = found.ok_or_else(|| SourceError::Unknown(name.to_owned()))?;
        if !forgiven.is_empty() {
            let filter = TaskFilter { limit: forgiven.len(), ids: forgiven, ..Default::default() };
            self.frontier.sweep(Act::Retry, filter, false).await?;
        }
        self.frontier.wake();
        self.logged.notify_waiters();
        Ok(source)
    }

    async fn respecify(&self, name: &str, change: SourceChange) -> Result<Source, SourceError> {
        let (clock, rules) = (self.clock.clone(), self.frontier.rules().clone());
        let wanted = name.to_owned();
        let changed = self.db.write(move |conn| {
            sources::respecify(conn, &wanted, change.clone(), clock.now(), &rules)
        });
        let changed = changed.await?;
        self.frontier.wake();
        changed.result(name)
    }

    async fn withdraw(&self, name: &str, limit: usize) -> Result<u64, SourceError> {
        let (wanted, clock) = (name.to_owned(), self.clock.clone());
        let gone =
            self.db.write(move |conn| sources::withdraw(conn, &wanted, limit, clock.now())).await?;
        self.logged.notify_waiters();
        gone.ok_or_else(|| SourceError::Unknown(name.to_owned()))
    }

    async fn remove_source(&self, name: &str) -> Result<Source, SourceError> {
        let wanted = name.to_owned();
        let found = self.db.write(move |conn| sources::remove(conn, &wanted)).await?;
        found.ok_or_else(|| SourceError::Unknown(name.to_owned()))
    }

    async fn article_page(&self, filter: ArticleFilter) -> Result<ArticlePage, DbError> {
        self.db.read(move |conn| article::list(conn, &filter)).await
    }

    async fn article(&self, id: ArticleId) -> Result<Option<(ArticleRow, String)>, DbError> {
        self.db.read(move |conn| article::with_text(conn, id)).await
    }

    async fn copies(&self, id: ArticleId) -> Result<Vec<ArticleRow>, DbError> {
        self.db.read(move |conn| article::copies(conn, id)).await
    }

    async fn revisions(&self, id: ArticleId) -> Result<Vec<Revision>, DbError> {
        self.db.read(move |conn| article::revisions(conn, id)).await
    }

    async fn past(
        &self,
        id: ArticleId,
        revision: u32,
    ) -> Result<Option<(PastForm, String)>, DbError> {
        self.db.read(move |conn| article::past(conn, id, revision)).await
    }

    async fn entries_since(
        &self,
        feed: TaskId,
        fetch: FetchId,
    ) -> Result<Vec<(EntryId, FetchId)>, DbError> {
        self.db.read(move |conn| raw::entries_since(conn, feed, fetch)).await
    }

    async fn entry(&self, id: EntryId) -> Result<Option<EntryRow>, DbError> {
        self.db.read(move |conn| read::entry(conn, id)).await
    }

    async fn fetches(&self, task: TaskId, limit: usize) -> Result<Vec<FetchRecord>, DbError> {
        self.db.read(move |conn| read::fetches(conn, task, limit)).await
    }

    async fn find_fetches(&self, filter: FetchFilter) -> Result<Vec<FetchRecord>, DbError> {
        self.db.read(move |conn| raw::find(conn, &filter)).await
    }

    async fn segments(&self) -> Result<Vec<SegmentUse>, DbError> {
        self.db.read(raw::segments).await
    }

    async fn needed(&self, segment: &str, per_feed: u32) -> Result<Vec<FetchRecord>, DbError> {
        let segment = segment.to_owned();
        self.db.read(move |conn| raw::needed(conn, &segment, per_feed)).await
    }

    async fn move_raw(&self, moved: Vec<MovedRaw>) -> Result<(), DbError> {
        self.db.write(move |conn| raw::move_raw(conn, &moved)).await
    }

    async fn forget_segment(&self, segment: &str, kept: u64, limit: usize) -> Result<u64, DbError> {
        let segment = segment.to_owned();
        self.db.write(move |conn| raw::forget(conn, &segment, kept, limit)).await
    }

    async fn restore_ids(&self, ids: RestoredIds) -> Result<(), DbError> {
        self.db.write(move |conn| restore_ids::restore(conn, &ids)).await
    }

    async fn reread(&self, read: Reread) -> Result<u64, DbError> {
        let clock = self.clock.clone();
        let changed = self.db.write(move |conn| raw::reread(conn, &read, clock.now())).await?;
        self.logged.notify_waiters();
        Ok(changed)
    }

    async fn read_events(
        &self,
        filter: EventFilter,
    ) -> Result<Vec<Result<Event, DamagedEvent>>, DbError> {
        self.db.read(move |conn| read::events(conn, &filter)).await
    }

    async fn ping(&self, within: std::time::Duration) -> Result<(), DbError> {
        self.db.check_in_place()?;
        let question = names_every_table()?;
        let asked =
            self.db.read(move |conn| Ok(conn.prepare_cached(question)?.exists([]).map(drop)?));
        let silent = || DbError::Lost(format!("no answer within {} s", within.as_secs()));
        tokio::time::timeout(within, asked).await.unwrap_or_else(|_| Err(silent()))
    }

    async fn engines(&self) -> Result<u64, DbError> {
        Ok(EngineLock::is_held(self.db.path()).into())
    }

    async fn logged(&self) {
        self.logged.notified().await;
    }

    async fn log_events(&self, events: Vec<NewEvent>) -> Result<(), DbError> {
        let clock = self.clock.clone();
        let write = move |conn: &Connection| {
            events.iter().try_for_each(|event| commit::put_event(conn, event, clock.now()))
        };
        self.db.write(write).await?;
        self.logged.notify_waiters();
        Ok(())
    }

    async fn demand(&self) -> Result<Demand, DbError> {
        let now = self.clock.now();
        self.db.read(move |conn| read::demand(conn, now)).await
    }

    async fn set_price(&self, price: PriceNote) -> Result<(), DbError> {
        self.db.write(move |conn| commit::put_price(conn, &price)).await
    }

    async fn settings(&self) -> Result<Vec<(String, String)>, DbError> {
        self.db.read(read::settings).await
    }

    async fn keep_setting(&self, key: &str, value: Option<String>) -> Result<bool, DbError> {
        let key = format!("{SETTING}{key}");
        self.db.write(move |conn| commit::keep_note(conn, &key, value.as_deref())).await
    }

    async fn times_ahead(&self, horizon: Duration) -> Result<TimesAhead, DbError> {
        let look = self.look(horizon);
        self.db.read(move |conn| times::survey(conn, &look())).await
    }

    async fn repair_times(&self, horizon: Duration) -> Result<TimesAhead, DbError> {
        let look = self.look(horizon);
        let repaired = self.db.write(move |conn| times::repair(conn, &look())).await?;
        self.frontier.wake();
        Ok(repaired)
    }

    async fn keep_schedule(
        &self,
        task: TaskId,
        based_on: i64,
        schedule: Vec<u8>,
    ) -> Result<bool, DbError> {
        let sql = "UPDATE feed SET schedule = ?3, version = version + 1
            WHERE task_id = ?1 AND version = ?2";
        let kept = self
            .db
            .write(move |conn| Ok(conn.execute(sql, (task.0, based_on, schedule.as_slice()))?))
            .await?;
        Ok(kept > 0)
    }

    async fn totals(&self) -> Result<Totals, DbError> {
        self.db.read(read::totals).await
    }

    async fn vitals(&self) -> Result<Vitals, DbError> {
        let now = self.clock.now();
        self.db.read(move |conn| read::vitals(conn, now)).await
    }

    async fn close(&self) {
        self.db.close().await;
    }
}
