//! Markup as publishers write it: a forgiving walk over XML, and the text in it.
//!
//! No document type is processed and nothing external is ever loaded. What is no markup is text,
//! so the walk always comes to the end; the work it spends on repairs is bounded.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::errors::Error;
use quick_xml::events::Event;
use quick_xml::events::attributes::Attributes;

pub(crate) mod text;

/// A start tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag<'a> {
    /// What stands between `<` and `>` or `/>`.
    inner: &'a str,
    /// The qualified name.
    pub(crate) name: &'a str,
    /// Whether it is its own end tag.
    pub(crate) empty: bool,
    /// Where it starts in the document.
    pub(crate) start: usize,
    /// The most attributes that are looked at.
    max_attributes: usize,
}

impl<'a> Tag<'a> {
    /// The name without its prefix.
    pub(crate) fn local(&self) -> &'a str {
        local(self.name)
    }

    /// The name without its prefix, in lower case: publishers are free with that.
    pub(crate) fn kind(&self) -> Cow<'a, str> {
        let local = self.local();
        if local.bytes().any(|b| b.is_ascii_uppercase()) {
            return Cow::Owned(local.to_ascii_lowercase());
        }
        Cow::Borrowed(local)
    }

    /// The attributes, decoded.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> + use<'a> {
        let mut attributes = Attributes::html(self.inner, self.name.len());
        attributes.with_checks(false);
        attributes.take(self.max_attributes).flatten().map(|attribute| {
            let value = match attribute.value {
                Cow::Borrowed(value) => text::unescape(value),
                Cow::Owned(value) => Cow::Owned(text::unescape(&value).into_owned()),
            };
            (attribute.key.into_inner(), value)
        })
    }

    /// The value of the attribute of this name, trimmed; `None` when it is missing or empty.
    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        let (_, value) = self.attributes().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// Whether the text occurs anywhere in the tag: a cheap no before attributes are read.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        self.inner.contains(text)
    }
}

/// A name without its prefix.
pub(crate) fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// A piece of a document.
#[derive(Debug)]
pub(crate) enum Node<'a> {
    /// A start tag.
    Open(Tag<'a>),
    /// An end tag, by its qualified name.
    Close(&'a str),
    /// Text, decoded.
    Text(Cow<'a, str>),
    /// The end of the document.
    End,
}

/// The walk.
pub(crate) struct Scanner<'a> {
    document: &'a str,
    reader: Reader<&'a [u8]>,
    /// Where the reader's own count starts in the document.
    origin: usize,
    /// How many bytes may still be read in vain before the walk gives up.
    patience: usize,
    max_attributes: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(document: &'a str, max_attributes: usize) -> Self {
        let patience = document.len().saturating_mul(4).saturating_add(1_000);
        let reader = forgiving_reader(document);
        Self { document, reader, origin: 0, patience, max_attributes }
    }

    /// Where the walk stands in the document.
    pub(crate) fn position(&self) -> usize {
        self.origin + usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX)
    }

    /// Goes to a place in the document, to read on from there.
    pub(crate) fn go_to(&mut self, position: usize) {
        let rest = self.document.get(position..).unwrap_or_default();
        // The reader would swallow a byte order mark without counting it.
        let unmarked = rest.trim_start_matches('\u{feff}');
        self.origin = self.document.len() - unmarked.len();
        self.reader = forgiving_reader(unmarked);
    }

    /// What stands in the document between two places.
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.document.get(start..end).unwrap_or_default()
    }

    /// The next piece; comments, instructions and document types are passed over.
    pub(crate) fn next(&mut self) -> Node<'a> {
        loop {
            let start = self.position();
            let event = self.reader.read_event();
            let end = self.position();
            return match event {
                Ok(Event::Start(_)) => match self.tag(start, end, false) {
                    Some(tag) => Node::Open(tag),
                    None => return self.no_markup(start, end),
                },
                Ok(Event::Empty(_)) => match self.tag(start, end, true) {
                    Some(tag) => Node::Open(tag),
                    None => return self.no_markup(start, end),
                },
                Ok(Event::End(_)) => {
                    let inner = self.slice(start + 2, end.saturating_sub(1));
                    Node::Close(inner.split_ascii_whitespace().next().unwrap_or_default())
                }
                Ok(Event::Text(_)) => Node::Text(Cow::Borrowed(self.slice(start, end))),
                Ok(Event::CData(_)) => {
                    Node::Text(Cow::Borrowed(self.slice(start + 9, end.saturating_sub(3))))
                }
                Ok(Event::GeneralRef(reference)) => match text::entity(&reference) {
                    Some(c) => Node::Text(Cow::Owned(c.to_string())),
                    None => Node::Text(Cow::Borrowed(self.slice(start, end))),
                },
                Ok(Event::Eof) => Node::End,
                Ok(_) | Err(Error::IllFormed(_)) => continue,
                Err(_) => return self.no_markup(start, end),
            };
        }
    }

    /// The tag between two places, if it is one: `a < b` and `<3` are none.
    fn tag(&self, start: usize, end: usize, empty: bool) -> Option<Tag<'a>> {
        let inner = self.slice(start + 1, end.saturating_sub(if empty { 2 } else { 1 }));
        let first = inner.chars().next()?;
        if !(first.is_alphabetic() || first == '_' || first == ':') || has_bare_bracket(inner) {
            return None;
        }
        let name = inner.split([' ', '\t', '\n', '\r']).next().unwrap_or(inner);
        Some(Tag { inner, name, empty, start, max_attributes: self.max_attributes })
    }

    /// Takes the `<` at `start` as text and reads on after it.
    fn no_markup(&mut self, start: usize, end: usize) -> Node<'a> {
        self.patience = self.patience.saturating_sub(end.saturating_sub(start));
        if self.patience == 0 {
            self.go_to(self.document.len());
            return Node::End;
        }
        self.go_to(start + 1);
        Node::Text(Cow::Borrowed("<"))
    }
}

