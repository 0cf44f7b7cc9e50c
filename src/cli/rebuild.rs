//! `feedmill rebuild`: an empty database from the archive.

use super::meter::Line;
use super::{Context, Failure, text};
use crate::app::rebuild::{Options, Rebuilt, rebuild};
use crate::config::Level;

/// Builds the database from the archive's segments
///
/// For a database that was lost and has no backup. The database must be missing, empty, or one that
/// an interrupted rebuild left; no engine may run. No publisher is asked: what was read before is read
/// again from the archive, with the same ids. Sources come from catalog.json in the data directory;
/// headers, cookies, credentials and proxies of sources are not in there and have to be set again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill rebuild --dry-run
  feedmill rebuild")]
pub(super) struct Args {
    /// Only reads the archive and says what is in it
    #[arg(long)]
    dry_run: bool,
    /// Delivers the rebuilt events to all sinks again, instead of only what happens from now on
    #[arg(long)]
    deliver: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let loaded = context.load()?;
    context.log(&loaded, Level::Warn, None);
    let mut line = Line::new(context);
    let mut watch = |done: u64, total: u64| {
        let (done, total) = (text::number(done), text::number(total));
        line.tell(format!("{done} of {total} responses read"));
    };
    let options = Options { dry_run: args.dry_run, deliver: args.deliver };
    let done = rebuild(&loaded.config, &context.clock, options, &mut watch).await;
    line.clear();
    let done = done?;
    context.out.done(&done, &summary(&done, args.dry_run))
}

fn summary(done: &Rebuilt, dry_run: bool) -> String {
    let mut lines = vec![format!(
        "{} {} in {}: {}, {}, {}",
        if dry_run { "Would read" } else { "Read" },
        text::count(done.responses, "response"),
        text::count(done.segments, "segment"),
        text::count(done.sources, "source"),
        match done.entries {
            1 => "1 entry".to_owned(),
            n => format!("{} entries", text::number(n)),
        },
        text::count(done.articles, "article"),
    )];
    if dry_run {
        lines = vec![format!(
            "Would read {} in {} and restore {}",
            text::count(done.responses, "response"),
            text::count(done.segments, "segment"),
            text::count(done.sources, "source"),
        )];
    }
    if !done.has_catalog {
        lines.push(
            "No catalog.json in the data directory: sources are named after their hosts, and entries get new ids".to_owned(),
        );
    }
    if done.unplaced > 0 {
        let n = text::count(done.unplaced, "response");
        lines.push(format!("{n} belong to no known source or task and were skipped"));
    }
    if let Some(first) = done.unreadable.first() {
        let n = text::count(done.unreadable.len() as u64, "record");
        lines.push(format!("{n} cannot be read; the first: {}", text::one_line(first)));
    }
    if !done.access_removed.is_empty() {
        let names = done.access_removed.join(", ");
        lines.push(format!(
            "Set headers, cookies, credentials and proxies again for: {}",
            text::one_line(&names)
        ));
    }
    lines.join("\n")
}
