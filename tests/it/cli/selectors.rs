//! What an operator says about a source's articles: tried first, then kept, then read again.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use super::Desk;

/// A publisher with a feed of four stories; the fourth has an endless title. Returns its port.
pub(super) fn publisher() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4_096];
            let read = stream.read(&mut request).unwrap_or_default();
            let head = String::from_utf8_lossy(&request[..read]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let (status, kind, body) = answer(path, port);
            let length = body.len();
            // Who asked may have gone away by now.
            drop(write!(
                stream,
                "HTTP/1.1 {status} OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
                 Connection: close\r\n\r\n{body}"
            ));
        }
    });
    port
}

fn answer(path: &str, port: u16) -> (u16, &'static str, String) {
    let number = path.strip_prefix("/story/").and_then(|n| n.parse::<usize>().ok());
    if let Some(n) = number {
        return (200, "text/html", story(n));
    }
    if path != "/feed.xml" {
        return (404, "text/plain", "nothing".to_owned());
    }
    let item = |n: usize| {
        let link = format!("http://127.0.0.1:{port}/story/{n}");
        format!("<item><guid>{link}</guid><link>{link}</link></item>")
    };
    let items: String = (1..=4).map(item).collect();
    let feed = format!("<rss version=\"2.0\"><channel><title>P</title>{items}</channel></rss>");
    (200, "application/rss+xml", feed)
}

fn story(n: usize) -> String {
    let title = if n == 4 { "endless ".repeat(80) } else { format!("Bridge number {n} is built") };
    let real = if n == 3 { "Town ".repeat(20) } else { format!("Town opens bridge {n}") };
    let sentence = |m: usize| {
        format!("<p>On day {m} the council talked for long about bridge {n} over the river. </p>")
    };
    let text: String = (1..=8).map(sentence).collect();
    format!(
        "<!doctype html><html><head><title>{title}</title></head><body><article><h1>{title}</h1>\
         <h2 class=real>{real}</h2><div class=text>{text}</div></article></body></html>"
    )
}

#[test]
fn selectors_are_tried_kept_and_used_to_read_again() {
    let desk = Desk::new();
    let write = |title: usize| {
        let config = format!(
            "[fetch]\nallow_networks = [\"127.0.0.0/8\"]\n[hosts]\ndelay = \"1ms\"\n\
             [validation]\nmax_title_chars = {title}\n"
        );
        fs::write(desk.path().join("feedmill.toml"), config).unwrap();
    };
    write(500);
    let feed = format!("http://127.0.0.1:{}/feed.xml", publisher());
    desk.fails(&["source", "add", &feed, "--body", "div["], 2, "at character 5");
    desk.ok(&["source", "add", "--no-check", &feed, "--name", "press", "--exclude", ".none"]);
    desk.ok(&["once"]);
    let shown = desk.json(&["source", "show", "press"]);
    assert_eq!(shown["rejected"], 1, "{shown}");
    assert!(desk.ok(&["source", "show", "press"]).contains("rejected    1 page"));
    let failed = &shown["channels"][0]["failures"];
    assert_eq!(failed, 0, "which is no failure of the source");

    let selectors = ["source", "selectors", "press"];
    for _ in 0..2 {
        let shown = desk.ok(&selectors);
        assert_eq!(shown, "articles of press are read by exclude `.none`\n", "and keeps them");
    }
    assert_eq!(desk.json(&selectors)["selectors"]["exclude"][0], ".none");
    assert!(desk.ok(&[&selectors[..], &["--clear"]].concat()).contains("without selectors"));
    desk.fails(&["source", "test", "press"], 2, "no selectors");
    desk.fails(&["source", "test", "nobody", "--title", "h1"], 1, "nobody");
    let test = ["source", "test", "press", "--title", ".none, h2.real"];
    let tried = desk.json(&test);
    assert_eq!(tried["pages"].as_array().unwrap().len(), 4, "also the page that was turned away");
    assert_eq!(tried["fields"]["title"]["changed"], 4, "{tried}");
    let told = desk.ok(&[&test[..], &["--pages", "1"]].concat());
    assert!(told.contains("changed") && told.contains("opens bridge"), "{told}");
    let page = feed.replace("feed.xml", "story/5");
    let told = desk.json(&["source", "test", &page, "--title", "h2.real"]);
    assert_eq!(told["pages"][0]["url"], page.as_str(), "a page that nobody read yet is asked for");
    let unchanged = desk.json(&["source", "show", "press"]);
    assert!(unchanged["source"]["selectors"].is_null(), "trying keeps nothing");
    desk.ok(&[&test[..], &["--save", "--yes"]].concat());
    let kept = desk.json(&["source", "show", "press"]);
    assert_eq!(kept["source"]["selectors"]["title"], ".none, h2.real");

    let replay = ["replay", "--kind", "article"];
    let found = desk.json(&[&replay[..], &["--dry-run"]].concat());
    let changes = &found["sources"][0]["changes"];
    assert_eq!(changes["fields"]["title"]["changed"], 3, "{found}");
    // One of the three that are kept would be turned away now; that the one that was turned away
    // before would be kept does not make up for it.
    write(60);
    let refused = desk.run(&[&replay[..], &["--yes"]].concat());
    assert_eq!(refused.code, 1, "{}", refused.stdout);
    assert!(refused.stderr.contains("would be lost of press (33.3 %)"), "{}", refused.stderr);
    assert_eq!(desk.json(&["article", "list"])["articles"].as_array().unwrap().len(), 3);
    let applied = desk.json(&[&replay[..], &["--yes", "--max-loss", "50%"]].concat());
    assert_eq!(applied["applied"], 3, "{applied}");
    let told = desk.ok(&["article", "list"]);
    assert!(told.contains("Town opens bridge 1") && told.contains("Bridge number 3"), "{told}");
    let again = desk.json(&[&replay[..], &["--yes"]].concat());
    assert_eq!(again["applied"], 0);
}
