//! The frames of hosts, one row each.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::db::postgres::{Tx, column, first, rows, run};
use crate::db::{DbError, Session};
use crate::model::{NewEvent, TaskId};
use crate::store::Commit;
use crate::store::prints::{self, Prints};

/// Blocks that stand on several pages of a host.
pub(super) async fn repeated<C: Session>(client: &C, host: &str) -> Result<HashSet<u64>, DbError> {
    let sql = "SELECT prints FROM host_prints WHERE host = $1";
    let Some(row) = first(client, sql, &[&host]).await? else { return Ok(HashSet::new()) };
    Ok(Prints::read(row.try_get(0)?).repeated())
}

/// Counts the blocks of the articles that came with these events. The caller holds the log, so that
/// nobody else counts meanwhile.
pub(super) async fn learn(
    tx: &Tx<'_>,
    commits: &[&Commit],
    events: &HashMap<TaskId, NewEvent>,
) -> Result<(), DbError> {
    let mut told: BTreeMap<String, Vec<&[u64]>> = BTreeMap::new();
    for commit in commits {
        let Some(fact) = &commit.outcome.article else { continue };
        if let Some(host) = prints::host(fact, events.get(&commit.lease.task.id)) {
            told.entry(host).or_default().push(&fact.prints);
        }
    }
    if told.is_empty() {
        return Ok(());
    }
    let hosts: Vec<&String> = told.keys().collect();
    let sql = "SELECT host, prints FROM host_prints WHERE host = ANY($1::text[])";
    let mut kept: HashMap<String, Prints> = HashMap::new();
    for row in &rows(tx, sql, &[&hosts]).await? {
        kept.insert(row.try_get(0)?, Prints::read(row.try_get(1)?));
    }
    let mut changed = Vec::with_capacity(told.len());
    for (host, pages) in &told {
        let mut prints = kept.remove(host).unwrap_or_default();
        pages.iter().for_each(|page| prints.add(page));
        changed.push((host.as_str(), prints.write()));
    }
    run(
        tx,
        "INSERT INTO host_prints(host, prints) SELECT * FROM unnest($1::text[], $2::bytea[])
         ON CONFLICT (host) DO UPDATE SET prints = excluded.prints",
        &[&column(&changed, |(host, _)| *host), &column(&changed, |(_, prints)| prints.as_slice())],
    )
    .await?;
    Ok(())
}
