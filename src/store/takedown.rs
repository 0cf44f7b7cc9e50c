//! Takedowns: what is taken back for good, what is refused from then on, and the record of it.
//!
//! It is refused first, then what is there is looked for, then that goes, a part at a time: whatever
//! comes in between is met by the refusal. Each part goes in one transaction with what the log says of
//! it, and going over it again changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use async_trait::async_trait;
use feedmill_formats::url as web;
use serde::Serialize;
use serde_json::json;

use super::{Commit, SourceError, Store};
use crate::db::DbError;
use crate::frontier::{Refusals, Rules, is_below};
use crate::model::{
    ArticleId, Code, Entry, EntryFact, EntryId, EventKind, FetchId, Lane, NewEvent, NewTakedown,
    Next, Outcome, RawRef, Scope, SourceId, Takedown, TaskId, UrlHash,
};
use crate::store::raw::Reread;

/// Why something goes, for people.
const REASON: &str = "it was taken down";

/// What a takedown is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The page at this normalised address.
    Address(String),
    /// A host, and those below it.
    Host(String),
    /// All that a source owns.
    Source(SourceId),
}

/// What a takedown takes away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Doomed {
    /// Addresses that are only in entries, whose readers have to be told.
    #[serde(skip)]
    pub told: BTreeMap<UrlHash, (String, Option<SourceId>)>,
    /// Articles.
    pub articles: BTreeSet<ArticleId>,
    /// Entries of feeds.
    pub entries: BTreeSet<EntryId>,
    /// Fetches whose bytes are kept.
    pub fetches: BTreeSet<FetchId>,
    /// Tasks.
    pub tasks: BTreeSet<TaskId>,
    /// All addresses that are meant.
    #[serde(skip)]
    pub addresses: HashSet<UrlHash>,
}

impl Doomed {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { told, articles, entries, fetches, tasks, .. } = self;
        told.is_empty()
            && articles.is_empty()
            && entries.is_empty()
            && fetches.is_empty()
            && tasks.is_empty()
    }

    /// Parts of so many things each, whose readers are told first.
    #[must_use]
    pub fn parts(mut self, size: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        while !self.is_empty() {
            let mut part = Self::default();
            for _ in 0..size.max(1) {
                if let Some((hash, told)) = self.told.pop_first() {
                    part.told.insert(hash, told);
                } else if let Some(id) = self.articles.pop_first() {
                    part.articles.insert(id);
                } else if let Some(id) = self.entries.pop_first() {
                    part.entries.insert(id);
                } else if let Some(id) = self.fetches.pop_first() {
                    part.fetches.insert(id);
                } else if let Some(id) = self.tasks.pop_first() {
                    part.tasks.insert(id);
                }
            }
            parts.push(part);
        }
        parts
    }
}

/// Bytes in the archive that are to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// Where they are.
    pub raw: RawRef,
    /// Others may rely on this very body.
    pub body_sha256: Option<String>,
}

/// The boundary that both backends keep for takedowns.
#[async_trait]
pub trait Takedowns: Send + Sync {
    /// What a takedown would take away, from one snapshot.
    async fn doomed(&self, target: Target) -> Result<Doomed, DbError>;

    /// Refuses from now on; the takedown that does so already goes on.
    async fn open_takedown(&self, new: NewTakedown) -> Result<Takedown, DbError>;

    /// Takes a part away, and tells the log. Tasks are the frontier's.
    async fn take_down(&self, of: &Takedown, part: Doomed) -> Result<(), DbError>;

    /// Takes the words of these articles out of older events.
    async fn blank_events(&self, articles: Vec<ArticleId>) -> Result<u64, DbError>;

    /// Notes that nothing is left to be taken.
    async fn end_takedown(&self, of: &Takedown) -> Result<(), DbError>;

    /// All takedowns, the last one first.
    async fn takedowns(&self) -> Result<Vec<Takedown>, DbError>;

