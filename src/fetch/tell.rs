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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::model::{
        FeedFact, FeedState, FetchRecord, LeaseId, Origin, PollFigures, Status, Task, TaskId, Ts,
        UrlHash, Validators, new_uuid,
    };

    const NOW: Ts = Ts::from_ms(1_800_000_000_000);
    const URL: &str = "https://a.example/feed";

    fn lease(kind: Kind) -> Lease {
        let task = Task {
            id: TaskId(1),
            url: URL.into(),
            url_key: URL.into(),
            url_hash: UrlHash::of(URL),
            host: "a.example".into(),
            kind,
            origin: Origin::Manual,
            source: None,
            source_id: None,
            status: Status::Pending,
            leased: true,
            priority: 5,
            depth: 0,
            redirects: 0,
            next_fetch_at: NOW,
            last_fetched_at: None,
            fetch_count: 0,
            retry_count: 0,
            last_error: None,
            reason: None,
            discovered_at: NOW,
        };
        Lease {
            id: LeaseId(1),
            task,
            source: None,
            validators: Validators::default(),
            validators_for: None,
            robots: None,
            now: NOW,
            until: NOW,
            delay: Duration::ZERO,
        }
    }

    fn polled(failures: u32, new_items: u32) -> Outcome {
        let code = if failures > 0 { Code::Timeout } else { Code::Ok };
        let mut outcome = Outcome::new(code, Next::Again { at: NOW }, "as a test said");
        outcome.feed = Some(FeedFact {
            based_on: 0,
            state: FeedState { failures, interval_ms: Some(900_000), ..FeedState::default() },
            items: None,
            new_items,
            figures: PollFigures { interval_before_ms: Some(600_000), delays: Vec::new() },
        });
        outcome
    }

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The lines that an outcome leads to.
    fn lines(outcome: &Outcome, kind: Kind, words: Messages) -> Vec<serde_json::Value> {
        let page = Page::default();
        let to = page.clone();
        let lines = tracing_subscriber::fmt().json().flatten_event(true);
        let lines = lines.with_max_level(tracing::Level::TRACE).with_writer(move || to.clone());
        tracing::subscriber::with_default(lines.finish(), || {
            Said::of(outcome, words).tell(&lease(kind));
        });
        let bytes = page.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn levels_are_those_that_somebody_can_be_woken_by() {
        for (failures, new, level, message) in [
            (0, 0, "DEBUG", "Fetched https://a.example/feed: 0 new items"),
            (0, 1, "INFO", "Fetched https://a.example/feed: 1 new item"),
            (0, 7, "INFO", "Fetched https://a.example/feed: 7 new items"),
            (1, 0, "INFO", "a channel failed"),
            (10, 0, "INFO", "a channel failed"),
            (11, 0, "WARN", "a channel keeps failing"),
        ] {
            let told = lines(&polled(failures, new), Kind::Feed, Messages::Feedmill);
            assert_eq!(told.len(), 1, "{told:?}");
            let line = &told[0];
            assert_eq!((&line["level"], &line["message"]), (&level.into(), &message.into()));
            assert_eq!(
                (&line["interval_before"], &line["interval_after"]),
                (&600.into(), &900.into())
            );
            assert_eq!(line["decision_reason"], "as a test said");
            assert_eq!(line["feed_id"], TaskId(1).to_string());
        }
    }

    #[test]
    fn what_is_slow_or_for_good_is_told_louder() {
        let mut slow = polled(0, 0);
        slow.fetches.push(FetchRecord {
            id: new_uuid(NOW),
            task: None,
            at: NOW,
            url: URL.into(),
            status: Some(200),
            code: Code::Ok,
            bytes: 0,
            elapsed_ms: SLOW + 1,
            content_type: None,
            body_sha256: None,
            raw: None,
        });
        slow.events = NewEvent::given_up(&lease(Kind::Feed).task, Code::Gone, "410");
        let told = lines(&slow, Kind::Feed, Messages::Feedmill);
        let told: Vec<_> = told
            .iter()
            .map(|line| (line["level"].as_str().unwrap(), line["message"].as_str().unwrap()))
            .collect();
        assert!(told.contains(&("WARN", "a slow fetch")), "{told:?}");
        assert!(told.contains(&("ERROR", "a feed is gone for good")), "{told:?}");
        assert!(told.contains(&("ERROR", "a channel is disabled")), "{told:?}");
    }

    #[test]
    fn others_words_are_theirs() {
        let told = |outcome: &Outcome, kind, words| {
            lines(outcome, kind, words)[0]["message"].as_str().unwrap().to_owned()
        };
        let north = Messages::NorthCloud;
        assert_eq!(told(&polled(0, 1), Kind::Feed, north), "feed polled successfully");
        assert_eq!(told(&polled(3, 0), Kind::Feed, north), "feed poll failed");
        let page = |code, next| Outcome::new(code, next, "as a test said");
        let dead = page(Code::NotFound, Next::Dead { code: Code::NotFound });
        assert_eq!(told(&dead, Kind::Article, north), "URL marked dead");
        let retried = page(Code::Timeout, Next::Retry { at: NOW, code: Code::Timeout });
        assert_eq!(told(&retried, Kind::Article, north), "URL fetch failed");
        let bad = page(Code::BadHtml, Next::Dead { code: Code::BadHtml });
        assert_eq!(told(&bad, Kind::Article, Messages::Canonical), "[canon] ⚠️ Bad HTML → skip");
    }
}
