//! Every resource, as it is listed, shown and changed.

use serde_json::json;

use super::{Server, first, worlds};

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_is_kept_is_shown() {
    for (world, _database) in worlds(3, 4).await {
        let server = Server::administered(&world, |_| {}).await;
        for list in [
            "sources", "feeds", "entries", "articles", "fetches", "frontier", "hosts", "events",
            "sinks",
        ] {
            let page = server
                .json(&format!("/api/v1/{list}?limit=2").replace("sinks?limit=2", "sinks"))
                .await;
            let items = page["items"].as_array().unwrap();
            assert!(!items.is_empty() && items.len() <= 2, "{list}: {page}");
            let key = match list {
                "hosts" | "sinks" => "name",
                "events" => continue,
                _ => "id",
            };
            let id = items[0][key].as_str().unwrap();
            let written: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
            let path = format!("/api/v1/{list}/{written}");
            let shown = server.get(&path).await;
            assert_eq!(shown.status, 200, "{list}/{id}: {}", shown.text());
            assert_eq!(shown.json()[key], id, "{list}");
            let tag = shown.header("etag").expect("a tag").to_owned();
            // Hosts and sinks move while somebody looks; the others stand still.
            if key == "id" {
                let again = server.ask("GET", &path, &[("if-none-match", &tag)], "").await;
                assert_eq!((again.status, again.body.len()), (304, 0), "{list}");
                let head = server.ask("HEAD", &path, &[], "").await;
                assert_eq!((head.status, head.body.len()), (200, 0), "{list}");
                assert_eq!(head.header("etag"), Some(tag.as_str()), "{list}");
                let length = shown.body.len().to_string();
                assert_eq!(head.header("content-length"), Some(length.as_str()), "{list}");
            }
        }
        let source = first(&server, "/api/v1/sources", "id").await;
        let feed = first(&server, "/api/v1/feeds?kind=feed", "id").await;
        let article = first(&server, "/api/v1/articles", "id").await;
        for path in [
            format!("sources/{source}/entries"),
            format!("sources/{source}/articles"),
            format!("feeds/{feed}/entries?since=2000-01-01T00:00:00Z"),
            format!("feeds/{feed}/series?days=2"),
            format!("articles/{article}/revisions"),
            format!("articles/{article}/revisions/1"),
            format!("articles/{article}/duplicates"),
            "sources/standings".into(),
            "frontier/stats?top=3".into(),
            "frontier?offset=1&limit=2&sort_by=priority".into(),
            "frontier?count=true&status=fetched,dead".into(),
            "hosts/optouts".into(),
            "stats".into(),
            "stats/series?hours=2".into(),
            "stats/top?by=feeds".into(),
            "stats/top?by=codes".into(),
            "stats/top?by=hosts".into(),
            "config".into(),
            format!("explain?q={source}"),
            "me".into(),
            "audit".into(),
            "tokens".into(),
        ] {
            server.json(&format!("/api/v1/{path}")).await;
        }
        let stats = server.json("/api/v1/stats").await;
        assert!(stats["totals"]["articles"].as_u64().unwrap() >= 12, "{stats}");
        assert!(stats["slo"]["fetch_p99_ms"].as_u64().is_some(), "{stats}");
        assert!(stats["slo"]["feeds"].as_u64().unwrap() >= 3, "{stats}");
        let series = server.json("/api/v1/stats/series?hours=24").await;
        let polls: u64 = series["points"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["polls"].as_u64().unwrap())
            .sum();
        assert_eq!(Some(polls), stats["slo"]["fetches_day"].as_u64(), "{series}");

        let html = server.get(&format!("/api/v1/articles/{article}/html")).await;
        assert!(html.header("content-security-policy").unwrap().contains("sandbox"));
        assert!(html.text().contains("<p>"), "{}", html.text());
        let markdown = server.get(&format!("/api/v1/articles/{article}/markdown")).await;
        assert_eq!(markdown.status, 200);
        assert!(!markdown.text().contains("<p>"));
        let ready = server.json("/readyz").await;
        assert_eq!(ready["ready"], true, "{ready}");
        assert_eq!(server.get("/healthz").await.status, 200);
        let metrics = server.get("/metrics").await;
        assert!(metrics.text().ends_with("# EOF\n"), "{}", metrics.text());
        assert!(server.get("/bot").await.text().contains("robots.txt"));
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_bytes_are_what_came_and_only_bytes() {
    let (world, _database) = worlds(1, 2).await.swap_remove(0);
    let server = Server::start(&world, |_| {}).await;
    let lists = server.json("/api/v1/fetches?limit=100").await;
    let page = lists["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["kept"] == true && it["status"] == 200);
    let id = page.unwrap()["id"].as_str().unwrap();
    let raw = server.get(&format!("/api/v1/fetches/{id}/body")).await;
    assert_eq!(raw.header("content-type"), Some("application/octet-stream"));
    assert_eq!(raw.header("x-content-type-options"), Some("nosniff"));
    assert!(raw.header("content-disposition").unwrap().starts_with("attachment"));
    assert_eq!(raw.body.len() as u64, page.unwrap()["bytes"].as_u64().unwrap());
    for alias in [format!("/raw/{id}"), format!("/api/v1/raw/{id}")] {
        assert_eq!(server.get(&alias).await.body, raw.body);
    }
    let shown = server.json(&format!("/api/v1/fetches/{id}")).await;
    assert!(shown["request"]["line"].as_str().unwrap().starts_with("GET "), "{shown}");
    assert!(shown["response"]["headers"].as_array().unwrap().len() > 1, "{shown}");
    let none = server.get("/api/v1/fetches/00000000-0000-0000-0000-000000000000/body").await;
    assert_eq!((none.status, none.code()), (404, "unknown_fetch".to_owned()));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_is_made_changed_and_forgotten() {
    for (world, _database) in worlds(1, 1).await {
        let server = Server::start(&world, |_| {}).await;
        let made = json!({"name": "alder", "url": "https://alder.example/", "feed_url": "https://alder.example/feed",
            "category": "news", "tags": ["a", "b"], "rate_limit": "2s"});
        let answer = server.send("POST", "/api/v1/sources", &made).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let (view, place) = (answer.json(), answer.header("location").unwrap().to_owned());
        assert_eq!(view["rate_limit_ms"], 2000);
        assert_eq!(view["standing"], "never_fetched");
        let twice = server.send("POST", "/api/v1/sources", &made).await;
        assert_eq!((twice.status, twice.code()), (409, "name_taken".to_owned()));

        let shown = server.get(&place).await;
        let tag = shown.header("etag").unwrap().to_owned();
        let patch =
            json!({"priority": 9, "category": null, "selectors": {"title": "h1"}}).to_string();
        let kind = ("content-type", "application/json");
        let changed = server.ask("PATCH", &place, &[kind, ("if-match", &tag)], &patch).await;
        assert_eq!(changed.status, 200, "{}", changed.text());
        let changed = changed.json();
        assert_eq!((&changed["priority"], &changed["category"]), (&json!(9), &json!(null)));
        assert_eq!(changed["tags"], json!(["a", "b"]), "what is not named stays");
        let late = server.ask("PATCH", &place, &[kind, ("if-match", &tag)], &patch).await;
        assert_eq!((late.status, late.code()), (412, "changed".to_owned()));
        // What is shown can be sent back as it is.
        let whole = server.json(&place).await;
        assert_eq!(server.send("PATCH", &place, &whole).await.status, 200);

        for (body, field) in [
            (json!({"priority": 11}), "priority"),
            (json!({"rate_limit": "soon"}), "rate_limit"),
            (json!({"colour": "red"}), "colour"),
            (json!({"url": "ftp://x.example/"}), "url"),
            (json!({"feed_urls": ["http://127.0.0.1/x"]}), "url"),
        ] {
            let refused = server.send("PATCH", &place, &body).await;
            assert_eq!(refused.status, 422, "{body}: {}", refused.text());
            assert_eq!(refused.json()["errors"][0]["field"], field, "{}", refused.text());
        }
        let off =
            server.send("POST", &format!("{place}/disable"), &json!({"reason": "too loud"})).await;
        assert_eq!(off.json()["disable_reason"], "too loud", "{}", off.text());
        assert_eq!(
            server.json("/api/v1/sources?enabled=false&q=ALDER").await["items"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        let on = server.ask("POST", &format!("{place}/enable"), &[], "").await;
        assert_eq!(on.json()["enabled"], true, "{}", on.text());
        let nudged = server.ask("POST", &format!("{place}/refetch"), &[], "").await;
        assert_eq!((nudged.status, nudged.json()), (202, json!({"tasks": 1})));

        let feed = server
            .send(
                "POST",
                "/feeds",
                &json!({"url": "https://alder.example/more.xml", "source": "alder"}),
            )
            .await;
        assert_eq!(feed.status, 201, "{}", feed.text());
        let feed = feed.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(server.json("/feeds?source=alder").await["items"].as_array().unwrap().len(), 2);
        assert_eq!(server.ask("DELETE", &format!("/feeds/{feed}"), &[], "").await.status, 204);
        assert_eq!(server.json(&place).await["feed_urls"], json!(["https://alder.example/feed"]));

        let gone = server.ask("DELETE", &format!("{place}?articles=true"), &[], "").await;
        assert_eq!((gone.status, gone.json()["withdrawn"].as_u64()), (200, Some(0)));
        assert_eq!(server.get(&place).await.status, 404);
        let book = feedmill::store::gate::audit(&*world.store, None, 1).await.unwrap();
        assert_eq!((&*book[0].method, &*book[0].who), ("DELETE", "local"));
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_rehearsed_imported_and_exported() {
    let (world, _database) = worlds(1, 1).await.swap_remove(0);
    let server = Server::start(&world, |_| {}).await;
    let list = "https://one.example/feed\nhttps://two.example/feed\nnonsense\n";
    let kind = [("content-type", "text/plain")];
    let dry = server.ask("POST", "/api/v1/sources/import?dry_run=true", &kind, list).await.json();
    assert_eq!((dry["added"].as_u64(), dry["refused"].as_u64()), (Some(2), Some(1)), "{dry}");
    assert_eq!(server.json("/api/v1/sources?q=one.example").await["items"], json!([]));
    let done = server.ask("POST", "/api/v1/sources/import?format=urls", &kind, list).await.json();
    assert_eq!(done["added"], 2, "{done}");
    assert_eq!(server.ask("POST", "/api/v1/sources/import", &kind, list).await.json()["known"], 2);
    for format in ["opml", "csv", "json", "urls"] {
        let text = server.get(&format!("/api/v1/sources/export?format={format}")).await.text();
        assert!(text.contains("https://one.example/feed"), "{format}: {text}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_are_submitted_retried_and_forgotten() {
    for (world, _database) in worlds(1, 1).await {
        let server = Server::start(&world, |_| {}).await;
        let new = json!({"url": "https://far.example/a", "priority": 0});
        let answer = server.send("POST", "/api/v1/frontier/submit", &new).await;
        assert_eq!(
            (answer.status, &answer.json()["result"]),
            (201, &json!("new")),
            "{}",
            answer.text()
        );
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(
            server.send("POST", "/api/v1/frontier/submit", &new).await.json()["result"],
            "known"
        );
        let refused =
            server.send("POST", "/api/v1/frontier/submit", &json!({"url": "mailto:x"})).await;
        assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (422, &json!("url")));
        let private = json!({"url": "http://169.254.169.254/latest"});
        let refused = server.send("POST", "/api/v1/frontier/submit", &private).await;
        assert_eq!((refused.status, &*refused.code()), (422, "refused_address"));
        assert!(refused.text().contains("is not a public address"), "{}", refused.text());
        let nobody = json!({"url": "https://far.example/b", "source": "nobody"});
        assert_eq!(
            server.send("POST", "/api/v1/frontier/submit", &nobody).await.code(),
            "unknown_source"
        );

        let far = ["https://far.example/b", "https://far.example/a"];
        let bulk = json!({"urls": [far[0], "http://127.0.0.1/", far[1], "x"]});
        let report = server.send("POST", "/api/v1/frontier/submit/bulk", &bulk).await.json();
        assert_eq!((&report["new"], &report["known"]), (&json!(1), &json!(1)), "{report}");
        let rejected = |at: usize| (&report["rejected"][at]["at"], &report["rejected"][at]["code"]);
        assert_eq!(rejected(0), (&json!(1), &json!("refused_address")), "{report}");
        assert_eq!(rejected(1), (&json!(3), &json!("url_malformed")), "{report}");
        let lines =
            "\"https://far.example/c\"\n{\"url\":\"https://far.example/d\",\"priority\":9}\n\n";
        let kind = [("content-type", "application/x-ndjson")];
        let report = server.ask("POST", "/api/v1/frontier/submit/bulk", &kind, lines).await.json();
        assert_eq!(report["new"], 2, "{report}");

        let listed = server.json("/api/v1/frontier?host=far.example&sort=-priority").await;
        assert_eq!(listed["items"].as_array().unwrap().len(), 4);
        assert_eq!(listed["items"][0]["priority"], 9);
        let path = format!("/api/v1/frontier/{id}");
        let again = server.ask("POST", &format!("{path}/retry"), &[], "").await;
        assert_eq!(again.status, 200, "{}", again.text());
        assert_eq!(server.ask("DELETE", &path, &[], "").await.status, 204);
        assert_eq!(server.ask("DELETE", &path, &[], "").await.status, 404);
        let nothing = server.send("POST", "/api/v1/frontier/delete", &json!({})).await;
        assert_eq!((nothing.status, nothing.code()), (422, "nothing_selected".to_owned()));
        // An empty text is in every address, and nobody means all of them.
        let nothing = json!({"search": "", "host": ""});
        let nothing = server.send("POST", "/api/v1/frontier/delete", &nothing).await;
        assert_eq!((nothing.status, nothing.code()), (422, "nothing_selected".to_owned()));
        let dry = json!({"host": "far.example", "dry_run": true});
        let dry = server.send("POST", "/api/v1/frontier/delete", &dry).await.json();
        assert_eq!(dry, json!({"done": 3, "spared": 0, "dry_run": true}));
        let swept =
            server.send("POST", "/api/v1/frontier/delete", &json!({"host": "far.example"})).await;
        assert_eq!(swept.json()["done"], 3);
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_sinks_and_settings_do_as_they_are_told() {
    let (world, _database) = worlds(1, 1).await.swap_remove(0);
    let server = Server::administered(&world, |_| {}).await;
    let host = first(&server, "/api/v1/hosts?limit=1", "name").await;
    let path = format!("/api/v1/hosts/{host}");
    let slow = server.send("PATCH", &path, &json!({"delay": "10s"})).await.json();
    assert_eq!(slow["pause_ms"], 10_000, "{slow}");
    let blocked = server.ask("POST", &format!("{path}/block"), &[], "").await.json();
    assert_eq!(blocked["blocked_forever"], true, "{blocked}");
    assert_eq!(server.json("/api/v1/hosts/optouts").await["items"][0]["name"], host.as_str());
    let free = server.ask("POST", &format!("{path}/unblock"), &[], "").await.json();
    assert_eq!(free["blocked_until"], json!(null), "{free}");
    let asked = server.json(&format!("{path}/requests")).await;
    assert!(asked["days"][0]["requests"].as_u64().unwrap() > 0, "{asked}");
    let past = json!({"until": "2001-01-01T00:00:00Z"});
    assert_eq!(server.send("POST", &format!("{path}/block"), &past).await.code(), "time_passed");
    assert_eq!(server.send("PATCH", "/api/v1/hosts/nobody", &json!({})).await.status, 404);

    let paused = server.ask("POST", "/api/v1/sinks/ndjson/pause", &[], "").await.json();
    assert_eq!(paused["state"], "paused", "{paused}");
    let replayed =
        server.send("POST", "/api/v1/sinks/ndjson/replay", &json!({"from": "beginning"})).await;
    assert_eq!(replayed.json()["seq"], 0, "{}", replayed.text());
    let resumed = server.ask("POST", "/api/v1/sinks/ndjson/resume", &[], "").await.json();
    assert_eq!(resumed["state"], "ok", "{resumed}");
    assert_eq!(server.ask("POST", "/api/v1/sinks/ndjson/test", &[], "").await.json()["ok"], true);
    assert_eq!(server.ask("POST", "/api/v1/sinks/ndjson/retry", &[], "").await.json()["events"], 0);
    assert_eq!(server.json("/api/v1/sinks/ndjson/dead_letters").await["items"], json!([]));
    assert_eq!(
        server.ask("DELETE", "/api/v1/sinks/ndjson", &[], "").await.code(),
        "sink_configured"
    );

    let key = "/api/v1/config/schedule.default_interval";
    let set = server.send("PUT", key, &json!({"value": "30m"})).await;
    assert_eq!(set.status, 200, "{}", set.text());
    assert_eq!(server.ask("DELETE", key, &[], "").await.status, 204);
    assert_eq!(server.ask("DELETE", key, &[], "").await.code(), "not_set");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_goes_by_both_of_its_ids() {
    for (world, _database) in worlds(2, 2).await {
        let server = Server::start(&world, |_| {}).await;
        let entry = server.json("/api/v1/entries?limit=1").await["items"][0].clone();
        let uid: String =
            url::form_urlencoded::byte_serialize(entry["uid"].as_str().unwrap().as_bytes())
                .collect();
        let by_uid = server.json(&format!("/entries/{uid}")).await;
        assert_eq!(by_uid["id"], entry["id"]);
        let missing = server.get("/entries/nobody-has-this").await;
        assert_eq!((missing.status, missing.code()), (404, "unknown_entry".to_owned()));
        server.stop().await;
    }
}

#[test]
fn the_committed_document_is_the_served_one() {
    let committed = include_str!("../../../docs/openapi.json");
    assert_eq!(
        committed,
        feedmill::api::openapi(),
        "write it anew: cargo run -q -- api openapi > docs/openapi.json"
    );
}
