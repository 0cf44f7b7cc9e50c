//! What the scheduler keeps in the store: its memory of a channel, who told of what first, the
//! price of a request and what it follows from.

use std::time::Duration;

use feedmill::frontier::HostPatch;
use feedmill::model::{
    Ask, Code, FeedFact, FeedState, FetchRecord, Health, Kind, Known, Lane, Lease, NewTask, Next,
    Outcome, Ts, Warned, new_uuid,
};
use feedmill::store::PriceNote;
use feedmill::store::browse::figures::{Span, punctual, series};

use super::Open;
use super::trial::{DAY, PAUSE, Trial, a, begin, feed, owned_by, page, then};

const FEED: &str = "https://a.example/feed";
const SITEMAP: &str = "https://b.example/sitemap.xml";

/// A poll that went well, on what is known.
async fn polled(trial: &Trial, lease: &Lease, state: FeedState, found: &[&str]) {
    let based_on = known(trial, lease, Ask::default()).await.feed.version;
    let found = found.iter().map(|url| NewTask { parent: Some(lease.task.id), ..page(url) });
    let outcome = Outcome {
        feed: Some(FeedFact {
            based_on,
            state,
            items: Some(3),
            new_items: 0,
            figures: Default::default(),
        }),
        discovered: found.collect(),
        ..then(Next::Again { at: trial.now().after(PAUSE) })
    };
    trial.commit(lease, outcome).await;
}

async fn known(trial: &Trial, lease: &Lease, ask: Ask) -> Known {
    trial.store.lookup(Ask { feed: Some(lease.task.id), ..ask }).await.unwrap()
}

pub(super) async fn what_is_remembered_of_a_channel_comes_back(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(FEED)]).await;
    let lease = trial.take().await;
    let state = FeedState {
        interval_ms: Some(900_000),
        schedule: Some(vec![1, 0, 255]),
        bucket: Some(95),
        health: Health::Frozen,
        health_since: Some(trial.now()),
        disabled_since: Some(trial.now().after(PAUSE)),
        warnings: vec![Warned {
            code: "bad_date".into(),
            detail: "so\u{0}metime".into(),
            count: 2,
        }],
        probed_at: Some(trial.now()),
        body_bytes: 5_000_000_000,
        yielded: 4,
        heard: 9,
        ..FeedState::default()
    };
    polled(&trial, &lease, state.clone(), &[]).await;
    let kept = known(&trial, &lease, Ask::default()).await;
    assert_eq!(kept.feed, FeedState { version: 1, ..state });
    assert_eq!((kept.price, kept.news_elsewhere), (None, 0));
}

pub(super) async fn who_told_of_a_page_first_is_counted(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[FEED]).await;
    trial.submit([owned_by(&source, a(Kind::Sitemap, SITEMAP))]).await;
    let mut leases = trial.claim(4, &[Lane::Poll]).await;
    for lease in leases.extract_if(.., |lease| lease.task.kind == Kind::Robots) {
        trial.commit(&lease, super::trial::allow_all(&lease)).await;
    }
    leases.extend(trial.claim(4, &[Lane::Poll]).await);
    let of = |kind| leases.iter().find(|lease| lease.task.kind == kind).unwrap();
    let (feed, sitemap) = (of(Kind::Feed), of(Kind::Sitemap));
    polled(&trial, feed, FeedState::default(), &["https://c.example/1"]).await;
    trial.pass(PAUSE);
    let pages = ["https://c.example/1", "https://c.example/2", "https://c.example/3"];
    polled(&trial, sitemap, FeedState { yielded: 5, ..FeedState::default() }, &pages).await;
    assert_eq!(known(&trial, feed, Ask::default()).await.feed.yielded, 1);
    assert_eq!(known(&trial, sitemap, Ask::default()).await.feed.yielded, 7);

    let ask = || Ask { siblings: Some(source.id), ..Ask::default() };
    let missed = known(&trial, feed, ask()).await.news_elsewhere;
    assert_eq!(missed, 2, "the feed missed them");
    trial.pass(PAUSE);
    let feed = trial.claim(4, &[Lane::Poll]).await;
    let feed = feed.iter().find(|lease| lease.task.kind == Kind::Feed).unwrap();
    let state = FeedState { heard: missed.into(), ..FeedState::default() };
    polled(&trial, feed, state, &["https://c.example/4"]).await;
    assert_eq!(known(&trial, feed, ask()).await.news_elsewhere, 0, "it had news since");
}

pub(super) async fn feeds_that_were_never_polled_are_counted(open: Open) {
    let trial = begin(open).await;
    trial.source("a", &[FEED, "https://b.example/feed"]).await;
    trial.source("off", &["https://c.example/feed"]).await;
    trial.disable("off").await;
    assert_eq!(trial.store.demand().await.unwrap().unpolled, 2);
    let lease = trial.claim(1, &[Lane::Poll]).await.pop().unwrap();
    polled(&trial, &lease, FeedState { bucket: Some(7), ..FeedState::default() }, &[]).await;
    let demand = trial.store.demand().await.unwrap();
    assert_eq!((demand.buckets, demand.unpolled), (vec![(7, 1)], 1));
}

