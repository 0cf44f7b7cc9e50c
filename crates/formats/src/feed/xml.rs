//! The walk over an RSS or Atom document: where it stands, and what an element holds.
//!
//! One pass; an end tag closes the innermost element of its name and all that was left open in
//! it, and one that closes nothing is passed over. What the elements mean is in `fields`.

use std::borrow::Cow;

use ::url::Url;

use super::entry::{self, Draft};
use super::fields::FeedDraft;
use super::ns::{Ns, Prefixes};
use super::{Author, Feed, FeedError, Format, Limits, absolute};
use crate::xml::{Node, Scanner, Tag, text};

/// What an open element is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The root or the channel.
    Feed,
    Entry,
    /// An element whose children belong to the entry around it.
    Group,
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
    pub(super) head: FeedDraft,
    pub(super) draft: Option<Draft>,
    /// The author whose element is open, and the text directly in it.
    pub(super) person: Author,
    person_text: String,
}

pub(super) fn parse(document: &str, base: Option<Url>, limits: &Limits) -> Result<Feed, FeedError> {
    let mut scanner = Scanner::new(document, limits.attributes);
    let mut prefixes = Prefixes::default();
    let (root, format) = find_root(&mut scanner, document)?;
    prefixes.of(&root);
    let mut walk = Walk {
        scanner,
        limits,
        prefixes,
        base,
        stack: Vec::new(),
        feed: Feed::new(format),
        head: FeedDraft::default(),
        draft: None,
        person: Author::default(),
        person_text: String::new(),
    };
    walk.head.language.offer(1, root.attribute("xml:lang"));
    if root.kind() == "entry" {
        walk.open_entry(&root)
    } else {
        walk.push(&root, Place::Feed)
    }
    walk.run()
}

/// Passes over whatever stands before the feed, as the error messages of a server.
fn find_root<'a>(
    scanner: &mut Scanner<'a>,
    document: &str,
) -> Result<(Tag<'a>, Format), FeedError> {
    loop {
        let tag = match scanner.next() {
            Node::Open(tag) => tag,
            Node::Text(_) | Node::Close(_) => continue,
            Node::End => break,
        };
        let format = match &*tag.kind() {
            "rss" | "channel" => Format::Rss,
            "rdf" => Format::Rdf,
            "feed" | "entry" => Format::Atom,
            "html" | "head" | "body" => return Err(FeedError::HtmlNotFeed),
            _ => continue,
        };
        return Ok((tag, format));
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
                self.feed.warn("too_many_items", &self.limits.items.to_string());
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
            self.feed.warn("truncated", self.stack.last().map_or("", |frame| frame.name));
        }
        Ok(self.feed)
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
            Place::Entry | Place::Group => self.entry_element(tag, ns),
            place @ (Place::Image | Place::Person | Place::SkipHours | Place::SkipDays) => {
                self.part_element(tag, place)
            }
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

    fn place(&self) -> Place {
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
        let mut draft = Draft::default();
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
            while self.stack.len() > at {
                self.pop();
            }
        }
    }

    fn close(&mut self, name: &str) {
        if let Some(at) = self.stack.iter().rposition(|frame| frame.name.eq_ignore_ascii_case(name))
        {
            while self.stack.len() > at {
                self.pop();
            }
        }
    }

    fn pop(&mut self) {
        match self.stack.pop().map(|frame| frame.place) {
            Some(Place::Entry) => self.close_entry(),
            Some(Place::Person) => self.close_person(),
            _ => {}
        }
    }

    fn close_entry(&mut self) {
        let Some(mut draft) = self.draft.take() else { return };
        draft.entry.raw.end = self.scanner.position();
        let (entry, unread_dates) = draft.finish();
        for date in unread_dates {
            self.feed.warn("bad_date", &date);
        }
        self.feed.entries.push(entry);
    }

    fn close_person(&mut self) {
        let author = std::mem::take(&mut self.person);
        let author = if author == Author::default() {
            entry::person(&self.person_text)
        } else {
            Some(author)
        };
        match &mut self.draft {
            Some(draft) => draft.authors.extend(author.map(|author| (0, author))),
            None => self.feed.authors.extend(author),
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
            self.feed.warn("bad_url", address);
        }
        found
    }

    /// Reads what the element holds, to its end tag or to where it should have been.
    pub(super) fn leaf(&mut self, tag: &Tag<'a>) -> Result<Leaf<'a>, FeedError> {
        let start = self.scanner.position();
        let mut leaf = Leaf { text: Cow::Borrowed(""), inner: "", has_children: false };
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
            self.feed.warn("text_cut", tag.name);
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

/// The text up to a limit in bytes, at a character's boundary.
fn cut(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

/// What an element holds.
pub(super) struct Leaf<'a> {
    /// All text in it, decoded.
    text: Cow<'a, str>,
    /// Its inside as it stands in the document.
    inner: &'a str,
    has_children: bool,
}

impl<'a> Leaf<'a> {
    fn push(&mut self, text: Cow<'a, str>, limit: usize) {
        let room = limit.saturating_sub(self.text.len());
        if self.text.is_empty() && text.len() <= room {
            self.text = text;
        } else if room > 0 {
            self.text.to_mut().push_str(cut(&text, room));
        }
    }

    /// One line of text: a date, an address, an identifier.
    pub(super) fn line(&self) -> Option<String> {
        filled(text::one_line(&self.text))
    }

    /// HTML, whether it was escaped, in a CDATA section, or simply there.
    pub(super) fn html(&self) -> Option<String> {
        if !self.has_children {
            return filled(text::clean(self.text.trim().to_owned()));
        }
        let inner = self.inner.trim();
        if inner.contains("<![CDATA[") {
            return filled(text::clean(inner.replace("<![CDATA[", "").replace("]]>", "")));
        }
        filled(text::clean(inner.to_owned()))
    }

    /// An Atom text construct as HTML, by its type.
    pub(super) fn construct(&self, tag: &Tag<'_>) -> Option<String> {
        let kind = tag.attribute("type").unwrap_or_default().to_ascii_lowercase();
        if kind.contains("xhtml") {
            return self.html().map(|html| without_wrapper(&html).to_owned());
        }
        if kind.contains("html") || self.has_children {
            return self.html();
        }
        filled(text::escape(&text::clean(self.text.trim().to_owned())))
    }

    /// A title as plain text; in Atom it may say that it is plain already.
    pub(super) fn title(&self, tag: &Tag<'_>, is_atom: bool) -> Option<String> {
        let is_text = is_atom
            && !self.has_children
            && !tag
                .attribute("type")
                .is_some_and(|kind| kind.to_ascii_lowercase().contains("html"));
        if is_text {
            return self.line();
        }
        filled(text::plain(&self.html()?))
    }
}

/// XHTML stands in a `div` that is not part of it.
fn without_wrapper(html: &str) -> &str {
    let inside = || {
        let (open, rest) = html.split_once('>')?;
        let (inside, end) = rest.rsplit_once("</")?;
        let is_div = |name: &str| crate::xml::local(name.trim()) == "div";
        let name = open.strip_prefix('<')?.split_ascii_whitespace().next()?;
        (is_div(name) && is_div(end.strip_suffix('>')?)).then_some(inside.trim())
    };
    inside().unwrap_or(html)
}

/// The text, unless there is none.
pub(super) fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
