//! Looking at the frontier, and an operator's word about a host.

use tokio_postgres::Row;

use super::claim::top_column;
use super::rows::{
    PACE_COLUMNS, TASK_COLUMNS, TASK_JOINS, fit_slots, int, lock, maybe, named, now, queue_ids,
    read_pace, read_task, renew_tops,
};
use crate::db::postgres::{Tx, first, rows, run};
use crate::db::statement::{Dialect, given};
use crate::db::{DbError, PgDb, whole_rows};
use crate::frontier::listing;
use crate::frontier::rulings::looked_at;
use crate::frontier::{
    Counts, HostFilter, HostPatch, HostState, RobotsCopy, Rules, Share, Stats, TaskFilter, hosts,
    queue_key,
};
use crate::model::{Code, Kind, Lane, State, Status, Task, TaskId, Ts};

/// Tasks by filter, in its order.
pub(super) async fn list(db: &PgDb, filter: &TaskFilter) -> Result<Vec<Task>, DbError> {
    let terms = filter.terms_from_here(Dialect::Postgres);
    let (sql, tail) = (terms.sql(), filter.tail());
    let sql = format!("SELECT {TASK_COLUMNS} FROM task t {TASK_JOINS} WHERE {sql} {tail}");
    let client = db.client().await?;
    let found = rows(&client, &sql, &given(&terms.values)).await?;
    whole_rows("task", found.iter().map(|row| read_task(row, 0)))
}

/// How many tasks a filter lets through.
pub(super) async fn tally(db: &PgDb, filter: &TaskFilter) -> Result<u64, DbError> {
    let terms = filter.terms(Dialect::Postgres);
    let sql = format!("SELECT count(*) FROM {} WHERE {}", filter.tables(), terms.sql());
    let client = db.client().await?;
    let found = first(&client, &sql, &given(&terms.values)).await?;
    Ok(found.map(|row| int(&row, 0)).transpose()?.map_or(0, count))
}

/// Where a task stands, from status, whether it failed, and whether it is leased.
fn read_state(row: &Row, from: usize) -> Result<State, DbError> {
    let status = named("status", row, from, Status::from_number)?;
    Ok(State::of(status, row.try_get(from + 1)?, row.try_get(from + 2)?))
}

/// The sources or hosts with most tasks.
pub(super) async fn shares(
    db: &PgDb,
    by: Share,
    top: usize,
) -> Result<Vec<(String, Counts)>, DbError> {
    let client = db.client().await?;
    let mut shares: Vec<(String, Counts)> = Vec::new();
    for row in &rows(&client, &listing::shares_sql(by, top), &[]).await? {
        let name: String = row.try_get(0)?;
        if shares.last().is_none_or(|(last, _)| *last != name) {
            shares.push((name, Counts::default()));
        }
        if let Some((_, counts)) = shares.last_mut() {
            counts.add(read_state(row, 1)?, count(int(row, 4)?));
        }
    }
    Ok(shares)
}

/// Hosts by filter.
pub(super) async fn hosts(
    db: &PgDb,
    filter: &HostFilter,
    rules: &Rules,
) -> Result<Vec<HostState>, DbError> {
    let client = db.client().await?;
    let now = now(db, &client).await?;
    let (sql, terms) = hosts::sql(filter, Dialect::Postgres, now);
    let mut found = Vec::new();
    for row in &rows(&client, &sql, &given(&terms.values)).await? {
        let mut numbers = [None; hosts::NUMBERS];
        for (at, number) in numbers.iter_mut().enumerate() {
            *number = maybe(row, at + 1)?;
        }
        let name: String = row.try_get(0)?;
        let sql = "SELECT origin, crawl_ms, fetched_at, expires_at FROM robots
            WHERE host = $1 AND fetched_at > 0 ORDER BY origin";
        let robots = rows(&client, sql, &[&name]).await?;
        let robots = robots.iter().map(read_copy).collect::<Result<_, _>>()?;
        found.push(hosts::state(name, numbers, robots, now, rules));
    }
    Ok(found)
}

