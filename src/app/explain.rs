//! Why: what led to where an address, a source or a host is now, step by step, from what is kept.
//!
//! One call answers for everything that people ask about, and the same answer is what the command line
//! prints and the API serves. Nothing is decided or changed here.

mod address;
mod meaning;

use std::collections::{BTreeMap, BTreeSet};

use feedmill_formats::url as web;
use serde::Serialize;

use super::pauses;
use crate::config::{Config, Span};
use crate::db::DbError;
use crate::frontier::{Counts, HostFilter, HostState, PauseOrigin, Rules, TaskFilter, queue_key};
use crate::model::{Ask, Discovery, Kind, Source, State, Task, Ts};
use crate::store::{ChannelState, SourceError, Store};

pub use address::{AddressTold, ArticleTold, AtSink, Delivered, Handed, Step, TaskTold};
pub use meaning::meaning;

/// Channels told of a host.
const CHANNELS: usize = 20;

/// What led to where something is now.
#[derive(Debug, Serialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum Explanation {
    /// Of an address.
    Address(AddressTold),
    /// Of a source.
    Source(Box<SourceTold>),
    /// Of a host.
    Host(Box<HostTold>),
}

/// A source, its channels, and what became of the addresses that it gave.
#[derive(Debug, Serialize)]
pub struct SourceTold {
    /// The source.
    pub source: Source,
    /// Its channels.
    pub channels: Vec<ChannelState>,
    /// Hosts of theirs that wait.
    pub waits: Vec<Wait>,
    /// How its channels were looked for.
    pub discovery: Option<Discovery>,
    /// Its tasks, by where they stand.
    pub tasks: Counts,
}

/// A host, what it waits for, and what is asked of it regularly.
#[derive(Debug, Serialize)]
pub struct HostTold {
    /// The host.
    pub host: HostState,
    /// What it waits for; nothing when it can be asked.
    pub waits: Option<Wait>,
    /// Its channels, by the time of their polls.
    pub channels: Vec<Task>,
}

/// A host that nothing is asked of now, until when, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Wait {
    /// The host, or its group.
    pub host: String,
    /// Until when.
    pub until: Ts,
    /// Why.
    pub why: String,
}

/// Why nothing can be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// It is none of the three.
    #[error("`{what}` is no source, no known host and no address: {reason}")]
    NotAnything {
        /// What was asked about.
        what: String,
        /// Why it is no address.
        reason: String,
        /// The same as one word.
        code: &'static str,
    },
    /// An address that nobody told of.
    #[error("nothing is known of {0}: `feedmill frontier submit` adds addresses")]
    Unknown(String),
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

/// Explains a source (by name or id), an address, or a host.
pub async fn explain(
    what: &str,
    config: &Config,
    store: &dyn Store,
    now: Ts,
) -> Result<Explanation, ExplainError> {
    match store.source(what).await {
        Ok((source, channels)) => {
            Ok(Explanation::Source(Box::new(of_source(source, channels, store, now).await?)))
        }
        Err(SourceError::Db(error)) => Err(error.into()),
        Err(_) => match web::parse(what) {
            Ok(url) => Ok(Explanation::Address(address::of(&url, config, store, now).await?)),
            Err(error) => match find_host(what, store).await? {
                Some(host) => Ok(Explanation::Host(Box::new(of_host(host, store, now).await?))),
                None => Err(ExplainError::NotAnything {
                    what: what.to_owned(),
                    reason: error.to_string(),
                    code: error.code(),
                }),
            },
        },
    }
}

async fn of_source(
    source: Source,
    channels: Vec<ChannelState>,
    store: &dyn Store,
    now: Ts,
) -> Result<SourceTold, DbError> {
    let urls: Vec<&str> = channels.iter().map(|one| one.url.as_str()).collect();
    let waits = Waits::of(&urls, store, now).await?.all();
    let ask = Ask { discovery: Some(source.id), ..Ask::default() };
    let discovery = store.lookup(ask).await?.discovery;
    let mut tasks = Counts::default();
    let states = [
        (State::Pending, &mut tasks.pending),
        (State::Fetching, &mut tasks.fetching),
        (State::Fetched, &mut tasks.fetched),
        (State::Failed, &mut tasks.failed),
        (State::Dead, &mut tasks.dead),
        (State::Parked, &mut tasks.parked),
    ];
    for (state, count) in states {
        let (owner, states) = (Some(source.uuid.clone()), vec![state]);
        *count = store.count(TaskFilter { source: owner, states, ..TaskFilter::default() }).await?;
    }
    Ok(SourceTold { source, channels, waits, discovery, tasks })
}

