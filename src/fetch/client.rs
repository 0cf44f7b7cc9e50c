//! One request, one answer, under caps: no cookies, no referer, no redirects, no retries.
//!
//! The body arrives as served, still in its content coding; decoding is the handlers' business.

use std::error::Error as _;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::{FetchError, Guard, Refusal};
use crate::clock::Clock;
use crate::model::{Exchange, Headers, Kind, Truncation, Validators, new_uuid};
use crate::schedule::human;

/// Header lines that an answer may have at the most.
const MAX_HEADERS: usize = 256;

/// How to ask.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Who we say we are.
    pub agent: String,
    /// From the first byte sent to the last received.
    pub request_timeout: Duration,
    /// Bytes of body on the wire.
    pub max_body: usize,
    /// The same, for sitemaps.
    pub max_sitemap: usize,
}

/// The one HTTP client of the house.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    settings: ClientSettings,
    clock: Clock,
}

impl Client {
    /// A client behind this guard.
    pub fn new(settings: ClientSettings, guard: Guard, clock: Clock) -> Result<Self, FetchError> {
        #[expect(clippy::disallowed_methods, reason = "this is fetch::Client")]
        let http = reqwest::Client::builder()
            .dns_resolver(guard)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            // A proxy from the environment would resolve names itself, past the guard.
            .no_proxy()
            .connect_timeout(settings.request_timeout)
            .pool_max_idle_per_host(2)
            .pool_idle_timeout(Duration::from_secs(30))
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(64 * 1024)
            .build()
            .map_err(|error| FetchError::BadRequest(chain(&error)))?;
        Ok(Self { http, settings, clock })
    }

    /// Asks once, within the request's limit and what is left of the task's.
    pub async fn get(
        &self,
        url: &Url,
        kind: Kind,
        validators: &Validators,
        left: Duration,
    ) -> Result<Exchange, FetchError> {
        let headers = self.headers(kind, validators);
        let limit =
            if kind == Kind::Sitemap { self.settings.max_sitemap } else { self.settings.max_body };
        let began = self.clock.now();
        let clock = Instant::now();
        let deadline = tokio::time::Instant::now() + self.settings.request_timeout.min(left);
        let request = self.http.get(url.clone()).headers(to_map(&headers)?);
        let answer = tokio::time::timeout_at(deadline, request.send())
            .await
            .map_err(|_| self.timed_out())?
            .map_err(|error| self.explain(&error))?;
        let status = answer.status();
        let reason = answer
            .extensions()
            .get::<hyper::ext::ReasonPhrase>()
            .map(|phrase| String::from_utf8_lossy(phrase.as_bytes()).into_owned())
            .or_else(|| status.canonical_reason().map(str::to_owned))
            .unwrap_or_default();
        let received = from_map(answer.headers());
        let remote = answer.remote_addr().map(|addr| addr.ip());
        let (body, truncated) = read_body(answer, limit, deadline).await;
        Ok(Exchange {
            id: new_uuid(began),
            url: url.to_string(),
            request: headers_with_host(url, headers),
            status: status.as_u16(),
            reason,
            headers: received,
            body,
            truncated,
            remote,
            began,
            ended: self.clock.now(),
            elapsed: clock.elapsed(),
        })
    }

    fn timed_out(&self) -> FetchError {
        FetchError::Timeout(human(self.settings.request_timeout))
    }

    fn headers(&self, kind: Kind, validators: &Validators) -> Headers {
        let accept = match kind {
            Kind::Feed | Kind::Archive => {
                "application/rss+xml, application/atom+xml, application/feed+json, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5"
            }
            Kind::Sitemap => "application/xml, text/xml;q=0.9, */*;q=0.5",
            Kind::Robots => "text/plain, */*;q=0.5",
            Kind::Enclosure => "*/*",
            Kind::Probe | Kind::Listing | Kind::Article => {
                "text/html, application/xhtml+xml;q=0.9, */*;q=0.5"
            }
        };
        let mut lines = vec![
            ("user-agent".to_owned(), self.settings.agent.clone()),
            ("accept".to_owned(), accept.to_owned()),
            ("accept-encoding".to_owned(), "gzip, br, zstd, deflate".to_owned()),
        ];
        if let Some(etag) = &validators.etag {
            lines.push(("if-none-match".to_owned(), etag.clone()));
        }
        if let Some(date) = &validators.last_modified {
            lines.push(("if-modified-since".to_owned(), date.clone()));
        }
        Headers(lines)
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
                _ => cause = inner.source(),
            }
        }
        if error.is_timeout() { self.timed_out() } else { FetchError::Network(chain(error)) }
    }
}

/// The body up to the limit; whatever ends it early is said, not lost.
async fn read_body(
    mut answer: reqwest::Response,
    limit: usize,
    deadline: tokio::time::Instant,
) -> (bytes::Bytes, Option<Truncation>) {
    let mut body = BytesMut::new();
    let truncated = loop {
        match tokio::time::timeout_at(deadline, answer.chunk()).await {
            Err(_) => break Some(Truncation::Time),
            Ok(Err(_)) => break Some(Truncation::Disconnect),
            Ok(Ok(None)) => break None,
            Ok(Ok(Some(chunk))) => {
                let room = limit - body.len();
                body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
                if chunk.len() > room {
                    break Some(Truncation::Length);
                }
            }
        }
    };
    (body.freeze(), truncated)
}

fn to_map(headers: &Headers) -> Result<HeaderMap, FetchError> {
    let bad = |error: String| FetchError::BadRequest(error);
    let mut map = HeaderMap::with_capacity(headers.0.len());
    for (name, value) in &headers.0 {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|e| bad(e.to_string()))?;
        let value = HeaderValue::from_bytes(&Headers::bytes(value)).map_err(|e| bad(e.to_string()))?;
        map.append(name, value);
    }
    Ok(map)
}

fn from_map(map: &HeaderMap) -> Headers {
    let mut headers = Headers::default();
    for (name, value) in map {
        headers.push(name.as_str(), value.as_bytes());
    }
    headers
}

/// The HTTP library adds `Host` by itself; the record shows it.
fn headers_with_host(url: &Url, mut headers: Headers) -> Headers {
    let host = url.host_str().unwrap_or_default();
    let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    headers.0.insert(0, ("host".to_owned(), host));
    headers
}

/// An error with all its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
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
