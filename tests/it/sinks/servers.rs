//! Sinks against real servers; `FEEDMILL_TEST_NATS` names the program of one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use feedmill::config::{Sink as Configured, Span, Target};
use feedmill::store::outbox::{SinkWish, Start};
use futures_util::StreamExt;
use redis::{AsyncCommands, AsyncConnectionConfig};
use serde_json::Value;

use super::targets::{drain, read};
use crate::archive::service;
use crate::lists::Redis;
use crate::support::LIMIT;

/// A server, a connection to it, and its address.
pub(crate) async fn redis_server() -> Option<(Redis, redis::aio::MultiplexedConnection, String)> {
    let server = Redis::start()?;
    let url = server.url();
    let client = redis::Client::open(url.as_str()).unwrap();
    // All keys at once may take a while on a busy machine.
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(LIMIT));
    let connected = client.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
    Some((server, connected, url))
}

/// A server of its own; it ends with the test.
pub(super) struct NatsServer {
    server: Child,
    pub(super) url: String,
    _dir: tempfile::TempDir,
}

impl NatsServer {
    pub(super) fn start() -> Option<Self> {
        let program = service("FEEDMILL_TEST_NATS", "the program nats-server")?;
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Command::new(program)
            .args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"])
            .arg(dir.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < LIMIT, "nats-server does not start");
            thread::sleep(Duration::from_millis(10));
        }
        Some(Self { server, url: format!("nats://127.0.0.1:{port}"), _dir: dir })
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// A name that no other test has.
fn own(word: &str) -> String {
    format!("{word}-{}", feedmill::model::new_uuid(feedmill::model::Ts::from_ms(1)))
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_has_the_seeds_keys_and_members_go_when_they_are_due() {
    let Some((_server, mut redis, url)) = redis_server().await else { return };
    let world = read(3, 4).await;
    let prefix = format!("{}:", own("rss"));
    let timeout = Span::seconds(10);
    let target = || {
        let (url, prefix) = (url.clone().into(), prefix.clone());
        Configured::new(Target::Redis { url, root_cert: PathBuf::new(), prefix, timeout })
    };
    // What a version before this one left: a set with its times beside it. A category may be called like that.
    let left = format!("{prefix}category_links:left");
    let _: () = redis.sadd(&left, "https://left.example/").await.unwrap();
    let _: () = redis.zadd(format!("{left}:at"), "https://left.example/", 7).await.unwrap();
    let named_alike = format!("{prefix}articles_by_category:news:at");
    let _: () = redis.sadd(&named_alike, "one").await.unwrap();
    drain(&world, "redis", target()).await;
    let moved: Option<f64> = redis
        .zscore(format!("{prefix}times:category_links:left"), "https://left.example/")
        .await
        .unwrap();
    assert_eq!(moved, Some(7.0));
    assert!(!redis.exists::<_, bool>(format!("{left}:at")).await.unwrap());
    assert!(redis.sismember::<_, _, bool>(&named_alike, "one").await.unwrap());
    let articles = world.store.totals().await.unwrap().articles as usize;
    let index: BTreeMap<String, f64> = redis
        .zrange_withscores::<_, Vec<(String, f64)>>(
            format!("{prefix}article_canonical_index"),
            0,
            -1,
        )
        .await
        .unwrap()
        .into_iter()
        .collect();
    assert_eq!(index.len(), articles);
    let attempted: BTreeSet<String> =
        redis.smembers(format!("{prefix}canonical_attempted")).await.unwrap();
    assert_eq!(attempted, index.keys().cloned().collect());
    for uid in index.keys() {
        let key = format!("{prefix}article_canonical:{uid}");
        let kept: BTreeMap<String, String> = redis.hgetall(&key).await.unwrap();
        let story = world.newsroom.story(&kept["url"]).unwrap();
        assert_eq!((&kept["uid"], kept["status"].as_str()), (uid, "success"));
        assert_eq!(kept["clean_text"], story.text);
        assert_eq!(kept["text_len"], story.text.chars().count().to_string());
        assert!(kept["raw_len"].parse::<usize>().unwrap() > story.text.len());
        let left: i64 = redis.ttl(&key).await.unwrap();
        assert!(left > 0, "{left}");
        let of: bool = redis
            .sismember(format!("{prefix}articles_by_category:{}", kept["category"]), uid)
            .await
            .unwrap();
        assert!(of, "{uid} is in {}", kept["category"]);
    }
    let sources = world.store.sources().await.unwrap();
    let category = sources[0].spec.category.clone().unwrap_or_else(|| "uncategorized".to_owned());
    let old = format!("{prefix}category_links:{category}");
    let links: BTreeSet<String> = redis.smembers(&old).await.unwrap();
    assert!(!links.is_empty(), "{category}");
    // What is taken down goes from every key.
    let uid = index.keys().next().unwrap();
    let url: String = redis.hget(format!("{prefix}article_canonical:{uid}"), "url").await.unwrap();
    let meant = feedmill::app::forget::resolve(&*world.store, &url, None).await.unwrap();
    feedmill::app::forget::forget(&*world.store, &meant, ("ann", "she asked"), &mut |_| {})
        .await
        .unwrap();
    drain(&world, "redis", target()).await;
    let gone: bool = redis.exists(format!("{prefix}article_canonical:{uid}")).await.unwrap();
    assert!(!gone);
    let keys: Vec<String> = redis.keys(format!("{prefix}*")).await.unwrap();
    for key in keys.iter().filter(|key| key.contains("articles_by") || key.contains("links:")) {
        let (uids, urls): (Option<f64>, Option<f64>) = if key.contains("times:") {
            (redis.zscore(key, uid).await.unwrap(), redis.zscore(key, &url).await.unwrap())
        } else {
            let has = async |mut redis: redis::aio::MultiplexedConnection, member: &str| {
                redis.sismember::<_, _, bool>(key, member).await.unwrap().then_some(1.0)
            };
            (has(redis.clone(), uid).await, has(redis.clone(), &url).await)
        };
        assert_eq!((uids, urls), (None, None), "{key}");
    }
    let articles = articles - 1;
    // Again, from the beginning: nothing is there twice.
    world.store.wish("redis", SinkWish::Replay(Start::Beginning)).await.unwrap();
    drain(&world, "redis", target()).await;
    let again: usize = redis.zcard(format!("{prefix}article_canonical_index")).await.unwrap();
    assert_eq!(again, articles);
    // Old members go as soon as something comes to the same key.
    let _: () = redis.sadd(&old, "https://old.example/").await.unwrap();
    let times = format!("{prefix}times:category_links:{category}");
    let _: () = redis.zadd(times, "https://old.example/", 1).await.unwrap();
    world.store.wish("redis", SinkWish::Replay(Start::Beginning)).await.unwrap();
    drain(&world, "redis", target()).await;
    let there: bool = redis.sismember(&old, "https://old.example/").await.unwrap();
    assert!(!there, "its time was over");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_back_after_a_takedown_is_in_its_category() {
    use feedmill::app::forget;
    use feedmill::model::{Kind, NewTask, Origin};

    let Some((_server, mut redis, url)) = redis_server().await else { return };
    let world = read(1, 2).await;
    let filter = feedmill::store::ArticleFilter { limit: 1, ..Default::default() };
    let row = world.store.articles(filter).await.unwrap().remove(0).1;
    let address = row.article.url.clone();
    let meant = forget::resolve(&*world.store, &address, None).await.unwrap();
    forget::forget(&*world.store, &meant, ("ann", "x"), &mut |_| {}).await.unwrap();
    forget::undo(&*world.store, &address, None, "ann").await.unwrap();
    let again = NewTask {
        url: address.clone(),
        kind: Kind::Article,
        origin: Origin::Manual,
        source: row.source,
        base_priority: 9,
        depth: 0,
        redirects: 0,
        parent: None,
        not_before: None,
        refetch: None,
    };
    world.store.submit(vec![again]).await.unwrap();
    world.run_until(|| async { world.store.article(row.id).await.unwrap().is_some() }).await;
    // New, gone and new again in one batch.
    let (prefix, timeout) = (format!("{}:", own("rss")), Span::seconds(10));
    let target = Target::Redis {
        url: url.into(),
        root_cert: PathBuf::new(),
        prefix: prefix.clone(),
        timeout,
    };
    drain(&world, "redis", Configured::new(target)).await;
    let uid = feedmill::model::canonical_uid(&address);
    let kept: BTreeMap<String, String> =
        redis.hgetall(format!("{prefix}article_canonical:{uid}")).await.unwrap();
    assert_eq!(kept.get("url"), Some(&address));
    let category = format!("{prefix}articles_by_category:{}", kept["category"]);
    assert!(redis.sismember::<_, _, bool>(category, &uid).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_stream_has_every_event_once_in_order() {
    let Some((_server, mut redis, url)) = redis_server().await else { return };
    let world = read(2, 4).await;
    let key = own("events");
    let target = || {
        let (url, key) = (url.clone().into(), key.clone());
        let (root_cert, timeout) = (PathBuf::new(), Span::seconds(10));
        let stream = Target::RedisStream { url, root_cert, key, max_len: 0, timeout };
        Configured { batch: 7, ..Configured::new(stream) }
    };
    for _ in 0..2 {
        drain(&world, "stream", target()).await;
        world.store.wish("stream", SinkWish::Replay(Start::Beginning)).await.unwrap();
    }
    let entries: Vec<(String, Vec<(String, String)>)> =
        redis::cmd("XRANGE").arg(&key).arg("-").arg("+").query_async(&mut redis).await.unwrap();
    let events = world.store.events_after(0, 10_000).await.unwrap();
    let ids: Vec<String> = entries.iter().map(|(id, _)| id.clone()).collect();
    let wanted: Vec<String> = events.iter().map(|event| format!("{}-0", event.seq)).collect();
    assert_eq!(ids, wanted);
    let data = &entries[0].1.iter().find(|(name, _)| name == "data").unwrap().1;
    let line: Value = serde_json::from_str(data).unwrap();
    assert_eq!(line["event"]["seq"], events[0].seq);
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_has_every_event_once_on_the_subject_of_its_kind() {
    let Some(server) = NatsServer::start() else { return };
    let url = server.url.clone();
    let world = read(2, 4).await;
    let name = own("nats");
    let target = || {
        let nats = Target::Nats {
            url: url.clone().into(),
            stream: name.clone(),
            subject: name.clone(),
            timeout: Span::seconds(10),
        };
        Configured { batch: 7, ..Configured::new(nats) }
    };
    for _ in 0..2 {
        drain(&world, "nats", target()).await;
        world.store.wish("nats", SinkWish::Replay(Start::Beginning)).await.unwrap();
    }
    let context = async_nats::jetstream::new(async_nats::connect(&url).await.unwrap());
    let stream = context.get_stream(&name).await.unwrap();
    let config = pull::Config { deliver_policy: DeliverPolicy::All, ..pull::Config::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    let events = world.store.events_after(0, 10_000).await.unwrap();
    let messages = consumer.fetch().max_messages(10_000).messages().await.unwrap();
    let messages: Vec<_> = messages.map(Result::unwrap).collect().await;
    assert_eq!(messages.len(), events.len());
    for (message, event) in messages.iter().zip(&events) {
        assert_eq!(message.subject.as_str(), format!("{name}.{}", event.kind));
        let line: Value = serde_json::from_slice(&message.payload).unwrap();
        assert_eq!(line["event"]["seq"], event.seq);
    }
}
