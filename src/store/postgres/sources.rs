//! The registry of sources: a source's channels are recurring tasks that it owns.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::log;
use super::takedown::drop_articles;
use crate::db::postgres::{Tx, column, first, rows, run};
use crate::db::{DbError, PgDb, Session, whole_rows};
use crate::frontier::Rules;
use crate::frontier::postgres::{
    SOURCE_COLUMNS, change, int, keep, lock, maybe_code, maybe_ts, named, narrow, now,
    owned_queues, park, parked_queues, queue_ids, read_source, refusals, release, renew_tops,
    rerank, resume, revive, take,
};
use crate::model::{
    Admission, Health, Kind, NewSource, Source, SourceChange, SourceId, Status, TaskId, Ts,
    UrlHash, new_uuid,
};
use crate::store::forms::{
    Rechanneled, Respecified, admitted, holds, inherited, switched, to_spec, warnings, withdrawn,
};
use crate::store::{ChannelState, OutsideHost};

/// Adds a source and its channels; `None` when the name is taken.
pub(super) async fn add(
    db: &PgDb,
    new: &Admission,
    rules: &Rules,
) -> Result<Option<Source>, DbError> {
    let Admission { spec, disabled, first_poll } = new;
    let queues = queues_of(db, &[spec], rules).await?;
    let ids: Vec<i64> = queues.values().copied().collect();
    let mut client = db.client().await?;
    let tx = client.transaction().await?;
    keep(&tx).await?;
    lock(&tx, &ids).await?;
    let now = now(db, &tx).await?;
    let since = |is: bool| is.then_some(now.ms());
    let made = first(
        &tx,
        "INSERT INTO source(uuid, name, url, spec, enabled_at, disabled_at, disable_reason, created_at)
         VALUES($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name) DO NOTHING RETURNING id",
        &[
            &new_uuid(now).to_string(),
            &spec.name,
            &spec.url,
            &to_spec(spec)?,
            &since(disabled.is_none()),
            &since(disabled.is_some()),
            disabled,
            &now.ms(),
        ],
    )
    .await?;
    let Some(row) = made else { return Ok(None) };
    let id = SourceId(int(&row, 0)?);
    let candidates = admitted(spec, id, *first_poll, rules);
    let hashes: Vec<UrlHash> = candidates.iter().map(|new| new.hash).collect();
    let refused = refusals(&tx, &hashes).await?;
    take(&tx, &candidates.iter().collect::<Vec<_>>(), &refused, &queues, now).await?;
    renew_tops(&tx, &ids).await?;
    let source = by_id(&tx, id).await?;
    tx.commit().await?;
    revive(db, &mut client, id).await?;
    Ok(source)
}

/// The queues in which the channels of these are.
async fn queues_of(
    db: &PgDb,
    specs: &[&NewSource],
    rules: &Rules,
) -> Result<HashMap<String, i64>, DbError> {
    let all = specs.iter().flat_map(|spec| admitted(spec, SourceId(0), None, rules));
    let all: Vec<_> = all.collect();
    queue_ids(db, all.iter().map(|one| one.host.as_str()).collect(), rules).await
}

pub(super) async fn by_id<C: Session>(client: &C, id: SourceId) -> Result<Option<Source>, DbError> {
    let sql = format!("SELECT {SOURCE_COLUMNS} FROM source s WHERE id = $1");
    let found = first(client, &sql, &[&id.0]).await?;
    Ok(found.map(|row| read_source(&row, 0)).transpose()?.flatten())
}

/// Those of these sources that are there.
pub(super) async fn by_ids<C: Session>(
    client: &C,
    ids: &[SourceId],
) -> Result<Vec<Source>, DbError> {
    let sql = format!("SELECT {SOURCE_COLUMNS} FROM source s WHERE id = ANY($1::bigint[])");
    let found = rows(client, &sql, &[&column(ids, |id| id.0)]).await?;
    found.iter().filter_map(|row| read_source(row, 0).transpose()).collect()
}

