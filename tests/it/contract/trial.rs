//! A backend under trial, with the few moves that all cases are made of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use feedmill::clock::Clock;
use feedmill::frontier::{Rules, SubmitReport, TaskFilter};
use feedmill::model::Code;
use feedmill::model::{
    Event, HostAdvice, Kind, Lane, Lease, NewSource, NewTask, Next, Origin, Outcome, RobotsFact,
    RobotsState, Source, Task, Ts, Verdict,
};
use feedmill::store::{Commit, Committed, Store};

use super::{Backend, Open};

/// The pause of a host that asks for none.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// How long a lease lasts.
pub(super) const TERM: Duration = Duration::from_secs(60);
pub(super) const TICK: Duration = Duration::from_millis(1);
pub(super) const DAY: Duration = Duration::from_hours(24);

pub(super) struct Trial {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
    pub(super) backend: Box<dyn Backend>,
}

pub(super) fn rules() -> Rules {
    Rules {
        key: Default::default(),
        delay: PAUSE.into(),
        lease: TERM,
        robots_for_feeds: false,
        discover: false,
        ignore_pauses: false,
        concurrency: 1,
        groups: vec![],
    }
}

pub(super) fn noon() -> Clock {
    Clock::manual("2026-11-15T12:00:00Z".parse().unwrap())
}

/// A trial with the usual rules.
pub(super) async fn begin(open: Open) -> Trial {
    open(noon(), rules()).await
}

/// An address of this kind, at middling priority.
pub(super) fn a(kind: Kind, url: &str) -> NewTask {
    NewTask {
        url: url.into(),
        kind,
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

pub(super) fn page(url: &str) -> NewTask {
    a(Kind::Article, url)
}

pub(super) fn feed(url: &str) -> NewTask {
    a(Kind::Feed, url)
}

pub(super) fn at_priority(base_priority: u8, task: NewTask) -> NewTask {
    NewTask { base_priority, ..task }
}

pub(super) fn owned_by(source: &Source, task: NewTask) -> NewTask {
    NewTask { source: Some(source.id), ..task }
}

/// An outcome that says nothing but where the task goes.
pub(super) fn then(next: Next) -> Outcome {
    let code = match &next {
        Next::Fetched | Next::Again { .. } => Code::Ok,
        Next::Retry { code, .. } | Next::Postpone { code, .. } | Next::Dead { code } => *code,
    };
    Outcome { host: HostAdvice::Neutral, ..Outcome::new(code, next, "as the case says") }
}

/// "Everything is allowed", for a day.
pub(super) fn allow_all(lease: &Lease) -> Outcome {
    let now = lease.now;
    let robots = RobotsFact {
        origin: lease.task.url.strip_suffix("/robots.txt").unwrap().to_owned(),
        state: RobotsState {
            verdict: Verdict::AllowAll,
            fetched_at: now,
            expires_at: now.after(DAY),
            failures: 0,
        },
        crawl_delay_ms: None,
        rechecked_as: None,
    };
    Outcome {
        robots: Some(robots),
        host: HostAdvice::NotAsked,
        ..then(Next::Again { at: now.after(DAY) })
    }
}

impl Trial {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock, backend: Box<dyn Backend>) -> Self {
        Self { store, clock, backend }
    }

    pub(super) fn now(&self) -> Ts {
        self.clock.now()
    }

    pub(super) fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    pub(super) async fn submit<const N: usize>(&self, batch: [NewTask; N]) -> SubmitReport {
        self.store.submit(batch.into()).await.unwrap()
    }

    /// Claims as an engine does that finds an empty robots.txt everywhere, at no cost of time.
    pub(super) async fn claim(&self, n: usize, lanes: &[Lane]) -> Vec<Lease> {
        let mut leases = Vec::new();
        loop {
            let more = self.store.claim(n - leases.len(), lanes).await.unwrap();
            let (robots, others): (Vec<_>, Vec<_>) =
                more.into_iter().partition(|lease| lease.task.kind == Kind::Robots);
            leases.extend(others);
            if robots.is_empty() {
                return leases;
            }
            for lease in robots {
                let outcome = allow_all(&lease);
                assert_eq!(self.commit(&lease, outcome).await, Committed::Done);
            }
        }
    }

    /// The one task that can be handed out now.
    pub(super) async fn take(&self) -> Lease {
        self.claim(1, Lane::ALL).await.pop().expect("nothing can be handed out")
    }

    pub(super) async fn idle(&self) -> bool {
        self.claim(1, Lane::ALL).await.is_empty()
    }

    pub(super) async fn commit(&self, lease: &Lease, outcome: Outcome) -> Committed {
        let batch = vec![Commit { lease: lease.clone(), outcome }];
        self.store.commit(batch).await.pop().unwrap().unwrap()
    }

    /// Completes a lease that must be valid.
    pub(super) async fn end(&self, lease: &Lease, next: Next) {
        assert_eq!(self.commit(lease, then(next)).await, Committed::Done);
    }

    /// All tasks but robots.txt, oldest first.
    pub(super) async fn tasks(&self) -> Vec<Task> {
        let all = TaskFilter { limit: usize::MAX, ..TaskFilter::default() };
        let mut tasks = self.store.list(all).await.unwrap();
        tasks.retain(|task| task.kind != Kind::Robots);
        tasks
    }

    pub(super) async fn task(&self, url: &str) -> Task {
        let found = self.tasks().await.into_iter().find(|task| task.url == url);
        found.unwrap_or_else(|| panic!("no task {url}"))
    }

    pub(super) async fn events(&self) -> Vec<Event> {
        self.store.events_after(0, usize::MAX).await.unwrap()
    }

    pub(super) async fn kinds_of_events(&self) -> Vec<&'static str> {
        self.events().await.iter().map(|event| event.kind.as_str()).collect()
    }

    pub(super) async fn source(&self, name: &str, feed_urls: &[&str]) -> Source {
        let new = NewSource {
            feed_urls: feed_urls.iter().map(|url| (*url).to_owned()).collect(),
            ..NewSource::new(name, format!("https://{name}.example/"))
        };
        self.store.add_source(new).await.unwrap()
    }

    pub(super) async fn disable(&self, name: &str) {
        self.store.set_enabled(name, Some("the case says so".into())).await.unwrap();
    }

    pub(super) async fn enable(&self, name: &str) {
        self.store.set_enabled(name, None).await.unwrap();
    }

    /// All that a commit could have changed, to compare before and after.
    pub(super) async fn picture(&self) -> String {
        let tasks = self.tasks().await;
        let totals = self.store.totals().await.unwrap();
        let events = self.events().await;
        let mut states = BTreeMap::new();
        for task in &tasks {
            let ask = feedmill::model::Ask { feed: Some(task.id), ..Default::default() };
            states.insert(task.id, self.store.lookup(ask).await.unwrap().feed);
        }
        let due = self.store.next_due(Lane::ALL).await.unwrap();
        format!("{tasks:#?}{totals:#?}{events:#?}{states:#?}{due:?}")
    }
}
