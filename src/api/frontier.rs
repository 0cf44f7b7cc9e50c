//! `/frontier`: the queue of addresses. Paths and parameters are also those of north-cloud's crawler.

mod bulk;
mod pages;
mod submit;

pub(super) use pages::Looked;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::{Asked, At, Body, Lines, Nothing};
use super::listing::{Wanted, place, told};
use super::problem::Problem;
use super::views::{CountsView, TaskView, Time};
use super::{Api, hosts};
use crate::frontier::{Act, Counts, Cursor, Order, Share, Sort, TaskFilter};
use crate::model::{Code, Kind, Origin, State as Stand, Task, TaskId};
use crate::store::Store;

/// Addresses that one transaction touches.
const BATCH: usize = 1_000;
/// Addresses that a page reached by number may lie behind.
const FARTHEST: usize = 100_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(stats))
        .routes(routes!(submit::submit))
        .routes(routes!(bulk::bulk))
        .routes(routes!(retry_many))
        .routes(routes!(delete_many))
        .routes(routes!(show, delete))
        .routes(routes!(retry))
}

#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListTasks {
    /// In one of these states: pending, fetching, fetched, failed, dead, parked; with commas between.
    status: Option<String>,
    /// Of this kind: feed, sitemap, article and so on.
    #[param(value_type = Option<String>)]
    kind: Option<Kind>,
    /// Of this host, or group of hosts.
    host: Option<String>,
    /// Of the source with this name or id.
    source: Option<String>,
    /// The same.
    source_id: Option<String>,
    /// That came like this: feed, sitemap, spider or manual.
    #[param(value_type = Option<String>)]
    origin: Option<Origin>,
    /// Whose last outcome had this code.
    #[param(value_type = Option<String>)]
    code: Option<Code>,
    /// With this in its address.
    search: Option<String>,
    /// id, due, priority, discovered or fetched; with - before it, the greatest first.
    sort: Option<String>,
    /// priority, `next_fetch_at` or `created_at`, the greatest first.
    sort_by: Option<String>,
    /// Whether all that pass are counted.
    count: Option<bool>,
    /// So many are left out; the answer then has `urls` and `total`.
    #[param(minimum = 0, maximum = 100_000)]
    offset: Option<usize>,
    /// 1 to 1000, 50 when nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

impl ListTasks {
    fn order(&self) -> Result<Order, Problem> {
        let descending = true;
        match self.sort_by.as_deref() {
            None => {}
            Some("priority") => return Ok(Order { sort: Sort::Priority, descending }),
            Some("next_fetch_at") => return Ok(Order { sort: Sort::Due, descending }),
            Some("created_at") => return Ok(Order { sort: Sort::Discovered, descending }),
            Some(_) => {
                let message = "is priority, next_fetch_at or created_at";
                return Err(Problem::parameter("sort_by", message));
            }
        }
        let Some(sort) = self.sort.as_deref() else { return Ok(Order::default()) };
        let (name, descending) = match sort.strip_prefix('-') {
            Some(name) => (name, true),
            None => (sort, false),
        };
        let sort = name.parse().map_err(|error: crate::model::UnknownName| {
            Problem::parameter("sort", error.to_string())
        })?;
        Ok(Order { sort, descending })
    }

    async fn filter(&self, store: &dyn Store) -> Result<TaskFilter, Problem> {
        let states = self.status.as_deref().unwrap_or_default();
        let states = states.split(',').filter(|one| !one.is_empty());
        let states = states.map(|one| {
            one.trim()
                .parse::<Stand>()
                .map_err(|error| Problem::parameter("status", error.to_string()))
        });
        let which = Which {
            status: states.collect::<Result<_, _>>()?,
            kind: self.kind,
            host: self.host.clone(),
            source: self.source.clone().or_else(|| self.source_id.clone()),
            origin: self.origin,
            code: self.code,
            search: self.search.clone(),
            ids: Vec::new(),
            dry_run: None,
        };
        Ok(TaskFilter { order: self.order()?, ..which.filter(store).await? })
    }
}

