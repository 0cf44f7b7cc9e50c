//! Lines 15 and 17 to 24: one token per host, and what status codes ask for.

use feedmill::frontier::HostFilter;
use feedmill::model::{Code, EventKind, Kind, Status};
use feedmill_newsroom::{Fault, Politeness, RetryAfter, Span, Why, judge};

use super::stage::{HOUR, MINUTE, PRESS, Stage, answer, at_least, feed, ok, page, sent, url};

pub(super) async fn line_15_a_host_and_a_group_have_one_token(mut stage: Stage) {
    let newsroom = &stage.world.newsroom;
    let hosts: Vec<String> = newsroom.publishers().iter().map(|it| it.host.clone()).collect();
    let group = format!("pair={}", hosts.join(" "));
    let published = newsroom.published_count(i64::MAX) as u64;
    stage
        .set(|config| {
            config.hosts.delay = "5m".parse().unwrap();
            config.hosts.groups = vec![group.parse().unwrap()];
        })
        .await;
    stage.world.follow().await;
    let done = || async { stage.world.store.totals().await.unwrap().articles >= published };
    stage.world.play(done).await;
    let mut log = stage.world.newsroom.log();
    let kinds = ["/robots.txt", "feed"];
    assert!(kinds.iter().all(|kind| log.iter().any(|it| it.path.contains(kind))), "{log:#?}");
    for request in &mut log {
        request.host = "pair".into();
    }
    let rules =
        Politeness { default_delay_ms: 5 * MINUTE, tolerance_ms: 1, ..Politeness::default() };
    let wrongs = judge(&log, &rules).into_iter().map(|it| it.why);
    let wrongs: Vec<_> =
        wrongs.filter(|why| matches!(why, Why::Overlap | Why::TooSoon { .. })).collect();
    assert_eq!(wrongs, [], "feeds, pages and robots.txt of both hosts, one at a time");
}

pub(super) async fn line_17_retry_after_is_kept_to_the_letter(stage: Stage) {
    let newsroom = &stage.world.newsroom;
    stage.says("/feed", &[ok(&[("ETag", "\"1\"")], feed(&["1"]))]);
    stage.says("/page", &[ok(&[], page("A page", ""))]);
    let too_many = Fault::TooManyRequests { retry_after: RetryAfter::Seconds(900) };
    newsroom.misbehave(PRESS, "/feed", too_many, Span::Times(1));
    let retry_after = Some(RetryAfter::Date(1_500));
    let away = Fault::ServerError { status: 503, retry_after };
    newsroom.misbehave(PRESS, "/page", away, Span::Times(1));
    stage.follow("Press", &url("/feed")).await;
    stage.submit("/page").await;
    let fine = |path| stage.asked(path).iter().any(|it| it.status == 200);
    stage.world.play(|| async { fine("/feed") && fine("/page") }).await;
    let rules = Politeness { default_delay_ms: 1_000, tolerance_ms: 1, ..Politeness::default() };
    let early = judge(&newsroom.log(), &rules).into_iter();
    let early: Vec<_> = early.filter(|it| matches!(it.why, Why::BeforeRetryAfter { .. })).collect();
    assert_eq!(early, [], "nothing is asked of the host before");

    // Who asks for a month is left alone for the longest pause, and the operator hears of it.
    let month = 30 * 24 * 3_600;
    let far = Fault::TooManyRequests { retry_after: RetryAfter::Seconds(month) };
    newsroom.misbehave("far.newsroom.test", "/", far, Span::Always);
    stage.follow("Far", "http://far.newsroom.test/feed").await;
    let far = stage.until("http://far.newsroom.test/feed", |task| task.fetch_count > 0).await;
    let waits = far.next_fetch_at.since(far.last_fetched_at.unwrap());
    assert_eq!(waits, stage.world.config.hosts.max_retry_after.duration());
    assert_eq!(stage.events(EventKind::SourceDisabled).await.len(), 1);
}

pub(super) async fn line_18_complaints_without_a_time_double_the_wait_and_the_pace_stays_lower(
    stage: Stage,
) {
    let complaint = || answer(429, &[], "");
    let fine = ok(&[("ETag", "\"1\"")], feed(&["1"]));
    stage.says("/feed", &[complaint(), complaint(), complaint(), complaint(), fine]);
    stage.follow("Press", &url("/feed")).await;
    let log = stage.until_asked("/feed", 6).await;
    // The current interval first: a minute at the least.
    at_least(&log, &[MINUTE, 2 * MINUTE, 4 * MINUTE, 8 * MINUTE]);
    let filter = HostFilter { name: Some(PRESS.into()), limit: 1, ..HostFilter::default() };
    let host = stage.world.store.hosts(filter).await.unwrap().remove(0);
    assert!(host.learned_ms > 1_000, "the host's pause too: {} ms", host.learned_ms);
}

