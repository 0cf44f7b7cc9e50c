//! The HTTP server of the real program under attack: memory and answers are measured from outside.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::api::{Answer, Server};
use crate::kill::{ANYWHERE, binary};
use crate::support::{Engine, until};

/// A server as a process of its own, with a token for everything.
struct Attacked {
    server: Server,
    engine: Engine,
    token: String,
    dir: TempDir,
}

impl Attacked {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let in_dir = |args: &[&str]| {
            let mut command = binary();
            command.args(args).current_dir(dir.path()).env_remove("FEEDMILL_DATABASE__URL");
            command
        };
        let made = in_dir(&["token", "create", "test", "--scope", "admin"]).output().unwrap();
        let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        let mut command = in_dir(&["run", "--roles", "api", "--set", ANYWHERE]);
        command.stdout(Stdio::null());
        let engine = Engine::start(command, dir.path().join("log"));
        let said = "the dashboard and the API are at http://";
        engine.says(said).await;
        let log = engine.said();
        let address = log.split(said).nth(1).unwrap().split('/').next().unwrap();
        let server = Server::at(address.parse().unwrap());
        Self { server, engine, token, dir }
    }

    fn address(&self) -> SocketAddr {
        self.server.address
    }

    async fn ask(&self, method: &str, path: &str, kind: &str, body: &str) -> Answer {
        let token = format!("Bearer {}", self.token);
        let headers = [("authorization", token.as_str()), ("content-type", kind)];
        self.server.ask(method, path, &headers, body).await
    }

    /// The head of a request with the token, without its end.
    fn head(&self, line: &str) -> String {
        let (host, token) = (self.address(), &self.token);
        format!("{line} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n")
    }

    /// The most memory that it ever had, in MB.
    fn peak_mb(&self) -> u64 {
        peak_mb(self.engine.child.id())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = binary();
        command.args(args).current_dir(self.dir.path()).env_remove("FEEDMILL_DATABASE__URL");
        command
    }
}

fn peak_mb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
}

const MB: usize = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_bodies_of_any_shape_take_little_memory() {
    let attacked = Attacked::start().await;
    assert_eq!(attacked.server.get("/healthz").await.status, 200);
    let base = attacked.peak_mb();
    let json = "application/json";

    // Bodies that become large in memory are refused while they are small.
    let deep = "[".repeat(MB - 1_000);
    let many = format!("{{\"tags\":[{}{{}}]}}", "{},".repeat(330_000));
    let names: String = (0..90_000).map(|n| format!("\"{n:x}\":0,")).collect();
    let wide = format!("{{{names}\"x\":0}}");
    for path in ["/api/v1/sources", "/api/v1/frontier/submit", "/api/v1/takedowns"] {
        for body in [&deep, &many, &wide] {
            let answer = attacked.ask("POST", path, json, body).await;
            assert_eq!(answer.status, 422, "{path}: {}", answer.text());
        }
    }
    let large = "x".repeat(MB + 1);
    assert_eq!(attacked.ask("POST", "/api/v1/sources", json, &large).await.code(), "too_large");
    let after_bodies = attacked.peak_mb();
    assert!(after_bodies < base + 30, "{base} MB became {after_bodies} MB");

    // A list of ten million rows is refused, and one of 31 MB is read.
    let small = format!("[{}{{}}]", "{},".repeat(31 * MB / 3));
    let answer = attacked.ask("POST", "/api/v1/sources/import", json, &small).await;
    assert_eq!((answer.status, answer.code().as_str()), (422, "too_many_rows"));
    drop(small);
    let note = "n".repeat(15_400);
    let rows = (0..2_000)
        .map(|n| format!("{{\"feed_url\":\"https://h{n}.example/feed\",\"mood\":\"{note}\"}}"));
    let list = format!("[{}]", rows.collect::<Vec<_>>().join(",\n"));
    assert!(list.len() > 30 * MB && list.len() < 32 * MB, "{}", list.len());
    let dry = attacked.ask("POST", "/api/v1/sources/import?dry_run=true", json, &list).await;
    assert_eq!(dry.json()["added"], 2_000, "{}", dry.text());

    // Many addresses are handed on as they are read.
    let urls = format!("{{\"urls\":[{}\"\"]}}", "\"\",".repeat(31 * MB / 3));
    let answer = attacked.ask("POST", "/api/v1/frontier/submit/bulk", json, &urls).await;
    assert_eq!((answer.status, answer.code().as_str()), (422, "too_many"));
    let peak = attacked.peak_mb();
    assert!(peak < base + 100, "{base} MB became {peak} MB");

    // The command line reads a list in the same way.
    fs::write(attacked.dir.path().join("list.json"), &list).unwrap();
    let mut command = attacked.command(&["source", "import", "list.json", "--json"]);
    let output = command.output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["added"], 2_000, "{}", String::from_utf8_lossy(&output.stderr));

    // Those who follow events and read nothing cost a batch each: large events come in small ones.
    let because = serde_json::json!({ "reason": "x".repeat(60_000) }).to_string();
    for n in 0..100 {
        let path = format!("/api/v1/sources/h{n}.example/disable");
        let answer = attacked.ask("POST", &path, json, &because).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let before = attacked.peak_mb();
    let mut readers = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(attacked.address()).await.unwrap();
        let head = attacked.head("GET /api/v1/events/stream?after=0");
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        readers.push(stream);
    }
    let page = attacked.ask("GET", "/api/v1/events?limit=1000", json, "").await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 100);
    let after = attacked.peak_mb();
    assert!(after < before + 60, "{before} MB became {after} MB");
    drop(readers);

    // Of those who want large pages and do not read them, only some get one; small ones are still to be had.
    let long = "x".repeat(1_900);
    let urls = |n| (0..6).map(|at| format!("https://a{n}.example/{at}/{long}")).collect::<Vec<_>>();
    let rows = (0..600)
        .map(|n| serde_json::json!({ "name": format!("a{n}"), "feed_urls": urls(n) }).to_string());
    let list = format!("[{}]", rows.collect::<Vec<_>>().join(",\n"));
    let added = attacked.ask("POST", "/api/v1/sources/import", json, &list).await;
    assert_eq!(added.json()["added"], 600, "{}", added.text());
    let page = attacked.ask("GET", "/api/v1/sources?limit=1000", json, "").await.text().len();
    let (mut heads, fit) = (Vec::new(), (48 << 20) / page);
    assert!(fit < 20, "a page is large, and has {page} bytes");
    for _ in 0..fit + 40 {
        // Little of it fits into the buffers of the connection.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut stream = socket.connect(attacked.address()).await.unwrap();
        let head = attacked.head("GET /api/v1/sources?limit=1000");
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        heads.push(async move {
            let mut begun = [0; 12];
            stream.read_exact(&mut begun).await.unwrap();
            (String::from_utf8_lossy(&begun).into_owned(), stream)
        });
    }
    let begun = futures_util::future::join_all(heads).await;
    let refused = begun.iter().filter(|(head, _)| head == "HTTP/1.1 503").count();
    assert!((20..=41).contains(&refused), "{refused} of {}", fit + 40);
    let small = attacked.ask("GET", "/api/v1/events?limit=1", json, "").await;
    assert_eq!(small.status, 200, "{}", small.text());
    let peak = attacked.peak_mb();
    assert!(peak < after + 200, "{after} MB became {peak} MB");
    drop(begun);
}

