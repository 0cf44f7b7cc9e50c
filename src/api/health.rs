//! Whether it lives, whether it can work, and what it says about itself.

use std::path::Path;
use std::sync::LazyLock;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::{Asked, Nothing};
use super::problem::Problem;
use super::{Api, openapi};
use crate::app::etiquette::bot_page;
use crate::db::free_bytes;
use crate::metrics::MEDIA_TYPE;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(document))
        .routes(routes!(metrics))
        .routes(routes!(bot))
}

/// That it lives.
#[derive(Debug, Serialize, ToSchema)]
struct Alive {
    status: String,
}

/// Whether the process lives
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, body = Alive)))]
async fn healthz(_: Asked<Nothing>) -> Json<Alive> {
    Json(Alive { status: "ok".to_owned() })
}

/// Something that is needed.
#[derive(Debug, Serialize, ToSchema)]
struct Check {
    name: String,
    ok: bool,
    detail: String,
}

/// Whether it can work.
#[derive(Debug, Serialize, ToSchema)]
struct Ready {
    ready: bool,
    checks: Vec<Check>,
}

/// Whether it can work: database, disk, and whether an engine runs beside it
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, body = Ready), (status = 503, body = Ready,
        description = "Something that is needed is missing")))]
async fn readyz(State(api): State<Api>, _: Asked<Nothing>) -> Response {
    let checks = vec![database(&api).await, disk(&api), engine(&api).await];
    // Looking needs no engine: it is told, and that is all.
    let ready = checks.iter().all(|check| check.ok || check.name == "engine");
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Ready { ready, checks })).into_response()
}

fn check(name: &str, outcome: Result<String, String>) -> Check {
    let ok = outcome.is_ok();
    let detail = outcome.unwrap_or_else(|detail| detail);
    Check { name: name.to_owned(), ok, detail }
}

async fn database(api: &Api) -> Check {
    let asked = api.store.log_ends(0).await;
    let told = asked.map(|ends| format!("the log ends at {}", ends.last));
    check("database", told.map_err(|error| error.to_string()))
}

fn disk(api: &Api) -> Check {
    let wanted = api.config.retention.min_free.as_bytes();
    check(
        "disk",
        match free_bytes(kept_at(&api.config.data_dir)) {
            Ok(free) if free >= wanted => Ok(format!("{} MB are free", free / 1_000_000)),
            Ok(free) => Err(format!("only {} MB are free", free / 1_000_000)),
            Err(error) => Err(error.to_string()),
        },
    )
}

/// The directory, or the one in which it is going to be: beside PostgreSQL only engines make it.
fn kept_at(dir: &Path) -> &Path {
    dir.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("."))
}

async fn engine(api: &Api) -> Check {
    check(
        "engine",
        match api.store.engines().await {
            Ok(1..) => Ok("an engine runs".to_owned()),
            Ok(0) => Err("no engine runs: `feedmill run` starts one".to_owned()),
            Err(error) => Err(error.to_string()),
        },
    )
}

/// What this API is, as OpenAPI
#[utoipa::path(get, path = "/openapi.json", tag = "health",
    responses((status = 200, body = Object, content_type = "application/json")))]
async fn document(_: Asked<Nothing>) -> Result<Response, Problem> {
    static SAID: LazyLock<String> = LazyLock::new(openapi);
    Ok(([(header::CONTENT_TYPE, "application/json")], SAID.as_str()).into_response())
}

/// Figures for monitors, as `OpenMetrics`; those of the engine in this process
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, body = String, content_type = "application/openmetrics-text")))]
async fn metrics(State(api): State<Api>, _: Asked<Nothing>) -> Response {
    ([(header::CONTENT_TYPE, MEDIA_TYPE)], api.progress.metrics.render()).into_response()
}

/// Who asks publishers' servers and how to stop us: the page that the User-Agent may name
#[utoipa::path(get, path = "/bot", tag = "health",
    responses((status = 200, body = String, content_type = "text/html")))]
async fn bot(State(api): State<Api>, _: Asked<Nothing>) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (headers, bot_page(&api.config)).into_response()
}
