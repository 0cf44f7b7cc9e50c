//! Rows of the frontier's tables, and the small moves between queue and waiting room.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::db::DbError;
use crate::frontier::fairness::site_number;
use crate::frontier::rulings::{CHANNEL, Teller, priority};
use crate::frontier::{Candidate, Pace, Rules};
use crate::model::{Code, Kind, Lane, Origin, Source, SourceId, Status, Task, TaskId, Ts, UrlHash};

/// The columns that [`read_task`] reads, from `task t` and `fetch_state f`; the names of host and
/// source and what tells a lease differ, because a claim knows them and a listing has to look.
macro_rules! task_columns {
    ($host:literal, $source:literal, $leased:literal) => {
        concat!(
            "t.id, t.url, t.url_key, ",
            $host,
            ", t.kind, t.origin, t.source_id, ",
            $source,
            ", t.status, ",
            $leased,
            ", t.prio, t.depth, t.due, CASE WHEN t.fetch_count > 0 OR t.status IN (1, 2) ",
            "THEN t.fetched_at END, t.fetch_count, t.retry, f.last_error, ",
            "f.reason, t.discovered_at, f.etag, f.last_modified, f.validators_for, t.redirects"
        )
    };
}
pub(super) use task_columns;

/// The columns of a task in a listing.
pub(super) const TASK_COLUMNS: &str = task_columns!(
    "h.name",
    "s.uuid",
    "EXISTS(SELECT 1 FROM host l WHERE l.queue_id = t.host_id AND l.lease_task = t.id)"
);

/// Where they come from.
pub(super) const TASK_FROM: &str = "task t JOIN host h ON h.id = t.host_id \
    LEFT JOIN source s ON s.id = t.source_id LEFT JOIN fetch_state f ON f.task_id = t.id";

/// The enum behind a number, or the news that the file was not written by us.
pub(crate) fn number<T>(
    what: &'static str,
    number: i64,
    from: impl Fn(i64) -> Option<T>,
) -> Result<T, DbError> {
    from(number).ok_or_else(|| DbError::Corrupt { what, value: number.to_string() })
}

pub(super) fn read_task(row: &Row<'_>) -> Result<Task, DbError> {
    let url: String = row.get(1)?;
    let url_key: Option<String> = row.get(2)?;
    let url_key = url_key.unwrap_or_else(|| url.clone());
    let last_error: Option<i64> = row.get(16)?;
    Ok(Task {
        id: TaskId(row.get(0)?),
        url_hash: UrlHash::of(&url_key),
        url,
        url_key,
        host: row.get(3)?,
        kind: number("kind", row.get(4)?, Kind::from_number)?,
        origin: number("origin", row.get(5)?, Origin::from_number)?,
        source: row.get::<_, Option<i64>>(6)?.map(SourceId),
        // Damage of its source is not its own.
        source_id: row.get(7).unwrap_or_default(),
        status: number("status", row.get(8)?, Status::from_number)?,
        leased: row.get(9)?,
        priority: row.get(10)?,
        depth: row.get(11)?,
        next_fetch_at: Ts::from_ms(row.get(12)?),
        last_fetched_at: row.get::<_, Option<i64>>(13)?.map(Ts::from_ms),
        fetch_count: row.get(14)?,
        retry_count: row.get(15)?,
        last_error: last_error.map(|code| number("code", code, Code::from_number)).transpose()?,
        reason: row.get(17)?,
        discovered_at: Ts::from_ms(row.get(18)?),
        redirects: row.get(22)?,
    })
}

/// The columns that [`read_source`] reads.
pub(crate) const SOURCE_COLUMNS: &str =
    "id, uuid, spec, enabled_at, disable_reason, created_at, disabled_at";

/// A source from its row.
pub(crate) fn read_source(row: &Row<'_>) -> Result<Source, DbError> {
    let spec: String = row.get(2)?;
    Ok(Source {
        id: SourceId(row.get(0)?),
        uuid: row.get(1)?,
        spec: serde_json::from_str(&spec)
            .map_err(|error| DbError::Corrupt { what: "source", value: error.to_string() })?,
        enabled_at: row.get::<_, Option<i64>>(3)?.map(Ts::from_ms),
        disable_reason: row.get(4)?,
        created_at: Ts::from_ms(row.get(5)?),
        disabled_at: row.get::<_, Option<i64>>(6)?.map(Ts::from_ms),
    })
}

