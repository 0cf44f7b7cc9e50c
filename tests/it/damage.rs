//! A damaged row, from the fault to the end: everything else is delivered and exported, `doctor` lists
//! the row, `replay` restores it from the archive, and the sink gets it.

mod columns;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use feedmill::config::{Sink as Configured, Target};
use feedmill::db::Connection;
use feedmill::store::ArticleFilter;
use feedmill::store::outbox::Start;
use serde_json::Value;

use crate::kill::binary;
use crate::sinks::{lines, places, targets};
use crate::support::World;

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(world: &World, args: &[&str]) -> Said {
    let done = binary()
        .args(args)
        .arg("--data-dir")
        .arg(&world.config.data_dir)
        .current_dir(world.dir())
        .env("FEEDMILL_CLOCK", world.clock.scale().unwrap().to_string())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Said { code: done.status.code(), stdout: text(&done.stdout), stderr: text(&done.stderr) }
}

fn ids(lines: &[Value]) -> BTreeSet<String> {
    lines.iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect()
}

async fn deliver(world: &World, dir: &Path) -> (u64, Option<String>) {
    targets::drain(world, "out", Configured::new(Target::ndjson(dir))).await;
    let sink = world.store.open_sink("out", Start::Beginning).await.unwrap();
    assert_eq!(sink.cursor.seq, world.store.log_ends(0).await.unwrap().last);
    (sink.dead_letters, sink.last_error)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_row_holds_nothing_up_and_is_restored_from_the_archive() {
    let world = targets::read(2, 4).await;
    let filter = ArticleFilter { limit: 99, ..ArticleFilter::default() };
    let rows = world.store.articles(filter).await.unwrap();
    let all: BTreeSet<String> = rows.iter().map(|(_, row)| row.id.to_string()).collect();
    let (first, second) = (rows[0].0, rows[1].0);
    let bad = [rows[0].1.id.to_string(), rows[1].1.id.to_string()];
    Connection::open(world.config.database_path())
        .unwrap()
        .execute_batch(&format!(
            "UPDATE article SET body = replace(body, '\"url\"', '\"URL\"') WHERE row = {first};
             UPDATE article_text SET zstd = x'00' WHERE row = {second};
             UPDATE entry SET body = CAST(x'ff' AS TEXT) WHERE row = 1;"
        ))
        .unwrap();

    let dir = world.dir().join("out");
    let (dead, error) = deliver(&world, &dir).await;
    assert_eq!((dead, error), (3, None), "one letter for each row, and nothing is held up");
    let good: BTreeSet<String> = all.iter().filter(|id| !bad.contains(id)).cloned().collect();
    assert_eq!(ids(&lines(&dir, "articles")), good);
    let letters = world.store.dead_letters("out", 0, false, 9).await.unwrap();
    assert!(letters.iter().all(|it| it.code == "row_damaged"), "{letters:?}");
    for id in &bad {
        assert!(letters.iter().any(|it| it.reason.contains(id)), "{id}: {letters:?}");
    }

    let doctor = run(&world, &["doctor"]);
    assert_eq!(doctor.code, Some(1), "{}", doctor.stdout);
    for words in [&bad[0], &bad[1], "3 damaged rows", "feedmill replay"] {
        assert!(doctor.stdout.contains(words), "{words}: {}", doctor.stdout);
    }
    let export = run(&world, &["export", "--out", "some.ndjson"]);
    assert_eq!(export.code, Some(1), "{}", export.stderr);
    for words in [&bad[0], &bad[1], "skipped 2 damaged articles"] {
        assert!(export.stderr.contains(words), "{words}: {}", export.stderr);
    }
    let some = fs::read_to_string(world.dir().join("some.ndjson")).unwrap();
    assert_eq!(some.lines().count(), good.len());
    let listed = run(&world, &["article", "list"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);

    let replay = run(&world, &["replay", "--yes"]);
    assert_eq!(replay.code, Some(0), "{}{}", replay.stdout, replay.stderr);
    assert!(replay.stdout.contains("changed 3"), "{}{}", replay.stdout, replay.stderr);
    let doctor = run(&world, &["doctor"]);
    assert_eq!(doctor.code, Some(0), "{}", doctor.stdout);
    assert_eq!(deliver(&world, &dir).await, (0, None));
    let articles = lines(&dir, "articles");
    places(&articles);
    assert_eq!(ids(&articles), all);
    for line in &articles {
        let story = world.newsroom.story(line["url"].as_str().unwrap()).unwrap();
        assert_eq!(line["text"], story.text);
    }
    assert_eq!(lines(&dir, "entries").len() as u64, world.store.totals().await.unwrap().entries);
    assert_eq!(run(&world, &["export", "--out", "all.ndjson"]).code, Some(0));
}
