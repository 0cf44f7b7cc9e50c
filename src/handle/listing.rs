//! Pages that lead to articles: the lists that an operator describes, and the pages that the spider
//! walks.
//!
//! Both only tell of addresses; what is behind them is for the article's handler. A list is read as
//! its operator says, page after page. The spider judges links by their spelling, keeps to its
//! source's own site, and comes back to a page by what the page brought. It never follows what a page
//! or a link asks not to follow.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use feedmill_formats::article::{Link, Links, Selector};
use feedmill_formats::url::{self as web, Url};
use feedmill_formats::walk::{self, Looks};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::feed::found;
use super::poll::{self, Brought, EXHAUSTED, Polled, went_well};
use super::probe::{self, Seen};
use super::{Carried, House, article, unchanged, verdict};
use crate::model::{
    Ask, Code, Kind, Known, Lease, NewSource, NewTask, Next, Origin, Outcome, Outside, Refetch,
    Response, Ts, UrlHash, Validators, Website,
};

/// Articles that are taken of a list that was never read, or not for so long.
const FIRST_TIME: (usize, Duration) = (20, Duration::from_hours(15 * 24));
/// A page that was found and never had news waits at least so long.
const DAY: Duration = Duration::from_hours(24);
/// Hosts outside that are noted of one page.
const MAX_OUTSIDE: usize = 100;

/// Addresses that a preview shows.
const PREVIEWED: usize = 3;

/// How far the spider walks.
#[derive(Clone, Copy, Debug)]
pub struct Spidering {
    /// Links from the home page to a page that it reads, where the source does not say; below 0 is
    /// without end.
    pub max_depth: i16,
    /// Pages of one source that it reads to find articles.
    pub max_pages: u32,
    /// Lists are read up to this page.
    pub max_page_number: u32,
    /// Least time between two looks at a page, where the source does not say.
    pub min_interval: Duration,
    /// What becomes of links to other sites.
    pub external: External,
}

/// What becomes of links to other sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum External {
    /// They are noted, for people to look at.
    Candidate,
    /// They are fetched as articles of the source.
    Submit,
    /// Nothing.
    Ignore,
}

/// What a page turned out to be.
pub(super) enum Found {
    /// It leads to others.
    Links(Box<Read>),
    /// It is an article itself, though its address did not look like one.
    Article(Box<article::Read>),
}

/// A page, as far as it leads to others.
#[derive(Debug)]
pub(super) struct Read {
    body_hash: [u8; 32],
    /// Links to articles, in the order of the page.
    articles: Vec<Lead>,
    /// Links to pages that lead on.
    pages: Vec<Lead>,
    outside: Vec<Outside>,
    /// Links that are not worth a request.
    left: usize,
    /// What the page names, when feeds are looked for beside it.
    beside: Option<Seen>,
}

/// An address that a page leads to.
#[derive(Debug)]
struct Lead {
    url: Url,
    hash: UrlHash,
    /// Whether it is the source's own.
    is_own: bool,
    /// Whether it is a later page of the same list, or one of another day.
    is_later: bool,
    in_frame: bool,
}

/// What a page would bring, were it read for articles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// Links that are taken for articles.
    pub articles: usize,
    /// How most of their addresses are spelled.
    pub pattern: Option<String>,
    /// The first of them.
    pub samples: Vec<String>,
}

