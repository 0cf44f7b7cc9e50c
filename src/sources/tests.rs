//! What becomes of what operators say.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn wanted(urls: &[&str]) -> Wanted {
    Wanted { urls: urls.iter().map(|&url| url.to_owned()).collect(), ..Wanted::default() }
}

fn saying(said: &[(&str, Value)]) -> Wanted {
    let said = said.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Wanted { said, ..Wanted::default() }
}

#[test]
fn a_home_page_is_enough_where_something_can_be_found_on_it() {
    let home = ("url", json!("https://example.com/news"));
    let made = |more: &[(&str, Value)]| {
        specify(&saying(&[std::slice::from_ref(&home), more].concat()), |_| Ok(()))
    };
    let source = made(&[]).unwrap();
    assert_eq!(
        (source.name.as_str(), source.url.as_str()),
        ("example.com", "https://example.com/news")
    );
    assert_eq!(source.ingestion_mode, IngestionMode::Feed, "feeds are looked for");
    let off = ("discover", json!("no"));
    assert_eq!(made(std::slice::from_ref(&off)).unwrap().ingestion_mode, IngestionMode::Spider);
    let feeds = ("ingestion_mode", json!("feed"));
    assert_eq!(made(&[off, feeds]).unwrap_err().code(), "no_channel");
    let direct = ("website", json!("direct"));
    assert_eq!(made(std::slice::from_ref(&direct)).unwrap().ingestion_mode, IngestionMode::Spider);
    let feed = ("feed_url", json!("https://feeds.example.com/rss"));
    let both = made(&[direct, feed]).unwrap();
    assert_eq!(both.ingestion_mode, IngestionMode::Both);
    assert_eq!(both.url, "https://example.com/news");
}

#[test]
fn an_address_that_is_spelled_like_a_feed_is_one() {
    for (url, feeds, sitemaps) in [
        ("https://example.com/rss", 1, 0),
        ("https://example.com/world/feed/", 1, 0),
        ("https://example.com/index.xml", 1, 0),
        ("https://example.com/news-sitemap.xml", 0, 1),
        ("https://example.com/feedback", 0, 0),
        ("https://rss.example.com/", 0, 0),
    ] {
        let source = specify(&saying(&[("url", json!(url))]), |_| Ok(())).unwrap();
        assert_eq!((source.feed_urls.len(), source.sitemap_urls.len()), (feeds, sitemaps), "{url}");
        let is_home = feeds + sitemaps == 0;
        assert_eq!(source.url == url, is_home, "{url}");
    }
    let direct = [("url", json!("https://example.com/feed")), ("website", json!("direct"))];
    assert!(specify(&saying(&direct), |_| Ok(())).unwrap().feed_urls.is_empty());
}

