//! What an engine has done since it started, for those who watch it. Counting never waits.

mod activity;
mod clock_trust;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;

use crate::metrics::{Metrics, answer, sink};
use crate::telemetry::Traces;

pub use activity::{Activity, Phase, Running, Seat};
pub use clock_trust::ClockTrust;

/// What has been done since the engine started, for those who watch.
#[derive(Debug, Default)]
pub struct Progress {
    /// Every figure, for monitors.
    pub metrics: Metrics,
    /// Whose trace an event belongs to.
    pub traces: Traces,
    /// How the engine gets on.
    pub activity: Arc<Activity>,
    /// Whether the clock may decide what is deleted.
    pub clock_trust: ClockTrust,
    requests: AtomicU64,
    not_modified: AtomicU64,
    pub(crate) errors: AtomicU64,
    bytes: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) articles: AtomicU64,
    in_flight: AtomicU64,
    delivered: AtomicU64,
    paused: Mutex<Option<String>>,
}

/// [`Progress`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Requests made.
    pub requests: u64,
    /// Answers that nothing changed.
    pub not_modified: u64,
    /// Tasks that failed.
    pub errors: u64,
    /// Bytes of body received.
    pub bytes: u64,
    /// Entries that were new or changed.
    pub entries: u64,
    /// Articles kept.
    pub articles: u64,
    /// Tasks under way.
    pub in_flight: u64,
    /// Events handed to sinks.
    pub delivered: u64,
    /// Why work is paused.
    pub paused: Option<String>,
}

/// A task that waits, until this is dropped: waits may be cut short.
#[derive(Debug)]
pub struct Waiting<'a>(&'a Gauge);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Progress {
    /// The figures now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Snapshot {
            requests: read(&self.requests),
            not_modified: read(&self.not_modified),
            errors: read(&self.errors),
            bytes: read(&self.bytes),
            entries: read(&self.entries),
            articles: read(&self.articles),
            in_flight: read(&self.in_flight),
            delivered: read(&self.delivered),
            paused: self.paused.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Counts a request with the status and the bytes of its answer, if there was one.
    pub fn request(&self, status: Option<u16>, bytes: usize) {
        let bytes = bytes as u64;
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.not_modified.fetch_add(u64::from(status == Some(304)), Ordering::Relaxed);
        self.metrics.requests.get_or_create(&answer(status)).inc();
        self.metrics.bytes_in.inc_by(bytes);
    }

    /// A task is under way.
    pub fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.metrics.in_flight.inc();
    }

    /// A task is no longer under way.
    pub fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.metrics.in_flight.dec();
    }

    /// A task waits for a host's turn, as long as what is given is kept.
    #[must_use]
    pub fn wait_for_turn(&self) -> Waiting<'_> {
        self.metrics.awaited.inc();
        Waiting(&self.metrics.awaited)
    }

    /// Counts events handed to a sink.
    pub fn deliver(&self, name: &str, events: u64) {
        self.delivered.fetch_add(events, Ordering::Relaxed);
        self.metrics.delivered.get_or_create(&sink(name)).inc_by(events);
    }

    /// Says why work is paused, or that it goes on.
    pub fn pause(&self, reason: Option<String>) {
        self.metrics.paused.set(i64::from(reason.is_some()));
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}
