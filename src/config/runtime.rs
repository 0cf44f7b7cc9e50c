//! Which settings can be changed while Feedmill runs, through the API or `feedmill config set`.
//!
//! One table decides. Keys that widen access, name files or directories, or hold URLs with credentials
//! are changed in the configuration file, the environment or flags only: whoever reaches the API must not
//! be able to read the server's files or to lift its own limits. A key that the table does not name is
//! refused, so that a new key is safe until somebody has decided about it.

use super::keys::{KEYS, Place};

/// How a setting can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// While Feedmill runs.
    Running,
    /// Not while it runs: rows, files or connections depend on it.
    AtStart,
    /// Only by whoever can change the configuration file, the environment or flags.
    FileOnly,
}

use Change::{AtStart, FileOnly, Running};

/// Every key. A section as `section.*` is never `Running`, so that a new key is refused until somebody
/// has decided about it. The first entry that fits counts.
const TABLE: &[(&str, Change)] = &[
    ("data_dir", FileOnly),
    ("profile", Running),
    ("database.*", FileOnly),
    ("sources.reload_interval", Running),
    ("sources.redis_interval", AtStart),
    ("sources.manager.interval", AtStart),
    ("sources.*", FileOnly),
    ("fetch.agent", Running),
    ("fetch.contact", Running),
    ("fetch.workers", Running),
    ("fetch.request_timeout", Running),
    ("fetch.connect_timeout", Running),
    ("fetch.read_timeout", Running),
    ("fetch.task_timeout", AtStart),
    ("fetch.max_body", Running),
    ("fetch.max_sitemap", Running),
    ("fetch.max_decoded", Running),
    ("fetch.max_redirects", Running),
    ("fetch.conditional_pages", Running),
    ("fetch.resolve", FileOnly),
    ("fetch.proxy", FileOnly),
    ("fetch.bind", FileOnly),
    ("fetch.allow_networks", FileOnly),
    ("fetch.allow_hosts", FileOnly),
    ("fetch.allow_ports", FileOnly),
    ("hosts.delay", Running),
    ("hosts.concurrency", AtStart),
    ("hosts.groups", AtStart),
    ("hosts.max_retry_after", Running),
    ("robots.apply_to_feeds", AtStart),
    ("robots.ttl", Running),
    ("robots.on_server_error", Running),
    ("schedule.policy", Running),
    ("schedule.budget", Running),
    ("schedule.default_interval", Running),
    ("schedule.sitemap_interval", Running),
    ("schedule.min_interval", Running),
    ("schedule.max_interval", Running),
    ("schedule.jitter", Running),
    ("schedule.jitter_respects_min", Running),
    ("schedule.ewma_up", Running),
    ("schedule.ewma_down", Running),
    ("schedule.ewma_alpha", Running),
    ("schedule.ewma_blend", Running),
    ("schedule.on_failure_threshold", Running),
    ("schedule.failure_threshold", Running),
    ("schedule.disable_on_permanent", Running),
    ("schedule.backoff", Running),
    ("schedule.backoff_base", Running),
    ("schedule.backoff_cap", Running),
    ("retry.mode", Running),
    ("retry.max", Running),
    ("retry.first", Running),
    ("retry.cap", Running),
    ("normalize.*", AtStart),
    ("discovery.enabled", Running),
    ("discovery.max_requests", Running),
    ("discovery.time_limit", Running),
    ("discovery.retry", Running),
    ("dedup.url_equality", AtStart),
    ("dedup.use_link_step", Running),
    ("redirect.policy", Running),
    ("redirect.permanent_only_alias", Running),
    ("extract.min_html_chars", Running),
    ("validation.reject", Running),
    ("validation.max_title_chars", Running),
    ("validation.earliest_year", Running),
    ("refetch.policy", Running),
    ("refetch.interval", Running),
    ("refetch.times", Running),
    ("feed.initial_item_cap", Running),
    ("feed.stale_after", Running),
    ("feed.unwrap_links", Running),
    ("feed.reject_links", Running),
    ("sitemap.max_age", Running),
    ("spider.max_depth", Running),
    ("spider.max_pages", Running),
    ("spider.max_page_number", Running),
    ("spider.min_interval", Running),
    ("spider.external_links", Running),
    ("archive.*", FileOnly),
    ("retention.min_free", Running),
    ("retention.*", AtStart),
    ("sinks.*", FileOnly),
    ("api.*", FileOnly),
    ("log.*", AtStart),
    ("trace.*", FileOnly),
];

