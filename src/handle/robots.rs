//! robots.txt: what an origin allows (RFC 9309).
//!
//! A missing file allows everything; where one cannot be fetched, the pages of its origin wait, and none is given up.

use std::borrow::Cow;
use std::time::Duration;

use feedmill_formats::decode::{self, DecodeError};
use feedmill_formats::robots::Robots;
use feedmill_formats::url as web;

use super::{House, Reply, verdict};
use crate::model::{
    Code, HostAdvice, Known, Lease, Next, Outcome, Response, RobotsFact, RobotsState, Task, TaskId,
    Truncation, Ts, Verdict,
};

/// How long an expired copy may still serve while the file cannot be had.
const STALE: Duration = Duration::from_hours(24);
/// More of the file is not read.
const LIMIT: usize = 500 * 1024;
/// A redirect to another host that cannot be asked is tried again after this long at the latest.
const BUSY: Duration = Duration::from_hours(1);

#[derive(Debug)]
pub(super) struct Read {
    pub(super) origin: String,
    result: Result<(Verdict, Option<Duration>), Failure>,
}

#[derive(Debug)]
struct Failure {
    detail: String,
    told: Option<Ts>,
    rate_limited: bool,
    /// It led to another host, which could not be asked: that one is not to be waited for at length.
    busy: bool,
}

/// A robots.txt that could not be had.
struct Missed {
    /// When to ask again.
    until: Ts,
    /// The copy that serves until then.
    copy: Option<RobotsFact>,
    advice: HostAdvice,
}

/// What asking for the robots.txt of an origin on the way to a page came to.
pub struct Ruling {
    /// What to keep.
    pub fact: RobotsFact,
    /// Why there is no copy that rules, and when to ask again.
    pub missing: Option<(String, Ts)>,
    /// What it means for the host's pace, when it could not be had.
    pub advice: Option<HostAdvice>,
}

pub(super) fn read(task: &Task, reply: &Reply, house: &House) -> Read {
    let origin = web::parse(&task.url).map(|url| web::origin(&url)).unwrap_or_default();
    Read { origin, result: said(reply, house) }
}

/// The ruling of an origin whose robots.txt was asked for on the way to a page. No task of its own
/// counts how often that was in vain: what is kept of the origin does.
pub fn robots_of(
    origin: String,
    reply: &Reply,
    kept: Option<&RobotsState>,
    task: TaskId,
    at: Ts,
    house: &House,
) -> Ruling {
    let failure = match said(reply, house) {
        Ok(said) => {
            let fact = fact(origin, said, kept, at, house);
            return Ruling { fact, missing: None, advice: None };
        }
        Err(failure) => failure,
    };
    let failures = kept.map_or(0, |copy| copy.failures).saturating_add(1);
    let missed = missed(origin.clone(), &failure, kept, (task, failures), at, house);
    let missing = (format!("robots.txt: {}", failure.detail), missed.until);
    let (mut fact, missing) = match missed.copy {
        Some(copy) => (copy, None),
        None => (unchanged(origin, kept, house), Some(missing)),
    };
    fact.state.failures = failures;
    Ruling { fact, missing, advice: Some(missed.advice) }
}

/// What is kept already, too old to rule or nothing at all.
fn unchanged(origin: String, kept: Option<&RobotsState>, house: &House) -> RobotsFact {
    let state = kept.cloned().unwrap_or_else(RobotsState::never);
    let crawl_delay_ms = crawl_delay(&state, house);
    RobotsFact { origin, state, crawl_delay_ms, rechecked_as: None }
}

/// The rules of a copy.
#[must_use]
pub fn robots_rules(verdict: &Verdict) -> Robots {
    match verdict {
        Verdict::Rules(text) => Robots::parse(text.as_bytes()),
        Verdict::AllowAll => Robots::default(),
    }
}

fn fact(
    origin: String,
    (verdict, delay): (Verdict, Option<Duration>),
    kept: Option<&RobotsState>,
    at: Ts,
    house: &House,
) -> RobotsFact {
    let changed = kept.is_some_and(|copy| {
        copy.verdict != verdict && !robots_rules(&copy.verdict).same_rules(&robots_rules(&verdict))
    });
    RobotsFact {
        origin,
        rechecked_as: changed.then(|| house.robots_agent.clone()),
        crawl_delay_ms: delay.map(|d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)),
        state: RobotsState {
            verdict,
            fetched_at: at,
            expires_at: at.after(house.robots_ttl),
            failures: 0,
        },
    }
}

/// Until when a copy may serve. An expiry that was put off must not count, or it would serve for
/// ever.
fn last_use(copy: &RobotsState, house: &House) -> Ts {
    copy.fetched_at.after(house.robots_ttl + STALE)
}

/// When a server that cannot serve its robots.txt wants us back.
fn told_by(response: &Response, house: &House) -> Option<Ts> {
    let (headers, ended) = (&response.exchange.headers, response.exchange.ended);
    Some(verdict::retry_after(headers, ended, house.max_retry_after)?.until)
}

