//! The trail of an address: who told of it, what it waits for, what was answered, what was read, which
//! text it repeats, and which sinks have it.

use std::collections::BTreeSet;
use std::time::Duration;

use feedmill_formats::url::{self as web, Url};
use serde::Serialize;

use super::super::{cursor_name, deliver};
use super::{ExplainError, Wait, Waits, meaning, queue_of};
use crate::config::Config;
use crate::db::DbError;
use crate::frontier::TaskFilter;
use crate::model::{
    ArticleId, ArticleRow, Code, Event, FetchRecord, Kind, Near, Reference, Revision, State, Task,
    Ts, UrlHash,
};
use crate::sinks::Item;
use crate::store::outbox::SinkRow;
use crate::store::{EventFilter, Store};

/// Requests told of each task.
const REQUESTS: usize = 5;
/// Events are looked for so long before and after the time that something happened.
const AROUND: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(15));
/// Events looked at for each such time, and at once.
const LOOKED_AT: usize = 20_000;
const PAGE: usize = 200;

/// An address, and all tasks that it is.
#[derive(Debug, Serialize)]
pub struct AddressTold {
    /// As asked for.
    pub url: String,
    /// The form by which it is one address with others.
    pub url_key: String,
    /// What it is known as: a task in each lane at the most.
    pub tasks: Vec<TaskTold>,
    /// Its host, when that waits.
    pub waits: Vec<Wait>,
}

/// A task and its trail.
#[derive(Debug, Serialize)]
pub struct TaskTold {
    /// The task.
    pub task: Task,
    /// Where it stands and why, in one sentence.
    pub verdict: String,
    /// All that happened and will happen, in order.
    pub trail: Vec<Step>,
    /// Who told of it.
    pub references: Vec<Reference>,
    /// The last requests, newest first.
    pub fetches: Vec<FetchRecord>,
    /// The article that it became.
    pub article: Option<ArticleTold>,
    /// Events about it, and which sinks have them.
    pub deliveries: Vec<Delivered>,
}

/// One step of the way.
#[derive(Debug, Serialize)]
pub struct Step {
    /// When, where that is known.
    pub at: Option<Ts>,
    /// Which: discovered, waiting, fetched, extracted, deduplicated, revised, delivered.
    pub step: &'static str,
    /// What happened.
    pub told: String,
}

/// An article, as far as that explains something.
#[derive(Debug, Serialize)]
pub struct ArticleTold {
    /// Its id.
    pub id: ArticleId,
    /// Its headline.
    pub title: Option<String>,
    /// How its text was found.
    pub method: String,
    /// How sure that is, 0 to 1.
    pub confidence: f32,
    /// Words in the text.
    pub word_count: u32,
    /// The article whose very text it has.
    pub duplicate_of: Option<ArticleId>,
    /// The copies that it is one of.
    pub near: Option<Near>,
    /// All forms that it has had.
    pub revisions: Vec<Revision>,
}

/// An event about an address, and where it went.
#[derive(Debug, Serialize)]
pub struct Delivered {
    /// The event.
    pub event: Event,
    /// What became of it at each sink.
    pub sinks: Vec<AtSink>,
}

/// What became of an event at a sink.
#[derive(Debug, Serialize)]
pub struct AtSink {
    /// The sink.
    pub sink: String,
    /// What became of it.
    pub state: Handed,
    /// Why, where there is something to say.
    pub why: Option<String>,
}

/// What became of an event at a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Handed {
    /// The sink has it, or its place in the log is past it.
    Delivered,
    /// The sink will get it.
    Waiting,
    /// The sink's target would not have it.
    DeadLetter,
    /// The sink does not want such events.
    Filtered,
}

