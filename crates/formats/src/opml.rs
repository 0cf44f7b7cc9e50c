//! OPML: lists of feeds, in and out. Outlines inside each other become categories.
//!
//! What has no address is no feed and only names a category. In a category `/` stands between outlines,
//! and ` / ` within the name of one. Nothing external is loaded, and every size has a limit.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use serde::Serialize;

use crate::charset::{self, Markup};
use crate::room::Room;
use crate::xml::{Node, Scanner, Tag, local, text};

/// The most bytes of a list.
const MAX_BYTES: usize = 32 << 20;
/// The most feeds of a list; those beyond are left out.
const MAX_FEEDS: usize = 100_000;
/// The most outlines inside each other.
const MAX_DEPTH: usize = 100;
/// The most outlines around a feed that make its category; those further inside are left out.
const MAX_LEVELS: usize = 10;
/// The most bytes of the name of an outline in a category; what is beyond is cut off.
const MAX_LEVEL: usize = 500;
/// The most categories that a feed says itself.
const MAX_CATEGORIES: usize = 200;

/// Why there is no list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpmlError {
    /// It has too many bytes.
    #[error("list is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// Outlines are nested too deep.
    #[error("outlines are nested deeper than {MAX_DEPTH}")]
    TooDeep,
    /// Every feed has the names of the outlines around it, which together are far larger than the list.
    #[error("the names of outlines around its feeds are too long for so many feeds")]
    LongCategories,
    /// It is something else.
    #[error("this is not OPML: it has no <opml> element")]
    NotOpml,
}

impl OpmlError {
    /// The stable name of this failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge | Self::LongCategories => "too_large",
            Self::TooDeep => "too_deep",
            Self::NotOpml => "not_opml",
        }
    }
}

/// A list of feeds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Opml {
    /// Its name.
    pub title: Option<String>,
    /// The feeds, in its order, each once in an outline.
    pub feeds: Vec<Subscription>,
    /// The lines on which they stand, as they were read.
    #[serde(skip)]
    pub lines: Vec<u64>,
    /// Whether it ends too early.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Feeds that are more than are read.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
    /// Feeds that stood in the same outline before.
    pub repeated: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A feed of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Subscription {
    /// Its name.
    pub title: Option<String>,
    /// Where it is.
    pub feed_url: String,
    /// The page it belongs to.
    pub home_url: Option<String>,
    /// What it is filed under: the outlines around it joined by `/`, then what it says itself.
    pub categories: Vec<String>,
}

/// Reads a list.
///
/// # Errors
/// When there is none, or it breaks a limit.
pub fn parse(body: &[u8]) -> Result<Opml, OpmlError> {
    if body.len() > MAX_BYTES {
        return Err(OpmlError::TooLarge);
    }
    let decoded = charset::decode(body, None, Markup::Xml);
    let mut scanner = Scanner::new(&decoded.text, 50);
    let mut opml = Opml::default();
    let (mut is_opml, mut is_closed) = (false, false);
    let mut known = Known::default();
    let room = Room::of(decoded.text.len());
    // The names of the outlines that are open, as levels of categories; a feed has none.
    let mut open: Vec<Option<String>> = Vec::new();
    let mut in_title = false;
    let (mut line, mut counted) = (1, 0);
    loop {
        let node = scanner.next();
        let passed = decoded.text.get(counted..scanner.position()).unwrap_or_default();
        line += passed.bytes().filter(|byte| *byte == b'\n').count() as u64;
        counted = scanner.position();
        match node {
            Node::Open(tag) => match &*tag.kind() {
                "opml" => (is_opml, is_closed) = (true, tag.empty),
                "title" => in_title = !tag.empty,
                "outline" if open.len() >= MAX_DEPTH => return Err(OpmlError::TooDeep),
                "outline" => {
                    let name = opml.outline(&tag, &open, &room, &mut known);
                    if room.is_exhausted() {
                        return Err(OpmlError::LongCategories);
                    }
                    opml.lines.resize(opml.feeds.len(), line);
                    if !tag.empty {
                        open.push(name);
                    }
                }
                _ => {}
            },
            Node::Close(name) if local(name).eq_ignore_ascii_case("outline") => drop(open.pop()),
            Node::Close(name) if local(name).eq_ignore_ascii_case("title") => in_title = false,
            Node::Close(name) => is_closed |= local(name).eq_ignore_ascii_case("opml"),
            Node::Text(text) if in_title && open.is_empty() => {
                let title = text::one_line(&text);
                opml.title = opml.title.or_else(|| (!title.is_empty()).then_some(title));
            }
            Node::Text(_) => {}
            Node::End => break,
        }
    }
    opml.truncated = if is_opml { !is_closed } else { !open.is_empty() };
    if is_opml || !opml.feeds.is_empty() { Ok(opml) } else { Err(OpmlError::NotOpml) }
}

