//! What an answer means, by kind, in two pure steps.
//!
//! [`parse`] reads the bytes and says what it needs to know; the shell makes one look-up;
//! [`decide`] concludes. No handler does I/O or reads a clock, so the same code replays stored
//! bytes. Every path ends in an outcome with a reason.

mod article;
mod feed;
mod identity;
pub mod limits;
pub mod listing;
mod moved;
mod poll;
pub mod probe;
mod refetch;
mod robots;
mod rules;
mod sitemap;
mod validate;
mod verdict;

use std::borrow::Cow;
use std::time::Duration;

use feedmill_formats::decode;
use feedmill_formats::url::{self as web, KeyRules, Url};

use crate::model::{
    Ask, Code, EventKind, FetchId, HostAdvice, Kind, Known, Lease, NewEvent, NewTask, Next,
    Outcome, Response, Ts, UrlHash, Validators,
};
use crate::schedule::{Decision, Policy};
pub use article::evidence;
pub(crate) use identity::has_id;
pub use listing::{External, Spidering};
pub use refetch::Refetching;
pub use robots::{Ruling, robots_of, robots_rules};
pub use rules::{RedirectPolicy, Redirects, Taking};
pub use validate::Validation;
use verdict::Judged;
pub use verdict::{RetryAfter, retry_after, served_at};

#[cfg(test)]
mod tests;

/// A document of more bytes is large: reading it takes several times as much memory.
const LARGE_DOCUMENT: usize = 1 << 20;
/// How long a fault of our own is waited out.
const OUR_FAULT: Duration = Duration::from_mins(1);
/// How long a task waits whose redirect led to an origin without a robots.txt to be had.
const NO_ROBOTS: Duration = Duration::from_hours(1);
/// How long a task waits at first whose redirect led to a host that could not be asked, and at most
/// when it has no interval of its own.
const BUSY: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));
/// Faults of our own in a row after which a task is given up.
const OUR_FAULTS: u16 = 5;

/// The rules of the house that handlers follow.
#[derive(Clone, Debug)]
pub struct House {
    /// When to come back.
    pub policy: Policy,
    /// How addresses are normalised.
    pub key: KeyRules,
    /// The most that a body may inflate to.
    pub max_decoded: usize,
    /// How long a robots.txt is good for.
    pub robots_ttl: Duration,
    /// The word that robots.txt knows us by.
    pub robots_agent: String,
    /// Whether a robots.txt whose server fails counts as missing.
    pub robots_lenient: bool,
    /// The longest pause that a `Retry-After` gets.
    pub max_retry_after: Duration,
    /// Pages of a sitemap that are older are left alone; zero takes all.
    pub sitemap_max_age: Duration,
    /// Less markup than this is no page.
    pub min_html_chars: usize,
    /// Redirects followed from the first address to the last.
    pub max_redirects: usize,
    /// What an article must hold to.
    pub validation: Validation,
    /// Whether pages are asked for again.
    pub refetch: Refetching,
    /// How far the search for a source's channels goes.
    pub search: probe::Search,
    /// How far the spider walks.
    pub spider: Spidering,
    /// What is taken from feeds.
    pub taking: Taking,
    /// What becomes of addresses that lead elsewhere.
    pub redirects: Redirects,
}

/// What a fetch brought.
#[derive(Clone, Debug)]
pub enum Reply {
    /// An answer, whatever it says.
    Answer(Box<Response>),
    /// No answer.
    Failed {
        /// Why.
        code: Code,
        /// Why, for people.
        detail: String,
        /// Not before this time, when somebody said so.
        not_before: Option<Ts>,
    },
    /// Nobody was asked: our own rules forbid it.
    Refused {
        /// Why.
        code: Code,
        /// Why, for people.
        detail: String,
    },
    /// A redirect to what is a task of its own.
    Elsewhere {
        /// Where.
        target: Url,
        /// The last of so many.
        hops: usize,
    },
}

