//! A well-behaved newsroom speaks proper HTTP and keeps its books.

use feedmill_newsroom::{Channel, Counters, Why};

use crate::client::{Client, HOUR, START, get, get_with, gunzip, open};

#[tokio::test]
async fn both_validators_give_304_until_something_new_appears() {
    let (newsroom, hand) = open(|_| {}).await;
    for site in newsroom.publishers().iter().filter(|it| it.has(Channel::Feed)) {
        hand.set(START);
        let url = site.feed_url().unwrap();
        let first = get(&newsroom, &url).await;
        let etag = first.header("ETag").unwrap();
        let modified = first.header("Last-Modified").unwrap();
        for validator in [("If-None-Match", etag), ("If-Modified-Since", modified)] {
            hand.set(START);
            let again = get_with(&newsroom, &url, &[validator]).await;
            assert_eq!((again.status, again.body.len()), (304, 0));
            assert_eq!(again.header("Content-Length"), None);
            assert_eq!(again.header("ETag"), Some(etag));
            hand.set(START + 24 * HOUR);
            assert_eq!(get_with(&newsroom, &url, &[validator]).await.status, 200);
        }
        hand.set(START);
        // A tag that differs wins over a date that does not.
        let both = [("If-None-Match", "\"other\""), ("If-Modified-Since", modified)];
        assert_eq!(get_with(&newsroom, &url, &both).await.status, 200);
    }
}

#[tokio::test]
async fn stories_have_validators_too() {
    let (newsroom, _) = open(|_| {}).await;
    for story in newsroom.published(START) {
        let page = get(&newsroom, &story.url).await;
        let etag = page.header("ETag").unwrap().to_owned();
        let again = get_with(&newsroom, &story.url, &[("If-None-Match", &etag)]).await;
        assert_eq!(again.status, 304);
    }
}

#[tokio::test]
async fn gzip_is_sent_to_who_accepts_it_and_is_valid() {
    let (newsroom, _) = open(|_| {}).await;
    let url = newsroom.publishers()[0].feed_url().unwrap();
    let plain = get(&newsroom, &url).await;
    assert_eq!(plain.header("Content-Encoding"), None);
    let packed = get_with(&newsroom, &url, &[("Accept-Encoding", "br, gzip;q=0.8")]).await;
    assert_eq!(packed.header("Content-Encoding"), Some("gzip"));
    assert!(packed.body.len() < plain.body.len());
    assert_eq!(gunzip(&packed.body).unwrap(), plain.body);
    let refused = get_with(&newsroom, &url, &[("Accept-Encoding", "gzip;q=0")]).await;
    assert_eq!(refused.header("Content-Encoding"), None);
}

#[tokio::test]
async fn a_connection_carries_many_requests_to_many_hosts() {
    let (newsroom, _) = open(|_| {}).await;
    let mut client = Client::connect(newsroom.addr()).await;
    for site in newsroom.publishers() {
        let url = site.url("/robots.txt");
        let head = client.ask("HEAD", &url, &[]).await;
        let full = client.ask("GET", &url, &[]).await;
        assert_eq!((head.status, full.status), (200, 200));
        assert_eq!(head.header("Content-Length"), full.header("Content-Length"));
        assert!(full.text().contains("Disallow: /private/"));
        let delay = site.crawl_delay.map(|it| format!("Crawl-delay: {it}\n"));
        assert_eq!(full.text().contains("Crawl-delay"), delay.is_some());
        assert!(full.text().contains(&delay.unwrap_or_default()));
        for sitemap in site.sitemap_urls() {
            assert!(full.text().contains(&format!("Sitemap: {sitemap}\n")));
        }
    }
    assert_eq!(client.ask("GET", "http://unknown.test/", &[]).await.status, 421);
    let post = client.ask("POST", &newsroom.publishers()[0].url("/"), &[]).await;
    assert_eq!((post.status, post.header("Connection")), (405, Some("close")));
}

#[tokio::test]
async fn every_request_is_logged_counted_and_judged() {
    let (newsroom, hand) = open(|_| {}).await;
    let (site, other) = (&newsroom.publishers()[0], &newsroom.publishers()[1]);
    let feed = site.feed_url().unwrap();
    get(&newsroom, &site.url("/robots.txt")).await;
    hand.set(START + 5_000);
    let page = get_with(&newsroom, &feed, &[("X-Test", "Yes")]).await;
    hand.set(START + 10_000);
    let etag = page.header("ETag").unwrap();
    get_with(&newsroom, &feed, &[("If-None-Match", etag)]).await;
    assert_eq!(newsroom.impolite(5_000), []);

    hand.set(START + 12_000);
    get(&newsroom, &site.url("/private/desk")).await;
    get(&newsroom, &other.url("/")).await;
    let whys: Vec<Why> = newsroom.impolite(5_000).into_iter().map(|it| it.why).collect();
    let too_soon = Why::TooSoon { pause_ms: 2_000, delay_ms: 5_000 };
    assert_eq!(whys.len(), 3);
    for why in [too_soon, Why::Disallowed, Why::RobotsNotAsked] {
        assert!(whys.contains(&why), "{why}");
    }

    let log = newsroom.log();
    let entry = &log[1];
    assert_eq!((entry.host.as_str(), entry.status), (site.host.as_str(), 200));
    assert_eq!((entry.began, entry.ended), (START + 5_000, START + 5_000));
    assert!(entry.headers.contains(&("x-test".to_owned(), "Yes".to_owned())));
    assert!(entry.bytes as usize > page.body.len());
    let bytes = log.iter().map(|it| it.bytes).sum();
    assert_eq!(newsroom.counters(), Counters { requests: 5, not_modified: 1, bytes });
}

#[tokio::test]
async fn without_a_log_only_the_counters_grow() {
    let (newsroom, _) = open(|setup| setup.keep_log = false).await;
    get(&newsroom, &newsroom.publishers()[0].url("/")).await;
    assert_eq!((newsroom.log().len(), newsroom.counters().requests), (0, 1));
}

#[tokio::test]
async fn stopping_closes_idle_connections_and_the_port() {
    let (newsroom, _) = open(|_| {}).await;
    let mut idle = Client::connect(newsroom.addr()).await;
    idle.ask("GET", &newsroom.publishers()[0].url("/"), &[]).await;
    newsroom.stop().await;
    assert_eq!(idle.rest().await, b"");
    assert!(tokio::net::TcpStream::connect(newsroom.addr()).await.is_err());
}