/// The source with this name or id.
async fn by_name<C: Session>(client: &C, name: &str) -> Result<Option<Source>, DbError> {
    let sql = format!(
        "SELECT {SOURCE_COLUMNS} FROM source s WHERE $1 IN (name, uuid)
         ORDER BY (name = $1) DESC LIMIT 1"
    );
    let found = first(client, &sql, &[&name]).await?;
    Ok(found.map(|row| read_source(&row, 0)).transpose()?.flatten())
}

pub(super) async fn list(db: &PgDb) -> Result<Vec<Source>, DbError> {
    let sql = format!("SELECT {SOURCE_COLUMNS} FROM source s ORDER BY name");
    let found = rows(&db.client().await?, &sql, &[]).await?;
    whole_rows("source", found.iter().filter_map(|row| read_source(row, 0).transpose()))
}

pub(super) async fn show(
    db: &PgDb,
    name: &str,
) -> Result<Option<(Source, Vec<ChannelState>)>, DbError> {
    let client = db.client().await?;
    let Some(source) = by_name(&client, name).await? else { return Ok(None) };
    let channels = channels(&client, Some(source.id)).await?;
    Ok(Some((source, channels)))
}

/// The channels of a source, or of all.
pub(super) async fn channels<C: Session>(
    client: &C,
    source: Option<SourceId>,
) -> Result<Vec<ChannelState>, DbError> {
    let (first, last) = source.map_or((0, i64::MAX), |source| (source.0, source.0));
    let found = rows(
        client,
        "SELECT t.id, t.kind, t.url, t.due,
           CASE WHEN t.fetch_count > 0 OR t.status IN (1, 2) THEN t.fetched_at END, f.last_success,
           coalesce(f.failures, 0), coalesce(f.items, 0), x.last_error, x.reason, t.status,
           coalesce(f.health, 0), t.source_id, f.health_at, f.disabled_at, f.warnings,
           f.moved_from
         FROM task t LEFT JOIN feed f ON f.task_id = t.id LEFT JOIN fetch_state x ON x.task_id = t.id
         WHERE t.source_id BETWEEN $1 AND $2 AND t.lane = 0
           AND (t.kind IN ($3::bigint, $4::bigint) OR (t.kind = $5::bigint AND t.depth = 0))
         ORDER BY t.id",
        &[&first, &last, &Kind::Feed.number(), &Kind::Sitemap.number(), &Kind::Listing.number()],
    )
    .await?;
    whole_rows("channel", found.iter().map(read_channel))
}

/// Hosts that pages of a source link to, most links first.
pub(super) async fn outside<C: Session>(
    client: &C,
    source: SourceId,
) -> Result<Vec<OutsideHost>, DbError> {
    let sql = "SELECT host, url, links, first_seen, last_seen FROM outside WHERE source_id = $1
        ORDER BY links DESC, host COLLATE \"C\"";
    let found = rows(client, sql, &[&source.0]).await?;
    let read = |row: &Row| {
        Ok(OutsideHost {
            host: row.try_get(0)?,
            url: row.try_get(1)?,
            links: narrow("count", row, 2)?,
            first_seen: Ts::from_ms(int(row, 3)?),
            last_seen: Ts::from_ms(int(row, 4)?),
        })
    };
    found.iter().map(read).collect()
}

fn read_channel(row: &Row) -> Result<ChannelState, DbError> {
    Ok(ChannelState {
        source: SourceId(int(row, 12)?),
        id: TaskId(int(row, 0)?).to_string(),
        kind: named("kind", row, 1, Kind::from_number)?,
        url: row.try_get(2)?,
        next_fetch_at: Ts::from_ms(int(row, 3)?),
        last_fetched_at: maybe_ts(row, 4)?,
        last_success_at: maybe_ts(row, 5)?,
        failures: narrow("count", row, 6)?,
        items: narrow("count", row, 7)?,
        last_error: maybe_code(row, 8)?,
        reason: row.try_get(9)?,
        status: named("status", row, 10, Status::from_number)?,
        health: named("health", row, 11, Health::from_number)?,
        health_since: maybe_ts(row, 13)?,
        disabled_since: maybe_ts(row, 14)?,
        warnings: warnings(row.try_get(15)?),
        moved_from: row.try_get(16)?,
    })
}

