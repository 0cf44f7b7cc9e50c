//! How values are written down, and what a source's channels and its switches amount to: the same in
//! both backends.

use std::collections::{HashMap, HashSet};

use feedmill_formats::decode;
use feedmill_formats::sketch::Sketch;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{PriceNote, SourceError};
use crate::db::DbError;
use crate::frontier::{Candidate, Rules, admit};
use crate::model::{
    Article, ArticleRow, Ask, Change, Discovery, EventKind, FetchId, IngestionMode, Kind, NewEvent,
    NewSource, NewTask, Origin, PastForm, Reference, Revision, Source, SourceChange, SourceId,
    TaskId, Ts, UrlHash, Warned, Website,
};

/// How hard article texts are compressed.
const TEXT_LEVEL: i32 = 3;
/// A text never inflates beyond this.
const TEXT_LIMIT: usize = 64 << 20;

/// The note that holds the price of a request.
pub(super) const PRICE: &str = "schedule.price";

/// What notes of settings begin with; the key follows.
pub(super) const SETTING: &str = "setting.";

/// The price from its note.
#[expect(clippy::needless_pass_by_value, reason = "it comes from a row and goes nowhere else")]
pub(super) fn price(note: String) -> Option<f64> {
    serde_json::from_str::<PriceNote>(&note).ok().map(|note| note.value)
}

/// What was wrong with a document, from its note. What cannot be read is written anew by the next
/// document.
pub(super) fn warnings(note: Option<String>) -> Vec<Warned> {
    note.and_then(|note| serde_json::from_str(&note).ok()).unwrap_or_default()
}

/// The note of what was wrong with a document; nothing when it was fine.
pub(super) fn warnings_note(warnings: &[Warned]) -> Result<Option<String>, DbError> {
    if warnings.is_empty() { Ok(None) } else { to_json(&warnings).map(Some) }
}

/// The items that a feed's document has and that are not taken, as they are kept; nothing for none.
pub(super) fn left_out_note(ids: &[[u8; 8]]) -> Option<&[u8]> {
    Some(ids.as_flattened()).filter(|bytes| !bytes.is_empty())
}

/// The same from what is kept.
pub(super) fn left_out(bytes: Option<&[u8]>) -> Vec<[u8; 8]> {
    bytes.unwrap_or_default().as_chunks().0.to_vec()
}

pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, DbError> {
    serde_json::to_string(value).map_err(|error| DbError::Engine(error.to_string()))
}

/// A source as it is kept: with its secrets.
pub(super) fn to_spec(new: &NewSource) -> Result<String, DbError> {
    new.stored().map_err(|error| DbError::Engine(error.to_string()))
}

pub(super) fn from_json<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, DbError> {
    serde_json::from_str(text).map_err(|error| DbError::Corrupt { what, value: error.to_string() })
}

/// A text field of a document, as far as that can be read.
pub(super) fn text_field(document: &str, name: &str) -> Option<String> {
    let document: serde_json::Value = serde_json::from_str(document).ok()?;
    Some(document.get(name)?.as_str()?.to_owned())
}

/// What entries are found by that go by this id in any feed.
pub(super) fn uid_key(uid: &str) -> i64 {
    UrlHash::of(uid).head()
}

/// A source's own words, in which a feed has another address.
pub(super) fn readdressed(spec: &str, from: &str, to: &str) -> Result<String, DbError> {
    let mut spec: serde_json::Value = from_json("source", spec)?;
    for url in spec.get_mut("feed_urls").and_then(|urls| urls.as_array_mut()).into_iter().flatten()
    {
        if url == from {
            *url = json!(to);
        }
    }
    to_json(&spec)
}

/// A source's own words, with channels that were found.
pub(super) fn with_channels(spec: &str, found: &[(Kind, String)]) -> Result<String, DbError> {
    let mut spec: serde_json::Value = from_json("source", spec)?;
    for (kind, url) in found {
        let list = if *kind == Kind::Sitemap { "sitemap_urls" } else { "feed_urls" };
        if let Some(urls) = spec.get_mut(list).and_then(|urls| urls.as_array_mut())
            && !urls.contains(&json!(url))
        {
            urls.push(json!(url));
        }
    }
    to_json(&spec)
}

/// An article's text as it is kept.
pub(super) fn pack(text: &str) -> Result<Vec<u8>, DbError> {
    zstd::bulk::compress(text.as_bytes(), TEXT_LEVEL)
        .map_err(|error| DbError::Engine(error.to_string()))
}

/// An article's text from what is kept.
pub(super) fn unpack(packed: &[u8]) -> Result<String, DbError> {
    let corrupt = |value: String| DbError::Corrupt { what: "article text", value };
    let text = decode::unzstd(packed, TEXT_LIMIT).map_err(|error| corrupt(error.to_string()))?;
    String::from_utf8(text).map_err(|error| corrupt(error.to_string()))
}

/// An article's sketch from what is kept.
pub(super) fn sketch(bytes: Option<&[u8]>) -> Result<Sketch, DbError> {
    let bytes = bytes.unwrap_or_default();
    let value = || format!("{} bytes", bytes.len());
    Sketch::from_bytes(bytes).ok_or_else(|| DbError::Corrupt { what: "sketch", value: value() })
}