/// What was read from the answer.
#[derive(Debug)]
pub struct Parsed {
    what: What,
    /// The fetch that brought it.
    fetch: Option<FetchId>,
    /// Bytes of body that were read, after decompression.
    decoded: usize,
}

impl Parsed {
    /// Bytes of body that were read, after decompression.
    #[must_use]
    pub const fn decoded(&self) -> usize {
        self.decoded
    }
}

#[derive(Debug)]
enum What {
    Failed(Failure),
    NotModified(Carried),
    Robots(robots::Read),
    Feed(Box<feed::Read>, Carried),
    Sitemap(Box<sitemap::Read>, Carried),
    Listing(Box<listing::Read>, Carried),
    Page(Box<article::Read>, Carried),
    Probe(Box<probe::Read>, Carried),
    Elsewhere(Url, usize),
}

/// A failure, with what was said about it.
#[derive(Clone, Debug)]
struct Failure {
    code: Code,
    detail: String,
    /// The HTTP status, when it is the answer that failed.
    status: Option<u16>,
    /// When the server wants us back.
    told: Option<Ts>,
    /// Whether it asked for a longer pause than any gets.
    capped: bool,
    /// For how long the answer says it stays fresh.
    fresh: Option<Duration>,
    /// Whether the host was asked.
    asked: bool,
}

impl Failure {
    const fn new(code: Code, detail: String) -> Self {
        Self { code, detail, status: None, told: None, capped: false, fresh: None, asked: true }
    }
}

/// A host that answers 429 without `Retry-After` is left alone for this long, doubled with each
/// such response to the task in a row. Its feeds wait by their own intervals, which may be much longer.
const HOST_REST: Duration = Duration::from_mins(1);
/// How often in a row a task may come back after a shorter pause that its server named.
const SHORT_PAUSES: u16 = 3;
/// The longest that a host is left alone without having asked for it.
const HOST_REST_MAX: Duration = Duration::from_hours(24);

/// What an answer carries besides its body.
#[derive(Clone, Debug)]
struct Carried {
    validators: Validators,
    final_url: String,
    /// For how long it says it stays fresh.
    fresh: Option<Duration>,
    /// Whether redirects led there, all of them permanent.
    for_good: bool,
    /// Bytes of body, as served.
    bytes: u64,
    /// The time by the server's clock.
    served_at: Option<Ts>,
}

impl Carried {
    /// The time by the clock that is behind, ours at `at` or the server's. What a publisher dates is too
    /// old only when both say so: our clock may be a month ahead.
    fn earliest(&self, at: Ts) -> Ts {
        self.served_at.map_or(at, |served| served.min(at))
    }

    /// The time by the clock that is ahead.
    fn latest(&self, at: Ts) -> Ts {
        self.served_at.map_or(at, |served| served.max(at))
    }
}

/// Reads the answer; what is needed to conclude goes into the ask.
#[must_use]
pub fn parse(lease: &Lease, reply: &Reply, house: &House) -> (Parsed, Ask) {
    parse_up_to(lease, reply, house, house.max_decoded)
}

/// Reads the answer unless its document is a large one, which not many may be read of at once.
#[must_use]
pub fn parse_small(lease: &Lease, reply: &Reply, house: &House) -> Option<(Parsed, Ask)> {
    let limit = house.max_decoded.min(LARGE_DOCUMENT);
    let (parsed, ask) = parse_up_to(lease, reply, house, limit);
    let too_large = matches!(&parsed.what, What::Failed(failure) if failure.code == Code::TooLarge);
    // A page that costs too much to read was unpacked, and would be the same the next time. Sitemaps are
    // unpacked by their reader.
    let is_packed = parsed.decoded == 0 || lease.task.kind == Kind::Sitemap;
    (!(too_large && is_packed && limit < house.max_decoded)).then_some((parsed, ask))
}

