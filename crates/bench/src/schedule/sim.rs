//! Virtual time: polls feeds as a planner says, and scores what that brought.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{DefaultHasher, Hasher};

use feedmill::schedule::{Document, Found, Hints, Made, RECENT};

use super::dice::unit;
use super::workload::{DAY, Feed, Workload};

/// How often the price is looked at, in seconds.
pub(crate) const TICK: u32 = 600;

/// A policy at work on all feeds.
pub(crate) trait Planner {
    /// When to poll after a success.
    fn succeeded(&mut self, feed: usize, found: &Found<'_>, hints: &Hints) -> u32;

    /// When to poll after a failure; `told` is what the server asked for.
    fn failed(&mut self, feed: usize, at: u32, told: Option<u32>) -> u32;

    /// Some time has passed, with so many polls.
    fn tick(&mut self, _made: Made) {}
}

/// What a run brought, in the scored time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Score {
    pub(crate) polls_per_day: f64,
    /// Minutes from publication to discovery.
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    /// The mean of the feeds' own means.
    pub(crate) macro_mean: f64,
    /// Percent of items that left the document unseen.
    pub(crate) loss: f64,
    /// Percent of polls that brought nothing.
    pub(crate) wasted: f64,
    /// Answers 429.
    pub(crate) complaints: u64,
    /// Polls before the time that a server had asked for.
    pub(crate) hasty: u64,
    /// Over every poll: equal runs have equal hashes.
    pub(crate) hash: u64,
}

/// A feed during a run.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Items seen or lost.
    until: usize,
    last: u32,
    not_before: u32,
}

#[derive(Default)]
struct Tally {
    delays: Vec<u32>,
    own_means: Vec<(f64, u32)>,
    lost: u64,
    polls: u64,
    wasted: u64,
    complaints: u64,
    hasty: u64,
}

/// Runs a planner; `log` hears of every poll.
pub(crate) fn run(
    workload: &Workload,
    planner: &mut dyn Planner,
    seed: u64,
    mut log: impl FnMut(usize, u32),
) -> Score {
    let mut seen = vec![Seen::default(); workload.feeds.len()];
    let mut queue: BinaryHeap<Reverse<(u32, usize)>> = (0..workload.feeds.len())
        .map(|feed| {
            // Not all at once: over the first quarter of an hour.
            let later = (unit(seed ^ (feed as u64) << 20) * 900.0) as u32;
            Reverse((workload.start + later, feed))
        })
        .collect();
    let mut tally = Tally { own_means: vec![(0.0, 0); workload.feeds.len()], ..Tally::default() };
    let mut hasher = DefaultHasher::new();
    let mut made = Counted::new(workload.start);
    while let Some(Reverse((at, index))) = queue.pop() {
        if at >= workload.end {
            break;
        }
        while let Some(polls) = made.passed(at) {
            planner.tick(polls);
        }
        made.count();
        log(index, at);
        hasher.write_u32(at);
        hasher.write_usize(index);
        let (Some(feed), Some(seen)) = (workload.feeds.get(index), seen.get_mut(index)) else {
            continue;
        };
        let next = poll(workload, planner, &mut tally, (feed, seen), (index, at, seed));
        queue.push(Reverse((next.max(at + 1), index)));
    }
    tally.score(workload, hasher.finish())
}

/// Polls of the last day.
struct Counted {
    slots: [u32; (DAY / TICK) as usize],
    start: u32,
    tick: u32,
}

impl Counted {
    const fn new(start: u32) -> Self {
        Self { slots: [0; (DAY / TICK) as usize], start, tick: 0 }
    }

    fn count(&mut self) {
        let slot = self.tick as usize % self.slots.len();
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot += 1;
        }
    }

    /// The next tick that lies before `at`, with the polls of the day before it.
    fn passed(&mut self, at: u32) -> Option<Made> {
        if (at - self.start) / TICK <= self.tick {
            return None;
        }
        let whole = self.tick as usize + 1 >= self.slots.len();
        let in_a_day = whole.then(|| f64::from(self.slots.iter().sum::<u32>()));
        let last = self.slots.get(self.tick as usize % self.slots.len()).copied().unwrap_or(0);
        let made = Made { in_a_day, since: last.into(), hours: f64::from(TICK) / 3600.0 };
        self.tick += 1;
        let slot = self.tick as usize % self.slots.len();
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = 0;
        }
        Some(made)
    }
}

