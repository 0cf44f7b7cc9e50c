//! Engines that share a store, the publishers that they follow, and the sinks that they deliver to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use feedmill::clock::Scale;
use feedmill::model::EventKind;
use feedmill::store::ArticleFilter;
use feedmill_newsroom::Setup;
use serde_json::Value;

use super::attacks;
use crate::disk::Disk;
use crate::kill::{command, terminate};
use crate::lists::Redis;
use crate::outage::Server;
use crate::postgres::connect;
use crate::process::Process;
use crate::sinks::{Gate, Mode, lines, places, redis_server};
use crate::support::World;

/// Megabytes that the archive's disk of the embedded installation has: more than is ever written.
const DISK_MB: u32 = 4_096;

/// Everything that is waited for has to be there by then.
const LIMIT: Duration = Duration::from_secs(240);

/// How far a faulty clock is ahead.
const TEN_YEARS: Duration = Duration::from_hours(10 * 365 * 24);

/// Leases of the dead run out within the test, and tarpits do not hold workers for long.
const SETTINGS: [&str; 4] = [
    "fetch.task_timeout=6s",
    "fetch.request_timeout=3s",
    "fetch.workers=10",
    "retention.min_free=0B",
];

/// A process that may be killed and started again.
struct RunningEngine {
    dir: PathBuf,
    log: PathBuf,
    port: u16,
    process: Process,
    peak_kb: u64,
}

pub(super) struct Installation {
    world: World,
    database: Option<String>,
    engines: Vec<RunningEngine>,
    disk: Option<Disk>,
    redis: Option<(Redis, redis::aio::MultiplexedConnection, Gate)>,
}

impl Installation {
    pub(super) async fn start(
        server: Option<&Server>,
        engines: usize,
        publishers: usize,
        trouble: Duration,
    ) -> Self {
        let database = server.map(|server| server.url.clone());
        let world = World::on(database.as_deref().unwrap_or_default(), publishers, |setup| Setup {
            history: 3,
            rate_per_hour: 0.3,
            day_profile: false,
            publish_until: Some(
                setup.starts_at + i64::try_from(trouble.as_millis()).unwrap() * 600,
            ),
            ..setup
        })
        .await;
        attacks::begin(&world.newsroom);
        world.follow().await;
        let out = world.dir().join("out");
        let mut sinks =
            format!("[sinks.lines]\nkind = \"ndjson\"\ndir = {:?}\n", out.display().to_string());
        let redis = match redis_server().await {
            Some((server, connection, url)) => {
                let gate = Gate::to(&url).await;
                sinks.push_str(&format!(
                    "[sinks.stream]\nkind = \"redis_stream\"\nurl = \"{}\"\nbatch = 50\ntimeout = \"5s\"\n",
                    gate.url
                ));
                Some((server, connection, gate))
            }
            None => None,
        };
        fs::write(world.dir().join("feedmill.toml"), sinks).unwrap();
        let disk = match &database {
            None => Disk::mount(&world.dir().join("disk"), DISK_MB),
            Some(_) => None,
        };
        let mut made = Self { world, database, engines: Vec::new(), disk, redis };
        for number in 0..engines {
            let dir = match made.database {
                Some(_) => made.world.dir().join(format!("engine-{number}")),
                None => made.world.config.data_dir.clone(),
            };
            let port =
                std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let log = made.world.dir().join(format!("engine-{number}.log"));
            let process = made.spawn(&dir, &log, port, Duration::ZERO);
            made.engines.push(RunningEngine { dir, log, port, process, peak_kb: 0 });
        }
        made
    }

    /// Starts an engine whose clock is so far ahead.
    fn spawn(&self, dir: &Path, log: &Path, port: u16, ahead: Duration) -> Process {
        let listen = format!("api.listen=127.0.0.1:{port}");
        let archive = format!("archive.dir={}", self.world.dir().join("disk/archive").display());
        let mut settings = SETTINGS.to_vec();
        settings.push(&listen);
        settings.extend(self.disk.as_ref().map(|_| archive.as_str()));
        let mut program = command(&self.world, dir, self.database.as_deref(), &settings);
        let scale = self.world.clock.scale().unwrap();
        let scale = Scale { start: scale.start.after(ahead), ..scale };
        program.env("FEEDMILL_CLOCK", scale.to_string());
        // Not by its directory: entering the name space of the small disk changes that.
        program.env("FEEDMILL_CONFIG", self.world.dir().join("feedmill.toml"));
        let mut program = match &self.disk {
            Some(disk) => disk.within(&program),
            None => program,
        };
        let log = fs::File::options().create(true).append(true).open(log).unwrap();
        Process::spawn(
            program.current_dir(self.world.dir()).stdout(std::process::Stdio::null()).stderr(log),
        )
    }

