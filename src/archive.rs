//! What came back, byte for byte: WARC segments in a directory.
//!
//! A record is written before anybody reads the bytes, and its segment is synced before the commit
//! that refers to it. A segment is named `….open` while it is written; what a crash leaves of it
//! is cut back to its last whole record on start, which loses nothing that was committed.

mod carry;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use feedmill_formats::warc::{self, OwnedRecord, Record, RecordType};

use crate::clock::Clock;
use crate::model::{Exchange, RawRef, Ts, new_uuid};

pub use carry::{Carried, carry};

const OPEN: &str = ".open";

/// How segments are written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where they are.
    pub dir: PathBuf,
    /// A segment is closed when it is longer.
    pub segment_size: u64,
    /// A segment is closed when it is older.
    pub segment_age: Duration,
    /// 1 to 9.
    pub gzip_level: u32,
    /// Who wrote them, for `warcinfo`.
    pub agent: String,
}

/// Why bytes could not be kept or read back.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The disk said no.
    #[error("archive {path}: {source}")]
    Io {
        /// Which file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The record is not what was written.
    #[error("archive {segment} at {offset}: {message}")]
    Damaged {
        /// Which segment.
        segment: String,
        /// Where.
        offset: u64,
        /// What is wrong.
        message: String,
    },
}

impl ArchiveError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "archive_io",
            Self::Damaged { .. } => "archive_damaged",
        }
    }

    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { path, source }
    }
}

/// The segment that is being written.
#[derive(Debug)]
struct Segment {
    file: File,
    path: PathBuf,
    name: String,
    warcinfo: String,
    length: u64,
    /// So much of it is on disk.
    synced: u64,
    /// Bytes of a record that could not be written whole are behind `length`.
    torn: bool,
    dirty: bool,
    since: Ts,
}

/// A directory of WARC segments.
#[derive(Debug)]
pub struct Archive {
    settings: Settings,
    clock: Clock,
    open: Mutex<Option<Segment>>,
    /// Segments that a failing disk threw away, and what of them it had taken before.
    lost: Mutex<BTreeMap<String, u64>>,
}

impl Archive {
    /// Opens the directory, and repairs what a crash left.
    pub fn open(settings: Settings, clock: Clock) -> Result<Self, ArchiveError> {
        let dir = &settings.dir;
        fs::create_dir_all(dir).map_err(ArchiveError::io(dir))?;
        for entry in fs::read_dir(dir).map_err(ArchiveError::io(dir))? {
            let path = entry.map_err(ArchiveError::io(dir))?.path();
            if path.extension().is_some_and(|ext| ext == "open") {
                repair(&path)?;
            }
        }
        Ok(Self { settings, clock, open: Mutex::default(), lost: Mutex::default() })
    }

    fn segment(&self) -> MutexGuard<'_, Option<Segment>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a request and its answer; it is on disk after the next [`Archive::sync`].
    pub fn append(&self, exchange: &Exchange) -> Result<RawRef, ArchiveError> {
        let mut open = self.segment();
        let full = open.as_ref().is_some_and(|segment| {
            segment.length >= self.settings.segment_size
                || self.clock.now().since(segment.since) >= self.settings.segment_age
        });
        if full {
            self.end(&mut open)?;
        }
        let warcinfo = match open.as_ref() {
            Some(segment) => segment.warcinfo.clone(),
            None => open.insert(self.start()?).warcinfo.clone(),
        };
        drop(open);
        // Compressing is the work: it is done while others may write.
        let (request, response) = members(exchange, &warcinfo, self.settings.gzip_level);
        let mut open = self.segment();
        let segment = match open.as_mut() {
            Some(segment) => segment,
            None => open.insert(self.start()?),
        };
        let offset = segment.length + request.len() as u64;
        let raw = RawRef { segment: segment.name.clone(), offset, length: response.len() as u64 };
        segment.write(&[&request, &response])?;
        Ok(raw)
    }