fn read_copy(row: &Row) -> Result<RobotsCopy, DbError> {
    Ok(RobotsCopy {
        origin: row.try_get(0)?,
        crawl_delay_ms: maybe(row, 1)?,
        fetched_at: Ts::from_ms(int(row, 2)?),
        expires_at: Ts::from_ms(int(row, 3)?),
    })
}

/// The frontier in figures.
pub(super) async fn stats(db: &PgDb) -> Result<Stats, DbError> {
    let mut stats = Stats { next_due: next_due(db, Lane::ALL).await?, ..Stats::default() };
    let client = db.client().await?;
    let by_kind = rows(
        &client,
        "SELECT t.kind, t.status, t.retry > 0, l.id IS NOT NULL, count(*) FROM task t
         LEFT JOIN host l ON l.queue_id = t.host_id AND l.lease_task = t.id
         GROUP BY 1, 2, 3, 4 ORDER BY 1",
        &[],
    )
    .await?;
    for row in &by_kind {
        let kind = named("kind", row, 0, Kind::from_number)?;
        stats.count(kind, read_state(row, 1)?, count(int(row, 4)?));
    }
    let dead = rows(
        &client,
        "SELECT f.last_error, count(*) FROM task t JOIN fetch_state f ON f.task_id = t.id
         WHERE t.status = 2 AND f.last_error IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1",
        &[],
    )
    .await?;
    for row in &dead {
        stats.dead_by_code.push((named("code", row, 0, Code::from_number)?, count(int(row, 1)?)));
    }
    let sql = "SELECT (SELECT count(*) FROM host WHERE slot = 0), (SELECT count(*) FROM queue)
        + (SELECT count(*) FROM delayed WHERE due <= coalesce($1, feedmill_now()))";
    if let Some(row) = first(&client, sql, &[&db.given_now()]).await? {
        (stats.hosts, stats.due) = (count(int(&row, 0)?), count(int(&row, 1)?));
    }
    Ok(stats)
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// When the next task of these lanes can be handed out.
pub(super) async fn next_due(db: &PgDb, lanes: &[Lane]) -> Result<Option<Ts>, DbError> {
    if lanes.is_empty() {
        return Ok(None);
    }
    let of_lane = |lane: &Lane| {
        let top = top_column(*lane);
        format!(
            " UNION ALL (SELECT h.next_at FROM generate_series(1, 10) AS p(prio) CROSS JOIN LATERAL
               (SELECT next_at FROM host WHERE {top} = p.prio ORDER BY next_at LIMIT 1) h)"
        )
    };
    let sql = format!(
        "SELECT min(due) FROM (
           SELECT coalesce(min(w.due) FILTER (WHERE w.lane = ANY($1::bigint[])),
               CASE WHEN count(*) = $2 THEN max(w.due) END)
             FROM (SELECT d.due, t.lane FROM delayed d JOIN task t ON t.id = d.task_id
               ORDER BY d.due LIMIT $2) w{}) AS n(due)",
        lanes.iter().map(of_lane).collect::<String>()
    );
    let client = db.client().await?;
    let asked: Vec<i64> = lanes.iter().map(|lane| lane.number()).collect();
    let row = first(&client, &sql, &[&asked, &looked_at(lanes)]).await?;
    Ok(row.map(|row| maybe(&row, 0)).transpose()?.flatten().map(Ts::from_ms))
}

