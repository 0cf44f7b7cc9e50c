//! How the workers of one engine are shared out between sources and sites. Pure.
//!
//! A source that links to thousands of hosts, or a wildcard domain, could otherwise take every worker:
//! the queue is ordered by priority and time, and each of those hosts is due. So a claim makes two
//! passes. The first serves only sources and sites that hold less than their share of the workers; the
//! second hands out what is left, so that no worker is idle because of a share. Three limits hold in both:
//! a source or site whose response times are not known to be short holds at most half of the workers,
//! slow ones hold half of them together, and a quarter is kept for sites that are known to be fast.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use feedmill_formats::url as web;

use crate::model::UrlHash;

/// The number that stands for tasks that no source owns.
pub const NO_SOURCE: i64 = -1;

/// Of the workers, the part that polls get before pages: one in so many.
const POLL_RESERVE: usize = 4;
/// Of the workers, the part that is kept for sites that are known to be fast: one in so many.
const FAST_RESERVE: usize = 4;

/// The number of a host's site, its registrable domain. It is never 0.
#[must_use]
pub fn site_number(host: &str) -> i64 {
    match UrlHash::of(web::site(host)).head() {
        0 => 1,
        number => number,
    }
}

/// On whose behalf and where a request is made: what the workers are shared out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The source that owns the task, or [`NO_SOURCE`].
    pub source: i64,
    /// The number of the host's site.
    pub site: i64,
}

/// How long requests of a source or site take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    /// Too few were made to tell.
    #[default]
    Unknown,
    /// Not long.
    Fast,
    /// So long that they must not hold every worker.
    Slow,
}

/// What one source or one site does now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    /// Workers that it holds.
    pub held: usize,
    /// How long its requests take.
    pub speed: Speed,
}

/// Which of the two passes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Only who holds less than its share.
    Share,
    /// Whoever waits, for workers that would be idle otherwise.
    Rest,
}

impl Pass {
    /// Both, in order.
    pub const ALL: [Self; 2] = [Self::Share, Self::Rest];
}

/// Why a due task is not handed out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its source holds as many workers as it may.
    Source,
    /// Its site holds as many workers as it may.
    Site,
    /// Slow sources and sites hold as many workers as they may.
    Slow,
    /// Its site is not known to be fast, and the workers for such sites are all taken.
    Unproven,
    /// Its source gets nothing more today.
    Quota,
}

/// The sources and sites that a claim passes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Avoid {
    /// Numbers of sources that are passed over.
    pub sources: Vec<i64>,
    /// Which sites are.
    pub sites: AvoidSites,
}

/// The sites that a claim passes over, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AvoidSites {
    /// These.
    These(Vec<i64>),
    /// All but these.
    AllBut(Vec<i64>),
}

impl Avoid {
    const NOBODY: Self = Self { sources: Vec::new(), sites: AvoidSites::These(Vec::new()) };

    /// Whether nobody is passed over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::NOBODY
    }
}

/// The workers of an engine and who holds them.
#[derive(Clone, Debug, Default)]
pub struct WorkerShares {
    /// How many workers there are; 0 = nothing is shared out, everything is allowed.
    workers: usize,
    sources: HashMap<i64, Flow>,
    sites: HashMap<i64, Flow>,
    /// Tasks that wait for slow sources or sites.
    slow: usize,
    /// Workers that serve sites that are not known to be fast.
    unproven: usize,
    /// Workers that poll.
    polls: usize,
    /// Sources that get no worker at all.
    stopped: Arc<HashSet<i64>>,
}

impl WorkerShares {
    /// No limits: for those who claim single tasks, or have no workers to share out.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// So many workers and who holds them, `polls` of them polling.
    #[must_use]
    pub fn new(
        workers: usize,
        sources: HashMap<i64, Flow>,
        sites: HashMap<i64, Flow>,
        polls: usize,
    ) -> Self {
        Self { workers, sources, sites, slow: 0, unproven: 0, polls, stopped: Arc::default() }
    }

