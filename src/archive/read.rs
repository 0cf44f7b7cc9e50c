//! Reading records back, here or in the bucket, also beside the process that writes them.
//!
//! What is handed out is what was served: a digest that does not fit is an error, and a revisit
//! comes with the payload that it refers to. Nothing here writes to a segment.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use feedmill_formats::warc::{self, Fields, HttpHead, OwnedRecord, Record, RecordType};

use super::{ArchiveError, OPEN, Remote};
use crate::db::private;
use crate::model::{RawRef, Truncation};

/// More than a request takes in a segment.
pub(super) const REQUEST_ROOM: u64 = 64 * 1024;
/// The largest request that is read, unpacked.
const MAX_REQUEST: u64 = 1 << 20;
/// The largest record that is read, unpacked, unless the configuration lets bodies be larger.
const MAX_RECORD: u64 = 51 << 20;
/// What the head of an answer takes beside its body, at the most.
const HEAD_ROOM: u64 = 1 << 20;

/// Reads records wherever they are.
#[derive(Clone, Debug)]
pub struct Reader {
    dir: PathBuf,
    remote: Option<Remote>,
    max_record: u64,
}

/// An answer as it was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The record's own fields.
    pub fields: Fields,
    /// The head of the answer.
    pub head: HttpHead,
    /// The head as it stands in the record, with its empty line.
    pub head_bytes: Vec<u8>,
    /// The body as served, still in its content coding.
    pub body: Vec<u8>,
    /// The request that it answers, when it is there.
    pub request: Option<OwnedRecord>,
    /// The gzip members of the record, or of one that needs no other for its payload, and of the
    /// request.
    pub members: (Vec<u8>, Vec<u8>),
}

impl Stored {
    /// Why the body is not whole.
    #[must_use]
    pub fn truncated(&self) -> Option<Truncation> {
        let told = self.fields.get("WARC-Truncated")?;
        let all = [Truncation::Length, Truncation::Time, Truncation::Disconnect];
        all.into_iter().find(|why| why.as_str() == told)
    }
}

impl Reader {
    /// Reads in a directory, and in a bucket what is not there.
    #[must_use]
    pub const fn new(dir: PathBuf, remote: Option<Remote>) -> Self {
        Self { dir, remote, max_record: MAX_RECORD }
    }

    /// Also reads records with bodies of this many bytes.
    #[must_use]
    pub fn with_max_body(mut self, bytes: u64) -> Self {
        self.max_record = max_record(bytes);
        self
    }

