//! `/hosts`: how fast hosts are asked, and which are not asked at all.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::asked::{Asked, At, Body, Lines, Maybe, Nothing};
use super::listing::{Page, Part, Stretch, Wanted, cut};
use super::problem::Problem;
use super::views::{FetchView, HostView, OptOutView, Time};
use crate::app::hosts;
use crate::config::Span;
use crate::frontier::{FOREVER, HostFilter, HostPatch, HostState};
use crate::model::{Scope, Takedown, Ts};
use crate::store::Store;
use crate::store::browse::fetches::{FetchQuery, fetches};
use crate::store::browse::figures::days_of_host;

/// Requests that are told in full.
const LAST: usize = 50;
const DAY_MS: i64 = 86_400_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(optouts))
        .routes(routes!(show, change))
        .routes(routes!(block))
        .routes(routes!(unblock))
        .routes(routes!(requests))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListHosts {
    /// With this in its name.
    q: Option<String>,
    /// Only those that are blocked now.
    blocked: Option<bool>,
    /// 1 to 1000, 50 when nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Lists hosts by name
#[utoipa::path(get, path = "/hosts", tag = "hosts", params(ListHosts),
    responses((status = 200, body = Page<HostView>)))]
async fn list(
    State(api): State<Api>,
    lines: Lines,
    Asked(asked): Asked<ListHosts>,
) -> Result<Response, Problem> {
    let ListHosts { q: search, blocked, limit, cursor } = asked;
    let filter = HostFilter { search, blocked: blocked.unwrap_or(false), ..HostFilter::default() };
    let read = move |after, limit| {
        let filter = HostFilter { after, limit: limit + 1, ..filter.clone() };
        let api = api.clone();
        async move {
            let found = api.store.hosts(filter).await?;
            Ok(cut(found, limit, |host: &HostState| host.name.clone(), HostView::from))
        }
    };
    Wanted { lines, limit, cursor }.list(read).await
}

/// Lists hosts that are not asked until an operator says otherwise: blocked without end, or taken down
#[utoipa::path(get, path = "/hosts/optouts", tag = "hosts", params(Part),
    responses((status = 200, body = Page<OptOutView>)))]
async fn optouts(
    State(api): State<Api>,
    lines: Lines,
    Asked(part): Asked<Part>,
) -> Result<Response, Problem> {
    let read = move |after: Option<String>, limit| {
        let api = api.clone();
        async move {
            let refused = api.store.takedowns().await?.into_iter();
            let refused = refused.filter(|one| one.scope == Scope::Host && one.lifted_at.is_none());
            let (blocked, from) = (true, after.clone());
            let filter =
                HostFilter { blocked, after: from, limit: limit + 1, ..Default::default() };
            let blocked = api.store.hosts(filter).await?;
            Ok(merged(blocked, refused, after.as_deref(), limit))
        }
    };
    part.wanted(lines).list(read).await
}

/// The next of two lists by name: hosts that are blocked, read with one more than wanted from a name on,
/// and all that are taken down.
fn merged(
    blocked: Vec<HostState>,
    refused: impl Iterator<Item = Takedown>,
    after: Option<&str>,
    limit: usize,
) -> Stretch<OptOutView, String> {
    // Nothing is known of names behind the last one that was read.
    let (blocked, end) = cut(blocked, limit, |host| host.name.clone(), |host| host);
    let forever = blocked.into_iter().filter(is_forever);
    let mut all: BTreeMap<String, OptOutView> =
        forever.map(|host| (host.name.clone(), OptOutView::blocked(host.name))).collect();
    let within = |name: &str| {
        after.is_none_or(|after| name > after) && end.as_deref().is_none_or(|end| name <= end)
    };
    let refused = refused.filter(|one| within(&one.target));
    all.extend(refused.map(|one| (one.target.clone(), OptOutView::from(one))));
    let (items, more) = cut(all.into_values().collect(), limit, |it| it.name.clone(), |it| it);
    (items, more.or(end))
}

fn is_forever(host: &HostState) -> bool {
    host.blocked_until.is_some_and(|until| until >= FOREVER)
}

/// The host that is named, when one is. A name that nobody has is a mistake, not an empty list.
pub(super) async fn named(
    store: &dyn Store,
    name: Option<&str>,
) -> Result<Option<String>, Problem> {
    match name {
        Some(name) => Ok(Some(hosts::find(name, store).await?.ok_or_else(unknown)?.name)),
        None => Ok(None),
    }
}

fn unknown() -> Problem {
    Problem::not_found("unknown_host", "no host has this name")
}

async fn find(api: &Api, name: &str) -> Result<HostState, Problem> {
    hosts::find(name, &*api.store).await?.ok_or_else(unknown)
}

