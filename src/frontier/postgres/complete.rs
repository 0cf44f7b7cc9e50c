//! The end of leases: where their tasks go, and when their hosts may be asked again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::rows::{
    PACE_COLUMNS, Place, dequeue, drop_spare_slots, enqueue, int, places, read_pace,
};
use crate::db::DbError;
use crate::db::postgres::{Given, Tx, clean, column, rows, run};
use crate::frontier::rulings::{self, Ending};
use crate::frontier::{Candidate, Pace, Rules};
use crate::model::{Code, HostAdvice, Kind, Lane, LeaseId, Next, Status, TaskId, Ts, Validators};

/// What completing needs of an outcome.
#[derive(Debug)]
pub(crate) struct Completed<'a> {
    pub(crate) lease: LeaseId,
    pub(crate) task: TaskId,
    pub(crate) next: &'a Next,
    pub(crate) reason: &'a str,
    pub(crate) validators: Option<&'a (Validators, String)>,
    /// The advice, and the queue of the host that gave the answer.
    pub(crate) advice: HostAdvice,
    pub(crate) answered_by: Option<&'a str>,
}

/// A slot that a lease holds.
#[derive(Debug)]
struct Held {
    slot: i64,
    queue: i64,
    name: String,
    /// Whether its queue has other slots.
    shared: bool,
    pace: Pace,
}

/// The leases of a batch, read under the locks.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    held: HashMap<i64, Vec<Held>>,
    places: HashMap<i64, Place>,
}

impl Leases {
    /// Reads what is true of these leases now.
    pub(crate) async fn read(tx: &Tx<'_>, leases: &[i64], tasks: &[i64]) -> Result<Self, DbError> {
        let sql = format!(
            "SELECT lease_id, id, queue_id, name, EXISTS(SELECT 1 FROM host o
               WHERE o.queue_id = host.queue_id AND o.id <> host.id), {PACE_COLUMNS}
             FROM host WHERE lease_id = ANY($1::bigint[]) ORDER BY id"
        );
        let mut held: HashMap<i64, Vec<Held>> = HashMap::new();
        let given: [Given<'_>; 1] = [&leases];
        let (found, places) = tokio::try_join!(rows(tx, &sql, &given), places(tx, tasks))?;
        for row in &found {
            held.entry(int(row, 0)?).or_default().push(Held {
                slot: int(row, 1)?,
                queue: int(row, 2)?,
                name: row.try_get(3)?,
                shared: row.try_get(4)?,
                pace: read_pace(row, 5)?,
            });
        }
        Ok(Self { held, places })
    }

    /// Whether a lease still is what it was. A host that was lent to it may still carry its number:
    /// the task's own one decides.
    pub(crate) fn is_live(&self, lease: LeaseId, task: TaskId) -> bool {
        let own = self.places.get(&task.0).map(|place| place.queue);
        let held = self.held.get(&lease.0);
        held.is_some_and(|slots| slots.iter().any(|slot| Some(slot.queue) == own))
    }

