//! The walk over an RSS or Atom document: where it stands, and what an element holds.
//!
//! One pass; an end tag closes the innermost element of its name and all that was left open in
//! it, and one that closes nothing is passed over. What the elements mean is in `fields`.

use std::borrow::Cow;

use ::url::Url;

use super::draft::Draft;
use super::head::Head;
use super::leaf::{Leaf, cut};
use super::ns::{Ns, Prefixes};
use super::warning::Fault;
use super::{Author, Feed, FeedError, Format, Limits, Source, absolute, html};
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
    stack: Vec<Frame<'a>>,
    pub(super) feed: Feed,
    pub(super) head: Head,
    pub(super) draft: Option<Box<Draft>>,
    /// The author whose element is open, and the text directly in it.
    pub(super) person: Author,
    person_text: String,
    /// The feed that the entry was taken from.
    pub(super) source: Source,
    /// Whether there are control characters in the document.
    is_dirty: bool,
}

pub(super) fn parse(document: &str, base: Option<Url>, limits: &Limits) -> Result<Feed, FeedError> {
    let mut scanner = Scanner::new(document, limits.attributes);
    let (root, format, is_first) = find_root(&mut scanner, document)?;
    let mut walk = Walk {
        scanner,
        limits,
        prefixes: Prefixes::default(),
        base,
        stack: Vec::new(),
        feed: Feed::new(format),
        head: Head::default(),
        draft: None,
        person: Author::default(),
        person_text: String::new(),
        source: Source::default(),
        is_dirty: text::has_controls(document),
    };
    walk.prefixes.of(&root);
    if !is_first {
        walk.feed.warn(Fault::BeforeProlog, cut(document.trim_start(), 40));
    }
    walk.feed.version = version(&root, format);
    if walk.feed.version.is_none() {
        walk.feed.warn(Fault::MissingVersion, root.name);
    }
    if walk.is_dirty {
        walk.feed.warn(Fault::ControlCharacters, "");
    }
    walk.head.language.offer(1, root.attribute("xml:lang"));
    if root.kind() == "entry" {
        walk.open_entry(&root);
    } else {
        walk.push(&root, Place::Feed);
    }
    walk.run()
}

/// The version that the root states, in words or by its namespace.
fn version(root: &Tag<'_>, format: Format) -> Option<String> {
    let said = root.attribute("version");
    let bound = |end: &str| {
        root.attributes().any(|(_, address)| address.trim_end_matches(['/', '#']).ends_with(end))
    };
    match format {
        Format::Atom if bound("2005/Atom") => Some("1.0".to_owned()),
        Format::Atom => said.or_else(|| bound("atom/ns").then(|| "0.3".to_owned())),
        Format::Rdf if bound("rss/1.0") => Some("1.0".to_owned()),
        Format::Rdf => said.or_else(|| bound("simple/0.9").then(|| "0.90".to_owned())),
        Format::Rss | Format::Json => said,
    }
}

/// Passes over whatever stands before the feed, as the error messages of a server; the last value
/// says whether there was nothing of that kind.
fn find_root<'a>(
    scanner: &mut Scanner<'a>,
    document: &str,
) -> Result<(Tag<'a>, Format, bool), FeedError> {
    let declared = document.trim_start_matches('\u{feff}');
    let mut is_first = !declared.trim_start().starts_with("<?xml") || declared.starts_with("<?xml");
    loop {
        let tag = match scanner.next() {
            Node::Open(tag) => tag,
            Node::Text(text) => {
                is_first &= text.trim_start_matches('\u{feff}').trim().is_empty();
                continue;
            }
            Node::Close(_) => continue,
            Node::End => break,
        };
        let format = match &*tag.kind() {
            "rss" | "channel" => Format::Rss,
            "rdf" => Format::Rdf,
            "feed" | "entry" => Format::Atom,
            "html" | "head" | "body" => return Err(FeedError::HtmlNotFeed),
            _ => {
                is_first = false;
                continue;
            }
        };
        return Ok((tag, format, is_first));
    }
    let start = document.trim_start().get(..14).unwrap_or_default();
    if start.eq_ignore_ascii_case("<!doctype html") {
        return Err(FeedError::HtmlNotFeed);
    }
    Err(FeedError::NotAFeed)
}

