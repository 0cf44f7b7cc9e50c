//! `feedmill config`: what is set, what can be set, and whether it holds together.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::{Context, Failure};
use crate::config::{reference, show, show_json};

/// Shows and checks the configuration
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Prints the configuration in effect and where each value comes from; secrets are hidden
    Show,
    /// Prints every key with its meaning and default, as a file to start from
    Reference,
    /// Checks a configuration file
    Check {
        /// The file [default: the one that would be read]
        file: Option<PathBuf>,
    },
}

pub(super) fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Show => {
            let loaded = context.load()?;
            context.out.emit(&show_json(&loaded), |_| show(&loaded))
        }
        Command::Reference => {
            let text = reference();
            context.out.emit(&json!({ "reference": text }), |_| text.clone())
        }
        Command::Check { file } => check(file.as_ref(), context),
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