    /// Ends these leases, all of them live. The caller holds the locks, and has taken in what was
    /// found into the `grown` queues: nothing but this changes the queues any more. Returns those
    /// whose tops are right.
    pub(crate) async fn complete(
        &self,
        tx: &Tx<'_>,
        done: &[Completed<'_>],
        grown: &BTreeSet<i64>,
        now: Ts,
        rules: &Rules,
    ) -> Result<BTreeSet<i64>, DbError> {
        if done.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut moved = Vec::with_capacity(done.len());
        for done in done {
            let Some(place) = self.places.get(&done.task.0) else { continue };
            moved.push((done, *place, Ending::of(done.next, done.advice, place.status)));
        }
        dequeue(tx, &column(&moved, |(_, place, _)| *place)).await?;
        // These touch different tables: the server gets them all at once.
        // It looks at the codes before those that are noted.
        move_tasks(tx, &moved, now).await?;
        tokio::try_join!(note(tx, &moved), put_back(tx, &moved, now))?;
        self.release(tx, done, grown, now, rules).await
    }

    /// Frees the slots, and teaches their queues what the answers taught. Returns the queues of one
    /// slot: their tops are right.
    async fn release(
        &self,
        tx: &Tx<'_>,
        done: &[Completed<'_>],
        grown: &BTreeSet<i64>,
        now: Ts,
        rules: &Rules,
    ) -> Result<BTreeSet<i64>, DbError> {
        // Several slots of a queue learn one after the other.
        let mut paces: BTreeMap<i64, Pace> = BTreeMap::new();
        let (mut freed, mut alone, mut shared) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for done in done {
            let place = self.places.get(&done.task.0);
            let lane = place.map(|place| place.lane);
            for held in self.held.get(&done.lease.0).into_iter().flatten() {
                let answered = done.answered_by.is_none_or(|by| by == held.name);
                let advice = rulings::advice(done.advice, answered);
                let pace = paces.get(&held.queue).copied().unwrap_or(held.pace);
                let (pace, next) = pace.after_task(done.task, advice, now, rules.delay.get());
                paces.insert(held.queue, pace);
                freed.push(Freed {
                    slot: held.slot,
                    queue: held.queue,
                    lane: lane.filter(|_| !grown.contains(&held.queue)),
                    next,
                    pace,
                    asked: advice != HostAdvice::NotAsked,
                });
                if held.shared { &mut shared } else { &mut alone }.insert(held.queue);
            }
        }
        free(tx, &freed, now).await?;
        paces.retain(|queue, _| shared.contains(queue));
        spread(tx, &paces).await?;
        if !shared.is_empty() {
            drop_spare_slots(tx, &shared.into_iter().collect::<Vec<_>>()).await?;
        }
        Ok(alone)
    }
}

/// A slot whose lease is over.
struct Freed {
    slot: i64,
    queue: i64,
    /// The only lane in which its queue has changed; all may have when it is not known.
    lane: Option<Lane>,
    next: Ts,
    pace: Pace,
    asked: bool,
}

/// Frees slots. Whatever changes a slot's row changes all of its indexes, so the new tops are written
/// along with the rest; where several slots share a queue, they still have to be renewed.
async fn free(tx: &Tx<'_>, freed: &[Freed], now: Ts) -> Result<(), DbError> {
    run(
        tx,
        include_str!("free.sql"),
        &[
            &column(freed, |freed| freed.slot),
            &column(freed, |freed| freed.queue),
            &column(freed, |freed| freed.lane.map(Lane::number)),
            &column(freed, |freed| freed.next.ms()),
            &column(freed, |freed| freed.pace.learned_ms),
            &column(freed, |freed| freed.pace.blocked_until.ms()),
            &column(freed, |freed| freed.asked),
            &now.ms(),
            &column(freed, |freed| freed.pace.blocked_by.map(|task| task.0)),
        ],
    )
    .await?;
    Ok(())
}

/// What one slot was taught holds for all slots of its queue: none is served before a block ends.
async fn spread(tx: &Tx<'_>, paces: &BTreeMap<i64, Pace>) -> Result<(), DbError> {
    if paces.is_empty() {
        return Ok(());
    }
    let paces: Vec<(i64, Pace)> = paces.iter().map(|(queue, pace)| (*queue, *pace)).collect();
    run(
        tx,
        "UPDATE host h SET learned_ms = w.learned_ms, blocked_until = w.blocked_until,
           blocked_by = w.blocked_by, next_at = greatest(h.next_at, w.blocked_until)
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
           AS w(queue_id, learned_ms, blocked_until, blocked_by)
         WHERE h.queue_id = w.queue_id",
        &[
            &column(&paces, |(queue, _)| *queue),
            &column(&paces, |(_, pace)| pace.learned_ms),
            &column(&paces, |(_, pace)| pace.blocked_until.ms()),
            &column(&paces, |(_, pace)| pace.blocked_by.map(|task| task.0)),
        ],
    )
    .await?;
    Ok(())
}

type Moved<'a> = (&'a Completed<'a>, Place, Ending);

/// When a task is due from now on.
fn due((_, place, ending): &Moved<'_>) -> i64 {
    ending.at.map_or(place.due, Ts::ms)
}

async fn move_tasks(tx: &Tx<'_>, moved: &[Moved<'_>], now: Ts) -> Result<(), DbError> {
    run(
        tx,
        "UPDATE task SET status = w.status, due = w.due,
           retry = CASE
             WHEN w.alone AND (SELECT f.last_error FROM fetch_state f WHERE f.task_id = w.id)
               IS DISTINCT FROM w.code THEN 1
             WHEN w.failed THEN retry + 1 WHEN w.keeps THEN retry ELSE 0 END,
           fetched_at = CASE WHEN w.asked OR w.status = 2 THEN $7::bigint ELSE fetched_at END,
           fetch_count = fetch_count + w.asked::integer
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::boolean[], $6::boolean[],
             $8::boolean[], $9::bigint[])
           AS w(id, status, due, failed, keeps, asked, alone, code) WHERE task.id = w.id",
        &[
            &column(moved, |(_, place, _)| place.task),
            &column(moved, |(.., ending)| ending.status.number()),
            &column(moved, due),
            &column(moved, |(.., ending)| ending.failed),
            &column(moved, |(.., ending)| ending.keeps_failures),
            &column(moved, |(.., ending)| ending.asked),
            &now.ms(),
            &column(moved, |(.., ending)| ending.counted_alone),
            &column(moved, |(.., ending)| ending.code.map(Code::number)),
        ],
    )
    .await?;
    Ok(())
}

