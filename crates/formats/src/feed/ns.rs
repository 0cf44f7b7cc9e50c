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
    Rdf,
    Xhtml,
    Other,
}

/// The prefixes that a document has bound so far; the last binding counts, everywhere.
#[derive(Default)]
pub(super) struct Prefixes<'a>(Vec<(&'a str, Ns)>);

impl<'a> Prefixes<'a> {
    /// Learns what the tag binds, and tells the vocabulary of its element.
    pub(super) fn of(&mut self, tag: &Tag<'a>) -> Ns {
        let mut own = None;
        if tag.mentions("xmlns") {
            for (key, address) in tag.attributes() {
                if let Some(prefix) = key.strip_prefix("xmlns:") {
                    self.bind(prefix, by_address(&address));
                } else if key == "xmlns" {
                    own = Some(by_address(&address));
                }
            }
        }
        match tag.name.split_once(':') {
            // An unknown default namespace is a feed's own: some invent one.
            None => own.filter(|ns| *ns != Ns::Other).unwrap_or(Ns::Core),
            Some((prefix, _)) => {
                let bound = self.0.iter().find(|(known, _)| *known == prefix).map(|(_, ns)| *ns);
                bound.filter(|ns| *ns != Ns::Other).unwrap_or_else(|| by_prefix(prefix))
            }
        }
    }

    fn bind(&mut self, prefix: &'a str, ns: Ns) {
        const MOST: usize = 100;
        self.0.retain(|(known, _)| *known != prefix);
        if self.0.len() < MOST {
            self.0.push((prefix, ns));
        }
    }
}

fn by_address(address: &str) -> Ns {
    let address = address.trim().trim_end_matches(['/', '#']).to_ascii_lowercase();
    let address = address.trim_start_matches("http://").trim_start_matches("https://");
    match address {
        "www.w3.org/2005/atom" | "purl.org/atom/ns" => Ns::Atom,
        "purl.org/rss/1.0/modules/content" => Ns::Content,
        "purl.org/rss/1.0"
        | "my.netscape.com/rdf/simple/0.9"
        | "channel.netscape.com/rdf/simple/0.9" => Ns::Core,
        "purl.org/syndication/history/1.0" => Ns::History,
        "search.yahoo.com/mrss" | "search.yahoo.com/mrss/" => Ns::Media,
        "www.w3.org/1999/02/22-rdf-syntax-ns" => Ns::Rdf,
        "www.w3.org/1999/xhtml" => Ns::Xhtml,
        _ if address.starts_with("purl.org/dc/") => Ns::Dc,
        _ if address.starts_with("rssnamespace.org/feedburner") => Ns::Feedburner,
        _ if address.contains("itunes.com/dtds/podcast") => Ns::Itunes,
        _ => Ns::Other,
    }
}

fn by_prefix(prefix: &str) -> Ns {
    match prefix.to_ascii_lowercase().as_str() {
        "atom" | "atom10" | "a10" | "atom03" => Ns::Atom,
        "content" => Ns::Content,
        "dc" | "dcterms" => Ns::Dc,
        "feedburner" => Ns::Feedburner,
        "fh" => Ns::History,
        "itunes" => Ns::Itunes,
        "media" => Ns::Media,
        "rdf" => Ns::Rdf,
        "rss" => Ns::Core,
        "xhtml" => Ns::Xhtml,
        _ => Ns::Other,
    }
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
    }
}
