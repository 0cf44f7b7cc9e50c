//! What an operator hears of a channel without looking for it: log lines beside the events.
//!
//! The log of events is the output; these lines are only its echo, once an outcome is true.

use crate::model::{Code, EventKind, Lease, NewEvent, Outcome};

/// What is to be said of an outcome.
pub(super) struct Said {
    code: Code,
    reason: String,
    events: Vec<NewEvent>,
    /// New entries and failures in a row of a channel.
    poll: Option<(u32, u32)>,
    /// Failures in a row that are too many.
    threshold: u32,
}

impl Said {
    pub(super) fn of(outcome: &Outcome, threshold: u32) -> Self {
        let poll = outcome.feed.as_ref().map(|fact| (fact.new_items, fact.state.failures));
        let (code, reason) = (outcome.code, outcome.reason.clone());
        Self { code, reason, events: outcome.events.clone(), poll, threshold }
    }

    /// Says it.
    pub(super) fn tell(&self, lease: &Lease) {
        let source = lease.source.as_ref().map(|source| source.spec.name.as_str());
        let (url, kind) = (lease.task.url.as_str(), lease.task.kind);
        let (code, reason) = (self.code.as_str(), self.reason.as_str());
        match self.poll {
            Some((new @ 1.., 0)) => {
                let items = if new == 1 { "item" } else { "items" };
                tracing::info!(source, reason, "Fetched {url}: {new} new {items}");
            }
            // One that is disabled by it is told below.
            Some((_, failures)) if failures == self.threshold && !self.disables() => {
                tracing::error!(source, url, code, failures, reason, "a channel keeps failing");
            }
            Some((_, failures @ 2..)) => {
                tracing::warn!(source, url, code, failures, reason, "a channel failed again");
            }
            _ => tracing::debug!(source, url, %kind, code, reason, "served"),
        }
        self.events.iter().for_each(|event| tell(source, url, event));
    }

    fn disables(&self) -> bool {
        self.events.iter().any(|event| event.kind == EventKind::SourceDisabled)
    }
}

/// Tells of an event about a source's channel.
fn tell(source: Option<&str>, url: &str, event: &NewEvent) {
    let said = |key: &str| event.payload.get(key).and_then(|value| value.as_str());
    let (code, reason) = (said("code"), said("reason"));
    match event.kind {
        EventKind::SourceDisabled => {
            tracing::error!(source, url, code, reason, "a channel is disabled");
        }
        EventKind::SourceEnabled => {
            tracing::info!(source, url, reason, "a channel is enabled again");
        }
        EventKind::SourceHealth => {
            let health = said("health");
            tracing::info!(source, url, health, reason, "the health of a channel changed");
        }
        EventKind::SourceDiscovered => {
            tracing::info!(source, url, reason, "a search for channels ended");
        }
        EventKind::FeedMoved => {
            let to = said("to");
            tracing::info!(source, url, to, "a feed has another address for good");
        }
        EventKind::FeedGone => tracing::warn!(source, url, reason, "a feed is gone for good"),
        _ => {}
    }
}
