//! Making outcomes true, many in one transaction.
//!
//! The order is that of the locks: which sources are followed; the queues of all leases and of all
//! addresses found, in one statement; at the end the log. A batch that fails is tried again one by
//! one by the caller, so that a bad outcome falls alone.

use std::collections::{BTreeSet, HashMap};

use feedmill_formats::url as web;

use super::keep::{
    bury_entries, put_discoveries, put_entries, put_feeds, put_fetches, put_moved, put_outside,
    put_robots, see_again,
};
use super::takedown::{put_erasures, put_graves};
use super::{article, log, prints};
use crate::db::postgres::{Tx, rows};
use crate::db::{DbError, PgDb};
use crate::frontier::postgres::{
    Completed, Leases, int, keep as keep_sources, lock_held, now, queue_ids, refusals, rehome,
    renew_tops, settle, take,
};
use crate::frontier::{Candidate, Refusals, Rules, admit, queue_key};
use crate::model::{EntryFact, NewEvent, TaskId, Ts, UrlHash};
use crate::store::{Commit, Committed, takedown};

/// An outcome with what can be worked out before the transaction.
pub(super) struct Prepared {
    commit: Commit,
    found: Vec<Candidate>,
    settled: Option<Candidate>,
    moved: Option<Candidate>,
    answered_by: Option<String>,
    /// What it speaks of, beside what it found.
    addresses: Vec<UrlHash>,
}

impl Prepared {
    pub(super) fn new(commit: Commit, rules: &Rules) -> Self {
        let outcome = &commit.outcome;
        let answered_by = outcome.fetches.last().and_then(|fetch| web::parse(&fetch.url).ok());
        Self {
            found: outcome.discovered.iter().filter_map(|new| admit(new, rules).ok()).collect(),
            settled: outcome.settled.as_ref().and_then(|new| admit(new, rules).ok()),
            moved: outcome.moved.as_ref().and_then(|moved| admit(&moved.to, rules).ok()),
            answered_by: answered_by
                .map(|url| queue_key(&web::host(&url), &rules.groups).to_owned()),
            addresses: takedown::addresses(&commit, rules),
            commit,
        }
    }

    fn completed(&self) -> Completed<'_> {
        let Commit { lease, outcome } = &self.commit;
        Completed {
            lease: lease.id,
            task: lease.task.id,
            next: &outcome.next,
            reason: &outcome.reason,
            validators: outcome.validators.as_ref(),
            advice: outcome.host,
            answered_by: self.answered_by.as_deref(),
        }
    }
}

/// What became of a batch: an answer each, and what others may want to hear of.
pub(super) struct Done {
    pub(super) answers: Vec<Committed>,
    pub(super) found: bool,
    pub(super) logged: bool,
}

/// Makes a batch true as a whole.
pub(super) async fn commit(db: &PgDb, batch: &[&Prepared], rules: &Rules) -> Result<Done, DbError> {
    let candidates =
        || batch.iter().flat_map(|one| one.found.iter().chain(&one.settled).chain(&one.moved));
    let names = candidates().map(|new| new.host.as_str()).collect();
    let queues = queue_ids(db, names, rules).await?;
    let leases: Vec<i64> = batch.iter().map(|one| one.commit.lease.id.0).collect();
    let tasks: Vec<i64> = batch.iter().map(|one| one.commit.lease.task.id.0).collect();

    let mut client = db.client().await?;
    let tx = client.transaction().await?;
    let respells = |one: &&Prepared| one.moved.is_some() || one.commit.outcome.discovery.is_some();
    let moves = batch.iter().any(respells);
    if moves || candidates().any(|new| new.source.is_some()) {
        keep_sources(&tx).await?;
    }
    let mut touched =
        lock_held(&tx, &queues.values().copied().collect::<Vec<_>>(), &leases).await?;
    let spoken_of = batch.iter().flat_map(|one| one.addresses.iter().copied());
    let spoken_of: Vec<UrlHash> = spoken_of.chain(candidates().map(|new| new.hash)).collect();
    let (now, held, versions, refused) = tokio::try_join!(
        now(db, &tx),
        Leases::read(&tx, &leases, &tasks),
        feed_versions(&tx, batch),
        refusals(&tx, &spoken_of)
    )?;
    let answers = judge(batch, &held, &versions);
    let live = batch.iter().zip(&answers).filter(|(_, answer)| **answer == Committed::Done);
    let live: Vec<&Prepared> = live.map(|(one, _)| *one).collect();
    let stripped = strip(&tx, &live, &refused, rules).await?;
    let live: Vec<&Prepared> =
        live.iter().zip(&stripped).map(|(one, less)| less.0.as_ref().unwrap_or(one)).collect();
    let (renewed, told_first) = move_on(&tx, &live, &held, &refused, &queues, now, rules).await?;
    touched.retain(|queue| !renewed.contains(queue));
    renew_tops(&tx, &touched).await?;
    let moved = readdress(&tx, &live, &queues, now).await?;
    let mut events = keep(&tx, &live, &told_first, now).await?;
    let graves: Vec<_> = stripped.iter().flat_map(|(_, graves)| graves.iter().cloned()).collect();
    if !graves.is_empty() {
        put_graves(&tx, &graves, now).await?;
    }
    for one in moved {
        put_moved(&tx, &one.commit.lease.task, one.moved.as_ref().map_or("", |to| &to.url)).await?;
        events.extend(one.commit.outcome.moved.as_ref().map(|moved| moved.event.clone()));
    }
    log::append(&tx, &events, now).await?;
    tx.commit().await?;
    let found = live.iter().any(|one| !one.found.is_empty());
    Ok(Done { answers, found, logged: !events.is_empty() })
}

