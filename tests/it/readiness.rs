//! `/readyz` is the truth about the engine, whatever hangs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use feedmill_newsroom::Setup;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::api::{Answer, Server};
use crate::kill::{command, terminate};
use crate::postgres::database;
use crate::support::{Engine, World, until};

/// Checks have two seconds; the rest is for a busy machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(6);

/// The HTTP server of an engine that says where it listens.
pub(crate) async fn server_of(engine: &Engine) -> Server {
    const WORDS: &str = "the API are at http://";
    engine.says(WORDS).await;
    let said = engine.said();
    let address = said.split_once(WORDS).unwrap().1.split('/').next().unwrap();
    Server::at(address.parse().unwrap())
}

/// Whether an engine says that it is ready, and why not.
pub(crate) async fn readiness(server: &Server) -> (bool, String) {
    let began = Instant::now();
    let answer: Answer = server.get("/readyz").await;
    assert!(began.elapsed() < ANSWER_LIMIT, "it took {:?}", began.elapsed());
    let told = answer.json();
    assert_eq!(told["ready"], answer.status == 200, "{told}");
    (answer.status == 200, told.to_string())
}

/// Waits until an engine says that it is not ready, with these words.
pub(crate) async fn until_not_ready(server: &Server, words: &str) {
    until(words, || async {
        let (ready, told) = readiness(server).await;
        !ready && told.contains(words)
    })
    .await;
}

pub(crate) async fn until_ready(server: &Server) {
    until("readiness", || async { readiness(server).await.0 }).await;
}

/// A way to a server that can fall silent: connections are taken and kept, and nothing is said.
struct Line {
    url: String,
    silent: Arc<watch::Sender<bool>>,
    _stop: DropGuard,
}

impl Line {
    async fn to(url: &str) -> Self {
        let server = url.rsplit('@').next().unwrap().split('/').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = url.replace(&server, &listener.local_addr().unwrap().to_string());
        let (silent, stop) = (Arc::new(watch::Sender::new(false)), CancellationToken::new());
        let (tasks, stopped, hears) = (TaskTracker::new(), stop.clone(), Arc::clone(&silent));
        let lines = tasks.clone();
        tasks.spawn(stop.clone().run_until_cancelled_owned(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, hears) = (server.clone(), Arc::clone(&hears));
                lines.spawn(stopped.clone().run_until_cancelled_owned(async move {
                    let Ok(server) = TcpStream::connect(server).await else { return };
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    tokio::select! {
                        () = carry(from_client, to_server, &hears) => {}
                        () = carry(from_server, to_client, &hears) => {}
                    }
                }));
            }
        }));
        Self { url, silent, _stop: stop.drop_guard() }
    }

    fn silence(&self, silent: bool) {
        self.silent.send_replace(silent);
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, silent: &watch::Sender<bool>) {
    let (mut piece, mut silent) = (vec![0; 4_096], silent.subscribe());
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        silent.wait_for(|silent| !silent).await.unwrap();
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_database_pauses_work_and_is_told() {
    let Some(database) = database().await else { return };
    let world = World::on(&database.url, 3, |setup| Setup {
        history: 12,
        publish_until: Some(setup.starts_at),
        ..setup
    })
    .await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    let line = Line::to(&database.url).await;
    let program = command(&world, &world.dir().join("engine"), Some(&line.url), &[]);
    let mut engine = Engine::start(program, world.dir().join("log"));
    let articles = || async { world.store.totals().await.unwrap().articles };
    until("the first articles", || async { articles().await > 3 }).await;
    let server = server_of(&engine).await;
    assert!(readiness(&server).await.0, "{}", readiness(&server).await.1);

    line.silence(true);
    until_not_ready(&server, "no answer within 2 s").await;
    engine.says("work is paused").await;
    until_not_ready(&server, "paused: the database cannot be reached: no answer within").await;
    assert_eq!(server.get("/healthz").await.status, 200);
    assert_eq!(engine.times("work is paused"), 1, "{}", engine.said());

    line.silence(false);
    engine.says("work goes on").await;
    until_ready(&server).await;
    until("all articles", || async { articles().await >= published }).await;
    assert!(terminate(&mut engine.child));
    let report = world.report().await;
    assert!(report.is_perfect(), "{report:#?}");
    world.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_archive_is_told() {
    let world = World::new(1, 1).await;
    let archive = world.dir().join("archive");
    let setting = format!("archive.dir={}", archive.display());
    let program = command(&world, &world.config.data_dir, None, &[&setting]);
    let mut engine = Engine::start(program, world.dir().join("log"));
    let server = server_of(&engine).await;
    // Until then it may still be made.
    engine.says("the engine starts").await;
    until_ready(&server).await;
    let away = world.dir().join("away");
    std::fs::rename(&archive, &away).unwrap();
    until_not_ready(&server, "archive is not there, or no directory").await;
    std::fs::write(&archive, "").unwrap();
    until_not_ready(&server, "archive is not there, or no directory").await;
    std::fs::remove_file(&archive).unwrap();
    std::fs::rename(&away, &archive).unwrap();
    until_ready(&server).await;
    assert!(terminate(&mut engine.child));
}
