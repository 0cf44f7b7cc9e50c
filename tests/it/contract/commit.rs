//! Making outcomes true: where tasks go, what hosts learn, what comes with it.

use std::time::Duration;

use feedmill::model::{
    Ask, AskedEntry, Code, EntryId, FeedFact, FeedState, HostAdvice, Known, Lane, NewTask, Next,
    Outcome, Status, Ts, UrlHash, Validators,
};
use feedmill::store::{Commit, Committed};

use super::Open;
use super::ready::{article, entry};
use super::trial::{DAY, PAUSE, TICK, at_priority, begin, feed, page, then};

const URL: &str = "https://a.example/1";

pub(super) async fn fetched_is_the_end(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL)]).await;
    trial.end(&trial.take().await, Next::Fetched).await;
    let task = trial.task(URL).await;
    assert_eq!((task.status, task.leased), (Status::Fetched, false));
    assert_eq!((task.fetch_count, task.retry_count), (1, 0));
    assert_eq!(task.last_fetched_at, Some(trial.now()));
    assert_eq!(task.reason.as_deref(), Some("as the case says"));
    trial.pass(365 * DAY);
    assert!(trial.idle().await);
}

pub(super) async fn again_comes_back_at_its_time(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(URL)]).await;
    for round in 1..=3 {
        let at = trial.now().after(DAY);
        trial.end(&trial.take().await, Next::Again { at }).await;
        let task = trial.task(URL).await;
        assert_eq!((task.status, task.next_fetch_at), (Status::Pending, at));
        assert_eq!(task.fetch_count, round);
        trial.pass(DAY - TICK);
        assert!(trial.idle().await);
        trial.pass(TICK);
    }
    assert!(!trial.idle().await);
}

pub(super) async fn retry_counts_until_it_goes_well(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(URL)]).await;
    for failures in 1..=3 {
        let at = trial.now().after(DAY);
        trial.end(&trial.take().await, Next::Retry { at, code: Code::Timeout }).await;
        let task = trial.task(URL).await;
        assert_eq!((task.status, task.retry_count), (Status::Pending, failures));
        assert_eq!((task.last_error, task.next_fetch_at), (Some(Code::Timeout), at));
        assert_eq!(trial.store.stats().await.unwrap().total.failed, 1);
        trial.pass(DAY - TICK);
        assert!(trial.idle().await);
        trial.pass(TICK);
    }
    trial.end(&trial.take().await, Next::Again { at: trial.now().after(DAY) }).await;
    let task = trial.task(URL).await;
    assert_eq!((task.retry_count, task.last_error), (0, None));
}

pub(super) async fn what_a_server_asks_for_is_counted_alone(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(URL)]).await;
    let (upstream, limited) = (Code::Upstream, Code::RateLimited);
    for (code, count) in [
        (upstream, 1),
        (upstream, 2),
        (limited, 1),
        (limited, 2),
        (upstream, 3),
        (limited, 1),
        (Code::HostBusy, 1),
        (Code::Internal, 1),
        (Code::Internal, 2),
    ] {
        let at = trial.now().after(DAY);
        trial.end(&trial.take().await, Next::Retry { at, code }).await;
        let task = trial.task(URL).await;
        assert_eq!((task.retry_count, task.last_error), (count, Some(code)));
        trial.pass(DAY);
    }
}

pub(super) async fn postpone_does_not_count(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL)]).await;
    let at = trial.now().after(PAUSE);
    trial.end(&trial.take().await, Next::Retry { at, code: Code::Timeout }).await;
    for _ in 0..3 {
        trial.pass(DAY);
        let at = trial.now().after(DAY);
        trial.end(&trial.take().await, Next::Postpone { at, code: Code::HostBusy }).await;
        let task = trial.task(URL).await;
        assert_eq!((task.retry_count, task.fetch_count), (1, 1));
        assert_eq!((task.last_error, task.next_fetch_at), (Some(Code::HostBusy), at));
    }
}

pub(super) async fn dead_keeps_its_code(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL), page("https://b.example/")]).await;
    for lease in trial.claim(2, Lane::ALL).await {
        trial.end(&lease, Next::Dead { code: Code::Gone }).await;
    }
    let task = trial.task(URL).await;
    assert_eq!((task.status, task.last_error), (Status::Dead, Some(Code::Gone)));
    let stats = trial.store.stats().await.unwrap();
    assert_eq!((stats.total.dead, stats.dead_by_code), (2, vec![(Code::Gone, 2)]));
    trial.pass(365 * DAY);
    assert!(trial.idle().await);
}

