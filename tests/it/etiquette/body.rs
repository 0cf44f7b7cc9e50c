//! Lines 35, 37 and 38: what is read from a body.

use feedmill::model::{Code, EntryId, Kind};

use super::stage::{Stage, ok, sent, url};

pub(super) async fn line_35_a_body_like_the_last_one_still_brings_its_validators(stage: Stage) {
    let map = "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"></urlset>";
    let with = |tag| ok(&[("ETag", tag)], map);
    stage.says("/map.xml", &[with("\"1\""), with("\"2\""), with("\"3\"")]);
    stage.world.submit(&url("/map.xml"), Kind::Sitemap).await;
    let log = stage.until_asked("/map.xml", 3).await;
    let sent: Vec<_> = log.iter().take(3).map(|it| sent(it, "if-none-match")).collect();
    assert_eq!(sent, [None, Some("\"1\""), Some("\"2\"")]);
    let task = stage.world.task(&url("/map.xml")).await;
    let reason = task.reason.unwrap();
    assert!(reason.starts_with("the same as last time"), "{reason}");
}

pub(super) async fn line_37_a_page_in_place_of_a_feed_is_an_error(stage: Stage) {
    let html = "<!doctype html><html><body><h1>Welcome</h1></body></html>";
    stage.says("/feed", &[ok(&[("Content-Type", "application/rss+xml")], html)]);
    stage.follow("Press", &url("/feed")).await;
    let task = stage.until(&url("/feed"), |task| task.fetch_count > 0).await;
    assert_eq!((task.last_error, task.retry_count), (Some(Code::BadContentType), 1));
    let (_, channels) = stage.world.store.source("Press").await.unwrap();
    assert_eq!((channels[0].failures, channels[0].last_success_at), (1, None));
}

pub(super) async fn line_38_dates_to_come_are_kept_as_written(stage: Stage) {
    let date = "Fri, 01 Jan 2100 00:00:00 GMT";
    let item = |id: u8, date: &str| {
        format!("<item><guid>{id}</guid><title>{id}</title><pubDate>{date}</pubDate></item>")
    };
    let items = item(1, date) + &item(2, "Sun, 06 Nov 1994 08:49:37 GMT");
    let rss = format!("<rss version=\"2.0\"><channel><title>P</title>{items}</channel></rss>");
    stage.says("/feed", &[ok(&[("ETag", "\"1\"")], rss)]);
    stage.follow("Press", &url("/feed")).await;
    let task = stage.until(&url("/feed"), |task| task.fetch_count > 0).await;
    let [future, past] = ["guid:1", "guid:2"].map(|uid| EntryId::of(task.id, uid));
    let future = stage.world.store.entry(future).await.unwrap().unwrap();
    assert_eq!(future.entry.published_raw.as_deref(), Some(date));
    assert_eq!(future.entry.published, None, "what is to come has not been published");
    let past = stage.world.store.entry(past).await.unwrap().unwrap();
    assert!(past.entry.published.is_some());
    assert_eq!(future.first_seen, past.first_seen);
}
