//! What operators do all day: follow a publisher, look after the queue, the sinks and the hosts, read.

use feedmill::frontier::TaskFilter;
use feedmill::model::Status;
use feedmill_newsroom::{Fault, Setup, Span};

use super::Room;
use crate::support::{World, until};

const ONE_ROW: &str = "document.querySelectorAll('tbody tr:not(.wait)').length === 1";

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_is_looked_at_added_and_goes_live() {
    if !Room::wanted() {
        return;
    }
    let room = Room::open(World::new(3, 5).await).await;
    let (browser, server) = (&room.browser, &room.server);
    let publisher = &room.world.newsroom.publishers()[0];
    browser.open("/sources").await;
    browser.reads("No sources yet.").await;

    browser.click("#add-source").await;
    browser.fill("dialog [name=url]", &publisher.url("/")).await;
    browser.press("Look first").await;
    browser.reads_in("dialog .choices", &publisher.feed_url().unwrap()).await;
    browser.reads_in("dialog", "Newest items").await;
    assert_eq!(server.json("/api/v1/sources").await["items"], serde_json::json!([]), "only a look");
    browser.fill("dialog [name=name]", "The Harbour Times").await;
    browser.fill("dialog [name=category]", "ships").await;
    browser.fill("dialog [name=poll_interval]", "40m").await;
    browser.press("Add source").await;
    browser.reads("The Harbour Times is followed.").await;

    // Nobody loads the page again: what becomes of it appears.
    browser.reads_in("h1", "The Harbour Times").await;
    browser.reads_in(".head .badge", "healthy").await;
    browser.reads_in(".card", "Interval chosen").await;
    browser.reads_in(".card", "40 min").await;
    browser.until("a chart", "document.querySelector('.panel .u-wrap canvas') !== null").await;
    until("all that it has published", || async {
        let totals = room.world.store.totals().await.unwrap();
        totals.entries >= 5 && totals.articles >= 5
    })
    .await;
    for tab in ["Entries", "Articles"] {
        browser.press(tab).await;
        browser
            .until(
                tab,
                "document.querySelectorAll('.panel tbody tr:not(.wait):not(.empty)').length === 5",
            )
            .await;
    }
    settings_are_kept(&room).await;
    selectors_are_tried(&room).await;

    browser.open("/sources").await;
    let row = "tbody tr";
    browser.reads_in(row, "The Harbour Times").await;
    browser.reads_in(row, "healthy").await;
    browser.reads_in(row, "both").await;
    room.close().await;
}

async fn settings_are_kept(room: &Room) {
    let (browser, server) = (&room.browser, &room.server);
    browser.press("Settings").await;
    browser.fill(".form [name=poll_interval]", "20m").await;
    browser.fill(".form [name=priority]", "8").await;
    browser.choose(".form [name=ingestion_mode]", "both").await;
    browser.press("Save changes").await;
    browser.reads("Saved.").await;
    let source = &server.json("/api/v1/sources").await["items"][0];
    assert_eq!(source["poll_interval_ms"], 1_200_000, "{source}");
    assert_eq!((&source["priority"], &source["ingestion_mode"]), (&8.into(), &"both".into()));
    // What is wrong is told at its field, and nothing is lost.
    browser.fill(".form [name=poll_interval]", "soon").await;
    browser.press("Save changes").await;
    browser.reads_in(".form .problem", "poll_interval").await;
    assert_eq!(browser.count(".has-wrong [name=poll_interval]").await, 1);
    let source = &server.json("/api/v1/sources").await["items"][0];
    assert_eq!(source["poll_interval_ms"], 1_200_000, "{source}");
    // The refusal is all that the console has to tell.
    let log = browser.log().await;
    assert!(log.len() == 1 && log[0].contains("422"), "{log:?}");
}

