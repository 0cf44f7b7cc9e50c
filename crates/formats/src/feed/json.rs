//! JSON Feed 1.0 and 1.1, and what publishers take for it.
//!
//! The document is cut into its members first and each is read by itself, so that a member that
//! cannot be read, or a document that ends too early, costs no other.

use std::ops::Range;

use ::url::Url;
use serde_json::{Map, Value};

use super::draft::{Draft, add_address, file_under};
use super::leaf::filled;
use super::warning::Fault;
use super::{Author, Enclosure, Feed, FeedError, Format, Limits, absolute, html};
use crate::xml::text;

type Object = Map<String, Value>;

pub(super) fn parse(
    document: &str,
    base: Option<&Url>,
    limits: &Limits,
) -> Result<Feed, FeedError> {
    let start = document.find('{').unwrap_or_default();
    let outer = Pieces::of(document, start, b'{', limits.depth)?;
    let mut object = Object::new();
    let mut items = None;
    let mut bad = Vec::new();
    for piece in &outer.pieces {
        let Some((key, value)) = member(document, piece) else { continue };
        if key == "items" && document.as_bytes().get(value.start) == Some(&b'[') {
            items = Some(Pieces::of(document, value.start, b'[', limits.depth)?);
            continue;
        }
        match serde_json::from_str(document.get(value).unwrap_or_default()) {
            Ok(value) => drop(object.insert(key, value)),
            Err(_) => bad.push(key),
        }
    }
    let says_so = string(&object, "version").is_some_and(|says| says.contains("jsonfeed.org"));
    if items.is_none() && !says_so {
        return Err(FeedError::NotAFeed);
    }
    let items = items.unwrap_or_default();
    if !outer.is_whole && items.pieces.is_empty() && !object.contains_key("title") {
        return Err(FeedError::Malformed("it ends before its first item".to_owned()));
    }
    let mut feed = head(&object, base);
    for key in bad {
        feed.warn(Fault::BadType, &key);
    }
    if !outer.is_whole {
        feed.warn(Fault::Truncated, "items");
    }
    read_items(document, &items, &mut feed, base, limits);
    Ok(feed)
}

fn read_items(
    document: &str,
    items: &Pieces,
    feed: &mut Feed,
    base: Option<&Url>,
    limits: &Limits,
) {
    if items.pieces.len() > limits.items {
        feed.warn(Fault::TooManyItems, &limits.items.to_string());
    }
    for piece in items.pieces.iter().take(limits.items) {
        let text = document.get(piece.clone()).unwrap_or_default();
        let Ok(Value::Object(item)) = serde_json::from_str(text) else {
            feed.warn(Fault::BadItem, text);
            continue;
        };
        for key in ["id", "title", "url"] {
            if item.get(key).is_some_and(|value| !value.is_string() && !value.is_null()) {
                feed.warn(Fault::BadType, key);
            }
        }
        let (mut entry, unread_dates) = draft(&item, base, limits).finish();
        entry.raw = piece.clone();
        for date in unread_dates {
            feed.warn(Fault::BadDate, &date);
        }
        feed.entries.push(entry);
    }
}

/// The members of an object or a list, as they stand in the document.
#[derive(Default)]
struct Pieces {
    pieces: Vec<Range<usize>>,
    /// Whether its end was found.
    is_whole: bool,
}