fn parse_up_to(lease: &Lease, reply: &Reply, house: &House, max_decoded: usize) -> (Parsed, Ask) {
    let task = &lease.task;
    let (mut ask, mut decoded) = (Ask::default(), 0);
    if matches!(task.kind, Kind::Feed | Kind::Sitemap | Kind::Listing) {
        ask.feed = Some(task.id);
        ask.siblings = task.source.filter(|_| task.kind == Kind::Feed);
    }
    let fetch = match reply {
        Reply::Answer(response) => Some(response.exchange.id),
        Reply::Failed { .. } | Reply::Refused { .. } | Reply::Elsewhere { .. } => None,
    };
    if task.kind == Kind::Probe {
        ask.discovery = task.source;
        ask.robots = web::parse(&task.url).ok().map(|url| web::origin(&url));
    }
    let what = match (reply, task.kind) {
        (_, Kind::Robots) => {
            let read = robots::read(task, reply, house);
            ask.robots = Some(read.origin.clone());
            What::Robots(read)
        }
        (Reply::Failed { code, detail, not_before }, _) => {
            What::Failed(Failure { told: *not_before, ..Failure::new(*code, detail.clone()) })
        }
        (Reply::Refused { code, detail }, _) => {
            What::Failed(Failure { asked: false, ..Failure::new(*code, detail.clone()) })
        }
        (Reply::Elsewhere { target, hops }, _) => {
            ask.leads = vec![target.to_string()];
            What::Elsewhere(target.clone(), *hops)
        }
        (Reply::Answer(response), _) => {
            read_answer(lease, response, (house, max_decoded), &mut ask, &mut decoded)
        }
    };
    (Parsed { what, fetch, decoded }, ask)
}

fn read_answer(
    lease: &Lease,
    response: &Response,
    (house, max_decoded): (&House, usize),
    ask: &mut Ask,
    decoded: &mut usize,
) -> What {
    let kind = lease.task.kind;
    let carried = Carried {
        validators: Validators {
            etag: response.header("etag").map(str::to_owned),
            last_modified: response.header("last-modified").map(str::to_owned),
        },
        final_url: response.final_url().to_owned(),
        fresh: verdict::fresh(&response.exchange.headers, response.exchange.ended),
        for_good: !response.redirects.is_empty()
            && response.redirects.iter().all(|hop| matches!(hop.status, 301 | 308)),
        bytes: response.exchange.body.len() as u64,
        served_at: verdict::served_at(&response.exchange.headers),
    };
    let fresh = carried.fresh;
    let failed =
        |code, detail: String| What::Failed(Failure { fresh, ..Failure::new(code, detail) });
    match verdict::judge(response, house.max_retry_after) {
        Judged::NotModified => return What::NotModified(carried),
        Judged::Failed { code, detail, told, capped } => {
            // Who names a time is believed, whoever it is.
            let refused = told.is_none() && response.status() >= 400;
            let wall = inflate(response, max_decoded).ok().filter(|_| refused);
            let wall = wall.and_then(|body| verdict::walled(response, &body));
            let (code, detail) = wall.unwrap_or((code, detail));
            let status = Some(response.status());
            let failure = Failure::new(code, detail);
            return What::Failed(Failure { status, told, capped, fresh, ..failure });
        }
        Judged::Body => {}
    }
    let body = match inflate(response, max_decoded) {
        Ok(body) => body,
        Err((code, detail)) => return failed(code, detail),
    };
    *decoded = body.len();
    let read = match kind {
        Kind::Feed => feed::read(lease, response, &body, house).map(|read| {
            ask.entries = read.asked();
            What::Feed(Box::new(read), carried)
        }),
        Kind::Sitemap => {
            sitemap::read(&lease.task, response.final_url(), &body, max_decoded).map(|read| {
                ask.robots = read.origin.clone();
                What::Sitemap(Box::new(read), carried)
            })
        }
        Kind::Article => article::read(response, &body, house).map(|read| {
            article::asks(lease, &carried, ask);
            What::Page(Box::new(read), carried)
        }),
        Kind::Probe => probe::read(lease, response, &body, house).map(|read| {
            ask.entries = read.feed().map(feed::Read::asked).unwrap_or_default();
            ask.robots = web::parse(&carried.final_url).ok().map(|url| web::origin(&url));
            ask.leads = read.leads();
            What::Probe(Box::new(read), carried)
        }),
        Kind::Listing => listing::read(lease, response, &body, house).map(|found| match found {
            listing::Found::Links(read) => {
                read.asks(lease, ask);
                What::Listing(read, carried)
            }
            listing::Found::Article(read) => {
                article::asks(lease, &carried, ask);
                What::Page(read, carried)
            }
        }),
        Kind::Robots | Kind::Archive | Kind::Enclosure => {
            Err((Code::Internal, format!("no handler for {kind} tasks")))
        }
    };
    read.unwrap_or_else(|(code, detail)| {
        let (code, detail) = verdict::walled(response, &body).unwrap_or((code, detail));
        failed(code, detail)
    })
}

