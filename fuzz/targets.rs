//! What is fuzzed: every format of the house, each with what must hold whatever the bytes.
//!
//! The fuzzer's targets and the tests of `crates/formats` share this file, so that an input that was
//! found by one is checked by the other.

use std::hint::black_box;

use feedmill_formats::charset::{self, Markup};
use feedmill_formats::date;
use feedmill_formats::feed::{self, Limits};
use feedmill_formats::opml;
use feedmill_formats::robots::Robots;
use feedmill_formats::sitemap;
use feedmill_formats::url::{self as web, KeyRules};
use feedmill_formats::warc;

/// A target: its name, and what it does with an input.
type Target = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const TARGETS: [Target; 8] = [
    ("feed", feed),
    ("sitemap", sitemap),
    ("opml", opml),
    ("robots", robots),
    ("url", url),
    ("date", date),
    ("charset", charset),
    ("warc", warc),
];

/// Runs the target of this name.
pub(crate) fn run(name: &str, data: &[u8]) {
    for (_, target) in TARGETS.iter().filter(|(known, _)| *known == name) {
        target(data);
    }
}

fn feed(data: &[u8]) {
    let base = "https://example.com/feed.xml";
    let limits = Limits { depth: 50, items: 100, text: 10_000, ..Limits::default() };
    match feed::parse(data, Some("application/rss+xml"), base, &limits) {
        Ok(feed) => {
            assert!(feed.entries.len() <= limits.items);
            for entry in &feed.entries {
                assert!(entry.raw.start <= entry.raw.end && entry.raw.end <= data.len());
            }
            assert!(feed::diff(&feed, &feed).iter().all(|found| !found.fields.is_empty()));
        }
        Err(error) => assert!(!error.code().is_empty()),
    }
}

fn sitemap(data: &[u8]) {
    let limits = sitemap::Limits { bytes: 1 << 20, urls: 100 };
    if let Ok(sitemap) = sitemap::parse(data, "https://example.com/sitemap.xml", &limits) {
        assert!(sitemap.urls.len() <= limits.urls && sitemap.children.len() <= limits.urls);
        assert!(sitemap.urls.iter().all(|page| page.loc.len() >= "http://".len()));
    }
}

fn opml(data: &[u8]) {
    if let Ok(list) = opml::parse(data) {
        // What is written can be read, and loses no feed whose address can be written.
        let again = opml::parse(list.write().as_bytes());
        assert!(again.is_ok_and(|again| again.feeds.len() <= list.feeds.len()));
    }
}

fn robots(data: &[u8]) {
    let robots = Robots::parse(data);
    black_box(robots.allows("Feedmill", "/a/b?c=d"));
    black_box(robots.crawl_delay("Feedmill"));
    assert!(robots.sitemaps().len() <= data.len());
}

fn url(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let rules = KeyRules::default();
    if let Ok(url) = web::parse(&text) {
        let key = web::key(&url, &rules);
        // A key is an address, and its own key.
        let again = web::parse(&key).map(|url| web::key(&url, &rules));
        assert_eq!(again.as_deref(), Ok(key.as_str()), "{text}");
        black_box((web::host(&url), web::origin(&url), web::robots_url(&url)));
        black_box((web::path_and_query(&url), web::join(&url, &text).is_ok()));
    }
    black_box(web::without_credentials(&text));
}

fn date(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(at) = date::parse(&text) {
        assert_eq!(date::parse(&at.to_string()), Some(at), "{text}");
    }
    black_box(date::http_date(&text));
}

fn charset(data: &[u8]) {
    for markup in [Markup::Xml, Markup::Html] {
        for header in [None, Some("text/html; charset=big5")] {
            assert!(charset::decode(data, header, markup).text.len() <= data.len() * 3);
        }
    }
}

fn warc(data: &[u8]) {
    if let Ok(record) = warc::read_member(data, 1 << 20) {
        black_box((record.http().is_some(), record.intact()));
    }
    for record in warc::scan(data).take(100) {
        if record.is_err() {
            break;
        }
    }
    let mut end = 0;
    for piece in warc::pieces(std::io::Cursor::new(data)) {
        assert!(piece.is_ok(), "memory can be read");
        let Ok(warc::Piece::Record(member)) = piece else { continue };
        assert!(member.offset >= end);
        end = member.offset + member.length;
    }
    assert!(end <= data.len() as u64);
}
