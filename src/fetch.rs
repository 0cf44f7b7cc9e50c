//! How: asking publishers for what the frontier hands out.
//!
//! The guard stands before every hop, the client keeps the caps, the worker serves one lease from
//! request to commit, the dispatcher keeps the workers busy. Nothing here decides what an answer
//! means, and nothing retries: the frontier is the only retry model.

mod client;
mod committer;
mod dispatch;
mod guard;
mod robots;
mod serve;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::model::Code;

pub use client::{Client, ClientSettings};
pub use committer::Committer;
pub use dispatch::{Dispatcher, Mode};
pub use guard::{Guard, Refusal};
pub use serve::{ServeSettings, Server};

/// Why no answer came.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Not in time.
    #[error("no answer within {0}")]
    Timeout(String),
    /// The name does not resolve.
    #[error("cannot resolve {host}: {message}")]
    Dns {
        /// The name.
        host: String,
        /// What the resolver says.
        message: String,
    },
    /// The guard refuses the address.
    #[error(transparent)]
    Guarded(#[from] Refusal),
    /// The connection failed or broke.
    #[error("connection failed: {0}")]
    Network(String),
    /// The request cannot be made.
    #[error("cannot ask for it: {0}")]
    BadRequest(String),
}

impl FetchError {
    /// The outcome that this failure is.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Timeout(_) => Code::Timeout,
            Self::Dns { .. } => Code::Dns,
            Self::Guarded(_) => Code::Guarded,
            Self::Network(_) => Code::Network,
            Self::BadRequest(_) => Code::BadUrl,
        }
    }
}

/// What has been done since the engine started, for those who watch.
#[derive(Debug, Default)]
pub struct Progress {
    requests: AtomicU64,
    not_modified: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    entries: AtomicU64,
    articles: AtomicU64,
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
            paused: self.paused.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone(),
        }
    }

    /// Counts events handed to a sink.
    pub fn deliver(&self, events: u64) {
        self.delivered.fetch_add(events, Ordering::Relaxed);
    }

    fn pause(&self, reason: Option<String>) {
        *self.paused.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = reason;
    }
}
