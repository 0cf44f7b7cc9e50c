//! Moving an installation from one database to the other and back.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use feedmill::app::carry::{CarryError, Move, Moved, Place, move_store};
use feedmill::app::{self, Mode, RunOptions};
use feedmill::db::transfer::{PgSide, Side as _, SqliteSide, keep_number, tables};
use feedmill::db::{Connection, EngineLock, PgDb};
use feedmill::model::{Kind, Lane};
use rusqlite::types::Value;
use tokio_util::sync::CancellationToken;

use crate::kill::binary;
use crate::postgres::{connect, database};
use crate::process::Process;
use crate::support::World;

/// The highest number that a task ever had; the task is gone.
const DELETED: i64 = 5_000;

/// All rows of an embedded database, by table.
pub(crate) fn dump(file: &Path) -> BTreeMap<String, Vec<Vec<Value>>> {
    let conn = Connection::open(file).unwrap();
    let rows = |sql: &str, width: usize| {
        let mut select = conn.prepare(sql).unwrap();
        let row = |row: &rusqlite::Row<'_>| (0..width).map(|at| row.get(at)).collect();
        select.query_map([], row).unwrap().map(Result::unwrap).collect::<Vec<Vec<Value>>>()
    };
    let all = tables().unwrap().into_iter().map(|table| {
        let columns: Vec<_> = table.columns.iter().map(|column| format!("\"{column}\"")).collect();
        let key = columns[..table.keys].join(", ");
        let sql = format!("SELECT {} FROM {} ORDER BY {key}", columns.join(", "), table.name);
        let rows = rows(&sql, columns.len());
        (table.name, rows)
    });
    let mut all: BTreeMap<_, _> = all.collect();
    all.insert(
        "sqlite_sequence".into(),
        rows("SELECT name, seq FROM sqlite_sequence ORDER BY name", 2),
    );
    all
}

/// A store that has seen real work, with something in every table.
pub(crate) async fn filled() -> World {
    let world = World::new(3, 4).await;
    world.follow().await;
    world.run_once().await;
    world.submit("https://far.newsroom.test/later", Kind::Article).await;
    let conn = Connection::open(world.config.database_path()).unwrap();
    // What no small newsroom leads to: a second source, a removed one, text with everything in it.
    conn.execute_batch(
        "INSERT INTO task_source SELECT id, 77, 1, 0, 5 FROM task LIMIT 3;
         INSERT INTO outside VALUES(77, 'far.example', 'https://far.example/a', 3, 5, 6);
         INSERT INTO meta VALUES('note of an operator', 'é 😀 ''quoted'' \\N line\nend');
         INSERT INTO article_revision
           SELECT row, 1, 9, content_hash, fetch_id, 3, 2, 1, '{}', x'28b52ffd', 7 FROM article
             LIMIT 2;
         INSERT INTO discovery VALUES(77, '{}');
         INSERT INTO dead_letter VALUES('ndjson', 3, 5, 2, 0, 'refused', 'why not');
         INSERT INTO takedown VALUES(1, 'a.test', 5, 'a.test', 'ann', 'why', 1, 2, 3, 6, 7, 'bob');
         INSERT INTO withdrawn VALUES(x'0102', 0, 'https://a.test/');
         INSERT INTO erasure VALUES('s1', 7, 300, 'ab');
         INSERT INTO token VALUES('0123456789ab', 'dash', 1, x'00ff', 5, 6);
         INSERT INTO audit(at, who, method, path, status) VALUES(5, 'dash', 'POST', '/x', 201);
         UPDATE article SET simhash = -9223372036854775808 WHERE row = 1;
         INSERT INTO source(uuid, name, url, spec, created_at) VALUES('u', 'gone', 'x', '{}', 1);
         DELETE FROM source WHERE name = 'gone'",
    )
    .unwrap();
    keep_number(&conn, DELETED).unwrap();
    for (table, rows) in dump(&world.config.database_path()) {
        // Who works on one store does not work on the other.
        assert_eq!(rows.is_empty(), table == "process", "rows of {table}");
    }
    world
}

async fn carry(world: &World, from: &str, to: &str) -> Result<Moved, CarryError> {
    let what = Move { from: from.parse().unwrap(), to: to.parse().unwrap(), restart: false };
    move_store(&world.config, &world.clock, &what, Box::new(|_| {})).await
}

