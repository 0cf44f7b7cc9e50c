//! Handing tasks out: the host row becomes the lease.

use feedmill_formats::url as web;
use rusqlite::{Connection, OptionalExtension};

use super::rows::{self, Place, enqueue, host_id, load_source, load_task, renew_tops, top_column};
use crate::db::DbError;
use crate::frontier::{Extension, MAX_STRIKES, Pace, Rules};
use crate::model::{
    Code, Kind, Lane, Lease, LeaseId, Origin, RobotsRef, Status, Task, TaskId, Ts, UrlHash,
    Validators,
};

/// Tasks whose time has come that one claim moves into the queue at the most.
const PROMOTE: usize = 1_000;

/// Hands out at most `n` tasks of these lanes, highest priority first, longest waiting host first.
pub(super) fn claim(
    conn: &Connection,
    n: usize,
    lanes: &[Lane],
    now: Ts,
    rules: &Rules,
) -> Result<Vec<Lease>, DbError> {
    promote(conn, now)?;
    let mut leases = Vec::new();
    for prio in (1..=10i64).rev() {
        for lane in lanes {
            for host in due_hosts(conn, *lane, prio, now, n.saturating_sub(leases.len()))? {
                leases.extend(lease_host(conn, host, lanes, now, rules)?);
            }
            if leases.len() >= n {
                return Ok(leases);
            }
        }
    }
    Ok(leases)
}

