//! The classes of a widespread blog system.

use super::Page;
use super::parts::{self, BodyStyle};
use crate::markup::{escape, rfc3339};

const BODY: BodyStyle = BodyStyle {
    lead: ("<p>", "</p>"),
    paragraph: ("<p>", "</p>"),
    heading: (r#"<h3 class="wp-block-heading">"#, "</h3>"),
    quotation: (r#"<blockquote class="wp-block-quote"><p>"#, "</p></blockquote>"),
    aside: (r#"<div class="widget in-content">"#, "</div>"),
};

pub(crate) fn render(page: &Page<'_>) -> String {
    let content = format!(
        "<div id=\"page\" class=\"site\">\n<div id=\"masthead\" class=\"site-header\"><div class=\"menu-primary\">{navigation}</div></div>\n\
         <div id=\"content\" class=\"site-content\"><div id=\"primary\" class=\"content-area\">\n{crumbs}\n\
         <div id=\"post-{number}\" class=\"post type-post hentry category-{category}\">\n\
         <div class=\"entry-header\"><h1 class=\"entry-title\">{title}</h1><div class=\"entry-meta\">\
         <span class=\"posted-on\"><time class=\"entry-date published\" datetime=\"{iso}\">{date}</time></span> \
         <span class=\"author vcard\">{by} <a class=\"url fn n\" href=\"/about\">{authors}</a></span></div></div>\n\
         <div class=\"post-thumbnail\">{figure}</div>\n<div class=\"entry-content\">\n{body}</div>\n\
         <div class=\"entry-footer\"><div class=\"sharedaddy\">{share}</div><span class=\"cat-links\">{category}</span></div>\n</div>\n{comments}\n</div>\n\
         <div id=\"secondary\" class=\"widget-area\"><div class=\"widget\">{related}</div></div>\n</div></div>",
        navigation = parts::navigation(page.site),
        crumbs = parts::breadcrumbs(page),
        number = page.story.number - page.site.oldest + 1,
        category = page.story.category,
        title = escape(&page.story.title),
        iso = rfc3339(page.story.published_at),
        date = parts::date(page),
        by = page.labels.by,
        authors = parts::authors(page),
        figure = parts::figure(page),
        body = parts::body(page, &BODY),
        share = parts::share_bar(page),
        comments = parts::comments(page),
        related = parts::related(page),
    );
    parts::document(page, &content)
}
