//! `feedmill source`: the publishers that are followed.

mod access;
mod diff;
mod lists;

use clap::Subcommand;
use feedmill_formats::url::Url;
use serde_json::json;

use super::out::{Out, Tone};
use super::{Context, Failure, text};
use crate::config::Span;
use crate::fetch::Guard;
use crate::model::{Health, Kind, PollPolicy, Source, Status, Ts};
use crate::sources::{Wanted, check_interval, specify};
use crate::store::ChannelState;

/// Adds, shows and changes the publishers that are followed
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Add(Add),
    /// Replaces how a source is asked: headers, credentials, proxy. Without flags, like everybody
    Access {
        /// The source's name or id
        name: String,
        #[command(flatten)]
        flags: access::Flags,
    },
    /// Replaces how a source is polled, from its next poll on. Without flags, as `schedule` says
    Pace {
        /// The source's name or id
        name: String,
        #[command(flatten)]
        flags: Polls,
    },
    /// Lists all sources
    List,
    /// Shows a source and how its channels do
    Show {
        /// The source's name or id
        name: String,
    },
    /// Shows what its feeds changed between their last two forms, told or not
    Diff {
        /// The source's name or id
        name: String,
    },
    /// Adds a source for each feed of an OPML file
    Import {
        /// The OPML file, or - for standard input
        file: String,
    },
    /// Prints the feeds of all sources as OPML
    Export,
    /// Forgets a source; its articles stay
    Remove {
        /// The source's name or id
        name: String,
        /// Does not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Follows a disabled source again
    Enable {
        /// The source's name or id
        name: String,
    },
    /// Stops following a source, until it is enabled again
    Disable {
        /// The source's name or id
        name: String,
        /// Why, for those who look later
        #[arg(long, default_value = "disabled by the operator")]
        reason: String,
    },
}

/// How polls are chosen.
#[derive(Debug, clap::Args)]
pub(super) struct Polls {
    /// A fixed time between polls, such as 30m; never less than `schedule.min_interval`
    #[arg(long, value_name = "SPAN")]
    interval: Option<Span>,
    /// How its polls are chosen: value, ewma or fixed [default: as schedule.policy says]
    #[arg(long, value_name = "POLICY")]
    policy: Option<PollPolicy>,
}

/// Adds a source
///
/// An address is a feed, or a sitemap when its file name says so. Several addresses make one source
/// with several channels.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill source add https://example.com/feed.xml
  feedmill source add https://example.com/rss https://example.com/sitemap.xml --name example")]
pub(super) struct Add {
    /// Addresses of its feeds and sitemaps
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// What to call it [default: the host of the first address]
    #[arg(long)]
    name: Option<String>,
    /// The addresses are feeds, whatever they are called
    #[arg(long, conflicts_with = "sitemap")]
    feed: bool,
    /// The addresses are sitemaps, whatever they are called
    #[arg(long)]
    sitemap: bool,
    /// A label that its articles carry
    #[arg(long)]
    category: Option<String>,
    /// 1 to 10, 10 is served first [default: 5]
    #[arg(long, value_name = "1-10")]
    priority: Option<u8>,
    /// The pause between two requests to its hosts, when robots.txt names none, such as 2s
    #[arg(long, value_name = "SPAN")]
    rate_limit: Option<Span>,
    #[command(flatten)]
    pace: Polls,
    #[command(flatten)]
    access: access::Flags,
}

impl Add {
    fn wanted(&self) -> Result<Wanted, Failure> {
        let kind = self.feed.then_some(Kind::Feed);
        Ok(Wanted {
            urls: self.urls.clone(),
            name: self.name.clone(),
            kind: kind.or_else(|| self.sitemap.then_some(Kind::Sitemap)),
            category: self.category.clone(),
            priority: self.priority,
            rate_limit: self.rate_limit.map(Span::duration),
            interval: self.pace.interval.map(Span::duration),
            policy: self.pace.policy,
            access: self.access.access()?,
        })
    }
}

pub(super) async fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Add(args) => add(args, context).await,
        Command::Access { name, flags } => access::run(name, flags, context).await,
        Command::Pace { name, flags } => pace(name, flags, context).await,
        Command::List => list(context).await,
        Command::Show { name } => show(name, context).await,
        Command::Diff { name } => diff::run(name, context).await,
        Command::Import { file } => lists::import(file, context).await,
        Command::Export => lists::export(context).await,
        Command::Remove { name, yes } => remove(name, *yes, context).await,
        Command::Enable { name } => {
            let source = context.store().await?.set_enabled(name, None).await?;
            context.out.done(&source, &format!("{} is followed", source.spec.name))
        }
        Command::Disable { name, reason } => {
            let store = context.store().await?;
            let source = store.set_enabled(name, Some(reason.clone())).await?;
            context.out.done(&source, &format!("{} is no longer followed", source.spec.name))
        }
    }
}

async fn pace(name: &str, flags: &Polls, context: &Context) -> Result<(), Failure> {
    let interval = flags.interval.map(Span::duration);
    check_interval(interval)?;
    let source = context.store().await?.set_pace(name, interval, flags.policy).await?;
    let how = match (flags.interval, flags.policy) {
        (Some(interval), _) => format!("every {interval}"),
        (None, Some(policy)) => format!("by {policy}"),
        (None, None) => "as schedule.policy says".to_owned(),
    };
    context.out.done(&source, &format!("{} is polled {how}", source.spec.name))
}

