//! Handing tasks out: the host row becomes the lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use feedmill_formats::url as web;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};

use super::Obituary;
use super::rows::{
    self, HOST_WIDTH, HostRow, Place, TASK_COLUMNS, TASK_FROM, dequeue, enqueue, host_columns,
    load_host, load_source, queue_of, read_host, read_task, renew_tops, task_columns, top_column,
};
use super::strikes::end_expired;
use crate::db::{DbError, whole};
use crate::frontier::fairness::{
    Avoid, AvoidSites, FlowKey, NO_SOURCE, Pass, WorkerShares, site_number,
};
use crate::frontier::{Extension, Rules, queue_key, rulings};
use crate::model::{
    Code, Kind, Lane, Lease, LeaseId, Origin, RobotsRef, Source, SourceId, Task, TaskId, Ts,
    UrlHash, Validators,
};

/// Tasks whose time has come that one claim moves into the queue at the most.
const PROMOTE: usize = 1_000;
/// Of so many leases one goes to the host that waits longest, whatever its priority.
const FAIR: u64 = 10;

/// Slots whose source or site one claim notes without leasing them, at the most.
const NOTES: usize = 500;

/// Tasks of a slot whose robots.txt cannot be fetched now that one claim postpones at the most.
const MAX_POSTPONED: usize = 100;

/// What became of a slot that was to be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leased {
    Yes,
    /// It has nothing to serve now.
    No,
    /// Its source or site has its share.
    Refused,
}

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
    rate_ms = ?6, site = ?7, owner = ?8 WHERE id = ?1";

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
    /// Who may have how many workers, with what this call handed out.
    shares: WorkerShares,
    pass: Pass,
    /// Whom the pass leaves out now, as JSON for the database; `None` when shares changed since.
    avoid: Option<Avoided>,
    /// Hosts whose owner was noted without handing anything out.
    noted: usize,
    leases: Vec<Lease>,
}

/// Sites and sources to pass over, as arrays in JSON; empty texts when there are none.
#[derive(Clone, Default)]
struct Avoided {
    sites: String,
    /// Whether all other sites are meant.
    is_all_but: bool,
    sources: String,
}

/// What a claim is to do.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Leases at the most.
    pub(super) n: usize,
    pub(super) lanes: &'a [Lane],
    /// Leases before this call.
    pub(super) handed_out: u64,
    pub(super) shares: &'a WorkerShares,
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
            shares: WorkerShares::unlimited(),
            pass: Pass::Share,
            avoid: None,
            noted: 0,
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
    let ready = rules.ready_by(now).ms();
    let host = conn.prepare_cached(free)?.query_row((place.queue, ready), read_host).optional()?;
    let lanes = [place.lane];
    let mut claim = Claim { only: Some(task), ..Claim::new(conn, 1, &lanes, now, rules)? };
    host.map_or(Ok(Leased::No), |host| claim.lease(host))?;
    Ok(claim.leases.pop())
}

/// Hands out at most `n` tasks of these lanes: first to sources and sites that hold less than their
/// share, highest priority first, longest waiting host first; then the same to all.
pub(super) fn claim(
    conn: &Connection,
    wanted: Wanted<'_>,
    now: Ts,
    rules: &Rules,
    obituary: Obituary,
) -> Result<Vec<Lease>, DbError> {
    let Wanted { n, lanes, handed_out, shares } = wanted;
    end_expired(conn, now, rules, obituary)?;
    promote(conn, now)?;
    let claim = Claim::new(conn, n, lanes, now, rules)?;
    let mut claim = Claim { shares: shares.clone(), ..claim };
    let fair = (handed_out + n as u64) / FAIR - handed_out / FAIR;
    for _ in 0..fair {
        if let Some(host) = claim.longest_waiting()? {
            claim.lease(host)?;
        }
    }
    let polls = claim.leases.len() + shares.polls_first(n.saturating_sub(claim.leases.len()));
    if lanes.contains(&Lane::Poll) && lanes.len() > 1 {
        for prio in (1..=10i64).rev() {
            claim.fill(Lane::Poll, prio, polls)?;
        }
    }
    for pass in Pass::ALL {
        (claim.pass, claim.avoid) = (pass, None);
        for prio in (1..=10i64).rev() {
            for lane in lanes {
                claim.fill(*lane, prio, n)?;
            }
        }
        if claim.leases.len() >= n || claim.shares.avoid(Pass::Share).is_empty() {
            break;
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
    avoid: &Avoided,
) -> Result<Vec<HostRow>, DbError> {
    let (top, others) = (top_column(lane), avoid.condition());
    let mut select = conn.prepare_cached(&format!(
        concat!(
            "SELECT ",
            host_columns!(),
            " FROM host h WHERE {} = ?1 AND next_at <= ?2{}
         ORDER BY next_at LIMIT ?3"
        ),
        top, others
    ))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let (sites, sources) = (&avoid.sites, &avoid.sources);
    let found = match avoid.is_empty() {
        true => select.query_map((prio, now.ms(), limit), read_host)?.collect(),
        false => {
            let values = (prio, now.ms(), limit, sites, sources);
            select.query_map(values, read_host)?.collect::<Result<_, _>>()
        }
    };
    Ok(found?)
}

impl Avoided {
    fn of(avoid: &Avoid) -> Self {
        let json = |numbers: &[i64]| serde_json::to_string(numbers).unwrap_or_default();
        if avoid.is_empty() {
            return Self::default();
        }
        let (sites, is_all_but) = match &avoid.sites {
            AvoidSites::These(sites) => (sites, false),
            AvoidSites::AllBut(sites) => (sites, true),
        };
        Self { sites: json(sites), is_all_but, sources: json(&avoid.sources) }
    }

    const fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// What a query says of them; without any it is the plain query.
    const fn condition(&self) -> &'static str {
        match (self.is_empty(), self.is_all_but) {
            (true, _) => "",
            (false, false) => {
                " AND site NOT IN (SELECT value FROM json_each(?4))
                  AND owner NOT IN (SELECT value FROM json_each(?5))"
            }
            (false, true) => {
                " AND site IN (SELECT value FROM json_each(?4))
                  AND owner NOT IN (SELECT value FROM json_each(?5))"
            }
        }
    }
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
        if let Some(place) = whole("task", rows::place(conn, task))?.flatten() {
            enqueue(conn, Place { due, ..place }, now)?;
        }
    }
    Ok(())
}

