//! Markup as publishers write it: a forgiving walk over XML, and the text in it.
//!
//! No document type is processed and nothing external is ever loaded. What is no markup is text,
//! so the walk cannot fail and always comes to the end; the work it spends on repairs is bounded.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2, memmem};

use self::text::Noted;

pub(crate) mod text;

/// A start tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag<'a> {
    /// The qualified name.
    pub(crate) name: &'a str,
    /// Where the name without its prefix starts in it.
    local: usize,
    /// What stands between the name and `>` or `/>`.
    rest: &'a str,
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
        self.name.get(self.local..).unwrap_or(self.name)
    }

    /// The prefix of the name, when it has one.
    pub(crate) fn prefix(&self) -> Option<&'a str> {
        self.name.get(..self.local.checked_sub(1)?)
    }

    /// The name without its prefix, in lower case: publishers are free with that.
    pub(crate) fn kind(&self) -> Cow<'a, str> {
        let local = self.local();
        if !local.bytes().any(|b| b.is_ascii_uppercase()) {
            return Cow::Borrowed(local);
        }
        // Those that every feed has are not worth a copy.
        Cow::Borrowed(match local {
            "pubDate" => "pubdate",
            "lastBuildDate" => "lastbuilddate",
            "managingEditor" => "managingeditor",
            "origLink" => "origlink",
            "updatePeriod" => "updateperiod",
            "updateFrequency" => "updatefrequency",
            "episodeType" => "episodetype",
            _ => return Cow::Owned(local.to_ascii_lowercase()),
        })
    }

    /// The attributes, decoded.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> + use<'a> {
        Attributes(self.rest)
            .take(self.max_attributes)
            .map(|(key, value)| (key, text::unescape(value)))
    }

    /// The value of the attribute of this name, trimmed; `None` when it is missing or empty.
    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        self.value(name).map(Cow::into_owned)
    }

    /// The same, without a copy where none is needed.
    pub(crate) fn value(&self, name: &str) -> Option<Cow<'a, str>> {
        let mut attributes = Attributes(self.rest).take(self.max_attributes);
        let (_, value) = attributes.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(text::unescape(value.trim())).filter(|value| !value.is_empty())
    }

    /// Whether the text occurs anywhere in the attributes: a cheap no before they are read.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        let (rest, text) = (self.rest.as_bytes(), text.as_bytes());
        let first = text.first().copied().unwrap_or_default();
        memchr_iter(first, rest).any(|at| rest.get(at..).is_some_and(|at| at.starts_with(text)))
    }
}

