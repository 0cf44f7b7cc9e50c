//! The interval that a server taught by answering 429, which is a floor for later intervals.
//!
//! It comes from the spacing of requests that were answered with 429. An outage and a 503 teach nothing:
//! the pause that a server asks for is kept, and that is all. What was learned fades with good answers,
//! and it never makes a document overflow.

use super::state::State;
use super::value::DAY;

/// Requests are planned this many times as far apart as would have been welcome: less would soon fade
/// below that.
const SLOWER: f32 = 2.0;
/// But at most this many times as far apart as those that were answered with 429: a long pause is a
/// penalty and says little about the spacing.
const SLOWEST: f32 = 4.0;
/// The longest interval that is learned, in seconds.
const LONGEST: u32 = 4 * 3600;
/// Good answers for this long halve what one 429 taught, in seconds.
const HALF_LIFE: f32 = 2.0 * DAY as f32;
/// Each further 429 doubles that time, up to four times: a server with a limit of its own is not to
/// be tried every other day.
const MOST_DOUBLED: u32 = 2;

/// Learns from a request that was answered with 429 at `at`, with a `Retry-After` of `pause` seconds.
/// `state` is as it was before.
///
/// Only a request that came as planned after a good answer says something about the spacing. The
/// time since the last good answer may also hold failures, or a time in which nothing was polled.
pub(super) fn learn(state: &mut State, at: u32, pause: u32) {
    if state.last_ok == 0 || state.failures() > 0 {
        return;
    }
    let spacing = at.saturating_sub(state.last_ok).min(state.interval);
    let (spacing, pause) = (spacing as f32, pause as f32);
    let learned = (SLOWER * (spacing + pause)).min(SLOWEST * spacing);
    state.floor = state.floor.max(learned.min(LONGEST as f32));
    state.set_complaints(state.complaints() + 1);
}

/// Forgives a part of what was learned, after a good answer at `at`. Below the shortest interval
/// nothing is left of it.
pub(super) fn fade(state: &mut State, at: u32, shortest: u32) {
    // A day at the most: a time without answers is no time of good answers.
    let since = at.saturating_sub(state.last_ok).min(DAY) as f32;
    let doubled = state.complaints().saturating_sub(1).min(MOST_DOUBLED);
    state.floor *= (-since / (HALF_LIFE * (1u32 << doubled) as f32)).exp2();
    if state.floor <= shortest as f32 {
        *state = state.without_learned_interval();
    }
}

/// The least interval in seconds, with the name of what says so. `overflow` says when the document
/// overflows within a span: that wins.
pub(super) fn floor(state: &State, overflow: impl Fn(u32) -> Option<u32>) -> (u32, &'static str) {
    let learned = state.floor.ceil() as u32;
    match (learned > 0).then(|| overflow(learned)).flatten() {
        Some(full) => (full, "guard"),
        None => (learned, "retry-after"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u32 = 1_735_516_800;

    fn polled(interval: u32) -> State {
        State { last_ok: NOW, interval, ..State::default() }
    }

    #[test]
    fn requests_that_were_answered_with_429_teach_twice_their_spacing() {
        let mut state = polled(600);
        learn(&mut state, NOW + 600, 0);
        assert_eq!(state.floor, 1200.0);
        learn(&mut state, NOW + 300, 60);
        assert_eq!(state.floor, 1200.0, "a shorter spacing teaches nothing new");
        learn(&mut state, NOW + 600, 400);
        assert_eq!(state.floor, 2000.0, "half as far apart would have been welcome");
        learn(&mut state, NOW + 600, 36_000);
        assert_eq!(state.floor, 2400.0, "a long pause says little about the spacing");
        let mut slow = polled(DAY);
        learn(&mut slow, NOW + DAY, 0);
        assert_eq!(slow.floor, LONGEST as f32);
    }

    #[test]
    fn a_time_without_polls_or_with_failures_teaches_nothing() {
        let mut late = polled(600);
        learn(&mut late, NOW + 5 * 3600, 0);
        assert_eq!(late.floor, 1200.0, "the engine was stopped for five hours");
        let mut failing = polled(600);
        failing.note(true);
        learn(&mut failing, NOW + 5 * 3600, 60);
        assert_eq!(failing.floor, 0.0);
        let mut never = State::default();
        learn(&mut never, NOW, 60);
        assert_eq!(never.floor, 0.0);
    }

    #[test]
    fn good_answers_halve_it_every_two_days_and_a_gap_counts_as_a_day() {
        let mut state = State { floor: 4000.0, ..polled(3600) };
        for hour in 1..=48 {
            fade(&mut state, NOW + hour * 3600, 300);
            state.last_ok = NOW + hour * 3600;
        }
        assert!((state.floor - 2000.0).abs() < 1.0, "{}", state.floor);
        let last = state.last_ok;
        fade(&mut state, last + 30 * DAY, 300);
        assert!((state.floor - 1414.0).abs() < 1.0, "{}", state.floor);
        let mut often = state;
        (0..3).for_each(|_| often.set_complaints(often.complaints() + 1));
        fade(&mut often, last + DAY, 300);
        assert!(often.floor > 1250.0, "{}", often.floor);
        fade(&mut often, last + 3600, 1400);
        assert_eq!(
            (often.floor, often.complaints()),
            (0.0, 0),
            "no longer than the shortest interval"
        );
    }

    #[test]
    fn the_guard_wins() {
        let state = State { floor: 4000.0, ..State::default() };
        assert_eq!(floor(&state, |_| None), (4000, "retry-after"));
        assert_eq!(floor(&state, |longest| (longest > 900).then_some(900)), (900, "guard"));
        assert_eq!(floor(&State::default(), |_| Some(1)), (0, "retry-after"));
    }
}
