//! Leases that end without an answer: each is a strike against its task, and its host rests first,
//! because a request may have been under way until then.

use std::collections::HashMap;

use super::Obituary;
use super::claim::{Slot, load_slots};
use super::rows::{
    Place, TASK_COLUMNS, TASK_JOINS, dequeue, drop_spare_slots, enqueue, int, lock, now, places,
    read_task, renew_tops,
};
use crate::db::postgres::{Tx, column, rows, run};
use crate::db::{Conn, DbError, PgDb, whole_rows};
use crate::frontier::Rules;
use crate::frontier::rulings::{POISONED, Strike};
use crate::model::{Code, HostAdvice, Kind, Status, Ts};

/// Ends the leases that ran out, as far as nobody else is at their queues.
pub(super) async fn end_expired(
    client: &mut Conn,
    now: Ts,
    rules: &Rules,
    obituary: Obituary,
) -> Result<(), DbError> {
    let tx = client.transaction().await?;
    let sql = "SELECT id FROM host WHERE id IN (SELECT queue_id FROM host
          WHERE lease_id IS NOT NULL AND next_at <= $1) FOR NO KEY UPDATE SKIP LOCKED";
    let found = rows(&tx, sql, &[&now.ms()]).await?;
    let queues: Vec<i64> = found.iter().map(|row| int(row, 0)).collect::<Result<_, _>>()?;
    end(&tx, &queues, now, now, rules, obituary).await?;
    tx.commit().await?;
    Ok(())
}

/// Ends every lease. Only for somebody who knows that no engine runs: after the data was moved here,
/// or when all machines were stopped by force and nobody wants to wait for the leases to run out.
pub(super) async fn free_leases(
    db: &PgDb,
    rules: &Rules,
    obituary: Obituary,
) -> Result<u64, DbError> {
    let mut client = db.maintenance().await?;
    let tx = client.transaction().await?;
    let sql = "SELECT DISTINCT queue_id FROM host WHERE lease_id IS NOT NULL";
    let found = rows(&tx, sql, &[]).await?;
    let queues: Vec<i64> = found.iter().map(|row| int(row, 0)).collect::<Result<_, _>>()?;
    lock(&tx, &queues).await?;
    let now = now(db, &tx).await?;
    let ended = end(&tx, &queues, Ts::from_ms(i64::MAX), now, rules, obituary).await?;
    tx.commit().await?;
    Ok(ended)
}

/// Ends the leases of these queues that end until then; the caller holds the queues.
async fn end(
    tx: &Tx<'_>,
    queues: &[i64],
    until: Ts,
    now: Ts,
    rules: &Rules,
    obituary: Obituary,
) -> Result<u64, DbError> {
    let held = "queue_id = ANY($1::bigint[]) AND lease_id IS NOT NULL AND next_at <= $2";
    let slots = load_slots(tx, held, queues, until).await?;
    if slots.is_empty() {
        return Ok(0);
    }
    let next = |slot: &Slot| {
        slot.pace.after(HostAdvice::Neutral, slot.next_at.min(now), rules.delay.get()).1
    };
    run(
        tx,
        "UPDATE host h SET lease_id = NULL, lease_task = NULL, next_at = w.next_at
         FROM unnest($1::bigint[], $2::bigint[]) AS w(id, next_at)
         WHERE h.id = w.id",
        &[&column(&slots, |slot| slot.id), &column(&slots, |slot| next(slot).ms())],
    )
    .await?;
    let given_up = strike(tx, &slots, now).await?;
    drop_spare_slots(tx, queues).await?;
    renew_tops(tx, queues).await?;
    mourn(tx, &given_up, now, obituary).await?;
    Ok(slots.len() as u64)
}

