//! Following the log: nothing is missed and nothing comes twice, over any number of connections.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

use super::{Server, worlds};

pub(super) struct Listener {
    lines: BufReader<OwnedReadHalf>,
    _hold: tokio::net::tcp::OwnedWriteHalf,
}

impl Listener {
    pub(super) async fn open(server: &Server, path: &str, headers: &str) -> Self {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let (read, mut write) = stream.into_split();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", server.address);
        write.write_all(request.as_bytes()).await.unwrap();
        Self { lines: BufReader::new(read), _hold: write }
    }

    /// The next line that begins like this, without its beginning.
    pub(super) async fn next(&mut self, begins: &str) -> String {
        let look = async {
            loop {
                let mut line = String::new();
                assert!(self.lines.read_line(&mut line).await.unwrap() > 0, "it ended");
                if let Some(rest) = line.strip_prefix(begins) {
                    return rest.trim().to_owned();
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), look).await.expect("something is told")
    }

    /// Waits for the end of the answer.
    pub(super) async fn ends(&mut self) {
        let look = async {
            let mut line = String::new();
            while self.lines.read_line(&mut line).await.is_ok_and(|length| length > 0) {
                let end = line == "0\r\n";
                line.clear();
                if end {
                    break;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), look).await.expect("it ends");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_back_goes_on_where_it_was() {
    for (world, _database) in worlds(2, 3).await {
        let server = Server::start(&world, |_| {}).await;
        let all = server.json("/api/v1/events?limit=1000").await;
        let all: Vec<i64> =
            all["items"].as_array().unwrap().iter().map(|it| it["seq"].as_i64().unwrap()).collect();
        assert!(all.len() > 10, "{all:?}");
        let mut heard: Vec<i64> = Vec::new();
        // Every connection breaks after three events.
        while heard.len() < all.len() {
            let last = heard.last().map(|seq| format!("last-event-id: {seq}\r\n"));
            let path = "/api/v1/events/stream?after=0";
            let mut listener = Listener::open(&server, path, &last.unwrap_or_default()).await;
            listener.next(": ping").await;
            for _ in 0..3.min(all.len() - heard.len()) {
                heard.push(listener.next("id: ").await.parse().unwrap());
            }
        }
        assert_eq!(heard, all);

        // Without a place, only what happens from now on; and what happens is told at once.
        let mut live = Listener::open(&server, "/api/v1/events/stream?kinds=source.*", "").await;
        live.next(": ping").await;
        let accept = "accept: application/x-ndjson\r\n";
        let path = format!("/api/v1/events?follow=true&after={}", all.last().unwrap());
        let mut lines = Listener::open(&server, &path, accept).await;
        let source = super::first(&server, "/api/v1/sources", "id").await;
        let off = server.ask("POST", &format!("/api/v1/sources/{source}/disable"), &[], "").await;
        assert_eq!(off.status, 200, "{}", off.text());
        assert_eq!(live.next("event: ").await, "source.disabled");
        let data: serde_json::Value = serde_json::from_str(&live.next("data: ").await).unwrap();
        assert_eq!(data["source_id"], source.as_str(), "{data}");
        assert!(lines.next("{").await.contains("source.disabled"));
        let bad = [("last-event-id", "x")];
        assert_eq!(server.ask("GET", "/api/v1/events/stream", &bad, "").await.status, 400);
        // Whoever still listens does not hold the server.
        server.stop().await;
    }
}
