//! Segments of the archive that are removed, cut short, replaced or appended to while the engine writes them: work
//! goes on at once, no page is asked for again, and every place that the index names can be read. And a log of the
//! database that another program could remove.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use feedmill::app;
use feedmill::db::Connection;
use feedmill::store::FetchFilter;

use crate::kill::command;
use crate::process::Process;
use crate::support::{World, until};

/// The segment that is open now.
fn open_segment(archive: &Path) -> PathBuf {
    let files = fs::read_dir(archive).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|it| it == "open")).unwrap()
}

fn remove(archive: &Path) {
    fs::remove_file(open_segment(archive)).unwrap();
}

fn truncate(archive: &Path) {
    let file = fs::OpenOptions::new().write(true).open(open_segment(archive)).unwrap();
    // In the middle of a record, most likely.
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
}

fn replace(archive: &Path) {
    let (path, other) = (open_segment(archive), archive.join("other"));
    fs::write(&other, b"not a segment").unwrap();
    fs::rename(&other, path).unwrap();
}

fn extend(archive: &Path) {
    let mut file = fs::OpenOptions::new().append(true).open(open_segment(archive)).unwrap();
    file.write_all(b"bytes of somebody else").unwrap();
}

fn remove_all(archive: &Path) {
    fs::remove_dir_all(archive).unwrap();
}

/// Runs an engine to the end, with damage done to its archive in the middle; how many responses are
/// lost.
async fn run_with(damage: fn(&Path)) -> usize {
    let world = World::new(6, 6).await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    let (archive, done) = (world.config.archive_dir(), AtomicBool::new(false));
    world
        .run_until(|| async {
            let articles = world.store.totals().await.unwrap().articles;
            if articles >= 4 && !done.swap(true, Ordering::Relaxed) {
                damage(&archive);
            }
            articles >= published
        })
        .await;
    assert!(done.into_inner());
    let report = world.report().await;
    assert!(report.is_perfect(), "{report:#?}");
    assert_eq!(world.served_twice(), Vec::<String>::new(), "nobody is asked again");
    let reader = app::reader(&world.config).unwrap();
    let filter = FetchFilter { limit: usize::MAX, ..FetchFilter::default() };
    let fetches = world.store.find_fetches(filter).await.unwrap();
    for raw in fetches.iter().filter_map(|fetch| fetch.raw.as_ref()) {
        reader.stored(raw).await.unwrap();
    }
    let kept = fetches.iter().filter(|fetch| fetch.raw.is_some()).count();
    assert!(kept > 0, "what came after the damage is kept");
    fetches.iter().filter(|fetch| fetch.status.is_some() && fetch.raw.is_none()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_segment_costs_what_it_held_and_work_goes_on() {
    assert!(run_with(remove).await >= 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_segment_costs_what_was_cut_off_and_work_goes_on() {
    assert!(run_with(truncate).await >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_segment_costs_what_it_held_and_work_goes_on() {
    assert!(run_with(replace).await >= 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_somebody_else_appends_to_costs_nothing_and_work_goes_on() {
    assert_eq!(run_with(extend).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_archive_is_made_again_and_work_goes_on() {
    assert!(run_with(remove_all).await >= 4);
}

/// SQLite removes a database's log with its last connection. An engine that has lost its locks is not counted.
#[tokio::test(flavor = "multi_thread")]
async fn another_program_that_reads_the_database_does_not_remove_its_log() {
    let world = World::new(4, 4).await;
    world.follow().await;
    world.store.close().await;
    let _engine = Process::spawn(&mut command(&world, &world.config.data_dir, None, &[]));
    let database = world.config.database_path();
    let articles = || {
        let other = Connection::open(&database).unwrap();
        let count = other.query_row("SELECT count(*) FROM article", [], |row| row.get(0));
        count.unwrap_or(0i64)
    };
    // What the engine writes later on is seen only as long as it writes to the log that is there.
    until("articles", || async { articles() > 0 }).await;
    let before = articles();
    until("more articles", || async { articles() > before }).await;
}
