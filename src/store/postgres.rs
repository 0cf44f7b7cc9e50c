//! The store on PostgreSQL, shared by several processes.

mod article;
mod commit;
mod keep;
mod log;
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
use tokio::sync::Notify;

use super::{
    ArticleFilter, ArticlePage, ChannelState, Commit, Committed, DamagedEvent, Demand, EventFilter,
    FetchFilter, MovedRaw, OutsideHost, PriceNote, Reread, RestoredIds, SegmentUse, SourceError,
    Store, TimesAhead, Totals, Vitals,
    forms::{PRICE, SETTING, to_json},
    takedown::check,
};
use crate::db::postgres::{LOGGED, WORK, first, run};
use crate::db::statement::{Cells, Dialect, Statement, Statements};
use crate::db::{DbError, PgDb};
use crate::frontier::postgres::{PgFrontier, now};
use crate::frontier::{Act, Frontier, Rules, TaskFilter};
use crate::model::{
    Admission, ArticleId, ArticleRow, Ask, Discovery, EntryId, EntryRow, Event, FetchId,
    FetchRecord, Known, NewEvent, PastForm, Reference, Revision, RobotsState, Source, SourceChange,
    SourceId, TaskId,
};
use commit::{Done, Prepared};

/// Everything Feedmill knows, on a server.
#[derive(Clone, Debug)]
pub struct PgStore {
    db: PgDb,
    frontier: PgFrontier,
    logged: Arc<Notify>,
}

impl PgStore {
    /// A store on an open database; it hears what other processes do.
    #[must_use]
    pub fn new(db: PgDb, rules: Rules) -> Self {
        let frontier = PgFrontier::new(db.clone(), rules, log::bury);
        let logged: Arc<Notify> = Arc::default();
        let (waits, sinks) = (frontier.clone(), Arc::clone(&logged));
        db.listen(
            move |channel| if channel == WORK { waits.wake() } else { sinks.notify_waiters() },
        );
        Self { db, frontier, logged }
    }

    /// The frontier within.
    #[must_use]
    pub const fn frontier(&self) -> &PgFrontier {
        &self.frontier
    }

    async fn commit_together(&self, batch: &[&Prepared]) -> Result<Vec<Committed>, DbError> {
        let Done { answers, found, logged } =
            commit::commit(&self.db, batch, self.frontier.rules()).await?;
        self.frontier.wake();
        if found {
            self.frontier.announce(WORK).await;
        }
        if logged {
            self.told().await;
        }
        Ok(answers)
    }

    /// The log has grown.
    async fn told(&self) {
        self.logged.notify_waiters();
        self.frontier.announce(LOGGED).await;
    }
}

#[async_trait]
impl Statements for PgStore {
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
impl Store for PgStore {
    fn queue(&self) -> &dyn Frontier {
        &self.frontier
    }

    async fn lookup(&self, ask: Ask) -> Result<Known, DbError> {
        lookup::lookup(&self.db, &ask, self.rules()).await
    }

