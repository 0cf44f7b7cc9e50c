//! What a request says, read strictly: a parameter that nobody knows is a mistake, and the nearest one is
//! named.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use feedmill_formats::json::{self, JsonError, Limits};
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use super::body;
use super::listing::LINES;
use super::problem::Problem;

/// How large the JSON of a body may become in memory.
pub(super) const BODY_LIMITS: Limits = Limits { depth: 32, values: 20_000, nul: false };
/// Names that are further apart than this are not alike.
const ALIKE: f64 = 0.6;

/// The character that PostgreSQL cannot keep; nobody means it.
fn refuse_nul(what: &str, text: &str) -> Result<(), Problem> {
    match text.contains('\0') {
        true => Err(Problem::parameter(what, "has a character 0 in it")),
        false => Ok(()),
    }
}

/// Parameters of the query.
#[derive(Debug)]
pub(super) struct Asked<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + IntoParams> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let known: Vec<String> = T::into_params(|| None).into_iter().map(|it| it.name).collect();
        let mut seen: Vec<String> = Vec::new();
        let query = parts.uri.query().unwrap_or_default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            refuse_nul(&name, &value)?;
            if !known.iter().any(|one| *one == name) {
                return Err(unknown(&name, &known));
            }
            if seen.iter().any(|one| *one == name) {
                return Err(Problem::parameter(&name, "is given twice"));
            }
            seen.push(name.into_owned());
        }
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => {
                let told = error.body_text();
                let told = told.rsplit_once("string: ").map_or(told.as_str(), |(_, last)| last);
                let (field, message) = told.split_once(": ").unwrap_or(("query", told));
                Err(Problem::parameter(field, message))
            }
        }
    }
}

fn unknown(name: &str, known: &[String]) -> Problem {
    let nearest = known
        .iter()
        .map(|one| (strsim::jaro_winkler(name, one), one))
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .filter(|(alike, _)| *alike > ALIKE);
    let message = match nearest {
        Some((_, nearest)) => format!("is no parameter here; did you mean `{nearest}`?"),
        None if known.is_empty() => "is no parameter here; there are none".to_owned(),
        None => format!("is no parameter here; there are {}", known.join(", ")),
    };
    Problem::bad("unknown_parameter", format!("`{name}` {message}")).about(name, message)
}

/// No parameters at all.
#[derive(Debug, serde::Deserialize, IntoParams)]
pub(super) struct Nothing {}

/// A part of the path.
#[derive(Debug)]
pub(super) struct At<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for At<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = parts.uri.path();
        if path.contains("%00") {
            return Err(Problem::parameter("path", "has a character 0 in it"));
        }
        match Path::from_request_parts(parts, state).await {
            Ok(Path(part)) => Ok(Self(part)),
            Err(error) => Err(Problem::bad("bad_path", error.body_text())),
        }
    }
}

/// A body of JSON.
#[derive(Debug)]
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send + 'static> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not_json",
                "say Content-Type: application/json and write the body as JSON",
            ));
        }
        let body = body::receive(request).await?;
        if body.len() <= body::SMALL {
            return parse(&body).map(Self);
        }
        off_runtime(move || parse(&body)).await.map(Self)
    }
}

/// A body of JSON that may be missing.
#[derive(Debug)]
pub(super) struct Maybe<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Default + Send + 'static> FromRequest<S> for Maybe<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let empty = request.headers().get(header::CONTENT_TYPE).is_none();
        if empty && bytes_are_none(request.headers()) {
            return Ok(Self(T::default()));
        }
        Body::from_request(request, state).await.map(|Body(said)| Self(said))
    }
}

fn bytes_are_none(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH);
    let chunked = headers.contains_key(header::TRANSFER_ENCODING);
    !chunked && length.is_none_or(|length| length == "0")
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// Does what takes time where it holds up no other request.
pub(super) async fn off_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "request could not be read");
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Err(Problem::new(status, "internal", "the request could not be read"))
    })
}

/// Refuses JSON that is broken, or would become too large in memory.
pub(super) fn check_json(body: &[u8], limits: Limits) -> Result<(), Problem> {
    match json::check(body, limits) {
        Ok(_) => Ok(()),
        Err(JsonError::Syntax(message)) => Err(Problem::bad("bad_json", message)),
        Err(JsonError::Nul { field }) => Err(Problem::parameter(&field, "has a character 0 in it")),
        Err(error) => Err(Problem::unusable(error.code(), error.to_string())),
    }
}

/// Reads JSON.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    check_json(body, BODY_LIMITS)?;
    match Json::<T>::from_bytes(body) {
        Ok(Json(said)) => Ok(said),
        Err(JsonRejection::JsonDataError(error)) => {
            let told = error.body_text();
            let told = told.split_once("type: ").map_or(told.as_str(), |(_, last)| last);
            let (field, message) = told.split_once(": ").unwrap_or(("body", told));
            let detail = format!("`{field}`: {message}");
            Err(Problem::unusable("bad_body", detail).about(field, message))
        }
        Err(error) => Err(Problem::bad("bad_json", error.body_text())),
    }
}

/// Whether a list is wanted as lines of JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines(pub(super) bool);

impl<S: Send + Sync> FromRequestParts<S> for Lines {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let accept = parts.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        Ok(Self(accept.is_some_and(|accept| accept.contains(LINES))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_parameter_is_named() {
        let known = ["limit".to_owned(), "cursor".to_owned()];
        let told = |name| serde_json::to_value(unknown(name, &known)).unwrap()["detail"].clone();
        assert!(told("limits").as_str().unwrap().contains("did you mean `limit`?"));
        assert!(told("q").as_str().unwrap().contains("there are limit, cursor"));
    }

    #[test]
    fn a_character_0_is_refused_wherever_it_is() {
        for body in [r#"{"a":"\u0000"}"#, r#"{"a":[{"b\u0000":1}]}"#] {
            assert!(parse::<serde_json::Value>(body.as_bytes()).is_err(), "{body}");
        }
        assert!(parse::<serde_json::Value>(b"{\"a\":[null,1,true]}").is_ok());
    }

    #[test]
    fn what_grows_in_memory_is_refused_before_it_does() {
        let many = format!("[{}]", vec!["{}"; 300_000].join(","));
        for (body, code) in [("[".repeat(1 << 20), "too_deep"), (many, "too_many_values")] {
            let problem = parse::<serde_json::Value>(body.as_bytes()).unwrap_err();
            assert_eq!(problem.status(), 422);
            assert_eq!(serde_json::to_value(&problem).unwrap()["code"], code);
        }
    }
}