fn inflate(response: &Response, max_decoded: usize) -> Result<Cow<'_, [u8]>, (Code, String)> {
    let coding = response.exchange.headers.list("content-encoding");
    decode::capped(&response.exchange.body, coding.as_deref(), max_decoded).map_err(|error| {
        let code = if error.code() == "too_large" { Code::TooLarge } else { Code::BadEncoding };
        (code, error.to_string())
    })
}

/// Concludes. `at` is when the fetch was made, in the store's time.
#[must_use]
pub fn decide(lease: &Lease, parsed: Parsed, known: &Known, at: Ts, house: &House) -> Outcome {
    let mut outcome = concluded(lease, parsed, known, at, house);
    limits::outcome(&mut outcome);
    outcome
}

fn concluded(lease: &Lease, parsed: Parsed, known: &Known, at: Ts, house: &House) -> Outcome {
    let fetch = parsed.fetch;
    match parsed.what {
        What::Robots(read) => robots::decide(lease, read, known, at, house),
        What::Failed(failure) => fail(lease, &failure, known, at, house),
        What::NotModified(carried) => not_modified(lease, carried, known, at, house),
        What::Feed(read, carried) => feed::decide(lease, *read, carried, fetch, known, at, house),
        What::Sitemap(read, carried) => sitemap::decide(lease, &read, carried, known, at, house),
        What::Probe(read, carried) => probe::decide(lease, *read, carried, fetch, known, at, house),
        What::Elsewhere(target, hops) => leads_on(lease, &target, hops, known, at, house),
        What::Listing(read, carried) => listing::decide(lease, &read, carried, known, at, house),
        What::Page(read, carried) => {
            article::decide(lease, &read, carried, fetch, known, at, house)
        }
    }
}

fn not_modified(
    lease: &Lease,
    mut carried: Carried,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    carried.validators = Validators {
        etag: carried.validators.etag.or_else(|| lease.validators.etag.clone()),
        last_modified: carried
            .validators
            .last_modified
            .or_else(|| lease.validators.last_modified.clone()),
    };
    if lease.task.kind.recurs() {
        return unchanged(lease, Code::NotModified, "not modified", carried, known, at, house);
    }
    let next = refetch::after_reading(lease, at, house);
    let mut outcome = Outcome::new(Code::NotModified, next, "not modified");
    outcome.validators = Some((carried.validators, carried.final_url));
    outcome
}

/// A poll that brought nothing that was not there before.
fn unchanged(
    lease: &Lease,
    code: Code,
    said: &str,
    carried: Carried,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    let mut polled = poll::went_well(lease, None, &carried, known, at, house);
    let moved = moved::watch(lease, &mut polled.fact.state, &carried, true, at);
    let validators = poll::trusted(&mut polled, carried.validators, known, at);
    let next = poll::next(lease, &mut polled, false, at);
    let mut outcome = Outcome::new(code, next, format!("{said}; {}", polled.decision.reason));
    outcome.validators = Some((validators, carried.final_url));
    outcome.feed = Some(polled.fact);
    outcome.moved = moved;
    outcome.events = polled.events;
    outcome
}

