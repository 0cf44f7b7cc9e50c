//! Every column of every table that work relies on is filled with garbage in turn: nothing aborts, nothing
//! is left out without a word, `doctor` lists the row, and replay mends what the archive holds.

use std::sync::Arc;

use feedmill::app;
use feedmill::app::export::{self, Form, Format, Selection};
use feedmill::app::replay::{Replay, Wanted};
use feedmill::config::{Sink as Configured, Target};
use feedmill::db::{Connection, migrate};
use feedmill::frontier::TaskFilter;
use feedmill::model::{Lane, Ts};
use feedmill::store::browse::articles::{ArticleQuery, articles};
use feedmill::store::browse::damaged::damaged;
use feedmill::store::browse::entries::{EntryQuery, entries};
use feedmill::store::browse::events::events;
use feedmill::store::browse::fetches::{FetchQuery, fetches};
use feedmill::store::browse::sources::{ChannelQuery, SourceQuery, channels, sources};
use feedmill::store::outbox::Start;
use feedmill::store::{ArticleFilter, EventFilter};

use crate::postgres::{Database, connect, database};
use crate::sinks::{lines, targets};
use crate::support::World;

/// The tables, each with its key.
const TABLES: [(&str, &str); 10] = [
    ("entry", "row"),
    ("article", "row"),
    ("article_text", "row"),
    ("article_revision", "row"),
    ("event", "seq"),
    ("fetch", "id"),
    ("task", "id"),
    ("fetch_state", "task_id"),
    ("source", "id"),
    ("feed", "task_id"),
];

/// An older form of an article, and everything that recurs is due.
const PREPARE: &str =
    "INSERT INTO article_revision(row, revision, until, content_hash, fetch_id, added,
      removed, silent, body, zstd)
    SELECT a.row, 1, 9, a.content_hash, a.fetch_id, 3, 2, 1, a.body, x.zstd FROM article a
      JOIN article_text x ON x.row = a.row ORDER BY a.row LIMIT 1;
    UPDATE delayed SET due = 1";

/// All columns, with their tables and the keys of these.
fn all_columns() -> Vec<(&'static str, &'static str, String)> {
    let mut schema = Connection::open_in_memory().unwrap();
    migrate::up(&mut schema).unwrap();
    let mut all = Vec::new();
    for (table, key) in TABLES {
        let mut select = schema.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
        let names = select.query_map([table], |row| row.get(0)).unwrap();
        let names: Vec<String> = names.map(Result::unwrap).collect();
        // The number of a row cannot hold anything else.
        let names = names.into_iter().filter(|name| name != key || table == "fetch");
        all.extend(names.map(|name| (table, key, name)));
    }
    assert!(all.len() > 100, "{}", all.len());
    all
}

fn spoil(table: &str, key: &str, column: &str, garbage: &str) -> String {
    format!(
        "UPDATE \"{table}\" SET \"{column}\" = {garbage}
         WHERE \"{key}\" = (SELECT \"{key}\" FROM \"{table}\" ORDER BY \"{key}\" LIMIT 1)"
    )
}

/// What there is before anything is damaged.
struct Whole {
    articles: usize,
    entries: usize,
    events: usize,
    tasks: usize,
    fetches: usize,
}

fn near(found: usize, all: usize, what: &str, of: &str) {
    assert!(found <= all && found + 1 >= all, "{of}: {found} of {all} {what}");
}

async fn listings(world: &World, whole: &Whole, of: &str) {
    let (store, limit) = (&*world.store, 1_000);
    let query = ArticleQuery { limit, ..ArticleQuery::default() };
    near(articles(store, &query).await.unwrap().items.len(), whole.articles, "articles", of);
    let query = EntryQuery { limit, ..EntryQuery::default() };
    near(entries(store, &query).await.unwrap().items.len(), whole.entries, "entries", of);
    let filter = EventFilter { limit, ..EventFilter::default() };
    near(events(store, &filter).await.unwrap().0.len(), whole.events, "events", of);
    let query = FetchQuery { limit, ..FetchQuery::default() };
    near(fetches(store, &query).await.unwrap().len(), whole.fetches, "fetches", of);
    near(world.tasks(TaskFilter::default()).await.len(), whole.tasks, "tasks", of);
    let query = SourceQuery { limit, ..SourceQuery::default() };
    near(sources(store, &query).await.unwrap().len(), 2, "sources", of);
    near(world.store.sources().await.unwrap().len(), 2, "sources", of);
    channels(store, &ChannelQuery { limit, ..ChannelQuery::default() }).await.unwrap();
    world.store.channels().await.unwrap();
    let filter = ArticleFilter { limit, ..ArticleFilter::default() };
    for (_, row) in world.store.articles(filter).await.unwrap() {
        world.store.revisions(row.id).await.unwrap();
    }
}

/// Everything that is delivered or a dead letter.
async fn delivered(world: &World, name: &str) -> usize {
    let dir = world.dir().join("out").join(name);
    targets::drain(world, "out", Configured::new(Target::ndjson(&dir))).await;
    let sink = world.store.open_sink("out", Start::Beginning).await.unwrap();
    assert_eq!(sink.last_error, None, "{name}");
    assert_eq!(sink.cursor.seq, world.store.log_ends(0).await.unwrap().last, "{name}");
    let written = ["articles", "entries", "events"].map(|kind| lines(&dir, kind).len());
    written.iter().sum::<usize>() + usize::try_from(sink.dead_letters).unwrap()
}

