//! Takedowns in the embedded database.

use std::collections::HashSet;

use async_trait::async_trait;
use feedmill_formats::sketch::Sketch;
use feedmill_formats::url as web;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Params, Row, params, params_from_iter};

use super::commit::{put_entry_row, put_event};
use super::{SqliteStore, read};
use crate::db::{DbError, whole};
use crate::frontier::sqlite::{number, refusals};
use crate::frontier::{Frontier, Refusals, Rules, queue_key};
use crate::model::{
    ArticleId, Code, Entry, EntryFact, EntryId, EventKind, FetchId, NewTakedown, RawRef, Scope,
    SourceId, Takedown, TaskId, Ts, UrlHash,
};
use crate::store::forms::{from_json, sketch, to_json};
use crate::store::takedown::{
    Doomed, Erasure, FoundEntry, GoneArticle, Search, Takedowns, Target, blank, blanked,
    entry_withdrawn, withdrawn,
};

#[async_trait]
impl Takedowns for SqliteStore {
    async fn doomed(&self, target: Target) -> Result<Doomed, DbError> {
        let rules = self.rules().clone();
        self.db.read(move |conn| doomed(conn, &target, &rules)).await
    }

    async fn open_takedown(&self, new: NewTakedown) -> Result<Takedown, DbError> {
        let clock = self.clock.clone();
        self.db.write(move |conn| open(conn, &new, clock.now())).await
    }

    async fn take_down(&self, of: &Takedown, part: Doomed) -> Result<(), DbError> {
        let (of, clock) = (of.clone(), self.clock.clone());
        self.db.write(move |conn| take(conn, &of, &part, clock.now())).await?;
        self.logged.notify_waiters();
        Ok(())
    }

    async fn blank_events(&self, articles: Vec<ArticleId>) -> Result<u64, DbError> {
        let found = self.db.read(move |conn| wordy(conn, &articles)).await?;
        let count = found.len() as u64;
        self.db
            .write(move |conn| {
                let sql = "UPDATE event SET payload = ?2, checksum = NULL WHERE seq = ?1";
                let mut update = conn.prepare_cached(sql)?;
                found.iter().try_for_each(|(seq, text)| update.execute((seq, text)).map(drop))?;
                Ok(())
            })
            .await?;
        Ok(count)
    }

    async fn end_takedown(&self, of: &Takedown) -> Result<(), DbError> {
        let (of, clock) = (of.clone(), self.clock.clone());
        self.db
            .write(move |conn| {
                let sql = "UPDATE takedown SET done_at = ?4
                    WHERE scope = ?1 AND target = ?2 AND at = ?3 AND done_at IS NULL";
                conn.execute(sql, (of.scope.number(), &of.target, of.at.ms(), clock.now().ms()))?;
                Ok(())
            })
            .await
    }

    async fn takedowns(&self) -> Result<Vec<Takedown>, DbError> {
        let sql = format!("SELECT {COLUMNS} FROM takedown ORDER BY at DESC, scope, target");
        self.db.read(move |conn| all(conn, &sql, [])).await
    }

    async fn lift_takedown(&self, scope: Scope, target: &str, by: &str) -> Result<bool, DbError> {
        let (target, by, clock) = (target.to_owned(), by.to_owned(), self.clock.clone());
        self.db.write(move |conn| lift(conn, scope, &target, &by, clock.now())).await
    }

    async fn is_refused(&self, url: &str) -> Result<bool, DbError> {
        let Ok(parsed) = web::parse(url) else { return Ok(false) };
        let hash = UrlHash::of(&web::key(&parsed, &self.rules().key));
        let refused = self.db.read(move |conn| refusals(conn, [hash])).await?;
        Ok(refused.refuses(hash, url))
    }