    /// Records that unpack to more bytes than this are not read.
    #[must_use]
    pub const fn max_record(&self) -> u64 {
        self.max_record
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The bucket.
    #[must_use]
    pub const fn remote(&self) -> Option<&Remote> {
        self.remote.as_ref()
    }

    /// An answer with its payload and its request.
    pub async fn stored(&self, raw: &RawRef) -> Result<Stored, ArchiveError> {
        let end = raw.offset.saturating_add(self.check_length(raw)?);
        let bytes = self.bytes(raw, raw.offset..end.saturating_add(REQUEST_ROOM)).await?;
        let own =
            usize::try_from(raw.length).ok().and_then(|length| bytes.split_at_checked(length));
        let Some((own, behind)) = own else {
            return Err(ArchiveError::damaged(raw, "the segment ends before the record"));
        };
        let mut record = whole(raw, own, self.max_record)?;
        let request = request_of(&record.fields, behind);
        let (request, request_member) = request
            .map_or((None, Vec::new()), |(request, member)| (Some(request), member.to_vec()));
        let Some((head, body)) = record.http() else {
            return Err(ArchiveError::damaged(raw, "the record is no answer"));
        };
        let head_length = record.block.len() - body.len();
        let (body, own) = match record.fields.kind() {
            // Split and not copied: a body may be large.
            Some(RecordType::Response) => (record.block.split_off(head_length), own.to_vec()),
            Some(RecordType::Revisit) => {
                let body = self.payload(raw, &record.fields).await?;
                let own = as_response(&record, &body);
                record.block.truncate(head_length);
                (body, own)
            }
            _ => return Err(ArchiveError::damaged(raw, "the record is no answer")),
        };
        let (members, head_bytes) = ((own, request_member), record.block);
        Ok(Stored { fields: record.fields, head, head_bytes, body, request, members })
    }

    /// The payload that a revisit refers to. It stands in the same segment.
    async fn payload(&self, raw: &RawRef, revisit: &Fields) -> Result<Vec<u8>, ArchiveError> {
        let unfit = || ArchiveError::damaged(raw, "the revisit does not lead to its payload");
        let (offset, length) = revisit.payload_place().ok_or_else(unfit)?;
        let place = RawRef { segment: raw.segment.clone(), offset, length };
        self.check_length(&place)?;
        let bytes = self.bytes(&place, offset..offset.saturating_add(length)).await?;
        let mut earlier = whole(&place, &bytes, self.max_record)?;
        let is_it = earlier.fields.id() == revisit.get("WARC-Refers-To")
            && earlier.fields.payload_digest() == revisit.payload_digest();
        let (_, body) = earlier.http().filter(|_| is_it).ok_or_else(unfit)?;
        let head_length = earlier.block.len() - body.len();
        Ok(earlier.block.split_off(head_length))
    }

    /// The length of a record in its segment. No record that may be read is longer: what does not
    /// shrink takes a few bytes more than it has.
    fn check_length(&self, raw: &RawRef) -> Result<u64, ArchiveError> {
        let longest = self.max_record.saturating_add(self.max_record / 1_000 + HEAD_ROOM);
        if raw.length > longest {
            let error = warc::WarcError::TooLarge(raw.length);
            return Err(ArchiveError::damaged(raw, &error));
        }
        Ok(raw.length)
    }

    /// Bytes of a segment, as many of the range as there are.
    async fn bytes(&self, raw: &RawRef, range: Range<u64>) -> Result<Bytes, ArchiveError> {
        let (dir, segment, wanted) = (self.dir.clone(), raw.segment.clone(), range.clone());
        let here = move || read_here(&dir, &segment, &wanted);
        let here = tokio::task::spawn_blocking(here).await;
        if let Some(bytes) = here.map_err(|error| ArchiveError::damaged(raw, &error))?? {
            return Ok(bytes.into());
        }
        let there = match &self.remote {
            Some(remote) => remote.read(&raw.segment, range).await?,
            None => None,
        };
        there.ok_or_else(|| missing(&self.dir, self.remote.as_ref(), &raw.segment))
    }

    /// Whether a segment is being written here.
    #[must_use]
    pub fn is_open(&self, segment: &str) -> bool {
        self.dir.join(format!("{segment}{OPEN}")).exists()
    }

    /// Whether a segment is in the directory, closed or not.
    #[must_use]
    pub fn is_here(&self, segment: &str) -> bool {
        self.is_open(segment) || self.dir.join(segment).exists()
    }

    /// A whole segment to be read from its start; one that is only in the bucket is fetched into a
    /// file without a name.
    pub async fn open(&self, segment: &str) -> Result<File, ArchiveError> {
        if let Some((file, _)) = open_here(&self.dir, segment)? {
            return Ok(file);
        }
        let gone = || missing(&self.dir, self.remote.as_ref(), segment);
        let remote = self.remote.as_ref().ok_or_else(gone)?;
        let path = self.dir.join(format!("{segment}.fetched-{}", std::process::id()));
        private::make_dir(&self.dir).map_err(ArchiveError::io(&self.dir))?;
        let mut options = private::options();
        options.read(true).write(true).create(true).truncate(true);
        let mut file =
            private::open_regular(&mut options, &path).map_err(ArchiveError::io(&path))?;
        fs::remove_file(&path).map_err(ArchiveError::io(&path))?;
        if !remote.download(segment, &mut file).await? {
            return Err(gone());
        }
        file.seek(SeekFrom::Start(0)).map_err(ArchiveError::io(&path))?;
        Ok(file)
    }
}

/// The largest record that is read when bodies have at most so many bytes.
pub(super) fn max_record(max_body: u64) -> u64 {
    MAX_RECORD.max(max_body.saturating_add(HEAD_ROOM))
}

fn missing(dir: &Path, remote: Option<&Remote>, segment: &str) -> ArchiveError {
    let dir = dir.display();
    let place = remote.map_or_else(|| dir.to_string(), |remote| format!("{dir} or {remote}"));
    ArchiveError::Missing { segment: segment.to_owned(), place }
}

/// A segment in the directory, closed or open. It may be closed, and so renamed, between two looks.
pub(super) fn open_here(
    dir: &Path,
    segment: &str,
) -> Result<Option<(File, PathBuf)>, ArchiveError> {
    let (closed, open) = (dir.join(segment), dir.join(format!("{segment}{OPEN}")));
    for path in [&closed, &open, &closed] {
        match private::read_regular(path) {
            Ok(file) => return Ok(Some((file, path.clone()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(ArchiveError::io(path)(error)),
        }
    }
    Ok(None)
}

pub(super) fn read_here(
    dir: &Path,
    segment: &str,
    range: &Range<u64>,
) -> Result<Option<Vec<u8>>, ArchiveError> {
    let Some((mut file, path)) = open_here(dir, segment)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(range.start))
        .and_then(|_| file.take(range.end.saturating_sub(range.start)).read_to_end(&mut bytes))
        .map_err(ArchiveError::io(&path))?;
    Ok(Some(bytes))
}

fn whole(raw: &RawRef, member: &[u8], limit: u64) -> Result<OwnedRecord, ArchiveError> {
    let record =
        warc::read_member(member, limit).map_err(|error| ArchiveError::damaged(raw, &error))?;
    if record.intact() {
        Ok(record)
    } else {
        Err(ArchiveError::damaged(raw, "the record is not what its digest says"))
    }
}

/// The request of an answer and its member, when they stand right behind it.
pub(super) fn request_of<'a>(answer: &Fields, behind: &'a [u8]) -> Option<(OwnedRecord, &'a [u8])> {
    let member = warc::scan(behind, MAX_REQUEST).next()?.ok()?;
    let bytes = behind.get(..usize::try_from(member.length).ok()?)?;
    let request = warc::read_member(bytes, MAX_REQUEST).ok()?;
    let is_its = request.fields.kind() == Some(RecordType::Request)
        && request.fields.get("WARC-Concurrent-To") == answer.id();
    is_its.then_some((request, bytes))
}

/// A revisit as the response that it stands for.
fn as_response(revisit: &OwnedRecord, payload: &[u8]) -> Vec<u8> {
    let fields = &revisit.fields;
    let id = fields.id().unwrap_or_default();
    let date = fields.date().unwrap_or(crate::model::Ts::from_ms(0));
    let mut record = Record::new(RecordType::Response, id, date, warc::HTTP_RESPONSE);
    record.target_uri = fields.target_uri();
    record.warcinfo = fields.get("WARC-Warcinfo-ID");
    record.ip = fields.get("WARC-IP-Address").and_then(|ip| ip.parse().ok());
    record.task_kind = fields.get(warc::TASK_KIND);
    record.head = &revisit.block;
    record.payload = payload;
    warc::member(&record, 6)
}
