//! What becomes of a source's tasks when it is no longer followed or no longer names them, and when it
//! does again.
//!
//! The caller has called [`change`] and locks the queues first: [`owned_queues`] and [`parked_queues`]
//! say which.

use std::collections::HashMap;

use super::rows::{Place, dequeue, enqueue, int, lock, maybe, now, read_place, renew_tops};
use crate::db::postgres::{Tx, column, first, rows, run};
use crate::db::{Conn, DbError, PgDb};
use crate::frontier::Candidate;
use crate::frontier::rulings::CHANNEL;
use crate::model::{Lane, SourceId, Status, Ts};

/// The number of the lock, chosen by chance.
const LOCK: i64 = 0x6665_6564_0004;

/// Which sources are followed stays as it is until the end of the transaction. For those who take
/// addresses in; like [`change`], before the locks of queues.
pub(crate) async fn keep(tx: &Tx<'_>) -> Result<(), DbError> {
    rows(tx, "SELECT pg_advisory_xact_lock_shared($1)", &[&LOCK]).await?;
    Ok(())
}

/// Waits until nobody takes addresses in, and keeps them waiting: what a source gave is all there
/// when its tasks are looked for, and what it gives from now on finds it as it will be.
pub(crate) async fn change(tx: &Tx<'_>) -> Result<(), DbError> {
    rows(tx, "SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    Ok(())
}

/// The queues in which a source's tasks are.
pub(crate) async fn owned_queues(tx: &Tx<'_>, source: SourceId) -> Result<Vec<i64>, DbError> {
    let sql = "SELECT DISTINCT host_id FROM task WHERE source_id = $1";
    rows(tx, sql, &[&source.0]).await?.iter().map(|row| int(row, 0)).collect()
}

/// What was set aside and a source gave, as its owner or beside it.
const PARKED: &str = "SELECT id FROM task WHERE source_id = $1 AND status = 3
    UNION SELECT t.id FROM task_source r JOIN task t ON t.id = r.task_id
    WHERE r.source_id = $1 AND t.status = 3";

/// The queues of what was set aside and this source gave.
pub(crate) async fn parked_queues(tx: &Tx<'_>, source: SourceId) -> Result<Vec<i64>, DbError> {
    let sql = format!("SELECT DISTINCT host_id FROM task WHERE id IN ({PARKED})");
    rows(tx, &sql, &[&source.0]).await?.iter().map(|row| int(row, 0)).collect()
}

/// Gives tasks another owner; the old one stays known as one of their sources.
pub(super) async fn pass_to(tx: &Tx<'_>, heirs: &[(i64, i64)]) -> Result<(), DbError> {
    if heirs.is_empty() {
        return Ok(());
    }
    let (tasks, sources) = (column(heirs, |(task, _)| *task), column(heirs, |(_, source)| *source));
    run(
        tx,
        &format!(
            "INSERT INTO task_source(task_id, source_id, origin, channel_id, first_seen)
             SELECT t.id, t.source_id, t.origin, {CHANNEL}, t.discovered_at
             FROM unnest($1::bigint[], $2::bigint[]) AS w(id, heir) JOIN task t ON t.id = w.id
             WHERE t.source_id IS NOT NULL AND t.source_id <> w.heir ON CONFLICT DO NOTHING"
        ),
        &[&tasks, &sources],
    )
    .await?;
    run(
        tx,
        "UPDATE task SET source_id = w.heir FROM unnest($1::bigint[], $2::bigint[]) AS w(id, heir)
         WHERE task.id = w.id",
        &[&tasks, &sources],
    )
    .await?;
    Ok(())
}

/// Sets aside what only this source wants. A task that another enabled source also gave passes to
/// that one.
pub(crate) async fn park(tx: &Tx<'_>, source: SourceId, queues: &[i64]) -> Result<(), DbError> {
    let found = rows(
        tx,
        "SELECT DISTINCT ON (t.id) t.id, s.id FROM task t JOIN task_source r ON r.task_id = t.id
         JOIN source s ON s.id = r.source_id
         WHERE t.source_id = $1 AND t.status = 0 AND t.host_id = ANY($2::bigint[])
           AND s.enabled_at IS NOT NULL AND s.id <> $1 ORDER BY t.id, r.first_seen, s.id",
        &[&source.0, &queues],
    )
    .await?;
    let heirs: Vec<(i64, i64)> =
        found.iter().map(|row| Ok((int(row, 0)?, int(row, 1)?))).collect::<Result<_, DbError>>()?;
    pass_to(tx, &heirs).await?;
    let found = rows(
        tx,
        "SELECT id, host_id, lane, prio, due, kind, status FROM task
         WHERE source_id = $1 AND status = 0 AND host_id = ANY($2::bigint[])",
        &[&source.0, &queues],
    )
    .await?;
    let places: Vec<Place> = found.iter().map(read_place).collect::<Result<_, _>>()?;
    dequeue(tx, &places).await?;
    run(
        tx,
        "UPDATE task SET status = $2::bigint WHERE id = ANY($1::bigint[])",
        &[&column(&places, |place| place.task), &Status::Parked.number()],
    )
    .await?;
    renew_tops(tx, queues).await?;
    Ok(())
}

/// Takes up again what was set aside and this source gave: it is the first one enabled, so its own.
pub(crate) async fn resume(
    tx: &Tx<'_>,
    source: SourceId,
    queues: &[i64],
    now: Ts,
) -> Result<(), DbError> {
    let sql = format!(
        "UPDATE task SET status = 0 WHERE host_id = ANY($2::bigint[]) AND id IN ({PARKED})
         RETURNING id, host_id, lane, prio, due, kind, status"
    );
    let found = rows(tx, &sql, &[&source.0, &queues]).await?;
    let places: Vec<Place> = found.iter().map(read_place).collect::<Result<_, _>>()?;
    pass_to(tx, &column(&places, |place| (place.task, source.0))).await?;
    enqueue(tx, &places, now).await?;
    renew_tops(tx, queues).await?;
    Ok(())
}

/// What an operator who adds or enables a source wants back: channels of it that were given up, and
/// pages of its channels that were set aside when their source was removed.
const REVIVED: &str = "SELECT id FROM task WHERE source_id = $1 AND status = 2
      AND (kind IN (2, 3) OR (kind = 4 AND depth = 0))
    UNION SELECT o.id FROM task c JOIN task o ON o.parent_id = c.id
    WHERE c.source_id = $1 AND c.kind IN (2, 3, 4) AND o.status = 3 AND o.source_id IS NULL";

/// Takes those up again, in a transaction of its own; whether a channel was among them.
pub(crate) async fn revive(
    db: &PgDb,
    client: &mut Conn,
    source: SourceId,
) -> Result<bool, DbError> {
    let tx = client.transaction().await?;
    keep(&tx).await?;
    let sql = format!(
        "SELECT DISTINCT host_id FROM task WHERE id IN ({REVIVED}) AND EXISTS(
           SELECT 1 FROM source WHERE id = $1 AND enabled_at IS NOT NULL)"
    );
    let found = rows(&tx, &sql, &[&source.0]).await?;
    let queues: Vec<i64> = found.iter().map(|row| int(row, 0)).collect::<Result<_, _>>()?;
    if queues.is_empty() {
        return Ok(false);
    }
    lock(&tx, &queues).await?;
    let now = now(db, &tx).await?;
    let sql = format!(
        "UPDATE task SET status = 0, retry = 0, due = $3
         WHERE host_id = ANY($2::bigint[]) AND id IN ({REVIVED})
         RETURNING id, host_id, lane, prio, due, kind, status"
    );
    let found = rows(&tx, &sql, &[&source.0, &queues, &now.ms()]).await?;
    let polls = Lane::Poll.number();
    let mut risen = false;
    for row in &found {
        risen |= int(row, 2)? == polls;
    }
    let places: Vec<Place> = found.iter().map(read_place).collect::<Result<_, _>>()?;
    pass_to(&tx, &column(&places, |place| (place.task, source.0))).await?;
    enqueue(&tx, &places, now).await?;
    renew_tops(&tx, &queues).await?;
    tx.commit().await?;
    Ok(risen)
}

