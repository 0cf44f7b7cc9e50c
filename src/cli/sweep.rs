//! `feedmill frontier retry`, `delete` and `purge`: what is done to many addresses at once.
//!
//! It is done a thousand at a time, so that an engine beside it goes on.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::meter::Line;
use super::select::{Which, named};
use super::{Context, Failure, text};
use crate::config::Span;
use crate::frontier::{Act, Sweep, TaskFilter};
use crate::model::State;
use crate::store::Store;

/// Addresses that one transaction touches.
const BATCH: usize = 1_000;
/// The longest rest between two of them.
const REST: Duration = Duration::from_secs(1);

/// What retry and delete are given.
#[derive(Debug, clap::Args)]
pub(super) struct Chosen {
    /// Ids or addresses
    #[arg(value_name = "ID|URL")]
    names: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// All that it can be done to
    #[arg(long)]
    all: bool,
    /// Only counts them
    #[arg(long)]
    dry_run: bool,
}

/// Asks for addresses again, now
///
/// Those that are named are asked for whatever became of them; a filter, or --all, means dead ones
/// unless --status says otherwise. Addresses under way and those of sources that are not followed are
/// left alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill frontier retry https://example.com/story
  feedmill frontier retry --host example.com --code timeout
  feedmill frontier retry --status failed --source example --dry-run")]
pub(super) struct Retry {
    #[command(flatten)]
    chosen: Chosen,
}

/// Forgets addresses; what was read there stays
///
/// Addresses under way are left alone, and so are the feeds and sitemaps of a source: `feedmill source
/// remove` ends those. An address that somebody gives again is new.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill frontier delete https://example.com/story
  feedmill frontier delete --host example.com --status dead
  feedmill frontier delete --search /tag/ --dry-run")]
pub(super) struct Delete {
    #[command(flatten)]
    chosen: Chosen,
}

/// Forgets addresses by age
///
/// The age counts from the last time that an address was asked for, or from when it became known.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill frontier purge --older-than 90d
  feedmill frontier purge --older-than 30d --status dead --code not_found")]
pub(super) struct Purge {
    /// How old they have to be, such as 90d
    #[arg(long, value_name = "SPAN")]
    older_than: Span,
    #[command(flatten)]
    which: Which,
    /// Only counts them
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn retry(args: &Retry, context: &Context) -> Result<(), Failure> {
    let (store, mut filter) = args.chosen.filter(context).await?;
    if filter.ids.is_empty() && filter.states.is_empty() {
        filter.states = vec![State::Dead];
    }
    sweep(Act::Retry, filter, args.chosen.dry_run, &*store, context).await
}

pub(super) async fn delete(args: &Delete, context: &Context) -> Result<(), Failure> {
    let (store, filter) = args.chosen.filter(context).await?;
    sweep(Act::Delete, filter, args.chosen.dry_run, &*store, context).await
}

pub(super) async fn purge(args: &Purge, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let mut filter = args.which.filter(&*store).await?;
    if filter.states.is_empty() {
        filter.states = vec![State::Fetched, State::Dead];
    }
    filter.before = Some(context.clock.now().before(args.older_than.duration()));
    sweep(Act::Delete, filter, args.dry_run, &*store, context).await
}

impl Chosen {
    async fn filter(&self, context: &Context) -> Result<(Arc<dyn Store>, TaskFilter), Failure> {
        if self.names.is_empty() && !self.which.is_anything() && !self.all {
            let message = "nothing is selected: name ids or addresses, give a filter such as --host, or say --all";
            return Err(Failure::usage("nothing_selected", message));
        }
        let store = context.store().await?;
        let ids = named(&self.names, &*store).await?;
        let filter = TaskFilter { ids, ..self.which.filter(&*store).await? };
        Ok((store, filter))
    }
}

async fn sweep(
    act: Act,
    mut filter: TaskFilter,
    dry: bool,
    store: &dyn Store,
    context: &Context,
) -> Result<(), Failure> {
    let mut progress = Line::new(context);
    let mut total = Sweep::default();
    filter.limit = BATCH;
    loop {
        let began = Instant::now();
        let part = store.sweep(act, filter.clone(), dry).await?;
        total.done += part.done;
        total.spared += part.spared;
        progress.tell(told(act, &total, dry));
        if part.next.is_none() {
            break;
        }
        filter.after = part.next;
        if !dry {
            // Whoever else waits for the writer gets as much of it as we do.
            tokio::time::sleep(began.elapsed().min(REST)).await;
        }
    }
    progress.clear();
    let name = match act {
        Act::Retry | Act::Hasten => "retried",
        Act::Delete => "deleted",
        Act::Withdraw => "withdrawn",
    };
    let value = json!({ name: total.done, "spared": total.spared, "dry_run": dry });
    context.out.done(&value, &told(act, &total, dry))
}

fn told(act: Act, sweep: &Sweep, dry: bool) -> String {
    let (addresses, are) = match sweep.done {
        1 => ("1 address".to_owned(), "is"),
        n => (format!("{} addresses", text::number(n)), "are"),
    };
    let are = if dry { "would be" } else { are };
    let (what, why) = match act {
        Act::Retry | Act::Hasten => ("asked for again", "under way, not followed, or taken down"),
        Act::Delete => ("forgotten", "under way, or channels of a source"),
        Act::Withdraw => ("taken down", "under way, or taken down before"),
    };
    let spared = match sweep.spared {
        0 => String::new(),
        n => format!(", {} left alone ({why})", text::number(n)),
    };
    format!("{addresses} {are} {what}{spared}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_told_in_a_sentence() {
        let sweep = |done, spared| Sweep { done, spared, next: None };
        assert_eq!(told(Act::Retry, &sweep(1, 0), false), "1 address is asked for again");
        assert_eq!(
            told(Act::Delete, &sweep(1_200, 3), false),
            "1,200 addresses are forgotten, 3 left alone (under way, or channels of a source)"
        );
        assert_eq!(told(Act::Delete, &sweep(0, 0), true), "0 addresses would be forgotten");
    }
}
