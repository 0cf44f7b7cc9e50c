//! How the engine of this process gets on with its work. Readiness is judged by it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A claim, a commit or a pause of the dispatcher that lasts longer is a stall.
const STALL_LIMIT: Duration = Duration::from_secs(15);
/// CPU seats of which none became free for so long make no progress.
const SEATS_LIMIT: Duration = Duration::from_secs(10);

/// What the dispatcher does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for something to be due, or for a pause to end: never for long.
    Idle,
    /// It waits for a worker to be free.
    Full,
    /// It asks the store for work.
    Claiming,
}

/// How the engine gets on; shared by those who work and those who watch.
#[derive(Debug, Default)]
pub struct Activity(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The longest time for which all workers may be busy, while an engine runs.
    engine: Option<Duration>,
    dispatcher: Option<(Phase, Instant)>,
    commit: Option<Instant>,
    /// CPU seats there are.
    seats: usize,
    /// Those that are taken, since when.
    taken: BTreeMap<u64, Instant>,
    next_seat: u64,
}

impl Activity {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An engine runs until what is returned is dropped. All of its workers may be busy for `busy`.
    #[must_use]
    pub fn run(self: &Arc<Self>, busy: Duration) -> Running {
        let mut state = self.state();
        state.engine = Some(busy);
        state.dispatcher = Some((Phase::Idle, Instant::now()));
        Running(Arc::clone(self))
    }

    /// Whether an engine runs in this process.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state().engine.is_some()
    }

    /// The dispatcher does something else from now on, or the same once more.
    pub fn enter(&self, phase: Phase) {
        let mut state = self.state();
        if state.engine.is_some() {
            state.dispatcher = Some((phase, Instant::now()));
        }
    }

    /// A commit is under way, or ended.
    pub fn commit(&self, is_under_way: bool) {
        self.state().commit = is_under_way.then(Instant::now);
    }

    /// How many CPU seats there are.
    pub fn set_seats(&self, seats: usize) {
        self.state().seats = seats;
    }

    /// Takes a CPU seat until what is returned is dropped, by whatever thread.
    #[must_use]
    pub fn sit(self: &Arc<Self>) -> Seat {
        let mut state = self.state();
        let number = state.next_seat;
        state.next_seat += 1;
        state.taken.insert(number, Instant::now());
        Seat(Arc::clone(self), number)
    }

    /// What makes no progress, if anything.
    #[must_use]
    pub fn stall(&self) -> Option<String> {
        self.stall_at(Instant::now())
    }

    /// The same as it will be at another moment, if nothing changes.
    pub(crate) fn stall_at(&self, now: Instant) -> Option<String> {
        self.state().stall(now)
    }
}

impl State {
    fn stall(&self, now: Instant) -> Option<String> {
        let busy = self.engine?;
        let lasts = |since: &Instant| now.saturating_duration_since(*since);
        let dispatcher = self.dispatcher.as_ref().and_then(|(phase, since)| {
            let (secs, limit) = (lasts(since).as_secs(), STALL_LIMIT);
            match phase {
                Phase::Claiming if lasts(since) > limit => {
                    Some(format!("a claim has waited {secs} s for the database"))
                }
                Phase::Full if lasts(since) > busy.max(limit) => {
                    Some(format!("all workers have been busy for {secs} s"))
                }
                Phase::Idle if lasts(since) > limit => {
                    Some(format!("no work has been looked for in {secs} s"))
                }
                _ => None,
            }
        });
        let commit = self.commit.as_ref().map(lasts).filter(|lasts| *lasts > STALL_LIMIT);
        let commit = commit.map(|lasts| format!("a commit has waited {} s", lasts.as_secs()));
        let last = self.taken.values().max().map(lasts);
        let full = self.seats > 0 && self.taken.len() >= self.seats;
        let seats = last.filter(|last| full && *last > SEATS_LIMIT).map(|last| {
            format!("all {} CPU seats have been busy for at least {} s", self.seats, last.as_secs())
        });
        dispatcher.or(commit).or(seats)
    }
}

/// An engine that runs.
#[derive(Debug)]
pub struct Running(Arc<Activity>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.engine, state.dispatcher) = (None, None);
    }
}

/// A CPU seat that is taken.
#[derive(Debug)]
pub struct Seat(Arc<Activity>, u64);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.state().taken.remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Duration = Duration::from_secs(120);

    fn after(activity: &Activity, secs: u64) -> Option<String> {
        activity.stall_at(Instant::now() + Duration::from_secs(secs))
    }

    #[test]
    fn what_lasts_too_long_is_a_stall() {
        let activity = Arc::new(Activity::default());
        assert_eq!(after(&activity, 1_000), None, "there is no engine");
        let running = activity.run(BUSY);
        let stalls = |phase, secs| {
            activity.enter(phase);
            after(&activity, secs).is_some()
        };
        for (phase, fine, stalled) in
            [(Phase::Idle, 14, 16), (Phase::Claiming, 14, 16), (Phase::Full, 119, 121)]
        {
            assert!(!stalls(phase, fine) && stalls(phase, stalled), "{phase:?}");
        }
        activity.enter(Phase::Full);
        activity.commit(true);
        assert!(after(&activity, 14).is_none());
        assert!(after(&activity, 16).unwrap().contains("a commit"));
        activity.commit(false);
        assert!(after(&activity, 16).is_none());
        drop(running);
        assert!(!activity.is_running());
        activity.enter(Phase::Idle);
        assert_eq!(after(&activity, 1_000), None);
    }

    #[test]
    fn seats_stall_when_all_are_taken_for_long() {
        let activity = Arc::new(Activity::default());
        let _running = activity.run(BUSY);
        activity.enter(Phase::Full);
        activity.set_seats(2);
        let first = activity.sit();
        assert!(after(&activity, 11).is_none(), "one is free");
        let second = activity.sit();
        assert!(after(&activity, 9).is_none());
        assert!(after(&activity, 12).unwrap().contains("all 2 CPU seats"));
        drop(first);
        assert!(after(&activity, 12).is_none());
        drop(second);
    }
}
