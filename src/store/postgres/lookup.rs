//! What a handler asks, answered from one snapshot.

use std::collections::{HashMap, HashSet};

use super::prints;
use super::read::{hash, maybe_hash};
use crate::db::postgres::{clean, column, first, rows};
use crate::db::{DbError, PgDb, Session, whole, whole_rows};
use crate::frontier::postgres::{int, maybe, maybe_ts, named, narrow};
use crate::frontier::{Candidate, Rules, queue_key};
use crate::model::{
    Ask, AskedEntry, Discovery, Entry, EntryId, Evidence, FeedState, Health, Kind, Known,
    KnownEntry, Lane, LeadState, LinkedEntry, Moving, RobotsState, SourceId, Status, TaskId, Ts,
    UrlHash, Verdict,
};
use crate::store::damage::{Beside, check, checked};
use crate::store::forms::{self, PRICE, price};

pub(super) async fn lookup(db: &PgDb, ask: &Ask, rules: &Rules) -> Result<Known, DbError> {
    let mut client = db.client().await?;
    let tx = client.snapshot().await?;
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
        known.kin = relatives(&tx, ask, &known.entries).await?;
    }
    if let Some(origin) = &ask.robots {
        known.robots = robots(&tx, origin).await?;
    }
    if let Some(page) = ask.evidence {
        known.evidence = evidence(&tx, page).await?;
    }
    if let Some(host) = &ask.frame_of {
        known.repeated = prints::repeated(&tx, host).await?;
    }
    if let Some(source) = ask.discovery {
        known.discovery = discovery(&tx, source).await?;
    }
    known.leads = leads(&tx, &forms::leads(ask, known.discovery.as_ref(), rules)).await?;
    if !ask.pages.is_empty() {
        known.pages = pages(&tx, &ask.pages, rules).await?;
    }
    if let Some(source) = ask.walked_by {
        known.walked = walked(&tx, source).await?;
    }
    if let Some(asked) = ask.listed_before {
        known.listed = listed(&tx, asked).await?;
    }
    tx.commit().await?;
    Ok(known)
}

async fn discovery<C: Session>(client: &C, source: SourceId) -> Result<Option<Discovery>, DbError> {
    let sql = "SELECT state FROM discovery WHERE source_id = $1";
    let Some(row) = first(client, sql, &[&source.0]).await? else { return Ok(None) };
    whole("discovery", forms::from_json("discovery", row.try_get(0)?))
}

/// The searches for channels of all sources.
pub(super) async fn discoveries(db: &PgDb) -> Result<Vec<(SourceId, Discovery)>, DbError> {
    let sql = "SELECT source_id, state FROM discovery ORDER BY source_id";
    let found = rows(&db.client().await?, sql, &[]).await?;
    let read = |row: &tokio_postgres::Row| {
        Ok((SourceId(int(row, 0)?), forms::from_json("discovery", row.try_get(1)?)?))
    };
    whole_rows("discovery", found.iter().map(read))
}

/// What the poll lane knows of addresses.
async fn leads<C: Session>(
    client: &C,
    asked: &[Candidate],
) -> Result<HashMap<String, LeadState>, DbError> {
    if asked.is_empty() {
        return Ok(HashMap::new());
    }
    let found = rows(
        client,
        "SELECT w.url, t.kind, t.status,
           CASE WHEN t.fetch_count > 0 OR t.status IN (1, 2) THEN t.fetched_at END
         FROM unnest($1::text[], $2::text[], $3::bigint[]) AS w(url, host, hash)
         JOIN host h ON h.name = w.host AND h.slot = 0
         JOIN task t ON t.host_id = h.id AND t.lane = $4::bigint AND t.hash = w.hash",
        &[
            &column(asked, |lead| clean(&lead.url)),
            &column(asked, |lead| lead.host.as_str()),
            &column(asked, |lead| lead.hash.head()),
            &Lane::Poll.number(),
        ],
    )
    .await?;
    let read = |row: &tokio_postgres::Row| {
        let state = LeadState {
            kind: named("kind", row, 1, Kind::from_number)?,
            status: named("status", row, 2, Status::from_number)?,
            fetched_at: maybe_ts(row, 3)?,
        };
        Ok((row.try_get(0)?, state))
    };
    whole_rows("task", found.iter().map(read))
}

