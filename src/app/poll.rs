//! Serving a few tasks at once, in place of an engine: one after the other, then the end.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{AppError, Ending, archive_settings, client, lock, make_dir, policy, serving, take_up};
use crate::archive::Archive;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::EngineLock;
use crate::fetch::Server;
use crate::model::{Exchange, Kind, Lease, NewSource, TaskId, Ts};
use crate::schedule::{FIRST_PRICE, Found, Hints, Poll, State};
use crate::store::Store;

/// A host that does not become free for so long is left to the engine.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often a host is looked at that is not free.
const LOOK: Duration = Duration::from_millis(100);

/// What serves single leases in place of an engine. Refused while an engine runs on the directory: then
/// it is the engine's work.
pub(super) struct Stand {
    pub(super) store: Arc<dyn Store>,
    pub(super) server: Server,
    committing: TaskTracker,
    archive: Arc<Archive>,
    clock: Clock,
    _locks: Vec<EngineLock>,
}

impl Stand {
    pub(super) async fn open(
        config: &Config,
        clock: &Clock,
        in_hand: Vec<Exchange>,
    ) -> Result<Self, AppError> {
        make_dir(&config.data_dir)?;
        let mut locks = lock(config)?;
        let ending = Ending::new(CancellationToken::new());
        let store = take_up(config, clock, &ending, &mut locks).await?;
        let archive = Arc::new(Archive::open(archive_settings(config), clock.clone())?);
        let (client, guard) = client(config, clock)?;
        let asking = (client.with_answers(in_hand), guard);
        let (server, committing) =
            serving(config, clock, asking, &store, &archive, &Arc::default());
        Ok(Self { store, server, committing, archive, clock: clock.clone(), _locks: locks })
    }

    /// The lease of a task, or of the robots.txt that comes first, once its host is free; `None` when
    /// that takes too long.
    pub(super) async fn claim(&self, task: TaskId) -> Result<Option<Lease>, AppError> {
        let clock = &self.clock;
        let give_up = clock.now().after(clock.stretch(PATIENCE));
        while clock.now() < give_up {
            if let Some(lease) = self.store.claim_task(task).await? {
                return Ok(Some(lease));
            }
            clock.sleep_until(clock.now().after(clock.stretch(LOOK))).await;
        }
        Ok(None)
    }

    pub(super) async fn close(self) -> Result<(), AppError> {
        drop(self.server);
        self.committing.close();
        self.committing.wait().await;
        self.archive.close()?;
        self.store.close().await;
        Ok(())
    }
}

/// Serves these tasks, with answers in hand that were had already.
pub async fn poll(
    config: &Config,
    clock: &Clock,
    tasks: &[TaskId],
    in_hand: Vec<Exchange>,
) -> Result<(), AppError> {
    let stand = Stand::open(config, clock, in_hand).await?;
    for task in tasks {
        while let Some(lease) = stand.claim(*task).await? {
            // Its robots.txt comes first, where it is needed.
            let is_it = lease.task.id == *task;
            stand.server.serve(lease).await;
            if is_it {
                break;
            }
        }
    }
    stand.close().await
}

/// The interval after a first poll of a new channel whose items have these times.
pub(crate) fn first_interval(
    config: &Config,
    new: &NewSource,
    kind: Kind,
    times: &[Ts],
    now: Ts,
) -> Duration {
    let seconds = |at: &Ts| u32::try_from(at.ms().max(0) / 1_000).unwrap_or(u32::MAX);
    let recent: Vec<u32> = times.iter().filter(|at| **at <= now).map(seconds).collect();
    let state = State::default();
    let poll = Poll {
        task: TaskId(0),
        kind,
        explicit: new.poll_interval,
        policy: new.poll_policy,
        limits: (new.min_interval, new.max_interval),
        due: now,
        at: now,
        state: &state,
        price: FIRST_PRICE,
    };
    let dated = if kind == Kind::Feed { recent.as_slice() } else { &[] };
    let items = u32::try_from(dated.len()).ok();
    let found = Found { at: seconds(&now), dated, undated: 0, items, recent: dated };
    policy(config).next_poll(&poll, &found, &Hints::default()).1.interval
}