/// Looks at a page as the source to be would have it read: by its selector, its patterns, or the
/// spelling of addresses.
///
/// # Errors
/// What is wrong with a selector or a pattern, or with the page.
pub fn preview(
    spec: &NewSource,
    html: &str,
    url: &str,
    at: Ts,
    house: &House,
) -> Result<Preview, String> {
    let links = Links::read(html, url, &house.robots_agent).map_err(|error| error.to_string())?;
    let patterns = walk::compiled(&spec.article_url_patterns).map_err(|error| error.to_string())?;
    let rules = walk::Rules { patterns: &patterns, max_page: house.spider.max_page_number, at };
    let host = web::parse(url).map(|url| web::host(&url)).unwrap_or_default();
    let lead = |link: Link| Lead::new(walk::tidied(&link.url), link.in_frame, &host, house);
    let leads = match &spec.website {
        Some(Website::List { article_selector, .. }) => {
            let selector = article_selector.parse::<Selector>();
            let selector = selector.map_err(|error| format!("{article_selector}: {error}"))?;
            once(links.picked(&selector).into_iter().map(lead))
        }
        _ => {
            let looks = |lead: &Lead| matches!(walk::judge(&lead.url, &rules), Looks::Article(_));
            once(links.all().into_iter().filter(|link| link.follow).map(lead).filter(looks))
        }
    };
    let own: Vec<Url> = leads.into_iter().filter(|lead| lead.is_own).map(|lead| lead.url).collect();
    Ok(Preview {
        articles: own.len(),
        pattern: walk::shape(&own).map(|(pattern, _)| pattern),
        samples: own.iter().take(PREVIEWED).map(Url::to_string).collect(),
    })
}

/// How an operator describes the list that a task is a page of.
fn list_of(lease: &Lease) -> Option<(&str, Option<&str>, u16)> {
    match lease.source.as_ref()?.spec.website.as_ref()? {
        Website::Direct => None,
        Website::List { article_selector, pagination_selector, max_pages } => {
            Some((article_selector, pagination_selector.as_deref(), *max_pages))
        }
    }
}

/// The host whose pages are walked.
fn home(lease: &Lease) -> String {
    let url = lease.source.as_ref().map_or(&lease.task.url, |source| &source.spec.url);
    web::parse(url).map(|url| web::host(&url)).unwrap_or_default()
}

fn max_depth(lease: &Lease, house: &House) -> i16 {
    let own = lease.source.as_ref().and_then(|source| source.spec.max_depth);
    own.unwrap_or(house.spider.max_depth)
}

fn may_go(depth: u16, lease: &Lease, house: &House) -> bool {
    u16::try_from(max_depth(lease, house)).map_or(true, |most| depth <= most)
}

fn is_later(url: &Url) -> bool {
    walk::page_number(url).is_some_and(|page| page > 1) || walk::is_dated_list(url)
}

pub(super) fn read(
    lease: &Lease,
    response: &Response,
    body: &[u8],
    house: &House,
) -> Result<Found, (Code, String)> {
    let page = article::read(response, body, house)?;
    let links = Links::read(&page.html, response.final_url(), &house.robots_agent)
        .map_err(|error| (Code::TooLarge, error.to_string()))?;
    let body_hash = Sha256::digest(body).into();
    if let Some((articles, pagination, _)) = list_of(lease) {
        let pick = |selector: &str| match selector.parse::<Selector>() {
            Ok(selector) => Ok(links.picked(&selector)),
            Err(error) => Err((Code::Parse, format!("the selector `{selector}`: {error}"))),
        };
        let host = home(lease);
        let lead = |link: Link| Lead::new(walk::tidied(&link.url), link.in_frame, &host, house);
        let articles = once(pick(articles)?.into_iter().map(lead));
        let next = pagination.map(pick).transpose()?.into_iter().flatten().map(lead);
        let pages = next.filter(|next| next.hash != lease.task.url_hash).take(1).collect();
        let read = Read { body_hash, articles, pages, outside: Vec::new(), left: 0, beside: None };
        return Ok(Found::Links(Box::new(read)));
    }
    let served = web::parse(response.final_url()).map(|url| web::host(&url)).unwrap_or_default();
    if !walk::is_own(&served, &home(lease)) {
        return Err((Code::Rejected, format!("it is served from {served}, another site")));
    }
    if links.is_article && lease.task.depth > 0 {
        return Ok(Found::Article(Box::new(page)));
    }
    let told = response.exchange.headers.list("x-robots-tag").unwrap_or_default();
    let follow = links.follow && !told.to_ascii_lowercase().contains("nofollow");
    let all = if follow { links.all() } else { Vec::new() };
    let served = verdict::served_at(&response.exchange.headers);
    let latest = served.map_or(lease.now, |served| served.max(lease.now));
    let mut read = judge(lease, all, body_hash, latest, house)?;
    let seeks = lease.source.as_ref().is_some_and(|source| source.spec.seeks_beside());
    if seeks && lease.task.depth == 0 && house.search.requests > 0 {
        read.beside = Some(Seen::beside(response, body));
    }
    Ok(Found::Links(Box::new(read)))
}

