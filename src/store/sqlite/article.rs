//! Articles: what is kept of them, who else has their words, and the forms that they had.

use feedmill_formats::sketch::Sketch;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use super::read::fetch_id;
use super::told;
use crate::db::DbError;
use crate::model::{
    ArticleFact, ArticleId, ArticleRow, Change, Near, NewEvent, PastForm, Revision, SourceId,
    TaskId, Ts,
};
use crate::store::apply::{self, Form, Kept};
use crate::store::forms::{
    from_json, from_share, history, pack, sketch, tell_sources, to_json, to_share, unpack,
};
use crate::store::near::{Candidate, Company, PER_KEY, site, to_compare};
use crate::store::{ArticleFilter, MAX_COPIES};

const COLUMNS: &str = "a.row, a.id, a.task_id, a.source_id, a.content_hash, a.simhash, \
    a.duplicate_of, a.revision, a.first_seen, a.last_seen, a.fetch_id, a.body, a.cluster, \
    a.nearest, a.share, a.wire";
const CANDIDATE: &str = "a.id, a.site, a.cluster, coalesce(a.wire, 0), a.sketch";
const PAST: &str = "revision, until, content_hash, fetch_id, added, removed, silent, body";

fn read(row: &Row<'_>) -> Result<(i64, ArticleRow), DbError> {
    let body: String = row.get(11)?;
    let article = ArticleRow {
        id: ArticleId::from_bytes(row.get(1)?),
        task_id: TaskId(row.get(2)?),
        source: row.get::<_, Option<i64>>(3)?.map(SourceId),
        article: from_json("article", &body)?,
        content_hash: row.get(4)?,
        simhash: row.get::<_, i64>(5)?.cast_unsigned(),
        duplicate_of: row.get::<_, Option<[u8; 32]>>(6)?.map(ArticleId::from_bytes),
        near: read_near(row)?,
        revision: row.get(7)?,
        first_seen: Ts::from_ms(row.get(8)?),
        last_seen: Ts::from_ms(row.get(9)?),
        fetch: fetch_id(row.get(10)?),
    };
    Ok((row.get(0)?, article))
}

fn read_near(row: &Row<'_>) -> Result<Option<Near>, DbError> {
    let Some(cluster) = row.get::<_, Option<[u8; 32]>>(12)? else { return Ok(None) };
    Ok(Some(Near {
        cluster: ArticleId::from_bytes(cluster),
        nearest: ArticleId::from_bytes(row.get(13)?),
        share: to_share(row.get(14)?),
        wire: row.get(15)?,
    }))
}

fn read_candidate(row: &Row<'_>) -> Result<Candidate, DbError> {
    Ok(Candidate {
        id: ArticleId::from_bytes(row.get(0)?),
        site: row.get(1)?,
        cluster: row.get::<_, Option<[u8; 32]>>(2)?.map(ArticleId::from_bytes),
        wire: row.get(3)?,
        sketch: sketch(row.get::<_, Option<Vec<u8>>>(4)?.as_deref())?,
    })
}

fn read_past(row: &Row<'_>) -> Result<PastForm, DbError> {
    let body: String = row.get(7)?;
    Ok(PastForm {
        revision: row.get(0)?,
        until: Ts::from_ms(row.get(1)?),
        content_hash: row.get(2)?,
        fetch: fetch_id(row.get(3)?),
        change: Change { added: row.get(4)?, removed: row.get(5)?, silent: row.get(6)? },
        article: from_json("article", &body)?,
    })
}

/// Keeps what a fetch brought; what the log says of it.
pub(super) fn put(
    conn: &Connection,
    fact: &ArticleFact,
    now: Ts,
) -> Result<Option<NewEvent>, DbError> {
    let is_told = conn
        .prepare_cached(
            "UPDATE fetch_state SET content_hash = ?2 WHERE task_id = ?1 AND content_hash IS NOT ?2",
        )?
        .execute((fact.task.0, fact.content_hash))?
        == 0;
    let previous = with_text(conn, fact.id)?;
    let company = company(conn, previous.as_ref().map(|(row, _)| row), fact)?;
    let mut kept = apply::article(previous.clone(), &company, fact, is_told, now);
    if let Some(event) = &mut kept.event {
        tell_sources(event, &told::references(conn, &[fact.task])?);
    }
    keep(conn, &kept, previous, fact, now)?;
    Ok(kept.event)
}

/// Keeps what was read again in an archived page, where it is different; what the log says of it.
pub(super) fn put_again(
    conn: &Connection,
    fact: &ArticleFact,
    at: Ts,
    now: Ts,
) -> Result<Option<NewEvent>, DbError> {
    let previous = with_text(conn, fact.id)?;
    let company = company(conn, previous.as_ref().map(|(row, _)| row), fact)?;
    let Some(kept) = apply::article_again(previous.clone(), &company, fact, at, now) else {
        return Ok(None);
    };
    keep(conn, &kept, previous, fact, now)?;
    Ok(kept.event)
}