    fn start(&self) -> Result<Segment, ArchiveError> {
        let now = self.clock.now();
        let stamp: String = now.to_string().chars().filter(char::is_ascii_digit).take(14).collect();
        let id = new_uuid(now);
        let name = format!("feedmill-{stamp}-{}.warc.gz", id.simple());
        let path = self.settings.dir.join(format!("{name}{OPEN}"));
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&path)
            .map_err(ArchiveError::io(&path))?;
        let warcinfo = record_id(id);
        let body = format!(
            "software: {}\r\nformat: WARC File Format 1.1\r\nconformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n",
            self.settings.agent
        );
        let mut info = Record::new(RecordType::Warcinfo, &warcinfo, now, warc::WARC_FIELDS);
        info.filename = Some(&name);
        info.payload = body.as_bytes();
        let first = warc::member(&info, self.settings.gzip_level);
        let (length, synced, torn, dirty) = (0, 0, false, false);
        let mut segment =
            Segment { file, path, name, warcinfo, length, synced, torn, dirty, since: now };
        let begun = segment.write(&[&first]).and_then(|()| sync_dir(&self.settings.dir));
        if let Err(error) = begun {
            // Whoever tries again begins another one: nothing empty is left behind.
            drop(fs::remove_file(&segment.path));
            return Err(error);
        }
        Ok(segment)
    }

    /// Brings everything that was appended to disk.
    pub fn sync(&self) -> Result<(), ArchiveError> {
        self.sync_open(&mut self.segment())
    }

    /// A disk that fails to sync forgets what it was given, and the next sync says nothing of it. So
    /// nothing more is written there, and what was not on disk before counts as lost; the next start
    /// closes the file.
    fn sync_open(&self, open: &mut Option<Segment>) -> Result<(), ArchiveError> {
        let Some(segment) = open.as_mut().filter(|segment| segment.dirty) else { return Ok(()) };
        let done = segment.file.sync_data().map_err(ArchiveError::io(&segment.path));
        if done.is_ok() {
            (segment.synced, segment.dirty) = (segment.length, false);
        } else if let Some(gone) = open.take() {
            self.lost_segments().insert(gone.name, gone.synced);
        }
        done
    }

    fn lost_segments(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a failing disk may have thrown this record away after it was appended.
    #[must_use]
    pub fn has_lost(&self, raw: &RawRef) -> bool {
        self.lost_segments().get(&raw.segment).is_some_and(|synced| raw.offset >= *synced)
    }

    /// Ends the segment that is being written.
    pub fn close(&self) -> Result<(), ArchiveError> {
        self.end(&mut self.segment())
    }

    /// Ends the open segment. It stays ours until it is on disk: commits may still refer to it.
    fn end(&self, open: &mut Option<Segment>) -> Result<(), ArchiveError> {
        if let Some(segment) = open.as_mut() {
            segment.mend()?;
        }
        self.sync_open(open)?;
        if let Some(segment) = open.as_mut() {
            let closed = segment.path.with_extension("");
            fs::rename(&segment.path, &closed).map_err(ArchiveError::io(&segment.path))?;
            *open = None;
            sync_dir(&self.settings.dir)?;
        }
        Ok(())
    }

    /// Reads a record back.
    pub fn read(&self, raw: &RawRef) -> Result<OwnedRecord, ArchiveError> {
        Self::read_from(&self.settings.dir, raw)
    }

    /// Reads a record in a directory that another process may be writing to.
    pub fn read_from(dir: &Path, raw: &RawRef) -> Result<OwnedRecord, ArchiveError> {
        let closed = dir.join(&raw.segment);
        let open = dir.join(format!("{}{OPEN}", raw.segment));
        let (mut file, path) = match File::open(&closed) {
            Ok(file) => (file, closed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (File::open(&open).map_err(ArchiveError::io(&open))?, open)
            }
            Err(error) => return Err(ArchiveError::io(&closed)(error)),
        };
        file.seek(SeekFrom::Start(raw.offset)).map_err(ArchiveError::io(&path))?;
        let mut bytes = Vec::new();
        file.take(raw.length).read_to_end(&mut bytes).map_err(ArchiveError::io(&path))?;
        warc::read_member(&bytes, u64::from(u32::MAX)).map_err(|error| ArchiveError::Damaged {
            segment: raw.segment.clone(),
            offset: raw.offset,
            message: error.to_string(),
        })
    }
}

