//! What came back, byte for byte: WARC segments in a directory, and closed ones in a bucket.
//!
//! A record is written before anybody reads the bytes, and its segment is synced before the commit
//! that refers to it. A segment is named `….open` while it is written; what a crash leaves of it
//! is cut back to its last whole record on start, which loses nothing that was committed. A payload
//! that stands in the same segment already is not written again: a revisit refers to it. So every
//! segment can be read, moved and deleted by itself.

mod carry;
mod erase;
mod loss;
mod read;
mod remote;
mod retention;
mod segment;
#[cfg(test)]
mod tests;
mod underway;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use feedmill_formats::warc::Digest;

use crate::clock::Clock;
use crate::db::private;
use crate::model::{Exchange, Kind, RawRef, Ts, new_uuid};
use segment::{Known, Pair, Segment, sync_dir};
use underway::Underway;

pub use carry::{Carried, carry};
pub use erase::erase;
pub use loss::{Cause, Loss, Retained};
pub use read::{Reader, Stored};
pub use remote::{Bucket, Remote};
pub use retention::{Doomed, Held, Limits, Why, begun, plan};
pub use underway::Writer;

const OPEN: &str = ".open";

/// A smaller payload is written again: a revisit would take as much room.
const WORTH_A_REVISIT: usize = 512;

/// How segments are written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where they are.
    pub dir: PathBuf,
    /// A segment is closed when it is longer.
    pub segment_size: u64,
    /// A segment is closed when it is older.
    pub segment_age: Duration,
    /// 1 to 9; answers that came compressed stay as they are.
    pub gzip_level: u32,
    /// Who wrote them, for `warcinfo`.
    pub agent: String,
    /// The largest body that is fetched: records that unpack to more are not ours.
    pub max_body: u64,
}

impl Settings {
    fn max_record(&self) -> u64 {
        read::max_record(self.max_body)
    }
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
    /// The bucket said no.
    #[error("archive {place}: {message}")]
    Remote {
        /// Which object or bucket.
        place: String,
        /// What the service says.
        message: String,
    },
    /// The segment is nowhere.
    #[error("archive segment {segment} is not in {place}: it may be on another machine")]
    Missing {
        /// Which segment.
        segment: String,
        /// Where it was looked for.
        place: String,
    },
    /// The segment that was written disappeared.
    #[error(
        "archive segment {segment} was lost while it was written; what was written is tried again"
    )]
    Lost {
        /// Which segment.
        segment: String,
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
            Self::Remote { .. } => "archive_remote",
            Self::Missing { .. } => "archive_missing",
            Self::Lost { .. } => "archive_lost",
            Self::Damaged { .. } => "archive_damaged",
        }
    }

    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { path, source }
    }

    fn damaged(raw: &RawRef, message: &(impl ToString + ?Sized)) -> Self {
        let (segment, offset) = (raw.segment.clone(), raw.offset);
        Self::Damaged { segment, offset, message: message.to_string() }
    }
}

/// A directory of WARC segments.
#[derive(Debug)]
pub struct Archive {
    settings: Settings,
    clock: Clock,
    open: Mutex<Option<Segment>>,
    /// Segments that were lost while they were open, and how many bytes of each are left.
    lost: Mutex<BTreeMap<String, u64>>,
    /// Those of them that the index does not know of yet.
    losses: Mutex<Vec<Loss>>,
    /// What was written and no commit refers to yet.
    uncommitted: Mutex<loss::Uncommitted>,
    /// Those whose records no commit refers to yet.
    underway: Mutex<Underway>,
}

/// What has to be known of the open segment to make records for it.
struct Place {
    segment: String,
    warcinfo: String,
    known: Option<Known>,
}

