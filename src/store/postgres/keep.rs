//! Keeping what outcomes tell: fetches, robots.txt, feeds, entries; a batch at a time.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::outbox::send_damaged_again;
use super::read;
use crate::db::DbError;
use crate::db::postgres::{Tx, clean, column, first, rows, run};
use crate::frontier::postgres::{allow_again, become_channel};
use crate::model::{
    EntryFact, EntryId, EntryRow, FetchRecord, NewEvent, RobotsFact, Task, TaskId, Ts, Verdict,
};
use crate::store::damage::{Beside, checksum};
use crate::store::forms::{
    left_out_note, readdressed, to_json, uid_key, warnings_note, with_channels,
};
use crate::store::raw::to_index;
use crate::store::{Commit, apply};

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) async fn put_fetches(tx: &Tx<'_>, commits: &[&Commit]) -> Result<(), DbError> {
    let fetches: Vec<&FetchRecord> =
        commits.iter().flat_map(|commit| &commit.outcome.fetches).collect();
    if fetches.is_empty() {
        return Ok(());
    }
    run(
        tx,
        "INSERT INTO \"fetch\"(id, task_id, at, url, status, code, bytes, elapsed_ms, content_type,
           body_sha256, segment, \"offset\", length)
         SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[], $5::integer[],
           $6::smallint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[],
           $12::bigint[], $13::bigint[]) ON CONFLICT (id) DO NOTHING",
        &[
            &column(&fetches, |fetch| fetch.id.as_bytes().as_slice()),
            &column(&fetches, |fetch| to_index(fetch.task)),
            &column(&fetches, |fetch| fetch.at.ms()),
            &column(&fetches, |fetch| clean(&fetch.url)),
            &column(&fetches, |fetch| fetch.status.map(i32::from)),
            &column(&fetches, |fetch| i16::try_from(fetch.code.number()).unwrap_or(i16::MAX)),
            &column(&fetches, |fetch| long(fetch.bytes)),
            &column(&fetches, |fetch| long(fetch.elapsed_ms)),
            &column(&fetches, |fetch| fetch.content_type.as_deref().map(clean)),
            &column(&fetches, |fetch| fetch.body_sha256.as_deref()),
            &column(&fetches, |fetch| fetch.raw.as_ref().map(|raw| raw.segment.as_str())),
            &column(&fetches, |fetch| fetch.raw.as_ref().map(|raw| long(raw.offset))),
            &column(&fetches, |fetch| fetch.raw.as_ref().map(|raw| long(raw.length))),
        ],
    )
    .await?;
    Ok(())
}

pub(super) async fn put_robots(tx: &Tx<'_>, commits: &[&Commit], now: Ts) -> Result<(), DbError> {
    for commit in commits {
        if let Some(fact) = &commit.outcome.robots {
            let host = &commit.lease.task.host;
            put_robots_of(tx, fact, host).await?;
            if let Some(allowed) = apply::allowed_again(fact) {
                allow_again(tx, host, allowed, now).await?;
            }
        }
    }
    Ok(())
}

