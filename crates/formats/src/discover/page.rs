//! What a page and the head of its answer name.

use html5ever::{LocalName, local_name};

use super::platform::by_software;
use super::{Candidate, Form, How, MOST};
use crate::article::tree::{Id, Tree};
use crate::url::{self as web, Url};

/// Links of a page that look like feeds, at the most.
const ANCHORS: usize = 10;
/// The most of a name that is kept, in bytes.
const NAME: usize = 200;

/// What a page names: in its head, by what made it, and in its links.
#[must_use]
pub fn in_page(html: &str, page: &Url) -> Vec<Candidate> {
    let Ok(tree) = Tree::read(html) else { return Vec::new() };
    let (mut base, mut generator) = (None, String::new());
    let (mut named, mut linked) = (Vec::new(), Vec::new());
    let mut at = Some(0);
    while let Some(id) = at {
        match tree.name(id) {
            Some(&local_name!("base")) if base.is_none() => {
                base = web::join(page, attr(&tree, id, &local_name!("href"))).ok();
            }
            Some(&local_name!("meta"))
                if attr(&tree, id, &local_name!("name")).eq_ignore_ascii_case("generator") =>
            {
                attr(&tree, id, &local_name!("content")).clone_into(&mut generator);
            }
            Some(&local_name!("link")) if named.len() < MOST => {
                let (rel, kind) =
                    (attr(&tree, id, &local_name!("rel")), attr(&tree, id, &local_name!("type")));
                let title =
                    Some(attr(&tree, id, &local_name!("title"))).filter(|title| !title.is_empty());
                if let Some(form) = relation(rel, kind) {
                    named.push((attr(&tree, id, &local_name!("href")), form, title));
                }
            }
            Some(&local_name!("a") | &local_name!("area")) if linked.len() < ANCHORS => {
                let href = attr(&tree, id, &local_name!("href"));
                if !href.is_empty() && looks_like_feed(&tree, id, href) {
                    linked.push(href);
                }
            }
            _ => {}
        }
        at = tree.following(id, 0, true);
    }
    let base = base.as_ref().unwrap_or(page);
    let absolute = |href: &str, how, form| {
        let mut url = web::join(base, href).ok()?;
        url.set_fragment(None);
        Some(Candidate::new(url, how, form)).filter(|_| !href.is_empty())
    };
    let mut found: Vec<Candidate> = Vec::new();
    for (href, form, title) in named {
        let title = title.map(|title| short(title).to_owned());
        found
            .extend(absolute(href, How::Alternate, form).map(|named| Candidate { title, ..named }));
    }
    found.extend(by_software(page, &generator, html));
    let linked = linked.into_iter().filter_map(|href| absolute(href, How::Anchor, Form::Feed));
    found.extend(linked.filter(|candidate| is_near(candidate, page)));
    found
}

/// What the `Link` headers of an answer name (RFC 8288).
#[must_use]
pub fn in_headers<'a>(links: impl IntoIterator<Item = &'a str>, page: &Url) -> Vec<Candidate> {
    let mut found = Vec::new();
    for link in links.into_iter().flat_map(split_links).take(MOST) {
        let Some((target, parameters)) =
            link.trim().strip_prefix('<').and_then(|it| it.split_once('>'))
        else {
            continue;
        };
        let parameter = |wanted: &str| {
            let mut pairs = parameters.split(';').filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
            found.map_or("", |(_, value)| value.trim().trim_matches('"'))
        };
        let form = relation(parameter("rel"), parameter("type"));
        let url = form.and_then(|form| Some((web::join(page, target).ok()?, form)));
        found.extend(url.map(|(url, form)| Candidate::new(url, How::LinkHeader, form)));
    }
    found
}

/// The links of a header, which commas part; those in addresses do not.
fn split_links(header: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    header.split(move |letter| {
        inside = if letter == '<' { true } else { inside && letter != '>' };
        letter == ',' && !inside
    })
}

/// What a link is by its relation and type, if it is one of ours.
fn relation(rel: &str, kind: &str) -> Option<Form> {
    const TYPES: [&str; 6] = [
        "application/rss+xml",
        "application/atom+xml",
        "application/feed+json",
        "application/rdf+xml",
        "text/xml",
        "application/xml",
    ];
    let has = |wanted: &str| rel.split_ascii_whitespace().any(|it| it.eq_ignore_ascii_case(wanted));
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if has("sitemap") {
        return Some(Form::Sitemap);
    }
    // JSON alone says little: the API of WordPress is named like this.
    let is_feed = TYPES.contains(&kind.as_str());
    ((has("alternate") && is_feed) || has("feed")).then_some(Form::Feed)
}

