//! WARC 1.1: what was asked and what was served, kept byte for byte.
//!
//! A segment is a run of gzip members, one record each, so that a record can be read by its
//! offset and a torn tail cut off. Nothing here chooses ids or reads a clock, and no body is ever
//! decoded or re-encoded on its way in.

mod http;
mod pieces;
mod read;
mod write;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use sha1::Sha1;
use sha1::digest::Digest as _;

pub use http::{HttpHead, request_head, response_head};
pub use pieces::{Piece, Pieces, pieces};
pub use read::{Fields, Member, OwnedRecord, Scan, WarcError, read_fields, read_member, scan};
pub use write::{blank, member};

use crate::date::Ts;

/// Content type of a block that is an HTTP request.
pub const HTTP_REQUEST: &str = "application/http;msgtype=request";
/// Content type of a block that is an HTTP response.
pub const HTTP_RESPONSE: &str = "application/http;msgtype=response";
/// Content type of a block of `name: value` lines.
pub const WARC_FIELDS: &str = "application/warc-fields";

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordType {
    /// What wrote the segment.
    Warcinfo,
    /// A request as it was sent.
    Request,
    /// A response as it was served.
    Response,
    /// A response whose payload an earlier record holds.
    Revisit,
    /// Something known about another record.
    Metadata,
}

impl RecordType {
    /// Its name in `WARC-Type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warcinfo => "warcinfo",
            Self::Request => "request",
            Self::Response => "response",
            Self::Revisit => "revisit",
            Self::Metadata => "metadata",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Warcinfo, Self::Request, Self::Response, Self::Revisit, Self::Metadata]
            .into_iter()
            .find(|kind| kind.as_str().eq_ignore_ascii_case(name))
    }
}

/// Why a revisit holds no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisitProfile {
    /// The payload was served again and is the same.
    IdenticalPayload,
    /// The server said that nothing had changed.
    NotModified,
}

impl RevisitProfile {
    /// Its address in `WARC-Profile`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IdenticalPayload => {
                "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
            }
            Self::NotModified => "http://netpreserve.org/warc/1.1/revisit/server-not-modified",
        }
    }
}

/// The earlier record that a revisit stands on.
#[derive(Clone, Copy, Debug)]
pub struct Revisit<'a> {
    /// Why the payload is not here.
    pub profile: RevisitProfile,
    /// The record that holds it.
    pub refers_to: &'a str,
    /// That record's address.
    pub target_uri: &'a str,
    /// That record's date.
    pub date: Ts,
    /// Where it is, when it is in the same segment: first byte and length of its gzip member.
    pub place: Option<(u64, u64)>,
}

/// The field by which a revisit says where in its own segment the payload is. It is ours: readers
/// that do not know it go by the address and the date.
const PAYLOAD_PLACE: &str = "Feedmill-Payload-Place";

/// The field that says what an address was asked for as. It is ours, and others skip it.
pub const TASK_KIND: &str = "Feedmill-Task-Kind";

/// One record to be written. Its block is `head` and then `payload`.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// `<urn:uuid:…>`, unique for ever.
    pub id: &'a str,
    /// What it holds.
    pub kind: RecordType,
    /// When it was captured; the same for a request and its response.
    pub date: Ts,
    /// The address that was fetched; absent only on a warcinfo.
    pub target_uri: Option<&'a str>,
    /// The record of the same exchange.
    pub concurrent_to: Option<&'a str>,
    /// The warcinfo of the segment.
    pub warcinfo: Option<&'a str>,
    /// The segment's own name, on its warcinfo.
    pub filename: Option<&'a str>,
    /// The address that answered.
    pub ip: Option<IpAddr>,
    /// What the block is.
    pub content_type: &'a str,
    /// The payload's digest. A response without one gets that of `payload`; on a revisit it is
    /// that of the payload which is not here.
    pub payload_digest: Option<Digest>,
    /// What a revisit stands on.
    pub revisit: Option<Revisit<'a>>,
    /// Why the payload is not whole: `length`, `time`, `disconnect` or `unspecified`.
    pub truncated: Option<&'a str>,
    /// The HTTP head, up to and with its empty line; empty for other blocks.
    pub head: &'a [u8],
    /// The body as it was served.
    pub payload: &'a [u8],
    /// The body came compressed: it is kept as it is.
    pub coded: bool,
    /// What the address was asked for as, in a word of ours.
    pub task_kind: Option<&'a str>,
}

impl<'a> Record<'a> {
    /// A record without any of the optional parts.
    #[must_use]
    pub const fn new(kind: RecordType, id: &'a str, date: Ts, content_type: &'a str) -> Self {
        Self {
            id,
            kind,
            date,
            target_uri: None,
            concurrent_to: None,
            warcinfo: None,
            filename: None,
            ip: None,
            content_type,
            payload_digest: None,
            revisit: None,
            truncated: None,
            head: &[],
            payload: &[],
            coded: false,
            task_kind: None,
        }
    }
}

/// A SHA-1 digest, written as `sha1:` and 32 letters of base 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; 20]);

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

impl Digest {
    /// The digest of these parts, one after the other.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha1::new();
        parts.iter().for_each(|part| hash.update(part));
        Self(hash.finalize().into())
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

impl From<Sha1> for Digest {
    fn from(hash: Sha1) -> Self {
        Self(hash.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(37);
        text.push_str("sha1:");
        for group in self.0.as_chunks::<5>().0 {
            let bits = group.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
            text.extend((0..8).rev().map(|letter| {
                let index = usize::try_from(bits >> (letter * 5) & 31).unwrap_or(0);
                char::from(BASE32.get(index).copied().unwrap_or(b'A'))
            }));
        }
        f.write_str(&text)
    }
}

/// The text is not a SHA-1 digest as this crate writes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a sha1 digest in base 32: {0:?}")]
pub struct BadDigest(String);

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, BadDigest> {
        let bad = || BadDigest(text.chars().take(60).collect());
        let (algorithm, letters) = text.split_once(':').ok_or_else(bad)?;
        if !algorithm.eq_ignore_ascii_case("sha1") || letters.len() != 32 {
            return Err(bad());
        }
        let mut bytes = Vec::with_capacity(20);
        for group in letters.as_bytes().as_chunks::<8>().0 {
            let mut bits = 0_u64;
            for letter in group {
                let value = BASE32.iter().position(|known| *known == letter.to_ascii_uppercase());
                bits = bits << 5 | value.and_then(|v| u64::try_from(v).ok()).ok_or_else(bad)?;
            }
            bytes.extend(bits.to_be_bytes().into_iter().skip(3));
        }
        bytes.try_into().map(Self).map_err(|_| bad())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn digests_are_written_as_archives_write_them() {
        let empty = Digest::of(&[]);
        assert_eq!(empty.to_string(), "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ");
        assert_eq!(Digest::of(&[b"a", b"bc"]), Digest::of(&[b"abc"]));
        for bad in ["", "sha1:", "md5:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", "sha1:1"] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn digests_read_back(bytes: [u8; 20]) {
            let digest = Digest(bytes);
            prop_assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        }

        #[test]
        fn any_text_may_be_tried_as_a_digest(text in "(sha1:)?.{0,34}") {
            if let Ok(digest) = text.parse::<Digest>() {
                prop_assert_eq!(digest.to_string().to_lowercase(), text.to_lowercase());
            }
        }
    }
}
