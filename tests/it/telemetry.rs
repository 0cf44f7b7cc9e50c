//! What the process tells of its own work: spans that a collector gets, and log lines in the words that
//! others' dashboards read. No secret is in any of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use feedmill::model::{Access, Auth, NewSource, Secret};
use feedmill_newsroom::{Fault, Script, Span as Until};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kill::{command, terminate};
use crate::support::{Engine, LIMIT, World, until};

const STEPS: [&str; 7] = ["schedule", "claim", "request", "archive", "handle", "commit", "deliver"];

/// A collector of spans that understands OTLP over HTTP.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    async fn listen(self, listener: TcpListener, stop: CancellationToken) {
        let clients = TaskTracker::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                client = listener.accept() => {
                    let (collector, (socket, _)) = (self.clone(), client.unwrap());
                    clients.spawn(async move { collector.take(socket).await });
                }
            }
        }
    }

    /// Takes requests from one connection until it ends.
    async fn take(&self, socket: TcpStream) -> Option<()> {
        let mut socket = BufReader::new(socket);
        loop {
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let mut line = String::new();
                if socket.read_line(&mut line).await.ok()? == 0 {
                    return None;
                }
                if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = said.trim().parse().unwrap();
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            socket.read_exact(&mut body).await.ok()?;
            let sent = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
            let scopes = sent.resource_spans.into_iter().flat_map(|of| of.scope_spans);
            self.spans.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
            self.heads.lock().unwrap().push(head);
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
            socket.write_all(answer.as_bytes()).await.ok()?;
        }
    }

    /// The root and the steps of a trace that has all of them.
    fn whole(&self) -> Option<(Span, Vec<Span>)> {
        let mut traces: BTreeMap<Vec<u8>, Vec<Span>> = BTreeMap::new();
        for span in self.spans.lock().unwrap().iter() {
            traces.entry(span.trace_id.clone()).or_default().push(span.clone());
        }
        traces.into_values().find_map(|mut spans| {
            let root = spans.iter().position(|span| span.name == "task")?;
            let root = spans.swap_remove(root);
            let has = |step: &str| spans.iter().any(|span| span.name == step);
            STEPS.iter().all(|step| has(step)).then_some((root, spans))
        })
    }
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        other => Some(format!("{other:?}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_sees_every_step_of_a_task_under_one_span() {
    let world = World::new(2, 3).await;
    world.follow().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("trace.endpoint=http://{}", listener.local_addr().unwrap());
    let (collector, stop, tracker) =
        (Collector::default(), CancellationToken::new(), TaskTracker::new());
    tracker.spawn(collector.clone().listen(listener, stop.clone()));

    let more = [&endpoint, "trace.sample_ratio=1", "trace.headers=authorization: Bearer hunter2"];
    let command = command(&world, &world.config.data_dir, None, &more);
    let mut engine = Engine::start(command, world.dir().join("said"));
    until("a whole trace", || async { collector.whole().is_some() }).await;
    assert!(terminate(&mut engine.child));
    let (root, steps) = collector.whole().unwrap();
    assert!(root.parent_span_id.is_empty(), "a task is the root of its trace");
    for step in &steps {
        assert_eq!(step.parent_span_id, root.span_id, "{} is a step of the task", step.name);
        assert!(step.end_time_unix_nano >= step.start_time_unix_nano, "{}", step.name);
    }
    for name in ["task", "url_hash", "host", "source", "kind", "code"] {
        assert!(attribute(&root, name).is_some_and(|value| !value.is_empty()), "{name}: {root:?}");
    }
    let request = steps.iter().find(|step| step.name == "request").unwrap();
    assert_eq!(attribute(request, "status").as_deref(), Some("200"));
    let deliver = steps.iter().find(|step| step.name == "deliver").unwrap();
    assert!(attribute(deliver, "sink").is_some(), "{deliver:?}");

    let heads = collector.heads.lock().unwrap().clone();
    assert!(heads.iter().all(|head| head.starts_with("POST /v1/traces ")), "{heads:?}");
    assert!(heads.iter().all(|head| head.contains("Bearer hunter2")), "{heads:?}");
    let spans = format!("{:?}", collector.spans.lock().unwrap());
    assert!(!spans.contains("http://") && !spans.contains("hunter2"), "addresses may hold tokens");
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_holds_nothing_up_and_is_told_of_once() {
    let world = World::new(2, 3).await;
    world.follow().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let endpoint = format!("trace.endpoint=http://ann:hunter2@{closed}");
    let command =
        command(&world, &world.config.data_dir, None, &[&endpoint, "trace.sample_ratio=1"]);
    let said = world.dir().join("said");
    let mut engine = Engine::start(command, said.clone());
    engine.says("spans cannot be sent to their collector").await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    until("all articles", || async { world.store.totals().await.unwrap().articles == published })
        .await;
    // The last batch fails as well.
    let began = Instant::now();
    assert!(terminate(&mut engine.child));
    assert!(began.elapsed() < LIMIT / 4, "it ended after {:?}", began.elapsed());
    let said = std::fs::read_to_string(said).unwrap();
    assert_eq!(said.matches("spans cannot be sent").count(), 1, "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

/// A feed of two stories, one of which is no page.
async fn press() -> World {
    let world = World::new(2, 1).await;
    let item = |n: u8| {
        format!(
            "<item><guid>{n}</guid><title>Item {n}</title>\
             <link>http://press.newsroom.test/story/{n}</link></item>"
        )
    };
    let feed = format!(
        "<rss version=\"2.0\"><channel><title>P</title>{}{}</channel></rss>",
        item(1),
        item(2)
    );
    let text =
        "The council met on Monday and talked for a long time about the new bridge. ".repeat(8);
    let page = format!(
        "<!doctype html><html><body><article><h1>A story</h1><p>{text}</p></article></body></html>"
    );
    for (path, body) in [("/feed", feed), ("/story/1", page), ("/story/2", "<p>no</p>".to_owned())]
    {
        let script = Script { status: 200, headers: Vec::new(), body: body.into(), cut: false };
        world.newsroom.misbehave(
            "press.newsroom.test",
            path,
            Fault::Scripted(script),
            Until::Always,
        );
    }
    let url = "http://press.newsroom.test/feed";
    let header = ("x-key".to_owned(), Secret::from("hunter2-header".to_owned()));
    let auth =
        Auth::Basic { user: "ann".into(), password: Secret::from("hunter2-basic".to_owned()) };
    let access = Access { headers: [header].into(), auth: Some(auth), ..Access::default() };
    let source = NewSource { feed_urls: vec![url.into()], access, ..NewSource::new("press", url) };
    world.store.add_source(source).await.unwrap();
    world
}

/// What an engine says until it says this.
async fn said(world: &World, more: &[&str], last: &[&str]) -> String {
    let command = command(world, &world.config.data_dir, None, more);
    let said = world.dir().join("said");
    let mut engine = Engine::start(command, said.clone());
    for line in last {
        engine.says(line).await;
    }
    assert!(terminate(&mut engine.child));
    std::fs::read_to_string(said).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_canonical_fetchers_lines_are_its_own() {
    let world = press().await;
    let text = said(&world, &["profile=s4"], &["Stored canonical", "Bad HTML"]).await;
    let uid = feedmill::model::canonical_uid("http://press.newsroom.test/story/1");
    for line in [
        "[canon] 🌐 Fetching → http://press.newsroom.test/story/1",
        "[canon] ⚠️ Bad HTML → skip",
        &format!("[canon] ✅ Stored canonical → {uid}"),
    ] {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn north_clouds_dashboards_find_their_lines() {
    let world = press().await;
    let last = ["URL fetched successfully", "URL marked dead", "frontier_stats"];
    let text = said(&world, &["profile=s0", "log.format=json"], &last).await;
    let lines: Vec<serde_json::Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let find = |message: &str| {
        let found = lines.iter().find(|line| line["message"] == message);
        found.unwrap_or_else(|| panic!("`{message}` is missing:\n{text}")).clone()
    };
    let submitted = find("URL submitted to frontier");
    assert_eq!(submitted["origin"], "feed");
    assert_eq!(submitted["queued"], true);
    assert!(submitted["url"].is_string() && submitted["source_id"].is_string());
    assert_eq!(find("feed polled successfully")["items_submitted"], 2);
    assert_eq!(find("URL marked dead")["url"], "http://press.newsroom.test/story/2");
    let stats = find("frontier_stats");
    for total in ["pending", "fetching", "fetched", "failed", "dead"] {
        assert!(stats[total].is_u64(), "{total}: {stats}");
    }
    find("starting worker pool");
    find("worker pool stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_is_told_with_all_that_went_into_the_next_one_and_no_secret_is() {
    let world = press().await;
    let more = [
        "log.format=json",
        "log.level=trace",
        "trace.headers=authorization: Bearer hunter2-trace",
        "fetch.proxy=",
        "sinks.hook.kind=webhook",
        "sinks.hook.url=http://127.0.0.1:9/hunter2-token?key=hunter2-query",
        "sinks.hook.secret=whsec_aHVudGVyMi1zZWNyZXQtaHVudGVyMi1zZWNyZXQ=",
    ];
    let text = said(&world, &more, &["2 new items", "a sink is held up"]).await;
    let line = text.lines().find(|line| line.contains("2 new items")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["message"], "Fetched http://press.newsroom.test/feed: 2 new items");
    assert_eq!((&line["level"], &line["http_status"]), (&"INFO".into(), &200.into()));
    assert_eq!(line["url"], "http://press.newsroom.test/feed");
    for field in ["feed_id", "decision_reason"] {
        assert!(line[field].as_str().is_some_and(|said| !said.is_empty()), "{field}: {line}");
    }
    assert!(line["interval_after"].is_i64(), "{line}");
    for secret in ["hunter2", "aHVudGVyMi"] {
        let told: Vec<&str> = text.lines().filter(|line| line.contains(secret)).collect();
        assert!(told.is_empty(), "{told:#?}");
    }
}