/// A failure: a recurring task waits, a page is tried again or given up.
fn fail(lease: &Lease, failure: &Failure, known: &Known, at: Ts, house: &House) -> Outcome {
    let failure = &Failure { told: believed(lease, failure.told, at), ..failure.clone() };
    let Failure { code, ref detail, told, asked, .. } = *failure;
    let task = &lease.task;
    if code == Code::HostBusy {
        return busy(lease, detail, told, known, at, house);
    }
    // No fault of the publisher's: the attempt does not count.
    if matches!(code, Code::Internal | Code::RobotsUnreachable) {
        let wait = if code == Code::Internal { OUR_FAULT } else { NO_ROBOTS };
        let at = told.unwrap_or_else(|| at.after(wait));
        let mut outcome = Outcome::new(code, Next::Postpone { at, code }, detail.as_str());
        outcome.host = HostAdvice::Neutral;
        return outcome;
    }
    let (plan, feed, events) = if task.kind.recurs() {
        let (plan, fact, events) = poll::went_wrong(lease, failure, known, at, house);
        (plan, Some(fact), events)
    } else {
        let attempts = attempts(lease, code);
        let retry = house.policy.retry_page(task.id, at, code, attempts, told);
        // A page that is all of its source is never given up for a failure that may pass.
        let direct = refetch::of_direct(lease, house).filter(|_| code.is_transient());
        let later = direct.map(|wait| Decision {
            at: at.after(wait),
            interval: wait,
            reason: "its source has no other page".to_owned(),
        });
        (retry.or(later), None, Vec::new())
    };
    if task.kind == Kind::Probe && (plan.is_none() || !probe::is_patient(lease, code)) {
        return probe::given_up(lease, failure, known, at, house);
    }
    let mut outcome = match &plan {
        Some(plan) => Outcome::new(
            code,
            Next::Retry { at: plan.at, code },
            format!("{detail}; {}", plan.reason),
        ),
        None => Outcome::new(code, Next::Dead { code }, detail.as_str()),
    };
    outcome.feed = feed;
    outcome.events = events;
    outcome.host = match code {
        _ if !asked => HostAdvice::NotAsked,
        Code::RateLimited => {
            let rest = HOST_REST.saturating_mul(1 << task.failures_of(code).min(10));
            let told = told.filter(|told| *told > at);
            let until = told.unwrap_or_else(|| at.after(rest.min(HOST_REST_MAX)));
            match failure.status {
                Some(429) => HostAdvice::SlowDown { until: Some(until) },
                _ => HostAdvice::Pause { until },
            }
        }
        _ => HostAdvice::Neutral,
    };
    if plan.is_none() && poll::is_owed(task, known, code) {
        outcome.events.extend(end(lease, code, detail));
    }
    outcome
}

/// The time to come back that a server names. One that names a few seconds again and again is waited
/// for like one that names none: longer each time. Other failures before do not count.
fn believed(lease: &Lease, told: Option<Ts>, at: Ts) -> Option<Ts> {
    let is_short = |told: &Ts| told.since(at) < HOST_REST;
    let is_repeated = lease.task.failures_of(Code::RateLimited) >= SHORT_PAUSES;
    told.filter(|told| !is_repeated || !is_short(told))
}

/// Failed attempts of a page, this one counted: those of the same code where that is counted alone, and
/// otherwise all of them. A server that changes between both kinds of failures is given up all the same.
fn attempts(lease: &Lease, code: Code) -> u32 {
    let task = &lease.task;
    let before = match task.last_error {
        _ if code.is_counted_alone() => u32::from(task.failures_of(code)),
        Some(last) if last.is_counted_alone() && lease.validators_for.is_none() => {
            u32::from(task.retry_count).max(task.fetch_count)
        }
        _ => u32::from(task.retry_count),
    };
    before.saturating_add(1)
}

