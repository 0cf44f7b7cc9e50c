//! Handing tasks out: order, pace, lanes and robots.txt.

use std::collections::BTreeSet;
use std::time::Duration;

use feedmill::frontier::{Act, HostPatch, Rules, TaskFilter};
use feedmill::model::{
    Code, HostAdvice, Kind, Lane, Lease, NewSource, NewTask, Next, Outcome, Source, Status,
};
use feedmill::store::Committed;

use super::Open;
use super::trial::{
    DAY, PAUSE, TICK, Trial, a, allow_all, at_priority, begin, feed, noon, owned_by, page, rules,
    then,
};

fn urls(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.task.url.as_str()).collect()
}

pub(super) async fn the_highest_priority_goes_first(open: Open) {
    let trial = begin(open).await;
    trial
        .submit([
            at_priority(3, page("https://a.example/low")),
            at_priority(9, page("https://b.example/high")),
            at_priority(6, page("https://c.example/middle")),
            at_priority(8, page("https://a.example/rather-high")),
        ])
        .await;
    for wanted in ["https://b.example/high", "https://a.example/rather-high"] {
        assert_eq!(trial.take().await.task.url, wanted);
    }
    assert_eq!(trial.take().await.task.url, "https://c.example/middle");
    assert!(trial.idle().await);
}

pub(super) async fn newcomers_do_not_overtake_who_waits_longest(open: Open) {
    let trial = begin(open).await;
    let low = "https://old.example/low";
    trial.submit([at_priority(1, page(low))]).await;
    trial.pass(TICK);
    let new = |n: usize| at_priority(9, page(&format!("https://new{n}.example/")));
    trial.submit::<39>(std::array::from_fn(new)).await;
    let mut first = Vec::new();
    for _ in 0..10 {
        first.push(trial.take().await);
    }
    assert!(urls(&first).contains(&low), "{:?}", urls(&first));
}

pub(super) async fn the_oldest_due_goes_first_within_a_host(open: Open) {
    let trial = begin(open).await;
    let due = |seconds: u64, url: &str| NewTask {
        not_before: Some(trial.now().after(Duration::from_secs(seconds))),
        ..page(url)
    };
    trial
        .submit([
            due(30, "https://a.example/third"),
            due(10, "https://a.example/first"),
            due(20, "https://a.example/second"),
        ])
        .await;
    trial.pass(Duration::from_mins(1));
    for wanted in ["first", "second", "third"] {
        let lease = trial.take().await;
        assert_eq!(lease.task.url, format!("https://a.example/{wanted}"));
        trial.end(&lease, Next::Fetched).await;
        trial.pass(PAUSE);
    }
}

pub(super) async fn a_claim_hands_out_at_most_what_was_asked_each_on_another_host(open: Open) {
    let trial = begin(open).await;
    for host in 0..5 {
        for at in 0..3 {
            trial.submit([feed(&format!("https://h{host}.example/{at}"))]).await;
        }
    }
    assert!(trial.store.claim(0, Lane::ALL).await.unwrap().is_empty());
    let three = trial.store.claim(3, Lane::ALL).await.unwrap();
    let rest = trial.store.claim(9, Lane::ALL).await.unwrap();
    assert_eq!((three.len(), rest.len()), (3, 2));
    let hosts: BTreeSet<_> = three.iter().chain(&rest).map(|lease| &lease.task.host).collect();
    assert_eq!(hosts.len(), 5);
    let ids: BTreeSet<_> = three.iter().chain(&rest).map(|lease| lease.id.0).collect();
    assert_eq!(ids.len(), 5);
}

pub(super) async fn a_host_has_one_live_lease(open: Open) {
    let trial = begin(open).await;
    let tasks = [page("https://a.example/1"), page("http://a.example:8080/2")];
    trial.submit(tasks).await;
    trial.submit([feed("https://A.example./3"), a(Kind::Enclosure, "https://a.example/4")]).await;
    let lease = trial.take().await;
    assert!(trial.idle().await);
    assert!(trial.task(&lease.task.url).await.leased);
    let counts = trial.store.stats().await.unwrap().total;
    assert_eq!(counts.fetching, 1);
    trial.end(&lease, Next::Fetched).await;
    assert_eq!(trial.store.stats().await.unwrap().total.fetching, 0);
}

