//! The operator's hand: listing, trying again, forgetting, and a word about a host.

use std::collections::BTreeSet;
use std::time::Duration;

use feedmill::frontier::{
    Act, Counts, Cursor, FOREVER, HostFilter, HostPatch, HostState, Order, PauseOrigin, Share,
    Sort, Sweep, TaskFilter,
};
use feedmill::model::{
    Code, HostAdvice, Kind, Lane, Next, Origin, Outcome, State, Status, Task, TaskId,
};
use feedmill::store::Committed;

use super::Open;
use super::ready::{article, entry};
use super::trial::{
    DAY, PAUSE, TERM, TICK, Trial, allow_all, at_priority, begin, feed, owned_by, page, then,
};

fn everything() -> TaskFilter {
    TaskFilter { limit: usize::MAX, ..TaskFilter::default() }
}

async fn listed(trial: &Trial, filter: TaskFilter) -> Vec<String> {
    let limit = if filter.limit == 0 { usize::MAX } else { filter.limit };
    let tasks = trial.store.list(TaskFilter { limit, ..filter }).await.unwrap();
    let pages = tasks.into_iter().filter(|task| task.kind != Kind::Robots);
    pages.map(|task| task.url).collect()
}

async fn sweep(trial: &Trial, act: Act, filter: TaskFilter) -> (u64, u64) {
    let Sweep { done, spared, next } =
        trial.store.sweep(act, TaskFilter { limit: 1_000, ..filter }, false).await.unwrap();
    assert_eq!(next, None);
    assert_eq!(trial.store.maintain().await.unwrap(), 0, "the tops fit the queues");
    (done, spared)
}

async fn host(trial: &Trial, name: &str) -> HostState {
    let filter = HostFilter { name: Some(name.into()), limit: 9, ..HostFilter::default() };
    let mut found = trial.store.hosts(filter).await.unwrap();
    assert_eq!(found.len(), 1, "{name}");
    found.remove(0)
}

/// One page each that waits, is done, failed, is dead, under way and parked; in this order.
async fn one_of_each(trial: &Trial) -> [String; 6] {
    let urls = ["waits", "done", "failed", "dead", "under-way", "parked"]
        .map(|name| format!("https://{name}.example/Story"));
    let nexts = [
        None,
        Some(Next::Fetched),
        Some(Next::Retry { at: trial.now().after(DAY), code: Code::Timeout }),
        Some(Next::Dead { code: Code::NotFound }),
    ];
    let source = trial.source("off", &[]).await;
    for (url, next) in urls.iter().zip(nexts).skip(1) {
        trial.submit([page(url)]).await;
        if let Some(next) = next {
            trial.end(&trial.take().await, next).await;
        }
    }
    trial.submit([page(&urls[4])]).await;
    trial.take().await;
    trial.submit([owned_by(&source, page(&urls[5]))]).await;
    trial.disable("off").await;
    trial.submit([at_priority(9, page(&urls[0]))]).await;
    urls
}

pub(super) async fn every_state_is_found_by_its_name(open: Open) {
    let trial = begin(open).await;
    let urls = one_of_each(&trial).await;
    let by = [
        State::Pending,
        State::Fetched,
        State::Failed,
        State::Dead,
        State::Fetching,
        State::Parked,
    ];
    for (state, url) in by.into_iter().zip(&urls) {
        let filter = TaskFilter { states: vec![state], ..everything() };
        assert_eq!(listed(&trial, filter).await, [url.as_str()], "{state}");
        let task = trial.task(url).await;
        assert_eq!(task.state(), state, "{state}");
    }
    let two = TaskFilter { states: vec![State::Dead, State::Failed], ..everything() };
    assert_eq!(trial.store.count(two).await.unwrap(), 2);
    let code = TaskFilter { code: Some(Code::NotFound), ..everything() };
    assert_eq!(listed(&trial, code).await, [urls[3].clone()]);
    let upper = TaskFilter { search: Some("DEAD.example/s".into()), ..everything() };
    assert_eq!(listed(&trial, upper).await, [urls[3].clone()]);
    for literal in ["%", "_", "'"] {
        let filter = TaskFilter { search: Some(literal.into()), ..everything() };
        assert_eq!(trial.store.count(filter).await.unwrap(), 0, "{literal}");
    }
    let host = TaskFilter { host: Some("dead.example".into()), ..everything() };
    assert_eq!(listed(&trial, host).await, [urls[3].clone()]);
    let nobody = TaskFilter { host: Some("nobody.example".into()), ..everything() };
    assert_eq!(trial.store.count(nobody).await.unwrap(), 0);
    let owned = TaskFilter { source: Some("off".into()), ..everything() };
    assert_eq!(listed(&trial, owned).await, [urls[5].clone()]);
    let manual =
        TaskFilter { origin: Some(Origin::Manual), kind: Some(Kind::Article), ..everything() };
    assert_eq!(trial.store.count(manual).await.unwrap(), 6);
    let old = TaskFilter { before: Some(trial.now()), ..everything() };
    assert_eq!(trial.store.count(old.clone()).await.unwrap(), 0);
    let old =
        TaskFilter { before: Some(trial.now().after(TICK)), kind: Some(Kind::Article), ..old };
    assert_eq!(trial.store.count(old).await.unwrap(), 6);
}

