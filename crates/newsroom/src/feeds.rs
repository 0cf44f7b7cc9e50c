//! Feeds and their archive pages (RFC 5005) in RSS 2.0, Atom and JSON Feed. A sheet is rendered
//! from its range of story numbers alone; nothing outside the range may leak into it.

use std::ops::Range;

use serde_json::{Value, json};

use crate::markup::{escape, http_date, rfc3339};
use crate::media::SOUND_LENGTH;
use crate::publisher::{Channel, FeedFormat, Publisher};
use crate::world::{Outline, World};

/// One feed document.
pub(crate) struct Sheet {
    pub(crate) numbers: Range<i64>,
    /// Which archive page this is; the feed itself has none.
    page: Option<i64>,
    /// The archive page with the stories before these.
    previous: Option<i64>,
}

impl Sheet {
    /// The feed: the newest stories of the window.
    pub(crate) fn current(site: &Publisher, visible: &Range<i64>) -> Self {
        let start = (visible.end - site.window as i64).max(visible.start);
        let full = (visible.end - visible.start) / page_size(site);
        let previous = (site.has(Channel::Archive) && full > 0).then_some(full);
        Self { numbers: start..visible.end, page: None, previous }
    }

    /// An archive page; only full pages exist, so they never change.
    pub(crate) fn archive(site: &Publisher, visible: &Range<i64>, page: i64) -> Option<Self> {
        let start =
            visible.start.checked_add(page.checked_sub(1)?.checked_mul(page_size(site))?)?;
        let end = start.checked_add(page_size(site))?;
        let exists = site.has(Channel::Archive) && page > 0 && end <= visible.end;
        let previous = (page > 1).then_some(page - 1);
        exists.then_some(Self { numbers: start..end, page: Some(page), previous })
    }

    fn url(&self, site: &Publisher) -> String {
        self.page.map_or_else(|| site.url(site.feed_path()), |page| archive_url(site, page))
    }
}

fn page_size(site: &Publisher) -> i64 {
    (site.window as i64 / 2).max(1)
}

fn archive_url(site: &Publisher, page: i64) -> String {
    site.url(&format!("/feed/archive/{page}"))
}

pub(crate) fn content_type(format: FeedFormat) -> &'static str {
    match format {
        FeedFormat::Rss => "application/rss+xml; charset=utf-8",
        FeedFormat::Atom => "application/atom+xml; charset=utf-8",
        FeedFormat::Json => "application/feed+json; charset=utf-8",
    }
}

/// The document, newest story first. A salt spoils the ids: that is a fault on command.
pub(crate) fn render(world: &World, site: &Publisher, sheet: &Sheet, salt: Option<u64>) -> String {
    let stories: Vec<Outline> =
        sheet.numbers.clone().rev().map(|number| world.outline(site, number)).collect();
    let updated = stories.first().map_or(0, |story| story.published_at);
    let items = stories.iter().map(|story| Item { site, story, salt });
    match site.feed_format {
        FeedFormat::Rss => rss(site, sheet, updated, items),
        FeedFormat::Atom => atom(site, sheet, updated, items),
        FeedFormat::Json => json_feed(site, sheet, items).to_string(),
    }
}

struct Item<'a> {
    site: &'a Publisher,
    story: &'a Outline,
    salt: Option<u64>,
}

