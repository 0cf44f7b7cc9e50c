//! Memory of a running engine: after 100,000 articles it needs no more than after 20,000.
//!
//! The engine is the program itself, in a process of its own, so that the newsroom's memory does not
//! count. It stores articles on the embedded database, and is measured when the first 20,000 are stored
//! and at the end: each figure is the mean of the samples taken over the articles just before.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use feedmill::app;
use feedmill::clock::Clock;
use feedmill::config::Span;
use feedmill::demo;
use feedmill_newsroom::{Newsroom, Setup};

use crate::report::{Better, Report, say};

/// Between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program to measure; by default the one built beside this benchmark
    #[arg(long)]
    program: Option<PathBuf>,
    /// Articles after which memory is measured first
    #[arg(long, default_value_t = 20_000)]
    first: u64,
    /// Articles after which it is measured last
    #[arg(long, default_value_t = 100_000)]
    last: u64,
    /// Simulated publishers
    #[arg(long, default_value_t = 300)]
    publishers: usize,
    /// Stories per hour and publisher
    #[arg(long, default_value_t = 4.0)]
    stories_per_hour: f64,
    /// Simulated seconds in a real one
    #[arg(long, default_value_t = 600.0)]
    rate: f64,
    /// Seconds after which an engine that is too slow is given up
    #[arg(long, default_value_t = 1_800)]
    limit: u64,
}

/// The engine's process; it ends with this value.
struct Engine(Child);

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Engine {
    /// A field of the process's status in megabytes, such as `VmRSS`.
    fn status_mb(&self, field: &str) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))
            .context("the engine has ended")?;
        let line = status.lines().find(|line| line.starts_with(field));
        let kb = line.and_then(|line| line.split_whitespace().nth(1)).context("no such field")?;
        Ok(kb.parse::<f64>()? / 1000.0)
    }
}

/// The mean of what was sampled over a number of articles.
#[derive(Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn value(&self) -> f64 {
        self.sum / f64::from(self.count.max(1))
    }
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("feedmill"),
    };
    if !program.exists() {
        bail!("{} is missing: run `cargo build --release` first", program.display());
    }
    let (dir, clock) = (tempfile::tempdir()?, Clock::fast(args.rate));
    let reading = clock.clone();
    let newsroom = Newsroom::start(Setup {
        publishers: args.publishers,
        rate_per_hour: args.stories_per_hour,
        day_profile: false,
        keep_log: false,
        ..Setup::new(Arc::new(move || reading.now().ms()))
    })
    .await?;
    let options = demo::Options {
        publishers: args.publishers,
        seed: 1,
        rate: args.rate,
        publish_for: Duration::MAX,
        limit: Duration::MAX,
        dir: dir.path().to_owned(),
        keep: true,
    };
    let mut config = demo::config(&options, &newsroom)?;
    config.schedule.default_interval = Span::minutes(60);
    let store = app::open(&config, &clock).await?;
    demo::follow(&newsroom, &*store).await?;

    let mut engine = start(&program, &newsroom, &clock, dir.path())?;
    let mut report = Report::new("memory");
    // The samples of the last twentieth before each mark.
    let (mut at_first, mut at_last) = (Mean::default(), Mean::default());
    let (began, mut told) = (Instant::now(), 0);
    loop {
        tokio::time::sleep(SAMPLE_INTERVAL).await;
        if let Some(status) = engine.0.try_wait()? {
            bail!("the engine ended with {status}");
        }
        let articles = store.totals().await?.articles;
        let resident = engine.status_mb("VmRSS")?;
        let is_just_before = |mark: u64| (mark - mark / 20..=mark).contains(&articles);
        if is_just_before(args.first) {
            at_first.add(resident);
        } else if is_just_before(args.last) {
            at_last.add(resident);
        }
        if articles / 10_000 > told {
            told = articles / 10_000;
            say(&format!("{articles} articles: {resident:.0} MB"))?;
        }
        if articles >= args.last {
            break;
        }
        if began.elapsed() > Duration::from_secs(args.limit) {
            bail!("{articles} articles after {} s: this machine is too slow", args.limit);
        }
    }
    report.figure("seconds", began.elapsed().as_secs_f64());
    report.figure("resident_mb_at_first_mark", at_first.value());
    report.figure("resident_mb_at_last_mark", at_last.value());
    report.figure("peak_mb", engine.status_mb("VmHWM")?);
    report.bar("growth", at_last.value() / at_first.value(), 1.1, Better::Lower);
    drop(engine);
    store.close().await;
    newsroom.stop().await;
    Ok(report)
}

/// Starts the engine on the publishers that the store in `dir` knows.
fn start(program: &Path, newsroom: &Newsroom, clock: &Clock, dir: &Path) -> anyhow::Result<Engine> {
    let scale = clock.scale().context("a scaled clock")?;
    let settings = [
        format!("fetch.resolve=*.test={}", newsroom.addr()),
        "fetch.contact=https://newsroom.test/robot".to_owned(),
        "schedule.policy=fixed".to_owned(),
        "schedule.default_interval=1h".to_owned(),
        "schedule.max_interval=1h".to_owned(),
        "schedule.sitemap_interval=1h".to_owned(),
        "fetch.workers=10".to_owned(),
        "sources.max_bytes_per_day=0B".to_owned(),
        "retention.min_free=0B".to_owned(),
        "api.listen=127.0.0.1:0".to_owned(),
    ];
    let mut command = Command::new(program);
    command.args(["run", "--quiet", "--data-dir"]).arg(dir);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    command.env("FEEDMILL_CLOCK", scale.to_string()).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(Engine(command.spawn()?))
}
