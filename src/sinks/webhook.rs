//! Posts each event to an address, signed as the Standard Webhooks specification says.
//!
//! The id of a message is the event's place in the log, so whoever gets one twice can tell. Whatever
//! the address leads to is asked only when the guard allows it, and redirects are not followed.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use feedmill_formats::{date, feed};
use futures_util::future::join_all;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::value::RawValue;
use sha2::Sha256;

use super::{Item, Sink, SinkError, Taken, lanes};
use crate::clock::Clock;
use crate::model::Ts;
use crate::store::outbox::Refusal;

/// Signs of an answer that are shown, to tell why it says no.
const WORDS: usize = 300;
/// Bytes of an answer that are read at the most: its connection is used again then.
const READ: usize = 16 * 1024;
/// The start of secrets as the specification writes them.
const PREFIX: &str = "whsec_";

/// Where to post, and how.
pub struct Settings {
    /// The address.
    pub url: url::Url,
    /// Signs messages; empty leaves them unsigned.
    pub key: Vec<u8>,
    /// A line that goes along, such as `authorization` and its value.
    pub headers: reqwest::header::HeaderMap,
    /// Requests at a time.
    pub parallel: usize,
    /// How long one may take.
    pub timeout: Duration,
    /// Goes through the guard, and follows nothing.
    pub client: reqwest::Client,
    /// Why the guard will not have the address.
    pub refused: Option<String>,
    /// Tells the time of a message.
    pub clock: Clock,
}

/// Posts events to an address.
pub struct Webhook {
    settings: Settings,
    /// Events that arrived though their batch as a whole did not.
    arrived: Mutex<HashSet<i64>>,
}

/// The body of a message.
#[derive(serde::Serialize)]
struct Message<'a> {
    r#type: &'a str,
    timestamp: Ts,
    data: &'a RawValue,
}