impl Claim<'_> {
    /// The slot that has been due for longest, over all priorities of the lanes.
    fn longest_waiting(&mut self) -> Result<Option<HostRow>, DbError> {
        let avoid = self.avoided();
        let mut longest: Option<HostRow> = None;
        for lane in self.lanes {
            for prio in 1..=10 {
                let first = due_hosts(self.conn, *lane, prio, self.now, 1, &avoid)?;
                let all = longest.into_iter().chain(first);
                longest = all.min_by_key(|host| (host.next_at, host.id));
            }
        }
        Ok(longest)
    }

    /// Whom the pass leaves out now.
    fn avoided(&mut self) -> Avoided {
        let (shares, pass) = (&self.shares, self.pass);
        self.avoid.get_or_insert_with(|| Avoided::of(&shares.avoid(pass))).clone()
    }

    /// Leases due slots with this top, until there are `target` leases or no slot: one that stood down
    /// is not due any more, one that was refused is left out, and both have made room for the next.
    fn fill(&mut self, lane: Lane, prio: i64, target: usize) -> Result<(), DbError> {
        loop {
            let room = target.saturating_sub(self.leases.len());
            if room == 0 || self.noted >= NOTES {
                return Ok(());
            }
            let avoid = self.avoided();
            let hosts = due_hosts(self.conn, lane, prio, self.now, room, &avoid)?;
            let (all, before) = (hosts.len() < room, (self.leases.len(), self.noted));
            let mut refused = false;
            for host in hosts {
                refused |= self.lease(host)? == Leased::Refused;
            }
            // Whoever is refused is passed over once a lease or a note made that known.
            let is_known = before == (self.leases.len(), self.noted);
            if refused && is_known || all && !refused {
                return Ok(());
            }
        }
    }

    /// Leases the head of a due slot, when there is one to serve.
    fn lease(&mut self, mut host: HostRow) -> Result<Leased, DbError> {
        let conn = self.conn;
        if host.is_shared() {
            // A sibling may have taken something since they were read.
            host.tops = load_host(conn, host.id)?.tops;
        }
        for _ in 0..MAX_POSTPONED {
            if let Some(leased) = self.lease_head(&mut host)? {
                return Ok(leased);
            }
            host.tops = load_host(conn, host.id)?.tops;
        }
        self.stand_down(&host)
    }

    /// Leases the head of a slot; `None` when it was postponed instead, and the next one is to be tried.
    fn lease_head(&mut self, host: &mut HostRow) -> Result<Option<Leased>, DbError> {
        let conn = self.conn;
        let Some(lane) = rulings::lane(host.tops, host.last_lane, self.lanes) else {
            return Ok(Some(Leased::No));
        };
        let Some((mut task, mut kept)) = self.head(host, lane)? else {
            return self.stand_down(host).map(Some);
        };
        let key = flow_key(host, &task);
        if self.shares.allows(key, self.pass).is_err() {
            return self.refuse(host, key).map(Some);
        }
        let source = self.source(task.source);
        task.source_id = source.as_ref().map(|source| source.uuid.clone());
        let robots = if task.kind.asks_robots(self.rules.robots_for_feeds) {
            let fresh = fresh_robots(conn, &task, self.now)?;
            if fresh.is_none() {
                let Some((robots, validators)) = robots_task(conn, host, &task, self.now)? else {
                    return self.stand_down(host).map(Some);
                };
                if let Some(until) = rulings::robots_retry(&robots, self.now, self.rules) {
                    postpone(conn, &task, &robots, until, self.now)?;
                    return Ok(None);
                }
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
            key.site,
            key.source,
        ))?;
        self.shares.take(key, task.kind.lane() == Lane::Poll && task.kind != Kind::Robots);
        self.avoid = None;
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
        Ok(Some(Leased::Yes))
    }

    /// Leaves a slot where it is: its source or site has its share. What was not known of it is noted,
    /// so that the next query passes it over.
    fn refuse(&mut self, host: &HostRow, key: FlowKey) -> Result<Leased, DbError> {
        if (host.site, host.owner) != (key.site, key.source) {
            self.noted += 1;
            self.conn
                .prepare_cached("UPDATE host SET site = ?2, owner = ?3 WHERE id = ?1")?
                .execute((host.id, key.site, key.source))?;
        }
        Ok(Leased::Refused)
    }

    /// The first task of a slot's lane that no sibling has.
    fn head(&mut self, host: &HostRow, lane: Lane) -> Result<Option<(Task, Kept)>, DbError> {
        let only = self.only.map(|task| task.0);
        loop {
            let damaged = {
                let given = (host.queue, lane.number(), host.id, &host.name, only);
                let mut rows = self.head.query(given)?;
                let Some(row) = rows.next()? else { return Ok(None) };
                let mut read = || {
                    let task = read_task(row)?;
                    // Its source says how it may be asked.
                    if let Some(id) = task.source.filter(|id| !self.sources.contains_key(id)) {
                        let source = load_source(self.conn, id)?.map(Arc::new);
                        self.sources.insert(id, source);
                    }
                    Ok((task, read_validators(row)?))
                };
                match whole("task", read())? {
                    Some(head) => return Ok(Some(head)),
                    None => row.get::<_, i64>(0)?,
                }
            };
            // Left aside, so that the others of the host are served; `doctor` lists it.
            self.conn
                .prepare_cached(
                    "DELETE FROM queue WHERE host_id = ?1 AND lane = ?2 AND task_id = ?3",
                )?
                .execute((host.queue, lane.number(), damaged))?;
            renew_tops(self.conn, host.queue)?;
        }
    }

    /// A slot whose queue has nothing for it: its tops were wrong, or a sibling asks for robots.txt.
    fn stand_down(&self, host: &HostRow) -> Result<Leased, DbError> {
        let at = self.now.after(self.rules.delay.get()).ms();
        self.conn
            .prepare_cached("UPDATE host SET next_at = ?2 WHERE id = ?1")?
            .execute((host.id, at.max(self.now.ms() + 1)))?;
        renew_tops(self.conn, host.queue)?;
        Ok(Leased::No)
    }

    /// The source of a head.
    fn source(&self, id: Option<SourceId>) -> Option<Arc<Source>> {
        self.sources.get(&id?).cloned().flatten()
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

/// What the workers are shared out by, of the first task of a slot.
fn flow_key(host: &HostRow, task: &Task) -> FlowKey {
    let site = if host.site == 0 { site_number(&host.name) } else { host.site };
    FlowKey { source: task.source.map_or(NO_SOURCE, |source| source.0), site }
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

/// Lets a task wait until the robots.txt of its origin is requested again. The other origins of the host are
/// served meanwhile: anybody can link to a port of it where nothing answers.
fn postpone(
    conn: &Connection,
    task: &Task,
    robots: &Task,
    until: Ts,
    now: Ts,
) -> Result<(), DbError> {
    let Some(place) = rows::place(conn, task.id.0)? else { return Ok(()) };
    dequeue(conn, place)?;
    conn.prepare_cached("UPDATE task SET due = ?2 WHERE id = ?1")?
        .execute((place.task, until.ms()))?;
    conn.prepare_cached(
        "INSERT INTO fetch_state(task_id, last_error, reason) VALUES(?1, ?2, ?3)
         ON CONFLICT(task_id) DO UPDATE SET last_error = excluded.last_error, reason = excluded.reason",
    )?
    .execute((place.task, Code::RobotsUnreachable.number(), rulings::waits_for(robots, until)))?;
    enqueue(conn, Place { due: until.ms(), ..place }, now)?;
    renew_tops(conn, place.queue)
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
        .query_row((queue, lease.0), |row| {
            Ok((read_host(row)?, row.get::<_, Option<i64>>(HOST_WIDTH)?))
        })?;
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