    async fn commit(&self, batch: Vec<Commit>) -> Vec<Result<Committed, DbError>> {
        let rules = self.frontier.rules();
        let batch: Vec<Prepared> =
            batch.into_iter().map(|commit| Prepared::new(commit, rules)).collect();
        let all: Vec<&Prepared> = batch.iter().collect();
        match self.commit_together(&all).await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) if error.is_transient() || all.len() <= 1 => {
                all.iter().map(|_| Err(error.clone())).collect()
            }
            Err(error) => {
                tracing::warn!(%error, "a batch of {} outcomes failed; one by one now", all.len());
                let mut answers = Vec::with_capacity(all.len());
                for one in all {
                    let answer = self.commit_together(&[one]).await;
                    answers
                        .push(answer.and_then(|done| done.first().copied().ok_or(DbError::Closed)));
                }
                answers
            }
        }
    }

    async fn robots(&self, origin: &str) -> Result<Option<RobotsState>, DbError> {
        lookup::robots(&self.db.client().await?, origin).await
    }

    async fn admit_source(&self, new: Admission) -> Result<Source, SourceError> {
        let added = sources::add(&self.db, &new, self.frontier.rules()).await?;
        self.frontier.announce(WORK).await;
        added.ok_or(SourceError::NameTaken(new.spec.name))
    }

    async fn sources(&self) -> Result<Vec<Source>, DbError> {
        sources::list(&self.db).await
    }

    async fn discoveries(&self) -> Result<Vec<(SourceId, Discovery)>, DbError> {
        lookup::discoveries(&self.db).await
    }

    async fn channels(&self) -> Result<Vec<ChannelState>, DbError> {
        sources::channels(&self.db.client().await?, None).await
    }

    async fn references(&self, tasks: Vec<TaskId>) -> Result<Vec<Reference>, DbError> {
        let told = told::references(&self.db.client().await?, &tasks).await?;
        Ok(told.into_iter().map(|(_, one)| one).collect())
    }

    async fn outside(&self, source: SourceId) -> Result<Vec<OutsideHost>, DbError> {
        sources::outside(&self.db.client().await?, source).await
    }

    async fn source(&self, name: &str) -> Result<(Source, Vec<ChannelState>), SourceError> {
        let found = sources::show(&self.db, name).await?;
        found.ok_or_else(|| SourceError::Unknown(name.to_owned()))
    }

    async fn source_by_id(&self, id: SourceId) -> Result<Option<Source>, DbError> {
        sources::by_id(&self.db.client().await?, id).await
    }

    async fn set_enabled(
        &self,
        name: &str,
        disabled: Option<String>,
    ) -> Result<Source, SourceError> {
        if disabled.is_none() {
            check(self, name).await?;
        }
        let found = sources::set_enabled(&self.db, name, disabled.as_deref()).await?;
        let (source, forgiven) = found.ok_or_else(|| SourceError::Unknown(name.to_owned()))?;
        if !forgiven.is_empty() {
            let filter = TaskFilter { limit: forgiven.len(), ids: forgiven, ..Default::default() };
            self.frontier.sweep(Act::Retry, filter, false).await?;
        }
        self.frontier.announce(WORK).await;
        self.told().await;
        Ok(source)
    }

    async fn respecify(&self, name: &str, change: SourceChange) -> Result<Source, SourceError> {
        let rules = self.frontier.rules();
        let changed = sources::respecify(&self.db, name, change, rules).await?;
        self.frontier.announce(WORK).await;
        changed.result(name)
    }

    async fn withdraw(&self, name: &str, limit: usize) -> Result<u64, SourceError> {
        let gone = sources::withdraw(&self.db, name, limit).await?;
        gone.ok_or_else(|| SourceError::Unknown(name.to_owned()))
    }

    async fn remove_source(&self, name: &str) -> Result<Source, SourceError> {
        let found = sources::remove(&self.db, name).await?;
        found.ok_or_else(|| SourceError::Unknown(name.to_owned()))
    }

    async fn article_page(&self, filter: ArticleFilter) -> Result<ArticlePage, DbError> {
        article::list(&self.db, &filter).await
    }

    async fn article(&self, id: ArticleId) -> Result<Option<(ArticleRow, String)>, DbError> {
        article::with_text(&self.db.client().await?, id).await
    }

    async fn copies(&self, id: ArticleId) -> Result<Vec<ArticleRow>, DbError> {
        article::copies(&self.db, id).await
    }

    async fn revisions(&self, id: ArticleId) -> Result<Vec<Revision>, DbError> {
        article::revisions(&self.db, id).await
    }

    async fn past(
        &self,
        id: ArticleId,
        revision: u32,
    ) -> Result<Option<(PastForm, String)>, DbError> {
        article::past(&self.db, id, revision).await
    }

    async fn entries_since(
        &self,
        feed: TaskId,
        fetch: FetchId,
    ) -> Result<Vec<(EntryId, FetchId)>, DbError> {
        raw::entries_since(&self.db, feed, fetch).await
    }

    async fn entry(&self, id: EntryId) -> Result<Option<EntryRow>, DbError> {
        read::entry(&self.db.client().await?, id).await
    }

    async fn fetches(&self, task: TaskId, limit: usize) -> Result<Vec<FetchRecord>, DbError> {
        read::fetches(&self.db, task, limit).await
    }

    async fn find_fetches(&self, filter: FetchFilter) -> Result<Vec<FetchRecord>, DbError> {
        raw::find(&self.db, &filter).await
    }

    async fn segments(&self) -> Result<Vec<SegmentUse>, DbError> {
        raw::segments(&self.db).await
    }

    async fn needed(&self, segment: &str, per_feed: u32) -> Result<Vec<FetchRecord>, DbError> {
        raw::needed(&self.db, segment, per_feed).await
    }

    async fn move_raw(&self, moved: Vec<MovedRaw>) -> Result<(), DbError> {
        raw::move_raw(&self.db, &moved).await
    }

    async fn forget_segment(&self, segment: &str, kept: u64, limit: usize) -> Result<u64, DbError> {
        raw::forget(&self.db, segment, kept, limit).await
    }

    async fn restore_ids(&self, ids: RestoredIds) -> Result<(), DbError> {
        restore_ids::restore(&self.db, &ids).await
    }

    async fn reread(&self, read: Reread) -> Result<u64, DbError> {
        let changed = raw::reread(&self.db, &read, self.frontier.rules()).await?;
        if changed > 0 {
            self.told().await;
        }
        Ok(changed)
    }

    async fn read_events(
        &self,
        filter: EventFilter,
    ) -> Result<Vec<Result<Event, DamagedEvent>>, DbError> {
        read::events(&self.db, &filter).await
    }

    async fn ping(&self, within: std::time::Duration) -> Result<(), DbError> {
        self.db.ping(within).await
    }

    async fn engines(&self) -> Result<u64, DbError> {
        self.db.engines().await
    }

    async fn logged(&self) {
        self.logged.notified().await;
    }

    async fn log_events(&self, events: Vec<NewEvent>) -> Result<(), DbError> {
        let mut client = self.db.client().await?;
        let tx = client.transaction().await?;
        let now = now(&self.db, &tx).await?;
        log::append(&tx, &events, now).await?;
        tx.commit().await?;
        drop(client);
        self.told().await;
        Ok(())
    }

    async fn demand(&self) -> Result<Demand, DbError> {
        read::demand(&self.db).await
    }

    async fn set_price(&self, price: PriceNote) -> Result<(), DbError> {
        run(
            &self.db.client().await?,
            "INSERT INTO meta VALUES($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            &[&PRICE, &to_json(&price)?],
        )
        .await?;
        Ok(())
    }

    async fn settings(&self) -> Result<Vec<(String, String)>, DbError> {
        read::settings(&self.db).await
    }

    async fn keep_setting(&self, key: &str, value: Option<String>) -> Result<bool, DbError> {
        let key = format!("{SETTING}{key}");
        let (client, sql) = (self.db.client().await?, "SELECT 1 FROM meta WHERE key = $1");
        let was_kept = first(&client, sql, &[&key]).await?.is_some();
        let sql = "INSERT INTO meta VALUES($1, $2)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        match value {
            Some(value) => run(&client, sql, &[&key, &value]).await?,
            None => run(&client, "DELETE FROM meta WHERE key = $1", &[&key]).await?,
        };
        Ok(was_kept)
    }

    async fn times_ahead(&self, horizon: Duration) -> Result<TimesAhead, DbError> {
        times::survey(&self.db, horizon, self.frontier.rules().lease).await
    }

    async fn repair_times(&self, horizon: Duration) -> Result<TimesAhead, DbError> {
        let repaired = times::repair(&self.db, horizon, self.frontier.rules().lease).await?;
        self.frontier.announce(WORK).await;
        Ok(repaired)
    }

    async fn keep_schedule(
        &self,
        task: TaskId,
        based_on: i64,
        schedule: Vec<u8>,
    ) -> Result<bool, DbError> {
        let sql = "UPDATE feed SET schedule = $3, version = version + 1
            WHERE task_id = $1 AND version = $2";
        let client = self.db.client().await?;
        Ok(run(&client, sql, &[&task.0, &based_on, &schedule]).await? > 0)
    }

    async fn totals(&self) -> Result<Totals, DbError> {
        read::totals(&self.db).await
    }

    async fn vitals(&self) -> Result<Vitals, DbError> {
        read::vitals(&self.db).await
    }

    async fn close(&self) {
        self.db.close().await;
    }
}
