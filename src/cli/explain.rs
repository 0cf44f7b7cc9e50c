//! `feedmill explain`: why an address, or a source's channels, come up when they do.

use serde_json::json;

use super::out::Out;
use super::{Context, Failure, text};
use crate::frontier::{TaskFilter, queue_key};
use crate::model::{FetchRecord, Status, Task, Ts, UrlHash};
use crate::store::{ChannelState, SourceError, Store};

/// Requests shown for each address.
const REQUESTS: usize = 5;

/// Tells why an address or a source is where it is, and when it comes up again
///
/// The reason is the one that the last decision was made for: the interval before and after, what
/// the feed publishes, what a request costs, and what bound the choice.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill explain example.com
  feedmill explain https://example.com/feed.xml")]
pub(super) struct Args {
    /// A source's name or id, or an address
    what: String,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    match store.source(&args.what).await {
        Ok((source, channels)) => {
            let value = json!({ "source": source, "channels": channels });
            let now = context.clock.now();
            let told = |_: &Out| {
                let parts = channels.iter().map(|channel| of_channel(channel, now));
                parts.collect::<Vec<_>>().join("\n\n")
            };
            context.out.emit(&value, told)
        }
        Err(SourceError::Unknown(_)) => address(&args.what, &*store, context).await,
        Err(error) => Err(error.into()),
    }
}

async fn address(what: &str, store: &dyn Store, context: &Context) -> Result<(), Failure> {
    let url = feedmill_formats::url::parse(what).map_err(|error| {
        let message = format!("`{what}` is neither the name of a source nor an address: {error}");
        Failure::usage(error.code(), message)
    })?;
    let rules = store.rules();
    let hash = UrlHash::of(&feedmill_formats::url::key(&url, &rules.key));
    let host = queue_key(&feedmill_formats::url::host(&url), &rules.groups).to_owned();
    let filter = TaskFilter {
        host: Some(host),
        hash: Some(hash.head()),
        limit: usize::MAX,
        ..TaskFilter::default()
    };
    let mut found = Vec::new();
    for task in store.list(filter).await?.into_iter().filter(|task| task.url_hash == hash) {
        let fetches = store.fetches(task.id, REQUESTS).await?;
        found.push((task, fetches));
    }
    if found.is_empty() {
        let message =
            format!("nothing is known of {url}: `feedmill frontier submit` adds addresses");
        return Err(Failure::failed("unknown_address", message));
    }
    let now = context.clock.now();
    let value: Vec<_> =
        found.iter().map(|(task, fetches)| json!({ "task": task, "fetches": fetches })).collect();
    context.out.emit(&json!({ "tasks": value }), |_| {
        let parts = found.iter().map(|(task, fetches)| of_task(task, fetches, now));
        parts.collect::<Vec<_>>().join("\n\n")
    })
}

fn of_channel(channel: &ChannelState, now: Ts) -> String {
    let next = match channel.status {
        Status::Pending => text::when(channel.next_fetch_at, now),
        Status::Fetched | Status::Dead | Status::Parked => format!("never: {}", channel.status),
    };
    let failures = (channel.failures > 0).then(|| channel.failures.to_string());
    lines(
        &channel.url,
        [
            ("kind", Some(channel.kind.to_string())),
            ("health", Some(channel.health.to_string())),
            ("next poll", Some(next)),
            ("last", channel.last_fetched_at.map(|at| text::when(at, now))),
            ("failures", failures),
            ("error", channel.last_error.map(|code| code.to_string())),
            ("reason", channel.reason.clone()),
        ],
    )
}

fn of_task(task: &Task, fetches: &[FetchRecord], now: Ts) -> String {
    let state = if task.leased { "being fetched" } else { task.status.as_str() };
    let due = (task.status == Status::Pending).then(|| text::when(task.next_fetch_at, now));
    let told = lines(
        &task.url,
        [
            ("kind", Some(task.kind.to_string())),
            ("state", Some(state.to_owned())),
            ("due", due),
            ("priority", Some(task.priority.to_string())),
            ("found", Some(format!("{} by {}", text::when(task.discovered_at, now), task.origin))),
            ("error", task.last_error.map(|code| code.to_string())),
            ("reason", task.reason.clone()),
        ],
    );
    let asked = fetches.iter().map(|fetch| {
        let status =
            fetch.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        format!("asked       {}: {status}, {}", text::when(fetch.at, now), fetch.code)
    });
    std::iter::once(told).chain(asked).collect::<Vec<_>>().join("\n")
}

fn lines<const N: usize>(title: &str, facts: [(&str, Option<String>); N]) -> String {
    let facts = facts
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<11} {}", text::one_line(&value?))));
    std::iter::once(text::one_line(title)).chain(facts).collect::<Vec<_>>().join("\n")
}
