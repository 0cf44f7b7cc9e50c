//! Feeds: RSS 0.9x, 1.0 and 2.0, Atom 0.3 and 1.0, JSON Feed, read into one shape.
//!
//! Whatever a publisher got wrong costs at most the part that is wrong: there is an error only
//! when no feed is left. Nothing external is loaded, and every size has a limit.

use std::ops::Range;

use ::url::Url;
use serde::Serialize;

use crate::charset::{self, Markup};
use crate::date::Ts;

mod entry;
mod fields;
mod json;
mod ns;
mod xml;

/// The most that is taken from one feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the document.
    pub bytes: usize,
    /// Elements inside each other.
    pub depth: usize,
    /// Entries; those beyond are left out.
    pub items: usize,
    /// Attributes of an element; those beyond are not looked at.
    pub attributes: usize,
    /// Bytes of one text; what is beyond is cut off.
    pub text: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 32 << 20, depth: 100, items: 10_000, attributes: 100, text: 4 << 20 }
    }
}

/// Why there is no feed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// There is nothing in the body.
    #[error("body is empty")]
    EmptyBody,
    /// It is a web page.
    #[error("body is an HTML page, not a feed")]
    HtmlNotFeed,
    /// It is something else.
    #[error("body is not a feed")]
    NotAFeed,
    /// Elements are nested too deep.
    #[error("elements are nested deeper than {0}")]
    TooDeep(usize),
    /// It has too many bytes.
    #[error("feed is larger than {0} bytes")]
    TooLarge(usize),
    /// It was meant to be a feed and cannot be read.
    #[error("malformed feed: {0}")]
    Malformed(String),
}

impl FeedError {
    /// The stable name of this failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::EmptyBody => "empty_body",
            Self::HtmlNotFeed => "html_not_feed",
            Self::NotAFeed => "not_a_feed",
            Self::TooDeep(_) => "too_deep",
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

/// The family a feed belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// RSS 0.91 to 2.0.
    Rss,
    /// RSS 0.90 and 1.0.
    Rdf,
    /// Atom 0.3 and 1.0.
    Atom,
    /// JSON Feed.
    Json,
}

/// A feed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Feed {
    /// Its family.
    pub format: Format,
    /// Its name, as plain text.
    pub title: Option<String>,
    /// The page it belongs to.
    pub link: Option<String>,
    /// What it is about, as given.
    pub description: Option<String>,
    /// The language of its texts.
    pub language: Option<String>,
    /// The software that made it.
    pub generator: Option<String>,
    /// Its picture.
    pub image: Option<String>,
    /// Who may do what with it.
    pub rights: Option<String>,
    /// Who makes it.
    pub authors: Vec<Author>,
    /// What it is filed under.
    pub categories: Vec<String>,
    /// Where it says it is.
    pub self_link: Option<String>,
    /// `WebSub` hubs that push it.
    pub hubs: Vec<String>,
    /// Its other documents, after RFC 5005.
    pub paging: Paging,
    /// For how many minutes it may be kept.
    pub ttl: Option<u32>,
    /// Hours of the day (GMT) at which nothing is published.
    pub skip_hours: Vec<u8>,
    /// Days of the week, 0 for Monday, on which nothing is published.
    pub skip_days: Vec<u8>,
    /// When it was last changed.
    pub updated: Option<Ts>,
    /// What it offers, in its order.
    pub entries: Vec<Entry>,
    /// What was wrong with it.
    pub warnings: Vec<Warning>,
}

/// The documents that make up one feed, after RFC 5005.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Paging {
    /// The next page.
    pub next: Option<String>,
    /// The archive document before this one.
    pub prev_archive: Option<String>,
    /// The archive document after this one.
    pub next_archive: Option<String>,
    /// The document that is kept up to date.
    pub current: Option<String>,
    /// Whether this document is an archive, which never changes.
    pub archive: bool,
    /// Whether this document holds all entries there are.
    pub complete: bool,
}

