//! What a request brought back, and where its bytes are kept.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Code, TaskId, Ts};

/// Names one request and what came of it.
pub type FetchId = uuid::Uuid;

/// Header lines in the order received; names compare without case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// The first value under that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Every value under that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(have, _)| have.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }
}

/// Why a body is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// It is longer than we take.
    Length,
    /// It took longer than we wait.
    Time,
    /// The connection ended first.
    Disconnect,
}

impl Truncation {
    /// The word that WARC has for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Time => "time",
            Self::Disconnect => "disconnect",
        }
    }
}

/// One request with its answer: what the archive keeps.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Names it.
    pub id: FetchId,
    /// The address asked for.
    pub url: String,
    /// The header lines sent.
    pub request: Headers,
    /// The status answered.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// The header lines received.
    pub headers: Headers,
    /// The body as served: still in its content coding.
    pub body: Bytes,
    /// Why the body is not whole.
    pub truncated: Option<Truncation>,
    /// Who answered.
    pub remote: Option<IpAddr>,
    /// When the request began, in the store's time.
    pub began: Ts,
    /// When the last byte was here, in the store's time: what the server asks for counts from then.
    pub ended: Ts,
    /// How long it took until the last byte, in real time.
    pub elapsed: Duration,
}

/// Where an archived record is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawRef {
    /// The segment's file name.
    pub segment: String,
    /// The byte at which the response record begins.
    pub offset: u64,
    /// Its length in the segment.
    pub length: u64,
}

/// What handlers see of a fetch: the last exchange of a chain of redirects.
#[derive(Clone, Debug)]
pub struct Response {
    /// The exchange that brought the answer.
    pub exchange: Exchange,
    /// The addresses that led here, first the task's own; empty without a redirect.
    pub redirects: Vec<Redirected>,
}

/// One step of a chain of redirects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirected {
    /// The status that sent us on.
    pub status: u16,
    /// The address that sent us on.
    pub from: String,
}

impl Response {
    /// The status of the final answer.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.exchange.status
    }

    /// The address that answered.
    #[must_use]
    pub fn final_url(&self) -> &str {
        &self.exchange.url
    }

    /// The first value of a response header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.exchange.headers.get(name)
    }
}

/// The line about a fetch that the store keeps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FetchRecord {
    /// Names it.
    pub id: FetchId,
    /// For which task.
    pub task: TaskId,
    /// When it began.
    pub at: Ts,
    /// The address that answered.
    pub url: String,
    /// The status answered; `None` when nothing was.
    pub status: Option<u16>,
    /// What came of it.
    pub code: Code,
    /// Bytes of body received.
    pub bytes: u64,
    /// Time until the last byte.
    pub elapsed_ms: u64,
    /// As served.
    pub content_type: Option<String>,
    /// SHA-256 of the body as served.
    pub body_sha256: Option<String>,
    /// Where the bytes are.
    pub raw: Option<RawRef>,
}

/// A new name that sorts by time. The time is the clock's, the rest is chance.
#[must_use]
pub fn new_uuid(now: Ts) -> uuid::Uuid {
    let ms = u64::try_from(now.ms()).unwrap_or(0);
    let nanos = u32::try_from(ms % 1000).unwrap_or(0) * 1_000_000;
    uuid::Uuid::new_v7(uuid::Timestamp::from_unix_time(ms / 1000, nanos, 0, 0))
}
