//! What monitors see: the figures of a run are those of what was served, and others can read them.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedmill::app::{self, Mode, Progress, RunOptions};
use feedmill::config::Policy;
use feedmill::metrics::{MEDIA_TYPE, Metrics};
use feedmill::model::{Code, Health, Kind, Lane};
use feedmill_newsroom::{Fault, Setup};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kill::{command, terminate};
use crate::process::Process;
use crate::support::{Engine, LIMIT, World, until};

/// The sum of all series of a figure.
fn sum(text: &str, name: &str) -> f64 {
    let values = text
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

async fn run(world: &World) -> Arc<Progress> {
    let progress = Arc::new(Progress::default());
    let options = RunOptions { mode: Mode::Once, lanes: Lane::ALL.to_vec() };
    let stop = CancellationToken::new();
    app::run(&world.config, &world.clock, options, stop, Arc::clone(&progress)).await.unwrap();
    progress
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_are_those_of_what_was_served() {
    let world = World::new(4, 5).await;
    world.follow().await;
    let progress = run(&world).await;
    let (text, done) = (progress.metrics.render(), progress.snapshot());

    assert_eq!(sum(&text, "feedmill_requests_total"), world.newsroom.log().len() as f64);
    assert_eq!(sum(&text, "feedmill_requests_total"), done.requests as f64);
    assert_eq!(sum(&text, "feedmill_bytes_in_total"), done.bytes as f64);
    assert_eq!(sum(&text, "feedmill_articles_total"), done.articles as f64);
    assert_eq!(sum(&text, "feedmill_extraction_confidence_count"), done.articles as f64);
    assert_eq!(sum(&text, "feedmill_entries_total"), done.entries as f64);
    assert_eq!(sum(&text, "feedmill_sink_delivered_total"), done.delivered as f64);
    assert_eq!(sum(&text, "feedmill_fetch_duration_seconds_count"), done.requests as f64);
    assert_eq!(sum(&text, "feedmill_hosts_in_flight"), 0.0);
    for name in [
        "feedmill_sources_fetched_total",
        "feedmill_items_discovered_total",
        "feedmill_archive_written_bytes_total",
        "feedmill_claim_duration_seconds_count",
        "feedmill_commit_size_count",
        "feedmill_scheduler_interval_chosen_seconds_count",
        "feedmill_task_wait_seconds_count",
        "feedmill_body_bytes_total",
        "feedmill_sources",
        "feedmill_database_bytes",
        "feedmill_disk_free_bytes",
        "feedmill_request_price_item_seconds",
    ] {
        assert!(sum(&text, name) > 0.0, "{name} is not counted:\n{text}");
    }
    let outcomes = sum(&text, "feedmill_outcomes_total");
    assert!(outcomes > 0.0 && outcomes <= done.requests as f64, "{outcomes}");
    for host in world.newsroom.log().iter().map(|request| request.host.clone()) {
        assert!(!text.contains(&host), "{host} is told of");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_fresh_and_what_is_saved_is_counted() {
    let world = World::with(4, |setup| Setup {
        history: 4,
        rate_per_hour: 6.0,
        day_profile: false,
        publish_until: Some(setup.starts_at + 3 * 3_600_000),
        ..setup
    })
    .await;
    world.follow().await;
    let (stop, progress) = (CancellationToken::new(), Arc::new(Progress::default()));
    let options = RunOptions { mode: Mode::Forever, lanes: Lane::ALL.to_vec() };
    let mut config = world.config.clone();
    config.schedule.policy = Policy::Ewma;
    let engine = app::run(&config, &world.clock, options, stop.clone(), Arc::clone(&progress));
    let figure = |name: &str| sum(&progress.metrics.render(), name);
    let watching = async {
        until("news and 304s", || async {
            figure("feedmill_freshness_seconds_count") > 3.0
                && figure("feedmill_bytes_saved_total") > 0.0
                && figure("feedmill_ewma_interval_seconds_count") > 0.0
        })
        .await;
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(engine, watching);
    ran.unwrap();
    let mean =
        figure("feedmill_freshness_seconds_sum") / figure("feedmill_freshness_seconds_count");
    assert!(mean < 3_600.0, "news of {mean} s are from before the last poll");
    assert!(figure("feedmill_poll_new_items_count") > 4.0);
}

#[test]
fn the_page_about_them_is_theirs() {
    let page = std::fs::read_to_string("docs/METRICS.md").unwrap_or_default();
    let now = Metrics::default().document();
    assert!(page == now, "write it again: feedmill config metrics > docs/METRICS.md");
}

/// Serves figures to whoever asks.
async fn serve(listener: TcpListener, progress: Arc<Progress>, stop: CancellationToken) {
    let clients = TaskTracker::new();
    loop {
        let (mut socket, _) = tokio::select! {
            () = stop.cancelled() => return,
            client = listener.accept() => client.unwrap(),
        };
        let text = progress.metrics.render();
        clients.spawn(async move {
            let mut asked = [0; 4096];
            drop(socket.read(&mut asked).await);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                text.len()
            );
            drop(socket.write_all(format!("{head}{text}").as_bytes()).await);
        });
    }
}

/// One of Prometheus' programs; nothing when `FEEDMILL_TEST_PROMETHEUS` is `off`.
pub(crate) fn prometheus(program: &str) -> Option<Command> {
    let off = std::env::var("FEEDMILL_TEST_PROMETHEUS").is_ok_and(|said| said == "off");
    (!off).then(|| Command::new(program))
}

const NEEDED: &str = "this test needs Prometheus: run scripts/test, which sees to it, or leave it out \
    with FEEDMILL_TEST_PROMETHEUS=off";

#[tokio::test(flavor = "multi_thread")]
async fn a_prometheus_reads_them() {
    let Some(mut program) = prometheus("prometheus") else { return };
    let world = World::new(2, 3).await;
    world.follow().await;
    let progress = run(&world).await;
    let (stop, listener) =
        (CancellationToken::new(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let ours = listener.local_addr().unwrap();
    let serving = TaskTracker::new();
    serving.spawn(serve(listener, Arc::clone(&progress), stop.clone()));

    let theirs = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let config = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: feedmill\n    static_configs:\n      - targets: ['{ours}']\n"
    );
    let dir = world.dir().join("prometheus");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("prometheus.yml"), config).unwrap();
    program
        .arg(format!("--config.file={}", dir.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
        .arg(format!("--web.listen-address={theirs}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _server = Process::spawn(&mut program);

    let wanted = sum(&progress.metrics.render(), "feedmill_requests_total");
    let url = format!("http://{theirs}/api/v1/query?query=sum(feedmill_requests_total)");
    let began = Instant::now();
    let answer = loop {
        let text = get(&url).await.unwrap_or_default();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(value) = found["data"]["result"][0]["value"][1].as_str() {
            break value.to_owned();
        }
        if began.elapsed() > LIMIT {
            break "never had".to_owned();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(answer, wanted.to_string());
    stop.cancel();
    serving.close();
    serving.wait().await;
}

async fn get(url: &str) -> Option<String> {
    let (host, path) = url.strip_prefix("http://")?.split_once('/')?;
    let mut socket = tokio::net::TcpStream::connect(host).await.ok()?;
    let asked = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    socket.write_all(asked.as_bytes()).await.ok()?;
    let mut text = String::new();
    socket.read_to_string(&mut text).await.ok()?;
    Some(text.split_once("\r\n\r\n")?.1.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn promtool_has_nothing_to_say_about_them() {
    let Some(mut program) = prometheus("promtool") else { return };
    let world = World::new(2, 3).await;
    world.follow().await;
    let text = run(&world).await.metrics.render();
    let mut tool = program
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect(NEEDED);
    // It reads the older format, in which a counter's whole name is declared.
    let declared: String = text
        .lines()
        .filter(|line| *line != "# EOF")
        .map(|line| {
            match line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" counter")) {
                Some(name) => format!("# TYPE {name}_total counter\n"),
                None => match line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
                    Some((name, help)) if text.contains(&format!("# TYPE {name} counter\n")) => {
                        format!("# HELP {name}_total {help}\n")
                    }
                    _ => format!("{line}\n"),
                },
            }
        })
        .collect();
    tool.stdin.take().unwrap().write_all(declared.as_bytes()).unwrap();
    let told = tool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{said}\n{declared}");
}

/// Figures that were asked for, and by what; each has something to tell after a run with news, answers
/// that nothing changed, failures, redirects and a budget.
const ASKED: &[(&str, &str)] = &[
    ("OBS-01 fetch_count", "feedmill_outcomes_total"),
    ("OBS-01 success_rate", "feedmill_outcomes_total{code=\"ok\"}"),
    ("OBS-01 304_rate", "feedmill_requests_total{answer=\"304\"}"),
    ("OBS-01 error_code_counts", "feedmill_outcomes_total{code=\"not_found\"}"),
    ("OBS-01 bytes_in", "feedmill_bytes_in_total"),
    ("OBS-01 compression_ratio", "feedmill_body_bytes_total{form=\"transferred\"}"),
    ("OBS-01 compression_ratio", "feedmill_body_bytes_total{form=\"decoded\"}"),
    ("OBS-01 average_latency", "feedmill_fetch_duration_seconds_sum"),
    ("OBS-01 scheduler_interval_chosen", "feedmill_scheduler_interval_chosen_seconds_sum"),
    ("OBS-01 ewma_interval", "feedmill_ewma_interval_seconds_count"),
    ("OBS-01 retry_counts", "feedmill_retries_total{code=\"upstream_failure\"}"),
    ("OBS-01 new_entries_count", "feedmill_poll_new_items_sum"),
    ("OBS-01 new_entries_count", "feedmill_entries_total"),
    ("OBS-02 sources_total", "feedmill_sources"),
    ("OBS-02 sources_fetched_total", "feedmill_sources_fetched_total"),
    ("OBS-02 sources_failed_total", "feedmill_sources_failed_total"),
    ("OBS-02 items_discovered_total", "feedmill_items_discovered_total"),
    ("OBS-02 fetch_duration_seconds", "feedmill_fetch_duration_seconds_bucket"),
    ("OBS-10 pending", "feedmill_tasks{state=\"pending\"}"),
    ("OBS-10 fetched", "feedmill_tasks{state=\"fetched\"}"),
    ("OBS-10 dead", "feedmill_tasks{state=\"dead\"}"),
    ("issue 10 claim latency", "feedmill_claim_duration_seconds_count"),
    ("issue 10 politeness waits", "feedmill_politeness_wait_seconds_count"),
    ("issue 10 politeness waits", "feedmill_task_wait_seconds_count"),
    ("issue 10 freshness", "feedmill_freshness_seconds_count"),
    ("issue 10 archive bytes", "feedmill_archive_bytes"),
    ("issue 10 archive bytes", "feedmill_archive_written_bytes_total"),
    ("issue 10 extraction methods", "feedmill_articles_total"),
    ("issue 10 extraction confidence", "feedmill_extraction_confidence_sum"),
    ("issue 10 budget", "feedmill_budget_requests_per_day"),
    ("issue 10 budget", "feedmill_budget_requests_spent"),
    ("issue 10 price", "feedmill_request_price_item_seconds"),
    ("S2 10 bytes saved", "feedmill_bytes_saved_total"),
    ("delivery", "feedmill_sink_delivered_total{sink=\"ndjson\"}"),
    ("commits", "feedmill_commit_duration_seconds_count"),
];

/// The same of what may well be nothing at the moment.
const TOLD: &[(&str, &str)] = &[
    ("OBS-10 fetching", "feedmill_tasks{state=\"fetching\"}"),
    ("OBS-10 failed", "feedmill_tasks{state=\"failed\"}"),
    ("issue 10 queue depth", "feedmill_queue_depth"),
    ("issue 10 host in flight", "feedmill_hosts_in_flight"),
    ("issue 10 sink lag", "feedmill_sink_lag_events{sink=\"ndjson\"}"),
    ("issue 10 sink lag", "feedmill_sink_lag_seconds{sink=\"ndjson\"}"),
    ("S2 10 freshness of polls", "feedmill_channels_overdue"),
];

/// A series as it is scraped: its name, its labels and its value.
struct Series<'t> {
    name: &'t str,
    labels: Vec<(&'t str, &'t str)>,
    value: f64,
}

fn series(text: &str) -> Vec<Series<'_>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let labels = labels.trim_end_matches('}').split("\",");
            let labels = labels.filter_map(|label| label.split_once("=\""));
            let labels = labels.map(|(name, value)| (name, value.trim_end_matches('"'))).collect();
            Series { name, labels, value: value.parse().unwrap() }
        })
        .collect()
}

/// The sum of all series that a selector names, if there are any.
fn selected(all: &[Series<'_>], selector: &str) -> Option<f64> {
    let (name, label) = selector.split_once('{').unwrap_or((selector, ""));
    let label = label.trim_end_matches('}').split_once("=\"");
    let label = label.map(|(name, value)| (name, value.trim_end_matches('"')));
    let fits = |one: &&Series<'_>| {
        one.name == name && label.is_none_or(|label| one.labels.contains(&label))
    };
    let values: Vec<f64> = all.iter().filter(fits).map(|one| one.value).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// All that a label can say; nothing for one that no figure has.
fn words(label: &str) -> Option<Vec<String>> {
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Some(match label {
        "kind" => Kind::ALL.iter().map(ToString::to_string).collect(),
        "code" => Code::ALL.iter().map(ToString::to_string).collect(),
        "lane" => Lane::ALL.iter().map(ToString::to_string).collect(),
        "health" => Health::ALL.iter().map(ToString::to_string).collect(),
        "state" => named(&["pending", "fetching", "fetched", "failed", "dead", "parked"]),
        "answer" => named(&["2xx", "304", "3xx", "4xx", "5xx", "none"]),
        "form" => named(&["transferred", "decoded"]),
        "method" => {
            named(&["model", "selectors", "selectors_missed", "json_ld", "state", "feed", "other"])
        }
        "sink" => named(&["ndjson"]),
        _ => return None,
    })
}

/// No series is told apart by anything but our own words.
fn hold_bounded(all: &[Series<'_>]) {
    for one in all {
        for (label, value) in &one.labels {
            let is_bucket = *label == "le" && (*value == "+Inf" || value.parse::<f64>().is_ok());
            let known = words(label).is_some_and(|words| words.iter().any(|word| word == value));
            assert!(is_bucket || known, "{}: {label}={value}", one.name);
        }
    }
    assert!(all.len() < 2_000, "{} series", all.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_engine_tells_every_figure_that_was_asked_for() {
    let world = World::with(4, |setup| Setup {
        history: 4,
        rate_per_hour: 3.0,
        day_profile: false,
        ..setup
    })
    .await;
    world.follow().await;
    // A host of their own: where pages wait that feeds told of, these come last.
    let (room, host) = (&world.newsroom, "odd.newsroom.test");
    for (path, fault) in [
        ("/lost", Fault::Status(404)),
        ("/failing", Fault::Status(503)),
        ("/moved", Fault::RedirectChain(2)),
    ] {
        room.misbehave(host, path, fault, feedmill_newsroom::Span::Always);
        world.submit(&format!("http://{host}{path}"), Kind::Article).await;
    }
    world.submit(&format!("http://{host}/failing/feed"), Kind::Feed).await;
    let more = ["schedule.budget=5000/d", "schedule.policy=ewma", "schedule.max_interval=15m"];
    let command = command(&world, &world.config.data_dir, None, &more);
    let mut engine = Engine::start(command, world.dir().join("said"));
    engine.says("are at http://").await;
    let said = engine.said();
    let place = said.split("are at http://").nth(1).and_then(|rest| rest.split('/').next());
    let url = format!("http://{}/metrics", place.unwrap());
    for (asked, selector) in ASKED {
        let tells = || async {
            let text = get(&url).await.unwrap_or_default();
            selected(&series(&text), selector).is_some_and(|sum| sum > 0.0)
        };
        until(&format!("{asked}: {selector}"), tells).await;
    }
    let text = get(&url).await.unwrap();
    assert!(terminate(&mut engine.child));
    let all = series(&text);
    for (asked, selector) in ASKED.iter().chain(TOLD) {
        assert!(selected(&all, selector).is_some(), "{asked}: {selector} is missing:\n{text}");
    }
    hold_bounded(&all);
}

/// Words that begin like our figures, wherever they stand.
fn figures(text: &str) -> std::collections::BTreeSet<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    text.split(word).filter(|word| word.starts_with("feedmill_")).map(str::to_owned).collect()
}

#[test]
fn alerts_and_dashboard_name_only_figures_that_exist() {
    let metrics = Metrics::default();
    let parts = ["", "_bucket", "_sum", "_count"];
    let known: Vec<String> = metrics
        .described()
        .iter()
        .flat_map(|one| match one.kind {
            "histogram" => parts.map(|part| format!("{}{part}", one.name)).to_vec(),
            _ => vec![one.name.clone()],
        })
        .collect();
    for file in ["deploy/alerts.yaml", "deploy/grafana-dashboard.json"] {
        let named = figures(&std::fs::read_to_string(file).unwrap());
        assert!(named.len() > 10, "{file} names {named:?}");
        for name in named {
            assert!(known.contains(&name), "{file}: there is no {name}");
        }
    }
    let dashboard = std::fs::read_to_string("deploy/grafana-dashboard.json").unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 20);
}

/// What an operator promises is the same wherever it is counted: in the API, in alerts, in Grafana.
#[test]
fn failures_that_count_against_us_are_the_same_everywhere() {
    let ours = Code::ALL.iter().filter(|code| code.is_on_us());
    let ours = ours.map(|code| code.as_str()).collect::<Vec<_>>().join("|");
    for file in ["deploy/alerts.yaml", "deploy/grafana-dashboard.json"] {
        let text = std::fs::read_to_string(file).unwrap().replace("\\\"", "\"");
        assert!(text.contains(&format!("code=~\"{ours}\"")), "{file} does not count {ours}");
    }
}

#[test]
fn promtool_takes_the_alerts() {
    let Some(mut program) = prometheus("promtool") else { return };
    let told = program.args(["check", "rules", "deploy/alerts.yaml"]).output().expect(NEEDED);
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
}
