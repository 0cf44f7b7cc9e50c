//! Looking at the frontier, and an operator's word about a host.

use rusqlite::{Connection, Row, params_from_iter};

use super::claim::next_due;
use super::rows::{self, TASK_COLUMNS, TASK_FROM, number, read_task};
use crate::db::statement::Dialect;
use crate::db::{DbError, whole};
use crate::frontier::listing;
use crate::frontier::{
    Counts, HostFilter, HostPatch, HostState, RobotsCopy, Rules, Share, Stats, TaskFilter, hosts,
    queue_key,
};
use crate::model::{Code, Kind, Lane, State, Status, Task, TaskId, Ts};

/// Tasks by filter, in its order.
pub(super) fn list(conn: &Connection, filter: &TaskFilter) -> Result<Vec<Task>, DbError> {
    let terms = filter.terms_from_here(Dialect::Sqlite);
    let (sql, tail) = (terms.sql(), filter.tail());
    let sql = format!("SELECT {TASK_COLUMNS} FROM {TASK_FROM} WHERE {sql} {tail}");
    let mut select = conn.prepare(&sql)?;
    let mut rows = select.query(params_from_iter(terms.values))?;
    let mut tasks = Vec::new();
    while let Some(row) = rows.next()? {
        tasks.extend(whole("task", read_task(row))?);
    }
    Ok(tasks)
}

/// How many tasks a filter lets through.
pub(super) fn count(conn: &Connection, filter: &TaskFilter) -> Result<u64, DbError> {
    let terms = filter.terms(Dialect::Sqlite);
    let sql = format!("SELECT count(*) FROM {} WHERE {}", filter.tables(), terms.sql());
    Ok(conn.query_row(&sql, params_from_iter(terms.values), |row| row.get(0))?)
}

/// Where a task stands, from status, whether it failed, and whether it is leased.
fn read_state(row: &Row<'_>, from: usize) -> Result<State, DbError> {
    let status = number("status", row.get(from)?, Status::from_number)?;
    Ok(State::of(status, row.get(from + 1)?, row.get(from + 2)?))
}

/// The sources or hosts with most tasks.
pub(super) fn shares(
    conn: &Connection,
    by: Share,
    top: usize,
) -> Result<Vec<(String, Counts)>, DbError> {
    let mut select = conn.prepare(&listing::shares_sql(by, top))?;
    let mut rows = select.query([])?;
    let mut shares: Vec<(String, Counts)> = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        if shares.last().is_none_or(|(last, _)| *last != name) {
            shares.push((name, Counts::default()));
        }
        if let Some((_, counts)) = shares.last_mut() {
            counts.add(read_state(row, 1)?, row.get(4)?);
        }
    }
    Ok(shares)
}

/// Hosts by filter.
pub(super) fn hosts(
    conn: &Connection,
    filter: &HostFilter,
    now: Ts,
    rules: &Rules,
) -> Result<Vec<HostState>, DbError> {
    let (sql, terms) = hosts::sql(filter, Dialect::Sqlite, now);
    let mut select = conn.prepare(&sql)?;
    let mut rows = select.query(params_from_iter(terms.values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let mut numbers = [None; hosts::NUMBERS];
        for (at, number) in numbers.iter_mut().enumerate() {
            *number = row.get(at + 1)?;
        }
        let name: String = row.get(0)?;
        let robots = robots_of(conn, &name)?;
        found.push(hosts::state(name, numbers, robots, now, rules));
    }
    Ok(found)
}

fn robots_of(conn: &Connection, host: &str) -> Result<Vec<RobotsCopy>, DbError> {
    let mut select = conn.prepare_cached(
        "SELECT origin, crawl_ms, fetched_at, expires_at FROM robots
         WHERE host = ?1 AND fetched_at > 0 ORDER BY origin",
    )?;
    let copies = select.query_map([host], |row| {
        Ok(RobotsCopy {
            origin: row.get(0)?,
            crawl_delay_ms: row.get(1)?,
            fetched_at: Ts::from_ms(row.get(2)?),
            expires_at: Ts::from_ms(row.get(3)?),
        })
    })?;
    Ok(copies.collect::<Result<_, _>>()?)
}

/// The frontier in figures.
pub(super) fn stats(conn: &Connection, now: Ts) -> Result<Stats, DbError> {
    let mut stats = Stats { next_due: next_due(conn, Lane::ALL)?, ..Stats::default() };
    let mut select = conn.prepare(
        "SELECT t.kind, t.status, t.retry > 0, l.lease_task IS NOT NULL, count(*)
         FROM task t LEFT JOIN (SELECT DISTINCT queue_id, lease_task FROM host WHERE lease_id IS NOT NULL) l
           ON l.lease_task = t.id AND l.queue_id = t.host_id WHERE t.host_id <> 0 GROUP BY 1, 2, 3, 4 ORDER BY 1",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let kind = number("kind", row.get(0)?, Kind::from_number)?;
        stats.count(kind, read_state(row, 1)?, row.get(4)?);
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
    if patch.forget {
        conn.execute("UPDATE host SET learned_ms = 0 WHERE queue_id = ?1", [queue])?;
        conn.execute(
            "UPDATE task SET retry = 0 WHERE host_id = ?1 AND lane = ?2 AND kind = ?3",
            (queue, Lane::Poll.number(), Kind::Robots.number()),
        )?;
        if rows::load_host(conn, queue)?.pace.is_asked_to_wait(now) {
            block(conn, queue, (now, None), now, rules)?;
        }
    }
    if let Some(delay) = patch.delay {
        let ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX).min(i64::MAX / 2);
        // The pause that is under way is lengthened as well.
        conn.execute(
            "UPDATE host SET slow_ms = ?2, next_at = CASE WHEN lease_id IS NULL
               THEN max(next_at, coalesce(last_fetch_at, 0) + ?2) ELSE next_at END
             WHERE queue_id = ?1",
            (queue, ms),
        )?;
    }
    if let Some(until) = patch.blocked_until {
        block(conn, queue, (until, patch.blocked_by), now, rules)?;
    }
    if let Some(slots) = patch.concurrency {
        rows::set_slots(conn, queue, slots.max(1))?;
        rows::renew_tops(conn, queue)?;
    }
    Ok(())
}

/// Lifting a block leaves the ordinary pause in place. A lease that runs out meanwhile is not handed
/// out again before the block ends.
fn block(
    conn: &Connection,
    queue: i64,
    (until, by): (Ts, Option<TaskId>),
    now: Ts,
    rules: &Rules,
) -> Result<(), DbError> {
    let pause = rows::load_host(conn, queue)?.pace.pause(rules.delay.get());
    conn.execute(
        "UPDATE host SET blocked_until = ?2, blocked_by = ?4,
           next_at = CASE WHEN lease_id IS NULL THEN ?3 ELSE max(next_at, ?2) END
         WHERE queue_id = ?1",
        (queue, until.ms(), until.max(now.after(pause)).ms(), by.map(|task| task.0)),
    )?;
    Ok(())
}
