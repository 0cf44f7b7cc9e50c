//! Carries everything that a store knows to another one, row by row, and compares both.
//!
//! One list of tables, read from this version's own schema, drives it all; a backend only reads
//! and writes rows of a table in the order of its key. Where a transfer stands is kept in the
//! target, in the transaction of the rows that it tells of, so that one that was killed goes on.
//! No value is ever changed on the way, except the character 0, which PostgreSQL cannot keep.

mod compare;
mod postgres;
mod sqlite;
mod values;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{DbError, PgDb, migrate};

pub use compare::{Difference, Discord};
pub use postgres::PgSide;
pub use sqlite::{SqliteSide, keep_number, rename_sinks};
pub(crate) use values::{Row, Value, key_of};

/// The row of `meta` that tells of a transfer under way.
const NOTE: &str = "move";
/// The row of `meta` that is a counter of the embedded frontier; PostgreSQL has a sequence for it.
const LEASE: &str = "lease";
/// Rows that are carried at once at the most.
const ROWS: usize = 4_096;
/// A batch ends once it is this long, however few its rows are.
const BYTES: usize = 8 << 20;
/// Differences that are told at the most.
const TOLD: usize = 20;

/// A table: its columns with those of its key first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// How many of them are its key.
    pub keys: usize,
}

impl Table {
    /// The columns of the key.
    fn key(&self) -> impl Iterator<Item = &String> {
        self.columns.iter().take(self.keys)
    }

    /// All columns, as SQL.
    fn listed(&self) -> String {
        self.columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ")
    }

    /// The condition that leaves out what belongs to a store itself: notes, and rows that only count.
    fn own_rows(&self) -> String {
        match self.name.as_str() {
            "task" => "host_id <> 0".to_owned(),
            "meta" => format!("key NOT IN ('{NOTE}', '{LEASE}')"),
            // They work on the one store, and not on the other.
            "process" => "false".to_owned(),
            _ => "true".to_owned(),
        }
    }
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// The tables of this version, the one of the transfer's own notes last.
pub fn tables() -> Result<Vec<Table>, DbError> {
    let mut schema = Connection::open_in_memory()?;
    migrate::up(&mut schema)?;
    let sql = "SELECT m.name, c.name, c.pk FROM sqlite_master m JOIN pragma_table_info(m.name) c
        WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'
        ORDER BY m.name = 'meta', m.rowid, c.pk = 0, c.pk, c.cid";
    let mut select = schema.prepare(sql)?;
    let mut rows = select.query([])?;
    let mut tables: Vec<Table> = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, column, key): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if tables.last().is_none_or(|table| table.name != name) {
            tables.push(Table { name, columns: Vec::new(), keys: 0 });
        }
        if let Some(table) = tables.last_mut() {
            table.columns.push(column);
            table.keys += usize::from(key > 0);
        }
    }
    Ok(tables)
}

/// A question that every database of this version answers with nothing, and one without a table of ours
/// with an error.
pub fn names_every_table() -> Result<&'static str, DbError> {
    static QUESTION: OnceLock<String> = OnceLock::new();
    if let Some(question) = QUESTION.get() {
        return Ok(question);
    }
    let tables = tables()?;
    let each = tables.iter().map(|one| format!("SELECT 1 FROM {} WHERE false", quoted(&one.name)));
    let question = each.collect::<Vec<_>>().join(" UNION ALL ");
    Ok(QUESTION.get_or_init(|| question))
}

/// The last number given out, by table; `lease` for leases.
pub type Counters = BTreeMap<String, i64>;

/// How much a store holds: enough to see that it has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Rows of each table.
    pub rows: BTreeMap<String, u64>,
    /// The numbers given out.
    pub counters: Counters,
}

/// Where a transfer stands: what the target holds of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Where it comes from.
    pub from: String,
    /// What was there when it began.
    mark: Mark,
    /// The table that is being filled.
    table: String,
    /// The key of the last row that is here.
    after: Row,
    /// Rows that are here.
    pub rows: u64,
}

impl Note {
    fn to_text(&self) -> Result<String, DbError> {
        serde_json::to_string(self).map_err(|error| DbError::Engine(error.to_string()))
    }

