//! The table of outcomes: every status, for every kind, on the first attempt and on the last.

use super::*;

/// Where a task goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Retry,
    Dead,
}
use End::{Dead, Retry};

/// What a status without a document means: the code, the end of a page and that of a channel.
fn table(status: u16) -> Option<(Code, End, End)> {
    Some(match status {
        206 => (Code::Truncated, Retry, Retry),
        226 => (Code::HttpStatus, Dead, Retry),
        200..=299 => return None,
        301 | 302 | 303 | 307 | 308 => (Code::RedirectLoop, Dead, Retry),
        401 | 407 | 451 => (Code::Unauthorized, Dead, Dead),
        403 => (Code::Forbidden, Dead, Retry),
        404 => (Code::NotFound, Dead, Retry),
        408 | 425 => (Code::Upstream, Retry, Retry),
        410 => (Code::Gone, Dead, Dead),
        429 => (Code::RateLimited, Retry, Retry),
        500..=599 => (Code::Upstream, Retry, Retry),
        _ => (Code::HttpStatus, Dead, Retry),
    })
}

/// The same for what went wrong before there was a status.
const ERRORS: [(Code, End, End); 5] = [
    (Code::Timeout, Retry, Retry),
    (Code::Network, Retry, Retry),
    (Code::Dns, Retry, Retry),
    (Code::Guarded, Dead, Retry),
    (Code::BadUrl, Dead, Dead),
];

fn check(outcome: &Outcome, code: Code, end: End, what: &str) {
    assert_eq!(outcome.code, code, "{what}");
    assert!(!outcome.reason.is_empty(), "{what}");
    assert_eq!(outcome.validators, None, "{what}");
    match outcome.next {
        Next::Retry { at: when, code: why } => {
            assert_eq!((end, why), (Retry, code), "{what}");
            assert!(when > at(), "{what}");
        }
        Next::Dead { code: why } => assert_eq!((end, why), (Dead, code), "{what}"),
        ref other => panic!("{what}: {other:?}"),
    }
    let told = outcome
        .events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::ArticleFailed | EventKind::FeedGone));
    for event in told {
        assert_eq!(end, Dead, "{what}: only an end is told as one");
        assert_eq!(event.payload["failure"], serde_json::json!(code.failure()), "{what}");
    }
    let slower = matches!(outcome.host, HostAdvice::SlowDown { .. });
    assert_eq!(slower, code == Code::RateLimited, "{what}: only a complaint slows us down");
    assert_ne!(outcome.host, HostAdvice::Fine, "{what}: a failure never speeds us up");
}

#[test]
fn codings_on_several_lines_are_undone_one_after_the_other() {
    use std::io::Write as _;
    let gzip = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    };
    let feed = "<rss><channel><item><guid>1</guid><title>One</title></item></channel></rss>";
    let lines = [("Content-Encoding", "gzip"), ("content-encoding", "identity, gzip")];
    let mut response = answer(FEED, 200, &lines, "");
    response.exchange.body = gzip(&gzip(feed.as_bytes())).into();
    let outcome = served(&lease(Kind::Feed, FEED), response.clone(), &Known::default());
    assert_eq!((outcome.code, outcome.entries.len()), (Code::Ok, 1), "{}", outcome.reason);
    response.exchange.headers.0.truncate(1);
    let outcome = served(&lease(Kind::Feed, FEED), response, &Known::default());
    assert_eq!(outcome.entries.len(), 0, "one line is one coding");
}

#[test]
fn every_status_of_every_kind_has_its_code_and_its_end() {
    for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Robots) {
        for status in 100..=599 {
            let Some((code, page, channel)) = table(status) else { continue };
            for attempts in [0, 3] {
                let mut lease = lease(*kind, FEED);
                lease.task.retry_count = attempts;
                let outcome = served(&lease, answer(FEED, status, &[], "x"), &Known::default());
                let end = match (kind.recurs(), attempts) {
                    (true, _) => channel,
                    // A home page comes back after a week.
                    _ if *kind == Kind::Probe => Retry,
                    // A page is given up in the end, but for a server that asks for patience.
                    (false, 3) if code != Code::RateLimited => Dead,
                    (false, _) => page,
                };
                check(&outcome, code, end, &format!("{kind} {status} after {attempts}"));
            }
        }
    }
}

