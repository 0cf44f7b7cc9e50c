//! The rhythm of a feed, and what it lets expect between two instants.
//!
//! A feed's own counts are completed by the rhythms that publishers share. The expected number of
//! items and its first two moments between any two instants come from sums over whole hours and a
//! small table for the minutes.

use std::sync::LazyLock;

use super::state::{State, hour_and_day};
use super::templates::{MINUTES, TEMPLATES, Template};

/// Items of its own that weigh as much as what is believed beforehand.
const KAPPA: f32 = 10.0;
pub(super) const HOUR: u32 = 3600;
/// Seconds in a bin of the hour.
pub(super) const BIN: u32 = 300;
/// Hour edges that an outlook reaches over: twice a week, and the ends.
const EDGES: usize = 2 * 168 + 4;

/// Logarithms of the shared rhythms.
static LOGS: LazyLock<Vec<Template>> = LazyLock::new(|| {
    let ln = |share: f32| share.max(1e-5).ln();
    let logs = |t: &Template| Template {
        weight: ln(t.weight),
        hours: t.hours.map(ln),
        days: t.days.map(ln),
    };
    TEMPLATES.iter().map(logs).collect()
});

/// Expected items and their first two moments about an origin, for a rate of one item a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moments {
    m0: f64,
    m1: f64,
    m2: f64,
}

impl Moments {
    fn plus(self, other: Self) -> Self {
        Self { m0: self.m0 + other.m0, m1: self.m1 + other.m1, m2: self.m2 + other.m2 }
    }

    fn minus(self, other: Self) -> Self {
        self.plus(other.times(-1.0))
    }

    fn times(self, factor: f64) -> Self {
        Self { m0: self.m0 * factor, m1: self.m1 * factor, m2: self.m2 * factor }
    }

    /// The same mass seen from an origin that lies `by` earlier.
    fn shifted(self, by: f64) -> Self {
        Self {
            m0: self.m0,
            m1: self.m1 + by * self.m0,
            m2: self.m2 + by * (2.0 * self.m1 + by * self.m0),
        }
    }
}

/// How much more than on average is published at each time of the week.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    hours: [f32; 24],
    days: [f32; 7],
    /// By five minutes.
    minutes: [f64; 12],
    /// Moments from the start of an hour to each bin's edge.
    table: [Moments; 13],
}

impl Profile {
    pub(super) fn of(state: &State) -> Self {
        let (hours, days) = shared(state);
        let minutes = completed(state.minutes.weights(), &MINUTES).map(f64::from);
        let mut table = [Moments::default(); 13];
        let mut sum = Moments::default();
        for ((to, density), bin) in table.iter_mut().skip(1).zip(minutes).zip(0u32..) {
            let (from, until) = (f64::from(bin * BIN), f64::from((bin + 1) * BIN));
            sum = sum.plus(block(from, until).times(density));
            *to = sum;
        }
        Self {
            hours: completed(state.hours.weights(), &hours),
            days: completed(state.days.weights(), &days),
            minutes,
            table,
        }
    }

    /// The factor of the hour that holds this instant.
    pub(super) fn hourly(&self, time: u32) -> f64 {
        let (hour, day) = hour_and_day(time);
        f64::from(get(&self.hours, hour) * get(&self.days, day))
    }

    /// Moments from the start of an hour to an offset within it, for a factor of one.
    fn within(&self, offset: u32) -> Moments {
        let bin = (offset / BIN) as usize;
        let base = self.table.get(bin).copied().unwrap_or_default();
        let Some(density) = self.minutes.get(bin) else { return base };
        base.plus(block(f64::from(offset / BIN * BIN), f64::from(offset)).times(*density))
    }

    /// Mass between two instants, as a share of what an even rhythm would bring.
    pub(super) fn mean(&self, from: u32, until: u32) -> f64 {
        // Whole weeks bring what an even rhythm brings, or nearly so.
        if until.saturating_sub(from) > 14 * 86_400 {
            return 1.0;
        }
        let span = f64::from(until.saturating_sub(from));
        if span <= 0.0 {
            return self.hourly(from);
        }
        Outlook::new(self, from).mass(until) / span
    }
}

