//! `feedmill restore`: a backup becomes the configured database.

use std::path::PathBuf;

use super::meter::meter;
use super::{Context, Failure, text};
use crate::app::backup::{Restored, restore};
use crate::config::Level;

/// Makes a backup the configured database
///
/// No engine may run. An older backup is brought up to date on the way; the file itself stays as it
/// is. Segments of the archive that were kept with it are put back where they are missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  feedmill restore /backups/monday.db")]
pub(super) struct Args {
    /// The backup
    file: PathBuf,
    /// Sets aside what the database holds, and restores all the same
    #[arg(long)]
    force: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let loaded = context.load()?;
    context.log(&loaded, Level::Warn, None);
    let watch = meter(context);
    let done = restore(&loaded.config, &context.clock, &args.file, args.force, watch).await?;
    context.out.done(&done, &told(&done))
}

fn told(done: &Restored) -> String {
    let aside = match &done.set_aside {
        Some(file) => format!("; what was there is in {}", file.display()),
        None => String::new(),
    };
    let archive = match &done.archive {
        Some(back) => format!(
            "; {} came back, {} missing",
            text::count(back.segments, "segment"),
            text::number(back.missing.len() as u64)
        ),
        None => String::new(),
    };
    format!("restored {}{aside}{archive}", done.place)
}
