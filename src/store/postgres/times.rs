//! Stored times that a faulty clock left in the future, on a server whose clock is everybody's.

use std::time::Duration;

use crate::db::statement::Dialect;
use crate::db::{DbError, PgDb, Session};
use crate::model::Ts;
use crate::store::times::{Look, TimesAhead};

pub(super) async fn survey(
    db: &PgDb,
    horizon: Duration,
    lease: Duration,
) -> Result<TimesAhead, DbError> {
    let client = db.client().await?;
    let now = Ts::from_ms(db.now(&client).await?);
    found(&client, &Look::new(now, horizon, lease, Dialect::Postgres)).await
}

// Each text holds the time and is used once: it is not kept as a prepared statement.
async fn found<C: Session>(client: &C, look: &Look) -> Result<TimesAhead, DbError> {
    let row = client.query_one(&look.survey(), &[]).await?;
    let mut numbers = [0i64; 6];
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = row.try_get(at)?;
    }
    Ok(look.found(numbers))
}

/// Whoever changes tasks locks rows of their hosts first, so a lock on that table keeps everybody out.
pub(super) async fn repair(
    db: &PgDb,
    horizon: Duration,
    lease: Duration,
) -> Result<TimesAhead, DbError> {
    let mut client = db.maintenance().await?;
    let tx = client.transaction().await?;
    tx.batch_execute("LOCK TABLE host IN EXCLUSIVE MODE").await?;
    let now = Ts::from_ms(db.now(&tx).await?);
    let look = Look::new(now, horizon, lease, Dialect::Postgres);
    let found = found(&tx, &look).await?;
    let mut changed = [0u64; 8];
    for (changed, sql) in changed.iter_mut().zip(look.repairs(found.ahead_ms)) {
        *changed = tx.execute(&sql, &[]).await?;
    }
    tx.commit().await?;
    Ok(Look::repaired(changed, found.ahead_ms))
}
