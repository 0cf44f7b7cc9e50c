//! The budget is held on made-up feeds, whichever of them are followed, whenever polling begins and
//! however long it goes on, with and without a time to learn.

use super::*;

const DAY: u32 = 86_400;
/// The budget, in polls a feed and day.
const EACH: f64 = 12.0;

/// A number in 0..1.
fn dice(a: u64, b: u64) -> f64 {
    (mix(a, b) >> 11) as f64 / (1u64 << 53) as f64
}

/// Times of items over 80 days from 30 days before the start: by day, less at weekends, in summer less
/// than before, from one in two days to forty a day.
fn items(feed: u64) -> Vec<u32> {
    let rate = 0.5 * 80f64.powf(dice(feed, 1));
    let (zone, weekend) = ((dice(feed, 2) * 24.0) as u32, 0.05 + 0.6 * dice(feed, 3));
    let mut times = Vec::new();
    for hour in 0..80 * 24u32 {
        let time = START - 30 * DAY + hour * 3600;
        let (of_day, day) = state::hour_and_day(time);
        let awake = (of_day as u32 + zone) % 24 < 12;
        let season = if hour > 55 * 24 { 0.6 } else { 1.0 };
        let share = if awake { 1.8 } else { 0.2 } * if day < 5 { 1.2 } else { weekend } * season;
        let expected = rate / 24.0 * share;
        let count = (expected + dice(feed, u64::from(hour) << 8)) as u32;
        for item in 0..count {
            let within = dice(feed, (u64::from(hour) << 8) | (u64::from(item) + 1));
            times.push(time + (within * 3600.0) as u32);
        }
    }
    times.sort_unstable();
    times
}

/// Polls from one day on for some days, of which the first `warm` are not counted: how far the
/// number of polls is from the budget, as a share.
fn error(feeds: std::ops::Range<u64>, from: u32, warm: u32, days: u32) -> f64 {
    let policy = policy(PollPolicy::Value);
    let (start, counted) = (START + from * DAY, START + (from + warm) * DAY);
    let end = counted + days * DAY;
    let feeds: Vec<Vec<u32>> = feeds.map(items).collect();
    let budget = EACH * feeds.len() as f64;
    let mut states = vec![State::default(); feeds.len()];
    let mut due: Vec<u32> = (0..feeds.len() as u32).map(|feed| start + feed * 30).collect();
    let mut seen = vec![0usize; feeds.len()];
    let (mut price, mut made, mut last_day) = (Price::default(), 0u32, Vec::<u32>::new());
    for tick in (start..end).step_by(1800) {
        let mut in_tick = 0;
        for (feed, times) in feeds.iter().enumerate() {
            while due[feed] < tick + 1800 {
                let at = due[feed];
                let there = times.partition_point(|time| *time <= at);
                let dated = &times[seen[feed].max(there.saturating_sub(30))..there];
                let count = (!dated.is_empty()).then_some(30);
                let found = Found { at, dated, items: count, recent: dated, ..Found::default() };
                let state = states[feed];
                let task = TaskId(feed as i64);
                let poll = Poll { task, price: price.value, ..poll(&state, at) };
                let (state, decision) = policy.next_poll(&poll, &found, &CONDITIONAL);
                (states[feed], seen[feed], due[feed]) = (state, there, seconds(decision.at));
                in_tick += 1;
                made += u32::from(at >= counted && at < end);
            }
        }
        last_day.push(in_tick);
        let mut rates = Rates::default();
        states.iter().for_each(|state| rates.add(Rates::bucket(state.rate()), 1));
        let in_a_day = last_day.rchunks(48).next().filter(|day| day.len() == 48);
        let in_a_day = in_a_day.map(|day| f64::from(day.iter().sum::<u32>()));
        let made = Made { in_a_day, since: in_tick.into(), hours: 0.5 };
        price = price.solved(&rates, budget, made, policy.bounds());
    }
    f64::from(made) / (budget * f64::from(days)) - 1.0
}

#[test]
fn the_budget_is_held_whichever_feeds_and_whenever() {
    let mut all = Vec::new();
    for (feeds, from, warm, days) in [
        (0..16, 0, 0, 10),
        (24..36, 3, 0, 7),
        (40..52, 0, 7, 14),
        (64..72, 5, 7, 7),
        (0..8, 14, 4, 14),
    ] {
        let what = format!("feeds {feeds:?} from day {from}, {warm} days warm, {days} days");
        let off = 100.0 * error(feeds, from, warm, days);
        all.push((off, what));
    }
    assert!(all.iter().all(|(off, _)| off.abs() <= 1.0), "{all:#?}");
}