/// Whether a link of a page is a feed by its address, or by its address and words.
fn looks_like_feed(tree: &Tree, id: Id, href: &str) -> bool {
    const FILES: [&str; 6] = ["feed", "rss", "atom", "rss2", "feeds", "index.rdf"];
    const ENDS: [&str; 3] = [".rss", ".atom", ".rdf"];
    let lower = href.to_ascii_lowercase();
    let without = lower.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let file = without.rsplit('/').next().unwrap_or_default();
    if FILES.contains(&file) || ENDS.iter().any(|end| file.ends_with(end)) {
        return true;
    }
    let is_plain = file.ends_with(".xml") || file.ends_with(".json");
    let speaks = |words: &str| ["rss", "feed", "atom"].iter().any(|word| words.contains(word));
    let names_query = lower.split_once('?').is_some_and(|(_, query)| query.contains("feed="));
    names_query
        || (is_plain && (speaks(&lower) || speaks(&tree.text(id, 100, true).to_ascii_lowercase())))
}

/// Whether a link leads to the page's own site, or to where feeds are served for others.
fn is_near(candidate: &Candidate, page: &Url) -> bool {
    let Ok(url) = web::parse(&candidate.url) else { return false };
    let (host, own) = (web::host(&url), web::host(page));
    web::site(&host) == web::site(&own)
        || ["feeds.", "rss.", "feedproxy."].iter().any(|start| host.starts_with(start))
        || host.contains("feedburner")
}

fn attr<'a>(tree: &'a Tree, id: Id, name: &LocalName) -> &'a str {
    tree.attr(id, name).map(str::trim).unwrap_or_default()
}

fn short(name: &str) -> &str {
    let mut end = NAME.min(name.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Url {
        web::parse("https://a.example/blog/").unwrap()
    }

    fn told(found: &[Candidate]) -> Vec<(&str, How)> {
        found.iter().map(|candidate| (candidate.url.as_str(), candidate.how)).collect()
    }

    #[test]
    fn a_head_names_feeds_relative_to_its_base() {
        let html = r#"<html><head><base href="https://b.example/x/">
            <link rel="alternate" type="application/rss+xml; charset=utf-8" title="News" href="rss">
            <LINK REL="Alternate" TYPE="application/ATOM+xml" href="/atom">
            <link rel="alternate" type="application/feed+json" href="https://c.example/f.json#x">
            <link rel="alternate" hreflang="de" href="/de"> <link rel="stylesheet" href="/feed">
            <link rel="alternate" type="application/json" href="/wp-json/1">
            <link rel="sitemap" type="application/xml" href="/sitemap.xml">
            <link rel="alternate" type="application/rss+xml" href="">
            </head></html>"#;
        let found = in_page(html, &page());
        assert_eq!(
            told(&found),
            [
                ("https://b.example/x/rss", How::Alternate),
                ("https://b.example/atom", How::Alternate),
                ("https://c.example/f.json", How::Alternate),
                ("https://b.example/sitemap.xml", How::Alternate),
            ]
        );
        assert_eq!(found[0].title.as_deref(), Some("News"));
        assert_eq!(found[3].form, Form::Sitemap);
    }

    #[test]
    fn links_that_look_like_feeds_of_the_site_count() {
        let html = r#"<body><a href="/news/feed/">all</a><a href="/x.xml">Our RSS</a>
            <a href="/x.xml">map</a><a href="https://other.example/feed">theirs</a>
            <a href="https://feeds.feedburner.com/a.rss">burned</a><a href="/about">feed</a>
            <a href="/?feed=rss2">old</a><a href="/story-feeds-the-hungry">no</a></body>"#;
        assert_eq!(
            told(&in_page(html, &page())),
            [
                ("https://a.example/news/feed/", How::Anchor),
                ("https://a.example/x.xml", How::Anchor),
                ("https://feeds.feedburner.com/a.rss", How::Anchor),
                ("https://a.example/?feed=rss2", How::Anchor),
            ]
        );
    }

    #[test]
    fn link_headers_are_read_as_lists() {
        let headers = [
            r#"</a,b>; rel="alternate"; type="application/rss+xml", <https://x.example/>; rel=preload"#,
            r#"<feed.atom>; type="application/atom+xml"; REL=alternate; title="A""#,
            "nonsense, <>, <x",
        ];
        assert_eq!(
            told(&in_headers(headers, &page())),
            [
                ("https://a.example/a,b", How::LinkHeader),
                ("https://a.example/blog/feed.atom", How::LinkHeader),
            ]
        );
    }

    #[test]
    fn no_page_names_more_than_its_share() {
        let link = r#"<link rel="alternate" type="application/rss+xml" href="/f">"#;
        let anchor = r#"<a href="/feed">x</a>"#;
        let html = format!("{}{}", link.repeat(5_000), anchor.repeat(5_000));
        assert!(in_page(&html, &page()).len() <= MOST + ANCHORS);
        assert!(in_page(&"<div>".repeat(100_000), &page()).is_empty());
    }
}
