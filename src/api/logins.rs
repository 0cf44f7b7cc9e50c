//! Logins that were refused: counted, logged with the address, written to the audit log, and slowed down.
//!
//! An address that keeps sending wrong tokens has to wait longer and longer. A valid token is let in from
//! there all the same: behind a proxy everybody has the same address, and a stranger must not lock out those
//! who belong there.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::Api;
use super::guard::{Peer, bearer};
use super::limits::network;
use super::problem::Problem;
use crate::store::gate::{self, AuditRow};

/// Wrong tokens from one address before it has to wait.
const FREE_FAILURES: u32 = 10;
/// The longest wait.
const MAX_DELAY: Duration = Duration::from_secs(300);
/// An address is forgotten after so long without a failure.
const FORGET_AFTER: Duration = Duration::from_secs(900);
/// Addresses that are remembered at the most.
const MAX_ADDRESSES: usize = 10_000;
/// Lines of the log and rows of the audit log that may come at once, and the time until the next one.
const NOTES_AT_ONCE: f64 = 20.0;
const NOTE_INTERVAL: Duration = Duration::from_secs(10);

/// How long an address has to wait after so many failures.
fn delay(failures: u32) -> Option<Duration> {
    let beyond = failures.checked_sub(FREE_FAILURES)?;
    Some(Duration::from_secs(1 << beyond.min(9)).min(MAX_DELAY))
}

/// Whether a failure is told: the first, the tenth, the hundredth of an address.
const fn is_told(failures: u32) -> bool {
    matches!(failures, 1 | 10 | 100 | 1_000 | 10_000 | 100_000 | 1_000_000)
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    fn is_forgotten(&self, now: Instant) -> bool {
        now.duration_since(self.last) >= FORGET_AFTER
    }
}

/// Where a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Caller {
    Address(IpAddr),
    /// The Unix socket, which has no addresses.
    UnixSocket,
}

impl Caller {
    fn of(request: &Request) -> Self {
        let peer = request.extensions().get::<Peer>();
        peer.map_or(Self::UnixSocket, |Peer(peer)| Self::Address(network(peer.ip())))
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::UnixSocket => f.write_str("unix socket"),
        }
    }
}

/// What is known of failed and accepted logins.
#[derive(Debug, Default)]
pub(super) struct Logins {
    failures: Mutex<HashMap<Caller, Failures>>,
    /// What may be told at once, and since when.
    notes: Mutex<Option<(f64, Instant)>>,
}

impl Logins {
    /// How many seconds this address has to wait before it may send another wrong token.
    fn wait(&self, address: Caller, now: Instant) -> Option<u64> {
        let failures =
            *self.failures.lock().unwrap_or_else(PoisonError::into_inner).get(&address)?;
        let until = failures.last + delay(failures.count)?;
        let left = until.checked_duration_since(now).filter(|left| !left.is_zero())?;
        Some(left.as_secs_f64().ceil() as u64)
    }

    /// Counts a failure; how many the address has.
    fn fail(&self, address: Caller, now: Instant) -> u32 {
        let mut all = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_ADDRESSES && !all.contains_key(&address) {
            all.retain(|_, it| !it.is_forgotten(now));
            // Of many addresses at once, the ones with few failures go first.
            for most in [1, 4, 16, u32::MAX] {
                if all.len() >= MAX_ADDRESSES {
                    all.retain(|_, it| it.count > most);
                }
            }
        }
        let own = all.entry(address).or_insert(Failures { count: 0, last: now });
        if own.is_forgotten(now) {
            own.count = 0;
        }
        *own = Failures { count: own.count.saturating_add(1), last: now };
        own.count
    }

    /// Whether a refusal may be told now.
    pub(super) fn may_note(&self, now: Instant) -> bool {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, since) = notes.unwrap_or((NOTES_AT_ONCE, now));
        let grown = now.duration_since(since).as_secs_f64() / NOTE_INTERVAL.as_secs_f64();
        let left = NOTES_AT_ONCE.min(left + grown);
        *notes = Some((if left >= 1.0 { left - 1.0 } else { left }, now));
        left >= 1.0
    }
}

fn count(api: &Api, reason: &'static str) {
    api.progress.metrics.api_refused_logins.get_or_create(&[("reason", reason)]).inc();
}

