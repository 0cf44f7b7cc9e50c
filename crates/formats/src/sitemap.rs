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
use crate::room::{Room, sound_base};
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

/// The address of the sitemap, and how much those in it may grow when they are joined to it.
#[derive(Clone, Copy)]
struct Base<'a> {
    url: &'a Url,
    room: &'a Room,
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
    let url = Url::parse(base).ok().and_then(sound_base);
    match read_xml(start, url.as_ref(), limits) {
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
    let room = Room::of(document.len());
    let base = base.map(|url| Base { url, room: &room });
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
        base: Option<Base<'_>>,
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
    fn joined(&mut self, base: Option<Base<'_>>, address: String) -> Option<String> {
        if is_web(&address) {
            return Some(address);
        }
        let is_one = !address.is_empty() && !address.contains(char::is_whitespace);
        let joined = base.filter(|_| is_one).and_then(|base| base.room.join(base.url, &address));
        let joined = joined.filter(|joined| is_web(joined));
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
mod tests;
