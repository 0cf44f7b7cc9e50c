//! What an operator hears of a task without looking for it: log lines beside the events.
//!
//! The log of events is the output; these lines are only its echo, once an outcome is true. Whoever has
//! dashboards on the lines of a design that Feedmill grew out of gets those instead (`log.messages`).
//!
//! Levels are for alerts. An error wants somebody to act: a channel is disabled or gone, or we failed. A
//! warning wants a look: more than ten failures in a row, or a request of more than half a minute.

use crate::config::Messages;
use crate::db::DbError;
use crate::model::{Code, EventKind, Kind, Lease, NewEvent, NewTask, Next, Outcome, canonical_uid};

/// More failures in a row are worth a warning.
const FAILURES: u32 = 10;
/// So is a request that takes longer, in milliseconds.
const SLOW: u64 = 30_000;

/// What is to be said of an outcome.
pub(super) struct Said {
    words: Messages,
    code: Code,
    reason: String,
    status: Option<u16>,
    elapsed_ms: u64,
    dead: bool,
    events: Vec<NewEvent>,
    poll: Option<Poll>,
    /// The id of the page that was kept, in the canonical fetcher's words.
    stored: Option<String>,
    /// Addresses found, where each is told.
    found: Vec<NewTask>,
}

/// What is to be said of a poll.
struct Poll {
    new: u32,
    failures: u32,
    /// Seconds.
    before: Option<i64>,
    after: Option<i64>,
}

impl Said {
    pub(super) fn of(outcome: &Outcome, words: Messages) -> Self {
        let last = outcome.fetches.last();
        let seconds = |ms: Option<i64>| ms.map(|ms| ms / 1000);
        let poll = outcome.feed.as_ref().map(|fact| Poll {
            new: fact.new_items,
            failures: fact.state.failures,
            before: seconds(fact.figures.interval_before_ms),
            after: seconds(fact.state.interval_ms),
        });
        let article = outcome.article.as_ref().filter(|_| words == Messages::Canonical);
        Self {
            words,
            code: outcome.code,
            reason: outcome.reason.clone(),
            status: last.and_then(|fetch| fetch.status),
            elapsed_ms: last.map_or(0, |fetch| fetch.elapsed_ms),
            dead: matches!(outcome.next, Next::Dead { .. }),
            events: outcome.events.clone(),
            poll,
            stored: article.map(|fact| canonical_uid(&fact.article.url)),
            found: match words {
                Messages::NorthCloud => outcome.discovered.clone(),
                Messages::Feedmill | Messages::Canonical => Vec::new(),
            },
        }
    }

    /// Says it.
    pub(super) fn tell(&self, lease: &Lease) {
        let url = lease.task.url.as_str();
        if self.elapsed_ms > SLOW {
            tracing::warn!(
                url,
                http_status = self.status,
                elapsed_ms = self.elapsed_ms,
                "a slow fetch"
            );
        }
        match (&self.poll, self.words) {
            (Some(poll), Messages::NorthCloud) => self.feed_polled(lease, poll),
            (Some(poll), _) => self.polled(lease, poll),
            (None, Messages::NorthCloud) => self.url_fetched(lease),
            (None, Messages::Canonical) if lease.task.kind == Kind::Article => self.canonical(url),
            (None, _) => self.served(lease),
        }
        let source = lease.source.as_ref().map(|source| source.spec.name.as_str());
        self.events.iter().for_each(|event| tell(source, url, event));
    }

    fn served(&self, lease: &Lease) {
        let source = lease.source.as_ref().map(|source| source.spec.name.as_str());
        tracing::debug!(
            source,
            url = lease.task.url.as_str(),
            kind = lease.task.kind.as_str(),
            code = self.code.as_str(),
            http_status = self.status,
            decision_reason = self.reason.as_str(),
            "served"
        );
    }

    /// A poll of a channel, with all that went into the decision about the next one.
    fn polled(&self, lease: &Lease, poll: &Poll) {
        let source = lease.source.as_ref().map(|source| source.spec.name.as_str());
        let (feed_id, url) = (lease.task.id, lease.task.url.as_str());
        let (code, decision_reason) = (self.code.as_str(), self.reason.as_str());
        let (http_status, interval_before, interval_after) = (self.status, poll.before, poll.after);
        let Poll { new, failures, .. } = *poll;
        // The fields are the same at every level; a macro's level has to be a constant.
        macro_rules! say {
            ($level:ident, $($message:tt)+) => {
                tracing::$level!(
                    source, %feed_id, url, code, failures, http_status, interval_before,
                    interval_after, decision_reason, $($message)+
                )
            };
        }
        match failures {
            0 if new == 1 => say!(info, "Fetched {url}: 1 new item"),
            0 if new > 1 => say!(info, "Fetched {url}: {new} new items"),
            0 => say!(debug, "Fetched {url}: 0 new items"),
            1..=FAILURES => say!(info, "a channel failed"),
            _ => say!(warn, "a channel keeps failing"),
        }
    }

