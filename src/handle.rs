//! What an answer means, by kind, in two pure steps.
//!
//! [`parse`] reads the bytes and says what it needs to know; the shell makes one look-up;
//! [`decide`] concludes. No handler does I/O or reads a clock, so the same code replays stored
//! bytes. Every path ends in an outcome with a reason.

mod article;
mod feed;
mod identity;
mod robots;
mod sitemap;
mod verdict;

use std::borrow::Cow;
use std::time::Duration;

use feedmill_formats::decode;
use feedmill_formats::url::{self as web, KeyRules, Url};

use crate::model::{
    Ask, Code, EventKind, FetchId, HostAdvice, Kind, Known, Lease, NewEvent, NewTask, Next,
    Outcome, Response, Ts, UrlHash, Validators,
};
use crate::schedule::{Policy, Poll};
use verdict::Judged;

#[cfg(test)]
mod tests;

/// How long a fault of our own is waited out.
const OUR_FAULT: Duration = Duration::from_mins(1);
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
    /// Pages of a sitemap that are older are left alone; zero takes all.
    pub sitemap_max_age: Duration,
    /// Less markup than this is no page.
    pub min_html_chars: usize,
    /// Redirects followed from the first address to the last.
    pub max_redirects: usize,
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
}

/// What was read from the answer.
#[derive(Debug)]
pub struct Parsed {
    what: What,
    /// The fetch that brought it.
    fetch: Option<FetchId>,
}

#[derive(Debug)]
enum What {
    Failed { code: Code, detail: String, told: Option<Ts>, asked: bool },
    NotModified(Carried),
    Robots(robots::Read),
    Feed(Box<feed::Read>, Carried),
    Sitemap(Box<sitemap::Read>, Carried),
    Page(Box<article::Read>, Carried),
}

/// What an answer carries besides its body.
#[derive(Clone, Debug)]
struct Carried {
    validators: Validators,
    final_url: String,
    max_age: Option<Duration>,
}

/// Reads the answer; what is needed to conclude goes into the ask.
#[must_use]
pub fn parse(lease: &Lease, reply: &Reply, house: &House) -> (Parsed, Ask) {
    let task = &lease.task;
    let mut ask = Ask::default();
    if matches!(task.kind, Kind::Feed | Kind::Sitemap) {
        ask.feed = Some(task.id);
    }
    let fetch = match reply {
        Reply::Answer(response) => Some(response.exchange.id),
        Reply::Failed { .. } | Reply::Refused { .. } => None,
    };
    let what = match (reply, task.kind) {
        (_, Kind::Robots) => {
            let read = robots::read(task, reply, house);
            ask.robots = Some(read.origin.clone());
            What::Robots(read)
        }
        (Reply::Failed { code, detail, not_before }, _) => What::Failed {
            code: *code,
            detail: detail.clone(),
            told: *not_before,
            asked: *code != Code::HostBusy,
        },
        (Reply::Refused { code, detail }, _) => {
            What::Failed { code: *code, detail: detail.clone(), told: None, asked: false }
        }
        (Reply::Answer(response), kind) => read_answer(lease, response, kind, house, &mut ask),
    };
    (Parsed { what, fetch }, ask)
}

fn read_answer(
    lease: &Lease,
    response: &Response,
    kind: Kind,
    house: &House,
    ask: &mut Ask,
) -> What {
    let failed = |code, detail: String| What::Failed { code, detail, told: None, asked: true };
    let carried = Carried {
        validators: Validators {
            etag: response.header("etag").map(str::to_owned),
            last_modified: response.header("last-modified").map(str::to_owned),
        },
        final_url: response.final_url().to_owned(),
        max_age: verdict::max_age(&response.exchange.headers),
    };
    match verdict::judge(response) {
        Judged::NotModified => return What::NotModified(carried),
        Judged::Failed { code, detail, told } => {
            return What::Failed { code, detail, told, asked: true };
        }
        Judged::Body => {}
    }
    let body = match inflate(response, house) {
        Ok(body) => body,
        Err((code, detail)) => return failed(code, detail),
    };
    let read = match kind {
        Kind::Feed => feed::read(lease, response, &body, house).map(|read| {
            ask.entries = read.asked();
            What::Feed(Box::new(read), carried)
        }),
        Kind::Sitemap => sitemap::read(&lease.task, &body).map(|read| {
            ask.robots = read.origin.clone();
            What::Sitemap(Box::new(read), carried)
        }),
        Kind::Article => article::read(response, &body, house).map(|read| {
            ask.evidence = Some(lease.task.url_hash);
            What::Page(Box::new(read), carried)
        }),
        Kind::Robots | Kind::Probe | Kind::Listing | Kind::Archive | Kind::Enclosure => {
            Err((Code::Internal, format!("no handler for {kind} tasks")))
        }
    };
    read.unwrap_or_else(|(code, detail)| failed(code, detail))
}

fn inflate<'a>(response: &'a Response, house: &House) -> Result<Cow<'a, [u8]>, (Code, String)> {
    let coding = response.header("content-encoding");
    decode::capped(&response.exchange.body, coding, house.max_decoded).map_err(|error| {
        let code = if error.code() == "too_large" { Code::TooLarge } else { Code::BadEncoding };
        (code, error.to_string())
    })
}

/// Concludes. `at` is when the fetch was made, in the store's time.
#[must_use]
pub fn decide(lease: &Lease, parsed: Parsed, known: &Known, at: Ts, house: &House) -> Outcome {
    let fetch = parsed.fetch;
    match parsed.what {
        What::Robots(read) => robots::decide(lease, read, known, at, house),
        What::Failed { code, detail, told, asked } => {
            fail(lease, code, &detail, told, asked, known, at, house)
        }
        What::NotModified(carried) => not_modified(lease, carried, known, at, house),
        What::Feed(read, carried) => feed::decide(lease, *read, carried, fetch, known, at, house),
        What::Sitemap(read, carried) => sitemap::decide(lease, &read, carried, known, at, house),
        What::Page(read, carried) => {
            article::decide(lease, &read, carried, fetch, known, at, house)
        }
    }
}

