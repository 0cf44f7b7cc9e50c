//! Handing tasks out: a slot of a host becomes the lease.
//!
//! A claim waits for nobody: queues that another transaction holds are passed over. It first locks
//! queues with slots that are due, and looks at them in later statements only: what it sees then is
//! what the last holder of the lock left.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use feedmill_formats::url as web;
use tokio_postgres::Row;

use super::rows::{
    PACE_COLUMNS, Place, SOURCE_COLUMNS, TASK_COLUMNS, TASK_JOINS, dequeue, enqueue, int, lock,
    maybe, named, narrow, places, read_pace, read_place, read_source, read_task, renew_tops,
};
use super::strikes::end_expired;
use super::{Obituary, Wanted};
use crate::db::postgres::{Tx, column, first, rows, run};
use crate::db::{Conn, DbError, PgDb, whole, whole_rows};
use crate::frontier::fairness::{
    Avoid, AvoidSites, FlowKey, NO_SOURCE, Pass, WorkerShares, site_number,
};
use crate::frontier::{Pace, Rules, rulings};
use crate::model::{
    Code, Kind, Lane, Lease, LeaseId, Origin, RobotsRef, Source, Task, TaskId, Ts, UrlHash,
    Validators,
};

/// Tasks whose time has come that one claim moves into the queue at the most.
const PROMOTE: i64 = 1_000;

/// Slots of one host that a claim looks at, at the most.
const ROUNDS: usize = 100;

/// The column of `host` that holds a lane's highest queued priority.
pub(super) const fn top_column(lane: Lane) -> &'static str {
    match lane {
        Lane::Poll => "top_poll",
        Lane::Page => "top_page",
        Lane::Media => "top_media",
    }
}

/// A slot whose queue is locked.
pub(super) struct Slot {
    pub(super) id: i64,
    pub(super) queue: i64,
    tops: [Option<i64>; 3],
    last_lane: Option<Lane>,
    pub(super) lease_task: Option<i64>,
    pub(super) pace: Pace,
    concurrency: u32,
    name: String,
    /// The number of its site, 0 while it is not known.
    site: i64,
    /// The source of its first task when it was last looked at, 0 while it is not known.
    owner: i64,
    /// When it may be used again; the end of its lease while it has one.
    pub(super) next_at: Ts,
}

/// The columns that [`read_slot`] reads.
fn slot_columns() -> String {
    format!(
        "id, queue_id, top_poll, top_page, top_media, last_lane, lease_task, concurrency, \
         name, next_at, site, owner, {PACE_COLUMNS}"
    )
}

fn read_slot(row: &Row) -> Result<Slot, DbError> {
    Ok(Slot {
        id: int(row, 0)?,
        queue: int(row, 1)?,
        tops: [maybe(row, 2)?, maybe(row, 3)?, maybe(row, 4)?],
        last_lane: maybe(row, 5)?.map(|_| named("lane", row, 5, Lane::from_number)).transpose()?,
        lease_task: maybe(row, 6)?,
        concurrency: narrow("concurrency", row, 7)?,
        name: row.try_get(8)?,
        next_at: Ts::from_ms(int(row, 9)?),
        site: int(row, 10)?,
        owner: int(row, 11)?,
        pace: read_pace(row, 12)?,
    })
}

/// The slots that meet a condition on ids and a time.
pub(super) async fn load_slots(
    tx: &Tx<'_>,
    condition: &str,
    ids: &[i64],
    at: Ts,
) -> Result<Vec<Slot>, DbError> {
    let sql = format!("SELECT {} FROM host WHERE {condition} ORDER BY id", slot_columns());
    rows(tx, &sql, &[&ids, &at.ms()]).await?.iter().map(read_slot).collect()
}