    fn feed_polled(&self, lease: &Lease, poll: &Poll) {
        let (url, source_id) = (lease.task.url.as_str(), lease.task.source_id.as_deref());
        let (error_type, reason) = (self.code.as_str(), self.reason.as_str());
        for found in &self.found {
            let (url, origin) = (found.url.as_str(), found.origin.as_str());
            tracing::info!(url, source_id, origin, queued = true, "URL submitted to frontier");
        }
        match (poll.failures, self.code) {
            (0, Code::NotModified) => {
                tracing::info!(url, source_id, "feed not modified, skipping");
            }
            (0, _) => {
                let items_submitted = self.found.len();
                tracing::info!(url, source_id, items_submitted, "feed polled successfully");
            }
            (failures, _) => tracing::warn!(
                url,
                source_id,
                error_type,
                status_code = self.status,
                failures,
                reason,
                "feed poll failed"
            ),
        }
    }

    fn url_fetched(&self, lease: &Lease) {
        let (url, source_id) = (lease.task.url.as_str(), lease.task.source_id.as_deref());
        let (code, reason) = (self.code.as_str(), self.reason.as_str());
        match self.code {
            Code::Ok | Code::NotModified | Code::Redirect => {
                tracing::info!(url, source_id, "URL fetched successfully");
            }
            _ if self.dead => tracing::warn!(url, source_id, code, reason, "URL marked dead"),
            _ => tracing::warn!(url, source_id, code, reason, "URL fetch failed"),
        }
    }

    fn canonical(&self, url: &str) {
        match (&self.stored, self.code) {
            (Some(uid), _) => tracing::info!("[canon] ✅ Stored canonical → {uid}"),
            (None, Code::BadHtml) => tracing::warn!("[canon] ⚠️ Bad HTML → skip"),
            (None, code) => {
                let (code, reason) = (code.as_str(), self.reason.as_str());
                tracing::warn!(url, code, reason, "[canon] ⚠️ Not stored → skip");
            }
        }
    }
}

/// A page is about to be asked for: only the canonical fetcher has a word for that.
pub(super) fn begin(lease: &Lease, words: Messages) {
    if words == Messages::Canonical && lease.task.kind == Kind::Article {
        tracing::info!("[canon] 🌐 Fetching → {}", lease.task.url);
    }
}

/// The engine begins to work.
pub(super) fn pool_starts(words: Messages, workers: usize) {
    match words {
        Messages::NorthCloud => tracing::info!(workers, "starting worker pool"),
        Messages::Feedmill | Messages::Canonical => tracing::info!(workers, "the engine starts"),
    }
}

/// The engine has ended what was under way.
pub(super) fn pool_stopped(words: Messages) {
    match words {
        Messages::NorthCloud => tracing::info!("worker pool stopped"),
        Messages::Feedmill | Messages::Canonical => tracing::info!("the engine stopped"),
    }
}

/// No work could be had. What holds work up is told by itself, and once.
pub(super) fn claim_failed(words: Messages, error: &DbError) {
    if words == Messages::NorthCloud {
        tracing::error!(%error, "claim failed");
    }
}

/// Tells of an event about a source's channel.
fn tell(source: Option<&str>, url: &str, event: &NewEvent) {
    let said = |key: &str| event.payload.get(key).and_then(|value| value.as_str());
    let (code, reason) = (said("code"), said("reason"));
    match event.kind {
        EventKind::SourceDisabled => {
            tracing::error!(source, url, code, reason, "a channel is disabled");
        }
        EventKind::SourceEnabled => {
            tracing::info!(source, url, reason, "a channel is enabled again");
        }
        EventKind::SourceHealth => {
            let health = said("health");
            tracing::info!(source, url, health, reason, "the health of a channel changed");
        }
        EventKind::SourceDiscovered => {
            tracing::info!(source, url, reason, "a search for channels ended");
        }
        EventKind::FeedMoved => {
            let to = said("to");
            tracing::info!(source, url, to, "a feed has another address for good");
        }
        EventKind::FeedGone => tracing::error!(source, url, reason, "a feed is gone for good"),
        _ => {}
    }
}
