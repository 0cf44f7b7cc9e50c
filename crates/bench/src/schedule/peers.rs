//! Policies: ours as the product has it, and what others do.

use feedmill::model::{Code, Kind, PollPolicy, TaskId, Ts};
use feedmill::schedule::{Found, Hints, Made, Policy, Poll, PollFailure, Price, Rates, State};

use super::dice::unit;
use super::sim::Planner;

const MINUTE: u32 = 60;
const HOUR: u32 = 3600;
const DAY: u32 = 86_400;
const WEEK: f64 = 7.0 * 86_400.0;
const MIN: f64 = 300.0;
const MAX: f64 = 86_400.0;

/// Ours, under a budget in polls a day.
pub(crate) struct Ours {
    policy: Policy,
    states: Vec<State>,
    pub(crate) price: Price,
    budget: f64,
}

/// The product's defaults.
pub(crate) fn policy(mode: PollPolicy, seed: u64) -> Policy {
    let span = |seconds: u32| std::time::Duration::from_secs(u64::from(seconds));
    Policy {
        choose: mode,
        feed_interval: span(15 * MINUTE),
        sitemap_interval: span(6 * HOUR),
        min_interval: span(5 * MINUTE),
        max_interval: span(DAY),
        jitter: 0.05,
        jitter_respects_min: true,
        ewma: feedmill::schedule::Factors::default(),
        waits: feedmill::schedule::Waits::default(),
        once: false,
        retries: 3,
        retry_first: span(MINUTE),
        retry_cap: span(DAY),
        seed,
    }
}

impl Ours {
    pub(crate) fn new(mode: PollPolicy, feeds: usize, budget: f64, seed: u64) -> Self {
        let states = vec![State::default(); feeds];
        Self { policy: policy(mode, seed), states, price: Price::default(), budget }
    }

    fn poll<'a>(&self, feed: usize, at: u32, state: &'a State) -> Poll<'a> {
        Poll {
            task: TaskId(feed as i64),
            kind: Kind::Feed,
            explicit: None,
            policy: None,
            limits: (None, None),
            due: ts(at),
            at: ts(at),
            state,
            price: self.price.value,
        }
    }
}

const fn ts(seconds: u32) -> Ts {
    Ts::from_ms(seconds as i64 * 1000)
}

fn seconds(at: Ts) -> u32 {
    u32::try_from((at.ms() + 999) / 1000).unwrap_or(u32::MAX)
}

impl Planner for Ours {
    fn succeeded(&mut self, feed: usize, found: &Found<'_>, hints: &Hints) -> u32 {
        let state = self.states.get(feed).copied().unwrap_or_default();
        let (state, decision) =
            self.policy.next_poll(&self.poll(feed, found.at, &state), found, hints);
        if let Some(kept) = self.states.get_mut(feed) {
            *kept = state;
        }
        seconds(decision.at)
    }

    fn failed(&mut self, feed: usize, at: u32, told: Option<u32>) -> u32 {
        let state = self.states.get(feed).copied().unwrap_or_default();
        let (code, status) = match told {
            Some(_) => (Code::RateLimited, Some(429)),
            None => (Code::Upstream, Some(500)),
        };
        let poll = self.poll(feed, at, &state);
        let failure = PollFailure { status, told: told.map(ts), ..PollFailure::new(code) };
        let failed = self.policy.after_failure(&poll, &failure);
        if let Some(kept) = self.states.get_mut(feed) {
            *kept = failed.state;
        }
        failed.next.map_or(u32::MAX, |next| seconds(next.at))
    }

    fn tick(&mut self, made: Made) {
        let mut rates = Rates::default();
        for state in self.states.iter().filter(|state| state.last_ok > 0) {
            rates.add(Rates::bucket(state.rate()), 1);
        }
        self.price = self.price.solved(&rates, self.budget, made, self.policy.bounds());
    }
}

/// The others: an interval for each feed, and how it moves.
pub(crate) struct Peer {
    rule: Rule,
    intervals: Vec<f64>,
    smoothed: Vec<f64>,
    /// Discovery times of the last week's items, for who looks at those.
    weeks: Vec<Vec<u32>>,
    seed: u64,
}

/// How an interval moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// Always the same, in seconds.
    Fixed(f64),
    /// The seed's pseudocode as it is written; intervals times a factor.
    Seed(f64),
    /// Miniflux' `entry_frequency` with its factor.
    Miniflux(f64),
    /// `StormCrawler`'s adaptive scheduler with its least interval, in seconds.
    StormCrawler(f64),
}

