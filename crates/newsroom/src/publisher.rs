//! What a publisher is: a host with a language, a house style, channels and a rhythm, all of it
//! fixed by seed and index. No text and no time passes through here.

use serde::Serialize;

use crate::Setup;
use crate::markup::slug;
use crate::prose::{self, Language};
use crate::rhythm::Rhythm;
use crate::rng::{Purpose, Rng};

/// The form of a publisher's feed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedFormat {
    /// RSS 2.0
    #[default]
    Rss,
    /// Atom
    Atom,
    /// JSON Feed 1.1
    Json,
}

/// A way by which a reader can learn of a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// The feed: the newest stories, as many as the window holds.
    Feed,
    /// Archive pages behind the feed (RFC 5005): every story.
    Archive,
    /// The news sitemap: stories of the last 48 hours.
    NewsSitemap,
    /// The sitemap index with one child per month and page: every story.
    Sitemap,
    /// List pages with pagination: every story.
    Listing,
}

/// What a publisher's pages tell of its feed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Front {
    /// Every page names it in its head.
    #[default]
    Alternate,
    /// The home page's answer names it in a `Link` header.
    Header,
    /// The home page links to it.
    Anchor,
    /// Nothing: it is where feeds often are.
    Plain,
    /// That the pages are made by `WordPress`, which has it at a place of its own.
    WordPress,
    /// Nothing, and there is no feed and no sitemap.
    Silent,
}

/// The markup of a publisher's pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Template {
    /// `<article>` with header and footer.
    #[default]
    Semantic,
    /// Classes as a blog system gives them.
    Blog,
    /// Nothing but `div` with ids.
    Soup,
    /// `itemprop` microdata.
    Microdata,
    /// `<main>` with sections.
    Sections,
}

/// How much of a page is told in JSON-LD.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonLd {
    /// No JSON-LD.
    #[default]
    None,
    /// Everything but the body.
    Brief,
    /// With `articleBody`.
    Full,
}

/// How story addresses look; each carries the story's number.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Addressing {
    #[default]
    DatedCategory,
    DatedSlash,
    NumberFirst,
    HtmlFile,
    Query,
}

/// What stands around the text on a publisher's pages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Furniture {
    pub(crate) open_graph: bool,
    pub(crate) cookie_banner: bool,
    pub(crate) breadcrumbs: bool,
    pub(crate) share_bar: bool,
    pub(crate) figure: bool,
    pub(crate) adverts: bool,
    pub(crate) newsletter: bool,
    pub(crate) comments: bool,
}

/// One publisher of the simulated web.
#[derive(Debug, Clone, Serialize)]
pub struct Publisher {
    /// Its place in [`crate::Newsroom::publishers`].
    pub index: usize,
    /// As it calls itself.
    pub name: String,
    /// The host name all its URLs have.
    pub host: String,
    /// What it writes in.
    pub language: Language,
    /// The markup of its pages.
    pub template: Template,
    /// What its pages say in JSON-LD.
    pub json_ld: JsonLd,
    /// The form of its feed, if it has one.
    pub feed_format: FeedFormat,
    /// What its pages tell of the feed.
    pub front: Front,
    /// By what its stories can be found.
    pub channels: Vec<Channel>,
    /// Its sections.
    pub categories: Vec<&'static str>,
    /// Stories per hour, in the mean.
    pub rate_per_hour: f64,
    /// How many items its feed shows.
    pub window: usize,
    /// Crawl-delay in its robots.txt, in seconds.
    pub crawl_delay: Option<u32>,
    /// Whether feed links carry `utm_` parameters.
    pub tracking: bool,
    /// Whether stories come with a sound file.
    pub enclosures: bool,
    /// Whether sitemap children are `.xml.gz` files.
    pub gzipped_sitemaps: bool,
    /// Whether it has nothing but pages, some of which lead nowhere.
    pub maze: bool,
    #[serde(skip)]
    pub(crate) addressing: Addressing,
    #[serde(skip)]
    pub(crate) furniture: Furniture,
    #[serde(skip)]
    pub(crate) rhythm: Rhythm,
    /// The number of the oldest story, zero or negative.
    #[serde(skip)]
    pub(crate) oldest: i64,
}

