//! Upkeep of the price of a request: worked out again every few minutes from what channels publish
//! and from the polls that were really made, and kept for all who plan polls.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::db::DbError;
use crate::model::Ts;
use crate::progress::Progress;
use crate::schedule::{Bounds, Made, Price, Rates};
use crate::store::{Demand, PriceNote, Store};

/// Between two looks.
const LOOK: Duration = Duration::from_mins(10);
/// After a longer break, polls of the last day say nothing about the price.
const BREAK: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// Looks after the price until it is told to stop. `terms` are the budget, in requests a day, and the
/// bounds of intervals, as they are then.
pub(super) async fn keep(
    store: Arc<dyn Store>,
    terms: impl Fn() -> (Option<f64>, Bounds) + Send,
    clock: Clock,
    progress: Arc<Progress>,
    stop: CancellationToken,
) {
    // What is said once is not said again until it is over.
    let mut trouble = false;
    loop {
        let now = clock.now();
        let (budget, bounds) = terms();
        let looked = look(&*store, budget, bounds, now).await;
        let told = std::mem::replace(&mut trouble, looked.is_err());
        match looked {
            Ok((price, made)) => {
                let metrics = &progress.metrics;
                metrics.price.set(price);
                metrics.spent.set(i64::try_from(made).unwrap_or(i64::MAX));
                metrics.budget.set(budget.unwrap_or(0.0));
            }
            Err(_) if told => {}
            Err(error) => tracing::warn!(%error, "the price of a request could not be worked out"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep_until(now.after(LOOK)) => {}
        }
    }
}

/// Works the price out; what it is, and the requests of the last day.
async fn look(
    store: &dyn Store,
    budget: Option<f64>,
    bounds: Bounds,
    now: Ts,
) -> Result<(f64, u64), DbError> {
    let demand = store.demand().await?;
    let note = renewed(&demand, budget, bounds, now);
    tracing::debug!(price = note.value, made = demand.made, "the price of a request");
    store.set_price(note).await?;
    Ok((note.value, demand.made))
}

/// The price from now on.
fn renewed(demand: &Demand, budget: Option<f64>, bounds: Bounds, now: Ts) -> PriceNote {
    // A note from a clock that ran ahead says nothing about the time since.
    let kept = demand.price.filter(|note| note.at <= now && note.since <= now);
    let before = kept.filter(|note| now.since(note.at) <= BREAK);
    let since = before.map_or(now, |note| note.since);
    let Some(budget) = budget else {
        return note(Price::default(), now, since);
    };
    let rates = rates(demand);
    let price = kept.map_or_else(Price::default, |note| Price {
        value: note.value,
        correction: note.correction,
        owed: note.owed,
    });
    let made = Made {
        in_a_day: (now.since(since) >= DAY).then_some(demand.made as f64),
        since: demand.made_since as f64,
        hours: before.map_or(0.0, |note| now.since(note.at).as_secs_f64() / 3600.0),
    };
    note(price.solved(&rates, budget, made, bounds), now, since)
}

const fn note(price: Price, at: Ts, since: Ts) -> PriceNote {
    let Price { value, correction, owed } = price;
    PriceNote { value, correction, owed, at, since }
}

/// How many channels publish how much. Those that were never polled are taken to be like the others:
/// a price for the first few of a long list would be far too low for all of it.
fn rates(demand: &Demand) -> Rates {
    let known: u64 = demand.buckets.iter().map(|(_, feeds)| u64::from(*feeds)).sum();
    let all = known + u64::from(demand.unpolled);
    let mut rates = Rates::default();
    for (bucket, feeds) in &demand.buckets {
        let alike = u64::from(*feeds) * all / known.max(1);
        rates.add(*bucket, u32::try_from(alike).unwrap_or(u32::MAX));
    }
    rates.add_fixed(demand.fixed);
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { min: 300, max: 86_400 };
    const NOW: Ts = Ts::from_ms(1_800_000_000_000);

    fn demand(made: u64, looked: Duration, since: Duration) -> Demand {
        let ago = |span: Duration| Ts::from_ms(NOW.ms() - span.as_millis() as i64);
        let (at, since) = (ago(looked), ago(since));
        let price = PriceNote { value: 500.0, correction: 0.5, owed: 0.0, at, since };
        Demand {
            buckets: vec![(Rates::bucket(10.0), 100)],
            unpolled: 0,
            fixed: 0.0,
            made,
            made_since: made / 144,
            price: Some(price),
        }
    }

    #[test]
    fn polls_of_a_whole_day_correct_the_price_and_others_do_not() {
        let correction = |made, looked, since| {
            renewed(&demand(made, looked, since), Some(1000.0), BOUNDS, NOW).correction
        };
        assert!(correction(2000, LOOK, 2 * DAY) > 0.5);
        assert!(correction(500, LOOK, 2 * DAY) < 0.5);
        assert_eq!(correction(2000, LOOK, DAY / 2), 0.5);
        assert_eq!(correction(2000, 3 * BREAK, 2 * DAY), 0.5);
    }

    #[test]
    fn channels_that_were_never_polled_count_like_the_others() {
        let value = |demand: &Demand| renewed(demand, Some(1000.0), BOUNDS, NOW).value;
        let nothing = Demand { unpolled: 10_000, ..Demand::default() };
        assert_eq!(value(&nothing), crate::schedule::FIRST_PRICE);
        let some = Demand { price: None, ..demand(0, LOOK, LOOK) };
        let begun = Demand { unpolled: 900, ..some.clone() };
        let whole = Demand { buckets: vec![(Rates::bucket(10.0), 1000)], ..some.clone() };
        assert!(value(&begun) > 10.0 * value(&some), "{} {}", value(&begun), value(&some));
        assert_eq!(value(&begun), value(&whole));
    }

    #[test]
    fn a_note_from_a_clock_that_ran_ahead_is_not_believed() {
        let year = Duration::from_hours(24 * 365);
        let mut ahead = demand(2000, LOOK, 2 * DAY);
        ahead.price = ahead.price.map(|note| PriceNote {
            at: note.at.after(year),
            since: note.since.after(year),
            ..note
        });
        let note = renewed(&ahead, Some(1000.0), BOUNDS, NOW);
        assert_eq!((note.at, note.since), (NOW, NOW));
        assert_eq!((note.correction, note.owed), (0.0, 0.0));
    }

    #[test]
    fn polls_beyond_the_budget_are_owed() {
        let over = renewed(&demand(2000, LOOK, 2 * DAY), Some(1000.0), BOUNDS, NOW);
        assert!((over.owed - (2000.0 / 144.0 - 1000.0 / 144.0)).abs() < 1.0, "{over:?}");
        let after_a_break = renewed(&demand(2000, 3 * BREAK, 2 * DAY), Some(1000.0), BOUNDS, NOW);
        assert_eq!(after_a_break.owed, 0.0);
    }

    #[test]
    fn without_a_budget_the_price_is_fixed() {
        let note = renewed(&demand(5, LOOK, DAY), None, BOUNDS, NOW);
        assert_eq!((note.value, note.correction), (crate::schedule::FIRST_PRICE, 0.0));
    }
}
