//! Content codings: the only place where compressed bytes are inflated.
//!
//! Nothing here may hold more than the caller's limit (and a decoder's window) in memory, however
//! small the body that asks for it.

use std::borrow::Cow;
use std::io::{ErrorKind, Read};

use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};
use zstd::stream::read::Decoder as ZstdDecoder;

/// More codings than this on one body are an attack, not a server.
const MAX_CODINGS: usize = 5;
/// The largest window, as a power of two, that RFC 9659 lets a zstd content coding ask for.
const ZSTD_HTTP_WINDOW: u32 = 23;
/// The largest window of a zstd file: what the format's own tools accept.
const ZSTD_FILE_WINDOW: u32 = 27;

/// Why a body could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It has, or would have, more bytes than the limit.
    #[error("body is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The bytes are not what their coding says.
    #[error("body is not valid {coding}")]
    Bad {
        /// The coding that was undone.
        coding: &'static str,
    },
    /// The bytes end before their coding does.
    #[error("{coding} body is cut off")]
    Truncated {
        /// The coding that was undone.
        coding: &'static str,
    },
    /// Nobody knows this coding, or there are too many.
    #[error("unknown content encoding {0:?}")]
    Unknown(String),
}

impl DecodeError {
    /// The stable name of this failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Bad { .. } => "bad_encoding",
            Self::Truncated { .. } => "truncated_encoding",
            Self::Unknown(_) => "unknown_encoding",
        }
    }
}

/// Undoes the codings that a `Content-Encoding` header lists, the last one first.
///
/// # Errors
/// When a coding is unknown, its bytes are corrupt or cut off, or more than `limit` bytes come out.
pub fn capped<'a>(
    body: &'a [u8],
    content_encoding: Option<&str>,
    limit: usize,
) -> Result<Cow<'a, [u8]>, DecodeError> {
    let decoded = undo_all(body, content_encoding, Cap::Refuse(limit))?;
    if decoded.len() > limit { Err(DecodeError::TooLarge { limit }) } else { Ok(decoded) }
}

/// The first `length` bytes of the decoded body, however much there is of it.
///
/// # Errors
/// When a coding is unknown, or its bytes are corrupt or cut off before that. Of several codings, all but
/// the last to be undone must give no more than `length` bytes.
pub fn start_of<'a>(
    body: &'a [u8],
    content_encoding: Option<&str>,
    length: usize,
) -> Result<Cow<'a, [u8]>, DecodeError> {
    Ok(match undo_all(body, content_encoding, Cap::Cut(length))? {
        Cow::Borrowed(plain) => Cow::Borrowed(plain.get(..length).unwrap_or(plain)),
        Cow::Owned(inflated) => Cow::Owned(inflated),
    })
}

/// What happens to bytes beyond a limit.
#[derive(Clone, Copy)]
enum Cap {
    Refuse(usize),
    Cut(usize),
}

impl Cap {
    const fn limit(self) -> usize {
        match self {
            Self::Refuse(limit) | Self::Cut(limit) => limit,
        }
    }

    const fn without(self, used: usize) -> Self {
        match self {
            Self::Refuse(limit) => Self::Refuse(limit.saturating_sub(used)),
            Self::Cut(limit) => Self::Cut(limit.saturating_sub(used)),
        }
    }
}

fn undo_all<'a>(
    body: &'a [u8],
    content_encoding: Option<&str>,
    cap: Cap,
) -> Result<Cow<'a, [u8]>, DecodeError> {
    let header = content_encoding.unwrap_or_default();
    let codings: Vec<&str> = header.split(',').map(str::trim).filter(|c| !c.is_empty()).collect();
    if codings.len() > MAX_CODINGS {
        return Err(DecodeError::Unknown(header.chars().take(100).collect()));
    }
    let mut decoded = Cow::Borrowed(body);
    for (left, coding) in codings.iter().enumerate().rev() {
        // Half of a compressed body could not be undone any further.
        let cap = if left == 0 { cap } else { Cap::Refuse(cap.limit()) };
        if let Some(inflated) = undo(coding, &decoded, cap)? {
            decoded = Cow::Owned(inflated);
        }
    }
    Ok(decoded)
}