/// What the log says when a task is given up. Only an answer that was read leaves its address behind:
/// what is no longer there then was taken down.
fn end(lease: &Lease, code: Code, detail: &str) -> Vec<NewEvent> {
    let mut events = NewEvent::given_up(&lease.task, code, detail);
    let was_read = lease.validators_for.is_some();
    if was_read && matches!(code, Code::NotFound | Code::Gone) {
        let failed = events.iter_mut().filter(|event| event.kind == EventKind::ArticleFailed);
        failed.for_each(|event| event.kind = EventKind::ArticleWithdrawn);
    }
    events
}

/// A redirect led to a host that could not be asked, until `told` when that is known. Whoever sent us
/// there was asked: each time in a row it is left alone for longer, up to the usual interval.
fn busy(
    lease: &Lease,
    detail: &str,
    told: Option<Ts>,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    let usual = match known.feed.interval_ms.and_then(|ms| u64::try_from(ms).ok()) {
        _ if !lease.task.kind.recurs() => at.after(BUSY.1),
        Some(ms) => at.after(Duration::from_millis(ms)),
        None => poll::elsewhere(lease, at, house),
    };
    let wait = BUSY.0.saturating_mul(1 << lease.task.failures_of(Code::HostBusy).min(16));
    let until = told.unwrap_or(at).max(at.after(wait)).min(usual);
    let code = Code::HostBusy;
    let mut outcome = Outcome::new(code, Next::Retry { at: until, code }, detail);
    outcome.host = HostAdvice::Neutral;
    outcome
}

/// The outcome when an address leads to another host's page, `hops` redirects away: that is a task
/// of its own there, which goes on counting.
fn leads_on(
    lease: &Lease,
    target: &Url,
    hops: usize,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    let task = &lease.task;
    let redirects = task.redirects.saturating_add(u16::try_from(hops).unwrap_or(u16::MAX));
    let circle = UrlHash::of(&web::key(target, &house.key)) == task.url_hash
        || usize::from(redirects) > house.max_redirects;
    if circle {
        let detail = format!("leads to {target}, one redirect too many");
        let failure = Failure::new(Code::RedirectLoop, detail);
        return fail(lease, &failure, known, at, house);
    }
    if task.kind == Kind::Probe {
        return probe::leads_on(lease, target, redirects, known, at, house);
    }
    let next = if task.kind.recurs() {
        Next::Again { at: poll::elsewhere(lease, at, house) }
    } else {
        Next::Dead { code: Code::Redirect }
    };
    let mut outcome = Outcome::new(Code::Redirect, next, format!("leads to {target}"));
    if !task.kind.recurs() {
        // The pointer to where it led.
        outcome.validators = Some((Validators::default(), target.to_string()));
    }
    outcome.discovered.push(NewTask {
        url: target.to_string(),
        kind: task.kind,
        origin: task.origin,
        source: task.source,
        base_priority: task.priority,
        depth: task.depth,
        redirects,
        parent: Some(task.id),
        not_before: None,
        refetch: None,
    });
    outcome
}

/// The outcome when serving a task failed on our side: it waits; what fails like this again and
/// again is given up.
#[must_use]
pub fn our_fault(lease: &Lease, message: &str, at: Ts) -> Outcome {
    let code = Code::Internal;
    let next = if lease.task.failures_of(code) >= OUR_FAULTS {
        Next::Dead { code }
    } else {
        Next::Retry { at: at.after(OUR_FAULT), code }
    };
    let mut outcome = Outcome::new(code, next, message);
    outcome.host = HostAdvice::Neutral;
    if matches!(outcome.next, Next::Dead { .. }) {
        outcome.events.extend(NewEvent::given_up(&lease.task, code, message));
    }
    outcome
}