    /// Refuses no more; false when nothing was refused. What went does not come back.
    async fn lift_takedown(&self, scope: Scope, target: &str, by: &str) -> Result<bool, DbError>;

    /// Whether an address is refused.
    async fn is_refused(&self, url: &str) -> Result<bool, DbError>;

    /// Bytes that are to go, of so many records at the most, after a place.
    async fn erasures(&self, after: Option<RawRef>, limit: usize) -> Result<Vec<Erasure>, DbError>;

    /// Notes that bytes are gone.
    async fn erased(&self, gone: Vec<RawRef>) -> Result<(), DbError>;
}

/// A source that was taken down is not followed until that is lifted.
pub(super) async fn check(store: &dyn Store, name: &str) -> Result<(), SourceError> {
    let (source, _) = store.source(name).await?;
    let down = |one: &Takedown| {
        one.scope == Scope::Source && one.target == source.uuid && one.lifted_at.is_none()
    };
    match store.takedowns().await?.iter().any(down) {
        true => Err(SourceError::Withdrawn(source.spec.name)),
        false => Ok(()),
    }
}

/// Finds what is meant among rows, whatever the database.
pub(super) struct Search<'a> {
    target: &'a Target,
    rules: &'a Rules,
    /// Normalised addresses: the one that is meant, and where its pages were in the end.
    keys: BTreeSet<String>,
    /// Tasks whose fetches are meant…
    pub(super) owners: BTreeSet<i64>,
    /// …and those of them whose entries are.
    pub(super) polls: BTreeSet<i64>,
    pub(super) doomed: Doomed,
}

impl<'a> Search<'a> {
    pub(super) fn new(target: &'a Target, rules: &'a Rules) -> Self {
        let keys = match target {
            Target::Address(key) => [key.clone()].into(),
            Target::Host(_) | Target::Source(_) => BTreeSet::new(),
        };
        let addresses = keys.iter().map(|key| UrlHash::of(key)).collect();
        let doomed = Doomed { addresses, ..Doomed::default() };
        Self { target, rules, keys, owners: BTreeSet::new(), polls: BTreeSet::new(), doomed }
    }

    /// A word that every address has that is meant; nothing when addresses do not tell.
    pub(super) fn hosts(&self) -> Vec<String> {
        match self.target {
            Target::Host(host) => vec![host.clone()],
            Target::Address(_) => {
                let hosts = self.keys.iter().filter_map(|key| web::parse(key).ok());
                hosts.map(|url| web::host(&url)).collect::<BTreeSet<_>>().into_iter().collect()
            }
            Target::Source(_) => Vec::new(),
        }
    }

    fn fits(&self, url: &str) -> bool {
        let Ok(url) = web::parse(url) else { return false };
        match self.target {
            Target::Address(_) => self.keys.contains(&web::key(&url, &self.rules.key)),
            Target::Host(host) => is_below(&web::host(&url), host),
            Target::Source(_) => false,
        }
    }

    /// A task of the target's queue or source.
    pub(super) fn task(&mut self, id: i64, lane: i64, key: &str) {
        let of_source = matches!(self.target, Target::Source(_));
        if !of_source && !self.fits(key) {
            return;
        }
        let is_poll = lane == Lane::Poll.number();
        self.owners.insert(id);
        self.doomed.addresses.insert(UrlHash::of(key));
        if is_poll {
            self.polls.insert(id);
        }
        // The channels of a source are set aside with it.
        if !of_source || !is_poll {
            self.doomed.tasks.insert(TaskId(id));
        }
    }

    /// A fetch of one of these tasks.
    pub(super) fn fetch(&mut self, id: FetchId, url: &str, status: Option<i64>, kept: bool) {
        if kept {
            self.doomed.fetches.insert(id);
        }
        if let (Target::Address(_), Some(200), Ok(url)) = (self.target, status, web::parse(url)) {
            let key = web::key(&url, &self.rules.key);
            self.doomed.addresses.insert(UrlHash::of(&key));
            self.keys.insert(key);
        }
    }

