//! `/events`: what happened, in the order of the log, and as it happens.
//!
//! A place in the log (`seq`) is all that whoever follows it has to remember: nothing is missed and
//! nothing comes twice, however often a connection breaks.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use serde::Deserialize;
use tokio::sync::watch;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::{Asked, Lines};
use super::listing::{Page, Wanted, lines_of, next_batch, place, whole, written};
use super::problem::Problem;
use super::views::EventView;
use super::{Api, sources};
use crate::db::DbError;
use crate::model::{Event, EventKind, KindPattern, SourceId, Ts};
use crate::store::browse::events;
use crate::store::browse::sources::by_ids;
use crate::store::{EventFilter, Store};

/// Events that are read at once for whoever follows, at the most and at first.
const STRETCH: usize = 500;
const FIRST_BATCH: usize = 4;
/// Bytes of events that are read at once, as far as can be told from those before.
const BATCH_BYTES: usize = 256 << 10;
/// Something is said at least so often, so that whoever follows knows that it is heard.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(follow))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListEvents {
    /// After this place of the log.
    after: Option<i64>,
    /// Of these kinds, with commas between: `article.new`, `entry.*`.
    kinds: Option<String>,
    /// Of the source with this name or id.
    source: Option<String>,
    /// At or after this time.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Ts>,
    /// The last ones instead of the first ones.
    latest: Option<bool>,
    /// Goes on with what happens; only as lines.
    follow: Option<bool>,
    /// 1 to 1000, 50 when nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

async fn filter(
    api: &Api,
    kinds: Option<&str>,
    source: Option<&str>,
) -> Result<EventFilter, Problem> {
    let patterns = kinds.unwrap_or_default().split(',').map(str::trim);
    let patterns = patterns.filter(|one| !one.is_empty()).map(|one| {
        one.parse::<KindPattern>().map_err(|error| Problem::parameter("kinds", error.to_string()))
    });
    let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
    let wanted = |kind: &&EventKind| patterns.iter().any(|pattern| pattern.fits(**kind));
    let source = sources::named(api, source).await?;
    let kinds = EventKind::ALL.iter().filter(wanted).copied().collect();
    Ok(EventFilter { kinds, source, ..EventFilter::default() })
}

async fn viewed(store: &dyn Store, events: Vec<Event>) -> Result<Vec<EventView>, DbError> {
    let ids: Vec<SourceId> = events.iter().filter_map(|event| event.source).collect();
    let sources = match ids.is_empty() {
        true => HashMap::new(),
        false => by_ids(store, &ids).await?,
    };
    let view = |event: Event| {
        let source = event.source.and_then(|id| sources.get(&id));
        EventView::of(event, source.map(|source| source.uuid.clone()))
    };
    Ok(events.into_iter().map(view).collect())
}

