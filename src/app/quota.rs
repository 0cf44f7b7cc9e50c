//! Keeps what a source may store in a day: counts its bytes, and stops it until the next day.
//!
//! Otherwise one source could fill the disk, and `retention.min_free` would stop all of them. When the
//! disk gets low, the source that stored most today is stopped first.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::Config;
use crate::db::{DbError, free_bytes};
use crate::fetch::UsageMeter;
use crate::model::SourceId;
use crate::store::Store;
use crate::store::usage::{SourceUsage, add_usage, day_of, limit_source, usage};

/// Between two looks, in real time.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// A disk is low when it has this much more than `retention.min_free` or less: a half of it.
const LOW_DISK_PART: u64 = 2;
/// Of a low disk's sources, one is stopped that stored at least so much today.
const LARGE_BYTES: u64 = 50_000_000;

/// What a source may store, and the disk.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Bytes of a source in a day; 0 = any number.
    per_day: u64,
    min_free: u64,
    free: Option<u64>,
}

/// Which sources are to be stopped, each with its bytes and the reason.
fn over_limit(usage: &[SourceUsage], limits: Limits) -> Vec<(SourceId, u64, String)> {
    let mb = |bytes: u64| bytes / 1_000_000;
    let mut stopped: Vec<(SourceId, u64, String)> = Vec::new();
    let going = || usage.iter().filter(|of| of.limited_at.is_none());
    for of in going().filter(|of| limits.per_day > 0 && of.bytes > limits.per_day) {
        let reason = format!(
            "Stored {} MB today, sources.max_bytes_per_day is {} MB. Fetching resumes at 00:00 UTC",
            mb(of.bytes),
            mb(limits.per_day)
        );
        stopped.push((of.source, of.bytes, reason));
    }
    let low = limits.min_free + limits.min_free / LOW_DISK_PART;
    let is_low = limits.free.is_some_and(|free| free < low);
    let largest = going().max_by_key(|of| of.bytes).filter(|of| of.bytes >= LARGE_BYTES);
    if let Some(of) = largest.filter(|_| is_low && stopped.is_empty()) {
        let reason = format!(
            "The disk is low and this source stored most today ({} MB). Fetching resumes at 00:00 UTC",
            mb(of.bytes)
        );
        stopped.push((of.source, of.bytes, reason));
    }
    stopped
}

/// Counts and stops.
pub(super) struct QuotaKeeper {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
    pub(super) meter: UsageMeter,
    /// Directories that are written to.
    pub(super) dirs: Vec<PathBuf>,
    pub(super) max_bytes_per_day: u64,
    pub(super) min_free: u64,
}

impl QuotaKeeper {
    pub(super) fn new(
        config: &Config,
        clock: &Clock,
        store: &Arc<dyn Store>,
        meter: &UsageMeter,
        dirs: Vec<PathBuf>,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            clock: clock.clone(),
            meter: meter.clone(),
            dirs,
            max_bytes_per_day: config.sources.max_bytes_per_day.as_bytes(),
            min_free: config.retention.min_free.as_bytes(),
        }
    }

    /// Looks until it is told to stop; the last time after that, so that what was counted is written.
    pub(super) async fn keep(self, stop: CancellationToken) {
        loop {
            let is_last = stop.is_cancelled();
            if let Err(error) = self.look().await {
                tracing::debug!(%error, "cannot update source usage");
            }
            if is_last {
                return;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
        }
    }

    async fn look(&self) -> Result<(), DbError> {
        let (store, now) = (&*self.store, self.clock.now());
        let added = self.meter.drain();
        if let Err(error) = add_usage(store, day_of(now), &added).await {
            // Counted again next time.
            added.iter().for_each(|(source, bytes)| self.meter.add(*source, *bytes));
            return Err(error);
        }
        let found = usage(store, day_of(now)).await?;
        let free = self.dirs.iter().filter_map(|dir| free_bytes(dir).ok()).min();
        let limits = Limits { per_day: self.max_bytes_per_day, min_free: self.min_free, free };
        let limited = found.iter().filter(|of| of.limited_at.is_some()).map(|of| of.source.0);
        let mut stopped: HashSet<i64> = limited.collect();
        let over = over_limit(&found, limits);
        if !over.is_empty() {
            let sources = store.sources().await?;
            for (id, bytes, reason) in over {
                let Some(source) = sources.iter().find(|source| source.id == id) else { continue };
                if limit_source(store, source, bytes, &reason, now).await? {
                    tracing::warn!(source = %source.spec.name, bytes, reason, "source over quota");
                }
                stopped.insert(id.0);
            }
        }
        self.meter.stop(stopped);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Ts;

    fn of(source: i64, bytes: u64, limited: bool) -> SourceUsage {
        let limited_at = limited.then_some(Ts::from_ms(1));
        SourceUsage { source: SourceId(source), bytes, limited_at, reason: None }
    }

    #[test]
    fn who_stored_too_much_is_stopped() {
        const MB: u64 = 1_000_000;
        let usage = [of(1, 2_100 * MB, false), of(2, 2_500 * MB, true), of(3, 60 * MB, false)];
        let stopped = |per_day, min_free, free| {
            let limits = Limits { per_day, min_free, free };
            let found = over_limit(&usage, limits);
            found.into_iter().map(|(source, ..)| source.0).collect::<Vec<_>>()
        };
        assert_eq!(stopped(2_000 * MB, 0, None), [1], "the second is stopped already");
        assert_eq!(stopped(3_000 * MB, 0, None), [0; 0]);
        assert_eq!(stopped(0, 0, None), [0; 0], "no limit");
        assert_eq!(stopped(0, 1_000 * MB, Some(2_000 * MB)), [0; 0], "enough room");
        assert_eq!(stopped(0, 1_000 * MB, Some(1_400 * MB)), [1], "the largest first");
        assert_eq!(stopped(1_000 * MB, 1_000 * MB, Some(1_400 * MB)), [1], "one after the other");
        let small = [of(3, 10 * MB, false)];
        let limits = Limits { per_day: 0, min_free: 1_000 * MB, free: Some(0) };
        assert!(over_limit(&small, limits).is_empty(), "it is not what fills the disk");
    }
}
