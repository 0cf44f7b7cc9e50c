//! Looking for a publisher's feeds and sitemaps: one address after the other, the likeliest first,
//! until there is what is wanted or nothing left to ask for.
//!
//! The answer that shows a feed is at once its first poll. An address counts as a channel only when
//! what it serves was read and has something in it. The search is bounded in requests and time; what
//! it found and what it tried in vain, and why, is part of its state.

mod search;

use std::time::Duration;

use feedmill_formats::discover::Candidate;
use feedmill_formats::url::{self as web, Url};
use serde_json::json;

pub use search::{Search, Seen, learn, next, start};
use search::{channel, may_be_sitemap};

use super::feed::found;
use super::{Carried, Failure, House, feed, robots_rules, sitemap, verdict};
use crate::model::{
    Class, Code, Discovery, DiscoveryFact, EventKind, FetchId, HostAdvice, Kind, Known, Lease,
    NewEvent, NewTask, Next, Origin, Outcome, Response, Status, Ts,
};

/// What was asked for lately is not asked for again for another search.
const LATELY: Duration = Duration::from_hours(24);

/// What was read of an answer.
#[derive(Debug)]
pub(super) struct Read {
    seen: Seen,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Feed(Box<feed::Read>),
    Sitemap(Box<sitemap::Read>),
    Other,
}

impl Read {
    /// The feed that it is.
    pub(super) fn feed(&self) -> Option<&feed::Read> {
        match &self.body {
            Body::Feed(read) => Some(read),
            Body::Sitemap(_) | Body::Other => None,
        }
    }

    /// What it names.
    pub(super) fn leads(&self) -> Vec<String> {
        self.seen.leads()
    }
}

pub(super) fn read(
    lease: &Lease,
    response: &Response,
    body: &[u8],
    house: &House,
) -> Result<Read, (Code, String)> {
    let url =
        web::parse(response.final_url()).map_err(|error| (Code::BadUrl, error.to_string()))?;
    if may_be_sitemap(body, &url)
        && let Ok(read) = sitemap::read(&lease.task, response.final_url(), body, house.max_decoded)
    {
        let seen = Seen::of_sitemap(&read.sitemap);
        return Ok(Read { seen, body: Body::Sitemap(Box::new(read)) });
    }
    let error = match feed::read(lease, response, body, house) {
        Ok(read) => {
            let seen = Seen::of_feed(&read.feed);
            return Ok(Read { seen, body: Body::Feed(Box::new(read)) });
        }
        Err(error) => error,
    };
    if error.0 != Code::BadContentType || verdict::walled(response, body).is_some() {
        return Err(error);
    }
    let links: Vec<&str> = response.exchange.headers.all("link").collect();
    let content_type = response.header("content-type");
    let seen = Seen::of_page(body, content_type, &links, &url, is_start(lease));
    Ok(Read { seen, body: Body::Other })
}

/// Whether it is the page that a search begins with, or where that leads.
const fn is_start(lease: &Lease) -> bool {
    lease.task.depth == 0
}

/// Whether the search comes back to it when nothing was found.
const fn is_home(lease: &Lease) -> bool {
    is_start(lease) && lease.task.redirects == 0
}

/// Whether a failure is waited out before the next address is tried.
pub(super) fn is_patient(lease: &Lease, code: Code) -> bool {
    is_start(lease) || code.class() == Class::RateLimited
}

/// The outcome of an address that could not be had.
pub(super) fn given_up(
    lease: &Lease,
    failure: &Failure,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    let reached = !matches!(failure.code, Code::Dns | Code::Network | Code::Timeout);
    let seen = Seen::Nothing { why: failure.detail.clone(), reached };
    let mut outcome = conclude(lease, seen, failure.code, None, known, at, house);
    outcome.host = if failure.asked { HostAdvice::Neutral } else { HostAdvice::NotAsked };
    outcome
}

pub(super) fn decide(
    lease: &Lease,
    read: Read,
    carried: Carried,
    fetch: Option<FetchId>,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    let channel = |kind| {
        let mut lease = lease.clone();
        (lease.task.kind, lease.task.origin) = (kind, Origin::Manual);
        lease
    };
    let polled = match read.body {
        Body::Feed(feed) => {
            let lease = channel(Kind::Feed);
            Some(feed::decide(&lease, *feed, carried, fetch, known, at, house))
        }
        Body::Sitemap(read) => {
            let lease = channel(Kind::Sitemap);
            Some(sitemap::decide(&lease, &read, carried, known, at, house))
        }
        Body::Other => None,
    };
    conclude(lease, read.seen, Code::Ok, polled, known, at, house)
}

/// Begins a search beside a page that is followed itself, and whose outcome this is.
pub(super) fn beside(
    lease: &Lease,
    seen: Seen,
    outcome: Outcome,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    conclude(lease, seen, outcome.code, Some(outcome), known, at, house)
}

