//! The steps of a task as spans, for a collector: schedule, claim, request, archive, handle, commit, and
//! in the end deliver, all under one span that is the task.
//!
//! Addresses may carry tokens in their parameters, so these are left out; the hash tells addresses apart.
//! Without a collector all of this costs nothing (see `telemetry`).

use std::time::Duration;

use tracing::Span;
use tracing::field::Empty;

use crate::model::{Kind, Lease, Outcome};
use crate::telemetry::SPANS;

/// The subjects of events that a task's trace is remembered by at the most.
const SUBJECTS: usize = 100;

/// The span of a task that was claimed just now, with the two steps before it.
pub(super) fn task(lease: &Lease, claim: Duration) -> Span {
    let task = tracing::info_span!(
        target: SPANS, parent: None, "task",
        task = %lease.task.id,
        url = without_parameters(&lease.task.url),
        url_hash = %lease.task.url_hash,
        host = lease.task.host,
        source = lease.source.as_ref().map(|source| source.spec.name.as_str()),
        kind = lease.task.kind.as_str(),
        code = Empty,
        otel.status_code = Empty,
    );
    if !task.is_disabled() {
        let late_ms = millis(lease.now.since(lease.task.next_fetch_at));
        let (due, reason) = (lease.task.next_fetch_at, lease.task.reason.as_deref());
        drop(tracing::info_span!(target: SPANS, parent: &task, "schedule", %due, late_ms, reason));
        let (lease, took_ms) = (lease.id.0, millis(claim));
        drop(tracing::info_span!(target: SPANS, parent: &task, "claim", lease, took_ms));
    }
    task
}

/// One request.
pub(super) fn request(kind: Kind, host: &str) -> Span {
    tracing::info_span!(
        target: SPANS, "request", otel.kind = "client", kind = kind.as_str(), host,
        status = Empty, bytes = Empty, error = Empty,
    )
}

/// Keeping what came back.
pub(super) fn archive() -> Span {
    tracing::info_span!(target: SPANS, "archive")
}

/// Reading it and deciding what it means.
pub(super) fn handle() -> Span {
    tracing::info_span!(target: SPANS, "handle")
}

/// Making the outcome true.
pub(super) fn commit(outcome: &Outcome) -> Span {
    Span::current().record("code", outcome.code.as_str());
    tracing::info_span!(
        target: SPANS, "commit", code = outcome.code.as_str(), reason = outcome.reason,
        entries = outcome.entries.len(), discovered = outcome.discovered.len(),
        article = outcome.article.is_some(),
    )
}

/// What the events of an outcome will be about, when its trace is told to somebody.
pub(super) fn subjects(outcome: &Outcome) -> Vec<String> {
    if Span::current().is_disabled() {
        return Vec::new();
    }
    let entries = outcome.entries.iter().map(|entry| entry.id.to_string());
    let article = outcome.article.iter().map(|article| article.id.to_string());
    let events = outcome.events.iter().map(|event| event.subject.clone());
    article.chain(events).chain(entries).take(SUBJECTS).collect()
}

/// An address as far as everybody may see it.
fn without_parameters(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_nobodys_business() {
        for (url, told) in [
            ("https://a.example/feed?key=hunter2", "https://a.example/feed"),
            ("https://a.example/feed#hunter2?x", "https://a.example/feed"),
            ("https://a.example/", "https://a.example/"),
        ] {
            assert_eq!(without_parameters(url), told);
        }
    }
}
