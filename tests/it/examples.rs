//! The seeds' worked examples, number by number, against a real process or a whole engine; and what
//! their ways with redirects come to.

use feedmill::config::{Config, Fetch, LoadOptions, Redirect, RedirectPolicy, load};
use feedmill::frontier::TaskFilter;
use feedmill::model::{Kind, NewSource, State, Status, Ts};
use feedmill::store::ArticleFilter;
use feedmill_newsroom::{Fault, Script, Span};

use crate::kill::{binary, command, terminate};
use crate::sinks::lines;
use crate::support::{Engine, World, until};

const PRESS: &str = "press.newsroom.test";

fn says(world: &World, path: &str, body: String, span: Span) {
    let script = Script { status: 200, headers: Vec::new(), body: body.into(), cut: false };
    world.newsroom.misbehave(PRESS, path, Fault::Scripted(script), span);
}

fn page() -> String {
    let text =
        "The council met on Monday and talked for a long time about the new bridge. ".repeat(8);
    format!(
        "<!doctype html><html><head><title>A story</title></head><body><article><h1>A story</h1>\
         <p>{text}</p></article></body></html>"
    )
}

/// Items from one number to another, the later the newer, the newest first.
fn feed(items: std::ops::RangeInclusive<i64>, start: Ts) -> String {
    let item = |n: i64| {
        let date = Ts::from_ms(start.ms() - (1_000 - n) * 60_000);
        format!(
            "<item><guid>{n}</guid><title>Item {n}</title><pubDate>{date}</pubDate>\
             <link>http://{PRESS}/story/{n}</link></item>"
        )
    };
    let items: String = items.rev().map(item).collect();
    format!("<rss version=\"2.0\"><channel><title>Press</title>{items}</channel></rss>")
}

