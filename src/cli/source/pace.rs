//! `feedmill source pace`: how a source is polled, and what responses asked for and taught about it.

use serde_json::json;

use super::super::{Context, Failure, text};
use super::Polls;
use crate::app::pace::{self, ChannelPace, SourcePace};
use crate::app::pauses::HostPause;
use crate::model::{Source, SourceChange, Ts};
use crate::sources::check_polling;
use crate::store::Store;

/// Shows how a source is polled, or changes it
///
/// Without flags it shows the intervals of its channels, what 429 responses taught, and hosts that a
/// `Retry-After` pauses. Flags replace
/// how it is polled and whether its pages are asked for again; --default goes back to what `schedule`
/// and `refetch` say.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill source pace example.com
  feedmill source pace example.com --interval 30m
  feedmill source pace example.com --forget")]
pub(in crate::cli) struct Args {
    /// The source's name or id
    name: String,
    #[command(flatten)]
    flags: Polls,
    /// Polls it as `schedule` and `refetch` say
    #[arg(long, conflicts_with_all = ["interval", "min_interval", "max_interval", "policy", "refetch"])]
    default: bool,
    /// Ends pauses that responses asked for, and clears what 429 responses taught
    #[arg(long, conflicts_with_all = ["interval", "min_interval", "max_interval", "policy", "refetch", "default"])]
    forget: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    if args.forget {
        return forget(&args.name, &*store, context).await;
    }
    if args.flags.says_nothing() && !args.default {
        return show(&args.name, &*store, context).await;
    }
    let flags = &args.flags;
    let polling = flags.polling();
    check_polling(&polling)?;
    let change = SourceChange::Pace(polling, flags.refetch);
    let source = store.respecify(&args.name, change).await?;
    let mut how = match (flags.interval, flags.policy) {
        (Some(interval), _) => format!("every {interval}"),
        (None, Some(policy)) => format!("by {policy}"),
        (None, None) => "as schedule.policy says".to_owned(),
    };
    for (limit, span) in [("at least", flags.min_interval), ("at most", flags.max_interval)] {
        how.extend(span.map(|span| format!(", {limit} {span} apart")));
    }
    let least = context.load()?.config.schedule.min_interval;
    if flags.interval.is_some_and(|interval| interval < least) {
        how.push_str(&format!(", held to {least} by schedule.min_interval"));
    }
    how.extend(flags.refetch.map(|policy| format!("; its pages are asked for again: {policy}")));
    context.out.done(&source, &format!("{} is polled {how}", source.spec.name))
}

async fn show(name: &str, store: &dyn Store, context: &Context) -> Result<(), Failure> {
    let (source, pace) = pace::pace(store, name).await?;
    let (channels, paused) = (&pace.channels, &pace.paused_hosts);
    let value = json!({ "source": source.spec.name, "channels": channels, "paused_hosts": paused });
    let now = context.clock.now();
    context.out.emit(&value, |out| {
        let head = ["channel", "interval", "learned from 429s", "host pause learned", "next poll"];
        let mut parts = match channels.is_empty() {
            true => vec!["It has no channels yet".to_owned()],
            false => vec![out.table(head, channels.iter().map(|pace| row(pace, now)).collect())],
        };
        parts.extend(paused.iter().map(|pause| paused_line(pause, now)));
        if !channels.is_empty() || !paused.is_empty() {
            parts.push(hint(&source, &pace));
        }
        parts.join("\n\n")
    })
}

fn paused_line(pause: &HostPause, now: Ts) -> String {
    let until = super::super::host::blocked(pause.until, now);
    format!("Host {} is paused {until}: {}", pause.host, text::one_line(&pause.reason))
}

fn row(pace: &ChannelPace, now: Ts) -> [String; 5] {
    let span = |ms: u64| crate::schedule::human(std::time::Duration::from_millis(ms));
    let learned = |ms: Option<u64>| ms.filter(|ms| *ms > 0).map_or("-".to_owned(), span);
    [
        text::one_line(&pace.url),
        learned(pace.interval_ms),
        learned(pace.learned_interval_ms),
        learned(Some(pace.host_learned_pause_ms)),
        text::when(pace.next_fetch_at, now),
    ]
}

fn hint(source: &Source, pace: &SourcePace) -> String {
    let is_learned =
        |pace: &ChannelPace| pace.learned_interval_ms.is_some() || pace.host_learned_pause_ms > 0;
    let forget = format!("`feedmill source pace {} --forget`", text::one_line(&source.spec.name));
    match (pace.paused_hosts.as_slice(), pace.channels.iter().any(is_learned)) {
        ([], false) => "No 429 response has slowed it down".to_owned(),
        ([], true) => format!("It fades with good answers. {forget} clears it now"),
        ([one], _) if one.by_operator => format!("`feedmill host unblock {}` ends that", one.host),
        _ => format!("{forget} ends pauses that responses asked for, and clears what they taught"),
    }
}

async fn forget(name: &str, store: &dyn Store, context: &Context) -> Result<(), Failure> {
    let min_interval = context.load()?.config.schedule.min_interval.duration();
    let (source, gone) = pace::forget(store, name, context.clock.now(), min_interval).await?;
    let value = json!({ "source": source.spec.name, "cleared": gone });
    let said = format!(
        "Cleared the learned interval of {} and the learned pause of {}; ended the pause of {}",
        text::count(gone.channels, "channel"),
        text::count(gone.hosts, "host"),
        text::count(gone.pauses, "host")
    );
    context.out.emit(&value, |_| said.clone())
}
