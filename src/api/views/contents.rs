//! What feeds and pages say, and the requests that brought it.

use std::collections::BTreeMap;

use feedmill_formats::rights::Rights;
use serde::Serialize;
use utoipa::ToSchema;

use super::short::{Cut, LINE, TEXT};
use super::{Time, time};
use crate::model::{
    Article, ArticleRow, Change, EntryRow, FetchRecord, Person, Reference, Revision, Source,
};

/// Somebody who wrote an entry.
#[derive(Debug, Serialize, ToSchema)]
struct Author {
    name: Option<String>,
    email: Option<String>,
    uri: Option<String>,
}

impl From<Person> for Author {
    fn from(Person { name, email, uri }: Person) -> Self {
        Self { name, email, uri }
    }
}

/// A file that an entry brings.
#[derive(Debug, Serialize, ToSchema)]
struct Attachment {
    url: String,
    #[serde(rename = "type")]
    mime: Option<String>,
    length: Option<u64>,
}

/// What a feed says about one of its items.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Entry)]
pub(in crate::api) struct EntryView {
    pub(in crate::api) id: String,
    /// The id that its feed gives it.
    uid: String,
    feed_id: String,
    /// An http or https address.
    canonical_link: Option<String>,
    /// The link as its feed gave it, when that is another one: a text, not to be followed.
    given_link: Option<String>,
    title: Option<String>,
    summary: Option<String>,
    content: Option<String>,
    authors: Vec<Author>,
    categories: Vec<String>,
    enclosures: Vec<Attachment>,
    published: Option<Time>,
    updated: Option<Time>,
    /// Names of fields that were longer than is stored, and were cut.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cut: Vec<String>,
    content_hash: String,
    first_seen: Time,
    last_seen: Time,
    seen_count: u32,
    /// The request that brought it.
    fetch: Option<String>,
    /// Fields that are cut here because it is one of a list.
    truncated: Vec<String>,
}

