//! What changes sources: the same functions as the command line's.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use feedmill_formats::article::Selectors;
use feedmill_formats::url::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::{detail, viewed};
use crate::api::Api;
use crate::api::asked::{Asked, At, Body, Maybe, Nothing};
use crate::api::etag;
use crate::api::guard::Who;
use crate::api::problem::Problem;
use crate::api::views::{DiscoveryView, Done, SourceView, Time};
use crate::app::discover::Scout;
use crate::app::edit;
use crate::app::replay::Changes;
use crate::app::shelf::{Compared, Shelf, compare};
use crate::fetch::Guard;
use crate::frontier::{Act, TaskFilter};
use crate::model::{NewSource, SourceId, TaskId};
use crate::sources::{SpecError, Wanted, check, check_rights, fields, specify};
use crate::store::browse::sources::{ChannelQuery, channels};
use crate::store::gate::Scope;

/// Characters of a reason that are kept.
const MAX_REASON_CHARS: usize = 1_000;

/// Selectors are tried on so many pages at the most.
const MOST_PAGES: usize = 100;

/// What is said about a source: any of its fields. Unknown ones are refused.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(value_type = Object, example = json!({"url": "https://example.com/", "category": "news"}))]
pub(in crate::api) struct SourceFields(Map<String, Value>);

/// What only the server says of a source, and whoever sends it back does not mean.
const OURS: &[&str] = &[
    "id",
    "enabled",
    "enabled_at",
    "disabled_at",
    "disable_reason",
    "created_at",
    "standing",
    "reason",
    "since",
    "health",
    "channels",
    "disabled_channels",
    "bytes_today",
    "last_success_at",
    "channels_detail",
    "discovery",
    "rejected",
    "walked",
];

impl SourceFields {
    fn said(self) -> Vec<(String, Value)> {
        self.0.into_iter().filter(|(name, _)| !OURS.contains(&name.as_str())).collect()
    }
}

fn permit(api: &Api) -> impl Fn(&Url) -> Result<(), String> + use<> {
    let guard = Guard::new(&api.config.fetch);
    move |url: &Url| guard.check_url(url).map_err(|refusal| refusal.to_string())
}

/// Whether whoever asks may make a source what it is to be.
fn may(
    who: &Who,
    guard: &Guard,
    was: Option<&NewSource>,
    now: &NewSource,
) -> Result<(), SpecError> {
    if who.scope < Scope::Admin {
        check_rights(was, now)?;
    }
    // A proxy from before stays until somebody changes it; the fetcher refuses it in any case.
    match was.is_some_and(|was| was.access.proxy == now.access.proxy) {
        true => Ok(()),
        false => edit::check_proxy(guard, &now.access),
    }
}

/// Does what may take a while, such as compiling patterns, off the threads that answer requests.
async fn off_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
    })
}

/// Follows a publisher. Its feeds are looked for when it names none
#[utoipa::path(post, path = "/sources", tag = "sources", request_body = SourceFields,
    responses((status = 201, body = SourceView), (status = 409, body = Problem,
        content_type = "application/problem+json", description = "The name is taken")))]
pub(in crate::api) async fn create(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    _: Asked<Nothing>,
    Body(given): Body<SourceFields>,
) -> Result<Response, Problem> {
    let wanted = Wanted { said: given.said(), ..Wanted::default() };
    let permit = permit(&api);
    let spec = off_runtime(move || specify(&wanted, permit)).await??;
    may(&who, &Guard::new(&api.config.fetch), None, &spec)?;
    let source = api.store.add_source(spec).await?;
    let place = format!("/api/v1/sources/{}", source.uuid);
    let view = viewed(&api, &source).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], Json(view)).into_response())
}

/// Changes what is said about a source. What is not named stays, null takes it back
#[utoipa::path(patch, path = "/sources/{id}", tag = "sources", params(("id" = String, Path,)),
    request_body = SourceFields,
    responses((status = 200, body = SourceView),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such source"),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The name is taken, or somebody else was faster"),
        (status = 412, body = Problem, content_type = "application/problem+json",
            description = "It is no longer what `If-Match` names")))]
