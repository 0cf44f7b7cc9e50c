//! Backups beside running engines, and what becomes of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use feedmill::app;
use feedmill::app::backup::{BackedUp, back_up, restore};
use feedmill::archive::Reader;
use feedmill::config::Config;
use feedmill::db::{Connection, EngineLock};
use feedmill::model::RawRef;

use feedmill_newsroom::Setup;
use rusqlite::types::Value;

use crate::kill::{binary, engine, terminate};
use crate::postgres::database;
use crate::support::{LIMIT, World};
use crate::transfer::{dump, filled};

async fn saved(world: &World, to: &Path) -> BackedUp {
    back_up(&world.config, &world.clock, to, true, Box::new(|_| {})).await.unwrap()
}

async fn restored(
    config: &Config,
    world: &World,
    file: &Path,
    force: bool,
) -> Result<app::backup::Restored, String> {
    let done = restore(config, &world.clock, file, force, Box::new(|_| {})).await;
    done.map_err(|error| format!("{}: {error}", error.code()))
}

/// A configuration for a new place.
fn elsewhere(world: &World, name: &str) -> Config {
    let mut config = world.config.clone();
    config.data_dir = world.dir().join(name);
    config
}

/// Every record that the database refers to can be read from that archive.
/// The rows of a database, without the counters that a restore moves on.
fn rows(database: &Path) -> BTreeMap<String, Vec<Vec<Value>>> {
    let mut all = dump(database);
    all.remove("sqlite_sequence");
    all
}

