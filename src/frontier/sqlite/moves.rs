//! Moves beyond the end of a lease: a task to another address, what robots.txt no longer rules out back
//! into the queue, and channels that their source no longer names out of it.

use rusqlite::{Connection, OptionalExtension};

use super::rows::{Place, dequeue, enqueue, number, pass_to, place, queue_of, renew_tops};
use crate::db::DbError;
use crate::frontier::{Candidate, Rules};
use crate::model::{Code, Kind, Lane, Origin, SourceId, Status, TaskId, Ts};

/// Gives a task another address; false when another task has it, and then nothing has changed.
pub(crate) fn rehome(
    conn: &Connection,
    task: TaskId,
    to: &Candidate,
    now: Ts,
    rules: &Rules,
) -> Result<bool, DbError> {
    let Some(old) = place(conn, task.0)? else { return Ok(false) };
    let queue = queue_of(conn, &to.host, now, rules)?;
    let taken: bool = conn.query_row(
        "SELECT EXISTS(SELECT 1 FROM task WHERE host_id = ?1 AND lane = ?2 AND hash = ?3 AND id <> ?4)",
        (queue, old.lane.number(), to.hash.head(), task.0),
        |row| row.get(0),
    )?;
    if taken {
        return Ok(false);
    }
    dequeue(conn, old)?;
    let status: i64 = conn.query_row(
        "UPDATE task SET host_id = ?2, hash = ?3, url = ?4, url_key = ?5 WHERE id = ?1
         RETURNING status",
        (task.0, queue, to.hash.head(), &to.url, &to.url_key),
        |row| row.get(0),
    )?;
    if status == Status::Pending.number() {
        enqueue(conn, Place { queue, ..old }, now)?;
    }
    renew_tops(conn, old.queue)?;
    Ok(true)
}

/// Makes a channel of what was only looked at.
pub(crate) fn become_channel(conn: &Connection, task: TaskId, kind: Kind) -> Result<(), DbError> {
    conn.prepare_cached("UPDATE task SET kind = ?2, origin = ?3, depth = 0 WHERE id = ?1")?
        .execute((task.0, kind.number(), Origin::Manual.number()))?;
    Ok(())
}

/// Puts those that robots.txt ruled out, and that it now allows, back into their host's queue, unless
/// nobody follows their source any more.
pub(crate) fn allow_again(
    conn: &Connection,
    host: &str,
    allowed: impl Fn(&str) -> bool,
    now: Ts,
) -> Result<(), DbError> {
    let mut select = conn.prepare_cached(
        "SELECT t.id, t.host_id, t.lane, t.prio, t.url FROM host h
         CROSS JOIN task t ON t.host_id = h.id JOIN fetch_state f ON f.task_id = t.id
         WHERE h.name = ?1 AND h.slot = 0 AND t.status = ?2 AND f.last_error = ?3
           AND (t.source_id IS NULL OR EXISTS(
             SELECT 1 FROM source s WHERE s.id = t.source_id AND s.enabled_at IS NOT NULL))",
    )?;
    let mut rows = select.query((host, Status::Dead.number(), Code::RobotsBlocked.number()))?;
    let mut risen = Vec::new();
    while let Some(row) = rows.next()? {
        if allowed(row.get_ref(4)?.as_str().unwrap_or_default()) {
            risen.push(Place {
                task: row.get(0)?,
                queue: row.get(1)?,
                lane: number("lane", row.get(2)?, Lane::from_number)?,
                prio: row.get(3)?,
                due: now.ms(),
            });
        }
    }
    for place in risen {
        conn.prepare_cached("UPDATE task SET status = ?2, retry = 0, due = ?3 WHERE id = ?1")?
            .execute((place.task, Status::Pending.number(), now.ms()))?;
        enqueue(conn, place, now)?;
    }
    Ok(())
}

/// The task at an address, its owner and where it stands; `None` when it is not known.
fn known(
    conn: &Connection,
    at: &Candidate,
) -> Result<Option<(Place, Option<i64>, Status)>, DbError> {
    let found: Option<(i64, Option<i64>, i64)> = conn
        .prepare_cached(
            "SELECT t.id, t.source_id, t.status FROM host h JOIN task t ON t.host_id = h.id
             WHERE h.name = ?1 AND h.slot = 0 AND t.lane = ?2 AND t.hash = ?3",
        )?
        .query_row((&at.host, at.kind.lane().number(), at.hash.head()), |row| row.try_into())
        .optional()?;
    let Some((task, owner, status)) = found else { return Ok(None) };
    let status = number("status", status, Status::from_number)?;
    Ok(place(conn, task)?.map(|place| (place, owner, status)))
}

/// Takes channels from a source that no longer names them. Each goes to another enabled source that
/// names it too, else it is set aside as nobody's, with all that is known of it.
pub(crate) fn release(
    conn: &Connection,
    source: SourceId,
    channels: &[Candidate],
) -> Result<(), DbError> {
    for channel in channels {
        let Some((place, owner, status)) = known(conn, channel)? else { continue };
        if owner == Some(source.0) {
            let heir: Option<i64> = conn
                .prepare_cached(
                    "SELECT r.source_id FROM task_source r JOIN source s ON s.id = r.source_id
                     WHERE r.task_id = ?1 AND s.enabled_at IS NOT NULL AND s.id <> ?2
                     ORDER BY r.first_seen LIMIT 1",
                )?
                .query_row((place.task, source.0), |row| row.get(0))
                .optional()?;
            match heir {
                Some(heir) => pass_to(conn, place.task, heir)?,
                None => {
                    dequeue(conn, place)?;
                    let parked = match status {
                        Status::Pending => Status::Parked,
                        other => other,
                    };
                    conn.prepare_cached(
                        "UPDATE task SET status = ?2, source_id = NULL WHERE id = ?1",
                    )?
                    .execute((place.task, parked.number()))?;
                    renew_tops(conn, place.queue)?;
                }
            }
        }
        conn.prepare_cached("DELETE FROM task_source WHERE task_id = ?1 AND source_id = ?2")?
            .execute((place.task, source.0))?;
    }
    Ok(())
}

/// Gives a source's own channels the priority that they have from now on.
pub(crate) fn rerank(
    conn: &Connection,
    source: SourceId,
    channels: &[Candidate],
    now: Ts,
) -> Result<(), DbError> {
    for channel in channels {
        let Some((old, owner, status)) = known(conn, channel)? else { continue };
        if owner != Some(source.0) {
            continue;
        }
        let prio = i64::from(channel.priority);
        dequeue(conn, old)?;
        conn.prepare_cached("UPDATE task SET prio = ?2 WHERE id = ?1")?
            .execute((old.task, prio))?;
        if status == Status::Pending {
            enqueue(conn, Place { prio, ..old }, now)?;
        }
        renew_tops(conn, old.queue)?;
    }
    Ok(())
}
