//! Taking addresses in: each is known once, and a known one is at most moved forward.

use std::collections::HashMap;

use rusqlite::Connection;

use super::rows::{
    Place, dequeue, enqueue, number, pass_to, put_in_line, queue_of, raise_top, refer, renew_tops,
};
use crate::db::DbError;
use crate::frontier::rulings::{FORGOTTEN, KnownTask, Teller, Wish, is_free, new_due};
use crate::frontier::{Candidate, Refusals, Rules};
use crate::model::{Code, Kind, Lane, Origin, Scope, Status, Ts, UrlHash};

/// What became of a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) new: u64,
    pub(crate) known: u64,
    pub(crate) raised: u64,
    /// Places in the batch whose 64 bits of hash are another address's.
    pub(crate) collided: Vec<usize>,
    /// Places in the batch of what was taken down.
    pub(crate) refused: Vec<usize>,
}

/// What one batch learns once and not per address.
struct Intake<'a> {
    conn: &'a Connection,
    rules: &'a Rules,
    now: Ts,
    queues: HashMap<&'a str, i64>,
    /// Whether a source is followed.
    followed: HashMap<i64, bool>,
    /// The highest priority that came into a queue's lane.
    tops: HashMap<(i64, Lane), i64>,
}

enum Met {
    New,
    Known,
    Raised,
    Collided,
}

/// Takes a batch in, inside the caller's transaction.
pub(crate) fn take(
    conn: &Connection,
    batch: &[Candidate],
    now: Ts,
    rules: &Rules,
) -> Result<Taken, DbError> {
    let mut intake = Intake {
        conn,
        rules,
        now,
        queues: HashMap::new(),
        followed: HashMap::new(),
        tops: HashMap::new(),
    };
    let mut taken = Taken::default();
    let refusals = refusals(conn, batch.iter().map(|new| new.hash))?;
    for (at, candidate) in batch.iter().enumerate() {
        if refusals.refuses(candidate.hash, &candidate.url) {
            taken.refused.push(at);
            continue;
        }
        let met = intake.take(candidate)?;
        taken.new += u64::from(matches!(met, Met::New));
        taken.known += u64::from(matches!(met, Met::Known | Met::Raised));
        taken.raised += u64::from(matches!(met, Met::Raised));
        if matches!(met, Met::Collided) {
            taken.collided.push(at);
        }
    }
    for ((queue, lane), prio) in &intake.tops {
        raise_top(conn, *queue, *lane, *prio)?;
    }
    Ok(taken)
}

/// Which of these addresses are refused.
pub(crate) fn refusals(
    conn: &Connection,
    hashes: impl IntoIterator<Item = UrlHash>,
) -> Result<Refusals, DbError> {
    let mut refusals = Refusals::default();
    // The usual case: nothing was ever taken down.
    let any = "SELECT EXISTS(SELECT 1 FROM takedown WHERE lifted_at IS NULL)";
    if !conn.prepare_cached(any)?.query_row([], |row| row.get::<_, bool>(0))? {
        return Ok(refusals);
    }
    let sql = "SELECT target FROM takedown WHERE scope = ?1 AND lifted_at IS NULL";
    let mut select = conn.prepare_cached(sql)?;
    let hosts = select.query_map([Scope::Host.number()], |row| row.get(0))?;
    refusals.hosts = hosts.collect::<Result<_, _>>()?;
    let mut select =
        conn.prepare_cached("SELECT EXISTS(SELECT 1 FROM withdrawn WHERE hash = ?1)")?;
    for hash in hashes {
        if select.query_row([hash.as_bytes()], |row| row.get(0))? {
            refusals.hashes.insert(hash);
        }
    }
    Ok(refusals)
}

impl<'a> Intake<'a> {
    fn take(&mut self, new: &'a Candidate) -> Result<Met, DbError> {
        let queue = match self.queues.get(new.host.as_str()) {
            Some(queue) => *queue,
            None => {
                let queue = queue_of(self.conn, &new.host, self.now, self.rules)?;
                self.queues.insert(&new.host, queue);
                queue
            }
        };
        if self.insert(new, queue)? { Ok(Met::New) } else { self.meet_again(new, queue) }
    }

    /// Whether somebody wants it now: its source is followed, or an operator gave it without one.
    fn wanted(&mut self, new: &Candidate) -> Result<bool, DbError> {
        let Some(source) = new.source else { return Ok(true) };
        if let Some(followed) = self.followed.get(&source.0) {
            return Ok(*followed);
        }
        let followed = self
            .conn
            .prepare_cached(
                "SELECT EXISTS(SELECT 1 FROM source WHERE id = ?1 AND enabled_at IS NOT NULL)",
            )?
            .query_row([source.0], |row| row.get(0))?;
        self.followed.insert(source.0, followed);
        Ok(followed)
    }

