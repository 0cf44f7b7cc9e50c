//! Handing tasks out: the host row becomes the lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use feedmill_formats::url as web;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};

use super::Obituary;
use super::rows::{
    self, HostRow, Place, TASK_COLUMNS, TASK_FROM, enqueue, host_columns, load_host, load_source,
    queue_of, read_host, read_task, renew_tops, task_columns, top_column,
};
use super::strikes::end_expired;
use crate::db::DbError;
use crate::frontier::{Extension, Rules, queue_key, rulings};
use crate::model::{
    Kind, Lane, Lease, LeaseId, Origin, RobotsRef, Source, SourceId, Task, TaskId, Ts, UrlHash,
    Validators,
};

/// Tasks whose time has come that one claim moves into the queue at the most.
const PROMOTE: usize = 1_000;
/// Of so many leases one goes to the host that waits longest, whatever its priority.
const FAIR: u64 = 10;

/// The head of a queue's lane with all that a lease tells about it.
const HEAD: &str = concat!(
    "SELECT ",
    task_columns!("?4", "NULL", "1"),
    " FROM queue q CROSS JOIN task t ON t.id = q.task_id
     LEFT JOIN fetch_state f ON f.task_id = t.id
     WHERE q.host_id = ?1 AND q.lane = ?2 AND NOT EXISTS(
       SELECT 1 FROM host l WHERE l.queue_id = ?1 AND l.id <> ?3 AND l.lease_task = q.task_id)
       AND (?5 IS NULL OR q.task_id = ?5)
     ORDER BY q.nprio, q.due, q.task_id LIMIT 1"
);

/// A slot becomes a lease.
const TAKE: &str = "UPDATE host SET next_at = ?2, lease_id = ?3, lease_task = ?4, last_lane = ?5,
    rate_ms = ?6 WHERE id = ?1";

/// One call for work.
struct Claim<'a> {
    conn: &'a Connection,
    head: CachedStatement<'a>,
    take: CachedStatement<'a>,
    lanes: &'a [Lane],
    now: Ts,
    rules: &'a Rules,
    sources: HashMap<SourceId, Option<Arc<Source>>>,
    /// Lease numbers that are reserved and not used yet.
    numbers: std::ops::RangeInclusive<i64>,
    wanted: usize,
    /// Nothing but this task.
    only: Option<TaskId>,
    leases: Vec<Lease>,
}

impl<'a> Claim<'a> {
    fn new(
        conn: &'a Connection,
        wanted: usize,
        lanes: &'a [Lane],
        now: Ts,
        rules: &'a Rules,
    ) -> Result<Self, DbError> {
        Ok(Self {
            conn,
            head: conn.prepare_cached(HEAD)?,
            take: conn.prepare_cached(TAKE)?,
            lanes,
            now,
            rules,
            sources: HashMap::new(),
            numbers: std::ops::RangeInclusive::new(1, 0),
            wanted,
            only: None,
            leases: Vec::new(),
        })
    }
}

/// Hands out one task, when it is due and a slot of its host is free.
pub(super) fn claim_task(
    conn: &Connection,
    task: TaskId,
    now: Ts,
    rules: &Rules,
    obituary: Obituary,
) -> Result<Option<Lease>, DbError> {
    end_expired(conn, now, rules, obituary)?;
    promote(conn, now)?;
    let Some(place) = rows::place(conn, task.0)? else { return Ok(None) };
    let free = concat!(
        "SELECT ",
        host_columns!(),
        " FROM host h WHERE h.queue_id = ?1 AND h.next_at <= ?2 AND h.lease_id IS NULL
         ORDER BY h.next_at LIMIT 1"
    );
    let host =
        conn.prepare_cached(free)?.query_row((place.queue, now.ms()), read_host).optional()?;
    let lanes = [place.lane];
    let mut claim = Claim { only: Some(task), ..Claim::new(conn, 1, &lanes, now, rules)? };
    host.map_or(Ok(()), |host| claim.lease(host))?;
    Ok(claim.leases.pop())
}

/// Hands out at most `n` tasks of these lanes, highest priority first, longest waiting host first;
/// `handed_out` counts leases before this call.
pub(super) fn claim(
    conn: &Connection,
    n: usize,
    lanes: &[Lane],
    now: Ts,
    rules: &Rules,
    handed_out: u64,
    obituary: Obituary,
) -> Result<Vec<Lease>, DbError> {
    end_expired(conn, now, rules, obituary)?;
    promote(conn, now)?;
    let mut claim = Claim::new(conn, n, lanes, now, rules)?;
    let fair = (handed_out + n as u64) / FAIR - handed_out / FAIR;
    for _ in 0..fair {
        if let Some(host) = claim.longest_waiting()? {
            claim.lease(host)?;
        }
    }
    for prio in (1..=10i64).rev() {
        for lane in lanes {
            claim.fill(*lane, prio)?;
        }
    }
    Ok(claim.leases)
}