/// Hands out at most `n` tasks of these lanes: first `fair` ones of the hosts that wait longest,
/// whatever their priority, and polls as far as workers are reserved for them; then highest priority
/// first, longest waiting host first. Sources and sites that hold less than their share come before
/// all others.
pub(super) async fn claim(
    db: &PgDb,
    Wanted { n, fair, expired }: Wanted,
    lanes: &[Lane],
    rules: &Rules,
    mut shares: WorkerShares,
    obituary: Obituary,
) -> Result<Vec<Lease>, DbError> {
    let mut client = db.client().await?;
    // A claim waits for nobody, so that this is now until its end.
    let look = look(db, &client, expired).await?;
    let now = look.now;
    if look.expired {
        end_expired(&mut client, now, rules, obituary).await?;
    }
    if look.waiting {
        promote(&mut client, now).await?;
    }
    let mut leases = Vec::new();
    let has_reserve = lanes.contains(&Lane::Poll) && lanes.len() > 1;
    let mut first = First { fair, polls: if has_reserve { shares.polls_first(n) } else { 0 } };
    for pass in Pass::ALL {
        // A round serves each queue once; queues with several slots may have more to give, and where
        // somebody got its share it is the turn of others.
        for _ in 0..ROUNDS {
            let terms = Terms { lanes, now, rules, pass };
            let room = n - leases.len();
            match round(&mut client, room, std::mem::take(&mut first), terms, &mut shares).await {
                Ok((served, more)) => {
                    leases.extend(served);
                    if !more || leases.len() >= n {
                        break;
                    }
                }
                Err(error) if leases.is_empty() => return Err(error),
                // Earlier rounds are true already: whoever asked has to hear of them.
                Err(error) => {
                    tracing::debug!(%error, "a claim ends early");
                    return Ok(leases);
                }
            }
        }
        if leases.len() >= n || shares.avoid(Pass::Share).is_empty() {
            break;
        }
    }
    Ok(leases)
}

/// Leases of the first round that do not follow priorities.
#[derive(Clone, Copy, Debug, Default)]
struct First {
    /// For those who wait longest.
    fair: usize,
    /// For polls.
    polls: usize,
}

/// What all steps of a round go by.
#[derive(Clone, Copy)]
struct Terms<'a> {
    lanes: &'a [Lane],
    now: Ts,
    rules: &'a Rules,
    pass: Pass,
}

/// Hands out one task, when it is due and a slot of its host is free.
pub(super) async fn claim_task(
    db: &PgDb,
    task: TaskId,
    rules: &Rules,
    obituary: Obituary,
) -> Result<Option<Lease>, DbError> {
    let mut client = db.client().await?;
    let Look { now, waiting, expired } = look(db, &client, true).await?;
    if expired {
        end_expired(&mut client, now, rules, obituary).await?;
    }
    if waiting {
        promote(&mut client, now).await?;
    }
    let tx = client.transaction().await?;
    let Some(place) = places(&tx, &[task.0]).await?.remove(&task.0) else { return Ok(None) };
    lock(&tx, &[place.queue]).await?;
    let free = "queue_id = ANY($1::bigint[]) AND lease_id IS NULL AND next_at <= $2";
    let mut slots = load_slots(&tx, free, &[place.queue], rules.ready_by(now)).await?;
    slots.truncate(1);
    let terms = Terms { lanes: &[place.lane], now, rules, pass: Pass::Rest };
    let mut shares = WorkerShares::unlimited();
    let (leases, _) = serve(&tx, slots, Some(task), terms, &mut shares).await?;
    tx.commit().await?;
    Ok(leases.into_iter().next())
}

/// Serves each queue once; whether there may be more.
async fn round(
    client: &mut Conn,
    n: usize,
    first: First,
    terms: Terms<'_>,
    shares: &mut WorkerShares,
) -> Result<(Vec<Lease>, bool), DbError> {
    let tx = client.transaction().await?;
    let avoid = shares.avoid(terms.pass);
    let slots = due_slots(&tx, n, first, terms, &avoid).await?;
    let is_shared = slots.iter().any(|slot| slot.concurrency > 1);
    let (leases, refused) = serve(&tx, slots, None, terms, shares).await?;
    tx.commit().await?;
    Ok((leases, is_shared || refused))
}

