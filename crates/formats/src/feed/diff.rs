//! What a publisher changed between two documents of a feed, and whether it said so. Pure.

use std::collections::HashMap;

use serde::Serialize;

use super::{Entry, Feed};

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
/// is gone. Entries that moved off the end of the feed are no difference.
#[must_use]
pub fn diff(before: &Feed, after: &Feed) -> Vec<Difference> {
    let old: HashMap<_, _> = before.entries.iter().map(|entry| (key(entry), entry)).collect();
    let new: HashMap<_, _> = after.entries.iter().map(|entry| (key(entry), entry)).collect();
    let mut found = Vec::new();
    for entry in &after.entries {
        let Some(was) = old.get(key(entry)) else {
            found.push(difference(Change::Added, entry, Vec::new()));
            continue;
        };
        let fields = fields(was, entry);
        if !fields.is_empty() {
            let is_said = entry.updated != was.updated && entry.updated.is_some();
            let change = if is_said { Change::Revised } else { Change::Rewritten };
            found.push(difference(change, entry, fields));
        }
    }
    let last_kept = before.entries.iter().rposition(|entry| new.contains_key(key(entry)));
    for entry in before.entries.iter().take(last_kept.unwrap_or(0)) {
        if !new.contains_key(key(entry)) {
            found.push(difference(Change::Withdrawn, entry, Vec::new()));
        }
    }
    found
}

fn key(entry: &Entry) -> &str {
    let names = [&entry.id, &entry.link, &entry.title];
    names.into_iter().find_map(|name| name.as_deref()).unwrap_or_default()
}

fn difference(change: Change, entry: &Entry, fields: Vec<FieldChange>) -> Difference {
    Difference { change, entry: key(entry).to_owned(), title: entry.title.clone(), fields }
}

fn fields(before: &Entry, after: &Entry) -> Vec<FieldChange> {
    let at = |entry: &Entry| entry.published.map(|at| at.to_string());
    let pairs = [
        ("title", before.title.clone(), after.title.clone()),
        ("link", before.link.clone(), after.link.clone()),
        ("published", at(before), at(after)),
        ("summary", before.summary.clone(), after.summary.clone()),
        ("content", before.content.clone(), after.content.clone()),
        ("author", before.byline.clone(), after.byline.clone()),
    ];
    let changed = pairs.into_iter().filter(|(_, before, after)| before != after);
    changed.map(|(field, before, after)| FieldChange { field, before, after }).collect()
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
        let fields = &found[2].fields;
        assert_eq!((fields.len(), fields[0].field), (1, "title"));
        assert_eq!(fields[0].before.as_deref(), Some("two"));
        assert_eq!(diff(&before, &before), []);
    }
}
