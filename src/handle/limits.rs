//! How long each stored field may be. Pure.
//!
//! Whoever writes a feed or a page decides how long its fields are, and all of them are stored, sent to
//! sinks and shown in lists. So each has a limit here, in bytes of UTF-8. Text is cut at a character,
//! markup before a tag that would be torn; a URL that is too long is dropped, as a part of it is another
//! URL; an id that is too long is replaced by its hash. What was cut is listed in the record's `cut`, and
//! a feed's warnings tell it as `text_cut`.

use feedmill_formats::rights::Rights;
use feedmill_formats::url::MAX_LEN;
use serde_json::Value;

use crate::model::{Article, Entry, Outcome, UrlHash, Validators};

/// Bytes of the title of an entry, an article or a feed.
pub const TITLE_BYTES: usize = 4_000;
/// Bytes of an entry's summary.
pub const SUMMARY_BYTES: usize = 64_000;
/// Bytes of an entry's content.
pub const CONTENT_BYTES: usize = 1_000_000;
/// Bytes of an article's text.
pub const TEXT_BYTES: usize = 2_000_000;
/// Bytes of an article's first paragraph.
pub const ABSTRACT_BYTES: usize = 16_000;
/// Bytes of a name, a label, a media type, a language, a date as written.
pub const NAME_BYTES: usize = 500;
/// Authors, or enclosures, of one entry or article.
pub const MAX_PARTS: usize = 100;
/// Categories or tags of one entry or article.
pub const MAX_LABELS: usize = 200;
/// Bytes of an id that a feed gives an entry, and of a URL.
pub const ID_BYTES: usize = MAX_LEN;
/// Bytes of an `ETag` or `Last-Modified` header: one that is longer is not kept.
pub const VALIDATOR_BYTES: usize = 1_024;
/// Bytes of a reason or a warning's detail.
pub const REASON_BYTES: usize = 1_000;
/// Bytes of a text in an event's payload.
pub const PAYLOAD_BYTES: usize = 16_000;

/// Cuts a text at a character; whether it was too long.
fn cut(text: &mut String, most: usize) -> bool {
    let is_long = text.len() > most;
    text.truncate(text.floor_char_boundary(most));
    is_long
}

/// Cuts markup, not within a tag.
fn cut_markup(text: &mut String, most: usize) -> bool {
    let is_long = cut(text, most);
    if is_long
        && let Some(open) = text.rfind('<')
        && text.get(open..).is_some_and(|tail| !tail.contains('>'))
    {
        text.truncate(open);
    }
    is_long
}

fn cut_some(text: &mut Option<String>, most: usize) -> bool {
    text.as_mut().is_some_and(|text| cut(text, most))
}

/// Drops a URL that is too long.
fn drop_long(url: &mut Option<String>) -> bool {
    url.take_if(|url| url.len() > MAX_LEN).is_some()
}

fn cut_all(texts: &mut Vec<String>, most: usize) -> bool {
    let are_many = texts.len() > most;
    texts.truncate(most);
    texts.iter_mut().fold(are_many, |is_long, text| cut(text, NAME_BYTES) || is_long)
}

/// The names of fields that were cut.
#[derive(Default)]
struct Cuts(Vec<String>);

impl Cuts {
    fn note(&mut self, field: &str, was_cut: bool) {
        if was_cut && self.0.iter().all(|known| known != field) {
            self.0.push(field.to_owned());
        }
    }
}

/// The id of an entry as it is kept: one that is too long is known by its hash.
#[must_use]
pub fn uid(uid: String) -> String {
    match uid.split_once(':') {
        Some((kind, _)) if uid.len() > ID_BYTES => format!("{kind}:sha256:{}", UrlHash::of(&uid)),
        _ => uid,
    }
}

