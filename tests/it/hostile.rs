//! Two thousand servers that mean us harm, met by the client, and some of them by the whole engine:
//! nothing panics, nothing hangs, nothing grows, and nobody gets us to connect to a private address.

mod dns;
mod pages;
mod proxies;
mod script;
mod server;

use std::sync::Arc;
use std::time::Duration;

use feedmill::app::{self, Mode, RunOptions};
use feedmill::clock::Clock;
use feedmill::config::{Config, Size, Span};
use feedmill::fetch::{Client, FetchError, Guard};
use feedmill::frontier::TaskFilter;
use feedmill::model::{Code, Exchange, Kind, Lane, NewTask, Origin, Validators};
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;
use url::Url;

use script::{FAMILIES, PRIVATE, SPELLINGS};
use server::Hostile;

/// How many.
const CASES: usize = 2000;
/// So many of them meet the engine.
const ENGINE_CASES: usize = 600;
/// At a time.
const AT_ONCE: usize = 64;
/// A request that takes longer than its limit by this much hangs.
const SLACK: Duration = Duration::from_secs(10);
/// What the process may grow by, server and client together.
const MAX_GROWTH_MB: u64 = 300;

fn config(hostile: &Hostile) -> Config {
    let mut config = Config::default();
    let fetch = &mut config.fetch;
    fetch.resolve = vec![format!("*.hostile.test={}", hostile.addr).parse().unwrap()];
    (fetch.connect_timeout, fetch.read_timeout) = (Span::millis(500), Span::millis(150));
    (fetch.request_timeout, fetch.task_timeout) = (Span::millis(600), Span::seconds(5));
    (fetch.max_body, fetch.max_sitemap) = (Size::bytes(300_000), Size::bytes(300_000));
    fetch.max_decoded = Size::megabytes(1);
    fetch.workers = AT_ONCE;
    config.hosts.delay = Span::millis(1);
    config
}

/// The most memory that this process had at once.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1000
}

fn address(number: usize) -> String {
    format!("http://h{number}.hostile.test/{number}")
}

/// Asks, and follows five redirects wherever they lead.
async fn chase(client: &Client, url: &str) -> Result<Exchange, FetchError> {
    let mut url = Url::parse(url).unwrap();
    let nothing = Validators::default();
    for _ in 0..5 {
        let asking = client.get(&url, Kind::Feed, &nothing, None, Duration::MAX);
        let answer = tokio::time::timeout(SLACK, asking).await.expect("nothing hangs")?;
        let target = answer.headers.text("location").and_then(|to| url.join(&to).ok());
        match target.filter(|_| (300..400).contains(&answer.status)) {
            Some(target) => url = target,
            None => return Ok(answer),
        }
    }
    Err(FetchError::Network("more redirects than we follow".into()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_survives_two_thousand_hostile_servers() {
    let hostile = Hostile::start().await;
    let (client, _) = app::client(&config(&hostile), &Clock::system()).unwrap();
    // Bombs are made once, and are the server's own.
    server::steps(0, 1);
    let before = peak_mb();
    let mut done = std::pin::pin!(
        futures_util::stream::iter(0..CASES)
            .map(|n| {
                let client = &client;
                async move { (n % FAMILIES.len() == PRIVATE, chase(client, &address(n)).await, n) }
            })
            .buffer_unordered(AT_ONCE)
    );
    let (mut answers, mut failures, mut refusals) = (0, 0, 0);
    while let Some((is_private, asked, n)) = done.next().await {
        match asked {
            Ok(answer) => {
                assert!(!is_private, "case {n} led to {} unhindered", answer.url);
                assert!(answer.body.len() <= 300_000, "case {n}: {} bytes", answer.body.len());
                let head: usize = answer.headers.0.iter().map(|(n, v)| n.len() + v.len()).sum();
                assert!(answer.headers.0.len() <= 256 && head <= 64 << 10, "case {n}: {head}");
                answers += 1;
            }
            Err(error) if error.code() == Code::Guarded => {
                assert!(is_private, "case {n}: {error}");
                refusals += 1;
            }
            Err(_) => failures += 1,
        }
    }
    assert_eq!(answers + failures + refusals, CASES);
    let least = CASES / FAMILIES.len() / 2;
    assert!(answers > least && failures > least && refusals > least, "they are all alike");
    assert_eq!(hostile.caught(), 0, "somebody connected to a private address");
    let grown = peak_mb() - before;
    assert!(grown < MAX_GROWTH_MB, "it grew by {grown} MB");
}

#[tokio::test]
async fn no_spelling_and_no_resolver_leads_to_a_private_address() {
    let hostile = Hostile::start().await;
    let config = Config::default();
    let guard = Guard::with_resolver(&config.fetch, dns::resolver(hostile.tasks()).await);
    let client = app::client_behind(&config, guard, &Clock::system()).unwrap();
    let port = hostile.trap.port();
    let spelled = SPELLINGS.iter().map(|spelling| spelling.replace("PORT", &port.to_string()));
    let whole = spelled.filter(|spelling| spelling.trim().starts_with("http"));
    let names = ["name", "huge"]
        .into_iter()
        .flat_map(|size| (0..20).map(move |n| format!("http://{size}{n}.lookup.test:{port}/")));
    let mut asked = 0;
    for url in whole.chain(names) {
        let error = chase(&client, &url).await.expect_err(&url);
        assert_eq!(error.code(), Code::Guarded, "{url}: {error}");
        asked += 1;
    }
    assert!(asked >= 80);
    assert_eq!(hostile.caught(), 0, "somebody connected to a private address");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_survives_hostile_servers() {
    let hostile = Hostile::start().await;
    let dir = tempfile::tempdir().unwrap();
    let config = Config { data_dir: dir.path().join("data"), ..config(&hostile) };
    let clock = Clock::system();
    let store = app::open(&config, &clock).await.unwrap();
    let kinds = [Kind::Feed, Kind::Sitemap, Kind::Article];
    let task = |n: usize| NewTask {
        url: address(n),
        kind: kinds[n / FAMILIES.len() % kinds.len()],
        origin: Origin::Manual,
        source: None,
        base_priority: 5,
        depth: 0,
        redirects: 0,
        parent: None,
        not_before: None,
        refetch: None,
    };
    store.submit((0..ENGINE_CASES).map(task).collect()).await.unwrap();
    server::steps(0, 1);
    let before = peak_mb();
    let options = RunOptions { mode: Mode::Once, lanes: Lane::ALL.to_vec() };
    let run = app::run(&config, &clock, options, CancellationToken::new(), Arc::default());
    tokio::time::timeout(super::support::LIMIT, run).await.expect("it ends").unwrap();
    let grown = peak_mb() - before;
    let tasks = store.list(TaskFilter { limit: 10_000, ..TaskFilter::default() }).await.unwrap();
    for n in 0..ENGINE_CASES {
        let url = address(n);
        let task = tasks.iter().find(|task| task.url == url).unwrap();
        assert!(task.last_fetched_at.is_some() && !task.leased, "{url} was left");
        assert_ne!(task.last_error, Some(Code::Internal), "{url}: {:?}", task.reason);
    }
    assert_eq!(hostile.caught(), 0, "somebody connected to a private address");
    assert!(grown < MAX_GROWTH_MB, "it grew by {grown} MB");
}