/// Explains an address.
pub(super) async fn of(
    url: &Url,
    config: &Config,
    store: &dyn Store,
    now: Ts,
) -> Result<AddressTold, ExplainError> {
    let rules = store.rules();
    let url_key = web::key(url, &rules.key);
    // A robots.txt is known by its very address: http and https have each their own.
    let hashes = BTreeSet::from([UrlHash::of(&url_key), UrlHash::of(url.as_str())]);
    let waits = Waits::of(&[url.as_str()], store, now).await?.all();
    let mut tasks = Vec::new();
    for hash in hashes {
        let filter = TaskFilter {
            host: queue_of(url.as_str(), rules),
            hash: Some(hash.head()),
            limit: usize::MAX,
            ..TaskFilter::default()
        };
        for task in store.list(filter).await?.into_iter().filter(|task| task.url_hash == hash) {
            let mut told = of_task(task, waits.first(), config, store).await?;
            told.trail.splice(0..0, same_as(url, &told.task));
            tasks.push(told);
        }
    }
    if tasks.is_empty() {
        return Err(ExplainError::Unknown(url.to_string()));
    }
    Ok(AddressTold { url: url.to_string(), url_key, tasks, waits })
}

/// That an address is one with another, by which it is known.
fn same_as(url: &Url, task: &Task) -> Option<Step> {
    let told = format!("{url} is the same address as {}, both are {}", task.url, task.url_key);
    (task.url != url.as_str()).then_some(Step { at: None, step: "deduplicated", told })
}

async fn of_task(
    task: Task,
    wait: Option<&Wait>,
    config: &Config,
    store: &dyn Store,
) -> Result<TaskTold, DbError> {
    let fetches = store.fetches(task.id, REQUESTS).await?;
    let references = store.references(vec![task.id]).await?;
    let article = match find_article(&task, &fetches, store).await? {
        Some(row) => {
            let revisions = store.revisions(row.id).await?;
            Some(ArticleTold::of(row, revisions))
        }
        None => None,
    };
    let deliveries = deliveries(&task, article.as_ref(), &fetches, config, store).await?;
    let verdict = verdict(&task);
    let mut told =
        TaskTold { task, verdict, trail: Vec::new(), references, fetches, article, deliveries };
    told.trail = trail(&told, wait);
    Ok(told)
}

impl ArticleTold {
    fn of(row: ArticleRow, revisions: Vec<Revision>) -> Self {
        Self {
            id: row.id,
            title: row.article.title,
            method: row.article.method,
            confidence: row.article.confidence,
            word_count: row.article.word_count,
            duplicate_of: row.duplicate_of,
            near: row.near,
            revisions,
        }
    }
}

