//! What a handler asks, answered from one snapshot.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension, Row};

use super::prints;
use crate::db::{DbError, whole, whole_rows};
use crate::frontier::sqlite::number;
use crate::frontier::{Candidate, Rules, queue_key};
use crate::model::{
    Ask, AskedEntry, Discovery, Entry, EntryId, Evidence, FeedState, Health, Kind, Known,
    KnownEntry, Lane, LeadState, LinkedEntry, Moving, RobotsState, SourceId, Status, TaskId, Ts,
    UrlHash, Verdict,
};
use crate::store::damage::{Beside, check, checked};
use crate::store::forms::{self, PRICE, price};

pub(super) fn lookup(conn: &Connection, ask: &Ask, rules: &Rules) -> Result<Known, DbError> {
    let (entries, kin) = entries(conn, ask)?;
    let discovery = ask.discovery.map(|source| discovery(conn, source)).transpose()?.flatten();
    Ok(Known {
        feed: ask.feed.map(|id| feed(conn, id)).transpose()?.flatten().unwrap_or_default(),
        news_elsewhere: news_elsewhere(conn, ask)?,
        price: ask.feed.map(|_| meta(conn, PRICE)).transpose()?.flatten().and_then(price),
        entries,
        kin,
        robots: ask.robots.as_deref().map(|origin| robots(conn, origin)).transpose()?.flatten(),
        repeated: ask
            .frame_of
            .as_deref()
            .map(|host| prints::repeated(conn, host))
            .transpose()?
            .unwrap_or_default(),
        evidence: ask.evidence.map(|hash| evidence(conn, hash)).transpose()?.flatten(),
        leads: leads(conn, &forms::leads(ask, discovery.as_ref(), rules))?,
        pages: pages(conn, ask, rules)?,
        walked: ask.walked_by.map(|source| walked(conn, source)).transpose()?.unwrap_or_default(),
        listed: ask.listed_before.map(|asked| listed(conn, asked)).transpose()?.unwrap_or_default(),
        discovery,
    })
}

fn discovery(conn: &Connection, source: SourceId) -> Result<Option<Discovery>, DbError> {
    let state: Option<String> = conn
        .prepare_cached("SELECT state FROM discovery WHERE source_id = ?1")?
        .query_row([source.0], |row| row.get(0))
        .optional()?;
    let state = state.map(|state| forms::from_json("discovery", &state)).transpose();
    Ok(whole("discovery", state)?.flatten())
}

/// The searches for channels of all sources.
pub(super) fn discoveries(conn: &Connection) -> Result<Vec<(SourceId, Discovery)>, DbError> {
    let mut select = conn.prepare("SELECT source_id, state FROM discovery ORDER BY source_id")?;
    let rows: Vec<(i64, String)> =
        select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let read =
        |(id, state): (i64, String)| Ok((SourceId(id), forms::from_json("discovery", &state)?));
    whole_rows("discovery", rows.into_iter().map(read))
}

/// What the poll lane knows of addresses.
fn leads(conn: &Connection, asked: &[Candidate]) -> Result<HashMap<String, LeadState>, DbError> {
    let mut select = conn.prepare_cached(
        "SELECT t.kind, t.status,
           CASE WHEN t.fetch_count > 0 OR t.status IN (1, 2) THEN t.fetched_at END
         FROM host h JOIN task t ON t.host_id = h.id AND t.lane = ?2 AND t.hash = ?3
         WHERE h.name = ?1 AND h.slot = 0",
    )?;
    let mut known = HashMap::new();
    for lead in asked {
        let mut rows = select.query((&lead.host, Lane::Poll.number(), lead.hash.head()))?;
        let Some(row) = rows.next()? else { continue };
        let read = || {
            Ok(LeadState {
                kind: number("kind", row.get(0)?, Kind::from_number)?,
                status: number("status", row.get(1)?, Status::from_number)?,
                fetched_at: row.get::<_, Option<i64>>(2)?.map(Ts::from_ms),
            })
        };
        known.extend(whole("task", read())?.map(|state| (lead.url.clone(), state)));
    }
    Ok(known)
}

