//! What a `Retry-After` or a 429 does to a feed over the next 14 days: the pause is kept exactly, the
//! pace is back within days, and no item is lost after the pause.

use super::*;

/// Days before anything happens, in which the feed's rhythm is learned, and days that are judged.
const WARM: u32 = 14;
const DAYS: u32 = 14;
/// Where the judged days begin: a Monday.
const BEGIN: u32 = START + WARM * 86_400;
const WINDOW: usize = 10;
/// Seconds between items: a document of ten overflows after two hours.
const GAP: u32 = 720;

/// What the server answers.
enum Answer {
    Good,
    Failed(Code, u16),
    Limited(u16, Option<u32>),
}

/// What 14 days of polls came to.
struct Replay {
    polls: Vec<u32>,
    /// Publication times of items that left the document unseen.
    lost: Vec<u32>,
    limited: usize,
    state: State,
}

impl Replay {
    /// Mean seconds between polls from one day to another, counted from the first judged one.
    fn mean_interval(&self, from: f64, until: f64) -> f64 {
        let at = |days: f64| BEGIN + (days * 86_400.0) as u32;
        let within: Vec<u32> =
            self.polls.iter().copied().filter(|t| (at(from)..at(until)).contains(t)).collect();
        let span = within.last().unwrap() - within.first().unwrap();
        f64::from(span) / (within.len() - 1) as f64
    }
}

/// Times of items: every twelve minutes, give or take five.
fn items() -> Vec<u32> {
    let first = START - 30 * 86_400;
    let time = |n: u32| first + n * GAP + (mix(11, n.into()) % 600) as u32;
    (0..(30 + WARM + DAYS) * 86_400 / GAP).map(time).collect()
}

/// Polls a feed. `answer` is given the time of the request and of the one before.
fn replay(mut answer: impl FnMut(u32, u32) -> Answer) -> Replay {
    let (policy, items) = (policy(PollPolicy::Value), items());
    let mut run =
        Replay { polls: Vec::new(), lost: Vec::new(), limited: 0, state: State::default() };
    let (mut at, mut before, mut seen, mut in_a_row) = (START, 0, None::<usize>, 0);
    while at < BEGIN + DAYS * 86_400 {
        run.polls.push(at);
        let state = run.state;
        let poll = poll(&state, at);
        let failure = match answer(at, before) {
            Answer::Good => None,
            Answer::Failed(code, status) => {
                Some(PollFailure { status: Some(status), ..PollFailure::new(code) })
            }
            Answer::Limited(status, pause) => {
                run.limited += 1;
                let told = pause.map(|pause| ts(at + pause));
                let new = PollFailure::new(Code::RateLimited);
                in_a_row += 1;
                Some(PollFailure { status: Some(status), told, in_a_row, ..new })
            }
        };
        if failure.is_none_or(|failure| failure.code != Code::RateLimited) {
            in_a_row = 0;
        }
        before = at;
        at = if let Some(failure) = failure {
            let failed = policy.after_failure(&poll, &failure);
            run.state = failed.state;
            let next = failed.next.unwrap().at;
            assert!(failure.told.is_none_or(|told| next == told), "the pause is kept exactly");
            seconds(next)
        } else {
            let there = items.partition_point(|time| *time <= at);
            let oldest = there - WINDOW;
            let from = seen.map_or(oldest, |seen| seen.max(oldest));
            if at >= BEGIN {
                run.lost.extend(&items[seen.unwrap_or(from)..from]);
            }
            let dated = &items[from..there];
            let count = (!dated.is_empty()).then_some(WINDOW as u32);
            let found = Found { at, dated, items: count, recent: dated, ..Found::default() };
            let (state, decision) = policy.next_poll(&poll, &found, &CONDITIONAL);
            (run.state, seen) = (state, Some(there));
            seconds(decision.at)
        };
    }
    run
}

const fn day(days: u32) -> u32 {
    BEGIN + days * 86_400
}

#[test]
fn an_undisturbed_feed_loses_nothing() {
    let run = replay(|_, _| Answer::Good);
    assert!(run.lost.is_empty() && run.limited == 0);
}

#[test]
fn an_outage_that_ends_with_a_503_and_a_retry_after_leaves_no_trace() {
    let (begin, end) = (day(2), day(2) + 5 * 3600);
    let mut asked = false;
    let run = replay(|at, _| match at {
        _ if (begin..end).contains(&at) => Answer::Failed(Code::Upstream, 500),
        _ if at >= end && !std::mem::replace(&mut asked, true) => Answer::Limited(503, Some(60)),
        _ => Answer::Good,
    });
    assert_eq!(run.limited, 1);
    let back = *run.polls.iter().find(|at| **at >= end).unwrap() + 60;
    let later = run.lost.iter().filter(|time| **time + WINDOW as u32 * GAP > back).count();
    assert_eq!(later, 0, "lost after the pause: {:?}", run.lost);
    assert_eq!(run.state.learned_interval(), None);
    let (before, after) = (run.mean_interval(1.0, 2.0), run.mean_interval(2.5, 3.5));
    assert!(after < before * 1.3, "{before} {after}");
}

