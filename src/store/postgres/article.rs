//! Articles: what is kept of them, and the forms that they had; a batch at a time.

mod around;

use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;

use super::outbox::send_damaged_again;
use super::read::{hash, maybe_hash};
use super::{log, told};
use crate::db::postgres::{Given, Tx, clean, column, first, rows, run};
use crate::db::{DbError, PgDb, Session, whole_rows};
use crate::frontier::postgres::{int, maybe, narrow};
use crate::model::{
    Article, ArticleFact, ArticleId, ArticleRow, Change, FetchId, Near, NewEvent, PastForm,
    Revision, SourceId, TaskId, Ts,
};
use crate::store::apply::{self, Form, Kept};
use crate::store::damage::{Beside, Damage, DamagedRow, DamagedTable, check, checked, checksum};
use crate::store::forms::{
    from_json, from_share, history, pack, sketch, tell_sources, text_field, to_json, to_share,
    unpack,
};
use crate::store::near::site;
use crate::store::{ArticleFilter, ArticlePage, Commit, MAX_COPIES};
use around::Around;

const COLUMNS: &str = "a.row, a.id, a.task_id, a.source_id, a.content_hash, a.simhash, \
    a.duplicate_of, a.revision, a.first_seen, a.last_seen, a.fetch_id, a.body, a.cluster, \
    a.nearest, a.share, a.wire, a.checksum, a.published";
const PAST: &str = "revision, until, content_hash, fetch_id, added, removed, silent, body, \
    checksum";

/// An article with its text.
type Whole = (ArticleRow, String);

fn read(row: &Row) -> Result<(i64, ArticleRow), DbError> {
    let body: &str = row.try_get(11)?;
    let (id, content): (&[u8], &[u8]) = (row.try_get(1)?, row.try_get(4)?);
    let beside = Beside::document(id, content, maybe(row, 17)?);
    check("article", &[body.as_bytes()], &beside, maybe(row, 16)?)?;
    read_with(row, from_json("article", body)?)
}

fn read_with(row: &Row, article: Article) -> Result<(i64, ArticleRow), DbError> {
    let article = ArticleRow {
        id: ArticleId::from_bytes(hash("article", row, 1)?),
        task_id: TaskId(int(row, 2)?),
        source: maybe(row, 3)?.map(SourceId),
        article,
        content_hash: hash("article", row, 4)?,
        simhash: int(row, 5)?.cast_unsigned(),
        duplicate_of: maybe_hash("article", row, 6)?.map(ArticleId::from_bytes),
        near: read_near(row)?,
        revision: narrow("revision", row, 7)?,
        first_seen: Ts::from_ms(int(row, 8)?),
        last_seen: Ts::from_ms(int(row, 9)?),
        fetch: maybe_hash("fetch", row, 10)?.map(FetchId::from_bytes),
    };
    Ok((int(row, 0)?, article))
}

fn read_near(row: &Row) -> Result<Option<Near>, DbError> {
    let id = |at| maybe_hash("article", row, at).map(|id| id.map(ArticleId::from_bytes));
    let (Some(cluster), Some(nearest)) = (id(12)?, id(13)?) else { return Ok(None) };
    Ok(Some(Near {
        cluster,
        nearest,
        share: to_share(narrow("share", row, 14)?),
        wire: int(row, 15)? != 0,
    }))
}

fn read_past(row: &Row) -> Result<PastForm, DbError> {
    Ok(PastForm {
        revision: narrow("revision", row, 0)?,
        until: Ts::from_ms(int(row, 1)?),
        content_hash: hash("article", row, 2)?,
        fetch: maybe_hash("fetch", row, 3)?.map(FetchId::from_bytes),
        change: Change {
            added: narrow("count", row, 4)?,
            removed: narrow("count", row, 5)?,
            silent: int(row, 6)? != 0,
        },
        article: from_json("article", row.try_get(7)?)?,
    })
}

/// What is to be written of a batch.
#[derive(Default)]
struct Changes<'a> {
    /// Articles as they are now; with a fact, its text is theirs.
    rows: Vec<(ArticleRow, Option<&'a ArticleFact>)>,
    /// Forms that another one follows, with their texts.
    past: Vec<(ArticleRow, String, Change)>,
}

impl<'a> Changes<'a> {
    fn note(&mut self, kept: Kept, previous: Option<(ArticleRow, String)>, fact: &'a ArticleFact) {
        if let (Form::Changed(change), Some((before, text))) = (kept.form, previous) {
            self.past.push((before, text, change));
        }
        let news = (kept.form != Form::Stays).then_some(fact);
        // One statement may touch a row once: the last word counts.
        match self.rows.iter_mut().find(|(before, _)| before.id == fact.id) {
            Some(before) => *before = (kept.row, news.or(before.1)),
            None => self.rows.push((kept.row, news)),
        }
    }
}

