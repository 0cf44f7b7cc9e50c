//! Segments beside a backup: closed ones are linked or copied, the open one as far as it is told, and
//! those that are only in the bucket are fetched from there.
//!
//! A closed segment never changes, so a second name for it is as good as a copy on the same disk.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{ArchiveError, OPEN, Remote, sync_dir};
use crate::db::private;

/// What became of the segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Carried {
    /// Segments that are there now, and were not before.
    pub segments: u64,
    /// Those of them that came from the bucket.
    pub fetched: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segments that are nowhere: the fetches in them cannot be read again.
    pub missing: Vec<String>,
}

/// Brings segments from one directory to another, each up to the length that is referred to.
/// Those that are there already stay as they are.
pub fn carry(from: &Path, to: &Path, wanted: &[(String, u64)]) -> Result<Carried, ArchiveError> {
    private::make_dir(to).map_err(ArchiveError::io(to))?;
    let mut carried = Carried::default();
    for (name, length) in wanted {
        let target = to.join(name);
        if target.exists() || to.join(format!("{name}{OPEN}")).exists() {
            continue;
        }
        match bring(&from.join(name), &target, *length) {
            Ok(bytes) => {
                carried.segments += 1;
                carried.bytes += bytes;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                carried.missing.push(name.clone());
            }
            Err(error) => return Err(ArchiveError::io(&target)(error)),
        }
    }
    sync_dir(to)?;
    Ok(carried)
}

impl Carried {
    /// Fetches from the bucket what was not in the directory.
    pub async fn fetch(&mut self, remote: &Remote, to: &Path) -> Result<(), ArchiveError> {
        for name in std::mem::take(&mut self.missing) {
            let (target, partial) = (to.join(&name), partial(&to.join(&name)));
            let mut file = private::create_regular(&partial).map_err(ArchiveError::io(&partial))?;
            if !remote.download(&name, &mut file).await? {
                fs::remove_file(&partial).map_err(ArchiveError::io(&partial))?;
                self.missing.push(name);
                continue;
            }
            let named = file.sync_all().and_then(|()| fs::rename(&partial, &target));
            named.map_err(ArchiveError::io(&target))?;
            self.segments += 1;
            self.fetched += 1;
            self.bytes += file.metadata().map_err(ArchiveError::io(&target))?.len();
        }
        sync_dir(to)
    }
}

fn bring(closed: &Path, target: &Path, length: u64) -> io::Result<u64> {
    let open = closed.with_file_name(format!("{}{OPEN}", name_of(closed)));
    match link_or_copy(closed, target) {
        // It may be closed, and so renamed, between the two looks.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match copy(&open, target, length) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    link_or_copy(closed, target)
                }
                copied => copied,
            }
        }
        carried => carried,
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn link_or_copy(from: &Path, to: &Path) -> io::Result<u64> {
    // A second name for a FIFO or a symbolic link is not a segment.
    if !fs::symlink_metadata(from)?.is_file() {
        return Err(io::Error::other(private::NotRegular));
    }
    match fs::hard_link(from, to) {
        Ok(()) => Ok(fs::metadata(to)?.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
        // Another disk, or one that knows no links.
        Err(_) => copy(from, to, u64::MAX),
    }
}

/// The name of a segment that is not whole yet.
fn partial(segment: &Path) -> PathBuf {
    segment.with_file_name(format!("{}.partial", name_of(segment)))
}

fn copy(from: &Path, to: &Path, length: u64) -> io::Result<u64> {
    let partial = partial(to);
    let mut source = private::read_regular(from)?.take(length);
    let mut target = private::create_regular(&partial)?;
    let copied = io::copy(&mut source, &mut target)?;
    target.sync_all()?;
    fs::rename(&partial, to)?;
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_segments_are_whole_and_the_open_one_ends_where_it_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("a.warc.gz"), "closed").unwrap();
        fs::write(from.join("b.warc.gz.open"), "known, and not").unwrap();
        fs::write(from.join("c.warc.gz"), "not asked for").unwrap();
        let wanted = [("a.warc.gz".into(), 3), ("b.warc.gz".into(), 5), ("gone.warc.gz".into(), 1)];
        let carried = carry(&from, &to, &wanted).unwrap();
        let expected = Carried {
            segments: 2,
            bytes: 11,
            missing: vec!["gone.warc.gz".into()],
            ..Carried::default()
        };
        assert_eq!(carried, expected);
        assert_eq!(fs::read_to_string(to.join("a.warc.gz")).unwrap(), "closed");
        assert_eq!(fs::read_to_string(to.join("b.warc.gz")).unwrap(), "known");
        assert_eq!(fs::read_dir(&to).unwrap().count(), 2);
        // Again: nothing is touched.
        assert_eq!(carry(&from, &to, &wanted).unwrap().segments, 0);
        // Back to where the open one still is.
        assert_eq!(carry(&to, &from, &wanted).unwrap().segments, 0);
    }
}
