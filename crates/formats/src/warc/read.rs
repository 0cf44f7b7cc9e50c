//! Reading a segment: one record by its place, or all of them in order.
//!
//! A segment may end in a torn member after a crash, and may hold anything after a bad disk:
//! whatever is read is an error or a whole record, never a part of one, and no more is unpacked
//! than the caller or the record's own length allows.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;
use sha1::Sha1;
use sha1::digest::Digest as _;

use super::{Digest, HttpHead, PAYLOAD_PLACE, RecordType};
use crate::date::Ts;

/// The most bytes that the header of one record may have.
const MAX_HEADER: usize = 64 * 1024;

/// No deflate stream unpacks to more than this many times its length.
const MAX_RATIO: u64 = 1_032;

/// Why bytes are not a record.
#[derive(Debug, thiserror::Error)]
pub enum WarcError {
    /// The gzip member is torn or damaged.
    #[error("gzip member is torn or damaged: {0}")]
    Gzip(io::Error),
    /// The member does not hold a WARC 1.x record.
    #[error("malformed record: {0}")]
    Malformed(&'static str),
    /// The block is larger than the caller allows.
    #[error("record of {0} bytes is over the limit")]
    TooLarge(u64),
}

impl WarcError {
    /// The stable name of this failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Gzip(_) => "warc_gzip",
            Self::Malformed(_) => "warc_malformed",
            Self::TooLarge(_) => "warc_too_large",
        }
    }
}