async fn add(args: &Add, context: &Context) -> Result<(), Failure> {
    // Said before anything is opened, so that a mistake leaves nothing behind.
    let fetch = context.load()?.config.fetch;
    let guard = Guard::new(&fetch);
    let permit = |url: &Url| guard.check_url(url).map_err(|refusal| refusal.to_string());
    let spec = specify(&args.wanted()?, permit)?;
    let source = context.store_or_new().await?.add_source(spec).await?;
    let told = format!("{} is followed: {}", source.spec.name, channels(&source));
    context.out.done(&source, &told)
}

fn channels(source: &Source) -> String {
    let (feeds, sitemaps) = (source.spec.feed_urls.len(), source.spec.sitemap_urls.len());
    let kinds = [(feeds, "feed"), (sitemaps, "sitemap")];
    let told = kinds.into_iter().filter(|(n, _)| *n > 0);
    told.map(|(n, kind)| text::count(n as u64, kind)).collect::<Vec<_>>().join(", ")
}

fn state(source: &Source) -> &'static str {
    if source.enabled() { "enabled" } else { "disabled" }
}

async fn list(context: &Context) -> Result<(), Failure> {
    let sources = context.store().await?.sources().await?;
    context.out.emit(&json!({ "sources": sources }), |out| {
        if sources.is_empty() {
            return "no sources yet: `feedmill source add URL` adds one".to_owned();
        }
        let rows = sources.iter().map(|source| {
            [
                source.spec.name.clone(),
                state(source).to_owned(),
                source.spec.ingestion_mode.to_string(),
                channels(source),
                source.spec.category.clone().unwrap_or_default(),
                source.spec.priority.to_string(),
            ]
        });
        let head = ["name", "state", "mode", "channels", "category", "priority"];
        out.table(head, rows.collect())
    })
}

async fn show(name: &str, context: &Context) -> Result<(), Failure> {
    let (source, channels) = context.store().await?.source(name).await?;
    let value = json!({ "source": source, "channels": channels });
    let now = context.clock.now();
    context
        .out
        .emit(&value, |out| format!("{}\n\n{}", facts(&source, out), table(&channels, now, out)))
}

fn facts(source: &Source, out: &Out) -> String {
    let spec = &source.spec;
    let tone = if source.enabled() { Tone::Good } else { Tone::Careful };
    let reason =
        source.disable_reason.iter().map(|reason| format!(" ({})", text::one_line(reason)));
    let span = |span: std::time::Duration| {
        Span::millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)).to_string()
    };
    let lines = [
        ("id", Some(source.uuid.clone())),
        ("state", Some(out.paint(tone, state(source)) + &reason.collect::<String>())),
        ("home", Some(text::one_line(&spec.url))),
        ("mode", Some(spec.ingestion_mode.to_string())),
        ("category", spec.category.as_deref().map(text::one_line)),
        ("priority", Some(spec.priority.to_string())),
        ("rate limit", spec.rate_limit.map(span)),
        ("interval", spec.poll_interval.map(span)),
        ("policy", spec.poll_policy.map(|policy| policy.to_string())),
        ("asked", access::told(&spec.access).as_deref().map(text::one_line)),
        ("added", Some(source.created_at.to_string())),
    ];
    let lines =
        lines.into_iter().filter_map(|(name, value)| Some(format!("{name:<11} {}", value?)));
    format!("{}\n{}", text::one_line(&spec.name), lines.collect::<Vec<_>>().join("\n"))
}

fn table(channels: &[ChannelState], now: Ts, out: &Out) -> String {
    if channels.is_empty() {
        return "no channels of its own: another source owns its addresses".to_owned();
    }
    let rows = channels.iter().map(|channel| {
        let health = match (channel.last_error, channel.last_fetched_at) {
            (Some(code), _) if channel.status == Status::Dead => {
                format!("given up: {code}; `source enable` tries again")
            }
            (Some(code), _) if channel.failures > 0 => {
                format!("{code} ({} in a row)", channel.failures)
            }
            (Some(code), _) => code.to_string(),
            (None, Some(_)) if channel.health == Health::Usual => "ok".to_owned(),
            (None, Some(_)) => channel.health.to_string(),
            (None, None) => "new".to_owned(),
        };
        [
            channel.kind.to_string(),
            health,
            channel.items.to_string(),
            text::ever(channel.last_success_at, now),
            match channel.status {
                Status::Pending => text::when(channel.next_fetch_at, now),
                Status::Fetched | Status::Dead | Status::Parked => "never".to_owned(),
            },
            channel.url.clone(),
        ]
    });
    out.table(["kind", "health", "items", "last success", "next poll", "url"], rows.collect())
}

async fn remove(name: &str, yes: bool, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let (source, _) = store.source(name).await?;
    context.out.confirm(yes, &format!("Forget {}", text::one_line(&source.spec.name)))?;
    let source = store.remove_source(name).await?;
    context.out.done(&source, &format!("{} is forgotten; its articles stay", source.spec.name))
}
