//! Documents that were made to hurt, at a size that only linear work can do in the time of a test.
//!
//! `feedmill-bench hostile` measures the same at 100 MB.

use std::time::Instant;

use feedmill_formats::article::{self, Evidence};
use feedmill_formats::feed::{self, Limits};
use feedmill_formats::{opml, sitemap};

const SIZE: usize = 1_000_000;

fn repeated(start: &str, piece: &str) -> String {
    format!("{start}{}", piece.repeat(SIZE / piece.len()))
}

/// The code of the refusal, or how many entries there are.
fn outcome(document: &str, limits: &Limits) -> Result<usize, &'static str> {
    let read = feed::parse(document.as_bytes(), None, "https://example.com/", limits);
    read.map(|feed| feed.entries.len()).map_err(|error| error.code())
}

#[test]
fn a_document_that_is_too_large_is_not_looked_at() {
    let limits = Limits { bytes: SIZE / 2, ..Limits::default() };
    for piece in ["<a>", " a='b'", "&a;", "["] {
        assert_eq!(outcome(&repeated("<rss>", piece), &limits), Err("too_large"));
    }
    let list = "<outline>".repeat(33 << 17);
    assert_eq!(opml::parse(list.as_bytes()).unwrap_err().code(), "too_large");
    let limits = sitemap::Limits { bytes: 1_000, urls: 10 };
    let error = sitemap::parse(repeated("<urlset>", "<url>").as_bytes(), "", &limits).unwrap_err();
    assert_eq!(error.code(), "too_large");
}

#[test]
fn the_other_limits_hold_without_it() {
    let limits = Limits::default();
    for (start, piece, expected) in [
        ("<rss><channel>", "<a>", Err("too_deep")),
        ("<rss><channel><title>", "<b>", Err("too_deep")),
        ("{\"items\": ", "[", Err("too_deep")),
        ("{", "\"a\":1,", Err("not_a_feed")),
        ("{\"items\": [", "{},", Ok(limits.items)),
        ("{\"title\": \"x\", \"items\": [{\"tags\": [1", ",1", Ok(0)),
        ("<rss", " a='b'", Err("not_a_feed")),
        ("<rss ", "a=\"", Err("not_a_feed")),
        ("<!DOCTYPE r [<!ENTITY a '&b;&b;'>]><rss><channel><title>", "&a;", Ok(0)),
        ("<rss><channel><item><description><![CDATA[", "<p>x ", Err("too_deep")),
        ("<rss><channel><title>x</title><item><title>", "<a b='<!--", Ok(0)),
        ("<rss><channel><title>x</title><item><description><![CDATA[", " href=x ", Ok(0)),
        ("<rss><channel><title>x</title><item><description><![CDATA[", "'href=x", Ok(0)),
        ("<rss><channel>", "<item><title>x</title></item>", Ok(limits.items)),
        ("<rss><channel><title>x</title>", "</a>", Ok(0)),
    ] {
        assert_eq!(outcome(&repeated(start, piece), &limits), expected, "{start} {piece}");
    }
}

#[test]
fn places_of_many_entries_are_found_in_linear_time() {
    // Broken bytes in front, so that they have to be counted.
    let mut document =
        b"<rss><channel><title>\xd0\xb9\xd0\xb9\xd0\xb9\xd0\xb9\xff</title>".to_vec();
    let items = 100_000;
    document.extend("<item><title>x</title></item>".repeat(items).bytes());
    let limits = Limits { items, ..Limits::default() };
    let feed = feed::parse(&document, None, "", &limits).unwrap();
    let last = feed.entries.last().map(|entry| entry.raw.clone()).unwrap();
    assert_eq!(document.get(last), Some(&b"<item><title>x</title></item>"[..]));
}

#[test]
fn html_cannot_be_made_to_hurt_either() {
    for piece in [
        " href=x ",
        "'href=x",
        "<a href=\"",
        "<!--",
        "<script>",
        "&#x;",
        "</style",
        "a, b & c and d; ",
    ] {
        let inside = piece.repeat(SIZE / 4 / piece.len());
        let item = format!(
            "<title><![CDATA[{inside}]]></title><dc:creator><![CDATA[{inside}]]></dc:creator>"
        );
        let text = format!("<description><![CDATA[{inside}]]></description>");
        let document =
            format!("<rss version='2.0'><channel><item>{item}{text}</item></channel></rss>");
        assert_eq!(outcome(&document, &Limits::default()), Ok(1), "{piece}");
    }
}

#[test]
fn one_text_or_one_tag_cannot_be_endless() {
    let limits = Limits { text: 1_000, ..Limits::default() };
    let document = repeated("<rss><channel><title>", "x") + "</title></channel></rss>";
    let feed = feed::parse(document.as_bytes(), None, "", &limits).unwrap();
    assert_eq!(feed.title.map(|title| title.len()), Some(1_000));
    let document = repeated("<rss", " a='b'") + "><channel><title>x</title></channel></rss>";
    let feed = feed::parse(document.as_bytes(), None, "", &limits).unwrap();
    assert_eq!(feed.title.as_deref(), Some("x"));
}

/// Seconds of work of this thread, where the system tells them: a busy machine is no slow page.
fn worked(began: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = told.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok());
    spent.map_or_else(|| began.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

/// The code of the refusal, or `article`.
fn page(html: &str) -> &'static str {
    let read = article::extract(html, "https://example.com/", &Evidence::default());
    read.map_or_else(|error| error.code(), |_| "article")
}

#[test]
fn pages_beyond_all_bounds_are_refused_at_once() {
    let began = Instant::now();
    for html in [
        "<div>".repeat(100_000),
        "<b><p>".repeat(100_000),
        "<table><tr><td>".repeat(100_000),
        "<svg><g>".repeat(100_000),
        format!("<p>{}", "Words of a text. ".repeat(30_000_000 / 17)),
        "<a href=/x>y</a>".repeat(1_000_000),
        format!("<p{}>", " a=b".repeat(1_000_000)),
    ] {
        assert_eq!(page(&html), "too_large", "{}", html.get(..40).unwrap_or_default());
    }
    assert!(worked(began) < 20.0, "{}", worked(began));
}

#[test]
fn pages_within_the_bounds_are_read_in_linear_time() {
    let sentence = "The harbour of Westport was closed on Tuesday, the port authority said. ";
    let began = Instant::now();
    for (start, piece, expected) in [
        ("<p>", sentence, "article"),
        ("<article>", &format!("<p>{sentence}</p>"), "article"),
        ("<article>", "<p>x <a href=/>y</a> z.</p>", "article"),
        ("<article><p>x", "<a href=/x>y</a> ", "article"),
        ("<p>", "&amp;&lt;&#x41;", "article"),
        ("<p>", "<!-- -->", "empty"),
        ("<script>", "{\"a\":[", "empty"),
        ("<script type=application/ld+json>", "[{\"@graph\":", "empty"),
        ("<script type=application/json>", "{\"body\":[", "empty"),
        ("<title>", "a | b - ", "empty"),
        ("<h1>", "Jane Doe, ", "article"),
    ] {
        let html = format!("{start}{}", piece.repeat(SIZE / 4 / piece.len()));
        assert_eq!(page(&html), expected, "{start}{piece}");
    }
    assert!(worked(began) < 20.0, "{}", worked(began));
}
