//! Hosts that a response asked to leave alone: who asked is known, it is told, and an operator ends it.

use std::time::Duration;

use feedmill::app::standing::{AsOf, Group, standing};
use feedmill::app::{edit, explain, pace};
use feedmill::config::Config;
use feedmill::frontier::{FOREVER, HostFilter, HostPatch, HostState, Rules};
use feedmill::model::{Code, HostAdvice, Next, Outcome, Ts};

use super::Open;
use super::trial::{DAY, PAUSE, TICK, Trial, begin, noon, owned_by, page, rules, then};

const FEED: &str = "https://a.example/feed";
const PAGE: &str = "https://a.example/1";
const ELSEWHERE: &str = "https://pages.example/1";
const MINUTE: Duration = Duration::from_mins(1);

/// A source whose feed was polled; the next poll is planned in an hour.
async fn followed(trial: &Trial) {
    let source = trial.source("a", &[FEED]).await;
    let next = Next::Again { at: trial.now().after(Duration::from_hours(1)) };
    trial.end(&trial.take().await, next).await;
    trial.submit([owned_by(&source, page(PAGE)), owned_by(&source, page(ELSEWHERE))]).await;
    trial.pass(PAUSE);
}

/// Serves what is due; the pages ask for a pause of a week. Until when it lasts.
async fn complained(trial: &Trial) -> Ts {
    let until = trial.now().after(7 * DAY);
    for _ in 0..2 {
        let lease = trial.take().await;
        let next = Next::Retry { at: until, code: Code::RateLimited };
        let host = HostAdvice::Pause { until };
        let reason = "status 503; the server asked to come back".into();
        trial.commit(&lease, Outcome { host, reason, ..then(next) }).await;
    }
    until
}

async fn host(trial: &Trial, name: &str) -> HostState {
    let filter = HostFilter { name: Some(name.into()), limit: 1, ..HostFilter::default() };
    trial.store.hosts(filter).await.unwrap().pop().unwrap()
}

pub(super) async fn a_pause_is_shown_with_its_end_and_who_asked_for_it(open: Open) {
    let trial = begin(open).await;
    followed(&trial).await;
    let until = complained(&trial).await;
    let (source, paced) = pace::pace(&*trial.store, "a").await.unwrap();
    let shown: Vec<_> =
        paced.paused_hosts.iter().map(|it| (it.host.as_str(), it.url.as_deref())).collect();
    assert_eq!(shown, [("a.example", Some(PAGE)), ("pages.example", Some(ELSEWHERE))]);
    let pause = &paced.paused_hosts[0];
    assert_eq!((pause.until, pause.by_operator), (until, false));
    assert!(pause.reason.contains(PAGE) && pause.reason.contains("503"), "{pause:?}");

    let as_of = AsOf::now(&trial.clock, &*trial.store, DAY).await.unwrap();
    let (_, channels) = trial.store.source("a").await.unwrap();
    let told = standing(&source, &channels.iter().collect::<Vec<_>>(), None, &as_of);
    assert_eq!(told.group, Group::Late);
    for word in [PAGE, "503", &until.to_string()] {
        assert!(told.reason.contains(word), "{told:?}");
    }
    for what in ["a", FEED, PAGE, "a.example"] {
        let store = &*trial.store;
        let why = explain::explain(what, &Config::default(), store, trial.now()).await.unwrap();
        let why = serde_json::to_string(&why).unwrap();
        assert!(why.contains("503; the server asked to come back"), "{what}: {why}");
        assert!(why.contains(&format!("{PAGE} answered")), "{what}: {why}");
    }
}

pub(super) async fn clearing_a_pace_ends_what_responses_asked_for(open: Open) {
    for enabling in [false, true] {
        let trial = open(noon(), Rules { concurrency: 2, ..rules() }).await;
        followed(&trial).await;
        complained(&trial).await;
        trial.pass(DAY);
        assert!(trial.idle().await, "everything of both hosts waits, the feed too");
        let now = trial.now();
        if enabling {
            edit::enable(&*trial.store, "a", now, MINUTE).await.unwrap();
        } else {
            let (_, gone) = pace::forget(&*trial.store, "a", now, MINUTE).await.unwrap();
            assert_eq!((gone.pauses, gone.hosts), (2, 0));
        }
        assert_eq!(host(&trial, "a.example").await.blocked_until, None);
        assert_eq!(pace::pace(&*trial.store, "a").await.unwrap().1.paused_hosts, []);
        assert!(trial.idle().await, "the ordinary pause stays");
        trial.pass(PAUSE);
        let mut served: Vec<_> = trial
            .claim(9, feedmill::model::Lane::ALL)
            .await
            .into_iter()
            .map(|it| it.task.url)
            .collect();
        served.sort();
        assert!(served.contains(&FEED.to_owned()), "{served:?}");
        assert!(served.iter().any(|url| url.starts_with("https://pages.example/")), "{served:?}");
    }
}

pub(super) async fn clearing_a_pace_leaves_the_operators_blocks(open: Open) {
    let trial = begin(open).await;
    followed(&trial).await;
    for until in [trial.now().after(DAY), FOREVER] {
        let block = HostPatch { blocked_until: Some(until), ..HostPatch::default() };
        trial.store.set_host("a.example", block).await.unwrap();
        let (_, paced) = pace::pace(&*trial.store, "a").await.unwrap();
        assert!(paced.paused_hosts[0].by_operator, "{paced:?}");
        edit::enable(&*trial.store, "a", trial.now(), MINUTE).await.unwrap();
        assert_eq!(host(&trial, "a.example").await.blocked_until, Some(until));
    }
    // Whoever lifts it lifts it, and a block of the operator's takes the place of a pause.
    let lifted = HostPatch { blocked_until: Some(trial.now()), ..HostPatch::default() };
    trial.store.set_host("a.example", lifted).await.unwrap();
    trial.pass(PAUSE);
    complained(&trial).await;
    assert!(host(&trial, "a.example").await.blocked_by.is_some());
    let block = HostPatch { blocked_until: Some(FOREVER), ..HostPatch::default() };
    trial.store.set_host("a.example", block).await.unwrap();
    trial.pass(TICK);
    let (_, gone) = pace::forget(&*trial.store, "a", trial.now(), MINUTE).await.unwrap();
    assert_eq!(gone.pauses, 1, "only of the other host");
    assert_eq!(host(&trial, "a.example").await.blocked_until, Some(FOREVER));
}
