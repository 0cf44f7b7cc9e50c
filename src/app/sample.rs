//! Gauges that come from the store and from disks: looked at every 15 seconds for monitors.
//!
//! A look costs the database something. It is made so seldom that it never takes more than a small part
//! of the time, however large the store is; and what cannot be had is left as it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::Messages;
use crate::db::{DbError, free_bytes};
use crate::frontier::{Counts, Stats};
use crate::metrics::{Metrics, sink, told_apart};
use crate::model::{Health, Kind};
use crate::progress::Progress;
use crate::store::{Store, Vitals};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(15);
/// Between two lines about the queue.
const TELL: Duration = Duration::from_secs(60);
/// A look that took long is not made again before so many times that span.
const REST: u32 = 50;

/// What is looked at.
pub(super) struct Sampler {
    pub(super) store: Arc<dyn Store>,
    pub(super) progress: Arc<Progress>,
    pub(super) clock: Clock,
    /// Directories that are written to.
    pub(super) dirs: Vec<PathBuf>,
    /// Where the archive's segments are.
    pub(super) archive: PathBuf,
    /// Whose words log lines are in.
    pub(super) messages: Messages,
}

impl Sampler {
    /// Looks until it is told to stop.
    pub(super) async fn keep(self, stop: CancellationToken) {
        let mut told: Option<Instant> = None;
        loop {
            let began = Instant::now();
            let looked = tokio::select! {
                () = stop.cancelled() => return,
                looked = self.look() => looked,
            };
            match looked {
                Ok(total) if told.is_none_or(|told| told.elapsed() >= TELL) => {
                    told = Some(began);
                    tell(self.messages, &total);
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "the figures of the store could not be had"),
            }
            let took = began.elapsed();
            self.progress.metrics.sample_duration.set(took.as_secs_f64());
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK.max(took * REST)) => {}
            }
        }
    }

    /// All tasks by where they stand, once the gauges are set.
    async fn look(&self) -> Result<Counts, DbError> {
        let (store, metrics) = (&self.store, &self.progress.metrics);
        let (dirs, archive) = (self.dirs.clone(), self.archive.clone());
        let disks = move || (least_free(&dirs), size_of(&archive));
        if let Ok((free, segments)) = tokio::task::spawn_blocking(disks).await {
            metrics.disk_free.set(count(free));
            metrics.archive_size.set(count(segments));
        }
        let stats = store.stats().await?;
        tell_tasks(metrics, &stats);
        tell_vitals(metrics, &store.vitals().await?);
        self.look_at_sinks().await?;
        Ok(stats.total)
    }

    async fn look_at_sinks(&self) -> Result<(), DbError> {
        let metrics = &self.progress.metrics;
        let mut found = Vec::new();
        for row in told_apart(self.store.sinks().await?) {
            let ends = self.store.log_ends(row.cursor.seq).await?;
            found.push((row, ends));
        }
        metrics.forget_sinks();
        for (row, ends) in found {
            let name = sink(&row.name);
            let late = ends.next_at.map_or(Duration::ZERO, |at| self.clock.now().since(at));
            let waiting = ends.last.saturating_sub(row.cursor.seq.max(ends.first - 1)).max(0);
            metrics.sink_lag.get_or_create(&name).set(waiting);
            metrics.sink_lag_seconds.get_or_create(&name).set(count(late.as_secs()));
            metrics.dead_letters.get_or_create(&name).set(count(row.dead_letters));
        }
        Ok(())
    }
}

/// The line that north-cloud's dashboards count the queue by.
fn tell(words: Messages, total: &Counts) {
    let Counts { pending, fetching, fetched, failed, dead, .. } = *total;
    if words == Messages::NorthCloud {
        tracing::info!(pending, fetching, fetched, failed, dead, "frontier_stats");
    }
}

fn tell_tasks(metrics: &Metrics, stats: &Stats) {
    metrics.queue_depth.set(count(stats.due));
    metrics.hosts.set(count(stats.hosts));
    let none = Counts::default();
    for kind in Kind::ALL {
        let of = stats.by_kind.iter().find(|(of, _)| of == kind).map_or(&none, |(_, of)| of);
        let Counts { pending, fetching, fetched, failed, dead, parked } = of;
        let states = [
            ("pending", pending),
            ("fetching", fetching),
            ("fetched", fetched),
            ("failed", failed),
            ("dead", dead),
            ("parked", parked),
        ];
        for (state, tasks) in states {
            let series = [("kind", kind.as_str()), ("state", state)];
            metrics.tasks.get_or_create(&series).set(count(*tasks));
        }
    }
}

fn tell_vitals(metrics: &Metrics, vitals: &Vitals) {
    metrics.sources.set(count(vitals.sources));
    metrics.sources_disabled.set(count(vitals.sources_disabled));
    metrics.channels_overdue.set(count(vitals.overdue));
    metrics.hosts_busy.set(count(vitals.hosts_busy));
    metrics.hosts_blocked.set(count(vitals.hosts_blocked));
    metrics.database_size.set(count(vitals.bytes));
    metrics.wal_size.set(count(vitals.wal_bytes));
    for health in Health::ALL {
        let of = vitals.channels.iter().find(|(of, _)| of == health).map_or(0, |(_, of)| *of);
        metrics.channels.get_or_create(&[("health", health.as_str())]).set(count(of));
    }
}

fn count(figure: u64) -> i64 {
    i64::try_from(figure).unwrap_or(i64::MAX)
}

fn least_free(dirs: &[PathBuf]) -> u64 {
    dirs.iter().filter_map(|dir| free_bytes(dir).ok()).min().unwrap_or(0)
}

/// Bytes of the files in a directory.
fn size_of(dir: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(dir) else { return 0 };
    files.flatten().filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is followed, there are as many series as our own words make.
    #[test]
    fn labels_stay_few_however_many_hosts_are_known() {
        let metrics = Metrics::default();
        let counts = |n: u64| Counts { pending: n, dead: n / 7, ..Counts::default() };
        let mut lines = Vec::new();
        for hosts in [10u64, 10_000] {
            let by_kind = Kind::ALL.iter().map(|kind| (*kind, counts(hosts))).collect();
            tell_tasks(&metrics, &Stats { hosts, due: hosts, by_kind, ..Stats::default() });
            tell_vitals(
                &metrics,
                &Vitals { channels: vec![(Health::Late, hosts)], ..Vitals::default() },
            );
            lines.push(metrics.render().lines().count());
        }
        assert_eq!(lines.first(), lines.last());
        assert!(metrics.render().contains("feedmill_channels{health=\"late\"} 10000\n"));
        let many = told_apart(0..10_000).count();
        assert!(many <= 200, "{many} sinks are told apart");
    }
}