    async fn erasures(&self, after: Option<RawRef>, limit: usize) -> Result<Vec<Erasure>, DbError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.db.read(move |conn| waiting(conn, after.as_ref(), limit)).await
    }

    async fn erased(&self, gone: Vec<RawRef>) -> Result<(), DbError> {
        self.db
            .write(move |conn| {
                let sql = "DELETE FROM erasure WHERE segment = ?1 AND offset = ?2";
                let mut delete = conn.prepare_cached(sql)?;
                for raw in &gone {
                    delete.execute((&raw.segment, long(raw.offset)))?;
                }
                Ok(())
            })
            .await
    }
}

const COLUMNS: &str = "scope, target, name, \"by\", why, at, articles, entries, records, done_at, \
    lifted_at, lifted_by";

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn read_takedown(row: &Row<'_>) -> Result<Takedown, DbError> {
    let time = |at: Option<i64>| at.map(Ts::from_ms);
    Ok(Takedown {
        scope: number("scope", row.get(0)?, Scope::from_number)?,
        target: row.get(1)?,
        name: row.get(2)?,
        by: row.get(3)?,
        why: row.get(4)?,
        at: Ts::from_ms(row.get(5)?),
        articles: row.get(6)?,
        entries: row.get(7)?,
        records: row.get(8)?,
        done_at: time(row.get(9)?),
        lifted_at: time(row.get(10)?),
        lifted_by: row.get(11)?,
    })
}

fn all(conn: &Connection, sql: &str, given: impl Params) -> Result<Vec<Takedown>, DbError> {
    let mut select = conn.prepare_cached(sql)?;
    let mut rows = select.query(given)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read_takedown(row)?);
    }
    Ok(found)
}

/// Runs a statement for each value and hands its rows on.
fn each(
    conn: &Connection,
    sql: &str,
    values: impl IntoIterator<Item = Value>,
    mut found: impl FnMut(&Row<'_>) -> Result<(), DbError>,
) -> Result<(), DbError> {
    let mut select = conn.prepare_cached(sql)?;
    for value in values {
        let mut rows = select.query([value])?;
        while let Some(row) = rows.next()? {
            found(row)?;
        }
    }
    Ok(())
}

fn blobs(hashes: &HashSet<UrlHash>) -> Vec<Value> {
    hashes.iter().map(|hash| Value::from(hash.as_bytes().to_vec())).collect()
}

fn doomed(conn: &Connection, target: &Target, rules: &Rules) -> Result<Doomed, DbError> {
    let mut search = Search::new(target, rules);
    tasks(conn, target, rules, &mut search)?;
    let of_tasks = "SELECT id, url, status, segment IS NOT NULL FROM fetch WHERE task_id = ?1";
    let owners: Vec<Value> = search.owners.iter().map(|task| Value::from(*task)).collect();
    each(conn, of_tasks, owners, |row| {
        let url: String = row.get(1)?;
        search.fetch(FetchId::from_bytes(row.get(0)?), &url, row.get(2)?, row.get(3)?);
        Ok(())
    })?;
    let hosts: Vec<Value> = search.hosts().into_iter().map(Value::from).collect();
    let by_host =
        "SELECT id, url FROM fetch WHERE segment IS NOT NULL AND instr(lower(url), ?1) > 0";
    each(conn, by_host, hosts.clone(), |row| {
        search.stray(FetchId::from_bytes(row.get(0)?), &row.get::<_, String>(1)?);
        Ok(())
    })?;
    let known = blobs(&search.doomed.addresses);
    let mut article = |row: &Row<'_>| {
        let url: Option<String> = row.get(1)?;
        search.article(UrlHash::from_bytes(row.get(0)?), url.as_deref().unwrap_or_default());
        Ok(())
    };
    // The address of one that is damaged is not known.
    const FOUND: &str = "SELECT id,
        CASE WHEN json_valid(body) THEN json_extract(body, '$.url') END FROM article WHERE";
    let of_site = &format!("{FOUND} site = ?1");
    let of_source = &format!("{FOUND} source_id = ?1");
    match target {
        Target::Source(source) => {
            each(conn, of_source, [Value::from(source.0)], &mut article)?;
            let by_id = &format!("{FOUND} id = ?1");
            each(conn, by_id, known, &mut article)?;
        }
        _ => {
            let host = |host: &Value| match host {
                Value::Text(host) => Value::from(web::site(host).to_owned()),
                other => other.clone(),
            };
            each(conn, of_site, hosts.iter().map(host), &mut article)?;
        }
    }
    entries(conn, &mut search, hosts)?;
    Ok(search.doomed)
}

