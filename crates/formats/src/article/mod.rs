//! From the HTML of a page to the article it holds: what it says, and who wrote it when.
//!
//! The page is read into a tree (`tree`), its declarations are collected (`declared`, `jsonld`), and
//! its text into blocks (`page`). Figures of the blocks and of the elements around them (`form`,
//! `marks`, `outline`, `features`, `candidates`) go to a model (`model`) that tells the article's
//! blocks from all the others (`body`). Titles, authors and dates are weighed the same way
//! (`metadata`). Whatever is fed, the work is bounded, nothing recurses without bounds, and no fact
//! is made up: a field that cannot be told is `None`.

mod authors;
mod body;
mod budget;
mod candidates;
mod clean;
mod css;
mod dates;
mod day;
mod declared;
pub mod explain;
mod features;
mod form;
mod gates;
mod jsonld;
mod language;
mod links;
mod markdown;
mod marks;
mod metadata;
mod model;
mod names;
pub mod observe;
mod outline;
mod page;
mod render;
mod said;
mod selectors;
mod state;
mod statement;
mod tags;
mod templates;
mod title;
pub(crate) mod tree;

use std::collections::HashSet;

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};

use self::body::{Verdict, Why};
use self::declared::Declared;
use self::features::Sheet;
use self::outline::Outline;
use self::page::Page;
use self::selectors::Parts;
use self::title::SiteNames;
use self::tree::Tree;
use crate::date::Ts;
use crate::rights::Rights;
use crate::simhash::{simhash, words};
use crate::url::{self, Url};

pub use self::css::{Selector, SelectorError};
pub use self::links::{Link, Links};
pub use self::markdown::markdown;
pub use self::selectors::Selectors;
pub use self::statement::Statement;

/// The largest page that is looked at, in bytes.
pub const MAX_BYTES: usize = 5 << 20;
/// The smallest, in characters.
const MIN_CHARS: usize = 200;
/// Fewer letters and digits than this are no article.
const MIN_TEXT: usize = 25;
/// The longest abstract, in characters.
const ABSTRACT_CHARS: usize = 500;

/// A page that shows fewer words may hold more of its article than it shows.
const RESCUE_WORDS: usize = 250;

/// What is known of an article before its page is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// Its title in the feed.
    pub title: Option<&'a str>,
    /// Its summary in the feed, as plain text.
    pub summary: Option<&'a str>,
    /// Its whole text in the feed, as HTML or plain text.
    pub content: Option<&'a str>,
    /// When the feed says it was published.
    pub published: Option<Ts>,
    /// Its authors in the feed.
    pub authors: &'a [String],
    /// Fingerprints of blocks that stand on other pages of the host, too: [`Extracted::prints`].
    pub repeated: Option<&'a HashSet<u64>>,
    /// Where the operator says that its parts stand.
    pub selectors: Option<&'a Selectors>,
}

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageType {
    /// One text to be read.
    Article,
    /// A few sentences, or the beginning of a text.
    Stub,
    /// Mostly links to others.
    Listing,
    /// Something else with a text.
    Other,
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
    /// The calendar day that the page shows, as `2026-05-03`, whatever the zone.
    pub day: Option<String>,
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
    /// The body as clean HTML: a few harmless elements, absolute addresses. [`markdown`] writes it
    /// as Markdown.
    pub html: String,
    /// Words in the text.
    pub word_count: u32,
    /// SHA-256 of the text with every run of white space as one space.
    #[serde(serialize_with = "as_hex")]
    pub content_hash: [u8; 32],
    /// The fingerprint of the text, for near-duplicates.
    pub simhash: u64,
    /// What the page is.
    pub page_type: PageType,
    /// Whether one has to pay for the whole text, where the page says so.
    pub paywalled: Option<bool>,
    /// What its meta elements and JSON-LD say about its use, to robots in general.
    pub rights: Rights,
    /// What the body was found by.
    pub method: &'static str,
    /// How sure that is, 0 to 1.
    pub confidence: f32,
    /// Fingerprints of what was or would have been the body's blocks: those that stand on many pages
    /// of a host are no part of its articles.
    #[serde(skip)]
    pub prints: Vec<u64>,
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
    #[error("page is too large, too deeply nested or too costly to read")]
    TooLarge,
    /// The page is a list of links to others.
    #[error("page lists others and has no text of its own")]
    Listing,
    /// The page asks to sign in.
    #[error("page asks to sign in")]
    SignIn,
    /// The page asks to prove that one is no machine.
    #[error("page is a challenge to machines")]
    Challenge,
    /// The page says that there is nothing.
    #[error("page says that it was not found")]
    Missing,
}

