//! All rows that are damaged: every row that work relies on is decoded, and compared with its checksum
//! when it has one.

use super::super::damage::{Beside, DamagedRow, DamagedTable, check, checked};
use super::{articles, entries, fetches, sources};
use crate::db::DbError;
use crate::db::statement::{Cells, Dialect, Statement, Terms, Value};
use crate::model::{Article, Code, EventKind, FetchId, Kind, Lane, Origin, Status, TaskId};
use crate::store::Store;
use crate::store::forms::{from_json, sketch, unpack};

/// Rows that are read at a time.
const PAGE: usize = 200;

/// A table whose rows are checked.
struct Checked {
    table: DamagedTable,
    /// Its key first.
    columns: &'static str,
    from: &'static str,
    key: &'static str,
    /// What people know a row by.
    id: fn(&Cells) -> String,
    check: fn(&Cells) -> Result<(), DbError>,
}

const TABLES: [Checked; 7] = [
    Checked {
        table: DamagedTable::Article,
        columns: articles::COLUMNS,
        from: "article a LEFT JOIN article_text x ON x.row = a.row",
        key: "a.row",
        id: |row| row.shown(1),
        check: check_article,
    },
    Checked {
        table: DamagedTable::Entry,
        columns: entries::COLUMNS,
        from: "entry e",
        key: "e.row",
        id: |row| row.shown(1),
        check: |row| {
            entries::read(row)?;
            row.maybe_bytes::<32>(11)?;
            for time in [12, 13, 14, 15, 16, 17] {
                row.maybe_int(time)?;
            }
            Ok(())
        },
    },
    Checked {
        table: DamagedTable::Event,
        columns: "v.seq, v.payload, v.checksum, v.at, v.kind, v.subject, v.source_id",
        from: "event v",
        key: "v.seq",
        id: |row| row.shown(0),
        check: |row| {
            let beside = Beside::event(row.int(3)?, row.int(4)?, row.text(5)?);
            check("event", &[row.text(1)?.as_bytes()], &beside, row.maybe_int(2)?)?;
            known("kind", row.int(4)?, EventKind::from_number)?;
            row.maybe_int(6)?;
            from_json::<serde_json::Value>("event", row.text(1)?).map(drop)
        },
    },
    Checked {
        table: DamagedTable::Revision,
        columns: "r.row, a.id, r.revision, r.body, r.checksum, r.zstd, r.until, r.content_hash, \
                  r.fetch_id, r.added, r.removed, r.silent",
        from: "article_revision r LEFT JOIN article a ON a.row = r.row",
        key: "r.row",
        id: |row| format!("{}/{}", row.shown(1), row.shown(2)),
        check: check_revision,
    },
    Checked {
        table: DamagedTable::Source,
        columns: sources::COLUMNS,
        from: "source s",
        key: "s.id",
        id: |row| row.shown(7),
        check: |row| {
            let source = sources::read(row)?;
            if source.spec.name == row.text(7)? && source.spec.url == row.text(8)? {
                return Ok(());
            }
            let value = "its name or home page is not that of its document".to_owned();
            Err(DbError::Corrupt { what: "source", value })
        },
    },
    Checked {
        table: DamagedTable::Task,
        columns: "t.id, t.host_id, t.lane, t.hash, t.kind, t.prio, t.status, t.due, t.source_id, \
                  t.origin, t.parent_id, t.depth, t.discovered_at, t.fetched_at, t.fetch_count, \
                  t.retry, t.redirects, t.url, t.url_key, x.etag, x.last_modified, \
                  x.validators_for, x.content_hash, x.last_error, x.strikes, x.reason",
        from: "task t LEFT JOIN fetch_state x ON x.task_id = t.id",
        key: "t.id",
        id: |row| row.int(0).map_or_else(|_| row.shown(0), |id| TaskId(id).to_string()),
        check: check_task,
    },
    Checked {
        table: DamagedTable::Fetch,
        columns: fetches::COLUMNS,
        from: "\"fetch\" f",
        key: "f.id",
        id: |row| {
            row.bytes(0).map_or_else(|_| row.shown(0), |id| FetchId::from_bytes(id).to_string())
        },
        check: |row| fetches::read(row).map(drop),
    },
];

fn known<T>(what: &'static str, number: i64, of: fn(i64) -> Option<T>) -> Result<(), DbError> {
    let unknown = || DbError::Corrupt { what, value: number.to_string() };
    of(number).map(drop).ok_or_else(unknown)
}

fn check_article(row: &Cells) -> Result<(), DbError> {
    articles::read(row)?;
    let missing = DbError::Corrupt { what: "article", value: "its text is missing".into() };
    row.text(20)?;
    sketch(row.maybe_blob(21)?)?;
    let packed = row.maybe_blob(18)?.ok_or(missing)?;
    check("article text", &[packed], &Beside::NOTHING, row.maybe_int(19)?)?;
    unpack(packed).map(drop)
}

