//! Was the crawler polite? A verdict from the log and the rules, and from nothing else.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use crate::log::Logged;

/// What a polite crawler keeps to. Hosts are given as in the log.
#[derive(Debug, Clone, Default)]
pub struct Politeness {
    /// Pause between two requests to a host, from the end of one to the begin of the next.
    pub default_delay_ms: i64,
    /// The Crawl-delay of a host's robots.txt; it counts once robots.txt has been served.
    pub crawl_delay_ms: HashMap<String, i64>,
    /// Path prefixes that a host's robots.txt forbids; they count once it has been served.
    pub disallowed: HashMap<String, Vec<String>>,
    /// Paths that an operator may declare as a feed of the host: robots.txt has no say in them.
    pub declared: HashMap<String, Vec<String>>,
    /// A pause may be this much too short: both sides round to milliseconds.
    pub tolerance_ms: i64,
}

/// A request that should not have been made, or not then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Impolite {
    /// To which host.
    pub host: String,
    /// To which path.
    pub path: String,
    /// When it began.
    pub at: i64,
    /// What is wrong with it.
    pub why: Why,
}

/// What can be wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Why {
    /// Another request to the host was still being answered.
    Overlap,
    /// The pause was shorter than the host's delay.
    TooSoon {
        /// The pause, in milliseconds.
        pause_ms: i64,
        /// What it should have been.
        delay_ms: i64,
    },
    /// The host had asked not to be bothered until then.
    BeforeRetryAfter {
        /// When the Retry-After is over.
        until: i64,
    },
    /// The path is forbidden by a robots.txt that had been served.
    Disallowed,
    /// The host's robots.txt had not been asked for.
    RobotsNotAsked,
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap => out.write_str("another request to the host was in flight"),
            Self::TooSoon { pause_ms, delay_ms } => {
                write!(out, "{pause_ms} ms after the last request, the delay is {delay_ms} ms")
            }
            Self::BeforeRetryAfter { until } => {
                write!(out, "before the retry-after ended at {until}")
            }
            Self::Disallowed => out.write_str("robots.txt disallows the path"),
            Self::RobotsNotAsked => out.write_str("robots.txt had not been asked for"),
        }
    }
}

/// All impolite requests of a log, host by host in the order they began.
pub fn judge(log: &[Logged], rules: &Politeness) -> Vec<Impolite> {
    let mut by_host: HashMap<&str, Vec<&Logged>> = HashMap::new();
    for entry in log {
        by_host.entry(&entry.host).or_default().push(entry);
    }
    let mut hosts: Vec<_> = by_host.into_iter().collect();
    hosts.sort_unstable_by_key(|(host, _)| *host);
    let mut verdicts = Vec::new();
    for (host, mut entries) in hosts {
        entries.sort_by_key(|entry| entry.began);
        let mut visits = Visits::default();
        for entry in entries {
            let verdict = |why| Impolite {
                host: host.to_owned(),
                path: entry.path.clone(),
                at: entry.began,
                why,
            };
            verdicts.extend(visits.wrongs(entry, rules).into_iter().map(verdict));
            visits.remember(entry);
        }
    }
    verdicts
}

/// What has happened on one host so far.
#[derive(Default)]
struct Visits {
    last_end: Option<i64>,
    robots_asked: bool,
    robots_served: Option<i64>,
    /// When each Retry-After was received, and until when it holds.
    retry_afters: Vec<(i64, i64)>,
}

