//! What a handler asks, answered from one snapshot.

use std::collections::HashMap;

use deadpool_postgres::GenericClient;
use tokio_postgres::IsolationLevel;

use super::read::{hash, maybe_hash};
use crate::db::postgres::{column, first, rows};
use crate::db::{DbError, PgDb};
use crate::frontier::postgres::{int, maybe, maybe_ts, named, narrow};
use crate::model::{
    Ask, EntryId, Evidence, FeedState, Health, Kind, Known, KnownEntry, LinkedEntry, Moving,
    RobotsState, SourceId, TaskId, Ts, UrlHash, Verdict,
};
use crate::store::forms::{self, PRICE, price};

pub(super) async fn lookup(db: &PgDb, ask: &Ask) -> Result<Known, DbError> {
    let mut client = db.client().await?;
    let one_snapshot = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
    let tx = one_snapshot.read_only(true).start().await?;
    let mut known = Known::default();
    if let Some(id) = ask.feed {
        known.feed = feed(&tx, id).await?.unwrap_or_default();
        known.price = meta(&tx, PRICE).await?.and_then(price);
        if let Some(source) = ask.siblings {
            known.news_elsewhere = news_elsewhere(&tx, id, source).await?;
        }
    }
    if !ask.entries.is_empty() {
        known.entries = entries(&tx, &ask.entries).await?;
        known.by_link = linked(&tx, ask, &known.entries).await?;
    }
    if let Some(origin) = &ask.robots {
        known.robots = robots(&tx, origin).await?;
    }
    if let Some(page) = ask.evidence {
        known.evidence = evidence(&tx, page).await?;
    }
    tx.commit().await?;
    Ok(known)
}

async fn feed<C: GenericClient>(client: &C, id: TaskId) -> Result<Option<FeedState>, DbError> {
    let sql = "SELECT version, title, failures, last_success, body_hash, interval_ms, schedule,
          bucket, health, probed_at, yielded, heard, moving_to, moving_since, moving_polls
        FROM feed WHERE task_id = $1";
    let Some(row) = first(client, sql, &[&id.0]).await? else { return Ok(None) };
    Ok(Some(FeedState {
        version: int(&row, 0)?,
        title: row.try_get(1)?,
        failures: narrow("count", &row, 2)?,
        last_success: maybe_ts(&row, 3)?,
        body_hash: maybe_hash("feed", &row, 4)?,
        interval_ms: maybe(&row, 5)?,
        schedule: row.try_get(6)?,
        bucket: maybe(&row, 7)?.and_then(|bucket| u8::try_from(bucket).ok()),
        health: named("health", &row, 8, Health::from_number)?,
        probed_at: maybe_ts(&row, 9)?,
        yielded: narrow("count", &row, 10)?,
        heard: int(&row, 11)?,
        moving: moving(&row)?,
    }))
}

fn moving(row: &tokio_postgres::Row) -> Result<Option<Moving>, DbError> {
    let Some(to) = row.try_get(12)? else { return Ok(None) };
    Ok(Some(Moving { to, since: Ts::from_ms(int(row, 13)?), polls: narrow("count", row, 14)? }))
}

/// What sitemaps of the source told of since the feed last had news.
async fn news_elsewhere<C: GenericClient>(
    client: &C,
    feed: TaskId,
    source: SourceId,
) -> Result<u32, DbError> {
    let sql = "SELECT greatest(0, coalesce(sum(f.told), 0)
          - coalesce((SELECT heard FROM feed WHERE task_id = $3), 0))::bigint
        FROM task t JOIN feed f ON f.task_id = t.id
        WHERE t.source_id = $1 AND t.lane = 0 AND t.kind = $2::bigint";
    let row = first(client, sql, &[&source.0, &Kind::Sitemap.number(), &feed.0]).await?;
    row.map_or(Ok(0), |row| narrow("count", &row, 0))
}

/// A note of the house.
pub(super) async fn meta<C: GenericClient>(
    client: &C,
    key: &str,
) -> Result<Option<String>, DbError> {
    let row = first(client, "SELECT value FROM meta WHERE key = $1", &[&key]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

async fn entries<C: GenericClient>(
    client: &C,
    asked: &[(EntryId, Option<UrlHash>)],
) -> Result<HashMap<EntryId, KnownEntry>, DbError> {
    let sql = "SELECT id, content_hash FROM entry WHERE id = ANY($1::bytea[])";
    let found = rows(client, sql, &[&column(asked, |(id, _)| id.0.as_slice())]).await?;
    let mut known = HashMap::with_capacity(found.len());
    for row in &found {
        let content_hash = hash("entry", row, 1)?;
        known.insert(EntryId(hash("entry", row, 0)?), KnownEntry { content_hash });
    }
    Ok(known)
}

/// The feed's last entry with the page of each entry that is not known.
async fn linked<C: GenericClient>(
    client: &C,
    ask: &Ask,
    known: &HashMap<EntryId, KnownEntry>,
) -> Result<HashMap<UrlHash, LinkedEntry>, DbError> {
    let unknown = ask.entries.iter().filter(|(id, _)| !known.contains_key(id));
    let pages: Vec<UrlHash> = unknown.filter_map(|(_, page)| *page).collect();
    let Some(feed) = ask.feed.filter(|_| !pages.is_empty()) else { return Ok(HashMap::new()) };
    let sql = "SELECT DISTINCT ON (link_hash) link_hash, id, content_hash, body FROM entry
        WHERE feed_id = $1 AND link_hash = ANY($2::bytea[])
        ORDER BY link_hash, last_seen DESC, row DESC";
    let pages = column(&pages, |page| page.as_bytes().as_slice());
    let mut linked = HashMap::new();
    for row in &rows(client, sql, &[&feed.0, &pages]).await? {
        let (id, content) = (EntryId(hash("entry", row, 1)?), hash("entry", row, 2)?);
        let entry = forms::linked(id, content, forms::from_json("entry", row.try_get(3)?)?);
        linked.insert(UrlHash::from_bytes(hash("entry", row, 0)?), entry);
    }
    Ok(linked)
}

pub(super) async fn robots<C: GenericClient>(
    client: &C,
    origin: &str,
) -> Result<Option<RobotsState>, DbError> {
    let sql = "SELECT body, fetched_at, expires_at, failures FROM robots WHERE origin = $1";
    let Some(row) = first(client, sql, &[&origin]).await? else { return Ok(None) };
    let body: Option<String> = row.try_get(0)?;
    Ok(Some(RobotsState {
        verdict: body.map_or(Verdict::AllowAll, Verdict::Rules),
        fetched_at: Ts::from_ms(int(&row, 1)?),
        expires_at: Ts::from_ms(int(&row, 2)?),
        failures: u32::try_from(int(&row, 3)?).unwrap_or(u32::MAX),
    }))
}

async fn evidence<C: GenericClient>(
    client: &C,
    page: UrlHash,
) -> Result<Option<Evidence>, DbError> {
    let sql = "SELECT body FROM entry WHERE link_hash = $1 ORDER BY first_seen, row LIMIT 1";
    let found = first(client, sql, &[&page.as_bytes().as_slice()]).await?;
    let Some(row) = found else { return Ok(None) };
    Ok(Some(forms::evidence(forms::from_json("entry", row.try_get(0)?)?)))
}
