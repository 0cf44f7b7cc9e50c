//! Replay: today's handlers over yesterday's bytes.
//!
//! What they read is compared with what is kept, field by field, and kept where it is different. No
//! request is made, and no task is touched: when it comes up, its validators and its history stay
//! as they are. Of what stands in several documents the latest counts, so a second replay finds
//! nothing to change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use feedmill_formats::url as web;
use serde::Serialize;
use serde_json::Value;

use super::house;
use crate::archive::{Reader, Stored};
use crate::config::Config;
use crate::db::DbError;
use crate::frontier::{Cursor, Order, TaskFilter};
use crate::handle::{self, House, Reply};
use crate::model::{
    ArticleFact, EntryFact, EntryId, Evidence, Exchange, FetchId, FetchRecord, Headers, Kind,
    Known, Lease, LeaseId, LinkedEntry, Outcome, Response, Source, Task, Ts, UrlHash, Validators,
};
use crate::store::near::Company;
use crate::store::{Reread, Store, apply};

/// Tasks that are looked up at a time.
const PAGE: usize = 500;
/// Kinds whose documents hold entries or articles.
const KINDS: [Kind; 2] = [Kind::Feed, Kind::Article];

/// What to read again.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Whose documents.
    pub source: Source,
    /// Only of this kind.
    pub kind: Option<Kind>,
    /// Fetched at or after this time.
    pub since: Ts,
    /// Fetched before this time.
    pub until: Option<Ts>,
}

/// What reading again changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Changes {
    /// Documents read.
    pub documents: u64,
    /// Documents that are no longer kept, or cannot be read back.
    pub gone: u64,
    /// Entries.
    pub entries: Tally,
    /// Articles.
    pub articles: Tally,
    /// By field, how many have it now, have another one, or have it no more.
    pub fields: BTreeMap<String, Fields>,
    /// How many entries and articles were kept before.
    #[serde(skip)]
    kept: (u64, u64),
    /// By field, how many of those had it.
    #[serde(skip)]
    had: BTreeMap<String, u64>,
    /// What entries that are restored or new say of their pages: it is there once they are kept.
    #[serde(skip)]
    evidence: HashMap<UrlHash, Evidence>,
}

/// How many are new, different, or no longer found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Nobody knew them.
    pub new: u64,
    /// They say something else.
    pub changed: u64,
    /// They are kept, and today's handlers do not find them: they stay.
    pub lost: u64,
    /// Their rows are damaged, and are restored.
    pub restored: u64,
}

/// What becomes of one field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fields {
    /// It was empty.
    pub gained: u64,
    /// It was another.
    pub changed: u64,
    /// It is empty now.
    pub lost: u64,
}

impl Changes {
    /// Whether there is nothing to apply.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Entries and articles that change.
    #[must_use]
    pub const fn count(&self) -> u64 {
        let (entries, articles) = (self.entries, self.articles);
        entries.new
            + entries.changed
            + entries.restored
            + articles.new
            + articles.changed
            + articles.restored
    }

    /// How much worse it gets, from 0 to 1: the greatest share of what was kept that is lost, be it
    /// entries, articles or one of their fields. One article does not make up for another; a field
    /// that some gain may make up for that of others.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let (entries, articles) = self.kept;
        let kinds = [(self.entries, entries), (self.articles, articles)];
        let whole = kinds.map(|(tally, kept)| share(tally.lost, 0, kept));
        let fields = self.fields.iter().map(|(name, fields)| {
            share(fields.lost, fields.gained, self.had.get(name).copied().unwrap_or_default())
        });
        whole.into_iter().chain(fields).fold(0.0, f64::max)
    }

    /// Counts what is kept of one entry or article.
    fn count_kept(&mut self, before: &Value) {
        for (name, _) in before.as_object().into_iter().flatten().filter(|it| !is_nothing(it.1)) {
            *self.had.entry(name.clone()).or_default() += 1;
        }
    }

    /// Notes what an entry says of its page, for the page to be read as it will be once the entry is kept.
    fn note_evidence(&mut self, fact: &EntryFact) {
        if let Some(page) = fact.link_hash {
            self.evidence.entry(page).or_insert_with(|| fact.entry.clone().into());
        }
    }

    /// Counts what becomes of each field.
    pub fn compare(&mut self, before: &Value, after: &Value) {
        let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else { return };
        for (name, new) in after {
            let old = before.get(name).unwrap_or(&Value::Null);
            let tally = match (is_nothing(old), is_nothing(new)) {
                _ if old == new => continue,
                (true, true) => continue,
                (true, _) => |fields: &mut Fields| fields.gained += 1,
                (_, true) => |fields: &mut Fields| fields.lost += 1,
                (false, false) => |fields: &mut Fields| fields.changed += 1,
            };
            tally(self.fields.entry(name.clone()).or_default());
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "nobody keeps that many")]
fn share(lost: u64, gained: u64, kept: u64) -> f64 {
    lost.saturating_sub(gained) as f64 / kept.max(1) as f64
}