/// The plan for a recurring task's next poll.
fn poll(lease: &Lease, at: Ts, floor: Option<Duration>) -> Poll {
    let explicit = lease.source.as_ref().and_then(|source| source.spec.poll_interval);
    Poll { task: lease.task.id, kind: lease.task.kind, explicit, floor, at }
}

fn not_modified(lease: &Lease, carried: Carried, known: &Known, at: Ts, house: &House) -> Outcome {
    let kept = Validators {
        etag: carried.validators.etag.or_else(|| lease.validators.etag.clone()),
        last_modified: carried
            .validators
            .last_modified
            .or_else(|| lease.validators.last_modified.clone()),
    };
    let mut outcome = if lease.task.kind.recurs() {
        let plan = house.policy.next_poll(&poll(lease, at, carried.max_age));
        let mut outcome = Outcome::new(
            Code::NotModified,
            Next::Again { at: plan.at },
            format!("not modified; {}", plan.reason),
        );
        outcome.feed = Some(feed::quiet(known, at, plan.interval));
        outcome
    } else {
        Outcome::new(Code::NotModified, Next::Fetched, "not modified")
    };
    outcome.validators = Some((kept, carried.final_url));
    outcome
}

/// A failure: a recurring task waits, a page is tried again or given up.
#[expect(clippy::too_many_arguments, reason = "a failure is these eight facts")]
fn fail(
    lease: &Lease,
    code: Code,
    detail: &str,
    told: Option<Ts>,
    asked: bool,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    let task = &lease.task;
    // No fault of the publisher's: the attempt does not count.
    if matches!(code, Code::HostBusy | Code::Internal) {
        let wait = if code == Code::Internal { OUR_FAULT } else { lease.delay };
        let at = told.unwrap_or_else(|| at.after(wait));
        let mut outcome = Outcome::new(code, Next::Postpone { at, code }, detail);
        outcome.host = HostAdvice::Neutral;
        return outcome;
    }
    let attempts = u32::from(task.retry_count) + 1;
    let plan = if task.kind.recurs() {
        house.policy.after_failure(&poll(lease, at, None), code, known.feed.failures + 1, told)
    } else {
        house.policy.retry_page(task.id, at, code, attempts, told)
    };
    let mut outcome = match &plan {
        Some(plan) => Outcome::new(
            code,
            Next::Retry { at: plan.at, code },
            format!("{detail}; {}", plan.reason),
        ),
        None => Outcome::new(code, Next::Dead { code }, detail),
    };
    outcome.host = match code {
        _ if !asked => HostAdvice::NotAsked,
        Code::RateLimited => HostAdvice::SlowDown { until: plan.as_ref().map(|plan| plan.at) },
        _ => HostAdvice::Neutral,
    };
    if task.kind.recurs() {
        outcome.feed = Some(feed::failed(known, plan.as_ref().map(|plan| plan.interval)));
    }
    if plan.is_none() {
        outcome.events.extend(obituary(lease, code, detail));
    }
    outcome
}

/// The outcome when an address leads to another host's page: that is a task of its own there.
#[must_use]
pub fn leads_on(lease: &Lease, target: &Url, at: Ts, house: &House) -> Outcome {
    let task = &lease.task;
    let circle = UrlHash::of(&web::key(target, &house.key)) == task.url_hash
        || usize::from(task.depth) >= house.max_redirects;
    if circle {
        let detail = format!("leads to {target}, one redirect too many");
        return fail(lease, Code::RedirectLoop, &detail, None, true, &Known::default(), at, house);
    }
    let next = if task.kind.recurs() {
        Next::Again { at: house.policy.next_poll(&poll(lease, at, None)).at }
    } else {
        Next::Dead { code: Code::Redirect }
    };
    let mut outcome = Outcome::new(Code::Redirect, next, format!("leads to {target}"));
    outcome.discovered.push(NewTask {
        url: target.to_string(),
        kind: task.kind,
        origin: task.origin,
        source: task.source,
        base_priority: task.priority,
        depth: task.depth.saturating_add(1),
        parent: Some(task.id),
        not_before: None,
    });
    outcome
}

/// The outcome when serving a task failed on our side: it waits; what fails like this again and
/// again is given up.
#[must_use]
pub fn our_fault(lease: &Lease, message: &str, at: Ts) -> Outcome {
    let code = Code::Internal;
    let again = lease.task.last_error == Some(code);
    let next = if again && lease.task.retry_count >= OUR_FAULTS {
        Next::Dead { code }
    } else {
        Next::Retry { at: at.after(OUR_FAULT), code }
    };
    let mut outcome = Outcome::new(code, next, message);
    outcome.host = HostAdvice::Neutral;
    outcome
}

/// What the log says when something is given up.
fn obituary(lease: &Lease, code: Code, detail: &str) -> Option<NewEvent> {
    let task = &lease.task;
    let (kind, subject) = match task.kind {
        Kind::Article => (EventKind::ArticleFailed, task.url_hash.to_string()),
        Kind::Feed => (EventKind::FeedGone, task.id.to_string()),
        _ => return None,
    };
    Some(NewEvent {
        kind,
        subject,
        source: task.source,
        payload: serde_json::json!({
            "url": task.url, "code": code, "reason": detail, "attempts": task.retry_count + 1,
        }),
    })
}
