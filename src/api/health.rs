//! Whether it lives, whether it can work, and what it says about itself.

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
use super::readiness::{self, Ready};
use super::{Api, openapi};
use crate::app::etiquette::bot_page;
use crate::metrics::MEDIA_TYPE;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(document))
        .routes(routes!(metrics))
        .routes(routes!(bot))
}

/// Whether a path is one that monitors ask for: these have a share of the connections of their own.
pub(super) fn is_check(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/metrics")
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

/// Whether it can work: database, disk, the engine in this process, and whether one runs beside it
///
/// It answers within a few seconds, whatever hangs. Work that is paused or makes no progress is not
/// ready, and the check says why.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, body = Ready), (status = 503, body = Ready,
        description = "Something that is needed is missing, or work does not go on")))]
async fn readyz(State(api): State<Api>, _: Asked<Nothing>) -> Response {
    let found = readiness::ready(&api).await;
    let status = if found.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(found)).into_response()
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