impl Publisher {
    /// Traits that tests rely on go by index, so that ten publishers already show them all;
    /// the rest is drawn.
    pub(crate) fn new(index: usize, setup: &Setup) -> Self {
        let mut rng = Rng::of(Purpose::Publisher, &[setup.seed, index as u64]);
        let language = cycled(&Language::ALL, index);
        let words = language.words();
        let place = prose::place(words, &mut rng);
        let name = format!("{place} {}", rng.pick(words.papers));
        let host = format!("{}-{index}.test", slug(&name));
        let rate_per_hour = setup.rate_per_hour * (0.5 + rng.share());
        let rhythm = Rhythm::new(
            rng.next(),
            setup.starts_at,
            rate_per_hour,
            setup.day_profile && rng.chance(0.7),
        );
        let usual = rng.pick(&[20, 30, 40, 50]).max(4 * rhythm.most_in_half_an_hour());
        let window = setup.window.unwrap_or(usual).max(1);
        let history = if setup.deep_history { setup.history } else { setup.history.min(window) };
        let front = cycled(&setup.fronts, index);
        let mut channels = channels(index, setup, &mut rng);
        channels.retain(|_| front != Front::Silent);
        let templates = [
            Template::Semantic,
            Template::Blog,
            Template::Soup,
            Template::Microdata,
            Template::Sections,
        ];
        Self {
            index,
            name,
            host,
            language,
            template: cycled(&templates, index),
            json_ld: rng.pick(&[JsonLd::None, JsonLd::Brief, JsonLd::Full]),
            feed_format: cycled(&setup.formats, index),
            front,
            channels,
            categories: rng.some(words.categories, 5),
            rate_per_hour,
            window,
            crawl_delay: (index % 7 == 3).then(|| rng.pick(&[2, 5, 10])),
            tracking: index % 4 == 1,
            enclosures: index % 7 == 5,
            gzipped_sitemaps: index % 5 == 2,
            maze: setup.maze,
            addressing: match rng.pick(&[
                Addressing::DatedCategory,
                Addressing::DatedSlash,
                Addressing::NumberFirst,
                Addressing::HtmlFile,
                Addressing::Query,
            ]) {
                // Who has nothing else tells articles by their addresses.
                Addressing::Query if setup.maze => Addressing::DatedSlash,
                drawn => drawn,
            },
            furniture: Furniture {
                open_graph: rng.chance(0.8),
                cookie_banner: rng.chance(0.7),
                breadcrumbs: rng.chance(0.6),
                share_bar: rng.chance(0.7),
                figure: rng.chance(0.7),
                adverts: rng.chance(0.6),
                newsletter: rng.chance(0.6),
                comments: rng.chance(0.5),
            },
            rhythm,
            oldest: -(history as i64),
        }
    }

    /// Whether it offers this channel.
    pub fn has(&self, channel: Channel) -> bool {
        self.channels.contains(&channel)
    }

    /// An absolute URL on this host.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host)
    }

    /// Where its feed is, if it has one.
    pub fn feed_url(&self) -> Option<String> {
        self.has(Channel::Feed).then(|| self.url(self.feed_path()))
    }

    /// The sitemaps that its robots.txt names.
    pub fn sitemap_urls(&self) -> Vec<String> {
        [(Channel::NewsSitemap, "/news-sitemap.xml"), (Channel::Sitemap, "/sitemap.xml")]
            .into_iter()
            .filter(|(channel, _)| self.has(*channel))
            .map(|(_, path)| self.url(path))
            .collect()
    }

    /// The list page of all stories, if it has list pages.
    pub fn listing_url(&self) -> Option<String> {
        self.has(Channel::Listing).then(|| self.url("/latest"))
    }

    pub(crate) fn feed_path(&self) -> &'static str {
        match self.feed_format {
            _ if self.front == Front::WordPress => "/feed/",
            FeedFormat::Rss => "/feed.xml",
            FeedFormat::Atom => "/atom.xml",
            FeedFormat::Json => "/feed.json",
        }
    }

    /// Paths its robots.txt forbids, as prefixes.
    pub fn disallowed(&self) -> &'static [&'static str] {
        &["/private/", "/search"]
    }
}

fn channels(index: usize, setup: &Setup, rng: &mut Rng) -> Vec<Channel> {
    if setup.maze {
        return vec![Channel::Listing];
    }
    // Whole steps of the running sum spread an exact share evenly over the publishers.
    let share = setup.sitemap_only_share;
    let sitemap_only = ((index + 1) as f64 * share).floor() > (index as f64 * share).floor();
    let mut channels = Vec::new();
    if !sitemap_only {
        channels.push(Channel::Feed);
        if index % 5 == 1 && cycled(&setup.formats, index) != FeedFormat::Json {
            channels.push(Channel::Archive);
        }
        if rng.chance(0.6) {
            channels.push(Channel::Listing);
        }
    }
    if rng.chance(0.5) {
        channels.push(Channel::NewsSitemap);
    }
    if sitemap_only || rng.chance(0.7) {
        channels.push(Channel::Sitemap);
    }
    channels
}

fn cycled<T: Copy + Default>(list: &[T], index: usize) -> T {
    list.get(index % list.len().max(1)).copied().unwrap_or_default()
}