fn check_revision(row: &Cells) -> Result<(), DbError> {
    let packed = row.maybe_blob(5)?.unwrap_or_default();
    let document = [row.text(3)?.as_bytes(), packed];
    check("revision", &document, &Beside::NOTHING, row.maybe_int(4)?)?;
    row.int(6)?;
    row.bytes::<32>(7)?;
    row.maybe_bytes::<16>(8)?;
    for number in [2, 9, 10, 11] {
        row.narrow::<u32>(number)?;
    }
    from_json::<Article>("article", row.text(3)?)?;
    unpack(packed).map(drop)
}

fn check_task(row: &Cells) -> Result<(), DbError> {
    // What the numbers of those that are forgotten are kept by is no task.
    if row.int(1)? == 0 {
        return Ok(());
    }
    known("lane", row.int(2)?, Lane::from_number)?;
    known("kind", row.int(4)?, Kind::from_number)?;
    known("status", row.int(6)?, Status::from_number)?;
    known("origin", row.int(9)?, Origin::from_number)?;
    if let Some(code) = row.maybe_int(23)? {
        known("code", code, Code::from_number)?;
    }
    if !(1..=10).contains(&row.int(5)?) {
        return Err(DbError::Corrupt { what: "priority", value: row.shown(5) });
    }
    for number in [3, 7, 12] {
        row.int(number)?;
    }
    for number in [8, 10, 13, 24] {
        row.maybe_int(number)?;
    }
    for number in [11, 15, 16] {
        row.narrow::<u16>(number)?;
    }
    row.narrow::<u32>(14)?;
    row.text(17)?;
    for text in [18, 19, 20, 21, 25] {
        row.maybe_text(text)?;
    }
    row.maybe_bytes::<32>(22).map(drop)
}

impl Checked {
    fn statement(&self, dialect: Dialect, after: Option<Value>) -> Statement {
        let mut terms = Terms::new(dialect);
        let Self { columns, from, key, table, .. } = self;
        if let Some(after) = after {
            let after = terms.mark(after);
            terms.add(format!("{key} > {after}"));
        }
        let more = match table {
            DamagedTable::Article => ", x.zstd, x.checksum, a.site, a.sketch",
            DamagedTable::Entry => {
                ", e.link_hash, e.updated, e.deleted_at, e.withdrawn, e.uid, e.slice_offset, \
                 e.slice_length"
            }
            _ => "",
        };
        let condition = terms.sql();
        terms.statement(format!(
            "SELECT {columns}{more} FROM {from} WHERE {condition} ORDER BY {key} LIMIT {PAGE}"
        ))
    }
}

/// The rows that are damaged, so many at the most, and how many there are.
pub async fn damaged(store: &dyn Store, limit: usize) -> Result<(Vec<DamagedRow>, u64), DbError> {
    let mut found = Found { rows: Vec::new(), limit, count: 0 };
    for table in &TABLES {
        found.add(store, table).await?;
    }
    Ok((found.rows, found.count))
}

/// How many sources are damaged, and so are left out wherever sources are read.
pub async fn damaged_sources(store: &dyn Store) -> Result<u64, DbError> {
    let mut found = Found { rows: Vec::new(), limit: 0, count: 0 };
    for table in TABLES.iter().filter(|checked| checked.table == DamagedTable::Source) {
        found.add(store, table).await?;
    }
    Ok(found.count)
}

/// The damaged rows that were found so far.
struct Found {
    rows: Vec<DamagedRow>,
    /// How many of them are kept.
    limit: usize,
    count: u64,
}

impl Found {
    /// Reads a whole table.
    async fn add(&mut self, store: &dyn Store, table: &Checked) -> Result<(), DbError> {
        let mut after = None;
        loop {
            let rows = store.select(table.statement(store.dialect(), after.clone())).await?;
            let key = |row: Option<&Cells>| row.map(|row| row.shown(0));
            let (first, last) = (key(rows.first()), key(rows.last()));
            for row in &rows {
                // Rows that share their key with what comes next are read with that.
                if rows.len() == PAGE && first != last && key(Some(row)) == last {
                    break;
                }
                after = row.value(0);
                let Err(damage) = checked((table.check)(row), || None)? else { continue };
                self.count += 1;
                if self.rows.len() < self.limit {
                    let (table, id) = (table.table, (table.id)(row));
                    self.rows.push(DamagedRow { table, id, reason: damage.reason });
                }
            }
            if rows.len() < PAGE {
                return Ok(());
            }
        }
    }
}