    /// Kills an engine without warning, and starts it again.
    pub(super) fn kill(&mut self, number: usize) {
        let number = number % self.engines.len();
        self.note_memory();
        self.engines[number].process.kill().unwrap();
        self.engines[number].process.wait().unwrap();
        self.start_again(number, Duration::ZERO);
    }

    fn start_again(&mut self, number: usize, ahead: Duration) {
        let engine = &self.engines[number];
        let process = self.spawn(&engine.dir, &engine.log, engine.port, ahead);
        self.engines[number].process = process;
    }

    /// Lets an engine work on a clock that is ten years ahead, for about as long as a start takes.
    pub(super) async fn run_years_ahead(&mut self, number: usize) {
        self.note_memory();
        self.engines[number].process.kill().unwrap();
        self.engines[number].process.wait().unwrap();
        self.start_again(number, TEN_YEARS);
        self.until("the engine works years ahead", async |this: &Self| {
            let answers = this.readiness().await;
            let answered = answers.get(number).is_some_and(|(status, _)| *status != 0);
            answered.then_some(()).ok_or_else(|| format!("{answers:?}"))
        })
        .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.kill(number);
    }

    /// An engine that found no server at its start has ended, as it should: a supervisor starts it again.
    fn restart_ended(&mut self) {
        for number in 0..self.engines.len() {
            if let Some(status) = self.engines[number].process.try_wait().unwrap() {
                let expected = (true, Some(1));
                assert_eq!((self.database.is_some(), status.code()), expected, "an engine crashed");
                self.start_again(number, Duration::ZERO);
            }
        }
    }

    fn note_memory(&mut self) {
        for engine in &mut self.engines {
            let status = fs::read_to_string(format!("/proc/{}/status", engine.process.id()));
            let peak = status.ok().and_then(|status| {
                let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
                line.trim().trim_end_matches(" kB").trim().parse().ok()
            });
            engine.peak_kb = engine.peak_kb.max(peak.unwrap_or(0));
        }
    }

    pub(super) fn peak_resident_kb(&mut self) -> u64 {
        self.note_memory();
        self.engines.iter().map(|engine| engine.peak_kb).max().unwrap_or(0)
    }

    /// What the engines' readiness says: status and body of each that answers.
    async fn readiness(&self) -> Vec<(u16, String)> {
        let mut answers = Vec::new();
        for engine in &self.engines {
            let answer = tokio::time::timeout(Duration::from_secs(10), ready(engine.port)).await;
            let answer =
                answer.unwrap_or_else(|_| panic!("/readyz of {} is silent", engine.log.display()));
            answers.push(answer.unwrap_or_else(|| (0, "no connection".to_owned())));
        }
        answers
    }

