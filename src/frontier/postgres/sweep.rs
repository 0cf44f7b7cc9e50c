//! An operator's sweep over many tasks, a stretch at a time.
//!
//! They are looked for without any lock. Then their queues are locked, in one statement as always,
//! and each task is looked at again: it may have changed since.

use std::collections::BTreeSet;

use super::rows::{Place, dequeue, enqueue, int, lock, now, read_place, renew_tops};
use crate::db::postgres::{Given, Tx, column, rows, run};
use crate::db::statement::{Dialect, given};
use crate::db::{DbError, PgDb};
use crate::frontier::listing::FILTERED;
use crate::frontier::rulings::{Swept, TAKEN_DOWN, WITHDRAWN};
use crate::frontier::{Act, Cursor, Sweep, TaskFilter};
use crate::model::{Kind, Status, Ts};

/// The next stretch: at most `filter.limit` tasks, oldest first; a dry run only counts.
pub(super) async fn sweep(
    db: &PgDb,
    act: Act,
    filter: &TaskFilter,
    dry: bool,
) -> Result<Sweep, DbError> {
    let mut client = db.client().await?;
    let terms = filter.terms_from_here(Dialect::Postgres);
    let (sql, tail) = (terms.sql(), filter.tail());
    let sql = format!("SELECT t.id, t.host_id FROM {FILTERED} WHERE {sql} {tail}");
    let found = rows(&client, &sql, &given(&terms.values)).await?;
    let tasks: Vec<i64> = found.iter().map(|row| int(row, 0)).collect::<Result<_, _>>()?;
    let queues: BTreeSet<i64> = found.iter().map(|row| int(row, 1)).collect::<Result<_, _>>()?;
    let queues: Vec<i64> = queues.into_iter().collect();
    let last = tasks.last().filter(|_| tasks.len() >= filter.limit);
    let next = last.map(|last| Cursor::behind_row(*last));
    let tx = client.transaction().await?;
    if !dry {
        lock(&tx, &queues).await?;
    }
    let (swept, chosen) = choose(&tx, act, filter, &tasks).await?;
    if !dry {
        dequeue(&tx, &chosen).await?;
        match act {
            Act::Retry => retry(&tx, chosen, false, now(db, &tx).await?).await?,
            Act::Hasten => retry(&tx, chosen, true, now(db, &tx).await?).await?,
            Act::Delete => delete(&tx, &column(&chosen, |place| place.task)).await?,
            Act::Withdraw => bury(&tx, &column(&chosen, |place| place.task)).await?,
        }
        renew_tops(&tx, &queues).await?;
        tx.commit().await?;
    }
    Ok(Sweep { next, ..swept })
}

async fn choose(
    tx: &Tx<'_>,
    act: Act,
    filter: &TaskFilter,
    tasks: &[i64],
) -> Result<(Sweep, Vec<Place>), DbError> {
    let terms = filter.terms(Dialect::Postgres);
    let mut values: Vec<Given<'_>> = given(&terms.values);
    values.push(&tasks);
    let sql = format!(
        "SELECT t.id, t.host_id, t.lane, t.prio, t.due, t.kind, t.status,
           EXISTS(SELECT 1 FROM host l WHERE l.lease_id IS NOT NULL AND l.lease_task = t.id),
           t.source_id IS NOT NULL AND t.parent_id IS NULL,
           t.source_id IS NULL OR EXISTS(
             SELECT 1 FROM source s WHERE s.id = t.source_id AND s.enabled_at IS NOT NULL),
           coalesce(f.last_error = {WITHDRAWN}, false)
         FROM {FILTERED} WHERE t.id = ANY(${}::bigint[]) AND {}",
        values.len(),
        terms.sql()
    );
    let (mut sweep, mut chosen) = (Sweep::default(), Vec::new());
    for row in &rows(tx, &sql, &values).await? {
        let place = read_place(row)?;
        let declared: bool = row.try_get(8)?;
        let task = Swept {
            kind: place.kind,
            status: place.status,
            leased: row.try_get(7)?,
            channel: declared && matches!(place.kind, Kind::Feed | Kind::Sitemap | Kind::Listing),
            wanted: row.try_get(9)?,
            withdrawn: row.try_get(10)?,
        };
        if act.may(&task) {
            chosen.push(place);
        } else {
            sweep.spared += 1;
        }
    }
    sweep.done = chosen.len() as u64;
    Ok((sweep, chosen))
}

/// Makes tasks due, with the failures that they had or with none.
async fn retry(
    tx: &Tx<'_>,
    mut chosen: Vec<Place>,
    keeps_failures: bool,
    now: Ts,
) -> Result<(), DbError> {
    for place in &mut chosen {
        // What waits for its turn already keeps its place in line.
        let waits = place.status == Status::Pending;
        place.due = if waits { place.due.min(now.ms()) } else { now.ms() };
    }
    run(
        tx,
        "UPDATE task SET status = 0, retry = CASE WHEN $3 THEN retry ELSE 0 END, due = w.due
         FROM unnest($1::bigint[], $2::bigint[]) AS w(id, due) WHERE task.id = w.id",
        &[
            &column(&chosen, |place| place.task),
            &column(&chosen, |place| place.due),
            &keeps_failures,
        ],
    )
    .await?;
    enqueue(tx, &chosen, now).await
}

async fn bury(tx: &Tx<'_>, tasks: &[i64]) -> Result<(), DbError> {
    let sql = "UPDATE task SET status = $2::bigint WHERE id = ANY($1::bigint[])";
    run(tx, sql, &[&tasks, &Status::Dead.number()]).await?;
    run(
        tx,
        "INSERT INTO fetch_state(task_id, last_error, reason)
         SELECT task_id, $2::bigint, $3::text FROM unnest($1::bigint[]) AS w(task_id)
         ON CONFLICT (task_id) DO UPDATE SET etag = NULL, last_modified = NULL,
           content_hash = NULL, last_error = excluded.last_error, reason = excluded.reason",
        &[&tasks, &WITHDRAWN, &TAKEN_DOWN],
    )
    .await?;
    Ok(())
}

/// Forgets tasks and what only they need. Entries, articles, fetches and events are what was read
/// there: they stay.
async fn delete(tx: &Tx<'_>, tasks: &[i64]) -> Result<(), DbError> {
    for sql in [
        "DELETE FROM fetch_state WHERE task_id = ANY($1::bigint[])",
        "DELETE FROM task_source WHERE task_id = ANY($1::bigint[])",
        "DELETE FROM feed WHERE task_id = ANY($1::bigint[])",
        "DELETE FROM task WHERE id = ANY($1::bigint[])",
    ] {
        run(tx, sql, &[&tasks]).await?;
    }
    Ok(())
}
