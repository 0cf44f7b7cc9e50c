//! What polls one after the other lead to: health, disabling, probes, reasons.

use super::*;
use crate::model::Health;

/// What is known after these answers, one after the other, an hour apart.
fn in_turn(lease: &Lease, replies: Vec<Response>, mut known: Known) -> (Known, Vec<Outcome>) {
    let mut outcomes = Vec::new();
    for (hour, reply) in (0..).zip(replies) {
        let (parsed, _) = parse(lease, &Reply::Answer(Box::new(reply)), &house());
        let outcome = decide(lease, parsed, &known, at().after(hour * HOUR), &house());
        known.feed = outcome.feed.clone().unwrap().state;
        known.entries.extend(outcome.entries.iter().map(|fact| (fact.id, remembered(fact))));
        outcomes.push(outcome);
    }
    (known, outcomes)
}

fn kinds(outcomes: &[Outcome]) -> Vec<EventKind> {
    outcomes.iter().flat_map(|outcome| &outcome.events).map(|event| event.kind).collect()
}

#[test]
fn a_channel_that_is_refused_too_often_is_disabled_until_a_probe_goes_well() {
    let lease = lease(Kind::Feed, FEED);
    let refused = || answer(FEED, 403, &[], "");
    let (known, outcomes) = in_turn(&lease, (0..5).map(|_| refused()).collect(), Known::default());
    assert_eq!(kinds(&outcomes), [EventKind::SourceHealth, EventKind::SourceDisabled]);
    assert_eq!(known.feed.health, Health::Blocked);
    assert!(outcomes[4].reason.contains("only probed"), "{}", outcomes[4].reason);
    let (known, outcomes) = in_turn(&lease, vec![refused(), answer(FEED, 200, &[], RSS)], known);
    assert_eq!(kinds(&outcomes), [EventKind::SourceEnabled, EventKind::SourceHealth]);
    assert_eq!((known.feed.health, known.feed.failures), (Health::Usual, 0));
    let payload = &outcomes[1].events[1].payload;
    assert_eq!(
        (&payload["before"], &payload["health"]),
        (&"blocked".into(), &"quiet_as_usual".into())
    );
}

/// A feed with an item an hour until `until` hours ago.
fn hourly(items: u32, until: u32) -> String {
    let item = |n: u32| {
        let date = at().ms() - i64::from(until + n) * 3_600_000;
        format!("<item><guid>{}</guid><pubDate>{}</pubDate></item>", until + n, Ts::from_ms(date))
    };
    let items: String = (0..items).map(item).collect();
    format!("<rss version=\"2.0\"><channel><title>News</title>{items}</channel></rss>")
}

#[test]
fn a_frozen_feed_is_asked_once_a_day_without_validators() {
    let mut lease = lease(Kind::Feed, FEED);
    lease.validators.etag = Some("\"v1\"".into());
    let unchanged = || {
        let mut reply = answer(FEED, 304, &[], "");
        reply.exchange.request = Headers(vec![("if-none-match".into(), "\"v1\"".into())]);
        reply
    };
    let first = answer(FEED, 200, &[("etag", "\"v1\"")], &hourly(400, 30));
    let (known, _) = in_turn(&lease, vec![first], Known::default());
    let (known, outcomes) = in_turn(&lease, vec![unchanged()], known);
    assert_eq!(outcomes[0].validators.clone().unwrap().0, lease.validators, "nobody has news");

    let elsewhere = Known { news_elsewhere: 3, ..known };
    let (known, outcomes) = in_turn(&lease, (0..30).map(|_| unchanged()).collect(), elsewhere);
    assert_eq!(known.feed.health, Health::Frozen);
    assert_eq!(kinds(&outcomes), [EventKind::SourceHealth]);
    let unconditional: Vec<usize> =
        (0..30).filter(|hour| outcomes[*hour].validators.as_ref().unwrap().0.is_empty()).collect();
    assert_eq!(unconditional, [0, 24]);
    let (known, outcomes) = in_turn(&lease, vec![answer(FEED, 200, &[], &hourly(400, 0))], known);
    assert_eq!(
        (known.feed.health, kinds(&outcomes)),
        (Health::Usual, vec![EventKind::SourceHealth])
    );
}

