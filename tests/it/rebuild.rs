//! A database that is gone: nothing makes a new one in its place, and it is built again from the
//! archive, with the same ids, without asking anybody.

mod outcomes;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use feedmill::app::rebuild::{self, Options, Rebuilt};
use feedmill::app::{self, Mode, RunOptions};
use feedmill::config::{Sink, Target};
use feedmill::db::Db;
use feedmill::frontier::TaskFilter;
use feedmill::model::{FetchId, Kind, Lane, Ts};
use feedmill::store::{ArticleFilter, Store};
use feedmill_newsroom::Setup;
use tokio_util::sync::CancellationToken;

use crate::kill::binary;
use crate::postgres::database;
use crate::sinks::{lines, places};
use crate::support::World;

/// Ids and content hashes, of entries and of articles.
type Contents = (BTreeMap<String, [u8; 32]>, BTreeMap<String, [u8; 32]>);

async fn contents(store: &dyn Store) -> Contents {
    let filter = TaskFilter { kind: Some(Kind::Feed), limit: 1_000, ..TaskFilter::default() };
    let mut entries = BTreeMap::new();
    for feed in store.list(filter).await.unwrap() {
        for (id, _) in store.entries_since(feed.id, FetchId::nil()).await.unwrap() {
            // What was taken down is only known by its id.
            let row = store.entry(id).await.unwrap();
            entries.insert(id.to_string(), row.map_or([0; 32], |row| row.content_hash));
        }
    }
    let filter = ArticleFilter { limit: 10_000, ..ArticleFilter::default() };
    let articles = store.articles(filter).await.unwrap().into_iter();
    let articles = articles.map(|(_, row)| (row.id.to_string(), row.content_hash)).collect();
    (entries, articles)
}

async fn identities(store: &dyn Store) -> Vec<(String, String, Ts)> {
    let sources = store.sources().await.unwrap().into_iter();
    sources.map(|source| (source.spec.name, source.uuid, source.created_at)).collect()
}

/// A newsroom that goes on publishing, followed for a while by an engine that writes lines.
async fn world(database: &str) -> World {
    let mut world = World::on(database, 5, |setup| Setup {
        history: 4,
        rate_per_hour: 4.0,
        day_profile: false,
        publish_until: Some(setup.starts_at + 2 * 60 * 60 * 1000),
        ..setup
    })
    .await;
    let target = Target::ndjson(world.dir().join("lines"));
    world.config.sinks = [("lines".to_owned(), Sink::new(target))].into();
    world.follow().await;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= 24 }).await;
    world
}

fn remove_database(path: &Path) {
    for end in ["", "-wal", "-shm"] {
        drop(fs::remove_file(format!("{}{end}", path.display())));
    }
}

async fn refusal(world: &World) -> String {
    let opened = app::open(&world.config, &world.clock).await;
    let opened = opened.err().expect("no store is made anew");
    let options = RunOptions { mode: Mode::Once, lanes: Lane::ALL.to_vec() };
    let stop = CancellationToken::new();
    let ran = app::run(&world.config, &world.clock, options, stop, Arc::default()).await;
    assert_eq!(opened.code(), "store_gone");
    assert_eq!(ran.unwrap_err().to_string(), opened.to_string());
    opened.to_string()
}

async fn rebuild(world: &World, options: Options) -> Rebuilt {
    let mut read = 0;
    let mut watch = |done, _| read = done;
    let done = rebuild::rebuild(&world.config, &world.clock, options, &mut watch).await.unwrap();
    assert_eq!(done.unreadable, Vec::<String>::new());
    assert!(done.has_catalog && done.unplaced == 0, "{done:?}");
    done
}

