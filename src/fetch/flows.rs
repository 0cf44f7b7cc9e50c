//! What is under way in this engine, by source and by site, and how long their requests take.
//!
//! The dispatcher asks it for the shares that a claim has to keep (`frontier/fairness.rs`). Nothing of it
//! is stored: each engine shares out its own workers, by what it saw itself.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::frontier::WorkerShares;
use crate::frontier::fairness::{
    FlowKey, NO_SOURCE, ResponseTime, Speed, flows, site_number, slow_limit,
};
use crate::model::{Kind, Lane, Lease};

/// Sources, and sites, whose response times are remembered.
const REMEMBERED: usize = 4_096;

/// What is under way, and what was; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug)]
struct State {
    began: Instant,
    next: u64,
    under_way: HashMap<u64, UnderWay>,
    sources: Times,
    sites: Times,
    ended_at: Option<Instant>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            next: 0,
            under_way: HashMap::new(),
            sources: Times::default(),
            sites: Times::default(),
            ended_at: None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    key: FlowKey,
    is_poll: bool,
    is_page: bool,
    since: Instant,
}

impl UnderWay {
    fn for_ms(&self) -> u64 {
        ms(self.since.elapsed())
    }
}

/// Response times by source or by site; of too many the one that was used longest ago goes.
#[derive(Debug, Default)]
struct Times {
    by_number: HashMap<i64, ResponseTime>,
    used: HashMap<i64, u64>,
    turn: u64,
}

impl Times {
    /// Counts a request that took so long and was for a page, or was not.
    fn record(&mut self, number: i64, request: (u64, bool), limit_ms: u64, at_ms: u64) {
        self.turn += 1;
        let (took_ms, is_page) = request;
        self.by_number.entry(number).or_default().record(took_ms, is_page, limit_ms, at_ms);
        self.used.insert(number, self.turn);
        if self.by_number.len() > REMEMBERED {
            let oldest = self.used.iter().min_by_key(|(_, turn)| **turn).map(|(number, _)| *number);
            if let Some(oldest) = oldest {
                self.by_number.remove(&oldest);
                self.used.remove(&oldest);
            }
        }
    }
}

/// A lease that is under way until this is dropped.
#[derive(Debug)]
pub(super) struct FlowGuard {
    flows: Flows,
    id: u64,
}

impl Flows {
    /// A lease is begun.
    pub(super) fn begin(&self, lease: &Lease) -> FlowGuard {
        let key = FlowKey {
            source: lease.source.as_ref().map_or(NO_SOURCE, |source| source.id.0),
            site: site_number(&lease.task.host),
        };
        let kind = lease.task.kind;
        let is_poll = kind.lane() == Lane::Poll && kind != Kind::Robots;
        let is_page = matches!(kind, Kind::Article | Kind::Archive | Kind::Enclosure);
        let id = self.with(|state| {
            state.next += 1;
            let begun = UnderWay { key, is_poll, is_page, since: Instant::now() };
            state.under_way.insert(state.next, begun);
            state.next
        });
        FlowGuard { flows: self.clone(), id }
    }

    /// The shares that a claim has to keep.
    pub(super) fn shares(&self, workers: usize) -> WorkerShares {
        self.with(|state| state.shares(workers))
    }

    /// Whether nothing is under way, and nothing was for so long.
    pub(super) fn is_quiet(&self, span: Duration) -> bool {
        self.with(|state| {
            let is_over = state.ended_at.is_none_or(|at| at.elapsed() >= span);
            state.under_way.is_empty() && is_over
        })
    }

    /// Waits until something that was under way has ended.
    pub(super) async fn ended(&self) {
        self.0.ended.notified().await;
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn shares(&self, workers: usize) -> WorkerShares {
        let (mut sources, mut sites) = (HashMap::new(), HashMap::new());
        let (limit, now) = (self.slow_limit(), self.now_ms());
        let (mut late_sources, mut late_sites) = (HashMap::new(), HashSet::new());
        let mut polls = 0;
        for task in self.under_way.values() {
            *sources.entry(task.key.source).or_insert(0) += 1;
            *sites.entry(task.key.site).or_insert(0) += 1;
            polls += usize::from(task.is_poll);
            if task.for_ms() > limit {
                *late_sources.entry(task.key.source).or_insert(0) += 1;
                late_sites.insert(task.key.site);
            }
        }
        // One page that hangs says something of its site, and nothing of the source that led there.
        let late_sources =
            late_sources.into_iter().filter(|(_, count)| *count > 1).map(|(source, _)| source);
        let speed = |time: ResponseTime| time.speed(limit, now);
        let sources = flows(&sources, &self.sources.by_number, speed, &late_sources.collect());
        let sites = flows(&sites, &self.sites.by_number, speed, &late_sites);
        let under_way = self.under_way.values().map(|task| (task.key, task.for_ms()));
        let shares = WorkerShares::new(workers, sources, sites, polls).holding(under_way, limit);
        if !shares.is_for_fast_sites() {
            return shares;
        }
        let fast = self.sites.by_number.iter().filter(|(_, time)| speed(**time) == Speed::Fast);
        shares.with_fast_sites(fast.map(|(site, _)| *site))
    }

    fn slow_limit(&self) -> u64 {
        slow_limit(self.sources.by_number.values().copied())
    }

    fn now_ms(&self) -> u64 {
        ms(self.began.elapsed())
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Drop for FlowGuard {
    fn drop(&mut self) {
        self.flows.with(|state| {
            let Some(task) = state.under_way.remove(&self.id) else { return };
            state.ended_at = Some(Instant::now());
            let (limit, now) = (state.slow_limit(), state.now_ms());
            let request = (task.for_ms(), task.is_page);
            state.sources.record(task.key.source, request, limit, now);
            state.sites.record(task.key.site, request, limit, now);
        });
        self.flows.0.ended.notify_one();
    }
}
