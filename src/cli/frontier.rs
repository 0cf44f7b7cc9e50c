//! `feedmill frontier`: the queue of addresses.

use clap::Subcommand;
use serde_json::json;

use super::out::Out;
use super::{Context, Failure, submit, text};
use crate::frontier::{Counts, Stats, TaskFilter};
use crate::model::{Kind, Origin, Status, Task, TaskId, Ts};

/// Looks at the queue of addresses and adds to it
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Counts addresses by kind and state
    Stats,
    List(List),
    Submit(submit::Args),
}

/// Lists addresses, oldest first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill frontier list --status dead --kind article
  feedmill frontier list --host example.com --limit 200")]
pub(super) struct List {
    /// Only those in this state: pending, fetched, dead or parked
    #[arg(long)]
    status: Option<Status>,
    /// Only those of this kind, such as feed, sitemap or article
    #[arg(long)]
    kind: Option<Kind>,
    /// Only those of this host
    #[arg(long)]
    host: Option<String>,
    /// Only those of the source with this name or id
    #[arg(long)]
    source: Option<String>,
    /// Only those that came like this: feed, sitemap, spider or manual
    #[arg(long)]
    origin: Option<Origin>,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Goes on after the address with this id
    #[arg(long, value_name = "ID", value_parser = task_id)]
    after: Option<TaskId>,
}

fn task_id(text: &str) -> Result<TaskId, String> {
    let id = text.parse().ok().and_then(TaskId::from_uuid);
    id.ok_or_else(|| "not the id of an address: `feedmill frontier list` shows them".to_owned())
}

pub(super) async fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Stats => stats(context).await,
        Command::List(args) => list(args, context).await,
        Command::Submit(args) => submit::run(args, context).await,
    }
}

async fn stats(context: &Context) -> Result<(), Failure> {
    let stats = context.store().await?.stats().await?;
    let by_kind: serde_json::Map<_, _> =
        stats.by_kind.iter().map(|(kind, counts)| (kind.to_string(), json!(counts))).collect();
    let dead: serde_json::Map<_, _> =
        stats.dead_by_code.iter().map(|(code, n)| (code.to_string(), json!(n))).collect();
    let value = json!({
        "total": stats.total,
        "by_kind": by_kind,
        "dead_by_code": dead,
        "hosts": stats.hosts,
        "due": stats.due,
        "next_due": stats.next_due,
    });
    context.out.emit(&value, |out| figures(&stats, context.clock.now(), out))
}

fn figures(stats: &Stats, now: Ts, out: &Out) -> String {
    let row = |name: String, counts: &Counts| {
        let Counts { pending, fetching, fetched, failed, dead, parked } = counts;
        let [pending, fetching, fetched, failed, dead, parked] =
            [pending, fetching, fetched, failed, dead, parked].map(|n| text::number(*n));
        [name, pending, fetching, fetched, failed, dead, parked]
    };
    let rows = stats.by_kind.iter().map(|(kind, counts)| row(kind.to_string(), counts));
    let rows = rows.chain([row("all".to_owned(), &stats.total)]);
    let head = ["kind", "pending", "fetching", "fetched", "failed", "dead", "parked"];
    let mut told = out.table(head, rows.collect());
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

async fn list(args: &List, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    if let Some(name) = &args.source {
        // A name that nobody has is a mistake, not an empty list.
        store.source(name).await?;
    }
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let filter = TaskFilter {
        status: args.status,
        kind: args.kind,
        host: args.host.clone(),
        source: args.source.clone(),
        origin: args.origin,
        after: args.after.map(|id| id.0),
        limit: limit.saturating_add(1),
    };
    let mut tasks = store.list(filter).await?;
    let more = tasks.len() > limit;
    tasks.truncate(limit);
    let next = tasks.last().map(|task| task.id).filter(|_| more);
    let now = context.clock.now();
    context.out.emit(&json!({ "tasks": tasks, "next": next }), |out| page(&tasks, next, now, out))
}

fn page(tasks: &[Task], next: Option<TaskId>, now: Ts, out: &Out) -> String {
    if tasks.is_empty() {
        return "no addresses".to_owned();
    }
    let rows = tasks.iter().map(|task| {
        let state = if task.leased { "fetching" } else { task.status.as_str() };
        let due = match task.status {
            Status::Pending => text::when(task.next_fetch_at, now),
            _ => String::new(),
        };
        [
            task.kind.to_string(),
            state.to_owned(),
            task.priority.to_string(),
            due,
            task.last_error.map(|code| code.to_string()).unwrap_or_default(),
            task.url.clone(),
        ]
    });
    let mut told = out.table(["kind", "state", "priority", "due", "error", "url"], rows.collect());
    if let Some(id) = next {
        told.push_str(&format!("\n\nthere are more: say --after {id} for the next page"));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_that_we_showed() {
        assert_eq!(task_id(&TaskId(42).to_string()), Ok(TaskId(42)));
        for foreign in ["42", "", "67e55044-10b1-426f-9247-bb680e5fe0c8"] {
            assert!(task_id(foreign).is_err(), "{foreign}");
        }
    }
}
