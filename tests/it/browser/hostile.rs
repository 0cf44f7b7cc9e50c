//! Publishers and operators may write what they want: in the dashboard it stays words.
//!
//! Names, titles, texts, tags, addresses and headers carry scripts. All views that show them are looked
//! at; nothing of it may run, load or be forbidden by the page's policy, for that would mean that it had
//! become markup.

use feedmill::model::NewSource;
use feedmill_newsroom::{Fault, Newsroom, Script, Span};
use serde_json::Value;

use super::Room;
use crate::support::{World, until};

/// Runs wherever it becomes markup, and asks for what is not ours.
const PROBE: &str = r#"<img src="http://tracker.test/p.png" onerror="alert(1);window.pwned=1"><script>window.pwned=2</script><svg onload="window.pwned=3">"#;
/// Out of an attribute.
const QUOTES: &str =
    r#""'><b onmouseover="window.pwned=4" autofocus onfocus="window.pwned=5">x</b>"#;
/// What can be read of the probe wherever it stands as words.
const MARK: &str = r#"<img src="http://tracker.test/p.png""#;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn script(kind: &str, body: String) -> Fault {
    let headers =
        [("content-type", kind), ("x-probe", PROBE), ("link", "<javascript:alert(1)>; rel=next")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Fault::Scripted(Script { status: 200, headers, body: body.into_bytes(), cut: false })
}

fn feed(home: &str) -> String {
    let (probe, quotes) = (escaped(PROBE), escaped(QUOTES));
    let twice = escaped(&probe);
    format!(
        r#"<?xml version="1.0"?><rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>
        <title>{probe}{quotes}</title><link>javascript:window.pwned=6</link>
        <item><title>{twice} first</title><link>{home}story-one</link><guid>one{quotes}</guid>
          <dc:creator>{twice}</dc:creator><category>{probe}</category><description>{probe}</description></item>
        <item><title>second {twice}</title><link>javascript:window.pwned=7</link><guid>two</guid></item>
        <item><title>{twice} gone</title><link>{home}story-gone?{quotes}</link><guid>three</guid></item>
        </channel></rss>"#
    )
}

fn page() -> String {
    let (probe, quotes) = (escaped(PROBE), escaped(QUOTES));
    let text =
        "The harbour was quiet in the morning, and nobody had seen the ship leave. ".repeat(6);
    format!(
        r#"<!doctype html><html lang="en"><head><title>{probe}</title>
        <meta property="og:title" content="{probe}"><meta property="og:site_name" content="{quotes}">
        <meta name="author" content="{probe}"><meta name="keywords" content="{probe}, {quotes}">
        <meta property="article:section" content="{probe}"><meta name="robots" content="{probe}">
        <meta property="og:image" content="javascript:window.pwned=8">
        <link rel="canonical" href="javascript:window.pwned=9"></head><body><article><h1>{probe}</h1>
        <p onclick="window.pwned=10">{text}</p><p>{probe} is what it said. {text}</p>{PROBE}
        <iframe src="http://tracker.test/"></iframe><p>{text} <a href="javascript:window.pwned=11">more</a></p>
        <form action="http://tracker.test/"><input autofocus onfocus="window.pwned=12"></form></article></body></html>"#
    )
}

fn set_traps(newsroom: &Newsroom) -> (String, String) {
    let site = &newsroom.publishers()[0];
    let (home, feed_url) = (site.url("/"), site.feed_url().unwrap());
    let path = format!("/{}", feed_url.strip_prefix(&home).unwrap());
    newsroom.misbehave(&site.host, &path, script("application/rss+xml", feed(&home)), Span::Always);
    newsroom.misbehave(&site.host, "/story-one", script("text/html", page()), Span::Always);
    newsroom.misbehave(&site.host, "/story-gone", Fault::Status(410), Span::Always);
    (site.host.clone(), feed_url)
}

impl Room {
    /// A view shows the words, and nothing of them is more than that.
    async fn shows_words(&self, path: &str, words: &str) {
        self.browser.open(path).await;
        self.stays_words(path, words).await;
    }

    async fn stays_words(&self, at: &str, words: &str) {
        self.browser.reads_in("main", words).await;
        self.browser.settled().await;
        let made = "document.querySelectorAll('main img, main script, main iframe, main form[action], \
            main [onerror], main [onload], main [onfocus], main [onmouseover], main b[autofocus], \
            main [href^=\"javascript:\" i]').length";
        assert_eq!(self.browser.ask(made).await, 0, "{at}");
        assert_eq!(self.browser.ask("window.pwned ?? null").await, Value::Null, "{at}");
        self.is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_publishers_write_stays_words() {
    if !Room::wanted() {
        return;
    }
    let world = World::new(2, 2).await;
    let (host, feed) = set_traps(&world.newsroom);
    let named = NewSource {
        feed_urls: vec![feed],
        category: Some(QUOTES.to_owned()),
        tags: vec![PROBE.to_owned()],
        discover: false,
        ..NewSource::new(format!("Evil {PROBE}"), format!("http://{host}/"))
    };
    let source = world.store.add_source(named).await.unwrap().uuid;
    let room = Room::open(world).await;
    let (browser, server) = (&room.browser, &room.server);
    until("the article and the dead page", || async {
        let stats = room.world.store.stats().await.unwrap();
        room.world.store.totals().await.unwrap().articles == 1 && stats.total.dead >= 1
    })
    .await;
    let article = &server.json("/api/v1/articles").await["items"][0];
    let id = article["id"].as_str().unwrap();

    for (path, words) in [
        ("/sources", MARK),
        ("/sources?tab=feeds", MARK),
        ("/articles", MARK),
        ("/events", MARK),
        ("/frontier", "story-gone"),
        ("/", MARK),
    ] {
        room.shows_words(path, words).await;
    }
    room.shows_words(&format!("/sources/{source}"), MARK).await;
    for tab in ["entries", "articles", "settings"] {
        room.shows_words(&format!("/sources/{source}?tab={tab}"), "Evil <img").await;
    }
    room.shows_words(&format!("/articles/{id}"), "is what it said").await;
    for (tab, words) in
        [("facts", MARK), ("html", "&lt;img"), ("raw", "x-probe: <img"), ("copies", "")]
    {
        room.shows_words(&format!("/articles/{id}?tab={tab}"), words).await;
    }
    for asked in [&source, &host, &format!("http://{host}/story-one")] {
        room.shows_words(&format!("/explain?q={asked}"), &host).await;
    }
    // What is asked for may be hostile as well: it is told back.
    browser.open(&format!("/explain?q={}", "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")).await;
    browser.reads_in("[role=alert]", "<img src=x onerror=alert(1)>").await;
    let log = browser.log().await;
    assert!(log.len() == 1 && log[0].contains("404"), "{log:?}");
    room.close().await;
}
