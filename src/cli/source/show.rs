//! `feedmill source list` and `show`: what is followed, and how it does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::out::{Out, Tone};
use super::super::{Context, Failure, channel, text};
use super::{access, channels, selectors};
use crate::config::Span;
use crate::frontier::TaskFilter;
use crate::model::{Ask, Code, Discovery, Health, Kind, Source, SourceId, Status, Ts, Website};
use crate::store::ChannelState;
use crate::store::usage::{SourceUsage, day_of, usage};

/// Lists all sources
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct List {
    /// Only those of this category
    #[arg(long)]
    category: Option<String>,
    /// Only those with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only those that are not followed
    #[arg(long)]
    disabled: bool,
}

impl List {
    fn wants(&self, source: &Source) -> bool {
        let spec = &source.spec;
        self.category.as_ref().is_none_or(|category| spec.category.as_ref() == Some(category))
            && self.tag.as_ref().is_none_or(|tag| spec.tags.contains(tag))
            && !(self.disabled && source.enabled())
    }
}

pub(super) async fn list(args: &List, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let (mut sources, all) = (store.sources().await?, store.channels().await?);
    let any = !sources.is_empty();
    sources.retain(|source| args.wants(source));
    let mut own: BTreeMap<SourceId, Vec<&ChannelState>> = BTreeMap::new();
    for channel in &all {
        own.entry(channel.source).or_default().push(channel);
    }
    let doing = |source: &Source| Doing::of(own.get(&source.id).map_or(&[], Vec::as_slice));
    let told: Vec<_> = sources.iter().map(|source| (source, doing(source))).collect();
    let value: Vec<Value> = told.iter().map(|(source, doing)| doing.beside(source)).collect();
    context.out.emit(&json!({ "sources": value }), |out| {
        if told.is_empty() && any {
            return "no source is like that".to_owned();
        }
        if told.is_empty() {
            return "no sources yet: `feedmill source add URL` adds one".to_owned();
        }
        let rows = told.iter().map(|(source, doing)| {
            [
                source.spec.name.clone(),
                state(source).to_owned() + &doing.disabled(),
                doing.health(),
                source.spec.ingestion_mode.to_string(),
                channels(source),
                source.spec.category.clone().unwrap_or_default(),
                source.spec.priority.to_string(),
            ]
        });
        let head = ["name", "state", "health", "mode", "channels", "category", "priority"];
        out.table(head, rows.collect())
    })
}

/// How the channels of a source do together.
struct Doing {
    health: BTreeSet<&'static str>,
    disabled: usize,
    all: usize,
}

impl Doing {
    fn of(channels: &[&ChannelState]) -> Self {
        let health = channels.iter().filter_map(|one| channel::health(one));
        let mut health: BTreeSet<_> = health.map(Health::as_str).collect();
        if health.len() > 1 {
            // What is as usual goes without saying.
            health.remove(Health::Usual.as_str());
        }
        let disabled = channels.iter().filter(|one| channel::is_disabled(one)).count();
        Self { health, disabled, all: channels.len() }
    }

    fn health(&self) -> String {
        self.health.iter().copied().collect::<Vec<_>>().join(", ")
    }

    fn disabled(&self) -> String {
        match self.disabled {
            0 => String::new(),
            n => format!(", {n} of {} disabled", text::count(self.all as u64, "channel")),
        }
    }

    fn beside(&self, source: &Source) -> Value {
        let mut value = json!(source);
        if let Value::Object(fields) = &mut value {
            fields.insert("health".into(), json!(self.health));
            fields.insert("disabled_channels".into(), json!(self.disabled));
        }
        value
    }
}

fn state(source: &Source) -> &'static str {
    if source.enabled() { "enabled" } else { "disabled" }
}

pub(super) async fn show(name: &str, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let (source, channels) = store.source(name).await?;
    let turned_away = TaskFilter {
        source: Some(source.uuid.clone()),
        kind: Some(Kind::Article),
        code: Some(Code::Rejected),
        ..TaskFilter::default()
    };
    let rejected = store.count(turned_away).await?;
    let known = store.lookup(Ask { discovery: Some(source.id), ..Ask::default() }).await?;
    let search = known.discovery;
    let pages = TaskFilter {
        source: Some(source.uuid.clone()),
        kind: Some(Kind::Listing),
        ..TaskFilter::default()
    };
    let walked = store.count(pages).await?;
    let now = context.clock.now();
    let used = usage(&*store, day_of(now)).await?.into_iter().find(|of| of.source == source.id);
    let bytes_today = used.as_ref().map_or(0, |used| used.bytes);
    let value = json!({
        "source": source, "channels": channels, "rejected": rejected, "discovery": search,
        "walked": walked, "bytes_today": bytes_today,
        "over_quota_since": used.as_ref().and_then(|used| used.limited_at),
    });
    context.out.emit(&value, |out| {
        let parts = [
            facts(&source, (rejected, walked), used.as_ref(), out),
            table(&source, &channels, now, search.as_ref(), out),
            notes(&channels),
            search.as_ref().map(channel::searched).unwrap_or_default(),
        ];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
    })
}

