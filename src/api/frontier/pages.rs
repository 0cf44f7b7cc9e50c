//! Pages of the queue in orders that no index leads along.
//!
//! To find the first tasks of such an order the database has to look at all of them, and it finds the next
//! thousands with the same effort. So places are read far ahead and kept for a moment, for all who ask; the
//! tasks themselves are read afresh, and what does not pass any more is left out. A small queue is looked
//! at anew each time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::api::Api;
use crate::api::listing::{MOST, Stretch, cut};
use crate::api::memo::Memo;
use crate::api::problem::Problem;
use crate::api::views::TaskView;
use crate::db::DbError;
use crate::frontier::{Cursor, TaskFilter};
use crate::model::{Task, TaskId};
use crate::store::browse::places::{highest, places};

/// A queue in which so many addresses have ever been is worth it.
const LARGE: i64 = 10_000;
/// Places that are read ahead.
const AHEAD: usize = 5_000;
/// Whoever comes so near to their end is about to ask for what is behind them.
const NEAR: usize = 2_500;
/// The next places begin so many before the end of the last ones, so that there is always one list that has a
/// whole page.
const OVERLAP: usize = MOST;
/// They are good for so many times as long as they took: all who ask cost a fortieth for each filter.
const FACTOR: u32 = 40;

/// What is asked without its place, and the place from which on it was read.
type Key = (TaskFilter, Option<Cursor>);

/// What was read ahead and counted.
#[derive(Debug)]
pub(in crate::api) struct Looked {
    places: Memo<Key, Arc<Vec<Cursor>>>,
    totals: Memo<TaskFilter, u64>,
    /// The last of so many places.
    lasts: Memo<TaskFilter, Option<Cursor>>,
    /// What is being read before somebody asks for it.
    coming: Mutex<Vec<Key>>,
}

impl Default for Looked {
    fn default() -> Self {
        let least = Duration::ZERO;
        Self {
            places: Memo::new(least, FACTOR),
            totals: Memo::new(least, FACTOR),
            lasts: Memo::new(least, FACTOR),
            coming: Mutex::default(),
        }
    }
}

impl Looked {
    fn coming(&self) -> MutexGuard<'_, Vec<Key>> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything: an operator changed the queue and wants to see it.
    pub(in crate::api) fn forget(&self) {
        self.places.forget();
        self.totals.forget();
        self.lasts.forget();
    }
}

/// Whether the whole queue has to be looked at: an index leads to the tasks of a host and of a source.
fn is_wide(filter: &TaskFilter) -> bool {
    filter.host.is_none() && filter.source.is_none()
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
    let counted = async move { of.store.count(wanted).await };
    Ok(api.looked.totals.answer(&api.workers, is_wide(filter), key, counted).await?)
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
    if let Some(start) = nearing(&places, behind) {
        read_on(api, (all, Some(start)));
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
        _ => match last(api, TaskFilter { limit: offset, ..whole(&filter) }).await? {
            None => return Ok(Vec::new()),
            last => last,
        },
    };
    Ok(page(api, TaskFilter { after, ..filter }, limit).await?.0)
}

/// The last of as many places as the filter has room for; nothing when there are not so many.
async fn last(api: &Api, filter: TaskFilter) -> Result<Option<Cursor>, Problem> {
    let (of, wanted) = (api.clone(), filter.clone());
    let read = async move {
        let found = places(&*of.store, &wanted).await?;
        Ok::<_, DbError>(found.last().copied().filter(|_| found.len() == wanted.limit))
    };
    if highest(&*api.store).await? < LARGE {
        return Ok(read.await?);
    }
    Ok(api.looked.lasts.answer(&api.workers, is_wide(&filter), filter, read).await?)
}

async fn ahead(api: &Api, key: Key) -> Result<Arc<Vec<Cursor>>, Problem> {
    let of = api.clone();
    let filter = TaskFilter { after: key.1, limit: AHEAD, ..key.0.clone() };
    let wide = is_wide(&filter);
    let read = async move { places(&*of.store, &filter).await.map(Arc::new) };
    Ok(api.looked.places.answer(&api.workers, wide, key, read).await?)
}

/// Reads the next places while the last ones are still being looked at, so that nobody waits for them.
fn read_on(api: &Api, key: Key) {
    let mut coming = api.looked.coming();
    if coming.contains(&key) || api.looked.places.key_where(|known, _| *known == key).is_some() {
        return;
    }
    coming.push(key.clone());
    // A runtime that ends drops at once what it is given, and with it the place in this list.
    drop(coming);
    let of = Coming { api: api.clone(), key };
    api.workers.spawn(async move {
        if let Err(problem) = ahead(&of.api, of.key.clone()).await {
            tracing::debug!(?problem, "places could not be read ahead");
        }
    });
}

/// Places that are being read; however that ends, they may be read again.
struct Coming {
    api: Api,
    key: Key,
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.api.looked.coming().retain(|key| *key != self.key);
    }
}

/// Where the next places begin, when not much is left of these behind so many and there is more.
fn nearing(places: &[Cursor], behind: usize) -> Option<Cursor> {
    let left = places.len().saturating_sub(behind);
    let start = places.len().checked_sub(1 + OVERLAP)?;
    places.get(start).copied().filter(|_| places.len() == AHEAD && left < NEAR)
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
        let start = nearing(&full, 2_501).unwrap();
        let next: Vec<Cursor> = (-4_000..1_001).rev().map(at).collect();
        assert_eq!((start, next.len()), (at(1_001), AHEAD + 1));
        for limit in [1, 50, OVERLAP] {
            let left = (0..AHEAD).rev().map(|at| full[AHEAD - 1 - at]);
            let beyond = left.into_iter().find(|after| !covers(None, &full, Some(after), limit));
            assert!(covers(Some(&start), &next[..AHEAD], beyond.as_ref(), limit), "{limit}");
        }
        assert_eq!(nearing(short, 0), None, "there is nothing behind it");
        // A place need not be there any more.
        assert_eq!(begin(short, Some(&at(8))), 3);
        assert_eq!(begin(&[at(9), at(3)], Some(&at(5))), 1);
    }
}