/// The source in that row.
pub(super) fn load_source(conn: &Connection, id: SourceId) -> Result<Option<Source>, DbError> {
    let mut select =
        conn.prepare_cached(&format!("SELECT {SOURCE_COLUMNS} FROM source WHERE id = ?1"))?;
    let mut rows = select.query([id.0])?;
    rows.next()?.map(read_source).transpose()
}

/// The columns that [`read_host`] reads.
macro_rules! host_columns {
    () => {
        "h.id, h.queue_id, h.name, h.concurrency, h.top_poll, h.top_page, h.top_media, \
         h.last_lane, h.lease_task, h.crawl_ms, h.rate_ms, h.learned_ms, h.blocked_until, \
         h.slow_ms, h.next_at, h.site, h.owner, h.blocked_by"
    };
}
pub(super) use host_columns;

/// How many these are: what a query selects beside them comes after.
pub(super) const HOST_WIDTH: usize = 18;

/// A slot of a host: the head of its queue, and its lease.
#[derive(Debug)]
pub(super) struct HostRow {
    pub(super) id: i64,
    pub(super) queue: i64,
    pub(super) name: String,
    pub(super) concurrency: u32,
    pub(super) tops: [Option<i64>; 3],
    pub(super) last_lane: Option<Lane>,
    pub(super) lease_task: Option<i64>,
    pub(super) pace: Pace,
    /// When it may be used again; the end of its lease while it has one.
    pub(super) next_at: Ts,
    /// The number of its site, 0 while it is not known.
    pub(super) site: i64,
    /// The source of its first task when it was last looked at, 0 while it is not known.
    pub(super) owner: i64,
}

impl HostRow {
    /// Whether its queue may have other slots.
    pub(super) const fn is_shared(&self) -> bool {
        self.concurrency > 1 || self.id != self.queue
    }
}

pub(super) fn read_host(row: &Row<'_>) -> rusqlite::Result<HostRow> {
    Ok(HostRow {
        id: row.get(0)?,
        queue: row.get(1)?,
        name: row.get(2)?,
        concurrency: row.get(3)?,
        tops: [row.get(4)?, row.get(5)?, row.get(6)?],
        last_lane: row.get::<_, Option<i64>>(7)?.and_then(Lane::from_number),
        lease_task: row.get(8)?,
        pace: Pace {
            crawl_ms: row.get(9)?,
            rate_ms: row.get(10)?,
            learned_ms: row.get(11)?,
            blocked_until: Ts::from_ms(row.get(12)?),
            slow_ms: row.get(13)?,
            blocked_by: row.get::<_, Option<i64>>(17)?.map(TaskId),
        },
        next_at: Ts::from_ms(row.get(14)?),
        site: row.get(15)?,
        owner: row.get(16)?,
    })
}

pub(super) fn load_host(conn: &Connection, id: i64) -> Result<HostRow, DbError> {
    let sql = concat!("SELECT ", host_columns!(), " FROM host h WHERE h.id = ?1");
    Ok(conn.prepare_cached(sql)?.query_row([id], read_host)?)
}

/// The queue of a host, made with its slots when it is not there.
pub(super) fn queue_of(
    conn: &Connection,
    name: &str,
    now: Ts,
    rules: &Rules,
) -> Result<i64, DbError> {
    let known = conn
        .prepare_cached("SELECT id FROM host WHERE name = ?1 AND slot = 0")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    conn.prepare_cached(
        // It waits from now on, and not longer than those that have waited before.
        "INSERT INTO host(id, queue_id, name, next_at, created_at, site)
         SELECT n, n, ?1, ?2, ?2, ?3 FROM (SELECT coalesce(max(id), 0) + 1 AS n FROM host)",
    )?
    .execute((name, now.ms(), site_number(name)))?;
    let queue = conn.last_insert_rowid();
    if rules.concurrency > 1 {
        set_slots(conn, queue, rules.concurrency)?;
    }
    Ok(queue)
}

