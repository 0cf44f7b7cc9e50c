//! The command line: one file per command, each of which reads its arguments, asks the library and
//! tells what came of it.
//!
//! Nothing is decided here. Results go to standard output, as text for people or with `--json` for
//! machines; everything else goes to standard error. The exit code is 0 when it worked, 1 when it
//! did not, 2 when the command line or the configuration has to change first.

mod api;
mod article;
mod backup;
mod channel;
mod completions;
mod config;
mod demo;
mod disk;
mod doctor;
mod document;
mod etiquette;
mod events;
mod explain;
mod export;
mod extract;
mod failure;
mod forget;
mod frontier;
mod host;
mod init;
mod logs;
mod meter;
mod migrate;
mod move_;
mod once;
mod out;
mod parse;
mod places;
mod raw;
mod replay;
mod restore;
mod run;
mod select;
mod sink;
mod source;
mod submit;
mod sweep;
mod text;
mod token;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use clap::{ArgAction, Args, Parser, Subcommand};
use indicatif::ProgressBar;

use crate::app;
use crate::clock::{Clock, Scale};
use crate::config::{Config, Level, LoadOptions, Loaded};
use crate::store::Store;
use crate::telemetry::Telemetry;

use failure::Failure;
use out::Out;

/// Turns a list of publishers into a clean, deduplicated, replayable stream of articles.
#[derive(Debug, Parser)]
#[command(name = "feedmill", version, arg_required_else_help = true, after_help = QUICK_START)]
pub struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

const QUICK_START: &str = "\
Quick start:
  feedmill init --contact https://example.org/about-our-bot
  feedmill source add https://example.com/feed.xml
  feedmill run";

/// What every command takes.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
struct Globals {
    /// The configuration file [default: feedmill.toml in the current directory, if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The directory of the database, the archive and the output
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<String>,
    /// Sets a configuration key, such as fetch.workers=20; can be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    /// Prints the result as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Prints results and errors only
    #[arg(long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Logs more; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Prints without colours
    #[arg(long, global = true)]
    no_color: bool,
    /// Runs on a scaled clock: rate, origin and start
    #[arg(long, global = true, hide = true, env = "FEEDMILL_CLOCK", value_name = "SPEC")]
    clock: Option<Scale>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Args),
    Run(run::Args),
    Once(once::Args),
    Demo(demo::Args),
    #[command(subcommand)]
    Source(source::Command),
    #[command(subcommand)]
    Sink(sink::Command),
    Export(export::Args),
    Forget(forget::Args),
    #[command(subcommand)]
    Frontier(frontier::Command),
    #[command(subcommand)]
    Host(host::Command),
    #[command(subcommand)]
    Article(article::Command),
    #[command(subcommand)]
    Raw(raw::Command),
    Replay(replay::Args),
    Explain(explain::Args),
    Etiquette(etiquette::Args),
    Events(events::Args),
    Extract(extract::Args),
    Parse(parse::Args),
    #[command(subcommand)]
    Migrate(migrate::Command),
    #[command(subcommand)]
    Config(config::Command),
    Backup(backup::Args),
    Restore(restore::Args),
    Move(move_::Args),
    Doctor(doctor::Args),
    Disk(disk::Args),
    #[command(subcommand)]
    Token(token::Command),
    #[command(subcommand)]
    Api(api::Command),
    Completions(completions::Args),
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.to_owned()))
        }
        _ => Err("write KEY=VALUE, such as fetch.workers=20".to_owned()),
    }
}

/// Reads the command line, or says what is wrong with it and how the process ends.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, ExitCode> {
    let args: Vec<_> = args.into_iter().collect();
    Cli::try_parse_from(&args).map_err(|error| {
        if failure::is_help(&error) {
            // Whoever asked for help and closed the pipe has read enough.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
        // The flag could not be read, but it was there.
        let json = args.iter().any(|arg| arg == "--json");
        Out::new(json, false, true).failure(&Failure::from(error))
    })
}

/// Does what the command line says.
#[must_use]
pub fn run(cli: &Cli) -> ExitCode {
    let mut context = Context::new(cli.globals.clone());
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return context.out.failure(&Failure::failed("runtime", error.to_string())),
    };
    let done = runtime.block_on(dispatch(&cli.command, &context));
    // Whatever is left is not waited for: an orderly end has ended it, and at the second signal
    // nothing may hold the process.
    runtime.shutdown_background();
    context.telemetry.take().unwrap_or_default().end();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => context.out.failure(&failure),
    }
}

