//! Counts what outcomes store for each source, until somebody writes the sums down (`app/quota.rs`), and
//! knows the sources that get nothing more today.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::model::{ArticleFact, EntryFact, Outcome, Verdict};

/// What a row takes besides its texts: numbers, hashes, its places in indexes. Too little rather than too
/// much.
const ROW_BYTES: usize = 300;

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

/// About how many bytes the entries and the article of an outcome take, never less than they have when they
/// are written down. It takes a while when there are many.
#[must_use]
pub(super) fn document_bytes(outcome: &Outcome) -> u64 {
    let entries: usize = outcome.entries.iter().map(entry_bytes).sum();
    let article = outcome.article.as_ref().map_or(0, article_bytes);
    (entries + article) as u64
}

/// About how many bytes an outcome stores besides: records of the archive, events, addresses, and the text of
/// a robots.txt.
#[must_use]
pub(super) fn stored_bytes(outcome: &Outcome) -> u64 {
    let archived: u64 =
        outcome.fetches.iter().filter_map(|fetch| fetch.raw.as_ref()).map(|raw| raw.length).sum();
    let told = outcome.deleted.iter().map(|(_, event)| event).chain(&outcome.events);
    let events: usize = told.map(|event| ROW_BYTES + json_bytes(&event.payload)).sum();
    let addresses = outcome.discovered.iter().map(|task| &task.url);
    let addresses = addresses.chain(outcome.outside.iter().map(|outside| &outside.url));
    let addresses: usize = addresses.map(|url| ROW_BYTES + url.len()).sum();
    let robots = match outcome.robots.as_ref().map(|fact| &fact.state.verdict) {
        Some(Verdict::Rules(text)) => text.len(),
        Some(_) | None => 0,
    };
    archived + (events + addresses + robots) as u64
}

/// An entry and the event that tells of it, which names its id and its link once more.
fn entry_bytes(fact: &EntryFact) -> usize {
    let entry = &fact.entry;
    let told = json_bytes(&entry.uid) + json_bytes(&entry.canonical_link);
    2 * ROW_BYTES + json_bytes(entry) + told
}

/// An article, its text, the fingerprints of its blocks, and the event that tells of it.
fn article_bytes(fact: &ArticleFact) -> usize {
    let prints = fact.prints.len() * size_of::<u64>();
    2 * ROW_BYTES + json_bytes(&fact.article) + fact.text.len() + prints
}

/// How many bytes something has when it is written down as JSON, which is how documents are stored.
fn json_bytes(value: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    if let Err(error) = serde_json::to_writer(&mut counter, value) {
        // Then it cannot be stored either.
        tracing::debug!(%error, "cannot count the bytes of a document");
    }
    counter.0
}

/// Counts bytes and keeps none.
struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        Code, Entry, EntryId, EventKind, NewEvent, Next, Person, RobotsFact, RobotsState, TaskId,
        Ts,
    };

    fn outcome() -> Outcome {
        Outcome::new(Code::Ok, Next::Again { at: Ts::from_ms(1) }, "read")
    }

    /// What is counted is what the store writes, also of what an entry has from its feed, and of
    /// characters that take six bytes in JSON.
    #[test]
    fn no_document_takes_more_bytes_than_are_counted() {
        let author = Person { name: Some("n".repeat(490)), ..Person::default() };
        let mut outcome = outcome();
        let mut written = 0;
        for number in 0..50 {
            let entry = Entry {
                uid: format!("id-{number}"),
                title: Some("\u{1}".repeat(1_000)),
                authors: vec![author.clone(); 100],
                published_raw: Some("some day".repeat(50)),
                ..Entry::default()
            };
            written += serde_json::to_string(&entry).unwrap().len();
            let id = EntryId::of(TaskId(1), &entry.uid);
            let rest = EntryFact {
                id,
                entry,
                content_hash: [0; 32],
                link_hash: None,
                fetch: None,
                slice: None,
            };
            outcome.entries.push(rest);
        }
        assert!(written > 50 * 49_000);
        let counted = usize::try_from(document_bytes(&outcome)).unwrap();
        assert!((written..written + 50 * 1_000).contains(&counted), "{counted} for {written}");
    }

    #[test]
    fn events_and_addresses_count() {
        let mut outcome = outcome();
        let payload = serde_json::json!({"reason": "r".repeat(5_000)});
        let (kind, subject) = (EventKind::SourceHealth, "s".to_owned());
        outcome.events.push(NewEvent { kind, subject, source: None, payload });
        assert!(stored_bytes(&outcome) > 5_000);
    }

    #[test]
    fn the_text_of_a_robots_txt_counts() {
        let mut outcome = outcome();
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
