//! Every view, light, dark and on a phone, with the newsroom at work and without anything.
//!
//! `FEEDMILL_TEST_SCREENSHOTS` names a directory for their pictures, which are taken after some hours of
//! news.

use feedmill_newsroom::{Fault, Setup, Span};

use super::Room;
use super::chromium::{LOOKS, Look};
use crate::api::first;
use crate::support::{World, until};

/// Views that are there without anything.
const LISTS: [&str; 10] = [
    "/",
    "/sources",
    "/sources?tab=feeds",
    "/frontier",
    "/hosts",
    "/articles",
    "/sinks",
    "/events",
    "/explain",
    "/settings",
];

/// What is to be known about a page: troubles, headings, fields without a name, what stands beyond its right
/// edge, and its words.
const SEEN: &str = "[document.querySelectorAll('main [role=alert]').length, document.querySelectorAll('h1').length, \
    [...document.querySelectorAll('main input, main select, main textarea, main button')].filter((one) => \
        !one.labels?.length && !one.getAttribute('aria-label') && !one.innerText.trim()).length, \
    Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth), \
    document.querySelector('main').innerText]";

/// Words of a value that nobody meant to show.
const ODD: [&str; 5] = ["undefined", "NaN", "object", "Invalid", "null"];

impl Room {
    /// Opens a view and looks at it in all ways.
    async fn visit(&self, name: &str, path: &str) {
        self.browser.open(path).await;
        for look in LOOKS {
            self.browser.look(look).await;
            self.check(look, path).await;
            self.browser.picture(&format!("{name}-{}", look.name)).await;
        }
        self.is_clean().await;
    }

    async fn check(&self, look: Look, path: &str) {
        let seen = self.browser.ask(SEEN).await;
        let (at, words) = (format!("{path}, {}", look.name), seen[4].as_str().unwrap());
        assert_eq!(seen[0], 0, "{at} has trouble: {words}");
        assert_eq!(seen[1], 1, "{at} has one heading");
        assert_eq!(seen[2], 0, "{at}: a field without a name");
        assert_eq!(seen[3], 0, "{at} is too wide");
        let mut parts = words.split(|one: char| !one.is_alphanumeric());
        assert_eq!(parts.find(|part| ODD.contains(part)), None, "{at}: {words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_says_something_when_there_is_nothing() {
    if !Room::wanted() {
        return;
    }
    let room = Room::open(World::new(1, 1).await).await;
    for path in LISTS {
        room.visit(&format!("empty{}", path.replace(['/', '?', '='], "-")), path).await;
    }
    room.close().await;
}

/// A newsroom in which some things go wrong.
async fn busy() -> World {
    let world = World::with(8, |setup| Setup {
        history: 8,
        rate_per_hour: 4.0,
        day_profile: false,
        syndication: 0.2,
        ..setup
    })
    .await;
    let hosts: Vec<String> = world.newsroom.publishers().iter().map(|it| it.host.clone()).collect();
    let gone = world.newsroom.published(world.start.ms()).remove(0).url;
    let gone = gone.splitn(4, '/').skip(2).collect::<Vec<_>>();
    world.newsroom.misbehave(gone[0], &format!("/{}", gone[1]), Fault::Status(410), Span::Always);
    let down = Fault::ServerError { status: 503, retry_after: None };
    world.newsroom.misbehave(&hosts[1], "/", down, Span::Always);
    world.newsroom.misbehave(&hosts[2], "/", Fault::Reset, Span::Times(3));
    world.follow().await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_is_whole_light_dark_and_on_a_phone() {
    if !Room::wanted() {
        return;
    }
    let room = Room::open(busy().await).await;
    let world = &room.world;
    until("a dead page and articles", || async {
        let (stats, totals) =
            (world.store.stats().await.unwrap(), world.store.totals().await.unwrap());
        stats.total.dead > 0 && totals.articles > 20 && totals.duplicates > 0
    })
    .await;
    if std::env::var("FEEDMILL_TEST_SCREENSHOTS").is_ok() {
        let hours = std::time::Duration::from_secs(6 * 3_600);
        until("some hours", || async { world.clock.now().since(world.start) > hours }).await;
    }
    let source = first(&room.server, "/api/v1/sources", "id").await;
    let article = first(&room.server, "/api/v1/articles", "id").await;
    let address = first(&room.server, "/api/v1/frontier?kind=article&status=fetched", "url").await;
    let host = &world.newsroom.publishers()[0].host;
    let mut views: Vec<(String, String)> = LISTS
        .map(|path| (path.replace(['/', '?', '='], "-"), path.to_owned()))
        .into_iter()
        .map(|(name, path)| (format!("list{name}"), path))
        .collect();
    let mut add = |name: &str, path: String| views.push((name.to_owned(), path));
    for tab in ["channels", "entries", "articles", "settings", "selectors"] {
        add(&format!("source-{tab}"), format!("/sources/{source}?tab={tab}"));
    }
    for tab in ["read", "facts", "html", "raw", "revisions", "copies"] {
        add(&format!("article-{tab}"), format!("/articles/{article}?tab={tab}"));
    }
    for tab in ["tokens", "audit"] {
        add(&format!("settings-{tab}"), format!("/settings?tab={tab}"));
    }
    add("host", format!("/hosts/{host}"));
    add("sink", "/sinks/ndjson".to_owned());
    add("frontier-dead", "/frontier?status=dead".to_owned());
    add("explain-address", format!("/explain?q={address}"));
    add("explain-source", format!("/explain?q={source}"));
    add("explain-host", format!("/explain?q={host}"));
    add("login", "/login".to_owned());
    for (name, path) in &views {
        room.visit(name, path).await;
    }
    room.close().await;
}
