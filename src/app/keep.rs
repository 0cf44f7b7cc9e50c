//! Upkeep of the archive: ends segments that are old, brings closed ones to the bucket, and removes
//! what is no longer kept.
//!
//! Nothing is removed before the database knows, and nothing that is needed before its copy is on
//! disk: whenever this stops, every place that the index names can be read.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::catalog::{self, Catalog};
use super::raw::RawError;
use super::{AppError, archive_settings, forget, lock, reader};
use crate::archive::{
    Archive, ArchiveError, Doomed, Held, Limits, Reader, Stored, Why, begun, plan,
};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::DbError;
use crate::fetch::note_losses;
use crate::model::{FetchRecord, Ts};
use crate::progress::Progress;
use crate::store::{MovedRaw, Store};

/// Between two looks for segments to end and to bring away.
const LOOK: Duration = Duration::from_mins(1);
/// Between two looks for what is no longer kept.
const PRUNE: Duration = Duration::from_hours(1);
/// Outcomes that refer to a younger segment may still wait for their commit.
const SETTLED: Duration = Duration::from_hours(1);
/// Fetches whose places one transaction forgets.
const BATCH: usize = 5_000;

/// What is kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    limits: Limits,
    per_feed: u32,
    pub(super) keep_local: Duration,
}

impl Terms {
    fn of(config: &Config) -> Self {
        let retention = &config.retention;
        let (age, size) = (retention.raw_age.duration(), retention.raw_size.as_bytes());
        Self {
            limits: Limits { age, size },
            per_feed: retention.raw_per_feed,
            keep_local: config.archive.keep_local.duration(),
        }
    }
}

/// Looks after an archive.
pub(super) struct Keeper {
    pub(super) archive: Arc<Archive>,
    pub(super) store: Arc<dyn Store>,
    pub(super) reader: Reader,
    pub(super) terms: Terms,
    pub(super) clock: Clock,
    /// Other machines have segments of their own.
    pub(super) shared: bool,
    /// The file that a rebuild needs beside the segments.
    catalog: PathBuf,
    /// Segments that are known to be in the bucket.
    safe: HashSet<String>,
}

impl Keeper {
    pub(super) fn new(
        config: &Config,
        archive: Arc<Archive>,
        store: Arc<dyn Store>,
        clock: Clock,
    ) -> Result<Self, ArchiveError> {
        let (reader, terms) = (reader(config)?, Terms::of(config));
        let shared = config.postgres_url().is_some();
        let (catalog, safe) = (Catalog::path(config), HashSet::new());
        Ok(Self { archive, store, reader, terms, clock, shared, catalog, safe })
    }

    /// When the latest segment was begun, by its name.
    pub(super) fn last_write(&self) -> Result<Option<Ts>, ArchiveError> {
        Ok(Archive::all(self.reader.dir())?.iter().filter_map(|segment| begun(segment)).max())
    }

    /// Looks after it until it is told to stop.
    pub(super) async fn keep(mut self, progress: Arc<Progress>, stop: CancellationToken) -> Self {
        let mut prune_at = self.clock.now();
        let mut is_waiting = false;
        // What is said once is not said again until it is over.
        let mut trouble = false;
        loop {
            let now = self.clock.now();
            let work = async {
                self.look().await?;
                if now >= prune_at {
                    forget::go_on(&*self.store).await?;
                    let trusted = progress.clock_trust.check(now);
                    // Until the clock is confirmed, the size of the archive alone decides.
                    let age = if trusted.is_ok() { self.terms.limits.age } else { Duration::ZERO };
                    let pruned = self.prune(Limits { age, ..self.terms.limits }, now).await?;
                    if trusted.is_ok() {
                        prune_at = now.after(PRUNE);
                    }
                    let was_waiting = std::mem::replace(&mut is_waiting, trusted.is_err());
                    if let Some(reason) = trusted.err().filter(|_| !was_waiting) {
                        tracing::info!(
                            reason,
                            "old responses are kept until the clock is confirmed"
                        );
                    }
                    if !pruned.segments.is_empty() {
                        let (segments, bytes) = (pruned.segments.len(), pruned.bytes);
                        tracing::info!(segments, bytes, "removed what is no longer kept");
                    }
                }
                Ok::<(), RawError>(())
            };
            let done = tokio::select! {
                done = work => done,
                () = stop.cancelled() => return self,
            };
            let told = std::mem::replace(&mut trouble, done.is_err());
            if let Some(error) = done.err().filter(|_| !told) {
                tracing::warn!(%error, "the archive could not be looked after; it is tried again");
            }
            tokio::select! {
                () = stop.cancelled() => return self,
                () = self.clock.sleep_until(now.after(LOOK)) => {}
            }
        }
    }

