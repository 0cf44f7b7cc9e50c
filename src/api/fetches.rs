//! `/fetches`: requests that were made, and what came back, byte for byte.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use feedmill_formats::warc::HttpHead;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::{Asked, At, Lines, Nothing};
use super::entries::task_id;
use super::listing::{Page, Wanted, cut};
use super::problem::Problem;
use super::views::FetchView;
use super::{Api, hosts, sources};
use crate::archive::Stored;
use crate::model::{FetchId, FetchRecord, Ts};
use crate::store::FetchFilter;
use crate::store::browse::fetches::{FetchQuery, fetches};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show)).routes(routes!(body))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListFetches {
    /// For the address in the queue with this id.
    task: Option<String>,
    /// For addresses of the source with this name or id.
    source: Option<String>,
    /// For addresses of this host.
    host: Option<String>,
    /// Made at or after this time.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Ts>,
    /// Made before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Ts>,
    /// 1 to 1000, 50 when nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Lists requests that were made, newest first
#[utoipa::path(get, path = "/fetches", tag = "raw", params(ListFetches),
    responses((status = 200, body = Page<FetchView>), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source or host")))]
async fn list(
    State(api): State<Api>,
    lines: Lines,
    Asked(asked): Asked<ListFetches>,
) -> Result<Response, Problem> {
    let task = asked.task.map(|id| task_id("task", &id)).transpose()?;
    let source = sources::named(&api, asked.source.as_deref()).await?;
    let host = hosts::named(&*api.store, asked.host.as_deref()).await?;
    let (since, until) = (asked.since, asked.until);
    let query = FetchQuery { task, source, host, since, until, ..FetchQuery::default() };
    let read = move |after, limit| {
        let query = FetchQuery { after, limit: limit + 1, ..query.clone() };
        let api = api.clone();
        async move {
            let found = fetches(&*api.store, &query).await?;
            Ok(cut(found, limit, |fetch: &FetchRecord| fetch.id, |fetch| FetchView::from(&fetch)))
        }
    };
    Wanted { lines, limit: asked.limit, cursor: asked.cursor }.list(read).await
}

async fn find(api: &Api, id: &str) -> Result<FetchRecord, Problem> {
    let unknown = || Problem::not_found("unknown_fetch", "no request has this id");
    let id: FetchId = id.parse().map_err(|_| unknown())?;
    let filter = FetchFilter { ids: vec![id], limit: 1, ..FetchFilter::default() };
    api.store.find_fetches(filter).await?.pop().ok_or_else(unknown)
}

/// A request or an answer without its body.
#[derive(Debug, Serialize, ToSchema)]
struct Head {
    /// The first line.
    line: String,
    /// Names and values, in their order.
    headers: Vec<(String, String)>,
}

/// Lines of a request that everybody may see. Others may be what a source was given to be let in.
const HARMLESS: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "from",
    "host",
    "if-modified-since",
    "if-none-match",
    "user-agent",
];

impl Head {
    fn without_secrets(mut self) -> Self {
        for (name, value) in &mut self.headers {
            if !HARMLESS.contains(&name.to_ascii_lowercase().as_str()) {
                "***".clone_into(value);
            }
        }
        self
    }
}

impl From<&HttpHead> for Head {
    fn from(head: &HttpHead) -> Self {
        Self { line: head.start.clone(), headers: head.headers.clone() }
    }
}

/// A request with what was said and answered.
#[derive(Debug, Serialize, ToSchema)]
struct FetchDetail {
    #[serde(flatten)]
    fetch: FetchView,
    /// What was asked; null when it is no longer kept.
    request: Option<Head>,
    /// What was answered; null when it is no longer kept.
    response: Option<Head>,
}

/// Shows a request and its answer, without the body
#[utoipa::path(get, path = "/fetches/{id}", tag = "raw", params(("id" = String, Path,)),
    responses((status = 200, body = FetchDetail), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such request")))]
async fn show(
    State(api): State<Api>,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<FetchDetail>, Problem> {
    let fetch = find(&api, &id).await?;
    let stored = match &fetch.raw {
        Some(raw) => api.archive.stored(raw).await.ok(),
        None => None,
    };
    let asked = |stored: &Stored| {
        let (head, _) = stored.request.as_ref()?.http()?;
        Some(Head::from(&head).without_secrets())
    };
    Ok(Json(FetchDetail {
        fetch: FetchView::from(&fetch),
        request: stored.as_ref().and_then(asked),
        response: stored.as_ref().map(|stored| Head::from(&stored.head)),
    }))
}

/// The body of an answer, exactly as it came
#[utoipa::path(get, path = "/fetches/{id}/body", tag = "raw", params(("id" = String, Path,)),
    responses((status = 200, body = String, content_type = "application/octet-stream",
            description = "The bytes, whatever they are"),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such request"),
        (status = 410, body = Problem, content_type = "application/problem+json",
            description = "The answer is no longer kept, or there never was one")))]
pub(super) async fn body(
    State(api): State<Api>,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<Response, Problem> {
    let fetch = find(&api, &id).await?;
    let Some(raw) = &fetch.raw else {
        let detail = "the answer is no longer kept, or there never was one";
        return Err(Problem::new(StatusCode::GONE, "not_kept", detail));
    };
    let stored = api.archive.stored(raw).await?;
    let file = format!("attachment; filename=\"{}.bin\"", fetch.id);
    // Whatever it was served as, here it is only bytes. How it was coded stands beside it.
    let mut headers = vec![
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
    ];
    headers.extend(HeaderValue::from_str(&file).map(|file| (header::CONTENT_DISPOSITION, file)));
    let served = [
        ("x-served-content-type", "content-type"),
        ("x-served-content-encoding", "content-encoding"),
    ];
    for (ours, theirs) in served {
        let value = stored.head.get(theirs).and_then(|value| HeaderValue::from_str(value).ok());
        headers.extend(value.map(|value| (HeaderName::from_static(ours), value)));
    }
    let mut response = stored.body.into_response();
    response.headers_mut().extend(headers);
    Ok(response)
}
