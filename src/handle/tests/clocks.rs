//! A clock that is a month wrong: nothing that a publisher dates is lost by it.

use super::*;

const MONTH: Duration = Duration::from_hours(30 * 24);
const SITEMAP: &str = "https://example.com/sitemap.xml";

/// The date that the server's clock shows, which is right.
const DATE: (&str, &str) = ("date", "Sun, 15 Nov 2026 12:00:00 GMT");

fn read(lease: &Lease, response: Response, known: &Known, at: Ts, house: &House) -> Outcome {
    let (parsed, _) = parse(lease, &Reply::Answer(Box::new(response)), house);
    decide(lease, parsed, known, at, house)
}

#[test]
fn pages_of_a_sitemap_are_too_old_only_when_both_clocks_say_so() {
    let map = "<urlset><url><loc>https://example.com/new</loc><lastmod>2026-11-15T10:00:00Z</lastmod></url>
        <url><loc>https://example.com/old</loc><lastmod>2026-10-20</lastmod></url></urlset>";
    let lease = lease(Kind::Sitemap, SITEMAP);
    let found = |at, headers: &[(&str, &str)]| {
        let response = answer(SITEMAP, 200, headers, map);
        let outcome = read(&lease, response, &Known::default(), at, &house());
        outcome.discovered.into_iter().map(|page| page.url).collect::<Vec<_>>()
    };
    for at in [at(), at().after(MONTH)] {
        assert_eq!(found(at, &[DATE]), ["https://example.com/new"], "{at}");
    }
    assert_eq!(found(at().before(MONTH), &[DATE]).len(), 2, "a clock behind takes more, not less");
}

#[test]
fn a_sitemap_that_was_found_is_not_over_for_a_clock_that_is_ahead() {
    let mut lease = lease(Kind::Sitemap, SITEMAP);
    (lease.task.origin, lease.task.discovered_at) = (Origin::Sitemap, at().before(HOUR));
    let next = |at, headers: &[(&str, &str)]| {
        let response = answer(SITEMAP, 200, headers, "<urlset></urlset>");
        read(&lease, response, &Known::default(), at, &house()).next
    };
    assert!(matches!(next(at().after(MONTH), &[DATE]), Next::Again { .. }));
    assert_eq!(next(at().after(MONTH), &[]), Next::Fetched, "a month without a new page");
}

#[test]
fn a_feed_is_not_stale_for_a_clock_that_is_ahead() {
    let mut house = house();
    house.taking.initial_cap = 1;
    let lease = lease(Kind::Feed, FEED);
    let mut known = Known::default();
    known.feed.last_success = Some(at().before(HOUR));
    let items: String =
        (1..4).map(|n| format!("<item><guid>{n}</guid><title>{n}</title></item>")).collect();
    let rss = format!("<rss version='2.0'><channel><title>a</title>{items}</channel></rss>");
    let taken = |headers: &[(&str, &str)]| {
        let response = answer(FEED, 200, headers, &rss);
        read(&lease, response, &known, at().after(MONTH), &house).entries.len()
    };
    assert_eq!((taken(&[DATE]), taken(&[])), (3, 1));
}
