//! The design that ours grew from, as its authors wrote it down: a table of addresses, claimed one at
//! a time with `FOR UPDATE SKIP LOCKED`, and a table of hosts that is written after each fetch.
//!
//! It is here to be measured beside ours, as well as it can be: statements are prepared, and each
//! worker has a connection. Three things had to be settled to run it at all:
//!
//! - The index for claims was first written with `next_fetch_at <= NOW()` in its condition, which
//!   PostgreSQL refuses because `NOW()` is not immutable. Its later form is taken, without that.
//! - Two triggers call `update_updated_at_column()`, which is not part of it: the usual one is taken.
//! - A row of `host_state` whose `last_fetch_at` is NULL would never be claimed again. So there is
//!   none before a host's first fetch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_postgres::Client;

use super::judge::Judge;
use super::postgres::{HOT, Slice, Work};
use super::server::{Server, connect, fill};

const SCHEMA: &str = "
CREATE FUNCTION update_updated_at_column() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN NEW.updated_at = NOW(); RETURN NEW; END $$;

CREATE TABLE url_frontier(
  id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
  url TEXT NOT NULL,
  url_hash CHAR(64) NOT NULL,
  host TEXT NOT NULL,
  source_id VARCHAR(36) NOT NULL,
  origin VARCHAR(20) NOT NULL,
  parent_url TEXT,
  depth SMALLINT NOT NULL DEFAULT 0,
  priority SMALLINT NOT NULL DEFAULT 5,
  status VARCHAR(20) NOT NULL DEFAULT 'pending',
  next_fetch_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
  last_fetched_at TIMESTAMPTZ,
  fetch_count INTEGER NOT NULL DEFAULT 0,
  content_hash CHAR(64),
  etag TEXT,
  last_modified TEXT,
  retry_count SMALLINT NOT NULL DEFAULT 0,
  last_error TEXT,
  discovered_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
  created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
  updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
  CONSTRAINT uq_frontier_url_hash UNIQUE(url_hash));
CREATE INDEX idx_frontier_claimable ON url_frontier(priority DESC, next_fetch_at ASC)
  WHERE status = 'pending';
CREATE INDEX idx_frontier_host ON url_frontier(host, last_fetched_at DESC);
CREATE INDEX idx_frontier_source_status ON url_frontier(source_id, status);
CREATE INDEX idx_frontier_content_hash ON url_frontier(content_hash) WHERE content_hash IS NOT NULL;
CREATE TRIGGER update_url_frontier_updated_at BEFORE UPDATE ON url_frontier
  FOR EACH ROW EXECUTE FUNCTION update_updated_at_column();

CREATE TABLE host_state(
  host TEXT PRIMARY KEY,
  last_fetch_at TIMESTAMPTZ,
  min_delay_ms INTEGER NOT NULL DEFAULT 1000,
  robots_txt TEXT,
  robots_fetched_at TIMESTAMPTZ,
  robots_ttl_hours INTEGER NOT NULL DEFAULT 24,
  created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
  updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW());
CREATE TRIGGER update_host_state_updated_at BEFORE UPDATE ON host_state
  FOR EACH ROW EXECUTE FUNCTION update_updated_at_column();";

const CLAIM: &str = "
SELECT f.id::text, f.url, f.host, f.source_id, f.etag, f.last_modified, f.fetch_count
FROM url_frontier f LEFT JOIN host_state h ON h.host = f.host
WHERE f.status = 'pending' AND f.next_fetch_at <= NOW()
  AND (h.host IS NULL OR h.last_fetch_at + (h.min_delay_ms * INTERVAL '1 millisecond') <= NOW())
ORDER BY f.priority DESC, f.next_fetch_at ASC
LIMIT 1
FOR UPDATE OF f SKIP LOCKED";
const TAKE: &str =
    "UPDATE url_frontier SET status = 'fetching', updated_at = NOW() WHERE id = $1::text::uuid";
const FETCHED: &str = "UPDATE url_frontier SET status = 'fetched', last_fetched_at = NOW(),
    fetch_count = fetch_count + 1, content_hash = $2, etag = $3, last_modified = $4, retry_count = 0,
    last_error = NULL, updated_at = NOW() WHERE id = $1::text::uuid";
