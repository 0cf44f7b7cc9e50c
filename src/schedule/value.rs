//! The `value` policy: a feed is polled when the delay that its undiscovered items are expected to
//! have piled up is worth the price of a request.
//!
//! A rate with a long memory, a rhythm of the week, and a price in item-seconds. Errors never reach
//! this file: what a feed publishes is learned from successful polls alone.

use super::mix;
use super::profile::{BIN, HOUR, Outlook, Profile};
use super::state::State;

pub(super) const DAY: u32 = 86_400;
/// After this many seconds an item weighs half for the rate.
const MEMORY: f64 = 30.0 * 86_400.0;
/// After this many seconds an item weighs half for the rhythm.
const RHYTHM: u32 = 60 * DAY;
/// What is believed of a feed that nothing is known of: half an item in two days.
const PRIOR: (f64, f64) = (0.5, 2.0);
/// A delay twice as long is more than twice as bad from about here on, in seconds.
pub(super) const LATE: f64 = 7200.0;
/// How sure it must be that nothing leaves the document unseen: about once in a thousand polls.
const SURE: f64 = 3.0;
/// Silent for longer, a feed counts as dead.
const DEAD: u32 = 90 * DAY;
/// A dead feed waits at least this part of its silence.
const PATIENCE: u32 = 90;
/// The longest interval of a dead feed.
const DEAD_INTERVAL: u32 = 7 * DAY;
/// A document with fewer items is often new as a whole, and that says nothing.
pub(super) const FEW: u32 = 3;

/// What a successful poll brought.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found<'a> {
    /// When the poll was made.
    pub at: u32,
    /// Times of the items that were not known before.
    pub dated: &'a [u32],
    /// New items without a time.
    pub undated: u32,
    /// Items in the document; `None` when there was none (304, the same bytes).
    pub items: Option<u32>,
    /// The last publication times in the document, oldest first.
    pub recent: &'a [u32],
}

impl Found<'_> {
    /// How many items were new.
    pub(super) fn new_items(&self) -> u32 {
        u32::try_from(self.dated.len()).unwrap_or(u32::MAX).saturating_add(self.undated)
    }
}

/// Between which intervals a policy may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// At least, in seconds.
    pub min: u32,
    /// At most, in seconds.
    pub max: u32,
}

/// What was chosen, and on what grounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    /// Seconds from the poll to the next one.
    pub(super) interval: u32,
    /// What the rule says before it is refined.
    pub(super) alternative: u32,
    /// Items a day.
    pub(super) rate: f64,
    /// How much more than on average is published when the next poll comes.
    pub(super) factor: f64,
    /// New items expected by then.
    pub(super) expected: f64,
    /// The document would overflow otherwise.
    pub(super) guarded: bool,
    /// Which limit it stands at: `min`, `max`, `faded` or `none`.
    pub(super) edge: &'static str,
}

/// Items a day.
pub(super) fn rate(state: &State) -> f64 {
    (f64::from(state.n) + PRIOR.0) / (f64::from(state.e) + PRIOR.1)
}

/// The weight of what happened that many seconds ago.
fn weight(ago: f64) -> f64 {
    (-ago / MEMORY).exp2()
}

/// Days of exposure that a span of seconds brings, faded alike.
fn exposure(span: f64, mean: f64) -> f64 {
    mean * (1.0 - weight(span)) * MEMORY / std::f64::consts::LN_2 / f64::from(DAY)
}

/// Learns from a successful poll; `salt` tells feeds apart.
pub(super) fn learn(state: &mut State, found: &Found<'_>, salt: u64) {
    // A clock that ran ahead left times that are still to come: nothing is learned across them.
    if state.last_ok > found.at {
        state.last_ok = found.at;
        state.last_item = state.last_item.min(found.at);
    }
    let newest = found.dated.iter().copied().filter(|time| *time <= found.at).max();
    let newest = newest.or((found.undated > 0).then_some(found.at));
    if state.last_ok == 0 {
        first(state, found, salt);
    } else if found.at > state.last_ok {
        more(state, found, salt);
    }
    state.last_item = state.last_item.max(newest.unwrap_or(0));
    if let Some(items) = found.items {
        state.window = u16::try_from(items).unwrap_or(u16::MAX);
    }
    state.last_ok = state.last_ok.max(found.at);
}

