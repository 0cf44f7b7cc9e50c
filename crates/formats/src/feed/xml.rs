//! The walk over an RSS or Atom document: where it stands, and what an element holds.
//!
//! One pass; an end tag closes the innermost element of its name and all that was left open in
//! it, and one that closes nothing is passed over. What the elements mean is in `fields`.

use std::borrow::Cow;

use ::url::Url;

use super::draft::{Draft, Makers};
use super::head::Head;
use super::leaf::{Leaf, cut};
use super::ns::{Ns, Prefixes};
use super::root::{find_root, unknown_encoding, version};
use super::warning::Fault;
use super::{Author, Entry, Feed, FeedError, Format, Limits, Source, absolute, html, is_web};
use crate::room::{Room, sound_base};
use crate::xml::text::Seen;
use crate::xml::{Node, Scanner, Tag, text};

/// What an open element is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The root or the channel.
    Feed,
    Entry,
    /// An element whose children belong to the entry around it.
    Group,
    /// One file of an entry, whose children describe it.
    File,
    /// The feed that an entry was taken from.
    Source,
    Image,
    Person,
    SkipHours,
    SkipDays,
    /// Something that is passed over.
    Other,
}

struct Frame<'a> {
    name: &'a str,
    place: Place,
    /// The base for addresses in it, when it sets one.
    base: Option<Url>,
}

/// The walk.
pub(super) struct Walk<'a> {
    scanner: Scanner<'a>,
    limits: &'a Limits,
    prefixes: Prefixes<'a>,
    base: Option<Url>,
    room: &'a Room,
    stack: Vec<Frame<'a>>,
    pub(super) feed: Feed,
    pub(super) head: Head,
    pub(super) draft: Option<Box<Draft>>,
    /// The author whose element is open, and the text directly in it.
    pub(super) person: Author,
    person_text: String,
    /// The feed that the entry was taken from, and who makes that.
    pub(super) source: Source,
    source_makers: Makers,
    /// Whether a link without an address was just read: it may follow.
    pub(super) is_after_link: bool,
    /// Whether there are control characters in the document.
    is_dirty: bool,
}

pub(super) fn parse(
    document: &str,
    base: Option<Url>,
    room: &Room,
    limits: &Limits,
) -> Result<Feed, FeedError> {
    let mut scanner = Scanner::new(document, limits.attributes);
    let (root, format, is_first) = find_root(&mut scanner, document)?;
    let mut walk = Walk {
        scanner,
        limits,
        prefixes: Prefixes::default(),
        base,
        room,
        stack: Vec::new(),
        feed: Feed::new(format),
        head: Head::default(),
        draft: None,
        person: Author::default(),
        person_text: String::new(),
        source: Source::default(),
        source_makers: Makers::default(),
        is_after_link: false,
        is_dirty: text::has_controls(document),
    };
    walk.prefixes.of(&root);
    if !is_first {
        walk.feed.warn(Fault::BeforeProlog, cut(document.trim_start(), 40));
    }
    if let Some(label) = unknown_encoding(document) {
        walk.feed.warn(Fault::UnknownEncoding, label);
    }
    walk.feed.version = version(&root, format);
    if walk.feed.version.is_none() {
        walk.feed.warn(Fault::MissingVersion, root.name);
    }
    walk.head.language.offer(1, root.attribute("xml:lang"));
    if root.kind() == "entry" {
        walk.open_entry(&root);
    } else {
        walk.push(&root, Place::Feed);
    }
    walk.run()
}

impl<'a> Walk<'a> {
    fn run(mut self) -> Result<Feed, FeedError> {
        loop {
            let at = self.scanner.position();
            match self.scanner.next() {
                Node::Open(tag) => {
                    self.is_after_link = false;
                    if self.stack.is_empty() {
                        self.feed.warn(Fault::AfterRoot, tag.name);
                    }
                    self.open(&tag)?;
                }
                Node::Close(name) => self.close(name, at),
                Node::Text(text) => self.text(&text),
                Node::End => break,
            }
            if self.feed.entries.len() >= self.limits.items {
                self.feed.warn(Fault::TooManyItems, &self.limits.items.to_string());
                self.stack.clear();
                break;
            }
        }
        self.finish()
    }