fn tasks(
    conn: &Connection,
    target: &Target,
    rules: &Rules,
    search: &mut Search<'_>,
) -> Result<(), DbError> {
    let found = |row: &Row<'_>| {
        search.task(row.get(0)?, row.get(1)?, &row.get::<_, String>(2)?);
        Ok(())
    };
    let columns = "SELECT t.id, t.lane, coalesce(t.url_key, t.url) FROM task t";
    match target {
        Target::Source(source) => {
            let sql = format!("{columns} WHERE t.source_id = ?1");
            each(conn, &sql, [source.0.into()], found)
        }
        Target::Address(key) => {
            let host = web::parse(key).map(|url| web::host(&url)).unwrap_or_default();
            let queue = queue_key(&host, &rules.groups).to_owned();
            let sql = format!(
                "{columns} JOIN host h ON h.id = t.host_id AND h.slot = 0
                 WHERE h.name = ?1 AND t.lane IN (0, 1, 2) AND t.hash = {}",
                UrlHash::of(key).head()
            );
            each(conn, &sql, [queue.into()], found)
        }
        Target::Host(host) => {
            // Hosts of a group are in its queue.
            let groups = rules.groups.iter().map(|(name, _)| name.clone());
            let sql = format!(
                "{columns} JOIN host h ON h.id = t.host_id AND h.slot = 0
                 WHERE h.name = ?1 OR substr(h.name, -length('.' || ?1)) = '.' || ?1"
            );
            let names = std::iter::once(host.clone()).chain(groups);
            each(conn, &sql, names.map(Value::from), found)
        }
    }
}

fn entries(conn: &Connection, search: &mut Search<'_>, hosts: Vec<Value>) -> Result<(), DbError> {
    const FOUND: &str = "SELECT e.id, e.feed_id, e.link_hash,
          CASE WHEN json_valid(e.body) THEN json_extract(e.body, '$.canonical_link') END,
        t.source_id FROM entry e LEFT JOIN task t ON t.id = e.feed_id WHERE e.withdrawn = 0 AND";
    let hashes = blobs(&search.doomed.addresses);
    let feeds: Vec<Value> = search.polls.iter().map(|feed| Value::from(*feed)).collect();
    for (condition, values) in [
        ("e.link_hash = ?1", hashes),
        ("e.feed_id = ?1", feeds),
        ("instr(lower(e.body), ?1) > 0", hosts),
    ] {
        each(conn, &format!("{FOUND} {condition}"), values, |row| {
            // Of a damaged row counts what can be read; without its id it has no name.
            let Some(id) = whole("entry", row.get(0).map_err(DbError::from))? else {
                return Ok(());
            };
            let link_hash: Option<[u8; 32]> = row.get(2).ok().flatten();
            search.entry(FoundEntry {
                id: EntryId(id),
                feed: row.get(1).ok(),
                link_hash: link_hash.map(UrlHash::from_bytes),
                link: row.get(3).ok().flatten(),
                source: row.get(4).ok().flatten().map(SourceId),
            });
            Ok(())
        })?;
    }
    Ok(())
}

