//! Sinks from the configuration, at work beside the engine, and the log kept as long as they need it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use feedmill_formats::decode;
use feedmill_formats::url::Url;
use reqwest::Certificate;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio_util::sync::CancellationToken;

use super::{AppError, cursor_name, key_rules, lease, reader};
use crate::archive::{ArchiveError, Reader};
use crate::clock::Clock;
use crate::config::{self, Config, EsLayout, EsMode, Secret, SecretUrl, Span, StartAt, Target};
use crate::fetch::{Guard, poster};
use crate::model::{FetchId, FetchRecord};
use crate::progress::Progress;
use crate::sinks::elasticsearch::{self, Elasticsearch, Layout, Mode};
use crate::sinks::redis::{Server, canonical::Canonical, stream::RedisStream};
use crate::sinks::{
    Bodies, Body, Filter, Pump, Redact, Redaction, Sink, SinkError, Terms, files, nats, ndjson,
    stdout, webhook,
};
use crate::store::outbox::{SinkRow, Start};
use crate::store::{FetchFilter, Store};

/// Events that one transaction removes.
const BATCH: usize = 5_000;
/// Between two looks for events that are no longer kept.
const LOOK: Duration = Duration::from_hours(1);

/// A sink, and what it gets.
pub type Made = (Box<dyn Sink>, Terms);

/// The sink of this name, with what it gets.
pub fn sink(
    name: &str,
    config: &Config,
    clock: &Clock,
    store: &Arc<dyn Store>,
) -> Result<Option<Made>, AppError> {
    let Some(settings) = config.sinks.get(name) else { return Ok(None) };
    let dir = config.sink_dir(name).unwrap_or_default();
    let sink: Box<dyn Sink> = match &settings.target {
        Target::Ndjson { max_size, compress, raw, mode, .. } => {
            let bodies = raw.then(|| bodies(config, store)).transpose()?;
            let (max_size, compress, mode) = (max_size.as_bytes(), *compress, mode.bits());
            let settings = ndjson::Settings { dir, max_size, compress, mode, bodies };
            Box::new(ndjson::Ndjson::new(settings))
        }
        Target::Files { mode, .. } => {
            Box::new(files::Files::new(dir, mode.bits(), key_rules(config)))
        }
        Target::Stdout {} => Box::new(stdout::Stdout),
        Target::Elasticsearch { url, .. } => {
            let url = Url::parse(url.expose()).map_err(|error| AppError::sink(name, &error))?;
            let redact = terms(settings).redact;
            let settings = cluster(url, &settings.target, redact, (config, store))?;
            Box::new(Elasticsearch::new(settings))
        }
        Target::Webhook { url, secret, headers, parallel, timeout } => {
            let url = Url::parse(url.expose()).map_err(|error| AppError::sink(name, &error))?;
            let guard = Guard::new(&config.fetch);
            Box::new(webhook::Webhook::new(webhook::Settings {
                refused: guard.check_url(&url).err().map(|refusal| refusal.to_string()),
                client: poster(guard, config.fetch.connect_timeout.duration(), Vec::new())?,
                url,
                key: webhook::key(secret.expose()),
                headers: lines(headers).map_err(|error| AppError::sink(name, &error))?,
                parallel: *parallel,
                timeout: timeout.duration(),
                clock: clock.clone(),
            }))
        }
        Target::Redis { url, root_cert, prefix, timeout } => {
            let server = server(name, url, root_cert, *timeout)?;
            let bodies = bodies(config, store)?;
            let canonical = Canonical::new(server, prefix.clone(), bodies, clock.clone());
            Box::new(canonical)
        }
        Target::RedisStream { url, root_cert, key, max_len, timeout } => {
            let server = server(name, url, root_cert, *timeout)?;
            Box::new(RedisStream::new(server, key.clone(), *max_len))
        }
        Target::Nats { url, stream, subject, timeout } => {
            Box::new(nats::Nats::new(nats::Settings {
                url: url.expose().to_owned(),
                shown: url.to_string(),
                stream: stream.clone(),
                subject: subject.clone(),
                timeout: timeout.duration(),
            }))
        }
    };
    Ok(Some((sink, terms(settings))))
}