impl Webhook {
    /// A sink that posts there.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, arrived: Mutex::default() }
    }

    fn away(&self, reason: String) -> SinkError {
        let url = &self.settings.url;
        SinkError::Away { target: feedmill_formats::url::origin(url), reason, after: None }
    }

    /// Posts what is about the same things, in order. Refusals go to the caller; the first failure
    /// ends it.
    async fn post_all(&self, lane: &[&Item]) -> (Vec<Refusal>, Result<(), SinkError>) {
        let mut refused = Vec::new();
        for item in lane {
            let seq = item.event.seq;
            if self.lock().contains(&seq) {
                continue;
            }
            match self.post(item).await {
                Ok(None) => {}
                Ok(Some(refusal)) => refused.push(refusal),
                Err(error) => return (refused, Err(error)),
            }
            self.lock().insert(seq);
        }
        (refused, Ok(()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<i64>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn post(&self, item: &Item) -> Result<Option<Refusal>, SinkError> {
        let mut data = Vec::new();
        item.write(&mut data)?;
        let data = RawValue::from_string(String::from_utf8_lossy(&data).into_owned())?;
        let kind = item.event.kind.as_str();
        let message = Message { r#type: kind, timestamp: item.event.at, data: &data };
        let body = serde_json::to_vec(&message)?;
        let id = format!("feedmill-{}", item.event.seq);
        let answer = self.send(&id, body).await?;
        let status = answer.status();
        let after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let after = after.and_then(|value| wait(value, self.settings.clock.now()));
        let words = words(answer).await;
        if status.is_success() {
            return Ok(None);
        }
        // What one event alone is to blame for; whatever else is wrong would be wrong for all.
        if matches!(status.as_u16(), 400 | 409 | 413 | 422 | 451) {
            let reason = format!("{status}{words}");
            return Ok(Some(Refusal { seq: item.event.seq, code: "webhook_refused", reason }));
        }
        let url = &self.settings.url;
        let target = feedmill_formats::url::origin(url);
        let hint = match status.as_u16() {
            300..=399 => "; redirects are not followed: give the address that they lead to",
            401 | 403 => "; see the sink's secret and headers",
            404 | 410 => "; there is nobody at this address any more",
            405 | 415 => "; it takes no webhooks: see the sink's url",
            _ => "",
        };
        Err(SinkError::Away { target, reason: format!("answers {status}{words}{hint}"), after })
    }

    async fn send(&self, id: &str, body: Vec<u8>) -> Result<reqwest::Response, SinkError> {
        let settings = &self.settings;
        if let Some(reason) = &settings.refused {
            return Err(self.away(reason.clone()));
        }
        let time = (settings.clock.now().ms() / 1000).to_string();
        let mut request = settings
            .client
            .post(settings.url.clone())
            .headers(settings.headers.clone())
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", &time)
            .timeout(settings.timeout);
        if !settings.key.is_empty() {
            request = request.header("webhook-signature", sign(&settings.key, id, &time, &body));
        }
        request.body(body).send().await.map_err(|error| self.away(chain(&error)))
    }
}

#[async_trait]
impl Sink for Webhook {
    async fn deliver(&mut self, batch: &[Item]) -> Result<Taken, SinkError> {
        if let Some(first) = batch.first().map(|item| item.event.seq) {
            self.lock().retain(|seq| *seq >= first);
        }
        let lanes = lanes(batch, self.settings.parallel);
        let posted = join_all(lanes.iter().map(|lane| self.post_all(lane))).await;
        let mut refused = Vec::new();
        let mut failed = None;
        for (some, ended) in posted {
            refused.extend(some);
            failed = failed.or(ended.err());
        }
        match failed {
            // Refusals of a batch that comes again are told then.
            Some(error) => {
                let told: HashSet<i64> = refused.iter().map(|refusal| refusal.seq).collect();
                self.lock().retain(|seq| !told.contains(seq));
                Err(error)
            }
            None => {
                // One of these that comes again from here on was asked for.
                let done: HashSet<i64> = batch.iter().map(|item| item.event.seq).collect();
                self.lock().retain(|seq| !done.contains(seq));
                Ok(Taken { refused, ..Taken::default() })
            }
        }
    }

    async fn check(&mut self) -> Result<String, SinkError> {
        let body = serde_json::to_vec(&serde_json::json!({"type": "test", "data": {}}))?;
        let answer = self.send("feedmill-test", body).await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(format!("{} answers {status}", self.settings.url));
        }
        let words = words(answer).await;
        Err(self.away(format!("answers {status}{words}")))
    }
}

/// The key in a secret: base64 behind its prefix, or the plain text of another one.
#[must_use]
pub fn key(secret: &str) -> Vec<u8> {
    let coded = secret.strip_prefix(PREFIX).and_then(|coded| STANDARD.decode(coded).ok());
    coded.unwrap_or_else(|| secret.as_bytes().to_vec())
}

/// The signature of a message.
fn sign(key: &[u8], id: &str, time: &str, body: &[u8]) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return String::new() };
    mac.update(id.as_bytes());
    mac.update(b".");
    mac.update(time.as_bytes());
    mac.update(b".");
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// How long a target wants to be left alone: seconds, or until a date.
fn wait(value: &str, now: Ts) -> Option<Duration> {
    let seconds = value.trim().parse().ok().map(Duration::from_secs);
    seconds.or_else(|| Some(date::parse(value)?.since(now)))
}

/// The start of what an answer says, for people.
async fn words(mut answer: reqwest::Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < READ
        && let Ok(Some(piece)) = answer.chunk().await
    {
        bytes.extend_from_slice(&piece);
    }
    let text = String::from_utf8_lossy(&bytes);
    // Many answer with a page.
    let is_page = text.trim_start().starts_with('<');
    let text = if is_page { feed::plain(&text).into() } else { text };
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = text.chars().take(WORDS).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}

/// An error with what caused it, and without the address.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut told: Vec<String> = Vec::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let text = error.to_string();
        let text = text.split(" for url").next().unwrap_or_default();
        if !told.iter().any(|known| known.contains(text)) {
            told.push(text.to_owned());
        }
        cause = error.source();
    }
    told.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_specification() {
        // The example in the specification's own documentation.
        let key = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let body = br#"{"test": 2432232314}"#;
        let signed = sign(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        let now = Ts::from_ms(1_445_412_420_000);
        for (value, expected) in [
            (" 120 ", Some(120)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(60)),
            ("Wed, 21 Oct 2015 07:00:00 GMT", Some(0)),
            ("soon", None),
        ] {
            assert_eq!(wait(value, now), expected.map(Duration::from_secs), "{value}");
        }
    }

    #[test]
    fn a_secret_without_the_prefix_is_itself() {
        assert_eq!(super::key("plain"), b"plain");
        assert_eq!(super::key("whsec_YWJj"), b"abc");
    }
}
