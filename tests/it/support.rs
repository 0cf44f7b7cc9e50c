//! A small world for tests: a newsroom, a fast clock, a directory, and the engine on demand.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedmill::app::{self, Mode, Progress, RunOptions, Snapshot};
use feedmill::clock::Clock;
use feedmill::config::Config;
use feedmill::demo::{self, Options, Report};
use feedmill::frontier::TaskFilter;
use feedmill::model::{Kind, Lane, NewTask, Origin, Task, Ts};
use feedmill::store::Store;
use feedmill_formats::url as web;
use feedmill_newsroom::{Newsroom, Setup};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::process::Process;

/// Nothing that a test waits for takes longer, in real time.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// A test that moves the clock goes on for as long as time passes, on however busy a machine, but no longer.
const PLAY_LIMIT: Duration = Duration::from_secs(600);

/// Who waits for a host's turn and has not asked for so long in real time is asleep.
const NAP: Duration = Duration::from_millis(150);
/// And so is who does anything else, on however busy a machine.
const SLEEP: Duration = Duration::from_secs(5);

pub(crate) struct World {
    pub(crate) newsroom: Newsroom,
    pub(crate) clock: Clock,
    pub(crate) config: Config,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) start: Ts,
    /// The newsroom's clock, once the engine's was set to another time.
    truth: Option<Clock>,
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
        Self::timed(Clock::fast(600.0), database, publishers, shape).await
    }

    /// The same on a clock of one's own.
    pub(crate) async fn timed(
        clock: Clock,
        database: &str,
        publishers: usize,
        shape: impl FnOnce(Setup) -> Setup,
    ) -> Self {
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
        Self { newsroom, clock, config, store, start, truth: None, dir }
    }

    /// Opens the store again, after a change of what the house's rules are.
    pub(crate) async fn reopen(&mut self) {
        self.store = app::open(&self.config, &self.clock).await.unwrap();
    }

    /// Sets the engine's clock to another time while it is not running.
    pub(crate) async fn set_clock(&mut self, to: Ts) {
        let before = std::mem::replace(&mut self.clock, Clock::manual(to));
        self.truth.get_or_insert(before);
        self.reopen().await;
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, by: Duration) {
        self.truth.iter().for_each(|truth| truth.advance(by));
        self.clock.advance(by);
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
            redirects: 0,
            parent: None,
            not_before: None,
            refetch: None,
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

    /// Runs the engine on a clock that is moved by hand, until `done` says so. Time stands still while
    /// anything is under way, and then leaps to the next thing that is due.
    pub(crate) async fn play<F: Future<Output = bool>>(&self, mut done: impl FnMut() -> F) {
        let stop = CancellationToken::new();
        let options = RunOptions { mode: Mode::Forever, lanes: Lane::ALL.to_vec() };
        let progress: Arc<Progress> = Arc::default();
        let engine =
            app::run(&self.config, &self.clock, options, stop.clone(), Arc::clone(&progress));
        let (began, mut busy) = (Instant::now(), Instant::now());
        let mover = async {
            loop {
                let is_in_time = busy.elapsed() < LIMIT && began.elapsed() < PLAY_LIMIT;
                assert!(is_in_time, "not done in time: {:#?}", self.stuck().await);
                match self.idle_until().await {
                    Some(next) => {
                        if done().await {
                            break;
                        }
                        let next = next.expect("something is still to come");
                        self.pass(next.since(self.clock.now()));
                        busy = Instant::now();
                    }
                    // Whoever asks nothing and is under way keeps a host's pause, or is slow.
                    None if self.newsroom.open_requests() > 0 => busy = Instant::now(),
                    None if self.sleeps(busy.elapsed(), &progress).await => {
                        self.pass(self.config.hosts.delay.duration());
                        busy = Instant::now();
                    }
                    None => {}
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            stop.cancel();
        };
        let (ran, ()) = tokio::join!(engine, mover);
        ran.unwrap();
    }

    /// Whether all that is under way is asleep, when nothing was asked for so long.
    async fn sleeps(&self, quiet: Duration, progress: &Progress) -> bool {
        // What is due may be claimed at any moment: looked at first, it is counted below by then.
        let next = self.store.next_due(Lane::ALL).await.unwrap();
        let is_due = next.is_some_and(|next| next <= self.clock.now());
        let fetching = self.store.stats().await.unwrap().total.fetching;
        let waiting = u64::try_from(progress.metrics.awaited.get()).unwrap();
        quiet > if !is_due && fetching > 0 && waiting >= fetching { NAP } else { SLEEP }
    }

    /// When the next task is due, if any, while nothing is under way and nothing is due.
    async fn idle_until(&self) -> Option<Option<Ts>> {
        let fetching = || async { self.store.stats().await.unwrap().total.fetching };
        let due = || async { self.store.next_due(Lane::ALL).await.unwrap() };
        if fetching().await > 0 {
            return None;
        }
        let next = due().await;
        // It may have been claimed and ended between two looks.
        let still = fetching().await == 0 && due().await == next;
        (still && next.is_none_or(|next| next > self.clock.now())).then_some(next)
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

    /// The task of an address, or of one that differs by what makes no other page.
    pub(crate) async fn task(&self, url: &str) -> Task {
        let tasks = self.tasks(TaskFilter::default()).await;
        let like_it = || {
            let key = web::key(&web::parse(url).ok()?, &self.store.rules().key);
            tasks.iter().find(|task| task.url_key == key)
        };
        let task = tasks.iter().find(|task| task.url == url).or_else(like_it);
        task.expect("a known address").clone()
    }

    /// Stories whose pages were served more than once.
    pub(crate) fn served_twice(&self) -> Vec<String> {
        let mut times: BTreeMap<String, u32> = BTreeMap::new();
        for request in self.newsroom.log().iter().filter(|request| request.status == 200) {
            let url = format!("http://{}{}", request.host, request.path);
            if self.newsroom.story(&url).is_some() {
                *times.entry(url).or_default() += 1;
            }
        }
        times.into_iter().filter(|(_, times)| *times > 1).map(|(url, _)| url).collect()
    }

    /// What is not at its end, for messages.
    async fn stuck(&self) -> Vec<(String, String)> {
        let tasks = self.tasks(TaskFilter::default()).await.into_iter();
        let open = tasks.filter(|task| task.kind == Kind::Article && task.last_error.is_some());
        open.map(|task| (task.url, task.reason.unwrap_or_default())).collect()
    }
}

/// An engine that writes down what it says.
pub(crate) struct Engine {
    pub(crate) child: Process,
    log: PathBuf,
}

impl Engine {
    pub(crate) fn start(mut command: Command, log: PathBuf) -> Self {
        let child = Process::spawn(command.stderr(File::create(&log).unwrap()));
        Self { child, log }
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) async fn says(&self, words: &str) {
        until(words, || async { self.said().contains(words) }).await;
    }

    /// How often it said that.
    pub(crate) fn times(&self, words: &str) -> usize {
        self.said().matches(words).count()
    }
}

#[expect(clippy::print_stderr, reason = "a test that failed shows what it saw")]
impl Drop for Engine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the engine said:\n{}", self.said());
        }
    }
}

/// Waits for something that can be seen.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut seen: impl FnMut() -> F) {
    let began = Instant::now();
    while !seen().await {
        assert!(began.elapsed() < LIMIT, "never seen: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
