//! How far the spider walks on sites without feeds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;

/// How sites are walked whose sources say so (`ingestion_mode` "spider" or "both"). The spider only
/// finds articles; it keeps to the host of its source's home page and the twin with or without `www`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Spider {
    /// How many links away from the home page pages are walked, where a source says nothing; -1 is
    /// without end (-1 to 100).
    pub max_depth: i16,
    /// How many pages of one source are walked to find articles; the articles do not count.
    pub max_pages: u32,
    /// Lists are read up to this page: some go on for ever.
    pub max_page_number: u32,
    /// Least time between two looks at a page that lists articles, where a source says nothing.
    pub min_interval: Span,
    /// What becomes of links to other sites: "candidate" notes them for `source candidates`, "submit"
    /// fetches them as articles of the source, "ignore" does nothing.
    pub external_links: External,
}

/// What becomes of links to other sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum External {
    #[default]
    Candidate,
    Submit,
    Ignore,
}

impl Default for Spider {
    fn default() -> Self {
        Self {
            max_depth: 3,
            max_pages: 10_000,
            max_page_number: 100,
            min_interval: Span::hours(1),
            external_links: External::Candidate,
        }
    }
}
