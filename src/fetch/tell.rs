//! What an operator hears of a task without looking for it: log lines beside the events.
//!
//! The log of events is the output; these lines are only its echo, once an outcome is true. Whoever has
//! dashboards on the lines of a design that Feedmill grew out of gets those instead (`log.messages`).
//!
//! Levels are for alerts. An error wants somebody to act: a channel is disabled or gone, or we failed. A
//! warning wants a look: more than ten failures in a row, or a request of more than half a minute.

mod north_cloud;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use feedmill_formats::url as web;

use crate::config::Messages;
use crate::db::DbError;
use crate::frontier::{admit, queue_key};
use crate::model::{
    Code, EventKind, HostAdvice, Kind, Lease, NewEvent, NewTask, Next, Outcome, Ts, canonical_uid,
};
use crate::store::Store;
use crate::store::browse::tasks::taken_in;

/// More failures in a row are worth a warning.
const FAILURES: u32 = 10;
/// So is a request that takes longer, in milliseconds.
const SLOW: u64 = 30_000;
/// A longer pause of a host is told.
const LONG_PAUSE: Duration = Duration::from_mins(5);

/// What is to be said of an outcome.
pub(super) struct Said {
    words: Messages,
    code: Code,
    reason: String,
    status: Option<u16>,
    elapsed_ms: u64,
    next: Next,
    events: Vec<NewEvent>,
    poll: Option<Poll>,
    /// The id of the page that was kept, in the canonical fetcher's words.
    stored: Option<String>,
    /// Addresses found, where each is told.
    found: Vec<NewTask>,
    paused: Option<Paused>,
}

/// A host that a response asked to leave alone for long.
struct Paused {
    host: String,
    url: String,
    until: Ts,
}

impl Paused {
    fn of(outcome: &Outcome) -> Option<Self> {
        let last = outcome.fetches.last()?;
        let until = match outcome.host {
            HostAdvice::SlowDown { until } => until?,
            HostAdvice::Pause { until } => until,
            HostAdvice::NotAsked | HostAdvice::Fine | HostAdvice::Neutral => return None,
        };
        let host = web::parse(&last.url).map(|url| web::host(&url)).unwrap_or_default();
        let lasts = until.since(last.at) > LONG_PAUSE;
        lasts.then(|| Self { host, url: last.url.clone(), until })
    }
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
            next: outcome.next.clone(),
            events: outcome.events.clone(),
            poll,
            stored: article.map(|fact| canonical_uid(&fact.article.url)),
            found: match words {
                Messages::NorthCloud => outcome.discovered.clone(),
                Messages::Feedmill | Messages::Newsfed | Messages::Canonical => Vec::new(),
            },
            paused: Paused::of(outcome),
        }
    }

    /// Which of the addresses found were new. Only north-cloud's words tell, so nobody else asks.
    pub(super) async fn queued(&self, store: &dyn Store, lease: &Lease) -> Vec<bool> {
        let (rules, mut by_host) = (store.rules(), BTreeMap::<String, Vec<i64>>::new());
        let mut found = Vec::with_capacity(self.found.len());
        for new in &self.found {
            let one = admit(new, rules)
                .ok()
                .map(|one| (queue_key(&one.host, &rules.groups).to_owned(), one.hash.head()));
            if let Some((host, hash)) = &one {
                by_host.entry(host.clone()).or_default().push(*hash);
            }
            found.push(one);
        }
        let mut new = HashSet::new();
        for (host, hashes) in by_host {
            match taken_in(store, &host, &hashes, lease.now).await {
                Ok(hashes) => new.extend(hashes.into_iter().map(|hash| (host.clone(), hash))),
                Err(error) => tracing::debug!(%error, "what was queued could not be looked up"),
            }
        }
        found.into_iter().map(|one| one.is_some_and(|one| new.contains(&one))).collect()
    }

    /// Says it; `queued` says of each address found whether it was new.
    pub(super) fn tell(&self, lease: &Lease, queued: &[bool]) {
        let url = lease.task.url.as_str();
        if self.elapsed_ms > SLOW {
            tracing::warn!(
                url,
                http_status = self.status,
                elapsed_ms = self.elapsed_ms,
                "a slow fetch"
            );
        }
        self.host_paused();
        self.submitted(lease, queued);
        match (&self.poll, self.words) {
            (Some(poll), Messages::NorthCloud) => self.feed_polled(lease, poll),
            (Some(poll), _) => self.polled(lease, poll),
            (None, Messages::NorthCloud) => self.url_fetched(lease),
            (None, Messages::Canonical) if lease.task.kind == Kind::Article => self.canonical(url),
            (None, _) => self.served(lease),
        }
        self.events.iter().for_each(|event| self.happened(lease, event));
    }

    /// Everything of the host waits, not only what was asked for.
    fn host_paused(&self) {
        let Some(Paused { host, url, until }) = &self.paused else { return };
        let (http_status, reason) = (self.status, self.reason.as_str());
        tracing::warn!(host, %until, url, http_status, reason, "host paused");
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
        // What is read from a page was scraped.
        let done = if lease.task.kind == Kind::Listing { "Scraped" } else { "Fetched" };
        let items = if new == 1 { "item" } else { "items" };
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
            // With many channels, those that brought nothing would drown the others.
            0 if new > 0 || self.words == Messages::Newsfed => {
                say!(info, "{done} {url}: {new} new {items}");
            }
            0 => say!(debug, "{done} {url}: {new} new {items}"),
            1..=FAILURES => say!(info, "a channel failed"),
            _ => say!(warn, "a channel keeps failing"),
        }
    }

    /// Tells of an event about a source's channel.
    fn happened(&self, lease: &Lease, event: &NewEvent) {
        let url = lease.task.url.as_str();
        let source = lease.source.as_ref().map(|source| source.spec.name.as_str());
        let said = |key: &str| event.payload.get(key).and_then(|value| value.as_str());
        let (code, reason) = (said("code"), said("reason"));
        match event.kind {
            EventKind::SourceDisabled if self.words == Messages::NorthCloud => {
                self.auto_disabled(lease, reason);
            }
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
        Messages::NorthCloud => north_cloud::pool_starts(workers),
        Messages::Feedmill | Messages::Newsfed | Messages::Canonical => {
            tracing::info!(workers, "the engine starts");
        }
    }
}

