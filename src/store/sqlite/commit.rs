//! Making an outcome true, inside the writer's transaction.

use feedmill_formats::url as web;
use rusqlite::{Connection, OptionalExtension, params};

use super::takedown::{put_erasures, put_graves};
use super::{article, lookup, outbox, prints, read};
use crate::db::DbError;
use crate::frontier::sqlite::{
    Completed, allow_again, become_channel, complete, refusals, rehome, settle, take,
};
use crate::frontier::{Candidate, Rules, admit};
use crate::model::{
    DiscoveryFact, EntryFact, EntryId, EntryRow, FeedFact, FetchRecord, NewEvent, Outside,
    RobotsFact, SourceId, Task, TaskId, Ts, Verdict,
};
use crate::store::damage::{Beside, checksum};
use crate::store::forms::{
    PRICE, left_out_note, readdressed, to_json, uid_key, warnings_note, with_channels,
};
use crate::store::raw::to_index;
use crate::store::takedown::{self, Stripped};
use crate::store::{Commit, Committed, PriceNote, apply};

/// A commit with the addresses that it found, normalised.
pub(super) struct Ready {
    commit: Commit,
    found: Vec<Candidate>,
    settled: Option<Candidate>,
    moved: Option<Candidate>,
}

impl Ready {
    pub(super) fn new(commit: Commit, rules: &Rules) -> Self {
        let outcome = &commit.outcome;
        let found = outcome.discovered.iter().filter_map(|new| admit(new, rules).ok()).collect();
        let settled = outcome.settled.as_ref().and_then(|new| admit(new, rules).ok());
        let moved = outcome.moved.as_ref().and_then(|moved| admit(&moved.to, rules).ok());
        Self { commit, found, settled, moved }
    }
}

pub(super) fn commit(
    conn: &Connection,
    ready: &Ready,
    now: Ts,
    rules: &Rules,
) -> Result<Committed, DbError> {
    let commit = &ready.commit;
    let refusals = refusals(conn, takedown::addresses(commit, rules))?;
    if let Some(Stripped { commit, graves, erased }) = takedown::strip(commit, &refusals, rules) {
        put_erasures(conn, &erased)?;
        let done = commit_whole(conn, &Ready::new(commit, rules), now, rules)?;
        if done == Committed::Done {
            put_graves(conn, &graves, ready.commit.lease.task.id, now)?;
        }
        return Ok(done);
    }
    commit_whole(conn, ready, now, rules)
}

fn commit_whole(
    conn: &Connection,
    ready: &Ready,
    now: Ts,
    rules: &Rules,
) -> Result<Committed, DbError> {
    let Ready { commit: Commit { lease, outcome }, found, settled, moved } = ready;
    if let Some(fact) = &outcome.feed {
        let version = lookup::feed(conn, lease.task.id)?.unwrap_or_default().version;
        if version != fact.based_on {
            return Ok(Committed::Conflict);
        }
    }
    let answered_by = outcome.fetches.last().and_then(|fetch| web::parse(&fetch.url).ok());
    let answered_by = answered_by.as_ref().map(web::host);
    let done = Completed {
        lease: lease.id,
        task: lease.task.id,
        next: &outcome.next,
        reason: &outcome.reason,
        validators: outcome.validators.as_ref(),
        advice: outcome.host,
        answered_by: answered_by.as_deref(),
    };
    if !complete(conn, &done, now, rules)? {
        return Ok(Committed::Stale);
    }
    let told_first = take(conn, found, now, rules)?.new;
    if let Some(settled) = settled {
        take(conn, std::slice::from_ref(settled), now, rules)?;
        settle(conn, settled, now, rules)?;
    }
    for fetch in &outcome.fetches {
        put_fetch(conn, fetch)?;
    }
    if let Some(source) = lease.task.source {
        put_outside(conn, source, &outcome.outside, now)?;
    }
    if let Some(fact) = &outcome.robots {
        put_robots(conn, fact, &lease.task.host, now)?;
    }
    if let Some(fact) = &outcome.feed {
        put_feed(conn, lease.task.id, fact, told_first)?;
    }
    let mut events = Vec::new();
    if let Some((to, moved)) = moved.as_ref().zip(outcome.moved.as_ref())
        && rehome(conn, lease.task.id, to, now, rules)?
    {
        put_moved(conn, &lease.task, &to.url)?;
        events.push(moved.event.clone());
    }
    if let Some(fact) = &outcome.discovery {
        put_discovery(conn, &lease.task, fact)?;
    }
    for fact in &outcome.entries {
        events.extend(put_entry(conn, fact, lease.task.id, lease.task.source, now)?);
    }
    see_again(conn, &outcome.seen, now)?;
    for (id, event) in &outcome.deleted {
        events.extend(bury_entry(conn, *id, now)?.then(|| event.clone()));
    }
    if let Some(fact) = &outcome.article {
        let event = article::put(conn, fact, now)?;
        prints::learn(conn, fact, event.as_ref())?;
        events.extend(event);
    }
    events.extend(outcome.events.iter().cloned());
    for event in &events {
        put_event(conn, event, now)?;
    }
    Ok(Committed::Done)
}

