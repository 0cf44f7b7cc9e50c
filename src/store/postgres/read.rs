//! Reading back what is kept.

use std::collections::HashMap;

use serde_json::json;
use tokio_postgres::Row;

use super::raw::{FETCH_COLUMNS, read_fetch};
use crate::db::postgres::{column, first, rows};
use crate::db::{DbError, PgDb, Session, whole_rows};
use crate::frontier::postgres::{int, maybe, named, narrow};
use crate::model::{
    Entry, EntryId, EntryRow, Event, EventKind, FetchId, FetchRecord, Health, Kind, SourceId,
    TaskId, Ts,
};
use crate::store::damage::{Beside, Damage, DamagedEvent, check, checked};
use crate::store::forms::{PRICE, SETTING, from_json};
use crate::store::{BLOCKED_MS, Demand, EventFilter, Totals, Vitals};

/// Bytes of a fixed length.
pub(super) fn hash<const N: usize>(
    what: &'static str,
    row: &Row,
    at: usize,
) -> Result<[u8; N], DbError> {
    let bytes: &[u8] = row.try_get(at)?;
    bytes.try_into().map_err(|_| DbError::Corrupt { what, value: format!("{} bytes", bytes.len()) })
}

/// Bytes of a fixed length that may be missing.
pub(super) fn maybe_hash<const N: usize>(
    what: &'static str,
    row: &Row,
    at: usize,
) -> Result<Option<[u8; N]>, DbError> {
    let there = row.try_get::<_, Option<&[u8]>>(at)?.is_some();
    there.then(|| hash(what, row, at)).transpose()
}

/// An entry.
pub(super) async fn entry<C: Session>(
    client: &C,
    id: EntryId,
) -> Result<Option<EntryRow>, DbError> {
    let (mut known, damaged) = checked_entries(client, &[id]).await?;
    match damaged.get(&id) {
        Some(damage) => Err(damage.error("entry")),
        None => Ok(known.remove(&id)),
    }
}

/// Those of these entries that are kept, and those that are damaged.
pub(super) async fn checked_entries<C: Session>(
    client: &C,
    ids: &[EntryId],
) -> Result<(HashMap<EntryId, EntryRow>, HashMap<EntryId, Damage<EntryRow>>), DbError> {
    let sql = "SELECT id, feed_id, body, content_hash, first_seen, last_seen, seen_count, fetch_id,
          checksum, published, link_hash FROM entry WHERE id = ANY($1::bytea[]) AND withdrawn = 0";
    let found = rows(client, sql, &[&column(ids, |id| id.0.as_slice())]).await?;
    let (mut known, mut damaged) = (HashMap::with_capacity(found.len()), HashMap::new());
    for row in &found {
        let id = EntryId(hash("entry", row, 0)?);
        let read = || {
            let body: &str = row.try_get(2)?;
            let content: &[u8] = row.try_get(3)?;
            let beside = Beside::document(&id.0, content, maybe(row, 9)?);
            check("entry", &[body.as_bytes()], &beside, maybe(row, 8)?)?;
            maybe_hash::<32>("entry", row, 10)?;
            read_entry(row, id, from_json("entry", body)?)
        };
        match checked(read(), || read_entry(row, id, Entry::default()).ok())? {
            Ok(entry) => drop(known.insert(id, entry)),
            Err(damage) => drop(damaged.insert(id, damage)),
        }
    }
    Ok((known, damaged))
}

fn read_entry(row: &Row, id: EntryId, entry: Entry) -> Result<EntryRow, DbError> {
    Ok(EntryRow {
        id,
        feed_id: TaskId(int(row, 1)?),
        entry,
        content_hash: hash("entry", row, 3)?,
        first_seen: Ts::from_ms(int(row, 4)?),
        last_seen: Ts::from_ms(int(row, 5)?),
        seen_count: narrow("count", row, 6)?,
        fetch: maybe_hash("fetch", row, 7)?.map(FetchId::from_bytes),
    })
}