async fn put_robots_of(tx: &Tx<'_>, fact: &RobotsFact, queue: &str) -> Result<(), DbError> {
    let body = match &fact.state.verdict {
        Verdict::Rules(text) => Some(clean(text)),
        Verdict::AllowAll => None,
    };
    run(
        tx,
        "INSERT INTO robots(origin, host, crawl_ms, body, fetched_at, expires_at, failures)
         VALUES($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (origin) DO UPDATE SET crawl_ms = excluded.crawl_ms, body = excluded.body,
           fetched_at = excluded.fetched_at, expires_at = excluded.expires_at,
           failures = excluded.failures",
        &[
            &fact.origin,
            &queue,
            &fact.crawl_delay_ms,
            &body,
            &fact.state.fetched_at.ms(),
            &fact.state.expires_at.ms(),
            &i64::from(fact.state.failures),
        ],
    )
    .await?;
    // The pause that robots.txt asks for starts now: the host was released with the old one.
    run(
        tx,
        "UPDATE host SET crawl_ms = r.ms,
           next_at = greatest(next_at, coalesce(last_fetch_at, 0) + coalesce(r.ms, 0))
         FROM (SELECT max(crawl_ms) AS ms FROM robots WHERE host = $1) r WHERE name = $1",
        &[&queue],
    )
    .await?;
    Ok(())
}

/// `told_first` counts, by the task that told of them, the tasks that nobody knew.
pub(super) async fn put_feeds(
    tx: &Tx<'_>,
    commits: &[&Commit],
    told_first: &HashMap<TaskId, u32>,
) -> Result<(), DbError> {
    let facts = commits
        .iter()
        .filter_map(|commit| commit.outcome.feed.as_ref().map(|fact| (commit.lease.task.id, fact)));
    let facts: Vec<_> = facts.collect();
    if facts.is_empty() {
        return Ok(());
    }
    let warnings: Vec<Option<String>> = facts
        .iter()
        .map(|(_, fact)| warnings_note(&fact.state.warnings))
        .collect::<Result<_, _>>()?;
    let first_of = |task: TaskId| told_first.get(&task).map_or(0, |count| i64::from(*count));
    run(
        tx,
        "INSERT INTO feed AS f(task_id, version, title, failures, last_success, body_hash, interval_ms,
           items, new_items, schedule, bucket, health, probed_at, yielded, told, heard,
           moving_to, moving_since, moving_polls, by_pages, health_at, disabled_at, warnings,
           left_out, body_bytes)
         SELECT task_id, version, title, failures, last_success, body_hash, interval_ms,
           coalesce(items, 0), new_items, schedule, bucket, health, probed_at, yielded, told, heard,
           moving_to, moving_since, moving_polls, by_pages, health_at, disabled_at, warnings,
           left_out, body_bytes
         FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bytea[],
           $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[], $11::bigint[], $12::bigint[],
           $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[], $18::bigint[],
           $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::text[], $24::bytea[],
           $25::bigint[])
           AS w(task_id, version, title, failures, last_success, body_hash, interval_ms, items, new_items,
             schedule, bucket, health, probed_at, yielded, told, heard, moving_to, moving_since,
             moving_polls, by_pages, health_at, disabled_at, warnings, left_out, body_bytes)
         ON CONFLICT (task_id) DO UPDATE SET version = excluded.version, title = excluded.title,
           failures = excluded.failures, last_success = excluded.last_success,
           body_hash = excluded.body_hash, interval_ms = excluded.interval_ms,
           new_items = excluded.new_items, schedule = excluded.schedule, bucket = excluded.bucket,
           health = excluded.health, probed_at = excluded.probed_at, yielded = excluded.yielded,
           told = f.told + excluded.told, heard = excluded.heard, moving_to = excluded.moving_to,
           moving_since = excluded.moving_since, moving_polls = excluded.moving_polls,
           by_pages = excluded.by_pages, health_at = excluded.health_at,
           disabled_at = excluded.disabled_at, warnings = excluded.warnings,
           left_out = excluded.left_out, body_bytes = excluded.body_bytes",
        &[
            &column(&facts, |(task, _)| task.0),
            &column(&facts, |(_, fact)| fact.based_on + 1),
            &column(&facts, |(_, fact)| fact.state.title.as_deref().map(clean)),
            &column(&facts, |(_, fact)| i64::from(fact.state.failures)),
            &column(&facts, |(_, fact)| fact.state.last_success.map(Ts::ms)),
            &column(&facts, |(_, fact)| fact.state.body_hash.as_ref().map(<[u8; 32]>::as_slice)),
            &column(&facts, |(_, fact)| fact.state.interval_ms),
            &column(&facts, |(_, fact)| fact.items.map(i64::from)),
            &column(&facts, |(_, fact)| i64::from(fact.new_items)),
            &column(&facts, |(_, fact)| fact.state.schedule.as_deref()),
            &column(&facts, |(_, fact)| fact.state.bucket.map(i64::from)),
            &column(&facts, |(_, fact)| fact.state.health.number()),
            &column(&facts, |(_, fact)| fact.state.probed_at.map(Ts::ms)),
            &column(&facts, |(task, fact)| i64::from(fact.state.yielded) + first_of(*task)),
            &column(&facts, |(task, _)| first_of(*task)),
            &column(&facts, |(_, fact)| fact.state.heard),
            &column(&facts, |(_, fact)| fact.state.moving.as_ref().map(|moving| clean(&moving.to))),
            &column(&facts, |(_, fact)| fact.state.moving.as_ref().map(|moving| moving.since.ms())),
            &column(&facts, |(_, fact)| fact.state.moving.as_ref().map(|m| i64::from(m.polls))),
            &column(&facts, |(_, fact)| i64::from(fact.state.by_pages)),
            &column(&facts, |(_, fact)| fact.state.health_since.map(Ts::ms)),
            &column(&facts, |(_, fact)| fact.state.disabled_since.map(Ts::ms)),
            &warnings,
            &column(&facts, |(_, fact)| left_out_note(&fact.state.left_out)),
            &column(&facts, |(_, fact)| i64::try_from(fact.state.body_bytes).unwrap_or(i64::MAX)),
        ],
    )
    .await?;
    // A poll that brought no document leaves the number of items as it was.
    let counted: Vec<_> =
        facts.iter().filter_map(|(task, fact)| Some((task, fact.items?))).collect();
    run(
        tx,
        "UPDATE feed SET items = w.items FROM unnest($1::bigint[], $2::bigint[]) AS w(task_id, items)
         WHERE feed.task_id = w.task_id",
        &[
            &column(&counted, |(task, _)| task.0),
            &column(&counted, |(_, items)| i64::from(*items)),
        ],
    )
    .await?;
    Ok(())
}

