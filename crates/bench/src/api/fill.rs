//! A store as it is after some months: what the product takes in goes through it, the rest is multiplied
//! in the database itself. Nothing of it is due while it is measured.

use std::time::Duration;

use anyhow::Context as _;
use feedmill::config::Config;
use feedmill::frontier::TaskFilter;
use feedmill::model::{Code, EventKind, Kind, NewSource, NewTask, Origin, Status, Task, Ts};
use feedmill::store::outbox::Start;
use feedmill::store::{Reread, Store};
use rusqlite::Connection;
use tokio_util::task::TaskTracker;

use crate::sinks::{article, entry};

/// Sources, each with a host and a feed of its own.
const SOURCES: u32 = 2_000;
/// Addresses that are handed over at once.
const BATCH: u32 = 2_000;
const DAY_MS: i64 = 86_400_000;
/// What is waiting comes up after so long.
const LATER_MS: i64 = 10 * DAY_MS;

/// A database, past the store.
enum Database {
    Embedded(std::path::PathBuf),
    Postgres(String),
}

impl Database {
    async fn run(&self, sql: String) -> anyhow::Result<()> {
        match self {
            Self::Embedded(path) => {
                let mut conn = Connection::open(path)?;
                conn.busy_timeout(Duration::from_secs(30))?;
                let tx = conn.transaction()?;
                tx.execute_batch(&sql)?;
                tx.commit()?;
            }
            Self::Postgres(url) => {
                let (client, connection) =
                    tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
                let tracker = TaskTracker::new();
                tracker.spawn(connection);
                client.batch_execute(&sql).await?;
            }
        }
        Ok(())
    }

    /// The numbers from 1 on, as `n(i)`.
    fn numbers(&self, count: u32) -> (String, String) {
        match self {
            Self::Embedded(_) => (
                format!(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
                ),
                "n".to_owned(),
            ),
            Self::Postgres(_) => {
                (String::new(), format!("generate_series(1::bigint, {count}) AS n(i)"))
            }
        }
    }

    /// Bytes that differ with `i`: a kind of hash, of so many bytes, that begins with `first`.
    fn bytes(&self, first: &str, length: usize) -> String {
        let digits = 2 * length - 12;
        match self {
            Self::Embedded(_) => format!("unhex(printf('%012x%0{digits}x', {first}, i))"),
            Self::Postgres(_) => format!(
                "decode(lpad(to_hex(({first})::bigint), 12, '0') || lpad(to_hex(i), {digits}, '0'), 'hex')"
            ),
        }
    }

    /// The same as text.
    fn text(&self, first: &str, length: usize) -> String {
        match self {
            Self::Embedded(_) => format!("lower(hex({}))", self.bytes(first, length)),
            Self::Postgres(_) => format!("encode({}, 'hex')", self.bytes(first, length)),
        }
    }
}

/// Fills a new store.
pub(super) async fn fill(
    config: &Config,
    store: &dyn Store,
    now: Ts,
    rows: u32,
) -> anyhow::Result<()> {
    let database = match config.postgres_url() {
        Some(url) => Database::Postgres(url.to_owned()),
        None => Database::Embedded(config.database_path()),
    };
    let feeds = sources(store).await?;
    tasks(store, now, rows).await?;
    patterns(store, now, &feeds).await?;
    let first = feeds.first().context("no feeds")?.id.0;
    anyhow::ensure!(
        feeds.iter().zip(first..).all(|(feed, id)| feed.id.0 == id),
        "feeds are numbered one after another"
    );
    database.run(settle(now)).await?;
    for sql in contents(&database, now, first, rows / 3) {
        database.run(sql).await?;
    }
    if matches!(database, Database::Postgres(_)) {
        // As its own upkeep would after so many rows.
        database.run("ANALYZE".to_owned()).await?;
    }
    for sink in ["archive", "search", "feed"] {
        store.open_sink(sink, Start::Now).await?;
    }
    Ok(())
}

fn host(n: u32) -> String {
    format!("www.press-{n:05}.example")
}

