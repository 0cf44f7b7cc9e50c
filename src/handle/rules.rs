//! What the house takes from feeds, and what becomes of addresses that lead elsewhere. Pure.

use std::time::Duration;

use feedmill_formats::feed;
use feedmill_formats::unwrap::{is_feedburner, unwrap};
use feedmill_formats::url::{self as web, Url};

use crate::model::Ts;

/// What is taken from feeds and list pages.
#[derive(Clone, Debug)]
pub struct Taking {
    /// How much of a document that was never read, or not for long; 0 is everything.
    pub initial_cap: usize,
    /// How long that is.
    pub stale_after: Duration,
    /// Whether links are opened that only wrap another one.
    pub unwraps: bool,
    /// What no link may have in it.
    pub rejects: Vec<String>,
    /// Whether an item without an id is known by its link alone.
    pub by_link: bool,
    /// Whether links are followed over TLS where that is known to work.
    pub upgrades: bool,
}

impl Default for Taking {
    fn default() -> Self {
        Self {
            initial_cap: 0,
            stale_after: Duration::from_hours(15 * 24),
            unwraps: true,
            rejects: Vec::new(),
            by_link: false,
            upgrades: false,
        }
    }
}

impl Taking {
    /// How many of the newest are taken of a document that was last read then; `None` for all.
    pub(super) fn cap(&self, last_read: Option<Ts>, at: Ts) -> Option<usize> {
        let stale = last_read.is_none_or(|last| at.since(last) > self.stale_after);
        Some(self.initial_cap).filter(|cap| *cap > 0 && stale)
    }

    /// The page of an item: what its link wraps, where that can be told.
    pub(super) fn page(&self, entry: &feed::Entry) -> Option<Url> {
        let given = web::parse(entry.link.as_deref()?).ok()?;
        if !self.unwraps {
            return Some(given);
        }
        let original = || entry.original.as_deref().and_then(|link| web::parse(link).ok());
        let told = if is_feedburner(&given) { original() } else { None };
        let told = told.unwrap_or(given);
        Some(unwrap(&told).unwrap_or(told))
    }

    /// Whether a page may be followed.
    pub(super) fn takes(&self, page: &str) -> bool {
        !self.rejects.iter().any(|text| page.contains(text.as_str()))
    }

    /// A link as it is followed that stands in what was served at `base`.
    pub(super) fn upgraded(&self, link: String, base: &str) -> String {
        let Some(rest) = link.strip_prefix("http://").filter(|_| self.upgrades) else {
            return link;
        };
        let secure = format!("https://{rest}");
        let served = web::parse(base).ok().filter(|base| base.scheme() == "https");
        let same = web::parse(&secure).ok().zip(served);
        let same = same.is_some_and(|(link, base)| web::origin(&link) == web::origin(&base));
        if same { secure } else { link }
    }
}

/// What becomes of a page whose address leads to another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redirects {
    /// As the operator wants it.
    pub policy: RedirectPolicy,
    /// Whether that is only for redirects that are permanent.
    pub permanent_only: bool,
}

/// What becomes of a page whose address leads to another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedirectPolicy {
    /// The last address has the article.
    #[default]
    Alias,
    /// The last address is asked by itself.
    SubmitFinal,
    /// The first address has the article.
    Follow,
}

impl Redirects {
    /// Whether an article stays at the first address, when all redirects from there are permanent or
    /// not.
    #[must_use]
    pub fn stays(self, permanent: bool) -> bool {
        self.policy == RedirectPolicy::Follow || self.permanent_only && !permanent
    }

    /// Whether a redirect that is permanent or not ends the task.
    #[must_use]
    pub fn ends(self, permanent: bool) -> bool {
        self.policy == RedirectPolicy::SubmitFinal && !self.stays(permanent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_for_what_was_never_read_or_not_for_long() {
        let day = 24 * 3_600_000;
        let taking = Taking { initial_cap: 20, ..Taking::default() };
        let at = Ts::from_ms(100 * day);
        for (last, cap) in
            [(None, Some(20)), (Some(99), None), (Some(85), None), (Some(84), Some(20))]
        {
            let last = last.map(|days| Ts::from_ms(days * day));
            assert_eq!(taking.cap(last, at), cap, "{last:?}");
        }
        assert_eq!(Taking::default().cap(None, at), None, "none is set");
    }

    #[test]
    fn links_are_upgraded_where_their_own_host_was_served_securely() {
        let taking = Taking { upgrades: true, ..Taking::default() };
        let (link, other) = ("http://a.example/s", "http://b.example/s");
        for (given, base, followed) in [
            (link, "https://a.example/feed", "https://a.example/s"),
            (link, "http://a.example/feed", link),
            (other, "https://a.example/feed", other),
            ("http://a.example:8080/s", "https://a.example/feed", "http://a.example:8080/s"),
        ] {
            assert_eq!(taking.upgraded(given.to_owned(), base), followed, "{given} in {base}");
            assert_eq!(Taking::default().upgraded(given.to_owned(), base), given);
        }
    }

    #[test]
    fn where_an_article_stays() {
        let rule = |policy, permanent_only| Redirects { policy, permanent_only };
        for (rule, permanent, stays, ends) in [
            (rule(RedirectPolicy::Alias, false), false, false, false),
            (rule(RedirectPolicy::Alias, true), false, true, false),
            (rule(RedirectPolicy::Alias, true), true, false, false),
            (rule(RedirectPolicy::SubmitFinal, false), false, false, true),
            (rule(RedirectPolicy::SubmitFinal, true), false, true, false),
            (rule(RedirectPolicy::Follow, false), true, true, false),
        ] {
            assert_eq!((rule.stays(permanent), rule.ends(permanent)), (stays, ends), "{rule:?}");
        }
    }
}
