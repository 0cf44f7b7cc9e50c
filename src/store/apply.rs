//! What a fact does to what is kept: `apply(previous row, fact) → (row, event)`. Pure.
//!
//! Both backends call these inside their commit, so that two tasks that bring the same thing at
//! the same time still give one row and one event.

mod article;

use feedmill_formats::robots::Robots;
use feedmill_formats::url as web;
use serde_json::json;

use crate::model::{
    Code, EntryFact, EntryRow, EventKind, FetchId, NewEvent, RobotsFact, SourceId, Task, TaskId,
    Ts, Verdict,
};

pub use article::{Form, Kept, article, article_again, article_mended, is_news};

/// What a poll's fact does to an entry.
#[must_use]
pub fn entry(
    previous: Option<EntryRow>,
    fact: EntryFact,
    feed: TaskId,
    source: Option<SourceId>,
    at: Ts,
) -> (EntryRow, Option<NewEvent>) {
    let kind = match &previous {
        None => Some(EventKind::EntryNew),
        Some(row) if row.content_hash != fact.content_hash => Some(EventKind::EntryUpdated),
        Some(_) => None,
    };
    let (first_seen, seen_count) = previous.map_or((at, 0), |row| (row.first_seen, row.seen_count));
    let row = EntryRow {
        id: fact.id,
        feed_id: feed,
        entry: fact.entry,
        content_hash: fact.content_hash,
        first_seen,
        last_seen: at,
        seen_count: seen_count.saturating_add(1),
        fetch: fact.fetch,
    };
    let event = kind.map(|kind| entry_event(kind, &row, source, at));
    (row, event)
}

/// What reading an archived document again does to an entry: nothing when it says nothing else, or
/// when a later fetch brought what is kept. `at` is when the document was fetched.
#[must_use]
pub fn entry_again(
    previous: Option<EntryRow>,
    fact: &EntryFact,
    feed: TaskId,
    source: Option<SourceId>,
    at: Ts,
    now: Ts,
) -> Option<(EntryRow, NewEvent)> {
    let fact = fact.clone();
    let (kind, row) = match previous {
        None => {
            let EntryFact { id, entry, content_hash, fetch, .. } = fact;
            let (first_seen, last_seen, seen_count) = (at, at, 1);
            let row = EntryRow {
                id,
                feed_id: feed,
                entry,
                content_hash,
                first_seen,
                last_seen,
                seen_count,
                fetch,
            };
            (EventKind::EntryNew, row)
        }
        Some(row) if is_later(row.fetch, fact.fetch) => return None,
        Some(row) if row.entry == fact.entry && row.content_hash == fact.content_hash => {
            return None;
        }
        Some(row) => {
            let EntryFact { entry, content_hash, fetch, .. } = fact;
            (EventKind::EntryUpdated, EntryRow { entry, content_hash, fetch, ..row })
        }
    };
    let event = entry_event(kind, &row, source, now);
    Some((row, event))
}

/// What is kept in place of an entry that cannot be read, where `left` is what can be read of it. The log
/// tells of it only when the content is another than it was.
#[must_use]
pub fn entry_mended(
    left: Option<EntryRow>,
    fact: &EntryFact,
    feed: TaskId,
    source: Option<SourceId>,
    at: Ts,
    now: Ts,
) -> (EntryRow, Option<NewEvent>) {
    let EntryFact { id, entry, content_hash, fetch, .. } = fact.clone();
    let Some(left) = left else {
        let (first_seen, last_seen, seen_count) = (at, at, 1);
        let feed_id = feed;
        let row =
            EntryRow { id, feed_id, entry, content_hash, first_seen, last_seen, seen_count, fetch };
        return (row, None);
    };
    let is_same = left.content_hash == content_hash;
    let row = EntryRow { entry, content_hash, fetch, ..left };
    let event = (!is_same).then(|| entry_event(EventKind::EntryUpdated, &row, source, now));
    (row, event)
}

/// Whether the fetch of what is kept was made after another; ids begin with their time.
fn is_later(kept: Option<FetchId>, other: Option<FetchId>) -> bool {
    let ms = |id: FetchId| id.as_u128() >> 80;
    kept.zip(other).is_some_and(|(kept, other)| ms(kept) > ms(other))
}

fn entry_event(kind: EventKind, row: &EntryRow, source: Option<SourceId>, at: Ts) -> NewEvent {
    NewEvent {
        kind,
        subject: row.id.to_string(),
        source,
        payload: json!({
            "entry_uid": row.entry.uid,
            "feed_id": row.feed_id,
            "published": row.entry.published,
            "canonical_link": row.entry.canonical_link,
            "raw_refs": row.fetch.iter().map(|id| json!({"fetch_id": id})).collect::<Vec<_>>(),
            "ingested_at": at,
        }),
    }
}

