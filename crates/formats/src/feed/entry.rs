//! What the elements of an entry mean: the item in RSS, the entry in Atom, and their extensions.

use super::draft::{Draft, add_file, file_under, keywords};
use super::head::{category, truth};
use super::leaf::Leaf;
use super::ns::Ns;
use super::warning::Fault;
use super::xml::{Place, Walk};
use super::{Enclosure, FeedError, Format, Source, is_web};
use crate::xml::Tag;

impl<'a> Walk<'a> {
    /// A child of an entry.
    pub(super) fn entry_element(&mut self, tag: &Tag<'a>, ns: Ns) -> Result<(), FeedError> {
        let place = match (ns, &*tag.kind()) {
            (Ns::Core | Ns::Atom, "author") => Place::Person,
            (Ns::Media, "group") => Place::Group,
            (Ns::Core, "source") if self.feed.format == Format::Atom => Place::Source,
            (Ns::Core, "contributor") | (Ns::Other | Ns::Rdf, _) => Place::Other,
            (Ns::Media, "content") => {
                let file = self.file(tag, "fileSize");
                if let (Some(file), Some(draft)) = (file, &mut self.draft) {
                    draft.enclose(file);
                }
                Place::File
            }
            (Ns::Itunes, "category") if tag.mentions("text") => {
                if let Some(draft) = &mut self.draft {
                    file_under(&mut draft.entry.categories, tag.attribute("text"));
                }
                Place::Group
            }
            _ => {
                let in_file = self.place() == Place::File;
                let leaf = self.leaf(tag)?;
                if let Some(mut draft) = self.draft.take() {
                    self.entry_field(&mut draft, tag, ns, &leaf, in_file);
                    self.draft = Some(draft);
                }
                return Ok(());
            }
        };
        self.push(tag, place);
        Ok(())
    }

    fn entry_field(
        &mut self,
        draft: &mut Draft,
        tag: &Tag<'a>,
        ns: Ns,
        leaf: &Leaf<'a>,
        in_file: bool,
    ) {
        let is_atom = self.feed.format == Format::Atom;
        match (ns, &*tag.kind()) {
            (Ns::Core, "title") => draft.title.offer(0, leaf.title(tag, is_atom)),
            (Ns::Atom | Ns::Dc, "title") => draft.title.offer(1, leaf.title(tag, ns == Ns::Atom)),
            (Ns::Media, "title") => draft.title.offer(2, leaf.title(tag, false)),
            (Ns::Core | Ns::Atom, "link") => match self.link(tag, leaf) {
                Some(link) => draft.related(link, if ns == Ns::Core { 0 } else { 3 }),
                None => {
                    self.is_after_link = tag.empty;
                    draft.link.offer(0, self.address(tag, leaf.line().as_deref()));
                }
            },
            (Ns::Core, "guid") => self.guid(draft, tag, leaf),
            (Ns::Core, "id") => {
                let id = leaf.line();
                draft.link.offer(6, id.clone().filter(|id| is_web(id)));
                draft.id.offer(0, id);
            }
            (Ns::Feedburner, "origlink") => {
                draft.entry.original = self.address(tag, leaf.line().as_deref());
                draft.link.offer(5, draft.entry.original.clone());
            }
            (Ns::Atom | Ns::Dc, "id" | "identifier") => draft.id.offer(2, leaf.line()),
            (Ns::Core | Ns::Media, "category") | (Ns::Dc, "subject") => {
                file_under(&mut draft.entry.categories, category(tag, leaf));
            }
            (Ns::Itunes, "category") => file_under(&mut draft.entry.categories, leaf.line()),
            (Ns::Itunes | Ns::Media, "keywords") => {
                keywords(&mut draft.entry.categories, leaf.line());
            }
            (Ns::Dc, "creator" | "author") => draft.makers.line(0, leaf.line()),
            (Ns::Itunes, "author") => draft.makers.line(1, leaf.line()),
            (Ns::Media, "credit") => draft.makers.line(2, leaf.line()),
            (Ns::Core, "enclosure") => self.enclosure(draft, tag),
            (Ns::Core, "source") => {
                let url = self.address(tag, tag.attribute("url").as_deref());
                draft.entry.source = Some(Source { title: leaf.title(tag, false), url });
            }
            (Ns::Core, "comments") => {
                draft.entry.comments = self.address(tag, leaf.line().as_deref());
            }
            (Ns::Core | Ns::Dc, "rights") => draft.entry.rights = leaf.title(tag, is_atom),
            (Ns::Core | Ns::Dc, "language") => draft.entry.language = leaf.line(),
            (Ns::Media, "thumbnail") => draft.image.offer(1, self.picture(tag, "url")),
            (Ns::Itunes, "image") => draft.image.offer(0, self.picture(tag, "href")),
            (Ns::Itunes | Ns::Podcast, name) if self.episode(draft, tag, name, leaf) => {}
            _ => {
                entry_date(draft, ns, &tag.kind(), leaf);
                self.entry_text(draft, tag, ns, leaf, in_file);
            }
        }
    }

