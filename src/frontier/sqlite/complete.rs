//! The end of a lease: where the task goes, and when its host may be asked again.

use rusqlite::{Connection, Row};

use super::rows::{
    HOST_WIDTH, HostRow, Place, dequeue, drop_spare_slots, enqueue, host_columns, number,
    read_host, renew_tops, top_column,
};
use crate::db::DbError;
use crate::frontier::rulings::{self, Ending};
use crate::frontier::{Rules, queue_key};
use crate::model::{Code, HostAdvice, Kind, Lane, LeaseId, Next, Status, TaskId, Ts, Validators};

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

/// The slots of a lease, each with where its task stands.
const HELD: &str = concat!(
    "SELECT ",
    host_columns!(),
    ", t.host_id, t.lane, t.prio, t.due, t.kind, t.status
     FROM host h CROSS JOIN task t ON t.id = ?2 WHERE h.lease_id = ?1 ORDER BY h.id"
);

/// Ends a lease; false when it was stale, and then nothing has changed.
pub(crate) fn complete(
    conn: &Connection,
    done: &Completed<'_>,
    now: Ts,
    rules: &Rules,
) -> Result<bool, DbError> {
    let (mut hosts, mut task) = (Vec::new(), None);
    let mut select = conn.prepare_cached(HELD)?;
    let mut rows = select.query((done.lease.0, done.task.0))?;
    while let Some(row) = rows.next()? {
        hosts.push(read_host(row)?);
        task = Some(standing(row, done.task)?);
    }
    drop(rows);
    let Some((place, kind, before)) = task else { return Ok(false) };
    // A host that was lent to the lease may still carry its number: the task's own one decides.
    if !hosts.iter().any(|host| host.queue == place.queue) {
        return Ok(false);
    }
    move_task(conn, done, place, kind, before, now)?;
    let answered_by = done.answered_by.map(|host| queue_key(host, &rules.groups));
    for host in &hosts {
        let answered = answered_by.is_none_or(|by| by == host.name);
        let own = host.queue == place.queue;
        let advice = rulings::advice(done.advice, answered);
        release(conn, host, own.then_some(place.lane), (done.task, advice), now, rules)?;
    }
    Ok(true)
}

fn standing(row: &Row<'_>, task: TaskId) -> Result<(Place, i64, Status), DbError> {
    let place = Place {
        task: task.0,
        queue: row.get(HOST_WIDTH)?,
        lane: number("lane", row.get(HOST_WIDTH + 1)?, Lane::from_number)?,
        prio: row.get(HOST_WIDTH + 2)?,
        due: row.get(HOST_WIDTH + 3)?,
    };
    let status = number("status", row.get(HOST_WIDTH + 5)?, Status::from_number)?;
    Ok((place, row.get(HOST_WIDTH + 4)?, status))
}

fn move_task(
    conn: &Connection,
    done: &Completed<'_>,
    place: Place,
    kind: i64,
    before: Status,
    now: Ts,
) -> Result<(), DbError> {
    dequeue(conn, place)?;
    let end = Ending::of(done.next, done.advice, before);
    let due = end.at.map_or(place.due, Ts::ms);
    conn.prepare_cached(
        "UPDATE task SET status = ?2, due = ?3,
           retry = CASE
             WHEN ?8 AND (SELECT last_error FROM fetch_state WHERE task_id = ?1) IS NOT ?9 THEN 1
             WHEN ?4 THEN retry + 1 WHEN ?5 THEN retry ELSE 0 END,
           fetched_at = CASE WHEN ?6 OR ?2 = 2 THEN ?7 ELSE fetched_at END,
           fetch_count = fetch_count + ?6
         WHERE id = ?1",
    )?
    .execute((
        done.task.0,
        end.status.number(),
        due,
        end.failed,
        end.keeps_failures,
        end.asked,
        now.ms(),
        end.counted_alone,
        end.code.map(Code::number),
    ))?;
    note(conn, done.task.0, end.code, done.reason)?;
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
    if end.status == Status::Pending && kind != Kind::Robots.number() {
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

/// Frees a slot with its pause, and with the top of the lane that was served.
fn release(
    conn: &Connection,
    host: &HostRow,
    served: Option<Lane>,
    (task, advice): (TaskId, HostAdvice),
    now: Ts,
    rules: &Rules,
) -> Result<(), DbError> {
    let (pace, next) = host.pace.after_task(task, advice, now, rules.delay.get());
    let asked_at = (advice != HostAdvice::NotAsked).then_some(now.ms());
    let served = served.unwrap_or(Lane::Page);
    let top = top_column(served);
    conn.prepare_cached(&format!(
        "UPDATE host SET lease_id = NULL, lease_task = NULL, next_at = ?2, learned_ms = ?3,
           blocked_until = ?4, blocked_by = ?8, last_fetch_at = coalesce(?5, last_fetch_at),
           {top} = (SELECT 10 - nprio FROM queue WHERE host_id = ?6 AND lane = ?7
             ORDER BY nprio LIMIT 1)
         WHERE id = ?1"
    ))?
    .execute((
        host.id,
        next.ms(),
        pace.learned_ms,
        pace.blocked_until.ms(),
        asked_at,
        host.queue,
        served.number(),
        pace.blocked_by.map(|task| task.0),
    ))?;
    if host.is_shared() { tell_siblings(conn, host) } else { Ok(()) }
}

/// What one slot learns holds for all of its queue.
fn tell_siblings(conn: &Connection, host: &HostRow) -> Result<(), DbError> {
    conn.prepare_cached(
        "UPDATE host SET learned_ms = s.learned_ms, blocked_until = s.blocked_until,
           blocked_by = s.blocked_by, next_at = max(host.next_at, s.blocked_until)
         FROM (SELECT * FROM host WHERE id = ?1) s WHERE host.queue_id = ?2 AND host.id <> ?1",
    )?
    .execute((host.id, host.queue))?;
    drop_spare_slots(conn, host.queue)?;
    renew_tops(conn, host.queue)
}
