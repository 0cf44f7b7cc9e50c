//! What every sink can rely on: order, exactly what is wanted, again after failures, and operators'
//! wishes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use feedmill::progress::Progress;
use feedmill::sinks::{Filter, Item, Pump, Sink, SinkError, Taken, Terms};
use feedmill::store::outbox::{Refusal, SinkWish, Start};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::World;

/// A target that does what the test says, and remembers what it got.
#[derive(Clone, Default)]
struct Target(Arc<Inner>);

#[derive(Default)]
struct Inner {
    got: Mutex<Vec<(i64, String)>>,
    batches: Mutex<Vec<usize>>,
    /// Answers to the next batches; then everything is taken.
    script: Mutex<Vec<Answer>>,
    news: Notify,
}

#[derive(Clone)]
enum Answer {
    /// Nothing is taken.
    Away,
    /// Takes so many, and breaks off.
    Torn(usize),
    /// Takes all but these places.
    Not(Vec<i64>),
}

#[async_trait]
impl Sink for Target {
    async fn deliver(&mut self, batch: &[Item]) -> Result<Taken, SinkError> {
        let inner = &self.0;
        inner.batches.lock().unwrap().push(batch.len());
        let answer = {
            let mut script = inner.script.lock().unwrap();
            (!script.is_empty()).then(|| script.remove(0))
        };
        let away =
            || SinkError::Away { target: "test".into(), reason: "is away".into(), after: None };
        let place = |item: &Item| (item.event.seq, item.event.kind.to_string());
        let taken = match answer {
            Some(Answer::Away) => Err(away()),
            Some(Answer::Torn(count)) => {
                inner.got.lock().unwrap().extend(batch.iter().take(count).map(place));
                Err(away())
            }
            Some(Answer::Not(places)) => {
                let refused = batch.iter().filter(|item| places.contains(&item.event.seq));
                let refused = refused.map(|item| Refusal {
                    seq: item.event.seq,
                    code: "test",
                    reason: "not that one".into(),
                });
                let refused: Vec<Refusal> = refused.collect();
                let kept = batch.iter().filter(|item| !places.contains(&item.event.seq));
                inner.got.lock().unwrap().extend(kept.map(place));
                Ok(Taken { refused, ..Taken::default() })
            }
            None => {
                inner.got.lock().unwrap().extend(batch.iter().map(place));
                Ok(Taken::default())
            }
        };
        inner.news.notify_waiters();
        taken
    }

    async fn check(&mut self) -> Result<String, SinkError> {
        Ok("test".into())
    }
}

impl Target {
    fn got(&self) -> Vec<i64> {
        self.0.got.lock().unwrap().iter().map(|(seq, _)| *seq).collect()
    }

    /// Waits until it got what the test wants.
    async fn until(&self, done: impl Fn(&[i64]) -> bool) {
        let waiting = async {
            loop {
                let news = self.0.news.notified();
                if done(&self.got()) {
                    return;
                }
                news.await;
            }
        };
        let patience = Duration::from_secs(60);
        assert!(tokio::time::timeout(patience, waiting).await.is_ok(), "{:?}", self.got());
    }
}

/// A world with a log, and the places of its events.
async fn logged() -> (World, Vec<i64>) {
    let world = World::new(3, 4).await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
    let events = world.store.events_after(0, 10_000).await.unwrap();
    (world, events.iter().map(|event| event.seq).collect())
}

fn pump(world: &World, target: &Target, terms: Terms, stop: &CancellationToken) -> Pump {
    Pump {
        name: "test".into(),
        who: "test".into(),
        hold: Duration::from_hours(24 * 365),
        renew: Duration::from_secs(20),
        sink: Box::new(target.clone()),
        terms,
        store: Arc::clone(&world.store),
        progress: Arc::new(Progress::default()),
        stop: stop.clone(),
    }
}

/// Delivers what is there, and ends.
async fn drain(world: &World, target: &Target, terms: Terms) {
    let stop = CancellationToken::new();
    stop.cancel();
    pump(world, target, terms, &stop).run().await;
}

