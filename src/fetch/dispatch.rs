//! Keeping the workers busy: claim, hand out, sleep exactly as long as needed, stop gracefully.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Server;
use crate::model::Lane;

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
    /// Work pauses when the disk under this directory has less room than that.
    pub room: (PathBuf, u64),
}

impl Dispatcher {
    /// Runs until it is told to stop, or until everything is done.
    pub async fn run(self, stop: CancellationToken) {
        let tasks = TaskTracker::new();
        let slots = Arc::new(Semaphore::new(self.workers));
        while !stop.is_cancelled() {
            if !self.has_room() {
                rest(&stop, PAUSE).await;
                continue;
            }
            let Ok(first) = Arc::clone(&slots).acquire_owned().await else { break };
            let more = slots.available_permits();
            match self.server.store.claim(more + 1, &self.lanes).await {
                Ok(leases) if leases.is_empty() => {
                    drop(first);
                    if self.mode == Mode::Once && self.is_done(&tasks).await {
                        break;
                    }
                    self.wait(&stop).await;
                }
                Ok(leases) => {
                    let mut permits = vec![first];
                    permits.extend(
                        (0..more).filter_map(|_| Arc::clone(&slots).try_acquire_owned().ok()),
                    );
                    for (lease, permit) in leases.into_iter().zip(permits) {
                        self.hand_out(&tasks, lease, permit);
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "cannot claim work; trying again");
                    self.server.progress.pause(Some(error.to_string()));
                    rest(&stop, PAUSE).await;
                }
            }
        }
        tasks.close();
        if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
            tracing::warn!("some tasks did not finish in time; they will be handed out again");
        }
    }

    fn hand_out(
        &self,
        tasks: &TaskTracker,
        lease: crate::model::Lease,
        slot: OwnedSemaphorePermit,
    ) {
        let server = self.server.clone();
        server.progress.in_flight.fetch_add(1, Ordering::Relaxed);
        tasks.spawn(async move {
            server.serve(lease).await;
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

    fn has_room(&self) -> bool {
        let (dir, wanted) = &self.room;
        let free = crate::db::free_bytes(dir).unwrap_or(u64::MAX);
        let short = free < *wanted;
        let was_paused = self.server.progress.snapshot().paused.is_some();
        if short && !was_paused {
            let message = format!(
                "work is paused: {} has {} MB free, retention.min_free is {} MB",
                dir.display(),
                free / 1_000_000,
                wanted / 1_000_000
            );
            tracing::error!("{message}");
            self.server.progress.pause(Some(message));
        } else if !short && was_paused {
            tracing::info!("work goes on");
            self.server.progress.pause(None);
        }
        !short
    }
}

async fn rest(stop: &CancellationToken, span: Duration) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(span) => {}
    }
}
