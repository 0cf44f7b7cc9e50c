//! The log of what changed: append-only, ordered, read by sinks at their own pace.

use serde::Serialize;

use super::{Code, Kind, SourceId, Task, Ts, named};

named! {
    /// What changed.
    pub enum EventKind {
        /// A feed has an entry that we did not know.
        EntryNew = 0 "entry.new",
        /// A known entry reads differently.
        EntryUpdated = 1 "entry.updated",
        /// A feed says that an entry of it is gone.
        EntryDeleted = 2 "entry.deleted",
        /// An article is kept for the first time.
        ArticleNew = 10 "article.new",
        /// A kept article has another text.
        ArticleUpdated = 11 "article.updated",
        /// An article has the very text of an earlier one.
        ArticleDuplicate = 12 "article.duplicate",
        /// An article's page was given up.
        ArticleFailed = 13 "article.failed",
        /// An article was taken down.
        ArticleWithdrawn = 14 "article.withdrawn",
        /// A fetch brought much less of an article than is kept, and that stays.
        ArticleThin = 15 "article.thin",
        /// A source is no longer followed, or a channel of it only probed, or given up.
        SourceDisabled = 20 "source.disabled",
        /// A source, or a channel of it, is followed again.
        SourceEnabled = 21 "source.enabled",
        /// The health of a source's channel changed.
        SourceHealth = 22 "source.health",
        /// The search for a source's feeds and sitemaps is over, with what it found.
        SourceDiscovered = 23 "source.discovered",
        /// A feed has another address for good.
        FeedMoved = 30 "feed.moved",
        /// A feed or sitemap is gone for good.
        FeedGone = 31 "feed.gone",
    }
}

/// An event on its way into the log.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// What changed.
    pub kind: EventKind,
    /// The public id of what changed: entry, article, source or feed.
    pub subject: String,
    /// Whose it is.
    pub source: Option<SourceId>,
    /// Compact facts; sinks join what else they need.
    pub payload: serde_json::Value,
}

impl NewEvent {
    /// What the log says when a task is given up; nothing for kinds that nobody waits for.
    #[must_use]
    pub fn given_up(task: &Task, code: Code, reason: &str) -> Vec<Self> {
        let kinds: &[EventKind] = match (task.kind, code) {
            (Kind::Article, _) => &[EventKind::ArticleFailed],
            (Kind::Feed | Kind::Sitemap | Kind::Listing, Code::Gone) => {
                &[EventKind::FeedGone, EventKind::SourceDisabled]
            }
            (Kind::Feed | Kind::Sitemap | Kind::Listing, _) => &[EventKind::SourceDisabled],
            _ => &[],
        };
        let told = |kind: &EventKind| Self {
            kind: *kind,
            subject: match kind {
                EventKind::ArticleFailed => task.url_hash.to_string(),
                EventKind::FeedGone => task.id.to_string(),
                _ => task.source_id.clone().unwrap_or_else(|| task.id.to_string()),
            },
            source: task.source,
            payload: serde_json::json!({
                "channel": task.kind.recurs().then_some(task.id), "url": task.url, "code": code,
                "failure": code.failure(), "reason": reason, "attempts": task.retry_count + 1,
            }),
        };
        kinds.iter().map(told).collect()
    }
}

/// An event in the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// Its place: later events have greater ones.
    pub seq: i64,
    /// When it was committed.
    pub at: Ts,
    /// What changed.
    pub kind: EventKind,
    /// The public id of what changed.
    pub subject: String,
    /// Whose it is.
    #[serde(skip)]
    pub source: Option<SourceId>,
    /// Compact facts.
    pub payload: serde_json::Value,
}