/// Whether a field is as good as absent.
#[must_use]
pub fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// What documents that were read before this one said, as far as it is not kept yet.
struct Earlier<'a> {
    evidence: &'a HashMap<UrlHash, Evidence>,
    /// Entries without an id of the feed's, as they were last: they are known by their pages.
    kin: &'a [LinkedEntry],
}

/// Reads archived documents again.
pub struct Replay {
    store: Arc<dyn Store>,
    reader: Reader,
    house: Arc<House>,
    max_body: usize,
}

/// Hears how many documents were read.
pub type Watch<'a> = &'a mut (dyn FnMut(u64) + Send);

impl Replay {
    /// With the handlers as they are configured.
    #[must_use]
    pub fn new(config: &Config, store: Arc<dyn Store>, reader: Reader) -> Self {
        let max_body = config.fetch.max_body.as_len();
        Self { store, reader, house: Arc::new(house(config)), max_body }
    }

    /// What would change.
    pub async fn survey(&self, wanted: &Wanted, watch: Watch<'_>) -> Result<Changes, DbError> {
        let mut changes = Changes::default();
        self.each(
            wanted,
            &mut changes,
            async |read, changes| self.weigh(&read, changes).await,
            watch,
        )
        .await?;
        Ok(changes)
    }

    /// Makes it so; how many entries and articles changed. Each task is a transaction of its own,
    /// which looks again at what is kept by then.
    pub async fn apply(&self, wanted: &Wanted, watch: Watch<'_>) -> Result<u64, DbError> {
        let (mut changes, mut applied) = (Changes::default(), 0);
        let keep = async |read: Reread, _: &mut Changes| {
            applied += self.store.reread(read).await?;
            Ok(())
        };
        self.each(wanted, &mut changes, keep, watch).await?;
        Ok(applied)
    }

    async fn each(
        &self,
        wanted: &Wanted,
        changes: &mut Changes,
        mut with: impl AsyncFnMut(Reread, &mut Changes) -> Result<(), DbError>,
        watch: Watch<'_>,
    ) -> Result<(), DbError> {
        for kind in KINDS.into_iter().filter(|kind| wanted.kind.is_none_or(|only| only == *kind)) {
            let order = Order::default();
            let mut filter = TaskFilter {
                source: Some(wanted.source.uuid.clone()),
                kind: Some(kind),
                order,
                limit: PAGE,
                ..TaskFilter::default()
            };
            loop {
                let tasks = self.store.list(filter.clone()).await?;
                let Some(last) = tasks.last() else { break };
                filter.after = Some(Cursor::behind(last, order));
                for task in tasks {
                    let read = self.read_again(wanted, task, changes).await?;
                    with(read, changes).await?;
                    watch(changes.documents);
                }
            }
        }
        Ok(())
    }

    /// What the documents of a task say today, the latest first heard.
    async fn read_again(
        &self,
        wanted: &Wanted,
        task: Task,
        changes: &mut Changes,
    ) -> Result<Reread, DbError> {
        let mut fetches = self.store.fetches(task.id, usize::MAX).await?;
        fetches.retain(|fetch| {
            fetch.status == Some(200)
                && fetch.at >= wanted.since
                && wanted.until.is_none_or(|until| fetch.at < until)
        });
        let mut read = Reread { task, entries: Vec::new(), article: None };
        if read.task.kind == Kind::Feed {
            self.read_feed(wanted, &fetches, &mut read, changes).await?;
        } else {
            self.read_page(wanted, &fetches, &mut read, changes).await?;
        }
        Ok(read)
    }

