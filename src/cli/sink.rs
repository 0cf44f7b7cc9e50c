//! `feedmill sink`: who gets the events, how far each has come, and what its target would not have.

use std::sync::Arc;

use clap::Subcommand;
use serde_json::json;

use super::out::{Out, Shown, Tone};
use super::{Context, Failure, text};
use crate::app::sinks::{self, SinkStanding, SinkState};
use crate::app::{self, deliver};
use crate::config::{Config, StartAt};
use crate::store::Store;
use crate::store::outbox::{DeadLetter, SinkWish, Start};

/// Looks at sinks, pauses them, and sends events again
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Lists all sinks: how far each has come, and what holds it up
    List,
    /// Shows a sink and the events that its target would not have
    Show {
        /// The sink's name
        name: String,
        /// Dead letters at the most
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Delivers nothing until the sink is resumed; nothing is lost
    Pause {
        /// The sink's name
        name: String,
    },
    /// Goes on where the sink was paused
    Resume {
        /// The sink's name
        name: String,
    },
    Replay(Replay),
    /// Sends events again that the sink's target would not have
    Retry {
        /// The sink's name
        name: String,
        /// Only this event
        #[arg(long)]
        seq: Option<i64>,
        /// Gives them up instead
        #[arg(long)]
        give_up: bool,
    },
    /// Looks whether a sink's target would take something; nothing is delivered
    Test {
        /// The sink's name
        name: String,
    },
    /// Gives up the place of a sink that is no longer configured, so that the log need not be kept for
    /// it
    Forget {
        /// The sink's name, as `sink list` shows it
        name: String,
    },
}

/// Delivers events again, from a place or time on
///
/// Targets that know events by their ids have nothing twice. The NDJSON sink writes the lines again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill sink replay search --from beginning
  feedmill sink replay search --from 2026-11-01T00:00:00Z
  feedmill sink replay search --after 120345")]
pub(super) struct Replay {
    /// The sink's name
    name: String,
    /// beginning, now, or a time such as 2026-11-01T00:00:00Z
    #[arg(long, value_name = "WHEN", required_unless_present = "after")]
    from: Option<StartAt>,
    /// After this place in the log
    #[arg(long, value_name = "SEQ", conflicts_with = "from")]
    after: Option<i64>,
}

/// How a sink does, for people.
fn state(sink: &SinkStanding) -> (Tone, &'static str) {
    match sink.state() {
        SinkState::NotConfigured => (Tone::Careful, "not configured"),
        SinkState::Paused => (Tone::Careful, "paused"),
        SinkState::HeldUp => (Tone::Bad, "held up"),
        SinkState::DeadLetters => (Tone::Careful, "dead letters"),
        SinkState::Fine => (Tone::Good, "ok"),
    }
}

pub(super) async fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    let config = context.load()?.config;
    if let Command::Test { name } = command {
        return test(name, &config, context).await;
    }
    let store = context.store().await?;
    match command {
        Command::List => {
            let sinks = sinks::sinks(&*store, &config, context.clock.now()).await?;
            context.out.emit(&json!({ "sinks": sinks }), |out| table(&sinks, out))
        }
        Command::Show { name, limit } => {
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            show(name, limit, &*store, &config, context).await
        }
        Command::Pause { name } => {
            wish(name, SinkWish::Pause, "is paused", &*store, &config, context).await
        }
        Command::Resume { name } => {
            wish(name, SinkWish::Resume, "goes on", &*store, &config, context).await
        }
        Command::Replay(Replay { name, from, after }) => {
            let start = match (from, after) {
                (_, Some(seq)) => Start::After((*seq).max(0)),
                (Some(StartAt::Now), _) => Start::Now,
                (Some(StartAt::Time(at)), _) => Start::At(*at),
                (Some(StartAt::Beginning) | None, _) => Start::Beginning,
            };
            let words = "gets the events again";
            wish(name, SinkWish::Replay(start), words, &*store, &config, context).await
        }
        Command::Retry { name, seq, give_up } => {
            let wish = if *give_up { SinkWish::Drop(*seq) } else { SinkWish::Again(*seq) };
            let key = known(name, &*store, &config).await?;
            let events = store.wish(&key, wish).await?;
            let what = if *give_up { "given up" } else { "sent again by the engine" };
            context.out.emit(&json!({ "events": events }), |_| {
                format!("{} {what}", text::count(events, "event"))
            })
        }
        Command::Forget { name } => {
            if config.sinks.keys().any(|it| app::cursor_name(&config, it) == *name) {
                let message =
                    format!("`{name}` is configured: take it out of the configuration first");
                return Err(Failure::failed("sink_configured", message));
            }
            wish(name, SinkWish::Forget, "is forgotten", &*store, &config, context).await
        }
        Command::Test { .. } => Ok(()),
    }
}