pub(super) async fn the_pause_counts_from_completion(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1"), page("https://a.example/2")]).await;
    let lease = trial.take().await;
    assert_eq!(lease.delay, PAUSE);
    trial.pass(10 * PAUSE);
    trial.end(&lease, Next::Fetched).await;
    assert!(trial.idle().await);
    trial.pass(PAUSE - TICK);
    assert!(trial.idle().await);
    trial.pass(TICK);
    assert_eq!(trial.take().await.task.url, "https://a.example/2");
}

pub(super) async fn a_request_that_was_not_made_costs_no_pause(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1"), page("https://a.example/2")]).await;
    let lease = trial.take().await;
    let outcome = Outcome { host: HostAdvice::NotAsked, ..then(Next::Fetched) };
    assert_eq!(trial.commit(&lease, outcome).await, Committed::Done);
    assert_eq!(trial.task("https://a.example/1").await.fetch_count, 0);
    assert_eq!(trial.take().await.task.url, "https://a.example/2");
}

pub(super) async fn nothing_is_handed_out_while_a_host_is_blocked(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1"), page("https://a.example/2")]).await;
    let until = trial.now().after(DAY);
    let patch = HostPatch { blocked_until: Some(until), ..HostPatch::default() };
    trial.store.set_host("a.example", patch).await.unwrap();
    trial.pass(DAY - TICK);
    assert!(trial.idle().await);
    trial.pass(TICK);
    let lease = trial.take().await;

    let wait = HostAdvice::Pause { until: trial.now().after(DAY) };
    let outcome = Outcome { host: wait, ..then(Next::Fetched) };
    assert_eq!(trial.commit(&lease, outcome).await, Committed::Done);
    trial.pass(DAY - TICK);
    assert!(trial.idle().await);
    trial.pass(TICK);
    assert!(!trial.idle().await);
}

pub(super) async fn lifting_a_block_leaves_the_pause_that_the_host_wants(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1"), page("https://a.example/2")]).await;
    let delay = Some(Duration::from_mins(5));
    let slow = HostPatch { delay, ..HostPatch::default() };
    trial.store.set_host("a.example", slow).await.unwrap();
    let lease = trial.take().await;
    assert_eq!(lease.delay, Duration::from_mins(5));
    trial.end(&lease, Next::Fetched).await;
    let lifted = HostPatch { blocked_until: Some(trial.now()), ..HostPatch::default() };
    trial.store.set_host("a.example", lifted).await.unwrap();
    trial.pass(Duration::from_mins(5) - TICK);
    assert!(trial.idle().await);
    trial.pass(TICK);
    assert!(!trial.idle().await);
}

pub(super) async fn only_the_lanes_asked_for_are_served(open: Open) {
    let trial = begin(open).await;
    let media = "https://c.example/a.mp3";
    trial
        .submit([
            at_priority(9, feed("https://a.example/feed")),
            page("https://b.example/page"),
            a(Kind::Enclosure, media),
        ])
        .await;
    assert!(trial.claim(9, &[]).await.is_empty());
    assert_eq!(urls(&trial.claim(9, &[Lane::Media]).await), [media]);
    assert_eq!(urls(&trial.claim(9, &[Lane::Page]).await), ["https://b.example/page"]);
    assert_eq!(urls(&trial.claim(9, &[Lane::Poll]).await), ["https://a.example/feed"]);
}

pub(super) async fn polls_take_every_second_slot_while_pages_wait(open: Open) {
    let trial = begin(open).await;
    // The first page brings robots.txt: it would take a page's slot below.
    trial.submit([page("https://a.example/")]).await;
    trial.end(&trial.take().await, Next::Fetched).await;
    trial.pass(PAUSE);
    use Lane::{Page, Poll};
    // Whichever is more important: (polls and their priority, pages and theirs), and who is served.
    let cases = [
        ((4, 9), (2, 2), [Poll, Page, Poll, Page, Poll, Poll]),
        ((2, 5), (4, 7), [Page, Poll, Page, Poll, Page, Page]),
    ];
    for ((polls, poll), (pages, first), wanted) in cases {
        for at in 0..polls {
            let url = format!("https://a.example/feed/{polls}/{at}");
            trial.submit([at_priority(poll, feed(&url))]).await;
        }
        for at in 0..pages {
            let url = format!("https://a.example/page/{pages}/{at}");
            trial.submit([at_priority(first, page(&url))]).await;
        }
        let mut served = Vec::new();
        for _ in 0..polls + pages {
            let lease = trial.take().await;
            served.push(lease.task.kind.lane());
            trial.end(&lease, Next::Fetched).await;
            trial.pass(PAUSE);
        }
        assert_eq!(served, wanted);
    }
}

