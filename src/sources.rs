//! What to follow: from what an operator says to a source that can be added. Pure.
//!
//! Nothing here is fetched: an address is what its spelling says, or what the operator says it is.

mod access;
mod error;
pub mod fields;
pub mod lists;
pub mod manager;
pub mod plan;
mod rights;

use feedmill_formats::article::Selector;
use feedmill_formats::url::{self, Url};
use feedmill_formats::walk::{self, PatternError};
use serde_json::Value;

use crate::model::{Access, IngestionMode, Kind, NewSource, PollPolicy, Polling, Website};

pub use error::SpecError;
pub use rights::{AdminOnly, check_rights, moves_credentials};

/// The longest name, category or tag.
pub const MAX_NAME: usize = 100;
/// Bytes of all that is said about a source. The database keeps it, and every task of the source carries it.
pub const MAX_SIZE: usize = 256 << 10;
/// The most channels, tags or patterns of a source.
const MOST: usize = 1_000;

/// What an operator says about a source.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Its channels; the first one also tells the home page and the name.
    pub urls: Vec<String>,
    /// What all channels are, instead of what their spelling says.
    pub kind: Option<Kind>,
    /// Everything else, by the names of [`fields`].
    pub said: Vec<(String, Value)>,
    /// How it is asked.
    pub access: Access,
}

/// Makes the source, or says what is wrong with it. `permit` has the last word on an address.
pub fn specify(
    wanted: &Wanted,
    permit: impl Fn(&Url) -> Result<(), String>,
) -> Result<NewSource, SpecError> {
    let mut spec = NewSource { access: wanted.access.clone(), ..NewSource::new("", "") };
    let (mut named, mut moded) = (false, false);
    for (name, value) in &wanted.said {
        fields::set(&mut spec, name, value)?;
        let key = fields::canonical(name);
        named |= key == "name" && !matches!(value, Value::Null);
        moded |= key == "ingestion_mode" && !matches!(value, Value::Null) && value != "";
    }
    for given in &wanted.urls {
        let channels = match wanted.kind.map_or_else(|| Ok(guess_kind(&address(given)?)), Ok)? {
            Kind::Sitemap => &mut spec.sitemap_urls,
            _ => &mut spec.feed_urls,
        };
        let channel = given.trim().to_owned();
        if !channels.contains(&channel) {
            channels.push(channel);
        }
    }
    let home = settle_home(&mut spec)?;
    if spec.name.is_empty() && !named {
        spec.name = url::host(&home);
    }
    if !moded {
        spec.ingestion_mode = usual_mode(&spec);
    }
    check(&spec, permit)?;
    spec.name = spec.name.trim().to_owned();
    Ok(spec)
}

/// The home page: as given, else where the first channel is. One that is spelled like a feed or sitemap
/// is that instead, when there is no other and it is not to be read as a page.
fn settle_home(spec: &mut NewSource) -> Result<Url, SpecError> {
    let has_channels = !spec.feed_urls.is_empty() || !spec.sitemap_urls.is_empty();
    if !spec.url.is_empty() {
        let home = address(&spec.url)?;
        let Some(kind) = spelled(&home).filter(|_| !has_channels && spec.website.is_none()) else {
            return Ok(home);
        };
        let given = std::mem::replace(&mut spec.url, format!("{}/", url::origin(&home)));
        if kind == Kind::Sitemap { &mut spec.sitemap_urls } else { &mut spec.feed_urls }
            .push(given);
        return Ok(home);
    }
    let first = spec.feed_urls.first().or_else(|| spec.sitemap_urls.first());
    let home = address(first.ok_or(SpecError::NoUrl)?)?;
    spec.url = format!("{}/", url::origin(&home));
    Ok(home)
}

/// Feeds where some are named or looked for, else a walk over the pages.
const fn usual_mode(spec: &NewSource) -> IngestionMode {
    let feeds = !spec.feed_urls.is_empty() || !spec.sitemap_urls.is_empty();
    match (feeds, spec.website.is_some()) {
        (true, false) => IngestionMode::Feed,
        (true, true) => IngestionMode::Both,
        (false, false) if spec.discover => IngestionMode::Feed,
        (false, _) => IngestionMode::Spider,
    }
}

/// Says what is wrong with a source. `permit` has the last word on an address.
pub fn check(
    spec: &NewSource,
    permit: impl Fn(&Url) -> Result<(), String>,
) -> Result<(), SpecError> {
    let channels = spec.feed_urls.iter().chain(&spec.sitemap_urls);
    for given in channels.chain([&spec.url]) {
        let parsed = address(given)?;
        permit(&parsed)
            .map_err(|reason| SpecError::Refused { url: given.trim().to_owned(), reason })?;
    }
    let count = spec.feed_urls.len() + spec.sitemap_urls.len();
    let all = [(count, "channels"), (spec.tags.len(), "tags")];
    let patterns = (spec.article_url_patterns.len(), "patterns");
    for (count, what) in all.into_iter().chain([patterns]) {
        if count > MOST {
            return Err(SpecError::TooMany { what, count });
        }
    }
    let feeds_only = spec.ingestion_mode == IngestionMode::Feed && spec.website.is_none();
    if count == 0 && feeds_only && !spec.discover {
        return Err(SpecError::NoChannel);
    }
    label("name", &spec.name)?;
    spec.category.iter().try_for_each(|given| label("category", given))?;
    spec.tags.iter().try_for_each(|given| label("tag", given))?;
    if !(1..=10).contains(&spec.priority) {
        return Err(SpecError::Priority(spec.priority));
    }
    if spec.rate_limit.is_some_and(|pause| pause.is_zero()) {
        return Err(SpecError::Field {
            field: "rate_limit".to_owned(),
            given: "0".to_owned(),
            wanted: "a pause such as 2s, or nothing for the usual one".to_owned(),
        });
    }
    check_access(&spec.access)?;
    let size = serde_json::to_string(spec).map_or(usize::MAX, |text| text.len());
    if size > MAX_SIZE {
        return Err(SpecError::TooLarge(size));
    }
    check_polling(&Polling {
        interval: spec.poll_interval,
        policy: spec.poll_policy,
        min: spec.min_interval,
        max: spec.max_interval,
    })?;
    check_pages(spec)
}