/// Shows a host, or group of hosts
#[utoipa::path(get, path = "/hosts/{name}", tag = "hosts", params(("name" = String, Path,)),
    responses((status = 200, body = HostView), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such host")))]
async fn show(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<HostView>, Problem> {
    Ok(Json(find(&api, &name).await?.into()))
}

async fn patch(api: &Api, name: &str, patch: HostPatch) -> Result<Json<HostView>, Problem> {
    let name = hosts::name_of(name, &*api.store).await?.ok_or_else(unknown)?;
    api.store.set_host(&name, patch).await?;
    Ok(Json(find(api, &name).await?.into()))
}

fn span(field: &str, text: &str) -> Result<Span, Problem> {
    text.parse::<Span>().map_err(|error| {
        let message = error.to_string();
        Problem::unusable("bad_body", format!("`{field}`: {message}")).about(field, message)
    })
}

/// What an operator says about a host.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct HostChange {
    /// The shortest pause between two requests, such as 10s; 0s takes it back.
    delay: Option<String>,
    /// Requests at a time.
    #[schema(minimum = 1, maximum = 1000)]
    concurrency: Option<u32>,
}

/// Slows a host down, or lets it be asked several times at once
#[utoipa::path(patch, path = "/hosts/{name}", tag = "hosts", params(("name" = String, Path,)),
    request_body = HostChange,
    responses((status = 200, body = HostView), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such host")))]
async fn change(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
    Body(said): Body<HostChange>,
) -> Result<Json<HostView>, Problem> {
    let delay = said.delay.map(|text| span("delay", &text)).transpose()?.map(Span::duration);
    if said.concurrency.is_some_and(|requests| !(1..=1_000).contains(&requests)) {
        let message = "must be from 1 to 1000";
        return Err(Problem::unusable("bad_body", message).about("concurrency", message));
    }
    let concurrency = said.concurrency;
    patch(&api, &name, HostPatch { delay, concurrency, ..HostPatch::default() }).await
}

/// For how long a host is not asked; without either, until it is unblocked.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Block {
    /// For so long, such as 2h.
    #[serde(rename = "for")]
    span: Option<String>,
    /// Until this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Ts>,
}

/// Asks a host for nothing until a time, or until it is unblocked
#[utoipa::path(post, path = "/hosts/{name}/block", tag = "hosts", params(("name" = String, Path,)),
    request_body(content = Option<Block>),
    responses((status = 200, body = HostView), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such host")))]
async fn block(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
    Maybe(said): Maybe<Block>,
) -> Result<Json<HostView>, Problem> {
    let now = api.clock.now();
    let until = match (said.until, said.span) {
        (Some(until), None) => until,
        (None, Some(text)) => now.after(span("for", &text)?.duration()),
        (None, None) => FOREVER,
        (Some(_), Some(_)) => {
            return Err(Problem::unusable("bad_body", "say `for` or `until`, not both"));
        }
    };
    if until <= now {
        return Err(Problem::unusable("time_passed", "a block has to end in the future"));
    }
    let blocked_until = Some(until.min(FOREVER));
    patch(&api, &name, HostPatch { blocked_until, ..HostPatch::default() }).await
}

/// Asks a host again, after its ordinary pause
#[utoipa::path(post, path = "/hosts/{name}/unblock", tag = "hosts", params(("name" = String, Path,)),
    responses((status = 200, body = HostView), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such host")))]
async fn unblock(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<HostView>, Problem> {
    let name = find(&api, &name).await?.name;
    let blocked_until = Some(api.clock.now());
    patch(&api, &name, HostPatch { blocked_until, ..HostPatch::default() }).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Days {
    /// How many days back, 1 to 90; 30 when nothing is said.
    #[param(minimum = 1, maximum = 90)]
    days: Option<i64>,
}

/// What was asked of a host on a day.
#[derive(Debug, Serialize, ToSchema)]
struct Day {
    /// The day of UTC, as 2026-11-16.
    day: String,
    requests: u64,
    bytes: u64,
    not_modified: u64,
    errors: u64,
}

/// What was asked of a host.
#[derive(Debug, Serialize, ToSchema)]
struct Asks {
    from: Time,
    /// Days on which something was asked.
    days: Vec<Day>,
    /// The last requests, newest first.
    last: Vec<FetchView>,
}

/// Shows what was asked of a host, day by day
#[utoipa::path(get, path = "/hosts/{name}/requests", tag = "hosts",
    params(("name" = String, Path,), Days),
    responses((status = 200, body = Asks), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such host")))]
async fn requests(
    State(api): State<Api>,
    At(name): At<String>,
    Asked(asked): Asked<Days>,
) -> Result<Json<Asks>, Problem> {
    let days = asked.days.unwrap_or(30);
    if !(1..=90).contains(&days) {
        return Err(Problem::parameter("days", "must be from 1 to 90"));
    }
    let (host, store) = (find(&api, &name).await?.name, &*api.store);
    let from = Ts::from_ms(api.clock.now().ms().saturating_sub(days * DAY_MS).max(0));
    let counted = days_of_host(store, &host, from).await?;
    let query =
        FetchQuery { host: Some(host), since: Some(from), limit: LAST, ..FetchQuery::default() };
    let last = fetches(store, &query).await?;
    let days = counted.into_iter().map(|(day, done)| Day {
        day: Ts::from_ms(day * DAY_MS).day(),
        requests: done.requests(),
        bytes: done.bytes,
        not_modified: done.not_modified,
        errors: done.errors,
    });
    let last = last.iter().map(FetchView::from).collect();
    Ok(Json(Asks { from: Time(from), days: days.collect(), last }))
}
