//! Feeds: entries that are new or changed, and the pages that they link to.

use std::collections::HashSet;
use std::time::Duration;

use feedmill_formats::feed::{self, Feed, FeedError};
use feedmill_formats::url as web;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::poll::{Brought, seconds, went_well};
use super::{Carried, House, identity, limits, moved, refetch};
use crate::model::{
    AskedEntry, Code, Enclosure, Entry, EntryFact, EntryId, EventKind, FetchId, Kind, Known, Lease,
    NewEvent, NewTask, Next, Origin, Outcome, Person, Response, Source, TaskId, Ts, UrlHash,
    Warned,
};
use crate::schedule::Document;

/// Clocks are ahead by this much and no more.
const AHEAD: Duration = Duration::from_mins(10);

#[derive(Debug)]
pub(super) struct Read {
    pub(super) feed: Feed,
    facts: Vec<EntryFact>,
    body_hash: [u8; 32],
}

impl Read {
    pub(super) fn asked(&self) -> Vec<AskedEntry> {
        let asked = |fact: &EntryFact| {
            let date = fact.entry.published.filter(|_| fact.entry.title.is_some());
            AskedEntry { id: fact.id, page: fact.link_hash, date }
        };
        self.facts.iter().map(asked).collect()
    }
}

pub(super) fn read(
    lease: &Lease,
    response: &Response,
    body: &[u8],
    house: &House,
) -> Result<Read, (Code, String)> {
    let limits = feed::Limits::default();
    let content_type = response.header("content-type");
    let feed = feed::parse(body, content_type, response.final_url(), &limits).map_err(|error| {
        let code = match error {
            FeedError::EmptyBody => Code::Empty,
            FeedError::TooLarge(_) | FeedError::TooDeep(_) => Code::TooLarge,
            FeedError::HtmlNotFeed => Code::BadContentType,
            FeedError::NotAFeed | FeedError::Malformed(_) => Code::Parse,
        };
        (code, error.to_string())
    })?;
    let shared = identity::shared(&feed.entries);
    let facts = feed.entries.iter().map(|entry| {
        let is_told = entry.id.as_deref().is_none_or(|id| !shared.contains(id));
        fact(lease.task.id, entry, is_told, house)
    });
    let facts = identity::once(facts);
    Ok(Read { feed, facts, body_hash: Sha256::digest(body).into() })
}

/// What an item tells; `by_id` when its own id is to be believed.
fn fact(feed: TaskId, entry: &feed::Entry, by_id: bool, house: &House) -> EntryFact {
    let page = house.taking.page(entry);
    let key = page.as_ref().map(|page| web::key(page, &house.key));
    let uid = identity::uid(feed, entry, key.as_deref(), by_id, house.taking.by_link);
    let given = entry.link.as_deref().and_then(|link| web::parse(link).ok());
    let led = page.filter(|page| given.as_ref() != Some(page)).map(String::from);
    // Its identity is that of the whole id, however little of it is kept.
    let id = EntryId::of(feed, &uid);
    let mut kept = Entry {
        uid,
        given_link: entry.link.clone().filter(|link| led.is_some() || !web::is_link(link)),
        canonical_link: led.or_else(|| entry.link.clone().filter(|link| web::is_link(link))),
        title: entry.title.clone(),
        summary: entry.summary.clone(),
        content: entry.content.clone(),
        authors: entry
            .authors
            .iter()
            .map(|a| Person {
                name: a.name.clone(),
                email: a.email.clone(),
                uri: a.uri.clone().filter(|uri| web::is_link(uri)),
            })
            .collect(),
        categories: entry.categories.clone(),
        enclosures: entry
            .enclosures
            .iter()
            .filter(|e| web::is_link(&e.url))
            .map(|e| Enclosure { url: e.url.clone(), mime: e.mime.clone(), length: e.length })
            .collect(),
        published: entry.published,
        published_raw: entry.published_raw.clone(),
        updated: entry.updated,
        updated_raw: entry.updated_raw.clone(),
        cut: Vec::new(),
    };
    limits::entry(&mut kept);
    // A page whose address is not kept is not followed either.
    let link_hash = key.as_deref().filter(|_| kept.canonical_link.is_some()).map(UrlHash::of);
    let slice = u64::try_from(entry.raw.start)
        .ok()
        .zip(u64::try_from(entry.raw.len()).ok())
        .filter(|(_, length)| *length > 0);
    EntryFact {
        id,
        content_hash: content_hash(&kept, link_hash),
        entry: kept,
        link_hash,
        fetch: None,
        slice,
    }
}

