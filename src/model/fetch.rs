//! What a request brought back, and where its bytes are kept.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Code, TaskId, Ts};

/// Names one request and what came of it.
pub type FetchId = uuid::Uuid;

/// Header lines in the order received; names compare without case.
///
/// A header is bytes, and not always UTF-8. Each byte of a value is one `char` here (Latin-1), so
/// that a value can be kept as text and sent back byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// Adds a line as it came over the wire.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        let value = match std::str::from_utf8(value) {
            Ok(ascii) if ascii.is_ascii() => ascii.to_owned(),
            _ => value.iter().copied().map(char::from).collect(),
        };
        self.0.push((name.to_owned(), value));
    }

    /// The first value under that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// The same for people and addresses: UTF-8 where it is.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        let value = self.get(name)?;
        Some(match Self::bytes(value) {
            Cow::Borrowed(_) => Cow::Borrowed(value),
            Cow::Owned(bytes) => String::from_utf8(bytes).map_or(Cow::Borrowed(value), Cow::Owned),
        })
    }

    /// A value as it is on the wire.
    #[must_use]
    pub fn bytes(value: &str) -> Cow<'_, [u8]> {
        if value.is_ascii() {
            return Cow::Borrowed(value.as_bytes());
        }
        // A value that was never on a wire may have other characters: those stay UTF-8.
        let latin: Option<Vec<u8>> = value.chars().map(|c| u8::try_from(c).ok()).collect();
        latin.map_or(Cow::Borrowed(value.as_bytes()), Cow::Owned)
    }

    /// The lines as they are on the wire.
    pub fn lines(&self) -> impl Iterator<Item = (&str, Cow<'_, [u8]>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), Self::bytes(value)))
    }

    /// All values under that name as one list: a list may stand on several lines.
    #[must_use]
    pub fn list(&self, name: &str) -> Option<String> {
        let values: Vec<&str> = self.all(name).collect();
        (!values.is_empty()).then(|| values.join(", "))
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
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// For which task; `None` for a robots.txt that was asked for on the way to a page.
    pub task: Option<TaskId>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_leaves_as_it_came(value: Vec<u8>) {
            let mut headers = Headers::default();
            headers.push("etag", &value);
            let lines: Vec<_> = headers.lines().collect();
            prop_assert_eq!(lines, [("etag", Cow::from(value.as_slice()))]);
        }
    }

    #[test]
    fn text_is_utf_8_where_it_is() {
        let mut headers = Headers::default();
        headers.push("location", "/größe".as_bytes());
        headers.push("server", b"caf\xe9");
        headers.push("server", b"second");
        assert_eq!(headers.text("Location").as_deref(), Some("/größe"));
        assert_eq!(headers.text("server").as_deref(), Some("café"));
        assert_eq!(headers.get("etag"), None);
    }
}