#[test]
fn every_failure_before_a_status_has_its_end() {
    for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Robots) {
        for (code, page, channel) in ERRORS {
            let reply = Reply::Failed { code, detail: "no answer".into(), not_before: None };
            let lease = lease(*kind, FEED);
            let (parsed, _) = parse(&lease, &reply, &house());
            let outcome = decide(&lease, parsed, &Known::default(), at(), &house());
            let end = match kind {
                Kind::Probe => Retry,
                kind if kind.recurs() => channel,
                _ => page,
            };
            check(&outcome, code, end, &format!("{kind} {code}"));
        }
    }
}

#[test]
fn a_time_that_a_server_names_is_kept_for_both_statuses_and_forms() {
    let date = "Fri, 20 Nov 2026 12:00:00 GMT";
    let far: Ts = "2026-11-20T12:00:00Z".parse().unwrap();
    for kind in [Kind::Feed, Kind::Sitemap, Kind::Article] {
        for status in [429, 503] {
            for (value, until) in [("90", at().after(Duration::from_secs(90))), (date, far)] {
                let response = answer(FEED, status, &[("retry-after", value)], "");
                let outcome = served(&lease(kind, FEED), response, &Known::default());
                let next = Next::Retry { at: until, code: Code::RateLimited };
                assert_eq!(outcome.next, next, "{kind} {status} {value}");
                let advice = match status {
                    429 => HostAdvice::SlowDown { until: Some(until) },
                    _ => HostAdvice::Pause { until },
                };
                assert_eq!(outcome.host, advice, "only a 429 teaches a pace");
            }
        }
    }
}

#[test]
fn a_pause_of_more_than_a_week_is_told() {
    let poll = |days: u64| {
        let seconds = (days * 86_400).to_string();
        let response = answer(FEED, 429, &[("retry-after", seconds.as_str())], "");
        served(&lease(Kind::Feed, FEED), response, &Known::default())
    };
    let told = |outcome: &Outcome| {
        outcome.events.iter().any(|event| event.kind == EventKind::SourceDisabled)
    };
    let (short, long) = (poll(7), poll(30));
    assert!(!told(&short) && told(&long));
    let until = at().after(7 * 24 * HOUR);
    assert_eq!(long.next, Next::Retry { at: until, code: Code::RateLimited }, "the longest pause");
    assert!(long.reason.contains("Retry-After of 30d cut to hosts.max_retry_after"), "{long:?}");
}

#[test]
fn no_response_pauses_a_host_for_longer_than_it_may() {
    let until = at().after(7 * 24 * HOUR);
    for kind in [Kind::Feed, Kind::Sitemap, Kind::Article, Kind::Robots] {
        for status in [429, 503] {
            for value in ["31536000", "Fri, 31 Dec 9999 23:59:59 GMT", "99999999999999999999999"] {
                let response = answer(FEED, status, &[("retry-after", value)], "");
                let outcome = served(&lease(kind, FEED), response, &Known::default());
                let told = format!("{kind} {status} {value}: {outcome:?}");
                match outcome.host {
                    HostAdvice::SlowDown { until: Some(end) }
                    | HostAdvice::Pause { until: end }
                    | HostAdvice::Wait { until: end } => assert_eq!(end, until, "{told}"),
                    _ => panic!("{told}"),
                }
                assert!(matches!(outcome.next, Next::Retry { at, .. } if at == until), "{told}");
            }
        }
    }
}

/// Neither a pause of no time nor seconds again and again make requests faster than without.
#[test]
fn a_server_that_names_no_pause_is_waited_for_longer_each_time() {
    let after = |kind, status, value: &str, failures| {
        let mut lease = lease(kind, FEED);
        lease.task.retry_count = failures;
        let response = answer(FEED, status, &[("retry-after", value)], "");
        let outcome = served(&lease, response, &Known::default());
        let Next::Retry { at: next, .. } = outcome.next else { panic!("{outcome:?}") };
        (next.since(at()), outcome.host)
    };
    let minutes = |n| Some(at().after(Duration::from_mins(n)));
    for kind in [Kind::Feed, Kind::Article] {
        for nothing in ["0", "Thu, 01 Jan 1970 00:00:00 GMT"] {
            let (wait, host) = after(kind, 429, nothing, 0);
            assert!(wait >= Duration::from_mins(1), "{kind} {wait:?}");
            assert_eq!(host, HostAdvice::SlowDown { until: minutes(1) });
            let (wait, _) = after(kind, 503, nothing, 0);
            assert!(wait >= Duration::from_mins(1), "{kind} {wait:?}");
        }
        for status in [429, 503] {
            assert_eq!(after(kind, status, "2", 0).0, Duration::from_secs(2), "kept exactly");
            let (wait, host) = after(kind, status, "2", 3);
            assert!(wait >= Duration::from_mins(1), "{kind} {status} {wait:?}");
            let until = minutes(8);
            let expected = match status {
                429 => HostAdvice::SlowDown { until },
                _ => HostAdvice::Pause { until: until.unwrap() },
            };
            assert_eq!(host, expected);
        }
    }
}

