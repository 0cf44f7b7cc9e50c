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
                    | HostAdvice::Pause { until: end } => assert_eq!(end, until, "{told}"),
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
        lease.task.last_error = (failures > 0).then_some(Code::RateLimited);
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

/// A task after an outcome, as the frontier keeps it.
fn go_on(lease: &mut Lease, known: &mut Known, outcome: &Outcome) {
    let task = &mut lease.task;
    let (failed, code) = match outcome.next {
        Next::Retry { code, .. } => (true, Some(code)),
        Next::Dead { code } => panic!("{code}: given up"),
        _ => (false, None),
    };
    let is_first =
        code.is_some_and(|code| code.is_counted_alone() && task.last_error != Some(code));
    task.retry_count = match failed {
        false => 0,
        true if is_first => 1,
        true => task.retry_count + 1,
    };
    task.last_error = code;
    task.fetch_count += 1;
    if let Some(fact) = &outcome.feed {
        known.feed = fact.state.clone();
    }
}

fn wait(outcome: &Outcome) -> Duration {
    let Next::Retry { at: next, .. } = outcome.next else { panic!("{outcome:?}") };
    next.since(at())
}

/// The end of an outage is often a 503 with a pause. What failed before it makes no pause longer.
#[test]
fn a_pause_after_an_outage_is_kept_exactly() {
    for kind in [Kind::Feed, Kind::Sitemap, Kind::Listing, Kind::Article] {
        // A page is given up after more failures.
        let most = if kind == Kind::Article { 3 } else { 14 };
        for (failures, status) in (0..=most).flat_map(|n| [(n, 503), (n, 429)]) {
            for pause in [15, 30, 59, 60, 90] {
                let (mut lease, mut known) = (lease(kind, FEED), Known::default());
                let value = pause.to_string();
                for _ in 0..failures {
                    let outcome = served(&lease, answer(FEED, 500, &[], ""), &known);
                    go_on(&mut lease, &mut known, &outcome);
                }
                // Three times in a row: a shorter pause than a minute is then made longer.
                for time in 1..=4 {
                    let limited = answer(FEED, status, &[("retry-after", &value)], "");
                    let outcome = served(&lease, limited, &known);
                    let what = format!("{kind}: {failures} x 500, {status}, {pause} s, {time}");
                    let asked = Duration::from_secs(pause);
                    let until = match outcome.host {
                        HostAdvice::SlowDown { until: Some(until) } => until,
                        HostAdvice::Pause { until } => until,
                        other => panic!("{what}: {other:?}"),
                    };
                    if time < 4 || pause >= 60 {
                        assert_eq!(wait(&outcome), asked, "{what}");
                        assert_eq!(until, at().after(asked), "{what}");
                    } else {
                        assert!(wait(&outcome) >= Duration::from_mins(1), "{what}");
                        assert_eq!(until, at().after(Duration::from_mins(8)), "{what}");
                    }
                    go_on(&mut lease, &mut known, &outcome);
                }
            }
        }
    }
}

#[test]
fn a_429_without_a_pause_after_an_outage_waits_like_the_first_one() {
    for kind in [Kind::Feed, Kind::Article] {
        let after = |failures| {
            let (mut lease, mut known) = (lease(kind, FEED), Known::default());
            for _ in 0..failures {
                let outcome = served(&lease, answer(FEED, 500, &[], ""), &known);
                go_on(&mut lease, &mut known, &outcome);
            }
            let outcome = served(&lease, answer(FEED, 429, &[], ""), &known);
            assert_eq!(
                outcome.host,
                HostAdvice::SlowDown { until: Some(at().after(Duration::from_mins(1))) }
            );
            // By the interval of the task, which an outage leaves alone.
            wait(&outcome).as_secs() / 66
        };
        assert_eq!(after(3), after(0), "{kind}");
    }
}

/// Failures that are counted alone are no way to be asked for ever.
#[test]
fn a_page_that_fails_in_two_ways_by_turns_is_given_up() {
    let (mut lease, mut known) = (lease(Kind::Article, PAGE), Known::default());
    for requests in 1..=5 {
        let (status, headers): (u16, &[_]) = match requests % 2 {
            0 => (500, &[]),
            _ => (503, &[("retry-after", "1")]),
        };
        let outcome = served(&lease, answer(PAGE, status, headers, ""), &known);
        if matches!(outcome.next, Next::Dead { .. }) {
            assert_eq!(requests, 4);
            return;
        }
        go_on(&mut lease, &mut known, &outcome);
    }
    panic!("it is never given up");
}

/// A fault of ours does not end a task that an outage kept failing.
#[test]
fn faults_of_our_own_are_counted_alone() {
    let (mut lease, mut known) = (lease(Kind::Feed, FEED), Known::default());
    for _ in 0..9 {
        let outcome = served(&lease, answer(FEED, 500, &[], ""), &known);
        go_on(&mut lease, &mut known, &outcome);
    }
    for _ in 0..5 {
        let outcome = our_fault(&lease, "it failed", at());
        assert!(matches!(outcome.next, Next::Retry { .. }));
        go_on(&mut lease, &mut known, &outcome);
    }
    assert!(matches!(our_fault(&lease, "it failed", at()).next, Next::Dead { .. }));
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
