//! Where a publisher's feeds and sitemaps may be: from an address, a page and its headers to
//! candidates, in the order in which they are worth a request.
//!
//! Nothing here is known to be a feed: whoever asks for a candidate has to read what it serves. The
//! work is bounded whatever page is fed, and the same page gives the same candidates.

mod page;
mod platform;

use serde::{Deserialize, Serialize};

use crate::robots::Robots;
use crate::url::{self as web, Url};

pub use page::{in_headers, in_page};
pub use platform::by_address;

/// Candidates of one page at the most.
const MOST: usize = 40;

/// What a candidate is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// RSS, Atom or JSON Feed.
    Feed,
    /// A sitemap or an index of them.
    Sitemap,
}

/// How a candidate was found; the earlier, the more it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It is the address that was given.
    Itself,
    /// The address that was given leads there.
    Redirect,
    /// The page's head names it.
    Alternate,
    /// The answer's `Link` header names it.
    LinkHeader,
    /// The software or service behind the address has it there.
    Platform,
    /// A link of the page looks like it.
    Anchor,
    /// Feeds are often there.
    CommonPath,
    /// robots.txt names it.
    Robots,
    /// An index of sitemaps names it.
    Index,
    /// Sitemaps are usually there.
    UsualSitemap,
}

impl How {
    /// In a few words.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::Itself => "the address itself",
            Self::Redirect => "the address leads there",
            Self::Alternate => "the page's head names it",
            Self::LinkHeader => "the Link header names it",
            Self::Platform => "usual for the site's software",
            Self::Anchor => "the page links to it",
            Self::CommonPath => "a common place",
            Self::Robots => "robots.txt names it",
            Self::Index => "the index of sitemaps names it",
            Self::UsualSitemap => "the usual place of a sitemap",
        }
    }
}

/// An address that may be a feed or a sitemap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Where.
    pub url: String,
    /// How it was found.
    pub how: How,
    /// What it is expected to be.
    pub form: Form,
    /// What the page calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl Candidate {
    /// A candidate without a name.
    #[must_use]
    pub fn new(url: impl Into<String>, how: How, form: Form) -> Self {
        Self { url: url.into(), how, form, title: None }
    }

    /// Whether its name or address says that it is about what readers say.
    #[must_use]
    pub fn is_comments(&self) -> bool {
        const WORDS: [&str; 5] = ["comment", "kommentar", "comentario", "commenti", "reacties"];
        let title = self.title.as_deref().unwrap_or_default().to_lowercase();
        let url = self.url.to_lowercase();
        WORDS.iter().any(|word| title.contains(word) || url.contains(word))
    }

    /// Whether its name says that it holds the news of the last days.
    #[must_use]
    pub fn sounds_like_news(&self) -> bool {
        let path = web::parse(&self.url).map(|url| web::path_and_query(&url)).unwrap_or_default();
        path.to_ascii_lowercase().contains("news")
    }

    /// Its place among others: feeds before sitemaps, what is declared before what is guessed, news
    /// before everything else of its kind, and what readers say at the end.
    #[must_use]
    pub fn rank(&self) -> (bool, bool, How, bool) {
        let is_sitemap = self.form == Form::Sitemap;
        (self.is_comments(), is_sitemap, self.how, is_sitemap && !self.sounds_like_news())
    }
}

/// Puts candidates in order, each address once: as often as it was found, the best way counts.
#[must_use]
pub fn ranked(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_by_key(Candidate::rank);
    let mut seen = std::collections::HashSet::new();
    candidates.retain(|candidate| seen.insert(candidate.url.clone()));
    candidates
}

/// Where feeds and sitemaps of a page often are: beside it, and at the root of its site.
#[must_use]
pub fn guesses(page: &Url) -> Vec<Candidate> {
    const BESIDE: [&str; 5] = ["index.xml", "feed", "feed.xml", "rss.xml", "atom.xml"];
    const ROOT: [&str; 8] = [
        "/feed",
        "/rss",
        "/feed.xml",
        "/rss.xml",
        "/atom.xml",
        "/index.xml",
        "/feed.json",
        "/feeds/posts/default",
    ];
    const SITEMAPS: [&str; 2] = ["/news-sitemap.xml", "/sitemap.xml"];
    let mut found = Vec::new();
    let mut add = |reference: &str, how, form| {
        let joined = web::join(page, reference).ok();
        found.extend(joined.map(|url| Candidate::new(url, how, form)));
    };
    if page.path() != "/" {
        // Beside a page without a slash at its end is below it, as people mean it.
        let folder = match page.path() {
            path if path.ends_with('/') => path.to_owned(),
            path if path.rsplit('/').next().is_some_and(|file| file.contains('.')) => {
                path.rsplit_once('/').map_or_else(String::new, |(folder, _)| format!("{folder}/"))
            }
            path => format!("{path}/"),
        };
        if folder != "/" {
            BESIDE.iter().for_each(|file| {
                add(&format!("{folder}{file}"), How::CommonPath, Form::Feed);
            });
        }
    }
    ROOT.iter().for_each(|path| add(path, How::CommonPath, Form::Feed));
    SITEMAPS.iter().for_each(|path| add(path, How::UsualSitemap, Form::Sitemap));
    found
}

