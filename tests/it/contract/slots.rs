//! Slots, groups and fairness: who may be asked how often, and that nobody starves.

use std::time::Duration;

use feedmill::frontier::{HostPatch, MAX_STRIKES, Rules};
use feedmill::model::{Code, Lane, Next, Status};

use super::Open;
use super::trial::{PAUSE, TERM, Trial, at_priority, begin, feed, noon, page, rules, then};

fn pages<const N: usize>() -> [feedmill::model::NewTask; N] {
    std::array::from_fn(|n| page(&format!("https://a.example/{n}")))
}

/// Lets the host's robots.txt be read: it is asked for by one slot while the others wait.
async fn warm(trial: &Trial) {
    trial.submit([page("https://a.example/first")]).await;
    trial.end(&trial.take().await, Next::Fetched).await;
    trial.pass(PAUSE);
}

pub(super) async fn a_host_with_three_slots_takes_three_at_a_time(open: Open) {
    let trial = open(noon(), Rules { concurrency: 3, ..rules() }).await;
    warm(&trial).await;
    trial.submit(pages::<9>()).await;
    let first = trial.claim(9, Lane::ALL).await;
    assert_eq!(first.len(), 3);
    let urls: std::collections::BTreeSet<_> = first.iter().map(|l| &l.task.url).collect();
    assert_eq!(urls.len(), 3, "each is another page");
    trial.end(&first[0], Next::Fetched).await;
    assert!(trial.idle().await, "the slot pauses");
    trial.pass(PAUSE);
    assert_eq!(trial.claim(9, Lane::ALL).await.len(), 1, "only the slot that was freed");
}

pub(super) async fn every_page_of_a_host_with_slots_is_served_once(open: Open) {
    let trial = open(noon(), Rules { concurrency: 3, ..rules() }).await;
    trial.submit(pages::<20>()).await;
    let mut served = std::collections::BTreeSet::new();
    for _ in 0..40 {
        for lease in trial.claim(9, Lane::ALL).await {
            assert!(served.insert(lease.task.url.clone()), "{} came twice", lease.task.url);
            trial.end(&lease, Next::Fetched).await;
        }
        trial.pass(PAUSE);
    }
    assert_eq!(served.len(), 20);
    assert_eq!(trial.store.stats().await.unwrap().hosts, 1);
}

pub(super) async fn a_complaint_holds_for_all_slots(open: Open) {
    let trial = open(noon(), Rules { concurrency: 2, ..rules() }).await;
    warm(&trial).await;
    trial.submit(pages::<9>()).await;
    let leases = trial.claim(2, Lane::ALL).await;
    let until = trial.now().after(10 * TERM);
    let mut outcome = then(Next::Retry { at: until, code: Code::RateLimited });
    outcome.host = feedmill::model::HostAdvice::SlowDown { until: Some(until) };
    trial.commit(&leases[0], outcome).await;
    trial.end(&leases[1], Next::Fetched).await;
    trial.pass(5 * TERM);
    assert!(trial.idle().await);
    trial.pass(5 * TERM);
    assert_eq!(trial.claim(9, Lane::ALL).await.len(), 2);
}

pub(super) async fn an_operator_may_give_and_take_slots(open: Open) {
    let trial = begin(open).await;
    warm(&trial).await;
    trial.submit(pages::<9>()).await;
    let slots = |n| HostPatch { concurrency: Some(n), ..HostPatch::default() };
    trial.store.set_host("a.example", slots(2)).await.unwrap();
    let leases = trial.claim(9, Lane::ALL).await;
    assert_eq!(leases.len(), 2);
    trial.store.set_host("a.example", slots(1)).await.unwrap();
    for lease in &leases {
        trial.end(lease, Next::Fetched).await;
    }
    trial.pass(PAUSE);
    assert_eq!(trial.claim(9, Lane::ALL).await.len(), 1);
}

