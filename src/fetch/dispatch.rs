//! Keeping the workers busy: claim, hand out, sleep exactly as long as needed, stop gracefully.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

use super::flows::{FlowGuard, Flows};
use super::hold::{PAUSE, Step};
use super::tell;
use super::{Client, Guard, ServeSettings, Server, spans};
use crate::db::DbError;
use crate::frontier::WorkerShares;
use crate::frontier::fairness::LEAVES_WORKER_MS;
use crate::handle::House;
use crate::model::{Lane, Lease};
use crate::progress::Phase;

/// Tasks under way get this long to finish when the engine stops.
const GRACE: Duration = Duration::from_secs(60);
/// Another process may have submitted something: look at least this often.
const GLANCE: Duration = Duration::from_secs(1);
/// While tasks are due that are not handed out because others have their share: look this often.
const SHARE_GLANCE: Duration = Duration::from_millis(100);
/// A run that ends by itself ends when only sources over their quota had work for so long.
const LAST_LOOK: Duration = Duration::from_secs(5);
/// A task that takes longer leaves its worker's place to another one.
const LEAVES_PLACE_AFTER: Duration = Duration::from_millis(LEAVES_WORKER_MS);
/// Tasks under way get only this long while work is paused: the disk is full, or the database away.
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

/// What a task holds until it ends.
struct Place {
    /// Of a worker, or one to wait in.
    slot: OwnedSemaphorePermit,
    waiting_places: Arc<Semaphore>,
    _flow: FlowGuard,
}

impl Place {
    /// Leaves the worker's place when the task takes long and there is a place to wait in. Never returns.
    async fn leave_when_late(&mut self) {
        tokio::time::sleep(LEAVES_PLACE_AFTER).await;
        if let Ok(waiting) = Arc::clone(&self.waiting_places).acquire_owned().await {
            self.slot = waiting;
        }
        std::future::pending().await
    }
}

/// Places for tasks that wait for slow hosts: hosts that all begin to be slow at once would otherwise hold
/// every worker until they answer.
fn places_to_wait(workers: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(WorkerShares::waiting_places(workers)))
}

