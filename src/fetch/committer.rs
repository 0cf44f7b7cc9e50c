//! One committer per process: it takes what is waiting, brings the archive to disk once, and
//! commits once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::archive::Archive;
use crate::db::DbError;
use crate::store::{Commit, Committed, MAX_DISCOVERED, Store};

/// Outcomes that go into one commit at the most.
const BATCH: usize = 256;
/// How long a database that is busy or full is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

type Answer = oneshot::Sender<Result<Committed, DbError>>;

/// The door to the committer.
#[derive(Clone, Debug)]
pub struct Committer(mpsc::Sender<(Commit, Answer)>);

impl Committer {
    /// Starts the committer; it ends when the last door is dropped.
    #[must_use]
    pub fn start(store: Arc<dyn Store>, archive: Arc<Archive>, tracker: &TaskTracker) -> Self {
        let (door, waiting) = mpsc::channel(BATCH);
        tracker.spawn(commit_all(store, archive, waiting));
        Self(door)
    }

    /// Makes an outcome true; a database that is busy or full is waited for.
    pub async fn commit(&self, commit: Commit) -> Result<Committed, DbError> {
        let started = std::time::Instant::now();
        loop {
            let (answer, done) = oneshot::channel();
            let again = Commit { lease: commit.lease.clone(), outcome: commit.outcome.clone() };
            self.0.send((again, answer)).await.map_err(|_| DbError::Closed)?;
            match done.await.map_err(|_| DbError::Closed)? {
                Err(error) if error.is_transient() && started.elapsed() < PATIENCE => {
                    tracing::warn!(%error, "the commit waits");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                done => return done,
            }
        }
    }
}

async fn commit_all(
    store: Arc<dyn Store>,
    archive: Arc<Archive>,
    mut waiting: mpsc::Receiver<(Commit, Answer)>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        let (mut commits, answers): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
        let done = match prepare(&*store, &archive, &mut commits).await {
            Ok(()) => store.commit(commits).await,
            Err(error) => commits.iter().map(|_| Err(error.clone())).collect(),
        };
        for (answer, done) in answers.into_iter().zip(done) {
            // A worker that was cancelled no longer listens; the outcome stands.
            drop(answer.send(done));
        }
    }
}

/// What has to be on disk before the commit: the bytes that it refers to, and discoveries beyond
/// what one transaction should hold. Both may happen twice without harm.
async fn prepare(
    store: &dyn Store,
    archive: &Arc<Archive>,
    commits: &mut [Commit],
) -> Result<(), DbError> {
    if commits.iter().any(|commit| !commit.outcome.fetches.is_empty()) {
        let archive = Arc::clone(archive);
        tokio::task::spawn_blocking(move || archive.sync())
            .await
            .map_err(|error| DbError::Engine(error.to_string()))?
            .map_err(|error| DbError::Engine(error.to_string()))?;
    }
    for commit in commits {
        let found = &mut commit.outcome.discovered;
        while found.len() > MAX_DISCOVERED {
            let chunk = found.split_off(found.len() - MAX_DISCOVERED);
            store.submit(chunk).await?;
        }
    }
    Ok(())
}
