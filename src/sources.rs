//! What to follow: from what an operator says to a source that can be added. Pure.
//!
//! Nothing here is fetched: an address is what its spelling says, or what the operator says it is.

mod access;
pub mod fields;
pub mod lists;
pub mod manager;
pub mod plan;

use feedmill_formats::article::Selector;
use feedmill_formats::url::{self, Url, UrlError};
use regex::Regex;
use serde_json::Value;

use crate::model::{Access, IngestionMode, Kind, NewSource, PollPolicy, Polling, Website};

/// The longest name, category or tag.
pub const MAX_NAME: usize = 100;
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

/// Why no source can be made of what was said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is nothing to follow.
    #[error("a source needs an address to follow: give the URL of a home page, feed or sitemap")]
    NoUrl,
    /// A home page of which nothing is wanted.
    #[error(
        "there is nothing to follow: give it a feed or sitemap, or let it be looked for (discover)"
    )]
    NoChannel,
    /// An address cannot be fetched.
    #[error("`{url}` cannot be followed: {}", advice(error))]
    Url {
        /// As given, without the password that it may carry.
        url: String,
        /// What is wrong with it.
        error: UrlError,
    },
    /// An address that may not be fetched.
    #[error("`{url}` cannot be followed: {reason}")]
    Refused {
        /// As given.
        url: String,
        /// Why not.
        reason: String,
    },
    /// A name, category or tag that cannot be shown in a table.
    #[error("the {what} {problem}: choose 1 to {MAX_NAME} printable characters")]
    Label {
        /// Which one.
        what: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Outside of 1 to 10.
    #[error("the priority is {0}: choose 1 to 10, 10 is served first")]
    Priority(u8),
    /// Something that is not written as it should be.
    #[error("`{field}` is `{given}`: write {wanted}")]
    Field {
        /// Which.
        field: String,
        /// As given.
        given: String,
        /// What it takes.
        wanted: String,
    },
    /// A selector that cannot be used.
    #[error("`{field}`: {error}")]
    Selector {
        /// Of what.
        field: String,
        /// What is wrong with it.
        error: String,
    },
    /// An expression that cannot be used.
    #[error("the pattern `{pattern}` cannot be used: {problem}")]
    Pattern {
        /// As given.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Nobody knows what that is.
    #[error("there is no field `{0}`")]
    UnknownField(String),
    /// More than anybody means.
    #[error("it has {count} {what}: {MOST} are the most")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// So many.
        count: usize,
    },
    /// A header, cookie, credential or proxy that cannot be used.
    #[error("the {what} {problem}")]
    Access {
        /// Which.
        what: String,
        /// What is wrong with it, and what to do.
        problem: &'static str,
    },
    /// No time at all.
    #[error("the interval is 0: choose a time span such as 30m")]
    Interval,
    /// A longest interval that is shorter than the shortest.
    #[error("the longest interval is shorter than the shortest one: choose a longer one")]
    Limits,
    /// An interval, and a way to choose one.
    #[error("an interval is kept as it is: leave out {0}, or the interval")]
    FixedInterval(&'static str),
}

impl SpecError {
    /// The stable name of the refusal.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoUrl => "no_url",
            Self::NoChannel => "no_channel",
            Self::Url { error, .. } => error.code(),
            Self::Refused { .. } => "refused_address",
            Self::Label { .. } => "bad_name",
            Self::Priority(_) => "bad_priority",
            Self::Field { .. } => "bad_field",
            Self::Selector { .. } => "bad_selector",
            Self::Pattern { .. } => "bad_pattern",
            Self::UnknownField(_) => "unknown_field",
            Self::TooMany { .. } => "too_many",
            Self::Access { .. } => "bad_access",
            Self::Interval | Self::Limits | Self::FixedInterval(_) => "bad_interval",
        }
    }
}

/// What is wrong with an address, and what to do about it.
fn advice(error: &UrlError) -> String {
    match error {
        UrlError::Scheme(scheme) => {
            format!("it is a {scheme}: address; give an http or https address")
        }
        UrlError::Credentials => {
            "it carries a user name or password; give the address without them".to_owned()
        }
        UrlError::Malformed(::url::ParseError::RelativeUrlWithoutBase) => {
            "it is no whole address; write it with https:// in front".to_owned()
        }
        UrlError::Malformed(_) | UrlError::NoHost | UrlError::TooLong(_) => error.to_string(),
    }
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
        Regex::new(pattern).map_err(|error| refuse(short(&error)))?;
    }
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

