//! `feedmill completions`: what a shell needs to complete our commands.

use clap_complete::Shell;
use serde_json::json;

use super::{Context, Failure};

/// Prints a script that completes commands in a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  feedmill completions bash > ~/.local/share/bash-completion/completions/feedmill")]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::commands(), "feedmill", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let value = json!({ "shell": args.shell.to_string(), "script": script });
    context.out.document(&value, &script)
}