/// Gives a queue that many slots. A slot that is too many and under way goes when it is released.
pub(super) fn set_slots(conn: &Connection, queue: i64, slots: u32) -> Result<(), DbError> {
    for slot in 1..slots {
        conn.execute(
            "INSERT OR IGNORE INTO host(queue_id, name, slot, top_poll, top_page, top_media,
               crawl_ms, rate_ms, learned_ms, slow_ms, blocked_until, blocked_by, next_at, created_at,
               site, owner)
             SELECT queue_id, name, ?2, top_poll, top_page, top_media, crawl_ms, rate_ms,
               learned_ms, slow_ms, blocked_until, blocked_by, blocked_until, created_at, site, owner
             FROM host WHERE id = ?1",
            (queue, slot),
        )?;
    }
    conn.execute("UPDATE host SET concurrency = ?2 WHERE queue_id = ?1", (queue, slots))?;
    drop_spare_slots(conn, queue)
}

/// Removes slots beyond a queue's concurrency that nobody holds.
pub(super) fn drop_spare_slots(conn: &Connection, queue: i64) -> Result<(), DbError> {
    conn.prepare_cached(
        "DELETE FROM host WHERE queue_id = ?1 AND slot >= concurrency AND lease_id IS NULL",
    )?
    .execute([queue])?;
    Ok(())
}

/// The column of `host` that holds a lane's highest queued priority.
pub(super) const fn top_column(lane: Lane) -> &'static str {
    match lane {
        Lane::Poll => "top_poll",
        Lane::Page => "top_page",
        Lane::Media => "top_media",
    }
}

/// A task's place, as far as moving it needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) task: i64,
    pub(super) queue: i64,
    pub(super) lane: Lane,
    pub(super) prio: i64,
    pub(super) due: i64,
}

/// Puts a pending task where it belongs: into the queue when it is due, else to the waiting ones.
pub(super) fn enqueue(conn: &Connection, place: Place, now: Ts) -> Result<(), DbError> {
    if put_in_line(conn, place, now)? {
        raise_top(conn, place.queue, place.lane, place.prio)?;
    }
    Ok(())
}

/// The same without the host's top, for those who raise it once for many; true when it is queued.
pub(super) fn put_in_line(conn: &Connection, place: Place, now: Ts) -> Result<bool, DbError> {
    let Place { task, queue, lane, prio, due } = place;
    if due > now.ms() {
        conn.prepare_cached("INSERT OR IGNORE INTO delayed(due, task_id) VALUES(?1, ?2)")?
            .execute((due, task))?;
        return Ok(false);
    }
    conn.prepare_cached(
        "INSERT OR IGNORE INTO queue(host_id, lane, nprio, due, task_id) VALUES(?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((queue, lane.number(), 10 - prio, due, task))?;
    Ok(true)
}

pub(super) fn raise_top(
    conn: &Connection,
    queue: i64,
    lane: Lane,
    prio: i64,
) -> Result<(), DbError> {
    let top = top_column(lane);
    conn.prepare_cached(&format!(
        "UPDATE host SET {top} = ?2 WHERE queue_id = ?1 AND ({top} IS NULL OR {top} < ?2)"
    ))?
    .execute((queue, prio))?;
    Ok(())
}

/// Takes a task out of queue or waiting room; the caller renews the host's top.
pub(super) fn dequeue(conn: &Connection, place: Place) -> Result<(), DbError> {
    let queued = conn
        .prepare_cached(
            "DELETE FROM queue
             WHERE host_id = ?1 AND lane = ?2 AND nprio = ?3 AND due = ?4 AND task_id = ?5",
        )?
        .execute((place.queue, place.lane.number(), 10 - place.prio, place.due, place.task))?;
    if queued == 0 {
        conn.prepare_cached("DELETE FROM delayed WHERE due = ?1 AND task_id = ?2")?
            .execute((place.due, place.task))?;
    }
    Ok(())
}

/// What a slot `h` could serve in a lane: the top of its queue without what other slots are serving.
fn top(lane: Lane) -> String {
    format!(
        "(SELECT 10 - q.nprio FROM queue q WHERE q.host_id = h.queue_id AND q.lane = {}
           AND NOT EXISTS(SELECT 1 FROM host o WHERE o.queue_id = h.queue_id AND o.id <> h.id
             AND o.lease_task = q.task_id) ORDER BY q.nprio LIMIT 1)",
        lane.number()
    )
}

/// Computes the tops of a host's slots anew from its queue.
pub(super) fn renew_tops(conn: &Connection, queue: i64) -> Result<(), DbError> {
    for lane in Lane::ALL {
        let sql = format!(
            "UPDATE host AS h SET {} = {} WHERE h.queue_id = ?1",
            top_column(*lane),
            top(*lane)
        );
        conn.prepare_cached(&sql)?.execute([queue])?;
    }
    Ok(())
}

