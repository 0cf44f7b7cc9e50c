//! Events as a Redis stream. An entry's id is the event's place in the log, as long as nobody else appends larger
//! ids to the stream, and the order of the stream is that of the log.
//!
//! A batch is one transaction (`MULTI` and `EXEC`): a connection that is cut, or a server that is out
//! of memory, leaves all of it or nothing. The same transaction writes a record of the batch, a field of a
//! hash beside the stream: it tells exactly which events of a batch are there whose cursor was not saved. A larger
//! id proves nothing: others may append to the stream, and readers may remove entries.
//!
//! An event that is sent again although the stream went on without it (a dead letter, a replay) is looked for
//! by itself, and appended at the end with an id behind the last one when it is missing.

use std::collections::{HashMap, HashSet};
use std::fmt;

use async_trait::async_trait;
use redis::{FromRedisValue, Pipeline, Value};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Server, told};
use crate::model::{Event, UrlHash};
use crate::sinks::{Item, Sink, SinkError, Taken};

/// Entries that are read back at a time to find events that were sent late.
const READ_BACK: usize = 1_000;

/// The id of an entry of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct StreamId {
    /// The place of the event, or of the last one before it when it was sent late.
    place: u64,
    /// 0, or a number that tells events that were sent late apart.
    number: u64,
}

impl StreamId {
    fn of(seq: i64) -> Self {
        Self { place: u64::try_from(seq).unwrap_or_default(), number: 0 }
    }

    fn parse(text: &str) -> Option<Self> {
        let (place, number) = text.split_once('-')?;
        Some(Self { place: place.parse().ok()?, number: number.parse().ok()? })
    }

    /// The id behind this one that leaves the place of the next event free.
    const fn behind(self) -> Self {
        match self.number.checked_add(1) {
            Some(number) => Self { number, ..self },
            None => Self { place: self.place.saturating_add(1), number: 0 },
        }
    }

    /// The id of an event in a stream that ends with this one: its own place, or behind the last.
    fn next(self, seq: i64) -> Self {
        let own = Self::of(seq);
        if own > self { own } else { self.behind() }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.place, self.number)
    }
}

/// What the cursor remembers: how far the stream had come when it was saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// Every event up to this place was handed over once. One that comes again was asked for.
    confirmed: i64,
    /// The last id of the stream.
    last: StreamId,
    /// Fields of the record about batches up to here: the next transaction removes them.
    #[serde(default)]
    fields: Vec<String>,
}

/// What the hash beside the stream tells of transactions whose cursors may not have been saved.
#[derive(Debug, Default)]
struct Record {
    /// The fields, with the events of each.
    batches: Vec<(String, HashSet<String>)>,
}

impl Record {
    /// Reads the answer to `HGETALL`. A field that tells of a larger id than the stream ever had is about a stream
    /// that was deleted.
    fn read(answer: Value, last: StreamId) -> Self {
        let fields: Vec<(String, String)> = redis::from_redis_value(answer).unwrap_or_default();
        let batch = |(field, text): (String, String)| {
            let (end, events) = text.split_once(' ').unwrap_or((&text, ""));
            let is_of_this_stream = StreamId::parse(end).is_some_and(|end| end <= last);
            is_of_this_stream.then(|| (field, events.split(' ').map(str::to_owned).collect()))
        };
        Self { batches: fields.into_iter().filter_map(batch).collect() }
    }

    /// What a transaction that leaves the stream at `end` writes about its batch.
    fn written(end: StreamId, batch: &[Item]) -> String {
        batch.iter().fold(end.to_string(), |text, item| text + " " + &fingerprint(item))
    }

    fn has(&self, item: &Item) -> bool {
        let event = fingerprint(item);
        self.batches.iter().any(|(_, events)| events.contains(&event))
    }

    /// The fields that tell of any of these events.
    fn fields_of(&self, batch: &[Item]) -> Vec<String> {
        let events: Vec<String> = batch.iter().map(fingerprint).collect();
        let named =
            self.batches.iter().filter(|(_, told)| events.iter().any(|it| told.contains(it)));
        named.map(|(field, _)| field.clone()).collect()
    }
}

