//! Sinks: every line once, none torn, whatever happened before.

mod cluster;
mod cuts;
mod faults;
mod gate;
mod late;
mod listener;
mod pump;
mod readers;
mod servers;
pub(crate) mod targets;
mod tls;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use feedmill::progress::Progress;
use feedmill::sinks::ndjson::{Ndjson, Settings};
use feedmill::sinks::{Pump, Terms};
use feedmill::store::outbox::Start;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::World;
pub(crate) use gate::{Gate, Mode};
pub(crate) use servers::redis_server;

fn files(dir: &Path, folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// How many lines are whole while somebody writes on: the last one may be half there.
pub(crate) fn written(dir: &Path, folder: &str) -> usize {
    let ends = |path| fs::read(path).unwrap().iter().filter(|byte| **byte == b'\n').count();
    if dir.join(folder).is_dir() { files(dir, folder).into_iter().map(ends).sum() } else { 0 }
}

/// All lines below a folder, parsed, when nobody writes there any more.
pub(crate) fn lines(dir: &Path, folder: &str) -> Vec<Value> {
    let files = files(dir, folder);
    let text: String = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).expect("a whole line of JSON")).collect()
}

/// Each line's place in the log, which no two lines share.
pub(crate) fn places(lines: &[Value]) -> BTreeSet<i64> {
    let places: BTreeSet<_> = lines.iter().map(|l| l["event"]["seq"].as_i64().unwrap()).collect();
    assert_eq!(places.len(), lines.len(), "no line is there twice");
    places
}

async fn pump(world: &World, dir: &Path) {
    let stop = CancellationToken::new();
    stop.cancel();
    let settings = Settings { dir: dir.to_owned(), ..Settings::default() };
    let pump = Pump {
        name: "late".into(),
        who: "test".into(),
        hold: Duration::from_mins(1),
        renew: Duration::from_secs(20),
        sink: Box::new(Ndjson::new(settings)),
        terms: Terms::default(),
        store: Arc::clone(&world.store),
        progress: Arc::new(Progress::default()),
        stop,
    };
    pump.run().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_comes_late_gets_everything_and_a_crash_tears_nothing() {
    let world = World::new(4, 5).await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;

    let dir = world.dir().join("late");
    pump(&world, &dir).await;
    let articles = lines(&dir, "articles");
    let entries = lines(&dir, "entries");
    assert_eq!(articles.len() as u64, published);
    assert_eq!(entries.len() as u64, world.store.totals().await.unwrap().entries);
    places(&articles);
    places(&entries);
    for line in &articles {
        let story = world.newsroom.story(line["url"].as_str().unwrap()).unwrap();
        assert_eq!(line["text"], story.text);
    }

    // A crash after writing and before the cursor was saved: lines beyond it, one of them torn.
    let path = fs::read_dir(dir.join("articles")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read_to_string(&path).unwrap();
    let saved = world.store.open_sink("late", Start::Now).await.unwrap().cursor;
    fs::write(&path, format!("{whole}{{\"url\":\"half a li")).unwrap();
    pump(&world, &dir).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);

    // What somebody else put there is left alone.
    let foreign = dir.join("articles/1999-01-01.ndjson");
    fs::write(&foreign, "{}\n").unwrap();
    pump(&world, &dir).await;
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "{}\n");
    assert_eq!(world.store.open_sink("late", Start::Now).await.unwrap().cursor, saved);
}
