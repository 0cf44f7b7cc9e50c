//! Where an operator says that the parts of a source's articles stand.
//!
//! What a selector finds wins over everything that is worked out; what it does not find is worked out
//! as ever. Parts are looked for in the container first, then in the whole page. Nothing here guesses.

use std::collections::HashSet;

use html5ever::local_name;
use serde::{Deserialize, Serialize};

use super::body::Why;
use super::css::{Finder, Selector};
use super::metadata::{Facts, absolute};
use super::page::Page;
use super::tags::Tag;
use super::tree::{Id, Tree};
use super::{MIN_TEXT, clean, names};
use crate::date;
use crate::url::Url;

/// The most that is taken of a part that is no body, in bytes.
const MAX_PART: usize = 4_000;
/// The most elements that are taken for a list.
const MAX_LISTED: usize = 50;

/// Selectors of a source's articles; in a list of alternatives the first that matches wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Selectors {
    /// The element that the whole article stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Selector>,
    /// The headline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Selector>,
    /// The text: all of what it finds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Selector>,
    /// The first paragraph or summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intro: Option<Selector>,
    /// Those who wrote it.
    #[serde(alias = "byline", skip_serializing_if = "Option::is_none")]
    pub author: Option<Selector>,
    /// When it was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_time: Option<Selector>,
    /// The part of the publication.
    #[serde(alias = "category", skip_serializing_if = "Option::is_none")]
    pub section: Option<Selector>,
    /// Its labels.
    #[serde(alias = "tags", skip_serializing_if = "Option::is_none")]
    pub keywords: Option<Selector>,
    /// The main picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Selector>,
    /// What is no part of any of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Selector>,
}

impl Selectors {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes what is excluded out of the page.
    pub(super) fn prune(&self, tree: &mut Tree) {
        let finder = Finder::new(tree);
        let found = self.exclude.iter().flat_map(|selector| finder.find_any(selector, &[0]));
        let excluded: Vec<Id> = found.collect();
        for id in excluded {
            tree.remove(id);
        }
    }
}

/// The parts of one page.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    tree: &'a Tree,
    selectors: &'a Selectors,
    finder: Finder<'a>,
    /// What the container's selector found.
    containers: Vec<Id>,
}

impl<'a> Parts<'a> {
    pub(super) fn new(tree: &'a Tree, selectors: &'a Selectors) -> Self {
        let finder = Finder::new(tree);
        let found = selectors.container.as_ref().map(|selector| finder.find(selector, &[0]));
        Self { tree, selectors, finder, containers: found.unwrap_or_default() }
    }

    fn find(&self, selector: Option<&Selector>) -> Vec<Id> {
        let Some(selector) = selector else { return Vec::new() };
        let inside = self.finder.find(selector, &self.containers);
        if inside.is_empty() { self.finder.find(selector, &[0]) } else { inside }
    }

    /// Which blocks have text inside of these elements.
    fn blocks(&self, page: &Page, roots: &[Id]) -> Vec<bool> {
        let inside = |root: &Id| {
            let root = *root;
            std::iter::successors(Some(root), move |id| self.tree.following(*id, root, true))
        };
        let inside: HashSet<Id> = roots.iter().flat_map(inside).collect();
        let has_text = |block| page.runs(block).iter().any(|run| inside.contains(run));
        page.blocks.iter().map(has_text).collect()
    }