/// The dated items of the first document are history.
fn first(state: &mut State, found: &Found<'_>, salt: u64) {
    let past = || found.dated.iter().copied().filter(|time| *time <= found.at);
    let Some(oldest) = past().min() else { return };
    for time in past() {
        state.beat(time, salt, found.at - oldest);
    }
    let ago = |time: u32| f64::from(found.at - time);
    let total: f64 = past().map(|time| weight(ago(time))).sum();
    state.n = (total - weight(ago(oldest))).max(0.0) as f32;
    state.e = exposure(ago(oldest), Profile::of(state).mean(oldest, found.at)) as f32;
}

fn more(state: &mut State, found: &Found<'_>, salt: u64) {
    let profile = Profile::of(state);
    let (from, at) = (state.last_ok, found.at);
    let gap = f64::from(at - from);
    let mean = profile.mean(from, at);
    let expected = rate(state) * mean * gap / f64::from(DAY);
    let fade = weight(gap);
    // An item that came late with an old date still came now.
    let news: f64 =
        found.dated.iter().map(|time| weight(f64::from(at - (*time).clamp(from, at)))).sum();
    let news = news + f64::from(found.undated) * weight(gap / 2.0);
    state.n = (f64::from(state.n) * fade + news) as f32;
    state.e = (f64::from(state.e) * fade + exposure(gap, mean)) as f32;

    let count = f64::from(found.new_items());
    let off = (count - expected).powi(2) / expected.max(0.25);
    let step = 0.1 * (expected / (expected + 1.0)).min(0.5);
    state.fano += (step * (off - f64::from(state.fano))) as f32;
    // A document that is mostly new nearly overflowed.
    let mostly = |items: u32| items >= FEW && found.new_items() >= items - items * 3 / 10;
    if found.items.is_some_and(mostly) {
        state.fano = (state.fano * 1.5).min(1e6);
    }

    for _ in 0..(at / RHYTHM - from / RHYTHM).min(8) {
        state.hours.age();
        state.days.age();
        state.minutes.age();
    }
    for time in found.dated {
        state.beat((*time).min(at), salt, u32::MAX);
    }
    for item in 0..found.undated.min(1000) {
        let coin = mix(salt ^ u64::from(at), u64::from(item));
        state.beat(from + (coin % u64::from((at - from).max(1))) as u32, salt, u32::MAX);
    }
}

/// The expected count at which the document may overflow with more than the accepted chance.
fn guard(state: &State) -> f64 {
    if state.window == 0 {
        return f64::INFINITY;
    }
    let fano = f64::from(state.fano).max(1.0);
    let root = (SURE * SURE * fano + 4.0 * f64::from(state.window)).sqrt();
    ((root - SURE * fano.sqrt()) / 2.0).powi(2)
}

/// The rule of one feed at one price.
struct Rule<'p> {
    outlook: Outlook<'p>,
    /// Items a second.
    rate: f64,
    price: f64,
    guard: f64,
}

