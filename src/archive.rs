//! What came back, byte for byte: WARC segments in a directory.
//!
//! A record is written before anybody reads the bytes, and its segment is synced before the commit
//! that refers to it. A segment is named `….open` while it is written; what a crash leaves of it
//! is cut back to its last whole record on start, which loses nothing that was committed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use feedmill_formats::warc::{self, OwnedRecord, Record, RecordType};

use crate::clock::Clock;
use crate::model::{Exchange, RawRef, Ts, new_uuid};

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
    since: Ts,
    dirty: bool,
}

/// A directory of WARC segments.
#[derive(Debug)]
pub struct Archive {
    settings: Settings,
    clock: Clock,
    open: Mutex<Option<Segment>>,
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
        Ok(Self { settings, clock, open: Mutex::default() })
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
        if full && let Some(segment) = open.as_ref() {
            // It stays ours until it is on disk: commits may still refer to it.
            close(segment)?;
            *open = None;
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
        if let Err(error) = segment.write(&[&request, &response]) {
            // What was written before is good; nothing is ever written behind a torn record.
            let path = segment.path.clone();
            *open = None;
            drop(repair(&path));
            return Err(error);
        }
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
        let mut segment =
            Segment { file, path, name, warcinfo, length: 0, since: now, dirty: false };
        segment.write(&[&first])?;
        sync_dir(&self.settings.dir)?;
        Ok(segment)
    }

    /// Brings everything that was appended to disk.
    pub fn sync(&self) -> Result<(), ArchiveError> {
        match self.segment().as_mut() {
            Some(segment) if segment.dirty => {
                segment.file.sync_data().map_err(ArchiveError::io(&segment.path))?;
                segment.dirty = false;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends the segment that is being written.
    pub fn close(&self) -> Result<(), ArchiveError> {
        self.segment().take().map_or(Ok(()), |segment| close(&segment))
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
        for part in parts {
            self.file.write_all(part).map_err(ArchiveError::io(&self.path))?;
        }
        self.length += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        self.dirty = true;
        Ok(())
    }
}

fn close(segment: &Segment) -> Result<(), ArchiveError> {
    let failed = ArchiveError::io(&segment.path);
    let closed = segment.path.with_extension("");
    let done = segment.file.sync_all().and_then(|()| fs::rename(&segment.path, &closed));
    done.map_err(failed)?;
    sync_dir(segment.path.parent().unwrap_or(&segment.path))
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
    let head = warc::request_head("GET", &path, lines(&exchange.request));
    let mut request =
        Record::new(RecordType::Request, &request_id, exchange.began, warc::HTTP_REQUEST);
    request.target_uri = Some(&exchange.url);
    request.concurrent_to = Some(&response_id);
    request.warcinfo = Some(warcinfo);
    request.head = &head;
    let whole = exchange.truncated.is_none();
    let head =
        warc::response_head(exchange.status, &exchange.reason, lines(&exchange.headers), whole);
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

fn lines(headers: &crate::model::Headers) -> impl Iterator<Item = (&str, &[u8])> {
    headers.0.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))
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
