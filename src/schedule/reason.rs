//! Why a poll comes when it comes, in one line for people.

use std::fmt;
use std::time::Duration;

use super::state::hour_and_day;
use super::value::Plan;

/// What a policy went by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Grounds {
    /// An interval that somebody set.
    Fixed(&'static str),
    /// News or none, and the smoothed seconds between items.
    Ewma { why: &'static str, smoothed: f32 },
    /// Rate, rhythm and price.
    Value { plan: Plan, n: f32, price: f64 },
}

/// A decision told in one line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reason<'a> {
    /// Seconds until the poll.
    pub(super) wait: u32,
    /// The interval that was chosen before.
    pub(super) before: Option<u32>,
    /// When it comes.
    pub(super) at: u32,
    pub(super) grounds: &'a Grounds,
    /// What made it come later, or sooner, than the policy wanted.
    pub(super) bound: &'static str,
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = |seconds: u32| human(Duration::from_secs(u64::from(seconds)));
        write!(f, "poll in {}", span(self.wait))?;
        if let Some(before) = self.before {
            write!(f, " (before: {})", span(before))?;
        }
        let mut alternative = None;
        match self.grounds {
            Grounds::Fixed(from) => write!(f, ": {from}")?,
            Grounds::Ewma { why, smoothed } => {
                write!(f, ": {why}")?;
                if *smoothed > 0.0 {
                    write!(f, ", items every {}", span(*smoothed as u32))?;
                }
            }
            Grounds::Value { plan, n, price } => {
                let (hour, day) = hour_and_day(self.at);
                let day = DAYS.get(day).copied().unwrap_or_default();
                write!(f, ": rate {}/d (n={n:.0}, 30d)", short(plan.rate))?;
                write!(f, ", profile x{:.1} {day} {hour:02}h", plan.factor)?;
                write!(f, ", expect {:.2} items, price {price:.1e}", plan.expected)?;
                alternative = Some(plan.alternative);
            }
        }
        write!(f, "; bound={}", self.bound)?;
        alternative.map_or(Ok(()), |alternative| write!(f, "; alt {}", span(alternative)))
    }
}

/// A rate with as many digits as it deserves.
fn short(rate: f64) -> String {
    if rate < 1.0 { format!("{rate:.2}") } else { format!("{rate:.1}") }
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

    #[test]
    fn spans_read_like_people_say_them() {
        for (s, text) in
            [(45, "45s"), (900, "15m"), (75, "1m15s"), (11_100, "3h05m"), (172_800, "2d")]
        {
            assert_eq!(human(Duration::from_secs(s)), text);
        }
    }

    #[test]
    fn a_reason_names_everything_that_it_went_by() {
        let plan = Plan {
            interval: 2820,
            alternative: 3120,
            rate: 6.24,
            factor: 2.13,
            expected: 0.2,
            guarded: false,
            edge: "none",
        };
        let grounds = Grounds::Value { plan, n: 31.0, price: 50_000.0 };
        // A Tuesday.
        let at = 1_704_204_000;
        let told = Reason { wait: 2820, before: Some(3600), at, grounds: &grounds, bound: "none" };
        assert_eq!(
            told.to_string(),
            "poll in 47m (before: 1h): rate 6.2/d (n=31, 30d), profile x2.1 Tue 14h, \
             expect 0.20 items, price 5.0e4; bound=none; alt 52m"
        );
    }
}