fn due_hosts(
    conn: &Connection,
    lane: Lane,
    prio: i64,
    now: Ts,
    limit: usize,
) -> Result<Vec<HostRow>, DbError> {
    let top = top_column(lane);
    let mut select = conn.prepare_cached(&format!(
        concat!(
            "SELECT ",
            host_columns!(),
            " FROM host h WHERE {} = ?1 AND next_at <= ?2
         ORDER BY next_at LIMIT ?3"
        ),
        top
    ))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = select.query_map((prio, now.ms(), limit), read_host)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Moves what is due from the waiting room into the queue.
fn promote(conn: &Connection, now: Ts) -> Result<(), DbError> {
    let mut due = conn.prepare_cached(
        "SELECT d.due, d.task_id FROM delayed d WHERE d.due <= ?1 ORDER BY d.due LIMIT ?2",
    )?;
    let limit = i64::try_from(PROMOTE).unwrap_or(i64::MAX);
    let rows: Vec<(i64, i64)> = due
        .query_map((now.ms(), limit), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (due, task) in rows {
        conn.prepare_cached("DELETE FROM delayed WHERE due = ?1 AND task_id = ?2")?
            .execute((due, task))?;
        if let Some(place) = rows::place(conn, task)? {
            enqueue(conn, Place { due, ..place }, now)?;
        }
    }
    Ok(())
}

impl Claim<'_> {
    /// The slot that has been due for longest, over all priorities of the lanes.
    fn longest_waiting(&self) -> Result<Option<HostRow>, DbError> {
        let mut longest: Option<(i64, i64)> = None;
        for lane in self.lanes {
            let top = top_column(*lane);
            let sql = format!(
                "SELECT next_at, id FROM host WHERE {top} = ?1 AND next_at <= ?2
                 ORDER BY next_at LIMIT 1"
            );
            let mut select = self.conn.prepare_cached(&sql)?;
            for prio in 1..=10 {
                let first: Option<(i64, i64)> = select
                    .query_row((prio, self.now.ms()), |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()?;
                longest = [longest, first].into_iter().flatten().min();
            }
        }
        longest.map(|(_, id)| load_host(self.conn, id)).transpose()
    }

    /// Leases due slots with this top, until there is no room or no slot: one that stood down is
    /// not due any more and has made room for the next.
    fn fill(&mut self, lane: Lane, prio: i64) -> Result<(), DbError> {
        loop {
            let room = self.wanted.saturating_sub(self.leases.len());
            let hosts = due_hosts(self.conn, lane, prio, self.now, room)?;
            let all = hosts.len() < room || room == 0;
            for host in hosts {
                self.lease(host)?;
            }
            if all {
                return Ok(());
            }
        }
    }

    /// Leases the head of a due slot, when there is one to serve.
    fn lease(&mut self, mut host: HostRow) -> Result<(), DbError> {
        let conn = self.conn;
        if host.is_shared() {
            // A sibling may have taken something since they were read.
            host.tops = load_host(conn, host.id)?.tops;
        }
        let Some(lane) = rulings::lane(host.tops, host.last_lane, self.lanes) else {
            return Ok(());
        };
        let Some((mut task, mut kept)) = self.head(&host, lane)? else {
            return self.stand_down(&host);
        };
        let source = self.source(task.source)?;
        task.source_id = source.as_ref().map(|source| source.uuid.clone());
        let robots = if task.kind.asks_robots(self.rules.robots_for_feeds) {
            let fresh = fresh_robots(conn, &task, self.now)?;
            if fresh.is_none() {
                let Some((robots, validators)) = robots_task(conn, &host, &task, self.now)? else {
                    return self.stand_down(&host);
                };
                (task, kept) = (robots, validators);
            }
            fresh
        } else {
            None
        };
        let rate = source.as_ref().and_then(|source| source.spec.rate_limit);
        let rate = rate.map(|rate| i64::try_from(rate.as_millis()).unwrap_or(i64::MAX));
        host.pace.rate_ms = rate;
        let id = self.number()?;
        let until = self.now.after(self.rules.lease);
        self.take.execute((
            host.id,
            until.ms(),
            id.0,
            task.id.0,
            lane.number(),
            host.pace.rate_ms,
        ))?;
        if host.is_shared() {
            renew_tops(conn, host.queue)?;
        }
        let (validators, validators_for) = kept;
        let delay = host.pace.pause(self.rules.delay.get());
        let now = self.now;
        self.leases.push(Lease {
            id,
            task,
            source,
            validators,
            validators_for,
            robots,
            now,
            until,
            delay,
        });
        Ok(())
    }

    /// The first task of a slot's lane that no sibling has.
    fn head(&mut self, host: &HostRow, lane: Lane) -> Result<Option<(Task, Kept)>, DbError> {
        let only = self.only.map(|task| task.0);
        let mut rows = self.head.query((host.queue, lane.number(), host.id, &host.name, only))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some((read_task(row)?, read_validators(row)?)))
    }

    /// A slot whose queue has nothing for it: its tops were wrong, or a sibling asks for robots.txt.
    fn stand_down(&self, host: &HostRow) -> Result<(), DbError> {
        let at = self.now.after(self.rules.delay.get()).ms();
        self.conn
            .prepare_cached("UPDATE host SET next_at = ?2 WHERE id = ?1")?
            .execute((host.id, at.max(self.now.ms() + 1)))?;
        renew_tops(self.conn, host.queue)
    }

    fn source(&mut self, id: Option<SourceId>) -> Result<Option<Arc<Source>>, DbError> {
        let Some(id) = id else { return Ok(None) };
        if let Some(source) = self.sources.get(&id) {
            return Ok(source.clone());
        }
        let source = load_source(self.conn, id)?.map(Arc::new);
        self.sources.insert(id, source.clone());
        Ok(source)
    }

    /// The next lease number; numbers are reserved for the whole call at once.
    fn number(&mut self) -> Result<LeaseId, DbError> {
        if let Some(number) = self.numbers.next() {
            return Ok(LeaseId(number));
        }
        let count = i64::try_from(self.wanted.max(1)).unwrap_or(1);
        let last: i64 = self
            .conn
            .prepare_cached(
                "INSERT INTO meta VALUES('lease', ?1)
                 ON CONFLICT(key) DO UPDATE SET value = CAST(value AS INTEGER) + ?1
                 RETURNING CAST(value AS INTEGER)",
            )?
            .query_row([count], |row| row.get(0))?;
        self.numbers = last - count + 2..=last;
        Ok(LeaseId(last - count + 1))
    }
}

type Kept = (Validators, Option<String>);

fn read_validators(row: &Row<'_>) -> Result<Kept, DbError> {
    Ok((Validators { etag: row.get(19)?, last_modified: row.get(20)? }, row.get(21)?))
}

fn fresh_robots(conn: &Connection, task: &Task, now: Ts) -> Result<Option<RobotsRef>, DbError> {
    let origin = match plain_origin(&task.url, &task.host) {
        Some(origin) => origin.to_owned(),
        None => match web::parse(&task.url) {
            Ok(parsed) => web::origin(&parsed),
            Err(_) => return Ok(None),
        },
    };
    let fetched: Option<i64> = conn
        .prepare_cached("SELECT fetched_at FROM robots WHERE origin = ?1 AND expires_at > ?2")?
        .query_row((&origin, now.ms()), |row| row.get(0))
        .optional()?;
    Ok(fetched.map(|at| RobotsRef { origin, fetched_at: Ts::from_ms(at) }))
}

/// The origin of an address that is written plainly, which spares parsing it.
fn plain_origin<'a>(url: &'a str, host: &str) -> Option<&'a str> {
    let rest = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme))?;
    let path = rest.strip_prefix(host).filter(|path| path.starts_with('/'))?;
    url.get(..url.len() - path.len())
}

