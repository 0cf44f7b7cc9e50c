//! Large responses that are made whole before they are sent: few are made at a time, and those that wait
//! to be read have a limit together. Clients that never read could otherwise fill the memory with pages of
//! lists. Streams are counted elsewhere.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;

use super::health::is_check;
use super::limits::RequestScope;

/// Smaller responses are not counted.
const LARGE: u64 = 256 << 10;

/// A response is handed to the connection in parts of this size: it copies what it gets.
const PART: usize = 64 << 10;

/// Makes room for a response, or refuses the request.
pub(super) async fn limit(request: Request, next: Next) -> Response {
    let scope = request.extensions().get::<Arc<RequestScope>>().cloned();
    // Health checks never wait.
    let Some(scope) = scope.filter(|_| !is_check(request.uri().path())) else {
        return next.run(request).await;
    };
    // What changes something may take long, and does not wait for those who read.
    let making = match request.method() == Method::GET {
        true => match scope.limits.making().await {
            Ok(making) => Some(making),
            Err(problem) => return problem.into_response(),
        },
        false => None,
    };
    let response = next.run(request).await;
    let (mut head, body) = response.into_parts();
    let size = body.size_hint().exact();
    let Some(size) = size.filter(|size| *size > LARGE) else {
        return Response::from_parts(head, body);
    };
    let memory = match scope.limits.response_memory(size) {
        Ok(memory) => memory,
        Err(problem) => return problem.into_response(),
    };
    drop(making);
    // A body that is whole already cannot fail.
    let mut rest = to_bytes(body, usize::MAX).await.unwrap_or_default();
    head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(rest.len()));
    let parts = std::iter::from_fn(move || {
        let _until_sent = &memory;
        let part = rest.split_to(rest.len().min(PART));
        (!part.is_empty()).then_some(Ok::<_, Infallible>(part))
    });
    Response::from_parts(head, Body::from_stream(stream::iter(parts)))
}