/// The named fields of a record, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// The first value of a field; names are compared without regard to case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// All fields as they were written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// What the record holds; `None` for a type that is not written here.
    #[must_use]
    pub fn kind(&self) -> Option<RecordType> {
        RecordType::from_name(self.get("WARC-Type")?)
    }

    /// The record's id with its angle brackets.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.get("WARC-Record-ID")
    }

    /// When it was captured.
    #[must_use]
    pub fn date(&self) -> Option<Ts> {
        self.get("WARC-Date")?.parse().ok()
    }

    /// The address that was fetched.
    #[must_use]
    pub fn target_uri(&self) -> Option<&str> {
        self.get("WARC-Target-URI")
    }

    /// The digest of the payload, when it is a SHA-1 in base 32.
    #[must_use]
    pub fn payload_digest(&self) -> Option<Digest> {
        self.get("WARC-Payload-Digest")?.parse().ok()
    }

    /// Where in the same segment the payload of a revisit is: first byte and length of its member.
    #[must_use]
    pub fn payload_place(&self) -> Option<(u64, u64)> {
        let (offset, length) = self.get(PAYLOAD_PLACE)?.split_once(' ')?;
        Some((offset.parse().ok()?, length.parse().ok()?))
    }

    fn is_http(&self) -> bool {
        let kind = self.get("Content-Type").unwrap_or_default();
        kind.trim_start().starts_with("application/http")
    }

    fn content_length(&self) -> Result<u64, WarcError> {
        let length = self.get("Content-Length").and_then(|value| value.parse().ok());
        length.ok_or(WarcError::Malformed("no content length"))
    }

    /// Reads the version line and the fields up to the empty line.
    fn read(from: &mut impl BufRead) -> Result<Self, WarcError> {
        let mut budget = MAX_HEADER;
        if !line(from, &mut budget)?.starts_with("WARC/1.") {
            return Err(WarcError::Malformed("no WARC version line"));
        }
        let mut fields: Vec<(String, String)> = Vec::with_capacity(16);
        loop {
            let line = line(from, &mut budget)?;
            if line.is_empty() {
                return Ok(Self(fields));
            }
            // A line that starts with a space continues the field before it.
            if line.starts_with([' ', '\t'])
                && let Some((_, value)) = fields.last_mut()
            {
                value.push(' ');
                value.push_str(line.trim());
                continue;
            }
            let (name, value) =
                line.split_once(':').ok_or(WarcError::Malformed("field without a colon"))?;
            fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
}

fn line(from: &mut impl BufRead, budget: &mut usize) -> Result<String, WarcError> {
    let mut line = Vec::new();
    let cap = u64::try_from(*budget).unwrap_or(0);
    let read = from.by_ref().take(cap).read_until(b'\n', &mut line).map_err(WarcError::Gzip)?;
    *budget = budget.saturating_sub(read);
    match line.strip_suffix(b"\n") {
        Some(line) => {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            Ok(String::from_utf8_lossy(line).into_owned())
        }
        None => Err(WarcError::Malformed("header does not end")),
    }
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Its named fields.
    pub fields: Fields,
    /// Its block.
    pub block: Vec<u8>,
}

impl OwnedRecord {
    /// The HTTP head and the body as served, when the block is an HTTP message.
    #[must_use]
    pub fn http(&self) -> Option<(HttpHead, &[u8])> {
        self.fields.is_http().then(|| HttpHead::split(&self.block)).flatten()
    }

    /// Whether block and payload are what their digests say; true where there is none to compare.
    #[must_use]
    pub fn intact(&self) -> bool {
        let payload = self.http().map(|(_, payload)| Digest::of(&[payload]));
        matches(&self.fields, Digest::of(&[&self.block]), payload)
    }
}

/// The payload of a revisit is elsewhere: only that of a response can be compared.
fn matches(fields: &Fields, block: Digest, payload: Option<Digest>) -> bool {
    let written = fields.get("WARC-Block-Digest").and_then(|digest| digest.parse::<Digest>().ok());
    let served = fields.payload_digest().filter(|_| fields.kind() == Some(RecordType::Response));
    written.is_none_or(|written| written == block)
        && served.is_none_or(|served| payload == Some(served))
}

/// The record in the gzip member at the start of `bytes`, when its block has at most `limit` bytes.
///
/// # Errors
/// When the member is torn or damaged, is no record, or is larger than the limit.
pub fn read_member(bytes: &[u8], limit: u64) -> Result<OwnedRecord, WarcError> {
    let mut unpacked = BufReader::new(GzDecoder::new(bytes));
    let fields = Fields::read(&mut unpacked)?;
    let length = fields.content_length()?;
    if length > limit {
        return Err(WarcError::TooLarge(length));
    }
    // Room for the whole block and no more: a growing buffer would hold twice the limit.
    let packed = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let room = length.min(packed.saturating_mul(MAX_RATIO)).saturating_add(1);
    let mut block = Vec::with_capacity(usize::try_from(room).unwrap_or_default());
    unpacked.by_ref().take(length).read_to_end(&mut block).map_err(WarcError::Gzip)?;
    if u64::try_from(block.len()).ok() != Some(length) {
        return Err(WarcError::Malformed("block is shorter than its length"));
    }
    end_of_record(&mut unpacked)?;
    Ok(OwnedRecord { fields, block })
}

/// The named fields of the record in the gzip member at the start of `bytes`. Its block is not
/// unpacked, so `bytes` may end within it.
///
/// # Errors
/// When the member is damaged before its block, or is no record.
pub fn read_fields(bytes: &[u8]) -> Result<Fields, WarcError> {
    Fields::read(&mut BufReader::new(GzDecoder::new(bytes)))
}

/// Two line ends, and the end of the member with its checksum.
fn end_of_record(unpacked: &mut impl Read) -> Result<(), WarcError> {
    let mut tail = Vec::with_capacity(5);
    unpacked.take(5).read_to_end(&mut tail).map_err(WarcError::Gzip)?;
    if tail == b"\r\n\r\n" { Ok(()) } else { Err(WarcError::Malformed("block is not closed")) }
}

/// Where a record stands in its segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The first byte of its gzip member.
    pub offset: u64,
    /// The bytes of its gzip member.
    pub length: u64,
    /// Its named fields.
    pub fields: Fields,
    /// Whether block and payload are what their digests say.
    pub intact: bool,
}

/// All records of a segment in order whose blocks have at most `limit` bytes. A larger one is an
/// error, and the next record follows it; after any other error there are none.
pub fn scan<R: Read>(segment: R, limit: u64) -> Scan<R> {
    let segment = Counted { inner: BufReader::new(segment), at: 0, broken: false };
    Scan { segment, done: false, limit }
}