impl Dispatcher {
    /// Runs until it is told to stop, or until everything is done.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Stuck> {
        let (tasks, abandon) = (TaskTracker::new(), CancellationToken::new());
        let slots = Arc::new(Semaphore::new(self.workers));
        let mut waiting_places = places_to_wait(self.workers);
        let flows = Flows::default();
        let (mut stuck, mut too_many) = (None, 0);
        let words = self.server.settings.messages;
        tell::pool_starts(words, self.workers);
        let activity = Arc::clone(&self.server.progress.activity);
        // A task has ended by then, or its lease has.
        let running = activity.run(self.server.settings.task_timeout * 2);
        while !stop.is_cancelled() {
            if self.tune(&slots, &mut too_many) {
                waiting_places = places_to_wait(self.workers);
            }
            activity.enter(Phase::Idle);
            match self.round(&tasks, (&slots, &waiting_places), &flows, &stop, &abandon).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(reason) if self.mode == Mode::Once || self.server.hold.is_hopeless() => {
                    stuck = Some(Stuck(reason));
                    break;
                }
                Err(_) => self.rest(&stop).await,
            }
        }
        drop(running);
        tell::workers_change(words, self.workers, 0);
        tasks.close();
        let grace = if self.server.hold.is_held() { SHORT_GRACE } else { GRACE };
        if tokio::time::timeout(grace, self.finish(&tasks)).await != Ok(true) {
            tracing::warn!("some tasks did not finish in time; they will be handed out again");
            abandon.cancel();
            tasks.wait().await;
        }
        tell::pool_stopped(words);
        stuck.map_or(Ok(()), Err)
    }

    /// Waits until all tasks are done; false when those that are left wait for late CPU work only,
    /// which may never end.
    async fn finish(&self, tasks: &TaskTracker) -> bool {
        while tokio::time::timeout(PAUSE, tasks.wait()).await.is_err() {
            if tasks.len() <= self.server.desk.late() {
                return false;
            }
        }
        true
    }

    /// Takes over what was changed. Of slots that are too many those are taken away that are free, the
    /// others when they are. Says whether anything was changed.
    fn tune(&mut self, slots: &Semaphore, too_many: &mut usize) -> bool {
        let is_changed = self.tuning.has_changed().unwrap_or(false);
        if is_changed {
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
        is_changed
    }

    /// Claims for the free slots and hands out; false when everything is done. Nothing is begun while
    /// something holds work up.
    async fn round(
        &self,
        tasks: &TaskTracker,
        (slots, waiting_places): (&Arc<Semaphore>, &Arc<Semaphore>),
        flows: &Flows,
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
        let activity = &self.server.progress.activity;
        activity.enter(Phase::Full);
        let first = tokio::select! {
            () = stop.cancelled() => return Ok(false),
            () = hold.changed() => return Ok(true),
            slot = Arc::clone(slots).acquire_owned() => slot.map_err(|error| error.to_string())?,
        };
        let (more, began) = (slots.available_permits(), Instant::now());
        activity.enter(Phase::Claiming);
        let shares = self.shares(flows);
        let claimed = self.server.store.claim_shared(more + 1, &self.lanes, shares).await;
        activity.enter(Phase::Idle);
        let leases = match claimed {
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
            if self.mode == Mode::Once && self.is_done(tasks, flows).await {
                return Ok(false);
            }
            self.wait(flows, stop).await;
            return Ok(true);
        }
        tell::handed_out(self.server.settings.messages, &leases);
        let mut permits = vec![first];
        permits.extend((0..more).filter_map(|_| Arc::clone(slots).try_acquire_owned().ok()));
        for (lease, permit) in leases.into_iter().zip(permits) {
            let span = spans::task(&lease, took);
            let place = Place {
                slot: permit,
                waiting_places: Arc::clone(waiting_places),
                _flow: flows.begin(&lease),
            };
            self.hand_out(tasks, lease, place, abandon.clone(), span);
        }
        Ok(true)
    }

    fn hand_out(
        &self,
        tasks: &TaskTracker,
        lease: Lease,
        mut place: Place,
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
                () = place.leave_when_late() => {}
            }
            server.progress.end();
            drop(place);
        };
        tasks.spawn(serving.instrument(span));
    }

    /// The shares of the workers that a claim has to keep.
    fn shares(&self, flows: &Flows) -> WorkerShares {
        flows.shares(self.workers).without(self.server.usage.stopped())
    }

    /// Whether nothing is under way and nothing that is due could be served now.
    async fn is_done(&self, tasks: &TaskTracker, flows: &Flows) -> bool {
        // Sources that get nothing more today have work, and nobody waits for tomorrow.
        let is_stopped = !self.server.usage.stopped().is_empty() && flows.is_quiet(LAST_LOOK);
        tasks.is_empty() && (is_stopped || self.has_no_work().await)
    }

    async fn has_no_work(&self) -> bool {
        matches!(self.server.store.has_work(&self.lanes).await, Ok(false))
    }

    async fn wait(&self, flows: &Flows, stop: &CancellationToken) {
        let clock = &self.server.clock;
        let due = self.server.store.next_due(&self.lanes).await.ok().flatten();
        // What is due already and was not handed out waits for somebody else to end.
        let is_held_back =
            due.is_some_and(|at| at <= clock.now()) && self.shares(flows).limits_anything();
        let due = due.filter(|_| !is_held_back);
        let is_busy = !flows.is_quiet(Duration::ZERO);
        let glance = if is_held_back && is_busy { SHARE_GLANCE } else { GLANCE };
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
            () = flows.ended(), if is_held_back => {}
            () = tokio::time::sleep(glance) => {}
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
