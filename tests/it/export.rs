//! `feedmill export`: every format reads back, and nothing half is ever left under a file's name.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use feedmill::app::export::{self, Form, Format, Selection};
use feedmill::db::Connection;
use feedmill::model::{ArticleRow, Ts};
use feedmill::store::ArticleFilter;
use feedmill_formats::warc;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use serde_json::Value;

use crate::kill::binary;
use crate::support::World;

async fn world() -> (World, Vec<ArticleRow>) {
    let world = World::new(2, 4).await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
    let filter = ArticleFilter { limit: 1_000, ..ArticleFilter::default() };
    let rows = world.store.articles(filter).await.unwrap().into_iter().map(|(_, row)| row);
    let rows = rows.collect();
    (world, rows)
}

fn run(world: &World, args: &[&str]) -> (Option<i32>, Value) {
    let done = binary()
        .args(["export", "--json", "--data-dir"])
        .arg(&world.config.data_dir)
        .args(args)
        .current_dir(world.dir())
        .env("FEEDMILL_CLOCK", world.clock.scale().unwrap().to_string())
        .output()
        .unwrap();
    let said = if done.stdout.is_empty() { &done.stderr } else { &done.stdout };
    (done.status.code(), serde_json::from_slice(said).unwrap())
}

fn ids(rows: &[ArticleRow]) -> BTreeSet<String> {
    rows.iter().map(|row| row.id.to_string()).collect()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_format_reads_back() {
    let (world, rows) = world().await;
    let all = ids(&rows);
    let file = |name: &str| world.dir().join(name);
    for name in ["a.ndjson", "a.csv", "a.parquet", "a.sqlite"] {
        let (code, said) = run(&world, &["--out", name]);
        assert_eq!((code, said["articles"].as_u64()), (Some(0), Some(all.len() as u64)), "{said}");
        assert_eq!(said["bytes"].as_u64(), Some(fs::metadata(file(name)).unwrap().len()));
    }
    let found: BTreeSet<String> =
        lines(&file("a.ndjson")).iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, all);
    for line in lines(&file("a.ndjson")) {
        let story = world.newsroom.story(line["url"].as_str().unwrap()).unwrap();
        assert_eq!(line["text"], story.text);
    }
    let conn = Connection::open(file("a.sqlite")).unwrap();
    let mut select = conn.prepare("SELECT id FROM article").unwrap();
    let found = select.query_map([], |row| row.get(0)).unwrap();
    assert_eq!(found.collect::<Result<BTreeSet<String>, _>>().unwrap(), all);

    let columns = SerializedFileReader::new(File::open(file("a.parquet")).unwrap()).unwrap();
    let found =
        columns.get_row_iter(None).unwrap().map(|row| row.unwrap().get_string(0).unwrap().clone());
    assert_eq!(found.collect::<BTreeSet<_>>(), all);
    let text = fs::read_to_string(file("a.csv")).unwrap();
    assert!(text.starts_with("id,url,"), "{text}");
    assert!(all.iter().all(|id| text.contains(id)));

    let (code, said) = run(&world, &["--out", "a.warc.gz"]);
    assert_eq!(code, Some(0), "{said}");
    let members = warc::scan(File::open(file("a.warc.gz")).unwrap(), u64::MAX);
    assert_eq!(
        members.filter(Result::is_ok).count() as u64,
        1 + 2 * said["records"].as_u64().unwrap()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_a_time_or_nothing_can_be_chosen() {
    let (world, rows) = world().await;
    let sources = world.store.sources().await.unwrap();
    let own: Vec<ArticleRow> =
        rows.iter().filter(|row| row.source == Some(sources[0].id)).cloned().collect();
    let (code, said) = run(&world, &["--out", "one.ndjson", "--source", &sources[0].spec.name]);
    assert_eq!(code, Some(0), "{said}");
    let found = lines(&world.dir().join("one.ndjson"));
    assert!(!own.is_empty() && own.len() < rows.len());
    assert_eq!(
        found.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>(),
        ids(&own)
    );
    let mut times: Vec<Ts> = rows.iter().map(|row| row.first_seen).collect();
    times.sort_unstable();
    let (first, middle) = (times[0].to_string(), times[times.len() / 2]);
    let until = ["--out", "early.ndjson", "--since", &first, "--until", &middle.to_string()];
    let (code, said) = run(&world, &until);
    let early = times.iter().filter(|at| **at < middle).count() as u64;
    assert_eq!((code, said["articles"].as_u64()), (Some(0), Some(early)), "{said}");

    // Nothing to export is a whole file without rows.
    for name in ["none.ndjson", "none.csv", "none.parquet", "none.sqlite"] {
        let (code, said) = run(&world, &["--out", name, "--until", "2001-01-01T00:00:00Z"]);
        assert_eq!((code, said["articles"].as_u64()), (Some(0), Some(0)), "{name}: {said}");
        assert!(world.dir().join(name).exists(), "{name}");
    }
    let empty = File::open(world.dir().join("none.parquet")).unwrap();
    assert_eq!(SerializedFileReader::new(empty).unwrap().get_row_iter(None).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_exported_leaves_nothing_behind() {
    let (world, _) = world().await;
    let code_of = |args: &[&str]| run(&world, args).1["error"]["code"].as_str().unwrap().to_owned();
    assert_eq!(code_of(&["--out", "a.txt"]), "no_format");
    assert_eq!(run(&world, &["--out", "a.csv", "--format", "xlsx"]).0, Some(2));
    assert_eq!(code_of(&["--out", "a.csv", "--source", "nobody"]), "unknown_source");
    assert_eq!(code_of(&["--out", "not/there/a.csv"]), "unwritable");
    fs::write(world.dir().join("taken.csv"), "mine").unwrap();
    assert_eq!(code_of(&["--out", "taken.csv"]), "exists");
    assert_eq!(fs::read_to_string(world.dir().join("taken.csv")).unwrap(), "mine");

    // Whoever breaks it off in the middle has no file: neither whole nor half.
    for (format, name) in [
        (Format::Ndjson, "half.ndjson"),
        (Format::Csv, "half.csv"),
        (Format::Parquet, "half.parquet"),
        (Format::Sqlite, "half.sqlite"),
    ] {
        let path = world.dir().join(name);
        let store = std::sync::Arc::clone(&world.store);
        // Its name is taken while it is being written.
        let blocked = path.clone();
        let mut block = |_| fs::create_dir_all(blocked.join("in the way")).unwrap();
        let form = Form { format, mode: 0o600, raw_cells: false };
        let done = export::export(&*store, Selection::default(), form, &path, &mut block).await;
        assert_eq!(done.unwrap_err().code(), "unwritable", "{name}");
        let left: Vec<_> = fs::read_dir(world.dir())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|it| it.starts_with("half") && it != name)
            .collect();
        assert_eq!(left, [""; 0], "{name}");
        fs::remove_dir_all(&path).unwrap();
    }
}
