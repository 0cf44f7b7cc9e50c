//! A store from the archive alone: every archived response is handled once more, in the order in which
//! it came and at its time, as if it had just been fetched.
//!
//! Nobody is asked, and nobody is waited for: pauses of hosts are kept as responses asked for them, and
//! end where a later response shows that they were lifted. Tasks, entries, articles and the log come back
//! as the handlers conclude them; a feed is next polled in the future. It can be stopped at any time and
//! begun again: a response whose fetch is in the store was handled.
//!
//! A response counts once it is archived, also when the engine was killed before its outcome was in the
//! store. So a rebuilt store may hold more than the lost one, and never less. Requests that nobody
//! answered are not in the archive: failures of that kind are not counted.

mod index;
mod steps;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::catalog::{self, Catalog};
use super::premises::own_time;
use super::{AppError, cursor_name, forget, house, key_rules, lock, make_dir, reader, rules};
use super::{catalog::CatalogSource, store_mark};
use crate::archive::{Archive, ArchiveError, Reader};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{Db, DbError, Hold, LockError, PgDb, ServerLock, private};
use crate::frontier::{HostFilter, Rules, TaskFilter};
use crate::handle::House;
use crate::model::{Admission, NewTakedown, Scope, Source, SourceId, TaskId, Ts, UrlHash};
use crate::store::outbox::Start;
use crate::store::{PgStore, RestoredIds, SourceError, SqliteStore, Store};
use index::Index;

/// Why a store was not rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// What the application says.
    #[error(transparent)]
    App(#[from] AppError),
    /// A source could not be restored.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The store is in use.
    #[error("{0}")]
    Running(String),
    /// What is there would be mixed with what is read.
    #[error(
        "{0} holds data: rebuild needs an empty database. Move it away first, or restore a backup with `feedmill restore FILE`"
    )]
    Occupied(String),
    /// There is nothing to read.
    #[error("there are no segments in {0}: set archive.dir to where they are")]
    NoSegments(String),
    /// A file beside the archive or the database cannot be used.
    #[error("cannot use {path}: {source}")]
    Io {
        /// Which file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
}

impl RebuildError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Db(error) | Self::Source(SourceError::Db(error)) => error.code(),
            Self::Archive(error) => error.code(),
            Self::App(error) => error.code(),
            Self::Source(_) => "source",
            Self::Running(_) => "engine_running",
            Self::Occupied(_) => "store_not_empty",
            Self::NoSegments(_) => "no_segments",
            Self::Io { .. } => "io",
        }
    }
}

/// How to rebuild.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Only reads.
    pub dry_run: bool,
    /// Sinks get the rebuilt log from its beginning.
    pub deliver: bool,
}

/// What was rebuilt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rebuilt {
    /// Segments read.
    pub segments: u64,
    /// Responses in them.
    pub responses: u64,
    /// Whether the catalog was there.
    pub has_catalog: bool,
    /// Sources restored.
    pub sources: u64,
    /// Takedowns restored.
    pub takedowns: u64,
    /// Entries in the store.
    pub entries: u64,
    /// Articles in the store.
    pub articles: u64,
    /// Responses that belong to no task.
    pub unplaced: u64,
    /// Records that cannot be read, and why.
    pub unreadable: Vec<String>,
    /// Sources whose headers, credentials or proxies have to be set again.
    pub access_removed: Vec<String>,
}

/// Hears how many responses of how many were read.
pub type Watch<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

/// The file that is there while a rebuild has not come to its end.
fn note(config: &Config) -> PathBuf {
    config.data_dir.join("rebuild.json")
}

/// Refuses a store that is only half rebuilt.
pub(super) fn check_finished(config: &Config) -> Result<(), AppError> {
    if fs::symlink_metadata(note(config)).is_err() {
        return Ok(());
    }
    let message = "the database is not fully rebuilt: run `feedmill rebuild` again, it goes on where it stopped";
    Err(AppError::StoreGone(message.to_owned()))
}

/// A store that was restored from a backup is whole, whatever a rebuild left before.
pub(super) fn abandon(config: &Config) {
    drop(fs::remove_file(note(config)));
}

/// What a rebuild works with.
pub(super) struct Rebuild<'a> {
    config: &'a Config,
    store: Arc<dyn Store>,
    reader: Reader,
    house: Arc<House>,
    /// The time of the response that is handled.
    clock: Clock,
    /// The time now.
    now: Ts,
    index: Index,
    /// Responses that were handled as a part of another one.
    used: HashSet<usize>,
    /// The last robots.txt of each address, by its place.
    robots: HashMap<String, usize>,
    /// Addresses that channels had before they moved.
    moved: HashMap<String, TaskId>,
    /// Sources that were taken down.
    down: HashSet<SourceId>,
    /// Hosts that a response paused.
    paused: HashSet<String>,
    done: Rebuilt,
}

