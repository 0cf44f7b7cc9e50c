//! What responses asked for and taught about a source: the intervals of its channels, the pace of
//! their hosts and the pauses of all its hosts, and how an operator clears them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::pauses::{self, HostPause};
use crate::db::DbError;
use crate::frontier::{Act, HostFilter, HostPatch, TaskFilter};
use crate::model::{Ask, Code, Kind, Source, State, TaskId, Ts};
use crate::schedule::State as Remembered;
use crate::store::browse::sources::{Channel, ChannelQuery, channels};
use crate::store::{SourceError, Store};

/// How often a feed's state is changed again when a poll was faster.
const TRIES: usize = 5;
/// Pages that are asked for again in one go.
const MAX_PAGES: usize = 10_000;

/// How a channel is paced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelPace {
    /// Its task's public id.
    pub id: String,
    /// Where it is.
    pub url: String,
    /// The interval that was chosen last.
    pub interval_ms: Option<u64>,
    /// The shortest interval that 429 responses taught; `None` when there is none.
    pub learned_interval_ms: Option<u64>,
    /// Its host, or the group of hosts that share a budget.
    pub host: String,
    /// The pause between requests that 429 responses of the host taught; 0 when there is none.
    pub host_learned_pause_ms: u64,
    /// When it is polled next.
    pub next_fetch_at: Ts,
}

/// What was cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Forgotten {
    /// Channels with a learned interval.
    pub channels: u64,
    /// Hosts with a learned pause.
    pub hosts: u64,
    /// Hosts that a response asked to leave alone.
    pub pauses: u64,
}

/// How a source is paced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourcePace {
    /// Its channels.
    pub channels: Vec<ChannelPace>,
    /// Hosts of its channels and pages that nothing is asked of now.
    pub paused_hosts: Vec<HostPause>,
}

/// How a source is paced.
pub async fn pace(store: &dyn Store, name: &str) -> Result<(Source, SourcePace), SourceError> {
    let (source, _) = store.source(name).await?;
    let mut paces = Vec::new();
    for channel in own(store, &source).await? {
        let learned =
            state(store, channel.task).await?.and_then(|(_, state)| state.learned_interval());
        let (host, pause) = host(store, channel.task).await?;
        paces.push(ChannelPace {
            id: channel.state.id,
            url: channel.state.url,
            interval_ms: channel.interval_ms,
            learned_interval_ms: learned.map(|span| span.as_millis() as u64),
            host,
            host_learned_pause_ms: pause,
            next_fetch_at: channel.state.next_fetch_at,
        });
    }
    let paused_hosts = pauses::of_source(store, &source, &urls(&paces)).await?;
    Ok((source, SourcePace { channels: paces, paused_hosts }))
}

fn urls(paces: &[ChannelPace]) -> Vec<String> {
    paces.iter().map(|pace| pace.url.clone()).collect()
}

/// Clears what 429 responses taught, and ends the pauses that responses asked for.
///
/// A host that the operator blocked stays so. What waited for that is due now, channels unless they
/// were polled within `min_interval`.
pub async fn forget(
    store: &dyn Store,
    name: &str,
    now: Ts,
    min_interval: Duration,
) -> Result<(Source, Forgotten), SourceError> {
    let (source, _) = store.source(name).await?;
    let channels = own(store, &source).await?;
    let urls: Vec<String> = channels.iter().map(|channel| channel.state.url.clone()).collect();
    let mut paused = pauses::of_source(store, &source, &urls).await?;
    paused.retain(|pause| !pause.by_operator);
    let mut hosts: BTreeSet<_> = paused.iter().map(|pause| pause.host.clone()).collect();
    let mut forgotten = Forgotten { pauses: paused.len() as u64, ..Forgotten::default() };
    let (mut due, mut learned) = (Vec::new(), BTreeSet::new());
    for channel in channels {
        let (host, pause) = host(store, channel.task).await?;
        if pause > 0 {
            forgotten.hosts += u64::from(learned.insert(host.clone()));
            hosts.insert(host);
        }
        let cleared = clear(store, channel.task).await?;
        forgotten.channels += u64::from(cleared);
        let limited = channel.state.last_error == Some(Code::RateLimited);
        let asked = channel.state.last_fetched_at;
        let is_rested = asked.is_none_or(|at| now.since(at) >= min_interval);
        let waits = is_rested && channel.state.next_fetch_at > now;
        due.extend(((cleared || limited) && waits).then_some(channel.task));
    }
    // Pages whose robots.txt could not be fetched wait for that of their host.
    let unreachable = TaskFilter {
        source: Some(source.uuid.clone()),
        code: Some(Code::RobotsUnreachable),
        states: vec![State::Pending, State::Failed],
        limit: MAX_PAGES,
        ..TaskFilter::default()
    };
    hosts.extend(store.list(unreachable.clone()).await?.into_iter().map(|task| task.host));
    for host in hosts {
        store.set_host(&host, HostPatch { forget: true, ..HostPatch::default() }).await?;
    }
    if !due.is_empty() {
        let filter = TaskFilter { limit: due.len(), ids: due, ..TaskFilter::default() };
        store.sweep(Act::Retry, filter, false).await?;
    }
    let pages = TaskFilter {
        source: Some(source.uuid.clone()),
        kind: Some(Kind::Article),
        code: Some(Code::RateLimited),
        states: vec![State::Failed],
        limit: MAX_PAGES,
        ..TaskFilter::default()
    };
    store.sweep(Act::Retry, pages, false).await?;
    store.sweep(Act::Retry, unreachable, false).await?;
    Ok((source, forgotten))
}

async fn own(store: &dyn Store, source: &Source) -> Result<Vec<Channel>, DbError> {
    let query =
        ChannelQuery { sources: vec![source.id], limit: usize::MAX, ..ChannelQuery::default() };
    channels(store, &query).await
}

/// What the scheduler remembers of a channel, with its version.
async fn state(store: &dyn Store, task: TaskId) -> Result<Option<(i64, Remembered)>, DbError> {
    let feed = store.lookup(Ask { feed: Some(task), ..Ask::default() }).await?.feed;
    let state = feed.schedule.as_deref().and_then(Remembered::from_bytes);
    Ok(state.map(|state| (feed.version, state)))
}

/// The host of a channel, and the pause that it taught, in milliseconds.
async fn host(store: &dyn Store, task: TaskId) -> Result<(String, u64), DbError> {
    let filter = TaskFilter { limit: 1, ids: vec![task], ..TaskFilter::default() };
    let Some(task) = store.list(filter).await?.into_iter().next() else {
        return Ok((String::new(), 0));
    };
    let filter = HostFilter { name: Some(task.host.clone()), limit: 1, ..HostFilter::default() };
    let pause = store.hosts(filter).await?.first().map_or(0, |host| host.learned_ms);
    Ok((task.host, u64::try_from(pause).unwrap_or(0)))
}

/// Clears a channel's learned interval; whether there was one.
async fn clear(store: &dyn Store, task: TaskId) -> Result<bool, DbError> {
    for _ in 0..TRIES {
        let Some((version, state)) = state(store, task).await? else { return Ok(false) };
        if state.learned_interval().is_none() {
            return Ok(false);
        }
        let cleared = state.without_learned_interval().to_bytes();
        if store.keep_schedule(task, version, cleared).await? {
            return Ok(true);
        }
    }
    Ok(false)
}
