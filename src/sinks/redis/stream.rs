//! Events as a Redis stream. An entry's id is the event's place in the log, so no event can be there
//! twice, and the order of the stream is that of the log.
//!
//! A batch is one transaction (`MULTI` and `EXEC`): a connection that is cut, or a server that is out
//! of memory, leaves all of it or nothing. Only therefore does a later event prove that those before it
//! in the batch are there. An event that is sent again although the stream went on without it (a dead
//! letter, a replay) proves nothing that way: it is looked for by itself, and appended at the end with
//! an id behind the last one when it is missing.

use std::collections::HashSet;
use std::fmt;

use async_trait::async_trait;
use redis::{FromRedisValue, Pipeline, Value};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Server, told};
use crate::sinks::{Item, Sink, SinkError, Taken};

/// Entries that are read back at the most to find what an interrupted batch left: the largest batch.
const READ_BACK: usize = 10_000;

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
        Self { number: self.number + 1, ..self }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.place, self.number)
    }
}

/// What the cursor remembers: how far the stream had come when it was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// Every event up to this place was handed over once. One that comes again was asked for.
    confirmed: i64,
    /// The last id of the stream.
    last: StreamId,
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

    /// The last id that the stream ever gave, also when its entries were removed since. From now on
    /// a transaction fails when somebody else writes to the stream.
    async fn last_id(&mut self) -> Result<StreamId, SinkError> {
        let mut commands = Pipeline::new();
        // A server that knows no transactions refuses here, before anything is written.
        commands.cmd("MULTI").cmd("EXEC").cmd("WATCH").arg(&self.key);
        commands.cmd("XINFO").arg("STREAM").arg(&self.key).ignore_errors();
        let mut answers = self.server.run_each(&commands).await?;
        let info = answers.pop();
        if let Some(error) = answers.into_iter().find_map(Result::err) {
            return Err(self.server.lost(&error));
        }
        match info {
            Some(Ok(info)) => last_generated(&info)
                .ok_or_else(|| self.server.away("does not answer as a stream does")),
            // There is no stream yet.
            Some(Err(error)) if told(&error).contains("no such key") => Ok(StreamId::default()),
            Some(Err(error)) => Err(self.server.lost(&error)),
            None => Err(self.server.away("does not answer")),
        }
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
        commands.cmd("XRANGE").arg(&self.key).arg(since.to_string()).arg("+");
        commands.arg("COUNT").arg(READ_BACK);
        let mut answers = self.server.run(&commands).await?;
        let recent = answers.pop().map(entries).unwrap_or_default();
        let places = recent.iter().filter(|entry| entry.id.number > 0).filter_map(Entry::place);
        let mut present: HashSet<i64> = places.collect();
        for (item, answer) in events.iter().zip(answers) {
            // Another installation may have written to the same stream before.
            let is_it = |entry: &Entry| {
                entry.field("subject") == Some(&item.event.subject)
                    && entry.field("kind") == Some(item.event.kind.as_str())
            };
            if entries(answer).first().is_some_and(is_it) {
                present.insert(item.event.seq);
            }
        }
        Ok(present)
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
}

#[async_trait]
impl Sink for RedisStream {
    async fn resume(&mut self, state: &serde_json::Value) -> Result<(), SinkError> {
        self.position = serde_json::from_value(state.clone()).unwrap_or_default();
        Ok(())
    }

    async fn deliver(&mut self, batch: &[Item]) -> Result<Taken, SinkError> {
        let mut last = self.last_id().await?;
        // Without a saved position nothing is proven: every event that may be there is looked for.
        let confirmed = i64::try_from(last.place).unwrap_or(i64::MAX);
        let position = self.position.unwrap_or(Position { confirmed, last });
        let again: Vec<&Item> =
            batch.iter().filter(|item| item.event.seq <= position.confirmed).collect();
        let present = self.present(&again, position.last).await?;
        let (mut commands, mut count) = (Pipeline::new(), 0_usize);
        commands.atomic();
        for item in batch {
            let seq = item.event.seq;
            let id = match how(seq, position.confirmed, last, present.contains(&seq)) {
                Delivery::Present => continue,
                Delivery::Append(id) => id,
            };
            self.append(&mut commands, item, id)?;
            (last, count) = (id, count + 1);
        }
        if count > 0 {
            let added = self.server.run(&commands).await?.len();
            if added != count {
                return Err(self.server.away("has another writer on this stream; trying again"));
            }
        }
        let seqs = batch.iter().map(|item| item.event.seq);
        let confirmed = seqs.fold(position.confirmed, i64::max);
        let position = Position { confirmed, last };
        self.position = Some(position);
        Ok(Taken { state: json!(position), refused: Vec::new() })
    }

    async fn check(&mut self) -> Result<String, SinkError> {
        self.server.check().await
    }
}

/// What is to be done about an event.
#[derive(Debug, PartialEq, Eq)]
enum Delivery {
    /// Nothing: it is there.
    Present,
    /// It is appended with this id.
    Append(StreamId),
}

/// How an event is delivered to a stream that ends with `last`. `is_present` counts for events that
/// come again; others are in order, and batches are whole, so the last id tells about them.
fn how(seq: i64, confirmed: i64, last: StreamId, is_present: bool) -> Delivery {
    let own = StreamId::of(seq);
    if seq > confirmed {
        return if own.place <= last.place { Delivery::Present } else { Delivery::Append(own) };
    }
    match is_present {
        true => Delivery::Present,
        false if own > last => Delivery::Append(own),
        false => Delivery::Append(last.behind()),
    }
}

/// An entry of a stream.
struct Entry {
    id: StreamId,
    fields: Vec<String>,
}

impl Entry {
    fn field(&self, name: &str) -> Option<&str> {
        let pairs = self.fields.chunks_exact(2);
        pairs
            .filter_map(|pair| pair.first().zip(pair.last()))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The event's place, as its data says.
    fn place(&self) -> Option<i64> {
        let data: serde_json::Value = serde_json::from_str(self.field("data")?).ok()?;
        data.get("event")?.get("seq")?.as_i64()
    }
}

/// The entries of an answer to `XRANGE`; what is not ours is left out.
fn entries(answer: Value) -> Vec<Entry> {
    let Value::Array(entries) = answer else { return Vec::new() };
    let read = |entry: Value| {
        let (id, fields): (String, Vec<String>) = FromRedisValue::from_redis_value(entry).ok()?;
        Some(Entry { id: StreamId::parse(&id)?, fields })
    };
    entries.into_iter().filter_map(read).collect()
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

    fn id(text: &str) -> StreamId {
        StreamId::parse(text).unwrap()
    }

    #[test]
    fn an_event_is_appended_once_in_its_place_or_behind_the_last() {
        use Delivery::{Append, Present};
        for (seq, confirmed, last, present, expected) in [
            (7, 6, "6-0", false, Append(id("7-0"))),
            (7, 6, "4-2", false, Append(id("7-0"))),
            // The batch before was taken whole, and its cursor was not saved.
            (7, 6, "9-0", false, Present),
            (7, 6, "7-0", false, Present),
            // It comes again.
            (5, 6, "9-0", true, Present),
            (5, 6, "9-0", false, Append(id("9-1"))),
            (5, 6, "9-3", false, Append(id("9-4"))),
            (5, 6, "0-0", false, Append(id("5-0"))),
        ] {
            let found = how(seq, confirmed, id(last), present);
            assert_eq!(found, expected, "{seq} after {confirmed} at {last}");
        }
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