#[test]
fn robots_rules_are_had_or_not_by_status() {
    const ROBOTS: &str = "https://example.com/robots.txt";
    for status in 200..=599 {
        let rules = answer(ROBOTS, status, &[], "User-agent: *\nDisallow: /");
        let outcome = served(&lease(Kind::Robots, ROBOTS), rules, &Known::default());
        let kept = outcome.robots.map(|fact| fact.state.verdict);
        match status {
            200..=299 => assert!(matches!(kept, Some(Verdict::Rules(_))), "{status}"),
            429 | 500..=599 => {
                assert_eq!((kept, outcome.code), (None, Code::RobotsUnreachable), "{status}");
                assert!(matches!(outcome.next, Next::Retry { .. }), "{status}");
            }
            _ => assert_eq!(kept, Some(Verdict::AllowAll), "{status}"),
        }
    }
}

const PAGE: &str = "https://example.com/1";
const WALL: &str =
    "<html><title>Just a moment...</title><script>window._cf_chl_opt={}</script></html>";

#[test]
fn a_wall_is_named_and_never_an_article() {
    for status in [200, 202, 403, 429, 503] {
        for (kind, url) in [(Kind::Article, PAGE), (Kind::Feed, FEED), (Kind::Sitemap, PAGE)] {
            let headers = [("content-type", "text/html"), ("etag", "\"x\"")];
            let response = answer(url, status, &headers, WALL);
            let outcome = served(&lease(kind, url), response, &Known::default());
            assert_eq!(outcome.code, Code::BlockedByWall, "{kind} {status}");
            assert!(outcome.reason.contains("Cloudflare"), "{}", outcome.reason);
            assert_eq!((outcome.article, outcome.validators), (None, None), "{kind} {status}");
        }
    }
    let told = answer(PAGE, 429, &[("retry-after", "60")], WALL);
    let outcome = served(&lease(Kind::Article, PAGE), told, &Known::default());
    assert_eq!(outcome.code, Code::RateLimited, "who names a time is believed");
}

#[test]
fn a_file_under_a_pages_address_is_known_before_it_is_parsed() {
    for label in [&[("content-type", "text/html")][..], &[]] {
        let response = answer(PAGE, 200, label, &format!("%PDF-1.7\n{}", "<p>x</p>".repeat(200)));
        let outcome = served(&lease(Kind::Article, PAGE), response, &Known::default());
        assert_eq!(outcome.next, Next::Dead { code: Code::BadContentType });
        assert!(outcome.reason.contains("PDF"), "{}", outcome.reason);
    }
}

#[test]
fn what_is_said_about_use_is_kept_with_the_article() {
    let text =
        "Nothing of this is true, but all of it is long enough to be read as a text. ".repeat(9);
    let html = format!(
        "<html><head><meta name=robots content=noarchive><meta name=tdm-reservation content=1>\
         <title>A title</title></head><body><article><h1>A title</h1><p>{text}</p></article></body></html>"
    );
    let headers = [("x-robots-tag", "noindex"), ("x-robots-tag", "otherbot: none")];
    let known = Known {
        robots: Some(RobotsState {
            verdict: Verdict::Rules(
                "User-agent: *\nContent-Signal: ai-train=no\nAllow: /\n".into(),
            ),
            fetched_at: at(),
            expires_at: at().after(HOUR),
            failures: 0,
        }),
        ..Known::default()
    };
    let lease = lease(Kind::Article, PAGE);
    let reply = Reply::Answer(Box::new(answer(PAGE, 200, &headers, &html)));
    let (_, ask) = parse(&lease, &reply, &house());
    assert_eq!(ask.robots.as_deref(), Some("https://example.com"));
    let article = served(&lease, answer(PAGE, 200, &headers, &html), &known).article.unwrap();
    let rights = article.article.rights;
    assert_eq!(rights.robots, ["noindex", "noarchive"]);
    assert_eq!(rights.uses["ai-train"], "no");
    assert_eq!(rights.tdm_reservation, Some(true));
}
