//! Nothing but `div`, ids and habit: even paragraphs are `div`s and the title is an `h2`.

use super::Page;
use super::parts::{self, BodyStyle};
use crate::markup::escape;

const BODY: BodyStyle = BodyStyle {
    lead: (r#"<div class="txt first"><b>"#, "</b></div>"),
    paragraph: (r#"<div class="txt">"#, "</div>"),
    heading: ("<h4>", "</h4>"),
    quotation: (r#"<div class="txt quote">"#, "</div>"),
    aside: (r#"<div class="box">"#, "</div>"),
};

pub(crate) fn render(page: &Page<'_>) -> String {
    let content = format!(
        "<div id=\"wrap\">\n<div id=\"top\"><div id=\"logo\">{name}</div><div id=\"menu\">{navigation}</div></div>\n\
         <div id=\"cols\"><div id=\"left\">\n{crumbs}\n<div id=\"story\">\n<h2 id=\"headline\">{title}</h2>\n\
         <div id=\"info\">{published}: {date} | {by} {authors}</div>\n{share}\n{figure}\n\
         <div id=\"storytext\">\n{body}</div>\n</div>\n{comments}\n</div>\n<div id=\"right\">{related}</div></div>\n</div>",
        name = escape(&page.site.name),
        navigation = parts::navigation(page.site),
        crumbs = parts::breadcrumbs(page),
        title = escape(&page.story.title),
        published = page.labels.published,
        date = parts::date(page),
        by = page.labels.by,
        authors = parts::authors(page),
        share = parts::share_bar(page),
        figure = parts::figure(page),
        body = parts::body(page, &BODY),
        comments = parts::comments(page),
        related = parts::related(page),
    );
    parts::document(page, &content)
}
