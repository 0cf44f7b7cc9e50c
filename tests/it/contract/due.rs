//! What the frontier announces is what it hands out.

use std::future::Future;
use std::time::Duration;

use feedmill::frontier::HostPatch;
use feedmill::model::{Lane, NewTask, Next, Ts};

use super::Open;
use super::trial::{DAY, PAUSE, TICK, Trial, begin, feed, page};

async fn next_due(trial: &Trial) -> Option<Ts> {
    trial.store.next_due(Lane::ALL).await.unwrap()
}

async fn has_work(trial: &Trial) -> bool {
    trial.store.has_work(Lane::ALL).await.unwrap()
}

pub(super) async fn nothing_is_due_in_an_empty_frontier(open: Open) {
    let trial = begin(open).await;
    assert!(trial.idle().await && !has_work(&trial).await);
    assert_eq!(next_due(&trial).await, None);
    trial.submit([page("https://a.example/1")]).await;
    trial.end(&trial.take().await, Next::Fetched).await;
    assert!(!has_work(&trial).await);
    assert_eq!(next_due(&trial).await, None, "what is done is not announced");
}

pub(super) async fn due_work_is_announced_and_handed_out(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed("https://a.example/feed")]).await;
    assert!(has_work(&trial).await);
    assert!(next_due(&trial).await.unwrap() <= trial.now());
    assert!(!trial.idle().await);
}

pub(super) async fn a_pause_is_waited_out_to_the_millisecond(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1"), page("https://a.example/2")]).await;
    trial.end(&trial.take().await, Next::Fetched).await;
    assert!(has_work(&trial).await, "a host in its pause is served soon");
    let at = next_due(&trial).await.unwrap();
    assert_eq!(at, trial.now().after(PAUSE));
    trial.pass(at.since(trial.now()) - TICK);
    assert!(trial.idle().await);
    trial.pass(TICK);
    assert!(!trial.idle().await);
}

pub(super) async fn a_waiting_task_is_announced_for_its_time(open: Open) {
    let trial = begin(open).await;
    let at = trial.now().after(DAY);
    trial.submit([NewTask { not_before: Some(at), ..feed("https://a.example/feed") }]).await;
    assert!(!has_work(&trial).await);
    assert_eq!(next_due(&trial).await, Some(at));
    trial.pass(DAY - TICK);
    assert!(trial.idle().await && !has_work(&trial).await);
    trial.pass(TICK);
    assert!(has_work(&trial).await && !trial.idle().await);
}

pub(super) async fn other_lanes_are_not_announced(open: Open) {
    let trial = begin(open).await;
    let at = trial.now().after(DAY);
    trial.submit([feed("https://a.example/now")]).await;
    trial.submit([NewTask { not_before: Some(at), ..feed("https://b.example/later") }]).await;
    for lanes in [&[Lane::Page][..], &[Lane::Page, Lane::Media], &[]] {
        assert!(!trial.store.has_work(lanes).await.unwrap());
        assert_eq!(trial.store.next_due(lanes).await.unwrap(), None, "{lanes:?}");
    }
    let later = NewTask { not_before: Some(at.after(DAY)), ..page("https://c.example/later") };
    trial.submit([later]).await;
    assert_eq!(trial.store.next_due(&[Lane::Page]).await.unwrap(), Some(at.after(DAY)));
    trial.pass(DAY);
    assert!(trial.store.has_work(&[Lane::Poll]).await.unwrap());
    assert!(!trial.store.has_work(&[Lane::Page]).await.unwrap());
}

pub(super) async fn many_of_other_lanes_are_passed_in_a_few_steps(open: Open) {
    let trial = begin(open).await;
    let start = trial.now();
    let waits = |number: u64| {
        let not_before = Some(start.after(DAY + TICK * u32::try_from(number).unwrap()));
        NewTask { not_before, ..feed(&format!("https://a.example/{number}")) }
    };
    trial.store.submit((1..=2_500).map(waits).collect()).await.unwrap();
    let at = start.after(DAY * 2);
    trial.submit([NewTask { not_before: Some(at), ..page("https://b.example/later") }]).await;
    let lanes = [Lane::Page];
    let mut steps = 0;
    while trial.claim(1, &lanes).await.is_empty() {
        let next = trial.store.next_due(&lanes).await.unwrap().expect("it is announced");
        assert!(next <= at, "it is handed out late: {next}");
        trial.pass(next.since(trial.now()));
        steps += 1;
        assert!(steps < 10, "it wakes again and again at {next}");
    }
    assert_eq!(trial.now(), at);
}

pub(super) async fn a_blocked_host_is_no_work(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed("https://a.example/feed")]).await;
    let until = trial.now().after(DAY);
    let patch = HostPatch { blocked_until: Some(until), ..HostPatch::default() };
    trial.store.set_host("a.example", patch).await.unwrap();
    assert!(!has_work(&trial).await);
    assert_eq!(next_due(&trial).await, Some(until));
    trial.pass(DAY);
    assert!(has_work(&trial).await && !trial.idle().await);
}

pub(super) async fn submission_and_completion_wake_whoever_waits(open: Open) {
    let trial = begin(open).await;
    woken(&trial, async {
        trial.submit([feed("https://a.example/feed")]).await;
    })
    .await;
    let lease = trial.take().await;
    woken(&trial, trial.end(&lease, Next::Fetched)).await;
}

/// Runs `change` beside somebody who waits for it.
async fn woken(trial: &Trial, change: impl Future<Output = ()>) {
    let both = async { tokio::join!(trial.store.changed(), change) };
    tokio::time::timeout(Duration::from_secs(10), both).await.expect("nobody was woken");
}
