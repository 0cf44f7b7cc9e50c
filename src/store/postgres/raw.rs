//! The index of the archive, and what is read in it again.

use std::collections::HashSet;

use tokio_postgres::Row;

use super::keep::write_entries;
use super::outbox::send_damaged_again;
use super::{article, log, read};
use crate::db::postgres::{Given, Tx, column, rows, run};
use crate::db::{DbError, PgDb, whole_rows};
use crate::frontier::Rules;
use crate::frontier::postgres::{int, lock, maybe, named, narrow, now, queue_ids, refusals};
use crate::model::{
    Code, EntryFact, EntryId, EntryRow, FetchId, FetchRecord, Kind, RawRef, TaskId, Ts,
};
use crate::store::apply;
use crate::store::forms::uid_key;
use crate::store::raw::{FetchFilter, MovedRaw, Reread, SegmentUse, first_id, from_index};
use crate::store::takedown::{addresses_read, strip_read};

pub(super) const FETCH_COLUMNS: &str = "f.id, f.task_id, f.at, f.url, f.status, f.code, f.bytes, \
    f.elapsed_ms, f.content_type, f.body_sha256, f.segment, f.\"offset\", f.length";

pub(super) fn read_fetch(row: &Row) -> Result<FetchRecord, DbError> {
    let raw = match row.try_get(10)? {
        Some(segment) => Some(RawRef {
            segment,
            offset: narrow("offset", row, 11)?,
            length: narrow("length", row, 12)?,
        }),
        None => None,
    };
    Ok(FetchRecord {
        id: FetchId::from_bytes(read::hash("fetch", row, 0)?),
        task: from_index(int(row, 1)?),
        at: Ts::from_ms(int(row, 2)?),
        url: row.try_get(3)?,
        status: maybe(row, 4)?.map(|_| narrow("status", row, 4)).transpose()?,
        code: named("code", row, 5, Code::from_number)?,
        bytes: narrow("bytes", row, 6)?,
        elapsed_ms: narrow("time", row, 7)?,
        content_type: row.try_get(8)?,
        body_sha256: row.try_get(9)?,
        raw,
    })
}

pub(super) async fn find(db: &PgDb, filter: &FetchFilter) -> Result<Vec<FetchRecord>, DbError> {
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let source = filter.source.map(|source| source.0);
    let bound = |at: Option<Ts>| at.map(|at| first_id(at).as_bytes().to_vec());
    let (since, until) = (bound(filter.since), bound(filter.until));
    let after = filter.after.map(|id| id.as_bytes().to_vec());
    let ids = column(&filter.ids, |id| id.as_bytes().as_slice());
    let mut given: Vec<Given<'_>> = vec![&limit];
    let mut conditions = vec!["true".to_owned()];
    let owned = "f.task_id IN (SELECT id FROM task WHERE source_id = ?)";
    let of_host = "f.task_id IN (SELECT t.id FROM task t JOIN host h ON h.id = t.host_id
          WHERE h.name = ? AND h.slot = 0)";
    let terms: [(bool, &str, Given<'_>); 7] = [
        (filter.segment.is_some(), "f.segment = ?", &filter.segment),
        (source.is_some(), owned, &source),
        (filter.host.is_some(), of_host, &filter.host),
        (since.is_some(), "f.id >= ?", &since),
        (until.is_some(), "f.id < ?", &until),
        (after.is_some(), "f.id > ?", &after),
        (!filter.ids.is_empty(), "f.id = ANY(?::bytea[])", &ids),
    ];
    for (_, condition, value) in terms.into_iter().filter(|(wanted, ..)| *wanted) {
        given.push(value);
        conditions.push(condition.replace('?', &format!("${}", given.len())));
    }
    if filter.kept {
        conditions.push("f.segment IS NOT NULL".to_owned());
    }
    let sql = format!(
        "SELECT {FETCH_COLUMNS} FROM \"fetch\" f WHERE {} ORDER BY f.id LIMIT $1",
        conditions.join(" AND ")
    );
    let found = rows(&db.client().await?, &sql, &given).await?;
    whole_rows("fetch", found.iter().map(read_fetch))
}