impl Pieces {
    /// Cuts what starts with this bracket; a piece that does not end is left out.
    fn of(document: &str, start: usize, open: u8, max_depth: usize) -> Result<Self, FeedError> {
        let bytes = document.as_bytes();
        let mut found = Self::default();
        if bytes.get(start) != Some(&open) {
            return Ok(found);
        }
        let (mut at, mut piece, mut depth) = (start + 1, start + 1, 0_usize);
        while let Some(b) = bytes.get(at) {
            match b {
                b'"' => match end_of_string(bytes, at) {
                    Some(end) => at = end,
                    None => break,
                },
                b'{' | b'[' if depth >= max_depth => return Err(FeedError::TooDeep(max_depth)),
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth > 0 => depth -= 1,
                b',' | b'}' | b']' if depth == 0 => {
                    found.add(document, piece..at);
                    piece = at + 1;
                    if *b != b',' {
                        found.is_whole = true;
                        return Ok(found);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        // A list inside of what broke off: its last piece may be whole.
        if open == b'{' && depth > 0 {
            found.add(document, piece..bytes.len());
        }
        Ok(found)
    }

    fn add(&mut self, document: &str, piece: Range<usize>) {
        let text = document.get(piece.clone()).unwrap_or_default();
        let start = piece.start + (text.len() - text.trim_start().len());
        let end = start + text.trim().len();
        if start < end {
            self.pieces.push(start..end);
        }
    }
}

/// Where the string that starts here ends.
fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

/// The name of a member, and where its value is.
fn member(document: &str, piece: &Range<usize>) -> Option<(String, Range<usize>)> {
    let end = end_of_string(document.as_bytes(), piece.start).filter(|end| *end < piece.end)?;
    let key = serde_json::from_str(document.get(piece.start..=end)?).ok()?;
    let rest = document.get(end + 1..piece.end)?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    Some((key, piece.end - value.len()..piece.end))
}

fn head(object: &Object, base: Option<&Url>) -> Feed {
    let mut feed = Feed::new(Format::Json);
    let version = line(object, "version");
    feed.version = version.map(|version| version.rsplit('/').next().unwrap_or_default().to_owned());
    feed.title = line(object, "title");
    feed.link = address(object, "home_page_url", base);
    feed.description = string(object, "description");
    feed.language = line(object, "language");
    feed.image = address(object, "icon", base).or_else(|| address(object, "favicon", base));
    feed.self_link = address(object, "feed_url", base);
    feed.paging.next = address(object, "next_url", base);
    feed.paging.complete = object.get("expired").and_then(Value::as_bool).unwrap_or(false);
    feed.authors = authors(object, base);
    for hub in list(object, "hubs") {
        let address = hub.as_object().and_then(|hub| address(hub, "url", base));
        add_address(&mut feed.hubs, address);
    }
    feed
}

fn draft(item: &Object, base: Option<&Url>, limits: &Limits) -> Draft {
    let capped = |mut text: String| {
        text.truncate(text.floor_char_boundary(limits.text));
        text
    };
    let escaped = |text: String| text::escape(&text);
    let linked = |text: String| match base {
        Some(base) => html::absolute(&text, base).into_owned(),
        None => text,
    };
    let mut draft = Draft::default();
    draft.id.offer(0, line(item, "id"));
    draft.link.offer(0, address(item, "url", base));
    draft.link.offer(1, address(item, "external_url", base));
    draft.title.offer(0, line(item, "title"));
    draft.summary.offer(0, string(item, "summary").map(escaped).map(capped));
    draft.content.offer(0, string(item, "content_html").map(capped).map(linked));
    draft.content.offer(1, string(item, "content_text").map(escaped).map(capped));
    draft.image.offer(0, address(item, "image", base));
    draft.image.offer(1, address(item, "banner_image", base));
    draft.published.offer(0, line(item, "date_published"));
    draft.updated.offer(0, line(item, "date_modified"));
    for author in authors(item, base) {
        draft.makers.add(0, author);
    }
    draft.entry.language = line(item, "language");
    for tag in list(item, "tags") {
        file_under(&mut draft.entry.categories, scalar(tag));
    }
    for attachment in list(item, "attachments").iter().filter_map(Value::as_object) {
        if let Some(url) = address(attachment, "url", base) {
            let length = attachment.get("size_in_bytes").and_then(Value::as_u64);
            draft.enclose(Enclosure { url, mime: line(attachment, "mime_type"), length });
        }
    }
    draft
}

/// Version 1.1 has a list of authors, 1.0 has one; either may stand where the other should, or be a
/// mere name. An author may be named in both.
fn authors(object: &Object, base: Option<&Url>) -> Vec<Author> {
    let author = |value: &Value| match value {
        Value::Object(author) => {
            Author { name: line(author, "name"), email: None, uri: address(author, "url", base) }
        }
        name => Author { name: scalar(name), ..Author::default() },
    };
    let mut found: Vec<Author> = Vec::new();
    for value in [object.get("authors"), object.get("author")].into_iter().flatten() {
        let one = std::slice::from_ref(value);
        for author in value.as_array().map_or(one, Vec::as_slice).iter().map(author) {
            if author != Author::default() && !found.contains(&author) {
                found.push(author);
            }
        }
    }
    found
}

fn list<'a>(object: &'a Object, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A text, or a number or truth value where a text should be.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => filled(text::clean(text.trim().to_owned())),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn string(object: &Object, key: &str) -> Option<String> {
    scalar(object.get(key)?)
}

fn line(object: &Object, key: &str) -> Option<String> {
    filled(text::one_line(&string(object, key)?))
}

fn address(object: &Object, key: &str, base: Option<&Url>) -> Option<String> {
    absolute(base, &string(object, key)?)
}