impl Item<'_> {
    fn link(&self) -> String {
        let url = self.site.url(&self.story.path);
        if !self.site.tracking {
            return url;
        }
        let separator = if url.contains('?') { '&' } else { '?' };
        format!("{url}{separator}utm_source=feed&utm_medium=syndication&utm_campaign=newsroom")
    }

    fn id(&self) -> String {
        let id =
            format!("tag:{},2026:{}", self.site.host, self.story.number - self.site.oldest + 1);
        self.salt.map_or(id.clone(), |salt| format!("{id}-{salt}"))
    }

    fn sound(&self) -> Option<String> {
        let number = self.story.number - self.site.oldest + 1;
        self.site.enclosures.then(|| self.site.url(&format!("/media/{number}.mp3")))
    }

    fn rss(&self) -> String {
        let story = self.story;
        let lede = escape(&story.lede);
        // Half of the publishers put markup into the summary.
        let summary = if self.site.index.is_multiple_of(2) {
            lede
        } else {
            format!("<![CDATA[<p>{lede}</p>]]>")
        };
        let authors: String = story.authors.iter().map(|it| element("dc:creator", it)).collect();
        let enclosure = self.sound().map_or_else(String::new, |url| {
            format!("<enclosure url=\"{url}\" type=\"audio/mpeg\" length=\"{}\"/>", SOUND_LENGTH)
        });
        format!(
            "<item>{}{}<guid isPermaLink=\"false\">{}</guid><description>{summary}</description>{}{}{authors}{enclosure}</item>\n",
            element("title", &story.title),
            element("link", &self.link()),
            escape(&self.id()),
            element("pubDate", &http_date(story.published_at)),
            element("category", story.category),
        )
    }

    fn atom(&self) -> String {
        let story = self.story;
        let at = rfc3339(story.published_at);
        let authors: String = story
            .authors
            .iter()
            .map(|it| format!("<author>{}</author>", element("name", it)))
            .collect();
        let enclosure = self.sound().map_or_else(String::new, |url| {
            format!("<link rel=\"enclosure\" type=\"audio/mpeg\" href=\"{url}\"/>")
        });
        format!(
            "<entry>{}<link rel=\"alternate\" href=\"{}\"/>{enclosure}{}{}{}{}{authors}<category term=\"{}\"/></entry>\n",
            element("title", &story.title),
            escape(&self.link()),
            element("id", &self.id()),
            element("published", &at),
            element("updated", &at),
            element("summary", &story.lede),
            story.category,
        )
    }

    fn json(&self) -> Value {
        let story = self.story;
        let authors: Vec<Value> = story.authors.iter().map(|it| json!({ "name": it })).collect();
        let mut item = json!({
            "id": self.id(),
            "url": self.link(),
            "title": story.title,
            "summary": story.lede,
            "content_text": story.lede,
            "date_published": rfc3339(story.published_at),
            "authors": authors,
            "tags": [story.category],
        });
        if let (Some(url), Some(fields)) = (self.sound(), item.as_object_mut()) {
            fields
                .insert("attachments".to_owned(), json!([{"url": url, "mime_type": "audio/mpeg"}]));
        }
        item
    }
}

fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escape(text))
}

fn rss<'a>(
    site: &Publisher,
    sheet: &Sheet,
    updated: i64,
    items: impl Iterator<Item = Item<'a>>,
) -> String {
    let links = history_links(site, sheet, "atom:link");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rss version=\"2.0\" xmlns:atom=\"http://www.w3.org/2005/Atom\" \
         xmlns:dc=\"http://purl.org/dc/elements/1.1/\" xmlns:fh=\"http://purl.org/syndication/history/1.0\">\n<channel>\
         {}{}{}{}{}{links}\n{}</channel>\n</rss>\n",
        element("title", &site.name),
        element("link", &site.url("/")),
        element("description", &site.name),
        element("language", site.language.code()),
        element("lastBuildDate", &http_date(updated)),
        items.map(|item| item.rss()).collect::<String>(),
    )
}

fn atom<'a>(
    site: &Publisher,
    sheet: &Sheet,
    updated: i64,
    items: impl Iterator<Item = Item<'a>>,
) -> String {
    let links = history_links(site, sheet, "link");
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\" \
         xmlns:fh=\"http://purl.org/syndication/history/1.0\" xml:lang=\"{}\">{}{}{}<link href=\"{}\"/>{links}\n{}</feed>\n",
        site.language.code(),
        element("title", &site.name),
        element("id", &site.url("/")),
        element("updated", &rfc3339(updated)),
        site.url("/"),
        items.map(|item| item.atom()).collect::<String>(),
    )
}

/// The links between feed and archive, and the mark of an archive page.
fn history_links(site: &Publisher, sheet: &Sheet, tag: &str) -> String {
    let mut links = format!("<{tag} rel=\"self\" href=\"{}\"/>", sheet.url(site));
    if let Some(page) = sheet.previous {
        links += &format!("<{tag} rel=\"prev-archive\" href=\"{}\"/>", archive_url(site, page));
    }
    if sheet.page.is_some() {
        links += &format!(
            "<{tag} rel=\"current\" href=\"{}\"/><fh:archive/>",
            site.url(site.feed_path())
        );
    }
    links
}

fn json_feed<'a>(site: &Publisher, sheet: &Sheet, items: impl Iterator<Item = Item<'a>>) -> Value {
    json!({
        "version": "https://jsonfeed.org/version/1.1",
        "title": site.name,
        "home_page_url": site.url("/"),
        "feed_url": sheet.url(site),
        "language": site.language.code(),
        "items": items.map(|item| item.json()).collect::<Vec<_>>(),
    })
}
