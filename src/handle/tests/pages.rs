//! Articles that our rules turn away, and pages that are asked for again.

use super::*;

const PAGE: &str = "https://www.example.com/story";

fn page(title: &str, date: &str) -> Response {
    let text = "The council met on Monday and talked for long about the new bridge. ".repeat(8);
    let body = format!(
        "<!doctype html><html><head><title>{title}</title>\
         <meta property=\"article:published_time\" content=\"{date}\"></head>\
         <body><article><h1>{title}</h1><p>{text}</p></article></body></html>"
    );
    answer(PAGE, 200, &[("etag", "\"1\"")], &body)
}

fn read(lease: &Lease, title: &str, date: &str, house: &House) -> Outcome {
    let reply = Reply::Answer(Box::new(page(title, date)));
    let (parsed, _) = parse(lease, &reply, house);
    decide(lease, parsed, &Known::default(), at(), house)
}

#[test]
fn what_our_rules_turn_away_is_told_and_no_failure_of_anybody() {
    let earliest = "1990-01-01T00:00:00Z".parse().ok();
    let house = |validation| House { validation, ..house() };
    let all = Validation { title: Some(20), earliest, not_ahead: true, same_site: true };
    let mut foreign = lease(Kind::Article, PAGE);
    let source = Arc::make_mut(foreign.source.as_mut().unwrap());
    source.spec.url = "https://example.org/".into();
    let own = lease(Kind::Article, PAGE);
    let today = "2026-11-15T09:00:00Z";
    for (lease, title, date, words) in [
        (&own, "Bridge to be built", "2031-01-01T00:00:00Z", "in the future"),
        (&own, "Bridge to be built", "1970-01-01T00:00:00Z", "before 1990-01-01"),
        (&own, "Bridge to be built at last", today, "has 26 characters, more than 20"),
        (&foreign, "Bridge to be built", today, "served from example.com"),
    ] {
        let outcome = read(lease, title, date, &house(all));
        assert_eq!(outcome.next, Next::Dead { code: Code::Rejected }, "{title} {date}");
        assert!(outcome.reason.contains(words), "{}", outcome.reason);
        assert_eq!((outcome.article, outcome.validators), (None, None));
        assert_eq!(outcome.host, HostAdvice::Fine, "the host did nothing wrong");
        let told: Vec<_> = outcome.events.iter().map(|event| event.kind).collect();
        assert_eq!(told, [EventKind::ArticleFailed]);
        let kept = read(lease, title, date, &house(Validation::default()));
        assert_eq!(kept.code, Code::Ok, "what is not asked for is not checked: {}", kept.reason);
    }
    let kept = read(&own, "Bridge to be built", today, &house(all));
    assert!(kept.article.is_some(), "{}", kept.reason);
    let tomorrow = read(&own, "Bridge to be built", "2026-11-16T09:00:00Z", &house(all));
    assert!(tomorrow.article.is_some(), "zones are wrong by a day: {}", tomorrow.reason);
}

/// With a clock that is a month behind, everything that is published today lies ahead.
#[test]
fn a_date_in_the_future_costs_the_date_and_not_the_article() {
    let earliest = "1990-01-01T00:00:00Z".parse().ok();
    let house = House { validation: Validation { earliest, ..Validation::default() }, ..house() };
    let own = lease(Kind::Article, PAGE);
    let read = |date| read(&own, "Bridge to be built", date, &house);
    let ahead = read("2026-12-15T09:00:00Z");
    assert_eq!(ahead.code, Code::Ok, "{}", ahead.reason);
    assert_eq!(ahead.article.unwrap().article.published, None);
    assert!(ahead.reason.contains("in the future and left out"), "{}", ahead.reason);
    let today = read("2026-11-15T09:00:00Z");
    assert!(today.article.unwrap().article.published.is_some());
    assert!(!today.reason.contains("future"), "{}", today.reason);
    assert_eq!(read("1970-01-01T00:00:00Z").next, Next::Dead { code: Code::Rejected });
}

#[test]
fn an_interval_asks_again_so_often_whatever_came() {
    let mut house = house();
    house.refetch = Refetching { policy: RefetchPolicy::Interval, interval: HOUR, times: 2 };
    let mut lease = lease(Kind::Article, PAGE);
    for (asked, next) in [
        (0, Next::Again { at: at().after(HOUR) }),
        (1, Next::Again { at: at().after(HOUR) }),
        (2, Next::Fetched),
    ] {
        lease.task.fetch_count = asked;
        assert_eq!(read(&lease, "A", "", &house).next, next);
        let mut same = answer(PAGE, 304, &[], "");
        same.exchange.request.0.push(("if-none-match".into(), "\"1\"".into()));
        let reply = Reply::Answer(Box::new(same));
        let (parsed, _) = parse(&lease, &reply, &house);
        assert_eq!(decide(&lease, parsed, &Known::default(), at(), &house).next, next);
    }
    lease.task.fetch_count = 0;
    Arc::make_mut(lease.source.as_mut().unwrap()).spec.refetch = Some(RefetchPolicy::Never);
    assert_eq!(read(&lease, "A", "", &house).next, Next::Fetched, "the source's word counts");
}

#[test]
fn a_date_of_change_asks_again_where_that_is_wanted() {
    let changed = |policy, date: &str| {
        let mut house = house();
        house.refetch.policy = policy;
        let map = format!("<urlset><url><loc>{PAGE}</loc><lastmod>{date}</lastmod></url></urlset>");
        let lease = lease(Kind::Sitemap, "https://example.com/sitemap.xml");
        let reply = Reply::Answer(Box::new(answer(&lease.task.url, 200, &[], &map)));
        let (parsed, _) = parse(&lease, &reply, &house);
        let outcome = decide(&lease, parsed, &Known::default(), at(), &house);
        outcome.discovered[0].refetch.map(|refetch| refetch.changed)
    };
    let date = "2026-11-15T11:00:00Z";
    assert_eq!(changed(RefetchPolicy::OnLastmodNewer, date), Some(date.parse().unwrap()));
    assert_eq!(changed(RefetchPolicy::OnLastmodNewer, "2026-11-15T13:00:00Z"), None);
    assert_eq!(changed(RefetchPolicy::Interval, date), None);
    assert_eq!(changed(RefetchPolicy::Never, date), None);
}
