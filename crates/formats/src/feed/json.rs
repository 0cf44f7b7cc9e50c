//! JSON Feed 1.0 and 1.1, and what publishers take for it.
//!
//! A field that cannot be read costs that field. One of the wrong shape is used where it is plain
//! what is meant. Either is told.

use std::ops::Range;

use ::url::Url;
use serde_json::Value;

use super::draft::{Draft, Faults, add_address, file_under};
use super::leaf::{cut, filled};
use super::people::cut_person;
use super::values::{Object, Pieces, member, members, note_gaps, value};
use super::warning::Fault;
use super::{Author, Enclosure, Feed, FeedError, Format, Limits, absolute, html};
use crate::room::Room;
use crate::xml::text::{self, Seen};

const FEED: [&str; 13] = [
    "version",
    "title",
    "home_page_url",
    "feed_url",
    "description",
    "language",
    "icon",
    "favicon",
    "next_url",
    "expired",
    "authors",
    "author",
    "hubs",
];

const ITEM: [&str; 16] = [
    "id",
    "url",
    "external_url",
    "title",
    "summary",
    "content_html",
    "content_text",
    "image",
    "banner_image",
    "date_published",
    "date_modified",
    "authors",
    "author",
    "language",
    "tags",
    "attachments",
];

pub(super) fn parse(
    document: &str,
    base: Option<&Url>,
    room: &Room,
    limits: &Limits,
) -> Result<Feed, FeedError> {
    let whole = document.find('{').unwrap_or_default()..document.len();
    let (mut object, mut items) = (Object::new(), None);
    let (mut bad, mut mended) = (Vec::new(), Seen::default());
    let mut pieces = Pieces::of(document, &whole, limits.depth);
    for piece in pieces.by_ref() {
        match member(document, &piece) {
            Some((key, at)) if key == "items" => items = Some(at),
            Some((key, at)) if FEED.contains(&key.as_str()) => {
                match value(document, &at, 2, &mut mended) {
                    Some(value) => drop(object.insert(key, value)),
                    None => bad.push(key),
                }
            }
            Some(_) => {}
            None => mended.note(document.get(piece).unwrap_or_default()),
        }
    }
    if pieces.is_too_deep {
        return Err(FeedError::TooDeep(limits.depth));
    }
    note_gaps(&pieces, &mut mended);
    let bracket = items.as_ref().and_then(|at| document.as_bytes().get(at.start));
    let mut fields = Fields { object: &object, base, room, limits, faults: Faults::new() };
    let says_so = fields.string("version").is_some_and(|says| says.contains("jsonfeed.org"));
    if bracket != Some(&b'[') && !says_so {
        return Err(FeedError::NotAFeed);
    }
    fields.faults.clear();
    let mut feed = head(&mut fields);
    for (fault, detail) in fields.faults {
        feed.warn(fault, &detail);
    }
    for key in bad {
        feed.warn(Fault::BadType, &key);
    }
    if !pieces.is_whole {
        feed.warn(Fault::Truncated, "items");
    }
    if bracket != Some(&b'[') {
        feed.warn(Fault::BadType, "items");
    }
    let reading = Reading { document, base, room, limits };
    if let Some(at) = items {
        reading.items(&at, bracket == Some(&b'{'), &mut feed, &mut mended);
    }
    feed.warn_of(Fault::BadJson, &mended.first, mended.count as usize);
    if !pieces.is_whole && feed.entries.is_empty() && feed.title.is_none() {
        return Err(FeedError::Malformed("it ends before its first item".to_owned()));
    }
    Ok(feed)
}

struct Reading<'a> {
    document: &'a str,
    base: Option<&'a Url>,
    room: &'a Room,
    limits: &'a Limits,
}

