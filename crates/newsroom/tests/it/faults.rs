//! Each fault as a client meets it.

use std::io::ErrorKind;

use feedmill_newsroom::{Fault, Mislabel, Newsroom, RetryAfter, Span, Why};

use crate::client::{Client, Response, START, get, get_with, gunzip, open};

/// A newsroom with one publisher whose feed has this fault once, and the URL of the feed.
async fn faulty(fault: Fault) -> (Newsroom, String) {
    let (newsroom, _) = open(|setup| setup.publishers = 1).await;
    let site = &newsroom.publishers()[0];
    newsroom.misbehave(&site.host, "/feed", fault, Span::Times(1));
    let url = site.feed_url().unwrap();
    (newsroom, url)
}

async fn hit(fault: Fault) -> Response {
    let (newsroom, url) = faulty(fault).await;
    let response = get(&newsroom, &url).await;
    let healthy = get(&newsroom, &url).await;
    assert_eq!((healthy.status, healthy.broken), (200, None), "the fault was to strike once");
    response
}

#[tokio::test]
async fn slow_bytes_arrive_complete_and_piece_by_piece() {
    let (newsroom, url) = faulty(Fault::SlowBytes { chunk: 4_096, pause_ms: 2 }).await;
    let clock = std::time::Instant::now();
    let slow = get(&newsroom, &url).await;
    let pieces = slow.body.len().div_ceil(4_096);
    assert!(pieces > 1 && clock.elapsed().as_millis() as usize >= 2 * pieces);
    assert_eq!(slow.body, get(&newsroom, &url).await.body);
}

#[tokio::test]
async fn reset_breaks_the_connection_in_the_body() {
    let response = hit(Fault::Reset).await;
    assert_eq!((response.status, response.broken), (200, Some(ErrorKind::ConnectionReset)));
}

#[tokio::test]
async fn truncate_ends_the_connection_in_the_body() {
    let response = hit(Fault::Truncate).await;
    assert_eq!((response.status, response.broken), (200, Some(ErrorKind::UnexpectedEof)));
    assert!(!response.body.is_empty());
}

#[tokio::test]
async fn wrong_content_length_says_less_than_is_sent() {
    let (newsroom, url) = faulty(Fault::WrongContentLength).await;
    let short = get(&newsroom, &url).await;
    let whole = get(&newsroom, &url).await;
    assert_eq!(short.broken, None);
    assert_eq!(short.body, whole.body[..whole.body.len() / 2]);
}

#[tokio::test]
async fn bad_gzip_cannot_be_unpacked() {
    let response = hit(Fault::BadGzip).await;
    assert_eq!(response.header("Content-Encoding"), Some("gzip"));
    assert!(response.body.starts_with(&[0x1F, 0x8B]));
    assert!(gunzip(&response.body).is_err());
}

#[tokio::test]
async fn redirects_elsewhere() {
    let target = "http://elsewhere.test/feed";
    for (fault, status) in
        [(Fault::RedirectTo(target.into()), 302), (Fault::MovedTo(target.into()), 301)]
    {
        let response = hit(fault).await;
        assert_eq!((response.status, response.header("Location")), (status, Some(target)));
    }
}

#[tokio::test]
async fn a_redirect_chain_has_the_length_asked_for_even_when_it_strikes_once() {
    let (newsroom, first) = faulty(Fault::RedirectChain(5)).await;
    let mut url = first.clone();
    for _ in 0..5 {
        let response = get(&newsroom, &url).await;
        assert_eq!(response.status, 302);
        url = response.header("Location").unwrap().to_owned();
    }
    assert_eq!(get(&newsroom, &url).await.body, get(&newsroom, &first).await.body);
}