/// A redirect that is a task of its own: followed already, or to be asked for next.
pub(super) fn leads_on(
    lease: &Lease,
    target: &Url,
    redirects: u16,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    let followed = known.leads.get(target.as_str()).filter(|lead| is_channel(lead.kind));
    let why = format!("leads to {target}");
    let mut outcome = if let Some(lead) = followed {
        let mut lease = lease.clone();
        target.as_str().clone_into(&mut lease.task.url);
        conclude(&lease, Seen::Followed(lead.kind), Code::Redirect, None, known, at, house)
    } else if known.leads.get(target.as_str()).is_some_and(|lead| !lead.may_be_asked(at)) {
        let why = format!("{why}, which was asked for lately");
        conclude(
            lease,
            Seen::Nothing { why, reached: true },
            Code::Redirect,
            None,
            known,
            at,
            house,
        )
    } else {
        let mut outcome =
            Outcome::new(Code::Redirect, ended(lease, Code::Redirect, false, at, house), why);
        let depth = lease.task.depth;
        let origin = lease.task.origin;
        outcome.discovered.push(NewTask {
            depth,
            redirects,
            ..found(lease, target.to_string(), Kind::Probe, origin)
        });
        outcome
    };
    outcome.host = HostAdvice::Fine;
    outcome
}

const fn is_channel(kind: Kind) -> bool {
    matches!(kind, Kind::Feed | Kind::Sitemap)
}

impl crate::model::LeadState {
    /// Whether asking for it would bring something.
    fn may_be_asked(&self, at: Ts) -> bool {
        let is_done = matches!(self.status, Status::Dead | Status::Fetched);
        let rested = self.fetched_at.is_none_or(|fetched| at.since(fetched) >= LATELY);
        self.kind == Kind::Probe && is_done && rested
    }
}

/// Where a probe goes that is no channel. The home page comes back while nothing was found.
fn ended(lease: &Lease, code: Code, found: bool, at: Ts, house: &House) -> Next {
    let back = at.after(house.search.again);
    match code {
        Code::Ok | Code::Redirect if is_home(lease) && !found => Next::Again { at: back },
        code if is_home(lease) && !found => Next::Retry { at: back, code },
        Code::Ok => Next::Fetched,
        code => Next::Dead { code },
    }
}

/// Takes an answer into the search of the lease's source, and says what follows. `polled` is the
/// outcome of the address as a channel.
fn conclude(
    lease: &Lease,
    seen: Seen,
    code: Code,
    polled: Option<Outcome>,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    let Some(source) = &lease.source else {
        return Outcome::new(code, Next::Fetched, "no source looks for feeds here");
    };
    let mut search = known.discovery.clone().unwrap_or_default();
    if is_home(lease) && search.ended.is_some() {
        search = Discovery::default();
    }
    let asked = match search.asking.take() {
        Some(asked) if !is_start(lease) => Candidate { url: lease.task.url.clone(), ..asked },
        _ => start(&lease.task.url),
    };
    let rules = known.robots.as_ref().map(|copy| robots_rules(&copy.verdict)).unwrap_or_default();
    let is_followed = matches!(seen, Seen::Followed(_));
    let taken = learn(&mut search, &asked, seen, &rules, at);
    let becomes = taken.filter(|_| !is_followed);
    let mut channels: Vec<(Kind, String)> =
        taken.map(|kind| (kind, asked.url.clone())).into_iter().collect();
    let mut next_lead = None;
    while let Some(lead) = next(&mut search, at, &house.search) {
        match known.leads.get(&lead.url) {
            None => next_lead = Some(lead),
            Some(state) if state.may_be_asked(at) => next_lead = Some(lead),
            Some(state) if is_channel(state.kind) => {
                let kind = state.kind;
                search.found.push(channel(&lead, kind, None, 0, None, false));
                channels.push((kind, lead.url));
                continue;
            }
            Some(_) => {
                search.tried(&lead, "asked for lately, for another source");
                continue;
            }
        }
        break;
    }
    let any = !search.found.is_empty();
    let mut outcome = match polled {
        Some(outcome) if becomes.is_some() || lease.task.kind == Kind::Listing => outcome,
        _ => {
            let why = search.tried.last().filter(|it| it.url == asked.url);
            let why = why.map_or_else(|| told(&search), |tried| tried.why.clone());
            let over = any && search.ended.is_some();
            Outcome::new(code, ended(lease, code, over, at, house), why)
        }
    };
    for (kind, url) in channels.iter().filter(|(_, url)| *url != lease.task.url || is_followed) {
        outcome.discovered.push(found(lease, url.clone(), *kind, Origin::Manual));
    }
    if let Some(lead) = &next_lead {
        let probe = found(lease, lead.url.clone(), Kind::Probe, Origin::Manual);
        outcome.discovered.push(NewTask { depth: 1, ..probe });
    }
    if search.ended.is_some() {
        outcome.events.push(over(lease, &search));
        if any && !is_home(lease) && !source.spec.reads_pages() {
            outcome.settled =
                Some(found(lease, source.spec.url.clone(), Kind::Probe, Origin::Manual));
        }
    }
    outcome.discovery = Some(DiscoveryFact { state: search, becomes, channels });
    outcome
}

/// What a search came to, in one line.
fn told(search: &Discovery) -> String {
    let found: Vec<String> =
        search.found.iter().map(|found| format!("{} {}", found.kind, found.url)).collect();
    match found.as_slice() {
        [] => format!("no feed and no sitemap among {} addresses", search.tried.len()),
        found => format!("found {}", found.join(", ")),
    }
}

/// What the log says when a search is over.
fn over(lease: &Lease, search: &Discovery) -> NewEvent {
    NewEvent {
        kind: EventKind::SourceDiscovered,
        subject: lease.task.source_id.clone().unwrap_or_else(|| lease.task.id.to_string()),
        source: lease.task.source,
        payload: json!({
            "found": search.found, "tried": search.tried.len(), "requests": search.requests,
            "reason": told(search),
        }),
    }
}
