//! The registry of sources: a source's channels are recurring tasks that it owns.

use rusqlite::{Connection, OptionalExtension};

use super::commit::put_event;
use crate::db::DbError;
use crate::frontier::sqlite::{SOURCE_COLUMNS, number, park, read_source, resume, revive, take};
use crate::frontier::{Rules, admit};
use crate::model::{Code, Health, Kind, NewSource, Source, SourceId, Status, TaskId, Ts, new_uuid};
use crate::store::ChannelState;
use crate::store::forms::{channels, switched, to_spec};

/// Adds a source and its channels; `None` when the name is taken.
pub(super) fn add(
    conn: &Connection,
    new: &NewSource,
    now: Ts,
    rules: &Rules,
) -> Result<Option<Source>, DbError> {
    let uuid = new_uuid(now).to_string();
    let id: Option<i64> = conn
        .prepare_cached(
            "INSERT INTO source(uuid, name, url, spec, enabled_at, created_at)
             VALUES(?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT(name) DO NOTHING RETURNING id",
        )?
        .query_row((uuid, &new.name, &new.url, to_spec(new)?, now.ms()), |row| row.get(0))
        .optional()?;
    let Some(id) = id else { return Ok(None) };
    let source = SourceId(id);
    let channels = channels(new, source);
    let candidates: Vec<_> = channels.iter().filter_map(|new| admit(new, rules).ok()).collect();
    take(conn, &candidates, now, rules)?;
    revive(conn, source, now)?;
    by_id(conn, source)
}

fn by_id(conn: &Connection, id: SourceId) -> Result<Option<Source>, DbError> {
    let mut select =
        conn.prepare_cached(&format!("SELECT {SOURCE_COLUMNS} FROM source WHERE id = ?1"))?;
    let mut rows = select.query([id.0])?;
    rows.next()?.map(read_source).transpose()
}

fn by_name(conn: &Connection, name: &str) -> Result<Option<Source>, DbError> {
    let mut select = conn.prepare_cached(&format!(
        "SELECT {SOURCE_COLUMNS} FROM source WHERE ?1 IN (name, uuid) ORDER BY name = ?1 DESC LIMIT 1"
    ))?;
    let mut rows = select.query([name])?;
    rows.next()?.map(read_source).transpose()
}

pub(super) fn list(conn: &Connection) -> Result<Vec<Source>, DbError> {
    let mut select = conn.prepare(&format!("SELECT {SOURCE_COLUMNS} FROM source ORDER BY name"))?;
    let mut rows = select.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read_source(row)?);
    }
    Ok(found)
}

pub(super) fn show(
    conn: &Connection,
    name: &str,
) -> Result<Option<(Source, Vec<ChannelState>)>, DbError> {
    let Some(source) = by_name(conn, name)? else { return Ok(None) };
    let mut select = conn.prepare(
        "SELECT t.id, t.kind, t.url, t.due,
           CASE WHEN t.fetch_count > 0 OR t.status IN (1, 2) THEN t.fetched_at END, f.last_success,
           coalesce(f.failures, 0), coalesce(f.items, 0), x.last_error, x.reason, t.status,
           coalesce(f.health, 0)
         FROM task t LEFT JOIN feed f ON f.task_id = t.id LEFT JOIN fetch_state x ON x.task_id = t.id
         WHERE t.source_id = ?1 AND t.lane = 0 AND t.kind IN (?2, ?3) ORDER BY t.id",
    )?;
    let mut rows = select.query((source.id.0, Kind::Feed.number(), Kind::Sitemap.number()))?;
    let mut channels = Vec::new();
    while let Some(row) = rows.next()? {
        let last_error: Option<i64> = row.get(8)?;
        channels.push(ChannelState {
            id: TaskId(row.get(0)?).to_string(),
            kind: number("kind", row.get(1)?, Kind::from_number)?,
            url: row.get(2)?,
            next_fetch_at: Ts::from_ms(row.get(3)?),
            last_fetched_at: row.get::<_, Option<i64>>(4)?.map(Ts::from_ms),
            last_success_at: row.get::<_, Option<i64>>(5)?.map(Ts::from_ms),
            failures: row.get(6)?,
            items: row.get(7)?,
            last_error: last_error
                .map(|code| number("code", code, Code::from_number))
                .transpose()?,
            reason: row.get(9)?,
            status: number("status", row.get(10)?, Status::from_number)?,
            health: number("health", row.get(11)?, Health::from_number)?,
        });
    }
    Ok(Some((source, channels)))
}

pub(super) fn set_enabled(
    conn: &Connection,
    name: &str,
    disabled: Option<&str>,
    now: Ts,
) -> Result<Option<Source>, DbError> {
    let Some(source) = by_name(conn, name)? else { return Ok(None) };
    if source.enabled() == disabled.is_none() {
        // Enabling what is enabled is the operator's way to have its channels looked at again.
        if disabled.is_none() {
            revive(conn, source.id, now)?;
        }
        return Ok(Some(source));
    }
    let enabled_at = disabled.is_none().then_some(now.ms());
    conn.execute(
        "UPDATE source SET enabled_at = ?2, disable_reason = ?3 WHERE id = ?1",
        (source.id.0, enabled_at, disabled),
    )?;
    if disabled.is_some() {
        park(conn, source.id)?;
    } else {
        resume(conn, source.id, now)?;
        revive(conn, source.id, now)?;
    }
    put_event(conn, &switched(&source, disabled), now)?;
    by_id(conn, source.id)
}

/// Changes what an operator says about a source.
pub(super) fn respecify(
    conn: &Connection,
    name: &str,
    change: impl Fn(&mut NewSource),
) -> Result<Option<Source>, DbError> {
    let Some(mut source) = by_name(conn, name)? else { return Ok(None) };
    change(&mut source.spec);
    let spec = to_spec(&source.spec)?;
    conn.execute("UPDATE source SET spec = ?2 WHERE id = ?1", (source.id.0, spec))?;
    Ok(Some(source))
}

/// Forgets a source. What it owned passes on or is set aside; articles and history stay.
pub(super) fn remove(conn: &Connection, name: &str) -> Result<Option<Source>, DbError> {
    let Some(source) = by_name(conn, name)? else { return Ok(None) };
    park(conn, source.id)?;
    conn.execute("UPDATE task SET source_id = NULL WHERE source_id = ?1", [source.id.0])?;
    conn.execute("DELETE FROM task_source WHERE source_id = ?1", [source.id.0])?;
    conn.execute("UPDATE article SET source_id = NULL WHERE source_id = ?1", [source.id.0])?;
    conn.execute("DELETE FROM source WHERE id = ?1", [source.id.0])?;
    Ok(Some(source))
}