/// One coding undone, or `None` when the bytes are already plain.
fn undo(coding: &str, bytes: &[u8], cap: Cap) -> Result<Option<Vec<u8>>, DecodeError> {
    let coding = coding.to_ascii_lowercase();
    // What some servers write when they mean none.
    if matches!(coding.as_str(), "identity" | "none" | "utf-8") {
        return Ok(None);
    }
    // An answer without a body keeps its header, and some proxies inflate and keep it too.
    if bytes.is_empty() || is_plainly_text(bytes) {
        let known = ["gzip", "x-gzip", "deflate", "br", "zstd"];
        return if known.contains(&coding.as_str()) {
            Ok(None)
        } else {
            Err(DecodeError::Unknown(coding))
        };
    }
    match coding.as_str() {
        "gzip" | "x-gzip" => gunzip(bytes, cap).map(Some),
        "deflate" => inflate(bytes, cap).map(Some),
        "br" => unbrotli(bytes, cap).map(Some),
        "zstd" => unzstd_window(bytes, cap, ZSTD_HTTP_WINDOW).map(Some),
        _ => Err(DecodeError::Unknown(coding)),
    }
}

/// Whether the bytes begin as markup or JSON does; no compressed stream worth its name does so.
fn is_plainly_text(bytes: &[u8]) -> bool {
    let start = bytes.trim_ascii_start();
    ["<?xml", "<rss", "<feed", "<!DOCTYPE", "<!doctype", "<html", "{\""]
        .iter()
        .any(|opening| start.starts_with(opening.as_bytes()))
}

/// Whether the bytes begin as a gzip member does.
#[must_use]
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b, 8])
}

/// All members, one after the other; what follows the last is ignored, as browsers do.
fn gunzip(bytes: &[u8], cap: Cap) -> Result<Vec<u8>, DecodeError> {
    let (mut inflated, mut rest) = gunzip_member(bytes, cap)?;
    while is_gzip(rest) && !(matches!(cap, Cap::Cut(_)) && inflated.len() == cap.limit()) {
        let (more, after) =
            gunzip_member(rest, cap.without(inflated.len())).map_err(|error| match error {
                DecodeError::TooLarge { .. } => DecodeError::TooLarge { limit: cap.limit() },
                error => error,
            })?;
        inflated.extend(more);
        rest = after;
    }
    Ok(inflated)
}

/// The first gzip member, and the bytes after it.
///
/// # Errors
/// When it is corrupt, cut off, or larger than `limit`.
pub fn gunzip_next(bytes: &[u8], limit: usize) -> Result<(Vec<u8>, &[u8]), DecodeError> {
    gunzip_member(bytes, Cap::Refuse(limit))
}

fn gunzip_member(bytes: &[u8], cap: Cap) -> Result<(Vec<u8>, &[u8]), DecodeError> {
    let mut decoder = GzDecoder::new(bytes);
    let inflated = read_capped(&mut decoder, cap, "gzip")?;
    Ok((inflated, decoder.into_inner()))
}

/// `deflate` means a zlib stream; many servers send a raw one instead.
fn inflate(bytes: &[u8], cap: Cap) -> Result<Vec<u8>, DecodeError> {
    match read_capped(ZlibDecoder::new(bytes), cap, "deflate") {
        Err(DecodeError::Bad { .. }) => read_capped(DeflateDecoder::new(bytes), cap, "deflate"),
        result => result,
    }
}

fn unbrotli(bytes: &[u8], cap: Cap) -> Result<Vec<u8>, DecodeError> {
    let mut source = Source { rest: bytes, drained: false };
    let result = read_capped(brotli::Decompressor::new(&mut source, 4_096), cap, "br");
    match result {
        Err(DecodeError::Bad { coding }) if source.drained => {
            Err(DecodeError::Truncated { coding })
        }
        result => result,
    }
}

