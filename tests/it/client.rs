//! The client on real sockets: by which way it goes, what it tells whom, and what it keeps of it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use feedmill::app::{self, Mode, RunOptions};
use feedmill::clock::Clock;
use feedmill::config::{Config, Size, Span};
use feedmill::fetch::FetchError;
use feedmill::model::{Access, Auth, Code, Exchange, Kind, Lane, Secret, Truncation, Validators};
use feedmill::sources::{Wanted, specify};
use feedmill_formats::warc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

type Answer = fn(&str) -> Vec<u8>;
type Log = Arc<Mutex<Vec<(IpAddr, Vec<u8>)>>>;

/// A server that writes down who asked what; every byte is a `char` for `answer`.
struct Server {
    addr: SocketAddr,
    log: Log,
}

impl Server {
    async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (addr, log) = (listener.local_addr().unwrap(), Log::default());
        let (tasks, book) = (TaskTracker::new(), Arc::clone(&log));
        let connections = tasks.clone();
        tasks.spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                connections.spawn(serve(stream, peer.ip(), answer, Arc::clone(&book)));
            }
        });
        Self { addr, log }
    }

    fn requests(&self) -> Vec<String> {
        let log = self.log.lock().unwrap();
        log.iter().map(|(_, request)| latin(request)).collect()
    }
}

async fn serve(mut stream: TcpStream, peer: IpAddr, answer: Answer, log: Log) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        request.push(byte);
    }
    let reply = answer(&latin(&request));
    log.lock().unwrap().push((peer, request));
    drop(stream.write_all(&reply).await);
    // A reply without an end is never finished.
    if reply.ends_with(b"...") {
        drop(stream.read_u8().await);
    }
}