/// Feeds that stood in the same outline before, by a keyed hash: their text is held once already.
#[derive(Default)]
struct Known {
    hasher: RandomState,
    seen: HashSet<u64>,
}

impl Known {
    /// Whether it is the first one.
    fn insert(&mut self, feed_url: &str, outline: &str) -> bool {
        self.seen.insert(self.hasher.hash_one((feed_url, outline)))
    }
}

impl Opml {
    /// Takes an outline in; one that is no feed names a category.
    fn outline(
        &mut self,
        tag: &Tag<'_>,
        open: &[Option<String>],
        room: &Room,
        known: &mut Known,
    ) -> Option<String> {
        let title = tag.attribute("title").or_else(|| tag.attribute("text"));
        let title = title.map(|title| text::plain(&title)).filter(|title| !title.is_empty());
        // Some lists have the address of the feed where the page's should be.
        let is_feed = tag.attribute("type").is_some_and(|kind| {
            ["rss", "atom", "feed"].iter().any(|word| kind.to_ascii_lowercase().contains(word))
        });
        let url = tag.attribute("xmlUrl").or_else(|| tag.attribute("url").filter(|_| is_feed));
        let Some(feed_url) = url.as_deref().map(web_address) else {
            return title.map(|title| level(&title));
        };
        if self.feeds.len() >= MAX_FEEDS {
            self.left_out += 1;
            return None;
        }
        let around: Vec<&str> =
            open.iter().flatten().map(String::as_str).take(MAX_LEVELS).collect();
        let around = around.join("/");
        if !room.grow(around.len()) {
            return None;
        }
        if known.insert(&feed_url, &around) {
            let own = tag.attribute("category").unwrap_or_default();
            let own = own.split(',').map(|own| own.trim().trim_matches('/')).take(MAX_CATEGORIES);
            let mut categories: Vec<String> = Vec::new();
            for category in std::iter::once(around.as_str()).chain(own) {
                if !category.is_empty() && !categories.iter().any(|known| known == category) {
                    categories.push(category.to_owned());
                }
            }
            let home_url = tag.attribute("htmlUrl");
            self.feeds.push(Subscription { title, feed_url, home_url, categories });
        } else {
            self.repeated += 1;
        }
        None
    }

    /// Writes the list as OPML 2.0, feeds under their first category.
    #[must_use]
    pub fn write(&self) -> String {
        let mut groups: Vec<(&str, Vec<&Subscription>)> = Vec::new();
        for feed in &self.feeds {
            let category = feed.categories.first().map_or("", String::as_str);
            match groups.iter_mut().find(|(name, _)| *name == category) {
                Some((_, feeds)) => feeds.push(feed),
                None => groups.push((category, vec![feed])),
            }
        }
        let mut out =
            String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<opml version=\"2.0\">\n");
        let title = text::escape(self.title.as_deref().unwrap_or("Feeds"));
        out.push_str(&format!("  <head><title>{title}</title></head>\n  <body>\n"));
        for (category, feeds) in groups {
            let names = levels(category);
            for (depth, name) in names.iter().enumerate() {
                let indent = "  ".repeat(depth + 2);
                out.push_str(&format!("{indent}<outline text=\"{}\">\n", quoted(name)));
            }
            for feed in feeds {
                out.push_str(&"  ".repeat(names.len() + 2));
                out.push_str(&feed.outline());
            }
            for depth in (0..names.len()).rev() {
                out.push_str(&format!("{}</outline>\n", "  ".repeat(depth + 2)));
            }
        }
        out.push_str("  </body>\n</opml>\n");
        out
    }
}

