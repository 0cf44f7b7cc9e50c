//! A lease's terms while it is under way: longer, or with a second host.

use std::time::Duration;

use super::rows::{PACE_COLUMNS, int, lock_held, maybe, now, queue_ids, read_pace, renew_tops};
use crate::db::postgres::{first, run};
use crate::db::{DbError, PgDb, Session};
use crate::frontier::{Extension, Rules, queue_key};
use crate::model::{LeaseId, Ts};

/// Another full term for a lease; false when it is stale.
pub(super) async fn renew(db: &PgDb, lease: LeaseId, rules: &Rules) -> Result<bool, DbError> {
    let mut client = db.client().await?;
    let tx = client.transaction().await?;
    lock_held(&tx, &[], &[lease.0]).await?;
    if holder(&tx, lease).await?.is_none() {
        return Ok(false);
    }
    let until = now(db, &tx).await?.after(rules.lease).ms();
    run(
        &tx,
        "UPDATE host SET next_at = greatest($2, blocked_until) WHERE lease_id = $1",
        &[&lease.0, &until],
    )
    .await?;
    tx.commit().await?;
    Ok(true)
}

/// The task of a lease and the lease's end; `None` when it is stale. Only the task's own host can
/// tell: a host that was lent to the lease keeps its number after the task was handed out again.
async fn holder<C: Session>(client: &C, lease: LeaseId) -> Result<Option<(i64, i64)>, DbError> {
    let sql = "SELECT h.lease_task, h.next_at FROM host h
        JOIN task t ON t.id = h.lease_task AND t.host_id = h.queue_id WHERE h.lease_id = $1";
    first(client, sql, &[&lease.0]).await?.map(|row| Ok((int(&row, 0)?, int(&row, 1)?))).transpose()
}

/// A second host under the same lease.
pub(super) async fn extend(
    db: &PgDb,
    lease: LeaseId,
    host: &str,
    rules: &Rules,
) -> Result<Extension, DbError> {
    let name = queue_key(host, &rules.groups);
    let ids = queue_ids(db, [name].into(), rules).await?;
    let Some(queue) = ids.get(name) else { return Ok(Extension::Stale) };
    let mut client = db.client().await?;
    let tx = client.transaction().await?;
    lock_held(&tx, &[*queue], &[lease.0]).await?;
    let now = now(db, &tx).await?;
    // One that ran out may be handed out again at any time: it can hold no further host.
    let Some((task, until)) = holder(&tx, lease).await?.filter(|(_, until)| *until > now.ms())
    else {
        return Ok(Extension::Stale);
    };
    // The slot that it has already, else the one that is free first.
    let sql = format!(
        "SELECT id, next_at, lease_id, {PACE_COLUMNS} FROM host WHERE queue_id = $1
         ORDER BY lease_id IS NOT DISTINCT FROM $2 DESC, lease_id IS NOT NULL, next_at, slot LIMIT 1"
    );
    let Some(slot) = first(&tx, &sql, &[queue, &lease.0]).await? else {
        return Ok(Extension::Stale);
    };
    let (id, next_at, held) = (int(&slot, 0)?, Ts::from_ms(int(&slot, 1)?), maybe(&slot, 2)?);
    let pace = read_pace(&slot, 3)?;
    if held == Some(lease.0) {
        return Ok(Extension::Granted {
            wait: Duration::ZERO,
            pause: pace.pause(rules.delay.get()),
        });
    }
    let lent = pace.lend(held.is_some(), next_at, now, rules.delay.get());
    if matches!(lent, Extension::Granted { .. }) {
        run(
            &tx,
            "UPDATE host SET next_at = $2, lease_id = $3, lease_task = $4 WHERE id = $1",
            &[&id, &until, &lease.0, &task],
        )
        .await?;
        renew_tops(&tx, &[*queue]).await?;
        tx.commit().await?;
    }
    Ok(lent)
}
