//! Leases that end without an answer: each is a strike against its task, and its host rests first,
//! because a request may have been under way until then.

use rusqlite::Connection;

use super::Obituary;
use super::rows::{
    self, HostRow, Place, TASK_COLUMNS, TASK_FROM, dequeue, drop_spare_slots, enqueue,
    host_columns, number, read_host, read_task, renew_tops,
};
use crate::db::{DbError, whole};
use crate::frontier::Rules;
use crate::frontier::rulings::{POISONED, Strike};
use crate::model::{Code, HostAdvice, Kind, Status, Ts};

/// Ends the leases that ran out.
pub(super) fn end_expired(
    conn: &Connection,
    now: Ts,
    rules: &Rules,
    obituary: Obituary,
) -> Result<(), DbError> {
    let sql = concat!(
        "SELECT ",
        host_columns!(),
        " FROM host h INDEXED BY host_lease WHERE h.lease_id IS NOT NULL AND h.next_at <= ?1"
    );
    let held: Vec<HostRow> =
        conn.prepare_cached(sql)?.query_map([now.ms()], read_host)?.collect::<Result<_, _>>()?;
    end(conn, &held, now, rules, obituary)
}

/// Ends every lease: their holder is gone.
pub(super) fn free_leases(
    conn: &Connection,
    now: Ts,
    rules: &Rules,
    obituary: Obituary,
) -> Result<u64, DbError> {
    let sql = concat!("SELECT ", host_columns!(), " FROM host h WHERE h.lease_id IS NOT NULL");
    let held: Vec<HostRow> =
        conn.prepare(sql)?.query_map([], read_host)?.collect::<Result<_, _>>()?;
    end(conn, &held, now, rules, obituary)?;
    Ok(held.len() as u64)
}

fn end(
    conn: &Connection,
    held: &[HostRow],
    now: Ts,
    rules: &Rules,
    obituary: Obituary,
) -> Result<(), DbError> {
    for host in held {
        let ended = host.next_at.min(now);
        let (_, next) = host.pace.after(HostAdvice::Neutral, ended, rules.delay.get());
        conn.prepare_cached(
            "UPDATE host SET lease_id = NULL, lease_task = NULL, next_at = ?2 WHERE id = ?1",
        )?
        .execute((host.id, next.ms()))?;
        // A slot that was lent to another host's task: that one's own slot counts it.
        if let Some(task) = host.lease_task
            && let Some(place) = rows::place(conn, task)?.filter(|at| at.queue == host.queue)
        {
            strike(conn, place, ended, now, obituary)?;
        }
        drop_spare_slots(conn, host.queue)?;
        renew_tops(conn, host.queue)?;
    }
    Ok(())
}

/// Counts a lease that ended against its task; the caller renews the tops.
fn strike(
    conn: &Connection,
    place: Place,
    ended: Ts,
    now: Ts,
    obituary: Obituary,
) -> Result<(), DbError> {
    let count: i64 = conn
        .prepare_cached(
            "INSERT INTO fetch_state(task_id, strikes) VALUES(?1, 1)
             ON CONFLICT(task_id) DO UPDATE SET strikes = strikes + 1 RETURNING strikes",
        )?
        .query_row([place.task], |row| row.get(0))?;
    let strike = Strike::of(count, place.task, ended);
    if kind_of(conn, place.task)? == Kind::Robots {
        let Some(at) = strike.rest(ended) else { return Ok(()) };
        conn.prepare_cached("UPDATE host SET next_at = max(next_at, ?2) WHERE queue_id = ?1")?
            .execute((place.queue, at.ms()))?;
        return Ok(());
    }
    match strike {
        Strike::Spared => Ok(()),
        Strike::PutOff(at) => put_off(conn, place, at, now),
        Strike::Poison => bury(conn, place, now, obituary),
    }
}

fn kind_of(conn: &Connection, task: i64) -> Result<Kind, DbError> {
    let kind: i64 = conn
        .prepare_cached("SELECT kind FROM task WHERE id = ?1")?
        .query_row([task], |row| row.get(0))?;
    number("kind", kind, Kind::from_number)
}

fn put_off(conn: &Connection, place: Place, at: Ts, now: Ts) -> Result<(), DbError> {
    let status: i64 = conn
        .prepare_cached("SELECT status FROM task WHERE id = ?1")?
        .query_row([place.task], |row| row.get(0))?;
    dequeue(conn, place)?;
    conn.prepare_cached("UPDATE task SET due = ?2 WHERE id = ?1")?
        .execute((place.task, at.ms()))?;
    // What was set aside meanwhile stays aside.
    if number("status", status, Status::from_number)? == Status::Pending {
        enqueue(conn, Place { due: at.ms(), ..place }, now)?;
    }
    Ok(())
}

fn bury(conn: &Connection, place: Place, now: Ts, obituary: Obituary) -> Result<(), DbError> {
    dequeue(conn, place)?;
    conn.prepare_cached("UPDATE task SET status = ?2, fetched_at = ?3 WHERE id = ?1")?
        .execute((place.task, Status::Dead.number(), now.ms()))?;
    super::complete::note(conn, place.task, Some(Code::Poison), POISONED)?;
    let sql = format!("SELECT {TASK_COLUMNS} FROM {TASK_FROM} WHERE t.id = ?1");
    if let Some(row) = conn.prepare_cached(&sql)?.query([place.task])?.next()?
        && let Some(task) = whole("task", read_task(row))?
    {
        obituary(conn, &task, now)?;
    }
    Ok(())
}
