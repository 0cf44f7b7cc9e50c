//! Takes a record out of a segment: its bytes are overwritten, in place, by a record that says nothing.
//!
//! All other records stay where they are, so the index, revisits and outcomes on their way remain
//! right, also while the segment is being written. A crash in the middle leaves nothing damaged but the
//! record that has to go, and the next try goes over it again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use feedmill_formats::warc;

use super::read::{REQUEST_ROOM, open_here, read_here, request_of};
use super::segment::record_id;
use super::{Archive, ArchiveError};
use crate::db::private;
use crate::model::{RawRef, Ts, new_uuid};

/// More than the named fields of a record take in a segment.
const FIELDS_ROOM: u64 = 128 * 1024;

impl Archive {
    /// Takes a record and its request out of a segment in the directory; false when it is not there.
    /// Nobody may rely on it any more: [`Archive::forget`] tells when.
    pub fn erase(&self, raw: &RawRef) -> Result<bool, ArchiveError> {
        let here = erase(&self.settings.dir, raw, self.clock.now())?;
        self.forgotten(raw);
        Ok(here)
    }
}

/// Overwrites a record of a segment in this directory; false when the segment is not there.
pub fn erase(dir: &Path, raw: &RawRef, now: Ts) -> Result<bool, ArchiveError> {
    let Some((_, path)) = open_here(dir, &raw.segment)? else { return Ok(false) };
    let request = request_behind(dir, raw)?;
    // A segment may be closed, and so renamed, between two looks: the file is the same.
    let open = |path: &Path| private::open_regular(OpenOptions::new().write(true), path);
    let (file, path) = match open(&path) {
        Ok(file) => (file, path),
        Err(_) => {
            let path = dir.join(&raw.segment);
            let file: io::Result<File> = open(&path);
            (file.map_err(ArchiveError::io(&path))?, path)
        }
    };
    // The request first: where it is can only be told while the answer is there.
    if let Some(length) = request {
        overwrite(&file, &path, raw.offset + raw.length, length, now)?;
    }
    overwrite(&file, &path, raw.offset, raw.length, now)?;
    file.sync_data().map_err(ArchiveError::io(&path))?;
    Ok(true)
}

/// The length of the request that stands behind an answer. The answer itself is not unpacked: it may
/// be larger than what is read, and has to go all the same.
fn request_behind(dir: &Path, raw: &RawRef) -> Result<Option<u64>, ArchiveError> {
    let end = raw.offset.saturating_add(raw.length);
    let head = raw.offset..end.min(raw.offset.saturating_add(FIELDS_ROOM));
    let (head, behind) = (
        read_here(dir, &raw.segment, &head)?,
        read_here(dir, &raw.segment, &(end..end.saturating_add(REQUEST_ROOM)))?,
    );
    let Some((head, behind)) = head.zip(behind) else { return Ok(None) };
    let Ok(answer) = warc::read_fields(&head) else { return Ok(None) };
    Ok(request_of(&answer, &behind).map(|(_, member)| member.len() as u64))
}

fn overwrite(
    file: &File,
    path: &Path,
    offset: u64,
    length: u64,
    now: Ts,
) -> Result<(), ArchiveError> {
    let have = file.metadata().map_err(ArchiveError::io(path))?.len();
    // What a crash has cut off is gone already.
    if have < offset + length {
        return Ok(());
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let id = record_id(new_uuid(now));
    let blank = warc::blank(&id, now, length).unwrap_or_else(|| vec![0; length]);
    file.write_all_at(&blank, offset).map_err(ArchiveError::io(path))
}