    /// Text that stands in no element of its own.
    fn text(&mut self, text: &str) {
        if self.place() == Place::Person && !self.stack.is_empty() {
            self.person_text.push_str(text);
        } else if self.is_after_link && !text.trim_ascii().is_empty() {
            self.is_after_link = false;
            self.text_after_link(&text::one_line(text));
        } else if self.stack.is_empty() && !text.trim_ascii().is_empty() {
            self.feed.warn(Fault::AfterRoot, text.trim_ascii());
        }
    }

    /// `<link/>https://...`: the address that the element should hold.
    fn text_after_link(&mut self, line: &str) {
        if is_web(line) {
            self.feed.warn(Fault::Unclosed, "link");
            let link = self.draft.as_mut().map_or(&mut self.head.link, |draft| &mut draft.link);
            link.offer(0, Some(line.to_owned()));
        }
    }

    fn finish(mut self) -> Result<Feed, FeedError> {
        self.head.fill(&mut self.feed);
        self.pass_on_authors();
        if !self.stack.is_empty() {
            if self.feed.title.is_none() && self.feed.entries.is_empty() {
                return Err(FeedError::Malformed("it ends before its first entry".to_owned()));
            }
            self.feed.warn(Fault::Truncated, self.stack.last().map_or("", |frame| frame.name));
            // Where it broke off is not where somebody forgot to escape.
            self.scanner.noted.bare_bracket = Seen::default();
        }
        self.tell_oddities();
        Ok(self.feed)
    }

    /// What the scanner and the prefixes noticed on the way.
    fn tell_oddities(&mut self) {
        let noted = std::mem::take(&mut self.scanner.noted);
        let whole = self.scanner.slice(0, usize::MAX);
        let controls = if self.is_dirty { text::controls(whole) } else { Seen::default() };
        for (fault, seen) in [
            (Fault::ControlCharacters, controls),
            (Fault::ControlCharacters, noted.control),
            (Fault::BareAmpersand, noted.bare_ampersand),
            (Fault::BareBracket, noted.bare_bracket),
            (Fault::HtmlEntity, noted.html_entity),
            (Fault::UnknownEntity, noted.unknown_entity),
        ] {
            self.feed.warn_of(fault, &seen.first, seen.count as usize);
        }
        for prefix in std::mem::take(&mut self.prefixes.undeclared) {
            self.feed.warn(Fault::UndeclaredPrefix, prefix);
        }
        if let Some(address) = self.prefixes.unknown.take() {
            self.feed.warn(Fault::UnknownNamespace, &address);
        }
    }

    pub(super) fn has_room_for_deleted(&self) -> bool {
        self.feed.deleted.len() < self.limits.items
    }

    fn open(&mut self, tag: &Tag<'a>) -> Result<(), FeedError> {
        if self.stack.len() >= self.limits.depth {
            return Err(FeedError::TooDeep(self.limits.depth));
        }
        let ns = self.ns(tag);
        if self.is_entry(tag, ns) {
            // An entry inside an entry: the end tag of the first was forgotten.
            self.unwind_entry(tag.start);
            self.open_entry(tag);
            return Ok(());
        }
        match self.place() {
            Place::Feed => self.feed_element(tag, ns),
            Place::Entry | Place::Group | Place::File => self.entry_element(tag, ns),
            place @ (Place::Image
            | Place::Person
            | Place::Source
            | Place::SkipHours
            | Place::SkipDays) => self.part_element(tag, place),
            Place::Other => {
                self.push(tag, Place::Other);
                Ok(())
            }
        }
    }

    /// The vocabulary of the element; in an Atom feed Atom's is the feed's own.
    fn ns(&mut self, tag: &Tag<'a>) -> Ns {
        match self.prefixes.of(tag) {
            Ns::Atom if self.feed.format == Format::Atom => Ns::Core,
            ns => ns,
        }
    }

    fn is_entry(&self, tag: &Tag<'_>, ns: Ns) -> bool {
        let name = if self.feed.format == Format::Atom { "entry" } else { "item" };
        ns == Ns::Core && tag.local().eq_ignore_ascii_case(name)
    }

    pub(super) fn place(&self) -> Place {
        self.stack.last().map_or(Place::Feed, |frame| frame.place)
    }

