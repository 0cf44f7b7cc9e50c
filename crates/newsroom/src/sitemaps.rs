//! Sitemaps: the news sitemap of the last 48 hours, and an index with a child per month and page.

use std::ops::Range;

use crate::markup::{escape, month, month_bounds, rfc3339};
use crate::publisher::Publisher;
use crate::world::World;

const PER_CHILD: i64 = 500;
const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
const NAMESPACE: &str = "http://www.sitemaps.org/schemas/sitemap/0.9";

/// The news sitemap over these stories.
pub(crate) fn news(world: &World, site: &Publisher, numbers: Range<i64>) -> String {
    let mut xml = format!(
        "{HEAD}<urlset xmlns=\"{NAMESPACE}\" xmlns:news=\"http://www.google.com/schemas/sitemap-news/0.9\">\n"
    );
    for number in numbers.rev() {
        let story = world.outline(site, number);
        xml += &format!(
            "<url><loc>{}</loc><news:news><news:publication><news:name>{}</news:name><news:language>{}</news:language>\
             </news:publication><news:publication_date>{}</news:publication_date><news:title>{}</news:title></news:news></url>\n",
            escape(&site.url(&story.path)),
            escape(&site.name),
            site.language.code(),
            rfc3339(story.published_at),
            escape(&story.title),
        );
    }
    xml + "</urlset>\n"
}

/// The index: a child for each page of each month.
pub(crate) fn index(site: &Publisher, visible: &Range<i64>) -> String {
    let mut xml = format!("{HEAD}<sitemapindex xmlns=\"{NAMESPACE}\">\n");
    let mut number = visible.start;
    while number < visible.end {
        let name = month(site.rhythm.published_at(number));
        let stories = within_month(site, visible, &name).unwrap_or(number..visible.end);
        let starts = (stories.start..stories.end).step_by(PER_CHILD as usize);
        for (page, start) in starts.enumerate() {
            let newest = (start + PER_CHILD).min(stories.end) - 1;
            xml += &format!(
                "<sitemap><loc>{}</loc><lastmod>{}</lastmod></sitemap>\n",
                site.url(&child_path(site, &name, page + 1)),
                rfc3339(site.rhythm.published_at(newest)),
            );
        }
        number = stories.end.max(number + 1);
    }
    xml + "</sitemapindex>\n"
}

/// The stories of the child at this path, if there is such a child.
pub(crate) fn child(site: &Publisher, visible: &Range<i64>, path: &str) -> Option<Range<i64>> {
    let (name, page) = path.strip_prefix("/sitemap-")?.split_once(".xml")?.0.rsplit_once('-')?;
    let page: usize = page.parse().ok()?;
    let stories = within_month(site, visible, name)?;
    let start = stories.start.checked_add((page.checked_sub(1)? as i64).checked_mul(PER_CHILD)?)?;
    let range = start..(start + PER_CHILD).min(stories.end);
    (!range.is_empty() && child_path(site, name, page) == path).then_some(range)
}

/// A plain sitemap of these stories.
pub(crate) fn plain(world: &World, site: &Publisher, numbers: Range<i64>) -> String {
    let mut xml = format!("{HEAD}<urlset xmlns=\"{NAMESPACE}\">\n");
    for number in numbers {
        let story = world.outline(site, number);
        xml += &format!(
            "<url><loc>{}</loc><lastmod>{}</lastmod></url>\n",
            escape(&site.url(&story.path)),
            rfc3339(story.published_at),
        );
    }
    xml + "</urlset>\n"
}

fn child_path(site: &Publisher, month: &str, page: usize) -> String {
    let extension = if site.gzipped_sitemaps { "xml.gz" } else { "xml" };
    format!("/sitemap-{month}-{page}.{extension}")
}

fn within_month(site: &Publisher, visible: &Range<i64>, name: &str) -> Option<Range<i64>> {
    let (from, to) = month_bounds(name)?;
    let start = site.rhythm.next_after(from - 1).max(visible.start);
    let end = site.rhythm.next_after(to - 1).min(visible.end);
    (start < end).then_some(start..end)
}