    async fn look(&mut self) -> Result<(), RawError> {
        let archive = Arc::clone(&self.archive);
        blocking(move || archive.rotate()).await?;
        note_losses(&*self.store, &self.archive).await?;
        self.bring_away().await?;
        let records = self.erase().await?;
        if records > 0 {
            tracing::info!(records, "removed from the archive what was taken down");
        }
        catalog::keep(&*self.store, &self.catalog).await
    }

    /// Brings closed segments to the bucket, and removes those that are there and were here long.
    pub(super) async fn bring_away(&mut self) -> Result<(), RawError> {
        let Some(remote) = self.reader.remote() else { return Ok(()) };
        let (dir, now) = (self.reader.dir(), self.clock.now());
        for (segment, _) in Archive::closed(dir)? {
            if !self.safe.contains(&segment) {
                remote.keep(dir, &segment).await?;
                tracing::debug!(segment, "a segment is in the bucket");
                self.safe.insert(segment.clone());
            }
            let is_old = begun(&segment).is_some_and(|at| at.after(self.terms.keep_local) <= now);
            if is_old {
                Archive::remove(dir, &segment)?;
                self.safe.remove(&segment);
            }
        }
        Ok(())
    }

    async fn prune(&self, limits: Limits, now: Ts) -> Result<Pruned, RawError> {
        let doomed = doomed(&*self.store, &self.reader, limits, now).await?;
        let mut pruned = Pruned::default();
        for gone in doomed {
            let (copied, fetches) = self.remove(&gone).await?;
            pruned.copied += copied;
            pruned.fetches += fetches;
            pruned.bytes += gone.bytes;
            pruned.segments.push(gone);
        }
        Ok(pruned)
    }

    /// Removes one segment: copies, then the index, then the file.
    async fn remove(&self, gone: &Doomed) -> Result<(u64, u64), RawError> {
        let segment = &gone.segment;
        let moved = match gone.why {
            Why::Age => self.copy_needed(segment).await?,
            Why::Size => Vec::new(),
        };
        let copied = moved.len() as u64;
        self.move_raw(moved).await?;
        self.settle(segment).await?;
        let mut fetches = 0;
        loop {
            match self.store.forget_segment(segment, 0, BATCH).await? {
                0 => break,
                some => fetches += some,
            }
        }
        if let Some(remote) = self.reader.remote() {
            remote.remove(segment).await?;
        }
        Archive::remove(self.reader.dir(), segment)?;
        Ok((copied, fetches))
    }

    /// Notes where documents were copied to, once they are there.
    pub(super) async fn move_raw(&self, moved: Vec<MovedRaw>) -> Result<(), RawError> {
        if moved.is_empty() {
            return Ok(());
        }
        let archive = Arc::clone(&self.archive);
        blocking(move || archive.sync()).await?;
        if let Some(lost) = moved.iter().find(|moved| self.archive.has_lost(&moved.to)) {
            return Err(ArchiveError::Lost { segment: lost.to.segment.clone() }.into());
        }
        Ok(self.store.move_raw(moved).await?)
    }

    /// Copies what is still needed of a segment to the open one.
    async fn copy_needed(&self, segment: &str) -> Result<Vec<MovedRaw>, RawError> {
        let needed = self.store.needed(segment, self.terms.per_feed).await?;
        self.copy(segment, needed, |_| true).await
    }

