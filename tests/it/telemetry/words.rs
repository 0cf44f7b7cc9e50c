//! Every message and every field that the designs behind Feedmill name, with the level that they are to
//! have: a real engine says each, as text and as JSON, under the profile that wants it.

use feedmill::model::{Kind, NewSource, Website};
use feedmill_newsroom::Fault;

use super::{at, fails, feed, press, serves};
use crate::kill::{command, terminate};
use crate::support::{Engine, World, until};

/// A line that a design names: where, how loud, its message and its fields.
type Line = (&'static str, &'static str, &'static str, &'static [&'static str]);

/// ORIGINS is design/ORIGINS.md: what north-cloud's Grafana counts.
const NORTH_CLOUD: &[Line] = &[
    ("ORIGINS 1.6", "INFO", "starting worker pool", &["worker_count"]),
    ("ORIGINS 1.6", "INFO", "worker started", &["worker_id"]),
    ("ORIGINS 1.6", "INFO", "polling due feeds", &["count"]),
    ("ORIGINS 1.6", "INFO", "URL submitted to frontier", &["url", "source_id", "origin", "queued"]),
    ("ORIGINS 1.6", "INFO", "feed polled successfully", &["url", "source_id", "items_submitted"]),
    ("ORIGINS 1.6", "INFO", "feed not modified, skipping", &["url", "source_id"]),
    ("ORIGINS 1.6", "WARN", "feed poll failed", &["url", "error_type", "status_code"]),
    ("S0 Error Handling", "ERROR", "feed poll failed", &["url", "error_type", "status_code"]),
    ("ORIGINS 1.6", "INFO", "feed in backoff, skipping", &["url", "next_poll_at"]),
    ("ORIGINS 1.6", "ERROR", "feed auto-disabled", &["url", "source_id", "reason"]),
    ("ORIGINS 1.6", "INFO", "URL fetched successfully", &["url", "source_id"]),
    ("ORIGINS 1.6", "WARN", "URL fetch failed", &["url", "reason"]),
    ("ORIGINS 1.6", "WARN", "URL marked dead", &["url", "reason"]),
    (
        "ORIGINS 1.6",
        "INFO",
        "frontier_stats",
        &["pending", "fetching", "fetched", "failed", "dead"],
    ),
    ("ORIGINS 1.6", "ERROR", "claim failed", &["error"]),
    ("ORIGINS 1.6", "ERROR", "process failed", &["url", "error"]),
    ("ORIGINS 1.6", "ERROR", "update host last fetch failed", &["url", "host", "error"]),
    ("ORIGINS 1.6", "INFO", "worker stopping", &["worker_id"]),
    ("ORIGINS 1.6", "INFO", "worker pool stopped", &[]),
];

const POLL: &[&str] =
    &["feed_id", "url", "decision_reason", "http_status", "interval_before", "interval_after"];

const RSSIFY: &[Line] = &[
    ("S2 4.9", "DEBUG", "Fetched http://press.newsroom.test/feed: 0 new items", POLL),
    ("S2 4.9", "INFO", "a channel failed", POLL),
];

const NEWSFED: &[Line] = &[
    ("S3 10.1", "INFO", "the engine starts", &["workers"]),
    ("S3 10.1, 12.1", "INFO", "Fetched http://press.newsroom.test/feed: 2 new items", &["url"]),
    ("S3 10.1, 12.1a", "INFO", "Fetched http://press.newsroom.test/feed: 0 new items", &["url"]),
    ("S3 10.1, 12.2", "INFO", "Scraped http://press.newsroom.test/list: 2 new items", &["url"]),
    ("S3 10.1", "WARN", "a channel keeps failing", &["url", "failures", "http_status"]),
    ("S3 10.1", "WARN", "a slow fetch", &["url", "elapsed_ms"]),
    ("S3 7.2, 10.1", "ERROR", "a channel is disabled", &["url", "code", "reason"]),
    ("S3 10.1", "ERROR", "serving a task failed", &["url", "error"]),
    ("S3 10.1", "INFO", "the engine stopped", &[]),
];

const CANONICAL: &[Line] = &[
    ("S4 3F", "INFO", "[canon] 🌐 Fetching → http://press.newsroom.test/story/1", &[]),
    ("S4 3F", "WARN", "[canon] ⚠️ Bad HTML → skip", &[]),
    ("S4 3F", "INFO", "[canon] ✅ Stored canonical → ", &[]),
];

/// Whether a line of the log is this one.
fn is(line: &str, json: bool, (_, level, message, fields): &Line) -> bool {
    if !json {
        let said = line.contains(&format!("{level} {message}"));
        return said && fields.iter().all(|field| line.contains(&format!(" {field}=")));
    }
    let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { return false };
    let said = line["message"].as_str().is_some_and(|said| said.starts_with(message));
    let has = |field: &&str| line.get(*field).is_some_and(|value| !value.is_null());
    said && line["level"] == *level && fields.iter().all(has)
}

/// An engine under a profile, whose words are waited for.
struct Speaker<'w> {
    world: &'w World,
    engine: Engine,
    json: bool,
}

impl<'w> Speaker<'w> {
    fn start(world: &'w World, json: bool, more: &[&str]) -> Self {
        let format = if json { "log.format=json" } else { "log.format=text" };
        let more: Vec<&str> = more.iter().copied().chain([format]).collect();
        let command = command(world, &world.config.data_dir, None, &more);
        Self { world, engine: Engine::start(command, world.dir().join("said")), json }
    }

    fn has_said(&self, wanted: &Line) -> bool {
        self.engine.said().lines().any(|line| is(line, self.json, wanted))
    }

    async fn says(&self, wanted: &Line) {
        let (seed, level, message, _) = wanted;
        let what = format!("{seed}: {level} {message}");
        until(&what, || async { self.has_said(wanted) }).await;
    }

    /// Breaks the database in one way until this is said. A page that is asked for meanwhile comes when it
    /// is broken, for else it might be served before.
    async fn breaks(&self, [broken, mended]: [&str; 2], page: Option<&str>, wanted: &Line) {
        let run = |sql: &str| {
            let db = rusqlite::Connection::open(self.world.config.database_path()).unwrap();
            db.busy_timeout(crate::support::LIMIT).unwrap();
            db.execute_batch(sql).unwrap();
        };
        run(broken);
        if let Some(page) = page {
            self.world.submit(&at(page), Kind::Article).await;
        }
        self.says(wanted).await;
        run(mended);
    }

    /// Waits for all but the words of the end, ends it, and looks for all.
    async fn ends(mut self, table: &[Line]) {
        let is_last = |line: &&Line| line.2.contains("stop");
        for line in table.iter().filter(|line| !is_last(line)) {
            self.says(line).await;
        }
        assert!(terminate(&mut self.engine.child));
        for line in table {
            assert!(self.has_said(line), "never said: {line:?}");
        }
    }
}

fn named(table: &[Line], message: &str) -> Line {
    *table.iter().find(|line| line.2 == message).unwrap()
}

/// Follows these addresses of the press as feeds.
async fn follow(world: &World, paths: &[&str]) {
    for path in paths {
        let source = NewSource { feed_urls: vec![at(path)], ..NewSource::new(*path, at(path)) };
        world.store.add_source(source).await.unwrap();
    }
}

/// What is known about a page's host cannot be looked up.
const NO_PRINTS: [&str; 2] =
    ["ALTER TABLE host_prints RENAME TO away", "ALTER TABLE away RENAME TO host_prints"];
/// Nothing can be claimed. Outcomes can still be committed: a task whose outcome cannot be committed keeps
/// its host until its lease ends, and nothing would be claimed meanwhile.
const NO_CLAIMS: [&str; 2] = [
    "CREATE TRIGGER away BEFORE UPDATE OF lease_id ON host WHEN new.lease_id IS NOT NULL
        BEGIN SELECT RAISE(ABORT, 'away'); END",
    "DROP TRIGGER away",
];
/// No outcome with a request can be kept.
const NO_FETCHES: [&str; 2] = [
    "CREATE TRIGGER away BEFORE INSERT ON \"fetch\" BEGIN SELECT RAISE(ABORT, 'away'); END",
    "DROP TRIGGER away",
];

async fn north_cloud(json: bool) {
    let world = press().await;
    serves(&world, "/feed", feed(&[1, 2, 3]));
    fails(&world, "/story/3", Fault::Status(500));
    fails(&world, "/failing", Fault::Status(503));
    fails(&world, "/gone", Fault::Status(410));
    follow(&world, &["/feed", "/failing", "/gone"]).await;
    let often = ["schedule.default_interval=5m", "schedule.backoff_base=1"];
    let speaker = Speaker::start(&world, json, &["profile=s0", often[0], often[1]]);
    let line = |message| named(NORTH_CLOUD, message);
    // What is broken below may keep the host until a lease ends.
    for line in NORTH_CLOUD.iter().filter(|line| line.2 == "feed poll failed") {
        speaker.says(line).await;
    }
    speaker.says(&line("URL fetched successfully")).await;
    speaker.breaks(NO_PRINTS, Some("/story/7"), &line("process failed")).await;
    speaker.breaks(NO_FETCHES, Some("/story/8"), &line("update host last fetch failed")).await;
    speaker.breaks(NO_CLAIMS, None, &line("claim failed")).await;
    speaker.ends(NORTH_CLOUD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn north_clouds_dashboards_find_their_lines() {
    north_cloud(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn north_clouds_dashboards_find_their_lines_as_text() {
    north_cloud(false).await;
}

async fn newsfed(json: bool) {
    let world = press().await;
    let card =
        |n: u8| format!("<li><a class=card href=/story/{n}>What the council said {n}</a></li>");
    let about = "All that the council has said and done in this town, week by week. ".repeat(5);
    let list = format!("<p>{about}</p><ul>{}{}</ul>", card(4), card(5));
    serves(&world, "/list", format!("<!doctype html><html><body>{list}</body></html>"));
    fails(&world, "/failing", Fault::Status(503));
    fails(&world, "/lost", Fault::Status(404));
    world.newsroom.misbehave(
        "slow.newsroom.test",
        "/",
        Fault::Hang,
        feedmill_newsroom::Span::Always,
    );
    follow(&world, &["/feed", "/failing", "/lost"]).await;
    let slow = "http://slow.newsroom.test/feed";
    let slow = NewSource { feed_urls: vec![slow.into()], ..NewSource::new("slow", slow) };
    world.store.add_source(slow).await.unwrap();
    let website = Website::List {
        article_selector: "a.card".to_owned(),
        pagination_selector: None,
        max_pages: 1,
    };
    let list = NewSource { website: Some(website), ..NewSource::new("list", at("/list")) };
    world.store.add_source(list).await.unwrap();
    let speaker = Speaker::start(
        &world,
        json,
        &[
            "profile=s3",
            "schedule.default_interval=5m",
            "schedule.failure_threshold=20",
            "fetch.request_timeout=31s",
            "fetch.read_timeout=31s",
        ],
    );
    speaker.says(&named(NEWSFED, "a channel is disabled")).await;
    speaker.breaks(NO_PRINTS, Some("/story/7"), &named(NEWSFED, "serving a task failed")).await;
    speaker.ends(NEWSFED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_discovery_services_lines_and_levels_are_its_own() {
    newsfed(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_discovery_services_lines_and_levels_are_its_own_as_text() {
    newsfed(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_is_told_with_all_that_went_into_the_next_one() {
    for json in [true, false] {
        let world = press().await;
        fails(&world, "/failing", Fault::Status(503));
        follow(&world, &["/feed", "/failing"]).await;
        let often = "schedule.max_interval=5m";
        let more = ["profile=s2", "log.level=debug", often, "schedule.backoff_cap=5m"];
        Speaker::start(&world, json, &more).ends(RSSIFY).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_canonical_fetchers_lines_are_its_own() {
    for json in [true, false] {
        let world = press().await;
        follow(&world, &["/feed"]).await;
        let speaker = Speaker::start(&world, json, &["profile=s4"]);
        let uid = feedmill::model::canonical_uid(&at("/story/1"));
        until("the page's id", || async { speaker.engine.said().contains(&uid) }).await;
        speaker.ends(CANONICAL).await;
    }
}

/// What was known before was not queued.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_counts_new_addresses_counts_each_once() {
    let world = press().await;
    world.submit(&at("/story/1"), Kind::Article).await;
    follow(&world, &["/feed"]).await;
    let speaker = Speaker::start(&world, true, &["profile=s0"]);
    let said = |story: &str, queued: bool| {
        speaker.engine.said().lines().any(|line| {
            let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { return false };
            line["message"] == "URL submitted to frontier"
                && line["url"] == at(story)
                && line["queued"] == queued
        })
    };
    until("a new address", || async { said("/story/2", true) }).await;
    until("a known one", || async { said("/story/1", false) }).await;
    assert!(!said("/story/2", false) && !said("/story/1", true));
    speaker.ends(&[named(NORTH_CLOUD, "worker pool stopped")]).await;
}