/// Builds the configured store from the archive.
pub async fn rebuild(
    config: &Config,
    clock: &Clock,
    options: Options,
    watch: Watch<'_>,
) -> Result<Rebuilt, RebuildError> {
    let reader = reader(config)?;
    let mut names = Archive::all(reader.dir())?;
    if let Some(remote) = reader.remote() {
        names.extend(remote.list().await?.into_iter().map(|(name, _)| name));
        names.sort_unstable();
        names.dedup();
    }
    if names.is_empty() {
        return Err(RebuildError::NoSegments(config.archive_dir().display().to_string()));
    }
    let path = Catalog::path(config);
    let catalog = Catalog::read(&path)
        .map_err(|source| RebuildError::Io { path: path.display().to_string(), source })?;
    let locks = match options.dry_run {
        true => Vec::new(),
        false => {
            make_dir(&config.data_dir)?;
            lock(config).map_err(|error| match error {
                AppError::Lock(LockError::Held { dir, .. }) => {
                    RebuildError::Running(format!("an engine runs on {dir}: stop it first"))
                }
                error => error.into(),
            })?
        }
    };
    let (index, unreadable) = Index::read(&reader, &names).await?;
    let mut done = Rebuilt {
        segments: names.len() as u64,
        responses: index.len() as u64,
        has_catalog: catalog.is_some(),
        unreadable,
        ..Rebuilt::default()
    };
    if options.dry_run {
        done.sources = catalog.map_or(0, |catalog| catalog.sources.len() as u64);
        return Ok(done);
    }
    let start = index.first().unwrap_or_else(|| clock.now());
    let past = Clock::manual(start);
    let (store, place, alone) = open(config, &past).await?;
    let mut rebuild = Rebuild {
        config,
        store,
        reader,
        house: Arc::new(house(config)),
        clock: past,
        now: clock.now(),
        index,
        used: HashSet::new(),
        robots: HashMap::new(),
        moved: HashMap::new(),
        down: HashSet::new(),
        paused: HashSet::new(),
        done,
    };
    let paused = HostFilter { blocked: true, limit: usize::MAX, ..HostFilter::default() };
    let paused = rebuild.store.hosts(paused).await?.into_iter().map(|host| host.name);
    rebuild.paused.extend(paused);
    rebuild.restore(catalog.as_ref()).await?;
    rebuild.handle_all(catalog.is_none(), watch).await?;
    rebuild.finish(catalog.as_ref(), options).await?;
    // Closing brings it all to disk; from then on it is whole.
    rebuild.store.close().await;
    alone.release().await;
    store_mark::leave(config, &place, clock);
    let path = note(config);
    let removed = fs::remove_file(&path);
    removed.map_err(|source| RebuildError::Io { path: path.display().to_string(), source })?;
    drop(locks);
    Ok(rebuild.done)
}

/// What keeps others from the store while it is rebuilt.
enum Alone {
    Server(Hold),
    File(#[expect(dead_code, reason = "it is held")] ServerLock),
}

impl Alone {
    async fn release(self) {
        if let Self::Server(hold) = self {
            hold.release().await;
        }
    }
}

/// Opens an empty store, or one that an earlier rebuild left, on a clock of ours. Nobody else works on
/// it until the lock is released.
async fn open(
    config: &Config,
    clock: &Clock,
) -> Result<(Arc<dyn Store>, String, Alone), RebuildError> {
    let note = note(config);
    let goes_on = fs::symlink_metadata(&note).is_ok();
    // Nobody is asked, so nobody is waited for.
    let rules = Rules { ignore_pauses: true, discover: false, ..rules(config, clock) };
    let (store, place, alone): (Arc<dyn Store>, String, Alone) = match config.postgres_url() {
        Some(url) => {
            let db = PgDb::open(url, own_time(clock)).await?;
            let alone = db.alone().await?;
            let alone = alone.map_err(|in_use| RebuildError::Running(in_use.to_string()))?;
            let place = db.place();
            let store = PgStore::new(db, rules);
            // What an interrupted rebuild was at is nobody's.
            store.frontier().free_leases().await?;
            (Arc::new(store), place, Alone::Server(alone))
        }
        None => {
            let path = config.database_path();
            let place = path.display().to_string();
            if store_mark::is_foreign(&path) {
                return Err(RebuildError::Occupied(place));
            }
            let served =
                || RebuildError::Running(format!("an API server runs on {place}: stop it first"));
            let alone = ServerLock::alone(&path).map_err(AppError::from)?.ok_or_else(served)?;
            let db = super::carry::blocking(move || Db::open_unsynced(&path)).await?;
            let store = SqliteStore::new(db, clock.clone(), rules);
            store.frontier().free_leases().await?;
            (Arc::new(store), place, Alone::File(alone))
        }
    };
    if !goes_on {
        let has_tasks = store.count(TaskFilter::default()).await? > 0;
        if has_tasks || !store.sources().await?.is_empty() || store.log_ends(0).await?.last > 0 {
            store.close().await;
            return Err(RebuildError::Occupied(place));
        }
        let made = private::create_regular(&note).and_then(|file| file.sync_all());
        made.map_err(|source| RebuildError::Io { path: note.display().to_string(), source })?;
    }
    Ok((store, place, alone))
}

impl Rebuild<'_> {
    /// Brings back what the catalog knows, before anything is read.
    async fn restore(&mut self, catalog: Option<&Catalog>) -> Result<(), RebuildError> {
        let Some(catalog) = catalog else { return Ok(()) };
        let reserve = catalog::highest(catalog);
        self.store.restore_ids(RestoredIds { reserve, ..RestoredIds::default() }).await?;
        for source in &catalog.sources {
            let restored = self.restore_source(source).await?;
            let is_down = |one: &catalog::CatalogTakedown| {
                one.scope == Scope::Source && one.target == source.id
            };
            if catalog.takedowns.iter().any(is_down) {
                self.down.insert(restored.id);
            }
            if source.access_removed {
                self.done.access_removed.push(source.spec.name.clone());
            }
        }
        for one in &catalog.takedowns {
            let addresses = match one.scope {
                Scope::Address => vec![UrlHash::of(&one.target)],
                Scope::Host | Scope::Source => Vec::new(),
            };
            let catalog::CatalogTakedown { scope, target, name, by, why } = one.clone();
            let new = NewTakedown { scope, target, name, by, why, addresses };
            self.store.open_takedown(new).await?;
        }
        self.done.sources = catalog.sources.len() as u64;
        self.done.takedowns = catalog.takedowns.len() as u64;
        Ok(())
    }