fn cluster(
    url: Url,
    target: &Target,
    redact: Redact,
    (config, store): (&Config, &Arc<dyn Store>),
) -> Result<elasticsearch::Settings, AppError> {
    let Target::Elasticsearch {
        api_key,
        user,
        password,
        root_cert,
        layout,
        index,
        mode,
        max_bytes,
        parallel,
        gzip,
        shards,
        replicas,
        timeout,
        ..
    } = target
    else {
        return Err(AppError::sink(target.kind(), &"it is no cluster"));
    };
    let authorization = match (api_key.expose(), user.as_str()) {
        ("", "") => None,
        ("", user) => {
            let pair = format!("{user}:{}", password.expose());
            Some(format!("Basic {}", STANDARD.encode(pair)))
        }
        (key, _) => Some(format!("ApiKey {key}")),
    };
    let authorization = authorization
        .map(|value| {
            HeaderValue::try_from(value)
                .map_err(|_| AppError::sink(target.kind(), &"the key or password cannot be sent"))
        })
        .transpose()?;
    let raw = *layout == EsLayout::RawContent;
    let roots = certificates("elasticsearch", root_cert)?.unwrap_or_default();
    let trusted = Certificate::from_pem_bundle(&roots).unwrap_or_default();
    Ok(elasticsearch::Settings {
        url,
        authorization,
        layout: if raw { Layout::RawContent } else { Layout::Articles(index.clone()) },
        mode: match mode {
            EsMode::Create => Mode::Create,
            EsMode::Auto if raw => Mode::Create,
            EsMode::Auto | EsMode::Update => Mode::Update,
        },
        max_bytes: max_bytes.as_len(),
        parallel: *parallel,
        gzip: *gzip,
        shards: *shards,
        replicas: *replicas,
        timeout: timeout.duration(),
        // The operator names it, and it may well be next door.
        client: poster(Guard::none(), config.fetch.connect_timeout.duration(), trusted)?,
        bodies: bodies(config, store)?,
        redact,
    })
}

/// The certificates (PEM) in a file; none without a name.
fn certificates(sink: &str, path: &Path) -> Result<Option<Vec<u8>>, AppError> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let bad = |error: &dyn std::fmt::Display| {
        AppError::sink(sink, &format!("root_cert {}: {error}", path.display()))
    };
    let pem = std::fs::read(path).map_err(|error| bad(&error))?;
    match Certificate::from_pem_bundle(&pem) {
        Ok(all) if !all.is_empty() => Ok(Some(pem)),
        _ => Err(bad(&"it holds no certificate in PEM form")),
    }
}

fn server(
    name: &str,
    url: &SecretUrl,
    root_cert: &Path,
    timeout: Span,
) -> Result<Server, AppError> {
    let roots = certificates(name, root_cert)?;
    Ok(Server::new(url.expose().to_owned(), url.to_string(), roots, timeout.duration()))
}

fn bodies(config: &Config, store: &Arc<dyn Store>) -> Result<Arc<dyn Bodies>, ArchiveError> {
    Ok(Arc::new(Archived::new(config, store)?))
}