/// The iterator of [`scan`].
#[derive(Debug)]
pub struct Scan<R> {
    pub(super) segment: Counted<R>,
    pub(super) done: bool,
    limit: u64,
}

impl<R: Read> Scan<R> {
    pub(super) fn member(&mut self) -> Result<Option<Member>, WarcError> {
        if self.segment.fill_buf().map_err(WarcError::Gzip)?.is_empty() {
            return Ok(None);
        }
        let offset = self.segment.at;
        // The decoder takes from the segment only what belongs to its member.
        let mut unpacked = BufReader::new(GzDecoder::new(&mut self.segment));
        let fields = Fields::read(&mut unpacked)?;
        let length = fields.content_length()?;
        if length > self.limit {
            // The next record begins behind this one. Unpacking it takes time and no memory.
            io::copy(&mut unpacked, &mut io::sink()).map_err(WarcError::Gzip)?;
            return Err(WarcError::TooLarge(length));
        }
        let (block, payload) = digests(&mut unpacked, length)?;
        end_of_record(&mut unpacked)?;
        let intact = matches(&fields, block, payload.filter(|_| fields.is_http()));
        Ok(Some(Member { offset, length: self.segment.at - offset, fields, intact }))
    }
}

impl<R: Read> Iterator for Scan<R> {
    type Item = Result<Member, WarcError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.member().transpose();
        self.done = !matches!(next, Some(Ok(_) | Err(WarcError::TooLarge(_))));
        next
    }
}

/// The digests of the next `length` bytes, and of those behind the first empty line; in constant
/// memory.
fn digests(from: &mut impl BufRead, length: u64) -> Result<(Digest, Option<Digest>), WarcError> {
    const HEAD_END: &[u8] = b"\r\n\r\n";
    let (mut whole, mut payload) = (Sha1::new(), Sha1::new());
    // Bytes of the head's end that were just seen.
    let mut seen = 0;
    let mut block = from.take(length);
    loop {
        let chunk = block.fill_buf().map_err(WarcError::Gzip)?;
        if chunk.is_empty() {
            break;
        }
        whole.update(chunk);
        let mut rest = chunk.iter();
        while seen < HEAD_END.len()
            && let Some(byte) = rest.next()
        {
            seen = match HEAD_END.get(seen) {
                Some(next) if next == byte => seen + 1,
                _ => usize::from(*byte == b'\r'),
            };
        }
        payload.update(rest.as_slice());
        let taken = chunk.len();
        block.consume(taken);
    }
    match block.limit() {
        0 => Ok((whole.into(), (seen == HEAD_END.len()).then(|| payload.into()))),
        _ => Err(WarcError::Malformed("block is shorter than its length")),
    }
}

