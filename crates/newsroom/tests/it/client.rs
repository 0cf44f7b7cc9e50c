//! A raw client: it reads what is on the wire and believes nothing.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use feedmill_newsroom::{NewsClock, Newsroom, Setup};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const START: i64 = 1_772_452_800_000;
pub(crate) const HOUR: i64 = 3_600_000;

/// A clock that tests set by hand.
#[derive(Clone)]
pub(crate) struct Hand(Arc<AtomicI64>);

impl Hand {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(START)))
    }

    pub(crate) fn set(&self, at: i64) {
        self.0.store(at, Ordering::SeqCst);
    }

    pub(crate) fn clock(&self) -> NewsClock {
        let time = Arc::clone(&self.0);
        Arc::new(move || time.load(Ordering::SeqCst))
    }
}

/// A newsroom on a clock that stands at [`START`].
pub(crate) async fn open(change: impl FnOnce(&mut Setup)) -> (Newsroom, Hand) {
    let hand = Hand::new();
    let mut setup = Setup::new(hand.clock());
    change(&mut setup);
    (Newsroom::start(setup).await.unwrap(), hand)
}

/// A response as far as it came.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// How reading ended before Content-Length was reached.
    pub(crate) broken: Option<std::io::ErrorKind>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, it)| it.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// A connection that can carry several requests.
pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        Self(TcpStream::connect(addr).await.unwrap())
    }

    pub(crate) async fn send(&mut self, method: &str, url: &str, headers: &[(&str, &str)]) {
        let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut head = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        self.0.write_all((head + "\r\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn ask(
        &mut self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Response {
        self.send(method, url, headers).await;
        self.receive(method == "HEAD").await
    }

    async fn receive(&mut self, bodiless: bool) -> Response {
        let mut raw = Vec::new();
        let end = loop {
            if let Some(end) = raw.windows(4).position(|it| it == b"\r\n\r\n") {
                break end;
            }
            assert_ne!(self.0.read_buf(&mut raw).await.unwrap(), 0, "no response");
        };
        let mut body = raw.split_off(end + 4);
        let head = String::from_utf8(raw).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|it| it.split_once(": ").unwrap());
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut response = Response { status, headers, body: vec![], broken: None };
        let length = response.header("Content-Length").map_or(0, |it| it.parse().unwrap());
        while !bodiless && body.len() < length {
            match self.0.read_buf(&mut body).await {
                Ok(0) => response.broken = Some(std::io::ErrorKind::UnexpectedEof),
                Ok(_) => continue,
                Err(error) => response.broken = Some(error.kind()),
            }
            break;
        }
        body.truncate(length);
        response.body = body;
        response
    }

    /// What still comes until the server closes.
    pub(crate) async fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).await.unwrap();
        rest
    }
}

pub(crate) async fn get(newsroom: &Newsroom, url: &str) -> Response {
    get_with(newsroom, url, &[]).await
}

pub(crate) async fn get_with(newsroom: &Newsroom, url: &str, headers: &[(&str, &str)]) -> Response {
    Client::connect(newsroom.addr()).await.ask("GET", url, headers).await
}

pub(crate) fn gunzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut decoder = flate2::write::GzDecoder::new(Vec::new());
    decoder.write_all(bytes)?;
    decoder.finish()
}

/// What a reader sees: no scripts, no styles, no tags, no entities.
pub(crate) fn visible_text(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, after)) = rest.split_once('<') {
        text += before;
        let end = ["script", "style"].into_iter().find(|tag| after.starts_with(tag));
        let skipped = end.map_or(after, |tag| after.split_once(&format!("</{tag}")).unwrap().1);
        rest = skipped.split_once('>').unwrap().1;
    }
    unescape(&(text + rest))
}

pub(crate) fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}
