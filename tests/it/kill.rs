//! `kill -9` at random moments: nothing is lost, nothing is done twice, nobody is disturbed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use feedmill::frontier::TaskFilter;
use feedmill::model::{Kind, State};
use feedmill_formats::warc;
use feedmill_newsroom::Setup;

use crate::invariants::{hold_archived, hold_in_file};
use crate::process::Process;
use crate::sinks::{lines, places};
use crate::support::{LIMIT, World};

/// How often the engine is killed.
const KILLS: u64 = 20;

/// Many engines run at once, and each serves HTTP.
pub(crate) const ANYWHERE: &str = "api.listen=127.0.0.1:0";

/// The program, without what only its tests know.
pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_feedmill"));
    for name in [
        "FEEDMILL_TEST_CHAOS_HOSTS",
        "FEEDMILL_TEST_CHAOS_SECONDS",
        "FEEDMILL_TEST_CHROMEDRIVER",
        "FEEDMILL_TEST_ELASTICSEARCH",
        "FEEDMILL_TEST_EVENTS",
        "FEEDMILL_TEST_FEEDPARSER",
        "FEEDMILL_TEST_NATS",
        "FEEDMILL_TEST_NGINX",
        "FEEDMILL_TEST_POSTGRES",
        "FEEDMILL_TEST_PROMETHEUS",
        "FEEDMILL_TEST_REDIS",
        "FEEDMILL_TEST_S3",
        "FEEDMILL_TEST_SCREENSHOTS",
        "FEEDMILL_TEST_WARCIO",
    ] {
        command.env_remove(name);
    }
    command
}

/// Starts the engine as a process of its own, on the world's clock.
pub(crate) fn engine(world: &World) -> Process {
    start(world, &world.config.data_dir, None, &[])
}

/// The same in a directory of its own, on a database of its own, and with more settings.
pub(crate) fn start(world: &World, dir: &Path, database: Option<&str>, more: &[&str]) -> Process {
    Process::spawn(command(world, dir, database, more).arg("--quiet"))
}

/// The same, not started yet.
pub(crate) fn command(world: &World, dir: &Path, database: Option<&str>, more: &[&str]) -> Command {
    let resolve = format!("fetch.resolve=*.test={}", world.newsroom.addr());
    let mut command = binary();
    command.envs(database.map(|url| ("FEEDMILL_DATABASE__URL", url)));
    command
        .args(["run", "--set", &resolve, "--set", "schedule.sitemap_interval=30m"])
        .args(["--set", ANYWHERE, "--set", "schedule.max_interval=1h"])
        .args(["--set", "fetch.contact=https://newsroom.test/robot", "--data-dir"])
        .arg(dir)
        .args(more.iter().flat_map(|setting| ["--set", setting]))
        .env("FEEDMILL_CLOCK", world.clock.scale().unwrap().to_string())
        .current_dir(world.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// Ends it as an operator would, and waits until it has ended.
pub(crate) fn terminate(child: &mut Child) -> bool {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap().success()
}

/// Moments that look random and are the same in every run.
pub(crate) fn moments() -> impl Iterator<Item = Duration> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(Duration::from_millis(150 + state % 1_200))
    })
}

pub(crate) fn assert_whole(segment: &Path) {
    let mut members = warc::scan(std::fs::File::open(segment).unwrap(), u64::MAX);
    assert!(members.all(|member| member.is_ok()), "{} is torn", segment.display());
    assert_eq!(segment.extension().unwrap(), "gz", "{} is closed", segment.display());
}

/// What was published and is not read yet, and all that is not done.
async fn left(world: &World) -> String {
    let tasks = world.tasks(TaskFilter::default()).await;
    let open =
        tasks.iter().filter(|task| task.state() != State::Fetched && task.kind != Kind::Robots);
    let mut told: Vec<String> = open
        .map(|task| {
            let (state, error) = (task.state(), task.last_error);
            let why = task.reason.as_deref().unwrap_or_default();
            format!("{} {state:?} until {}, {error:?}, {why}", task.url, task.next_fetch_at)
        })
        .collect();
    for story in world.newsroom.published(i64::MAX) {
        if !tasks.iter().any(|task| task.url == story.url) {
            told.push(format!("{} is not known, {:?}", story.url, story.reachable_by));
        }
    }
    told.join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_kills_lose_nothing_double_nothing_and_disturb_nobody() {
    let world = World::with(10, |setup| Setup {
        history: 6,
        rate_per_hour: 4.0,
        day_profile: false,
        publish_until: Some(setup.starts_at + 120 * 60 * 1000),
        ..setup
    })
    .await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;

    for moment in moments().take(usize::try_from(KILLS).unwrap()) {
        let mut child = engine(&world);
        tokio::time::sleep(moment / 3).await;
        assert!(child.try_wait().unwrap().is_none(), "the engine was running");
        child.kill().unwrap();
        child.wait().unwrap();
        hold_in_file(&world.config.database_path());
        assert_eq!(world.store.maintain().await.unwrap(), 0, "a host has a wrong head");
    }

    let mut child = engine(&world);
    let began = Instant::now();
    while world.store.totals().await.unwrap().articles < published {
        if began.elapsed() >= LIMIT {
            child.kill().unwrap();
            panic!(
                "the last run does not come to its end at {}: {}",
                world.clock.now(),
                left(&world).await
            );
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(terminate(&mut child), "an orderly end is a success");

    let report = world.report().await;
    assert!(report.is_perfect(), "{report:#?}");
    let out = world.config.data_dir.join("out");
    let told = lines(&out, "articles");
    places(&told);
    assert_eq!(told.len() as u64, published, "every article is delivered once");
    assert_eq!(lines(&out, "entries").len() as u64, report.entries);
    for segment in std::fs::read_dir(world.config.archive_dir()).unwrap() {
        assert_whole(&segment.unwrap().path());
    }
    hold_in_file(&world.config.database_path());
    hold_archived(&world, &[world.config.archive_dir()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_engine_on_the_same_directory_is_refused() {
    let world = World::new(1, 1).await;
    let mut first = engine(&world);
    let began = Instant::now();
    while !feedmill::db::EngineLock::is_held(&world.config.database_path()) {
        assert!(began.elapsed() < LIMIT, "the first engine starts");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let second = binary()
        .args(["run", "--set", ANYWHERE, "--data-dir"])
        .arg(&world.config.data_dir)
        .current_dir(world.dir())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{told}");
    let pid = first.id().to_string();
    assert!(told.contains("another engine") && told.contains(&pid), "{told}");
    assert!(terminate(&mut first));
}
