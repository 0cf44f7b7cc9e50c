//! Which entry an item of a feed is: the one known by its id, or the one that it was under another.
//!
//! A feed's own ids are believed while they last. An item with an id that nobody knows is an entry
//! that is known already when it has the same page and the same title, or, without an id of its own,
//! the same page and the same date. Where most ids do not last, new entries are known by their page.
//! Nothing here forgets an entry, and nothing is decided by the text alone.

use std::collections::{HashMap, HashSet};

use feedmill_formats::feed;
use feedmill_formats::url::{self as web, KeyRules};
use sha2::{Digest, Sha256};

use crate::model::{EntryFact, EntryId, Known, LinkedEntry, TaskId, UrlHash};

/// Ids that changed while page and title stayed, from which on a feed's ids are not believed.
const TOO_MANY: usize = 2;

/// The feed's own id of an entry, else a hash over what tells it from others. The page counts without
/// what is only there to track who came.
pub(super) fn uid(feed: TaskId, entry: &feed::Entry, key: Option<&str>) -> String {
    if let Some(id) = entry.id.as_deref().map(str::trim).filter(|id| !id.is_empty()) {
        return format!("guid:{id}");
    }
    let published = entry.published.map(|at| at.ms().to_string());
    let parts =
        [key, entry.title.as_deref(), published.as_deref().or(entry.published_raw.as_deref())];
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.unwrap_or_default().as_bytes());
        hash.update([0]);
    }
    hash.update(feed.uuid().as_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    format!("hash:{}", UrlHash::from_bytes(digest))
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
    let ids: HashSet<EntryId> = facts.iter().map(|fact| fact.id).collect();
    let mut pages: HashMap<UrlHash, usize> = HashMap::new();
    for link in facts.iter().filter_map(|fact| fact.link_hash) {
        *pages.entry(link).or_default() += 1;
    }
    // A page that several items share tells nothing.
    let own_page = |fact: &EntryFact| fact.link_hash.filter(|link| pages.get(link) == Some(&1));
    let (mut lasted, mut changed) = (0, 0);
    for fact in facts.iter_mut() {
        let has_id = fact.entry.uid.starts_with("guid:");
        if known.entries.contains_key(&fact.id) {
            lasted += usize::from(has_id);
            continue;
        }
        let before = own_page(fact).and_then(|link| known.by_link.get(&link));
        if let Some(before) = before.filter(|old| !ids.contains(&old.id) && is_same(old, fact)) {
            changed += usize::from(has_id);
            fact.id = before.id;
            fact.entry.uid.clone_from(&before.uid);
        }
    }
    let unstable = changed >= TOO_MANY && changed > lasted;
    if unstable {
        for fact in facts.iter_mut() {
            let is_new = content(known, fact).is_none() && own_page(fact).is_some();
            let link = fact.entry.canonical_link.as_deref().and_then(|link| web::parse(link).ok());
            if let Some(link) = link.filter(|_| is_new && fact.entry.uid.starts_with("guid:")) {
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
    let by_link = || fact.link_hash.and_then(|link| known.by_link.get(&link));
    by_id.or_else(|| by_link().filter(|old| old.id == fact.id).map(|old| old.content_hash))
}

/// Whether an item with the page of an entry, and another id, is that entry.
fn is_same(old: &LinkedEntry, fact: &EntryFact) -> bool {
    let same_title = old.title.is_some() && old.title == fact.entry.title;
    let same_date = old.published.is_some() && old.published == fact.entry.published;
    let has_id = fact.entry.uid.starts_with("guid:");
    old.uid.starts_with("link:") || same_title || (same_date && !has_id)
}
