//! Bytes that sources had stored, by day; and which of them get no more on that day.

use std::collections::HashMap;

use super::Store;
use crate::db::DbError;
use crate::db::statement::Terms;
use crate::model::{EventKind, NewEvent, Source, SourceId, Ts};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// Days that are kept.
const KEPT_DAYS: i64 = 30;
/// Sources that are looked at: those with most bytes.
const LARGEST: usize = 1_000;

/// What a source had stored on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceUsage {
    /// Which one.
    pub source: SourceId,
    /// Bytes in the archive and in the database.
    pub bytes: u64,
    /// Since when nothing more of it is fetched on that day.
    pub limited_at: Option<Ts>,
    /// Why.
    pub reason: Option<String>,
}

/// The day of a time, counted from 1970 in UTC.
#[must_use]
pub const fn day_of(at: Ts) -> i64 {
    at.ms().div_euclid(DAY_MS)
}

/// When the day of a time ends.
#[must_use]
pub const fn day_end(at: Ts) -> Ts {
    Ts::from_ms((day_of(at) + 1) * DAY_MS)
}

/// Adds bytes to a day's figures.
pub async fn add_usage(
    store: &dyn Store,
    day: i64,
    added: &HashMap<i64, u64>,
) -> Result<(), DbError> {
    // In one order, so that two engines do not wait for each other.
    let mut added: Vec<(i64, u64)> = added.iter().map(|(source, n)| (*source, *n)).collect();
    added.sort_unstable();
    let mut statements = Vec::with_capacity(added.len() + 1);
    for (source, bytes) in added {
        let mut terms = Terms::new(store.dialect());
        let (day, source) = (terms.int(day), terms.int(source));
        let bytes = terms.int(i64::try_from(bytes).unwrap_or(i64::MAX));
        statements.push(terms.statement(format!(
            "INSERT INTO source_usage(day, source_id, bytes) VALUES({day}, {source}, {bytes})
             ON CONFLICT(day, source_id) DO UPDATE SET bytes = source_usage.bytes + excluded.bytes"
        )));
    }
    if !statements.is_empty() {
        let mut terms = Terms::new(store.dialect());
        let oldest = terms.int(day - KEPT_DAYS);
        statements.push(terms.statement(format!("DELETE FROM source_usage WHERE day < {oldest}")));
        store.change(statements).await?;
    }
    Ok(())
}

/// The day's figures: those of limited sources, and the largest.
pub async fn usage(store: &dyn Store, day: i64) -> Result<Vec<SourceUsage>, DbError> {
    let mut terms = Terms::new(store.dialect());
    let day = terms.int(day);
    let sql = format!(
        "SELECT source_id, bytes, limited_at, reason FROM source_usage WHERE day = {day}
         ORDER BY CASE WHEN limited_at IS NULL THEN 1 ELSE 0 END, bytes DESC, source_id LIMIT {LARGEST}"
    );
    let rows = store.select(terms.statement(sql)).await?;
    rows.iter()
        .map(|row| {
            Ok(SourceUsage {
                source: SourceId(row.int(0)?),
                bytes: row.count(1)?,
                limited_at: row.maybe_int(2)?.map(Ts::from_ms),
                reason: row.maybe_text(3)?.map(str::to_owned),
            })
        })
        .collect()
}

/// Stops a source for the rest of the day and logs it; false when it was stopped already.
pub async fn limit_source(
    store: &dyn Store,
    source: &Source,
    bytes: u64,
    reason: &str,
    now: Ts,
) -> Result<bool, DbError> {
    let mut terms = Terms::new(store.dialect());
    let (day, id) = (terms.int(day_of(now)), terms.int(source.id.0));
    let (at, why) = (terms.int(now.ms()), terms.text(reason));
    let stop = terms.statement(format!(
        "UPDATE source_usage SET limited_at = {at}, reason = {why}
         WHERE day = {day} AND source_id = {id} AND limited_at IS NULL"
    ));
    if store.change(vec![stop]).await? == 0 {
        return Ok(false);
    }
    let event = NewEvent {
        kind: EventKind::SourceQuota,
        subject: source.uuid.clone(),
        source: Some(source.id),
        payload: serde_json::json!({
            "name": source.spec.name, "bytes": bytes, "until": day_end(now), "reason": reason,
        }),
    };
    store.log_events(vec![event]).await?;
    Ok(true)
}
