//! robots.txt in full: how much of it is read, and what happens when it cannot be had.

use feedmill_formats::robots::Robots;

use super::*;

const OTHER: &str = "https://example.com:8443";

fn rules(body: &[u8]) -> String {
    let mut response = answer(ROBOTS, 200, &[], "");
    response.exchange.body = Bytes::copy_from_slice(body);
    let outcome = served(&lease(Kind::Robots, ROBOTS), response, &Known::default());
    match outcome.robots.unwrap().state.verdict {
        Verdict::Rules(text) => text,
        Verdict::AllowAll => panic!("there is a file"),
    }
}

#[test]
fn a_long_file_ends_with_a_whole_line() {
    let last = "Disallow: /private/archive/";
    let filler = 500 * 1024 - "User-agent: *\n".len() - "Disallow: /".len() - 1;
    let body = format!("User-agent: *\n{}\n{last}\n", "#".repeat(filler));
    let read = rules(body.as_bytes());
    assert!(!read.contains("Disallow"), "`Disallow: /` would rule out everything");
    assert!(read.starts_with("User-agent: *\n#"));
    assert_eq!(rules(&b"#".repeat(600 * 1024)), "", "there is no line end at all");
}

#[test]
fn bytes_that_are_no_text_rule_the_addresses_that_have_them() {
    let rules = Robots::parse(rules(b"User-agent: *\nDisallow: /caf\xe9\n").as_bytes());
    assert!(!rules.allows("Feedmill", "/caf%E9"));
    assert!(rules.allows("Feedmill", "/caf"));
}

#[test]
fn only_the_guard_before_the_first_hop_allows_everything() {
    let lease = lease(Kind::Robots, ROBOTS);
    let (code, detail) = (Code::Guarded, String::from("a private address"));
    let failed = Reply::Failed { code, detail: detail.clone(), not_before: None };
    for (reply, allowed) in [(Reply::Refused { code, detail }, true), (failed, false)] {
        let (parsed, _) = parse(&lease, &reply, &house());
        let outcome = decide(&lease, parsed, &Known::default(), at(), &house());
        assert_eq!(outcome.robots.is_some(), allowed);
        assert_eq!(matches!(outcome.next, Next::Retry { .. }), !allowed);
    }
}

#[test]
fn a_busy_host_in_between_is_not_waited_for_at_length() {
    let mut lease = lease(Kind::Robots, ROBOTS);
    lease.task.retry_count = 40;
    let far = Some(at().after(900_000 * HOUR));
    let reply = Reply::Failed { code: Code::HostBusy, detail: "busy".into(), not_before: far };
    let (parsed, _) = parse(&lease, &reply, &house());
    let outcome = decide(&lease, parsed, &Known::default(), at(), &house());
    assert!(matches!(outcome.next, Next::Retry { at: until, .. } if until == at().after(HOUR)));
}

#[test]
fn an_origin_on_the_way_is_requested_later_like_the_tasks_own() {
    let told = at().after(5 * HOUR);
    let ask = |status, headers: &[(&str, &str)], kept: Option<&RobotsState>| {
        let reply = Reply::Answer(Box::new(answer(ROBOTS, status, headers, "")));
        robots_of(OTHER.into(), &reply, kept, TaskId(1), at(), &house())
    };
    let limited = ask(429, &[("retry-after", "18000")], None);
    assert_eq!(limited.advice, Some(HostAdvice::SlowDown { until: Some(told) }));
    assert_eq!(limited.missing.unwrap().1, told);
    let first = ask(503, &[], None);
    let until = first.missing.unwrap().1;
    assert_eq!(first.advice, Some(HostAdvice::Neutral));
    let paused = ask(503, &[("retry-after", "18000")], None);
    assert_eq!(paused.advice, Some(HostAdvice::Pause { until: told }), "what it asks for is kept");
    assert_eq!(first.fact.state, RobotsState { failures: 1, ..RobotsState::never() });
    let second = ask(503, &[], Some(&first.fact.state));
    assert!(until < second.missing.unwrap().1, "longer each time");
    assert_eq!(second.fact.state.failures, 2);
    assert_eq!(ask(404, &[], Some(&second.fact.state)).fact.state.failures, 0);

    let verdict = Verdict::Rules("User-agent: *\nDisallow: /no".into());
    let fetched_at = at().before(30 * HOUR);
    let kept = RobotsState { verdict, fetched_at, expires_at: at(), failures: 0 };
    let stale = ask(503, &[], Some(&kept));
    assert!(stale.missing.is_none() && stale.advice == Some(HostAdvice::Neutral));
    assert!(stale.fact.state.expires_at > at(), "the copy serves for a while");
    let old = RobotsState { fetched_at: at().before(900 * HOUR), ..kept };
    let useless = ask(503, &[], Some(&old));
    assert!(useless.missing.is_some(), "but not for ever");
    // New rules are compared with them.
    assert_eq!(useless.fact.state, RobotsState { failures: 1, ..old });
}