fn poll(
    workload: &Workload,
    planner: &mut dyn Planner,
    tally: &mut Tally,
    (feed, seen): (&Feed, &mut Seen),
    (index, at, seed): (usize, u32, u64),
) -> u32 {
    let scored = at >= workload.scored_from;
    tally.polls += u64::from(scored);
    tally.hasty += u64::from(scored && at < seen.not_before);
    let soon = seen.last > 0 && at - seen.last < feed.host_min;
    if soon {
        tally.complaints += u64::from(scored);
        tally.wasted += u64::from(scored);
        seen.not_before = seen.last + feed.host_min;
        return planner.failed(index, at, Some(seen.not_before));
    }
    seen.last = at;
    let chance = unit(seed ^ (index as u64).wrapping_mul(0x5851_f42d) ^ u64::from(at) << 17);
    let down = feed.outages.iter().any(|(from, until)| (*from..*until).contains(&at));
    if down || chance < feed.p_err {
        tally.wasted += u64::from(scored);
        return planner.failed(index, at, None);
    }
    let there = feed.times.partition_point(|time| *time <= at);
    let oldest = there.saturating_sub(feed.window);
    let from = seen.until.max(oldest);
    let new = feed.times.get(from..there).unwrap_or_default();
    let lost = feed.times.get(seen.until..from).unwrap_or_default();
    let is_scored = |time: &&u32| **time >= workload.scored_from;
    tally.lost += lost.iter().filter(is_scored).count() as u64;
    tally.wasted += u64::from(scored && new.is_empty());
    for time in new.iter().filter(is_scored) {
        tally.delays.push(at - time);
        if let Some((sum, count)) = tally.own_means.get_mut(index) {
            *sum += f64::from(at - time);
            *count += 1;
        }
    }
    let changed = !new.is_empty() || seen.until == 0;
    seen.until = there;
    let document = changed.then(|| Document {
        ttl: (feed.ttl > 0).then(|| std::time::Duration::from_mins(u64::from(feed.ttl))),
        skip: feed.skip,
    });
    let fresh = std::time::Duration::from_secs(u64::from(feed.max_age));
    let hints = Hints { document, fresh: Some(fresh).filter(|f| !f.is_zero()), conditional: true };
    let items = changed.then(|| u32::try_from(there - oldest).unwrap_or(u32::MAX));
    let (dated, undated) = if feed.undated { (&[][..], new.len() as u32) } else { (new, 0) };
    let recent = there.saturating_sub(RECENT).max(oldest);
    let recent = if feed.undated { &[] } else { feed.times.get(recent..there).unwrap_or_default() };
    planner.succeeded(index, &Found { at, dated, undated, items, recent }, &hints)
}

impl Tally {
    fn score(mut self, workload: &Workload, hash: u64) -> Score {
        self.delays.sort_unstable();
        let found = self.delays.len();
        let quantile = |share: f64| {
            let at = (share * found as f64) as usize;
            self.delays.get(at.min(found.saturating_sub(1))).map_or(0.0, |d| f64::from(*d) / 60.0)
        };
        let sum: f64 = self.delays.iter().map(|delay| f64::from(*delay)).sum();
        let own: Vec<f64> = self
            .own_means
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(sum, count)| sum / f64::from(*count))
            .collect();
        Score {
            polls_per_day: self.polls as f64 / workload.scored_days(),
            mean: sum / found.max(1) as f64 / 60.0,
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            macro_mean: own.iter().sum::<f64>() / own.len().max(1) as f64 / 60.0,
            loss: 100.0 * self.lost as f64 / (found as u64 + self.lost).max(1) as f64,
            wasted: 100.0 * self.wasted as f64 / self.polls.max(1) as f64,
            complaints: self.complaints,
            hasty: self.hasty,
            hash,
        }
    }
}
