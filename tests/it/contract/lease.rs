//! The life of a lease: stale, renewed, lent, lost.

use feedmill::frontier::{Extension, MAX_STRIKES};
use feedmill::model::{
    Code, FetchRecord, HostAdvice, Kind, Lane, Lease, Next, Outcome, Status, new_uuid,
};
use feedmill::store::Committed;

use super::Open;
use super::ready::{article, entry};
use super::trial::{PAUSE, TERM, TICK, Trial, a, begin, feed, owned_by, page, then};

const URL: &str = "https://a.example/1";

/// An outcome that would change everything it can.
fn all_of_it(lease: &Lease) -> Outcome {
    Outcome {
        entries: vec![entry(lease.task.id, "1", "one")],
        article: Some(article(lease.task.id, URL, "text")),
        discovered: vec![page("https://b.example/found")],
        settled: Some(page("https://c.example/settled")),
        host: HostAdvice::SlowDown { until: Some(lease.now.after(TERM * 9)) },
        fetches: vec![fetch(lease, URL)],
        ..then(Next::Dead { code: Code::Gone })
    }
}

fn fetch(lease: &Lease, url: &str) -> FetchRecord {
    FetchRecord {
        id: new_uuid(lease.now),
        task: lease.task.id,
        at: lease.now,
        url: url.into(),
        status: Some(200),
        code: Code::Ok,
        bytes: 1,
        elapsed_ms: 1,
        content_type: None,
        body_sha256: None,
        raw: None,
    }
}

pub(super) async fn a_stale_lease_changes_nothing(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL)]).await;
    let lost = trial.take().await;
    trial.pass(TERM - TICK);
    assert!(trial.idle().await, "it is still alive");
    trial.pass(TICK);
    let held = trial.take().await;
    assert_eq!(held.task.id, lost.task.id);
    assert!(held.id != lost.id);

    let before = trial.picture().await;
    assert_eq!(trial.commit(&lost, all_of_it(&lost)).await, Committed::Stale);
    assert!(!trial.store.renew(lost.id).await.unwrap());
    let lent = trial.store.extend(lost.id, "d.example").await.unwrap();
    assert_eq!(lent, Extension::Stale);
    assert_eq!(trial.picture().await, before);

    trial.end(&held, Next::Fetched).await;
    assert_eq!(trial.commit(&held, all_of_it(&held)).await, Committed::Stale, "it ended once");
    assert_eq!(trial.task(URL).await.status, Status::Fetched);
}

pub(super) async fn a_stale_lease_changes_nothing_through_a_lent_host(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL)]).await;
    let lost = trial.take().await;
    assert_eq!(trial.store.extend(lost.id, "b.example").await.unwrap(), Extension::Granted);
    trial.pass(TERM);
    let held = trial.take().await;
    let before = trial.picture().await;
    assert_eq!(trial.commit(&lost, all_of_it(&lost)).await, Committed::Stale);
    assert!(!trial.store.renew(lost.id).await.unwrap());
    assert_eq!(trial.store.extend(lost.id, "c.example").await.unwrap(), Extension::Stale);
    assert_eq!(trial.picture().await, before);
    assert_eq!(trial.store.extend(held.id, "b.example").await.unwrap(), Extension::Granted);
    trial.end(&held, Next::Fetched).await;
}

pub(super) async fn a_late_answer_counts_until_somebody_else_has_the_task(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL)]).await;
    let late = trial.take().await;
    trial.pass(2 * TERM);
    let more = trial.store.extend(late.id, "b.example").await.unwrap();
    assert_eq!(more, Extension::Stale, "but it may ask nobody else");
    trial.end(&late, Next::Fetched).await;
    assert_eq!(trial.task(URL).await.status, Status::Fetched);
}

/// Claims as often as it takes, never answering; returns how often that was.
async fn lose_until_idle(trial: &Trial) -> i64 {
    let mut lost = 0;
    while !trial.idle().await {
        lost += 1;
        trial.pass(TERM);
    }
    lost
}

