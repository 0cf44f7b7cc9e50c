//! The log of what changed.

use feedmill::model::{EntryId, EventKind, NewEvent, Next, Outcome};
use feedmill::store::{Committed, EventFilter};

use super::Open;
use super::ready::{article, entry};
use super::trial::{PAUSE, Trial, begin, feed, then};

const FEED: &str = "https://a.example/feed";

/// Polls the one feed and commits what `outcome` makes of its lease.
pub(super) async fn poll(
    trial: &Trial,
    outcome: impl FnOnce(Outcome, feedmill::model::TaskId) -> Outcome,
) {
    trial.submit([feed(FEED)]).await;
    trial.pass(PAUSE);
    let lease = trial.take().await;
    let base = then(Next::Again { at: trial.now().after(PAUSE) });
    let answer = trial.commit(&lease, outcome(base, lease.task.id)).await;
    assert_eq!(answer, Committed::Done);
}

pub(super) async fn an_entry_is_new_once_and_updated_when_it_changes(open: Open) {
    let trial = begin(open).await;
    let mut first_seen = None;
    let mut seen = 0;
    for (title, kinds) in [
        ("one", vec!["entry.new"]),
        ("one", vec!["entry.new"]),
        ("two", vec!["entry.new", "entry.updated"]),
    ] {
        let mut id = None;
        poll(&trial, |base, feed| {
            id = Some(EntryId::of(feed, "uid"));
            Outcome { entries: vec![entry(feed, "uid", title)], ..base }
        })
        .await;
        assert_eq!(trial.kinds_of_events().await, kinds);
        let row = trial.store.entry(id.unwrap()).await.unwrap().unwrap();
        seen += 1;
        assert_eq!(row.entry.title.as_deref(), Some(title));
        assert_eq!((row.seen_count, row.last_seen), (seen, trial.now()));
        assert_eq!(row.first_seen, *first_seen.get_or_insert(row.first_seen));
    }
    // The same uid in another feed is another entry.
    let elsewhere = "https://b.example/feed";
    trial.submit([feed(elsewhere)]).await;
    let lease = trial.take().await;
    assert_eq!(lease.task.url, elsewhere);
    let facts = vec![entry(lease.task.id, "uid", "two")];
    trial.commit(&lease, Outcome { entries: facts, ..then(Next::Fetched) }).await;
    assert_eq!(trial.kinds_of_events().await, ["entry.new", "entry.updated", "entry.new"]);
}

pub(super) async fn an_article_is_new_then_updated(open: Open) {
    let trial = begin(open).await;
    let mut id = None;
    for text in ["first", "first", "second"] {
        poll(&trial, |base, task| {
            let fact = article(task, "https://a.example/1", text);
            id = Some(fact.id);
            Outcome { article: Some(fact), ..base }
        })
        .await;
    }
    assert_eq!(trial.kinds_of_events().await, ["article.new", "article.updated"]);
    let (row, text) = trial.store.article(id.unwrap()).await.unwrap().unwrap();
    assert_eq!((row.revision, text.as_str()), (2, "second"));
    assert_eq!(trial.store.totals().await.unwrap().articles, 1);
}

pub(super) async fn the_same_text_elsewhere_is_a_duplicate(open: Open) {
    let trial = begin(open).await;
    let mut ids = Vec::new();
    for url in ["https://a.example/1", "https://b.example/1", "https://c.example/1"] {
        poll(&trial, |base, task| {
            let fact = article(task, url, "the agency's words");
            ids.push(fact.id);
            Outcome { article: Some(fact), ..base }
        })
        .await;
    }
    let wanted = ["article.new", "article.duplicate", "article.duplicate"];
    assert_eq!(trial.kinds_of_events().await, wanted);
    for copy in &ids[1..] {
        let (row, _) = trial.store.article(*copy).await.unwrap().unwrap();
        assert_eq!(row.duplicate_of, Some(ids[0]), "always the first of them");
    }
    assert_eq!(trial.store.totals().await.unwrap().duplicates, 2);
}