/// All pages of two, by a cursor that is told and read back.
async fn paged(trial: &Trial, filter: &TaskFilter) -> Vec<TaskId> {
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = TaskFilter { after, limit: 2, ..filter.clone() };
        let tasks: Vec<Task> = trial.store.list(page).await.unwrap();
        seen.extend(tasks.iter().map(|task| task.id));
        let Some(last) = tasks.last() else { return seen };
        let told = Cursor::behind(last, filter.order).to_string();
        after = Some(told.parse::<Cursor>().unwrap());
    }
}

pub(super) async fn pages_of_any_order_leave_nothing_out(open: Open) {
    let trial = begin(open).await;
    for n in 0..9 {
        let url = format!("https://h{}.example/{n}", n % 3);
        trial.submit([at_priority(1 + n % 4, page(&url))]).await;
        trial.pass(TICK * u32::from(n % 2));
    }
    for lease in trial.claim(3, Lane::ALL).await {
        trial.end(&lease, Next::Again { at: trial.now().after(DAY) }).await;
    }
    for sort in Sort::ALL {
        for descending in [false, true] {
            let order = Order { sort: *sort, descending };
            let filter = TaskFilter { order, kind: Some(Kind::Article), ..everything() };
            let whole = trial.store.list(filter.clone()).await.unwrap();
            let key = |task: &Task| match sort {
                Sort::Id => task.id.0,
                Sort::Due => task.next_fetch_at.ms(),
                Sort::Priority => task.priority.into(),
                Sort::Discovered => task.discovered_at.ms(),
                Sort::Fetched => task.last_fetched_at.map_or(0, |at| at.ms()),
            };
            let mut sorted = whole.clone();
            sorted.sort_by_key(|task| (key(task), task.id));
            if descending {
                sorted.reverse();
            }
            assert_eq!(whole, sorted, "{order:?}");
            let ids: Vec<_> = whole.iter().map(|task| task.id).collect();
            assert_eq!(paged(&trial, &filter).await, ids, "{order:?}");
            assert_eq!(ids.len(), 9);
        }
    }
}

pub(super) async fn what_is_deleted_between_two_pages_moves_nothing(open: Open) {
    let trial = begin(open).await;
    let urls: Vec<_> = (0..6).map(|n| format!("https://a.example/{n}")).collect();
    for url in &urls {
        trial.submit([page(url)]).await;
    }
    let first = TaskFilter { limit: 3, ..TaskFilter::default() };
    let tasks = trial.store.list(first.clone()).await.unwrap();
    let after = Some(Cursor::behind(&tasks[2], Order::default()));
    let ids = vec![tasks[0].id, tasks[2].id];
    assert_eq!(sweep(&trial, Act::Delete, TaskFilter { ids, ..everything() }).await, (2, 0));
    assert_eq!(listed(&trial, TaskFilter { after, ..first }).await, urls[3..]);
}

pub(super) async fn the_dead_are_tried_again(open: Open) {
    let trial = begin(open).await;
    let urls = one_of_each(&trial).await;
    let dead = TaskFilter { states: vec![State::Dead], ..everything() };
    let dry = trial.store.sweep(Act::Retry, dead.clone(), true).await.unwrap();
    assert_eq!((dry.done, dry.spared), (1, 0));
    assert_eq!(trial.task(&urls[3]).await.status, Status::Dead, "a dry run changes nothing");
    let woken = trial.store.changed();
    assert_eq!(sweep(&trial, Act::Retry, dead).await, (1, 0));
    tokio::time::timeout(Duration::from_secs(30), woken).await.unwrap();
    let task = trial.task(&urls[3]).await;
    assert_eq!(
        (task.status, task.retry_count, task.next_fetch_at),
        (Status::Pending, 0, trial.now())
    );
    trial.pass(PAUSE);
    let leases = trial.claim(9, Lane::ALL).await;
    let taken: BTreeSet<_> = leases.iter().map(|lease| lease.task.url.clone()).collect();
    assert_eq!(taken, BTreeSet::from([urls[0].clone(), urls[3].clone()]));
}

