//! How long to wait after a failure: one table.
//!
//! It knows classes of failures, not feeds. A wait never gets shorter while failures go on.

use std::time::Duration;

use super::{DAY, HOUR, MINUTE};
use crate::model::{Class, Code};

/// How failures are waited out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// What a wait goes by.
    pub backoff: Backoff,
    /// What it is multiplied with for each further failure.
    pub base: f64,
    /// No wait is longer, except between probes.
    pub cap: Duration,
    /// Failures in a row that are too many, of those that pass.
    pub threshold: u32,
    /// When a failure that does not pass is one too many.
    pub permanent: OnPermanent,
    /// What happens then.
    pub then: OnThreshold,
}

/// What a wait goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// The class of the failure.
    Table,
    /// The interval of the channel, times the base for each failure.
    Interval,
    /// The interval of the channel.
    None,
}

/// When a failure that does not pass is one too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPermanent {
    /// When it came a few times.
    AfterAFew,
    /// The first time.
    AtOnce,
    /// Never.
    Never,
}

/// What happens to a task that failed too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnThreshold {
    /// It is only probed.
    Cooldown,
    /// It is tried on, at least daily.
    KeepRetrying,
    /// It is given up.
    Disable,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            backoff: Backoff::Table,
            base: 2.0,
            cap: DAY,
            threshold: 10,
            permanent: OnPermanent::AfterAFew,
            then: OnThreshold::Cooldown,
        }
    }
}

/// What a class of failures means for a recurring task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// Until the next try.
    pub(super) wait: Duration,
    /// Failed too often: from now on only probed, with such a pause between.
    pub(super) disabled: bool,
}

/// A wait that grows each time, up to a longest one.
pub(super) fn grown(first: Duration, times: u32, base: f64, longest: Duration) -> Duration {
    let factor = base.powi(i32::try_from(times.min(1_000)).unwrap_or(i32::MAX));
    let grown = (first.as_secs_f64() * factor).min(longest.as_secs_f64());
    // Milliseconds: a fraction that is not exact would show in what people read.
    Duration::from_millis((grown * 1_000.0).round() as u64)
}

impl Waits {
    /// Failures in a row after which a task is disabled, and the pause before each probe.
    fn limit(&self, code: Code) -> Option<(u32, Duration)> {
        let permanent = |few| match self.permanent {
            OnPermanent::AfterAFew => Some(few),
            OnPermanent::AtOnce => Some(1),
            OnPermanent::Never => None,
        };
        match code.class() {
            Class::Upstream => match code {
                Code::Network | Code::Dns => Some((self.threshold, Duration::from_hours(12))),
                _ => Some((self.threshold, Duration::from_hours(6))),
            },
            Class::Forbidden => Some((5, DAY)),
            Class::Content => Some((permanent(5)?, DAY)),
            Class::NotFound => Some((permanent(3)?, Duration::from_hours(48))),
            Class::RateLimited | Class::Size | Class::Fine | Class::Final => None,
        }
    }

    /// The wait after that many failures in a row; `None` when waiting does not help. `interval` is
    /// what a poll would have waited, `longest` the most that it may.
    pub(super) fn plain(
        &self,
        code: Code,
        failures: u32,
        interval: Duration,
        longest: Duration,
    ) -> Option<Duration> {
        let more = failures.saturating_sub(1);
        let doubled =
            |first, times, most: Duration| grown(first, times, self.base, most.min(self.cap));
        let passes = matches!(
            code.class(),
            Class::Upstream | Class::Forbidden | Class::NotFound | Class::Content
        );
        Some(match (self.backoff, code.class()) {
            // A cap below the interval would make a failure hasten the next try.
            (Backoff::Interval, _) if passes => {
                grown(interval, failures, self.base, self.cap.max(interval))
            }
            (Backoff::None, _) if passes => interval,
            // What may be a mistake of today, on either side, is looked at again.
            (_, Class::Final)
                if matches!(code, Code::Guarded | Code::RedirectLoop | Code::RobotsBlocked) =>
            {
                doubled(HOUR, more, DAY)
            }
            (_, Class::Final) if code == Code::Gone && self.permanent == OnPermanent::Never => DAY,
            (_, Class::Final) => return None,
            // A server that complains is never waited for less than the table says.
            (_, Class::RateLimited) => {
                grown(interval.max(MINUTE), more, self.base.max(2.0), DAY.max(interval))
            }
            // An hour at the most during the first day of an outage, a day afterwards.
            (_, Class::Upstream) if failures <= 24 => doubled(15 * MINUTE, more, HOUR),
            (_, Class::Upstream) => doubled(HOUR, failures - 24, DAY),
            (_, Class::Forbidden | Class::NotFound) => doubled(HOUR, more, DAY),
            (_, Class::Content) => doubled(30 * MINUTE, more, DAY),
            (_, Class::Size | Class::Fine) => grown(interval, failures, self.base, longest),
        })
    }