/// Switches a source on or off. On the operator's word that it is followed, what was held against its
/// channels is forgiven: those that only wait for a probe are to be asked again.
pub(super) async fn set_enabled(
    db: &PgDb,
    name: &str,
    disabled: Option<&str>,
) -> Result<Option<(Source, Vec<TaskId>)>, DbError> {
    // A source may have any number of tasks.
    let mut client = db.maintenance().await?;
    let tx = client.transaction().await?;
    change(&tx).await?;
    let Some(source) = by_name(&tx, name).await? else { return Ok(None) };
    let (was, wanted) = (source.enabled(), disabled.is_none());
    let mut queues = owned_queues(&tx, source.id).await?;
    if wanted {
        queues.extend(parked_queues(&tx, source.id).await?);
    }
    lock(&tx, &queues).await?;
    let now = now(db, &tx).await?;
    if was != wanted {
        enable(&tx, source.id, disabled, now).await?;
        match disabled {
            Some(_) => park(&tx, source.id, &queues).await?,
            None => resume(&tx, source.id, &queues, now).await?,
        }
    } else if disabled.is_some() {
        let sql = "UPDATE source SET disable_reason = $2 WHERE id = $1";
        run(&tx, sql, &[&source.id.0, &disabled]).await?;
    }
    let forgiven = if wanted { forgive(&tx, source.id).await? } else { Vec::new() };
    let told = was != wanted || !forgiven.is_empty();
    let switched = [switched(&source, disabled)];
    if told {
        log::append(&tx, &switched, now).await?;
    }
    let changed = by_id(&tx, source.id).await?;
    tx.commit().await?;
    if wanted && revive(db, &mut client, source.id).await? && !told {
        let tx = client.transaction().await?;
        log::append(&tx, &switched, now).await?;
        tx.commit().await?;
    }
    Ok(changed.map(|source| (source, forgiven)))
}

/// Forgets why channels of a source are no longer polled; which those were. Their queues are locked.
async fn forgive(tx: &Tx<'_>, source: SourceId) -> Result<Vec<TaskId>, DbError> {
    let sql = "UPDATE feed SET disabled_at = NULL, failures = 0, version = version + 1
        WHERE disabled_at IS NOT NULL
          AND task_id IN (SELECT id FROM task WHERE source_id = $1 AND lane = 0)
        RETURNING task_id";
    rows(tx, sql, &[&source.0]).await?.iter().map(|row| int(row, 0).map(TaskId)).collect()
}

async fn enable(
    tx: &Tx<'_>,
    source: SourceId,
    disabled: Option<&str>,
    now: Ts,
) -> Result<(), DbError> {
    let since = |is: bool| is.then_some(now.ms());
    run(
        tx,
        "UPDATE source SET enabled_at = $2, disabled_at = $3, disable_reason = $4 WHERE id = $1",
        &[&source.0, &since(disabled.is_none()), &since(disabled.is_some()), &disabled],
    )
    .await?;
    Ok(())
}

