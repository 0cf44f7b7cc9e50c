//! Files that are made with the permissions that were asked for, whatever the umask says.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::db::private;

/// Files are their owner's alone unless something else is configured.
pub const PRIVATE: u32 = 0o600;

/// Makes an empty file, in place of one that is there. What has its name and is no regular file is left
/// alone.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    made(private::create_regular(path)?, mode)
}

/// Opens a file to append to it, and makes it when it is missing; whether it was.
pub(super) fn append(path: &Path, mode: u32) -> io::Result<(File, bool)> {
    let new = OpenOptions::new().append(true).create_new(true).mode(PRIVATE).open(path);
    match new {
        Ok(file) => Ok((made(file, mode)?, true)),
        // One that is there stays as open as it is.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((private::open_regular(OpenOptions::new().append(true), path)?, false))
        }
        Err(error) => Err(error),
    }
}

/// Makes a directory, and those above it, where they are missing: whoever may read its files may enter.
pub(super) fn directory(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode | (mode & 0o444) >> 2).create(path)
}

fn made(file: File, mode: u32) -> io::Result<File> {
    if mode != PRIVATE {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn files_have_the_permissions_that_were_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        for wanted in [0o600, 0o640, 0o666] {
            let below = dir.path().join(format!("{wanted:o}"));
            directory(&below, wanted).unwrap();
            assert_eq!(mode(&below) & 0o700, 0o700);
            drop(create(&below.join("whole"), wanted).unwrap());
            assert!(append(&below.join("lines"), wanted).unwrap().1);
            assert!(!append(&below.join("lines"), 0o600).unwrap().1);
            assert_eq!(mode(&below.join("whole")), wanted);
            assert_eq!(mode(&below.join("lines")), wanted, "one that is there stays as it is");
        }
        assert_eq!(mode(&dir.path().join("600")), 0o700);
    }
}