pub(super) async fn line_19_fast_errors_do_not_speed_us_up(mut stage: Stage) {
    stage.set(|config| config.hosts.delay = "5m".parse().unwrap()).await;
    let first = answer(429, &[("Retry-After", "60")], "");
    stage.says("/", &[answer(404, &[], ""), first, answer(404, &[], "")]);
    for page in 0..6 {
        stage.submit(&format!("/{page}")).await;
    }
    let over = |status| status != Status::Pending;
    stage.world.play(|| async { stage.pages().await.iter().all(|page| over(page.status)) }).await;
    let log = stage.world.newsroom.log();
    // robots.txt was the first; after the complaint the pause is doubled, and errors leave it so.
    let after = log.iter().position(|it| it.status == 429).unwrap();
    at_least(&log[..=after], &vec![5 * MINUTE; after]);
    at_least(&log[after..], &vec![10 * MINUTE; log.len() - after - 1]);
    assert!(log.len() - after > 3, "{log:#?}");
}

pub(super) async fn line_20_a_403_is_tried_far_slower_under_the_same_name(stage: Stage) {
    stage.says("/feed", &[answer(403, &[], "no")]);
    stage.follow("Press", &url("/feed")).await;
    let log = stage.until_asked("/feed", 4).await;
    at_least(&log, &[HOUR, 2 * HOUR, 4 * HOUR]);
    let name = sent(&log[0], "user-agent");
    assert!(log.iter().all(|it| sent(it, "user-agent") == name), "{log:#?}");
    let (_, channels) = stage.world.store.source("Press").await.unwrap();
    assert_eq!(channels[0].health, feedmill::model::Health::Blocked);
}

pub(super) async fn line_21_a_410_ends_a_feed_and_a_404_slows_it_down(stage: Stage) {
    let first = || ok(&[("ETag", "\"1\"")], feed(&["1"]));
    stage.says("/gone", &[first(), answer(410, &[], "")]);
    stage.says("/lost", &[first(), answer(404, &[], "")]);
    stage.follow("Gone", &url("/gone")).await;
    stage.follow("Lost", &url("/lost")).await;
    let lost = stage.until_asked("/lost", 4).await;
    at_least(&lost[1..], &[HOUR, 2 * HOUR]);
    let task = stage.world.task(&url("/lost")).await;
    assert_eq!((task.status, task.last_error), (Status::Pending, Some(Code::NotFound)));
    let waits = task.next_fetch_at.since(task.last_fetched_at.unwrap());
    assert!(waits.as_secs() <= 30 * 24 * 3_600, "never for good: {waits:?}");

    assert_eq!(stage.asked("/gone").len(), 2, "hours later it was not asked for again");
    assert_eq!(stage.world.task(&url("/gone")).await.status, Status::Dead);
    assert_eq!(stage.events(EventKind::FeedGone).await.len(), 1);
    assert_eq!(stage.world.store.totals().await.unwrap().entries, 2, "history stays");
}

pub(super) async fn line_22_only_a_lasting_move_to_the_same_feed_is_stored(mut stage: Stage) {
    stage.set(|config| config.schedule.default_interval = "12h".parse().unwrap()).await;
    let other = "other.newsroom.test";
    let new = format!("http://{other}/new");
    let to = |status, place: &str| answer(status, &[("Location", place)], "");
    let own = || ok(&[("ETag", "\"1\"")], feed(&["1"]));
    stage.says("/old", &[own(), to(301, &new)]);
    stage.says_at(other, "/new", &[ok(&[("ETag", "\"2\"")], feed(&["1", "2"]))]);
    stage.says("/for-now", &[own(), to(302, "/target")]);
    stage.says("/mixed", &[own(), to(308, "/for-now-too")]);
    stage.says("/for-now-too", &[to(307, "/target")]);
    stage.says("/taken", &[own(), to(301, "/casino")]);
    stage.says("/target", &[own()]);
    stage.says("/casino", &[ok(&[], feed(&["win", "big"]))]);
    let stay = ["/for-now", "/mixed", "/taken"];
    for path in ["/old"].iter().chain(&stay) {
        stage.follow(path, &url(path)).await;
    }
    let direct = || {
        let log = stage.world.newsroom.log();
        let last = log.iter().rposition(|it| it.path == "/old").unwrap_or(0);
        log[last..].iter().filter(|it| it.path == "/new").count()
    };
    // The last one that was sent on, and two that were not.
    stage.world.play(|| async { direct() >= 3 }).await;
    let old = stage.asked("/old");
    assert!(old.len() > 10, "ten times at the least: {}", old.len());
    assert!(old[old.len() - 1].began - old[1].began >= 6 * 24 * HOUR, "over six days");
    let moved = stage.events(EventKind::FeedMoved).await;
    let told: Vec<_> = moved.iter().map(|it| (&it.payload["from"], &it.payload["to"])).collect();
    assert_eq!(told, [(&url("/old").into(), &new.as_str().into())]);
    assert_eq!(stage.world.store.source("/old").await.unwrap().0.spec.feed_urls, [new]);
    for path in stay {
        let spec = stage.world.store.source(path).await.unwrap().0.spec;
        assert_eq!(spec.feed_urls, [url(path)]);
        assert!(stage.asked(path).len() > old.len(), "{path} is still asked first");
    }
}

