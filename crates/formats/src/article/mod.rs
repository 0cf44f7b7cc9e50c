//! From the HTML of a page to the article it holds: what it says, and who wrote it when.
//!
//! The page is read once into blocks of text (`page`), its declarations are collected
//! (`metadata`, `jsonld`, `title`), and `body` tells the article's blocks from all the others.
//! Whatever is fed, the work is linear in its size, nothing recurses, and no fact is made up: a
//! field that cannot be told is `None`.

mod body;
mod clean;
mod guard;
mod jsonld;
mod metadata;
mod names;
mod page;
mod title;

use dom_query::Document;
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::date::Ts;
use crate::rights::Rights;
use crate::simhash::{simhash, words};

/// The largest page that is looked at, in bytes.
pub const MAX_BYTES: usize = 5 << 20;
/// The smallest, in characters.
const MIN_CHARS: usize = 200;
/// Fewer letters and digits than this are no article.
const MIN_TEXT: usize = 25;
/// The longest abstract, in characters.
const ABSTRACT_CHARS: usize = 500;

/// What is known of an article before its page is read, from the feed that named it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// Its title in the feed.
    pub title: Option<&'a str>,
    /// Its summary in the feed, as plain text.
    pub summary: Option<&'a str>,
    /// When the feed says it was published.
    pub published: Option<Ts>,
    /// Its authors in the feed.
    pub authors: &'a [String],
}

/// An article, as far as its page tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Extracted {
    /// The headline, without the site's name.
    pub title: String,
    /// The address that the page calls its own, absolute.
    pub canonical_url: Option<String>,
    /// Names, in order.
    pub authors: Vec<String>,
    /// When it was first published.
    pub published: Option<Ts>,
    /// When it was last changed.
    pub updated: Option<Ts>,
    /// The primary language tag, such as `en`.
    pub language: Option<String>,
    /// The publication.
    pub site_name: Option<String>,
    /// The section of the publication.
    pub section: Option<String>,
    /// Keywords, in order.
    pub tags: Vec<String>,
    /// The address of the main picture, absolute.
    pub lead_image: Option<String>,
    /// The first paragraph that says something, cut to 500 characters.
    #[serde(rename = "abstract")]
    pub abstract_: Option<String>,
    /// The body: paragraphs with an empty line between them, without the title.
    pub text: String,
    /// Words in the text.
    pub word_count: u32,
    /// SHA-256 of the text with every run of white space as one space.
    #[serde(serialize_with = "as_hex")]
    pub content_hash: [u8; 32],
    /// The fingerprint of the text, for near-duplicates.
    pub simhash: u64,
    /// What the body was found by.
    pub method: &'static str,
    /// How sure that is, 0 to 1.
    pub confidence: f32,
    /// What its meta elements say about its use, to robots in general.
    pub rights: Rights,
}

fn as_hex<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    serializer.serialize_str(&hex)
}

/// Why a page gives no article.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotArticle {
    /// There is next to no HTML.
    #[error("less than {MIN_CHARS} characters of HTML")]
    BadHtml,
    /// There is no meaningful text.
    #[error("no meaningful text")]
    Empty,
    /// The page, or the tree it unfolds into, is too large.
    #[error("page is too large or nested too deeply")]
    TooLarge,
}

impl NotArticle {
    /// The stable name of this refusal.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::BadHtml => "bad_html",
            Self::Empty => "empty",
            Self::TooLarge => "too_large",
        }
    }
}

/// The article in the page that was served at `url`.
///
/// # Errors
/// When the page has no meaningful text, or is too small or too large to be looked at.
pub fn extract(html: &str, url: &str, evidence: &Evidence<'_>) -> Result<Extracted, NotArticle> {
    if html.len() > MAX_BYTES || !guard::is_affordable(html) {
        return Err(NotArticle::TooLarge);
    }
    if html.trim().chars().nth(MIN_CHARS - 1).is_none() {
        return Err(NotArticle::BadHtml);
    }
    let document = Document::from(html);
    let declared = metadata::Declared::collect(&document);
    let facts = metadata::settle(&declared, url, evidence);
    let page = page::Page::read(&document);
    let body = body::find(&page, &facts.title, declared.body(), evidence.summary);
    let text = body.paragraphs.join("\n\n");
    if text.chars().filter(|c| c.is_alphanumeric()).count() < MIN_TEXT {
        return Err(NotArticle::Empty);
    }
    let abstract_ = body.paragraphs.iter().find(|paragraph| paragraph.chars().count() > 40);
    Ok(Extracted {
        title: facts.title,
        canonical_url: facts.canonical_url,
        authors: facts.authors,
        published: facts.published,
        updated: facts.updated,
        language: facts.language,
        site_name: facts.site_name,
        section: facts.section,
        tags: facts.tags,
        lead_image: facts.lead_image,
        abstract_: abstract_.map(|paragraph| clean::shorten(paragraph, ABSTRACT_CHARS)),
        word_count: u32::try_from(words(&text).count()).unwrap_or(u32::MAX),
        content_hash: Sha256::digest(body.paragraphs.join(" ")).into(),
        simhash: simhash(&text),
        method: body.method,
        confidence: body.confidence,
        rights: declared.rights(),
        text,
    })
}

#[cfg(test)]
mod tests;
