//! Rows of the frontier's tables, and the small moves between queue and waiting room.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::db::DbError;
use crate::frontier::Candidate;
use crate::model::{Code, Kind, Lane, Origin, Source, SourceId, Status, Task, TaskId, Ts, UrlHash};

/// The columns that [`read_task`] reads, from `task t`, `host h`, `source s`, `fetch_state f`.
pub(super) const TASK_COLUMNS: &str = "t.id, t.url, t.url_key, h.name, t.kind, t.origin, \
    t.source_id, s.uuid, t.status, coalesce(h.lease_task = t.id, 0), t.prio, t.depth, t.due, \
    t.fetched_at, t.fetch_count, t.retry, f.last_error, f.reason, t.discovered_at";

/// Where they come from.
pub(super) const TASK_FROM: &str = "task t JOIN host h ON h.id = t.host_id \
    LEFT JOIN source s ON s.id = t.source_id LEFT JOIN fetch_state f ON f.task_id = t.id";

/// The enum behind a number, or the news that the file was not written by us.
pub(crate) fn number<T>(
    what: &'static str,
    number: i64,
    from: impl Fn(i64) -> Option<T>,
) -> Result<T, DbError> {
    from(number).ok_or_else(|| DbError::Corrupt { what, value: number.to_string() })
}

pub(super) fn read_task(row: &Row<'_>) -> Result<Task, DbError> {
    let url: String = row.get(1)?;
    let url_key: Option<String> = row.get(2)?;
    let url_key = url_key.unwrap_or_else(|| url.clone());
    let last_error: Option<i64> = row.get(16)?;
    Ok(Task {
        id: TaskId(row.get(0)?),
        url_hash: UrlHash::of(&url_key),
        url,
        url_key,
        host: row.get(3)?,
        kind: number("kind", row.get(4)?, Kind::from_number)?,
        origin: number("origin", row.get(5)?, Origin::from_number)?,
        source: row.get::<_, Option<i64>>(6)?.map(SourceId),
        source_id: row.get(7)?,
        status: number("status", row.get(8)?, Status::from_number)?,
        leased: row.get(9)?,
        priority: row.get(10)?,
        depth: row.get(11)?,
        next_fetch_at: Ts::from_ms(row.get(12)?),
        last_fetched_at: row.get::<_, Option<i64>>(13)?.map(Ts::from_ms),
        fetch_count: row.get(14)?,
        retry_count: row.get(15)?,
        last_error: last_error.map(|code| number("code", code, Code::from_number)).transpose()?,
        reason: row.get(17)?,
        discovered_at: Ts::from_ms(row.get(18)?),
    })
}

/// The task in that row.
pub(crate) fn load_task(conn: &Connection, id: TaskId) -> Result<Option<Task>, DbError> {
    let sql = format!("SELECT {TASK_COLUMNS} FROM {TASK_FROM} WHERE t.id = ?1");
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query([id.0])?;
    rows.next()?.map(read_task).transpose()
}

/// The columns that [`read_source`] reads.
pub(crate) const SOURCE_COLUMNS: &str = "id, uuid, spec, enabled_at, disable_reason, created_at";

/// A source from its row.
pub(crate) fn read_source(row: &Row<'_>) -> Result<Source, DbError> {
    let spec: String = row.get(2)?;
    Ok(Source {
        id: SourceId(row.get(0)?),
        uuid: row.get(1)?,
        spec: serde_json::from_str(&spec)
            .map_err(|error| DbError::Corrupt { what: "source", value: error.to_string() })?,
        enabled_at: row.get::<_, Option<i64>>(3)?.map(Ts::from_ms),
        disable_reason: row.get(4)?,
        created_at: Ts::from_ms(row.get(5)?),
    })
}

/// The source in that row.
pub(super) fn load_source(conn: &Connection, id: SourceId) -> Result<Option<Source>, DbError> {
    let mut select =
        conn.prepare_cached(&format!("SELECT {SOURCE_COLUMNS} FROM source WHERE id = ?1"))?;
    let mut rows = select.query([id.0])?;
    rows.next()?.map(read_source).transpose()
}