fn in_tens() -> Terms {
    Terms { batch: 10, ..Terms::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_lets_through_what_is_asked_for_and_the_place_goes_on() {
    let (world, all) = logged().await;
    let target = Target::default();
    let filter = Filter { kinds: vec!["article.*".parse().unwrap()], ..Filter::default() };
    drain(&world, &target, Terms { filter, ..in_tens() }).await;
    let got = target.0.got.lock().unwrap().clone();
    assert!(!got.is_empty() && got.len() < all.len());
    assert!(got.iter().all(|(_, kind)| kind.starts_with("article.")), "{got:?}");
    let sink = world.store.open_sink("test", Start::Now).await.unwrap();
    assert_eq!(sink.cursor.seq, *all.last().unwrap(), "what is not wanted is not waited for");
    assert_eq!(sink.delivered, got.len() as u64);
    assert_eq!(sink.held_by, None, "the right to deliver was given back");

    let nobody = Target::default();
    let filter = Filter { sources: vec!["nobody".into()], ..Filter::default() };
    world.store.wish("test", SinkWish::Replay(Start::Beginning)).await.unwrap();
    drain(&world, &nobody, Terms { filter, ..in_tens() }).await;
    assert_eq!(nobody.got(), Vec::<i64>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_was_away_gets_everything_in_order() {
    let (world, all) = logged().await;
    let target = Target::default();
    *target.0.script.lock().unwrap() = vec![Answer::Away, Answer::Away, Answer::Torn(0)];
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    tasks.spawn(pump(&world, &target, in_tens(), &stop).run());
    target.until(|got| got.len() >= all.len()).await;
    assert_eq!(target.got(), all);
    let batches = target.0.batches.lock().unwrap().clone();
    assert_eq!(batches[..5], [10, 1, 1, 1, 10], "after a failure one event is tried");
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    let sink = world.store.open_sink("test", Start::Now).await.unwrap();
    assert_eq!((sink.delivered, sink.last_error), (all.len() as u64, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_torn_comes_again_and_nothing_is_left_out() {
    let (world, all) = logged().await;
    let target = Target::default();
    *target.0.script.lock().unwrap() = vec![Answer::Torn(4)];
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    tasks.spawn(pump(&world, &target, in_tens(), &stop).run());
    target.until(|got| got.last() == all.last()).await;
    let mut times: BTreeMap<i64, u32> = BTreeMap::new();
    target.got().into_iter().for_each(|seq| *times.entry(seq).or_default() += 1);
    assert_eq!(times.keys().copied().collect::<Vec<_>>(), all);
    assert_eq!(times.values().filter(|count| **count > 1).count(), 4, "at least once");
    stop.cancel();
    tasks.close();
    tasks.wait().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_waits_until_it_is_sent_again() {
    let (world, all) = logged().await;
    let target = Target::default();
    let bad = vec![all[1], all[3]];
    *target.0.script.lock().unwrap() = vec![Answer::Not(bad.clone())];
    drain(&world, &target, in_tens()).await;
    assert_eq!(target.got().len(), all.len() - 2, "the others went on");
    let letters = world.store.dead_letters("test", 0, false, 10).await.unwrap();
    assert_eq!(letters.iter().map(|it| it.seq).collect::<Vec<_>>(), bad);
    drain(&world, &target, in_tens()).await;
    assert_eq!(target.got().len(), all.len() - 2, "nobody asked for them");
    world.store.wish("test", SinkWish::Again(None)).await.unwrap();
    *target.0.script.lock().unwrap() = vec![Answer::Not(vec![bad[0]])];
    drain(&world, &target, in_tens()).await;
    assert_eq!(target.got().last(), Some(&bad[1]));
    let letters = world.store.dead_letters("test", 0, false, 10).await.unwrap();
    assert_eq!((letters.len(), letters[0].seq, letters[0].attempts), (1, bad[0], 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_pause_resume_and_start_over() {
    let (world, all) = logged().await;
    let target = Target::default();
    world.store.open_sink("test", Start::Beginning).await.unwrap();
    world.store.wish("test", SinkWish::Pause).await.unwrap();
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    tasks.spawn(pump(&world, &target, in_tens(), &stop).run());
    drain_paused(&world).await;
    assert_eq!(target.got(), Vec::<i64>::new());
    world.store.wish("test", SinkWish::Resume).await.unwrap();
    target.until(|got| got.len() == all.len()).await;
    world.store.wish("test", SinkWish::Replay(Start::After(all[2]))).await.unwrap();
    target.until(|got| got.len() == 2 * all.len() - 3).await;
    let got = target.got();
    assert_eq!(got[..all.len()], all);
    assert_eq!(got[all.len()..], all[3..]);
    stop.cancel();
    tasks.close();
    tasks.wait().await;
}

/// While a sink is paused, a second process that is told to stop ends at once and delivers nothing.
async fn drain_paused(world: &World) {
    let other = Target::default();
    drain(world, &other, in_tens()).await;
    assert_eq!(other.got(), Vec::<i64>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_one_delivers() {
    let (world, all) = logged().await;
    let (one, two) = (Target::default(), Target::default());
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    tasks.spawn(pump(&world, &one, in_tens(), &stop).run());
    one.until(|got| got.len() == all.len()).await;
    let stopped = CancellationToken::new();
    stopped.cancel();
    let mut second = pump(&world, &two, in_tens(), &stopped);
    second.who = "another".into();
    world.store.wish("test", SinkWish::Replay(Start::Beginning)).await.unwrap();
    second.run().await;
    one.until(|got| got.len() == 2 * all.len()).await;
    assert_eq!(two.got(), Vec::<i64>::new());
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    let mut second = pump(&world, &two, in_tens(), &stopped);
    second.who = "another".into();
    world.store.wish("test", SinkWish::Replay(Start::Beginning)).await.unwrap();
    second.run().await;
    assert_eq!(two.got(), all, "it takes over");
}
