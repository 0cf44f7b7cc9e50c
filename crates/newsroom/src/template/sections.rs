//! `<main>` with sections and generated class names.

use super::Page;
use super::parts::{self, BodyStyle};
use crate::markup::{escape, rfc3339};

const BODY: BodyStyle = BodyStyle {
    lead: (r#"<p class="css-1q9k lead">"#, "</p>"),
    paragraph: (r#"<p class="css-1q9k">"#, "</p>"),
    heading: (r#"<h3 class="css-x81">"#, "</h3>"),
    quotation: (r#"<blockquote class="css-77b"><p>"#, "</p></blockquote>"),
    aside: (r#"<section class="css-a0 promo">"#, "</section>"),
};

pub(crate) fn render(page: &Page<'_>) -> String {
    let content = format!(
        "<div id=\"app\">\n<nav class=\"css-n1\">{navigation}</nav>\n<main>\n{crumbs}\n<section class=\"css-h4\">\n<h1>{title}</h1>\n\
         <div class=\"css-by\"><span class=\"author\">{authors}</span> <time datetime=\"{iso}\">{date}</time></div>\n{figure}\n</section>\n\
         <section class=\"css-body\" data-component=\"text\">\n{body}</section>\n<section class=\"css-s\">{share}</section>\n\
         <section class=\"css-r\">{related}</section>\n<section class=\"css-c\">{comments}</section>\n</main>\n</div>",
        navigation = parts::navigation(page.site),
        crumbs = parts::breadcrumbs(page),
        title = escape(&page.story.title),
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