fn put_fetch(conn: &Connection, fetch: &FetchRecord) -> Result<(), DbError> {
    let raw = fetch.raw.as_ref();
    conn.prepare_cached(
        "INSERT OR IGNORE INTO fetch(id, task_id, at, url, status, code, bytes, elapsed_ms,
           content_type, body_sha256, segment, offset, length)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?
    .execute(params![
        fetch.id.as_bytes().as_slice(),
        to_index(fetch.task),
        fetch.at.ms(),
        fetch.url,
        fetch.status,
        fetch.code.number(),
        i64::try_from(fetch.bytes).unwrap_or(i64::MAX),
        i64::try_from(fetch.elapsed_ms).unwrap_or(i64::MAX),
        fetch.content_type,
        fetch.body_sha256,
        raw.map(|raw| &raw.segment),
        raw.map(|raw| i64::try_from(raw.offset).unwrap_or(i64::MAX)),
        raw.map(|raw| i64::try_from(raw.length).unwrap_or(i64::MAX)),
    ])?;
    Ok(())
}

/// Notes hosts that a page of a source links to.
fn put_outside(
    conn: &Connection,
    source: SourceId,
    seen: &[Outside],
    now: Ts,
) -> Result<(), DbError> {
    let mut upsert = conn.prepare_cached(
        "INSERT INTO outside(source_id, host, url, links, first_seen, last_seen)
         VALUES(?1, ?2, ?3, ?4, ?5, ?5)
         ON CONFLICT(source_id, host) DO UPDATE SET links = links + excluded.links,
           last_seen = excluded.last_seen",
    )?;
    for outside in seen {
        upsert.execute((source.0, &outside.host, &outside.url, outside.links, now.ms()))?;
    }
    Ok(())
}

fn put_robots(conn: &Connection, fact: &RobotsFact, host: &str, now: Ts) -> Result<(), DbError> {
    let body = match &fact.state.verdict {
        Verdict::Rules(text) => Some(text),
        Verdict::AllowAll => None,
    };
    let (origin, state) = (&fact.origin, &fact.state);
    conn.prepare_cached(
        "INSERT INTO robots(origin, host, crawl_ms, body, fetched_at, expires_at, failures)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT(origin) DO UPDATE SET crawl_ms = excluded.crawl_ms, body = excluded.body,
           fetched_at = excluded.fetched_at, expires_at = excluded.expires_at,
           failures = excluded.failures",
    )?
    .execute((
        origin,
        host,
        fact.crawl_delay_ms,
        body,
        state.fetched_at.ms(),
        state.expires_at.ms(),
        state.failures,
    ))?;
    // The pause that robots.txt asks for starts now: the host was released with the old one.
    conn.prepare_cached(
        "UPDATE host SET crawl_ms = r.ms,
           next_at = max(next_at, coalesce(last_fetch_at, 0) + coalesce(r.ms, 0))
         FROM (SELECT max(crawl_ms) AS ms FROM robots WHERE host = ?1) r WHERE name = ?1",
    )?
    .execute([host])?;
    apply::allowed_again(fact).map_or(Ok(()), |allowed| allow_again(conn, host, allowed, now))
}

/// Writes down that a feed has another address, also in its source's own words.
fn put_moved(conn: &Connection, task: &Task, to: &str) -> Result<(), DbError> {
    conn.execute("UPDATE feed SET moved_from = ?2 WHERE task_id = ?1", (task.id.0, &task.url))?;
    let Some(source) = task.source else { return Ok(()) };
    let spec: Option<String> = conn
        .query_row("SELECT spec FROM source WHERE id = ?1", [source.0], |row| row.get(0))
        .optional()?;
    if let Some(spec) = spec {
        let spec = readdressed(&spec, &task.url, to)?;
        conn.execute("UPDATE source SET spec = ?2 WHERE id = ?1", (source.0, spec))?;
    }
    Ok(())
}

