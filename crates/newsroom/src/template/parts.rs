//! What the house styles share: the head with its metadata, the body with its inline markup, and
//! the furniture around it. Nothing here may change the visible text of a block.

use std::fmt::Write as _;

use serde_json::json;

use super::{Link, Page};
use crate::markup::{escape, reading_date, rfc3339};
use crate::prose::{Block, joined};
use crate::publisher::{Channel, FeedFormat, Front, JsonLd, Publisher};
use crate::rng::Rng;

/// Opening and closing markup of each kind of block.
pub(crate) struct BodyStyle {
    pub(crate) lead: (&'static str, &'static str),
    pub(crate) paragraph: (&'static str, &'static str),
    pub(crate) heading: (&'static str, &'static str),
    pub(crate) quotation: (&'static str, &'static str),
    /// Opening and closing markup of a box within the text.
    pub(crate) aside: (&'static str, &'static str),
}

/// The body, with adverts and boxes between its paragraphs.
pub(crate) fn body(page: &Page<'_>, style: &BodyStyle) -> String {
    let mut rng = page.rng();
    let mut html = String::new();
    for (index, block) in page.blocks.iter().enumerate() {
        let (open, close) = match block {
            Block::Heading(_) => style.heading,
            Block::Quotation(_) => style.quotation,
            Block::Paragraph(_) if index == 0 => style.lead,
            Block::Paragraph(_) => style.paragraph,
        };
        let text = match block {
            Block::Heading(text) => escape(text),
            _ => inline(block.text(), page.related.first(), &mut rng),
        };
        html.extend([open, &text, close, "\n"]);
        if let Some(inserted) = between(page, index).filter(|_| !matches!(block, Block::Heading(_)))
        {
            html.extend([style.aside.0, &inserted, style.aside.1, "\n"]);
        }
    }
    html
}