pub(super) async fn robots_goes_first_when_missing_or_stale_and_once(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1"), page("https://a.example/2")]).await;
    for round in 0..2 {
        let claimed = trial.store.claim(9, &[Lane::Page]).await.unwrap();
        assert_eq!(urls(&claimed), ["https://a.example/robots.txt"]);
        assert_eq!(claimed[0].task.kind, Kind::Robots);
        assert!(claimed[0].robots.is_none());
        assert!(trial.store.claim(9, Lane::ALL).await.unwrap().is_empty(), "exactly one");
        let fetched_at = claimed[0].now;
        let outcome = allow_all(&claimed[0]);
        assert_eq!(trial.commit(&claimed[0], outcome).await, Committed::Done);
        let state = trial.store.robots("https://a.example").await.unwrap().unwrap();
        assert_eq!(state.fetched_at, fetched_at);

        let claimed = trial.store.claim(9, &[Lane::Page]).await.unwrap();
        assert_eq!(urls(&claimed), [format!("https://a.example/{}", round + 1)]);
        let ruled_by = claimed[0].robots.as_ref().unwrap();
        assert_eq!(ruled_by.origin, "https://a.example");
        assert_eq!(ruled_by.fetched_at, fetched_at);
        trial.end(&claimed[0], Next::Fetched).await;
        trial.pass(DAY); // The copy is good for a day, and no longer.
    }
    assert!(trial.idle().await, "nobody asks for robots.txt when nobody needs it");
}

pub(super) async fn feeds_need_no_robots_unless_the_rule_says_so(open: Open) {
    let strict = Rules { robots_for_feeds: true, ..rules() };
    for (rules, wanted) in [(rules(), Kind::Feed), (strict, Kind::Robots)] {
        let trial = open(noon(), rules).await;
        trial.submit([feed("https://a.example/feed")]).await;
        let claimed = trial.store.claim(9, Lane::ALL).await.unwrap();
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].task.kind, wanted);
        assert!(claimed[0].robots.is_none());
    }
    let trial = begin(open).await;
    trial.submit([a(Kind::Sitemap, "https://a.example/sitemap.xml")]).await;
    let claimed = trial.store.claim(9, Lane::ALL).await.unwrap();
    assert_eq!(claimed[0].task.kind, Kind::Robots, "a sitemap is ruled by robots.txt");
}

pub(super) async fn every_origin_has_its_own_robots(open: Open) {
    let trial = begin(open).await;
    let origins = ["http://a.example", "https://a.example", "https://a.example:8443"];
    for origin in origins {
        trial.submit([page(&format!("{origin}/{}", origin.len()))]).await;
    }
    let mut asked = Vec::new();
    for _ in 0..6 {
        let claimed = trial.store.claim(9, Lane::ALL).await.unwrap();
        assert_eq!(claimed.len(), 1, "one host, one lease");
        let lease = &claimed[0];
        if lease.task.kind == Kind::Robots {
            asked.push(lease.task.url.clone());
            trial.commit(lease, allow_all(lease)).await;
        } else {
            let ruled_by = &lease.robots.as_ref().unwrap().origin;
            assert!(lease.task.url.starts_with(&format!("{ruled_by}/")), "{ruled_by}");
            trial.end(lease, Next::Fetched).await;
            trial.pass(PAUSE);
        }
    }
    assert_eq!(asked, origins.map(|origin| format!("{origin}/robots.txt")));
}

