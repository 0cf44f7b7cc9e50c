//! The dashboard without a mouse.

use super::Room;
use crate::support::World;

const TAB: &str = "\u{E004}";
const ENTER: &str = "\u{E007}";
const ESCAPE: &str = "\u{E00C}";
const DOWN: &str = "\u{E015}";
const RIGHT: &str = "\u{E014}";

impl Room {
    /// Presses Tab until the focus is there.
    async fn tab_to(&self, wanted: &str) {
        let mut passed = Vec::new();
        for _ in 0..80 {
            let at = self.browser.focus().await;
            if at == wanted {
                return;
            }
            passed.push(at);
            self.browser.type_keys(TAB).await;
        }
        panic!("{wanted} is not among {passed:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_can_be_reached_by_keys() {
    if !Room::wanted() {
        return;
    }
    let world = World::new(3, 3).await;
    world.follow().await;
    let new = world.newsroom.publishers()[0].url("/");
    let room = Room::open(world).await;
    let browser = &room.browser;

    // The first thing is a way past the menu.
    browser.open("/").await;
    browser.type_keys(TAB).await;
    assert_eq!(browser.focus().await, "A Skip to the content");
    browser.tab_to_links().await;

    // Views by two letters, the search by one.
    for (keys, path) in [
        ("gs", "/sources"),
        ("gf", "/frontier"),
        ("gh", "/hosts"),
        ("ga", "/articles"),
        ("gi", "/sinks"),
        ("ge", "/events"),
        ("gw", "/explain"),
        ("go", "/"),
    ] {
        browser.type_keys(ESCAPE).await;
        browser.ask("document.activeElement.blur()").await;
        browser.type_keys(keys).await;
        browser.until(path, &format!("location.pathname === '{path}'")).await;
        browser.settled().await;
    }
    browser.type_keys("?").await;
    browser.reads_in("dialog", "rows of a table").await;
    browser.type_keys(ESCAPE).await;
    browser.until("no dialog", "document.querySelector('dialog') === null").await;

    // A row of a table, found by words and opened.
    browser.type_keys("gs").await;
    browser.until("sources", "document.querySelectorAll('tbody tr.open').length === 3").await;
    browser.type_keys("/").await;
    assert_eq!(browser.focus().await, "INPUT q");
    let name = &room.world.newsroom.publishers()[1].host;
    browser.type_keys(name).await;
    browser.until("one source", "document.querySelectorAll('tbody tr.open').length === 1").await;
    room.tab_to(&format!("TR {name}")).await;
    browser.type_keys(ENTER).await;
    browser.reads_in("h1", name).await;
    browser.settled().await;
    // Its parts by arrows.
    room.tab_to("BUTTON Channels").await;
    browser.type_keys(RIGHT).await;
    browser
        .until(
            "entries",
            "document.querySelector('[role=tab][aria-selected=true]').innerText === 'Entries'",
        )
        .await;

    // A source is added.
    browser.type_keys("gs").await;
    browser.until("sources", "document.querySelectorAll('tbody tr.open').length === 3").await;
    room.tab_to("BUTTON add-source").await;
    browser.type_keys(ENTER).await;
    assert_eq!(browser.focus().await, "INPUT url");
    browser.type_keys(&new).await;
    browser.type_keys(TAB).await;
    browser.type_keys("By keys").await;
    room.tab_to("BUTTON Add source").await;
    browser.type_keys(ENTER).await;
    browser.reads_in("h1", "By keys").await;

    // Rows by arrows.
    browser.type_keys("gh").await;
    browser.until("hosts", "document.querySelectorAll('tbody tr.open').length > 2").await;
    browser.type_keys(TAB).await;
    let first = browser.ask("document.querySelector('tbody tr.open td').innerText").await;
    room.tab_to(&format!("TR {}", first.as_str().unwrap())).await;
    browser.type_keys(DOWN).await;
    let moved = "document.activeElement === document.querySelectorAll('tbody tr.open')[1]";
    browser.until("the second row", moved).await;
    room.close().await;
}

impl super::Browser {
    /// All views are behind Tab, in the order in which they stand.
    async fn tab_to_links(&self) {
        let mut seen = Vec::new();
        for _ in 0..16 {
            self.type_keys(TAB).await;
            seen.push(self.focus().await);
        }
        let links: Vec<&str> = seen.iter().filter_map(|one| one.strip_prefix("A ")).collect();
        let wanted = [
            "Overview", "Sources", "Frontier", "Hosts", "Articles", "Sinks", "Events", "Explain",
            "Settings",
        ];
        assert!(links.windows(wanted.len()).any(|some| some == wanted), "{seen:?}");
    }
}
