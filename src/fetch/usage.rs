//! Counts what outcomes store for each source, until somebody writes the sums down (`app/quota.rs`), and
//! knows the sources that get nothing more today.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{Entry, Outcome, Verdict};

/// The meter of an engine; clones share it.
#[derive(Clone, Debug, Default)]
pub struct UsageMeter(Arc<Mutex<Usage>>);

#[derive(Debug, Default)]
struct Usage {
    added: HashMap<i64, u64>,
    stopped: Arc<HashSet<i64>>,
}

impl UsageMeter {
    /// Counts bytes for a source.
    pub fn add(&self, source: i64, bytes: u64) {
        self.with(|usage| *usage.added.entry(source).or_default() += bytes);
    }

    /// What was counted since the last time.
    #[must_use]
    pub fn drain(&self) -> HashMap<i64, u64> {
        self.with(|usage| std::mem::take(&mut usage.added))
    }

    /// From now on these sources get nothing more.
    pub fn stop(&self, sources: HashSet<i64>) {
        self.with(|usage| usage.stopped = Arc::new(sources));
    }

    /// Sources that get nothing more.
    #[must_use]
    pub fn stopped(&self) -> Arc<HashSet<i64>> {
        self.with(|usage| Arc::clone(&usage.stopped))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Usage) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// About how many bytes an outcome stores: records of the archive, entries, an article with its text, and the
/// text of a robots.txt.
#[must_use]
pub(super) fn stored_bytes(outcome: &Outcome) -> u64 {
    let archived: u64 =
        outcome.fetches.iter().filter_map(|fetch| fetch.raw.as_ref()).map(|raw| raw.length).sum();
    let entries: usize = outcome.entries.iter().map(|fact| entry_bytes(&fact.entry)).sum();
    let article = outcome.article.as_ref().map_or(0, |fact| fact.text.len());
    let robots = match outcome.robots.as_ref().map(|fact| &fact.state.verdict) {
        Some(Verdict::Rules(text)) => text.len(),
        Some(_) | None => 0,
    };
    archived + (entries + article + robots) as u64
}

fn entry_bytes(entry: &Entry) -> usize {
    let texts = [&entry.title, &entry.summary, &entry.content, &entry.canonical_link];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    entry.uid.len() + texts + entry.categories.iter().map(String::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Code, Next, RobotsFact, RobotsState, Ts};

    #[test]
    fn the_text_of_a_robots_txt_counts() {
        let next = Next::Retry { at: Ts::from_ms(1), code: Code::Ok };
        let mut outcome = Outcome::new(Code::Ok, next, "read");
        assert_eq!(stored_bytes(&outcome), 0);
        let verdict = Verdict::Rules("User-agent: *".to_owned());
        outcome.robots = Some(RobotsFact {
            origin: "https://a.test".to_owned(),
            state: RobotsState { verdict, ..RobotsState::never() },
            crawl_delay_ms: None,
            rechecked_as: None,
        });
        assert_eq!(stored_bytes(&outcome), 13);
    }
}