/// Counts what is consumed, and tells a failing disk from bad bytes.
#[derive(Debug)]
pub(super) struct Counted<R> {
    pub(super) inner: BufReader<R>,
    pub(super) at: u64,
    pub(super) broken: bool,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut available = self.fill_buf()?;
        let count = available.read(out)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: Read> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.inner.fill_buf() {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                self.broken = true;
                Err(error)
            }
            other => other,
        }
    }

    fn consume(&mut self, count: usize) {
        self.at += u64::try_from(count).unwrap_or(0);
        self.inner.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;

    use super::super::*;
    use super::*;

    const LIMIT: u64 = 1 << 20;
    const INFO: &str = "<urn:uuid:00000000-0000-7000-8000-000000000001>";
    const REQUEST: &str = "<urn:uuid:00000000-0000-7000-8000-000000000002>";
    const RESPONSE: &str = "<urn:uuid:00000000-0000-7000-8000-000000000003>";
    const REVISIT: &str = "<urn:uuid:00000000-0000-7000-8000-000000000004>";
    const URI: &str = "https://example.com/news?a=1";
    const AT: Ts = Ts::from_ms(1_794_700_800_123);

    /// A segment as a crawl writes it, member by member.
    fn segment(body: &[u8]) -> Vec<Vec<u8>> {
        let request = request_head("GET", "/news?a=1", [("host", b"example.com".as_slice())]);
        let response = response_head(200, "OK", [("content-type", b"text/html".as_slice())], true);
        let not_modified = response_head(304, "Not Modified", [("etag", b"1")], true);
        let record = |kind, id, content_type| Record {
            target_uri: (kind != RecordType::Warcinfo).then_some(URI),
            ..Record::new(kind, id, AT, content_type)
        };
        let info = Record {
            filename: Some("a.warc.gz"),
            payload: b"software: feedmill\r\n",
            ..record(RecordType::Warcinfo, INFO, WARC_FIELDS)
        };
        let sent = Record {
            concurrent_to: Some(RESPONSE),
            warcinfo: Some(INFO),
            head: &request,
            ..record(RecordType::Request, REQUEST, HTTP_REQUEST)
        };
        let served = Record {
            ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            truncated: Some("length"),
            head: &response,
            payload: body,
            ..record(RecordType::Response, RESPONSE, HTTP_RESPONSE)
        };
        let again = Record {
            payload_digest: Some(Digest::of(&[body])),
            revisit: Some(Revisit {
                profile: RevisitProfile::NotModified,
                refers_to: RESPONSE,
                target_uri: URI,
                date: AT,
                place: Some((17, 4)),
            }),
            head: &not_modified,
            ..record(RecordType::Revisit, REVISIT, HTTP_RESPONSE)
        };
        [info, sent, served, again].iter().map(|record| member(record, 6)).collect()
    }

    /// Places of the whole records, and where there are none.
    fn walk(bytes: &[u8]) -> (Vec<(u64, u64)>, Vec<u64>) {
        let (mut records, mut gaps) = (Vec::new(), Vec::new());
        for piece in pieces(io::Cursor::new(bytes), LIMIT) {
            match piece.unwrap() {
                Piece::Record(member) => records.push((member.offset, member.length)),
                Piece::Gap { offset, .. } => gaps.push(offset),
            }
        }
        (records, gaps)
    }

    #[test]
    fn what_is_written_is_read() {
        let members = segment(b"<html>");
        let all = members.concat();
        let scanned: Vec<_> = scan(all.as_slice(), LIMIT).collect::<Result<_, _>>().unwrap();
        let lengths: Vec<_> = members.iter().map(|m| u64::try_from(m.len()).unwrap()).collect();
        assert_eq!(scanned.iter().map(|m| m.length).collect::<Vec<_>>(), lengths);
        assert!(scanned.iter().all(|member| member.intact));
        let kinds: Vec<_> = scanned.iter().filter_map(|member| member.fields.kind()).collect();
        use RecordType::*;
        assert_eq!(kinds, [Warcinfo, Request, Response, Revisit]);

        let start = usize::try_from(scanned[2].offset).unwrap();
        let record = read_member(&all[start..], LIMIT).unwrap();
        assert_eq!(record.fields, scanned[2].fields);
        assert_eq!(record.fields.id(), Some(RESPONSE));
        assert_eq!(record.fields.date(), Some(AT));
        assert_eq!(record.fields.target_uri(), Some(URI));
        assert_eq!(record.fields.get("warc-ip-address"), Some("127.0.0.1"));
        assert_eq!(record.fields.get("WARC-Truncated"), Some("length"));
        assert_eq!(record.fields.payload_digest(), Some(Digest::of(&[b"<html>"])));
        let (head, body) = record.http().unwrap();
        assert_eq!((head.status(), head.get("Content-Type")), (Some(200), Some("text/html")));
        assert_eq!(body, b"<html>");
        let refers = scanned[3].fields.get("WARC-Refers-To");
        assert_eq!(refers, Some(RESPONSE));
        assert_eq!(scanned[3].fields.payload_place(), Some((17, 4)));
        assert_eq!(scanned[2].fields.payload_place(), None);
        assert_eq!(read_member(&all, LIMIT).unwrap().http(), None);
    }

    #[test]
    fn a_segment_cut_anywhere_has_the_whole_records_before() {
        let members = segment(b"some body that is long enough to be worth compressing");
        let all = members.concat();
        let ends: Vec<usize> = members
            .iter()
            .scan(0, |end, member| {
                *end += member.len();
                Some(*end)
            })
            .collect();
        for cut in 0..=all.len() {
            let whole = ends.iter().rev().find(|end| **end <= cut).copied().unwrap_or(0);
            let (found, gaps) = walk(&all[..cut]);
            let end = found.last().map_or(0, |(offset, length)| offset + length);
            assert_eq!(end, u64::try_from(whole).unwrap(), "cut at {cut}");
            assert_eq!(gaps.len(), usize::from(cut != whole));
        }
    }

    #[test]
    fn a_damaged_byte_costs_its_own_record_and_no_other() {
        let members = segment(b"body");
        let all = members.concat();
        let (whole, gaps) = walk(&all);
        assert_eq!((whole.len(), gaps.len()), (4, 0));
        let mut spared = 0;
        for (n, (offset, length)) in whole.iter().enumerate() {
            let others = [&whole[..n], &whole[n + 1..]].concat();
            let (start, end) = (*offset as usize, (offset + length) as usize);
            // Nothing checks the time and the system in the gzip header, nor the bits that fill up
            // the last byte before the checksum.
            for at in (start..start + 3).chain(start + 10..end - 9).chain(end - 8..end) {
                let mut damaged = all.clone();
                damaged[at] ^= 0x40;
                // What was copied from one place may stand in another too: no byte of it is lost.
                let read = read_member(&damaged[start..], LIMIT).ok();
                if read.as_ref() == Some(&read_member(&all[start..], LIMIT).unwrap()) {
                    spared += 1;
                    continue;
                }
                assert_eq!(walk(&damaged), (others.clone(), vec![*offset]), "damaged at {at}");
                assert!(read.is_none());
            }
            // As many bytes as there are, and some more or fewer.
            for middle in [vec![0; 3], vec![0x1f; 70_000], members[n][..5].repeat(9)] {
                let damaged = [&all[..start], &middle, &all[end..]].concat();
                let (found, gaps) = walk(&damaged);
                assert_eq!((found.len(), gaps), (3, vec![*offset]), "{n}");
            }
        }
        assert!(spared < 10, "{spared} of {} bytes", all.len());
    }

    #[test]
    fn a_lying_record_is_refused() {
        let pack = |text: &[u8]| {
            use std::io::Write as _;
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(text).unwrap();
            gzip.finish().unwrap()
        };
        for (text, code) in [
            (b"hello".as_slice(), "warc_malformed"),
            (b"WARC/1.1\r\n\r\n", "warc_malformed"),
            (b"WARC/1.1\r\nContent-Length: 4\r\n\r\nabc\r\n\r\n", "warc_malformed"),
            (b"WARC/1.1\r\nContent-Length: 2\r\n\r\nabc\r\n\r\n", "warc_malformed"),
            (b"WARC/1.1\r\nContent-Length: 99999999\r\n\r\nabc\r\n\r\n", "warc_too_large"),
            (b"WARC/1.1\r\nno colon\r\n\r\n", "warc_malformed"),
        ] {
            let packed = pack(text);
            assert_eq!(read_member(&packed, LIMIT).unwrap_err().code(), code);
            assert_eq!(walk(&packed), (vec![], vec![0]));
            let behind = [&packed, &segment(b"body").concat()[..]].concat();
            assert_eq!(walk(&behind).0.len(), 4, "the records behind it are read");
        }
        let endless = pack(&[b"WARC/1.1\r\n", vec![b'a'; 1 << 22].as_slice()].concat());
        assert_eq!(read_member(&endless, LIMIT).unwrap_err().code(), "warc_malformed");
        let wrong = b"WARC/1.0\r\nWARC-Block-Digest: sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ\r\n\
              content-length: 1\r\nX: a\r\n b\r\n\r\na\r\n\r\n";
        let record = read_member(&pack(wrong), LIMIT).unwrap();
        assert!(!record.intact());
        assert_eq!(record.fields.get("x"), Some("a b"));
    }

    #[test]
    fn a_record_over_the_limit_costs_no_other_record() {
        let large = vec![b' '; usize::try_from(LIMIT).unwrap() + 1];
        let bomb = segment(&large).remove(2);
        assert!(bomb.len() * 500 < large.len(), "it is small on disk");
        assert_eq!(read_member(&bomb, LIMIT).unwrap_err().code(), "warc_too_large");
        assert_eq!(read_fields(&bomb[..600]).unwrap().id(), Some(RESPONSE));
        let small = segment(b"body");
        // A segment within a segment: what the large record holds is not taken for records.
        let nested = Record {
            payload: &[small.concat(), large].concat(),
            coded: true,
            ..Record::new(RecordType::Metadata, INFO, AT, "application/octet-stream")
        };
        for large in [bomb, member(&nested, 6)] {
            let all = [small[0].clone(), large.clone(), small[2].clone(), large].concat();
            let (records, gaps) = walk(&all);
            assert_eq!((records.len(), gaps.len()), (2, 2));
            assert_eq!(gaps[0], records[0].1);
            let codes: Vec<_> = scan(all.as_slice(), LIMIT)
                .map(|member| member.map_or_else(|error| error.code(), |_| "record"))
                .collect();
            assert_eq!(codes, ["record", "warc_too_large", "record", "warc_too_large"]);
        }
    }

    #[test]
    fn a_payload_that_is_not_what_its_digest_says_is_seen() {
        let head = response_head(200, "OK", [("", b""); 0], true);
        let record = Record {
            target_uri: Some(URI),
            payload_digest: Some(Digest::of(&[b"other"])),
            head: &head,
            payload: b"this",
            ..Record::new(RecordType::Response, RESPONSE, AT, HTTP_RESPONSE)
        };
        let packed = member(&record, 6);
        assert!(!read_member(&packed, LIMIT).unwrap().intact());
        assert!(!scan(packed.as_slice(), LIMIT).next().unwrap().unwrap().intact);
        let revisit = Record { kind: RecordType::Revisit, payload: b"", ..record };
        assert!(scan(member(&revisit, 6).as_slice(), LIMIT).next().unwrap().unwrap().intact);
    }

    /// A segment whose disk fails behind its last byte.
    struct BadDisk(io::Cursor<Vec<u8>>);

    impl Read for BadDisk {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            match self.0.read(out)? {
                0 => Err(io::Error::other("bad sector")),
                read => Ok(read),
            }
        }
    }

    impl Seek for BadDisk {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn a_failing_disk_is_not_a_torn_tail() {
        let member = segment(b"body").remove(0);
        for length in [member.len() - 3, member.len()] {
            let disk = BadDisk(io::Cursor::new(member[..length].to_vec()));
            let all: Vec<_> = pieces(disk, LIMIT).collect();
            assert!(matches!(all.last(), Some(Err(_))), "{all:?}");
            assert!(!all.iter().any(|piece| matches!(piece, Ok(Piece::Gap { .. }))), "{all:?}");
        }
    }

    proptest! {
        #[test]
        fn any_body_comes_back(
            (body, times) in (prop::collection::vec(any::<u8>(), 0..4_000), 1..40_usize),
            level in 0..10_u32,
            coded: bool,
        ) {
            // Also more than a stored block takes.
            let body = body.repeat(times);
            let record = Record {
                target_uri: Some(URI),
                payload: &body,
                coded,
                ..Record::new(RecordType::Metadata, INFO, AT, "application/octet-stream")
            };
            let packed = member(&record, level);
            let read = read_member(&packed, LIMIT).unwrap();
            prop_assert!(read.intact());
            prop_assert_eq!(read.block, body);
        }

        #[test]
        fn any_bytes_may_be_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(read_member(&bytes, LIMIT).is_err());
            let (records, gaps) = walk(&bytes);
            prop_assert_eq!((records.len(), gaps.len()), (0, usize::from(!bytes.is_empty())));
        }
    }
}
