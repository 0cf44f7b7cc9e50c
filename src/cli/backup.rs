//! `feedmill backup`: a copy of everything the store knows, beside a running engine.

use std::path::PathBuf;

use super::meter::meter;
use super::{Context, Failure, text};
use crate::app::backup::{BackedUp, back_up};
use crate::config::Level;

/// Writes a backup of the database, also while an engine runs
///
/// A backup is one file, an ordinary embedded database, whatever database it was taken from. It
/// gets its name once it is whole, checked and on disk.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill backup /backups
  feedmill backup /backups/monday.db --archive")]
pub(super) struct Args {
    /// The file to write, or a directory in which it is named by the time
    #[arg(value_name = "FILE|DIR")]
    to: PathBuf,
    /// Also keeps the archive's segments that it refers to, in a directory beside it
    #[arg(long)]
    archive: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let loaded = context.load()?;
    context.log(&loaded, Level::Warn, None);
    let watch = meter(context);
    let done = back_up(&loaded.config, &context.clock, &args.to, args.archive, watch).await?;
    context.out.done(&done, &told(&done))
}

fn told(done: &BackedUp) -> String {
    let file = format!("wrote {} ({})", text::path(&done.file), text::bytes(done.bytes));
    let Some((dir, kept)) = &done.archive else {
        return format!("{file}; the archive is not in it: --archive keeps its segments too");
    };
    let missing = match kept.missing.len() as u64 {
        0 => String::new(),
        n => format!("; {} that it refers to are gone", text::count(n, "segment")),
    };
    let fetched = match kept.fetched {
        0 => String::new(),
        n => format!(", {} of them from the bucket", text::number(n)),
    };
    let (segments, bytes) = (text::count(kept.segments, "segment"), text::bytes(kept.bytes));
    format!("{file} and {segments} ({bytes}{fetched}) in {}{missing}", text::path(dir))
}