/// Bytes that remember being asked for more than there are: the brotli decoder reports a stream
/// that is cut off as it does a corrupt one.
struct Source<'a> {
    rest: &'a [u8],
    drained: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.rest.read(buffer)?;
        self.drained |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

/// All zstd frames of a file.
///
/// # Errors
/// When they are corrupt, cut off, or larger than `limit`.
pub fn unzstd(bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    unzstd_window(bytes, Cap::Refuse(limit), ZSTD_FILE_WINDOW)
}

fn unzstd_window(bytes: &[u8], cap: Cap, window: u32) -> Result<Vec<u8>, DecodeError> {
    let bad = |_| DecodeError::Bad { coding: "zstd" };
    let mut decoder = ZstdDecoder::with_buffer(bytes).map_err(bad)?;
    decoder.window_log_max(window).map_err(bad)?;
    read_capped(decoder, cap, "zstd")
}

fn read_capped(decoder: impl Read, cap: Cap, coding: &'static str) -> Result<Vec<u8>, DecodeError> {
    let (mut inflated, limit) = (Vec::new(), cap.limit());
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    match (decoder.take(most).read_to_end(&mut inflated), cap) {
        (_, Cap::Refuse(limit)) if inflated.len() > limit => Err(DecodeError::TooLarge { limit }),
        (_, Cap::Cut(length)) if inflated.len() > length => {
            inflated.truncate(length);
            Ok(inflated)
        }
        (Ok(_), _) => Ok(inflated),
        (Err(error), _) if error.kind() == ErrorKind::UnexpectedEof => {
            Err(DecodeError::Truncated { coding })
        }
        (Err(_), _) => Err(DecodeError::Bad { coding }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8] = b"the quick brown fox jumps over the lazy dog, again and again and again";
    const LIMIT: usize = 10_000;

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn br(bytes: &[u8]) -> Vec<u8> {
        let mut compressed = Vec::new();
        brotli::CompressorReader::new(bytes, 4_096, 5, 22).read_to_end(&mut compressed).unwrap();
        compressed
    }

    fn zst(bytes: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(bytes, 3).unwrap()
    }

    fn code(body: &[u8], coding: &str) -> &'static str {
        capped(body, Some(coding), LIMIT).unwrap_err().code()
    }

    #[test]
    fn every_coding_is_undone() {
        for (coding, body) in [
            ("gzip", gz(TEXT)),
            ("X-GZip", gz(TEXT)),
            ("deflate", zlib(TEXT)),
            ("deflate", raw_deflate(TEXT)),
            ("br", br(TEXT)),
            ("zstd", zst(TEXT)),
            ("gzip, br", br(&gz(TEXT))),
            (" gzip ,, identity", gz(TEXT)),
        ] {
            assert_eq!(capped(&body, Some(coding), LIMIT).unwrap(), TEXT, "{coding}");
        }
    }

    #[test]
    fn a_plain_body_is_borrowed() {
        for coding in [None, Some(""), Some("identity"), Some("none"), Some("UTF-8")] {
            assert!(matches!(capped(TEXT, coding, LIMIT), Ok(Cow::Borrowed(TEXT))));
        }
        assert_eq!(capped(b"", Some("gzip"), LIMIT).unwrap(), &b""[..]);
    }

    #[test]
    fn a_header_left_by_a_proxy_that_inflated_the_body_is_ignored() {
        assert_eq!(capped(b"<?xml version='1.0'?>", Some("gzip"), LIMIT).unwrap()[..5], *b"<?xml");
    }

    #[test]
    fn members_are_joined_and_what_follows_is_ignored() {
        let mut body = [gz(b"one "), gz(b"two")].concat();
        body.extend_from_slice(b"\0\0\0junk");
        assert_eq!(capped(&body, Some("gzip"), LIMIT).unwrap(), &b"one two"[..]);
        let (first, rest) = gunzip_next(&body, LIMIT).unwrap();
        assert_eq!((first.as_slice(), is_gzip(rest)), (&b"one "[..], true));
        assert_eq!(capped(&body, Some("gzip"), 5).unwrap_err(), DecodeError::TooLarge { limit: 5 });
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let zeros = vec![0; 2_000_000];
        for (coding, bomb) in [
            ("gzip", gz(&zeros)),
            ("deflate", zlib(&zeros)),
            ("br", br(&zeros)),
            ("zstd", zst(&zeros)),
        ] {
            assert!(bomb.len() < 5_000);
            assert_eq!(code(&bomb, coding), "too_large", "{coding}");
        }
        assert_eq!(capped(TEXT, None, 10).unwrap_err().code(), "too_large");
        assert_eq!(capped(&gz(TEXT), Some("gzip"), TEXT.len()).unwrap(), TEXT);
    }

    #[test]
    fn what_is_corrupt_cut_off_or_unknown_has_a_code() {
        for (coding, whole) in
            [("gzip", gz(TEXT)), ("deflate", zlib(TEXT)), ("br", br(TEXT)), ("zstd", zst(TEXT))]
        {
            let cut = &whole[..whole.len() - 6];
            assert_eq!(code(cut, coding), "truncated_encoding", "{coding}");
            assert_eq!(code(b"\xffnot at all compressed\xff", coding), "bad_encoding", "{coding}");
        }
        assert_eq!(code(TEXT, "compress"), "unknown_encoding");
        assert_eq!(code(TEXT, "gzip,gzip,gzip,gzip,gzip,gzip"), "unknown_encoding");
    }

    #[test]
    fn a_zstd_file_may_have_several_frames() {
        let body = [zst(b"one "), zst(b"two")].concat();
        assert_eq!(unzstd(&body, LIMIT).unwrap(), b"one two");
        assert_eq!(unzstd(&body, 3).unwrap_err().code(), "too_large");
    }

    #[test]
    fn the_start_is_had_without_the_rest() {
        let long = TEXT.repeat(1_000);
        for (coding, body) in [
            ("", long.clone()),
            ("gzip", gz(&long)),
            ("gzip", [gz(&long), gz(&long)].concat()),
            ("deflate", zlib(&long)),
            ("deflate", raw_deflate(&long)),
            ("br", br(&long)),
            ("zstd", zst(&long)),
            ("br, gzip", gz(&br(&long))),
        ] {
            assert_eq!(*start_of(&body, Some(coding), LIMIT).unwrap(), long[..LIMIT], "{coding}");
            let (broken, _) = body.split_at(body.len().min(20));
            let start = start_of(broken, Some(coding), LIMIT);
            assert_eq!(start.is_ok(), coding.is_empty(), "{coding}: half of it is no start");
        }
        assert_eq!(*start_of(&gz(TEXT), Some("gzip"), LIMIT).unwrap(), *TEXT);
        let nested = br(&gz(&gz(&long)));
        let nested = start_of(&nested, Some("gzip, gzip, br"), 10);
        assert_eq!(nested.unwrap_err().code(), "too_large");
    }

    proptest! {
        #[test]
        fn never_panics_and_never_exceeds(
            body in prop::collection::vec(any::<u8>(), 0..200),
            coding in prop::sample::select(vec!["gzip", "deflate", "br", "zstd", "br, gzip"]),
        ) {
            if let Ok(decoded) = capped(&body, Some(coding), 1_000) {
                prop_assert!(decoded.len() <= 1_000);
            }
        }

        #[test]
        fn undoes_what_was_done(text in prop::collection::vec(any::<u8>(), 0..2_000)) {
            for (coding, body) in [("gzip", gz(&text)), ("zstd", zst(&text))] {
                let plain = capped(&body, Some(coding), 2_000).unwrap();
                prop_assert_eq!(&*plain, &text[..]);
            }
        }
    }
}