/// Over everything that a reader would see change: not the dates, which some feeds write anew with
/// every answer, and not what only tracks who comes to the page.
pub(super) fn content_hash(entry: &Entry, page: Option<UrlHash>) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update(part.as_bytes());
        hash.update([0]);
    };
    match page {
        Some(page) => add(&page.to_string()),
        None => {
            add(entry.canonical_link.as_ref().or(entry.given_link.as_ref()).map_or("", |it| it))
        }
    }
    for part in [&entry.title, &entry.summary, &entry.content] {
        add(part.as_deref().unwrap_or_default());
    }
    for person in &entry.authors {
        add(person.name.as_deref().unwrap_or_default());
    }
    for category in &entry.categories {
        add(category);
    }
    for enclosure in &entry.enclosures {
        add(&enclosure.url);
        add(enclosure.mime.as_deref().unwrap_or_default());
        add(&enclosure.length.unwrap_or_default().to_string());
    }
    hash.finalize().into()
}

pub(super) fn decide(
    lease: &Lease,
    read: Read,
    carried: Carried,
    fetch: Option<FetchId>,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    let mut read = read;
    let unstable = identity::settle(&mut read.facts, known, lease.task.id, &house.key);
    for fact in &mut read.facts {
        fact.fetch = fetch;
        believe_dates(&mut fact.entry, at);
    }
    let mut left_out = known.feed.left_out.clone();
    let still = leave(&mut read.facts, |_, fact| left_out.contains(&beginning(fact)));
    let mut brought = brought(&read, known, at);
    brought.items = brought.items.saturating_add(u32::try_from(still.len()).unwrap_or(u32::MAX));
    let capped = match house.taking.cap(known.feed.last_success, carried.earliest(at)) {
        Some(cap) => older(&mut read.facts, known, cap, at),
        None => Vec::new(),
    };
    left_out = still.into_iter().chain(capped).collect();
    let new = read.facts.iter().filter(|fact| identity::content(known, fact).is_none()).count();
    let mut polled = went_well(lease, Some(&brought), &carried, known, at, house);
    polled.fact.new_items = u32::try_from(new).unwrap_or(u32::MAX);
    let next = Next::Again { at: polled.decision.at };
    let mut outcome = Outcome::new(Code::Ok, next, String::new());
    outcome.deleted = deleted(lease, &read, at);
    let dates = corrected(&read.facts, known);
    let is_ours = known.feed.last_success.is_none()
        || read.facts.iter().any(|fact| identity::content(known, fact).is_some());
    let mut turned_away = 0;
    for fact in read.facts {
        match identity::content(known, &fact) {
            Some(before) if before == fact.content_hash => {
                if dates.contains(&fact.id) {
                    outcome.entries.push(fact);
                } else {
                    outcome.seen.push(fact.id);
                }
            }
            _ => {
                let page = page(lease, &fact, &carried, at, house);
                turned_away += usize::from(page.is_none() && fact.link_hash.is_some());
                outcome.discovered.extend(page);
                outcome.entries.push(fact);
            }
        }
    }
    let mut told = format!("{} entries, {new} new", brought.items);
    for (count, what) in [(left_out.len(), "left out as older"), (turned_away, "not followed")] {
        if count > 0 {
            told.push_str(&format!(", {count} {what}"));
        }
    }
    let ids = if unstable { ", its ids do not last and are not used" } else { "" };
    outcome.reason = format!("{told}{ids}; {}", polled.decision.reason);
    let state = &mut polled.fact.state;
    outcome.moved = moved::watch(lease, state, &carried, is_ours, at);
    outcome.validators = Some((carried.validators, carried.final_url));
    state.title = read.feed.title.or_else(|| state.title.take());
    state.body_hash = Some(read.body_hash);
    state.by_pages = unstable;
    state.left_out = left_out;
    outcome.feed = Some(polled.fact);
    outcome.events = polled.events;
    outcome
}

/// Takes out what is to be left alone; the beginnings of its ids.
fn leave(
    facts: &mut Vec<EntryFact>,
    mut is_left: impl FnMut(usize, &EntryFact) -> bool,
) -> Vec<[u8; 8]> {
    let (mut left, mut at) = (Vec::new(), 0);
    facts.retain(|fact| {
        let is_left = is_left(at, fact);
        at += 1;
        if is_left {
            left.push(beginning(fact));
        }
        !is_left
    });
    left
}

fn beginning(fact: &EntryFact) -> [u8; 8] {
    fact.id.0.first_chunk().copied().unwrap_or_default()
}

/// Takes out all but so many of the newest, those that are known already not counted out. What has no
/// date counts as of now, in the order of the document.
fn older(facts: &mut Vec<EntryFact>, known: &Known, cap: usize, at: Ts) -> Vec<[u8; 8]> {
    let date = |fact: &EntryFact| fact.entry.updated.or(fact.entry.published).unwrap_or(at);
    let mut newest: Vec<(usize, Ts)> = facts.iter().map(date).enumerate().collect();
    newest.sort_by_key(|(_, date)| std::cmp::Reverse(*date));
    let taken: HashSet<usize> = newest.into_iter().take(cap).map(|(at, _)| at).collect();
    leave(facts, |at, fact| !taken.contains(&at) && identity::content(known, fact).is_none())
}