    /// The same without these sources.
    #[must_use]
    pub fn without(self, stopped: Arc<HashSet<i64>>) -> Self {
        Self { stopped, ..self }
    }

    /// The same with all that is under way and for how many milliseconds: those count as slow that took long
    /// already, or are likely to. As many as [`Self::waiting_places`] of those that took longest hold no worker.
    #[must_use]
    pub fn holding(
        mut self,
        under_way: impl Iterator<Item = (FlowKey, u64)>,
        slow_limit_ms: u64,
    ) -> Self {
        let mut left_worker = 0;
        for (key, for_ms) in under_way {
            let is_late = for_ms > slow_limit_ms;
            let is_unproven = is_late || !self.is_fast(key);
            self.slow += usize::from(is_late || self.is_slow(key));
            self.unproven += usize::from(is_unproven);
            left_worker += usize::from(is_unproven && for_ms > LEAVES_WORKER_MS);
        }
        self.unproven -= left_worker.min(Self::waiting_places(self.workers));
        self
    }

    /// The same with sites that are known to be fast and hold nothing.
    #[must_use]
    pub fn with_fast_sites(mut self, sites: impl Iterator<Item = i64>) -> Self {
        for site in sites {
            self.sites.entry(site).or_insert(Flow { held: 0, speed: Speed::Fast });
        }
        self
    }

    /// How many tasks that take long leave their worker to others.
    #[must_use]
    pub const fn waiting_places(workers: usize) -> usize {
        if workers < 2 { 1 } else { workers / 2 }
    }

    const fn half(&self) -> usize {
        Self::waiting_places(self.workers)
    }

    /// Whether only sites that are known to be fast get a worker.
    #[must_use]
    pub const fn is_for_fast_sites(&self) -> bool {
        let reserve = self.workers / FAST_RESERVE;
        reserve > 0 && self.unproven >= self.workers - reserve
    }

    fn is_fast(&self, key: FlowKey) -> bool {
        self.sites.get(&key.site).is_some_and(|flow| flow.speed == Speed::Fast)
    }

    /// What a flow may hold in a pass when `active` flows hold something, itself counted.
    fn limit(&self, flow: Flow, active: usize, pass: Pass) -> usize {
        let most = if flow.speed == Speed::Fast { self.workers } else { self.half() };
        let share = match pass {
            // One part stays for somebody who holds nothing yet.
            Pass::Share => (self.workers / (active + 1)).max(1),
            Pass::Rest => most,
        };
        share.min(most)
    }

    fn is_full(&self, flows: &HashMap<i64, Flow>, number: i64, pass: Pass) -> bool {
        let flow = flows.get(&number).copied().unwrap_or_default();
        let others = active(flows) - usize::from(flow.held > 0);
        flow.held >= self.limit(flow, others + 1, pass)
    }

    fn is_slow(&self, key: FlowKey) -> bool {
        let slow = |flow: Option<&Flow>| flow.is_some_and(|flow| flow.speed == Speed::Slow);
        slow(self.sources.get(&key.source)) || slow(self.sites.get(&key.site))
    }

    /// Whether a task may be handed out in this pass.
    pub fn allows(&self, key: FlowKey, pass: Pass) -> Result<(), Refusal> {
        if self.workers == 0 {
            return Ok(());
        }
        if self.stopped.contains(&key.source) {
            return Err(Refusal::Quota);
        }
        if self.is_full(&self.sources, key.source, pass) {
            return Err(Refusal::Source);
        }
        if self.is_full(&self.sites, key.site, pass) {
            return Err(Refusal::Site);
        }
        if self.slow >= self.half() && self.is_slow(key) {
            return Err(Refusal::Slow);
        }
        if self.is_for_fast_sites() && !self.is_fast(key) {
            return Err(Refusal::Unproven);
        }
        Ok(())
    }

