//! Pages that are asked for again: only when the operator says so, so often, and conditionally.

use feedmill::config::RefetchPolicy;
use feedmill::model::{EventKind, NewSource, Status, Ts};

use super::stage::{HOUR, PRESS, Stage, answer, apart, ok, page, sent, source, url};

const TAG: [(&str, &str); 1] = [("ETag", "\"1\"")];
const NEW_TAG: [(&str, &str); 1] = [("ETag", "\"2\"")];

async fn kept(stage: &Stage) -> (u64, usize) {
    let updated = stage.events(EventKind::ArticleUpdated).await.len();
    (stage.world.store.totals().await.unwrap().articles, updated)
}

pub(super) async fn once_is_enough_unless_it_is_said(stage: Stage) {
    stage.says("/page", &[ok(&TAG, page("A page", ""))]);
    let url = stage.submit("/page").await;
    stage.until(&url, |task| task.status == Status::Fetched).await;
    stage.submit("/page").await;
    stage.world.run_once().await;
    assert_eq!(stage.asked("/page").len(), 1);
}

pub(super) async fn an_interval_brings_so_many_conditional_requests(mut stage: Stage) {
    stage
        .set(|config| {
            config.refetch.policy = RefetchPolicy::Interval;
            config.refetch.interval = "2h".parse().unwrap();
            config.refetch.times = 3;
        })
        .await;
    let changed = page("A page", "").replace("Monday", "Tuesday");
    stage.says(
        "/page",
        &[ok(&TAG, page("A page", "")), answer(304, &[], ""), ok(&NEW_TAG, changed)],
    );
    let url = stage.submit("/page").await;
    stage.until_asked("/page", 2).await;
    // A feed that names it again does not bring it forward.
    stage.submit("/page").await;
    stage.until(&url, |task| task.status == Status::Fetched).await;
    let log = stage.asked("/page");
    let tags: Vec<_> = log.iter().map(|request| sent(request, "if-none-match")).collect();
    assert_eq!(tags, [None, Some("\"1\""), Some("\"1\""), Some("\"2\"")]);
    apart(&log, &[2 * HOUR, 2 * HOUR, 2 * HOUR]);
    assert_eq!(kept(&stage).await, (1, 1), "one article with another text");
}

pub(super) async fn a_newer_lastmod_brings_a_page_again(stage: Stage) {
    let map = |lastmod: Ts| {
        format!(
            "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"><url><loc>{}</loc>\
             <lastmod>{lastmod}</lastmod></url></urlset>",
            url("/page")
        )
    };
    let at = |hours: i64| Ts::from_ms(stage.world.clock.now().ms() + hours * HOUR);
    // Another body each time, or it would be the same sitemap as before.
    let other = |hours| map(at(hours)).replace("<url>", "<url >");
    let maps = [map(at(-1)), other(-1), map(at(26)), other(26)].map(|map| ok(&[], map));
    stage.says("/map.xml", &maps);
    stage.says("/page", &[ok(&TAG, page("A page", "")), answer(410, &[], "")]);
    stage
        .add(NewSource {
            feed_urls: Vec::new(),
            sitemap_urls: vec![url("/map.xml")],
            refetch: Some(feedmill::model::RefetchPolicy::OnLastmodNewer),
            poll_interval: Some(std::time::Duration::from_hours(9)),
            ..source(PRESS, &url("/"))
        })
        .await;
    stage.until_asked("/map.xml", 3).await;
    assert_eq!(stage.asked("/page").len(), 1, "neither for an old date nor for one to come");
    stage.until_asked("/page", 2).await;
    stage.until_asked("/map.xml", 6).await;
    let log = stage.asked("/page");
    assert_eq!(log.len(), 2, "and once for a change");
    assert_eq!(sent(&log[1], "if-none-match"), Some("\"1\""));
    assert_eq!(stage.events(EventKind::ArticleWithdrawn).await.len(), 1);
    assert_eq!(stage.events(EventKind::ArticleFailed).await.len(), 0);
    assert_eq!(kept(&stage).await.0, 1, "what was read stays");
}
