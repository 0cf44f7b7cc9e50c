//! Profiles: named sets of defaults, for those who come from one of the designs that Feedmill grew out
//! of and want it to behave as that one says.
//!
//! A profile is nothing but values for keys. It stands between the defaults and the file: whatever
//! somebody sets wins over it, and `config show` tells which values are its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whose defaults apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    #[default]
    Feedmill,
    // The URL frontier of north-cloud.
    S0,
    // The same with its plan's list of tracking parameters.
    S1Strict,
    // The RSS fetcher of rssify.
    S2,
    // The discovery service of newsfed.
    S3,
    // The canonical fetcher of MarketSwarm.
    S4,
}

/// A key and its value, as it is written in the environment.
type Setting = (&'static str, &'static str);

const S0: &[Setting] = &[
    ("schedule.policy", "fixed"),
    ("schedule.default_interval", "15m"),
    ("schedule.sitemap_interval", "6h"),
    ("schedule.jitter", "0"),
    ("schedule.on_failure_threshold", "keep_retrying"),
    ("schedule.backoff", "interval"),
    ("schedule.backoff_base", "2"),
    ("schedule.backoff_cap", "24h"),
    ("redirect.policy", "submit_final"),
    ("spider.external_links", "submit"),
    ("log.messages", "north_cloud"),
];

const S1_STRICT: &[Setting] = &[("normalize.tracking", "ref")];

const S2: &[Setting] = &[
    ("schedule.policy", "ewma"),
    ("schedule.default_interval", "15m"),
    ("schedule.min_interval", "300s"),
    ("schedule.max_interval", "86400s"),
    ("schedule.jitter", "0.15"),
    ("schedule.backoff", "interval"),
    ("schedule.backoff_base", "2"),
    ("schedule.backoff_cap", "3600s"),
    ("redirect.policy", "follow"),
];

const S3: &[Setting] = &[
    ("schedule.policy", "fixed"),
    ("schedule.default_interval", "1h"),
    ("schedule.min_interval", "5m"),
    ("schedule.max_interval", "24h"),
    ("schedule.jitter", "0"),
    ("schedule.on_failure_threshold", "disable"),
    ("schedule.failure_threshold", "10"),
    ("schedule.disable_on_permanent", "at_once"),
    ("schedule.backoff", "none"),
    ("fetch.workers", "5"),
    ("fetch.request_timeout", "10s"),
    ("fetch.task_timeout", "60s"),
    ("fetch.conditional_pages", "false"),
    ("dedup.url_equality", "exact"),
    ("redirect.policy", "follow"),
    ("feed.initial_item_cap", "20"),
    ("feed.stale_after", "15d"),
    ("validation.reject", "title,date,future,site"),
    ("log.messages", "newsfed"),
];

const S4: &[Setting] = &[
    ("schedule.policy", "fixed"),
    ("schedule.default_interval", "10m"),
    ("fetch.request_timeout", "15s"),
    ("extract.min_html_chars", "200"),
    ("retry.mode", "once"),
    ("dedup.url_equality", "exact"),
    ("redirect.policy", "follow"),
    ("feed.reject_links", "google.com/url,msn.com,news.google.com"),
    ("log.messages", "canonical"),
];

impl Profile {
    /// By its name in a file, or by that of the project that it is of.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name.trim() {
            "feedmill" => Self::Feedmill,
            "s0" | "north_cloud" => Self::S0,
            "s1_strict" => Self::S1Strict,
            "s2" | "rssify" => Self::S2,
            "s3" | "newsfed" => Self::S3,
            "s4" | "canonical" => Self::S4,
            _ => return None,
        })
    }

    /// The name, as written in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Feedmill => "feedmill",
            Self::S0 => "s0",
            Self::S1Strict => "s1_strict",
            Self::S2 => "s2",
            Self::S3 => "s3",
            Self::S4 => "s4",
        }
    }

    /// What it sets.
    pub(super) fn settings(self) -> impl Iterator<Item = Setting> {
        let (own, more): (&[Setting], &[Setting]) = match self {
            Self::Feedmill => (&[], &[]),
            Self::S0 => (S0, &[]),
            Self::S1Strict => (S0, S1_STRICT),
            Self::S2 => (S2, &[]),
            Self::S3 => (S3, &[]),
            Self::S4 => (S4, &[]),
        };
        own.iter().chain(more).copied()
    }
}
