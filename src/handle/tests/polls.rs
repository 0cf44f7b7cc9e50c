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