    /// Settles which blocks are the body, and says by what: the body's selector, or what the model
    /// took in the container. Without a match everything stays as it is.
    pub(super) fn settle(&self, page: &Page, why: &mut [Why]) -> &'static str {
        let telling = |blocks: &[bool]| {
            let texts = blocks.iter().enumerate().filter(|(_, is_in)| **is_in);
            let chars = texts.flat_map(|(index, _)| page.text_at(index).chars());
            chars.filter(|c| c.is_alphanumeric()).take(MIN_TEXT).count() == MIN_TEXT
        };
        let body = self.blocks(page, &self.find(self.selectors.body.as_ref()));
        if telling(&body) {
            for ((why, is_in), block) in why.iter_mut().zip(&body).zip(&page.blocks) {
                // The headline is no text of the body.
                let is_text = *is_in && page.tag_of(block) != Tag::H1;
                *why = if is_text { Why::Taken } else { Why::Elsewhere };
            }
            return "selectors";
        }
        let container = self.blocks(page, &self.containers);
        if telling(&container) {
            let taken = why.iter().zip(&container).map(|(why, is_in)| *is_in && *why == Why::Taken);
            let nothing = !telling(&taken.collect::<Vec<_>>());
            for (why, is_in) in why.iter_mut().zip(&container) {
                match (*is_in, *why) {
                    (false, Why::Taken) => *why = Why::Elsewhere,
                    (true, _) if nothing => *why = Why::Taken,
                    _ => {}
                }
            }
        }
        match (&self.selectors.body, &self.selectors.container) {
            (None, None) => "model",
            (None, Some(_)) if telling(&container) => "selectors",
            _ => "selectors_missed",
        }
    }

    /// Puts what was found in the place of what was worked out.
    pub(super) fn correct(&self, facts: &mut Facts, base: Option<&Url>) {
        let selectors = self.selectors;
        let first = |selector: &Option<Selector>| self.texts(selector.as_ref()).into_iter().next();
        if let Some(title) = first(&selectors.title) {
            facts.title = title;
        }
        if let Some(section) = first(&selectors.section) {
            facts.section = Some(section);
        }
        let names = names::names(&self.texts(selectors.author.as_ref()), true);
        if !names.is_empty() {
            facts.authors = names;
        }
        let listed = self.texts(selectors.keywords.as_ref());
        let split = listed.iter().flat_map(|text| text.split([',', ';']));
        let tags: Vec<String> = split.filter_map(clean::plain).take(MAX_LISTED).collect();
        if !tags.is_empty() {
            facts.tags = tags;
        }
        let time = first(&selectors.published_time);
        if let Some(published) = time.as_deref().and_then(date::parse) {
            (facts.published, facts.day) = (Some(published), Some(published.day()));
        }
        let image = self.find(selectors.image.as_ref()).into_iter().find_map(|id| self.address(id));
        if let Some(image) = image.and_then(|image| absolute(base, image)) {
            facts.lead_image = Some(image);
        }
    }

    /// The summary.
    pub(super) fn intro(&self) -> Option<String> {
        self.texts(self.selectors.intro.as_ref()).into_iter().next()
    }

    /// What elements say: in the attribute that is for machines, or else as their text.
    fn texts(&self, selector: Option<&Selector>) -> Vec<String> {
        let said = |id: Id| {
            let names = [local_name!("content"), local_name!("datetime")];
            let own = names.iter().find_map(|name| self.tree.attr(id, name).and_then(clean::plain));
            let text = || clean::plain(&self.tree.text(id, MAX_PART, true));
            own.or_else(text)
        };
        self.find(selector).into_iter().filter_map(said).take(MAX_LISTED).collect()
    }

    /// The address that an element carries, or the first picture in it.
    fn address(&self, root: Id) -> Option<&str> {
        let names = [local_name!("content"), local_name!("src"), local_name!("href")];
        let own = |id| {
            let said = names.iter().filter_map(|name| self.tree.attr(id, name).map(str::trim));
            said.into_iter().find(|said| !said.is_empty() && !said.starts_with("data:"))
        };
        let is_picture = |id: &Id| self.tree.name(*id) == Some(&local_name!("img"));
        let inner = std::iter::successors(Some(root), |id| self.tree.following(*id, root, true));
        own(root).or_else(|| inner.filter(is_picture).find_map(own))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Evidence, Extracted, extract};
    use super::*;

    fn page() -> String {
        let prose = |about: &str| {
            format!("<p>The council met on Monday and talked for long about {about}. </p>")
        };
        let text: String = ["bridges", "roads", "schools", "trees"].map(prose).concat();
        let other: String = ["bread", "salt", "water", "flour"].map(prose).concat();
        format!(
            "<html><head><title>Bridges | Paper</title><meta name=topics content='Roads, Town'>\
             </head><body><main><article id=story><h1>Bridges</h1><h2 class=real>A real title</h2>\
             <span class=by>By Ada Byron and Max Born</span><time class=at datetime='2026-05-03T10:00Z'>\
             yesterday</time><div class=text>{text}<aside class=box>Read more here now</aside></div>\
             <div class=recipe>{other}</div></article></main>\
             <div id=side>{}<figure class=lead><img src=/i/a.jpg></figure></div></body></html>",
            prose("something else that is long")
        )
    }

    fn read(selectors: &str) -> Extracted {
        let selectors: Selectors = serde_json::from_str(selectors).unwrap();
        let evidence = Evidence { selectors: Some(&selectors), ..Evidence::default() };
        extract(&page(), "https://example.com/a", &evidence).unwrap()
    }

    #[test]
    fn what_selectors_find_wins() {
        let read = read(
            r#"{"container": "main, article", "title": ".none, h2.real", "body": ".recipe",
                "byline": ".by", "published_time": "time.at", "keywords": "meta[name=topics]",
                "image": "figure.lead", "intro": ".text p:nth-child(2)"}"#,
        );
        assert_eq!(read.title, "A real title");
        assert!(read.text.starts_with("The council met on Monday and talked for long about bread"));
        assert_eq!(read.text.matches("council").count(), 4);
        assert_eq!(read.authors, ["Ada Byron", "Max Born"]);
        assert_eq!(read.published.unwrap().to_string(), "2026-05-03T10:00:00Z");
        assert_eq!(read.day.as_deref(), Some("2026-05-03"));
        assert_eq!(read.tags, ["Roads", "Town"]);
        assert_eq!(read.lead_image.as_deref(), Some("https://example.com/i/a.jpg"));
        assert!(read.abstract_.unwrap().contains("roads"));
        assert_eq!((read.method, read.confidence), ("selectors", 1.0));
    }

    #[test]
    fn a_container_is_where_the_model_looks() {
        let read = read(r#"{"container": "div.text"}"#);
        assert_eq!(read.method, "selectors");
        assert!(read.text.contains("bridges") && !read.text.contains("bread"), "{}", read.text);
        assert_eq!(read.title, "Bridges", "the rest is worked out as ever");
    }

    #[test]
    fn what_is_excluded_is_nowhere() {
        let read = read(r#"{"body": ".text", "exclude": ["aside.box", ".text p:first-child"]}"#);
        assert!(!read.text.contains("Read more") && !read.text.contains("bridges"));
        assert!(read.text.contains("roads") && !read.html.contains("Read more"));
    }

    #[test]
    fn the_headline_is_no_text() {
        let read = read(r##"{"body": "#story"}"##);
        assert!(!read.text.contains("Bridges\n") && read.text.contains("A real title"));
    }

    #[test]
    fn without_a_match_the_model_reads_and_says_so() {
        let plain = read("{}");
        let missed = read(r#"{"container": ".gone", "body": ".gone", "title": ".gone"}"#);
        assert_eq!((plain.method, missed.method), ("model", "selectors_missed"));
        assert_eq!((missed.text, missed.title), (plain.text, plain.title));
    }
}
