//! Rows of the frontier's tables, and the moves between queue and waiting room, many at a time.
//!
//! Whoever changes a queue holds the lock of its head, the row of slot 0. Locks are taken in one
//! statement, in the order of their ids, and before anything is read that they protect.

use std::collections::{BTreeSet, HashMap};

use tokio_postgres::Row;

use crate::db::postgres::{Num, Tx, column, rows, run};
use crate::db::{Conn, DbError, PgDb, Session, whole_rows};
use crate::frontier::fairness::site_number;
use crate::frontier::rulings::priority;
use crate::frontier::{Pace, Rules};
use crate::model::{Code, Kind, Lane, Origin, Source, SourceId, Status, Task, TaskId, Ts, UrlHash};

/// The columns that [`read_task`] reads, from `task t` with [`TASK_JOINS`].
pub(super) const TASK_COLUMNS: &str = "t.id, t.url, t.url_key, h.name, t.kind, t.origin, \
    t.source_id, s.uuid, t.status, l.id IS NOT NULL, t.prio, t.depth, t.due, \
    CASE WHEN t.fetch_count > 0 OR t.status IN (1, 2) THEN t.fetched_at END, t.fetch_count, t.retry, f.last_error, f.reason, t.discovered_at, t.redirects";

/// What else they come from.
pub(super) const TASK_JOINS: &str = "JOIN host h ON h.id = t.host_id \
    LEFT JOIN host l ON l.queue_id = t.host_id AND l.lease_task = t.id \
    LEFT JOIN source s ON s.id = t.source_id LEFT JOIN fetch_state f ON f.task_id = t.id";

/// The columns that [`read_source`] reads.
pub(crate) const SOURCE_COLUMNS: &str =
    "s.id, s.uuid, s.spec, s.enabled_at, s.disable_reason, s.created_at, s.disabled_at";

/// The store's time.
pub(crate) async fn now<C: Session>(db: &PgDb, client: &C) -> Result<Ts, DbError> {
    Ok(Ts::from_ms(db.now(client).await?))
}

/// A whole number.
pub(crate) fn int(row: &Row, at: usize) -> Result<i64, DbError> {
    Ok(row.try_get::<_, Num>(at)?.0)
}

/// A whole number that may be missing.
pub(crate) fn maybe(row: &Row, at: usize) -> Result<Option<i64>, DbError> {
    Ok(row.try_get::<_, Option<Num>>(at)?.map(|number| number.0))
}

/// A time that may be missing.
pub(crate) fn maybe_ts(row: &Row, at: usize) -> Result<Option<Ts>, DbError> {
    Ok(maybe(row, at)?.map(Ts::from_ms))
}

/// A number that has to fit a narrower type.
pub(crate) fn narrow<T: TryFrom<i64>>(
    what: &'static str,
    row: &Row,
    at: usize,
) -> Result<T, DbError> {
    let number = int(row, at)?;
    T::try_from(number).map_err(|_| DbError::Corrupt { what, value: number.to_string() })
}

/// The enum behind a number, or the news that the row was not written by us.
pub(crate) fn named<T>(
    what: &'static str,
    row: &Row,
    at: usize,
    from: impl Fn(i64) -> Option<T>,
) -> Result<T, DbError> {
    let number = int(row, at)?;
    from(number).ok_or_else(|| DbError::Corrupt { what, value: number.to_string() })
}

/// The code in a column that may be empty.
pub(crate) fn maybe_code(row: &Row, at: usize) -> Result<Option<Code>, DbError> {
    maybe(row, at)?.map(|_| named("code", row, at, Code::from_number)).transpose()
}

