//! `feedmill run`: the engine until it is told to stop. `feedmill once` shares it.

use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{Context, Failure, text};
use crate::app::{self, Mode, Progress, Reload, RunOptions, Snapshot};
use crate::config::{Config, LoadOptions, Loaded, load};
use crate::model::Lane;

/// Follows the sources until it is stopped
///
/// The first SIGINT (Ctrl-C) or SIGTERM finishes what is in flight, the second one ends at once.
/// SIGHUP reads the configuration again.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) lanes: Lanes,
}

/// Which part of the work to do.
#[derive(Debug, clap::Args)]
pub(super) struct Lanes {
    /// Serves only these: poll (feeds, sitemaps), page (articles), media
    #[arg(long, value_delimiter = ',', value_name = "LANE,…")]
    lanes: Vec<Lane>,
}

impl Lanes {
    pub(super) fn chosen(&self) -> Vec<Lane> {
        if self.lanes.is_empty() { Lane::ALL.to_vec() } else { self.lanes.clone() }
    }
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let loaded = context.load()?;
    greet(&loaded, context).await?;
    let level = loaded.config.log.level;
    let engine = Engine::new(context);
    context.log(&loaded, level, Some(&engine.line));
    let options = RunOptions { mode: Mode::Forever, lanes: args.lanes.chosen() };
    let snapshot = engine.run(&loaded.config, options).await?;
    context.out.done(&snapshot, &summary(&snapshot))
}

/// Tells where it works and what for.
async fn greet(loaded: &Loaded, context: &Context) -> Result<(), Failure> {
    warn_without_contact(&loaded.config, context);
    let store = context.open(&loaded.config).await?;
    let followed = store.sources().await?.iter().filter(|source| source.enabled()).count();
    store.close().await;
    let (dir, followed) =
        (loaded.config.data_dir.display(), text::count(followed as u64, "source"));
    context.out.note(&format!("following {followed}; everything is in {dir}; Ctrl-C stops"));
    Ok(())
}

pub(super) fn warn_without_contact(config: &Config, context: &Context) {
    if config.fetch.contact.is_empty() && config.fetch.agent.is_empty() {
        context.out.warn(
            "no contact is set: give fetch.contact a page or mail address, so that publishers can ask before they block",
        );
    }
}

/// The engine with its line of progress and its signals.
pub(super) struct Engine<'a> {
    context: &'a Context,
    pub(super) line: ProgressBar,
}

/// A line that tells how things go, where somebody watches.
pub(super) fn progress_line(context: &Context) -> ProgressBar {
    if context.out.watched() { ProgressBar::new_spinner() } else { ProgressBar::hidden() }
}

impl<'a> Engine<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        Self { context, line: progress_line(context) }
    }

    /// Runs until the work is done or a signal says to stop.
    pub(super) async fn run(
        &self,
        config: &Config,
        options: RunOptions,
    ) -> Result<Snapshot, Failure> {
        let (stop, progress) = (CancellationToken::new(), Arc::new(Progress::default()));
        let (mut signals, mut hangups) = (Signals::listen()?, listen(SignalKind::hangup())?);
        let read = self.context.load_options();
        let reload = Reload::new(move |kept| load(&LoadOptions { kept, ..read.clone() }));
        let clock = &self.context.clock;
        let (stopping, watched) = (stop.clone(), Arc::clone(&progress));
        let engine =
            app::run_reloading(config, clock, options, stopping, watched, Some(reload.clone()));
        tokio::pin!(engine);
        let pace = if self.line.is_hidden() {
            Duration::from_secs(60)
        } else {
            Duration::from_millis(250)
        };
        let mut tick = tokio::time::interval(pace);
        tick.tick().await;
        loop {
            tokio::select! {
                done = &mut engine => {
                    self.line.finish_and_clear();
                    return Ok(done?);
                }
                () = signals.next() => {
                    if stop.is_cancelled() {
                        self.line.finish_and_clear();
                        let message = "stopped at once: what was in flight is asked for again after the next start";
                        return Err(Failure::failed("stopped", message));
                    }
                    stop.cancel();
                    self.line.suspend(|| self.context.out.note("stopping: finishing what is in flight; once more ends at once"));
                }
                _ = hangups.recv() => reload.ask(),
                _ = tick.tick() => self.tell(&progress.snapshot()),
            }
        }
    }

    fn tell(&self, now: &Snapshot) {
        if self.line.is_hidden() {
            tracing::info!(
                requests = now.requests,
                entries = now.entries,
                articles = now.articles,
                errors = now.errors,
                in_flight = now.in_flight,
                paused = now.paused,
                "progress"
            );
        } else {
            self.line.set_message(live(now));
            self.line.tick();
        }
    }
}

/// The two ways to ask for an end.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    let failed = |error| Failure::failed("signals", format!("cannot listen to signals: {error}"));
    signal(kind).map_err(failed)
}

fn live(now: &Snapshot) -> String {
    let paused = now.paused.iter().map(|reason| format!(", paused: {reason}")).collect::<String>();
    format!("{}, {} in flight{paused}", summary(now), text::number(now.in_flight))
}

/// One line that says what was done.
pub(super) fn summary(done: &Snapshot) -> String {
    let unchanged = match done.not_modified {
        0 => String::new(),
        n => format!(" ({} unchanged)", text::number(n)),
    };
    let (requests, bytes) = (text::count(done.requests, "request"), text::bytes(done.bytes));
    let entries = match done.entries {
        1 => "1 entry".to_owned(),
        n => format!("{} entries", text::number(n)),
    };
    let (articles, failed) = (text::count(done.articles, "article"), text::number(done.errors));
    format!("{requests}{unchanged}, {bytes}, {entries}, {articles}, {failed} failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_fits_on_a_line() {
        let done = Snapshot {
            requests: 1_234,
            not_modified: 1_000,
            bytes: 5_600_000,
            entries: 1,
            articles: 2,
            errors: 3,
            in_flight: 4,
            paused: Some("the disk is full".into()),
            ..Snapshot::default()
        };
        assert_eq!(
            summary(&done),
            "1,234 requests (1,000 unchanged), 5.6 MB, 1 entry, 2 articles, 3 failed"
        );
        assert!(live(&done).ends_with(", 4 in flight, paused: the disk is full"));
    }
}
