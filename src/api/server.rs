//! Connections: so many at a time, each of which has to say what it wants within a while.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::guard::Peer;
use super::impatient::Impatient;
use crate::config;

/// The head of a request has to arrive within this time, also on a connection that is kept.
const HEAD: Duration = Duration::from_secs(10);
/// Lines in the head of a request.
const LINES: usize = 100;
/// Bytes of the head of a request.
const BYTES: usize = 64 << 10;
/// Whoever reads nothing of an answer for so long is put out.
const UNREAD: Duration = Duration::from_secs(60);
/// What is under way gets this long when the server stops.
const LAST: Duration = Duration::from_secs(5);
/// After a connection could not be taken.
const REST: Duration = Duration::from_millis(50);

pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    config: &config::Api,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(config.max_connections));
    let connections = TaskTracker::new();
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => break,
            Ok(place) = Arc::clone(&places).acquire_owned() => place,
        };
        let taken = tokio::select! {
            () = stop.cancelled() => break,
            taken = listener.accept() => taken,
        };
        match taken {
            Ok((stream, peer)) => {
                let (router, stop) = (router.clone(), stop.clone());
                connections.spawn(async move {
                    connection(stream, Peer(peer), router, stop).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Too many open files, or a client that is gone: neither is a reason to stop.
                tracing::debug!(%error, "a connection could not be taken");
                tokio::time::sleep(REST).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(LAST, connections.wait()).await.is_err() {
        tracing::warn!("requests were under way when the HTTP server stopped");
    }
}

async fn connection(stream: TcpStream, peer: Peer, router: Router, stop: CancellationToken) {
    let answer = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        async move { Ok::<_, Infallible>(answer(request, peer, router).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_headers(LINES)
        .max_buf_size(BYTES)
        .serve_connection(TokioIo::new(Impatient::new(stream, UNREAD)), answer);
    tokio::pin!(connection);
    let done = tokio::select! {
        done = connection.as_mut() => done,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = done {
        tracing::trace!(%error, "a connection broke");
    }
}

/// Answers. HEAD is GET without the body, so that whatever a GET says of itself is said.
async fn answer(request: hyper::Request<Incoming>, peer: Peer, router: Router) -> Response {
    let mut request: Request = request.map(Body::new);
    let only_head = request.method() == Method::HEAD;
    if only_head {
        *request.method_mut() = Method::GET;
    }
    request.extensions_mut().insert(peer);
    let Ok(response) = router.oneshot(request).await;
    if !only_head {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(parts, Body::empty())
}
