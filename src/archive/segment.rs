//! The segment that is being written: its file, what stands in it, and what a crash leaves of it.
//!
//! A record is whole or it is cut off: nothing is ever written behind half of one.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write};
use std::path::{Path, PathBuf};

use feedmill_formats::warc::{
    self, Digest, Piece, Record, RecordType, Revisit, RevisitProfile, WarcError,
};

use super::{ArchiveError, OPEN};
use crate::db::private;
use crate::model::{Exchange, FetchId, Kind, RawRef, Truncation, Ts, new_uuid};

pub(super) const SUFFIX: &str = ".warc.gz";

/// Payloads that are remembered of one segment at the most, the latest: what is served twice is mostly served
/// twice soon. They take some 300 bytes each.
pub(super) const MAX_REMEMBERED: usize = 20_000;

/// A payload that stands in the segment.
#[derive(Clone, Debug)]
pub(super) struct Known {
    id: FetchId,
    url: String,
    date: Ts,
    place: (u64, u64),
    digest: Digest,
}

/// The gzip members of an answer and of its request, one behind the other.
pub(super) struct Pair {
    members: Vec<u8>,
    /// So many bytes of them are the answer.
    response: usize,
}

impl Pair {
    pub(super) fn new(mut response: Vec<u8>, request: &[u8]) -> Self {
        let length = response.len();
        response.extend_from_slice(request);
        Self { members: response, response: length }
    }
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) warcinfo: String,
    pub(super) length: u64,
    /// So much of it is on disk.
    pub(super) synced: u64,
    /// Bytes of a record that could not be written whole are behind `length`.
    pub(super) torn: bool,
    pub(super) dirty: bool,
    pub(super) since: Ts,
    payloads: HashMap<Digest, Known>,
    /// Their digests, oldest first.
    oldest_first: VecDeque<Digest>,
}

impl Segment {
    /// A new segment, with its warcinfo.
    pub(super) fn start(
        dir: &Path,
        now: Ts,
        agent: &str,
        level: u32,
    ) -> Result<Self, ArchiveError> {
        let stamp: String = now.to_string().chars().filter(char::is_ascii_digit).take(14).collect();
        let id = new_uuid(now);
        let name = format!("feedmill-{stamp}-{}{SUFFIX}", id.simple());
        let path = dir.join(format!("{name}{OPEN}"));
        let file = private::options()
            .create_new(true)
            .append(true)
            .open(&path)
            .map_err(ArchiveError::io(&path))?;
        let warcinfo = record_id(id);
        let first = info(&name, &warcinfo, now, agent, level);
        let mut segment = Self {
            file,
            path,
            name,
            warcinfo,
            length: 0,
            synced: 0,
            torn: false,
            dirty: false,
            since: now,
            payloads: HashMap::new(),
            oldest_first: VecDeque::new(),
        };
        let begun = segment.write(&first).and_then(|()| sync_dir(dir));
        if let Err(error) = begun {
            // Whoever tries again begins another one: nothing empty is left behind.
            drop(fs::remove_file(&segment.path));
            return Err(error);
        }
        Ok(segment)
    }

    /// Writes a response and the request behind it, which is found there without an index.
    pub(super) fn write_pair(&mut self, pair: &Pair) -> Result<RawRef, ArchiveError> {
        let length = pair.response as u64;
        let raw = RawRef { segment: self.name.clone(), offset: self.length, length };
        self.write(&pair.members)?;
        Ok(raw)
    }

    fn write(&mut self, members: &[u8]) -> Result<(), ArchiveError> {
        self.mend()?;
        self.torn = true;
        let written = self.file.write_all(members).and_then(|()| self.file.stream_position());
        let end = written.map_err(ArchiveError::io(&self.path))?;
        (self.torn, self.dirty) = (false, true);
        let expected = self.length + members.len() as u64;
        if end != expected {
            // Somebody else appended meanwhile: what was written is not where the index would say.
            return Err(ArchiveError::Lost { segment: self.name.clone() });
        }
        self.length = expected;
        Ok(())
    }

