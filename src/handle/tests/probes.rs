//! Looking for channels: from a home page to feeds and sitemaps, one answer after the other.

use super::*;
use crate::model::{Discovery, EventKind, LeadState};

const HOME: &str = "https://example.com/";
const RSS: &str = "<rss version='2.0'><channel><title>T</title><item><guid>1</guid>\
    <link>https://example.com/1</link></item></channel></rss>";
const EMPTY: &str = "<rss version='2.0'><channel><title>T</title></channel></rss>";
const NEWS: &str = "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9' \
    xmlns:news='http://www.google.com/schemas/sitemap-news/0.9'><url><loc>https://example.com/1</loc>\
    <news:news><news:title>One</news:title></news:news></url></urlset>";

/// A site as a table of what it serves; a search over it, as the engine would make it.
struct Site {
    served: Vec<(String, u16, String)>,
    robots: String,
    known: Known,
    asked: Vec<String>,
    last: Option<Outcome>,
}

impl Site {
    fn new(served: &[(&str, u16, &str)], robots: &str) -> Self {
        let own = |(path, status, body): &(&str, u16, &str)| {
            (format!("https://example.com{path}"), *status, (*body).to_owned())
        };
        let served = served.iter().map(own).collect();
        let (robots, known) = (robots.to_owned(), Known::default());
        Self { served, robots, known, asked: vec![], last: None }
    }

    fn search(served: &[(&str, u16, &str)], robots: &str) -> Self {
        let mut site = Self::new(served, robots);
        site.go(HOME, 0);
        site
    }

    fn go(&mut self, from: &str, depth: u16) {
        let (mut url, mut depth) = (from.to_owned(), depth);
        loop {
            self.asked.push(url.clone());
            let outcome = self.ask(&url, depth);
            let next = outcome.discovered.iter().find(|new| new.kind == Kind::Probe);
            let next = next.map(|new| (new.url.clone(), new.depth));
            self.known.discovery = outcome.discovery.clone().map(|fact| fact.state);
            self.last = Some(outcome);
            match next {
                Some(next) => (url, depth) = next,
                None => return,
            }
            assert!(self.asked.len() < 50, "{:?}", self.asked);
        }
    }

    fn ask(&self, url: &str, depth: u16) -> Outcome {
        let mut lease = lease(Kind::Probe, url);
        lease.task.depth = depth;
        let found = self.served.iter().find(|(at, ..)| at == url);
        let (status, body) =
            found.map_or((404, "<html>no</html>"), |(_, status, body)| (*status, body.as_str()));
        let known = Known {
            robots: Some(RobotsState {
                verdict: Verdict::Rules(self.robots.clone()),
                ..RobotsState::never()
            }),
            ..self.known.clone()
        };
        served(&lease, answer(url, status, &[], body), &known)
    }

    fn state(&self) -> &Discovery {
        self.known.discovery.as_ref().unwrap()
    }

    fn found(&self) -> Vec<(&str, Kind)> {
        self.state().found.iter().map(|found| (found.url.as_str(), found.kind)).collect()
    }
}

fn page(head: &str) -> String {
    format!("<!doctype html><html><head>{head}</head><body>Hello</body></html>")
}

#[test]
fn the_feed_that_the_head_names_is_found_with_its_news_sitemap() {
    let home = page(
        "<link rel=alternate type=application/rss+xml href=/broken>\
        <link rel=alternate type=application/rss+xml href=/rss>\
        <link rel=alternate type=application/atom+xml href=/atom>",
    );
    let site = Site::search(
        &[
            ("/", 200, &home),
            ("/broken", 200, EMPTY),
            ("/rss", 200, RSS),
            ("/n/news.xml", 200, NEWS),
        ],
        "Sitemap: https://example.com/sitemap.xml\nSitemap: https://example.com/n/news.xml",
    );
    let asked =
        ["/", "/broken", "/rss", "/n/news.xml"].map(|path| format!("https://example.com{path}"));
    assert_eq!(site.asked, asked);
    let expected = [
        ("https://example.com/rss", Kind::Feed),
        ("https://example.com/n/news.xml", Kind::Sitemap),
    ];
    assert_eq!(site.found(), expected);
    let state = site.state();
    assert_eq!(state.tried[1].why, "a feed without entries");
    let offered: Vec<_> = state.left.iter().map(|left| left.url.as_str()).collect();
    assert_eq!(offered, ["https://example.com/atom"], "what else the site declares is told");
    let last = site.last.unwrap();
    assert_eq!(last.settled.unwrap().url, HOME, "the home page is done with");
    assert!(last.events.iter().any(|event| event.kind == EventKind::SourceDiscovered));
}

#[test]
fn the_answer_that_shows_a_feed_is_its_first_poll() {
    let home = page("<link rel=alternate type=application/rss+xml href=/rss>");
    let site = Site::search(&[("/", 200, &home), ("/rss", 200, RSS)], "");
    let last = site.last.as_ref().unwrap();
    let fact = last.discovery.as_ref().unwrap();
    assert_eq!(fact.becomes, Some(Kind::Feed));
    assert_eq!(fact.channels, [(Kind::Feed, "https://example.com/rss".to_owned())]);
    assert_eq!((last.entries.len(), last.feed.as_ref().unwrap().items), (1, Some(1)));
    assert!(matches!(last.next, Next::Again { .. }));
    assert!(last.discovered.iter().any(|new| new.kind == Kind::Article));
    // The address that was given may be the feed.
    let site = Site::search(&[("/", 200, RSS)], "");
    assert_eq!((site.found(), site.asked.len()), (vec![(HOME, Kind::Feed)], 1));
}