/// Opens a connection and sends this, if the server lets it.
async fn send(address: SocketAddr, bytes: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(bytes.as_bytes()).await.ok()?;
    Some(stream)
}

/// How long each of so many health checks takes.
async fn checks(server: &Server, count: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        assert_eq!(server.get("/healthz").await.status, 200);
        times.push(began.elapsed());
    }
    times.sort();
    times
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_answered_while_others_hold_all_they_can() {
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
    let attacked = Attacked::start().await;
    let stream = format!("{}\r\n", attacked.head("GET /api/v1/events/stream"));
    let body = format!(
        "{}content-type: application/json\r\ncontent-length: 500\r\n\r\n{{",
        attacked.head("POST /api/v1/sources")
    );
    let head = "GET /healthz HTTP/1.1\r\nhost: 127".to_owned();
    let mut held = Vec::new();
    let mut times = Vec::new();
    for _ in 0..10 {
        for attack in [&stream, &body, &head] {
            for _ in 0..100 {
                held.extend(send(attacked.address(), attack).await);
            }
        }
        times.extend(checks(&attacked.server, 2).await);
    }
    assert!(held.len() > 2_500, "{} connections were taken", held.len());
    times.extend(checks(&attacked.server, 10).await);
    let answered = |answer: &Answer| matches!(answer.status, 200 | 429 | 503);
    let metrics = attacked.ask("GET", "/metrics", "text/plain", "").await;
    assert!(answered(&metrics), "{}", metrics.text());
    drop(held);
    times.extend(checks(&attacked.server, 10).await);
    times.sort();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    assert!(median < Duration::from_secs(1), "{times:?}");
    // A machine that is busy with other things may be late with one of them.
    assert!(worst < Duration::from_secs(15), "{times:?}");

    // Others are answered again soon, and what was refused was counted.
    until("an answer", || async {
        attacked.ask("GET", "/api/v1/me", "text/plain", "").await.status == 200
    })
    .await;
    let mut text = String::new();
    until("the figures", || async {
        attacked.ask("GET", "/metrics", "text/plain", "").await.status == 200
    })
    .await;
    text.push_str(&attacked.ask("GET", "/metrics", "text/plain", "").await.text());
    assert!(text.contains("feedmill_api_limited_total{limit=\"streams\"}"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_never_arrive_leave_room_for_other_requests() {
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
    let attacked = Attacked::start().await;
    let list = format!(
        "{}content-type: text/plain\r\ncontent-length: 30000000\r\n\r\nh",
        attacked.head("POST /api/v1/sources/import")
    );
    let mut held = Vec::new();
    for _ in 0..1_000 {
        held.extend(send(attacked.address(), &list).await);
    }
    assert!(held.len() > 800, "{} connections were taken", held.len());
    until("an answer", || async {
        attacked.ask("GET", "/api/v1/me", "text/plain", "").await.status == 200
    })
    .await;
    // Only some lists wait for their turn, because each that waits takes the place of another request. The
    // others are refused at once. That is counted, not timed: on a busy machine everything takes longer.
    until("lists that were refused at once", || async {
        let metrics = attacked.ask("GET", "/metrics", "text/plain", "").await.text();
        let name = "feedmill_api_limited_total{limit=\"bodies\"} ";
        let count = metrics.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
        count.is_some_and(|count| count > 100)
    })
    .await;
    drop(held);
}