/// Writes down that a feed has another address, also in its source's own words.
pub(super) async fn put_moved(tx: &Tx<'_>, task: &Task, to: &str) -> Result<(), DbError> {
    let sql = "UPDATE feed SET moved_from = $2 WHERE task_id = $1";
    run(tx, sql, &[&task.id.0, &clean(&task.url)]).await?;
    let Some(source) = task.source else { return Ok(()) };
    let sql = "SELECT spec FROM source WHERE id = $1 FOR UPDATE";
    if let Some(row) = first(tx, sql, &[&source.0]).await? {
        let spec = readdressed(row.try_get(0)?, &task.url, to)?;
        run(tx, "UPDATE source SET spec = $2 WHERE id = $1", &[&source.0, &spec]).await?;
    }
    Ok(())
}

/// Keeps how far searches for channels have come, and what they found in their sources' own words.
pub(super) async fn put_discoveries(tx: &Tx<'_>, commits: &[&Commit]) -> Result<(), DbError> {
    for commit in commits {
        let (task, Some(fact)) = (&commit.lease.task, &commit.outcome.discovery) else { continue };
        if let Some(kind) = fact.becomes {
            become_channel(tx, task.id, kind).await?;
        }
        let Some(source) = task.source else { continue };
        let sql = "SELECT spec FROM source WHERE id = $1 FOR UPDATE";
        let Some(row) = first(tx, sql, &[&source.0]).await? else { continue };
        let sql = "INSERT INTO discovery(source_id, state) VALUES($1, $2)
            ON CONFLICT (source_id) DO UPDATE SET state = excluded.state";
        run(tx, sql, &[&source.0, &clean(&to_json(&fact.state)?)]).await?;
        if !fact.channels.is_empty() {
            let spec = with_channels(row.try_get(0)?, &fact.channels)?;
            run(tx, "UPDATE source SET spec = $2 WHERE id = $1", &[&source.0, &clean(&spec)])
                .await?;
        }
    }
    Ok(())
}

/// Keeps entries; the events that follow, by feed. The feed's queue is locked, so nobody else is
/// changing them.
pub(super) async fn put_entries(
    tx: &Tx<'_>,
    commits: &[&Commit],
    now: Ts,
) -> Result<HashMap<TaskId, Vec<NewEvent>>, DbError> {
    let ids: Vec<EntryId> =
        commits.iter().flat_map(|commit| &commit.outcome.entries).map(|fact| fact.id).collect();
    let mut events: HashMap<TaskId, Vec<NewEvent>> = HashMap::new();
    if ids.is_empty() {
        return Ok(events);
    }
    let (mut known, mut damaged) = read::checked_entries(tx, &ids).await?;
    let mended: Vec<String> = damaged.keys().map(ToString::to_string).collect();
    let mut changed: Vec<(EntryRow, &EntryFact)> = Vec::with_capacity(ids.len());
    for commit in commits {
        let task = &commit.lease.task;
        for fact in &commit.outcome.entries {
            let (row, event) = match damaged.remove(&fact.id) {
                Some(damage) => {
                    apply::entry_mended(damage.left, fact, task.id, task.source, now, now)
                }
                None => {
                    let previous = known.get(&fact.id).cloned();
                    apply::entry(previous, fact.clone(), task.id, task.source, now)
                }
            };
            known.insert(fact.id, row.clone());
            events.entry(task.id).or_default().extend(event);
            changed.push((row, fact));
        }
    }
    // One statement may touch a row once: the last word counts.
    let mut said = HashSet::new();
    changed.reverse();
    changed.retain(|(row, _)| said.insert(row.id));
    changed.reverse();
    write_entries(tx, &changed).await?;
    send_damaged_again(tx, &mended).await?;
    Ok(events)
}

