//! A segment whose file goes while it is written: removed, moved away, replaced or cut short by
//! somebody else. Writing on would go nowhere, so another segment is begun.
//!
//! What was not committed yet is kept in memory until it is, and is written again into the new segment.
//! What was committed is lost: whoever has the index takes the loss from here and notes it there.
//!
//! A file that somebody else appended to has lost nothing, but the next record would not be where the
//! index says. Such a segment is closed as it is, and another one is begun.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::segment::{Segment, sync_dir};
use super::{Archive, ArchiveError};
use crate::model::{Exchange, FetchId, Kind, RawRef};

/// How a segment was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its file has no name any more, or another one.
    Removed,
    /// Another file has its name.
    Replaced,
    /// Its file is shorter than what was written.
    Cut {
        /// Bytes that are left of it.
        to: u64,
    },
    /// Somebody else appended to its file.
    Extended {
        /// Bytes at its start that are ours.
        from: u64,
    },
    /// The disk failed to take what was written.
    Unsynced {
        /// Bytes that it had taken before.
        to: u64,
    },
}

impl Cause {
    /// What happened, in one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Replaced => "replaced",
            Self::Cut { .. } => "truncated",
            Self::Extended { .. } => "appended to",
            Self::Unsynced { .. } => "not written by the disk",
        }
    }

    /// Bytes at the start of the segment that can still be read.
    #[must_use]
    pub const fn kept(self) -> u64 {
        match self {
            Self::Removed | Self::Replaced => 0,
            Self::Cut { to } | Self::Unsynced { to } | Self::Extended { from: to } => to,
        }
    }
}

/// A segment that was lost, as a whole or from a place on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Its name.
    pub segment: String,
    /// What happened to it.
    pub cause: Cause,
}

/// What the system says of a file.
#[derive(Clone, Copy, Debug)]
struct Identity {
    file: (u64, u64),
    names: u64,
    length: u64,
}

impl From<Metadata> for Identity {
    fn from(found: Metadata) -> Self {
        let file = (found.dev(), found.ino());
        Self { file, names: found.nlink(), length: found.len() }
    }
}

/// What happened to a file of which so much was written; `named` is what has its name now. Behind a
/// `torn` record there may be more bytes of ours. Pure.
fn judge(own: Identity, named: Option<Identity>, written: u64, torn: bool) -> Option<Cause> {
    match named {
        None => Some(Cause::Removed),
        Some(_) if own.names == 0 => Some(Cause::Replaced),
        Some(other) if other.file != own.file => Some(Cause::Replaced),
        Some(_) if own.length < written => Some(Cause::Cut { to: own.length }),
        Some(_) if own.length > written && !torn => Some(Cause::Extended { from: written }),
        Some(_) => None,
    }
}

