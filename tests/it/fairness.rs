//! A source that takes more than its part: of the workers, by linking to the hosts of a wildcard domain
//! that take seconds to answer; of the disk, by large documents. Five others beside it go on. Judged by
//! what the server was asked.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use feedmill::app::{self, Mode, Progress, RunOptions};
use feedmill::clock::Clock;
use feedmill::config::{Config, Policy, Size, Span};
use feedmill::model::{EventKind, Lane, NewSource};
use feedmill::store::Store;
use feedmill::store::browse::entries::{EntryQuery, entries};
use feedmill::store::usage::day_of;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::{LIMIT, until};

const WORKERS: usize = 6;
/// Hosts of the wildcard domain.
const HOSTS: usize = 200;
/// How long each of them takes, in real time.
const ANSWER: Duration = Duration::from_secs(4);
const PAPERS: usize = 5;
/// The feed that misbehaves.
const WILD: &str = "feed.wild.test";

/// What the server was asked.
#[derive(Default)]
struct Log {
    /// Requests to the wildcard domain that wait for their answer now, and the most there were.
    waiting: usize,
    most_waiting: usize,
    /// Requests for feeds, by host.
    polls: HashMap<String, usize>,
    /// Those of the papers since the first request to the wildcard domain.
    polls_beside: usize,
    /// Those of the papers while as many requests as there are workers waited.
    polls_beside_all_workers: usize,
    /// Ends the wait of hosts that answer only then.
    release: CancellationToken,
}

impl Log {
    fn papers(&self) -> usize {
        let papers = self.polls.iter().filter(|(host, _)| host.starts_with("paper"));
        papers.map(|(_, polls)| polls).sum()
    }
}

/// What the feed that misbehaves says.
type Wild = fn(usize) -> String;

async fn serve(mut stream: TcpStream, log: Arc<Mutex<Log>>, wild: Wild) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut part = [0; 512];
        match stream.read(&mut part).await {
            Ok(read @ 1..) => request.extend_from_slice(&part[..read]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).to_lowercase();
    let path = request.split_whitespace().nth(1).unwrap_or_default();
    let host = request.split_once("host: ").map_or("", |(_, rest)| rest);
    let host = host.split(['\r', ':']).next().unwrap_or_default();
    let is_held = host.starts_with("held");
    if host.starts_with('h') {
        let release = {
            let mut log = log.lock().unwrap();
            log.waiting += 1;
            log.most_waiting = log.most_waiting.max(log.waiting);
            log.release.clone()
        };
        match is_held {
            true => release.cancelled().await,
            false => tokio::time::sleep(ANSWER).await,
        }
        log.lock().unwrap().waiting -= 1;
    }
    let (mut body, mut tag) = (String::new(), 0);
    if path == "/feed" {
        let mut log = log.lock().unwrap();
        log.polls_beside += usize::from(log.most_waiting > 0 && host != WILD);
        log.polls_beside_all_workers += usize::from(log.waiting >= WORKERS && host != WILD);
        let polls = log.polls.entry(host.to_owned()).or_default();
        *polls += 1;
        tag = *polls;
        let story = || feed([("a story", format!("http://{host}/story"))].into_iter());
        body = if host == WILD { wild(*polls) } else { story() };
    }
    let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/rss+xml\r\nETag: \"{tag}\"\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    drop(stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await);
}

fn feed<'a>(items: impl Iterator<Item = (&'a str, String)>) -> String {
    let items: String = items
        .map(|(title, link)| format!("<item><title>{title}</title><link>{link}</link></item>"))
        .collect();
    format!("<rss version=\"2.0\"><channel><title>t</title>{items}</channel></rss>")
}

/// Five papers, the feed that misbehaves, and an engine that follows them.
struct Scene {
    log: Arc<Mutex<Log>>,
    config: Config,
    clock: Clock,
    store: Arc<dyn Store>,
    stop: CancellationToken,
    server: TaskTracker,
    _dir: TempDir,
}