/// Attributes as they stand: `a="1"`, `b='2'`, `c=3`, `d`.
struct Attributes<'a>(&'a str);

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let ends = |b: u8| b.is_ascii_whitespace() || b == b'=';
        let is_junk = |b: u8| ends(b) || matches!(b, b'/' | b'"' | b'\'');
        let start = self.0.get(self.0.bytes().position(|b| !is_junk(b))?..)?;
        let (key, rest) =
            start.split_at_checked(start.bytes().position(ends).unwrap_or(start.len()))?;
        if key.is_empty() {
            return None;
        }
        let Some(value) = rest.trim_ascii_start().strip_prefix('=').map(str::trim_ascii_start)
        else {
            self.0 = rest;
            return Some((key, ""));
        };
        let quoted = match value.as_bytes().first() {
            Some(quote @ (b'"' | b'\'')) => value.get(1..).map(|inside| (*quote, inside)),
            _ => None,
        };
        let (value, rest) = match quoted {
            Some((quote, inside)) => match memchr(quote, inside.as_bytes()) {
                Some(end) => (inside.get(..end)?, inside.get(end + 1..)?),
                // The quote that ends it is missing: the rest of the tag is its value.
                None => (inside, ""),
            },
            None => value.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((value, "")),
        };
        self.0 = rest;
        Some((key, value))
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
    position: usize,
    /// How many bytes may still be read in vain before the walk gives up.
    patience: usize,
    max_attributes: usize,
    /// Ends that were looked for and are nowhere ahead: they must not be looked for again.
    missing: Vec<&'static str>,
    cdata_end: memmem::Finder<'static>,
    /// What was odd about the text so far.
    pub(crate) noted: Noted,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(document: &'a str, max_attributes: usize) -> Self {
        let patience = document.len().saturating_mul(4).saturating_add(1_000);
        let (missing, noted) = (Vec::new(), Noted::default());
        let cdata_end = memmem::Finder::new("]]>");
        Self { document, position: 0, patience, max_attributes, missing, cdata_end, noted }
    }

    /// Where the walk stands in the document.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Goes to a place in the document, to read on from there.
    pub(crate) fn go_to(&mut self, position: usize) {
        self.position = position.min(self.document.len());
    }

    /// What stands in the document between two places.
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.document.get(start..end.min(self.document.len())).unwrap_or_default()
    }

    /// What is left to walk.
    fn rest(&self) -> &'a str {
        self.document.get(self.position..).unwrap_or_default()
    }

    /// The next piece; comments, instructions and document types are passed over.
    pub(crate) fn next(&mut self) -> Node<'a> {
        loop {
            let (start, rest) = (self.position, self.rest());
            let text = memchr(b'<', rest.as_bytes()).unwrap_or(rest.len());
            if text > 0 {
                self.position += text;
                let text = self.slice(start, self.position);
                return Node::Text(text::unescape_noting(text, &mut self.noted));
            }
            let found = match rest.as_bytes() {
                [] => return Node::End,
                [_, b'!', ..] => self.declaration(rest),
                [_, b'?', ..] => self.pass(rest, "?>"),
                [_, b'/', ..] => self.close(rest),
                _ => self.open(rest),
            };
            match found {
                Found::Nothing => {}
                Found::Node(node) => return node,
                Found::NoMarkup => return self.no_markup(start),
            }
        }
    }

    /// `<!...`: a CDATA section, a comment, or a document type.
    fn declaration(&mut self, rest: &'a str) -> Found<'a> {
        const CDATA: &str = "<![CDATA[";
        const DOCTYPE: &str = "<!doctype";
        if let Some(inside) = rest.strip_prefix(CDATA) {
            let Some(end) = self.find(inside, "]]>") else {
                // Only the mark is passed over: what was meant to be text may hold the end tag.
                self.position += CDATA.len();
                return Found::Nothing;
            };
            self.position += CDATA.len() + end + 3;
            return match inside.get(..end) {
                Some("") | None => Found::Nothing,
                Some(text) => Found::Node(Node::Text(Cow::Borrowed(text))),
            };
        }
        if rest.starts_with("<!--") {
            return self.pass(rest, "-->");
        }
        if rest.get(..DOCTYPE.len()).is_some_and(|start| start.eq_ignore_ascii_case(DOCTYPE)) {
            return self.doctype(rest);
        }
        self.pass(rest, ">")
    }

    /// A document type, with the subset in brackets that it may have.
    fn doctype(&mut self, rest: &'a str) -> Found<'a> {
        let subset = match memchr2(b'[', b'>', rest.as_bytes()) {
            Some(at) if rest.as_bytes().get(at) == Some(&b'[') => at,
            _ => return self.pass(rest, ">"),
        };
        let mut at = subset;
        while let Some(step) = rest.as_bytes().get(at..).and_then(|rest| memchr(b']', rest)) {
            at += step + 1;
            let after = rest.get(at..).unwrap_or_default();
            if let Some(end) = after.trim_ascii_start().strip_prefix('>') {
                self.position += rest.len() - end.len();
                return Found::Nothing;
            }
        }
        // There is no end to the subset: looking for it again would take as long.
        self.patience = self.patience.saturating_sub(rest.len());
        self.pass(rest, ">")
    }

    /// Passes over everything up to this end.
    fn pass(&mut self, rest: &'a str, end: &'static str) -> Found<'a> {
        let Some(at) = self.find(rest, end) else { return Found::NoMarkup };
        self.position += at + end.len();
        Found::Nothing
    }

    fn find(&mut self, rest: &str, end: &'static str) -> Option<usize> {
        if self.missing.contains(&end) {
            return None;
        }
        let found = match end {
            "]]>" => self.cdata_end.find(rest.as_bytes()),
            ">" => memchr(b'>', rest.as_bytes()),
            end => memmem::find(rest.as_bytes(), end.as_bytes()),
        };
        if found.is_none() {
            self.missing.push(end);
        }
        found
    }

    fn close(&mut self, rest: &'a str) -> Found<'a> {
        let inside = rest.get(2..).unwrap_or_default();
        let Some(end) = memchr2(b'<', b'>', inside.as_bytes()) else { return Found::NoMarkup };
        let has_end = inside.as_bytes().get(end) == Some(&b'>');
        self.position += 2 + end + usize::from(has_end);
        let inside = inside.get(..end).unwrap_or_default();
        Found::Node(Node::Close(inside.split_ascii_whitespace().next().unwrap_or_default()))
    }

    /// A start tag, if it is one: `a < b` and `<3` are none.
    fn open(&mut self, rest: &'a str) -> Found<'a> {
        let inside = rest.get(1..).unwrap_or_default();
        if !inside.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == ':') {
            return Found::NoMarkup;
        }
        let Some(end) = end_of_tag(inside.as_bytes(), &mut self.missing, &mut self.patience) else {
            return Found::NoMarkup;
        };
        let start = self.position;
        self.position += end + 2;
        let inside = inside.get(..end).unwrap_or_default();
        let (inside, empty) = match inside.strip_suffix('/') {
            Some(inside) => (inside, true),
            None => (inside, false),
        };
        let name_ends = |b: u8| b.is_ascii_whitespace() || b == b'/';
        let name = inside.bytes().position(name_ends).unwrap_or(inside.len());
        let (name, rest) = inside.split_at_checked(name).unwrap_or((inside, ""));
        let local = name.bytes().rposition(|b| b == b':').map_or(0, |colon| colon + 1);
        let max_attributes = self.max_attributes;
        Found::Node(Node::Open(Tag { name, local, rest, empty, start, max_attributes }))
    }

    /// Takes the `<` at `start` as text and reads on after it.
    fn no_markup(&mut self, start: usize) -> Node<'a> {
        if self.patience == 0 {
            self.go_to(self.document.len());
            return Node::End;
        }
        self.noted.bare_bracket.note(self.slice(start, self.document.len()));
        self.go_to(start + 1);
        Node::Text(Cow::Borrowed("<"))
    }
}

