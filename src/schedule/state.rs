//! What is remembered of a feed between two polls: at most 96 bytes, whatever the policy.
//!
//! Times are whole Unix seconds. Nothing here decides anything.

use std::time::Duration;

use super::mix;
use super::value::DAY;

/// Outcomes that flapping is counted over.
const REMEMBERED: u32 = 50;
/// The bits of them; the others count 429s.
const OUTCOMES: u64 = (1 << REMEMBERED) - 1;
/// The form that states are written down in.
const FORM: u8 = 1;
/// Length of a state written down.
const WRITTEN: usize = 97;

/// How often something fell into each of `N` bins. A count stands for `2^unit` items, so that a
/// byte holds years of a busy feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts<const N: usize> {
    unit: u8,
    bins: [u8; N],
}

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        Self { unit: 0, bins: [0; N] }
    }
}

impl<const N: usize> Counts<N> {
    /// Counts one item; `coin` decides for those of which only each `2^unit`th is counted.
    pub(super) fn add(&mut self, bin: usize, coin: u64) {
        if coin & ((1u64 << self.unit.min(63)) - 1) != 0 {
            return;
        }
        if let Some(count) = self.bins.get_mut(bin) {
            *count = count.saturating_add(1);
            if *count == u8::MAX {
                self.halve();
                self.unit = self.unit.saturating_add(1);
            }
        }
    }

    /// Makes everything counted so far weigh half.
    pub(super) fn age(&mut self) {
        match self.unit.checked_sub(1) {
            Some(unit) => self.unit = unit,
            None => self.halve(),
        }
    }

    fn halve(&mut self) {
        // Rounded up: what happened once is not forgotten.
        for count in &mut self.bins {
            *count = count.div_ceil(2);
        }
    }

    /// Items by bin.
    pub(super) fn weights(&self) -> impl Iterator<Item = f32> + '_ {
        let unit = f32::from(self.unit).exp2();
        self.bins.iter().map(move |count| f32::from(*count) * unit)
    }
}

/// What is remembered of a feed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Failures among the last polls, one bit each, the latest lowest; above them the number of 429s
    /// that the learned interval comes from.
    pub(super) misses: u64,
    /// When a poll last succeeded; 0 before the first.
    pub last_ok: u32,
    /// When the newest item was published.
    pub last_item: u32,
    /// The interval chosen last, in seconds.
    pub interval: u32,
    /// Hours (bits 0 to 23) and days from Monday (24 to 30) that the publisher asks to leave out.
    pub skip: u32,
    /// Items, those of 30 days ago counting half.
    pub n: f32,
    /// Days watched, counted alike, weighed by what its rhythm lets expect of them.
    pub e: f32,
    /// How much more than chance the number of items varies.
    pub fano: f32,
    /// Smoothed seconds between two items; 0 when unknown.
    pub ewma: f32,
    /// Seconds between polls that 429 responses taught; it fades with good answers.
    pub floor: f32,
    /// Items in the document.
    pub window: u16,
    /// Minutes that the publisher asks to leave between polls.
    pub ttl: u16,
    /// A hub tells us of news.
    pub pushed: bool,
    /// Failed too often: it is only probed.
    pub disabled: bool,
    /// Items by hour of the day.
    pub hours: Counts<24>,
    /// Items by day of the week, from Monday.
    pub days: Counts<7>,
    /// Items by five minutes of the hour.
    pub minutes: Counts<12>,
}

const _: () = assert!(size_of::<State>() <= 96, "a state takes at most 96 bytes");

impl Default for State {
    fn default() -> Self {
        Self {
            misses: 0,
            last_ok: 0,
            last_item: 0,
            interval: 0,
            skip: 0,
            n: 0.0,
            e: 0.0,
            fano: 1.0,
            ewma: 0.0,
            floor: 0.0,
            window: 0,
            ttl: 0,
            pushed: false,
            disabled: false,
            hours: Counts::default(),
            days: Counts::default(),
            minutes: Counts::default(),
        }
    }
}

impl State {
    /// Notes how a poll ended.
    pub(super) const fn note(&mut self, failed: bool) {
        let outcomes = (self.misses << 1 | failed as u64) & OUTCOMES;
        self.misses = self.misses & !OUTCOMES | outcomes;
    }