pub(super) async fn the_price_and_what_it_follows_from_are_kept(open: Open) {
    let trial = begin(open).await;
    assert_eq!(trial.store.demand().await.unwrap(), Default::default());
    let urls = ["https://a.example/f", "https://b.example/f", "https://c.example/f"];
    trial.submit(urls.map(feed)).await;
    for (lease, bucket) in trial.claim(3, &[Lane::Poll]).await.iter().zip([Some(7), Some(7), None])
    {
        let state = FeedState { bucket, interval_ms: Some(21_600_000), ..FeedState::default() };
        let fetch = FetchRecord {
            id: new_uuid(trial.now()),
            task: Some(lease.task.id),
            at: trial.now(),
            url: lease.task.url.clone(),
            status: Some(200),
            code: Code::Ok,
            bytes: 1,
            elapsed_ms: 1,
            content_type: None,
            body_sha256: None,
            raw: None,
        };
        let outcome = Outcome {
            feed: Some(FeedFact {
                based_on: 0,
                state,
                items: None,
                new_items: 0,
                figures: Default::default(),
            }),
            fetches: vec![fetch],
            ..then(Next::Again { at: trial.now().after(2 * DAY) })
        };
        trial.commit(lease, outcome).await;
    }
    let demand = trial.store.demand().await.unwrap();
    assert_eq!((demand.buckets, demand.made, demand.price), (vec![(7, 2)], 3, None));
    assert!((demand.fixed - 4.0).abs() < 1e-6, "every six hours: {}", demand.fixed);

    let now = trial.now();
    for value in [12.5, 1e4] {
        let note = PriceNote { value, correction: -0.5, owed: 2.5, at: now, since: now };
        trial.store.set_price(note).await.unwrap();
        assert_eq!(trial.store.demand().await.unwrap().price, Some(note));
    }
    trial.pass(DAY + Duration::from_secs(1));
    assert_eq!(trial.store.demand().await.unwrap().made, 0, "that was the day before");
    trial.pass(DAY);
    let lease = trial.take().await;
    assert_eq!(known(&trial, &lease, Ask::default()).await.price, Some(1e4));
}

pub(super) async fn vitals_tell_of_channels_sources_and_hosts(open: Open) {
    let trial = begin(open).await;
    trial.source("one", &[]).await;
    trial.source("two", &[]).await;
    trial.store.set_enabled("two", Some("not now".into())).await.unwrap();
    trial.submit([feed(FEED)]).await;
    let lease = trial.take().await;
    assert_eq!(trial.store.vitals().await.unwrap().hosts_busy, 1);
    let interval = i64::try_from(PAUSE.as_millis()).unwrap();
    let state =
        FeedState { health: Health::Late, interval_ms: Some(interval), ..FeedState::default() };
    polled(&trial, &lease, state, &[]).await;
    let blocked = HostPatch { blocked_until: Some(trial.now().after(DAY)), ..HostPatch::default() };
    trial.store.set_host("a.example", blocked).await.unwrap();

    let vitals = trial.store.vitals().await.unwrap();
    assert_eq!((vitals.sources, vitals.sources_disabled), (1, 1));
    assert_eq!((vitals.hosts_busy, vitals.hosts_blocked), (0, 1));
    assert_eq!((vitals.channels, vitals.overdue), (vec![(Health::Late, 1)], 0));
    assert!(vitals.bytes > 0);
    let in_time = || async { punctual(&*trial.store, trial.now()).await.unwrap() };
    trial.pass(PAUSE * 2);
    assert_eq!(trial.store.vitals().await.unwrap().overdue, 0, "twice the interval is in time");
    assert_eq!(in_time().await, (1, 1), "whoever counts");
    trial.pass(Duration::from_millis(1));
    assert_eq!(trial.store.vitals().await.unwrap().overdue, 1);
    assert_eq!(in_time().await, (1, 0));
}

/// What an operator promises: how long requests take, those that nobody answered too, and how many fail
/// by no publisher's fault.
pub(super) async fn promises_are_counted_from_all_requests_of_a_day(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/")]).await;
    let lease = trial.take().await;
    let made = [
        (97, Some(200), Code::Ok, 40),
        (40, Some(304), Code::NotModified, 40),
        (40, Some(301), Code::Redirect, 40),
        (15, Some(404), Code::NotFound, 40),
        (5, Some(503), Code::Upstream, 40),
        (2, None, Code::Timeout, 30_000),
        (1, None, Code::Network, 4_000),
    ];
    let mut fetches = Vec::new();
    for (times, status, code, elapsed_ms) in made {
        fetches.extend((0..times).map(|_| FetchRecord {
            id: new_uuid(trial.now()),
            task: Some(lease.task.id),
            at: trial.now(),
            url: "https://a.example/".into(),
            status,
            code,
            bytes: 0,
            elapsed_ms,
            content_type: None,
            body_sha256: None,
            raw: None,
        }));
    }
    trial.commit(&lease, Outcome { fetches, ..then(Next::Fetched) }).await;
    trial.pass(DAY / 2);
    let day = |from: Ts| Span { from, until: trial.now(), step_ms: 86_400_000, task: None };
    let counted = series(&*trial.store, day(trial.now().before(DAY))).await.unwrap();
    let [counted] = counted.as_slice() else { panic!("{counted:?}") };
    assert_eq!((counted.ok, counted.not_modified, counted.errors), (137, 40, 23));
    assert_eq!((counted.requests(), counted.on_us), (200, 3));
    assert_eq!((counted.within(0.98), counted.within(0.99)), (Some(50), Some(5_000)));
    assert_eq!(counted.within(1.0), Some(30_000));
    trial.pass(DAY);
    let later = series(&*trial.store, day(trial.now().before(DAY))).await.unwrap();
    assert_eq!(later[0].requests(), 0, "that was the day before");
}