enum Found<'a> {
    Node(Node<'a>),
    /// Something that is passed over.
    Nothing,
    /// The `<` starts no markup.
    NoMarkup,
}

/// Where the `>` of a tag is; a `<` before it, outside of quotes, means that there is none.
fn end_of_tag(
    inside: &[u8],
    missing: &mut Vec<&'static str>,
    patience: &mut usize,
) -> Option<usize> {
    let (mut at, mut last) = (0, b' ');
    while let Some(&b) = inside.get(at) {
        match b {
            b'>' => return Some(at),
            b'<' => break,
            // A quote counts only where a value starts.
            b'"' | b'\'' if last == b'=' => {
                let name = if b == b'"' { "\"" } else { "'" };
                let value = inside.get(at + 1..).unwrap_or_default();
                match memchr(b, value).filter(|_| !missing.contains(&name)) {
                    Some(end) => at += end + 1,
                    None if missing.contains(&name) => {}
                    None => missing.push(name),
                }
            }
            _ => {}
        }
        if !b.is_ascii_whitespace() {
            last = b;
        }
        at += 1;
    }
    *patience = patience.saturating_sub(at);
    None
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
        let document = "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x 'y]'> ] ><a b='1'>t<!-- c -->\
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
            ("<a>cut <![CDATA[off</a>", "<a>cut off</a>"),
            ("<a><!-- cut", "<a><!-- cut"),
            ("</z><a></b>", "</z><a></b>"),
            ("</z<a>", "</z><a>"),
            ("<!weird><a/>", "<a/>"),
            ("<!DOCTYPE a [<b><a>", "<a>"),
        ] {
            assert_eq!(walk(document), seen);
        }
    }

    #[test]
    fn attributes_are_read_in_any_quotes_and_none() {
        let mut scanner =
            Scanner::new("<a b=1 C='2 &amp; 3' d=\"a<b>\" e f='' g = ' x ' h=\"cut/>", 10);
        let Node::Open(tag) = scanner.next() else { panic!("no tag") };
        assert_eq!(tag.attribute("b").as_deref(), Some("1"));
        assert_eq!(tag.attribute("c").as_deref(), Some("2 & 3"));
        assert_eq!(tag.attribute("d").as_deref(), Some("a<b>"));
        assert_eq!((tag.attribute("e"), tag.attribute("f")), (None, None));
        assert_eq!(tag.attribute("g").as_deref(), Some("x"));
        assert_eq!(tag.attribute("h").as_deref(), Some("cut"));
        assert!(tag.empty && tag.mentions("C=") && !tag.mentions("xml"));
    }

    #[test]
    fn hostile_brackets_take_linear_time() {
        for piece in ["<a><'", "<a b='", "<a b=\"<!--", "<![CDATA[", "<?", "<!DOCTYPE[", "</"] {
            assert!(walk(&piece.repeat(100_000)).len() < 2_000_000);
        }
    }

    proptest! {
        #[test]
        fn every_walk_ends(document in "[<>a!/?&;='\" \\[\\]CDAT-]{0,80}") {
            walk(&document);
        }

        #[test]
        fn any_text_can_be_walked(document in "\\PC{0,80}") {
            walk(&document);
        }
    }
}
