//! One request, one answer, under caps: no cookies, no referer, no redirects, no retries.
//!
//! The body arrives as served, still in its content coding; decoding is the handlers' business.
//! No request leaves past the guard.

use std::collections::HashMap;
use std::error::Error as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use url::Url;

use super::request::{Lines, lines};
use super::ways::{MAX_HEAD, Way, Ways};
use super::{FetchError, Guard, Handover, Refusal};
use crate::clock::Clock;
use crate::config::SecretUrl;
use crate::model::{Exchange, Headers, Kind, Lane, Source, Truncation, Validators, new_uuid};
use crate::schedule::human;

/// Room that is made for a body before its first byte is here, at the most.
const FIRST_ROOM: usize = 256 * 1024;

/// Bodies that grow beyond this take room for all that they may become.
const LARGE_BODY: usize = 2 << 20;
/// Room for large bodies that are under way or not yet committed, all together.
const ROOM: usize = 64 << 20;
/// Room is given out in pieces of so many bytes.
const PIECE: usize = 64 << 10;

/// How to ask.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Who we say we are.
    pub agent: String,
    /// From the first byte sent to the last received.
    pub request_timeout: Duration,
    /// Until there is a connection.
    pub connect_timeout: Duration,
    /// The longest silence.
    pub read_timeout: Duration,
    /// Bytes of body on the wire.
    pub max_body: usize,
    /// The same, for sitemaps.
    pub max_sitemap: usize,
    /// Where all requests go through; empty for none.
    pub proxy: SecretUrl,
    /// Addresses to connect from.
    pub bind: Vec<IpAddr>,
}

/// The one HTTP client of the house.
#[derive(Clone, Debug)]
pub struct Client {
    ways: Ways,
    guard: Guard,
    settings: ClientSettings,
    clock: Clock,
    /// Answers that were had already, each good for one request.
    in_hand: Arc<Mutex<HashMap<String, Exchange>>>,
    /// Where others lay out such answers.
    handover: Option<Handover>,
    /// Room for large bodies: a few hostile servers must not take all memory.
    room: Arc<Semaphore>,
}

/// A large body with the room that it takes.
struct LargeBody {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for LargeBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Client {
    /// A client behind this guard.
    pub fn new(settings: ClientSettings, guard: Guard, clock: Clock) -> Result<Self, FetchError> {
        let ways = Ways::new(guard.clone(), settings.connect_timeout);
        let room = Arc::new(Semaphore::new(ROOM / PIECE));
        Ok(Self { ways, guard, settings, clock, in_hand: Arc::default(), handover: None, room })
    }

    /// The same client, with answers in hand that nobody has to be asked for again.
    #[must_use]
    pub fn with_answers(self, answers: Vec<Exchange>) -> Self {
        let by_address = answers.into_iter().map(|answer| (answer.url.clone(), answer));
        Self { in_hand: Arc::new(Mutex::new(by_address.collect())), ..self }
    }

    /// The same client, with answers that another process may have laid out for it.
    #[must_use]
    pub fn with_handover(self, handover: Handover) -> Self {
        Self { handover: Some(handover), ..self }
    }

    fn answer_in_hand(&self, url: &Url, kind: Kind) -> Option<Exchange> {
        let own = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner).remove(url.as_str());
        // Only channels are looked at before they are followed.
        let handover = self.handover.as_ref().filter(|_| kind.lane() == Lane::Poll);
        own.or_else(|| handover?.take(url.as_str(), &self.clock))
    }

