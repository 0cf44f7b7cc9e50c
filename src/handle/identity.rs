//! Which entry an item of a feed is: the one known by its id, or the one that it was under another.
//!
//! A feed's own ids are believed while they last and while each is one item's. An item whose id nobody
//! knows is an entry that is known already when enough of page, title and date is the same. Where most
//! ids do not last, entries are known by their page from then on. Nothing here forgets an entry, and
//! nothing is decided by the text alone unless an item has nothing else.

use std::collections::{HashMap, HashSet};

use feedmill_formats::feed;
use feedmill_formats::url::{self as web, KeyRules};
use sha2::{Digest, Sha256};

use super::feed::content_hash;
use crate::model::{EntryFact, EntryId, Known, LinkedEntry, TaskId, UrlHash};

/// Ids that changed while page and title stayed, from which on a feed's ids are not believed.
const TOO_MANY: usize = 2;

/// The feed's own id of an entry, when it is to be believed, else where `by_link` its page, else a
/// hash over what tells it from others.
pub(super) fn uid(
    feed: TaskId,
    entry: &feed::Entry,
    key: Option<&str>,
    by_id: bool,
    by_link: bool,
) -> String {
    let own = entry.id.as_deref().map(str::trim).filter(|id| by_id && !id.is_empty());
    match (own, key.filter(|_| by_link)) {
        (Some(id), _) => format!("guid:{id}"),
        (None, Some(key)) => format!("link:{key}"),
        (None, None) => hashed(feed, entry, key),
    }
}

/// A hash over what tells an entry from others. The page counts without what is only there to track
/// who came, the text only where there is neither page nor title.
fn hashed(feed: TaskId, entry: &feed::Entry, key: Option<&str>) -> String {
    let title = entry.title.as_deref();
    let published = entry.published.map(|at| at.ms().to_string());
    let published = published.as_deref().or(entry.published_raw.as_deref());
    let text = || entry.summary.as_deref().or(entry.content.as_deref());
    let text = if key.is_none() && title.is_none() { text() } else { None };
    let mut hash = Sha256::new();
    for part in [key, title, published].into_iter().chain(text.map(Some)) {
        hash.update(part.unwrap_or_default().as_bytes());
        hash.update([0]);
    }
    hash.update(feed.uuid().as_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    format!("hash:{}", UrlHash::from_bytes(digest))
}

/// Ids of the document that several items have, which are not about the same page and have not the
/// same title: such an id tells nothing.
pub(super) fn shared(entries: &[feed::Entry]) -> HashSet<&str> {
    let mut first: HashMap<&str, &feed::Entry> = HashMap::new();
    let mut shared = HashSet::new();
    for entry in entries {
        let Some(id) = entry.id.as_deref() else { continue };
        let other = first.entry(id).or_insert(entry);
        if other.link != entry.link && other.title != entry.title {
            shared.insert(id);
        }
    }
    shared
}

/// An item that stands in the document twice is one entry, the first: by its id, or by the same words
/// about the same page.
pub(super) fn once(facts: impl Iterator<Item = EntryFact>) -> Vec<EntryFact> {
    let (mut ids, mut pages) = (HashSet::new(), HashSet::new());
    let mut first = |fact: &EntryFact| {
        ids.insert(fact.id)
            && fact.link_hash.is_none_or(|link| pages.insert((link, fact.content_hash)))
    };
    facts.filter(|fact| first(fact)).collect()
}

/// Gives items the identity of the entries that they are; says whether the feed's ids do not last.
pub(super) fn settle(
    facts: &mut [EntryFact],
    known: &Known,
    feed: TaskId,
    rules: &KeyRules,
) -> bool {
    let mut taken: HashSet<EntryId> = facts.iter().map(|fact| fact.id).collect();
    let mut pages: HashMap<UrlHash, usize> = HashMap::new();
    for link in facts.iter().filter_map(|fact| fact.link_hash) {
        *pages.entry(link).or_default() += 1;
    }
    // A page that several items share does not tell them apart.
    let own_page = |fact: &EntryFact| fact.link_hash.filter(|link| pages.get(link) == Some(&1));
    let (mut lasted, mut changed) = (0, 0);
    for fact in facts.iter_mut() {
        if known.entries.contains_key(&fact.id) {
            lasted += usize::from(has_id(&fact.entry.uid));
            continue;
        }
        let free = || known.kin.iter().filter(|old| !taken.contains(&old.id));
        let own = own_page(fact);
        let by_page = free().find(|old| {
            own.is_some() && old.link_hash == own && is_same(old, fact, known.feed.by_pages)
        });
        let mut by_date = free().filter(|old| is_same_day(old, fact));
        let by_date = by_date.next().filter(|_| by_date.next().is_none());
        if let Some(before) = by_page.or(by_date) {
            changed += usize::from(has_id(&fact.entry.uid));
            taken.insert(before.id);
            become_known(fact, before);
        }
    }
    let unstable = known.feed.by_pages || changed >= TOO_MANY && changed > lasted;
    if unstable {
        for fact in facts.iter_mut() {
            let is_new = content(known, fact).is_none() && own_page(fact).is_some();
            let link = fact.entry.canonical_link.as_deref().and_then(|link| web::parse(link).ok());
            if let Some(link) = link.filter(|_| is_new && has_id(&fact.entry.uid)) {
                fact.entry.uid = format!("link:{}", web::key(&link, rules));
                fact.id = EntryId::of(feed, &fact.entry.uid);
            }
        }
    }
    unstable
}

/// The content that the entry of this fact had when it was last seen.
pub(super) fn content(known: &Known, fact: &EntryFact) -> Option<[u8; 32]> {
    let by_id = known.entries.get(&fact.id).map(|entry| entry.content_hash);
    let kin = || known.kin.iter().find(|old| old.id == fact.id).map(|old| old.content_hash);
    by_id.or_else(kin)
}

/// Whether an item has an id that its feed gave it.
pub(crate) fn has_id(uid: &str) -> bool {
    uid.starts_with("guid:")
}

/// Whether an item with the page of an entry, and another id, is that entry.
fn is_same(old: &LinkedEntry, fact: &EntryFact, by_pages: bool) -> bool {
    let (new_date, has_id) = (fact.entry.published, has_id(&fact.entry.uid));
    let same_title = old.title.is_some() && old.title == fact.entry.title;
    let same_date = old.published.is_some() && old.published == new_date;
    let undated = old.published.is_none() && new_date.is_none();
    by_pages || old.uid.starts_with("link:") || same_title || (!has_id && (same_date || undated))
}

/// Whether an item with the title and the date of an entry is that entry: at the same page, or where
/// neither has an id and the address of a page does not last.
fn is_same_day(old: &LinkedEntry, fact: &EntryFact) -> bool {
    let entry = &fact.entry;
    let same_title = old.title.is_some() && old.title == entry.title;
    let same_date = old.published.is_some() && old.published == entry.published;
    let same_page = old.link_hash == fact.link_hash;
    same_title && same_date && (same_page || !has_id(&old.uid) && !has_id(&entry.uid))
}

/// Makes the item the entry that it is; it stays at the address under which it was found.
fn become_known(fact: &mut EntryFact, before: &LinkedEntry) {
    fact.id = before.id;
    fact.entry.uid.clone_from(&before.uid);
    if fact.link_hash != before.link_hash {
        fact.link_hash = before.link_hash;
        fact.entry.canonical_link.clone_from(&before.link);
        fact.content_hash = content_hash(&fact.entry, fact.link_hash);
    }
}