impl Segment {
    fn write(&mut self, parts: &[&[u8]]) -> Result<(), ArchiveError> {
        self.mend()?;
        for part in parts {
            self.torn = true;
            self.file.write_all(part).map_err(ArchiveError::io(&self.path))?;
        }
        (self.torn, self.dirty) = (false, true);
        self.length += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Cuts off what a full disk left of a record: nothing is ever written behind it.
    fn mend(&mut self) -> Result<(), ArchiveError> {
        if self.torn {
            self.file.set_len(self.length).map_err(ArchiveError::io(&self.path))?;
            (self.torn, self.dirty) = (false, true);
        }
        Ok(())
    }
}

/// Brings the names in a directory to disk: a file that was synced can still be lost by its name.
fn sync_dir(dir: &Path) -> Result<(), ArchiveError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(ArchiveError::io(dir))
}

/// Cuts a segment back to its last whole record and closes it.
fn repair(path: &Path) -> Result<(), ArchiveError> {
    let mended = || -> io::Result<()> {
        let good = warc::valid_prefix(io::BufReader::new(File::open(path)?))?;
        let file = OpenOptions::new().write(true).open(path)?;
        if file.metadata()?.len() != good {
            tracing::warn!(segment = %path.display(), good, "cut a torn record off an archive segment");
            file.set_len(good)?;
            file.sync_all()?;
        }
        if good == 0 { fs::remove_file(path) } else { fs::rename(path, path.with_extension("")) }
    };
    mended().map_err(ArchiveError::io(path))
}

fn record_id(id: uuid::Uuid) -> String {
    format!("<urn:uuid:{id}>")
}

