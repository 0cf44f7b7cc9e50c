//! Who gets it: each sink is a named cursor on the log of events.
//!
//! A sink can be down for a week and lose nothing, be added later and start from the beginning,
//! and it never slows fetching: it reads the log at its own pace. A sink does not know how an
//! article came to be. To add one, write a file with a type that is a [`Sink`]; who gets what, in
//! which batches, again after failures and from where, is [`Pump`]'s.

pub mod elasticsearch;
pub mod files;
mod filter;
mod item;
mod lanes;
pub mod nats;
pub mod ndjson;
pub mod permissions;
mod pump;
mod redact;
pub mod redis;
pub mod stdout;
pub mod webhook;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::db::DbError;
use crate::model::{FetchId, FetchRecord};
use crate::store::outbox::Refusal;

pub use filter::Filter;
pub use item::{About, Item};
pub use lanes::lanes;
pub use pump::{Pump, Terms};
pub use redact::{Redact, Redaction};

/// Why a sink did not take a batch; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// A file could not be written.
    #[error("{target}: {source}")]
    Io {
        /// Which file.
        target: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// Its target is away, or does not want anything now.
    #[error("{target} {reason}")]
    Away {
        /// Who.
        target: String,
        /// What it says.
        reason: String,
        /// How long it wants to be left alone.
        after: Option<Duration>,
    },
    /// What it needed could not be read.
    #[error(transparent)]
    Db(#[from] DbError),
    /// An event could not be written down.
    #[error("cannot write an event: {0}")]
    Encode(#[from] serde_json::Error),
}

impl SinkError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "sink_io",
            Self::Away { .. } => "sink_away",
            Self::Db(_) => "sink_store",
            Self::Encode(_) => "sink_encode",
        }
    }
}

/// What became of a batch that a sink took.
#[derive(Debug, Default)]
pub struct Taken {
    /// What the sink needs to go on from there.
    pub state: Value,
    /// Events that its target will never have as they are.
    pub refused: Vec<Refusal>,
}

/// A target for events.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Goes back to where the cursor was saved; called before anything else, and after a failure.
    async fn resume(&mut self, _state: &Value) -> Result<(), SinkError> {
        Ok(())
    }

    /// What has to be remembered before a batch is taken, so that a crash in the middle can be
    /// undone; `None` when the saved state is enough.
    fn prepare(&mut self, _batch: &[Item]) -> Result<Option<Value>, SinkError> {
        Ok(None)
    }

    /// Takes a batch in order, durably. Whoever gets an event twice must be able to tell by its
    /// subject or place: a crash may come before the cursor is saved.
    async fn deliver(&mut self, batch: &[Item]) -> Result<Taken, SinkError>;

    /// Looks whether the target would take something, and says who answered.
    async fn check(&mut self) -> Result<String, SinkError>;
}

/// What a fetch brought, for sinks that hand on more than articles.
#[async_trait]
pub trait Bodies: Send + Sync {
    /// Those of these fetches that are known.
    async fn find(&self, fetches: &[FetchId]) -> Result<HashMap<FetchId, FetchRecord>, SinkError>;

    /// The body as it was served, with its media type and address; `None` when it is not kept.
    async fn body(&self, fetch: &FetchRecord) -> Result<Option<Body>, SinkError>;
}

/// The fetches that brought the articles of a batch, each once.
fn fetches<'a>(batch: impl IntoIterator<Item = &'a Item>) -> Vec<FetchId> {
    let of = batch.into_iter().filter_map(|item| match &item.about {
        About::Article(row, _) => row.fetch,
        About::Entry(_) | About::Event => None,
    });
    of.collect::<BTreeSet<_>>().into_iter().collect()
}

/// A body as it was served.
#[derive(Clone, Debug)]
pub struct Body {
    /// The address that answered.
    pub url: String,
    /// Its media type, as served.
    pub media: Option<String>,
    /// Without its content coding.
    pub bytes: Vec<u8>,
}