/// Keeps what fetches brought; the events that follow, by task. Two tasks may bring the same address
/// or the same words at the same time, so this holds the lock of the log from the first look on.
pub(super) async fn put(
    tx: &Tx<'_>,
    commits: &[&Commit],
    now: Ts,
) -> Result<HashMap<TaskId, NewEvent>, DbError> {
    let facts = commits.iter().filter_map(|commit| commit.outcome.article.as_ref());
    let facts: Vec<&ArticleFact> = facts.collect();
    let mut events = HashMap::new();
    if facts.is_empty() {
        return Ok(events);
    }
    let other = note_texts(tx, &facts).await?;
    log::lock(tx).await?;
    let ids: Vec<ArticleId> = facts.iter().map(|fact| fact.id).collect();
    let (mut known, mut damaged) = checked_texts(tx, &ids).await?;
    let mended: Vec<String> = damaged.keys().map(ToString::to_string).collect();
    let is_news =
        |fact: &&ArticleFact| apply::is_news(known.get(&fact.id).map(|(row, _)| row), fact);
    let news: Vec<&ArticleFact> = facts.iter().copied().filter(is_news).collect();
    let mut around = Around::read(tx, &news).await?;
    let mut changes = Changes::default();
    for commit in commits {
        let Some(fact) = &commit.outcome.article else { continue };
        let task = commit.lease.task.id;
        let previous = known.get(&fact.id).cloned();
        let company = around.company(fact);
        let is_told = !other.contains(&fact.task.0);
        let mut kept = match damaged.remove(&fact.id) {
            Some(damage) => {
                let left = damage.left.map(|(row, _)| row);
                apply::article_mended(left, &company, fact, now, now)
            }
            None => apply::article(previous.clone(), &company, fact, is_told, now),
        };
        if kept.form != Form::Stays {
            around.learn(previous.as_ref().map(|(row, _)| row), &kept.row, fact);
            known.insert(fact.id, (kept.row.clone(), fact.text.clone()));
        }
        events.extend(kept.event.take().map(|event| (task, event)));
        changes.note(kept, previous, fact);
    }
    write(tx, changes, now).await?;
    send_damaged_again(tx, &mended).await?;
    let tasks: Vec<TaskId> = events.keys().copied().collect();
    let told = if tasks.is_empty() { Vec::new() } else { told::references(tx, &tasks).await? };
    for (task, event) in &mut events {
        let own = told.iter().filter(|(of, _)| of == task).map(|(_, one)| one.clone());
        tell_sources(event, &own.collect::<Vec<_>>());
    }
    Ok(events)
}

/// Keeps what was read again in an archived page, where it is different or what is kept is damaged;
/// whether it was, and what the log says of it.
pub(super) async fn put_again(
    tx: &Tx<'_>,
    fact: &ArticleFact,
    at: Ts,
    now: Ts,
) -> Result<(bool, Option<NewEvent>), DbError> {
    log::lock(tx).await?;
    let (mut known, mut damaged) = checked_texts(tx, &[fact.id]).await?;
    let is_lost = known.is_empty() && damaged.is_empty();
    let is_id_restored = is_lost && restore_id(tx, fact).await?;
    if is_id_restored {
        (known, damaged) = checked_texts(tx, &[fact.id]).await?;
    }
    let (previous, damage) = (known.remove(&fact.id), damaged.remove(&fact.id));
    let is_news = apply::is_news(previous.as_ref().map(|(row, _)| row), fact);
    let around = if is_news { Around::read(tx, &[fact]).await? } else { Around::default() };
    let company = around.company(fact);
    let mended: Vec<String> =
        if previous.is_none() { vec![fact.id.to_string()] } else { Vec::new() };
    let kept = match damage {
        Some(damage) => {
            let left = damage.left.map(|(row, _)| row);
            Some(apply::article_mended(left, &company, fact, at, now))
        }
        None => apply::article_again(previous.clone(), &company, fact, at, now),
    };
    let Some(mut kept) = kept else { return Ok((is_id_restored, None)) };
    let event = kept.event.take();
    let mut changes = Changes::default();
    changes.note(kept, previous, fact);
    write(tx, changes, now).await?;
    send_damaged_again(tx, &mended).await?;
    Ok((true, event))
}