impl Scene {
    async fn new(wild: Wild) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (log, server, stop) = (Arc::default(), TaskTracker::new(), CancellationToken::new());
        let (of_server, connections, ends) = (Arc::clone(&log), server.clone(), stop.clone());
        server.spawn(async move {
            while let Some(Ok((stream, _))) = ends.run_until_cancelled(listener.accept()).await {
                connections.spawn(serve(stream, Arc::clone(&of_server), wild));
            }
        });
        let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::fast(60.0));
        let config = config(address, dir.path());
        let store = app::open(&config, &clock).await.unwrap();
        let papers = (0..PAPERS).map(|at| format!("paper{at}.test"));
        for host in papers.chain([WILD.to_owned()]) {
            let source = NewSource {
                feed_urls: vec![format!("http://{host}/feed")],
                ..NewSource::new(&host, format!("http://{host}/"))
            };
            store.add_source(source).await.unwrap();
        }
        Self { log, config, clock, store, stop, server, _dir: dir }
    }

    /// Runs the engine until `done` has ended.
    async fn run(&self, done: impl Future<Output = ()>) {
        let options = RunOptions { mode: Mode::Forever, lanes: Lane::ALL.to_vec() };
        let progress = Arc::new(Progress::default());
        let engine = app::run(&self.config, &self.clock, options, self.stop.clone(), progress);
        let watcher = async {
            done.await;
            self.stop.cancel();
        };
        let (ran, ()) = tokio::join!(engine, watcher);
        ran.unwrap();
        self.server.close();
        tokio::time::timeout(LIMIT, self.server.wait()).await.unwrap();
    }
}

fn config(server: SocketAddr, dir: &std::path::Path) -> Config {
    let mut config = Config { data_dir: dir.to_path_buf(), ..Config::default() };
    let names = (0..PAPERS).map(|at| format!("paper{at}.test")).chain(["*.wild.test".to_owned()]);
    config.fetch.resolve = names.map(|name| format!("{name}={server}").parse().unwrap()).collect();
    config.fetch.workers = WORKERS;
    config.schedule.policy = Policy::Fixed;
    config.schedule.default_interval = Span::seconds(30);
    config.schedule.min_interval = Span::seconds(30);
    config.schedule.jitter = 0.0;
    config
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_hosts_of_one_source_leave_workers_to_the_others() {
    let flood = |_| feed((0..HOSTS).map(|at| ("t", format!("http://h{at}.wild.test/story"))));
    let scene = Scene::new(flood).await;
    let log = &scene.log;
    scene
        .run(until("polls beside the flood", || async { log.lock().unwrap().polls_beside >= 30 }))
        .await;
    let most = log.lock().unwrap().most_waiting;
    assert!(most > 0, "nobody was slow");
    assert!(most <= WORKERS / 2, "{most} of {WORKERS} workers waited for one domain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_become_slow_at_once_hold_up_nobody_for_long() {
    // Hosts that answer at once, until the source may have all workers; then hosts that do not answer.
    let flood = |polls| match polls {
        1 => feed((0..20).map(|at| ("t", format!("http://fast{at}.wild.test/story")))),
        _ => feed((0..HOSTS).map(|at| ("t", format!("http://held{at}.wild.test/story")))),
    };
    let scene = Scene::new(flood).await;
    let log = &scene.log;
    let polled = until("polls while all workers' requests wait", || async {
        log.lock().unwrap().polls_beside_all_workers >= 10
    });
    scene
        .run(async {
            polled.await;
            log.lock().unwrap().release.cancel();
        })
        .await;
}

/// A feed with a title of half a megabyte that is another one each time.
fn huge(polls: usize) -> String {
    let mut state = polls as u64;
    let letters = (0..500_000).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        char::from(b'a' + u8::try_from((state >> 33) % 26).unwrap())
    });
    let title: String = letters.collect();
    feed([(title.as_str(), format!("http://{WILD}/story/{polls}"))].into_iter())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_stores_too_much_is_stopped_and_the_others_go_on() {
    let mut scene = Scene::new(huge).await;
    scene.config.sources.max_bytes_per_day = Size::megabytes(1);
    let (log, store) = (&scene.log, &scene.store);
    let quota = || async {
        let events = store.events_after(0, 1_000).await.unwrap();
        events.into_iter().find(|event| event.kind == EventKind::SourceQuota)
    };
    let asked = || log.lock().unwrap().polls.get(WILD).copied().unwrap_or(0);
    scene
        .run(async {
            until("the quota", || async { quota().await.is_some() }).await;
            let (before, papers) = (asked(), log.lock().unwrap().papers());
            let today = day_of(scene.clock.now());
            until("polls of the others", || async { log.lock().unwrap().papers() > papers + 20 })
                .await;
            // It goes on with the next day.
            let is_over = day_of(scene.clock.now()) > today;
            let more = asked() - before;
            assert!(more <= 1 || is_over, "it was asked {more} times more");
        })
        .await;
    let event = quota().await.unwrap();
    assert_eq!(event.payload["name"], WILD);
    let source = store.source(WILD).await.unwrap().0;
    let query = EntryQuery { source: Some(source.id), limit: 100, ..EntryQuery::default() };
    let found = entries(&**store, &query).await.unwrap();
    assert!(!found.items.is_empty());
    for row in &found.items {
        let title = row.entry.title.as_ref().unwrap();
        assert!(title.len() <= 4_000, "a title of {} bytes is kept", title.len());
        assert_eq!(row.entry.cut, ["title"]);
    }
}
