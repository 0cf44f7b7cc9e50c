//! Stored times that a faulty clock left in the future, in the embedded database.

use rusqlite::Connection;

use crate::db::DbError;
use crate::store::times::{Look, TimesAhead};

pub(super) fn survey(conn: &Connection, look: &Look) -> Result<TimesAhead, DbError> {
    let mut numbers = [0i64; 6];
    conn.query_row(&look.survey(), [], |row| {
        for (at, number) in numbers.iter_mut().enumerate() {
            *number = row.get(at)?;
        }
        Ok(())
    })?;
    Ok(look.found(numbers))
}

pub(super) fn repair(conn: &Connection, look: &Look) -> Result<TimesAhead, DbError> {
    let found = survey(conn, look)?;
    let mut changed = [0u64; 8];
    for (changed, sql) in changed.iter_mut().zip(look.repairs(found.ahead_ms)) {
        *changed = conn.execute(&sql, [])? as u64;
    }
    Ok(Look::repaired(changed, found.ahead_ms))
}