/// What tells an event from all others, also from those of another log.
fn fingerprint(item: &Item) -> String {
    let Event { seq, at, kind, subject, .. } = &item.event;
    let hash = UrlHash::of(&format!("{} {} {subject}", at.ms(), kind.as_str())).to_string();
    format!("{seq}:{}", hash.get(..16).unwrap_or(&hash))
}

/// Appends events to a stream.
pub struct RedisStream {
    server: Server,
    key: String,
    /// About so many entries are kept; 0 keeps all.
    max_len: u64,
    /// `None` until a batch was delivered.
    position: Option<Position>,
}

impl RedisStream {
    /// A sink that appends to that stream.
    #[must_use]
    pub const fn new(server: Server, key: String, max_len: u64) -> Self {
        Self { server, key, max_len, position: None }
    }

    /// The hash with the record, in the same slot of a cluster and below the same prefix as the stream.
    fn record_key(&self) -> String {
        let key = &self.key;
        if key.contains('{') {
            format!("{key}:delivered")
        } else {
            format!("{key}:delivered:{{{key}}}")
        }
    }

    /// The last id that the stream ever gave, also when its entries were removed since, and the record. From now
    /// on a transaction fails when somebody else writes to the stream.
    async fn look(&mut self) -> Result<(StreamId, Record), SinkError> {
        let mut commands = Pipeline::new();
        // A server that knows no transactions refuses here, before anything is written.
        commands.cmd("MULTI").cmd("EXEC").cmd("WATCH").arg(&self.key);
        commands.cmd("HGETALL").arg(self.record_key());
        commands.cmd("XINFO").arg("STREAM").arg(&self.key).ignore_errors();
        let mut answers = self.server.run_each(&commands).await?;
        let (info, mut others) = (answers.pop(), Vec::new());
        for answer in answers {
            others.push(answer.map_err(|error| self.server.lost(&error))?);
        }
        let last = match info {
            Some(Ok(info)) => last_generated(&info)
                .ok_or_else(|| self.server.away("does not answer as a stream does"))?,
            // There is no stream yet.
            Some(Err(error)) if told(&error).contains("no such key") => StreamId::default(),
            Some(Err(error)) => return Err(self.server.lost(&error)),
            None => return Err(self.server.away("does not answer")),
        };
        Ok((last, Record::read(others.pop().unwrap_or(Value::Nil), last)))
    }

    /// Which of these events the stream has, each looked for by itself.
    async fn present(
        &mut self,
        events: &[&Item],
        since: StreamId,
    ) -> Result<HashSet<i64>, SinkError> {
        if events.is_empty() {
            return Ok(HashSet::new());
        }
        let mut commands = Pipeline::new();
        for item in events {
            let id = StreamId::of(item.event.seq).to_string();
            commands.cmd("XRANGE").arg(&self.key).arg(&id).arg(&id);
        }
        let mut found: Vec<Entry> = Vec::new();
        for answer in self.server.run(&commands).await? {
            found.extend(entries(answer).0);
        }
        let mut from = since;
        loop {
            let mut command = Pipeline::new();
            command.cmd("XRANGE").arg(&self.key).arg(from.to_string()).arg("+");
            command.arg("COUNT").arg(READ_BACK);
            let (page, last) =
                entries(self.server.run(&command).await?.pop().unwrap_or(Value::Nil));
            found.extend(page);
            match last {
                Some(last) => from = last.behind(),
                None => break,
            }
        }
        let mut places: HashMap<i64, Vec<&Entry>> = HashMap::new();
        for entry in &found {
            places.entry(entry.seq()).or_default().push(entry);
        }
        let is_there = |item: &&&Item| {
            places.get(&item.event.seq).is_some_and(|all| all.iter().any(|entry| entry.is(item)))
        };
        Ok(events.iter().filter(is_there).map(|item| item.event.seq).collect())
    }

