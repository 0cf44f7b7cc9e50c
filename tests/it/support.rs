//! A small world for tests: a newsroom, a fast clock, a directory, and the engine on demand.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedmill::app::{self, Mode, Progress, RunOptions, Snapshot};
use feedmill::clock::Clock;
use feedmill::config::Config;
use feedmill::demo::{self, Options, Report};
use feedmill::frontier::TaskFilter;
use feedmill::model::{Kind, Lane, NewTask, Origin, Task, Ts};
use feedmill::store::Store;
use feedmill_newsroom::{Newsroom, Setup};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Nothing in a test takes longer, in real time.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) newsroom: Newsroom,
    pub(crate) clock: Clock,
    pub(crate) config: Config,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) start: Ts,
    dir: TempDir,
}

impl World {
    /// A newsroom whose stories are all out at the start, followed by nobody yet.
    pub(crate) async fn new(publishers: usize, stories: usize) -> Self {
        Self::with(publishers, |setup| Setup {
            history: stories,
            publish_until: Some(setup.starts_at),
            ..setup
        })
        .await
    }

    pub(crate) async fn with(publishers: usize, shape: impl FnOnce(Setup) -> Setup) -> Self {
        Self::on("", publishers, shape).await
    }

    /// The same on another database than the embedded one.
    pub(crate) async fn on(
        database: &str,
        publishers: usize,
        shape: impl FnOnce(Setup) -> Setup,
    ) -> Self {
        let clock = Clock::fast(600.0);
        let start = clock.now();
        let reading = clock.clone();
        let setup = Setup { publishers, ..Setup::new(Arc::new(move || reading.now().ms())) };
        let newsroom = Newsroom::start(shape(setup)).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            publishers,
            seed: 1,
            rate: 600.0,
            publish_for: Duration::ZERO,
            limit: LIMIT,
            dir: dir.path().join("data"),
            keep: false,
        };
        let mut config = demo::config(&options, &newsroom).unwrap();
        config.database.url = database.to_owned().into();
        let store = app::open(&config, &clock).await.unwrap();
        Self { newsroom, clock, config, store, start, dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Follows every publisher.
    pub(crate) async fn follow(&self) {
        demo::follow(&self.newsroom, &*self.store).await.unwrap();
    }

    /// Puts one address in by hand.
    pub(crate) async fn submit(&self, url: &str, kind: Kind) {
        let new = NewTask {
            url: url.to_owned(),
            kind,
            origin: Origin::Manual,
            source: None,
            base_priority: 5,
            depth: 0,
            parent: None,
            not_before: None,
        };
        let report = self.store.submit(vec![new]).await.unwrap();
        assert_eq!(report.rejected, [], "{url}");
    }

    /// Runs the engine until `done` says so.
    pub(crate) async fn run_until<F: Future<Output = bool>>(
        &self,
        mut done: impl FnMut() -> F,
    ) -> Snapshot {
        let stop = CancellationToken::new();
        let options = RunOptions { mode: Mode::Forever, lanes: Lane::ALL.to_vec() };
        let progress = Arc::new(Progress::default());
        let engine = app::run(&self.config, &self.clock, options, stop.clone(), progress);
        let began = Instant::now();
        let watcher = async {
            while !done().await {
                assert!(began.elapsed() < LIMIT, "not done in time: {:#?}", self.stuck().await);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            stop.cancel();
        };
        let (ran, ()) = tokio::join!(engine, watcher);
        ran.unwrap()
    }

    /// Runs the engine until everything due is done.
    pub(crate) async fn run_once(&self) -> Snapshot {
        let options = RunOptions { mode: Mode::Once, lanes: Lane::ALL.to_vec() };
        let run =
            app::run(&self.config, &self.clock, options, CancellationToken::new(), Arc::default());
        tokio::time::timeout(LIMIT, run).await.expect("it ends by itself").unwrap()
    }

    pub(crate) async fn report(&self) -> Report {
        let now = self.clock.now();
        demo::compare(&self.newsroom, &*self.store, &self.config, self.start, now).await.unwrap()
    }

    pub(crate) async fn tasks(&self, filter: TaskFilter) -> Vec<Task> {
        self.store.list(TaskFilter { limit: 10_000, ..filter }).await.unwrap()
    }

    pub(crate) async fn task(&self, url: &str) -> Task {
        let tasks = self.tasks(TaskFilter::default()).await;
        tasks.into_iter().find(|task| task.url == url).expect("a known address")
    }

    /// What is not at its end, for messages.
    async fn stuck(&self) -> Vec<(String, String)> {
        let tasks = self.tasks(TaskFilter::default()).await.into_iter();
        let open = tasks.filter(|task| task.kind == Kind::Article && task.last_error.is_some());
        open.map(|task| (task.url, task.reason.unwrap_or_default())).collect()
    }
}
