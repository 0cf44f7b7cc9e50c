//! Lists of sources as others keep them: OPML, spreadsheets, JSON and plain addresses. Pure.
//!
//! A list is read whole or not at all. A row of it says fields of a source, or what is wrong with that
//! row; whether a source can be made of it is decided by [`plan`](super::plan).

mod csv;
mod json;
mod write;

use std::borrow::Cow;

use feedmill_formats::charset::{self, Markup};
use feedmill_formats::opml::{self, OpmlError, Subscription};
use serde_json::{Value, json};

use super::{MAX_NAME, Wanted, fields};
use crate::model::{NewSource, named};

pub use write::{COLUMNS, write};

/// The most bytes of a list.
pub const MAX_BYTES: usize = 64 << 20;
/// The most bytes of a row.
const MAX_ROW: usize = 1 << 20;

named! {
    /// How a list is written.
    pub enum Format {
        /// Outlines of subscriptions.
        Opml = 0 "opml",
        /// A table with a header.
        Csv = 1 "csv",
        /// Strings or objects.
        Json = 2 "json",
        /// One address in a line.
        Urls = 3 "urls",
    }
}

/// A list of sources.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// How it is written.
    pub format: Format,
    /// Its rows, in its order.
    pub rows: Vec<Row>,
    /// What of it was not understood, and does no harm.
    pub notes: Vec<String>,
}

/// A row of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Where it stands.
    pub line: u64,
    /// What it says, or why it cannot be read.
    pub entry: Result<Entry, String>,
}

/// What a row says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// Fields of a source.
    pub said: Vec<(String, Value)>,
    /// Why it is not to be followed for now.
    pub disabled: Option<String>,
}

impl Entry {
    /// What is wanted by it.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        Wanted { said: self.said.clone(), ..Wanted::default() }
    }
}

/// Why there is no list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// It has too many bytes.
    #[error("the list is larger than {} MiB: cut it into several", MAX_BYTES >> 20)]
    TooLarge,
    /// There is nothing in it.
    #[error("the list is empty")]
    Empty,
    /// It is none of the lists that we know.
    #[error(
        "this is no list that can be read: it must be OPML, JSON, one address in a line, or a table \
         whose first line names its columns, such as name,url,feed_url (or with ; or tabs between); line \
         {line} is `{found}`"
    )]
    Unknown {
        /// The first line with something on it.
        line: u64,
        /// What that is.
        found: String,
    },
    /// A table without the columns that make a source.
    #[error(
        "the first line names no column for an address: write url, feed_url or sitemap_url among the \
         columns, with , or ; or a tab between; it is `{0}`"
    )]
    NoColumn(String),
    /// A quotation mark without its end.
    #[error("the quotation mark in line {0} is never closed")]
    Unclosed(u64),
    /// It is no JSON.
    #[error("this is not JSON: {0}")]
    Json(String),
    /// JSON without a list of sources in it.
    #[error(
        "there is no list of sources in this JSON: write an array of addresses or objects, \
         {{\"seeds\": […]}}, or an object with an array for each category"
    )]
    NoArray,
    /// It is no OPML, or breaks one of its limits.
    #[error(transparent)]
    Opml(#[from] OpmlError),
    /// It ends in the middle.
    #[error("the list ends too early: it was cut off")]
    Truncated,
}

impl ListError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Empty => "empty_list",
            Self::Unknown { .. } => "unknown_list",
            Self::NoColumn(_) => "no_column",
            Self::Unclosed(_) => "unclosed_quote",
            Self::Json(_) => "not_json",
            Self::NoArray => "no_array",
            Self::Opml(error) => error.code(),
            Self::Truncated => "truncated",
        }
    }
}

/// Reads a list, in the format that is named or else the one that it looks like.
pub fn read(body: &[u8], format: Option<Format>) -> Result<List, ListError> {
    if body.len() > MAX_BYTES {
        return Err(ListError::TooLarge);
    }
    let body = &*marked(body);
    let text = charset::decode(body, None, Markup::Xml).text;
    if text.trim().is_empty() {
        return Err(ListError::Empty);
    }
    let format = match format {
        Some(format) => format,
        None => recognise(&text)?,
    };
    let mut notes = Vec::new();
    let rows = match format {
        Format::Opml => outlines(body, &mut notes)?,
        Format::Csv => csv::read(&text, &mut notes)?,
        Format::Json => json::read(&text, &mut notes)?,
        Format::Urls => addresses(&text),
    };
    if rows.is_empty() { Err(ListError::Empty) } else { Ok(List { format, rows, notes }) }
}