/// S3 12.1: a first sync takes 20 of 50 items. S3 12.1a: a regular poll of 50 items finds 3.
#[tokio::test(flavor = "multi_thread")]
async fn s3_12_1_first_sync_and_12_1a_regular_polling() {
    let world = World::new(2, 1).await;
    let url = format!("http://{PRESS}/feed");
    says(&world, "/feed", feed(4..=53, world.start), Span::Always);
    says(&world, "/feed", feed(1..=50, world.start), Span::Times(1));
    says(&world, "/story/", page(), Span::Always);
    let source = NewSource { feed_urls: vec![url.clone()], ..NewSource::new("press", &url) };
    world.store.add_source(source).await.unwrap();
    let (_, before) = world.store.source("press").await.unwrap();
    assert_eq!(before[0].last_fetched_at, None, "12.1, 2: never fetched");

    let command = command(&world, &world.config.data_dir, None, &["profile=s3"]);
    let mut engine = Engine::start(command, world.dir().join("said"));
    engine.says(&format!("Fetched {url}: 20 new items")).await; // 12.1, 8 and 10
    let pages = || async {
        let filter = TaskFilter { kind: Some(Kind::Article), ..TaskFilter::default() };
        let tasks = world.tasks(filter).await.into_iter();
        let mut numbers: Vec<i64> =
            tasks.map(|task| task.url.rsplit('/').next().unwrap().parse().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    };
    let first = pages().await;
    assert!(first.starts_with(&(31..=50).collect::<Vec<_>>()), "12.1, 5: the newest: {first:?}");

    engine.says(&format!("Fetched {url}: 3 new items")).await; // 12.1a, 8 and 10
    let all: Vec<_> = (31..=53).collect();
    assert_eq!(pages().await, all, "12.1a, 5: the 47 others are known or stay left out");
    assert_eq!(world.store.totals().await.unwrap().entries, 23);
    let (_, channels) = world.store.source("press").await.unwrap();
    let channel = &channels[0];
    assert!(channel.last_fetched_at.is_some(), "12.1, 9");
    assert_eq!((channel.failures, channel.last_error, channel.items), (0, None, 50), "12.1, 9");
    until("all pages", || async { world.store.totals().await.unwrap().articles == 23 }).await;
    assert!(terminate(&mut engine.child));
}

fn alert(links: &[&str]) -> String {
    let entry = |link: &&str| {
        let link = link.replace('&', "&amp;");
        format!(
            "<entry><id>tag:google.com,2013:{link}</id><title>{link}</title>\
             <link href=\"{link}\"/><published>2026-11-01T00:00:00Z</published></entry>"
        )
    };
    let entries: String = links.iter().map(entry).collect();
    format!("<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>Alert</title>{entries}</feed>")
}

/// The world's configuration with a seed's profile.
async fn profile(world: &mut World, name: &str) {
    let overrides = vec![("profile".to_owned(), name.to_owned())];
    let seed = load(&LoadOptions { overrides, ..LoadOptions::default() }).unwrap().config;
    let own = world.config.clone();
    let fetch = Fetch { resolve: own.fetch.resolve, contact: own.fetch.contact, ..seed.fetch };
    world.config = Config { data_dir: own.data_dir, fetch, sinks: own.sinks, ..seed };
    world.reopen().await;
}

/// S4 2 to 4: feeds by category, their links unwrapped, each page once, articles with their category,
/// failures tried once and told, and a second run without news does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn s4_categories_become_articles_with_their_category() {
    let mut world = World::new(2, 1).await;
    profile(&mut world, "s4").await;
    let wrapped = |path: &str| {
        format!("https://www.google.com/url?rct=j&sa=t&url=http://{PRESS}{path}&ct=ga&cd=x")
    };
    let unreadable =
        "https://news.google.com/rss/articles/CBMiakFVX3lxTE1fbm90LWFuLWFkZHJlc3M?oc=5";
    let direct = format!("http://{PRESS}/jobs/2");
    let (one, both, broken) = (wrapped("/jobs/1"), wrapped("/both"), wrapped("/broken"));
    says(&world, "/alerts/jobs", alert(&[&one, &direct, &both, unreadable, &broken]), Span::Always);
    says(&world, "/alerts/inflation", alert(&[&wrapped("/prices/1"), &both]), Span::Always);
    for path in ["/jobs/", "/prices/", "/both"] {
        says(&world, path, page(), Span::Always);
    }
    says(&world, "/broken", "<p>too short</p>".to_owned(), Span::Always);
    let feeds = |path: &str| {
        format!("[{{\"url\": \"http://{PRESS}{path}\", \"search_term\": \"{path}\"}}]")
    };
    let list = format!(
        "{{\"version\": \"2.0\", \"feeds\": {{\"jobs_report\": {}, \"inflation\": {}}}}}",
        feeds("/alerts/jobs"),
        feeds("/alerts/inflation")
    );
    std::fs::write(world.dir().join("feeds.json"), list).unwrap();
    let resolve = format!("fetch.resolve=*.test={}", world.newsroom.addr());
    let imported = binary()
        .args(["source", "import", "feeds.json", "--set", "profile=s4", "--set", &resolve])
        .arg("--data-dir")
        .arg(&world.config.data_dir)
        .env("FEEDMILL_CLOCK", world.clock.scale().unwrap().to_string())
        .current_dir(world.dir())
        .output()
        .unwrap();
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let dead =
        TaskFilter { kind: Some(Kind::Article), states: vec![State::Dead], ..Default::default() };
    let is_done = || async {
        let articles = world.store.totals().await.unwrap().articles;
        articles >= 4 && !world.tasks(dead.clone()).await.is_empty()
    };
    world.run_until(is_done).await;

    let filter = ArticleFilter { limit: 100, ..ArticleFilter::default() };
    let articles = world.store.articles(filter).await.unwrap();
    let mut kept: Vec<_> = articles.iter().map(|(_, row)| row.article.url.clone()).collect();
    kept.sort();
    let expected =
        ["/both", "/jobs/1", "/jobs/2", "/prices/1"].map(|p| format!("http://{PRESS}{p}"));
    assert_eq!(kept, expected, "S4 3B: each page once, under its own address");
    let tasks = world.tasks(TaskFilter::default()).await;
    assert!(!tasks.iter().any(|task| task.url.contains("google")), "S4 1: clean origin URLs");
    let broken = tasks.iter().find(|task| task.url.ends_with("/broken")).unwrap();
    assert_eq!((broken.status, broken.fetch_count), (Status::Dead, 1), "S4 5: attempted once");

    let out = world.config.sink_dir("ndjson").unwrap();
    let written = lines(&out, "articles");
    assert_eq!(written.len(), 4);
    for line in &written {
        let url = line["url"].as_str().unwrap();
        let category = line["category"].as_str().unwrap();
        let expected: &[&str] = match url.rsplit('/').nth(1).unwrap() {
            "jobs" => &["jobs_report"],
            "prices" => &["inflation"],
            _ => &["jobs_report", "inflation"],
        };
        assert!(expected.contains(&category), "S4 2: {url} is in {category}");
    }
    let entries = lines(&out, "entries");
    let given = entries.iter().filter(|line| line["given_link"].as_str() == Some(one.as_str()));
    assert_eq!(given.count(), 1, "the link as it was given is kept");
    let failed = lines(&out, "events");
    assert!(failed.iter().any(|line| line["failure"] == "FAIL_BAD_HTML"), "S4 8: {failed:?}");

    let asked = |path: &str| world.newsroom.log().iter().filter(|it| it.path == path).count();
    let before = asked("/broken");
    world.run_once().await;
    assert_eq!(asked("/broken"), before, "S4 5: nothing is attempted twice");
    assert_eq!(world.store.totals().await.unwrap().articles, 4);
}

