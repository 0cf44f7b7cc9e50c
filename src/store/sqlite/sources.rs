//! The registry of sources: a source's channels are recurring tasks that it owns.

use rusqlite::{Connection, OptionalExtension, Row};

use super::commit::put_event;
use super::takedown::drop_article;
use crate::db::{DbError, whole};
use crate::frontier::Rules;
use crate::frontier::sqlite::{
    SOURCE_COLUMNS, number, park, read_source, release, rerank, resume, revive, take,
};
use crate::model::{
    Admission, Code, Health, Kind, Source, SourceChange, SourceId, Status, TaskId, Ts, UrlHash,
    new_uuid,
};
use crate::store::forms::{
    Rechanneled, Respecified, admitted, holds, inherited, switched, to_spec, warnings, withdrawn,
};
use crate::store::{ChannelState, OutsideHost};

/// Adds a source and its channels; `None` when the name is taken.
pub(super) fn add(
    conn: &Connection,
    new: &Admission,
    now: Ts,
    rules: &Rules,
) -> Result<Option<Source>, DbError> {
    let uuid = new_uuid(now).to_string();
    let Admission { spec, disabled, first_poll } = new;
    let since = |is: bool| is.then_some(now.ms());
    let (enabled_at, disabled_at) = (since(disabled.is_none()), since(disabled.is_some()));
    let id: Option<i64> = conn
        .prepare_cached(
            "INSERT INTO source(uuid, name, url, spec, enabled_at, disabled_at, disable_reason,
               created_at)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT(name) DO NOTHING RETURNING id",
        )?
        .query_row(
            rusqlite::params![
                uuid,
                spec.name,
                spec.url,
                to_spec(spec)?,
                enabled_at,
                disabled_at,
                disabled,
                now.ms()
            ],
            |row| row.get(0),
        )
        .optional()?;
    let Some(id) = id else { return Ok(None) };
    let source = SourceId(id);
    take(conn, &admitted(spec, source, *first_poll, rules), now, rules)?;
    if disabled.is_none() {
        revive(conn, source, now)?;
    }
    by_id(conn, source)
}

pub(super) fn by_id(conn: &Connection, id: SourceId) -> Result<Option<Source>, DbError> {
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
        found.extend(whole("source", read_source(row))?);
    }
    Ok(found)
}

pub(super) fn show(
    conn: &Connection,
    name: &str,
) -> Result<Option<(Source, Vec<ChannelState>)>, DbError> {
    let Some(source) = by_name(conn, name)? else { return Ok(None) };
    let channels = channels(conn, Some(source.id))?;
    Ok(Some((source, channels)))
}

/// The channels of a source, or of all.
pub(super) fn channels(
    conn: &Connection,
    source: Option<SourceId>,
) -> Result<Vec<ChannelState>, DbError> {
    let mut select = conn.prepare(
        "SELECT t.id, t.kind, t.url, t.due,
           CASE WHEN t.fetch_count > 0 OR t.status IN (1, 2) THEN t.fetched_at END, f.last_success,
           coalesce(f.failures, 0), coalesce(f.items, 0), x.last_error, x.reason, t.status,
           coalesce(f.health, 0), t.source_id, f.health_at, f.disabled_at, f.warnings,
           f.moved_from
         FROM task t LEFT JOIN feed f ON f.task_id = t.id LEFT JOIN fetch_state x ON x.task_id = t.id
         WHERE t.source_id BETWEEN ?1 AND ?2 AND t.lane = 0 AND t.kind IN (?3, ?4, ?5)
           AND NOT (t.kind = ?5 AND t.depth > 0) ORDER BY t.id",
    )?;
    let (first, last) = source.map_or((0, i64::MAX), |source| (source.0, source.0));
    let [feed, sitemap, listing] = [Kind::Feed, Kind::Sitemap, Kind::Listing].map(Kind::number);
    let mut rows = select.query((first, last, feed, sitemap, listing))?;
    let mut channels = Vec::new();
    while let Some(row) = rows.next()? {
        channels.extend(whole("channel", read_channel(row))?);
    }
    Ok(channels)
}

