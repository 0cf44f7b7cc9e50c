//! Sitemaps and sitemap indexes, as XML, as a list of addresses or as a feed, plain or gzipped.
//!
//! A broken entry costs that entry. Nothing external is loaded, and every size has a limit: the
//! document is read in one pass, and beside it only the addresses are held.

use std::borrow::Cow;

use ::url::Url;
use serde::Serialize;

use crate::charset::{self, Markup};
use crate::date::{self, Ts};
use crate::decode::{self, DecodeError};
use crate::feed::{self, FeedError};
use crate::xml::{Node, Scanner, Tag, local, text};

mod parts;

use parts::{Item, Part, advice, root, text_of};

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
    /// What the publisher should know.
    pub message: &'static str,
    /// The first case, in short.
    pub detail: String,
    /// How often.
    pub count: u32,
}

/// A sitemap; an index has children, and no pages unless they are misplaced.
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
    /// Where it is: as written, or made absolute.
    pub loc: String,
    /// When it was last changed.
    pub lastmod: Option<Ts>,
    /// The last instant that this can mean.
    #[serde(skip)]
    pub newest: Option<Ts>,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SitemapUrl {
    /// Where it is: as written, or made absolute.
    pub loc: String,
    /// When it was last changed.
    pub lastmod: Option<Ts>,
    /// The last instant that its dates can mean.
    #[serde(skip)]
    pub newest: Option<Ts>,
    /// What a news sitemap says of it.
    pub news: Option<News>,
    /// Pictures on it.
    pub images: Vec<String>,
    /// Films on it.
    pub videos: Vec<Video>,
    /// The same page in other languages.
    pub alternates: Vec<Alternate>,
}

impl SitemapUrl {
    /// Whether it may have changed since then; without a date it may.
    #[must_use]
    pub fn may_be_since(&self, since: Ts) -> bool {
        self.newest.is_none_or(|date| date >= since)
    }
}

impl Child {
    /// Whether it may have changed since then; without a date it may.
    #[must_use]
    pub fn may_be_since(&self, since: Ts) -> bool {
        self.newest.is_none_or(|date| date >= since)
    }
}

/// A film on a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Video {
    /// Its title.
    pub title: Option<String>,
    /// The film itself, or else its player.
    pub url: Option<String>,
    /// When it was published.
    pub published: Option<Ts>,
}

/// A page in another language.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Alternate {
    /// The language.
    pub language: Option<String>,
    /// Where it is.
    pub url: String,
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

/// Reads a sitemap or a sitemap index that was served at `base`.
///
/// # Errors
/// When the body holds no sitemap, or inflates beyond the limit.
pub fn parse(body: &[u8], base: &str, limits: &Limits) -> Result<Sitemap, SitemapError> {
    let body = inflated(body, limits)?;
    let decoded = charset::decode(&body, None, Markup::Xml);
    let start = decoded.text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if start.is_empty() {
        return Err(SitemapError::EmptyBody);
    }
    if !start.starts_with('<') {
        return read_lines(start, limits);
    }
    match read_xml(start, Url::parse(base).ok().as_ref(), limits) {
        Err(SitemapError::NotASitemap) => read_feed(&body, base, limits),
        read => read,
    }
}

