//! When to come back. Pure: the same facts give the same time, with a reason that people can read.
//!
//! Polls follow a policy; failures wait as one table says. Every wait is spread a little by a hash
//! of the task and the time, so that nothing aligns and everything can be replayed.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use crate::model::{Class, Code, Kind, TaskId, Ts};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// How recurring tasks are polled and failures waited out.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Between two polls of a feed that says nothing about itself.
    pub feed_interval: Duration,
    /// Between two polls of a sitemap.
    pub sitemap_interval: Duration,
    /// Never sooner.
    pub min_interval: Duration,
    /// Never later.
    pub max_interval: Duration,
    /// Polls come up to this share of their interval later.
    pub jitter: f64,
    /// Failed attempts after which a page is given up.
    pub retries: u32,
    /// The first wait after a page failed; it doubles with each.
    pub retry_first: Duration,
    /// The longest such wait.
    pub retry_cap: Duration,
}

/// When, and why then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When to come back.
    pub at: Ts,
    /// The interval chosen, before it was spread.
    pub interval: Duration,
    /// Why, for people.
    pub reason: String,
}

/// What is known about a recurring task when its next poll is planned.
#[derive(Clone, Copy, Debug)]
pub struct Poll {
    /// Which task.
    pub task: TaskId,
    /// Feed or sitemap.
    pub kind: Kind,
    /// The operator's fixed interval.
    pub explicit: Option<Duration>,
    /// The publisher's own wish for a pause (`ttl`, `max-age`).
    pub floor: Option<Duration>,
    /// When the poll was made.
    pub at: Ts,
}

/// A number in 0..1 that depends on nothing but its arguments.
fn spread(task: TaskId, at: Ts) -> f64 {
    let mut hasher = std::hash::DefaultHasher::new();
    (task, at).hash(&mut hasher);
    #[expect(clippy::cast_precision_loss, reason = "53 bits are plenty for a spread")]
    let unit = (hasher.finish() >> 11) as f64 / (1u64 << 53) as f64;
    unit
}

fn doubled(first: Duration, times: u32, cap: Duration) -> Duration {
    first.saturating_mul(1u32 << times.min(20)).min(cap)
}

impl Policy {
    /// When to poll again after a poll that went well.
    #[must_use]
    pub fn next_poll(&self, poll: &Poll) -> Decision {
        let (chosen, from) = match (poll.explicit, poll.kind) {
            (Some(fixed), _) => (fixed, "the source's interval"),
            (None, Kind::Sitemap) => (self.sitemap_interval, "the interval for sitemaps"),
            (None, _) => (self.feed_interval, "the default interval"),
        };
        let floor = poll.floor.filter(|_| poll.explicit.is_none()).unwrap_or_default();
        let (wanted, from) =
            if floor > chosen { (floor, "the publisher asks for it") } else { (chosen, from) };
        let interval = wanted.max(self.min_interval).min(self.max_interval.max(self.min_interval));
        let later = interval.mul_f64(self.jitter * spread(poll.task, poll.at));
        Decision {
            at: poll.at.after(interval + later),
            interval,
            reason: format!("poll in {}: {from}", human(interval + later)),
        }
    }

    /// When to ask again for a recurring task that failed `failures` times in a row; `None` when
    /// waiting does not help. A time that the server named is kept to the letter.
    #[must_use]
    pub fn after_failure(
        &self,
        poll: &Poll,
        code: Code,
        failures: u32,
        told: Option<Ts>,
    ) -> Option<Decision> {
        let more = failures.saturating_sub(1);
        let wait = match code.class() {
            // What may be a mistake of today, on either side, is looked at again.
            Class::Final
                if matches!(code, Code::Guarded | Code::RedirectLoop | Code::RobotsBlocked) =>
            {
                doubled(HOUR, more, DAY)
            }
            Class::Final => return None,
            Class::RateLimited => doubled(MINUTE, more, DAY),
            // An hour at the most during the first day of an outage, a day afterwards.
            Class::Upstream if failures <= 24 => doubled(15 * MINUTE, more, HOUR),
            Class::Upstream => doubled(HOUR, failures - 24, DAY),
            Class::Forbidden | Class::NotFound => doubled(HOUR, more, DAY),
            Class::Content => doubled(30 * MINUTE, more, DAY),
            Class::Size | Class::Fine => {
                doubled(self.next_poll(poll).interval, failures, self.max_interval)
            }
        };
        Some(self.wait(poll.task, poll.at, wait, code, failures, told))
    }