impl<'a> Walk<'a> {
    fn run(mut self) -> Result<Feed, FeedError> {
        loop {
            match self.scanner.next() {
                Node::Open(tag) => self.open(&tag)?,
                Node::Close(name) => self.close(name),
                Node::Text(text) if self.place() == Place::Person => {
                    self.person_text.push_str(&text);
                }
                Node::Text(_) => {}
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

    fn finish(mut self) -> Result<Feed, FeedError> {
        self.head.fill(&mut self.feed);
        if !self.stack.is_empty() {
            if self.feed.title.is_none() && self.feed.entries.is_empty() {
                return Err(FeedError::Malformed("it ends before its first entry".to_owned()));
            }
            self.feed.warn(Fault::Truncated, self.stack.last().map_or("", |frame| frame.name));
            // Where it broke off is not where somebody forgot to escape.
            self.scanner.noted.bare_bracket = false;
        }
        self.tell_oddities();
        Ok(self.feed)
    }

    /// What the scanner and the prefixes noticed on the way.
    fn tell_oddities(&mut self) {
        let noted = std::mem::take(&mut self.scanner.noted);
        if noted.bare_ampersand {
            self.feed.warn(Fault::BareAmpersand, "");
        }
        if noted.bare_bracket {
            self.feed.warn(Fault::BareBracket, "");
        }
        if let Some(name) = noted.html_entity {
            self.feed.warn(Fault::HtmlEntity, &name);
        }
        if let Some(name) = noted.unknown_entity {
            self.feed.warn(Fault::UnknownEntity, &name);
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
            self.unwind_entry();
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
            self.pop();
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

    /// Closes the entry that is open, if one is, and all in it.
    fn unwind_entry(&mut self) {
        if let Some(at) = self.stack.iter().rposition(|frame| frame.place == Place::Entry) {
            self.feed.warn(Fault::Unclosed, "item");
            while self.stack.len() > at {
                self.pop();
            }
        }
    }

    fn close(&mut self, name: &str) {
        let is_it = |frame: &Frame<'_>| frame.name.eq_ignore_ascii_case(name);
        let Some(at) = self.stack.iter().rposition(is_it) else {
            self.feed.warn(Fault::Unclosed, name);
            return;
        };
        if at + 1 < self.stack.len() {
            self.feed.warn(Fault::Unclosed, self.stack.last().map_or("", |frame| frame.name));
        }
        while self.stack.len() > at {
            self.pop();
        }
    }

    fn pop(&mut self) {
        match self.stack.pop().map(|frame| frame.place) {
            Some(Place::Entry) => self.close_entry(),
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

    fn close_entry(&mut self) {
        let Some(mut draft) = self.draft.take() else { return };
        draft.entry.raw.end = self.scanner.position();
        let (entry, unread_dates) = draft.finish();
        for date in unread_dates {
            self.feed.warn(Fault::BadDate, &date);
        }
        self.feed.entries.push(entry);
    }

    fn close_person(&mut self) {
        let author = std::mem::take(&mut self.person);
        let makers = self.draft.as_mut().map_or(&mut self.head.makers, |draft| &mut draft.makers);
        if author == Author::default() {
            let line = text::one_line(&self.person_text);
            makers.line(0, (!line.is_empty()).then_some(line));
        } else {
            makers.add(0, author);
        }
    }

    /// The base that the tag itself sets.
    fn own_base(&self, tag: &Tag<'_>) -> Option<Url> {
        if !tag.mentions("xml:base") {
            return None;
        }
        let own = tag.attribute("xml:base")?;
        self.base().map_or_else(|| Url::parse(&own), |base| base.join(&own)).ok()
    }

    fn base(&self) -> Option<&Url> {
        self.stack.iter().rev().find_map(|frame| frame.base.as_ref()).or(self.base.as_ref())
    }

    /// An address in the tag or its text, made absolute.
    pub(super) fn address(&mut self, tag: &Tag<'_>, address: Option<&str>) -> Option<String> {
        let address = address?;
        let own = self.own_base(tag);
        let found = absolute(own.as_ref().or_else(|| self.base()), address);
        if found.is_none() && !address.is_empty() {
            self.feed.warn(Fault::BadUrl, address);
        }
        found
    }

    /// HTML with the addresses in it made absolute.
    pub(super) fn linked(&self, tag: &Tag<'_>, html: Option<String>) -> Option<String> {
        let html = html?;
        let own = self.own_base(tag);
        let found = own.as_ref().or_else(|| self.base()).map(|base| html::absolute(&html, base));
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

/// Elements of HTML that have no end tag.
fn is_void(name: &str) -> bool {
    ["br", "img", "hr", "input", "meta", "link", "source", "wbr", "area", "col", "embed"]
        .iter()
        .any(|void| name.eq_ignore_ascii_case(void))
}
