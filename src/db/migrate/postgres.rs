//! The steps on PostgreSQL: `schema_version` holds one row per step taken, and an advisory lock
//! keeps two processes from taking the same step.

use super::{STEPS, Step, known, steps, ways};
use crate::db::postgres::Tx;
use crate::db::{Conn, DbError, Session};

/// The number of the lock, chosen by chance.
const LOCK: i64 = 0x6665_6564_0001;

async fn version<C: Session>(client: &C) -> Result<usize, DbError> {
    // Asked of the catalogue itself: a name looked up in vain is remembered for a while.
    let sql = "SELECT EXISTS(SELECT 1 FROM pg_class WHERE relname = 'schema_version'
        AND relnamespace = current_schema()::regnamespace)";
    let made: bool = client.query_one(sql, &[]).await?.try_get(0)?;
    if !made {
        return Ok(0);
    }
    let row = client.query_one("SELECT coalesce(max(version), 0) FROM schema_version", &[]).await?;
    known(row.try_get::<_, i32>(0)?.into())
}

/// Whether somebody else has put something into it; what extensions bring does not count.
async fn is_used(tx: &Tx<'_>) -> Result<bool, DbError> {
    let sql = "SELECT EXISTS(SELECT 1 FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relname NOT LIKE 'schema_version%'
          AND NOT EXISTS(SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e'))";
    Ok(tx.query_one(sql, &[]).await?.try_get(0)?)
}

/// The steps, in order.
pub async fn status(client: &Conn) -> Result<Vec<Step>, DbError> {
    Ok(steps(version(client).await?))
}

/// Whether no step is missing.
pub async fn is_current(client: &Conn) -> Result<bool, DbError> {
    Ok(version(client).await? == STEPS.len())
}

/// Takes every step that is missing; returns their names.
pub async fn up(client: &mut Conn) -> Result<Vec<&'static str>, DbError> {
    let mut taken = Vec::new();
    if version(client).await? == STEPS.len() {
        return Ok(taken);
    }
    let tx = locked(client).await?;
    if version(&tx).await? == 0 && is_used(&tx).await? {
        return Err(DbError::Schema(
            "the database holds another program's tables: choose another database".to_owned(),
        ));
    }
    tx.batch_execute(
        "CREATE TABLE IF NOT EXISTS schema_version(version integer PRIMARY KEY, name text NOT NULL,
           applied_at timestamptz NOT NULL DEFAULT now())",
    )
    .await?;
    // Read again under the lock: another process may have been first.
    for (at, step) in STEPS.iter().enumerate().skip(version(&tx).await?) {
        tx.batch_execute(ways(step.postgres).0).await?;
        tx.execute(
            "INSERT INTO schema_version(version, name) VALUES($1, $2)",
            &[&number(at + 1), &step.name],
        )
        .await?;
        taken.push(step.name);
    }
    tx.commit().await?;
    Ok(taken)
}

/// Takes the last `steps` steps back; returns their names.
pub async fn down(client: &mut Conn, steps: usize) -> Result<Vec<&'static str>, DbError> {
    let tx = locked(client).await?;
    let have = version(&tx).await?;
    let mut taken = Vec::new();
    for (at, step) in STEPS.iter().enumerate().take(have).rev().take(steps) {
        tx.batch_execute(ways(step.postgres).1).await?;
        tx.execute("DELETE FROM schema_version WHERE version = $1", &[&number(at + 1)]).await?;
        taken.push(step.name);
    }
    tx.commit().await?;
    Ok(taken)
}

async fn locked(client: &mut Conn) -> Result<Tx<'_>, DbError> {
    let tx = client.transaction().await?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    Ok(tx)
}

fn number(step: usize) -> i32 {
    i32::try_from(step).unwrap_or(i32::MAX)
}