/// A link to a port where nothing answers can be written by anybody.
pub(super) async fn an_unreachable_robots_holds_up_its_origin_only(open: Open) {
    let trial = begin(open).await;
    let closed: Vec<_> = (0..250).map(|n| page(&format!("http://a.example:81/{n}"))).collect();
    let count = closed.len();
    trial.store.submit(closed).await.unwrap();
    trial
        .submit([page("https://a.example/good"), at_priority(3, feed("https://a.example/feed"))])
        .await;
    let until = trial.now().after(Duration::from_mins(15));
    let mut asked = Vec::new();
    for _ in 0..20 {
        for lease in trial.store.claim(9, Lane::ALL).await.unwrap() {
            asked.push(lease.task.url.clone());
            let unreachable = Next::Retry { at: until, code: Code::RobotsUnreachable };
            match lease.task.url.as_str() {
                "http://a.example:81/robots.txt" => trial.end(&lease, unreachable).await,
                "https://a.example/robots.txt" => {
                    assert_eq!(trial.commit(&lease, allow_all(&lease)).await, Committed::Done);
                }
                _ => trial.end(&lease, Next::Fetched).await,
            }
        }
        trial.pass(PAUSE);
    }
    asked.sort_unstable();
    let (good, feed) = ("https://a.example/good", "https://a.example/feed");
    let robots = ["http://a.example:81/robots.txt", "https://a.example/robots.txt"];
    assert_eq!(
        asked,
        [robots[0], feed, good, robots[1]],
        "nothing twice, and nothing of the closed port"
    );
    let one = trial.task("http://a.example:81/7").await;
    assert_eq!((one.next_fetch_at, one.last_error), (until, Some(Code::RobotsUnreachable)));
    assert_eq!((one.retry_count, one.status), (0, Status::Pending), "it did not fail itself");

    // It is requested again when its time has come, and then serves all that waited for it.
    trial.pass(Duration::from_mins(15));
    assert_eq!(urls(&trial.store.claim(9, Lane::ALL).await.unwrap()), [robots[0]]);
    let reset = begin(open).await;
    reset.submit([page("http://a.example:81/0")]).await;
    let lease = reset.store.claim(1, Lane::ALL).await.unwrap().pop().unwrap();
    let later = Next::Retry { at: reset.now().after(DAY), code: Code::RobotsUnreachable };
    reset.end(&lease, later).await;
    reset.pass(PAUSE);
    assert!(reset.store.claim(1, Lane::ALL).await.unwrap().is_empty());
    // Clearing the pace of the host lets an operator try again at once.
    let forget = HostPatch { forget: true, ..HostPatch::default() };
    reset.store.set_host("a.example", forget).await.unwrap();
    let all = TaskFilter { limit: count, ..TaskFilter::default() };
    reset.store.sweep(Act::Retry, all, false).await.unwrap();
    assert_eq!(urls(&reset.store.claim(1, Lane::ALL).await.unwrap()), [robots[0]]);
}

pub(super) async fn a_crawl_delay_is_kept_from_the_answer_that_told_it(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1")]).await;
    let claimed = trial.store.claim(1, Lane::ALL).await.unwrap();
    let mut outcome = allow_all(&claimed[0]);
    outcome.host = HostAdvice::Neutral;
    if let Some(robots) = &mut outcome.robots {
        robots.crawl_delay_ms = Some(7_000);
    }
    trial.commit(&claimed[0], outcome).await;
    trial.pass(Duration::from_secs(7) - TICK);
    assert!(trial.idle().await);
    trial.pass(TICK);
    assert_eq!(trial.take().await.delay, Duration::from_secs(7));
}

/// A source that wants nine seconds between two requests.
async fn slow_source(trial: &Trial) -> Source {
    let spec = NewSource {
        rate_limit: Some(Duration::from_secs(9)),
        ..NewSource::new("slow", "https://a.example/")
    };
    trial.store.add_source(spec).await.unwrap()
}

pub(super) async fn a_source_sets_the_pace_of_its_hosts(open: Open) {
    let trial = begin(open).await;
    let source = slow_source(&trial).await;
    for at in 0..2 {
        trial.submit([owned_by(&source, page(&format!("https://a.example/{at}")))]).await;
    }
    let lease = trial.take().await;
    assert_eq!(lease.source.as_ref().unwrap().spec.name, "slow");
    assert_eq!(lease.delay, Duration::from_secs(9));
    trial.end(&lease, Next::Fetched).await;
    trial.pass(Duration::from_secs(9) - TICK);
    assert!(trial.idle().await);
    trial.pass(TICK);
    assert!(!trial.idle().await);
}

pub(super) async fn a_pace_goes_with_the_source_that_asked_for_it(open: Open) {
    let trial = begin(open).await;
    let source = slow_source(&trial).await;
    trial.submit([owned_by(&source, at_priority(9, page("https://a.example/slow")))]).await;
    trial.submit([page("https://a.example/1"), page("https://a.example/2")]).await;
    trial.end(&trial.take().await, Next::Fetched).await;
    trial.pass(Duration::from_secs(9));
    let lease = trial.take().await;
    assert_eq!(lease.delay, PAUSE, "nobody asks for more");
    trial.end(&lease, Next::Fetched).await;
    trial.pass(PAUSE);
    assert!(!trial.idle().await);
}
