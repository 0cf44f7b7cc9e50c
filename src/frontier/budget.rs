//! The pace at which a host is asked. Pure.
//!
//! The pause is what robots.txt asks for, else what the source says, else the default; it is never
//! shorter than what complaints (429) have taught or what the operator allows. A complaint doubles the
//! learned pause, an answer without one lets it shrink slowly, so that the pace does not swing back
//! into the next complaint. A 503 with `Retry-After` pauses the host and teaches nothing.

use std::time::Duration;

use serde::Serialize;

use super::Extension;
use crate::model::{HostAdvice, TaskId, Ts};

/// A learned pause is never longer than this.
const LONGEST_MS: i64 = 10 * 60 * 1000;
/// A lease waits no longer than this for another host.
const LONGEST_WAIT: Duration = Duration::from_mins(10);
/// Of a learned pause this much stays after an answer without complaint.
const DECAY: f64 = 0.98;

/// Who asks for a host's pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseOrigin {
    /// `Crawl-delay` in robots.txt.
    CrawlDelay,
    /// The rate of a source.
    Source,
    /// Complaints (429).
    Learned,
    /// The operator's word about the host.
    Operator,
    /// Nobody: `hosts.delay` applies.
    Default,
}

/// What is known about a host's wishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// From robots.txt.
    pub crawl_ms: Option<i64>,
    /// From the source.
    pub rate_ms: Option<i64>,
    /// From complaints; 0 = none.
    pub learned_ms: i64,
    /// The shortest that the operator allows; 0 = any.
    pub slow_ms: i64,
    /// Nothing before this time.
    pub blocked_until: Ts,
    /// The task whose response asked for that; `None` when the operator did.
    pub blocked_by: Option<TaskId>,
}

impl Pace {
    /// The pause between the end of a request and the next one.
    #[must_use]
    pub fn pause(&self, default: Duration) -> Duration {
        self.pause_and_origin(default).0
    }

    /// The same, and where it comes from.
    #[must_use]
    pub fn pause_and_origin(&self, default: Duration) -> (Duration, PauseOrigin) {
        let usual = i64::try_from(default.as_millis()).unwrap_or(i64::MAX);
        let mut pause = match (self.crawl_ms, self.rate_ms) {
            (Some(crawl), _) => (crawl, PauseOrigin::CrawlDelay),
            (None, Some(rate)) => (rate, PauseOrigin::Source),
            (None, None) => (usual, PauseOrigin::Default),
        };
        for longer in
            [(self.learned_ms, PauseOrigin::Learned), (self.slow_ms, PauseOrigin::Operator)]
        {
            if longer.0 > pause.0 {
                pause = longer;
            }
        }
        (Duration::from_millis(u64::try_from(pause.0).unwrap_or(0)), pause.1)
    }

    /// Whether a response asked to leave the host alone, for longer than until now.
    pub(super) fn is_asked_to_wait(&self, now: Ts) -> bool {
        self.blocked_by.is_some() && self.blocked_until > now
    }

    /// What a lease gets that needs a slot of this host too, which is free from `next_at` on unless
    /// somebody holds it. A pause is waited out with the slot in hand: the host's own queue, which
    /// comes at the very end of each, would otherwise always be first.
    pub(super) fn lend(&self, held: bool, next_at: Ts, now: Ts, default: Duration) -> Extension {
        let (pause, wait) = (self.pause(default), next_at.since(now));
        match held {
            true => Extension::Busy { pause },
            false if wait > LONGEST_WAIT => Extension::Blocked { until: next_at },
            false => Extension::Granted { wait, pause },
        }
    }

    /// The pace after an answer, and when the host may be asked again.
    #[must_use]
    pub fn after(mut self, advice: HostAdvice, now: Ts, default: Duration) -> (Self, Ts) {
        match advice {
            HostAdvice::NotAsked => return (self, now.max(self.blocked_until)),
            HostAdvice::Neutral => {}
            HostAdvice::Fine => self.learned_ms = decayed(self.learned_ms),
            HostAdvice::SlowDown { until } => {
                let pause = i64::try_from(self.pause(default).as_millis()).unwrap_or(LONGEST_MS);
                self.learned_ms = pause.saturating_mul(2).min(LONGEST_MS).max(self.learned_ms);
                self.blocked_until = self.blocked_until.max(until.unwrap_or(now));
            }
            HostAdvice::Pause { until } => {
                self.blocked_until = self.blocked_until.max(until);
            }
        }
        let next = now.after(self.pause(default)).max(self.blocked_until);
        (self, next)
    }

