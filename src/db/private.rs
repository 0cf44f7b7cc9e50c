//! Files that only their owner may read: databases hold passwords and cookies, archives what was
//! served to whoever had them.
//!
//! What we make is closed to others whatever the umask says, and what is ours is closed when it is
//! opened. A file of somebody else is left as it is, and so is a directory that was there. Symbolic
//! links are never followed here: what they lead to is not in our directory. The one exception is the
//! database's own name, which an operator may link to another place ([`super::backup::make`]).

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// A name in one of our directories does not lead to a regular file.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("not a regular file")]
pub struct NotRegular;

impl NotRegular {
    /// Whether this is why a file was not opened.
    #[must_use]
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// Opens a file in a directory of ours, if it is a regular one.
///
/// A FIFO would block until somebody opens
/// its other end, a device may do anything, and a symbolic link leads elsewhere: each of them is
/// [`NotRegular`] and left alone.
pub fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    match options.custom_flags(flags).open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(io::Error::other(NotRegular)),
        Err(error) => {
            // A link, a FIFO or socket without another end, and a directory that is to be written.
            let kinds = [Errno::LOOP, Errno::NXIO, Errno::ISDIR].map(Errno::raw_os_error);
            let is_other = error.raw_os_error().is_some_and(|code| kinds.contains(&code));
            Err(if is_other { io::Error::other(NotRegular) } else { error })
        }
    }
}

/// The same for reading.
pub fn read_regular(path: &Path) -> io::Result<File> {
    open_regular(OpenOptions::new().read(true), path)
}

/// Makes a file anew, closed to others, in the place of a regular one or of none.
///
/// A file that is there is removed and not written to: it may be another user's, have another name elsewhere, or
/// be open to others.
pub fn create_regular(path: &Path) -> io::Result<File> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => return Err(io::Error::other(NotRegular)),
        Ok(_) => std::fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    open_regular(options().write(true).create_new(true), path)
}

/// Opens a file that the operator names for output: closed to others when it is made. What is there, a pipe for
/// example, is written to as it is.
pub fn create_output(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// How to open a file that may have to be made.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
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

/// Closes a file to others, when it is there and ours. A link is left alone, and so is what it
/// leads to, or what also has a name elsewhere.
pub fn tighten(path: &Path) -> io::Result<()> {
    // Only a handle on the name: a file that is opened and closed would lose the locks that SQLite
    // has on it in this process.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        handle => handle?,
    };
    let found = rustix::fs::fstat(&handle)?;
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    let is_ours = found.st_uid == rustix::process::geteuid().as_raw() && found.st_nlink == 1;
    if is_file && is_ours && found.st_mode & 0o077 != 0 {
        change_mode(&handle, Mode::from_raw_mode(found.st_mode & 0o700))?;
    }
    Ok(())
}

/// Whether a name is a symbolic link of ours.
pub fn is_own_link(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink() && found.uid() == own)
}

/// Changes the mode of the very file that a handle is on, whatever its name leads to by now.
fn change_mode(handle: &rustix::fd::OwnedFd, mode: Mode) -> io::Result<()> {
    use rustix::fd::AsRawFd as _;
    let itself = format!("/proc/self/fd/{}", handle.as_raw_fd());
    Ok(rustix::fs::chmod(itself, mode)?)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn only_regular_files_are_opened_and_nothing_blocks() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "text").unwrap();
        fs::create_dir(path("dir")).unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        std::os::unix::fs::symlink(path("gone"), path("dangling")).unwrap();
        mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        assert_eq!(io::read_to_string(read_regular(&path("file")).unwrap()).unwrap(), "text");
        for name in ["dir", "link", "dangling", "fifo", "socket"] {
            let read = read_regular(&path(name)).unwrap_err();
            assert!(NotRegular::is(&read), "{name}: {read}");
            let made = create_regular(&path(name)).unwrap_err();
            assert!(NotRegular::is(&made), "{name}: {made}");
        }
        assert!(!path("gone").exists(), "nothing is made at the end of a link");
        assert_eq!(fs::read_to_string(path("file")).unwrap(), "text");
        assert_eq!(read_regular(&path("gone")).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::hard_link(path("file"), path("elsewhere")).unwrap();
        create_regular(&path("file")).unwrap();
        assert_eq!((fs::read(path("file")).unwrap().len(), mode(&path("file"))), (0, 0o600));
        assert_eq!(
            fs::read_to_string(path("elsewhere")).unwrap(),
            "text",
            "it is another file now"
        );
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
    fn what_a_link_leads_to_keeps_its_mode() {
        let (ours, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let outside = others.path().join("shared");
        fs::write(&outside, "text").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
        let link = ours.path().join("feedmill.db-wal");
        symlink(&outside, &link).unwrap();
        tighten(&link).unwrap();
        make_file(&link).unwrap();
        assert_eq!(mode(&outside), 0o644);
        let mut writing = options();
        let opened = writing.write(true).create(true).truncate(true).open(&link);
        assert!(opened.is_err(), "a link is not written through");
        assert_eq!(fs::read_to_string(&outside).unwrap(), "text");
    }

    #[test]
    fn a_database_is_closed_where_a_link_of_ours_leads() {
        let (ours, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let elsewhere = |name: &str| others.path().join(name);
        let open = |name: &str| fs::set_permissions(elsewhere(name), Permissions::from_mode(0o644));
        drop(crate::db::Db::open(&elsewhere("real.db")).unwrap());
        fs::write(elsewhere("notes"), "text").unwrap();
        ["real.db", "notes"].iter().for_each(|name| open(name).unwrap());
        for (link, real) in [("a.db", "real.db"), ("b.db", "made.db")] {
            let link = ours.path().join(link);
            symlink(elsewhere(real), &link).unwrap();
            let db = crate::db::Db::open(&link).unwrap();
            for end in ["", "-wal", "-shm"] {
                let file = elsewhere(&format!("{real}{end}"));
                assert_eq!(mode(&file), 0o600, "{}", file.display());
            }
            drop(db);
        }
        assert_eq!(mode(&elsewhere("notes")), 0o644);
        // A link that somebody else put there; only root can make one for a test.
        if rustix::process::geteuid().is_root() {
            let link = ours.path().join("c.db");
            symlink(elsewhere("notes"), &link).unwrap();
            std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
            crate::db::backup::make(&link);
            assert_eq!(mode(&elsewhere("notes")), 0o644);
        }
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
