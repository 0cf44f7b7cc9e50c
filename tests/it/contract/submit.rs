//! Taking addresses in.

use feedmill::model::{Code, Kind, Lane, NewTask, Next, Origin, Refetch, Status};

use super::Open;
use super::trial::{DAY, PAUSE, TICK, a, at_priority, begin, feed, page};

pub(super) async fn a_report_counts_new_known_raised_and_rejected(open: Open) {
    let trial = begin(open).await;
    let report =
        trial.submit([page("https://a.example/1"), page("https://a.example/2"), page("nonsense")]);
    let report = report.await;
    assert_eq!((report.new, report.known, report.raised), (2, 0, 0));
    assert_eq!(report.rejected.len(), 1);
    assert_eq!(report.rejected[0].url, "nonsense");
    assert_eq!(report.rejected[0].code, "url_malformed");

    let again = trial
        .submit([
            page("https://a.example/1"),
            at_priority(9, page("https://a.example/2")),
            page("https://a.example/3"),
        ])
        .await;
    assert_eq!((again.new, again.known, again.raised), (1, 2, 1));
    assert!(again.rejected.is_empty());
    assert_eq!(trial.tasks().await.len(), 3);
}

pub(super) async fn spellings_of_one_address_are_one_task(open: Open) {
    let trial = begin(open).await;
    let first = "https://a.example/story?b=2&a=1";
    trial.submit([page(first)]).await;
    let same = trial
        .submit([
            page("http://a.example/story?b=2&a=1"),
            page("https://A.Example/story?b=2&a=1"),
            page("https://a.example:443/story?a=1&b=2"),
            page("https://a.example/story/?b=2&a=1#comments"),
            page("https://a.example/story?b=2&a=1&utm_source=x&fbclid=y"),
            page("https://a.example/%73tory?b=2&a=1"),
        ])
        .await;
    assert_eq!((same.new, same.known), (0, 6));
    let other = trial.submit([page("https://a.example/Story?b=2&a=1")]).await;
    assert_eq!(other.new, 1, "the case of a path tells pages apart");
    assert_eq!(trial.task(first).await.url, first, "it is fetched as it was given first");
}

pub(super) async fn an_address_is_one_task_per_lane(open: Open) {
    let trial = begin(open).await;
    let url = "https://a.example/thing";
    let report = trial.submit([page(url), feed(url), a(Kind::Enclosure, url)]).await;
    assert_eq!(report.new, 3);
    let again = trial.submit([page(url), feed(url), a(Kind::Enclosure, url)]).await;
    assert_eq!((again.new, again.known), (0, 3));
    let lanes: Vec<_> = trial.tasks().await.iter().map(|task| task.kind.lane()).collect();
    assert_eq!(lanes, [Lane::Page, Lane::Poll, Lane::Media]);
}

pub(super) async fn priority_only_rises(open: Open) {
    let trial = begin(open).await;
    let url = "https://a.example/1";
    trial.submit([page(url)]).await;
    assert_eq!(trial.submit([at_priority(3, page(url))]).await.raised, 0);
    assert_eq!(trial.task(url).await.priority, 5);
    assert_eq!(trial.submit([at_priority(8, page(url))]).await.raised, 1);
    assert_eq!(trial.task(url).await.priority, 8);
    let from_feed = NewTask { origin: Origin::Feed, ..at_priority(8, page(url)) };
    assert_eq!(trial.submit([from_feed]).await.raised, 1, "a feed's word counts two more");
    assert_eq!(trial.task(url).await.priority, 10);
}

pub(super) async fn priority_stands_still_while_a_task_is_under_way(open: Open) {
    let trial = begin(open).await;
    let url = "https://a.example/1";
    trial.submit([page(url)]).await;
    let lease = trial.take().await;
    assert_eq!(trial.submit([at_priority(9, page(url))]).await.raised, 0);
    assert_eq!(trial.task(url).await.priority, 5);
    trial.end(&lease, Next::Fetched).await;
    assert_eq!(trial.task(url).await.status, Status::Fetched);
    trial.pass(PAUSE);
    assert!(trial.idle().await);
}

