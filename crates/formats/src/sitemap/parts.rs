//! What the elements of a sitemap are, and what is told of faults. It never keeps anything.

use super::{SitemapError, SitemapUrl, Video};
use crate::xml::{Node, Scanner, Tag, local, text};

/// What an item names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Page,
    Sitemap,
}

impl Item {
    /// The item that an element of this name is.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            name if name.eq_ignore_ascii_case("url") => Some(Self::Page),
            name if name.eq_ignore_ascii_case("sitemap") => Some(Self::Sitemap),
            _ => None,
        }
    }
}

/// What of a page an element belongs to: each part has locations, titles and dates of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Page,
    News,
    Image,
    Video,
    /// A part that nobody here knows.
    Other,
}

impl Part {
    /// The most pictures, films or languages of one page.
    pub(super) const MOST: usize = 1_000;

    /// The part that the element opens.
    pub(super) fn of(tag: &Tag<'_>, page: &mut SitemapUrl) -> Option<Self> {
        match &*tag.kind() {
            "news" => Some(Self::News),
            "image" => Some(Self::Image),
            "video" => {
                if page.videos.len() < Self::MOST {
                    page.videos.push(Video::default());
                }
                Some(Self::Video)
            }
            "pagemap" | "mobile" => Some(Self::Other),
            _ => None,
        }
    }

    pub(super) fn is_closed_by(self, name: &str) -> bool {
        let own: &[&str] = match self {
            Self::Page => &[],
            Self::News => &["news"],
            Self::Image => &["image"],
            Self::Video => &["video"],
            Self::Other => &["pagemap", "mobile"],
        };
        own.iter().any(|own| local(name).eq_ignore_ascii_case(own))
    }
}

/// The kind of the document, by its root element.
pub(super) fn root(scanner: &mut Scanner<'_>) -> Result<&'static str, SitemapError> {
    loop {
        match scanner.next() {
            Node::Open(tag) => {
                return match tag.local().to_ascii_lowercase().as_str() {
                    "urlset" => Ok("urlset"),
                    "sitemapindex" => Ok("sitemapindex"),
                    "html" | "head" | "body" => Err(SitemapError::HtmlNotSitemap),
                    _ => Err(SitemapError::NotASitemap),
                };
            }
            Node::Text(_) | Node::Close(_) => {}
            Node::End => return Err(SitemapError::NotASitemap),
        }
    }
}

/// The text directly in an element; elements that hold others, as `news:news`, have none.
pub(super) fn text_of(scanner: &mut Scanner<'_>, tag: &Tag<'_>) -> Option<String> {
    let mut text = String::new();
    if tag.empty {
        return None;
    }
    loop {
        let at = scanner.position();
        match scanner.next() {
            Node::Text(more) => text.push_str(&more),
            Node::Close(name) if name == tag.name => break,
            Node::Open(_) | Node::Close(_) => {
                scanner.go_to(at);
                break;
            }
            Node::End => break,
        }
    }
    let text = text::one_line(&text);
    (!text.is_empty()).then_some(text)
}

/// What a publisher should know of a fault.
pub(super) fn advice(code: &str) -> &'static str {
    match code {
        "bad_date" => "write dates as W3C's profile of ISO 8601 says",
        "odd_date" => "this date was read leniently: write it as W3C's profile of ISO 8601 says",
        "bad_url" => "this is no address that can be followed",
        "relative_url" => "write whole addresses",
        "second_loc" => "an item has one address: this one was left out",
        "misplaced" => "pages belong in a urlset, sitemaps in a sitemapindex",
        "truncated" => "the document ends too early",
        _ => "there are more addresses than are read",
    }
}