fn path(world: &World) -> String {
    world.config.database_path().display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_goes_to_postgresql_and_back_and_is_the_same() {
    let Some(database) = database().await else { return };
    let world = filled().await;
    world.store.close().await;
    let before = dump(&world.config.database_path());
    let moved = carry(&world, &path(&world), &database.url).await.unwrap();
    let rows: usize = before
        .iter()
        .filter(|(name, _)| *name != "sqlite_sequence")
        .map(|(_, rows)| rows.len())
        .sum();
    // The counters of leases and tasks are rows in one and sequences in the other.
    assert_eq!(moved.carried.rows as usize, rows - 2);
    assert_eq!(dump(&world.config.database_path()), before, "the source stays as it is");

    let client = connect(&database.url).await;
    let sinks = client.query("SELECT name FROM sink", &[]).await.unwrap();
    assert!(sinks[0].get::<_, String>(0).contains('@'), "a sink has its name of this machine");
    let last: i64 = client.query_one("SELECT nextval('lease_id')", &[]).await.unwrap().get(0);
    let leases = before["meta"].iter().find(|row| row[0] == Value::Text("lease".into())).unwrap();
    let Value::Text(leases) = &leases[1] else { panic!("{leases:?}") };
    assert!(last > leases.parse().unwrap(), "no lease is given out twice");
    let tasks = "SELECT pg_sequence_last_value(pg_get_serial_sequence('task', 'id')::regclass),
        (SELECT count(*) FROM task WHERE host_id = 0)";
    let tasks = client.query_one(tasks, &[]).await.unwrap();
    assert_eq!((tasks.get(0), tasks.get(1)), (DELETED, 0_i64), "a deleted task keeps its number");
    let new = "INSERT INTO source(uuid, name, url, spec, created_at)
        VALUES('v', 'new', 'x', '{}', 1) RETURNING id";
    let new: i64 = client.query_one(new, &[]).await.unwrap().get(0);
    let counter = |row: &Vec<Value>| row[0] == Value::Text("source".into());
    let counter = before["sqlite_sequence"].iter().position(counter).expect("a counter");
    let Value::Integer(used) = before["sqlite_sequence"][counter][1] else { panic!("no counter") };
    assert_eq!(new, used + 1, "no source gets the number of a removed one");
    client.batch_execute("DELETE FROM source WHERE name = 'new'").await.unwrap();

    let back = world.dir().join("back/feedmill.db");
    carry(&world, &database.url, &back.display().to_string()).await.unwrap();
    let mut after = dump(&back);
    // What happened in between: one lease more and one source more; no number is used again.
    let (mut expected, lease) = (before, Value::Text("lease".into()));
    for dump in [&mut expected, &mut after] {
        dump.get_mut("meta").unwrap().retain(|row| row[0] != lease);
    }
    expected.get_mut("sqlite_sequence").unwrap()[counter][1] = Value::Integer(used + 1);
    for (table, rows) in &expected {
        assert_eq!(rows, &after[table], "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_goes_on_after_the_move_where_it_was() {
    let Some(database) = database().await else { return };
    let mut world = World::new(3, 5).await;
    world.follow().await;
    world.run_once().await;
    let leased = world.store.claim(1, Lane::ALL).await.unwrap().len() as u64;
    let delivered = world.store.totals().await.unwrap().articles;
    world.store.close().await;
    let moved = carry(&world, &path(&world), &database.url).await.unwrap();
    assert_eq!(moved.freed, leased, "nobody holds a lease any more");
    world.config.database.url = database.url.clone().into();
    world.store = app::open(&world.config, &world.clock).await.unwrap();
    world.run_once().await;
    let report = world.report().await;
    assert!(report.is_perfect(), "{report:#?}");
    let told = crate::sinks::lines(&world.config.data_dir.join("out"), "articles");
    assert!(told.len() as u64 >= delivered);
    crate::sinks::places(&told);
    world.store.close().await;
}

/// A store with many tasks, made quickly.
fn big(dir: &Path, rows: u32) -> PathBuf {
    let file = dir.join("feedmill.db");
    let mut conn = Connection::open(&file).unwrap();
    conn.pragma_update(None, "journal_mode", "WAL").unwrap();
    feedmill::db::migrate::up(&mut conn).unwrap();
    conn.execute_batch(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
         INSERT INTO task(id, host_id, lane, hash, kind, prio, status, due, origin, discovered_at, url)
           SELECT i, 1, 1, i * 7919, 1, 5, 0, i, 0, i, 'https://a.test/story/' || i FROM n;
         INSERT INTO delayed SELECT due, id FROM task"
    ))
    .unwrap();
    file
}

fn command(dir: &Path, args: &[&str]) -> std::process::Command {
    let mut command = binary();
    command.args(args).arg("--data-dir").arg(dir).current_dir(dir).stdin(Stdio::null());
    command
}

fn run(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command(dir, args).output().unwrap();
    let told = [stdout, stderr].concat();
    (status.code(), String::from_utf8(told).unwrap())
}

/// Begins a move and kills it once something was copied.
fn interrupt(dir: &Path, to: &str) {
    let mut child = Process::spawn(command(dir, &["move", "--to", to]).stderr(Stdio::piped()));
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let copied = lines.map(Result::unwrap).find(|line| line.contains("copying task"));
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was killed in the middle");
    assert!(copied.is_some_and(|line| line.contains("rows (")), "it told how far it was");
}

fn resumed(told: &str) -> u64 {
    let value: serde_json::Value = serde_json::from_str(told).unwrap_or_else(|_| panic!("{told}"));
    value["moved"]["resumed"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_was_killed_goes_on_and_a_changed_row_is_found() {
    let Some(database) = database().await else { return };
    let dir = tempfile::tempdir().unwrap();
    const ROWS: u32 = 60_000;
    let file = big(dir.path(), ROWS);
    interrupt(dir.path(), &database.url);
    let client = connect(&database.url).await;
    let count = |table| {
        let (client, sql) = (&client, format!("SELECT count(*) FROM {table}"));
        async move { client.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0) }
    };
    assert!(count("task").await > 0, "some rows were copied");
    assert_eq!(count("meta").await, 1, "and it was not done");

    // No engine works on half of it, and nothing else is moved there.
    let url = format!("database.url={}", database.url);
    for command in [&["once"][..], &["frontier", "stats"], &["host", "block", "a.test"]] {
        let (code, told) = run(dir.path(), &[command, &["--set", &url]].concat());
        assert!(code == Some(1) && told.contains("has not come to its end"), "{told}");
    }
    let elsewhere = tempfile::tempdir().unwrap();
    big(elsewhere.path(), 10);
    let (code, told) = run(elsewhere.path(), &["move", "--to", &database.url]);
    assert!(code == Some(1) && told.contains("unfinished move from"), "{told}");

    client.batch_execute("UPDATE task SET url = 'https://b.test/' WHERE id = 7").await.unwrap();
    client.batch_execute("DELETE FROM task WHERE id = 9").await.unwrap();
    let (code, told) = run(dir.path(), &["move", "--to", &database.url, "--quiet"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("2 rows differ"), "{told}");
    assert!(told.contains("task (7): has another url"), "{told}");
    assert!(told.contains("task (9): is missing in the target"), "{told}");

    // Put right, it goes on from there.
    client
        .batch_execute(
            "UPDATE task SET url = 'https://a.test/story/7' WHERE id = 7;
             INSERT INTO task(id, host_id, lane, hash, kind, prio, status, due, origin,
               discovered_at, url)
             VALUES(9, 1, 1, 9 * 7919, 1, 5, 0, 9, 0, 9, 'https://a.test/story/9')",
        )
        .await
        .unwrap();
    let (code, told) = run(dir.path(), &["move", "--to", &database.url, "--json"]);
    assert_eq!((code, resumed(&told)), (Some(0), u64::from(ROWS) * 2), "{told}");
    assert_eq!(count("task").await, i64::from(ROWS));
    assert_eq!(count("meta").await, 0, "nothing is left of the move itself");

    // And back, killed as well.
    let other = tempfile::tempdir().unwrap();
    let target = other.path().join("there.db");
    let to = target.display().to_string();
    let url = format!("database.url={}", database.url);
    let begun = ["move", "--to", &to, "--set", &url];
    let mut child = Process::spawn(command(other.path(), &begun).stderr(Stdio::piped()));
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("copying task")).unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, told) = run(other.path(), &[&begun[..], &["--json"]].concat());
    assert_eq!(code, Some(0), "{told}");
    assert!(resumed(&told) > 0, "{told}");
    assert_eq!(dump(&target), dump(&file));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_writes_to_what_is_being_moved_and_anybody_to_what_is_backed_up() {
    let dir = tempfile::tempdir().unwrap();
    let file = big(dir.path(), 5);
    let writes = || {
        let conn = Connection::open(&file).unwrap();
        conn.busy_timeout(std::time::Duration::ZERO).unwrap();
        conn.execute("DELETE FROM task WHERE id = 1", []).is_ok()
    };
    for alone in [true, false] {
        let mut side = SqliteSide::open(&file).unwrap();
        side.freeze(alone).unwrap();
        assert_eq!(writes(), !alone);
    }

    let Some(database) = database().await else { return };
    let client = connect(&database.url).await;
    PgDb::open(&database.url, None).await.unwrap().close().await;
    client.batch_execute("SET lock_timeout = '50ms'").await.unwrap();
    for alone in [false, true] {
        let db = PgDb::open(&database.url, None).await.unwrap();
        let mut side = PgSide::open(&db).await.unwrap();
        let frozen = move || side.freeze(alone).map(|()| side);
        let side = tokio::task::spawn_blocking(frozen).await.unwrap().unwrap();
        let written = client.batch_execute("DELETE FROM task WHERE id = 1").await;
        assert_eq!(written.is_ok(), !alone);
        drop(side);
        db.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_changed_between_two_tries_is_not_mixed() {
    let Some(database) = database().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = big(dir.path(), 60_000);
    interrupt(dir.path(), &database.url);
    Connection::open(&file).unwrap().execute("DELETE FROM task WHERE id = 1", []).unwrap();
    let (code, told) = run(dir.path(), &["move", "--to", &database.url]);
    assert!(code == Some(1) && told.contains("has changed since the move began"), "{told}");
    let (code, told) = run(dir.path(), &["move", "--to", &database.url, "--restart"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("database.url = \"postgres://"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_moves_are_refused_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let file = big(dir.path(), 5);
    let refused = |args: &[&str], exit: i32, words: &str| {
        let (code, told) = run(dir.path(), args);
        assert_eq!(code, Some(exit), "{args:?}: {told}");
        assert!(told.contains(words) && told.lines().count() == 1, "{args:?}: {told}");
    };
    let own = file.display().to_string();
    refused(&["move"], 2, "--to");
    refused(&["move", "--to", "mysql://a:b@c/d"], 2, "--to is no known database");
    refused(&["move", "--to", "."], 2, "is a directory");
    refused(&["move", "--to", &own], 1, "are the same database");
    refused(&["move", "--from", "none.db", "--to", "x.db"], 1, "there is no database at none.db");
    refused(&["move", "--to", "postgres://a:secret@127.0.0.1:1/d"], 1, "cannot open the database");
    assert!(!dir.path().join("x.db").exists(), "nothing is left behind");

    let held = EngineLock::take(&EngineLock::of_database(&file)).unwrap();
    refused(&["move", "--to", "x.db"], 1, "an engine runs on");
    drop(held);
    let other = tempfile::tempdir().unwrap();
    let used = big(other.path(), 3).display().to_string();
    refused(&["move", "--to", &used], 1, "holds data already");

    let Some(database) = database().await else { return };
    let db = PgDb::open(&database.url, None).await.unwrap();
    assert!(db.work(feedmill::db::Role::Engine, |_| {}).await.unwrap());
    refused(&["move", "--to", &database.url], 1, "an engine runs on postgres://");
    assert!(db.alone().await.unwrap().is_err());
    db.close().await;
    let url = format!("database.url={}", database.url);
    refused(&["move", "--set", &url, "--to", &database.url], 1, "are the same database");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_engine_starts_on_postgresql_while_it_is_moved() {
    let Some(database) = database().await else { return };
    let mut world = World::new(1, 1).await;
    world.config.database.url = database.url.clone().into();
    let db = PgDb::open(&database.url, None).await.unwrap();
    let alone = db.alone().await.unwrap().expect("nobody works");
    let options = || RunOptions { mode: Mode::Once, lanes: Lane::ALL.to_vec() };
    let run = || {
        let stop = CancellationToken::new();
        app::run(&world.config, &world.clock, options(), stop, std::sync::Arc::default())
    };
    assert_eq!(run().await.unwrap_err().code(), "database_taken");
    alone.release().await;
    run().await.unwrap();
    db.alone().await.unwrap().expect("the engine has ended").release().await;
    db.close().await;
}

#[test]
fn a_place_is_told_without_its_password() {
    let place: Place = "postgres://ann:secret@db/news".parse().unwrap();
    assert_eq!(place.to_string(), "postgres://ann:***@db/news");
}