/// The task at an address and its owner; `None` when it is not known.
async fn known(
    tx: &Tx<'_>,
    at: &Candidate,
    queues: &HashMap<String, i64>,
) -> Result<Option<(Place, Option<i64>)>, DbError> {
    let Some(queue) = queues.get(&at.host) else { return Ok(None) };
    let sql = "SELECT id, host_id, lane, prio, due, kind, status, source_id FROM task
        WHERE host_id = $1 AND lane = $2::bigint AND hash = $3";
    let found = first(tx, sql, &[queue, &at.kind.lane().number(), &at.hash.head()]).await?;
    found.map(|row| Ok((read_place(&row)?, maybe(&row, 7)?))).transpose()
}

/// Takes channels from a source that no longer names them. Each goes to another enabled source that
/// names it too, else it is set aside as nobody's, with all that is known of it.
pub(crate) async fn release(
    tx: &Tx<'_>,
    source: SourceId,
    channels: &[Candidate],
    queues: &HashMap<String, i64>,
) -> Result<(), DbError> {
    for channel in channels {
        let Some((place, owner)) = known(tx, channel, queues).await? else { continue };
        if owner == Some(source.0) {
            let heir = first(
                tx,
                "SELECT s.id FROM task_source r JOIN source s ON s.id = r.source_id
                 WHERE r.task_id = $1 AND s.enabled_at IS NOT NULL AND s.id <> $2
                 ORDER BY r.first_seen, s.id LIMIT 1",
                &[&place.task, &source.0],
            )
            .await?;
            match heir {
                Some(row) => pass_to(tx, &[(place.task, int(&row, 0)?)]).await?,
                None => {
                    dequeue(tx, &[place]).await?;
                    let parked = match place.status {
                        Status::Pending => Status::Parked,
                        other => other,
                    };
                    let sql = "UPDATE task SET status = $2::bigint, source_id = NULL WHERE id = $1";
                    run(tx, sql, &[&place.task, &parked.number()]).await?;
                }
            }
        }
        let sql = "DELETE FROM task_source WHERE task_id = $1 AND source_id = $2";
        run(tx, sql, &[&place.task, &source.0]).await?;
    }
    Ok(())
}

/// Gives a source's own channels the priority that they have from now on.
pub(crate) async fn rerank(
    tx: &Tx<'_>,
    source: SourceId,
    channels: &[Candidate],
    queues: &HashMap<String, i64>,
    now: Ts,
) -> Result<(), DbError> {
    for channel in channels {
        let Some((old, owner)) = known(tx, channel, queues).await? else { continue };
        if owner != Some(source.0) {
            continue;
        }
        let prio = i64::from(channel.priority);
        dequeue(tx, &[old]).await?;
        run(tx, "UPDATE task SET prio = $2::bigint WHERE id = $1", &[&old.task, &prio]).await?;
        if old.status == Status::Pending {
            enqueue(tx, &[Place { prio, ..old }], now).await?;
        }
    }
    Ok(())
}