pub(in crate::api) async fn change(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    headers: HeaderMap,
    At(name): At<String>,
    _: Asked<Nothing>,
    Body(given): Body<SourceFields>,
) -> Result<Json<SourceView>, Problem> {
    let (source, _) = api.store.source(&name).await?;
    if let Some(wanted) = headers.get(header::IF_MATCH).and_then(|tags| tags.to_str().ok()) {
        let shown = detail(&api, &name).await?;
        let bytes = serde_json::to_vec(&shown).unwrap_or_default();
        if !etag::has(wanted, &etag::of(&bytes)) {
            let detail = "the source is no longer what If-Match names: read it again";
            return Err(Problem::new(StatusCode::PRECONDITION_FAILED, "changed", detail));
        }
    }
    let (said, permit) = (given.said(), permit(&api));
    let guard = Guard::new(&api.config.fetch);
    let change = move |spec: &mut NewSource| {
        let was = spec.clone();
        said.iter().try_for_each(|(field, value)| fields::set(spec, field, value))?;
        check(spec, &permit)?;
        may(&who, &guard, Some(&was), spec)
    };
    // What is wrong with it is found, and its patterns are compiled, off the runtime's threads.
    let mut tried = source.spec.clone();
    let change = off_runtime(move || change(&mut tried).map(|()| change)).await??;
    let source = edit::change(&*api.store, &source.uuid, change).await?;
    Ok(Json(viewed(&api, &source).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct Remove {
    /// Also takes back the articles that no other source gave.
    articles: Option<bool>,
}

/// A source that is no longer followed.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Removed {
    id: String,
    name: String,
    /// Articles that were taken back.
    withdrawn: u64,
}

/// Forgets a source
#[utoipa::path(delete, path = "/sources/{id}", tag = "sources", params(("id" = String, Path,), Remove),
    responses((status = 200, body = Removed), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
pub(in crate::api) async fn remove(
    State(api): State<Api>,
    At(name): At<String>,
    Asked(asked): Asked<Remove>,
) -> Result<Json<Removed>, Problem> {
    let articles = asked.articles.unwrap_or(false);
    let (source, withdrawn) = edit::remove(&*api.store, &name, articles).await?;
    Ok(Json(Removed { id: source.uuid, name: source.spec.name, withdrawn }))
}

/// Follows a disabled source again, and channels that were given up
#[utoipa::path(post, path = "/sources/{id}/enable", tag = "sources", params(("id" = String, Path,)),
    responses((status = 200, body = SourceView), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
pub(in crate::api) async fn enable(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<SourceView>, Problem> {
    let (now, min) = (api.clock.now(), api.config.schedule.min_interval.duration());
    let source = edit::enable(&*api.store, &name, now, min).await?;
    Ok(Json(viewed(&api, &source).await?))
}

/// Why a source is no longer followed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct Because {
    /// For those who look later.
    reason: Option<String>,
}

/// Stops following a source, until it is enabled again
#[utoipa::path(post, path = "/sources/{id}/disable", tag = "sources", params(("id" = String, Path,)),
    request_body(content = Option<Because>),
    responses((status = 200, body = SourceView), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
pub(in crate::api) async fn disable(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
    Maybe(because): Maybe<Because>,
) -> Result<Json<SourceView>, Problem> {
    let reason = because.reason.filter(|reason| !reason.trim().is_empty());
    let reason = reason.unwrap_or_else(|| "disabled by the operator".to_owned());
    let reason = reason.chars().take(MAX_REASON_CHARS).collect();
    let source = api.store.set_enabled(&name, Some(reason)).await?;
    Ok(Json(viewed(&api, &source).await?))
}

/// Asks for all channels of a source now
#[utoipa::path(post, path = "/sources/{id}/refetch", tag = "sources", params(("id" = String, Path,)),
    responses((status = 202, body = Done), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
pub(in crate::api) async fn refetch(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
) -> Result<Response, Problem> {
    let (source, _) = api.store.source(&name).await?;
    let tasks = channel_tasks(&api, source.id).await?;
    let done = again(&api, tasks).await?;
    Ok((StatusCode::ACCEPTED, Json(done)).into_response())
}

async fn channel_tasks(api: &Api, source: SourceId) -> Result<Vec<TaskId>, Problem> {
    let query =
        ChannelQuery { sources: vec![source], limit: usize::MAX, ..ChannelQuery::default() };
    Ok(channels(&*api.store, &query).await?.into_iter().map(|channel| channel.task).collect())
}

/// Asks for tasks again, now.
pub(in crate::api) async fn again(api: &Api, tasks: Vec<TaskId>) -> Result<Done, Problem> {
    if tasks.is_empty() {
        return Ok(Done { tasks: 0 });
    }
    let limit = tasks.len();
    let filter = TaskFilter { ids: tasks, limit, ..TaskFilter::default() };
    let sweep = api.store.sweep(Act::Retry, filter, false).await?;
    Ok(Done { tasks: sweep.done })
}

/// Where the parts of articles may stand.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct Trial {
    /// The selectors to try; without any, those that the source has.
    #[schema(value_type = Option<Object>)]
    selectors: Option<Value>,
    /// On how many of its last pages, 1 to 100.
    #[schema(minimum = 1, maximum = 100)]
    pages: Option<usize>,
}

/// What selectors gain and lose.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Tried {
    /// Page by page.
    #[schema(value_type = Vec<Object>)]
    pages: Vec<Compared>,
    /// Field by field.
    #[schema(value_type = Object)]
    fields: Value,
}

/// Shows what selectors gain and lose on the last pages of a source; nothing is kept
#[utoipa::path(post, path = "/sources/{id}/test", tag = "sources", params(("id" = String, Path,)),
    request_body(content = Option<Trial>),
    responses((status = 200, body = Tried), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
pub(in crate::api) async fn test(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
    Maybe(trial): Maybe<Trial>,
) -> Result<Json<Tried>, Problem> {
    let (source, _) = api.store.source(&name).await?;
    let kept = source.spec.selectors.clone();
    let given = match trial.selectors {
        // They are read as a source's own are.
        Some(value) => {
            let mut spec = NewSource::new("", "");
            fields::set(&mut spec, "selectors", &value)?;
            spec.selectors
        }
        None => Selectors::default(),
    };
    let (before, after) =
        if given.is_empty() { (Selectors::default(), kept) } else { (kept, given) };
    let wanted = trial.pages.unwrap_or(5);
    if !(1..=MOST_PAGES).contains(&wanted) {
        let message = "must be from 1 to 100";
        return Err(
            Problem::unusable("bad_body", format!("`pages` {message}")).about("pages", message)
        );
    }
    let max_decoded = api.config.fetch.max_decoded.as_len();
    let shelf = Shelf { store: &*api.store, archive: &api.archive, max_decoded };
    let _turn = api.limits.trial().await?;
    let (mut pages, mut changes) = (Vec::new(), Changes::default());
    for task in shelf.last_tasks(&source, wanted).await? {
        if pages.len() == wanted {
            break;
        }
        let Some(page) = shelf.kept(&task).await? else { continue };
        let (before, after) = (before.clone(), after.clone());
        let worked = tokio::task::spawn_blocking(move || {
            let compared = compare(&page, &before, &after, &mut changes);
            (compared, changes)
        });
        let (mut compared, so_far) = worked.await.map_err(|error| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
        })?;
        compared.shorten();
        pages.push(compared);
        changes = so_far;
    }
    let fields = serde_json::to_value(&changes.fields).unwrap_or_default();
    Ok(Json(Tried { pages, fields }))
}

/// Where to look for feeds.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct LookAt {
    url: String,
}

/// An entry of a feed that was found.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Newest {
    title: Option<String>,
    link: Option<String>,
    published: Option<Time>,
}

/// What a look around found.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Looked {
    #[serde(flatten)]
    search: DiscoveryView,
    /// The newest entries of the feed.
    newest: Vec<Newest>,
}

/// Looks for feeds and sitemaps at an address; nothing is kept. It takes up to a minute
#[utoipa::path(post, path = "/sources/discover", tag = "sources", request_body = LookAt,
    responses((status = 200, body = Looked)))]
pub(in crate::api) async fn discover(
    State(api): State<Api>,
    _: Asked<Nothing>,
    Body(asked): Body<LookAt>,
) -> Result<Json<Looked>, Problem> {
    let _turn = api.limits.search().await?;
    let said = vec![("url".to_owned(), Value::from(asked.url.trim()))];
    let spec = specify(&Wanted { said, ..Wanted::default() }, permit(&api))?;
    let (store, looks) = (Arc::clone(&api.store), Arc::clone(&api.looks));
    let scout = Scout::new(&api.config, &api.clock, Some(store), looks)?;
    let look = scout.look(asked.url.trim(), api.config.discovery.enabled, &spec).await;
    let newest = look.newest.iter().map(|entry| Newest {
        title: entry.title.clone(),
        link: entry.link.clone(),
        published: entry.published.map(Time),
    });
    Ok(Json(Looked { newest: newest.collect(), search: DiscoveryView::from(&look.search) }))
}
