//! Each sink against its target, or a strict stand-in for it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use feedmill::app::deliver;
use feedmill::config::{EsLayout, Redaction, Sink as Configured, Target};
use feedmill::progress::Progress;
use feedmill::sinks::Pump;
use feedmill::store::ArticleFilter;
use feedmill::store::outbox::Start;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::cluster::Cluster;
use super::listener::{Answer, Listener};
use crate::support::World;

/// A world in which everything was read.
pub(crate) async fn read(publishers: usize, stories: usize) -> World {
    let world = World::new(publishers, stories).await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
    world
}

/// A sink of the configuration, at work until `stop`.
fn pump(world: &World, name: &str, target: Configured, stop: &CancellationToken) -> Pump {
    let mut config = world.config.clone();
    config.sinks = [(name.to_owned(), target)].into();
    let (sink, terms) = deliver::sink(name, &config, &world.clock, &world.store).unwrap().unwrap();
    Pump {
        name: name.into(),
        who: "test".into(),
        hold: std::time::Duration::from_hours(24 * 365),
        renew: std::time::Duration::from_secs(20),
        sink,
        terms,
        store: Arc::clone(&world.store),
        progress: Arc::new(Progress::default()),
        stop: stop.clone(),
    }
}

/// Delivers what is there, and ends.
pub(crate) async fn drain(world: &World, name: &str, target: Configured) {
    let stop = CancellationToken::new();
    stop.cancel();
    pump(world, name, target, &stop).run().await;
}

async fn cursor(world: &World, name: &str) -> (i64, u64, Option<String>) {
    let sink = world.store.open_sink(name, Start::Beginning).await.unwrap();
    (sink.cursor.seq, sink.dead_letters, sink.last_error)
}

async fn last_event(world: &World) -> i64 {
    world.store.log_ends(0).await.unwrap().last
}

