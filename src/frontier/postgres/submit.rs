//! Taking addresses in, a batch at a time: each is known once, and a known one is at most moved
//! forward. Addresses that a batch gives more than once are made one wish first.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;

use super::rows::{Place, dequeue, enqueue, int, maybe, maybe_code, named, narrow, read_place};
use super::sources::pass_to;
use crate::db::DbError;
use crate::db::postgres::{Tx, clean, column, rows, run};
use crate::frontier::rulings::{FORGOTTEN, KnownTask, Teller, Wish, is_free, new_due};
use crate::frontier::{Candidate, Refusals};
use crate::model::{Origin, Scope, SourceId, Status, TaskId, Ts, UrlHash};

/// What became of a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) new: u64,
    pub(crate) known: u64,
    pub(crate) raised: u64,
    /// Addresses whose 64 bits of hash are another address's.
    pub(crate) collided: Vec<String>,
    /// Addresses that were taken down.
    pub(crate) refused: Vec<String>,
    /// New ones by the task that told of them.
    pub(crate) told_first: HashMap<TaskId, u32>,
}

/// What makes a task one: its queue, its lane and its address.
type Key = (i64, i64, i64);

/// All that a batch says about one address.
struct Asked<'a> {
    key: Key,
    first: &'a Candidate,
    /// What those say who are listened to: an operator, or a source that is followed.
    wish: Wish,
    /// The first source that is followed, else the first one's.
    owner: Option<SourceId>,
    /// Whether it is served, or set aside until a source is followed that wants it.
    wanted: bool,
    given_by: Vec<Teller>,
}

impl Asked<'_> {
    fn address(&self) -> &str {
        address(self.first)
    }

    /// Who told of it first, as the row of a new task says.
    fn first_teller(&self) -> Option<Teller> {
        let parent = self.first.parent.map(|parent| parent.0);
        self.owner.map(|owner| Teller::new(owner.0, self.first.origin, parent))
    }
}

/// What an address is compared by.
fn address(new: &Candidate) -> &str {
    new.url_key.as_deref().unwrap_or(&new.url)
}

/// Takes a batch in. The caller holds the locks of the queues, and before those [`super::keep`] when
/// sources gave something, and renews the tops.
pub(crate) async fn take(
    tx: &Tx<'_>,
    batch: &[&Candidate],
    refusals: &Refusals,
    queues: &HashMap<String, i64>,
    now: Ts,
) -> Result<Taken, DbError> {
    if batch.is_empty() {
        return Ok(Taken::default());
    }
    let mut taken = Taken::default();
    let refused = |new: &&&Candidate| refusals.refuses(new.hash, &new.url);
    taken.refused = batch.iter().filter(refused).map(|new| new.url.clone()).collect();
    let batch: Vec<&Candidate> = batch.iter().filter(|new| !refused(new)).copied().collect();
    let followed = followed(tx, &batch).await?;
    let asked = gather(&batch, queues, &followed, now, &mut taken.collided);
    let inserted = insert(tx, &asked, now).await?;
    let mut tasks: HashMap<Key, (i64, Option<Teller>)> = HashMap::with_capacity(asked.len());
    let mut again: Vec<&Asked<'_>> = Vec::new();
    for asked in &asked {
        match inserted.get(&asked.key) {
            Some(task) => {
                tasks.insert(asked.key, (*task, asked.first_teller()));
                if let Some(parent) = asked.first.parent {
                    *taken.told_first.entry(parent).or_default() += 1;
                }
            }
            None => again.push(asked),
        }
    }
    if !again.is_empty() {
        let mut known = known(tx, &again).await?;
        // The 64 bits of the key may be another address's: once in an age.
        for asked in &again {
            if known.get(&asked.key).is_some_and(|kept| kept.address != asked.address()) {
                taken.collided.push(asked.first.url.clone());
                known.remove(&asked.key);
            }
        }
        taken.raised = meet_again(tx, &again, &known, now).await?;
        tasks.extend(known.into_iter().map(|(key, kept)| (key, (kept.place.task, kept.first))));
    }
    refer(tx, &asked, &tasks, now).await?;
    taken.new = inserted.len() as u64;
    taken.known = (batch.len() - inserted.len() - taken.collided.len()) as u64;
    Ok(taken)
}

