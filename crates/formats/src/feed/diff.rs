//! What a publisher changed between two documents of a feed, and whether it said so. Pure.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{Enclosure, Entry, Feed};
use crate::date::Ts;

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is new.
    Added,
    /// It is gone, though older ones are still there.
    Withdrawn,
    /// It changed, and has a new date of change.
    Revised,
    /// It changed, and nothing says so.
    Rewritten,
}

/// An entry that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What became of it.
    pub change: Change,
    /// Its id, or else its page or title.
    pub entry: String,
    /// Its title as it is now, or was last.
    pub title: Option<String>,
    /// The fields that changed, with what they were and are.
    pub fields: Vec<FieldChange>,
}

/// A field that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// Which one.
    pub field: &'static str,
    /// What it was.
    pub before: Option<String>,
    /// What it is.
    pub after: Option<String>,
}

/// The differences from one document to a later one, in the order of the later one and then of what
/// is gone.
///
/// Entries that moved off the end of the feed are no difference; a feed that is empty now has
/// withdrawn all it had.
#[must_use]
pub fn diff(before: &Feed, after: &Feed) -> Vec<Difference> {
    let old: HashMap<_, _> = before.entries.iter().map(|entry| (key(entry), entry)).collect();
    let new: HashSet<_> = after.entries.iter().map(key).collect();
    // An entry may have a new id: then its page tells which one it was, if it has one of its own.
    let (old_pages, new_pages) = (pages(before), pages(after));
    let by_page = |entry: &Entry| {
        let page = entry.link.as_deref()?;
        new_pages.get(page)?.as_ref()?;
        (*old_pages.get(page)?).filter(|was| !new.contains(key(was)))
    };
    let mut found = Vec::new();
    let mut kept: HashSet<_> = HashSet::new();
    for entry in &after.entries {
        let Some(was) = old.get(key(entry)).copied().or_else(|| by_page(entry)) else {
            found.push(difference(Change::Added, entry, Vec::new()));
            continue;
        };
        kept.insert(key(was));
        let fields = fields(was, entry);
        if !fields.is_empty() {
            let is_said = entry.updated != was.updated && entry.updated.is_some();
            let change = if is_said { Change::Revised } else { Change::Rewritten };
            found.push(difference(change, entry, fields));
        }
    }
    let last_kept = before.entries.iter().rposition(|entry| kept.contains(key(entry)));
    let is_emptied = after.entries.is_empty();
    let gone = if is_emptied { before.entries.len() } else { last_kept.unwrap_or(0) };
    for entry in before.entries.iter().take(gone).filter(|entry| !kept.contains(key(entry))) {
        found.push(difference(Change::Withdrawn, entry, Vec::new()));
    }
    found
}

/// The entry of each page; none where several share it.
fn pages(feed: &Feed) -> HashMap<&str, Option<&Entry>> {
    let mut pages = HashMap::new();
    for entry in &feed.entries {
        if let Some(link) = entry.link.as_deref() {
            pages.entry(link).and_modify(|only| *only = None).or_insert(Some(entry));
        }
    }
    pages
}

fn key(entry: &Entry) -> &str {
    let names = [&entry.id, &entry.link, &entry.title];
    names.into_iter().find_map(|name| name.as_deref()).unwrap_or_default()
}

fn difference(change: Change, entry: &Entry, fields: Vec<FieldChange>) -> Difference {
    Difference { change, entry: key(entry).to_owned(), title: entry.title.clone(), fields }
}

fn fields(before: &Entry, after: &Entry) -> Vec<FieldChange> {
    let (was, is) = (values(before), values(after));
    let changed = was.into_iter().zip(is).filter(|((_, was), (_, is))| was != is);
    changed.map(|((field, before), (_, after))| FieldChange { field, before, after }).collect()
}