    /// The same, and whether that was once too often.
    pub(super) fn after(
        &self,
        code: Code,
        failures: u32,
        flapping: bool,
        interval: Duration,
        longest: Duration,
    ) -> Option<Wait> {
        let wait = self.plain(code, failures, interval, longest)?;
        let flapping = flapping && code.class() == Class::Upstream;
        let cooldown = self.limit(code).filter(|(limit, _)| failures >= *limit || flapping);
        let disabled = cooldown.is_some();
        Some(Wait { wait: cooldown.map_or(wait, |(_, cooldown)| wait.max(cooldown)), disabled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waits(code: Code, failures: u32) -> Option<(Duration, bool)> {
        let waits = Waits::default();
        let wait = waits.after(code, failures, false, 15 * MINUTE, DAY);
        wait.map(|wait| (wait.wait, wait.disabled))
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
        for (code, first) in [(Code::RateLimited, 15 * MINUTE), (Code::TooLarge, 30 * MINUTE)] {
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
        let waits = Waits::default();
        let flapping = waits.after(Code::Upstream, 1, true, HOUR, DAY).unwrap();
        assert_eq!(flapping, Wait { wait: 6 * HOUR, disabled: true });
        assert!(!waits.after(Code::RateLimited, 1, true, HOUR, DAY).unwrap().disabled);
    }

    #[test]
    fn waits_can_go_by_the_interval() {
        let by = |backoff, cap| Waits { backoff, cap, ..Waits::default() };
        let wait = |waits: Waits, n| waits.plain(Code::Upstream, n, 15 * MINUTE, DAY).unwrap();
        let grows = by(Backoff::Interval, DAY);
        let waited = [1, 2, 3, 7, 20].map(|failures| wait(grows, failures));
        assert_eq!(waited, [30 * MINUTE, HOUR, 2 * HOUR, DAY, DAY]);
        let capped = by(Backoff::Interval, HOUR);
        assert_eq!([1, 2, 3].map(|failures| wait(capped, failures)), [30 * MINUTE, HOUR, HOUR]);
        assert_eq!(capped.plain(Code::Upstream, 1, DAY, DAY), Some(DAY), "never sooner than usual");
        assert_eq!(wait(by(Backoff::None, DAY), 9), 15 * MINUTE);
        for waits in [grows, by(Backoff::None, DAY)] {
            assert_eq!(waits.plain(Code::RateLimited, 1, HOUR, DAY), Some(HOUR));
            assert_eq!(waits.plain(Code::RateLimited, 1, Duration::ZERO, DAY), Some(MINUTE));
        }
    }

    #[test]
    fn thresholds_can_be_set() {
        let once = Waits { permanent: OnPermanent::AtOnce, threshold: 2, ..Waits::default() };
        let never = Waits { permanent: OnPermanent::Never, ..once };
        let disabled = |waits: Waits, code, failures| {
            waits.after(code, failures, false, HOUR, DAY).map(|wait| wait.disabled)
        };
        for code in [Code::NotFound, Code::Parse] {
            assert_eq!(disabled(once, code, 1), Some(true), "{code}");
            assert_eq!(disabled(never, code, 99), Some(false), "{code}");
        }
        assert_eq!(disabled(once, Code::Timeout, 1), Some(false));
        assert_eq!(disabled(once, Code::Timeout, 2), Some(true));
        assert_eq!(
            (disabled(once, Code::Gone, 1), disabled(never, Code::Gone, 1)),
            (None, Some(false))
        );
    }

    proptest! {
        #[test]
        fn one_more_failure_never_shortens_a_wait(
            code in proptest::sample::select(Code::ALL), failures in 1u32..200,
            interval in 300u64..86_400, base in 1.0..10.0,
            backoff in proptest::sample::select(vec![Backoff::Table, Backoff::Interval, Backoff::None]),
        ) {
            let waits = Waits { backoff, base, ..Waits::default() };
            let at = |n| waits.after(code, n, false, Duration::from_secs(interval), DAY);
            if let (Some(now), Some(next)) = (at(failures), at(failures + 1)) {
                prop_assert!(next.wait >= now.wait);
                prop_assert!(next.disabled >= now.disabled);
            }
        }
    }
}