fn due_hosts(
    conn: &Connection,
    lane: Lane,
    prio: i64,
    now: Ts,
    limit: usize,
) -> Result<Vec<i64>, DbError> {
    let top = top_column(lane);
    let mut select = conn.prepare_cached(&format!(
        "SELECT id FROM host WHERE {top} = ?1 AND next_at <= ?2 ORDER BY next_at LIMIT ?3"
    ))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = select.query_map((prio, now.ms(), limit), |row| row.get(0))?;
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

pub(super) struct HostRow {
    tops: [Option<i64>; 3],
    last_lane: Option<i64>,
    lease_task: Option<i64>,
    pub(super) pace: Pace,
}

pub(super) fn load_host(conn: &Connection, id: i64) -> Result<HostRow, DbError> {
    Ok(conn
        .prepare_cached(
            "SELECT top_poll, top_page, top_media, last_lane, lease_task,
               crawl_ms, rate_ms, learned_ms, blocked_until FROM host WHERE id = ?1",
        )?
        .query_row([id], |row| {
            Ok(HostRow {
                tops: [row.get(0)?, row.get(1)?, row.get(2)?],
                last_lane: row.get(3)?,
                lease_task: row.get(4)?,
                pace: Pace {
                    crawl_ms: row.get(5)?,
                    rate_ms: row.get(6)?,
                    learned_ms: row.get(7)?,
                    blocked_until: Ts::from_ms(row.get(8)?),
                },
            })
        })?)
}

impl HostRow {
    /// The lane to serve: the one with the highest head, but polls take at most every second slot
    /// while pages wait.
    fn lane(&self, asked: &[Lane]) -> Option<Lane> {
        let [poll, page, media] = self.tops;
        let top = |lane: Lane| match lane {
            Lane::Poll => poll,
            Lane::Page => page,
            Lane::Media => media,
        };
        let waiting = |lane: &&Lane| top(**lane).is_some();
        let polled_last = self.last_lane == Some(Lane::Poll.number());
        let pages_wait = asked.contains(&Lane::Page) && page.is_some();
        asked
            .iter()
            .filter(waiting)
            .filter(|lane| !(**lane == Lane::Poll && polled_last && pages_wait))
            .max_by_key(|lane| (top(**lane), std::cmp::Reverse(lane.number())))
            .copied()
    }
}

fn lease_host(
    conn: &Connection,
    host: i64,
    asked: &[Lane],
    now: Ts,
    rules: &Rules,
) -> Result<Option<Lease>, DbError> {
    let mut row = load_host(conn, host)?;
    if let Some(task) = row.lease_task {
        strike(conn, host, task, now)?;
        row.tops = load_host(conn, host)?.tops;
    }
    let Some(lane) = row.lane(asked) else { return Ok(None) };
    let head: Option<i64> = conn
        .prepare_cached(
            "SELECT task_id FROM queue WHERE host_id = ?1 AND lane = ?2
             ORDER BY nprio, due, task_id LIMIT 1",
        )?
        .query_row((host, lane.number()), |row| row.get(0))
        .optional()?;
    let Some(mut task) = head.map(|id| load_task(conn, TaskId(id))).transpose()?.flatten() else {
        // The top promised a task that is not there: put it right instead of spinning on it.
        renew_tops(conn, host)?;
        return Ok(None);
    };
    let source =
        task.source.map(|id| load_source(conn, id)).transpose()?.flatten().map(std::sync::Arc::new);
    let robots = if task.kind.asks_robots(rules.robots_for_feeds) {
        match fresh_robots(conn, &task.url, now)? {
            Some(robots) => Some(robots),
            None => {
                task = robots_task(conn, host, &task, now)?;
                None
            }
        }
    } else {
        None
    };
    let rate = source.as_ref().and_then(|source| source.spec.rate_limit);
    let rate = rate.map(|rate| i64::try_from(rate.as_millis()).unwrap_or(i64::MAX));
    row.pace.rate_ms = rate.or(row.pace.rate_ms);
    let id = next_lease(conn)?;
    let until = now.after(rules.lease);
    conn.prepare_cached(
        "UPDATE host SET next_at = ?2, lease_id = ?3, lease_task = ?4, last_lane = ?5, rate_ms = ?6
         WHERE id = ?1",
    )?
    .execute((host, until.ms(), id.0, task.id.0, lane.number(), row.pace.rate_ms))?;
    task.leased = true;
    let (validators, validators_for) = load_validators(conn, task.id)?;
    let delay = row.pace.pause(rules.delay);
    Ok(Some(Lease { id, task, source, validators, validators_for, robots, now, until, delay }))
}

/// Counts a lease that ran out against its task; the fifth without an answer between ends it.
fn strike(conn: &Connection, host: i64, task: i64, now: Ts) -> Result<(), DbError> {
    let Some(place) = rows::place(conn, task)? else { return Ok(()) };
    if place.host != host {
        // Lent to another host's task for a redirect: that one counts it.
        return Ok(());
    }
    let strikes: i64 = conn
        .prepare_cached(
            "INSERT INTO fetch_state(task_id, strikes) VALUES(?1, 1)
             ON CONFLICT(task_id) DO UPDATE SET strikes = strikes + 1 RETURNING strikes",
        )?
        .query_row([task], |row| row.get(0))?;
    if strikes < MAX_STRIKES {
        return Ok(());
    }
    rows::dequeue(conn, place)?;
    conn.prepare_cached("UPDATE task SET status = ?2, fetched_at = ?3 WHERE id = ?1")?
        .execute((task, Status::Dead.number(), now.ms()))?;
    super::complete::note(conn, task, Some(Code::Poison), "its lease ran out five times in a row")?;
    conn.prepare_cached("UPDATE host SET lease_id = NULL, lease_task = NULL WHERE id = ?1")?
        .execute([host])?;
    renew_tops(conn, host)
}

fn next_lease(conn: &Connection) -> Result<LeaseId, DbError> {
    let id: i64 = conn
        .prepare_cached(
            "INSERT INTO meta VALUES('lease', '1')
             ON CONFLICT(key) DO UPDATE SET value = CAST(value AS INTEGER) + 1
             RETURNING CAST(value AS INTEGER)",
        )?
        .query_row([], |row| row.get(0))?;
    Ok(LeaseId(id))
}

fn fresh_robots(conn: &Connection, url: &str, now: Ts) -> Result<Option<RobotsRef>, DbError> {
    let Ok(parsed) = web::parse(url) else { return Ok(None) };
    let origin = web::origin(&parsed);
    let fetched: Option<i64> = conn
        .prepare_cached("SELECT fetched_at FROM robots WHERE origin = ?1 AND expires_at > ?2")?
        .query_row((&origin, now.ms()), |row| row.get(0))
        .optional()?;
    Ok(fetched.map(|at| RobotsRef { origin, fetched_at: Ts::from_ms(at) }))
}

/// The robots task of an address's origin. It never waits in the queue: need calls it. No source
/// owns it, or it would be parked and resumed with one.
fn robots_task(conn: &Connection, host: i64, of: &Task, now: Ts) -> Result<Task, DbError> {
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
        host,
        Lane::Poll.number(),
        hash,
        Kind::Robots.number(),
        now.ms(),
        Origin::Manual.number(),
        url,
    ])?;
    let id: i64 = conn
        .prepare_cached("SELECT id FROM task WHERE host_id = ?1 AND lane = ?2 AND hash = ?3")?
        .query_row((host, Lane::Poll.number(), hash), |row| row.get(0))?;
    load_task(conn, TaskId(id))?.ok_or_else(corrupt)
}