pub(super) async fn a_retry_spares_what_is_under_way_or_set_aside(open: Open) {
    let trial = begin(open).await;
    let urls = one_of_each(&trial).await;
    trial.pass(PAUSE);
    let pages = TaskFilter { kind: Some(Kind::Article), ..everything() };
    assert_eq!(sweep(&trial, Act::Retry, pages).await, (4, 2));
    assert_eq!(trial.task(&urls[5]).await.status, Status::Parked);
    let robots = TaskFilter { kind: Some(Kind::Robots), ..everything() };
    assert_eq!(
        sweep(&trial, Act::Retry, robots).await.0,
        0,
        "robots.txt has no place in the queue"
    );
    assert_eq!(trial.claim(9, Lane::ALL).await.len(), 4, "each that was tried again, once");
}

pub(super) async fn a_dead_page_of_a_disabled_source_stays_dead(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[]).await;
    trial.submit([owned_by(&source, page("https://b.example/1"))]).await;
    trial.end(&trial.take().await, Next::Dead { code: Code::Gone }).await;
    trial.disable("a").await;
    let dead = TaskFilter { states: vec![State::Dead], ..everything() };
    assert_eq!(sweep(&trial, Act::Retry, dead.clone()).await, (0, 1));
    trial.enable("a").await;
    assert_eq!(sweep(&trial, Act::Retry, dead).await, (1, 0));
    trial.pass(PAUSE);
    assert_eq!(trial.take().await.task.url, "https://b.example/1");
}

pub(super) async fn what_waits_keeps_its_place_when_it_is_tried_again(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1")]).await;
    trial.pass(TICK);
    trial.submit([page("https://a.example/2")]).await;
    trial.pass(TICK);
    let first = TaskFilter { search: Some("/1".into()), ..everything() };
    assert_eq!(sweep(&trial, Act::Retry, first).await, (1, 0));
    assert_eq!(trial.take().await.task.url, "https://a.example/1");
}

pub(super) async fn deleting_leaves_no_trace_in_the_queue(open: Open) {
    let trial = begin(open).await;
    let url = "https://a.example/1";
    let other = "https://a.example/2";
    let later = feedmill::model::NewTask {
        not_before: Some(trial.now().after(DAY)),
        ..page("https://a.example/later")
    };
    trial.submit([at_priority(9, page(url)), page(other), later]).await;
    let wide =
        TaskFilter { search: Some("a.example".into()), kind: Some(Kind::Article), ..everything() };
    let but = TaskFilter { search: Some("/2".into()), ..everything() };
    assert_eq!(trial.store.count(wide.clone()).await.unwrap(), 3);
    let ids: Vec<_> = trial.tasks().await.iter().filter(|t| t.url != other).map(|t| t.id).collect();
    assert_eq!(sweep(&trial, Act::Delete, TaskFilter { ids, ..everything() }).await, (2, 0));
    assert_eq!(listed(&trial, wide).await, [other]);
    assert_eq!(trial.take().await.task.url, other, "it is the head of the queue now");
    assert_eq!(sweep(&trial, Act::Delete, but).await, (0, 1), "it is under way");
    trial.pass(DAY);
    assert_eq!(trial.backend.standings().iter().filter(|s| s.kind != Kind::Robots).count(), 1);
    let report = trial.submit([page(url)]).await;
    assert_eq!(report.new, 1, "who gives it again gives a new address");
}

pub(super) async fn a_lease_outlives_every_attempt_to_delete_its_task(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1")]).await;
    let lease = trial.take().await;
    assert_eq!(sweep(&trial, Act::Delete, everything()).await.1, 1);
    trial.pass(2 * TERM);
    assert_eq!(sweep(&trial, Act::Delete, everything()).await.1, 1, "late, but it may come back");
    assert_eq!(trial.commit(&lease, then(Next::Fetched)).await, Committed::Done);
    assert_eq!(sweep(&trial, Act::Delete, everything()).await, (1, 0));
}

