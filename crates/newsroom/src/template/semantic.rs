//! `<article>` with header and footer, as HTML meant it.

use super::Page;
use super::parts::{self, BodyStyle};
use crate::markup::{escape, rfc3339};

const BODY: BodyStyle = BodyStyle {
    lead: (r#"<p class="lead">"#, "</p>"),
    paragraph: ("<p>", "</p>"),
    heading: ("<h2>", "</h2>"),
    quotation: ("<blockquote><p>", "</p></blockquote>"),
    aside: ("<aside>", "</aside>"),
};

pub(crate) fn render(page: &Page<'_>) -> String {
    let content = format!(
        "<header><nav>{navigation}</nav></header>\n<main>\n{crumbs}\n<article>\n<header>\n<h1>{title}</h1>\n\
         <p class=\"byline\">{by} <a rel=\"author\" href=\"/about\">{authors}</a> · <time datetime=\"{iso}\">{date}</time></p>\n\
         {share}\n</header>\n{figure}\n{body}<footer>{related}</footer>\n</article>\n{comments}\n</main>",
        navigation = parts::navigation(page.site),
        crumbs = parts::breadcrumbs(page),
        title = escape(&page.story.title),
        by = page.labels.by,
        authors = parts::authors(page),
        iso = rfc3339(page.story.published_at),
        date = parts::date(page),
        share = parts::share_bar(page),
        figure = parts::figure(page),
        body = parts::body(page, &BODY),
        related = parts::related(page),
        comments = parts::comments(page),
    );
    parts::document(page, &content)
}