/// Counts the leases that ended on these slots against their tasks; the tasks that are given up.
async fn strike(tx: &Tx<'_>, slots: &[Slot], now: Ts) -> Result<Vec<i64>, DbError> {
    let tasks: Vec<i64> = slots.iter().filter_map(|slot| slot.lease_task).collect();
    let places = places(tx, &tasks).await?;
    // A slot that was lent to another host's task: that one's own slot counts it.
    let own = |slot: &Slot| {
        let place = places.get(&slot.lease_task?)?;
        (place.queue == slot.queue).then_some((place.task, (*place, slot.next_at.min(now))))
    };
    let own: HashMap<i64, (Place, Ts)> = slots.iter().filter_map(own).collect();
    let found = rows(
        tx,
        "INSERT INTO fetch_state AS f(task_id, strikes) SELECT task_id, 1 FROM unnest($1::bigint[]) AS w(task_id)
         ON CONFLICT (task_id) DO UPDATE SET strikes = f.strikes + 1 RETURNING task_id, strikes",
        &[&own.keys().copied().collect::<Vec<_>>()],
    )
    .await?;
    let (mut later, mut poison, mut resting) = (Vec::new(), Vec::new(), Vec::new());
    for row in &found {
        let Some((place, ended)) = own.get(&int(row, 0)?) else { continue };
        let strike = Strike::of(int(row, 1)?, place.task, *ended);
        if place.kind == Kind::Robots {
            resting.extend(strike.rest(*ended).map(|at| (place.queue, at)));
            continue;
        }
        match strike {
            Strike::Spared => {}
            Strike::PutOff(at) => later.push((*place, at)),
            Strike::Poison => poison.push(*place),
        }
    }
    run(
        tx,
        "UPDATE host h SET next_at = greatest(h.next_at, w.next_at)
         FROM unnest($1::bigint[], $2::bigint[]) AS w(queue_id, next_at) WHERE h.queue_id = w.queue_id",
        &[&column(&resting, |(queue, _)| *queue), &column(&resting, |(_, at)| at.ms())],
    )
    .await?;
    put_off(tx, &later, now).await?;
    bury(tx, &poison, now).await?;
    Ok(column(&poison, |place| place.task))
}

async fn put_off(tx: &Tx<'_>, later: &[(Place, Ts)], now: Ts) -> Result<(), DbError> {
    if later.is_empty() {
        return Ok(());
    }
    dequeue(tx, &column(later, |(place, _)| *place)).await?;
    run(
        tx,
        "UPDATE task SET due = w.due FROM unnest($1::bigint[], $2::bigint[]) AS w(id, due)
         WHERE task.id = w.id",
        &[&column(later, |(place, _)| place.task), &column(later, |(_, at)| at.ms())],
    )
    .await?;
    // What was set aside meanwhile stays aside.
    let pending = later.iter().filter(|(place, _)| place.status == Status::Pending);
    let pending: Vec<Place> = pending.map(|(place, at)| Place { due: at.ms(), ..*place }).collect();
    enqueue(tx, &pending, now).await
}

async fn bury(tx: &Tx<'_>, poison: &[Place], now: Ts) -> Result<(), DbError> {
    if poison.is_empty() {
        return Ok(());
    }
    let tasks = column(poison, |place| place.task);
    dequeue(tx, poison).await?;
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
        &[&tasks, &Code::Poison.number(), &POISONED],
    )
    .await?;
    Ok(())
}

/// Has the end of these tasks written down. Last in its transaction: whoever writes takes the last
/// of the locks.
async fn mourn(tx: &Tx<'_>, given_up: &[i64], now: Ts, obituary: Obituary) -> Result<(), DbError> {
    if given_up.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "SELECT {TASK_COLUMNS} FROM task t {TASK_JOINS} WHERE t.id = ANY($1::bigint[]) ORDER BY t.id"
    );
    let found = rows(tx, &sql, &[&given_up]).await?;
    let tasks = whole_rows("task", found.iter().map(|row| read_task(row, 0)))?;
    obituary(tx, tasks, now).await
}