async fn selectors_are_tried(room: &Room) {
    let browser = &room.browser;
    browser.press("Selectors").await;
    browser.fill("[name='selectors.title']", "h1").await;
    browser.fill("[name='selectors.body']", "footer").await;
    browser.press("Test").await;
    browser
        .until("before and after", "document.querySelectorAll('.panel .compare pre').length > 1")
        .await;
    let source = &room.server.json("/api/v1/sources").await["items"][0];
    assert_eq!(source["selectors"]["body"], serde_json::Value::Null, "only tried: {source}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_rehearsed_and_brought_in() {
    if !Room::wanted() {
        return;
    }
    let room = Room::open(World::new(2, 2).await).await;
    let (browser, server) = (&room.browser, &room.server);
    let sites: Vec<String> =
        room.world.newsroom.publishers().iter().map(|it| it.url("/")).collect();
    browser.open("/sources").await;
    browser.press("Import").await;
    browser
        .fill("dialog textarea", &format!("{}\n{}\nftp://nowhere.test/", sites[0], sites[1]))
        .await;
    browser.press("Rehearse").await;
    browser.reads_in("dialog", "2 would be added").await;
    assert_eq!(server.json("/api/v1/sources").await["items"], serde_json::json!([]), "a rehearsal");
    browser.press("Import").await;
    browser.reads_in("dialog", "2 were added, 0 known, 1 refused").await;
    assert_eq!(server.json("/api/v1/sources").await["items"].as_array().unwrap().len(), 2);
    browser.click("dialog [aria-label=Close]").await;
    room.close().await;
}

/// Two publishers that are followed; one page of the first is gone until somebody mends it.
async fn with_a_dead_page() -> (Room, String) {
    let world = World::new(2, 4).await;
    let first = world.newsroom.publishers()[0].host.clone();
    let stories = world.newsroom.published(i64::MAX);
    let url = stories.into_iter().map(|story| story.url).find(|url| url.contains(&first)).unwrap();
    let path = format!("/{}", url.splitn(4, '/').nth(3).unwrap());
    world.newsroom.misbehave(&first, &path, Fault::Status(410), Span::Always);
    world.follow().await;
    let room = Room::open(world).await;
    until("a dead page", || async { room.world.store.stats().await.unwrap().total.dead == 1 })
        .await;
    (room, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_frontier_is_filtered_and_a_dead_page_is_tried_again() {
    if !Room::wanted() {
        return;
    }
    let (room, path) = with_a_dead_page().await;
    let browser = &room.browser;
    browser.open("/frontier").await;
    browser.reads_in("button.tile", "1").await;
    let all = browser.count("tbody tr").await;
    assert!(all > 8, "{all}");
    browser.reads_in(".cards li", "1 dead").await;

    // By its card, then by words; what is chosen stands in the address.
    browser.click("button.tile:nth-child(5)").await;
    browser.until("one row", ONE_ROW).await;
    browser.reads_in("tbody tr", "gone").await;
    assert_eq!(browser.at().await, "/frontier?status=dead");
    browser.reads_in(".pager", "1 in all").await;
    browser.choose("[name=kind]", "feed").await;
    browser.reads("No address fits.").await;
    browser.choose("[name=kind]", "article").await;
    browser.reads_in("tbody tr", "gone").await;

    let host = room.world.newsroom.publishers()[0].host.clone();
    room.world.newsroom.behave(&host, &path);
    browser.press_in_row("gone", "Retry").await;
    browser.reads("It is due now.").await;
    until("the page, read", || async {
        let known = room.world.tasks(TaskFilter::default()).await;
        known.iter().any(|task| task.url.contains(&path) && task.status == Status::Fetched)
    })
    .await;
    browser.press("Clear 2 filters").await;
    browser.fill("[name=search]", &path).await;
    browser.until("one row", ONE_ROW).await;
    browser.reads_in("tbody tr", "fetched").await;
    let served = room.world.newsroom.log().into_iter().filter(|one| one.path == path);
    assert_eq!(served.map(|one| one.status).collect::<Vec<_>>(), [410, 200]);

    // All that the filters show, after a count.
    browser.press("Delete all of these").await;
    browser.reads_in("dialog", "Delete 1 addresses?").await;
    browser.press("Delete").await;
    browser.reads("1 addresses were deleted.").await;
    let left = room.world.tasks(TaskFilter { search: Some(path), ..TaskFilter::default() }).await;
    assert!(left.is_empty(), "{left:?}");
    room.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sinks_are_paused_hosts_blocked_and_articles_read() {
    if !Room::wanted() {
        return;
    }
    let world = World::with(2, |setup| Setup {
        history: 4,
        rate_per_hour: 6.0,
        day_profile: false,
        ..setup
    })
    .await;
    world.follow().await;
    let room = Room::open(world).await;
    sinks(&room).await;
    article(&room).await;
    host(&room).await;
    room.close().await;
}

async fn sinks(room: &Room) {
    let (browser, server) = (&room.browser, &room.server);
    browser.open("/sinks").await;
    browser.press_in_row("ndjson", "Pause").await;
    browser.reads("It gets nothing until it is resumed; nothing is lost.").await;
    browser.reads_in("tbody .badge", "paused").await;
    let sink = async || server.json("/api/v1/sinks/ndjson").await;
    assert!(sink().await["paused_at"].is_string());
    // The log goes on, and the sink is told to be behind.
    until("a lag", || async { sink().await["lag_events"].as_u64().unwrap() > 2 }).await;
    browser.click("tbody a").await;
    browser.reads_in("h1", "ndjson").await;
    browser.reads_in(".tile", "events; the oldest waits").await;
    browser.press("Resume").await;
    browser.reads("It gets events again.").await;
    let caught_up = "document.querySelector('.head .badge:nth-of-type(2)')?.innerText !== 'paused'";
    browser.until("a sink that goes on", caught_up).await;
    assert!(sink().await["paused_at"].is_null());
}

async fn article(room: &Room) {
    let (browser, world) = (&room.browser, &room.world);
    let story = world.newsroom.published(world.start.ms()).pop().unwrap();
    until("the story", || async {
        let tasks = world.tasks(TaskFilter::default()).await;
        tasks.iter().any(|task| task.url.starts_with(&story.url) && task.status == Status::Fetched)
    })
    .await;
    browser.open("/articles").await;
    browser.fill("main [name=q]", &story.title).await;
    browser.until("few articles", "document.querySelectorAll('tbody tr.open').length < 4").await;
    browser.click(&format!("tbody a[title={}]", serde_json::json!(story.title))).await;
    browser.reads_in("h1", &story.title).await;
    let shown = "[...document.querySelectorAll('.reader .text p')].map((one) => one.textContent).join('\\n\\n')";
    browser.until("its text", &format!("({shown}).length > 0")).await;
    let text = story.text.strip_prefix(&story.title).unwrap_or(&story.text).trim();
    assert_eq!(browser.ask(shown).await, text);
    browser.press("Raw").await;
    browser.reads_in(".panel pre", "GET /").await;
    browser.reads_in(".panel pre", "200").await;
    browser.press("HTML").await;
    browser.reads_in(".panel pre", "<p>").await;
    browser.press("Facts").await;
    browser.reads_in(".panel .facts", "Content hash").await;

    // Why do we have it? The box is on every page.
    browser.fill("#why-q", &story.url).await;
    browser.type_keys("\u{E007}").await;
    for step in ["discovered", "fetched", "extracted"] {
        let seen = format!(
            "[...document.querySelectorAll('.trail .stage')].some((one) => one.textContent === '{step}')"
        );
        browser.until(step, &seen).await;
    }
}

async fn host(room: &Room) {
    let (browser, server) = (&room.browser, &room.server);
    let name = &room.world.newsroom.publishers()[0].host;
    browser.open(&format!("/hosts/{name}")).await;
    browser.reads("What we asked of it").await;
    browser.press("Block").await;
    browser.choose("dialog [name=for]", "24h").await;
    browser.press("Block").await;
    browser.reads_in(".remark", "Blocked until").await;
    let here = format!("/api/v1/hosts/{name}");
    assert!(server.json(&here).await["blocked_until"].is_string());
    browser.press("Unblock").await;
    browser.reads("It can be asked again.").await;
    assert_eq!(server.json(&here).await["blocked_forever"], false);
}