    /// The texts: a description is the summary, a second one the content if there is no other.
    fn entry_text(
        &mut self,
        draft: &mut Draft,
        tag: &Tag<'a>,
        ns: Ns,
        leaf: &Leaf<'a>,
        in_file: bool,
    ) {
        let is_atom = self.feed.format == Format::Atom || ns == Ns::Atom;
        let mut text = || {
            let html = if is_atom { leaf.construct(tag) } else { leaf.html() };
            self.linked(tag, html)
        };
        match (ns, &*tag.kind()) {
            (Ns::Core, "description") => draft.summary.offer(0, text()),
            (Ns::Core, "summary") if is_atom => draft.summary.offer(0, text()),
            (Ns::Core, "summary") => draft.describe(1, text()),
            (Ns::Atom, "summary") | (Ns::Dc, "description" | "abstract") => {
                draft.describe(1, text());
            }
            (Ns::Itunes, "summary") => draft.describe(2, text()),
            (Ns::Itunes, "subtitle") => draft.summary.offer(3, text()),
            // What is said of one file is not said of the entry.
            (Ns::Media, "description") if in_file => draft.summary.offer(5, text()),
            (Ns::Media, "description") => draft.describe(4, text()),
            (Ns::Content, "encoded") => draft.content.offer(0, text()),
            (Ns::Core | Ns::Atom, "content") => {
                // Content that is elsewhere has an address and no text.
                if let Some(file) = self.file(tag, "length").filter(|_| tag.mentions("src")) {
                    draft.enclose(file);
                }
                let text = if is_atom { leaf.construct(tag) } else { leaf.html() };
                draft.content.offer(1, self.linked(tag, text));
            }
            (Ns::Xhtml, "body" | "div") | (Ns::Core, "body" | "fullitem" | "fulltext") => {
                draft.content.offer(2, text());
            }
            _ => {}
        }
    }

    fn guid(&mut self, draft: &mut Draft, tag: &Tag<'a>, leaf: &Leaf<'a>) {
        let says = tag.value("isPermaLink");
        let says_so =
            |word: &str| says.as_ref().is_some_and(|says| says.eq_ignore_ascii_case(word));
        let guid = leaf.line();
        // Without a word it is an address if it looks like one; told so, also if it is relative.
        let may_be = !says_so("false");
        let is_address = |guid: &&str| is_web(guid) || (says_so("true") && !guid.contains(' '));
        let address = guid.as_deref().filter(|_| may_be).filter(is_address);
        let address = self.address(tag, address);
        draft.guid(guid, address);
    }

    fn enclosure(&mut self, draft: &mut Draft, tag: &Tag<'a>) {
        match self.file(tag, "length") {
            Some(file) => {
                if file.mime.is_none() || file.length.is_none() {
                    self.feed.warn(Fault::BadEnclosure, &file.url);
                }
                draft.enclose(file);
            }
            None => self.feed.warn(Fault::BadEnclosure, tag.name),
        }
    }

    /// What the podcast namespaces say of an entry; `false` when the element is none of it.
    fn episode(&mut self, draft: &mut Draft, tag: &Tag<'a>, name: &str, leaf: &Leaf<'a>) -> bool {
        let episode = &mut draft.entry.episode;
        match name {
            "duration" => episode.seconds = leaf.line().as_deref().and_then(seconds),
            "season" => episode.season = leaf.number(),
            "episode" => episode.number = leaf.number(),
            "episodetype" => episode.kind = leaf.line(),
            "explicit" => episode.explicit = truth(leaf),
            "chapters" => episode.chapters = self.picture(tag, "url"),
            "transcript" => {
                if let Some(file) = self.file(tag, "length") {
                    add_file(&mut episode.transcripts, file);
                }
            }
            _ => return false,
        }
        true
    }

    fn picture(&mut self, tag: &Tag<'a>, name: &str) -> Option<String> {
        self.address(tag, tag.value(name).as_deref())
    }

    /// A file that the attributes name.
    fn file(&mut self, tag: &Tag<'a>, size: &str) -> Option<Enclosure> {
        let url = ["url", "href", "src"].iter().find_map(|name| tag.value(name));
        Some(Enclosure {
            url: self.address(tag, url.as_deref())?,
            mime: tag.attribute("type"),
            length: tag.value(size).and_then(|length| length.parse().ok()),
        })
    }
}

fn entry_date(draft: &mut Draft, ns: Ns, name: &str, leaf: &Leaf<'_>) {
    match (ns, name) {
        (Ns::Core, "pubdate" | "published") => draft.published.offer(0, leaf.line()),
        (Ns::Dc, "date") => {
            draft.published.offer(4, leaf.line());
            draft.updated.offer(2, leaf.line());
        }
        (Ns::Atom, "published") => draft.published.offer(2, leaf.line()),
        (Ns::Core | Ns::Dc, "issued" | "created" | "date") => {
            draft.published.offer(3, leaf.line());
        }
        (Ns::Core, "updated" | "modified" | "lastbuilddate") => draft.updated.offer(0, leaf.line()),
        (Ns::Atom, "updated") | (Ns::Dc, "modified") => draft.updated.offer(1, leaf.line()),
        _ => {}
    }
}

/// A length of time: `1:02:03`, `62:03` or `3723`.
fn seconds(text: &str) -> Option<u32> {
    text.split(':').take(4).try_fold(0_u32, |sum, part| {
        sum.checked_mul(60)?.checked_add(part.trim().split('.').next()?.parse().ok()?)
    })
}
