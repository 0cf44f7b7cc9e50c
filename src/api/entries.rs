//! `/entries`: what feeds say about their items.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::{Asked, At, Lines, Nothing};
use super::listing::{Page, Wanted};
use super::problem::Problem;
use super::views::EntryView;
use super::{Api, sources};
use crate::model::{EntryId, SourceId, TaskId, Ts, UrlHash};
use crate::store::browse::Found;
use crate::store::browse::entries::{EntryQuery, by_uid, entries};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show))
}

/// From when to when, and which part.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Since {
    /// First seen at or after this time.
    #[param(value_type = Option<String>, format = DateTime)]
    pub(super) since: Option<Ts>,
    /// First seen before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    pub(super) until: Option<Ts>,
    /// 1 to 1000, 50 when nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    pub(super) limit: Option<usize>,
    /// The `next` of the page before.
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListEntries {
    /// Of the feed with this id.
    feed: Option<String>,
    /// Of feeds of the source with this name or id.
    source: Option<String>,
    /// First seen at or after this time.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Ts>,
    /// First seen before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Ts>,
    /// 1 to 1000, 50 when nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Lists entries, newest first
#[utoipa::path(get, path = "/entries", tag = "entries", params(ListEntries),
    responses((status = 200, body = Page<EntryView>), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
async fn list(
    State(api): State<Api>,
    lines: Lines,
    Asked(asked): Asked<ListEntries>,
) -> Result<Response, Problem> {
    let ListEntries { feed, source, since, until, limit, cursor } = asked;
    let feed = feed.map(|id| task_id("feed", &id)).transpose()?;
    let source = sources::named(&api, source.as_deref()).await?;
    answer(api, lines, Since { since, until, limit, cursor }, feed, source).await
}

/// The task with a public id.
pub(super) fn task_id(field: &str, id: &str) -> Result<TaskId, Problem> {
    let task = id.parse().ok().and_then(TaskId::from_uuid);
    task.ok_or_else(|| Problem::parameter(field, "is no id that this API told"))
}

pub(super) async fn answer(
    api: Api,
    lines: Lines,
    asked: Since,
    feed: Option<TaskId>,
    source: Option<SourceId>,
) -> Result<Response, Problem> {
    let Since { since, until, limit, cursor } = asked;
    let query = EntryQuery { feed, source, since, until, ..EntryQuery::default() };
    let read = move |after, limit| {
        let (api, query) = (api.clone(), EntryQuery { after, limit, ..query.clone() });
        async move {
            let Found { items, next } = entries(&*api.store, &query).await?;
            Ok((items.into_iter().map(EntryView::listed).collect(), next))
        }
    };
    Wanted { lines, limit, cursor }.list(read).await
}

/// Shows an entry by its id, or by the id that its feed gives it
#[utoipa::path(get, path = "/entries/{uid}", tag = "entries", params(("uid" = String, Path,)),
    responses((status = 200, body = EntryView),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such entry"),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "Several feeds have one: `errors` names their ids")))]
pub(super) async fn show(
    State(api): State<Api>,
    At(uid): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<EntryView>, Problem> {
    if let Ok(id) = uid.parse::<UrlHash>()
        && let Some(entry) = api.store.entry(EntryId(*id.as_bytes())).await?
    {
        return Ok(Json(entry.into()));
    }
    let mut found = by_uid(&*api.store, &uid).await?;
    match (found.pop(), found.as_slice()) {
        (Some(entry), []) => Ok(Json(entry.into())),
        (Some(last), others) => {
            let detail = format!("{} feeds have an entry with this id", others.len() + 1);
            let all = others.iter().chain([&last]);
            let problem = Problem::conflict("ambiguous", detail);
            Err(all.fold(problem, |problem, entry| {
                problem.about(entry.id.to_string(), format!("of feed {}", entry.feed_id))
            }))
        }
        (None, _) => Err(Problem::not_found("unknown_entry", "no entry has this id")),
    }
}
