//! What is kept of pages that were read, and whether they are asked for again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;

/// Which articles are turned away although their pages could be read. They are logged and counted
/// (`source show`); that is nobody's failure, and nothing is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Validation {
    /// What an article is turned away for: "title" when it has none or one that is longer than
    /// `max_title_chars`, "date" when it is from before `earliest_year`, "future" when its date lies
    /// more than a day ahead of our clock, "site" when it is served from another site than its source's
    /// home page, feeds and sitemaps. With "date" and without "future" a date that lies ahead is left
    /// out and the article is kept, because it may be our clock that is wrong.
    pub reject: Vec<Check>,
    /// Longest title, in characters.
    pub max_title_chars: usize,
    /// Earliest year of publication (1 to 9999).
    pub earliest_year: i16,
}

/// What an article may be turned away for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    Title,
    Date,
    Future,
    Site,
}

/// Whether pages that were read are asked for again. Requests carry the validators of the last answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Refetch {
    /// "never", "interval" after each `interval`, or `on_lastmod_newer` when a feed or sitemap says
    /// that a page changed since. A source may have its own (`source pace --refetch`).
    pub policy: RefetchPolicy,
    /// Least time between two requests for a page.
    pub interval: Span,
    /// How often a page is asked for again at the most (0 to 1000).
    pub times: u32,
}

/// Whether pages are asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefetchPolicy {
    #[default]
    Never,
    Interval,
    OnLastmodNewer,
}

/// What becomes of a page whose address leads to another one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Redirect {
    /// "alias" keeps the article under the last address, which the first one points to from then on;
    /// `submit_final` makes the last address a task of its own; "follow" keeps the article under the
    /// first address. `fetch.max_redirects` says how many are followed.
    pub policy: RedirectPolicy,
    /// Whether only permanent redirects (301, 308) count as such: behind a temporary one the article is
    /// kept under the first address.
    pub permanent_only_alias: bool,
}

/// What becomes of a page whose address leads to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RedirectPolicy {
    #[default]
    Alias,
    SubmitFinal,
    Follow,
}

impl Default for Validation {
    fn default() -> Self {
        // Feeds that gather from many sites would lose everything to "site".
        let reject = vec![Check::Title, Check::Date];
        Self { reject, max_title_chars: 500, earliest_year: 1990 }
    }
}

impl Default for Refetch {
    fn default() -> Self {
        Self { policy: RefetchPolicy::Never, interval: Span::hours(24), times: 3 }
    }
}
