//! Places of tasks in an order, without the tasks.

use crate::db::DbError;
use crate::db::statement::Terms;
use crate::frontier::{Cursor, TaskFilter};
use crate::store::Store;

/// The places of tasks by filter, in its order.
pub async fn places(store: &dyn Store, filter: &TaskFilter) -> Result<Vec<Cursor>, DbError> {
    let rows = store.select(filter.places(store.dialect())).await?;
    rows.iter().map(|row| Ok(filter.place(row.int(0)?, row.int(1)?))).collect()
}

/// The highest number that a task has: how many there have been, about.
pub async fn highest(store: &dyn Store) -> Result<i64, DbError> {
    let sql = "SELECT coalesce(max(t.id), 0) FROM task t".to_owned();
    let rows = store.select(Terms::new(store.dialect()).statement(sql)).await?;
    rows.first().map_or(Ok(0), |row| row.int(0))
}
