//! Leases that ran out: each is a strike, and the fifth in a row ends the task.

use std::collections::HashMap;

use super::Obituary;
use super::claim::{Slot, load_slots};
use super::rows::{
    Place, TASK_COLUMNS, TASK_JOINS, dequeue, int, lock, now, places, read_task, renew_tops,
};
use crate::db::postgres::{Tx, column, rows, run};
use crate::db::{DbError, PgDb};
use crate::frontier::{MAX_STRIKES, Rules};
use crate::model::{Code, Status, Ts};

const REASON: &str = "its lease ran out five times in a row";

/// Counts the leases that ran out on these slots against their tasks; the caller holds the queues.
/// Answers with the tasks that were given up; their slots have other tops now.
pub(super) async fn strike(tx: &Tx<'_>, slots: &[Slot], now: Ts) -> Result<Vec<i64>, DbError> {
    let tasks: Vec<i64> = slots.iter().filter_map(|slot| slot.lease_task).collect();
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let places = places(tx, &tasks).await?;
    // Lent to another host's task for a redirect: that one counts it.
    let own = |slot: &Slot| {
        let place = places.get(&slot.lease_task?)?;
        (place.queue == slot.queue).then_some((place.task, (slot.id, *place)))
    };
    let own: HashMap<i64, (i64, Place)> = slots.iter().filter_map(own).collect();
    let found = rows(
        tx,
        "INSERT INTO fetch_state AS f(task_id, strikes) SELECT task_id, 1 FROM unnest($1::bigint[]) AS w(task_id)
         ON CONFLICT (task_id) DO UPDATE SET strikes = f.strikes + 1 RETURNING task_id, strikes",
        &[&own.keys().copied().collect::<Vec<_>>()],
    )
    .await?;
    let mut poison = HashMap::new();
    for row in &found {
        if int(row, 1)? >= MAX_STRIKES {
            poison.extend(own.get(&int(row, 0)?).copied());
        }
    }
    bury(tx, &poison, now).await?;
    Ok(poison.values().map(|place| place.task).collect())
}

/// Has the end of these tasks written down. Last in its transaction: whoever writes takes the last
/// of the locks.
pub(super) async fn mourn(
    tx: &Tx<'_>,
    given_up: &[i64],
    now: Ts,
    obituary: Obituary,
) -> Result<(), DbError> {
    if given_up.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "SELECT {TASK_COLUMNS} FROM task t {TASK_JOINS} WHERE t.id = ANY($1::bigint[]) ORDER BY t.id"
    );
    let found = rows(tx, &sql, &[&given_up]).await?;
    let tasks = found.iter().map(|row| read_task(row, 0)).collect::<Result<_, _>>()?;
    obituary(tx, tasks, now).await
}

async fn bury(tx: &Tx<'_>, poison: &HashMap<i64, Place>, now: Ts) -> Result<(), DbError> {
    if poison.is_empty() {
        return Ok(());
    }
    let places: Vec<Place> = poison.values().copied().collect();
    let tasks = column(&places, |place| place.task);
    dequeue(tx, &places).await?;
    run(
        tx,
        "UPDATE task SET status = $2::bigint, fetched_at = $3 WHERE id = ANY($1::bigint[])",
        &[&tasks, &Status::Dead.number(), &now.ms()],
    )
    .await?;
    run(
        tx,
        "INSERT INTO fetch_state(task_id, last_error, reason)
         SELECT task_id, $2::bigint, $3 FROM unnest($1::bigint[]) AS w(task_id)
         ON CONFLICT (task_id) DO UPDATE SET last_error = excluded.last_error, reason = excluded.reason,
           strikes = 0",
        &[&tasks, &Code::Poison.number(), &REASON],
    )
    .await?;
    run(
        tx,
        "UPDATE host SET lease_id = NULL, lease_task = NULL WHERE id = ANY($1::bigint[])",
        &[&poison.keys().copied().collect::<Vec<_>>()],
    )
    .await?;
    renew_tops(tx, &column(&places, |place| place.queue)).await?;
    Ok(())
}

/// Ends every lease. Only for somebody who knows that no engine runs: after the data was moved here,
/// or when all machines were stopped by force and nobody wants to wait for the leases to run out.
/// Each counts as a strike, and the host gets its pause, because a request may have been under way.
pub(super) async fn free_leases(
    db: &PgDb,
    rules: &Rules,
    obituary: Obituary,
) -> Result<u64, DbError> {
    let mut client = db.client().await?;
    let tx = client.transaction().await?;
    let sql = "SELECT DISTINCT queue_id FROM host WHERE lease_id IS NOT NULL";
    let found = rows(&tx, sql, &[]).await?;
    let queues: Vec<i64> = found.iter().map(|row| int(row, 0)).collect::<Result<_, _>>()?;
    lock(&tx, &queues).await?;
    let now = now(db, &tx).await?;
    let held = "queue_id = ANY($1::bigint[]) AND lease_id IS NOT NULL";
    let slots = load_slots(&tx, held, &queues).await?;
    let given_up = strike(&tx, &slots, now).await?;
    let next = |slot: &Slot| now.after(slot.pace.pause(rules.delay)).max(slot.pace.blocked_until);
    run(
        &tx,
        "UPDATE host h SET lease_id = NULL, lease_task = NULL, next_at = w.next_at
         FROM unnest($1::bigint[], $2::bigint[]) AS w(id, next_at)
         WHERE h.id = w.id",
        &[&column(&slots, |slot| slot.id), &column(&slots, |slot| next(slot).ms())],
    )
    .await?;
    renew_tops(&tx, &queues).await?;
    mourn(&tx, &given_up, now, obituary).await?;
    tx.commit().await?;
    Ok(slots.len() as u64)
}