    /// Cuts off what a full disk left of a record: nothing is ever written behind it.
    pub(super) fn mend(&mut self) -> Result<(), ArchiveError> {
        if self.torn {
            self.file.set_len(self.length).map_err(ArchiveError::io(&self.path))?;
            (self.torn, self.dirty) = (false, true);
        }
        Ok(())
    }

    /// The payload with this digest, when it stands here.
    pub(super) fn known(&self, digest: Digest) -> Option<Known> {
        self.payloads.get(&digest).cloned()
    }

    /// Remembers a payload that was just written.
    pub(super) fn know(&mut self, digest: Digest, exchange: &Exchange, raw: &RawRef) {
        let Entry::Vacant(vacant) = self.payloads.entry(digest) else { return };
        let (id, url, date) = (exchange.id, exchange.url.clone(), exchange.began);
        vacant.insert(Known { id, url, date, place: (raw.offset, raw.length), digest });
        self.oldest_first.push_back(digest);
        if self.oldest_first.len() > MAX_REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.payloads.remove(&oldest);
        }
    }
}

impl Segment {
    /// Forgets a payload, so that nothing refers to it any more.
    pub(super) fn forget(&mut self, offset: u64) {
        self.payloads.retain(|_, known| known.place.0 != offset);
        self.oldest_first.retain(|digest| self.payloads.contains_key(digest));
    }
}

/// Brings the names in a directory to disk: a file that was synced can still be lost by its name.
pub(super) fn sync_dir(dir: &Path) -> Result<(), ArchiveError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(ArchiveError::io(dir))
}

/// Cuts off what follows the last whole record of a segment, and closes it. Damage before that is
/// told and stays: the records around it can be read.
pub(super) fn repair(path: &Path, limit: u64) -> Result<(), ArchiveError> {
    let segment = path.display();
    let mended = || -> io::Result<()> {
        let (mut good, mut gap) = (0, None);
        for piece in warc::pieces(private::read_regular(path)?, limit) {
            match piece? {
                Piece::Gap { offset, error: error @ WarcError::TooLarge(_) } => {
                    tracing::warn!(%segment, offset, %error, "skipped archive record");
                    // It is whole: what follows the last record is not torn.
                    (good, gap) = (good.max(1), None);
                }
                Piece::Gap { offset, error } => gap = Some((offset, error)),
                Piece::Record(member) => {
                    good = member.offset + member.length;
                    if let Some((offset, error)) = gap.take() {
                        tracing::warn!(
                            %segment, offset, end = member.offset, %error,
                            "an archive segment is damaged: `feedmill raw verify` shows what is lost"
                        );
                    }
                }
            }
        }
        if good == 0 && !is_torn_start(path)? {
            tracing::warn!(%segment, "skipped archive entry that holds no records");
            return Ok(());
        }
        if good == 0 {
            return fs::remove_file(path);
        }
        if let Some((good, _)) = gap {
            tracing::warn!(%segment, good, "cut a torn record off an archive segment");
            let file = private::open_regular(OpenOptions::new().write(true), path)?;
            file.set_len(good)?;
            file.sync_all()?;
        }
        fs::rename(path, path.with_extension(""))
    };
    mended().map_err(ArchiveError::io(path))
}

/// Whether a file without a whole record is what a crash leaves of a segment that was just begun: nothing, or
/// the start of a gzip member.
fn is_torn_start(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    private::read_regular(path)?.take(2).read_to_end(&mut start)?;
    Ok([0x1f, 0x8b].starts_with(&start))
}

pub(super) fn record_id(id: uuid::Uuid) -> String {
    format!("<urn:uuid:{id}>")
}

/// The member that says who wrote a segment.
pub(super) fn info(name: &str, id: &str, now: Ts, agent: &str, level: u32) -> Vec<u8> {
    let body = format!(
        "software: {agent}\r\nformat: WARC File Format 1.1\r\nconformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"
    );
    let mut info = Record::new(RecordType::Warcinfo, id, now, warc::WARC_FIELDS);
    info.filename = Some(name);
    info.payload = body.as_bytes();
    warc::member(&info, level)
}

