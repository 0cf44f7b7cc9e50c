//! What a publisher's host serves at a path, at a time: found first, with its validators, and
//! rendered only when it has to be sent. Pure; misbehaviour is added elsewhere.

use std::ops::Range;

use crate::feeds::{self, Sheet};
use crate::markup::parse_http_date;
use crate::maze::{self, Corner};
use crate::publisher::{Channel, Front, Publisher};
use crate::rng::{Purpose, Rng};
use crate::world::{self, Outline, World};
use crate::{gzip, media, sitemaps, template};

const PER_LIST_PAGE: usize = 20;

/// Something that exists at a path.
pub(crate) enum Resource {
    Robots,
    Home(Range<i64>),
    About,
    Private,
    Listing { of: Shelf, page: usize, visible: Range<i64> },
    Corner(Corner),
    Feed(Sheet),
    NewsSitemap(Range<i64>),
    SitemapIndex(Range<i64>),
    Sitemap(Range<i64>),
    Story(Outline),
    Sound(i64),
    Picture(i64),
}

/// Which stories a list has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shelf {
    All,
    Category(&'static str),
    /// Those with this label.
    Label(usize),
}

impl Shelf {
    fn has(self, world: &World, site: &Publisher, number: i64) -> bool {
        match self {
            Self::All => true,
            Self::Category(category) => world.category(site, number) == category,
            Self::Label(label) => {
                number.rem_euclid(maze::LABELS.len() as i64) == i64::try_from(label).unwrap_or(0)
            }
        }
    }

    fn path(self) -> String {
        match self {
            Self::All => "/latest".to_owned(),
            Self::Category(category) => format!("/{category}/"),
            Self::Label(label) => {
                format!("/tag/{}", maze::LABELS.get(label).copied().unwrap_or_default())
            }
        }
    }
}

/// `ETag` and `Last-Modified` of a resource.
pub(crate) struct Validators {
    pub(crate) etag: String,
    pub(crate) modified: i64,
}

/// What is at this path at this time, if anything.
pub(crate) fn locate(world: &World, site: &Publisher, target: &str, now: i64) -> Option<Resource> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let visible = world.visible(site, now);
    let offered = |channel, resource| site.has(channel).then_some(resource);
    match path {
        "/robots.txt" => return Some(Resource::Robots),
        "/" => return Some(Resource::Home(visible)),
        "/about" => return Some(Resource::About),
        "/news-sitemap.xml" => {
            return offered(
                Channel::NewsSitemap,
                Resource::NewsSitemap(world::news(site, visible, now)),
            );
        }
        "/sitemap.xml" => return offered(Channel::Sitemap, Resource::SitemapIndex(visible)),
        _ if path == site.feed_path() => {
            return offered(Channel::Feed, Resource::Feed(Sheet::current(site, &visible)));
        }
        _ if site.disallowed().iter().any(|prefix| path.starts_with(prefix)) => {
            return Some(Resource::Private);
        }
        _ => {}
    }
    if let Some(page) = path.strip_prefix("/feed/archive/") {
        return Sheet::archive(site, &visible, page.parse().ok()?).map(Resource::Feed);
    }
    if path.starts_with("/sitemap-") && site.has(Channel::Sitemap) {
        return sitemaps::child(site, &visible, path).map(Resource::Sitemap);
    }
    if let Some(name) = path.strip_prefix("/media/") {
        return medium(site, name, &visible);
    }
    if let Some(listing) = listing(site, path, query, &visible) {
        return Some(listing);
    }
    if site.maze
        && let Some(corner) = maze::locate(path, query)
    {
        return Some(Resource::Corner(corner));
    }
    let story = world.find(site, target)?;
    visible.contains(&story.number).then_some(Resource::Story(story))
}

fn medium(site: &Publisher, name: &str, visible: &Range<i64>) -> Option<Resource> {
    let (count, kind) = name.split_once('.')?;
    let number = count.parse::<i64>().ok()?.checked_sub(1)?.checked_add(site.oldest)?;
    match kind {
        _ if !visible.contains(&number) => None,
        "mp3" => site.enclosures.then_some(Resource::Sound(number)),
        "gif" => Some(Resource::Picture(number)),
        _ => None,
    }
}