type Left = (Option<Prepared>, Vec<(TaskId, EntryFact)>);

/// What is left of outcomes when something of them was taken down.
async fn strip(
    tx: &Tx<'_>,
    live: &[&Prepared],
    refused: &Refusals,
    rules: &Rules,
) -> Result<Vec<Left>, DbError> {
    let mut left = Vec::with_capacity(live.len());
    for one in live {
        let Some(stripped) = takedown::strip(&one.commit, refused, rules) else {
            left.push((None, Vec::new()));
            continue;
        };
        put_erasures(tx, &stripped.erased).await?;
        let feed = one.commit.lease.task.id;
        let graves = stripped.graves.into_iter().map(|fact| (feed, fact)).collect();
        left.push((Some(Prepared::new(stripped.commit, rules)), graves));
    }
    Ok(left)
}

/// The states of the feeds that these outcomes were decided on.
async fn feed_versions(tx: &Tx<'_>, batch: &[&Prepared]) -> Result<HashMap<i64, i64>, DbError> {
    let feeds = batch.iter().filter(|one| one.commit.outcome.feed.is_some());
    let tasks: Vec<i64> = feeds.map(|one| one.commit.lease.task.id.0).collect();
    if tasks.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "SELECT task_id, version FROM feed WHERE task_id = ANY($1::bigint[])";
    let found = rows(tx, sql, &[&tasks]).await?;
    found.iter().map(|row| Ok((int(row, 0)?, int(row, 1)?))).collect()
}

/// Which outcomes are made true: those of a lease that still holds, once each, on the feed's state
/// that they were decided on.
fn judge(batch: &[&Prepared], held: &Leases, versions: &HashMap<i64, i64>) -> Vec<Committed> {
    let mut seen = BTreeSet::new();
    let judge = |one: &&Prepared| {
        let Commit { lease, outcome } = &one.commit;
        let version = versions.get(&lease.task.id.0).copied().unwrap_or_default();
        if outcome.feed.as_ref().is_some_and(|fact| fact.based_on != version) {
            Committed::Conflict
        } else if !held.is_live(lease.id, lease.task.id) || !seen.insert(lease.id.0) {
            Committed::Stale
        } else {
            Committed::Done
        }
    };
    batch.iter().map(judge).collect()
}

/// The frontier's part: what was found goes in, what was served goes on. Returns the queues whose
/// tops are right already, and counts what was new by the task that told of it.
async fn move_on(
    tx: &Tx<'_>,
    live: &[&Prepared],
    held: &Leases,
    refused: &Refusals,
    queues: &HashMap<String, i64>,
    now: Ts,
    rules: &Rules,
) -> Result<(BTreeSet<i64>, HashMap<TaskId, u32>), DbError> {
    // Taken in first, while the served ones are still under way and so stay where they are.
    let found: Vec<&Candidate> =
        live.iter().flat_map(|one| one.found.iter().chain(&one.settled)).collect();
    let told_first = take(tx, &found, refused, queues, now).await?.told_first;
    let settled = live.iter().filter_map(|one| one.settled.as_ref());
    let settled: Vec<&Candidate> =
        settled.filter(|new| !refused.refuses(new.hash, &new.url)).collect();
    settle(tx, &settled, queues, now).await?;
    let done: Vec<Completed<'_>> = live.iter().map(|one| one.completed()).collect();
    let grown = queues.values().copied().collect();
    let renewed = held.complete(tx, &done, &grown, now, rules).await?;
    Ok((renewed, told_first))
}

/// Gives feeds their new addresses; those that could take them.
async fn readdress<'a>(
    tx: &Tx<'_>,
    live: &[&'a Prepared],
    queues: &HashMap<String, i64>,
    now: Ts,
) -> Result<Vec<&'a Prepared>, DbError> {
    let mut moved = Vec::new();
    for one in live {
        let Some(to) = &one.moved else { continue };
        let Some(queue) = queues.get(&to.host) else { continue };
        if rehome(tx, one.commit.lease.task.id, to, *queue, now).await? {
            moved.push(*one);
        }
    }
    Ok(moved)
}

/// The store's part; what the log has to say of it.
async fn keep(
    tx: &Tx<'_>,
    live: &[&Prepared],
    told_first: &HashMap<TaskId, u32>,
    now: Ts,
) -> Result<Vec<NewEvent>, DbError> {
    let commits: Vec<&Commit> = live.iter().map(|one| &one.commit).collect();
    put_fetches(tx, &commits).await?;
    put_robots(tx, &commits, now).await?;
    put_outside(tx, &commits, now).await?;
    put_feeds(tx, &commits, told_first).await?;
    put_discoveries(tx, &commits).await?;
    let mut entries = put_entries(tx, &commits, now).await?;
    see_again(tx, &commits, now).await?;
    let mut gone = bury_entries(tx, &commits, now).await?;
    let mut articles = article::put(tx, &commits, now).await?;
    prints::learn(tx, &commits, &articles).await?;
    let mut events = Vec::new();
    for commit in commits {
        let task = commit.lease.task.id;
        events.extend(entries.remove(&task).into_iter().flatten());
        let deleted = commit.outcome.deleted.iter().filter(|(id, _)| gone.remove(id));
        events.extend(deleted.map(|(_, event)| event.clone()));
        events.extend(articles.remove(&task));
        events.extend(commit.outcome.events.iter().cloned());
    }
    Ok(events)
}
