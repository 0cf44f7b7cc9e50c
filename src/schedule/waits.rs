//! How long to wait after a failure: one table.
//!
//! It knows classes of failures, not feeds. A wait never gets shorter while failures go on.

use std::time::Duration;

use super::{DAY, HOUR, MINUTE};
use crate::model::{Class, Code};

/// What a class of failures means for a recurring task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// Until the next try.
    pub(super) wait: Duration,
    /// Failed too often: from now on only probed, with such a pause between.
    pub(super) disabled: bool,
}

pub(super) fn doubled(first: Duration, times: u32, cap: Duration) -> Duration {
    first.saturating_mul(1u32 << times.min(20)).min(cap)
}

/// Failures in a row after which a task is disabled, and the pause before each probe.
const fn threshold(code: Code) -> Option<(u32, Duration)> {
    match code.class() {
        Class::Upstream => match code {
            Code::Network | Code::Dns => Some((10, Duration::from_hours(12))),
            _ => Some((10, Duration::from_hours(6))),
        },
        Class::Forbidden | Class::Content => Some((5, DAY)),
        Class::NotFound => Some((3, Duration::from_hours(48))),
        Class::RateLimited | Class::Size | Class::Fine | Class::Final => None,
    }
}

/// The wait after that many failures in a row; `None` when waiting does not help. `interval` is
/// what a poll would have waited, `longest` the most that it may.
pub(super) fn plain(
    code: Code,
    failures: u32,
    interval: Duration,
    longest: Duration,
) -> Option<Duration> {
    let more = failures.saturating_sub(1);
    Some(match code.class() {
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
        Class::Size | Class::Fine => doubled(interval, failures, longest),
    })
}

/// The same, and whether that was once too often.
pub(super) fn wait(
    code: Code,
    failures: u32,
    flapping: bool,
    interval: Duration,
    longest: Duration,
) -> Option<Wait> {
    let wait = plain(code, failures, interval, longest)?;
    let flapping = flapping && code.class() == Class::Upstream;
    let cooldown = threshold(code).filter(|(limit, _)| failures >= *limit || flapping);
    let disabled = cooldown.is_some();
    Some(Wait { wait: cooldown.map_or(wait, |(_, cooldown)| wait.max(cooldown)), disabled })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waits(code: Code, failures: u32) -> Option<(Duration, bool)> {
        wait(code, failures, false, 15 * MINUTE, DAY).map(|wait| (wait.wait, wait.disabled))
    }

    #[test]
    fn waits_follow_the_table() {
        for (code, first, second, limit, cooldown) in [
            (Code::Upstream, 15 * MINUTE, 30 * MINUTE, 10, 6 * HOUR),
            (Code::Timeout, 15 * MINUTE, 30 * MINUTE, 10, 6 * HOUR),
            (Code::Network, 15 * MINUTE, 30 * MINUTE, 10, 12 * HOUR),
            (Code::Dns, 15 * MINUTE, 30 * MINUTE, 10, 12 * HOUR),
            (Code::Forbidden, HOUR, 2 * HOUR, 5, DAY),
            (Code::NotFound, HOUR, 2 * HOUR, 3, 48 * HOUR),
            (Code::Parse, 30 * MINUTE, HOUR, 5, DAY),
            (Code::BadContentType, 30 * MINUTE, HOUR, 5, DAY),
            (Code::Empty, 30 * MINUTE, HOUR, 5, DAY),
        ] {
            assert_eq!(waits(code, 1), Some((first, false)), "{code}");
            assert_eq!(waits(code, 2), Some((second, false)), "{code}");
            assert!(!waits(code, limit - 1).unwrap().1, "{code}");
            assert_eq!(waits(code, limit), Some((cooldown, true)), "{code}");
        }
        for (code, first) in [(Code::RateLimited, MINUTE), (Code::TooLarge, 30 * MINUTE)] {
            assert_eq!(waits(code, 1), Some((first, false)), "{code}");
            assert_eq!(waits(code, 60), Some((DAY, false)), "{code}");
        }
        for code in [Code::Gone, Code::Unauthorized] {
            assert_eq!(waits(code, 1), None, "{code}");
        }
        for mistake in [Code::Guarded, Code::RedirectLoop, Code::RobotsBlocked] {
            assert_eq!(waits(mistake, 1), Some((HOUR, false)), "{mistake}");
        }
    }

    #[test]
    fn who_flaps_is_disabled_though_failures_do_not_last() {
        let flapping = wait(Code::Upstream, 1, true, HOUR, DAY).unwrap();
        assert_eq!(flapping, Wait { wait: 6 * HOUR, disabled: true });
        assert!(!wait(Code::RateLimited, 1, true, HOUR, DAY).unwrap().disabled);
    }

    proptest! {
        #[test]
        fn one_more_failure_never_shortens_a_wait(
            code in proptest::sample::select(Code::ALL), failures in 1u32..200,
            interval in 300u64..86_400,
        ) {
            let at = |n| wait(code, n, false, Duration::from_secs(interval), DAY);
            if let (Some(now), Some(next)) = (at(failures), at(failures + 1)) {
                prop_assert!(next.wait >= now.wait);
                prop_assert!(next.disabled >= now.disabled);
            }
        }
    }
}