/// Text in UTF-16 gets the mark that it came without: some spreadsheets forget it.
fn marked(body: &[u8]) -> Cow<'_, [u8]> {
    match body {
        [first, 0, ..] if *first != 0 => Cow::Owned([&[0xff, 0xfe], body].concat()),
        [0, second, ..] if *second != 0 => Cow::Owned([&[0xfe, 0xff], body].concat()),
        _ => Cow::Borrowed(body),
    }
}

/// The format that a list looks like.
fn recognise(text: &str) -> Result<Format, ListError> {
    match text.trim_start().chars().next() {
        Some('<') => return Ok(Format::Opml),
        Some('[' | '{') => return Ok(Format::Json),
        _ => {}
    }
    let lines = (1..).zip(text.lines());
    let mut telling = lines.filter(|(_, line)| is_address(line));
    let Some((line, first)) = telling.next() else { return Err(ListError::Empty) };
    if csv::is_header(first) {
        return Ok(Format::Csv);
    }
    let starts = first.trim_start().to_ascii_lowercase();
    if starts.starts_with("http:") || starts.starts_with("https:") {
        return Ok(Format::Urls);
    }
    Err(ListError::Unknown { line, found: excerpt(first) })
}

fn excerpt(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control()).take(60).collect()
}

/// Whether a line of a plain list is to be looked at.
fn is_address(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

fn addresses(text: &str) -> Vec<Row> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| is_address(line));
    let row = |(line, text): (u64, &str)| {
        // What follows a blank and a # is a remark; within an address it is a part of it.
        let text = text
            .find(" #")
            .or_else(|| text.find("\t#"))
            .map_or(text, |at| text.get(..at).unwrap_or(text));
        let entry = match oversized(text.len()) {
            Some(refusal) => Err(refusal),
            None => {
                Ok(Entry { said: vec![("url".to_owned(), json!(text.trim()))], disabled: None })
            }
        };
        Row { line, entry }
    };
    lines.map(row).collect()
}

fn oversized(bytes: usize) -> Option<String> {
    (bytes > MAX_ROW).then(|| format!("the row has {bytes} bytes: {MAX_ROW} are the most"))
}

/// The feeds of OPML: the outermost outline is the category, those inside and what a feed says itself
/// are tags.
fn outlines(body: &[u8], notes: &mut Vec<String>) -> Result<Vec<Row>, ListError> {
    let list = opml::parse(body)?;
    if list.truncated {
        return Err(ListError::Truncated);
    }
    if list.repeated > 0 {
        notes.push(format!("{} feeds stand in their outline more than once", list.repeated));
    }
    if list.left_out > 0 {
        notes.push(format!("{} feeds are more than a list may have, and left out", list.left_out));
    }
    let lines = list.lines.iter().copied().chain(std::iter::repeat(0));
    Ok(list.feeds.iter().zip(lines).map(|(feed, line)| outline(feed, line)).collect())
}

fn outline(feed: &Subscription, line: u64) -> Row {
    let label = |text: &str| text.chars().take(MAX_NAME).collect::<String>();
    let mut labels: Vec<String> = Vec::new();
    if let [first, more @ ..] = feed.categories.as_slice() {
        labels.extend(opml::levels(first));
        labels.extend(more.iter().filter(|more| *more != first).cloned());
    }
    let mut labels = labels.iter().map(|text| label(&text.replace(';', ",")));
    let category = labels.next();
    let tags: Vec<String> = labels.collect();
    let title = feed.title.as_deref().filter(|title| *title != feed.feed_url);
    let mut said = vec![("feed_urls".to_owned(), json!([feed.feed_url]))];
    let home = feed.home_url.as_ref().filter(|home| feedmill_formats::url::parse(home).is_ok());
    said.extend(home.map(|home| ("url".to_owned(), json!(home))));
    said.extend(title.map(|title| ("name".to_owned(), json!(label(title)))));
    said.extend(category.map(|category| ("category".to_owned(), json!(category))));
    if !tags.is_empty() {
        said.push(("tags".to_owned(), json!(tags)));
    }
    let bytes = feed.feed_url.len() + feed.home_url.as_ref().map_or(0, String::len);
    let entry = match oversized(bytes) {
        Some(refusal) => Err(refusal),
        None => Ok(Entry { said, disabled: None }),
    };
    Row { line, entry }
}