impl Lead {
    fn new(url: Url, in_frame: bool, home: &str, house: &House) -> Self {
        Self {
            hash: UrlHash::of(&web::key(&url, &house.key)),
            is_own: walk::is_own(&web::host(&url), home),
            is_later: is_later(&url),
            in_frame,
            url,
        }
    }
}

fn once(leads: impl Iterator<Item = Lead>) -> Vec<Lead> {
    let mut seen = HashSet::new();
    leads.filter(|lead| seen.insert(lead.hash)).collect()
}

/// Tells articles from pages that lead on, by the spelling of their addresses.
fn judge(
    lease: &Lease,
    links: Vec<Link>,
    body_hash: [u8; 32],
    latest: Ts,
    house: &House,
) -> Result<Read, (Code, String)> {
    let given = lease.source.as_ref().map_or(&[][..], |source| &source.spec.article_url_patterns);
    let patterns = walk::compiled(given)
        .map_err(|error| (Code::Parse, format!("article_url_patterns cannot be used: {error}")))?;
    let max_page = house.spider.max_page_number;
    let rules = walk::Rules { patterns: &patterns, max_page, at: latest };
    let host = home(lease);
    let (articles, pages, outside) = (Vec::new(), Vec::new(), Vec::new());
    let mut read = Read { body_hash, articles, pages, outside, left: 0, beside: None };
    let mut outside: HashMap<String, usize> = HashMap::new();
    for link in links {
        let lead = Lead::new(walk::tidied(&link.url), link.in_frame, &host, house);
        if !link.follow || lead.hash == lease.task.url_hash {
            read.left += 1;
        } else if !lead.is_own {
            read.left += 1;
            note(&mut read.outside, &mut outside, &lead.url);
        } else {
            match walk::judge(&lead.url, &rules) {
                Looks::Article(_) => read.articles.push(lead),
                Looks::Listing(_) => {
                    let is_later = lead.is_later || link.is_next;
                    read.pages.push(Lead { is_later, ..lead });
                }
                Looks::Nothing(_) => read.left += 1,
            }
        }
    }
    read.articles = once(read.articles.into_iter());
    read.pages = once(read.pages.into_iter());
    Ok(read)
}

fn note(outside: &mut Vec<Outside>, places: &mut HashMap<String, usize>, url: &Url) {
    let host = web::host(url);
    if walk::is_noise(&host) {
        return;
    }
    match places.get(&host).and_then(|at| outside.get_mut(*at)) {
        Some(known) => known.links += 1,
        None => {
            places.insert(host.clone(), outside.len());
            outside.push(Outside { host, url: url.to_string(), links: 1 });
        }
    }
}

impl Read {
    /// What has to be known before it can be concluded.
    pub(super) fn asks(&self, lease: &Lease, ask: &mut Ask) {
        let page = |lead: &Lead| (web::host(&lead.url), lead.hash);
        ask.pages = self.articles.iter().map(page).collect();
        if let Some(seen) = &self.beside {
            ask.discovery = lease.task.source;
            ask.robots = web::parse(&lease.task.url).ok().map(|url| web::origin(&url));
            ask.leads = seen.leads();
        }
        match list_of(lease) {
            Some(_) if lease.task.depth > 0 => {
                ask.listed_before = lease.task.source.map(|source| (source, lease.task.depth));
            }
            Some(_) => {}
            None => ask.walked_by = lease.task.source,
        }
    }
}

