//! Where a page leads: its links as absolute addresses, those that a selector points at, and whether
//! the page wants to be followed at all.
//!
//! Nothing here judges an address: that is [`crate::walk`]'s. Fragments are dropped, what is no http
//! address is no link, and a page has so many links and no more.

use std::collections::HashMap;

use html5ever::local_name;

use super::css::{Finder, Selector};
use super::declared::Declared;
use super::tree::{Data, Id, Tree};
use super::{MAX_BYTES, NotArticle};
use crate::url::{self, Url};

/// The most links of a page that are kept.
const MAX_LINKS: usize = 5_000;
/// The most that is kept of what a link says, in bytes.
const MAX_TEXT: usize = 300;
/// What pages that hold one text call it.
const ARTICLES: [&str; 7] = [
    "NewsArticle",
    "Article",
    "BlogPosting",
    "PressRelease",
    "Event",
    "SpecialAnnouncement",
    "Report",
];

/// A link, the first one of its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Absolute, without a fragment.
    pub url: Url,
    /// What it says, in one line.
    pub text: String,
    /// Whether it stands in the page's frame alone: navigation, header, footer or an aside.
    pub in_frame: bool,
    /// Whether it may be followed: it is not `rel=nofollow`.
    pub follow: bool,
    /// Whether it is `rel=next`.
    pub is_next: bool,
}

/// A page that leads to others.
#[derive(Debug)]
pub struct Links {
    tree: Tree,
    base: Option<Url>,
    /// Whether its links may be followed: no `robots` meta element says otherwise.
    pub follow: bool,
    /// Whether it declares itself to be one article.
    pub is_article: bool,
}

impl Links {
    /// Reads the page that was served at `url`; `agent` is the name that it may address us by.
    ///
    /// # Errors
    /// When the page is too large to be looked at.
    pub fn read(html: &str, url: &str, agent: &str) -> Result<Self, NotArticle> {
        if html.len() > MAX_BYTES {
            return Err(NotArticle::TooLarge);
        }
        let tree = Tree::read(html).map_err(|_| NotArticle::TooLarge)?;
        let declared = Declared::collect(&tree);
        let served = url::parse(url).ok();
        let base = (0..tree.len())
            .filter(|id| tree.name(*id) == Some(&local_name!("base")))
            .find_map(|id| tree.attr(id, &local_name!("href")))
            .and_then(|href| {
                served.as_ref().map_or_else(|| url::parse(href), |url| url::join(url, href)).ok()
            });
        Ok(Self {
            follow: !is_nofollow(&declared, agent),
            is_article: is_article(&declared),
            base: base.or(served),
            tree,
        })
    }

    /// All links, in the order of the page, each address once.
    #[must_use]
    pub fn all(&self) -> Vec<Link> {
        self.gather((0..self.tree.len()).filter(|id| self.is_link(*id)))
    }

    /// The links that a selector points at: its elements are links, or hold some, or stand in one.
    #[must_use]
    pub fn picked(&self, selector: &Selector) -> Vec<Link> {
        let found = Finder::new(&self.tree).find(selector, &[0]);
        self.gather(found.into_iter().flat_map(|root| self.links_of(root)))
    }

    fn links_of(&self, root: Id) -> Vec<Id> {
        let inside = std::iter::successors(Some(root), |id| self.tree.following(*id, root, true));
        let found: Vec<Id> = inside.filter(|id| self.is_link(*id)).collect();
        if !found.is_empty() {
            return found;
        }
        self.around(root).find(|id| self.is_link(*id)).into_iter().collect()
    }

    fn is_link(&self, id: Id) -> bool {
        let is_anchor = matches!(
            self.tree.name(id),
            Some(&local_name!("a") | &local_name!("area") | &local_name!("link"))
        );
        // A `link` element leads on only where it names the next page.
        is_anchor && (self.tree.name(id) != Some(&local_name!("link")) || self.has_rel(id, "next"))
    }

    fn around(&self, id: Id) -> impl Iterator<Item = Id> {
        std::iter::successors(self.tree.parent(id), |id| self.tree.parent(*id))
    }

    fn has_rel(&self, id: Id, wanted: &str) -> bool {
        let rel = self.tree.attr(id, &local_name!("rel")).unwrap_or_default();
        rel.split_whitespace().any(|word| word.eq_ignore_ascii_case(wanted))
    }

    fn gather(&self, ids: impl Iterator<Item = Id>) -> Vec<Link> {
        let mut links: Vec<Link> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for id in ids {
            let Some(link) = self.link(id) else { continue };
            let known = places.get(link.url.as_str()).copied();
            if known.is_none() && links.len() == MAX_LINKS {
                break;
            }
            match known.and_then(|at| links.get_mut(at)) {
                Some(known) => {
                    known.in_frame &= link.in_frame;
                    known.follow &= link.follow;
                    known.is_next |= link.is_next;
                    if known.text.is_empty() {
                        known.text = link.text;
                    }
                }
                None => {
                    places.insert(link.url.to_string(), links.len());
                    links.push(link);
                }
            }
        }
        links
    }

    fn link(&self, id: Id) -> Option<Link> {
        let href = self.tree.attr(id, &local_name!("href"))?.trim();
        if href.is_empty() || href.starts_with('#') {
            return None;
        }
        let mut url = match &self.base {
            Some(base) => url::join(base, href).ok()?,
            None => url::parse(href).ok()?,
        };
        url.set_fragment(None);
        let text = self.tree.text(id, MAX_TEXT, true);
        Some(Link {
            in_frame: self.is_framed(id),
            follow: !["nofollow", "sponsored", "ugc"].iter().any(|rel| self.has_rel(id, rel)),
            is_next: self.has_rel(id, "next"),
            text: if text.is_empty() { self.label(id) } else { text },
            url,
        })
    }

