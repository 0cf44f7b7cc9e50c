//! `/feeds`: the feeds, sitemaps and pages that are polled for sources.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use feedmill_formats::url::Url;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::{Asked, At, Body, Lines, Nothing};
use super::entries::Since;
use super::guard::Who;
use super::listing::{Page, Wanted, cut};
use super::problem::Problem;
use super::stats::{Point, Series, step_for};
use super::views::{Done, FeedView, Time};
use super::{Api, entries, fetches, sources};
use crate::app::edit;
use crate::fetch::Guard;
use crate::model::{Health, Kind, NewSource, TaskId};
use crate::sources::{SpecError, Wanted as WantedSource, check, check_rights, guess_kind, specify};
use crate::store::browse::figures::{Span, series};
use crate::store::browse::sources::{Channel, ChannelQuery, channels};
use crate::store::gate::Scope;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, remove))
        .routes(routes!(refetch))
        .routes(routes!(its_entries))
        .routes(routes!(its_series))
}

/// The same paths as the seeds name them.
pub(super) fn aliases() -> Router<Api> {
    Router::new()
        .route("/feeds", get(list).post(create))
        .route("/feeds/{id}", get(show).delete(remove))
        .route("/feeds/{id}/refetch", post(refetch))
        .route("/feeds/{id}/entries", get(its_entries))
        .route("/entries/{uid}", get(entries::show))
        .route("/raw/{id}", get(fetches::body))
        .route("/api/v1/raw/{id}", get(fetches::body))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListFeeds {
    /// Of the source with this name or id.
    source: Option<String>,
    /// feed, sitemap or listing.
    #[param(value_type = Option<String>)]
    kind: Option<Kind>,
    /// `quiet_as_usual`, late, frozen, empty, overflowing, blocked or failing.
    #[param(value_type = Option<String>)]
    health: Option<Health>,
    /// With this in address or title.
    q: Option<String>,
    /// 1 to 1000, 50 when nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Lists feeds, source by source
#[utoipa::path(get, path = "/feeds", tag = "feeds", params(ListFeeds),
    responses((status = 200, body = Page<FeedView>), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
async fn list(
    State(api): State<Api>,
    lines: Lines,
    Asked(asked): Asked<ListFeeds>,
) -> Result<Response, Problem> {
    let sources = sources::named(&api, asked.source.as_deref()).await?.into_iter().collect();
    let ListFeeds { kind, health, q: search, limit, cursor, .. } = asked;
    let query = ChannelQuery { sources, kind, health, search, ..ChannelQuery::default() };
    let read = move |after, limit| {
        let query = ChannelQuery { after, limit: limit + 1, ..query.clone() };
        let api = api.clone();
        async move {
            let found = channels(&*api.store, &query).await?;
            Ok(cut(found, limit, Channel::place, FeedView::from))
        }
    };
    Wanted { lines, limit, cursor }.list(read).await
}

async fn find(api: &Api, id: &str) -> Result<Channel, Problem> {
    let unknown = || Problem::not_found("unknown_feed", "no feed has this id");
    let id = id.parse().ok().and_then(TaskId::from_uuid).ok_or_else(unknown)?;
    let query = ChannelQuery { id: Some(id), limit: 1, ..ChannelQuery::default() };
    channels(&*api.store, &query).await?.pop().ok_or_else(unknown)
}

/// Shows a feed
#[utoipa::path(get, path = "/feeds/{id}", tag = "feeds", params(("id" = String, Path,)),
    responses((status = 200, body = FeedView), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such feed")))]
async fn show(
    State(api): State<Api>,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<FeedView>, Problem> {
    Ok(Json(find(&api, &id).await?.into()))
}

/// A feed to follow.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewFeed {
    /// Where it is.
    url: String,
    /// The source that it is of, by name or id; without one, a source is made for it.
    source: Option<String>,
}

/// Follows a feed, as one of a source, or of a source that is made for it
#[utoipa::path(post, path = "/feeds", tag = "feeds", request_body = NewFeed,
    responses((status = 201, body = FeedView),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such source"),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "It is followed already, or there is a source of that name")))]
async fn create(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    _: Asked<Nothing>,
    Body(new): Body<NewFeed>,
) -> Result<Response, Problem> {
    let guard = Guard::new(&api.config.fetch);
    let permit = |url: &Url| guard.check_url(url).map_err(|refusal| refusal.to_string());
    let url = new.url.trim().to_owned();
    let source = match &new.source {
        Some(name) => {
            let add = |spec: &mut NewSource| {
                let was = spec.clone();
                add(spec, &url, permit)?;
                match who.scope < Scope::Admin {
                    true => check_rights(Some(&was), spec),
                    false => Ok(()),
                }
            };
            edit::change(&*api.store, name, add).await?
        }
        None => {
            let wanted = WantedSource {
                urls: vec![url.clone()],
                kind: Some(Kind::Feed).filter(|_| !spells_sitemap(&url)),
                ..WantedSource::default()
            };
            api.store.add_source(specify(&wanted, permit)?).await?
        }
    };
    let query =
        ChannelQuery { sources: vec![source.id], limit: usize::MAX, ..ChannelQuery::default() };
    let own = channels(&*api.store, &query).await?;
    let Some(channel) = own.into_iter().find(|channel| channel.state.url == url) else {
        let detail = "another source owns this feed: it is followed already";
        return Err(Problem::conflict("feed_owned", detail));
    };
    let place = format!("/api/v1/feeds/{}", channel.task);
    let view = FeedView::from(channel);
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], Json(view)).into_response())
}

fn spells_sitemap(url: &str) -> bool {
    feedmill_formats::url::parse(url).is_ok_and(|url| guess_kind(&url) == Kind::Sitemap)
}

fn add(
    spec: &mut NewSource,
    url: &str,
    permit: impl Fn(&Url) -> Result<(), String>,
) -> Result<(), SpecError> {
    let list = if spells_sitemap(url) { &mut spec.sitemap_urls } else { &mut spec.feed_urls };
    if !list.iter().any(|known| known == url) {
        list.push(url.to_owned());
    }
    check(spec, permit)
}

/// Stops following a feed; a source that has no other channel is disabled
#[utoipa::path(delete, path = "/feeds/{id}", tag = "feeds", params(("id" = String, Path,)),
    responses((status = 204, description = "It is no longer polled"), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such feed"),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "Somebody else was faster")))]
async fn remove(
    State(api): State<Api>,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<StatusCode, Problem> {
    let channel = find(&api, &id).await?;
    let (source, _) = api.store.source(&channel.source_id).await?;
    let url = channel.state.url;
    let others = source.spec.feed_urls.iter().chain(&source.spec.sitemap_urls);
    if channel.state.kind == Kind::Listing || others.filter(|known| **known != url).count() == 0 {
        let reason = "its last channel was removed".to_owned();
        api.store.set_enabled(&channel.source_id, Some(reason)).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    edit::change(&*api.store, &channel.source_id, |spec| {
        spec.feed_urls.retain(|known| *known != url);
        spec.sitemap_urls.retain(|known| *known != url);
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Asks for a feed now
#[utoipa::path(post, path = "/feeds/{id}/refetch", tag = "feeds", params(("id" = String, Path,)),
    responses((status = 202, body = Done), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such feed")))]
async fn refetch(
    State(api): State<Api>,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<Response, Problem> {
    let channel = find(&api, &id).await?;
    let done = sources::again(&api, vec![channel.task]).await?;
    Ok((StatusCode::ACCEPTED, Json(done)).into_response())
}

/// Lists the entries of a feed, newest first
#[utoipa::path(get, path = "/feeds/{id}/entries", tag = "feeds", params(("id" = String, Path,), Since),
    responses((status = 200, body = Page<super::views::EntryView>), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such feed")))]
async fn its_entries(
    State(api): State<Api>,
    lines: Lines,
    At(id): At<String>,
    Asked(asked): Asked<Since>,
) -> Result<Response, Problem> {
    let channel = find(&api, &id).await?;
    entries::answer(api, lines, asked, Some(channel.task), None).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Days {
    /// How many days back, 1 to 90; 7 when nothing is said.
    #[param(minimum = 1, maximum = 90)]
    days: Option<u32>,
}

/// How often a feed was polled, and what that brought.
#[derive(Debug, Serialize, ToSchema)]
struct FeedSeries {
    #[serde(flatten)]
    series: Series,
    /// The time between two polls that was chosen last.
    interval_ms: Option<u64>,
}

/// How often a feed was polled over time, and what that brought
#[utoipa::path(get, path = "/feeds/{id}/series", tag = "feeds", params(("id" = String, Path,), Days),
    responses((status = 200, body = FeedSeries), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such feed")))]
async fn its_series(
    State(api): State<Api>,
    At(id): At<String>,
    Asked(asked): Asked<Days>,
) -> Result<Json<FeedSeries>, Problem> {
    let days = asked.days.unwrap_or(7);
    if !(1..=90).contains(&days) {
        return Err(Problem::parameter("days", "must be from 1 to 90"));
    }
    let channel = find(&api, &id).await?;
    let (from, until, step_ms) = step_for(i64::from(days) * 24, api.clock.now());
    let span = Span { from, until, step_ms, task: Some(channel.task) };
    let stretches = series(&*api.store, span).await?;
    let points = Point::all(&stretches, span, 0);
    let series = Series { from: Time(from), bucket_ms: step_ms, points };
    Ok(Json(FeedSeries { series, interval_ms: channel.interval_ms }))
}