async fn dispatch(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Init(args) => init::run(args, context).await,
        Command::Run(args) => run::run(args, context).await,
        Command::Once(args) => once::run(args, context).await,
        Command::Demo(args) => demo::run(args, context).await,
        Command::Source(command) => source::run(command, context).await,
        Command::Sink(command) => sink::run(command, context).await,
        Command::Export(args) => export::run(args, context).await,
        Command::Forget(args) => forget::run(args, context).await,
        Command::Frontier(command) => frontier::run(command, context).await,
        Command::Host(command) => host::run(command, context).await,
        Command::Article(command) => article::run(command, context).await,
        Command::Raw(command) => raw::run(command, context).await,
        Command::Replay(args) => replay::run(args, context).await,
        Command::Explain(args) => explain::run(args, context).await,
        Command::Etiquette(args) => etiquette::run(args, context).await,
        Command::Events(args) => events::run(args, context).await,
        Command::Extract(args) => extract::run(args, context).await,
        Command::Parse(args) => parse::run(args, context).await,
        Command::Migrate(command) => migrate::run(command, context).await,
        Command::Config(command) => config::run(command, context).await,
        Command::Backup(args) => backup::run(args, context).await,
        Command::Restore(args) => restore::run(args, context).await,
        Command::Move(args) => move_::run(args, context).await,
        Command::Doctor(_) => doctor::run(context).await,
        Command::Disk(_) => disk::run(context),
        Command::Token(command) => token::run(command, context).await,
        Command::Api(command) => api::run(command, context),
        Command::Completions(args) => completions::run(args, context),
    }
}

/// What every command is given.
struct Context {
    globals: Globals,
    out: Out,
    clock: Clock,
    telemetry: OnceLock<Telemetry>,
}

impl Context {
    fn new(globals: Globals) -> Self {
        let out = Out::new(globals.json, globals.quiet, globals.no_color);
        let clock = globals.clock.map_or_else(Clock::system, Clock::scaled);
        Self { globals, out, clock, telemetry: OnceLock::new() }
    }

    fn load_options(&self) -> LoadOptions {
        let mut options =
            LoadOptions { file: self.globals.config.clone(), ..LoadOptions::from_process() };
        options.overrides.clone_from(&self.globals.set);
        if let Some(dir) = &self.globals.data_dir {
            options.overrides.push(("data_dir".to_owned(), dir.clone()));
        }
        options
    }

    /// Reads the configuration, and passes on what it warns of.
    fn load(&self) -> Result<Loaded, Failure> {
        self.load_with(&self.load_options())
    }

    fn load_with(&self, options: &LoadOptions) -> Result<Loaded, Failure> {
        let loaded = crate::config::load(options)?;
        for warning in &loaded.warnings {
            self.out.warn(warning);
        }
        Ok(loaded)
    }

    /// The store, beside an engine that may be running. Looking must not make one.
    async fn store(&self) -> Result<Arc<dyn Store>, Failure> {
        let config = self.load()?.config;
        let path = config.database_path();
        if config.postgres_url().is_none() && !path.exists() {
            let message = format!(
                "there is no database at {} yet: `feedmill init` makes one, --data-dir names another place",
                path.display()
            );
            return Err(Failure::failed("no_database", message));
        }
        self.store_or_new().await
    }

    /// The store, made when there is none.
    async fn store_or_new(&self) -> Result<Arc<dyn Store>, Failure> {
        let loaded = self.load()?;
        self.log(&loaded, Level::Warn, None);
        self.open(&loaded.config).await
    }

    /// Starts logging: as told on the command line, else as configured, else from `usual` on.
    fn log(&self, loaded: &Loaded, usual: Level, progress: Option<&ProgressBar>) {
        let log = &loaded.config.log;
        let level = match self.globals.verbose {
            0 if self.globals.quiet => Level::Error,
            0 if loaded.origins.contains_key("log.level") => log.level,
            0 => usual,
            1 => Level::Debug,
            _ => Level::Trace,
        };
        match logs::start(&loaded.config, level, self.out.log_color(), progress) {
            // The first one stays: a second start changed nothing.
            Ok(telemetry) => drop(self.telemetry.set(telemetry)),
            Err(error) => self.out.warn(&error.to_string()),
        }
    }

    async fn open(&self, config: &Config) -> Result<Arc<dyn Store>, Failure> {
        Ok(app::open(config, &self.clock).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn verify_cli() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_is_for() {
        fn check(command: &clap::Command) {
            let name = command.get_name();
            assert!(
                command.get_about().is_some_and(|about| !about.to_string().is_empty()),
                "{name}"
            );
            for arg in command.get_arguments() {
                assert!(arg.get_help().is_some(), "{name} {}", arg.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn flags_become_overrides_and_the_directory_wins() {
        let cli = Cli::try_parse_from([
            "feedmill",
            "disk",
            "--data-dir",
            "here",
            "--set",
            "fetch.workers=20",
            "--set",
            "data_dir=there",
        ]);
        let context = Context::new(cli.unwrap().globals);
        let loaded = context.load_options().overrides;
        let expected = [("fetch.workers", "20"), ("data_dir", "there"), ("data_dir", "here")];
        assert_eq!(loaded, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert!(Cli::try_parse_from(["feedmill", "disk", "--set", "workers"]).is_err());
    }
}
