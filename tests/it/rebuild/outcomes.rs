//! Every kind of archived response is handled by a rebuild as it was when it came: what was healthy is
//! healthy, what failed has failed as often, and nobody is left paused by a response long past.

use std::collections::BTreeMap;
use std::time::Duration;

use feedmill::app::rebuild::Options;
use feedmill::archive::{Archive, Settings};
use feedmill::clock::Clock;
use feedmill::frontier::{Act, HostFilter, HostPatch, TaskFilter};
use feedmill::model::{Code, Exchange, Headers, Health, Kind, Status, Ts, new_uuid};
use feedmill_newsroom::Script;

use super::{Contents, contents, rebuild, remove_database};
use crate::etiquette::stage::{HOUR, MINUTE, Stage, answer, feed, ok, page, source, validators};

fn url(host: &str, path: &str) -> String {
    format!("http://{host}.newsroom.test{path}")
}

fn says(stage: &Stage, host: &str, path: &str, answers: &[Script]) {
    stage.says_at(&format!("{host}.newsroom.test"), path, answers);
}

async fn play_for(stage: &Stage, time: i64) {
    let end = Ts::from_ms(stage.world.clock.now().ms() + time);
    stage.world.play(|| async { stage.world.clock.now() >= end }).await;
}

/// What a rebuild has to bring back of a feed.
#[derive(Debug)]
struct Feed {
    status: Status,
    failures: u32,
    last_error: Option<Code>,
    health: Health,
    disabled_since: Option<Ts>,
    last_success: Option<Ts>,
    next_fetch_at: Ts,
}

impl Feed {
    /// Whether it is the same, whenever it is polled next.
    fn is_like(&self, other: &Self) -> bool {
        let words = |feed: &Self| (feed.status, feed.failures, feed.last_error, feed.health);
        words(self) == words(other)
            && is_near(self.disabled_since, other.disabled_since)
            && is_near(self.last_success, other.last_success)
    }
}

/// Whether two times are the same: the archive knows when a request began, and not when it was decided on.
fn is_near(one: Option<Ts>, other: Option<Ts>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one.ms() - other.ms()).abs() < 10_000,
        (one, other) => one == other,
    }
}

/// What a rebuild has to bring back.
#[derive(Debug)]
struct Picture {
    feeds: BTreeMap<String, Feed>,
    /// By name: until when they are not asked, the pause that they taught, and the one of robots.txt.
    hosts: BTreeMap<String, (Option<Ts>, i64, Option<i64>)>,
    contents: Contents,
    /// Kinds and subjects.
    events: Vec<(String, String)>,
}

async fn picture(stage: &Stage) -> Picture {
    let store = &*stage.world.store;
    let feeds = store.channels().await.unwrap().into_iter().map(|it| {
        let feed = Feed {
            status: it.status,
            failures: it.failures,
            last_error: it.last_error,
            health: it.health,
            disabled_since: it.disabled_since,
            last_success: it.last_success_at,
            next_fetch_at: it.next_fetch_at,
        };
        (it.url, feed)
    });
    let hosts = HostFilter { limit: 1_000, ..HostFilter::default() };
    let hosts = store.hosts(hosts).await.unwrap().into_iter();
    let hosts = hosts.map(|it| (it.name, (it.blocked_until, it.learned_ms, it.crawl_delay_ms)));
    let events = store.events_after(0, 10_000).await.unwrap().into_iter();
    let mut events: Vec<_> =
        events.map(|event| (event.kind.as_str().to_owned(), event.subject)).collect();
    events.sort();
    Picture {
        feeds: feeds.collect(),
        hosts: hosts.collect(),
        contents: contents(store).await,
        events,
    }
}

/// The store before and after its file was deleted and rebuilt.
async fn before_and_after(stage: &mut Stage) -> (Picture, Picture) {
    let before = picture(stage).await;
    stage.world.store.close().await;
    remove_database(&stage.world.config.database_path());
    rebuild(&stage.world, Options::default()).await;
    stage.world.reopen().await;
    (before, picture(stage).await)
}

fn assert_is_due_soon(stage: &Stage, feed: &Feed) {
    let interval = stage.world.config.schedule.default_interval.duration();
    let now = stage.world.clock.now();
    // Polls are spread by a twentieth.
    let latest = now.after(interval + interval / 20);
    assert!(feed.next_fetch_at >= now && feed.next_fetch_at <= latest, "{feed:?} at {now}");
}

