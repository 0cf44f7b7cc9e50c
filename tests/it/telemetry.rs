//! What the process tells of its own work: spans that a collector gets, and log lines in the words that
//! others' dashboards read. No secret is in any of them.

mod secrets;
mod traces;
mod words;

use feedmill_newsroom::{Fault, Script, Setup, Span as Until};

use crate::support::World;

const HOST: &str = "press.newsroom.test";

/// An address of the press.
fn at(path: &str) -> String {
    format!("http://{HOST}{path}")
}

/// Lets the press answer with this, and say that nothing changed to whoever has it.
fn serves(world: &World, path: &str, body: impl Into<String>) {
    let headers = vec![("etag".to_owned(), "\"1\"".to_owned())];
    let script = Script { status: 200, headers, body: body.into().into(), cut: false };
    world.newsroom.misbehave(HOST, path, Fault::ScriptedFrozen(script), Until::Always);
}

fn fails(world: &World, path: &str, fault: Fault) {
    world.newsroom.misbehave(HOST, path, fault, Until::Always);
}

/// A feed of these stories.
fn feed(stories: &[u8]) -> String {
    let item = |n: &u8| {
        let link = at(&format!("/story/{n}"));
        format!("<item><guid>{n}</guid><title>Item {n}</title><link>{link}</link></item>")
    };
    let items: String = stories.iter().map(item).collect();
    format!("<rss version=\"2.0\"><channel><title>P</title>{items}</channel></rss>")
}

fn page() -> String {
    let text =
        "The council met on Monday and talked for a long time about the new bridge. ".repeat(8);
    format!(
        "<!doctype html><html><body><article><h1>A story</h1><p>{text}</p></article></body></html>"
    )
}

/// A press with a feed of two stories, one of which is no page.
async fn press() -> World {
    press_on("").await
}

/// The same on another database than the embedded one.
async fn press_on(database: &str) -> World {
    let shape = |setup: Setup| Setup { history: 1, publish_until: Some(setup.starts_at), ..setup };
    let world = World::on(database, 2, shape).await;
    serves(&world, "/feed", feed(&[1, 2]));
    serves(&world, "/story/", page());
    serves(&world, "/story/2", "<p>no</p>");
    world
}
