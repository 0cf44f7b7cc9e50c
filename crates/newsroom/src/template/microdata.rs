//! schema.org microdata: `itemprop` on everything that has a name.

use super::Page;
use super::parts::{self, BodyStyle};
use crate::markup::{escape, rfc3339};

const BODY: BodyStyle = BodyStyle {
    lead: (r#"<p class="article__paragraph article__paragraph--lead">"#, "</p>"),
    paragraph: (r#"<p class="article__paragraph">"#, "</p>"),
    heading: (r#"<h2 class="article__subhead">"#, "</h2>"),
    quotation: (r#"<blockquote class="article__quote">"#, "</blockquote>"),
    aside: (r#"<aside class="article__aside">"#, "</aside>"),
};

pub(crate) fn render(page: &Page<'_>) -> String {
    let content = format!(
        "<div class=\"header\"><nav class=\"header__nav\">{navigation}</nav></div>\n\
         <div class=\"layout\" itemscope itemtype=\"https://schema.org/NewsArticle\">\n{crumbs}\n\
         <h1 class=\"article__title\" itemprop=\"headline\">{title}</h1>\n\
         <div class=\"article__meta\"><span itemprop=\"author\" itemscope itemtype=\"https://schema.org/Person\">{by} <span itemprop=\"name\">{authors}</span></span>\
         <meta itemprop=\"datePublished\" content=\"{iso}\"><span>{date}</span></div>\n{figure}\n\
         <div class=\"article__body\" itemprop=\"articleBody\">\n{body}</div>\n{share}\n{related}\n{comments}\n</div>",
        navigation = parts::navigation(page.site),
        crumbs = parts::breadcrumbs(page),
        title = escape(&page.story.title),
        by = page.labels.by,
        authors = parts::authors(page),
        iso = rfc3339(page.story.published_at),
        date = parts::date(page),
        figure = parts::figure(page),
        body = parts::body(page, &BODY),
        share = parts::share_bar(page),
        related = parts::related(page),
        comments = parts::comments(page),
    );
    parts::document(page, &content)
}
