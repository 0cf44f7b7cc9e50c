//! What sinks need of the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteStore, article, read, sources, told};
use crate::db::{DbError, whole};
use crate::model::Ts;
use crate::store::damage::{DamagedTable, ROW_DAMAGED, checked, readable};
use crate::store::forms::{from_json, to_json};
use crate::store::outbox::{
    DeadLetter, Delivery, Joined, LogEnds, Outbox, SinkCursor, SinkRow, SinkWish, Start, Trail,
    Wanted,
};

#[async_trait]
impl Outbox for SqliteStore {
    async fn join(&self, wanted: Wanted) -> Result<Joined, DbError> {
        self.db.read(move |conn| join(conn, &wanted)).await
    }

    async fn open_sink(&self, name: &str, start: Start) -> Result<SinkRow, DbError> {
        let wanted = name.to_owned();
        let found = self.db.read(move |conn| find(conn, &wanted)).await?;
        if let Some(found) = found {
            return Ok(found);
        }
        let (name, now) = (name.to_owned(), self.clock.now());
        self.db.write(move |conn| open(conn, &name, start, now)).await
    }

    async fn sinks(&self) -> Result<Vec<SinkRow>, DbError> {
        self.db
            .read(|conn| {
                let mut select = conn.prepare_cached(&format!("{SELECT} ORDER BY name"))?;
                let mut rows = select.query([])?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    found.push(read_sink(row)?);
                }
                Ok(found)
            })
            .await
    }

    async fn hold_sink(&self, name: &str, who: &str, span: Duration) -> Result<bool, DbError> {
        let (name, who, now) = (name.to_owned(), who.to_owned(), self.clock.now());
        let until = now.after(span);
        self.db
            .write(move |conn| {
                let held = conn
                    .prepare_cached(
                        "UPDATE sink SET held_by = ?2, held_until = ?4
                         WHERE name = ?1 AND (held_by IS NULL OR held_by = ?2 OR held_until <= ?3)",
                    )?
                    .execute((&name, &who, now.ms(), until.ms()))?;
                Ok(held > 0)
            })
            .await
    }

    async fn release_sink(&self, name: &str, who: &str) -> Result<(), DbError> {
        let (name, who) = (name.to_owned(), who.to_owned());
        self.db
            .write(move |conn| {
                conn.prepare_cached(
                    "UPDATE sink SET held_by = NULL, held_until = 0 WHERE name = ?1 AND held_by = ?2",
                )?
                .execute((&name, &who))?;
                Ok(())
            })
            .await
    }

    async fn note_delivery(&self, name: &str, delivery: Delivery) -> Result<bool, DbError> {
        let (name, now) = (name.to_owned(), self.clock.now());
        self.db.write(move |conn| note(conn, &name, &delivery, now)).await
    }

    async fn wish(&self, name: &str, wish: SinkWish) -> Result<u64, DbError> {
        let (name, now) = (name.to_owned(), self.clock.now());
        let done = self.db.write(move |conn| grant(conn, &name, wish, now)).await?;
        self.logged.notify_waiters();
        Ok(done)
    }

    async fn dead_letters(
        &self,
        name: &str,
        after: i64,
        again_only: bool,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, DbError> {
        let name = name.to_owned();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.db
            .read(move |conn| {
                let mut select = conn.prepare_cached(
                    "SELECT seq, at, attempts, again, code, reason FROM dead_letter
                     WHERE sink = ?1 AND seq > ?2 AND again >= ?3 ORDER BY seq LIMIT ?4",
                )?;
                let mut rows = select.query((&name, after, again_only, limit))?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    found.push(DeadLetter {
                        seq: row.get(0)?,
                        at: Ts::from_ms(row.get(1)?),
                        attempts: row.get(2)?,
                        again: row.get(3)?,
                        code: row.get(4)?,
                        reason: row.get(5)?,
                    });
                }
                Ok(found)
            })
            .await
    }

    async fn log_ends(&self, after: i64) -> Result<LogEnds, DbError> {
        self.db.read(move |conn| ends(conn, after)).await
    }

    async fn trim_log(&self, before: Ts, upto: i64, limit: usize) -> Result<u64, DbError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.db
            .write(move |conn| {
                let gone = conn
                    .prepare_cached(
                        "DELETE FROM event WHERE seq IN (SELECT seq FROM event
                           WHERE seq <= ?2 AND at < ?1 AND seq < (SELECT max(seq) FROM event)
                             AND seq NOT IN (SELECT seq FROM dead_letter)
                           ORDER BY seq LIMIT ?3)",
                    )?
                    .execute((before.ms(), upto, limit))?;
                Ok(gone as u64)
            })
            .await
    }
}