/// Which of these addresses are refused. Whoever refuses one waits until all who asked before are done.
pub(crate) async fn refusals(tx: &Tx<'_>, hashes: &[UrlHash]) -> Result<Refusals, DbError> {
    let found = rows(
        tx,
        "SELECT target, NULL::bytea FROM takedown WHERE scope = $2 AND lifted_at IS NULL
         UNION ALL SELECT NULL, hash FROM withdrawn WHERE hash = ANY($1::bytea[])",
        &[&column(hashes, |hash| hash.as_bytes().as_slice()), &Scope::Host.number()],
    )
    .await?;
    let mut refusals = Refusals::default();
    for row in &found {
        refusals.hosts.extend(row.try_get::<_, Option<String>>(0)?);
        let hash = row.try_get::<_, Option<&[u8]>>(1)?;
        refusals.hashes.extend(hash.and_then(|hash| hash.try_into().ok()).map(UrlHash::from_bytes));
    }
    Ok(refusals)
}

async fn followed(tx: &Tx<'_>, batch: &[&Candidate]) -> Result<HashSet<SourceId>, DbError> {
    let given: HashSet<i64> = batch.iter().filter_map(|new| new.source.map(|id| id.0)).collect();
    if given.is_empty() {
        return Ok(HashSet::new());
    }
    let given: Vec<i64> = given.into_iter().collect();
    let sql = "SELECT id FROM source WHERE id = ANY($1::bigint[]) AND enabled_at IS NOT NULL";
    let found = rows(tx, sql, &[&given]).await?;
    found.iter().map(|row| int(row, 0).map(SourceId)).collect()
}

fn gather<'a>(
    batch: &[&'a Candidate],
    queues: &HashMap<String, i64>,
    followed: &HashSet<SourceId>,
    now: Ts,
    collided: &mut Vec<String>,
) -> Vec<Asked<'a>> {
    // In the order given: it is the order of their rows.
    let mut gathered: Vec<Asked<'a>> = Vec::with_capacity(batch.len());
    let mut places: HashMap<Key, usize> = HashMap::with_capacity(batch.len());
    for new in batch {
        let Some(queue) = queues.get(&new.host) else { continue };
        let key = (*queue, new.kind.lane().number(), new.hash.head());
        let at = *places.entry(key).or_insert_with(|| {
            gathered.push(Asked {
                key,
                first: new,
                wish: Wish { sourced: false, refetch: None, ..Wish::of(new, now) },
                owner: new.source,
                wanted: new.source.is_none(),
                given_by: Vec::new(),
            });
            gathered.len() - 1
        });
        let Some(asked) = gathered.get_mut(at) else { continue };
        if asked.address() != address(new) {
            collided.push(new.url.clone());
            continue;
        }
        if new.source.is_none_or(|source| followed.contains(&source)) {
            let wish = Wish::of(new, now);
            asked.wish.prio = asked.wish.prio.max(wish.prio);
            asked.wish.at = asked.wish.at.min(wish.at);
            let refetch = asked.wish.refetch.into_iter().chain(wish.refetch);
            asked.wish.refetch = refetch.max_by_key(|refetch| refetch.changed);
            if !asked.wish.sourced && new.source.is_some() {
                (asked.wish.sourced, asked.owner, asked.wanted) = (true, new.source, true);
                (asked.wish.source, asked.wish.own) = (wish.source, wish.own);
            }
        }
        if let Some(by) = Teller::of(new).filter(|by| !asked.given_by.contains(by)) {
            asked.given_by.push(by);
        }
    }
    gathered
}