pub(super) async fn what_was_read_outlives_its_task(open: Open) {
    let trial = begin(open).await;
    let (url, from) = ("https://a.example/1", "https://b.example/feed");
    trial.submit([page(url)]).await;
    let lease = trial.take().await;
    let fact = article(lease.task.id, url, "what it says");
    let id = fact.id;
    trial.commit(&lease, Outcome { article: Some(fact), ..then(Next::Fetched) }).await;
    trial.submit([feed(from)]).await;
    let lease = trial.take().await;
    let fact = entry(lease.task.id, "1", "one");
    let entry_id = fact.id;
    let outcome = Outcome { entries: vec![fact], ..then(Next::Fetched) };
    trial.commit(&lease, outcome).await;
    let events = trial.events().await;
    assert_eq!(sweep(&trial, Act::Delete, everything()).await.1, 0);
    assert_eq!(trial.tasks().await, []);
    assert_eq!(trial.store.count(everything()).await.unwrap(), 0);
    assert_eq!(trial.store.stats().await.unwrap().total, Counts::default());
    assert!(trial.store.article(id).await.unwrap().is_some());
    assert!(trial.store.entry(entry_id).await.unwrap().is_some());
    assert_eq!(trial.events().await, events);
    // The newest is gone: its number must not lead from old entries to a new feed.
    trial.submit([feed("https://c.example/feed")]).await;
    assert!(trial.take().await.task.id > lease.task.id);
}

pub(super) async fn the_channels_of_a_source_are_not_deleted(open: Open) {
    let trial = begin(open).await;
    let channel = "https://a.example/feed";
    let source = trial.source("a", &[channel]).await;
    trial.submit([owned_by(&source, page("https://a.example/1"))]).await;
    assert_eq!(sweep(&trial, Act::Delete, everything()).await, (1, 1));
    assert_eq!(trial.take().await.task.url, channel);
}

pub(super) async fn a_purge_takes_the_old_a_stretch_at_a_time(open: Open) {
    let trial = begin(open).await;
    for n in 0..7 {
        trial.submit([page(&format!("https://h{n}.example/1"))]).await;
    }
    for lease in trial.claim(5, Lane::ALL).await {
        trial.end(&lease, Next::Fetched).await;
    }
    trial.pass(90 * DAY);
    trial.submit([page("https://new.example/1")]).await;
    let fresh = trial.claim(1, &[Lane::Page]).await.pop().unwrap();
    trial.end(&fresh, Next::Fetched).await;
    let mut filter = TaskFilter {
        states: vec![State::Fetched, State::Dead],
        before: Some(trial.now().before(89 * DAY)),
        limit: 2,
        ..TaskFilter::default()
    };
    let mut stretches = Vec::new();
    loop {
        let part = trial.store.sweep(Act::Delete, filter.clone(), false).await.unwrap();
        stretches.push(part.done);
        let Some(next) = part.next else { break };
        filter.after = Some(next);
    }
    // The claim above took one more of the old ones, or the new one.
    assert_eq!(stretches.iter().sum::<u64>(), 5, "{stretches:?}");
    assert!(stretches.iter().all(|n| *n <= 2), "{stretches:?}");
    assert_eq!(trial.tasks().await.len(), 3);
}

pub(super) async fn shares_are_counted_by_source_and_host(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &["https://a.example/feed"]).await;
    for n in 0..3 {
        let url = format!("https://b.example/{n}");
        trial.submit([owned_by(&source, page(&url))]).await;
    }
    trial.submit([page("https://c.example/1")]).await;
    let lease = trial.claim(1, &[Lane::Page]).await.pop().unwrap();
    trial.end(&lease, Next::Dead { code: Code::Gone }).await;
    let by_source = trial.store.shares(Share::Source, 9).await.unwrap();
    assert_eq!(by_source.len(), 1);
    let (name, counts) = &by_source[0];
    assert_eq!((name.as_str(), counts.pending + counts.dead), ("a", 4));
    let by_host = trial.store.shares(Share::Host, 2).await.unwrap();
    assert_eq!(by_host.len(), 2, "the largest two");
    assert_eq!(by_host[0].0, "b.example");
    let stats = trial.store.stats().await.unwrap();
    assert_eq!(stats.dead_by_code, [(Code::Gone, 1)]);
    assert_eq!(
        stats.by_kind.iter().map(|(_, counts)| counts.pending).sum::<u64>(),
        stats.total.pending
    );
}