/// Due slots with something to serve, one of a queue. The heads of their queues are locked, and no
/// other row: whoever holds a head may change all of its slots and waits for nobody.
async fn due_slots(
    tx: &Tx<'_>,
    n: usize,
    first: First,
    Terms { lanes, now, .. }: Terms<'_>,
    avoid: &Avoid,
) -> Result<Vec<Slot>, DbError> {
    let limit = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let (others, sites) = match &avoid.sites {
        _ if avoid.is_empty() => ("", &Vec::new()),
        AvoidSites::These(sites) => {
            ("AND s.site <> ALL($3::bigint[]) AND s.owner <> ALL($4::bigint[])", sites)
        }
        AvoidSites::AllBut(sites) => {
            ("AND s.site = ANY($3::bigint[]) AND s.owner <> ALL($4::bigint[])", sites)
        }
    };
    let due = |lanes: &[Lane], lock: &str| {
        let of_lane = |lane: &Lane| {
            let top = top_column(*lane);
            // Of a head that somebody changed meanwhile, what is said of `q` is looked at again.
            format!(
                "SELECT * FROM (SELECT s.id, s.next_at FROM host s JOIN host q ON q.id = s.queue_id
                   WHERE s.{top} = p.prio AND s.next_at <= $2 AND s.lease_id IS NULL {others}
                     AND (q.id <> s.id OR q.next_at <= $2 AND q.lease_id IS NULL)
                   ORDER BY s.next_at LIMIT $1 {lock}) {top}"
            )
        };
        let lanes: Vec<String> = lanes.iter().map(of_lane).collect();
        format!(
            "generate_series(10, 1, -1) AS p(prio) CROSS JOIN LATERAL ({}) d",
            lanes.join(" UNION ALL ")
        )
    };
    const LOCK: &str = "FOR NO KEY UPDATE OF q SKIP LOCKED";
    let mut found = Vec::new();
    let now_ms = now.ms();
    let find = async |sql: String, n: usize| match avoid.is_empty() {
        true => rows(tx, &sql, &[&limit(n), &now_ms]).await,
        false => rows(tx, &sql, &[&limit(n), &now_ms, sites, &avoid.sources]).await,
    };
    if first.fair > 0 {
        let sql = format!(
            "SELECT s.id FROM host s JOIN host q ON q.id = s.queue_id
             WHERE s.id IN (SELECT d.id FROM {} ORDER BY d.next_at, d.id LIMIT $1)
             ORDER BY s.next_at, s.id {LOCK}",
            due(lanes, "")
        );
        found.extend(find(sql, first.fair).await?);
    }
    if first.polls > 0 {
        let sql = format!("SELECT d.id FROM {} LIMIT $1", due(&[Lane::Poll], LOCK));
        found.extend(find(sql, first.polls).await?);
    }
    let sql = format!("SELECT d.id FROM {} LIMIT $1", due(lanes, LOCK));
    found.extend(find(sql, n).await?);
    let ids: Vec<i64> = found.iter().map(|row| int(row, 0)).collect::<Result<_, _>>()?;
    // Under the locks they are what they are.
    let still_due = "id = ANY($1::bigint[]) AND lease_id IS NULL AND next_at <= $2";
    let slots = load_slots(tx, still_due, &ids, now).await?;
    let mut slots: HashMap<i64, Slot> = slots.into_iter().map(|slot| (slot.id, slot)).collect();
    let mut queues = HashSet::new();
    let due = ids.iter().filter_map(|id| slots.remove(id));
    Ok(due.filter(|slot| queues.insert(slot.queue)).take(n).collect())
}

/// A slot and the task that it is about to serve.
struct Chosen {
    slot: Slot,
    lane: Lane,
    task: Task,
    /// The source of the task that is first in the queue, also when its robots.txt is served instead.
    owner: i64,
    source: Option<Arc<Source>>,
    validators: Validators,
    validators_for: Option<String>,
    robots: Option<RobotsRef>,
}

/// Leases the first tasks of slots, as far as shares allow; and whether some were refused that the next
/// round will pass over.
async fn serve(
    tx: &Tx<'_>,
    slots: Vec<Slot>,
    only: Option<TaskId>,
    Terms { lanes, now, rules, pass }: Terms<'_>,
    shares: &mut WorkerShares,
) -> Result<(Vec<Lease>, bool), DbError> {
    if slots.is_empty() {
        return Ok((Vec::new(), false));
    }
    let chosen = heads(tx, slots, lanes, only).await?;
    let (mut chosen, refused): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|at| {
        let is_allowed = shares.allows(at.key(), pass).is_ok();
        if is_allowed {
            shares.take(at.key(), at.lane == Lane::Poll);
        }
        is_allowed
    });
    let noted = note_owners(tx, &refused).await?;
    let mut without_robots = WithoutRobots::default();
    robots_first(tx, &mut chosen, &mut without_robots, now, rules).await?;
    put_off(tx, &without_robots.busy, now, rules).await?;
    postpone(tx, &without_robots.unreachable, now).await?;
    let more = !refused.is_empty() && (noted || !chosen.is_empty())
        || !without_robots.unreachable.is_empty();
    Ok((lease(tx, chosen, now, rules).await?, more))
}

