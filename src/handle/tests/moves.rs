//! When a feed's address changes, and when not.

use super::*;

const NEW: &str = "https://example.com/new.xml";
const DAY: Duration = Duration::from_hours(24);

/// A poll that these statuses sent to the new address, after what was known.
fn sent(statuses: &[u16], items: &[&str], known: &Known, when: Ts) -> Outcome {
    let lease = lease(Kind::Feed, FEED);
    let mut response = answer(NEW, 200, &[], &feed_of(items));
    response.redirects =
        statuses.iter().map(|status| Redirected { status: *status, from: FEED.into() }).collect();
    let (parsed, _) = parse(&lease, &Reply::Answer(Box::new(response)), &house());
    decide(&lease, parsed, known, when, &house())
}

/// Polls for so many days, so often a day, each sent on like this; the day on which it moved.
fn moved_on(days: u64, a_day: u64, statuses: impl Fn(u64) -> Vec<u16>) -> Option<u64> {
    let items = ["<guid>1</guid><title>a</title>"];
    let mut known = after(&polled(&items, &Known::default()));
    for poll in 0..days * a_day {
        let when = at().after(DAY * u32::try_from(poll).unwrap() / u32::try_from(a_day).unwrap());
        let outcome = sent(&statuses(poll), &items, &known, when);
        if let Some(moved) = &outcome.moved {
            assert_eq!(moved.to.url, NEW);
            assert_eq!(moved.event.kind, EventKind::FeedMoved);
            assert_eq!(
                (&moved.event.payload["from"], &moved.event.payload["to"]),
                (&FEED.into(), &NEW.into())
            );
            return Some(poll / a_day);
        }
        known.feed = outcome.feed.unwrap().state;
    }
    None
}

#[test]
fn a_feed_moves_after_many_polls_over_days_that_all_say_so() {
    for status in [301, 308] {
        assert_eq!(moved_on(30, 24, |_| vec![status]), Some(6), "{status}: not before six days");
        assert_eq!(moved_on(30, 1, |_| vec![status]), Some(9), "{status}: not before ten polls");
    }
}

#[test]
fn a_temporary_redirect_never_moves_a_feed_and_starts_the_count_anew() {
    for status in [302, 303, 307] {
        assert_eq!(moved_on(30, 4, |_| vec![status]), None, "{status}");
        assert_eq!(moved_on(30, 4, |_| vec![301, status]), None, "301 and {status}");
    }
    assert_eq!(moved_on(30, 4, |poll| if poll % 20 == 19 { vec![302] } else { vec![301] }), None);
    assert_eq!(moved_on(30, 4, |poll| if poll == 19 { vec![] } else { vec![301] }), Some(11));
}

#[test]
fn an_address_with_another_feed_behind_it_is_not_taken() {
    let (items, other) = (["<guid>1</guid><title>a</title>"], ["<guid>2</guid><title>b</title>"]);
    let first = polled(&items, &Known::default());
    let mut known = Known { feed: first.feed.clone().unwrap().state, ..after(&first) };
    for poll in 1..40u32 {
        // Not even after a temporary redirect in between.
        let status = if poll == 5 { 302 } else { 301 };
        let outcome = sent(&[status], &other, &known, at().after(DAY * poll));
        assert_eq!(outcome.moved, None, "its entries are known only since they were read there");
        known.entries.extend(after(&outcome).entries);
        known.feed = outcome.feed.unwrap().state;
    }
}

#[test]
fn a_feed_that_was_added_at_its_old_address_moves_too() {
    let items = ["<guid>1</guid><title>a</title>"];
    let mut known = Known::default();
    let moved = (0..20u32).find(|poll| {
        let outcome = sent(&[308], &items, &known, at().after(DAY * *poll));
        known = after(&polled(&items, &Known::default()));
        known.feed = outcome.feed.unwrap().state;
        outcome.moved.is_some()
    });
    assert_eq!(moved, Some(9));
}