/// Keeps how far a search for channels has come, and what it found in its source's own words.
fn put_discovery(conn: &Connection, task: &Task, fact: &DiscoveryFact) -> Result<(), DbError> {
    if let Some(kind) = fact.becomes {
        become_channel(conn, task.id, kind)?;
    }
    let Some(source) = task.source else { return Ok(()) };
    let spec: Option<String> = conn
        .query_row("SELECT spec FROM source WHERE id = ?1", [source.0], |row| row.get(0))
        .optional()?;
    let Some(spec) = spec else { return Ok(()) };
    conn.prepare_cached(
        "INSERT INTO discovery(source_id, state) VALUES(?1, ?2)
         ON CONFLICT(source_id) DO UPDATE SET state = excluded.state",
    )?
    .execute((source.0, to_json(&fact.state)?))?;
    if !fact.channels.is_empty() {
        let spec = with_channels(&spec, &fact.channels)?;
        conn.execute("UPDATE source SET spec = ?2 WHERE id = ?1", (source.0, spec))?;
    }
    Ok(())
}

fn put_feed(
    conn: &Connection,
    task: TaskId,
    fact: &FeedFact,
    told_first: u64,
) -> Result<(), DbError> {
    let state = &fact.state;
    conn.prepare_cached(
        "INSERT INTO feed(task_id, version, title, failures, last_success, body_hash, interval_ms,
           items, new_items, schedule, bucket, health, probed_at, yielded, told,
           heard, moving_to, moving_since, moving_polls, by_pages, health_at, disabled_at, warnings,
           left_out, body_bytes)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, coalesce(?8, 0), ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
           ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)
         ON CONFLICT(task_id) DO UPDATE SET version = excluded.version, title = excluded.title,
           failures = excluded.failures, last_success = excluded.last_success,
           body_hash = excluded.body_hash, interval_ms = excluded.interval_ms,
           items = coalesce(?8, items), new_items = excluded.new_items,
           schedule = excluded.schedule, bucket = excluded.bucket, health = excluded.health,
           probed_at = excluded.probed_at, yielded = excluded.yielded,
           told = told + excluded.told, heard = excluded.heard,
           moving_to = excluded.moving_to, moving_since = excluded.moving_since,
           moving_polls = excluded.moving_polls, by_pages = excluded.by_pages,
           health_at = excluded.health_at, disabled_at = excluded.disabled_at,
           warnings = excluded.warnings, left_out = excluded.left_out,
           body_bytes = excluded.body_bytes",
    )?
    .execute(params![
        task.0,
        fact.based_on + 1,
        state.title,
        state.failures,
        state.last_success.map(Ts::ms),
        state.body_hash,
        state.interval_ms,
        fact.items,
        fact.new_items,
        state.schedule,
        state.bucket,
        state.health.number(),
        state.probed_at.map(Ts::ms),
        u64::from(state.yielded) + told_first,
        told_first,
        state.heard,
        state.moving.as_ref().map(|moving| &moving.to),
        state.moving.as_ref().map(|moving| moving.since.ms()),
        state.moving.as_ref().map(|moving| moving.polls),
        state.by_pages,
        state.health_since.map(Ts::ms),
        state.disabled_since.map(Ts::ms),
        warnings_note(&state.warnings)?,
        left_out_note(&state.left_out),
        state.body_bytes,
    ])?;
    Ok(())
}

pub(super) fn put_price(conn: &Connection, price: &PriceNote) -> Result<(), DbError> {
    conn.prepare_cached(
        "INSERT INTO meta VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value",
    )?
    .execute((PRICE, to_json(price)?))?;
    Ok(())
}

/// Keeps a note, or forgets it; whether one was kept before.
pub(super) fn keep_note(
    conn: &Connection,
    key: &str,
    value: Option<&str>,
) -> Result<bool, DbError> {
    let forgotten = conn.execute("DELETE FROM meta WHERE key = ?1", [key])?;
    if let Some(value) = value {
        conn.execute("INSERT INTO meta VALUES(?1, ?2)", (key, value))?;
    }
    Ok(forgotten > 0)
}

fn put_entry(
    conn: &Connection,
    fact: &EntryFact,
    feed: TaskId,
    source: Option<SourceId>,
    now: Ts,
) -> Result<Option<NewEvent>, DbError> {
    let previous = match read::checked_entry(conn, fact.id)? {
        Some(Err(damage)) => return mend_entry(conn, damage.left, fact, (feed, source), now, now),
        found => found.and_then(Result::ok),
    };
    let (row, event) = apply::entry(previous, fact.clone(), feed, source, now);
    put_entry_row(conn, &row, fact)?;
    Ok(event)
}