/// Which addresses something is done to.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct Which {
    /// Those with these ids.
    #[schema(max_items = 1000)]
    ids: Vec<String>,
    /// In one of these states.
    #[schema(value_type = Vec<String>)]
    status: Vec<Stand>,
    #[schema(value_type = Option<String>)]
    kind: Option<Kind>,
    host: Option<String>,
    /// Of the source with this name or id.
    source: Option<String>,
    #[schema(value_type = Option<String>)]
    origin: Option<Origin>,
    #[schema(value_type = Option<String>)]
    code: Option<Code>,
    /// With this in their address.
    search: Option<String>,
    /// Only counts them.
    dry_run: Option<bool>,
}

impl Which {
    /// The filter that was meant. A name that nobody has is a mistake, not an empty list.
    async fn filter(&self, store: &dyn Store) -> Result<TaskFilter, Problem> {
        if let Some(name) = &self.source {
            store.source(name).await?;
        }
        let host = hosts::named(store, self.host.as_deref()).await?;
        let ids = self.ids.iter().map(|id| {
            let message = "has something in it that is no id of an address";
            let bad =
                || Problem::unusable("bad_body", format!("`ids` {message}")).about("ids", message);
            id.parse().ok().and_then(TaskId::from_uuid).ok_or_else(bad)
        });
        let ids: Vec<TaskId> = ids.collect::<Result<_, _>>()?;
        if ids.len() > BATCH {
            return Err(Problem::unusable("bad_body", "`ids` are more than 1000"));
        }
        Ok(TaskFilter {
            ids,
            states: self.status.clone(),
            kind: self.kind,
            host,
            source: self.source.clone(),
            origin: self.origin,
            code: self.code,
            search: self.search.clone(),
            ..TaskFilter::default()
        })
    }

    fn is_anything(&self) -> bool {
        // An empty text is in every address: nobody means that.
        let texts = [&self.host, &self.source, &self.search];
        !self.ids.is_empty()
            || !self.status.is_empty()
            || self.kind.is_some()
            || self.origin.is_some()
            || self.code.is_some()
            || texts.into_iter().flatten().any(|text| !text.is_empty())
    }
}

/// A page of the queue.
#[derive(Debug, Serialize, ToSchema)]
struct TaskPage {
    items: Vec<TaskView>,
    next: Option<String>,
    /// All that pass, when that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
}

/// A page of the queue as north-cloud's crawler shows it.
#[derive(Debug, Serialize, ToSchema)]
struct Numbered {
    urls: Vec<TaskView>,
    total: u64,
}

/// Either form.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it says what the document says")]
enum Listed {
    Page(TaskPage),
    Numbered(Numbered),
}