/// Puts in what is new; the rows of what went in.
async fn insert(tx: &Tx<'_>, asked: &[Asked<'_>], now: Ts) -> Result<HashMap<Key, i64>, DbError> {
    let status = |asked: &Asked<'_>| if asked.wanted { Status::Pending } else { Status::Parked };
    let found = rows(
        tx,
        include_str!("insert.sql"),
        &[
            &column(asked, |asked| asked.key.0),
            &column(asked, |asked| asked.key.1),
            &column(asked, |asked| asked.key.2),
            &column(asked, |asked| asked.first.kind.number()),
            &column(asked, |asked| asked.wish.prio),
            &column(asked, |asked| status(asked).number()),
            &column(asked, |asked| asked.wish.at),
            &column(asked, |asked| asked.owner.map(|source| source.0)),
            &column(asked, |asked| asked.first.origin.number()),
            &column(asked, |asked| asked.first.parent.map(|parent| parent.0)),
            &column(asked, |asked| i64::from(asked.first.depth)),
            &column(asked, |asked| i64::from(asked.first.redirects)),
            &column(asked, |asked| clean(&asked.first.url)),
            &column(asked, |asked| asked.first.url_key.as_deref().map(clean)),
            &now.ms(),
        ],
    )
    .await?;
    found.iter().map(|row| Ok((key(row, 1)?, int(row, 0)?))).collect()
}

fn key(row: &Row, from: usize) -> Result<Key, DbError> {
    Ok((int(row, from)?, int(row, from + 1)?, int(row, from + 2)?))
}

struct Kept {
    place: Place,
    address: String,
    state: KnownTask,
    owner: Option<i64>,
    /// Who told of it first.
    first: Option<Teller>,
    leased: bool,
}

async fn known(tx: &Tx<'_>, again: &[&Asked<'_>]) -> Result<HashMap<Key, Kept>, DbError> {
    let found = rows(
        tx,
        "SELECT t.id, t.host_id, t.lane, t.prio, t.due, t.kind, t.status, t.hash, t.source_id,
           t.fetched_at, l.id IS NOT NULL, f.last_error, coalesce(t.url_key, t.url), t.fetch_count,
           t.origin, t.parent_id, t.depth, coalesce(f.strikes, 0)::bigint
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS k(host_id, lane, hash)
         JOIN task t ON t.host_id = k.host_id AND t.lane = k.lane AND t.hash = k.hash
         LEFT JOIN host l ON l.queue_id = t.host_id AND l.lease_task = t.id
         LEFT JOIN fetch_state f ON f.task_id = t.id",
        &[
            &column(again, |asked| asked.key.0),
            &column(again, |asked| asked.key.1),
            &column(again, |asked| asked.key.2),
        ],
    )
    .await?;
    let mut kept = HashMap::with_capacity(found.len());
    for row in &found {
        let place = read_place(row)?;
        let state = KnownTask {
            kind: place.kind,
            prio: place.prio,
            status: named("status", row, 6, Status::from_number)?,
            due: place.due,
            fetched_at: maybe(row, 9)?,
            fetch_count: narrow("count", row, 13)?,
            last_error: maybe_code(row, 11)?,
            strikes: int(row, 17)?,
            owner: maybe(row, 8)?,
            depth: int(row, 16)?,
        };
        let key = (place.queue, place.lane.number(), int(row, 7)?);
        let (owner, leased) = (maybe(row, 8)?, row.try_get(10)?);
        let (origin, parent) = (named("origin", row, 14, Origin::from_number)?, maybe(row, 15)?);
        let first = owner.map(|owner| Teller::new(owner, origin, parent));
        kept.insert(key, Kept { place, address: row.try_get(12)?, state, owner, first, leased });
    }
    Ok(kept)
}

