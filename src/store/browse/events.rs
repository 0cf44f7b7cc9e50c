//! Events by place, kind and source. What is rare is looked for in one stretch of the log after the
//! other, for a moment only.

use tokio::time::Instant;

use super::PATIENCE;
use crate::db::DbError;
use crate::model::{Event, Ts};
use crate::store::{EventFilter, Store};

/// Places that are looked at first, and at the most, at a time.
const FIRST: i64 = 2_000;
const MOST: i64 = 4_000;

/// Events by query, and the place where the search goes on when it is not at the end of the log.
pub async fn events(
    store: &dyn Store,
    filter: &EventFilter,
) -> Result<(Vec<Event>, Option<i64>), DbError> {
    let (ends, until) = (store.log_ends(i64::MAX).await?, Instant::now() + PATIENCE);
    let (mut after, mut stretch) = (filter.after.max(ends.first - 1), FIRST);
    let mut found = Vec::new();
    loop {
        let upto = after.saturating_add(stretch);
        let limit = filter.limit.saturating_add(1) - found.len();
        let part = EventFilter { after, within: Some(stretch), limit, ..filter.clone() };
        found.extend(store.events(part).await?);
        if found.len() > filter.limit {
            found.truncate(filter.limit);
            let last = found.last().map(|event: &Event| event.seq);
            return Ok((found, last));
        }
        if upto >= ends.last {
            return Ok((found, None));
        }
        if Instant::now() >= until {
            return Ok((found, Some(upto)));
        }
        (after, stretch) = (upto, (2 * stretch).min(MOST));
    }
}

/// The last place before a time: places are in the order of time.
pub async fn before(store: &dyn Store, time: Ts) -> Result<i64, DbError> {
    let ends = store.log_ends(i64::MAX).await?;
    let (mut low, mut high) = (ends.first - 1, ends.last);
    // What comes after `low` may be too early; what comes after `high` is not.
    while low < high {
        let middle = low + (high - low) / 2;
        match store.log_ends(middle).await?.next_at {
            Some(at) if at < time => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}