/// Waits until a sink has everything.
async fn arrived(world: &World, name: &str) {
    let all = async {
        while cursor(world, name).await.0 < last_event(world).await {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let done = tokio::time::timeout(crate::support::LIMIT, all).await;
    assert!(done.is_ok(), "{name}: {:?}", cursor(world, name).await);
}

fn cluster(url: &str, layout: EsLayout) -> Configured {
    let mut sink = Configured::new(Target::elasticsearch(url.to_owned().into()));
    if let Target::Elasticsearch { layout: it, .. } = &mut sink.target {
        *it = layout;
    }
    sink.batch = 20;
    sink
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_content_is_as_north_cloud_reads_it() {
    let world = read(3, 5).await;
    let cluster_ = Cluster::new().await;
    let target = cluster(&cluster_.listener.url, EsLayout::RawContent);
    drain(&world, "es", target.clone()).await;
    assert_eq!(cursor(&world, "es").await, (last_event(&world).await, 0, None));
    let articles = world
        .store
        .articles(ArticleFilter { limit: 1000, ..ArticleFilter::default() })
        .await
        .unwrap();
    let kept = cluster_.state.lock().unwrap().documents.clone();
    assert_eq!(kept.len(), articles.len());
    for ((index, id), (_, document)) in &kept {
        assert!(index.ends_with("_raw_content") && !index.contains('.'), "{index}");
        assert_eq!(document["id"], *id);
        assert_eq!(document["classification_status"], "pending");
        let story = world.newsroom.story(document["url"].as_str().unwrap()).unwrap();
        assert_eq!(document["raw_text"], story.text);
        let words = story.text.split_whitespace().count();
        assert_eq!(document["word_count"], words);
        assert!(document["raw_html"].as_str().is_some_and(|html| html.contains("<p>")));
    }
    // Again, from the beginning: nothing is written twice.
    let before = cluster_.state.lock().unwrap().writes.clone();
    let again = feedmill::store::outbox::SinkWish::Replay(Start::Beginning);
    world.store.wish("es", again).await.unwrap();
    drain(&world, "es", target).await;
    assert_eq!(cluster_.state.lock().unwrap().writes, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_content_says_nothing_that_is_not_to_be_handed_on() {
    let world = read(8, 5).await;
    let cluster_ = Cluster::new().await;
    let target = cluster(&cluster_.listener.url, EsLayout::RawContent);
    drain(&world, "open", target.clone()).await;
    let documents = || -> Vec<Value> {
        let documents = std::mem::take(&mut cluster_.state.lock().unwrap().documents);
        documents.into_values().map(|(_, document)| document).collect()
    };
    let open = documents();
    let names: BTreeSet<String> = open
        .iter()
        .filter_map(|it| it["json_ld_data"]["jsonld_author"].as_str().map(str::to_owned))
        .collect();
    assert!(!names.is_empty() && open.iter().any(|it| it["meta_description"] != ""));
    let redact = feedmill::config::SinkRedact {
        authors: Redaction::Drop,
        texts: Redaction::Drop,
        ..Default::default()
    };
    drain(&world, "shut", Configured { redact, ..target }).await;
    let shut = documents();
    assert_eq!(shut.len(), open.len());
    for document in &shut {
        let text = document.to_string();
        assert_eq!(
            (&document["raw_text"], &document["meta_description"]),
            (&"".into(), &"".into())
        );
        assert!(document.get("raw_html").is_none() && document.get("author").is_none(), "{text}");
        assert!(names.iter().all(|name| !text.contains(name.as_str())), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_busy_small_or_old_gets_everything() {
    let world = read(3, 5).await;
    let articles = world.store.totals().await.unwrap().articles as usize;
    for trouble in ["busy", "small", "old", "cut"] {
        let cluster_ = Cluster::new().await;
        {
            let mut state = cluster_.state.lock().unwrap();
            match trouble {
                "busy" => state.busy = 5,
                "small" => state.limit = 20_000,
                "old" => state.old = true,
                _ => state.cut = 1,
            }
        }
        let name = format!("es-{trouble}");
        let mut target = cluster(&cluster_.listener.url, EsLayout::Articles);
        if let Target::Elasticsearch { gzip, .. } = &mut target.target {
            *gzip = trouble != "small";
        }
        let stop = CancellationToken::new();
        let running = TaskTracker::new().spawn(pump(&world, &name, target, &stop).run());
        arrived(&world, &name).await;
        stop.cancel();
        running.await.unwrap();
        assert_eq!(cluster_.documents("articles").len(), articles, "{trouble}");
        assert_eq!(cursor(&world, &name).await.1, 0, "{trouble}");
    }
}

/// On a cluster of one's own, whose address `FEEDMILL_TEST_ELASTICSEARCH` is; without it, nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_cluster_takes_both_layouts() {
    let Ok(url) = std::env::var("FEEDMILL_TEST_ELASTICSEARCH") else { return };
    let world = read(2, 4).await;
    for (name, layout) in [("raw", EsLayout::RawContent), ("ours", EsLayout::Articles)] {
        drain(&world, name, cluster(&url, layout)).await;
        assert_eq!(cursor(&world, name).await, (last_event(&world).await, 0, None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_signed_and_comes_once_per_event() {
    let mut world = read(2, 4).await;
    world.config.fetch.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let listener = Listener::new(move |asked| {
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        match counted.fetch_add(1, Ordering::SeqCst) {
            0 => Answer::With(503, "retry-after: 1\r\n", "later".into()),
            _ if body["type"] == "entry.new" && body["data"]["event"]["seq"] == 3 => {
                Answer::With(422, "", "not that one".into())
            }
            _ => Answer::With(204, "", String::new()),
        }
    })
    .await;
    let mut target = Configured::new(Target::webhook(listener.url.clone().into()));
    if let Target::Webhook { secret, .. } = &mut target.target {
        *secret = "whsec_c2VjcmV0".to_owned().into();
    }
    let stop = CancellationToken::new();
    let running = TaskTracker::new().spawn(pump(&world, "hook", target, &stop).run());
    arrived(&world, "hook").await;
    stop.cancel();
    running.await.unwrap();
    let asked = listener.asked();
    let mut taken: Vec<&str> = Vec::new();
    for (at, asked) in asked.iter().enumerate() {
        let (id, time) = (asked.header("webhook-id").unwrap(), asked.header("webhook-timestamp"));
        assert!(time.is_some() && asked.header("webhook-signature").unwrap().starts_with("v1,"));
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        assert_eq!(id, format!("feedmill-{}", body["data"]["event"]["seq"]));
        assert_eq!(body["type"], body["data"]["event"]["kind"]);
        // The first was turned away, and one is refused, which is told when its batch has arrived.
        if at > 0 && !(body["type"] == "entry.new" && body["data"]["event"]["seq"] == 3) {
            taken.push(id);
        }
    }
    let distinct: BTreeSet<&str> = taken.iter().copied().collect();
    assert_eq!(distinct.len(), taken.len(), "what arrived does not come again");
    let events = world.store.events_after(0, 10_000).await.unwrap();
    let refused = cursor(&world, "hook").await.1;
    assert_eq!(distinct.len() as u64 + refused, events.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_refused_an_event_gets_it_when_it_is_sent_again() {
    let mut world = read(1, 1).await;
    world.config.fetch.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
    let seen = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let known = Arc::clone(&seen);
    let listener = Listener::new(move |asked| {
        // Each is refused the first time.
        let id = asked.header("webhook-id").unwrap().to_owned();
        let status = if known.lock().unwrap().insert(id) { 422 } else { 204 };
        Answer::With(status, "", String::new())
    })
    .await;
    let target = Configured::new(Target::webhook(listener.url.clone().into()));
    let stop = CancellationToken::new();
    let running = TaskTracker::new().spawn(pump(&world, "hook", target, &stop).run());
    arrived(&world, "hook").await;
    let events = world.store.events_after(0, 100).await.unwrap().len();
    assert_eq!(cursor(&world, "hook").await.1, events as u64);
    let again = feedmill::store::outbox::SinkWish::Again(None);
    world.store.wish("hook", again).await.unwrap();
    let sent = async {
        while cursor(&world, "hook").await.1 > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::support::LIMIT, sent).await.unwrap();
    stop.cancel();
    running.await.unwrap();
    assert_eq!(listener.asked().len(), 2 * events, "each came a second time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_next_door_needs_the_operators_word() {
    let mut world = read(1, 2).await;
    let listener = Listener::new(|_| Answer::With(200, "", String::new())).await;
    world.config.fetch.allow_networks.clear();
    drain(&world, "hook", Configured::new(Target::webhook(listener.url.clone().into()))).await;
    let (seq, _, error) = cursor(&world, "hook").await;
    assert_eq!(seq, 0);
    assert!(error.unwrap().contains("not a public address"), "it says why");
    assert_eq!(listener.asked().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn newsfed_finds_its_files() {
    let world = read(2, 4).await;
    let dir = world.dir().join("news");
    let target = || Configured::new(Target::files(dir.clone()));
    drain(&world, "files", target()).await;
    let items = items(&dir);
    let stories = world.newsroom.published_count(i64::MAX);
    assert_eq!(items.len(), stories, "what a feed and a page tell is one item");
    for item in &items {
        let id = item["id"].as_str().unwrap();
        assert_eq!(uuid::Uuid::parse_str(id).unwrap().get_version_num(), 4);
        for name in ["title", "summary", "url", "published_at", "discovered_at"] {
            assert!(item[name].as_str().is_some(), "{name} of {item}");
        }
        assert!(item["authors"].is_array() && item["pinned_at"].is_null());
    }
    // What its reader pinned stays pinned.
    let path = dir.join(format!("{}.json", items[0]["id"].as_str().unwrap()));
    let mut pinned = items[0].clone();
    pinned["pinned_at"] = json!("2026-11-15T00:00:00Z");
    std::fs::write(&path, pinned.to_string()).unwrap();
    let again = feedmill::store::outbox::SinkWish::Replay(Start::Beginning);
    world.store.wish("files", again).await.unwrap();
    drain(&world, "files", target()).await;
    let kept: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(kept, pinned);
}

fn items(dir: &Path) -> Vec<Value> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    files.map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_down_leaves_every_target() {
    let world = read(2, 3).await;
    let cluster_ = Cluster::new().await;
    let dir = world.dir().join("files");
    let raw = || cluster(&cluster_.listener.url, EsLayout::RawContent);
    let ours = || cluster(&cluster_.listener.url, EsLayout::Articles);
    let files = || Configured::new(Target::files(dir.clone()));
    let lines = world.dir().join("lines");
    let ndjson = || {
        let (max_size, compress) = (Default::default(), false);
        let dir = lines.clone();
        Configured::new(Target::Ndjson {
            dir,
            max_size,
            compress,
            raw: true,
            mode: Default::default(),
        })
    };
    let deliver = || async {
        drain(&world, "raw", raw()).await;
        drain(&world, "ours", ours()).await;
        drain(&world, "files", files()).await;
        drain(&world, "lines", ndjson()).await;
    };
    deliver().await;
    let all = world
        .store
        .articles(ArticleFilter { limit: 1000, ..ArticleFilter::default() })
        .await
        .unwrap();
    let story = &all[0].1;
    let has = |id: &str| {
        let state = cluster_.state.lock().unwrap();
        state.documents.keys().filter(|(_, known)| known == id).count()
    };
    let named = |url: &str| {
        let files = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path());
        files.filter(|file| std::fs::read_to_string(file).unwrap().contains(url)).count()
    };
    let blobs = || {
        let days = std::fs::read_dir(lines.join("raw")).unwrap();
        days.flat_map(|day| std::fs::read_dir(day.unwrap().path()).unwrap()).count()
    };
    let (id, url) = (story.id.to_string(), story.article.url.as_str());
    // Its source had another name when it was delivered.
    {
        let documents = &mut cluster_.state.lock().unwrap().documents;
        let place = documents.keys().find(|(index, known)| *known == id && index != "articles");
        let place = place.unwrap().clone();
        let document = documents.remove(&place).unwrap();
        documents.insert(("former_raw_content".to_owned(), id.clone()), document);
    }
    let before = blobs();
    assert_eq!((has(&id), named(&format!("\"{url}\""))), (2, 1));
    let meant = feedmill::app::forget::resolve(&*world.store, url, None).await.unwrap();
    feedmill::app::forget::forget(&*world.store, &meant, ("ann", "she asked"), &mut |_| {})
        .await
        .unwrap();
    deliver().await;
    assert_eq!((has(&id), named(&format!("\"{url}\""))), (0, 0));
    assert_eq!(blobs(), before - 1);
    let told = super::lines(&lines, "events");
    let of = |kind: &str| told.iter().filter(|line| line["event"]["kind"] == kind).count();
    assert_eq!((of("article.withdrawn"), told.len()), (1, 1));
    let gone = super::lines(&lines, "entries");
    let gone = gone.iter().filter(|line| line["event"]["kind"] == "entry.deleted").count();
    assert!(gone >= 1, "feeds had it as well");
}
