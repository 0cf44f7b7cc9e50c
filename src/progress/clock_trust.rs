//! Whether the machine's clock may decide that something is old enough to be deleted.
//!
//! A clock that is years ahead for a minute would make everything old. Publishers send the time with their
//! responses, so that a clock is trusted once most of the hosts that responded lately agree with it. Where none
//! sends its time, the clock has to run for a while without a jump.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::model::Ts;

/// A host agrees when its time differs by less: caches send the time at which they were filled.
const MAX_DIFFERENCE: Duration = Duration::from_hours(3 * 24);
/// What hosts sent longer ago does not count.
const MAX_EVIDENCE_AGE: Duration = Duration::from_hours(24);
/// Hosts that are remembered, the latest.
const MAX_HOSTS: usize = 64;
/// Between two responses of a running engine there is not so much time; after it the clock is suspected.
const MAX_GAP: Duration = Duration::from_hours(7 * 24);
/// Without any host's time, a clock is trusted after it ran for so long.
const PROBATION: Duration = Duration::from_hours(1);
/// The same after it jumped.
const PROBATION_AFTER_JUMP: Duration = Duration::from_hours(24);

/// What responses say about the clock; shared by the workers and by those who delete.
#[derive(Debug, Default)]
pub struct ClockTrust(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When the engine started, or when the clock jumped since.
    since: Option<Ts>,
    has_jumped: bool,
    /// The latest time that was read.
    last: Option<Ts>,
    /// Hosts with the time of their response, by our clock, and whether they agree with it.
    hosts: VecDeque<(String, Ts, bool)>,
}

fn difference(one: Ts, other: Ts) -> Duration {
    one.since(other).max(other.since(one))
}

impl State {
    fn read(&mut self, now: Ts) {
        let jumped = self.last.is_some_and(|last| difference(now, last) > MAX_GAP);
        if jumped || self.since.is_none() {
            (self.since, self.has_jumped) = (Some(now), jumped);
        }
        self.last = Some(now);
    }
}

impl ClockTrust {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An engine starts, whose archive was last written to at `last_write`.
    pub fn start(&self, last_write: Option<Ts>, now: Ts) {
        *self.state() = State { last: last_write, ..State::default() };
        self.state().read(now);
    }

    /// A host responded, at `served_at` by its own clock.
    pub fn record(&self, host: &str, served_at: Option<Ts>, now: Ts) {
        let mut state = self.state();
        state.read(now);
        let Some(served_at) = served_at else { return };
        state.hosts.retain(|(known, ..)| known != host);
        state.hosts.push_back((host.to_owned(), now, difference(now, served_at) < MAX_DIFFERENCE));
        if state.hosts.len() > MAX_HOSTS {
            state.hosts.pop_front();
        }
    }

    /// Whether something may be deleted for its age; else why not.
    pub fn check(&self, now: Ts) -> Result<(), String> {
        let mut state = self.state();
        state.read(now);
        state.hosts.retain(|(_, at, _)| difference(now, *at) < MAX_EVIDENCE_AGE);
        let agree = state.hosts.iter().filter(|(.., agrees)| *agrees).count();
        let differ = state.hosts.len() - agree;
        if agree > differ {
            return Ok(());
        }
        if differ > 0 {
            return Err(format!("{differ} of {} hosts send another time", state.hosts.len()));
        }
        let probation = if state.has_jumped { PROBATION_AFTER_JUMP } else { PROBATION };
        match state.since {
            Some(since) if now.since(since) >= probation => Ok(()),
            _ if state.has_jumped => Err("it jumped, and no response confirms it yet".to_owned()),
            _ => Err("no response confirms it yet".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Ts = Ts::from_ms(1_800_000_000_000);
    const HOUR: Duration = Duration::from_hours(1);
    const YEARS: Duration = Duration::from_hours(10 * 365 * 24);

    fn started() -> ClockTrust {
        let trust = ClockTrust::default();
        trust.start(Some(NOW.before(HOUR)), NOW);
        trust
    }

    #[test]
    fn a_clock_is_trusted_once_responses_agree_with_it() {
        let trust = started();
        assert!(trust.check(NOW).is_err());
        trust.record("a.example", Some(NOW.before(HOUR)), NOW);
        assert_eq!(trust.check(NOW), Ok(()));
    }

    #[test]
    fn a_clock_that_jumped_is_not_trusted_until_it_is_right_again() {
        let trust = started();
        trust.record("a.example", Some(NOW), NOW);
        let ahead = NOW.after(YEARS);
        assert!(trust.check(ahead).is_err(), "what agreed before the jump is too old to count");
        trust.record("a.example", Some(NOW), ahead);
        let much_later = ahead.after(48 * HOUR);
        trust.record("a.example", Some(NOW.after(48 * HOUR)), much_later);
        assert!(trust.check(much_later).unwrap_err().contains("1 of 1 hosts"));
        let right = NOW.after(49 * HOUR);
        trust.record("a.example", Some(right), right);
        assert_eq!(trust.check(right), Ok(()));
    }

    #[test]
    fn an_engine_that_starts_with_a_clock_years_ahead_does_not_trust_it() {
        let trust = ClockTrust::default();
        let ahead = NOW.after(YEARS);
        trust.start(Some(NOW), ahead);
        assert!(trust.check(ahead.after(2 * HOUR)).unwrap_err().contains("jumped"));
        // After a second start nothing shows the jump but the hosts' time.
        trust.start(Some(ahead), ahead.after(HOUR));
        assert!(trust.check(ahead.after(HOUR)).is_err());
        trust.record("a.example", Some(NOW.after(HOUR)), ahead.after(HOUR));
        assert!(trust.check(ahead.after(3 * HOUR)).is_err());
    }

    #[test]
    fn most_hosts_decide_and_without_any_time_does() {
        let trust = started();
        let wrong = Some(Ts::from_ms(0));
        trust.record("wrong.example", wrong, NOW);
        assert!(trust.check(NOW).is_err());
        trust.record("a.example", Some(NOW), NOW);
        trust.record("b.example", Some(NOW), NOW);
        trust.record("wrong.example", wrong, NOW);
        assert_eq!(trust.check(NOW), Ok(()));
        let silent = started();
        silent.record("a.example", None, NOW);
        assert!(silent.check(NOW).is_err());
        assert_eq!(silent.check(NOW.after(HOUR)), Ok(()));
        let off_for_long = ClockTrust::default();
        off_for_long.start(Some(NOW.before(YEARS)), NOW);
        assert!(off_for_long.check(NOW.after(HOUR)).is_err());
        assert_eq!(off_for_long.check(NOW.after(25 * HOUR)), Ok(()), "nothing contradicts it");
    }
}
