//! A server that goes away under running engines: work pauses, says so once, and goes on by itself.

use std::path::PathBuf;
use std::process::Command;

use feedmill_newsroom::Setup;

use crate::invariants::{hold_archived, hold_on_server};
use crate::kill::{command, moments, terminate};
use crate::postgres::{connect, database};
use crate::sinks::{lines, places, written};
use crate::support::{Engine, World, until};

const CUT_CONNECTIONS: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'feedmill'";

/// A server of its own, that can be stopped without harm to other tests.
pub(crate) struct Server {
    dir: tempfile::TempDir,
    pub(crate) url: String,
}

fn script(args: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/postgres");
    let done = Command::new(script).args(args).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

impl Server {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Another user runs the server, who has to get in.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let url = script(&["start", &Self::place(&dir)]);
        // A commit that was answered outlives this server, as it does a real one.
        let safe = "ALTER DATABASE postgres SET synchronous_commit = on";
        connect(&url).await.batch_execute(safe).await.unwrap();
        Self { dir, url }
    }

    fn place(dir: &tempfile::TempDir) -> String {
        dir.path().join("server").display().to_string()
    }

    pub(crate) fn crash(&self) {
        script(&["crash", &Self::place(&self.dir)]);
    }

    pub(crate) fn again(&self) {
        script(&["again", &Self::place(&self.dir)]);
    }

    /// Ends all connections that engines have to it.
    pub(crate) async fn cut_connections(&self) -> i64 {
        connect(&self.url).await.query_one(CUT_CONNECTIONS, &[]).await.unwrap().get(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        script(&["stop", &Self::place(&self.dir)]);
    }
}

/// Four publishers with a few stories each, on this database.
async fn world(url: &str) -> (World, u64) {
    let world = World::on(url, 4, |setup| Setup {
        history: 12,
        publish_until: Some(setup.starts_at),
        ..setup
    })
    .await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    (world, published)
}

/// Articles so far; none while nobody answers.
async fn articles(world: &World) -> u64 {
    world.store.totals().await.map_or(0, |totals| totals.articles)
}

/// Everything is there, once, and nobody was disturbed.
async fn all_is_well(world: &World, url: &str, dirs: &[PathBuf]) {
    let report = world.report().await;
    assert!(report.is_perfect(), "{report:#?}");
    hold_on_server(url).await;
    let archives: Vec<_> = dirs.iter().map(|dir| dir.join("archive")).collect();
    hold_archived(world, &archives).await;
    assert_eq!(world.store.stats().await.unwrap().total.dead, 0);
    assert_eq!(world.store.maintain().await.unwrap(), 0, "a host has a wrong head");
    world.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_waits_for_a_server_that_crashed_and_goes_on() {
    if database().await.is_none() {
        return;
    }
    let server = Server::start().await;
    let (world, published) = world(&server.url).await;
    let dir = world.dir().join("engine");
    let program = command(&world, &dir, Some(&server.url), &[]);
    let mut engine = Engine::start(program, world.dir().join("log"));
    until("the first articles", || async { articles(&world).await > 5 }).await;
    server.crash();
    engine.says("work is paused").await;
    // Long enough to try again, and to say so again.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let (said, asked) = (engine.said(), world.newsroom.counters().requests);
    assert_eq!(engine.times("work is paused"), 1, "{said}");
    assert!(said.contains("the database cannot be reached"), "{said}");
    let trouble = said.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR "));
    assert!(trouble.count() < 5, "{said}");
    assert!(asked < published, "it was not done yet");
    server.again();
    engine.says("work goes on").await;
    until("all articles", || async { articles(&world).await >= published }).await;
    let out = dir.join("out");
    until("all lines", || async { written(&out, "articles") as u64 >= published }).await;
    assert!(terminate(&mut engine.child), "an orderly end is a success");
    assert_eq!(engine.times("work is paused"), 1, "{}", engine.said());
    let told = lines(&out, "articles");
    assert_eq!((told.len() as u64, places(&told).len() as u64), (published, published));
    assert_eq!(world.served_twice(), Vec::<String>::new());
    all_is_well(&world, &server.url, &[dir]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_cut_at_any_moment_do_no_harm() {
    let Some(database) = database().await else { return };
    let (world, published) = world(&database.url).await;
    let dirs = [world.dir().join("one"), world.dir().join("two")];
    let begin = |dir: &PathBuf| {
        let program = command(&world, dir, Some(&database.url), &[]);
        Engine::start(program, dir.with_extension("log"))
    };
    let mut engines: Vec<Engine> = dirs.iter().map(begin).collect();
    // An engine that finds no server at its start ends; these have found theirs.
    until("both are at work", || async { dirs.iter().all(|dir| dir.join("archive").is_dir()) })
        .await;
    let client = connect(&database.url).await;
    let mut times = 0;
    for moment in moments() {
        tokio::time::sleep(moment / 4).await;
        let cuts: i64 = client.query_one(CUT_CONNECTIONS, &[]).await.unwrap().get(0);
        times += i64::from(cuts > 0);
        hold_on_server(&database.url).await;
        if times >= 15 {
            break;
        }
    }
    until("all articles", || async { articles(&world).await >= published }).await;
    for engine in &mut engines {
        assert!(terminate(&mut engine.child), "an orderly end is a success");
    }
    all_is_well(&world, &database.url, &dirs).await;
}

#[tokio::test]
async fn an_engine_that_finds_no_server_says_so_and_ends() {
    let world = World::new(1, 1).await;
    let url = "postgres://me:secret@127.0.0.1:1/db";
    let done = command(&world, &world.dir().join("engine"), Some(url), &[]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("postgres://127.0.0.1:1/db") && !said.contains("secret"), "{said}");
}
