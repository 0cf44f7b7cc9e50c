//! What to follow: from what an operator says to a source that can be added. Pure.
//!
//! Nothing here is fetched: an address is what its spelling says, or what the operator says it is.

mod access;

use std::time::Duration;

use feedmill_formats::article::Selectors;
use feedmill_formats::url::{self, Url, UrlError};

use crate::model::{
    Access, IngestionMode, Kind, NewSource, PollPolicy, Polling, RefetchPolicy, Source,
};

/// The longest name or category.
pub const MAX_NAME: usize = 100;

/// What an operator says about a source.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Its channels; the first one also tells the home page and the name.
    pub urls: Vec<String>,
    /// Instead of the host.
    pub name: Option<String>,
    /// What all channels are, instead of what their spelling says.
    pub kind: Option<Kind>,
    /// A label.
    pub category: Option<String>,
    /// 1 to 10.
    pub priority: Option<u8>,
    /// The pause between two requests.
    pub rate_limit: Option<Duration>,
    /// How often it is polled.
    pub polling: Polling,
    /// Whether its pages are asked for again.
    pub refetch: Option<RefetchPolicy>,
    /// Where the parts of its articles stand.
    pub selectors: Selectors,
    /// How it is asked.
    pub access: Access,
}

/// Why no source can be made of what was said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is nothing to follow.
    #[error("a source needs an address to follow: give the URL of a feed or sitemap")]
    NoUrl,
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
    /// A name or category that cannot be shown in a table.
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
            Self::Url { error, .. } => error.code(),
            Self::Refused { .. } => "refused_address",
            Self::Label { .. } => "bad_name",
            Self::Priority(_) => "bad_priority",
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
    let mut home = None;
    let (mut feed_urls, mut sitemap_urls) = (Vec::new(), Vec::new());
    for given in &wanted.urls {
        let parsed = address(given)?;
        permit(&parsed)
            .map_err(|reason| SpecError::Refused { url: given.trim().to_owned(), reason })?;
        let channels = match wanted.kind.unwrap_or_else(|| guess_kind(&parsed)) {
            Kind::Sitemap => &mut sitemap_urls,
            _ => &mut feed_urls,
        };
        let channel = given.trim().to_owned();
        if !channels.contains(&channel) {
            channels.push(channel);
        }
        home.get_or_insert(parsed);
    }
    let home = home.ok_or(SpecError::NoUrl)?;
    let priority = wanted.priority.unwrap_or(Source::DEFAULT_PRIORITY);
    if !(1..=10).contains(&priority) {
        return Err(SpecError::Priority(priority));
    }
    check_access(&wanted.access)?;
    check_polling(&wanted.polling)?;
    let mut source = NewSource {
        name: label("name", wanted.name.as_deref().unwrap_or(&url::host(&home)))?,
        url: format!("{}/", url::origin(&home)),
        feed_urls,
        sitemap_urls,
        ingestion_mode: IngestionMode::Feed,
        category: wanted.category.as_deref().map(|given| label("category", given)).transpose()?,
        priority,
        rate_limit: wanted.rate_limit,
        refetch: wanted.refetch,
        selectors: wanted.selectors.clone(),
        access: wanted.access.clone(),
        ..NewSource::new("", "")
    };
    source.set_polling(wanted.polling);
    Ok(source)
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

fn label(what: &'static str, given: &str) -> Result<String, SpecError> {
    let label = given.trim();
    let problem = match label.chars().count() {
        0 => "is empty",
        n if n > MAX_NAME => "is too long",
        _ if label.chars().any(char::is_control) => "has control characters",
        _ => return Ok(label.to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wanted(urls: &[&str]) -> Wanted {
        Wanted { urls: urls.iter().map(|&url| url.to_owned()).collect(), ..Wanted::default() }
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
        wanted.category = Some(" world ".into());
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
        let polled = |interval: Option<u64>, policy, min: Option<u64>, max: Option<u64>| {
            let span = |seconds: Option<u64>| seconds.map(Duration::from_secs);
            let (interval, min, max) = (span(interval), span(min), span(max));
            Wanted { polling: Polling { interval, policy, min, max }, ..good.clone() }
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
            (Wanted { priority: Some(11), ..good.clone() }, "bad_priority", "choose 1 to 10"),
            (Wanted { priority: Some(0), ..good.clone() }, "bad_priority", "choose 1 to 10"),
            (Wanted { name: Some("  ".into()), ..good.clone() }, "bad_name", "the name is empty"),
            (Wanted { name: Some("a\x1bb".into()), ..good.clone() }, "bad_name", "control"),
            (
                Wanted { category: Some("x".repeat(101)), ..good.clone() },
                "bad_name",
                "the category",
            ),
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
        fn a_source_that_is_made_can_be_fetched_and_shown(urls in prop::collection::vec(any::<String>(), 0..3), name: Option<String>) {
            let made = specify(&Wanted { urls, name, ..Wanted::default() }, |_| Ok(()));
            if let Ok(source) = made {
                prop_assert!(!source.name.is_empty() && !source.name.chars().any(char::is_control));
                prop_assert!(source.feed_urls.iter().chain(&source.sitemap_urls).all(|url| url::parse(url).is_ok()));
                prop_assert!(!source.feed_urls.is_empty() || !source.sitemap_urls.is_empty());
            }
        }
    }
}