pub(super) async fn fetches(
    db: &PgDb,
    task: TaskId,
    limit: usize,
) -> Result<Vec<FetchRecord>, DbError> {
    let sql = format!(
        "SELECT {FETCH_COLUMNS} FROM \"fetch\" f WHERE f.task_id = $1 ORDER BY f.at DESC LIMIT $2"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = rows(&db.client().await?, &sql, &[&task.0, &limit]).await?;
    whole_rows("fetch", found.iter().map(read_fetch))
}

pub(super) async fn events(
    db: &PgDb,
    filter: &EventFilter,
) -> Result<Vec<Result<Event, DamagedEvent>>, DbError> {
    let sql = filter.sql(["$1", "$2"]);
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let read = |row: &Row| {
        let whole = || {
            let payload: &str = row.try_get(5)?;
            let beside = Beside::event(int(row, 1)?, int(row, 2)?, row.try_get(3)?);
            check("event", &[payload.as_bytes()], &beside, maybe(row, 6)?)?;
            read_event(row, from_json("event", payload)?)
        };
        let seq = int(row, 0)?;
        let event = checked(whole(), || read_event(row, json!({})).ok())?;
        Ok(event.map_err(|Damage { reason, left }| DamagedEvent {
            seq,
            reason,
            left: left.map(Box::new),
        }))
    };
    let found = rows(&db.client().await?, &sql, &[&filter.after, &limit]).await?;
    let events = found.iter().map(read).collect::<Result<_, DbError>>()?;
    Ok(filter.in_order(events))
}

fn read_event(row: &Row, payload: serde_json::Value) -> Result<Event, DbError> {
    Ok(Event {
        seq: int(row, 0)?,
        at: Ts::from_ms(int(row, 1)?),
        kind: named("event", row, 2, EventKind::from_number)?,
        subject: row.try_get(3)?,
        source: maybe(row, 4)?.map(SourceId),
        payload,
    })
}

pub(super) async fn demand(db: &PgDb) -> Result<Demand, DbError> {
    let client = db.client().await?;
    let mut demand = Demand::default();
    let sql = "SELECT f.bucket, count(*),
          coalesce(sum(86400000.0::float8 / nullif(f.interval_ms, 0)), 0)::float8
        FROM feed f JOIN task t ON t.id = f.task_id WHERE t.status = 0 GROUP BY f.bucket";
    for row in &rows(&client, sql, &[]).await? {
        match maybe(row, 0)? {
            Some(_) => demand.buckets.push((narrow("bucket", row, 0)?, narrow("count", row, 1)?)),
            None => demand.fixed += row.try_get::<_, f64>(2)?,
        }
    }
    let sql =
        "SELECT count(*) FROM task t WHERE t.source_id > 0 AND t.lane = 0 AND t.kind = $1::bigint
        AND t.status = 0 AND NOT EXISTS(SELECT 1 FROM feed f WHERE f.task_id = t.id)";
    if let Some(row) = first(&client, sql, &[&Kind::Feed.number()]).await? {
        demand.unpolled = narrow("count", &row, 0)?;
    }
    let note = super::lookup::meta(&client, PRICE).await?;
    demand.price = note.map(|note| from_json("price", &note)).transpose()?;
    let looked = demand.price.map_or(i64::MAX, |note| note.at.ms());
    // What a clock that ran ahead left behind was not made in the last day.
    let sql = "SELECT count(*), count(*) FILTER (WHERE x.at > $2) FROM feed f JOIN \"fetch\" x
        ON x.task_id = f.task_id AND x.at > coalesce($1, feedmill_now()) - 86400000
          AND x.at <= coalesce($1, feedmill_now())";
    if let Some(row) = first(&client, sql, &[&db.given_now(), &looked]).await? {
        demand.made = narrow("count", &row, 0)?;
        demand.made_since = narrow("count", &row, 1)?;
    }
    Ok(demand)
}

pub(super) async fn totals(db: &PgDb) -> Result<Totals, DbError> {
    let sql = "SELECT (SELECT count(*) FROM source), (SELECT count(*) FROM entry), a.n, a.copies,
          f.n, f.unchanged, f.bytes, (SELECT count(*) FROM event)
        FROM (SELECT count(*) AS n, count(duplicate_of) AS copies FROM article) a,
          (SELECT count(*) AS n, count(*) FILTER (WHERE status = 304) AS unchanged,
             coalesce(sum(bytes), 0)::bigint AS bytes FROM \"fetch\") f";
    let Some(row) = first(&db.client().await?, sql, &[]).await? else {
        return Ok(Totals::default());
    };
    let figure = |at| narrow("count", &row, at);
    Ok(Totals {
        sources: figure(0)?,
        entries: figure(1)?,
        articles: figure(2)?,
        duplicates: figure(3)?,
        requests: figure(4)?,
        not_modified: figure(5)?,
        bytes: figure(6)?,
        events: figure(7)?,
    })
}

pub(super) async fn vitals(db: &PgDb) -> Result<Vitals, DbError> {
    let client = db.client().await?;
    let mut vitals = Vitals::default();
    let sql = "SELECT f.health, count(*), count(*) FILTER (
          WHERE f.disabled_at IS NULL AND f.interval_ms > 0
            AND t.due + f.interval_ms < coalesce($1, feedmill_now()))
        FROM feed f JOIN task t ON t.id = f.task_id WHERE t.status = 0 GROUP BY 1 ORDER BY 1";
    for row in &rows(&client, sql, &[&db.given_now()]).await? {
        let health = named("health", row, 0, Health::from_number)?;
        vitals.channels.push((health, narrow("count", row, 1)?));
        vitals.overdue += narrow::<u64>("count", row, 2)?;
    }
    let sql = "SELECT (SELECT count(*) FROM source WHERE enabled_at IS NOT NULL),
          (SELECT count(*) FROM source WHERE enabled_at IS NULL),
          (SELECT count(*) FROM host WHERE lease_id IS NOT NULL),
          (SELECT count(*) FROM host WHERE slot = 0
             AND blocked_until > coalesce($1, feedmill_now()) + $2::bigint),
          pg_database_size(current_database())";
    if let Some(row) = first(&client, sql, &[&db.given_now(), &BLOCKED_MS]).await? {
        let figure = |at| narrow("count", &row, at);
        vitals.sources = figure(0)?;
        vitals.sources_disabled = figure(1)?;
        vitals.hosts_busy = figure(2)?;
        vitals.hosts_blocked = figure(3)?;
        vitals.bytes = figure(4)?;
    }
    Ok(vitals)
}

/// Settings that were said to the running installation, by key.
pub(super) async fn settings(db: &PgDb) -> Result<Vec<(String, String)>, DbError> {
    let sql = "SELECT substr(key, length($1::text) + 1), value FROM meta
        WHERE substr(key, 1, length($1::text)) = $1::text ORDER BY key";
    let kept = rows(&db.client().await?, sql, &[&SETTING]).await?;
    kept.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
