//! What sinks need of a store.

use std::time::Duration;

use feedmill::model::{EntryId, Outcome};
use feedmill::store::outbox::{Delivery, Refusal, SinkCursor, SinkWish, Start, Wanted};
use serde_json::json;

use super::Open;
use super::events::poll;
use super::ready::{article, entry};
use super::trial::{DAY, PAUSE, Trial, begin};

const HOUR: Duration = Duration::from_hours(1);

/// As many entries in the log, one poll each.
async fn told(trial: &Trial, count: usize) -> Vec<i64> {
    for at in 0..count {
        let uid = format!("{}-{at}", trial.now());
        poll(trial, |base, feed| Outcome { entries: vec![entry(feed, &uid, "x")], ..base }).await;
    }
    trial.events().await.iter().map(|event| event.seq).collect()
}

fn at(seq: i64, turn: i64) -> Delivery {
    let cursor = SinkCursor { seq, turn, state: json!({"seq": seq}) };
    Delivery { cursor, delivered: 1, ..Delivery::default() }
}

pub(super) async fn a_sink_begins_where_it_is_told_and_stays_where_it_is(open: Open) {
    let trial = begin(open).await;
    let before = told(&trial, 2).await;
    trial.pass(HOUR);
    let since = trial.now();
    let all = told(&trial, 2).await;
    for (name, start, seq) in [
        ("beginning", Start::Beginning, 0),
        ("now", Start::Now, all[3]),
        ("since", Start::At(since), before[1]),
        ("never", Start::At(trial.now().after(DAY)), all[3]),
        ("after", Start::After(all[2]), all[2]),
    ] {
        let sink = trial.store.open_sink(name, start).await.unwrap();
        assert_eq!((sink.cursor.seq, sink.cursor.turn, sink.delivered), (seq, 0, 0), "{name}");
        let again = trial.store.open_sink(name, Start::Now).await.unwrap();
        assert_eq!(again, sink, "{name} is where it was");
    }
    let names: Vec<_> = trial.store.sinks().await.unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["after", "beginning", "never", "now", "since"]);
    let ends = trial.store.log_ends(all[1]).await.unwrap();
    assert_eq!((ends.first, ends.last, ends.next_at), (all[0], all[3], Some(since.after(PAUSE))));
    assert_eq!(trial.store.log_ends(all[3]).await.unwrap().next_at, None);
}

pub(super) async fn one_process_delivers_at_a_time(open: Open) {
    let trial = begin(open).await;
    let store = &trial.store;
    store.open_sink("s", Start::Now).await.unwrap();
    assert!(store.hold_sink("s", "one", HOUR).await.unwrap());
    assert!(!store.hold_sink("s", "two", HOUR).await.unwrap());
    trial.pass(HOUR / 2);
    assert!(store.hold_sink("s", "one", HOUR).await.unwrap(), "it is renewed");
    trial.pass(HOUR / 2);
    assert!(!store.hold_sink("s", "two", HOUR).await.unwrap());
    trial.pass(HOUR / 2);
    assert!(store.hold_sink("s", "two", HOUR).await.unwrap(), "it ran out");
    store.release_sink("s", "one").await.unwrap();
    assert!(!store.hold_sink("s", "one", HOUR).await.unwrap(), "it was not his any more");
    store.release_sink("s", "two").await.unwrap();
    assert!(store.hold_sink("s", "one", HOUR).await.unwrap());
    assert!(!store.hold_sink("nobody", "one", HOUR).await.unwrap());
}

pub(super) async fn what_was_under_way_when_a_sink_was_put_elsewhere_is_void(open: Open) {
    let trial = begin(open).await;
    let store = &trial.store;
    store.open_sink("s", Start::Beginning).await.unwrap();
    assert!(store.note_delivery("s", at(7, 0)).await.unwrap());
    assert_eq!(store.wish("s", SinkWish::Replay(Start::After(3))).await.unwrap(), 1);
    assert!(!store.note_delivery("s", at(8, 0)).await.unwrap());
    let sink = store.open_sink("s", Start::Now).await.unwrap();
    assert_eq!((sink.cursor.seq, sink.cursor.turn, sink.delivered), (3, 1, 1));
    assert_eq!(sink.cursor.state, json!({"seq": 7}), "its own words stay");
    assert!(store.note_delivery("s", at(4, 1)).await.unwrap());
    assert_eq!(store.wish("s", SinkWish::Pause).await.unwrap(), 1);
    let paused = store.open_sink("s", Start::Now).await.unwrap().paused_at;
    assert_eq!(paused, Some(trial.now()));
    trial.pass(PAUSE);
    store.wish("s", SinkWish::Pause).await.unwrap();
    assert_eq!(store.open_sink("s", Start::Now).await.unwrap().paused_at, paused, "since then");
    store.wish("s", SinkWish::Resume).await.unwrap();
    assert_eq!(store.open_sink("s", Start::Now).await.unwrap().paused_at, None);
    assert_eq!(store.wish("s", SinkWish::Forget).await.unwrap(), 1);
    assert_eq!(store.sinks().await.unwrap(), []);
    assert_eq!(store.wish("s", SinkWish::Pause).await.unwrap(), 0);
}