/// The article that a task became: under its own address, or under the one that answered for it.
async fn find_article(
    task: &Task,
    fetches: &[FetchRecord],
    store: &dyn Store,
) -> Result<Option<ArticleRow>, DbError> {
    if !matches!(task.kind, Kind::Article | Kind::Listing) {
        return Ok(None);
    }
    let answered = fetches.iter().filter_map(|fetch| web::parse(&fetch.url).ok());
    let answered = answered.map(|url| UrlHash::of(&web::key(&url, &store.rules().key)));
    for id in std::iter::once(task.url_hash).chain(answered) {
        if let Some((row, _)) = store.article(id).await? {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// Where a task stands and why, in one sentence.
fn verdict(task: &Task) -> String {
    let means = task.last_error.map_or("it failed", meaning);
    let code = task.last_error.map_or_else(String::new, |code| format!(" ({code})"));
    let reason = task.reason.as_deref().map_or_else(String::new, |why| format!(": {why}"));
    let due = task.next_fetch_at;
    match task.state() {
        State::Fetching => "it is being fetched now".to_owned(),
        State::Pending if task.fetch_count == 0 => {
            format!("it waits for its first fetch, at {due}")
        }
        State::Pending => format!("it is asked for again at {due}{reason}"),
        State::Failed => format!("{means}{code}; it is tried again at {due}{reason}"),
        State::Fetched => format!("it was fetched and is done{reason}"),
        State::Dead => format!("it was given up: {means}{code}{reason}"),
        State::Parked => "it is set aside while none of its sources is followed".to_owned(),
    }
}

/// All that happened, and what is to come.
fn trail(told: &TaskTold, wait: Option<&Wait>) -> Vec<Step> {
    let TaskTold { task, references, fetches, article, deliveries, .. } = told;
    let step = |at: Ts, step, told: String| Step { at: Some(at), step, told };
    let mut steps = Vec::new();
    let found = references.iter().map(|one| {
        let channel = one.channel.as_deref().map_or_else(String::new, |url| format!(" {url}"));
        let source = one.source.as_deref().map_or_else(String::new, |name| format!(" of {name}"));
        step(one.first_seen, "discovered", format!("by {}{channel}{source}", one.origin))
    });
    steps.extend(found);
    if references.is_empty() {
        steps.push(step(task.discovered_at, "discovered", format!("by {}", task.origin)));
    }
    for fetch in fetches.iter().rev() {
        let status =
            fetch.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        let elsewhere =
            if fetch.url == task.url { String::new() } else { format!(" at {}", fetch.url) };
        let told = format!(
            "{status}{elsewhere}, {} bytes in {} ms: {}, {}",
            fetch.bytes,
            fetch.elapsed_ms,
            fetch.code,
            meaning(fetch.code)
        );
        steps.push(step(fetch.at, "fetched", told));
    }
    if let Some(article) = article {
        steps.extend(of_article(article));
    }
    for Delivered { event, sinks } in deliveries {
        for AtSink { sink, state, why } in sinks {
            let state = match state {
                Handed::Delivered => "delivered to",
                Handed::Waiting => "waits for",
                Handed::DeadLetter => "refused by",
                Handed::Filtered => "not wanted by",
            };
            let why = why.as_deref().map_or_else(String::new, |why| format!(": {why}"));
            let told = format!("{} (event {}) {state} {sink}{why}", event.kind, event.seq);
            steps.push(step(event.at, "delivered", told));
        }
    }
    // What happened at the same time stays in the order of the way.
    steps.sort_by_key(|step| step.at);
    if matches!(task.state(), State::Pending | State::Failed) {
        let reason = task.reason.as_deref().map_or_else(String::new, |why| format!(": {why}"));
        let told = format!("priority {}, due then{reason}", task.priority);
        steps.push(step(task.next_fetch_at, "waiting", told));
        let host =
            wait.map(|wait| step(wait.until, "waiting", format!("{}: {}", wait.host, wait.why)));
        steps.extend(host);
    }
    steps
}

/// What was read, whose text it has, and how it changed.
fn of_article(article: &ArticleTold) -> Vec<Step> {
    let mut steps = Vec::new();
    let first = article.revisions.first().map(|revision| revision.seen);
    let read = format!(
        "article {}: {} words by {}, {:.0} % sure",
        article.id,
        article.word_count,
        article.method,
        article.confidence * 100.0
    );
    steps.push(Step { at: first, step: "extracted", told: read });
    if let Some(of) = article.duplicate_of {
        let told = format!("has the very text of article {of}");
        steps.push(Step { at: first, step: "deduplicated", told });
    }
    if let Some(near) = &article.near {
        let told = format!("a copy, kept with article {}: {}", near.cluster, near.reason());
        steps.push(Step { at: first, step: "deduplicated", told });
    }
    for revision in article.revisions.iter().skip(1) {
        let told = match revision.change {
            Some(change) => {
                let silent = if change.silent { ", without saying so" } else { "" };
                let (added, removed) = (change.added, change.removed);
                format!(
                    "form {}: {added} words put in, {removed} taken out{silent}",
                    revision.revision
                )
            }
            None => format!("form {}", revision.revision),
        };
        steps.push(Step { at: Some(revision.seen), step: "revised", told });
    }
    steps
}

/// Events about a page, found by the times at which something happened to it, and where they went.
async fn deliveries(
    task: &Task,
    article: Option<&ArticleTold>,
    fetches: &[FetchRecord],
    config: &Config,
    store: &dyn Store,
) -> Result<Vec<Delivered>, DbError> {
    if task.kind != Kind::Article {
        return Ok(Vec::new());
    }
    let failed = task.last_error.is_some_and(|code| code != Code::Redirect);
    let last = fetches.first().filter(|_| failed || article.is_none());
    let mut times: Vec<Ts> = last.iter().map(|fetch| fetch.at).collect();
    let revisions = article.map(|article| article.revisions.as_slice()).unwrap_or_default();
    times.extend(revisions.iter().map(|revision| revision.seen));
    let mut subjects = vec![task.url_hash.to_string()];
    subjects.extend(article.map(|article| article.id.to_string()));
    let mut events: Vec<Event> = Vec::new();
    for time in times {
        if let Some(event) = event_at(time, &subjects, store).await?
            && events.iter().all(|known| known.seq != event.seq)
        {
            events.push(event);
        }
    }
    events.sort_by_key(|event| event.seq);
    let sinks = store.sinks().await?;
    let mut told = Vec::new();
    for event in events {
        let mut at = Vec::new();
        for sink in &sinks {
            at.push(at_sink(&event, sink, config, store).await?);
        }
        told.push(Delivered { event, sinks: at });
    }
    Ok(told)
}

/// The first event about one of these that was written around a time. The log is in the order of time, so
/// its place is found by halving, without an index for it.
async fn event_at(
    time: Ts,
    subjects: &[String],
    store: &dyn Store,
) -> Result<Option<Event>, DbError> {
    let (from, until) = (time.before(AROUND.0), time.after(AROUND.1));
    let ends = store.log_ends(0).await?;
    let (mut low, mut high) = (ends.first.saturating_sub(1), ends.last);
    while low < high {
        let middle = low + (high - low) / 2;
        match store.log_ends(middle).await?.next_at {
            Some(at) if at < from => low = middle + 1,
            _ => high = middle,
        }
    }
    let mut place = low;
    for _ in 0..LOOKED_AT / PAGE {
        let filter = EventFilter { after: place, limit: PAGE, ..EventFilter::default() };
        let events = store.events(filter).await?;
        let Some(last) = events.last().map(|event| (event.seq, event.at)) else { break };
        let found = events.into_iter().find(|event| subjects.contains(&event.subject));
        if let Some(found) = found {
            return Ok(Some(found).filter(|event| event.at <= until));
        }
        if last.1 > until {
            break;
        }
        place = last.0;
    }
    Ok(None)
}

/// What became of an event at a sink.
async fn at_sink(
    event: &Event,
    sink: &SinkRow,
    config: &Config,
    store: &dyn Store,
) -> Result<AtSink, DbError> {
    let told = |state, why| AtSink { sink: sink.name.clone(), state, why };
    let letters = match sink.dead_letters {
        0 => Vec::new(),
        _ => store.dead_letters(&sink.name, event.seq - 1, false, 1).await?,
    };
    if let Some(letter) = letters.into_iter().find(|letter| letter.seq == event.seq) {
        let why = format!("{}, {}", letter.code, letter.reason);
        return Ok(told(Handed::DeadLetter, Some(why)));
    }
    let named = config.sinks.keys().find(|name| cursor_name(config, name) == sink.name);
    if let Some(filter) = named.and_then(|name| deliver::filter(name, config)) {
        let joined = store.join(Item::wanted(std::slice::from_ref(event))).await?;
        let wanted = filter.wants(event)
            && Item::of(event.clone(), &joined).is_none_or(|item| filter.passes(&item));
        if !wanted {
            return Ok(told(Handed::Filtered, None));
        }
    }
    if event.seq <= sink.cursor.seq {
        return Ok(told(Handed::Delivered, None));
    }
    let why = match (&sink.paused_at, &sink.last_error) {
        (Some(since), _) => Some(format!("paused since {since}")),
        (None, Some(error)) => Some(error.clone()),
        (None, None) => Some(format!("it has come as far as event {}", sink.cursor.seq)),
    };
    Ok(told(Handed::Waiting, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_sentence_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for code in Code::ALL {
            let told = meaning(*code);
            assert!(told.len() > 20 && seen.insert(told), "{code}: {told}");
            assert!(!told.ends_with('.') && !told.contains("  "), "{code}: {told}");
        }
    }
}