fn said(reply: &Reply, house: &House) -> Result<(Verdict, Option<Duration>), Failure> {
    let failure = |detail: String| Failure { detail, told: None, rate_limited: false, busy: false };
    match reply {
        // The guard lets nobody through to this host, and says so for each page by itself.
        Reply::Refused { .. } | Reply::Elsewhere { .. } => Ok((Verdict::AllowAll, None)),
        Reply::Failed { code, .. } if house.robots_lenient && *code != Code::HostBusy => {
            Ok((Verdict::AllowAll, None))
        }
        Reply::Failed { code, detail, .. } => {
            Err(Failure { busy: *code == Code::HostBusy, ..failure(detail.clone()) })
        }
        Reply::Answer(response) => match response.status() {
            // Half a file may lack the half that forbids; one that is too long rules as far as it
            // was read.
            200..=299
                if matches!(
                    response.exchange.truncated,
                    Some(Truncation::Time | Truncation::Disconnect)
                ) =>
            {
                Err(failure("robots.txt broke off".to_owned()))
            }
            200..=299 => match start_of(response) {
                Ok(body) if verdict::walled(response, &body).is_some() => {
                    Err(failure("a bot wall answered for robots.txt".to_owned()))
                }
                Ok(body) => {
                    let text = text(whole_lines(&body));
                    let delay = Robots::parse(text.as_bytes()).crawl_delay(&house.robots_agent);
                    Ok((Verdict::Rules(text), delay))
                }
                Err(error) => Err(failure(error.to_string())),
            },
            500..=599 if house.robots_lenient => Ok((Verdict::AllowAll, None)),
            status @ (429 | 500..=599) => Err(Failure {
                detail: format!("status {status}"),
                told: told_by(response, house),
                // Where it led elsewhere, it is not this host that complains.
                rate_limited: status == 429 && response.redirects.is_empty(),
                busy: false,
            }),
            // Every other answer means that there is no such file.
            _ => Ok((Verdict::AllowAll, None)),
        },
    }
}

/// The file as far as it is read, and a little more to tell that there is more. A small answer that
/// unfolds to a large one is not unfolded any further.
fn start_of(response: &Response) -> Result<Cow<'_, [u8]>, DecodeError> {
    let coding = response.exchange.headers.list("content-encoding");
    decode::start_of(&response.exchange.body, coding.as_deref(), LIMIT + 1)
}

/// As much of a file as is read. Half a line may rule the opposite of the whole.
fn whole_lines(body: &[u8]) -> &[u8] {
    let Some(read) = body.get(..LIMIT).filter(|_| body.len() > LIMIT) else { return body };
    let end = read.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(0);
    read.get(..end).unwrap_or_default()
}

/// The file as text. Bytes that are none are escaped, as in the addresses that rules are compared
/// with.
fn text(body: &[u8]) -> String {
    let mut text = String::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
    }
    text
}

pub(super) fn decide(lease: &Lease, read: Read, known: &Known, at: Ts, house: &House) -> Outcome {
    match read.result {
        Ok(said) => {
            let reason = match &said.0 {
                Verdict::Rules(_) => "robots.txt read",
                Verdict::AllowAll => "no robots.txt: everything is allowed",
            };
            let fact = fact(read.origin, said, known.robots.as_ref(), at, house);
            let next = Next::Again { at: fact.state.expires_at };
            let mut outcome = Outcome::new(Code::Ok, next, reason);
            outcome.robots = Some(fact);
            outcome
        }
        Err(failure) => unreachable(lease, read.origin, &failure, known, at, house),
    }
}

/// What follows when there is no robots.txt to be had for the `attempts`th time in a row.
fn missed(
    origin: String,
    failure: &Failure,
    kept: Option<&RobotsState>,
    (task, attempts): (TaskId, u32),
    at: Ts,
    house: &House,
) -> Missed {
    let code = Code::RobotsUnreachable;
    let plan = house.policy.after_failures(task, at, code, attempts, failure.told);
    let mut until = plan.map_or_else(|| at.after(house.robots_ttl), |plan| plan.at);
    if failure.busy {
        until = until.min(at.after(BUSY));
    }
    let Some(copy) = kept.filter(|copy| at < last_use(copy, house)) else {
        let advice = match (failure.rate_limited, failure.told) {
            (true, _) => HostAdvice::SlowDown { until: Some(until) },
            (false, Some(_)) => HostAdvice::Pause { until },
            // It says nothing about other ports of the host.
            (false, None) => HostAdvice::Neutral,
        };
        return Missed { until, copy: None, advice };
    };
    let mut fact = unchanged(origin, Some(copy), house);
    fact.state.expires_at = until.min(last_use(copy, house));
    let advice = match failure.rate_limited {
        true => HostAdvice::SlowDown { until: failure.told },
        false => HostAdvice::Neutral,
    };
    Missed { until, copy: Some(fact), advice }
}

fn unreachable(
    lease: &Lease,
    origin: String,
    failure: &Failure,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    let attempts = u32::from(lease.task.retry_count) + 1;
    let kept = known.robots.as_ref();
    let Missed { until, copy, advice } =
        missed(origin, failure, kept, (lease.task.id, attempts), at, house);
    let then = match &copy {
        Some(copy) => format!("the copy of {} serves until {until}", copy.state.fetched_at),
        None => format!("it is requested again at {until}"),
    };
    let code = Code::RobotsUnreachable;
    let reason = format!("{}: {then}", failure.detail);
    let mut outcome = Outcome::new(code, Next::Retry { at: until, code }, reason);
    outcome.robots = copy;
    outcome.host = advice;
    outcome
}

fn crawl_delay(copy: &RobotsState, house: &House) -> Option<i64> {
    let delay = robots_rules(&copy.verdict).crawl_delay(&house.robots_agent)?;
    i64::try_from(delay.as_millis()).ok()
}
