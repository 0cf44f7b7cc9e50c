//! Who else has the words of the articles of a batch: looked up once for all of them, and kept true
//! while one after the other is decided.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;

use crate::db::DbError;
use crate::db::postgres::{Tx, column, rows};
use crate::frontier::postgres::int;
use crate::model::{ArticleFact, ArticleId, ArticleRow};
use crate::store::damage::checked;
use crate::store::forms::sketch;
use crate::store::near::{Candidate, Company, PER_KEY, to_compare};
use crate::store::postgres::read::{hash, maybe_hash};

const CANDIDATE: &str = "a.row, a.id, a.site, a.cluster, coalesce(a.wire, 0), a.sketch";

#[derive(Debug, Default)]
pub(super) struct Around {
    /// The first articles with a text, by its hash.
    twins: HashMap<[u8; 32], Vec<Candidate>>,
    /// What is in the database and may have a part of an article in common with it.
    kept: HashMap<ArticleId, Vec<Candidate>>,
    /// What this batch brought.
    fresh: Vec<Candidate>,
    /// Articles that others are copies of.
    leaders: HashSet<ArticleId>,
}

impl Around {
    /// What there is around these articles.
    pub(super) async fn read(tx: &Tx<'_>, facts: &[&ArticleFact]) -> Result<Self, DbError> {
        if facts.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self {
            twins: twins(tx, facts).await?,
            kept: candidates(tx, facts).await?,
            fresh: Vec::new(),
            leaders: leaders(tx, facts).await?,
        })
    }

    /// What there is around one of them.
    pub(super) fn company(&self, fact: &ArticleFact) -> Company {
        let mut twins = self.twins.get(&fact.content_hash).into_iter().flatten();
        let kept = self.kept.get(&fact.id).into_iter().flatten();
        // What changed meanwhile is as this batch says.
        let kept = kept.filter(|one| self.fresh.iter().all(|fresh| fresh.id != one.id));
        Company {
            twin: twins.find(|twin| twin.id != fact.id).cloned(),
            candidates: kept.chain(&self.fresh).cloned().collect(),
            leads: self.leaders.contains(&fact.id),
        }
    }

    /// Takes in what was decided about one of them.
    pub(super) fn learn(
        &mut self,
        before: Option<&ArticleRow>,
        row: &ArticleRow,
        fact: &ArticleFact,
    ) {
        let this = Candidate::of(fact, row.near.as_ref());
        if let Some(twins) = before.and_then(|before| self.twins.get_mut(&before.content_hash)) {
            twins.retain(|twin| twin.id != fact.id);
        }
        self.twins.entry(fact.content_hash).or_default().push(this.clone());
        self.leaders.extend(row.near.as_ref().map(|near| near.cluster));
        self.fresh.retain(|one| one.id != fact.id);
        self.fresh.push(this);
    }
}

fn read_candidate(row: &Row) -> Result<Candidate, DbError> {
    Ok(Candidate {
        id: ArticleId::from_bytes(hash("article", row, 1)?),
        site: row.try_get(2)?,
        cluster: maybe_hash("article", row, 3)?.map(ArticleId::from_bytes),
        wire: int(row, 4)? != 0,
        sketch: sketch(row.try_get(5)?)?,
    })
}

/// The two first articles with each text: one of them is another than the fact's. Whoever had it
/// first comes before its copies.
async fn twins(
    tx: &Tx<'_>,
    facts: &[&ArticleFact],
) -> Result<HashMap<[u8; 32], Vec<Candidate>>, DbError> {
    let sql = format!(
        "SELECT {CANDIDATE}, w.hash FROM (SELECT DISTINCT unnest($1::bytea[]) AS hash) w
         CROSS JOIN LATERAL (SELECT * FROM article WHERE content_hash = w.hash
           ORDER BY duplicate_of NULLS FIRST, row LIMIT 2) a
         ORDER BY a.duplicate_of NULLS FIRST, a.row"
    );
    let found = rows(tx, &sql, &[&column(facts, |fact| fact.content_hash.as_slice())]).await?;
    let mut twins: HashMap<[u8; 32], Vec<Candidate>> = HashMap::new();
    for row in &found {
        twins
            .entry(hash("article", row, 6)?)
            .or_default()
            .extend(checked(read_candidate(row), || None)?.ok());
    }
    Ok(twins)
}

/// Articles that have keys in common with each of these.
async fn candidates(
    tx: &Tx<'_>,
    facts: &[&ArticleFact],
) -> Result<HashMap<ArticleId, Vec<Candidate>>, DbError> {
    let keys = facts.iter().enumerate();
    let keys =
        keys.flat_map(|(place, fact)| fact.sketch.keys().map(move |key| (place as i64, key)));
    let keys: Vec<(i64, i64)> = keys.collect();
    let found = rows(
        tx,
        "SELECT w.place, k.row FROM unnest($1::bigint[], $2::bigint[]) AS w(place, key)
         CROSS JOIN LATERAL (SELECT row FROM article_key WHERE key = w.key
           ORDER BY row DESC LIMIT $3) k",
        &[&column(&keys, |(place, _)| *place), &column(&keys, |(_, key)| *key), &PER_KEY],
    )
    .await?;
    let mut places: HashMap<i64, Vec<i64>> = HashMap::new();
    for row in &found {
        places.entry(int(row, 0)?).or_default().push(int(row, 1)?);
    }
    let wanted: Vec<(ArticleId, Vec<i64>)> = (0_i64..)
        .zip(facts)
        .map(|(place, fact)| (fact.id, to_compare(places.remove(&place).unwrap_or_default())))
        .collect();
    let all: HashSet<i64> = wanted.iter().flat_map(|(_, rows)| rows).copied().collect();
    let sql = format!("SELECT {CANDIDATE} FROM article a WHERE a.row = ANY($1::bigint[])");
    let found = rows(tx, &sql, &[&all.into_iter().collect::<Vec<_>>()]).await?;
    let mut known: HashMap<i64, Candidate> = HashMap::with_capacity(found.len());
    for row in &found {
        let place = int(row, 0)?;
        // One that is damaged is like nothing.
        known.extend(checked(read_candidate(row), || None)?.ok().map(|one| (place, one)));
    }
    let pick = |rows: Vec<i64>| rows.iter().filter_map(|row| known.get(row).cloned()).collect();
    Ok(wanted.into_iter().map(|(id, rows)| (id, pick(rows))).collect())
}

/// Those of these articles that others are copies of.
async fn leaders(tx: &Tx<'_>, facts: &[&ArticleFact]) -> Result<HashSet<ArticleId>, DbError> {
    let sql = "SELECT w.id FROM unnest($1::bytea[]) AS w(id)
        WHERE EXISTS(SELECT 1 FROM article WHERE cluster = w.id)";
    let found = rows(tx, sql, &[&column(facts, |fact| fact.id.as_bytes().as_slice())]).await?;
    found.iter().map(|row| Ok(ArticleId::from_bytes(hash("article", row, 0)?))).collect()
}