/// Notes what was not known of slots that were refused, so that the next query passes them over.
async fn note_owners(tx: &Tx<'_>, refused: &[Chosen]) -> Result<bool, DbError> {
    let is_new = |at: &&Chosen| (at.slot.site, at.slot.owner) != (at.key().site, at.key().source);
    let new: Vec<(i64, FlowKey)> =
        refused.iter().filter(is_new).map(|at| (at.slot.id, at.key())).collect();
    if new.is_empty() {
        return Ok(false);
    }
    run(
        tx,
        "UPDATE host h SET site = w.site, owner = w.owner
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS w(id, site, owner)
         WHERE h.id = w.id",
        &[
            &column(&new, |(id, _)| *id),
            &column(&new, |(_, key)| key.site),
            &column(&new, |(_, key)| key.source),
        ],
    )
    .await?;
    Ok(true)
}

impl Chosen {
    /// What the workers are shared out by.
    fn key(&self) -> FlowKey {
        let site = match self.slot.site {
            0 => site_number(&self.slot.name),
            site => site,
        };
        FlowKey { source: self.owner, site }
    }
}

/// The task at the head of each slot's lane: the first that no other slot is serving.
async fn heads(
    tx: &Tx<'_>,
    slots: Vec<Slot>,
    asked: &[Lane],
    only: Option<TaskId>,
) -> Result<Vec<Chosen>, DbError> {
    let mut wanted = Vec::with_capacity(slots.len());
    for slot in slots {
        if let Some(lane) = rulings::lane(slot.tops, slot.last_lane, asked) {
            wanted.push((slot, lane));
        }
    }
    // What the slots say of the host is not read again, and no other slot holds the task (`l`).
    let sql = format!(
        "SELECT {TASK_COLUMNS}, f.etag, f.last_modified, f.validators_for, {SOURCE_COLUMNS}, h.slot_id
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[])
           AS h(slot_id, queue_id, lane, name)
         CROSS JOIN LATERAL (SELECT q.task_id FROM queue q
           WHERE q.host_id = h.queue_id AND q.lane = h.lane AND NOT EXISTS(SELECT 1 FROM host o
             WHERE o.queue_id = h.queue_id AND o.id <> h.slot_id AND o.lease_task = q.task_id)
             AND ($5::bigint IS NULL OR q.task_id = $5)
           ORDER BY q.nprio, q.due, q.task_id LIMIT 1) q
         CROSS JOIN (SELECT NULL::bigint AS id) l
         JOIN task t ON t.id = q.task_id LEFT JOIN source s ON s.id = t.source_id
         LEFT JOIN fetch_state f ON f.task_id = t.id"
    );
    let found = rows(
        tx,
        &sql,
        &[
            &column(&wanted, |(slot, _)| slot.id),
            &column(&wanted, |(slot, _)| slot.queue),
            &column(&wanted, |(_, lane)| lane.number()),
            &column(&wanted, |(slot, _)| slot.name.as_str()),
            &only.map(|task| task.0),
        ],
    )
    .await?;
    let mut tasks: HashMap<i64, &Row> = HashMap::with_capacity(found.len());
    for row in &found {
        tasks.insert(int(row, 30)?, row);
    }
    let (mut chosen, mut empty) = (Vec::with_capacity(found.len()), Vec::new());
    let mut damaged = Vec::new();
    for (slot, lane) in wanted {
        let Some(row) = tasks.get(&slot.id) else {
            empty.push(slot.queue);
            continue;
        };
        let queue = slot.queue;
        match whole("task", choose(slot, lane, row))? {
            Some(head) => chosen.push(head),
            None => {
                damaged.push(int(row, 0)?);
                empty.push(queue);
            }
        }
    }
    if !damaged.is_empty() {
        // Left aside, so that the others of their hosts are served; `doctor` lists them.
        run(tx, "DELETE FROM queue WHERE task_id = ANY($1::bigint[])", &[&damaged]).await?;
    }
    // A top promised a task that is not there: put it right instead of spinning on it.
    renew_tops(tx, &empty).await?;
    Ok(chosen)
}

