//! Pages and robots.txt files that are made to cost time or memory, met by the whole engine: each ends
//! with a code, and an honest page beside them is read.

use std::sync::Arc;

use feedmill::app::{self, Mode, RunOptions};
use feedmill::clock::Clock;
use feedmill::config::{Config, Size, Span};
use feedmill::frontier::TaskFilter;
use feedmill::model::{Code, Kind, Lane, NewTask, Origin};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::server::listener;

/// The page of each host, and the code that it ends with.
fn pages() -> Vec<(String, Option<Code>)> {
    let many = |piece: &dyn Fn(usize) -> String| (0..30_000).map(piece).collect::<String>();
    let attributes: String = (0..40).map(|n| format!(" a{n}")).collect();
    let sentence = "The harbour of Westport was closed on Tuesday, the port authority said. ";
    vec![
        (many(&|n| format!("<html a{n}>")), Some(Code::NotArticle)),
        (many(&|n| format!("<body b{n}>")), Some(Code::NotArticle)),
        (format!("<p {}>", many(&|n| format!("a{n}='>' "))), Some(Code::TooLarge)),
        (many(&|n| format!("<b id={n}{attributes}>")), Some(Code::TooLarge)),
        ("<div>".repeat(30_000), Some(Code::TooLarge)),
        (format!("<h1>Harbour closed</h1><p>{}</p>", sentence.repeat(20)), None),
    ]
}

/// Rules that fill a file of half a megabyte and rule nothing out.
fn robots() -> String {
    let rules: String = (0..60_000).map(|n| format!("Disallow: /x{n}*y\n")).collect();
    format!("User-agent: *\n{rules}")
}

async fn serve(mut stream: TcpStream) {
    let (mut request, mut buffer) = (Vec::new(), [0; 512]);
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(read @ 1..) => request.extend_from_slice(&buffer[..read]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).to_lowercase();
    let (_, host) = request.split_once("host: h").unwrap();
    let number: usize = host.split('.').next().unwrap().parse().unwrap();
    let (kind, body) = match request.starts_with("get /robots.txt") {
        true => ("text/plain", robots()),
        false => ("text/html", pages()[number].0.clone()),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
    drop(stream.write_all(format!("{head}{body}").as_bytes()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_cost_too_much_end_with_a_code_and_hold_nobody_up() {
    let (server, tasks) = (listener().await, TaskTracker::new());
    let addr = server.local_addr().unwrap();
    let connections = tasks.clone();
    tasks.spawn(async move {
        while let Ok((stream, _)) = server.accept().await {
            connections.spawn(serve(stream));
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config { data_dir: dir.path().join("data"), ..Config::default() };
    config.fetch.resolve = vec![format!("*.hostile.test={addr}").parse().unwrap()];
    config.fetch.max_decoded = Size::megabytes(8);
    config.hosts.delay = Span::millis(1);
    let clock = Clock::system();
    let store = app::open(&config, &clock).await.unwrap();
    let address = |n: usize| format!("http://h{n}.hostile.test/news/storm");
    let task = |n: usize| NewTask {
        url: address(n),
        kind: Kind::Article,
        origin: Origin::Manual,
        source: None,
        base_priority: 5,
        depth: 0,
        redirects: 0,
        parent: None,
        not_before: None,
        refetch: None,
    };
    let pages = pages();
    store.submit((0..pages.len()).map(task).collect()).await.unwrap();
    let options = RunOptions { mode: Mode::Once, lanes: Lane::ALL.to_vec() };
    let progress = Arc::default();
    let run = app::run(&config, &clock, options, CancellationToken::new(), Arc::clone(&progress));
    tokio::time::timeout(crate::support::LIMIT, run).await.expect("it ends").unwrap();
    let tasks = store.list(TaskFilter { limit: 100, ..TaskFilter::default() }).await.unwrap();
    for (n, (_, expected)) in pages.iter().enumerate() {
        let task = tasks.iter().find(|task| task.url == address(n)).unwrap();
        assert_eq!(task.last_error, *expected, "page {n}: {:?}", task.reason);
    }
    assert_eq!(progress.snapshot().articles, 1, "the honest one");
}
