//! A clock that was years ahead for a while: what it left in the store is put right, and nothing else.

use std::time::Duration;

use feedmill::frontier::{FOREVER, HostFilter, HostPatch, Rules};
use feedmill::model::{
    Ask, Code, FeedFact, FeedState, HostAdvice, Kind, Lane, NewTask, Next, Outcome, Ts, Validators,
};
use feedmill::store::TimesAhead;
use feedmill::store::outbox::Start;

use super::Open;
use super::trial::{DAY, PAUSE, TERM, Trial, a, begin, feed, noon, owned_by, page, rules, then};

const FEED: &str = "https://a.example/feed";
const YEARS: Duration = Duration::from_hours(10 * 365 * 24);
const HORIZON: Duration = Duration::from_hours(9 * 24);
const QUARTER: Duration = Duration::from_mins(15);

async fn ahead(trial: &Trial) -> TimesAhead {
    trial.store.times_ahead(HORIZON).await.unwrap()
}

async fn repair(trial: &Trial) -> TimesAhead {
    trial.store.repair_times(HORIZON).await.unwrap()
}

/// Lets `work` happen while the clock is years ahead, for 15 seconds.
async fn in_the_future<T>(trial: &Trial, work: impl AsyncFnOnce() -> T) -> T {
    let right = trial.now();
    trial.clock.set(right.after(YEARS));
    let done = work().await;
    trial.clock.set(right.after(Duration::from_secs(15)));
    done
}

pub(super) async fn a_feed_that_was_polled_by_a_clock_years_ahead_is_polled_again(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[FEED]).await;
    trial.submit([owned_by(&source, page("https://b.example/1"))]).await;
    in_the_future(&trial, async || {
        let leases = trial.claim(4, Lane::ALL).await;
        for lease in &leases {
            let next = match lease.task.kind {
                Kind::Feed => Next::Again { at: trial.now().after(QUARTER) },
                _ => Next::Retry { at: trial.now().after(QUARTER), code: Code::Timeout },
            };
            let state = FeedState {
                last_success: Some(trial.now()),
                health_since: Some(trial.now()),
                interval_ms: Some(900_000),
                ..FeedState::default()
            };
            let fact = FeedFact {
                based_on: 0,
                state,
                items: None,
                new_items: 0,
                figures: Default::default(),
            };
            let feed = (lease.task.kind == Kind::Feed).then_some(fact);
            let host = HostAdvice::Fine;
            trial.commit(lease, Outcome { feed, host, ..then(next) }).await;
        }
        assert_eq!(leases.len(), 2);
    })
    .await;
    trial.pass(DAY);
    assert!(trial.idle().await, "it is due in ten years");

    let found = ahead(&trial).await;
    assert!(found.tasks >= 1 && found.hosts == 2 && found.feeds == 1, "{found:?}");
    let repaired = repair(&trial).await;
    assert!(repaired.tasks >= 2 && repaired.hosts == 2 && repaired.feeds == 1, "{repaired:?}");
    for url in [FEED, "https://b.example/1"] {
        let task = trial.task(url).await;
        assert!(task.next_fetch_at <= trial.now().after(QUARTER), "{url}: {task:?}");
        assert!(task.next_fetch_at > trial.now(), "the distance from its last request stays");
    }
    let known = trial.store.lookup(Ask { feed: Some(trial.task(FEED).await.id), ..Ask::default() });
    assert!(known.await.unwrap().feed.last_success.unwrap() <= trial.now());
    assert!(!ahead(&trial).await.is_some() && !repair(&trial).await.is_some());
    trial.pass(QUARTER);
    assert_eq!(trial.claim(4, Lane::ALL).await.len(), 2, "work goes on");
}

/// What a clock that is ahead took for too old is in a document that did not change since.
pub(super) async fn a_document_that_was_read_by_a_clock_ahead_is_read_again(open: Open) {
    let trial = begin(open).await;
    trial.source("a", &[FEED]).await;
    let poll = async || {
        let lease = trial.take().await;
        let version = trial.store.lookup(Ask { feed: Some(lease.task.id), ..Ask::default() });
        let state = FeedState {
            last_success: Some(trial.now()),
            body_hash: Some([7; 32]),
            ..FeedState::default()
        };
        let based_on = version.await.unwrap().feed.version;
        let figures = Default::default();
        let feed = Some(FeedFact { based_on, state, items: None, new_items: 0, figures });
        let etag = Some("\"1\"".to_owned());
        let validators = Some((Validators { etag, last_modified: None }, FEED.to_owned()));
        let next = Next::Again { at: trial.now().after(QUARTER) };
        trial.commit(&lease, Outcome { feed, validators, ..then(next) }).await;
        lease.task.id
    };
    let known = async |task| {
        let known = trial.store.lookup(Ask { feed: Some(task), ..Ask::default() }).await.unwrap();
        let lease = trial.take().await;
        let next = Next::Again { at: trial.now().after(QUARTER) };
        trial.end(&lease, next).await;
        (known.feed.body_hash.is_some(), lease.validators.etag.is_some())
    };
    let task = poll().await;
    repair(&trial).await;
    trial.pass(QUARTER);
    assert_eq!(known(task).await, (true, true), "a clock that is right forgets nothing");
    trial.pass(QUARTER);
    in_the_future(&trial, async || poll().await).await;
    repair(&trial).await;
    trial.pass(QUARTER);
    assert_eq!(known(task).await, (false, false));
}