/// Which pages are known.
fn pages(conn: &Connection, ask: &Ask, rules: &Rules) -> Result<HashSet<UrlHash>, DbError> {
    let mut select = conn.prepare_cached(
        "SELECT EXISTS(SELECT 1 FROM task t JOIN host h ON h.id = t.host_id
         WHERE h.name = ?1 AND h.slot = 0 AND t.lane = ?2 AND t.hash = ?3)",
    )?;
    let mut known = HashSet::new();
    for (host, hash) in &ask.pages {
        let queue = queue_key(host, &rules.groups);
        if select.query_row((queue, Lane::Page.number(), hash.head()), |row| row.get(0))? {
            known.insert(*hash);
        }
    }
    Ok(known)
}

/// How many pages of a source are walked.
fn walked(conn: &Connection, source: SourceId) -> Result<u32, DbError> {
    let sql = "SELECT count(*) FROM task WHERE source_id = ?1 AND lane = 0 AND kind = ?2";
    let mut select = conn.prepare_cached(sql)?;
    Ok(select.query_row((source.0, Kind::Listing.number()), |row| row.get(0))?)
}

/// How many articles the pages of a list have that come before one.
fn listed(conn: &Connection, (source, depth): (SourceId, u16)) -> Result<u32, DbError> {
    let sql = "SELECT coalesce(sum(f.items), 0) FROM task t JOIN feed f ON f.task_id = t.id
        WHERE t.source_id = ?1 AND t.lane = 0 AND t.kind = ?2 AND t.depth < ?3";
    let mut select = conn.prepare_cached(sql)?;
    Ok(select.query_row((source.0, Kind::Listing.number(), depth), |row| row.get(0))?)
}

pub(super) fn feed(conn: &Connection, id: TaskId) -> Result<Option<FeedState>, DbError> {
    let found = conn
        .prepare_cached(
            "SELECT version, title, failures, last_success, body_hash, interval_ms, schedule, bucket,
               health, probed_at, yielded, heard, moving_to, moving_since, moving_polls,
               by_pages, health_at, disabled_at, warnings, left_out, body_bytes
             FROM feed WHERE task_id = ?1",
        )?
        .query_row([id.0], |row| {
            Ok(FeedState {
                health_since: row.get::<_, Option<i64>>(16)?.map(Ts::from_ms),
                disabled_since: row.get::<_, Option<i64>>(17)?.map(Ts::from_ms),
                warnings: forms::warnings(row.get(18)?),
                version: row.get(0)?,
                title: row.get(1)?,
                failures: row.get(2)?,
                last_success: row.get::<_, Option<i64>>(3)?.map(Ts::from_ms),
                body_hash: row.get(4)?,
                body_bytes: row.get(20)?,
                interval_ms: row.get(5)?,
                schedule: row.get(6)?,
                bucket: row.get(7)?,
                health: Health::from_number(row.get(8)?).unwrap_or(Health::Usual),
                probed_at: row.get::<_, Option<i64>>(9)?.map(Ts::from_ms),
                yielded: row.get(10)?,
                heard: row.get(11)?,
                moving: moving(row)?,
                by_pages: row.get(15)?,
                left_out: forms::left_out(row.get::<_, Option<Vec<u8>>>(19)?.as_deref()),
            })
        })
        .optional();
    // One that is damaged is learned anew.
    Ok(whole("feed", found.map_err(DbError::from))?.flatten())
}

fn moving(row: &Row<'_>) -> rusqlite::Result<Option<Moving>> {
    let Some(to) = row.get(12)? else { return Ok(None) };
    Ok(Some(Moving { to, since: Ts::from_ms(row.get(13)?), polls: row.get(14)? }))
}

/// What sitemaps of the source told of since the feed last had news.
fn news_elsewhere(conn: &Connection, ask: &Ask) -> Result<u32, DbError> {
    let (Some(feed), Some(source)) = (ask.feed, ask.siblings) else { return Ok(0) };
    Ok(conn
        .prepare_cached(
            "SELECT max(0, coalesce(sum(f.told), 0)
               - coalesce((SELECT heard FROM feed WHERE task_id = ?3), 0))
             FROM task t JOIN feed f ON f.task_id = t.id
             WHERE t.source_id = ?1 AND t.lane = 0 AND t.kind = ?2",
        )?
        .query_row((source.0, Kind::Sitemap.number(), feed.0), |row| row.get(0))?)
}

/// A note of the house.
pub(super) fn meta(conn: &Connection, key: &str) -> Result<Option<String>, DbError> {
    Ok(conn
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()?)
}

type Entries = (HashMap<EntryId, KnownEntry>, Vec<LinkedEntry>);