#[test]
fn any_number_of_errors_and_one_503_with_a_short_pause_leave_no_trace() {
    for errors in 0..=14 {
        for pause in [None, Some(15), Some(30), Some(59), Some(60), Some(90)] {
            let (mut failed, mut limited_at) = (0, 0);
            let run = replay(|at, _| match at {
                _ if at >= day(2) && failed < errors => {
                    failed += 1;
                    Answer::Failed(Code::Upstream, 500)
                }
                _ if at >= day(2) && limited_at == 0 => {
                    limited_at = at;
                    Answer::Limited(if pause.is_some() { 503 } else { 429 }, pause)
                }
                _ => Answer::Good,
            });
            let what = format!("{errors} x 500, then {pause:?}");
            assert_eq!(run.limited, 1, "{what}");
            let next = run.polls.iter().copied().find(|at| *at > limited_at).unwrap();
            let Some(pause) = pause else {
                assert!(next - limited_at < 2 * 3600, "{what}: {}", next - limited_at);
                continue;
            };
            assert_eq!(next - limited_at, pause, "{what}");
            let later = |time: &&u32| **time + WINDOW as u32 * GAP > next;
            assert_eq!(run.lost.iter().filter(later).count(), 0, "{what}");
            // From the next day on it is at its pace.
            let begin = f64::from(next - BEGIN) / 86_400.0 + 0.5;
            let (before, after) =
                (run.mean_interval(1.0, 2.0), run.mean_interval(begin, begin + 1.0));
            assert!(after < before * 1.3, "{what}: {before} {after}");
        }
    }
}

#[test]
fn a_plain_503_with_a_retry_after_is_kept_and_forgotten() {
    let mut asked = false;
    let run = replay(|at, _| match at {
        _ if at >= day(2) && !std::mem::replace(&mut asked, true) => {
            Answer::Limited(503, Some(3600))
        }
        _ => Answer::Good,
    });
    assert_eq!((run.limited, run.lost.len()), (1, 0));
    assert_eq!(run.state.learned_interval(), None);
    let before = run.mean_interval(1.0, 2.0);
    for from in [2.1, 6.0, 13.0] {
        let after = run.mean_interval(from, from + 1.0);
        assert!(after < before * 1.3, "day {from}: {before} {after}");
    }
}

#[test]
fn a_429_slows_a_feed_for_days_and_loses_nothing() {
    for pause in [None, Some(3600)] {
        let mut asked = false;
        let run = replay(|at, _| match at {
            _ if at >= day(2) && !std::mem::replace(&mut asked, true) => {
                Answer::Limited(429, pause)
            }
            _ => Answer::Good,
        });
        assert_eq!((run.limited, run.lost.len()), (1, 0), "{:?}", run.lost);
        let before = run.mean_interval(1.0, 2.0);
        let (next, later) = (run.mean_interval(2.1, 2.6), run.mean_interval(7.0, 14.0));
        assert!(next > before * 1.3, "it is slower the day after: {before} {next}");
        assert!(later < before * 1.1, "it is forgiven within days: {before} {later}");
        assert_eq!(run.state.learned_interval(), None);
    }
}

#[test]
fn a_server_with_a_limit_is_asked_too_often_only_now_and_then() {
    // It counts only requests that it answered.
    let mut served = 0;
    let run = replay(|at, _| {
        if at >= BEGIN && at - served < 2400 {
            return Answer::Limited(429, Some(2400 - (at - served)));
        }
        served = at;
        Answer::Good
    });
    assert!((1..=8).contains(&run.limited), "{}", run.limited);
    assert!(run.lost.is_empty(), "{:?}", run.lost);
}

#[test]
fn the_guard_wins_over_a_learned_interval_and_an_operator_can_clear_it() {
    let run = replay(|_, _| Answer::Good);
    let slow = State { floor: 14_400.0, ..run.state };
    let next = plan(PollPolicy::Value, &slow, FIRST_PRICE);
    assert!(next.interval < 2 * HOUR, "{}", next.reason);
    assert!(next.reason.contains("bound=guard"), "{}", next.reason);
    let explicit = |state: &State| {
        let poll = Poll { explicit: Some(10 * MINUTE), ..poll(state, state.last_ok + 600) };
        let found = Found { at: state.last_ok + 600, ..Found::default() };
        policy(PollPolicy::Value).next_poll(&poll, &found, &CONDITIONAL).1.interval
    };
    assert!((HOUR..2 * HOUR).contains(&explicit(&slow)), "{:?}", explicit(&slow));
    for cleared in [slow.without_learned_interval(), slow.forgiven()] {
        assert_eq!(cleared.learned_interval(), None);
        assert_eq!(explicit(&cleared), 10 * MINUTE);
    }
    let quiet = State { window: 0, ..slow };
    let next = plan(PollPolicy::Value, &quiet, FIRST_PRICE);
    assert!(next.interval > 3 * HOUR && next.reason.contains("bound=retry-after"), "{next:?}");
}