fn latin(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn ok(more: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n{more}\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn config(server: &Server) -> Config {
    let mut config = Config::default();
    config.fetch.resolve = vec![format!("*.test={}", server.addr).parse().unwrap()];
    config
}

async fn get(config: &Config, url: &str, known: &Validators) -> Result<Exchange, FetchError> {
    let (client, _) = app::client(config, &Clock::system()).unwrap();
    client.get(&Url::parse(url).unwrap(), Kind::Feed, known, None, Duration::MAX).await
}

/// A connection that is kept for the next request keeps a buffer of up to 408 kB.
#[tokio::test]
async fn connections_of_large_responses_are_not_kept_without_bound() {
    const BODY: usize = 500_000;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let open = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&open);
    let serve = async move |mut stream: TcpStream| {
        let mut head = Vec::new();
        while let Ok(byte) = stream.read_u8().await {
            head.push(byte);
            if head.ends_with(b"\r\n\r\n") {
                head.clear();
                let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n");
                stream.write_all(reply.as_bytes()).await.unwrap();
                stream.write_all(&vec![b'#'; BODY]).await.unwrap();
            }
        }
    };
    let tasks = TaskTracker::new();
    let connections = tasks.clone();
    tasks.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            counted.fetch_add(1, Ordering::SeqCst);
            connections.spawn(async move {
                serve(stream).await;
                counted.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    let mut config = Config::default();
    config.fetch.resolve = vec![format!("*.test={addr}").parse().unwrap()];
    let (client, _) = app::client(&config, &Clock::system()).unwrap();
    let get = async |host: usize| {
        let url = Url::parse(&format!("http://h{host}.test/robots.txt")).unwrap();
        let none = Validators::default();
        client.get(&url, Kind::Robots, &none, None, Duration::MAX).await.unwrap().body.len()
    };
    let mut most = 0;
    for host in 0..300 {
        assert_eq!(get(host).await, BODY);
        most = most.max(open.load(Ordering::SeqCst));
    }
    assert!((40..120).contains(&most), "{most} connections were open at once");
    // One host has one connection, however often it is asked.
    for _ in 0..100 {
        assert_eq!(get(0).await, BODY);
    }
    assert!(open.load(Ordering::SeqCst) > 1, "others are kept meanwhile");
}

#[tokio::test]
async fn headers_come_and_go_byte_for_byte() {
    let server = Server::start(|_| {
        let lines = b"HTTP/1.1 200 OK\r\nETag: W/\"caf\xe9\"\r\nX-A: 1\r\nX-A: \xff2\r\n";
        [&lines[..], b"Connection: close\r\nContent-Length: 0\r\n\r\n"].concat()
    })
    .await;
    let config = config(&server);
    let first = get(&config, "http://news.test/feed", &Validators::default()).await.unwrap();
    let lines: Vec<_> = first.headers.lines().collect();
    assert_eq!(lines[0].1.as_ref(), b"W/\"caf\xe9\"");
    assert_eq!((lines[1].1.as_ref(), lines[2].1.as_ref()), (&b"1"[..], &b"\xff2"[..]));
    let etag = first.headers.get("etag").map(str::to_owned);
    let known = Validators { etag, ..Validators::default() };
    get(&config, "http://news.test/feed", &known).await.unwrap();
    let asked = server.requests();
    assert!(!asked[0].contains("if-none-match"), "{}", asked[0]);
    assert!(asked[1].contains("if-none-match: W/\"caf\u{e9}\"\r\n"), "{}", asked[1]);
    for line in ["cookie", "referer"] {
        assert!(!asked.iter().any(|request| request.contains(line)), "{asked:?}");
    }
}

#[tokio::test]
async fn a_proxy_is_asked_instead_and_the_guard_still_stands() {
    let proxy = Server::start(|_| ok("", "by proxy")).await;
    let mut config = Config::default();
    config.fetch.proxy = format!("http://ann:hunter2@{}", proxy.addr).into();
    let answer = get(&config, "http://news.example/feed", &Validators::default()).await.unwrap();
    assert_eq!((answer.body.as_ref(), answer.remote), (&b"by proxy"[..], None));
    let asked = proxy.requests().remove(0);
    assert!(asked.starts_with("GET http://news.example/feed HTTP/1.1\r\n"), "{asked}");
    assert!(asked.to_lowercase().contains("proxy-authorization: basic "), "{asked}");
    assert!(!format!("{:?}", answer.request).contains("uthorization"));
    let refused = get(&config, "http://169.254.169.254/", &Validators::default()).await;
    assert_eq!(refused.unwrap_err().code(), Code::Guarded);
    assert_eq!(proxy.requests().len(), 1);
}

#[tokio::test]
async fn connections_come_from_the_address_that_was_chosen() {
    let server = Server::start(|_| ok("", "")).await;
    let mut config = config(&server);
    config.fetch.bind = vec!["127.0.0.9".parse().unwrap()];
    get(&config, "http://news.test/", &Validators::default()).await.unwrap();
    let from = server.log.lock().unwrap().first().map(|(peer, _)| *peer);
    assert_eq!(from, Some("127.0.0.9".parse().unwrap()));
}

#[tokio::test]
async fn silence_ends_a_body_before_the_request_has_to_end() {
    let server =
        Server::start(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nto be...".into()).await;
    let mut config = config(&server);
    config.fetch.request_timeout = Span::seconds(60);
    config.fetch.read_timeout = Span::millis(100);
    let nothing = Validators::default();
    let asking = get(&config, "http://news.test/", &nothing);
    let answer = tokio::time::timeout(Duration::from_secs(30), asking).await.unwrap().unwrap();
    assert_eq!(
        (answer.body.as_ref(), answer.truncated),
        (&b"to be..."[..], Some(Truncation::Time))
    );
}

#[tokio::test]
async fn large_bodies_wait_for_one_another() {
    let server = Server::start(|_| ok("", &"x".repeat(3 << 20))).await;
    let mut config = config(&server);
    config.fetch.max_body = Size::bytes(30 << 20);
    config.fetch.request_timeout = Span::seconds(1);
    let (client, _) = app::client(&config, &Clock::system()).unwrap();
    let (url, known) = (Url::parse("http://news.test/feed").unwrap(), Validators::default());
    let get = async || {
        let limit = Duration::from_secs(60);
        client.get(&url, Kind::Feed, &known, None, limit).await.unwrap()
    };
    let (first, second) = (get().await, get().await);
    assert_eq!((first.truncated, second.truncated), (None, None));
    assert_eq!(get().await.truncated, Some(Truncation::Time), "there is room for two of 30 MiB");
    drop(first);
    let third = get().await;
    assert_eq!((third.truncated, third.body.len()), (None, 3 << 20));
}

/// What [`follow_with_secrets`] has a source say on its own site.
const SECRETS: [&str; 4] = [
    "x-key: hunter1",
    "cookie: id=hunter2",
    "authorization: Bearer hunter3",
    "user-agent: Alder/1",
];

/// Follows a feed with everything that a source can be given, until nothing is due.
async fn follow_with_secrets(config: &Config) {
    let clock = Clock::system();
    let store = app::open(config, &clock).await.unwrap();
    let secret = |text: &str| Secret::from(text.to_owned());
    let access = Access {
        user_agent: Some("Alder/1".to_owned()),
        headers: [("x-key".to_owned(), secret("hunter1"))].into(),
        cookie: Some(secret("id=hunter2")),
        auth: Some(Auth::Bearer(secret("hunter3"))),
        ..Access::default()
    };
    let urls = vec!["http://www.alder.test/feed".to_owned()];
    let wanted = Wanted { urls, access, ..Wanted::default() };
    store.add_source(specify(&wanted, |_| Ok(())).unwrap()).await.unwrap();
    let options = RunOptions { mode: Mode::Once, lanes: Lane::ALL.to_vec() };
    app::run(config, &clock, options, CancellationToken::new(), Arc::default()).await.unwrap();
}

#[tokio::test]
async fn robots_txt_is_asked_for_without_what_a_source_was_given() {
    let server = Server::start(|_| {
        ok("Content-Type: application/rss+xml\r\n", "<rss><channel></channel></rss>")
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config { data_dir: dir.path().join("data"), ..config(&server) };
    config.hosts.delay = Span::millis(1);
    config.robots.apply_to_feeds = true;
    follow_with_secrets(&config).await;
    let asked = server.requests();
    assert_eq!(asked.len(), 2, "{asked:#?}");
    for (request, path) in asked.iter().zip(["/robots.txt", "/feed"]) {
        assert!(request.starts_with(&format!("GET {path} ")), "{request}");
        for line in SECRETS {
            assert_eq!(request.contains(line), path == "/feed", "{line} in {request}");
        }
    }
}

#[tokio::test]
async fn what_a_source_is_given_stays_on_its_site_and_out_of_all_records() {
    let server = Server::start(|request| {
        let moved = |to: &str| {
            let head = "HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\n";
            format!("{head}Location: {to}\r\n\r\n").into_bytes()
        };
        match request {
            _ if request.contains("host: www.alder.test") => moved("http://feeds.alder.test/2"),
            _ if request.contains("host: feeds.alder.test") => moved("http://balder.test/3"),
            _ => ok("Content-Type: application/rss+xml\r\n", "<rss><channel></channel></rss>"),
        }
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config { data_dir: dir.path().join("data"), ..config(&server) };
    config.hosts.delay = Span::millis(1);
    follow_with_secrets(&config).await;
    let asked = server.requests();
    let hosts = ["www.alder.test", "feeds.alder.test", "balder.test"];
    assert_eq!(asked.len(), hosts.len(), "{asked:#?}");
    for (request, host) in asked.iter().zip(hosts) {
        assert!(request.contains(&format!("host: {host}\r\n")), "{request}");
        for line in SECRETS {
            assert_eq!(request.contains(line), host != "balder.test", "{line} in {request}");
        }
    }
    let mut kept = String::new();
    for segment in std::fs::read_dir(config.archive_dir()).unwrap() {
        let mut bytes = std::fs::read(segment.unwrap().path()).unwrap();
        while !bytes.is_empty() {
            let (record, rest) = feedmill_formats::decode::gunzip_next(&bytes, 1 << 20).unwrap();
            (kept, bytes) = (kept + &latin(&record), rest.to_vec());
        }
    }
    assert!(kept.contains("authorization: ***") && kept.contains("x-key: ***"), "{kept}");
    assert!(kept.contains(warc::HTTP_REQUEST) && !kept.contains("hunter"), "{kept}");
}
