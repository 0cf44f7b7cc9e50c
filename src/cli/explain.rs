//! `feedmill explain`: why an address, a source's channels or a host come up when they do.

use super::out::Out;
use super::{Context, Failure, channel, host, text};
use crate::app::explain::{
    self as app, ExplainError, Explanation, HostTold, SourceTold, TaskTold, Wait,
};
use crate::frontier::{Counts, Rules};
use crate::model::{Status, Ts};
use crate::store::ChannelState;

/// Tells why an address, a source or a host is where it is, and when it comes up again
///
/// Of an address the whole way is told: who told of it and when, what it waits for, what was answered,
/// how its text was found, whose text it repeats, how it changed, and which sinks have it. Of a channel
/// the reason is the one that the last decision was made for: the interval before and after, what the
/// feed publishes, what a request costs, and what bound the choice.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill explain example.com
  feedmill explain https://example.com/feed.xml
  feedmill explain www.example.com")]
pub(super) struct Args {
    /// A source's name or id, an address, or a host
    what: String,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let (config, store) = (context.load()?.config, context.store().await?);
    let now = context.clock.now();
    let told = app::explain(&args.what, &config, &*store, now).await?;
    context.out.emit(&told, |out| match &told {
        Explanation::Address(told) => {
            let parts = told.tasks.iter().map(|task| of_task(task, &told.waits, now));
            parts.collect::<Vec<_>>().join("\n\n")
        }
        Explanation::Source(told) => of_source(told, store.rules(), now),
        Explanation::Host(told) => of_host(told, now, out),
    })
}

fn of_source(told: &SourceTold, rules: &Rules, now: Ts) -> String {
    let channel = |one: &ChannelState| {
        let wait = waiting(&one.url, &told.waits, rules);
        of_channel(one, wait, now)
    };
    let parts = told.channels.iter().map(channel);
    // How channels were found explains something where there are none.
    let unfound = told.discovery.as_ref().filter(|_| told.channels.is_empty());
    let Counts { pending, fetching, fetched, failed, dead, parked } = told.tasks;
    let counted = [
        ("pending", pending),
        ("fetching", fetching),
        ("fetched", fetched),
        ("failed", failed),
        ("dead", dead),
        ("parked", parked),
    ];
    let counted = counted.iter().filter(|(_, tasks)| *tasks > 0);
    let counted: Vec<_> =
        counted.map(|(state, tasks)| format!("{} {state}", text::number(*tasks))).collect();
    let tasks = (!counted.is_empty()).then(|| format!("its addresses: {}", counted.join(", ")));
    parts.chain(unfound.map(channel::searched)).chain(tasks).collect::<Vec<_>>().join("\n\n")
}

/// What keeps an address from being asked for.
fn waiting<'a>(url: &str, waits: &'a [Wait], rules: &Rules) -> Option<&'a Wait> {
    let name = app::queue_of(url, rules)?;
    waits.iter().find(|wait| wait.host == name)
}

fn waits_until(wait: &Wait, now: Ts) -> String {
    let why = text::one_line(&wait.why);
    format!("{} waits {}: {why}", wait.host, host::blocked(wait.until, now))
}

/// A host: how fast it is asked, what it waits for, and its channels by the time of their polls.
fn of_host(told: &HostTold, now: Ts, out: &Out) -> String {
    let head = host::facts(&told.host, now, out);
    let wait = told.waits.as_ref().map(|wait| format!("waits       {}", waits_until(wait, now)));
    let rows = told.channels.iter().map(|task| {
        let due = match task.status {
            Status::Pending => text::when(task.next_fetch_at, now),
            Status::Fetched | Status::Dead | Status::Parked => "never".to_owned(),
        };
        let reason = task.reason.clone().unwrap_or_default();
        [task.kind.to_string(), due, task.url.clone(), reason]
    });
    let table = out.table(["kind", "next poll", "url", "reason"], rows.collect());
    let table = (!told.channels.is_empty()).then(|| format!("\n{table}"));
    [Some(head), wait, table].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn of_channel(one: &ChannelState, wait: Option<&Wait>, now: Ts) -> String {
    let next = match one.status {
        Status::Pending => text::when(one.next_fetch_at, now),
        Status::Fetched | Status::Dead | Status::Parked => format!("never: {}", one.status),
    };
    let failures = (one.failures > 0).then(|| one.failures.to_string());
    let health = channel::health(one).map(|health| match one.health_since {
        Some(since) => format!("{health}, since {}", text::when(since, now)),
        None => health.to_string(),
    });
    let told = lines(
        &one.url,
        [
            ("kind", Some(one.kind.to_string())),
            ("state", Some(channel::state(one, now))),
            ("health", health),
            ("next poll", Some(next)),
            ("host", wait.filter(|_| one.status == Status::Pending).map(|it| waits_until(it, now))),
            ("last", one.last_fetched_at.map(|at| text::when(at, now))),
            ("failures", failures),
            ("error", one.last_error.map(|code| code.to_string())),
            ("reason", one.reason.clone()),
        ],
    );
    let warnings = channel::warnings(one).map(|warned| format!("warning     {warned}"));
    std::iter::once(told).chain(warnings).collect::<Vec<_>>().join("\n")
}

fn of_task(told: &TaskTold, waits: &[Wait], now: Ts) -> String {
    let task = &told.task;
    let state = if task.leased { "being fetched" } else { task.status.as_str() };
    let is_pending = task.status == Status::Pending;
    let due = is_pending.then(|| text::when(task.next_fetch_at, now));
    let wait = waits.first().filter(|_| is_pending).map(|wait| waits_until(wait, now));
    let head = lines(
        &task.url,
        [
            ("kind", Some(task.kind.to_string())),
            ("state", Some(state.to_owned())),
            ("why", Some(told.verdict.clone())),
            ("due", due),
            ("host", wait),
            ("priority", Some(task.priority.to_string())),
            ("found", Some(format!("{} by {}", text::when(task.discovered_at, now), task.origin))),
            ("error", task.last_error.map(|code| code.to_string())),
            ("reason", task.reason.clone()),
        ],
    );
    let told_by = told.references.iter().map(|one| text::told_by(one, now));
    let steps = told.trail.iter().map(|step| {
        let at = step.at.map_or_else(String::new, |at| format!("{at} "));
        text::one_line(&format!("{:<12} {at}{}", step.step, step.told))
    });
    let all = std::iter::once(head).chain(told_by).chain([String::new()]).chain(steps);
    all.collect::<Vec<_>>().join("\n")
}

fn lines<const N: usize>(title: &str, facts: [(&str, Option<String>); N]) -> String {
    let facts = facts
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<11} {}", text::one_line(&value?))));
    std::iter::once(text::one_line(title)).chain(facts).collect::<Vec<_>>().join("\n")
}

impl From<ExplainError> for Failure {
    fn from(error: ExplainError) -> Self {
        let message = text::one_line(&error.to_string());
        match error {
            ExplainError::NotAnything { code, .. } => Self::usage(code, message),
            ExplainError::Unknown(_) => Self::failed("unknown_address", message),
            ExplainError::Db(error) => error.into(),
        }
    }
}
