//! A record as one gzip member, ready to be appended to a segment.
//!
//! A member is whole or not there: it is built in memory, so that one append makes it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use flate2::{Compress, CompressError, Compression, Crc, FlushCompress, Status};

use super::{Digest, PAYLOAD_PLACE, Record, RecordType};

/// The head of a gzip member without a time and without a file name: the same record gives the same
/// bytes.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

thread_local! {
    /// A compressor takes longer to set up than a request record to compress: each thread keeps its,
    /// one for each level.
    static DEFLATE: RefCell<BTreeMap<u32, Compress>> = const { RefCell::new(BTreeMap::new()) };
}

/// One complete gzip member that holds the record, compressed at `level` 0 to 9.
#[must_use]
pub fn member(record: &Record<'_>, level: u32) -> Vec<u8> {
    let header = header(record);
    let parts = [header.as_bytes(), record.head, record.payload, b"\r\n\r\n"];
    // Compressing in memory does not fail; an empty member appends nothing.
    gzip(&parts, level.min(9)).unwrap_or_default()
}

fn gzip(parts: &[&[u8]], level: u32) -> Result<Vec<u8>, CompressError> {
    let size: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(size / 2 + 128);
    out.extend_from_slice(&GZIP_HEAD);
    let mut crc = Crc::new();
    parts.iter().for_each(|part| crc.update(part));
    DEFLATE.with_borrow_mut(|kept| {
        let new = || Compress::new(Compression::new(level), false);
        let deflate = kept.entry(level).or_insert_with(new);
        deflate.reset();
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let before = deflate.total_in();
                out.reserve(rest.len() / 2 + 64);
                deflate.compress_vec(rest, &mut out, FlushCompress::None)?;
                let taken = usize::try_from(deflate.total_in() - before).unwrap_or(usize::MAX);
                rest = rest.get(taken..).unwrap_or_default();
            }
        }
        loop {
            out.reserve(1024);
            if deflate.compress_vec(&[], &mut out, FlushCompress::Finish)? == Status::StreamEnd {
                return Ok(());
            }
        }
    })?;
    out.extend_from_slice(&crc.sum().to_le_bytes());
    out.extend_from_slice(&crc.amount().to_le_bytes());
    Ok(out)
}

fn header(record: &Record<'_>) -> String {
    let mut out = String::with_capacity(768);
    out.push_str("WARC/1.1\r\n");
    let mut field = |name: &str, value: &str| {
        out.push_str(name);
        out.push_str(": ");
        // A line break inside a value would end the field.
        out.extend(value.chars().filter(|c| !c.is_control()));
        out.push_str("\r\n");
    };
    field("WARC-Type", record.kind.as_str());
    field("WARC-Record-ID", record.id);
    field("WARC-Date", &record.date.to_string());
    for (name, value) in [
        ("WARC-Target-URI", record.target_uri),
        ("WARC-Concurrent-To", record.concurrent_to),
        ("WARC-Warcinfo-ID", record.warcinfo),
        ("WARC-Filename", record.filename),
        ("WARC-Truncated", record.truncated),
    ] {
        value.iter().for_each(|value| field(name, value));
    }
    if let Some(ip) = record.ip {
        field("WARC-IP-Address", &ip.to_string());
    }
    if let Some(revisit) = &record.revisit {
        field("WARC-Profile", revisit.profile.as_str());
        field("WARC-Refers-To", revisit.refers_to);
        field("WARC-Refers-To-Target-URI", revisit.target_uri);
        field("WARC-Refers-To-Date", &revisit.date.to_string());
        if let Some((offset, length)) = revisit.place {
            field(PAYLOAD_PLACE, &format!("{offset} {length}"));
        }
    }
    let response = record.kind == RecordType::Response;
    let payload_digest =
        record.payload_digest.or_else(|| response.then(|| Digest::of(&[record.payload])));
    if let Some(digest) = payload_digest {
        field("WARC-Payload-Digest", &digest.to_string());
    }
    field("WARC-Block-Digest", &Digest::of(&[record.head, record.payload]).to_string());
    field("Content-Type", record.content_type);
    field("Content-Length", &(record.head.len() + record.payload.len()).to_string());
    out.push_str("\r\n");
    out
}