    fn from_text(text: &str) -> Result<Self, DbError> {
        serde_json::from_str(text)
            .map_err(|_| DbError::Corrupt { what: "note of a move", value: text.to_owned() })
    }
}

/// One end of a transfer. Calls block: a transfer runs on a thread of its own.
pub trait Side: Send {
    /// Its public name.
    fn place(&self) -> String;
    /// From now on all reading sees one moment, whatever others write; `alone` lets nobody write.
    fn freeze(&mut self, alone: bool) -> Result<(), DbError>;
    /// How many rows a table has.
    fn count(&mut self, table: &Table) -> Result<u64, DbError>;
    /// The rows after a key, in its order; none at the end of the table.
    fn read(&mut self, table: &Table, after: &[Value]) -> Result<Vec<Row>, DbError>;
    /// The last numbers given out.
    fn counters(&mut self) -> Result<Counters, DbError>;
    /// The transfer that was begun here and has not come to its end.
    fn note(&mut self) -> Result<Option<Note>, DbError>;
    /// Empties the tables.
    fn clear(&mut self, tables: &[Table]) -> Result<(), DbError>;
    /// Adds rows, and notes how far the transfer has come with them.
    fn write(&mut self, table: &Table, rows: &[Row], note: &Note) -> Result<(), DbError>;
    /// Sets the counters, gives sinks their names of this place, and ends the transfer.
    fn finish(
        &mut self,
        tables: &[Table],
        counters: &Counters,
        sinks: &[(String, String)],
    ) -> Result<(), DbError>;
}

/// Why a store was not carried over.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A database failed.
    #[error(transparent)]
    Db(#[from] DbError),
    /// There is something already.
    #[error("{0} holds data already: choose an empty database")]
    TargetUsed(String),
    /// It waits for the rest of something else.
    #[error(
        "{place} holds an unfinished move from {from}: run that again, or say --restart (with restore: --force) to throw away what it brought"
    )]
    OtherMove {
        /// The target.
        place: String,
        /// Where its rows are from.
        from: String,
    },
    /// Something was written between two tries.
    #[error(
        "{0} has changed since the move began: say --restart (with restore: --force) to throw away what the move brought and begin again"
    )]
    Changed(String),
    /// The source is itself half of something.
    #[error("{0} is the target of a move that has not come to its end: run that again first")]
    Unfinished(String),
    /// Both sides do not hold the same.
    #[error("{0}")]
    Differs(Discord),
}

impl TransferError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Db(error) => error.code(),
            Self::TargetUsed(_) => "target_not_empty",
            Self::OtherMove { .. } => "other_move",
            Self::Changed(_) => "source_changed",
            Self::Unfinished(_) => "unfinished_move",
            Self::Differs(_) => "mismatch",
        }
    }
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Rows are carried over.
    Copy,
    /// Both sides are compared.
    Check,
    /// Pages of a file are copied.
    Pages,
}

/// How far it is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// With which table.
    pub table: String,
    /// Rows done of all tables, or pages.
    pub rows: u64,
    /// Rows of all tables, or pages.
    pub total: u64,
}

/// What was carried over.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Carried {
    /// Rows of each table.
    pub tables: BTreeMap<String, u64>,
    /// Rows of all tables.
    pub rows: u64,
    /// Rows that an earlier try had brought.
    pub resumed: u64,
}

/// What to know beyond the two sides.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The source by the name under which it can be recognised.
    pub from: String,
    /// Throw away what an unfinished move left.
    pub restart: bool,
    /// Nobody may write to the source meanwhile: it would be lost with it.
    pub alone: bool,
    /// Names of sinks, here and there.
    pub sinks: Vec<(String, String)>,
}