/// A block of density one between two offsets.
fn block(from: f64, until: f64) -> Moments {
    let (a2, b2) = (from * from, until * until);
    Moments { m0: until - from, m1: (b2 - a2) / 2.0, m2: (b2 * until - a2 * from) / 3.0 }
}

fn get(table: &[f32], index: usize) -> f32 {
    table.get(index).copied().unwrap_or(1.0)
}

/// A feed's own counts with `KAPPA` items of what was believed before, as factors around one.
fn completed<const N: usize>(own: impl Iterator<Item = f32>, prior: &[f32; N]) -> [f32; N] {
    let mut factors = [0.0; N];
    for (to, own) in factors.iter_mut().zip(own) {
        *to = own;
    }
    let total: f32 = factors.iter().sum::<f32>() + KAPPA;
    for (to, prior) in factors.iter_mut().zip(prior) {
        *to = (*to + KAPPA * prior) / total * N as f32;
    }
    factors
}

/// The shared rhythms, each as far as the feed's own counts speak for it.
fn shared(state: &State) -> ([f32; 24], [f32; 7]) {
    let mut logs = [0.0f32; 16];
    for (log, Template { weight, hours, days }) in logs.iter_mut().zip(LOGS.iter()) {
        let fit = |own: f32, ln: &f32| if own > 0.0 { own * ln } else { 0.0 };
        let by_hour: f32 = state.hours.weights().zip(hours).map(|(own, ln)| fit(own, ln)).sum();
        let by_day: f32 = state.days.weights().zip(days).map(|(own, ln)| fit(own, ln)).sum();
        *log = weight + by_hour + by_day;
    }
    let best = logs.iter().copied().fold(f32::MIN, f32::max);
    let (mut hours, mut days, mut total) = ([0.0; 24], [0.0; 7], 0.0);
    for (template, log) in TEMPLATES.iter().zip(logs) {
        let weight = (log - best).exp();
        if weight < 1e-6 {
            continue;
        }
        total += weight;
        for (to, share) in hours.iter_mut().zip(template.hours) {
            *to += weight * share;
        }
        for (to, share) in days.iter_mut().zip(template.days) {
            *to += weight * share;
        }
    }
    (hours.map(|share| share / total), days.map(|share| share / total))
}

/// What a rhythm lets expect from one instant on, for a rate of one item a second on average.
#[derive(Debug)]
pub(super) struct Outlook<'p> {
    profile: &'p Profile,
    start: u32,
    /// Moments about `start` from there to each following hour edge.
    edges: [Moments; EDGES],
    known: usize,
}

impl<'p> Outlook<'p> {
    pub(super) fn new(profile: &'p Profile, start: u32) -> Self {
        let mut edges = [Moments::default(); EDGES];
        // The first edge is the start of the hour that holds `start`: what lies before counts
        // negative there, and cancels out.
        let offset = start % HOUR;
        let before = profile.within(offset).shifted(-f64::from(offset));
        if let Some(first) = edges.first_mut() {
            *first = before.times(-profile.hourly(start));
        }
        Self { profile, start, edges, known: 1 }
    }

    /// The last instant that it reaches to.
    pub(super) fn end(&self) -> u32 {
        (self.start / HOUR).saturating_add(EDGES as u32 - 2).saturating_mul(HOUR)
    }

    fn edge(&mut self, index: usize) -> Moments {
        let first = self.start / HOUR;
        while self.known <= index && self.known < EDGES {
            let hour = (first + self.known as u32 - 1).saturating_mul(HOUR);
            let factor = self.profile.hourly(hour);
            let by = f64::from(hour) - f64::from(self.start);
            let whole = self.profile.within(HOUR).shifted(by).times(factor);
            let last = self.edges.get(self.known - 1).copied().unwrap_or_default();
            if let Some(next) = self.edges.get_mut(self.known) {
                *next = last.plus(whole);
            }
            self.known += 1;
        }
        self.edges.get(index.min(EDGES - 1)).copied().unwrap_or_default()
    }

