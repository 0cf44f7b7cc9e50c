//! What a feed holds, whatever format it came in. Values only.

use std::ops::Range;

use serde::Serialize;

use super::Warning;
use crate::date::Ts;

/// The family a feed belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// RSS 0.91 to 2.0.
    #[default]
    Rss,
    /// RSS 0.90 and 1.0.
    Rdf,
    /// Atom 0.3 and 1.0.
    Atom,
    /// JSON Feed.
    Json,
}

/// A feed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Feed {
    /// Its family.
    pub format: Format,
    /// The version that it states.
    pub version: Option<String>,
    /// What it calls itself: Atom `id`, RDF `about`.
    pub id: Option<String>,
    /// Its name, as plain text.
    pub title: Option<String>,
    /// The page it belongs to.
    pub link: Option<String>,
    /// What it is about, as given.
    #[serde(rename = "subtitle")]
    pub description: Option<String>,
    /// The language of its texts.
    pub language: Option<String>,
    /// The software that made it.
    pub generator: Option<String>,
    /// Its picture.
    pub image: Option<String>,
    /// Who may do what with it.
    pub rights: Option<String>,
    /// Who makes it, as written.
    #[serde(rename = "author")]
    pub byline: Option<String>,
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
    /// Minutes between its updates, after the syndication module.
    pub update_minutes: Option<u32>,
    /// The time from which these are counted.
    pub update_base: Option<Ts>,
    /// When it was published.
    pub published: Option<Ts>,
    /// When it was last changed.
    pub updated: Option<Ts>,
    /// What the podcast namespaces say of it.
    pub podcast: Podcast,
    /// Entries that it says are gone, after RFC 6721.
    pub deleted: Vec<Deleted>,
    /// What it offers, in its order.
    #[serde(skip)]
    pub entries: Vec<Entry>,
    /// What was wrong with it.
    #[serde(skip)]
    pub warnings: Vec<Warning>,
}

/// The documents that make up one feed, after RFC 5005.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Paging {
    /// The first page.
    pub first: Option<String>,
    /// The page before.
    pub previous: Option<String>,
    /// The next page.
    pub next: Option<String>,
    /// The last page.
    pub last: Option<String>,
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

/// What a podcast says of itself beyond RSS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Podcast {
    /// The same wherever the feed moves to.
    pub guid: Option<String>,
    /// What it is: `podcast`, `music`, `newsletter`.
    pub medium: Option<String>,
    /// Whether others may not import it.
    pub locked: Option<bool>,
    /// Where it can be supported.
    pub funding: Vec<String>,
    /// Where it has moved to.
    pub moved_to: Option<String>,
    /// Whether it is not for everybody.
    pub explicit: Option<bool>,
}

/// An entry that a feed says is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Deleted {
    /// The id that it had.
    pub id: String,
    /// When it was taken back.
    pub at: Option<Ts>,
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
    /// Its page as `FeedBurner` was given it, where `link` only leads there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
    /// Its title, as plain text.
    pub title: Option<String>,
    /// Its summary, as HTML.
    pub summary: Option<String>,
    /// Its full content, as HTML.
    pub content: Option<String>,
    /// Who wrote it, as written.
    #[serde(rename = "author")]
    pub byline: Option<String>,
    /// Who wrote it.
    pub authors: Vec<Author>,
    /// What it is filed under.
    pub categories: Vec<String>,
    /// Files that belong to it.
    pub enclosures: Vec<Enclosure>,
    /// Its picture.
    pub image: Option<String>,
    /// Where it is talked about.
    pub comments: Option<String>,
    /// Who may do what with it.
    pub rights: Option<String>,
    /// The feed that it was taken from.
    pub source: Option<Source>,
    /// When it was published.
    pub published: Option<Ts>,
    /// That date as it was written.
    pub published_raw: Option<String>,
    /// When it was last changed.
    pub updated: Option<Ts>,
    /// That date as it was written.
    pub updated_raw: Option<String>,
    /// The language of its texts, when it differs from the feed's.
    pub language: Option<String>,
    /// What the podcast namespaces say of it.
    pub episode: Episode,
    /// Where it stands in the document's bytes; empty where that cannot be told.
    pub raw: Range<usize>,
}

/// What a podcast says of an episode beyond RSS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Episode {
    /// Its length in seconds.
    pub seconds: Option<u32>,
    /// Its season.
    pub season: Option<u32>,
    /// Its number.
    pub number: Option<u32>,
    /// `full`, `trailer` or `bonus`.
    pub kind: Option<String>,
    /// Whether it is not for everybody.
    pub explicit: Option<bool>,
    /// What is said in it, in writing.
    pub transcripts: Vec<Enclosure>,
    /// Its chapters.
    pub chapters: Option<String>,
}

/// The feed that an entry was taken from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its name.
    pub title: Option<String>,
    /// Where it is.
    pub url: Option<String>,
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
    #[serde(rename = "type")]
    pub mime: Option<String>,
    /// Its size in bytes.
    pub length: Option<u64>,
}
