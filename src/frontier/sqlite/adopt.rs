//! Brings the rows of hosts in line with what the configuration says of groups and slots.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension};

use super::rows::{queue_of, renew_tops, set_slots};
use crate::db::DbError;
use crate::frontier::Rules;
use crate::frontier::adopt::{Adopted, NOTE, forget, is_settled, merge, queue_for, take_along};
use crate::model::Ts;

/// What was adopted last.
pub(super) fn adopted(conn: &Connection) -> Result<Option<Adopted>, DbError> {
    let text: Option<String> = conn
        .query_row("SELECT value FROM meta WHERE key = ?1", [NOTE], |row| row.get(0))
        .optional()?;
    text.as_deref().map(Adopted::from_text).transpose()
}

/// Adopts the rules; how many tasks changed their queue.
pub(super) fn adopt(conn: &Connection, now: Ts, rules: &Rules) -> Result<u64, DbError> {
    let (before, wanted) = (adopted(conn)?, Adopted::of(rules));
    if before.as_ref() == Some(&wanted) {
        return Ok(0);
    }
    if let Some(old) = before.and_then(|before| before.other_concurrency(rules)) {
        let sql = "SELECT id FROM host WHERE slot = 0 AND concurrency = ?1";
        let queues: Vec<i64> =
            conn.prepare(sql)?.query_map([old], |row| row.get(0))?.collect::<Result<_, _>>()?;
        queues.into_iter().try_for_each(|queue| set_slots(conn, queue, rules.concurrency))?;
    }
    let moved = regroup(conn, now, rules)?;
    let note = wanted.to_text()?;
    conn.execute("INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)", (NOTE, note))?;
    Ok(moved)
}

fn regroup(conn: &Connection, now: Ts, rules: &Rules) -> Result<u64, DbError> {
    conn.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS moved(task_id INTEGER PRIMARY KEY, queue_id INTEGER NOT NULL);
         DELETE FROM moved",
    )?;
    let sql = "SELECT id, name, (SELECT url FROM task WHERE host_id = host.id LIMIT 1)
        FROM host WHERE slot = 0";
    let queues: Vec<(i64, String, Option<String>)> = conn
        .prepare(sql)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    let (mut pairs, mut moved) = (BTreeSet::new(), 0);
    for (queue, name, sample) in queues {
        if !is_settled(&name, sample.as_deref(), rules) {
            moved += assign(conn, (queue, &name), &mut pairs, now, rules)?;
        }
    }
    conn.execute_batch(&take_along(now))?;
    for (from, into) in &pairs {
        conn.execute_batch(&merge(*from, *into))?;
    }
    for (from, _) in &pairs {
        conn.execute_batch(&forget(*from))?;
    }
    let touched: BTreeSet<i64> = pairs.iter().flat_map(|(from, into)| [*from, *into]).collect();
    touched.into_iter().try_for_each(|queue| renew_tops(conn, queue))?;
    Ok(moved)
}

/// Notes where the tasks of a queue belong, and what is known of their origins.
fn assign(
    conn: &Connection,
    (queue, name): (i64, &str),
    pairs: &mut BTreeSet<(i64, i64)>,
    now: Ts,
    rules: &Rules,
) -> Result<u64, DbError> {
    let mut known: BTreeMap<String, i64> = BTreeMap::new();
    let mut target = |key: String| -> Result<i64, DbError> {
        if let Some(id) = known.get(&key) {
            return Ok(*id);
        }
        let id = queue_of(conn, &key, now, rules)?;
        pairs.insert((queue, id));
        known.insert(key, id);
        Ok(id)
    };
    let mut moved = 0;
    let mut tasks = conn.prepare("SELECT id, url FROM task WHERE host_id = ?1")?;
    let mut tasks = tasks.query([queue])?;
    while let Some(row) = tasks.next()? {
        let key = queue_for(row.get_ref(1)?.as_str().unwrap_or_default(), rules);
        if key != name {
            conn.prepare_cached("INSERT INTO moved VALUES(?1, ?2)")?
                .execute((row.get::<_, i64>(0)?, target(key)?))?;
            moved += 1;
        }
    }
    let mut origins = conn.prepare("SELECT origin FROM robots WHERE host = ?1")?;
    let origins: Vec<String> =
        origins.query_map([name], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for origin in origins {
        conn.execute(
            "UPDATE robots SET host = ?2 WHERE origin = ?1",
            (&origin, queue_for(&origin, rules)),
        )?;
    }
    // A host without tasks may still have a pause that its group has to keep.
    let own = queue_for(&format!("https://{name}/"), rules);
    if moved == 0 && own != name {
        target(own)?;
    }
    Ok(moved)
}