/// The sitemaps that a robots.txt names for the site of a page.
#[must_use]
pub fn in_robots(robots: &Robots, page: &Url) -> Vec<Candidate> {
    let named = robots.sitemaps().iter().take(MOST);
    let named = named.filter_map(|line| web::join(page, line).ok());
    named.map(|url| Candidate::new(url, How::Robots, Form::Sitemap)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn urls(found: &[Candidate]) -> Vec<&str> {
        found.iter().map(|candidate| candidate.url.as_str()).collect()
    }

    #[test]
    fn guesses_stand_beside_the_page_and_at_the_root() {
        let of = |page: &str| guesses(&web::parse(page).unwrap());
        let root = of("https://a.example/");
        assert_eq!(urls(&root)[..2], ["https://a.example/feed", "https://a.example/rss"]);
        assert_eq!(urls(&root).last(), Some(&"https://a.example/sitemap.xml"));
        assert_eq!(root.len(), 10);
        for page in
            ["https://a.example/blog", "https://a.example/blog/", "https://a.example/blog/x.html"]
        {
            let found = of(page);
            assert_eq!(urls(&found)[0], "https://a.example/blog/index.xml", "{page}");
            assert_eq!(found.len(), 15, "{page}");
        }
        assert_eq!(of("https://a.example/index.html").len(), 10);
    }

    #[test]
    fn the_declared_come_before_the_guessed_and_comments_come_last() {
        let new = |url: &str, how, form| Candidate::new(url, how, form);
        let mut comments = new("https://a.example/x", How::Alternate, Form::Feed);
        comments.title = Some("A » Comments Feed".into());
        let ordered = ranked(vec![
            comments,
            new("https://a.example/sitemap.xml", How::Robots, Form::Sitemap),
            new("https://a.example/sitemap-news.xml", How::Robots, Form::Sitemap),
            new("https://a.example/feed", How::CommonPath, Form::Feed),
            new("https://a.example/rss", How::Alternate, Form::Feed),
            new("https://a.example/rss", How::CommonPath, Form::Feed),
            new("https://a.example/f", How::LinkHeader, Form::Feed),
        ]);
        assert_eq!(
            urls(&ordered),
            [
                "https://a.example/rss",
                "https://a.example/f",
                "https://a.example/feed",
                "https://a.example/sitemap-news.xml",
                "https://a.example/sitemap.xml",
                "https://a.example/x",
            ]
        );
        assert_eq!(ordered[0].how, How::Alternate);
    }

    #[test]
    fn robots_names_sitemaps_by_whole_or_half_addresses() {
        let robots = Robots::parse(b"Sitemap: https://cdn.example/n.xml\nSitemap: /s.xml\n");
        let found = in_robots(&robots, &web::parse("https://a.example/x").unwrap());
        assert_eq!(urls(&found), ["https://cdn.example/n.xml", "https://a.example/s.xml"]);
    }

    proptest! {
        #[test]
        fn every_candidate_can_be_asked_for_and_stands_once(html in "[ -~]{0,200}", path in "/[a-z/.@]{0,20}") {
            let page = web::parse(&format!("https://a.example{path}")).unwrap();
            let mut found = in_page(&html, &page);
            found.extend(guesses(&page));
            found.extend(by_address(&page));
            let found = ranked(found);
            let unique: std::collections::HashSet<_> = urls(&found).into_iter().collect();
            prop_assert_eq!(unique.len(), found.len());
            prop_assert!(found.iter().all(|candidate| web::parse(&candidate.url).is_ok()));
            prop_assert!(found.windows(2).all(|two| two[0].rank() <= two[1].rank()));
        }
    }
}
