//! What the elements of RSS, Atom and their extensions mean.

use super::entry::{self, Draft, Link, Ranked, file_under};
use super::ns::Ns;
use super::xml::{Leaf, Place, Walk, filled};
use super::{Enclosure, Feed, FeedError, Format};
use crate::date;
use crate::xml::{Tag, text};

/// The head of a feed while it is read.
#[derive(Default)]
pub(super) struct FeedDraft {
    title: Ranked<String>,
    link: Ranked<String>,
    description: Ranked<String>,
    pub(super) language: Ranked<String>,
    generator: Ranked<String>,
    image: Ranked<String>,
    rights: Ranked<String>,
    updated: Ranked<String>,
    self_link: Ranked<String>,
}

impl FeedDraft {
    /// Moves what was found into the feed.
    pub(super) fn fill(&mut self, feed: &mut Feed) {
        let found = std::mem::take(self);
        feed.title = found.title.take();
        feed.link = found.link.take();
        feed.description = found.description.take();
        feed.language = found.language.take();
        feed.generator = found.generator.take();
        feed.image = found.image.take();
        feed.rights = found.rights.take();
        feed.self_link = found.self_link.take();
        if let Some(raw) = found.updated.take() {
            feed.updated = date::parse(&raw);
            if feed.updated.is_none() {
                feed.warn("bad_date", &raw);
            }
        }
    }
}

impl<'a> Walk<'a> {
    /// A child of the root or the channel.
    pub(super) fn feed_element(&mut self, tag: &Tag<'a>, ns: Ns) -> Result<(), FeedError> {
        let place = match (ns, &*tag.kind()) {
            (Ns::Core, "channel") => Place::Feed,
            (Ns::Core, "image") => Place::Image,
            (Ns::Core | Ns::Atom, "author") => Place::Person,
            (Ns::Core, "skiphours") => Place::SkipHours,
            (Ns::Core, "skipdays") => Place::SkipDays,
            (Ns::Core, "items" | "textinput" | "contributor" | "cloud")
            | (Ns::Other | Ns::Rdf | Ns::Xhtml, _)
            | (Ns::Itunes, "owner") => Place::Other,
            // A category may hold another one.
            (Ns::Itunes, "category") => {
                file_under(&mut self.feed.categories, tag.attribute("text"));
                Place::Feed
            }
            _ => {
                let leaf = self.leaf(tag)?;
                self.feed_field(tag, ns, &leaf);
                return Ok(());
            }
        };
        self.push(tag, place);
        Ok(())
    }

    fn feed_field(&mut self, tag: &Tag<'a>, ns: Ns, leaf: &Leaf<'a>) {
        let is_atom = self.feed.format == Format::Atom;
        match (ns, &*tag.kind()) {
            (Ns::Core, "title") => self.head.title.offer(0, leaf.title(tag, is_atom)),
            (Ns::Dc, "title") => self.head.title.offer(1, leaf.title(tag, false)),
            (Ns::Core | Ns::Atom, "link") => self.feed_link(tag, ns, leaf),
            (Ns::Core, "description" | "subtitle" | "tagline") => {
                let html = if is_atom { leaf.construct(tag) } else { leaf.html() };
                self.head.description.offer(0, html);
            }
            (Ns::Dc, "description") => self.head.description.offer(1, leaf.html()),
            (Ns::Itunes, "summary") => self.head.description.offer(2, leaf.html()),
            (Ns::Itunes, "subtitle") => self.head.description.offer(3, leaf.html()),
            (Ns::Core | Ns::Dc, "language") => self.head.language.offer(0, leaf.line()),
            (Ns::Core, "generator") => self.head.generator.offer(0, leaf.line()),
            (Ns::Core, "copyright" | "rights") => {
                self.head.rights.offer(0, leaf.title(tag, is_atom))
            }
            (Ns::Dc, "rights") => self.head.rights.offer(1, leaf.line()),
            (Ns::Core, "updated" | "modified" | "lastbuilddate") | (Ns::Atom, "updated") => {
                self.head.updated.offer(0, leaf.line());
            }
            (Ns::Core, "pubdate") => self.head.updated.offer(1, leaf.line()),
            (Ns::Dc, "date" | "modified") => self.head.updated.offer(2, leaf.line()),
            (Ns::Core, "logo" | "icon") => {
                let rank = u8::from(tag.kind() == "icon");
                let image = self.address(tag, leaf.line().as_deref());
                self.head.image.offer(rank, image);
            }
            (Ns::Itunes, "image") => {
                let image = self.address(tag, tag.attribute("href").as_deref());
                self.head.image.offer(2, image);
            }
            (Ns::Core, "managingeditor")
            | (Ns::Dc, "creator" | "author")
            | (Ns::Itunes, "author") => {
                let author = leaf.line().and_then(|line| entry::person(&line));
                if self.feed.authors.is_empty() {
                    self.feed.authors.extend(author);
                }
            }
            (Ns::Core, "category") | (Ns::Dc, "subject") => {
                file_under(&mut self.feed.categories, category(tag, leaf));
            }
            (Ns::Itunes, "keywords") => keywords(&mut self.feed.categories, leaf),
            (Ns::Core, "ttl") => {
                self.feed.ttl = leaf.line().and_then(|minutes| minutes.parse().ok());
            }
            (Ns::History, "archive") => self.feed.paging.archive = true,
            (Ns::History, "complete") => self.feed.paging.complete = true,
            _ => {}
        }
    }

