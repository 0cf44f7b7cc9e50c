//! What responses asked for and taught about a source.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::asked::{Asked, At, Nothing};
use crate::api::problem::Problem;
use crate::api::views::Time;
use crate::app::pace::{self, ChannelPace};
use crate::app::pauses::HostPause;

/// How a channel is paced.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct PaceView {
    id: String,
    url: String,
    /// The interval that was chosen last.
    interval_ms: Option<u64>,
    /// The shortest interval that 429 responses taught.
    learned_interval_ms: Option<u64>,
    host: String,
    /// The pause between requests that 429 responses of the host taught.
    host_learned_pause_ms: u64,
    next_fetch_at: Time,
}

impl From<ChannelPace> for PaceView {
    fn from(pace: ChannelPace) -> Self {
        Self {
            id: pace.id,
            url: pace.url,
            interval_ms: pace.interval_ms,
            learned_interval_ms: pace.learned_interval_ms,
            host: pace.host,
            host_learned_pause_ms: pace.host_learned_pause_ms,
            next_fetch_at: Time(pace.next_fetch_at),
        }
    }
}

/// A host that nothing is asked of.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct PausedHost {
    host: String,
    /// Until when.
    until: Time,
    /// Why.
    reason: String,
    /// The URL whose response asked for it, when it is known.
    url: Option<String>,
    /// Whether the operator blocked it: clearing the pace leaves that alone.
    by_operator: bool,
}

impl From<HostPause> for PausedHost {
    fn from(pause: HostPause) -> Self {
        let HostPause { host, until, reason, url, by_operator } = pause;
        Self { host, until: Time(until), reason, url, by_operator }
    }
}

/// The pace of a source's channels.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Paces {
    channels: Vec<PaceView>,
    /// Hosts of its channels and pages that nothing is asked of now.
    paused_hosts: Vec<PausedHost>,
}

/// What was cleared.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct ForgottenPace {
    /// Channels with a learned interval.
    channels: u64,
    /// Hosts with a learned pause.
    hosts: u64,
    /// Hosts that a response asked to leave alone.
    pauses: u64,
}

/// Shows its intervals, what 429 responses taught, and hosts that are paused
#[utoipa::path(get, path = "/sources/{id}/pace", tag = "sources", params(("id" = String, Path,)),
    responses((status = 200, body = Paces), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
pub(in crate::api) async fn show(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<Paces>, Problem> {
    let (_, pace) = pace::pace(&*api.store, &name).await?;
    let channels = pace.channels.into_iter().map(PaceView::from).collect();
    let paused_hosts = pace.paused_hosts.into_iter().map(PausedHost::from).collect();
    Ok(Json(Paces { channels, paused_hosts }))
}

/// Ends pauses that responses asked for, and clears what 429 responses taught
#[utoipa::path(delete, path = "/sources/{id}/pace", tag = "sources", params(("id" = String, Path,)),
    responses((status = 200, body = ForgottenPace), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
pub(in crate::api) async fn forget(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<ForgottenPace>, Problem> {
    let min_interval = api.config.schedule.min_interval.duration();
    let (_, gone) = pace::forget(&*api.store, &name, api.clock.now(), min_interval).await?;
    Ok(Json(ForgottenPace { channels: gone.channels, hosts: gone.hosts, pauses: gone.pauses }))
}