/// How a setting can be changed. Whatever names a file to read, or is not in the table, only in the
/// configuration file.
pub fn change_of(path: &str) -> Change {
    match KEYS.find(path) {
        Some(Place::Key { is_file: false, .. }) => listed(path).unwrap_or(FileOnly),
        Some(Place::Key { is_file: true, .. } | Place::Section) | None => FileOnly,
    }
}

/// Whether there is such a key.
pub fn is_key(path: &str) -> bool {
    matches!(KEYS.find(path), Some(Place::Key { .. }))
}

/// Whether there is such a section: it is set key by key.
pub fn is_section(path: &str) -> bool {
    matches!(KEYS.find(path), Some(Place::Section))
}

fn listed(path: &str) -> Option<Change> {
    let fits = |entry: &str| match entry.strip_suffix(".*") {
        Some(section) => path.strip_prefix(section).is_some_and(|rest| rest.starts_with('.')),
        None => entry == path,
    };
    TABLE.iter().find(|(entry, _)| fits(entry)).map(|(_, change)| *change)
}

#[cfg(test)]
mod tests {
    use super::super::profile::Profile;
    use super::*;

    /// Parts of names of keys that reach beyond Feedmill: files, networks, other services, secrets.
    const REACHING: &[&str] = &[
        "file", "dir", "path", "url", "urls", "token", "secret", "password", "key", "proxy",
        "resolve", "bind", "allow", "listen", "socket", "endpoint", "headers", "origins", "salt",
        "open", "command", "exec",
    ];

    #[test]
    fn every_key_is_classified() {
        for path in KEYS.paths() {
            assert!(
                listed(path).is_some(),
                "src/config/runtime.rs does not say whether `{path}` can be changed through the API: \
                 add it to TABLE (FileOnly if it widens access or names a file, URL or secret)"
            );
        }
    }

    #[test]
    fn every_entry_names_a_key_or_section() {
        for (entry, change) in TABLE {
            let section = entry.strip_suffix(".*");
            assert!(section.is_none() || *change != Running, "{entry}: name each key");
            let known = KEYS.paths().any(|path| match section {
                Some(section) => path.starts_with(&format!("{section}.")),
                None => path == *entry,
            });
            assert!(known, "{entry}");
        }
    }

    #[test]
    fn what_reaches_beyond_feedmill_is_never_changed_through_the_api() {
        for path in KEYS.paths() {
            let last = path.rsplit('.').next().unwrap_or_default();
            // How addresses are compared reaches nothing.
            let reaching = last.split('_').any(|word| REACHING.contains(&word))
                && !matches!(
                    path,
                    "dedup.url_equality"
                        | "normalize.scheme_in_key"
                        | "normalize.upgrade_stored_url"
                );
            assert!(!reaching || change_of(path) == FileOnly, "{path}");
            if let Some(Place::Key { key, .. }) = KEYS.find(path) {
                assert!(!key.secret || change_of(path) == FileOnly, "{path}");
            }
        }
        for path in [
            "sources.manager.token_file",
            "database.url_file",
            "sinks.mine.url_file",
            "sinks.mine",
            "no.such.key",
            "fetch",
        ] {
            assert_eq!(change_of(path), FileOnly, "{path}");
        }
        assert_eq!(change_of("schedule.default_interval"), Running);
    }

    #[test]
    fn a_profile_sets_nothing_that_only_the_file_may() {
        for profile in ["s0", "s1_strict", "s2", "s3", "s4"] {
            for (key, _) in Profile::named(profile).unwrap().settings() {
                assert_ne!(change_of(key), FileOnly, "{profile} sets {key}");
            }
        }
    }
}
