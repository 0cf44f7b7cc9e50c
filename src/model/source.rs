//! A source: a publisher that we follow, with its channels and its wishes.

use std::time::Duration;

use feedmill_formats::article::Selectors;
use serde::{Deserialize, Serialize};

use super::{Access, Ts, named};

/// A source's row; the public id is its UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub i64);

named! {
    /// Which producers look for a source's articles.
    pub enum IngestionMode {
        /// Its feeds and sitemaps.
        Feed = 0 "feed",
        /// A walk over its pages.
        Spider = 1 "spider",
        /// Both.
        Both = 2 "both",
    }
}

named! {
    /// How the next poll of a channel is chosen.
    pub enum PollPolicy {
        /// When the expected delay of undiscovered items is worth a request.
        Value = 0 "value",
        /// By the smoothed time between items.
        Ewma = 1 "ewma",
        /// At a fixed interval.
        Fixed = 2 "fixed",
    }
}

named! {
    /// Whether a page that was read is asked for again.
    pub enum RefetchPolicy {
        /// Once is enough.
        Never = 0 "never",
        /// After a time, so many times.
        Interval = 1 "interval",
        /// When its feed or sitemap says that it changed since.
        OnLastmodNewer = 2 "on_lastmod_newer",
    }
}

named! {
    /// How a channel of a source does, by its own rhythm.
    pub enum Health {
        /// As its rhythm lets expect, news or none.
        Usual = 0 "quiet_as_usual",
        /// Silent for longer than its rhythm explains.
        Late = 1 "late",
        /// It says that nothing changed while other channels have news.
        Frozen = 2 "frozen",
        /// It answers, without any items.
        Empty = 3 "empty",
        /// More is published between two polls than its document holds.
        Overflowing = 4 "overflowing",
        /// It refuses us.
        Blocked = 5 "blocked",
        /// Its polls fail.
        Failing = 6 "failing",
    }
}

/// How often a source is polled, as far as its operator says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polling {
    /// A fixed time between polls.
    pub interval: Option<Duration>,
    /// How polls are chosen.
    pub policy: Option<PollPolicy>,
    /// At least this far apart.
    pub min: Option<Duration>,
    /// At most this far apart.
    pub max: Option<Duration>,
}

/// What an operator says about a publisher to follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewSource {
    /// Unique among sources.
    pub name: String,
    /// The publisher's home page.
    pub url: String,
    /// Its feeds.
    pub feed_urls: Vec<String>,
    /// Its sitemaps.
    pub sitemap_urls: Vec<String>,
    /// Which producers look for its articles.
    pub ingestion_mode: IngestionMode,
    /// A label that its articles carry.
    pub category: Option<String>,
    /// More labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// 1 to 10, 10 first.
    pub priority: u8,
    /// The pause between two requests to its hosts, when robots.txt names none.
    #[serde(rename = "rate_limit_ms", with = "millis")]
    pub rate_limit: Option<Duration>,
    /// A fixed time between polls, instead of the policy's choice.
    #[serde(rename = "poll_interval_ms", with = "millis")]
    pub poll_interval: Option<Duration>,
    /// How its polls are chosen, instead of the house's way.
    #[serde(default)]
    pub poll_policy: Option<PollPolicy>,
    /// Its polls come at least this far apart, instead of what the house says.
    #[serde(rename = "min_interval_ms", with = "millis", default)]
    pub min_interval: Option<Duration>,
    /// And at most this far.
    #[serde(rename = "max_interval_ms", with = "millis", default)]
    pub max_interval: Option<Duration>,
    /// Whether its pages are asked for again, instead of the house's way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refetch: Option<RefetchPolicy>,
    /// Where the parts of its articles stand.
    #[serde(default, skip_serializing_if = "Selectors::is_empty")]
    pub selectors: Selectors,
    /// Whether feeds and sitemaps that it does not name are looked for.
    #[serde(default = "yes")]
    pub discover: bool,
    /// How its home page is read when it is no feed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website: Option<Website>,
    /// Expressions that tell its articles by their addresses; none leaves it to their spelling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub article_url_patterns: Vec<String>,
    /// How many links away from its home page the spider walks, instead of the house's way; 0 is the
    /// home page alone, -1 is without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<i16>,
    /// How it is asked, where that is not everybody's way.
    #[serde(default, skip_serializing_if = "Access::is_empty")]
    pub access: Access,
    /// Whose list it stands on, when it is kept in step with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<Managed>,
}

/// A source's place on a list that others keep and we follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Managed {
    /// Where the list is.
    pub by: String,
    /// What the source is called there.
    pub id: String,
    /// The fields that it says something about: when it no longer does, what it said goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub says: Vec<String>,
}

const fn yes() -> bool {
    true
}

/// How the home page of a source leads to its articles, when an operator says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "discovery_mode", rename_all = "snake_case")]
pub enum Website {
    /// It is the article.
    Direct,
    /// It lists them.
    List {
        /// Which elements are, or hold, links to articles.
        article_selector: String,
        /// Which element is, or holds, the link to the next page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pagination_selector: Option<String>,
        /// How many pages are read at the most.
        #[serde(default = "one")]
        max_pages: u16,
    },
}

const fn one() -> u16 {
    1
}