    fn feed_link(&mut self, tag: &Tag<'a>, ns: Ns, leaf: &Leaf<'a>) {
        let Some(link) = self.link(tag, leaf) else {
            let link = self.address(tag, leaf.line().as_deref());
            self.head.link.offer(0, link);
            return;
        };
        let paging = &mut self.feed.paging;
        let slot = match link.rel.as_str() {
            "alternate" => {
                let is_page = link.mime.as_deref().is_none_or(|mime| mime.contains("html"));
                let rank = u8::from(ns == Ns::Atom) + if is_page { 0 } else { 2 };
                return self.head.link.offer(rank, Some(link.href));
            }
            "self" => return self.head.self_link.offer(0, Some(link.href)),
            "hub" => return self.feed.hubs.push(link.href),
            "next" => &mut paging.next,
            "prev-archive" => &mut paging.prev_archive,
            "next-archive" => &mut paging.next_archive,
            "current" => &mut paging.current,
            _ => return,
        };
        slot.get_or_insert(link.href);
    }

    /// The link that an element states in its attributes; the address may be its text.
    fn link(&mut self, tag: &Tag<'a>, leaf: &Leaf<'a>) -> Option<Link> {
        let rel = tag.attribute("rel");
        let href = tag.attribute("href").or_else(|| leaf.line().filter(|_| rel.is_some()))?;
        let rel = rel.unwrap_or_default().to_ascii_lowercase();
        let rel = rel.rsplit('/').next().unwrap_or_default();
        Some(Link {
            rel: if rel.is_empty() { "alternate".to_owned() } else { rel.to_owned() },
            href: self.address(tag, Some(&href))?,
            mime: tag.attribute("type"),
            length: tag.attribute("length").and_then(|length| length.parse().ok()),
        })
    }

    /// A child of an image, a person, or a list of hours or days.
    pub(super) fn part_element(&mut self, tag: &Tag<'a>, place: Place) -> Result<(), FeedError> {
        let leaf = self.leaf(tag)?;
        let Some(line) = leaf.line() else { return Ok(()) };
        match (place, &*tag.kind()) {
            (Place::Image, "url") => {
                let image = self.address(tag, Some(&line));
                self.head.image.offer(0, image);
            }
            (Place::Person, "name") => self.person.name = filled(text::plain(&line)),
            (Place::Person, "email") => self.person.email = Some(line),
            (Place::Person, "uri" | "url" | "homepage") => {
                self.person.uri = self.address(tag, Some(&line));
            }
            (Place::SkipHours, _) => {
                let hour = line.parse::<u8>().ok().filter(|hour| *hour <= 24);
                self.feed.skip_hours.extend(hour.map(|hour| hour % 24));
            }
            (Place::SkipDays, _) => self.feed.skip_days.extend(weekday(&line)),
            _ => {}
        }
        Ok(())
    }

    /// A child of an entry.
    pub(super) fn entry_element(&mut self, tag: &Tag<'a>, ns: Ns) -> Result<(), FeedError> {
        let place = match (ns, &*tag.kind()) {
            (Ns::Core | Ns::Atom, "author") => Place::Person,
            (Ns::Media, "group") => Place::Group,
            (Ns::Core, "source") if self.feed.format == Format::Atom => Place::Other,
            (Ns::Core, "contributor") | (Ns::Other | Ns::Rdf, _) => Place::Other,
            (Ns::Media, "content") => {
                let file = self.file(tag, "fileSize");
                if let (Some(file), Some(draft)) = (file, &mut self.draft) {
                    draft.enclose(file);
                }
                Place::Group
            }
            (Ns::Itunes, "category") => {
                if let Some(draft) = &mut self.draft {
                    file_under(&mut draft.entry.categories, tag.attribute("text"));
                }
                Place::Group
            }
            _ => {
                let leaf = self.leaf(tag)?;
                if let Some(mut draft) = self.draft.take() {
                    self.entry_field(&mut draft, tag, ns, &leaf);
                    self.draft = Some(draft);
                }
                return Ok(());
            }
        };
        self.push(tag, place);
        Ok(())
    }