pub(super) async fn five_leases_that_ran_out_are_poison(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL)]).await;
    assert_eq!(lose_until_idle(&trial).await, MAX_STRIKES);
    let task = trial.task(URL).await;
    assert_eq!((task.status, task.last_error), (Status::Dead, Some(Code::Poison)));
    assert!(!task.leased);
}

pub(super) async fn the_log_tells_once_of_what_was_poison(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[]).await;
    trial.submit([owned_by(&source, page(URL)), feed("https://b.example/feed")]).await;
    for lost in 0..MAX_STRIKES {
        assert_eq!(trial.claim(9, Lane::ALL).await.len(), 2, "after {lost}");
        assert_eq!(trial.events().await, [], "it is not over yet");
        trial.pass(TERM);
    }
    assert_eq!(trial.claim(9, Lane::ALL).await.len(), 0);
    let task = trial.task(URL).await;
    let mut events = trial.events().await;
    events.sort_by_key(|event| event.kind.number());
    let told: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(told, ["article.failed", "feed.gone"]);
    assert_eq!(events[0].subject, task.url_hash.to_string());
    assert_eq!(events[0].source, Some(source.id));
    assert_eq!(
        (&events[0].payload["url"], &events[0].payload["code"]),
        (&URL.into(), &"poison".into())
    );
    assert_eq!(events[0].payload["reason"], *task.reason.as_ref().unwrap());
    trial.pass(TERM);
    assert!(trial.idle().await);
    assert_eq!(trial.events().await.len(), 2);
}

pub(super) async fn the_end_of_a_poisoned_task_frees_its_host(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL)]).await;
    lose_until_idle(&trial).await;
    let counts = trial.store.stats().await.unwrap().total;
    assert_eq!((counts.fetching, counts.dead), (0, 1));
    trial.submit([page("https://a.example/2")]).await;
    assert_eq!(lose_until_idle(&trial).await, MAX_STRIKES, "the next one starts at zero");
}

pub(super) async fn an_answer_forgives_earlier_strikes(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(URL)]).await;
    for _ in 0..3 {
        for _ in 1..MAX_STRIKES {
            trial.take().await;
            trial.pass(TERM);
        }
        trial.end(&trial.take().await, Next::Again { at: trial.now() }).await;
        trial.pass(PAUSE);
    }
    assert_eq!(trial.task(URL).await.status, Status::Pending);
}

pub(super) async fn a_poison_feed_is_counted_by_itself_while_pages_are_served(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed("https://a.example/feed")]).await;
    trial
        .submit(std::array::from_fn::<_, 20, _>(|n| page(&format!("https://a.example/{n}"))))
        .await;
    let mut lost = 0;
    for _ in 0..30 {
        let Some(lease) = trial.claim(1, Lane::ALL).await.pop() else { break };
        if lease.task.kind == Kind::Feed {
            lost += 1;
            trial.pass(TERM);
        } else {
            trial.end(&lease, Next::Fetched).await;
            trial.pass(PAUSE);
        }
    }
    assert_eq!(lost, MAX_STRIKES);
    let task = trial.task("https://a.example/feed").await;
    assert_eq!((task.status, task.last_error), (Status::Dead, Some(Code::Poison)));
}

pub(super) async fn renewal_makes_a_lease_last(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL), feed("https://b.example/feed")]).await;
    let lease = trial.claim(1, &[Lane::Page]).await.pop().unwrap();
    assert_eq!(lease.until, lease.now.after(TERM));
    assert_eq!(trial.store.extend(lease.id, "b.example").await.unwrap(), Extension::Granted);
    for _ in 0..9 {
        trial.pass(TERM - TICK);
        assert!(trial.store.renew(lease.id).await.unwrap());
        assert!(trial.idle().await, "both hosts are taken");
    }
    trial.end(&lease, Next::Fetched).await;
    assert!(!trial.store.renew(lease.id).await.unwrap());
}