    /// When to ask again for a page after `attempts` failed ones; `None` when it is given up.
    #[must_use]
    pub fn retry_page(
        &self,
        task: TaskId,
        at: Ts,
        code: Code,
        attempts: u32,
        told: Option<Ts>,
    ) -> Option<Decision> {
        let limited = code.class() == Class::RateLimited;
        if !code.is_transient() || (attempts > self.retries && !limited) {
            return None;
        }
        let cap = if limited { DAY } else { self.retry_cap };
        let wait = doubled(self.retry_first, attempts.saturating_sub(1), cap);
        Some(self.wait(task, at, wait, code, attempts, told))
    }

    fn wait(
        &self,
        task: TaskId,
        at: Ts,
        wait: Duration,
        code: Code,
        failures: u32,
        told: Option<Ts>,
    ) -> Decision {
        if let Some(told) = told.filter(|told| *told > at) {
            return Decision {
                at: told,
                interval: told.since(at),
                reason: format!("{code}: the server asked to come back at {told}"),
            };
        }
        let wait_spread = wait + wait.mul_f64(0.1 * spread(task, at));
        Decision {
            at: at.after(wait_spread),
            interval: wait,
            reason: format!("{code}: attempt {failures} failed, again in {}", human(wait_spread)),
        }
    }
}

