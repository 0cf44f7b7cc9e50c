//! Every setting on which the seeds disagree (REQUIREMENTS, section 7), and every default that a seed
//! states, in two tables. A line that is no setting says where it is held instead.

use std::collections::BTreeMap;

use feedmill::config::{LoadOptions, Loaded, load, show_json};
use serde_json::Value;

fn loaded(overrides: &[(&str, &str)]) -> Loaded {
    let overrides = overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let options = LoadOptions { overrides: overrides.collect(), ..LoadOptions::default() };
    load(&options).unwrap_or_else(|error| panic!("{error}"))
}

/// A value as people write it.
fn at(loaded: &Loaded, key: &str) -> String {
    let shown = show_json(loaded);
    let value = key.split('.').fold(&shown["config"], |value, name| &value[name]);
    assert!(!value.is_null(), "there is no key {key}");
    written(value)
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(written).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// What a line of section 7 came to.
enum Line {
    /// A key, its default, and other values that it takes.
    Key(&'static str, &'static str, &'static [&'static str]),
    /// No setting of this configuration; this is where it is held.
    Held(&'static str),
    /// A setting of sinks that are yet to come.
    Sinks(&'static str),
}

use Line::{Held, Key, Sinks};

const SECTION_7: &[(&str, Line)] = &[
    ("C-01", Held("a source's id is a UUID: model::new_uuid")),
    ("C-02", Held("ingestion_mode of a source: sources::specify")),
    ("C-03", Key("schedule.default_interval", "15m", &["1h"])),
    ("C-03", Key("schedule.min_interval", "5m", &["1m"])),
    ("C-03", Key("schedule.max_interval", "24h", &["7d"])),
    ("C-04", Key("sources.reload_interval", "5m", &["0s", "1h"])),
    ("C-05", Key("fetch.workers", "10", &["5"])),
    ("C-06", Key("schedule.policy", "value", &["ewma", "fixed"])),
    ("C-07", Key("schedule.on_failure_threshold", "cooldown", &["keep_retrying", "disable"])),
    ("C-07", Key("schedule.failure_threshold", "10", &["1"])),
    ("C-07", Key("schedule.disable_on_permanent", "after_a_few", &["at_once", "never"])),
    ("C-08", Key("schedule.backoff", "table", &["interval", "none"])),
    ("C-08", Key("schedule.backoff_base", "2.0", &["1.0", "1.5"])),
    ("C-08", Key("schedule.backoff_cap", "24h", &["1h"])),
    ("C-09", Key("normalize.scheme_in_key", "https", &["given"])),
    ("C-09", Key("normalize.upgrade_stored_url", "false", &["true"])),
    ("C-10", Key("dedup.url_equality", "normalized", &["exact"])),
    ("C-11", Key("redirect.policy", "alias", &["submit_final", "follow"])),
    ("C-11", Key("redirect.permanent_only_alias", "false", &["true"])),
    ("C-11", Key("fetch.max_redirects", "5", &["0"])),
    ("C-12", Key("fetch.conditional_pages", "true", &["false"])),
    ("C-13", Key("fetch.request_timeout", "15s", &["10s"])),
    ("C-13", Key("fetch.task_timeout", "1m", &["2m"])),
    ("C-14", Key("extract.min_html_chars", "200", &["0"])),
    ("C-15", Key("dedup.use_link_step", "false", &["true"])),
    ("C-16", Sinks("redis.uid_scheme")),
    ("C-17", Sinks("the set of attempted addresses")),
    ("C-18", Key("retry.mode", "backoff", &["once"])),
    ("C-19", Held("feedmill run, feedmill once")),
    ("C-20", Key("refetch.policy", "never", &["interval", "on_lastmod_newer"])),
    ("C-21", Held("a task's references: table task_source")),
    ("C-22", Key("feed.initial_item_cap", "0", &["20"])),
    ("C-22", Key("feed.stale_after", "15d", &["20d"])),
    ("C-23", Held("an entry keeps published and updated")),
    ("C-24", Held("formats: a guid that is a permalink is the link")),
    ("C-25", Key("retention.raw_per_feed", "10", &["1"])),
    ("C-25", Sinks("retention in Redis")),
    ("C-26", Key("robots.apply_to_feeds", "false", &["true"])),
    ("C-27", Key("robots.on_server_error", "retry_later", &["allow"])),
    ("C-28", Held("schedule::hints: the last clamp is to the longest interval")),
    ("C-29", Key("schedule.jitter_respects_min", "true", &["false"])),
    ("C-30", Held("schedule::waits: every class has a row")),
    ("C-31", Held("formats: days of the week in both spellings")),
    ("C-32", Held("a channel's last_fetched_at and last_success_at")),
    ("C-33", Held("a source's enabled_at and disable_reason")),
    ("C-34", Held("config::ALIASES")),
    ("C-35", Key("fetch.agent", "", &["Mine/1.0 (+https://example.com/bot)"])),
    ("C-36", Key("spider.external_links", "candidate", &["submit", "ignore"])),
    ("C-37", Held("the indexes of the migrations")),
    ("C-38", Held("frontier::Counts::failed")),
    ("C-39", Held("fetch::tell")),
    ("C-40", Key("normalize.tracking", "", &["ref", "ref,my_*"])),
];

#[test]
fn every_line_of_section_7_has_its_setting_with_its_values() {
    let default = loaded(&[]);
    for (line, what) in SECTION_7 {
        match what {
            Key(key, value, others) => {
                assert_eq!(at(&default, key), *value, "{line} {key}");
                for other in *others {
                    assert_eq!(at(&loaded(&[(key, other)]), key), *other, "{line} {key}");
                }
            }
            Held(place) | Sinks(place) => assert!(!place.is_empty(), "{line}"),
        }
    }
    let lines: BTreeMap<&str, ()> = SECTION_7.iter().map(|(line, _)| (*line, ())).collect();
    let wanted = (1..=40).map(|n| format!("C-{n:02}"));
    assert!(wanted.eq(lines.keys().map(ToString::to_string)), "{lines:?}");
}

/// Seed and section, the profile that stands for it, key and value.
const SEEDS: &[(&str, &str, &str, &str)] = &[
    ("S0 feed_poll_interval_minutes", "s0", "schedule.default_interval", "15m"),
    ("S0 Core Loop: bounded concurrency", "s0", "fetch.workers", "10"),
    ("S0 Sitemap Polling", "s0", "schedule.sitemap_interval", "6h"),
    ("S0 Sitemap Polling: lastmod", "s0", "sitemap.max_age", "2d"),
    ("S0 Error Handling: backoff", "s0", "schedule.backoff", "interval"),
    ("S0 Error Handling: 2^errors", "s0", "schedule.backoff_base", "2.0"),
    ("S0 Error Handling: cap", "s0", "schedule.backoff_cap", "24h"),
    ("S0 Error Handling: after 10", "s0", "schedule.failure_threshold", "10"),
    ("S0 Error Handling: go on", "s0", "schedule.on_failure_threshold", "keep_retrying"),
    ("S0 Worker Pool", "s0", "fetch.workers", "10"),
    ("S0 host_state: min_delay_ms", "s0", "hosts.delay", "1s"),
    ("S0 host_state: robots_ttl_hours", "s0", "robots.ttl", "24h"),
    ("S0 Response Handling: redirects", "s0", "fetch.max_redirects", "5"),
    ("S0 Response Handling: submit final", "s0", "redirect.policy", "submit_final"),
    ("S0 Priority Scoring: no re-queue", "s0", "refetch.policy", "never"),
    ("S0 Core Loop: fixed interval", "s0", "schedule.policy", "fixed"),
    ("S0 RSS/Atom Polling: all entries", "s0", "feed.initial_item_cap", "0"),
    ("S0 Spider Integration: external links", "s0", "spider.external_links", "submit"),
    ("S0 URL Normalization 6", "s0", "normalize.tracking", ""),
    ("S1 Task 3: tracking parameters", "s1_strict", "normalize.tracking", "ref"),
    ("S1 Task 3: http is https", "s1_strict", "normalize.scheme_in_key", "https"),
    ("S1 Task 13: maxConcurrency", "s1_strict", "fetch.workers", "10"),
    ("S1 Task 2: poll interval", "s1_strict", "schedule.default_interval", "15m"),
    ("S2 4.6: I0", "s2", "schedule.default_interval", "15m"),
    ("S2 6.1: min_interval_sec", "s2", "schedule.min_interval", "5m"),
    ("S2 6.1: max_interval_sec", "s2", "schedule.max_interval", "1d"),
    ("S2 6.1: up_factor", "s2", "schedule.ewma_up", "1.25"),
    ("S2 6.1: down_factor", "s2", "schedule.ewma_down", "0.75"),
    ("S2 6.1: ewma_alpha", "s2", "schedule.ewma_alpha", "0.3"),
    ("S2 6.1: blend_lambda", "s2", "schedule.ewma_blend", "0.5"),
    ("S2 6.1: jitter_ratio", "s2", "schedule.jitter", "0.15"),
    ("S2 6.1: backoff_base", "s2", "schedule.backoff_base", "2.0"),
    ("S2 6.1: backoff_cap_sec", "s2", "schedule.backoff_cap", "1h"),
    ("S2 6.2: by the time between items", "s2", "schedule.policy", "ewma"),
    ("S2 4.4: native id, else a hash", "s2", "dedup.use_link_step", "false"),
    ("S2 4.9: last N payloads", "s2", "retention.raw_per_feed", "10"),
    ("S3 9.1.2: NEWSFED_POLL_INTERVAL", "s3", "schedule.default_interval", "1h"),
    ("S3 9.1.2: NEWSFED_CONCURRENCY", "s3", "fetch.workers", "5"),
    ("S3 9.1.2: NEWSFED_FETCH_TIMEOUT", "s3", "fetch.task_timeout", "1m"),
    ("S3 9.1.2: NEWSFED_DISABLE_THRESHOLD", "s3", "schedule.failure_threshold", "10"),
    ("S3 3.1: minimum", "s3", "schedule.min_interval", "5m"),
    ("S3 3.1: maximum", "s3", "schedule.max_interval", "24h"),
    ("S3 3.2: fixed interval", "s3", "schedule.policy", "fixed"),
    ("S3 3.2: next_fetch_at", "s3", "schedule.jitter", "0.0"),
    ("S3 4.2: 20 most recent", "s3", "feed.initial_item_cap", "20"),
    ("S3 4.2: 15 days", "s3", "feed.stale_after", "15d"),
    ("S3 5.2: no caching headers", "s3", "fetch.conditional_pages", "false"),
    ("S3 6.2: exact comparison", "s3", "dedup.url_equality", "exact"),
    ("S3 7.1: normal schedule", "s3", "schedule.backoff", "none"),
    ("S3 7.2: permanent errors", "s3", "schedule.disable_on_permanent", "at_once"),
    ("S3 7.3: disable", "s3", "schedule.on_failure_threshold", "disable"),
    ("S3 7.4: validation", "s3", "validation.reject", "title,date,future,site"),
    ("S3 8.2: 1 request per second", "s3", "hosts.delay", "1s"),
    ("S3 8.3: request timeout", "s3", "fetch.request_timeout", "10s"),
    ("S3 9.2: new sources every 5 minutes", "s3", "sources.reload_interval", "5m"),
    ("S4 3B: uid of the URL itself", "s4", "dedup.url_equality", "exact"),
    ("S4 3C: 15s timeout", "s4", "fetch.request_timeout", "15s"),
    ("S4 3C: HTML length > 200", "s4", "extract.min_html_chars", "200"),
    ("S4 5: attempted once", "s4", "retry.mode", "once"),
    ("S4 1: clean origin URLs", "s4", "feed.unwrap_links", "true"),
    ("S4 1: no aggregators", "s4", "feed.reject_links", "google.com/url,msn.com,news.google.com"),
];

/// A span by its length: a day is 24 hours.
fn same(one: &str, other: &str) -> bool {
    let span = |text: &str| text.parse::<feedmill::config::Span>().ok();
    one == other || span(one).is_some() && span(one) == span(other)
}

#[test]
fn profiles_have_the_defaults_of_their_seeds() {
    for (section, profile, key, value) in SEEDS {
        let loaded = loaded(&[("profile", profile)]);
        let set = at(&loaded, key);
        assert!(same(&set, value), "{section}: {key} is {set}, not {value}");
    }
}

#[test]
fn whatever_somebody_sets_wins_over_a_profile_and_origins_tell() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("feedmill.toml");
    let text = "profile = \"newsfed\"\n[schedule]\ndefault_interval = \"2h\"\n";
    std::fs::write(&file, text).unwrap();
    let env = [("NEWSFED_CONCURRENCY".to_owned(), "7".to_owned())].into();
    let kept = vec![("schedule.jitter".to_owned(), "0.1".to_owned())];
    let options = LoadOptions { file: Some(file), env, kept, ..LoadOptions::default() };
    let loaded = load(&options).unwrap();
    assert_eq!(at(&loaded, "profile"), "s3");
    assert_eq!(at(&loaded, "schedule.default_interval"), "2h");
    assert_eq!(at(&loaded, "fetch.workers"), "7");
    let origins = &show_json(&loaded)["origins"];
    for (key, from) in [
        ("schedule.default_interval", "file"),
        ("fetch.workers", "env"),
        ("schedule.jitter", "store"),
        ("feed.initial_item_cap", "profile"),
    ] {
        assert_eq!(origins[key]["from"], from, "{key}");
    }
    assert_eq!(origins["feed.initial_item_cap"]["name"], "s3");
    let wrong =
        LoadOptions { overrides: vec![("profile".into(), "s9".into())], ..LoadOptions::default() };
    let error = load(&wrong).unwrap_err().to_string();
    assert!(error.contains("`profile`") && error.contains("s1_strict"), "{error}");
}
