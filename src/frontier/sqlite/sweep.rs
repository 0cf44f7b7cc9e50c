//! An operator's sweep over many tasks, a stretch at a time.
//!
//! Looking for them is a reader's work, because it may take long. The writer only gets rows that were
//! found, and looks at each again: it may have changed since.

use std::collections::{BTreeSet, HashSet};

use rusqlite::{Connection, params_from_iter};

use super::rows::{Place, dequeue, enqueue, number, renew_tops};
use crate::db::DbError;
use crate::db::statement::{Dialect, Value};
use crate::db::transfer::keep_number;
use crate::frontier::listing::FILTERED;
use crate::frontier::rulings::{Swept, TAKEN_DOWN, WITHDRAWN};
use crate::frontier::{Act, Sweep, TaskFilter};
use crate::model::{Kind, Lane, Status, Ts};

/// The rows of the next tasks of a filter, oldest first.
pub(super) fn find(conn: &Connection, filter: &TaskFilter) -> Result<Vec<i64>, DbError> {
    let terms = filter.terms_from_here(Dialect::Sqlite);
    let sql = format!("SELECT t.id FROM {FILTERED} WHERE {} {}", terms.sql(), filter.tail());
    let mut select = conn.prepare(&sql)?;
    let found = select.query_map(params_from_iter(terms.values), |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Counts what would be done to these rows.
pub(super) fn weigh(
    conn: &Connection,
    act: Act,
    filter: &TaskFilter,
    rows: &[i64],
) -> Result<Sweep, DbError> {
    Ok(choose(conn, act, filter, rows)?.0)
}

/// Does it to these rows.
pub(super) fn sweep(
    conn: &Connection,
    act: Act,
    filter: &TaskFilter,
    rows: &[i64],
    now: Ts,
) -> Result<Sweep, DbError> {
    let (sweep, chosen) = choose(conn, act, filter, rows)?;
    for (place, status) in &chosen {
        dequeue(conn, *place)?;
        match act {
            Act::Retry => retry(conn, *place, (*status, false), now)?,
            Act::Hasten => retry(conn, *place, (*status, true), now)?,
            Act::Delete => delete(conn, place.task)?,
            Act::Withdraw => bury(conn, place.task)?,
        }
    }
    if act == Act::Delete
        && let Some(highest) = chosen.iter().map(|(place, _)| place.task).max()
    {
        // `AUTOINCREMENT` would need a journal for every insertion: see submit.rs.
        keep_number(conn, highest)?;
    }
    let queues: BTreeSet<i64> = chosen.iter().map(|(place, _)| place.queue).collect();
    for queue in queues {
        renew_tops(conn, queue)?;
    }
    Ok(sweep)
}

type Chosen = Vec<(Place, Status)>;

fn choose(
    conn: &Connection,
    act: Act,
    filter: &TaskFilter,
    rows: &[i64],
) -> Result<(Sweep, Chosen), DbError> {
    let leased: HashSet<i64> = conn
        .prepare_cached("SELECT lease_task FROM host WHERE lease_id IS NOT NULL")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut terms = filter.terms(Dialect::Sqlite);
    let id = terms.int(0);
    let sql = format!(
        "SELECT t.host_id, t.lane, t.prio, t.due, t.kind, t.status,
           t.source_id IS NOT NULL AND t.parent_id IS NULL,
           t.source_id IS NULL OR EXISTS(
             SELECT 1 FROM source s WHERE s.id = t.source_id AND s.enabled_at IS NOT NULL),
           coalesce(f.last_error = {WITHDRAWN}, false)
         FROM {FILTERED} WHERE t.id = {id} AND {}",
        terms.sql()
    );
    let mut select = conn.prepare(&sql)?;
    let (mut sweep, mut chosen) = (Sweep::default(), Chosen::new());
    for task in rows {
        if let Some(last) = terms.values.last_mut() {
            *last = Value::Int(*task);
        }
        let mut found = select.query(params_from_iter(&terms.values))?;
        let Some(row) = found.next()? else { continue };
        let place = Place {
            task: *task,
            queue: row.get(0)?,
            lane: number("lane", row.get(1)?, Lane::from_number)?,
            prio: row.get(2)?,
            due: row.get(3)?,
        };
        let kind = number("kind", row.get(4)?, Kind::from_number)?;
        let status = number("status", row.get(5)?, Status::from_number)?;
        let declared: bool = row.get(6)?;
        let channel = declared && matches!(kind, Kind::Feed | Kind::Sitemap | Kind::Listing);
        let leased = leased.contains(task);
        let (wanted, withdrawn) = (row.get(7)?, row.get(8)?);
        if act.may(&Swept { kind, status, leased, channel, withdrawn, wanted }) {
            chosen.push((place, status));
        } else {
            sweep.spared += 1;
        }
    }
    sweep.done = chosen.len() as u64;
    Ok((sweep, chosen))
}

/// Makes a task due, with the failures that it had or with none.
fn retry(
    conn: &Connection,
    place: Place,
    (status, keeps_failures): (Status, bool),
    now: Ts,
) -> Result<(), DbError> {
    // What waits for its turn already keeps its place in line.
    let due = if status == Status::Pending { place.due.min(now.ms()) } else { now.ms() };
    conn.prepare_cached(
        "UPDATE task SET status = 0, retry = CASE WHEN ?3 THEN retry ELSE 0 END, due = ?2
         WHERE id = ?1",
    )?
    .execute((place.task, due, keeps_failures))?;
    enqueue(conn, Place { due, ..place }, now)
}

fn bury(conn: &Connection, task: i64) -> Result<(), DbError> {
    conn.prepare_cached("UPDATE task SET status = ?2 WHERE id = ?1")?
        .execute((task, Status::Dead.number()))?;
    conn.prepare_cached(
        "INSERT INTO fetch_state(task_id, last_error, reason) VALUES(?1, ?2, ?3)
         ON CONFLICT(task_id) DO UPDATE SET etag = NULL, last_modified = NULL, content_hash = NULL,
           last_error = excluded.last_error, reason = excluded.reason",
    )?
    .execute((task, WITHDRAWN, TAKEN_DOWN))?;
    Ok(())
}

/// Forgets a task and what only it needs. Entries, articles, fetches and events are what was read
/// there: they stay.
fn delete(conn: &Connection, task: i64) -> Result<(), DbError> {
    for sql in [
        "DELETE FROM fetch_state WHERE task_id = ?1",
        "DELETE FROM task_source WHERE task_id = ?1",
        "DELETE FROM feed WHERE task_id = ?1",
        "DELETE FROM task WHERE id = ?1",
    ] {
        conn.prepare_cached(sql)?.execute([task])?;
    }
    Ok(())
}
