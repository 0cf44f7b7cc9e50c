//! Random sequences of steps: after each, the backend and a simple model tell the same story.

use std::collections::BTreeMap;
use std::time::Duration;

use feedmill::frontier::{Counts, Extension, MAX_STRIKES};
use feedmill::model::{Code, HostAdvice, Kind, Lane, Lease, NewTask, Next, Outcome, Status, Ts};
use feedmill::store::Committed;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::Open;
use super::model::{Given, HOSTS, Model, SOURCES};
use super::trial::{Trial, a, begin, then};

#[derive(Clone, Debug)]
enum Step {
    Submit {
        host: usize,
        path: usize,
        priority: u8,
        source: Option<usize>,
        wait: u64,
    },
    Claim {
        n: usize,
    },
    Complete {
        pick: usize,
        next: Where,
        wait: u64,
        advice: Advice,
    },
    /// The worker dies; nobody hears of its lease again.
    Abandon {
        pick: usize,
    },
    Renew {
        pick: usize,
    },
    Extend {
        pick: usize,
        host: usize,
    },
    Pass {
        seconds: u64,
    },
    Disable {
        source: usize,
    },
    Enable {
        source: usize,
    },
    Crash,
}

#[derive(Clone, Copy, Debug)]
enum Where {
    Fetched,
    Again,
    Retry,
    Postpone,
    Dead,
}

#[derive(Clone, Copy, Debug)]
enum Advice {
    NotAsked,
    Fine,
    Neutral,
    SlowDown,
    SlowDownFor(u64),
    PauseFor(u64),
}

fn step() -> impl Strategy<Value = Step> {
    use Where::{Again, Dead, Fetched, Postpone, Retry};
    let source = || 0..SOURCES;
    let places = prop::sample::select(vec![Fetched, Again, Again, Retry, Retry, Postpone, Dead]);
    let advice = prop_oneof![
        Just(Advice::NotAsked),
        Just(Advice::Fine),
        Just(Advice::Neutral),
        Just(Advice::SlowDown),
        (0..90u64).prop_map(Advice::SlowDownFor),
        (0..90u64).prop_map(Advice::PauseFor),
    ];
    prop_oneof![
        6 => (0..HOSTS, 0..5usize, 1..=10u8, prop::option::of(source()), 0..20u64).prop_map(
            |(host, path, priority, source, wait)| {
                // Most addresses are due at once.
                Step::Submit { host, path, priority, source, wait: wait.saturating_sub(10) }
            }
        ),
        6 => (1..=HOSTS).prop_map(|n| Step::Claim { n }),
        6 => (any::<usize>(), places, 0..30u64, advice)
            .prop_map(|(pick, next, wait, advice)| Step::Complete { pick, next, wait, advice }),
        1 => any::<usize>().prop_map(|pick| Step::Abandon { pick }),
        1 => any::<usize>().prop_map(|pick| Step::Renew { pick }),
        2 => (any::<usize>(), 0..HOSTS).prop_map(|(pick, host)| Step::Extend { pick, host }),
        4 => prop_oneof![0..3u64, Just(60u64), 0..120u64]
            .prop_map(|seconds| Step::Pass { seconds }),
        1 => source().prop_map(|source| Step::Disable { source }),
        1 => source().prop_map(|source| Step::Enable { source }),
        1 => Just(Step::Crash),
    ]
}

pub(super) async fn any_sequence_of_steps_agrees_with_the_model(open: Open) {
    let handle = tokio::runtime::Handle::current();
    let run = move || {
        // A failing sequence is printed whole; there is nothing to keep beside the sources.
        let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
        TestRunner::new(config).run(&prop::collection::vec(step(), 1..60), |steps| {
            handle.block_on(async {
                let mut machine = Machine::new(open).await;
                for step in &steps {
                    machine.take(step).await;
                    machine.compare().await;
                }
                machine.drain().await;
            });
            Ok(())
        })
    };
    if let Err(error) = tokio::task::spawn_blocking(run).await.unwrap() {
        panic!("{error}");
    }
}

struct Machine {
    trial: Trial,
    model: Model,
    /// Leases of workers that are alive, also stale ones.
    held: Vec<Lease>,
    sources: Vec<feedmill::model::Source>,
}

fn host_name(host: usize) -> String {
    format!("h{host}.example")
}

/// Whether the highest came first; one in ten, taken before the others, is whoever waits longest.
fn highest_first(taken: &[u8], mut best: Vec<u8>) -> bool {
    if best.starts_with(taken) {
        return true;
    }
    let Some((fair, others)) = taken.split_first() else { return true };
    let Some(at) = best.iter().position(|priority| priority == fair) else { return false };
    best.remove(at);
    best.starts_with(others)
}