async fn of_host(host: HostState, store: &dyn Store, now: Ts) -> Result<HostTold, DbError> {
    let waits = Wait::of(&host, store, now).await?;
    let mut channels = Vec::new();
    for kind in [Kind::Feed, Kind::Sitemap, Kind::Listing] {
        let filter = TaskFilter {
            host: Some(host.name.clone()),
            kind: Some(kind),
            limit: CHANNELS,
            ..TaskFilter::default()
        };
        channels.extend(store.list(filter).await?);
    }
    channels.sort_by_key(|task| task.next_fetch_at);
    Ok(HostTold { host, waits, channels })
}

impl Wait {
    /// What a host waits for; `None` when it can be asked.
    async fn of(state: &HostState, store: &dyn Store, now: Ts) -> Result<Option<Self>, DbError> {
        let Some(until) = state.next_at.max(state.blocked_until).filter(|until| *until > now)
        else {
            return Ok(None);
        };
        let paused = pauses::of_hosts(store, std::slice::from_ref(state)).await?.pop();
        let why = match paused {
            Some(paused) => paused.reason,
            None => format!("its pause of {}", pause(state)),
        };
        Ok(Some(Self { host: state.name.clone(), until, why }))
    }
}

/// The hosts that wait, of some addresses.
struct Waits(BTreeMap<String, Wait>);

impl Waits {
    async fn of(urls: &[&str], store: &dyn Store, now: Ts) -> Result<Self, DbError> {
        let rules = store.rules();
        let mut hosts = BTreeMap::new();
        let names: BTreeSet<String> = urls.iter().filter_map(|url| queue_of(url, rules)).collect();
        for name in names {
            let filter = HostFilter { name: Some(name), limit: 1, ..HostFilter::default() };
            for state in store.hosts(filter).await? {
                let wait = Wait::of(&state, store, now).await?;
                hosts.extend(wait.map(|wait| (state.name, wait)));
            }
        }
        Ok(Self(hosts))
    }

    fn all(self) -> Vec<Wait> {
        self.0.into_values().collect()
    }
}

/// The queue that an address waits in.
#[must_use]
pub fn queue_of(url: &str, rules: &Rules) -> Option<String> {
    let url = web::parse(url).ok()?;
    Some(queue_key(&web::host(&url), &rules.groups).to_owned())
}

/// The host that a name or an address names, whether it is known or not.
#[must_use]
pub fn host_in(given: &str) -> Option<String> {
    let given = given.trim();
    let address =
        if given.contains("://") { given.to_owned() } else { format!("https://{given}/") };
    web::parse(&address).map(|url| web::host(&url)).ok()
}

/// The known host, or group, that a name or an address means.
pub async fn find_host(given: &str, store: &dyn Store) -> Result<Option<HostState>, DbError> {
    let given = given.trim();
    let host = host_in(given).unwrap_or_default();
    for name in [queue_key(&host, &store.rules().groups), given] {
        let filter = HostFilter { name: Some(name.to_owned()), limit: 1, ..HostFilter::default() };
        if let Some(found) = store.hosts(filter).await?.pop() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// A host's pause, and who asks for it.
#[must_use]
pub fn pause(host: &HostState) -> String {
    let from = match host.pause_from {
        PauseOrigin::CrawlDelay => "crawl-delay",
        PauseOrigin::Source => "source",
        PauseOrigin::Learned => "learned",
        PauseOrigin::Operator => "operator",
        PauseOrigin::Default => "default",
    };
    format!("{} ({from})", Span::millis(host.pause_ms))
}
