//! Connections: so many at a time, each of which has to say what it wants within a while.
//!
//! All are accepted at once: what a connection is for is only known when its first request has arrived.
//! Room is made by closing idle ones (`connections`), and requests have shares (`limits`).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{Extensions, HeaderValue, Method, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::Api;
use super::connections::{Admitted, Connection};
use super::guard::Peer;
use super::health::is_check;
use super::impatient::Impatient;
use super::limits::{ApiLimits, Client, RequestScope};
use super::local_user::LocalUser;

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
/// Connections that the system keeps for us until they are accepted.
const BACKLOG: u32 = 4_096;
/// After a connection could not be taken.
const REST: Duration = Duration::from_millis(50);

/// Listens. Those who connect while many others do wait in a longer row than usual.
pub(super) fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

pub(super) async fn serve(listener: TcpListener, router: Router, api: &Api) {
    let stop = &api.stop;
    let connections = TaskTracker::new();
    loop {
        let taken = tokio::select! {
            () = stop.cancelled() => break,
            taken = listener.accept() => taken,
        };
        match taken {
            Ok((stream, peer)) => {
                let Some(admitted) = api.connections.admit(Client::at(peer.ip())) else {
                    api.limits.refused("connections");
                    continue;
                };
                let mut about = Extensions::new();
                about.insert(Peer(peer));
                if let Ok(own) = stream.local_addr() {
                    about.insert(LocalUser::new(peer, own));
                }
                let served = Served::new(router.clone(), api, Client::at(peer.ip()), about);
                connections.spawn(connection(stream, admitted, served, stop.clone()));
            }
            Err(error) => {
                // Too many open files, or a client that is gone: neither is a reason to stop.
                tracing::debug!(%error, "cannot accept connection");
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

/// What answers the requests of a connection.
#[derive(Clone)]
pub(super) struct Served {
    router: Router,
    limits: Arc<ApiLimits>,
    client: Client,
    /// What requests are to know of their connection: who is at its other end.
    about: Extensions,
}

impl Served {
    pub(super) fn new(router: Router, api: &Api, client: Client, about: Extensions) -> Self {
        Self { router, limits: Arc::clone(&api.limits), client, about }
    }
}

/// Serves one connection.
pub(super) async fn connection<S>(
    stream: S,
    admitted: Admitted,
    served: Served,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let own = Arc::clone(&admitted.connection);
    let answer = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let (served, own) = (served.clone(), Arc::clone(&own));
        async move { Ok::<_, Infallible>(answer(request, served, own).await) }
    });
    let own = Arc::clone(&admitted.connection);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_headers(LINES)
        .max_buf_size(BYTES)
        .serve_connection(TokioIo::new(Impatient::new(stream, UNREAD, own)), answer);
    tokio::pin!(connection);
    let done = tokio::select! {
        done = connection.as_mut() => done,
        () = admitted.connection.closed() => return,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = done {
        tracing::trace!(%error, "connection broke");
    }
}

/// Answers, as long as there is room for another request.
async fn answer(
    request: hyper::Request<Incoming>,
    served: Served,
    connection: Arc<Connection>,
) -> Response {
    let _busy = connection.busy();
    let Served { router, limits, client, about } = served;
    let _permit = match limits.request(&client, is_check(request.uri().path())) {
        Ok(permit) => permit,
        Err(problem) => {
            let mut response = problem.into_response();
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
            return response;
        }
    };
    let scope = RequestScope::new(limits, client, connection);
    let mut request: Request = request.map(Body::new);
    request.extensions_mut().extend(about);
    // What is held for the request is held here until it is answered.
    request.extensions_mut().insert(Arc::clone(&scope));
    routed(request, router).await
}

/// Answers. HEAD is GET without the body, so that whatever a GET says of itself is said.
async fn routed(mut request: Request, router: Router) -> Response {
    let only_head = request.method() == Method::HEAD;
    if only_head {
        *request.method_mut() = Method::GET;
    }
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
