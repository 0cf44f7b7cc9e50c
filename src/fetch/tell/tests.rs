//! What is said of outcomes, and how loudly.

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
        let said = Said::of(outcome, words);
        said.tell(&lease(kind), &vec![true; said.found.len()]);
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
        assert_eq!((&line["interval_before"], &line["interval_after"]), (&600.into(), &900.into()));
        assert_eq!(line["decision_reason"], "as a test said");
        assert_eq!(line["feed_id"], TaskId(1).to_string());
    }
}

fn fetched(status: u16, elapsed_ms: u64) -> FetchRecord {
    FetchRecord {
        id: new_uuid(NOW),
        task: None,
        at: NOW,
        url: URL.into(),
        status: Some(status),
        code: Code::Ok,
        bytes: 0,
        elapsed_ms,
        content_type: None,
        body_sha256: None,
        raw: None,
    }
}

#[test]
fn a_long_pause_of_a_host_is_told_with_its_end_and_its_cause() {
    let paused = |advice| {
        let mut outcome = Outcome::new(Code::RateLimited, Next::Again { at: NOW }, "as asked");
        outcome.fetches.push(fetched(503, 10));
        outcome.host = advice;
        let told = lines(&outcome, Kind::Article, Messages::Feedmill);
        told.into_iter().find(|line| line["message"] == "host paused")
    };
    let until = NOW.after(Duration::from_hours(24));
    for advice in [HostAdvice::Pause { until }, HostAdvice::SlowDown { until: Some(until) }] {
        let line = paused(advice).unwrap();
        assert_eq!((&line["level"], &line["host"]), (&"WARN".into(), &"a.example".into()));
        assert_eq!((&line["until"], &line["url"]), (&until.to_string().into(), &URL.into()));
        assert_eq!((&line["http_status"], &line["reason"]), (&503.into(), &"as asked".into()));
    }
    let short = NOW.after(Duration::from_mins(5));
    for advice in [HostAdvice::Fine, HostAdvice::Pause { until: short }] {
        assert_eq!(paused(advice), None);
    }
}

#[test]
fn what_is_slow_or_for_good_is_told_louder() {
    let mut slow = polled(0, 0);
    slow.fetches.push(fetched(200, SLOW + 1));
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