/// Which pages are known.
async fn pages<C: Session>(
    client: &C,
    asked: &[(String, UrlHash)],
    rules: &Rules,
) -> Result<HashSet<UrlHash>, DbError> {
    let sql = "SELECT h.name, t.hash FROM unnest($1::text[], $2::bigint[]) AS a(name, hash)
        JOIN host h ON h.name = a.name AND h.slot = 0
        JOIN task t ON t.host_id = h.id AND t.lane = $3::bigint AND t.hash = a.hash";
    let queue = |host: &str| queue_key(host, &rules.groups).to_owned();
    let (queues, hashes) =
        (column(asked, |(host, _)| queue(host)), column(asked, |(_, hash)| hash.head()));
    let found = rows(client, sql, &[&queues, &hashes, &Lane::Page.number()]).await?;
    let mut known: HashSet<(String, i64)> = HashSet::with_capacity(found.len());
    for row in &found {
        known.insert((row.try_get(0)?, int(row, 1)?));
    }
    let is_known = |host: &str, hash: &UrlHash| known.contains(&(queue(host), hash.head()));
    Ok(asked.iter().filter(|(host, hash)| is_known(host, hash)).map(|(_, hash)| *hash).collect())
}

/// How many pages of a source are walked.
async fn walked<C: Session>(client: &C, source: SourceId) -> Result<u32, DbError> {
    let sql = "SELECT count(*) FROM task
        WHERE source_id = $1 AND lane = 0 AND kind = $2::bigint";
    let row = first(client, sql, &[&source.0, &Kind::Listing.number()]).await?;
    row.map_or(Ok(0), |row| narrow("count", &row, 0))
}

/// How many articles the pages of a list have that come before one.
async fn listed<C: Session>(client: &C, (source, depth): (SourceId, u16)) -> Result<u32, DbError> {
    let sql = "SELECT coalesce(sum(f.items), 0)::bigint FROM task t JOIN feed f ON f.task_id = t.id
        WHERE t.source_id = $1 AND t.lane = 0 AND t.kind = $2::bigint AND t.depth < $3::bigint";
    let given = (Kind::Listing.number(), i64::from(depth));
    let row = first(client, sql, &[&source.0, &given.0, &given.1]).await?;
    row.map_or(Ok(0), |row| narrow("count", &row, 0))
}

async fn feed<C: Session>(client: &C, id: TaskId) -> Result<Option<FeedState>, DbError> {
    let sql = "SELECT version, title, failures, last_success, body_hash, interval_ms, schedule,
          bucket, health, probed_at, yielded, heard, moving_to, moving_since, moving_polls,
          by_pages, health_at, disabled_at, warnings, left_out, body_bytes
        FROM feed WHERE task_id = $1";
    let Some(row) = first(client, sql, &[&id.0]).await? else { return Ok(None) };
    // One that is damaged is learned anew.
    whole("feed", read_feed(&row))
}

fn read_feed(row: &tokio_postgres::Row) -> Result<FeedState, DbError> {
    Ok(FeedState {
        version: int(row, 0)?,
        title: row.try_get(1)?,
        failures: narrow("count", row, 2)?,
        last_success: maybe_ts(row, 3)?,
        body_hash: maybe_hash("feed", row, 4)?,
        body_bytes: narrow("bytes", row, 20)?,
        interval_ms: maybe(row, 5)?,
        schedule: row.try_get(6)?,
        bucket: maybe(row, 7)?.and_then(|bucket| u8::try_from(bucket).ok()),
        health: named("health", row, 8, Health::from_number)?,
        probed_at: maybe_ts(row, 9)?,
        yielded: narrow("count", row, 10)?,
        heard: int(row, 11)?,
        moving: moving(row)?,
        by_pages: int(row, 15)? != 0,
        health_since: maybe_ts(row, 16)?,
        disabled_since: maybe_ts(row, 17)?,
        warnings: forms::warnings(row.try_get(18)?),
        left_out: forms::left_out(row.try_get::<_, Option<&[u8]>>(19)?),
    })
}

fn moving(row: &tokio_postgres::Row) -> Result<Option<Moving>, DbError> {
    let Some(to) = row.try_get(12)? else { return Ok(None) };
    Ok(Some(Moving { to, since: Ts::from_ms(int(row, 13)?), polls: narrow("count", row, 14)? }))
}