/// Hosts that pages of a source link to, most links first.
pub(super) fn outside(conn: &Connection, source: SourceId) -> Result<Vec<OutsideHost>, DbError> {
    let mut select = conn.prepare(
        "SELECT host, url, links, first_seen, last_seen FROM outside WHERE source_id = ?1
         ORDER BY links DESC, host",
    )?;
    let found = select.query_map([source.0], |row| {
        Ok(OutsideHost {
            host: row.get(0)?,
            url: row.get(1)?,
            links: row.get(2)?,
            first_seen: Ts::from_ms(row.get(3)?),
            last_seen: Ts::from_ms(row.get(4)?),
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn read_channel(row: &Row<'_>) -> Result<ChannelState, DbError> {
    let time = |at| row.get::<_, Option<i64>>(at).map(|ms| ms.map(Ts::from_ms));
    let last_error: Option<i64> = row.get(8)?;
    Ok(ChannelState {
        source: SourceId(row.get(12)?),
        id: TaskId(row.get(0)?).to_string(),
        kind: number("kind", row.get(1)?, Kind::from_number)?,
        url: row.get(2)?,
        next_fetch_at: Ts::from_ms(row.get(3)?),
        last_fetched_at: time(4)?,
        last_success_at: time(5)?,
        failures: row.get(6)?,
        items: row.get(7)?,
        last_error: last_error.map(|code| number("code", code, Code::from_number)).transpose()?,
        reason: row.get(9)?,
        status: number("status", row.get(10)?, Status::from_number)?,
        health: number("health", row.get(11)?, Health::from_number)?,
        health_since: time(13)?,
        disabled_since: time(14)?,
        warnings: warnings(row.get(15)?),
        moved_from: row.get(16)?,
    })
}

/// Switches a source on or off. On the operator's word that it is followed, what was held against its
/// channels is forgiven: those that only wait for a probe are to be asked again.
pub(super) fn set_enabled(
    conn: &Connection,
    name: &str,
    disabled: Option<&str>,
    now: Ts,
) -> Result<Option<(Source, Vec<TaskId>)>, DbError> {
    let Some(source) = by_name(conn, name)? else { return Ok(None) };
    let (was, wanted) = (source.enabled(), disabled.is_none());
    if was != wanted {
        let since = |is: bool| is.then_some(now.ms());
        conn.execute(
            "UPDATE source SET enabled_at = ?2, disabled_at = ?3, disable_reason = ?4 WHERE id = ?1",
            (source.id.0, since(wanted), since(!wanted), disabled),
        )?;
        if wanted { resume(conn, source.id, now)? } else { park(conn, source.id)? }
    } else if disabled.is_some() {
        conn.execute(
            "UPDATE source SET disable_reason = ?2 WHERE id = ?1",
            (source.id.0, disabled),
        )?;
    }
    let (mut forgiven, mut risen) = (Vec::new(), false);
    if wanted {
        forgiven = forgive(conn, source.id)?;
        risen = revive(conn, source.id, now)?;
    }
    if was != wanted || risen || !forgiven.is_empty() {
        put_event(conn, &switched(&source, disabled), now)?;
    }
    Ok(by_id(conn, source.id)?.map(|source| (source, forgiven)))
}

/// Forgets why channels of a source are no longer polled; which those were.
fn forgive(conn: &Connection, source: SourceId) -> Result<Vec<TaskId>, DbError> {
    let mut update = conn.prepare(
        "UPDATE feed SET disabled_at = NULL, failures = 0, version = version + 1
         WHERE disabled_at IS NOT NULL
           AND task_id IN (SELECT id FROM task WHERE source_id = ?1 AND lane = 0)
         RETURNING task_id",
    )?;
    let forgiven = update.query_map([source.0], |row| row.get(0).map(TaskId))?;
    Ok(forgiven.collect::<Result<_, _>>()?)
}

/// Changes what an operator says about a source, and its channels with it.
pub(super) fn respecify(
    conn: &Connection,
    name: &str,
    change: SourceChange,
    now: Ts,
    rules: &Rules,
) -> Result<Respecified, DbError> {
    let Some(mut source) = by_name(conn, name)? else { return Ok(Respecified::Unknown) };
    if !holds(&change, &source) {
        return Ok(Respecified::Changed);
    }
    let was = source.spec.clone();
    change.apply(&mut source.spec);
    let spec = &source.spec;
    let taken = "SELECT EXISTS(SELECT 1 FROM source WHERE name = ?1 AND id <> ?2)";
    if conn.query_row(taken, (&spec.name, source.id.0), |row| row.get(0))? {
        return Ok(Respecified::NameTaken(spec.name.clone()));
    }
    conn.execute(
        "UPDATE source SET name = ?2, url = ?3, spec = ?4 WHERE id = ?1",
        (source.id.0, &spec.name, &spec.url, to_spec(spec)?),
    )?;
    let channels = Rechanneled::of(&was, spec, source.id, rules);
    release(conn, source.id, &channels.dropped)?;
    take(conn, &channels.added, now, rules)?;
    rerank(conn, source.id, &channels.reranked, now)?;
    Ok(Respecified::Done(Box::new(source)))
}

/// Takes back articles that nobody but this source gave. Whoever had their words stands alone from then
/// on; the keys that they were found by lead nowhere, which does no harm.
pub(super) fn withdraw(
    conn: &Connection,
    name: &str,
    limit: usize,
    now: Ts,
) -> Result<Option<u64>, DbError> {
    let Some(source) = by_name(conn, name)? else { return Ok(None) };
    let mut select = conn.prepare(
        "SELECT a.id FROM article a WHERE a.source_id = ?1
           AND NOT EXISTS(SELECT 1 FROM task_source r
             WHERE r.task_id = a.task_id AND r.source_id <> a.source_id)
         ORDER BY a.row LIMIT ?2",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let gone = select.query_map((source.id.0, limit), |row| row.get(0).map(UrlHash::from_bytes))?;
    let gone: Vec<UrlHash> = gone.collect::<Result<_, _>>()?;
    for id in &gone {
        if let Some(gone) = drop_article(conn, *id)? {
            put_event(conn, &withdrawn(*id, gone.url.as_deref(), &source), now)?;
        }
    }
    Ok(Some(gone.len() as u64))
}

/// Forgets a source. What it owned passes on or is set aside; articles and history stay.
pub(super) fn remove(conn: &Connection, name: &str) -> Result<Option<Source>, DbError> {
    let Some(source) = by_name(conn, name)? else { return Ok(None) };
    park(conn, source.id)?;
    conn.execute(&inherited("task", "id"), [source.id.0])?;
    conn.execute(&inherited("article", "task_id"), [source.id.0])?;
    conn.execute("DELETE FROM task_source WHERE source_id = ?1", [source.id.0])?;
    conn.execute("DELETE FROM outside WHERE source_id = ?1", [source.id.0])?;
    conn.execute("DELETE FROM discovery WHERE source_id = ?1", [source.id.0])?;
    conn.execute("DELETE FROM source WHERE id = ?1", [source.id.0])?;
    Ok(Some(source))
}
