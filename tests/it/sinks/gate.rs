//! A gate before a server: connections go through it, unless it is told otherwise.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What happens to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They go through.
    Open,
    /// None goes through, and those that did are ended.
    Down,
    /// Each is ended once so many bytes went to the server.
    Cut(usize),
    /// Each is ended once so many bytes came from the server.
    CutAnswer(usize),
    /// Every piece takes its time.
    Slow,
}

/// A gate on a port of its own, until it is dropped.
pub(crate) struct Gate {
    /// The server's address, by way of the gate.
    pub(crate) url: String,
    mode: Arc<Mutex<Mode>>,
    stop: CancellationToken,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Gate {
    /// A gate before the server at an address.
    pub(crate) async fn to(url: &str) -> Self {
        let behind = url.split_once("://").unwrap().1.split('/').next().unwrap();
        let server = behind.rsplit('@').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = url.replace(&server, &listener.local_addr().unwrap().to_string());
        let mode = Arc::new(Mutex::new(Mode::Open));
        let stop = CancellationToken::new();
        let (kept, stopped, tasks) = (Arc::clone(&mode), stop.clone(), TaskTracker::new());
        let passages = tasks.clone();
        tasks.spawn(async move {
            loop {
                let client = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap().0,
                    () = stopped.cancelled() => return,
                };
                let (mode, stopped, server) = (Arc::clone(&kept), stopped.clone(), server.clone());
                passages.spawn(async move {
                    tokio::select! {
                        () = pass(client, &server, &mode) => {}
                        () = stopped.cancelled() => {}
                    }
                });
            }
        });
        Self { url, mode, stop }
    }

    pub(crate) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }
}

async fn pass(client: TcpStream, server: &str, mode: &Mutex<Mode>) {
    if *mode.lock().unwrap() == Mode::Down {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // When one way ends, so does the other.
    tokio::select! {
        () = carry(from_client, to_server, mode, true) => {}
        () = carry(from_server, to_client, mode, false) => {}
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mode: &Mutex<Mode>, counts: bool) {
    let (mut piece, mut sent) = (vec![0; 4_096], 0);
    loop {
        let Ok(length) = from.read(&mut piece).await else { return };
        if length == 0 {
            return;
        }
        let now = *mode.lock().unwrap();
        let length = match now {
            Mode::Down => return,
            Mode::Cut(most) | Mode::CutAnswer(most)
                if counts == matches!(now, Mode::Cut(_)) && sent + length > most =>
            {
                drop(to.write_all(&piece[..most.saturating_sub(sent)]).await);
                return;
            }
            Mode::Slow => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                length
            }
            Mode::Cut(_) | Mode::CutAnswer(_) | Mode::Open => length,
        };
        sent += length;
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}
