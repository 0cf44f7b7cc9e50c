//! `feedmill once`: what is due now, then the end. Made for cron.

use super::run::{Engine, Lanes, report, warn_without_contact};
use super::{Context, Failure};
use crate::app::{Mode, RunOptions};
use crate::config::Level;

/// Serves what is due, and what is found by it, then ends
///
/// It says nothing when nothing is new.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    lanes: Lanes,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let loaded = context.load()?;
    if context.out.watched() {
        warn_without_contact(&loaded.config, context);
    }
    let engine = Engine::new(context);
    context.log(&loaded, Level::Warn, Some(&engine.line));
    let options = RunOptions { mode: Mode::Once, lanes: args.lanes.chosen() };
    let done = engine.run(&loaded.config, options).await?;
    let news = done.entries + done.articles + done.errors > 0;
    if news || context.globals.json { report(&done, &loaded.config, context) } else { Ok(()) }
}
