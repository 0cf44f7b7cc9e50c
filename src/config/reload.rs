//! What a configuration that is read again changes in a running engine, and what it cannot.
//!
//! Pure: who reads it, and who is told, is not known here. What stands in rows, files and open
//! connections counts from the next start on.

use super::show::leaves;
use super::{Config, Retention, Sources};

/// A configuration that was read again.
#[derive(Debug, Clone)]
pub struct Reloaded {
    /// What applies from now on.
    pub config: Config,
    /// Keys whose values are others than before.
    pub changed: Vec<String>,
    /// Keys that were changed too, and only count from the next start on.
    pub waiting: Vec<String>,
}

/// What applies from now on, of what was read, beside what runs.
pub fn reload(running: &Config, read: &Config) -> Reloaded {
    let mut config = read.clone();
    config.data_dir.clone_from(&running.data_dir);
    config.database.clone_from(&running.database);
    let reload_interval = read.sources.reload_interval;
    config.sources = Sources { reload_interval, ..running.sources.clone() };
    config.hosts.concurrency = running.hosts.concurrency;
    config.hosts.groups.clone_from(&running.hosts.groups);
    config.robots.apply_to_feeds = running.robots.apply_to_feeds;
    // A lease lasts twice as long, and is in the rules of all who share the store.
    config.fetch.task_timeout = running.fetch.task_timeout;
    config.normalize.clone_from(&running.normalize);
    config.dedup.url_equality = running.dedup.url_equality;
    config.archive.clone_from(&running.archive);
    config.retention = Retention { min_free: read.retention.min_free, ..running.retention.clone() };
    config.sinks.clone_from(&running.sinks);
    config.api.clone_from(&running.api);
    config.log.clone_from(&running.log);
    config.trace.clone_from(&running.trace);
    Reloaded { changed: differing(running, &config), waiting: differing(&config, read), config }
}

/// Keys that have other values, or are only in one of them. Secrets look alike, and are not told.
fn differing(one: &Config, other: &Config) -> Vec<String> {
    let (one, other) = (leaves(one), leaves(other));
    let missing = |(path, value): &&(String, toml::Value), among: &[(String, toml::Value)]| {
        !among.iter().any(|(known, held)| known == path && held == value)
    };
    let gone = one.iter().filter(|leaf| missing(leaf, &other));
    let come = other.iter().filter(|leaf| missing(leaf, &one));
    let mut paths: Vec<String> = gone.chain(come).map(|(path, _)| path.clone()).collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::super::{Secret, Span};
    use super::*;

    #[test]
    fn what_can_change_changes_and_what_cannot_is_named() {
        let running = Config::default();
        let mut read = running.clone();
        read.schedule.default_interval = Span::minutes(30);
        read.hosts.delay = Span::seconds(3);
        read.fetch.workers = 20;
        read.data_dir = "/elsewhere".into();
        read.normalize.tracking = vec!["ref".into()];
        read.sinks.clear();
        let reloaded = reload(&running, &read);
        assert_eq!(reloaded.changed, ["fetch.workers", "hosts.delay", "schedule.default_interval"]);
        let (keys, others): (Vec<_>, Vec<_>) =
            reloaded.waiting.iter().partition(|key| key.starts_with("sinks."));
        assert_eq!(others, ["data_dir", "normalize.tracking", "sinks"]);
        assert!(keys.iter().any(|key| *key == "sinks.ndjson.dir"), "{keys:?}");
        assert_eq!(reloaded.config.data_dir, running.data_dir);
        assert_eq!(reloaded.config.fetch.workers, 20);
    }

    #[test]
    fn the_same_changes_nothing_and_secrets_are_not_told() {
        let mut running = Config::default();
        running.archive.secret_key = Secret::from("hunter2".to_owned());
        let same = reload(&running, &running);
        assert_eq!((same.config, same.changed.len(), same.waiting.len()), (running, 0, 0));
    }
}
