//! The HTTP server on real sockets, on both databases.

mod access;
mod feeds;
mod follow;
mod hostile;
mod local;
mod logins;
mod paging;
mod reader;
mod resources;
mod scopes;
mod searching;
mod takedowns;

use std::net::SocketAddr;
use std::time::Duration;

use feedmill::api;
use feedmill::app::Reload;
use feedmill::config::Config;
use feedmill::store::gate::{self, Scope};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::postgres::database;
use crate::support::{LIMIT, World};

/// The server beside a world.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// The token of its login link.
    pub(crate) login: String,
    /// What it is asked with, unless somebody says otherwise.
    bearer: Option<String>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Server {
    pub(crate) async fn start(world: &World, shape: impl FnOnce(&mut Config)) -> Self {
        let mut config = world.config.clone();
        config.api.listen.set_port(0);
        config.api.rate_limit = 0;
        shape(&mut config);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (reload, progress) = (Reload::fixed(&config), std::sync::Arc::default());
        let listening = api::listen(&config, &world.clock, reload, progress, stop.clone());
        let listening = listening.await.unwrap();
        let address = listening.address();
        let link = listening.login_link().unwrap();
        let login = link.split_once("#token=").unwrap().1.to_owned();
        tasks.spawn(listening.run());
        Self { address, login, bearer: None, stop, tasks }
    }

    /// The same, asked by an administrator.
    pub(crate) async fn administered(world: &World, shape: impl FnOnce(&mut Config)) -> Self {
        let server = Self::start(world, shape).await;
        Self { bearer: Some(format!("Bearer {}", server.login)), ..server }
    }

    /// One that somebody else started, and stops.
    pub(crate) fn at(address: SocketAddr) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        Self { address, login: String::new(), bearer: None, stop, tasks }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        tokio::time::timeout(LIMIT, self.tasks.wait()).await.expect("it ends by itself");
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    /// The answer, which has to be fine and JSON.
    pub(crate) async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let kind = [("content-type", "application/json")];
        self.ask(method, path, &kind, &body.to_string()).await
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let named = |name: &str| headers.iter().any(|(one, _)| one.eq_ignore_ascii_case(name));
        let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !named("host") {
            request.push_str(&format!("host: {}\r\n", self.address));
        }
        if let Some(bearer) = self.bearer.as_ref().filter(|_| !named("authorization")) {
            request.push_str(&format!("authorization: {bearer}\r\n"));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            request.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        self.raw(format!("{request}\r\n{body}").as_bytes()).await
    }

    /// Sends these very bytes and reads until the connection is closed.
    pub(crate) async fn raw(&self, request: &[u8]) -> Answer {
        let exchange = async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            // A server that has read enough may close at once.
            drop(stream.write_all(request).await);
            let mut answer = Vec::new();
            drop(stream.read_to_end(&mut answer).await);
            Answer::read(&answer)
        };
        tokio::time::timeout(Duration::from_secs(60), exchange).await.expect("an answer")
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head: {}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap_or((line, "")))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
        let body = &bytes[end + 4..];
        let body = if chunked { unchunked(body) } else { body.to_vec() };
        Self { status, headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// The stable code of what is wrong.
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().unwrap().to_owned()
    }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&body[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 || body.len() < end + 2 + size {
            break;
        }
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[(end + 4 + size).min(body.len())..];
    }
    whole
}

/// A token with this scope.
pub(crate) async fn token(world: &World, name: &str, scope: Scope, seed: u8) -> String {
    let made = gate::create(&*world.store, name, scope, [seed; 32], world.clock.now()).await;
    made.unwrap().unwrap()
}

/// A newsroom that was followed for a while, on the embedded database and on PostgreSQL.
pub(crate) async fn worlds(
    publishers: usize,
    stories: usize,
) -> Vec<(World, Option<crate::postgres::Database>)> {
    let all = new_worlds(publishers, stories).await;
    for (world, _) in &all {
        world.follow().await;
        world.run_once().await;
    }
    all
}

/// The same, and nobody has followed it yet.
pub(crate) async fn new_worlds(
    publishers: usize,
    stories: usize,
) -> Vec<(World, Option<crate::postgres::Database>)> {
    let mut all = vec![(World::new(publishers, stories).await, None)];
    if let Some(database) = database().await {
        let world = World::on(&database.url, publishers, |setup| feedmill_newsroom::Setup {
            history: stories,
            publish_until: Some(setup.starts_at),
            ..setup
        })
        .await;
        all.push((world, Some(database)));
    }
    all
}

/// The id of the first item of a list.
pub(crate) async fn first(server: &Server, path: &str, key: &str) -> String {
    let page = server.json(path).await;
    let id = page["items"][0][key].as_str();
    id.unwrap_or_else(|| panic!("{path} is empty: {page}")).to_owned()
}