/// A span as people say it: `45s`, `15m`, `3h05m`, `2d`.
#[must_use]
pub fn human(span: Duration) -> String {
    let s = span.as_secs();
    match s {
        0 => format!("{}ms", span.as_millis()),
        1..60 => format!("{s}s"),
        60..3_600 if s.is_multiple_of(60) => format!("{}m", s / 60),
        60..3_600 => format!("{}m{:02}s", s / 60, s % 60),
        3_600..86_400 if s % 3_600 < 60 => format!("{}h", s / 3_600),
        3_600..86_400 => format!("{}h{:02}m", s / 3_600, s % 3_600 / 60),
        _ if s % 86_400 < 3_600 => format!("{}d", s / 86_400),
        _ => format!("{}d{}h", s / 86_400, s % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn policy() -> Policy {
        Policy {
            feed_interval: 15 * MINUTE,
            sitemap_interval: 6 * HOUR,
            min_interval: 5 * MINUTE,
            max_interval: DAY,
            jitter: 0.05,
            retries: 3,
            retry_first: MINUTE,
            retry_cap: DAY,
        }
    }

    fn poll(kind: Kind) -> Poll {
        Poll { task: TaskId(1), kind, explicit: None, floor: None, at: Ts::from_ms(1_000_000) }
    }

    #[test]
    fn the_interval_is_the_sources_then_the_kinds() {
        let interval = |poll: Poll| policy().next_poll(&poll).interval;
        assert_eq!(interval(poll(Kind::Feed)), 15 * MINUTE);
        assert_eq!(interval(poll(Kind::Sitemap)), 6 * HOUR);
        assert_eq!(interval(Poll { explicit: Some(HOUR), ..poll(Kind::Feed) }), HOUR);
        assert_eq!(interval(Poll { explicit: Some(MINUTE), ..poll(Kind::Feed) }), 5 * MINUTE);
        assert_eq!(interval(Poll { floor: Some(2 * HOUR), ..poll(Kind::Feed) }), 2 * HOUR);
        assert_eq!(interval(Poll { floor: Some(30 * DAY), ..poll(Kind::Feed) }), DAY);
    }

    #[test]
    fn waits_follow_the_table() {
        let waits = |code: Code, n: u32| {
            policy().after_failure(&poll(Kind::Feed), code, n, None).map(|d| d.interval)
        };
        for (code, first, second, cap) in [
            (Code::RateLimited, MINUTE, 2 * MINUTE, DAY),
            (Code::Upstream, 15 * MINUTE, 30 * MINUTE, DAY),
            (Code::Timeout, 15 * MINUTE, 30 * MINUTE, DAY),
            (Code::Forbidden, HOUR, 2 * HOUR, DAY),
            (Code::NotFound, HOUR, 2 * HOUR, DAY),
            (Code::Parse, 30 * MINUTE, HOUR, DAY),
            (Code::TooLarge, 30 * MINUTE, HOUR, DAY),
        ] {
            assert_eq!(waits(code, 1), Some(first), "{code}");
            assert_eq!(waits(code, 2), Some(second), "{code}");
            assert_eq!(waits(code, 60), Some(cap), "{code}");
        }
        assert_eq!(waits(Code::Upstream, 10), Some(HOUR));
        assert_eq!(waits(Code::Gone, 1), None);
        assert_eq!(waits(Code::Unauthorized, 1), None);
        for mistake in [Code::Guarded, Code::RedirectLoop, Code::RobotsBlocked] {
            assert_eq!(waits(mistake, 1), Some(HOUR), "{mistake}");
        }
    }

    #[test]
    fn a_page_is_given_up_after_its_retries_but_never_for_our_haste() {
        let policy = policy();
        let retry = |code, n| policy.retry_page(TaskId(1), Ts::from_ms(0), code, n, None);
        assert_eq!(retry(Code::Upstream, 1).unwrap().interval, MINUTE);
        assert_eq!(retry(Code::Upstream, 3).unwrap().interval, 4 * MINUTE);
        assert!(retry(Code::Upstream, 4).is_none());
        assert!(retry(Code::NotFound, 1).is_none());
        assert!(retry(Code::RateLimited, 40).is_some());
    }

    #[test]
    fn spans_read_like_people_say_them() {
        for (s, text) in
            [(45, "45s"), (900, "15m"), (75, "1m15s"), (11_100, "3h05m"), (172_800, "2d")]
        {
            assert_eq!(human(Duration::from_secs(s)), text);
        }
    }

    proptest! {
        #[test]
        fn never_before_what_the_server_said(
            at in 0i64..1_000_000_000, told in 0i64..2_000_000_000, n in 1u32..100,
            code in proptest::sample::select(Code::ALL),
        ) {
            let at = Ts::from_ms(at);
            let told = Ts::from_ms(told);
            let poll = Poll { at, ..poll(Kind::Feed) };
            if let Some(decision) = policy().after_failure(&poll, code, n, Some(told)) {
                prop_assert!(decision.at > at);
                prop_assert!(decision.at >= told);
            }
            if let Some(decision) = policy().retry_page(TaskId(3), at, code, n, Some(told)) {
                prop_assert!(decision.at > at);
                prop_assert!(decision.at >= told);
            }
        }

        #[test]
        fn polls_stay_within_their_bounds(
            at in 0i64..1_000_000_000, explicit in proptest::option::of(0u64..1_000_000),
            floor in proptest::option::of(0u64..1_000_000), task in 0i64..1000,
        ) {
            let poll = Poll {
                task: TaskId(task),
                kind: Kind::Feed,
                explicit: explicit.map(Duration::from_secs),
                floor: floor.map(Duration::from_secs),
                at: Ts::from_ms(at),
            };
            let decision = policy().next_poll(&poll);
            let wait = decision.at.since(poll.at);
            prop_assert!(wait >= 5 * MINUTE);
            prop_assert!(wait <= DAY.mul_f64(1.05));
            prop_assert_eq!(decision, policy().next_poll(&poll));
        }
    }
}
