//! Which articles are turned away although their pages could be read.
//!
//! A rule says no with a reason, and a missing date is no wrong one. A date in the future is no reason to
//! lose an article, unless an operator wants that: as likely as the page our own clock is wrong.

use std::time::Duration;

use feedmill_formats::url as web;

use crate::model::{Article, NewSource, Ts};

/// Clocks and zones are wrong by this much and no more.
const AHEAD: Duration = Duration::from_hours(24);

/// What an article must hold to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// It has a title, of so many characters at the most.
    pub title: Option<usize>,
    /// It was published at this time or later. Dates in the future are left out.
    pub earliest: Option<Ts>,
    /// It was not published in the future.
    pub not_ahead: bool,
    /// It is served from the site of its source.
    pub same_site: bool,
}

impl Validation {
    /// Why an article is turned away; `None` when it is kept.
    pub(super) fn reject(
        &self,
        article: &Article,
        source: Option<&NewSource>,
        at: Ts,
    ) -> Option<String> {
        self.bad_title(article.title.as_deref())
            .or_else(|| self.bad_date(article.published, at))
            .or_else(|| self.other_site(&article.url, source?))
    }

    fn bad_title(&self, title: Option<&str>) -> Option<String> {
        let most = self.title?;
        match title.map(|title| title.chars().count()) {
            None | Some(0) => Some("the article has no title".to_owned()),
            Some(long) if long > most => {
                Some(format!("its title has {long} characters, more than {most}"))
            }
            Some(_) => None,
        }
    }

    fn bad_date(&self, published: Option<Ts>, at: Ts) -> Option<String> {
        let published = published?;
        if let Some(earliest) = self.earliest.filter(|earliest| published < *earliest) {
            return Some(format!("its date is {published}, before {}", earliest.day()));
        }
        (self.not_ahead && published > at.after(AHEAD))
            .then(|| format!("its date is {published}, in the future"))
    }

    /// Takes dates in the future out of an article that is kept; what they were, for people.
    pub(super) fn believe_dates(&self, article: &mut Article, at: Ts) -> Option<String> {
        let latest = at.after(AHEAD);
        let is_ahead = |date: &mut Ts| self.earliest.is_some() && *date > latest;
        let taken = [article.published.take_if(is_ahead), article.updated.take_if(is_ahead)];
        let date = taken.into_iter().flatten().next()?;
        Some(format!("; its date, {date}, is in the future and left out"))
    }

    fn other_site(&self, url: &str, source: &NewSource) -> Option<String> {
        let site =
            |url: &str| web::parse(url).ok().map(|url| web::site(&web::host(&url)).to_owned());
        let own = site(url).filter(|_| self.same_site)?;
        let home = std::iter::once(&source.url);
        let mut known = home.chain(&source.feed_urls).chain(&source.sitemap_urls);
        let is_known = known.any(|known| site(known).as_ref() == Some(&own));
        (!is_known).then(|| format!("it is served from {own}, not from its source's site"))
    }
}