impl Reading<'_> {
    /// Reads the items of a list. In place of it there may be one item, or an object whose members
    /// are the items.
    fn items(&self, at: &Range<usize>, is_object: bool, feed: &mut Feed, mended: &mut Seen) {
        if is_object && !members(self.document, at, &ITEM, &mut Seen::default()).read.is_empty() {
            return self.item(at, feed, mended);
        }
        let mut pieces = Pieces::of(self.document, at, usize::MAX);
        for piece in pieces.by_ref() {
            if feed.entries.len() >= self.limits.items {
                feed.warn(Fault::TooManyItems, &self.limits.items.to_string());
                return;
            }
            let item = if is_object {
                member(self.document, &piece).map_or(piece, |(_, item)| item)
            } else {
                piece
            };
            self.item(&item, feed, mended);
        }
        note_gaps(&pieces, mended);
    }

    fn item(&self, at: &Range<usize>, feed: &mut Feed, mended: &mut Seen) {
        let text = self.document.get(at.clone()).unwrap_or_default();
        let found = members(self.document, at, &ITEM, mended);
        let is_lost = found.read.is_empty() && !found.bad.is_empty();
        if is_lost || !text.starts_with('{') {
            feed.warn(Fault::BadItem, text);
            return;
        }
        let object = &found.read;
        let faults = Faults::new();
        let mut fields =
            Fields { object, base: self.base, room: self.room, limits: self.limits, faults };
        let draft = draft(&mut fields);
        let told = fields.faults;
        let (mut entry, faults) = draft.finish();
        entry.raw = at.clone();
        for (fault, detail) in told.into_iter().chain(faults) {
            feed.warn(fault, &detail);
        }
        for key in found.bad {
            feed.warn(Fault::BadType, &key);
        }
        feed.entries.push(entry);
    }
}

/// The fields of an object, and what is wrong with them.
struct Fields<'a> {
    object: &'a Object,
    base: Option<&'a Url>,
    room: &'a Room,
    limits: &'a Limits,
    faults: Faults,
}

impl<'a> Fields<'a> {
    fn wrong(&mut self, key: &str) {
        self.faults.push((Fault::BadType, key.to_owned()));
    }

    /// A text, or a number or truth value where a text should be.
    fn string(&mut self, key: &str) -> Option<String> {
        match self.object.get(key)? {
            Value::Null => None,
            Value::String(text) => {
                let trimmed = text.trim();
                if trimmed.len() > self.limits.text {
                    self.faults.push((Fault::TextCut, key.to_owned()));
                }
                filled(text::clean(cut(trimmed, self.limits.text).to_owned()))
            }
            value => {
                self.wrong(key);
                scalar(value)
            }
        }
    }

    fn line(&mut self, key: &str) -> Option<String> {
        filled(text::one_line(&self.string(key)?))
    }

    fn address(&mut self, key: &str) -> Option<String> {
        let given = self.string(key)?;
        self.absolute(&given)
    }

    fn absolute(&mut self, given: &str) -> Option<String> {
        let found = absolute(self.base, given, self.room);
        if found.is_none() && !given.trim().is_empty() {
            self.faults.push((Fault::BadUrl, given.to_owned()));
        }
        found
    }

