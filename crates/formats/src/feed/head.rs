//! What the elements of a feed's head mean: the channel in RSS, the feed itself in Atom.

use std::borrow::Cow;

use super::draft::{
    Faults, Link, Makers, Ranked, add_address, dated, file_under, keep_most, keywords,
};
use super::leaf::{Leaf, filled};
use super::ns::Ns;
use super::warning::Fault;
use super::xml::{Place, Walk};
use super::{Deleted, Feed, FeedError, Format, is_web};
use crate::date;
use crate::xml::{Tag, text};

/// The head of a feed while it is read.
#[derive(Default)]
pub(super) struct Head {
    title: Ranked<String>,
    pub(super) link: Ranked<String>,
    description: Ranked<String>,
    pub(super) language: Ranked<String>,
    generator: Ranked<String>,
    image: Ranked<String>,
    rights: Ranked<String>,
    published: Ranked<String>,
    updated: Ranked<String>,
    self_link: Ranked<String>,
    pub(super) makers: Makers,
    /// After the syndication module: minutes of the period, and how often in it.
    period: Option<u32>,
    frequency: Option<f64>,
}

impl Head {
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
        (feed.byline, feed.authors) = found.makers.take();
        let frequency = found.frequency.filter(|times| *times > 0.0).unwrap_or(1.0);
        feed.update_minutes = found.period.map(|period| minutes(f64::from(period) / frequency));
        let mut faults = Faults::new();
        (feed.published, _) = dated(found.published.take(), &mut faults);
        (feed.updated, _) = dated(found.updated.take(), &mut faults);
        faults.dedup_by(|second, first| second.1 == first.1);
        keep_most(&mut feed.authors, "authors", &mut faults);
        keep_most(&mut feed.categories, "categories", &mut faults);
        for (fault, detail) in faults {
            feed.warn(fault, &detail);
        }
    }
}

