//! What publishers say about the pace they want: `ttl` and its kin, freshness, quiet hours.
//!
//! Their wishes only ever make a wait longer. Wild values are cut to what a sane publisher could
//! have meant.

use std::time::Duration;

use super::pace;
use super::state::{State, hour_and_day};
use super::value::DAY;

/// The longest pause that a publisher's wish is believed to mean.
const LONGEST: Duration = Duration::from_hours(24);
/// A feed that cannot be asked "has it changed?" is asked at most this often, in seconds.
const UNCONDITIONAL: u32 = 3600;
/// What is left of a publisher's `ttl` when the document would overflow meanwhile, in seconds.
const OVERRIDDEN: u32 = 3600;
/// Days and hours that are left out, of which one bit each is set.
const ALL_HOURS: u32 = 0x00ff_ffff;
const ALL_DAYS: u32 = 0x7f00_0000;

/// What an answer says about the pace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// What its document says, when it has one.
    pub document: Option<Document>,
    /// For how long the answer stays fresh.
    pub fresh: Option<Duration>,
    /// Whether it came with something to ask "has it changed?" with.
    pub conditional: bool,
}

/// What a document says about the pace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The pause between polls that it asks for.
    pub ttl: Option<Duration>,
    /// Hours of the day (bits 0 to 23) and days from Monday (24 to 30) at which nothing appears.
    pub skip: u32,
}

impl Document {
    /// Hours of the day and days of the week, from Monday, in GMT. Who leaves out everything has
    /// said nothing.
    #[must_use]
    pub fn new(ttl: Option<Duration>, hours: &[u8], days: &[u8]) -> Self {
        let bits = |list: &[u8], limit: u8| {
            list.iter().filter(|bit| **bit < limit).fold(0u32, |mask, bit| mask | 1 << *bit)
        };
        let some = |mask: u32, all: u32| if mask == all { 0 } else { mask };
        let hours = some(bits(hours, 24), ALL_HOURS);
        let days = some(bits(days, 7) << 24, ALL_DAYS);
        Self { ttl, skip: hours | days }
    }

    /// Keeps its wishes with the feed: a 304 does not repeat them.
    pub(super) fn keep(self, state: &mut State) {
        let minutes = self.ttl.map_or(0, |ttl| ttl.min(LONGEST).as_secs().div_ceil(60));
        state.ttl = u16::try_from(minutes).unwrap_or(u16::MAX);
        state.skip = self.skip;
    }
}

/// The least interval in seconds that hints allow, with the hint that says so. `guarded` is the
/// interval at which the document would overflow, when the plan is bound by it; `overflow` says when
/// it overflows within a span.
pub(super) fn floor(
    state: &State,
    hints: &Hints,
    guarded: Option<u32>,
    overflow: impl Fn(u32) -> Option<u32>,
) -> (u32, &'static str) {
    let mut ttl = (u32::from(state.ttl) * 60, "ttl");
    if let Some(guarded) = guarded.filter(|guarded| *guarded < ttl.0 && OVERRIDDEN < ttl.0) {
        ttl = (guarded.max(OVERRIDDEN), "ttl-overridden:window");
    }
    let fresh = (fresh(hints.fresh), "max-age");
    let silent = ttl.0 == 0 && fresh.0 == 0 && !hints.conditional && !state.pushed;
    let blind = (if silent { UNCONDITIONAL } else { 0 }, "no-validators");
    let learned = pace::floor(state, overflow);
    // Of equals the last one is named: it comes later in the order of hints.
    [ttl, fresh, blind, learned].into_iter().max_by_key(|(floor, _)| *floor).unwrap_or((0, "none"))
}

/// Seconds for which an answer stays fresh, within reason.
pub(super) fn fresh(age: Option<Duration>) -> u32 {
    age.map_or(0, |age| age.min(LONGEST).as_secs() as u32)
}

/// The first instant from `at` on that is not left out; `at` itself when all are.
pub(super) fn allowed(skip: u32, at: u32) -> u32 {
    let open = |time: u32| {
        let (hour, day) = hour_and_day(time);
        skip & (1 << hour) == 0 && skip & (1 << (24 + day)) == 0
    };
    if skip == 0 || open(at) {
        return at;
    }
    let hours = (at / 3600 + 1)..=(at.saturating_add(8 * DAY) / 3600);
    hours.map(|hour| hour * 3600).find(|time| open(*time)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOURS: Duration = Duration::from_hours(3);

    #[test]
    fn the_strictest_hint_rules_and_is_named() {
        let state = State { ttl: 90, ..State::default() };
        let hints = Hints { conditional: true, ..Hints::default() };
        let floor = |state: &State, hints: &Hints| floor(state, hints, None, |_| None);
        assert_eq!(floor(&state, &hints), (5400, "ttl"));
        let fresh = Hints { fresh: Some(HOURS), ..hints };
        assert_eq!(floor(&state, &fresh), (10_800, "max-age"));
        let told = State { floor: 20_000.0, ..state };
        assert_eq!(floor(&told, &fresh), (20_000, "retry-after"));
        let absurd = Hints { fresh: Some(Duration::from_hours(9999)), ..hints };
        assert_eq!(floor(&state, &absurd), (86_400, "max-age"));
    }

    #[test]
    fn without_validators_hourly_unless_the_publisher_says_sooner() {
        let blind = Hints::default();
        let floor = |hints: &Hints| floor(&State::default(), hints, None, |_| None);
        assert_eq!(floor(&blind), (3600, "no-validators"));
        let sooner = Hints { fresh: Some(Duration::from_mins(10)), ..blind };
        assert_eq!(floor(&sooner), (600, "max-age"));
    }

    #[test]
    fn a_ttl_that_loses_items_is_cut_to_an_hour() {
        let state = State { ttl: 1440, ..State::default() };
        let hints = Hints { conditional: true, ..Hints::default() };
        let floor = |full: u32| floor(&state, &hints, Some(full), |_| None);
        assert_eq!(floor(1200), (3600, "ttl-overridden:window"));
        assert_eq!(floor(7200), (7200, "ttl-overridden:window"));
        assert_eq!(floor(90_000), (86_400, "ttl"));
    }

    #[test]
    fn wishes_are_read_and_nonsense_is_not() {
        let document = Document::new(Some(HOURS), &[0, 23, 99], &[6]);
        assert_eq!(document.skip, 1 | 1 << 23 | 1 << 30);
        let all: Vec<u8> = (0..24).collect();
        assert_eq!(Document::new(None, &all, &[0, 1, 2, 3, 4, 5, 6]).skip, 0);
        let mut state = State::default();
        Document { ttl: Some(Duration::from_secs(61)), skip: 1 }.keep(&mut state);
        assert_eq!((state.ttl, state.skip), (2, 1));
    }

    proptest! {
        #[test]
        fn an_allowed_instant_is_never_left_out_nor_earlier(skip in 0u32..1 << 31, at in 0u32..2_000_000_000) {
            let skip = Document::new(
                None,
                &(0..24).filter(|bit| skip & (1 << bit) != 0).collect::<Vec<_>>(),
                &(0..7).filter(|bit| skip & (1 << (24 + bit)) != 0).collect::<Vec<_>>(),
            ).skip;
            let found = allowed(skip, at);
            let (hour, day) = hour_and_day(found);
            prop_assert!(found >= at && found <= at + 8 * DAY);
            prop_assert_eq!(skip & (1 << hour), 0);
            prop_assert_eq!(skip & (1 << (24 + day)), 0);
        }
    }
}