fn listing(site: &Publisher, path: &str, query: &str, visible: &Range<i64>) -> Option<Resource> {
    let name = path.trim_matches('/');
    let label = name.strip_prefix("tag/").filter(|_| site.maze);
    let of = match (name, label) {
        ("latest", _) => Shelf::All,
        (_, Some(label)) => Shelf::Label(maze::LABELS.iter().position(|known| *known == label)?),
        (name, None) => {
            Shelf::Category(site.categories.iter().find(|category| **category == name)?)
        }
    };
    let page = query.split('&').find_map(|pair| pair.strip_prefix("page="));
    let page = page.map_or(Some(1), |digits| digits.parse().ok())?;
    let listing = Resource::Listing { of, page, visible: visible.clone() };
    (site.has(Channel::Listing) && page > 0).then_some(listing)
}

impl Resource {
    /// Everything that is made of stories can be validated.
    pub(crate) fn validators(&self, world: &World, site: &Publisher) -> Option<Validators> {
        let (kind, numbers) = match self {
            Self::Feed(sheet) => (1, sheet.numbers.clone()),
            Self::NewsSitemap(numbers) => (2, numbers.clone()),
            Self::SitemapIndex(numbers) => (3, numbers.clone()),
            Self::Sitemap(numbers) => (4, numbers.clone()),
            Self::Story(story) => (5, story.number..story.number + 1),
            Self::Sound(number) => (6, *number..number + 1),
            Self::Picture(number) => (7, *number..number + 1),
            Self::Robots
            | Self::Home(_)
            | Self::About
            | Self::Private
            | Self::Corner(_)
            | Self::Listing { .. } => {
                return None;
            }
        };
        if numbers.is_empty() {
            return None;
        }
        let parts = [world.seed, site.index as u64, kind, numbers.start as u64, numbers.end as u64];
        let tag = Rng::of(Purpose::Validator, &parts).next();
        let weak = if site.index.is_multiple_of(2) { "" } else { "W/" };
        Some(Validators {
            etag: format!("{weak}\"{tag:016x}\""),
            modified: site.rhythm.published_at(numbers.end - 1),
        })
    }

    pub(crate) fn is_feed(&self) -> bool {
        matches!(self, Self::Feed(_))
    }

    /// Content type and body.
    pub(crate) fn render(
        self,
        world: &World,
        site: &Publisher,
        salt: Option<u64>,
    ) -> (&'static str, Vec<u8>) {
        const HTML: &str = "text/html; charset=utf-8";
        const XML: &str = "application/xml; charset=utf-8";
        match self {
            Self::Robots => ("text/plain; charset=utf-8", robots(site).into()),
            Self::Home(visible) => (HTML, home(world, site, visible).into()),
            Self::About | Self::Private => (HTML, about(site).into()),
            Self::Listing { of, page, visible } => {
                (HTML, list_page(world, site, of, page, visible).into())
            }
            Self::Corner(corner) => {
                let html = maze::content(corner);
                (
                    HTML,
                    template::frame(
                        site,
                        &site.name,
                        "",
                        &format!("{html}{}", "<p></p>".repeat(40)),
                    )
                    .into(),
                )
            }
            Self::Feed(sheet) => (
                feeds::content_type(site.feed_format),
                feeds::render(world, site, &sheet, salt).into(),
            ),
            Self::NewsSitemap(numbers) => (XML, sitemaps::news(world, site, numbers).into()),
            Self::SitemapIndex(visible) => (XML, sitemaps::index(site, &visible).into()),
            Self::Sitemap(numbers) if site.gzipped_sitemaps => {
                ("application/gzip", gzip(sitemaps::plain(world, site, numbers).as_bytes()))
            }
            Self::Sitemap(numbers) => (XML, sitemaps::plain(world, site, numbers).into()),
            Self::Story(story) => (HTML, template::article(world, site, story).into()),
            Self::Sound(number) => ("audio/mpeg", media::sound(number)),
            Self::Picture(number) => ("image/gif", media::picture(number)),
        }
    }
}