const ASKED: &str = "INSERT INTO host_state(host, last_fetch_at) VALUES($1, NOW())
    ON CONFLICT (host) DO UPDATE SET last_fetch_at = NOW()";

/// How long a worker sleeps when nothing can be claimed.
const IDLE: Duration = Duration::from_secs(1);

/// The design on its tables, with a connection for each worker.
#[derive(Debug)]
pub(super) struct Seed {
    client: Client,
    workers: Vec<Arc<Client>>,
    judge: Arc<Judge>,
}

impl Seed {
    /// `pause` has to be its default of a second.
    pub(super) async fn open(
        server: &Server,
        workers: usize,
        pause: Duration,
    ) -> anyhow::Result<Self> {
        let url = server.schema("seed").await?;
        let client = connect(&url).await?;
        client.batch_execute(SCHEMA).await?;
        let mut connected = Vec::with_capacity(workers);
        for _ in 0..workers {
            connected.push(Arc::new(connect(&url).await?));
        }
        Ok(Self { client, workers: connected, judge: Arc::new(Judge::new(pause)) })
    }

    pub(super) fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Fills the tables anew.
    pub(super) async fn fill(&self, work: Work) -> anyhow::Result<()> {
        let insert = format!(
            "TRUNCATE url_frontier, host_state;
             INSERT INTO url_frontier(url, url_hash, host, source_id, origin, depth, priority, next_fetch_at)
             SELECT url, encode(sha256(url::bytea), 'hex'), host,
               '0195f0e0-0000-7000-8000-' || lpad(publisher::text, 12, '0'), 'feed', 1, prio, NOW() - age_ms * INTERVAL '1 millisecond'
             FROM ({}) w",
            work.rows()
        );
        fill(&self.client, &["url_frontier"], &insert).await
    }

    /// [`HOT`] was asked just now, and wants an hour.
    pub(super) async fn hold(&self) -> anyhow::Result<()> {
        let sql =
            "INSERT INTO host_state(host, last_fetch_at, min_delay_ms) VALUES($1, NOW(), 3600000)";
        self.client.execute(sql, &[&HOT]).await?;
        Ok(())
    }

    /// Lets so many workers run for a while; none is stopped in the middle of a claim.
    pub(super) async fn run(&self, workers: usize, span: Duration) -> anyhow::Result<Slice> {
        let begin = Instant::now();
        let mut running = JoinSet::new();
        for client in self.workers.iter().take(workers) {
            let (client, judge) = (Arc::clone(client), Arc::clone(&self.judge));
            running.spawn(async move { work(&client, &judge, begin + span).await });
        }
        Slice::of(running, begin).await
    }

    /// Addresses that are done, and all others.
    pub(super) async fn sums(&self) -> anyhow::Result<(u64, u64)> {
        let sql = "SELECT count(*) FILTER (WHERE status = 'fetched'),
            count(*) FILTER (WHERE status = 'pending') FROM url_frontier";
        let row = self.client.query_one(sql, &[]).await?;
        Ok((row.try_get::<_, i64>(0)?.try_into()?, row.try_get::<_, i64>(1)?.try_into()?))
    }
}

async fn work(client: &Client, judge: &Judge, until: Instant) -> anyhow::Result<u64> {
    let claim = client.prepare(CLAIM).await?;
    let take = client.prepare(TAKE).await?;
    let fetched = client.prepare(FETCHED).await?;
    let asked = client.prepare(ASKED).await?;
    let mut done = 0;
    while Instant::now() < until {
        client.batch_execute("BEGIN").await?;
        let Some(row) = client.query_opt(&claim, &[]).await? else {
            client.batch_execute("COMMIT").await?;
            tokio::time::sleep(IDLE).await;
            continue;
        };
        let (id, host): (&str, &str) = (row.try_get(0)?, row.try_get(2)?);
        client.execute(&take, &[&id]).await?;
        client.batch_execute("COMMIT").await?;
        judge.claimed(host, id.to_owned(), Instant::now());
        judge.ended(host, Instant::now());
        let hash = id.replace('-', "").repeat(2);
        let nothing: Option<&str> = None;
        client.execute(&fetched, &[&id, &hash, &nothing, &nothing]).await?;
        client.execute(&asked, &[&host]).await?;
        done += 1;
    }
    Ok(done)
}
