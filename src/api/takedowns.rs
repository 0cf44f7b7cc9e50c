//! `/takedowns`: what was taken back for good, by whom and why. Only for administrators: what is taken down
//! does not come back.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::asked::{Asked, At, Body, Lines, Nothing};
use super::guard::Who;
use super::listing::{Page, Part};
use super::problem::Problem;
use super::views::TakedownView;
use crate::app::forget::{self, Bytes, ForgetError};
use crate::model::{Scope, Takedown};
use crate::store::takedown::Doomed;

/// The longest text that is kept about a takedown.
const LONGEST: usize = 2_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(lift))
}

impl From<ForgetError> for Problem {
    fn from(error: ForgetError) -> Self {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            ForgetError::Ambiguous(_) | ForgetError::Several(_) => {
                let message = "could be several: say address, host or source";
                Self::conflict(code, format!("`scope` {message}")).about("scope", message)
            }
            ForgetError::Unknown(_) => Self::unusable(code, detail.clone()).about("what", detail),
            ForgetError::NotDown(_) => {
                Self::not_found(code, "nothing that is taken down has this name")
            }
            ForgetError::Source(error) => error.into(),
            ForgetError::Db(error) => error.into(),
        }
    }
}

/// Lists takedowns, the last one first
#[utoipa::path(get, path = "/takedowns", tag = "takedowns", params(Part),
    responses((status = 200, body = Page<TakedownView>)))]
async fn list(
    State(api): State<Api>,
    lines: Lines,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    // Their number in the order of time is their place: none ever goes.
    let read = move |after: Option<usize>, limit| {
        let api = api.clone();
        async move {
            let mut all = api.store.takedowns().await?;
            let left = after.unwrap_or(all.len()).min(all.len());
            let items = all.split_off(all.len() - left).into_iter().take(limit);
            let items: Vec<_> = items.map(TakedownView::from).collect();
            let rest = left.saturating_sub(items.len());
            Ok((items, Some(rest).filter(|rest| *rest > 0)))
        }
    };
    part.wanted(lines).list(read).await
}

/// What to take down.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewTakedown {
    /// An address, a host, or the name or id of a source.
    what: String,
    /// Why, for the record; only a dry run goes without.
    why: Option<String>,
    /// What the name stands for, where it could be several: address, host or source.
    #[schema(value_type = Option<String>)]
    scope: Option<Scope>,
    /// On whose behalf, for the record; the name of the token when nothing is said.
    by: Option<String>,
    /// Only tells what would go.
    dry_run: Option<bool>,
}

impl NewTakedown {
    fn why(&self) -> Result<&str, Problem> {
        let why = self.why.as_deref().unwrap_or_default().trim();
        let by = self.by.as_deref().unwrap_or_default();
        if why.is_empty() {
            let message = "has to be said: it goes into the record";
            return Err(
                Problem::unusable("no_reason", format!("`why` {message}")).about("why", message)
            );
        }
        if why.len() > LONGEST || by.len() > LONGEST {
            let message = format!("is longer than {LONGEST} bytes");
            let field = if why.len() > LONGEST { "why" } else { "by" };
            return Err(
                Problem::unusable("bad_body", format!("`{field}` {message}")).about(field, message)
            );
        }
        Ok(why)
    }
}

/// How much would go.
#[derive(Debug, Serialize, ToSchema)]
struct WouldGo {
    /// What is meant, as people know it.
    name: String,
    articles: usize,
    entries: usize,
    /// Records of the archive.
    records: usize,
    /// Addresses of the queue.
    tasks: usize,
}

impl WouldGo {
    fn of(name: String, doomed: &Doomed) -> Self {
        let Doomed { articles, entries, fetches, tasks, .. } = doomed;
        let (articles, entries) = (articles.len(), entries.len());
        Self { name, articles, entries, records: fetches.len(), tasks: tasks.len() }
    }
}

/// What was taken down.
#[derive(Debug, Serialize, ToSchema)]
struct TakenDown {
    #[serde(flatten)]
    takedown: TakedownView,
    /// What became of the bytes in the archive: gone, `left_to_the_engine` (which takes them out within a
    /// minute), elsewhere (other machines' engines do) or waiting (for an engine to run).
    bytes: String,
}

/// Takes down an address, a host or all of a source, for good, and refuses it from then on
#[utoipa::path(post, path = "/takedowns", tag = "takedowns", request_body = NewTakedown,
    responses((status = 200, body = WouldGo, description = "What would go: it was a dry run"),
        (status = 201, body = TakenDown),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The name could stand for several: `scope` says which")))]
async fn create(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    _: Asked<Nothing>,
    Body(new): Body<NewTakedown>,
) -> Result<Response, Problem> {
    let store = &*api.store;
    if new.dry_run == Some(true) {
        let meant = forget::resolve(store, &new.what, new.scope).await?;
        let doomed = store.doomed(meant.target.clone()).await?;
        return Ok(Json(WouldGo::of(meant.name, &doomed)).into_response());
    }
    let why = new.why()?;
    let meant = forget::resolve(store, &new.what, new.scope).await?;
    let by = new.by.as_deref().map(str::trim).filter(|by| !by.is_empty()).unwrap_or(&who.name);
    let takedown = forget::forget(store, &meant, (by, why), &mut |_| {}).await?;
    let bytes = match forget::erase(&api.config, &api.clock, Arc::clone(&api.store)).await {
        Ok(Bytes::Gone) => "gone",
        Ok(Bytes::LeftToTheEngine) => "left_to_the_engine",
        Ok(Bytes::Elsewhere) => "elsewhere",
        Err(error) => {
            tracing::warn!(%error, "what was taken down waits in the archive for an engine");
            "waiting"
        }
    };
    let (takedown, bytes) = (TakedownView::from(takedown), bytes.to_owned());
    Ok((StatusCode::CREATED, Json(TakenDown { takedown, bytes })).into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Lift {
    /// What the name stands for, where it could be several: address, host or source.
    #[param(value_type = Option<String>)]
    scope: Option<Scope>,
}

/// Refuses no more what was taken down; what went does not come back
#[utoipa::path(delete, path = "/takedowns/{what}", tag = "takedowns",
    params(("what" = String, Path, description = "The address, host, or source's name or id"), Lift),
    responses((status = 200, body = TakedownView),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "Nothing that is taken down has this name"),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The name could stand for several: `scope` says which")))]
async fn lift(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    At(what): At<String>,
    Asked(Lift { scope }): Asked<Lift>,
) -> Result<Json<TakedownView>, Problem> {
    let store = &*api.store;
    let lifted = forget::undo(store, &what, scope, &who.name).await?;
    let is_it = |one: &Takedown| {
        (one.scope, &one.target, one.at) == (lifted.scope, &lifted.target, lifted.at)
    };
    let now = store.takedowns().await?.into_iter().find(is_it);
    Ok(Json(now.unwrap_or(lifted).into()))
}