/// The robots task of an address's origin; `None` when a sibling slot is asking already. It never
/// waits in the queue: need calls it. No source owns it, or it would be parked and resumed with one.
fn robots_task(
    conn: &Connection,
    host: &HostRow,
    of: &Task,
    now: Ts,
) -> Result<Option<(Task, Kept)>, DbError> {
    let corrupt = || DbError::Corrupt { what: "url", value: of.url.clone() };
    let url = web::robots_url(&web::parse(&of.url).map_err(|_| corrupt())?).to_string();
    // Keyed by the address itself: http and https have each their own robots.txt.
    let hash = UrlHash::of(&url).head();
    conn.prepare_cached(
        "INSERT INTO task(host_id, lane, hash, kind, prio, status, due, source_id, origin, discovered_at, url)
         VALUES(?1, ?2, ?3, ?4, 10, 0, ?5, NULL, ?6, ?5, ?7)
         ON CONFLICT(host_id, lane, hash) DO NOTHING",
    )?
    .execute(rusqlite::params![
        host.queue,
        Lane::Poll.number(),
        hash,
        Kind::Robots.number(),
        now.ms(),
        Origin::Manual.number(),
        url,
    ])?;
    let sql = format!(
        "SELECT {TASK_COLUMNS} FROM {TASK_FROM} WHERE t.host_id = ?1 AND t.lane = ?2 AND t.hash = ?3"
    );
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query((host.queue, Lane::Poll.number(), hash))?;
    let row = rows.next()?.ok_or_else(corrupt)?;
    let task = read_task(row)?;
    Ok((!task.leased).then_some((task, read_validators(row)?)))
}