impl Peer {
    pub(crate) fn new(rule: Rule, feeds: usize, seed: u64) -> Self {
        let start = match rule {
            Rule::Fixed(interval) => interval,
            Rule::Seed(_) | Rule::Miniflux(_) => 900.0,
            Rule::StormCrawler(min) => min,
        };
        Self {
            rule,
            intervals: vec![start; feeds],
            smoothed: vec![0.0; feeds],
            weeks: vec![Vec::new(); feeds],
            seed,
        }
    }

    fn next(&self, feed: usize, at: u32, interval: f64) -> u32 {
        let chance = unit(self.seed ^ (feed as u64) << 32 ^ u64::from(at));
        let factor = match self.rule {
            Rule::Fixed(_) => 1.0 + 0.05 * chance,
            Rule::Seed(scale) => scale * (0.85 + 0.3 * chance),
            Rule::Miniflux(_) | Rule::StormCrawler(_) => 1.0,
        };
        at.saturating_add((interval * factor) as u32)
    }

    /// The seed draws every new interval to the smoothed time between items.
    fn blended(interval: f64, smoothed: f64) -> f64 {
        if smoothed <= 0.0 {
            return interval;
        }
        (0.5 * smoothed.clamp(MIN, MAX) + 0.5 * interval).clamp(MIN, MAX)
    }
}

impl Planner for Peer {
    fn succeeded(&mut self, feed: usize, found: &Found<'_>, _hints: &Hints) -> u32 {
        let news = !found.dated.is_empty() || found.undated > 0;
        let (Some(interval), Some(smoothed), Some(week)) =
            (self.intervals.get_mut(feed), self.smoothed.get_mut(feed), self.weeks.get_mut(feed))
        else {
            return u32::MAX;
        };
        match self.rule {
            Rule::Fixed(_) => {}
            Rule::Seed(_) => {
                if news && let Some(gap) = smoothed_gap(found.recent) {
                    *smoothed = gap;
                }
                let stepped =
                    if news { (*interval * 0.75).max(MIN) } else { (*interval * 1.25).min(MAX) };
                *interval = Self::blended(stepped, *smoothed);
            }
            Rule::Miniflux(factor) => {
                week.extend(found.dated);
                week.retain(|time| f64::from(found.at) - f64::from(*time) < WEEK);
                *interval = miniflux(week, factor);
            }
            Rule::StormCrawler(min) => {
                *interval = if news {
                    0.5 * *interval + 0.5 * min
                } else {
                    (*interval * 1.5).min(14.0 * 86_400.0)
                };
            }
        }
        let interval = *interval;
        self.next(feed, found.at, interval)
    }

    fn failed(&mut self, feed: usize, at: u32, told: Option<u32>) -> u32 {
        let Some(interval) = self.intervals.get_mut(feed) else { return u32::MAX };
        if let (Rule::Seed(_), smoothed) = (self.rule, self.smoothed.get(feed)) {
            // No branch for errors but the last one: it blends, and overrides what it was told.
            if told.is_none() {
                *interval = Self::blended(*interval, smoothed.copied().unwrap_or(0.0));
            }
        }
        let interval = match self.rule {
            Rule::StormCrawler(_) => interval.min(7200.0),
            _ => *interval,
        };
        let next = self.next(feed, at, interval);
        match self.rule {
            Rule::Miniflux(_) => next.max(told.unwrap_or(0)),
            _ => next,
        }
    }
}

fn smoothed_gap(times: &[u32]) -> Option<f64> {
    let gaps = times.iter().zip(times.iter().skip(1));
    let gaps = gaps.map(|(earlier, later)| f64::from(later.saturating_sub(*earlier)));
    gaps.reduce(|smoothed, gap| 0.3 * gap + 0.7 * smoothed)
}

fn miniflux(week: &[u32], factor: f64) -> f64 {
    let (Some(first), Some(last)) = (week.iter().min(), week.iter().max()) else { return MAX };
    if week.len() < 2 {
        return MAX;
    }
    let gap = f64::from(last - first) / (week.len() - 1) as f64;
    let count = if gap > 0.0 { (WEEK / gap).ceil() } else { f64::INFINITY };
    (WEEK / (count * factor)).clamp(MIN, MAX)
}
