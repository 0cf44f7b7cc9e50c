//! Several processes on one PostgreSQL. Most cases are stores side by side, each with connections of
//! its own, as a process has; the last ones start real processes.

mod copies;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use feedmill::clock::Clock;
use feedmill::db::{DbError, OwnTime, PgDb};
use feedmill::frontier::{Frontier, HostPatch, Rules, TaskFilter};
use feedmill::model::{
    Code, EventKind, HostAdvice, Kind, Lane, Lease, NewEvent, NewSource, NewTask, Next, Origin,
    Outcome, RobotsFact, RobotsState, Status, Verdict,
};
use feedmill::store::{Commit, Committed, PgStore, Store};
use tokio::task::JoinSet;

use crate::kill::{moments, start, terminate};
use crate::postgres::{Database, connect, database};
use crate::support::{LIMIT, World};
use feedmill_newsroom::Setup;

fn rules() -> Rules {
    Rules {
        key: Default::default(),
        delay: Duration::ZERO.into(),
        lease: Duration::from_mins(1),
        robots_for_feeds: false,
        discover: false,
        ignore_pauses: false,
        concurrency: 1,
        groups: vec![],
    }
}

async fn process(database: &Database, rules: Rules) -> PgStore {
    PgStore::new(PgDb::open(&database.url, None).await.unwrap(), rules)
}

async fn on_clock(database: &Database, clock: &Clock, rules: Rules) -> PgStore {
    let reading = clock.clone();
    let own = OwnTime::new(move || reading.now().ms());
    PgStore::new(PgDb::open(&database.url, Some(own)).await.unwrap(), rules)
}

fn feed(url: impl Into<String>) -> NewTask {
    NewTask {
        url: url.into(),
        kind: Kind::Feed,
        origin: Origin::Manual,
        source: None,
        base_priority: 5,
        depth: 0,
        redirects: 0,
        parent: None,
        not_before: None,
        refetch: None,
    }
}

fn page(url: impl Into<String>) -> NewTask {
    NewTask { kind: Kind::Article, ..feed(url) }
}

fn done(next: Next) -> Outcome {
    Outcome { host: HostAdvice::Neutral, ..Outcome::new(Code::Ok, next, "the test says so") }
}

fn source(name: &str) -> NewSource {
    NewSource::new(name, format!("https://{name}.example/"))
}

async fn end(store: &PgStore, lease: Lease, outcome: Outcome) -> Committed {
    store.commit(vec![Commit { lease, outcome }]).await.pop().unwrap().unwrap()
}

/// Who is being asked now, and what was done.
#[derive(Default)]
struct Board {
    busy: BTreeMap<String, u32>,
    under_way: BTreeSet<String>,
    done: BTreeMap<String, u32>,
}

impl Board {
    fn begin(&mut self, lease: &Lease, slots: u32) {
        let busy = self.busy.entry(lease.task.host.clone()).or_default();
        *busy += 1;
        assert!(*busy <= slots, "{} has {busy} live leases", lease.task.host);
        assert!(self.under_way.insert(lease.task.url.clone()), "{} twice", lease.task.url);
    }

    /// Before the commit: the next worker may have the host as soon as that is in.
    fn end(&mut self, lease: &Lease) {
        *self.busy.get_mut(&lease.task.host).unwrap() -= 1;
        self.under_way.remove(&lease.task.url);
        *self.done.entry(lease.task.url.clone()).or_default() += 1;
    }
}

const HOSTS: usize = 20;
const ADDRESSES: usize = 500;

fn address(at: usize) -> String {
    format!("https://h{}.example/{at}", at % HOSTS)
}

/// Gives every address twice, from different ends, while others are at work.
async fn give(store: PgStore, backwards: bool) {
    let mut order: Vec<usize> = (0..ADDRESSES).collect();
    if backwards {
        order.reverse();
    }
    for chunk in order.chunks(60) {
        let batch = chunk.iter().map(|at| NewTask {
            base_priority: u8::try_from(1 + (at + usize::from(backwards)) % 10).unwrap(),
            ..feed(address(*at))
        });
        store.submit(batch.collect()).await.unwrap();
    }
}

