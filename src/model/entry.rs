//! An entry: what a feed says about one of its items, over time.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

use super::{FetchId, TaskId, Ts, UrlHash};

/// SHA-256 of a feed's id and the entry's uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(pub [u8; 32]);

impl EntryId {
    /// The id of the entry that `feed` calls `uid`.
    #[must_use]
    pub fn of(feed: TaskId, uid: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(feed.uuid().as_bytes());
        hash.update(uid.as_bytes());
        Self(hash.finalize().into())
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for EntryId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Who wrote something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// As written.
    pub name: Option<String>,
    /// E-mail address.
    pub email: Option<String>,
    /// Home page.
    pub uri: Option<String>,
}

/// What a feed says about an item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Stable within its feed.
    pub uid: String,
    /// Where the item's page is: an http or https address.
    #[serde(default, deserialize_with = "link")]
    pub canonical_link: Option<String>,
    /// The link as the feed gave it, when it only leads there, or when it is no http or https address:
    /// a text, which nobody should follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_link: Option<String>,
    /// Plain text.
    pub title: Option<String>,
    /// As served.
    pub summary: Option<String>,
    /// As served.
    pub content: Option<String>,
    /// Who wrote it.
    pub authors: Vec<Person>,
    /// Its labels.
    pub categories: Vec<String>,
    /// Its media files.
    pub enclosures: Vec<Enclosure>,
    /// When it says it was published.
    pub published: Option<Ts>,
    /// That date as written, when it could not be read.
    pub published_raw: Option<String>,
    /// When it says it was changed.
    pub updated: Option<Ts>,
    /// That date as written, when it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_raw: Option<String>,
    /// Names of fields that were longer than we keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<String>,
}

/// A link of an entry that is kept. Earlier versions kept whatever the feed gave.
fn link<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let link: Option<String> = Option::deserialize(deserializer)?;
    Ok(link.filter(|link| feedmill_formats::url::is_link(link)))
}

/// A media file that belongs to an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enclosure {
    /// Where it is.
    pub url: String,
    /// Its media type.
    #[serde(rename = "type")]
    pub mime: Option<String>,
    /// Its length in bytes, as the feed says.
    pub length: Option<u64>,
}

/// What a poll tells about one entry.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryFact {
    /// Feed and uid, hashed.
    pub id: EntryId,
    /// The entry as the feed has it now.
    pub entry: Entry,
    /// SHA-256 over its content: tells a change.
    pub content_hash: [u8; 32],
    /// Identity of the page it links to.
    pub link_hash: Option<UrlHash>,
    /// The fetch that brought it.
    pub fetch: Option<FetchId>,
    /// Where its element stands in the decoded document: offset and length.
    pub slice: Option<(u64, u64)>,
}

/// An entry as kept, with its lineage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EntryRow {
    /// Feed and uid, hashed.
    pub id: EntryId,
    /// The feed's task.
    pub feed_id: TaskId,
    /// What the feed says.
    #[serde(flatten)]
    pub entry: Entry,
    /// SHA-256 over its content.
    #[serde(serialize_with = "super::article::hex32")]
    pub content_hash: [u8; 32],
    /// When we first saw it.
    pub first_seen: Ts,
    /// When we last saw it.
    pub last_seen: Ts,
    /// How often we saw it.
    pub seen_count: u32,
    /// The fetch that brought this form.
    pub fetch: Option<FetchId>,
}