/// The row of a host, made when it is not there.
pub(super) fn host_id(conn: &Connection, name: &str, now: Ts) -> Result<i64, DbError> {
    let known = conn
        .prepare_cached("SELECT id FROM host WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    match known {
        Some(id) => Ok(id),
        None => Ok(conn
            .prepare_cached("INSERT INTO host(name, created_at) VALUES(?1, ?2) RETURNING id")?
            .query_row((name, now.ms()), |row| row.get(0))?),
    }
}

/// The column of `host` that holds a lane's highest queued priority.
pub(super) const fn top_column(lane: Lane) -> &'static str {
    match lane {
        Lane::Poll => "top_poll",
        Lane::Page => "top_page",
        Lane::Media => "top_media",
    }
}

/// A task's place, as far as moving it needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) task: i64,
    pub(super) host: i64,
    pub(super) lane: Lane,
    pub(super) prio: i64,
    pub(super) due: i64,
}

/// Puts a pending task where it belongs: into the queue when it is due, else to the waiting ones.
pub(super) fn enqueue(conn: &Connection, place: Place, now: Ts) -> Result<(), DbError> {
    let Place { task, host, lane, prio, due } = place;
    if due > now.ms() {
        conn.prepare_cached("INSERT OR IGNORE INTO delayed(due, task_id) VALUES(?1, ?2)")?
            .execute((due, task))?;
        return Ok(());
    }
    conn.prepare_cached(
        "INSERT OR IGNORE INTO queue(host_id, lane, nprio, due, task_id) VALUES(?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((host, lane.number(), 10 - prio, due, task))?;
    let top = top_column(lane);
    conn.prepare_cached(&format!(
        "UPDATE host SET {top} = ?2 WHERE id = ?1 AND ({top} IS NULL OR {top} < ?2)"
    ))?
    .execute((host, prio))?;
    Ok(())
}

/// Takes a task out of queue and waiting room; the caller renews the host's tops.
pub(super) fn dequeue(conn: &Connection, place: Place) -> Result<(), DbError> {
    conn.prepare_cached(
        "DELETE FROM queue WHERE host_id = ?1 AND lane = ?2 AND nprio = ?3 AND due = ?4 AND task_id = ?5",
    )?
    .execute((place.host, place.lane.number(), 10 - place.prio, place.due, place.task))?;
    conn.prepare_cached("DELETE FROM delayed WHERE due = ?1 AND task_id = ?2")?
        .execute((place.due, place.task))?;
    Ok(())
}

/// Computes a host's tops anew from its queue.
pub(super) fn renew_tops(conn: &Connection, host: i64) -> Result<(), DbError> {
    conn.prepare_cached(
        "UPDATE host SET
           top_poll = (SELECT 10 - nprio FROM queue WHERE host_id = ?1 AND lane = 0 ORDER BY nprio LIMIT 1),
           top_page = (SELECT 10 - nprio FROM queue WHERE host_id = ?1 AND lane = 1 ORDER BY nprio LIMIT 1),
           top_media = (SELECT 10 - nprio FROM queue WHERE host_id = ?1 AND lane = 2 ORDER BY nprio LIMIT 1)
         WHERE id = ?1",
    )?
    .execute([host])?;
    Ok(())
}

/// Where a task stands in the queue's terms.
pub(super) fn place(conn: &Connection, task: i64) -> Result<Option<Place>, DbError> {
    let mut select =
        conn.prepare_cached("SELECT host_id, lane, prio, due FROM task WHERE id = ?1")?;
    let mut rows = select.query([task])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Place {
        task,
        host: row.get(0)?,
        lane: number("lane", row.get(1)?, Lane::from_number)?,
        prio: row.get(2)?,
        due: row.get(3)?,
    }))
}