impl Visits {
    fn wrongs(&self, entry: &Logged, rules: &Politeness) -> Vec<Why> {
        let began = entry.began;
        let knows_robots = self.robots_served.is_some_and(|served| served <= began);
        let crawl_delay = rules.crawl_delay_ms.get(&entry.host).filter(|_| knows_robots);
        let delay_ms = crawl_delay.copied().unwrap_or(rules.default_delay_ms);
        let pause = match self.last_end {
            Some(end) if began < end => Some(Why::Overlap),
            Some(end) if began - end + rules.tolerance_ms < delay_ms => {
                Some(Why::TooSoon { pause_ms: began - end, delay_ms })
            }
            _ => None,
        };
        let in_force = |(received, until): &&(i64, i64)| {
            *received <= began && began + rules.tolerance_ms < *until
        };
        let until = self.retry_afters.iter().filter(in_force).map(|(_, until)| *until).max();
        let forbidden = rules.disallowed.get(&entry.host).is_some_and(|prefixes| {
            prefixes.iter().any(|prefix| entry.path.starts_with(prefix.as_str()))
        });
        let declared = rules.declared.get(&entry.host).is_some_and(|paths| {
            paths.iter().any(|path| entry.path.split('?').next() == Some(path))
        });
        let unasked = !self.robots_asked && !is_robots(entry) && !declared;
        [
            pause,
            until.map(|until| Why::BeforeRetryAfter { until }),
            (forbidden && knows_robots).then_some(Why::Disallowed),
            unasked.then_some(Why::RobotsNotAsked),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn remember(&mut self, entry: &Logged) {
        self.last_end = self.last_end.max(Some(entry.ended));
        if is_robots(entry) {
            self.robots_asked = true;
            if entry.status == 200 {
                let served = self.robots_served.unwrap_or(entry.ended).min(entry.ended);
                self.robots_served = Some(served);
            }
        }
        self.retry_afters.extend(entry.retry_until.map(|until| (entry.ended, until)));
    }
}

fn is_robots(entry: &Logged) -> bool {
    entry.path == "/robots.txt"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str, began: i64, ended: i64) -> Logged {
        Logged {
            host: "a.test".into(),
            connection: 1,
            method: "GET".into(),
            path: path.into(),
            headers: vec![],
            began,
            ended,
            status: 200,
            bytes: 1,
            retry_until: None,
        }
    }

    fn rules() -> Politeness {
        Politeness {
            default_delay_ms: 1_000,
            disallowed: [("a.test".into(), vec!["/private/".into()])].into(),
            ..Politeness::default()
        }
    }

    fn whys(log: &[Logged], rules: &Politeness) -> Vec<Why> {
        judge(log, rules).into_iter().map(|verdict| verdict.why).collect()
    }

    #[test]
    fn a_polite_crawl_has_no_verdicts() {
        let log =
            [asked("/robots.txt", 0, 10), asked("/a", 1_010, 1_020), asked("/b", 2_020, 2_030)];
        assert_eq!(judge(&log, &rules()), []);
    }

    #[test]
    fn hosts_do_not_disturb_each_other() {
        let mut elsewhere = asked("/robots.txt", 5, 15);
        elsewhere.host = "b.test".into();
        assert_eq!(judge(&[asked("/robots.txt", 0, 10), elsewhere], &rules()), []);
    }

    #[test]
    fn overlapping_requests_even_when_a_later_one_ended_first() {
        let log = [
            asked("/robots.txt", 0, 10),
            asked("/slow", 1_010, 9_000),
            asked("/quick", 3_000, 3_010),
            asked("/late", 5_000, 5_010),
        ];
        assert_eq!(whys(&log, &rules()), [Why::Overlap, Why::Overlap]);
    }

    #[test]
    fn a_pause_that_is_too_short_counted_from_the_end() {
        let log = [asked("/robots.txt", 0, 10), asked("/a", 1_009, 1_020)];
        let why = Why::TooSoon { pause_ms: 999, delay_ms: 1_000 };
        let expected = Impolite { host: "a.test".into(), path: "/a".into(), at: 1_009, why };
        assert_eq!(judge(&log, &rules()), [expected]);
        let tolerant = Politeness { tolerance_ms: 1, ..rules() };
        assert_eq!(judge(&log, &tolerant), []);
    }

    #[test]
    fn a_declared_feed_needs_no_robots() {
        let declared = Politeness {
            declared: [("a.test".into(), vec!["/feed.xml".into()])].into(),
            ..rules()
        };
        let log = [asked("/feed.xml", 0, 10), asked("/a", 2_000, 2_010)];
        assert_eq!(whys(&log, &declared), [Why::RobotsNotAsked]);
    }

    #[test]
    fn a_crawl_delay_counts_once_robots_was_served() {
        let strict = Politeness { crawl_delay_ms: [("a.test".into(), 5_000)].into(), ..rules() };
        let mut failed = asked("/robots.txt", 0, 10);
        failed.status = 500;
        let log = [
            failed,
            asked("/robots.txt", 1_010, 1_020),
            asked("/a", 2_020, 2_030),
            asked("/b", 7_030, 7_040),
        ];
        assert_eq!(whys(&log, &strict), [Why::TooSoon { pause_ms: 1_000, delay_ms: 5_000 }]);
    }

    #[test]
    fn a_request_before_the_retry_after_ended() {
        let mut refused = asked("/feed", 2_000, 2_010);
        refused.status = 429;
        refused.retry_until = Some(60_000);
        let log = [
            asked("/robots.txt", 0, 10),
            refused,
            asked("/other", 30_000, 30_010),
            asked("/feed", 60_000, 60_010),
        ];
        assert_eq!(whys(&log, &rules()), [Why::BeforeRetryAfter { until: 60_000 }]);
    }

    #[test]
    fn a_forbidden_path_after_robots_was_served() {
        let mut missing = asked("/robots.txt", 0, 10);
        missing.status = 404;
        assert_eq!(whys(&[missing, asked("/private/x", 5_000, 5_010)], &rules()), []);
        let log = [asked("/robots.txt", 0, 10), asked("/private/x", 5_000, 5_010)];
        assert_eq!(whys(&log, &rules()), [Why::Disallowed]);
    }

    #[test]
    fn a_page_before_robots_was_asked_for() {
        let log =
            [asked("/a", 0, 10), asked("/robots.txt", 2_000, 2_010), asked("/b", 4_000, 4_010)];
        assert_eq!(whys(&log, &rules()), [Why::RobotsNotAsked]);
    }
}