/// Header lines as they are configured.
fn lines(given: &[Secret]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for line in given {
        let bad = || "a header line cannot be sent".to_owned();
        let (name, value) = line.expose().split_once(':').ok_or_else(bad)?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| bad())?;
        let value = HeaderValue::try_from(value.trim()).map_err(|_| bad())?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// What the sink of this name wants.
pub(super) fn filter(name: &str, config: &Config) -> Option<Filter> {
    config.sinks.get(name).map(|settings| terms(settings).filter)
}

fn terms(settings: &config::Sink) -> Terms {
    let config::SinkFilter { kinds, sources, categories, tags, languages, without_rights } =
        settings.filter.clone();
    let config::SinkRedact { emails, authors, texts, salt } = &settings.redact;
    let how = |how: config::Redaction| match how {
        config::Redaction::Keep => Redaction::Keep,
        config::Redaction::Drop => Redaction::Drop,
        config::Redaction::Hash => Redaction::Hash,
    };
    Terms {
        filter: Filter {
            // They were checked when they were read.
            kinds: kinds.iter().filter_map(|kind| kind.parse().ok()).collect(),
            sources,
            categories,
            tags,
            languages,
            // As they are kept.
            without_rights: without_rights.iter().map(|it| it.trim().to_lowercase()).collect(),
        },
        redact: Redact {
            emails: how(*emails),
            authors: how(*authors),
            texts: how(*texts),
            salt: salt.expose().to_owned(),
        },
        batch: settings.batch,
        start: match settings.start {
            StartAt::Beginning => Start::Beginning,
            StartAt::Now => Start::Now,
            StartAt::Time(at) => Start::At(at),
        },
    }
}

/// Every sink that is configured, ready to work.
pub(super) fn pumps(
    config: &Config,
    clock: &Clock,
    store: &Arc<dyn Store>,
    progress: &Arc<Progress>,
    stop: &CancellationToken,
) -> Result<Vec<Pump>, AppError> {
    // One engine runs on a directory, so the one that takes its place after a crash is the same.
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let dir = std::path::absolute(&config.data_dir).unwrap_or_else(|_| config.data_dir.clone());
    let who = format!("{node}:{}", dir.display());
    let mut pumps = Vec::new();
    for name in config.sinks.keys() {
        let Some((sink, terms)) = sink(name, config, clock, store)? else { continue };
        pumps.push(Pump {
            name: cursor_name(config, name),
            who: who.clone(),
            hold: lease(config, clock),
            renew: config.fetch.task_timeout.duration() / 2,
            sink,
            terms,
            store: Arc::clone(store),
            progress: Arc::clone(progress),
            stop: stop.clone(),
        });
    }
    Ok(pumps)
}

/// What was served, as the archive has it.
struct Archived {
    reader: Reader,
    store: Arc<dyn Store>,
    limit: usize,
}

impl Archived {
    fn new(config: &Config, store: &Arc<dyn Store>) -> Result<Self, ArchiveError> {
        let limit = config.fetch.max_decoded.as_len();
        Ok(Self { reader: reader(config)?, store: Arc::clone(store), limit })
    }
}

#[async_trait]
impl Bodies for Archived {
    async fn find(&self, fetches: &[FetchId]) -> Result<HashMap<FetchId, FetchRecord>, SinkError> {
        if fetches.is_empty() {
            return Ok(HashMap::new());
        }
        let (ids, limit) = (fetches.to_vec(), fetches.len());
        let found = self.store.find_fetches(FetchFilter { ids, limit, ..FetchFilter::default() });
        Ok(found.await?.into_iter().map(|fetch| (fetch.id, fetch)).collect())
    }

    async fn body(&self, fetch: &FetchRecord) -> Result<Option<Body>, SinkError> {
        let Some(raw) = &fetch.raw else { return Ok(None) };
        match self.reader.stored(raw).await {
            Ok(stored) => {
                let coding = stored.head.get("content-encoding");
                // What does not inflate is handed on as it is.
                let bytes = decode::capped(&stored.body, coding, self.limit)
                    .map_or_else(|_| stored.body.clone(), std::borrow::Cow::into_owned);
                let media = stored.head.get("content-type").map(str::to_owned);
                Ok(Some(Body { url: fetch.url.clone(), media, bytes }))
            }
            // What is damaged or gone does not come back by waiting.
            Err(error @ (ArchiveError::Missing { .. } | ArchiveError::Damaged { .. })) => {
                tracing::warn!(%error, "what was served cannot be read");
                Ok(None)
            }
            Err(error) => Err(SinkError::Away {
                target: "archive".into(),
                reason: error.to_string(),
                after: None,
            }),
        }
    }
}

/// Removes events that every sink has and that are older than they are kept, until it is told to
/// stop. A sink that is behind keeps the log as it is, and that is told.
pub(super) async fn keep_log(
    age: Duration,
    store: Arc<dyn Store>,
    clock: Clock,
    progress: Arc<Progress>,
    stop: CancellationToken,
) {
    if age.is_zero() {
        return;
    }
    loop {
        let now = clock.now();
        let trimmed = async {
            match progress.clock_trust.check(now) {
                Ok(()) => trim(&*store, now.before(age)).await,
                Err(why) => {
                    tracing::info!(
                        reason = why,
                        "old events are kept until the clock is confirmed"
                    );
                    Ok((0, None))
                }
            }
        };
        tokio::select! {
            done = trimmed => match done {
                Ok((0, None)) => {}
                Ok((events, None)) => tracing::info!(events, "removed events that are no longer kept"),
                Ok((_, Some(sink))) => tracing::warn!(
                    sink = sink.name, seq = sink.cursor.seq,
                    "a sink is so far behind that events are kept longer than configured; `feedmill sink show` tells why, `sink forget` gives its place up"
                ),
                Err(error) => tracing::warn!(%error, "the log could not be looked after; it is tried again"),
            },
            () = stop.cancelled() => return,
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep_until(clock.now().after(LOOK)) => {}
        }
    }
}

/// How many events went, and the sink that keeps others here.
pub(super) async fn trim(
    store: &dyn Store,
    before: crate::model::Ts,
) -> Result<(u64, Option<SinkRow>), crate::db::DbError> {
    let slowest = store.sinks().await?.into_iter().min_by_key(|sink| sink.cursor.seq);
    let upto = slowest.as_ref().map_or(i64::MAX, |sink| sink.cursor.seq);
    let mut gone = 0;
    loop {
        let part = store.trim_log(before, upto, BATCH).await?;
        gone += part;
        if part < BATCH as u64 {
            break;
        }
    }
    let next = store.log_ends(upto.min(i64::MAX - 1)).await?.next_at;
    let late = next.is_some_and(|at| at < before);
    Ok((gone, slowest.filter(|_| late)))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::app::rules;
    use crate::db::Db;
    use crate::model::Ts;
    use crate::store::SqliteStore;
    use crate::store::outbox::{Delivery, Outbox as _, SinkCursor};

    #[tokio::test]
    async fn the_log_waits_for_the_slowest_sink_and_tells_which() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        let clock = Clock::manual(Ts::from_ms(1_800_000_000_000));
        let db = Db::open(&config.database_path()).unwrap();
        let store = SqliteStore::new(db, clock.clone(), rules(&config, &clock));
        let conn = Connection::open(config.database_path()).unwrap();
        for at in 1..=10 {
            let sql = "INSERT INTO event(at, kind, subject, payload) VALUES(?1, 0, 'x', '{}')";
            conn.execute(sql, [at]).unwrap();
        }
        let place = |seq| {
            let cursor = SinkCursor { seq, ..SinkCursor::default() };
            Delivery { cursor, ..Delivery::default() }
        };
        for (name, seq) in [("quick", 10), ("slow", 4)] {
            store.open_sink(name, Start::Beginning).await.unwrap();
            store.note_delivery(name, place(seq)).await.unwrap();
        }
        let (gone, late) = trim(&store, Ts::from_ms(4)).await.unwrap();
        assert_eq!((gone, late.is_none()), (3, true), "what is young enough is nobody's fault");
        let (gone, late) = trim(&store, Ts::from_ms(9)).await.unwrap();
        assert_eq!((gone, late.unwrap().name.as_str()), (1, "slow"));
        assert_eq!(store.log_ends(0).await.unwrap().first, 5, "nothing that it needs is gone");
        store.note_delivery("slow", place(10)).await.unwrap();
        let (gone, late) = trim(&store, Ts::from_ms(9)).await.unwrap();
        assert_eq!((gone, late.is_none()), (4, true));
    }
}