fn choose(slot: Slot, lane: Lane, row: &Row) -> Result<Chosen, DbError> {
    let task = read_task(row, 0)?;
    Ok(Chosen {
        slot,
        lane,
        owner: task.source.map_or(NO_SOURCE, |source| source.0),
        task,
        validators: Validators { etag: row.try_get(20)?, last_modified: row.try_get(21)? },
        validators_for: row.try_get(22)?,
        source: read_source(row, 23)?.map(Arc::new),
        robots: None,
    })
}

/// What cannot be served because the robots.txt that it needs is not there.
#[derive(Default)]
struct WithoutRobots {
    /// Slots whose robots.txt another slot is fetching.
    busy: Vec<Slot>,
    /// Tasks whose robots.txt could not be fetched, until when they wait, and why.
    unreachable: Vec<(TaskId, Ts, String)>,
}

/// Where robots.txt is needed and missing or stale, its task is served instead.
async fn robots_first(
    tx: &Tx<'_>,
    chosen: &mut Vec<Chosen>,
    without_robots: &mut WithoutRobots,
    now: Ts,
    rules: &Rules,
) -> Result<(), DbError> {
    let mut origins = HashMap::new();
    for at in chosen.iter().filter(|at| at.task.kind.asks_robots(rules.robots_for_feeds)) {
        if let Ok(url) = web::parse(&at.task.url) {
            origins.insert(at.slot.id, (web::origin(&url), web::robots_url(&url).to_string()));
        }
    }
    if origins.is_empty() {
        return Ok(());
    }
    let fresh = fresh_robots(tx, origins.values().map(|(origin, _)| origin), now).await?;
    let mut needed: Vec<(i64, &str)> = Vec::new();
    for at in chosen.iter_mut() {
        let Some((origin, url)) = origins.get(&at.slot.id) else { continue };
        match fresh.get(origin) {
            Some(fetched_at) => {
                at.robots = Some(RobotsRef { origin: origin.clone(), fetched_at: *fetched_at });
            }
            None => needed.push((at.slot.queue, url)),
        }
    }
    if needed.is_empty() {
        return Ok(());
    }
    let mut tasks = robots_tasks(tx, &needed, now).await?;
    for mut at in std::mem::take(chosen) {
        if at.robots.is_some() || !origins.contains_key(&at.slot.id) {
            chosen.push(at);
            continue;
        }
        let Some((task, validators, validators_for)) = tasks.remove(&at.slot.queue) else {
            continue;
        };
        if task.leased {
            without_robots.busy.push(at.slot);
            continue;
        }
        if let Some(until) = rulings::robots_retry(&task, now, rules) {
            let reason = rulings::waits_for(&task, until);
            without_robots.unreachable.push((at.task.id, until, reason));
            continue;
        }
        (at.task, at.validators, at.validators_for) = (task, validators, validators_for);
        chosen.push(at);
    }
    Ok(())
}

async fn fresh_robots(
    tx: &Tx<'_>,
    origins: impl Iterator<Item = &String>,
    now: Ts,
) -> Result<HashMap<String, Ts>, DbError> {
    let origins: Vec<&String> = origins.collect();
    let sql =
        "SELECT origin, fetched_at FROM robots WHERE origin = ANY($1::text[]) AND expires_at > $2";
    let found = rows(tx, sql, &[&origins, &now.ms()]).await?;
    found.iter().map(|row| Ok((row.try_get(0)?, Ts::from_ms(int(row, 1)?)))).collect()
}

type Prepared = (Task, Validators, Option<String>);

