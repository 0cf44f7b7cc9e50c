//! A Redis stream has every event of a batch once, in order, wherever the batch is interrupted: after
//! each byte that goes to the server, after each byte that comes back, and where it runs out of memory,
//! for one command alone or for the rest.

use std::time::Duration;

use feedmill::model::{Event, EventKind, Ts};
use feedmill::sinks::redis::{Server, stream::RedisStream};
use feedmill::sinks::{About, Item, Sink};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use super::gate::{Gate, Mode};
use super::servers::redis_server;
use crate::support::LIMIT;

const KEY: &str = "events";

fn item(seq: i64, text: &str) -> Item {
    let event = Event {
        seq,
        at: Ts::from_ms(seq),
        kind: EventKind::FeedGone,
        subject: format!("s{seq}"),
        source: None,
        payload: json!({ "t": text }),
    };
    Item { event, about: About::Event, source: None, trail: Default::default() }
}

/// A sink that never ran in this process.
fn sink(url: &str) -> RedisStream {
    let server = Server::new(url.to_owned(), url.to_owned(), None, LIMIT);
    RedisStream::new(server, KEY.to_owned(), 0)
}

async fn ids(redis: &mut MultiplexedConnection) -> Vec<String> {
    let entries: Vec<(String, Vec<String>)> =
        redis::cmd("XRANGE").arg(KEY).arg("-").arg("+").query_async(redis).await.unwrap();
    entries.into_iter().map(|(id, _)| id).collect()
}

/// Delivers as after a failure: one event first, then the rest.
async fn deliver_again(url: &str, state: &Value, batch: &[Item]) -> Value {
    let mut sink = sink(url);
    sink.resume(state).await.unwrap();
    // A transaction that was interrupted may still be under way: then the first try finds out.
    let mut tries = 0;
    while let Err(error) = sink.deliver(&batch[..1]).await {
        tries += 1;
        assert!(tries < 5, "{error}");
        sink.resume(state).await.unwrap();
    }
    sink.deliver(&batch[1..]).await.unwrap().state
}

/// The stream with one event, which is in its saved cursor.
async fn begun(url: &str) -> Value {
    let mut sink = sink(url);
    sink.resume(&Value::Null).await.unwrap();
    sink.deliver(&[item(1, "first")]).await.unwrap().state
}

/// The first event, and a batch.
fn expected(batch: &[Item]) -> Vec<String> {
    let seqs = batch.iter().map(|item| item.event.seq);
    std::iter::once(1).chain(seqs).map(|seq| format!("{seq}-0")).collect()
}

