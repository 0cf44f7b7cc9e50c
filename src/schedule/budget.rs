//! The price of a request, solved so that all feeds together are polled as often as the budget
//! says.
//!
//! The price is one number for the whole house, recomputed about every hour from the feeds' rates
//! and from how many polls were really made. Nothing here knows a single feed.

use super::value::{Bounds, DAY};

/// Buckets of rates, on a scale of logarithms.
const BUCKETS: usize = 96;
/// The slowest and the fastest rate that are told apart, in items a day.
const SLOWEST: f64 = 0.005;
const FASTEST: f64 = 10_000.0;
/// How much of a deviation is corrected in an hour.
const GAIN: f64 = 0.02;
/// Polls are taken to follow the price at least this much: as its power.
const STIFFEST: f64 = 0.1;
/// The most that is corrected, as a power of e.
const MOST: f64 = 3.0;
/// The highest price to look for, in item-seconds.
const DEAREST: f64 = 1e12;

/// The price before anything is known, in item-seconds.
pub const FIRST_PRICE: f64 = 2000.0;

/// How many feeds have which rate.
#[derive(Clone, Debug)]
pub struct Rates {
    counts: [u32; BUCKETS],
    /// Polls a day that are made whatever the price: fixed intervals, slow checks.
    fixed: f64,
}

impl Default for Rates {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], fixed: 0.0 }
    }
}

impl Rates {
    /// The bucket of a rate in items a day.
    #[must_use]
    pub fn bucket(rate: f64) -> u8 {
        let place = (rate.max(SLOWEST) / SLOWEST).ln() / (FASTEST / SLOWEST).ln();
        (place * (BUCKETS - 1) as f64).round().min((BUCKETS - 1) as f64) as u8
    }

    /// Feeds of a bucket, whose polls follow the price.
    pub fn add(&mut self, bucket: u8, feeds: u32) {
        if let Some(count) = self.counts.get_mut(usize::from(bucket)) {
            *count = count.saturating_add(feeds);
        }
    }

    /// Polls a day that are made whatever the price.
    pub fn add_fixed(&mut self, polls: f64) {
        self.fixed += polls;
    }

    /// Whether nobody's polls follow the price.
    fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    /// Polls a day at a price.
    fn polls(&self, price: f64, bounds: Bounds) -> f64 {
        let each = |(bucket, count): (usize, &u32)| {
            let place = bucket as f64 / (BUCKETS - 1) as f64;
            let rate = SLOWEST * (FASTEST / SLOWEST).powf(place);
            f64::from(*count) * f64::from(DAY) / interval(price, rate, bounds)
        };
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        self.fixed + used.map(each).sum::<f64>()
    }
}

/// The interval of a feed with an even rhythm: the instant at which what piled up is worth the
/// price. It grows with the price, so bisection on its logarithm finds it.
fn interval(price: f64, rate: f64, bounds: Bounds) -> f64 {
    let (min, max) = (f64::from(bounds.min), f64::from(bounds.max.max(bounds.min)));
    let rate = rate / f64::from(DAY);
    // Newton's steps on a convex function from above: they never overshoot.
    let mut time = (2.0 * price / rate).sqrt();
    for _ in 0..8 {
        let value = rate * time * time * (0.5 + 2.0 * time / (3.0 * super::value::LATE)) - price;
        let slope = rate * time * (1.0 + 2.0 * time / super::value::LATE);
        time -= value / slope.max(f64::MIN_POSITIVE);
    }
    time.clamp(min, max)
}

/// What a request costs at the least, however large the budget: at this price only a feed that is
/// expected to have a new item within the shortest interval is asked that often.
fn cheapest(bounds: Bounds) -> f64 {
    let time = f64::from(bounds.min.max(1));
    time * (0.5 + 2.0 * time / (3.0 * super::value::LATE))
}

/// The price and what experience says about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// In item-seconds.
    pub value: f64,
    /// The correction learned from polls that were really made, as a power of e.
    pub correction: f64,
}

impl Default for Price {
    fn default() -> Self {
        Self { value: FIRST_PRICE, correction: 0.0 }
    }
}