pub(super) async fn write_entries(
    tx: &Tx<'_>,
    changed: &[(EntryRow, &EntryFact)],
) -> Result<(), DbError> {
    let bodies: Vec<String> =
        changed.iter().map(|(row, _)| to_json(&row.entry)).collect::<Result<_, _>>()?;
    let sum = |((row, _), body): (&(EntryRow, &EntryFact), &String)| {
        let published = row.entry.published.map(Ts::ms);
        let beside = Beside::document(&row.id.0, &row.content_hash, published);
        checksum(&[body.as_bytes()], &beside)
    };
    let sums: Vec<i64> = changed.iter().zip(&bodies).map(sum).collect();
    let slice = |fact: &EntryFact| fact.slice.map(|(offset, length)| (long(offset), long(length)));
    run(
        tx,
        "INSERT INTO entry(id, feed_id, link_hash, published, content_hash, first_seen, last_seen,
           seen_count, fetch_id, slice_offset, slice_length, body, updated, uid, checksum)
         SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[],
           $6::bigint[], $7::bigint[], $8::integer[], $9::bytea[], $10::bigint[], $11::bigint[],
           $12::text[], $13::bigint[], $14::bigint[], $15::bigint[])
         ON CONFLICT (id) DO UPDATE SET link_hash = excluded.link_hash, published = excluded.published,
           content_hash = excluded.content_hash, last_seen = excluded.last_seen,
           seen_count = excluded.seen_count, fetch_id = excluded.fetch_id,
           slice_offset = excluded.slice_offset, slice_length = excluded.slice_length,
           deleted_at = NULL, withdrawn = 0, body = excluded.body, updated = excluded.updated,
           uid = excluded.uid, checksum = excluded.checksum",
        &[
            &column(changed, |(row, _)| row.id.0.as_slice()),
            &column(changed, |(row, _)| row.feed_id.0),
            &column(changed, |(_, fact)| fact.link_hash.as_ref().map(|hash| hash.as_bytes().as_slice())),
            &column(changed, |(row, _)| row.entry.published.map(Ts::ms)),
            &column(changed, |(row, _)| row.content_hash.as_slice()),
            &column(changed, |(row, _)| row.first_seen.ms()),
            &column(changed, |(row, _)| row.last_seen.ms()),
            &column(changed, |(row, _)| i32::try_from(row.seen_count).unwrap_or(i32::MAX)),
            &column(changed, |(row, _)| row.fetch.as_ref().map(|id| id.as_bytes().as_slice())),
            &column(changed, |(_, fact)| slice(fact).map(|(offset, _)| offset)),
            &column(changed, |(_, fact)| slice(fact).map(|(_, length)| length)),
            &bodies,
            &column(changed, |(row, _)| row.entry.updated.map(Ts::ms)),
            &column(changed, |(row, _)| uid_key(&row.entry.uid)),
            &sums,
        ],
    )
    .await?;
    Ok(())
}

pub(super) async fn see_again(tx: &Tx<'_>, commits: &[&Commit], now: Ts) -> Result<(), DbError> {
    let seen: Vec<&EntryId> = commits.iter().flat_map(|commit| &commit.outcome.seen).collect();
    if seen.is_empty() {
        return Ok(());
    }
    run(
        tx,
        "UPDATE entry SET last_seen = $2, seen_count = seen_count + 1, deleted_at = NULL
         WHERE id = ANY($1::bytea[])",
        &[&column(&seen, |id| id.0.as_slice()), &now.ms()],
    )
    .await?;
    Ok(())
}

/// Notes which entries feeds say are gone; those that were known and there.
pub(super) async fn bury_entries(
    tx: &Tx<'_>,
    commits: &[&Commit],
    now: Ts,
) -> Result<HashSet<EntryId>, DbError> {
    let gone: Vec<EntryId> =
        commits.iter().flat_map(|commit| &commit.outcome.deleted).map(|(id, _)| *id).collect();
    if gone.is_empty() {
        return Ok(HashSet::new());
    }
    let sql = "UPDATE entry SET deleted_at = $2 WHERE id = ANY($1::bytea[]) AND deleted_at IS NULL
        RETURNING id";
    let found = rows(tx, sql, &[&column(&gone, |id| id.0.as_slice()), &now.ms()]).await?;
    found.iter().map(|row| read::hash("entry", row, 0).map(EntryId)).collect()
}

/// Notes hosts that pages of sources link to.
pub(super) async fn put_outside(tx: &Tx<'_>, commits: &[&Commit], now: Ts) -> Result<(), DbError> {
    // One statement may touch a row once.
    let mut seen: BTreeMap<(i64, &str), (&str, i64)> = BTreeMap::new();
    for commit in commits {
        let Some(source) = commit.lease.task.source else { continue };
        for outside in &commit.outcome.outside {
            let known = seen.entry((source.0, &outside.host)).or_insert((&outside.url, 0));
            known.1 += i64::from(outside.links);
        }
    }
    if seen.is_empty() {
        return Ok(());
    }
    let seen: Vec<_> = seen.into_iter().collect();
    run(
        tx,
        "INSERT INTO outside(source_id, host, url, links, first_seen, last_seen)
         SELECT source_id, host, url, links, $5::bigint, $5::bigint
         FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])
           AS w(source_id, host, url, links)
         ON CONFLICT (source_id, host) DO UPDATE SET links = outside.links + excluded.links,
           last_seen = excluded.last_seen",
        &[
            &column(&seen, |((source, _), _)| *source),
            &column(&seen, |((_, host), _)| clean(host)),
            &column(&seen, |(_, (url, _))| clean(url)),
            &column(&seen, |(_, (_, links))| *links),
            &now.ms(),
        ],
    )
    .await?;
    Ok(())
}
