//! Who told of an address.

use rusqlite::{Connection, Row};

use crate::db::{DbError, whole};
use crate::frontier::sqlite::number;
use crate::model::{Origin, Reference, TaskId, Ts};
use crate::store::forms::{TOLD, category, told_once};

/// All who told of these tasks, in the order in which they first did.
pub(super) fn references(conn: &Connection, tasks: &[TaskId]) -> Result<Vec<Reference>, DbError> {
    let mut select = conn.prepare_cached(&format!("{TOLD} WHERE r.task_id = ?1"))?;
    let mut told = Vec::new();
    for task in tasks {
        let mut rows = select.query([task.0])?;
        while let Some(row) = rows.next()? {
            told.extend(whole("task", read(row))?.map(|one| (*task, one)));
        }
    }
    told_once(&mut told);
    Ok(told.into_iter().map(|(_, one)| one).collect())
}

fn read(row: &Row<'_>) -> Result<Reference, DbError> {
    let spec: Option<String> = row.get(3)?;
    Ok(Reference {
        source: row.get(1)?,
        source_id: row.get(2)?,
        category: spec.as_deref().and_then(category),
        channel: row.get(4)?,
        origin: number("origin", row.get(5)?, Origin::from_number)?,
        first_seen: Ts::from_ms(row.get(6)?),
    })
}