#[test]
fn without_any_word_the_usual_places_are_asked_and_a_failure_tells_them_all() {
    let bare = page("");
    let site = Site::search(&[("/", 200, &bare), ("/atom.xml", 200, RSS)], "");
    assert_eq!(site.found(), [("https://example.com/atom.xml", Kind::Feed)]);
    assert_eq!(site.asked.len(), 6);

    let site = Site::search(&[("/", 200, &bare)], "");
    assert_eq!((site.found(), site.state().tried.len()), (vec![], 11));
    assert!(site.state().ended.is_some());
    let last = site.last.as_ref().unwrap();
    assert!(last.settled.is_none(), "the home page comes back");
    let home = site.ask(HOME, 0);
    assert_eq!(home.next, Next::Again { at: at().after(168 * HOUR) });
    let again = home.discovery.unwrap().state;
    assert_eq!((again.requests, again.tried.len()), (1, 1), "a new search");

    // Of a site without a feed its sitemap is followed.
    let map = "<urlset><url><loc>https://example.com/1</loc></url></urlset>";
    let site = Site::search(&[("/", 200, &bare), ("/sitemap.xml", 200, map)], "");
    assert_eq!(site.found(), [("https://example.com/sitemap.xml", Kind::Sitemap)]);
    // Where the home page is refused, its feed may still be there.
    let site = Site::search(&[("/", 403, "no"), ("/feed", 200, RSS)], "");
    assert_eq!(site.found(), [("https://example.com/feed", Kind::Feed)]);
}

#[test]
fn what_readers_say_comes_last_and_what_is_followed_already_is_not_asked_for() {
    let home = page("<link rel=alternate type=application/rss+xml title='Comments' href=/c>");
    let all = [("/", 200, home.as_str()), ("/c", 200, RSS), ("/rss", 200, RSS)];
    assert_eq!(Site::search(&all, "").found(), [("https://example.com/rss", Kind::Feed)]);
    assert_eq!(Site::search(&all[..2], "").found(), [("https://example.com/c", Kind::Feed)]);

    let home = page("<link rel=alternate type=application/rss+xml href=/rss>");
    let mut site = Site::new(&[("/", 200, &home)], "");
    let state = LeadState { kind: Kind::Feed, status: Status::Pending, fetched_at: None };
    site.known =
        Known { leads: [("https://example.com/rss".to_owned(), state)].into(), ..Known::default() };
    site.go(HOME, 0);
    assert_eq!(site.asked, [HOME]);
    let last = site.last.unwrap();
    assert_eq!(last.next, Next::Fetched);
    assert_eq!(last.discovery.unwrap().channels, [(Kind::Feed, "https://example.com/rss".into())]);
    assert_eq!(last.discovered[0].kind, Kind::Feed, "the source is one of its sources");
}

#[test]
fn a_search_is_bounded_in_requests_and_time() {
    let bare = page("");
    let site = Site::search(&[("/", 200, &bare)], "");
    let mut house = house();
    house.search.requests = 1;
    let reply = Reply::Answer(Box::new(answer(HOME, 200, &[], &bare)));
    let lease = lease(Kind::Probe, HOME);
    let (parsed, _) = parse(&lease, &reply, &house);
    let outcome = decide(&lease, parsed, &Known::default(), at(), &house);
    let state = outcome.discovery.unwrap().state;
    assert!(state.ended.is_some() && outcome.discovered.is_empty());
    assert!(!state.left.is_empty(), "what was not asked for is told");
    assert_eq!(site.state().requests, 11);
}

#[test]
fn failures_of_the_home_page_are_waited_out_and_those_of_guesses_are_not() {
    let broken = answer(HOME, 503, &[], "");
    let outcome = served(&lease(Kind::Probe, HOME), broken, &Known::default());
    assert!(matches!(outcome.next, Next::Retry { .. }));
    let mut guess = lease(Kind::Probe, "https://example.com/feed");
    guess.task.depth = 1;
    let known = Known {
        discovery: Some(Discovery { began: Some(at()), ..Discovery::default() }),
        ..Known::default()
    };
    let outcome = served(&guess, answer("https://example.com/feed", 503, &[], ""), &known);
    assert_eq!(outcome.next, Next::Dead { code: Code::Upstream });
    let told = served(&guess, answer("https://example.com/feed", 429, &[], ""), &known);
    assert!(matches!(told.next, Next::Retry { .. }));
    assert!(matches!(told.host, HostAdvice::SlowDown { .. }));
}

#[test]
fn a_redirect_to_another_host_goes_on_there() {
    let target = web::parse("https://www.example.com/").unwrap();
    let reply = Reply::Elsewhere { target: target.clone(), hops: 1 };
    let home = lease(Kind::Probe, HOME);
    let (parsed, ask) = parse(&home, &reply, &house());
    assert_eq!(ask.leads, [target.as_str()]);
    let outcome = decide(&home, parsed, &Known::default(), at(), &house());
    let next = &outcome.discovered[0];
    assert_eq!((next.url.as_str(), next.kind, next.depth), (target.as_str(), Kind::Probe, 0));
    assert_eq!(outcome.next, Next::Again { at: at().after(168 * HOUR) });
    let mut there = lease(Kind::Probe, target.as_str());
    there.task.redirects = 1;
    let bare = page("");
    let outcome = served(&there, answer(target.as_str(), 200, &[], &bare), &Known::default());
    assert_eq!(outcome.next, Next::Fetched);
    assert_eq!(outcome.discovered[0].url, "https://www.example.com/feed");
}