    /// Goes into an element.
    pub(super) fn push(&mut self, tag: &Tag<'a>, place: Place) {
        let base = self.own_base(tag);
        self.stack.push(Frame { name: tag.name, place, base });
        if place == Place::Person {
            self.person = Author::default();
            self.person_text.clear();
        }
        if tag.empty {
            self.pop(self.scanner.position());
        }
    }

    fn open_entry(&mut self, tag: &Tag<'a>) {
        let mut draft = Box::new(Draft::default());
        draft.entry.raw.start = tag.start;
        draft.entry.language = tag.attribute("xml:lang");
        let about = tag.attribute("rdf:about");
        draft
            .link
            .offer(4, about.as_deref().filter(|about| super::is_web(about)).map(str::to_owned));
        draft.id.offer(1, about);
        self.draft = Some(draft);
        self.push(tag, Place::Entry);
    }

    /// Closes the entry that is open, if one is, and all in it; it ends before this place.
    fn unwind_entry(&mut self, end: usize) {
        if let Some(at) = self.stack.iter().rposition(|frame| frame.place == Place::Entry) {
            self.feed.warn(Fault::Unclosed, "item");
            while self.stack.len() > at {
                self.pop(end);
            }
        }
    }

    /// Takes an end tag in, which starts at or behind this place.
    fn close(&mut self, name: &str, start: usize) {
        let is_it = |frame: &Frame<'_>| frame.name.eq_ignore_ascii_case(name);
        let Some(at) = self.stack.iter().rposition(is_it) else {
            self.feed.warn(Fault::Unclosed, name);
            return;
        };
        if at + 1 < self.stack.len() {
            self.feed.warn(Fault::Unclosed, self.stack.last().map_or("", |frame| frame.name));
        }
        // An element that somebody else's end tag closes ends before that.
        while self.stack.len() > at + 1 {
            self.pop(start);
        }
        self.pop(self.scanner.position());
    }

    /// Leaves an element that ends here.
    fn pop(&mut self, end: usize) {
        match self.stack.pop().map(|frame| frame.place) {
            Some(Place::Entry) => self.close_entry(end),
            Some(Place::Person) => self.close_person(),
            Some(Place::Source) => {
                let source = std::mem::take(&mut self.source);
                if let Some(draft) = &mut self.draft {
                    draft.entry.source = Some(source);
                }
            }
            _ => {}
        }
    }

    fn close_entry(&mut self, end: usize) {
        let Some(mut draft) = self.draft.take() else { return };
        let start = draft.entry.raw.start;
        draft.entry.raw.end = start + self.scanner.slice(start, end).trim_ascii_end().len();
        let (mut entry, faults) = draft.finish();
        for (fault, detail) in faults {
            self.feed.warn(fault, &detail);
        }
        let (_, makers) = std::mem::take(&mut self.source_makers).take();
        if is_anonymous(&entry) {
            entry.authors = makers;
        }
        self.feed.entries.push(entry);
    }

    /// In Atom the feed's authors are those of an entry that names none, nor has a source that does.
    fn pass_on_authors(&mut self) {
        /// Nobody writes with more, and there may be many entries.
        const MOST: usize = 10;
        if self.feed.format != Format::Atom {
            return;
        }
        let heirs = self.feed.entries.iter().filter(|entry| is_anonymous(entry)).count();
        let mut left = self.limits.inherited / heirs.max(1);
        let most = MOST.min(self.feed.authors.len());
        let passed_on = self.feed.authors.iter().take(most).take_while(|author| {
            let rest = left.checked_sub(author.bytes());
            left = rest.unwrap_or_default();
            rest.is_some()
        });
        let passed_on: Vec<Author> = passed_on.cloned().collect();
        if heirs > 0 && passed_on.len() < most {
            self.feed.warn(Fault::TooManyParts, "inherited authors");
        }
        for entry in self.feed.entries.iter_mut().filter(|entry| is_anonymous(entry)) {
            entry.authors.clone_from(&passed_on);
        }
    }