impl NotArticle {
    /// The stable name of this refusal.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::BadHtml => "bad_html",
            Self::Empty => "empty",
            Self::TooLarge => "too_large",
            Self::Listing => "listing",
            Self::SignIn => "sign_in",
            Self::Challenge => "challenge",
            Self::Missing => "soft_404",
        }
    }
}

/// A page that was read, before anything is chosen.
struct Reading {
    tree: Tree,
    declared: Declared,
    page: Page,
    outline: Outline,
    base: Option<Url>,
}

impl Reading {
    fn new(html: &str, url: &str, evidence: &Evidence<'_>) -> Result<Self, NotArticle> {
        if html.len() > MAX_BYTES {
            return Err(NotArticle::TooLarge);
        }
        if html.trim().chars().nth(MIN_CHARS - 1).is_none() {
            return Err(NotArticle::BadHtml);
        }
        let mut tree = Tree::read(html).map_err(|_| NotArticle::TooLarge)?;
        let declared = Declared::collect(&tree);
        if let Some(selectors) = evidence.selectors {
            selectors.prune(&mut tree);
        }
        let page = Page::read(&tree);
        let outline = Outline::new(&page);
        Ok(Self { declared, outline, page, tree, base: url::parse(url).ok() })
    }

    fn title(&self, evidence: &Evidence<'_>) -> String {
        let site = SiteNames::of(&self.declared, self.base.as_ref());
        title::settle(&self.declared, &self.page, &site, evidence)
    }