fn forgiving_reader(text: &str) -> Reader<&[u8]> {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    config.allow_dangling_amp = true;
    config.allow_unmatched_ends = true;
    config.check_end_names = false;
    reader
}

/// Whether a `<` stands outside the quotes of a tag: then an earlier `>` is missing.
fn has_bare_bracket(inner: &str) -> bool {
    let Some((before, _)) = inner.split_once('<') else { return false };
    let mut quote = None;
    for c in before.chars().filter(|c| matches!(c, '"' | '\'')) {
        match quote {
            None => quote = Some(c),
            Some(open) if open == c => quote = None,
            Some(_) => {}
        }
    }
    quote.is_none()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn walk(document: &str) -> String {
        let mut scanner = Scanner::new(document, 10);
        let mut seen = String::new();
        loop {
            match scanner.next() {
                Node::Open(tag) if tag.empty => seen.push_str(&format!("<{}/>", tag.name)),
                Node::Open(tag) => seen.push_str(&format!("<{}>", tag.name)),
                Node::Close(name) => seen.push_str(&format!("</{name}>")),
                Node::Text(text) => seen.push_str(&text),
                Node::End => return seen,
            }
        }
    }

    #[test]
    fn markup_is_walked() {
        let document = "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x 'y'>]><a b='1'>t<!-- c -->\
                        <c:d/>&amp;&eacute;&#8217;&#146;<![CDATA[<e>&amp;]]></a >";
        assert_eq!(walk(document), "<a>t<c:d/>&\u{e9}\u{2019}\u{2019}<e>&amp;</a>");
    }

    #[test]
    fn what_is_no_markup_is_text() {
        for (document, seen) in [
            ("<a>1 < 2 & 3 <3 > 2</a>", "<a>1 < 2 & 3 <3 > 2</a>"),
            ("<a>R&D costs; &unknown; &x;</a>", "<a>R&D costs; &unknown; &x;</a>"),
            ("<a>x <b y</a>", "<a>x <b y</a>"),
            ("<a>cut <b", "<a>cut <b"),
            ("<a>cut <![CDATA[off", "<a>cut <![CDATA[off"),
            ("</z><a></b>", "</z><a></b>"),
            ("<!weird><a/>", "<!weird><a/>"),
        ] {
            assert_eq!(walk(document), seen);
        }
    }

    #[test]
    fn attributes_are_read_in_any_quotes_and_none() {
        let mut scanner = Scanner::new("<a b=1 C='2 &amp; 3' d=\"a<b\" e f='' />", 10);
        let Node::Open(tag) = scanner.next() else { panic!("no tag") };
        assert_eq!(tag.attribute("b").as_deref(), Some("1"));
        assert_eq!(tag.attribute("c").as_deref(), Some("2 & 3"));
        assert_eq!(tag.attribute("d").as_deref(), Some("a<b"));
        assert_eq!((tag.attribute("e"), tag.attribute("f")), (None, None));
    }

    #[test]
    fn hostile_brackets_take_linear_time() {
        let document = "<a><'".repeat(100_000);
        assert!(walk(&document).starts_with("<a>"));
    }

    proptest! {
        #[test]
        fn every_walk_ends(document in "[<>a!/?&;'\" \\[\\]CDAT-]{0,80}") {
            walk(&document);
        }

        #[test]
        fn any_text_can_be_walked(document in "\\PC{0,80}") {
            walk(&document);
        }
    }
}
