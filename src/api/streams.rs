//! Answers that are written as they come to be: event streams, lists as lines, raw bodies.
//!
//! Each has a place among all streams and among those of its client, its connection is not closed to make
//! room, and its token is checked again every few seconds: a stream ends soon after its token was revoked.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, future, stream};
use tokio::sync::watch;

use super::Api;
use super::guard::{Access, access, bearer};
use super::limits::{Client, Permit, RequestScope};
use crate::store::gate::{self, Scope};

/// How often the tokens of open streams are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The path whose answer is always a stream: it is refused before anything is looked up.
const EVENTS: &str = "/api/v1/events/stream";
/// What an event stream says at its end.
const REVOKED: &[u8] =
    b"event: closed\ndata: {\"code\":\"unauthorized\",\"detail\":\"the token was revoked\"}\n\n";

/// The tokens that are valid, as far as streams have to know.
pub(super) type ValidTokens = watch::Sender<Arc<HashMap<String, Scope>>>;

/// Reads again and again which tokens are valid, while any stream depends on it.
pub(super) async fn check_tokens(api: Api) {
    loop {
        tokio::select! {
            () = api.stop.cancelled() => return,
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
        if api.tokens.receiver_count() == 0 {
            continue;
        }
        match gate::tokens(&*api.store).await {
            Ok(rows) => {
                let valid = rows.into_iter().map(|row| (row.id, row.scope)).collect();
                drop(api.tokens.send_replace(Arc::new(valid)));
            }
            // Without the database there is nothing to stream either.
            Err(error) => tracing::debug!(%error, "cannot check tokens of streams"),
        }
    }
}

/// Ends when a token may no longer be used for what it was used for.
async fn revoked(
    mut tokens: watch::Receiver<Arc<HashMap<String, Scope>>>,
    id: String,
    needed: Scope,
) {
    while tokens.changed().await.is_ok() {
        if tokens.borrow().get(&id).is_none_or(|scope| *scope < needed) {
            return;
        }
    }
    future::pending().await
}

/// The part of the token of a request that is no secret.
fn token_id(headers: &HeaderMap) -> Option<String> {
    bearer(headers).and_then(gate::id_of)
}

/// Counts and watches answers that are streams.
pub(super) async fn limit(State(api): State<Api>, request: Request, next: Next) -> Response {
    let Some(scope) = request.extensions().get::<Arc<RequestScope>>().cloned() else {
        return next.run(request).await;
    };
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map_or("", MatchedPath::as_str);
    let needed = match access(request.method().as_str(), path) {
        Access::Scope(needed) => needed,
        Access::Everybody => Scope::Read,
    };
    let id = token_id(request.headers());
    let client = id.clone().map_or_else(|| scope.client.clone(), Client::Token);
    let early = match path == EVENTS {
        true => match scope.limits.stream(&client) {
            Ok(permit) => Some(permit),
            Err(problem) => return problem.into_response(),
        },
        false => None,
    };
    let response = next.run(request).await;
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let permit = match early.map_or_else(|| scope.limits.stream(&client), Ok) {
        Ok(permit) => permit,
        Err(problem) => return problem.into_response(),
    };
    match id {
        Some(id) => {
            let revoked = revoked(api.tokens.subscribe(), id, needed);
            counted(response, permit, &scope, Some(revoked))
        }
        None => counted(response, permit, &scope, None::<future::Pending<()>>),
    }
}

/// The answer, which holds its places as long as it lasts and ends when `revoked` does.
fn counted(
    response: Response,
    permit: Permit,
    scope: &RequestScope,
    revoked: Option<impl Future<Output = ()> + Send + 'static>,
) -> Response {
    let (parts, body) = response.into_parts();
    let held = (permit, scope.connection.busy());
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_events = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
    let is_over = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&is_over);
    let until = async move {
        match revoked {
            Some(revoked) => revoked.await,
            None => future::pending().await,
        }
        noted.store(true, Ordering::Relaxed);
    };
    let last = stream::once(async move {
        match (is_over.load(Ordering::Relaxed), is_events) {
            (false, _) => None,
            (true, true) => Some(Ok(Bytes::from_static(REVOKED))),
            // Lines that end early must not look complete.
            (true, false) => Some(Err(axum::Error::new("the token was revoked"))),
        }
    });
    let data = body.into_data_stream().take_until(Box::pin(until));
    let whole = data.chain(last.filter_map(future::ready)).map(move |chunk| {
        let _held = &held;
        chunk
    });
    Response::from_parts(parts, Body::from_stream(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_when_its_token_is_gone_or_may_less() {
        for (now, ends) in
            [(vec![("a", Scope::Read)], false), (vec![("b", Scope::Admin)], true), (vec![], true)]
        {
            let tokens = watch::Sender::new(Arc::default());
            let ended = revoked(tokens.subscribe(), "a".to_owned(), Scope::Read);
            let valid = now.into_iter().map(|(id, scope)| (id.to_owned(), scope)).collect();
            tokens.send_replace(Arc::new(valid));
            let ended = tokio::time::timeout(Duration::from_secs(1), ended).await.is_ok();
            assert_eq!(ended, ends);
        }
        let tokens = watch::Sender::new(Arc::default());
        let less = revoked(tokens.subscribe(), "a".to_owned(), Scope::Write);
        tokens.send_replace(Arc::new([("a".to_owned(), Scope::Read)].into()));
        assert!(tokio::time::timeout(Duration::from_secs(1), less).await.is_ok());
    }
}
