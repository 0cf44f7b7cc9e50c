//! Articles: what is kept of them, who else has their words, and the forms that they had.

use feedmill_formats::sketch::Sketch;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::read::fetch_id;
use super::{outbox, told};
use crate::db::{DbError, whole};
use crate::model::{
    Article, ArticleFact, ArticleId, ArticleRow, Change, Near, NewEvent, PastForm, Revision,
    SourceId, TaskId, Ts,
};
use crate::store::apply::{self, Form, Kept};
use crate::store::damage::{Beside, Checked, DamagedRow, DamagedTable, check, checked, checksum};
use crate::store::forms::{
    from_json, from_share, history, pack, sketch, tell_sources, to_json, to_share, unpack,
};
use crate::store::near::{Candidate, Company, PER_KEY, site, to_compare};
use crate::store::{ArticleFilter, ArticlePage, MAX_COPIES};

const COLUMNS: &str = "a.row, a.id, a.task_id, a.source_id, a.content_hash, a.simhash, \
    a.duplicate_of, a.revision, a.first_seen, a.last_seen, a.fetch_id, a.body, a.cluster, \
    a.nearest, a.share, a.wire, a.checksum, a.published";
const CANDIDATE: &str = "a.id, a.site, a.cluster, coalesce(a.wire, 0), a.sketch";
const PAST: &str = "revision, until, content_hash, fetch_id, added, removed, silent, body, \
    checksum";

fn read(row: &Row<'_>) -> Result<(i64, ArticleRow), DbError> {
    let body: String = row.get(11)?;
    let (id, content): ([u8; 32], [u8; 32]) = (row.get(1)?, row.get(4)?);
    let beside = Beside::document(&id, &content, row.get(17)?);
    check("article", &[body.as_bytes()], &beside, row.get(16)?)?;
    read_with(row, from_json("article", &body)?)
}

