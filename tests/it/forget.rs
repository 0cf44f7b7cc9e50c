//! Takedowns beside a running engine: nothing of it is left, and nobody brings it back.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use feedmill::app::{self, forget};
use feedmill::model::{ArticleRow, EventKind, Scope};
use feedmill::store::{ArticleFilter, EventFilter};
use feedmill_formats::{decode, warc};
use serde_json::Value;

use crate::archive::{cut_after, segments, verified};
use crate::bucket::{bucket, in_bucket};
use crate::kill::{binary, engine, terminate};
use crate::sinks::lines;
use crate::support::{World, until};

/// What a command says, as JSON, and how it ended.
fn run(world: &World, args: &[&str]) -> (Option<i32>, Value) {
    let done = binary()
        .args(args)
        .args(["--json", "--data-dir"])
        .arg(&world.config.data_dir)
        .env("FEEDMILL_CLOCK", world.clock.scale().unwrap().to_string())
        .current_dir(world.dir())
        .output()
        .unwrap();
    let said = if done.stdout.is_empty() { &done.stderr } else { &done.stdout };
    let said = serde_json::from_slice(said)
        .unwrap_or_else(|_| panic!("{args:?}: {}", String::from_utf8_lossy(said)));
    (done.status.code(), said)
}

/// All bodies in the archive that are pages, as text.
fn pages(dir: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for member in warc::scan(File::open(&path).unwrap(), u64::MAX) {
            let Ok(member) = member else { continue };
            let (from, length) = (member.offset as usize, member.length as usize);
            let record = warc::read_member(&bytes[from..from + length], u64::MAX).unwrap();
            if let Some((head, body)) = record.http() {
                let coding = head.get("content-encoding").map(str::to_owned);
                let plain = decode::capped(body, coding.as_deref(), 64 << 20).unwrap();
                all.push_str(&String::from_utf8_lossy(&plain));
            }
        }
    }
    all
}