/// What sitemaps of the source told of since the feed last had news.
async fn news_elsewhere<C: Session>(
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
pub(super) async fn meta<C: Session>(client: &C, key: &str) -> Result<Option<String>, DbError> {
    let row = first(client, "SELECT value FROM meta WHERE key = $1", &[&key]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

async fn entries<C: Session>(
    client: &C,
    asked: &[AskedEntry],
) -> Result<HashMap<EntryId, KnownEntry>, DbError> {
    let sql = "SELECT id, content_hash, published, updated FROM entry WHERE id = ANY($1::bytea[])";
    let found = rows(client, sql, &[&column(asked, |entry| entry.id.0.as_slice())]).await?;
    let mut known = HashMap::with_capacity(found.len());
    for row in &found {
        let read = || {
            let content_hash = hash("entry", row, 1)?;
            let (published, updated) = (maybe_ts(row, 2)?, maybe_ts(row, 3)?);
            let entry = KnownEntry { content_hash, published, updated };
            Ok((EntryId(hash("entry", row, 0)?), entry))
        };
        // One that is damaged is written anew by what is said of it now.
        known.extend(whole("entry", read())?);
    }
    Ok(known)
}

/// Entries of the feed that have the page or the date of one that is not known, the page's first.
async fn relatives<C: Session>(
    client: &C,
    ask: &Ask,
    known: &HashMap<EntryId, KnownEntry>,
) -> Result<Vec<LinkedEntry>, DbError> {
    let unknown: Vec<_> =
        ask.entries.iter().filter(|asked| !known.contains_key(&asked.id)).collect();
    let Some(feed) = ask.feed.filter(|_| !unknown.is_empty()) else { return Ok(Vec::new()) };
    let sql = "SELECT * FROM (
          SELECT DISTINCT ON (link_hash) id, content_hash, link_hash, body FROM entry
          WHERE feed_id = $1 AND link_hash = ANY($2::bytea[])
          ORDER BY link_hash, last_seen DESC, row DESC) AS by_page
        UNION ALL
        SELECT e.id, e.content_hash, e.link_hash, e.body FROM unnest($3::bigint[]) AS asked(at),
          LATERAL (SELECT id, content_hash, link_hash, body FROM entry
            WHERE feed_id = $1 AND published = asked.at ORDER BY row DESC LIMIT $4) AS e";
    let pages: Vec<UrlHash> = unknown.iter().filter_map(|asked| asked.page).collect();
    let mut dates: Vec<i64> = unknown.iter().filter_map(|asked| Some(asked.date?.ms())).collect();
    dates.sort_unstable();
    dates.dedup();
    let pages = column(&pages, |page| page.as_bytes().as_slice());
    let found = rows(client, sql, &[&feed.0, &pages, &dates, &forms::MOST_OF_A_DATE]).await?;
    let mut kin: Vec<LinkedEntry> = Vec::with_capacity(found.len());
    for row in &found {
        let read = || {
            let (id, content) = (EntryId(hash("entry", row, 0)?), hash("entry", row, 1)?);
            let page = maybe_hash("entry", row, 2)?.map(UrlHash::from_bytes);
            let entry = forms::from_json("entry", row.try_get(3)?)?;
            Ok(LinkedEntry::of(id, content, page, entry))
        };
        let linked = whole("entry", read())?;
        kin.extend(linked.filter(|linked| kin.iter().all(|other| other.id != linked.id)));
    }
    Ok(kin)
}

pub(super) async fn robots<C: Session>(
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

async fn evidence<C: Session>(client: &C, page: UrlHash) -> Result<Option<Evidence>, DbError> {
    let sql = "SELECT body, checksum, id, content_hash, published FROM entry WHERE link_hash = $1
        ORDER BY first_seen, row LIMIT 1";
    let found = first(client, sql, &[&page.as_bytes().as_slice()]).await?;
    let Some(row) = found else { return Ok(None) };
    let read = || {
        let body: &str = row.try_get(0)?;
        let beside = Beside::document(row.try_get(2)?, row.try_get(3)?, maybe(&row, 4)?);
        check("entry", &[body.as_bytes()], &beside, maybe(&row, 1)?)?;
        forms::from_json::<Entry>("entry", body)
    };
    // What a damaged entry says is no evidence.
    Ok(checked(read(), || None)?.ok().map(Evidence::from))
}
