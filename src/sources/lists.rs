//! Lists of sources as others keep them: OPML, spreadsheets, JSON and plain addresses. Pure.
//!
//! A list is read whole or not at all: [`ListText::open`] checks all of it and counts its rows, and
//! [`ListText::each`] goes over them one at a time, so that no list is ever held as rows. A row says
//! fields of a source, or what is wrong with that row; whether a source can be made of it is decided by
//! [`plan`](super::plan).

mod csv;
mod json;
mod write;

use std::borrow::Cow;

use feedmill_formats::charset::{self, Markup};
use feedmill_formats::json::Limits;
use feedmill_formats::opml::{self, Opml, OpmlError, Subscription};
use serde_json::{Value, json};

use super::{MAX_NAME, Wanted, fields};
use crate::model::{NewSource, named};

pub use write::{COLUMNS, write};

/// The most bytes of a list.
pub const MAX_BYTES: usize = 64 << 20;
/// The most bytes of a row.
const MAX_ROW: usize = 1 << 20;
/// The most rows of a list.
pub const MAX_ROWS: usize = 100_000;
/// The most values and levels of a row in JSON.
const ROW_LIMITS: Limits = Limits { depth: 16, values: 20_000, nul: true };
/// Names that mean nothing here and are reported by name.
const MAX_NOTES: usize = 50;

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

    /// Whether it brings expressions, which take time to check.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        self.said.iter().any(|(name, _)| fields::canonical(name) == "article_url_patterns")
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
    /// It has too many rows.
    #[error("the list has more than {MAX_ROWS} rows: split it into several")]
    TooManyRows,
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
            Self::TooManyRows => "too_many_rows",
        }
    }
}

/// A list that can be read: its text, and what was found out by the first look at all of it.
#[derive(Debug)]
pub struct ListText<'a> {
    /// How it is written.
    pub format: Format,
    /// How many rows it has.
    pub rows: usize,
    /// What of it was not understood, and does no harm; complete after [`ListText::each`].
    notes: Vec<String>,
    content: Content<'a>,
}

#[derive(Debug)]
enum Content<'a> {
    Text(Cow<'a, str>),
    /// Outlines are bounded in number by their parser.
    Outlines(Opml),
}

impl<'a> ListText<'a> {
    /// Checks a list, in the format that is named or else the one that it looks like. What is refused as
    /// a whole is refused here.
    pub fn open(body: &'a [u8], format: Option<Format>) -> Result<Self, ListError> {
        if body.len() > MAX_BYTES {
            return Err(ListError::TooLarge);
        }
        let marked = marked(body);
        let text = match &marked {
            Cow::Borrowed(body) => charset::decode(body, None, Markup::Xml).text,
            Cow::Owned(body) => {
                Cow::Owned(charset::decode(body, None, Markup::Xml).text.into_owned())
            }
        };
        if text.trim().is_empty() {
            return Err(ListError::Empty);
        }
        let format = match format {
            Some(format) => format,
            None => recognise(&text)?,
        };
        let mut notes = Vec::new();
        let (rows, content) = match format {
            Format::Opml => {
                let outlines = outlines(&marked, &mut notes)?;
                (outlines.feeds.len(), Content::Outlines(outlines))
            }
            Format::Csv => (csv::count(&text)?, Content::Text(text)),
            Format::Json => (json::count(&text)?, Content::Text(text)),
            Format::Urls => (addresses(&text).count(), Content::Text(text)),
        };
        match rows {
            0 => Err(ListError::Empty),
            rows if rows > MAX_ROWS => Err(ListError::TooManyRows),
            rows => Ok(Self { format, rows, notes, content }),
        }
    }