/// Gives the row of an article its id back when that is what was damaged; whether it was.
async fn restore_id(tx: &Tx<'_>, fact: &ArticleFact) -> Result<bool, DbError> {
    let id = fact.id.as_bytes().as_slice();
    let sql = "SELECT row, body FROM article WHERE content_hash = $2 AND task_id = $3 AND id <> $1";
    let found = rows(tx, sql, &[&id, &fact.content_hash.as_slice(), &fact.task.0]).await?;
    for row in &found {
        if text_field(row.try_get(1)?, "url").as_ref() == Some(&fact.article.url) {
            run(tx, "UPDATE article SET id = $2 WHERE row = $1", &[&int(row, 0)?, &id]).await?;
            send_damaged_again(tx, &[fact.id.to_string()]).await?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Notes the texts that tasks brought; the tasks that brought another one the last time.
async fn note_texts(tx: &Tx<'_>, facts: &[&ArticleFact]) -> Result<HashSet<i64>, DbError> {
    let found = rows(
        tx,
        "UPDATE fetch_state SET content_hash = w.hash
         FROM unnest($1::bigint[], $2::bytea[]) AS w(task_id, hash)
         WHERE fetch_state.task_id = w.task_id AND fetch_state.content_hash IS DISTINCT FROM w.hash
         RETURNING fetch_state.task_id",
        &[&column(facts, |fact| fact.task.0), &column(facts, |fact| fact.content_hash.as_slice())],
    )
    .await?;
    found.iter().map(|row| int(row, 0)).collect()
}

async fn write(tx: &Tx<'_>, changes: Changes<'_>, now: Ts) -> Result<(), DbError> {
    let places = write_rows(tx, &changes.rows).await?;
    let (mut texts, mut keys) = (Vec::new(), Vec::new());
    for (row, fact) in &changes.rows {
        let (Some(fact), Some(place)) = (fact, places.get(&row.id)) else { continue };
        texts.push((*place, pack(&fact.text)?));
        // Whoever looks for a copy finds the original under these keys.
        if row.duplicate_of.is_none() {
            keys.extend(fact.sketch.keys().map(|key| (key, *place)));
        }
    }
    run(
        tx,
        "INSERT INTO article_text(row, zstd, checksum)
         SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[])
         ON CONFLICT (row) DO UPDATE SET zstd = excluded.zstd, checksum = excluded.checksum",
        &[
            &column(&texts, |(place, _)| *place),
            &column(&texts, |(_, packed)| packed.as_slice()),
            &column(&texts, |(_, packed)| checksum(&[packed], &Beside::NOTHING)),
        ],
    )
    .await?;
    run(
        tx,
        "INSERT INTO article_key(key, row) SELECT * FROM unnest($1::bigint[], $2::bigint[])
         ON CONFLICT DO NOTHING",
        &[&column(&keys, |(key, _)| *key), &column(&keys, |(_, place)| *place)],
    )
    .await?;
    write_past(tx, &changes.past, &places, now).await
}

async fn write_rows(
    tx: &Tx<'_>,
    changed: &[(ArticleRow, Option<&ArticleFact>)],
) -> Result<HashMap<ArticleId, i64>, DbError> {
    let bodies: Vec<String> =
        changed.iter().map(|(row, _)| to_json(&row.article)).collect::<Result<_, _>>()?;
    let sum = |((row, _), body): (&(ArticleRow, Option<&ArticleFact>), &String)| {
        let published = row.article.published.map(Ts::ms);
        let beside = Beside::document(row.id.as_bytes(), &row.content_hash, published);
        checksum(&[body.as_bytes()], &beside)
    };
    let sums: Vec<i64> = changed.iter().zip(&bodies).map(sum).collect();
    let id = |id: &Option<ArticleId>| id.map(|id| id.as_bytes().to_vec());
    let near = |row: &ArticleRow| row.near.clone();
    let found = rows(
        tx,
        "INSERT INTO article AS a(id, task_id, source_id, published, content_hash, simhash,
           duplicate_of, site, cluster, nearest, share, wire, sketch, revision, first_seen, last_seen,
           fetch_id, body, checksum)
         SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[],
           $6::bigint[], $7::bytea[], $8::text[], $9::bytea[], $10::bytea[], $11::integer[],
           $12::integer[], $13::bytea[], $14::integer[], $15::bigint[], $16::bigint[], $17::bytea[],
           $18::text[], $19::bigint[])
         ON CONFLICT (id) DO UPDATE SET source_id = excluded.source_id,
           published = excluded.published, content_hash = excluded.content_hash,
           simhash = excluded.simhash, duplicate_of = excluded.duplicate_of, site = excluded.site,
           cluster = excluded.cluster, nearest = excluded.nearest, share = excluded.share,
           wire = excluded.wire, sketch = coalesce(excluded.sketch, a.sketch),
           revision = excluded.revision, last_seen = excluded.last_seen,
           fetch_id = excluded.fetch_id, body = excluded.body, checksum = excluded.checksum
         RETURNING id, row",
        &[
            &column(changed, |(row, _)| row.id.as_bytes().as_slice()),
            &column(changed, |(row, _)| row.task_id.0),
            &column(changed, |(row, _)| row.source.map(|source| source.0)),
            &column(changed, |(row, _)| row.article.published.map(Ts::ms)),
            &column(changed, |(row, _)| row.content_hash.as_slice()),
            &column(changed, |(row, _)| row.simhash.cast_signed()),
            &column(changed, |(row, _)| id(&row.duplicate_of)),
            &column(changed, |(row, _)| clean(&site(&row.article)).into_owned()),
            &column(changed, |(row, _)| id(&near(row).map(|near| near.cluster))),
            &column(changed, |(row, _)| id(&near(row).map(|near| near.nearest))),
            &column(changed, |(row, _)| near(row).map(|near| from_share(near.share))),
            &column(changed, |(row, _)| near(row).map(|near| i32::from(near.wire))),
            &column(changed, |(_, fact)| fact.map(|fact| fact.sketch.to_bytes())),
            &column(changed, |(row, _)| i32::try_from(row.revision).unwrap_or(i32::MAX)),
            &column(changed, |(row, _)| row.first_seen.ms()),
            &column(changed, |(row, _)| row.last_seen.ms()),
            &column(changed, |(row, _)| row.fetch.as_ref().map(|id| id.as_bytes().as_slice())),
            &bodies,
            &sums,
        ],
    )
    .await?;
    let place = |row: &Row| Ok((ArticleId::from_bytes(hash("article", row, 0)?), int(row, 1)?));
    found.iter().map(place).collect()
}

