//! Sitemaps: pages that are new enough, and further sitemaps.
//!
//! A site's home page in place of a sitemap means that its sitemaps are to be found: robots.txt names
//! them, or else they are where they usually are.

use feedmill_formats::robots::Robots;
use feedmill_formats::sitemap::{self, Sitemap, SitemapError};
use feedmill_formats::url as web;
use sha2::{Digest, Sha256};

use super::feed::found;
use super::poll::{self, Brought, went_well};
use super::{Carried, House, refetch, unchanged};
use crate::model::{Code, Kind, Known, Lease, NewTask, Origin, Outcome, Task, Ts, Verdict, Warned};

/// Sitemaps that are so many steps away from the one that was declared, redirects included, name no
/// further ones.
const DEEPEST: u16 = 3;

/// Where sitemaps usually are.
const USUAL: [&str; 3] = ["/sitemap.xml", "/news-sitemap.xml", "/sitemap_index.xml"];

#[derive(Debug)]
pub(super) struct Read {
    pub(super) sitemap: Sitemap,
    body_hash: [u8; 32],
    /// The site whose home page it is, in place of a sitemap.
    pub(super) origin: Option<String>,
}

pub(super) fn read(
    task: &Task,
    base: &str,
    body: &[u8],
    max_decoded: usize,
) -> Result<Read, (Code, String)> {
    let body_hash = Sha256::digest(body).into();
    let limits = sitemap::Limits::default();
    let limits = sitemap::Limits { bytes: limits.bytes.min(max_decoded), ..limits };
    let read = sitemap::parse(body, base, &limits);
    if read == Err(SitemapError::HtmlNotSitemap) {
        let home = web::parse(&task.url).ok().filter(|url| url.path() == "/");
        if let Some(home) = home {
            let origin = Some(web::origin(&home));
            return Ok(Read { sitemap: Sitemap::default(), body_hash, origin });
        }
    }
    let sitemap = read.map_err(|error| {
        let code = match error {
            SitemapError::EmptyBody => Code::Empty,
            SitemapError::TooLarge(_) => Code::TooLarge,
            SitemapError::HtmlNotSitemap => Code::BadContentType,
            SitemapError::NotASitemap | SitemapError::Malformed(_) => Code::Parse,
        };
        (code, error.to_string())
    })?;
    Ok(Read { sitemap, body_hash, origin: None })
}

/// The sitemaps of a site, by its robots.txt or where they usually are.
fn of_site(origin: &str, known: &Known) -> Vec<String> {
    let named = match known.robots.as_ref().map(|copy| &copy.verdict) {
        Some(Verdict::Rules(text)) => Robots::parse(text.as_bytes()).sitemaps().to_vec(),
        Some(Verdict::AllowAll) | None => Vec::new(),
    };
    if named.is_empty() { USUAL.map(|path| format!("{origin}{path}")).to_vec() } else { named }
}

pub(super) fn decide(
    lease: &Lease,
    read: &Read,
    carried: Carried,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    if read.origin.is_none() && known.feed.body_hash == Some(read.body_hash) {
        return unchanged(lease, Code::Ok, "the same as last time", carried, known, at, house);
    }
    let since = carried.earliest(at).before(house.sitemap_max_age);
    let all = house.sitemap_max_age.is_zero();
    let base = web::parse(&carried.final_url).ok();
    let absolute = |loc: &str| match &base {
        Some(base) => web::join(base, loc).map(|url| url.to_string()).ok(),
        None => Some(loc.to_owned()),
    };
    let site = read.origin.as_deref().map(|origin| of_site(origin, known)).unwrap_or_default();
    let items = read.sitemap.urls.len() + read.sitemap.children.len() + site.len();
    let pages = read.sitemap.urls.iter().filter(|page| all || page.may_be_since(since));
    let pages = pages.filter_map(|page| {
        let refetch = refetch::on_change(lease, page.lastmod, carried.latest(at), house);
        let link = house.taking.upgraded(absolute(&page.loc)?, &carried.final_url);
        let found = found(lease, link, Kind::Article, Origin::Sitemap);
        Some(NewTask { refetch, ..found })
    });
    let children = read.sitemap.children.iter().filter(|child| all || child.may_be_since(since));
    let children = children.map(|child| child.loc.as_str()).chain(site.iter().map(String::as_str));
    let children = children.filter_map(absolute).filter(|url| *url != lease.task.url);
    let depth = lease.task.depth.saturating_add(1);
    let mut children: Vec<_> = children
        .map(|url| NewTask { depth, ..found(lease, url, Kind::Sitemap, Origin::Sitemap) })
        .collect();
    let too_deep = if depth > DEEPEST { std::mem::take(&mut children).len() } else { 0 };
    let warnings = read.sitemap.warnings.iter();
    let brought = Brought {
        items: u32::try_from(items).unwrap_or(u32::MAX),
        warnings: Warned::gather(warnings.map(|one| (one.code, one.detail.as_str(), 1))),
        ..Brought::default()
    };
    let mut polled = went_well(lease, Some(&brought), &carried, known, at, house);
    let discovered: Vec<_> = children.into_iter().chain(pages).collect();
    let next = poll::next(lease, &mut polled, !discovered.is_empty(), at);
    let mut outcome = Outcome::new(Code::Ok, next, String::new());
    outcome.discovered = discovered;
    let deep = match too_deep {
        0 => String::new(),
        n => format!(", {n} nested too deep"),
    };
    outcome.reason = format!(
        "{items} lines, {} new enough to follow{deep}; {}",
        outcome.discovered.len(),
        polled.decision.reason
    );
    outcome.validators = Some((carried.validators, carried.final_url));
    polled.fact.state.body_hash = Some(read.body_hash);
    outcome.feed = Some(polled.fact);
    outcome.events = polled.events;
    outcome
}
