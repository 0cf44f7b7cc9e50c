//! Sitemaps and sitemap indexes, as XML or as a list of addresses, plain or gzipped.
//!
//! A broken entry costs that entry. Nothing external is loaded, and every size has a limit.

use std::borrow::Cow;

use serde::Serialize;

use crate::charset::{self, Markup};
use crate::date::{self, Ts};
use crate::decode::{self, DecodeError};
use crate::xml::{Node, Scanner, Tag, local, text};

/// The most that is taken from one sitemap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the document once inflated.
    pub bytes: usize,
    /// Addresses; those beyond are left out.
    pub urls: usize,
}

impl Default for Limits {
    /// What the protocol allows.
    fn default() -> Self {
        Self { bytes: 50 << 20, urls: 50_000 }
    }
}

/// Why there is no sitemap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SitemapError {
    /// There is nothing in the body.
    #[error("body is empty")]
    EmptyBody,
    /// It is a web page.
    #[error("body is an HTML page, not a sitemap")]
    HtmlNotSitemap,
    /// It is something else.
    #[error("body is not a sitemap")]
    NotASitemap,
    /// It has too many bytes.
    #[error("sitemap is larger than {0} bytes")]
    TooLarge(usize),
    /// It was meant to be a sitemap and cannot be read.
    #[error("malformed sitemap: {0}")]
    Malformed(String),
}

impl SitemapError {
    /// The stable name of this failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::EmptyBody => "empty_body",
            Self::HtmlNotSitemap => "html_not_sitemap",
            Self::NotASitemap => "not_a_sitemap",
            Self::TooLarge(_) => "too_large",
            Self::Malformed(_) => "malformed",
        }
    }
}

/// Something that was wrong and did not prevent reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The stable name of what was wrong.
    pub code: &'static str,
    /// What it was about, in short.
    pub detail: String,
}

/// A sitemap; an index has children only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sitemap {
    /// Other sitemaps that an index names.
    pub children: Vec<Child>,
    /// Pages.
    pub urls: Vec<SitemapUrl>,
    /// What was wrong with it.
    pub warnings: Vec<Warning>,
}

/// A sitemap that an index names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Child {
    /// Where it is, as written.
    pub loc: String,
    /// When it was last changed.
    pub lastmod: Option<Ts>,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SitemapUrl {
    /// Where it is, as written.
    pub loc: String,
    /// When it was last changed.
    pub lastmod: Option<Ts>,
    /// What a news sitemap says of it.
    pub news: Option<News>,
}

/// What a news sitemap says of an article.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct News {
    /// Its title.
    pub title: Option<String>,
    /// When it was published.
    pub published: Option<Ts>,
    /// The publication it appeared in.
    pub publication: Option<String>,
    /// The language of that publication.
    pub language: Option<String>,
}

/// Reads a sitemap or a sitemap index.
///
/// # Errors
/// When the body holds no sitemap, or inflates beyond the limit.
pub fn parse(body: &[u8], limits: &Limits) -> Result<Sitemap, SitemapError> {
    let body = inflated(body, limits)?;
    let decoded = charset::decode(&body, None, Markup::Xml);
    let start = decoded.text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if start.is_empty() {
        return Err(SitemapError::EmptyBody);
    }
    if start.starts_with('<') { read_xml(start, limits) } else { read_lines(start, limits) }
}

fn inflated<'a>(body: &'a [u8], limits: &Limits) -> Result<Cow<'a, [u8]>, SitemapError> {
    let coding = decode::is_gzip(body).then_some("gzip");
    decode::capped(body, coding, limits.bytes).map_err(|error| match error {
        DecodeError::TooLarge { limit } => SitemapError::TooLarge(limit),
        error => SitemapError::Malformed(error.to_string()),
    })
}

/// One address a line; a text without any is no sitemap.
fn read_lines(text: &str, limits: &Limits) -> Result<Sitemap, SitemapError> {
    let mut sitemap = Sitemap::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if sitemap.is_full(limits) {
            break;
        }
        if is_web(line) {
            sitemap.urls.push(SitemapUrl { loc: line.to_owned(), ..SitemapUrl::default() });
        } else {
            sitemap.warn("bad_url", line);
        }
    }
    if sitemap.urls.is_empty() { Err(SitemapError::NotASitemap) } else { Ok(sitemap) }
}

fn read_xml(document: &str, limits: &Limits) -> Result<Sitemap, SitemapError> {
    let mut scanner = Scanner::new(document, 20);
    let root = root(&mut scanner)?;
    let item = if root == "sitemapindex" { "sitemap" } else { "url" };
    let mut sitemap = Sitemap::default();
    let mut page: Option<SitemapUrl> = None;
    // Text directly in an item: its address, where the element for it was forgotten.
    let mut stray = String::new();
    let mut is_closed = false;
    loop {
        match scanner.next() {
            Node::Open(tag) if tag.local() == item => {
                // The end tag of the one before may have been forgotten.
                sitemap.add(page.replace(SitemapUrl::default()), &mut stray, root);
                if tag.empty {
                    page = None;
                }
            }
            Node::Open(tag) => {
                if let Some(page) = &mut page {
                    let text = text_of(&mut scanner, &tag);
                    sitemap.field(page, &tag, text);
                }
            }
            Node::Close(name) if local(name) == item => sitemap.add(page.take(), &mut stray, root),
            Node::Close(name) => is_closed |= local(name) == root,
            Node::Text(text) if page.is_some() => stray.push_str(&text),
            Node::Text(_) => {}
            Node::End => break,
        }
        if sitemap.is_full(limits) {
            return Ok(sitemap);
        }
    }
    if !is_closed {
        sitemap.warn("truncated", root);
    }
    Ok(sitemap)
}