/// The gzip members of an answer, or of a revisit of what is known, and of its request.
pub(super) fn pair(
    exchange: &Exchange,
    warcinfo: &str,
    digest: Option<Digest>,
    known: Option<&Known>,
    (level, kind): (u32, Option<Kind>),
) -> Pair {
    let task_kind = kind.map(Kind::as_str);
    let response_id = record_id(exchange.id);
    let coding = exchange.headers.get("content-encoding");
    let whole = exchange.truncated.is_none();
    let head =
        warc::response_head(exchange.status, &exchange.reason, exchange.headers.lines(), whole);
    let earlier = known.map(|known| record_id(known.id));
    let kind = if known.is_some() { RecordType::Revisit } else { RecordType::Response };
    let mut response = Record::new(kind, &response_id, exchange.began, warc::HTTP_RESPONSE);
    response.target_uri = Some(&exchange.url);
    response.warcinfo = Some(warcinfo);
    response.ip = exchange.remote;
    response.task_kind = task_kind;
    response.truncated = exchange.truncated.map(Truncation::as_str);
    response.head = &head;
    response.coded = coding.is_some_and(|coding| !coding.trim().eq_ignore_ascii_case("identity"));
    match known.zip(earlier.as_deref()) {
        None => (response.payload, response.payload_digest) = (&exchange.body, digest),
        Some((known, refers_to)) => {
            response.payload_digest = Some(known.digest);
            response.revisit = Some(Revisit {
                profile: RevisitProfile::IdenticalPayload,
                refers_to,
                target_uri: &known.url,
                date: known.date,
                place: Some(known.place),
            });
        }
    }
    Pair::new(warc::member(&response, level), &request(exchange, &response_id, warcinfo, level))
}

fn request(exchange: &Exchange, response_id: &str, warcinfo: &str, level: u32) -> Vec<u8> {
    let request_id = record_id(new_uuid(exchange.began));
    let target = url::Url::parse(&exchange.url).ok();
    let path =
        target.as_ref().map_or_else(|| "/".to_owned(), feedmill_formats::url::path_and_query);
    let head = warc::request_head("GET", &path, exchange.request.lines());
    let mut request =
        Record::new(RecordType::Request, &request_id, exchange.began, warc::HTTP_REQUEST);
    request.target_uri = Some(&exchange.url);
    request.concurrent_to = Some(response_id);
    request.warcinfo = Some(warcinfo);
    request.head = &head;
    warc::member(&request, level)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::super::Archive;
    use super::super::tests::{clock, page, settings, stored};
    use super::*;

    #[test]
    fn only_our_segments_are_closed_to_others_in_a_linked_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (linked, real) = (dir.path().join("archive"), dir.path().join("shared"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &linked).unwrap();
        let archive = Archive::open(settings(&linked), clock()).unwrap();
        let raw = archive.append(&page(1, 1)).unwrap();
        archive.close().unwrap();
        let others =
            ["notes.txt", "crawl.warc.gz", "crawl.warc.gz.open", "feedmill-x.warc.gz.open"];
        for name in others {
            // A torn record of another crawler: nobody else may cut it off.
            fs::copy(real.join(&raw.segment), real.join(name)).unwrap();
            let file = OpenOptions::new().write(true).open(real.join(name)).unwrap();
            file.set_len(200).unwrap();
        }
        for name in others.into_iter().chain([raw.segment.as_str()]) {
            fs::set_permissions(real.join(name), Permissions::from_mode(0o644)).unwrap();
        }
        drop(Archive::open(settings(&linked), clock()).unwrap());
        let about = |name: &str| {
            let found = fs::metadata(real.join(name)).unwrap();
            (found.mode() & 0o777, found.len())
        };
        assert_eq!(about(&raw.segment).0, 0o600);
        others.iter().for_each(|name| assert_eq!(about(name), (0o644, 200), "{name}"));
        let closed: Vec<_> = Archive::closed(&linked).unwrap();
        assert_eq!(closed.iter().map(|(name, _)| name).collect::<Vec<_>>(), [&raw.segment]);
        assert_eq!(Archive::all(&linked).unwrap(), std::slice::from_ref(&raw.segment));
        stored(&linked, &raw).unwrap();
    }
}