/// A feed whose items lead to pages of its own.
fn linked(host: &str, items: &[&str]) -> String {
    items.iter().fold(feed(items), |text, id| {
        let (guid, link) = (format!("<guid>{id}</guid>"), url(host, &format!("/{id}")));
        text.replace(&guid, &format!("{guid}<link>{link}</link>"))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_was_not_modified_is_as_healthy_after_a_rebuild() {
    let mut stage = Stage::sqlite().await.unwrap();
    let etag = [("ETag", "\"one\"")];
    let answers = [ok(&etag, linked("a", &["1", "2"])), answer(304, &etag, "")];
    says(&stage, "a", "/feed", &answers);
    says(&stage, "a", "/1", &[ok(&[], page("One", ""))]);
    says(&stage, "a", "/2", &[ok(&[], page("Two", ""))]);
    stage.add(source("a", &url("a", "/feed"))).await;
    play_for(&stage, 2 * HOUR).await;
    let (before, after) = before_and_after(&mut stage).await;
    let feed = &after.feeds[&url("a", "/feed")];
    assert_eq!((feed.health, feed.failures, feed.disabled_since), (Health::Usual, 0, None));
    assert!(feed.is_like(&before.feeds[&url("a", "/feed")]));
    assert_is_due_soon(&stage, feed);
    assert_eq!(before.contents.0.len(), 2);
    assert_eq!(after.contents, before.contents);
    assert_eq!(after.events, before.events);
    // The next poll asks whether anything changed, as the last one did.
    let asked = stage.world.newsroom.log().len();
    play_for(&stage, HOUR).await;
    let log = stage.world.newsroom.log();
    assert!(log.len() > asked);
    assert!(log[asked..].iter().all(|it| it.path == "/robots.txt" || it.status == 304), "{log:?}");
}

/// A 304 to a conditional request, as scripts cannot tell who asks: the first answer is a document.
fn document_then(then: &[Script]) -> Vec<Script> {
    let etag = [("ETag", "\"one\""), ("Last-Modified", "Mon, 16 Nov 2026 07:00:00 GMT")];
    let mut answers = vec![ok(&etag, feed(&["1"]))];
    answers.extend_from_slice(then);
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_applies_the_outcomes_of_the_first_time() {
    let mut stage = Stage::sqlite().await.unwrap();
    let etag = [("ETag", "\"one\"")];
    let long: Vec<String> = (0..40).map(|n| format!("a long item number {n}")).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let moved = |status: u16| {
        let path = format!("/{status}");
        says(&stage, "target", &path, &[ok(&etag, feed(&["9"])), answer(304, &etag, "")]);
        vec![answer(status, &[("Location", &url("target", &path))], "")]
    };
    let cut = Script { cut: true, ..ok(&[], feed(&long)) };
    let table: [(&str, Vec<Script>); 15] = [
        ("same", vec![ok(&[], feed(&long))]),
        ("unchanged", document_then(&[answer(304, &etag, "")])),
        ("unasked", vec![answer(304, &[], "")]),
        ("moved301", moved(301)),
        ("moved308", moved(308)),
        ("moved302", moved(302)),
        ("gone", document_then(&[answer(410, &[], "")])),
        ("missing", document_then(&[answer(404, &[], "")])),
        ("forbidden", document_then(&[answer(403, &[], "")])),
        ("limited", document_then(&[answer(429, &[("Retry-After", "5400")], "")])),
        ("limited_no_time", document_then(&[answer(429, &[], "")])),
        ("paused", document_then(&[answer(503, &[("Retry-After", "86400")], "")])),
        ("broken", document_then(&[answer(500, &[], ""), answer(502, &[], "")])),
        ("cut", document_then(&[cut])),
        ("recovered", document_then(&[answer(500, &[], ""), answer(304, &etag, "")])),
    ];
    for (name, answers) in &table {
        let name = name.replace('_', "-");
        says(&stage, &name, "/feed", answers);
        stage.add(source(&name, &url(&name, "/feed"))).await;
    }
    play_for(&stage, 3 * HOUR).await;
    let (before, after) = before_and_after(&mut stage).await;
    assert!(before.hosts.values().any(|host| host.0.is_some()), "somebody is paused");
    assert_eq!(after.contents, before.contents);
    assert_eq!(after.events, before.events);
    assert_hosts_are_alike(&after, &before);
    assert_eq!(after.feeds.len(), before.feeds.len());
    for (url, was) in &before.feeds {
        let is = &after.feeds[url];
        assert!(is.is_like(was), "{url}: {is:?}, and it was {was:?}");
        let well = is.failures == 0 && is.status == Status::Pending;
        // Waits are spread, each by a chance of its own.
        let since = was.last_success.filter(|_| well).unwrap_or(stage.world.start);
        let spread = was.next_fetch_at.since(since) / 10;
        if !well {
            assert!(is.next_fetch_at >= was.next_fetch_at.before(spread), "{url}: {is:?} {was:?}");
        }
        if is.next_fetch_at > was.next_fetch_at.after(spread) {
            assert!(well, "{url}: {is:?} {was:?}");
            assert_is_due_soon(&stage, is);
        }
    }
    let (well, failed): (Vec<_>, Vec<_>) = after.feeds.values().partition(|it| it.failures == 0);
    assert!(well.len() >= 5 && failed.len() >= 8, "{:?}", after.feeds);
}

fn assert_hosts_are_alike(after: &Picture, before: &Picture) {
    assert_eq!(after.hosts.len(), before.hosts.len());
    for (name, (blocked_until, learned, crawl)) in &before.hosts {
        let is = after.hosts[name];
        assert_eq!((is.1, is.2), (*learned, *crawl), "{name}");
        assert!(is_near(is.0, *blocked_until), "{name}: {is:?}, and it was {blocked_until:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_was_lifted_long_ago_holds_nothing_up_after_a_rebuild() {
    let mut stage = Stage::sqlite().await.unwrap();
    let asks_for_a_month = answer(429, &[("Retry-After", "2592000")], "");
    says(&stage, "a", "/feed", &document_then(&[asks_for_a_month, ok(&[], feed(&["1", "2"]))]));
    says(&stage, "b", "/feed", &[ok(&[("ETag", "\"one\"")], feed(&["3"]))]);
    for host in ["a", "b"] {
        stage.add(source(host, &url(host, "/feed"))).await;
    }
    stage.until(&url("a", "/feed"), |task| task.last_error == Some(Code::RateLimited)).await;
    play_for(&stage, HOUR).await;
    // An operator who knows better.
    let now = stage.world.clock.now();
    let patch = HostPatch { blocked_until: Some(now), ..HostPatch::default() };
    stage.world.store.set_host("a.newsroom.test", patch).await.unwrap();
    let feeds = TaskFilter { kind: Some(Kind::Feed), limit: 10, ..TaskFilter::default() };
    stage.world.store.sweep(Act::Retry, feeds, false).await.unwrap();
    play_for(&stage, HOUR).await;
    let (before, after) = before_and_after(&mut stage).await;
    assert_eq!(after.hosts["a.newsroom.test"].0, None, "nobody is paused");
    assert_eq!(after.contents, before.contents);
    for host in ["a", "b"] {
        let (was, is) = (&before.feeds[&url(host, "/feed")], &after.feeds[&url(host, "/feed")]);
        assert_eq!((is.failures, is.disabled_since), (0, None), "{host}");
        assert!(is_near(is.last_success, was.last_success), "{host}: no time was made up");
        assert!(is.next_fetch_at <= stage.world.clock.now().after(Duration::from_hours(5)));
    }
    assert_is_due_soon(&stage, &after.feeds[&url("b", "/feed")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_to_where_nobody_answered_makes_no_feed_of_its_target() {
    let mut stage = Stage::sqlite().await.unwrap();
    let away = answer(302, &[("Location", "http://nobody.invalid/feed")], "");
    says(&stage, "a", "/feed", &document_then(&[away]));
    stage.add(source("a", &url("a", "/feed"))).await;
    play_for(&stage, HOUR).await;
    let (before, after) = before_and_after(&mut stage).await;
    let urls = |picture: &Picture| picture.feeds.keys().cloned().collect::<Vec<_>>();
    assert_eq!(urls(&after), urls(&before));
    assert_eq!(after.contents, before.contents);
    let feed = &after.feeds[&url("a", "/feed")];
    assert_eq!((feed.status, feed.disabled_since), (Status::Pending, None));
    assert_is_due_soon(&stage, feed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_robots_file_that_moved_rules_after_a_rebuild() {
    let mut stage = Stage::sqlite().await.unwrap();
    let rules = "User-agent: *\nCrawl-delay: 7\nDisallow: /private\n";
    says(&stage, "a", "/robots.txt", &[answer(301, &[("Location", "/rules.txt")], "")]);
    says(&stage, "a", "/rules.txt", &[ok(&[("Content-Type", "text/plain")], rules)]);
    says(&stage, "a", "/feed", &[ok(&[], linked("a", &["1"]))]);
    says(&stage, "a", "/1", &[ok(&[], page("One", ""))]);
    stage.add(source("a", &url("a", "/feed"))).await;
    play_for(&stage, 10 * MINUTE).await;
    let (before, after) = before_and_after(&mut stage).await;
    assert_eq!(before.hosts["a.newsroom.test"].2, Some(7_000));
    assert_hosts_are_alike(&after, &before);
    assert_eq!(after.contents, before.contents);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_whose_document_is_not_archived_is_asked_for_it_after_a_rebuild() {
    let mut stage = Stage::sqlite().await.unwrap();
    let etag = [("ETag", "\"one\"")];
    says(&stage, "a", "/feed", &[ok(&etag, feed(&["1"])), answer(304, &etag, "")]);
    stage.add(source("a", &url("a", "/feed"))).await;
    stage.until(&url("a", "/feed"), |task| task.fetch_count == 1).await;
    let archive = stage.world.config.archive_dir();
    let first = std::fs::read_dir(&archive).unwrap().next().unwrap().unwrap().path();
    play_for(&stage, HOUR).await;
    std::fs::remove_file(first).unwrap();
    let (_, after) = before_and_after(&mut stage).await;
    assert!(after.contents.0.is_empty() && after.feeds[&url("a", "/feed")].failures == 0);
    let asked = stage.world.newsroom.log().len();
    play_for(&stage, HOUR).await;
    let log = stage.world.newsroom.log();
    let first = log[asked..].iter().find(|it| it.path == "/feed").unwrap();
    assert_eq!(validators(first), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_was_archived_but_not_committed_counts_once_after_a_rebuild() {
    let mut stage = Stage::sqlite().await.unwrap();
    says(&stage, "a", "/feed", &[ok(&[], feed(&["1"]))]);
    stage.add(source("a", &url("a", "/feed"))).await;
    play_for(&stage, 10 * MINUTE).await;
    // As an engine leaves it that is killed between the two.
    let config = &stage.world.config;
    let settings = Settings {
        dir: config.archive_dir(),
        segment_size: 1 << 20,
        segment_age: Duration::from_hours(1),
        gzip_level: 6,
        agent: "Feedmill/test".to_owned(),
        max_body: 1 << 20,
    };
    let archive = Archive::open(settings, stage.world.clock.clone()).unwrap();
    let now = stage.world.clock.now();
    let response = Exchange {
        id: new_uuid(now),
        url: url("a", "/feed"),
        request: Headers::default(),
        status: 200,
        reason: "OK".to_owned(),
        headers: Headers::default(),
        body: feed(&["1", "2"]).into_bytes().into(),
        truncated: None,
        remote: None,
        began: now,
        ended: now,
        elapsed: Duration::ZERO,
    };
    archive.append_as(&response, Some(Kind::Feed)).unwrap();
    archive.close().unwrap();
    let (before, after) = before_and_after(&mut stage).await;
    assert_eq!((before.contents.0.len(), after.contents.0.len()), (1, 2));
    assert!(before.contents.0.iter().all(|(id, hash)| after.contents.0.get(id) == Some(hash)));
    assert_eq!(after.events.len(), before.events.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_clock_ahead_planned_is_due_soon_after_a_rebuild() {
    let mut stage = Stage::sqlite().await.unwrap();
    says(&stage, "a", "/feed", &document_then(&[]));
    stage.add(source("a", &url("a", "/feed"))).await;
    play_for(&stage, HOUR).await;
    let day_before = stage.world.clock.now().before(Duration::from_hours(24));
    stage.world.clock = Clock::manual(day_before);
    let (_, after) = before_and_after(&mut stage).await;
    assert_is_due_soon(&stage, &after.feeds[&url("a", "/feed")]);
}
