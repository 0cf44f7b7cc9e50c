//! Honest sources beside hostile ones: what is left of their rate of requests when a tenth of all sources
//! link to thousands of slow hosts.
//!
//! The engine runs twice on the same made-up publishers, without and with the hostile ones, for the same
//! time. Each honest feed has a new story at every poll. Each hostile feed links to the hosts of a wildcard
//! domain, and every one of these answers after 14 seconds.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use feedmill::app::{self, Mode, Progress, RunOptions};
use feedmill::clock::Clock;
use feedmill::config::{Config, Policy, Span};
use feedmill::model::{Lane, NewSource};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::report::{Better, Report};

/// Seconds of the engine's clock in a second.
const RATE: f64 = 60.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Sources that behave
    #[arg(long, default_value_t = 45)]
    honest: usize,
    /// Sources that do not
    #[arg(long, default_value_t = 5)]
    hostile: usize,
    /// Slow hosts that each of those links to
    #[arg(long, default_value_t = 2_000)]
    hosts: usize,
    /// Seconds until a slow host answers
    #[arg(long, default_value_t = 14)]
    answer: u64,
    /// Seconds of each run
    #[arg(long, default_value_t = 40)]
    seconds: u64,
    /// Tasks under way at the most
    #[arg(long, default_value_t = 10)]
    workers: usize,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let alone = requests(args, 0).await?;
    let beside = requests(args, args.hostile).await?;
    let mut report = Report::new("fairness");
    report.figure("honest_requests_alone", alone as f64);
    report.figure("honest_requests_beside_hostile", beside as f64);
    report.bar("rate_kept", beside as f64 / alone.max(1) as f64, 0.8, Better::Higher);
    Ok(report)
}

/// Requests to honest hosts while the engine ran.
async fn requests(args: &Args, hostile: usize) -> anyhow::Result<usize> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let publishers = Arc::new(Publishers {
        honest: AtomicUsize::new(0),
        stories: AtomicUsize::new(0),
        hosts: args.hosts,
        answer: Duration::from_secs(args.answer),
    });
    let (tasks, stop, server) =
        (TaskTracker::new(), CancellationToken::new(), listener.local_addr()?);
    let (connections, ends, of_server) = (tasks.clone(), stop.clone(), Arc::clone(&publishers));
    tasks.spawn(async move {
        while let Some(Ok((stream, _))) = ends.run_until_cancelled(listener.accept()).await {
            let publishers = Arc::clone(&of_server);
            let ends = ends.clone();
            connections.spawn(async move {
                ends.run_until_cancelled(publishers.serve(stream)).await;
            });
        }
    });
    let (dir, clock) = (tempfile::tempdir()?, Clock::fast(RATE));
    let config = config(args, hostile, server, dir.path())?;
    let store = app::open(&config, &clock).await?;
    let honest = (0..args.honest).map(|at| format!("paper{at}.test"));
    for host in honest.chain((0..hostile).map(|at| format!("feed.wild{at}.test"))) {
        let feed_urls = vec![format!("http://{host}/feed")];
        let source = NewSource { feed_urls, ..NewSource::new(&host, format!("http://{host}/")) };
        store.add_source(source).await?;
    }
    let options = RunOptions { mode: Mode::Forever, lanes: Lane::ALL.to_vec() };
    let engine = app::run(&config, &clock, options, stop.clone(), Arc::new(Progress::default()));
    let limit = async {
        tokio::time::sleep(Duration::from_secs(args.seconds)).await;
        let asked = publishers.honest.load(Ordering::Relaxed);
        stop.cancel();
        asked
    };
    let (ran, asked) = tokio::join!(engine, limit);
    ran?;
    tasks.close();
    tasks.wait().await;
    Ok(asked)
}

fn config(args: &Args, hostile: usize, server: SocketAddr, dir: &Path) -> anyhow::Result<Config> {
    let mut config = Config { data_dir: dir.to_owned(), ..Config::default() };
    let honest = (0..args.honest).map(|at| format!("paper{at}.test"));
    let names = honest.chain((0..hostile).map(|at| format!("*.wild{at}.test")));
    config.fetch.resolve =
        names.map(|name| format!("{name}={server}").parse()).collect::<Result<_, _>>()?;
    config.fetch.workers = args.workers;
    config.schedule.policy = Policy::Fixed;
    config.schedule.default_interval = Span::minutes(2);
    config.schedule.min_interval = Span::minutes(2);
    config.feed.initial_item_cap = u32::try_from(args.hosts)?;
    Ok(config)
}

struct Publishers {
    /// Requests to honest hosts.
    honest: AtomicUsize,
    /// Stories that were published.
    stories: AtomicUsize,
    hosts: usize,
    answer: Duration,
}

impl Publishers {
    async fn serve(&self, mut stream: TcpStream) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut part = [0; 1024];
            match stream.read(&mut part).await {
                Ok(read @ 1..) => request.extend(part.iter().take(read)),
                _ => return,
            }
        }
        let request = String::from_utf8_lossy(&request).to_lowercase();
        let path = request.split_whitespace().nth(1).unwrap_or_default();
        let host = request.split_once("host: ").map_or("", |(_, rest)| rest);
        let host = host.split(['\r', ':']).next().unwrap_or_default();
        let (name, domain) = host.split_once('.').unwrap_or_default();
        let body = match (name, path) {
            ("feed", "/feed") => {
                feed((0..self.hosts).map(|at| format!("http://h{at}.{domain}/story")))
            }
            (_, "/feed") => {
                let story = self.stories.fetch_add(1, Ordering::Relaxed);
                feed(std::iter::once(format!("http://{host}/story/{story}")))
            }
            _ => String::new(),
        };
        if domain == "test" {
            self.honest.fetch_add(1, Ordering::Relaxed);
        } else if name != "feed" {
            tokio::time::sleep(self.answer).await;
        }
        let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/rss+xml\r\nETag: \"{}\"\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.honest.load(Ordering::Relaxed),
            body.len()
        );
        drop(stream.write_all(head.as_bytes()).await);
        drop(stream.write_all(body.as_bytes()).await);
    }
}

fn feed(links: impl Iterator<Item = String>) -> String {
    let item = |link: String| format!("<item><title>{link}</title><link>{link}</link></item>");
    let items: String = links.map(item).collect();
    format!("<rss version=\"2.0\"><channel><title>t</title>{items}</channel></rss>")
}