/// Lists addresses
#[utoipa::path(get, path = "/frontier", tag = "frontier", params(ListTasks),
    responses((status = 200, body = Listed), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source or host")))]
async fn list(
    State(api): State<Api>,
    lines: Lines,
    Asked(asked): Asked<ListTasks>,
) -> Result<Response, Problem> {
    let mut filter = asked.filter(&*api.store).await?;
    if let Some(offset) = asked.offset {
        return numbered(&api, filter, offset, asked.limit).await;
    }
    if let Some(cursor) = place::<Cursor>(asked.cursor.as_deref())? {
        if asked.sort.is_none() && asked.sort_by.is_none() {
            filter.order = cursor.order;
        } else if cursor.order != filter.order {
            return Err(Problem::parameter("cursor", "is a place in another order"));
        }
    }
    let total = match asked.count {
        Some(true) => Some(pages::count(&api, &filter).await?),
        _ => None,
    };
    let read = move |after, limit| {
        let (api, filter) = (api.clone(), TaskFilter { after, ..filter.clone() });
        async move { pages::page(&api, filter, limit).await }
    };
    if let Some(total) = total.filter(|_| !lines.0) {
        let limit = asked.limit.unwrap_or(50).clamp(1, 1_000);
        let (items, next) = read(place(asked.cursor.as_deref())?, limit).await?;
        let next = next.map(told);
        return Ok(Json(TaskPage { items, next, total: Some(total) }).into_response());
    }
    Wanted { lines, limit: asked.limit, cursor: asked.cursor }.list(read).await
}

async fn numbered(
    api: &Api,
    filter: TaskFilter,
    offset: usize,
    limit: Option<usize>,
) -> Result<Response, Problem> {
    if offset > FARTHEST {
        return Err(Problem::parameter("offset", "must be at most 100000: use cursor"));
    }
    let limit = limit.unwrap_or(50).clamp(1, 1_000);
    let total = pages::count(api, &filter).await?;
    let urls = pages::numbered(api, filter, offset, limit).await?;
    Ok(Json(Numbered { urls, total }).into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AskStats {
    /// So many sources and hosts, those with most addresses; 10 when nothing is said.
    #[param(minimum = 0, maximum = 1000)]
    top: Option<usize>,
}

/// A part of the queue.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Part {
    name: String,
    pending: u64,
    fetching: u64,
    fetched: u64,
    failed: u64,
    dead: u64,
    parked: u64,
}

impl Part {
    fn of(name: String, counts: &Counts) -> Self {
        let Counts { pending, fetching, fetched, failed, dead, parked } = *counts;
        Self { name, pending, fetching, fetched, failed, dead, parked }
    }
}

/// How many addresses were given up for a reason.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Reason {
    code: String,
    count: u64,
}

/// The queue in figures.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct QueueStats {
    total: CountsView,
    by_kind: Vec<Part>,
    by_source: Vec<Part>,
    by_host: Vec<Part>,
    dead_by_code: Vec<Reason>,
    hosts: u64,
    /// Addresses whose time has come.
    due: u64,
    next_due: Option<Time>,
    total_pending: u64,
    total_fetching: u64,
    total_fetched: u64,
    total_failed: u64,
    total_dead: u64,
}

/// Counts addresses by state, kind, source and host; the figures may be some seconds old
#[utoipa::path(get, path = "/frontier/stats", tag = "frontier", params(AskStats),
    responses((status = 200, body = QueueStats)))]
async fn stats(
    State(api): State<Api>,
    Asked(asked): Asked<AskStats>,
) -> Result<Json<QueueStats>, Problem> {
    let top = asked.top.unwrap_or(10);
    if top > 1_000 {
        return Err(Problem::parameter("top", "must be at most 1000"));
    }
    let of = api.clone();
    let counted = async move {
        let store = &*of.store;
        let (stats, sources) = (store.stats().await?, store.shares(Share::Source, top).await?);
        let hosts = store.shares(Share::Host, top).await?;
        let parts = |shares: Vec<(String, Counts)>| -> Vec<Part> {
            shares.into_iter().map(|(name, counts)| Part::of(name, &counts)).collect()
        };
        let total = &stats.total;
        Ok::<_, crate::db::DbError>(QueueStats {
            total: CountsView::from(total),
            by_kind: stats.by_kind.iter().map(|(kind, n)| Part::of(kind.to_string(), n)).collect(),
            by_source: parts(sources),
            by_host: parts(hosts),
            dead_by_code: stats
                .dead_by_code
                .iter()
                .map(|(code, count)| Reason { code: code.to_string(), count: *count })
                .collect(),
            hosts: stats.hosts,
            due: stats.due,
            next_due: stats.next_due.map(Time),
            total_pending: total.pending,
            total_fetching: total.fetching,
            total_fetched: total.fetched,
            total_failed: total.failed,
            total_dead: total.dead,
        })
    };
    Ok(Json(api.memo.queue.get(&api.workers, top, counted).await?))
}

async fn find(api: &Api, id: &str) -> Result<Task, Problem> {
    let unknown = || Problem::not_found("unknown_address", "no address has this id");
    let id = id.parse().ok().and_then(TaskId::from_uuid).ok_or_else(unknown)?;
    let filter = TaskFilter { ids: vec![id], limit: 1, ..TaskFilter::default() };
    api.store.list(filter).await?.pop().ok_or_else(unknown)
}