/// The robots task of an origin for each queue, made where it is missing. It never waits in the
/// queue: need calls it. No source owns it, or it would be parked and resumed with one.
async fn robots_tasks(
    tx: &Tx<'_>,
    needed: &[(i64, &str)],
    now: Ts,
) -> Result<HashMap<i64, Prepared>, DbError> {
    let queues = column(needed, |(queue, _)| *queue);
    // Keyed by the address itself: http and https have each their own robots.txt.
    let hashes = column(needed, |(_, url)| UrlHash::of(url).head());
    let lane = Lane::Poll.number();
    run(
        tx,
        "INSERT INTO task(host_id, lane, hash, kind, prio, status, due, origin, discovered_at, url)
         SELECT host_id, $4::bigint, hash, $5::bigint, 10, 0, $6::bigint, $7::bigint, $6::bigint, url
         FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS w(host_id, hash, url)
         ON CONFLICT (host_id, lane, hash) DO NOTHING",
        &[
            &queues,
            &hashes,
            &column(needed, |(_, url)| *url),
            &lane,
            &Kind::Robots.number(),
            &now.ms(),
            &Origin::Manual.number(),
        ],
    )
    .await?;
    let sql = format!(
        "SELECT {TASK_COLUMNS}, f.etag, f.last_modified, f.validators_for, t.host_id
         FROM unnest($1::bigint[], $2::bigint[]) AS w(host_id, hash)
         JOIN task t ON t.host_id = w.host_id AND t.lane = $3::bigint AND t.hash = w.hash {TASK_JOINS}"
    );
    let mut tasks = HashMap::with_capacity(needed.len());
    for row in &rows(tx, &sql, &[&queues, &hashes, &lane]).await? {
        let validators = Validators { etag: row.try_get(20)?, last_modified: row.try_get(21)? };
        tasks.insert(int(row, 23)?, (read_task(row, 0)?, validators, row.try_get(22)?));
    }
    Ok(tasks)
}

/// Lets tasks wait until the robots.txt of their origin is requested again. The other origins of the host are
/// served meanwhile: anybody can link to a port of it where nothing answers.
async fn postpone(tx: &Tx<'_>, tasks: &[(TaskId, Ts, String)], now: Ts) -> Result<(), DbError> {
    if tasks.is_empty() {
        return Ok(());
    }
    let ids = column(tasks, |(task, ..)| task.0);
    let mut before: Vec<Place> = places(tx, &ids).await?.into_values().collect();
    dequeue(tx, &before).await?;
    let dues = column(tasks, |(_, until, _)| until.ms());
    run(
        tx,
        "UPDATE task t SET due = w.due FROM unnest($1::bigint[], $2::bigint[]) AS w(id, due)
         WHERE t.id = w.id",
        &[&ids, &dues],
    )
    .await?;
    run(
        tx,
        "INSERT INTO fetch_state(task_id, last_error, reason)
         SELECT id, $2::bigint, reason FROM unnest($1::bigint[], $3::text[]) AS w(id, reason)
         ON CONFLICT (task_id) DO UPDATE SET last_error = excluded.last_error, reason = excluded.reason",
        &[
            &ids,
            &Code::RobotsUnreachable.number(),
            &column(tasks, |(.., reason)| reason.as_str()),
        ],
    )
    .await?;
    let until: HashMap<i64, i64> = ids.iter().copied().zip(dues).collect();
    for place in &mut before {
        place.due = until.get(&place.task).copied().unwrap_or(place.due);
    }
    enqueue(tx, &before, now).await?;
    renew_tops(tx, &column(&before, |place| place.queue)).await?;
    Ok(())
}

/// Slots that cannot serve now look again after a pause.
async fn put_off(tx: &Tx<'_>, busy: &[Slot], now: Ts, rules: &Rules) -> Result<(), DbError> {
    if busy.is_empty() {
        return Ok(());
    }
    run(
        tx,
        "UPDATE host h SET next_at = w.next_at
         FROM unnest($1::bigint[], $2::bigint[]) AS w(id, next_at) WHERE h.id = w.id",
        &[
            &column(busy, |slot| slot.id),
            &column(busy, |slot| now.after(slot.pace.pause(rules.delay.get())).ms()),
        ],
    )
    .await?;
    renew_tops(tx, &column(busy, |slot| slot.queue)).await?;
    Ok(())
}