    /// Moments from the start to `time`.
    fn until(&mut self, time: u32) -> Moments {
        let time = time.clamp(self.start, self.end().max(self.start));
        let index = (time / HOUR - self.start / HOUR) as usize;
        let edge = self.edge(index);
        let hour = time / HOUR * HOUR;
        if hour == time {
            return edge;
        }
        let by = f64::from(hour) - f64::from(self.start);
        edge.plus(self.profile.within(time - hour).shifted(by).times(self.profile.hourly(hour)))
    }

    /// Expected items until `time`.
    pub(super) fn mass(&mut self, time: u32) -> f64 {
        self.until(time).m0
    }

    /// What items between two instants have piled up at the second one: their number, the sum of
    /// their delays and the sum of the delays' squares.
    pub(super) fn piled(&mut self, from: u32, until: u32) -> (f64, f64, f64) {
        let Moments { m0, m1, m2 } = self.until(until).minus(self.until(from));
        let end = f64::from(until) - f64::from(self.start);
        (m0, (end * m0 - m1).max(0.0), (end * (end * m0 - 2.0 * m1) + m2).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rhythmic(times: &[u32]) -> Profile {
        let mut state = State::default();
        for time in times {
            state.beat(*time, 1, u32::MAX);
        }
        Profile::of(&state)
    }

    /// The same by brute force, in cells of ten seconds.
    fn slow(profile: &Profile, from: u32, until: u32) -> (f64, f64, f64) {
        let (mut a0, mut a1, mut a2) = (0.0, 0.0, 0.0);
        for time in (from..until).step_by(10) {
            let bin = time as usize % 3600 / 300;
            let mass = 10.0 * profile.hourly(time) * profile.minutes[bin];
            let delay = f64::from(until - time) - 5.0;
            a0 += mass;
            a1 += mass * delay;
            // A cell's mass is spread over it: it adds its own variance.
            a2 += mass * (delay * delay + 100.0 / 12.0);
        }
        (a0, a1, a2)
    }

    fn pairs(a: (f64, f64, f64), b: (f64, f64, f64)) -> [(f64, f64); 3] {
        [(a.0, b.0), (a.1, b.1), (a.2, b.2)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn sums_over_hours_equal_the_integral(
            times in proptest::collection::vec(1_700_000_000u32..1_710_000_000, 0..50),
            start in 1_710_000_000u32..1_710_700_000,
            (a, b) in (0u32..20_000, 0u32..20_000),
        ) {
            let profile = rhythmic(&times);
            let start = start / 10 * 10;
            let (from, until) = (start + a.min(b) * 10, start + a.max(b) * 10);
            let fast = Outlook::new(&profile, start).piled(from, until);
            let slow = slow(&profile, from, until);
            // Moments about a start that lies days back are differences of large numbers.
            let rounding = [1e-6, 1e-3, 100.0];
            for ((fast, slow), rounding) in pairs(fast, slow).into_iter().zip(rounding) {
                prop_assert!((fast - slow).abs() <= 1e-6 * slow + rounding, "{fast} {slow}");
            }
        }

        #[test]
        fn a_rhythm_brings_its_rate_over_a_week(
            times in proptest::collection::vec(1_700_000_000u32..1_710_000_000, 0..50),
            start in 1_710_000_000u32..1_710_700_000,
        ) {
            let mean = rhythmic(&times).mean(start, start + 7 * 86_400);
            prop_assert!((mean - 1.0).abs() < 0.01, "{mean}");
        }
    }

    #[test]
    fn a_feed_of_its_own_rhythm_is_believed() {
        // Every Monday at 09:02.
        let mondays: Vec<u32> = (0..52).map(|week| 1_704_099_720 + week * 7 * 86_400).collect();
        let profile = rhythmic(&mondays);
        let monday = 1_704_099_720 + 52 * 7 * 86_400;
        assert!(profile.hourly(monday) > 20.0 * profile.hourly(monday + 10 * 3600));
        assert!(profile.hourly(monday) > 20.0 * profile.hourly(monday + 3 * 86_400));
    }
}
