//! What is fuzzed: every format of the house, each with what must hold whatever the bytes.
//!
//! The fuzzer's targets and the tests of `crates/formats` share this file, so that an input that was
//! found by one is checked by the other.

use std::hint::black_box;

use feedmill_formats::article::{self, Evidence};
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
pub(crate) const TARGETS: [Target; 9] = [
    ("feed", feed),
    ("sitemap", sitemap),
    ("opml", opml),
    ("robots", robots),
    ("url", url),
    ("date", date),
    ("charset", charset),
    ("warc", warc),
    ("article", article),
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
    for record in warc::scan(data, 1 << 20).take(100) {
        if record.is_err() {
            break;
        }
    }
    let mut end = 0;
    for piece in warc::pieces(std::io::Cursor::new(data), 1 << 20) {
        assert!(piece.is_ok(), "memory can be read");
        let Ok(warc::Piece::Record(member)) = piece else { continue };
        assert!(member.offset >= end);
        end = member.offset + member.length;
    }
    assert!(end <= data.len() as u64);
}

/// Elements that stand in clean HTML.
const HARMLESS: [&str; 27] = [
    "p",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "blockquote",
    "pre",
    "table",
    "tr",
    "td",
    "th",
    "figcaption",
    "img",
    "a",
    "strong",
    "em",
    "code",
    "sub",
    "sup",
    "br",
];

fn article(data: &[u8]) {
    let page = charset::decode(data, None, Markup::Html).text;
    let address = "https://example.com/news/a?b=c";
    let read = || article::extract(&page, address, &Evidence::default());
    let article = match read() {
        Ok(article) => article,
        Err(error) => return assert!(!error.code().is_empty() && read().err() == Some(error)),
    };
    assert_eq!(read().as_ref(), Ok(&article), "the same page gives the same article");
    assert!(article.text.chars().count() <= page.chars().count(), "text comes from the page");
    assert_eq!(article.text.trim(), article.text);
    assert!((0.0..=1.0).contains(&article.confidence));
    let addresses = [&article.canonical_url, &article.lead_image];
    assert!(addresses.into_iter().flatten().all(|address| is_web(address)));
    assert_harmless(&article.html);
    assert_web_only(&article::markdown(&article.html, Some(address)));
}

fn is_web(address: &str) -> bool {
    address.starts_with("https://") || address.starts_with("http://")
}

/// Every `<` opens or closes one of a few elements, whose only attributes are an absolute address
/// and a text. So there is no room for a script, a style or a handler.
fn assert_harmless(html: &str) {
    for piece in html.split('<').skip(1) {
        let Some((tag, _)) = piece.split_once('>') else {
            panic!("a tag that never ends: {piece}")
        };
        let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(HARMLESS.contains(&name.trim_start_matches('/')), "{tag}");
        while let Some((attribute, after)) = rest.split_once("=\"") {
            let Some((value, after)) = after.split_once('"') else { panic!("{tag}") };
            match attribute.trim() {
                "href" | "src" => assert!(is_web(value), "{tag}"),
                "alt" => {}
                _ => panic!("{tag}"),
            }
            rest = after;
        }
        assert_eq!(rest, "", "{tag}");
    }
}

/// Outside of code every `<` is escaped, and every link and picture is an absolute address.
fn assert_web_only(markdown: &str) {
    for line in prose(markdown) {
        let mut escaped = false;
        for (at, c) in line.char_indices() {
            let rest = line.get(at..).unwrap_or_default();
            if !escaped {
                assert!(c != '<', "{line}");
                assert!(rest.strip_prefix("](").is_none_or(is_web), "{line}");
            }
            escaped = c == '\\' && !escaped;
        }
    }
}

/// The lines of Markdown without its code.
fn prose(markdown: &str) -> Vec<String> {
    let (mut fence, mut lines) = (None, Vec::new());
    for line in markdown.lines() {
        // Quotes and items can stand in each other.
        let bare = line.trim_start_matches(|c: char| c.is_numeric() || ">-. ".contains(c));
        let ticks = ticks(bare);
        match fence {
            Some(open) if ticks == open && bare.len() == ticks => fence = None,
            Some(_) => {}
            None if ticks >= 3 && bare.len() == ticks => fence = Some(ticks),
            None => lines.push(without_spans(line)),
        }
    }
    lines
}

/// A line without its code, which stands between equal runs of backticks. A backslash before the
/// first run takes one backtick out of it; within the code it means nothing.
fn without_spans(line: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(at) = rest.find(['`', '\\']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let ticks = ticks(from);
        let end = if ticks == 0 {
            from.chars().take(2).map(char::len_utf8).sum()
        } else {
            ticks + from.get(ticks..).and_then(|code| closing(code, ticks)).unwrap_or_default()
        };
        let (mark, after) = from.split_at(end);
        if end == ticks || ticks == 0 {
            out.push_str(mark);
        }
        rest = after;
    }
    out + rest
}

/// Where the code ends that a run of this many backticks opened, its closing run included.
fn closing(code: &str, open: usize) -> Option<usize> {
    let mut at = 0;
    loop {
        at += code.get(at..)?.find('`')?;
        let run = ticks(code.get(at..)?);
        at += run;
        if run == open {
            return Some(at);
        }
    }
}

/// How many backticks a text starts with.
fn ticks(text: &str) -> usize {
    text.len() - text.trim_start_matches('`').len()
}