/// Sets aside what only a disabled source wants. A task that another enabled source also gave
/// passes to that one.
pub(crate) fn park(conn: &Connection, source: SourceId) -> Result<(), DbError> {
    let mut owned =
        conn.prepare_cached("SELECT id FROM task WHERE source_id = ?1 AND status = 0")?;
    let tasks: Vec<i64> =
        owned.query_map([source.0], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for task in tasks {
        let heir: Option<i64> = conn
            .prepare_cached(
                "SELECT r.source_id FROM task_source r JOIN source s ON s.id = r.source_id
                 WHERE r.task_id = ?1 AND s.enabled_at IS NOT NULL AND s.id <> ?2
                 ORDER BY r.first_seen LIMIT 1",
            )?
            .query_row((task, source.0), |row| row.get(0))
            .optional()?;
        if let Some(heir) = heir {
            conn.prepare_cached("UPDATE task SET source_id = ?2 WHERE id = ?1")?
                .execute((task, heir))?;
            continue;
        }
        let Some(place) = place(conn, task)? else { continue };
        dequeue(conn, place)?;
        conn.prepare_cached("UPDATE task SET status = ?2 WHERE id = ?1")?
            .execute((task, Status::Parked.number()))?;
        renew_tops(conn, place.host)?;
    }
    Ok(())
}

/// Takes up again what was set aside and this source gave: it is the first one enabled, so its own.
pub(crate) fn resume(conn: &Connection, source: SourceId, now: Ts) -> Result<(), DbError> {
    let mut parked = conn.prepare_cached(
        "SELECT t.id FROM task_source r JOIN task t ON t.id = r.task_id
         WHERE r.source_id = ?1 AND t.status = 3 ORDER BY t.id",
    )?;
    let tasks: Vec<i64> =
        parked.query_map([source.0], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for task in tasks {
        conn.prepare_cached("UPDATE task SET status = 0, source_id = ?2 WHERE id = ?1")?
            .execute((task, source.0))?;
        if let Some(place) = place(conn, task)? {
            enqueue(conn, place, now)?;
        }
    }
    Ok(())
}

/// The safety net: a host whose tops do not match its queue would starve or spin.
pub(super) fn repair(conn: &Connection) -> Result<u64, DbError> {
    let mut wrong = conn.prepare(
        "SELECT id FROM host h WHERE
           top_poll IS NOT (SELECT 10 - nprio FROM queue WHERE host_id = h.id AND lane = 0 ORDER BY nprio LIMIT 1)
        OR top_page IS NOT (SELECT 10 - nprio FROM queue WHERE host_id = h.id AND lane = 1 ORDER BY nprio LIMIT 1)
        OR top_media IS NOT (SELECT 10 - nprio FROM queue WHERE host_id = h.id AND lane = 2 ORDER BY nprio LIMIT 1)",
    )?;
    let hosts: Vec<i64> = wrong.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for host in &hosts {
        renew_tops(conn, *host)?;
    }
    Ok(hosts.len() as u64)
}

/// Marks the address that answered in another's place as done, so that it is not asked for again.
pub(crate) fn settle(conn: &Connection, done: &Candidate, now: Ts) -> Result<(), DbError> {
    let host = host_id(conn, &done.host, now)?;
    let task: Option<(i64, bool)> = conn
        .prepare_cached(
            "SELECT t.id, coalesce(h.lease_task = t.id, 0) FROM task t JOIN host h ON h.id = t.host_id
             WHERE t.host_id = ?1 AND t.lane = ?2 AND t.hash = ?3 AND t.status = 0",
        )?
        .query_row((host, done.kind.lane().number(), done.hash.head()), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    // One that is under way just now ends by itself.
    let Some((task, false)) = task else { return Ok(()) };
    if let Some(place) = place(conn, task)? {
        dequeue(conn, place)?;
    }
    conn.prepare_cached("UPDATE task SET status = ?2, fetched_at = ?3 WHERE id = ?1")?
        .execute((task, Status::Fetched.number(), now.ms()))?;
    renew_tops(conn, host)
}