/// A share as it is kept, in thousandths.
pub(super) fn from_share(share: f64) -> i32 {
    (share * 1_000.0).round() as i32
}

/// A share from what is kept.
pub(super) fn to_share(thousandths: i32) -> f64 {
    f64::from(thousandths) / 1_000.0
}

/// All forms of an article, the first one first, from those that another one followed.
pub(super) fn history(now: ArticleRow, past: Vec<PastForm>) -> Vec<Revision> {
    let (mut seen, mut change) = (now.first_seen, None);
    let mut forms = Vec::with_capacity(past.len() + 1);
    for form in past {
        let PastForm { revision, until, article, content_hash, fetch, change: next } = form;
        forms.push(revised(revision, seen, change, article, content_hash, fetch));
        (seen, change) = (until, Some(next));
    }
    forms.push(revised(now.revision, seen, change, now.article, now.content_hash, now.fetch));
    forms
}

fn revised(
    revision: u32,
    seen: Ts,
    change: Option<Change>,
    article: Article,
    content_hash: [u8; 32],
    fetch: Option<FetchId>,
) -> Revision {
    let Article { title, updated, word_count, .. } = article;
    Revision { revision, seen, title, updated, word_count, content_hash, change, fetch }
}

/// Entries of a feed with one date that are looked at: those that say no more than the day have many.
pub(super) const MOST_OF_A_DATE: i64 = 50;

/// Who told of tasks, in both databases: what their own rows say, who else did, and for both the sources
/// that share the channel and are followed. Of pages that the spider walks the source's home page stands
/// for all.
pub(super) const TOLD: &str = "SELECT r.task_id, s.name, s.uuid, s.spec,
      coalesce(c.url, CASE WHEN r.origin = 2 THEN s.url END), r.origin, r.first_seen
    FROM (SELECT id AS task_id, source_id, origin, parent_id AS channel_id,
        discovered_at AS first_seen FROM task
      UNION ALL SELECT task_id, source_id, origin, channel_id, first_seen FROM task_source
      UNION ALL SELECT t.id, o.source_id, t.origin, t.parent_id,
        CASE WHEN o.first_seen > t.discovered_at THEN o.first_seen ELSE t.discovered_at END
        FROM task t JOIN task_source o ON o.task_id = t.parent_id AND o.source_id <> t.source_id
        JOIN source f ON f.id = o.source_id AND f.enabled_at IS NOT NULL WHERE t.origin IN (0, 1)
      UNION ALL SELECT t.task_id, o.source_id, t.origin, t.channel_id,
        CASE WHEN o.first_seen > t.first_seen THEN o.first_seen ELSE t.first_seen END
        FROM task_source t JOIN task_source o ON o.task_id = t.channel_id
        AND o.source_id <> t.source_id
        JOIN source f ON f.id = o.source_id AND f.enabled_at IS NOT NULL WHERE t.channel_id > 0) r
    LEFT JOIN source s ON s.id = r.source_id LEFT JOIN task c ON c.id = r.channel_id";

/// Who told of tasks, each once, in the order in which they first did.
pub(super) fn told_once(told: &mut Vec<(TaskId, Reference)>) {
    told.sort_by_key(|(_, one)| (one.first_seen, one.origin.number()));
    let mut seen = HashSet::new();
    told.retain(|(task, one)| {
        let key = (*task, one.source_id.clone(), one.channel.clone(), one.origin.number());
        one.channel.is_none() || seen.insert(key)
    });
}

/// Gives what a source leaves behind to the next who told of it: a statement for a table, with the column
/// that names the task.
pub(super) fn inherited(table: &str, task: &str) -> String {
    format!(
        "UPDATE {table} SET source_id = (SELECT r.source_id FROM task_source r
           WHERE r.task_id = {table}.{task} AND r.source_id <> $1 ORDER BY r.first_seen LIMIT 1)
         WHERE source_id = $1"
    )
}

/// The category in a source's own words.
pub(super) fn category(spec: &str) -> Option<String> {
    let spec: serde_json::Value = serde_json::from_str(spec).ok()?;
    Some(spec.get("category")?.as_str()?.to_owned())
}

/// Lets an article's event say who told of it, and under which labels.
pub(super) fn tell_sources(event: &mut NewEvent, told: &[Reference]) {
    let (sources, categories) = Reference::gathered(told);
    if let Some(payload) = event.payload.as_object_mut() {
        payload.insert("sources".to_owned(), json!(sources));
        payload.insert("categories".to_owned(), json!(categories));
    }
}

