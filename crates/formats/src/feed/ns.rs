//! Which vocabulary an element belongs to.
//!
//! By the address its prefix is bound to, or else by the prefix itself: publishers forget to
//! declare prefixes, and use the usual ones when they do.

use crate::xml::Tag;

/// A vocabulary that feeds use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ns {
    /// The feed's own: RSS in RSS, Atom in Atom.
    Core,
    Atom,
    Content,
    /// Dublin Core, elements and terms.
    Dc,
    Feedburner,
    /// Feed history: RFC 5005.
    History,
    Itunes,
    Media,
    Podcast,
    Rdf,
    /// Comments and their threads.
    Slash,
    /// Syndication: how often a feed changes.
    Syndication,
    /// Deleted entries: RFC 6721.
    Tombstones,
    Xhtml,
    Other,
}

/// The prefixes that a document has bound so far; the last binding counts, everywhere.
#[derive(Default)]
pub(super) struct Prefixes<'a> {
    bound: Vec<(&'a str, Ns)>,
    /// Prefixes with a meaning that nobody bound.
    pub(super) undeclared: Vec<&'a str>,
    /// A default namespace that is no feed's.
    pub(super) unknown: Option<String>,
}

impl<'a> Prefixes<'a> {
    /// Learns what the tag binds, and tells the vocabulary of its element.
    pub(super) fn of(&mut self, tag: &Tag<'a>) -> Ns {
        let mut own = None;
        if tag.mentions("xmlns") {
            for (key, address) in tag.attributes() {
                if let Some(prefix) = key.strip_prefix("xmlns:") {
                    self.bind(prefix, by_address(&address));
                } else if key == "xmlns" {
                    let ns = by_address(&address);
                    if ns == Ns::Other && !address.is_empty() {
                        self.unknown.get_or_insert_with(|| address.into_owned());
                    }
                    own = Some(ns);
                }
            }
        }
        match tag.prefix() {
            // An unknown default namespace is a feed's own: some invent one.
            None => own.filter(|ns| *ns != Ns::Other).unwrap_or(Ns::Core),
            Some(prefix) => match self.bound.iter().find(|(known, _)| *known == prefix) {
                Some((_, Ns::Other)) => by_prefix(prefix),
                Some((_, ns)) => *ns,
                None => self.unbound(prefix),
            },
        }
    }

    fn unbound(&mut self, prefix: &'a str) -> Ns {
        let ns = by_prefix(prefix);
        if ns != Ns::Other && self.undeclared.len() < 10 && !self.undeclared.contains(&prefix) {
            self.undeclared.push(prefix);
        }
        ns
    }

    fn bind(&mut self, prefix: &'a str, ns: Ns) {
        const MOST: usize = 100;
        self.bound.retain(|(known, _)| *known != prefix);
        if self.bound.len() < MOST {
            self.bound.push((prefix, ns));
        }
    }
}

fn by_address(address: &str) -> Ns {
    let address = address.trim().trim_end_matches(['/', '#']).to_ascii_lowercase();
    let address = address.trim_start_matches("http://").trim_start_matches("https://");
    match address {
        "www.w3.org/2005/atom" | "purl.org/atom/ns" => Ns::Atom,
        "purl.org/rss/1.0/modules/content" => Ns::Content,
        "purl.org/rss/1.0/modules/slash" | "wellformedweb.org/commentapi" => Ns::Slash,
        "purl.org/rss/1.0/modules/syndication" => Ns::Syndication,
        "purl.org/rss/1.0"
        | "my.netscape.com/rdf/simple/0.9"
        | "channel.netscape.com/rdf/simple/0.9"
        | "backend.userland.com/rss2"
        | "backend.userland.com/rss"
        | "blogs.law.harvard.edu/tech/rss" => Ns::Core,
        "purl.org/syndication/history/1.0" => Ns::History,
        "purl.org/atompub/tombstones/1.0" => Ns::Tombstones,
        "search.yahoo.com/mrss" => Ns::Media,
        "podcastindex.org/namespace/1.0" => Ns::Podcast,
        "www.w3.org/1999/02/22-rdf-syntax-ns" => Ns::Rdf,
        "www.w3.org/1999/xhtml" => Ns::Xhtml,
        _ if address.starts_with("purl.org/dc/") => Ns::Dc,
        _ if address.starts_with("rssnamespace.org/feedburner") => Ns::Feedburner,
        _ if address.contains("itunes.com/dtds/podcast") => Ns::Itunes,
        _ if address.contains("podcast-namespace") => Ns::Podcast,
        _ => Ns::Other,
    }
}

fn by_prefix(prefix: &str) -> Ns {
    const USUAL: [(&str, Ns); 18] = [
        ("dc", Ns::Dc),
        ("media", Ns::Media),
        ("content", Ns::Content),
        ("atom", Ns::Atom),
        ("itunes", Ns::Itunes),
        ("podcast", Ns::Podcast),
        ("atom10", Ns::Atom),
        ("a10", Ns::Atom),
        ("atom03", Ns::Atom),
        ("dcterms", Ns::Dc),
        ("feedburner", Ns::Feedburner),
        ("fh", Ns::History),
        ("rdf", Ns::Rdf),
        ("rss", Ns::Core),
        ("slash", Ns::Slash),
        ("sy", Ns::Syndication),
        ("at", Ns::Tombstones),
        ("xhtml", Ns::Xhtml),
    ];
    let usual = USUAL.iter().find(|(known, _)| known.eq_ignore_ascii_case(prefix));
    usual.map_or(Ns::Other, |(_, ns)| *ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::{Node, Scanner};

    #[test]
    fn a_prefix_means_what_it_is_bound_to_or_what_it_usually_means() {
        let document = "<x:feed xmlns:x='http://www.w3.org/2005/Atom' xmlns:dc='urn:unknown'>\
            <x:id/><dc:date/><content:encoded/><what:ever/><link xmlns='http://www.w3.org/2005/Atom'/>\
            <item xmlns='urn:mine'/>";
        let mut scanner = Scanner::new(document, 10);
        let mut prefixes = Prefixes::default();
        let mut seen = Vec::new();
        while let Node::Open(tag) = scanner.next() {
            seen.push(prefixes.of(&tag));
        }
        let expected = [Ns::Atom, Ns::Atom, Ns::Dc, Ns::Content, Ns::Other, Ns::Atom, Ns::Core];
        assert_eq!(seen, expected);
        assert_eq!(prefixes.undeclared, ["content"]);
        assert_eq!(prefixes.unknown.as_deref(), Some("urn:mine"));
    }
}