    /// Reads the documents of a feed in the order in which they came, as an item is known by what it was before;
    /// of an entry that stands in several the last form counts.
    async fn read_feed(
        &self,
        wanted: &Wanted,
        fetches: &[FetchRecord],
        read: &mut Reread,
        changes: &mut Changes,
    ) -> Result<(), DbError> {
        let mut bodies = HashSet::new();
        let latest = fetches.iter().filter(|fetch| bodies.insert(&fetch.body_sha256));
        let mut order: Vec<&FetchRecord> = latest.collect();
        order.reverse();
        // Where the last form of each entry is.
        let mut places: HashMap<EntryId, usize> = HashMap::new();
        let mut gone = HashSet::new();
        let mut kin: Vec<LinkedEntry> = Vec::new();
        for fetch in order {
            let document = self.document(&read.task, wanted, fetch, &kin, changes).await?;
            let Some((at, outcome)) = document else {
                gone.insert(&fetch.body_sha256);
                continue;
            };
            let unnamed = outcome.entries.iter().filter(|fact| !handle::has_id(&fact.entry.uid));
            for fact in unnamed {
                kin.retain(|entry| entry.id != fact.id);
                let EntryFact { id, content_hash, link_hash, entry, .. } = fact.clone();
                kin.push(LinkedEntry::of(id, content_hash, link_hash, entry));
            }
            for fact in outcome.entries {
                let place = *places.entry(fact.id).or_insert(read.entries.len());
                match read.entries.get_mut(place) {
                    Some(earlier) => *earlier = (at, fact),
                    None => read.entries.push((at, fact)),
                }
            }
        }
        let known = places.into_keys().collect();
        let is_read = |fetch: &&FetchRecord| !gone.contains(&fetch.body_sha256);
        let heard = fetches.iter().filter(is_read).map(|fetch| fetch.id).collect();
        self.count_lost_entries(&read.task, &heard, &known, changes).await
    }

    /// Reads the last document of a page that can be read.
    async fn read_page(
        &self,
        wanted: &Wanted,
        fetches: &[FetchRecord],
        read: &mut Reread,
        changes: &mut Changes,
    ) -> Result<(), DbError> {
        let mut bodies = HashSet::new();
        for fetch in fetches.iter().filter(|fetch| bodies.insert(&fetch.body_sha256)) {
            let document = self.document(&read.task, wanted, fetch, &[], changes).await?;
            let Some((at, outcome)) = document else { continue };
            read.entries.extend(outcome.entries.into_iter().map(|fact| (at, fact)));
            return match outcome.article {
                Some(fact) => {
                    read.article = Some((at, fact));
                    Ok(())
                }
                None => self.count_lost_article(&read.task, fetch, changes).await,
            };
        }
        Ok(())
    }

    /// What a document says today, and when it had come; counts whether it can be read.
    async fn document(
        &self,
        task: &Task,
        wanted: &Wanted,
        fetch: &FetchRecord,
        kin: &[LinkedEntry],
        changes: &mut Changes,
    ) -> Result<Option<(Ts, Outcome)>, DbError> {
        let Some(stored) = self.stored(fetch).await else {
            changes.gone += 1;
            return Ok(None);
        };
        changes.documents += 1;
        let at = fetch.at.after(Duration::from_millis(fetch.elapsed_ms));
        let earlier = Earlier { evidence: &changes.evidence, kin };
        Ok(Some((at, self.handle(task, wanted, fetch, (stored, at), earlier).await?)))
    }

    async fn stored(&self, fetch: &FetchRecord) -> Option<Stored> {
        let raw = fetch.raw.as_ref()?;
        match self.reader.stored(raw).await {
            // What is fetched is cut off there: to read more of it would take more memory.
            Ok(stored) if stored.body.len() > self.max_body => {
                let (segment, offset, bytes) = (&raw.segment, raw.offset, stored.body.len());
                tracing::warn!(
                    segment,
                    offset,
                    bytes,
                    "skipped document larger than fetch.max_body"
                );
                None
            }
            Ok(stored) => Some(stored),
            Err(error) => {
                tracing::warn!(%error, fetch = %fetch.id, "a document could not be read back");
                None
            }
        }
    }

