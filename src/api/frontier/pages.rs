//! Pages of the queue in orders that no index leads along.
//!
//! To find the first tasks of such an order the database has to look at all of them, and it finds the next
//! thousands with the same effort. So places are read far ahead and kept for a moment, for all who ask; the
//! tasks themselves are read afresh, and what does not pass any more is left out. A small queue is looked
//! at anew each time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::api::Api;
use crate::api::listing::{Stretch, cut};
use crate::api::memo::Memo;
use crate::api::problem::Problem;
use crate::api::views::TaskView;
use crate::frontier::{Cursor, TaskFilter};
use crate::model::{Task, TaskId};
use crate::store::browse::places::{highest, places};

/// A queue in which so many addresses have ever been is worth it.
const LARGE: i64 = 10_000;
/// Places that are read ahead.
const AHEAD: usize = 5_000;
/// Whoever comes so near to their end is about to ask for what is behind them.
const NEAR: usize = 2_500;
/// Looks at the whole queue at a time: there must be connections left for those who ask for less.
const WIDE: usize = 2;
/// They are good for so many times as long as they took: all who ask cost a fortieth for each filter.
const FACTOR: u32 = 40;

/// What is asked without its place, and the place from which on it was read.
type Key = (TaskFilter, Option<Cursor>);

/// What was read ahead and counted.
#[derive(Debug)]
pub(in crate::api) struct Looked {
    places: Memo<Key, Arc<Vec<Cursor>>>,
    totals: Memo<TaskFilter, u64>,
    wide: Semaphore,
}

impl Default for Looked {
    fn default() -> Self {
        let least = Duration::ZERO;
        let (places, totals) = (Memo::new(least, FACTOR), Memo::new(least, FACTOR));
        Self { places, totals, wide: Semaphore::new(WIDE) }
    }
}

impl Looked {
    /// Forgets everything: an operator changed the queue and wants to see it.
    pub(in crate::api) fn forget(&self) {
        self.places.forget();
        self.totals.forget();
    }
}

/// Waits for its turn, when the whole queue has to be looked at for it. An index leads to the tasks of a
/// host and of a source.
async fn turn<'a>(api: &'a Api, filter: &TaskFilter) -> Option<SemaphorePermit<'a>> {
    let narrow = filter.host.is_some() || filter.source.is_some();
    if narrow { None } else { api.looked.wide.acquire().await.ok() }
}

fn whole(filter: &TaskFilter) -> TaskFilter {
    TaskFilter { after: None, limit: 0, ..filter.clone() }
}

/// How many there are; the figure may be some seconds old.
pub(super) async fn count(api: &Api, filter: &TaskFilter) -> Result<u64, Problem> {
    let (key, of) = (whole(filter), api.clone());
    let wanted = key.clone();
    if highest(&*api.store).await? < LARGE {
        return Ok(api.store.count(wanted).await?);
    }
    let counted = async move {
        let _turn = turn(&of, &wanted).await;
        of.store.count(wanted).await
    };
    Ok(api.looked.totals.get(&api.background, key, counted).await?)
}

/// A part of the list behind the filter's place.
pub(super) async fn page(
    api: &Api,
    filter: TaskFilter,
    limit: usize,
) -> Result<Stretch<TaskView, Cursor>, Problem> {
    let order = filter.order;
    if filter.is_direct() || highest(&*api.store).await? < LARGE {
        let found = api.store.list(TaskFilter { limit: limit + 1, ..filter }).await?;
        return Ok(cut(found, limit, |task: &Task| Cursor::behind(task, order), TaskView::from));
    }
    let after = filter.after;
    let all = whole(&filter);
    let fits = |(of, from): &Key, places: &Arc<Vec<Cursor>>| {
        *of == all && covers(from.as_ref(), places, after.as_ref(), limit)
    };
    let known = api.looked.places.key_where(fits);
    let key = known.unwrap_or_else(|| (all.clone(), after));
    let places = ahead(api, key).await?;
    let behind = begin(&places, after.as_ref());
    if let Some(end) = nearing(&places, behind) {
        read_on(api, (all, Some(end)));
    }
    let mut places: Vec<Cursor> = places.iter().skip(behind).take(limit + 1).copied().collect();
    let more = places.len() > limit;
    places.truncate(limit);
    let Some(last) = places.last().copied() else { return Ok((Vec::new(), None)) };
    let ids: Vec<TaskId> = places.iter().map(Cursor::task).collect();
    let found = api.store.list(TaskFilter { ids, after: None, limit, ..filter }).await?;
    let tasks = found.into_iter().map(TaskView::from).collect();
    Ok((tasks, Some(last).filter(|_| more)))
}

