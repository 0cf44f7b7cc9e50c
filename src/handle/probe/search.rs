//! The search itself: candidates in, the next one to ask for out. Whoever makes the requests, the engine
//! or a look before anything is stored, walks through it alike.
//!
//! It never asks for more than is wanted: one feed, and the news sitemap that the site declares.

use std::time::Duration;

use feedmill_formats::charset::{self, Markup};
use feedmill_formats::discover::{self, Candidate, Form, How};
use feedmill_formats::feed::{self as feeds, Feed, FeedError};
use feedmill_formats::robots::Robots;
use feedmill_formats::sitemap::{self as sitemaps, Sitemap};
use feedmill_formats::url::{self as web, Url};

use crate::model::{Discovery, FoundChannel, Kind, Response, Tried, Ts};

/// How far a search goes.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Answers at the most.
    pub requests: u32,
    /// From the first answer to the last.
    pub time: Duration,
    /// A search that found nothing begins again after this long.
    pub again: Duration,
}

/// What an address turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// A feed.
    Feed {
        /// Its title.
        title: Option<String>,
        /// Its entries.
        items: u32,
        /// The date of the newest.
        newest: Option<Ts>,
    },
    /// A sitemap.
    Sitemap {
        /// Its lines.
        items: u32,
        /// The date of the newest.
        newest: Option<Ts>,
        /// Whether it is one of news.
        news: bool,
    },
    /// A page, with what it names.
    Page(Vec<Candidate>),
    /// A channel that is followed already.
    Followed(Kind),
    /// Nothing that helps, and why; `reached` when somebody answered.
    Nothing {
        /// Why.
        why: String,
        /// Whether the host answers at all.
        reached: bool,
    },
}

impl Seen {
    /// What a body is. A page that was given is asked what it names, and where its site may have more.
    #[must_use]
    pub fn of(
        body: &[u8],
        content_type: Option<&str>,
        links: &[&str],
        url: &Url,
        is_start: bool,
    ) -> Self {
        if may_be_sitemap(body, url)
            && let Ok(sitemap) = sitemaps::parse(body, url.as_str(), &sitemaps::Limits::default())
        {
            return Self::of_sitemap(&sitemap);
        }
        match feeds::parse(body, content_type, url.as_str(), &feeds::Limits::default()) {
            Ok(feed) => Self::of_feed(&feed),
            Err(FeedError::HtmlNotFeed) => Self::of_page(body, content_type, links, url, is_start),
            Err(error) => Self::Nothing { why: error.to_string(), reached: true },
        }
    }

    pub(super) fn of_feed(feed: &Feed) -> Self {
        let dates = feed.entries.iter().filter_map(|entry| entry.published.or(entry.updated));
        let items = u32::try_from(feed.entries.len()).unwrap_or(u32::MAX);
        Self::Feed { title: feed.title.clone(), items, newest: dates.max() }
    }

    pub(super) fn of_sitemap(sitemap: &Sitemap) -> Self {
        let items = sitemap.urls.len() + sitemap.children.len();
        let pages = sitemap
            .urls
            .iter()
            .filter_map(|page| page.news.as_ref().and_then(|news| news.published).or(page.lastmod));
        Self::Sitemap {
            items: u32::try_from(items).unwrap_or(u32::MAX),
            newest: pages.chain(sitemap.children.iter().filter_map(|child| child.lastmod)).max(),
            news: sitemap.urls.iter().any(|page| page.news.is_some()),
        }
    }

    /// What a page names that is followed itself.
    pub(in crate::handle) fn beside(response: &Response, body: &[u8]) -> Self {
        let Ok(url) = web::parse(response.final_url()) else { return Self::Page(Vec::new()) };
        let links: Vec<&str> = response.exchange.headers.all("link").collect();
        Self::of_page(body, response.header("content-type"), &links, &url, true)
    }

