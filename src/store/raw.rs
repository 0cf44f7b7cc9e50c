//! The index of the archive: which fetches are kept, where, and what is read in them again.
//!
//! A fetch that was answered and has no place is one whose bytes are no longer kept.

use crate::model::{ArticleFact, EntryFact, FetchId, RawRef, SourceId, Task, TaskId, Ts};

/// Which fetches to list, in the order of their time.
#[derive(Clone, Debug, Default)]
pub struct FetchFilter {
    /// One of these, when there are any.
    pub ids: Vec<FetchId>,
    /// Whose bytes are in this segment.
    pub segment: Option<String>,
    /// Of tasks that this source owns.
    pub source: Option<SourceId>,
    /// Of tasks that wait in this host's queue.
    pub host: Option<String>,
    /// Made at or after this time.
    pub since: Option<Ts>,
    /// Made before this time.
    pub until: Option<Ts>,
    /// Only those whose bytes are kept.
    pub kept: bool,
    /// After this one.
    pub after: Option<FetchId>,
    /// At most so many.
    pub limit: usize,
}

/// A segment that fetches refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentUse {
    /// Its name.
    pub segment: String,
    /// Fetches that refer to it.
    pub records: u64,
    /// When the last of them was made.
    pub last: Ts,
}

/// A fetch whose bytes are somewhere else now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRaw {
    /// Which.
    pub fetch: FetchId,
    /// The segment that it was in.
    pub from: String,
    /// Where it is.
    pub to: RawRef,
}

/// What was read again in what a task brought.
#[derive(Clone, Debug)]
pub struct Reread {
    /// The task.
    pub task: Task,
    /// Entries, each with the time of the fetch that brought it.
    pub entries: Vec<(Ts, EntryFact)>,
    /// The article, likewise.
    pub article: Option<(Ts, ArticleFact)>,
}

/// Stands in the index for the task of a fetch that is no task's.
const NOBODY: i64 = 0;

/// The task of a fetch as it stands in the index.
pub(super) fn to_index(task: Option<TaskId>) -> i64 {
    task.map_or(NOBODY, |task| task.0)
}

/// The task of a fetch from how it stands in the index.
pub(super) fn from_index(task: i64) -> Option<TaskId> {
    Some(task).filter(|task| *task != NOBODY).map(TaskId)
}

/// The least id of a fetch made at that time: ids begin with it.
pub(super) fn first_id(at: Ts) -> FetchId {
    let ms = u128::try_from(at.ms()).unwrap_or(0);
    FetchId::from_u128(ms << 80)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::new_uuid;

    #[test]
    fn ids_begin_with_their_time() {
        let at = Ts::from_ms(1_800_000_000_123);
        assert!(first_id(at) <= new_uuid(at));
        assert!(new_uuid(at) < first_id(Ts::from_ms(at.ms() + 1)));
    }
}