impl EntryView {
    /// The same as one of a list.
    pub(in crate::api) fn listed(row: EntryRow) -> Self {
        let (mut view, mut cut) = (Self::from(row), Cut::default());
        cut.text("uid", LINE, &mut view.uid);
        cut.maybe("canonical_link", LINE, &mut view.canonical_link);
        cut.maybe("title", LINE, &mut view.title);
        cut.maybe("summary", TEXT, &mut view.summary);
        cut.maybe("content", TEXT, &mut view.content);
        cut.list("authors", &mut view.authors, |cut, author| {
            for field in [&mut author.name, &mut author.email, &mut author.uri] {
                cut.maybe("authors", LINE, field);
            }
        });
        cut.list("categories", &mut view.categories, |cut, it| cut.text("categories", LINE, it));
        cut.list("enclosures", &mut view.enclosures, |cut, it| {
            cut.text("enclosures", LINE, &mut it.url);
            cut.maybe("enclosures", LINE, &mut it.mime);
        });
        view.truncated = cut.fields;
        view
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl From<EntryRow> for EntryView {
    fn from(row: EntryRow) -> Self {
        let entry = row.entry;
        let enclosures = entry.enclosures.into_iter();
        let enclosures =
            enclosures.map(|it| Attachment { url: it.url, mime: it.mime, length: it.length });
        Self {
            id: row.id.to_string(),
            uid: entry.uid,
            feed_id: row.feed_id.to_string(),
            canonical_link: entry.canonical_link,
            given_link: entry.given_link,
            title: entry.title,
            summary: entry.summary,
            content: entry.content,
            authors: entry.authors.into_iter().map(Author::from).collect(),
            categories: entry.categories,
            enclosures: enclosures.collect(),
            published: time(entry.published),
            updated: time(entry.updated),
            cut: entry.cut,
            content_hash: hex(&row.content_hash),
            first_seen: Time(row.first_seen),
            last_seen: Time(row.last_seen),
            seen_count: row.seen_count,
            fetch: row.fetch.map(|id| id.to_string()),
            truncated: Vec::new(),
        }
    }
}

/// What an article has in common with the copies of it.
#[derive(Debug, Serialize, ToSchema)]
struct Likeness {
    /// The first of the copies that we had.
    cluster: String,
    /// The one that it is nearest to.
    nearest: String,
    /// The share of text in common with that one.
    share: f64,
    /// Whether the copies are at several publishers.
    wire: bool,
}

/// What a publisher says about the use of a page.
#[derive(Debug, Serialize, ToSchema)]
struct RightsView {
    robots: Vec<String>,
    uses: BTreeMap<String, String>,
    tdm_reservation: Option<bool>,
    tdm_policy: Option<String>,
    license: Option<String>,
    copyright: Option<String>,
}

impl From<Rights> for RightsView {
    fn from(rights: Rights) -> Self {
        let Rights { robots, uses, tdm_reservation, tdm_policy, license, copyright } = rights;
        Self { robots, uses, tdm_reservation, tdm_policy, license, copyright }
    }
}

/// What a page says once everything around it is taken away.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Article)]
pub(in crate::api) struct ArticleView {
    pub(in crate::api) id: String,
    task_id: String,
    /// The name of its source.
    source: Option<String>,
    source_id: Option<String>,
    /// The category of its source.
    category: Option<String>,
    url: String,
    canonical_url: Option<String>,
    title: Option<String>,
    authors: Vec<String>,
    published: Option<Time>,
    updated: Option<Time>,
    language: Option<String>,
    site_name: Option<String>,
    section: Option<String>,
    tags: Vec<String>,
    lead_image: Option<String>,
    #[serde(rename = "abstract")]
    abstract_: Option<String>,
    word_count: u32,
    /// What the text was found by.
    method: String,
    /// How sure that is, 0 to 1.
    confidence: f32,
    rights: RightsView,
    /// Names of fields that were longer than is stored, and were cut.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cut: Vec<String>,
    content_hash: String,
    simhash: String,
    /// The earlier article with the very same text.
    duplicate_of: Option<String>,
    near: Option<Likeness>,
    revision: u32,
    first_seen: Time,
    last_seen: Time,
    /// The request that brought it.
    fetch: Option<String>,
    /// Fields that are cut here because it is one of a list.
    truncated: Vec<String>,
}

impl ArticleView {
    /// The same as one of a list.
    pub(in crate::api) fn listed(row: ArticleRow, source: Option<&Source>) -> Self {
        let (mut view, mut cut) = (Self::of(row, source), Cut::default());
        for (name, field) in [
            ("canonical_url", &mut view.canonical_url),
            ("title", &mut view.title),
            ("language", &mut view.language),
            ("site_name", &mut view.site_name),
            ("section", &mut view.section),
            ("lead_image", &mut view.lead_image),
            ("rights", &mut view.rights.tdm_policy),
            ("rights", &mut view.rights.license),
            ("rights", &mut view.rights.copyright),
        ] {
            cut.maybe(name, LINE, field);
        }
        cut.text("url", LINE, &mut view.url);
        cut.maybe("abstract", TEXT, &mut view.abstract_);
        cut.list("authors", &mut view.authors, |cut, it| cut.text("authors", LINE, it));
        cut.list("tags", &mut view.tags, |cut, it| cut.text("tags", LINE, it));
        view.truncated = cut.fields;
        view
    }

    pub(in crate::api) fn of(row: ArticleRow, source: Option<&Source>) -> Self {
        let Article { url, canonical_url, title, authors, published, updated, .. } = row.article;
        let Article { language, site_name, section, tags, lead_image, abstract_, .. } = row.article;
        let Article { word_count, method, confidence, rights, cut, .. } = row.article;
        Self {
            id: row.id.to_string(),
            task_id: row.task_id.to_string(),
            source: source.map(|it| it.spec.name.clone()),
            source_id: source.map(|it| it.uuid.clone()),
            category: source.and_then(|it| it.spec.category.clone()),
            url,
            canonical_url,
            title,
            authors,
            published: time(published),
            updated: time(updated),
            language,
            site_name,
            section,
            tags,
            lead_image,
            abstract_,
            word_count,
            method,
            confidence,
            rights: rights.into(),
            cut,
            content_hash: hex(&row.content_hash),
            simhash: format!("{:016x}", row.simhash),
            duplicate_of: row.duplicate_of.map(|id| id.to_string()),
            near: row.near.map(|near| Likeness {
                cluster: near.cluster.to_string(),
                nearest: near.nearest.to_string(),
                share: near.share,
                wire: near.wire,
            }),
            revision: row.revision,
            first_seen: Time(row.first_seen),
            last_seen: Time(row.last_seen),
            fetch: row.fetch.map(|id| id.to_string()),
            truncated: Vec::new(),
        }
    }
}

/// Who told of an article, and when first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reference)]
pub(in crate::api) struct ReferenceView {
    source: Option<String>,
    source_id: Option<String>,
    category: Option<String>,
    /// The feed or sitemap.
    channel: Option<String>,
    /// feed, sitemap, spider or manual.
    origin: String,
    first_seen: Time,
}

impl From<Reference> for ReferenceView {
    fn from(told: Reference) -> Self {
        let Reference { source, source_id, category, channel, origin, first_seen } = told;
        let (origin, first_seen) = (origin.to_string(), Time(first_seen));
        Self { source, source_id, category, channel, origin, first_seen }
    }
}

/// How much a form differs from the one before.
#[derive(Debug, Serialize, ToSchema)]
struct ChangeView {
    /// Words that were added.
    added: u32,
    /// Words that were removed.
    removed: u32,
    /// Whether the page kept its date.
    silent: bool,
}

/// A form that an article has had.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Revision)]
pub(in crate::api) struct RevisionView {
    revision: u32,
    seen: Time,
    title: Option<String>,
    updated: Option<Time>,
    word_count: u32,
    content_hash: String,
    change: Option<ChangeView>,
    fetch: Option<String>,
}

impl From<Revision> for RevisionView {
    fn from(form: Revision) -> Self {
        Self {
            revision: form.revision,
            seen: Time(form.seen),
            title: form.title,
            updated: time(form.updated),
            word_count: form.word_count,
            content_hash: hex(&form.content_hash),
            change: form.change.map(|Change { added, removed, silent }| ChangeView {
                added,
                removed,
                silent,
            }),
            fetch: form.fetch.map(|id| id.to_string()),
        }
    }
}

/// A request that was made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fetch)]
pub(in crate::api) struct FetchView {
    pub(in crate::api) id: String,
    task_id: Option<String>,
    at: Time,
    url: String,
    /// The status of the answer; null when there was none.
    status: Option<u16>,
    /// What it came to.
    code: String,
    bytes: u64,
    elapsed_ms: u64,
    content_type: Option<String>,
    body_sha256: Option<String>,
    /// Whether the answer is still kept.
    kept: bool,
}

impl From<&FetchRecord> for FetchView {
    fn from(fetch: &FetchRecord) -> Self {
        Self {
            id: fetch.id.to_string(),
            task_id: fetch.task.map(|id| id.to_string()),
            at: Time(fetch.at),
            url: fetch.url.clone(),
            status: fetch.status,
            code: fetch.code.to_string(),
            bytes: fetch.bytes,
            elapsed_ms: fetch.elapsed_ms,
            content_type: fetch.content_type.clone(),
            body_sha256: fetch.body_sha256.clone(),
            kept: fetch.raw.is_some(),
        }
    }
}