const SELECT: &str = "SELECT s.name, s.seq, s.turn, s.state, s.paused_at, s.held_by, s.delivered,
    s.last_error, s.updated_at, (SELECT count(*) FROM dead_letter d WHERE d.sink = s.name)
  FROM sink s";

fn read_sink(row: &Row<'_>) -> Result<SinkRow, DbError> {
    let state: String = row.get(3)?;
    Ok(SinkRow {
        name: row.get(0)?,
        cursor: SinkCursor {
            seq: row.get(1)?,
            turn: row.get(2)?,
            state: from_json("sink", &state)?,
        },
        paused_at: row.get::<_, Option<i64>>(4)?.map(Ts::from_ms),
        held_by: row.get(5)?,
        delivered: row.get(6)?,
        last_error: row.get(7)?,
        updated_at: Ts::from_ms(row.get(8)?),
        dead_letters: row.get(9)?,
    })
}

fn join(conn: &Connection, wanted: &Wanted) -> Result<Joined, DbError> {
    let mut joined = Joined::default();
    for id in &wanted.entries {
        match readable(read::checked_entry(conn, *id))? {
            Some(Ok(entry)) => drop(joined.entries.insert(*id, entry)),
            Some(Err(reason)) => joined.damaged(DamagedTable::Entry, id, reason),
            None => {}
        }
    }
    for id in &wanted.articles {
        let (row, text) = match readable(article::checked_with_text(conn, *id))? {
            Some(Ok(article)) => article,
            Some(Err(reason)) => {
                joined.damaged(DamagedTable::Article, id, reason);
                continue;
            }
            None => continue,
        };
        let given = conn
            .prepare_cached("SELECT url FROM task WHERE id = ?1")?
            .query_row([row.task_id.0], |row| row.get(0))
            .optional();
        let given = whole("task", given.map_err(DbError::from))?.flatten();
        let told = told::references(conn, &[row.task_id])?;
        joined.trails.insert(row.task_id, Arc::new(Trail { given, told }));
        joined.articles.insert(*id, (row, text));
    }
    for id in &wanted.sources {
        match checked(sources::by_id(conn, *id), || None)? {
            Ok(source) => joined.sources.extend(source.map(|source| (*id, Arc::new(source)))),
            Err(damage) => joined.damaged(DamagedTable::Source, &id.0, damage.reason),
        }
    }
    joined.keeps_all = !conn
        .prepare_cached("SELECT EXISTS(SELECT 1 FROM takedown)")?
        .query_row([], |row| row.get::<_, bool>(0))?;
    Ok(joined)
}

/// Has sinks send again what they left out because the row of this subject was damaged.
pub(super) fn send_damaged_again(conn: &Connection, subject: &str) -> Result<(), DbError> {
    conn.prepare_cached(
        "UPDATE dead_letter SET again = 1 WHERE code = ?1 AND EXISTS(
           SELECT 1 FROM event e WHERE e.seq = dead_letter.seq AND e.subject = ?2)",
    )?
    .execute((ROW_DAMAGED, subject))?;
    Ok(())
}

fn find(conn: &Connection, name: &str) -> Result<Option<SinkRow>, DbError> {
    let mut select = conn.prepare_cached(&format!("{SELECT} WHERE s.name = ?1"))?;
    let mut rows = select.query([name])?;
    rows.next()?.map(read_sink).transpose()
}

fn open(conn: &Connection, name: &str, start: Start, now: Ts) -> Result<SinkRow, DbError> {
    conn.prepare_cached(
        "INSERT INTO sink(name, seq, state, updated_at) VALUES(?1, ?2, 'null', ?3)
         ON CONFLICT(name) DO NOTHING",
    )?
    .execute((name, place(conn, start)?, now.ms()))?;
    find(conn, name)?.ok_or(DbError::Closed)
}

