//! Keeping the workers busy: claim, hand out, sleep exactly as long as needed, stop gracefully.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

use super::hold::{PAUSE, Step};
use super::tell;
use super::{Client, Guard, ServeSettings, Server, spans};
use crate::db::DbError;
use crate::handle::House;
use crate::model::{Lane, Lease};

/// Tasks under way get this long to finish when the engine stops.
const GRACE: Duration = Duration::from_secs(60);
/// Another process may have submitted something: look at least this often.
const GLANCE: Duration = Duration::from_secs(1);
/// The same while they cannot: the disk is full, or the database away.
const SHORT_GRACE: Duration = Duration::from_secs(5);

/// When the engine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When it is told to.
    Forever,
    /// When what is due, and what that leads to, is done.
    Once,
}

/// What of the loop's ways can change while it runs.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// The HTTP client.
    pub client: Client,
    /// What may be connected to.
    pub guard: Guard,
    /// The rules of the house.
    pub house: Arc<House>,
    /// Limits on a task.
    pub settings: ServeSettings,
    /// Tasks under way at the most.
    pub workers: usize,
    /// Work pauses when a disk has less room.
    pub min_free: u64,
}

/// The loop that claims and hands out.
#[derive(Debug)]
pub struct Dispatcher {
    /// Serves a lease.
    pub server: Server,
    /// Its ways from now on, when they change. What is under way ends as it began.
    pub tuning: watch::Receiver<Arc<Tuning>>,
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
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Stuck> {
        let (tasks, abandon) = (TaskTracker::new(), CancellationToken::new());
        let slots = Arc::new(Semaphore::new(self.workers));
        let (mut stuck, mut too_many) = (None, 0);
        let words = self.server.settings.messages;
        tell::pool_starts(words, self.workers);
        while !stop.is_cancelled() {
            self.tune(&slots, &mut too_many);
            match self.round(&tasks, &slots, &stop, &abandon).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(reason) if self.mode == Mode::Once => {
                    stuck = Some(Stuck(reason));
                    break;
                }
                Err(_) => self.rest(&stop).await,
            }
        }
        tell::workers_change(words, self.workers, 0);
        tasks.close();
        let grace = if self.server.hold.is_held() { SHORT_GRACE } else { GRACE };
        if tokio::time::timeout(grace, tasks.wait()).await.is_err() {
            tracing::warn!("some tasks did not finish in time; they will be handed out again");
            abandon.cancel();
            tasks.wait().await;
        }
        tell::pool_stopped(words);
        stuck.map_or(Ok(()), Err)
    }

    /// Takes over what was changed. Of slots that are too many those are taken away that are free, the
    /// others when they are.
    fn tune(&mut self, slots: &Semaphore, too_many: &mut usize) {
        if self.tuning.has_changed().unwrap_or(false) {
            let tuning = Tuning::clone(&self.tuning.borrow_and_update());
            let Tuning { client, guard, house, settings, workers, min_free } = tuning;
            let server = &mut self.server;
            (server.client, server.guard) = (client, guard);
            (server.house, server.settings) = (house, settings);
            self.min_free = min_free;
            // Slots there are: those that count, and those that are still to be taken away.
            let there = self.workers + *too_many;
            slots.add_permits(workers.saturating_sub(there));
            *too_many = there.saturating_sub(workers);
            tell::workers_change(self.server.settings.messages, self.workers, workers);
            self.workers = workers;
        }
        *too_many -= slots.forget_permits(*too_many);
    }

    /// Claims for the free slots and hands out; false when everything is done. Nothing is begun while
    /// something holds work up.
    async fn round(
        &self,
        tasks: &TaskTracker,
        slots: &Arc<Semaphore>,
        stop: &CancellationToken,
        abandon: &CancellationToken,
    ) -> Result<bool, String> {
        let hold = &self.server.hold;
        match self.short_of_room() {
            Some(message) => hold.begin(Step::Begin, "disk_short", message),
            None => hold.end(Step::Begin),
        }
        if let Some(reason) = hold.reason(Step::Claim) {
            return Err(reason);
        }
        let first = tokio::select! {
            () = stop.cancelled() => return Ok(false),
            () = hold.changed() => return Ok(true),
            slot = Arc::clone(slots).acquire_owned() => slot.map_err(|error| error.to_string())?,
        };
        let (more, began) = (slots.available_permits(), Instant::now());
        let leases = match self.server.store.claim(more + 1, &self.lanes).await {
            Ok(leases) => leases,
            Err(error) => {
                let message = format!("no work can be claimed: {error}");
                tell::claim_failed(self.server.settings.messages, &error);
                hold.begin(Step::Claim, error.code(), message.clone());
                if !matches!(error, DbError::Busy) {
                    return Err(message);
                }
                // Others were in the way: no reason to end, whatever the mode.
                drop(first);
                self.rest(stop).await;
                return Ok(true);
            }
        };
        hold.end(Step::Claim);
        let took = began.elapsed();
        self.server.progress.metrics.claim_duration.observe(took.as_secs_f64());
        if leases.is_empty() {
            drop(first);
            if self.mode == Mode::Once && self.is_done(tasks).await {
                return Ok(false);
            }
            self.wait(stop).await;
            return Ok(true);
        }
        tell::handed_out(self.server.settings.messages, &leases);
        let mut permits = vec![first];
        permits.extend((0..more).filter_map(|_| Arc::clone(slots).try_acquire_owned().ok()));
        for (lease, permit) in leases.into_iter().zip(permits) {
            let span = spans::task(&lease, took);
            self.hand_out(tasks, lease, permit, abandon.clone(), span);
        }
        Ok(true)
    }

    fn hand_out(
        &self,
        tasks: &TaskTracker,
        lease: Lease,
        slot: OwnedSemaphorePermit,
        abandon: CancellationToken,
        span: Span,
    ) {
        let server = self.server.clone();
        server.progress.begin();
        let waited = lease.now.since(lease.task.next_fetch_at).as_secs_f64();
        let waits = &server.progress.metrics.task_wait;
        waits.get_or_create(&[("lane", lease.task.kind.lane().as_str())]).observe(waited);
        let serving = async move {
            tokio::select! {
                () = server.serve(lease) => {}
                () = abandon.cancelled() => {}
            }
            server.progress.end();
            drop(slot);
        };
        tasks.spawn(serving.instrument(span));
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
    fn short_of_room(&self) -> Option<String> {
        self.dirs.iter().find_map(|dir| {
            let free = crate::db::free_bytes(dir).ok()?;
            (free < self.min_free).then(|| {
                format!(
                    "{} has {} MB free, retention.min_free is {} MB",
                    dir.display(),
                    free / 1_000_000,
                    self.min_free / 1_000_000
                )
            })
        })
    }

    /// Waits before a look whether work can go on.
    async fn rest(&self, stop: &CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.server.hold.changed() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}
