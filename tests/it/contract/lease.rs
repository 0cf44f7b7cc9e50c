//! The life of a lease: stale, renewed, lent, lost.

use std::time::Duration;

use feedmill::frontier::{Extension, HostFilter, HostPatch, MAX_STRIKES};
use feedmill::model::{
    Code, FetchRecord, HostAdvice, Kind, Lane, Lease, Next, Outcome, Status, new_uuid,
};
use feedmill::store::Committed;

use super::Open;
use super::ready::{article, entry};
use super::trial::{PAUSE, TERM, TICK, Trial, a, at_priority, begin, feed, owned_by, page, then};

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

fn lent(extension: Extension) -> bool {
    matches!(extension, Extension::Granted { .. })
}

fn fetch(lease: &Lease, url: &str) -> FetchRecord {
    FetchRecord {
        id: new_uuid(lease.now),
        task: Some(lease.task.id),
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
    trial.pass(TICK + PAUSE);
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
    assert!(lent(trial.store.extend(lost.id, "b.example").await.unwrap()));
    trial.pass(TERM + PAUSE);
    let held = trial.take().await;
    let before = trial.picture().await;
    assert_eq!(trial.commit(&lost, all_of_it(&lost)).await, Committed::Stale);
    assert!(!trial.store.renew(lost.id).await.unwrap());
    assert_eq!(trial.store.extend(lost.id, "c.example").await.unwrap(), Extension::Stale);
    assert_eq!(trial.picture().await, before);
    assert!(lent(trial.store.extend(held.id, "b.example").await.unwrap()));
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

pub(super) async fn a_host_rests_after_a_lease_that_ran_out(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL), page("https://a.example/2"), page("https://b.example/1")]).await;
    let lost = trial.claim(2, Lane::ALL).await;
    trial.submit([feed("https://c.example/feed")]).await;
    let on_a = lost.iter().find(|lease| lease.task.host == "a.example").unwrap();
    assert!(lent(trial.store.extend(on_a.id, "c.example").await.unwrap()));
    let block =
        HostPatch { blocked_until: Some(trial.now().after(2 * TERM)), ..Default::default() };
    trial.store.set_host("b.example", block).await.unwrap();
    trial.pass(TERM);
    assert!(trial.idle().await, "a request may have been under way until now");
    assert_eq!(trial.store.stats().await.unwrap().total.fetching, 1, "the one on b.example");
    trial.pass(PAUSE - TICK);
    assert!(trial.idle().await);
    trial.pass(TICK);
    let hosts: Vec<_> = trial.claim(9, Lane::ALL).await.into_iter().map(|l| l.task.host).collect();
    assert_eq!(hosts.len(), 2, "{hosts:?}: nothing of the host that is blocked");
}

pub(super) async fn a_lease_outlasts_the_block_of_its_host(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL)]).await;
    let lease = trial.take().await;
    let block =
        HostPatch { blocked_until: Some(trial.now().after(9 * TERM)), ..Default::default() };
    trial.store.set_host("a.example", block).await.unwrap();
    assert!(trial.store.renew(lease.id).await.unwrap());
    trial.pass(2 * TERM);
    assert!(trial.idle().await);
    trial.end(&lease, Next::Fetched).await;
}

pub(super) async fn a_lease_left_on_a_parked_task_ends(open: Open) {
    const FEED: &str = "https://a.example/feed";
    let trial = begin(open).await;
    trial.source("a", &[FEED]).await;
    trial.take().await;
    trial.disable("a").await;
    trial.pass(TERM);
    assert!(trial.idle().await);
    let counts = trial.store.stats().await.unwrap().total;
    assert_eq!((counts.fetching, counts.parked), (0, 1));
    assert!(!trial.task(FEED).await.leased);
    let hosts = trial.store.hosts(HostFilter { limit: 9, ..Default::default() }).await.unwrap();
    assert_eq!(hosts[0].in_flight, 0);
    trial.pass(PAUSE);
    trial.enable("a").await;
    assert_eq!(trial.take().await.task.url, FEED);
}

/// Longer than any put-off, and the lease before it.
const AGES: Duration = Duration::from_hours(7);

/// How long after the end of its lease a task is handed out again.
async fn waits(trial: &Trial) -> Duration {
    for minutes in 0..400 {
        if !trial.idle().await {
            return Duration::from_mins(minutes);
        }
        trial.pass(Duration::from_mins(1));
    }
    panic!("it does not come back");
}