/// What is around an article; nothing when its text is the one that is kept.
fn company(
    conn: &Connection,
    previous: Option<&ArticleRow>,
    fact: &ArticleFact,
) -> Result<Company, DbError> {
    if !apply::is_news(previous, fact) {
        return Ok(Company::default());
    }
    let twin = twin(conn, fact)?;
    let candidates = if twin.is_some() { Vec::new() } else { candidates(conn, &fact.sketch)? };
    let leads = previous.is_some()
        && conn
            .prepare_cached("SELECT EXISTS(SELECT 1 FROM article WHERE cluster = ?1)")?
            .query_row([fact.id.as_bytes()], |row| row.get(0))?;
    Ok(Company { twin, candidates, leads })
}

/// The first other article with this very text: one that had it first, if it is still there.
fn twin(conn: &Connection, fact: &ArticleFact) -> Result<Option<Candidate>, DbError> {
    let sql = format!(
        "SELECT {CANDIDATE} FROM article a WHERE a.content_hash = ?1 AND a.id <> ?2
         ORDER BY a.duplicate_of, a.row LIMIT 1"
    );
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query((fact.content_hash, fact.id.as_bytes()))?;
    rows.next()?.map(read_candidate).transpose()
}

/// Articles that have keys in common with a sketch.
fn candidates(conn: &Connection, sketch: &Sketch) -> Result<Vec<Candidate>, DbError> {
    let mut select = conn
        .prepare_cached("SELECT row FROM article_key WHERE key = ?1 ORDER BY row DESC LIMIT ?2")?;
    let mut found: Vec<i64> = Vec::new();
    for key in sketch.keys() {
        let mut rows = select.query((key, PER_KEY))?;
        while let Some(row) = rows.next()? {
            found.push(row.get(0)?);
        }
    }
    let sql = format!("SELECT {CANDIDATE} FROM article a WHERE a.row = ?1");
    let mut select = conn.prepare_cached(&sql)?;
    let mut candidates = Vec::new();
    for row in to_compare(found) {
        let mut rows = select.query([row])?;
        candidates.extend(rows.next()?.map(read_candidate).transpose()?);
    }
    Ok(candidates)
}

fn keep(
    conn: &Connection,
    kept: &Kept,
    previous: Option<(ArticleRow, String)>,
    fact: &ArticleFact,
    now: Ts,
) -> Result<(), DbError> {
    let is_news = kept.form != Form::Stays;
    let sketch = is_news.then(|| fact.sketch.to_bytes());
    let place = put_row(conn, &kept.row, sketch.as_deref())?;
    if !is_news {
        return Ok(());
    }
    if let (Form::Changed(change), Some((before, text))) = (kept.form, previous) {
        put_past(conn, place, &before, &text, change, now)?;
    }
    conn.prepare_cached("INSERT OR REPLACE INTO article_text(row, zstd) VALUES(?1, ?2)")?
        .execute((place, pack(&fact.text)?))?;
    // Whoever looks for a copy finds the original under these keys.
    if kept.row.duplicate_of.is_none() {
        let mut insert =
            conn.prepare_cached("INSERT OR IGNORE INTO article_key(key, row) VALUES(?1, ?2)")?;
        for key in fact.sketch.keys() {
            insert.execute((key, place))?;
        }
    }
    Ok(())
}

/// Keeps an article, and its sketch when its text is another; where it is.
fn put_row(conn: &Connection, row: &ArticleRow, sketch: Option<&[u8]>) -> Result<i64, DbError> {
    let near = row.near.as_ref();
    let place = conn
        .prepare_cached(
            "INSERT INTO article(id, task_id, source_id, published, content_hash, simhash,
               duplicate_of, site, cluster, nearest, share, wire, sketch, revision, first_seen,
               last_seen, fetch_id, body)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
               ?16, ?17, ?18)
             ON CONFLICT(id) DO UPDATE SET source_id = excluded.source_id,
               published = excluded.published, content_hash = excluded.content_hash,
               simhash = excluded.simhash, duplicate_of = excluded.duplicate_of,
               site = excluded.site, cluster = excluded.cluster, nearest = excluded.nearest,
               share = excluded.share, wire = excluded.wire, sketch = coalesce(?13, sketch),
               revision = excluded.revision, last_seen = excluded.last_seen,
               fetch_id = excluded.fetch_id, body = excluded.body
             RETURNING row",
        )?
        .query_row(
            params![
                row.id.as_bytes(),
                row.task_id.0,
                row.source.map(|source| source.0),
                row.article.published.map(Ts::ms),
                row.content_hash,
                row.simhash.cast_signed(),
                row.duplicate_of.map(|id| *id.as_bytes()),
                site(&row.article),
                near.map(|near| *near.cluster.as_bytes()),
                near.map(|near| *near.nearest.as_bytes()),
                near.map(|near| from_share(near.share)),
                near.map(|near| near.wire),
                sketch,
                row.revision,
                row.first_seen.ms(),
                row.last_seen.ms(),
                row.fetch.map(|id| *id.as_bytes()),
                to_json(&row.article)?,
            ],
            |row| row.get(0),
        )?;
    Ok(place)
}