    /// Asks once, within the request's limit and what is left of the task's. A source's own headers
    /// and credentials go along where they belong.
    pub async fn get(
        &self,
        url: &Url,
        kind: Kind,
        validators: &Validators,
        source: Option<&Source>,
        left: Duration,
    ) -> Result<Exchange, FetchError> {
        self.guard.check_url(url)?;
        if let Some(answer) = self.answer_in_hand(url, kind) {
            return Ok(answer);
        }
        let settings = &self.settings;
        let way = Way::of(url, &settings.proxy, &settings.bind, source);
        let (is_direct, name) = (way.proxy.is_none(), way.name_to_check(url));
        let http = self.ways.pool(way.clone())?;
        if let Some(name) = name {
            self.guard.addresses(&name).await?;
        }
        let Lines { sent, recorded } = lines(url, kind, validators, &settings.agent, source)?;
        let (began, since) = (self.clock.now(), Instant::now());
        let limit = settings.request_timeout.min(left);
        let deadline = since + limit;
        let head_limit = limit.min(settings.connect_timeout + settings.read_timeout);
        let answer = tokio::time::timeout(head_limit, http.get(url.clone()).headers(sent).send())
            .await
            .map_err(|_| timed_out("answer", head_limit))?
            .map_err(|error| self.explain(&error))?;
        let status = answer.status();
        let reason = answer
            .extensions()
            .get::<hyper::ext::ReasonPhrase>()
            .map(|phrase| String::from_utf8_lossy(phrase.as_bytes()).into_owned())
            .or_else(|| status.canonical_reason().map(str::to_owned))
            .unwrap_or_default();
        let headers = received(answer.headers())?;
        let remote = answer.remote_addr().map(|addr| addr.ip()).filter(|_| is_direct);
        let cap = if kind == Kind::Sitemap { settings.max_sitemap } else { settings.max_body };
        let (body, truncated) =
            read_body(answer, cap, settings.read_timeout, deadline, &self.room).await;
        self.ways.note_body(&way, url, body.len());
        Ok(Exchange {
            id: new_uuid(began),
            url: url.to_string(),
            request: recorded,
            status: status.as_u16(),
            reason,
            headers,
            body,
            truncated,
            remote,
            began,
            ended: self.clock.now(),
            elapsed: since.elapsed(),
        })
    }

    /// Our own failures travel through the HTTP library's chain of causes.
    fn explain(&self, error: &reqwest::Error) -> FetchError {
        let mut cause = error.source();
        while let Some(inner) = cause {
            match inner.downcast_ref::<FetchError>() {
                Some(FetchError::Guarded(refusal)) => {
                    return FetchError::Guarded(Refusal::clone(refusal));
                }
                Some(FetchError::Dns { host, message }) => {
                    return FetchError::Dns { host: host.clone(), message: message.clone() };
                }
                _ => {}
            }
            cause = inner.source();
        }
        if error.is_timeout() {
            timed_out("connection", self.settings.connect_timeout)
        } else {
            FetchError::Network(chain(error))
        }
    }
}

fn timed_out(what: &'static str, limit: Duration) -> FetchError {
    FetchError::Timeout { what, limit: human(limit) }
}

/// The body up to the cap; whatever ends it early is said, not lost.
async fn read_body(
    mut answer: reqwest::Response,
    cap: usize,
    silence: Duration,
    deadline: Instant,
    room: &Arc<Semaphore>,
) -> (Bytes, Option<Truncation>) {
    let told = answer.content_length().and_then(|length| usize::try_from(length).ok());
    let mut body = BytesMut::with_capacity(told.unwrap_or_default().min(cap).min(FIRST_ROOM));
    let mut taken = None;
    let truncated = loop {
        if body.len() > LARGE_BODY && taken.is_none() {
            let pieces = cap.div_ceil(PIECE).min(ROOM / PIECE);
            let wanted = Arc::clone(room).acquire_many_owned(u32::try_from(pieces).unwrap_or(1));
            match tokio::time::timeout_at(deadline, wanted).await {
                // Nobody closes it.
                Ok(given) => taken = given.ok(),
                Err(_) => break Some(Truncation::Time),
            }
            // In one step: each doubling would hold two copies for a moment.
            body.reserve(told.unwrap_or_default().min(cap).saturating_sub(body.len()));
        }
        let until = deadline.min(Instant::now() + silence);
        match tokio::time::timeout_at(until, answer.chunk()).await {
            Err(_) => break Some(Truncation::Time),
            Ok(Err(_)) => break Some(Truncation::Disconnect),
            Ok(Ok(None)) => break None,
            Ok(Ok(Some(chunk))) => {
                let room = cap - body.len();
                body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
                if chunk.len() > room {
                    break Some(Truncation::Length);
                }
            }
        }
    };
    let bytes = body.freeze();
    let body = match taken {
        Some(room) => Bytes::from_owner(LargeBody { bytes, _room: room }),
        None => bytes,
    };
    (body, truncated)
}

/// The lines of an answer as they came. HTTP/2 keeps its heads small by itself; here are the others.
fn received(map: &HeaderMap) -> Result<Headers, FetchError> {
    let size: usize = map.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if size > MAX_HEAD as usize {
        return Err(FetchError::Head);
    }
    let mut headers = Headers::default();
    for (name, value) in map {
        headers.push(name.as_str(), value.as_bytes());
    }
    Ok(headers)
}

/// An error with all its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}
