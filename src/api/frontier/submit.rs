//! Handing addresses to the queue, one or many.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::asked::{Asked, Body, Nothing, bytes, parse};
use crate::api::problem::Problem;
use crate::frontier::{SubmitReport, TaskFilter, admit};
use crate::model::{Kind, NewTask, Origin, Source, SourceId};
use crate::store::SourceError;

/// Addresses that go to the store at once.
const BATCH: usize = 2_000;
/// Addresses of one request.
const MOST: usize = 1_000_000;
/// Refusals that are told in full.
const TOLD: usize = 1_000;

/// An address to ask for.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct Submission {
    url: String,
    /// The source that it belongs to, by name or id.
    source: Option<String>,
    /// The same.
    source_id: Option<String>,
    /// feed, sitemap, spider or manual; manual when nothing is said.
    #[schema(value_type = Option<String>)]
    origin: Option<Origin>,
    /// 1 to 10, 10 is served first; that of the source, else 5, when nothing or less is said.
    priority: Option<i64>,
    /// article, feed or sitemap; article when nothing is said.
    #[schema(value_type = Option<String>)]
    kind: Option<Kind>,
}

/// The sources that are named, by name.
type Named = HashMap<String, (SourceId, u8)>;

impl Submission {
    fn bare(url: String) -> Self {
        Self { url, source: None, source_id: None, origin: None, priority: None, kind: None }
    }

    fn source(&self) -> Option<&String> {
        self.source.as_ref().or(self.source_id.as_ref()).filter(|name| !name.is_empty())
    }

    fn task(self, named: &Named) -> Result<NewTask, Problem> {
        let source = self.source().and_then(|name| named.get(name)).copied();
        let usual = source.map_or(Source::DEFAULT_PRIORITY, |(_, priority)| priority);
        let priority = match self.priority.filter(|given| *given > 0) {
            Some(given) => {
                u8::try_from(given).ok().filter(|given| *given <= 10).ok_or_else(|| {
                    let message = "must be from 1 to 10";
                    Problem::unusable("bad_priority", message).about("priority", message)
                })?
            }
            None => usual,
        };
        let kind = self.kind.unwrap_or(Kind::Article);
        if !matches!(kind, Kind::Article | Kind::Feed | Kind::Sitemap) {
            let message = "is article, feed or sitemap";
            return Err(Problem::unusable("bad_kind", message).about("kind", message));
        }
        let task = NewTask::manual(self.url, kind, source.map(|(id, _)| id), priority);
        Ok(NewTask { origin: self.origin.unwrap_or(Origin::Manual), ..task })
    }
}

async fn named(api: &Api, all: &[Submission]) -> Result<Named, Problem> {
    let mut named = Named::new();
    for name in all.iter().filter_map(Submission::source) {
        if named.contains_key(name) {
            continue;
        }
        let (source, _) = match api.store.source(name).await {
            Ok(found) => found,
            Err(error @ SourceError::Unknown(_)) => {
                let detail = error.to_string();
                return Err(
                    Problem::unusable("unknown_source", detail.clone()).about("source", detail)
                );
            }
            Err(error) => return Err(error.into()),
        };
        named.insert(name.clone(), (source.id, source.spec.priority));
    }
    Ok(named)
}

/// What became of an address.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Submitted {
    /// Its id in the queue.
    id: Option<String>,
    /// new, known or raised.
    result: String,
    message: String,
}

/// Hands an address to the queue
#[utoipa::path(post, path = "/frontier/submit", tag = "frontier", request_body = Submission,
    responses((status = 201, body = Submitted)))]
pub(in crate::api) async fn submit(
    State(api): State<Api>,
    _: Asked<Nothing>,
    Body(given): Body<Submission>,
) -> Result<Response, Problem> {
    let named = named(&api, std::slice::from_ref(&given)).await?;
    let task = given.task(&named)?;
    let refused = |code: &str, reason: &str| {
        Problem::unusable(code, reason.to_owned()).about("url", reason.to_owned())
    };
    let known = admit(&task, store_rules(&api)).map_err(|it| refused(it.code, &it.reason))?;
    let SubmitReport { new, raised, rejected, .. } = api.store.submit(vec![task]).await?;
    if let Some(it) = rejected.first() {
        return Err(refused(it.code, &it.reason));
    }
    let filter = TaskFilter {
        host: Some(known.host),
        hash: Some(known.hash.head()),
        limit: 10,
        ..TaskFilter::default()
    };
    let tasks = api.store.list(filter).await?;
    let (result, message) = match (new, raised) {
        (1.., _) => ("new", "the address is in the queue"),
        (_, 1..) => ("raised", "the address was known and is served earlier now"),
        _ => ("known", "the address was known"),
    };
    let id = tasks.iter().find(|it| it.url_hash == known.hash).map(|it| it.id.to_string());
    let (result, message) = (result.to_owned(), message.to_owned());
    Ok((StatusCode::CREATED, Json(Submitted { id, result, message })).into_response())
}