/// Tells which of the addresses that robots.txt had ruled out its new rules allow; `None` when the
/// rules are the old ones.
#[must_use]
pub fn allowed_again(fact: &RobotsFact) -> Option<impl Fn(&str) -> bool> {
    let agent = fact.rechecked_as.clone()?;
    let rules = match &fact.state.verdict {
        Verdict::Rules(text) => Robots::parse(text.as_bytes()),
        Verdict::AllowAll => Robots::default(),
    };
    let origin = fact.origin.clone();
    Some(move |url: &str| {
        web::parse(url).is_ok_and(|url| {
            web::origin(&url) == origin && rules.allows(&agent, &web::path_and_query(&url))
        })
    })
}

/// What the log says of a task that was given up because nobody who had it ever answered.
#[must_use]
pub fn poisoned(task: &Task) -> Vec<NewEvent> {
    NewEvent::given_up(task, Code::Poison, task.reason.as_deref().unwrap_or_default())
}

#[cfg(test)]
pub(super) mod tests {
    use feedmill_formats::sketch::Sketch;

    use super::*;
    use crate::model::{Article, ArticleFact, Entry, EntryId, UrlHash};

    fn entry_fact(title: &str) -> EntryFact {
        let feed = TaskId(1);
        EntryFact {
            id: EntryId::of(feed, "guid:1"),
            entry: Entry {
                uid: "guid:1".into(),
                canonical_link: None,
                given_link: None,
                title: Some(title.into()),
                summary: None,
                content: None,
                authors: vec![],
                categories: vec![],
                enclosures: vec![],
                published: None,
                published_raw: None,
                updated_raw: None,
                cut: vec![],
                updated: None,
            },
            content_hash: *UrlHash::of(title).as_bytes(),
            link_hash: None,
            fetch: None,
            slice: None,
        }
    }

    #[test]
    fn an_entry_is_new_once_and_updated_when_it_changes() {
        let at = |ms| Ts::from_ms(ms);
        let (row, event) = entry(None, entry_fact("a"), TaskId(1), None, at(1));
        assert_eq!(event.unwrap().kind, EventKind::EntryNew);
        let (row, event) = entry(Some(row), entry_fact("a"), TaskId(1), None, at(2));
        assert!(event.is_none());
        assert_eq!((row.first_seen, row.last_seen, row.seen_count), (at(1), at(2), 2));
        let (row, event) = entry(Some(row), entry_fact("b"), TaskId(1), None, at(3));
        assert_eq!(event.unwrap().kind, EventKind::EntryUpdated);
        assert_eq!(row.first_seen, at(1));
    }

    #[test]
    fn a_mended_entry_is_told_only_when_it_is_another() {
        let (row, _) = entry(None, entry_fact("a"), TaskId(1), None, Ts::from_ms(1));
        let left = Some(EntryRow { entry: Entry::default(), ..row.clone() });
        let mend = |left, title| {
            let (feed, at) = (TaskId(1), Ts::from_ms(9));
            entry_mended(left, &entry_fact(title), feed, None, at, at)
        };
        assert_eq!(mend(left.clone(), "a"), (row.clone(), None));
        let (other, event) = mend(left, "b");
        assert_eq!(event.unwrap().kind, EventKind::EntryUpdated);
        assert_eq!((other.first_seen, other.entry.title.as_deref()), (row.first_seen, Some("b")));
        assert_eq!(mend(None, "a").0.first_seen, Ts::from_ms(9));
    }

    pub(in crate::store) fn article_fact(url: &str, text: &str) -> ArticleFact {
        ArticleFact {
            id: UrlHash::of(url),
            task: TaskId(7),
            source: None,
            article: Article {
                url: url.into(),
                canonical_url: None,
                title: None,
                authors: vec![],
                published: None,
                updated: None,
                language: None,
                site_name: None,
                section: None,
                tags: vec![],
                lead_image: None,
                abstract_: None,
                word_count: 1,
                method: "test".into(),
                confidence: 1.0,
                rights: Default::default(),
                cut: vec![],
            },
            text: text.into(),
            content_hash: *UrlHash::of(text).as_bytes(),
            simhash: 0,
            sketch: Sketch::of(text),
            fetch: None,
            prints: vec![],
        }
    }

    #[test]
    fn reading_again_changes_what_is_different_and_nothing_that_came_later() {
        use crate::model::new_uuid;
        let at = |ms| Ts::from_ms(ms);
        let (early, late) = (Some(new_uuid(at(1_000))), Some(new_uuid(at(2_000))));
        let fact = |title: &str, fetch| EntryFact { fetch, ..entry_fact(title) };
        let again = |row, fact| entry_again(row, &fact, TaskId(1), None, at(1_000), at(9));
        let (row, event) = again(None, fact("a", early)).unwrap();
        assert_eq!(
            (event.kind, row.first_seen, row.seen_count),
            (EventKind::EntryNew, at(1_000), 1)
        );
        assert!(again(Some(row.clone()), fact("a", late)).is_none(), "nothing is different");
        let (row, event) = again(Some(row), fact("b", late)).unwrap();
        assert_eq!((event.kind, row.first_seen), (EventKind::EntryUpdated, at(1_000)));
        assert!(again(Some(row.clone()), fact("c", early)).is_none(), "what is kept came later");
        // A date is a difference, although it is no content.
        let mut dated = fact("b", late);
        dated.entry.published = Some(at(500));
        assert!(again(Some(row), dated).is_some());
    }
}