    /// The addresses that it names.
    pub(in crate::handle) fn leads(&self) -> Vec<String> {
        match self {
            Self::Page(named) => named.iter().map(|candidate| candidate.url.clone()).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn of_page(
        body: &[u8],
        content_type: Option<&str>,
        links: &[&str],
        url: &Url,
        is_start: bool,
    ) -> Self {
        let text = charset::decode(body, content_type, Markup::Html);
        let mut named = discover::in_page(&text.text, url);
        named.extend(discover::in_headers(links.iter().copied(), url));
        if is_start {
            named.extend(surroundings(url));
        }
        Self::Page(named)
    }
}

/// Whether it is worth reading as a sitemap: by its beginning, or by its name when it is packed or plain
/// text.
pub(super) fn may_be_sitemap(body: &[u8], url: &Url) -> bool {
    if url.path().to_ascii_lowercase().contains("sitemap") {
        return true;
    }
    let head = body.get(..1_024).unwrap_or(body);
    ["<urlset", "<sitemapindex"]
        .iter()
        .any(|root| head.windows(root.len()).any(|at| at == root.as_bytes()))
}

/// Where feeds may be by the address of a page alone.
fn surroundings(page: &Url) -> Vec<Candidate> {
    let mut around = discover::by_address(page);
    around.extend(discover::guesses(page));
    around
}

/// The address that a search begins with.
#[must_use]
pub fn start(url: &str) -> Candidate {
    Candidate::new(url, How::Itself, Form::Feed)
}

/// Takes an answer into a search: what the address that was asked for is from now on, when it is a
/// channel. `robots` are the rules of its site.
pub fn learn(
    search: &mut Discovery,
    asked: &Candidate,
    seen: Seen,
    robots: &Robots,
    at: Ts,
) -> Option<Kind> {
    search.began.get_or_insert(at);
    search.requests += 1;
    search.asking = None;
    let wanted = is_wanted(search, asked);
    let is_start = matches!(asked.how, How::Itself | How::Redirect);
    let url = web::parse(&asked.url).ok().filter(|_| is_start);
    let mut named = Vec::new();
    let verdict = match seen {
        Seen::Feed { items: 0, .. } => Err("a feed without entries".to_owned()),
        Seen::Feed { title, items, newest } => {
            Ok(channel(asked, Kind::Feed, title, items, newest, false))
        }
        Seen::Sitemap { items: 0, .. } => Err("a sitemap without pages".to_owned()),
        Seen::Sitemap { news: false, .. } if has(search, Kind::Feed) => {
            Err("a sitemap without news, and there is a feed".to_owned())
        }
        Seen::Sitemap { items, newest, news } => {
            Ok(channel(asked, Kind::Sitemap, None, items, newest, news))
        }
        Seen::Followed(kind) => Ok(channel(asked, kind, None, 0, None, false)),
        Seen::Page(found) => {
            let declared = found.iter().filter(|it| it.how <= How::LinkHeader).count();
            named = found;
            if let Some(url) = &url {
                named.extend(discover::in_robots(robots, url));
            }
            Err(format!("a page that names {declared} feeds"))
        }
        Seen::Nothing { why, reached } => {
            if let Some(url) = url.filter(|_| reached) {
                named = surroundings(&url);
                named.extend(discover::in_robots(robots, &url));
            }
            Err(why)
        }
    };
    let known = |url: &String| {
        search.tried.iter().any(|tried| tried.url == *url)
            || search.found.iter().any(|found| found.url == *url)
            || *url == asked.url
    };
    named.retain(|candidate| !known(&candidate.url));
    search.left.append(&mut named);
    search.left = discover::ranked(std::mem::take(&mut search.left));
    match verdict {
        Ok(channel) if wanted || is_start => {
            let kind = channel.kind;
            search.found.push(channel);
            Some(kind)
        }
        Ok(_) => {
            search.tried(asked, "not needed any more");
            None
        }
        Err(why) => {
            search.tried(asked, &why);
            None
        }
    }
}

impl Discovery {
    pub(super) fn tried(&mut self, asked: &Candidate, why: &str) {
        let tried = Tried { url: asked.url.clone(), how: asked.how, why: why.to_owned() };
        self.tried.push(tried);
    }
}

pub(super) fn channel(
    asked: &Candidate,
    kind: Kind,
    title: Option<String>,
    items: u32,
    newest: Option<Ts>,
    news: bool,
) -> FoundChannel {
    let title = title.or_else(|| asked.title.clone());
    FoundChannel { url: asked.url.clone(), kind, how: asked.how, title, items, newest, news }
}

fn has(search: &Discovery, kind: Kind) -> bool {
    search.found.iter().any(|found| found.kind == kind)
}

/// Whether a candidate could add to what was found: one feed, and the news sitemap that the site
/// declares; without a feed, one sitemap. What readers say is better than nothing.
fn is_wanted(search: &Discovery, candidate: &Candidate) -> bool {
    let (feed, sitemap) = (has(search, Kind::Feed), has(search, Kind::Sitemap));
    match candidate.form {
        Form::Feed if candidate.is_comments() => !feed && !sitemap,
        Form::Feed => !feed,
        Form::Sitemap if feed => {
            let declared = matches!(candidate.how, How::Robots | How::Alternate);
            !sitemap && declared && candidate.sounds_like_news()
        }
        Form::Sitemap => !sitemap,
    }
}

/// The candidate to ask for next; `None` when the search is over.
pub fn next(search: &mut Discovery, at: Ts, limits: &Search) -> Option<Candidate> {
    let since = search.began.map_or(Duration::ZERO, |began| at.since(began));
    let spent = search.requests >= limits.requests || since > limits.time;
    let wanted = search.left.iter().position(|candidate| is_wanted(search, candidate));
    if let Some(place) = wanted.filter(|_| !spent) {
        let candidate = search.left.remove(place);
        search.asking = Some(candidate.clone());
        return Some(candidate);
    }
    search.ended = Some(at);
    let declared = |it: &Candidate| matches!(it.how, How::Alternate | How::LinkHeader);
    match wanted {
        // What was not asked for is told as well, so that nobody takes it for tried.
        Some(_) if search.found.is_empty() => {}
        _ => search.left.retain(|it| it.form == Form::Feed && declared(it)),
    }
    None
}