/// The recurring tasks that follow a source; one that names none has its home page looked at for some.
pub(super) fn channels(new: &NewSource, source: SourceId, discover: bool) -> Vec<NewTask> {
    let channel = |kind, url: &String| NewTask {
        url: url.clone(),
        kind,
        origin: Origin::Manual,
        source: Some(source),
        base_priority: new.priority,
        depth: 0,
        redirects: 0,
        parent: None,
        not_before: None,
        refetch: None,
    };
    if discover && new.seeks_channels() {
        return vec![channel(Kind::Probe, &new.url)];
    }
    // Who only has its site walked keeps the feeds that it names for another day.
    let polls = new.ingestion_mode != IngestionMode::Spider;
    let feeds = new.feed_urls.iter().filter(|_| polls).map(|url| channel(Kind::Feed, url));
    let sitemaps = new.sitemap_urls.iter().map(|url| channel(Kind::Sitemap, url));
    let home = match (&new.website, new.ingestion_mode) {
        (Some(Website::Direct), _) => Some(Kind::Article),
        (Some(Website::List { .. }), _) | (None, IngestionMode::Spider | IngestionMode::Both) => {
            Some(Kind::Listing)
        }
        (None, IngestionMode::Feed) => None,
    };
    feeds.chain(sitemaps).chain(home.map(|kind| channel(kind, &new.url))).collect()
}

/// The addresses of a look-up that the poll lane may know: those asked for, and what a search has left.
pub(super) fn leads(ask: &Ask, search: Option<&Discovery>, rules: &Rules) -> Vec<Candidate> {
    let left = search.into_iter().flat_map(|search| search.left.iter().map(|lead| &lead.url));
    let admitted = ask.leads.iter().chain(left).map(|url| probe(url));
    admitted.filter_map(|new| admit(&new, rules).ok()).collect()
}

fn probe(url: &str) -> NewTask {
    NewTask {
        url: url.to_owned(),
        kind: Kind::Probe,
        origin: Origin::Manual,
        source: None,
        base_priority: Source::DEFAULT_PRIORITY,
        depth: 0,
        redirects: 0,
        parent: None,
        not_before: None,
        refetch: None,
    }
}

/// The addresses that a source's channels are known by, due when it may first be polled.
pub(super) fn admitted(
    new: &NewSource,
    source: SourceId,
    first_poll: Option<Ts>,
    rules: &Rules,
) -> Vec<Candidate> {
    let tasks = channels(new, source, rules.discover).into_iter();
    let tasks = tasks.map(|task| NewTask { not_before: task.not_before.max(first_poll), ..task });
    tasks.filter_map(|task| admit(&task, rules).ok()).collect()
}

/// What a change of a source's own words means for its channels.
pub(super) struct Rechanneled {
    /// It no longer has them.
    pub(super) dropped: Vec<Candidate>,
    /// It has them from now on.
    pub(super) added: Vec<Candidate>,
    /// They are served with another priority.
    pub(super) reranked: Vec<Candidate>,
}

impl Rechanneled {
    pub(super) fn of(was: &NewSource, now: &NewSource, source: SourceId, rules: &Rules) -> Self {
        let place = |one: &Candidate| (one.host.clone(), one.kind.lane(), one.hash);
        let (before, after) =
            (admitted(was, source, None, rules), admitted(now, source, None, rules));
        let old: HashMap<_, _> = before.iter().map(|one| (place(one), one.kind)).collect();
        let new: HashSet<_> = after.iter().map(place).collect();
        // What is another kind of thing now is taken up as that.
        let is_kept = |one: &Candidate| old.get(&place(one)) == Some(&one.kind);
        let (kept, added): (Vec<_>, Vec<_>) = after.into_iter().partition(is_kept);
        let dropped = before.into_iter().filter(|one| !new.contains(&place(one))).collect();
        let reranked = if was.priority == now.priority { Vec::new() } else { kept };
        Self { dropped, added, reranked }
    }
}

/// What became of a change to a source's words.
pub(super) enum Respecified {
    Done(Box<Source>),
    Unknown,
    /// It is no longer as it was when the change was made up.
    Changed,
    /// Another source has the name.
    NameTaken(String),
}

impl Respecified {
    pub(super) fn result(self, name: &str) -> Result<Source, SourceError> {
        match self {
            Self::Done(source) => Ok(*source),
            Self::Unknown => Err(SourceError::Unknown(name.to_owned())),
            Self::Changed => Err(SourceError::Changed(name.to_owned())),
            Self::NameTaken(name) => Err(SourceError::NameTaken(name)),
        }
    }
}

/// Whether a change was made up of what still holds.
pub(super) fn holds(change: &SourceChange, source: &Source) -> bool {
    !matches!(change, SourceChange::Whole { was, .. } if **was != source.spec)
}

/// What the log says of an article that goes with its source.
pub(super) fn withdrawn(article: UrlHash, url: Option<&str>, source: &Source) -> NewEvent {
    NewEvent {
        kind: EventKind::ArticleWithdrawn,
        subject: article.to_string(),
        source: Some(source.id),
        payload: json!({"url": url, "reason": format!("its source {} was removed", source.spec.name)}),
    }
}

/// What the log says when a source is disabled, with the reason, or enabled.
pub(super) fn switched(source: &Source, disabled: Option<&str>) -> NewEvent {
    let kind = match disabled {
        Some(_) => EventKind::SourceDisabled,
        None => EventKind::SourceEnabled,
    };
    NewEvent {
        kind,
        subject: source.uuid.clone(),
        source: Some(source.id),
        payload: json!({"name": source.spec.name, "reason": disabled}),
    }
}