/// Whether a task of these lanes is due on a host that is not blocked.
pub(super) async fn has_work(db: &PgDb, lanes: &[Lane]) -> Result<bool, DbError> {
    let client = db.client().await?;
    for lane in lanes {
        let sql = format!(
            "SELECT EXISTS(SELECT 1 FROM host WHERE {top} IS NOT NULL AND blocked_until <= n.now)
               OR EXISTS(SELECT 1 FROM delayed d JOIN task t ON t.id = d.task_id
                 JOIN host h ON h.id = t.host_id
                 WHERE d.due <= n.now AND t.lane = $2::bigint AND h.blocked_until <= n.now)
             FROM (SELECT coalesce($1, feedmill_now()) AS now) n",
            top = top_column(*lane)
        );
        let row = first(&client, &sql, &[&db.given_now(), &lane.number()]).await?;
        if row.map(|row| row.try_get(0)).transpose()?.unwrap_or(false) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Applies what an operator says about a host.
pub(super) async fn set_host(
    db: &PgDb,
    host: &str,
    patch: &HostPatch,
    rules: &Rules,
) -> Result<(), DbError> {
    let name = queue_key(host, &rules.groups);
    let ids = queue_ids(db, [name].into(), rules).await?;
    let Some(queue) = ids.get(name) else { return Ok(()) };
    let mut client = db.client().await?;
    let tx = client.transaction().await?;
    lock(&tx, &[*queue]).await?;
    if patch.forget {
        run(&tx, "UPDATE host SET learned_ms = 0 WHERE queue_id = $1", &[queue]).await?;
        run(
            &tx,
            "UPDATE task SET retry = 0 WHERE host_id = $1 AND lane = $2::bigint AND kind = $3::bigint",
            &[queue, &Lane::Poll.number(), &Kind::Robots.number()],
        )
        .await?;
        end_pause(db, &tx, *queue, rules).await?;
    }
    if let Some(delay) = patch.delay {
        let ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX).min(i64::MAX / 2);
        // The pause that is under way is lengthened as well.
        run(
            &tx,
            "UPDATE host SET slow_ms = $2, next_at = CASE WHEN lease_id IS NULL
               THEN greatest(next_at, coalesce(last_fetch_at, 0) + $2) ELSE next_at END
             WHERE queue_id = $1",
            &[queue, &ms],
        )
        .await?;
    }
    if let Some(slots) = patch.concurrency {
        let slots = i32::try_from(slots.max(1)).unwrap_or(i32::MAX);
        run(&tx, "UPDATE host SET concurrency = $2 WHERE queue_id = $1", &[queue, &slots]).await?;
        fit_slots(&tx, &[*queue]).await?;
        renew_tops(&tx, &[*queue]).await?;
    }
    if let Some(until) = patch.blocked_until {
        block(db, &tx, *queue, (until, patch.blocked_by), rules).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Ends the pause that a response asked for.
async fn end_pause(db: &PgDb, tx: &Tx<'_>, queue: i64, rules: &Rules) -> Result<(), DbError> {
    let now = now(db, tx).await?;
    let sql = format!("SELECT {PACE_COLUMNS} FROM host WHERE id = $1");
    let Some(row) = first(tx, &sql, &[&queue]).await? else { return Ok(()) };
    match read_pace(&row, 0)?.is_asked_to_wait(now) {
        true => block(db, tx, queue, (now, None), rules).await,
        false => Ok(()),
    }
}

async fn block(
    db: &PgDb,
    tx: &Tx<'_>,
    queue: i64,
    (until, by): (Ts, Option<TaskId>),
    rules: &Rules,
) -> Result<(), DbError> {
    let now = now(db, tx).await?;
    let sql = format!("SELECT {PACE_COLUMNS} FROM host WHERE id = $1");
    let Some(row) = first(tx, &sql, &[&queue]).await? else { return Ok(()) };
    // Lifting a block leaves the ordinary pause in place. A lease that runs out meanwhile is not
    // handed out again before the block ends.
    let next = until.max(now.after(read_pace(&row, 0)?.pause(rules.delay.get())));
    run(
        tx,
        "UPDATE host SET blocked_until = $2, blocked_by = $4,
           next_at = CASE WHEN lease_id IS NULL THEN $3 ELSE greatest(next_at, $2) END
         WHERE queue_id = $1",
        &[&queue, &until.ms(), &next.ms(), &by.map(|task| task.0)],
    )
    .await?;
    Ok(())
}
