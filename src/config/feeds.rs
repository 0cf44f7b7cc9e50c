//! What is taken from feeds, and when two things count as one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;

/// What is taken from feeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Feed {
    /// How many items are taken from a feed that was never read, or not for `stale_after`: the newest
    /// ones. The others are left alone for good. 0 takes all.
    pub initial_item_cap: u32,
    /// How long a feed must not have been read for `initial_item_cap` to apply again.
    pub stale_after: Span,
    /// Whether links through Google, Yahoo, MSN, `FeedBurner`, mail filters and the like are opened
    /// where the page stands in them. The link as it was given is kept with the entry.
    pub unwrap_links: bool,
    /// Links that have one of these texts in them are not followed, such as "msn.com". Their entries
    /// are kept.
    pub reject_links: Vec<String>,
}

/// When two things count as one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dedup {
    /// When two addresses are one page: "normalized" when they differ only by what `normalize` leaves
    /// out, "exact" when they are the same to the letter.
    pub url_equality: UrlEquality,
    /// Whether an entry without an id is known by its link alone, and not by link, title and date.
    pub use_link_step: bool,
}

/// When two addresses are one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UrlEquality {
    #[default]
    Normalized,
    Exact,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            initial_item_cap: 0,
            stale_after: Span::hours(15 * 24),
            unwrap_links: true,
            reject_links: Vec::new(),
        }
    }
}