/// The place in the log behind which the next event gets its own.
fn last_event(database: &Path) -> i64 {
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'event'";
    Connection::open(database).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

pub(crate) async fn assert_archived(database: &Path, dir: PathBuf) {
    let archive = Reader::new(dir, None);
    let conn = Connection::open(database).unwrap();
    let sql = "SELECT segment, \"offset\", length FROM fetch WHERE segment IS NOT NULL";
    let mut select = conn.prepare(sql).unwrap();
    let found = select.query_map([], |row| {
        Ok(RawRef { segment: row.get(0)?, offset: row.get(1)?, length: row.get(2)? })
    });
    let found: Vec<_> = found.unwrap().map(Result::unwrap).collect();
    assert!(!found.is_empty());
    for raw in found {
        archive.stored(&raw).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_beside_a_running_engine_is_whole_and_work_goes_on_from_it() {
    let world = World::with(6, |setup| Setup {
        history: 20,
        rate_per_hour: 20.0,
        day_profile: false,
        publish_until: Some(setup.starts_at + 60 * 60 * 1000),
        ..setup
    })
    .await;
    world.follow().await;
    let mut child = engine(&world);
    let began = Instant::now();
    while world.store.totals().await.unwrap().articles < 20 {
        assert!(began.elapsed() < LIMIT, "the engine works");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let backups = world.dir().join("backups");
    std::fs::create_dir(&backups).unwrap();
    let done = saved(&world, &backups).await;
    assert!(terminate(&mut child));
    assert!(done.file.file_name().unwrap().to_str().unwrap().starts_with("feedmill-"));
    let (kept, segments) = done.archive.clone().unwrap();
    assert_eq!(segments.missing, Vec::<String>::new());
    assert_archived(&done.file, kept).await;

    let config = elsewhere(&world, "again");
    let back = restored(&config, &world, &done.file, false).await.unwrap();
    assert_eq!(back.set_aside, None);
    assert_eq!(rows(&config.database_path()), rows(&done.file));
    assert_archived(&done.file, config.archive_dir()).await;
    let store = app::open(&config, &world.clock).await.unwrap();
    assert!(store.totals().await.unwrap().articles >= 20);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restoring_never_loses_what_was_there() {
    let world = filled().await;
    world.store.close().await;
    let file = world.dir().join("kept.db");
    saved(&world, &file).await;
    let database = world.config.database_path();
    let told = restored(&world.config, &world, &file, false).await.unwrap_err();
    assert!(told.starts_with("target_not_empty") && told.contains("--force"), "{told}");
    let running = EngineLock::take(&EngineLock::of_database(&database)).unwrap();
    let told = restored(&world.config, &world, &file, true).await.unwrap_err();
    assert!(told.starts_with("engine_running"), "{told}");
    drop(running);

    let conn = Connection::open(&database).unwrap();
    conn.execute("INSERT INTO meta VALUES('later', 'x')", []).unwrap();
    drop(conn);
    let later = dump(&database);
    let back = restored(&world.config, &world, &file, true).await.unwrap();
    let aside = back.set_aside.unwrap();
    assert_eq!(dump(&aside), later, "what was there is beside it");
    // Events that were delivered since the backup keep their ids for themselves, after each restore.
    assert!(last_event(&database) >= last_event(&aside) + 1_000);
    let first = last_event(&database);
    restored(&world.config, &world, &file, true).await.unwrap();
    assert!(last_event(&database) >= first + 1_000);
    assert_eq!(rows(&database), rows(&file));

    // A newer one is refused, a damaged one as well, and both leave everything as it was.
    let before = dump(&database);
    let newer = Connection::open(&file).unwrap();
    newer.pragma_update(None, "user_version", 9_999).unwrap();
    drop(newer);
    let told = restored(&world.config, &world, &file, true).await.unwrap_err();
    assert!(told.starts_with("database_schema") && told.contains("newer feedmill"), "{told}");
    std::fs::write(&file, "no database").unwrap();
    let told = restored(&world.config, &world, &file, true).await.unwrap_err();
    assert!(told.starts_with("not_a_backup"), "{told}");
    assert_eq!(dump(&database), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_postgresql_is_an_ordinary_file_and_goes_back_to_either() {
    let (Some(first), Some(second)) = (database().await, database().await) else { return };
    let world = filled().await;
    world.store.close().await;
    let embedded = world.dir().join("embedded.db");
    saved(&world, &embedded).await;
    let shared = |url: &str| {
        let mut config = world.config.clone();
        config.database.url = url.to_owned().into();
        config
    };
    restored(&shared(&first.url), &world, &embedded, false).await.unwrap();
    let told = restored(&shared(&first.url), &world, &embedded, false).await.unwrap_err();
    assert!(told.starts_with("target_not_empty"), "{told}");

    let file = world.dir().join("server.db");
    let config = shared(&first.url);
    back_up(&config, &world.clock, &file, false, Box::new(|_| {})).await.unwrap();
    let second = shared(&second.url);
    restored(&second, &world, &file, false).await.unwrap();
    let again = world.dir().join("again.db");
    back_up(&second, &world.clock, &again, false, Box::new(|_| {})).await.unwrap();
    let (one, two) = (rows(&file), rows(&again));
    assert!(last_event(&again) > last_event(&file) && last_event(&file) > last_event(&embedded));
    for (table, rows) in &one {
        assert_eq!(rows, &two[table], "{table}");
    }

    // In the directory of the sinks: their places are found again.
    let mut config = world.config.clone();
    config.database.url = format!("file:{}", world.dir().join("home.db").display()).into();
    restored(&config, &world, &file, false).await.unwrap();
    let (home, original) = (rows(&config.database_path()), rows(&embedded));
    for (table, rows) in &original {
        assert_eq!(rows, &home[table], "{table}");
    }
    let forced = restored(&second, &world, &file, true).await.unwrap();
    assert_eq!(dump(&forced.set_aside.unwrap())["task"], one["task"], "set aside as a backup");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_fails_leaves_nothing_in_the_way_of_the_next() {
    let world = filled().await;
    let (dir, aside) = (world.config.archive_dir(), world.dir().join("aside"));
    let segment = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
    std::fs::rename(&segment, &aside).unwrap();
    std::fs::create_dir(&segment).unwrap();
    let file = world.dir().join("kept.db");
    let failed = back_up(&world.config, &world.clock, &file, true, Box::new(|_| {})).await;
    assert_eq!(failed.unwrap_err().code(), "archive_io");
    let names = std::fs::read_dir(world.dir()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("kept")).collect();
    assert!(left.is_empty(), "{left:?}");
    std::fs::remove_dir(&segment).unwrap();
    std::fs::rename(&aside, &segment).unwrap();
    let (beside, _) = saved(&world, &file).await.archive.unwrap();
    assert_archived(&file, beside).await;
}

#[test]
fn bad_backups_are_refused_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |args: &[&str], words: &str| {
        let output =
            binary().args(args).current_dir(dir.path()).stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {told}");
        assert!(told.contains(words) && told.lines().count() == 1, "{args:?}: {told}");
    };
    refused(&["backup", "x.db"], "there is no database at");
    refused(&["restore", "x.db"], "is not a backup of feedmill");
    let done = binary().args(["init", "--quiet"]).current_dir(dir.path()).output().unwrap();
    assert!(done.status.success());
    std::fs::write(dir.path().join("x.db"), "mine").unwrap();
    refused(&["backup", "x.db"], "x.db exists already");
    refused(&["restore", "x.db"], "is not a backup of feedmill");
    refused(&["backup", "none/x.db"], "none/x.db");
    let done = binary().args(["backup", "y.db"]).current_dir(dir.path()).output().unwrap();
    let told = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success() && told.contains("the archive is not in it"), "{told}");
}
