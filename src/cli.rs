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
mod rebuild;
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

use clap::{ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
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

/// What every command takes, before its name and after it.
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
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    /// Prints the result as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Prints results and errors only
    #[arg(long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Logs more; twice for everything
    #[arg(short, long, action = ArgAction::Count)]
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
    Rebuild(rebuild::Args),
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

/// Global options that can be repeated. To clap a global option has one place, and what was given
/// before a command is dropped when it is given again after it, so every command has its own.
const REPEATABLE: [&str; 2] = ["set", "verbose"];

/// All commands and their options.
fn commands() -> clap::Command {
    fn with(command: clap::Command, options: &[clap::Arg]) -> clap::Command {
        command.mut_subcommands(|sub| with(sub.args(options.iter().cloned()), options))
    }
    let command = Cli::command();
    let is_repeatable = |arg: &&clap::Arg| REPEATABLE.contains(&arg.get_id().as_str());
    let options: Vec<_> = command.get_arguments().filter(is_repeatable).cloned().collect();
    with(command, &options)
}

/// What a command line says.
fn read(args: &[OsString]) -> Result<Cli, clap::Error> {
    let matches = commands().try_get_matches_from(args)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let mut deeper = matches.subcommand();
    while let Some((_, matches)) = deeper {
        cli.globals.add(matches);
        deeper = matches.subcommand();
    }
    if cli.globals.quiet && cli.globals.verbose > 0 {
        let message = "the argument '--quiet' cannot be used with '--verbose'";
        return Err(commands().error(clap::error::ErrorKind::ArgumentConflict, message));
    }
    Ok(cli)
}

impl Globals {
    /// Adds what was given after a command to what was given before it.
    fn add(&mut self, matches: &ArgMatches) {
        let set = matches.get_many::<(String, String)>("set");
        self.set.extend(set.into_iter().flatten().cloned());
        self.verbose = self.verbose.saturating_add(matches.get_count("verbose"));
    }
}

/// Reads the command line, or says what is wrong with it and how the process ends.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, ExitCode> {
    let args: Vec<_> = args.into_iter().collect();
    read(&args).map_err(|error| {
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
        Command::Rebuild(args) => rebuild::run(args, context).await,
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
            app::check_file(&config)?;
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

    fn cli(line: &str) -> Result<Cli, clap::Error> {
        read(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn verify_cli() {
        commands().debug_assert();
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
        check(&commands());
    }

    #[test]
    fn flags_become_overrides_and_the_directory_wins() {
        let cli = cli("feedmill disk --data-dir here --set fetch.workers=20 --set data_dir=there");
        let context = Context::new(cli.unwrap().globals);
        let loaded = context.load_options().overrides;
        let expected = [("fetch.workers", "20"), ("data_dir", "there"), ("data_dir", "here")];
        assert_eq!(loaded, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert!(
            super::read(&["feedmill", "disk", "--set", "workers"].map(OsString::from)).is_err()
        );
    }

    /// A new global option that takes many values has to be listed, or what is given before the
    /// command is dropped.
    #[test]
    fn every_option_that_can_be_repeated_is_known_to_be() {
        let repeated = |arg: &&clap::Arg| {
            matches!(arg.get_action(), ArgAction::Append | ArgAction::Count)
                && !matches!(arg.get_id().as_str(), "help" | "version")
        };
        let command = Cli::command();
        let found: Vec<_> =
            command.get_arguments().filter(repeated).map(|arg| arg.get_id().as_str()).collect();
        assert_eq!(found, REPEATABLE);
    }

    #[test]
    fn options_before_and_after_the_command_are_taken_together_in_order() {
        let read = |line: &str| {
            let globals = cli(line).unwrap().globals;
            let keys: Vec<String> = globals.set.into_iter().map(|(key, _)| key).collect();
            (keys.join(" "), globals.verbose)
        };
        for (line, keys, verbose) in [
            ("feedmill --set a=1 -v source --set b=2 -v list --set c=3 -v --set d=4", "a b c d", 3),
            ("feedmill --set a=1 --set b=2 source list -vv", "a b", 2),
            ("feedmill -v source list --set a=1", "a", 1),
            ("feedmill source list", "", 0),
        ] {
            assert_eq!(read(line), (keys.to_owned(), verbose), "{line}");
        }
        let json = cli("feedmill --json source list").unwrap().globals;
        assert!(json.json);
        for line in ["feedmill --quiet source list -v", "feedmill -v source list --quiet"] {
            assert!(cli(line).is_err(), "{line}");
        }
    }
}