pub(super) async fn dead_letters_are_kept_until_they_arrive_or_are_given_up(open: Open) {
    let trial = begin(open).await;
    let store = &trial.store;
    store.open_sink("s", Start::Beginning).await.unwrap();
    store.open_sink("other", Start::Beginning).await.unwrap();
    let refusal =
        |seq, reason: &str| Refusal { seq, code: "bad_document", reason: reason.to_owned() };
    let refused = vec![refusal(2, "a"), refusal(5, "b"), refusal(6, "c\0")];
    assert!(store.note_delivery("s", Delivery { refused, ..at(9, 0) }).await.unwrap());
    let letters = || async { store.dead_letters("s", 0, false, 10).await.unwrap() };
    let places = |letters: &[feedmill::store::outbox::DeadLetter]| {
        letters.iter().map(|it| (it.seq, it.attempts, it.again)).collect::<Vec<_>>()
    };
    assert_eq!(places(&letters().await), [(2, 1, false), (5, 1, false), (6, 1, false)]);
    assert_eq!(store.open_sink("s", Start::Now).await.unwrap().dead_letters, 3);
    assert_eq!(store.dead_letters("s", 2, false, 1).await.unwrap()[0].seq, 5);
    assert_eq!(store.dead_letters("s", 0, true, 9).await.unwrap(), []);

    assert_eq!(store.wish("s", SinkWish::Again(Some(5))).await.unwrap(), 1);
    assert_eq!(store.wish("other", SinkWish::Again(None)).await.unwrap(), 0);
    assert_eq!(store.dead_letters("s", 0, true, 9).await.unwrap()[0].seq, 5);
    assert_eq!(store.wish("s", SinkWish::Again(None)).await.unwrap(), 3);
    trial.pass(PAUSE);
    // One of them is refused again, one arrives, one was not tried.
    let delivery = Delivery { refused: vec![refusal(2, "still")], settled: vec![5], ..at(9, 0) };
    assert!(store.note_delivery("s", delivery).await.unwrap());
    let left = letters().await;
    assert_eq!(places(&left), [(2, 2, false), (6, 1, true)]);
    assert_eq!((left[0].reason.as_str(), left[0].at), ("still", trial.now()));
    assert_eq!(store.wish("s", SinkWish::Drop(None)).await.unwrap(), 2);
    assert_eq!(letters().await, []);
}

pub(super) async fn the_log_is_trimmed_up_to_a_place_and_never_reuses_one(open: Open) {
    let trial = begin(open).await;
    let old = told(&trial, 4).await;
    trial.pass(DAY);
    let all = told(&trial, 2).await;
    let before = trial.now().before(HOUR);
    let store = &trial.store;
    let cursor = store.open_sink("picky", Start::Beginning).await.unwrap().cursor;
    let refused = vec![Refusal { seq: old[1], code: "refused", reason: "not that".to_owned() }];
    let letter = Delivery { cursor, refused, ..Delivery::default() };
    store.note_delivery("picky", letter).await.unwrap();
    assert_eq!(store.trim_log(before, old[1], 9).await.unwrap(), 1, "a dead letter is kept");
    assert_eq!(trial.events().await[0].seq, old[1]);
    store.wish("picky", SinkWish::Drop(None)).await.unwrap();
    assert_eq!(store.trim_log(before, old[2], 1).await.unwrap(), 1, "so many at the most");
    assert_eq!(store.trim_log(before, old[2], 9).await.unwrap(), 1, "up to the place");
    assert_eq!(store.trim_log(before, i64::MAX, 9).await.unwrap(), 1, "older than that");
    assert_eq!(store.trim_log(trial.now().after(DAY), i64::MAX, 9).await.unwrap(), 1);
    let left: Vec<_> = trial.events().await.iter().map(|event| event.seq).collect();
    assert_eq!(left, all[5..], "the last one stays");
    let ends = store.log_ends(0).await.unwrap();
    assert_eq!((ends.first, ends.last), (all[5], all[5]));
    assert!(told(&trial, 1).await[1] > all[5]);
}

pub(super) async fn what_events_are_about_is_joined_at_once(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[]).await;
    let (mut entries, mut articles) = (Vec::new(), Vec::new());
    for at in 0..3 {
        poll(&trial, |base, task| {
            let fact = article(task, &format!("https://a.example/{at}"), &format!("text {at}"));
            articles.push(fact.id);
            entries.push(EntryId::of(task, &at.to_string()));
            let facts = vec![entry(task, &at.to_string(), "x")];
            Outcome { entries: facts, article: Some(fact), ..base }
        })
        .await;
    }
    let wanted = Wanted {
        entries: entries.iter().copied().chain([EntryId([7; 32])]).collect(),
        articles: articles.clone(),
        sources: vec![source.id, feedmill::model::SourceId(999)],
    };
    let joined = trial.store.join(wanted).await.unwrap();
    assert_eq!((joined.entries.len(), joined.articles.len(), joined.sources.len()), (3, 3, 1));
    assert_eq!(joined.articles[&articles[1]].1, "text 1");
    assert_eq!(joined.entries[&entries[2]].id, entries[2]);
    assert_eq!(joined.sources[&source.id].spec.name, "a");
    let nothing = trial.store.join(Wanted::default()).await.unwrap();
    assert!(nothing.entries.is_empty() && nothing.articles.is_empty());
}