impl Subscription {
    fn outline(&self) -> String {
        let title = quoted(self.title.as_deref().unwrap_or(&self.feed_url));
        let mut out = format!("<outline type=\"rss\" text=\"{title}\" title=\"{title}\"");
        out.push_str(&format!(" xmlUrl=\"{}\"", quoted(&self.feed_url)));
        if let Some(home) = &self.home_url {
            out.push_str(&format!(" htmlUrl=\"{}\"", quoted(home)));
        }
        let more = self.categories.get(1..).unwrap_or_default().join(",");
        if !more.is_empty() {
            out.push_str(&format!(" category=\"{}\"", quoted(&more)));
        }
        out.push_str("/>\n");
        out
    }
}

/// An address that can be fetched: `feed:` only says what is there.
fn web_address(address: &str) -> String {
    let rest = address.get(..5).filter(|start| start.eq_ignore_ascii_case("feed:"));
    match rest.and_then(|_| address.get(5..)) {
        Some(rest) if rest.starts_with("//") => format!("http:{rest}"),
        Some(rest) => rest.to_owned(),
        None => address.to_owned(),
    }
}

/// The name of an outline as one level of a category, as much of it as a level may have.
fn level(name: &str) -> String {
    let mut level = spaced(name);
    level.truncate(level.floor_char_boundary(MAX_LEVEL));
    level.truncate(level.trim_end_matches([' ', '/']).len());
    level.shrink_to_fit();
    level
}

/// The name of an outline as part of a category: a `/` in it has blanks around, so that it is not
/// taken for the one between two outlines.
fn spaced(name: &str) -> String {
    let parts: Vec<_> = name.split('/').map(str::trim).filter(|part| !part.is_empty()).collect();
    parts.join(" / ")
}

/// The names of the outlines that a category stands for.
#[must_use]
pub fn levels(category: &str) -> Vec<String> {
    // What stands between blanks is put aside while the others are split.
    let marked = category.replace(" / ", "\0");
    let names = marked.split('/').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| name.replace('\0', " / ")).collect()
}