/// A feed lists pages too.
fn read_feed(body: &[u8], base: &str, limits: &Limits) -> Result<Sitemap, SitemapError> {
    let most = feed::Limits { bytes: limits.bytes, items: limits.urls, ..feed::Limits::default() };
    let feed = feed::parse(body, None, base, &most).map_err(|error| match error {
        FeedError::HtmlNotFeed => SitemapError::HtmlNotSitemap,
        _ => SitemapError::NotASitemap,
    })?;
    let mut sitemap = Sitemap::default();
    for entry in feed.entries {
        match entry.link.filter(|link| is_web(link)) {
            Some(loc) => {
                let lastmod = entry.updated.max(entry.published);
                let newest = lastmod;
                sitemap.urls.push(SitemapUrl { loc, lastmod, newest, ..SitemapUrl::default() });
            }
            None => sitemap.warn("bad_url", entry.id.as_deref().unwrap_or_default()),
        }
    }
    Ok(sitemap)
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

fn read_xml(document: &str, base: Option<&Url>, limits: &Limits) -> Result<Sitemap, SitemapError> {
    let mut scanner = Scanner::new(document, 20);
    let root = root(&mut scanner)?;
    let own = if root == "sitemapindex" { Item::Sitemap } else { Item::Page };
    let mut sitemap = Sitemap::default();
    let mut page: Option<SitemapUrl> = None;
    let mut item = own;
    let mut part = Part::Page;
    // Text directly in an item: its address, where the element for it was forgotten.
    let mut stray = String::new();
    let mut is_closed = false;
    loop {
        match scanner.next() {
            Node::Open(tag) => {
                if let Some(opened) = Item::of(tag.local()).filter(|_| part == Part::Page) {
                    // The end tag of the one before may have been forgotten.
                    sitemap.add(page.take(), &mut stray, item, base);
                    if sitemap.is_full(limits) {
                        return Ok(sitemap);
                    }
                    if opened != own {
                        sitemap.warn("misplaced", tag.name);
                    }
                    item = opened;
                    page = (!tag.empty).then(SitemapUrl::default);
                } else if let Some(page) = &mut page {
                    match Part::of(&tag, page) {
                        Some(opened) if !tag.empty => part = opened,
                        Some(_) => {}
                        None => {
                            let text = text_of(&mut scanner, &tag);
                            sitemap.field(page, part, &tag, text);
                        }
                    }
                }
            }
            Node::Close(name) if Item::of(local(name)) == Some(item) => {
                part = Part::Page;
                sitemap.add(page.take(), &mut stray, item, base);
            }
            Node::Close(name) if part.is_closed_by(name) => part = Part::Page,
            Node::Close(name) if local(name).eq_ignore_ascii_case(root) => {
                sitemap.add(page.take(), &mut stray, item, base);
                is_closed = true;
            }
            Node::Text(text) if page.is_some() && part == Part::Page => stray.push_str(&text),
            Node::Text(_) | Node::Close(_) => {}
            Node::End => break,
        }
    }
    if !is_closed {
        sitemap.warn("truncated", root);
    }
    Ok(sitemap)
}

impl Sitemap {
    fn field(&mut self, page: &mut SitemapUrl, part: Part, tag: &Tag<'_>, text: Option<String>) {
        if tag.kind() == "link" && page.alternates.len() < Part::MOST {
            let language = tag.attribute("hreflang");
            let url = tag.attribute("href");
            page.alternates.extend(url.map(|url| Alternate { language, url }));
        }
        let Some(text) = text else { return };
        match (part, &*tag.kind()) {
            (Part::Page, "loc") if page.loc.is_empty() => page.loc = text,
            (Part::Page, "loc") => self.warn("second_loc", &text),
            (Part::Page, "lastmod") => {
                page.lastmod = self.date(&text);
                page.newest = page.newest.max(date::latest(&text));
            }
            // The elements of the news part are known by their names, wherever they stand.
            (Part::Page | Part::News, "publication_date") => {
                news(page).published = self.date(&text);
                page.newest = page.newest.max(date::latest(&text));
            }
            (Part::Page | Part::News, "title") => news(page).title = Some(text::plain(&text)),
            (Part::Page | Part::News, "name") => news(page).publication = Some(text::plain(&text)),
            (Part::Page | Part::News, "language") => news(page).language = Some(text),
            (Part::Image, "loc") if page.images.len() < Part::MOST => page.images.push(text),
            (Part::Video, name) => self.video(page, name, &text),
            _ => {}
        }
    }

    fn video(&mut self, page: &mut SitemapUrl, name: &str, text: &str) {
        let Some(video) = page.videos.last_mut() else { return };
        match name {
            "title" => video.title = Some(text::plain(text)),
            "content_loc" => video.url = Some(text.to_owned()),
            "player_loc" => drop(video.url.get_or_insert_with(|| text.to_owned())),
            "publication_date" => video.published = self.date(text),
            _ => {}
        }
    }

    fn date(&mut self, text: &str) -> Option<Ts> {
        let at = date::parse(text);
        if at.is_none() {
            self.warn("bad_date", text);
        } else if !date::is_regular(text) {
            self.warn("odd_date", text);
        }
        at
    }

    /// Takes what was read of an item; one without an address is left out.
    fn add(
        &mut self,
        page: Option<SitemapUrl>,
        stray: &mut String,
        item: Item,
        base: Option<&Url>,
    ) {
        let stray = std::mem::take(stray);
        let Some(mut page) = page else { return };
        if page.loc.is_empty() {
            page.loc = text::one_line(&stray);
        }
        let Some(loc) = self.joined(base, std::mem::take(&mut page.loc)) else { return };
        if item == Item::Sitemap {
            self.children.push(Child { loc, lastmod: page.lastmod, newest: page.newest });
            return;
        }
        let images = std::mem::take(&mut page.images).into_iter();
        page.images = images.filter_map(|image| self.joined(base, image)).collect();
        for video in &mut page.videos {
            video.url = video.url.take().and_then(|url| self.joined(base, url));
        }
        let alternates = std::mem::take(&mut page.alternates).into_iter();
        let alternate = |Alternate { language, url }| {
            Some(Alternate { language, url: self.joined(base, url)? })
        };
        page.alternates = alternates.filter_map(alternate).collect();
        self.urls.push(SitemapUrl { loc, ..page });
    }

    /// The address as it is written, or made absolute; what is none is told.
    fn joined(&mut self, base: Option<&Url>, address: String) -> Option<String> {
        if is_web(&address) {
            return Some(address);
        }
        let is_one = !address.is_empty() && !address.contains(char::is_whitespace);
        let joined = base.filter(|_| is_one).and_then(|base| base.join(&address).ok());
        let joined = joined.map(String::from).filter(|joined| is_web(joined));
        let code = if joined.is_some() { "relative_url" } else { "bad_url" };
        self.warn(code, &address);
        joined
    }

    fn is_full(&mut self, limits: &Limits) -> bool {
        let full = self.urls.len().max(self.children.len()) >= limits.urls;
        if full {
            self.warn("too_many_urls", &limits.urls.to_string());
        }
        full
    }

    fn warn(&mut self, code: &'static str, detail: &str) {
        match self.warnings.iter_mut().find(|known| known.code == code) {
            Some(known) => known.count = known.count.saturating_add(1),
            None => {
                let detail = detail.chars().take(100).collect();
                self.warnings.push(Warning { code, message: advice(code), detail, count: 1 });
            }
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
        parse(document.as_bytes(), "", &Limits::default()).unwrap()
    }

    /// What was wrong, with how often.
    fn told(sitemap: &Sitemap) -> Vec<(&str, u32)> {
        sitemap.warnings.iter().map(|warning| (warning.code, warning.count)).collect()
    }

    fn code(document: &[u8]) -> &'static str {
        parse(document, "", &Limits { bytes: 10_000, urls: 10 }).unwrap_err().code()
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
    fn pictures_films_and_languages_belong_to_their_page() {
        let sitemap = read(
            "<urlset xmlns:i='x'><url><i:image><i:loc>https://example.com/a.jpg</i:loc><i:title>A</i:title>\
             </i:image><loc>https://example.com/a</loc><video:video><video:title>V</video:title>\
             <video:player_loc>https://example.com/p</video:player_loc>\
             <video:content_loc>https://example.com/v.mp4</video:content_loc>\
             <video:publication_date>2024-05</video:publication_date></video:video>\
             <xhtml:link rel='alternate' hreflang='de' href='https://example.com/de'/>\
             <PageMap><DataObject><Attribute name='title'>no</Attribute></DataObject></PageMap>\
             <lastmod>2024</lastmod></url><url><loc>https://example.com/b</loc></url></urlset>",
        );
        let [page, _] = sitemap.urls.as_slice() else { panic!("{:?}", sitemap.urls) };
        assert_eq!((page.loc.as_str(), page.news.as_ref()), ("https://example.com/a", None));
        assert_eq!(page.images, ["https://example.com/a.jpg"]);
        let video = &page.videos[0];
        assert_eq!(video.title.as_deref(), Some("V"));
        assert_eq!(video.url.as_deref(), Some("https://example.com/v.mp4"));
        assert_eq!(video.published.unwrap().day(), "2024-05-01");
        assert_eq!(page.alternates[0].url, "https://example.com/de");
        assert_eq!(page.lastmod.unwrap().day(), "2024-01-01");
    }

    #[test]
    fn a_feed_is_a_sitemap() {
        let rss = read(
            "<rss version='2.0'><channel><item><link>https://example.com/a</link>\
             <pubDate>Wed, 01 May 2024 08:00:00 GMT</pubDate></item><item><guid>x</guid></item></channel></rss>",
        );
        assert_eq!((rss.urls.len(), rss.warnings[0].code), (1, "bad_url"));
        assert_eq!(rss.urls[0].lastmod.unwrap().day(), "2024-05-01");
        let atom = read(
            "<feed xmlns='http://www.w3.org/2005/Atom'><entry><link href='https://example.com/a'/>\
             <updated>2024-05-01T00:00:00Z</updated></entry></feed>",
        );
        assert_eq!(atom.urls[0].loc, "https://example.com/a");
    }

    #[test]
    fn old_pages_are_told_from_new_ones_and_from_those_without_a_date() {
        let since = date::parse("2024-05-02T18:00:00Z").unwrap();
        let cases = [
            ("2024-05-01", false),
            ("2024-05-02", true),
            ("2024-05-02T17:59:59Z", false),
            ("2024-04", false),
            ("2024-05", true),
            ("2023", false),
            ("2024", true),
            ("soon", true),
        ];
        for (lastmod, may) in cases {
            let at = format!("<loc>https://example.com/a</loc><lastmod>{lastmod}</lastmod>");
            let pages = read(&format!("<urlset><url>{at}</url></urlset>"));
            assert_eq!(pages.urls[0].may_be_since(since), may, "{lastmod}");
            let index = read(&format!("<sitemapindex><sitemap>{at}</sitemap></sitemapindex>"));
            assert_eq!(index.children[0].may_be_since(since), may, "{lastmod}");
        }
        let news = read(
            "<urlset><url><loc>https://example.com/a</loc><lastmod>2024-05-01</lastmod><news:news>\
             <news:publication_date>2024-05-03</news:publication_date></news:news></url></urlset>",
        );
        assert!(news.urls[0].may_be_since(since));
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
        assert_eq!(parse(&body, "", &Limits::default()).unwrap(), read(NEWS));
        let small = Limits { bytes: 100, urls: 10 };
        assert_eq!(parse(&body, "", &small).unwrap_err().code(), "too_large");
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
        let sitemap = parse(body.as_bytes(), "", &Limits { bytes: 10_000, urls: 3 }).unwrap();
        assert_eq!((sitemap.urls.len(), sitemap.warnings[0].code), (3, "too_many_urls"));
        let all = body + "</urlset>";
        let sitemap = parse(all.as_bytes(), "", &Limits { bytes: 10_000, urls: 9 }).unwrap();
        assert_eq!((sitemap.urls.len(), told(&sitemap)), (9, vec![]));
    }

    #[test]
    fn relative_addresses_are_those_of_the_sitemap() {
        let body = "<urlset><url><loc>/s/rel</loc><image:image><image:loc>a.jpg</image:loc></image:image>\
                    <xhtml:link hreflang='de' href='de'/></url><url><loc>ftp://example.com/</loc></url>\
                    <url><loc>no address</loc></url></urlset>";
        let base = "https://example.com/maps/news.xml";
        let sitemap = parse(body.as_bytes(), base, &Limits::default()).unwrap();
        let [page] = sitemap.urls.as_slice() else { panic!("{:?}", sitemap.urls) };
        assert_eq!(page.loc, "https://example.com/s/rel");
        assert_eq!(page.images, ["https://example.com/maps/a.jpg"]);
        assert_eq!(page.alternates[0].url, "https://example.com/maps/de");
        assert_eq!(told(&sitemap), [("relative_url", 3), ("bad_url", 2)]);
        let rss = "<rss version='2.0'><channel><item><link>/a</link></item></channel></rss>";
        let sitemap = parse(rss.as_bytes(), base, &Limits::default()).unwrap();
        assert_eq!(sitemap.urls[0].loc, "https://example.com/a");
    }

    #[test]
    fn every_repair_is_told() {
        let sitemap = read(
            "<URLSET><URL><LOC>https://example.com/a</LOC><loc>https://example.com/b</loc></URL>\
             <sitemap><loc>https://example.com/1.xml</loc></sitemap>\
             <url><loc>https://example.com/c</loc><lastmod>2024-2-30</lastmod>\
             <video:video><video:publication_date>soon</video:publication_date></video:video></url>\
             <url><loc>https://example.com/d</loc></URLSET>",
        );
        let locs: Vec<_> = sitemap.urls.iter().map(|page| page.loc.as_str()).collect();
        assert_eq!(
            locs,
            ["https://example.com/a", "https://example.com/c", "https://example.com/d"]
        );
        assert_eq!(sitemap.children[0].loc, "https://example.com/1.xml");
        let expected = [("second_loc", 1), ("misplaced", 1), ("odd_date", 1), ("bad_date", 1)];
        assert_eq!(told(&sitemap), expected);
        let index = read(
            "<sitemapindex><url><loc>https://example.com/a</loc></url>\
             <sitemap><loc>https://example.com/1.xml</loc></sitemap></sitemapindex>",
        );
        assert_eq!((index.urls.len(), index.children.len()), (1, 1));
        assert_eq!(told(&index), [("misplaced", 1)]);
    }

    #[test]
    fn what_is_no_sitemap_has_a_code() {
        for (body, expected) in [
            (" \n", "empty_body"),
            ("<!DOCTYPE html><html><body>404</body></html>", "html_not_sitemap"),
            ("<error>no</error>", "not_a_sitemap"),
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
            if let Ok(sitemap) = parse(&bytes, "", &Limits::default()) {
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
            let sitemap = parse(document.as_bytes(), "", &Limits::default()).unwrap();
            prop_assert!(sitemap.children.is_empty());
            prop_assert!(sitemap.urls.iter().all(|page| page.loc.starts_with("https://")));
        }
    }
}
