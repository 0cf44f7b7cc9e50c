//! Lines 35 to 38: what is read from a body.

use std::time::Duration;

use feedmill::model::{Code, EntryId, Health, Kind, NewSource};
use feedmill_newsroom::{Fault, Span};

use super::stage::{HOUR, PRESS, Stage, answer, dated, ok, sent, source, url};

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

pub(super) async fn line_36_frozen_validators_are_probed_once_a_day(mut stage: Stage) {
    stage
        .set(|config| {
            config.schedule.default_interval = "1h".parse().unwrap();
            config.schedule.sitemap_interval = "1h".parse().unwrap();
        })
        .await;
    let now = stage.world.clock.now();
    let frozen_at = |until| {
        let body = dated(400, HOUR, until);
        let fault = Fault::ScriptedFrozen(ok(&[("ETag", "\"1\"")], body));
        stage.world.newsroom.misbehave(PRESS, "/feed", fault, Span::Always);
    };
    frozen_at(now);
    let map = |stories: usize| {
        let page = |n| format!("<url><loc>{}</loc></url>", url(&format!("/story/{n}")));
        let pages: String = (0..stories).map(page).collect();
        let space = "http://www.sitemaps.org/schemas/sitemap/0.9";
        ok(&[], format!("<urlset xmlns=\"{space}\">{pages}</urlset>"))
    };
    stage.says("/story/", &[answer(404, &[], "")]);
    stage.says("/map.xml", &(0..120).map(|hour| map(hour / 2)).collect::<Vec<_>>());
    let sitemap_urls = vec![url("/map.xml")];
    stage.add(NewSource { sitemap_urls, ..source("Press", &url("/feed")) }).await;
    let channel = || async { stage.world.store.source("Press").await.unwrap().1.remove(0) };
    let probes = || {
        let log = stage.asked("/feed");
        let bare = log.iter().filter(|it| sent(it, "if-none-match").is_none());
        bare.map(|it| it.began).collect::<Vec<_>>()
    };
    stage.until_asked("/feed", 60).await;
    let so_far = probes().len();
    assert_eq!(so_far, 4, "the first poll, and one each day: {:?}", probes());
    assert_eq!(channel().await.health, Health::Frozen);

    // A probe that brings news shows what the validators are worth. There is still one a day.
    frozen_at(now.after(Duration::from_hours(48)));
    stage.world.play(|| async { probes().len() > so_far }).await;
    assert_eq!(channel().await.health, Health::Usual);
    stage.world.play(|| async { probes().len() > so_far + 1 }).await;
    let probes = probes();
    assert!(probes.windows(2).skip(1).all(|pair| pair[1] - pair[0] >= 24 * HOUR), "{probes:?}");
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