    /// Counts a task that was handed out.
    pub fn take(&mut self, key: FlowKey, is_poll: bool) {
        self.slow += usize::from(self.is_slow(key));
        self.unproven += usize::from(!self.is_fast(key));
        self.polls += usize::from(is_poll);
        self.sources.entry(key.source).or_default().held += 1;
        self.sites.entry(key.site).or_default().held += 1;
    }

    /// Everybody whom [`Self::allows`] refuses in this pass, for the database to pass over.
    #[must_use]
    pub fn avoid(&self, pass: Pass) -> Avoid {
        if self.workers == 0 {
            return Avoid::NOBODY;
        }
        let no_slow = self.slow >= self.half();
        let is_full = |flow: Flow, active: usize| {
            let active = active + usize::from(flow.held == 0);
            flow.held >= self.limit(flow, active, pass) || (no_slow && flow.speed == Speed::Slow)
        };
        let (of_sources, of_sites) = (active(&self.sources), active(&self.sites));
        let mut sources = numbers(&self.sources, |flow| is_full(flow, of_sources));
        sources.extend(self.stopped.iter());
        sources.sort_unstable();
        sources.dedup();
        let sites = if self.is_for_fast_sites() {
            let is_free = |flow: Flow| flow.speed == Speed::Fast && !is_full(flow, of_sites);
            AvoidSites::AllBut(numbers(&self.sites, is_free))
        } else {
            AvoidSites::These(numbers(&self.sites, |flow| is_full(flow, of_sites)))
        };
        Avoid { sources, sites }
    }

    /// How many tasks a claim for `n` takes from the lane of polls before it looks at priorities:
    /// pages that feeds lead to go before polls, and there can be any number of them.
    #[must_use]
    pub fn polls_first(&self, n: usize) -> usize {
        let reserve = match self.workers {
            // A single worker takes turns by priority and waiting time alone.
            0 | 1 => 0,
            workers => (workers / POLL_RESERVE).max(1),
        };
        reserve.saturating_sub(self.polls).min(n)
    }

    /// Whether anything at all is limited now.
    #[must_use]
    pub fn limits_anything(&self) -> bool {
        !self.avoid(Pass::Rest).is_empty()
    }
}

/// The numbers of the flows that are so, in order.
fn numbers(flows: &HashMap<i64, Flow>, is_so: impl Fn(Flow) -> bool) -> Vec<i64> {
    let mut numbers: Vec<i64> =
        flows.iter().filter(|(_, flow)| is_so(**flow)).map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    numbers
}

fn active(flows: &HashMap<i64, Flow>) -> usize {
    flows.values().filter(|flow| flow.held > 0).count()
}

/// Requests that take longer can be slow, in milliseconds, unless that is usual here.
pub const SLOW_MS: u64 = 500;
/// A task that takes longer, in milliseconds, leaves its worker to another one while there is a place to wait in.
pub const LEAVES_WORKER_MS: u64 = 3_000;
/// Where most sources take long, a request is slow that takes so many times as long as the middle one's.
const SLOWER_THAN_USUAL: u64 = 4;
/// But whatever most sources do, requests that take longer are slow, in milliseconds, while any source takes
/// a quarter of that or less.
const SLOW_ANYWHERE_MS: u64 = 1_000;
/// Requests before a source or site can be called fast.
const SAMPLES: u32 = 3;
/// The time of slow requests that makes a source or site slow: so many times the time of the shortest slow one.
const SLOW_EVIDENCE: u64 = 5;
/// One request counts with so many of these at the most: a single time-out makes nobody slow, and two do.
const ONE_EVIDENCE: u64 = 3;
/// All requests count with so many at the most, so that it is forgiven in a while.
const MOST_EVIDENCE: u64 = 20;
/// A millisecond of slow requests is forgotten after so many.
const FORGIVEN_AFTER: u64 = 50;