impl Archive {
    /// Opens the directory, and repairs what a crash left.
    pub fn open(settings: Settings, clock: Clock) -> Result<Self, ArchiveError> {
        let dir = &settings.dir;
        private::make_dir(dir).map_err(ArchiveError::io(dir))?;
        for entry in fs::read_dir(dir).map_err(ArchiveError::io(dir))? {
            let entry = entry.map_err(ArchiveError::io(dir))?;
            let path = entry.path();
            // Other files may be an operator's: they are neither read, closed to others nor removed.
            if !Self::is_segment(&entry.file_name().to_string_lossy()) {
                continue;
            }
            let is_open = path.extension().is_some_and(|ext| ext == "open");
            if !entry.file_type().map_err(ArchiveError::io(&path))?.is_file() {
                let path = path.display();
                tracing::warn!(%path, "skipped archive entry that is not a regular file");
                continue;
            }
            private::tighten(&path).map_err(ArchiveError::io(&path))?;
            if is_open {
                segment::repair(&path, settings.max_record())?;
            }
        }
        Ok(Self {
            settings,
            clock,
            open: Mutex::default(),
            lost: Mutex::default(),
            losses: Mutex::default(),
            uncommitted: Mutex::default(),
            underway: Mutex::default(),
        })
    }

    fn segment(&self) -> MutexGuard<'_, Option<Segment>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a request and its answer; it is on disk after the next [`Archive::sync`].
    pub fn append(&self, exchange: &Exchange) -> Result<RawRef, ArchiveError> {
        self.append_as(exchange, None)
    }

    /// The same, with what it was asked for as.
    pub fn append_as(
        &self,
        exchange: &Exchange,
        kind: Option<Kind>,
    ) -> Result<RawRef, ArchiveError> {
        let digest = shareable(exchange).then(|| Digest::of(&[&exchange.body]));
        loop {
            let place = self.place(digest)?;
            // Compressing is the work: it is done while others may write.
            let pair = segment::pair(
                exchange,
                &place.warcinfo,
                digest,
                place.known.as_ref(),
                (self.settings.gzip_level, kind),
            );
            let mut open = self.segment();
            self.check_open(&mut open)?;
            // What was made for a segment that has ended meanwhile refers to it: once more.
            let Some(segment) = open.as_mut().filter(|segment| segment.name == place.segment)
            else {
                continue;
            };
            let raw = match segment.write_pair(&pair) {
                Err(ArchiveError::Lost { .. }) => continue,
                written => written?,
            };
            if let Some(digest) = digest.filter(|_| place.known.is_none()) {
                segment.know(digest, exchange, &raw);
            }
            return Ok(raw);
        }
    }

    /// Keeps a record and its request as they stand in another segment.
    pub fn copy(&self, record: Vec<u8>, request: &[u8]) -> Result<RawRef, ArchiveError> {
        self.place(None)?;
        let mut open = self.segment();
        self.check_open(&mut open)?;
        let segment = match open.as_mut() {
            Some(segment) => segment,
            None => open.insert(self.start()?),
        };
        segment.write_pair(&Pair::new(record, request))
    }

    /// The segment to write to, a new one when the open one is full or old.
    fn place(&self, digest: Option<Digest>) -> Result<Place, ArchiveError> {
        let mut open = self.segment();
        self.end_if_due(&mut open)?;
        let segment = match open.as_mut() {
            Some(segment) => segment,
            None => open.insert(self.start()?),
        };
        Ok(Place {
            segment: segment.name.clone(),
            warcinfo: segment.warcinfo.clone(),
            known: digest.and_then(|digest| segment.known(digest)),
        })
    }

    fn start(&self) -> Result<Segment, ArchiveError> {
        let Settings { dir, agent, gzip_level, .. } = &self.settings;
        // It may have been removed since the start.
        private::make_dir(dir).map_err(ArchiveError::io(dir))?;
        Segment::start(dir, self.clock.now(), agent, *gzip_level)
    }

    /// Ends the open segment when it is full or old; for those that nobody writes to any more.
    pub fn rotate(&self) -> Result<(), ArchiveError> {
        self.end_if_due(&mut self.segment())
    }

    fn end_if_due(&self, open: &mut Option<Segment>) -> Result<(), ArchiveError> {
        self.check_open(open)?;
        let is_due = open.as_ref().is_some_and(|segment| {
            segment.length >= self.settings.segment_size
                || self.clock.now().since(segment.since) >= self.settings.segment_age
        });
        if is_due { self.end(open) } else { Ok(()) }
    }

