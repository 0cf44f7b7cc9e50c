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
        /// A source is no longer followed.
        SourceDisabled = 20 "source.disabled",
        /// A source is followed again.
        SourceEnabled = 21 "source.enabled",
        /// A source's health changed.
        SourceHealth = 22 "source.health",
        /// A feed has another address for good.
        FeedMoved = 30 "feed.moved",
        /// A feed is gone for good.
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
    /// What the log says when a task is given up; `None` for kinds that nobody waits for.
    #[must_use]
    pub fn given_up(task: &Task, code: Code, reason: &str) -> Option<Self> {
        let (kind, subject) = match task.kind {
            Kind::Article => (EventKind::ArticleFailed, task.url_hash.to_string()),
            Kind::Feed => (EventKind::FeedGone, task.id.to_string()),
            _ => return None,
        };
        Some(Self {
            kind,
            subject,
            source: task.source,
            payload: serde_json::json!({
                "url": task.url, "code": code, "failure": code.failure(), "reason": reason,
                "attempts": task.retry_count + 1,
            }),
        })
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
