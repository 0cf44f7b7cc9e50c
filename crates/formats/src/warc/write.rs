//! A record as one gzip member, ready to be appended to a segment.
//!
//! A member is whole or not there: it is built in memory, so that one append makes it.

use std::io::Write as _;

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use super::{Digest, PAYLOAD_PLACE, Record, RecordType};

/// One complete gzip member that holds the record, compressed at `level` 0 to 9.
#[must_use]
pub fn member(record: &Record<'_>, level: u32) -> Vec<u8> {
    let header = header(record);
    let size = header.len() + record.head.len() + record.payload.len();
    // No time and no file name in the gzip header: the same record gives the same bytes.
    let mut gzip =
        GzBuilder::new().write(Vec::with_capacity(size / 3 + 128), Compression::new(level.min(9)));
    match fill(&mut gzip, &[header.as_bytes(), record.head, record.payload, b"\r\n\r\n"]) {
        Ok(()) => gzip.finish().unwrap_or_default(),
        // Writing into memory does not fail; an empty member appends nothing.
        Err(_) => Vec::new(),
    }
}

fn fill(gzip: &mut GzEncoder<Vec<u8>>, parts: &[&[u8]]) -> std::io::Result<()> {
    parts.iter().try_for_each(|part| gzip.write_all(part))
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