/// Keeps an entry in place of a row that cannot be read; what the log says of it. Sinks that left it out
/// get it.
pub(super) fn mend_entry(
    conn: &Connection,
    left: Option<EntryRow>,
    fact: &EntryFact,
    (feed, source): (TaskId, Option<SourceId>),
    at: Ts,
    now: Ts,
) -> Result<Option<NewEvent>, DbError> {
    let (row, event) = apply::entry_mended(left, fact, feed, source, at, now);
    put_entry_row(conn, &row, fact)?;
    conn.prepare_cached("UPDATE entry SET feed_id = ?2, first_seen = ?3 WHERE id = ?1")?
        .execute((row.id.0, row.feed_id.0, row.first_seen.ms()))?;
    outbox::send_damaged_again(conn, &row.id.to_string())?;
    Ok(event)
}

pub(super) fn put_entry_row(
    conn: &Connection,
    row: &EntryRow,
    fact: &EntryFact,
) -> Result<(), DbError> {
    let body = to_json(&row.entry)?;
    conn.prepare_cached(
        "INSERT INTO entry(id, feed_id, link_hash, published, content_hash, first_seen, last_seen,
           seen_count, fetch_id, slice_offset, slice_length, body, updated, uid, checksum)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
         ON CONFLICT(id) DO UPDATE SET link_hash = excluded.link_hash,
           published = excluded.published, content_hash = excluded.content_hash,
           last_seen = excluded.last_seen, seen_count = excluded.seen_count,
           fetch_id = excluded.fetch_id, slice_offset = excluded.slice_offset,
           slice_length = excluded.slice_length, deleted_at = NULL, withdrawn = 0, body = excluded.body,
           updated = excluded.updated, uid = excluded.uid, checksum = excluded.checksum",
    )?
    .execute(params![
        row.id.0,
        row.feed_id.0,
        fact.link_hash.map(|hash| *hash.as_bytes()),
        row.entry.published.map(Ts::ms),
        row.content_hash,
        row.first_seen.ms(),
        row.last_seen.ms(),
        row.seen_count,
        row.fetch.map(|id| *id.as_bytes()),
        fact.slice.map(|(offset, _)| i64::try_from(offset).unwrap_or(i64::MAX)),
        fact.slice.map(|(_, length)| i64::try_from(length).unwrap_or(i64::MAX)),
        body,
        row.entry.updated.map(Ts::ms),
        uid_key(&row.entry.uid),
        checksum(
            &[body.as_bytes()],
            &Beside::document(&row.id.0, &row.content_hash, row.entry.published.map(Ts::ms)),
        ),
    ])?;
    Ok(())
}

fn see_again(conn: &Connection, seen: &[EntryId], now: Ts) -> Result<(), DbError> {
    let mut update = conn.prepare_cached(
        "UPDATE entry SET last_seen = ?2, seen_count = seen_count + 1, deleted_at = NULL
         WHERE id = ?1",
    )?;
    for id in seen {
        update.execute((id.0.as_slice(), now.ms()))?;
    }
    Ok(())
}

/// Notes that a feed says an entry is gone; whether it was known and there.
fn bury_entry(conn: &Connection, id: EntryId, now: Ts) -> Result<bool, DbError> {
    let buried = conn
        .prepare_cached("UPDATE entry SET deleted_at = ?2 WHERE id = ?1 AND deleted_at IS NULL")?
        .execute((id.0.as_slice(), now.ms()))?;
    Ok(buried > 0)
}

pub(super) fn put_event(conn: &Connection, event: &NewEvent, now: Ts) -> Result<(), DbError> {
    let payload = to_json(&event.payload)?;
    conn.prepare_cached(
        "INSERT INTO event(at, kind, subject, source_id, payload, checksum)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute((
        now.ms(),
        event.kind.number(),
        &event.subject,
        event.source.map(|source| source.0),
        &payload,
        checksum(
            &[payload.as_bytes()],
            &Beside::event(now.ms(), event.kind.number(), &event.subject),
        ),
    ))?;
    Ok(())
}

/// The log of a task whose leases ran out too often.
pub(super) fn bury(conn: &Connection, task: &Task, now: Ts) -> Result<(), DbError> {
    apply::poisoned(task).iter().try_for_each(|event| put_event(conn, event, now))
}