/// A task, from the columns that start at `from`.
pub(super) fn read_task(row: &Row, from: usize) -> Result<Task, DbError> {
    let url: String = row.try_get(from + 1)?;
    let url_key: Option<String> = row.try_get(from + 2)?;
    let url_key = url_key.unwrap_or_else(|| url.clone());
    Ok(Task {
        id: TaskId(int(row, from)?),
        url_hash: UrlHash::of(&url_key),
        url,
        url_key,
        host: row.try_get(from + 3)?,
        kind: named("kind", row, from + 4, Kind::from_number)?,
        origin: named("origin", row, from + 5, Origin::from_number)?,
        source: maybe(row, from + 6)?.map(SourceId),
        source_id: row.try_get(from + 7)?,
        status: named("status", row, from + 8, Status::from_number)?,
        leased: row.try_get(from + 9)?,
        priority: narrow("priority", row, from + 10)?,
        depth: narrow("depth", row, from + 11)?,
        next_fetch_at: Ts::from_ms(int(row, from + 12)?),
        last_fetched_at: maybe_ts(row, from + 13)?,
        fetch_count: narrow("count", row, from + 14)?,
        retry_count: narrow("count", row, from + 15)?,
        last_error: maybe_code(row, from + 16)?,
        reason: row.try_get(from + 17)?,
        discovered_at: Ts::from_ms(int(row, from + 18)?),
        redirects: narrow("count", row, from + 19)?,
    })
}

/// A source, from the columns that start at `from`; `None` when they are empty.
pub(crate) fn read_source(row: &Row, from: usize) -> Result<Option<Source>, DbError> {
    let Some(id) = maybe(row, from)? else { return Ok(None) };
    let spec: &str = row.try_get(from + 2)?;
    Ok(Some(Source {
        id: SourceId(id),
        uuid: row.try_get(from + 1)?,
        spec: serde_json::from_str(spec)
            .map_err(|error| DbError::Corrupt { what: "source", value: error.to_string() })?,
        enabled_at: maybe_ts(row, from + 3)?,
        disable_reason: row.try_get(from + 4)?,
        created_at: Ts::from_ms(int(row, from + 5)?),
        disabled_at: maybe_ts(row, from + 6)?,
    }))
}

/// The columns that [`read_pace`] reads.
pub(super) const PACE_COLUMNS: &str =
    "crawl_ms, rate_ms, learned_ms, blocked_until, slow_ms, blocked_by";

/// A pace, from the columns that start at `from`.
pub(super) fn read_pace(row: &Row, from: usize) -> Result<Pace, DbError> {
    Ok(Pace {
        crawl_ms: maybe(row, from)?,
        rate_ms: maybe(row, from + 1)?,
        learned_ms: int(row, from + 2)?,
        blocked_until: Ts::from_ms(int(row, from + 3)?),
        slow_ms: int(row, from + 4)?,
        blocked_by: maybe(row, from + 5)?.map(TaskId),
    })
}

/// The queues of these names, made where they are missing. They are there for good before the
/// caller's transaction begins, so that its locks are all of one kind.
pub(crate) async fn queue_ids(
    db: &PgDb,
    names: BTreeSet<&str>,
    rules: &Rules,
) -> Result<HashMap<String, i64>, DbError> {
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    queue_ids_on(db, &mut db.client().await?, names, rules).await
}

/// The same for somebody who has a connection.
pub(super) async fn queue_ids_on(
    db: &PgDb,
    client: &mut Conn,
    names: BTreeSet<&str>,
    rules: &Rules,
) -> Result<HashMap<String, i64>, DbError> {
    let mut found = known_queues(client, names.iter().copied().collect()).await?;
    let missing: Vec<&str> = names.into_iter().filter(|name| !found.contains_key(*name)).collect();
    if missing.is_empty() {
        return Ok(found);
    }
    let now = now(db, client).await?;
    let tx = client.transaction().await?;
    let slots = i32::try_from(rules.concurrency.max(1)).unwrap_or(i32::MAX);
    run(
        &tx,
        "INSERT INTO host(id, queue_id, name, concurrency, next_at, created_at, site)
         SELECT n.id, n.id, n.name, $2::integer, $3::bigint, $3::bigint, n.site
         FROM (SELECT nextval('host_id') AS id, name, site
           FROM unnest($1::text[], $4::bigint[]) AS n(name, site)) n
         ON CONFLICT (name, slot) DO NOTHING",
        &[&missing, &slots, &now.ms(), &column(&missing, |name| site_number(name))],
    )
    .await?;
    let made = known_queues(&tx, missing).await?;
    fit_slots(&tx, &made.values().copied().collect::<Vec<_>>()).await?;
    tx.commit().await?;
    found.extend(made);
    Ok(found)
}