/// Interrupts a delivery after every byte that a mode can cut at; how many places there were.
async fn cut_everywhere(cut: impl Fn(usize) -> Mode) -> Option<usize> {
    let (_server, mut redis, url) = redis_server().await?;
    let gate = Gate::to(&url).await;
    let batch: Vec<Item> = (2..=4).map(|seq| item(seq, "x")).collect();
    for place in 0.. {
        let state = begun(&url).await;
        gate.set(cut(place));
        let mut first = sink(&gate.url);
        first.resume(&state).await.unwrap();
        let whole = tokio::time::timeout(LIMIT, first.deliver(&batch)).await.unwrap().is_ok();
        drop(first);
        gate.set(Mode::Open);
        deliver_again(&gate.url, &state, &batch).await;
        assert_eq!(ids(&mut redis).await, expected(&batch), "cut after byte {place}");
        let _: () = redis.del(KEY).await.unwrap();
        if whole {
            return Some(place);
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_whole_wherever_a_request_is_cut() {
    let Some(places) = cut_everywhere(Mode::Cut).await else { return };
    assert!(places > 200, "{places}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_whole_wherever_an_answer_is_cut() {
    let Some(places) = cut_everywhere(Mode::CutAnswer).await else { return };
    assert!(places > 100, "{places}");
}

/// The events of the stream, in its order, whatever else is there.
async fn events(redis: &mut MultiplexedConnection) -> Vec<i64> {
    let entries: Vec<(String, Vec<String>)> =
        redis::cmd("XRANGE").arg(KEY).arg("-").arg("+").query_async(redis).await.unwrap();
    let data = entries.into_iter().filter_map(|(_, fields)| {
        fields.chunks_exact(2).find(|pair| pair[0] == "data").map(|pair| pair[1].clone())
    });
    let event =
        |data: String| serde_json::from_str::<Value>(&data).unwrap()["event"]["seq"].as_i64();
    data.map(|data| event(data).unwrap()).collect()
}

/// Something that is not ours, with this id.
async fn append_foreign(redis: &mut MultiplexedConnection, id: &str) {
    let mut command = redis::cmd("XADD");
    let _: String = command.arg(&[KEY, id, "x", "1"][..]).query_async(redis).await.unwrap();
}

/// A larger id of somebody else proves nothing about our events.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_with_other_writers_has_every_event_once() {
    let Some((_server, mut redis, url)) = redis_server().await else { return };
    let gate = Gate::to(&url).await;
    let batch: Vec<Item> = (2..=4).map(|seq| item(seq, "x")).collect();
    for cut in [Mode::Cut, Mode::CutAnswer] {
        for (id, place) in ["3-0", "10-0", "*"].into_iter().flat_map(|id| {
            (0..if id == "*" { 1_000 } else { 500 }).step_by(41).map(move |place| (id, place))
        }) {
            let state = begun(&url).await;
            gate.set(cut(place));
            let mut first = sink(&gate.url);
            first.resume(&state).await.unwrap();
            let first_try = tokio::time::timeout(LIMIT, first.deliver(&batch)).await.unwrap();
            let is_there = events(&mut redis).await.len() > 1;
            // The batch went through or did not, and then somebody else appends.
            append_foreign(&mut redis, if is_there && id == "3-0" { "5-0" } else { id }).await;
            gate.set(Mode::Open);
            let state = deliver_again(&gate.url, &state, &batch).await;
            assert_eq!(events(&mut redis).await, [1, 2, 3, 4], "{id} {place} {first_try:?}");
            append_foreign(&mut redis, "*").await;
            let mut next = sink(&url);
            next.resume(&state).await.unwrap();
            next.deliver(&[item(5, "x")]).await.unwrap();
            next.deliver(&[item(6, "x")]).await.unwrap();
            assert_eq!(events(&mut redis).await, [1, 2, 3, 4, 5, 6], "{id} {place}");
            let kept: Vec<String> = redis::cmd("HKEYS")
                .arg(format!("{KEY}:delivered:{{{KEY}}}"))
                .query_async(&mut redis)
                .await
                .unwrap();
            assert!(kept.len() <= 2, "records of earlier batches go: {kept:?}");
            let _: () = redis.del(KEY).await.unwrap();
        }
    }
}

/// Two installations whose logs have other events in the same places.
#[tokio::test(flavor = "multi_thread")]
async fn two_installations_may_write_to_one_stream() {
    let Some((_server, mut redis, url)) = redis_server().await else { return };
    let other = |seq: i64| {
        let mut item = item(seq, "x");
        item.event.subject = format!("other {seq}");
        item
    };
    let (mut one, mut two) = (sink(&url), sink(&url));
    let mut states = [Value::Null, Value::Null];
    for (at, from) in (1..=20).step_by(5).enumerate() {
        let batches: [Vec<Item>; 2] = [
            (from..from + 5).map(|seq| item(seq, "x")).collect(),
            (from..from + 5).map(other).collect(),
        ];
        let mut again = Vec::new();
        for (number, writer) in [&mut one, &mut two].into_iter().enumerate() {
            writer.resume(&states[number]).await.unwrap();
            let state = writer.deliver(&batches[number]).await.unwrap().state;
            // Now and then the cursor is not saved, and the batch comes again after that of the other.
            let is_saved = (at + number) % 2 == 0;
            if is_saved {
                states[number] = state;
            } else {
                again.push(number);
            }
        }
        for number in again {
            let writer = [&mut one, &mut two].into_iter().nth(number).unwrap();
            writer.resume(&states[number]).await.unwrap();
            states[number] = writer.deliver(&batches[number]).await.unwrap().state;
        }
    }
    let mut seqs = events(&mut redis).await;
    seqs.sort_unstable();
    let expected: Vec<i64> = (1..=20).flat_map(|seq| [seq, seq]).collect();
    assert_eq!(seqs, expected);
}

/// How long the first command of these bytes is, when it is there as a whole.
fn command_length(bytes: &[u8]) -> Option<usize> {
    // The number behind a type's sign, and where the next line begins.
    let line = |from: usize| -> Option<(usize, usize)> {
        let end = from + bytes.get(from..)?.windows(2).position(|pair| pair == b"\r\n")?;
        let number = std::str::from_utf8(bytes.get(from + 1..end)?).ok()?.parse().ok()?;
        Some((number, end + 2))
    };
    let (count, mut at) = line(0)?;
    for _ in 0..count {
        let (length, next) = line(at)?;
        at = next + length + 2;
    }
    (bytes.len() >= at).then_some(at)
}

/// Limits the memory of a server; 0 takes the limit away.
async fn limit(redis: &mut MultiplexedConnection, bytes: u64) {
    let mut command = redis::cmd("CONFIG");
    let _: () = command.arg("SET").arg("maxmemory").arg(bytes).query_async(redis).await.unwrap();
}

/// Passes a connection on, one command at a time; the server has no memory for one of them. Whether
/// there were so many.
async fn pass_one_by_one(
    listener: TcpListener,
    server: String,
    mut control: MultiplexedConnection,
    refused: usize,
) -> bool {
    let (mut client, _) = listener.accept().await.unwrap();
    let mut server = TcpStream::connect(server).await.unwrap();
    let (mut waiting, mut piece, mut count) = (Vec::new(), vec![0; 65_536], 0);
    loop {
        while let Some(length) = command_length(&waiting) {
            let command: Vec<u8> = waiting.drain(..length).collect();
            if count == refused {
                limit(&mut control, 1).await;
            }
            server.write_all(&command).await.unwrap();
            let length = server.read(&mut piece).await.unwrap();
            if count == refused {
                limit(&mut control, 0).await;
            }
            count += 1;
            if client.write_all(&piece[..length]).await.is_err() {
                return count > refused;
            }
        }
        match client.read(&mut piece).await {
            Ok(0) | Err(_) => return count > refused,
            Ok(length) => waiting.extend_from_slice(&piece[..length]),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_whole_whichever_command_is_refused() {
    let Some((_server, mut redis, url)) = redis_server().await else { return };
    let server = url.rsplit('@').next().unwrap().split('/').next().unwrap().to_owned();
    let batch: Vec<Item> = (2..=6).map(|seq| item(seq, "x")).collect();
    let mut failed = 0;
    for refused in 0.. {
        let state = begun(&url).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let through = url.replace(&server, &listener.local_addr().unwrap().to_string());
        let passage = pass_one_by_one(listener, server.clone(), redis.clone(), refused);
        let passage = TaskTracker::new().spawn(passage);
        let mut first = sink(&through);
        first.resume(&state).await.unwrap();
        failed += usize::from(first.deliver(&batch).await.is_err());
        drop(first);
        let reached = tokio::time::timeout(LIMIT, passage).await.unwrap().unwrap();
        deliver_again(&url, &state, &batch).await;
        assert_eq!(ids(&mut redis).await, expected(&batch), "command {refused} was refused");
        let _: () = redis.del(KEY).await.unwrap();
        if !reached {
            break;
        }
    }
    assert!(failed > batch.len(), "each event and the end of the transaction: {failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_whole_wherever_the_server_runs_out_of_memory() {
    let Some((_server, mut redis, url)) = redis_server().await else { return };
    let mut failed = 0;
    for (large, room) in
        (0..6).flat_map(|large| [20_000, 300_000, 2_500_000].map(|room| (large, room)))
    {
        let text = |at: i64| "x".repeat(if at == large { 2_000_000 } else { 10 });
        let batch: Vec<Item> = (0..6).map(|at| item(at + 2, &text(at))).collect();
        let state = begun(&url).await;
        let info: String = redis::cmd("INFO").arg("memory").query_async(&mut redis).await.unwrap();
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        limit(&mut redis, used.trim().parse::<u64>().unwrap() + room).await;
        let mut first = sink(&url);
        first.resume(&state).await.unwrap();
        let whole = first.deliver(&batch).await.is_ok();
        failed += usize::from(!whole);
        let there = ids(&mut redis).await;
        assert!(
            there == expected(&batch) || (there == expected(&[]) && !whole),
            "{large} {room}: {there:?}"
        );
        limit(&mut redis, 0).await;
        deliver_again(&url, &state, &batch).await;
        assert_eq!(ids(&mut redis).await, expected(&batch), "{large} {room}");
        let _: () = redis.del(KEY).await.unwrap();
    }
    assert!(failed > 0, "the server never ran out of memory");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_comes_late_is_appended_once() {
    let Some((_server, mut redis, url)) = redis_server().await else { return };
    let batch: Vec<Item> = (1..=5).map(|seq| item(seq, "x")).collect();
    let without = [batch[0].clone(), batch[2].clone(), batch[4].clone()];
    let mut sink_ = sink(&url);
    sink_.resume(&Value::Null).await.unwrap();
    let state = sink_.deliver(&without).await.unwrap().state;
    // Two that could not be read before are sent now; the second time nobody saw the answer.
    let late = [batch[1].clone(), batch[3].clone()];
    for _ in 0..2 {
        let mut sink = sink(&url);
        sink.resume(&state).await.unwrap();
        sink.deliver(&late).await.unwrap();
    }
    assert_eq!(ids(&mut redis).await, ["1-0", "3-0", "5-0", "5-1", "5-2"]);
    // What comes then has its own place, and what its reader removed does not come back.
    let _: u64 = redis::cmd("XDEL").arg(KEY).arg("5-2").query_async(&mut redis).await.unwrap();
    let mut sink_ = sink(&url);
    sink_.resume(&state).await.unwrap();
    let state = sink_.deliver(&late[..1]).await.unwrap().state;
    sink_.resume(&state).await.unwrap();
    sink_.deliver(&[item(6, "x")]).await.unwrap();
    assert_eq!(ids(&mut redis).await, ["1-0", "3-0", "5-0", "5-1", "6-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_whose_reader_removes_entries_goes_on() {
    let Some((_server, mut redis, url)) = redis_server().await else { return };
    let batch: Vec<Item> = (1..=3).map(|seq| item(seq, "x")).collect();
    let mut sink = sink(&url);
    sink.resume(&Value::Null).await.unwrap();
    let state = sink.deliver(&batch[..1]).await.unwrap().state;
    sink.deliver(&batch[1..2]).await.unwrap();
    for id in ["1-0", "2-0"] {
        let _: u64 = redis::cmd("XDEL").arg(KEY).arg(id).query_async(&mut redis).await.unwrap();
    }
    // The second was taken, and the cursor was not saved.
    sink.resume(&state).await.unwrap();
    sink.deliver(&batch[1..]).await.unwrap();
    assert_eq!(ids(&mut redis).await, ["3-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_allows_no_transactions_is_told_and_gets_nothing() {
    let Some((_server, mut redis, url)) = redis_server().await else { return };
    let _: () = redis::cmd("ACL")
        .arg(&["SETUSER", "plain", "on", ">secret", "~*", "+@all", "-multi"][..])
        .query_async(&mut redis)
        .await
        .unwrap();
    let mut sink = sink(&url.replace(":hunt%40er@", "plain:secret@"));
    sink.resume(&Value::Null).await.unwrap();
    let batch = [item(1, "x")];
    let refused = tokio::time::timeout(Duration::from_secs(30), sink.deliver(&batch)).await;
    let error = refused.unwrap().unwrap_err().to_string();
    assert!(error.contains("multi"), "{error}");
    assert!(ids(&mut redis).await.is_empty());
}
