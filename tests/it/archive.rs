//! The archive as a whole: read back, handed out, checked, thinned out, read again.

use std::fs::{self, File};
use std::future::Future;
use std::io::Write as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use feedmill::app::replay::{Changes, Replay, Wanted};
use feedmill::app::{self, keep, raw};
use feedmill::archive::{Archive, Settings};
use feedmill::clock::Clock;
use feedmill::db::Connection;
use feedmill::frontier::TaskFilter;
use feedmill::model::{
    Code, EventKind, Exchange, FetchRecord, Headers, Kind, Truncation, Ts, new_uuid,
};
use feedmill::store::{FetchFilter, MovedRaw, Store};
use feedmill_formats::warc::{self, RecordType};
use feedmill_newsroom::{Fault, Setup, Span};
use serde_json::Value;

use crate::support::World;

/// A world whose stories were all read.
pub(crate) async fn read_world(publishers: usize, stories: usize) -> World {
    let world = World::new(publishers, stories).await;
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
    world
}

pub(crate) async fn verified(world: &World) -> raw::Verified {
    let reader = app::reader(&world.config).unwrap();
    raw::verify(&*world.store, &reader, None, &mut |_, _| {}).await.unwrap()
}

pub(crate) async fn fetches(store: &dyn Store) -> Vec<FetchRecord> {
    store.find_fetches(FetchFilter { limit: usize::MAX, ..FetchFilter::default() }).await.unwrap()
}

