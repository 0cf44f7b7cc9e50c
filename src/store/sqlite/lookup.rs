//! What a handler asks, answered from one snapshot.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row};

use crate::db::DbError;
use crate::model::{
    Ask, EntryId, Evidence, FeedState, Health, Kind, Known, KnownEntry, LinkedEntry, Moving,
    RobotsState, TaskId, Ts, UrlHash, Verdict,
};
use crate::store::forms::{self, PRICE, price};

pub(super) fn lookup(conn: &Connection, ask: &Ask) -> Result<Known, DbError> {
    let (entries, by_link) = entries(conn, ask)?;
    Ok(Known {
        feed: ask.feed.map(|id| feed(conn, id)).transpose()?.flatten().unwrap_or_default(),
        news_elsewhere: news_elsewhere(conn, ask)?,
        price: ask.feed.map(|_| meta(conn, PRICE)).transpose()?.flatten().and_then(price),
        entries,
        by_link,
        robots: ask.robots.as_deref().map(|origin| robots(conn, origin)).transpose()?.flatten(),
        evidence: ask.evidence.map(|hash| evidence(conn, hash)).transpose()?.flatten(),
    })
}

pub(super) fn feed(conn: &Connection, id: TaskId) -> Result<Option<FeedState>, DbError> {
    Ok(conn
        .prepare_cached(
            "SELECT version, title, failures, last_success, body_hash, interval_ms, schedule, bucket,
               health, probed_at, yielded, heard, moving_to, moving_since, moving_polls
             FROM feed WHERE task_id = ?1",
        )?
        .query_row([id.0], |row| {
            Ok(FeedState {
                version: row.get(0)?,
                title: row.get(1)?,
                failures: row.get(2)?,
                last_success: row.get::<_, Option<i64>>(3)?.map(Ts::from_ms),
                body_hash: row.get(4)?,
                interval_ms: row.get(5)?,
                schedule: row.get(6)?,
                bucket: row.get(7)?,
                health: Health::from_number(row.get(8)?).unwrap_or(Health::Usual),
                probed_at: row.get::<_, Option<i64>>(9)?.map(Ts::from_ms),
                yielded: row.get(10)?,
                heard: row.get(11)?,
                moving: moving(row)?,
            })
        })
        .optional()?)
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

type Entries = (HashMap<EntryId, KnownEntry>, HashMap<UrlHash, LinkedEntry>);

fn entries(conn: &Connection, ask: &Ask) -> Result<Entries, DbError> {
    let mut select = conn.prepare_cached("SELECT content_hash FROM entry WHERE id = ?1")?;
    let mut known = HashMap::with_capacity(ask.entries.len());
    let mut by_link = HashMap::new();
    for (id, link) in &ask.entries {
        let hash = select.query_row([id.0.as_slice()], |row| row.get(0)).optional()?;
        if let Some(content_hash) = hash {
            known.insert(*id, KnownEntry { content_hash });
        } else if let (Some(feed), Some(link)) = (ask.feed, link)
            && let Some(entry) = linked(conn, feed, *link)?
        {
            by_link.insert(*link, entry);
        }
    }
    Ok((known, by_link))
}

fn linked(conn: &Connection, feed: TaskId, page: UrlHash) -> Result<Option<LinkedEntry>, DbError> {
    let mut select = conn.prepare_cached(
        "SELECT id, content_hash, body FROM entry WHERE link_hash = ?1 AND feed_id = ?2
         ORDER BY last_seen DESC, row DESC LIMIT 1",
    )?;
    let mut rows = select.query((page.as_bytes().as_slice(), feed.0))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let body: String = row.get(2)?;
    Ok(Some(forms::linked(EntryId(row.get(0)?), row.get(1)?, forms::from_json("entry", &body)?)))
}

pub(super) fn robots(conn: &Connection, origin: &str) -> Result<Option<RobotsState>, DbError> {
    Ok(conn
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
        .optional()?)
}

fn evidence(conn: &Connection, page: UrlHash) -> Result<Option<Evidence>, DbError> {
    let body: Option<String> = conn
        .prepare_cached(
            "SELECT body FROM entry WHERE link_hash = ?1 ORDER BY first_seen, row LIMIT 1",
        )?
        .query_row([page.as_bytes().as_slice()], |row| row.get(0))
        .optional()?;
    let Some(body) = body else { return Ok(None) };
    Ok(Some(forms::evidence(forms::from_json("entry", &body)?)))
}
