//! Spans that a collector gets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

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
pub(super) struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    heads: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Collector {
    /// One that listens, and where.
    pub(super) async fn start() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (collector, address) = (Self::default(), listener.local_addr().unwrap());
        let (listening, stop) = (collector.clone(), collector.stop.clone());
        collector.tasks.spawn(listening.listen(listener, stop));
        (collector, address)
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// All spans, for whoever looks for words in them.
    pub(super) fn text(&self) -> String {
        format!("{:?}", self.spans.lock().unwrap())
    }

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
    let (collector, address) = Collector::start().await;
    let endpoint = format!("trace.endpoint=http://{address}");

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
    for name in ["task", "url", "url_hash", "host", "source", "kind", "code"] {
        assert!(attribute(&root, name).is_some_and(|value| !value.is_empty()), "{name}: {root:?}");
    }
    let request = steps.iter().find(|step| step.name == "request").unwrap();
    assert_eq!(attribute(request, "status").as_deref(), Some("200"));
    let deliver = steps.iter().find(|step| step.name == "deliver").unwrap();
    assert!(attribute(deliver, "sink").is_some(), "{deliver:?}");

    let heads = collector.heads.lock().unwrap().clone();
    assert!(heads.iter().all(|head| head.starts_with("POST /v1/traces ")), "{heads:?}");
    assert!(heads.iter().all(|head| head.contains("Bearer hunter2")), "{heads:?}");
    assert!(!collector.text().contains("hunter2"), "what names us to the collector is no span");
    collector.stop().await;
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