    /// A fetch of somebody else that may have led there.
    pub(super) fn stray(&mut self, id: FetchId, url: &str) {
        if self.fits(url) {
            self.doomed.fetches.insert(id);
        }
    }

    /// An article of the site or source; of one that is damaged only the id is known.
    pub(super) fn article(&mut self, id: ArticleId, url: &str) {
        let is_meant = self.fits(url) || self.doomed.addresses.contains(&id);
        if matches!(self.target, Target::Source(_)) || is_meant {
            self.doomed.articles.insert(id);
            self.doomed.addresses.insert(id);
        }
    }

    /// An entry that links to one of the addresses, or may do so, or is one of these feeds'.
    pub(super) fn entry(&mut self, found: FoundEntry) {
        let FoundEntry { id, feed, link_hash, link, source } = found;
        let linked = link_hash.is_some_and(|hash| self.doomed.addresses.contains(&hash));
        let fits = linked || link.as_deref().is_some_and(|link| self.fits(link));
        if !fits && !feed.is_some_and(|feed| self.polls.contains(&feed)) {
            return;
        }
        self.doomed.entries.insert(id);
        if let (Some(hash), Some(link)) = (link_hash, link)
            && !self.doomed.articles.contains(&hash)
        {
            self.doomed.told.entry(hash).or_insert((link, source));
        }
    }
}

/// An entry as a search sees it; of one that is damaged some is not known.
pub(super) struct FoundEntry {
    pub(super) id: EntryId,
    pub(super) feed: Option<i64>,
    pub(super) link_hash: Option<UrlHash>,
    pub(super) link: Option<String>,
    pub(super) source: Option<SourceId>,
}

/// What the log says of an article that was taken down.
pub(super) fn withdrawn(id: ArticleId, gone: &GoneArticle) -> NewEvent {
    let GoneArticle { url, given, source, fetches } = gone;
    let raw_refs: Vec<_> = fetches.iter().map(|id| json!({"fetch_id": id})).collect();
    NewEvent {
        kind: EventKind::ArticleWithdrawn,
        subject: id.to_string(),
        source: *source,
        payload: json!({
            "article_id": id, "url": url, "given_url": given, "reason": REASON, "raw_refs": raw_refs,
        }),
    }
}

/// What has to be told of an article that is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GoneArticle {
    pub(super) url: Option<String>,
    /// Its address as it was given.
    pub(super) given: Option<String>,
    pub(super) source: Option<SourceId>,
    /// The fetches that brought its forms.
    pub(super) fetches: Vec<FetchId>,
}

/// What the log says of an entry that was taken down.
pub(super) fn entry_withdrawn(
    id: EntryId,
    uid: &str,
    feed: TaskId,
    source: Option<SourceId>,
) -> NewEvent {
    NewEvent {
        kind: EventKind::EntryDeleted,
        subject: id.to_string(),
        source,
        payload: json!({"entry_uid": uid, "feed_id": feed, "reason": REASON}),
    }
}

/// What an older event of an article may still say.
pub(super) fn blanked(payload: &str) -> Result<Option<String>, serde_json::Error> {
    let mut payload: serde_json::Value = serde_json::from_str(payload)?;
    let title = payload.as_object_mut().and_then(|payload| payload.remove("title"));
    title.map(|_| serde_json::to_string(&payload)).transpose()
}

/// What is kept of an entry that was taken down: what its feed is compared with.
pub(super) fn blank(entry: Entry) -> Entry {
    Entry {
        given_link: None,
        title: None,
        summary: None,
        content: None,
        authors: Vec::new(),
        categories: Vec::new(),
        enclosures: Vec::new(),
        cut: Vec::new(),
        ..entry
    }
}