/// Cuts what is too long of an entry, and notes it there.
pub fn entry(entry: &mut Entry) {
    let mut cuts = Cuts::default();
    cuts.note("uid", entry.uid.len() > ID_BYTES);
    entry.uid = uid(std::mem::take(&mut entry.uid));
    cuts.note("canonical_link", drop_long(&mut entry.canonical_link));
    cuts.note("given_link", drop_long(&mut entry.given_link));
    cuts.note("title", cut_some(&mut entry.title, TITLE_BYTES));
    let summary = entry.summary.as_mut();
    cuts.note("summary", summary.is_some_and(|text| cut_markup(text, SUMMARY_BYTES)));
    let content = entry.content.as_mut();
    cuts.note("content", content.is_some_and(|text| cut_markup(text, CONTENT_BYTES)));
    cuts.note("authors", entry.authors.len() > MAX_PARTS);
    entry.authors.truncate(MAX_PARTS);
    for author in &mut entry.authors {
        cuts.note("authors", cut_some(&mut author.name, NAME_BYTES));
        cuts.note("authors", cut_some(&mut author.email, NAME_BYTES));
        cuts.note("authors", drop_long(&mut author.uri));
    }
    cuts.note("categories", cut_all(&mut entry.categories, MAX_LABELS));
    cuts.note("enclosures", entry.enclosures.len() > MAX_PARTS);
    entry.enclosures.truncate(MAX_PARTS);
    let before = entry.enclosures.len();
    entry.enclosures.retain(|file| file.url.len() <= MAX_LEN);
    cuts.note("enclosures", entry.enclosures.len() < before);
    for file in &mut entry.enclosures {
        cuts.note("enclosures", cut_some(&mut file.mime, NAME_BYTES));
    }
    cuts.note("published_raw", cut_some(&mut entry.published_raw, NAME_BYTES));
    cuts.note("updated_raw", cut_some(&mut entry.updated_raw, NAME_BYTES));
    entry.cut = cuts.0;
}

/// Cuts what is too long of an article and of its text, and notes it there.
pub fn article(article: &mut Article, text: &mut String) {
    let mut cuts = Cuts::default();
    cuts.note("text", cut(text, TEXT_BYTES));
    cuts.note("canonical_url", drop_long(&mut article.canonical_url));
    cuts.note("lead_image", drop_long(&mut article.lead_image));
    cuts.note("title", cut_some(&mut article.title, TITLE_BYTES));
    cuts.note("abstract", cut_some(&mut article.abstract_, ABSTRACT_BYTES));
    cuts.note("authors", cut_all(&mut article.authors, MAX_PARTS));
    cuts.note("tags", cut_all(&mut article.tags, MAX_LABELS));
    cuts.note("language", cut_some(&mut article.language, NAME_BYTES));
    cuts.note("site_name", cut_some(&mut article.site_name, NAME_BYTES));
    cuts.note("section", cut_some(&mut article.section, NAME_BYTES));
    cuts.note("rights", rights(&mut article.rights));
    article.cut = cuts.0;
}

fn rights(rights: &mut Rights) -> bool {
    let mut is_long = cut_all(&mut rights.robots, MAX_LABELS);
    is_long |= rights.uses.len() > MAX_LABELS;
    let uses = std::mem::take(&mut rights.uses).into_iter().take(MAX_LABELS);
    rights.uses = uses
        .map(|(mut name, mut value)| {
            is_long |= cut(&mut name, NAME_BYTES) | cut(&mut value, NAME_BYTES);
            (name, value)
        })
        .collect();
    is_long |= drop_long(&mut rights.tdm_policy);
    is_long |= cut_some(&mut rights.license, MAX_LEN);
    is_long | cut_some(&mut rights.copyright, TITLE_BYTES)
}

/// Validators that are too long are not kept: a part of one is none.
fn validators(validators: &mut Validators) {
    validators.etag.take_if(|tag| tag.len() > VALIDATOR_BYTES);
    validators.last_modified.take_if(|date| date.len() > VALIDATOR_BYTES);
}

fn payload(value: &mut Value) {
    match value {
        Value::String(text) => drop(cut(text, PAYLOAD_BYTES)),
        Value::Array(values) => values.iter_mut().for_each(payload),
        Value::Object(values) => values.values_mut().for_each(payload),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Cuts what else an outcome stores.
pub fn outcome(outcome: &mut Outcome) {
    cut(&mut outcome.reason, REASON_BYTES);
    if let Some((kept, _)) = &mut outcome.validators {
        validators(kept);
    }
    if let Some(feed) = &mut outcome.feed {
        cut_some(&mut feed.state.title, TITLE_BYTES);
        for warning in &mut feed.state.warnings {
            cut(&mut warning.detail, REASON_BYTES);
        }
    }
    for fetch in &mut outcome.fetches {
        cut_some(&mut fetch.content_type, NAME_BYTES);
    }
    let deleted = outcome.deleted.iter_mut().map(|(_, event)| event);
    for event in outcome.events.iter_mut().chain(deleted) {
        payload(&mut event.payload);
    }
}

#[cfg(test)]
mod tests;
