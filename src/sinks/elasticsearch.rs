//! Articles in Elasticsearch (7 to 9) or OpenSearch (1 to 3): north-cloud's `raw_content` documents,
//! an index per source, or one index of our own.
//!
//! A document's id is that of its article. Requests hold so many bytes at the most; what the cluster
//! is too busy for is sent again, alone; what it will never have is refused. Nothing asks for a
//! refresh.

mod bulk;
mod mapping;
mod raw_content;

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use self::bulk::{Action, Line, Verdict};
use super::webhook::chain;
use super::{About, Bodies, Item, Redact, Sink, SinkError, Taken, fetches, lanes};
use crate::model::{ArticleRow, EventKind, FetchRecord};
use crate::store::outbox::Refusal;

/// How often what the cluster is too busy for is sent again at once.
const TRIES: u32 = 5;
/// The first wait before that; it doubles.
const FIRST: Duration = Duration::from_millis(200);
/// The indexes of all sources.
const ALL_RAW: &str = "*_raw_content";

/// Which documents are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// north-cloud's, an index per source.
    RawContent,
    /// Ours, in this index.
    Articles(String),
}

/// What happens to a document that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It stays as it is.
    Create,
    /// It becomes what the article is now.
    Update,
}

/// Where documents go, and how.
pub struct Settings {
    /// The cluster's address.
    pub url: url::Url,
    /// Names us to it: the value of the authorization header.
    pub authorization: Option<reqwest::header::HeaderValue>,
    /// Which documents.
    pub layout: Layout,
    /// What happens to those that are there.
    pub mode: Mode,
    /// Bytes of a request at the most.
    pub max_bytes: usize,
    /// Requests at a time.
    pub parallel: usize,
    /// Requests are compressed.
    pub gzip: bool,
    /// Of indexes that are made.
    pub shards: u32,
    /// Of indexes that are made.
    pub replicas: u32,
    /// How long a request may take.
    pub timeout: Duration,
    /// Sends them.
    pub client: reqwest::Client,
    /// What was served, for documents that hold it…
    pub bodies: Arc<dyn Bodies>,
    /// …but for this.
    pub redact: Redact,
}

/// Writes documents.
pub struct Elasticsearch {
    settings: Settings,
    /// Whether the template is known to be there.
    ready: bool,
}

