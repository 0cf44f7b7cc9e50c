//! The log of what changed: append-only, ordered, read by sinks at their own pace.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::{Code, Kind, SourceId, Task, Ts, UnknownName, named};

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
        /// A source stored so much on a day that nothing more of it is fetched until the next.
        SourceQuota = 24 "source.quota",
        /// A feed has another address for good.
        FeedMoved = 30 "feed.moved",
        /// A feed or sitemap is gone for good.
        FeedGone = 31 "feed.gone",
    }
}

/// One kind of event, or all that begin alike: `article.new`, `article.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindPattern {
    /// This one.
    One(EventKind),
    /// All whose names begin with this, the dot included.
    Below(String),
}

impl KindPattern {
    /// Whether it stands for this kind.
    #[must_use]
    pub fn fits(&self, kind: EventKind) -> bool {
        match self {
            Self::One(one) => *one == kind,
            Self::Below(start) => kind.as_str().starts_with(start),
        }
    }
}

impl FromStr for KindPattern {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text.strip_suffix('*') {
            Some(start) if start.ends_with('.') => {
                let known = EventKind::ALL.iter().any(|kind| kind.as_str().starts_with(start));
                let unknown = || text.parse::<EventKind>().err();
                match unknown().filter(|_| !known) {
                    Some(error) => Err(error),
                    None => Ok(Self::Below(start.to_owned())),
                }
            }
            _ => text.parse().map(Self::One),
        }
    }
}

impl fmt::Display for KindPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(kind) => f.write_str(kind.as_str()),
            Self::Below(start) => write!(f, "{start}*"),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_alone_or_together() {
        let fits = |pattern: &str, kind| pattern.parse::<KindPattern>().unwrap().fits(kind);
        assert!(fits("article.new", EventKind::ArticleNew));
        assert!(!fits("article.new", EventKind::ArticleUpdated));
        assert!(fits("article.*", EventKind::ArticleWithdrawn));
        assert!(!fits("article.*", EventKind::EntryNew));
        for bad in ["article", "art*", "*", "nothing.*", "article.newest"] {
            assert!(bad.parse::<KindPattern>().is_err(), "{bad}");
        }
    }
}