async fn lease(
    tx: &Tx<'_>,
    mut chosen: Vec<Chosen>,
    now: Ts,
    rules: &Rules,
) -> Result<Vec<Lease>, DbError> {
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    for at in &mut chosen {
        let rate = at.source.as_ref().and_then(|source| source.spec.rate_limit);
        at.slot.pace.rate_ms = rate.map(|rate| i64::try_from(rate.as_millis()).unwrap_or(i64::MAX));
    }
    let until = now.after(rules.lease);
    let found = rows(
        tx,
        "UPDATE host h SET next_at = $4, lease_id = nextval('lease_id'), lease_task = w.task,
           last_lane = w.lane, rate_ms = w.rate_ms, site = w.site, owner = w.owner
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
           AS w(id, task, lane, rate_ms, site, owner)
         WHERE h.id = w.id RETURNING h.id, h.lease_id",
        &[
            &column(&chosen, |at| at.slot.id),
            &column(&chosen, |at| at.task.id.0),
            &column(&chosen, |at| at.lane.number()),
            &until.ms(),
            &column(&chosen, |at| at.slot.pace.rate_ms),
            &column(&chosen, |at| at.key().site),
            &column(&chosen, |at| at.owner),
        ],
    )
    .await?;
    let mut ids = HashMap::with_capacity(found.len());
    for row in &found {
        ids.insert(int(row, 0)?, LeaseId(int(row, 1)?));
    }
    let shared: Vec<i64> =
        chosen.iter().filter(|at| at.slot.concurrency > 1).map(|at| at.slot.queue).collect();
    renew_tops(tx, &shared).await?;
    let leases = chosen.into_iter().filter_map(|at| {
        Some(Lease {
            id: *ids.get(&at.slot.id)?,
            task: Task { leased: true, ..at.task },
            source: at.source,
            validators: at.validators,
            validators_for: at.validators_for,
            robots: at.robots,
            now,
            until,
            delay: at.slot.pace.pause(rules.delay.get()),
        })
    });
    Ok(leases.collect())
}

/// What a claim begins with.
struct Look {
    now: Ts,
    /// Something in the waiting room is due.
    waiting: bool,
    /// A lease has run out.
    expired: bool,
}

async fn look(db: &PgDb, client: &Conn, expired: bool) -> Result<Look, DbError> {
    let sql = "SELECT n.now, EXISTS(SELECT 1 FROM delayed WHERE due <= n.now),
          $2 AND EXISTS(SELECT 1 FROM host WHERE lease_id IS NOT NULL AND next_at <= n.now)
        FROM (SELECT coalesce($1, feedmill_now()) AS now) n";
    let row = first(client, sql, &[&db.given_now(), &expired]).await?.ok_or(DbError::Closed)?;
    Ok(Look { now: Ts::from_ms(int(&row, 0)?), waiting: row.try_get(1)?, expired: row.try_get(2)? })
}

/// Moves what is due from the waiting room into the queue, as far as nobody else is at it.
async fn promote(client: &mut Conn, now: Ts) -> Result<(), DbError> {
    let tx = client.transaction().await?;
    // Which queues, then their locks, and only then the rows: the other way round, somebody who
    // holds a queue and wants a row could wait for us while we wait for the queue.
    let found = rows(
        &tx,
        "SELECT id FROM host WHERE id IN (SELECT t.host_id FROM task t JOIN (SELECT task_id
           FROM delayed WHERE due <= $1 ORDER BY due LIMIT $2) d ON d.task_id = t.id)
         FOR NO KEY UPDATE SKIP LOCKED",
        &[&now.ms(), &PROMOTE],
    )
    .await?;
    if found.is_empty() {
        tx.commit().await?;
        return Ok(());
    }
    let queues: Vec<i64> = found.iter().map(|row| int(row, 0)).collect::<Result<_, _>>()?;
    let found = rows(
        &tx,
        "WITH due AS (SELECT d.due, d.task_id, t.host_id, t.lane, t.prio, t.kind, t.status
             FROM (SELECT due, task_id FROM delayed WHERE due <= $1 ORDER BY due LIMIT $2) d
             JOIN task t ON t.id = d.task_id WHERE t.host_id = ANY($3::bigint[])),
           gone AS (DELETE FROM delayed d USING due WHERE d.due = due.due AND d.task_id = due.task_id)
         SELECT task_id, host_id, lane, prio, due, kind, status FROM due",
        &[&now.ms(), &PROMOTE, &queues],
    )
    .await?;
    let places: Vec<_> = whole_rows("task", found.iter().map(read_place))?;
    enqueue(&tx, &places, now).await?;
    renew_tops(&tx, &queues).await?;
    tx.commit().await?;
    Ok(())
}