impl Segment {
    /// What happened to its file since it was begun; `None` when it is as it was written.
    fn loss(&self) -> io::Result<Option<Cause>> {
        let own = self.file.metadata()?.into();
        let named = match fs::symlink_metadata(&self.path) {
            Ok(found) => Some(found.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(judge(own, named, self.length, self.torn))
    }
}

/// Exchanges that no commit refers to yet, by their ids.
pub(super) type Uncommitted = HashMap<FetchId, (Exchange, Option<Kind>)>;

/// Keeps an exchange until what refers to it is committed or given up.
#[derive(Debug)]
#[must_use = "it lasts until it is dropped"]
pub struct Retained {
    archive: Arc<Archive>,
    id: FetchId,
}

impl Drop for Retained {
    fn drop(&mut self) {
        self.archive.uncommitted().remove(&self.id);
    }
}

impl Archive {
    fn uncommitted(&self) -> MutexGuard<'_, Uncommitted> {
        self.uncommitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn losses(&self) -> MutexGuard<'_, Vec<Loss>> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an exchange that was appended, so that it can be written again when its segment is lost
    /// before the commit.
    pub fn retain(self: &Arc<Self>, exchange: &Exchange, kind: Option<Kind>) -> Retained {
        self.uncommitted().insert(exchange.id, (exchange.clone(), kind));
        Retained { archive: Arc::clone(self), id: exchange.id }
    }

    /// Writes a retained exchange again, into the segment that is open now; `None` when it is not
    /// retained any more.
    pub fn append_again(&self, id: FetchId) -> Result<Option<RawRef>, ArchiveError> {
        let retained = self.uncommitted().get(&id).cloned();
        retained.map(|(exchange, kind)| self.append_as(&exchange, kind)).transpose()
    }

    /// Lets go of the open segment when its file is not what was written.
    pub(super) fn check_open(&self, open: &mut Option<Segment>) -> Result<(), ArchiveError> {
        let Some(segment) = open.as_ref() else { return Ok(()) };
        match segment.loss().map_err(ArchiveError::io(&segment.path))? {
            Some(Cause::Extended { from }) => self.close_extended(open, from),
            Some(cause) => {
                self.lose(open, cause);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Closes a segment that somebody else appended to. Its first `ours` bytes are what was written, and
    /// the index goes on naming them.
    fn close_extended(&self, open: &mut Option<Segment>, ours: u64) -> Result<(), ArchiveError> {
        let Some(segment) = open.as_mut() else { return Ok(()) };
        let (name, path) = (segment.name.clone(), segment.path.clone());
        if segment.file.sync_data().is_err() {
            let to = segment.synced;
            self.lose(open, Cause::Unsynced { to });
            return Ok(());
        }
        tracing::error!(
            segment = name, path = %path.display(), written = ours,
            "archive segment was appended to by another program: closed, a new one is begun"
        );
        *open = None;
        fs::rename(&path, path.with_extension("")).map_err(ArchiveError::io(&path))?;
        sync_dir(&self.settings.dir)
    }

    /// Lets go of the open segment. Nothing more is written there; what is left of it is closed at the
    /// next start.
    pub(super) fn lose(&self, open: &mut Option<Segment>, cause: Cause) {
        let Some(Segment { name, path, length, .. }) = open.take() else { return };
        let (kept, happened) = (cause.kept(), cause.as_str());
        tracing::error!(
            segment = name, path = %path.display(), cause = happened, written = length, kept,
            "archive segment lost while it was open; a new one is begun"
        );
        self.lost_segments().insert(name.clone(), kept);
        self.losses().push(Loss { segment: name, cause });
    }

    /// Losses that nobody has noted in the index yet. Who cannot do that gives them back.
    #[must_use]
    pub fn take_losses(&self) -> Vec<Loss> {
        std::mem::take(&mut *self.losses())
    }

    /// Gives losses back that could not be noted.
    pub fn give_back(&self, losses: Vec<Loss>) {
        self.losses().extend(losses);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use super::super::tests::{clock, files, page, settings, stored};
    use super::*;

    #[test]
    fn a_file_is_ours_only_with_its_name_and_its_length() {
        let id = |inode, names, length| Identity { file: (1, inode), names, length };
        let own = id(7, 1, 100);
        for (own, named, expected) in [
            (own, Some(own), None),
            (id(7, 1, 120), Some(id(7, 1, 120)), Some(Cause::Extended { from: 100 })),
            (id(7, 2, 100), Some(id(7, 2, 100)), None),
            (own, None, Some(Cause::Removed)),
            (id(7, 0, 100), None, Some(Cause::Removed)),
            (id(7, 0, 100), Some(id(8, 1, 100)), Some(Cause::Replaced)),
            (own, Some(id(8, 1, 100)), Some(Cause::Replaced)),
            (id(7, 1, 99), Some(id(7, 1, 99)), Some(Cause::Cut { to: 99 })),
        ] {
            assert_eq!(judge(own, named, 100, false), expected, "{own:?} {named:?}");
        }
        let torn = id(7, 1, 120);
        assert_eq!(judge(torn, Some(torn), 100, true), None, "half a record of ours");
    }

    fn append_foreign(path: &Path) {
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"bytes of somebody else").unwrap();
    }

    #[test]
    fn every_record_is_read_back_whoever_appends_to_an_open_segment() {
        let looks: [fn(&Archive); 4] = [
            |_| {},
            |archive| archive.sync().unwrap(),
            |archive| archive.rotate().unwrap(),
            |archive| archive.close().unwrap(),
        ];
        for look in looks {
            let dir = tempfile::tempdir().unwrap();
            let archive = Archive::open(settings(dir.path()), clock()).unwrap();
            let mut kept = vec![archive.append(&page(0, 0)).unwrap()];
            append_foreign(&files(dir.path())[0]);
            look(&archive);
            kept.extend((1..4).map(|n| archive.append(&page(n, 0)).unwrap()));
            assert!(kept[1].segment != kept[0].segment && kept[3].segment == kept[1].segment);
            assert!(kept.iter().all(|raw| !archive.has_lost(raw)), "nothing is lost");
            assert_eq!(archive.take_losses(), []);
            archive.close().unwrap();
            // A start leaves what was closed as it is.
            drop(Archive::open(settings(dir.path()), clock()).unwrap());
            for (n, raw) in kept.iter().enumerate() {
                assert_eq!(stored(dir.path(), raw).unwrap().body, page(n, 0).body, "{n}");
            }
        }
    }

    #[test]
    fn bytes_that_come_between_the_look_and_the_write_are_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::open(settings(dir.path()), clock()).unwrap();
        let first = archive.append(&page(1, 1)).unwrap();
        append_foreign(&files(dir.path())[0]);
        let mut open = archive.segment();
        // Whoever looked before did not see them.
        let pair = super::super::Pair::new(vec![1, 2, 3], &[4]);
        let error = open.as_mut().unwrap().write_pair(&pair).unwrap_err();
        assert_eq!(error.code(), "archive_lost");
        archive.check_open(&mut open).unwrap();
        assert!(open.is_none(), "nothing more is written there");
        drop(open);
        let second = archive.append(&page(2, 2)).unwrap();
        for (n, raw) in [(1, &first), (2, &second)] {
            assert_eq!(stored(dir.path(), raw).unwrap().body, page(n, n).body);
        }
    }
}