/// What other systems note of a source for themselves, and what we note of it.
const PRIVATE: &[&str] = &[
    "id",
    "uuid",
    "guid",
    "source_id",
    "created_at",
    "updated_at",
    "enabled_at",
    "disabled_at",
    "health",
    "disabled_channels",
    "time",
    "type",
    "identity_key",
    "extraction_profile",
    "template_hint",
    "render_mode",
    "indigenous_region",
    "data_format",
    "update_frequency",
    "license_type",
    "attribution_text",
    "allow_source_discovery",
    "feed_disabled_at",
    "feed_disable_reason",
    "last_fetched_at",
    "last_modified",
    "etag",
    "fetch_error_count",
    "last_error",
];

/// Whether a name means something to us.
fn is_known(name: &str) -> bool {
    let key = fields::canonical(name);
    matches!(key.as_str(), "enabled" | "disable_reason" | "source_type")
        || PRIVATE.contains(&key.as_str())
        || fields::set(&mut NewSource::new("", ""), name, &Value::Null).is_ok()
}

/// What a row with named values says. What it means by a `url` depends on its `source_type`.
pub(super) fn entry(values: Vec<(String, Value)>) -> Result<Entry, String> {
    let (mut said, mut enabled, mut reason) = (Vec::new(), true, None);
    let mut is_feed = false;
    // Only a source-manager notes times; it writes a depth of 0 where nothing is said.
    let is_managers = values.iter().any(|(name, _)| fields::canonical(name) == "time");
    let text = |value: &Value| value.as_str().map(|text| text.trim().to_ascii_lowercase());
    for (name, value) in values {
        match fields::canonical(&name).as_str() {
            "enabled" => match (&value, text(&value).as_deref()) {
                (Value::Bool(is), _) => enabled = *is,
                (Value::Null, _) | (_, Some("" | "true" | "yes" | "on" | "1")) => {}
                (_, Some("false" | "no" | "off" | "0")) => enabled = false,
                _ => return Err(format!("`enabled` is `{value}`: write yes or no")),
            },
            // Of a source that is disabled, some only note that it was never enabled.
            "enabled_at" => enabled &= !value.is_null(),
            "disable_reason" => reason = value.as_str().map(str::to_owned),
            "source_type" => is_feed = matches!(text(&value).as_deref(), Some("rss" | "atom")),
            key if PRIVATE.contains(&key) => {}
            "max_depth" if is_managers && value == json!(0) => {}
            _ if is_known(&name) => said.push((name, value)),
            _ => {}
        }
    }
    if is_feed {
        as_feed(&mut said);
    }
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let disabled = (!enabled).then(|| reason.unwrap_or_else(|| "disabled in its list".to_owned()));
    Ok(Entry { said, disabled })
}

/// The address is that of a feed, whatever its spelling says.
pub(super) fn as_feed(said: &mut [(String, Value)]) {
    let has_feeds = said.iter().any(|(name, _)| fields::canonical(name) == "feed_urls");
    for (name, _) in said.iter_mut().filter(|_| !has_feeds) {
        if fields::canonical(name) == "url" {
            *name = "feed_urls".to_owned();
        }
    }
}

/// What an address is called in a row: the first that it names.
#[must_use]
pub fn address_of(said: &[(String, Value)]) -> Option<String> {
    let find = |wanted: &str| {
        said.iter().find(|(name, _)| fields::canonical(name) == wanted).map(|(_, value)| value)
    };
    let text = |value: &Value| match value {
        Value::Array(items) => items.first().and_then(Value::as_str).map(str::to_owned),
        other => other.as_str().map(str::to_owned),
    };
    ["feed_urls", "url", "sitemap_urls"].into_iter().find_map(|name| text(find(name)?))
}

#[cfg(test)]
mod tests;