    fn append(&self, commands: &mut Pipeline, item: &Item, id: StreamId) -> Result<(), SinkError> {
        let mut line = Vec::new();
        item.write(&mut line)?;
        let command = commands.cmd("XADD").arg(&self.key);
        if self.max_len > 0 {
            command.arg("MAXLEN").arg("~").arg(self.max_len);
        }
        command
            .arg(id.to_string())
            .arg("kind")
            .arg(item.event.kind.as_str())
            .arg("subject")
            .arg(&item.event.subject)
            .arg("data")
            .arg(line);
        Ok(())
    }

    /// Writes the record of a batch, and removes what the saved cursor made needless.
    fn append_record(
        &self,
        commands: &mut Pipeline,
        known: Option<&Position>,
        fields: &[String],
        record: &str,
        is_new: bool,
    ) {
        let key = self.record_key();
        if is_new {
            // What it tells is about a stream that was deleted.
            commands.cmd("DEL").arg(&key);
        }
        for field in known.iter().flat_map(|position| &position.fields) {
            commands.cmd("HDEL").arg(&key).arg(field);
        }
        for field in fields {
            commands.cmd("HSET").arg(&key).arg(field).arg(record);
        }
    }
}

#[async_trait]
impl Sink for RedisStream {
    async fn resume(&mut self, state: &serde_json::Value) -> Result<(), SinkError> {
        self.position = serde_json::from_value(state.clone()).unwrap_or_default();
        Ok(())
    }

    async fn deliver(&mut self, batch: &[Item]) -> Result<Taken, SinkError> {
        let (mut last, record) = self.look().await?;
        let is_new = last == StreamId::default();
        let known = self.position.clone();
        let confirmed = known.as_ref().map_or(0, |position| position.confirmed);
        // Only a version that wrote no record can have left part of a batch that none tells of.
        let is_unclear =
            record.batches.is_empty() && known.as_ref().is_none_or(|it| it.last != last);
        let looked_for: Vec<&Item> = batch
            .iter()
            .filter(|item| item.event.seq <= confirmed || known.is_none() || is_unclear)
            .collect();
        let since = known.as_ref().map_or(last, |position| position.last);
        let present = self.present(&looked_for, since).await?;
        let (mut commands, mut count) = (Pipeline::new(), 0_usize);
        commands.atomic();
        for item in batch {
            let seq = item.event.seq;
            // One that comes again was asked for: the stream itself has to have it.
            if present.contains(&seq) || (seq > confirmed && record.has(item)) {
                continue;
            }
            last = last.next(seq);
            self.append(&mut commands, item, last)?;
            count += 1;
        }
        let mut fields = record.fields_of(batch);
        if count > 0 {
            fields = vec![batch.first().map(fingerprint).unwrap_or_default()];
            self.append_record(
                &mut commands,
                known.as_ref(),
                &fields,
                &Record::written(last, batch),
                is_new,
            );
            let done = self.server.run(&commands).await?.len();
            if done < count {
                return Err(self.server.away("has another writer on this stream; trying again"));
            }
        }
        let confirmed = batch.iter().map(|item| item.event.seq).fold(confirmed, i64::max);
        let position = Position { confirmed, last, fields };
        let taken = Taken { state: json!(position), refused: Vec::new() };
        self.position = Some(position);
        Ok(taken)
    }

    async fn check(&mut self) -> Result<String, SinkError> {
        self.server.check().await
    }
}

/// An entry of a stream that is an event of ours.
struct Entry {
    /// The part of its data that tells the event.
    event: serde_json::Value,
}

impl Entry {
    fn read(fields: &[String]) -> Option<Self> {
        let mut pairs = fields.chunks_exact(2);
        let data = pairs.find(|pair| pair.first().is_some_and(|name| name == "data"))?.last()?;
        let mut data: serde_json::Value = serde_json::from_str(data).ok()?;
        Some(Self { event: data.get_mut("event")?.take() })
    }

    fn seq(&self) -> i64 {
        self.event.get("seq").and_then(serde_json::Value::as_i64).unwrap_or_default()
    }

    /// Whether it is this very event, and not one with the same place in another log.
    fn is(&self, item: &Item) -> bool {
        let Event { seq, at, kind, subject, .. } = &item.event;
        let expected = [
            ("seq", json!(seq)),
            ("at", json!(at)),
            ("kind", json!(kind)),
            ("subject", json!(subject)),
        ];
        expected.iter().all(|(name, value)| self.event.get(name) == Some(value))
    }
}