/// What says which pages are articles, and how far the way to them may be.
fn check_pages(spec: &NewSource) -> Result<(), SpecError> {
    for pattern in &spec.article_url_patterns {
        let refuse = |problem: String| SpecError::Pattern { pattern: pattern.clone(), problem };
        if pattern.chars().any(char::is_whitespace) {
            return Err(refuse("addresses have no blanks; leave them out".to_owned()));
        }
    }
    walk::compiled(&spec.article_url_patterns).map_err(|error| match error {
        PatternError::One { pattern, problem } => SpecError::Pattern { pattern, problem },
        together => SpecError::Patterns(together),
    })?;
    if spec.max_depth.is_some_and(|depth| depth < -1) {
        return Err(SpecError::Field {
            field: "max_depth".to_owned(),
            given: spec.max_depth.unwrap_or_default().to_string(),
            wanted: "1 or more, or -1 for without end".to_owned(),
        });
    }
    let Some(Website::List { article_selector, pagination_selector, max_pages }) = &spec.website
    else {
        return Ok(());
    };
    let selectors = [("article_selector", Some(article_selector))]
        .into_iter()
        .chain([("pagination_selector", pagination_selector.as_ref())]);
    for (field, text) in selectors.filter_map(|(field, text)| Some((field, text?))) {
        let refuse = |error: String| SpecError::Selector { field: field.to_owned(), error };
        if text.is_empty() {
            return Err(refuse("a list needs one: say which elements link to articles".to_owned()));
        }
        text.parse::<Selector>().map_err(|error| refuse(error.to_string()))?;
    }
    if *max_pages == 0 {
        let (field, given) = ("max_pages".to_owned(), "0".to_owned());
        return Err(SpecError::Field { field, given, wanted: "1 or more".to_owned() });
    }
    Ok(())
}

/// Says what is wrong with how often a source is to be polled. An interval means itself: nothing is
/// chosen then.
pub fn check_polling(polling: &Polling) -> Result<(), SpecError> {
    let Polling { interval, policy, min, max } = *polling;
    let chosen = policy.is_some_and(|policy| policy != PollPolicy::Fixed);
    if [interval, min, max].into_iter().flatten().any(|span| span.is_zero()) {
        Err(SpecError::Interval)
    } else if interval.is_some() && chosen {
        Err(SpecError::FixedInterval("the policy"))
    } else if interval.is_some() && (min.is_some() || max.is_some()) {
        Err(SpecError::FixedInterval("its limits"))
    } else if min.zip(max).is_some_and(|(min, max)| max < min) {
        Err(SpecError::Limits)
    } else {
        Ok(())
    }
}

/// Says what is wrong with how a source is to be asked.
pub fn check_access(given: &Access) -> Result<(), SpecError> {
    access::check(given)
}

fn address(given: &str) -> Result<Url, SpecError> {
    url::parse(given)
        .map_err(|error| SpecError::Url { url: url::without_credentials(given), error })
}

/// Says what is wrong with a name, category or tag.
pub fn label(what: &'static str, given: &str) -> Result<(), SpecError> {
    let problem = match given.trim().chars().count() {
        0 => "is empty",
        n if n > MAX_NAME => "is too long",
        _ if given.chars().any(char::is_control) => "has control characters",
        _ if what == "tag" && given.contains(';') => "has a ; in it",
        _ => return Ok(()),
    };
    Err(SpecError::Label { what, problem })
}

/// What an address is by its spelling: a sitemap when its file says so, else a feed.
#[must_use]
pub fn guess_kind(address: &Url) -> Kind {
    let file = address.path().rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let named = file.contains("sitemap");
    let ends = [".xml", ".xml.gz", ".txt"].iter().any(|end| file.ends_with(end));
    if named && ends { Kind::Sitemap } else { Kind::Feed }
}

/// What an address surely is by its spelling; most are pages.
#[must_use]
pub fn spelled(address: &Url) -> Option<Kind> {
    if guess_kind(address) == Kind::Sitemap {
        return Some(Kind::Sitemap);
    }
    let path = address.path().to_ascii_lowercase();
    let mut parts = path.split(['/', '.', '-', '_']).filter(|part| !part.is_empty());
    let words = ["feed", "feeds", "rss", "rss2", "atom", "rdf", "xml"];
    parts.any(|part| words.contains(&part)).then_some(Kind::Feed)
}

#[cfg(test)]
mod tests;
