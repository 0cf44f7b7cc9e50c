//! What answers mean, case by case: a task, an answer, what was known, and the outcome.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::model::{
    EntryFact, Exchange, Headers, KnownEntry, LeaseId, NewSource, Origin, Redirected, RobotsState,
    Source, SourceId, Status, Task, TaskId, Truncation, Verdict, new_uuid,
};
use crate::model::{FeedState, RefetchPolicy};

mod clocks;
mod identity;
mod listings;
mod moves;
mod outcomes;
mod pages;
mod polls;
mod probes;
mod robots;

const HOUR: Duration = Duration::from_hours(1);

fn at() -> Ts {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn house() -> House {
    House {
        policy: Policy {
            choose: crate::model::PollPolicy::Fixed,
            jitter_respects_min: true,
            ewma: crate::schedule::Factors::default(),
            waits: crate::schedule::Waits::default(),
            once: false,
            seed: 1,
            feed_interval: HOUR / 4,
            sitemap_interval: 6 * HOUR,
            min_interval: HOUR / 12,
            max_interval: 24 * HOUR,
            jitter: 0.0,
            retries: 3,
            retry_first: Duration::from_mins(1),
            retry_cap: HOUR,
        },
        key: KeyRules::default(),
        robots_lenient: false,
        taking: Taking::default(),
        redirects: Redirects::default(),
        max_decoded: 1 << 20,
        robots_ttl: 24 * HOUR,
        robots_agent: "Feedmill".into(),
        max_retry_after: 7 * 24 * HOUR,
        sitemap_max_age: 48 * HOUR,
        min_html_chars: 200,
        max_redirects: 5,
        validation: Validation::default(),
        refetch: Refetching { policy: RefetchPolicy::Never, interval: 24 * HOUR, times: 2 },
        search: probe::Search { requests: 20, time: HOUR, again: 168 * HOUR },
        spider: super::Spidering {
            max_depth: 3,
            max_pages: 100,
            max_page_number: 50,
            min_interval: HOUR,
            external: super::External::Candidate,
        },
    }
}

/// What the store knows of an entry after a poll.
fn remembered(fact: &EntryFact) -> KnownEntry {
    let (published, updated) = (fact.entry.published, fact.entry.updated);
    KnownEntry { content_hash: fact.content_hash, published, updated }
}

/// What the store would tell of the same entries at the next poll, after an outcome.
fn after(outcome: &Outcome) -> Known {
    let entries = outcome.entries.iter().map(|fact| (fact.id, remembered(fact))).collect();
    Known { entries, ..Known::default() }
}

fn feed_of(items: &[&str]) -> String {
    let items: String = items.iter().map(|item| format!("<item>{item}</item>")).collect();
    format!("<rss version='2.0'><channel><title>T</title>{items}</channel></rss>")
}

fn polled(items: &[&str], known: &Known) -> Outcome {
    served(&lease(Kind::Feed, FEED), answer(FEED, 200, &[], &feed_of(items)), known)
}

fn lease(kind: Kind, url: &str) -> Lease {
    let key = web::key(&web::parse(url).unwrap(), &KeyRules::default());
    let source = Source {
        id: SourceId(7),
        uuid: "s".into(),
        spec: NewSource { priority: 6, ..NewSource::new("Example", "https://example.com/") },
        enabled_at: Some(at()),
        disabled_at: None,
        disable_reason: None,
        created_at: at(),
    };
    Lease {
        id: LeaseId(1),
        task: Task {
            id: TaskId(1),
            url: url.into(),
            url_hash: UrlHash::of(&key),
            url_key: key,
            host: "example.com".into(),
            kind,
            origin: Origin::Manual,
            source: Some(source.id),
            source_id: Some("s".into()),
            status: Status::Pending,
            leased: true,
            priority: 5,
            depth: 0,
            redirects: 0,
            next_fetch_at: at(),
            last_fetched_at: None,
            fetch_count: 0,
            retry_count: 0,
            last_error: None,
            reason: None,
            discovered_at: at(),
        },
        source: Some(Arc::new(source)),
        validators: Validators::default(),
        validators_for: None,
        robots: None,
        now: at(),
        until: at().after(HOUR),
        delay: Duration::from_secs(1),
    }
}

fn answer(url: &str, status: u16, headers: &[(&str, &str)], body: &str) -> Response {
    Response {
        exchange: Exchange {
            id: new_uuid(at()),
            url: url.into(),
            request: Headers::default(),
            status,
            reason: String::new(),
            headers: Headers(
                headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            ),
            body: Bytes::copy_from_slice(body.as_bytes()),
            truncated: None,
            remote: None,
            began: at(),
            ended: at(),
            elapsed: Duration::ZERO,
        },
        redirects: vec![],
    }
}

fn served(lease: &Lease, response: Response, known: &Known) -> Outcome {
    let (parsed, _) = parse(lease, &Reply::Answer(Box::new(response)), &house());
    decide(lease, parsed, known, at(), &house())
}

const FEED: &str = "https://example.com/feed.xml";
const RSS: &str = r#"<?xml version="1.0"?><rss version="2.0"><channel><title>News</title>
<item><guid>a</guid><title>One</title><link>https://example.com/1?utm_source=rss</link></item>
<item><guid>a</guid><title>One</title><link>https://example.com/1b</link></item>
<item><title>No guid</title><link>https://example.com/2</link></item>
<item><guid>c</guid><title>No link</title></item></channel></rss>"#;

#[test]
fn a_feeds_new_entries_become_facts_and_tasks() {
    let headers = [("etag", "\"v1\""), ("content-type", "application/rss+xml")];
    let outcome =
        served(&lease(Kind::Feed, FEED), answer(FEED, 200, &headers, RSS), &Known::default());
    assert_eq!(outcome.code, Code::Ok);
    assert_eq!(outcome.next, Next::Again { at: at().after(HOUR / 4) });
    let uids: Vec<_> = outcome.entries.iter().map(|fact| fact.entry.uid.as_str()).collect();
    assert_eq!(uids.len(), 3, "the second item with the same guid is the same entry: {uids:?}");
    assert_eq!(uids[0], "guid:a");
    assert!(uids[1].starts_with("hash:"));
    let found: Vec<_> = outcome.discovered.iter().map(|new| new.url.as_str()).collect();
    assert_eq!(found, ["https://example.com/1?utm_source=rss", "https://example.com/2"]);
    assert!(outcome.discovered.iter().all(|new| {
        (new.kind, new.origin, new.base_priority) == (Kind::Article, Origin::Feed, 6)
    }));
    let (validators, of) = outcome.validators.unwrap();
    assert_eq!((validators.etag.as_deref(), of.as_str()), (Some("\"v1\""), FEED));
}

#[test]
fn known_entries_are_seen_changed_ones_are_facts() {
    let lease = lease(Kind::Feed, FEED);
    let first = served(&lease, answer(FEED, 200, &[], RSS), &Known::default());
    let known = after(&first);
    let same = served(&lease, answer(FEED, 200, &[], RSS), &known);
    assert_eq!((same.entries.len(), same.seen.len(), same.discovered.len()), (0, 3, 0));
    assert!(same.reason.starts_with("3 entries, 0 new"), "{}", same.reason);
    let edited = RSS.replace("No link", "Now with another title");
    let changed = served(&lease, answer(FEED, 200, &[], &edited), &known);
    assert_eq!((changed.entries.len(), changed.seen.len()), (1, 2));
}

#[test]
fn a_200_replaces_both_validators_and_a_304_keeps_what_it_does_not_name() {
    let mut lease = lease(Kind::Feed, FEED);
    lease.validators =
        Validators { etag: Some("\"old\"".into()), last_modified: Some("yesterday".into()) };
    let fresh = served(&lease, answer(FEED, 200, &[("etag", "W/\"new\"")], RSS), &Known::default());
    let validators = fresh.validators.unwrap().0;
    assert_eq!(validators.etag.as_deref(), Some("W/\"new\""));
    assert_eq!(validators.last_modified, None, "a header that is gone is forgotten");
    let unasked = answer(FEED, 304, &[("etag", "\"newer\"")], "");
    assert_eq!(served(&lease, unasked.clone(), &Known::default()).code, Code::HttpStatus);
    let mut asked = unasked;
    asked.exchange.request = Headers(vec![("if-none-match".into(), "\"old\"".into())]);
    let same = served(&lease, asked, &Known::default());
    assert_eq!(same.code, Code::NotModified);
    let validators = same.validators.unwrap().0;
    assert_eq!(validators.etag.as_deref(), Some("\"newer\""));
    assert_eq!(validators.last_modified.as_deref(), Some("yesterday"));
}

#[test]
fn what_cannot_be_read_stores_no_validators_and_waits() {
    for (body, code) in [
        ("<!doctype html><html><body>Maintenance</body></html>", Code::BadContentType),
        ("", Code::Empty),
        ("plain words", Code::Parse),
    ] {
        let outcome = served(
            &lease(Kind::Feed, FEED),
            answer(FEED, 200, &[("etag", "\"v\"")], body),
            &Known::default(),
        );
        assert_eq!(outcome.code, code, "{body}");
        assert_eq!(outcome.validators, None, "{body}");
        assert!(matches!(outcome.next, Next::Retry { .. }), "{body}");
        assert_eq!(outcome.feed.unwrap().state.failures, 1);
    }
    let mut cut = answer(FEED, 200, &[("etag", "\"v\"")], RSS);
    cut.exchange.truncated = Some(Truncation::Disconnect);
    let outcome = served(&lease(Kind::Feed, FEED), cut, &Known::default());
    assert_eq!((outcome.code, outcome.validators), (Code::Truncated, None));
}

#[test]
fn failures_wait_longer_each_time_and_what_is_gone_is_told() {
    let missing =
        |known: &Known| served(&lease(Kind::Feed, FEED), answer(FEED, 404, &[], ""), known);
    let feed = missing(&Known::default()).feed.unwrap().state;
    let known = Known { feed, ..Known::default() };
    let missing = missing(&known);
    let Next::Retry { at: when, code: Code::NotFound } = missing.next else {
        panic!("{:?}", missing.next)
    };
    assert!(when.since(at()) >= 2 * HOUR);
    let gone = served(&lease(Kind::Feed, FEED), answer(FEED, 410, &[], ""), &known);
    assert_eq!(gone.next, Next::Dead { code: Code::Gone });
    let told: Vec<_> = gone.events.iter().map(|event| event.kind).collect();
    use EventKind::{FeedGone, SourceDisabled, SourceHealth};
    assert_eq!(told, [SourceHealth, FeedGone, SourceDisabled]);
}

#[test]
fn a_server_that_asks_for_patience_gets_exactly_that() {
    for (kind, status) in [(Kind::Feed, 429), (Kind::Feed, 503), (Kind::Article, 429)] {
        let lease = lease(kind, FEED);
        let told = at().after(Duration::from_secs(7_200));
        let outcome =
            served(&lease, answer(FEED, status, &[("retry-after", "7200")], ""), &Known::default());
        assert_eq!(outcome.next, Next::Retry { at: told, code: Code::RateLimited });
        let advice = match status {
            429 => HostAdvice::SlowDown { until: Some(told) },
            _ => HostAdvice::Pause { until: told },
        };
        assert_eq!(outcome.host, advice);
    }
}

#[test]
fn a_page_is_tried_again_and_then_given_up_with_an_event() {
    let mut lease = lease(Kind::Article, "https://example.com/1");
    let broken = || answer("https://example.com/1", 500, &[], "");
    let first = served(&lease, broken(), &Known::default());
    assert!(matches!(first.next, Next::Retry { code: Code::Upstream, .. }));
    assert!(first.events.is_empty());
    lease.task.retry_count = 3;
    let last = served(&lease, broken(), &Known::default());
    assert_eq!(last.next, Next::Dead { code: Code::Upstream });
    assert_eq!(last.events[0].kind, EventKind::ArticleFailed);
    assert_eq!(last.events[0].subject, lease.task.url_hash.to_string());
}

#[test]
fn an_article_is_read_with_what_the_feed_said() {
    let url = "https://example.com/1";
    let paragraph = "The council agreed on Tuesday to rebuild the old bridge over the river, \
        after months of talks about its cost, its route and the trees on both banks.";
    let page = format!(
        "<html><body><nav><a href=/>Home</a></nav><article><h1>Bridge</h1><p>{paragraph}</p>\
         <p>{paragraph} It was a long night.</p></article></body></html>"
    );
    let html = [("content-type", "text/html; charset=utf-8")];
    let known = Known {
        evidence: Some(crate::model::Evidence {
            published: Some(at()),
            authors: vec!["Ada Lint".into()],
            ..crate::model::Evidence::default()
        }),
        ..Known::default()
    };
    let outcome = served(&lease(Kind::Article, url), answer(url, 200, &html, &page), &known);
    let fact = outcome.article.unwrap();
    assert_eq!(outcome.next, Next::Fetched);
    assert_eq!(fact.text, format!("{paragraph}\n\n{paragraph} It was a long night."));
    assert_eq!(fact.article.published, Some(at()));
    assert_eq!(fact.article.authors, ["Ada Lint"]);

    let mut moved = answer("https://example.com/final", 200, &html, &page);
    moved.redirects = vec![Redirected { status: 301, from: url.into() }];
    let outcome = served(&lease(Kind::Article, url), moved, &known);
    assert_eq!(outcome.next, Next::Dead { code: Code::Redirect });
    assert_eq!(outcome.settled.unwrap().url, "https://example.com/final");
    assert_eq!(outcome.article.unwrap().id, UrlHash::of("https://example.com/final"));
}

#[test]
fn what_is_no_page_is_no_article() {
    let url = "https://example.com/1";
    for (kind, body, code) in [
        ("application/pdf", "%PDF-1.7", Code::BadContentType),
        ("image/png", "x", Code::BadContentType),
        ("text/html", "", Code::Empty),
        ("text/html", "<p>short</p>", Code::BadHtml),
    ] {
        let response = answer(url, 200, &[("content-type", kind)], body);
        let outcome = served(&lease(Kind::Article, url), response, &Known::default());
        assert_eq!(outcome.next, Next::Dead { code }, "{kind} {body}");
    }
    let bomb = answer(url, 200, &[("content-encoding", "gzip")], "\u{1f}not gzip at all");
    let outcome = served(&lease(Kind::Article, url), bomb, &Known::default());
    assert!(matches!(outcome.next, Next::Retry { code: Code::BadEncoding, .. }));
}

const MAP: &str = "https://example.com/sitemap.xml";

#[test]
fn a_sitemap_gives_what_is_new_enough_and_its_children() {
    let body = r"<urlset><url><loc>https://example.com/new</loc><lastmod>2026-11-15T10:00:00Z</lastmod></url>
        <url><loc>https://example.com/old</loc><lastmod>2026-10-01</lastmod></url>
        <url><loc>https://example.com/undated</loc></url></urlset>";
    let lease = lease(Kind::Sitemap, MAP);
    let outcome = served(&lease, answer(MAP, 200, &[], body), &Known::default());
    let found: Vec<_> = outcome.discovered.iter().map(|new| new.url.as_str()).collect();
    assert_eq!(found, ["https://example.com/new", "https://example.com/undated"]);
    assert!(outcome.discovered.iter().all(|new| new.origin == Origin::Sitemap));
    assert_eq!(outcome.next, Next::Again { at: at().after(6 * HOUR) });

    let known = Known { feed: outcome.feed.unwrap().state, ..Known::default() };
    let same = served(&lease, answer(MAP, 200, &[], body), &known);
    assert!(same.discovered.is_empty() && same.reason.starts_with("the same"), "{}", same.reason);

    let index = r"<sitemapindex><sitemap><loc>https://example.com/a.xml</loc></sitemap>
        <sitemap><loc>https://example.com/sitemap.xml</loc></sitemap>
        <sitemap><loc>https://example.com/2019.xml</loc><lastmod>2019-01-01</lastmod></sitemap></sitemapindex>";
    let outcome = served(&lease, answer(MAP, 200, &[], index), &Known::default());
    let found: Vec<_> = outcome.discovered.iter().map(|new| (new.url.as_str(), new.kind)).collect();
    assert_eq!(found, [("https://example.com/a.xml", Kind::Sitemap)], "neither itself nor the old");
}

#[test]
fn sitemaps_that_name_sitemaps_come_to_an_end() {
    let index =
        "<sitemapindex><sitemap><loc>https://example.com/next.xml</loc></sitemap></sitemapindex>";
    let mut lease = lease(Kind::Sitemap, MAP);
    for depth in 0..3 {
        lease.task.depth = depth;
        let outcome = served(&lease, answer(MAP, 200, &[], index), &Known::default());
        assert_eq!(outcome.discovered[0].depth, depth + 1);
    }
    lease.task.depth = 3;
    let outcome = served(&lease, answer(MAP, 200, &[], index), &Known::default());
    assert_eq!((outcome.code, outcome.discovered.len()), (Code::Ok, 0));
    assert!(outcome.reason.contains("1 nested too deep"), "{}", outcome.reason);
}

#[test]
fn the_sitemaps_of_a_site_are_named_by_its_robots_or_where_they_usually_are() {
    let home = "https://example.com/";
    let lease = lease(Kind::Sitemap, home);
    let page = "<!DOCTYPE html><html><body>Welcome</body></html>";
    let found = |known: &Known| {
        let outcome = served(&lease, answer(home, 200, &[], page), known);
        assert!(outcome.discovered.iter().all(|new| new.kind == Kind::Sitemap));
        outcome.discovered.into_iter().map(|new| new.url).collect::<Vec<_>>()
    };
    let usual = ["/sitemap.xml", "/news-sitemap.xml", "/sitemap_index.xml"];
    assert_eq!(found(&Known::default()), usual.map(|path| format!("https://example.com{path}")));
    let text = "User-agent: *\nSitemap: https://example.com/maps/all.xml\n";
    let robots = RobotsState { verdict: Verdict::Rules(text.into()), ..RobotsState::never() };
    let known = Known { robots: Some(robots), ..Known::default() };
    assert_eq!(found(&known), ["https://example.com/maps/all.xml"]);
    let other = super::tests::lease(Kind::Sitemap, MAP);
    let outcome = served(&other, answer(MAP, 200, &[], page), &known);
    assert_eq!(outcome.code, Code::BadContentType);
}

const ROBOTS: &str = "https://example.com/robots.txt";

#[test]
fn robots_are_rules_or_freedom() {
    let lease = lease(Kind::Robots, ROBOTS);
    let text = "User-agent: *\nDisallow: /private/\nCrawl-delay: 7\n";
    let outcome = served(&lease, answer(ROBOTS, 200, &[], text), &Known::default());
    let fact = outcome.robots.unwrap();
    assert_eq!(fact.origin, "https://example.com");
    assert_eq!(fact.crawl_delay_ms, Some(7_000));
    assert_eq!(fact.state.verdict, Verdict::Rules(text.into()));
    assert_eq!(fact.state.expires_at, at().after(24 * HOUR));
    for status in [400, 401, 403, 404, 410, 302] {
        let outcome = served(&lease, answer(ROBOTS, status, &[], "x"), &Known::default());
        assert_eq!(outcome.robots.unwrap().state.verdict, Verdict::AllowAll, "{status}");
    }
}

#[test]
fn robots_that_cannot_be_fetched_are_requested_later_unless_a_copy_serves() {
    let lease = lease(Kind::Robots, ROBOTS);
    for status in [500, 503] {
        let outcome = served(&lease, answer(ROBOTS, status, &[], ""), &Known::default());
        let Next::Retry { at: until, code: Code::RobotsUnreachable } = outcome.next else {
            panic!("{:?}", outcome.next)
        };
        assert!(until > at());
        assert_eq!(
            outcome.host,
            HostAdvice::Neutral,
            "it says nothing about other ports of the host"
        );
        assert_eq!(outcome.robots, None);
    }
    let copy = |age: Duration| Known {
        robots: Some(RobotsState {
            verdict: Verdict::AllowAll,
            fetched_at: at().before(age),
            expires_at: at().before(age).after(24 * HOUR),
            failures: 0,
        }),
        ..Known::default()
    };
    let outcome = served(&lease, answer(ROBOTS, 500, &[], ""), &copy(30 * HOUR));
    assert_eq!(outcome.host, HostAdvice::Neutral, "the stale copy serves");
    let fact = outcome.robots.unwrap();
    assert!(fact.state.expires_at > at());
    assert_eq!(fact.state.fetched_at, at().before(30 * HOUR), "and does not look fresh");
    let outcome = served(&lease, answer(ROBOTS, 500, &[], ""), &copy(60 * HOUR));
    assert_eq!(outcome.robots, None, "but not for ever");
}

#[test]
fn a_large_document_is_left_for_when_there_is_room() {
    let house = House { max_decoded: 50 << 20, ..house() };
    let gzip = |text: &str| {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    let feed =
        "<rss><channel><title>t</title><item><title>a</title><link>https://a.test/1</link></item>";
    let sitemap = "<urlset><url><loc>https://example.com/a</loc></url>";
    let large = " ".repeat(LARGE_DOCUMENT);
    let coded: &[(&str, &str)] = &[("content-encoding", "gzip")];
    for (kind, text, end, headers) in [
        (Kind::Feed, feed, "</channel></rss>", coded),
        (Kind::Sitemap, sitemap, "</urlset>", coded),
        (Kind::Sitemap, sitemap, "</urlset>", &[]),
    ] {
        let lease = lease(kind, FEED);
        let small = format!("{text}{end}");
        for (text, is_large) in [(small.clone(), false), (format!("{text}{large}{end}"), true)] {
            let mut response = answer(FEED, 200, headers, "");
            response.exchange.body = gzip(&text).into();
            let reply = Reply::Answer(Box::new(response));
            let small = parse_small(&lease, &reply, &house);
            assert_eq!(small.is_none(), is_large, "{kind}");
            let (parsed, _) = parse(&lease, &reply, &house);
            assert!(matches!(parsed.what, What::Feed(..) | What::Sitemap(..)), "{:?}", parsed.what);
        }
    }
    // What is too large for every reader is not read twice.
    let house = House { max_decoded: 1 << 20, ..house };
    let reply = Reply::Answer(Box::new(answer(FEED, 200, &[], &large)));
    assert!(parse_small(&lease(Kind::Feed, FEED), &reply, &house).is_some());
}

#[test]
fn nobody_was_asked_when_our_own_rules_forbid_it() {
    let lease = lease(Kind::Article, "https://example.com/private/1");
    let reply = Reply::Refused { code: Code::RobotsBlocked, detail: "robots.txt".into() };
    let (parsed, _) = parse(&lease, &reply, &house());
    let outcome = decide(&lease, parsed, &Known::default(), at(), &house());
    assert_eq!(outcome.next, Next::Dead { code: Code::RobotsBlocked });
    assert_eq!(outcome.host, HostAdvice::NotAsked);
}

#[test]
fn a_busy_host_is_tried_again_later_each_time_but_not_later_than_usual() {
    let mut lease = lease(Kind::Feed, FEED);
    let usual = Duration::from_mins(30);
    let feed = FeedState { interval_ms: Some(30 * 60_000), ..FeedState::default() };
    let known = Known { feed, ..Known::default() };
    for (failures, not_before, wait) in [
        (0, None, Duration::from_mins(1)),
        (1, None, Duration::from_mins(2)),
        (60, None, usual),
        (0, Some(Duration::from_mins(7)), Duration::from_mins(7)),
        (0, Some(900_000 * HOUR), usual),
    ] {
        lease.task.retry_count = failures;
        lease.task.last_error = (failures > 0).then_some(Code::HostBusy);
        let not_before = not_before.map(|wait| at().after(wait));
        let reply = Reply::Failed { code: Code::HostBusy, detail: "busy".into(), not_before };
        let (parsed, _) = parse(&lease, &reply, &house());
        let outcome = decide(&lease, parsed, &known, at(), &house());
        // It counts: whoever sent us there was asked.
        let next = Next::Retry { at: at().after(wait), code: Code::HostBusy };
        assert_eq!((outcome.next, outcome.host), (next, HostAdvice::Neutral));
        assert_eq!(outcome.feed, None, "and it is no failure of the feed's");
    }
}

#[test]
fn a_copy_of_robots_never_serves_beyond_its_time_and_never_makes_us_ask_at_once() {
    let lease = lease(Kind::Robots, ROBOTS);
    let fetched_at = at().before(100 * HOUR);
    for hours in 24..80 {
        let now = fetched_at.after(hours * HOUR);
        let known = Known {
            robots: Some(RobotsState {
                verdict: Verdict::AllowAll,
                fetched_at,
                // As an earlier failure left it: put off, or at the end of its time.
                expires_at: now.min(fetched_at.after(48 * HOUR)),
                failures: 0,
            }),
            ..Known::default()
        };
        let broken = Reply::Answer(Box::new(answer(ROBOTS, 500, &[], "")));
        let (parsed, _) = parse(&lease, &broken, &house());
        let outcome = decide(&lease, parsed, &known, now, &house());
        match &outcome.robots {
            Some(fact) => assert!(fact.state.expires_at > now, "after {hours} h"),
            None => {
                assert!(hours >= 48, "the copy serves for a day beyond its own");
                assert!(matches!(outcome.next, Next::Retry { at, .. } if at > now));
            }
        }
    }
}

#[test]
fn half_a_robots_file_rules_nothing() {
    let mut cut = answer(ROBOTS, 200, &[], "User-agent: *\nDisa");
    cut.exchange.truncated = Some(Truncation::Disconnect);
    let outcome = served(&lease(Kind::Robots, ROBOTS), cut, &Known::default());
    assert_eq!((outcome.code, outcome.robots), (Code::RobotsUnreachable, None));
}

#[test]
fn redirects_over_hosts_come_to_an_end() {
    let target = web::parse("https://other.example/1").unwrap();
    let mut lease = lease(Kind::Article, "https://example.com/1");
    let onward = leads_on(&lease, &target, 2, &Known::default(), at(), &house());
    assert_eq!(onward.next, Next::Dead { code: Code::Redirect });
    assert_eq!((onward.discovered.len(), onward.discovered[0].redirects), (1, 2));
    // Nothing but redirects counts.
    lease.task.depth = 100;
    let deep = leads_on(&lease, &target, 2, &Known::default(), at(), &house());
    assert_eq!((deep.discovered[0].depth, deep.discovered[0].redirects), (100, 2));
    lease.task.redirects = 4;
    let far = leads_on(&lease, &target, 2, &Known::default(), at(), &house());
    assert_eq!((far.next, far.discovered.len()), (Next::Dead { code: Code::RedirectLoop }, 0));
}

#[test]
fn our_own_faults_are_no_failures_of_the_publisher() {
    let lease = lease(Kind::Article, "https://example.com/1");
    let reply =
        Reply::Failed { code: Code::Internal, detail: "archive full".into(), not_before: None };
    let (parsed, _) = parse(&lease, &reply, &house());
    let outcome = decide(&lease, parsed, &Known::default(), at(), &house());
    assert!(matches!(outcome.next, Next::Postpone { code: Code::Internal, .. }));
    assert!(outcome.events.is_empty());
}
