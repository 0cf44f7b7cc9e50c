//! Our design on PostgreSQL, used as the product uses it: claims in batches, and one committer in each
//! engine that makes true whatever its workers have done meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use feedmill::archive::{Archive, Settings};
use feedmill::clock::Clock;
use feedmill::db::PgDb;
use feedmill::fetch::{Committer, Hold};
use feedmill::frontier::{Frontier, HostPatch};
use feedmill::model::{Code, Kind, Lane, Next, Origin, Outcome, SourceId, Status};
use feedmill::store::{Commit, Committed, PgStore, Store};
use futures_util::future::try_join_all;
use tokio::task::JoinSet;
use tokio_postgres::Client;
use tokio_util::task::TaskTracker;

use super::judge::Judge;
use super::postgres::{HOT, SOURCES, Slice, Work};
use super::server::{Server, connect, fill};
use super::{rules, source};

/// Tasks in a claim.
const BATCH: usize = 20;
/// Workers of an engine: several machines share the queue.
const ENGINE: usize = 10;
/// How long a worker sleeps when nothing can be claimed.
const IDLE: Duration = Duration::from_millis(20);

/// What a machine has of its own.
#[derive(Clone, Debug)]
struct Engine {
    store: PgStore,
    committer: Committer,
}

/// The design on its tables.
#[derive(Debug)]
pub(super) struct Ours {
    store: PgStore,
    engines: Vec<Engine>,
    /// The first of the sources, whose rows follow each other.
    source: SourceId,
    client: Client,
    judge: Arc<Judge>,
}

/// What the tables say in the end.
#[derive(Debug)]
pub(super) struct Standing {
    /// Tasks that were fetched.
    pub(super) done: u64,
    /// Tasks that wait.
    pub(super) queued: u64,
    /// Hosts with tasks that no claim would find.
    pub(super) hidden: u64,
}

impl Ours {
    pub(super) async fn open(
        server: &Server,
        part: &str,
        workers: usize,
        pause: Duration,
    ) -> anyhow::Result<Self> {
        let url = server.schema(part).await?;
        let store = PgStore::new(PgDb::open(&url, None).await?, rules(pause));
        let source = store.add_source(source(0)).await?.id;
        for n in 1..SOURCES {
            store.add_source(super::source(n)).await?;
        }
        let mut engines = Vec::new();
        while engines.len() * ENGINE < workers {
            engines.push(engine(PgStore::new(PgDb::open(&url, None).await?, rules(pause)))?);
        }
        let (client, judge) = (connect(&url).await?, Arc::new(Judge::new(pause)));
        Ok(Self { store, engines, source, client, judge })
    }

    pub(super) fn judge(&self) -> &Judge {
        &self.judge
    }

    pub(super) fn store(&self) -> &PgStore {
        &self.store
    }

    pub(super) const fn source(&self) -> SourceId {
        self.source
    }

    /// Fills the tables anew. Every host has a fresh robots.txt, as in a crawl that is under way.
    pub(super) async fn fill(&self, work: Work) -> anyhow::Result<()> {
        let insert = format!(
            "TRUNCATE host, task, queue, fetch_state;
             CREATE TEMP TABLE work ON COMMIT DROP AS {rows};
             INSERT INTO host(id, queue_id, name)
             SELECT id, id, name FROM (SELECT nextval('host_id') AS id, host AS name
               FROM (SELECT DISTINCT host FROM work) d) h;
             INSERT INTO task(host_id, lane, hash, kind, prio, status, due, source_id, origin, depth,
               discovered_at, url)
             SELECT h.id, {lane}, hashtextextended(w.url, 0), {kind}, w.prio, {status},
               feedmill_now() - w.age_ms, {first} + w.publisher, {origin}, 1, feedmill_now(), w.url
             FROM work w JOIN host h ON h.name = w.host;
             INSERT INTO queue(host_id, lane, nprio, due, task_id)
             SELECT host_id, lane, 10 - prio, due, id FROM task",
            rows = work.rows(),
            lane = Lane::Page.number(),
            kind = Kind::Article.number(),
            status = Status::Pending.number(),
            first = self.source.0,
            origin = Origin::Feed.number(),
        );
        fill(&self.client, &["task", "queue"], &insert).await?;
        self.allow_robots().await?;
        self.store.maintain().await?;
        self.client.batch_execute("ANALYZE host").await?;
        Ok(())
    }