/// Changes what an operator says about a source, and its channels with it.
pub(super) async fn respecify(
    db: &PgDb,
    name: &str,
    said: SourceChange,
    rules: &Rules,
) -> Result<Respecified, DbError> {
    let queues = match &said {
        SourceChange::Whole { was, now } => queues_of(db, &[&**was, &**now], rules).await?,
        _ => HashMap::new(),
    };
    let ids: Vec<i64> = queues.values().copied().collect();
    let mut client = db.client().await?;
    let tx = client.transaction().await?;
    change(&tx).await?;
    let Some(mut source) = by_name(&tx, name).await? else { return Ok(Respecified::Unknown) };
    if !holds(&said, &source) {
        return Ok(Respecified::Changed);
    }
    let was = source.spec.clone();
    said.apply(&mut source.spec);
    let spec = &source.spec;
    let taken = "SELECT 1 FROM source WHERE name = $1 AND id <> $2";
    if first(&tx, taken, &[&spec.name, &source.id.0]).await?.is_some() {
        return Ok(Respecified::NameTaken(spec.name.clone()));
    }
    lock(&tx, &ids).await?;
    let now = now(db, &tx).await?;
    run(
        &tx,
        "UPDATE source SET name = $2, url = $3, spec = $4 WHERE id = $1",
        &[&source.id.0, &spec.name, &spec.url, &to_spec(spec)?],
    )
    .await?;
    let channels = Rechanneled::of(&was, spec, source.id, rules);
    release(&tx, source.id, &channels.dropped, &queues).await?;
    let hashes: Vec<UrlHash> = channels.added.iter().map(|new| new.hash).collect();
    let refused = refusals(&tx, &hashes).await?;
    take(&tx, &channels.added.iter().collect::<Vec<_>>(), &refused, &queues, now).await?;
    rerank(&tx, source.id, &channels.reranked, &queues, now).await?;
    renew_tops(&tx, &ids).await?;
    tx.commit().await?;
    Ok(Respecified::Done(Box::new(source)))
}

/// Takes back articles that nobody but this source gave. Whoever had their words stands alone from then
/// on; the keys that they were found by lead nowhere, which does no harm.
pub(super) async fn withdraw(db: &PgDb, name: &str, limit: usize) -> Result<Option<u64>, DbError> {
    let mut client = db.client().await?;
    let tx = client.transaction().await?;
    keep(&tx).await?;
    let Some(source) = by_name(&tx, name).await? else { return Ok(None) };
    // Articles are changed by those who hold the log.
    log::lock(&tx).await?;
    let now = now(db, &tx).await?;
    let sql = "SELECT a.id FROM article a WHERE a.source_id = $1
          AND NOT EXISTS(SELECT 1 FROM task_source r
             WHERE r.task_id = a.task_id AND r.source_id <> a.source_id)
        ORDER BY a.row LIMIT $2";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut ids = Vec::new();
    for row in &rows(&tx, sql, &[&source.id.0, &limit]).await? {
        ids.push(UrlHash::from_bytes(super::read::hash("article", row, 0)?));
    }
    let gone = drop_articles(&tx, &ids).await?;
    let told = gone.iter().map(|(id, gone)| withdrawn(*id, gone.url.as_deref(), &source));
    let events: Vec<_> = told.collect();
    log::append(&tx, &events, now).await?;
    tx.commit().await?;
    Ok(Some(gone.len() as u64))
}

/// Forgets a source. What it owned passes on or is set aside; articles and history stay.
pub(super) async fn remove(db: &PgDb, name: &str) -> Result<Option<Source>, DbError> {
    let mut client = db.maintenance().await?;
    let tx = client.transaction().await?;
    change(&tx).await?;
    let Some(source) = by_name(&tx, name).await? else { return Ok(None) };
    let queues = owned_queues(&tx, source.id).await?;
    lock(&tx, &queues).await?;
    park(&tx, source.id, &queues).await?;
    // Articles are changed by those who hold the log.
    log::lock(&tx).await?;
    for sql in [&inherited("task", "id"), &inherited("article", "task_id")] {
        run(&tx, sql, &[&source.id.0]).await?;
    }
    for sql in [
        "DELETE FROM task_source WHERE source_id = $1",
        "DELETE FROM outside WHERE source_id = $1",
        "DELETE FROM discovery WHERE source_id = $1",
        "DELETE FROM source WHERE id = $1",
    ] {
        run(&tx, sql, &[&source.id.0]).await?;
    }
    tx.commit().await?;
    Ok(Some(source))
}