pub(super) async fn the_log_is_strictly_increasing_and_read_from_any_place(open: Open) {
    let trial = begin(open).await;
    for round in 0..4 {
        poll(&trial, |base, feed| {
            let facts = (0..5).map(|at| entry(feed, &format!("{round}/{at}"), "x")).collect();
            Outcome { entries: facts, ..base }
        })
        .await;
    }
    let events = trial.events().await;
    assert_eq!(events.len(), 20);
    assert!(events.windows(2).all(|pair| pair[0].seq < pair[1].seq && pair[0].at <= pair[1].at));
    let (mut read, mut after) = (Vec::new(), 0);
    loop {
        let some = trial.store.events_after(after, 3).await.unwrap();
        let Some(last) = some.last() else { break };
        after = last.seq;
        read.extend(some);
    }
    assert_eq!(read, events);
}

pub(super) async fn the_same_facts_twice_give_no_second_event(open: Open) {
    let trial = begin(open).await;
    for _ in 0..2 {
        poll(&trial, |base, task| Outcome {
            entries: vec![entry(task, "1", "one"), entry(task, "1", "one"), entry(task, "2", "x")],
            article: Some(article(task, "https://a.example/1", "text")),
            ..base
        })
        .await;
    }
    assert_eq!(trial.kinds_of_events().await, ["entry.new", "entry.new", "article.new"]);
}

pub(super) async fn an_entry_is_deleted_once_until_it_is_there_again(open: Open) {
    let trial = begin(open).await;
    let gone = |feed, uid: &str| {
        let id = EntryId::of(feed, uid);
        let event = NewEvent {
            kind: EventKind::EntryDeleted,
            subject: id.to_string(),
            source: None,
            payload: serde_json::json!({}),
        };
        (id, event)
    };
    let (new, deleted) = ("entry.new", "entry.deleted");
    for (there, kinds) in [
        (true, vec![new]),
        (false, vec![new, deleted]),
        (false, vec![new, deleted]),
        (true, vec![new, deleted]),
        (false, vec![new, deleted, deleted]),
    ] {
        poll(&trial, |base, feed| match there {
            true => Outcome { entries: vec![entry(feed, "uid", "one")], ..base },
            false => Outcome { deleted: vec![gone(feed, "uid"), gone(feed, "unknown")], ..base },
        })
        .await;
        assert_eq!(trial.kinds_of_events().await, kinds);
    }
    poll(&trial, |base, feed| Outcome { seen: vec![EntryId::of(feed, "uid")], ..base }).await;
    poll(&trial, |base, feed| Outcome { deleted: vec![gone(feed, "uid")], ..base }).await;
    assert_eq!(trial.events().await.len(), 4, "it was seen in between");
}

pub(super) async fn the_log_is_read_by_kind_time_source_and_from_its_end(open: Open) {
    let trial = begin(open).await;
    let first = trial.source("a", &[]).await;
    trial.source("b", &[]).await;
    for name in ["a", "b"] {
        trial.disable(name).await;
        trial.pass(PAUSE);
    }
    let later = trial.now();
    for name in ["a", "b"] {
        trial.enable(name).await;
    }
    let all: Vec<i64> = trial.events().await.iter().map(|event| event.seq).collect();
    let base = || EventFilter { limit: 9, ..EventFilter::default() };
    for (filter, places) in [
        (base(), vec![0, 1, 2, 3]),
        (EventFilter { after: all[1], ..base() }, vec![2, 3]),
        (EventFilter { since: Some(later), ..base() }, vec![2, 3]),
        (EventFilter { since: Some(later.after(PAUSE)), ..base() }, vec![]),
        (EventFilter { kinds: vec![EventKind::SourceDisabled], ..base() }, vec![0, 1]),
        (EventFilter { source: Some(first.id), ..base() }, vec![0, 2]),
        (EventFilter { limit: 3, ..base() }, vec![0, 1, 2]),
        (EventFilter { limit: 3, latest: true, ..base() }, vec![1, 2, 3]),
    ] {
        let found = trial.store.events(filter.clone()).await.unwrap();
        let found: Vec<i64> = found.iter().map(|event| event.seq).collect();
        assert_eq!(found, places.iter().map(|at| all[*at]).collect::<Vec<_>>(), "{filter:?}");
    }
}

pub(super) async fn sources_leave_their_trace(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[FEED]).await;
    for _ in 0..2 {
        trial.disable("a").await;
    }
    for _ in 0..2 {
        trial.enable("a").await;
    }
    assert_eq!(trial.kinds_of_events().await, ["source.disabled", "source.enabled"]);
    assert!(trial.events().await.iter().all(|event| event.subject == source.uuid));
}
