//! What is known of the search for a publisher's feeds and sitemaps.

use feedmill_formats::discover::{Candidate, How};
use serde::{Deserialize, Serialize};

use super::{Kind, Status, Ts};

/// A search, as far as it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovery {
    /// When the first answer came.
    pub began: Option<Ts>,
    /// When it was over.
    pub ended: Option<Ts>,
    /// Answers that it has cost.
    pub requests: u32,
    /// What was found.
    pub found: Vec<FoundChannel>,
    /// What was looked at in vain, in this order.
    pub tried: Vec<Tried>,
    /// What is being asked for.
    pub asking: Option<Candidate>,
    /// What is still to be looked at, the best first; once it is over, what else the site declares.
    pub left: Vec<Candidate>,
}

/// A feed or sitemap that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundChannel {
    /// Where.
    pub url: String,
    /// What it is.
    pub kind: Kind,
    /// How it was found.
    pub how: How,
    /// Its own title.
    pub title: Option<String>,
    /// Items in it; none are counted of one that is followed already.
    pub items: u32,
    /// The date of its newest item.
    pub newest: Option<Ts>,
    /// Whether it is a sitemap of news.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub news: bool,
}

/// An address that was looked at in vain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// Where.
    pub url: String,
    /// How it was found.
    pub how: How,
    /// Why it is no channel.
    pub why: String,
}

/// What is known of an address that a search may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadState {
    /// What it is known as.
    pub kind: Kind,
    /// Where its task stands.
    pub status: Status,
    /// When it was last asked for.
    pub fetched_at: Option<Ts>,
}

/// What an answer changes about a search.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscoveryFact {
    /// The search from now on.
    pub state: Discovery,
    /// What the task itself is from now on.
    pub becomes: Option<Kind>,
    /// Channels that the source has from now on.
    pub channels: Vec<(Kind, String)>,
}
