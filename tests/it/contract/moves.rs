//! Feeds that move, and pages that robots.txt allows again.

use feedmill::model::{
    Ask, Code, EventKind, FeedFact, FeedState, Lane, Lease, Moved, Moving, NewEvent, Next, Outcome,
    RobotsFact, RobotsState, Status, Verdict,
};
use feedmill::store::Committed;

use super::Open;
use super::trial::{DAY, PAUSE, Trial, begin, feed, owned_by, page, then};

const OLD: &str = "https://a.example/feed";
const NEW: &str = "https://b.example/feed";

/// What a poll concludes whose feed has moved.
fn moved(lease: &Lease) -> Outcome {
    let event = NewEvent {
        kind: EventKind::FeedMoved,
        subject: lease.task.id.to_string(),
        source: lease.task.source,
        payload: serde_json::json!({"from": OLD, "to": NEW}),
    };
    let state = FeedState::default();
    Outcome {
        moved: Some(Moved { to: feed(NEW), event }),
        feed: Some(FeedFact {
            based_on: 0,
            state,
            items: None,
            new_items: 0,
            figures: Default::default(),
        }),
        ..then(Next::Again { at: lease.now.after(DAY) })
    }
}

pub(super) async fn a_feed_takes_its_new_address_with_all_that_it_is(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[OLD]).await;
    let lease = trial.take().await;
    assert_eq!(trial.commit(&lease, moved(&lease)).await, Committed::Done);
    let task = trial.task(NEW).await;
    assert_eq!((task.id, task.host.as_str()), (lease.task.id, "b.example"));
    assert_eq!(task.source, Some(source.id));
    assert_eq!(trial.kinds_of_events().await, ["feed.moved"]);
    let (source, channels) = trial.store.source("a").await.unwrap();
    assert_eq!(source.spec.feed_urls, [NEW]);
    assert_eq!(channels[0].url, NEW);
    assert!(trial.idle().await, "it keeps its time");
    trial.pass(DAY);
    assert_eq!(trial.take().await.task.url, NEW);
    assert!(trial.idle().await);
}

pub(super) async fn an_address_that_another_task_has_is_not_taken(open: Open) {
    let trial = begin(open).await;
    trial.source("a", &[OLD]).await;
    trial.source("b", &[NEW]).await;
    let leases = trial.claim(2, Lane::ALL).await;
    let old = leases.iter().find(|lease| lease.task.url == OLD).unwrap();
    assert_eq!(trial.commit(old, moved(old)).await, Committed::Done);
    assert_eq!(trial.task(OLD).await.id, old.task.id);
    assert_eq!(trial.kinds_of_events().await, Vec::<&str>::new());
    assert_eq!(trial.store.source("a").await.unwrap().0.spec.feed_urls, [OLD]);
}

pub(super) async fn a_move_that_is_under_way_is_remembered(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(OLD)]).await;
    let lease = trial.take().await;
    let moving = Some(Moving { to: NEW.into(), since: trial.now(), polls: 3 });
    let state = FeedState { moving, ..FeedState::default() };
    let fact = FeedFact {
        based_on: 0,
        state: state.clone(),
        items: None,
        new_items: 0,
        figures: Default::default(),
    };
    let next = Next::Again { at: lease.now.after(DAY) };
    let outcome = Outcome { feed: Some(fact), ..then(next) };
    assert_eq!(trial.commit(&lease, outcome).await, Committed::Done);
    let ask = Ask { feed: Some(lease.task.id), ..Ask::default() };
    let kept = trial.store.lookup(ask).await.unwrap().feed;
    assert_eq!(kept, FeedState { version: 1, ..state });
}

/// Serves the robots.txt that is handed out with these rules, told to be others than before.
async fn rules_change(trial: &Trial, rules: &str) {
    let lease = trial.store.claim(1, Lane::ALL).await.unwrap().pop().unwrap();
    assert_eq!(lease.task.url, "https://a.example/robots.txt");
    let fact = RobotsFact {
        origin: "https://a.example".into(),
        state: RobotsState {
            verdict: Verdict::Rules(rules.into()),
            fetched_at: lease.now,
            expires_at: lease.now.after(DAY),
            failures: 0,
        },
        crawl_delay_ms: None,
        rechecked_as: Some("Feedmill".into()),
    };
    let outcome = Outcome { robots: Some(fact), ..then(Next::Again { at: lease.now.after(DAY) }) };
    assert_eq!(trial.commit(&lease, outcome).await, Committed::Done);
    trial.pass(PAUSE);
}

pub(super) async fn what_robots_ruled_out_returns_when_new_rules_allow_it(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("s", &[]).await;
    let urls = ["/no/1", "/no/2?x", "/still/1", "/gone"].map(|it| format!("https://a.example{it}"));
    let other = "http://a.example:8080/no/1";
    for url in urls.iter().map(String::as_str).chain([other]) {
        trial.submit([owned_by(&source, page(url))]).await;
    }
    while let Some(lease) = trial.claim(1, Lane::ALL).await.pop() {
        let code = if lease.task.url.ends_with("/gone") { Code::Gone } else { Code::RobotsBlocked };
        trial.end(&lease, Next::Dead { code }).await;
        trial.pass(PAUSE);
    }
    trial.pass(DAY);
    let wakes = owned_by(&source, page("https://a.example/wakes"));
    trial.submit([wakes]).await;
    rules_change(&trial, "User-agent: *\nDisallow: /still/\n").await;
    let mut risen: Vec<_> = trial.tasks().await;
    risen.retain(|task| task.status == Status::Pending);
    let risen: Vec<_> = risen.iter().map(|task| task.url.as_str()).collect();
    let expected =
        ["https://a.example/no/1", "https://a.example/no/2?x", "https://a.example/wakes"];
    assert_eq!(risen, expected, "not what is gone, still ruled out, or of another origin");
    for _ in risen {
        let lease = trial.take().await;
        assert_eq!(lease.task.retry_count, 0);
        trial.end(&lease, Next::Fetched).await;
        trial.pass(PAUSE);
    }
    assert!(trial.idle().await);
}

pub(super) async fn what_nobody_follows_stays_ruled_out(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("s", &[]).await;
    trial.submit([owned_by(&source, page("https://a.example/no/1"))]).await;
    let lease = trial.take().await;
    trial.end(&lease, Next::Dead { code: Code::RobotsBlocked }).await;
    trial.disable("s").await;
    trial.pass(DAY + PAUSE);
    trial.submit([page("https://a.example/wakes")]).await;
    rules_change(&trial, "User-agent: *\nAllow: /\n").await;
    assert_eq!(trial.task("https://a.example/no/1").await.status, Status::Dead);
    assert_eq!(trial.take().await.task.url, "https://a.example/wakes");
}