/// An entry of a feed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Entry {
    /// What it calls itself: RSS `guid`, Atom and JSON `id`, RDF `about`.
    pub id: Option<String>,
    /// Whether that is also its address.
    pub permalink: bool,
    /// Its page, absolute.
    pub link: Option<String>,
    /// Its title, as plain text.
    pub title: Option<String>,
    /// Its summary, as HTML.
    pub summary: Option<String>,
    /// Its full content, as HTML.
    pub content: Option<String>,
    /// Who wrote it.
    pub authors: Vec<Author>,
    /// What it is filed under.
    pub categories: Vec<String>,
    /// Files that belong to it.
    pub enclosures: Vec<Enclosure>,
    /// When it was published.
    pub published: Option<Ts>,
    /// That date as it was written.
    pub published_raw: Option<String>,
    /// When it was last changed.
    pub updated: Option<Ts>,
    /// The language of its texts, when it differs from the feed's.
    pub language: Option<String>,
    /// Where its element stands in the decoded document, in bytes; `0..0` in JSON.
    pub raw: Range<usize>,
}

/// A person or an organisation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Author {
    /// The name.
    pub name: Option<String>,
    /// The mail address.
    pub email: Option<String>,
    /// A page about them.
    pub uri: Option<String>,
}

/// A file that belongs to an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Enclosure {
    /// Where it is, absolute.
    pub url: String,
    /// Its media type.
    pub mime: Option<String>,
    /// Its size in bytes.
    pub length: Option<u64>,
}

/// Reads a feed that was served at `base` with this content type.
///
/// # Errors
/// When the body holds no feed, or breaks a limit that nothing can be left out for.
pub fn parse(
    body: &[u8],
    content_type: Option<&str>,
    base: &str,
    limits: &Limits,
) -> Result<Feed, FeedError> {
    if body.len() > limits.bytes {
        return Err(FeedError::TooLarge(limits.bytes));
    }
    let decoded = charset::decode(body, content_type, Markup::Xml);
    let text = decoded.text.as_ref();
    let start =
        text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}' || c == '\0');
    if start.is_empty() {
        return Err(FeedError::EmptyBody);
    }
    let base = Url::parse(base).ok();
    let mut feed = if start.starts_with('{') {
        json::parse(start, base.as_ref(), limits)?
    } else {
        xml::parse(text, base, limits)?
    };
    if decoded.replaced {
        feed.warn("bad_characters", decoded.encoding);
    }
    Ok(feed)
}

impl Feed {
    fn new(format: Format) -> Self {
        Self {
            format,
            title: None,
            link: None,
            description: None,
            language: None,
            generator: None,
            image: None,
            rights: None,
            authors: Vec::new(),
            categories: Vec::new(),
            self_link: None,
            hubs: Vec::new(),
            paging: Paging::default(),
            ttl: None,
            skip_hours: Vec::new(),
            skip_days: Vec::new(),
            updated: None,
            entries: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Notes what was wrong; a feed that is wrong throughout is not listed throughout.
    fn warn(&mut self, code: &'static str, detail: &str) {
        const MOST: usize = 50;
        if self.warnings.len() < MOST {
            let detail = detail.chars().take(100).collect();
            self.warnings.push(Warning { code, detail });
        }
    }
}

/// An address made absolute; one that is so already, or has no base, stays as it was written.
fn absolute(base: Option<&Url>, address: &str) -> Option<String> {
    let address = address.trim();
    if address.is_empty() {
        return None;
    }
    match Url::parse(address) {
        Ok(_) => Some(address.to_owned()),
        Err(::url::ParseError::RelativeUrlWithoutBase) => match base {
            Some(base) => base.join(address).ok().map(String::from),
            None => Some(address.to_owned()),
        },
        Err(_) => None,
    }
}

/// Whether the address can be fetched at all.
fn is_web(address: &str) -> bool {
    let lower = address.get(..8).unwrap_or(address).to_ascii_lowercase();
    lower.starts_with("http://") || lower.starts_with("https://")
}

#[cfg(test)]
mod tests;
