//! Feeds: RSS 0.9x, 1.0 and 2.0, Atom 0.3 and 1.0, JSON Feed, read into one shape.
//!
//! Whatever a publisher got wrong costs at most the part that is wrong, and is told in a warning:
//! there is an error only when no feed is left. Nothing external is loaded, and every size has a
//! limit.

use ::url::Url;

use crate::charset::{self, Markup, Place};
use crate::room::{Room, sound_base};

mod diff;
mod draft;
mod entry;
mod head;
mod html;
mod json;
mod leaf;
mod model;
mod ns;
mod people;
mod root;
mod values;
mod warning;
mod xml;

pub use diff::{Change, Difference, FieldChange, diff};
pub use model::{
    Author, Deleted, Enclosure, Entry, Episode, Feed, Format, Paging, Podcast, Source,
};
use warning::Fault;
pub use warning::Warning;

pub use crate::xml::text::plain;

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
    /// Bytes that all entries together inherit from the feed.
    pub inherited: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 32 << 20,
            depth: 100,
            items: 10_000,
            attributes: 100,
            text: 4 << 20,
            inherited: 8 << 20,
        }
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
    let base = Url::parse(base).ok().and_then(sound_base);
    let room = Room::of(text.len());
    let mut feed = if start.starts_with('{') {
        json::parse(text, base.as_ref(), &room, limits)?
    } else {
        xml::parse(text, base, &room, limits)?
    };
    if room.is_exhausted() {
        feed.warn(Fault::TooManyParts, "relative addresses");
    }
    if decoded.replaced {
        feed.warn(Fault::BadCharacters, decoded.encoding);
    }
    if let Some(said) = decoded.conflict {
        let detail = format!("{} by its bytes, said to be {said}", decoded.encoding);
        feed.warn(Fault::CharsetConflict, &detail);
    }
    let mut place = Place::default();
    for entry in &mut feed.entries {
        entry.raw = decoded.place(body, &entry.raw, &mut place).unwrap_or_default();
    }
    tell_ids(&mut feed);
    Ok(feed)
}

/// Entries that cannot be told apart by their ids.
fn tell_ids(feed: &mut Feed) {
    let mut seen = std::collections::HashSet::new();
    let twice: Vec<_> = feed
        .entries
        .iter()
        .filter_map(|e| e.id.as_deref().filter(|id| !seen.insert(*id)))
        .collect();
    let first = twice.first().map(|id| (*id).to_owned());
    let (twice, missing) = (twice.len(), feed.entries.iter().filter(|e| e.id.is_none()).count());
    feed.warn_of(Fault::DuplicateId, first.as_deref().unwrap_or_default(), twice);
    feed.warn_of(Fault::MissingId, "", missing);
}

impl Feed {
    fn new(format: Format) -> Self {
        Self { format, ..Self::default() }
    }

    fn warn(&mut self, fault: Fault, detail: &str) {
        self.warn_of(fault, detail, 1);
    }

    /// A fault that occurred so many times, none included.
    fn warn_of(&mut self, fault: Fault, detail: &str, times: usize) {
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        warning::note(&mut self.warnings, fault, detail, times);
    }
}

impl Author {
    /// How much memory it takes.
    fn bytes(&self) -> usize {
        let texts = [&self.name, &self.email, &self.uri];
        size_of::<Self>() + texts.into_iter().flatten().map(String::len).sum::<usize>()
    }
}

/// An address made absolute; one that is so already, or has no base, stays as it was written.
fn absolute(base: Option<&Url>, address: &str, room: &Room) -> Option<String> {
    let address = address.trim();
    if address.is_empty() {
        return None;
    }
    if is_plainly_web(address) {
        return Some(address.to_owned());
    }
    match Url::parse(address) {
        // A script is no place to go to.
        Ok(url) if matches!(url.scheme(), "javascript" | "vbscript") => None,
        Ok(_) => Some(address.to_owned()),
        Err(::url::ParseError::RelativeUrlWithoutBase) => match base {
            Some(base) => room.join(base, address),
            None => Some(address.to_owned()),
        },
        Err(_) => None,
    }
}

/// Whether the address is so plain that there is nothing to check: most are.
fn is_plainly_web(address: &str) -> bool {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or(rest));
    host.is_some_and(|host| {
        host.starts_with(|c: char| c.is_ascii_lowercase())
            && host.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'.' | b'-'))
    })
}

/// Whether the address can be fetched at all.
fn is_web(address: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

#[cfg(test)]
mod pains;
#[cfg(test)]
mod repairs;
#[cfg(test)]
mod tests;
