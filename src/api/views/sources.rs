//! Sources, their channels, and the search for these.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{Time, time};
use crate::app::standing::{AsOf, Group, Standing, health, is_disabled, standing};
use crate::model::{Discovery, Kind, Source};
use crate::store::browse::sources::Channel;

/// A publisher that is followed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Source)]
pub(in crate::api) struct SourceView {
    pub(in crate::api) id: String,
    pub(in crate::api) name: String,
    /// The publisher's home page.
    url: String,
    feed_urls: Vec<String>,
    sitemap_urls: Vec<String>,
    /// feed, spider or both.
    ingestion_mode: String,
    category: Option<String>,
    tags: Vec<String>,
    /// 1 to 10, 10 is served first.
    priority: u8,
    rate_limit_ms: Option<u64>,
    poll_interval_ms: Option<u64>,
    min_interval_ms: Option<u64>,
    max_interval_ms: Option<u64>,
    /// value, ewma or fixed; null as the configuration says.
    poll_policy: Option<String>,
    /// never, interval or `on_lastmod_newer`; null as the configuration says.
    refetch: Option<String>,
    /// Where the parts of its articles stand.
    #[schema(value_type = Object)]
    selectors: Value,
    /// Whether feeds that it does not name are looked for.
    discover: bool,
    /// How its home page is read when it is no feed.
    #[schema(value_type = Option<Object>)]
    website: Option<Value>,
    article_url_patterns: Vec<String>,
    max_depth: Option<i16>,
    /// How it is asked; secrets are hidden.
    #[schema(value_type = Object)]
    access: Value,
    /// Whose list it stands on.
    #[schema(value_type = Option<Object>)]
    managed: Option<Value>,
    pub(in crate::api) enabled: bool,
    enabled_at: Option<Time>,
    disabled_at: Option<Time>,
    disable_reason: Option<String>,
    created_at: Time,
    /// failing, blocked, `over_quota`, late, `never_fetched`, disabled or healthy.
    pub(in crate::api) standing: String,
    /// Why it stands like that.
    reason: String,
    /// Since when.
    since: Option<Time>,
    /// How its channels do.
    health: Vec<String>,
    /// How many channels it has.
    channels: usize,
    /// How many of them are no longer polled.
    disabled_channels: usize,
    /// Bytes that it added to the archive and the database today (UTC); see `sources.max_bytes_per_day`.
    bytes_today: u64,
    last_success_at: Option<Time>,
}

impl SourceView {
    pub(in crate::api) fn of(
        source: &Source,
        channels: &[Channel],
        search: Option<&Discovery>,
        as_of: &AsOf,
    ) -> Self {
        let states: Vec<_> = channels.iter().map(|one| &one.state).collect();
        let Standing { group, since, last_success_at, reason, .. } =
            standing(source, &states, search, as_of);
        let mut health: Vec<String> =
            states.iter().filter_map(|one| health(one)).map(|one| one.to_string()).collect();
        health.sort();
        health.dedup();
        let spec = &source.spec;
        let ms = |span: Option<std::time::Duration>| {
            span.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
        };
        let value = |it: serde_json::Result<Value>| it.unwrap_or_default();
        Self {
            id: source.uuid.clone(),
            name: spec.name.clone(),
            url: spec.url.clone(),
            feed_urls: spec.feed_urls.clone(),
            sitemap_urls: spec.sitemap_urls.clone(),
            ingestion_mode: spec.ingestion_mode.to_string(),
            category: spec.category.clone(),
            tags: spec.tags.clone(),
            priority: spec.priority,
            rate_limit_ms: ms(spec.rate_limit),
            poll_interval_ms: ms(spec.poll_interval),
            min_interval_ms: ms(spec.min_interval),
            max_interval_ms: ms(spec.max_interval),
            poll_policy: spec.poll_policy.map(|one| one.to_string()),
            refetch: spec.refetch.map(|one| one.to_string()),
            selectors: value(serde_json::to_value(&spec.selectors)),
            discover: spec.discover,
            website: spec.website.as_ref().map(|it| value(serde_json::to_value(it))),
            article_url_patterns: spec.article_url_patterns.clone(),
            max_depth: spec.max_depth,
            access: value(serde_json::to_value(&spec.access)),
            managed: spec.managed.as_ref().map(|it| value(serde_json::to_value(it))),
            enabled: source.enabled(),
            enabled_at: time(source.enabled_at),
            disabled_at: time(source.disabled_at),
            disable_reason: source.disable_reason.clone(),
            created_at: Time(source.created_at),
            standing: word(group),
            reason,
            since: time(since),
            health,
            channels: states.len(),
            disabled_channels: states.iter().filter(|one| is_disabled(one)).count(),
            bytes_today: as_of.bytes_today(source.id),
            last_success_at: time(last_success_at),
        }
    }
}

