//! The API under load: lists of a store of a million rows, asked for at a steady rate while the engine
//! follows a newsroom. The time of a request counts from when it was to be sent, so that a server that
//! falls behind cannot hide it.

mod fill;
mod load;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use feedmill::api;
use feedmill::app::{self, Mode, Progress, Reload, RunOptions};
use feedmill::clock::Clock;
use feedmill::demo;
use feedmill::model::Lane;
use feedmill_newsroom::{Newsroom, Setup};
use tokio_util::sync::CancellationToken;

use crate::report::{Better, Report, rss_mb, say};
use load::{LISTS, Times};

/// The longest that 99 of 100 requests may take, in milliseconds.
const BAR_MS: f64 = 50.0;
/// Simulated seconds in a real one: news comes all the time.
const RATE: f64 = 60.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Addresses in the queue; entries, articles, events and requests are a third as many each
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(10_000..))]
    rows: u32,
    /// Requests a second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// How long, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Publishers that are followed meanwhile
    #[arg(long, default_value_t = 100)]
    publishers: usize,
    /// Measure on this PostgreSQL instead: an empty database of a throw-away server
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let dir = tempfile::tempdir()?;
    let clock = Clock::fast(RATE);
    let reading = clock.clone();
    let setup = Setup::new(Arc::new(move || reading.now().ms()));
    let newsroom =
        Newsroom::start(Setup { publishers: args.publishers, keep_log: false, ..setup }).await?;
    let options = demo::Options {
        publishers: args.publishers,
        seed: 1,
        rate: RATE,
        publish_for: Duration::MAX,
        limit: Duration::MAX,
        dir: dir.path().to_owned(),
        keep: true,
    };
    let mut config = demo::config(&options, &newsroom)?;
    config.database.url = args.postgres.clone().unwrap_or_default().into();
    config.api.listen.set_port(0);
    config.api.rate_limit = 0;
    let store = app::open(&config, &clock).await?;
    say(&format!("making {} addresses and what belongs to them", args.rows))?;
    let filled = Instant::now();
    fill::fill(&config, &*store, clock.now(), args.rows).await?;
    let mut report = Report::new("api");
    report.figure("rows", f64::from(args.rows));
    report.figure("fill_s", filled.elapsed().as_secs_f64());
    demo::follow(&newsroom, &*store).await?;

    let (stop, progress) = (CancellationToken::new(), Arc::new(Progress::default()));
    let reload = Reload::fixed(&config);
    let server = api::listen(&config, &clock, reload, Arc::clone(&progress), stop.clone()).await?;
    let address = server.address();
    let running = RunOptions { mode: Mode::Forever, lanes: Lane::ALL.to_vec() };
    let engine = app::run(&config, &clock, running, stop.clone(), Arc::clone(&progress));
    let measured = async {
        let measured =
            load::load((address, clock.now()), (args.rate, args.seconds), &progress).await;
        stop.cancel();
        measured
    };
    let (ran, (), measured) = tokio::join!(engine, server.run(), measured);
    ran?;
    tell(&mut report, measured?)?;
    report.figure("rss_mb", rss_mb()?);
    store.close().await;
    newsroom.stop().await;
    Ok(report)
}

fn tell(report: &mut Report, measured: load::Measured) -> anyhow::Result<()> {
    let load::Measured { lists, crawled } = measured;
    anyhow::ensure!(crawled > 0, "nothing was crawled meanwhile");
    report.figure("crawled", crawled as f64);
    let mut all = Times::default();
    let mut resources: Vec<(&'static [&'static str; 3], Times)> = Vec::new();
    for (list, times) in LISTS.iter().zip(lists) {
        let (p50, p99, max) = times.p50_p99_max().context("a list was never asked for")?;
        let path = list.path;
        say(&format!("{path:<44} p50 {p50:>7.1}  p99 {p99:>7.1}  max {max:>7.1} ms"))?;
        all.extend(&times);
        match resources.iter_mut().find(|(names, _)| *names == list.figures) {
            Some((_, sum)) => sum.extend(&times),
            None => resources.push((list.figures, times)),
        }
    }
    for ([median, late, worst], times) in resources {
        let (p50, p99, max) = times.p50_p99_max().context("no times")?;
        report.figure(median, p50);
        report.figure(late, p99);
        report.figure(worst, max);
    }
    let (p50, p99, max) = all.p50_p99_max().context("no times")?;
    report.figure("requests", all.count() as f64);
    report.figure("all_p50_ms", p50);
    report.bar("all_p99_ms", p99, BAR_MS, Better::Lower);
    report.figure("all_max_ms", max);
    Ok(())
}