/// Text as an attribute's value.
fn quoted(text: &str) -> String {
    text::escape(&text::clean(text.to_owned()))
        .replace('"', "&quot;")
        .replace(['\n', '\r', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn outlines_inside_each_other_are_categories() {
        let opml = parse(
            b"<?xml version='1.0'?><opml version='2.0'><head><title>Mine &amp; yours</title></head><body>\
            <outline text='News'><outline text='World' ><outline type='rss' text='A' xmlUrl='https://a.example/feed'\
            htmlUrl='https://a.example/' category='/x/y,News/World'/></outline>\
            <outline title='B' text='b' XMLURL='https://b.example/feed'></outline></outline>\
            <outline text='C &lt;b&gt;c&lt;/b&gt;' xmlUrl='https://c.example/feed'/>\
            <outline text='C again' xmlUrl='https://c.example/feed'/>\
            <outline text='A again' xmlUrl='https://a.example/feed'/>\
            <outline type='link' text='no feed' url='https://d.example/'/></body></opml>",
        )
        .unwrap();
        assert_eq!(opml.title.as_deref(), Some("Mine & yours"));
        let seen: Vec<_> = opml
            .feeds
            .iter()
            .map(|feed| (feed.title.as_deref().unwrap(), feed.categories.join(" ")))
            .collect();
        assert_eq!(
            seen,
            [
                ("A", "News/World x/y".into()),
                ("B", "News".into()),
                ("C c", String::new()),
                ("A again", String::new())
            ],
            "once in an outline"
        );
        assert_eq!(opml.repeated, 1);
        assert_eq!(opml.feeds[0].home_url.as_deref(), Some("https://a.example/"));
        let list = parse(b"<opml>\n<outline xmlUrl='https://a.example/'\n/>\n\n<outline xmlUrl='https://b.example/'/></opml>");
        assert_eq!(list.unwrap().lines, [3, 5], "where they end");
    }

    #[test]
    fn a_list_that_ends_too_early_says_so() {
        let whole = "<opml><body><outline text='A' xmlUrl='https://a.example/'/></body></opml>";
        assert!(!parse(whole.as_bytes()).unwrap().truncated);
        let cut = "<opml><body><outline text='A' xmlUrl='https://a.example/'/><outline text='B' xm";
        let list = parse(cut.as_bytes()).unwrap();
        assert!(list.truncated && list.feeds.len() == 1);
    }

    #[test]
    fn addresses_may_say_that_there_is_a_feed() {
        for (given, address) in [
            ("feed://a.example/rss", "http://a.example/rss"),
            ("FEED:https://a.example/rss", "https://a.example/rss"),
            ("https://a.example/feed:x", "https://a.example/feed:x"),
        ] {
            let list = format!("<opml><outline xmlUrl='{given}'/></opml>");
            assert_eq!(parse(list.as_bytes()).unwrap().feeds[0].feed_url, address);
        }
    }

    #[test]
    fn a_stroke_in_a_name_makes_no_outline() {
        let list = "<opml><outline text='World / EU'><outline text='AC/DC'>\
                    <outline text='A' xmlUrl='https://a.example/'/></outline></outline></opml>";
        let list = parse(list.as_bytes()).unwrap();
        assert_eq!(list.feeds[0].categories, ["World / EU/AC / DC"]);
        let written = list.write();
        assert!(written.contains("<outline text=\"World / EU\">"), "{written}");
        assert!(written.contains("<outline text=\"AC / DC\">"), "{written}");
        assert_eq!(parse(written.as_bytes()).unwrap().feeds, list.feeds);
    }

    /// A list of this many feeds inside of outlines with long names.
    fn nested(outlines: usize, name: usize, feeds: usize) -> Result<Opml, OpmlError> {
        let mut list = String::from("<opml><body>");
        for number in 0..outlines {
            list.push_str(&format!("<outline text='{number}{}'>", "c".repeat(name)));
        }
        for number in 0..feeds {
            list.push_str(&format!("<outline xmlUrl='https://a.example/{number}'/>"));
        }
        list.push_str(&"</outline>".repeat(outlines));
        parse(format!("{list}</body></opml>").as_bytes())
    }

    #[test]
    fn a_category_has_ten_levels_of_500_bytes() {
        let list = nested(60, 4_000, 100).unwrap();
        let levels = levels(&list.feeds[99].categories[0]);
        assert_eq!(levels.len(), MAX_LEVELS);
        assert!(levels.iter().all(|level| level.len() == MAX_LEVEL));
        assert_eq!(level(&format!("{} / b", "a".repeat(498))), "a".repeat(498));
    }

    #[test]
    fn names_that_are_too_long_for_so_many_feeds_are_refused() {
        assert_eq!(nested(60, 4_000, 20_000), Err(OpmlError::LongCategories));
        assert_eq!(OpmlError::LongCategories.code(), "too_large");
        assert_eq!(nested(3, 60, 20_000).unwrap().feeds.len(), 20_000);
    }

    #[test]
    fn what_is_no_list_has_a_code() {
        assert_eq!(parse(b"<rss/>").unwrap_err().code(), "not_opml");
        assert_eq!(parse(b"").unwrap_err().code(), "not_opml");
        let deep = format!("<opml>{}", "<outline text='x'>".repeat(200));
        assert_eq!(parse(deep.as_bytes()).unwrap_err().code(), "too_deep");
        assert_eq!(parse(b"<opml/>").unwrap(), Opml::default());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            feeds in prop::collection::btree_map("[a-z]{1,8}", (
                prop::option::of("[a-zA-Z<>&\"'\u{e9}]{1,10}"),
                prop::option::of("[a-z&]{1,5}(/[a-z\"]{1,5}){0,2}"),
            ), 0..8),
        ) {
            let subscription = |(name, (title, category)): (String, (Option<String>, Option<String>))| {
                let feed_url = format!("https://{name}.example/feed?a=1&b=2");
                // A title is plain text: what reads as markup or as an entity is not written.
                let title = title.map(|title| title.replace(['<', '>', '&'], ""));
                let title = title.filter(|title| !title.trim().is_empty()).unwrap_or(feed_url.clone());
                let categories = category.map(|category| category.replace('&', "")).filter(|c| !c.split('/').any(str::is_empty));
                Subscription { title: Some(title), feed_url, home_url: None, categories: categories.into_iter().collect() }
            };
            let mut feeds: Vec<_> = feeds.into_iter().map(subscription).collect();
            let opml = Opml { title: Some("List".into()), feeds: feeds.clone(), ..Opml::default() };
            let mut read = parse(opml.write().as_bytes()).unwrap().feeds;
            feeds.sort_by(|a, b| a.feed_url.cmp(&b.feed_url));
            read.sort_by(|a, b| a.feed_url.cmp(&b.feed_url));
            prop_assert_eq!(read, feeds);
        }

        #[test]
        fn any_bytes_end_well(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(opml) = parse(&bytes) {
                prop_assert!(opml.feeds.len() <= bytes.len());
            }
        }
    }
}
