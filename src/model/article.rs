//! An article: what a page says once everything around it is taken away.

use serde::{Deserialize, Serialize, Serializer};

use feedmill_formats::rights::Rights;
use feedmill_formats::sketch::Sketch;
use sha1::{Digest, Sha1};

use super::{FetchId, Origin, SourceId, TaskId, Ts, UrlHash};

/// An article's identity is that of its address.
pub type ArticleId = UrlHash;

pub(super) fn hex32<S: Serializer>(hash: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&UrlHash::from_bytes(*hash))
}

/// The canonical fetcher's id of what is at an address: the first 16 hexadecimal digits of its SHA-1.
#[must_use]
pub fn canonical_uid(url: &str) -> String {
    let hash = Sha1::digest(url.as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// What was read from a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Article {
    /// The address that answered.
    pub url: String,
    /// The address that the page itself names.
    pub canonical_url: Option<String>,
    /// The headline.
    pub title: Option<String>,
    /// Names of those who wrote it.
    pub authors: Vec<String>,
    /// When it says it was published.
    pub published: Option<Ts>,
    /// When it says it was changed.
    pub updated: Option<Ts>,
    /// BCP 47, as far as known.
    pub language: Option<String>,
    /// The publication's name.
    pub site_name: Option<String>,
    /// The part of the publication.
    pub section: Option<String>,
    /// Its labels.
    pub tags: Vec<String>,
    /// Absolute address of the lead image.
    pub lead_image: Option<String>,
    /// The first real paragraph.
    #[serde(rename = "abstract")]
    pub abstract_: Option<String>,
    /// Words in the text.
    pub word_count: u32,
    /// How the text was found.
    pub method: String,
    /// How sure the extraction is, 0 to 1.
    pub confidence: f32,
    /// What its publisher says about its use, as said when it was read.
    #[serde(default)]
    pub rights: Rights,
    /// Names of fields that were longer than we keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<String>,
}

/// What an article has in common with one that we had before it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Near {
    /// The first article that we had of all that tell the same with the same words.
    pub cluster: ArticleId,
    /// The one among them that is nearest to it.
    pub nearest: ArticleId,
    /// The part of the shorter text of the two that is in the other one as well, 0 to 1.
    pub share: f64,
    /// The words are at several publishers' sites: they come from an agency, or were copied.
    pub wire: bool,
}

impl Near {
    /// Why it is taken for a copy.
    #[must_use]
    pub fn reason(&self) -> String {
        let others = if self.wire { "at several publishers" } else { "at one publisher" };
        format!("{:.0} % of the text is in {} as well, {others}", self.share * 100.0, self.nearest)
    }
}

/// How a text became another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Words put in.
    pub added: u32,
    /// Words taken out.
    pub removed: u32,
    /// The page does not say that it was changed: its own date stayed as it was.
    pub silent: bool,
}

/// A form of an article that another one followed.
#[derive(Clone, Debug, PartialEq)]
pub struct PastForm {
    /// Its number.
    pub revision: u32,
    /// When the next one came.
    pub until: Ts,
    /// What was read.
    pub article: Article,
    /// SHA-256 of the normalised text.
    pub content_hash: [u8; 32],
    /// The fetch that brought it.
    pub fetch: Option<FetchId>,
    /// What made the next one of it.
    pub change: Change,
}

/// One of the forms that an article has had.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Revision {
    /// 1 for the first one.
    pub revision: u32,
    /// When it came.
    pub seen: Ts,
    /// Its headline.
    pub title: Option<String>,
    /// When the page said that it was changed.
    pub updated: Option<Ts>,
    /// Words in its text.
    pub word_count: u32,
    /// SHA-256 of its normalised text.
    #[serde(serialize_with = "hex32")]
    pub content_hash: [u8; 32],
    /// What made it of the one before.
    pub change: Option<Change>,
    /// The fetch that brought it.
    pub fetch: Option<FetchId>,
}

/// One of those who told of an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reference {
    /// The source's name; `None` for a source that is gone, and for an operator without one.
    pub source: Option<String>,
    /// The source's public id.
    pub source_id: Option<String>,
    /// The label that its articles carry.
    pub category: Option<String>,
    /// What told of it: a feed, a sitemap, a page; `None` for an operator.
    pub channel: Option<String>,
    /// How it came.
    pub origin: Origin,
    /// When it first did.
    pub first_seen: Ts,
}

impl Reference {
    /// What all of them say, each once: the names of the sources, and their categories.
    #[must_use]
    pub fn gathered(told: &[Self]) -> (Vec<&str>, Vec<&str>) {
        let mut sources: Vec<&str> = Vec::new();
        let mut categories: Vec<&str> = Vec::new();
        for one in told {
            let named = [(&mut sources, &one.source), (&mut categories, &one.category)];
            for (known, name) in named {
                let new = name.as_deref().filter(|name| !known.contains(name));
                known.extend(new);
            }
        }
        (sources, categories)
    }
}

/// What a fetch tells about an article.
#[derive(Clone, Debug, PartialEq)]
pub struct ArticleFact {
    /// Identity of the address that answered.
    pub id: ArticleId,
    /// The task that asked.
    pub task: TaskId,
    /// The task's owner.
    pub source: Option<SourceId>,
    /// What was read.
    pub article: Article,
    /// The text, paragraphs apart by an empty line.
    pub text: String,
    /// SHA-256 of the normalised text.
    pub content_hash: [u8; 32],
    /// A fingerprint of the text.
    pub simhash: u64,
    /// For near-duplicates.
    pub sketch: Sketch,
    /// The fetch that brought it.
    pub fetch: Option<FetchId>,
    /// Fingerprints of its blocks.
    pub prints: Vec<u64>,
}

/// An article as kept; its text is beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArticleRow {
    /// Identity of its address.
    pub id: ArticleId,
    /// The task that asked.
    pub task_id: TaskId,
    /// The owner.
    #[serde(skip)]
    pub source: Option<SourceId>,
    /// What was read.
    #[serde(flatten)]
    pub article: Article,
    /// SHA-256 of the normalised text.
    #[serde(serialize_with = "hex32")]
    pub content_hash: [u8; 32],
    /// A fingerprint of the text.
    pub simhash: u64,
    /// The first article with this very text, when it is not this one.
    pub duplicate_of: Option<ArticleId>,
    /// The copies that it is one of, when we had another one before it.
    pub near: Option<Near>,
    /// 1 for the first form, one more with every change of text.
    pub revision: u32,
    /// When we first had it.
    pub first_seen: Ts,
    /// When we last saw it.
    pub last_seen: Ts,
    /// The fetch that brought this form.
    pub fetch: Option<FetchId>,
}
