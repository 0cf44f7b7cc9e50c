//! How the fields of an entry come together when several elements compete for one.

use super::{Author, Enclosure, Entry};
use crate::date;
use crate::xml::text;

/// A value with the rank of where it came from: a lower rank wins, then the first.
#[derive(Clone, Debug)]
pub(super) struct Ranked<T>(Option<(u8, T)>);

impl<T> Default for Ranked<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Ranked<T> {
    /// Takes the value if nothing at least as good is there; no value is never good.
    pub(super) fn offer(&mut self, rank: u8, value: Option<T>) {
        if let Some(value) = value
            && self.0.as_ref().is_none_or(|(held, _)| rank < *held)
        {
            self.0 = Some((rank, value));
        }
    }

    pub(super) fn take(self) -> Option<T> {
        self.0.map(|(_, value)| value)
    }
}

/// The most categories, files or authors that one entry or feed can have.
const MOST: usize = 200;

/// An entry while its element is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) entry: Entry,
    pub(super) id: Ranked<String>,
    pub(super) link: Ranked<String>,
    pub(super) title: Ranked<String>,
    pub(super) summary: Ranked<String>,
    pub(super) content: Ranked<String>,
    pub(super) published: Ranked<String>,
    pub(super) updated: Ranked<String>,
    /// Authors by the rank of their element: only the best rank is kept.
    pub(super) authors: Vec<(u8, Author)>,
}

impl Draft {
    /// The entry, and those of its dates that cannot be read.
    pub(super) fn finish(self) -> (Entry, Vec<String>) {
        let mut unread = Vec::new();
        let mut read = |raw: &Option<String>| {
            let at = raw.as_deref().and_then(date::parse);
            if let (Some(raw), None) = (raw, at) {
                unread.push(raw.clone());
            }
            at
        };
        let published_raw = self.published.take();
        let published = read(&published_raw);
        let updated = read(&self.updated.take());
        let best = self.authors.iter().map(|(rank, _)| *rank).min();
        let mut authors: Vec<Author> = Vec::new();
        for (rank, author) in self.authors.into_iter().take(MOST) {
            if Some(rank) == best && !authors.contains(&author) {
                authors.push(author);
            }
        }
        let entry = Entry {
            id: self.id.take(),
            link: self.link.take(),
            title: self.title.take(),
            summary: self.summary.take(),
            content: self.content.take(),
            authors,
            published,
            published_raw,
            updated,
            ..self.entry
        };
        (entry, unread)
    }

    /// A `guid`, and the address it also is, if it is one.
    pub(super) fn guid(&mut self, guid: Option<String>, address: Option<String>) {
        self.entry.permalink |= address.is_some();
        self.link.offer(2, address);
        self.id.offer(0, guid);
    }

    /// A link with a relation: the page itself, or a file that belongs to it.
    pub(super) fn related(&mut self, link: Link, rank: u8) {
        match link.rel.as_str() {
            "alternate" => {
                // Of several pages the one for people is meant.
                let is_page = link.mime.as_deref().is_none_or(|mime| mime.contains("html"));
                self.link.offer(if is_page { rank } else { rank + 1 }, Some(link.href));
            }
            "enclosure" => {
                self.enclose(Enclosure { url: link.href, mime: link.mime, length: link.length })
            }
            _ => {}
        }
    }

    /// Adds a file, once.
    pub(super) fn enclose(&mut self, enclosure: Enclosure) {
        let files = &mut self.entry.enclosures;
        if files.len() < MOST && files.iter().all(|known| known.url != enclosure.url) {
            files.push(enclosure);
        }
    }
}

/// A link element with a relation.
pub(super) struct Link {
    pub(super) rel: String,
    pub(super) href: String,
    pub(super) mime: Option<String>,
    pub(super) length: Option<u64>,
}

/// Adds a category, once.
pub(super) fn file_under(categories: &mut Vec<String>, category: Option<String>) {
    let category = category.map(|category| text::plain(&category)).unwrap_or_default();
    if !category.is_empty() && categories.len() < MOST && !categories.contains(&category) {
        categories.push(category);
    }
}

/// Whom a line names: `Name`, `mail@host`, `mail@host (Name)` or `Name <mail@host>`.
pub(super) fn person(line: &str) -> Option<Author> {
    let line = text::one_line(&text::unescape(line));
    let apart = |open: char, close: char| {
        let (before, rest) = line.split_once(open)?;
        let (inside, after) = rest.split_once(close)?;
        after.trim().is_empty().then_some((before.trim(), inside.trim()))
    };
    let (name, email) = match (apart('(', ')'), apart('<', '>')) {
        (Some((email, name)), _) if is_email(email) => (name, email),
        (Some((name, email)), _) | (_, Some((name, email))) if is_email(email) => (name, email),
        _ if is_email(&line) => ("", line.as_str()),
        _ => (line.as_str(), ""),
    };
    let email = email.strip_prefix("mailto:").unwrap_or(email);
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let author = Author { name: given(name), email: given(email), uri: None };
    (author != Author::default()).then_some(author)
}

fn is_email(text: &str) -> bool {
    let sound = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
    text.split_once('@').is_some_and(|(user, host)| sound(user) && sound(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_rank_wins_and_then_the_first() {
        let mut value = Ranked::default();
        value.offer(2, Some("late"));
        value.offer(1, None);
        value.offer(1, Some("good"));
        value.offer(1, Some("second"));
        assert_eq!(value.take(), Some("good"));
    }

    #[test]
    fn a_line_names_a_person() {
        for (line, name, email) in [
            ("Ada Lovelace", Some("Ada Lovelace"), None),
            ("ada@example.com", None, Some("ada@example.com")),
            ("ada@example.com (Ada &amp; Co)", Some("Ada & Co"), Some("ada@example.com")),
            ("Ada <ada@example.com>", Some("Ada"), Some("ada@example.com")),
            ("Ada (ada@example.com)", Some("Ada"), Some("ada@example.com")),
            ("Ada (staff)", Some("Ada (staff)"), None),
        ] {
            let author = person(line).unwrap();
            assert_eq!((author.name.as_deref(), author.email.as_deref()), (name, email), "{line}");
        }
        assert_eq!(person("  "), None);
    }
}