    async fn until(&mut self, what: &str, mut done: impl AsyncFnMut(&Self) -> Result<(), String>) {
        let began = Instant::now();
        while let Err(why) = done(self).await {
            if began.elapsed() > LIMIT {
                let logs = self.engines.iter().map(|engine| {
                    let log = fs::read_to_string(&engine.log).unwrap_or_default();
                    let lines: Vec<&str> = log.lines().rev().take(15).collect();
                    format!("{}:\n{}", engine.log.display(), lines.join("\n"))
                });
                panic!("never seen: {what}: {why}\n{}", logs.collect::<Vec<_>>().join("\n"));
            }
            self.restart_ended();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(super) async fn all_ready(&mut self) {
        self.until("all engines are ready", async |this: &Self| {
            let answers = this.readiness().await;
            if answers.iter().all(|(status, _)| *status == 200) {
                Ok(())
            } else {
                Err(format!("{answers:?}"))
            }
        })
        .await;
    }

    pub(super) async fn nobody_ready(&mut self) {
        self.until("no engine says that it is ready", async |this: &Self| {
            let answers = this.readiness().await;
            if answers.iter().all(|(status, _)| *status != 200) {
                Ok(())
            } else {
                Err(format!("{answers:?}"))
            }
        })
        .await;
    }

    /// Ends each connection to a sink after so many bytes, for a while.
    pub(super) async fn cut_sinks(&self, after: usize) {
        let Some((_, _, gate)) = &self.redis else { return };
        for mode in [Mode::Cut(after), Mode::Down, Mode::Cut(after * 7), Mode::Slow] {
            gate.set(mode);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        gate.set(Mode::Open);
    }

    /// Takes all room on the archive's disk, and gives it back. While work is paused for want of room,
    /// readiness has to say so; without anything to keep, nobody notices.
    pub(super) async fn fill_disk(&mut self) {
        let Some(disk) = self.disk.take() else { return };
        disk.fill_but(0);
        let began = Instant::now();
        while !self.says_paused() && began.elapsed() < Duration::from_secs(3) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if self.says_paused() {
            self.nobody_ready().await;
        }
        disk.free();
        self.disk = Some(disk);
    }

    /// Whether the last word about it in the first engine's log is that work is paused.
    fn says_paused(&self) -> bool {
        let log = fs::read_to_string(&self.engines[0].log).unwrap_or_default();
        let words = ["work is paused", "work goes on"];
        let last = log.lines().rev().find(|line| words.iter().any(|word| line.contains(word)));
        last.is_some_and(|line| line.contains(words[0]))
    }

    /// What a clock that was ten years ahead for a moment leaves behind: every feed is due then.
    pub(super) async fn plan_far_ahead(&self) {
        let ahead = self.world.clock.now().after(TEN_YEARS).ms();
        let sql = format!(
            "UPDATE task SET due = {ahead} WHERE kind IN (2, 3) AND id IN (SELECT task_id FROM delayed);
             UPDATE delayed SET due = {ahead} WHERE task_id IN (SELECT id FROM task WHERE kind IN (2, 3));"
        );
        match &self.database {
            // Every writer locks hosts before their tasks: without this lock, an engine could move a task
            // between the two statements, and it would wait in two places.
            Some(url) => {
                let sql = format!("BEGIN; LOCK TABLE host IN EXCLUSIVE MODE; {sql} COMMIT");
                connect(url).await.batch_execute(&sql).await.unwrap();
            }
            None => {
                let conn =
                    feedmill::db::Connection::open(self.world.config.database_path()).unwrap();
                conn.busy_timeout(LIMIT).unwrap();
                conn.execute_batch(&format!("BEGIN IMMEDIATE; {sql} COMMIT")).unwrap();
            }
        }
    }

    fn honest_stories(&self) -> BTreeSet<String> {
        let stories = self.world.newsroom.published(i64::MAX).into_iter();
        stories
            .filter(|story| !attacks::is_hostile(story.publisher))
            .map(|story| story.url)
            .collect()
    }

    /// How often each story has an article.
    async fn articles(&self) -> BTreeMap<String, u32> {
        let filter = ArticleFilter { limit: 100_000, ..ArticleFilter::default() };
        let mut found = BTreeMap::new();
        for (_, row) in self.world.store.articles(filter).await.unwrap_or_default() {
            if let Some(story) = self.world.newsroom.story(&row.article.url) {
                *found.entry(story.url).or_default() += 1;
            }
        }
        found
    }

    /// Waits for all honest stories, in the store and in every sink.
    pub(super) async fn everything_arrived(&mut self) {
        let wanted = self.honest_stories();
        self.until("all honest stories", async |this: &Self| {
            let found = this.articles().await;
            let missing: Vec<_> = wanted.iter().filter(|url| !found.contains_key(*url)).collect();
            if missing.is_empty() {
                return Ok(());
            }
            Err(format!("{} of {}, such as {:?}", missing.len(), wanted.len(), missing.first()))
        })
        .await;
        let events = self.world.store.events_after(0, usize::MAX).await.unwrap();
        let wanted: BTreeSet<i64> = events.iter().map(|event| event.seq).collect();
        self.until("all events in the stream", async |this: &Self| {
            let Some(delivered) = this.stream().await else { return Ok(()) };
            nothing_missing(&wanted, &delivered.into_iter().collect())
        })
        .await;
        let new = events.iter().filter(|event| event.kind == EventKind::ArticleNew);
        let wanted: BTreeSet<i64> = new.map(|event| event.seq).collect();
        self.until("all new articles in the NDJSON files", async |this: &Self| {
            nothing_missing(&wanted, &places(&this.ndjson()))
        })
        .await;
    }

    /// The events in the Redis stream, in its order; `None` where tests do without Redis.
    async fn stream(&self) -> Option<Vec<i64>> {
        let (_, connection, _) = self.redis.as_ref()?;
        let entries: Vec<(String, Vec<String>)> = redis::cmd("XRANGE")
            .arg("feedmill:events")
            .arg("-")
            .arg("+")
            .query_async(&mut connection.clone())
            .await
            .unwrap();
        let seq = |(id, _): &(String, _)| id.split('-').next().unwrap().parse().unwrap();
        Some(entries.iter().map(seq).collect())
    }

    /// The lines about articles. All engines write them to one directory, one engine at a time.
    fn ndjson(&self) -> Vec<Value> {
        lines(&self.world.dir().join("out"), "articles")
    }

    pub(super) fn stop(&mut self) {
        for engine in &mut self.engines {
            assert!(terminate(&mut engine.process), "an orderly end is a success");
        }
    }

    /// Each event of the log is once in the stream, each article has one event, and so have the lines.
    pub(super) async fn every_event_once(&mut self) {
        let events = self.world.store.events_after(0, usize::MAX).await.unwrap();
        let new: Vec<_> =
            events.iter().filter(|event| event.kind == EventKind::ArticleNew).collect();
        let subjects: BTreeSet<_> = new.iter().map(|event| event.subject.as_str()).collect();
        assert_eq!(subjects.len(), new.len(), "an article is new only once");
        assert!(self.articles().await.values().all(|times| *times == 1), "a story has one article");
        let wanted: BTreeSet<i64> = events.iter().map(|event| event.seq).collect();
        if let Some(delivered) = self.stream().await {
            let distinct: BTreeSet<i64> = delivered.iter().copied().collect();
            assert_eq!(distinct.len(), delivered.len(), "no event is there twice");
            // What came in the last moment before the stop is delivered by the next run.
            let last = distinct.last().copied().unwrap_or(0);
            nothing_missing(&wanted.range(..=last).copied().collect(), &distinct).unwrap();
        }
        places(&self.ndjson());
    }

    /// How much there was to do, and how much memory it took.
    #[expect(clippy::print_stdout, reason = "scripts/chaos shows it")]
    pub(super) fn print_figures(&mut self) {
        let stories = self.honest_stories().len();
        let requests = self.world.newsroom.counters().requests;
        let peak = self.peak_resident_kb() / 1_000;
        let engines = self.engines.len();
        println!(
            "{engines} engines: {stories} honest stories, {requests} requests, {peak} MB at most"
        );
    }

    /// No publisher was asked too soon, too often, or for what it does not want to be asked for.
    pub(super) fn nobody_disturbed(&self) {
        let delay = i64::try_from(self.world.config.hosts.delay.as_millis()).unwrap();
        let impolite = self.world.newsroom.impolite(delay);
        assert!(
            impolite.is_empty(),
            "{} impolite requests: {:?}",
            impolite.len(),
            impolite.first()
        );
    }
}

/// Tells what of `wanted` was not delivered.
fn nothing_missing(wanted: &BTreeSet<i64>, delivered: &BTreeSet<i64>) -> Result<(), String> {
    let missing: Vec<_> = wanted.difference(delivered).collect();
    match missing.first() {
        None => Ok(()),
        Some(first) => Err(format!("{} of {}, such as {first}", missing.len(), wanted.len())),
    }
}

/// Status and body of an engine's readiness, or nothing when nobody listens there.
async fn ready(port: u16) -> Option<(u16, String)> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request =
        format!("GET /readyz HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer))
}