pub(super) async fn a_host_tells_its_pause_and_who_asks_for_it(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1"), page("https://a.example/2")]).await;
    let fresh = host(&trial, "a.example").await;
    assert_eq!((fresh.pause_from, fresh.pause_ms), (PauseOrigin::Default, 1_000));
    assert_eq!((fresh.queued.page, fresh.in_flight, fresh.last_fetch_at), (2, 0, None));
    let robots = trial.store.claim(1, Lane::ALL).await.unwrap().pop().unwrap();
    let mut outcome = allow_all(&robots);
    outcome.robots.as_mut().unwrap().crawl_delay_ms = Some(3_000);
    trial.commit(&robots, outcome).await;
    let told = host(&trial, "a.example").await;
    assert_eq!((told.pause_from, told.pause_ms), (PauseOrigin::CrawlDelay, 3_000));
    assert_eq!(told.robots.len(), 1);
    assert_eq!(told.robots[0].origin, "https://a.example");
    trial.pass(Duration::from_secs(3));
    let lease = trial.take().await;
    assert_eq!(host(&trial, "a.example").await.in_flight, 1);
    let mut outcome = then(Next::Fetched);
    outcome.host = HostAdvice::SlowDown { until: Some(trial.now().after(DAY)) };
    trial.commit(&lease, outcome).await;
    let slower = host(&trial, "a.example").await;
    assert_eq!((slower.pause_from, slower.pause_ms), (PauseOrigin::Learned, 6_000));
    assert_eq!(slower.blocked_until, Some(trial.now().after(DAY)));
    assert_eq!(slower.last_fetch_at, Some(trial.now()));
    let blocked = HostFilter { blocked: true, limit: 9, ..HostFilter::default() };
    assert_eq!(trial.store.hosts(blocked.clone()).await.unwrap(), [slower]);
    trial.pass(DAY);
    assert_eq!(trial.store.hosts(blocked).await.unwrap(), []);
}

pub(super) async fn an_operators_pause_is_kept_whatever_others_say(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1"), page("https://a.example/2")]).await;
    let slow =
        |seconds| HostPatch { delay: Some(Duration::from_secs(seconds)), ..HostPatch::default() };
    let robots = trial.store.claim(1, Lane::ALL).await.unwrap().pop().unwrap();
    let mut outcome = allow_all(&robots);
    outcome.robots.as_mut().unwrap().crawl_delay_ms = Some(2_000);
    trial.commit(&robots, outcome).await;
    trial.store.set_host("a.example", slow(10)).await.unwrap();
    trial.pass(Duration::from_secs(2));
    let lease = trial.take().await;
    assert_eq!(lease.delay, Duration::from_secs(10));
    trial.end(&lease, Next::Fetched).await;
    trial.pass(Duration::from_secs(10) - TICK);
    assert!(trial.idle().await);
    trial.pass(TICK);
    assert!(!trial.idle().await);
    assert_eq!(host(&trial, "a.example").await.pause_from, PauseOrigin::Operator);
    trial.store.set_host("a.example", slow(0)).await.unwrap();
    assert_eq!(host(&trial, "a.example").await.pause_ms, 2_000);
}

pub(super) async fn a_block_without_end_is_lifted_by_hand(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1")]).await;
    let until = |until| HostPatch { blocked_until: Some(until), ..HostPatch::default() };
    trial.store.set_host("a.example", until(FOREVER)).await.unwrap();
    trial.pass(1_000 * DAY);
    assert!(trial.idle().await);
    assert!(!trial.store.has_work(Lane::ALL).await.unwrap());
    trial.store.set_host("a.example", until(trial.now())).await.unwrap();
    assert_eq!(host(&trial, "a.example").await.blocked_until, None);
    trial.pass(PAUSE);
    assert!(!trial.idle().await);
}

pub(super) async fn hosts_are_listed_by_name_page_by_page(open: Open) {
    let trial = begin(open).await;
    for name in ["b", "A", "c-1", "c_2"] {
        trial.submit([page(&format!("https://{name}.example/1"))]).await;
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let filter = HostFilter { after, limit: 1, ..HostFilter::default() };
        let Some(host) = trial.store.hosts(filter).await.unwrap().pop() else { break };
        seen.push(host.name.clone());
        after = Some(host.name);
    }
    assert_eq!(seen, ["a.example", "b.example", "c-1.example", "c_2.example"]);
    let found = HostFilter { search: Some("C_".into()), limit: 9, ..HostFilter::default() };
    assert_eq!(trial.store.hosts(found).await.unwrap().len(), 1);
}