    /// A source with the id that it had, and its channels with their numbers.
    async fn restore_source(&mut self, kept: &CatalogSource) -> Result<Source, RebuildError> {
        let name = &kept.spec.name;
        let known = match self.store.source(name).await {
            Ok(known) => known,
            Err(SourceError::Unknown(_)) => {
                let first_poll = Some(self.next_poll(kept.created_at));
                let spec = kept.spec.clone();
                self.store.admit_source(Admission { spec, disabled: None, first_poll }).await?;
                self.store.source(name).await?
            }
            Err(error) => return Err(error.into()),
        };
        let (source, channels) = known;
        let mut tasks = Vec::new();
        for channel in &channels {
            let key = self.key(&channel.url);
            let same = |one: &&catalog::CatalogChannel| {
                one.kind.lane() == channel.kind.lane() && self.key(&one.url) == key
            };
            let id = channel.id.parse().ok().and_then(TaskId::from_uuid);
            if let Some((now, before)) = id.zip(kept.channels.iter().find(same)) {
                tasks.push((now, TaskId(before.task)));
            }
        }
        for channel in &kept.channels {
            if let Some(before) = &channel.moved_from {
                self.moved.insert(self.key(before), TaskId(channel.task));
            }
        }
        let ids = (source.id, kept.id.clone(), catalog::created(kept));
        let ids = RestoredIds { source: Some(ids), tasks, ..RestoredIds::default() };
        self.store.restore_ids(ids).await?;
        Ok(source)
    }

    /// What makes an address unique.
    fn key(&self, url: &str) -> String {
        let rules = key_rules(self.config);
        feedmill_formats::url::parse(url)
            .map_or_else(|_| url.to_owned(), |url| feedmill_formats::url::key(&url, &rules))
    }

    /// When a channel is next polled that would be due: all of them are spread over an interval.
    fn next_poll(&self, number: i64) -> Ts {
        let window = self.config.schedule.default_interval.duration().as_millis();
        let window = u64::try_from(window).unwrap_or(u64::MAX).max(2);
        // A minute at least, for whoever starts the engine.
        let first = 60_000.min(window / 2);
        let dice = number.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
        self.now.after(Duration::from_millis(first + dice % (window - first)))
    }

    /// What is left once everything was read.
    async fn finish(
        &mut self,
        catalog: Option<&Catalog>,
        options: Options,
    ) -> Result<(), RebuildError> {
        self.move_clock(self.now);
        for source in catalog.iter().flat_map(|catalog| &catalog.sources) {
            if let Some(reason) = &source.disabled {
                self.store.set_enabled(&source.spec.name, Some(reason.clone())).await?;
            }
        }
        forget::go_on(&*self.store).await?;
        let events = catalog::events_behind(catalog, self.store.log_ends(0).await?.last);
        self.store.restore_ids(RestoredIds { events, ..RestoredIds::default() }).await?;
        if !options.deliver {
            for name in self.config.sinks.keys() {
                self.store.open_sink(&cursor_name(self.config, name), Start::Now).await?;
            }
        }
        let totals = self.store.totals().await?;
        self.done.sources = totals.sources.max(self.done.sources);
        (self.done.entries, self.done.articles) = (totals.entries, totals.articles);
        Ok(())
    }

    /// Moves the clock of the store to a time, never back.
    fn move_clock(&self, to: Ts) {
        self.clock.advance(to.since(self.clock.now()));
    }
}
