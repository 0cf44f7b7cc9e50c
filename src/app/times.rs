//! Looks after stored times that lie too far ahead: a clock that was in 2036 for a few seconds must not
//! stop polling until then.
//!
//! At the start, every few minutes, and soon after the clock was set.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::Config;
use crate::db::DbError;
use crate::model::Source;
use crate::store::{Store, TimesAhead};

/// Between two looks at the store.
const CHECK_INTERVAL: Duration = Duration::from_mins(10);
/// Between two looks at the clock.
const STEP_INTERVAL: Duration = Duration::from_secs(5);
/// What is planned farthest ahead whatever is configured: polls of a feed that has been silent for
/// long, and quiet days.
const LONGEST: Duration = Duration::from_hours(9 * 24);

/// The longest that a channel without limits of its own waits for its next poll.
#[must_use]
pub fn longest_interval(config: &Config) -> Duration {
    let schedule = &config.schedule;
    [
        schedule.max_interval,
        schedule.default_interval,
        schedule.sitemap_interval,
        config.refetch.interval,
        config.spider.min_interval,
    ]
    .into_iter()
    .map(|span| span.duration())
    .max()
    .unwrap_or_default()
}

/// The longest that anything is planned ahead, except on a server's own word.
pub(crate) fn horizon(config: &Config, sources: &[Source]) -> Duration {
    let of_sources = sources
        .iter()
        .flat_map(|source| [source.spec.poll_interval, source.spec.max_interval])
        .flatten();
    let others = [config.discovery.retry, config.robots.ttl].map(|span| span.duration());
    let longest = others.into_iter().chain(of_sources).chain([longest_interval(config)]).max();
    // Waits after failures double intervals, and polls are spread.
    longest.unwrap_or_default().saturating_mul(3).max(LONGEST)
}

/// Looks once, and puts right what lies too far ahead. Trouble is logged: the next look tries again.
pub(super) async fn check(config: &Config, store: &dyn Store) -> TimesAhead {
    let looked = async {
        let sources = store.sources().await?;
        let horizon = horizon(config, &sources);
        if !store.times_ahead(horizon).await?.is_some() {
            return Ok(TimesAhead::default());
        }
        store.repair_times(horizon).await
    };
    match looked.await {
        Ok(found) => {
            if found.is_some() {
                let TimesAhead { tasks, hosts, robots, feeds, sinks, ahead_ms } = found;
                let clock_ahead = crate::schedule::human(Duration::from_millis(
                    u64::try_from(ahead_ms).unwrap_or(0),
                ));
                tracing::warn!(
                    tasks,
                    hosts,
                    robots,
                    feeds,
                    sinks,
                    %clock_ahead,
                    "stored times lay too far ahead, as after a clock fault: planned again"
                );
            }
            found
        }
        Err(error) => {
            let error: DbError = error;
            // That the database is away is said once, by whoever works.
            if !error.is_transient() {
                tracing::warn!(%error, "stored times could not be checked");
            }
            TimesAhead::default()
        }
    }
}

/// Looks until it is told to stop.
pub(super) async fn keep(
    config: Arc<Config>,
    store: Arc<dyn Store>,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut steps = clock.steps();
    let mut looked = clock.now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep_until(clock.now().after(STEP_INTERVAL)) => {}
        }
        let now = clock.now();
        let stepped = std::mem::replace(&mut steps, clock.steps()) != steps;
        if stepped {
            tracing::warn!(%now, "the clock was set");
        }
        if stepped || now < looked || now.since(looked) >= CHECK_INTERVAL {
            looked = now;
            check(&config, &*store).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Span;

    #[test]
    fn channels_that_are_polled_seldom_by_default_are_not_late() {
        let mut config = Config::default();
        config.schedule.max_interval = Span::seconds(10);
        assert!(longest_interval(&config) >= config.spider.min_interval.duration());
        assert!(horizon(&config, &[]) >= longest_interval(&config));
    }
}
