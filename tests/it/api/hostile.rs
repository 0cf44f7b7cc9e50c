//! Those who mean harm: they get a refusal, and nobody else notices.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Server, worlds};
use crate::support::World;

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told_with_what_to_do() {
    let world = World::new(1, 1).await;
    let server = Server::start(&world, |_| {}).await;
    for (path, status, code, words) in [
        ("/api/v1/articles?limits=3", 400, "unknown_parameter", "did you mean `limit`?"),
        ("/api/v1/articles?limit=0", 400, "bad_parameter", "1 to 1000"),
        ("/api/v1/articles?limit=1001", 400, "bad_parameter", "1 to 1000"),
        ("/api/v1/articles?limit=x", 400, "bad_parameter", "invalid digit"),
        ("/api/v1/articles?limit=1&limit=2", 400, "bad_parameter", "twice"),
        ("/api/v1/articles?cursor=x", 400, "bad_parameter", "no place"),
        ("/api/v1/articles?since=yesterday", 400, "bad_parameter", "RFC 3339"),
        ("/api/v1/articles?source=nobody", 404, "unknown_source", "nobody"),
        ("/api/v1/articles?q=%00", 400, "bad_parameter", "character 0"),
        ("/api/v1/sources/a%00b", 400, "bad_parameter", "character 0"),
        ("/api/v1/articles/zzz", 404, "unknown_article", "no article"),
        ("/api/v1/frontier?sort=name", 400, "bad_parameter", "one of"),
        ("/api/v1/nothing", 404, "unknown_path", "nothing"),
        ("/nothing", 404, "unknown_path", "nothing"),
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{path}");
        assert!(answer.text().contains(words), "{path}: {}", answer.text());
    }
    let wrong = server.ask("PUT", "/api/v1/sources", &[], "").await;
    assert_eq!((wrong.status, wrong.code()), (405, "method_not_allowed".to_owned()));
    assert!(wrong.header("allow").unwrap().contains("POST"), "{wrong:?}");
    for (body, kind, status) in [
        ("{", "application/json", 400),
        ("[]", "application/json", 422),
        (r#"{"url": 3}"#, "application/json", 422),
        (r#"{"url": "a\u0000"}"#, "application/json", 400),
        ("url=x", "application/x-www-form-urlencoded", 415),
    ] {
        let kind = [("content-type", kind)];
        let answer = server.ask("POST", "/api/v1/frontier/submit", &kind, body).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        answer.code();
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_out_of_the_dashboards_files() {
    let world = World::new(1, 1).await;
    let server = Server::start(&world, |_| {}).await;
    let index = server.get("/").await;
    assert_eq!(
        (index.status, index.header("content-type")),
        (200, Some("text/html; charset=utf-8"))
    );
    let policy = index.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert_eq!(server.get("/sources").await.body, index.body);
    assert_eq!(server.get("/assets/favicon.svg").await.status, 200);
    for path in [
        "/assets/../Cargo.toml",
        "/assets/%2e%2e/Cargo.toml",
        "/assets/..%2fCargo.toml",
        "/assets/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/assets//etc/passwd",
        "/assets/%2fetc%2fpasswd",
        "/assets/..\\Cargo.toml",
        "/assets/",
    ] {
        let answer = server.get(path).await;
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
        assert!(
            !answer.text().contains("[workspace]") && !answer.text().contains("root:"),
            "{path}"
        );
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn huge_slow_and_split_requests_are_refused() {
    let world = World::new(1, 1).await;
    let server = Server::start(&world, |config| {
        config.api.max_body = "64KB".parse().unwrap();
        config.api.max_upload = "64KB".parse().unwrap();
        config.api.max_connections = 20;
    })
    .await;
    let huge = json!({ "urls": ["x".repeat(100_000)] });
    let answer = server.send("POST", "/api/v1/frontier/submit/bulk", &huge).await;
    assert_eq!((answer.status, answer.code()), (413, "too_large".to_owned()));
    // A length that is only claimed is refused as well, and so are endless heads.
    let claimed = format!(
        "POST /api/v1/sources/import HTTP/1.1\r\nhost: {}\r\ncontent-length: 99999999\r\nconnection: close\r\n\r\nx",
        server.address
    );
    assert_eq!(server.raw(claimed.as_bytes()).await.status, 413);
    // One read may bring as much again as the most that a head may have.
    let long =
        format!("GET / HTTP/1.1\r\nhost: {}\r\nx: {}\r\n\r\n", server.address, "y".repeat(200_000));
    assert!(matches!(server.raw(long.as_bytes()).await.status, 400 | 431));
    let lines: String = (0..200).map(|n| format!("x-{n}: y\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nhost: {}\r\n{lines}\r\n", server.address);
    assert!(matches!(server.raw(many.as_bytes()).await.status, 400 | 431));

    // Nothing that is sent comes back as a line of an answer's head.
    for path in [
        "/api/v1/sources/a%0d%0aset-cookie:%20x=1",
        "/api/v1/articles.atom?q=%0d%0aset-cookie:%20x=1",
        "/articles.atom?q=%0d%0aset-cookie:%20x=1",
        "/articles.rss?category=%3Cscript%3E%0aX-Evil:%201",
    ] {
        let answer = server.get(path).await;
        assert!(
            answer.header("set-cookie").is_none() && answer.header("x-evil").is_none(),
            "{path}"
        );
    }

    // Those who begin and never end are put out, and others are answered meanwhile.
    let mut slow = Vec::new();
    for _ in 0..10 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: 127").await.unwrap();
        slow.push(stream);
    }
    assert_eq!(server.get("/healthz").await.status, 200);
    let began = Instant::now();
    for mut stream in slow {
        let mut answer = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(40), stream.read_to_end(&mut answer));
        drop(closed.await.expect("put out"));
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_and_other_names_get_nothing() {
    let world = World::new(1, 1).await;
    let server = Server::start(&world, |config| {
        config.api.cors_origins = vec!["https://app.example".to_owned()];
    })
    .await;
    for host in ["evil.example", "evil.example:7171", "127.0.0.1.evil.example", ""] {
        let answer = server.ask("GET", "/api/v1/sources", &[("host", host)], "").await;
        assert_eq!(answer.status, if host.is_empty() { answer.status } else { 421 }, "{host}");
        assert!(answer.status >= 400, "{host}");
    }
    let body = r#"{"url":"https://a.example/x"}"#;
    let post = async |origin: &str| {
        let headers = [("content-type", "application/json"), ("origin", origin)];
        server.ask("POST", "/api/v1/frontier/submit", &headers, body).await
    };
    let stranger = post("https://evil.example").await;
    assert_eq!((stranger.status, stranger.code()), (403, "cross_origin".to_owned()));
    assert_eq!(post("null").await.status, 403);
    assert_eq!(post(&format!("http://{}", server.address)).await.status, 201);
    let friend = post("https://app.example").await;
    assert_eq!(friend.header("access-control-allow-origin"), Some("https://app.example"));
    let look =
        server.ask("GET", "/api/v1/sources", &[("origin", "https://evil.example")], "").await;
    assert_eq!(look.header("access-control-allow-origin"), None);
    assert_eq!((look.status, look.code()), (403, "cross_origin".to_owned()), "nor a look");
    let silent = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")];
    let look = server.ask("GET", "/api/v1/events/stream", &silent, "").await;
    assert_eq!(look.code(), "cross_origin");
    let asked = [("origin", "https://app.example"), ("access-control-request-method", "POST")];
    assert_eq!(server.ask("OPTIONS", "/api/v1/sources", &asked, "").await.status, 204);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_too_often_is_told_when_to_come_back() {
    let world = World::new(1, 1).await;
    let server = Server::start(&world, |config| config.api.rate_limit = 1).await;
    let mut refused = None;
    for _ in 0..30 {
        let answer = server.get("/openapi.json").await;
        if answer.status == 429 {
            refused = Some(answer);
        }
        assert_eq!(server.get("/healthz").await.status, 200, "monitors are not counted");
    }
    let refused = refused.expect("somebody is refused");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_publishers_write_stays_text() {
    let (world, _database) = worlds(1, 1).await.swap_remove(0);
    let server = Server::start(&world, |_| {}).await;
    let evil = "<script>alert(1)</script>\"'&";
    let made = json!({"name": evil, "url": "https://alder.example/", "category": evil});
    assert_eq!(server.send("POST", "/api/v1/sources", &made).await.status, 201);
    let name: String = url::form_urlencoded::byte_serialize(evil.as_bytes()).collect();
    for path in ["/articles.atom", "/articles.rss"] {
        let answer = server.get(&format!("{path}?source={name}&q={name}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(!answer.text().contains("<script>"), "{}", answer.text());
    }
    let shown = server.get(&format!("/api/v1/sources/{}", name.replace('+', "%20"))).await;
    assert_eq!(shown.header("content-type"), Some("application/json"));
    assert_eq!(shown.json()["name"], evil);
    server.stop().await;
}
