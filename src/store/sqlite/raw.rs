//! The index of the archive, and what is read in it again.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::commit::{mend_entry, put_entry_row, put_event};
use super::{article, outbox, read};
use crate::db::{DbError, whole, whole_rows};
use crate::frontier::sqlite::{number, refusals};
use crate::model::{Code, EntryFact, EntryId, FetchId, FetchRecord, Kind, RawRef, TaskId, Ts};
use crate::store::apply;
use crate::store::forms::uid_key;
use crate::store::raw::{FetchFilter, MovedRaw, Reread, SegmentUse, first_id, from_index};
use crate::store::takedown::{addresses_read, strip_read};

pub(super) const FETCH_COLUMNS: &str = "f.id, f.task_id, f.at, f.url, f.status, f.code, f.bytes, \
    f.elapsed_ms, f.content_type, f.body_sha256, f.segment, f.offset, f.length";

pub(super) fn read_fetch(row: &Row<'_>) -> Result<FetchRecord, DbError> {
    let segment: Option<String> = row.get(10)?;
    let raw = match segment {
        Some(segment) => Some(RawRef { segment, offset: row.get(11)?, length: row.get(12)? }),
        None => None,
    };
    Ok(FetchRecord {
        id: FetchId::from_bytes(row.get(0)?),
        task: from_index(row.get(1)?),
        at: Ts::from_ms(row.get(2)?),
        url: row.get(3)?,
        status: row.get(4)?,
        code: number("code", row.get(5)?, Code::from_number)?,
        bytes: row.get(6)?,
        elapsed_ms: row.get(7)?,
        content_type: row.get(8)?,
        body_sha256: row.get(9)?,
        raw,
    })
}

fn blob(id: FetchId) -> Value {
    Value::from(id.as_bytes().to_vec())
}

pub(super) fn find(conn: &Connection, filter: &FetchFilter) -> Result<Vec<FetchRecord>, DbError> {
    let mut conditions = vec!["true".to_owned()];
    let mut values = Vec::new();
    let mut when = |condition: &str, value: Option<Value>| {
        if let Some(value) = value {
            conditions.push(condition.to_owned());
            values.push(value);
        }
    };
    when("f.segment = ?", filter.segment.clone().map(Value::from));
    when(
        "f.task_id IN (SELECT id FROM task WHERE source_id = ?)",
        filter.source.map(|source| source.0.into()),
    );
    when(
        "f.task_id IN (SELECT t.id FROM task t JOIN host h ON h.id = t.host_id
           WHERE h.name = ? AND h.slot = 0)",
        filter.host.clone().map(Value::from),
    );
    when("f.id >= ?", filter.since.map(|at| blob(first_id(at))));
    when("f.id < ?", filter.until.map(|at| blob(first_id(at))));
    when("f.id > ?", filter.after.map(blob));
    if filter.kept {
        conditions.push("f.segment IS NOT NULL".to_owned());
    }
    if !filter.ids.is_empty() {
        conditions.push(format!("f.id IN ({})", vec!["?"; filter.ids.len()].join(", ")));
        values.extend(filter.ids.iter().map(|id| blob(*id)));
    }
    values.push(i64::try_from(filter.limit).unwrap_or(i64::MAX).into());
    let sql = format!(
        "SELECT {FETCH_COLUMNS} FROM fetch f WHERE {} ORDER BY f.id LIMIT ?",
        conditions.join(" AND ")
    );
    let mut select = conn.prepare(&sql)?;
    let mut rows = select.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(whole("fetch", read_fetch(row))?);
    }
    Ok(found)
}

pub(super) fn entries_since(
    conn: &Connection,
    feed: TaskId,
    fetch: FetchId,
) -> Result<Vec<(EntryId, FetchId)>, DbError> {
    let sql = "SELECT id, fetch_id FROM entry WHERE feed_id = ?1 AND fetch_id >= ?2";
    let mut select = conn.prepare_cached(sql)?;
    let found = select.query_map((feed.0, fetch.as_bytes()), |row| {
        Ok((EntryId(row.get(0)?), FetchId::from_bytes(row.get(1)?)))
    })?;
    whole_rows("entry", found.map(|row| row.map_err(DbError::from)))
}

pub(super) fn segments(conn: &Connection) -> Result<Vec<SegmentUse>, DbError> {
    let mut select = conn.prepare(
        "SELECT segment, count(*), max(at) FROM fetch WHERE segment IS NOT NULL
         GROUP BY segment ORDER BY segment",
    )?;
    let found = select.query_map([], |row| {
        Ok(SegmentUse {
            segment: row.get(0)?,
            records: row.get(1)?,
            last: Ts::from_ms(row.get(2)?),
        })
    })?;
    whole_rows("fetch", found.map(|row| row.map_err(DbError::from)))
}