pub(super) async fn what_is_done_or_given_up_is_not_queued_again(open: Open) {
    let trial = begin(open).await;
    for (url, next, status) in [
        ("https://a.example/done", Next::Fetched, Status::Fetched),
        ("https://a.example/dead", Next::Dead { code: Code::NotFound }, Status::Dead),
    ] {
        trial.submit([page(url)]).await;
        trial.end(&trial.take().await, next).await;
        trial.pass(PAUSE);
        let again = trial.submit([at_priority(10, page(url))]).await;
        assert_eq!((again.new, again.known, again.raised), (0, 1, 0));
        assert_eq!(trial.task(url).await.status, status);
        assert!(trial.idle().await);
    }
}

pub(super) async fn what_recurs_and_was_over_returns_when_it_is_named_again(open: Open) {
    let trial = begin(open).await;
    let named = || a(Kind::Sitemap, "https://a.example/day.xml");
    trial.submit([named()]).await;
    trial.end(&trial.take().await, Next::Fetched).await;
    trial.pass(DAY - TICK);
    assert_eq!(trial.submit([named()]).await.raised, 0, "not on the same day");
    assert!(trial.idle().await);
    trial.pass(TICK);
    assert_eq!(trial.submit([named()]).await.raised, 1);
    assert_eq!(trial.take().await.task.kind, Kind::Sitemap);
}

pub(super) async fn the_dead_return_after_a_month_unless_the_reason_is_final(open: Open) {
    let trial = begin(open).await;
    let cases = [
        ("https://a.example/", Code::NotFound, true),
        ("https://b.example/", Code::Poison, true),
        ("https://c.example/", Code::Gone, false),
        ("https://d.example/", Code::Redirect, false),
        ("https://e.example/", Code::RobotsBlocked, false),
    ];
    for (url, code, _) in cases {
        trial.submit([page(url)]).await;
        trial.end(&trial.take().await, Next::Dead { code }).await;
    }
    trial.pass(30 * DAY - TICK);
    for (url, code, _) in cases {
        assert_eq!(trial.submit([page(url)]).await.raised, 0, "{code} too early");
    }
    assert!(trial.idle().await);
    trial.pass(TICK);
    for (url, code, returns) in cases {
        trial.submit([page(url)]).await;
        let task = trial.task(url).await;
        let wanted = if returns { Status::Pending } else { Status::Dead };
        assert_eq!(task.status, wanted, "{code}");
        assert!(!returns || task.retry_count == 0);
    }
    assert_eq!(trial.claim(9, Lane::ALL).await.len(), 2);
}

pub(super) async fn malformed_addresses_among_a_thousand_are_rejected_one_by_one(open: Open) {
    let trial = begin(open).await;
    let bad = [
        ("ftp://a.example/file", "url_scheme"),
        ("https://user:secret@a.example/", "url_credentials"),
        ("https://", "url_no_host"),
        ("/relative", "url_malformed"),
        ("", "url_malformed"),
        ("https://[::1/", "url_malformed"),
        ("javascript:alert(1)", "url_scheme"),
        ("https://a.example:99999/", "url_malformed"),
    ];
    let batch: Vec<_> = (0..1_000)
        .map(|at| match bad.get(at / 120) {
            Some((url, _)) if at % 120 == 77 => page(url),
            _ => page(&format!("https://host-{}.example/{at}", at % 7)),
        })
        .collect();
    let report = trial.store.submit(batch).await.unwrap();
    assert_eq!((report.new, report.known), (992, 0));
    let rejected: Vec<_> = report.rejected.iter().map(|one| (one.url.as_str(), one.code)).collect();
    // What is shown of a rejected address hides its password.
    let shown = bad.map(|(url, code)| (url.replace("user:secret", "***"), code));
    assert_eq!(rejected, shown.each_ref().map(|(url, code)| (url.as_str(), *code)));
    assert!(report.rejected.iter().all(|one| !one.reason.is_empty()));
    assert_eq!(trial.store.stats().await.unwrap().total.pending, 992);
    assert_eq!(trial.claim(1_000, Lane::ALL).await.len(), 7, "every host has something to serve");
}