fn open(conn: &Connection, new: &NewTakedown, now: Ts) -> Result<Takedown, DbError> {
    let (scope, target) = (new.scope.number(), &new.target);
    let mut insert = conn.prepare_cached(
        "INSERT INTO withdrawn(hash, scope, target) VALUES(?1, ?2, ?3) ON CONFLICT DO NOTHING",
    )?;
    for hash in &new.addresses {
        insert.execute((hash.as_bytes(), scope, target))?;
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM takedown WHERE scope = ?1 AND target = ?2 AND lifted_at IS NULL"
    );
    if let Some(known) = all(conn, &sql, (scope, target))?.pop() {
        return Ok(known);
    }
    conn.execute(
        "INSERT INTO takedown(scope, target, at, name, \"by\", why) VALUES(?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET lifted_at = NULL, lifted_by = NULL, done_at = NULL",
        (scope, target, now.ms(), &new.name, &new.by, &new.why),
    )?;
    all(conn, &sql, (scope, target))?.pop().ok_or(DbError::Closed)
}

fn take(conn: &Connection, of: &Takedown, part: &Doomed, now: Ts) -> Result<(), DbError> {
    let mut events = Vec::new();
    for (hash, (url, source)) in &part.told {
        let (url, source) = (Some(url.clone()), *source);
        events.push(withdrawn(*hash, &GoneArticle { url, source, ..GoneArticle::default() }));
    }
    let mut articles = 0;
    for id in &part.articles {
        if let Some(gone) = drop_article(conn, *id)? {
            events.push(withdrawn(*id, &gone));
            articles += 1;
        }
    }
    let mut entries = 0;
    for id in &part.entries {
        if let Some(Buried { uid, feed, source }) = bury(conn, *id)? {
            events.push(entry_withdrawn(*id, &uid, feed, source));
            entries += 1;
        }
    }
    let mut records = 0;
    for id in &part.fetches {
        records += hide(conn, *id)?;
    }
    for event in &events {
        put_event(conn, event, now)?;
    }
    conn.execute(
        "UPDATE takedown SET articles = articles + ?4, entries = entries + ?5, records = records + ?6
         WHERE scope = ?1 AND target = ?2 AND at = ?3",
        params![of.scope.number(), of.target, of.at.ms(), articles, entries, records as i64],
    )?;
    Ok(())
}

/// Removes an article with all that is known of it; where it was and whose, when it was there.
pub(super) fn drop_article(
    conn: &Connection,
    id: ArticleId,
) -> Result<Option<GoneArticle>, DbError> {
    let found = conn
        .prepare_cached(
            "SELECT a.row, CASE WHEN json_valid(a.body) THEN json_extract(a.body, '$.url') END,
               a.source_id, a.sketch, a.fetch_id, t.url
             FROM article a LEFT JOIN task t ON t.id = a.task_id WHERE a.id = ?1",
        )?
        .query_row([id.as_bytes()], |row| {
            let source: Option<i64> = row.get(2)?;
            let known: Option<Vec<u8>> = row.get(3)?;
            let fetches = read::fetch_id(row.get(4)?).into_iter().collect();
            let (url, given, source) = (row.get(1)?, row.get(5)?, source.map(SourceId));
            let gone = GoneArticle { url, given, source, fetches };
            Ok((row.get::<_, i64>(0)?, gone, known))
        })
        .optional()?;
    let Some((place, mut gone, known)) = found else { return Ok(None) };
    let sql = "SELECT fetch_id FROM article_revision WHERE row = ?1 AND fetch_id IS NOT NULL";
    let mut select = conn.prepare_cached(sql)?;
    let past = select.query_map([place], |row| row.get(0).map(FetchId::from_bytes))?;
    gone.fetches.extend(past.collect::<Result<Vec<_>, _>>()?);
    let mut forget = conn.prepare_cached("DELETE FROM article_key WHERE key = ?1 AND row = ?2")?;
    // Of one that is damaged nobody knows the keys: they lead nowhere then.
    for key in sketch(known.as_deref()).iter().flat_map(Sketch::keys) {
        forget.execute((key, place))?;
    }
    for sql in [
        "DELETE FROM article_text WHERE row = ?1",
        "DELETE FROM article_revision WHERE row = ?1",
        "DELETE FROM article WHERE row = ?1",
    ] {
        conn.prepare_cached(sql)?.execute([place])?;
    }
    for sql in [
        "UPDATE article SET cluster = NULL, nearest = NULL, share = NULL, wire = NULL
         WHERE cluster = ?1",
        "UPDATE article SET duplicate_of = NULL WHERE duplicate_of = ?1",
    ] {
        conn.prepare_cached(sql)?.execute([id.as_bytes()])?;
    }
    Ok(Some(gone))
}