fn entries(conn: &Connection, ask: &Ask) -> Result<Entries, DbError> {
    let mut select =
        conn.prepare_cached("SELECT content_hash, published, updated FROM entry WHERE id = ?1")?;
    let mut known = HashMap::with_capacity(ask.entries.len());
    let mut kin: Vec<LinkedEntry> = Vec::new();
    for asked in &ask.entries {
        let found = select.query_row([asked.id.0.as_slice()], |row| {
            Ok(KnownEntry {
                content_hash: row.get(0)?,
                published: row.get::<_, Option<i64>>(1)?.map(Ts::from_ms),
                updated: row.get::<_, Option<i64>>(2)?.map(Ts::from_ms),
            })
        });
        // One that is damaged is written anew by what is said of it now.
        let found = whole("entry", found.optional().map_err(DbError::from))?.flatten();
        match (found, ask.feed) {
            (Some(entry), _) => drop(known.insert(asked.id, entry)),
            (None, Some(feed)) => {
                for entry in relatives(conn, feed, asked)? {
                    if kin.iter().all(|other| other.id != entry.id) {
                        kin.push(entry);
                    }
                }
            }
            (None, None) => {}
        }
    }
    Ok((known, kin))
}

/// Entries of the feed that have the page or the date, the page's first.
fn relatives(
    conn: &Connection,
    feed: TaskId,
    asked: &AskedEntry,
) -> Result<Vec<LinkedEntry>, DbError> {
    let mut by_page = conn.prepare_cached(
        "SELECT id, content_hash, link_hash, body FROM entry WHERE link_hash = ?1 AND feed_id = ?2
         ORDER BY last_seen DESC, row DESC LIMIT 1",
    )?;
    let mut by_date = conn.prepare_cached(
        "SELECT id, content_hash, link_hash, body FROM entry WHERE feed_id = ?1 AND published = ?2
         ORDER BY row DESC LIMIT ?3",
    )?;
    let mut found = Vec::new();
    if let Some(page) = asked.page {
        let mut rows = by_page.query((page.as_bytes().as_slice(), feed.0))?;
        while let Some(row) = rows.next()? {
            found.extend(checked(linked(row), || None)?.ok());
        }
    }
    if let Some(date) = asked.date {
        let mut rows = by_date.query((feed.0, date.ms(), forms::MOST_OF_A_DATE))?;
        while let Some(row) = rows.next()? {
            found.extend(checked(linked(row), || None)?.ok());
        }
    }
    Ok(found)
}

fn linked(row: &Row<'_>) -> Result<LinkedEntry, DbError> {
    let body: String = row.get(3)?;
    let page = row.get::<_, Option<[u8; 32]>>(2)?.map(UrlHash::from_bytes);
    let entry = forms::from_json::<Entry>("entry", &body)?;
    Ok(LinkedEntry::of(EntryId(row.get(0)?), row.get(1)?, page, entry))
}

pub(super) fn robots(conn: &Connection, origin: &str) -> Result<Option<RobotsState>, DbError> {
    let found = conn
        .prepare_cached(
            "SELECT body, fetched_at, expires_at, failures FROM robots WHERE origin = ?1",
        )?
        .query_row([origin], |row| {
            let body: Option<String> = row.get(0)?;
            Ok(RobotsState {
                verdict: body.map_or(Verdict::AllowAll, Verdict::Rules),
                fetched_at: Ts::from_ms(row.get(1)?),
                expires_at: Ts::from_ms(row.get(2)?),
                failures: row.get(3)?,
            })
        })
        .optional();
    Ok(whole("robots.txt", found.map_err(DbError::from))?.flatten())
}

fn evidence(conn: &Connection, page: UrlHash) -> Result<Option<Evidence>, DbError> {
    let mut select = conn.prepare_cached(
        "SELECT body, checksum, id, content_hash, published FROM entry WHERE link_hash = ?1
         ORDER BY first_seen, row LIMIT 1",
    )?;
    let mut rows = select.query([page.as_bytes().as_slice()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let read = || {
        let body: String = row.get(0)?;
        let (id, content): ([u8; 32], [u8; 32]) = (row.get(2)?, row.get(3)?);
        let beside = Beside::document(&id, &content, row.get(4)?);
        check("entry", &[body.as_bytes()], &beside, row.get(1)?)?;
        forms::from_json::<Entry>("entry", &body)
    };
    // What a damaged entry says is no evidence.
    Ok(checked(read(), || None)?.ok().map(Evidence::from))
}