    /// Gives every host a robots.txt that allows everything.
    pub(super) async fn allow_robots(&self) -> anyhow::Result<()> {
        let sql = "INSERT INTO robots(origin, host, fetched_at, expires_at)
            SELECT 'https://' || name, name, 0, 9000000000000 FROM host ON CONFLICT DO NOTHING";
        self.client.batch_execute(sql).await?;
        Ok(())
    }

    /// [`HOT`] wants an hour.
    pub(super) async fn hold(&self) -> anyhow::Result<()> {
        let until = Clock::system().now().after(Duration::from_secs(3_600));
        let patch = HostPatch { blocked_until: Some(until), ..HostPatch::default() };
        Ok(self.store.set_host(HOT, patch).await?)
    }

    /// Lets so many workers run for a while; none is stopped in the middle of a claim.
    pub(super) async fn run(&self, workers: usize, span: Duration) -> anyhow::Result<Slice> {
        let begin = Instant::now();
        let mut running = JoinSet::new();
        for engine in self.engines.iter().cycle().take(workers) {
            let (engine, judge) = (engine.clone(), Arc::clone(&self.judge));
            running.spawn(async move { work(&engine, &judge, begin + span).await });
        }
        Slice::of(running, begin).await
    }

    pub(super) async fn standing(&self) -> anyhow::Result<Standing> {
        let sql = format!(
            "SELECT (SELECT count(*) FROM task WHERE status = {}),
               (SELECT count(*) FROM queue) + (SELECT count(*) FROM delayed),
               (SELECT count(*) FROM host h WHERE h.top_page IS NULL
                  AND EXISTS(SELECT 1 FROM queue q WHERE q.host_id = h.queue_id))",
            Status::Fetched.number()
        );
        let row = self.client.query_one(&sql, &[]).await?;
        let count = |at: usize| -> anyhow::Result<u64> {
            u64::try_from(row.try_get::<_, i64>(at)?).context("a count")
        };
        Ok(Standing { done: count(0)?, queued: count(1)?, hidden: count(2)? })
    }
}

/// The committer wants an archive. It stays empty: nothing is fetched.
fn engine(store: PgStore) -> anyhow::Result<Engine> {
    let dir = tempfile::tempdir()?;
    let settings = Settings {
        dir: dir.path().to_owned(),
        segment_size: u64::MAX,
        segment_age: Duration::MAX,
        gzip_level: 1,
        agent: String::new(),
        max_body: 0,
    };
    let archive = Arc::new(Archive::open(settings, Clock::system())?);
    let (hold, tracker) = (Hold::new(Arc::default()), TaskTracker::new());
    let progress = Arc::default();
    let committer = Committer::start(Arc::new(store.clone()), archive, hold, progress, &tracker);
    Ok(Engine { store, committer })
}

async fn work(engine: &Engine, judge: &Judge, until: Instant) -> anyhow::Result<u64> {
    let mut done = 0;
    while Instant::now() < until {
        let leases = engine.store.claim(BATCH, &[Lane::Page]).await?;
        let at = Instant::now();
        for lease in &leases {
            judge.claimed(&lease.task.host, lease.task.id.0.to_string(), at);
        }
        if leases.is_empty() {
            tokio::time::sleep(IDLE).await;
            continue;
        }
        let at = Instant::now();
        for lease in &leases {
            judge.ended(&lease.task.host, at);
        }
        let commits = leases.into_iter().map(|lease| {
            let outcome = Outcome::new(Code::Ok, Next::Fetched, "812 words");
            engine.committer.commit(Commit { lease, outcome })
        });
        for committed in try_join_all(commits).await? {
            anyhow::ensure!(committed == Committed::Done, "every lease was good");
            done += 1;
        }
    }
    Ok(done)
}
