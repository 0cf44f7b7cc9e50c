//! Which addresses a command means: by id, by address, or by what they have in common.

use super::{Failure, host};
use crate::frontier::{TaskFilter, admit};
use crate::model::{Code, Kind, NewTask, Origin, Source, State, Task, TaskId};
use crate::store::Store;

/// What addresses have in common.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(super) struct Which {
    /// Only those in these states: pending, fetching, fetched, failed, dead, parked
    #[arg(long, value_delimiter = ',', value_name = "STATE,…")]
    pub(super) status: Vec<State>,
    /// Only those of this kind, such as feed, sitemap or article
    #[arg(long)]
    kind: Option<Kind>,
    /// Only those of this host, or group of hosts
    #[arg(long)]
    host: Option<String>,
    /// Only those of the source with this name or id
    #[arg(long)]
    source: Option<String>,
    /// Only those that came like this: feed, sitemap, spider or manual
    #[arg(long)]
    origin: Option<Origin>,
    /// Only those whose last outcome had this code, such as timeout or gone
    #[arg(long)]
    code: Option<Code>,
    /// Only those with this text in their address
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
}

impl Which {
    /// Whether anything was said.
    pub(super) fn is_anything(&self) -> bool {
        *self != Self::default()
    }

    /// The filter that was meant. A name that nobody has is a mistake, not an empty list.
    pub(super) async fn filter(&self, store: &dyn Store) -> Result<TaskFilter, Failure> {
        if let Some(name) = &self.source {
            store.source(name).await?;
        }
        let host = match &self.host {
            Some(name) => Some(host::find(name, store).await?.name),
            None => None,
        };
        Ok(TaskFilter {
            states: self.status.clone(),
            kind: self.kind,
            host,
            source: self.source.clone(),
            origin: self.origin,
            code: self.code,
            search: self.search.clone(),
            ..TaskFilter::default()
        })
    }
}

/// The tasks with these ids or addresses; an address may be a task in each lane.
pub(super) async fn named(names: &[String], store: &dyn Store) -> Result<Vec<TaskId>, Failure> {
    let mut found = Vec::new();
    for name in names {
        let id = name.parse().ok().and_then(TaskId::from_uuid);
        let tasks = match id {
            Some(id) => {
                let filter = TaskFilter { ids: vec![id], limit: 1, ..TaskFilter::default() };
                store.list(filter).await?
            }
            None => at_address(name, store).await?,
        };
        if tasks.is_empty() {
            let message = format!(
                "`{}` is not in the frontier: `feedmill frontier list --search TEXT` finds addresses",
                super::text::one_line(name)
            );
            return Err(Failure::usage("unknown_address", message));
        }
        found.extend(tasks.iter().map(|task| task.id));
    }
    Ok(found)
}

async fn at_address(url: &str, store: &dyn Store) -> Result<Vec<Task>, Failure> {
    let asked = NewTask::manual(url.to_owned(), Kind::Article, None, Source::DEFAULT_PRIORITY);
    let known = admit(&asked, store.rules()).map_err(|rejected| {
        let message = format!("neither an id nor an address: {}", rejected.reason);
        Failure::usage(rejected.code, message)
    })?;
    let filter = TaskFilter {
        host: Some(known.host),
        hash: Some(known.hash.head()),
        limit: usize::MAX,
        ..TaskFilter::default()
    };
    let mut tasks = store.list(filter).await?;
    tasks.retain(|task| task.url_key == *known.url_key.as_ref().unwrap_or(&known.url));
    Ok(tasks)
}
