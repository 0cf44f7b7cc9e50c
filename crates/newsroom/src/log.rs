//! What was asked and what was sent: the evidence on which politeness is judged.

use serde::Serialize;

/// One request as the newsroom saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Logged {
    /// Host header, lower-case, without a port.
    pub host: String,
    /// Requests with the same number came over the same connection.
    pub connection: u64,
    /// As sent.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// In the order sent, names in lower case.
    pub headers: Vec<(String, String)>,
    /// When the request head had been read, in simulated milliseconds.
    pub began: i64,
    /// When the last byte was handed to the network, or the connection died.
    pub ended: i64,
    /// The status sent; 0 when there was none.
    pub status: u16,
    /// Bytes of head and body that were sent.
    pub bytes: u64,
    /// When the Retry-After of this answer is over, in simulated milliseconds.
    pub retry_until: Option<i64>,
}

/// Sums over all requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Requests that were read.
    pub requests: u64,
    /// Answered with 304.
    pub not_modified: u64,
    /// Bytes of head and body that were sent.
    pub bytes: u64,
}

/// Log and sums. Without a log (long benchmarks) only the sums grow.
#[derive(Default)]
pub(crate) struct Book {
    entries: Vec<Logged>,
    counters: Counters,
}

impl Book {
    pub(crate) fn enter(&mut self, entry: Logged, keep: bool) {
        self.counters.requests += 1;
        self.counters.not_modified += u64::from(entry.status == 304);
        self.counters.bytes += entry.bytes;
        if keep {
            self.entries.push(entry);
        }
    }

    /// In the order in which the requests began.
    pub(crate) fn entries(&self) -> Vec<Logged> {
        let mut entries = self.entries.clone();
        entries.sort_by_key(|entry| entry.began);
        entries
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }
}