/// All addresses that an outcome speaks of.
pub(super) fn addresses(commit: &Commit, rules: &Rules) -> Vec<UrlHash> {
    let Commit { lease, outcome } = commit;
    let answered = outcome.fetches.iter().filter_map(|fetch| hash_of(&fetch.url, rules));
    let entries = outcome.entries.iter().filter_map(|fact| fact.link_hash);
    let article = outcome.article.iter().map(|fact| fact.id);
    std::iter::once(lease.task.url_hash).chain(answered).chain(entries).chain(article).collect()
}

fn hash_of(url: &str, rules: &Rules) -> Option<UrlHash> {
    let url = web::parse(url).ok()?;
    Some(UrlHash::of(&web::key(&url, &rules.key)))
}

/// What is left of an outcome when something of it was taken down.
#[derive(Debug)]
pub(super) struct Stripped {
    pub(super) commit: Commit,
    /// Entries of which only that is kept by which they are known.
    pub(super) graves: Vec<EntryFact>,
    /// Bytes that are to go.
    pub(super) erased: Vec<Erasure>,
}

/// Takes out of an outcome what is refused; `None` when nothing is.
pub(super) fn strip(commit: &Commit, refusals: &Refusals, rules: &Rules) -> Option<Stripped> {
    if refusals.is_empty() {
        return None;
    }
    let Commit { lease, outcome } = commit;
    let refuses = |url: &str| hash_of(url, rules).is_some_and(|hash| refusals.refuses(hash, url));
    let article = outcome.article.as_ref();
    let is_gone = refusals.refuses(lease.task.url_hash, &lease.task.url)
        || article.is_some_and(|fact| refusals.refuses(fact.id, &fact.article.url));
    let mut left = outcome.clone();
    let mut erased = Vec::new();
    for fetch in &mut left.fetches {
        if is_gone || refuses(&fetch.url) {
            let body_sha256 = fetch.body_sha256.clone();
            erased.extend(fetch.raw.take().map(|raw| Erasure { raw, body_sha256 }));
        }
    }
    if is_gone {
        let next = Next::Dead { code: Code::Withdrawn };
        let Outcome { host, fetches, .. } = left;
        let outcome =
            Outcome { host, fetches, ..Outcome::new(Code::Withdrawn, next, REASON.to_owned()) };
        let commit = Commit { lease: lease.clone(), outcome };
        return Some(Stripped { commit, graves: Vec::new(), erased });
    }
    let (graves, entries): (Vec<_>, Vec<_>) =
        left.entries.into_iter().partition(|fact| is_grave(fact, refusals));
    left.entries = entries;
    let graves: Vec<_> =
        graves.into_iter().map(|fact| EntryFact { entry: blank(fact.entry), ..fact }).collect();
    if graves.is_empty() && erased.is_empty() {
        return None;
    }
    Some(Stripped { commit: Commit { lease: lease.clone(), outcome: left }, graves, erased })
}

fn is_grave(fact: &EntryFact, refusals: &Refusals) -> bool {
    let link = fact.entry.canonical_link.as_deref();
    fact.link_hash.zip(link).is_some_and(|(hash, link)| refusals.refuses(hash, link))
}

/// The addresses that were read again.
pub(super) fn addresses_read(read: &Reread) -> Vec<UrlHash> {
    let entries = read.entries.iter().filter_map(|(_, fact)| fact.link_hash);
    let article = read.article.iter().map(|(_, fact)| fact.id);
    std::iter::once(read.task.url_hash).chain(entries).chain(article).collect()
}

/// What was read again, without what was taken down.
pub(super) fn strip_read(read: &Reread, refusals: &Refusals) -> Reread {
    let mut left = read.clone();
    let refused = refusals.refuses(read.task.url_hash, &read.task.url);
    left.entries.retain(|(_, fact)| !refused && !is_grave(fact, refusals));
    let article = |(_, fact): &(_, crate::model::ArticleFact)| {
        !refused && !refusals.refuses(fact.id, &fact.article.url)
    };
    left.article = left.article.filter(article);
    left
}