/// Where a task stands in the queue's terms.
pub(super) fn place(conn: &Connection, task: i64) -> Result<Option<Place>, DbError> {
    let mut select =
        conn.prepare_cached("SELECT host_id, lane, prio, due FROM task WHERE id = ?1")?;
    let mut rows = select.query([task])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Place {
        task,
        queue: row.get(0)?,
        lane: number("lane", row.get(1)?, Lane::from_number)?,
        prio: number("priority", row.get(2)?, priority)?,
        due: row.get(3)?,
    }))
}

/// Remembers who else told of a task, and when first.
pub(super) fn refer(conn: &Connection, task: i64, by: Teller, now: Ts) -> Result<(), DbError> {
    conn.prepare_cached(
        "INSERT OR IGNORE INTO task_source(task_id, source_id, origin, channel_id, first_seen)
         VALUES(?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((task, by.source, by.origin.number(), by.channel, now.ms()))?;
    Ok(())
}

/// Gives a task another owner; the old one stays known as one of its sources.
pub(super) fn pass_to(conn: &Connection, task: i64, source: i64) -> Result<(), DbError> {
    conn.prepare_cached(&format!(
        "INSERT OR IGNORE INTO task_source(task_id, source_id, origin, channel_id, first_seen)
         SELECT t.id, t.source_id, t.origin, {CHANNEL}, t.discovered_at FROM task t
         WHERE t.id = ?1 AND t.source_id IS NOT NULL AND t.source_id <> ?2"
    ))?
    .execute((task, source))?;
    conn.prepare_cached("UPDATE task SET source_id = ?2 WHERE id = ?1")?.execute((task, source))?;
    Ok(())
}

/// Sets aside what only a disabled source wants. A task that another enabled source also gave
/// passes to that one. All at once: a source may have a hundred thousand tasks, and others wait.
pub(crate) fn park(conn: &Connection, source: SourceId) -> Result<(), DbError> {
    let heir = "(SELECT r.source_id FROM task_source r JOIN source s ON s.id = r.source_id
        WHERE r.task_id = task.id AND s.enabled_at IS NOT NULL AND s.id <> ?1
        ORDER BY r.first_seen LIMIT 1)";
    let heirs = format!(
        "SELECT id, {heir} FROM task WHERE source_id = ?1 AND status = 0 AND {heir} IS NOT NULL"
    );
    let heirs: Vec<(i64, i64)> = conn
        .prepare_cached(&heirs)?
        .query_map([source.0], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (task, heir) in heirs {
        pass_to(conn, task, heir)?;
    }
    let queues = queues_of(conn, source, Status::Pending)?;
    for sql in [
        "DELETE FROM queue WHERE (host_id, lane, nprio, due, task_id) IN
           (SELECT host_id, lane, 10 - prio, due, id FROM task WHERE source_id = ?1 AND status = 0)",
        "DELETE FROM delayed WHERE (due, task_id) IN
           (SELECT due, id FROM task WHERE source_id = ?1 AND status = 0)",
        "UPDATE task SET status = 3 WHERE source_id = ?1 AND status = 0",
    ] {
        conn.prepare_cached(sql)?.execute([source.0])?;
    }
    queues.into_iter().try_for_each(|queue| renew_tops(conn, queue))
}

/// The queues in which a source has tasks of this status.
fn queues_of(conn: &Connection, source: SourceId, status: Status) -> Result<Vec<i64>, DbError> {
    let sql = "SELECT DISTINCT host_id FROM task WHERE source_id = ?1 AND status = ?2";
    let mut select = conn.prepare_cached(sql)?;
    let queues = select.query_map((source.0, status.number()), |row| row.get(0))?;
    Ok(queues.collect::<Result<_, _>>()?)
}

/// Takes up again what was set aside and this source gave: it is the first one enabled, so its own.
pub(crate) fn resume(conn: &Connection, source: SourceId, now: Ts) -> Result<(), DbError> {
    let given: Vec<i64> = conn
        .prepare_cached(
            "SELECT t.id FROM task_source r JOIN task t ON t.id = r.task_id
             WHERE r.source_id = ?1 AND t.status = 3 AND t.source_id IS NOT ?1",
        )?
        .query_map([source.0], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for task in given {
        pass_to(conn, task, source.0)?;
    }
    let queues = queues_of(conn, source, Status::Parked)?;
    for sql in [
        "INSERT OR IGNORE INTO queue(host_id, lane, nprio, due, task_id)
           SELECT host_id, lane, 10 - prio, due, id FROM task
           WHERE source_id = ?1 AND status = 3 AND due <= ?2",
        "INSERT OR IGNORE INTO delayed(due, task_id)
           SELECT due, id FROM task WHERE source_id = ?1 AND status = 3 AND due > ?2",
    ] {
        conn.prepare_cached(sql)?.execute((source.0, now.ms()))?;
    }
    conn.prepare_cached("UPDATE task SET status = 0 WHERE source_id = ?1 AND status = 3")?
        .execute([source.0])?;
    queues.into_iter().try_for_each(|queue| renew_tops(conn, queue))
}

/// Takes up a source's channels again that were given up, and pages that were set aside when their
/// source was removed: the operator's word is that they are wanted. Says whether there was such a
/// channel.
pub(crate) fn revive(conn: &Connection, source: SourceId, now: Ts) -> Result<bool, DbError> {
    let mut channels = conn.prepare(
        "SELECT id, status FROM task WHERE source_id = ?1 AND lane = 0
           AND (kind IN (?2, ?3) OR (kind = ?4 AND depth = 0))",
    )?;
    let channels: Vec<(i64, i64)> = channels
        .query_map(
            (source.0, Kind::Feed.number(), Kind::Sitemap.number(), Kind::Listing.number()),
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?
        .collect::<Result<_, _>>()?;
    let mut orphans = conn
        .prepare("SELECT id FROM task WHERE parent_id = ?1 AND status = 3 AND source_id IS NULL")?;
    let mut risen = false;
    for (channel, status) in channels {
        let dead = (status == Status::Dead.number()).then_some(channel);
        risen |= dead.is_some();
        let orphans: Vec<i64> =
            orphans.query_map([channel], |row| row.get(0))?.collect::<Result<_, _>>()?;
        for task in orphans.into_iter().chain(dead) {
            pass_to(conn, task, source.0)?;
            conn.execute(
                "UPDATE task SET status = 0, retry = 0, due = ?2 WHERE id = ?1",
                (task, now.ms()),
            )?;
            if let Some(place) = place(conn, task)? {
                enqueue(conn, place, now)?;
            }
        }
    }
    Ok(risen)
}

/// The safety net: a slot whose tops do not match its queue would starve or spin.
pub(super) fn repair(conn: &Connection) -> Result<u64, DbError> {
    let differs = |lane: &Lane| format!("{} IS NOT {}", top_column(*lane), top(*lane));
    let wrong: Vec<_> = Lane::ALL.iter().map(differs).collect();
    let sql = format!("SELECT DISTINCT queue_id FROM host h WHERE {}", wrong.join(" OR "));
    let mut select = conn.prepare(&sql)?;
    let queues: Vec<i64> = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for queue in &queues {
        renew_tops(conn, *queue)?;
    }
    Ok(queues.len() as u64)
}

/// Marks the address that answered in another's place as done, so that it is not asked for again.
pub(crate) fn settle(
    conn: &Connection,
    done: &Candidate,
    now: Ts,
    rules: &Rules,
) -> Result<(), DbError> {
    let queue = queue_of(conn, &done.host, now, rules)?;
    let task: Option<(i64, bool)> = conn
        .prepare_cached(
            "SELECT t.id, EXISTS(SELECT 1 FROM host l WHERE l.queue_id = ?1 AND l.lease_task = t.id)
             FROM task t WHERE t.host_id = ?1 AND t.lane = ?2 AND t.hash = ?3 AND t.status = 0",
        )?
        .query_row((queue, done.kind.lane().number(), done.hash.head()), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    // One that is under way just now ends by itself.
    let Some((task, false)) = task else { return Ok(()) };
    if let Some(place) = place(conn, task)? {
        dequeue(conn, place)?;
    }
    conn.prepare_cached("UPDATE task SET status = ?2, fetched_at = ?3 WHERE id = ?1")?
        .execute((task, Status::Fetched.number(), now.ms()))?;
    renew_tops(conn, queue)
}