pub(super) async fn strikes_put_a_task_off_for_longer_and_longer(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL)]).await;
    trial.take().await;
    for (least, most) in [(0, 0), (1, 2), (30, 45), (240, 360)] {
        trial.pass(TERM + PAUSE);
        let waited = waits(&trial).await;
        let bounds = Duration::from_mins(least)..=Duration::from_mins(most);
        assert!(bounds.contains(&waited), "{waited:?} is not within {least} and {most} min");
    }
    trial.pass(TERM + AGES);
    assert!(trial.idle().await);
    assert_eq!(trial.task(URL).await.last_error, Some(Code::Poison));
}

pub(super) async fn whoever_names_a_struck_task_again_does_not_bring_it_forward(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL)]).await;
    for _ in 0..3 {
        assert_eq!(trial.claim(9, Lane::ALL).await.len(), 1);
        trial.backend.recover().await;
        trial.pass(Duration::from_mins(2));
    }
    let due = trial.task(URL).await.next_fetch_at;
    assert!(due > trial.now().after(Duration::from_mins(27)), "{due}");
    trial.submit([page(URL)]).await;
    trial.submit([at_priority(10, page(URL))]).await;
    assert_eq!(trial.task(URL).await.next_fetch_at, due, "it keeps its wait");
    assert!(trial.idle().await);
}

pub(super) async fn a_crash_is_a_strike_for_each_lease_that_was_left(open: Open) {
    let trial = begin(open).await;
    let urls = [URL, "https://b.example/1", "https://c.example/1"];
    trial.submit(urls.map(page)).await;
    for crash in 1..=MAX_STRIKES {
        let lost = trial.claim(9, Lane::ALL).await;
        assert_eq!(lost.len(), 3, "before crash {crash}");
        // Its lease holds two hosts and is one lease.
        let of_a = lost.iter().find(|lease| lease.task.url == URL).unwrap();
        assert!(lent(trial.store.extend(of_a.id, "d.example").await.unwrap()));
        trial.backend.recover().await;
        if crash == 2 {
            trial.pass(PAUSE);
            assert!(trial.idle().await, "each is put off");
        }
        trial.pass(AGES);
    }
    assert!(trial.idle().await);
    for url in urls {
        assert_eq!(trial.task(url).await.last_error, Some(Code::Poison));
    }
}

/// Claims as often as it takes, never answering; returns how often that was.
async fn lose_until_idle(trial: &Trial) -> i64 {
    let mut lost = 0;
    while !trial.idle().await {
        lost += 1;
        trial.pass(TERM + AGES);
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
        trial.pass(TERM + AGES);
    }
    assert_eq!(trial.claim(9, Lane::ALL).await.len(), 0);
    let task = trial.task(URL).await;
    let mut events = trial.events().await;
    events.sort_by_key(|event| event.kind.number());
    let told: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(told, ["article.failed", "source.disabled"]);
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
            trial.pass(TERM + AGES);
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
    for _ in 0..150 {
        let Some(lease) = trial.claim(1, Lane::ALL).await.pop() else {
            trial.pass(Duration::from_mins(5));
            continue;
        };
        if lease.task.kind == Kind::Feed {
            lost += 1;
            trial.pass(TERM + PAUSE);
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
    assert!(lent(trial.store.extend(lease.id, "b.example").await.unwrap()));
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
        assert!(lent(extension), "also when it has it already");
    }
    assert!(lent(trial.store.extend(lease.id, "new.example").await.unwrap()));
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
    let busy = trial.store.extend(page.id, "b.example").await.unwrap();
    assert_eq!(busy, Extension::Busy { pause: PAUSE });
    trial.end(&poll, Next::Fetched).await;
    // Its own queue would be first at the end of each pause: it is lent during it, and not to be
    // asked before.
    trial.pass(TICK);
    let paused = trial.store.extend(page.id, "b.example").await.unwrap();
    assert_eq!(paused, Extension::Granted { wait: PAUSE - TICK, pause: PAUSE });
    trial.submit([feed("https://b.example/2")]).await;
    trial.pass(PAUSE);
    assert!(trial.idle().await, "whoever waits there comes next");
    trial.end(&page, Next::Fetched).await;
}

pub(super) async fn a_blocked_host_is_not_lent(open: Open) {
    let trial = begin(open).await;
    trial.submit([page(URL), feed("https://b.example/feed")]).await;
    let lease = trial.claim(1, &[Lane::Page]).await.pop().unwrap();
    let until = trial.now().after(Duration::from_hours(1));
    let patch = HostPatch { blocked_until: Some(until), ..HostPatch::default() };
    trial.store.set_host("b.example", patch).await.unwrap();
    let lent = trial.store.extend(lease.id, "b.example").await.unwrap();
    assert_eq!(lent, Extension::Blocked { until });
    trial.end(&lease, Next::Fetched).await;
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
    assert!(lent(trial.store.extend(lost[0].id, "d.example").await.unwrap()));
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
