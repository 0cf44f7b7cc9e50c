//! What nobody but an administrator, and nothing but the configuration file, may change.

use feedmill::config::{LoadOptions, load, show_json};
use feedmill::model::{Access, NewSource, Secret};
use feedmill::store::gate::Scope;
use serde_json::{Value, json};

use super::{Answer, Server, new_worlds, token};
use crate::support::World;

/// A server, and somebody with a token.
struct Caller<'a> {
    server: &'a Server,
    bearer: String,
}

impl Caller<'_> {
    async fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers =
            [("content-type", "application/json"), ("authorization", self.bearer.as_str())];
        self.server.ask(method, path, &headers, &body.to_string()).await
    }
}

async fn caller<'a>(server: &'a Server, world: &World, scope: Scope, seed: u8) -> Caller<'a> {
    let token = token(world, scope.as_str(), scope, seed).await;
    Caller { server, bearer: format!("Bearer {token}") }
}

#[tokio::test(flavor = "multi_thread")]
async fn how_a_source_is_asked_is_set_by_administrators_only() {
    for (world, _database) in new_worlds(1, 1).await {
        let server = Server::start(&world, |_| {}).await;
        let writer = caller(&server, &world, Scope::Write, 1).await;
        let admin = caller(&server, &world, Scope::Admin, 2).await;
        let url = "https://alder.example/feed";
        for access in [
            json!({"proxy": "http://proxy.example:3128"}),
            json!({"bind": ["192.0.2.1"]}),
            json!({"cookie": "id=1"}),
            json!({"headers": {"x-key": "1"}}),
            json!({"auth": {"bearer": "abc"}}),
        ] {
            // Whatever the field is called, and whoever is trusted to write.
            for field in ["access", "Access", " ACCESS "] {
                let made = json!({"name": "alder", "feed_urls": [url], field: access});
                let told = writer.send("POST", "/api/v1/sources", &made).await;
                assert_eq!((told.status, &*told.code()), (403, "forbidden"), "{made}");
                assert_eq!(told.json()["errors"][0]["field"], "access");
                let local = server.send("POST", "/api/v1/sources", &made).await;
                assert_eq!(local.status, 403, "{made}");
            }
        }
        let made = json!({"name": "alder", "feed_urls": [url], "user_agent": "Alder/1"});
        assert_eq!(writer.send("POST", "/api/v1/sources", &made).await.status, 201);
        let place = "/api/v1/sources/alder";
        let proxied = json!({"access": {"proxy": "http://proxy.example:3128"}});
        assert_eq!(writer.send("PATCH", place, &proxied).await.status, 403);

        // An administrator may, but not into a private network.
        for proxy in [
            "http://169.254.169.254",
            "http://10.0.0.1:3128",
            "http://2130706433:8080",
            "http://0177.0.0.1:8080",
            "socks5://0x7f.1:1080",
            "socks5h://[::ffff:10.0.0.1]:1080",
            "https://localhost:8443",
        ] {
            let told = admin.send("PATCH", place, &json!({"access": {"proxy": proxy}})).await;
            assert_eq!((told.status, &*told.code()), (422, "refused_proxy"), "{proxy}");
        }
        let secret = json!({"access": {"proxy": "http://proxy.example:3128", "cookie": "id=1"}});
        assert_eq!(admin.send("PATCH", place, &secret).await.status, 200);

        // Everyday changes go on, and the cookie stays where it was given for.
        assert_eq!(writer.send("PATCH", place, &json!({"category": "ships"})).await.status, 200);
        for elsewhere in [
            json!({"url": "https://evil.example/"}),
            json!({"feed_urls": [url, "https://alder.example:8443/feed"]}),
            json!({"access": null}),
        ] {
            let told = writer.send("PATCH", place, &elsewhere).await;
            assert_eq!((told.status, &*told.code()), (403, "forbidden"), "{elsewhere}");
        }
        let feed = json!({"source": "alder", "url": "https://alder.example:8443/more"});
        assert_eq!(writer.send("POST", "/api/v1/feeds", &feed).await.status, 403);
        let moved = json!({"url": "https://www.alder.example/"});
        assert_eq!(admin.send("PATCH", place, &moved).await.status, 200);
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_list_never_says_how_sources_are_asked() {
    let (world, _database) = new_worlds(1, 1).await.swap_remove(0);
    let server = Server::start(&world, |_| {}).await;
    let admin = caller(&server, &world, Scope::Admin, 1).await;
    let evil = json!({
        "proxy": "http://169.254.169.254", "bind": ["127.0.0.1"], "cookie": "id=1",
        "user_agent": "Alder/1",
    });
    let list = json!([{"name": "alder", "feed_url": "https://alder.example/feed", "access": evil}]);
    let done = admin.send("POST", "/api/v1/sources/import?format=json", &list).await;
    assert_eq!(done.json()["added"], 1, "{}", done.text());
    assert!(done.json()["notes"][0].as_str().unwrap().contains("`access` is ignored"));
    let table = "name,feed_url,access\nbirch,https://birch.example/feed,\"{\"\"proxy\"\":\"\"http://10.0.0.1\"\"}\"\n";
    let kind = [("content-type", "text/csv")];
    let done = server.ask("POST", "/api/v1/sources/import?format=csv", &kind, table).await;
    assert_eq!(done.json()["added"], 1, "{}", done.text());
    assert!(done.json()["notes"][0].as_str().unwrap().contains("`access` is ignored"));
    for name in ["alder", "birch"] {
        let (source, _) = world.store.source(name).await.unwrap();
        let agent = source.spec.access.user_agent.clone();
        assert_eq!(agent.is_some(), name == "alder");
        let access = Access { user_agent: agent, ..Access::default() };
        assert_eq!(source.spec.access, access, "{name}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_from_before_is_not_shown_to_whoever_may_write() {
    let (world, _database) = new_worlds(1, 1).await.swap_remove(0);
    let server = Server::start(&world, |_| {}).await;
    let cookie = Some(Secret::from("id=hunter2".to_owned()));
    let access = Access { cookie, ..Access::default() };
    let spec = NewSource { access, ..NewSource::new("alder", "https://alder.example/") };
    world.store.add_source(spec).await.unwrap();
    let shown = server.get("/api/v1/sources/alder").await;
    assert!(shown.status == 200 && !shown.text().contains("hunter2"), "{}", shown.text());
    // Sending back what was shown would replace the secret by its mask.
    let back = json!({"access": shown.json()["access"]});
    assert_eq!(server.send("PATCH", "/api/v1/sources/alder", &back).await.status, 403);
    server.stop().await;
}

/// Keys that widen access, name files, or hold addresses with credentials.
const FILE_ONLY: &[(&str, &str)] = &[
    ("sources.manager.token_file", "/etc/hostname"),
    ("sources.manager.url", "http://10.0.0.1/"),
    ("database.url_file", "/etc/hostname"),
    ("fetch.allow_networks", "0.0.0.0/0"),
    ("fetch.proxy", "http://10.0.0.1:3128"),
    ("fetch.proxy_file", "/etc/hostname"),
    ("fetch.resolve", "news.example=127.0.0.1:80"),
    ("fetch.bind", "127.0.0.1"),
    ("api.open_on_loopback", "true"),
    ("api.socket", "/tmp/api.sock"),
    ("api.cors_origins", "https://evil.example"),
    ("trace.endpoint", "http://10.0.0.1:4318"),
    ("archive.dir", "/tmp"),
    ("data_dir", "/tmp"),
    ("sinks.ndjson.dir", "/tmp"),
    ("sinks.new.kind", "webhook"),
];

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_widen_access_are_not_changed_through_the_api() {
    let (world, _database) = new_worlds(1, 1).await.swap_remove(0);
    let server = Server::start(&world, |_| {}).await;
    let admin = caller(&server, &world, Scope::Admin, 1).await;
    for (key, value) in FILE_ONLY {
        let path = format!("/api/v1/config/{key}");
        let told = admin.send("PUT", &path, &json!({"value": value})).await;
        assert_eq!((told.status, &*told.code()), (403, "file_only"), "{key}: {}", told.text());
        let problem = told.json();
        assert_eq!(problem["errors"][0]["field"], *key);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(key) && detail.contains("configuration file"), "{detail}");
    }
    assert!(world.store.settings().await.unwrap().is_empty(), "nothing is kept");
    let set = admin
        .send("PUT", "/api/v1/config/schedule.default_interval", &json!({"value": "30m"}))
        .await;
    assert_eq!(set.status, 200, "{}", set.text());
    let shown = server.json("/api/v1/config").await;
    let change = |key: &str| {
        let all = shown["values"].as_array().unwrap();
        all.iter().find(|one| one["key"] == key).unwrap()["change"].clone()
    };
    assert_eq!(change("schedule.default_interval"), "running");
    assert_eq!(change("normalize.tracking"), "at_start");
    assert_eq!(change("fetch.proxy"), "file_only");
    server.stop().await;
}

#[test]
fn settings_from_before_that_widen_access_are_ignored() {
    let kept = |key: &str, value: &str| {
        let kept = vec![(key.to_owned(), value.to_owned())];
        load(&LoadOptions { kept, ..LoadOptions::default() }).unwrap()
    };
    for (key, value) in FILE_ONLY {
        let loaded = kept(key, value);
        assert!(loaded.warnings[0].contains(key), "{key}: {:?}", loaded.warnings);
        assert!(loaded.warnings[0].contains("configuration file"), "{key}");
        let plain = load(&LoadOptions::default()).unwrap();
        assert_eq!(show_json(&loaded)["config"], show_json(&plain)["config"], "{key}");
    }
    let loaded = kept("schedule.default_interval", "30m");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert_eq!(show_json(&loaded)["config"]["schedule"]["default_interval"], "30m");
}