    /// Failures since the last success, as far as they are remembered.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        (self.misses & OUTCOMES).trailing_ones()
    }

    /// How many 429s the learned interval comes from, as far as they are counted.
    pub(super) const fn complaints(&self) -> u32 {
        (self.misses >> REMEMBERED) as u32
    }

    /// Sets that number.
    pub(super) const fn set_complaints(&mut self, count: u32) {
        let count = if count > 100 { 100 } else { count };
        self.misses = self.misses & OUTCOMES | (count as u64) << REMEMBERED;
    }

    /// Whether more than half of the last 50 polls failed.
    #[must_use]
    pub const fn flaps(&self) -> bool {
        (self.misses & OUTCOMES).count_ones() * 2 > REMEMBERED
    }

    /// Items a day, as far as is known.
    #[must_use]
    pub fn rate(&self) -> f64 {
        super::value::rate(self)
    }

    /// The same with a fresh start, on somebody's word.
    #[must_use]
    pub const fn forgiven(mut self) -> Self {
        self.forgive();
        self.without_learned_interval()
    }

    /// The interval that 429 responses taught, when there is one.
    #[must_use]
    pub fn learned_interval(&self) -> Option<Duration> {
        (self.floor >= 1.0).then(|| Duration::from_secs(self.floor.ceil() as u64))
    }

    /// The same without what 429 responses taught.
    #[must_use]
    pub const fn without_learned_interval(mut self) -> Self {
        self.floor = 0.0;
        self.set_complaints(0);
        self
    }

    /// A fresh start, after a probe went well.
    pub(super) const fn forgive(&mut self) {
        self.misses &= !OUTCOMES;
        self.disabled = false;
    }

    /// Counts an item of that time for the rhythms of which `watched` seconds show a whole turn: two
    /// days of items say nothing about the other five of the week.
    pub(super) fn beat(&mut self, time: u32, salt: u64, watched: u32) {
        let (hour, day) = hour_and_day(time);
        let coin = mix(salt, u64::from(time));
        if watched >= DAY {
            self.hours.add(hour, coin);
        }
        if watched >= 7 * DAY {
            self.days.add(day, coin.rotate_left(20));
        }
        if watched >= DAY / 24 {
            self.minutes.add(time as usize % 3600 / 300, coin.rotate_left(40));
        }
    }

    /// The state as it is kept with the feed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(WRITTEN);
        out.push(FORM);
        out.extend(self.misses.to_le_bytes());
        for word in [self.last_ok, self.last_item, self.interval, self.skip] {
            out.extend(word.to_le_bytes());
        }
        for real in [self.n, self.e, self.fano, self.ewma, self.floor] {
            out.extend(real.to_le_bytes());
        }
        out.extend(self.window.to_le_bytes());
        out.extend(self.ttl.to_le_bytes());
        out.push(u8::from(self.pushed) | u8::from(self.disabled) << 1);
        out.extend([self.hours.unit, self.days.unit, self.minutes.unit]);
        out.extend(self.hours.bins);
        out.extend(self.days.bins);
        out.extend(self.minutes.bins);
        out
    }

    /// Reads what [`Self::to_bytes`] wrote; `None` when it is of another form.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut read = Reader(bytes);
        if read.array::<1>()? != [FORM] {
            return None;
        }
        let state = Self {
            misses: u64::from_le_bytes(read.array()?),
            last_ok: u32::from_le_bytes(read.array()?),
            last_item: u32::from_le_bytes(read.array()?),
            interval: u32::from_le_bytes(read.array()?),
            skip: u32::from_le_bytes(read.array()?),
            n: read.real()?,
            e: read.real()?,
            fano: read.real()?,
            ewma: read.real()?,
            floor: read.real()?,
            window: u16::from_le_bytes(read.array()?),
            ttl: u16::from_le_bytes(read.array()?),
            ..Self::default()
        };
        let [flags] = read.array()?;
        let [hours, days, minutes] = read.array()?;
        let state = Self {
            pushed: flags & 1 != 0,
            disabled: flags & 2 != 0,
            hours: Counts { unit: hours, bins: read.array()? },
            days: Counts { unit: days, bins: read.array()? },
            minutes: Counts { unit: minutes, bins: read.array()? },
            ..state
        };
        read.0.is_empty().then_some(state)
    }
}

/// Hour of the day and day of the week, from Monday, in UTC.
pub(super) const fn hour_and_day(time: u32) -> (usize, usize) {
    // The epoch was a Thursday.
    (time as usize % 86_400 / 3600, (time as usize / 86_400 + 3) % 7)
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn real(&mut self) -> Option<f32> {
        Some(f32::from_le_bytes(self.array()?)).filter(|real| real.is_finite() && *real >= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_busy_feed_keeps_its_shares() {
        let mut counts = Counts::<7>::default();
        for item in 0..200_000u64 {
            let bin = if item % 10 < 7 { 2 } else { 5 };
            counts.add(bin, mix(7, item));
        }
        let weights: Vec<f32> = counts.weights().collect();
        let total: f32 = weights.iter().sum();
        assert!((total / 200_000.0 - 1.0).abs() < 0.15, "{weights:?}");
        assert!((weights[2] / total - 0.7).abs() < 0.07, "{weights:?}");
    }

    #[test]
    fn failures_are_counted_and_flapping_is_seen() {
        let mut state = State::default();
        for poll in 0..50 {
            state.note(poll % 2 == 0 || poll < 4);
        }
        assert_eq!(state.failures(), 0);
        assert!(state.flaps());
        state.note(true);
        state.note(true);
        assert_eq!(state.failures(), 2);
        state.forgive();
        assert!(!state.flaps());
    }

    #[test]
    fn the_epoch_was_a_thursday() {
        assert_eq!(hour_and_day(0), (0, 3));
        assert_eq!(hour_and_day(4 * 86_400 + 3600 * 13), (13, 0));
    }

    proptest! {
        #[test]
        fn a_state_survives_being_written_down(
            beats in proptest::collection::vec(any::<u32>(), 0..2000),
            (n, floor) in (0.0f32..1e6, 0.0f32..1e6),
            (window, ttl, skip, failed) in (any::<u16>(), any::<u16>(), any::<u32>(), any::<bool>()),
        ) {
            let mut state = State { n, floor, window, ttl, skip, ..State::default() };
            for time in beats {
                state.beat(time, 3, u32::MAX);
            }
            state.note(failed);
            let written = state.to_bytes();
            prop_assert!(written.len() <= WRITTEN);
            prop_assert_eq!(State::from_bytes(&written), Some(state));
        }

        #[test]
        fn foreign_bytes_are_no_state_and_do_no_harm(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
        ) {
            if let Some(state) = State::from_bytes(&bytes) {
                prop_assert!(state.n.is_finite() && state.floor.is_finite());
            }
        }
    }
}
