//! How a source is doing, told by its own rhythm: quiet as usual is not late, and unchanged is not
//! frozen unless somebody else saw news.
//!
//! A verdict from facts; who tells of a change of verdict is not decided here.

use super::profile::{Outlook, Profile};
use super::state::State;
use super::value::{self, Found};
use crate::model::{Class, Code, Health};

/// A silence that had at most this chance is late: with daily looks at a hundred feeds, less than
/// one false alarm in a week.
const UNLIKELY: f64 = 1e-5;
/// A silence that had at most this chance is suspicious when others have news.
const SUSPICIOUS: f64 = 0.05;
/// Weeks of watching before a silence can be called unusual, in days of exposure.
const WATCHED: f32 = 7.0;
/// Items before a silence can be called unusual.
const KNOWN: f32 = 5.0;
/// Other channels' news that a feed must have missed to be called frozen.
const MISSED: u32 = 2;
/// Failures in a row after which a source counts as failing.
const FAILING: u32 = 3;

/// What a poll saw, as far as health goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// What came of the poll.
    pub code: Option<Code>,
    /// Items in the document, when there was one.
    pub items: Option<u32>,
    /// Items that were new.
    pub new_items: u32,
    /// Whether the document does not hold what was published since the poll before.
    pub overflowed: bool,
    /// Pages of the source that other channels told of since this one last had news.
    pub news_elsewhere: u32,
}

/// Whether more was published since the poll before than the document holds: nothing in it was known.
///
/// One that only ever shows the latest item or two is always like that: there the rhythm has to say
/// that more was to be expected.
#[must_use]
pub fn overflowed(before: &State, found: &Found<'_>) -> bool {
    let new = found.new_items();
    if before.last_ok == 0 || before.window == 0 || new == 0 || found.items != Some(new) {
        return false;
    }
    let days = f64::from(found.at.saturating_sub(before.last_ok)) / f64::from(value::DAY);
    new >= value::FEW || before.rate() * days > f64::from(new) / 2.0
}

/// The verdict on a feed after a poll at `at`; `before` is the one until now.
#[must_use]
pub fn judge(state: &State, signs: &Signs, at: u32, before: Health) -> Health {
    if let Some(code) = signs.code.filter(|code| code.class() != Class::Fine) {
        return failed(state, code, before);
    }
    match signs.items {
        Some(0) => return Health::Empty,
        Some(_) if signs.overflowed => return Health::Overflowing,
        // Still so until a document shows an item that was there before.
        None if before == Health::Empty => return before,
        _ => {}
    }
    let chance = chance_of_silence(state, at);
    let missed = signs.news_elsewhere >= MISSED && chance < SUSPICIOUS;
    // Frozen until it has news of its own.
    if signs.new_items == 0 && (missed || before == Health::Frozen) {
        return Health::Frozen;
    }
    if chance < UNLIKELY { Health::Late } else { Health::Usual }
}

fn failed(state: &State, code: Code, before: Health) -> Health {
    match code.class() {
        Class::Forbidden => Health::Blocked,
        Class::Final if matches!(code, Code::Unauthorized | Code::RobotsBlocked) => Health::Blocked,
        Class::Final => Health::Failing,
        _ if code == Code::Empty => Health::Empty,
        _ if state.failures() >= FAILING || state.disabled => Health::Failing,
        _ => before,
    }
}

/// How likely it is that a feed of this rate and rhythm has been silent since its last item.
fn chance_of_silence(state: &State, at: u32) -> f64 {
    if state.last_item == 0 || state.n < KNOWN || state.e < WATCHED {
        return 1.0;
    }
    let from = state.last_item.max(at.saturating_sub(14 * value::DAY));
    let profile = Profile::of(state);
    let mass = Outlook::new(&profile, from).mass(at);
    let older = f64::from(from - state.last_item);
    let expected = value::rate(state) / f64::from(value::DAY) * (mass + older);
    // Who posts in bursts is silent in between for longer.
    (-expected / f64::from(state.fano).max(1.0)).exp()
}

#[cfg(test)]
mod tests;
