//! An hour of `Retry-After`, and `kill -9` in the middle of it: nobody is asked before it is over.

use std::path::PathBuf;

use feedmill::frontier::TaskFilter;
use feedmill::model::Code;
use feedmill_newsroom::{Fault, RetryAfter, Setup, Span};

use crate::invariants::{hold_archived, hold_in_file, hold_on_server};
use crate::kill::{start, terminate};
use crate::postgres::database;
use crate::process::Process;
use crate::support::{World, until};

/// Leases of the dead run out within the test.
const BRISK: [&str; 2] = ["fetch.task_timeout=2s", "fetch.request_timeout=2s"];

/// Engines that share a world, each in a directory of its own.
struct Engines<'a> {
    world: &'a World,
    database: Option<&'a str>,
    dirs: Vec<PathBuf>,
    running: Vec<Process>,
}

impl<'a> Engines<'a> {
    fn start(world: &'a World, database: Option<&'a str>, count: usize) -> Self {
        // An embedded database is in the directory of its one engine.
        let dir = |at| match database {
            Some(_) => world.dir().join(format!("engine-{at}")),
            None => world.config.data_dir.clone(),
        };
        let mut engines =
            Self { world, database, dirs: (0..count).map(dir).collect(), running: vec![] };
        for at in 0..count {
            let child = engines.begin(at);
            engines.running.push(child);
        }
        engines
    }

    fn begin(&self, at: usize) -> Process {
        start(self.world, &self.dirs[at], self.database, &BRISK)
    }

    fn kill(&mut self, at: usize) {
        self.running[at].kill().unwrap();
        self.running[at].wait().unwrap();
    }

    fn revive(&mut self, at: usize) {
        self.running[at] = self.begin(at);
    }

    fn archives(&self) -> Vec<PathBuf> {
        self.dirs.iter().map(|dir| dir.join("archive")).collect()
    }
}

/// Two publishers; the first one says once that it is to be left alone for an hour.
async fn an_hour_of_silence(database: Option<&str>, engines: usize) {
    let world = World::on(database.unwrap_or_default(), 2, |setup| Setup {
        history: 8,
        publish_until: Some(setup.starts_at),
        ..setup
    })
    .await;
    let host = world.newsroom.publishers()[0].host.clone();
    let fault = Fault::TooManyRequests { retry_after: RetryAfter::Seconds(3_600) };
    let stories = world.newsroom.published(i64::MAX);
    let site = format!("http://{host}");
    let page = stories.iter().find_map(|story| story.url.strip_prefix(&site)).unwrap();
    world.newsroom.misbehave(&host, page, fault, Span::Times(1));
    world.follow().await;

    let mut engines = Engines::start(&world, database, engines);
    let of_host = TaskFilter { host: Some(host.clone()), ..TaskFilter::default() };
    until("the complaint is known", || async {
        let tasks = world.tasks(of_host.clone()).await;
        tasks.iter().any(|task| task.last_error == Some(Code::RateLimited))
    })
    .await;
    let over = world.newsroom.log().iter().find_map(|request| request.retry_until).unwrap();

    // One after the other, so that whoever had the answer is among them; and then all at once.
    let all = 0..engines.running.len();
    for at in all.clone() {
        engines.kill(at);
        engines.revive(at);
    }
    all.clone().for_each(|at| engines.kill(at));
    all.clone().for_each(|at| engines.revive(at));
    assert!(world.clock.now().ms() < over, "all that happened within the hour");

    let published = world.newsroom.published_count(i64::MAX) as u64;
    until("all articles", || async { world.store.totals().await.unwrap().articles >= published })
        .await;
    assert!(world.clock.now().ms() >= over, "the hour was waited for");
    for engine in &mut engines.running {
        assert!(terminate(engine), "an orderly end is a success");
    }
    let report = world.report().await;
    assert!(report.is_perfect(), "{report:#?}");
    let during = world.newsroom.log().into_iter().filter(|request| request.host == host);
    let mut after = during.skip_while(|request| request.retry_until.is_none()).skip(1);
    let early = after.find(|request| request.began < over);
    assert!(early.is_none(), "asked too early: {early:?}");
    match database {
        Some(url) => hold_on_server(url).await,
        None => hold_in_file(&world.config.database_path()),
    }
    hold_archived(&world, &engines.archives()).await;
    assert_eq!(world.store.maintain().await.unwrap(), 0, "a host has a wrong head");
    world.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_killed_remembers_whom_to_leave_alone() {
    an_hour_of_silence(None, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_engines_that_are_killed_remember_whom_to_leave_alone() {
    let Some(database) = database().await else { return };
    an_hour_of_silence(Some(&database.url), 3).await;
}