pub(super) async fn line_23_redirects_end_and_every_hop_is_guarded_and_polite(mut stage: Stage) {
    stage.set(|config| config.hosts.delay = "10s".parse().unwrap()).await;
    let newsroom = &stage.world.newsroom;
    stage.says("/", &[answer(404, &[], "")]);
    for hop in 0..9 {
        let onward = url(&format!("/hop/{}", hop + 1));
        stage.says(&format!("/hop/{hop}"), &[answer(302, &[("Location", &onward)], "")]);
    }
    stage.submit("/hop/0").await;
    let inside = "http://169.254.169.254/latest/meta-data/";
    stage.says("/inside", &[answer(302, &[("Location", inside)], "")]);
    stage.world.submit(&url("/inside"), Kind::Feed).await;
    // The host that a feed leads to has asked for peace.
    let other = "other.newsroom.test";
    let target = format!("http://{other}/feed");
    stage.says("/away", &[answer(302, &[("Location", target.as_str())], "")]);
    stage.says_at(other, "/feed", &[ok(&[("ETag", "\"1\"")], feed(&["1"]))]);
    let peace = Fault::TooManyRequests { retry_after: RetryAfter::Seconds(3_600) };
    newsroom.misbehave(other, "/feed", peace, Span::Times(1));
    stage.world.submit(&target, Kind::Feed).await;
    stage.world.submit(&url("/away"), Kind::Feed).await;
    stage.until(&url("/away"), |task| task.fetch_count > 0 && task.last_error.is_none()).await;
    let far = stage.world.task(&url("/hop/0")).await;
    assert_eq!((far.status, far.last_error), (Status::Dead, Some(Code::RedirectLoop)));
    let inside = stage.world.task(&url("/inside")).await;
    assert_eq!(inside.last_error, Some(Code::Guarded));

    let log = newsroom.log();
    let hops = log.iter().filter(|it| it.path.starts_with("/hop/")).count();
    assert_eq!(hops, 6, "the page and five redirects");
    let rules = Politeness { default_delay_ms: 10_000, tolerance_ms: 1, ..Politeness::default() };
    let wrongs = judge(&log, &rules).into_iter();
    let wrongs: Vec<_> = wrongs.filter(|it| it.why != Why::RobotsNotAsked).collect();
    assert_eq!(wrongs, [], "each hop under its host's own pause");
}

pub(super) async fn line_24_refusals_end_and_server_errors_back_off(stage: Stage) {
    for status in [401, 407, 451] {
        let path = format!("/{status}");
        stage.says(&path, &[answer(status, &[], "")]);
        stage.follow(&path, &url(&path)).await;
    }
    stage.says("/broken", &[answer(502, &[], "")]);
    stage.follow("Broken", &url("/broken")).await;
    let broken = stage.until_asked("/broken", 5).await;
    at_least(&broken, &[15 * MINUTE, 30 * MINUTE, HOUR, HOUR]);
    for status in [401, 407, 451] {
        let path = format!("/{status}");
        assert_eq!(stage.asked(&path).len(), 1, "{status}");
        let task = stage.world.task(&url(&path)).await;
        assert_eq!((task.status, task.last_error), (Status::Dead, Some(Code::Unauthorized)));
    }
    assert_eq!(stage.events(EventKind::SourceDisabled).await.len(), 3, "each is told");
    assert_eq!(stage.events(EventKind::FeedGone).await.len(), 0, "none of them is gone");
}
