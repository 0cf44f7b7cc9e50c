//! Numbered steps of the schema, forward and back, in one transaction. Each step has one file per
//! dialect; here is the embedded one, [`postgres`] has the other.

pub mod postgres;

use rusqlite::Connection;
use serde::Serialize;

use super::DbError;

/// Divides a migration file into its way up and its way down.
const DOWN: &str = "\n-- down\n";

/// A step in both dialects.
struct Migration {
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

macro_rules! migration {
    ($name:literal) => {
        Migration {
            name: $name,
            sqlite: include_str!(concat!("../../migrations/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("../../migrations/postgres/", $name, ".sql")),
        }
    };
}

/// All steps; a step's number is its place, counted from 1, and `PRAGMA user_version` holds it.
const STEPS: &[Migration] = &[
    migration!("0001_foundation"),
    migration!("0002_row_checksums"),
    migration!("0003_fair_shares"),
    migration!("0004_source_usage"),
    migration!("0005_host_pause"),
    migration!("0006_processes"),
];

/// The way up and the way down.
fn ways(sql: &'static str) -> (&'static str, &'static str) {
    sql.split_once(DOWN).unwrap_or((sql, ""))
}

/// One step and whether it was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Number and name.
    pub name: &'static str,
    /// Whether the database has it.
    pub applied: bool,
}

fn version(conn: &Connection) -> Result<usize, DbError> {
    known(conn.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// A schema's number, unless it is from the future.
fn known(version: i64) -> Result<usize, DbError> {
    let version = usize::try_from(version).unwrap_or(0);
    if version > STEPS.len() {
        return Err(DbError::Schema(format!(
            "the database has schema {version}, this program knows {}: use a newer feedmill",
            STEPS.len()
        )));
    }
    Ok(version)
}

/// Whether somebody has put something into it.
fn is_used(conn: &Connection) -> Result<bool, DbError> {
    Ok(conn.query_row(
        "SELECT EXISTS(SELECT 1 FROM sqlite_master WHERE name NOT LIKE 'sqlite_%')",
        [],
        |row| row.get(0),
    )?)
}

/// Refuses a database that was never ours and has tables.
fn refuse_foreign(conn: &Connection) -> Result<(), DbError> {
    if version(conn)? == 0 && is_used(conn)? {
        return Err(DbError::Schema(
            "the database holds another program's tables: choose another file".to_owned(),
        ));
    }
    Ok(())
}

/// The steps, in order.
pub fn status(conn: &Connection) -> Result<Vec<Step>, DbError> {
    refuse_foreign(conn)?;
    Ok(steps(version(conn)?))
}

/// The tables that a database lacks whose steps were all taken.
pub fn missing_tables(conn: &Connection) -> Result<Vec<String>, DbError> {
    let tables = |conn: &Connection| {
        let mut select = conn.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
        let names = select.query_map([], |row| row.get(0))?;
        names.collect::<Result<Vec<String>, _>>().map_err(DbError::from)
    };
    let mut whole = Connection::open_in_memory()?;
    up(&mut whole)?;
    let (mut missing, found) = (tables(&whole)?, tables(conn)?);
    missing.retain(|name| !found.contains(name));
    Ok(missing)
}

fn steps(version: usize) -> Vec<Step> {
    let step = |(at, step): (usize, &Migration)| Step { name: step.name, applied: at < version };
    STEPS.iter().enumerate().map(step).collect()
}

/// Takes every step that is missing; returns their names.
pub fn up(conn: &mut Connection) -> Result<Vec<&'static str>, DbError> {
    let mut taken = Vec::new();
    if version(conn)? == STEPS.len() {
        return Ok(taken);
    }
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    refuse_foreign(&tx)?;
    // Read again under the lock: another process may have been first.
    for (at, step) in STEPS.iter().enumerate().skip(version(&tx)?) {
        tx.execute_batch(ways(step.sqlite).0)?;
        tx.pragma_update(None, "user_version", at + 1)?;
        taken.push(step.name);
    }
    tx.commit()?;
    Ok(taken)
}

/// Takes the last `steps` steps back; returns their names.
pub fn down(conn: &mut Connection, steps: usize) -> Result<Vec<&'static str>, DbError> {
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let have = version(&tx)?;
    let mut taken = Vec::new();
    for (at, step) in STEPS.iter().enumerate().take(have).rev().take(steps) {
        tx.execute_batch(ways(step.sqlite).1)?;
        tx.pragma_update(None, "user_version", at)?;
        taken.push(step.name);
    }
    tx.commit()?;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(conn: &Connection) -> i64 {
        conn.query_row(
            "SELECT count(*) FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'",
            [],
            |row| row.get(0),
        )
        .unwrap()
    }

    #[test]
    fn up_and_down_leave_nothing_behind() {
        let mut conn = Connection::open_in_memory().unwrap();
        assert_eq!(up(&mut conn).unwrap().len(), STEPS.len());
        assert!(up(&mut conn).unwrap().is_empty());
        assert!(status(&conn).unwrap().iter().all(|step| step.applied));
        for view in ["url_frontier", "host_state", "feed_state"] {
            conn.prepare(&format!("SELECT * FROM {view}")).unwrap();
        }
        assert_eq!(down(&mut conn, usize::MAX).unwrap().len(), STEPS.len());
        assert_eq!(tables(&conn), 0);
        up(&mut conn).unwrap();
    }

    #[test]
    fn another_programs_file_is_left_alone() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE theirs(x)").unwrap();
        let error = up(&mut conn).unwrap_err().to_string();
        assert!(error.contains("another program's"), "{error}");
        assert_eq!(tables(&conn), 1);
    }

    #[test]
    fn lost_tables_and_other_programs_are_named() {
        let mut conn = Connection::open_in_memory().unwrap();
        up(&mut conn).unwrap();
        assert_eq!(missing_tables(&conn).unwrap(), [""; 0]);
        conn.execute_batch("DROP TABLE sink").unwrap();
        assert_eq!(missing_tables(&conn).unwrap(), ["sink"]);
        let foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("CREATE TABLE other(x)").unwrap();
        let error = status(&foreign).unwrap_err().to_string();
        assert!(error.contains("another program's tables"), "{error}");
    }

    #[test]
    fn a_newer_database_is_refused() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.pragma_update(None, "user_version", 9_999).unwrap();
        assert!(up(&mut conn).unwrap_err().to_string().contains("newer feedmill"));
    }
}
