//! When a publisher publishes: a deterministic, Poisson-like process with random access.
//!
//! Time is cut into blocks that hold [`BLOCK`] stories each, at random places. So a story's time
//! follows from its number alone, bursts are bounded, and nothing has to be stored. A day profile
//! stretches the nights by mapping "work time" to clock time. Never reads a clock.

use crate::rng::{Purpose, Rng};

const BLOCK: i64 = 4;
const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// Work done per UTC hour, in thousandths of the mean; both profiles add up to a full day.
const EVEN: [i64; 24] = [1_000; 24];
const OFFICE: [i64; 24] = [
    200, 200, 200, 200, 200, 200, 1_000, 1_000, 1_000, 1_600, 1_600, 1_600, 1_600, 1_600, 1_600,
    1_600, 1_600, 1_600, 1_100, 1_100, 1_100, 1_100, 500, 500,
];

/// The publishing times of one publisher. Story 0 is the first one at or after `starts_at`;
/// history has negative numbers.
#[derive(Debug, Clone)]
pub(crate) struct Rhythm {
    key: u64,
    starts_at: i64,
    block_ms: i64,
    profile: [i64; 24],
}

impl Rhythm {
    pub(crate) fn new(key: u64, starts_at: i64, per_hour: f64, office_hours: bool) -> Self {
        let block_ms = (BLOCK * HOUR) as f64 / per_hour.max(1e-3);
        Self {
            key,
            starts_at: starts_at.div_euclid(SECOND) * SECOND,
            block_ms: (block_ms as i64).max(BLOCK * SECOND),
            profile: if office_hours { OFFICE } else { EVEN },
        }
    }

    /// Whole seconds, because that is all a feed's date can say.
    pub(crate) fn published_at(&self, number: i64) -> i64 {
        let block = number.div_euclid(BLOCK);
        let mut rng = Rng::of(Purpose::Rhythm, &[self.key, block as u64]);
        let mut offsets: [i64; BLOCK as usize] =
            std::array::from_fn(|_| (rng.share() * self.block_ms as f64) as i64);
        offsets.sort_unstable();
        let offset = offsets.get(number.rem_euclid(BLOCK) as usize).copied().unwrap_or_default();
        let worked = self.work_at(self.starts_at) + block * self.block_ms + offset;
        let at = self.clock_at(worked);
        (at + SECOND - 1).div_euclid(SECOND) * SECOND
    }

    /// The number of the first story after `at`.
    pub(crate) fn next_after(&self, at: i64) -> i64 {
        let worked = self.work_at(at) - self.work_at(self.starts_at);
        let mut number = (worked.div_euclid(self.block_ms) - 2) * BLOCK;
        while self.published_at(number) <= at {
            number += 1;
        }
        number
    }

    /// No half hour ever holds more stories than this.
    pub(crate) fn most_in_half_an_hour(&self) -> usize {
        let busiest = self.profile.iter().copied().max().unwrap_or_default();
        let worked = (HOUR / 2 + SECOND) * busiest / 1_000;
        (BLOCK * (worked / self.block_ms + 2)) as usize
    }

    fn work_at(&self, at: i64) -> i64 {
        let (day, within) = (at.div_euclid(DAY), at.rem_euclid(DAY));
        let hour = (within / HOUR) as usize;
        let before: i64 = self.profile.iter().take(hour).map(|weight| weight * 3_600).sum();
        let weight = self.profile.get(hour).copied().unwrap_or_default();
        day * DAY + before + weight * (within % HOUR) / 1_000
    }

    fn clock_at(&self, worked: i64) -> i64 {
        let mut left = worked.rem_euclid(DAY);
        let mut at = worked.div_euclid(DAY) * DAY;
        for weight in self.profile {
            if left < weight * 3_600 {
                return at + left * 1_000 / weight;
            }
            left -= weight * 3_600;
            at += HOUR;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: i64 = 1_772_000_000_000;

    proptest! {
        #[test]
        fn numbers_and_times_agree(key: u64, rate in 0.01..500.0, office: bool, number in -500_i64..500) {
            let rhythm = Rhythm::new(key, START, rate, office);
            let at = rhythm.published_at(number);
            prop_assert!(rhythm.published_at(number + 1) >= at);
            prop_assert!(rhythm.next_after(at) > number);
            prop_assert!(rhythm.next_after(at - 1) <= number);
            prop_assert_eq!(number >= 0, at > START || (at == START && number >= 0));
        }

        #[test]
        fn bursts_stay_below_their_bound(key: u64, rate in 0.1..200.0, office: bool, offset in 0..DAY) {
            let rhythm = Rhythm::new(key, START, rate, office);
            let published = rhythm.next_after(START + offset + HOUR / 2) - rhythm.next_after(START + offset);
            prop_assert!(published as usize <= rhythm.most_in_half_an_hour());
        }
    }

    #[test]
    fn the_mean_rate_is_kept_over_days_with_a_profile() {
        for office in [true, false] {
            let rhythm = Rhythm::new(7, START, 3.0, office);
            let stories = rhythm.next_after(START + 10 * DAY) - rhythm.next_after(START);
            assert!((710..=730).contains(&stories), "{stories}");
        }
    }
}