/// C-11: where the article of an address is kept that leads to another one, of its host or not.
#[tokio::test(flavor = "multi_thread")]
async fn an_article_is_kept_where_the_redirect_policy_says() {
    const OTHER: &str = "other.newsroom.test";
    let rule = |policy, permanent_only_alias| Redirect { policy, permanent_only_alias };
    for (rule, status, stays) in [
        (rule(RedirectPolicy::Alias, false), 302, false),
        (rule(RedirectPolicy::Alias, true), 302, true),
        (rule(RedirectPolicy::Alias, true), 301, false),
        (rule(RedirectPolicy::SubmitFinal, false), 301, false),
        (rule(RedirectPolicy::Follow, false), 301, true),
    ] {
        for host in [PRESS, OTHER] {
            let mut world = World::new(2, 1).await;
            world.config.redirect = rule.clone();
            let (first, last) = (format!("http://{PRESS}/old"), format!("http://{host}/new"));
            let leads = Script {
                status,
                headers: vec![("Location".to_owned(), last.clone())],
                body: Vec::new(),
                cut: false,
            };
            world.newsroom.misbehave(PRESS, "/old", Fault::Scripted(leads), Span::Always);
            let served =
                Script { status: 200, headers: Vec::new(), body: page().into(), cut: false };
            world.newsroom.misbehave(host, "/new", Fault::Scripted(served), Span::Always);
            world.submit(&first, Kind::Article).await;
            world.run_once().await;
            let filter = ArticleFilter { limit: 9, ..ArticleFilter::default() };
            let articles = world.store.articles(filter).await.unwrap();
            let kept: Vec<_> = articles.iter().map(|(_, row)| row.article.url.as_str()).collect();
            let expected = if stays { &first } else { &last };
            assert_eq!(kept, [expected.as_str()], "{rule:?} {status} {host}");
            let status = world.task(&first).await.status;
            let wanted = if stays { Status::Fetched } else { Status::Dead };
            assert_eq!(status, wanted, "{rule:?} {status} {host}");
            let asked = world.newsroom.log().iter().filter(|it| it.path == "/new").count();
            assert_eq!(asked, 1, "{rule:?} {status} {host}");
        }
    }
}