/// A part of the list that begins behind so many.
pub(super) async fn numbered(
    api: &Api,
    filter: TaskFilter,
    offset: usize,
    limit: usize,
) -> Result<Vec<TaskView>, Problem> {
    let after = match offset {
        0 => None,
        _ => {
            let (all, of) = (TaskFilter { limit: offset, ..whole(&filter) }, api.clone());
            let wanted = all.clone();
            let read = async move { places(&*of.store, &wanted).await.map(Arc::new) };
            let before = api.looked.places.get(&api.background, (all, None), read).await?;
            match before.last() {
                Some(last) if before.len() == offset => Some(*last),
                _ => return Ok(Vec::new()),
            }
        }
    };
    Ok(page(api, TaskFilter { after, ..filter }, limit).await?.0)
}

async fn ahead(api: &Api, key: Key) -> Result<Arc<Vec<Cursor>>, Problem> {
    let of = api.clone();
    let filter = TaskFilter { after: key.1, limit: AHEAD, ..key.0.clone() };
    let read = async move {
        let _turn = turn(&of, &filter).await;
        places(&*of.store, &filter).await.map(Arc::new)
    };
    Ok(api.looked.places.get(&api.background, key, read).await?)
}

/// Reads the next places while the last ones are still being looked at, so that nobody waits for them.
fn read_on(api: &Api, key: Key) {
    if api.looked.places.key_where(|known, _| *known == key).is_none() {
        let of = api.clone();
        api.background.spawn(async move {
            if let Err(problem) = ahead(&of, key).await {
                tracing::debug!(?problem, "places could not be read ahead");
            }
        });
    }
}

/// The last of these places, when not much is left behind so many and there is more behind it.
fn nearing(places: &[Cursor], behind: usize) -> Option<Cursor> {
    let left = places.len().saturating_sub(behind);
    places.last().copied().filter(|_| places.len() == AHEAD && left < NEAR)
}

/// How many of these places are not behind another.
fn begin(places: &[Cursor], after: Option<&Cursor>) -> usize {
    after.map_or(0, |after| places.partition_point(|place| !after.is_before(place)))
}

/// Whether places that were read from one on are enough for a page behind another.
fn covers(from: Option<&Cursor>, places: &[Cursor], after: Option<&Cursor>, limit: usize) -> bool {
    let reaches_back = match (from, after) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(from), Some(after)) => !after.is_before(from),
    };
    let whole = places.len() < AHEAD;
    reaches_back && (whole || places.len() - begin(places, after) > limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(id: i64) -> Cursor {
        format!("priority.desc.5.{id}").parse().unwrap()
    }

    #[test]
    fn places_are_used_for_the_pages_that_they_cover() {
        // The greatest first: from 5000 down to 1.
        let full: Vec<Cursor> = (1..=AHEAD as i64).rev().map(at).collect();
        assert!(covers(None, &full, None, 50));
        assert!(covers(None, &full, Some(&at(52)), 50));
        assert!(!covers(None, &full, Some(&at(51)), 50), "what is behind them is not known");
        assert!(!covers(Some(&at(5_001)), &full, None, 50), "what is before them is not known");
        assert!(covers(Some(&at(5_001)), &full, Some(&at(5_001)), 50));
        assert!(!covers(Some(&at(5_001)), &full, Some(&at(5_002)), 50));
        let (_, short) = full.split_at(4_990);
        assert!(covers(None, short, Some(&at(1)), 50), "there is nothing behind them");
        assert_eq!(nearing(&full, 2_500), None);
        assert_eq!(nearing(&full, 2_501), Some(at(1)), "what is behind it is read now");
        assert_eq!(nearing(short, 0), None, "there is nothing behind it");
        // A place need not be there any more.
        assert_eq!(begin(short, Some(&at(8))), 3);
        assert_eq!(begin(&[at(9), at(3)], Some(&at(5))), 1);
    }
}
