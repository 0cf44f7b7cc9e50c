//! Looking at the frontier, and an operator's word about a host.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::claim::next_due;
use super::rows::{self, TASK_COLUMNS, TASK_FROM, number, read_task};
use crate::db::DbError;
use crate::frontier::{HostPatch, Rules, Stats, TaskFilter, queue_key};
use crate::model::{Code, Kind, Lane, Task, Ts};

/// Tasks by filter, oldest first.
pub(super) fn list(conn: &Connection, filter: &TaskFilter) -> Result<Vec<Task>, DbError> {
    let mut conditions = vec!["t.id > ?".to_owned()];
    let mut values = vec![Value::from(filter.after.unwrap_or(0))];
    let mut add = |condition: &str, value: Value| {
        conditions.push(condition.to_owned());
        values.push(value);
    };
    if let Some(status) = filter.status {
        add("t.status = ?", status.number().into());
    }
    if let Some(kind) = filter.kind {
        add("t.kind = ?", kind.number().into());
    }
    if let Some(origin) = filter.origin {
        add("t.origin = ?", origin.number().into());
    }
    if let Some(host) = &filter.host {
        add("h.name = ?", host.clone().into());
    }
    if let Some(source) = &filter.source {
        add("? IN (s.uuid, s.name)", source.clone().into());
    }
    values.push(i64::try_from(filter.limit).unwrap_or(i64::MAX).into());
    let sql = format!(
        "SELECT {TASK_COLUMNS} FROM {TASK_FROM} WHERE {} ORDER BY t.id LIMIT ?",
        conditions.join(" AND ")
    );
    let mut select = conn.prepare(&sql)?;
    let mut rows = select.query(params_from_iter(values))?;
    let mut tasks = Vec::new();
    while let Some(row) = rows.next()? {
        tasks.push(read_task(row)?);
    }
    Ok(tasks)
}

/// The frontier in figures.
pub(super) fn stats(conn: &Connection, now: Ts) -> Result<Stats, DbError> {
    let mut stats = Stats { next_due: next_due(conn, Lane::ALL)?, ..Stats::default() };
    let mut select = conn.prepare(
        "SELECT t.kind, t.status, t.retry > 0, l.lease_task IS NOT NULL, count(*)
         FROM task t LEFT JOIN (SELECT DISTINCT queue_id, lease_task FROM host WHERE lease_id IS NOT NULL) l
           ON l.lease_task = t.id AND l.queue_id = t.host_id GROUP BY 1, 2, 3, 4 ORDER BY 1",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let kind = number("kind", row.get(0)?, Kind::from_number)?;
        let (status, failed, leased): (i64, bool, bool) = (row.get(1)?, row.get(2)?, row.get(3)?);
        stats.count(kind, status, failed, leased, row.get(4)?);
    }
    let mut dead = conn.prepare(
        "SELECT f.last_error, count(*) FROM task t JOIN fetch_state f ON f.task_id = t.id
         WHERE t.status = 2 AND f.last_error IS NOT NULL GROUP BY 1 ORDER BY 2 DESC",
    )?;
    let mut rows = dead.query([])?;
    while let Some(row) = rows.next()? {
        stats.dead_by_code.push((number("code", row.get(0)?, Code::from_number)?, row.get(1)?));
    }
    stats.hosts =
        conn.query_row("SELECT count(*) FROM host WHERE slot = 0", [], |row| row.get(0))?;
    stats.due = conn.query_row(
        "SELECT (SELECT count(*) FROM queue) + (SELECT count(*) FROM delayed WHERE due <= ?1)",
        [now.ms()],
        |row| row.get(0),
    )?;
    Ok(stats)
}

/// Applies what an operator says about a host.
pub(super) fn set_host(
    conn: &Connection,
    host: &str,
    patch: &HostPatch,
    now: Ts,
    rules: &Rules,
) -> Result<(), DbError> {
    let queue = rows::queue_of(conn, queue_key(host, &rules.groups), now, rules)?;
    if let Some(delay) = patch.delay {
        let ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        conn.execute("UPDATE host SET rate_ms = ?2 WHERE queue_id = ?1", (queue, ms))?;
    }
    if let Some(until) = patch.blocked_until {
        // Lifting a block leaves the ordinary pause in place.
        let pause = rows::load_host(conn, queue)?.pace.pause(rules.delay);
        conn.execute(
            "UPDATE host SET blocked_until = ?2,
               next_at = CASE WHEN lease_id IS NULL THEN ?3 ELSE next_at END WHERE queue_id = ?1",
            (queue, until.ms(), until.max(now.after(pause)).ms()),
        )?;
    }
    if let Some(slots) = patch.concurrency {
        rows::set_slots(conn, queue, slots.max(1))?;
    }
    Ok(())
}
