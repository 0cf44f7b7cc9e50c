//! The whole pipeline against publishers that behave, and against publishers that do not.

use std::time::Duration;

use feedmill::clock::{Clock, Scale};
use feedmill::frontier::TaskFilter;
use feedmill::model::{Code, EventKind, Kind, Status, Ts};
use feedmill_newsroom::{Channel, Fault, RetryAfter, Span};

use crate::support::World;

/// Every story once, with its text, and nobody disturbed.
async fn assert_perfect(world: &World) {
    let report = world.report().await;
    assert!(report.is_perfect(), "{report:#?}");
    assert_eq!(report.articles, report.published);
}

async fn run_to_the_end(world: &World) {
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_story_is_found_once_with_its_text() {
    let world = World::new(12, 8).await;
    world.follow().await;
    run_to_the_end(&world).await;
    assert_perfect(&world).await;
    let stats = world.store.stats().await.unwrap();
    assert_eq!(stats.total.fetching, 0, "a clean stop leaves no lease: {stats:#?}");
}

/// The engine's clock is a month behind, or ahead, of the publishers': what they date looks as if it were
/// to come, or long past.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_a_month_wrong_loses_no_story() {
    const MONTH: Duration = Duration::from_hours(30 * 24);
    for wrong in [|right: Ts| right.before(MONTH), |right: Ts| right.after(MONTH)] {
        let mut world = World::new(6, 4).await;
        let scale = world.clock.scale().unwrap();
        world.clock = Clock::scaled(Scale { start: wrong(scale.start), ..scale });
        world.reopen().await;
        world.follow().await;
        run_to_the_end(&world).await;
        let dead = TaskFilter { code: Some(Code::Rejected), limit: 99, ..TaskFilter::default() };
        assert_eq!(world.tasks(dead).await, [], "nothing is turned away");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn news_that_appears_while_we_look_is_found() {
    let world = World::with(6, |setup| feedmill_newsroom::Setup {
        history: 3,
        rate_per_hour: 6.0,
        day_profile: false,
        publish_until: Some(setup.starts_at + 90 * 60 * 1000),
        ..setup
    })
    .await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    assert!(published > 6 * 3, "something is published meanwhile");
    run_to_the_end(&world).await;
    assert_perfect(&world).await;
    assert!(world.report().await.not_modified > 0, "polls are conditional");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_on_the_wire_is_tried_again_and_nothing_is_lost() {
    let mut world = World::new(10, 5).await;
    world.config.fetch.request_timeout = "500ms".parse().unwrap();
    let faults = [
        Fault::Reset,
        Fault::Truncate,
        Fault::BadGzip,
        Fault::Hang,
        Fault::ServerError { status: 500, retry_after: None },
        Fault::ServerError { status: 503, retry_after: Some(RetryAfter::Seconds(300)) },
        Fault::TooManyRequests { retry_after: RetryAfter::Seconds(600) },
        Fault::TooManyRequests { retry_after: RetryAfter::Date(400) },
        Fault::RedirectChain(3),
        Fault::SlowBytes { chunk: 4_096, pause_ms: 1 },
    ];
    let hosts: Vec<String> = world.newsroom.publishers().iter().map(|p| p.host.clone()).collect();
    for (host, fault) in hosts.iter().zip(faults) {
        // On robots.txt, on a channel and on pages alike.
        world.newsroom.misbehave(host, "/", fault, Span::Times(3));
    }
    world.follow().await;
    run_to_the_end(&world).await;
    assert_eq!(world.newsroom.unspent_faults(), 0, "every fault was met");
    assert_perfect(&world).await;
}

/// A world with one feed publisher and the address of one of its stories.
async fn one_story() -> (World, String) {
    let world = World::new(3, 4).await;
    let story = world.newsroom.published(i64::MAX).remove(0);
    (world, story.url)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_its_code_and_its_end() {
    for (fault, code, status) in [
        (Fault::Status(404), Code::NotFound, Status::Dead),
        (Fault::Status(410), Code::Gone, Status::Dead),
        (Fault::Status(401), Code::Unauthorized, Status::Dead),
        (Fault::Status(451), Code::Unauthorized, Status::Dead),
        (Fault::Status(403), Code::Forbidden, Status::Dead),
        (Fault::Status(418), Code::HttpStatus, Status::Dead),
        (Fault::ServerError { status: 502, retry_after: None }, Code::Upstream, Status::Dead),
        (Fault::RedirectLoop, Code::RedirectLoop, Status::Dead),
        (Fault::Empty, Code::Empty, Status::Dead),
    ] {
        let (world, url) = one_story().await;
        let path = url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap();
        let host = url.split('/').nth(2).unwrap();
        world.newsroom.misbehave(host, &path, fault.clone(), Span::Always);
        world.submit(&url, Kind::Article).await;
        world.run_until(|| async { world.task(&url).await.status != Status::Pending }).await;
        let task = world.task(&url).await;
        assert_eq!((task.last_error, task.status), (Some(code), status), "{fault:?}");
        let events = world.store.events_after(0, 100).await.unwrap();
        let failed: Vec<_> =
            events.iter().filter(|event| event.kind == EventKind::ArticleFailed).collect();
        assert_eq!(failed.len(), 1, "{fault:?}");
        assert_eq!(failed[0].payload["code"], code.as_str());
        assert_eq!(world.report().await.impolite, Vec::<String>::new(), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_is_no_feed_waits_and_comes_back() {
    let world = World::new(4, 3).await;
    let publisher = world.newsroom.publishers().iter().find(|p| p.has(Channel::Feed)).unwrap();
    let feed = publisher.feed_url().unwrap();
    let path = feed.strip_prefix(&publisher.url("")).unwrap();
    world.newsroom.misbehave(&publisher.host, path, Fault::HtmlInsteadOfFeed, Span::Times(1));
    world.submit(&feed, Kind::Feed).await;
    world.run_until(|| async { world.task(&feed).await.fetch_count == 1 }).await;
    let task = world.task(&feed).await;
    assert_eq!((task.last_error, task.retry_count), (Some(Code::BadContentType), 1));
    world.run_until(|| async { world.task(&feed).await.last_error.is_none() }).await;
    assert_eq!(world.task(&feed).await.retry_count, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn robots_that_cannot_be_had_make_the_host_wait_and_kill_nothing() {
    let world = World::new(1, 4).await;
    let host = world.newsroom.publishers()[0].host.clone();
    let fault = Fault::ServerError { status: 500, retry_after: None };
    world.newsroom.misbehave(&host, "/robots.txt", fault, Span::Times(2));
    let story = world.newsroom.published(i64::MAX).remove(0);
    world.submit(&story.url, Kind::Article).await;
    world.run_until(|| async { world.task(&story.url).await.status == Status::Fetched }).await;
    let log = world.newsroom.log();
    let page = log.iter().position(|entry| entry.path != "/robots.txt").unwrap();
    assert_eq!(page, 3, "two failures and an answer come before the page: {log:#?}");
    let waited = log[1].began - log[0].ended;
    assert!(waited >= 15 * 60 * 1000, "the host waits: {waited} ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_robots_forbid_is_never_asked_for() {
    let world = World::new(1, 1).await;
    let publisher = &world.newsroom.publishers()[0];
    let secret = publisher.url("/private/plan.html");
    world.submit(&secret, Kind::Article).await;
    world.run_until(|| async { world.task(&secret).await.status == Status::Dead }).await;
    assert_eq!(world.task(&secret).await.last_error, Some(Code::RobotsBlocked));
    let paths: Vec<_> = world.newsroom.log().into_iter().map(|entry| entry.path).collect();
    assert_eq!(paths, ["/robots.txt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guard_keeps_us_from_private_addresses_on_every_hop() {
    let world = World::new(1, 2).await;
    let direct = format!("http://{}/", world.newsroom.addr());
    world.submit(&direct, Kind::Feed).await;
    let page = format!("http://{}/page.html", world.newsroom.addr());
    world.submit(&page, Kind::Article).await;
    let story = world.newsroom.published(i64::MAX).remove(0);
    let path = story.url.strip_prefix(&world.newsroom.publishers()[0].url("")).unwrap().to_owned();
    let host = &world.newsroom.publishers()[0].host;
    let trap = Fault::RedirectTo("http://169.254.169.254/latest/meta-data/".to_owned());
    world.newsroom.misbehave(host, &path, trap, Span::Always);
    world.submit(&story.url, Kind::Feed).await;
    for (url, status) in
        [(&direct, Status::Pending), (&page, Status::Dead), (&story.url, Status::Pending)]
    {
        world.run_until(|| async { world.task(url).await.last_error.is_some() }).await;
        let task = world.task(url).await;
        // A feed is looked at again: the operator may allow its network meanwhile.
        assert_eq!((task.last_error, task.status), (Some(Code::Guarded), status), "{url}");
    }
    assert_eq!(world.newsroom.log().len(), 1, "only the redirect itself was asked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_moved_to_another_host_is_a_task_there() {
    let world = World::new(2, 2).await;
    let stories = world.newsroom.published(i64::MAX);
    let from = stories.iter().find(|story| story.publisher == 0).unwrap();
    let to = stories.iter().find(|story| story.publisher == 1).unwrap();
    let path = from.url.strip_prefix(&world.newsroom.publishers()[0].url("")).unwrap();
    let host = &world.newsroom.publishers()[0].host;
    world.newsroom.misbehave(host, path, Fault::MovedTo(to.url.clone()), Span::Always);
    world.submit(&from.url, Kind::Article).await;
    world.run_until(|| async { world.store.totals().await.unwrap().articles == 1 }).await;
    let left = world.task(&from.url).await;
    assert_eq!((left.status, left.last_error), (Status::Dead, Some(Code::Redirect)));
    assert!(left.reason.unwrap().contains(&to.url));
    assert_eq!(world.task(&to.url).await.status, Status::Fetched);
    assert_eq!(world.report().await.impolite, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_is_followed_to_another_host_under_that_hosts_slot() {
    let world = World::new(8, 3).await;
    let feeds: Vec<_> =
        world.newsroom.publishers().iter().filter(|p| p.has(Channel::Feed)).take(2).collect();
    let (from, to) = (feeds[0].feed_url().unwrap(), feeds[1].feed_url().unwrap());
    let path = from.strip_prefix(&feeds[0].url("")).unwrap();
    world.newsroom.misbehave(&feeds[0].host, path, Fault::RedirectTo(to.clone()), Span::Always);
    world.submit(&from, Kind::Feed).await;
    world.submit(&to, Kind::Feed).await;
    world
        .run_until(|| async {
            let tasks =
                world.tasks(TaskFilter { kind: Some(Kind::Feed), ..TaskFilter::default() }).await;
            tasks.len() == 2
                && tasks.iter().all(|task| task.fetch_count > 0 && task.last_error.is_none())
        })
        .await;
    assert_eq!(world.report().await.impolite, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn once_serves_what_is_due_and_what_that_leads_to_and_ends() {
    let world = World::new(5, 4).await;
    world.follow().await;
    world.run_once().await;
    let report = world.report().await;
    let feeds = world.newsroom.publishers().iter().filter(|p| p.has(Channel::Feed)).count();
    assert!(feeds > 0);
    assert_eq!((report.missing, report.doubled, report.text_differs), (0, 0, 0), "{report:#?}");
    let before = world.newsroom.counters().requests;
    let idle = world.run_once().await;
    assert_eq!(idle.articles, 0, "nothing is new");
    // At 600 times speed a poll may come due between the two runs; pages may not.
    assert!(
        world.newsroom.counters().requests - before <= 2 * world.newsroom.publishers().len() as u64
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_the_middle_is_quick_and_loses_nothing() {
    let world = World::new(12, 8).await;
    world.follow().await;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= 10 }).await;
    let stats = world.store.stats().await.unwrap();
    assert_eq!(stats.total.fetching, 0, "nothing is left under way");
    run_to_the_end(&world).await;
    assert_perfect(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fetch_can_be_read_back_byte_for_byte() {
    use feedmill::archive::Reader;
    use sha2::Digest;

    let world = World::new(4, 4).await;
    world.follow().await;
    run_to_the_end(&world).await;
    let dir = world.config.archive_dir();
    for entry in std::fs::read_dir(&dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name.ends_with(".warc.gz"), "a clean stop closes its segment: {name}");
    }
    let archive = Reader::new(dir, None);
    let mut read = 0;
    for task in world.tasks(TaskFilter::default()).await {
        for fetch in world.store.fetches(task.id, 100).await.unwrap() {
            let Some(raw) = fetch.raw else { continue };
            let stored = archive.stored(&raw).await.unwrap();
            assert_eq!(stored.head.status(), fetch.status);
            let hash = sha2::Sha256::digest(&stored.body);
            let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(Some(hex), fetch.body_sha256, "{}", fetch.url);
            read += 1;
        }
    }
    assert_eq!(read, world.newsroom.counters().requests);
}
