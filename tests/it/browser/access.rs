//! Who may look, and who may do: a token opens the dashboard, and only as far as its scope goes.

use feedmill::store::gate::{self, Scope};
use serde_json::{Value, json};

use super::Room;
use crate::api::token;
use crate::support::World;

/// What the server says to a write with the tab's token.
const WRITE: &str = "fetch('/api/v1/sinks/ndjson/pause', {method: 'POST', headers: {authorization: \
    `Bearer ${sessionStorage.getItem('feedmill.token')}`}}).then((reply) => reply.status)";

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_the_dashboard_as_far_as_it_goes() {
    if !Room::wanted() {
        return;
    }
    let world = World::new(1, 2).await;
    world.follow().await;
    let reader = token(&world, "reader", Scope::Read, 1).await;
    let writer = token(&world, "writer", Scope::Write, 2).await;
    let room = Room::shaped(world, |config| config.api.open_on_loopback = false).await;
    let browser = &room.browser;

    // Whoever comes without one is led to the door, and back to where they wanted to go.
    browser.open("/sinks").await;
    browser.reads("This server wants to know who you are.").await;
    assert_eq!(browser.at().await, "/login?next=%2Fsinks");
    assert_eq!(browser.count("main table").await, 0);
    browser.fill("[name=token]", "fm_nobody").await;
    browser.press("Log in").await;
    browser.reads_in("[role=alert]", "The token is not known").await;
    assert_eq!(browser.ask("sessionStorage.length").await, 0);
    browser.fill("[name=token]", &reader).await;
    browser.press("Log in").await;
    browser.reads_in("#who", "reader · read").await;
    browser.reads_in("tbody tr", "ndjson").await;
    assert_eq!(browser.at().await, "/sinks");
    refusals(&room, 2).await;

    // What it may not do is not offered, and refused to whoever asks all the same.
    assert_eq!(browser.count("tbody button").await, 0);
    assert_eq!(browser.ask(WRITE).await, 403);
    browser.open("/sources").await;
    assert_eq!(browser.count("#add-source").await, 0);
    refusals(&room, 1).await;
    assert_eq!(browser.ask("document.cookie").await, "");

    browser.click("#logout").await;
    browser.reads("This server wants to know who you are.").await;
    assert_eq!(browser.ask("sessionStorage.length").await, 0);
    browser.fill("[name=token]", &writer).await;
    browser.press("Log in").await;
    browser.reads_in("#who", "writer · write").await;
    browser.open("/sinks").await;
    scope_shrinks(&room, &reader, &writer).await;

    // A token that is revoked while somebody looks: back to the door.
    assert!(gate::revoke(&*room.world.store, "writer").await.unwrap());
    browser.press_in_row("ndjson", "Pause").await;
    browser.reads("This server wants to know who you are.").await;
    assert!(room.server.get("/api/v1/sinks").await.status == 401);
    browser.log().await;
    room.close().await;
}

/// A page that offers more than its token may do any more says why it is refused.
async fn scope_shrinks(room: &Room, reader: &str, writer: &str) {
    let browser = &room.browser;
    let keep = |token: &str| format!("sessionStorage.setItem('feedmill.token', {})", json!(token));
    browser.ask(&keep(reader)).await;
    browser.press_in_row("ndjson", "Pause").await;
    browser.reads("The token's scope is too small").await;
    refusals(room, 1).await;
    browser.ask(&keep(writer)).await;
    let bearer = format!("Bearer {writer}");
    let sinks = room.server.ask("GET", "/api/v1/sinks", &[("authorization", &bearer)], "").await;
    assert_eq!(sinks.json()["items"][0]["paused_at"], Value::Null);
}

/// The console tells of this many answers that were refusals, and of nothing else.
async fn refusals(room: &Room, times: usize) {
    let log = room.browser.log().await;
    let told = |line: &&String| line.contains("401") || line.contains("403");
    assert_eq!((log.len(), log.iter().filter(told).count()), (times, times), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_link_makes_an_administrator_and_leaves_the_address_bar() {
    if !Room::wanted() {
        return;
    }
    let world = World::new(1, 1).await;
    let room = Room::shaped(world, |_| {}).await;
    let browser = &room.browser;

    // Without it, what needs an administrator is said and not offered.
    browser.open("/settings").await;
    browser.reads_in("#who", "open on loopback · write").await;
    browser.reads_in("#needs-admin", "needs the scope admin").await;
    browser.reads_in("tbody tr", "data_dir").await;
    assert_eq!(browser.count("tbody button").await, 0);
    assert_eq!(browser.count("[role=tab]").await, 1);

    // The link, as from the terminal.
    browser.open(&format!("/settings#token={}", room.server.login)).await;
    browser.reads_in("#who", "login link · admin").await;
    assert_eq!(browser.at().await, "/settings", "the token is gone from the address");
    browser.until("all tabs", "document.querySelectorAll('[role=tab]').length === 3").await;
    browser.until("a change", "document.querySelectorAll('tbody button').length > 0").await;
    let file_only = "[...document.querySelectorAll('tbody tr')].filter((row) => \
        row.innerText.includes('fetch.proxy')).every((row) => !row.querySelector('button'))";
    assert_eq!(browser.ask(file_only).await, true);
    // It is kept for the browser, not for the tab alone, and in no cookie.
    assert_eq!(browser.ask("[sessionStorage.length, document.cookie]").await, json!([0, ""]));
    browser.open("/").await;
    browser.reads_in("#who", "login link · admin").await;
    room.is_clean().await;

    // A link of an earlier run: it is said, and the page goes on without it.
    browser.open("/#token=fml_0000").await;
    browser.reads("The login link has expired").await;
    browser.reads_in("#who", "open on loopback · write").await;
    assert_eq!(browser.ask("localStorage.getItem('feedmill.login')").await, Value::Null);
    browser.log().await;

    // A stored token in the address is kept for the tab alone.
    let reader = token(&room.world, "reader", Scope::Read, 1).await;
    browser.open(&format!("/#token={reader}")).await;
    browser.reads_in("#who", "reader · read").await;
    assert_eq!(browser.at().await, "/", "the token is gone from the address");
    assert_eq!(browser.ask("localStorage.getItem('feedmill.login')").await, Value::Null);
    assert_eq!(browser.ask("sessionStorage.getItem('feedmill.token')").await, json!(reader));
    room.close().await;
}
