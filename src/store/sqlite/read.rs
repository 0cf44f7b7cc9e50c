//! Reading back what is kept.

use rusqlite::{Connection, Row};
use serde_json::json;

use super::raw::{FETCH_COLUMNS, read_fetch};
use crate::db::{DbError, whole};
use crate::frontier::sqlite::number;
use crate::model::{
    Entry, EntryId, EntryRow, Event, EventKind, FetchId, FetchRecord, Health, Kind, SourceId,
    TaskId, Ts,
};
use crate::store::damage::{Beside, Checked, Damage, DamagedEvent, check, checked};
use crate::store::forms::{PRICE, SETTING, from_json};
use crate::store::{BLOCKED_MS, Demand, EventFilter, Totals, Vitals};

const DAY_MS: i64 = 86_400_000;

pub(super) fn fetch_id(bytes: Option<[u8; 16]>) -> Option<FetchId> {
    bytes.map(FetchId::from_bytes)
}

pub(super) fn demand(conn: &Connection, now: Ts) -> Result<Demand, DbError> {
    let mut demand = Demand::default();
    let mut select = conn.prepare_cached(
        "SELECT f.bucket, count(*), coalesce(sum(86400000.0 / nullif(f.interval_ms, 0)), 0.0)
         FROM feed f JOIN task t ON t.id = f.task_id WHERE t.status = 0 GROUP BY f.bucket",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        match row.get::<_, Option<u8>>(0)? {
            Some(bucket) => demand.buckets.push((bucket, row.get(1)?)),
            None => demand.fixed += row.get::<_, f64>(2)?,
        }
    }
    demand.unpolled = conn
        .prepare_cached(
            "SELECT count(*) FROM task t WHERE t.source_id > 0 AND t.lane = 0 AND t.kind = ?1
               AND t.status = 0 AND NOT EXISTS(SELECT 1 FROM feed f WHERE f.task_id = t.id)",
        )?
        .query_row([Kind::Feed.number()], |row| row.get(0))?;
    let note = super::lookup::meta(conn, PRICE)?;
    demand.price = note.map(|note| from_json("price", &note)).transpose()?;
    let looked = demand.price.map_or(now, |note| note.at);
    // What a clock that ran ahead left behind was not made in the last day.
    (demand.made, demand.made_since) = conn
        .prepare_cached(
            "SELECT count(*), coalesce(sum(x.at > ?3), 0) FROM feed f
             JOIN fetch x ON x.task_id = f.task_id AND x.at > ?1 AND x.at <= ?2",
        )?
        .query_row((now.ms() - DAY_MS, now.ms(), looked.ms()), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    Ok(demand)
}

pub(super) fn entry(conn: &Connection, id: EntryId) -> Result<Option<EntryRow>, DbError> {
    let found = checked_entry(conn, id)?;
    found.map(|found| found.map_err(|damage| damage.error("entry"))).transpose()
}

/// An entry, or what is wrong with its row.
pub(super) fn checked_entry(
    conn: &Connection,
    id: EntryId,
) -> Result<Option<Checked<EntryRow>>, DbError> {
    let mut select = conn.prepare_cached(
        "SELECT feed_id, body, content_hash, first_seen, last_seen, seen_count, fetch_id, checksum,
           published, link_hash, updated, deleted_at, uid, slice_offset, slice_length FROM entry WHERE id = ?1 AND withdrawn = 0",
    )?;
    let mut rows = select.query([id.0.as_slice()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let read = || {
        let body: String = row.get(1)?;
        let content: [u8; 32] = row.get(2)?;
        let beside = Beside::document(&id.0, &content, row.get(8)?);
        check("entry", &[body.as_bytes()], &beside, row.get(7)?)?;
        row.get::<_, Option<[u8; 32]>>(9)?;
        for number in 10..15 {
            row.get::<_, Option<i64>>(number)?;
        }
        read_entry(row, id, from_json("entry", &body)?)
    };
    checked(read(), || read_entry(row, id, Entry::default()).ok()).map(Some)
}

fn read_entry(row: &Row<'_>, id: EntryId, entry: Entry) -> Result<EntryRow, DbError> {
    Ok(EntryRow {
        id,
        feed_id: TaskId(row.get(0)?),
        entry,
        content_hash: row.get(2)?,
        first_seen: Ts::from_ms(row.get(3)?),
        last_seen: Ts::from_ms(row.get(4)?),
        seen_count: row.get(5)?,
        fetch: fetch_id(row.get(6)?),
    })
}

pub(super) fn fetches(
    conn: &Connection,
    task: TaskId,
    limit: usize,
) -> Result<Vec<FetchRecord>, DbError> {
    let sql = format!(
        "SELECT {FETCH_COLUMNS} FROM fetch f WHERE f.task_id = ?1 ORDER BY f.at DESC LIMIT ?2"
    );
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query((task.0, i64::try_from(limit).unwrap_or(i64::MAX)))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(whole("fetch", read_fetch(row))?);
    }
    Ok(found)
}

pub(super) fn events(
    conn: &Connection,
    filter: &EventFilter,
) -> Result<Vec<Result<Event, DamagedEvent>>, DbError> {
    let mut select = conn.prepare_cached(&filter.sql(["?1", "?2"]))?;
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let mut rows = select.query((filter.after, limit))?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let seq = row.get(0)?;
        let read = || {
            let payload: String = row.get(5)?;
            let subject: String = row.get(3)?;
            let beside = Beside::event(row.get(1)?, row.get(2)?, &subject);
            check("event", &[payload.as_bytes()], &beside, row.get(6)?)?;
            read_event(row, from_json("event", &payload)?)
        };
        let event = checked(read(), || read_event(row, json!({})).ok())?;
        let damaged =
            |Damage { reason, left }| DamagedEvent { seq, reason, left: left.map(Box::new) };
        events.push(event.map_err(damaged));
    }
    Ok(filter.in_order(events))
}