impl Machine {
    async fn new(open: Open) -> Self {
        let trial = begin(open).await;
        let mut sources = Vec::new();
        for at in 0..SOURCES {
            sources.push(trial.source(&format!("s{at}"), &[]).await);
        }
        Self { trial, model: Model::new(), held: vec![], sources }
    }

    fn now(&self) -> Ts {
        self.trial.now()
    }

    fn later(&self, seconds: u64) -> Ts {
        self.now().after(Duration::from_secs(seconds))
    }

    fn pick(&self, pick: usize) -> Option<usize> {
        (!self.held.is_empty()).then(|| pick % self.held.len())
    }

    async fn take(&mut self, step: &Step) {
        match step.clone() {
            Step::Submit { host, path, priority, source, wait } => {
                self.submit(host, path, priority, source, wait).await;
            }
            Step::Claim { n } => self.claim(n).await,
            Step::Complete { pick, next, wait, advice } => {
                let Some(at) = self.pick(pick) else { return };
                let lease = self.held.remove(at);
                self.complete(&lease, next, wait, advice).await;
            }
            Step::Abandon { pick } => {
                let Some(at) = self.pick(pick) else { return };
                self.held.remove(at);
            }
            Step::Renew { pick } => {
                let Some(at) = self.pick(pick) else { return };
                let lease = self.held[at].id;
                let renewed = self.trial.store.renew(lease).await.unwrap();
                assert_eq!(renewed, self.model.renew(lease, self.trial.now()));
            }
            Step::Extend { pick, host } => {
                let Some(at) = self.pick(pick) else { return };
                let lease = self.held[at].id;
                let extended = self.trial.store.extend(lease, &host_name(host)).await.unwrap();
                let extended = match extended {
                    Extension::Granted { .. } => Some(true),
                    Extension::Busy { .. } | Extension::Blocked { .. } => Some(false),
                    Extension::Stale => None,
                };
                assert_eq!(extended, self.model.extend(lease, host, self.trial.now()));
            }
            Step::Pass { seconds } => self.trial.pass(Duration::from_secs(seconds)),
            Step::Disable { source } => {
                self.trial.disable(&format!("s{source}")).await;
                self.model.disable(source);
            }
            Step::Enable { source } => {
                self.trial.enable(&format!("s{source}")).await;
                self.model.enable(source, self.now());
            }
            Step::Crash => {
                self.trial.backend.recover().await;
                let lost = self.model.end_leases(self.trial.now(), true);
                self.strike(&lost).await;
            }
        }
    }

    async fn submit(
        &mut self,
        host: usize,
        path: usize,
        priority: u8,
        source: Option<usize>,
        wait: u64,
    ) {
        // Neither kind needs robots.txt; one of them recurs.
        let kind = if path.is_multiple_of(2) { Kind::Feed } else { Kind::Archive };
        let url = format!("https://{}/{path}", host_name(host));
        let at = self.later(wait);
        let task = NewTask {
            base_priority: priority,
            source: source.map(|at| self.sources[at].id),
            not_before: Some(at),
            ..a(kind, &url)
        };
        let report = self.trial.submit([task]).await;
        let given = Given { url, host, kind, priority, source, at };
        let (new, raised) = self.model.submit(&given, self.trial.now());
        let told = (report.new, report.known, report.raised);
        assert_eq!(told, (u64::from(new), u64::from(!new), u64::from(raised)));
    }

    async fn claim(&mut self, n: usize) {
        let now = self.now();
        let leases = self.trial.store.claim(n, Lane::ALL).await.unwrap();
        let lost = self.model.end_leases(now, false);
        self.strike(&lost).await;

        let heads = self.model.heads(now);
        assert_eq!(leases.len(), n.min(heads.len()), "{heads:?}");
        let priorities: Vec<_> = leases.iter().map(|lease| lease.task.priority).collect();
        let best: Vec<_> = heads.iter().map(|head| self.model.tasks[*head].priority).collect();
        assert!(highest_first(&priorities, best), "{priorities:?} of {heads:?}");
        for lease in leases {
            let task = self.model.find(&lease.task.url).unwrap();
            assert!(heads.contains(&task), "{} is not the head of its host", lease.task.url);
            self.model.lease(task, lease.id, now);
            self.held.push(lease);
        }
    }

    /// What a lease costs that ended without an answer. How far a task is put off is its own
    /// measure, within bounds.
    async fn strike(&mut self, lost: &[(usize, Ts)]) {
        let kept = self.trial.tasks().await;
        for (at, ended) in lost {
            let task = &mut self.model.tasks[*at];
            match task.lost {
                ..=1 => {}
                MAX_STRIKES => (task.status, task.failed, task.lost) = (Status::Dead, true, 0),
                times => {
                    let due = kept.iter().find(|kept| kept.url == task.url).unwrap().next_fetch_at;
                    let least =
                        Duration::from_mins([1, 30, 240][usize::try_from(times - 2).unwrap()]);
                    let bounds = ended.after(least)..ended.after(least * 3 / 2);
                    assert!(bounds.contains(&due), "{} after {times}: {due:?}", task.url);
                    task.due = due;
                }
            }
        }
    }