async fn known_queues<C: Session>(
    client: &C,
    names: Vec<&str>,
) -> Result<HashMap<String, i64>, DbError> {
    let sql = "SELECT name, id FROM host WHERE slot = 0 AND name = ANY($1::text[])";
    let found = rows(client, sql, &[&names]).await?;
    found.iter().map(|row| Ok((row.try_get(0)?, int(row, 1)?))).collect()
}

/// Gives queues as many slots as their heads say; a slot that is under way goes once it is free.
pub(super) async fn fit_slots(tx: &Tx<'_>, queues: &[i64]) -> Result<(), DbError> {
    run(
        tx,
        "INSERT INTO host(queue_id, slot, name, concurrency, next_at, created_at, top_poll, top_page,
           top_media, crawl_ms, rate_ms, learned_ms, slow_ms, blocked_until, blocked_by,
           site, owner)
         SELECT h.id, n, h.name, h.concurrency, greatest(h.created_at, h.blocked_until), h.created_at,
           h.top_poll, h.top_page, h.top_media, h.crawl_ms, h.rate_ms, h.learned_ms, h.slow_ms, h.blocked_until,
           h.blocked_by, h.site, h.owner
         FROM host h CROSS JOIN generate_series(1, h.concurrency - 1) AS n
         WHERE h.id = ANY($1::bigint[]) AND h.slot = 0 ON CONFLICT (name, slot) DO NOTHING",
        &[&queues],
    )
    .await?;
    drop_spare_slots(tx, queues).await
}

/// Removes slots beyond a queue's concurrency that nobody holds.
pub(super) async fn drop_spare_slots(tx: &Tx<'_>, queues: &[i64]) -> Result<(), DbError> {
    run(
        tx,
        "DELETE FROM host USING host q WHERE host.queue_id = ANY($1::bigint[]) AND q.id = host.queue_id
           AND host.slot >= q.concurrency AND host.lease_id IS NULL",
        &[&queues],
    )
    .await?;
    Ok(())
}

/// Takes the locks of these queues. Everything that they protect has to be read after this.
pub(crate) async fn lock(tx: &Tx<'_>, queues: &[i64]) -> Result<(), DbError> {
    lock_held(tx, queues, &[]).await?;
    Ok(())
}

/// Takes the locks of these queues and of those that these leases hold; all that were taken.
pub(crate) async fn lock_held(
    tx: &Tx<'_>,
    queues: &[i64],
    leases: &[i64],
) -> Result<Vec<i64>, DbError> {
    let sql = "SELECT id FROM host WHERE id = ANY($1::bigint[]
          || ARRAY(SELECT queue_id FROM host WHERE lease_id = ANY($2::bigint[])))
        ORDER BY id FOR NO KEY UPDATE";
    rows(tx, sql, &[&queues, &leases]).await?.iter().map(|row| int(row, 0)).collect()
}

/// A task's place, as far as moving it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) task: i64,
    pub(crate) queue: i64,
    pub(crate) lane: Lane,
    pub(crate) prio: i64,
    pub(crate) due: i64,
    pub(crate) kind: Kind,
    pub(crate) status: Status,
}

/// Where these tasks stand.
pub(crate) async fn places(tx: &Tx<'_>, tasks: &[i64]) -> Result<HashMap<i64, Place>, DbError> {
    let sql =
        "SELECT id, host_id, lane, prio, due, kind, status FROM task WHERE id = ANY($1::bigint[])";
    let found = rows(tx, sql, &[&tasks]).await?;
    whole_rows("task", found.iter().map(|row| read_place(row).map(|place| (place.task, place))))
}

/// A place, from its seven columns.
pub(super) fn read_place(row: &Row) -> Result<Place, DbError> {
    Ok(Place {
        task: int(row, 0)?,
        queue: int(row, 1)?,
        lane: named("lane", row, 2, Lane::from_number)?,
        prio: named("priority", row, 3, priority)?,
        due: int(row, 4)?,
        kind: named("kind", row, 5, Kind::from_number)?,
        status: named("status", row, 6, Status::from_number)?,
    })
}