async fn articles(world: &World) -> Vec<ArticleRow> {
    let filter = ArticleFilter { limit: 1_000, ..ArticleFilter::default() };
    world.store.articles(filter).await.unwrap().into_iter().map(|(_, row)| row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forgotten_beside_an_engine_is_nowhere_and_stays_away() {
    let world = World::new(2, 4).await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
    let all = articles(&world).await;
    let (story, other) = (&all[0], &all[1]);
    let url = story.article.url.as_str();
    let (_, text) = world.store.article(story.id).await.unwrap().unwrap();
    let words = text.lines().max_by_key(|line| line.len()).unwrap().to_owned();
    let archive = world.config.archive_dir();
    assert!(pages(&archive).contains(&words));

    let mut child = engine(&world);
    until("the engine", || async { world.store.engines().await.unwrap() > 0 }).await;
    let (code, said) = run(&world, &["forget", url]);
    assert_eq!((code, said["error"]["code"].as_str()), (Some(2), Some("usage")), "it asks why");
    let (code, said) = run(&world, &["forget", url, "--why", "the author asked"]);
    assert_eq!((code, said["error"]["code"].as_str()), (Some(2), Some("not_confirmed")));
    let (code, said) = run(&world, &["forget", url, "--dry-run"]);
    assert_eq!((code, said["articles"].as_array().unwrap().len()), (Some(0), 1), "{said}");
    assert!(world.store.article(story.id).await.unwrap().is_some());

    let (code, said) =
        run(&world, &["forget", url, "--why", "the author asked", "--by", "ann", "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said["bytes"], "left_to_the_engine");
    assert_eq!(said["takedown"]["articles"], 1, "{said}");
    assert!(said["takedown"]["records"].as_u64().unwrap() >= 1, "{said}");
    assert!(world.store.article(story.id).await.unwrap().is_none());
    until("the archive", || async {
        world.store.erasures(None, 1).await.unwrap().is_empty() && !pages(&archive).contains(&words)
    })
    .await;

    // Feeds go on to name it, and nothing comes of that.
    let polls = || world.newsroom.log().iter().filter(|it| it.path.contains("feed")).count();
    let before = polls();
    until("polls", || async { polls() > before + 2 }).await;
    let new = world.newsroom.log().iter().filter(|it| url.ends_with(&it.path)).count();
    assert_eq!(new, 1, "nobody asked for it again");
    let rejected = run(&world, &["frontier", "submit", url]).1;
    assert_eq!(rejected["rejected"][0]["code"], "withdrawn", "{rejected}");
    let (code, said) = run(&world, &["raw", "show", url]);
    assert_eq!((code, said["error"]["code"].as_str()), (Some(1), Some("withdrawn")));
    let (code, said) = run(&world, &["raw", "show", &other.article.url]);
    assert_eq!(code, Some(0), "{said}");
    assert!(terminate(&mut child));

    // Every place that the index names can be read, and archived documents do not bring it back.
    let (code, said) = run(&world, &["raw", "verify"]);
    assert_eq!((code, said["problems"].as_array().map(Vec::len)), (Some(0), Some(0)), "{said}");
    let (code, said) = run(&world, &["replay", "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(world.store.article(story.id).await.unwrap().is_none());
    let out = world.config.sink_dir("ndjson").unwrap();
    let told = lines(&out, "events").into_iter().filter(|line| {
        line["event"]["kind"] == "article.withdrawn"
            && line["event"]["subject"] == story.id.to_string()
    });
    assert_eq!(told.count(), 1);

    let (_, said) = run(&world, &["forget", "--list"]);
    let record = &said["takedowns"][0];
    assert_eq!((&record["by"], &record["why"]), (&"ann".into(), &"the author asked".into()));
    let (code, _) = run(&world, &["forget", url, "--undo"]);
    assert_eq!(code, Some(0));
    let taken = run(&world, &["frontier", "submit", url]).1;
    assert_eq!(taken["rejected"].as_array().unwrap().len(), 0, "{taken}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_or_source_goes_without_an_engine_at_once() {
    let world = World::new(2, 3).await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
    let sources = world.store.sources().await.unwrap();
    let host = |url: &str| feedmill_formats::url::host(&feedmill_formats::url::parse(url).unwrap());
    let first = host(&sources[0].spec.url);
    let (code, said) = run(&world, &["forget", "nobody", "--why", "x", "--yes"]);
    assert_eq!((code, said["error"]["code"].as_str()), (Some(2), Some("unknown_target")));
    let args = ["forget", &first, "--scope", "host", "--why", "order", "--yes"];
    let (code, said) = run(&world, &args);
    assert_eq!((code, said["bytes"].as_str()), (Some(0), Some("gone")), "{said}");
    let left = articles(&world).await;
    assert!(!left.is_empty() && left.iter().all(|row| host(&row.article.url) != first));
    let name = sources[1].spec.name.as_str();
    let args = ["forget", name, "--scope", "source", "--why", "order", "--yes"];
    let (code, said) = run(&world, &args);
    assert_eq!(code, Some(0), "{said}");
    assert!(articles(&world).await.is_empty());
    assert_eq!(run(&world, &["source", "enable", name]).1["error"]["code"], "withdrawn");
    let (code, said) = run(&world, &["raw", "verify"]);
    assert_eq!((code, said["problems"].as_array().map(Vec::len)), (Some(0), Some(0)), "{said}");
    // An engine that starts now asks nobody for anything.
    let before = world.newsroom.log().len();
    world.run_once().await;
    assert_eq!(world.newsroom.log().len(), before);
    let withdrawn = EventFilter { limit: 1_000, ..EventFilter::default() };
    let events = world.store.events(withdrawn).await.unwrap();
    let gone = events.iter().filter(|event| event.kind == EventKind::ArticleWithdrawn).count();
    assert_eq!(gone as u64, published);
    assert!(matches!(
        forget::undo(&*world.store, "nothing", Some(Scope::Host), "me").await,
        Err(forget::ForgetError::NotDown(_))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forgotten_is_gone_from_the_bucket_wherever_that_is_cut_off() {
    let Some(bucket) = bucket() else { return };
    let mut world = World::new(2, 3).await;
    in_bucket(&mut world.config, &bucket);
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
    assert_eq!(segments(&world), Vec::<String>::new(), "all is in the bucket");
    let reader = app::reader(&world.config).unwrap();
    let remote = reader.remote().unwrap();
    let there = async || {
        let dir = tempfile::tempdir().unwrap();
        for (name, _) in remote.list().await.unwrap() {
            let mut file = File::create(dir.path().join(&name)).unwrap();
            assert!(remote.download(&name, &mut file).await.unwrap());
        }
        pages(dir.path())
    };
    let all = articles(&world).await;
    let mut words = Vec::new();
    for row in &all {
        let (_, text) = world.store.article(row.id).await.unwrap().unwrap();
        words.push(text.lines().max_by_key(|line| line.len()).unwrap().to_owned());
    }
    let before = there().await;
    assert!(words.iter().all(|words| before.contains(words.as_str())));

    let sizes = remote.list().await.unwrap();
    let meant = forget::resolve(&*world.store, &all[0].article.url, None).await.unwrap();
    forget::forget(&*world.store, &meant, ("ann", "she asked"), &mut |_| {}).await.unwrap();
    let erase = |config| forget::erase(config, &world.clock, Arc::clone(&world.store));
    let mut away = world.config.clone();
    away.archive.endpoint = "http://127.0.0.1:9".into();
    assert!(erase(&away).await.is_err());
    assert!(!world.store.erasures(None, 1).await.unwrap().is_empty(), "it is still to be done");
    let mut steps = 0;
    while cut_after(steps, erase(&world.config)).await.is_none() {
        assert_eq!(verified(&world).await.problems, [], "after {steps} steps");
        steps += 1;
    }
    assert!(steps > 3, "there was something to cut");
    assert!(world.store.erasures(None, 1).await.unwrap().is_empty());
    let after = there().await;
    assert!(!after.contains(&words[0]));
    assert!(words.iter().skip(1).all(|words| after.contains(words.as_str())));
    assert_eq!(remote.list().await.unwrap(), sizes, "everything else is where it was");
    assert_eq!(segments(&world), Vec::<String>::new(), "nothing is left here");
    assert!(!world.config.archive_dir().join("erase.partial").exists());
    assert_eq!(verified(&world).await.problems, []);
}
