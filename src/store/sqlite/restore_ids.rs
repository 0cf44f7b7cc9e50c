//! Numbers that rows had in a store that is being rebuilt.

use rusqlite::Connection;

use crate::db::DbError;
use crate::db::transfer::keep_number;
use crate::store::RestoredIds;

/// Columns that name a task that was just taken in.
const NAMES: [&str; 7] = [
    "UPDATE task SET id = ?2 WHERE id = ?1",
    "UPDATE queue SET task_id = ?2 WHERE task_id = ?1",
    "UPDATE delayed SET task_id = ?2 WHERE task_id = ?1",
    "UPDATE fetch_state SET task_id = ?2 WHERE task_id = ?1",
    "UPDATE feed SET task_id = ?2 WHERE task_id = ?1",
    "UPDATE task_source SET task_id = ?2 WHERE task_id = ?1",
    "UPDATE task_source SET channel_id = ?2 WHERE channel_id = ?1",
];

pub(super) fn restore(conn: &Connection, ids: &RestoredIds) -> Result<(), DbError> {
    if ids.reserve > 0 {
        // The row that keeps the number is not in the way of the task that had it.
        keep_number(conn, ids.reserve.saturating_add(1))?;
    }
    if let Some((source, uuid, created)) = &ids.source {
        conn.execute(
            "UPDATE source SET uuid = ?2, created_at = ?3 WHERE id = ?1",
            (source.0, uuid, created.ms()),
        )?;
    }
    if ids.events > 0 {
        let sql = "INSERT INTO sqlite_sequence(name, seq) SELECT 'event', 0
            WHERE NOT EXISTS(SELECT 1 FROM sqlite_sequence WHERE name = 'event')";
        conn.execute(sql, [])?;
        let sql = "UPDATE sqlite_sequence SET seq = max(seq, ?1) WHERE name = 'event'";
        conn.execute(sql, [ids.events])?;
    }
    for (now, before) in ids.tasks.iter().filter(|(now, before)| now != before) {
        for sql in NAMES {
            conn.prepare_cached(sql)?.execute((now.0, before.0))?;
        }
    }
    Ok(())
}