#[tokio::test]
async fn a_redirect_loop_never_ends() {
    let (newsroom, mut url) = faulty(Fault::RedirectLoop).await;
    let mut seen = Vec::new();
    for _ in 0..20 {
        let response = get(&newsroom, &url).await;
        assert_eq!(response.status, 302);
        url = response.header("Location").unwrap().to_owned();
        seen.push(url.clone());
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn any_status() {
    for status in [403, 404, 410, 418] {
        assert_eq!(hit(Fault::Status(status)).await.status, status);
    }
}

#[tokio::test]
async fn retry_after_in_both_forms_is_sent_and_remembered() {
    let (newsroom, url) =
        faulty(Fault::TooManyRequests { retry_after: RetryAfter::Seconds(120) }).await;
    let response = get(&newsroom, &url).await;
    assert_eq!((response.status, response.header("Retry-After")), (429, Some("120")));
    let until = START + 120_000;
    assert_eq!(newsroom.log()[0].retry_until, Some(until));
    get(&newsroom, &url).await;
    let verdicts = newsroom.impolite(0);
    assert!(verdicts.iter().any(|it| it.why == Why::BeforeRetryAfter { until }));

    let retry_after = Some(RetryAfter::Date(60));
    let response = hit(Fault::ServerError { status: 503, retry_after }).await;
    assert_eq!(response.status, 503);
    assert_eq!(response.header("Retry-After"), Some("Mon, 02 Mar 2026 12:01:00 GMT"));
    let response = hit(Fault::ServerError { status: 500, retry_after: None }).await;
    assert_eq!((response.status, response.header("Retry-After")), (500, None));
}

#[tokio::test]
async fn wrong_encoding_in_both_directions() {
    let (newsroom, _) = open(|_| {}).await;
    let story = newsroom.published(START).into_iter().find(|it| it.text.contains('ü')).unwrap();
    let host = &newsroom.publishers()[story.publisher].host;
    let honest = get(&newsroom, &story.url).await;

    newsroom.misbehave(host, "/", Fault::WrongEncoding(Mislabel::Utf8AsLatin1), Span::Times(1));
    let lying = get(&newsroom, &story.url).await;
    assert_eq!(lying.header("Content-Type"), Some("text/html; charset=iso-8859-1"));
    assert_eq!(lying.body, honest.body);

    newsroom.misbehave(host, "/", Fault::WrongEncoding(Mislabel::Latin1AsUtf8), Span::Times(1));
    let lying = get(&newsroom, &story.url).await;
    assert_eq!(lying.header("Content-Type"), Some("text/html; charset=utf-8"));
    assert!(lying.body.contains(&0xFC) && String::from_utf8(lying.body).is_err());
}

#[tokio::test]
async fn frozen_validators_hide_what_is_new() {
    let (newsroom, hand) = open(|setup| setup.publishers = 1).await;
    let url = newsroom.publishers()[0].feed_url().unwrap();
    newsroom.misbehave("*", "/feed", Fault::FrozenValidators, Span::Always);
    let etag = get(&newsroom, &url).await.header("ETag").unwrap().to_owned();
    hand.set(START + 86_400_000);
    assert_eq!(get_with(&newsroom, &url, &[("If-None-Match", &etag)]).await.status, 304);
    assert_eq!(get(&newsroom, &url).await.status, 200);
    newsroom.behave("*", "/feed");
    assert_eq!(get_with(&newsroom, &url, &[("If-None-Match", &etag)]).await.status, 200);
}

#[tokio::test]
async fn changed_guids_change_nothing_else() {
    let (newsroom, _) = open(|setup| setup.publishers = 1).await;
    let url = newsroom.publishers()[0].feed_url().unwrap();
    newsroom.misbehave("*", "/feed", Fault::ChangedGuids, Span::Always);
    let (one, other) = (get(&newsroom, &url).await.text(), get(&newsroom, &url).await.text());
    assert_ne!(one, other);
    let without = |text: &str| {
        let parts = text.split("<guid").map(|it| it.split_once("</guid>").map_or(it, |it| it.1));
        parts.collect::<String>()
    };
    assert_eq!(without(&one), without(&other));
}

#[tokio::test]
async fn a_hanging_request_is_logged_without_status_when_the_newsroom_stops() {
    let (newsroom, url) = faulty(Fault::Hang).await;
    let mut client = Client::connect(newsroom.addr()).await;
    client.send("GET", &url, &[]).await;
    while newsroom.unspent_faults() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(newsroom.log(), []);
    newsroom.stop().await;
    assert_eq!(client.rest().await, b"");
    let log = newsroom.log();
    assert_eq!((log.len(), log[0].status, log[0].bytes), (1, 0, 0));
}

#[tokio::test]
async fn a_client_that_gives_up_on_a_hanging_request_is_noticed() {
    let (newsroom, url) = faulty(Fault::Hang).await;
    let mut client = Client::connect(newsroom.addr()).await;
    client.send("GET", &url, &[]).await;
    drop(client);
    while newsroom.counters().requests == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(newsroom.log()[0].status, 0);
}

#[tokio::test]
async fn empty_and_html_instead_of_a_feed() {
    let empty = hit(Fault::Empty).await;
    assert_eq!(
        (empty.status, empty.body.len(), empty.header("Content-Length")),
        (200, 0, Some("0"))
    );
    let page = hit(Fault::HtmlInsteadOfFeed).await;
    assert_eq!((page.status, page.header("Content-Type")), (200, Some("text/html; charset=utf-8")));
}