fn facts(
    source: &Source,
    (rejected, walked): (u64, u64),
    used: Option<&SourceUsage>,
    out: &Out,
) -> String {
    let spec = &source.spec;
    let tone = if source.enabled() { Tone::Good } else { Tone::Careful };
    let reason =
        source.disable_reason.iter().map(|reason| format!(" ({})", text::one_line(reason)));
    let since = source.enabled_at.or(source.disabled_at).map(|at| format!(" since {at}"));
    let reason = reason.chain(since);
    let list = |items: &[String]| (!items.is_empty()).then(|| text::one_line(&items.join(", ")));
    let depth = |depth: i16| match depth {
        -1 => "without end".to_owned(),
        links => text::count(links.unsigned_abs().into(), "link"),
    };
    let span = |span: std::time::Duration| {
        Span::millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)).to_string()
    };
    let limited = |used: &SourceUsage| match &used.reason {
        Some(reason) => format!(". Over quota: {}", text::one_line(reason)),
        None => String::new(),
    };
    let lines = [
        ("id", Some(source.uuid.clone())),
        ("state", Some(out.paint(tone, state(source)) + &reason.collect::<String>())),
        ("home", Some(text::one_line(&spec.url))),
        ("mode", Some(spec.ingestion_mode.to_string())),
        ("category", spec.category.as_deref().map(text::one_line)),
        ("tags", list(&spec.tags)),
        ("priority", Some(spec.priority.to_string())),
        ("discovery", (!spec.discover).then(|| "off".to_owned())),
        ("website", spec.website.as_ref().map(website).as_deref().map(text::one_line)),
        ("articles", list(&spec.article_url_patterns)),
        ("depth", spec.max_depth.map(depth)),
        ("managed", spec.managed.as_ref().map(|it| text::one_line(&format!("by {}", it.by)))),
        ("rate limit", spec.rate_limit.map(span)),
        ("interval", spec.poll_interval.map(span)),
        ("at least", spec.min_interval.map(span)),
        ("at most", spec.max_interval.map(span)),
        ("policy", spec.poll_policy.map(|policy| policy.to_string())),
        ("refetch", spec.refetch.map(|policy| policy.to_string())),
        ("selectors", selectors::told(&spec.selectors).as_deref().map(text::one_line)),
        ("asked", access::told(&spec.access).as_deref().map(text::one_line)),
        ("walked", (walked > 0).then(|| text::count(walked, "page"))),
        ("rejected", (rejected > 0).then(|| text::count(rejected, "page"))),
        ("today", used.map(|used| format!("{} stored{}", text::bytes(used.bytes), limited(used)))),
        ("added", Some(source.created_at.to_string())),
    ];
    let lines =
        lines.into_iter().filter_map(|(name, value)| Some(format!("{name:<11} {}", value?)));
    format!("{}\n{}", text::one_line(&spec.name), lines.collect::<Vec<_>>().join("\n"))
}

fn website(website: &Website) -> String {
    match website {
        Website::Direct => "its home page is the article".to_owned(),
        Website::List { article_selector, pagination_selector, max_pages } => {
            let next = pagination_selector.iter().map(|next| format!(", next page `{next}`"));
            let pages = text::count(u64::from(*max_pages), "page");
            format!("lists articles: `{article_selector}`{}, {pages}", next.collect::<String>())
        }
    }
}

fn table(
    source: &Source,
    channels: &[ChannelState],
    now: Ts,
    search: Option<&Discovery>,
    out: &Out,
) -> String {
    if channels.is_empty() && source.spec.website == Some(Website::Direct) {
        return "no channels: its home page is its article".to_owned();
    }
    if channels.is_empty() && search.is_some_and(|search| search.found.is_empty()) {
        return "no channels yet".to_owned();
    }
    if channels.is_empty() {
        let why = if source.spec.names_channels() || source.spec.reads_pages() {
            "another source owns its addresses"
        } else if source.spec.seeks_channels() {
            "its home page was not looked at yet"
        } else {
            "it names none, and none are looked for"
        };
        return format!("no channels of its own: {why}");
    }
    let rows = channels.iter().map(|one| {
        [
            one.kind.to_string(),
            channel::state(one, now),
            channel::health(one).map(|health| health.to_string()).unwrap_or_default(),
            one.failures.to_string(),
            one.items.to_string(),
            text::ever(one.last_success_at, now),
            match one.status {
                Status::Pending => text::when(one.next_fetch_at, now),
                Status::Fetched | Status::Dead | Status::Parked => "never".to_owned(),
            },
            one.url.clone(),
        ]
    });
    let head = ["kind", "state", "health", "failures", "items", "last success", "next poll", "url"];
    out.table(head, rows.collect())
}

/// Why channels are not polled, and what is wrong with their documents.
fn notes(channels: &[ChannelState]) -> String {
    let mut notes = Vec::new();
    for one in channels {
        let url = text::one_line(&one.url);
        if channel::is_disabled(one) {
            let reason = one.reason.as_deref().unwrap_or_default();
            notes.push(format!(
                "{url}: {}; `feedmill source enable` tries again now",
                text::one_line(reason)
            ));
        }
        let moved =
            one.moved_from.iter().map(|from| format!("{url}: moved from {}", text::one_line(from)));
        notes.extend(moved);
        notes.extend(channel::warnings(one).map(|warned| format!("{url}: {warned}")));
    }
    notes.join("\n")
}
