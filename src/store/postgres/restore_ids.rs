//! Numbers that rows had in a store that is being rebuilt.

use super::run;
use crate::db::{DbError, PgDb, Session as _};
use crate::store::RestoredIds;

/// Columns that name a task that was just taken in.
const NAMES: [&str; 7] = [
    "UPDATE task SET id = $2 WHERE id = $1",
    "UPDATE queue SET task_id = $2 WHERE task_id = $1",
    "UPDATE delayed SET task_id = $2 WHERE task_id = $1",
    "UPDATE fetch_state SET task_id = $2 WHERE task_id = $1",
    "UPDATE feed SET task_id = $2 WHERE task_id = $1",
    "UPDATE task_source SET task_id = $2 WHERE task_id = $1",
    "UPDATE task_source SET channel_id = $2 WHERE channel_id = $1",
];

pub(super) async fn restore(db: &PgDb, ids: &RestoredIds) -> Result<(), DbError> {
    let mut client = db.client().await?;
    let tx = client.transaction().await?;
    if ids.reserve > 0 {
        let sql = "SELECT setval(pg_get_serial_sequence('task', 'id'),
            greatest($1, (SELECT coalesce(max(id), 1) FROM task)))";
        tx.query_one(sql, &[&ids.reserve.saturating_add(1)]).await?;
    }
    if let Some((source, uuid, created)) = &ids.source {
        let sql = "UPDATE source SET uuid = $2, created_at = $3 WHERE id = $1";
        run(&tx, sql, &[&source.0, uuid, &created.ms()]).await?;
    }
    if ids.events > 0 {
        let sql = "SELECT setval(pg_get_serial_sequence('event', 'seq'),
            greatest($1, (SELECT coalesce(max(seq), 1) FROM event)))";
        tx.query_one(sql, &[&ids.events]).await?;
    }
    for (now, before) in ids.tasks.iter().filter(|(now, before)| now != before) {
        for sql in NAMES {
            run(&tx, sql, &[&now.0, &before.0]).await?;
        }
    }
    tx.commit().await?;
    Ok(())
}