#[test]
fn the_reason_says_what_the_poll_was_chosen_by_and_what_bound_it() {
    let mut house = house();
    house.policy.choose = crate::model::PollPolicy::Value;
    let lease = lease(Kind::Feed, FEED);
    let headers = [("cache-control", "max-age=14400"), ("etag", "\"v\"")];
    let reply = Reply::Answer(Box::new(answer(FEED, 200, &headers, &hourly(100, 0))));
    let (parsed, ask) = parse(&lease, &reply, &house);
    assert_eq!(ask.siblings, Some(SourceId(7)));
    let known = Known { price: Some(500.0), ..Known::default() };
    let outcome = decide(&lease, parsed, &known, at(), &house);
    assert_eq!(outcome.next, Next::Again { at: at().after(4 * HOUR) });
    for part in ["100 entries, 100 new; poll in 4h: rate ", "price 5.0e2; bound=max-age; alt "] {
        assert!(outcome.reason.contains(part), "{}", outcome.reason);
    }
    assert!(outcome.feed.unwrap().state.bucket.is_some(), "its polls follow the price");
}

#[test]
fn the_end_of_a_channel_is_told_with_its_reason_and_so_is_its_return() {
    use EventKind::{FeedGone, SourceDisabled, SourceEnabled, SourceHealth};
    for (kind, status, told) in [
        (Kind::Feed, 401, &[SourceHealth, SourceDisabled][..]),
        (Kind::Feed, 410, &[SourceHealth, FeedGone, SourceDisabled]),
        (Kind::Sitemap, 410, &[SourceHealth, FeedGone, SourceDisabled]),
    ] {
        let lease = lease(kind, FEED);
        let gone = answer(FEED, status, &[], "");
        let (mut known, outcomes) = in_turn(&lease, vec![gone], Known::default());
        assert_eq!(kinds(&outcomes), told, "{kind} {status}");
        for event in &outcomes[0].events {
            assert_eq!(event.payload["reason"], format!("status {status}"), "{kind} {status}");
        }
        assert_eq!(known.feed.disabled_since, Some(at()));
        let body =
            if kind == Kind::Feed { RSS } else { "<urlset><url><loc>/a</loc></url></urlset>" };
        let back = || vec![answer(FEED, 200, &[], body)];
        let (tried, outcomes) = in_turn(&lease, back(), known.clone());
        assert_eq!(kinds(&outcomes), [SourceEnabled, SourceHealth], "somebody tried it again");
        assert_eq!(tried.feed.disabled_since, None);
        // The operator's word was told when it was given.
        known.feed.disabled_since = None;
        assert_eq!(kinds(&in_turn(&lease, back(), known).1), [SourceHealth]);
    }
}

#[test]
fn the_operators_word_takes_back_what_was_held_against_a_channel() {
    let lease = lease(Kind::Feed, FEED);
    let missing = || answer(FEED, 404, &[], "");
    let (mut known, outcomes) =
        in_turn(&lease, (0..3).map(|_| missing()).collect(), Known::default());
    assert_eq!(known.feed.disabled_since, Some(at().after(2 * HOUR)));
    assert_eq!(known.feed.health_since, Some(at().after(2 * HOUR)), "failing");
    assert!(outcomes[2].reason.contains("only probed"), "{}", outcomes[2].reason);
    known.feed.disabled_since = None;
    let (known, outcomes) = in_turn(&lease, vec![missing()], known);
    let Next::Retry { at: again, .. } = outcomes[0].next else { panic!("{:?}", outcomes[0].next) };
    assert!(again.since(at()) < 2 * HOUR, "it counts from the first failure: {again}");
    assert_eq!(known.feed.disabled_since, None);
}

/// A sitemap that an index or a guess led to, found that many days ago.
fn child(days: u32) -> Lease {
    let mut child = lease(Kind::Sitemap, MAP);
    child.task.origin = Origin::Sitemap;
    child.task.depth = 1;
    child.task.discovered_at = at().before(days * 24 * HOUR);
    child
}

const PAGES: &str = "<urlset><url><loc>https://example.com/1</loc></url></urlset>";

