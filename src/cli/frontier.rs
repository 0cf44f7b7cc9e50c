//! `feedmill frontier`: the queue of addresses.

use clap::Subcommand;
use serde::Serialize;
use serde_json::json;

use super::out::Out;
use super::select::Which;
use super::{Context, Failure, submit, sweep, text};
use crate::frontier::{Counts, Cursor, Order, Share, Sort, Stats, TaskFilter};
use crate::model::{Status, Task, Ts};
use crate::store::Store;

/// Tasks that are read at once while all are written out.
const PAGE: usize = 1_000;

/// Looks at the queue of addresses and changes it
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Counts addresses by state, kind, source and host
    Stats {
        /// So many sources and hosts, those with most addresses
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..))]
        top: u32,
    },
    List(List),
    Submit(submit::Args),
    Import(submit::Import),
    Retry(sweep::Retry),
    Delete(sweep::Delete),
    Purge(sweep::Purge),
}

/// Lists addresses
///
/// A page ends with the place where the next one begins. In the order of ids no address is ever left
/// out or listed twice, whatever happens meanwhile; in another order one that moves may be.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill frontier list --status dead --kind article
  feedmill frontier list --host example.com --sort due --limit 200
  feedmill frontier list --search /politics/ --ndjson")]
pub(super) struct List {
    #[command(flatten)]
    which: Which,
    /// What to sort by: id, due, priority, discovered or fetched [default: id]
    #[arg(long)]
    sort: Option<Sort>,
    /// The greatest first
    #[arg(long)]
    desc: bool,
    /// At most so many [default: 50, or all with --ndjson]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Goes on at the place that a page before told
    #[arg(long, value_name = "PLACE")]
    after: Option<Cursor>,
    /// Prints a line of JSON for each
    #[arg(long, conflicts_with = "json")]
    ndjson: bool,
}

impl List {
    /// The order asked for, which is that of the page before.
    fn order(&self) -> Result<Order, Failure> {
        let asked = Order { sort: self.sort.unwrap_or(Sort::Id), descending: self.desc };
        match self.after {
            Some(after) if self.sort.is_none() && !self.desc => Ok(after.order),
            Some(after) if after.order != asked => {
                let message = "--after is a place in another order: leave --sort and --desc away, or start without --after";
                Err(Failure::usage("bad_cursor", message))
            }
            _ => Ok(asked),
        }
    }
}

pub(super) async fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Stats { top } => stats(*top, context).await,
        Command::List(args) => list(args, context).await,
        Command::Submit(args) => submit::run(args, context).await,
        Command::Import(args) => submit::import(args, context).await,
        Command::Retry(args) => sweep::retry(args, context).await,
        Command::Delete(args) => sweep::delete(args, context).await,
        Command::Purge(args) => sweep::purge(args, context).await,
    }
}

/// A share with its name, for machines.
#[derive(Serialize)]
struct Part<'a> {
    name: &'a str,
    #[serde(flatten)]
    counts: &'a Counts,
}

type Shares = Vec<(String, Counts)>;

async fn stats(top: u32, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let top = usize::try_from(top).unwrap_or(usize::MAX);
    let stats = store.stats().await?;
    let sources = store.shares(Share::Source, top).await?;
    let hosts = store.shares(Share::Host, top).await?;
    let by_kind: serde_json::Map<_, _> =
        stats.by_kind.iter().map(|(kind, counts)| (kind.to_string(), json!(counts))).collect();
    let dead: serde_json::Map<_, _> =
        stats.dead_by_code.iter().map(|(code, n)| (code.to_string(), json!(n))).collect();
    let parts = |shares: &Shares| {
        shares.iter().map(|(name, counts)| json!(Part { name, counts })).collect::<Vec<_>>()
    };
    let value = json!({
        "total": stats.total,
        "by_kind": by_kind,
        "by_source": parts(&sources),
        "by_host": parts(&hosts),
        "dead_by_code": dead,
        "hosts": stats.hosts,
        "due": stats.due,
        "next_due": stats.next_due,
    });
    let now = context.clock.now();
    context.out.emit(&value, |out| figures(&stats, &sources, &hosts, now, out))
}

