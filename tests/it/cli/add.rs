//! `source add` as people meet it: a look, a question, a first poll that asks nobody twice.

use std::process::Command;

use feedmill::db::EngineLock;
use feedmill::model::NewSource;
use feedmill_newsroom::{Front, Newsroom, Setup};
use serde_json::Value;

use super::Reply;
use crate::kill::{ANYWHERE, binary};
use crate::process::Process;
use crate::support::World;

async fn newsroom(front: Front) -> World {
    World::with(1, |setup| Setup {
        history: 3,
        fronts: vec![front],
        sitemap_only_share: 0.0,
        publish_until: Some(setup.starts_at),
        ..setup
    })
    .await
}

/// The program beside the newsroom, with a directory of its own.
fn program(world: &World, args: &[&str]) -> Command {
    let mut command = binary();
    command
        .args(args)
        .args(["--set", &format!("fetch.resolve=*.test={}", world.newsroom.addr())])
        .args(["--set", "fetch.contact=https://newsroom.test/robot", "--data-dir"])
        .arg(world.dir().join("own"))
        .env("FEEDMILL_CLOCK", world.clock.scale().unwrap().to_string())
        .current_dir(world.dir());
    command
}

/// Runs the program without a terminal.
async fn run(world: &World, args: &[&str]) -> Reply {
    let mut command = program(world, args);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Reply { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn asked(newsroom: &Newsroom, url: &str) -> usize {
    let log = newsroom.log();
    log.iter().filter(|it| format!("http://{}{}", it.host, it.path) == url).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_page_is_looked_at_and_followed_and_its_feed_is_asked_for_once() {
    let world = newsroom(Front::Plain).await;
    let publisher = &world.newsroom.publishers()[0];
    let (home, feed) = (publisher.url("/"), publisher.feed_url().unwrap());
    let unasked = run(&world, &["source", "add", &home]).await;
    assert_eq!((unasked.code, world.newsroom.log().len()), (2, 0), "{}", unasked.stderr);
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    assert!(!world.dir().join("own").exists(), "nothing is stored without a yes");

    let added = run(&world, &["source", "add", &home, "--yes"]).await;
    assert_eq!(added.code, 0, "{}", added.stderr);
    assert!(added.stderr.contains("a common place") && added.stderr.contains(&feed));
    assert!(added.stdout.contains("is followed: 1 feed"), "{}", added.stdout);
    assert_eq!(added.stdout.lines().count(), 4, "three entries: {}", added.stdout);
    assert_eq!(asked(&world.newsroom, &feed), 1);
    let delay = i64::try_from(world.config.hosts.delay.as_millis()).unwrap();
    assert_eq!(world.newsroom.impolite(delay), []);

    let shown = run(&world, &["source", "show", &publisher.host, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["source"]["url"], home.as_str());
    assert_eq!(shown["channels"][0]["items"], 3, "it was polled");
    let status = run(&world, &["source", "status", "--json"]).await;
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(
        (&status["counts"]["healthy"], &status["counts"]["failing"]),
        (&1.into(), &0.into())
    );
    let again = run(&world, &["source", "add", &home, "--yes"]).await;
    assert!(again.stderr.contains("exists already"), "{}", again.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_an_engine_too_the_feed_is_asked_for_once() {
    let world = newsroom(Front::Plain).await;
    let publisher = &world.newsroom.publishers()[0];
    let (home, feed) = (publisher.url("/"), publisher.feed_url().unwrap());
    let mut engine = Process::spawn(&mut program(
        &world,
        &["run", "--quiet", "--lanes", "poll", "--set", ANYWHERE],
    ));
    let lock = world.dir().join("own/feedmill.db");
    while !EngineLock::is_held(&lock) {
        assert!(engine.try_wait().unwrap().is_none(), "the engine ended");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let added = run(&world, &["source", "add", &home, "--yes"]).await;
    engine.kill().unwrap();
    engine.wait().unwrap();
    assert_eq!(added.code, 0, "{}", added.stderr);
    assert!(!added.stdout.contains("when an engine runs"), "{}", added.stdout);
    assert_eq!(asked(&world.newsroom, &feed), 1);
    let robots = asked(&world.newsroom, &publisher.url("/robots.txt"));
    assert_eq!(robots, 1, "nor is its robots.txt");
    let shown = run(&world, &["source", "show", &publisher.host, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["channels"][0]["items"], 3, "the engine polled it");
    let left = std::fs::read_dir(world.dir().join("own/handover")).unwrap().count();
    assert_eq!(left, 0, "nothing is left lying");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_found_all_that_was_tried_is_told_and_nothing_stored() {
    let world = newsroom(Front::Silent).await;
    let home = world.newsroom.publishers()[0].url("/");
    let added = run(&world, &["source", "add", &home, "--yes"]).await;
    assert_eq!(added.code, 1, "{}", added.stdout);
    for words in ["nothing to follow was found", "/feed: status 404", "/sitemap.xml", "--no-check"]
    {
        assert!(added.stderr.contains(words), "{words}: {}", added.stderr);
    }
    assert!(!world.dir().join("own").exists());
    let alone = run(&world, &["source", "add", &home, "--yes", "--no-discover"]).await;
    assert!(!alone.stderr.contains("/feed"), "{}", alone.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_tells_who_was_never_fetched_and_why() {
    let world = newsroom(Front::Silent).await;
    let publisher = &world.newsroom.publishers()[0];
    world.store.add_source(NewSource::new("quiet", publisher.url("/"))).await.unwrap();
    world.run_once().await;
    let mut command = binary();
    let output = command
        .args(["source", "status", "--data-dir"])
        .arg(&world.config.data_dir)
        .env("FEEDMILL_CLOCK", world.clock.scale().unwrap().to_string())
        .current_dir(world.dir())
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        told.starts_with("0 failing, 0 blocked, 0 over quota, 0 late, 1 never fetched"),
        "{told}"
    );
    assert!(told.contains("nothing found among 11 addresses"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_tells_what_a_list_would_find_and_stores_nothing() {
    let world = newsroom(Front::Plain).await;
    let feed = world.newsroom.publishers()[0].feed_url().unwrap();
    let list = format!(
        "<opml version='2.0'><body><outline text='One' xmlUrl='{feed}'/>\
         <outline text='Two' xmlUrl='{feed}?x=1'/>\
         <outline text='Lost' xmlUrl='{feed}.none'/></body></opml>"
    );
    std::fs::write(world.dir().join("list.opml"), list).unwrap();
    let rehearsed = run(&world, &["source", "import", "list.opml", "--rehearse", "--json"]).await;
    assert_eq!(rehearsed.code, 0, "{}", rehearsed.stderr);
    let told: Value = serde_json::from_str(&rehearsed.stdout).unwrap();
    assert_eq!((&told["found"], told["rows"].as_array().unwrap().len()), (&2.into(), 3));
    let first = &told["rows"][0];
    assert_eq!(
        (&first["found"][0]["items"], &first["found"][0]["kind"]),
        (&3.into(), &"feed".into())
    );
    assert_eq!(first["samples"].as_array().unwrap().len(), 3);
    assert!(first["requests_per_day"].as_f64().unwrap() >= 1.0, "{first}");
    assert!(told["rows"][2]["tried"][0]["why"].as_str().unwrap().contains("404"), "{told}");
    assert!(!world.dir().join("own").exists(), "nothing is stored");
    let delay = i64::try_from(world.config.hosts.delay.as_millis()).unwrap();
    assert_eq!(world.newsroom.impolite(delay), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_of_a_spreadsheet_tells_what_its_pages_list() {
    let world = newsroom(Front::Plain).await;
    let home = world.newsroom.publishers()[0].url("/");
    let rows = format!(
        "Name,URL,Ingestion Mode,Website,Article Selector\nSearched,{home},,,\nWalked,{home},spider,,\n\
         Listed,{home},,list,.teaser h2 a\nWrong,{home},,list,.none a\n"
    );
    std::fs::write(world.dir().join("list.csv"), rows).unwrap();
    let rehearsed = run(&world, &["source", "import", "list.csv", "--rehearse", "--json"]).await;
    assert_eq!(rehearsed.code, 0, "{}", rehearsed.stderr);
    let told: Value = serde_json::from_str(&rehearsed.stdout).unwrap();
    let page = |row: usize| &told["rows"][row]["page"];
    assert_eq!(told["rows"][0]["found"][0]["kind"], "feed", "{told}");
    assert!(page(1)["articles"].as_u64().unwrap() > 0, "{told}");
    assert!(page(1)["pattern"].as_str().unwrap().starts_with('/'), "{told}");
    assert!(page(2)["articles"].as_u64().unwrap() > 0, "{told}");
    assert_eq!(page(3)["articles"], 0, "{told}");
    assert_eq!(told["found"], 3, "{told}");
    assert!(!world.dir().join("own").exists(), "nothing is stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_asks_nobody() {
    let world = newsroom(Front::Plain).await;
    let home = world.newsroom.publishers()[0].url("/");
    std::fs::write(world.dir().join("list.txt"), format!("{home}\n")).unwrap();
    let imported = run(&world, &["source", "import", "list.txt"]).await;
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    assert!(imported.stdout.contains("1 source added"), "{}", imported.stdout);
    assert!(world.newsroom.log().is_empty(), "the engine asks, in its own time");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_are_read_are_shown_before_they_are_followed() {
    let world = newsroom(Front::Plain).await;
    let home = world.newsroom.publishers()[0].url("/");
    let list = ["source", "add", &home, "--yes", "--website", "list", "--article-selector"];
    let wrong = run(&world, &[&list[..], &[".none a"]].concat()).await;
    assert_eq!(wrong.code, 1, "{}", wrong.stdout);
    assert!(wrong.stderr.contains("picks no link"), "{}", wrong.stderr);
    assert!(!world.dir().join("own").exists(), "nothing is stored");
    let before = asked(&world.newsroom, &home);
    let right = run(&world, &[&list[..], &[".teaser h2 a"]].concat()).await;
    assert_eq!(right.code, 0, "{}", right.stderr);
    assert!(right.stderr.contains("the page lists 3 articles"), "{}", right.stderr);
    assert_eq!(asked(&world.newsroom, &home), before + 1, "what was read is its first poll");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_without_feeds_is_walked_all_the_same() {
    let world = newsroom(Front::Silent).await;
    let home = world.newsroom.publishers()[0].url("/");
    let both = run(&world, &["source", "add", &home, "--yes", "--mode", "both"]).await;
    assert_eq!(both.code, 0, "a page to walk is enough: {}", both.stderr);
    assert!(both.stderr.contains("the page lists"), "{}", both.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_that_are_named_are_kept_beside_the_home_page() {
    let world = newsroom(Front::Plain).await;
    let publisher = &world.newsroom.publishers()[0];
    let (home, feed) = (publisher.url("/"), publisher.feed_url().unwrap());
    let added = run(&world, &["source", "add", &home, "--feed-url", &feed, "--yes"]).await;
    assert_eq!(added.code, 0, "{}", added.stderr);
    assert_eq!(asked(&world.newsroom, &home), 0, "its channels are named");
    let shown = run(&world, &["source", "show", &publisher.host, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(
        (&shown["source"]["url"], &shown["source"]["feed_urls"][0]),
        (&home.into(), &feed.clone().into())
    );
    let twice = run(&world, &["source", "add", &feed, "--name", "other", "--yes"]).await;
    assert_eq!(twice.code, 0, "{}", twice.stderr);
    assert!(twice.stdout.contains("another source follows it too"), "{}", twice.stdout);
}