#[test]
fn a_guess_that_leads_nowhere_ends_without_a_word() {
    for status in [404, 410, 401] {
        let lost = in_turn(&child(0), vec![answer(MAP, status, &[], "")], Known::default()).1;
        assert!(matches!(lost[0].next, Next::Dead { .. }), "{status}: {:?}", lost[0].next);
        assert_eq!(kinds(&lost), [], "{status}");
    }
    // A sitemap that the operator named is another matter.
    let declared = lease(Kind::Sitemap, MAP);
    let lost = (0..3).map(|_| answer(MAP, 404, &[], "")).collect();
    let (_, outcomes) = in_turn(&declared, lost, Known::default());
    assert!(matches!(outcomes[2].next, Next::Retry { .. }));
    assert_eq!(kinds(&outcomes), [EventKind::SourceDisabled, EventKind::SourceHealth]);
}

#[test]
fn a_sitemap_that_was_taken_away_ends_and_one_that_breaks_is_told() {
    let replies = |status| {
        let broken = (0..10).map(move |_| answer(MAP, status, &[], ""));
        std::iter::once(answer(MAP, 200, &[], PAGES)).chain(broken)
    };
    let (_, outcomes) = in_turn(&child(0), replies(404).take(4).collect(), Known::default());
    assert!(matches!(outcomes[2].next, Next::Retry { .. }), "it may be a mistake");
    assert_eq!(outcomes[3].next, Next::Dead { code: Code::NotFound });
    assert_eq!(kinds(&outcomes), []);
    let (_, outcomes) = in_turn(&child(0), replies(500).collect(), Known::default());
    assert_eq!(kinds(&outcomes), [EventKind::SourceHealth, EventKind::SourceDisabled]);
}

#[test]
fn a_sitemap_that_tells_of_nothing_new_for_a_month_is_over() {
    let twice = || vec![answer(MAP, 200, &[], PAGES), answer(MAP, 200, &[], PAGES)];
    let (_, outcomes) = in_turn(&child(40), twice(), Known::default());
    assert!(matches!(outcomes[0].next, Next::Again { .. }), "its pages may be new");
    assert_eq!(outcomes[1].next, Next::Fetched, "{}", outcomes[1].reason);
    assert!(outcomes[1].reason.contains("until it is named again"), "{}", outcomes[1].reason);
    let (_, outcomes) = in_turn(&child(20), twice(), Known::default());
    assert!(matches!(outcomes[1].next, Next::Again { .. }));
    let mut yields = in_turn(&child(40), vec![answer(MAP, 200, &[], PAGES)], Known::default()).0;
    yields.feed.yielded = 1;
    let (_, outcomes) = in_turn(&child(40), vec![answer(MAP, 200, &[], PAGES)], yields);
    assert!(matches!(outcomes[0].next, Next::Again { .. }), "what it told of was new");
    let mut declared = lease(Kind::Sitemap, MAP);
    declared.task.discovered_at = at().before(40 * 24 * HOUR);
    let (_, outcomes) = in_turn(&declared, twice(), Known::default());
    assert!(matches!(outcomes[1].next, Next::Again { .. }), "the operator named it");
}

#[test]
fn neither_a_home_page_nor_an_empty_child_is_an_alarm() {
    let home = "https://example.com/";
    let page = answer(home, 200, &[], "<!DOCTYPE html><html><body>Welcome</body></html>");
    let (known, outcomes) = in_turn(&lease(Kind::Sitemap, home), vec![page], Known::default());
    assert_eq!((known.feed.health, kinds(&outcomes)), (Health::Usual, vec![]));
    let empty = || answer(MAP, 200, &[], "<urlset></urlset>");
    assert_eq!(kinds(&in_turn(&child(0), vec![empty()], Known::default()).1), []);
    let (known, _) = in_turn(&lease(Kind::Sitemap, MAP), vec![empty()], Known::default());
    assert_eq!(known.feed.health, Health::Empty);
}

#[test]
fn what_is_wrong_with_a_document_is_kept_until_the_next_one() {
    let bad = "<rss version='2.0'><channel><item><guid>a</guid><pubDate>sometime</pubDate></item>\
        <item><guid>b</guid><pubDate>later</pubDate></item></channel></rss>";
    let lease = lease(Kind::Feed, FEED);
    let unchanged = || {
        let mut reply = answer(FEED, 304, &[], "");
        reply.exchange.request = Headers(vec![("if-none-match".into(), "\"v1\"".into())]);
        reply
    };
    let replies = vec![answer(FEED, 200, &[], bad), unchanged(), answer(FEED, 500, &[], "")];
    let (known, _) = in_turn(&lease, replies, Known::default());
    let date = known.feed.warnings.iter().find(|one| one.code == "bad_date").unwrap();
    assert_eq!((date.detail.as_str(), date.count), ("sometime", 2));
    let good = "<rss version='2.0'><channel><item><guid>a</guid></item></channel></rss>";
    let (known, _) = in_turn(&lease, vec![answer(FEED, 200, &[], good)], known);
    assert_eq!(known.feed.warnings, []);
    let map = "<urlset><url><loc>nowhere at all:</loc></url><url><loc>/a</loc></url></urlset>";
    let lease = super::lease(Kind::Sitemap, MAP);
    let (known, _) = in_turn(&lease, vec![answer(MAP, 200, &[], map)], Known::default());
    assert!(known.feed.warnings.iter().any(|one| one.code == "bad_url"), "{:?}", known.feed);
}