async fn write_past(
    tx: &Tx<'_>,
    past: &[(ArticleRow, String, Change)],
    places: &HashMap<ArticleId, i64>,
    now: Ts,
) -> Result<(), DbError> {
    for (before, text, change) in past {
        let Some(place) = places.get(&before.id) else { continue };
        let (body, packed) = (to_json(&before.article)?, pack(text)?);
        let given: [Given<'_>; 11] = [
            place,
            &i32::try_from(before.revision).unwrap_or(i32::MAX),
            &now.ms(),
            &before.content_hash.as_slice(),
            &before.fetch.as_ref().map(|id| id.as_bytes().as_slice()),
            &i64::from(change.added),
            &i64::from(change.removed),
            &i32::from(change.silent),
            &body,
            &packed,
            &checksum(&[body.as_bytes(), &packed], &Beside::NOTHING),
        ];
        run(
            tx,
            "INSERT INTO article_revision(row, revision, until, content_hash, fetch_id, added,
               removed, silent, body, zstd, checksum)
             VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
             ON CONFLICT DO NOTHING",
            &given,
        )
        .await?;
    }
    Ok(())
}

pub(super) async fn with_text<C: Session>(
    client: &C,
    id: ArticleId,
) -> Result<Option<Whole>, DbError> {
    let (mut known, damaged) = checked_texts(client, &[id]).await?;
    match damaged.get(&id) {
        Some(damage) => Err(damage.error("article")),
        None => Ok(known.remove(&id)),
    }
}

/// Those of these articles that are kept, with their texts, and those that are damaged.
pub(super) async fn checked_texts<C: Session>(
    client: &C,
    ids: &[ArticleId],
) -> Result<(HashMap<ArticleId, Whole>, HashMap<ArticleId, Damage<Whole>>), DbError> {
    let sql = format!(
        "SELECT {COLUMNS}, x.zstd, x.checksum, a.sketch FROM article a
         LEFT JOIN article_text x ON x.row = a.row WHERE a.id = ANY($1::bytea[])"
    );
    let found = rows(client, &sql, &[&column(ids, |id| id.as_bytes().as_slice())]).await?;
    let (mut known, mut damaged) = (HashMap::with_capacity(found.len()), HashMap::new());
    for row in &found {
        let id = ArticleId::from_bytes(hash("article", row, 1)?);
        let whole = || {
            sketch(row.try_get::<_, Option<&[u8]>>(20)?)?;
            Ok((read(row)?.1, read_text(row)?))
        };
        let left = || read_with(row, Article::default()).ok().map(|(_, row)| (row, String::new()));
        match checked(whole(), left)? {
            Ok(article) => drop(known.insert(id, article)),
            Err(damage) => drop(damaged.insert(id, damage)),
        }
    }
    Ok((known, damaged))
}

