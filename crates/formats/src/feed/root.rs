//! Where a feed begins: its root, what stands before it, and what both say of the document.

use encoding_rs::Encoding;

use super::{FeedError, Format};
use crate::xml::{Node, Scanner, Tag};

/// The version that the root states, in words or by its namespace.
pub(super) fn version(root: &Tag<'_>, format: Format) -> Option<String> {
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

/// The encoding that the XML declaration names, if nobody knows it.
pub(super) fn unknown_encoding(document: &str) -> Option<&str> {
    let start = document.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let (declaration, _) = start.strip_prefix("<?xml")?.split_once("?>")?;
    let (_, value) = declaration.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let label = value.strip_prefix('"').or_else(|| value.strip_prefix('\''))?;
    let label = label.split(['"', '\'']).next()?.trim();
    Encoding::for_label(label.as_bytes()).is_none().then_some(label)
}

/// Passes over whatever stands before the feed, as the error messages of a server; the last value
/// says whether there was nothing of that kind.
pub(super) fn find_root<'a>(
    scanner: &mut Scanner<'a>,
    document: &str,
) -> Result<(Tag<'a>, Format, bool), FeedError> {
    let declared = document.trim_start_matches('\u{feff}');
    let is_declared = declared.trim_start().starts_with("<?xml");
    let mut is_first = !is_declared || declared.starts_with("<?xml");
    // The one that tells the encoding is gone by now: this is a second.
    is_first &= declared.len() == document.len();
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
