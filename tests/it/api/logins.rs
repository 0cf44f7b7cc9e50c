//! Tokens that are wrong, and tokens that are revoked.

use feedmill::store::gate::{self, Scope};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use super::follow::Listener;
use super::{Answer, Server, new_worlds, token};

/// Asks with a token from another address of this machine.
async fn from_elsewhere(server: &Server, token: &str) -> Answer {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.9:0".parse().unwrap()).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    let request = format!(
        "GET /api/v1/me HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n",
        server.address
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    Answer::read(&answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_counted_logged_and_slowed_down() {
    for (world, _database) in new_worlds(1, 0).await {
        let server = Server::start(&world, |_| {}).await;
        let used = token(&world, "used", Scope::Admin, 1).await;
        let unused = token(&world, "unused", Scope::Read, 2).await;
        let ask = async |token: &str| {
            let bearer = format!("Bearer {token}");
            server.ask("GET", "/api/v1/me", &[("authorization", &bearer)], "").await
        };
        assert_eq!(ask(&used).await.status, 200);
        let mut answers = Vec::new();
        for n in 0..12 {
            answers.push(ask(&format!("fm_{n:064}")).await);
        }
        let refused: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(refused[..10], [401; 10]);
        assert_eq!(refused[11], 429, "{refused:?}");
        assert_eq!(answers[11].code(), "too_many_failures");
        assert!(answers[11].header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        // A valid token is not slowed down, whether it was used before or not, nor is another address.
        assert_eq!(ask(&used).await.status, 200);
        assert_eq!(ask(&unused).await.status, 200);
        assert_eq!(from_elsewhere(&server, &unused).await.status, 200);

        let bearer = format!("Bearer {used}");
        let headers = [("authorization", bearer.as_str())];
        let audit = server.ask("GET", "/api/v1/audit", &headers, "").await.json();
        let who = audit["items"][0]["who"].as_str().unwrap();
        assert!(who.starts_with("refused login from 127.0.0.1"), "{audit}");
        let metrics = server.ask("GET", "/metrics", &headers, "").await.text();
        assert!(
            metrics.contains("feedmill_api_refused_logins_total{reason=\"unknown_token\"} 1"),
            "{metrics}"
        );
        assert!(
            metrics.contains("feedmill_api_refused_logins_total{reason=\"throttled\"}"),
            "{metrics}"
        );
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_soon_after_its_token_was_revoked() {
    for (world, _database) in new_worlds(1, 0).await {
        let server = Server::start(&world, |_| {}).await;
        let tokens = [
            token(&world, "gone", Scope::Read, 1).await,
            token(&world, "stays", Scope::Read, 2).await,
        ];
        let open = async |token: &str| {
            let header = format!("authorization: Bearer {token}\r\n");
            let mut listener = Listener::open(&server, "/api/v1/events/stream", &header).await;
            listener.next(": ping").await;
            listener
        };
        let (mut gone, mut stays) = (open(&tokens[0]).await, open(&tokens[1]).await);
        assert!(gate::revoke(&*world.store, "gone").await.unwrap());
        assert_eq!(gone.next("event: ").await, "closed");
        assert!(gone.next("data: ").await.contains("revoked"));
        gone.ends().await;
        // The other one still hears what happens.
        let made = serde_json::json!({"name": "a", "url": "https://a.example/"});
        assert_eq!(server.send("POST", "/api/v1/sources", &made).await.status, 201);
        let off = server.ask("POST", "/api/v1/sources/a/disable", &[], "").await;
        assert_eq!(off.status, 200, "{}", off.text());
        assert_eq!(stays.next("event: ").await, "source.disabled");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_limited_by_client_and_in_total() {
    let (world, _database) = new_worlds(1, 0).await.swap_remove(0);
    let server = Server::start(&world, |config| {
        (config.api.max_streams, config.api.max_client_streams) = (3, 2);
    })
    .await;
    let [one, other] = [token(&world, "a", Scope::Read, 1), token(&world, "b", Scope::Read, 2)];
    let (one, other) = (one.await, other.await);
    let header = |token: &str| format!("authorization: Bearer {token}\r\n");
    let path = "/api/v1/events/stream";
    let mut open = Vec::new();
    for token in [&one, &one, &other] {
        let mut listener = Listener::open(&server, path, &header(token)).await;
        listener.next(": ping").await;
        open.push(listener);
    }
    let ask = async |token: &str| {
        let bearer = format!("Bearer {token}");
        server.ask("GET", path, &[("authorization", &bearer)], "").await
    };
    let refused = ask(&other).await;
    assert_eq!((refused.status, refused.code()), (503, "too_many_streams".to_owned()));
    open.pop();
    crate::support::until("a free place", || async { ask(&one).await.status == 429 }).await;
    let refused = ask(&one).await;
    assert_eq!((refused.status, refused.code()), (429, "too_many_streams".to_owned()));
    assert!(refused.header("retry-after").is_some());
    server.stop().await;
}