/// Refuses a request with a wrong token whose address has to wait before it sends another one.
pub(super) fn check(api: &Api, request: &Request) -> Result<(), Problem> {
    let caller = Caller::of(request);
    let may_wait = caller != Caller::UnixSocket && bearer(request.headers()).is_some();
    let wait = if may_wait { api.logins.wait(caller, Instant::now()) } else { None };
    let Some(seconds) = wait else { return Ok(()) };
    count(api, "throttled");
    let detail = format!("too many wrong tokens from this address: try again in {seconds} s");
    let status = StatusCode::TOO_MANY_REQUESTS;
    Err(Problem::new(status, "too_many_failures", detail).retry_after(seconds))
}

/// Counts and logs that a login was refused; what of it belongs into the audit log.
pub(super) fn refused(api: &Api, request: &Request, problem: &Problem) -> Option<AuditRow> {
    let status = problem.status();
    if status != StatusCode::UNAUTHORIZED.as_u16() {
        return None;
    }
    if request.headers().get(header::AUTHORIZATION).is_none() {
        // A browser that has not logged in yet.
        count(api, "no_token");
        return None;
    }
    count(api, "unknown_token");
    let address = Caller::of(request);
    let now = Instant::now();
    let failures = api.logins.fail(address, now);
    if !is_told(failures) || !api.logins.may_note(now) {
        return None;
    }
    let who = format!("refused login from {address} ({failures} in a row)");
    let (method, path) = (request.method(), request.uri().path());
    let row = AuditRow::new(api.clock.now(), who, method, path, status);
    tracing::warn!(%address, failures, method = row.method, path = row.path, "refused login");
    Some(row)
}

/// Writes a refused login to the audit log, and answers.
pub(super) async fn answer(api: &Api, row: Option<AuditRow>, problem: Problem) -> Response {
    if let Some(row) = row
        && let Err(error) = gate::note(&*api.store, &row).await
    {
        tracing::warn!(%error, "cannot write refused login to audit log");
    }
    problem.into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Caller {
        Caller::Address(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn the_unix_socket_is_called_what_it_is() {
        let request = Request::default();
        assert_eq!(Caller::of(&request).to_string(), "unix socket");
        let mut request = Request::default();
        request.extensions_mut().insert(Peer(([192, 0, 2, 7], 4_711).into()));
        assert_eq!(Caller::of(&request), address(7));
        assert_eq!(Caller::of(&request).to_string(), "192.0.2.7");
    }

    #[test]
    fn whoever_keeps_guessing_waits_longer_and_longer() {
        let (logins, now) = (Logins::default(), Instant::now());
        for failures in 1..FREE_FAILURES {
            assert_eq!(logins.fail(address(1), now), failures);
            assert_eq!(logins.wait(address(1), now), None);
        }
        let waits = (0..12).map(|_| {
            logins.fail(address(1), now);
            logins.wait(address(1), now).unwrap()
        });
        assert_eq!(waits.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(logins.wait(address(2), now), None, "another address is not slowed");
        assert_eq!(logins.wait(address(1), now + MAX_DELAY), None);
        assert_eq!(logins.fail(address(1), now + FORGET_AFTER), 1, "forgotten after a while");
    }

    #[test]
    fn the_table_is_bounded() {
        let (logins, now) = (Logins::default(), Instant::now());
        for n in 0..20_u32 {
            logins.fail(address(1), now + Duration::from_millis(n.into()));
        }
        for n in 0..25_000_u32 {
            logins.fail(Caller::Address(IpAddr::from(n.to_be_bytes())), now);
        }
        assert!(logins.failures.lock().unwrap().len() <= MAX_ADDRESSES);
        assert!(logins.wait(address(1), now).is_some(), "the worst is still known");
    }

    #[test]
    fn few_of_many_are_told() {
        let (logins, now) = (Logins::default(), Instant::now());
        let told = (0..1_000).filter(|_| logins.may_note(now)).count();
        assert_eq!(told, 20);
        assert!(logins.may_note(now + NOTE_INTERVAL));
        assert_eq!((1..=1_000).filter(|n| is_told(*n)).count(), 4);
    }
}