/// Puts pending tasks where they belong: into the queue when they are due, else to the waiting
/// ones. The caller renews the tops.
pub(super) async fn enqueue(tx: &Tx<'_>, places: &[Place], now: Ts) -> Result<(), DbError> {
    if places.is_empty() {
        return Ok(());
    }
    run(
        tx,
        "WITH p AS (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
             AS p(host_id, lane, nprio, due, task_id)),
           d AS (INSERT INTO delayed(due, task_id) SELECT due, task_id FROM p WHERE due > $6
             ON CONFLICT DO NOTHING)
         INSERT INTO queue(host_id, lane, nprio, due, task_id)
         SELECT host_id, lane, nprio, due, task_id FROM p WHERE due <= $6 ON CONFLICT DO NOTHING",
        &[
            &column(places, |place| place.queue),
            &column(places, |place| place.lane.number()),
            &column(places, |place| 10 - place.prio),
            &column(places, |place| place.due),
            &column(places, |place| place.task),
            &now.ms(),
        ],
    )
    .await?;
    Ok(())
}

/// Takes tasks out of queue and waiting room; the caller renews the tops.
pub(super) async fn dequeue(tx: &Tx<'_>, places: &[Place]) -> Result<(), DbError> {
    if places.is_empty() {
        return Ok(());
    }
    run(
        tx,
        "WITH p AS (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
             AS p(host_id, lane, nprio, due, task_id)),
           d AS (DELETE FROM delayed d USING p WHERE d.due = p.due AND d.task_id = p.task_id)
         DELETE FROM queue q USING p WHERE q.host_id = p.host_id AND q.lane = p.lane
           AND q.nprio = p.nprio AND q.due = p.due AND q.task_id = p.task_id",
        &[
            &column(places, |place| place.queue),
            &column(places, |place| place.lane.number()),
            &column(places, |place| 10 - place.prio),
            &column(places, |place| place.due),
            &column(places, |place| place.task),
        ],
    )
    .await?;
    Ok(())
}

/// What each slot could serve, by lane: the queue without what other slots are serving.
fn tops(of: &str) -> String {
    let top = |lane: Lane| {
        format!(
            "(SELECT 10 - q.nprio FROM queue q WHERE q.host_id = x.queue_id AND q.lane = {}
               AND NOT EXISTS(SELECT 1 FROM host o WHERE o.queue_id = x.queue_id AND o.id <> x.id
                 AND o.lease_task = q.task_id) ORDER BY q.nprio LIMIT 1)",
            lane.number()
        )
    };
    let [poll, page, media] = [Lane::Poll, Lane::Page, Lane::Media].map(top);
    format!(
        "SELECT x.id, x.queue_id, {poll} AS poll, {page} AS page, {media} AS media FROM host x {of}"
    )
}

/// Computes the tops of these queues anew; how many slots had others.
pub(crate) async fn renew_tops(tx: &Tx<'_>, queues: &[i64]) -> Result<u64, DbError> {
    if queues.is_empty() {
        return Ok(0);
    }
    let sql = format!(
        "UPDATE host h SET top_poll = t.poll, top_page = t.page, top_media = t.media
         FROM ({}) t WHERE h.id = t.id
           AND (h.top_poll, h.top_page, h.top_media) IS DISTINCT FROM (t.poll, t.page, t.media)",
        tops("WHERE x.queue_id = ANY($1::bigint[])")
    );
    run(tx, &sql, &[&queues]).await
}

/// The safety net: a slot whose tops do not match its queue would starve or spin.
pub(super) async fn repair(db: &PgDb) -> Result<u64, DbError> {
    let mut client = db.maintenance().await?;
    let sql = format!(
        "SELECT DISTINCT h.queue_id FROM host h JOIN ({}) t ON t.id = h.id
         WHERE (h.top_poll, h.top_page, h.top_media) IS DISTINCT FROM (t.poll, t.page, t.media)",
        tops("")
    );
    let found = rows(&client, &sql, &[]).await?;
    let wrong: Vec<i64> = found.iter().map(|row| int(row, 0)).collect::<Result<_, _>>()?;
    if wrong.is_empty() {
        return Ok(0);
    }
    let tx = client.transaction().await?;
    lock(&tx, &wrong).await?;
    let mended = renew_tops(&tx, &wrong).await?;
    tx.commit().await?;
    Ok(mended)
}