pub(super) async fn a_second_host_is_granted_and_both_get_their_pause(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL), page("https://a.example/2")]).await;
    let lease = trial.take().await;
    trial.submit([feed("https://b.example/feed")]).await;
    for _ in 0..2 {
        let extension = trial.store.extend(lease.id, "b.example").await.unwrap();
        assert_eq!(extension, Extension::Granted, "also when it has it already");
    }
    assert_eq!(trial.store.extend(lease.id, "new.example").await.unwrap(), Extension::Granted);
    assert!(trial.idle().await);
    trial.pass(PAUSE);
    trial.end(&lease, Next::Fetched).await;
    trial.submit([feed("https://new.example/feed")]).await;
    trial.pass(PAUSE - TICK);
    assert!(trial.idle().await);
    trial.pass(TICK);
    assert_eq!(trial.claim(9, Lane::ALL).await.len(), 3);
}

pub(super) async fn a_busy_host_is_not_lent(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL), feed("https://b.example/feed")]).await;
    let page = trial.claim(1, &[Lane::Page]).await.pop().unwrap();
    let poll = trial.claim(1, &[Lane::Poll]).await.pop().unwrap();
    let Extension::Busy(at) = trial.store.extend(page.id, "b.example").await.unwrap() else {
        panic!("b.example has a live lease");
    };
    assert!(trial.now() < at && at <= poll.until);
    trial.end(&poll, Next::Fetched).await;
    let paused = trial.store.extend(page.id, "b.example").await.unwrap();
    assert_eq!(paused, Extension::Busy(trial.now().after(PAUSE)));
    trial.pass(PAUSE);
    assert_eq!(trial.store.extend(page.id, "b.example").await.unwrap(), Extension::Granted);
    trial.end(&page, Next::Fetched).await;
}

pub(super) async fn advice_goes_to_the_host_that_answered(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL), page("https://a.example/2")]).await;
    trial.submit([a(Kind::Enclosure, "https://b.example/m")]).await;
    let lease = trial.claim(1, &[Lane::Page]).await.pop().unwrap();
    trial.store.extend(lease.id, "b.example").await.unwrap();
    let until = Some(trial.now().after(TERM));
    let outcome = Outcome {
        host: HostAdvice::SlowDown { until },
        fetches: vec![fetch(&lease, URL), fetch(&lease, "https://b.example/1")],
        ..then(Next::Fetched)
    };
    trial.commit(&lease, outcome).await;
    trial.pass(PAUSE);
    assert_eq!(trial.take().await.task.host, "a.example", "it sent us on and said nothing");
    assert!(trial.idle().await);
    trial.pass(TERM - PAUSE);
    let blocked = trial.claim(1, &[Lane::Media]).await.pop().unwrap();
    assert_eq!(blocked.delay, 2 * PAUSE);
}

pub(super) async fn after_a_crash_everything_is_handed_out_again_after_the_pause(open: Open) {
    let trial = begin(open).await;
    for host in ["a", "b", "c"] {
        trial.submit([feed(&format!("https://{host}.example/feed"))]).await;
    }
    let lost = trial.claim(2, Lane::ALL).await;
    assert_eq!(trial.store.extend(lost[0].id, "d.example").await.unwrap(), Extension::Granted);
    trial.submit([feed("https://d.example/feed")]).await;
    trial.backend.recover().await;

    for lease in &lost {
        assert_eq!(trial.commit(lease, then(Next::Fetched)).await, Committed::Stale);
    }
    assert_eq!(trial.claim(9, Lane::ALL).await.len(), 1, "the host that nobody was asking");
    trial.pass(PAUSE - TICK);
    assert!(trial.idle().await, "a request may have been under way");
    trial.pass(TICK);
    let again = trial.claim(9, Lane::ALL).await;
    assert_eq!(again.len(), 3, "nothing is lost");
    for lease in &again {
        trial.end(lease, Next::Fetched).await;
    }
    assert_eq!(trial.store.stats().await.unwrap().total.fetched, 3);
}