/// The entries of an answer to `XRANGE` that are events of ours, and the id of the last one.
fn entries(answer: Value) -> (Vec<Entry>, Option<StreamId>) {
    let Value::Array(entries) = answer else { return (Vec::new(), None) };
    let read = |entry| <(String, Vec<String>)>::from_redis_value(entry).ok();
    let all: Vec<(String, Vec<String>)> = entries.into_iter().filter_map(read).collect();
    let last = all.last().and_then(|(id, _)| StreamId::parse(id));
    (all.iter().filter_map(|(_, fields)| Entry::read(fields)).collect(), last)
}

/// The last id in an answer to `XINFO STREAM`: names and values in turn, or a map.
fn last_generated(info: &Value) -> Option<StreamId> {
    let text = |value: &Value| redis::from_redis_value_ref::<String>(value).ok();
    let is_it = |name: &Value| text(name).as_deref() == Some("last-generated-id");
    let value = match info {
        Value::Array(items) => {
            items.chunks_exact(2).find(|pair| pair.first().is_some_and(is_it))?.last()?
        }
        Value::Map(pairs) => &pairs.iter().find(|(name, _)| is_it(name))?.1,
        _ => return None,
    };
    StreamId::parse(&text(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EventKind, Ts};
    use crate::sinks::About;

    fn id(text: &str) -> StreamId {
        StreamId::parse(text).unwrap()
    }

    fn item(seq: i64, subject: &str) -> Item {
        let event = Event {
            seq,
            at: Ts::from_ms(seq),
            kind: EventKind::FeedGone,
            subject: subject.to_owned(),
            source: None,
            payload: json!({}),
        };
        Item { event, about: About::Event, source: None, trail: Default::default() }
    }

    #[test]
    fn an_event_has_its_own_place_or_one_behind_the_last() {
        for (seq, last, expected) in [
            (7, "6-0", "7-0"),
            (7, "4-2", "7-0"),
            (5, "0-0", "5-0"),
            (5, "9-0", "9-1"),
            (5, "9-3", "9-4"),
            (5, "5-0", "5-1"),
            (5, "1795054231916-0", "1795054231916-1"),
            (5, "9-18446744073709551615", "10-0"),
        ] {
            assert_eq!(id(last).next(seq), id(expected), "{seq} at {last}");
        }
    }

    #[test]
    fn a_record_tells_the_events_of_its_batch_and_of_its_stream() {
        let batch = [item(4, "a"), item(5, "b")];
        let answer = |end: &str| {
            let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
            let written = Record::written(id(end), &batch);
            Value::Map(vec![(text("4:x"), text(&written)), (text("odd"), text("no record"))])
        };
        let record = Record::read(answer("5-0"), id("9-0"));
        assert!(batch.iter().all(|item| record.has(item)));
        assert!(!record.has(&item(6, "c")), "it is not in the batch");
        assert!(!record.has(&item(4, "b")), "another log has something else in this place");
        assert_eq!(record.fields_of(&batch[1..]), ["4:x"]);
        assert_eq!(record.fields_of(&[item(6, "c")]), Vec::<String>::new());
        let deleted = Record::read(answer("5-0"), id("4-0"));
        assert!(!deleted.has(&batch[0]), "the stream was deleted since");
        assert!(Record::read(Value::Nil, id("9-0")).batches.is_empty());
    }

    #[test]
    fn the_last_id_is_read_in_both_forms_of_the_protocol() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let pairs = [("length", Value::Int(0)), ("last-generated-id", text("12-3"))];
        let flat = pairs.iter().flat_map(|(name, value)| [text(name), value.clone()]).collect();
        let map = pairs.iter().map(|(name, value)| (text(name), value.clone())).collect();
        assert_eq!(last_generated(&Value::Array(flat)), Some(id("12-3")));
        assert_eq!(last_generated(&Value::Map(map)), Some(id("12-3")));
        assert_eq!(last_generated(&Value::Nil), None);
        assert_eq!(id("12-3").to_string(), "12-3");
    }
}
