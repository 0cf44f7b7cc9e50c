//! The Unix socket for tools on this machine: the file's mode and the peer's account stand for a token.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::http::Extensions;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::task::TaskTracker;

use super::limits::Client;
use super::server::{Served, connection};
use super::{Api, ApiError};

/// After a connection could not be taken.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Requests under way get this long when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The account at the other end of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketPeer {
    /// It is our own account, or root.
    pub(super) is_trusted: bool,
}

impl SocketPeer {
    fn of(stream: &UnixStream) -> Self {
        let own = rustix::process::geteuid().as_raw();
        let uid = stream.peer_cred().map(|peer| peer.uid());
        Self { is_trusted: uid.is_ok_and(|uid| uid == own || uid == 0) }
    }
}

/// The socket, listening. Its file goes with it.
#[derive(Debug)]
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Which file it is: somebody else may have put another there since.
    inode: u64,
}

impl Socket {
    /// Listens at a path. A file that a dead server left is replaced; a living server's, and what is no
    /// socket, stay.
    pub(super) fn bind(path: &Path) -> Result<Self, ApiError> {
        let failed = |problem: String| ApiError::Socket { path: path.to_owned(), problem };
        let refused = |error: io::Error| failed(error.to_string());
        match std::fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => {
                return Err(failed("there is a file that is no socket".to_owned()));
            }
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                return Err(failed("another server listens there".to_owned()));
            }
            _ => {}
        }
        // Nobody can connect under the final name before the mode is right.
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{}.new", std::process::id()));
        let new = PathBuf::from(new);
        drop(std::fs::remove_file(&new));
        let listener = UnixListener::bind(&new).map_err(refused)?;
        let placed = std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| std::fs::metadata(&new))
            .and_then(|file| std::fs::rename(&new, path).map(|()| file.ino()));
        match placed {
            Ok(inode) => Ok(Self { listener, path: path.to_owned(), inode }),
            Err(error) => {
                drop(std::fs::remove_file(&new));
                Err(refused(error))
            }
        }
    }

    /// Answers until it is told to stop.
    pub(super) async fn serve(self, router: Router, api: &Api) {
        let stop = &api.stop;
        let connections = TaskTracker::new();
        loop {
            let taken = tokio::select! {
                () = stop.cancelled() => break,
                taken = self.listener.accept() => taken,
            };
            match taken {
                Ok((stream, _)) => {
                    let Some(admitted) = api.connections.admit(Client::Socket) else {
                        api.limits.refused("connections");
                        continue;
                    };
                    let mut about = Extensions::new();
                    about.insert(SocketPeer::of(&stream));
                    let served = Served::new(router.clone(), api, Client::Socket, about);
                    connections.spawn(connection(stream, admitted, served, stop.clone()));
                }
                Err(error) => {
                    tracing::debug!(%error, "could not accept a connection on the Unix socket");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        connections.close();
        if tokio::time::timeout(STOP_TIMEOUT, connections.wait()).await.is_err() {
            tracing::warn!("requests were under way when the Unix socket was closed");
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let own = std::fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode);
        if own {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api.sock");
        // What a server that was killed leaves behind.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let first = Socket::bind(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let told = Socket::bind(&path).unwrap_err().to_string();
        assert!(told.contains("another server listens there"), "{told}");
        assert!(path.exists());
        drop(first);
        assert!(!path.exists(), "it goes with the server");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");

        std::fs::write(&path, "precious").unwrap();
        let told = Socket::bind(&path).unwrap_err().to_string();
        assert!(told.contains("no socket"), "{told}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn another_servers_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api.sock");
        let first = Socket::bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = Socket::bind(&path).unwrap();
        drop(first);
        assert!(path.exists(), "it is not the one that is gone");
        drop(second);
    }
}