/// Makes the sources; their feeds.
async fn sources(store: &dyn Store) -> anyhow::Result<Vec<Task>> {
    for n in 0..SOURCES {
        let mut new = NewSource::new(format!("press-{n:05}"), format!("https://{}/", host(n)));
        new.feed_urls = vec![format!("https://{}/feed", host(n))];
        let category = ["news", "sports", "science", "culture"].get(n as usize % 4);
        new.category = category.map(ToString::to_string);
        new.tags = vec![format!("group-{}", n % 10)];
        store.add_source(new).await?;
    }
    let filter = TaskFilter { kind: Some(Kind::Feed), limit: usize::MAX, ..TaskFilter::default() };
    Ok(store.list(filter).await?)
}

/// Hands over addresses of pages: a tenth of them of one host.
async fn tasks(store: &dyn Store, now: Ts, rows: u32) -> anyhow::Result<()> {
    let ids = store.sources().await?.into_iter().map(|source| source.id).collect::<Vec<_>>();
    let page = |n: u32| {
        let of = if n.is_multiple_of(10) { 0 } else { n % SOURCES };
        NewTask {
            url: format!("https://{}/2026/11/15/news/the-title-of-story-{n:07}", host(of)),
            kind: Kind::Article,
            origin: if n.is_multiple_of(1_000) { Origin::Manual } else { Origin::Feed },
            source: ids.get(of as usize).copied(),
            base_priority: (n % 10 + 1) as u8,
            depth: 1,
            redirects: 0,
            parent: None,
            not_before: Some(Ts::from_ms(now.ms() + LATER_MS + i64::from(n) * 1_000)),
            refetch: None,
        }
    };
    for from in (0..rows).step_by(BATCH as usize) {
        store.submit((from..rows.min(from + BATCH)).map(page).collect()).await?;
    }
    Ok(())
}

/// One entry and one article, which the others are copies of.
async fn patterns(store: &dyn Store, now: Ts, feeds: &[Task]) -> anyhow::Result<()> {
    let feed = feeds.first().context("no feed")?;
    let filter = TaskFilter { kind: Some(Kind::Article), limit: 1, ..TaskFilter::default() };
    let page = store.list(filter).await?.pop().context("no page")?;
    let text = "Lorem ipsum dolor sit amet, consectetur. ".repeat(100);
    let (task, entries) = (feed.clone(), vec![(now, entry(feed, &text))]);
    store.reread(Reread { task, entries, article: None }).await?;
    let source = page.source.context("a page of a source")?;
    let article = Some((now, article(&page, source, text)));
    store.reread(Reread { task: page, entries: vec![], article }).await?;
    Ok(())
}

/// What became of the addresses: seven of ten were fetched, a few are dead, parked or failed.
fn settle(now: Ts) -> String {
    let [pending, fetched, dead, parked] =
        [Status::Pending, Status::Fetched, Status::Dead, Status::Parked].map(Status::number);
    let (now, code) = (now.ms(), Code::NotFound.number());
    format!(
        "UPDATE task SET status = {fetched}, fetch_count = 1, fetched_at = {now} - (id * 7919) % {month}
           WHERE lane = 1 AND id % 100 < 70;
         UPDATE task SET status = {dead}, fetch_count = 3, fetched_at = {now} - (id * 7919) % {month}
           WHERE lane = 1 AND id % 100 = 70;
         UPDATE task SET status = {parked} WHERE lane = 1 AND id % 100 = 71;
         UPDATE task SET retry = 2, fetch_count = 2, fetched_at = {now} - (id * 7919) % {month}
           WHERE lane = 1 AND id % 100 = 72;
         DELETE FROM delayed WHERE task_id IN (SELECT id FROM task WHERE status <> {pending});
         DELETE FROM delayed WHERE task_id IN (SELECT id FROM task WHERE lane = 0);
         UPDATE task SET due = {now} + {LATER_MS} + id WHERE lane = 0;
         DELETE FROM queue;
         UPDATE host SET top_poll = NULL, top_page = NULL, top_media = NULL;
         INSERT INTO delayed(due, task_id) SELECT due, id FROM task WHERE lane = 0 AND kind <> {robots};
         INSERT INTO fetch_state(task_id, etag, last_error, reason)
           SELECT id, '\"' || id || '\"', CASE WHEN status = {fetched} THEN NULL ELSE {code} END,
             CASE WHEN status = {fetched} THEN NULL ELSE 'there is nothing at this address' END
           FROM task WHERE lane = 1 AND id % 100 IN (70, 72) OR id % 100 < 70 AND lane = 1;
         INSERT INTO feed(task_id, version, title, last_success, interval_ms, health, items)
           SELECT id, 1, 'What is new ' || id, {now} - id, 900000, id % 7, 50 FROM task
           WHERE lane = 0 AND kind = {feed} AND NOT EXISTS(SELECT 1 FROM feed f WHERE f.task_id = task.id)",
        month = 30 * DAY_MS,
        robots = Kind::Robots.number(),
        feed = Kind::Feed.number(),
    )
}