fn read_text(row: &Row) -> Result<String, DbError> {
    let what = "article text";
    let packed: Option<&[u8]> = row.try_get(18)?;
    let missing = || DbError::Corrupt { what, value: "its text is missing".to_owned() };
    let packed = packed.ok_or_else(missing)?;
    check(what, &[packed], &Beside::NOTHING, maybe(row, 19)?)?;
    unpack(packed)
}

async fn find<C: Session>(client: &C, id: ArticleId) -> Result<Option<(i64, ArticleRow)>, DbError> {
    let sql = format!("SELECT {COLUMNS} FROM article a WHERE a.id = $1");
    first(client, &sql, &[&id.as_bytes().as_slice()]).await?.as_ref().map(read).transpose()
}

pub(super) async fn list(db: &PgDb, filter: &ArticleFilter) -> Result<ArticlePage, DbError> {
    let before = filter.before_row.unwrap_or(i64::MAX);
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let since = filter.since.map(Ts::ms);
    let mut conditions = vec!["a.row < $1".to_owned()];
    let mut given: Vec<Given<'_>> = vec![&before, &limit];
    if let Some(source) = &filter.source {
        given.push(source);
        let at = given.len();
        conditions
            .push(format!("a.source_id IN (SELECT id FROM source WHERE ${at} IN (uuid, name))"));
    }
    if let Some(since) = &since {
        given.push(since);
        conditions.push(format!("a.first_seen >= ${}", given.len()));
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM article a WHERE {} ORDER BY a.row DESC LIMIT $2",
        conditions.join(" AND ")
    );
    let mut page = ArticlePage::default();
    for row in &rows(&db.client().await?, &sql, &given).await? {
        page.last = Some(int(row, 0)?);
        match checked(read(row), || None)? {
            Ok(article) => page.articles.push(article),
            Err(damage) => {
                let id = match hash("article", row, 1) {
                    Ok(id) => ArticleId::from_bytes(id).to_string(),
                    Err(_) => format!("in row {}", int(row, 0)?),
                };
                let (table, reason) = (DamagedTable::Article, damage.reason);
                page.damaged.push(DamagedRow { table, id, reason });
            }
        }
    }
    Ok(page)
}

/// An article and all its copies, in the order in which they came.
pub(super) async fn copies(db: &PgDb, id: ArticleId) -> Result<Vec<ArticleRow>, DbError> {
    let client = db.client().await?;
    let Some((_, article)) = find(&client, id).await? else { return Ok(Vec::new()) };
    let cluster = article.near.map_or(id, |near| near.cluster);
    let sql = format!(
        "SELECT {COLUMNS} FROM article a WHERE a.id = $1 OR a.cluster = $1 ORDER BY a.row LIMIT $2"
    );
    let found = rows(&client, &sql, &[&cluster.as_bytes().as_slice(), &MAX_COPIES]).await?;
    let mut copies = Vec::with_capacity(found.len());
    for row in &found {
        copies.extend(checked(read(row), || None)?.ok().map(|(_, article)| article));
    }
    Ok(copies)
}

/// All forms of an article, the first one first.
pub(super) async fn revisions(db: &PgDb, id: ArticleId) -> Result<Vec<Revision>, DbError> {
    let client = db.client().await?;
    let Some((place, article)) = find(&client, id).await? else { return Ok(Vec::new()) };
    let sql = format!("SELECT {PAST} FROM article_revision WHERE row = $1 ORDER BY revision");
    let found = rows(&client, &sql, &[&place]).await?;
    let past = whole_rows("article revision", found.iter().map(read_past))?;
    Ok(history(article, past))
}

/// A form that another one followed, with its text.
pub(super) async fn past(
    db: &PgDb,
    id: ArticleId,
    revision: u32,
) -> Result<Option<(PastForm, String)>, DbError> {
    let sql = format!(
        "SELECT {PAST}, zstd FROM article_revision
         WHERE row = (SELECT row FROM article WHERE id = $1) AND revision = $2"
    );
    let revision = i32::try_from(revision).unwrap_or(i32::MAX);
    let given: [Given<'_>; 2] = [&id.as_bytes().as_slice(), &revision];
    let found = first(&db.client().await?, &sql, &given).await?;
    let Some(row) = found else { return Ok(None) };
    let (body, packed): (&str, &[u8]) = (row.try_get(7)?, row.try_get(9)?);
    check("article revision", &[body.as_bytes(), packed], &Beside::NOTHING, maybe(&row, 8)?)?;
    Ok(Some((read_past(&row)?, unpack(packed)?)))
}
