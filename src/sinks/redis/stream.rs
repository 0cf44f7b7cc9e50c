//! Events as a Redis stream. An entry's id is the event's place in the log, so no event can be there
//! twice, and the order of the stream is that of the log.

use async_trait::async_trait;
use redis::{Pipeline, Value};

use super::Server;
use crate::sinks::{Item, Sink, SinkError, Taken};

/// Appends events to a stream.
pub struct RedisStream {
    server: Server,
    key: String,
    /// About so many entries are kept; 0 keeps all.
    max_len: u64,
}

impl RedisStream {
    /// A sink that appends to that stream.
    #[must_use]
    pub const fn new(server: Server, key: String, max_len: u64) -> Self {
        Self { server, key, max_len }
    }
}

#[async_trait]
impl Sink for RedisStream {
    async fn deliver(&mut self, batch: &[Item]) -> Result<Taken, SinkError> {
        let mut last = Pipeline::new();
        last.cmd("XREVRANGE").arg(&self.key).arg("+").arg("-").arg("COUNT").arg(1);
        let last = last_place(self.server.run(&last).await?);
        let mut commands = Pipeline::new();
        for item in batch {
            let seq = item.event.seq;
            if seq <= last {
                continue;
            }
            let mut line = Vec::new();
            item.write(&mut line)?;
            let command = commands.cmd("XADD").arg(&self.key);
            if self.max_len > 0 {
                command.arg("MAXLEN").arg("~").arg(self.max_len);
            }
            command
                .arg(format!("{seq}-0"))
                .arg("kind")
                .arg(item.event.kind.as_str())
                .arg("subject")
                .arg(&item.event.subject)
                .arg("data")
                .arg(line);
        }
        if commands.cmd_iter().next().is_some() {
            self.server.run(&commands).await?;
        }
        Ok(Taken::default())
    }

    async fn check(&mut self) -> Result<String, SinkError> {
        self.server.check().await
    }
}

/// The place of the last event that a stream has; 0 when it is empty.
fn last_place(answers: Vec<Value>) -> i64 {
    let Some(Value::Array(entries)) = answers.into_iter().next() else { return 0 };
    let Some(Value::Array(entry)) = entries.into_iter().next() else { return 0 };
    let id: Option<String> = entry.first().and_then(|id| redis::from_redis_value_ref(id).ok());
    let place = id.as_deref().and_then(|id| id.split('-').next()).and_then(|id| id.parse().ok());
    place.unwrap_or(0)
}