impl Rule<'_> {
    /// Whether a poll at `until` is worth its price when the last one was at `from`.
    fn due(&mut self, from: u32, until: u32) -> bool {
        let (count, delay, square) = self.outlook.piled(from, until);
        self.rate * (delay + 2.0 * square / LATE) >= self.price || self.rate * count >= self.guard
    }

    /// What the delay of the items in between costs.
    fn cost(&mut self, from: u32, until: u32) -> f64 {
        let (_, delay, square) = self.outlook.piled(from, until);
        self.rate * (delay + square / LATE)
    }

    /// The first instant after `from` at which a poll is due, at most `longest` later.
    fn first_due(&mut self, from: u32, longest: u32) -> u32 {
        let last = from.saturating_add(longest).min(self.outlook.end());
        let (mut low, mut step) = (from, HOUR);
        loop {
            let next = low.saturating_add(step).min(last);
            if self.due(from, next) {
                break;
            }
            if next >= last {
                return last;
            }
            // Long waits are looked for in long steps, and then more closely.
            step = (next - from).max(HOUR);
            low = next;
        }
        let mut high = low.saturating_add(step).min(last);
        while high - low > 10 {
            let middle = low + (high - low) / 2;
            if self.due(from, middle) { high = middle } else { low = middle }
        }
        high
    }

    /// Where a poll between two fixed ones does the most good: just after posting times.
    fn refined(&mut self, from: u32, range: (u32, u32), end: u32) -> u32 {
        let (low, high) = range;
        let mut best = (f64::INFINITY, high);
        let mut look = |rule: &mut Self, time: u32| {
            let cost = rule.cost(from, time) + rule.cost(time, end);
            if cost < best.0 {
                best = (cost, time);
            }
            best.1
        };
        look(self, high);
        look(self, low);
        let mut near = high;
        for hour in low.div_ceil(HOUR)..=high / HOUR {
            near = look(self, hour * HOUR);
        }
        let (low, high) = (low.max(near.saturating_sub(HOUR)), high.min(near.saturating_add(HOUR)));
        for bin in low.div_ceil(BIN)..=high / BIN {
            near = look(self, bin * BIN);
        }
        near
    }
}

/// A feed that has been silent for long is polled the less often the longer it is.
fn faded(silent: u32, bounds: Bounds) -> Bounds {
    let min = bounds.min.max((silent / PATIENCE).min(DEAD_INTERVAL));
    Bounds { min, max: bounds.max.max(DEAD_INTERVAL) }
}

/// Seconds from the last success after which the document may have overflowed, when that is before
/// `longest`.
pub(super) fn overflow(state: &State, longest: u32) -> Option<u32> {
    let guard = guard(state);
    if !guard.is_finite() {
        return None;
    }
    let start = state.last_ok;
    let profile = Profile::of(state);
    let outlook = Outlook::new(&profile, start);
    let rate = rate(state) / f64::from(DAY);
    let mut rule = Rule { outlook, rate, price: f64::INFINITY, guard };
    let full = rule.first_due(start, longest);
    rule.due(start, full).then(|| full - start).filter(|full| *full < longest)
}

/// When to poll next, counted from the last success, at this price in item-seconds; and the longest
/// that it could have been. Only a feed that `fades` waits longer than its bounds say.
pub(super) fn plan(state: &State, price: f64, bounds: Bounds, fades: bool) -> (Plan, u32) {
    let start = state.last_ok;
    let profile = Profile::of(state);
    let rate = rate(state);
    let silent = start.saturating_sub(state.last_item);
    let is_dead = fades && state.last_item > 0 && silent > DEAD;
    let bounds = if is_dead { faded(silent, bounds) } else { bounds };
    let max = bounds.max.max(bounds.min);
    let guard = guard(state);
    let outlook = Outlook::new(&profile, start);
    let mut rule = Rule { outlook, rate: rate / f64::from(DAY), price, guard };
    let ruled = rule.first_due(start, max);
    let after = rule.first_due(ruled, max);
    let earliest = start.saturating_add(bounds.min);
    let latest = after.min(start.saturating_add(max));
    let chosen =
        if earliest < latest { rule.refined(start, (earliest, latest), after) } else { earliest };
    // The refinement knows delays, not the document's length.
    let full = |rule: &mut Rule<'_>, time| rule.rate * rule.outlook.piled(start, time).0 >= guard;
    let guarded = full(&mut rule, chosen) || (ruled <= chosen && full(&mut rule, ruled));
    let chosen = if guarded { chosen.min(ruled) } else { chosen };
    let interval = (chosen - start).clamp(bounds.min, max);
    let plan = Plan {
        interval,
        alternative: (ruled - start).clamp(bounds.min, max),
        rate,
        factor: profile.hourly(start + interval),
        expected: rate / f64::from(DAY) * rule.outlook.mass(start + interval),
        guarded,
        edge: match interval {
            _ if interval == bounds.min && is_dead => "faded",
            _ if interval == bounds.min => "min",
            _ if interval == max => "max",
            _ => "none",
        },
    };
    (plan, max)
}
