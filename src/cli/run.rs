//! `feedmill run`: the engine until it is told to stop. `feedmill once` shares it.

use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{Context, Failure, text};
use crate::api::{self, Listening};
use crate::app::{self, Mode, Progress, Reload, RunOptions, Snapshot};
use crate::config::{Config, LoadOptions, Loaded, Target, load};
use crate::model::Lane;

/// Follows the sources until it is stopped
///
/// The first SIGINT (Ctrl-C) or SIGTERM finishes what is in flight, the second one ends at once.
/// SIGHUP reads the configuration again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill run
  feedmill run --roles api
  feedmill run --roles fetch,sink --lanes page,media")]
pub(super) struct Args {
    /// Does only these: fetch (ask publishers), sink (hand events on), api (serve HTTP) [default: all]
    ///
    /// With api alone it works beside an engine, also on the same directory.
    #[arg(long, value_delimiter = ',', value_name = "ROLE,…")]
    roles: Vec<Role>,
    #[command(flatten)]
    pub(super) lanes: Lanes,
}

/// A part of what `run` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    Fetch,
    Sink,
    Api,
}

impl Args {
    fn has(&self, role: Role) -> bool {
        self.roles.is_empty() || self.roles.contains(&role)
    }
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
    let mut config = loaded.config.clone();
    if !args.has(Role::Sink) {
        config.sinks.clear();
    }
    let lanes = if args.has(Role::Fetch) { args.lanes.chosen() } else { Vec::new() };
    let (stop, progress) = (CancellationToken::new(), Arc::new(Progress::default()));
    let api = match args.has(Role::Api) {
        true => Some(engine.listen(&loaded.config, &progress, &stop).await?),
        false => None,
    };
    let is_alone = !args.has(Role::Fetch) && !args.has(Role::Sink);
    let (mut present, ending) = (None, app::Ending::new(stop.clone()));
    if is_alone && api.is_some() {
        present = Some(app::be_present(&config, &context.clock, &ending).await?);
    }
    if let Some(api) = &api {
        context.out.note(&format!("the dashboard and the API are at http://{}/", api.address()));
        show_login(api, context);
    }
    if is_alone {
        engine.serve(api, stop).await?;
        if let Some(present) = present {
            present.end().await;
        }
        return Ok(ending.result()?);
    }
    let options = RunOptions { mode: Mode::Forever, lanes };
    let working = engine.run_beside(&config, options, progress, stop.clone());
    let serving = async {
        if let Some(api) = api {
            api.run().await;
        }
    };
    let working = async {
        let done = working.await;
        // Whatever ended the engine ends the server.
        stop.cancel();
        done
    };
    let (snapshot, ()) = tokio::join!(working, serving);
    report(&snapshot?, &config, context)
}

/// Shows the login link, on a terminal only: whatever reads our output elsewhere may be a log.
fn show_login(api: &Listening, context: &Context) {
    if let Some(link) = context.out.watched().then(|| api.login_link()).flatten() {
        context.out.note(&format!("log in as administrator, for this run: {link}"));
    }
}

/// Tells what was done, beside standard output when that is a sink's.
pub(super) fn report(done: &Snapshot, config: &Config, context: &Context) -> Result<(), Failure> {
    if config.sinks.values().any(|sink| matches!(sink.target, Target::Stdout {})) {
        context.out.note(&summary(done));
        return Ok(());
    }
    context.out.done(done, &summary(done))
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

    fn reload(&self) -> Reload {
        let read = self.context.load_options();
        Reload::new(move |kept| load(&LoadOptions { kept, ..read.clone() }))
    }

    /// Listens for those who want to look.
    async fn listen(
        &self,
        config: &Config,
        progress: &Arc<Progress>,
        stop: &CancellationToken,
    ) -> Result<Listening, Failure> {
        let (clock, progress) = (&self.context.clock, Arc::clone(progress));
        Ok(api::listen(config, clock, self.reload(), progress, stop.clone()).await?)
    }

    /// Serves HTTP and does nothing else, until a signal says to stop.
    async fn serve(&self, api: Option<Listening>, stop: CancellationToken) -> Result<(), Failure> {
        let Some(api) = api else { return Ok(()) };
        let mut signals = Signals::listen()?;
        let serving = api.run_alone();
        tokio::pin!(serving);
        loop {
            tokio::select! {
                () = &mut serving => return Ok(()),
                () = signals.next() => {
                    if stop.is_cancelled() {
                        return Err(Failure::failed("stopped", "stopped at once"));
                    }
                    stop.cancel();
                }
            }
        }
    }

    /// Runs until the work is done or a signal says to stop.
    pub(super) async fn run(
        &self,
        config: &Config,
        options: RunOptions,
    ) -> Result<Snapshot, Failure> {
        self.run_beside(config, options, Arc::default(), CancellationToken::new()).await
    }

    /// The same, and stops others with it.
    async fn run_beside(
        &self,
        config: &Config,
        options: RunOptions,
        progress: Arc<Progress>,
        stop: CancellationToken,
    ) -> Result<Snapshot, Failure> {
        let (mut signals, mut hangups) = (Signals::listen()?, listen(SignalKind::hangup())?);
        let reload = self.reload();
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