/// What is rebuilt is what was, and work goes on as if nothing had happened.
async fn assert_goes_on(mut world: World, before: Contents, sources: Vec<(String, String, Ts)>) {
    let asked = world.newsroom.log().len();
    let delivered = places(&lines(&world.dir().join("lines"), "articles")).len();
    let began = world.clock.now();
    let done = rebuild(&world, Options::default()).await;
    assert_eq!(world.newsroom.log().len(), asked, "nobody was asked");
    world.reopen().await;
    assert_eq!(contents(&*world.store).await, before);
    assert_eq!(identities(&*world.store).await, sources);
    assert_eq!(done.articles, before.1.len() as u64);
    let feeds = TaskFilter { kind: Some(Kind::Feed), ..TaskFilter::default() };
    let due = world.tasks(feeds).await.into_iter().map(|feed| feed.next_fetch_at);
    let due: std::collections::BTreeSet<_> = due.collect();
    assert!(due.len() > 1 && due.iter().all(|due| *due > began), "in the future, and apart");
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
    assert_eq!(world.served_twice(), Vec::<String>::new(), "no archived page is asked for again");
    let report = world.report().await;
    assert!(report.is_perfect(), "{report:#?}");
    let told = lines(&world.dir().join("lines"), "articles");
    let new = usize::try_from(published).unwrap() - before.1.len();
    assert_eq!(told.len(), delivered + new, "the sink got what is new and nothing else");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_database_is_rebuilt_with_the_same_ids_and_work_goes_on() {
    let world = world("").await;
    let before = contents(&*world.store).await;
    let sources = identities(&*world.store).await;
    world.store.close().await;
    let path = world.config.database_path();
    // Somebody's data is never written over.
    let mut watch = |_, _| {};
    let options = Options::default();
    let error = rebuild::rebuild(&world.config, &world.clock, options, &mut watch).await;
    assert_eq!(error.unwrap_err().code(), "store_not_empty");
    remove_database(&path);
    assert!(refusal(&world).await.contains("feedmill rebuild"));
    fs::write(&path, "").unwrap();
    assert!(refusal(&world).await.contains("0 bytes"));
    // Segments alone are enough to know.
    fs::remove_file(world.config.data_dir.join("store.json")).unwrap();
    assert!(refusal(&world).await.contains("holds archived responses"));
    let dry = rebuild(&world, Options { dry_run: true, deliver: false }).await;
    assert!(dry.responses > 24 && dry.sources == 5, "{dry:?}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 0, "a dry run makes nothing");
    assert_goes_on(world, before, sources).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_schema_is_rebuilt_on_postgres() {
    let (Some(first), Some(second)) = (database().await, database().await) else { return };
    let mut world = world(&first.url).await;
    let before = contents(&*world.store).await;
    let sources = identities(&*world.store).await;
    world.store.close().await;
    world.config.database.url = second.url.clone().into();
    assert!(refusal(&world).await.contains("feedmill rebuild"));
    assert_goes_on(world, before, sources).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_that_was_interrupted_goes_on_and_nobody_uses_half_of_it() {
    let mut world = world("").await;
    let before = contents(&*world.store).await;
    world.store.close().await;
    remove_database(&world.config.database_path());
    let half = std::sync::atomic::AtomicU64::new(0);
    {
        let mut watch = |done, _| half.store(done, std::sync::atomic::Ordering::Relaxed);
        let options = Options::default();
        let work = rebuild::rebuild(&world.config, &world.clock, options, &mut watch);
        tokio::pin!(work);
        // Dropped in the middle, as a process that is killed drops it.
        loop {
            tokio::select! {
                _ = &mut work => panic!("it was too quick"),
                () = tokio::task::yield_now() => {}
            }
            if half.load(std::sync::atomic::Ordering::Relaxed) >= 15 {
                break;
            }
        }
    }
    assert!(refusal(&world).await.contains("not fully rebuilt"));
    let (config, clock, copy) = (&world.config, &world.clock, world.dir().join("copy.db"));
    let backed_up = app::backup::back_up(config, clock, &copy, false, Box::new(|_| {})).await;
    let moved = app::carry::Move {
        from: app::carry::Place::Embedded(config.database_path()),
        to: app::carry::Place::Embedded(copy.clone()),
        restart: false,
    };
    let moved = app::carry::move_store(config, clock, &moved, Box::new(|_| {})).await;
    for refused in [backed_up.unwrap_err(), moved.unwrap_err()] {
        assert!(refused.to_string().contains("not fully rebuilt"), "{refused}");
    }
    assert!(!copy.exists());
    rebuild(&world, Options::default()).await;
    world.reopen().await;
    assert_eq!(contents(&*world.store).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_down_stays_down() {
    let mut world = world("").await;
    let story = world.newsroom.published(world.clock.now().ms()).remove(0);
    let meant = app::forget::resolve(&*world.store, &story.url, None).await.unwrap();
    app::forget::forget(&*world.store, &meant, ("ann", "asked"), &mut |_| {}).await.unwrap();
    let store = Arc::clone(&world.store);
    // Before its bytes are gone: what was taken down is known beside the archive.
    app::forget::erase(&world.config, &world.clock, store).await.unwrap();
    let (entries, articles) = contents(&*world.store).await;
    world.store.close().await;
    remove_database(&world.config.database_path());
    rebuild(&world, Options::default()).await;
    world.reopen().await;
    assert!(world.store.is_refused(&story.url).await.unwrap());
    assert_eq!(contents(&*world.store).await, (entries, articles));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_catalog_sources_come_from_archived_feeds() {
    let mut world = world("").await;
    let (_, articles) = contents(&*world.store).await;
    world.store.close().await;
    remove_database(&world.config.database_path());
    fs::remove_file(world.config.data_dir.join("catalog.json")).unwrap();
    let (options, mut watch) = (Options::default(), |_, _| {});
    let done = rebuild::rebuild(&world.config, &world.clock, options, &mut watch).await.unwrap();
    assert!(!done.has_catalog && done.sources > 0, "{done:?}");
    world.reopen().await;
    assert_eq!(contents(&*world.store).await.1, articles);
    let names = identities(&*world.store).await.into_iter().map(|(name, ..)| name);
    let hosts: Vec<String> = world.newsroom.publishers().iter().map(|p| p.host.clone()).collect();
    assert!(names.into_iter().all(|name| hosts.contains(&name)));
}

fn feedmill(dir: &Path, args: &[&str]) -> Output {
    let mut command: Command = binary();
    command.args(args).arg("--data-dir").arg(dir).current_dir(dir.parent().unwrap());
    command.output().unwrap()
}

#[test]
fn no_command_makes_a_store_where_one_was() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    assert!(feedmill(&data, &["source", "list"]).status.code() == Some(1), "there is none yet");
    assert!(feedmill(&data, &["migrate", "up"]).status.success());
    assert!(feedmill(&data, &["source", "list"]).status.success());
    let path = data.join("feedmill.db");
    for empty in [false, true] {
        remove_database(&path);
        if empty {
            fs::write(&path, "").unwrap();
        }
        for args in [
            &["run"][..],
            &["once"],
            &["init", "--contact", "https://a.example/"],
            &["source", "list"],
            &["source", "add", "https://a.example/feed", "--no-check"],
            &["migrate", "up"],
            &["export", "articles"],
            &["doctor"],
            &["backup", "copy.db"],
            &["move", "--to", "sqlite:other.db"],
        ] {
            let out = feedmill(&data, args);
            let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
            assert!(!out.status.success(), "{args:?}: {said}");
            if out.status.code() == Some(1) {
                assert!(said.contains("feedmill restore FILE"), "{args:?}: {said}");
            }
            assert_eq!(fs::metadata(&path).map_or(0, |found| found.len()), 0, "{args:?}");
        }
    }
}

#[test]
fn a_truncated_database_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    assert!(feedmill(&data, &["migrate", "up"]).status.success());
    let path = data.join("feedmill.db");
    let whole = fs::read(&path).unwrap();
    assert!(feedmill(&data, &["source", "list"]).status.success());
    // What a database has is in its log until that is brought into the file.
    let other = dir.path().join("other.db");
    let db = Db::open(&other).unwrap();
    let without_log = fs::read(&other).unwrap();
    assert!(without_log.len() < whole.len());
    drop(db);
    let lengths = [7, 16, 100, 4_096, whole.len() / 2, whole.len() - 4_096];
    let mut left: Vec<&[u8]> = lengths.iter().map(|length| &whole[..*length]).collect();
    left.push(&without_log);
    for bytes in left {
        let length = bytes.len();
        remove_database(&path);
        fs::write(&path, bytes).unwrap();
        for args in
            [&["run"][..], &["once"], &["source", "list"], &["backup", "copy.db"], &["doctor"]]
        {
            let out = feedmill(&data, args);
            let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
            assert!(!out.status.success(), "{length} {args:?}: {said}");
            for word in ["feedmill restore FILE", "feedmill rebuild"] {
                assert!(said.contains(word), "{length} {args:?}: {said}");
            }
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), length as u64, "it is left as it is");
    }
}

#[test]
fn a_damaged_page_keeps_the_engine_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    assert!(feedmill(&data, &["migrate", "up"]).status.success());
    let file = OpenOptions::new().write(true).open(data.join("feedmill.db")).unwrap();
    file.write_all_at(&[0xa5; 4_096], 4 * 4_096).unwrap();
    let out = feedmill(&data, &["once"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("is damaged") && said.contains("feedmill restore"), "{said}");
}
