//! Every kind of sink at once, while its target is stopped, cut off in the middle, slow or rejecting,
//! and the program is killed again and again: at the end each has every event once, in order.
//!
//! `FEEDMILL_TEST_EVENTS` says how many events there are; a few thousand do for every day.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use feedmill::db::Connection;
use feedmill::model::Event;
use futures_util::StreamExt;
use redis::AsyncCommands;
use serde_json::Value;

use super::cluster::Cluster;
use super::gate::{Gate, Mode};
use super::listener::{Answer, Listener};
use super::servers::{NatsServer, redis_server};
use super::{lines, places};
use crate::kill::{moments, start, terminate};
use crate::process::Process;
use crate::support::World;

/// How often the program is killed.
const KILLS: usize = 8;

/// How many events a test is to have.
pub(super) fn wanted() -> u64 {
    std::env::var("FEEDMILL_TEST_EVENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

/// Longer than all of them may take.
fn limit() -> Duration {
    Duration::from_secs(60 + wanted() / 50)
}

/// Copies of the first article and of its entry, from one number to another: an entry that is new, then
/// an article that is new, changes, and changes again.
pub(super) fn publish(database: &Path, from: u64, to: u64, at: i64) {
    let mut conn = Connection::open(database).unwrap();
    conn.busy_timeout(Duration::from_secs(30)).unwrap();
    let tx = conn.transaction().unwrap();
    let numbers = format!(
        "WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {to})"
    );
    tx.execute_batch(&format!(
        "{numbers} INSERT INTO article(row, id, task_id, source_id, content_hash, simhash, site,
           revision, first_seen, last_seen, fetch_id, body)
         SELECT 1000000 + i, unhex(printf('%032x%032x', i, 1)), 5000000 + i, source_id, content_hash,
           simhash, site, 3, {at}, {at}, fetch_id,
           json_set(body, '$.url', 'https://copies.example/' || i)
         FROM n, (SELECT * FROM article WHERE row < 1000000 ORDER BY row LIMIT 1);
         {numbers} INSERT INTO article_text(row, zstd)
         SELECT 1000000 + i, zstd FROM n, (SELECT zstd FROM article_text ORDER BY row LIMIT 1);
         {numbers} INSERT INTO entry(row, id, feed_id, content_hash, first_seen, last_seen,
           seen_count, body)
         SELECT 1000000 + i, unhex(printf('%032x%032x', i, 2)), feed_id, content_hash, {at}, {at}, 1,
           json_set(body, '$.canonical_link', 'https://entries.example/' || i)
         FROM n, (SELECT * FROM entry WHERE row < 1000000 ORDER BY row LIMIT 1);
         {numbers} INSERT INTO event(at, kind, subject, source_id, payload)
         SELECT {at}, k.kind, printf('%032x%032x', i, k.of),
           (SELECT source_id FROM article WHERE row < 1000000 ORDER BY row LIMIT 1), '{{}}'
         FROM (SELECT 0 AS part, 0 AS kind, 2 AS of UNION ALL SELECT 1, 10, 1
           UNION ALL SELECT 2, 11, 1 UNION ALL SELECT 3, 11, 1) k, n ORDER BY i / 50, k.part, i"
    ))
    .unwrap();
    tx.commit().unwrap();
}

/// A world with one article and its entry, and nobody to be asked any more.
pub(super) async fn seed() -> World {
    let world = World::new(1, 1).await;
    world.follow().await;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= 1 }).await;
    for source in world.store.sources().await.unwrap() {
        world.store.set_enabled(&source.spec.name, Some("the test is on".into())).await.unwrap();
    }
    world
}

pub(super) async fn events(world: &World) -> Vec<Event> {
    world.store.events_after(0, usize::MAX).await.unwrap()
}

