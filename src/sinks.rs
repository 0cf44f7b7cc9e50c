//! Who gets it: each sink is a named cursor on the log of events.
//!
//! A sink can be down for a week and lose nothing, be added later and start from the beginning,
//! and it never slows fetching: it reads the log at its own pace. A sink does not know how an
//! article came to be.

pub mod ndjson;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::db::DbError;
use crate::model::Event;
use crate::progress::Progress;
use crate::store::{SinkCursor, Store};

/// Events that are handed over at once.
const BATCH: usize = 500;
/// The log may have grown by another process: look at least this often.
const GLANCE: Duration = Duration::from_secs(1);
/// The first wait after a failure; it doubles.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait after a failure.
const LONGEST: Duration = Duration::from_mins(1);

/// Why a sink did not take a batch.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Its target said no.
    #[error("{target}: {source}")]
    Io {
        /// Which file.
        target: String,
        /// What the system says.
        source: std::io::Error,
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
            Self::Db(_) => "sink_store",
            Self::Encode(_) => "sink_encode",
        }
    }
}

/// A target for events.
#[async_trait]
pub trait Sink: Send {
    /// Goes back to where the cursor was saved; called before anything else, and after a failure.
    async fn resume(&mut self, state: &Value) -> Result<(), SinkError>;

    /// What has to be remembered before a batch is taken, so that a crash in the middle can be
    /// undone; `None` when the saved state is enough.
    fn prepare(&mut self, batch: &[Event]) -> Result<Option<Value>, SinkError>;

    /// Takes a batch in order, durably; answers with what it needs to go on from there.
    async fn deliver(&mut self, batch: &[Event]) -> Result<Value, SinkError>;
}

/// Hands the log to a sink until it is told to stop and the log is empty.
pub async fn pump(
    name: String,
    mut sink: Box<dyn Sink>,
    store: Arc<dyn Store>,
    progress: Arc<Progress>,
    stop: CancellationToken,
) {
    let (mut held_up, mut wait) = (false, FIRST);
    loop {
        let pumped = pump_once(&name, &mut *sink, &*store, &progress, &stop, &mut held_up).await;
        match pumped {
            Ok(()) => return,
            // The engine tells of its database; it is waited for as the engine does.
            Err(SinkError::Db(error)) if error.is_transient() => wait = FIRST,
            Err(error) => {
                if held_up {
                    wait = (wait * 2).min(LONGEST);
                } else {
                    tracing::error!(sink = name, %error, code = error.code(), "a sink is held up; it goes on by itself");
                    (held_up, wait) = (true, FIRST);
                }
                if let Err(error) = hold_up(&*store, &name, &error).await {
                    tracing::debug!(sink = name, %error, "the failure could not be noted");
                }
            }
        }
        tokio::select! {
            // What was not delivered stays in the log for the next start.
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

async fn hold_up(store: &dyn Store, name: &str, error: &SinkError) -> Result<(), DbError> {
    let cursor = store.sink(name).await?.unwrap_or_default();
    store.save_sink(name, cursor, 0, Some(error.to_string())).await
}

async fn pump_once(
    name: &str,
    sink: &mut dyn Sink,
    store: &dyn Store,
    progress: &Progress,
    stop: &CancellationToken,
    held_up: &mut bool,
) -> Result<(), SinkError> {
    let mut cursor = store.sink(name).await?.unwrap_or_default();
    sink.resume(&cursor.state).await?;
    loop {
        let last_look = stop.is_cancelled();
        let batch = store.events_after(cursor.seq, BATCH).await?;
        if let Some(last) = batch.last() {
            if let Some(state) = sink.prepare(&batch)? {
                cursor.state = state;
                store.save_sink(name, cursor.clone(), 0, None).await?;
            }
            let state = sink.deliver(&batch).await?;
            cursor = SinkCursor { seq: last.seq, state };
            let delivered = batch.len() as u64;
            store.save_sink(name, cursor.clone(), delivered, None).await?;
            progress.deliver(delivered);
            if std::mem::take(held_up) {
                tracing::info!(sink = name, "a sink goes on");
            }
        } else if last_look {
            return Ok(());
        } else {
            tokio::select! {
                () = stop.cancelled() => {}
                () = store.logged() => {}
                () = tokio::time::sleep(GLANCE) => {}
            }
        }
    }
}
