//! How the fields of an entry come together when several elements compete for one.

use super::people::{cut_person, people};
use super::warning::Fault;
use super::{Author, Enclosure, Entry};
use crate::date::{self, Ts};
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

    /// Whether the value is of this rank.
    fn is_of(&self, rank: u8) -> bool {
        self.0.as_ref().is_some_and(|(held, _)| *held == rank)
    }

    pub(super) fn take(self) -> Option<T> {
        self.0.map(|(_, value)| value)
    }
}

/// The most categories, files or authors that one entry or feed can have. One more is taken in while
/// it is read, to know that there was one.
pub(super) const MOST: usize = 200;

/// What was wrong with an entry, each with the first case.
pub(super) type Faults = Vec<(Fault, String)>;

/// Who made something, while it is read: only those named in the best way are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Makers {
    named: Vec<(u8, Author)>,
    byline: Ranked<String>,
}

impl Makers {
    /// A line that names somebody.
    pub(super) fn line(&mut self, rank: u8, line: Option<String>) {
        for author in line.as_deref().map(people).unwrap_or_default() {
            self.add(rank, author);
        }
        self.byline.offer(rank, line);
    }

    pub(super) fn add(&mut self, rank: u8, author: Author) {
        if self.named.len() <= MOST && author != Author::default() {
            self.named.push((rank, cut_person(author)));
        }
    }

    /// The line as written, and the people.
    pub(super) fn take(self) -> (Option<String>, Vec<Author>) {
        let best = self.named.iter().map(|(rank, _)| *rank).min();
        let mut authors: Vec<Author> = Vec::new();
        for (rank, author) in self.named {
            if Some(rank) == best && !authors.contains(&author) {
                authors.push(author);
            }
        }
        (self.byline.take(), authors)
    }
}

/// An entry while its element is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) entry: Entry,
    pub(super) id: Ranked<String>,
    pub(super) link: Ranked<String>,
    pub(super) title: Ranked<String>,
    pub(super) summary: Ranked<String>,
    pub(super) content: Ranked<String>,
    /// A second description: the content, where there is none.
    pub(super) longer: Ranked<String>,
    pub(super) image: Ranked<String>,
    pub(super) published: Ranked<String>,
    pub(super) updated: Ranked<String>,
    pub(super) makers: Makers,
}

impl Draft {
    /// The entry, and what was wrong with it.
    pub(super) fn finish(self) -> (Entry, Faults) {
        let mut faults = Faults::new();
        let (published, published_raw) = dated(self.published.take(), &mut faults);
        let (updated, updated_raw) = dated(self.updated.take(), &mut faults);
        // One date may be meant for both.
        faults.dedup_by(|second, first| second.1 == first.1);
        let (byline, mut authors) = self.makers.take();
        let longer = self.longer.take().filter(|_| self.summary.is_of(0));
        let mut entry = self.entry;
        keep_most(&mut authors, "authors", &mut faults);
        keep_most(&mut entry.categories, "categories", &mut faults);
        keep_most(&mut entry.enclosures, "enclosures", &mut faults);
        let entry = Entry {
            id: self.id.take(),
            link: self.link.take(),
            title: self.title.take(),
            summary: self.summary.take(),
            content: self.content.take().or(longer),
            byline,
            authors,
            image: self.image.take(),
            published,
            published_raw,
            updated,
            updated_raw,
            ..entry
        };
        (entry, faults)
    }

    /// A text that describes the entry besides its description.
    pub(super) fn describe(&mut self, rank: u8, html: Option<String>) {
        self.longer.offer(rank, html.clone());
        self.summary.offer(rank, html);
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
                self.enclose(Enclosure { url: link.href, mime: link.mime, length: link.length });
            }
            "replies" => {
                self.entry.comments.get_or_insert(link.href);
            }
            _ => {}
        }
    }

    /// Adds a file, once.
    pub(super) fn enclose(&mut self, enclosure: Enclosure) {
        add_file(&mut self.entry.enclosures, enclosure);
    }
}

/// A date as it was written, and read.
pub(super) fn dated(raw: Option<String>, faults: &mut Faults) -> (Option<Ts>, Option<String>) {
    let at = raw.as_deref().and_then(date::parse);
    if let Some(raw) = &raw {
        match at {
            None => faults.push((Fault::BadDate, raw.clone())),
            Some(_) if !date::is_regular(raw) => faults.push((Fault::OddDate, raw.clone())),
            Some(_) => {}
        }
    }
    (at, raw)
}

/// Leaves out what is more than can be kept, and tells it.
pub(super) fn keep_most<T>(parts: &mut Vec<T>, what: &str, faults: &mut Faults) {
    if parts.len() > MOST {
        parts.truncate(MOST);
        faults.push((Fault::TooManyParts, what.to_owned()));
    }
}

/// Adds a file, once.
pub(super) fn add_file(files: &mut Vec<Enclosure>, file: Enclosure) {
    if files.len() <= MOST && files.iter().all(|known| known.url != file.url) {
        files.push(file);
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
    if !category.is_empty() && categories.len() <= MOST && !categories.contains(&category) {
        categories.push(category);
    }
}

/// Podcasts list their keywords in one element.
pub(super) fn keywords(categories: &mut Vec<String>, line: Option<String>) {
    for keyword in line.unwrap_or_default().split(',') {
        file_under(categories, Some(keyword.to_owned()));
    }
}

/// Adds an address, once.
pub(super) fn add_address(addresses: &mut Vec<String>, address: Option<String>) {
    if let Some(address) = address
        && addresses.len() < MOST
        && !addresses.contains(&address)
    {
        addresses.push(address);
    }
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
    fn a_second_description_is_the_content_where_there_is_none() {
        let text = |text: &str| Some(text.to_owned());
        let mut draft = Draft::default();
        draft.summary.offer(0, text("short"));
        draft.describe(2, text("long"));
        let (entry, _) = draft.clone().finish();
        assert_eq!((entry.summary, entry.content), (text("short"), text("long")));
        draft.content.offer(0, text("full"));
        assert_eq!(draft.finish().0.content, text("full"));
        let mut draft = Draft::default();
        draft.describe(2, text("only"));
        let (entry, _) = draft.finish();
        assert_eq!((entry.summary, entry.content), (text("only"), None));
    }
}