    async fn complete(&mut self, lease: &Lease, next: Where, wait: u64, advice: Advice) {
        let at = self.later(wait);
        let next = match next {
            Where::Fetched => Next::Fetched,
            Where::Again => Next::Again { at },
            Where::Retry => Next::Retry { at, code: Code::Upstream },
            Where::Postpone => Next::Postpone { at, code: Code::HostBusy },
            Where::Dead => Next::Dead { code: Code::NotFound },
        };
        let host = match advice {
            Advice::NotAsked => HostAdvice::NotAsked,
            Advice::Fine => HostAdvice::Fine,
            Advice::Neutral => HostAdvice::Neutral,
            Advice::SlowDown => HostAdvice::SlowDown { until: None },
            Advice::SlowDownFor(wait) => HostAdvice::SlowDown { until: Some(self.later(wait)) },
            Advice::PauseFor(wait) => HostAdvice::Pause { until: self.later(wait) },
        };
        let answer = self.trial.commit(lease, Outcome { host, ..then(next.clone()) }).await;
        let valid = self.model.complete(lease.id, &next, host, self.trial.now());
        assert_eq!(answer, if valid { Committed::Done } else { Committed::Stale });
    }

    /// What must hold after every step.
    async fn compare(&self) {
        let places: BTreeMap<_, _> =
            self.trial.backend.standings().into_iter().map(|at| (at.task, at)).collect();
        let tasks = self.trial.tasks().await;
        assert_eq!(tasks.len(), self.model.tasks.len());
        let mut counts = Counts::default();
        for (at, (task, wanted)) in tasks.iter().zip(&self.model.tasks).enumerate() {
            let leased = self.model.leased(at);
            let place = &places[&task.id.0];
            assert_eq!(task.url, wanted.url);
            assert_eq!((task.status, task.leased), (wanted.status, leased), "{}", task.url);
            assert_eq!((place.status, place.leased), (wanted.status, leased), "{place:?}");
            assert_eq!(task.source, wanted.owner.map(|at| self.sources[at].id), "{}", task.url);
            assert_eq!(task.next_fetch_at, wanted.due, "{}", task.url);
            assert_eq!(
                (task.priority, task.retry_count, task.kind),
                (wanted.priority, wanted.retries, wanted.kind)
            );
            assert!(!(place.queued && place.delayed), "{place:?} is in two places");
            if wanted.status == Status::Pending {
                assert!(place.queued || place.delayed || place.leased, "{place:?} is lost");
            } else {
                assert!(!place.queued && !place.delayed, "{place:?} would be served");
            }
            *match wanted.status {
                _ if leased => &mut counts.fetching,
                Status::Fetched => &mut counts.fetched,
                Status::Dead => &mut counts.dead,
                Status::Parked => &mut counts.parked,
                Status::Pending if wanted.retries > 0 => &mut counts.failed,
                Status::Pending => &mut counts.pending,
            } += 1;
        }
        assert!(places.values().all(|place| place.kind != Kind::Robots), "nobody asked for it");
        assert_eq!(self.trial.store.stats().await.unwrap().total, counts);
        assert_eq!(self.trial.store.maintain().await.unwrap(), 0, "a host has a wrong head");
        self.compare_due().await;
    }

    async fn compare_due(&self) {
        let now = self.now();
        let due = self.trial.store.next_due(Lane::ALL).await.unwrap();
        if !self.model.heads(now).is_empty() {
            assert!(due.is_some_and(|at| at <= now), "work is due, {due:?} was announced");
        }
        let waits = self.model.tasks.iter().any(|task| task.status == Status::Pending);
        assert_eq!(due.is_some(), waits);
    }

    /// In the end everything is done: nothing hangs, nothing is forgotten.
    async fn drain(&mut self) {
        for source in 0..SOURCES {
            self.take(&Step::Enable { source }).await;
        }
        for _ in 0..200 {
            self.take(&Step::Pass { seconds: 900 }).await;
            self.claim(HOSTS).await;
            while let Some(lease) = self.held.pop() {
                self.complete(&lease, Where::Fetched, 0, Advice::Fine).await;
            }
            if self.trial.store.next_due(Lane::ALL).await.unwrap().is_none() {
                break;
            }
        }
        self.compare().await;
        let over =
            |task: &super::model::Task| matches!(task.status, Status::Fetched | Status::Dead);
        assert!(self.model.tasks.iter().all(over), "{:#?}", self.model.tasks);
    }
}
