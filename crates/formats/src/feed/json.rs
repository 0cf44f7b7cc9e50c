//! JSON Feed 1.0 and 1.1, and what publishers take for it.

use ::url::Url;
use serde_json::{Map, Value};

use super::entry::{Draft, file_under};
use super::xml::filled;
use super::{Author, Enclosure, Feed, FeedError, Format, Limits, absolute};
use crate::xml::text;

type Object = Map<String, Value>;

pub(super) fn parse(
    document: &str,
    base: Option<&Url>,
    limits: &Limits,
) -> Result<Feed, FeedError> {
    let value: Value =
        serde_json::from_str(document).map_err(|error| FeedError::Malformed(error.to_string()))?;
    let Some(object) = value.as_object() else { return Err(FeedError::NotAFeed) };
    let items = object.get("items").and_then(Value::as_array);
    let says_so = string(object, "version").is_some_and(|version| version.contains("jsonfeed.org"));
    if items.is_none() && !says_so {
        return Err(FeedError::NotAFeed);
    }
    let mut feed = head(object, base);
    let items = items.map(Vec::as_slice).unwrap_or_default();
    if items.len() > limits.items {
        feed.warn("too_many_items", &limits.items.to_string());
    }
    for item in items.iter().take(limits.items) {
        let Some(item) = item.as_object() else {
            feed.warn("bad_item", &item.to_string());
            continue;
        };
        let (entry, unread_dates) = draft(item, base, limits).finish();
        for date in unread_dates {
            feed.warn("bad_date", &date);
        }
        feed.entries.push(entry);
    }
    Ok(feed)
}

fn head(object: &Object, base: Option<&Url>) -> Feed {
    let mut feed = Feed::new(Format::Json);
    feed.title = line(object, "title");
    feed.link = address(object, "home_page_url", base);
    feed.description = string(object, "description");
    feed.language = line(object, "language");
    feed.image = address(object, "icon", base).or_else(|| address(object, "favicon", base));
    feed.self_link = address(object, "feed_url", base);
    feed.paging.next = address(object, "next_url", base);
    feed.authors = authors(object, base);
    for hub in list(object, "hubs") {
        feed.hubs.extend(hub.as_object().and_then(|hub| address(hub, "url", base)));
    }
    feed
}

fn draft(item: &Object, base: Option<&Url>, limits: &Limits) -> Draft {
    let capped = |mut text: String| {
        text.truncate(text.floor_char_boundary(limits.text));
        text
    };
    let escaped = |text: String| text::escape(&text);
    let mut draft = Draft::default();
    draft.id.offer(0, line(item, "id"));
    draft.link.offer(0, address(item, "url", base));
    draft.link.offer(1, address(item, "external_url", base));
    draft.title.offer(0, line(item, "title"));
    draft.summary.offer(0, string(item, "summary").map(escaped).map(capped));
    draft.content.offer(0, string(item, "content_html").map(capped));
    draft.content.offer(1, string(item, "content_text").map(escaped).map(capped));
    draft.published.offer(0, line(item, "date_published"));
    draft.updated.offer(0, line(item, "date_modified"));
    draft.authors = authors(item, base).into_iter().map(|author| (0, author)).collect();
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

/// Version 1.1 has a list of authors, 1.0 has one; either may be a mere name.
fn authors(object: &Object, base: Option<&Url>) -> Vec<Author> {
    let many = list(object, "authors");
    let one = object.get("author").filter(|_| many.is_empty());
    let author = |value: &Value| match value {
        Value::Object(author) => {
            Author { name: line(author, "name"), email: None, uri: address(author, "url", base) }
        }
        name => Author { name: scalar(name), ..Author::default() },
    };
    many.iter().chain(one).map(author).filter(|author| *author != Author::default()).collect()
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