#[test]
fn what_says_which_pages_are_articles_is_checked() {
    for (field, value, code, words) in [
        ("article_url_patterns", json!(["/news/", "(open"]), "bad_pattern", "`(open`"),
        ("article_url_patterns", json!(["a b"]), "bad_pattern", "blanks"),
        ("max_depth", json!(-2), "bad_field", "-1 for without end"),
        ("website", json!("list"), "bad_selector", "which elements link to articles"),
        ("article_selector", json!("a["), "bad_selector", "`article_selector`"),
        (
            "website",
            json!({"discovery_mode": "list", "article_selector": "a", "max_pages": 0}),
            "bad_field",
            "`max_pages`",
        ),
        ("tags", json!(["a;b"]), "bad_name", "the tag has a ;"),
        (
            "tags",
            json!((0..1001).map(|n| n.to_string()).collect::<Vec<_>>()),
            "too_many",
            "1001 tags",
        ),
        ("category", json!("a\u{0}b"), "bad_name", "control"),
    ] {
        let wanted = saying(&[("url", json!("https://example.com/")), (field, value)]);
        let error = specify(&wanted, |_| Ok(())).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn the_spelling_tells_a_sitemap() {
    for (address, kind) in [
        ("https://example.com/sitemap.xml", Kind::Sitemap),
        ("https://example.com/a/News-Sitemap-3.xml.gz?x=1", Kind::Sitemap),
        ("https://example.com/sitemap.txt", Kind::Sitemap),
        ("https://example.com/sitemap/", Kind::Feed),
        ("https://example.com/sitemap/feed.xml", Kind::Feed),
        ("https://example.com/rss", Kind::Feed),
        ("https://sitemap.xml/", Kind::Feed),
    ] {
        assert_eq!(guess_kind(&url::parse(address).unwrap()), kind, "{address}");
    }
}

#[test]
fn several_addresses_make_one_source() {
    let mut wanted = wanted(&[
        "https://news.example.com:8080/feed",
        " https://example.com/sitemap.xml ",
        "https://news.example.com:8080/feed",
    ]);
    wanted.said = vec![("category".into(), json!(" world "))];
    let source = specify(&wanted, |_| Ok(())).unwrap();
    assert_eq!(source.name, "news.example.com");
    assert_eq!(source.url, "https://news.example.com:8080/");
    assert_eq!(source.feed_urls, ["https://news.example.com:8080/feed"]);
    assert_eq!(source.sitemap_urls, ["https://example.com/sitemap.xml"]);
    assert_eq!((source.priority, source.category.as_deref()), (5, Some("world")));
    wanted.kind = Some(Kind::Sitemap);
    let source = specify(&wanted, |_| Ok(())).unwrap();
    assert_eq!((source.feed_urls.len(), source.sitemap_urls.len()), (0, 2));
}

#[test]
fn what_cannot_be_followed_is_refused_with_advice() {
    let good = wanted(&["https://example.com/feed"]);
    let ewma = Some(PollPolicy::Ewma);
    let polled =
        |interval: Option<u64>, policy: Option<PollPolicy>, min: Option<u64>, max: Option<u64>| {
            let span = |seconds: Option<u64>| seconds.map(Duration::from_secs);
            let (interval, min, max) = (span(interval), span(min), span(max));
            let said = [
                ("poll_interval", interval.map(|span| span.as_secs().to_string())),
                ("poll_policy", policy.map(|policy| policy.to_string())),
                ("min_interval", min.map(|span| span.as_secs().to_string())),
                ("max_interval", max.map(|span| span.as_secs().to_string())),
            ];
            let said = said.into_iter().map(|(name, value)| (name.to_owned(), json!(value)));
            Wanted { said: said.collect(), ..good.clone() }
        };
    let but =
        |name: &str, value: Value| Wanted { said: vec![(name.to_owned(), value)], ..good.clone() };
    let fixed = polled(Some(60), Some(PollPolicy::Fixed), None, None);
    assert!(specify(&fixed, |_| Ok(())).is_ok(), "that says the same twice");
    for (wanted, code, words) in [
        (wanted(&[]), "no_url", "give the URL"),
        (wanted(&["file:///etc/passwd"]), "url_scheme", "it is a file: address"),
        (wanted(&["https://ann:pw@example.com/"]), "url_credentials", "`https://***@example.com/`"),
        (wanted(&["example.com/feed"]), "url_malformed", "https:// in front"),
        (but("priority", json!(11)), "bad_priority", "choose 1 to 10"),
        (but("priority", json!(0)), "bad_priority", "choose 1 to 10"),
        (but("name", json!("  ")), "bad_name", "the name is empty"),
        (but("name", json!("a\u{1b}b")), "bad_name", "control"),
        (but("category", json!("x".repeat(101))), "bad_name", "the category"),
        (polled(Some(0), None, None, None), "bad_interval", "30m"),
        (polled(None, None, Some(0), None), "bad_interval", "30m"),
        (polled(Some(60), ewma, None, None), "bad_interval", "leave out the policy"),
        (polled(Some(60), None, None, Some(99)), "bad_interval", "leave out its limits"),
        (polled(None, None, Some(99), Some(60)), "bad_interval", "longer"),
    ] {
        let error = specify(&wanted, |_| Ok(())).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(!error.to_string().contains("pw@"), "{error}");
    }
}

#[test]
fn the_last_word_is_with_the_guard() {
    let refuse = |url: &Url| Err(format!("{} is private", url::host(url)));
    let error = specify(&wanted(&["http://10.0.0.1/feed"]), refuse).unwrap_err();
    assert_eq!(error.code(), "refused_address");
    let told = "`http://10.0.0.1/feed` cannot be followed: 10.0.0.1 is private";
    assert_eq!(error.to_string(), told);
}

proptest! {
    #[test]
    fn a_source_that_is_made_can_be_fetched_and_shown(urls in prop::collection::vec(any::<String>(), 0..3), name: Option<String>, home: Option<String>) {
        let said = name.map(|name| ("name".to_owned(), json!(name))).into_iter().chain(home.map(|home| ("url".to_owned(), json!(home))));
        let made = specify(&Wanted { urls, said: said.collect(), ..Wanted::default() }, |_| Ok(()));
        if let Ok(source) = made {
            prop_assert!(!source.name.is_empty() && !source.name.chars().any(char::is_control));
            prop_assert!(source.feed_urls.iter().chain(&source.sitemap_urls).all(|url| url::parse(url).is_ok()));
            prop_assert!(url::parse(&source.url).is_ok());
            prop_assert!(!source.feed_urls.is_empty() || !source.sitemap_urls.is_empty() || source.discover);
        }
    }
}
