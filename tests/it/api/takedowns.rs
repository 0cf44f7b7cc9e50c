//! Takedowns over HTTP: only for administrators, on the record, and for good until they are lifted.

use feedmill::store::gate::Scope;
use serde_json::{Value, json};

use super::{Answer, Server, first, token, worlds};

/// Somebody with a token.
struct Asker<'a> {
    server: &'a Server,
    bearer: String,
}

impl Asker<'_> {
    async fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [("authorization", &*self.bearer), ("content-type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.server.ask(method, &format!("/api/v1/{path}"), &headers, &body).await
    }

    async fn down(&self, body: Value) -> Answer {
        self.ask("POST", "takedowns", &body).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_down_goes_and_is_refused_until_that_is_lifted() {
    for (world, _database) in worlds(3, 4).await {
        let server = Server::administered(&world, |_| {}).await;
        let secret = token(&world, "press office", Scope::Admin, 3).await;
        let admin = Asker { server: &server, bearer: format!("Bearer {secret}") };
        let url = first(&server, "/api/v1/articles", "url").await;
        let before = server.json("/api/v1/stats").await["totals"]["articles"].as_u64().unwrap();

        let told = admin.down(json!({"what": url})).await;
        assert_eq!((told.status, &*told.code()), (422, "no_reason"));
        let told = admin.down(json!({"what": "nothing", "why": "x"})).await;
        assert_eq!((told.status, &*told.code()), (422, "unknown_target"));
        let would = admin.down(json!({"what": url, "dry_run": true})).await;
        assert_eq!((would.status, &would.json()["articles"]), (200, &json!(1)));
        assert_eq!(server.get(&format!("/api/v1/articles?q=&limit={before}")).await.status, 200);
        assert_eq!(server.json("/api/v1/takedowns").await["items"], json!([]));

        let done = admin.down(json!({"what": url, "why": "ticket 812"})).await;
        assert_eq!(done.status, 201, "{}", done.text());
        let done = done.json();
        assert_eq!((&done["by"], &done["why"]), (&json!("press office"), &json!("ticket 812")));
        assert_eq!((&done["scope"], &done["bytes"]), (&json!("address"), &json!("gone")));
        let quoted = url::form_urlencoded::byte_serialize(url.as_bytes()).collect::<String>();
        assert_eq!(server.get(&format!("/api/v1/articles/{quoted}")).await.status, 404);
        let again = server.send("POST", "/api/v1/frontier/submit", &json!({"url": url})).await;
        assert_eq!((again.status, &*again.code()), (422, "withdrawn"));

        let lifted = admin.ask("DELETE", &format!("takedowns/{quoted}"), &Value::Null).await;
        assert_eq!(lifted.status, 200, "{}", lifted.text());
        assert_eq!(lifted.json()["lifted_by"], "press office");
        let twice = admin.ask("DELETE", &format!("takedowns/{quoted}"), &Value::Null).await;
        assert_eq!((twice.status, &*twice.code()), (404, "not_withdrawn"));
        let again = server.send("POST", "/api/v1/frontier/submit", &json!({"url": url})).await;
        assert_eq!(again.status, 201, "{}", again.text());
        let audit = server.json("/api/v1/audit").await;
        let by =
            audit["items"].as_array().unwrap().iter().filter(|one| one["who"] == "press office");
        assert!(by.count() >= 5, "{audit}");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn takedowns_are_listed_and_hosts_among_the_opt_outs() {
    for (world, _database) in worlds(2, 2).await {
        let server = Server::administered(&world, |_| {}).await;
        let hosts = ["a.example", "c.example", "never.seen.example", "z.example"];
        for host in hosts {
            let body = json!({"what": host, "why": "asked to", "by": "its owner"});
            assert_eq!(server.send("POST", "/api/v1/takedowns", &body).await.status, 201);
        }
        for host in ["b.example", "c.example", "d.example"] {
            let path = format!("/api/v1/hosts/{host}/block");
            assert_eq!(server.ask("POST", &path, &[], "").await.status, 200);
        }
        let path = "/api/v1/hosts/e.example/block";
        let hour = json!({"for": "1h"});
        assert_eq!(server.send("POST", path, &hour).await.status, 200);

        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.json(&format!("/api/v1/hosts/optouts?limit=2{cursor}")).await;
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 2);
            seen.extend(items.iter().map(|one| {
                let name = one["name"].as_str().unwrap().to_owned();
                (name, one["kind"].as_str().unwrap().to_owned(), one["by"].clone())
            }));
            let Some(next) = page["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        let down = |name: &str| (name.to_owned(), "taken_down".to_owned(), json!("its owner"));
        let blocked = |name: &str| (name.to_owned(), "blocked".to_owned(), Value::Null);
        let expected = [
            down("a.example"),
            blocked("b.example"),
            down("c.example"),
            blocked("d.example"),
            down("never.seen.example"),
            down("z.example"),
        ];
        assert_eq!(seen, expected);

        let lines = [("accept", "application/x-ndjson")];
        let all = server.ask("GET", "/api/v1/takedowns?limit=3", &lines, "").await;
        assert_eq!(all.text().lines().count(), 3);
        let page = server.json("/api/v1/takedowns?limit=3").await;
        let rest = page["next"].as_str().unwrap();
        let rest = server.json(&format!("/api/v1/takedowns?limit=3&cursor={rest}")).await;
        let items = [&page, &rest].map(|page| page["items"].as_array().unwrap().clone()).concat();
        let mut names: Vec<&str> =
            items.iter().map(|one| one["target"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!((names.as_slice(), &rest["next"]), (hosts.as_slice(), &Value::Null));
        server.stop().await;
    }
}
