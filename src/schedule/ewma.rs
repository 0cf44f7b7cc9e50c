//! The `ewma` policy: an interval that shrinks with news and grows without, drawn towards the
//! smoothed time between two items.
//!
//! As the seed's design has it, with what was wrong there put right: silence counts as time between
//! items, an error never shortens a wait (the table of waits rules there), and a wait that the
//! server asked for is final.

use super::state::State;
use super::value::{Bounds, Found};

/// How the interval moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// What it is multiplied with when nothing was new.
    pub up: f64,
    /// What it is multiplied with when something was new.
    pub down: f64,
    /// The weight of the latest time between two items.
    pub alpha: f64,
    /// The weight of the smoothed time between items in the next interval.
    pub blend: f64,
}

impl Default for Factors {
    fn default() -> Self {
        Self { up: 1.25, down: 0.75, alpha: 0.3, blend: 0.5 }
    }
}

/// Publication times that are looked at.
pub const RECENT: usize = 20;

/// The next interval in seconds, with the word for why.
pub(super) fn step(
    state: &mut State,
    found: &Found<'_>,
    first: u32,
    bounds: Bounds,
    factors: &Factors,
) -> (u32, &'static str) {
    let Factors { up, down, alpha, blend } = *factors;
    if found.new_items() > 0
        && let Some(smoothed) = smoothed(found.recent, alpha)
    {
        state.ewma = smoothed as f32;
    }
    let (min, max) = (f64::from(bounds.min), f64::from(bounds.max.max(bounds.min)));
    let current = f64::from(if state.interval == 0 { first } else { state.interval });
    let (stepped, why) = match (found.new_items(), found.items) {
        (1.., _) => ((current * down).max(min), "new-entries"),
        (0, Some(_)) => ((current * up).min(max), "no-new-entries"),
        (0, None) => ((current * up).min(max), "not-modified"),
    };
    let target = target(state, found.at, alpha);
    let next =
        target.map_or(stepped, |target| blend * target.clamp(min, max) + (1.0 - blend) * stepped);
    (next.clamp(min, max) as u32, why)
}

/// The time to expect between two items. A silence that outlasts it is itself such a time, not yet
/// at its end.
fn target(state: &State, at: u32, alpha: f64) -> Option<f64> {
    let smoothed = f64::from(state.ewma);
    if smoothed <= 0.0 {
        return None;
    }
    let silence = f64::from(at.saturating_sub(state.last_item));
    let late = alpha * silence + (1.0 - alpha) * smoothed;
    Some(if state.last_item > 0 { smoothed.max(late) } else { smoothed })
}

/// The smoothed time between publications, oldest first.
fn smoothed(times: &[u32], alpha: f64) -> Option<f64> {
    let recent = times.len().saturating_sub(RECENT);
    let recent = times.get(recent..).unwrap_or_default();
    let gaps = recent.iter().zip(recent.iter().skip(1));
    let gaps = gaps.map(|(earlier, later)| f64::from(later.saturating_sub(*earlier)));
    gaps.reduce(|smoothed, gap| alpha * gap + (1.0 - alpha) * smoothed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { min: 300, max: 86_400 };

    fn step_once(state: &mut State, found: &Found<'_>) -> (u32, &'static str) {
        let (interval, why) = step(state, found, 900, BOUNDS, &Factors::default());
        state.interval = interval;
        (interval, why)
    }

    #[test]
    fn without_dates_only_the_factors_rule() {
        let mut state = State::default();
        let unchanged = Found { at: 1000, ..Found::default() };
        let same = Found { items: Some(20), ..unchanged };
        let news = Found { items: Some(20), undated: 2, ..unchanged };
        let steps = [unchanged, unchanged, same, news, news].map(|f| step_once(&mut state, &f));
        assert_eq!(
            steps,
            [
                (1125, "not-modified"),
                (1406, "not-modified"),
                (1757, "no-new-entries"),
                (1317, "new-entries"),
                (987, "new-entries"),
            ]
        );
        for _ in 0..60 {
            step_once(&mut state, &unchanged);
        }
        assert_eq!(state.interval, BOUNDS.max);
        for _ in 0..60 {
            step_once(&mut state, &news);
        }
        assert_eq!(state.interval, BOUNDS.min);
    }

    #[test]
    fn dates_draw_the_interval_to_the_smoothed_gap() {
        let mut state = State { last_item: 9000, ..State::default() };
        let times = [1800, 5400, 9000];
        let news =
            Found { at: 9000, dated: &times, items: Some(3), recent: &times, ..Found::default() };
        // 900 * 0.75 = 675, and half of it with half of an hour.
        assert_eq!(step_once(&mut state, &news), (2137, "new-entries"));
        assert_eq!(smoothed(&[0, 100, 400], 0.3), Some(0.3 * 300.0 + 0.7 * 100.0));
        assert_eq!(smoothed(&[5], 0.3), None);
    }

    #[test]
    fn only_the_last_twenty_dates_count() {
        let mut times: Vec<u32> = (0..30).map(|n| n * 100_000).collect();
        let last = times.last().copied().unwrap();
        times.extend((1..=RECENT as u32).map(|n| last + n * 60));
        assert_eq!(smoothed(&times, 0.3), Some(60.0));
    }

    #[test]
    fn a_feed_that_dies_fades() {
        let mut state = State { ewma: 600.0, last_item: 1000, ..State::default() };
        let mut at = 1000;
        for _ in 0..100 {
            let (interval, _) = step_once(&mut state, &Found { at, ..Found::default() });
            at += interval;
        }
        assert_eq!(state.interval, BOUNDS.max);
    }
}
