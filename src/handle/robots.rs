//! robots.txt: what an origin allows (RFC 9309).
//!
//! A missing file allows everything; one that cannot be had makes the host wait, and kills no task.

use std::time::Duration;

use feedmill_formats::robots::Robots;
use feedmill_formats::url as web;

use super::{House, Reply, inflate, verdict};
use crate::model::{
    Code, HostAdvice, Known, Lease, Next, Outcome, RobotsFact, RobotsState, Task, Truncation, Ts,
    Verdict,
};

/// How long an expired copy may still serve while the file cannot be had.
const STALE: Duration = Duration::from_hours(24);
/// More of the file is not read.
const LIMIT: usize = 500 * 1024;

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
}

pub(super) fn read(task: &Task, reply: &Reply, house: &House) -> Read {
    let origin = web::parse(&task.url).map(|url| web::origin(&url)).unwrap_or_default();
    Read { origin, result: said(reply, house) }
}

/// The copy to keep of an origin that was asked on the way to a page, or why there is none, with the
/// time at which to ask again when the server named one.
pub fn robots_of(
    origin: String,
    reply: &Reply,
    kept: Option<&RobotsState>,
    at: Ts,
    house: &House,
) -> Result<RobotsFact, (String, Option<Ts>)> {
    match said(reply, house) {
        Ok(said) => Ok(fact(origin, said, kept, at, house)),
        Err(failure) => match kept.filter(|copy| at < last_use(copy, house)) {
            Some(copy) => Ok(RobotsFact {
                origin,
                state: copy.clone(),
                crawl_delay_ms: crawl_delay(copy, house),
                rechecked_as: None,
            }),
            None => Err((format!("robots.txt: {}", failure.detail), failure.told)),
        },
    }
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
        state: RobotsState { verdict, fetched_at: at, expires_at: at.after(house.robots_ttl) },
    }
}

/// Until when a copy may serve. An expiry that was put off must not count, or it would serve for
/// ever.
fn last_use(copy: &RobotsState, house: &House) -> Ts {
    copy.fetched_at.after(house.robots_ttl + STALE)
}

fn said(reply: &Reply, house: &House) -> Result<(Verdict, Option<Duration>), Failure> {
    let failure = |detail: String| Failure { detail, told: None, rate_limited: false };
    match reply {
        // The guard lets nobody through to this host, and says so for each page by itself.
        Reply::Refused { .. } | Reply::Failed { code: Code::Guarded, .. } => {
            Ok((Verdict::AllowAll, None))
        }
        Reply::Failed { detail, not_before, .. } => {
            Err(Failure { told: *not_before, ..failure(detail.clone()) })
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
            200..=299 => match inflate(response, house) {
                Ok(body) if verdict::walled(response, &body).is_some() => {
                    Err(failure("a bot wall answered for robots.txt".to_owned()))
                }
                Ok(body) => {
                    let body = body.get(..LIMIT).unwrap_or(&body);
                    let delay = Robots::parse(body).crawl_delay(&house.robots_agent);
                    Ok((Verdict::Rules(String::from_utf8_lossy(body).into_owned()), delay))
                }
                Err((_, detail)) => Err(failure(detail)),
            },
            status @ (429 | 500..=599) => Err(Failure {
                detail: format!("status {status}"),
                told: verdict::retry_after(&response.exchange.headers, response.exchange.ended),
                rate_limited: status == 429,
            }),
            // Every other answer means that there is no such file.
            _ => Ok((Verdict::AllowAll, None)),
        },
    }
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

fn unreachable(
    lease: &Lease,
    origin: String,
    failure: &Failure,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    let code = Code::RobotsUnreachable;
    let attempts = u32::from(lease.task.retry_count) + 1;
    let plan = house.policy.after_failures(lease.task.id, at, code, attempts, failure.told);
    let until = plan.map_or_else(|| at.after(house.robots_ttl), |plan| plan.at);
    let detail = &failure.detail;
    let slower = |until| {
        if failure.rate_limited { HostAdvice::SlowDown { until } } else { HostAdvice::Neutral }
    };
    if let Some(copy) = known.robots.as_ref().filter(|copy| at < last_use(copy, house)) {
        let mut outcome = Outcome::new(
            code,
            Next::Retry { at: until, code },
            format!("{detail}: the copy of {} serves until {until}", copy.fetched_at),
        );
        outcome.host = slower(failure.told);
        outcome.robots = Some(RobotsFact {
            origin,
            state: RobotsState { expires_at: until.min(last_use(copy, house)), ..copy.clone() },
            crawl_delay_ms: crawl_delay(copy, house),
            rechecked_as: None,
        });
        return outcome;
    }
    let mut outcome = Outcome::new(
        code,
        Next::Retry { at: until, code },
        format!("{detail}: the host waits until {until}"),
    );
    outcome.host = match slower(Some(until)) {
        HostAdvice::Neutral => HostAdvice::Wait { until },
        told => told,
    };
    outcome
}

fn crawl_delay(copy: &RobotsState, house: &House) -> Option<i64> {
    let delay = robots_rules(&copy.verdict).crawl_delay(&house.robots_agent)?;
    i64::try_from(delay.as_millis()).ok()
}
