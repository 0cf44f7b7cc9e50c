//! Who told of an address.

use tokio_postgres::Row;

use crate::db::postgres::{column, rows};
use crate::db::{DbError, Session, whole_rows};
use crate::frontier::postgres::{int, named};
use crate::model::{Origin, Reference, TaskId, Ts};
use crate::store::forms::{TOLD, category, told_once};

/// All who told of these tasks, with the task, in the order in which they first did.
pub(super) async fn references<C: Session>(
    client: &C,
    tasks: &[TaskId],
) -> Result<Vec<(TaskId, Reference)>, DbError> {
    let sql = format!("{TOLD} WHERE r.task_id = ANY($1::bigint[])");
    let found = rows(client, &sql, &[&column(tasks, |task| task.0)]).await?;
    let mut told: Vec<(TaskId, Reference)> = whole_rows("task", found.iter().map(read))?;
    told_once(&mut told);
    Ok(told)
}

fn read(row: &Row) -> Result<(TaskId, Reference), DbError> {
    let spec: Option<String> = row.try_get(3)?;
    let told = Reference {
        source: row.try_get(1)?,
        source_id: row.try_get(2)?,
        category: spec.as_deref().and_then(category),
        channel: row.try_get(4)?,
        origin: named("origin", row, 5, Origin::from_number)?,
        first_seen: Ts::from_ms(int(row, 6)?),
    };
    Ok((TaskId(int(row, 0)?), told))
}
