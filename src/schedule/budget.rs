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
const GAIN: f64 = 0.05;
/// Polls are taken to follow the price at least this much: as its power.
const STIFFEST: f64 = 0.1;
/// The most that is corrected, as a power of e.
const MOST: f64 = 3.0;
/// The highest price to look for, in item-seconds.
const DEAREST: f64 = 1e12;
/// Polls beyond the budget, or short of it, are made up for within about this many days, or the mean
/// interval when that is longer: a new price shows only in polls that are planned with it.
const REPAID_WITHIN: f64 = 0.125;
/// Days of the budget that are owed at the most: what lies further back is history.
const MOST_OWED: f64 = 1.0;
/// The least and the most that is aimed at meanwhile, as shares of the budget.
const AIM: (f64, f64) = (0.2, 1.9);

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

    /// Feeds whose polls follow the price.
    fn feeds(&self) -> f64 {
        self.counts.iter().map(|count| f64::from(*count)).sum()
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
    /// Polls that were made beyond the budget; negative when it was not used up.
    pub owed: f64,
}

impl Default for Price {
    fn default() -> Self {
        Self { value: FIRST_PRICE, correction: 0.0, owed: 0.0 }
    }
}

/// Polls that were really made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Made {
    /// In the last day, when a whole one has passed.
    pub in_a_day: Option<f64>,
    /// Since the price was last worked out.
    pub since: f64,
    /// Hours since then; 0 when nothing is known of that time.
    pub hours: f64,
}

impl Price {
    /// The price from now on. `budget` is in polls a day. Before there is anything to solve it for,
    /// the first price stands.
    ///
    /// A day is never like the day before: feeds rest at weekends. So beside the correction, which
    /// learns what the model gets wrong, the sum of all deviations is kept and made up for.
    #[must_use]
    pub fn solved(self, rates: &Rates, budget: f64, made: Made, bounds: Bounds) -> Self {
        if budget <= 0.0 || rates.is_empty() {
            return Self::default();
        }
        let most = budget * MOST_OWED;
        let owed = self.owed + made.since - budget * made.hours / 24.0;
        let owed = if made.hours > 0.0 { owed.clamp(-most, most) } else { self.owed };
        let within = REPAID_WITHIN.max(rates.feeds() / budget);
        let aim = 1.0 - owed / (budget * within);
        let aim = budget * aim.clamp(AIM.0, AIM.1);
        let cheapest = cheapest(bounds).ln();
        let (mut low, mut high) = (cheapest, DEAREST.ln());
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if rates.polls(middle.exp(), bounds) > aim { low = middle } else { high = middle }
        }
        // Where the price moves little, it has to move far.
        let moved =
            rates.polls((high - 0.1).exp(), bounds) / rates.polls((high + 0.1).exp(), bounds);
        let elasticity = (moved.ln() / 0.2).max(STIFFEST);
        // Not the logarithm: the mean of logarithms lies below the logarithm of the mean.
        let off = made.in_a_day.map_or(0.0, |day| (day / budget - 1.0).min(1.0));
        let correction = self.correction + (GAIN * made.hours).min(1.0) * off / elasticity;
        // Polls that nobody needs teach nothing about the price, and are not saved up.
        let is_needed = rates.polls(cheapest.exp(), bounds) > budget;
        let owed = if is_needed { owed } else { owed.max(0.0) };
        let correction = correction.clamp(-MOST, MOST).max(cheapest - high);
        Self { value: (high + correction).exp(), correction, owed }
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

    /// An hour of a day with so many polls.
    fn made(day: f64) -> Made {
        Made { in_a_day: Some(day), since: day / 24.0, hours: 1.0 }
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
        let solved = |day: f64| price.solved(&rates, 50.0, made(day), BOUNDS);
        let (even, over, under) = (solved(50.0), solved(80.0), solved(30.0));
        assert!(over.value > even.value && even.value > under.value);
        assert_eq!(price.solved(&rates, 0.0, Made::default(), BOUNDS), Price::default());
    }

    #[test]
    fn before_there_are_feeds_the_first_price_stands() {
        let mut none = Rates::default();
        none.add_fixed(9.0);
        assert_eq!(Price::default().solved(&none, 2.0, Made::default(), BOUNDS), Price::default());
    }

    #[test]
    fn a_budget_that_nobody_needs_does_not_make_quiet_feeds_busy() {
        let rates = house(&[0.05, 0.25, 288.0]);
        let mut price = Price::default();
        for _ in 0..500 {
            price = price.solved(&rates, 1e6, made(200.0), BOUNDS);
        }
        let minutes = |rate| interval(price.value, rate, BOUNDS) / 60.0;
        assert!(minutes(0.25) > 60.0 && minutes(0.05) > 120.0, "{price:?}");
        assert!((minutes(288.0) - 5.0).abs() < 0.1, "an item every five minutes: {price:?}");
        // And it is dear again as soon as requests are scarce.
        let scarce = price.solved(&rates, 10.0, made(200.0), BOUNDS);
        let fresh = Price::default().solved(&rates, 10.0, made(200.0), BOUNDS);
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
            let price = Price::default().solved(&all, budget, Made::default(), BOUNDS);
            let polls = all.polls(price.value, BOUNDS);
            prop_assert!((polls / budget - 1.0).abs() < 1e-3, "{polls} {budget}");
        }
    }
}
