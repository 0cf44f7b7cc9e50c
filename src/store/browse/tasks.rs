//! Tasks by what they are, where a page of them is not what is wanted.

use crate::db::DbError;
use crate::db::statement::Terms;
use crate::model::Ts;
use crate::store::Store;

/// Which of these addresses of a host, or group of hosts, were not known before this time: the heads of
/// their hashes.
pub async fn taken_in(
    store: &dyn Store,
    host: &str,
    hashes: &[i64],
    since: Ts,
) -> Result<Vec<i64>, DbError> {
    let mut terms = Terms::new(store.dialect());
    let (host, since) = (terms.text(host), terms.int(since.ms()));
    terms.add(format!("t.host_id = (SELECT id FROM host WHERE name = {host} AND slot = 0)"));
    // The lanes are all there are: naming them lets the index lead to the rows.
    terms.add("t.lane IN (0, 1, 2)");
    terms.among("t.hash", hashes.iter().copied());
    terms.add(format!("t.discovered_at >= {since}"));
    let sql = format!("SELECT t.hash FROM task t WHERE {}", terms.sql());
    store.select(terms.statement(sql)).await?.iter().map(|row| row.int(0)).collect()
}