    /// The two pure steps with the look-up between them. Entries that are known come out like new
    /// ones, because also what is no content may be different.
    async fn handle(
        &self,
        task: &Task,
        wanted: &Wanted,
        fetch: &FetchRecord,
        (stored, at): (Stored, Ts),
        earlier: Earlier<'_>,
    ) -> Result<Outcome, DbError> {
        let lease = Arc::new(lease(task, &wanted.source, at));
        let reply = Reply::Answer(Box::new(response(fetch, stored, at)));
        let (given, house) = (Arc::clone(&lease), Arc::clone(&self.house));
        let parse = move || handle::parse(&given, &reply, &house);
        let failed = |error: tokio::task::JoinError| DbError::Engine(error.to_string());
        let (parsed, ask) = tokio::task::spawn_blocking(parse).await.map_err(failed)?;
        let page = ask.evidence;
        let mut known = of_another_content(self.store.lookup(ask).await?);
        known.evidence = known.evidence.or_else(|| earlier.evidence.get(&page?).cloned());
        let is_new = |entry: &&LinkedEntry| known.kin.iter().all(|other| other.id != entry.id);
        let kin: Vec<LinkedEntry> = earlier.kin.iter().rev().filter(is_new).cloned().collect();
        known.kin.extend(kin);
        let house = Arc::clone(&self.house);
        let decide = move || handle::decide(&lease, parsed, &known, at, &house);
        tokio::task::spawn_blocking(decide).await.map_err(failed)
    }

    /// Entries whose kept form came with documents that were read again, and that are not among
    /// those that were found.
    async fn count_lost_entries(
        &self,
        task: &Task,
        heard: &HashSet<FetchId>,
        found: &HashSet<EntryId>,
        changes: &mut Changes,
    ) -> Result<(), DbError> {
        let Some(first) = heard.iter().min() else { return Ok(()) };
        let kept = self.store.entries_since(task.id, *first).await?;
        let lost =
            kept.iter().filter(|(entry, fetch)| heard.contains(fetch) && !found.contains(entry));
        let lost = lost.count() as u64;
        changes.entries.lost += lost;
        changes.kept.0 += lost;
        Ok(())
    }

    /// A page is kept under the address that it was served from, which a redirect may have led to.
    async fn count_lost_article(
        &self,
        task: &Task,
        fetch: &FetchRecord,
        changes: &mut Changes,
    ) -> Result<(), DbError> {
        let id = web::parse(&fetch.url)
            .map_or(task.url_hash, |url| UrlHash::of(&web::key(&url, &self.house.key)));
        let Some(kept) = whole(self.store.article(id).await)? else { return Ok(()) };
        let is_its = kept.is_some_and(|(row, _)| row.fetch == Some(fetch.id));
        changes.articles.lost += u64::from(is_its);
        changes.kept.1 += u64::from(is_its);
        Ok(())
    }

    /// Compares with what is kept, as the store will.
    async fn weigh(&self, read: &Reread, changes: &mut Changes) -> Result<(), DbError> {
        for (at, fact) in &read.entries {
            self.weigh_entry(read, *at, fact, changes).await?;
        }
        if let Some((at, fact)) = &read.article {
            self.weigh_article(*at, fact, changes).await?;
        }
        Ok(())
    }

    async fn weigh_entry(
        &self,
        read: &Reread,
        at: Ts,
        fact: &EntryFact,
        changes: &mut Changes,
    ) -> Result<(), DbError> {
        let Some(before) = whole(self.store.entry(fact.id).await)? else {
            changes.entries.restored += 1;
            changes.note_evidence(fact);
            return Ok(());
        };
        if let Some(row) = &before {
            changes.kept.0 += 1;
            changes.count_kept(&value(&row.entry));
        }
        let (feed, source) = (read.task.id, read.task.source);
        if apply::entry_again(before.clone(), fact, feed, source, at, at).is_none() {
            return Ok(());
        }
        match before {
            None => {
                changes.entries.new += 1;
                changes.note_evidence(fact);
            }
            Some(row) => {
                changes.entries.changed += 1;
                changes.compare(&value(&row.entry), &value(&fact.entry));
            }
        }
        Ok(())
    }