pub(super) async fn entries_since(
    db: &PgDb,
    feed: TaskId,
    fetch: FetchId,
) -> Result<Vec<(EntryId, FetchId)>, DbError> {
    let sql = "SELECT id, fetch_id FROM entry WHERE feed_id = $1 AND fetch_id >= $2";
    let read = |row: &Row| {
        let id = EntryId(read::hash("entry", row, 0)?);
        Ok((id, FetchId::from_bytes(read::hash("fetch", row, 1)?)))
    };
    let given: [Given<'_>; 2] = [&feed.0, &fetch.as_bytes().as_slice()];
    whole_rows("entry", rows(&db.client().await?, sql, &given).await?.iter().map(read))
}

pub(super) async fn segments(db: &PgDb) -> Result<Vec<SegmentUse>, DbError> {
    let sql = "SELECT segment, count(*), max(at) FROM \"fetch\" WHERE segment IS NOT NULL
        GROUP BY segment ORDER BY segment COLLATE \"C\"";
    let read = |row: &Row| {
        Ok(SegmentUse {
            segment: row.try_get(0)?,
            records: narrow("count", row, 1)?,
            last: Ts::from_ms(int(row, 2)?),
        })
    };
    rows(&db.client().await?, sql, &[]).await?.iter().map(read).collect()
}

/// Those in a segment that are among the last `per_feed` documents of their feed.
pub(super) async fn needed(
    db: &PgDb,
    segment: &str,
    per_feed: u32,
) -> Result<Vec<FetchRecord>, DbError> {
    let sql = format!(
        "SELECT {FETCH_COLUMNS} FROM \"fetch\" f JOIN task t ON t.id = f.task_id AND t.kind = $2
         WHERE f.segment = $1 AND f.status = 200 AND $3 > (SELECT count(*) FROM
           (SELECT 1 FROM \"fetch\" g WHERE g.task_id = f.task_id AND g.at > f.at AND g.status = 200
              AND g.segment IS NOT NULL LIMIT $3) later)
         ORDER BY f.\"offset\""
    );
    let kind = i16::try_from(Kind::Feed.number()).unwrap_or(i16::MAX);
    let given: [Given<'_>; 3] = [&segment, &kind, &i64::from(per_feed)];
    let found = rows(&db.client().await?, &sql, &given).await?;
    whole_rows("fetch", found.iter().map(read_fetch))
}

pub(super) async fn move_raw(db: &PgDb, moved: &[MovedRaw]) -> Result<(), DbError> {
    let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    run(
        &db.client().await?,
        "UPDATE \"fetch\" f SET segment = w.segment, \"offset\" = w.place, length = w.length
         FROM unnest($1::bytea[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
           AS w(id, was, segment, place, length) WHERE f.id = w.id AND f.segment = w.was",
        &[
            &column(moved, |one| one.fetch.as_bytes().as_slice()),
            &column(moved, |one| one.from.as_str()),
            &column(moved, |one| one.to.segment.as_str()),
            &column(moved, |one| long(one.to.offset)),
            &column(moved, |one| long(one.to.length)),
        ],
    )
    .await?;
    Ok(())
}

/// Notes that bytes of a segment are no longer kept, of so many fetches; how many there were.
pub(super) async fn forget(
    db: &PgDb,
    segment: &str,
    kept: u64,
    limit: usize,
) -> Result<u64, DbError> {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    run(
        &db.client().await?,
        "UPDATE \"fetch\" SET segment = NULL, \"offset\" = NULL, length = NULL WHERE id IN
           (SELECT id FROM \"fetch\" WHERE segment = $1 AND \"offset\" + length > $3 LIMIT $2)",
        &[&segment, &number(limit as u64), &number(kept)],
    )
    .await
}

/// Keeps what was read again, where it is different and nothing later is kept; how many changed.
/// Locks are taken as a commit takes them: the feed's queue, and for an article the log.
pub(super) async fn reread(db: &PgDb, read: &Reread, rules: &Rules) -> Result<u64, DbError> {
    let task = &read.task;
    let queues = queue_ids(db, [task.host.as_str()].into(), rules).await?;
    let mut client = db.client().await?;
    let tx = client.transaction().await?;
    lock(&tx, &queues.values().copied().collect::<Vec<_>>()).await?;
    let now = now(db, &tx).await?;
    let read = &strip_read(read, &refusals(&tx, &addresses_read(read)).await?);
    let mut events = Vec::new();
    let ids: Vec<_> = read.entries.iter().map(|(_, fact)| fact.id).collect();
    let restored = restore_entry_ids(&tx, read).await?;
    let (mut known, mut damaged) = read::checked_entries(&tx, &ids).await?;
    let is_lost = |id: &&EntryId| !known.contains_key(id) || restored.contains(id);
    let mended: Vec<String> = ids.iter().filter(is_lost).map(ToString::to_string).collect();
    let mut changed: Vec<(EntryRow, &EntryFact)> = Vec::new();
    for (at, fact) in &read.entries {
        if let Some(damage) = damaged.remove(&fact.id) {
            let (row, event) =
                apply::entry_mended(damage.left, fact, task.id, task.source, *at, now);
            changed.push((row, fact));
            events.extend(event);
            continue;
        }
        let previous = known.remove(&fact.id);
        if let Some((row, event)) =
            apply::entry_again(previous, fact, task.id, task.source, *at, now)
        {
            changed.push((row, fact));
            events.push(event);
        }
    }
    write_entries(&tx, &changed).await?;
    send_damaged_again(&tx, &mended).await?;
    let mut count = (changed.len() + restored.len()) as u64;
    if let Some((at, fact)) = &read.article {
        let (is_changed, event) = article::put_again(&tx, fact, *at, now).await?;
        count += u64::from(is_changed);
        events.extend(event);
    }
    log::append(&tx, &events, now).await?;
    tx.commit().await?;
    Ok(count)
}

/// Gives the rows of entries their ids back where those are what was damaged; which ones.
async fn restore_entry_ids(tx: &Tx<'_>, read: &Reread) -> Result<HashSet<EntryId>, DbError> {
    let facts = &read.entries;
    let found = rows(
        tx,
        "UPDATE entry e SET id = w.id
         FROM unnest($1::bytea[], $2::bigint[]) AS w(id, uid)
         WHERE e.uid = w.uid AND e.feed_id = $3 AND e.id <> w.id
           AND NOT EXISTS(SELECT 1 FROM entry o WHERE o.id = w.id)
         RETURNING e.id",
        &[
            &column(facts, |(_, fact)| fact.id.0.as_slice()),
            &column(facts, |(_, fact)| uid_key(&fact.entry.uid)),
            &read.task.id.0,
        ],
    )
    .await?;
    found.iter().map(|row| Ok(EntryId(read::hash("entry", row, 0)?))).collect()
}
