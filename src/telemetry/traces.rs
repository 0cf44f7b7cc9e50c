//! Which trace the events of a task belong to, so that handing them to a sink is seen as its last step.
//!
//! Kept in memory, for this process and for a while: a sink that is far behind, or that another engine
//! serves, delivers without being part of the trace.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, TraceContextExt};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::SPANS;

/// Events that are remembered at the most.
const REMEMBERED: usize = 10_000;

/// Traces by what their events are about.
#[derive(Debug, Default)]
pub struct Traces(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    spans: HashMap<String, SpanContext>,
    order: VecDeque<String>,
}

impl Traces {
    /// Remembers that these things became true in the current span, when it is one that is exported.
    pub fn remember(&self, subjects: impl IntoIterator<Item = String>) {
        let current = Span::current();
        if current.is_disabled() {
            return;
        }
        let context = current.context().span().span_context().clone();
        if !context.is_sampled() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for subject in subjects {
            known.order.push_back(subject.clone());
            known.spans.insert(subject, context.clone());
            if known.order.len() > REMEMBERED
                && let Some(oldest) = known.order.pop_front()
            {
                known.spans.remove(&oldest);
            }
        }
    }

    /// Spans of handing these things to a sink, one for each trace that they belong to; they end when
    /// they are dropped.
    #[must_use]
    pub fn deliver<'a>(&self, sink: &str, subjects: impl Iterator<Item = &'a str>) -> Vec<Span> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.spans.is_empty() {
            return Vec::new();
        }
        let mut traces: HashMap<_, (SpanContext, usize)> = HashMap::new();
        for context in subjects.filter_map(|subject| known.spans.get(subject)) {
            traces.entry(context.trace_id()).or_insert_with(|| (context.clone(), 0)).1 += 1;
        }
        drop(known);
        let spans = traces.into_values().map(|(context, events)| {
            let span = tracing::info_span!(target: SPANS, parent: None, "deliver", sink, events);
            let parent = Context::new().with_remote_span_context(context);
            // A span that was just made takes the parent that it is given.
            drop(span.set_parent(parent));
            span
        });
        spans.collect()
    }
}
