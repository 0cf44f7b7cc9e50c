//! Keeping the workers busy: claim, hand out, sleep exactly as long as needed, stop gracefully.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Server;
use crate::model::{Lane, Lease};

/// Tasks under way get this long to finish when the engine stops.
const GRACE: Duration = Duration::from_secs(60);
/// Another process may have submitted something: look at least this often.
const GLANCE: Duration = Duration::from_secs(1);
/// How long to wait before trying a database or a disk again.
const PAUSE: Duration = Duration::from_secs(5);

/// When the engine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When it is told to.
    Forever,
    /// When what is due, and what that leads to, is done.
    Once,
}

/// The loop that claims and hands out.
#[derive(Debug)]
pub struct Dispatcher {
    /// Serves a lease.
    pub server: Server,
    /// Which lanes to claim.
    pub lanes: Vec<Lane>,
    /// Tasks under way at the most.
    pub workers: usize,
    /// When to end.
    pub mode: Mode,
    /// Directories that are written to.
    pub dirs: Vec<PathBuf>,
    /// Work pauses when the disk under one of them has less room.
    pub min_free: u64,
}

/// Why a run that ends by itself could not do its work.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Stuck(String);

impl Dispatcher {
    /// Runs until it is told to stop, or until everything is done.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Stuck> {
        let (tasks, abandon) = (TaskTracker::new(), CancellationToken::new());
        let slots = Arc::new(Semaphore::new(self.workers));
        let mut stuck = None;
        while !stop.is_cancelled() {
            match self.round(&tasks, &slots, &stop, &abandon).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(reason) if self.mode == Mode::Once => {
                    stuck = Some(Stuck(reason));
                    break;
                }
                Err(reason) => {
                    self.server.progress.pause(Some(reason));
                    rest(&stop, PAUSE).await;
                }
            }
        }
        tasks.close();
        if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
            tracing::warn!("some tasks did not finish in time; they will be handed out again");
            abandon.cancel();
            tasks.wait().await;
        }
        stuck.map_or(Ok(()), Err)
    }

    /// Claims for the free slots and hands out; false when everything is done.
    async fn round(
        &self,
        tasks: &TaskTracker,
        slots: &Arc<Semaphore>,
        stop: &CancellationToken,
        abandon: &CancellationToken,
    ) -> Result<bool, String> {
        self.check_room()?;
        let first = tokio::select! {
            () = stop.cancelled() => return Ok(false),
            slot = Arc::clone(slots).acquire_owned() => slot.map_err(|error| error.to_string())?,
        };
        let more = slots.available_permits();
        let leases = self.server.store.claim(more + 1, &self.lanes).await.map_err(|error| {
            tracing::error!(%error, "cannot claim work");
            format!("cannot claim work: {error}")
        })?;
        if leases.is_empty() {
            drop(first);
            if self.mode == Mode::Once && self.is_done(tasks).await {
                return Ok(false);
            }
            self.wait(stop).await;
            return Ok(true);
        }
        let mut permits = vec![first];
        permits.extend((0..more).filter_map(|_| Arc::clone(slots).try_acquire_owned().ok()));
        for (lease, permit) in leases.into_iter().zip(permits) {
            self.hand_out(tasks, lease, permit, abandon.clone());
        }
        Ok(true)
    }

    fn hand_out(
        &self,
        tasks: &TaskTracker,
        lease: Lease,
        slot: OwnedSemaphorePermit,
        abandon: CancellationToken,
    ) {
        let server = self.server.clone();
        server.progress.in_flight.fetch_add(1, Ordering::Relaxed);
        tasks.spawn(async move {
            tokio::select! {
                () = server.serve(lease) => {}
                () = abandon.cancelled() => {}
            }
            server.progress.in_flight.fetch_sub(1, Ordering::Relaxed);
            drop(slot);
        });
    }

    /// Whether nothing is under way and nothing that is due could be served now.
    async fn is_done(&self, tasks: &TaskTracker) -> bool {
        tasks.is_empty() && matches!(self.server.store.has_work(&self.lanes).await, Ok(false))
    }

    async fn wait(&self, stop: &CancellationToken) {
        let clock = &self.server.clock;
        let due = self.server.store.next_due(&self.lanes).await.ok().flatten();
        let until_due = async {
            match due {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.server.store.changed() => {}
            () = until_due => {}
            () = tokio::time::sleep(GLANCE) => {}
        }
    }

    /// Work pauses before a disk is full.
    fn check_room(&self) -> Result<(), String> {
        let paused = self.server.progress.snapshot().paused.is_some();
        let short = self.dirs.iter().find_map(|dir| {
            let free = crate::db::free_bytes(dir).ok()?;
            (free < self.min_free).then(|| {
                format!(
                    "work is paused: {} has {} MB free, retention.min_free is {} MB",
                    dir.display(),
                    free / 1_000_000,
                    self.min_free / 1_000_000
                )
            })
        });
        match short {
            Some(message) => {
                if !paused {
                    tracing::error!("{message}");
                }
                Err(message)
            }
            None => {
                if paused {
                    tracing::info!("work goes on");
                    self.server.progress.pause(None);
                }
                Ok(())
            }
        }
    }
}

async fn rest(stop: &CancellationToken, span: Duration) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(span) => {}
    }
}
