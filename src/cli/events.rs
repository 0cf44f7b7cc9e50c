//! `feedmill events`: what happened, in the order of the log.

use serde_json::json;

use super::article::Since;
use super::out::Out;
use super::{Context, Failure, text};
use crate::model::{Event, EventKind};
use crate::store::EventFilter;

/// Prints what happened: the last events of the log, or those after a place in it
///
/// The log is what sinks read. Every event has a place (`seq`), and later ones have greater places.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill events --kind source.disabled,feed.gone --since 7d
  feedmill events --after 1200 --limit 500 --json")]
pub(super) struct Args {
    /// Only those within this time (2h) or since this time (2026-01-31T00:00:00Z)
    #[arg(long, value_name = "SPAN|TIME")]
    since: Option<Since>,
    /// Only those of these kinds, such as entry.new, article.failed, source.disabled or feed.gone
    #[arg(long, value_delimiter = ',', value_name = "KIND,…")]
    kind: Vec<EventKind>,
    /// Only those of the source with this name or id
    #[arg(long)]
    source: Option<String>,
    /// The first ones after this place, instead of the last ones
    #[arg(long, value_name = "SEQ")]
    after: Option<i64>,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let source = match &args.source {
        Some(name) => Some(store.source(name).await?.0.id),
        None => None,
    };
    let filter = EventFilter {
        within: None,
        after: args.after.unwrap_or(0),
        since: args.since.map(|since| since.from(context.clock.now())),
        kinds: args.kind.clone(),
        source,
        latest: args.after.is_none(),
        limit: usize::try_from(args.limit).unwrap_or(usize::MAX),
    };
    let events = store.events(filter).await?;
    let next = events.last().map(|event| event.seq);
    context.out.emit(&json!({ "events": events, "next": next }), |out| table(&events, out))
}

fn table(events: &[Event], out: &Out) -> String {
    if events.is_empty() {
        return "no events".to_owned();
    }
    let rows = events.iter().map(|event| {
        [event.seq.to_string(), event.at.to_string(), event.kind.to_string(), about(event)]
    });
    out.table(["seq", "at", "kind", "what"], rows.collect())
}

/// What an event is about, and why, as far as it says.
fn about(event: &Event) -> String {
    let said = |key: &str| event.payload.get(key).and_then(|value| value.as_str());
    let what = ["url", "name", "canonical_link", "entry_uid"].into_iter().find_map(said);
    let what = what.unwrap_or(&event.subject);
    let facts = ["health", "reason"].into_iter().filter_map(said);
    let facts = facts.fold(String::new(), |told, fact| format!("{told}; {fact}"));
    text::one_line(&format!("{what}{facts}"))
}
