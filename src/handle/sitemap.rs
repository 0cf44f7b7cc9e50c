//! Sitemaps: pages that are new enough, and further sitemaps.

use feedmill_formats::sitemap::{self, Sitemap, SitemapError, SitemapUrl};
use feedmill_formats::url as web;
use sha2::{Digest, Sha256};

use super::feed::found;
use super::poll::{Brought, went_well};
use super::{Carried, House, unchanged};
use crate::model::{Code, Kind, Known, Lease, Next, Origin, Outcome, Ts};

#[derive(Debug)]
pub(super) struct Read {
    sitemap: Sitemap,
    body_hash: [u8; 32],
}

pub(super) fn read(body: &[u8]) -> Result<Read, (Code, String)> {
    let sitemap = sitemap::parse(body, &sitemap::Limits::default()).map_err(|error| {
        let code = match error {
            SitemapError::EmptyBody => Code::Empty,
            SitemapError::TooLarge(_) => Code::TooLarge,
            SitemapError::HtmlNotSitemap => Code::BadContentType,
            SitemapError::NotASitemap | SitemapError::Malformed(_) => Code::Parse,
        };
        (code, error.to_string())
    })?;
    Ok(Read { sitemap, body_hash: Sha256::digest(body).into() })
}

pub(super) fn decide(
    lease: &Lease,
    read: &Read,
    carried: Carried,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    if known.feed.body_hash == Some(read.body_hash) {
        return unchanged(lease, Code::Ok, "the same as last time", carried, known, at, house);
    }
    let fresh = |lastmod: Option<Ts>| {
        house.sitemap_max_age.is_zero()
            || lastmod.is_none_or(|lastmod| at.since(lastmod) <= house.sitemap_max_age)
    };
    let base = web::parse(&carried.final_url).ok();
    let absolute = |loc: &str| match &base {
        Some(base) => web::join(base, loc).map(|url| url.to_string()).ok(),
        None => Some(loc.to_owned()),
    };
    let items = read.sitemap.urls.len() + read.sitemap.children.len();
    let pages = read.sitemap.urls.iter().filter(|url| fresh(dated(url)));
    let pages = pages.filter_map(|url| absolute(&url.loc));
    let pages = pages.map(|url| found(lease, url, Kind::Article, Origin::Sitemap));
    let children = read.sitemap.children.iter().filter(|child| fresh(child.lastmod));
    let children = children.filter_map(|child| absolute(&child.loc));
    let children = children
        .filter(|url| *url != lease.task.url)
        .map(|url| found(lease, url, Kind::Sitemap, Origin::Sitemap));
    let brought = Brought { items: u32::try_from(items).unwrap_or(u32::MAX), ..Brought::default() };
    let mut polled = went_well(lease, Some(&brought), &carried, known, at, house);
    let next = Next::Again { at: polled.decision.at };
    let mut outcome = Outcome::new(Code::Ok, next, String::new());
    outcome.discovered = children.chain(pages).collect();
    outcome.reason = format!(
        "{items} lines, {} new enough to follow; {}",
        outcome.discovered.len(),
        polled.decision.reason
    );
    outcome.validators = Some((carried.validators, carried.final_url));
    polled.fact.state.body_hash = Some(read.body_hash);
    outcome.feed = Some(polled.fact);
    outcome.events = polled.events;
    outcome
}

/// The date of a line: the news extension knows best.
fn dated(url: &SitemapUrl) -> Option<Ts> {
    url.news.as_ref().and_then(|news| news.published).max(url.lastmod)
}