/// How long requests to a source or site take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseTime {
    /// Of the last few requests.
    average_ms: u64,
    samples: u32,
    /// Those of them that were for pages.
    pages: u32,
    /// The time that slow requests took. It decreases with time and not with fast requests: a source of which
    /// one request in ten is slow keeps as many workers waiting as one of which all are.
    slow_ms: u64,
    slow_at_ms: u64,
}

impl ResponseTime {
    /// Counts a request that ended at `at_ms`, by any clock that only goes forward.
    pub fn record(&mut self, took_ms: u64, is_page: bool, slow_limit_ms: u64, at_ms: u64) {
        self.average_ms = match self.samples {
            0 => took_ms,
            _ => (self.average_ms * 3 + took_ms) / 4,
        };
        self.samples = self.samples.saturating_add(1);
        self.pages = self.pages.saturating_add(u32::from(is_page));
        if took_ms > slow_limit_ms {
            let counted = took_ms.min(slow_limit_ms * ONE_EVIDENCE);
            let slow_ms = self.slow_ms(at_ms) + counted;
            self.slow_ms = slow_ms.min(slow_limit_ms * MOST_EVIDENCE);
            self.slow_at_ms = at_ms;
        }
    }

    const fn slow_ms(self, at_ms: u64) -> u64 {
        self.slow_ms.saturating_sub(at_ms.saturating_sub(self.slow_at_ms) / FORGIVEN_AFTER)
    }

    /// How long its requests take, by the limit that [`slow_limit`] gives.
    #[must_use]
    pub const fn speed(self, slow_limit_ms: u64, at_ms: u64) -> Speed {
        let slow_ms = self.slow_ms(at_ms);
        if slow_ms >= slow_limit_ms * SLOW_EVIDENCE {
            return Speed::Slow;
        }
        // Fast polls say nothing about pages.
        let is_known = self.samples >= SAMPLES && (self.pages == 0 || self.pages >= SAMPLES);
        if is_known && slow_ms <= slow_limit_ms * ONE_EVIDENCE {
            Speed::Fast
        } else {
            Speed::Unknown
        }
    }
}

/// Above which time a request is slow, by the averages of the sources: behind a slow line
/// everything takes long, and nobody is to be limited for it.
///
/// Most sources may belong to somebody who means harm, so the middle one raises the limit only up to a bound.
/// Beyond that it follows the fastest source, which nobody can make slower by adding more.
#[must_use]
pub fn slow_limit(sources: impl Iterator<Item = ResponseTime>) -> u64 {
    let known = sources.filter(|of| of.samples >= SAMPLES);
    let mut averages: Vec<u64> = known.map(|of| of.average_ms).collect();
    let middle = averages.len().saturating_sub(1) / 2;
    let (fastest, usual) = match averages.len() {
        0 => (0, 0),
        _ => {
            let (below, usual, _) = averages.select_nth_unstable(middle);
            (below.iter().copied().min().unwrap_or(*usual), *usual)
        }
    };
    let times = |average: u64| average.saturating_mul(SLOWER_THAN_USUAL);
    SLOW_MS.max(times(usual).min(SLOW_ANYWHERE_MS)).max(times(fastest))
}

/// Flows by what they hold and by how long they take, `speed` says; `late` have not answered for long.
#[must_use]
pub fn flows(
    held: &HashMap<i64, usize>,
    times: &HashMap<i64, ResponseTime>,
    speed: impl Fn(ResponseTime) -> Speed,
    late: &HashSet<i64>,
) -> HashMap<i64, Flow> {
    let speed_of = |number: &i64| match times.get(number) {
        _ if late.contains(number) => Speed::Slow,
        Some(time) => speed(*time),
        None => Speed::Unknown,
    };
    let slow = times.iter().filter(|(_, time)| speed(**time) == Speed::Slow);
    held.keys()
        .chain(slow.map(|(number, _)| number))
        .map(|number| {
            (
                *number,
                Flow { held: held.get(number).copied().unwrap_or(0), speed: speed_of(number) },
            )
        })
        .collect()
}

#[cfg(test)]
mod tests;
