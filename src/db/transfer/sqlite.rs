//! The embedded database as one end of a transfer.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::values::size;
use super::{BYTES, Counters, LEASE, NOTE, Note, ROWS, Row, Side, Table, Value, quoted};
use crate::db::{DbError, migrate, sqlite};

/// An open file.
#[derive(Debug)]
pub struct SqliteSide {
    path: PathBuf,
    conn: Connection,
}

impl SqliteSide {
    /// Opens or makes the file and brings its schema up to date.
    pub fn open(path: &Path) -> Result<Self, DbError> {
        let mut conn = sqlite::connect(path)?;
        migrate::up(&mut conn)?;
        // A batch that a power cut takes back is brought again; only the end has to be on disk.
        conn.pragma_update(None, "synchronous", "NORMAL")?;
        conn.pragma_update(None, "cache_size", -131_072)?;
        Ok(Self { path: path.to_owned(), conn })
    }
}

impl Side for SqliteSide {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn freeze(&mut self, alone: bool) -> Result<(), DbError> {
        // The moment is that of the first look.
        let begin = if alone { "BEGIN IMMEDIATE" } else { "BEGIN" };
        Ok(self.conn.execute_batch(&format!("{begin}; SELECT count(*) FROM meta"))?)
    }

    fn count(&mut self, table: &Table) -> Result<u64, DbError> {
        let (name, own) = (quoted(&table.name), table.own_rows());
        let sql = format!("SELECT count(*) FROM {name} WHERE {own}");
        Ok(self.conn.query_row(&sql, [], |row| row.get(0))?)
    }

    fn read(&mut self, table: &Table, after: &[Value]) -> Result<Vec<Row>, DbError> {
        let key = table.key().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
        let further = match after.len() {
            0 => String::new(),
            n => format!(" AND ({key}) > ({})", places(n)),
        };
        let (listed, name, own) = (table.listed(), quoted(&table.name), table.own_rows());
        let sql =
            format!("SELECT {listed} FROM {name} WHERE {own}{further} ORDER BY {key} LIMIT {ROWS}");
        let mut select = self.conn.prepare_cached(&sql)?;
        let mut found = select.query(params_from_iter(after))?;
        let (mut rows, mut taken) = (Vec::new(), 0);
        while taken < BYTES
            && let Some(row) = found.next()?
        {
            let values = table.columns.iter().enumerate().map(|(at, column)| {
                Value::from_sqlite(row.get_ref(at)?, &format!("{}.{column}", table.name))
            });
            let values = values.collect::<Result<Row, _>>()?;
            taken += size(&values);
            rows.push(values);
        }
        Ok(rows)
    }

    fn counters(&mut self) -> Result<Counters, DbError> {
        let sql = format!(
            "SELECT name, seq FROM sqlite_sequence
             UNION ALL SELECT key, CAST(value AS INTEGER) FROM meta WHERE key = '{LEASE}'
             UNION ALL SELECT 'task', max(id) FROM task HAVING max(id) IS NOT NULL"
        );
        let mut select = self.conn.prepare(&sql)?;
        let counters = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(counters.collect::<Result<_, _>>()?)
    }

    fn note(&mut self) -> Result<Option<Note>, DbError> {
        note_in(&self.conn)?.map(|text| Note::from_text(&text)).transpose()
    }

    fn clear(&mut self, tables: &[Table]) -> Result<(), DbError> {
        let tx = self.conn.transaction()?;
        for table in tables {
            tx.execute_batch(&format!("DELETE FROM {}", quoted(&table.name)))?;
        }
        tx.execute_batch("DELETE FROM sqlite_sequence")?;
        tx.commit()?;
        Ok(())
    }

    fn write(&mut self, table: &Table, rows: &[Row], note: &Note) -> Result<(), DbError> {
        let (name, listed) = (quoted(&table.name), table.listed());
        let sql = format!("INSERT INTO {name}({listed}) VALUES({})", places(table.columns.len()));
        let tx = self.conn.transaction()?;
        {
            let mut insert = tx.prepare_cached(&sql)?;
            for row in rows {
                insert.execute(params_from_iter(row))?;
            }
        }
        put(&tx, NOTE, &note.to_text()?)?;
        tx.commit()?;
        Ok(())
    }

    fn finish(
        &mut self,
        _: &[Table],
        counters: &Counters,
        sinks: &[(String, String)],
    ) -> Result<(), DbError> {
        self.conn.pragma_update(None, "synchronous", "FULL")?;
        let tx = self.conn.transaction()?;
        for (name, last) in counters {
            if name == LEASE {
                put(&tx, LEASE, &last.to_string())?;
                continue;
            }
            if name == "task" {
                keep_number(&tx, *last)?;
                continue;
            }
            // Other tables take the highest number that is there and need no counter.
            tx.execute(
                "INSERT INTO sqlite_sequence(name, seq) SELECT ?1, 0 FROM sqlite_master
                 WHERE type = 'table' AND name = ?1 AND sql LIKE '%AUTOINCREMENT%'
                   AND NOT EXISTS(SELECT 1 FROM sqlite_sequence WHERE name = ?1)",
                [name],
            )?;
            tx.execute(
                "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1",
                (name, last),
            )?;
        }
        rename_sinks(&tx, sinks)?;
        tx.execute("DELETE FROM meta WHERE key = ?1", [NOTE])?;
        tx.commit()?;
        self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}

/// Keeps a task's number from being given again.
///
/// SQLite numbers a new row after the highest one that is there, so the highest number ever given stays
/// taken by a row that belongs to no host, or what was read at a forgotten address would pass to the
/// next one.
pub fn keep_number(conn: &Connection, highest: i64) -> Result<(), DbError> {
    conn.execute(
        "INSERT OR REPLACE INTO task(id, host_id, lane, hash, kind, prio, status, due, origin,
           discovered_at, url)
         SELECT ?1, 0, 0, 0, 0, 1, 1, 0, 3, 0, ''
         WHERE ?1 > (SELECT coalesce(max(id), 0) FROM task)",
        [highest],
    )?;
    Ok(())
}

/// Gives sinks the names that they have on an embedded store.
pub fn rename_sinks(conn: &Connection, sinks: &[(String, String)]) -> Result<(), DbError> {
    for (old, new) in sinks {
        conn.execute(
            "UPDATE sink SET name = ?2 WHERE name = ?1
               AND NOT EXISTS(SELECT 1 FROM sink WHERE name = ?2)",
            (old, new),
        )?;
    }
    Ok(())
}

/// What is noted about a transfer into this database.
pub(super) fn note_in(conn: &Connection) -> Result<Option<String>, DbError> {
    let sql = "SELECT value FROM meta WHERE key = ?1";
    Ok(conn.query_row(sql, [NOTE], |row| row.get(0)).optional()?)
}

fn put(conn: &Connection, key: &str, value: &str) -> Result<(), DbError> {
    conn.execute(
        "INSERT INTO meta VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        [key, value],
    )?;
    Ok(())
}

fn places(n: usize) -> String {
    vec!["?"; n].join(", ")
}