pub(super) async fn a_free_slot_serves_pages_while_a_poll_is_under_way(open: Open) {
    let trial = open(noon(), Rules { concurrency: 2, ..rules() }).await;
    warm(&trial).await;
    trial.submit([at_priority(9, feed("https://a.example/feed"))]).await;
    let poll = trial.take().await;
    let due = trial.store.next_due(Lane::ALL).await.unwrap();
    assert_eq!(due, Some(poll.until), "the free slot has nothing to do");
    trial.submit([at_priority(2, page("https://a.example/page"))]).await;
    assert_eq!(trial.take().await.task.url, "https://a.example/page");
    assert_eq!(trial.store.maintain().await.unwrap(), 0, "the tops are what each slot could serve");
    trial.end(&poll, Next::Fetched).await;
    assert_eq!(trial.store.maintain().await.unwrap(), 0);
}

pub(super) async fn a_slot_that_is_one_too_many_keeps_its_task(open: Open) {
    let trial = open(noon(), Rules { concurrency: 2, ..rules() }).await;
    trial.submit([feed("https://a.example/1"), feed("https://a.example/2")]).await;
    let both = trial.claim(9, Lane::ALL).await;
    assert_eq!(both.len(), 2);
    let one = HostPatch { concurrency: Some(1), ..HostPatch::default() };
    trial.store.set_host("a.example", one).await.unwrap();
    for lease in &both {
        trial.end(lease, Next::Fetched).await;
        trial.pass(PAUSE);
        assert!(trial.idle().await, "what the other has is not handed out");
    }
}

pub(super) async fn hosts_of_a_group_share_one_slot(open: Open) {
    let groups = vec![("platform".to_owned(), vec!["*.blogs.example".to_owned()])];
    let trial = open(noon(), Rules { groups, ..rules() }).await;
    trial
        .submit([
            page("https://a.blogs.example/1"),
            page("https://b.blogs.example/1"),
            page("https://c.example/1"),
        ])
        .await;
    let mut seen = 0;
    for _ in 0..4 {
        let leases = trial.claim(9, Lane::ALL).await;
        let grouped = leases.iter().filter(|lease| lease.task.host == "platform").count();
        assert!(grouped <= 1);
        seen += leases.len();
        for lease in leases {
            trial.end(&lease, Next::Fetched).await;
        }
        trial.pass(PAUSE);
    }
    assert_eq!(seen, 3);
}

pub(super) async fn who_waits_longest_is_served_however_low(open: Open) {
    let trial = begin(open).await;
    trial.submit([at_priority(1, page("https://low.example/1"))]).await;
    trial.pass(PAUSE);
    for n in 0..40 {
        trial.submit([at_priority(10, page(&format!("https://h{n}.example/1")))]).await;
    }
    for _ in 0..30 {
        for lease in trial.claim(1, Lane::ALL).await {
            trial.end(&lease, Next::Fetched).await;
        }
    }
    assert_eq!(trial.task("https://low.example/1").await.status, Status::Fetched);
}

pub(super) async fn a_lease_that_runs_out_on_any_slot_comes_back(open: Open) {
    let trial = open(noon(), Rules { concurrency: 2, ..rules() }).await;
    warm(&trial).await;
    trial.submit([page("https://a.example/only")]).await;
    assert_eq!(trial.claim(9, Lane::ALL).await.len(), 1);
    let due = trial.store.next_due(Lane::ALL).await.unwrap();
    assert!(due.is_none_or(|at| at > trial.now()), "the idle slot promises nothing: {due:?}");
    for _ in 1..MAX_STRIKES {
        trial.pass(TERM + Duration::from_hours(7));
        assert_eq!(trial.claim(9, Lane::ALL).await.len(), 1, "it is handed out again");
        assert!(trial.idle().await, "once");
    }
    trial.pass(TERM + PAUSE);
    assert!(trial.claim(9, Lane::ALL).await.is_empty());
    assert_eq!(trial.task("https://a.example/only").await.last_error, Some(Code::Poison));
    assert_eq!(trial.store.maintain().await.unwrap(), 0);
}