pub(super) async fn validators_come_back_with_the_next_lease(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(URL)]).await;
    let lease = trial.take().await;
    assert!(lease.validators.is_empty() && lease.validators_for.is_none());
    let kept = Validators { etag: Some("W/\"x\"".into()), last_modified: None };
    let again = || then(Next::Again { at: trial.now().after(PAUSE) });
    let told = Some((kept.clone(), "https://cdn.example/1".to_owned()));
    trial.commit(&lease, Outcome { validators: told, ..again() }).await;
    for _ in 0..2 {
        trial.pass(PAUSE);
        let lease = trial.take().await;
        assert_eq!(lease.validators, kept);
        assert_eq!(lease.validators_for.as_deref(), Some("https://cdn.example/1"));
        trial.commit(&lease, again()).await;
    }
}

pub(super) async fn found_addresses_are_in_the_frontier_with_the_commit(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(URL), page("https://b.example/known")]).await;
    let lease = trial.claim(1, &[Lane::Poll]).await.pop().unwrap();
    let found = |url: &str| NewTask { parent: Some(lease.task.id), ..at_priority(9, page(url)) };
    let discovered = ["https://b.example/new", "https://b.example/known", "mailto:x@b.example"];
    let outcome = Outcome {
        discovered: discovered.map(found).into(),
        ..then(Next::Again { at: trial.now().after(DAY) })
    };
    assert_eq!(trial.commit(&lease, outcome).await, Committed::Done);
    assert_eq!(trial.tasks().await.len(), 3);
    assert_eq!(trial.task("https://b.example/known").await.priority, 9);
    assert_eq!(trial.take().await.task.url, "https://b.example/known");
}

pub(super) async fn the_address_that_answered_instead_is_done_as_well(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL), page("https://a.example/target")]).await;
    let lease = trial.take().await;
    let outcome =
        Outcome { settled: Some(page("https://a.example/target")), ..then(Next::Fetched) };
    trial.commit(&lease, outcome).await;
    assert_eq!(trial.task("https://a.example/target").await.status, Status::Fetched);
    trial.pass(PAUSE);
    assert!(trial.idle().await);
}

pub(super) async fn a_complaint_doubles_the_pause_and_blocks(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(URL)]).await;
    for (round, wanted) in [1, 2, 4, 8].into_iter().enumerate() {
        let lease = trial.take().await;
        assert_eq!(lease.delay, wanted * PAUSE, "after {round} complaints");
        let until = Some(trial.now().after(DAY));
        let slow = then(Next::Again { at: trial.now() });
        trial.commit(&lease, Outcome { host: HostAdvice::SlowDown { until }, ..slow }).await;
        trial.pass(DAY - TICK);
        assert!(trial.idle().await, "it named a day");
        trial.pass(TICK);
    }
    let lease = trial.take().await;
    let slow = then(Next::Again { at: trial.now() });
    trial.commit(&lease, Outcome { host: HostAdvice::SlowDown { until: None }, ..slow }).await;
    trial.pass(32 * PAUSE - TICK);
    assert!(trial.idle().await, "without a date the doubled pause is what counts");
    trial.pass(TICK);
    assert!(!trial.idle().await);
}

pub(super) async fn a_quiet_host_is_asked_faster_again(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(URL)]).await;
    let mut advice = HostAdvice::SlowDown { until: None };
    let mut pause = Duration::MAX;
    for _ in 0..60 {
        let lease = trial.take().await;
        assert!(lease.delay <= pause || pause == PAUSE, "{:?} after {pause:?}", lease.delay);
        pause = lease.delay;
        let again = then(Next::Again { at: trial.now() });
        trial.commit(&lease, Outcome { host: advice, ..again }).await;
        advice = HostAdvice::Fine;
        trial.pass(2 * PAUSE);
    }
    assert_eq!(pause, PAUSE, "in the end all is forgotten");
}

pub(super) async fn a_decision_on_an_old_feed_state_conflicts_and_changes_nothing(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(URL)]).await;
    let lease = trial.take().await;
    let fact = |based_on, failures| FeedFact {
        based_on,
        state: FeedState { failures, ..FeedState::default() },
        items: Some(1),
        new_items: 1,
        figures: Default::default(),
    };
    let outcome = |fact| Outcome {
        feed: Some(fact),
        entries: vec![entry(lease.task.id, "1", "one")],
        article: Some(article(lease.task.id, URL, "text")),
        discovered: vec![page("https://b.example/")],
        ..then(Next::Again { at: trial.now().after(PAUSE) })
    };
    let before = trial.picture().await;
    assert_eq!(trial.commit(&lease, outcome(fact(7, 0))).await, Committed::Conflict);
    assert_eq!(trial.picture().await, before);

    assert_eq!(trial.commit(&lease, outcome(fact(0, 3))).await, Committed::Done);
    trial.pass(PAUSE);
    let lease = trial.claim(1, &[Lane::Poll]).await.pop().unwrap();
    let ask = feedmill::model::Ask { feed: Some(lease.task.id), ..Default::default() };
    let state = trial.store.lookup(ask).await.unwrap().feed;
    assert_eq!((state.version, state.failures), (1, 3));
    let before = trial.picture().await;
    let late = Outcome { feed: Some(fact(0, 9)), ..then(Next::Fetched) };
    assert_eq!(trial.commit(&lease, late).await, Committed::Conflict);
    assert_eq!(trial.picture().await, before);
    let right = Outcome { feed: Some(fact(1, 0)), ..then(Next::Fetched) };
    assert_eq!(trial.commit(&lease, right).await, Committed::Done);
}