    /// Brings everything that was appended to disk.
    pub fn sync(&self) -> Result<(), ArchiveError> {
        self.sync_open(&mut self.segment())
    }

    /// A disk that fails to sync forgets what it was given, and the next sync says nothing of it. So
    /// nothing more is written there, and what was not on disk before counts as lost; the next start
    /// closes the file. A file that has lost its name is lost with it, also when it is on disk.
    fn sync_open(&self, open: &mut Option<Segment>) -> Result<(), ArchiveError> {
        if let Some(segment) = open.as_mut().filter(|segment| segment.dirty) {
            let done = segment.file.sync_data().map_err(ArchiveError::io(&segment.path));
            if done.is_err() {
                let to = segment.synced;
                self.lose(open, Cause::Unsynced { to });
                return done;
            }
            (segment.synced, segment.dirty) = (segment.length, false);
        }
        self.check_open(open)
    }

    fn lost_segments(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this record was lost with its segment after it was appended.
    #[must_use]
    pub fn has_lost(&self, raw: &RawRef) -> bool {
        let end = raw.offset.saturating_add(raw.length);
        self.lost_segments().get(&raw.segment).is_some_and(|kept| end > *kept)
    }

    /// Ends the segment that is being written.
    pub fn close(&self) -> Result<(), ArchiveError> {
        self.end(&mut self.segment())
    }

    /// Ends the open segment. It stays ours until it is on disk: commits may still refer to it.
    fn end(&self, open: &mut Option<Segment>) -> Result<(), ArchiveError> {
        self.check_open(open)?;
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

    /// Whether a file of this name is a segment of ours, closed or open. Other WARC files in the
    /// directory are somebody else's.
    #[must_use]
    pub fn is_segment(name: &str) -> bool {
        let name = name.strip_suffix(OPEN).unwrap_or(name);
        name.ends_with(segment::SUFFIX) && begun(name).is_some()
    }

    /// Segments in the directory by name, closed and open, oldest first.
    pub fn all(dir: &Path) -> Result<Vec<String>, ArchiveError> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(ArchiveError::io(dir)(error)),
        };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry.map_err(ArchiveError::io(dir))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if Self::is_segment(&name) && entry.file_type().is_ok_and(|kind| kind.is_file()) {
                all.push(name.strip_suffix(OPEN).unwrap_or(&name).to_owned());
            }
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// Closed segments in the directory with their sizes, oldest first.
    pub fn closed(dir: &Path) -> Result<Vec<(String, u64)>, ArchiveError> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(ArchiveError::io(dir)(error)),
        };
        let mut closed = Vec::new();
        for entry in entries {
            let entry = entry.map_err(ArchiveError::io(dir))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !Self::is_segment(&name) || name.ends_with(OPEN) {
                continue;
            }
            match entry.metadata() {
                Ok(found) if found.is_file() => closed.push((name, found.len())),
                // Whatever it is, it is not a segment of ours.
                Ok(_) => {}
                // Somebody removes old ones while we look.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(ArchiveError::io(&entry.path())(error)),
            }
        }
        closed.sort_unstable();
        Ok(closed)
    }

    /// Removes a closed segment; true when it was there.
    pub fn remove(dir: &Path, segment: &str) -> Result<bool, ArchiveError> {
        let path = dir.join(segment);
        match fs::remove_file(&path) {
            Ok(()) => sync_dir(dir).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(ArchiveError::io(&path)(error)),
        }
    }
}

/// The member that begins a WARC file: who wrote it.
#[must_use]
pub fn warcinfo(name: &str, agent: &str, now: Ts) -> Vec<u8> {
    segment::info(name, &segment::record_id(new_uuid(now)), now, agent, 6)
}

/// Whether a later payload may be a revisit of this one, or this one of an earlier.
fn shareable(exchange: &Exchange) -> bool {
    exchange.status == 200 && exchange.truncated.is_none() && exchange.body.len() >= WORTH_A_REVISIT
}
