//! A record as one gzip member, ready to be appended to a segment.
//!
//! A member is whole or not there: it is built in memory, so that one append makes it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use flate2::{Compress, CompressError, Compression, Crc, FlushCompress, Status};

use super::{Digest, PAYLOAD_PLACE, Record, RecordType, TASK_KIND};
use crate::date::Ts;

/// The head of a gzip member without a time and without a file name: the same record gives the same
/// bytes.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

thread_local! {
    /// A compressor takes longer to set up than a request record to compress: each thread keeps its,
    /// one for each level.
    static DEFLATE: RefCell<BTreeMap<u32, Compress>> = const { RefCell::new(BTreeMap::new()) };
}

/// The last bytes of a record.
const END: &[u8] = b"\r\n\r\n";
/// Bytes that one stored block of a deflate stream takes at the most.
const STORED: usize = 0xffff;

/// One complete gzip member that holds the record, compressed at `level` 0 to 9.
#[must_use]
pub fn member(record: &Record<'_>, level: u32) -> Vec<u8> {
    let header = header(record);
    let parts = [header.as_bytes(), record.head, record.payload, END];
    let mut crc = Crc::new();
    parts.iter().for_each(|part| crc.update(part));
    let mut out = Vec::with_capacity(parts.iter().map(|part| part.len()).sum::<usize>() / 2 + 128);
    out.extend_from_slice(&GZIP_HEAD);
    // Heads are so short that trying hard gains next to nothing and takes as long as all the rest.
    let quick = level.min(1);
    let done = if record.coded {
        let [header, head, payload, _] = parts;
        let begun = deflate(&[header, head], quick, FlushCompress::Sync, &mut out);
        begun.map(|()| store(payload, &mut out))
    } else {
        let level = if record.payload.is_empty() { quick } else { level };
        deflate(&parts, level, FlushCompress::Finish, &mut out)
    };
    // Compressing in memory does not fail; an empty member appends nothing.
    if done.is_err() {
        return Vec::new();
    }
    out.extend_from_slice(&crc.sum().to_le_bytes());
    out.extend_from_slice(&crc.amount().to_le_bytes());
    out
}

/// Appends the parts as the beginning of a deflate stream, or as all of it.
fn deflate(
    parts: &[&[u8]],
    level: u32,
    flush: FlushCompress,
    out: &mut Vec<u8>,
) -> Result<(), CompressError> {
    DEFLATE.with_borrow_mut(|kept| {
        let level = level.min(9);
        let new = || Compress::new(Compression::new(level), false);
        let deflate = kept.entry(level).or_insert_with(new);
        deflate.reset();
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let before = deflate.total_in();
                out.reserve(rest.len() / 2 + 64);
                deflate.compress_vec(rest, out, FlushCompress::None)?;
                let taken = usize::try_from(deflate.total_in() - before).unwrap_or(usize::MAX);
                rest = rest.get(taken..).unwrap_or_default();
            }
        }
        loop {
            out.reserve(1024);
            let status = deflate.compress_vec(&[], out, flush)?;
            // A flush is over when there was room for more.
            let flushed = flush == FlushCompress::Sync && out.len() < out.capacity();
            if status == Status::StreamEnd || flushed {
                return Ok(());
            }
        }
    })
}

/// Ends a deflate stream, which stands at a whole byte, with the payload as it is.
fn store(payload: &[u8], out: &mut Vec<u8>) {
    // Room for the lengths, for what ends the member, and for a request behind it.
    out.reserve(payload.len() + payload.len() / 4_096 + 1_024);
    payload.chunks(STORED).for_each(|chunk| block(chunk, false, out));
    block(END, true, out);
}

/// A member of exactly this length that says nothing: what stands in the place of a record that was
/// taken out, so that all others stay where they are. `None` when there is no room for one.
#[must_use]
pub fn blank(id: &str, date: Ts, length: usize) -> Option<Vec<u8>> {
    let head = |body: usize| {
        // As many digits whatever the length is: it follows from what is left.
        format!(
            "WARC/1.1\r\nWARC-Type: metadata\r\nWARC-Record-ID: {id}\r\nWARC-Date: {date}\r\nContent-Type: text/plain\r\nContent-Length: {body:010}\r\n\r\n"
        )
    };
    let fixed = GZIP_HEAD.len() + 8;
    let blocks = (1..=length / STORED + 2).find(|blocks| {
        length.checked_sub(fixed + 5 * blocks).is_some_and(|text| text.div_ceil(STORED) <= *blocks)
    })?;
    let text = length.checked_sub(fixed + 5 * blocks)?;
    let body = text.checked_sub(head(0).len() + END.len())?;
    let mut record = head(body).into_bytes();
    record.resize(record.len() + body, b' ');
    record.extend_from_slice(END);
    let mut crc = Crc::new();
    crc.update(&record);
    let mut out = Vec::with_capacity(length);
    out.extend_from_slice(&GZIP_HEAD);
    let mut chunks = record.chunks(STORED);
    for left in (0..blocks).rev() {
        block(chunks.next().unwrap_or_default(), left == 0, &mut out);
    }
    out.extend_from_slice(&crc.sum().to_le_bytes());
    out.extend_from_slice(&crc.amount().to_le_bytes());
    Some(out)
}

/// Appends bytes to a deflate stream as they are.
fn block(bytes: &[u8], last: bool, out: &mut Vec<u8>) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.push(u8::from(last));
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn header(record: &Record<'_>) -> String {
    let mut out = String::with_capacity(768);
    out.push_str("WARC/1.1\r\n");
    let mut field = |name: &str, value: &str| {
        out.push_str(name);
        out.push_str(": ");
        // A line break inside a value would end the field.
        value.split(char::is_control).for_each(|run| out.push_str(run));
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
        (TASK_KIND, record.task_kind),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warc::{RecordType, read_member, scan};

    const ID: &str = "<urn:uuid:01982d7e-3a52-7cc0-a0d0-6a1f3e1f7a11>";

    #[test]
    fn what_stands_in_a_gap_is_a_record_of_exactly_its_length() {
        let date = Ts::from_ms(1_700_000_000_000);
        let least = (0..1_000).find(|length| blank(ID, date, *length).is_some()).unwrap();
        assert!(least < 260, "{least}: requests are hardly longer");
        let around = |at: usize| at - 20..at + 20;
        let lengths = (least..least + 40).chain(around(STORED)).chain(around(2 * STORED));
        for length in lengths.chain([1_000_000]) {
            let member = blank(ID, date, length).unwrap();
            assert_eq!(member.len(), length);
            let record = read_member(&member, 1 << 30).unwrap();
            assert_eq!(record.fields.kind(), Some(RecordType::Metadata));
            assert!(record.block.iter().all(|byte| *byte == b' '));
            let pair = [member.clone(), member].concat();
            assert_eq!(scan(pair.as_slice(), 1 << 30).filter(Result::is_ok).count(), 2, "{length}");
        }
    }
}