/// What the scheduler learns from a document.
fn brought(read: &Read, known: &Known, at: Ts) -> Brought {
    let warnings = read.feed.warnings.iter();
    let cuts = read.facts.iter().flat_map(|fact| &fact.entry.cut);
    let cuts = cuts.map(|field| ("text_cut", field.as_str(), 1));
    let mut brought = Brought {
        // What it says is gone stands in it as well.
        items: u32::try_from(read.facts.len() + read.feed.deleted.len()).unwrap_or(u32::MAX),
        warnings: Warned::gather(
            warnings.map(|one| (one.code, one.detail.as_str(), one.count)).chain(cuts),
        ),
        document: Document::new(
            read.feed
                .ttl
                .max(read.feed.update_minutes)
                .map(|minutes| Duration::from_mins(u64::from(minutes))),
            &read.feed.skip_hours,
            &read.feed.skip_days,
        ),
        ..Brought::default()
    };
    for fact in &read.facts {
        // A date in the future says nothing about when it was published.
        let date = fact.entry.published.or(fact.entry.updated).filter(|date| *date <= at);
        brought.recent.extend(date.map(seconds));
        if identity::content(known, fact).is_none() {
            match date {
                Some(date) => brought.dated.push(seconds(date)),
                None => brought.undated += 1,
            }
        }
    }
    brought.recent.sort_unstable();
    brought
}

/// Entries that the feed says are gone (RFC 6721), by the ids that they were given with. What it shows
/// at the same time is not.
fn deleted(lease: &Lease, read: &Read, at: Ts) -> Vec<(EntryId, NewEvent)> {
    let feed = lease.task.id;
    let gone = read.feed.deleted.iter().map(|gone| {
        let uid = format!("guid:{}", gone.id.trim());
        let id = EntryId::of(feed, &uid);
        let uid = limits::uid(uid);
        let event = NewEvent {
            kind: EventKind::EntryDeleted,
            subject: id.to_string(),
            source: lease.task.source,
            payload: json!({
                "entry_uid": uid, "feed_id": feed, "deleted_at": gone.at, "ingested_at": at,
            }),
        };
        (id, event)
    });
    gone.filter(|(id, _)| read.facts.iter().all(|fact| fact.id != *id)).collect()
}

/// A date in the future is no fact: it stays as it was written, and the entry is ordered by when we
/// first saw it. What could be read need not be kept as it was written.
fn believe_dates(entry: &mut Entry, at: Ts) {
    let latest = at.after(AHEAD);
    entry.published = entry.published.filter(|published| *published <= latest);
    entry.updated = entry.updated.filter(|updated| *updated <= latest);
    entry.published_raw = entry.published_raw.take().filter(|_| entry.published.is_none());
    entry.updated_raw = entry.updated_raw.take().filter(|_| entry.updated.is_none());
}

/// Entries whose dates alone are other than they were, and are to be kept: those that had none, and
/// those of a few while the others stay. Some feeds write all of them anew with every answer.
fn corrected(facts: &[EntryFact], known: &Known) -> HashSet<EntryId> {
    let (mut stayed, mut gained, mut moved) = (0, HashSet::new(), HashSet::new());
    for fact in facts {
        let Some(old) = known.entries.get(&fact.id) else { continue };
        let dates = [(old.published, fact.entry.published), (old.updated, fact.entry.updated)];
        if dates.iter().any(|(old, new)| old.is_none() && new.is_some()) {
            gained.insert(fact.id);
        } else if dates.iter().any(|(old, new)| new.is_some() && old != new) {
            moved.insert(fact.id);
        } else {
            stayed += 1;
        }
    }
    if moved.len() <= stayed {
        gained.extend(moved);
    }
    gained
}

/// The page that an entry links to.
fn page(
    lease: &Lease,
    fact: &EntryFact,
    carried: &Carried,
    at: Ts,
    house: &House,
) -> Option<NewTask> {
    let link = fact.entry.canonical_link.clone().filter(|link| house.taking.takes(link))?;
    let link = house.taking.upgraded(link, &carried.final_url);
    let found = found(lease, link, Kind::Article, Origin::Feed);
    let changed = fact.entry.updated.or(fact.entry.published);
    Some(NewTask {
        refetch: refetch::on_change(lease, changed, carried.latest(at), house),
        ..found
    })
}

/// An address that a recurring task told of.
pub(super) fn found(lease: &Lease, url: String, kind: Kind, origin: Origin) -> NewTask {
    NewTask {
        url,
        kind,
        origin,
        source: lease.task.source,
        base_priority: lease.source.as_ref().map_or(Source::DEFAULT_PRIORITY, |s| s.spec.priority),
        depth: 0,
        redirects: 0,
        parent: Some(lease.task.id),
        not_before: None,
        refetch: None,
    }
}