impl<'a> Walk<'a> {
    /// A child of the root or the channel.
    pub(super) fn feed_element(&mut self, tag: &Tag<'a>, ns: Ns) -> Result<(), FeedError> {
        let place = match (ns, &*tag.kind()) {
            (Ns::Core, "channel") => {
                self.feed.id = self.feed.id.take().or_else(|| tag.attribute("rdf:about"));
                Place::Feed
            }
            (Ns::Core, "image") => Place::Image,
            (Ns::Core | Ns::Atom, "author") => Place::Person,
            (Ns::Core, "skiphours") => Place::SkipHours,
            (Ns::Core, "skipdays") => Place::SkipDays,
            (Ns::Core, "items" | "textinput" | "contributor" | "cloud")
            | (Ns::Other | Ns::Rdf | Ns::Xhtml, _)
            | (Ns::Podcast, "liveitem" | "remoteitem" | "value")
            | (Ns::Itunes, "owner") => Place::Other,
            // A category may hold another one.
            (Ns::Itunes, "category") if tag.mentions("text") => {
                file_under(&mut self.feed.categories, tag.attribute("text"));
                Place::Feed
            }
            (Ns::Tombstones, "deleted-entry") => {
                let when = tag.attribute("when");
                let at = when.as_deref().and_then(date::parse);
                if let (Some(when), None) = (when, at) {
                    self.feed.warn(Fault::BadDate, &when);
                }
                let gone = tag.attribute("ref").map(|id| Deleted { id, at });
                self.feed.deleted.extend(gone.filter(|_| self.has_room_for_deleted()));
                Place::Other
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
            (Ns::Core | Ns::Atom, "id") => {
                self.feed.id = leaf.line();
                let page = self.feed.id.clone().filter(|id| is_web(id));
                self.head.link.offer(9, page);
            }
            (Ns::Core, "description" | "subtitle" | "tagline") => {
                let html = if is_atom { leaf.construct(tag) } else { leaf.html() };
                let html = self.linked(tag, html);
                self.head.description.offer(0, html);
            }
            (Ns::Dc, "description") => self.head.description.offer(1, leaf.html()),
            (Ns::Itunes, "summary") => self.head.description.offer(2, leaf.html()),
            (Ns::Itunes, "subtitle") => self.head.description.offer(3, leaf.html()),
            (Ns::Core | Ns::Dc, "language") => self.head.language.offer(0, leaf.line()),
            (Ns::Core, "generator") => self.head.generator.offer(0, leaf.line()),
            (Ns::Core, "copyright" | "rights") => {
                self.head.rights.offer(0, leaf.title(tag, is_atom));
            }
            (Ns::Dc, "rights") => self.head.rights.offer(1, leaf.line()),
            (Ns::Core, "managingeditor") => self.head.makers.line(0, leaf.line()),
            (Ns::Dc, "creator" | "author") => self.head.makers.line(1, leaf.line()),
            (Ns::Itunes, "author") => self.head.makers.line(2, leaf.line()),
            (Ns::Core, "category") | (Ns::Dc, "subject") => {
                file_under(&mut self.feed.categories, category(tag, leaf));
            }
            (Ns::Itunes, "category") => file_under(&mut self.feed.categories, leaf.line()),
            (Ns::Itunes | Ns::Media, "keywords") => {
                keywords(&mut self.feed.categories, leaf.line());
            }
            (Ns::History, "archive") => self.feed.paging.archive = true,
            (Ns::History, "complete") => self.feed.paging.complete = true,
            (Ns::Core, "logo" | "icon") | (Ns::Itunes, "image") => self.feed_image(tag, ns, leaf),
            (Ns::Itunes | Ns::Podcast, _) => self.podcast(tag, ns, leaf),
            _ => self.feed_rhythm(tag, ns, leaf),
        }
    }

    /// The artwork of a podcast is better than the small logo of RSS.
    fn feed_image(&mut self, tag: &Tag<'a>, ns: Ns, leaf: &Leaf<'a>) {
        let (rank, address) = match ns {
            Ns::Itunes => (0, tag.attribute("href")),
            _ => (2 + u8::from(tag.kind() == "icon"), leaf.line()),
        };
        let image = self.address(tag, address.as_deref());
        self.head.image.offer(rank, image);
    }

    /// When the feed changed, and how often it does.
    fn feed_rhythm(&mut self, tag: &Tag<'a>, ns: Ns, leaf: &Leaf<'a>) {
        match (ns, &*tag.kind()) {
            (Ns::Core, "updated" | "modified" | "lastbuilddate") | (Ns::Atom, "updated") => {
                self.head.updated.offer(0, leaf.line());
            }
            (Ns::Core, "pubdate" | "published") => {
                self.head.published.offer(0, leaf.line());
                self.head.updated.offer(1, leaf.line());
            }
            (Ns::Dc, "date" | "modified") => self.head.updated.offer(2, leaf.line()),
            (Ns::Core, "ttl") => {
                self.feed.ttl = leaf.number().filter(|it: &f64| *it >= 0.0).map(minutes);
                if self.feed.ttl.is_none() {
                    self.feed.warn(Fault::BadNumber, &leaf.line().unwrap_or_default());
                }
            }
            (Ns::Syndication, name) => self.syndication(name, leaf),
            _ => {}
        }
    }

    /// The syndication module: a period, how often in it, and from when on.
    fn syndication(&mut self, name: &str, leaf: &Leaf<'a>) {
        let Some(line) = leaf.line() else { return };
        let fault = match name {
            "updateperiod" => {
                self.head.period = period(&line);
                self.head.period.is_none().then_some(Fault::BadValue)
            }
            "updatefrequency" => {
                self.head.frequency = leaf.number();
                self.head.frequency.is_none().then_some(Fault::BadNumber)
            }
            "updatebase" => {
                self.feed.update_base = date::parse(&line);
                self.feed.update_base.is_none().then_some(Fault::BadDate)
            }
            _ => None,
        };
        if let Some(fault) = fault {
            self.feed.warn(fault, &line);
        }
    }

    fn podcast(&mut self, tag: &Tag<'a>, ns: Ns, leaf: &Leaf<'a>) {
        match (ns, &*tag.kind()) {
            (Ns::Podcast, "guid") => self.feed.podcast.guid = leaf.line(),
            (Ns::Podcast, "medium") => self.feed.podcast.medium = leaf.line(),
            (Ns::Podcast, "locked") => self.feed.podcast.locked = truth(leaf),
            (Ns::Podcast, "funding") => {
                let address = self.address(tag, tag.attribute("url").as_deref());
                add_address(&mut self.feed.podcast.funding, address);
            }
            (Ns::Itunes, "explicit") => self.feed.podcast.explicit = truth(leaf),
            (Ns::Itunes, "new-feed-url") => {
                self.feed.podcast.moved_to = self.address(tag, leaf.line().as_deref());
            }
            _ => {}
        }
    }

    fn feed_link(&mut self, tag: &Tag<'a>, ns: Ns, leaf: &Leaf<'a>) {
        let Some(link) = self.link(tag, leaf) else {
            let link = self.address(tag, leaf.line().as_deref());
            self.is_after_link = tag.empty;
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
            "hub" => return add_address(&mut self.feed.hubs, Some(link.href)),
            "first" => &mut paging.first,
            "previous" | "prev" => &mut paging.previous,
            "next" => &mut paging.next,
            "last" => &mut paging.last,
            "prev-archive" => &mut paging.prev_archive,
            "next-archive" => &mut paging.next_archive,
            "current" => &mut paging.current,
            _ => return,
        };
        slot.get_or_insert(link.href);
    }

    /// The link that an element states in its attributes; the address may be its text.
    pub(super) fn link(&mut self, tag: &Tag<'a>, leaf: &Leaf<'a>) -> Option<Link> {
        let rel = tag.value("rel");
        let line = || leaf.line().filter(|_| rel.is_some()).map(Cow::Owned);
        let href = tag.value("href").or_else(line)?;
        let rel = rel.as_deref().and_then(|rel| rel.rsplit('/').next()).unwrap_or_default();
        Some(Link {
            rel: if rel.is_empty() { "alternate".to_owned() } else { rel.to_ascii_lowercase() },
            href: self.address(tag, Some(&href))?,
            mime: tag.attribute("type"),
            length: tag.value("length").and_then(|length| length.parse().ok()),
        })
    }

    /// A child of an image, a person, or a list of hours or days.
    pub(super) fn part_element(&mut self, tag: &Tag<'a>, place: Place) -> Result<(), FeedError> {
        if place == Place::Source && tag.kind() == "author" {
            self.push(tag, Place::Person);
            return Ok(());
        }
        let leaf = self.leaf(tag)?;
        if place == Place::Source && tag.kind() == "link" {
            self.source.url = self.link(tag, &leaf).map(|link| link.href);
        }
        let Some(line) = leaf.line() else { return Ok(()) };
        match (place, &*tag.kind()) {
            (Place::Image, "url") => {
                let image = self.address(tag, Some(&line));
                self.head.image.offer(1, image);
            }
            (Place::Person, "name") => self.person.name = filled(text::plain(&line)),
            (Place::Person, "email") => self.person.email = Some(line),
            (Place::Person, "uri" | "url" | "homepage") => {
                self.person.uri = self.address(tag, Some(&line));
            }
            (Place::Source, "title") => self.source.title = filled(text::plain(&line)),
            (Place::SkipHours, _) => match line.parse::<u8>().ok().filter(|hour| *hour <= 24) {
                // Some count to 24 and mean midnight.
                Some(hour) if !self.feed.skip_hours.contains(&(hour % 24)) => {
                    self.feed.skip_hours.push(hour % 24);
                }
                Some(_) => {}
                None => self.feed.warn(Fault::BadNumber, &line),
            },
            (Place::SkipDays, _) => match weekday(&line) {
                Some(day) if !self.feed.skip_days.contains(&day) => self.feed.skip_days.push(day),
                Some(_) => {}
                None => self.feed.warn(Fault::BadValue, &line),
            },
            _ => {}
        }
        Ok(())
    }
}

/// A category, in the element's text or, in Atom, its attributes.
pub(super) fn category(tag: &Tag<'_>, leaf: &Leaf<'_>) -> Option<String> {
    tag.attribute("term").or_else(|| leaf.line()).or_else(|| tag.attribute("label"))
}

/// `yes`, `true` and `explicit`, or their opposites.
pub(super) fn truth(leaf: &Leaf<'_>) -> Option<bool> {
    match leaf.line()?.to_ascii_lowercase().as_str() {
        "yes" | "true" | "explicit" => Some(true),
        "no" | "false" | "clean" => Some(false),
        _ => None,
    }
}

/// Minutes of a period by its English name, however it ends: `dayly` is as common as it is wrong.
fn period(name: &str) -> Option<u32> {
    let name = name.to_ascii_lowercase();
    let periods =
        [("hour", 60), ("da", 1_440), ("week", 10_080), ("month", 43_200), ("year", 525_600)];
    periods.into_iter().find_map(|(start, minutes)| name.starts_with(start).then_some(minutes))
}

/// Whole minutes, never fewer; what is too many for the type is the most that it holds.
fn minutes(exact: f64) -> u32 {
    exact.ceil() as u32
}

/// The day of the week by its English name, 0 for Monday.
fn weekday(name: &str) -> Option<u8> {
    let name = name.to_ascii_lowercase();
    (0..)
        .zip(["mon", "tue", "wed", "thu", "fri", "sat", "sun"])
        .find_map(|(number, start)| name.starts_with(start).then_some(number))
}