    /// Calls `each` with every row in the order of the list, until it says `false`; what of the list was
    /// not understood, and does no harm.
    pub fn each(&self, each: &mut dyn FnMut(Row) -> bool) -> Result<Vec<String>, ListError> {
        let mut notes = self.notes.clone();
        match (&self.content, self.format) {
            (Content::Outlines(list), _) => {
                let lines = list.lines.iter().copied().chain(std::iter::repeat(0));
                let mut rows = list.feeds.iter().zip(lines).map(|(feed, line)| outline(feed, line));
                rows.all(each);
            }
            (Content::Text(text), Format::Csv) => csv::read(text, &mut notes, each)?,
            (Content::Text(text), Format::Json) => json::read(text, &mut notes, each)?,
            (Content::Text(text), Format::Urls | Format::Opml) => {
                addresses(text).all(each);
            }
        }
        Ok(notes)
    }
}

/// Reads a list into rows, for those who need all of them at once.
pub fn read(body: &[u8], format: Option<Format>) -> Result<List, ListError> {
    let list = ListText::open(body, format)?;
    let mut rows = Vec::with_capacity(list.rows);
    let notes = list.each(&mut |row| {
        rows.push(row);
        true
    })?;
    Ok(List { format: list.format, rows, notes })
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
    if csv::is_header(head(first)) {
        return Ok(Format::Csv);
    }
    let starts = first.trim_start().to_ascii_lowercase();
    if starts.starts_with("http:") || starts.starts_with("https:") {
        return Ok(Format::Urls);
    }
    Err(ListError::Unknown { line, found: excerpt(first) })
}

/// The start of a line, as much as a row may have.
fn head(line: &str) -> &str {
    line.get(..line.floor_char_boundary(MAX_ROW)).unwrap_or(line)
}

fn excerpt(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control()).take(60).collect()
}

/// Whether a line of a plain list is to be looked at.
fn is_address(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

fn addresses(text: &str) -> impl Iterator<Item = Row> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| is_address(line));
    lines.map(|(line, text): (u64, &str)| {
        // What follows a blank and a # is a remark; within an address it is a part of it.
        let text = text
            .find(" #")
            .or_else(|| text.find("\t#"))
            .map_or(text, |at| text.get(..at).unwrap_or(text));
        let entry = match oversized(text.len()) {
            Some(refusal) => Err(refusal),
            None if text.trim().contains(char::is_whitespace) => {
                Err(MORE_THAN_AN_ADDRESS.to_owned())
            }
            None => {
                Ok(Entry { said: vec![("url".to_owned(), json!(text.trim()))], disabled: None })
            }
        };
        Row { line, entry }
    })
}

const MORE_THAN_AN_ADDRESS: &str = "the line has more than an address: write one address a line, or a table (CSV) with a \
     header for other fields";

fn oversized(bytes: usize) -> Option<String> {
    (bytes > MAX_ROW).then(|| format!("the row has {bytes} bytes: {MAX_ROW} are the most"))
}

/// The feeds of OPML.
fn outlines(body: &[u8], notes: &mut Vec<String>) -> Result<Opml, ListError> {
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
    Ok(list)
}

/// The outermost outline is the category, those inside and what a feed says itself are tags.
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
    "bytes_today",
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

/// What is told of a list that says how its sources are to be asked.
pub(super) const ACCESS_IGNORED: &str = "`access` is ignored but for the user agent: lists never set proxies, \
     addresses to connect from, headers or credentials; use `feedmill source access`";

/// Whether a value says more of how a source is asked than a list may say.
pub(super) fn sets_access(name: &str, value: &Value) -> bool {
    let is_nothing = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    };
    fields::canonical(name) == "access"
        && match value {
            Value::Object(parts) => {
                parts.iter().any(|(part, value)| part != "user_agent" && !is_nothing(value))
            }
            other => !is_nothing(other),
        }
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
            // Whoever writes a list must not decide where requests go and what they carry.
            "access" => {
                let agent = value.get("user_agent").filter(|agent| agent.is_string());
                said.extend(agent.map(|agent| ("user_agent".to_owned(), agent.clone())));
            }
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
