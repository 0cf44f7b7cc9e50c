//! A store that knows many articles, written past it: only what a look-up touches, with random
//! sketches as texts that have nothing in common have.

use std::path::Path;

use anyhow::Context as _;
use feedmill_formats::sketch::{KEYS, MARKS, Sketch};
use rusqlite::{Connection, params};

use super::syndication::Rng;

/// Articles whose keys are written together.
const STRETCH: usize = 500_000;
/// The range of a sketch's hashes.
const RANGE: f64 = (1_u64 << 40) as f64;

/// Makes so many articles known; the bytes that the index of their keys takes.
pub(super) fn fill(path: &Path, articles: usize, seed: u64) -> anyhow::Result<u64> {
    let mut conn = Connection::open(path)?;
    conn.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000;
         PRAGMA locking_mode = EXCLUSIVE",
    )?;
    // Built in one go at the end.
    let find = "SELECT sql FROM sqlite_master WHERE name = 'article_content'";
    let index: String = conn.query_row(find, [], |row| row.get(0))?;
    conn.execute_batch("DROP INDEX article_content")?;
    let mut rng = Rng(seed ^ 0x6b6e_6f77);
    let (mut taken, mut row) = (0, 0);
    while row < articles {
        let stretch = STRETCH.min(articles - row);
        let tx = conn.transaction()?;
        let mut keys = Vec::with_capacity(stretch * KEYS);
        {
            let mut insert = tx.prepare_cached(
                "INSERT INTO article(row, id, task_id, content_hash, simhash, site, sketch, revision,
                   first_seen, last_seen, body) VALUES(?1, ?2, 0, ?3, 0, ?4, ?5, 1, 0, 0, '{}')",
            )?;
            for _ in 0..stretch {
                row += 1;
                let sketch = made_up(&mut rng)?;
                let number = i64::try_from(row)?;
                let mut id = [0; 32];
                id.iter_mut().zip(number.to_be_bytes()).for_each(|(to, from)| *to = from);
                let mut hash = [0; 32];
                hash.iter_mut().zip(rng.next().to_be_bytes()).for_each(|(to, from)| *to = from);
                let site = format!("known{}.example", row % 10_000);
                insert.execute(params![number, id, hash, site, sketch.to_bytes()])?;
                keys.extend(sketch.keys().map(|key| (key, number)));
            }
        }
        let before = size(&tx)?;
        keys.sort_unstable();
        {
            let mut insert = tx.prepare_cached("INSERT INTO article_key VALUES(?1, ?2)")?;
            for (key, number) in keys {
                insert.execute((key, number))?;
            }
        }
        taken += size(&tx)? - before;
        tx.commit()?;
    }
    conn.execute_batch(&index)?;
    Ok(taken)
}

fn size(conn: &Connection) -> anyhow::Result<u64> {
    let pages: u64 = conn.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    let bytes: u64 = conn.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    Ok(pages * bytes)
}

/// The sketch of a text of 200 to 1,000 words: the smallest of as many random hashes.
fn made_up(rng: &mut Rng) -> anyhow::Result<Sketch> {
    let gap = RANGE / (200.0 * 5.0_f64.powf(rng.share()));
    let (mut at, mut bytes) = (0.0, Vec::with_capacity(MARKS * 5));
    for _ in 0..MARKS {
        at += 1.0 - gap * (1.0 - rng.share()).ln();
        let mark = (at.min(RANGE - 1.0) as u64).to_be_bytes();
        bytes.extend(mark.into_iter().skip(3));
    }
    Sketch::from_bytes(&bytes).context("no such sketch")
}
