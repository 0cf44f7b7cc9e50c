//! What sinks need of the store: the log joined with what it is about, how far each sink has come,
//! and what its target would not have.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use super::damage::{DamagedRow, DamagedTable};
use crate::db::DbError;
use crate::model::{
    ArticleId, ArticleRow, EntryId, EntryRow, Reference, Source, SourceId, TaskId, Ts,
};

/// How far a sink has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SinkCursor {
    /// The last event delivered.
    pub seq: i64,
    /// How often an operator has put it elsewhere.
    pub turn: i64,
    /// What the sink itself needs to go on.
    pub state: serde_json::Value,
}

/// A sink as the store knows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SinkRow {
    /// What it is called, with its machine when it writes files of a shared store.
    pub name: String,
    /// How far it has come.
    #[serde(flatten)]
    pub cursor: SinkCursor,
    /// Since when nothing is delivered, by an operator's wish.
    pub paused_at: Option<Ts>,
    /// The process that delivers.
    pub held_by: Option<String>,
    /// Events delivered, ever.
    pub delivered: u64,
    /// What holds it up.
    pub last_error: Option<String>,
    /// When it was last heard of.
    pub updated_at: Ts,
    /// Events that its target would not have.
    pub dead_letters: u64,
}

/// Where a sink begins that never ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With the first event that is kept.
    #[default]
    Beginning,
    /// With what happens from now on.
    Now,
    /// With what happened at this time or later.
    At(Ts),
    /// After this place.
    After(i64),
}

/// An event that a sink's target would not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadLetter {
    /// Which.
    pub seq: i64,
    /// When it was refused last.
    pub at: Ts,
    /// How often it was refused.
    pub attempts: u32,
    /// Whether it is to be sent again.
    pub again: bool,
    /// Why, in a word.
    pub code: String,
    /// Why, for people.
    pub reason: String,
}

/// A refusal, as a sink tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which event.
    pub seq: i64,
    /// Why, in a word.
    pub code: &'static str,
    /// Why, for people.
    pub reason: String,
}

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delivery {
    /// How far the sink has come now.
    pub cursor: SinkCursor,
    /// Events that its target has.
    pub delivered: u64,
    /// What holds it up.
    pub error: Option<String>,
    /// Events that its target would not have.
    pub refused: Vec<Refusal>,
    /// Dead letters that are none any more.
    pub settled: Vec<i64>,
}

/// What an operator wants of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkWish {
    /// Nothing is delivered until it is resumed.
    Pause,
    /// It goes on where it stopped.
    Resume,
    /// It goes on from there, whatever it has delivered.
    Replay(Start),
    /// Its dead letters are sent again, or one of them.
    Again(Option<i64>),
    /// Its dead letters are given up, or one of them.
    Drop(Option<i64>),
    /// Its place is forgotten: the log need not be kept for it.
    Forget,
}

/// What events are about, as that is now.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    /// Entries by id.
    pub entries: HashMap<EntryId, EntryRow>,
    /// Articles and their texts by id.
    pub articles: HashMap<ArticleId, (ArticleRow, String)>,
    /// How these articles came to us, by their tasks.
    pub trails: HashMap<TaskId, Arc<Trail>>,
    /// Sources by row.
    pub sources: HashMap<SourceId, Arc<Source>>,
    /// Rows that are there and cannot be read, by table and id.
    pub damaged: HashMap<(DamagedTable, String), DamagedRow>,
    /// Whether nothing was ever taken down: a row that is missing was lost.
    pub keeps_all: bool,
}

impl Joined {
    pub(super) fn damaged(&mut self, table: DamagedTable, id: &impl ToString, reason: String) {
        let id = id.to_string();
        self.damaged.insert((table, id.clone()), DamagedRow { table, id, reason });
    }
}

/// How an article came to us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Its address as it was given; nothing when its task is forgotten.
    pub given: Option<String>,
    /// All who told of it, in the order in which they first did.
    pub told: Vec<Reference>,
}

/// What to join.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// These entries.
    pub entries: Vec<EntryId>,
    /// These articles.
    pub articles: Vec<ArticleId>,
    /// These sources.
    pub sources: Vec<SourceId>,
}

/// The ends of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogEnds {
    /// The first event that is kept; 0 when there is none.
    pub first: i64,
    /// The last event ever written.
    pub last: i64,
    /// When the first event after the place in question was written.
    pub next_at: Option<Ts>,
}

/// The boundary that both backends keep for sinks.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// What events are about.
    async fn join(&self, wanted: Wanted) -> Result<Joined, DbError>;

    /// The sink with this name, which begins there when it never ran.
    async fn open_sink(&self, name: &str, start: Start) -> Result<SinkRow, DbError>;

    /// All sinks that ever ran, by name.
    async fn sinks(&self) -> Result<Vec<SinkRow>, DbError>;

    /// Takes or keeps the right to deliver for a while; false when another process has it.
    async fn hold_sink(&self, name: &str, who: &str, span: Duration) -> Result<bool, DbError>;

    /// Gives that right back.
    async fn release_sink(&self, name: &str, who: &str) -> Result<(), DbError>;

    /// Notes what became of a batch. False, and nothing is noted, when the sink was put elsewhere
    /// meanwhile.
    async fn note_delivery(&self, name: &str, delivery: Delivery) -> Result<bool, DbError>;

    /// Does what an operator wants; how many events, or 1 for a sink that is there.
    async fn wish(&self, name: &str, wish: SinkWish) -> Result<u64, DbError>;

    /// Dead letters of a sink after a place, in the order of the log; all, or those to be sent again.
    async fn dead_letters(
        &self,
        name: &str,
        after: i64,
        again_only: bool,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, DbError>;

    /// The ends of the log, and when the first event after this place was written.
    async fn log_ends(&self, after: i64) -> Result<LogEnds, DbError>;

    /// Removes events that are older than this, up to a place, so many at the most; how many there
    /// were. The last one stays, so that places are never used twice, and so do those that a sink may
    /// still be sent again.
    async fn trim_log(&self, before: Ts, upto: i64, limit: usize) -> Result<u64, DbError>;
}