/// The kind of the document, by its root element.
fn root(scanner: &mut Scanner<'_>) -> Result<&'static str, SitemapError> {
    loop {
        match scanner.next() {
            Node::Open(tag) => {
                return match tag.local().to_ascii_lowercase().as_str() {
                    "urlset" => Ok("urlset"),
                    "sitemapindex" => Ok("sitemapindex"),
                    "html" | "head" | "body" => Err(SitemapError::HtmlNotSitemap),
                    _ => Err(SitemapError::NotASitemap),
                };
            }
            Node::Text(_) | Node::Close(_) => {}
            Node::End => return Err(SitemapError::NotASitemap),
        }
    }
}

/// The text directly in an element; elements that hold others, as `news:news`, have none.
fn text_of(scanner: &mut Scanner<'_>, tag: &Tag<'_>) -> Option<String> {
    let mut text = String::new();
    if tag.empty {
        return None;
    }
    loop {
        let at = scanner.position();
        match scanner.next() {
            Node::Text(more) => text.push_str(&more),
            Node::Close(name) if name == tag.name => break,
            Node::Open(_) | Node::Close(_) => {
                scanner.go_to(at);
                break;
            }
            Node::End => break,
        }
    }
    let text = text::one_line(&text);
    (!text.is_empty()).then_some(text)
}

impl Sitemap {
    fn field(&mut self, page: &mut SitemapUrl, tag: &Tag<'_>, text: Option<String>) {
        let Some(text) = text else { return };
        // Images and videos have locations, titles and dates of their own.
        if tag.name.starts_with("image:") || tag.name.starts_with("video:") {
            return;
        }
        match &*tag.kind() {
            "loc" => page.loc = text,
            "lastmod" => page.lastmod = self.date(&text),
            "publication_date" => news(page).published = self.date(&text),
            "title" => news(page).title = Some(text::plain(&text)),
            "name" => news(page).publication = Some(text::plain(&text)),
            "language" => news(page).language = Some(text),
            _ => {}
        }
    }

    fn date(&mut self, text: &str) -> Option<Ts> {
        let at = date::parse(text);
        if at.is_none() {
            self.warn("bad_date", text);
        }
        at
    }

    /// Takes what was read of an item; one without an address is left out.
    fn add(&mut self, page: Option<SitemapUrl>, stray: &mut String, root: &str) {
        let stray = std::mem::take(stray);
        let Some(mut page) = page else { return };
        if page.loc.is_empty() {
            page.loc = text::one_line(&stray);
        }
        if !is_web(&page.loc) {
            self.warn("bad_url", &page.loc);
        } else if root == "sitemapindex" {
            self.children.push(Child { loc: page.loc, lastmod: page.lastmod });
        } else {
            self.urls.push(page);
        }
    }

    fn is_full(&mut self, limits: &Limits) -> bool {
        let full = self.urls.len().max(self.children.len()) >= limits.urls;
        if full {
            self.warn("too_many_urls", &limits.urls.to_string());
        }
        full
    }

    fn warn(&mut self, code: &'static str, detail: &str) {
        const MOST: usize = 50;
        if self.warnings.len() < MOST {
            self.warnings.push(Warning { code, detail: detail.chars().take(100).collect() });
        }
    }
}

fn news(page: &mut SitemapUrl) -> &mut News {
    page.news.get_or_insert_default()
}

fn is_web(address: &str) -> bool {
    let lower = address.get(..8).unwrap_or(address).to_ascii_lowercase();
    lower.starts_with("http://") || lower.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn read(document: &str) -> Sitemap {
        parse(document.as_bytes(), &Limits::default()).unwrap()
    }

    fn code(document: &[u8]) -> &'static str {
        parse(document, &Limits { bytes: 10_000, urls: 10 }).unwrap_err().code()
    }

    const NEWS: &str = "<?xml version='1.0'?>\n<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>
        <url><loc> https://example.com/a?b=1&amp;c=2 </loc><lastmod>2024-05-01T10:00:00+02:00</lastmod>
          <image:image><image:loc>https://example.com/a.jpg</image:loc></image:image>
          <news:news><news:publication><news:name>The <![CDATA[Example]]></news:name>
            <news:language>en</news:language></news:publication>
            <news:publication_date>2024-05-01</news:publication_date>
            <news:title>Cats &amp; dogs</news:title></news:news></url>
        <url><loc>https://example.com/b</loc><lastmod>yesterday</lastmod><priority>0.5</priority></url>
        <url><loc>/relative</loc></url><url/></urlset>";

    #[test]
    fn pages_come_with_their_news() {
        let sitemap = read(NEWS);
        let [first, second] = sitemap.urls.as_slice() else { panic!("{:?}", sitemap.urls) };
        assert_eq!(first.loc, "https://example.com/a?b=1&c=2");
        assert_eq!(first.lastmod.unwrap().to_string(), "2024-05-01T08:00:00Z");
        let news = first.news.as_ref().unwrap();
        assert_eq!(news.title.as_deref(), Some("Cats & dogs"));
        assert_eq!(news.publication.as_deref(), Some("The Example"));
        assert_eq!(news.language.as_deref(), Some("en"));
        assert_eq!(news.published.unwrap().day(), "2024-05-01");
        assert_eq!((second.loc.as_str(), second.lastmod), ("https://example.com/b", None));
        let codes: Vec<_> = sitemap.warnings.iter().map(|warning| warning.code).collect();
        assert_eq!(codes, ["bad_date", "bad_url"]);
    }

    #[test]
    fn an_index_has_children_only() {
        let sitemap = read(
            "<sitemapindex><sitemap><loc>https://example.com/1.xml</loc>\
             <lastmod>2024-05-01</lastmod></sitemap><sitemap><loc>https://example.com/2.xml.gz</loc>\
             </sitemap></sitemapindex>",
        );
        assert!(sitemap.urls.is_empty());
        let locs: Vec<_> = sitemap.children.iter().map(|child| child.loc.as_str()).collect();
        assert_eq!(locs, ["https://example.com/1.xml", "https://example.com/2.xml.gz"]);
        assert!(sitemap.children[0].lastmod.is_some());
    }

    #[test]
    fn an_address_may_stand_in_the_item_itself() {
        let sitemap = read(
            "<sm:sitemapindex><sm:sitemap>\n https://example.com/?a=1&amp;b=2 \n</sm:sitemap>\
             </sm:sitemapindex>",
        );
        assert_eq!(sitemap.children[0].loc, "https://example.com/?a=1&b=2");
    }

    #[test]
    fn a_list_of_addresses_is_a_sitemap() {
        let sitemap =
            read("\u{feff}https://example.com/a\r\n\r\n  HTTPS://example.com/b\nnonsense\n");
        assert_eq!(sitemap.urls.len(), 2);
        assert_eq!(sitemap.warnings[0].code, "bad_url");
    }

    #[test]
    fn a_gzipped_body_is_inflated_up_to_the_limit() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(NEWS.as_bytes()).unwrap();
        let body = encoder.finish().unwrap();
        assert_eq!(parse(&body, &Limits::default()).unwrap(), read(NEWS));
        let small = Limits { bytes: 100, urls: 10 };
        assert_eq!(parse(&body, &small).unwrap_err().code(), "too_large");
        assert_eq!(code(&body[..50]), "malformed");
    }

    #[test]
    fn a_sitemap_that_is_cut_off_keeps_its_whole_entries() {
        let sitemap =
            read("<urlset><url><loc>https://example.com/a</loc></url><url><loc>https://exam");
        assert_eq!((sitemap.urls.len(), sitemap.warnings[0].code), (1, "truncated"));
    }

    #[test]
    fn addresses_beyond_the_limit_are_left_out() {
        let body = "<urlset>".to_owned() + &"<url><loc>https://example.com/</loc></url>".repeat(9);
        let sitemap = parse(body.as_bytes(), &Limits { bytes: 10_000, urls: 3 }).unwrap();
        assert_eq!((sitemap.urls.len(), sitemap.warnings[0].code), (3, "too_many_urls"));
    }

    #[test]
    fn what_is_no_sitemap_has_a_code() {
        for (body, expected) in [
            (" \n", "empty_body"),
            ("<!DOCTYPE html><html><body>404</body></html>", "html_not_sitemap"),
            ("<rss version='2.0'><channel/></rss>", "not_a_sitemap"),
            ("nothing here", "not_a_sitemap"),
            ("{\"urls\": []}", "not_a_sitemap"),
        ] {
            assert_eq!(code(body.as_bytes()), expected, "{body}");
        }
        assert_eq!(code(&[b' '; 20_000]), "too_large");
    }

    proptest! {
        #[test]
        fn any_bytes_end_well(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(sitemap) = parse(&bytes, &Limits::default()) {
                prop_assert!(sitemap.urls.len() <= bytes.len());
            }
        }

        #[test]
        fn any_pieces_of_a_sitemap_end_well(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "<urlset>", "</urlset>", "<url>", "</url>", "<loc>", "</loc>", "<lastmod>", "<url/>",
                "https://example.com/", "&amp;", "<![CDATA[", "]]>", "<news:title>", "<",
            ]), 0..30),
        ) {
            let document = format!("<urlset>{}", pieces.concat());
            let sitemap = parse(document.as_bytes(), &Limits::default()).unwrap();
            prop_assert!(sitemap.children.is_empty());
            prop_assert!(sitemap.urls.iter().all(|page| page.loc.starts_with("https://")));
        }
    }
}
