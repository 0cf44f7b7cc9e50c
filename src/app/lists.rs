//! Lists that others keep, followed while the engine runs: a source-manager's sources, and sets of
//! addresses in Redis.
//!
//! A list that cannot be read changes nothing: everything stays as it was, and it is told once. What a
//! list means is decided in [`sources`](crate::sources).

mod redis;

use std::sync::Arc;
use std::time::Duration;

use feedmill_formats::json::{self, Limits};
use feedmill_formats::{decode, url as web};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::submit::submit;
use super::{AppError, client_behind, edit, key_rules};
use crate::clock::Clock;
use crate::config::{Config, Fetch, RedisSet};
use crate::db::DbError;
use crate::fetch::{Client, FetchError, Guard};
use crate::model::{
    Access, Auth, Kind, Managed, NewSource, NewTask, Origin, Source, SourceChange, SourceId, Ts,
    Validators,
};
use crate::sources::label;
use crate::sources::lists::MAX_ROWS;
use crate::sources::manager::{Step, steps};
use crate::store::{SourceError, Store};

/// Sources on a page of a source-manager, the most that it gives.
const PAGE: usize = 500;
/// Pages that are read at the most: somebody goes round in circles.
const MAX_PAGES: usize = 1_000;
/// The most bytes of a page.
const PAGE_BYTES: usize = 16 << 20;
/// The most values of a page and of all pages: a tree of JSON takes far more memory than its text.
const PAGE_LIMITS: Limits = Limits { depth: 16, values: 200_000, nul: true };
const MAX_VALUES: usize = 2_000_000;
/// Addresses that go to the store at once.
const BATCH: usize = 2_000;

/// Why a list could not be followed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// None is set.
    #[error("no list is followed: set sources.manager.url or sources.redis_sets")]
    None,
    /// Its address is no address.
    #[error("`{0}` is no address of a source-manager")]
    Address(String),
    /// It could not be asked.
    #[error("the source-manager cannot be asked: {0}")]
    Fetch(#[from] FetchError),
    /// It did not answer as it should.
    #[error("the source-manager's answer cannot be used: {0}")]
    Answer(String),
    /// Redis could not be asked, or answered with an error.
    #[error("the sets of {0} cannot be read: {1}")]
    Redis(String, String),
    /// The client could not be made.
    #[error(transparent)]
    App(#[from] AppError),
    /// The store failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl ListError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::None => "no_list",
            Self::Address(_) => "bad_manager",
            Self::Fetch(_) => "manager_away",
            Self::Answer(_) => "manager_answer",
            Self::Redis(..) => "redis",
            Self::App(error) => error.code(),
            Self::Db(error) => error.code(),
        }
    }
}

/// What following a list did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Synced {
    /// Sources that are new.
    pub added: u64,
    /// Sources that changed.
    pub changed: u64,
    /// Sources that are followed again.
    pub enabled: u64,
    /// Sources that are no longer followed.
    pub disabled: u64,
    /// Addresses that are new.
    pub submitted: u64,
    /// What of the lists is left alone, and why.
    pub left: Vec<String>,
}