/// Waits until sinks have all that there is.
pub(super) async fn all_arrived(world: &World, names: &[&str], limit: Duration) {
    let began = Instant::now();
    loop {
        let last = world.store.log_ends(0).await.unwrap().last;
        let sinks = world.store.sinks().await.unwrap();
        let late: Vec<_> = sinks
            .iter()
            .filter(|sink| names.contains(&sink.name.as_str()) && sink.cursor.seq < last)
            .map(|sink| (&sink.name, sink.cursor.seq, &sink.last_error))
            .collect();
        let here = sinks.iter().filter(|sink| names.contains(&sink.name.as_str())).count();
        if late.is_empty() && here == names.len() {
            return;
        }
        assert!(began.elapsed() < limit, "of {last} events: {late:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What a receiver of webhooks has: the first of each id counts, as its specification says.
#[derive(Default)]
struct Received {
    ids: BTreeSet<String>,
    taken: Vec<(i64, String)>,
    /// So many are turned away.
    rejected: AtomicU64,
}

impl Received {
    fn take(&mut self, id: &str, body: &[u8]) -> Answer {
        let left = self.rejected.load(Ordering::Relaxed);
        if left > 0 {
            self.rejected.store(left - 1, Ordering::Relaxed);
            return Answer::With(503, "", String::new());
        }
        if self.ids.insert(id.to_owned()) {
            let message: Value = serde_json::from_slice(body).unwrap();
            let event = &message["data"]["event"];
            let subject = event["subject"].as_str().unwrap().to_owned();
            self.taken.push((event["seq"].as_i64().unwrap(), subject));
        }
        Answer::With(200, "", String::new())
    }
}

/// Everything that is there about one thing came in the order of the log.
fn in_order(taken: &[(i64, String)]) {
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for (seq, subject) in taken {
        let before = last.insert(subject, *seq);
        assert!(before.is_none_or(|before| before < *seq), "{subject}: {before:?} before {seq}");
    }
}

/// The targets, each behind a gate where there is a connection.
struct Targets {
    redis: Option<(crate::lists::Redis, redis::aio::MultiplexedConnection, Gate)>,
    nats: Option<(NatsServer, Gate)>,
    cluster: (Cluster, Gate),
    hook: (Listener, Arc<Mutex<Received>>, Gate),
}

impl Targets {
    async fn start() -> Self {
        let redis = match redis_server().await {
            Some((server, connection, url)) => {
                let gate = Gate::to(&url).await;
                Some((server, connection, gate))
            }
            None => None,
        };
        let nats = match NatsServer::start() {
            Some(server) => {
                let gate = Gate::to(&server.url).await;
                Some((server, gate))
            }
            None => None,
        };
        let cluster = Cluster::new().await;
        let cluster_gate = Gate::to(&cluster.listener.url).await;
        let received: Arc<Mutex<Received>> = Arc::default();
        let kept = Arc::clone(&received);
        let listener = Listener::new(move |asked| {
            kept.lock().unwrap().take(asked.header("webhook-id").unwrap(), &asked.body)
        })
        .await;
        let hook_gate = Gate::to(&listener.url).await;
        Self {
            redis,
            nats,
            cluster: (cluster, cluster_gate),
            hook: (listener, received, hook_gate),
        }
    }

    fn gates(&self) -> Vec<&Gate> {
        let redis = self.redis.iter().map(|(_, _, gate)| gate);
        let nats = self.nats.iter().map(|(_, gate)| gate);
        redis.chain(nats).chain([&self.cluster.1, &self.hook.2]).collect()
    }

    /// The configuration of all sinks, and their names.
    fn configure(&self, world: &World) -> Vec<&'static str> {
        let mut text = String::from("[fetch]\nallow_networks = [\"127.0.0.0/8\"]\n");
        let mut names = vec!["lines", "news", "search", "hook"];
        let dir = world.dir().display();
        text += &format!("[sinks.lines]\nkind = \"ndjson\"\ndir = \"{dir}/lines\"\nbatch = 100\n");
        text += &format!("[sinks.news]\nkind = \"files\"\ndir = \"{dir}/news\"\nbatch = 100\n");
        text += &format!(
            "[sinks.search]\nkind = \"elasticsearch\"\nlayout = \"articles\"\nurl = \"{}\"\nbatch = 100\n",
            self.cluster.1.url
        );
        text += &format!(
            "[sinks.hook]\nkind = \"webhook\"\nurl = \"{}\"\nbatch = 100\n",
            self.hook.2.url
        );
        if let Some((_, _, gate)) = &self.redis {
            names.extend(["redis", "stream"]);
            text += &format!(
                "[sinks.redis]\nkind = \"redis\"\nurl = \"{0}\"\nbatch = 100\ntimeout = \"5s\"\n[sinks.stream]\nkind = \"redis_stream\"\nurl = \"{0}\"\nbatch = 100\ntimeout = \"5s\"\n",
                gate.url
            );
        }
        if let Some((_, gate)) = &self.nats {
            names.push("nats");
            text += &format!(
                "[sinks.nats]\nkind = \"nats\"\nurl = \"{}\"\nbatch = 100\ntimeout = \"5s\"\n",
                gate.url
            );
        }
        fs::write(world.dir().join("feedmill.toml"), text).unwrap();
        names
    }

    /// Does something bad to every target, another thing each time.
    async fn trouble(&mut self, world: &World, round: usize) {
        let modes = [Mode::Down, Mode::Cut(700), Mode::Slow, Mode::Cut(20_000), Mode::Open];
        for (at, gate) in self.gates().into_iter().enumerate() {
            gate.set(modes[(round + at) % modes.len()]);
        }
        {
            let mut state = self.cluster.0.state.lock().unwrap();
            (state.busy, state.down, state.cut) = (round * 20, round % 3, round % 2);
            state.limit = if round.is_multiple_of(2) { 60_000 } else { 0 };
        }
        self.hook.1.lock().unwrap().rejected.store(round as u64 % 4, Ordering::Relaxed);
        if let Some((_, connection, _)) = &mut self.redis {
            let most = if round % 3 == 1 { "1" } else { "0" };
            let mut cmd = redis::cmd("CONFIG");
            let _: () =
                cmd.arg("SET").arg("maxmemory").arg(most).query_async(connection).await.unwrap();
        }
        // A directory that cannot be written to: something else has its name.
        for name in ["lines/articles", "news"] {
            let (dir, aside) = (world.dir().join(name), world.dir().join(format!("{name}.aside")));
            if round.is_multiple_of(2) && dir.is_dir() {
                fs::rename(&dir, &aside).unwrap();
                fs::write(&dir, "in the way").unwrap();
            } else if aside.is_dir() {
                fs::remove_file(&dir).unwrap();
                fs::rename(&aside, &dir).unwrap();
            }
        }
    }
}

/// An engine with the sinks of the file, which it is given by its directory.
fn engine(world: &World) -> Process {
    start(world, &world.config.data_dir, None, &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sink_has_every_event_once_whatever_happens_to_it() {
    let world = seed().await;
    // So far ahead that nothing is over its time at the end, however long that takes.
    let at = world.clock.now().after(Duration::from_hours(24 * 365)).ms();
    publish(&world.config.database_path(), 1, wanted() / 4 + 1, at);
    let mut targets = Targets::start().await;
    let names = targets.configure(&world);
    for (round, moment) in moments().take(KILLS).enumerate() {
        targets.trouble(&world, round).await;
        let mut child = engine(&world);
        tokio::time::sleep(moment).await;
        assert!(child.try_wait().unwrap().is_none(), "the engine was running");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // The last but one round of trouble left everything in order.
    targets.trouble(&world, 0).await;
    targets.trouble(&world, 9).await;
    for gate in targets.gates() {
        gate.set(Mode::Open);
    }
    {
        let mut state = targets.cluster.0.state.lock().unwrap();
        (state.busy, state.down, state.cut, state.limit) = (0, 0, 0, 0);
    }
    targets.hook.1.lock().unwrap().rejected.store(0, Ordering::Relaxed);
    let began = Instant::now();
    let mut child = engine(&world);
    all_arrived(&world, &names, limit()).await;
    assert!(terminate(&mut child));
    let took = began.elapsed();
    judge(&world, &mut targets).await;
    let sinks = world.store.sinks().await.unwrap();
    assert!(sinks.iter().all(|sink| sink.dead_letters == 0), "{sinks:?}");
    assert!(took < limit());
}

async fn judge(world: &World, targets: &mut Targets) {
    let log = events(world).await;
    let all: BTreeSet<i64> = log.iter().map(|event| event.seq).collect();
    let copies = usize::try_from(wanted() / 4).unwrap();

    let dir = world.dir().join("lines");
    let mut there = BTreeSet::new();
    for folder in ["entries", "articles", "events"] {
        let lines = lines(&dir, folder);
        in_order(&lines.iter().map(placed).collect::<Vec<_>>());
        there.extend(places(&lines));
    }
    assert_eq!(there, all, "ndjson");

    let files: Vec<_> = fs::read_dir(world.dir().join("news")).unwrap().collect();
    let news = files.into_iter().map(|file| file.unwrap().path());
    let urls: Vec<String> = news
        .filter(|path| path.extension().is_some_and(|ext| ext == "json"))
        .map(|path| {
            let item: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            item["url"].as_str().unwrap().to_owned()
        })
        .collect();
    let once: BTreeSet<&String> = urls.iter().collect();
    assert_eq!(once.len(), urls.len(), "no file is there twice");
    let of = |host: &str| urls.iter().filter(|url| url.contains(host)).count();
    assert_eq!((of("copies.example"), of("entries.example")), (copies, copies), "files");

    // The last word about each article is what its document says.
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for event in log.iter().filter(|event| event.kind.as_str().starts_with("article.")) {
        last.insert(event.subject.clone(), event.seq);
    }
    let documents = targets.cluster.0.documents("articles");
    assert_eq!(documents.len(), last.len(), "elasticsearch");
    for document in &documents {
        let id = document["id"].as_str().unwrap();
        assert_eq!(document["seq"].as_i64(), last.get(id).copied(), "{id}");
    }

    let taken = std::mem::take(&mut targets.hook.1.lock().unwrap().taken);
    in_order(&taken);
    let got: BTreeSet<i64> = taken.iter().map(|(seq, _)| *seq).collect();
    assert_eq!((got, taken.len()), (all.clone(), all.len()), "webhook");

    if let Some((_, redis, _)) = &mut targets.redis {
        let index: usize = redis.zcard("rss:article_canonical_index").await.unwrap();
        let keys: Vec<String> = redis.keys("rss:article_canonical:*").await.unwrap();
        assert_eq!((index, keys.len()), (last.len(), last.len()), "redis");
        let links: Vec<String> = redis.keys("rss:category_links:*").await.unwrap();
        let mut known = BTreeSet::new();
        for key in &links {
            known.extend(redis.smembers::<_, Vec<String>>(key).await.unwrap());
        }
        let copied = known.iter().filter(|link| link.contains("entries.example")).count();
        assert_eq!(copied, copies, "redis");
        let mut range = redis::cmd("XRANGE");
        let entries: Vec<(String, Vec<(String, String)>)> =
            range.arg("feedmill:events").arg("-").arg("+").query_async(redis).await.unwrap();
        let ids: Vec<String> = entries.into_iter().map(|(id, _)| id).collect();
        let wanted: Vec<String> = all.iter().map(|seq| format!("{seq}-0")).collect();
        assert_eq!(ids, wanted, "redis stream");
    }
    if let Some((server, _)) = &targets.nats {
        judge_nats(server, &all).await;
    }
}

/// Place and subject of a line.
fn placed(line: &Value) -> (i64, String) {
    let event = &line["event"];
    (event["seq"].as_i64().unwrap(), event["subject"].as_str().unwrap().to_owned())
}

async fn judge_nats(server: &NatsServer, all: &BTreeSet<i64>) {
    let context = async_nats::jetstream::new(async_nats::connect(&server.url).await.unwrap());
    let stream = context.get_stream("feedmill").await.unwrap();
    let config = pull::Config { deliver_policy: DeliverPolicy::All, ..pull::Config::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    let mut taken = Vec::new();
    while taken.len() < all.len() {
        let mut some = consumer.fetch().max_messages(1_000).messages().await.unwrap();
        let before = taken.len();
        while let Some(message) = some.next().await {
            let message = message.unwrap();
            taken.push(placed(&serde_json::from_slice(&message.payload).unwrap()));
            message.ack().await.unwrap();
        }
        assert!(taken.len() > before, "{} of {} messages", taken.len(), all.len());
    }
    in_order(&taken);
    let got: BTreeSet<i64> = taken.iter().map(|(seq, _)| *seq).collect();
    assert_eq!((&got, taken.len()), (all, all.len()), "nats");
}
