//! Bodies of requests on their way in: each has a limit in bytes, a least speed, and a share of memory.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::limits::RequestScope;
use super::problem::Problem;
use crate::config;

/// A body may be late by this much, however little of it there is.
const GRACE: Duration = Duration::from_secs(10);
/// And has to bring so many bytes a second.
const LEAST_RATE: u32 = 32 << 10;
/// Bodies up to this size need no share of the memory.
pub(super) const SMALL: usize = 16 << 10;

/// Paths that take lists, which may be larger than other bodies.
const UPLOADS: [&str; 2] = ["/api/v1/sources/import", "/api/v1/frontier/submit/bulk"];

/// The most bytes of a body, and the setting that says so.
pub(super) fn limit_of(path: &str, config: &config::Api) -> (u64, &'static str) {
    match UPLOADS.contains(&path) {
        true => (config.max_upload.as_bytes(), "api.max_upload"),
        false => (config.max_body.as_bytes(), "api.max_body"),
    }
}

pub(super) fn too_large(key: &str) -> Problem {
    let detail = format!("the body is larger than `{key}` allows");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
}

/// The length that a body says it has.
pub(super) fn claimed_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The whole body of a request.
pub(super) async fn receive(request: Request) -> Result<Bytes, Problem> {
    let (scope, length) = scope_and_length(&request);
    let Some(scope) = scope else {
        return read(request.into_body(), 1 << 20, "api.max_body").await;
    };
    let most = scope.limits.max_body;
    if length.is_some_and(|length| length > most) {
        return Err(too_large("api.max_body"));
    }
    // Those that wait for memory are counted as well: otherwise they take the places of all other requests.
    let _receiving = scope.limits.body(&scope.client)?;
    if length.is_none_or(|length| length > SMALL) && !request.body().is_end_stream() {
        scope.hold(scope.limits.memory(length.unwrap_or(most)).await?);
    }
    read(request.into_body(), most, "api.max_body").await
}

/// The whole body of a request that brings a list. Few of them are taken at a time: the turn lasts until
/// the request is answered.
pub(super) async fn receive_upload(request: Request) -> Result<Bytes, Problem> {
    let (scope, length) = scope_and_length(&request);
    let Some(scope) = scope else {
        return read(request.into_body(), 1 << 20, "api.max_upload").await;
    };
    let most = scope.limits.max_upload;
    if length.is_some_and(|length| length > most) {
        return Err(too_large("api.max_upload"));
    }
    // Those that wait for their turn are counted as well.
    let _receiving = scope.limits.body(&scope.client)?;
    if length.is_none_or(|length| length > SMALL) {
        scope.hold(scope.limits.upload().await?);
    }
    read(request.into_body(), most, "api.max_upload").await
}

fn scope_and_length(request: &Request) -> (Option<std::sync::Arc<RequestScope>>, Option<usize>) {
    let scope = request.extensions().get::<std::sync::Arc<RequestScope>>().cloned();
    let length = claimed_length(request.headers());
    (scope, length.map(|length| usize::try_from(length).unwrap_or(usize::MAX)))
}

/// When a body is too late, having brought so many bytes.
fn deadline(began: Instant, bytes: usize) -> Instant {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    began + GRACE + Duration::from_secs_f64(f64::from(bytes) / f64::from(LEAST_RATE))
}

async fn read(body: Body, most: usize, key: &'static str) -> Result<Bytes, Problem> {
    let expected = body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(most));
    let mut received = Vec::with_capacity(expected.unwrap_or(0).min(most));
    let (began, mut chunks) = (Instant::now(), body.into_data_stream());
    loop {
        let next = tokio::time::timeout_at(deadline(began, received.len()), chunks.next()).await;
        let chunk = match next {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => return Err(Problem::bad("bad_body", error.to_string())),
            Ok(None) => return Ok(received.into()),
            Err(_) => {
                let (status, detail) =
                    (StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
                return Err(Problem::new(status, "too_slow", detail));
            }
        };
        if received.len() + chunk.len() > most {
            return Err(too_large(key));
        }
        if received.len() + chunk.len() > received.capacity() && received.len() > 1 << 20 {
            // One step instead of many doublings, each of which has two copies for a moment.
            received.reserve_exact(most - received.len());
        }
        received.extend_from_slice(&chunk);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[test]
    fn lists_have_a_limit_of_their_own() {
        let config = config::Api::default();
        assert_eq!(limit_of("/api/v1/sources", &config), (1_000_000, "api.max_body"));
        assert_eq!(limit_of("/api/v1/sources/import", &config), (32_000_000, "api.max_upload"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_is_given_up_and_a_slow_one_is_not() {
        let stopped = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{"))]);
        let stopped = Body::from_stream(stopped.chain(stream::pending()));
        let began = Instant::now();
        let refused = read(stopped, 1_000, "api.max_body").await.unwrap_err();
        assert_eq!(refused.status(), 408);
        assert!(began.elapsed() < GRACE * 2, "{:?}", began.elapsed());

        let slow = stream::unfold(0, async |n: u32| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let chunk = Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; LEAST_RATE as usize]));
            (n < 60).then_some((chunk, n + 1))
        });
        let body = read(Body::from_stream(slow), 10 << 20, "api.max_body").await.unwrap();
        assert_eq!(body.len(), 60 * LEAST_RATE as usize);
    }

    #[tokio::test]
    async fn a_body_without_a_length_ends_at_the_limit() {
        let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![0; 1_000])));
        let refused = read(Body::from_stream(endless), 10_000, "api.max_body").await.unwrap_err();
        assert_eq!(refused.status(), 413);
    }
}