/// Follows what is configured until it is told to stop.
pub(super) async fn keep(
    config: Arc<Config>,
    store: Arc<dyn Store>,
    clock: Clock,
    stop: CancellationToken,
) {
    let lists = &config.sources;
    let manager = async {
        if !lists.manager.url.is_empty() {
            let look = || follow_manager(&config, &*store, &clock);
            every(lists.manager.interval.duration(), "the source-manager", look, &clock).await;
        }
    };
    let sets = async {
        if !lists.redis_sets.is_empty() {
            let look = || follow_sets(&config, &*store, &clock);
            every(lists.redis_interval.duration(), "sets in Redis", look, &clock).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        _ = async { tokio::join!(manager, sets) } => {}
    }
}

/// Looks again and again. What fails is told once, and once more when it goes well again.
async fn every<F: Future<Output = Result<Synced, ListError>>>(
    interval: Duration,
    what: &str,
    look: impl Fn() -> F,
    clock: &Clock,
) {
    let (mut failing, mut left) = (false, Vec::new());
    loop {
        let began = clock.now();
        match look().await {
            Ok(synced) => {
                if failing {
                    tracing::info!("{what} can be followed again");
                }
                failing = false;
                let Synced { added, changed, enabled, disabled, submitted, .. } = synced;
                if added + changed + enabled + disabled + submitted > 0 {
                    tracing::info!(added, changed, enabled, disabled, submitted, "followed {what}");
                }
                if synced.left != left {
                    for reason in &synced.left {
                        tracing::warn!(%reason, "something of {what} is left alone");
                    }
                    left = synced.left;
                }
            }
            Err(error) if !failing => {
                tracing::warn!(%error, "{what} cannot be followed; everything stays as it is");
                failing = true;
            }
            Err(error) => tracing::debug!(%error, "{what} still cannot be followed"),
        }
        clock.sleep_until(began.after(interval)).await;
    }
}

/// Follows all lists once.
pub async fn follow(
    config: &Config,
    store: &dyn Store,
    clock: &Clock,
) -> Result<Synced, ListError> {
    let lists = &config.sources;
    if lists.manager.url.is_empty() && lists.redis_sets.is_empty() {
        return Err(ListError::None);
    }
    let mut synced = Synced::default();
    if !lists.manager.url.is_empty() {
        synced = follow_manager(config, store, clock).await?;
    }
    let Synced { added, submitted, left, .. } = follow_sets(config, store, clock).await?;
    synced.added += added;
    synced.submitted += submitted;
    synced.left.extend(left);
    Ok(synced)
}

async fn follow_manager(
    config: &Config,
    store: &dyn Store,
    clock: &Clock,
) -> Result<Synced, ListError> {
    let by = config.sources.manager.url.trim_end_matches('/').to_owned();
    let listed = pages(config, clock).await?;
    let sources = store.sources().await?;
    let owned = |source: &Source| source.spec.managed.as_ref().is_some_and(|it| it.by == by);
    if listed.is_empty() && sources.iter().any(owned) {
        let told = "it lists nothing at all, which is taken for a failure of its own";
        return Err(ListError::Answer(told.to_owned()));
    }
    let guard = Guard::new(&config.fetch);
    let permit = |url: &Url| guard.check_url(url).map_err(|refusal| refusal.to_string());
    let planned = steps(&by, listed, &sources, key_rules(config), permit);
    let mut synced = Synced { left: planned.left, ..Synced::default() };
    for step in planned.steps {
        let (count, done) = match step {
            Step::Add(new) => (&mut synced.added, store.admit_source(*new).await),
            Step::Change { was, now } => {
                let change = SourceChange::Whole { was: Box::new(was.spec), now };
                (&mut synced.changed, store.respecify(&was.uuid, change).await)
            }
            Step::Enable(id) => {
                let min = config.schedule.min_interval.duration();
                (&mut synced.enabled, edit::enable(store, &id, clock.now(), min).await)
            }
            Step::Disable(id, reason) => {
                (&mut synced.disabled, store.set_enabled(&id, Some(reason)).await)
            }
        };
        match done {
            Ok(_) => *count += 1,
            Err(SourceError::Db(error)) => return Err(error.into()),
            // Somebody was faster: the next look sees what they did.
            Err(error) => synced.left.push(error.to_string()),
        }
    }
    Ok(synced)
}

/// A page of a source-manager's list.
#[derive(Debug, Deserialize)]
struct Page {
    sources: Vec<Map<String, Value>>,
    total: Option<usize>,
}

/// The whole list, or nothing of it.
async fn pages(config: &Config, clock: &Clock) -> Result<Vec<Map<String, Value>>, ListError> {
    let manager = &config.sources.manager;
    let base = web::parse(&manager.url).map_err(|_| ListError::Address(manager.url.clone()))?;
    let client = trusting(config, &base, clock)?;
    let visitor = visitor(&base, &manager.token);
    let (mut listed, mut sum) = (Vec::<Map<String, Value>>::new(), 0);
    for number in 1..=MAX_PAGES {
        let (values, page) = page(&client, &base, &visitor, number, config).await?;
        let Page { sources, total } = page;
        sum += values;
        if sum > MAX_VALUES || listed.len() + sources.len() > MAX_ROWS {
            return Err(ListError::Answer(format!("it lists more than {MAX_ROWS} sources")));
        }
        let last = sources.len() < PAGE;
        let none = sources.is_empty();
        listed.extend(sources);
        match total {
            Some(total) if listed.len() >= total => return Ok(listed),
            Some(total) if none => {
                let told = format!("it has {total} sources and gave {}", listed.len());
                return Err(ListError::Answer(told));
            }
            None if last => return Ok(listed),
            Some(_) | None => {}
        }
    }
    Err(ListError::Answer(format!("it has more than {MAX_PAGES} pages")))
}

async fn page(
    client: &Client,
    base: &Url,
    visitor: &Source,
    number: usize,
    config: &Config,
) -> Result<(usize, Page), ListError> {
    let mut address = base.clone();
    let path = base.path().trim_end_matches('/');
    let whole = path.strip_suffix("/api/v1/sources").unwrap_or(path);
    address.set_path(&format!("{whole}/api/v1/sources"));
    address.set_query(Some(&format!("page={number}&limit={PAGE}")));
    let validators = Validators::default();
    let answer =
        client.get(&address, Kind::Enclosure, &validators, Some(visitor), Duration::MAX).await?;
    if answer.status != 200 || answer.truncated.is_some() {
        return Err(ListError::Answer(format!("{address} gives status {}", answer.status)));
    }
    let coding = answer.headers.get("content-encoding").map(str::to_owned);
    let limit = config.fetch.max_decoded.as_len().min(PAGE_BYTES);
    let read = move || {
        let body = decode::capped(&answer.body, coding.as_deref(), limit)
            .map_err(|error| ListError::Answer(error.to_string()))?;
        read_page(&body)
    };
    let broken = |error: tokio::task::JoinError| ListError::Answer(error.to_string());
    tokio::task::spawn_blocking(read).await.map_err(broken)?
}

/// Reads a page, and counts its values.
fn read_page(body: &[u8]) -> Result<(usize, Page), ListError> {
    let broken = |error: String| ListError::Answer(error);
    let values = json::check(body, PAGE_LIMITS).map_err(|error| broken(error.to_string()))?;
    let page = serde_json::from_slice(body).map_err(|error| broken(error.to_string()))?;
    Ok((values, page))
}

/// A client for whom the operator's word is enough: a source-manager is often on the same machine.
fn trusting(config: &Config, base: &Url, clock: &Clock) -> Result<Client, ListError> {
    let everywhere = ["0.0.0.0/0", "::/0"].iter().filter_map(|network| network.parse().ok());
    let fetch = Fetch {
        allow_networks: everywhere.collect(),
        allow_hosts: Vec::new(),
        allow_ports: base.port_or_known_default().into_iter().collect(),
        ..config.fetch.clone()
    };
    Ok(client_behind(config, Guard::new(&fetch), clock)?)
}

/// Who we are to the source-manager: a source whose site it is, with the token.
fn visitor(base: &Url, token: &crate::config::Secret) -> Source {
    let auth = (!token.expose().is_empty()).then(|| Auth::Bearer(token.clone()));
    let access = Access { auth, ..Access::default() };
    let spec = NewSource { access, ..NewSource::new("source-manager", base.as_str()) };
    let id = SourceId(0);
    Source {
        id,
        uuid: String::new(),
        spec,
        enabled_at: None,
        disabled_at: None,
        disable_reason: None,
        created_at: Ts::from_ms(0),
    }
}

/// Takes in the addresses of all sets.
async fn follow_sets(
    config: &Config,
    store: &dyn Store,
    clock: &Clock,
) -> Result<Synced, ListError> {
    let (mut synced, guard) = (Synced::default(), Guard::new(&config.fetch));
    let limit = config.fetch.read_timeout.duration();
    for set in &config.sources.redis_sets {
        let away = |error: ::redis::RedisError| ListError::Redis(set.name(), error.to_string());
        let mut server = redis::Connection::open(set, limit).await.map_err(away)?;
        for key in server.sets(&set.pattern).await.map_err(away)? {
            let category = key.rsplit(':').next().unwrap_or(&key).trim();
            let Some(source) = category_source(set, &key, category, store, &mut synced).await?
            else {
                continue;
            };
            let (mut cursor, mut left) = (redis::Cursor::default(), Left::default());
            while let Some(members) = server.members(&key, &mut cursor).await.map_err(away)? {
                let (urls, other): (Vec<_>, Vec<_>) = members.into_iter().partition(Result::is_ok);
                for _ in other {
                    left.note(|| "what is no text is no address".to_owned());
                }
                let urls: Vec<String> = urls.into_iter().filter_map(Result::ok).collect();
                for batch in urls.chunks(BATCH) {
                    let tasks = batch.iter().map(|url| article(url, &source)).collect();
                    let report = submit(store, &guard, tasks).await?;
                    synced.submitted += report.new;
                    for one in report.rejected {
                        left.note(|| format!("`{}`: {}", excerpt(&one.url), one.reason));
                    }
                }
            }
            synced.left.extend(left.told(&key));
        }
    }
    tracing::debug!(submitted = synced.submitted, at = %clock.now(), "read sets in Redis");
    Ok(synced)
}

/// Members of a set that are no addresses to follow, with the reason of the first.
#[derive(Default)]
struct Left {
    count: u64,
    first: Option<String>,
}

impl Left {
    fn note(&mut self, why: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(why);
    }

    fn told(self, key: &str) -> Option<String> {
        let (key, count) = (excerpt(key), self.count);
        let first = self.first?;
        Some(match count {
            1 => format!("{key}: {first}"),
            _ => format!("{key}: {count} members, the first of them {first}"),
        })
    }
}

fn excerpt(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// The source that the members of a set belong to, made if need be; none while it is disabled.
async fn category_source(
    set: &RedisSet,
    key: &str,
    category: &str,
    store: &dyn Store,
    synced: &mut Synced,
) -> Result<Option<Source>, ListError> {
    match store.source(category).await {
        Ok((source, _)) => return Ok(source.enabled().then_some(source)),
        Err(SourceError::Db(error)) => return Err(error.into()),
        Err(_) => {}
    }
    if let Err(error) = label("category", category) {
        synced.left.push(format!("{}: {error}", excerpt(key)));
        return Ok(None);
    }
    let managed = Managed { by: set.name(), id: key.to_owned(), says: Vec::new() };
    let spec = NewSource {
        category: Some(category.to_owned()),
        discover: false,
        managed: Some(managed),
        ..NewSource::new(category, set.name())
    };
    match store.add_source(spec).await {
        Ok(source) => {
            synced.added += 1;
            Ok(Some(source))
        }
        Err(SourceError::Db(error)) => Err(error.into()),
        // Another engine was faster: the next look finds it.
        Err(_) => Ok(None),
    }
}

fn article(url: &str, source: &Source) -> NewTask {
    NewTask {
        url: url.to_owned(),
        kind: Kind::Article,
        origin: Origin::Manual,
        source: Some(source.id),
        base_priority: source.spec.priority,
        depth: 0,
        redirects: 0,
        parent: None,
        not_before: None,
        refetch: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_would_grow_in_memory_is_refused() {
        let fine = br#"{"sources": [{"id": "1", "name": "a"}], "total": 1}"#;
        assert_eq!(read_page(fine).unwrap().0, 10);
        let many = format!("{{\"sources\": [{}{{}}]}}", "{},".repeat(300_000));
        for (page, words) in
            [(many.as_str(), "more than 200000 values"), ("{\"sources\": 1}", "sequence")]
        {
            let error = read_page(page.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