fn figures(stats: &Stats, sources: &Shares, hosts: &Shares, now: Ts, out: &Out) -> String {
    let kinds = stats.by_kind.iter().map(|(kind, counts)| (kind.to_string(), counts));
    let mut told = counts("kind", kinds.chain([("all".to_owned(), &stats.total)]), out);
    for (head, shares) in [("source", sources), ("host", hosts)] {
        if !shares.is_empty() {
            let shares = shares.iter().map(|(name, counts)| (name.clone(), counts));
            told.push_str(&format!("\n\n{}", counts(head, shares, out)));
        }
    }
    let next = match stats.next_due {
        Some(at) if at > now => format!("next {}", text::when(at, now)),
        Some(_) => "next now".to_owned(),
        None => "nothing waits".to_owned(),
    };
    let hosts = text::count(stats.hosts, "host");
    told.push_str(&format!("\n\n{hosts}, {} due, {next}", text::number(stats.due)));
    if !stats.dead_by_code.is_empty() {
        let dead =
            stats.dead_by_code.iter().map(|(code, n)| format!("{code} {}", text::number(*n)));
        told.push_str(&format!("\ndead: {}", dead.collect::<Vec<_>>().join(", ")));
    }
    told
}

fn counts<'a>(head: &str, shares: impl Iterator<Item = (String, &'a Counts)>, out: &Out) -> String {
    let row = |(name, counts): (String, &Counts)| {
        let Counts { pending, fetching, fetched, failed, dead, parked } = counts;
        let [pending, fetching, fetched, failed, dead, parked] =
            [pending, fetching, fetched, failed, dead, parked].map(|n| text::number(*n));
        [name, pending, fetching, fetched, failed, dead, parked]
    };
    let head = [head, "pending", "fetching", "fetched", "failed", "dead", "parked"];
    out.table(head, shares.map(row).collect())
}

async fn list(args: &List, context: &Context) -> Result<(), Failure> {
    let order = args.order()?;
    let store = context.store().await?;
    let filter = TaskFilter { order, after: args.after, ..args.which.filter(&*store).await? };
    if args.ndjson {
        return every(args.limit, filter, &*store, context).await;
    }
    let limit = usize::try_from(args.limit.unwrap_or(50)).unwrap_or(usize::MAX);
    // Counting them all is worth it once, not on every page.
    let total = match args.after {
        None => Some(store.count(filter.clone()).await?),
        Some(_) => None,
    };
    let mut tasks = store.list(TaskFilter { limit: limit.saturating_add(1), ..filter }).await?;
    let more = tasks.len() > limit;
    tasks.truncate(limit);
    let next = tasks.last().filter(|_| more).map(|task| Cursor::behind(task, order));
    let next = next.map(|next| next.to_string());
    let now = context.clock.now();
    let value = json!({ "tasks": tasks, "next": next, "total": total });
    context.out.emit(&value, |out| page(&tasks, next.as_deref(), total, now, out))
}

/// Writes tasks out as lines, page by page, as long as somebody reads.
async fn every(
    limit: Option<u32>,
    mut filter: TaskFilter,
    store: &dyn Store,
    context: &Context,
) -> Result<(), Failure> {
    let mut left = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    while left > 0 {
        filter.limit = left.min(PAGE);
        let tasks = store.list(filter.clone()).await?;
        if !context.out.lines(&tasks)? || tasks.len() < filter.limit {
            break;
        }
        left -= tasks.len();
        filter.after = tasks.last().map(|task| Cursor::behind(task, filter.order));
    }
    Ok(())
}

fn page(tasks: &[Task], next: Option<&str>, total: Option<u64>, now: Ts, out: &Out) -> String {
    if tasks.is_empty() {
        return "no addresses".to_owned();
    }
    let rows = tasks.iter().map(|task| {
        let due = match task.status {
            Status::Pending => text::when(task.next_fetch_at, now),
            Status::Fetched | Status::Dead | Status::Parked => String::new(),
        };
        [
            task.kind.to_string(),
            task.state().to_string(),
            task.priority.to_string(),
            due,
            task.last_error.map(|code| code.to_string()).unwrap_or_default(),
            task.url.clone(),
        ]
    });
    let mut told = out.table(["kind", "state", "priority", "due", "error", "url"], rows.collect());
    if let Some(place) = next {
        let of = total.map(|total| format!("{} of {}; ", tasks.len(), text::number(total)));
        told.push_str(&format!(
            "\n\n{}there are more: say --after {place} for the next page",
            of.unwrap_or_default()
        ));
    }
    told
}