fn store_rules(api: &Api) -> &crate::frontier::Rules {
    api.store.rules()
}

/// Many addresses with what they have in common.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct Together {
    urls: Vec<String>,
    source: Option<String>,
    source_id: Option<String>,
    #[schema(value_type = Option<String>)]
    origin: Option<Origin>,
    priority: Option<i64>,
    #[schema(value_type = Option<String>)]
    kind: Option<Kind>,
}

/// An address alone, or with what is said about it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(in crate::api) enum Item {
    Url(String),
    Whole(Submission),
}

impl Item {
    fn submission(self) -> Submission {
        match self {
            Self::Url(url) => Submission::bare(url),
            Self::Whole(whole) => whole,
        }
    }
}

/// Many addresses, in either form.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(in crate::api) enum Bulk {
    Together(Together),
    Each(Vec<Item>),
}

impl Bulk {
    fn submissions(self) -> Vec<Submission> {
        match self {
            Self::Each(items) => items.into_iter().map(Item::submission).collect(),
            Self::Together(Together { urls, source, source_id, origin, priority, kind }) => {
                let whole = |url| Submission {
                    url,
                    source: source.clone(),
                    source_id: source_id.clone(),
                    origin,
                    priority,
                    kind,
                };
                urls.into_iter().map(whole).collect()
            }
        }
    }
}

/// An address that cannot be taken.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Refused {
    /// Its place among the given ones, from 0.
    at: usize,
    url: String,
    code: String,
    reason: String,
}

/// What became of many addresses.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(in crate::api) struct BulkReport {
    /// Addresses that nobody knew.
    new: u64,
    known: u64,
    /// Known ones that are served earlier now.
    raised: u64,
    /// How many cannot be taken.
    rejected_total: u64,
    /// The first thousand of them.
    rejected: Vec<Refused>,
}

/// Hands many addresses to the queue: JSON, or a line of JSON for each
#[utoipa::path(post, path = "/frontier/submit/bulk", tag = "frontier",
    request_body(content((Bulk = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 200, body = BulkReport)))]
pub(in crate::api) async fn bulk(
    State(api): State<Api>,
    _: Asked<Nothing>,
    request: Request,
) -> Result<Json<BulkReport>, Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_owned();
    let body = bytes(request).await?;
    let all = match kind.to_ascii_lowercase().as_str() {
        "application/json" => parse::<Bulk>(&body)?.submissions(),
        "application/x-ndjson" => lines(&body)?,
        _ => {
            let detail = "say Content-Type: application/json or application/x-ndjson";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", detail));
        }
    };
    if all.len() > MOST {
        return Err(Problem::unusable("too_many", "a request has a million addresses at the most"));
    }
    let named = named(&api, &all).await?;
    let tasks = all.into_iter().map(|one| one.task(&named));
    let mut tasks = tasks.collect::<Result<Vec<_>, _>>()?.into_iter();
    let (mut sum, mut before) = (BulkReport::default(), 0);
    loop {
        let batch: Vec<NewTask> = tasks.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            return Ok(Json(sum));
        }
        let count = batch.len();
        let report = api.store.submit(batch).await?;
        sum.new += report.new;
        sum.known += report.known;
        sum.raised += report.raised;
        sum.rejected_total += report.rejected.len() as u64;
        let room = TOLD.saturating_sub(sum.rejected.len());
        sum.rejected.extend(report.rejected.into_iter().take(room).map(|it| Refused {
            at: before + it.at,
            url: it.url,
            code: it.code.to_owned(),
            reason: it.reason,
        }));
        before += count;
    }
}

fn lines(body: &[u8]) -> Result<Vec<Submission>, Problem> {
    let lines = body.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    let read = lines.map(|(at, line)| {
        parse::<Item>(line).map(Item::submission).map_err(|problem| {
            problem.about(format!("line {}", at + 1), "is no address and no object with one")
        })
    });
    read.collect()
}
