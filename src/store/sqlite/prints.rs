//! The frames of hosts, one row each.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension};

use crate::db::DbError;
use crate::model::{ArticleFact, NewEvent};
use crate::store::prints::{self, Prints};

fn read(conn: &Connection, host: &str) -> Result<Prints, DbError> {
    let kept: Option<Vec<u8>> = conn
        .prepare_cached("SELECT prints FROM host_prints WHERE host = ?1")?
        .query_row([host], |row| row.get(0))
        .optional()?;
    Ok(Prints::read(&kept.unwrap_or_default()))
}

/// Blocks that stand on several pages of a host.
pub(super) fn repeated(conn: &Connection, host: &str) -> Result<HashSet<u64>, DbError> {
    Ok(read(conn, host)?.repeated())
}

/// Counts the blocks of an article that came with this event.
pub(super) fn learn(
    conn: &Connection,
    fact: &ArticleFact,
    event: Option<&NewEvent>,
) -> Result<(), DbError> {
    let Some(host) = prints::host(fact, event) else { return Ok(()) };
    let mut kept = read(conn, &host)?;
    kept.add(&fact.prints);
    conn.prepare_cached(
        "INSERT INTO host_prints VALUES(?1, ?2)
         ON CONFLICT(host) DO UPDATE SET prints = excluded.prints",
    )?
    .execute((host, kept.write()))?;
    Ok(())
}
