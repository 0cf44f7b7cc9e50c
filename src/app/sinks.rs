//! How far sinks have come, and what an operator wants of them.

use serde::Serialize;

use super::cursor_name;
use crate::config::Config;
use crate::db::DbError;
use crate::model::{Ts, named};
use crate::store::Store;
use crate::store::outbox::{SinkRow, SinkWish, Start};

named! {
    /// How a sink does.
    pub enum SinkState {
        /// It delivers.
        Fine = 0 "ok",
        /// Some events its target would not have.
        DeadLetters = 1 "dead_letters",
        /// Something holds it up.
        HeldUp = 2 "held_up",
        /// An operator paused it.
        Paused = 3 "paused",
        /// The configuration does not know it.
        NotConfigured = 4 "not_configured",
    }
}

/// A sink with how far it is behind.
#[derive(Debug, Serialize)]
pub struct SinkStanding {
    /// As the store knows it.
    #[serde(flatten)]
    pub row: SinkRow,
    /// What it is called in the configuration; nothing when it is not there any more.
    pub configured: Option<String>,
    /// What kind of target it has.
    pub kind: Option<&'static str>,
    /// Events that it has not.
    pub lag_events: i64,
    /// How long ago the first of them happened.
    pub lag_seconds: u64,
}

impl SinkStanding {
    /// How it does.
    #[must_use]
    pub const fn state(&self) -> SinkState {
        if self.configured.is_none() {
            SinkState::NotConfigured
        } else if self.row.paused_at.is_some() {
            SinkState::Paused
        } else if self.row.last_error.is_some() {
            SinkState::HeldUp
        } else if self.row.dead_letters > 0 {
            SinkState::DeadLetters
        } else {
            SinkState::Fine
        }
    }
}

/// All sinks: those that ever ran, and those that are configured.
pub async fn sinks(
    store: &dyn Store,
    config: &Config,
    now: Ts,
) -> Result<Vec<SinkStanding>, DbError> {
    let mut rows = store.sinks().await?;
    let named: Vec<(String, &String)> =
        config.sinks.keys().map(|name| (cursor_name(config, name), name)).collect();
    for (key, _) in &named {
        if !rows.iter().any(|row| row.name == *key) {
            rows.push(SinkRow {
                name: key.clone(),
                cursor: Default::default(),
                paused_at: None,
                held_by: None,
                delivered: 0,
                last_error: None,
                updated_at: now,
                dead_letters: 0,
            });
        }
    }
    let mut all = Vec::new();
    for row in rows {
        let ends = store.log_ends(row.cursor.seq).await?;
        let name = named.iter().find(|(key, _)| *key == row.name).map(|(_, name)| *name);
        all.push(SinkStanding {
            configured: name.cloned(),
            kind: name.and_then(|name| config.sinks.get(name)).map(|sink| sink.target.kind()),
            // What is no longer kept does not wait for it.
            lag_events: ends.last.saturating_sub(row.cursor.seq.max(ends.first - 1)).max(0),
            lag_seconds: ends.next_at.map_or(0, |at| now.since(at).as_secs()),
            row,
        });
    }
    all.sort_by(|a, b| a.row.name.cmp(&b.row.name));
    Ok(all)
}

/// What the store calls the sink that somebody means.
pub async fn key(
    name: &str,
    store: &dyn Store,
    config: &Config,
) -> Result<Option<String>, DbError> {
    if config.sinks.contains_key(name) {
        return Ok(Some(cursor_name(config, name)));
    }
    let rows = store.sinks().await?;
    Ok(rows.into_iter().find(|row| row.name == name).map(|row| row.name))
}

/// Does what an operator wants of the sink that the store calls so, also of one that never ran.
pub async fn wish(key: &str, wish: SinkWish, store: &dyn Store) -> Result<(), DbError> {
    if store.wish(key, wish).await? == 0 {
        // It never ran: it can be paused or placed all the same.
        let start = if let SinkWish::Replay(start) = wish { start } else { Start::Beginning };
        store.open_sink(key, start).await?;
        store.wish(key, wish).await?;
    }
    Ok(())
}