    /// The same after the response to a task: whoever asked for the longest pause is remembered.
    #[must_use]
    pub fn after_task(
        self,
        task: TaskId,
        advice: HostAdvice,
        now: Ts,
        default: Duration,
    ) -> (Self, Ts) {
        let (mut pace, next) = self.after(advice, now, default);
        if pace.blocked_until > self.blocked_until {
            pace.blocked_by = Some(task);
        }
        (pace, next)
    }
}

fn decayed(learned_ms: i64) -> i64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "at most ten minutes in milliseconds"
    )]
    let less = (learned_ms as f64 * DECAY) as i64;
    // Below a tenth of a second nothing is left to teach.
    if less < 100 { 0 } else { less }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn robots_before_source_before_default() {
        let pace = Pace::default();
        assert_eq!(pace.pause(SECOND), SECOND);
        let pace = Pace { rate_ms: Some(500), ..pace };
        assert_eq!(pace.pause(SECOND), Duration::from_millis(500));
        let pace = Pace { crawl_ms: Some(7000), ..pace };
        assert_eq!(pace.pause(SECOND), Duration::from_secs(7));
        let pace = Pace { learned_ms: 9000, ..pace };
        assert_eq!(pace.pause(SECOND), Duration::from_secs(9));
        let pace = Pace { slow_ms: 10_000, ..pace };
        let operator = (Duration::from_secs(10), PauseOrigin::Operator);
        assert_eq!(pace.pause_and_origin(SECOND), operator);
        let learned = (Duration::from_secs(9), PauseOrigin::Learned);
        assert_eq!(Pace { slow_ms: 500, ..pace }.pause_and_origin(SECOND), learned);
    }

    #[test]
    fn a_complaint_doubles_and_quiet_forgets_slowly() {
        let now = Ts::from_ms(1_000_000);
        let told = now.after(Duration::from_hours(1));
        let (pace, next) =
            Pace::default().after(HostAdvice::SlowDown { until: Some(told) }, now, SECOND);
        assert_eq!((pace.learned_ms, next), (2000, told));
        let (again, _) = pace.after(HostAdvice::SlowDown { until: None }, told, SECOND);
        assert_eq!(again.learned_ms, 4000);
        let (calmer, next) = again.after(HostAdvice::Fine, told, SECOND);
        assert_eq!(calmer.learned_ms, 3920);
        assert_eq!(next, told.after(Duration::from_millis(3920)));
    }

    #[test]
    fn a_pause_that_a_server_asks_for_is_kept_and_teaches_nothing() {
        let now = Ts::from_ms(1_000_000);
        let until = now.after(Duration::from_hours(1));
        let (pace, next) = Pace::default().after(HostAdvice::Pause { until }, now, SECOND);
        assert_eq!((pace.learned_ms, pace.blocked_until, next), (0, until, until));
    }

    #[test]
    fn the_longest_pause_tells_who_asked_for_it() {
        let now = Ts::from_ms(1_000_000);
        let until = |hours| now.after(Duration::from_hours(hours));
        let pause = |hours| HostAdvice::Pause { until: until(hours) };
        let by = |pace: Pace, task, advice| pace.after_task(TaskId(task), advice, now, SECOND).0;
        let asked = by(Pace::default(), 1, pause(2));
        assert_eq!((asked.blocked_until, asked.blocked_by), (until(2), Some(TaskId(1))));
        for shorter in [pause(1), pause(2), HostAdvice::Fine, HostAdvice::Neutral] {
            assert_eq!(by(asked, 2, shorter).blocked_by, Some(TaskId(1)), "{shorter:?}");
        }
        assert_eq!(by(asked, 2, pause(3)).blocked_by, Some(TaskId(2)));
        let operator = Pace { blocked_until: until(5), ..Pace::default() };
        assert_eq!(by(operator, 2, pause(3)).blocked_by, None);
    }

    proptest! {
        #[test]
        fn nobody_is_asked_before_the_pause_or_the_block(
            learned in 0i64..LONGEST_MS, blocked in 0i64..10_000_000, now in 0i64..10_000_000,
            until in proptest::option::of(0i64..20_000_000),
        ) {
            let pace = Pace { learned_ms: learned, blocked_until: Ts::from_ms(blocked), ..Pace::default() };
            let at = Ts::from_ms(now);
            for advice in [
                HostAdvice::Fine,
                HostAdvice::Neutral,
                HostAdvice::SlowDown { until: until.map(Ts::from_ms) },
            ] {
                let (after, next) = pace.after(advice, at, SECOND);
                prop_assert!(next >= at.after(SECOND));
                prop_assert!(next >= Ts::from_ms(blocked));
                if let HostAdvice::SlowDown { until: Some(until) } = advice {
                    prop_assert!(next >= until);
                    prop_assert!(after.learned_ms >= learned);
                }
            }
        }
    }
}
