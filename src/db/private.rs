//! Files that only their owner may read: databases hold passwords and cookies, archives what was
//! served to whoever had them.
//!
//! What we make is closed to others whatever the umask says, and what is ours is closed when it is
//! opened. A file of somebody else is left as it is, and so is a directory that was there.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// How to open a file that may have to be made.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Makes a directory, and those above it, where they are missing.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Makes an empty file where there is none, and closes one that is there.
pub fn make_file(path: &Path) -> io::Result<()> {
    match options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => tighten(path),
        made => made.map(|_| ()),
    }
}

/// Closes a file to others, when it is there and ours.
pub fn tighten(path: &Path) -> io::Result<()> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if found.is_file() && is_ours && found.mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(found.mode() & 0o700))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_closed_and_what_is_there_gets_closed() {
        let dir = tempfile::tempdir().unwrap();
        let (below, file) = (dir.path().join("a/b"), dir.path().join("a/b/c"));
        make_dir(&below).unwrap();
        make_file(&file).unwrap();
        assert_eq!((mode(&below), mode(&file)), (0o700, 0o600));
        fs::set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
        fs::set_permissions(&below, Permissions::from_mode(0o755)).unwrap();
        make_dir(&below).unwrap();
        make_file(&file).unwrap();
        assert_eq!((mode(&below), mode(&file)), (0o755, 0o600), "the directory is not ours alone");
        tighten(&dir.path().join("none")).unwrap();
    }

    #[test]
    fn a_database_and_what_stands_beside_it_are_closed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copied) = (dir.path().join("a.db"), dir.path().join("b.db"));
        let files = || fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let check = |count: usize| {
            assert_eq!(files().count(), count);
            files().for_each(|file| assert_eq!(mode(&file), 0o600, "{}", file.display()));
        };
        let db = crate::db::Db::open(&path).unwrap();
        check(3);
        crate::db::backup::copy(&path, &copied, &mut |_| {}).unwrap();
        check(4);
        // As an earlier version left them.
        let open = || Permissions::from_mode(0o644);
        files().for_each(|file| fs::set_permissions(file, open()).unwrap());
        let again = crate::db::Db::open(&path).unwrap();
        fs::set_permissions(&copied, Permissions::from_mode(0o600)).unwrap();
        check(4);
        drop((db, again));
    }
}