async fn work(worker: usize, slots: u32, store: PgStore, board: Arc<Mutex<Board>>) {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < LIMIT, "not done in time");
        let leases = store.claim(1 + worker % 5, Lane::ALL).await.unwrap();
        leases.iter().for_each(|lease| board.lock().unwrap().begin(lease, slots));
        if leases.is_empty() {
            if board.lock().unwrap().done.len() == ADDRESSES {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
            continue;
        }
        // Finds what others find too, so that the locks of many hosts are wanted at once.
        let found =
            |at: usize| (0..8).map(|n| feed(address((at * 37 + n * 13) % ADDRESSES))).collect();
        let commits = leases.into_iter().enumerate().map(|(at, lease)| {
            board.lock().unwrap().end(&lease);
            let outcome = Outcome { discovered: found(at + worker), ..done(Next::Fetched) };
            Commit { lease, outcome }
        });
        for answer in store.commit(commits.collect()).await {
            assert_eq!(answer.unwrap(), Committed::Done);
        }
    }
}

async fn crowd(slots: u32) {
    let Some(database) = database().await else { return };
    let board = Arc::new(Mutex::new(Board::default()));
    let mut crowd = JoinSet::new();
    let mut stores = Vec::new();
    for at in 0..3 {
        let store = process(&database, Rules { concurrency: slots, ..rules() }).await;
        if at < 2 {
            crowd.spawn(give(store.clone(), at == 1));
        }
        for worker in 0..7 {
            crowd.spawn(work(at * 7 + worker, slots, store.clone(), Arc::clone(&board)));
        }
        stores.push(store);
    }
    while let Some(ended) = crowd.join_next().await {
        ended.unwrap();
    }
    let once = board.lock().unwrap().done.values().all(|times| *times == 1);
    assert!(once, "something was done twice");
    let stats = stores[0].stats().await.unwrap();
    assert_eq!((stats.total.fetched, stats.due), (ADDRESSES as u64, 0));
    assert_eq!(stores[0].maintain().await.unwrap(), 0, "a host has a wrong head");
    for store in stores {
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_processes_do_every_address_once_one_at_a_time_per_host() {
    crowd(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_processes_keep_to_the_slots_of_a_host() {
    crowd(3).await;
}

/// Claims and commits one host's slots against the others, and never finds them in a circle.
async fn claim_slots(store: PgStore, rounds: usize) {
    for at in 0..rounds {
        for lease in store.claim(1 + at % 4, Lane::ALL).await.unwrap() {
            let next = Next::Again { at: lease.now };
            assert_eq!(end(&store, lease, done(next)).await, Committed::Done);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_several_processes_on_the_slots_of_few_hosts_never_wait_in_a_circle() {
    let Some(database) = database().await else { return };
    let slots = Rules { concurrency: 3, ..rules() };
    let mut crowd = JoinSet::new();
    let mut stores = Vec::new();
    for _ in 0..4 {
        let store = process(&database, slots.clone()).await;
        let batch = (0..40).map(|n| feed(format!("https://h{}.example/{n}", n % 4)));
        store.submit(batch.collect()).await.unwrap();
        stores.push(store);
    }
    for store in &stores {
        crowd.spawn(claim_slots(store.clone(), 150));
        crowd.spawn(claim_slots(store.clone(), 150));
    }
    while let Some(ended) = crowd.join_next().await {
        ended.unwrap();
    }
    assert_eq!(stores[0].maintain().await.unwrap(), 0, "a host has a wrong head");
    for store in stores {
        store.close().await;
    }
}

#[tokio::test]
async fn fewer_slots_go_when_they_are_free() {
    let Some(database) = database().await else { return };
    let store = process(&database, Rules { concurrency: 3, ..rules() }).await;
    store.submit((0..9).map(|n| feed(format!("https://a.example/{n}"))).collect()).await.unwrap();
    let three = store.claim(9, Lane::ALL).await.unwrap();
    assert_eq!(three.len(), 3);
    let one = HostPatch { concurrency: Some(1), ..HostPatch::default() };
    store.set_host("a.example", one).await.unwrap();
    for lease in three {
        assert_eq!(end(&store, lease, done(Next::Fetched)).await, Committed::Done);
    }
    assert_eq!(store.claim(9, Lane::ALL).await.unwrap().len(), 1);
    let client = connect(&database.url).await;
    let slots: i64 = client.query_one("SELECT count(*) FROM host", &[]).await.unwrap().get(0);
    assert_eq!(slots, 1);
    assert_eq!(store.maintain().await.unwrap(), 0);
    store.close().await;
}

#[tokio::test]
async fn one_slot_asks_for_robots_and_the_others_wait() {
    let Some(database) = database().await else { return };
    let clock = Clock::manual("2026-11-15T12:00:00Z".parse().unwrap());
    let rules = Rules { concurrency: 3, delay: Duration::from_secs(1).into(), ..rules() };
    let store = on_clock(&database, &clock, rules).await;
    store.submit((0..3).map(|n| page(format!("https://a.example/{n}"))).collect()).await.unwrap();
    let mut first = store.claim(9, Lane::ALL).await.unwrap();
    assert_eq!(first.len(), 1);
    let robots = first.pop().unwrap();
    assert_eq!(robots.task.kind, Kind::Robots);
    let due = store.next_due(Lane::ALL).await.unwrap();
    assert_eq!(due, Some(clock.now().after(Duration::from_secs(1))), "nobody spins meanwhile");
    let state = RobotsState {
        verdict: Verdict::AllowAll,
        fetched_at: clock.now(),
        expires_at: clock.now().after(Duration::from_hours(1)),
        failures: 0,
    };
    let fact = RobotsFact {
        origin: "https://a.example".into(),
        state,
        crawl_delay_ms: None,
        rechecked_as: None,
    };
    let again = done(Next::Again { at: clock.now().after(Duration::from_hours(1)) });
    end(&store, robots, Outcome { robots: Some(fact), ..again }).await;
    clock.advance(Duration::from_secs(1));
    assert_eq!(store.claim(9, Lane::ALL).await.unwrap().len(), 3);
    store.close().await;
}

#[tokio::test]
async fn another_process_hears_of_new_work() {
    let Some(database) = database().await else { return };
    let (here, there) = (process(&database, rules()).await, process(&database, rules()).await);
    // It wakes once when it begins to listen: whatever happened before might have been missed.
    tokio::time::timeout(LIMIT, there.changed()).await.unwrap();
    let logged = there.clone();
    let heard = async {
        tokio::time::timeout(LIMIT, there.changed()).await.expect("nobody told");
        there.claim(1, Lane::ALL).await.unwrap().pop().expect("woken for nothing")
    };
    let (_, lease) = tokio::join!(here.submit(vec![feed("https://a.example/")]), heard);
    let event = NewEvent {
        kind: EventKind::FeedGone,
        subject: "x".into(),
        source: None,
        payload: serde_json::json!({}),
    };
    let waits = async { tokio::time::timeout(LIMIT, logged.logged()).await.expect("nobody told") };
    let outcome = Outcome { events: vec![event], ..done(Next::Fetched) };
    tokio::join!(waits, end(&here, lease, outcome));
    here.close().await;
    there.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_the_log_never_passes_an_event_that_comes_later() {
    const EACH: usize = 40;
    let Some(database) = database().await else { return };
    let reader = process(&database, rules()).await;
    let mut writers = JoinSet::new();
    for at in 0..4 {
        let store = process(&database, rules()).await;
        let urls = (0..EACH).map(|n| feed(format!("https://w{at}-{n}.example/")));
        store.submit(urls.collect()).await.unwrap();
        writers.spawn(async move {
            let mut served = 0;
            while served < EACH {
                for lease in store.claim(2, Lane::ALL).await.unwrap() {
                    let event = NewEvent {
                        kind: EventKind::FeedMoved,
                        subject: lease.task.url.clone(),
                        source: None,
                        payload: serde_json::json!({}),
                    };
                    let outcome = Outcome { events: vec![event], ..done(Next::Fetched) };
                    end(&store, lease, outcome).await;
                    served += 1;
                }
                if store.stats().await.unwrap().total.fetched == 4 * EACH as u64 {
                    break;
                }
            }
            store.close().await;
        });
    }
    let (mut seen, mut last) = (BTreeSet::new(), 0);
    let began = Instant::now();
    while seen.len() < 4 * EACH {
        assert!(began.elapsed() < LIMIT, "{} events were passed over", 4 * EACH - seen.len());
        for event in reader.events_after(last, 7).await.unwrap() {
            assert!(event.seq > last);
            last = event.seq;
            seen.insert(event.subject);
        }
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    reader.close().await;
}

#[tokio::test]
async fn a_lost_connection_is_told_and_forgotten() {
    let Some(database) = database().await else { return };
    let store = process(&database, rules()).await;
    store.submit(vec![feed("https://a.example/")]).await.unwrap();
    let client = connect(&database.url).await;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    client.execute(cut, &[]).await.unwrap();
    let began = Instant::now();
    let lease = loop {
        assert!(began.elapsed() < LIMIT, "it does not come back");
        match store.claim(1, Lane::ALL).await {
            Ok(mut leases) => break leases.pop().unwrap(),
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                assert_eq!(error.code(), "database_lost");
            }
        }
    };
    assert_eq!(end(&store, lease, done(Next::Fetched)).await, Committed::Done);
    store.close().await;
    assert!(matches!(store.totals().await, Err(DbError::Closed)));
}

#[tokio::test]
async fn an_outcome_that_cannot_be_kept_falls_alone() {
    let Some(database) = database().await else { return };
    let store = process(&database, rules()).await;
    store.submit((0..3).map(|n| feed(format!("https://h{n}.example/"))).collect()).await.unwrap();
    let commits =
        store.claim(3, Lane::ALL).await.unwrap().into_iter().enumerate().map(|(at, lease)| {
            let mut outcome = done(Next::Fetched);
            if at == 1 {
                outcome.fetches.push(feedmill::model::FetchRecord {
                    id: feedmill::model::new_uuid(lease.now),
                    task: Some(lease.task.id),
                    at: lease.now,
                    url: lease.task.url.clone(),
                    status: Some(200),
                    code: Code::Ok,
                    bytes: 0,
                    elapsed_ms: 0,
                    content_type: None,
                    body_sha256: Some("\0".into()),
                    raw: None,
                });
            }
            Commit { lease, outcome }
        });
    let answers = store.commit(commits.collect()).await;
    assert!(matches!(answers[0], Ok(Committed::Done)), "{answers:?}");
    assert!(matches!(answers[1], Err(DbError::Engine(_))), "{answers:?}");
    assert!(matches!(answers[2], Ok(Committed::Done)), "{answers:?}");
    assert_eq!(store.stats().await.unwrap().total.fetched, 2);
    store.close().await;
}

#[tokio::test]
async fn what_the_web_writes_can_be_kept_even_with_zeros_in_it() {
    let Some(database) = database().await else { return };
    let store = process(&database, rules()).await;
    store.submit(vec![feed("https://a.example/f"), page("https://a.example/\0x")]).await.unwrap();
    let lease = store.claim(1, &[Lane::Poll]).await.unwrap().pop().unwrap();
    let rules = RobotsFact {
        origin: "https://a.example".into(),
        state: RobotsState {
            verdict: Verdict::Rules("User-agent: *\0\nDisallow: /x".into()),
            fetched_at: lease.now,
            expires_at: lease.now.after(LIMIT),
            failures: 0,
        },
        crawl_delay_ms: Some(0),
        rechecked_as: None,
    };
    let outcome = Outcome {
        robots: Some(rules),
        reason: "because \0".into(),
        discovered: vec![page("https://b.example/\0")],
        ..done(Next::Fetched)
    };
    assert_eq!(end(&store, lease, outcome).await, Committed::Done);
    assert!(store.robots("https://a.example").await.unwrap().is_some());
    assert_eq!(store.stats().await.unwrap().total.pending, 2);
    store.close().await;
}

#[tokio::test]
async fn a_large_sitemap_goes_in_within_seconds() {
    const LINES: usize = 50_000;
    let Some(database) = database().await else { return };
    let store = process(&database, rules()).await;
    let line = |n| page(format!("https://news.example/2026/11/15/a-story-with-a-longer-title-{n}"));
    let began = Instant::now();
    let report = store.submit((0..LINES).map(line).collect()).await.unwrap();
    let first = began.elapsed();
    assert_eq!(report.new, LINES as u64);
    let report = store.submit((0..LINES).map(line).collect()).await.unwrap();
    assert_eq!((report.known, report.raised), (LINES as u64, 0));
    println!("{LINES} lines: new {first:?}, known {:?}", began.elapsed() - first);
    assert!(began.elapsed() < LIMIT);
    assert_eq!(store.stats().await.unwrap().total.pending, LINES as u64);
    assert_eq!(store.list(Default::default()).await.unwrap().len(), 0);
    let done = store.list(feedmill::frontier::TaskFilter { limit: 1, ..Default::default() }).await;
    assert_eq!(done.unwrap()[0].status, Status::Pending);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_pipeline_runs_on_postgres() {
    let Some(database) = database().await else { return };
    let world = World::on(&database.url, 4, |setup| Setup {
        history: 5,
        publish_until: Some(setup.starts_at),
        ..setup
    })
    .await;
    world.follow().await;
    world.run_once().await;
    let report = world.report().await;
    assert!(report.published > 0);
    assert!(report.is_perfect(), "{report:#?}");
    world.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_among_three_processes_lose_nothing_double_nothing_and_disturb_nobody() {
    let Some(database) = database().await else { return };
    let world = World::on(&database.url, 10, |setup| Setup {
        history: 6,
        rate_per_hour: 4.0,
        day_profile: false,
        publish_until: Some(setup.starts_at + 120 * 60 * 1000),
        ..setup
    })
    .await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    let dirs = ["one", "two", "three"].map(|name| world.dir().join(name));
    // Leases of the dead run out within the test.
    let more = ["fetch.task_timeout=3s", "fetch.request_timeout=2s"];
    let begin = |at: usize| start(&world, &dirs[at % dirs.len()], Some(&database.url), &more);
    let mut engines: Vec<_> = (0..dirs.len()).map(begin).collect();
    for (at, moment) in moments().take(8).enumerate() {
        tokio::time::sleep(moment).await;
        let engine = &mut engines[at % dirs.len()];
        assert!(engine.try_wait().unwrap().is_none(), "the engine was running");
        engine.kill().unwrap();
        engine.wait().unwrap();
        *engine = begin(at);
    }
    let began = Instant::now();
    while world.store.totals().await.unwrap().articles < published {
        assert!(began.elapsed() < LIMIT, "the last articles do not come in");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for mut engine in engines {
        assert!(terminate(&mut engine), "an orderly end is a success");
    }
    let report = world.report().await;
    assert!(report.is_perfect(), "{report:#?}");
    assert_eq!(world.store.maintain().await.unwrap(), 0, "a host has a wrong head");
    world.store.close().await;
}

/// How many of this database's connections wait for a lock.
async fn waiting(client: &tokio_postgres::Client) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_source_gives_while_it_is_disabled_is_set_aside() {
    let Some(database) = database().await else { return };
    let store = process(&database, rules()).await;
    let source = store.add_source(source("s")).await.unwrap();
    store.submit(vec![page("https://b.example/1")]).await.unwrap();

    // Somebody holds up the submission in its middle, where it knows that its source is followed.
    let watch = connect(&database.url).await;
    let mut holder = connect(&database.url).await;
    let hold = holder.transaction().await.unwrap();
    hold.execute("SELECT 1 FROM task WHERE kind = 6 FOR UPDATE", &[]).await.unwrap();
    let given = NewTask { source: Some(source.id), ..page("https://b.example/1") };
    let mut crowd = JoinSet::new();
    let submits = store.clone();
    crowd.spawn(async move { drop(submits.submit(vec![given]).await.unwrap()) });
    while waiting(&watch).await < 1 {
        tokio::task::yield_now().await;
    }
    let disables = store.clone();
    crowd.spawn(async move {
        drop(disables.set_enabled("s", Some("a test".into())).await.unwrap());
    });
    // It waits for the submission, or else is done before it.
    let disabled = "SELECT count(*) FROM source WHERE enabled_at IS NULL";
    while waiting(&watch).await < 2
        && watch.query_one(disabled, &[]).await.unwrap().get::<_, i64>(0) == 0
    {
        tokio::task::yield_now().await;
    }
    hold.rollback().await.unwrap();
    while let Some(ended) = crowd.join_next().await {
        ended.unwrap();
    }
    let tasks = store.list(TaskFilter { limit: 9, ..TaskFilter::default() }).await.unwrap();
    let told: Vec<_> = tasks.iter().map(|task| (task.source, task.status)).collect();
    assert_eq!(told, [(Some(source.id), Status::Parked)]);
    store.close().await;
}
