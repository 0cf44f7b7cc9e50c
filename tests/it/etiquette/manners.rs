//! Lines 39 and 40: who we are, what we asked, how to opt out, and a test for publishers.

use std::time::Duration;

use feedmill::app::etiquette::{bot_page, etiquette};
use feedmill::frontier::{FOREVER, HostPatch, TaskFilter};
use feedmill::model::{Kind, Status};
use feedmill::store::FetchFilter;
use feedmill_formats::url as web;

use super::stage::{PRESS, Stage, answer, ok, page, sent, url};

pub(super) async fn line_39_publishers_can_reach_us_opt_out_and_see_what_was_asked(stage: Stage) {
    let contact = stage.world.config.fetch.contact.clone();
    let about_us = bot_page(&stage.world.config);
    assert!(about_us.contains(&contact) && about_us.contains("Disallow: /"), "{about_us}");

    stage.says("/robots.txt", &[answer(404, &[], "")]);
    stage.says("/story/", &[ok(&[], page("A story", ""))]);
    for n in 0..3 {
        stage.submit(&format!("/story/{n}")).await;
    }
    let all = || async { stage.pages().await.iter().all(|page| page.status == Status::Fetched) };
    stage.world.play(all).await;
    let log = stage.world.newsroom.log();
    let log: Vec<_> = log.iter().filter(|request| request.host == PRESS).collect();
    assert!(log.iter().all(|request| sent(request, "user-agent").unwrap().contains(&contact)));

    let asked = FetchFilter {
        host: Some(PRESS.into()),
        since: Some(stage.world.clock.now().before(Duration::from_hours(30 * 24))),
        limit: 100,
        ..FetchFilter::default()
    };
    let told = stage.world.store.find_fetches(asked).await.unwrap();
    let told: Vec<_> = told.iter().map(|fetch| (fetch.url.clone(), fetch.status)).collect();
    let theirs: Vec<_> =
        log.iter().map(|request| (url(&request.path), Some(request.status))).collect();
    assert_eq!(told, theirs, "what we say that we asked is what they saw");

    let opted_out = HostPatch { blocked_until: Some(FOREVER), ..HostPatch::default() };
    stage.world.store.set_host(PRESS, opted_out).await.unwrap();
    stage.submit("/story/9").await;
    assert!(!stage.world.store.has_work(feedmill::model::Lane::ALL).await.unwrap());
    stage.world.run_once().await;
    assert_eq!(stage.asked("/story/9").len(), 0, "who opted out is not asked");
}

pub(super) async fn line_40_a_publisher_can_see_how_we_behave_with_one_request(stage: Stage) {
    let rules = "User-agent: Feedmill\nDisallow: /no/\nCrawl-delay: 5\n\
        Content-Signal: ai-train=no\n\nSitemap: http://press.newsroom.test/map.xml\n";
    stage.says("/robots.txt", &[ok(&[], rules)]);
    let world = &stage.world;
    let ask = |path: &str| {
        let page = web::parse(&url(path)).unwrap();
        async move { etiquette(&page, &world.config, &world.clock).await.unwrap() }
    };
    let manners = ask("/yes/1").await;
    assert!(manners.allowed && manners.robots.asked_now && manners.robots.exists, "{manners:?}");
    assert_eq!(manners.robots.crawl_delay_ms, Some(5_000));
    assert_eq!((manners.pause_ms, manners.at_a_time), (5_000, 1), "{manners:?}");
    assert_eq!(manners.robots.sitemaps, ["http://press.newsroom.test/map.xml"]);
    assert_eq!(manners.rights.uses.get("ai-train").map(String::as_str), Some("no"));
    assert_eq!((manners.asked.requests, manners.asked.complaints), (1, 0));
    assert!(manners.to_stop.iter().any(|way| way.contains("User-agent: Feedmill")));

    let other = ask("/no/1").await;
    assert!(!other.allowed && !other.robots.asked_now, "the copy is fresh: {other:?}");
    let opted_out = HostPatch { blocked_until: Some(FOREVER), ..HostPatch::default() };
    world.store.set_host(PRESS, opted_out).await.unwrap();
    world.pass(Duration::from_hours(48));
    let refused = ask("/yes/1").await;
    assert!(!refused.allowed && refused.blocked_until.is_some(), "{refused:?}");
    assert!(refused.robots.trouble.is_some(), "{refused:?}");

    let paths: Vec<_> = world.newsroom.log().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/robots.txt"], "only that, and once");
    let tasks = world.tasks(TaskFilter::default()).await;
    assert!(tasks.iter().all(|task| task.kind == Kind::Robots), "nothing is left: {tasks:?}");
}