    fn entry_field(&mut self, draft: &mut Draft, tag: &Tag<'a>, ns: Ns, leaf: &Leaf<'a>) {
        let is_atom = self.feed.format == Format::Atom;
        let html = || if is_atom || ns == Ns::Atom { leaf.construct(tag) } else { leaf.html() };
        match (ns, &*tag.kind()) {
            (Ns::Core, "title") => draft.title.offer(0, leaf.title(tag, is_atom)),
            (Ns::Atom | Ns::Dc, "title") => draft.title.offer(1, leaf.title(tag, ns == Ns::Atom)),
            (Ns::Media, "title") => draft.title.offer(2, leaf.title(tag, false)),
            (Ns::Core | Ns::Atom, "link") => match self.link(tag, leaf) {
                Some(link) => draft.related(link, if ns == Ns::Core { 0 } else { 3 }),
                None => draft.link.offer(0, self.address(tag, leaf.line().as_deref())),
            },
            (Ns::Core, "guid") => {
                let says_no = tag.attribute("isPermaLink").is_some_and(|says| says == "false");
                let guid = leaf.line();
                let address = guid.as_deref().filter(|guid| !says_no && super::is_web(guid));
                let address = self.address(tag, address);
                draft.guid(guid, address);
            }
            (Ns::Core, "id") => {
                let id = leaf.line();
                draft.link.offer(5, id.clone().filter(|id| super::is_web(id)));
                draft.id.offer(0, id);
            }
            (Ns::Atom | Ns::Dc, "id" | "identifier") => draft.id.offer(2, leaf.line()),
            (Ns::Core, "description" | "summary") => draft.summary.offer(0, html()),
            (Ns::Atom, "summary") | (Ns::Dc, "description" | "abstract") => {
                draft.summary.offer(1, html());
            }
            (Ns::Itunes, "summary") => draft.summary.offer(2, leaf.html()),
            (Ns::Itunes, "subtitle") => draft.summary.offer(3, leaf.html()),
            (Ns::Media, "description") => draft.summary.offer(4, leaf.html()),
            (Ns::Content, "encoded") => draft.content.offer(0, leaf.html()),
            (Ns::Core | Ns::Atom, "content") => draft.content.offer(1, html()),
            (Ns::Xhtml, "body" | "div") | (Ns::Core, "body" | "fullitem") => {
                draft.content.offer(2, leaf.html());
            }
            (Ns::Core | Ns::Media, "category") | (Ns::Dc, "subject") => {
                file_under(&mut draft.entry.categories, category(tag, leaf));
            }
            (Ns::Itunes | Ns::Media, "keywords") => keywords(&mut draft.entry.categories, leaf),
            (Ns::Dc, "creator" | "author") => {
                let author = leaf.line().and_then(|line| entry::person(&line));
                draft.authors.extend(author.map(|author| (0, author)));
            }
            (Ns::Itunes, "author") => {
                let author = leaf.line().and_then(|line| entry::person(&line));
                draft.authors.extend(author.map(|author| (1, author)));
            }
            (Ns::Core, "enclosure") => {
                if let Some(enclosure) = self.file(tag, "length") {
                    draft.enclose(enclosure);
                }
            }
            (Ns::Core | Ns::Dc, "language") => draft.entry.language = leaf.line(),
            _ => entry_date(draft, ns, &tag.kind(), leaf),
        }
    }

    /// A file that the attributes name.
    fn file(&mut self, tag: &Tag<'a>, size: &str) -> Option<Enclosure> {
        let url = tag.attribute("url").or_else(|| tag.attribute("href"));
        Some(Enclosure {
            url: self.address(tag, url.as_deref())?,
            mime: tag.attribute("type"),
            length: tag.attribute(size).and_then(|length| length.parse().ok()),
        })
    }
}

fn entry_date(draft: &mut Draft, ns: Ns, name: &str, leaf: &Leaf<'_>) {
    match (ns, name) {
        (Ns::Core, "pubdate" | "published") => draft.published.offer(0, leaf.line()),
        (Ns::Dc, "date") => draft.published.offer(1, leaf.line()),
        (Ns::Atom, "published") | (Ns::Core, "issued") => draft.published.offer(2, leaf.line()),
        (Ns::Core | Ns::Dc, "issued" | "created" | "date") => {
            draft.published.offer(3, leaf.line());
        }
        (Ns::Core, "updated" | "modified" | "lastbuilddate") => draft.updated.offer(0, leaf.line()),
        (Ns::Atom, "updated") | (Ns::Dc, "modified") => draft.updated.offer(1, leaf.line()),
        _ => {}
    }
}

/// A category, in the element's text or, in Atom, its attributes.
fn category(tag: &Tag<'_>, leaf: &Leaf<'_>) -> Option<String> {
    tag.attribute("term").or_else(|| leaf.line()).or_else(|| tag.attribute("label"))
}

/// Podcasts list their keywords in one element.
fn keywords(categories: &mut Vec<String>, leaf: &Leaf<'_>) {
    for keyword in leaf.line().unwrap_or_default().split(',') {
        file_under(categories, Some(keyword.to_owned()));
    }
}

/// The day of the week by its English name, 0 for Monday.
fn weekday(name: &str) -> Option<u8> {
    let name = name.to_ascii_lowercase();
    (0..)
        .zip(["mon", "tue", "wed", "thu", "fri", "sat", "sun"])
        .find_map(|(number, start)| name.starts_with(start).then_some(number))
}