/// What a page leads to.
struct Led {
    discovered: Vec<NewTask>,
    /// Articles on the page, those of them that were not known, and those that were not taken.
    items: usize,
    new: usize,
    cut: usize,
    /// Pages that it has the spider walk.
    pages: usize,
    said: String,
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
    let is_first = known.feed.last_success.is_none();
    let led = match list_of(lease) {
        Some((_, _, max_pages)) => {
            listed(lease, read, max_pages, known, (at, carried.earliest(at)))
        }
        None => walked(lease, read, is_first, known, at, house),
    };
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let brought = Brought {
        items: count(led.items),
        pages: count(led.pages),
        // What the first look brings is no news: nobody knows how long it had been there.
        undated: if is_first { 0 } else { count(led.new) },
        ..Brought::default()
    };
    let mut polled = went_well(lease, Some(&brought), &carried, known, at, house);
    polled.fact.new_items = count(led.new);
    let next = poll::next(lease, &mut polled, led.new > 0, at);
    let reason = format!("{}; {}", led.said, polled.decision.reason);
    let mut outcome = Outcome::new(Code::Ok, next, reason);
    outcome.discovered = led.discovered;
    if house.spider.external == External::Candidate {
        outcome.outside = read.outside.iter().take(MAX_OUTSIDE).cloned().collect();
    }
    // What was cut off is taken the next time, whether the page changes or not.
    let whole = led.cut == 0;
    polled.fact.state.body_hash = whole.then_some(read.body_hash);
    let validators = if whole { carried.validators } else { Validators::default() };
    outcome.validators = Some((validators, carried.final_url));
    outcome.feed = Some(polled.fact);
    outcome.events = polled.events;
    match &read.beside {
        Some(seen) if known.discovery.is_none() => {
            probe::beside(lease, seen.clone(), outcome, known, at, house)
        }
        _ => outcome,
    }
}

/// A list that was never read, or not for long, brings its first articles only, those counted that
/// are known: the limit comes before everything else.
fn listed(
    lease: &Lease,
    read: &Read,
    max_pages: u16,
    known: &Known,
    (at, earliest): (Ts, Ts),
) -> Led {
    let (most, stale) = FIRST_TIME;
    let limited = known.feed.last_success.is_none_or(|last| earliest.since(last) > stale);
    let before = usize::try_from(known.listed).unwrap_or(usize::MAX);
    let left = if limited { most.saturating_sub(before) } else { usize::MAX };
    let (taken, cut) = read.articles.split_at(read.articles.len().min(left));
    let own: Vec<&Lead> = taken.iter().filter(|lead| lead.is_own).collect();
    let new = own.iter().filter(|lead| !known.pages.contains(&lead.hash)).count();
    let depth = lease.task.depth.saturating_add(1);
    let page = |lead: &&Lead| NewTask {
        depth,
        ..found(lease, lead.url.to_string(), Kind::Article, Origin::Spider)
    };
    let mut discovered: Vec<NewTask> = own.iter().map(page).collect();
    // Further pages have nothing new when this one has nothing new; and nothing is taken of them when
    // enough was taken.
    let goes_on = if limited { taken.len() < left } else { new > 0 };
    if goes_on && depth < max_pages {
        discovered.extend(read.pages.iter().map(|next| NewTask {
            depth,
            refetch: Some(Refetch { changed: at, after: Duration::ZERO, most: u32::MAX }),
            ..found(lease, next.url.to_string(), Kind::Listing, Origin::Spider)
        }));
    }
    let items = read.articles.len();
    let mut said = format!("{items} articles");
    if !cut.is_empty() {
        said.push_str(&format!(", the first {} taken", taken.len()));
    }
    let foreign = taken.len() - own.len();
    if foreign > 0 {
        said.push_str(&format!(", {foreign} of other sites left out"));
    }
    said.push_str(&format!(", {new} new"));
    Led { discovered, items, new, cut: cut.len(), pages: 0, said }
}