    fn insert(&mut self, new: &Candidate, queue: i64) -> Result<bool, DbError> {
        let lane = new.kind.lane();
        let due = new.not_before.map_or(self.now.ms(), Ts::ms);
        let wanted = self.wanted(new)?;
        let status = if wanted { Status::Pending } else { Status::Parked };
        // Without RETURNING: with it SQLite keeps a journal for this statement alone, and shortening
        // that costs more with every row of the transaction.
        let inserted = self
            .conn
            .prepare_cached(
                "INSERT INTO task(host_id, lane, hash, kind, prio, status, due, source_id, origin,
                   parent_id, depth, redirects, discovered_at, fetched_at, url, url_key)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15)
                 ON CONFLICT(host_id, lane, hash) DO NOTHING",
            )?
            .execute(rusqlite::params![
                queue,
                lane.number(),
                new.hash.head(),
                new.kind.number(),
                new.priority,
                status.number(),
                due,
                new.source.map(|source| source.0),
                new.origin.number(),
                new.parent.map(|parent| parent.0),
                new.depth,
                new.redirects,
                self.now.ms(),
                new.url,
                new.url_key,
            ])?;
        if inserted == 0 {
            return Ok(false);
        }
        let task = self.conn.last_insert_rowid();
        let prio = i64::from(new.priority);
        let place = Place { task, queue, lane, prio, due };
        if wanted && put_in_line(self.conn, place, self.now)? {
            let top = self.tops.entry((queue, lane)).or_insert(prio);
            *top = prio.max(*top);
        }
        Ok(true)
    }

    /// Adds the reference, and moves the task forward where that is allowed.
    fn meet_again(&mut self, new: &Candidate, queue: i64) -> Result<Met, DbError> {
        let lane = new.kind.lane();
        let key = new.url_key.as_deref().unwrap_or(&new.url);
        let (
            id,
            prio,
            status,
            due,
            owner,
            fetched_at,
            fetch_count,
            same,
            kind,
            origin,
            parent,
            depth,
        ): Row = self
            .conn
            .prepare_cached(
                "SELECT id, prio, status, due, source_id, fetched_at, fetch_count,
                   coalesce(url_key, url) = ?4, kind, origin, parent_id, depth FROM task
                 WHERE host_id = ?1 AND lane = ?2 AND hash = ?3",
            )?
            .query_row((queue, lane.number(), new.hash.head(), key), |row| row.try_into())?;
        if !same {
            return Ok(Met::Collided);
        }
        let status = number("status", status, Status::from_number)?;
        let origin = number("origin", origin, Origin::from_number)?;
        let first = owner.map(|owner| Teller::new(owner, origin, parent));
        if let Some(by) = Teller::of(new).filter(|by| first != Some(*by)) {
            refer(self.conn, id, by, self.now)?;
        }
        if !self.wanted(new)? {
            return Ok(Met::Known);
        }
        let kind = number("kind", kind, Kind::from_number)?;
        let wish = Wish::of(new, self.now);
        let mut known = KnownTask {
            kind,
            prio,
            status,
            due,
            fetched_at,
            fetch_count,
            last_error: None,
            strikes: 0,
            owner,
            depth,
        };
        let yields = known.yields_to(&wish);
        let free = owner.is_none() || is_free(kind, status) || yields;
        if let Some(source) = new.source.filter(|_| free) {
            pass_to(self.conn, id, source.0)?;
        }
        if yields {
            self.yield_to(id, new.kind)?;
        }
        // The usual case: it waits for its turn already, or it is done.
        let waits =
            status == Status::Pending && due <= self.now.ms() && i64::from(new.priority) <= prio;
        let waits = waits && kind == new.kind && !yields;
        let is_done = status == Status::Fetched
            && !new.kind.recurs()
            && new.kind != Kind::Probe
            && new.refetch.is_none();
        if waits || is_done {
            return Ok(Met::Known);
        }
        let old = Place { task: id, queue, lane, prio, due };
        let (leased, last_error, strikes) = self.standing(id, queue)?;
        if leased {
            if status == Status::Parked && new.source.is_some() {
                // It goes on when it comes back, or when its lease runs out.
                self.conn
                    .prepare_cached("UPDATE task SET status = 0 WHERE id = ?1")?
                    .execute([id])?;
                enqueue(self.conn, old, self.now)?;
            }
            return Ok(Met::Known);
        }
        (known.last_error, known.strikes) = (last_error, strikes);
        let Some(due) = new_due(&known, &wish, self.now) else {
            return Ok(Met::Known);
        };
        let prio = prio.max(i64::from(new.priority));
        dequeue(self.conn, old)?;
        self.conn
            .prepare_cached(
                "UPDATE task SET prio = ?2, due = ?3, status = 0, kind = ?4,
                   retry = CASE status WHEN 0 THEN retry ELSE 0 END WHERE id = ?1",
            )?
            .execute((id, prio, due, known.turns_into(&wish).number()))?;
        enqueue(self.conn, Place { prio, due, ..old }, self.now)?;
        renew_tops(self.conn, queue)?;
        Ok(Met::Raised)
    }

    /// A channel is what an operator says it is, and nothing is known of it as that.
    fn yield_to(&self, task: i64, kind: Kind) -> Result<(), DbError> {
        for table in FORGOTTEN {
            let sql = format!("DELETE FROM {table} WHERE task_id = ?1");
            self.conn.prepare_cached(&sql)?.execute([task])?;
        }
        self.conn
            .prepare_cached("UPDATE task SET kind = ?2, depth = 0 WHERE id = ?1")?
            .execute((task, kind.number()))?;
        Ok(())
    }

    /// Whether a task is under way, what went wrong with it last, and its strikes.
    fn standing(&self, task: i64, queue: i64) -> Result<(bool, Option<Code>, i64), DbError> {
        let (leased, code, strikes): (bool, Option<i64>, i64) = self
            .conn
            .prepare_cached(
                "SELECT EXISTS(SELECT 1 FROM host WHERE queue_id = ?2 AND lease_task = ?1),
                   (SELECT last_error FROM fetch_state WHERE task_id = ?1),
                   coalesce((SELECT strikes FROM fetch_state WHERE task_id = ?1), 0)",
            )?
            .query_row((task, queue), |row| row.try_into())?;
        let code = code.map(|code| number("code", code, Code::from_number)).transpose()?;
        Ok((leased, code, strikes))
    }
}

/// Row, priority, status, due, owner, last fetch, fetches, whether the address is the same, kind, and
/// who told of it first, and how far it is from where that began.
type Row = (i64, i64, i64, i64, Option<i64>, Option<i64>, u32, bool, i64, i64, Option<i64>, i64);
