//! What monitors hear of an outcome: the figures that it adds to, once it is true.

use std::sync::atomic::Ordering;

use crate::model::{Code, Kind, Lease, Next, Outcome};
use crate::progress::Progress;
use crate::schedule::State;

/// How texts of articles are found. Others are counted together: labels have few values.
const METHODS: [&str; 6] = ["model", "selectors", "selectors_missed", "json_ld", "state", "feed"];

/// What an outcome adds to the figures.
pub(super) struct Tally {
    kind: Kind,
    code: Code,
    /// The task failed and comes back, or was given up.
    retried: Option<Code>,
    given_up: Option<Code>,
    entries: usize,
    article: Option<(&'static str, f64)>,
    poll: Option<Poll>,
}

/// What a poll of a channel adds.
struct Poll {
    failed: bool,
    new_items: u32,
    delays: Vec<u32>,
    interval: Option<f64>,
    ewma: f64,
    saved: u64,
}

impl Tally {
    pub(super) fn of(lease: &Lease, outcome: &Outcome) -> Self {
        let (retried, given_up) = match outcome.next {
            Next::Retry { code, .. } => (Some(code), None),
            Next::Dead { code } => (None, Some(code)),
            Next::Fetched | Next::Again { .. } | Next::Postpone { .. } => (None, None),
        };
        let article = outcome.article.as_ref().map(|fact| {
            let method = METHODS.iter().find(|known| **known == fact.article.method);
            (*method.unwrap_or(&"other"), f64::from(fact.article.confidence))
        });
        let poll = outcome.feed.as_ref().map(|fact| Poll {
            failed: fact.state.failures > 0,
            new_items: fact.new_items,
            delays: fact.figures.delays.clone(),
            interval: fact.state.interval_ms.map(|ms| ms as f64 / 1000.0),
            ewma: fact
                .state
                .schedule
                .as_deref()
                .and_then(State::from_bytes)
                .map_or(0.0, |state| f64::from(state.ewma)),
            saved: if outcome.code == Code::NotModified { fact.state.body_bytes } else { 0 },
        });
        let (kind, code) = (lease.task.kind, outcome.code);
        Self { kind, code, retried, given_up, entries: outcome.entries.len(), article, poll }
    }

    /// Counts it.
    pub(super) fn count(self, progress: &Progress) {
        let metrics = &progress.metrics;
        let failed = !matches!(self.code, Code::Ok | Code::NotModified | Code::Redirect);
        progress.errors.fetch_add(u64::from(failed), Ordering::Relaxed);
        progress.entries.fetch_add(self.entries as u64, Ordering::Relaxed);
        progress.articles.fetch_add(u64::from(self.article.is_some()), Ordering::Relaxed);
        let of = [("kind", self.kind.as_str()), ("code", self.code.as_str())];
        metrics.outcomes.get_or_create(&of).inc();
        metrics.entries.inc_by(self.entries as u64);
        if let Some(code) = self.retried {
            metrics.retries.get_or_create(&[("code", code.as_str())]).inc();
        }
        if let Some(code) = self.given_up {
            metrics.given_up.get_or_create(&[("code", code.as_str())]).inc();
        }
        if let Some((method, confidence)) = self.article {
            metrics.articles.get_or_create(&[("method", method)]).inc();
            metrics.confidence.observe(confidence);
        }
        if let Some(poll) = self.poll {
            poll.count(progress);
        }
    }
}

impl Poll {
    fn count(self, progress: &Progress) {
        let metrics = &progress.metrics;
        if let Some(interval) = self.interval {
            metrics.interval.observe(interval);
        }
        if self.failed {
            metrics.sources_failed.inc();
            return;
        }
        metrics.sources_fetched.inc();
        metrics.items_discovered.inc_by(self.new_items.into());
        metrics.poll_new_items.observe(self.new_items.into());
        metrics.bytes_saved.inc_by(self.saved);
        self.delays.iter().for_each(|delay| metrics.freshness.observe((*delay).into()));
        if self.ewma > 0.0 {
            metrics.ewma_interval.observe(self.ewma);
        }
    }
}