/// Those in a segment that are among the last `per_feed` documents of their feed.
pub(super) fn needed(
    conn: &Connection,
    segment: &str,
    per_feed: u32,
) -> Result<Vec<FetchRecord>, DbError> {
    let sql = format!(
        "SELECT {FETCH_COLUMNS} FROM fetch f JOIN task t ON t.id = f.task_id AND t.kind = ?2
         WHERE f.segment = ?1 AND f.status = 200 AND ?3 > (SELECT count(*) FROM
           (SELECT 1 FROM fetch g WHERE g.task_id = f.task_id AND g.at > f.at AND g.status = 200
              AND g.segment IS NOT NULL LIMIT ?3))
         ORDER BY f.offset"
    );
    let mut select = conn.prepare(&sql)?;
    let mut rows = select.query((segment, Kind::Feed.number(), per_feed))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(whole("fetch", read_fetch(row))?);
    }
    Ok(found)
}

pub(super) fn move_raw(conn: &Connection, moved: &[MovedRaw]) -> Result<(), DbError> {
    let mut update = conn.prepare_cached(
        "UPDATE fetch SET segment = ?3, offset = ?4, length = ?5 WHERE id = ?1 AND segment = ?2",
    )?;
    for MovedRaw { fetch, from, to } in moved {
        let (offset, length) = (i64::try_from(to.offset), i64::try_from(to.length));
        update.execute((
            fetch.as_bytes().as_slice(),
            from,
            &to.segment,
            offset.unwrap_or(i64::MAX),
            length.unwrap_or(i64::MAX),
        ))?;
    }
    Ok(())
}

/// Notes that bytes of a segment are no longer kept, of so many fetches; how many there were.
pub(super) fn forget(
    conn: &Connection,
    segment: &str,
    kept: u64,
    limit: usize,
) -> Result<u64, DbError> {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let forgotten = conn
        .prepare_cached(
            "UPDATE fetch SET segment = NULL, offset = NULL, length = NULL WHERE id IN
               (SELECT id FROM fetch WHERE segment = ?1 AND offset + length > ?3 LIMIT ?2)",
        )?
        .execute((segment, number(limit as u64), number(kept)))?;
    Ok(forgotten as u64)
}

/// Keeps what was read again, where it is different and nothing later is kept; how many changed.
pub(super) fn reread(conn: &Connection, read: &Reread, now: Ts) -> Result<u64, DbError> {
    let read = &strip_read(read, &refusals(conn, addresses_read(read))?);
    let task = &read.task;
    let (mut events, mut changed) = (Vec::new(), 0);
    for (at, fact) in &read.entries {
        if restore_entry_id(conn, task.id, fact)? {
            outbox::send_damaged_again(conn, &fact.id.to_string())?;
            changed += 1;
        }
        let previous = match read::checked_entry(conn, fact.id)? {
            Some(Err(damage)) => {
                let owner = (task.id, task.source);
                events.extend(mend_entry(conn, damage.left, fact, owner, *at, now)?);
                changed += 1;
                continue;
            }
            found => found.and_then(Result::ok),
        };
        let is_lost = previous.is_none();
        if let Some((row, event)) =
            apply::entry_again(previous, fact, task.id, task.source, *at, now)
        {
            put_entry_row(conn, &row, fact)?;
            if is_lost {
                outbox::send_damaged_again(conn, &row.id.to_string())?;
            }
            events.push(event);
            changed += 1;
        }
    }
    if let Some((at, fact)) = &read.article {
        let (is_changed, event) = article::put_again(conn, fact, *at, now)?;
        changed += u64::from(is_changed);
        events.extend(event);
    }
    for event in &events {
        put_event(conn, event, now)?;
    }
    Ok(changed)
}

/// Gives the row of an entry its id back when that is what was damaged; whether it was.
fn restore_entry_id(conn: &Connection, feed: TaskId, fact: &EntryFact) -> Result<bool, DbError> {
    let restored = conn
        .prepare_cached(
            "UPDATE entry SET id = ?1 WHERE uid = ?2 AND feed_id = ?3 AND id <> ?1
               AND NOT EXISTS(SELECT 1 FROM entry WHERE id = ?1)",
        )?
        .execute((fact.id.0, uid_key(&fact.entry.uid), feed.0))?;
    Ok(restored > 0)
}
