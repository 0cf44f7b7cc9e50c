//! A server that answers as a test says, and remembers what it was asked.

use std::sync::{Arc, Mutex};

use feedmill_formats::decode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A request with its body.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    /// Without its content coding.
    pub(super) body: Vec<u8>,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What to answer.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// With this status, these header lines, and this body.
    With(u16, &'static str, String),
    /// By ending the connection, after the request was read.
    Cut,
}

type Respond = Arc<dyn Fn(&Asked) -> Answer + Send + Sync>;

/// A server on a port of its own, until it is dropped.
pub(super) struct Listener {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: CancellationToken,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Listener {
    pub(super) async fn new(respond: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, stop): (Arc<Mutex<Vec<Asked>>>, _) = (Arc::default(), CancellationToken::new());
        let respond: Respond = Arc::new(respond);
        let (log, stopped) = (Arc::clone(&asked), stop.clone());
        let tasks = TaskTracker::new();
        let visits = tasks.clone();
        tasks.spawn(async move {
            loop {
                let stream = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap().0,
                    () = stopped.cancelled() => return,
                };
                let (log, respond, stopped) =
                    (Arc::clone(&log), Arc::clone(&respond), stopped.clone());
                visits.spawn(async move {
                    tokio::select! {
                        () = serve(stream, &log, &respond) => {}
                        () = stopped.cancelled() => {}
                    }
                });
            }
        });
        Self { url, asked, stop }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, log: &Mutex<Vec<Asked>>, respond: &Respond) {
    let mut unread = Vec::new();
    while let Some(asked) = read(&mut stream, &mut unread).await {
        let answer = respond(&asked);
        log.lock().unwrap().push(asked);
        let Answer::With(status, headers, body) = answer else { return };
        let head =
            format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
        if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<Asked> {
    let end = loop {
        if let Some(end) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    };
    let rest = unread.split_off(end + 4);
    let head = String::from_utf8(std::mem::replace(unread, rest)).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let named = |name: &str| headers.iter().find(|(known, _)| known == name);
    let length: usize = named("content-length").map_or(0, |(_, value)| value.parse().unwrap());
    let packed = named("content-encoding").is_some_and(|(_, value)| value == "gzip");
    while unread.len() < length {
        if stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    }
    let rest = unread.split_off(length);
    let mut body = std::mem::replace(unread, rest);
    if packed {
        body = decode::capped(&body, Some("gzip"), 100 << 20).unwrap().into_owned();
    }
    Some(Asked { method, path, headers, body })
}
