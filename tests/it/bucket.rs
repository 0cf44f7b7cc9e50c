//! Segments in a bucket: brought there whole whatever happens on the way, read from there, kept there.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use feedmill::app;
use feedmill::app::backup::back_up;
use feedmill::archive::{Archive, Settings};
use feedmill::model::{Exchange, Headers, new_uuid};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::archive::{cut_after, fetches, prune, read_world, segments, service, verified};
use crate::backup::assert_archived;
use crate::kill::{start, terminate};
use crate::support::{LIMIT, World};

/// A bucket of its own on the service that `FEEDMILL_TEST_S3` names.
pub(crate) fn bucket() -> Option<(String, String)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let endpoint = service("FEEDMILL_TEST_S3", "a bucket service")?;
    let name = format!("b{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let host = endpoint.trim_start_matches("http://");
    let mut service = TcpStream::connect(host).unwrap();
    write!(
        service,
        "PUT /{name} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    service.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Some((endpoint, name))
}

/// Settings that bring segments to that bucket.
pub(crate) fn in_bucket(
    config: &mut feedmill::config::Config,
    (endpoint, name): &(String, String),
) {
    config.archive.url = format!("s3://{name}/news/raw");
    config.archive.endpoint.clone_from(endpoint);
    config.archive.region = "eu-central-1".into();
    config.archive.access_key = "tester".into();
    config.archive.secret_key = "secret".to_owned().into();
    config.archive.keep_local = "0s".parse().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_live_in_a_bucket_and_are_read_from_there() {
    let Some(bucket) = bucket() else { return };
    let mut world = World::new(3, 3).await;
    in_bucket(&mut world.config, &bucket);
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
    assert_eq!(segments(&world), Vec::<String>::new(), "nothing stays here");
    let reader = app::reader(&world.config).unwrap();
    let remote = reader.remote().unwrap();
    assert_eq!(remote.list().await.unwrap().len(), 1);
    let found = verified(&world).await;
    assert_eq!((found.problems.len(), found.fetches), (0, world.newsroom.counters().requests));
    for fetch in fetches(&*world.store).await {
        let body = reader.stored(fetch.raw.as_ref().unwrap()).await.unwrap().body;
        assert_eq!(body.len() as u64, fetch.bytes);
    }
    assert_eq!(segments(&world), Vec::<String>::new(), "reading leaves nothing behind");
    let file = world.dir().join("kept.db");
    let saved = back_up(&world.config, &world.clock, &file, true, Box::new(|_| {})).await.unwrap();
    let (beside, kept) = saved.archive.unwrap();
    assert_eq!((kept.segments, kept.fetched, kept.missing.len()), (1, 1, 0), "a backup is whole");
    assert_archived(&file, beside).await;
    let done = prune(&world, 31).await.unwrap();
    assert!(done.copied > 0 && done.segments.len() == 1);
    assert_eq!(verified(&world).await.problems, []);
    let copies = segments(&world);
    assert_eq!(copies.len(), 1, "copies wait here for the next start");
    world.run_until(|| async { remote.size(&copies[0]).await.unwrap().is_some() }).await;
    assert_eq!(verified(&world).await.problems, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_cut_off_anywhere_is_made_again() {
    let Some(bucket) = bucket() else { return };
    let mut world = read_world(1, 1).await;
    in_bucket(&mut world.config, &bucket);
    let (dir, name) = (world.config.archive_dir(), "feedmill-20260101000000-x.warc.gz");
    let reader = app::reader(&world.config).unwrap();
    let remote = reader.remote().unwrap();
    // Of several parts, so that there is something to cut.
    let segment: Vec<u8> = (0..20_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 4]).collect();
    fs::write(dir.join(name), &segment).unwrap();
    let mut steps = 0;
    while cut_after(steps, remote.keep(&dir, name)).await.is_none() {
        let there = remote.size(name).await.unwrap();
        assert!(matches!(there, None | Some(20_000_000)), "half a segment: {there:?}");
        steps += 1;
    }
    assert_eq!(remote.size(name).await.unwrap(), Some(20_000_000));
    let there = remote.read(name, 8_388_600..8_388_620).await.unwrap().unwrap();
    assert_eq!(there, segment[8_388_600..8_388_620]);
    assert_eq!(remote.read("feedmill-none.warc.gz", 0..1).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_away_holds_up_nothing() {
    let mut world = World::new(2, 2).await;
    in_bucket(&mut world.config, &("http://127.0.0.1:9".into(), "nowhere".into()));
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
    assert_eq!(segments(&world).len(), 1, "the segment waits here");
    let reader = app::reader(&world.config).unwrap();
    let fetch = fetches(&*world.store).await.remove(0);
    reader.stored(fetch.raw.as_ref().unwrap()).await.unwrap();
}

/// A service that hands everything on, and in the middle of an upload says nothing any more.
struct Hanging {
    addr: SocketAddr,
    /// Told when it happens.
    hangs: Arc<Notify>,
}

impl Hanging {
    /// Hangs at the request whose head has these words.
    async fn start(service: &str, words: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (addr, hangs) = (listener.local_addr().unwrap(), Arc::new(Notify::new()));
        let (tasks, tell) = (TaskTracker::new(), Arc::clone(&hangs));
        let (service, requests) = (service.trim_start_matches("http://").to_owned(), tasks.clone());
        tasks.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                requests.spawn(hand_on(client, service.clone(), words, Arc::clone(&tell)));
            }
        });
        Self { addr, hangs }
    }
}

/// Hands on one request and its answer.
async fn hand_on(
    mut client: tokio::net::TcpStream,
    service: String,
    words: &'static str,
    hangs: Arc<Notify>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = client.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    if head.contains(words) {
        hangs.notify_one();
        drop(tokio::io::copy(&mut client, &mut tokio::io::sink()).await);
        return;
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    client.read_exact(&mut body).await.unwrap();
    let mut server = tokio::net::TcpStream::connect(service).await.unwrap();
    let head = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    server.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
    drop(tokio::io::copy(&mut server, &mut client).await);
}

/// Closes a segment that goes in several parts.
fn large_segment(world: &World, dir: &Path) -> String {
    let settings = Settings {
        dir: dir.to_owned(),
        segment_size: 1 << 30,
        segment_age: Duration::from_hours(1_000_000),
        gzip_level: 1,
        agent: "test".into(),
        max_body: 0,
    };
    let now = world.clock.now();
    let archive = Archive::open(settings, world.clock.clone()).unwrap();
    let mut dice = 1_u64;
    let body = (0..20_000_000).map(|_| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        dice.to_be_bytes()[0]
    });
    let exchange = Exchange {
        id: new_uuid(now),
        url: "https://example.com/large".into(),
        request: Headers::default(),
        status: 200,
        reason: "OK".into(),
        headers: Headers::default(),
        body: body.collect::<Vec<u8>>().into(),
        truncated: None,
        remote: None,
        began: now,
        ended: now,
        elapsed: Duration::ZERO,
    };
    let raw = archive.append(&exchange).unwrap();
    archive.close().unwrap();
    raw.segment
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_killed_in_an_upload_brings_the_whole_segment_later() {
    let Some(bucket) = bucket() else { return };
    let mut world = read_world(2, 2).await;
    let dir = world.config.archive_dir();
    large_segment(&world, &dir);
    let here: Vec<_> = segments(&world)
        .into_iter()
        .map(|name| (fs::read(dir.join(&name)).unwrap(), name))
        .collect();
    assert_eq!(here.len(), 2);
    in_bucket(&mut world.config, &bucket);
    let reader = app::reader(&world.config).unwrap();
    let remote = reader.remote().unwrap();
    let engine = |endpoint: &str| {
        let (url, endpoint) = (&world.config.archive.url, format!("archive.endpoint={endpoint}"));
        let url = format!("archive.url={url}");
        let more =
            ["region=eu-central-1", "access_key=tester", "secret_key=secret", "keep_local=0s"]
                .map(|setting| format!("archive.{setting}"));
        let all: Vec<&str> = more.iter().chain([&url, &endpoint]).map(String::as_str).collect();
        start(&world, &world.config.data_dir, None, &all)
    };
    // In a whole segment, in one of its parts, and before the parts become one.
    for words in ["PUT /", "partNumber=2", "?uploadId="] {
        let service = Hanging::start(&bucket.0, words).await;
        let mut child = engine(&format!("http://{}", service.addr));
        tokio::time::timeout(LIMIT, service.hangs.notified()).await.unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        for (bytes, name) in &here {
            let there = remote.size(name).await.unwrap();
            let is_whole = there == Some(bytes.len() as u64);
            assert!(is_whole || there.is_none() && dir.join(name).exists(), "{name}: {there:?}");
        }
    }
    let large = here.iter().max_by_key(|(bytes, _)| bytes.len()).unwrap();
    assert_eq!(remote.size(&large.1).await.unwrap(), None, "the last part was never enough");
    let (mut child, began) = (engine(&bucket.0), Instant::now());
    while here.iter().any(|(_, name)| dir.join(name).exists()) {
        assert!(began.elapsed() < LIMIT, "segments do not leave");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(terminate(&mut child));
    for (bytes, name) in &here {
        let there = remote.read(name, 0..u64::MAX).await.unwrap().unwrap();
        assert!(there == bytes, "{name} is not what it was");
    }
    assert_eq!(verified(&world).await.problems, []);
}
