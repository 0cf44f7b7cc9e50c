//! A server that does what a script says, and a trap that nobody may walk into.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use super::script::{DRIP, Dice, FAMILIES, Step};

/// Bytes after which even an endless answer ends: far more than anybody should take.
const ENOUGH: usize = 16 << 20;

pub(super) struct Hostile {
    pub(super) addr: SocketAddr,
    pub(super) trap: SocketAddr,
    caught: Arc<AtomicUsize>,
    tasks: TaskTracker,
}

impl Hostile {
    pub(super) async fn start() -> Self {
        let (server, trap) = (listener().await, listener().await);
        let (addr, trap_addr) = (server.local_addr().unwrap(), trap.local_addr().unwrap());
        let (tasks, caught) = (TaskTracker::new(), Arc::new(AtomicUsize::new(0)));
        let connections = tasks.clone();
        tasks.spawn(async move {
            while let Ok((stream, _)) = server.accept().await {
                connections.spawn(serve(stream, trap_addr.port()));
            }
        });
        let count = Arc::clone(&caught);
        tasks.spawn(async move {
            while trap.accept().await.is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { addr, trap: trap_addr, caught, tasks }
    }

    /// How many walked into the trap.
    pub(super) fn caught(&self) -> usize {
        self.caught.load(Ordering::Relaxed)
    }

    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }
}

pub(super) async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// Answers one request as the number in its host's name says.
async fn serve(mut stream: TcpStream, trap: u16) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0; 512];
        match stream.read(&mut byte).await {
            Ok(read @ 1..) => request.extend_from_slice(&byte[..read]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).to_lowercase();
    if request.starts_with("get /robots.txt") {
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        drop(stream.write_all(answer).await);
        return;
    }
    let (_, host) = request.split_once("host: h").unwrap();
    let number: usize = host.split('.').next().unwrap().parse().unwrap();
    for step in steps(number, trap) {
        if play(&mut stream, step).await.is_err() {
            return;
        }
    }
}

pub(super) fn steps(number: usize, trap: u16) -> Vec<Step> {
    FAMILIES[number % FAMILIES.len()](&mut Dice(number as u64), trap)
}

async fn play(stream: &mut TcpStream, step: Step) -> std::io::Result<()> {
    match step {
        Step::Send(bytes) => stream.write_all(&bytes).await,
        Step::Drip(bytes) => {
            for byte in bytes {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(DRIP).await;
            }
            Ok(())
        }
        Step::Endless(bytes) => {
            for _ in 0..=ENOUGH / bytes.len() {
                stream.write_all(&bytes).await?;
            }
            Ok(())
        }
        // Until the other side has had enough.
        Step::Silence => stream.read(&mut [0; 1]).await.map(drop),
        Step::Reset => stream.set_zero_linger(),
    }
}