fn table(sinks: &[SinkStanding], out: &Out) -> String {
    if sinks.is_empty() {
        return "no sinks: a section [sinks.NAME] in the configuration makes one".to_owned();
    }
    let rows = sinks.iter().map(|sink| {
        let (tone, state) = state(sink);
        [
            Shown::from(&sink.row.name),
            sink.kind.unwrap_or("-").into(),
            Shown::painted(tone, state),
            sink.row.delivered.to_string().into(),
            behind(sink).into(),
            sink.row.dead_letters.to_string().into(),
            sink.row.last_error.as_deref().unwrap_or("").into(),
        ]
    });
    let head = ["sink", "kind", "state", "delivered", "behind", "dead letters", "error"];
    out.table(head, rows.collect())
}

fn behind(sink: &SinkStanding) -> String {
    match sink.lag_events {
        0 => "0".to_owned(),
        events => format!("{events} ({} s)", sink.lag_seconds),
    }
}

async fn show(
    name: &str,
    limit: usize,
    store: &dyn Store,
    config: &Config,
    context: &Context,
) -> Result<(), Failure> {
    let key = known(name, store, config).await?;
    let sinks = sinks::sinks(store, config, context.clock.now()).await?;
    let Some(sink) = sinks.into_iter().find(|sink| sink.row.name == key) else {
        return Err(unknown(name));
    };
    let letters = store.dead_letters(&key, 0, false, limit).await?;
    context.out.emit(&json!({ "sink": sink, "dead_letters": letters }), |out| {
        let mut lines = vec![table(std::slice::from_ref(&sink), out)];
        lines.push(format!("last event    {}", sink.row.cursor.seq));
        if let Some(who) = &sink.row.held_by {
            lines.push(format!("delivered by  {who}"));
        }
        if let Some(at) = sink.row.paused_at {
            lines.push(format!("paused since  {at}"));
        }
        if !letters.is_empty() {
            lines.push(dead(&letters, out));
        }
        let more = sink.row.dead_letters.saturating_sub(letters.len() as u64);
        if more > 0 {
            lines.push(format!("{more} more: --limit shows them"));
        }
        lines.join("\n")
    })
}

fn dead(letters: &[DeadLetter], out: &Out) -> String {
    let rows = letters.iter().map(|letter| {
        let again = if letter.again { "is sent again" } else { "" };
        [
            letter.seq.to_string(),
            letter.at.to_string(),
            letter.attempts.to_string(),
            letter.code.clone(),
            text::one_line(&letter.reason),
            again.to_owned(),
        ]
    });
    out.table(["seq", "refused at", "times", "code", "reason", ""], rows.collect())
}

async fn wish(
    name: &str,
    wish: SinkWish,
    words: &str,
    store: &dyn Store,
    config: &Config,
    context: &Context,
) -> Result<(), Failure> {
    let key = known(name, store, config).await?;
    sinks::wish(&key, wish, store).await?;
    context.out.emit(&json!({ "sink": key }), |_| format!("sink {key} {words}"))
}

/// What the store calls the sink that somebody means.
async fn known(name: &str, store: &dyn Store, config: &Config) -> Result<String, Failure> {
    sinks::key(name, store, config).await?.ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> Failure {
    let message = format!("no sink is called `{name}`: `feedmill sink list` shows them");
    Failure::failed("sink_unknown", message)
}

async fn test(name: &str, config: &Config, context: &Context) -> Result<(), Failure> {
    let store: Arc<dyn Store> = context.store_or_new().await?;
    let Some((mut sink, _)) = deliver::sink(name, config, &context.clock, &store)
        .map_err(|error| Failure::failed(error.code(), error.to_string()))?
    else {
        return Err(unknown(name));
    };
    match sink.check().await {
        Ok(who) => context.out.emit(&json!({ "sink": name, "ok": true, "target": who }), |_| {
            format!("sink {name} is fine: {who}")
        }),
        Err(error) => Err(Failure::failed(error.code(), format!("sink {name}: {error}"))),
    }
}