#[test]
fn tombstones_are_told_and_leave_the_feed_full() {
    let atom = "<feed xmlns='http://www.w3.org/2005/Atom' \
        xmlns:at='http://purl.org/atompub/tombstones/1.0'>\
        <at:deleted-entry ref='urn:1' when='2026-11-15T10:00:00Z'/>\
        <at:deleted-entry ref='urn:2' when='2026-11-15T10:00:00Z'/>ENTRY</feed>";
    let lease = lease(Kind::Feed, FEED);
    let none = atom.replace("ENTRY", "");
    let outcome = served(&lease, answer(FEED, 200, &[], &none), &Known::default());
    assert_eq!(outcome.feed.unwrap().state.health, Health::Usual, "it is not empty");
    let (id, event) = &outcome.deleted[0];
    assert_eq!(*id, crate::model::EntryId::of(lease.task.id, "guid:urn:1"));
    assert_eq!((event.kind, &event.subject), (EventKind::EntryDeleted, &id.to_string()));
    assert_eq!(event.payload["deleted_at"], "2026-11-15T10:00:00Z");
    assert_eq!(outcome.deleted.len(), 2);
    let shown = atom.replace("ENTRY", "<entry><id>urn:2</id></entry>");
    let outcome = served(&lease, answer(FEED, 200, &[], &shown), &Known::default());
    assert_eq!(outcome.deleted.len(), 1, "what it still shows is not gone");
}

#[test]
fn only_http_addresses_are_links_and_others_are_texts() {
    let links = [
        ("https://a.example/1", true),
        ("HTTP://A.example/2", true),
        ("javascript:alert(1)", false),
        ("data:text/html,&lt;script&gt;", false),
        ("file:///etc/passwd", false),
        ("mailto:a@b.example", false),
        (" JavaScript:alert(2)", false),
    ];
    let item = |(link, _): &(&str, bool)| {
        format!(
            "<item><guid isPermaLink=\"false\">{link}</guid><title>t</title><link>{link}</link>\
             <enclosure url=\"{link}\" type=\"a/b\" length=\"1\"/></item>"
        )
    };
    let items: String = links.iter().map(item).collect();
    let body = format!("<rss version=\"2.0\"><channel><title>News</title>{items}</channel></rss>");
    let lease = lease(Kind::Feed, FEED);
    let (_, outcomes) = in_turn(&lease, vec![answer(FEED, 200, &[], &body)], Known::default());
    assert_eq!(outcomes[0].entries.len(), links.len());
    for ((link, is_link), fact) in links.iter().zip(&outcomes[0].entries) {
        let entry = &fact.entry;
        assert_eq!(entry.canonical_link.is_some(), *is_link, "{link}: {entry:?}");
        // What the reader of feeds takes for a link at all is kept as a text.
        assert!(!is_link || entry.given_link.is_none(), "{link}: {entry:?}");
        assert_eq!(entry.enclosures.len(), usize::from(*is_link), "{link}: {entry:?}");
        // What an earlier version kept is a text as well.
        let mut kept = serde_json::to_value(entry).unwrap();
        kept["canonical_link"] = (*link).trim().into();
        let kept: crate::model::Entry = serde_json::from_value(kept).unwrap();
        assert_eq!(kept.canonical_link.is_some(), *is_link, "{link}");
    }
    let texts = outcomes[0].entries.iter().filter_map(|fact| fact.entry.given_link.as_deref());
    assert!(texts.collect::<Vec<_>>().contains(&"file:///etc/passwd"));
    assert_eq!(outcomes[0].discovered.len(), 2);
}
