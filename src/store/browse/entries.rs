//! Entries of feeds, newest first.

use super::{Found, Hunt, Place, whole};
use crate::db::DbError;
use crate::db::statement::{Cells, Dialect, Statement, Terms};
use crate::model::{EntryId, EntryRow, FetchId, SourceId, TaskId, Ts};
use crate::store::Store;
use crate::store::damage::{Beside, check};
use crate::store::forms::{from_json, uid_key};

/// Entries that are told at the most when an id means several.
const MOST: usize = 100;

/// Which entries, and which part of them.
#[derive(Clone, Debug, Default)]
pub struct EntryQuery {
    /// Of this feed.
    pub feed: Option<TaskId>,
    /// Of feeds of this source.
    pub source: Option<SourceId>,
    /// First seen at or after this time.
    pub since: Option<Ts>,
    /// First seen before this time.
    pub until: Option<Ts>,
    /// Only what comes after this place.
    pub after: Option<Place>,
    /// At most so many.
    pub limit: usize,
}

pub(super) const COLUMNS: &str = "e.row, e.id, e.feed_id, e.body, e.content_hash, e.first_seen, e.last_seen, \
    e.seen_count, e.fetch_id, e.checksum, e.published";

impl EntryQuery {
    fn statement(&self, dialect: Dialect, from: Option<Place>, window: usize) -> Statement {
        let mut terms = Terms::new(dialect);
        terms.add("e.deleted_at IS NULL AND e.withdrawn = 0");
        if let Some(feed) = self.feed {
            let feed = terms.int(feed.0);
            terms.add(format!("e.feed_id = {feed}"));
        }
        if let Some(source) = self.source {
            let source = terms.int(source.0);
            terms.add(format!(
                "e.feed_id IN (SELECT t.id FROM task t WHERE t.source_id = {source} AND t.lane = 0)"
            ));
        }
        if let Some(since) = self.since {
            let since = terms.int(since.ms());
            terms.add(format!("e.first_seen >= {since}"));
        }
        if let Some(until) = self.until {
            let until = terms.int(until.ms());
            terms.add(format!("e.first_seen < {until}"));
        }
        if let Some(place) = from {
            let (key, row) = (terms.int(place.key), terms.int(place.row));
            terms.add(format!("(e.first_seen, e.row) < ({key}, {row})"));
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM entry e WHERE {} ORDER BY e.first_seen DESC, e.row DESC
             LIMIT {window}",
            terms.sql()
        );
        terms.statement(sql)
    }
}

pub(super) fn read(row: &Cells) -> Result<(Place, EntryRow), DbError> {
    let (own, content) = (row.bytes::<32>(1)?, row.bytes::<32>(4)?);
    let beside = Beside::document(&own, &content, row.maybe_int(10)?);
    check("entry", &[row.text(3)?.as_bytes()], &beside, row.maybe_int(9)?)?;
    let entry = EntryRow {
        id: EntryId(row.bytes(1)?),
        feed_id: TaskId(row.int(2)?),
        entry: from_json("entry", row.text(3)?)?,
        content_hash: row.bytes(4)?,
        first_seen: Ts::from_ms(row.int(5)?),
        last_seen: Ts::from_ms(row.int(6)?),
        seen_count: row.narrow(7)?,
        fetch: row.maybe_bytes(8)?.map(FetchId::from_bytes),
    };
    Ok((Place { key: entry.first_seen.ms(), row: row.int(0)? }, entry))
}

/// Entries by query.
pub async fn entries(store: &dyn Store, query: &EntryQuery) -> Result<Found<EntryRow>, DbError> {
    let mut hunt = Hunt::new(query.limit, query.after, false);
    while hunt.goes_on() {
        let statement = query.statement(store.dialect(), hunt.from, hunt.window);
        let rows = store.select(statement).await?;
        let rows = rows.iter().map(|row| whole(row, 5, read)).collect::<Result<Vec<_>, _>>()?;
        hunt.take(rows);
    }
    Ok(hunt.found())
}

/// Entries that some feed gives this id, the first ones.
pub async fn by_uid(store: &dyn Store, uid: &str) -> Result<Vec<EntryRow>, DbError> {
    let mut terms = Terms::new(store.dialect());
    let key = terms.int(uid_key(uid));
    let sql = format!(
        "SELECT {COLUMNS} FROM entry e WHERE e.uid = {key} AND e.withdrawn = 0 ORDER BY e.row LIMIT {MOST}"
    );
    let rows = store.select(terms.statement(sql)).await?;
    let found = rows.iter().map(|row| whole(row, 5, read).map(|(_, entry)| entry));
    let found = found.collect::<Result<Vec<_>, _>>()?;
    let mut found: Vec<EntryRow> = found.into_iter().flatten().collect();
    found.retain(|entry| entry.entry.uid == uid);
    Ok(found)
}