/// There are more or fewer workers than before.
pub(super) fn workers_change(words: Messages, before: usize, now: usize) {
    if words == Messages::NorthCloud {
        north_cloud::workers_change(before, now);
    }
}

/// Work is handed out.
pub(super) fn handed_out(words: Messages, leases: &[Lease]) {
    if words == Messages::NorthCloud {
        north_cloud::due(leases);
    }
}

/// The engine has ended what was under way.
pub(super) fn pool_stopped(words: Messages) {
    match words {
        Messages::NorthCloud => tracing::info!("worker pool stopped"),
        Messages::Feedmill | Messages::Newsfed | Messages::Canonical => {
            tracing::info!("the engine stopped");
        }
    }
}

/// No work could be had. What holds work up is told by itself, and once.
pub(super) fn claim_failed(words: Messages, error: &DbError) {
    if words == Messages::NorthCloud {
        tracing::error!(%error, "claim failed");
    }
}

/// We could not make anything of what was served.
pub(super) fn serving_failed(words: Messages, lease: &Lease, error: &str) {
    let url = lease.task.url.as_str();
    match words {
        Messages::NorthCloud => tracing::error!(url, error, "process failed"),
        Messages::Feedmill | Messages::Newsfed | Messages::Canonical => {
            tracing::error!(url, error, "serving a task failed");
        }
    }
}

/// What was made of it could not be made true: neither the task nor its host has moved on.
pub(super) fn not_committed(words: Messages, lease: &Lease, error: &str) {
    let (url, host) = (lease.task.url.as_str(), lease.task.host.as_str());
    match words {
        Messages::NorthCloud => {
            tracing::error!(url, host, error, "update host last fetch failed");
        }
        Messages::Feedmill | Messages::Newsfed | Messages::Canonical => {
            tracing::error!(url, error, "an outcome was not committed");
        }
    }
}

#[cfg(test)]
mod tests;