pub(crate) fn segments(world: &World) -> Vec<String> {
    let names = fs::read_dir(world.config.archive_dir()).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_is_checked_against_its_digest_and_the_index() {
    let world = read_world(4, 4).await;
    let found = verified(&world).await;
    assert_eq!(found.problems, []);
    assert_eq!(found.fetches, world.newsroom.counters().requests);
    assert_eq!((found.segments, found.unindexed), (1, 0));

    // A fetch that leads nowhere, a record that nobody leads to, and a byte that is another.
    let kept = fetches(&*world.store).await;
    let (first, second) = (kept[0].raw.clone().unwrap(), kept[1].clone());
    let conn = Connection::open(world.config.database_path()).unwrap();
    conn.execute(
        "UPDATE fetch SET \"offset\" = \"offset\" + 1 WHERE id = ?1",
        [second.id.as_bytes().as_slice()],
    )
    .unwrap();
    let found = verified(&world).await;
    let codes: Vec<_> = found.problems.iter().map(|problem| problem.code).collect();
    assert_eq!((codes, found.unindexed), (vec!["index"], 1));
    let path = world.config.archive_dir().join(&first.segment);
    let mut bytes = fs::read(&path).unwrap();
    bytes[usize::try_from(first.offset).unwrap() + 40] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (records, found) = (found.records, verified(&world).await);
    let mut problems: Vec<_> = found.problems.iter().map(|p| (p.code, p.offset)).collect();
    problems.retain(|(code, _)| *code != "revisit");
    let (hit, moved) = (Some(first.offset), second.raw.map(|raw| raw.offset + 1));
    assert_eq!(problems, [("damaged", hit), ("index", hit), ("index", moved)], "{found:?}");
    assert_eq!(found.records, records - 1, "what stands behind the damage is checked too");
    fs::remove_file(&path).unwrap();
    let found = verified(&world).await;
    assert!(found.problems.iter().all(|problem| problem.code == "missing"), "{found:?}");
    assert_eq!(found.problems.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_needs_no_other_file() {
    let world = read_world(3, 3).await;
    let source = world.store.sources().await.unwrap().remove(0);
    let reader = app::reader(&world.config).unwrap();
    let file = world.dir().join("out.warc.gz");
    let filter = FetchFilter { source: Some(source.id), ..FetchFilter::default() };
    let export = async || {
        let (filter, by) = (filter.clone(), ("test", world.start));
        raw::export(&*world.store, &reader, filter, by, (&file, 0o600), &mut |_| {}).await
    };
    let done = export().await.unwrap();
    assert_eq!((done.gone, done.unreadable.len()), (0, 0));
    assert!(done.records > 3 && done.records < world.newsroom.counters().requests);
    assert_eq!(done.bytes, file.metadata().unwrap().len());
    let members: Vec<_> =
        warc::scan(File::open(&file).unwrap(), u64::MAX).map(Result::unwrap).collect();
    assert!(members.iter().all(|member| member.intact));
    let count = |kind| members.iter().filter(|m| m.fields.kind() == Some(kind)).count() as u64;
    assert_eq!(count(RecordType::Warcinfo), 1);
    assert_eq!(count(RecordType::Response), done.records);
    assert_eq!(count(RecordType::Request), done.records);
    assert_eq!(export().await.unwrap_err().code(), "exists");

    // One that fails at its end leaves nothing behind.
    let taken = world.dir().join("taken.warc.gz");
    let mut take = |_| drop(fs::create_dir(&taken));
    let by = ("test", world.start);
    let failed =
        raw::export(&*world.store, &reader, filter.clone(), by, (&taken, 0o600), &mut take).await;
    assert_eq!(failed.unwrap_err().code(), "unwritable");
    assert!(!world.dir().join("taken.warc.gz.partial").exists());
}

/// A clock that stands still, so many days after the work.
fn days_later(world: &World, days: u64) -> Clock {
    Clock::manual(world.clock.now().after(Duration::from_hours(24 * days)))
}

pub(crate) async fn prune(world: &World, days: u64) -> Result<keep::Pruned, raw::RawError> {
    keep::prune(&world.config, &days_later(world, days), Arc::clone(&world.store)).await
}

/// Plays for some hours, with more polls of the feeds and several turns of retention.
async fn play_on(world: &World, hours: u64) {
    let requests = world.newsroom.counters().requests;
    let later = world.clock.now().after(Duration::from_hours(hours));
    world
        .play(|| async {
            world.newsroom.counters().requests > requests + 4 && world.clock.now() > later
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_years_ahead_removes_no_responses() {
    let clock = Clock::manual(Ts::from_ms(1_800_000_000_000));
    let mut world = World::timed(clock, "", 2, |setup| Setup {
        history: 3,
        publish_until: Some(setup.starts_at),
        ..setup
    })
    .await;
    world.follow().await;
    play_on(&world, 3).await;
    let old = segments(&world);
    let ahead = Duration::from_hours(10 * 365 * 24);
    world.set_clock(world.clock.now().after(ahead)).await;
    play_on(&world, 3).await;
    assert!(old.iter().all(|segment| segments(&world).contains(segment)), "{old:?}");
    // By a clock that publishers agree with, their age counts.
    world.set_clock(world.clock.now().before(ahead)).await;
    world.pass(Duration::from_hours(40 * 24));
    play_on(&world, 3).await;
    assert!(!old.iter().any(|segment| segments(&world).contains(segment)), "{old:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_bytes_go_and_the_last_documents_of_feeds_stay() {
    let world = read_world(4, 4).await;
    assert_eq!(prune(&world, 29).await.unwrap(), keep::Pruned::default());
    let later = days_later(&world, 31);
    let would = keep::would_prune(&world.config, &later, &*world.store).await.unwrap();
    let old = segments(&world);
    let done = prune(&world, 31).await.unwrap();
    assert_eq!(done, would, "what was announced is what is done");
    assert!(done.copied > 0 && done.fetches > 0, "{done:?}");
    assert!(!segments(&world).contains(&old[0]), "the segment is gone");
    assert_eq!(verified(&world).await.problems, []);
    let reader = app::reader(&world.config).unwrap();
    let mut kept = 0;
    for fetch in fetches(&*world.store).await {
        let filter = TaskFilter { ids: vec![fetch.task.unwrap()], ..TaskFilter::default() };
        let is_feed = world.tasks(filter).await.remove(0).kind == Kind::Feed;
        assert_eq!(fetch.raw.is_some(), is_feed && fetch.status == Some(200), "{fetch:?}");
        if let Some(raw) = &fetch.raw {
            let body = reader.stored(raw).await.unwrap().body;
            assert_eq!(body.len() as u64, fetch.bytes);
            kept += 1;
        }
    }
    assert_eq!(kept, done.copied);
    // By size they go whatever is in them.
    let mut world = world;
    world.config.retention.raw_size = "1B".parse().unwrap();
    let done = prune(&world, 32).await.unwrap();
    assert_eq!((done.segments.len(), done.copied, done.fetches), (1, 0, kept));
    assert!(fetches(&*world.store).await.iter().all(|fetch| fetch.raw.is_none()));
}

/// What comes of work that is ended after so many steps.
pub(crate) async fn cut_after<T>(steps: usize, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut left) = (pin!(work), steps);
    std::future::poll_fn(|cx| match (work.as_mut().poll(cx), left) {
        (Poll::Ready(done), _) => Poll::Ready(Some(done)),
        (Poll::Pending, 0) => Poll::Ready(None),
        (Poll::Pending, _) => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_that_is_cut_off_anywhere_leaves_every_place_readable() {
    let world = read_world(3, 3).await;
    for steps in 0.. {
        let done = cut_after(steps, prune(&world, 31)).await;
        let found = verified(&world).await;
        assert_eq!(found.problems, [], "cut after {steps} steps");
        if let Some(done) = done {
            done.unwrap();
            break;
        }
    }
    assert!(fetches(&*world.store).await.iter().any(|fetch| fetch.raw.is_none()));
}

async fn replay_of(world: &World) -> (Replay, Vec<Wanted>) {
    let reader = app::reader(&world.config).unwrap();
    let replay = Replay::new(&world.config, Arc::clone(&world.store), reader);
    let sources = world.store.sources().await.unwrap().into_iter();
    let wanted =
        sources.map(|source| Wanted { source, kind: None, since: Ts::from_ms(0), until: None });
    (replay, wanted.collect())
}

async fn survey(replay: &Replay, all: &[Wanted]) -> Vec<Changes> {
    let mut found = Vec::new();
    for wanted in all {
        found.push(replay.survey(wanted, &mut |_| {}).await.unwrap());
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_brings_back_what_an_earlier_reader_missed_and_asks_nobody() {
    let world = read_world(4, 4).await;
    let (replay, all) = replay_of(&world).await;
    for changes in survey(&replay, &all).await {
        assert!(changes.documents > 0);
        let lost = (changes.entries.lost, changes.articles.lost);
        assert_eq!((changes.count(), lost), (0, (0, 0)), "{changes:?}");
    }
    // What an earlier version might have left.
    let damage = Connection::open(world.config.database_path()).unwrap();
    let one = "SELECT row FROM article ORDER BY row LIMIT 1";
    damage
        .execute_batch(&format!(
            "UPDATE article SET body = json_set(body, '$.title', 'wrong', '$.language', NULL), checksum = NULL
               WHERE row IN ({one});
             UPDATE entry SET body = json_set(body, '$.published', NULL), checksum = NULL WHERE row IN
               (SELECT row FROM entry ORDER BY row LIMIT 1);
             DELETE FROM entry WHERE row IN (SELECT row FROM entry ORDER BY row DESC LIMIT 1);"
        ))
        .unwrap();
    let (requests, tasks) =
        (world.newsroom.counters().requests, world.tasks(TaskFilter::default()).await);
    let events = world.store.totals().await.unwrap().events;
    let found = survey(&replay, &all).await;
    let sum = |pick: fn(&Changes) -> u64| found.iter().map(pick).sum::<u64>();
    // Pages miss what an entry that changes said of them until it is kept, and nothing that a lost one said.
    assert!((1..=2).contains(&sum(|changes| changes.articles.changed)), "{found:?}");
    assert_eq!(sum(|changes| changes.entries.changed), 1);
    assert_eq!(sum(|changes| changes.entries.new), 1);
    let field = |name: &str| found.iter().find_map(|changes| changes.fields.get(name).copied());
    assert!(field("title").unwrap().changed > 0);
    assert_eq!(field("language").unwrap().gained, 1);
    assert!(field("published").unwrap().gained > 0);

    let mut applied = 0;
    for wanted in &all {
        applied += replay.apply(wanted, &mut |_| {}).await.unwrap();
    }
    assert_eq!(applied, 3);
    assert!(survey(&replay, &all).await.iter().all(Changes::is_empty));
    for wanted in &all {
        assert_eq!(replay.apply(wanted, &mut |_| {}).await.unwrap(), 0, "once is enough");
    }
    let new = world.store.events_after(i64::try_from(events).unwrap(), 10).await.unwrap();
    let mut kinds: Vec<_> = new.iter().map(|event| event.kind).collect();
    kinds.sort();
    let mut expected = [EventKind::EntryNew, EventKind::EntryUpdated, EventKind::ArticleUpdated];
    expected.sort();
    assert_eq!(kinds, expected);
    assert_eq!(world.newsroom.counters().requests, requests, "nobody was asked");
    assert_eq!(world.tasks(TaskFilter::default()).await, tasks, "no task was touched");
}

/// Pages without a date of their own have that of their entries, which cannot be read until they are restored.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_entries_are_no_loss_to_their_pages() {
    let world = read_world(4, 4).await;
    let (replay, all) = replay_of(&world).await;
    let entries = Connection::open(world.config.database_path())
        .unwrap()
        .execute("UPDATE entry SET body = CAST(x'ff' AS TEXT)", [])
        .unwrap();
    let found = survey(&replay, &all).await;
    let restored: u64 = found.iter().map(|changes| changes.entries.restored).sum();
    assert_eq!(restored, entries as u64);
    for changes in &found {
        assert_eq!((changes.articles.changed, changes.loss()), (0, 0.0), "{changes:?}");
    }
    for wanted in &all {
        replay.apply(wanted, &mut |_| {}).await.unwrap();
    }
    assert!(survey(&replay, &all).await.iter().all(Changes::is_empty));
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_counts_what_is_no_longer_found() {
    let mut world = World::new(2, 3).await;
    // One page is reached by a redirect.
    let publisher = &world.newsroom.publishers()[0];
    let mut stories = world.newsroom.published(i64::MAX).into_iter();
    let story = stories.find(|story| story.publisher == 0).unwrap().url;
    let path = story.strip_prefix(&publisher.url("")).unwrap();
    world.newsroom.misbehave(&publisher.host, path, Fault::RedirectChain(1), Span::Always);
    world.follow().await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world.run_until(|| async { world.store.totals().await.unwrap().articles >= published }).await;
    let totals = world.store.totals().await.unwrap();
    assert_eq!(world.task(&story).await.last_error, Some(Code::Redirect));
    let of = |changes: &[Changes]| {
        let sum = |pick: fn(&Changes) -> u64| changes.iter().map(pick).sum::<u64>();
        (sum(|changes| changes.entries.lost), sum(|changes| changes.articles.lost))
    };
    let (replay, all) = replay_of(&world).await;
    assert_eq!(of(&survey(&replay, &all).await), (0, 0));
    // An entry that an earlier reader found in a document, and this one does not.
    let conn = Connection::open(world.config.database_path()).unwrap();
    let other = "UPDATE entry SET id = randomblob(32), link_hash = NULL
        WHERE row = (SELECT min(row) FROM entry)";
    conn.execute_batch(other).unwrap();
    assert_eq!(of(&survey(&replay, &all).await), (1, 0));
    // A reader for whom every document is too large.
    world.config.fetch.max_decoded = "1B".parse().unwrap();
    let (replay, all) = replay_of(&world).await;
    assert_eq!(of(&survey(&replay, &all).await), (totals.entries, totals.articles));
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_beside_a_running_engine_disturbs_nothing() {
    let world = World::new(6, 6).await;
    world.follow().await;
    let (replay, all) = replay_of(&world).await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    world
        .run_until(|| async {
            for wanted in &all {
                replay.apply(wanted, &mut |_| {}).await.unwrap();
            }
            world.store.totals().await.unwrap().articles >= published
        })
        .await;
    let report = world.report().await;
    assert!(report.is_perfect(), "{report:#?}");
    assert!(survey(&replay, &all).await.iter().all(Changes::is_empty));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_shows_bytes_and_says_when_they_are_gone() {
    let world = read_world(2, 2).await;
    let story = world.newsroom.published(i64::MAX).remove(0).url;
    let feedmill = |args: &[&str]| {
        let mut command = assert_cmd::cargo::cargo_bin_cmd!("feedmill");
        command.env_clear().arg("--data-dir").arg(&world.config.data_dir).args(args);
        command.output().unwrap()
    };
    let show = |part: &[&str]| feedmill(&[&["raw", "show", &story], part].concat());
    let task = world.task(&story).await;
    let fetch = world.store.fetches(task.id, 1).await.unwrap().remove(0);
    let body = show(&["--body"]);
    assert!(body.status.success(), "{body:?}");
    assert_eq!(body.stdout.len() as u64, fetch.bytes);
    let decoded = show(&["--decoded"]).stdout;
    assert!(String::from_utf8_lossy(&decoded).contains("<html"), "a page");
    let headers = String::from_utf8(show(&["--headers"]).stdout).unwrap();
    assert!(headers.starts_with("GET /") && headers.contains("\nHTTP/1.1 200 OK\n"), "{headers}");
    let by_id = feedmill(&["raw", "show", &fetch.id.to_string(), "--json"]);
    let value: Value = serde_json::from_slice(&by_id.stdout).unwrap();
    assert_eq!(value["fetch"]["url"], fetch.url.as_str());
    let verified = feedmill(&["raw", "verify"]);
    assert!(verified.status.success(), "{verified:?}");

    world.store.forget_segment(&fetch.raw.unwrap().segment, 0, usize::MAX).await.unwrap();
    let gone = show(&[]);
    let told = String::from_utf8(gone.stderr).unwrap();
    assert!(!gone.status.success() && told.contains("no longer kept"), "{told}");
}

/// What a variable names; `None` when tests that need it are to be left out.
pub(crate) fn service(variable: &str, what: &str) -> Option<String> {
    match std::env::var(variable) {
        Ok(off) if off == "off" => None,
        Ok(named) => Some(named),
        Err(_) => panic!(
            "this test needs {what}: run scripts/test, which sees to it, or name one in {variable} \
             (`off` leaves such tests out)"
        ),
    }
}

/// Another's reader of WARC files, which `FEEDMILL_TEST_WARCIO` names.
fn warcio(args: &[&str]) -> Option<Vec<u8>> {
    let program = service("FEEDMILL_TEST_WARCIO", "the program warcio")?;
    let output = std::process::Command::new(program).args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {told}{output:?}");
    Some(output.stdout)
}

#[test]
fn others_read_what_we_write() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings {
        dir: dir.path().to_owned(),
        segment_size: 1 << 30,
        segment_age: Duration::from_hours(1),
        gzip_level: 6,
        agent: "test".into(),
        max_body: 0,
    };
    let now = Ts::from_ms(1_800_000_000_000);
    let archive = Archive::open(settings, Clock::manual(now)).unwrap();
    let body = |n: u8| (0..3_000_u32).map(|at| at.to_le_bytes()[1] ^ n).collect::<Vec<u8>>();
    let cuts =
        [None, Some(Truncation::Length), Some(Truncation::Time), Some(Truncation::Disconnect)];
    let mut kept = Vec::new();
    for (n, truncated) in cuts.into_iter().chain([None, None]).enumerate() {
        let exchange = Exchange {
            id: new_uuid(now),
            url: format!("https://example.com/{n}"),
            request: Headers::default(),
            status: 200,
            reason: "OK".into(),
            headers: Headers::default(),
            // The last but one is the first again.
            body: body(if n == 4 { 0 } else { n as u8 }).into(),
            truncated,
            remote: Some([192, 0, 2, 1].into()),
            began: now,
            ended: now,
            elapsed: Duration::ZERO,
        };
        kept.push((archive.append(&exchange).unwrap(), exchange));
    }
    archive.close().unwrap();
    let path = dir.path().join(&kept[0].0.segment).display().to_string();
    if warcio(&["check", "-v", &path]).is_none() {
        return;
    }
    let fields = "warc-type,offset,warc-truncated,warc-refers-to-target-uri";
    let index = String::from_utf8(warcio(&["index", "-f", fields, &path]).unwrap()).unwrap();
    let answers = index.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let answers: Vec<_> = answers
        .filter(|line| matches!(line["warc-type"].as_str(), Some("response" | "revisit")))
        .collect();
    assert_eq!(answers.len(), kept.len());
    for ((raw, exchange), line) in kept.iter().zip(&answers) {
        let at = raw.offset.to_string();
        assert_eq!(line["offset"], at.as_str());
        let why = exchange.truncated.map(|why| Value::from(why.as_str()));
        assert_eq!(line.get("warc-truncated"), why.as_ref());
        let payload = warcio(&["extract", "--payload", &path, &at]).unwrap();
        if line["warc-type"] == "revisit" {
            assert_eq!(line["warc-refers-to-target-uri"], kept[0].1.url.as_str());
            assert!(payload.is_empty());
        } else {
            assert_eq!(payload, exchange.body, "byte for byte");
        }
    }
    assert_eq!(answers[4]["warc-type"], "revisit");
}

/// Runs the program to its end; what it said, and the most memory that it had, in kilobytes.
fn peak(world: &World, args: &[&str]) -> (String, u64) {
    let script = "import resource, subprocess, sys\n\
        done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)\n\
        sys.stderr.buffer.write(done.stderr)\n\
        print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let program = crate::kill::binary();
    let mut command = std::process::Command::new("python3");
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let done = command
        .args(["-c", script])
        .arg(program.get_program())
        .args(args)
        .arg("--data-dir")
        .arg(&world.config.data_dir)
        .current_dir(world.dir())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    (said, String::from_utf8_lossy(&done.stdout).trim().parse().unwrap())
}

/// A gzip member of these bytes, so many megabytes of spaces, and an end.
fn zip(parts: &[&[u8]], megabytes: usize, end: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let spaces = vec![b' '; 1 << 20];
    parts.iter().for_each(|part| packed.write_all(part).unwrap());
    (0..megabytes).for_each(|_| packed.write_all(&spaces).unwrap());
    packed.write_all(end).unwrap();
    packed.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bomb_in_a_segment_is_refused_in_little_memory_and_the_rest_is_read() {
    let world = World::new(1, 3).await;
    world.follow().await;
    world.run_until(|| async { world.store.totals().await.unwrap().articles == 3 }).await;
    let filter = FetchFilter { limit: 100, ..FetchFilter::default() };
    let fetches = world.store.find_fetches(filter).await.unwrap();
    let source = world.store.sources().await.unwrap().remove(0);
    let is_page =
        |fetch: &&feedmill::model::FetchRecord| world.newsroom.story(&fetch.url).is_some();
    let pages: Vec<_> = fetches.iter().filter(is_page).collect();
    let settings = Settings {
        dir: world.config.archive_dir(),
        segment_size: 1 << 30,
        segment_age: Duration::from_hours(1_000_000),
        gzip_level: 9,
        agent: "test".into(),
        max_body: 0,
    };
    let archive = Archive::open(settings, world.clock.clone()).unwrap();
    // A record without digests, so that it is quickly made: 256 MB in as many kilobytes.
    let head = format!(
        "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{}>\r\nWARC-Date: {}\r\n\
         WARC-Target-URI: {}\r\nContent-Type: application/http;msgtype=response\r\n\
         Content-Length: {}\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        pages[0].id,
        pages[0].at,
        pages[0].url,
        (256 << 20) + 19,
    );
    let bomb = zip(&[head.as_bytes()], 256, b"\r\n\r\n");
    let nested = zip(&[&zip(&[], 100, b"")], 0, b"");
    assert!(bomb.len() < 300_000 && nested.len() < 20_000, "a thousand to one");
    let headers = Headers(vec![
        ("content-type".into(), "text/html".into()),
        ("content-encoding".into(), "gzip, gzip".into()),
    ]);
    let coded = Exchange {
        id: pages[1].id,
        url: pages[1].url.clone(),
        request: Headers::default(),
        status: 200,
        reason: "OK".into(),
        headers,
        body: nested.into(),
        truncated: None,
        remote: None,
        began: pages[1].at,
        ended: pages[1].at,
        elapsed: Duration::ZERO,
    };
    let places = [archive.copy(bomb, b"").unwrap(), archive.append(&coded).unwrap()];
    for (page, to) in pages.iter().zip(places) {
        let from = page.raw.clone().unwrap().segment;
        world.store.move_raw(vec![MovedRaw { fetch: page.id, from, to }]).await.unwrap();
    }
    archive.close().unwrap();
    let (plain, coded) = (pages[0].id.to_string(), pages[1].id.to_string());
    let source = source.spec.name;
    let out = world.dir().join("out.warc.gz").display().to_string();
    for (args, words) in [
        (vec!["raw", "show", &plain, "--body"], "is over the limit"),
        (vec!["raw", "show", &coded, "--decoded"], "larger than"),
        (vec!["raw", "verify"], "is over the limit"),
        (vec!["raw", "export", "--out", &out], "is over the limit"),
        (vec!["replay", "--source", &source, "--dry-run"], "is over the limit"),
        (vec!["rebuild", "--dry-run"], ""),
    ] {
        let (said, kilobytes) = peak(&world, &args);
        assert!(kilobytes < 320_000, "{args:?}: {kilobytes} kB\n{said}");
        assert!(
            args[0] == "raw" && args[1] == "verify" || said.contains(words),
            "{args:?}: {said}"
        );
    }
}
