//! Who I am, what is set, what was changed by whom, and why things are as they are.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::asked::{Asked, At, Body, Lines, Nothing};
use super::guard::Who;
use super::listing::{Page, Part, cut, whole};
use super::problem::Problem;
use super::views::{AuditView, Time, TokenView};
use crate::app::explain::{ExplainError, Explanation, explain};
use crate::config::{Change, change_of, values};
use crate::store::gate::{self, AuditRow};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(me))
        .routes(routes!(config))
        .routes(routes!(set, unset))
        .routes(routes!(explained))
        .routes(routes!(audit))
        .routes(routes!(tokens))
}

/// Who asks.
#[derive(Debug, Serialize, ToSchema)]
struct Me {
    /// The name of the token; `local`, `unix socket` or `login link` where it is none of the store's.
    name: String,
    /// read, write or admin.
    scope: String,
    /// Whether no token was needed.
    open: bool,
    /// What time it is here.
    at: Time,
    /// How fast time runs here: more than 1 on the clock of a demonstration.
    rate: f64,
}

/// Tells who asks, what that may do, and what time it is
#[utoipa::path(get, path = "/me", tag = "admin", responses((status = 200, body = Me)))]
async fn me(State(api): State<Api>, Extension(who): Extension<Who>, _: Asked<Nothing>) -> Json<Me> {
    Json(Me {
        name: who.name,
        scope: who.scope.to_string(),
        open: who.open,
        at: Time(api.clock.now()),
        rate: api.clock.scale().map_or(1.0, |scale| scale.rate),
    })
}

/// A setting.
#[derive(Debug, Serialize, ToSchema)]
struct Setting {
    key: String,
    /// Text, a number, a truth or a list; secrets are hidden.
    value: serde_json::Value,
    /// default, profile, file, env, flag or store (set through the API or `config set`).
    origin: String,
    /// How it can be changed: `running` (here), `at_start` or `file_only` (in the configuration file).
    change: String,
}

/// What is set.
#[derive(Debug, Serialize, ToSchema)]
struct Settings {
    values: Vec<Setting>,
}

/// Shows what is set, and by what; secrets are hidden
#[utoipa::path(get, path = "/config", tag = "admin", responses((status = 200, body = Settings)))]
async fn config(State(api): State<Api>, _: Asked<Nothing>) -> Result<Json<Settings>, Problem> {
    let loaded = api.reload.with(api.store.settings().await?).await?;
    let values = values_of(&loaded);
    Ok(Json(Settings { values }))
}

fn values_of(loaded: &crate::config::Loaded) -> Vec<Setting> {
    let setting = |(key, value, origin): (String, _, _)| {
        let change = match change_of(&key) {
            Change::Running => "running",
            Change::AtStart => "at_start",
            Change::FileOnly => "file_only",
        };
        Setting { key, value, origin, change: change.to_owned() }
    };
    values(loaded).into_iter().map(setting).collect()
}

/// The value of a setting, as in the environment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewValue {
    value: String,
}

/// A setting that was changed.
#[derive(Debug, Serialize, ToSchema)]
struct Changed {
    key: String,
    value: String,
}

/// Changes a setting of the running installation; engines take it over within `sources.reload_interval`
#[utoipa::path(put, path = "/config/{key}", tag = "admin", params(("key" = String, Path,)),
    request_body = NewValue, responses((status = 200, body = Changed), (status = 403, body = Problem,
        content_type = "application/problem+json",
        description = "The scope is too small, or the key is changed in the configuration file only")))]
async fn set(
    State(api): State<Api>,
    At(key): At<String>,
    _: Asked<Nothing>,
    Body(NewValue { value }): Body<NewValue>,
) -> Result<Json<Changed>, Problem> {
    api.reload.set(&*api.store, &key, &value).await?;
    Ok(Json(Changed { key, value }))
}

/// Forgets what was changed
#[utoipa::path(delete, path = "/config/{key}", tag = "admin", params(("key" = String, Path,)),
    responses((status = 204, description = "File, environment and defaults count again"),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "It was not changed")))]
async fn unset(
    State(api): State<Api>,
    At(key): At<String>,
    _: Asked<Nothing>,
) -> Result<StatusCode, Problem> {
    match api.store.keep_setting(&key, None).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::not_found("not_set", "it was not set at run time")),
    }
}

/// Lists what was changed through the API, and by whom, and refused logins, newest first
#[utoipa::path(get, path = "/audit", tag = "admin", params(Part),
    responses((status = 200, body = Page<AuditView>)))]
async fn audit(
    State(api): State<Api>,
    lines: Lines,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let read = move |before, limit| {
        let api = api.clone();
        async move {
            let rows = gate::audit(&*api.store, before, limit + 1).await?;
            Ok(cut(rows, limit, |row: &AuditRow| row.id, AuditView::from))
        }
    };
    part.wanted(lines).list(read).await
}

/// Lists who may use the API; tokens are made and revoked by `feedmill token`
#[utoipa::path(get, path = "/tokens", tag = "admin", responses((status = 200, body = Page<TokenView>)))]
async fn tokens(
    State(api): State<Api>,
    lines: Lines,
    _: Asked<Nothing>,
) -> Result<Response, Problem> {
    let rows = gate::tokens(&*api.store).await?;
    Ok(whole(lines, rows.into_iter().map(TokenView::from).collect()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Why {
    /// An address, a source's name or id, or a host.
    q: String,
}

/// Tells why an address, a source or a host is where it is, and when it comes up again
#[utoipa::path(get, path = "/explain", tag = "admin", params(Why),
    responses((status = 200, body = Object, description = "The trail of decisions"),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "Nothing is known of it")))]
async fn explained(
    State(api): State<Api>,
    Asked(Why { q }): Asked<Why>,
) -> Result<Json<Explanation>, Problem> {
    match explain(q.trim(), &api.config, &*api.store, api.clock.now()).await {
        Ok(told) => Ok(Json(told)),
        Err(ExplainError::Db(error)) => Err(error.into()),
        Err(error) => Err(Problem::not_found("unknown_address", error.to_string())),
    }
}