    fn close_person(&mut self) {
        let author = std::mem::take(&mut self.person);
        let in_source = self.place() == Place::Source;
        let makers = match &mut self.draft {
            Some(_) if in_source => &mut self.source_makers,
            Some(draft) => &mut draft.makers,
            None => &mut self.head.makers,
        };
        if author == Author::default() {
            let line = text::one_line(&self.person_text);
            makers.line(0, (!line.is_empty()).then_some(line));
        } else {
            makers.add(0, author);
        }
    }

    /// The base that the tag itself sets.
    fn own_base(&mut self, tag: &Tag<'_>) -> Option<Url> {
        if !tag.mentions("xml:base") {
            return None;
        }
        let own = tag.attribute("xml:base")?;
        let joined = self.base().map_or_else(|| Url::parse(&own), |base| base.join(&own));
        let is_without = matches!(joined, Err(::url::ParseError::RelativeUrlWithoutBase));
        let base = joined.ok().and_then(sound_base);
        if base.is_none() && !is_without {
            self.feed.warn(Fault::BadUrl, &own);
        }
        base
    }

    fn base(&self) -> Option<&Url> {
        self.stack.iter().rev().find_map(|frame| frame.base.as_ref()).or(self.base.as_ref())
    }

    /// An address in the tag or its text, made absolute.
    pub(super) fn address(&mut self, tag: &Tag<'_>, address: Option<&str>) -> Option<String> {
        let address = address?;
        let own = self.own_base(tag);
        let found = absolute(own.as_ref().or_else(|| self.base()), address, self.room);
        if found.is_none() && !address.is_empty() {
            self.feed.warn(Fault::BadUrl, address);
        }
        found
    }

    /// HTML with the addresses in it made absolute.
    pub(super) fn linked(&mut self, tag: &Tag<'_>, html: Option<String>) -> Option<String> {
        let html = html?;
        let own = self.own_base(tag);
        let found =
            own.as_ref().or_else(|| self.base()).map(|base| html::absolute(&html, base, self.room));
        match found {
            Some(Cow::Owned(absolute)) => Some(absolute),
            _ => Some(html),
        }
    }

    /// Reads what the element holds, to its end tag or to where it should have been.
    pub(super) fn leaf(&mut self, tag: &Tag<'a>) -> Result<Leaf<'a>, FeedError> {
        let start = self.scanner.position();
        let mut leaf = Leaf::new(self.is_dirty);
        if tag.empty {
            return Ok(leaf);
        }
        // How many elements of the same name, and how many at all, are open inside.
        let (mut same, mut depth) = (0_usize, self.stack.len());
        let end = loop {
            let at = self.scanner.position();
            match self.scanner.next() {
                Node::Text(text) => leaf.push(text, self.limits.text),
                Node::Open(child) => {
                    let ns = self.ns(&child);
                    if self.draft.is_some() && self.is_entry(&child, ns) {
                        self.scanner.go_to(at);
                        break at;
                    }
                    leaf.has_children = true;
                    if !child.empty && !is_void(child.name) {
                        same += usize::from(child.name.eq_ignore_ascii_case(tag.name));
                        depth += 1;
                    }
                }
                Node::Close(name) if name.eq_ignore_ascii_case(tag.name) => {
                    if same == 0 {
                        break at;
                    }
                    same -= 1;
                    depth = depth.saturating_sub(1);
                }
                Node::Close(name)
                    if self.stack.iter().any(|frame| frame.name.eq_ignore_ascii_case(name)) =>
                {
                    self.feed.warn(Fault::Unclosed, tag.name);
                    self.scanner.go_to(at);
                    break at;
                }
                Node::Close(_) => depth = depth.saturating_sub(1),
                Node::End => break at,
            }
            if depth > self.limits.depth {
                return Err(FeedError::TooDeep(self.limits.depth));
            }
        };
        let inner = self.scanner.slice(start, end);
        leaf.inner = cut(inner, self.limits.text);
        if inner.len() > self.limits.text {
            self.feed.warn(Fault::TextCut, tag.name);
        }
        Ok(leaf)
    }
}

fn is_anonymous(entry: &Entry) -> bool {
    entry.authors.is_empty() && entry.byline.is_none()
}

/// Elements of HTML that have no end tag.
fn is_void(name: &str) -> bool {
    ["br", "img", "hr", "input", "meta", "link", "source", "wbr", "area", "col", "embed"]
        .iter()
        .any(|void| name.eq_ignore_ascii_case(void))
}