/// Entries, articles, events and requests, of each so many, over the last month.
fn contents(database: &Database, now: Ts, first_feed: i64, count: u32) -> [String; 4] {
    let (with, n) = database.numbers(count);
    let step = 30 * DAY_MS / i64::from(count);
    let at = format!("({} - {step} * ({count} - i))", now.ms());
    let feed = format!("{first_feed} + i % {SOURCES}");
    let entries = format!(
        "{with} INSERT INTO entry(id, feed_id, content_hash, first_seen, last_seen, seen_count, published,
           uid, body)
         SELECT {id}, {feed}, content_hash, {at}, {at}, 1, {at}, i, replace(body, 'guid:1', 'guid:' || i)
         FROM {n}, (SELECT p.* FROM entry p ORDER BY p.row LIMIT 1) e",
        id = database.bytes("2", 32),
    );
    let articles = format!(
        "{with} INSERT INTO article(id, task_id, source_id, content_hash, simhash, duplicate_of, site,
           revision, first_seen, last_seen, body)
         SELECT {id}, {SOURCES} + i, (SELECT min(id) FROM source) + i % {SOURCES}, {hash}, i,
           CASE WHEN i % 20 = 0 THEN a.id END, site, 1, {at}, {at},
           replace(replace(replace(body, 'A title of', 'Number-' || i || ', a title of'),
             'https://press.example/story', 'https://press.example/story-' || i),
             '\"en\"', CASE WHEN i % 5 = 0 THEN '\"de-AT\"' ELSE '\"en\"' END)
         FROM {n}, (SELECT p.* FROM article p ORDER BY p.row LIMIT 1) a",
        id = database.bytes("1", 32),
        hash = database.bytes("3", 32),
    );
    let (new, entry_new) = (EventKind::ArticleNew.number(), EventKind::EntryNew.number());
    let gone = EventKind::FeedGone.number();
    let events = format!(
        "{with} INSERT INTO event(at, kind, subject, source_id, payload)
         SELECT {at}, CASE WHEN i % 100000 = 7 THEN {gone} WHEN i % 2 = 0 THEN {new} ELSE {entry_new} END,
           {subject}, (SELECT min(id) FROM source) + i % {SOURCES},
           (SELECT payload FROM event WHERE kind = {new} ORDER BY seq LIMIT 1) FROM {n}",
        subject = database.text("1", 32),
    );
    let fetches = format!(
        "{with} INSERT INTO \"fetch\"(id, task_id, at, url, status, code, bytes, elapsed_ms)
         SELECT {id}, {SOURCES} + i, {at}, 'https://www.press.example/' || i, 200,
           CASE WHEN i % 50 = 0 THEN {code} ELSE 0 END, 20000, i % 900 FROM {n}",
        id = database.bytes(&at, 16),
        code = Code::NotFound.number(),
    );
    [entries, articles, events, fetches]
}
