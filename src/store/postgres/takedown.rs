//! Takedowns on PostgreSQL.

use std::collections::HashMap;

use async_trait::async_trait;
use feedmill_formats::sketch::Sketch;
use feedmill_formats::url as web;
use tokio_postgres::Row;

use super::keep::write_entries;
use super::read::{self, hash, maybe_hash};
use super::{PgStore, log};
use crate::db::postgres::{Tx, clean, column, rows, run};
use crate::db::{DbError, whole};
use crate::frontier::postgres::{int, maybe, maybe_ts, named, narrow, now, refusals};
use crate::frontier::{Frontier, Refusals, queue_key};
use crate::model::{
    ArticleId, Code, Entry, EntryFact, EntryId, EntryRow, EventKind, FetchId, NewEvent,
    NewTakedown, RawRef, Scope, SourceId, Takedown, TaskId, Ts, UrlHash,
};
use crate::store::apply;
use crate::store::forms::{from_json, sketch, text_field, to_json};
use crate::store::takedown::{
    Doomed, Erasure, FoundEntry, GoneArticle, Search, Takedowns, Target, blank, blanked,
    entry_withdrawn, withdrawn,
};

#[async_trait]
impl Takedowns for PgStore {
    async fn doomed(&self, target: Target) -> Result<Doomed, DbError> {
        let mut client = self.db.maintenance().await?;
        let tx = client.transaction().await?;
        run(&tx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY", &[]).await?;
        let mut search = Search::new(&target, self.rules());
        self.tasks(&tx, &target, &mut search).await?;
        fetches(&tx, &mut search).await?;
        articles(&tx, &target, &mut search).await?;
        entries(&tx, &mut search).await?;
        Ok(search.doomed)
    }

    async fn open_takedown(&self, new: NewTakedown) -> Result<Takedown, DbError> {
        let mut client = self.db.client().await?;
        let tx = client.transaction().await?;
        // Whoever asked before what is refused is done then; whoever asks later is told.
        run(&tx, "LOCK TABLE takedown IN ACCESS EXCLUSIVE MODE", &[]).await?;
        let now = now(&self.db, &tx).await?;
        let (scope, target) = (new.scope.number(), clean(&new.target).into_owned());
        run(
            &tx,
            "INSERT INTO withdrawn(hash, scope, target)
             SELECT hash, $2::bigint, $3::text FROM unnest($1::bytea[]) AS w(hash) ON CONFLICT DO NOTHING",
            &[&column(&new.addresses, |hash| hash.as_bytes().as_slice()), &scope, &target],
        )
        .await?;
        let sql = format!(
            "SELECT {COLUMNS} FROM takedown WHERE scope = $1 AND target = $2 AND lifted_at IS NULL"
        );
        if rows(&tx, &sql, &[&scope, &target]).await?.is_empty() {
            run(
                &tx,
                "INSERT INTO takedown(scope, target, at, name, \"by\", why)
                 VALUES($1, $2, $3, $4, $5, $6) ON CONFLICT (scope, target, at)
                 DO UPDATE SET lifted_at = NULL, lifted_by = NULL, done_at = NULL",
                &[&scope, &target, &now.ms(), &clean(&new.name), &clean(&new.by), &clean(&new.why)],
            )
            .await?;
        }
        let found = rows(&tx, &sql, &[&scope, &target]).await?;
        let takedown = found.first().map(read_takedown).transpose()?;
        tx.commit().await?;
        takedown.ok_or(DbError::Closed)
    }

    async fn take_down(&self, of: &Takedown, part: Doomed) -> Result<(), DbError> {
        let mut client = self.db.client().await?;
        let tx = client.transaction().await?;
        // Articles are changed by those who hold the log.
        log::lock(&tx).await?;
        let now = now(&self.db, &tx).await?;
        let told = part.told.into_iter().map(|(hash, (url, source))| {
            withdrawn(hash, &GoneArticle { url: Some(url), source, ..GoneArticle::default() })
        });
        let mut events: Vec<NewEvent> = told.collect();
        let articles = drop_articles(&tx, &part.articles.into_iter().collect::<Vec<_>>()).await?;
        events.extend(articles.iter().map(|(id, gone)| withdrawn(*id, gone)));
        let buried = bury(&tx, &part.entries.into_iter().collect::<Vec<_>>()).await?;
        let entries = buried.len();
        events.extend(buried);
        let records = hide(&tx, &part.fetches.into_iter().collect::<Vec<_>>()).await?;
        log::append(&tx, &events, now).await?;
        run(
            &tx,
            "UPDATE takedown SET articles = articles + $4, entries = entries + $5,
               records = records + $6 WHERE scope = $1 AND target = $2 AND at = $3",
            &[
                &of.scope.number(),
                &of.target,
                &of.at.ms(),
                &long(articles.len() as u64),
                &long(entries as u64),
                &long(records),
            ],
        )
        .await?;
        tx.commit().await?;
        drop(client);
        self.told().await;
        Ok(())
    }

    async fn blank_events(&self, articles: Vec<ArticleId>) -> Result<u64, DbError> {
        let client = self.db.client().await?;
        let kinds = [EventKind::ArticleNew, EventKind::ArticleUpdated, EventKind::ArticleDuplicate];
        let found = rows(
            &client,
            "SELECT seq, payload FROM event WHERE kind = ANY($1::bigint[]) AND subject = ANY($2::text[])",
            &[&column(&kinds, |kind| kind.number()), &column(&articles, ToString::to_string)],
        )
        .await?;
        let mut left = Vec::new();
        for row in &found {
            let payload: &str = row.try_get(1)?;
            // What is damaged may say anything.
            let blank = blanked(payload).unwrap_or_else(|_| Some("{}".to_owned()));
            left.extend(blank.map(|text| Ok::<_, DbError>((int(row, 0)?, text))).transpose()?);
        }
        run(
            &client,
            "UPDATE event SET payload = w.payload, checksum = NULL
             FROM unnest($1::bigint[], $2::text[]) AS w(seq, payload) WHERE event.seq = w.seq",
            &[&column(&left, |(seq, _)| *seq), &column(&left, |(_, text)| text.as_str())],
        )
        .await?;
        Ok(left.len() as u64)
    }

    async fn end_takedown(&self, of: &Takedown) -> Result<(), DbError> {
        let client = self.db.client().await?;
        let now = now(&self.db, &client).await?;
        let sql = "UPDATE takedown SET done_at = $4
            WHERE scope = $1 AND target = $2 AND at = $3 AND done_at IS NULL";
        run(&client, sql, &[&of.scope.number(), &of.target, &of.at.ms(), &now.ms()]).await?;
        Ok(())
    }

    async fn takedowns(&self) -> Result<Vec<Takedown>, DbError> {
        let sql = format!("SELECT {COLUMNS} FROM takedown ORDER BY at DESC, scope, target");
        rows(&self.db.client().await?, &sql, &[]).await?.iter().map(read_takedown).collect()
    }

    async fn lift_takedown(&self, scope: Scope, target: &str, by: &str) -> Result<bool, DbError> {
        let mut client = self.db.maintenance().await?;
        let tx = client.transaction().await?;
        let now = now(&self.db, &tx).await?;
        let sql = "UPDATE takedown SET lifted_at = $3, lifted_by = $4
            WHERE scope = $1 AND target = $2 AND lifted_at IS NULL";
        let lifted = run(&tx, sql, &[&scope.number(), &target, &now.ms(), &clean(by)]).await?;
        if lifted == 0 {
            return Ok(false);
        }
        let sql = "DELETE FROM withdrawn WHERE scope = $1 AND target = $2";
        run(&tx, sql, &[&scope.number(), &target]).await?;
        free_entries(&tx).await?;
        free_tasks(&tx).await?;
        tx.commit().await?;
        Ok(true)
    }

    async fn is_refused(&self, url: &str) -> Result<bool, DbError> {
        let Ok(parsed) = web::parse(url) else { return Ok(false) };
        let hash = UrlHash::of(&web::key(&parsed, &self.rules().key));
        let mut client = self.db.client().await?;
        let tx = client.transaction().await?;
        Ok(refusals(&tx, &[hash]).await?.refuses(hash, url))
    }

    async fn erasures(&self, after: Option<RawRef>, limit: usize) -> Result<Vec<Erasure>, DbError> {
        let (segment, offset) =
            after.map_or((String::new(), -1), |raw| (raw.segment, long(raw.offset)));
        let found = rows(
            &self.db.client().await?,
            "SELECT segment, \"offset\", length, body_sha256 FROM erasure
             WHERE (segment, \"offset\") > ($1, $2) ORDER BY segment, \"offset\" LIMIT $3",
            &[&segment, &offset, &i64::try_from(limit).unwrap_or(i64::MAX)],
        )
        .await?;
        let read = |row: &Row| {
            let (offset, length) = (narrow("offset", row, 1)?, narrow("length", row, 2)?);
            let raw = RawRef { segment: row.try_get(0)?, offset, length };
            Ok(Erasure { raw, body_sha256: row.try_get(3)? })
        };
        found.iter().map(read).collect()
    }

    async fn erased(&self, gone: Vec<RawRef>) -> Result<(), DbError> {
        run(
            &self.db.client().await?,
            "DELETE FROM erasure e USING unnest($1::text[], $2::bigint[]) AS w(segment, place)
             WHERE e.segment = w.segment AND e.\"offset\" = w.place",
            &[&column(&gone, |raw| raw.segment.as_str()), &column(&gone, |raw| long(raw.offset))],
        )
        .await?;
        Ok(())
    }
}

const COLUMNS: &str = "scope, target, name, \"by\", why, at, articles, entries, records, done_at, \
    lifted_at, lifted_by";

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn read_takedown(row: &Row) -> Result<Takedown, DbError> {
    Ok(Takedown {
        scope: named("scope", row, 0, Scope::from_number)?,
        target: row.try_get(1)?,
        name: row.try_get(2)?,
        by: row.try_get(3)?,
        why: row.try_get(4)?,
        at: Ts::from_ms(int(row, 5)?),
        articles: narrow("count", row, 6)?,
        entries: narrow("count", row, 7)?,
        records: narrow("count", row, 8)?,
        done_at: maybe_ts(row, 9)?,
        lifted_at: maybe_ts(row, 10)?,
        lifted_by: row.try_get(11)?,
    })
}

impl PgStore {
    async fn tasks(
        &self,
        tx: &Tx<'_>,
        target: &Target,
        search: &mut Search<'_>,
    ) -> Result<(), DbError> {
        let columns = "SELECT t.id, t.lane, coalesce(t.url_key, t.url) FROM task t";
        let groups = &self.rules().groups;
        let found = match target {
            Target::Source(source) => {
                rows(tx, &format!("{columns} WHERE t.source_id = $1"), &[&source.0]).await?
            }
            Target::Address(key) => {
                let host = web::parse(key).map(|url| web::host(&url)).unwrap_or_default();
                let queue = queue_key(&host, groups);
                let sql = format!(
                    "{columns} JOIN host h ON h.id = t.host_id AND h.slot = 0
                     WHERE h.name = $1 AND t.lane IN (0, 1, 2) AND t.hash = $2"
                );
                rows(tx, &sql, &[&queue, &UrlHash::of(key).head()]).await?
            }
            Target::Host(host) => {
                // Hosts of a group are in its queue.
                let names: Vec<&str> = std::iter::once(host.as_str())
                    .chain(groups.iter().map(|(name, _)| name.as_str()))
                    .collect();
                let sql = format!(
                    "{columns} JOIN host h ON h.id = t.host_id AND h.slot = 0
                     WHERE h.name = ANY($1::text[]) OR right(h.name, length($2)) = $2"
                );
                rows(tx, &sql, &[&names, &format!(".{host}")]).await?
            }
        };
        for row in &found {
            search.task(int(row, 0)?, int(row, 1)?, row.try_get(2)?);
        }
        Ok(())
    }
}

async fn fetches(tx: &Tx<'_>, search: &mut Search<'_>) -> Result<(), DbError> {
    let owners: Vec<i64> = search.owners.iter().copied().collect();
    let sql = "SELECT id, url, status, segment IS NOT NULL FROM \"fetch\"
        WHERE task_id = ANY($1::bigint[])";
    for row in &rows(tx, sql, &[&owners]).await? {
        let id = FetchId::from_bytes(hash("fetch", row, 0)?);
        search.fetch(id, row.try_get(1)?, maybe(row, 2)?, row.try_get(3)?);
    }
    let sql =
        "SELECT id, url FROM \"fetch\" WHERE segment IS NOT NULL AND strpos(lower(url), $1) > 0";
    for host in search.hosts() {
        for row in &rows(tx, sql, &[&host]).await? {
            search.stray(FetchId::from_bytes(hash("fetch", row, 0)?), row.try_get(1)?);
        }
    }
    Ok(())
}

async fn articles(tx: &Tx<'_>, target: &Target, search: &mut Search<'_>) -> Result<(), DbError> {
    let columns = "SELECT id, body FROM article";
    let found = match target {
        Target::Source(source) => {
            let known: Vec<UrlHash> = search.doomed.addresses.iter().copied().collect();
            let known = column(&known, |hash| hash.as_bytes().as_slice());
            let sql = format!("{columns} WHERE source_id = $1 OR id = ANY($2::bytea[])");
            rows(tx, &sql, &[&source.0, &known]).await?
        }
        _ => {
            let sites: Vec<String> =
                search.hosts().iter().map(|host| web::site(host).to_owned()).collect();
            rows(tx, &format!("{columns} WHERE site = ANY($1::text[])"), &[&sites]).await?
        }
    };
    for row in &found {
        let url = text_field(row.try_get(1)?, "url").unwrap_or_default();
        search.article(UrlHash::from_bytes(hash("article", row, 0)?), &url);
    }
    Ok(())
}

async fn entries(tx: &Tx<'_>, search: &mut Search<'_>) -> Result<(), DbError> {
    let addresses: Vec<UrlHash> = search.doomed.addresses.iter().copied().collect();
    let feeds: Vec<i64> = search.polls.iter().copied().collect();
    let sql = "SELECT e.id, e.feed_id, e.link_hash, e.body, t.source_id
        FROM entry e LEFT JOIN task t ON t.id = e.feed_id
        WHERE e.withdrawn = 0 AND (e.link_hash = ANY($1::bytea[]) OR e.feed_id = ANY($2::bigint[])
          OR EXISTS(SELECT 1 FROM unnest($3::text[]) AS h(name) WHERE strpos(lower(e.body), h.name) > 0))";
    let hashes = column(&addresses, |hash| hash.as_bytes().as_slice());
    for row in &rows(tx, sql, &[&hashes, &feeds, &search.hosts()]).await? {
        // Of a damaged row counts what can be read; without its id it has no name.
        let Some(id) = whole("entry", hash("entry", row, 0))? else { continue };
        search.entry(FoundEntry {
            id: EntryId(id),
            feed: Some(int(row, 1)?),
            link_hash: whole("entry", maybe_hash("entry", row, 2))?
                .flatten()
                .map(UrlHash::from_bytes),
            link: text_field(row.try_get(3)?, "canonical_link"),
            source: maybe(row, 4)?.map(SourceId),
        });
    }
    Ok(())
}

/// Removes articles with all that is known of them; those that were there. The caller holds the log.
pub(super) async fn drop_articles(
    tx: &Tx<'_>,
    ids: &[ArticleId],
) -> Result<Vec<(ArticleId, GoneArticle)>, DbError> {
    let bytes = column(ids, |id| id.as_bytes().as_slice());
    let sql = "SELECT a.row, a.id, a.body, a.source_id, a.sketch, a.fetch_id, t.url
        FROM article a LEFT JOIN task t ON t.id = a.task_id
        WHERE a.id = ANY($1::bytea[]) ORDER BY a.row";
    let found = rows(tx, sql, &[&bytes]).await?;
    let (mut places, mut keys, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for row in &found {
        let place = int(row, 0)?;
        places.push(place);
        // Of one that is damaged nobody knows the keys: they lead nowhere then.
        let known = sketch(row.try_get::<_, Option<&[u8]>>(4)?).ok();
        keys.extend(known.iter().flat_map(Sketch::keys).map(|key| (key, place)));
        let id = UrlHash::from_bytes(hash("article", row, 1)?);
        let fetch = maybe_hash("fetch", row, 5)?.map(FetchId::from_bytes);
        let (url, given) = (text_field(row.try_get(2)?, "url"), row.try_get(6)?);
        let (source, fetches) = (maybe(row, 3)?.map(SourceId), fetch.into_iter().collect());
        gone.push((id, GoneArticle { url, given, source, fetches }));
    }
    let sql = "SELECT row, fetch_id FROM article_revision
        WHERE row = ANY($1::bigint[]) AND fetch_id IS NOT NULL ORDER BY row, revision";
    for row in &rows(tx, sql, &[&places]).await? {
        let at = places.iter().position(|place| int(row, 0).is_ok_and(|row| row == *place));
        if let Some((_, gone)) = at.and_then(|at| gone.get_mut(at)) {
            gone.fetches.push(FetchId::from_bytes(hash("fetch", row, 1)?));
        }
    }
    run(
        tx,
        "DELETE FROM article_key k USING unnest($1::bigint[], $2::bigint[]) AS w(key, row)
         WHERE k.key = w.key AND k.row = w.row",
        &[&column(&keys, |(key, _)| *key), &column(&keys, |(_, place)| *place)],
    )
    .await?;
    for sql in [
        "DELETE FROM article_text WHERE row = ANY($1::bigint[])",
        "DELETE FROM article_revision WHERE row = ANY($1::bigint[])",
        "DELETE FROM article WHERE row = ANY($1::bigint[])",
    ] {
        run(tx, sql, &[&places]).await?;
    }
    for sql in [
        "UPDATE article SET cluster = NULL, nearest = NULL, share = NULL, wire = NULL
         WHERE cluster = ANY($1::bytea[])",
        "UPDATE article SET duplicate_of = NULL WHERE duplicate_of = ANY($1::bytea[])",
    ] {
        run(tx, sql, &[&bytes]).await?;
    }
    Ok(gone)
}

/// Leaves of entries only what they are known by; what the log says of it.
async fn bury(tx: &Tx<'_>, ids: &[EntryId]) -> Result<Vec<NewEvent>, DbError> {
    let (known, damaged) = read::checked_entries(tx, ids).await?;
    // Those that are damaged go as well, also when nothing of them can be read.
    let known = known.into_iter().map(|(id, row)| (id, Some(row)));
    let all = known.chain(damaged.into_iter().map(|(id, damage)| (id, damage.left)));
    let known: HashMap<EntryId, (TaskId, Entry)> = all
        .map(|(id, row)| {
            (id, row.map(|row| (row.feed_id, row.entry)).unwrap_or((TaskId(0), Entry::default())))
        })
        .collect();
    let feeds: Vec<i64> = known.values().map(|(feed, _)| feed.0).collect();
    let sql = "SELECT id, source_id FROM task WHERE id = ANY($1::bigint[])";
    let mut sources: HashMap<i64, Option<SourceId>> = HashMap::new();
    for row in &rows(tx, sql, &[&feeds]).await? {
        sources.insert(int(row, 0)?, maybe(row, 1)?.map(SourceId));
    }
    let mut graves = Vec::new();
    let mut events = Vec::new();
    for id in ids {
        let Some((feed, entry)) = known.get(id) else { continue };
        let source = sources.get(&feed.0).copied().flatten();
        events.push(entry_withdrawn(*id, &entry.uid, *feed, source));
        graves.push((*id, to_json(&blank(entry.clone()))?));
    }
    run(
        tx,
        "UPDATE entry SET body = w.body, withdrawn = 1, checksum = NULL
         FROM unnest($1::bytea[], $2::text[]) AS w(id, body) WHERE entry.id = w.id",
        &[&column(&graves, |(id, _)| id.0.as_slice()), &column(&graves, |(_, body)| body.as_str())],
    )
    .await?;
    Ok(events)
}

/// Takes the bytes of fetches out of the index; they go when somebody gets to it.
async fn hide(tx: &Tx<'_>, ids: &[FetchId]) -> Result<u64, DbError> {
    let ids = column(ids, |id| id.as_bytes().as_slice());
    run(
        tx,
        "INSERT INTO erasure(segment, \"offset\", length, body_sha256)
         SELECT segment, \"offset\", length, body_sha256 FROM \"fetch\"
         WHERE id = ANY($1::bytea[]) AND segment IS NOT NULL ON CONFLICT DO NOTHING",
        &[&ids],
    )
    .await?;
    let sql = "UPDATE \"fetch\" SET segment = NULL, \"offset\" = NULL, length = NULL
        WHERE id = ANY($1::bytea[]) AND segment IS NOT NULL";
    run(tx, sql, &[&ids]).await
}

/// Notes bytes that are to go, of what came in under a takedown.
pub(super) async fn put_erasures(tx: &Tx<'_>, gone: &[Erasure]) -> Result<(), DbError> {
    run(
        tx,
        "INSERT INTO erasure(segment, \"offset\", length, body_sha256)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[])
         ON CONFLICT DO NOTHING",
        &[
            &column(gone, |one| one.raw.segment.as_str()),
            &column(gone, |one| long(one.raw.offset)),
            &column(gone, |one| long(one.raw.length)),
            &column(gone, |one| one.body_sha256.as_deref()),
        ],
    )
    .await?;
    Ok(())
}

/// Keeps of entries only what they are known by.
pub(super) async fn put_graves(
    tx: &Tx<'_>,
    graves: &[(TaskId, EntryFact)],
    now: Ts,
) -> Result<(), DbError> {
    let row =
        |(feed, fact): &(TaskId, EntryFact)| apply::entry(None, fact.clone(), *feed, None, now).0;
    let changed: Vec<(EntryRow, &EntryFact)> =
        graves.iter().map(|grave| (row(grave), &grave.1)).collect();
    write_entries(tx, &changed).await?;
    let sql = "UPDATE entry SET withdrawn = 1 WHERE id = ANY($1::bytea[])";
    run(tx, sql, &[&column(graves, |(_, fact)| fact.id.0.as_slice())]).await?;
    Ok(())
}

/// Feeds may bring again what nothing refuses any more.
async fn free_entries(tx: &Tx<'_>) -> Result<(), DbError> {
    let sql = "SELECT id, link_hash, body FROM entry WHERE withdrawn = 1";
    let mut graves = Vec::new();
    for row in &rows(tx, sql, &[]).await? {
        let entry: Entry = from_json("entry", row.try_get(2)?)?;
        let link = maybe_hash("entry", row, 1)?.map(UrlHash::from_bytes);
        graves.push((hash::<32>("entry", row, 0)?, link, entry.canonical_link));
    }
    let links: Vec<UrlHash> = graves.iter().filter_map(|(_, link, _)| *link).collect();
    let refused: Refusals = refusals(tx, &links).await?;
    let is_free = |link: Option<UrlHash>, url: Option<&str>| {
        link.is_none_or(|link| !refused.refuses(link, url.unwrap_or_default()))
    };
    let free = graves.iter().filter(|(_, link, url)| is_free(*link, url.as_deref()));
    let free: Vec<&[u8]> = free.map(|(id, ..)| id.as_slice()).collect();
    run(tx, "DELETE FROM entry WHERE id = ANY($1::bytea[])", &[&free]).await?;
    Ok(())
}

/// What nothing refuses any more can be asked for again, when somebody wants it.
async fn free_tasks(tx: &Tx<'_>) -> Result<(), DbError> {
    let sql = "SELECT t.id, coalesce(t.url_key, t.url) FROM fetch_state f
        JOIN task t ON t.id = f.task_id WHERE f.last_error = $1::bigint";
    let found = rows(tx, sql, &[&Code::Withdrawn.number()]).await?;
    let mut tasks: Vec<(i64, String)> = Vec::new();
    for row in &found {
        tasks.push((int(row, 0)?, row.try_get(1)?));
    }
    let hashes: Vec<UrlHash> = tasks.iter().map(|(_, key)| UrlHash::of(key)).collect();
    let refused = refusals(tx, &hashes).await?;
    tasks.retain(|(_, key)| !refused.refuses(UrlHash::of(key), key));
    for sql in [
        "UPDATE fetch_state SET last_error = NULL WHERE task_id = ANY($1::bigint[])",
        "UPDATE task SET fetched_at = NULL WHERE id = ANY($1::bigint[])",
    ] {
        run(tx, sql, &[&column(&tasks, |(task, _)| *task)]).await?;
    }
    Ok(())
}
