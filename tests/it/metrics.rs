//! What monitors see: the figures of a run are those of what was served, and others can read them.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedmill::app::{self, Mode, Progress, RunOptions};
use feedmill::config::Policy;
use feedmill::metrics::{MEDIA_TYPE, Metrics};
use feedmill::model::Lane;
use feedmill_newsroom::Setup;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::{LIMIT, World, until};

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
    let mut server = program
        .arg(format!("--config.file={}", dir.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
        .arg(format!("--web.listen-address={theirs}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect(NEEDED);

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
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(answer, wanted.to_string());
    stop.cancel();
    serving.close();
    serving.wait().await;
}

async fn get(url: &str) -> Option<String> {
    let (host, path) = url.strip_prefix("http://")?.split_once('/')?;
    let mut socket = tokio::net::TcpStream::connect(host).await.ok()?;
    let asked = format!("GET /{path} HTTP/1.0\r\nhost: {host}\r\n\r\n");
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

#[test]
fn promtool_takes_the_alerts() {
    let Some(mut program) = prometheus("promtool") else { return };
    let told = program.args(["check", "rules", "deploy/alerts.yaml"]).output().expect(NEEDED);
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
}