fn walked(lease: &Lease, read: &Read, is_first: bool, known: &Known, at: Ts, house: &House) -> Led {
    let task = &lease.task;
    let depth = task.depth.saturating_add(1);
    let is_new = |lead: &&Lead| !known.pages.contains(&lead.hash);
    let new = read.articles.iter().filter(is_new).count();
    let own = || read.articles.iter().filter(|lead| !lead.in_frame);
    let mut discovered: Vec<NewTask> = Vec::new();
    for lead in &read.articles {
        let found = found(lease, lead.url.to_string(), Kind::Article, Origin::Spider);
        let base_priority = found.base_priority.saturating_add(1).min(10);
        discovered.push(NewTask { depth, base_priority, ..found });
    }
    // A later page without articles of its own leads only to more of its kind.
    let is_empty = own().next().is_none();
    let in_trap =
        is_empty && task.depth > 0 && web::parse(&task.url).is_ok_and(|url| is_later(&url));
    // When all that a list shows is new, its next page may have more.
    let overflowed = !is_first && !is_empty && own().all(|lead| is_new(&lead));
    let room = house.spider.max_pages.saturating_sub(known.walked);
    let pages = read.pages.iter().filter(|lead| !(in_trap && lead.is_later));
    let pages = pages.take(usize::try_from(room).unwrap_or(usize::MAX));
    let mut walks = 0;
    for lead in pages.filter(|_| may_go(depth, lease, house)) {
        walks += 1;
        let again = Refetch { changed: at, after: Duration::ZERO, most: u32::MAX };
        discovered.push(NewTask {
            depth,
            refetch: (overflowed && lead.is_later).then_some(again),
            ..found(lease, lead.url.to_string(), Kind::Listing, Origin::Spider)
        });
    }
    if house.spider.external == External::Submit {
        discovered.extend(read.outside.iter().map(|outside| {
            let found = found(lease, outside.url.clone(), Kind::Article, Origin::Spider);
            let base_priority = found.base_priority.saturating_sub(1).max(1);
            NewTask { depth, base_priority, ..found }
        }));
    }
    let (items, left) = (read.articles.len(), read.left);
    let mut said =
        format!("{items} articles, {new} new, {walks} pages to walk, {left} links left alone");
    if in_trap {
        said.push_str(", later pages too: this one has no articles");
    } else if room == 0 && !read.pages.is_empty() {
        said.push_str(&format!("; the spider walks {} pages and no more", house.spider.max_pages));
    }
    Led { discovered, items, new, cut: 0, pages: walks, said }
}

/// Where a page goes that was only found: those that had news come back by what they bring, those that
/// never had any ever more rarely; later pages of lists only when they are named by need.
pub(super) fn come_back(
    lease: &Lease,
    polled: &mut Polled,
    (quiet, had_news): (Duration, bool),
    at: Ts,
) -> Next {
    if lease.source.as_ref().is_some_and(|source| !source.spec.reads_pages()) {
        polled.decision.reason = "the pages of its source are read no longer".to_owned();
        return Next::Fetched;
    }
    let url = web::parse(&lease.task.url);
    if list_of(lease).is_some() || url.is_ok_and(|url| is_later(&url)) {
        polled.decision.reason =
            "a later page of a list: over until the one before it is all news".to_owned();
        return Next::Fetched;
    }
    if quiet >= EXHAUSTED {
        polled.decision.reason =
            "no new article in 30 days: over until it is named again".to_owned();
        return Next::Fetched;
    }
    let wait = if had_news { quiet } else { quiet.max(DAY) };
    if wait > polled.decision.interval {
        polled.decision.at = at.after(wait);
        polled.fact.state.interval_ms = i64::try_from(wait.as_millis()).ok();
        let wait = crate::schedule::human(wait);
        polled.decision.reason = format!("in {wait}: as long as it has been without news");
    }
    Next::Again { at: polled.decision.at }
}

/// The page to walk where an article was expected and a list was found.
pub(super) fn misjudged(lease: &Lease, house: &House) -> Option<NewTask> {
    let task = &lease.task;
    let spec = &lease.source.as_ref()?.spec;
    let walks = spec.reads_pages() && spec.website.is_none();
    let is_own =
        web::parse(&task.url).is_ok_and(|url| walk::is_own(&web::host(&url), &home(lease)));
    (walks && is_own && task.origin == Origin::Spider && may_go(task.depth, lease, house)).then(
        || {
            let found = found(lease, task.url.clone(), Kind::Listing, Origin::Spider);
            NewTask { depth: task.depth.max(1), ..found }
        },
    )
}
