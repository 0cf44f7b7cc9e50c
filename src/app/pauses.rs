//! Hosts that nothing is asked of for a while, until when, and on whose word.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::explain::queue_of;
use crate::db::DbError;
use crate::frontier::{HostFilter, HostState, TaskFilter};
use crate::model::{Code, Source, Task, TaskId, Ts};
use crate::store::Store;

/// Hosts, or tasks, that are read at a time.
const PAGE: usize = 500;
/// Of so many paused hosts it is looked up whether a source has tasks there.
const MAX_LOOKUPS: usize = 1_000;

/// A host that nothing is asked of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostPause {
    /// The host, or its group.
    pub host: String,
    /// Until when.
    pub until: Ts,
    /// Why, for people.
    pub reason: String,
    /// The URL whose response asked for it, when it is known.
    pub url: Option<String>,
    /// Whether the operator blocked it: clearing the pace of a source leaves that alone.
    pub by_operator: bool,
}

/// The pauses of these hosts; of those that can be asked there are none.
pub async fn of_hosts(store: &dyn Store, hosts: &[HostState]) -> Result<Vec<HostPause>, DbError> {
    let asked: Vec<TaskId> = hosts.iter().filter_map(|host| host.blocked_by).collect();
    let mut tasks: HashMap<TaskId, Task> = HashMap::new();
    for ids in asked.chunks(PAGE) {
        let filter = TaskFilter { ids: ids.to_vec(), limit: ids.len(), ..TaskFilter::default() };
        tasks.extend(store.list(filter).await?.into_iter().map(|task| (task.id, task)));
    }
    let pause = |host: &HostState| {
        let task = host.blocked_by.and_then(|id| tasks.get(&id));
        Some(HostPause {
            host: host.name.clone(),
            until: host.blocked_until?,
            reason: match task {
                Some(task) => reason(task),
                None if host.blocked_by.is_some() => "a response asked for it".to_owned(),
                None => "the operator blocked it".to_owned(),
            },
            url: task.map(|task| task.url.clone()),
            by_operator: host.blocked_by.is_none(),
        })
    };
    Ok(hosts.iter().filter_map(pause).collect())
}

/// What a response said that asked for a pause.
fn reason(task: &Task) -> String {
    let complained = matches!(task.last_error, Some(Code::RateLimited | Code::RobotsUnreachable));
    match task.reason.as_deref().filter(|_| complained) {
        Some(reason) => format!("{} answered: {reason}", task.url),
        None => format!("a response of {} asked for it", task.url),
    }
}

/// All hosts that are paused now.
pub async fn all(store: &dyn Store) -> Result<Vec<HostPause>, DbError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let filter = HostFilter { blocked: true, after, limit: PAGE, ..HostFilter::default() };
        let hosts = store.hosts(filter).await?;
        found.extend(of_hosts(store, &hosts).await?);
        match hosts.last().filter(|_| hosts.len() == PAGE) {
            Some(last) => after = Some(last.name.clone()),
            None => return Ok(found),
        }
    }
}

/// Those that a source has to do with: its site, its channels and its pages.
pub async fn of_source(
    store: &dyn Store,
    source: &Source,
    channels: &[String],
) -> Result<Vec<HostPause>, DbError> {
    let urls = channels.iter().chain(std::iter::once(&source.spec.url));
    let own: BTreeSet<_> = urls.filter_map(|url| queue_of(url, store.rules())).collect();
    let (mut found, mut lookups) = (Vec::new(), 0);
    for pause in all(store).await? {
        let mut is_own = own.contains(&pause.host);
        if !is_own && lookups < MAX_LOOKUPS {
            lookups += 1;
            let (host, of) = (Some(pause.host.clone()), Some(source.uuid.clone()));
            let filter = TaskFilter { host, source: of, limit: 1, ..TaskFilter::default() };
            is_own = !store.list(filter).await?.is_empty();
        }
        found.extend(is_own.then_some(pause));
    }
    Ok(found)
}
