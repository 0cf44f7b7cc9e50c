//! Publishes events to a JetStream stream, on a subject per kind, such as `feedmill.article.new`.
//!
//! Each message carries the event's place as its id, which the server knows for a while; a batch
//! counts only when the server has acknowledged all of it.

use std::collections::HashSet;
use std::time::Duration;

use async_nats::jetstream::context::{PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::{self, stream};
use async_nats::{ConnectOptions, HeaderMap};
use async_trait::async_trait;

use super::{Item, Sink, SinkError, Taken};
use crate::store::outbox::Refusal;

/// For how long a server is to know the ids of messages.
const MEMORY: Duration = Duration::from_hours(24);

/// Where to publish.
#[derive(Clone)]
pub struct Settings {
    /// Addresses of servers, separated by commas, as `nats://USER:PASSWORD@HOST:4222`.
    pub url: String,
    /// The same without passwords.
    pub shown: String,
    /// The stream, which is made when it is missing.
    pub stream: String,
    /// What subjects begin with.
    pub subject: String,
    /// How long the server may take to answer.
    pub timeout: Duration,
}

/// Publishes events.
pub struct Nats {
    settings: Settings,
    connected: Option<jetstream::Context>,
}

impl Nats {
    /// A sink that publishes there.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        Self { settings, connected: None }
    }

    fn away(&self, reason: impl std::fmt::Display) -> SinkError {
        let target = self.settings.shown.clone();
        SinkError::Away { target, reason: reason.to_string(), after: None }
    }

    async fn context(&mut self) -> Result<jetstream::Context, SinkError> {
        if let Some(context) = &self.connected {
            return Ok(context.clone());
        }
        let Settings { url, stream, subject, timeout, .. } = self.settings.clone();
        let servers: Vec<String> = url.split(',').map(|part| part.trim().to_owned()).collect();
        let options = ConnectOptions::new()
            .name("feedmill")
            .connection_timeout(timeout)
            .request_timeout(Some(timeout));
        let client = options.connect(servers).await.map_err(|error| self.away(error))?;
        let mut context = jetstream::new(client);
        context.set_timeout(timeout);
        let wanted = stream::Config {
            name: stream,
            subjects: vec![format!("{subject}.>")],
            duplicate_window: MEMORY,
            ..stream::Config::default()
        };
        context.get_or_create_stream(wanted).await.map_err(|error| self.away(error))?;
        self.connected = Some(context.clone());
        Ok(context)
    }

    async fn publish(
        &self,
        context: &jetstream::Context,
        batch: &[Item],
    ) -> Result<Taken, SinkError> {
        let mut refused = Vec::new();
        let (mut acks, mut about) = (Vec::with_capacity(batch.len()), HashSet::new());
        for item in batch {
            // What is about the same thing waits until the server has what came before: of messages on
            // their way it may lose one and keep a later one.
            if !about.insert(item.key()) {
                self.taken(&mut acks).await?;
                about = HashSet::from([item.key()]);
            }
            let mut line = Vec::new();
            item.write(&mut line)?;
            let seq = item.event.seq;
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Msg-Id", format!("feedmill-{seq}"));
            let subject = format!("{}.{}", self.settings.subject, item.event.kind);
            let sent = context.publish_with_headers(subject, headers, line.into()).await;
            match sent {
                Ok(ack) => acks.push(ack),
                Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                    let reason = "it is larger than the server takes".to_owned();
                    refused.push(Refusal { seq, code: "nats_too_large", reason });
                }
                Err(error) => return Err(self.away(error)),
            }
        }
        self.taken(&mut acks).await?;
        Ok(Taken { refused, ..Taken::default() })
    }

    /// Waits until the server has everything that is on its way.
    async fn taken(&self, acks: &mut Vec<PublishAckFuture>) -> Result<(), SinkError> {
        for ack in acks.drain(..) {
            ack.await.map_err(|error| self.away(error))?;
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for Nats {
    async fn deliver(&mut self, batch: &[Item]) -> Result<Taken, SinkError> {
        let context = self.context().await?;
        let published = self.publish(&context, batch).await;
        if published.is_err() {
            // The stream may be gone: it is looked for again.
            self.connected = None;
        }
        published
    }

    async fn check(&mut self) -> Result<String, SinkError> {
        let context = self.context().await?;
        let name = self.settings.stream.clone();
        let mut stream = context.get_stream(&name).await.map_err(|error| self.away(error))?;
        let info = stream.info().await.map_err(|error| self.away(error))?;
        let messages = info.state.messages;
        Ok(format!("stream {name} at {} has {messages} messages", self.settings.shown))
    }
}
