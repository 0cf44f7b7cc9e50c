//! `/sinks`: who gets the events, how far each has come, and what its target would not have.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::asked::{Asked, At, Body, Lines, Maybe, Nothing};
use super::listing::{Page, Part, cut, whole};
use super::problem::Problem;
use super::views::{LetterView, SinkView};
use crate::app::sinks::{SinkStanding, key, sinks, wish};
use crate::app::{cursor_name, deliver};
use crate::config::StartAt;
use crate::store::outbox::{DeadLetter, SinkWish, Start};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, forget))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(replay))
        .routes(routes!(retry))
        .routes(routes!(test))
        .routes(routes!(dead_letters))
}

/// Lists all sinks
#[utoipa::path(get, path = "/sinks", tag = "sinks", responses((status = 200, body = Page<SinkView>)))]
async fn list(
    State(api): State<Api>,
    lines: Lines,
    _: Asked<Nothing>,
) -> Result<Response, Problem> {
    let all = sinks(&*api.store, &api.config, api.clock.now()).await?;
    Ok(whole(lines, all.into_iter().map(SinkView::from).collect()))
}

fn unknown() -> Problem {
    Problem::not_found("unknown_sink", "no sink has this name")
}

async fn known(api: &Api, name: &str) -> Result<String, Problem> {
    key(name, &*api.store, &api.config).await?.ok_or_else(unknown)
}

async fn viewed(api: &Api, key: &str) -> Result<Json<SinkView>, Problem> {
    let all = sinks(&*api.store, &api.config, api.clock.now()).await?;
    let found = all.into_iter().find(|sink: &SinkStanding| sink.row.name == key);
    found.map(|sink| Json(sink.into())).ok_or_else(unknown)
}

/// Shows a sink
#[utoipa::path(get, path = "/sinks/{name}", tag = "sinks", params(("name" = String, Path,)),
    responses((status = 200, body = SinkView), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such sink")))]
async fn show(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<SinkView>, Problem> {
    let key = known(&api, &name).await?;
    viewed(&api, &key).await
}

async fn wished(api: &Api, name: &str, wanted: SinkWish) -> Result<Json<SinkView>, Problem> {
    let key = known(api, name).await?;
    wish(&key, wanted, &*api.store).await?;
    viewed(api, &key).await
}

/// Delivers nothing until the sink is resumed; nothing is lost
#[utoipa::path(post, path = "/sinks/{name}/pause", tag = "sinks", params(("name" = String, Path,)),
    responses((status = 200, body = SinkView), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such sink")))]
async fn pause(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<SinkView>, Problem> {
    wished(&api, &name, SinkWish::Pause).await
}

/// Goes on where the sink was paused
#[utoipa::path(post, path = "/sinks/{name}/resume", tag = "sinks", params(("name" = String, Path,)),
    responses((status = 200, body = SinkView), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such sink")))]
async fn resume(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<SinkView>, Problem> {
    wished(&api, &name, SinkWish::Resume).await
}

/// From where events are delivered again: one of the two.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct From {
    /// beginning, now, or a time such as 2026-11-01T00:00:00Z.
    from: Option<String>,
    /// After this place of the log.
    after: Option<i64>,
}

/// Delivers events again, from a place or time on
#[utoipa::path(post, path = "/sinks/{name}/replay", tag = "sinks", params(("name" = String, Path,)),
    request_body = From,
    responses((status = 200, body = SinkView), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such sink")))]
async fn replay(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
    Body(said): Body<From>,
) -> Result<Json<SinkView>, Problem> {
    let start = match (said.from, said.after) {
        (None, Some(seq)) => Start::After(seq.max(0)),
        (Some(text), None) => match text.parse::<StartAt>() {
            Ok(StartAt::Beginning) => Start::Beginning,
            Ok(StartAt::Now) => Start::Now,
            Ok(StartAt::Time(at)) => Start::At(at),
            Err(error) => {
                let message = error.to_string();
                return Err(Problem::unusable("bad_body", message.clone()).about("from", message));
            }
        },
        _ => {
            let message = "say `from` or `after`, one of the two";
            return Err(Problem::unusable("bad_body", message).about("from", message));
        }
    };
    wished(&api, &name, SinkWish::Replay(start)).await
}

/// Which dead letters, and what becomes of them.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct Retry {
    /// Only this event.
    seq: Option<i64>,
    /// Gives them up instead.
    give_up: bool,
}

/// How many events it was done to.
#[derive(Debug, Serialize, ToSchema)]
struct Retried {
    events: u64,
}

/// Sends events again that the sink's target would not have, or gives them up
#[utoipa::path(post, path = "/sinks/{name}/retry", tag = "sinks", params(("name" = String, Path,)),
    request_body(content = Option<Retry>),
    responses((status = 200, body = Retried), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such sink")))]
async fn retry(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
    Maybe(said): Maybe<Retry>,
) -> Result<Json<Retried>, Problem> {
    let key = known(&api, &name).await?;
    let wanted = if said.give_up { SinkWish::Drop(said.seq) } else { SinkWish::Again(said.seq) };
    Ok(Json(Retried { events: api.store.wish(&key, wanted).await? }))
}

/// Whether a sink's target would take something.
#[derive(Debug, Serialize, ToSchema)]
struct Fine {
    ok: bool,
    /// What the target says of itself.
    target: String,
}

/// Looks whether a sink's target would take something; nothing is delivered
#[utoipa::path(post, path = "/sinks/{name}/test", tag = "sinks", params(("name" = String, Path,)),
    responses((status = 200, body = Fine),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such sink, or it is not configured"),
        (status = 424, body = Problem, content_type = "application/problem+json",
            description = "Its target would not")))]
async fn test(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<Fine>, Problem> {
    let store = Arc::clone(&api.store);
    let Some((mut sink, _)) = deliver::sink(&name, &api.config, &api.clock, &store)? else {
        return Err(unknown());
    };
    let failed = |error: crate::sinks::SinkError| {
        Problem::new(StatusCode::FAILED_DEPENDENCY, error.code(), error.to_string())
    };
    let target = sink.check().await.map_err(failed)?;
    Ok(Json(Fine { ok: true, target }))
}

/// Lists events that a sink's target would not have
#[utoipa::path(get, path = "/sinks/{name}/dead_letters", tag = "sinks",
    params(("name" = String, Path,), Part),
    responses((status = 200, body = Page<LetterView>), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such sink")))]
async fn dead_letters(
    State(api): State<Api>,
    lines: Lines,
    At(name): At<String>,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let key = known(&api, &name).await?;
    let read = move |after: Option<i64>, limit| {
        let (api, key) = (api.clone(), key.clone());
        async move {
            let after = after.unwrap_or(0);
            let found = api.store.dead_letters(&key, after, false, limit + 1).await?;
            Ok(cut(found, limit, |letter: &DeadLetter| letter.seq, LetterView::from))
        }
    };
    part.wanted(lines).list(read).await
}

/// Gives up the place of a sink that is no longer configured, so that the log need not be kept for it
#[utoipa::path(delete, path = "/sinks/{name}", tag = "sinks", params(("name" = String, Path,)),
    responses((status = 204, description = "It is forgotten"),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such sink"),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "It is configured")))]
async fn forget(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
) -> Result<StatusCode, Problem> {
    let key = known(&api, &name).await?;
    if api.config.sinks.keys().any(|it| cursor_name(&api.config, it) == key) {
        let detail = "it is configured: take it out of the configuration first";
        return Err(Problem::conflict("sink_configured", detail));
    }
    wish(&key, SinkWish::Forget, &*api.store).await?;
    Ok(StatusCode::NO_CONTENT)
}