/// Leaves of an entry only what it is known by; what it was, and whose.
/// One that is damaged goes as well, also when nothing of it can be read.
fn bury(conn: &Connection, id: EntryId) -> Result<Option<Buried>, DbError> {
    let row = match read::checked_entry(conn, id)? {
        None => return Ok(None),
        Some(Ok(row)) => Some(row),
        Some(Err(damage)) => damage.left,
    };
    let (feed, entry) =
        row.map(|row| (row.feed_id, row.entry)).unwrap_or((TaskId(0), Entry::default()));
    let source: Option<i64> = conn
        .prepare_cached("SELECT source_id FROM task WHERE id = ?1")?
        .query_row([feed.0], |row| row.get(0))
        .optional()?
        .flatten();
    let uid = entry.uid.clone();
    conn.prepare_cached(
        "UPDATE entry SET body = ?2, withdrawn = 1, checksum = NULL WHERE id = ?1",
    )?
    .execute((id.0.as_slice(), to_json(&blank(entry))?))?;
    Ok(Some(Buried { uid, feed, source: source.map(SourceId) }))
}

/// An entry that was taken down.
struct Buried {
    uid: String,
    feed: TaskId,
    source: Option<SourceId>,
}

/// Takes the bytes of a fetch out of the index; they go when somebody gets to it.
fn hide(conn: &Connection, id: FetchId) -> Result<usize, DbError> {
    conn.prepare_cached(
        "INSERT INTO erasure(segment, offset, length, body_sha256)
         SELECT segment, offset, length, body_sha256 FROM fetch WHERE id = ?1 AND segment IS NOT NULL
         ON CONFLICT DO NOTHING",
    )?
    .execute([id.as_bytes().as_slice()])?;
    Ok(conn
        .prepare_cached(
            "UPDATE fetch SET segment = NULL, offset = NULL, length = NULL
             WHERE id = ?1 AND segment IS NOT NULL",
        )?
        .execute([id.as_bytes().as_slice()])?)
}

/// Notes bytes that are to go, of what came in under a takedown.
pub(super) fn put_erasures(conn: &Connection, gone: &[Erasure]) -> Result<(), DbError> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO erasure(segment, offset, length, body_sha256) VALUES(?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
    )?;
    for Erasure { raw, body_sha256 } in gone {
        insert.execute((&raw.segment, long(raw.offset), long(raw.length), body_sha256))?;
    }
    Ok(())
}

/// Keeps of entries only what they are known by.
pub(super) fn put_graves(
    conn: &Connection,
    graves: &[EntryFact],
    feed: TaskId,
    now: Ts,
) -> Result<(), DbError> {
    for fact in graves {
        let (row, _) = crate::store::apply::entry(None, fact.clone(), feed, None, now);
        put_entry_row(conn, &row, fact)?;
        conn.prepare_cached("UPDATE entry SET withdrawn = 1 WHERE id = ?1")?
            .execute([fact.id.0.as_slice()])?;
    }
    Ok(())
}