/// Lists events in the order of the log
#[utoipa::path(get, path = "/events", tag = "events", params(ListEvents),
    responses((status = 200, body = Page<EventView>), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
async fn list(
    State(api): State<Api>,
    lines: Lines,
    Asked(asked): Asked<ListEvents>,
) -> Result<Response, Problem> {
    let filter = filter(&api, asked.kinds.as_deref(), asked.source.as_deref()).await?;
    let mut after = asked.after.unwrap_or(0).max(0);
    if let Some(since) = asked.since {
        after = after.max(events::before(&*api.store, since).await?);
    }
    if asked.latest == Some(true) {
        let limit = asked.limit.unwrap_or(50).clamp(1, 1_000);
        let found = api.store.events(EventFilter { after, latest: true, limit, ..filter }).await?;
        let items = viewed(&*api.store, found).await?;
        return Ok(whole(lines, items));
    }
    if asked.follow == Some(true) {
        if !lines.0 {
            let message = "goes with Accept: application/x-ndjson; /events/stream is for browsers";
            return Err(Problem::parameter("follow", message));
        }
        let from = place::<i64>(asked.cursor.as_deref())?.unwrap_or(after);
        let text = |event: &EventView| lines_of(std::slice::from_ref(event)).unwrap_or_default();
        let body = Body::from_stream(following(api, filter, from, text, Bytes::from_static(b"\n")));
        return Ok(written(body));
    }
    let read = move |behind: Option<i64>, limit| {
        let (api, after) = (api.clone(), behind.unwrap_or(after));
        let wanted = EventFilter { after, limit, ..filter.clone() };
        async move {
            let (found, next) = events::events(&*api.store, &wanted).await?;
            Ok((viewed(&*api.store, found).await?, next))
        }
    };
    Wanted { lines, limit: asked.limit, cursor: asked.cursor }.list(read).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Follow {
    /// After this place of the log; `Last-Event-ID` says the same. Without either, from now on.
    after: Option<i64>,
    /// Of these kinds, with commas between: `article.new`, `entry.*`.
    kinds: Option<String>,
    /// Of the source with this name or id.
    source: Option<String>,
}

/// Tells events as they happen, as server-sent events
#[utoipa::path(get, path = "/events/stream", tag = "events",
    params(Follow, ("Last-Event-ID" = Option<i64>, Header, description = "The last place that was heard of")),
    responses((status = 200, body = String, content_type = "text/event-stream",
            description = "`id` is the place, `event` the kind, `data` the event"),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such source")))]
async fn follow(
    State(api): State<Api>,
    headers: HeaderMap,
    Asked(asked): Asked<Follow>,
) -> Result<Response, Problem> {
    let filter = filter(&api, asked.kinds.as_deref(), asked.source.as_deref()).await?;
    let last = match headers.get("last-event-id") {
        Some(said) => {
            let place = said.to_str().ok().and_then(|said| said.trim().parse::<i64>().ok());
            let message = "is no place of the log";
            Some(place.ok_or_else(|| Problem::parameter("Last-Event-ID", message))?)
        }
        None => None,
    };
    let from = match last.or(asked.after) {
        Some(place) => place.max(0),
        None => api.store.log_ends(i64::MAX).await?.last,
    };
    let text = |event: &EventView| {
        let data = serde_json::to_string(event).unwrap_or_default();
        Bytes::from(format!("id: {}\nevent: {}\ndata: {data}\n\n", event.seq, event.kind))
    };
    let body =
        Body::from_stream(following(api, filter, from, text, Bytes::from_static(b": ping\n\n")));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    Ok((headers, body).into_response())
}

/// A stream of events: where it is, and how it is written.
struct Following<F> {
    api: Api,
    log: watch::Receiver<i64>,
    filter: EventFilter,
    after: i64,
    /// Events that are read next.
    batch: usize,
    text: F,
    heartbeat: Bytes,
    /// Whether something was said yet.
    is_begun: bool,
}

/// What happens from a place on, until nobody listens or the server stops. No more is read than was asked
/// for by the connection, and a batch is as small as its events are large, so that a reader that is slow
/// costs no more memory than one batch.
fn following(
    api: Api,
    filter: EventFilter,
    from: i64,
    text: impl Fn(&EventView) -> Bytes + Send + 'static,
    heartbeat: Bytes,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let log = api.log.subscribe();
    let (after, batch) = (from, FIRST_BATCH);
    let begun = Following { api, log, filter, after, batch, text, heartbeat, is_begun: false };
    stream::unfold(begun, async |mut it| Some((Ok(it.next().await?), it)))
}

impl<F: Fn(&EventView) -> Bytes + Send> Following<F> {
    async fn next(&mut self) -> Option<Bytes> {
        // Something is said at once, so that whoever follows knows that it is heard.
        if !std::mem::replace(&mut self.is_begun, true) {
            return Some(self.heartbeat.clone());
        }
        loop {
            if self.api.stop.is_cancelled() {
                return None;
            }
            self.log.mark_unchanged();
            match self.read().await {
                Ok(Some(said)) => return Some(said),
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "events cannot be told now"),
            }
            tokio::select! {
                () = self.api.stop.cancelled() => return None,
                _ = self.log.changed() => {}
                () = tokio::time::sleep(HEARTBEAT) => return Some(self.heartbeat.clone()),
            }
        }
    }

    /// The next events as text, if there are any.
    async fn read(&mut self) -> Result<Option<Bytes>, DbError> {
        let wanted = EventFilter { after: self.after, limit: self.batch, ..self.filter.clone() };
        let events = viewed(&*self.api.store, self.api.store.events(wanted).await?).await?;
        let Some(last) = events.last().map(|event| event.seq) else { return Ok(None) };
        let mut said = Vec::new();
        for event in &events {
            said.extend_from_slice(&(self.text)(event));
        }
        self.after = last;
        self.batch = next_batch(said.len(), events.len(), BATCH_BYTES, STRETCH);
        Ok(Some(said.into()))
    }
}
