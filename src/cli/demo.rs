//! `feedmill demo`: the whole pipeline against a simulated web of publishers, offline.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::run::{Signals, progress_line, summary};
use super::{Context, Failure, places, text};
use crate::clock::Clock;
use crate::demo::{self, DemoError, Options, Report};
use crate::model::new_uuid;
use crate::schedule::human;
use crate::store::SourceError;

/// How long the last stories may take to be found, in real time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Without a terminal, every so many looks are worth a line.
const NOTE_EVERY: u32 = 15;

/// Shows the whole pipeline against simulated publishers, without the internet
///
/// Hours of news pass in seconds; in the end what was gathered is held against what was published.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many publishers to simulate
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=5000))]
    publishers: u16,
    /// Everything simulated follows from this number
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many simulated seconds pass in a real one
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rate: u16,
    /// How many real seconds news appears
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Where to keep what is gathered [default: a new directory for temporary files]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Goes on until it is stopped
    #[arg(long)]
    keep: bool,
}

/// A directory that nobody can have made before, for this user alone: others may write where it is.
fn new_temporary_dir() -> Result<PathBuf, Failure> {
    let dir =
        std::env::temp_dir().join(format!("feedmill-demo-{}", new_uuid(Clock::system().now())));
    let made = DirBuilder::new().mode(0o700).create(&dir);
    made.map_err(|error| {
        let message =
            format!("cannot make {}: {error}; name a directory with --dir", dir.display());
        Failure::failed("data_dir", message)
    })?;
    Ok(dir)
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => new_temporary_dir()?,
    };
    let publish_for = Duration::from_secs(u64::from(args.seconds));
    if places::taken(&dir).is_ok_and(|taken| taken.files > 0) {
        let message = format!("{} is in use: name a new directory with --dir", dir.display());
        return Err(Failure::usage("data_dir_in_use", message));
    }
    let options = Options {
        publishers: usize::from(args.publishers),
        seed: args.seed,
        rate: f64::from(args.rate),
        publish_for,
        limit: publish_for + PATIENCE,
        dir,
        keep: args.keep,
    };
    context.out.note(&format!(
        "{} publishers on loopback, {} of news in {} s; everything goes to {}",
        options.publishers,
        human(publish_for.mul_f64(options.rate)),
        publish_for.as_secs(),
        options.dir.display(),
    ));
    let line = progress_line(context);
    let mut ticks = 0;
    let stop = CancellationToken::new();
    let mut signals = Signals::listen()?;
    let shown = demo::run(&options, stop.clone(), |watch| {
        if ticks == 0 {
            context.out.note(&format!("the dashboard is at http://{}/", watch.dashboard));
            if let Some(link) = watch.login.as_ref().filter(|_| context.out.watched()) {
                context.out.note(&format!("log in as administrator, for this run: {link}"));
            }
        }
        let message = format!(
            "{:>6} simulated, {} published; {}",
            human(watch.simulated),
            watch.published,
            summary(&watch.progress)
        );
        if !context.out.watched() && ticks % NOTE_EVERY == 0 {
            context.out.note(&message);
        }
        ticks += 1;
        line.set_message(message);
        line.tick();
    });
    tokio::pin!(shown);
    let report = loop {
        tokio::select! {
            shown = &mut shown => break shown,
            () = signals.next() => {
                if stop.is_cancelled() {
                    return Err(Failure::failed("stopped", "stopped at once"));
                }
                stop.cancel();
            }
        }
    };
    line.finish_and_clear();
    let report = report?;
    context.out.emit(&report, |_| told(&report))?;
    match report.is_perfect() || args.keep || stop.is_cancelled() {
        true => Ok(()),
        false => {
            Err(Failure::failed("demo_imperfect", "what was gathered is not what was published"))
        }
    }
}

/// What was gathered, for people.
fn told(report: &Report) -> String {
    let n = text::number;
    let found = report.published - report.missing.min(report.published);
    let saved = report.not_modified * 100 / report.requests.max(1);
    let span = |seconds| human(Duration::from_secs(seconds));
    let mut lines = vec![
        ("publishers", n(report.publishers)),
        ("entries", n(report.entries)),
        ("articles", format!("{} of {} stories found", n(found), n(report.published))),
        ("exactly once", verdict(report.doubled + report.unknown, "too many")),
        ("same text", verdict(report.text_differs, "differ")),
        ("duplicates", format!("{} word for word another publisher's", n(report.duplicates))),
        ("requests", format!("{}, {saved} % answered 304 not modified", n(report.requests))),
        ("polite", verdict(report.impolite_requests, "requests broke a rule")),
        ("bytes", text::bytes(report.bytes)),
        (
            "discovery",
            format!(
                "half within {} of publication, 95 % within {}",
                span(report.discovery_p50_s),
                span(report.discovery_p95_s)
            ),
        ),
        ("time", format!("{} of news in {:.1} s", span(report.simulated_seconds), report.seconds)),
        ("", String::new()),
        ("look at", format!("{}/out/articles", report.data_dir)),
        ("", format!("feedmill --data-dir {} article list", report.data_dir)),
        ("", format!("feedmill --data-dir {} frontier stats", report.data_dir)),
    ];
    lines.extend(report.differing.iter().map(|url| ("differs", url.clone())));
    lines.extend(report.impolite.iter().map(|one| ("impolite", one.clone())));
    let line = |(name, value): (&str, String)| format!("{name:<13} {value}").trim_end().to_owned();
    lines.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

fn verdict(wrong: u64, what: &str) -> String {
    if wrong == 0 { "yes".to_owned() } else { format!("no: {} {what}", text::number(wrong)) }
}

impl From<DemoError> for Failure {
    fn from(error: DemoError) -> Self {
        match error {
            DemoError::Api(inner) => inner.into(),
            DemoError::App(inner) => inner.into(),
            DemoError::Source(inner) => SourceError::into(inner),
            DemoError::Db(inner) => inner.into(),
            DemoError::Newsroom(_) | DemoError::Resolve(_) => {
                Self::failed("newsroom", error.to_string())
            }
        }
    }
}