/// The gzip members of a request and its answer.
fn members(exchange: &Exchange, warcinfo: &str, level: u32) -> (Vec<u8>, Vec<u8>) {
    let response_id = record_id(exchange.id);
    let request_id = record_id(new_uuid(exchange.began));
    let target = url::Url::parse(&exchange.url).ok();
    let path =
        target.as_ref().map_or_else(|| "/".to_owned(), feedmill_formats::url::path_and_query);
    let head = warc::request_head("GET", &path, exchange.request.lines());
    let mut request =
        Record::new(RecordType::Request, &request_id, exchange.began, warc::HTTP_REQUEST);
    request.target_uri = Some(&exchange.url);
    request.concurrent_to = Some(&response_id);
    request.warcinfo = Some(warcinfo);
    request.head = &head;
    let whole = exchange.truncated.is_none();
    let head =
        warc::response_head(exchange.status, &exchange.reason, exchange.headers.lines(), whole);
    let mut response =
        Record::new(RecordType::Response, &response_id, exchange.began, warc::HTTP_RESPONSE);
    response.target_uri = Some(&exchange.url);
    response.warcinfo = Some(warcinfo);
    response.ip = exchange.remote;
    response.truncated = exchange.truncated.map(crate::model::Truncation::as_str);
    response.head = &head;
    response.payload = &exchange.body;
    (warc::member(&request, level), warc::member(&response, level))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Headers, Truncation};

    fn settings(dir: &Path) -> Settings {
        Settings {
            dir: dir.to_owned(),
            segment_size: 64 << 20,
            segment_age: Duration::from_hours(6),
            gzip_level: 6,
            agent: "Feedmill/test".to_owned(),
        }
    }

    fn clock() -> Clock {
        Clock::manual(Ts::from_ms(1_800_000_000_000))
    }

    fn exchange(n: usize) -> Exchange {
        let began = Ts::from_ms(1_800_000_000_000);
        Exchange {
            id: new_uuid(began),
            url: format!("https://example.com/{n}?q=1"),
            request: Headers(vec![("host".into(), "example.com".into())]),
            status: 200,
            reason: "OK".into(),
            headers: Headers(vec![("content-type".into(), "text/plain".into())]),
            body: format!("the body of page {n}\r\nWARC/1.1\r\n\r\n").into(),
            truncated: (n % 2 == 1).then_some(Truncation::Disconnect),
            remote: Some([192, 0, 2, 1].into()),
            began,
            ended: began,
            elapsed: Duration::from_millis(5),
        }
    }

    fn files(dir: &Path) -> Vec<PathBuf> {
        let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        files
    }

    #[test]
    fn a_record_reads_back_as_it_was_while_open_and_after() {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::open(settings(dir.path()), clock()).unwrap();
        let kept: Vec<_> = (0..5).map(|n| archive.append(&exchange(n)).unwrap()).collect();
        let check = || {
            for (n, raw) in kept.iter().enumerate() {
                let record = archive.read(raw).unwrap();
                let (head, body) = record.http().unwrap();
                assert_eq!((head.status(), body), (Some(200), exchange(n).body.as_ref()));
                assert_eq!(record.fields.target_uri(), Some(exchange(n).url.as_str()));
            }
        };
        check();
        archive.close().unwrap();
        assert!(files(dir.path()).iter().all(|path| path.extension().unwrap() == "gz"));
        check();
    }

    #[test]
    fn a_segment_cut_at_any_byte_keeps_every_whole_record() {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::open(settings(dir.path()), clock()).unwrap();
        let kept: Vec<_> = (0..3).map(|n| archive.append(&exchange(n)).unwrap()).collect();
        archive.sync().unwrap();
        let open = files(dir.path()).remove(0);
        let whole = fs::read(&open).unwrap();
        let name = open.file_name().unwrap().to_owned();
        drop(archive);
        for cut in (0..whole.len()).step_by(7) {
            let crashed = tempfile::tempdir().unwrap();
            fs::write(crashed.path().join(&name), &whole[..cut]).unwrap();
            let archive = Archive::open(settings(crashed.path()), clock()).unwrap();
            for (n, raw) in kept.iter().enumerate() {
                let survived = raw.offset + raw.length <= cut as u64;
                assert_eq!(archive.read(raw).is_ok(), survived, "record {n}, cut at {cut}");
            }
            for path in files(crashed.path()) {
                let good = warc::valid_prefix(File::open(&path).unwrap()).unwrap();
                assert_eq!(good, path.metadata().unwrap().len(), "nothing torn is left");
            }
        }
    }

    #[test]
    fn what_was_not_on_disk_when_a_sync_failed_counts_as_lost() {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::open(settings(dir.path()), clock()).unwrap();
        let safe = archive.append(&exchange(1)).unwrap();
        archive.sync().unwrap();
        let lost = archive.append(&exchange(2)).unwrap();
        // A file that cannot be synced.
        let broken = OpenOptions::new().append(true).open("/dev/null").unwrap();
        archive.segment().as_mut().unwrap().file = broken;
        assert_eq!(archive.sync().unwrap_err().code(), "archive_io");
        assert!(archive.has_lost(&lost) && !archive.has_lost(&safe));
        let next = archive.append(&exchange(3)).unwrap();
        assert_ne!(next.segment, lost.segment, "nothing is written behind what may be missing");
        archive.sync().unwrap();
        assert!(!archive.has_lost(&next));
    }

    #[test]
    fn a_torn_record_is_cut_off_before_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::open(settings(dir.path()), clock()).unwrap();
        let first = archive.append(&exchange(1)).unwrap();
        let path = files(dir.path()).remove(0);
        // A disk that is full in the middle of a record.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"half a rec").unwrap();
        archive.segment().as_mut().unwrap().torn = true;
        let second = archive.append(&exchange(2)).unwrap();
        assert_eq!(first.segment, second.segment);
        archive.read(&second).unwrap();
        archive.close().unwrap();
        let closed = files(dir.path()).remove(0);
        let good = warc::valid_prefix(File::open(&closed).unwrap()).unwrap();
        assert_eq!(good, closed.metadata().unwrap().len());
    }

    #[test]
    fn segments_end_by_size_and_by_age() {
        let dir = tempfile::tempdir().unwrap();
        let clock = clock();
        let small = Settings { segment_size: 1, ..settings(dir.path()) };
        let archive = Archive::open(small, clock.clone()).unwrap();
        let (a, b) = (archive.append(&exchange(1)).unwrap(), archive.append(&exchange(2)).unwrap());
        assert_ne!(a.segment, b.segment);
        let archive = Archive::open(settings(dir.path()), clock.clone()).unwrap();
        let a = archive.append(&exchange(1)).unwrap();
        clock.advance(Duration::from_hours(7));
        assert_ne!(a.segment, archive.append(&exchange(2)).unwrap().segment);
    }
}