    /// Copies those of these documents to the open segment that have to be.
    pub(super) async fn copy(
        &self,
        segment: &str,
        fetches: Vec<FetchRecord>,
        has_to: impl Fn(&Stored) -> bool,
    ) -> Result<Vec<MovedRaw>, RawError> {
        let mut moved = Vec::new();
        for fetch in fetches {
            let Some(raw) = &fetch.raw else { continue };
            let stored = match self.reader.stored(raw).await {
                Ok(stored) => stored,
                // What cannot be read is not kept by keeping the rest of its segment.
                Err(error @ (ArchiveError::Damaged { .. } | ArchiveError::Missing { .. })) => {
                    tracing::warn!(%error, fetch = %fetch.id, "a document could not be kept");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if !has_to(&stored) {
                continue;
            }
            let (archive, (record, request)) = (Arc::clone(&self.archive), stored.members);
            let to = blocking(move || archive.copy(record, &request)).await?;
            moved.push(MovedRaw { fetch: fetch.id, from: segment.to_owned(), to });
        }
        Ok(moved)
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, RawError> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| DbError::Engine(error.to_string()))??)
}

/// What was removed, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Whole segments.
    pub segments: Vec<Doomed>,
    /// Their bytes.
    pub bytes: u64,
    /// Fetches whose bytes are no longer kept.
    pub fetches: u64,
    /// Documents that were copied because their feed still needs them.
    pub copied: u64,
}

async fn doomed(
    store: &dyn Store,
    reader: &Reader,
    limits: Limits,
    now: Ts,
) -> Result<Vec<Doomed>, RawError> {
    let mut sizes: BTreeMap<String, u64> = Archive::closed(reader.dir())?.into_iter().collect();
    if let Some(remote) = reader.remote() {
        sizes.extend(remote.list().await?);
    }
    let used = store.segments().await?.into_iter();
    let last: BTreeMap<String, Ts> = used.map(|used| (used.segment, used.last)).collect();
    let held = sizes.into_iter().filter_map(|(segment, bytes)| {
        let newest = begun(&segment).max(last.get(&segment).copied())?;
        Some(Held { segment, bytes, newest })
    });
    let mut doomed = plan(held.collect(), limits, now);
    let settled = now.before(SETTLED);
    doomed
        .retain(|gone| begun(&gone.segment).max(last.get(&gone.segment).copied()) <= Some(settled));
    Ok(doomed)
}

/// What retention would remove now.
pub async fn would_prune(
    config: &Config,
    clock: &Clock,
    store: &dyn Store,
) -> Result<Pruned, RawError> {
    let terms = Terms::of(config);
    let segments = doomed(store, &reader(config)?, terms.limits, clock.now()).await?;
    let used = store.segments().await?;
    let mut pruned = Pruned::default();
    for gone in &segments {
        let records = used.iter().find(|used| used.segment == gone.segment);
        let needed = match gone.why {
            Why::Age => store.needed(&gone.segment, terms.per_feed).await?.len() as u64,
            Why::Size => 0,
        };
        pruned.bytes += gone.bytes;
        pruned.copied += needed;
        pruned.fetches += records.map_or(0, |used| used.records).saturating_sub(needed);
    }
    Ok(Pruned { segments, ..pruned })
}

/// Removes what is no longer kept. The archive has one writer: where an engine runs, it is the
/// engine's to do.
pub async fn prune(
    config: &Config,
    clock: &Clock,
    store: Arc<dyn Store>,
) -> Result<Pruned, RawError> {
    alone(config, clock, store, async |keeper| keeper.prune(keeper.terms.limits, clock.now()).await)
        .await
}

/// Does something to the archive as its only writer.
pub(super) async fn alone<T>(
    config: &Config,
    clock: &Clock,
    store: Arc<dyn Store>,
    work: impl AsyncFnOnce(&Keeper) -> Result<T, RawError>,
) -> Result<T, RawError> {
    let locks = lock(config).map_err(|error| match error {
        error @ AppError::Lock(crate::db::LockError::Held { .. }) => {
            RawError::Running(error.to_string())
        }
        error => error.into(),
    })?;
    let archive = Arc::new(Archive::open(archive_settings(config), clock.clone())?);
    let keeper = Keeper::new(config, Arc::clone(&archive), store, clock.clone())?;
    let done = work(&keeper).await;
    archive.close()?;
    drop(locks);
    done
}