/// Moves known tasks forward where that is allowed; how many moved.
async fn meet_again(
    tx: &Tx<'_>,
    again: &[&Asked<'_>],
    known: &HashMap<Key, Kept>,
    now: Ts,
) -> Result<u64, DbError> {
    let (mut adopted, mut moved, mut back) = (Vec::new(), Vec::new(), Vec::new());
    let mut yielding = Vec::new();
    for asked in again {
        let Some(kept) = known.get(&asked.key) else { continue };
        if !asked.wanted {
            continue;
        }
        let parked = kept.state.status == Status::Parked;
        let yields = kept.state.yields_to(&asked.wish);
        let free = kept.owner.is_none() || is_free(kept.state.kind, kept.state.status) || yields;
        if asked.wish.sourced && free {
            adopted.extend(asked.owner.map(|owner| (kept.place.task, owner.0)));
        }
        if yields {
            yielding.push((kept.place.task, asked.wish.kind.number()));
        }
        if kept.leased {
            if parked && asked.wish.sourced {
                // It goes on when it comes back, or when its lease runs out.
                back.push(kept.place);
            }
            continue;
        }
        if let Some(due) = new_due(&kept.state, &asked.wish, now) {
            moved.push((
                kept.place,
                Place {
                    prio: kept.place.prio.max(asked.wish.prio),
                    due,
                    kind: kept.state.turns_into(&asked.wish),
                    ..kept.place
                },
            ));
        }
    }
    pass_to(tx, &adopted).await?;
    yield_to(tx, &yielding).await?;
    let (old, new): (Vec<Place>, Vec<Place>) = moved.into_iter().unzip();
    dequeue(tx, &old).await?;
    revive(tx, &new, true).await?;
    revive(tx, &back, false).await?;
    enqueue(tx, &new, now).await?;
    enqueue(tx, &back, now).await?;
    Ok(new.len() as u64)
}

/// Channels are what operators say they are, and nothing is known of them as that.
async fn yield_to(tx: &Tx<'_>, channels: &[(i64, i64)]) -> Result<(), DbError> {
    if channels.is_empty() {
        return Ok(());
    }
    let (tasks, kinds) = (column(channels, |(task, _)| *task), column(channels, |(_, kind)| *kind));
    for table in FORGOTTEN {
        let sql = format!("DELETE FROM {table} WHERE task_id = ANY($1::bigint[])");
        run(tx, &sql, &[&tasks]).await?;
    }
    let sql = "UPDATE task SET kind = w.kind, depth = 0
       FROM unnest($1::bigint[], $2::bigint[]) AS w(id, kind) WHERE task.id = w.id";
    run(tx, sql, &[&tasks, &kinds]).await?;
    Ok(())
}

/// Writes the new places into the tasks; those that were not pending may start afresh.
async fn revive(tx: &Tx<'_>, places: &[Place], afresh: bool) -> Result<(), DbError> {
    if places.is_empty() {
        return Ok(());
    }
    run(
        tx,
        "UPDATE task SET prio = w.prio, due = w.due, status = 0, kind = w.kind,
           retry = CASE WHEN status <> 0 AND $4 THEN 0 ELSE retry END
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $5::bigint[]) AS w(id, prio, due, kind)
         WHERE task.id = w.id",
        &[
            &column(places, |place| place.task),
            &column(places, |place| place.prio),
            &column(places, |place| place.due),
            &afresh,
            &column(places, |place| place.kind.number()),
        ],
    )
    .await?;
    Ok(())
}

/// Remembers who else told of which tasks, and when first.
async fn refer(
    tx: &Tx<'_>,
    asked: &[Asked<'_>],
    tasks: &HashMap<Key, (i64, Option<Teller>)>,
    now: Ts,
) -> Result<(), DbError> {
    let mut references = Vec::new();
    for asked in asked {
        let Some((task, first)) = tasks.get(&asked.key) else { continue };
        let others = asked.given_by.iter().filter(|by| Some(**by) != *first);
        references.extend(others.map(|given| (*task, *given)));
    }
    if references.is_empty() {
        return Ok(());
    }
    run(
        tx,
        "INSERT INTO task_source(task_id, source_id, origin, channel_id, first_seen)
         SELECT task_id, source_id, origin, channel_id, $5::bigint
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
           AS r(task_id, source_id, origin, channel_id)
         ON CONFLICT DO NOTHING",
        &[
            &column(&references, |(task, _)| *task),
            &column(&references, |(_, by)| by.source),
            &column(&references, |(_, by)| by.origin.number()),
            &column(&references, |(_, by)| by.channel),
            &now.ms(),
        ],
    )
    .await?;
    Ok(())
}
