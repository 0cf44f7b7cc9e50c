//! From an address as given to a candidate for the queue, or a reason why not. Pure.

use feedmill_formats::url;
use serde::Serialize;

use super::Rules;
use crate::model::{Code, Kind, NewTask, Origin, Refetch, SourceId, TaskId, Ts, UrlHash};

/// An address that may enter the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// As given.
    pub url: String,
    /// Normalised; `None` when it equals `url`.
    pub url_key: Option<String>,
    /// SHA-256 of the key.
    pub hash: UrlHash,
    /// The queue it belongs to.
    pub host: String,
    /// What is behind it.
    pub kind: Kind,
    /// 1 to 10.
    pub priority: u8,
    /// How it came.
    pub origin: Origin,
    /// Who gave it.
    pub source: Option<SourceId>,
    /// Steps from where it began.
    pub depth: u16,
    /// Redirects that led to it.
    pub redirects: u16,
    /// The task that told of it.
    pub parent: Option<TaskId>,
    /// Not before this time.
    pub not_before: Option<Ts>,
    /// Whether it is asked for again when it was fetched.
    pub refetch: Option<Refetch>,
}

/// An address that cannot enter the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// Its place in the batch that was given, from 0.
    #[serde(skip)]
    pub at: usize,
    /// As given.
    pub url: String,
    /// The stable name of the reason.
    pub code: &'static str,
    /// The reason.
    pub reason: String,
}

impl Rejected {
    /// The address has the 64 bits of another one of its host: once in an age.
    pub(super) fn collided(at: usize, url: String) -> Self {
        let reason = "its hash is that of another address of this host".to_owned();
        Self { at, url, code: "hash_collision", reason }
    }

    /// The address was taken down.
    pub(super) fn withdrawn(at: usize, url: String) -> Self {
        let reason = "it was taken down: `feedmill forget --list` tells by whom and why".to_owned();
        Self { at, url, code: Code::Withdrawn.as_str(), reason }
    }
}

/// The seed's formula: base plus the origin's bonus, less one per link that the spider walked.
#[must_use]
pub fn priority(base: u8, origin: Origin, depth: u16) -> u8 {
    let bonus = match origin {
        Origin::Feed => 2,
        Origin::Sitemap => 1,
        Origin::Spider | Origin::Manual => 0,
    };
    let penalty = if origin == Origin::Spider { i32::from(depth) } else { 0 };
    u8::try_from((i32::from(base) + bonus - penalty).clamp(1, 10)).unwrap_or(1)
}

/// The queue of a host: the first group that one of its patterns puts it in, else the host itself.
#[must_use]
pub fn queue_key<'a>(host: &'a str, groups: &'a [(String, Vec<String>)]) -> &'a str {
    let fits = |patterns: &[String]| patterns.iter().any(|pattern| url::fits(pattern, host));
    let group = groups.iter().find(|(_, patterns)| fits(patterns));
    group.map_or(host, |(name, _)| name)
}

/// Checks and normalises an address.
pub fn admit(new: &NewTask, rules: &Rules) -> Result<Candidate, Rejected> {
    let parsed = url::parse(&new.url).map_err(|error| Rejected {
        at: 0,
        url: url::without_credentials(&new.url),
        code: error.code(),
        reason: error.to_string(),
    })?;
    let key = url::key(&parsed, &rules.key);
    let hash = UrlHash::of(&key);
    let given = new.url.trim().to_owned();
    Ok(Candidate {
        url_key: (key != given).then_some(key),
        url: given,
        hash,
        host: queue_key(&url::host(&parsed), &rules.groups).to_owned(),
        kind: new.kind,
        priority: priority(new.base_priority, new.origin, new.depth),
        origin: new.origin,
        source: new.source,
        depth: new.depth,
        redirects: new.redirects,
        parent: new.parent,
        not_before: new.not_before,
        refetch: new.refetch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_follows_the_seeds_formula() {
        for (base, origin, depth, expected) in [
            (5, Origin::Feed, 0, 7),
            (5, Origin::Sitemap, 0, 6),
            (5, Origin::Spider, 0, 5),
            (5, Origin::Manual, 0, 5),
            (5, Origin::Spider, 3, 2),
            (5, Origin::Feed, 3, 7),
            (10, Origin::Feed, 0, 10),
            (1, Origin::Spider, 9, 1),
            (0, Origin::Manual, 0, 1),
        ] {
            assert_eq!(priority(base, origin, depth), expected, "{base} {origin} {depth}");
        }
    }

    fn rules() -> Rules {
        Rules {
            key: Default::default(),
            delay: std::time::Duration::from_secs(1).into(),
            lease: std::time::Duration::from_mins(1),
            robots_for_feeds: false,
            discover: true,
            ignore_pauses: false,
            concurrency: 1,
            groups: vec![],
        }
    }

    #[test]
    fn a_group_takes_exact_hosts_and_those_below_a_suffix() {
        let groups = [
            ("blogs".to_owned(), vec!["*.blogs.example".to_owned(), "blogs.example".to_owned()]),
            ("rest".to_owned(), vec!["*.example".to_owned()]),
        ];
        for (host, queue) in [
            ("a.blogs.example", "blogs"),
            ("a.b.blogs.example", "blogs"),
            ("blogs.example", "blogs"),
            ("notblogs.example", "rest"),
            ("example", "example"),
            ("other.test", "other.test"),
        ] {
            assert_eq!(queue_key(host, &groups), queue, "{host}");
        }
    }

    #[test]
    fn the_fetched_address_is_the_given_one() {
        let new = NewTask {
            url: " http://Example.com/a/?utm_source=x#top ".into(),
            kind: Kind::Article,
            origin: Origin::Manual,
            source: None,
            base_priority: 5,
            depth: 0,
            redirects: 0,
            parent: None,
            not_before: None,
            refetch: None,
        };
        let candidate = admit(&new, &rules()).unwrap();
        assert_eq!(candidate.url, "http://Example.com/a/?utm_source=x#top");
        assert_eq!(candidate.url_key.as_deref(), Some("https://example.com/a"));
        assert_eq!(candidate.host, "example.com");
        for (bad, code) in [
            ("file:///etc/passwd", "url_scheme"),
            ("http://user:pw@example.com/", "url_credentials"),
            ("not a url", "url_malformed"),
        ] {
            let rejected =
                admit(&NewTask { url: bad.into(), ..new.clone() }, &rules()).unwrap_err();
            assert_eq!(rejected.code, code, "{bad}");
        }
    }
}