/// Another full term for a lease.
pub(super) fn renew(
    conn: &Connection,
    lease: LeaseId,
    now: Ts,
    rules: &Rules,
) -> Result<bool, DbError> {
    if holder(conn, lease)?.is_none() {
        return Ok(false);
    }
    let until = now.after(rules.lease).ms();
    conn.prepare_cached("UPDATE host SET next_at = max(?2, blocked_until) WHERE lease_id = ?1")?
        .execute((lease.0, until))?;
    Ok(true)
}

/// The task of a lease and the lease's end; `None` when it is stale. Only the task's own host can
/// tell: a host that was lent to the lease keeps its number after the task was handed out again.
fn holder(conn: &Connection, lease: LeaseId) -> Result<Option<(i64, i64)>, DbError> {
    Ok(conn
        .prepare_cached(
            "SELECT h.lease_task, h.next_at FROM host h
             JOIN task t ON t.id = h.lease_task AND t.host_id = h.queue_id WHERE h.lease_id = ?1",
        )?
        .query_row([lease.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

/// A second host under the same lease.
pub(super) fn extend(
    conn: &Connection,
    lease: LeaseId,
    host: &str,
    now: Ts,
    rules: &Rules,
) -> Result<Extension, DbError> {
    let Some((task, until)) = holder(conn, lease)? else { return Ok(Extension::Stale) };
    if until <= now.ms() {
        // It ran out: whoever comes next may have the task already asked for.
        return Ok(Extension::Stale);
    }
    let queue = queue_of(conn, queue_key(host, &rules.groups), now, rules)?;
    // The slot that it has already, else the one that is free first.
    let (slot, holder) = conn
        .prepare_cached(concat!(
            "SELECT ",
            host_columns!(),
            ", h.lease_id FROM host h WHERE h.queue_id = ?1
             ORDER BY h.lease_id IS ?2 DESC, h.lease_id IS NOT NULL, h.next_at, h.slot LIMIT 1"
        ))?
        .query_row((queue, lease.0), |row| Ok((read_host(row)?, row.get::<_, Option<i64>>(15)?)))?;
    if holder == Some(lease.0) {
        let pause = slot.pace.pause(rules.delay.get());
        return Ok(Extension::Granted { wait: Duration::ZERO, pause });
    }
    let lent = slot.pace.lend(holder.is_some(), slot.next_at, now, rules.delay.get());
    if matches!(lent, Extension::Granted { .. }) {
        conn.prepare_cached(
            "UPDATE host SET next_at = ?2, lease_id = ?3, lease_task = ?4 WHERE id = ?1",
        )?
        .execute((slot.id, until, lease.0, task))?;
    }
    Ok(lent)
}

/// When the next task of these lanes can be handed out.
pub(super) fn next_due(conn: &Connection, lanes: &[Lane]) -> Result<Option<Ts>, DbError> {
    if lanes.is_empty() {
        return Ok(None);
    }
    let asked = lanes.iter().fold(0, |mask, lane| mask | 1 << lane.number());
    let mut earliest: Option<i64> = conn
        .prepare_cached(
            "SELECT coalesce(min(w.due) FILTER (WHERE (1 << w.lane) & ?1),
                 CASE WHEN count(*) = ?2 THEN max(w.due) END)
             FROM (SELECT d.due, t.lane FROM delayed d CROSS JOIN task t ON t.id = d.task_id
               ORDER BY d.due LIMIT ?2) w",
        )?
        .query_row((asked, rulings::looked_at(lanes)), |row| row.get(0))?;
    for lane in lanes {
        let top = top_column(*lane);
        let sql = format!("SELECT min(next_at) FROM host WHERE {top} = ?1");
        let mut select = conn.prepare_cached(&sql)?;
        for prio in 1..=10 {
            let next: Option<i64> = select.query_row([prio], |row| row.get(0))?;
            earliest = [earliest, next].into_iter().flatten().min();
        }
    }
    Ok(earliest.map(Ts::from_ms))
}

/// Whether a task of these lanes is due on a host that is not blocked.
pub(super) fn has_work(conn: &Connection, lanes: &[Lane], now: Ts) -> Result<bool, DbError> {
    for lane in lanes {
        let top = top_column(*lane);
        let waits: bool = conn
            .prepare_cached(&format!(
                "SELECT EXISTS(SELECT 1 FROM host WHERE {top} IS NOT NULL AND blocked_until <= ?1)
                 OR EXISTS(SELECT 1 FROM delayed d JOIN task t ON t.id = d.task_id
                   JOIN host h ON h.id = t.host_id
                   WHERE d.due <= ?1 AND t.lane = ?2 AND h.blocked_until <= ?1)"
            ))?
            .query_row((now.ms(), lane.number()), |row| row.get(0))?;
        if waits {
            return Ok(true);
        }
    }
    Ok(false)
}
