//! Pages that lead to articles: lists as their operators describe them, and what the spider walks.

use super::*;
use crate::model::{Health, IngestionMode, Website};

const HOME: &str = "https://example.com/";
const DAY: Duration = Duration::from_hours(24);

fn hash(url: &str) -> UrlHash {
    UrlHash::of(&web::key(&web::parse(url).unwrap(), &KeyRules::default()))
}

fn page(links: &[&str]) -> String {
    let items: String =
        links.iter().map(|url| format!("<li><a href=\"{url}\">A story</a></li>")).collect();
    let filler = "x".repeat(200);
    format!("<html><body><p>{filler}</p><ul class=list>{items}</ul></body></html>")
}

fn listing(url: &str, depth: u16, says: impl FnOnce(&mut NewSource)) -> Lease {
    let mut lease = lease(Kind::Listing, url);
    says(&mut Arc::make_mut(lease.source.as_mut().unwrap()).spec);
    (lease.task.depth, lease.task.origin) =
        (depth, if depth == 0 { Origin::Manual } else { Origin::Spider });
    lease
}

fn list(url: &str, depth: u16, max_pages: u16) -> Lease {
    listing(url, depth, |spec| {
        spec.website = Some(Website::List {
            article_selector: "ul.list a".into(),
            pagination_selector: Some("a.next".into()),
            max_pages,
        });
    })
}

fn spider(url: &str, depth: u16) -> Lease {
    listing(url, depth, |spec| spec.ingestion_mode = IngestionMode::Spider)
}

fn read(lease: &Lease, body: &str, known: &Known) -> Outcome {
    served(lease, answer(&lease.task.url, 200, &[("content-type", "text/html")], body), known)
}

fn seen_before(days: u32) -> FeedState {
    FeedState { version: 3, last_success: Some(at().before(DAY * days)), ..FeedState::default() }
}

fn found(outcome: &Outcome, kind: Kind) -> Vec<&str> {
    let found = outcome.discovered.iter().filter(|new| new.kind == kind);
    found.map(|new| new.url.as_str()).collect()
}

