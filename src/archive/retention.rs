//! Which segments go: those that are old, and the oldest when all of them are too much. Pure.
//!
//! Segments go whole. What is still needed of one that is old is the caller's to copy first.

use std::time::Duration;

use serde::Serialize;

use crate::model::Ts;

/// A closed segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its name.
    pub segment: String,
    /// Its size.
    pub bytes: u64,
    /// When it was begun, or when the last answer came that stands in it.
    pub newest: Ts,
}

/// What is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes are kept this long; zero for ever.
    pub age: Duration,
    /// All segments together are not larger; zero for any size.
    pub size: u64,
}

/// Why a segment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// It is old: what is still needed of it is copied first.
    Age,
    /// There is too much: nothing of it is kept.
    Size,
}

/// A segment that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Doomed {
    /// Its name.
    pub segment: String,
    /// Its size.
    pub bytes: u64,
    /// Why.
    pub why: Why,
}

/// The segments that go, oldest first.
#[must_use]
pub fn plan(mut held: Vec<Held>, limits: Limits, now: Ts) -> Vec<Doomed> {
    held.sort_unstable_by(|a, b| (a.newest, &a.segment).cmp(&(b.newest, &b.segment)));
    let mut total: u64 = held.iter().map(|segment| segment.bytes).sum();
    let mut doomed = Vec::new();
    for Held { segment, bytes, newest } in held {
        let is_old = !limits.age.is_zero() && newest.after(limits.age) <= now;
        let is_too_much = limits.size > 0 && total > limits.size;
        let why = match (is_too_much, is_old) {
            (true, _) => Why::Size,
            (false, true) => Why::Age,
            (false, false) => continue,
        };
        total = total.saturating_sub(bytes);
        doomed.push(Doomed { segment, bytes, why });
    }
    doomed
}

/// When a segment was begun, as its name says.
#[must_use]
pub fn begun(segment: &str) -> Option<Ts> {
    let stamp = segment.strip_prefix("feedmill-")?.split('-').next()?;
    let part = |from: usize, to: usize| stamp.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: Duration = Duration::from_hours(24);
    const NOW: Ts = Ts::from_ms(1_800_000_000_000);

    fn held(days: &[u32]) -> Vec<Held> {
        let segment = |(n, days): (usize, &u32)| Held {
            segment: format!("s{n}"),
            bytes: 10,
            newest: NOW.before(DAY * *days),
        };
        days.iter().enumerate().map(segment).collect()
    }

    fn gone(days: &[u32], age: u32, size: u64) -> Vec<(String, Why)> {
        let limits = Limits { age: DAY * age, size };
        plan(held(days), limits, NOW).into_iter().map(|gone| (gone.segment, gone.why)).collect()
    }

    #[test]
    fn old_segments_go_and_the_oldest_when_there_is_too_much() {
        let is = |names: &[(&str, Why)]| -> Vec<(String, Why)> {
            names.iter().map(|(name, why)| ((*name).to_owned(), *why)).collect()
        };
        assert_eq!(gone(&[40, 31, 29, 0], 30, 0), is(&[("s0", Why::Age), ("s1", Why::Age)]));
        assert_eq!(gone(&[30], 30, 0), is(&[("s0", Why::Age)]));
        assert_eq!(gone(&[40, 31], 0, 0), is(&[]));
        assert_eq!(gone(&[1, 3, 2], 30, 20), is(&[("s1", Why::Size)]));
        assert_eq!(gone(&[40, 3, 2], 30, 20), is(&[("s0", Why::Size)]));
        assert_eq!(gone(&[40, 3], 30, 20), is(&[("s0", Why::Age)]));
        assert_eq!(gone(&[1, 2], 30, 5), is(&[("s1", Why::Size), ("s0", Why::Size)]));
    }

    #[test]
    fn a_name_says_when_a_segment_was_begun() {
        let name = "feedmill-20270115080000-0192.warc.gz";
        assert_eq!(begun(name).unwrap().to_string(), "2027-01-15T08:00:00Z");
        for other in ["feedmill-2027-x.warc.gz", "other.warc.gz", "feedmill-2027é11508000-x", ""] {
            assert_eq!(begun(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_stays_is_within_the_limits_and_nothing_goes_for_nothing(
            days in prop::collection::vec(0_u32..60, 0..20), age in 0_u32..50, size in 0_u64..150,
        ) {
            let gone = gone(&days, age, size);
            let left: Vec<u32> = (0..days.len())
                .filter(|n| !gone.iter().any(|(name, _)| *name == format!("s{n}")))
                .map(|n| days[n])
                .collect();
            prop_assert!(age == 0 || left.iter().all(|days| *days < age));
            prop_assert!(size == 0 || left.len() as u64 * 10 <= size);
            // The last that went was old, or one too many.
            if let Some((name, why)) = gone.last() {
                let days = days[name.trim_start_matches('s').parse::<usize>().unwrap()];
                let too_many = size > 0 && (left.len() as u64 + 1) * 10 > size;
                let is_old = age > 0 && days >= age;
                prop_assert!((*why == Why::Size && too_many) || (*why == Why::Age && is_old));
            }
        }
    }
}