/// Carries everything over, compares, and makes the target ready for work.
pub fn carry(
    source: &mut dyn Side,
    target: &mut dyn Side,
    plan: &Plan,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Carried, TransferError> {
    let tables = tables()?;
    if source.note()?.is_some() {
        return Err(TransferError::Unfinished(source.place()));
    }
    source.freeze(plan.alone)?;
    let mark = mark(source, &tables)?;
    let note = take_up(source, target, plan, &mark, &tables)?;
    let resumed = note.rows;
    copy(source, target, &tables, note, watch)?;
    let discord = compare::compare(source, target, &tables, total(&mark), watch)?;
    if discord.count > 0 {
        return Err(TransferError::Differs(discord));
    }
    target.finish(&tables, &mark.counters, &plan.sinks)?;
    Ok(Carried { rows: total(&mark), tables: mark.rows, resumed })
}

fn total(mark: &Mark) -> u64 {
    mark.rows.values().sum()
}

fn mark(side: &mut dyn Side, tables: &[Table]) -> Result<Mark, DbError> {
    let counters = side.counters()?;
    let mut mark = Mark { rows: BTreeMap::new(), counters };
    for table in tables {
        mark.rows.insert(table.name.clone(), side.count(table)?);
    }
    Ok(mark)
}

/// Whether an embedded database waits for the rest of a transfer.
pub fn noted(conn: &Connection) -> Result<bool, DbError> {
    Ok(sqlite::note_in(conn)?.is_some())
}

/// The same on PostgreSQL.
pub async fn noted_on(db: &PgDb) -> Result<bool, DbError> {
    Ok(postgres::note_in(&db.client().await?).await?.is_some())
}

/// Whether somebody works with a store already.
pub fn holds_data(side: &mut dyn Side, tables: &[Table]) -> Result<bool, DbError> {
    for table in tables {
        if !side.read(table, &[])?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where to go on: at the beginning of an empty target, or after what an earlier try brought.
fn take_up(
    source: &dyn Side,
    target: &mut dyn Side,
    plan: &Plan,
    mark: &Mark,
    tables: &[Table],
) -> Result<Note, TransferError> {
    let first = tables.first().map_or_else(String::new, |table| table.name.clone());
    let (from, mark) = (plan.from.clone(), mark.clone());
    let fresh = Note { from, mark, table: first, after: Row::new(), rows: 0 };
    match target.note()? {
        Some(_) if plan.restart => {}
        Some(note) if note.from != fresh.from => {
            return Err(TransferError::OtherMove { place: target.place(), from: note.from });
        }
        Some(note) if note.mark != fresh.mark => {
            return Err(TransferError::Changed(source.place()));
        }
        Some(note) => return Ok(note),
        None if holds_data(target, tables)? => {
            return Err(TransferError::TargetUsed(target.place()));
        }
        None => {}
    }
    target.clear(tables)?;
    Ok(fresh)
}

fn copy(
    source: &mut dyn Side,
    target: &mut dyn Side,
    tables: &[Table],
    mut note: Note,
    watch: &mut dyn FnMut(&Progress),
) -> Result<(), DbError> {
    let total = total(&note.mark);
    let reached = note.table.clone();
    for table in tables.iter().skip_while(|table| table.name != reached) {
        if note.table != table.name {
            note.table.clone_from(&table.name);
            note.after = Row::new();
        }
        loop {
            let rows = source.read(table, &note.after)?;
            let Some(last) = rows.last() else { break };
            note.after = key_of(table, last).to_vec();
            note.rows += rows.len() as u64;
            target.write(table, &rows, &note)?;
            let (phase, table) = (Phase::Copy, table.name.clone());
            watch(&Progress { phase, table, rows: note.rows, total });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_a_key_and_notes_come_last() {
        let tables = tables().unwrap();
        assert!(tables.len() >= 15);
        for table in &tables {
            assert!(table.keys > 0 && table.keys <= table.columns.len(), "{table:?}");
        }
        assert_eq!(tables.last().unwrap().name, "meta");
        let queue = tables.iter().find(|table| table.name == "queue").unwrap();
        let expected = ["host_id", "lane", "nprio", "due", "task_id"];
        assert!(queue.key().eq(expected), "{queue:?}");
    }

    #[test]
    fn a_note_survives_being_written_down() {
        let after =
            vec![Value::Int(i64::MIN), Value::Text("é\0".into()), Value::Blob(vec![0, 255])];
        let note =
            Note { from: "x".into(), mark: Mark::default(), table: "t".into(), after, rows: 7 };
        assert_eq!(Note::from_text(&note.to_text().unwrap()).unwrap(), note);
        assert_eq!(Note::from_text("?").unwrap_err().code(), "database_corrupt");
    }
}
