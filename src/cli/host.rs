//! `feedmill host`: how fast hosts are asked, and which are not asked at all.

use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use super::out::{Out, Tone};
use super::{Context, Failure, text};
use crate::app::explain::pause;
use crate::app::hosts;
use crate::config::Span;
use crate::frontier::{FOREVER, HostFilter, HostPatch, HostState};
use crate::model::{FetchId, Ts};
use crate::store::{FetchFilter, Store};

/// Looks at hosts, slows them down and blocks them
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    List(List),
    /// Shows a host: its pause and who asks for it, what waits, its robots.txt
    Show {
        /// The host, an address on it, or a group of hosts
        host: String,
    },
    Log(Log),
    /// Makes the pause between two requests at least so long, whatever robots.txt and sources say
    Slow {
        /// The host, an address on it, or a group of hosts
        host: String,
        /// The shortest pause, such as 10s; 0 takes it back
        #[arg(long, value_name = "SPAN")]
        delay: Span,
    },
    Block(Block),
    /// Asks a host again, after its ordinary pause
    Unblock {
        /// The host, an address on it, or a group of hosts
        host: String,
    },
    /// Sets how many requests a host gets at a time
    Concurrency {
        /// The host, an address on it, or a group of hosts
        host: String,
        /// Requests at a time
        #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
        requests: u32,
    },
}

/// Lists hosts by name
#[derive(Debug, clap::Args)]
pub(super) struct List {
    /// Only those that are blocked now
    #[arg(long)]
    blocked: bool,
    /// Only those with this text in their name
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Goes on after this host
    #[arg(long, value_name = "HOST")]
    after: Option<String>,
}

/// Lists what was asked of a host, and what it answered
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  feedmill host log example.com --days 7")]
pub(super) struct Log {
    /// The host, an address on it, or a group of hosts
    host: String,
    /// In the last so many days
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
    /// At most so many requests
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Goes on after this request, by its id
    #[arg(long, value_name = "ID")]
    after: Option<FetchId>,
}

/// Asks a host for nothing until a time, or until it is unblocked
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill host block example.com --for 2h
  feedmill host block example.com --until 2026-12-31T00:00:00Z")]
pub(super) struct Block {
    /// The host, an address on it, or a group of hosts
    host: String,
    /// For so long, such as 2h
    #[arg(long = "for", value_name = "SPAN", conflicts_with = "until")]
    span: Option<Span>,
    /// Until this time, such as 2026-12-31T00:00:00Z
    #[arg(long, value_name = "TIME")]
    until: Option<Ts>,
}

pub(super) async fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    let now = context.clock.now();
    let nothing = HostPatch::default();
    let (host, patch) = match command {
        Command::List(args) => return list(args, context).await,
        Command::Show { host } => return show(host, context).await,
        Command::Log(args) => return log(args, context).await,
        Command::Slow { host, delay } => {
            (host, HostPatch { delay: Some(delay.duration()), ..nothing })
        }
        Command::Block(args) => {
            (&args.host, HostPatch { blocked_until: Some(args.end(now)?), ..nothing })
        }
        Command::Unblock { host } => (host, HostPatch { blocked_until: Some(now), ..nothing }),
        Command::Concurrency { host, requests } => {
            (host, HostPatch { concurrency: Some(*requests), ..nothing })
        }
    };
    let store = context.store().await?;
    let name = match command {
        Command::Unblock { .. } => find(host, &*store).await?.name,
        _ => name_of(host, &*store).await?,
    };
    store.set_host(&name, patch).await?;
    let state = find(&name, &*store).await?;
    context.out.done(&state, &sentence(&state, now))
}

impl Block {
    fn end(&self, now: Ts) -> Result<Ts, Failure> {
        let until = self.until.or_else(|| Some(now.after(self.span?.duration())));
        match until.unwrap_or(FOREVER) {
            until if until > now => Ok(until.min(FOREVER)),
            _ => Err(Failure::usage(
                "time_passed",
                "a block has to end in the future: `feedmill host unblock` ends one now",
            )),
        }
    }
}

/// The host, or group, that a name or an address means.
pub(super) async fn find(given: &str, store: &dyn Store) -> Result<HostState, Failure> {
    hosts::find(given, store).await?.ok_or_else(|| unknown(given))
}

/// What an operator names to give orders about: a host that is known, or one that is yet to come.
async fn name_of(given: &str, store: &dyn Store) -> Result<String, Failure> {
    hosts::name_of(given, store).await?.ok_or_else(|| unknown(given))
}

fn unknown(given: &str) -> Failure {
    let given = text::one_line(given.trim());
    let message = format!("no host is called `{given}`: `feedmill host list` shows them");
    Failure::usage("unknown_host", message)
}

async fn list(args: &List, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let filter = HostFilter {
        name: None,
        search: args.search.clone(),
        blocked: args.blocked,
        after: args.after.clone(),
        limit: limit.saturating_add(1),
    };
    let mut hosts = store.hosts(filter).await?;
    let more = hosts.len() > limit;
    hosts.truncate(limit);
    let next = hosts.last().map(|host| host.name.clone()).filter(|_| more);
    let now = context.clock.now();
    context.out.emit(&json!({ "hosts": hosts, "next": next }), |out| {
        let mut told = table(&hosts, now, out);
        if let Some(name) = &next {
            told.push_str(&format!("\n\nthere are more: say --after {name} for the next page"));
        }
        told
    })
}

