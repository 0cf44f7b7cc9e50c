//! One committer per process: it takes what is waiting, brings the archive to disk once, and
//! commits once. A database or a disk that is away is waited for, however long: an outcome is
//! thrown away only when nobody wants it any more, or when waiting cannot help.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::hold::{Hold, PAUSE, Step};
use super::losses;
use crate::archive::Archive;
use crate::db::DbError;
use crate::progress::Progress;
use crate::store::{Commit, Committed, MAX_DISCOVERED, Store};

/// Outcomes that go into one commit at the most.
const BATCH: usize = 256;

type Done = Result<Committed, DbError>;
type Waiting = (Commit, oneshot::Sender<Done>);

/// The door to the committer.
#[derive(Clone, Debug)]
pub struct Committer(mpsc::Sender<Waiting>);

impl Committer {
    /// Starts the committer; it ends when the last door is dropped.
    #[must_use]
    pub fn start(
        store: Arc<dyn Store>,
        archive: Arc<Archive>,
        hold: Hold,
        progress: Arc<Progress>,
        tracker: &TaskTracker,
    ) -> Self {
        let (door, waiting) = mpsc::channel(BATCH);
        tracker.spawn(commit_all(store, archive, hold, progress, waiting));
        Self(door)
    }

    /// Makes an outcome true.
    pub async fn commit(&self, commit: Commit) -> Done {
        let (answer, done) = oneshot::channel();
        self.0.send((commit, answer)).await.map_err(|_| DbError::Closed)?;
        done.await.map_err(|_| DbError::Closed)?
    }
}

async fn commit_all(
    store: Arc<dyn Store>,
    archive: Arc<Archive>,
    hold: Hold,
    progress: Arc<Progress>,
    mut waiting: mpsc::Receiver<Waiting>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        let (began, size) = (Instant::now(), batch.len());
        progress.activity.commit(true);
        while let Some(error) = commit_once(&*store, &archive, &mut batch).await {
            hold.begin(Step::Commit, error.code(), error.to_string());
            tokio::time::sleep(PAUSE).await;
        }
        hold.end(Step::Commit);
        progress.activity.commit(false);
        if let Err(error) = losses::note_losses(&*store, &archive).await {
            tracing::warn!(%error, "lost archive segments could not be noted; it is tried again");
        }
        progress.metrics.commit_size.observe(size as f64);
        progress.metrics.commit_duration.observe(began.elapsed().as_secs_f64());
    }
}

/// Commits what can be committed. What has to wait stays in the batch, unless its worker is gone;
/// answers with the trouble when something stays.
async fn commit_once(
    store: &dyn Store,
    archive: &Arc<Archive>,
    batch: &mut Vec<Waiting>,
) -> Option<DbError> {
    let synced = losses::sync(archive, batch.iter_mut().map(|(commit, _)| commit)).await;
    let mut commits: Vec<Commit> = batch.iter().map(|(commit, _)| commit.clone()).collect();
    let ready = match synced {
        Ok(()) => prepare(store, &mut commits).await,
        Err(error) => Err(error),
    };
    let done = match ready {
        Ok(()) => commit_kept(store, archive, commits).await,
        Err(error) => commits.iter().map(|_| Err(error.clone())).collect(),
    };
    let mut trouble = None;
    for ((commit, answer), done) in batch.drain(..).zip(done).collect::<Vec<_>>() {
        match done {
            Err(error) if error.is_transient() && !answer.is_closed() => {
                trouble = Some(error);
                batch.push((commit, answer));
            }
            // A worker that was cancelled no longer listens; the outcome stands.
            done => drop(answer.send(done)),
        }
    }
    trouble
}

/// Commits what refers to bytes that are there. Where bytes were lost and nobody has them any more,
/// the worker hears of it, and asks again.
async fn commit_kept(store: &dyn Store, archive: &Archive, mut commits: Vec<Commit>) -> Vec<Done> {
    let is_lost = |commit: &Commit| {
        let raw = commit.outcome.fetches.iter().filter_map(|fetch| fetch.raw.as_ref());
        raw.into_iter().any(|raw| archive.has_lost(raw))
    };
    let lost: Vec<bool> = commits.iter().map(is_lost).collect();
    let mut each = lost.iter();
    commits.retain(|_| each.next() == Some(&false));
    let mut done = store.commit(commits).await.into_iter();
    let gone = || DbError::Engine("what came back was lost before it was on disk".into());
    let answer = |lost| if lost { Some(Err(gone())) } else { done.next() };
    lost.into_iter().filter_map(answer).collect()
}

/// Discoveries beyond what one transaction should hold go ahead of the commit; that may happen twice
/// without harm.
async fn prepare(store: &dyn Store, commits: &mut [Commit]) -> Result<(), DbError> {
    for commit in commits {
        let found = &mut commit.outcome.discovered;
        while found.len() > MAX_DISCOVERED {
            let chunk = found.split_off(found.len() - MAX_DISCOVERED);
            store.submit(chunk).await?;
        }
    }
    Ok(())
}