/// A group as one word.
pub(in crate::api) fn word(group: Group) -> String {
    group.as_str().replace(' ', "_")
}

/// What was wrong with the last document of a channel.
#[derive(Debug, Serialize, ToSchema)]
struct Warning {
    code: String,
    detail: String,
    count: u64,
}

/// A feed, sitemap or page that is polled for a source.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Feed)]
pub(in crate::api) struct FeedView {
    pub(in crate::api) id: String,
    /// The name of its source.
    source: String,
    source_id: String,
    /// feed, sitemap or listing.
    kind: String,
    pub(in crate::api) url: String,
    title: Option<String>,
    moved_from: Option<String>,
    /// pending, fetched, dead or parked.
    status: String,
    next_fetch_at: Time,
    last_fetched_at: Option<Time>,
    last_success_at: Option<Time>,
    /// The time between two polls that was chosen last.
    interval_ms: Option<u64>,
    failures: u32,
    /// Items of its last document.
    items: u32,
    /// Those of them that were new.
    new_items: u64,
    last_error: Option<String>,
    /// Why it comes back when it does.
    reason: Option<String>,
    health: Option<String>,
    health_since: Option<Time>,
    disabled_since: Option<Time>,
    warnings: Vec<Warning>,
}

impl From<Channel> for FeedView {
    fn from(channel: Channel) -> Self {
        let Channel { state, task, source, source_id, title, interval_ms, new_items } = channel;
        Self {
            id: task.to_string(),
            source,
            source_id,
            health: health(&state).map(|one| one.to_string()),
            kind: state.kind.to_string(),
            url: state.url,
            title,
            moved_from: state.moved_from,
            status: state.status.to_string(),
            next_fetch_at: Time(state.next_fetch_at),
            last_fetched_at: time(state.last_fetched_at),
            last_success_at: time(state.last_success_at),
            interval_ms,
            failures: state.failures,
            items: state.items,
            new_items,
            last_error: state.last_error.map(|code| code.to_string()),
            reason: state.reason,
            health_since: time(state.health_since),
            disabled_since: time(state.disabled_since),
            warnings: state
                .warnings
                .into_iter()
                .map(|it| Warning { code: it.code, detail: it.detail, count: it.count.into() })
                .collect(),
        }
    }
}

/// A feed or sitemap that a look around found.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct FoundView {
    url: String,
    /// feed or sitemap.
    kind: String,
    title: Option<String>,
    items: u32,
    newest: Option<Time>,
    /// Why it was taken, in a few words.
    how: String,
    /// Whether it is a sitemap of news.
    news: bool,
}

/// An address that was tried in vain.
#[derive(Debug, Serialize, ToSchema)]
struct TriedView {
    url: String,
    why: String,
}

/// What the search for a source's channels came to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Discovery)]
pub(in crate::api) struct DiscoveryView {
    began: Option<Time>,
    ended: Option<Time>,
    requests: u32,
    pub(in crate::api) found: Vec<FoundView>,
    tried: Vec<TriedView>,
    /// Addresses that were offered too.
    left: Vec<String>,
}

impl From<&Discovery> for DiscoveryView {
    fn from(search: &Discovery) -> Self {
        let found = search.found.iter().map(|it| FoundView {
            url: it.url.clone(),
            kind: if it.kind == Kind::Sitemap { "sitemap" } else { "feed" }.to_owned(),
            title: it.title.clone(),
            items: it.items,
            newest: time(it.newest),
            how: it.how.told().to_owned(),
            news: it.news,
        });
        let tried = search.tried.iter();
        let tried = tried.map(|it| TriedView { url: it.url.clone(), why: it.why.clone() });
        Self {
            began: time(search.began),
            ended: time(search.ended),
            requests: search.requests,
            found: found.collect(),
            tried: tried.collect(),
            left: search.left.iter().map(|it| it.url.clone()).collect(),
        }
    }
}
