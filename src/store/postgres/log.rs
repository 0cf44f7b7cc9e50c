//! The log of events. Whoever writes to it, or decides by what others may be writing just now, holds
//! one lock until the end of the transaction: so the order of the places is the order of the
//! commits, and no reader can pass an event that is not there yet.

use futures_util::future::BoxFuture;

use crate::db::DbError;
use crate::db::postgres::{Tx, clean, column, rows, run};
use crate::model::{NewEvent, Task, Ts};
use crate::store::damage::{Beside, checksum};
use crate::store::{apply, forms::to_json};

/// The number of the lock, chosen by chance.
const LOCK: i64 = 0x6665_6564_0002;

/// Takes the lock. It is the last one that a transaction takes.
pub(super) async fn lock(tx: &Tx<'_>) -> Result<(), DbError> {
    rows(tx, "SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    Ok(())
}

/// Appends events, in their order.
pub(super) async fn append(tx: &Tx<'_>, events: &[NewEvent], now: Ts) -> Result<(), DbError> {
    if events.is_empty() {
        return Ok(());
    }
    lock(tx).await?;
    let payloads: Vec<String> =
        events.iter().map(|event| to_json(&event.payload)).collect::<Result<_, _>>()?;
    let sum = |(event, payload): (&NewEvent, &String)| {
        let beside = Beside::event(now.ms(), event.kind.number(), &clean(&event.subject));
        checksum(&[payload.as_bytes()], &beside)
    };
    let sums: Vec<i64> = events.iter().zip(&payloads).map(sum).collect();
    run(
        tx,
        "INSERT INTO event(at, kind, subject, source_id, payload, checksum)
         SELECT $5::bigint, kind, subject, source_id, payload, checksum
         FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $6::bigint[])
           WITH ORDINALITY AS w(kind, subject, source_id, payload, checksum, place)
         ORDER BY place",
        &[
            &column(events, |event| event.kind.number()),
            &column(events, |event| clean(&event.subject)),
            &column(events, |event| event.source.map(|source| source.0)),
            &payloads,
            &now.ms(),
            &sums,
        ],
    )
    .await?;
    Ok(())
}

/// The log of tasks whose leases ran out too often.
pub(super) fn bury<'a>(
    tx: &'a Tx<'_>,
    tasks: Vec<Task>,
    now: Ts,
) -> BoxFuture<'a, Result<(), DbError>> {
    Box::pin(async move {
        let events: Vec<_> = tasks.iter().flat_map(apply::poisoned).collect();
        append(tx, &events, now).await
    })
}