fn load_validators(
    conn: &Connection,
    task: TaskId,
) -> Result<(Validators, Option<String>), DbError> {
    Ok(conn
        .prepare_cached(
            "SELECT etag, last_modified, validators_for FROM fetch_state WHERE task_id = ?1",
        )?
        .query_row([task.0], |row| {
            Ok((Validators { etag: row.get(0)?, last_modified: row.get(1)? }, row.get(2)?))
        })
        .optional()?
        .unwrap_or_default())
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
    conn.prepare_cached("UPDATE host SET next_at = ?2 WHERE lease_id = ?1")?
        .execute((lease.0, until))?;
    Ok(true)
}

/// The task of a lease and the lease's end; `None` when it is stale. Only the task's own host can
/// tell: a host that was lent to the lease keeps its number after the task was handed out again.
fn holder(conn: &Connection, lease: LeaseId) -> Result<Option<(i64, i64)>, DbError> {
    Ok(conn
        .prepare_cached(
            "SELECT h.lease_task, h.next_at FROM host h
             JOIN task t ON t.id = h.lease_task AND t.host_id = h.id WHERE h.lease_id = ?1",
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
    // One that ran out may be handed out again at any time: it can hold no further host.
    let Some((task, until)) = holder(conn, lease)?.filter(|(_, until)| *until > now.ms()) else {
        return Ok(Extension::Stale);
    };
    let id = host_id(conn, host, now)?;
    let (next_at, lease_id): (i64, Option<i64>) = conn
        .prepare_cached("SELECT next_at, lease_id FROM host WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if lease_id == Some(lease.0) {
        return Ok(Extension::Granted);
    }
    if next_at > now.ms() {
        // Of a lease nobody knows the end: look again after an ordinary pause.
        let at =
            if lease_id.is_some() { now.after(rules.delay).ms().min(next_at) } else { next_at };
        return Ok(Extension::Busy(Ts::from_ms(at)));
    }
    conn.prepare_cached(
        "UPDATE host SET next_at = ?2, lease_id = ?3, lease_task = ?4 WHERE id = ?1",
    )?
    .execute((id, until, lease.0, task))?;
    Ok(Extension::Granted)
}

/// When the next task of these lanes can be handed out.
pub(super) fn next_due(conn: &Connection, lanes: &[Lane]) -> Result<Option<Ts>, DbError> {
    let asked = lanes.iter().fold(0, |mask, lane| mask | 1 << lane.number());
    let mut earliest: Option<i64> = conn
        .prepare_cached(
            "SELECT d.due FROM delayed d CROSS JOIN task t ON t.id = d.task_id
             WHERE (1 << t.lane) & ?1 ORDER BY d.due LIMIT 1",
        )?
        .query_row([asked], |row| row.get(0))
        .optional()?;
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

/// Ends every lease: their holder is gone. Each counts as a strike, and the host gets its pause,
/// because a request may have been under way.
pub(super) fn free_leases(conn: &Connection, now: Ts, rules: &Rules) -> Result<u64, DbError> {
    let mut held = conn.prepare("SELECT id, lease_task FROM host WHERE lease_id IS NOT NULL")?;
    let hosts: Vec<(i64, Option<i64>)> =
        held.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    for (id, task) in &hosts {
        let row = load_host(conn, *id)?;
        if let Some(task) = task {
            strike(conn, *id, *task, now)?;
        }
        let next = now.after(row.pace.pause(rules.delay)).max(row.pace.blocked_until);
        conn.execute(
            "UPDATE host SET lease_id = NULL, lease_task = NULL, next_at = ?2 WHERE id = ?1",
            (id, next.ms()),
        )?;
    }
    Ok(hosts.len() as u64)
}