fn read_event(row: &Row<'_>, payload: serde_json::Value) -> Result<Event, DbError> {
    Ok(Event {
        seq: row.get(0)?,
        at: Ts::from_ms(row.get(1)?),
        kind: number("event", row.get(2)?, EventKind::from_number)?,
        subject: row.get(3)?,
        source: row.get::<_, Option<i64>>(4)?.map(SourceId),
        payload,
    })
}

pub(super) fn totals(conn: &Connection) -> Result<Totals, DbError> {
    Ok(conn.query_row(
        "SELECT (SELECT count(*) FROM source), (SELECT count(*) FROM entry),
           (SELECT count(*) FROM article), (SELECT count(*) FROM article WHERE duplicate_of IS NOT NULL),
           (SELECT count(*) FROM fetch), (SELECT count(*) FROM fetch WHERE status = 304),
           (SELECT coalesce(sum(bytes), 0) FROM fetch), (SELECT count(*) FROM event)",
        [],
        |row| {
            Ok(Totals {
                sources: row.get(0)?,
                entries: row.get(1)?,
                articles: row.get(2)?,
                duplicates: row.get(3)?,
                requests: row.get(4)?,
                not_modified: row.get(5)?,
                bytes: row.get(6)?,
                events: row.get(7)?,
            })
        },
    )?)
}

pub(super) fn vitals(conn: &Connection, now: Ts) -> Result<Vitals, DbError> {
    let mut vitals = Vitals::default();
    let mut select = conn.prepare_cached(
        "SELECT f.health, count(*), coalesce(sum(f.disabled_at IS NULL AND f.interval_ms > 0
           AND t.due + f.interval_ms < ?1), 0)
         FROM feed f JOIN task t ON t.id = f.task_id WHERE t.status = 0 GROUP BY 1 ORDER BY 1",
    )?;
    let mut rows = select.query([now.ms()])?;
    while let Some(row) = rows.next()? {
        let health = number("health", row.get(0)?, Health::from_number)?;
        vitals.channels.push((health, row.get(1)?));
        vitals.overdue += row.get::<_, u64>(2)?;
    }
    let mut select = conn.prepare_cached(
        "SELECT (SELECT count(*) FROM source WHERE enabled_at IS NOT NULL),
           (SELECT count(*) FROM source WHERE enabled_at IS NULL),
           (SELECT count(*) FROM host WHERE lease_id IS NOT NULL),
           (SELECT count(*) FROM host WHERE slot = 0 AND blocked_until > ?1),
           (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size)",
    )?;
    select.query_row([now.ms() + BLOCKED_MS], |row| {
        vitals.sources = row.get(0)?;
        vitals.sources_disabled = row.get(1)?;
        vitals.hosts_busy = row.get(2)?;
        vitals.hosts_blocked = row.get(3)?;
        vitals.bytes = row.get(4)?;
        Ok(())
    })?;
    let wal = conn.path().and_then(|path| std::fs::metadata(format!("{path}-wal")).ok());
    vitals.wal_bytes = wal.map_or(0, |file| file.len());
    Ok(vitals)
}

/// Settings that were said to the running installation, by key.
pub(super) fn settings(conn: &Connection) -> Result<Vec<(String, String)>, DbError> {
    let mut select = conn.prepare(
        "SELECT substr(key, length(?1) + 1), value FROM meta
         WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key",
    )?;
    let kept = select.query_map([SETTING], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(kept.collect::<Result<_, _>>()?)
}