pub(super) async fn an_earlier_wish_moves_a_waiting_page_forward(open: Open) {
    let trial = begin(open).await;
    let url = "https://a.example/1";
    let tomorrow = NewTask { not_before: Some(trial.now().after(DAY)), ..page(url) };
    trial.submit([tomorrow.clone()]).await;
    assert!(trial.idle().await);
    assert_eq!(trial.submit([tomorrow]).await.raised, 0);
    assert_eq!(trial.submit([page(url)]).await.raised, 1);
    assert_eq!(trial.take().await.task.url, url);
}

pub(super) async fn a_failed_page_keeps_its_wait_whoever_gives_it_again(open: Open) {
    let trial = begin(open).await;
    let url = "https://a.example/1";
    trial.submit([page(url)]).await;
    let at = trial.now().after(DAY);
    trial.end(&trial.take().await, Next::Retry { at, code: Code::Upstream }).await;
    trial.pass(PAUSE);
    assert_eq!(trial.submit([page(url)]).await.raised, 0);
    trial.submit([at_priority(9, page(url))]).await;
    let task = trial.task(url).await;
    assert_eq!((task.priority, task.next_fetch_at), (9, at));
    assert!(trial.idle().await);
    trial.pass(DAY);
    assert_eq!(trial.take().await.task.priority, 9);
}

pub(super) async fn a_feed_keeps_its_rhythm_whoever_gives_it_again(open: Open) {
    let trial = begin(open).await;
    let url = "https://a.example/feed";
    trial.submit([feed(url)]).await;
    let at = trial.now().after(DAY);
    trial.end(&trial.take().await, Next::Again { at }).await;
    trial.pass(PAUSE);
    assert_eq!(trial.submit([feed(url)]).await.raised, 0);
    trial.submit([at_priority(9, feed(url))]).await;
    let task = trial.task(url).await;
    assert_eq!((task.priority, task.next_fetch_at), (9, at));
    assert!(trial.idle().await);
}

pub(super) async fn a_fetched_page_is_asked_for_again_only_after_a_change(open: Open) {
    let trial = begin(open).await;
    let url = "https://a.example/1";
    trial.submit([page(url)]).await;
    trial.end(&trial.take().await, Next::Fetched).await;
    let fetched_at = trial.now();
    trial.pass(PAUSE);
    let changed = |changed, most| {
        let refetch = Some(Refetch { changed, after: DAY, most });
        NewTask { refetch, ..page(url) }
    };
    for same in [page(url), changed(fetched_at, 3), changed(trial.now(), 0)] {
        assert_eq!(trial.submit([same]).await.raised, 0);
        assert_eq!(trial.task(url).await.status, Status::Fetched);
    }
    assert_eq!(trial.submit([changed(trial.now(), 1)]).await.raised, 1);
    let task = trial.task(url).await;
    assert_eq!((task.status, task.next_fetch_at), (Status::Pending, fetched_at.after(DAY)));
    assert_eq!(trial.submit([page(url)]).await.raised, 0, "and is not brought forward");
    assert_eq!(trial.task(url).await.next_fetch_at, fetched_at.after(DAY));
    trial.pass(DAY);
    trial.end(&trial.take().await, Next::Fetched).await;
    trial.pass(DAY);
    assert_eq!(trial.submit([changed(trial.now(), 1)]).await.raised, 0, "once was enough");
    // Somebody who wants it again, beside somebody who knows of no change.
    assert_eq!(trial.submit([page(url), changed(trial.now(), 2)]).await.raised, 1);
    assert_eq!(trial.task(url).await.next_fetch_at, trial.now(), "it has rested for long enough");
}