    fn sheet(&self, evidence: &Evidence<'_>) -> Sheet<'_> {
        Sheet::new(&self.page, &self.outline, &self.declared.said(&self.page, evidence))
    }
}

/// What was taken for the body.
struct Body {
    /// Its blocks, unless it came from elsewhere.
    chosen: Vec<usize>,
    paragraphs: Vec<String>,
    method: &'static str,
    confidence: f32,
}

/// The article in the page that was served at `url`.
///
/// # Errors
/// When the page has no meaningful text, is too small or too large to be looked at, or is something
/// else than an article.
pub fn extract(html: &str, url: &str, evidence: &Evidence<'_>) -> Result<Extracted, NotArticle> {
    match shown(html, url, evidence) {
        Err(NotArticle::Empty) => match templates::unfolded(html) {
            Some(unfolded) => shown(&unfolded, url, evidence),
            None => Err(NotArticle::Empty),
        },
        found => found,
    }
}

/// The article that a page shows without its scripts.
fn shown(html: &str, url: &str, evidence: &Evidence<'_>) -> Result<Extracted, NotArticle> {
    let reading = Reading::new(html, url, evidence)?;
    let sheet = reading.sheet(evidence);
    let verdict = body::judge(&sheet);
    let parts = evidence.selectors.map(|selectors| Parts::new(&reading.tree, selectors));
    let base = reading.base.as_ref();
    let mut facts = metadata::settle(&reading.declared, &reading.page, base, evidence);
    if let Some(parts) = &parts {
        parts.correct(&mut facts, base);
    }
    let pointed = (parts.as_ref(), facts.title.as_str());
    let (why, method) = choose(&reading, &sheet, &verdict, pointed, evidence);
    let body = find(&reading, &sheet, &verdict, (&why, method), evidence);
    // Code at the very start may be indented.
    let text = body.paragraphs.join("\n\n").trim().to_owned();
    let count = words(&text).count();
    let refused = gates::refuse(
        html,
        &facts.title,
        &reading.declared,
        &reading.page,
        &reading.outline,
        count,
    );
    if let Some(refused) = refused {
        return Err(refused);
    }
    if text.chars().filter(|c| c.is_alphanumeric()).take(MIN_TEXT).count() < MIN_TEXT {
        return Err(NotArticle::Empty);
    }
    let clean_html = if body.chosen.is_empty() {
        render::plain_html(&body.paragraphs)
    } else {
        render::html(&reading.page, &reading.tree, &body.chosen, base)
    };
    let first = || body.paragraphs.iter().find(|paragraph| paragraph.chars().count() > 40).cloned();
    let abstract_ = parts.as_ref().and_then(Parts::intro).or_else(first);
    let lead_image = facts.lead_image.or_else(|| first_image(&reading, &body.chosen));
    Ok(Extracted {
        language: language::of(&text).map(str::to_owned).or(facts.language),
        title: facts.title,
        canonical_url: facts.canonical_url,
        authors: facts.authors,
        published: facts.published,
        updated: facts.updated,
        day: facts.day,
        site_name: facts.site_name,
        section: facts.section,
        tags: facts.tags,
        lead_image,
        abstract_: abstract_.map(|paragraph| clean::shorten(&paragraph, ABSTRACT_CHARS)),
        html: clean_html,
        word_count: u32::try_from(count).unwrap_or(u32::MAX),
        content_hash: content_hash(&body.paragraphs),
        simhash: simhash(&text),
        page_type: page_type(&reading, &body, count),
        paywalled: paywalled(&reading.declared),
        rights: facts.rights,
        method: body.method,
        confidence: body.confidence,
        prints: prints(&sheet, &why),
        text,
    })
}

/// What becomes of each block, and by what that was found.
fn choose(
    reading: &Reading,
    sheet: &Sheet<'_>,
    verdict: &Verdict,
    (parts, title): (Option<&Parts<'_>>, &str),
    evidence: &Evidence<'_>,
) -> (Vec<Why>, &'static str) {
    let mut why = verdict.choose(sheet, title, evidence.repeated);
    let method = parts.map_or("model", |parts| parts.settle(&reading.page, &mut why));
    (why, method)
}

/// The fingerprints of the body's blocks, and of those that are none because they stand elsewhere,
/// too: or they would be forgotten, and taken again.
fn prints(sheet: &Sheet<'_>, why: &[Why]) -> Vec<u64> {
    let told = why.iter().enumerate().filter(|(_, why)| matches!(why, Why::Taken | Why::Repeated));
    told.map(|(index, _)| sheet.print(index)).collect()
}

/// The body: the chosen blocks, or a text that the page holds without showing it.
fn find(
    reading: &Reading,
    sheet: &Sheet<'_>,
    verdict: &Verdict,
    (why, method): (&[Why], &'static str),
    evidence: &Evidence<'_>,
) -> Body {
    let chosen = why.iter().enumerate().filter(|(_, why)| **why == Why::Taken);
    let chosen: Vec<usize> = chosen.map(|(index, _)| index).collect();
    let paragraphs = render::paragraphs(&reading.page, &reading.tree, &chosen);
    let confidence = verdict.confidence(sheet, &chosen);
    let shown = paragraphs.join("\n");
    let rescued = |hidden: &mut dyn Iterator<Item = Vec<String>>| {
        let description = reading.declared.description().or(evidence.summary).unwrap_or_default();
        state::rescue(&shown, description, hidden)
    };
    // What the operator points at is all there is.
    let pointed_at = method == "selectors";
    let few = !pointed_at && words(&shown).take(RESCUE_WORDS).count() < RESCUE_WORDS;
    let declared = reading.declared.ld.body.as_deref().into_iter();
    let states = reading.declared.states.iter().filter_map(|id| reading.tree.first_child(*id));
    let found = if few {
        rescued(&mut declared.map(clean::plain_lines))
            .map(|text| (text, "json_ld"))
            .or_else(|| {
                let hidden = states.flat_map(|id| state::bodies(reading.tree.raw_text(id)));
                rescued(&mut hidden.into_iter()).map(|text| (text, "state"))
            })
            .or_else(|| {
                let content = evidence.content.into_iter().map(clean::plain_lines);
                rescued(&mut content.into_iter()).map(|text| (text, "feed"))
            })
    } else {
        None
    };
    match found {
        Some((paragraphs, method)) => {
            Body { chosen: Vec::new(), paragraphs, method, confidence: 0.8 }
        }
        None if pointed_at => Body { chosen, paragraphs, method, confidence: 1.0 },
        None => Body { chosen, paragraphs, method, confidence },
    }
}

fn content_hash(paragraphs: &[String]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for (index, word) in paragraphs.iter().flat_map(|text| text.split_whitespace()).enumerate() {
        if index > 0 {
            hash.update(b" ");
        }
        hash.update(word.as_bytes());
    }
    hash.finalize().into()
}

/// The first picture between the chosen blocks.
fn first_image(reading: &Reading, chosen: &[usize]) -> Option<String> {
    let (first, last) = (chosen.first()?, chosen.last()?);
    let inside = reading.page.images.iter().filter(|image| {
        (first.saturating_sub(2)..=*last).contains(&image.block)
            && metadata::is_picture(&image.source)
    });
    inside.into_iter().find_map(|image| metadata::absolute(reading.base.as_ref(), &image.source))
}

fn page_type(reading: &Reading, body: &Body, words: usize) -> PageType {
    let all = reading.outline.words.len().max(1);
    let links = reading.outline.links.last().copied().unwrap_or_default() / reading.outline.total;
    match words {
        0..60 if links > 0.6 && all > words * 10 => PageType::Listing,
        0..60 => PageType::Stub,
        60..120 if body.confidence < 0.7 => PageType::Other,
        _ => PageType::Article,
    }
}

/// Whether one has to pay, as schema.org and content tiers say it.
fn paywalled(declared: &Declared) -> Option<bool> {
    declared.ld.is_free.map(|free| !free).or_else(|| {
        match declared.raw_meta("article:content_tier")?.trim() {
            "locked" | "metered" => Some(true),
            "free" => Some(false),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests;
