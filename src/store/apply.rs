//! What a fact does to what is kept: `apply(previous row, fact) → (row, event)`. Pure.
//!
//! Both backends call these inside their commit, so that two tasks that bring the same thing at
//! the same time still give one row and one event.

use feedmill_formats::robots::Robots;
use feedmill_formats::url as web;
use serde_json::json;

use crate::model::{
    ArticleFact, ArticleId, ArticleRow, Code, EntryFact, EntryRow, EventKind, FetchId, NewEvent,
    RobotsFact, SourceId, Task, TaskId, Ts, Verdict,
};

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

/// What a fetch's fact does to an article. `twin` is the first other article with this very text.
#[must_use]
pub fn article(
    previous: Option<ArticleRow>,
    twin: Option<ArticleId>,
    fact: &ArticleFact,
    at: Ts,
) -> (ArticleRow, Option<NewEvent>) {
    let kind = match &previous {
        None if twin.is_some() => Some(EventKind::ArticleDuplicate),
        None => Some(EventKind::ArticleNew),
        Some(row) if row.content_hash != fact.content_hash => Some(EventKind::ArticleUpdated),
        Some(_) => None,
    };
    let (first_seen, revision, task_id, source) =
        previous.as_ref().map_or((at, 1, fact.task, fact.source), |row| {
            let changed = u32::from(row.content_hash != fact.content_hash);
            (row.first_seen, row.revision + changed, row.task_id, row.source.or(fact.source))
        });
    let duplicate_of = match previous {
        Some(row) if row.content_hash == fact.content_hash => row.duplicate_of,
        _ => twin,
    };
    let row = ArticleRow {
        id: fact.id,
        task_id,
        source,
        article: fact.article.clone(),
        content_hash: fact.content_hash,
        simhash: fact.simhash,
        duplicate_of,
        revision,
        first_seen,
        last_seen: at,
        fetch: fact.fetch,
    };
    let event = kind.map(|kind| article_event(kind, &row, at));
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

/// The same for an article and its text; every difference is a revision.
#[must_use]
pub fn article_again(
    previous: Option<(ArticleRow, String)>,
    twin: Option<ArticleId>,
    fact: &ArticleFact,
    at: Ts,
    now: Ts,
) -> Option<(ArticleRow, NewEvent)> {
    let Some((before, text)) = previous else {
        let (row, event) = article(None, twin, fact, at);
        let event = article_event(event?.kind, &row, now);
        return Some((row, event));
    };
    let is_same = before.article == fact.article
        && text == fact.text
        && (before.content_hash, before.simhash) == (fact.content_hash, fact.simhash);
    if is_same || is_later(before.fetch, fact.fetch) {
        return None;
    }
    let (revision, last_seen) = (before.revision + 1, before.last_seen);
    let (row, _) = article(Some(before), twin, fact, at);
    let row = ArticleRow { revision, last_seen, ..row };
    let event = article_event(EventKind::ArticleUpdated, &row, now);
    Some((row, event))
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

fn article_event(kind: EventKind, row: &ArticleRow, at: Ts) -> NewEvent {
    NewEvent {
        kind,
        subject: row.id.to_string(),
        source: row.source,
        payload: json!({
            "article_id": row.id,
            "url": row.article.url,
            "title": row.article.title,
            "published": row.article.published,
            "revision": row.revision,
            "duplicate_of": row.duplicate_of,
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
mod tests {
    use super::*;
    use crate::model::{Article, Entry, EntryId, UrlHash};

    fn entry_fact(title: &str) -> EntryFact {
        let feed = TaskId(1);
        EntryFact {
            id: EntryId::of(feed, "guid:1"),
            entry: Entry {
                uid: "guid:1".into(),
                canonical_link: None,
                title: Some(title.into()),
                summary: None,
                content: None,
                authors: vec![],
                categories: vec![],
                enclosures: vec![],
                published: None,
                published_raw: None,
                updated_raw: None,
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

    fn article_fact(url: &str, text: &str) -> ArticleFact {
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
            },
            text: text.into(),
            content_hash: *UrlHash::of(text).as_bytes(),
            simhash: 0,
            fetch: None,
            prints: vec![],
        }
    }

    #[test]
    fn an_article_is_new_or_a_copy_and_changes_by_revisions() {
        let at = Ts::from_ms(1);
        let fact = article_fact("https://a/1", "text");
        let (row, event) = article(None, None, &fact, at);
        assert_eq!(event.unwrap().kind, EventKind::ArticleNew);
        let (same, event) = article(Some(row.clone()), None, &fact, at);
        assert!(event.is_none());
        assert_eq!(same.revision, 1);
        let (changed, event) =
            article(Some(row.clone()), None, &article_fact("https://a/1", "t2"), at);
        assert_eq!(event.unwrap().kind, EventKind::ArticleUpdated);
        assert_eq!(changed.revision, 2);
        let (copy, event) = article(None, Some(row.id), &article_fact("https://b/1", "text"), at);
        assert_eq!(event.unwrap().kind, EventKind::ArticleDuplicate);
        assert_eq!(copy.duplicate_of, Some(row.id));
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

        let fact = |text: &str, fetch| ArticleFact { fetch, ..article_fact("https://a/1", text) };
        let again = |row, fact| article_again(row, None, &fact, at(1_000), at(9));
        let (row, event) = again(None, fact("one", early)).unwrap();
        assert_eq!((event.kind, row.revision), (EventKind::ArticleNew, 1));
        let kept = Some((row.clone(), "one".to_owned()));
        assert!(again(kept.clone(), fact("one", early)).is_none());
        let (row, event) = again(kept, fact("two", late)).unwrap();
        assert_eq!((event.kind, row.revision), (EventKind::ArticleUpdated, 2));
        assert!(again(Some((row, "two".to_owned())), fact("one", early)).is_none());
    }
}
