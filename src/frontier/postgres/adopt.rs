//! Brings the rows of hosts in line with what the configuration says of groups and slots.

use std::collections::BTreeSet;

use super::rows::{fit_slots, lock, now, queue_ids_on, renew_tops};
use crate::db::postgres::{first, rows, run};
use crate::db::{Conn, DbError, PgDb, Session as _};
use crate::frontier::Rules;
use crate::frontier::adopt::{Adopted, NOTE, forget, is_settled, merge, queue_for, take_along};

/// What was adopted last.
pub(super) async fn adopted(db: &PgDb) -> Result<Option<Adopted>, DbError> {
    let sql = "SELECT value FROM meta WHERE key = $1";
    let found = first(&db.client().await?, sql, &[&NOTE]).await?;
    found.map(|row| Adopted::from_text(row.try_get(0)?)).transpose()
}

/// Adopts the rules where nothing was adopted yet; what is adopted then.
pub(super) async fn begin(db: &PgDb, rules: &Rules) -> Result<Option<Adopted>, DbError> {
    let sql = "INSERT INTO meta(key, value) VALUES($1, $2) ON CONFLICT (key) DO NOTHING";
    run(&db.client().await?, sql, &[&NOTE, &Adopted::of(rules).to_text()?]).await?;
    adopted(db).await
}

/// Adopts the rules; how many tasks changed their queue. Only for somebody who is alone.
pub(super) async fn adopt(db: &PgDb, rules: &Rules) -> Result<u64, DbError> {
    let (before, wanted) = (adopted(db).await?, Adopted::of(rules));
    if before.as_ref() == Some(&wanted) {
        return Ok(0);
    }
    let mut client = db.maintenance().await?;
    let moves = moves(db, &mut client, rules).await?;
    let tx = client.transaction().await?;
    let now = now(db, &tx).await?;
    if let Some(old) = before.and_then(|before| before.other_concurrency(rules)) {
        let [old, new] = [old, rules.concurrency].map(|n| i32::try_from(n).unwrap_or(i32::MAX));
        let sql = "SELECT id FROM host WHERE slot = 0 AND concurrency = $1";
        let queues = rows(&tx, sql, &[&old]).await?;
        let queues: Vec<i64> = queues.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let sql = "UPDATE host SET concurrency = $2 WHERE queue_id = ANY($1::bigint[])";
        run(&tx, sql, &[&queues, &new]).await?;
        fit_slots(&tx, &queues).await?;
    }
    lock(&tx, &moves.touched()).await?;
    let table = "CREATE TEMP TABLE moved(task_id bigint PRIMARY KEY, queue_id bigint NOT NULL)
        ON COMMIT DROP";
    tx.batch_execute(table).await?;
    let (tasks, queues): (Vec<i64>, Vec<i64>) = moves.tasks.iter().copied().unzip();
    let sql = "INSERT INTO moved SELECT * FROM unnest($1::bigint[], $2::bigint[])";
    run(&tx, sql, &[&tasks, &queues]).await?;
    tx.batch_execute(&take_along(now)).await?;
    let (origins, hosts): (Vec<&str>, Vec<&str>) =
        moves.origins.iter().map(|(origin, host)| (origin.as_str(), host.as_str())).unzip();
    let sql =
        "UPDATE robots SET host = w.host FROM unnest($1::text[], $2::text[]) AS w(origin, host)
        WHERE robots.origin = w.origin";
    run(&tx, sql, &[&origins, &hosts]).await?;
    for (from, into) in &moves.pairs {
        tx.batch_execute(&merge(*from, *into)).await?;
    }
    for (from, _) in &moves.pairs {
        tx.batch_execute(&forget(*from)).await?;
    }
    renew_tops(&tx, &moves.touched()).await?;
    let sql = "INSERT INTO meta(key, value) VALUES($1, $2)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    run(&tx, sql, &[&NOTE, &wanted.to_text()?]).await?;
    tx.commit().await?;
    Ok(moves.tasks.len() as u64)
}

/// What has to go where.
#[derive(Default)]
struct Moves {
    /// Tasks with their new queues.
    tasks: Vec<(i64, i64)>,
    /// Origins of robots.txt with the names of their new queues.
    origins: Vec<(String, String)>,
    /// Queues with those that take over from them.
    pairs: BTreeSet<(i64, i64)>,
}

impl Moves {
    fn touched(&self) -> Vec<i64> {
        let both = self.pairs.iter().flat_map(|(from, into)| [*from, *into]);
        both.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

async fn moves(db: &PgDb, client: &mut Conn, rules: &Rules) -> Result<Moves, DbError> {
    let sql = "SELECT id, name, (SELECT url FROM task WHERE host_id = host.id LIMIT 1)
        FROM host WHERE slot = 0";
    let mut moves = Moves::default();
    for row in rows(client, sql, &[]).await? {
        let (queue, name): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        if is_settled(&name, row.try_get(2)?, rules) {
            continue;
        }
        let mut wanted: Vec<(Option<i64>, String)> = Vec::new();
        for row in rows(client, "SELECT id, url FROM task WHERE host_id = $1", &[&queue]).await? {
            wanted.push((Some(row.try_get(0)?), queue_for(row.try_get(1)?, rules)));
        }
        if wanted.is_empty() {
            // A host without tasks may still have a pause that its group has to keep.
            wanted.push((None, queue_for(&format!("https://{name}/"), rules)));
        }
        wanted.retain(|(_, key)| *key != name);
        let names = wanted.iter().map(|(_, key)| key.as_str()).collect();
        let ids = queue_ids_on(db, client, names, rules).await?;
        for (task, key) in &wanted {
            let Some(into) = ids.get(key) else { continue };
            moves.tasks.extend(task.map(|task| (task, *into)));
            moves.pairs.insert((queue, *into));
        }
        for row in rows(client, "SELECT origin FROM robots WHERE host = $1", &[&name]).await? {
            let origin: String = row.try_get(0)?;
            let host = queue_for(&origin, rules);
            moves.origins.push((origin, host));
        }
    }
    Ok(moves)
}
