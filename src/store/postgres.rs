//! The store on PostgreSQL, shared by several processes.

mod commit;
mod keep;
mod log;
mod lookup;
mod read;
mod sources;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::{
    ArticleFilter, ChannelState, Commit, Committed, SinkCursor, SourceError, Store, Totals,
    forms::to_json,
};
use crate::db::postgres::{LOGGED, WORK, run};
use crate::db::{DbError, PgDb};
use crate::frontier::postgres::PgFrontier;
use crate::frontier::{Extension, Frontier, HostPatch, Rules, Stats, SubmitReport, TaskFilter};
use crate::model::{
    ArticleId, ArticleRow, Ask, EntryId, EntryRow, Event, FetchRecord, Known, Lane, Lease, LeaseId,
    NewSource, NewTask, RobotsState, Source, Task, TaskId, Ts,
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
        let frontier = PgFrontier::new(db.clone(), rules);
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
impl Store for PgStore {
    async fn lookup(&self, ask: Ask) -> Result<Known, DbError> {
        lookup::lookup(&self.db, &ask).await
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

    async fn add_source(&self, new: NewSource) -> Result<Source, SourceError> {
        let added = sources::add(&self.db, &new, self.frontier.rules()).await?;
        self.frontier.announce(WORK).await;
        added.ok_or(SourceError::NameTaken(new.name))
    }

    async fn sources(&self) -> Result<Vec<Source>, DbError> {
        sources::list(&self.db).await
    }

    async fn source(&self, name: &str) -> Result<(Source, Vec<ChannelState>), SourceError> {
        let found = sources::show(&self.db, name).await?;
        found.ok_or_else(|| SourceError::Unknown(name.to_owned()))
    }

    async fn set_enabled(
        &self,
        name: &str,
        disabled: Option<String>,
    ) -> Result<Source, SourceError> {
        let found = sources::set_enabled(&self.db, name, disabled.as_deref()).await?;
        self.frontier.announce(WORK).await;
        self.told().await;
        found.ok_or_else(|| SourceError::Unknown(name.to_owned()))
    }

    async fn remove_source(&self, name: &str) -> Result<Source, SourceError> {
        let found = sources::remove(&self.db, name).await?;
        found.ok_or_else(|| SourceError::Unknown(name.to_owned()))
    }

    async fn articles(&self, filter: ArticleFilter) -> Result<Vec<(i64, ArticleRow)>, DbError> {
        read::articles(&self.db, &filter).await
    }

    async fn article(&self, id: ArticleId) -> Result<Option<(ArticleRow, String)>, DbError> {
        read::article(&self.db, id).await
    }

    async fn entry(&self, id: EntryId) -> Result<Option<EntryRow>, DbError> {
        Ok(read::entries(&self.db.client().await?, &[id]).await?.remove(&id))
    }

    async fn fetches(&self, task: TaskId, limit: usize) -> Result<Vec<FetchRecord>, DbError> {
        read::fetches(&self.db, task, limit).await
    }

    async fn events_after(&self, seq: i64, limit: usize) -> Result<Vec<Event>, DbError> {
        read::events_after(&self.db, seq, limit).await
    }

    async fn logged(&self) {
        self.logged.notified().await;
    }

    async fn sink(&self, name: &str) -> Result<Option<SinkCursor>, DbError> {
        read::sink(&self.db, name).await
    }

    async fn save_sink(
        &self,
        name: &str,
        cursor: SinkCursor,
        delivered: u64,
        error: Option<String>,
    ) -> Result<(), DbError> {
        let delivered = i64::try_from(delivered).unwrap_or(i64::MAX);
        run(
            &self.db.client().await?,
            "INSERT INTO sink AS s(name, seq, state, delivered, last_error, updated_at)
             VALUES($1, $2, $3, $4, $5, coalesce($6, feedmill_now()))
             ON CONFLICT (name) DO UPDATE SET seq = excluded.seq, state = excluded.state,
               delivered = s.delivered + excluded.delivered, last_error = excluded.last_error,
               updated_at = excluded.updated_at",
            &[
                &name,
                &cursor.seq,
                &to_json(&cursor.state)?,
                &delivered,
                &error,
                &self.db.given_now(),
            ],
        )
        .await?;
        Ok(())
    }

    async fn totals(&self) -> Result<Totals, DbError> {
        read::totals(&self.db).await
    }

    async fn close(&self) {
        self.db.close().await;
    }
}

#[async_trait]
impl Frontier for PgStore {
    fn rules(&self) -> &Rules {
        self.frontier.rules()
    }
    async fn submit(&self, batch: Vec<NewTask>) -> Result<SubmitReport, DbError> {
        self.frontier.submit(batch).await
    }
    async fn claim(&self, n: usize, lanes: &[Lane]) -> Result<Vec<Lease>, DbError> {
        self.frontier.claim(n, lanes).await
    }
    async fn renew(&self, lease: LeaseId) -> Result<bool, DbError> {
        self.frontier.renew(lease).await
    }
    async fn extend(&self, lease: LeaseId, host: &str) -> Result<Extension, DbError> {
        self.frontier.extend(lease, host).await
    }
    async fn next_due(&self, lanes: &[Lane]) -> Result<Option<Ts>, DbError> {
        self.frontier.next_due(lanes).await
    }
    async fn has_work(&self, lanes: &[Lane]) -> Result<bool, DbError> {
        self.frontier.has_work(lanes).await
    }
    async fn changed(&self) {
        self.frontier.changed().await;
    }
    async fn set_host(&self, host: &str, patch: HostPatch) -> Result<(), DbError> {
        self.frontier.set_host(host, patch).await
    }
    async fn maintain(&self) -> Result<u64, DbError> {
        self.frontier.maintain().await
    }
    async fn list(&self, filter: TaskFilter) -> Result<Vec<Task>, DbError> {
        self.frontier.list(filter).await
    }
    async fn stats(&self) -> Result<Stats, DbError> {
        self.frontier.stats().await
    }
}