/// What an entry says, field by field.
fn values(entry: &Entry) -> [(&'static str, Option<String>); 10] {
    let date = |at: Option<Ts>, raw: &Option<String>| match at {
        Some(at) => Some(at.to_string()),
        None => raw.clone(),
    };
    let list = |parts: Vec<String>| (!parts.is_empty()).then(|| parts.join(", "));
    let names = entry.authors.iter().filter_map(|author| author.name.clone());
    let file = |file: &Enclosure| {
        let kind = file.mime.as_deref().unwrap_or("unknown type");
        let length = file.length.map_or("unknown".to_owned(), |length| length.to_string());
        format!("{} ({kind}, {length} bytes)", file.url)
    };
    [
        ("id", entry.id.clone()),
        ("title", entry.title.clone()),
        ("link", entry.link.clone()),
        ("published", date(entry.published, &entry.published_raw)),
        ("updated", date(entry.updated, &entry.updated_raw)),
        ("summary", entry.summary.clone()),
        ("content", entry.content.clone()),
        ("author", entry.byline.clone().or_else(|| list(names.collect()))),
        ("categories", list(entry.categories.clone())),
        ("enclosures", list(entry.enclosures.iter().map(file).collect())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::{Limits, parse};

    fn feed(items: &[(&str, &str, &str)]) -> Feed {
        let item = |(id, title, updated): &(&str, &str, &str)| {
            format!(
                "<entry><id>{id}</id><title>{title}</title><updated>{updated}</updated></entry>"
            )
        };
        let items: String = items.iter().map(item).collect();
        let document = format!("<feed xmlns='http://www.w3.org/2005/Atom'>{items}</feed>");
        parse(document.as_bytes(), None, "", &Limits::default()).unwrap()
    }

    #[test]
    fn what_changed_is_told_with_whether_it_was_said() {
        let before = feed(&[
            ("5", "five", "2020-01-05"),
            ("4", "four", "2020-01-04"),
            ("3", "three", "2020-01-03"),
            ("2", "two", "2020-01-02"),
            ("1", "one", "2020-01-01"),
        ]);
        let after = feed(&[
            ("6", "six", "2020-01-06"),
            ("5", "five", "2020-01-05"),
            ("3", "THREE", "2020-01-09"),
            ("2", "TWO", "2020-01-02"),
        ]);
        let found = diff(&before, &after);
        let seen: Vec<_> = found.iter().map(|found| (found.entry.as_str(), found.change)).collect();
        let expected = [
            ("6", Change::Added),
            ("3", Change::Revised),
            ("2", Change::Rewritten),
            ("4", Change::Withdrawn),
        ];
        assert_eq!(seen, expected);
        let of_three: Vec<_> = found[1].fields.iter().map(|field| field.field).collect();
        assert_eq!(of_three, ["title", "updated"]);
        let fields = &found[2].fields;
        assert_eq!((fields.len(), fields[0].field), (1, "title"));
        assert_eq!(fields[0].before.as_deref(), Some("two"));
        assert_eq!(diff(&before, &before), []);
    }

    fn item(inside: &str) -> Feed {
        let document = format!("<rss><channel><item>{inside}</item></channel></rss>");
        parse(document.as_bytes(), None, "", &Limits::default()).unwrap()
    }

    #[test]
    fn categories_and_files_are_part_of_what_an_entry_says() {
        let before =
            item("<guid>1</guid><category>a</category><enclosure url='http://e.example/1'/>");
        let after = item(
            "<guid>1</guid><category>b</category>\
             <enclosure url='http://e.example/1' type='audio/mpeg' length='9'/>",
        );
        let found = diff(&before, &after);
        let fields: Vec<_> = found[0].fields.iter().map(|field| field.field).collect();
        assert_eq!(
            (fields, found[0].change),
            (vec!["categories", "enclosures"], Change::Rewritten)
        );
        let file = found[0].fields[1].after.as_deref();
        assert_eq!(file, Some("http://e.example/1 (audio/mpeg, 9 bytes)"));
    }

    #[test]
    fn a_feed_that_was_emptied_has_withdrawn_everything() {
        let before = feed(&[("2", "two", "2020-01-02"), ("1", "one", "2020-01-01")]);
        let found = diff(&before, &feed(&[]));
        assert!(found.len() == 2 && found.iter().all(|gone| gone.change == Change::Withdrawn));
        // Where all is new, the old may have moved off the end.
        let found = diff(&before, &feed(&[("3", "three", "2020-01-03")]));
        assert_eq!((found.len(), found[0].change), (1, Change::Added));
    }

    #[test]
    fn an_entry_with_a_new_id_is_known_by_its_page() {
        let before = item("<guid>1</guid><link>http://e.example/</link>");
        let after = item("<guid>2</guid><link>http://e.example/</link>");
        let found = diff(&before, &after);
        assert_eq!((found.len(), found[0].change), (1, Change::Rewritten));
        assert_eq!(found[0].fields[0].field, "id");
    }
}
