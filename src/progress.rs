//! What an engine has done since it started, for those who watch it. Counting never waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// What has been done since the engine started, for those who watch.
#[derive(Debug, Default)]
pub struct Progress {
    pub(crate) requests: AtomicU64,
    pub(crate) not_modified: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) articles: AtomicU64,
    pub(crate) in_flight: AtomicU64,
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

    /// Counts events handed to a sink.
    pub fn deliver(&self, events: u64) {
        self.delivered.fetch_add(events, Ordering::Relaxed);
    }

    /// Says why work is paused, or that it goes on.
    pub fn pause(&self, reason: Option<String>) {
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}
