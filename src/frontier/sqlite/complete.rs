//! The end of a lease: where the task goes, and when its host may be asked again.

use rusqlite::Connection;

use super::rows::{self, Place, dequeue, enqueue, renew_tops};
use crate::db::DbError;
use crate::frontier::{Pace, Rules};
use crate::model::{Code, HostAdvice, Kind, LeaseId, Next, Status, TaskId, Ts, Validators};

/// What completing needs of an outcome.
#[derive(Debug)]
pub(crate) struct Completed<'a> {
    pub(crate) lease: LeaseId,
    pub(crate) task: TaskId,
    pub(crate) next: &'a Next,
    pub(crate) reason: &'a str,
    pub(crate) validators: Option<&'a (Validators, String)>,
    /// The advice, and the host that gave the answer.
    pub(crate) advice: HostAdvice,
    pub(crate) answered_by: Option<&'a str>,
}

/// Ends a lease; false when it was stale, and then nothing has changed.
pub(crate) fn complete(
    conn: &Connection,
    done: &Completed<'_>,
    now: Ts,
    rules: &Rules,
) -> Result<bool, DbError> {
    let mut held =
        conn.prepare_cached("SELECT id, name FROM host WHERE lease_id = ?1 ORDER BY id")?;
    let hosts: Vec<(i64, String)> = held
        .query_map([done.lease.0], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let Some(place) = rows::place(conn, done.task.0)? else { return Ok(false) };
    // A host that was lent to the lease may still carry its number: the task's own one decides.
    if !hosts.iter().any(|(host, _)| *host == place.host) {
        return Ok(false);
    }
    move_task(conn, done, place, now)?;
    for (host, name) in &hosts {
        let answered = done.answered_by.is_none_or(|by| by == name);
        release(conn, *host, if answered { done.advice } else { HostAdvice::Neutral }, now, rules)?;
    }
    renew_tops(conn, place.host)?;
    Ok(true)
}

fn move_task(
    conn: &Connection,
    done: &Completed<'_>,
    place: Place,
    now: Ts,
) -> Result<(), DbError> {
    dequeue(conn, place)?;
    let (kind, before): (i64, i64) = conn
        .prepare_cached("SELECT kind, status FROM task WHERE id = ?1")?
        .query_row([done.task.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (status, at, failed, code) = match done.next {
        Next::Fetched => (Status::Fetched, None, false, None),
        Next::Again { at } => (Status::Pending, Some(*at), false, None),
        Next::Retry { at, code } => (Status::Pending, Some(*at), true, Some(*code)),
        Next::Postpone { at, code } => (Status::Pending, Some(*at), false, Some(*code)),
        Next::Dead { code } => (Status::Dead, None, false, Some(*code)),
    };
    // Its source was disabled or removed while it was under way.
    let parked = before == Status::Parked.number() && status == Status::Pending;
    let status = if parked { Status::Parked } else { status };
    let postponed = matches!(done.next, Next::Postpone { .. });
    let asked = !postponed && done.advice != HostAdvice::NotAsked;
    let due = at.map_or(place.due, Ts::ms);
    conn.prepare_cached(
        "UPDATE task SET status = ?2, due = ?3,
           retry = CASE WHEN ?4 THEN retry + 1 WHEN ?5 THEN retry ELSE 0 END,
           fetched_at = CASE WHEN ?6 OR ?2 = 2 THEN ?7 ELSE fetched_at END,
           fetch_count = fetch_count + ?6
         WHERE id = ?1",
    )?
    .execute((
        done.task.0,
        status.number(),
        due,
        failed,
        postponed || status == Status::Dead,
        asked,
        now.ms(),
    ))?;
    note(conn, done.task.0, code, done.reason)?;
    if let Some((validators, belongs_to)) = done.validators {
        conn.prepare_cached(
            "UPDATE fetch_state SET etag = ?2, last_modified = ?3, validators_for = ?4
             WHERE task_id = ?1",
        )?
        .execute((
            done.task.0,
            &validators.etag,
            &validators.last_modified,
            belongs_to,
        ))?;
    }
    // robots.txt is asked for when a task needs it, never by its own schedule.
    if status == Status::Pending && kind != Kind::Robots.number() {
        enqueue(conn, Place { due, ..place }, now)?;
    }
    Ok(())
}

/// Writes down what the last outcome was.
pub(super) fn note(
    conn: &Connection,
    task: i64,
    code: Option<Code>,
    reason: &str,
) -> Result<(), DbError> {
    conn.prepare_cached(
        "INSERT INTO fetch_state(task_id, last_error, reason) VALUES(?1, ?2, ?3)
         ON CONFLICT(task_id) DO UPDATE SET last_error = excluded.last_error,
           reason = excluded.reason, strikes = 0",
    )?
    .execute((task, code.map(Code::number), reason))?;
    Ok(())
}

fn release(
    conn: &Connection,
    host: i64,
    advice: HostAdvice,
    now: Ts,
    rules: &Rules,
) -> Result<(), DbError> {
    let pace = conn
        .prepare_cached(
            "SELECT crawl_ms, rate_ms, learned_ms, blocked_until FROM host WHERE id = ?1",
        )?
        .query_row([host], |row| {
            Ok(Pace {
                crawl_ms: row.get(0)?,
                rate_ms: row.get(1)?,
                learned_ms: row.get(2)?,
                blocked_until: Ts::from_ms(row.get(3)?),
            })
        })?;
    let (pace, next) = pace.after(advice, now, rules.delay);
    conn.prepare_cached(
        "UPDATE host SET lease_id = NULL, lease_task = NULL, next_at = ?2,
           learned_ms = ?3, blocked_until = ?4,
           last_fetch_at = CASE WHEN ?5 THEN last_fetch_at ELSE ?6 END WHERE id = ?1",
    )?
    .execute((
        host,
        next.ms(),
        pace.learned_ms,
        pace.blocked_until.ms(),
        advice == HostAdvice::NotAsked,
        now.ms(),
    ))?;
    Ok(())
}