/// Keeps a form that another one follows.
fn put_past(
    conn: &Connection,
    place: i64,
    before: &ArticleRow,
    text: &str,
    change: Change,
    now: Ts,
) -> Result<(), DbError> {
    conn.prepare_cached(
        "INSERT OR IGNORE INTO article_revision(row, revision, until, content_hash, fetch_id, added,
           removed, silent, body, zstd) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        place,
        before.revision,
        now.ms(),
        before.content_hash,
        before.fetch.map(|id| *id.as_bytes()),
        change.added,
        change.removed,
        change.silent,
        to_json(&before.article)?,
        pack(text)?,
    ])?;
    Ok(())
}

fn find(conn: &Connection, id: ArticleId) -> Result<Option<(i64, ArticleRow)>, DbError> {
    let sql = format!("SELECT {COLUMNS} FROM article a WHERE a.id = ?1");
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query([id.as_bytes()])?;
    rows.next()?.map(read).transpose()
}

pub(super) fn with_text(
    conn: &Connection,
    id: ArticleId,
) -> Result<Option<(ArticleRow, String)>, DbError> {
    let Some((row, article)) = find(conn, id)? else { return Ok(None) };
    let packed: Vec<u8> = conn
        .prepare_cached("SELECT zstd FROM article_text WHERE row = ?1")?
        .query_row([row], |row| row.get(0))?;
    Ok(Some((article, unpack(&packed)?)))
}

pub(super) fn list(
    conn: &Connection,
    filter: &ArticleFilter,
) -> Result<Vec<(i64, ArticleRow)>, DbError> {
    let mut conditions = vec!["a.row < ?"];
    let mut values = vec![Value::from(filter.before_row.unwrap_or(i64::MAX))];
    if let Some(source) = &filter.source {
        conditions.push("a.source_id IN (SELECT id FROM source WHERE ? IN (uuid, name))");
        values.push(source.clone().into());
    }
    if let Some(since) = filter.since {
        conditions.push("a.first_seen >= ?");
        values.push(since.ms().into());
    }
    values.push(i64::try_from(filter.limit).unwrap_or(i64::MAX).into());
    let sql = format!(
        "SELECT {COLUMNS} FROM article a WHERE {} ORDER BY a.row DESC LIMIT ?",
        conditions.join(" AND ")
    );
    let mut select = conn.prepare(&sql)?;
    let mut rows = select.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// An article and all its copies, in the order in which they came.
pub(super) fn copies(conn: &Connection, id: ArticleId) -> Result<Vec<ArticleRow>, DbError> {
    let Some((_, article)) = find(conn, id)? else { return Ok(Vec::new()) };
    let cluster = article.near.map_or(id, |near| near.cluster);
    let sql = format!(
        "SELECT {COLUMNS} FROM article a WHERE a.id = ?1 OR a.cluster = ?1 ORDER BY a.row LIMIT ?2"
    );
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query((cluster.as_bytes(), MAX_COPIES))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?.1);
    }
    Ok(found)
}

/// All forms of an article, the first one first.
pub(super) fn revisions(conn: &Connection, id: ArticleId) -> Result<Vec<Revision>, DbError> {
    let Some((place, article)) = find(conn, id)? else { return Ok(Vec::new()) };
    let sql = format!("SELECT {PAST} FROM article_revision WHERE row = ?1 ORDER BY revision");
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query([place])?;
    let mut past = Vec::new();
    while let Some(row) = rows.next()? {
        past.push(read_past(row)?);
    }
    Ok(history(article, past))
}

/// A form that another one followed, with its text.
pub(super) fn past(
    conn: &Connection,
    id: ArticleId,
    revision: u32,
) -> Result<Option<(PastForm, String)>, DbError> {
    let sql = format!(
        "SELECT {PAST}, zstd FROM article_revision
         WHERE row = (SELECT row FROM article WHERE id = ?1) AND revision = ?2"
    );
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query((id.as_bytes(), revision))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((read_past(row)?, unpack(&row.get::<_, Vec<u8>>(8)?)?)))
}