/// The last line of what is wrong with an expression: the others draw where.
fn short(error: &regex::Error) -> String {
    let told = error.to_string();
    let last = told.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
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

fn label(what: &'static str, given: &str) -> Result<(), SpecError> {
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
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn wanted(urls: &[&str]) -> Wanted {
        Wanted { urls: urls.iter().map(|&url| url.to_owned()).collect(), ..Wanted::default() }
    }

    fn saying(said: &[(&str, Value)]) -> Wanted {
        let said = said.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Wanted { said, ..Wanted::default() }
    }

    #[test]
    fn a_home_page_is_enough_where_something_can_be_found_on_it() {
        let home = ("url", json!("https://example.com/news"));
        let made = |more: &[(&str, Value)]| {
            specify(&saying(&[std::slice::from_ref(&home), more].concat()), |_| Ok(()))
        };
        let source = made(&[]).unwrap();
        assert_eq!(
            (source.name.as_str(), source.url.as_str()),
            ("example.com", "https://example.com/news")
        );
        assert_eq!(source.ingestion_mode, IngestionMode::Feed, "feeds are looked for");
        let off = ("discover", json!("no"));
        assert_eq!(made(std::slice::from_ref(&off)).unwrap().ingestion_mode, IngestionMode::Spider);
        let feeds = ("ingestion_mode", json!("feed"));
        assert_eq!(made(&[off, feeds]).unwrap_err().code(), "no_channel");
        let direct = ("website", json!("direct"));
        assert_eq!(
            made(std::slice::from_ref(&direct)).unwrap().ingestion_mode,
            IngestionMode::Spider
        );
        let feed = ("feed_url", json!("https://feeds.example.com/rss"));
        let both = made(&[direct, feed]).unwrap();
        assert_eq!(both.ingestion_mode, IngestionMode::Both);
        assert_eq!(both.url, "https://example.com/news");
    }

    #[test]
    fn an_address_that_is_spelled_like_a_feed_is_one() {
        for (url, feeds, sitemaps) in [
            ("https://example.com/rss", 1, 0),
            ("https://example.com/world/feed/", 1, 0),
            ("https://example.com/index.xml", 1, 0),
            ("https://example.com/news-sitemap.xml", 0, 1),
            ("https://example.com/feedback", 0, 0),
            ("https://rss.example.com/", 0, 0),
        ] {
            let source = specify(&saying(&[("url", json!(url))]), |_| Ok(())).unwrap();
            assert_eq!(
                (source.feed_urls.len(), source.sitemap_urls.len()),
                (feeds, sitemaps),
                "{url}"
            );
            let is_home = feeds + sitemaps == 0;
            assert_eq!(source.url == url, is_home, "{url}");
        }
        let direct = [("url", json!("https://example.com/feed")), ("website", json!("direct"))];
        assert!(specify(&saying(&direct), |_| Ok(())).unwrap().feed_urls.is_empty());
    }

    #[test]
    fn what_says_which_pages_are_articles_is_checked() {
        for (field, value, code, words) in [
            ("article_url_patterns", json!(["/news/", "(open"]), "bad_pattern", "`(open`"),
            ("article_url_patterns", json!(["a b"]), "bad_pattern", "blanks"),
            ("max_depth", json!(-2), "bad_field", "-1 for without end"),
            ("website", json!("list"), "bad_selector", "which elements link to articles"),
            ("article_selector", json!("a["), "bad_selector", "`article_selector`"),
            (
                "website",
                json!({"discovery_mode": "list", "article_selector": "a", "max_pages": 0}),
                "bad_field",
                "`max_pages`",
            ),
            ("tags", json!(["a;b"]), "bad_name", "the tag has a ;"),
            (
                "tags",
                json!((0..1001).map(|n| n.to_string()).collect::<Vec<_>>()),
                "too_many",
                "1001 tags",
            ),
            ("category", json!("a\u{0}b"), "bad_name", "control"),
        ] {
            let wanted = saying(&[("url", json!("https://example.com/")), (field, value)]);
            let error = specify(&wanted, |_| Ok(())).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn the_spelling_tells_a_sitemap() {
        for (address, kind) in [
            ("https://example.com/sitemap.xml", Kind::Sitemap),
            ("https://example.com/a/News-Sitemap-3.xml.gz?x=1", Kind::Sitemap),
            ("https://example.com/sitemap.txt", Kind::Sitemap),
            ("https://example.com/sitemap/", Kind::Feed),
            ("https://example.com/sitemap/feed.xml", Kind::Feed),
            ("https://example.com/rss", Kind::Feed),
            ("https://sitemap.xml/", Kind::Feed),
        ] {
            assert_eq!(guess_kind(&url::parse(address).unwrap()), kind, "{address}");
        }
    }

    #[test]
    fn several_addresses_make_one_source() {
        let mut wanted = wanted(&[
            "https://news.example.com:8080/feed",
            " https://example.com/sitemap.xml ",
            "https://news.example.com:8080/feed",
        ]);
        wanted.said = vec![("category".into(), json!(" world "))];
        let source = specify(&wanted, |_| Ok(())).unwrap();
        assert_eq!(source.name, "news.example.com");
        assert_eq!(source.url, "https://news.example.com:8080/");
        assert_eq!(source.feed_urls, ["https://news.example.com:8080/feed"]);
        assert_eq!(source.sitemap_urls, ["https://example.com/sitemap.xml"]);
        assert_eq!((source.priority, source.category.as_deref()), (5, Some("world")));
        wanted.kind = Some(Kind::Sitemap);
        let source = specify(&wanted, |_| Ok(())).unwrap();
        assert_eq!((source.feed_urls.len(), source.sitemap_urls.len()), (0, 2));
    }

    #[test]
    fn what_cannot_be_followed_is_refused_with_advice() {
        let good = wanted(&["https://example.com/feed"]);
        let ewma = Some(PollPolicy::Ewma);
        let polled = |interval: Option<u64>,
                      policy: Option<PollPolicy>,
                      min: Option<u64>,
                      max: Option<u64>| {
            let span = |seconds: Option<u64>| seconds.map(Duration::from_secs);
            let (interval, min, max) = (span(interval), span(min), span(max));
            let said = [
                ("poll_interval", interval.map(|span| span.as_secs().to_string())),
                ("poll_policy", policy.map(|policy| policy.to_string())),
                ("min_interval", min.map(|span| span.as_secs().to_string())),
                ("max_interval", max.map(|span| span.as_secs().to_string())),
            ];
            let said = said.into_iter().map(|(name, value)| (name.to_owned(), json!(value)));
            Wanted { said: said.collect(), ..good.clone() }
        };
        let but = |name: &str, value: Value| Wanted {
            said: vec![(name.to_owned(), value)],
            ..good.clone()
        };
        let fixed = polled(Some(60), Some(PollPolicy::Fixed), None, None);
        assert!(specify(&fixed, |_| Ok(())).is_ok(), "that says the same twice");
        for (wanted, code, words) in [
            (wanted(&[]), "no_url", "give the URL"),
            (wanted(&["file:///etc/passwd"]), "url_scheme", "it is a file: address"),
            (
                wanted(&["https://ann:pw@example.com/"]),
                "url_credentials",
                "`https://***@example.com/`",
            ),
            (wanted(&["example.com/feed"]), "url_malformed", "https:// in front"),
            (but("priority", json!(11)), "bad_priority", "choose 1 to 10"),
            (but("priority", json!(0)), "bad_priority", "choose 1 to 10"),
            (but("name", json!("  ")), "bad_name", "the name is empty"),
            (but("name", json!("a\u{1b}b")), "bad_name", "control"),
            (but("category", json!("x".repeat(101))), "bad_name", "the category"),
            (polled(Some(0), None, None, None), "bad_interval", "30m"),
            (polled(None, None, Some(0), None), "bad_interval", "30m"),
            (polled(Some(60), ewma, None, None), "bad_interval", "leave out the policy"),
            (polled(Some(60), None, None, Some(99)), "bad_interval", "leave out its limits"),
            (polled(None, None, Some(99), Some(60)), "bad_interval", "longer"),
        ] {
            let error = specify(&wanted, |_| Ok(())).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert!(error.to_string().contains(words), "{error}");
            assert!(!error.to_string().contains("pw@"), "{error}");
        }
    }

    #[test]
    fn the_last_word_is_with_the_guard() {
        let refuse = |url: &Url| Err(format!("{} is private", url::host(url)));
        let error = specify(&wanted(&["http://10.0.0.1/feed"]), refuse).unwrap_err();
        assert_eq!(error.code(), "refused_address");
        let told = "`http://10.0.0.1/feed` cannot be followed: 10.0.0.1 is private";
        assert_eq!(error.to_string(), told);
    }

    proptest! {
        #[test]
        fn a_source_that_is_made_can_be_fetched_and_shown(urls in prop::collection::vec(any::<String>(), 0..3), name: Option<String>, home: Option<String>) {
            let said = name.map(|name| ("name".to_owned(), json!(name))).into_iter().chain(home.map(|home| ("url".to_owned(), json!(home))));
            let made = specify(&Wanted { urls, said: said.collect(), ..Wanted::default() }, |_| Ok(()));
            if let Ok(source) = made {
                prop_assert!(!source.name.is_empty() && !source.name.chars().any(char::is_control));
                prop_assert!(source.feed_urls.iter().chain(&source.sitemap_urls).all(|url| url::parse(url).is_ok()));
                prop_assert!(url::parse(&source.url).is_ok());
                prop_assert!(!source.feed_urls.is_empty() || !source.sitemap_urls.is_empty() || source.discover);
            }
        }
    }
}