    async fn weigh_article(
        &self,
        at: Ts,
        fact: &ArticleFact,
        changes: &mut Changes,
    ) -> Result<(), DbError> {
        let Some(before) = whole(self.store.article(fact.id).await)? else {
            changes.articles.restored += 1;
            return Ok(());
        };
        let with_text = |mut article: Value, text: &str| {
            if let Some(fields) = article.as_object_mut() {
                fields.insert("text".to_owned(), text.into());
            }
            article
        };
        let kept = before.as_ref().map(|(row, text)| with_text(value(&row.article), text));
        if let Some(kept) = &kept {
            changes.kept.1 += 1;
            changes.count_kept(kept);
        }
        if apply::article_again(before.clone(), &Company::default(), fact, at, at).is_none() {
            return Ok(());
        }
        match before.zip(kept) {
            None => changes.articles.new += 1,
            Some(((row, _), kept)) => {
                changes.articles.changed += 1;
                // Half of a text is none.
                let halved = fact.article.word_count < row.article.word_count / 2;
                let text = if halved { "" } else { &fact.text };
                changes.compare(&kept, &with_text(value(&fact.article), text));
            }
        }
        Ok(())
    }
}

/// What is kept; nothing when it is damaged.
fn whole<T>(read: Result<T, DbError>) -> Result<Option<T>, DbError> {
    match read {
        Err(DbError::Corrupt { .. }) => Ok(None),
        read => read.map(Some),
    }
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

/// What is known, as if its content were another: so everything that a document says comes out.
fn of_another_content(mut known: Known) -> Known {
    known.entries.values_mut().for_each(|entry| entry.content_hash = [0; 32]);
    known.kin.iter_mut().for_each(|entry| entry.content_hash = [0; 32]);
    known
}

/// A right to serve that nobody gave: what comes of it goes to no queue.
fn lease(task: &Task, source: &Source, at: Ts) -> Lease {
    Lease {
        id: LeaseId(0),
        task: task.clone(),
        source: Some(Arc::new(source.clone())),
        validators: Validators::default(),
        validators_for: None,
        robots: None,
        now: at,
        until: at,
        delay: Duration::ZERO,
    }
}

pub(super) fn response(fetch: &FetchRecord, stored: Stored, ended: Ts) -> Response {
    // What was sent decides what an answer means: only a conditional request is answered by a 304.
    let request = stored.request.as_ref().and_then(|request| request.http());
    let exchange = Exchange {
        id: fetch.id,
        url: fetch.url.clone(),
        request: Headers(request.map(|(head, _)| head.headers).unwrap_or_default()),
        status: stored.head.status().unwrap_or_default(),
        reason: String::new(),
        truncated: stored.truncated(),
        headers: Headers(stored.head.headers),
        body: stored.body.into(),
        remote: None,
        began: fetch.at,
        ended,
        elapsed: Duration::from_millis(fetch.elapsed_ms),
    };
    Response { exchange, redirects: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_gained_changed_and_lost() {
        let mut changes = Changes::default();
        let before = json!({"title": "a", "tags": [], "by": "x", "same": 1, "abstract": null});
        let after = json!({"title": "b", "tags": ["t"], "by": "", "same": 1, "abstract": []});
        changes.compare(&before, &after);
        let of = |name: &str| changes.fields.get(name).copied();
        assert_eq!(of("title"), Some(Fields { changed: 1, ..Fields::default() }));
        assert_eq!(of("tags"), Some(Fields { gained: 1, ..Fields::default() }));
        assert_eq!(of("by"), Some(Fields { lost: 1, ..Fields::default() }));
        assert_eq!((of("same"), of("abstract")), (None, None));
    }

    #[test]
    fn the_loss_is_what_nothing_gained_makes_up_for() {
        let mut changes = Changes::default();
        let (with, without) = (json!({"by": "x", "tags": []}), json!({"by": "", "tags": ["t"]}));
        for _ in 0..98 {
            changes.count_kept(&with);
        }
        changes.kept.1 = 100;
        assert!(changes.loss() < 1e-9);
        for _ in 0..2 {
            changes.count_kept(&with);
            changes.compare(&with, &without);
        }
        assert!((changes.loss() - 0.02).abs() < 1e-9, "two of a hundred");
        changes.compare(&without, &with);
        assert!((changes.loss() - 0.01).abs() < 1e-9, "one was gained");
        changes.articles.lost = 50;
        assert!((changes.loss() - 0.5).abs() < 1e-9, "the worst counts");
    }
}
