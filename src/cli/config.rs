//! `feedmill config`: what is set, what can be set, and whether it holds together.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::{Context, Failure};
use crate::app::Reload;
use crate::config::{LoadOptions, Loaded, load, reference, show, show_json};
use crate::metrics::Metrics;

/// Shows, checks and changes the configuration
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Prints the configuration in effect and where each value comes from; secrets are hidden
    Show,
    /// Prints every key with its meaning and default, as a file to start from
    Reference,
    /// Prints every figure at /metrics with its meaning, as docs/METRICS.md has it
    Metrics,
    /// Checks a configuration file
    Check {
        /// The file [default: the one that would be read]
        file: Option<PathBuf>,
    },
    /// Changes a setting of a running installation, without its file
    ///
    /// It is kept in the database and wins over the file, the environment and flags, until `config
    /// unset`. Engines take it over within `sources.reload_interval`, or at SIGHUP. Keys that widen
    /// access, name files or hold URLs with credentials are set in the file only.
    #[command(after_help = "Example:\n  feedmill config set schedule.default_interval 30m")]
    Set {
        /// The key, such as `schedule.default_interval`
        key: String,
        /// Its value, as in the environment
        value: String,
    },
    /// Forgets what `config set` changed
    Unset {
        /// The key
        key: String,
    },
}

pub(super) async fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Show => {
            let loaded = with_kept(context).await?;
            context.out.emit(&show_json(&loaded), |_| show(&loaded))
        }
        Command::Reference => {
            let text = reference();
            context.out.document(&json!({ "reference": text }), &text)
        }
        Command::Metrics => {
            let metrics = Metrics::default();
            context.out.document(&metrics.described(), &metrics.document())
        }
        Command::Check { file } => check(file.as_ref(), context),
        Command::Set { key, value } => set(key, value, context).await,
        Command::Unset { key } => unset(key, context).await,
    }
}

fn check(file: Option<&PathBuf>, context: &Context) -> Result<(), Failure> {
    let mut options = context.load_options();
    options.file = file.cloned().or(options.file);
    let loaded = context.load_with(&options)?;
    let told = match &loaded.file {
        Some(file) => format!("{} is fine", file.display()),
        None => "there is no configuration file: the defaults are in effect".to_owned(),
    };
    let value = json!({ "ok": true, "file": loaded.file, "warnings": loaded.warnings });
    context.out.done(&value, &told)
}

/// What is in effect, with what is kept in the database where there is one.
async fn with_kept(context: &Context) -> Result<Loaded, Failure> {
    let loaded = context.load()?;
    let config = &loaded.config;
    if config.postgres_url().is_none() && !config.database_path().exists() {
        return Ok(loaded);
    }
    let store = context.open(config).await?;
    let kept = store.settings().await?;
    store.close().await;
    let whole = load(&LoadOptions { kept, ..context.load_options() })?;
    for warning in whole.warnings.iter().filter(|warning| !loaded.warnings.contains(warning)) {
        context.out.warn(warning);
    }
    Ok(whole)
}

async fn set(key: &str, value: &str, context: &Context) -> Result<(), Failure> {
    let (store, options) = (context.store().await?, context.load_options());
    let reload = Reload::new(move |kept| load(&LoadOptions { kept, ..options.clone() }));
    let read = reload.set(&*store, key, value).await?;
    let told = format!(
        "{key} is {value} from now on; running engines follow within {}, or at SIGHUP",
        read.sources.reload_interval
    );
    context.out.done(&json!({ "key": key, "value": value }), &told)
}

async fn unset(key: &str, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    if !store.keep_setting(key, None).await? {
        let message = format!("`{key}` was not set by `config set`: `config show` tells what was");
        return Err(Failure::failed("not_set", message));
    }
    let told = format!("{key} is again what file, environment and defaults say");
    context.out.done(&json!({ "key": key, "value": null }), &told)
}
