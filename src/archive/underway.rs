//! Who writes records that no commit refers to yet. What such a record relies on must not go before it
//! is in the index, where those are found who need it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{MutexGuard, PoisonError};

use super::Archive;
use crate::model::RawRef;

/// Those who write, by when they began.
#[derive(Debug, Default)]
pub(super) struct Underway {
    next: u64,
    writing: BTreeSet<u64>,
    /// Records that nobody who began since can refer to.
    forgotten: HashMap<RawRef, u64>,
}

/// Somebody who writes records, until what refers to them is committed or given up.
#[derive(Debug)]
#[must_use = "it lasts until it is dropped"]
pub struct Writer<'a> {
    archive: &'a Archive,
    number: u64,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.archive.underway().writing.remove(&self.number);
    }
}

impl Archive {
    fn underway(&self) -> MutexGuard<'_, Underway> {
        self.underway.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody begins to write.
    pub fn writer(&self) -> Writer<'_> {
        let mut underway = self.underway();
        let number = underway.next;
        underway.next += 1;
        underway.writing.insert(number);
        Writer { archive: self, number }
    }

    /// Nothing that is written from now on refers to this record; true once nothing can that is still
    /// on its way to the index.
    pub fn forget(&self, raw: &RawRef) -> bool {
        if let Some(open) = self.segment().as_mut().filter(|open| open.name == raw.segment) {
            open.forget(raw.offset);
        }
        let underway = &mut *self.underway();
        let since = *underway.forgotten.entry(raw.clone()).or_insert(underway.next);
        underway.writing.first().is_none_or(|oldest| *oldest >= since)
    }

    /// What was forgotten is gone.
    pub(super) fn forgotten(&self, raw: &RawRef) {
        self.underway().forgotten.remove(raw);
    }
}