/// S3 section 12.2, number by number.
#[test]
fn a_stale_list_brings_its_first_twenty_articles_before_anything_is_deduplicated() {
    // 12.2.1 and 12.2.2: discovery_mode "list", last fetched 20 days ago.
    let lease = list("https://example.com/blog", 0, 1);
    let feed = seen_before(20);
    // 12.2.3 to 12.2.5: the page has 25 article links.
    let urls: Vec<String> = (1..=25).map(|n| format!("https://example.com/post-{n}")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    // 12.2.7: of the first 20, 15 exist already.
    let pages = urls[..15].iter().map(|url| hash(url)).collect();
    let known = Known { feed: feed.clone(), pages, ..Known::default() };
    let outcome = read(&lease, &page(&urls), &known);
    // 12.2.6: limited to the first 20; duplicates free no slots.
    assert_eq!(found(&outcome, Kind::Article), urls[..20]);
    // 12.2.8: 5 new articles; 12.2.9: metadata; 12.2.10: what is said.
    let fact = outcome.feed.as_ref().unwrap();
    assert_eq!((fact.items, fact.new_items), (Some(25), 5));
    assert_eq!((fact.state.last_success, fact.state.failures), (Some(at()), 0));
    assert!(
        outcome.reason.starts_with("25 articles, the first 20 taken, 5 new"),
        "{}",
        outcome.reason
    );
    assert_eq!(fact.state.body_hash, None, "what was cut off is taken at the next poll");
    // 5.1.2.3: no limit for a list that was read within 15 days, and 15 days are not stale.
    for days in [1, 15] {
        let known = Known { feed: seen_before(days), ..Known::default() };
        assert_eq!(found(&read(&lease, &page(&urls), &known), Kind::Article), urls, "{days}");
    }
    let first = read(&lease, &page(&urls), &Known::default());
    assert_eq!(found(&first, Kind::Article).len(), 20, "never fetched before");
    assert!(first.discovered.iter().all(|new| new.depth == 1 && new.parent == Some(TaskId(1))));
}

/// S3 section 5.1.2.5: the limit, `max_pages`, or no next page, whichever comes first.
#[test]
fn a_list_is_read_page_by_page_until_there_is_enough() {
    let with_next = |n: usize| {
        let urls: Vec<String> = (1..=n).map(|n| format!("/post-{n}")).collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        page(&urls).replace("</ul>", "</ul><a class=next href='/blog/older'>older</a>")
    };
    let next = |lease: &Lease, n, known: &Known| {
        found(&read(lease, &with_next(n), known), Kind::Listing).len()
    };
    let (first, second) =
        (list("https://example.com/blog", 0, 3), list("https://example.com/blog/older", 1, 3));
    let never = Known::default();
    assert_eq!(next(&first, 12, &never), 1);
    assert_eq!(next(&first, 20, &never), 0, "enough");
    assert_eq!(next(&list("https://example.com/blog", 0, 1), 12, &never), 0, "one page only");
    // The limit is that of all pages together.
    let known = Known { listed: 12, ..Known::default() };
    let outcome = read(&second, &with_next(12), &known);
    assert_eq!(found(&outcome, Kind::Article).len(), 8);
    assert_eq!(outcome.next, Next::Fetched, "{}", outcome.reason);
    // Later on, a page without news leads nowhere.
    let regular = |pages| Known { feed: seen_before(1), pages, ..Known::default() };
    assert_eq!(next(&first, 2, &regular(Default::default())), 1);
    let all = (1..=2).map(|n| hash(&format!("https://example.com/post-{n}"))).collect();
    assert_eq!(next(&first, 2, &regular(all)), 0);
    let last = list("https://example.com/blog/older/2", 2, 3);
    assert_eq!(next(&last, 2, &never), 0, "the third of three");
}

/// RFC 3: an article is served from its source's own host; one that is not takes its slot.
#[test]
fn a_list_tells_of_its_own_sites_articles() {
    let lease = list("https://example.com/blog", 0, 1);
    let body =
        page(&["https://www.example.com/a", "https://other.example/b", "mailto:x@example.com"]);
    let outcome = read(&lease, &body, &Known::default());
    assert_eq!(found(&outcome, Kind::Article), ["https://www.example.com/a"]);
    assert!(outcome.reason.contains("1 of other sites left out"), "{}", outcome.reason);
}

/// S3 section 5.1.1.
#[test]
fn a_page_that_is_all_of_its_source_is_read_by_the_polling_interval() {
    let text = "The council met on Monday and talked for long about the new bridge. ".repeat(8);
    let body = format!(
        "<html><head><title>Bridge</title></head><body><article><h1>Bridge</h1><p>{text}</p></article></body></html>"
    );
    let mut lease = lease(Kind::Article, HOME);
    let spec = &mut Arc::make_mut(lease.source.as_mut().unwrap()).spec;
    spec.website = Some(Website::Direct);
    spec.poll_interval = Some(4 * HOUR);
    let outcome = read(&lease, &body, &Known::default());
    assert!(outcome.article.is_some());
    assert_eq!(outcome.next, Next::Again { at: at().after(4 * HOUR) });
    lease.task.retry_count = 9;
    let down = served(&lease, answer(HOME, 500, &[], ""), &Known::default());
    assert!(matches!(down.next, Next::Retry { .. }), "it is never given up: {:?}", down.next);
    lease.task.depth = 1;
    assert_eq!(read(&lease, &body, &Known::default()).next, Next::Fetched);
}

const WALKED: [&str; 9] = [
    "/world/storm-hits-the-coast-again",
    "/world",
    "/world?sid=99&page=2",
    "/world/storm-hits-the-coast-again?PHPSESSID=1",
    "/login",
    "/photo.jpg",
    "https://other.example/x",
    "https://wa.me/share",
    "https://www.example.com/2026/11/14/vote",
];

#[test]
fn the_spider_tells_articles_from_pages_to_walk() {
    let outcome = read(&spider(HOME, 0), &page(&WALKED), &Known::default());
    assert_eq!(
        found(&outcome, Kind::Article),
        [
            "https://example.com/world/storm-hits-the-coast-again",
            "https://www.example.com/2026/11/14/vote"
        ]
    );
    assert_eq!(
        found(&outcome, Kind::Listing),
        ["https://example.com/world", "https://example.com/world?page=2"]
    );
    let article = &outcome.discovered[0];
    assert_eq!((article.origin, article.depth, article.base_priority), (Origin::Spider, 1, 7));
    assert_eq!(outcome.discovered[2].base_priority, 6, "a page to walk has no bonus");
    assert_eq!(outcome.outside.len(), 1, "{:?}", outcome.outside);
    assert_eq!(outcome.outside[0].host, "other.example");
    let fact = outcome.feed.unwrap();
    assert_eq!((fact.items, fact.new_items), (Some(2), 2));
}

#[test]
fn the_spider_keeps_to_its_bounds() {
    let walks = |lease: &Lease, known: &Known| {
        found(&read(lease, &page(&WALKED), known), Kind::Listing).len()
    };
    assert_eq!(walks(&spider("https://example.com/a", 2), &Known::default()), 2);
    let deep = spider("https://example.com/a", 3);
    assert_eq!(walks(&deep, &Known::default()), 0);
    assert_eq!(found(&read(&deep, &page(&WALKED), &Known::default()), Kind::Article).len(), 2);
    let endless = listing("https://example.com/a", 3, |spec| {
        (spec.ingestion_mode, spec.max_depth) = (IngestionMode::Both, Some(-1));
    });
    assert_eq!(walks(&endless, &Known::default()), 2);
    let home_alone = listing(HOME, 0, |spec| {
        (spec.ingestion_mode, spec.max_depth) = (IngestionMode::Spider, Some(0));
    });
    assert_eq!(walks(&home_alone, &Known::default()), 0);
    assert_eq!(
        found(&read(&home_alone, &page(&WALKED), &Known::default()), Kind::Article).len(),
        2
    );
    let full = Known { walked: 100, ..Known::default() };
    assert_eq!(walks(&spider(HOME, 0), &full), 0);
    let full = Known { walked: 99, ..Known::default() };
    assert_eq!(walks(&spider(HOME, 0), &full), 1);
    // A redirect to another site ends the walk.
    let away = answer("https://other.example/", 200, &[], &page(&WALKED));
    let outcome = served(&spider(HOME, 0), away, &Known::default());
    assert_eq!(outcome.next, Next::Dead { code: Code::Rejected });
    // Who does not want to be followed is not.
    let closed = page(&WALKED).replace("<body>", "<meta name=robots content=nofollow><body>");
    assert!(read(&spider(HOME, 0), &closed, &Known::default()).discovered.is_empty());
}

#[test]
fn a_later_page_without_articles_leads_to_no_further_ones() {
    let links = ["/calendar/2026/10", "/calendar/2026/09", "/world"];
    let empty =
        read(&spider("https://example.com/calendar/2026/11", 1), &page(&links), &Known::default());
    assert_eq!(found(&empty, Kind::Listing), ["https://example.com/world"]);
    let links = ["/calendar/2026/10", "/world/storm-hits-the-coast-again"];
    let full =
        read(&spider("https://example.com/calendar/2026/11", 1), &page(&links), &Known::default());
    assert_eq!(found(&full, Kind::Listing), ["https://example.com/calendar/2026/10"]);
}

#[test]
fn a_home_page_that_only_leads_on_is_not_empty() {
    let health = |links: &[&str]| {
        read(&spider(HOME, 0), &page(links), &Known::default()).feed.unwrap().state.health
    };
    assert_eq!(health(&["/world", "/sport"]), Health::Usual);
    assert_eq!(health(&["/world/storm-hits-the-coast-again"]), Health::Usual);
    assert_eq!(health(&[]), Health::Empty);
}

#[test]
fn pages_come_back_by_what_they_bring() {
    let links = ["/world/storm-hits-the-coast-again"];
    // The home page is polled.
    let home = read(&spider(HOME, 0), &page(&links), &Known::default());
    assert_eq!(home.next, Next::Again { at: at().after(HOUR) }, "{}", home.reason);
    // A page that was found waits a day, then as long as it has been without news.
    let mut section = spider("https://example.com/world", 1);
    let first = read(&section, &page(&links), &Known::default());
    assert_eq!(first.next, Next::Again { at: at().after(DAY) }, "{}", first.reason);
    section.task.discovered_at = at().before(8 * DAY);
    let known = Known {
        feed: first.feed.unwrap().state,
        pages: [hash("https://example.com/world/storm-hits-the-coast-again")].into(),
        ..Known::default()
    };
    let changed = page(&links).replace("A story", "Another");
    let quiet = read(&section, &changed, &known);
    assert_eq!(quiet.next, Next::Again { at: at().after(8 * DAY) }, "{}", quiet.reason);
    section.task.discovered_at = at().before(31 * DAY);
    assert_eq!(read(&section, &changed, &known).next, Next::Fetched);
    // When an operator says that the site is walked no longer, it is over.
    section.task.discovered_at = at();
    let spec = &mut Arc::make_mut(section.source.as_mut().unwrap()).spec;
    spec.ingestion_mode = IngestionMode::Feed;
    assert_eq!(read(&section, &changed, &known).next, Next::Fetched);
    // Later pages of a list are read once, until the one before is all news.
    let later =
        read(&spider("https://example.com/world?page=2", 2), &page(&links), &Known::default());
    assert_eq!(later.next, Next::Fetched, "{}", later.reason);
    let links = ["/world/storm-hits-the-coast-again", "/world?page=2"];
    let known = Known { feed: seen_before(1), ..Known::default() };
    let overflowed = read(&spider("https://example.com/world", 1), &page(&links), &known);
    assert!(overflowed.discovered[1].refetch.is_some());
}

#[test]
fn what_an_address_did_not_tell_the_page_does() {
    // An article where a list was expected is kept at once.
    let text = "The council met on Monday and talked for long about the new bridge. ".repeat(8);
    let body = format!(
        "<html><head><title>Bridge</title><meta property='og:type' content='article'></head>\
        <body><article><h1>Bridge</h1><p>{text}</p></article></body></html>"
    );
    let outcome = read(&spider("https://example.com/bridge", 1), &body, &Known::default());
    assert!(outcome.article.is_some(), "{}", outcome.reason);
    let settled = outcome.settled.unwrap();
    assert_eq!((settled.kind, settled.url.as_str()), (Kind::Article, "https://example.com/bridge"));
    assert_eq!(outcome.next, Next::Dead { code: Code::Redirect });
    // A list where an article was expected is walked.
    let many: String =
        (0..60).map(|n| format!("<li><a href='/a/{n}'>Story {n}</a></li>")).collect();
    let list = format!("<html><head><title>All</title></head><body><ul>{many}</ul></body></html>");
    let mut lease = spider("https://example.com/news/all-of-the-stories", 1);
    lease.task.kind = Kind::Article;
    let outcome = read(&lease, &list, &Known::default());
    assert_eq!(outcome.code, Code::NotArticle, "{}", outcome.reason);
    assert_eq!(found(&outcome, Kind::Listing), ["https://example.com/news/all-of-the-stories"]);
}

#[test]
fn feeds_are_looked_for_beside_a_page_that_is_walked_too() {
    let both = |spec: &mut NewSource| {
        (spec.ingestion_mode, spec.feed_urls) = (IngestionMode::Both, Vec::new());
    };
    let head = "<link rel=alternate type=application/rss+xml href='/news.rss'>";
    let body =
        page(&["/2026/11/16/a-storm-hits-the-coast"]).replace("<body>", &format!("{head}<body>"));
    let outcome = read(&listing(HOME, 0, both), &body, &Known::default());
    assert_eq!(found(&outcome, Kind::Article).len(), 1, "the page itself is read");
    assert_eq!(found(&outcome, Kind::Probe), ["https://example.com/news.rss"]);
    let search = outcome.discovery.as_ref().unwrap();
    assert_eq!((search.becomes, search.state.ended), (None, None));
    assert!(matches!(outcome.next, Next::Again { .. }), "{:?}", outcome.next);
    // Once is enough; and whoever names a feed, or only walks, wants none.
    let begun = Known { discovery: Some(search.state.clone()), ..Known::default() };
    assert!(read(&listing(HOME, 0, both), &body, &begun).discovery.is_none());
    assert!(read(&spider(HOME, 0), &body, &Known::default()).discovery.is_none());
    assert!(read(&listing(HOME, 1, both), &body, &Known::default()).discovery.is_none());
}