impl NewSource {
    /// A publisher of whom nothing else is said: no channels, and the house's way in everything.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            feed_urls: Vec::new(),
            sitemap_urls: Vec::new(),
            ingestion_mode: IngestionMode::Feed,
            category: None,
            tags: Vec::new(),
            priority: Source::DEFAULT_PRIORITY,
            rate_limit: None,
            poll_interval: None,
            poll_policy: None,
            min_interval: None,
            max_interval: None,
            refetch: None,
            selectors: Selectors::default(),
            discover: true,
            website: None,
            article_url_patterns: Vec::new(),
            max_depth: None,
            access: Access::default(),
            managed: None,
        }
    }

    /// Whether its own pages are read to find its articles.
    #[must_use]
    pub fn reads_pages(&self) -> bool {
        self.website.is_some() || self.ingestion_mode != IngestionMode::Feed
    }

    /// Whether it names no channels and wants some to be found.
    #[must_use]
    pub fn seeks_channels(&self) -> bool {
        !self.names_channels() && !self.reads_pages() && self.discover
    }

    /// Whether channels are to be found beside the pages that are walked.
    #[must_use]
    pub fn seeks_beside(&self) -> bool {
        let walks_too = self.ingestion_mode == IngestionMode::Both && self.website.is_none();
        !self.names_channels() && walks_too && self.discover
    }

    /// Whether it names a feed or a sitemap.
    #[must_use]
    pub const fn names_channels(&self) -> bool {
        !self.feed_urls.is_empty() || !self.sitemap_urls.is_empty()
    }

    /// From now on it is polled like this.
    pub const fn set_polling(&mut self, polling: Polling) {
        (self.poll_interval, self.poll_policy) = (polling.interval, polling.policy);
        (self.min_interval, self.max_interval) = (polling.min, polling.max);
    }

    /// What the store keeps: unlike everything else that is written of a source, with its secrets.
    pub fn stored(&self) -> serde_json::Result<String> {
        let mut value = serde_json::to_value(self)?;
        if let Some(access) = value.get_mut("access") {
            *access = self.access.exposed();
        }
        Ok(value.to_string())
    }
}

/// How a source comes in.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// What is said about it.
    pub spec: NewSource,
    /// Why it is not followed for now.
    pub disabled: Option<String>,
    /// Its channels are not polled before; at once when nothing is said.
    pub first_poll: Option<Ts>,
}

impl From<NewSource> for Admission {
    fn from(spec: NewSource) -> Self {
        Self { spec, disabled: None, first_poll: None }
    }
}

/// What is said anew about a source: each replaces what was said of the same before.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceChange {
    /// Everything. It holds only if the source is still as it was.
    Whole {
        /// What was said when the change was made up.
        was: Box<NewSource>,
        /// What is said now.
        now: Box<NewSource>,
    },
    /// How it is asked.
    Access(Access),
    /// Where the parts of its articles stand.
    Selectors(Box<Selectors>),
    /// How often it is polled, and whether its pages are asked for again.
    Pace(Polling, Option<RefetchPolicy>),
}

impl SourceChange {
    /// Writes it into what is said.
    pub fn apply(self, to: &mut NewSource) {
        match self {
            Self::Whole { now, .. } => *to = *now,
            Self::Access(access) => to.access = access,
            Self::Selectors(selectors) => to.selectors = *selectors,
            Self::Pace(polling, refetch) => {
                to.set_polling(polling);
                to.refetch = refetch;
            }
        }
    }
}

/// A span as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde hands the field over like this")]
    pub(super) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(|span| span.as_millis()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

/// A publisher that we follow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Source {
    /// Its row.
    #[serde(skip)]
    pub id: SourceId,
    /// Its public id.
    #[serde(rename = "id")]
    pub uuid: String,
    /// What the operator said.
    #[serde(flatten)]
    pub spec: NewSource,
    /// Since when it is followed; `None` while it is disabled.
    pub enabled_at: Option<Ts>,
    /// Since when it is not.
    pub disabled_at: Option<Ts>,
    /// Why it is not followed.
    pub disable_reason: Option<String>,
    /// When it was added.
    pub created_at: Ts,
}

impl Source {
    /// The priority of a source that says nothing about it.
    pub const DEFAULT_PRIORITY: u8 = 5;

    /// Whether it is followed.
    #[must_use]
    pub const fn enabled(&self) -> bool {
        self.enabled_at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Auth, Secret};
    use super::*;

    fn source(auth: Auth) -> NewSource {
        let secret = |text: &str| Secret::from(text.to_owned());
        NewSource {
            feed_urls: vec!["https://alder.example/feed".into()],
            rate_limit: Some(Duration::from_secs(2)),
            access: Access {
                user_agent: Some("Alder/1".into()),
                headers: [("x-key".to_owned(), secret("hunter1"))].into(),
                cookie: Some(secret("a=hunter2")),
                auth: Some(auth),
                proxy: Some("http://ann:hunter3@proxy.example:3128".to_owned().into()),
                bind: vec!["192.0.2.1".parse().unwrap()],
                unconditional: true,
            },
            ..NewSource::new("alder", "https://alder.example/")
        }
    }

    #[test]
    fn only_the_store_gets_secrets() {
        let secret = || Secret::from("hunter4".to_owned());
        for auth in [Auth::Bearer(secret()), Auth::Basic { user: "ann".into(), password: secret() }]
        {
            let source = source(auth);
            let stored = source.stored().unwrap();
            assert_eq!(serde_json::from_str::<NewSource>(&stored).unwrap(), source);
            for shown in [serde_json::to_string(&source).unwrap(), format!("{source:?}")] {
                assert!(shown.contains("x-key") && shown.contains("ann:***@"), "{shown}");
                assert!(!shown.contains("hunter"), "{shown}");
            }
        }
    }

    #[test]
    fn a_source_of_an_older_version_reads() {
        let mut plain = source(Auth::Bearer(Secret::default()));
        plain.access = Access::default();
        let stored = plain.stored().unwrap();
        assert!(!stored.contains("access"));
        assert_eq!(serde_json::from_str::<NewSource>(&stored).unwrap(), plain);
    }
}