async fn log(args: &Log, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let (host, now) = (find(&args.host, &*store).await?, context.clock.now());
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let filter = FetchFilter {
        host: Some(host.name.clone()),
        since: Some(now.before(Duration::from_hours(24 * u64::from(args.days)))),
        after: args.after,
        limit: limit.saturating_add(1),
        ..FetchFilter::default()
    };
    let mut asked = store.find_fetches(filter).await?;
    let more = asked.len() > limit;
    asked.truncate(limit);
    let next = asked.last().map(|fetch| fetch.id).filter(|_| more);
    let value = json!({ "host": host.name, "requests": asked, "next": next });
    context.out.emit(&value, |out| {
        if asked.is_empty() {
            return format!("nothing was asked of {} in {} days", host.name, args.days);
        }
        let rows = asked.iter().map(|fetch| {
            let status = fetch.status.map_or_else(|| "none".to_owned(), |code| code.to_string());
            let (bytes, took) = (text::bytes(fetch.bytes), format!("{} ms", fetch.elapsed_ms));
            [fetch.at.to_string(), status, fetch.code.to_string(), bytes, took, fetch.url.clone()]
        });
        let head = ["at", "answer", "outcome", "size", "took", "url"];
        let mut told = out.table(head, rows.collect());
        if let Some(id) = next {
            told.push_str(&format!("\n\nthere are more: say --after {id} for the next page"));
        }
        told
    })
}

fn table(hosts: &[HostState], now: Ts, out: &Out) -> String {
    if hosts.is_empty() {
        return "no hosts".to_owned();
    }
    let rows = hosts.iter().map(|host| {
        let queued = host.queued;
        [
            host.name.clone(),
            pause(host),
            format!("{} of {}", host.in_flight, host.concurrency),
            text::number(queued.poll),
            text::number(queued.page),
            text::number(queued.media),
            text::ever(host.last_fetch_at, now),
            host.blocked_until.map(|until| blocked(until, now)).unwrap_or_default(),
        ]
    });
    let head = ["host", "pause", "in flight", "polls", "pages", "media", "last asked", "blocked"];
    out.table(head, rows.collect())
}

fn span(millis: u64) -> String {
    Span::millis(millis).to_string()
}

pub(super) fn blocked(until: Ts, now: Ts) -> String {
    if until >= FOREVER {
        return "until it is unblocked".to_owned();
    }
    format!("until {until} ({})", text::when(until, now))
}

/// What an operator wants to hear after a change.
fn sentence(host: &HostState, now: Ts) -> String {
    let asked = match host.blocked_until {
        Some(until) => format!("is blocked {}", blocked(until, now)),
        None => {
            let requests = text::count(u64::from(host.concurrency), "request");
            format!("gets {requests} at a time, with pauses of {}", pause(host))
        }
    };
    format!("{} {asked}", host.name)
}

async fn show(name: &str, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let host = find(name, &*store).await?;
    let now = context.clock.now();
    context.out.emit(&host, |out| facts(&host, now, out))
}

pub(super) fn facts(host: &HostState, now: Ts, out: &Out) -> String {
    let state = match host.blocked_until {
        Some(until) => out.paint(Tone::Careful, "blocked") + " " + &blocked(until, now),
        None => out.paint(Tone::Good, "open"),
    };
    let millis = |ms: i64| u64::try_from(ms).ok().filter(|ms| *ms > 0).map(span);
    let queued = host.queued;
    let lines = [
        ("state", Some(state)),
        ("pause", Some(pause(host))),
        ("crawl-delay", host.crawl_delay_ms.and_then(millis)),
        ("source", host.rate_ms.and_then(millis)),
        ("learned", millis(host.learned_ms)),
        ("operator", millis(host.slow_ms)),
        ("in flight", Some(format!("{} of {}", host.in_flight, host.concurrency))),
        (
            "queued",
            Some(format!(
                "{} polls, {} pages, {} media",
                text::number(queued.poll),
                text::number(queued.page),
                text::number(queued.media)
            )),
        ),
        ("next", host.next_at.filter(|at| *at < FOREVER).map(|at| text::when(at.max(now), now))),
        ("last asked", Some(text::ever(host.last_fetch_at, now))),
        ("known since", Some(host.created_at.to_string())),
    ];
    let lines =
        lines.into_iter().filter_map(|(name, value)| Some(format!("{name:<11} {}", value?)));
    let robots = host.robots.iter().map(|copy| {
        let read = text::when(copy.fetched_at, now);
        format!("robots      {} read {read}, kept until {}", copy.origin, copy.expires_at)
    });
    let lines: Vec<_> = lines.chain(robots).collect();
    format!("{}\n{}", host.name, lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_ends_as_told_or_never() {
        let now = Ts::from_ms(1_000_000);
        let block = |span, until| Block { host: "a.example".into(), span, until };
        let later = now.after(std::time::Duration::from_hours(2));
        assert_eq!(block(None, None).end(now).unwrap(), FOREVER);
        assert_eq!(block(Some(Span::hours(2)), None).end(now).unwrap(), later);
        assert_eq!(block(None, Some(later)).end(now).unwrap(), later);
        for past in [block(Some(Span::seconds(0)), None), block(None, Some(now))] {
            assert_eq!(past.end(now).unwrap_err().exit, 2);
        }
    }
}