async fn exported(world: &World, name: &str) -> usize {
    let file = world.dir().join(format!("{name}.ndjson"));
    let form = Form { format: Format::Ndjson, mode: 0o600, raw_cells: false };
    let (store, all) = (&*world.store, Selection::default());
    let done = export::export(store, all, form, &file, &mut |_| {}).await.unwrap();
    usize::try_from(done.articles).unwrap() + done.damaged.len()
}

async fn replay(world: &World) {
    let reader = app::reader(&world.config).unwrap();
    let replay = Replay::new(&world.config, Arc::clone(&world.store), reader);
    for source in world.store.sources().await.unwrap() {
        let wanted = Wanted { source, kind: None, since: Ts::from_ms(0), until: None };
        replay.survey(&wanted, &mut |_| {}).await.unwrap();
        replay.apply(&wanted, &mut |_| {}).await.unwrap();
    }
}

/// Puts a copy of the store to every use; how many rows were damaged, and how many replay left so.
async fn use_all(world: &mut World, whole: &Whole, name: &str) -> (u64, u64) {
    world.reopen().await;
    let (_, listed) = damaged(&*world.store, 9).await.unwrap();
    listings(world, whole, name).await;
    assert_eq!(exported(world, name).await, whole.articles, "{name}");
    assert_eq!(delivered(world, name).await, whole.events, "{name}");
    replay(world).await;
    let (_, left) = damaged(&*world.store, 9).await.unwrap();
    let leases = world.store.claim(99, Lane::ALL).await.unwrap();
    assert!(!leases.is_empty(), "{name}: other hosts are served");
    world.store.maintain().await.unwrap();
    world.store.close().await;
    (listed, left)
}

async fn ready(world: &World) -> Whole {
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
    let totals = world.store.totals().await.unwrap();
    let size = |count: u64| usize::try_from(count).unwrap();
    Whole {
        articles: size(totals.articles),
        entries: size(totals.entries),
        events: size(totals.events),
        tasks: world.tasks(TaskFilter::default()).await.len(),
        fetches: size(totals.requests),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_any_column_holds_nothing_up() {
    let mut world = World::new(2, 3).await;
    let whole = ready(&world).await;
    world.store.close().await;
    let first = world.config.database_path();
    let conn = Connection::open(&first).unwrap();
    conn.execute_batch(PREPARE).unwrap();
    for (table, key, column) in all_columns() {
        let name = format!("{table}.{column}");
        let copy = world.dir().join(format!("{name}.db"));
        conn.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
        let spoiled = Connection::open(&copy).unwrap();
        spoiled.execute_batch(&spoil(table, key, &column, "x'ff00'")).unwrap();
        drop(spoiled);
        world.config.database.url = format!("file:{}", copy.display()).into();
        let (listed, left) = use_all(&mut world, &whole, &name).await;
        // What a feed had learned is not listed: the next poll learns it anew.
        assert_eq!(listed, u64::from(table != "feed"), "{name}");
        let is_kept_elsewhere = ["entry", "article", "article_text"].contains(&table);
        if is_kept_elsewhere {
            assert_eq!(left, 0, "{name} is mended");
        }
        std::fs::remove_file(&copy).unwrap();
    }
}

/// Garbage that a column of PostgreSQL can hold.
async fn garbage(client: &tokio_postgres::Client, table: &str, column: &str) -> &'static str {
    let sql = "SELECT data_type::text FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name = $1 AND column_name = $2";
    let kind: String = client.query_one(sql, &[&table, &column]).await.unwrap().get(0);
    match kind.as_str() {
        "bytea" => r"'\xff00'",
        "text" => "'garbage'",
        "smallint" => "-32768",
        _ => "-2147483648",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_any_column_holds_nothing_up_on_postgresql() {
    let Some(first) = database().await else { return };
    let shape = |setup: feedmill_newsroom::Setup| feedmill_newsroom::Setup {
        history: 3,
        publish_until: Some(setup.starts_at),
        ..setup
    };
    let mut world = World::on(&first.url, 2, shape).await;
    let whole = ready(&world).await;
    world.store.close().await;
    connect(&first.url).await.batch_execute(PREPARE).await.unwrap();
    for (table, key, column) in all_columns() {
        let name = format!("{table}.{column}");
        let copy: Database = first.copy().await;
        let client = connect(&copy.url).await;
        let garbage = garbage(&client, table, &column).await;
        let spoiled = spoil(table, key, &column, garbage);
        client.batch_execute(&spoiled).await.unwrap();
        drop(client);
        world.config.database.url = copy.url.clone().into();
        let (listed, left) = use_all(&mut world, &whole, &name).await;
        let is_hash = garbage.starts_with(r"'\x");
        let is_covered = match table {
            "entry" | "article" => is_hash || ["body", "published", "checksum"].contains(&&*column),
            "article_text" => true,
            "event" => column != "source_id",
            _ => false,
        };
        assert!(!is_covered || listed == 1, "{name}: {listed} listed");
        if table == "article_text" || is_covered && table != "event" {
            assert_eq!(left, 0, "{name} is mended");
        }
    }
}