impl Price {
    /// The price from now on. `budget` is in polls a day, `made` what was made in the last day, when
    /// a whole day has passed, and `hours` the time since the last look. Before there is anything to
    /// solve it for, the first price stands.
    #[must_use]
    pub fn solved(
        self,
        rates: &Rates,
        budget: f64,
        made: Option<f64>,
        hours: f64,
        bounds: Bounds,
    ) -> Self {
        if budget <= 0.0 || rates.is_empty() {
            return Self::default();
        }
        let cheapest = cheapest(bounds).ln();
        let (mut low, mut high) = (cheapest, DEAREST.ln());
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if rates.polls(middle.exp(), bounds) > budget { low = middle } else { high = middle }
        }
        // Where the price moves little, it has to move far.
        let moved =
            rates.polls((high - 0.1).exp(), bounds) / rates.polls((high + 0.1).exp(), bounds);
        let elasticity = (moved.ln() / 0.2).max(STIFFEST);
        let off = made.map_or(0.0, |made| (made.max(1.0) / budget).ln());
        let correction = self.correction + (GAIN * hours).min(1.0) * off / elasticity;
        // Polls that nobody needs teach nothing about the price.
        let correction = correction.clamp(-MOST, MOST).max(cheapest - high);
        Self { value: (high + correction).exp(), correction }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { min: 300, max: DAY };

    fn house(rates: &[f64]) -> Rates {
        let mut all = Rates::default();
        rates.iter().for_each(|rate| all.add(Rates::bucket(*rate), 1));
        all
    }

    #[test]
    fn an_interval_follows_the_square_root_while_delays_are_short() {
        let (slow, fast) = (interval(1e3, 100.0, BOUNDS), interval(1e3, 400.0, BOUNDS));
        assert!((slow / fast - 2.0).abs() < 0.4, "{slow} {fast}");
    }

    #[test]
    fn more_polls_than_the_budget_raise_the_price() {
        let rates = house(&[1.0, 5.0, 20.0, 100.0]);
        let price = Price::default();
        let even = price.solved(&rates, 50.0, Some(50.0), 1.0, BOUNDS);
        let over = price.solved(&rates, 50.0, Some(80.0), 1.0, BOUNDS);
        let under = price.solved(&rates, 50.0, Some(30.0), 1.0, BOUNDS);
        assert!(over.value > even.value && even.value > under.value);
        assert_eq!(price.solved(&rates, 0.0, None, 1.0, BOUNDS), Price::default());
    }

    #[test]
    fn before_there_are_feeds_the_first_price_stands() {
        let mut none = Rates::default();
        none.add_fixed(9.0);
        assert_eq!(Price::default().solved(&none, 2.0, None, 0.0, BOUNDS), Price::default());
    }

    #[test]
    fn a_budget_that_nobody_needs_does_not_make_quiet_feeds_busy() {
        let rates = house(&[0.05, 0.25, 288.0]);
        let mut price = Price::default();
        for _ in 0..500 {
            price = price.solved(&rates, 1e6, Some(200.0), 1.0, BOUNDS);
        }
        let minutes = |rate| interval(price.value, rate, BOUNDS) / 60.0;
        assert!(minutes(0.25) > 60.0 && minutes(0.05) > 120.0, "{price:?}");
        assert!((minutes(288.0) - 5.0).abs() < 0.1, "an item every five minutes: {price:?}");
        // And it is dear again as soon as requests are scarce.
        let scarce = price.solved(&rates, 10.0, Some(200.0), 1.0, BOUNDS);
        let fresh = Price::default().solved(&rates, 10.0, Some(200.0), 1.0, BOUNDS);
        assert!((scarce.value / fresh.value - 1.0).abs() < 1e-6, "{scarce:?} {fresh:?}");
    }

    proptest! {
        #[test]
        fn the_solved_price_meets_the_budget(
            rates in proptest::collection::vec(0.01f64..1000.0, 1..200),
            share in 0.05f64..0.9,
        ) {
            let all = house(&rates);
            let (least, most) =
                (all.polls(DEAREST, BOUNDS), all.polls(cheapest(BOUNDS), BOUNDS));
            let budget = least + share * (most - least);
            let price = Price::default().solved(&all, budget, None, 1.0, BOUNDS);
            let polls = all.polls(price.value, BOUNDS);
            prop_assert!((polls / budget - 1.0).abs() < 1e-3, "{polls} {budget}");
        }
    }
}
