//! Moves that an outcome brings about beyond the end of its lease: a task to another address, and
//! what robots.txt no longer rules out back into the queue. The caller holds the locks of the queues.

use super::rows::{Place, dequeue, enqueue, places, read_place, renew_tops};
use crate::db::DbError;
use crate::db::postgres::{Tx, clean, column, first, rows, run};
use crate::frontier::Candidate;
use crate::model::{Code, Kind, Origin, Status, TaskId, Ts};

/// Gives a task another address; false when another task has it, and then nothing has changed.
pub(crate) async fn rehome(
    tx: &Tx<'_>,
    task: TaskId,
    to: &Candidate,
    queue: i64,
    now: Ts,
) -> Result<bool, DbError> {
    let Some(old) = places(tx, &[task.0]).await?.remove(&task.0) else { return Ok(false) };
    let sql =
        "SELECT 1 FROM task WHERE host_id = $1 AND lane = $2::bigint AND hash = $3 AND id <> $4";
    let hash = to.hash.head();
    if first(tx, sql, &[&queue, &old.lane.number(), &hash, &task.0]).await?.is_some() {
        return Ok(false);
    }
    dequeue(tx, &[old]).await?;
    run(
        tx,
        "UPDATE task SET host_id = $2, hash = $3, url = $4, url_key = $5 WHERE id = $1",
        &[&task.0, &queue, &hash, &clean(&to.url), &to.url_key.as_deref().map(clean)],
    )
    .await?;
    if old.status == Status::Pending {
        enqueue(tx, &[Place { queue, ..old }], now).await?;
    }
    renew_tops(tx, &[old.queue, queue]).await?;
    Ok(true)
}

/// Makes a channel of what was only looked at.
pub(crate) async fn become_channel(tx: &Tx<'_>, task: TaskId, kind: Kind) -> Result<(), DbError> {
    let sql = "UPDATE task SET kind = $2::bigint, origin = $3::bigint, depth = 0 WHERE id = $1";
    run(tx, sql, &[&task.0, &kind.number(), &Origin::Manual.number()]).await?;
    Ok(())
}

/// Puts those that robots.txt ruled out, and that it now allows, back into their host's queue, unless
/// nobody follows their source any more.
pub(crate) async fn allow_again(
    tx: &Tx<'_>,
    host: &str,
    allowed: impl Fn(&str) -> bool,
    now: Ts,
) -> Result<(), DbError> {
    let found = rows(
        tx,
        "SELECT t.id, t.host_id, t.lane, t.prio, t.due, t.kind, t.status, t.url
         FROM host h JOIN task t ON t.host_id = h.id JOIN fetch_state f ON f.task_id = t.id
         LEFT JOIN source s ON s.id = t.source_id
         WHERE h.name = $1 AND h.slot = 0 AND t.status = $2::bigint AND f.last_error = $3::bigint
           AND (t.source_id IS NULL OR s.enabled_at IS NOT NULL)",
        &[&host, &Status::Dead.number(), &Code::RobotsBlocked.number()],
    )
    .await?;
    let mut risen = Vec::new();
    for row in &found {
        if allowed(row.try_get(7)?) {
            risen.push(Place { due: now.ms(), ..read_place(row)? });
        }
    }
    let Some(queue) = risen.first().map(|place| place.queue) else { return Ok(()) };
    run(
        tx,
        "UPDATE task SET status = $2::bigint, retry = 0, due = $3 WHERE id = ANY($1::bigint[])",
        &[&column(&risen, |place| place.task), &Status::Pending.number(), &now.ms()],
    )
    .await?;
    enqueue(tx, &risen, now).await?;
    renew_tops(tx, &[queue]).await?;
    Ok(())
}