    /// Whether an element stands in the page's frame; the header of one story among many is none.
    fn is_framed(&self, id: Id) -> bool {
        let mut headed = false;
        for id in self.around(id) {
            match self.tree.name(id) {
                Some(&local_name!("nav") | &local_name!("aside")) => return true,
                Some(&local_name!("header") | &local_name!("footer")) => headed = true,
                Some(&local_name!("article")) => headed = false,
                _ => {}
            }
        }
        headed
    }

    /// What a link without a text says: its own label, or that of a picture in it.
    fn label(&self, root: Id) -> String {
        let mut inside =
            std::iter::successors(Some(root), |id| self.tree.following(*id, root, true));
        let label = inside.find_map(|id| match self.tree.data(id) {
            Data::Element { attrs, .. } => attrs.iter().find(|attr| {
                matches!(&*attr.name.local, "aria-label" | "title" | "alt")
                    && !attr.value.is_empty()
            }),
            _ => None,
        });
        label.map(|attr| attr.value.chars().take(MAX_TEXT).collect()).unwrap_or_default()
    }
}

fn is_nofollow(declared: &Declared, agent: &str) -> bool {
    let named = |name: &str| name == "robots" || name.eq_ignore_ascii_case(agent);
    let says = |content: &str| {
        content.split(',').any(|word| {
            let word = word.trim();
            word.eq_ignore_ascii_case("nofollow") || word.eq_ignore_ascii_case("none")
        })
    };
    declared.metas.iter().any(|(name, content)| named(name) && says(content))
}

/// By its JSON-LD, unless it calls itself a site, or by its `og:type`.
fn is_article(declared: &Declared) -> bool {
    let og = declared.raw_meta("og:type").map(|kind| kind.trim().to_ascii_lowercase());
    let typed = || declared.ld.types.iter().any(|kind| ARTICLES.contains(&kind.as_str()));
    og.as_deref() == Some("article") || (og.is_none() && typed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r##"<html><head><base href="/news/"><meta property="og:type" content="website">
        <link rel="stylesheet" href="/a.css"></head><body>
        <nav><a href="/">Home</a> <a href="a.html">A</a></nav>
        <main><ul class=list>
          <li><article><header><a href="a.html#top">Story  <b>A</b></a></header></article></li>
          <li><a href="https://other.example/b" rel="nofollow">B</a></li>
          <li><a href="/c"><img alt="Picture of C"></a></li>
          <li><a href="mailto:x@y.example">mail</a><a href="#x">up</a><a href="javascript:go()">go</a></li>
        </ul><p class=pager><a rel="next" href="?page=2">more</a></p></main>
        <aside><a href="/d">D</a></aside></body></html>"##;

    fn urls(links: &[Link]) -> Vec<&str> {
        links.iter().map(|link| link.url.as_str()).collect()
    }

    #[test]
    fn links_are_absolute_and_each_address_comes_once() {
        let page = Links::read(PAGE, "https://e.example/x", "feedmill").unwrap();
        let links = page.all();
        assert_eq!(
            urls(&links),
            [
                "https://e.example/",
                "https://e.example/news/a.html",
                "https://other.example/b",
                "https://e.example/c",
                "https://e.example/news/?page=2",
                "https://e.example/d",
            ]
        );
        let [home, a, b, c, next, d] = &links[..] else { panic!() };
        assert!(home.in_frame && !a.in_frame && d.in_frame);
        assert_eq!((a.text.as_str(), c.text.as_str()), ("A", "Picture of C"));
        assert!(!b.follow && a.follow && next.is_next);
        assert!(page.follow && !page.is_article);
    }

    #[test]
    fn a_selector_points_at_links_or_what_holds_them_or_stands_in_them() {
        let page = Links::read(PAGE, "https://e.example/x", "feedmill").unwrap();
        let picked = |selector: &str| page.picked(&selector.parse().unwrap());
        let held =
            ["https://e.example/news/a.html", "https://other.example/b", "https://e.example/c"];
        assert_eq!(urls(&picked("ul.list > li")), held);
        assert_eq!(urls(&picked("article header a")), held[..1]);
        assert_eq!(urls(&picked("li img")), held[2..]);
        assert_eq!(urls(&picked(".pager")), ["https://e.example/news/?page=2"]);
        assert!(picked(".nothing").is_empty());
    }

    #[test]
    fn who_does_not_want_to_be_followed_says_so() {
        let follows = |meta: &str| {
            let html = format!("<meta {meta}><a href=/a>a</a>");
            Links::read(&html, "https://e.example/", "Feedmill").unwrap().follow
        };
        assert!(!follows("name=robots content='noindex, NoFollow'"));
        assert!(!follows("name=robots content=none"));
        assert!(!follows("name=feedmill content=nofollow"));
        assert!(follows("name=robots content=noindex"));
        assert!(follows("name=otherbot content=nofollow"));
    }

    #[test]
    fn an_article_declares_itself() {
        let is = |head: &str| Links::read(head, "https://e.example/", "f").unwrap().is_article;
        let ld =
            r#"<script type="application/ld+json">{"@type":"NewsArticle","headline":"x"}</script>"#;
        assert!(is(ld));
        assert!(is("<meta property='og:type' content='article'>"));
        assert!(!is(&format!("<meta property='og:type' content='website'>{ld}")));
        assert!(!is("<p>nothing</p>"));
    }
}