/// Shows an address
#[utoipa::path(get, path = "/frontier/{id}", tag = "frontier", params(("id" = String, Path,)),
    responses((status = 200, body = TaskView), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such address")))]
async fn show(
    State(api): State<Api>,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<TaskView>, Problem> {
    Ok(Json(find(&api, &id).await?.into()))
}

/// Asks for an address again, now
#[utoipa::path(post, path = "/frontier/{id}/retry", tag = "frontier", params(("id" = String, Path,)),
    responses((status = 200, body = TaskView),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such address"),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "It is under way, or its source is not followed")))]
async fn retry(
    State(api): State<Api>,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<TaskView>, Problem> {
    let task = find(&api, &id).await?;
    if one(&api, Act::Retry, &task).await? == 0 {
        let detail = "it is under way, or its source is not followed";
        return Err(Problem::conflict("spared", detail));
    }
    Ok(Json(find(&api, &id).await?.into()))
}

/// Forgets an address; what was read there stays
#[utoipa::path(delete, path = "/frontier/{id}", tag = "frontier", params(("id" = String, Path,)),
    responses((status = 204, description = "It is forgotten"),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such address"),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "It is under way, or a channel of a source")))]
async fn delete(
    State(api): State<Api>,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<StatusCode, Problem> {
    let task = find(&api, &id).await?;
    match one(&api, Act::Delete, &task).await? {
        0 => Err(Problem::conflict("spared", "it is under way, or a channel of a source")),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}

async fn one(api: &Api, act: Act, task: &Task) -> Result<u64, Problem> {
    let filter = TaskFilter { ids: vec![task.id], limit: 1, ..TaskFilter::default() };
    Ok(api.store.sweep(act, filter, false).await?.done)
}

/// What was done to many addresses.
#[derive(Debug, Serialize, ToSchema)]
struct Swept {
    done: u64,
    /// Left alone: under way, or others rely on them.
    spared: u64,
    dry_run: bool,
}

async fn sweep(api: &Api, act: Act, which: &Which) -> Result<Json<Swept>, Problem> {
    if !which.is_anything() {
        let detail = "nothing is selected: name ids, or a filter such as status";
        return Err(Problem::unusable("nothing_selected", detail));
    }
    let mut filter = which.filter(&*api.store).await?;
    if act == Act::Retry && filter.ids.is_empty() && filter.states.is_empty() {
        filter.states = vec![Stand::Dead];
    }
    let dry_run = which.dry_run.unwrap_or(false);
    let mut sum = Swept { done: 0, spared: 0, dry_run };
    filter.limit = BATCH;
    loop {
        let part = api.store.sweep(act, filter.clone(), dry_run).await?;
        sum.done += part.done;
        sum.spared += part.spared;
        match part.next {
            Some(next) => filter.after = Some(next),
            None => return Ok(Json(sum)),
        }
        // Whoever else waits for the writer comes first.
        tokio::task::yield_now().await;
    }
}

/// Asks for many addresses again, now; dead ones when no state is named
#[utoipa::path(post, path = "/frontier/retry", tag = "frontier", request_body = Which,
    responses((status = 200, body = Swept), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source or host")))]
async fn retry_many(
    State(api): State<Api>,
    _: Asked<Nothing>,
    Body(which): Body<Which>,
) -> Result<Json<Swept>, Problem> {
    sweep(&api, Act::Retry, &which).await
}

/// Forgets many addresses; what was read there stays
#[utoipa::path(post, path = "/frontier/delete", tag = "frontier", request_body = Which,
    responses((status = 200, body = Swept), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source or host")))]
async fn delete_many(
    State(api): State<Api>,
    _: Asked<Nothing>,
    Body(which): Body<Which>,
) -> Result<Json<Swept>, Problem> {
    sweep(&api, Act::Delete, &which).await
}