/// Those that come back take their place again.
async fn put_back(tx: &Tx<'_>, moved: &[Moved<'_>], now: Ts) -> Result<(), DbError> {
    // robots.txt is asked for when a task needs it, never by its own schedule.
    let pending = moved.iter().filter(|(_, place, ending)| {
        ending.status == Status::Pending && place.kind != Kind::Robots
    });
    let pending: Vec<Place> = pending.map(|moved| Place { due: due(moved), ..moved.1 }).collect();
    enqueue(tx, &pending, now).await
}

/// Writes down what the last outcomes were.
async fn note(tx: &Tx<'_>, moved: &[Moved<'_>]) -> Result<(), DbError> {
    run(
        tx,
        "INSERT INTO fetch_state AS f(task_id, last_error, reason, etag, last_modified, validators_for)
         SELECT task_id, last_error, reason, etag, last_modified, validators_for
         FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[])
           AS w(task_id, last_error, reason, etag, last_modified, validators_for)
         ON CONFLICT (task_id) DO UPDATE SET last_error = excluded.last_error, reason = excluded.reason,
           strikes = 0,
           etag = CASE WHEN excluded.validators_for IS NULL THEN f.etag ELSE excluded.etag END,
           last_modified = CASE WHEN excluded.validators_for IS NULL THEN f.last_modified
             ELSE excluded.last_modified END,
           validators_for = coalesce(excluded.validators_for, f.validators_for)",
        &[
            &column(moved, |(_, place, _)| place.task),
            &column(moved, |(.., ending)| ending.code.map(Code::number)),
            &column(moved, |(done, ..)| clean(done.reason)),
            &column(moved, |(done, ..)| done.validators.and_then(|(told, _)| told.etag.as_deref())),
            &column(moved, |(done, ..)| {
                done.validators.and_then(|(told, _)| told.last_modified.as_deref())
            }),
            &column(moved, |(done, ..)| done.validators.map(|(_, belongs_to)| clean(belongs_to))),
        ],
    )
    .await?;
    Ok(())
}

/// Marks addresses that answered in another's place as done, so that they are not asked for again.
/// One that is under way just now ends by itself.
pub(crate) async fn settle(
    tx: &Tx<'_>,
    done: &[&Candidate],
    queues: &HashMap<String, i64>,
    now: Ts,
) -> Result<(), DbError> {
    if done.is_empty() {
        return Ok(());
    }
    let found = rows(
        tx,
        "SELECT DISTINCT t.id, t.host_id, t.lane, t.prio, t.due, t.kind, t.status
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS k(host_id, lane, hash)
         JOIN task t ON t.host_id = k.host_id AND t.lane = k.lane AND t.hash = k.hash
         LEFT JOIN host l ON l.queue_id = t.host_id AND l.lease_task = t.id
         WHERE t.status = 0 AND l.id IS NULL",
        &[
            &column(done, |done| queues.get(&done.host).copied()),
            &column(done, |done| done.kind.lane().number()),
            &column(done, |done| done.hash.head()),
        ],
    )
    .await?;
    let places: Vec<Place> = found.iter().map(super::rows::read_place).collect::<Result<_, _>>()?;
    dequeue(tx, &places).await?;
    run(
        tx,
        "UPDATE task SET status = $2::bigint, fetched_at = $3 WHERE id = ANY($1::bigint[])",
        &[&column(&places, |place| place.task), &Status::Fetched.number(), &now.ms()],
    )
    .await?;
    Ok(())
}
