//! What a request says, read strictly: a parameter that nobody knows is a mistake, and the nearest one is
//! named.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use super::listing::LINES;
use super::problem::Problem;

/// The body of a request has to arrive within this time.
const PATIENCE: Duration = Duration::from_secs(30);
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

/// The whole body, as it came.
pub(super) async fn bytes(request: Request) -> Result<Bytes, Problem> {
    let read = Bytes::from_request(request, &());
    match tokio::time::timeout(PATIENCE, read).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the body is larger than `api.max_body` allows",
        )),
        Ok(Err(error)) => Err(Problem::bad("bad_body", error.body_text())),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "too_slow",
            "the body did not arrive in time",
        )),
    }
}

/// A body of JSON.
#[derive(Debug)]
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not_json",
                "say Content-Type: application/json and write the body as JSON",
            ));
        }
        parse(&bytes(request).await?).map(Self)
    }
}

/// A body of JSON that may be missing.
#[derive(Debug)]
pub(super) struct Maybe<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for Maybe<T> {
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

/// Reads JSON.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let broken = |error: serde_json::Error| Problem::bad("bad_json", error.to_string());
    let value: serde_json::Value = serde_json::from_slice(body).map_err(broken)?;
    without_nul("body", &value)?;
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

fn without_nul(at: &str, value: &serde_json::Value) -> Result<(), Problem> {
    use serde_json::Value;
    match value {
        Value::String(text) => refuse_nul(at, text),
        Value::Array(items) => items.iter().try_for_each(|item| without_nul(at, item)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            refuse_nul(at, name)?;
            without_nul(name, value)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
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
}