fn read_with(row: &Row<'_>, article: Article) -> Result<(i64, ArticleRow), DbError> {
    let article = ArticleRow {
        id: ArticleId::from_bytes(row.get(1)?),
        task_id: TaskId(row.get(2)?),
        source: row.get::<_, Option<i64>>(3)?.map(SourceId),
        article,
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
    let id = |at| row.get::<_, Option<[u8; 32]>>(at).map(|id| id.map(ArticleId::from_bytes));
    let (share, wire): (Option<i32>, Option<bool>) = (row.get(14)?, row.get(15)?);
    let (Some(cluster), Some(nearest)) = (id(12)?, id(13)?) else { return Ok(None) };
    let share = to_share(share.unwrap_or_default());
    Ok(Some(Near { cluster, nearest, share, wire: wire.unwrap_or_default() }))
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
    let previous = match checked_with_text(conn, fact.id)? {
        Some(Err(damage)) => return mend(conn, damage.left, fact, now, now),
        found => found.and_then(Result::ok),
    };
    let company = company(conn, previous.as_ref().map(|(row, _)| row), fact)?;
    let mut kept = apply::article(previous.clone(), &company, fact, is_told, now);
    if let Some(event) = &mut kept.event {
        tell_sources(event, &told::references(conn, &[fact.task])?);
    }
    keep(conn, &kept, previous, fact, now)?;
    Ok(kept.event)
}

/// Keeps what was read again in an archived page, where it is different or what is kept is damaged;
/// whether it was, and what the log says of it.
pub(super) fn put_again(
    conn: &Connection,
    fact: &ArticleFact,
    at: Ts,
    now: Ts,
) -> Result<(bool, Option<NewEvent>), DbError> {
    let mut found = checked_with_text(conn, fact.id)?;
    let is_id_restored = found.is_none() && restore_id(conn, fact)?;
    if is_id_restored {
        found = checked_with_text(conn, fact.id)?;
    }
    let previous = match found {
        Some(Err(damage)) => return Ok((true, mend(conn, damage.left, fact, at, now)?)),
        found => found.and_then(Result::ok),
    };
    let company = company(conn, previous.as_ref().map(|(row, _)| row), fact)?;
    let Some(kept) = apply::article_again(previous.clone(), &company, fact, at, now) else {
        return Ok((is_id_restored, None));
    };
    if previous.is_none() {
        outbox::send_damaged_again(conn, &fact.id.to_string())?;
    }
    keep(conn, &kept, previous, fact, now)?;
    Ok((true, kept.event))
}

/// Gives the row of an article its id back when that is what was damaged; whether it was.
fn restore_id(conn: &Connection, fact: &ArticleFact) -> Result<bool, DbError> {
    let restored = conn
        .prepare_cached(
            "UPDATE article SET id = ?1 WHERE content_hash = ?2 AND task_id = ?3 AND id <> ?1
               AND json_valid(body) AND json_extract(body, '$.url') = ?4",
        )?
        .execute((fact.id.as_bytes(), fact.content_hash, fact.task.0, &fact.article.url))?;
    if restored > 0 {
        outbox::send_damaged_again(conn, &fact.id.to_string())?;
    }
    Ok(restored > 0)
}

/// Keeps what was read in place of a row that cannot be read; what the log says of it. Sinks that left
/// it out get it.
fn mend(
    conn: &Connection,
    left: Option<(ArticleRow, String)>,
    fact: &ArticleFact,
    at: Ts,
    now: Ts,
) -> Result<Option<NewEvent>, DbError> {
    let left = left.map(|(row, _)| row);
    let company = company(conn, left.as_ref(), fact)?;
    let kept = apply::article_mended(left, &company, fact, at, now);
    keep(conn, &kept, None, fact, now)?;
    conn.prepare_cached("UPDATE article SET task_id = ?2, first_seen = ?3 WHERE id = ?1")?
        .execute((kept.row.id.as_bytes(), kept.row.task_id.0, kept.row.first_seen.ms()))?;
    outbox::send_damaged_again(conn, &kept.row.id.to_string())?;
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
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(checked(read_candidate(row), || None)?.ok())
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
        // One that is damaged is like nothing.
        if let Some(row) = rows.next()? {
            candidates.extend(checked(read_candidate(row), || None)?.ok());
        }
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
    let packed = pack(&fact.text)?;
    conn.prepare_cached(
        "INSERT OR REPLACE INTO article_text(row, zstd, checksum) VALUES(?1, ?2, ?3)",
    )?
    .execute((place, &packed, checksum(&[&packed], &Beside::NOTHING)))?;
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
    let body = to_json(&row.article)?;
    let published = row.article.published.map(Ts::ms);
    let beside = Beside::document(row.id.as_bytes(), &row.content_hash, published);
    let place = conn
        .prepare_cached(
            "INSERT INTO article(id, task_id, source_id, published, content_hash, simhash,
               duplicate_of, site, cluster, nearest, share, wire, sketch, revision, first_seen,
               last_seen, fetch_id, body, checksum)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
               ?16, ?17, ?18, ?19)
             ON CONFLICT(id) DO UPDATE SET source_id = excluded.source_id,
               published = excluded.published, content_hash = excluded.content_hash,
               simhash = excluded.simhash, duplicate_of = excluded.duplicate_of,
               site = excluded.site, cluster = excluded.cluster, nearest = excluded.nearest,
               share = excluded.share, wire = excluded.wire, sketch = coalesce(?13, sketch),
               revision = excluded.revision, last_seen = excluded.last_seen,
               fetch_id = excluded.fetch_id, body = excluded.body,
               checksum = excluded.checksum
             RETURNING row",
        )?
        .query_row(
            params![
                row.id.as_bytes(),
                row.task_id.0,
                row.source.map(|source| source.0),
                published,
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
                body,
                checksum(&[body.as_bytes()], &beside),
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
    let (body, packed) = (to_json(&before.article)?, pack(text)?);
    conn.prepare_cached(
        "INSERT OR IGNORE INTO article_revision(row, revision, until, content_hash, fetch_id, added,
           removed, silent, body, zstd, checksum)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
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
        body,
        packed,
        checksum(&[body.as_bytes(), &packed], &Beside::NOTHING),
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
    let found = checked_with_text(conn, id)?;
    found.map(|found| found.map_err(|damage| damage.error("article"))).transpose()
}

/// An article with its text, or what is wrong with their rows.
pub(super) fn checked_with_text(
    conn: &Connection,
    id: ArticleId,
) -> Result<Option<Checked<(ArticleRow, String)>>, DbError> {
    let sql = format!("SELECT {COLUMNS}, a.site, a.sketch FROM article a WHERE a.id = ?1");
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query([id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let with_text = || {
        let (place, article) = read(row)?;
        row.get::<_, String>(18)?;
        sketch(row.get::<_, Option<Vec<u8>>>(19)?.as_deref())?;
        Ok((article, text(conn, place)?))
    };
    let left = || read_with(row, Article::default()).ok().map(|(_, row)| (row, String::new()));
    checked(with_text(), left).map(Some)
}

fn text(conn: &Connection, place: i64) -> Result<String, DbError> {
    let found: Option<(Vec<u8>, Option<i64>)> = conn
        .prepare_cached("SELECT zstd, checksum FROM article_text WHERE row = ?1")?
        .query_row([place], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let what = "article text";
    let missing = || DbError::Corrupt { what, value: "its text is missing".to_owned() };
    let (packed, sum) = found.ok_or_else(missing)?;
    check(what, &[&packed], &Beside::NOTHING, sum)?;
    unpack(&packed)
}

pub(super) fn list(conn: &Connection, filter: &ArticleFilter) -> Result<ArticlePage, DbError> {
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
    let mut page = ArticlePage::default();
    while let Some(row) = rows.next()? {
        let place: i64 = row.get(0)?;
        page.last = Some(place);
        match checked(read(row), || None)? {
            Ok(article) => page.articles.push(article),
            Err(damage) => page.damaged.push(DamagedRow {
                table: DamagedTable::Article,
                id: row.get(1).map_or_else(
                    |_| format!("in row {place}"),
                    |id| ArticleId::from_bytes(id).to_string(),
                ),
                reason: damage.reason,
            }),
        }
    }
    Ok(page)
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
        found.extend(checked(read(row), || None)?.ok().map(|(_, article)| article));
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
        past.extend(whole("article revision", read_past(row))?);
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
        "SELECT {PAST}, zstd, body FROM article_revision
         WHERE row = (SELECT row FROM article WHERE id = ?1) AND revision = ?2"
    );
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query((id.as_bytes(), revision))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (packed, body): (Vec<u8>, String) = (row.get(9)?, row.get(10)?);
    check("article revision", &[body.as_bytes(), &packed], &Beside::NOTHING, row.get(8)?)?;
    Ok(Some((read_past(row)?, unpack(&packed)?)))
}