pub(super) async fn leases_and_pauses_of_a_clock_years_ahead_end(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1"), page("https://b.example/1")]).await;
    trial.submit([feed("https://c.example/feed"), feed("https://d.example/feed")]).await;
    in_the_future(&trial, async || {
        for lease in trial.claim(4, Lane::ALL).await {
            let until = trial.now().after(QUARTER);
            let again = Next::Again { at: trial.now().after(PAUSE) };
            match lease.task.host.as_str() {
                // Never completed: its engine was killed.
                "a.example" => continue,
                "b.example" => {
                    let host = HostAdvice::SlowDown { until: Some(until) };
                    let next = Next::Retry { at: until, code: Code::RateLimited };
                    trial.commit(&lease, Outcome { host, ..then(next) }).await
                }
                "c.example" => {
                    trial
                        .commit(
                            &lease,
                            Outcome { host: HostAdvice::Pause { until }, ..then(again) },
                        )
                        .await
                }
                _ => trial.commit(&lease, then(again)).await,
            };
        }
    })
    .await;
    let repaired = repair(&trial).await;
    assert!(repaired.hosts >= 4, "{repaired:?}");
    trial.pass(QUARTER + TERM);
    // The killed one's lease ends first, and then its host rests.
    let first = trial.claim(8, Lane::ALL).await.len();
    trial.pass(TERM);
    let then = trial.claim(8, Lane::ALL).await.len();
    assert_eq!(first + then, 4, "{first} {then}");
}

pub(super) async fn what_was_asked_for_or_set_is_left_alone(open: Open) {
    let trial = begin(open).await;
    let month = trial.now().after(DAY * 30);
    trial
        .submit([feed(FEED), feed("https://b.example/feed"), feed("https://c.example/feed")])
        .await;
    let forever = HostPatch { blocked_until: Some(FOREVER), ..HostPatch::default() };
    trial.store.set_host("c.example", forever).await.unwrap();
    for lease in trial.claim(4, Lane::ALL).await {
        let (host, next) = match lease.task.url.as_str() {
            FEED => (
                HostAdvice::Pause { until: month },
                Next::Retry { at: month, code: Code::RateLimited },
            ),
            _ => (HostAdvice::Fine, Next::Again { at: trial.now().after(DAY * 7) }),
        };
        trial.commit(&lease, Outcome { host, ..then(next) }).await;
    }
    trial
        .submit([NewTask {
            not_before: Some(trial.now().after(DAY)),
            ..a(Kind::Feed, "https://d.example/feed")
        }])
        .await;
    trial.pass(PAUSE);
    let before = trial.picture().await;
    assert!(!ahead(&trial).await.is_some(), "{:?}", ahead(&trial).await);
    repair(&trial).await;
    assert_eq!(trial.picture().await, before);
    let hosts = HostFilter { limit: 9, ..HostFilter::default() };
    let hosts = trial.store.hosts(hosts).await.unwrap();
    let until = |name: &str| {
        hosts.iter().find(|host| host.name == name).and_then(|host| host.blocked_until)
    };
    assert_eq!((until("a.example"), until("c.example")), (Some(month), Some(FOREVER)));
}

pub(super) async fn a_clock_that_is_set_back_by_hours_does_not_hold_work_up(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[FEED]).await;
    let right = trial.now();
    trial.pass(DAY * 5);
    let lease = trial.take().await;
    assert_eq!(lease.task.source, Some(source.id));
    trial.end(&lease, Next::Again { at: trial.now().after(QUARTER) }).await;
    trial.clock.set(right);
    let repaired = repair(&trial).await;
    assert_eq!(repaired.ahead_ms, 5 * 86_400_000, "{repaired:?}");
    let due: Ts = trial.task(FEED).await.next_fetch_at;
    assert_eq!(due, right.after(QUARTER));
    trial.pass(QUARTER);
    assert_eq!(trial.take().await.task.url, FEED);
}

/// On a clock that runs 3,600 times as fast as the machine's, a lease of two minutes lasts five days.
pub(super) async fn leases_that_are_meant_to_last_for_days_are_left_alone(open: Open) {
    let trial = open(noon(), Rules { lease: 5 * DAY, ..rules() }).await;
    trial.submit([page("https://a.example/1")]).await;
    let lease = trial.claim(1, Lane::ALL).await.pop().unwrap();
    trial.store.open_sink("lines", Start::Now).await.unwrap();
    assert!(trial.store.hold_sink("lines", "one", 5 * DAY).await.unwrap());
    assert_eq!((ahead(&trial).await, repair(&trial).await), Default::default());
    trial.pass(DAY);
    assert!(!trial.store.hold_sink("lines", "another", DAY).await.unwrap());
    assert!(trial.store.renew(lease.id).await.unwrap(), "it is held by whoever claimed it");
    // A hold that no clock can have meant is cut to what its owner renews in time.
    in_the_future(&trial, async || trial.store.renew(lease.id).await.unwrap()).await;
    assert_eq!(repair(&trial).await.hosts, 1);
    trial.pass(4 * DAY);
    assert!(trial.store.renew(lease.id).await.unwrap());
}