    /// A list, or the one that stands in place of it.
    fn list(&mut self, key: &str) -> &'a [Value] {
        match self.object.get(key) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(list)) => list,
            Some(one) => {
                self.wrong(key);
                std::slice::from_ref(one)
            }
        }
    }

    /// The fields of an object in a field.
    fn inside<T>(&mut self, object: &Object, read: impl FnOnce(&mut Fields<'_>) -> T) -> T {
        let faults = std::mem::take(&mut self.faults);
        let mut fields =
            Fields { object, base: self.base, room: self.room, limits: self.limits, faults };
        let found = read(&mut fields);
        self.faults = fields.faults;
        found
    }

    /// Version 1.1 has a list of authors, 1.0 has one; either may stand where the other should, or
    /// be a mere name. An author may be named in both.
    fn authors(&mut self) -> Vec<Author> {
        let mut found: Vec<Author> = Vec::new();
        if matches!(self.object.get("author"), Some(Value::Array(_))) {
            self.wrong("author");
        }
        let one = match self.object.get("author") {
            None | Some(Value::Null) => &[],
            Some(Value::Array(list)) => list.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        for value in self.list("authors").iter().chain(one) {
            let author = match value {
                Value::Object(author) => self.inside(author, |author| Author {
                    name: author.line("name"),
                    email: None,
                    uri: author.address("url"),
                }),
                name => {
                    self.wrong("author");
                    Author { name: scalar(name), ..Author::default() }
                }
            };
            let author = cut_person(author);
            if author != Author::default() && !found.contains(&author) {
                found.push(author);
            }
        }
        found
    }

    /// A file; its mere address will do.
    fn attachment(&mut self, value: &Value) -> Option<Enclosure> {
        let file = match value {
            Value::Object(file) => self.inside(file, |file| {
                let length = file.object.get("size_in_bytes").and_then(Value::as_u64);
                let length = length.or_else(|| file.line("size_in_bytes")?.parse().ok());
                Some(Enclosure { url: file.address("url")?, mime: file.line("mime_type"), length })
            }),
            address => {
                self.wrong("attachments");
                let url = scalar(address).and_then(|address| self.absolute(&address));
                url.map(|url| Enclosure { url, ..Enclosure::default() })
            }
        };
        if file.as_ref().is_none_or(|file| file.mime.is_none()) {
            let detail = file.as_ref().map_or("attachments", |file| &file.url).to_owned();
            self.faults.push((Fault::BadEnclosure, detail));
        }
        file
    }
}

fn head(object: &mut Fields<'_>) -> Feed {
    let mut feed = Feed::new(Format::Json);
    let version = object.line("version");
    feed.version = version.map(|version| version.rsplit('/').next().unwrap_or_default().to_owned());
    feed.title = object.line("title");
    feed.link = object.address("home_page_url");
    feed.description = object.string("description");
    feed.language = object.line("language");
    let (icon, favicon) = (object.address("icon"), object.address("favicon"));
    feed.image = icon.or(favicon);
    feed.self_link = object.address("feed_url");
    feed.paging.next = object.address("next_url");
    feed.paging.complete = match object.object.get("expired") {
        Some(Value::Bool(expired)) => *expired,
        None | Some(Value::Null) => false,
        Some(other) => {
            object.wrong("expired");
            scalar(other).as_deref() == Some("true")
        }
    };
    feed.authors = object.authors();
    for hub in object.list("hubs") {
        let address = match hub {
            Value::Object(hub) => object.inside(hub, |hub| hub.address("url")),
            other => {
                object.wrong("hubs");
                scalar(other).and_then(|hub| object.absolute(&hub))
            }
        };
        add_address(&mut feed.hubs, address);
    }
    feed
}

fn draft(item: &mut Fields<'_>) -> Draft {
    let (base, room) = (item.base, item.room);
    let escaped = |text: String| text::escape(&text);
    let linked = |text: String| match base {
        Some(base) => html::absolute(&text, base, room).into_owned(),
        None => text,
    };
    let mut draft = Draft::default();
    draft.id.offer(0, item.line("id"));
    draft.link.offer(0, item.address("url"));
    draft.link.offer(1, item.address("external_url"));
    draft.title.offer(0, item.line("title"));
    draft.summary.offer(0, item.string("summary").map(escaped));
    draft.content.offer(0, item.string("content_html").map(linked));
    draft.content.offer(1, item.string("content_text").map(escaped));
    draft.image.offer(0, item.address("image"));
    draft.image.offer(1, item.address("banner_image"));
    draft.published.offer(0, item.line("date_published"));
    draft.updated.offer(0, item.line("date_modified"));
    for author in item.authors() {
        draft.makers.add(0, author);
    }
    draft.entry.language = item.line("language");
    for tag in item.list("tags") {
        if !tag.is_string() {
            item.wrong("tags");
        }
        file_under(&mut draft.entry.categories, scalar(tag));
    }
    for value in item.list("attachments") {
        if let Some(file) = item.attachment(value) {
            draft.enclose(file);
        }
    }
    draft
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