impl Elasticsearch {
    /// A sink that writes there.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        Self { settings, ready: false }
    }

    fn away(&self, reason: impl std::fmt::Display) -> SinkError {
        let target = feedmill_formats::url::origin(&self.settings.url);
        SinkError::Away { target, reason: reason.to_string(), after: None }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<(StatusCode, Value), SinkError> {
        let settings = &self.settings;
        let base = settings.url.as_str().trim_end_matches('/');
        let mut request =
            settings.client.request(method, format!("{base}/{path}")).timeout(settings.timeout);
        if let Some(authorization) = &settings.authorization {
            request = request.header("authorization", authorization);
        }
        if let Some((media, body)) = body {
            request = request.header("content-type", media);
            request = match settings.gzip.then(|| gzip(&body)).transpose() {
                Ok(Some(packed)) => request.header("content-encoding", "gzip").body(packed),
                _ => request.body(body),
            };
        }
        let answer = request.send().await.map_err(|error| self.away(chain(&error)))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| self.away(chain(&error)))?;
        // A bulk response has an object for each document: not on the threads that talk to the network.
        let read = move || serde_json::from_str(&text).unwrap_or(Value::String(text));
        let value = tokio::task::spawn_blocking(read).await.map_err(|error| self.away(error))?;
        Ok((status, value))
    }

    /// Puts the template there once, so that indexes get their mapping when they are made.
    async fn prepare_cluster(&mut self) -> Result<(), SinkError> {
        if self.ready {
            return Ok(());
        }
        let Settings { layout, shards, replicas, .. } = &self.settings;
        let (name, pattern, mappings) = match layout {
            Layout::RawContent => ("raw-content", ALL_RAW, mapping::raw_content()),
            Layout::Articles(index) => (index.as_str(), index.as_str(), mapping::articles()),
        };
        let settings = json!({"number_of_shards": shards, "number_of_replicas": replicas});
        let template = json!({"index_patterns": [pattern], "priority": 200,
            "template": {"settings": settings, "mappings": mappings}});
        let body = serde_json::to_vec(&template)?;
        let path = format!("_index_template/feedmill-{name}");
        let put = self.send(Method::PUT, &path, Some(("application/json", body))).await?;
        let (status, answer) = match put.0.as_u16() {
            // Elasticsearch before 7.8 knows only the older form; it takes the newer for an index.
            status @ (400 | 404 | 405)
                if status == 405 || put.1.to_string().contains("no handler found") =>
            {
                let older = json!({"index_patterns": [pattern], "order": 200,
                    "settings": settings, "mappings": mappings});
                let body = serde_json::to_vec(&older)?;
                let path = format!("_template/feedmill-{name}");
                self.send(Method::PUT, &path, Some(("application/json", body))).await?
            }
            _ => put,
        };
        if !status.is_success() {
            let reason = bulk::reason(&answer);
            let hint = hint(status);
            return Err(
                self.away(format!("will not have the index template: {status}{reason}{hint}"))
            );
        }
        self.ready = true;
        Ok(())
    }

    /// The lines for a part of a batch.
    async fn lines(&self, lane: &[&Item]) -> Result<Vec<Line>, SinkError> {
        let served = match self.settings.layout {
            Layout::RawContent => self.settings.bodies.find(&fetches(lane.iter().copied())).await?,
            Layout::Articles(_) => HashMap::new(),
        };
        let mut lines = Vec::new();
        for item in lane {
            let seq = item.event.seq;
            match (&item.about, item.event.kind) {
                (About::Article(row, text), _) => {
                    let record = row.fetch.and_then(|fetch| served.get(&fetch));
                    let document = self.document(item, row, text, record).await?;
                    lines.push(self.line(seq, item, &row.id.to_string(), Some(document))?);
                }
                (_, EventKind::ArticleWithdrawn) => {
                    lines.push(self.line(seq, item, &item.event.subject, None)?);
                }
                _ => {}
            }
        }
        Ok(lines)
    }

    async fn document(
        &self,
        item: &Item,
        row: &ArticleRow,
        text: &str,
        served: Option<&FetchRecord>,
    ) -> Result<Value, SinkError> {
        match &self.settings.layout {
            Layout::Articles(_) => Ok(raw_content::ours(item, row, text)),
            Layout::RawContent => {
                let body = match served {
                    Some(fetch) => self.settings.bodies.body(fetch).await?,
                    None => None,
                };
                let redact = &self.settings.redact;
                Ok(raw_content::document(item, row, text, body.as_ref(), redact))
            }
        }
    }

    fn line(
        &self,
        seq: i64,
        item: &Item,
        id: &str,
        document: Option<Value>,
    ) -> Result<Line, SinkError> {
        let index = match &self.settings.layout {
            Layout::RawContent => raw_content::index_of(item),
            Layout::Articles(index) => index.clone(),
        };
        let action = match (document, self.settings.mode) {
            (None, _) => Action::Delete,
            (Some(document), Mode::Create) => Action::Create(document),
            // Ours are ordered by the log, so that what is sent again never undoes what came later.
            (Some(document), Mode::Update) => match self.settings.layout {
                Layout::RawContent => Action::Update(document),
                Layout::Articles(_) => Action::Index(document),
            },
        };
        Ok(Line::new(seq, &index, id, &action)?)
    }

    /// Sends what is about the same things, in order; what the cluster will never have of it.
    async fn send_lane(&self, lane: &[&Item]) -> Result<Vec<Refusal>, SinkError> {
        let lines = self.lines(lane).await?;
        let mut taken = Taken::default();
        for part in bulk::parts(&lines, self.settings.max_bytes) {
            let mut part = part.to_vec();
            let mut wait = FIRST;
            for round in 0.. {
                let again = self.bulk(&part, &mut taken).await?;
                if again.is_empty() {
                    break;
                }
                if round >= TRIES {
                    return Err(self.away("is too busy"));
                }
                part = bulk::again(&part, &again).into_iter().cloned().collect();
                // It is said of them again.
                taken.refused.retain(|it| part.iter().all(|line| line.seq != it.seq));
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
        }
        self.sweep(lane).await?;
        Ok(taken.refused)
    }

    /// Removes what was taken down from the indexes of sources whose names it had before.
    async fn sweep(&self, lane: &[&Item]) -> Result<(), SinkError> {
        let gone = lane.iter().filter(|item| item.event.kind == EventKind::ArticleWithdrawn);
        let gone: Vec<&str> = gone.map(|item| item.key()).collect();
        if gone.is_empty() || self.settings.layout != Layout::RawContent {
            return Ok(());
        }
        // What came back since is there again.
        let is_back = |id: &str| {
            let last = lane.iter().rev().find(|item| item.key() == id);
            last.is_some_and(|item| item.event.kind != EventKind::ArticleWithdrawn)
        };
        let gone: Vec<&str> = gone.into_iter().filter(|id| !is_back(id)).collect();
        let path = format!("{ALL_RAW}/_delete_by_query?conflicts=proceed&ignore_unavailable=true");
        let body = serde_json::to_vec(&json!({"query": {"ids": {"values": gone}}}))?;
        let (status, answer) =
            self.send(Method::POST, &path, Some(("application/json", body))).await?;
        let left =
            answer.get("failures").and_then(Value::as_array).is_some_and(|it| !it.is_empty());
        if status.is_success() && !left {
            return Ok(());
        }
        let reason = bulk::reason(&answer);
        Err(self.away(format!("does not remove what was taken down: {status}{reason}")))
    }

    /// Sends lines in one request, or in halves when that is too large.
    async fn bulk(&self, lines: &[Line], taken: &mut Taken) -> Result<Vec<usize>, SinkError> {
        let mut waiting: Vec<(usize, &[Line])> = vec![(0, lines)];
        let mut again = Vec::new();
        while let Some((start, part)) = waiting.pop() {
            let body: Vec<u8> = part.iter().flat_map(|line| line.text.iter().copied()).collect();
            let body = Some(("application/x-ndjson", body));
            let (status, answer) = self.send(Method::POST, "_bulk", body).await?;
            match (status.as_u16(), part) {
                (200, _) => self.judge(start, part, &answer, &mut again, taken)?,
                (413, [one]) => {
                    let reason = "it is larger than the cluster takes".to_owned();
                    taken.refused.push(Refusal { seq: one.seq, code: "es_too_large", reason });
                }
                (413, _) => {
                    let (left, right) = part.split_at(part.len() / 2);
                    waiting.push((start + left.len(), right));
                    waiting.push((start, left));
                }
                _ => {
                    let reason = bulk::reason(&answer);
                    return Err(self.away(format!("answers {status}{reason}{}", hint(status))));
                }
            }
        }
        again.sort_unstable();
        Ok(again)
    }

    fn judge(
        &self,
        start: usize,
        part: &[Line],
        answer: &Value,
        again: &mut Vec<usize>,
        taken: &mut Taken,
    ) -> Result<(), SinkError> {
        let items = answer.get("items").and_then(Value::as_array);
        let items = items.filter(|items| items.len() == part.len());
        let Some(items) = items else {
            return Err(self.away("does not answer as a cluster does"));
        };
        for ((at, line), item) in (start..).zip(part).zip(items) {
            match bulk::verdict(item) {
                Verdict::Taken => {}
                Verdict::Again => again.push(at),
                Verdict::Refused(reason) => {
                    taken.refused.push(Refusal { seq: line.seq, code: "es_refused", reason });
                }
                Verdict::Away(reason) => return Err(self.away(reason)),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for Elasticsearch {
    async fn deliver(&mut self, batch: &[Item]) -> Result<Taken, SinkError> {
        self.prepare_cluster().await?;
        let lanes = lanes(batch, self.settings.parallel);
        let mut taken = Taken::default();
        for part in join_all(lanes.iter().map(|lane| self.send_lane(lane))).await {
            taken.refused.extend(part?);
        }
        Ok(taken)
    }

    async fn check(&mut self) -> Result<String, SinkError> {
        let (status, answer) = self.send(Method::GET, "", None).await?;
        if !status.is_success() {
            let (reason, hint) = (bulk::reason(&answer), hint(status));
            return Err(self.away(format!("answers {status}{reason}{hint}")));
        }
        let version = answer.get("version").cloned().unwrap_or_default();
        let said = |key: &str| version.get(key).and_then(Value::as_str).unwrap_or_default();
        let product = match said("distribution") {
            "" => "elasticsearch",
            other => other,
        };
        Ok(format!("{} is {product} {}", self.settings.url, said("number")))
    }
}

/// What to do about an answer, where that is not plain.
const fn hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 | 403 => "; see the sink's api_key, or its user and password",
        _ => "",
    }
}

fn gzip(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}
