//! Taking addresses in: each is known once, and a known one is at most moved forward.

use rusqlite::{Connection, OptionalExtension};

use super::rows::{Place, dequeue, enqueue, host_id, renew_tops};
use crate::db::DbError;
use crate::frontier::Candidate;
use crate::model::{Code, Status, Ts};

/// A dead task may be asked for again after this long, when it is submitted again.
const GRAVE_MS: i64 = 30 * 24 * 3_600 * 1_000;

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) new: u64,
    pub(crate) known: u64,
    pub(crate) raised: u64,
}

struct KnownTask {
    id: i64,
    prio: i64,
    status: i64,
    due: i64,
    source: Option<i64>,
    fetched_at: Option<i64>,
    leased: bool,
    last_error: Option<i64>,
}

/// Takes a batch in, inside the caller's transaction.
pub(crate) fn take(conn: &Connection, batch: &[Candidate], now: Ts) -> Result<Taken, DbError> {
    let mut taken = Taken::default();
    for candidate in batch {
        let host = host_id(conn, &candidate.host, now)?;
        if insert(conn, candidate, host, now)? {
            taken.new += 1;
        } else {
            taken.known += 1;
            if meet_again(conn, candidate, host, now)? {
                taken.raised += 1;
            }
        }
    }
    Ok(taken)
}

fn insert(conn: &Connection, new: &Candidate, host: i64, now: Ts) -> Result<bool, DbError> {
    let lane = new.kind.lane();
    let due = new.not_before.map_or(now.ms(), Ts::ms);
    let status = if wanted(conn, new)? { Status::Pending } else { Status::Parked };
    let inserted: Option<i64> = conn
        .prepare_cached(
            "INSERT INTO task(host_id, lane, hash, kind, prio, status, due, source_id, origin,
               parent_id, depth, discovered_at, url, url_key)
             VALUES(?1, ?2, ?3, ?4, ?5, ?14, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             ON CONFLICT(host_id, lane, hash) DO NOTHING RETURNING id",
        )?
        .query_row(
            rusqlite::params![
                host,
                lane.number(),
                new.hash.head(),
                new.kind.number(),
                new.priority,
                due,
                new.source.map(|source| source.0),
                new.origin.number(),
                new.parent.map(|parent| parent.0),
                new.depth,
                now.ms(),
                new.url,
                new.url_key,
                status.number(),
            ],
            |row| row.get(0),
        )
        .optional()?;
    let Some(task) = inserted else { return Ok(false) };
    if let Some(source) = new.source {
        refer(conn, task, source.0, new, now)?;
    }
    if status == Status::Pending {
        let place = Place { task, host, lane, prio: i64::from(new.priority), due };
        enqueue(conn, place, now)?;
    }
    Ok(true)
}

/// Whether somebody wants it now: its source is followed, or an operator gave it without one.
fn wanted(conn: &Connection, new: &Candidate) -> Result<bool, DbError> {
    let Some(source) = new.source else { return Ok(true) };
    Ok(conn
        .prepare_cached(
            "SELECT EXISTS(SELECT 1 FROM source WHERE id = ?1 AND enabled_at IS NOT NULL)",
        )?
        .query_row([source.0], |row| row.get(0))?)
}

fn refer(
    conn: &Connection,
    task: i64,
    source: i64,
    new: &Candidate,
    now: Ts,
) -> Result<(), DbError> {
    conn.prepare_cached(
        "INSERT OR IGNORE INTO task_source(task_id, source_id, origin, first_seen)
         VALUES(?1, ?2, ?3, ?4)",
    )?
    .execute((task, source, new.origin.number(), now.ms()))?;
    Ok(())
}

/// Adds the reference, and moves the task forward where that is allowed; true when it moved.
fn meet_again(conn: &Connection, new: &Candidate, host: i64, now: Ts) -> Result<bool, DbError> {
    let lane = new.kind.lane();
    let known = conn
        .prepare_cached(
            "SELECT t.id, t.prio, t.status, t.due, t.source_id, t.fetched_at,
               coalesce(h.lease_task = t.id, 0), f.last_error
             FROM task t JOIN host h ON h.id = t.host_id LEFT JOIN fetch_state f ON f.task_id = t.id
             WHERE t.host_id = ?1 AND t.lane = ?2 AND t.hash = ?3",
        )?
        .query_row((host, lane.number(), new.hash.head()), |row| {
            Ok(KnownTask {
                id: row.get(0)?,
                prio: row.get(1)?,
                status: row.get(2)?,
                due: row.get(3)?,
                source: row.get(4)?,
                fetched_at: row.get(5)?,
                leased: row.get(6)?,
                last_error: row.get(7)?,
            })
        })?;
    if let Some(source) = new.source {
        refer(conn, known.id, source.0, new, now)?;
        if !wanted(conn, new)? {
            return Ok(false);
        }
        if known.source.is_none() || known.status == Status::Parked.number() {
            conn.prepare_cached("UPDATE task SET source_id = ?2 WHERE id = ?1")?
                .execute((known.id, source.0))?;
        }
    }
    let old = Place { task: known.id, host, lane, prio: known.prio, due: known.due };
    if known.leased {
        if known.status == Status::Parked.number() && new.source.is_some() {
            // It goes on when it comes back, or when its lease runs out.
            conn.prepare_cached("UPDATE task SET status = 0 WHERE id = ?1")?.execute([known.id])?;
            enqueue(conn, old, now)?;
        }
        return Ok(false);
    }
    let Some(due) = new_due(&known, new, now) else { return Ok(false) };
    let prio = known.prio.max(i64::from(new.priority));
    dequeue(conn, old)?;
    conn.prepare_cached("UPDATE task SET prio = ?2, due = ?3, status = 0, retry = CASE status WHEN 0 THEN retry ELSE 0 END WHERE id = ?1")?
        .execute((known.id, prio, due))?;
    enqueue(conn, Place { prio, due, ..old }, now)?;
    renew_tops(conn, host)?;
    Ok(true)
}

/// When a task that moves is due; `None` when it stays where it is. Pending tasks move to a greater
/// priority or an earlier time; failures keep their wait. Dead ones rise after a month unless the
/// reason was final; parked ones rise with an enabled source.
fn new_due(known: &KnownTask, new: &Candidate, now: Ts) -> Option<i64> {
    let wanted = new.not_before.map_or(now.ms(), Ts::ms);
    match Status::from_number(known.status)? {
        Status::Pending => {
            // A recurring task has its own rhythm, and a failed one waits as it was told.
            let waits = new.kind.recurs() || known.last_error.is_some();
            let sooner = !waits && known.due > now.ms() && wanted < known.due;
            let higher = i64::from(new.priority) > known.prio;
            (sooner || higher).then_some(if sooner { wanted } else { known.due })
        }
        Status::Dead => {
            let finally = known.last_error.and_then(Code::from_number).is_some_and(|code| {
                matches!(code, Code::Gone | Code::Redirect | Code::RobotsBlocked)
            });
            let rested = known.fetched_at.is_none_or(|at| now.ms() - at >= GRAVE_MS);
            (rested && !finally).then_some(wanted)
        }
        Status::Parked => new.source.map(|_| wanted),
        Status::Fetched => None,
    }
}
