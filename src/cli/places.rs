//! Files and directories: how much is in them, how much room is left, whether they can be used.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// What a directory or file takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// All files at and below a place; nothing when it is not there. Links are not followed.
pub(super) fn taken(place: &Path) -> io::Result<Taken> {
    let found = match fs::symlink_metadata(place) {
        Ok(found) => found,
        // Segments are renamed and files end while we look.
        Err(error) if is_absent(&error) => return Ok(Taken::default()),
        Err(error) => return Err(error),
    };
    if !found.is_dir() {
        return Ok(Taken { files: 1, bytes: found.len() });
    }
    let mut sum = Taken::default();
    for entry in fs::read_dir(place)? {
        let inner = taken(&entry?.path())?;
        sum.files += inner.files;
        sum.bytes += inner.bytes;
    }
    Ok(sum)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The place itself, or the nearest directory above it that exists.
pub(super) fn nearest(place: &Path) -> PathBuf {
    let existing = place.ancestors().find(|above| fs::symlink_metadata(above).is_ok());
    match existing {
        Some(above) if !above.as_os_str().is_empty() => above.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Bytes that we may still write on the disk of that place, which need not exist yet.
pub(super) fn free(place: &Path) -> io::Result<u64> {
    crate::db::free_bytes(&nearest(place))
}

/// Whether a directory can be used.
#[derive(Debug)]
pub(super) enum Access {
    /// Files can be made in it.
    Writable,
    /// It is not there yet, but can be made.
    CanBeMade,
    /// Why not.
    Refused(io::Error),
}

/// Tries to make a file in the directory, or in the one above it that exists.
pub(super) fn access(dir: &Path) -> Access {
    let existing = nearest(dir);
    let probe = existing.join(format!(".feedmill-probe-{}", std::process::id()));
    let tried = fs::read_dir(&existing)
        .and_then(|_| OpenOptions::new().write(true).create_new(true).open(&probe))
        .and_then(|_| fs::remove_file(&probe));
    match tried {
        Err(error) => Access::Refused(error),
        Ok(()) if existing == dir => Access::Writable,
        Ok(()) => Access::CanBeMade,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_summed_up() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("below")).unwrap();
        fs::write(dir.path().join("a"), "12345").unwrap();
        fs::write(dir.path().join("below/b"), "123").unwrap();
        assert_eq!(taken(dir.path()).unwrap(), Taken { files: 2, bytes: 8 });
        assert_eq!(taken(&dir.path().join("a")).unwrap(), Taken { files: 1, bytes: 5 });
        assert_eq!(taken(&dir.path().join("none")).unwrap(), Taken::default());
    }

    #[test]
    fn a_directory_is_tried_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        assert!(matches!(access(dir.path()), Access::Writable));
        assert!(matches!(access(&dir.path().join("a/b")), Access::CanBeMade));
        fs::write(&file, "").unwrap();
        assert!(matches!(access(&file.join("below")), Access::Refused(_)));
        assert_eq!(taken(dir.path()).unwrap().files, 1);
        assert!(free(&dir.path().join("a/b")).unwrap() > 0);
        assert_eq!(nearest(Path::new("no-such-directory/below")), Path::new("."));
    }
}