/// Events of these articles that say more than which they are, as they may stay.
fn wordy(conn: &Connection, articles: &[ArticleId]) -> Result<Vec<(i64, String)>, DbError> {
    let subjects: HashSet<String> = articles.iter().map(ToString::to_string).collect();
    let kinds = [EventKind::ArticleNew, EventKind::ArticleUpdated, EventKind::ArticleDuplicate];
    let mut select =
        conn.prepare("SELECT seq, subject, payload FROM event WHERE kind IN (?1, ?2, ?3)")?;
    let mut rows = select.query(params_from_iter(kinds.map(EventKind::number)))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if subjects.contains(row.get_ref(1)?.as_str().unwrap_or_default()) {
            let payload: String = row.get(2)?;
            // What is damaged may say anything.
            let left = blanked(&payload).unwrap_or_else(|_| Some("{}".to_owned()));
            found.extend(left.map(|left| Ok::<_, DbError>((row.get(0)?, left))).transpose()?);
        }
    }
    Ok(found)
}

fn lift(conn: &Connection, scope: Scope, target: &str, by: &str, now: Ts) -> Result<bool, DbError> {
    let sql = "UPDATE takedown SET lifted_at = ?3, lifted_by = ?4
        WHERE scope = ?1 AND target = ?2 AND lifted_at IS NULL";
    if conn.execute(sql, (scope.number(), target, now.ms(), by))? == 0 {
        return Ok(false);
    }
    conn.execute(
        "DELETE FROM withdrawn WHERE scope = ?1 AND target = ?2",
        (scope.number(), target),
    )?;
    // Feeds may bring again what nothing refuses any more.
    let mut select = conn.prepare("SELECT id, link_hash, body FROM entry WHERE withdrawn = 1")?;
    let mut rows = select.query([])?;
    let mut free = Vec::new();
    while let Some(row) = rows.next()? {
        let hash: Option<[u8; 32]> = row.get(1)?;
        let entry: Entry = from_json("entry", &row.get::<_, String>(2)?)?;
        let hash = hash.map(UrlHash::from_bytes);
        let refused: Refusals = refusals(conn, hash)?;
        let link = entry.canonical_link.as_deref().unwrap_or_default();
        if hash.is_none_or(|hash| !refused.refuses(hash, link)) {
            free.push(row.get::<_, [u8; 32]>(0)?);
        }
    }
    free_tasks(conn)?;
    let mut delete = conn.prepare_cached("DELETE FROM entry WHERE id = ?1")?;
    free.iter().try_for_each(|id| delete.execute([id]).map(drop))?;
    Ok(true)
}

/// What nothing refuses any more can be asked for again, when somebody wants it.
fn free_tasks(conn: &Connection) -> Result<(), DbError> {
    let mut select = conn.prepare(
        "SELECT t.id, coalesce(t.url_key, t.url) FROM fetch_state f JOIN task t ON t.id = f.task_id
         WHERE f.last_error = ?1",
    )?;
    let found =
        select.query_map([Code::Withdrawn.number()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(i64, String)> = found.collect::<Result<_, _>>()?;
    for (task, key) in found {
        let hash = UrlHash::of(&key);
        if refusals(conn, [hash])?.refuses(hash, &key) {
            continue;
        }
        for sql in [
            "UPDATE fetch_state SET last_error = NULL WHERE task_id = ?1",
            "UPDATE task SET fetched_at = NULL WHERE id = ?1",
        ] {
            conn.prepare_cached(sql)?.execute([task])?;
        }
    }
    Ok(())
}

fn waiting(conn: &Connection, after: Option<&RawRef>, limit: i64) -> Result<Vec<Erasure>, DbError> {
    let (segment, offset) = after.map_or(("", -1), |raw| (raw.segment.as_str(), long(raw.offset)));
    let mut select = conn.prepare_cached(
        "SELECT segment, offset, length, body_sha256 FROM erasure
         WHERE (segment, offset) > (?1, ?2) ORDER BY segment, offset LIMIT ?3",
    )?;
    let found = select.query_map((segment, offset, limit), |row| {
        let raw = RawRef { segment: row.get(0)?, offset: row.get(1)?, length: row.get(2)? };
        Ok(Erasure { raw, body_sha256: row.get(3)? })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}