/// The place that a start stands for.
fn place(conn: &Connection, start: Start) -> Result<i64, DbError> {
    match start {
        Start::Beginning => Ok(0),
        Start::After(seq) => Ok(seq),
        Start::Now => Ok(ends(conn, 0)?.last),
        Start::At(at) => {
            let sql = "SELECT seq FROM event WHERE at < ?1 ORDER BY seq DESC LIMIT 1";
            let before = conn.prepare_cached(sql)?.query_row([at.ms()], |row| row.get(0));
            Ok(before.optional()?.unwrap_or(0))
        }
    }
}

fn ends(conn: &Connection, after: i64) -> Result<LogEnds, DbError> {
    Ok(conn
        .prepare_cached(
            "SELECT coalesce((SELECT min(seq) FROM event), 0),
               coalesce((SELECT max(seq) FROM event), 0), (SELECT at FROM event WHERE seq > ?1 ORDER BY seq LIMIT 1)",
        )?
        .query_row([after], |row| {
            Ok(LogEnds {
                first: row.get(0)?,
                last: row.get(1)?,
                // A damaged event has no time.
                next_at: row.get::<_, Option<i64>>(2).ok().flatten().map(Ts::from_ms),
            })
        })?)
}

fn note(conn: &Connection, name: &str, delivery: &Delivery, now: Ts) -> Result<bool, DbError> {
    let Delivery { cursor, delivered, error, refused, settled } = delivery;
    let noted = conn
        .prepare_cached(
            "UPDATE sink SET seq = ?3, state = ?4, delivered = delivered + ?5, last_error = ?6,
               updated_at = ?7 WHERE name = ?1 AND turn = ?2",
        )?
        .execute(params![
            name,
            cursor.turn,
            cursor.seq,
            to_json(&cursor.state)?,
            i64::try_from(*delivered).unwrap_or(i64::MAX),
            error,
            now.ms(),
        ])?;
    if noted == 0 {
        return Ok(false);
    }
    for letter in refused {
        conn.prepare_cached(
            "INSERT INTO dead_letter(sink, seq, at, attempts, code, reason)
             VALUES(?1, ?2, ?3, 1, ?4, ?5)
             ON CONFLICT(sink, seq) DO UPDATE SET at = excluded.at, attempts = attempts + 1,
               again = 0, code = excluded.code, reason = excluded.reason",
        )?
        .execute((name, letter.seq, now.ms(), letter.code, &letter.reason))?;
    }
    for seq in settled {
        conn.prepare_cached("DELETE FROM dead_letter WHERE sink = ?1 AND seq = ?2")?
            .execute((name, seq))?;
    }
    Ok(true)
}

fn grant(conn: &Connection, name: &str, wish: SinkWish, now: Ts) -> Result<u64, DbError> {
    let done = match wish {
        SinkWish::Pause => conn
            .prepare_cached("UPDATE sink SET paused_at = coalesce(paused_at, ?2) WHERE name = ?1")?
            .execute((name, now.ms()))?,
        SinkWish::Resume => conn
            .prepare_cached("UPDATE sink SET paused_at = NULL WHERE name = ?1")?
            .execute([name])?,
        SinkWish::Replay(start) => conn
            .prepare_cached("UPDATE sink SET seq = ?2, turn = turn + 1 WHERE name = ?1")?
            .execute((name, place(conn, start)?))?,
        SinkWish::Again(seq) => conn
            .prepare_cached(
                "UPDATE dead_letter SET again = 1 WHERE sink = ?1 AND seq = coalesce(?2, seq)",
            )?
            .execute((name, seq))?,
        SinkWish::Drop(seq) => conn
            .prepare_cached("DELETE FROM dead_letter WHERE sink = ?1 AND seq = coalesce(?2, seq)")?
            .execute((name, seq))?,
        SinkWish::Forget => {
            conn.execute("DELETE FROM dead_letter WHERE sink = ?1", [name])?;
            conn.execute("DELETE FROM sink WHERE name = ?1", [name])?
        }
    };
    Ok(done as u64)
}