impl Validators {
    /// Whether a conditional request with these headers needs no body (RFC 9110, 13.2.2).
    pub(crate) fn match_request(
        &self,
        if_none_match: Option<&str>,
        if_modified_since: Option<&str>,
    ) -> bool {
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        if let Some(tags) = if_none_match {
            return tags
                .split(',')
                .any(|tag| tag.trim() == "*" || opaque(tag) == opaque(&self.etag));
        }
        if_modified_since.and_then(parse_http_date).is_some_and(|since| self.modified <= since)
    }
}

fn robots(site: &Publisher) -> String {
    let mut text = "User-agent: *\n".to_owned();
    for prefix in site.disallowed() {
        text.extend(["Disallow: ", prefix, "\n"]);
    }
    if let Some(seconds) = site.crawl_delay {
        text.extend(["Crawl-delay: ", &seconds.to_string(), "\n"]);
    }
    for url in site.sitemap_urls() {
        text.extend(["Sitemap: ", &url, "\n"]);
    }
    text
}

/// Without list pages the home page names no stories: a shell that a script would fill.
fn home(world: &World, site: &Publisher, visible: Range<i64>) -> String {
    let shown = match site.has(Channel::Listing) {
        true if site.maze => 2 * PER_LIST_PAGE,
        true => PER_LIST_PAGE / 2,
        false => 0,
    };
    let stories = visible.rev().take(shown).map(|number| world.outline(site, number));
    let entries: Vec<_> =
        stories.map(|story| (template::link_to(site, &story), story.lede)).collect();
    let (mut meta, mut content) = ("", body_of(site, &entries, None));
    match site.front {
        Front::WordPress => meta = "<meta name=\"generator\" content=\"WordPress 6.5\">\n",
        Front::Anchor => {
            content.extend(site.feed_url().map(|feed| format!("<p><a href=\"{feed}\">RSS</a></p>")))
        }
        Front::Alternate | Front::Header | Front::Plain | Front::Silent => {}
    }
    template::frame(site, &site.name, meta, &content)
}

/// The `Link` header of a resource, when it has one.
pub(crate) fn link_header(site: &Publisher, resource: &Resource) -> Option<String> {
    let is_named = site.front == Front::Header && matches!(resource, Resource::Home(_));
    let feed = site.feed_url().filter(|_| is_named)?;
    let kind = feeds::content_type(site.feed_format);
    let kind = kind.split(';').next().unwrap_or(kind);
    Some(format!("<{feed}>; rel=\"alternate\"; type=\"{kind}\""))
}

fn list_page(
    world: &World,
    site: &Publisher,
    of: Shelf,
    page: usize,
    visible: Range<i64>,
) -> String {
    let mut numbers = visible
        .rev()
        .filter(|&number| of.has(world, site, number))
        .skip((page - 1).saturating_mul(PER_LIST_PAGE))
        .take(PER_LIST_PAGE + 1)
        .collect::<Vec<_>>();
    let more = numbers.len() > PER_LIST_PAGE;
    numbers.truncate(PER_LIST_PAGE);
    let next = more.then(|| format!("{}?page={}", of.path(), page.saturating_add(1)));
    let stories = numbers.into_iter().map(|number| world.outline(site, number));
    page_of(site, stories, next.as_deref())
}

fn page_of(site: &Publisher, stories: impl Iterator<Item = Outline>, next: Option<&str>) -> String {
    let entries: Vec<_> =
        stories.map(|story| (template::link_to(site, &story), story.lede)).collect();
    template::frame(site, &site.name, "", &body_of(site, &entries, next))
}

/// A list of stories, and on some sites what leads astray.
fn body_of(site: &Publisher, entries: &[(template::Link, String)], next: Option<&str>) -> String {
    let mut html = template::story_list(site, entries, next);
    if site.maze {
        let first = entries.first().map_or(0, |(link, _)| link.href.len() as u64);
        html.push_str(&maze::doors(site, first * 7919 + entries.len() as u64));
    }
    html
}

fn about(site: &Publisher) -> String {
    page_of(site, std::iter::empty(), None)
}