pub(super) async fn an_entry_is_found_by_its_id_or_else_by_page_and_date(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(URL)]).await;
    let lease = trial.take().await;
    let (page, date) = (UrlHash::of("page"), trial.now());
    let with = |uid: &str, page: Option<UrlHash>, date: Option<Ts>| {
        let mut fact = entry(lease.task.id, uid, uid);
        fact.link_hash = page;
        (fact.entry.published, fact.entry.updated) = (date, date.map(|date| date.after(PAUSE)));
        fact
    };
    let entries = vec![
        with("1", Some(page), None),
        with("2", None, Some(date)),
        with("3", Some(UrlHash::of("other")), Some(date)),
    ];
    let state = FeedState { by_pages: true, ..FeedState::default() };
    let fact =
        FeedFact { based_on: 0, state, items: Some(3), new_items: 3, figures: Default::default() };
    let outcome = Outcome { entries, feed: Some(fact), ..then(Next::Fetched) };
    assert_eq!(trial.commit(&lease, outcome).await, Committed::Done);

    let look = async |uid: &str, page, date| {
        let id = EntryId::of(lease.task.id, uid);
        let entries = vec![AskedEntry { id, page, date }];
        trial
            .store
            .lookup(Ask { feed: Some(lease.task.id), entries, ..Ask::default() })
            .await
            .unwrap()
    };
    let uids = |known: &Known| -> Vec<String> {
        let mut uids: Vec<_> = known.kin.iter().map(|entry| entry.uid.clone()).collect();
        uids.sort();
        uids
    };
    let known = look("2", Some(page), Some(date)).await;
    assert!(known.feed.by_pages);
    let two = known.entries.values().next().unwrap();
    assert_eq!((two.published, two.updated), (Some(date), Some(date.after(PAUSE))));
    assert_eq!(uids(&known), [""; 0], "who is known by its id needs no kin");
    assert_eq!(uids(&look("9", Some(page), None).await), ["1"]);
    assert_eq!(uids(&look("9", None, Some(date)).await), ["2", "3"]);
    let both = look("9", Some(UrlHash::of("other")), Some(date)).await;
    assert_eq!(uids(&both), ["2", "3"], "each once");
    let three = both.kin.iter().find(|entry| entry.uid == "3").unwrap();
    assert_eq!(three.link_hash, Some(UrlHash::of("other")));
    assert_eq!(uids(&look("9", Some(UrlHash::of("none")), Some(date.after(DAY))).await), [""; 0]);
}

pub(super) async fn one_bad_outcome_of_a_batch_falls_alone(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed("https://a.example/"), feed("https://b.example/")]).await;
    trial.submit([feed("https://c.example/")]).await;
    let leases = trial.claim(3, Lane::ALL).await;
    trial.end(&leases[1], Next::Fetched).await;
    let batch = leases.into_iter().map(|lease| Commit { lease, outcome: then(Next::Fetched) });
    let answers: Vec<_> =
        trial.store.commit(batch.collect()).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers, [Committed::Done, Committed::Stale, Committed::Done]);
}

pub(super) async fn blocks_that_repeat_on_a_host_are_learned_from_new_articles(open: Open) {
    let trial = begin(open).await;
    let ask = |host: &str| Ask { frame_of: Some(host.into()), ..Ask::default() };
    let known = async |host: &str| trial.store.lookup(ask(host)).await.unwrap().repeated;
    assert!(known("a.example").await.is_empty(), "nothing was read yet");
    let read = async |url: &str, text: &str| {
        trial.submit([page(url)]).await;
        let lease = trial.take().await;
        let mut fact = article(lease.task.id, url, text);
        fact.prints = vec![u64::MAX, *UrlHash::of(text).as_bytes().last().unwrap() as u64, 7];
        let outcome = Outcome { article: Some(fact), ..then(Next::Fetched) };
        assert_eq!(trial.commit(&lease, outcome).await, Committed::Done);
        trial.pass(PAUSE);
    };
    read("https://a.example/1", "one").await;
    read("https://a.example/2", "two").await;
    read("https://a.example/copy", "two").await;
    read("https://b.example/3", "three").await;
    assert!(known("a.example").await.is_empty(), "a copy and another host do not count");
    read("https://a.example/3", "four").await;
    assert_eq!(known("a.example").await, [7, u64::MAX].into());
    assert!(known("b.example").await.is_empty());
}