/// What stands between two blocks, if anything; never after the last one.
fn between(page: &Page<'_>, index: usize) -> Option<String> {
    let (labels, furniture) = (page.labels, &page.site.furniture);
    if index + 1 >= page.blocks.len() {
        return None;
    }
    match index {
        1 if furniture.adverts => Some(format!(
            r#"<div class="ad-slot"><span class="ad-label">{}</span> {}</div>"#,
            labels.advertisement,
            escape(labels.advert)
        )),
        4 if furniture.newsletter => Some(newsletter(page)),
        5 => page.related.get(1).map(|it| {
            format!(r#"<div class="read-also">{}: {}</div>"#, labels.related, anchor(it))
        }),
        _ => None,
    }
}

/// Marks up some words of a text without changing what is read.
fn inline(text: &str, link: Option<&Link>, rng: &mut Rng) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let marked = rng.chance(0.5).then(|| rng.below(words.len()));
    let last = marked.map(|first| (first + rng.below(3)).min(words.len() - 1));
    let (open, close) = match (rng.below(3), link) {
        (0, Some(link)) => (format!(r#"<a href="{}">"#, escape(&link.href)), "</a>"),
        (1, _) => ("<strong>".to_owned(), "</strong>"),
        _ => ("<em>".to_owned(), "</em>"),
    };
    let mut html = String::with_capacity(text.len() + 64);
    for (index, word) in words.into_iter().enumerate() {
        if index > 0 {
            html.push(' ');
        }
        if marked == Some(index) {
            html.push_str(&open);
        }
        html.push_str(&escape(word));
        if last == Some(index) {
            html.push_str(close);
        }
    }
    html
}

/// A whole document around `content`.
pub(crate) fn frame(site: &Publisher, title: &str, meta: &str, content: &str) -> String {
    let named = site.feed_url().filter(|_| site.front == Front::Alternate);
    let feed = named.map_or_else(String::new, |href| {
        let kind = match site.feed_format {
            FeedFormat::Rss => "application/rss+xml",
            FeedFormat::Atom => "application/atom+xml",
            FeedFormat::Json => "application/feed+json",
        };
        format!(
            r#"<link rel="alternate" type="{kind}" title="{}" href="{href}">"#,
            escape(&site.name)
        )
    });
    format!(
        "<!DOCTYPE html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{} | {}</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n{feed}\n{meta}\
         <style>body{{font-family:serif}} .ad-slot{{color:gray}}</style>\n\
         <script>window.dataLayer = window.dataLayer || []; if (1 < 2 && 3 > 2) {{ dataLayer.push('view'); }}</script>\n\
         </head>\n<body>\n{content}\n</body>\n</html>\n",
        site.language.code(),
        escape(title),
        escape(&site.name),
    )
}

/// A whole article document around `content`.
pub(crate) fn document(page: &Page<'_>, content: &str) -> String {
    let content = format!("{}{content}\n{}", cookie_banner(page), footer(page));
    frame(page.site, &page.story.title, &meta(page), &content)
}

fn meta(page: &Page<'_>) -> String {
    let story = &page.story;
    let (url, lede) = (escape(&page.url()), escape(&story.lede));
    let mut html = format!(
        "<link rel=\"canonical\" href=\"{url}\">\n<meta name=\"description\" content=\"{lede}\">\n"
    );
    if page.site.furniture.open_graph {
        let properties = [
            ("og:type", "article"),
            ("og:title", &escape(&story.title)),
            ("og:description", &lede),
            ("og:url", &url),
            ("og:site_name", &escape(&page.site.name)),
            ("og:locale", page.site.language.code()),
            ("article:published_time", &rfc3339(story.published_at)),
            ("article:section", story.category),
        ];
        for (name, value) in properties {
            html.extend(["<meta property=\"", name, "\" content=\"", value, "\">\n"]);
        }
    }
    html + &json_ld(page)
}

fn json_ld(page: &Page<'_>) -> String {
    let authors: Vec<_> =
        page.story.authors.iter().map(|name| json!({"@type": "Person", "name": name})).collect();
    let mut data = json!({
        "@context": "https://schema.org",
        "@type": "NewsArticle",
        "headline": page.story.title,
        "datePublished": rfc3339(page.story.published_at),
        "author": authors,
        "publisher": {"@type": "Organization", "name": page.site.name},
        "mainEntityOfPage": page.url(),
        "articleSection": page.story.category,
        "inLanguage": page.site.language.code(),
    });
    match page.site.json_ld {
        JsonLd::None => return String::new(),
        JsonLd::Brief => {}
        JsonLd::Full => {
            if let Some(fields) = data.as_object_mut() {
                fields.insert("articleBody".to_owned(), joined(&page.blocks).into());
            }
        }
    }
    format!("<script type=\"application/ld+json\">{data}</script>\n")
}

pub(crate) fn anchor(link: &Link) -> String {
    format!(r#"<a href="{}">{}</a>"#, escape(&link.href), escape(&link.text))
}

/// The way around the site; one of its links is bait that robots.txt forbids.
pub(crate) fn navigation(site: &Publisher) -> String {
    let labels = &site.language.words().labels;
    let mut html = format!(r#"<ul><li><a href="/">{}</a></li>"#, labels.home);
    if site.has(Channel::Listing) {
        html.extend([r#"<li><a href="/latest">"#, labels.latest, "</a></li>"]);
        for category in &site.categories {
            html.extend([r#"<li><a href="/"#, category, r#"/">"#, category, "</a></li>"]);
        }
    }
    html.extend([r#"<li><a href="/private/desk">•</a></li><li><a href="/about">"#, labels.about]);
    html + "</a></li></ul>"
}

pub(crate) fn breadcrumbs(page: &Page<'_>) -> String {
    if !page.site.furniture.breadcrumbs {
        return String::new();
    }
    format!(
        r#"<div class="breadcrumbs"><a href="/">{}</a> › <span>{}</span></div>"#,
        page.labels.home, page.story.category
    )
}

pub(crate) fn authors(page: &Page<'_>) -> String {
    escape(&page.story.authors.join(", "))
}

/// Shown to people; machines read the `datetime` beside it.
pub(crate) fn date(page: &Page<'_>) -> String {
    reading_date(page.story.published_at)
}

pub(crate) fn figure(page: &Page<'_>) -> String {
    if !page.site.furniture.figure {
        return String::new();
    }
    format!(
        r#"<figure><img src="/media/{}.gif" alt="" width="640" height="360"><figcaption>{}: {}</figcaption></figure>"#,
        page.story.number - page.site.oldest + 1,
        page.labels.photo,
        escape(&page.site.name),
    )
}

pub(crate) fn share_bar(page: &Page<'_>) -> String {
    if !page.site.furniture.share_bar {
        return String::new();
    }
    format!(
        r##"<div class="share-bar"><span>{}</span><ul><li><a href="#m">Mastodon</a></li><li><a href="#l">LinkedIn</a></li><li><a href="mailto:?subject=1">E-Mail</a></li></ul></div>"##,
        page.labels.share
    )
}

fn newsletter(page: &Page<'_>) -> String {
    format!(
        r#"<div class="newsletter-box"><form action="/newsletter"><label>{} <input type="email" name="email"></label> <button>{}</button></form></div>"#,
        escape(page.labels.newsletter),
        page.labels.subscribe
    )
}

pub(crate) fn related(page: &Page<'_>) -> String {
    let mut html = format!(r#"<div class="related-stories"><h3>{}</h3><ul>"#, page.labels.related);
    for link in &page.related {
        html.extend(["<li>", &anchor(link), "</li>"]);
    }
    html + "</ul></div>"
}

pub(crate) fn comments(page: &Page<'_>) -> String {
    if !page.site.furniture.comments {
        return String::new();
    }
    let comment = escape(page.labels.comment);
    format!(
        r#"<div id="comments" class="comments"><h3>{} (2)</h3><div class="comment"><b>kestrel_77</b><p>{comment}</p></div><div class="comment"><b>M. B.</b><p>{comment}</p></div></div>"#,
        page.labels.comments
    )
}

fn cookie_banner(page: &Page<'_>) -> String {
    if !page.site.furniture.cookie_banner {
        return String::new();
    }
    format!(
        "<div id=\"cookie-consent\" class=\"cookie-banner\" role=\"dialog\"><p>{}</p><button>{}</button></div>\n",
        escape(page.labels.cookies),
        page.labels.accept
    )
}

fn footer(page: &Page<'_>) -> String {
    format!(
        r#"<footer class="site-footer"><p>© {} — {}</p><a href="/about">{}</a></footer>"#,
        escape(&page.site.name),
        page.labels.rights,
        page.labels.about
    )
}

/// The content of a list page.
pub(crate) fn story_list(
    site: &Publisher,
    stories: &[(Link, String)],
    next: Option<&str>,
) -> String {
    let labels = &site.language.words().labels;
    let mut html =
        format!("<nav>{}</nav>\n<main><h1>{}</h1>\n", navigation(site), escape(&site.name));
    for (link, lede) in stories {
        html.extend([
            "<div class=\"teaser\"><h2>",
            &anchor(link),
            "</h2><p>",
            &escape(lede),
            "</p></div>\n",
        ]);
    }
    if let Some(next) = next {
        // Writing to a string cannot fail.
        write!(html, r#"<a rel="next" href="{}">{}</a>"#, escape(next), labels.next_page).ok();
    }
    html + "</main>"
}
