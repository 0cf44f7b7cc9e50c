//! What an operator does to the queue and to hosts.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::{Desk, engine, reply_to, terminate};

#[test]
fn submissions_are_reported_honestly() {
    let desk = Desk::new();
    let submit = ["frontier", "submit"];
    let told =
        desk.ok(
            &[&submit[..], &["https://example.com/a", "https://example.com/a#b", "nope"]].concat()
        );
    assert!(told.starts_with("1 new, 1 known (0 raised), 1 rejected\n  nope: malformed"), "{told}");
    let raised = desk.json(&["frontier", "submit", "https://example.com/a", "--priority", "9"]);
    assert_eq!((&raised["known"], &raised["raised"]), (&1.into(), &1.into()));

    let reply = desk.run(&["frontier", "submit", "file:///x", "http://ann:pw@example.com/"]);
    assert_eq!(reply.code, 1);
    assert!(reply.stdout.contains("0 new, 0 known (0 raised), 2 rejected"), "{}", reply.stdout);
    assert!(!reply.stdout.contains("ann:pw"), "{}", reply.stdout);
    assert!(reply.stderr.contains("none of the addresses"), "{}", reply.stderr);

    // What can never be fetched is not in the queue, whatever is said about it.
    let private = ["http://127.0.0.1/a", "http://2130706433/", "https://example.com:22/"];
    let reply = desk.run(&[&submit[..], &private].concat());
    assert_eq!(
        (reply.code, reply.stdout.matches(": refused: ").count()),
        (1, 3),
        "{}",
        reply.stdout
    );
    let reply =
        desk.run(&[&submit[..], &["https://example.com/a", private[0], "nope", "--json"]].concat());
    let told: Value = serde_json::from_str(&reply.stdout).unwrap();
    let rejected = told["rejected"].as_array().unwrap();
    let codes: Vec<_> = rejected.iter().map(|one| one["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["refused_address", "url_malformed"], "in their order: {told}");
    let allowed = ["--set", "fetch.allow_networks=127.0.0.0/8"];
    let told = desk.ok(&[&submit[..], &private[..1], &allowed].concat());
    assert!(told.starts_with("1 new, 0 known"), "{told}");

    let lines: String = (0..2_500).map(|n| format!("https://example.com/{n}\n")).collect();
    let lines = format!("# many\n\n{lines}");
    let piped = reply_to(&desk, &["frontier", "submit", "-"], &lines);
    assert_eq!(piped.stdout, "2,500 new, 0 known (0 raised), 0 rejected\n");
    fs::write(desk.path().join("many.txt"), &lines).unwrap();
    let told = desk.ok(&["frontier", "submit", "--file", "many.txt"]);
    assert_eq!(told, "0 new, 2,500 known (0 raised), 0 rejected\n");
    desk.fails(&["frontier", "submit", "https://example.com/b", "--source", "nobody"], 1, "nobody");
}

#[test]
fn the_frontier_is_listed_page_by_page() {
    let desk = Desk::new();
    desk.ok(&["source", "add", "--no-check", "https://example.com/rss"]);
    desk.ok(&[
        "frontier",
        "submit",
        "https://a.example/1",
        "https://b.example/2",
        "https://a.example/3",
    ]);
    let mut seen = Vec::new();
    let mut after = Vec::new();
    loop {
        let mut args = vec!["frontier", "list", "--limit", "2"];
        args.extend(after.iter().map(String::as_str));
        let page = desk.json(&args);
        seen.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["url"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        assert!(desk.ok(&args).contains(&format!("--after {next}")));
        after = vec!["--after".to_owned(), next.to_owned()];
    }
    assert_eq!(
        seen,
        [
            "https://example.com/rss",
            "https://a.example/1",
            "https://b.example/2",
            "https://a.example/3"
        ]
    );
    let count = |args: &[&str]| {
        desk.json(&[&["frontier", "list"], args].concat())["tasks"].as_array().unwrap().len()
    };
    assert_eq!(count(&["--host", "a.example"]), 2);
    assert_eq!(count(&["--kind", "feed", "--origin", "manual"]), 1);
    assert_eq!(count(&["--source", "example.com"]), 1);
    assert_eq!(count(&["--status", "dead"]), 0);
    desk.fails(&["frontier", "list", "--source", "nobody"], 1, "nobody");
    let stats = desk.json(&["frontier", "stats"]);
    assert_eq!(stats["by_kind"]["article"]["pending"], 3);
    assert_eq!((&stats["hosts"], &stats["due"]), (&3.into(), &4.into()));
    assert_eq!(stats["by_source"][0]["name"], "example.com");
    assert_eq!(
        (&stats["by_host"][0]["name"], &stats["by_host"][0]["pending"]),
        (&"a.example".into(), &2.into())
    );
    assert_eq!(
        desk.json(&["frontier", "stats", "--top", "1"])["by_host"].as_array().unwrap().len(),
        1
    );
    assert!(desk.ok(&["frontier", "stats"]).contains("3 hosts, 4 due, next now"));
}

fn urls(text: &str) -> Vec<String> {
    let line =
        |line| serde_json::from_str::<Value>(line).unwrap()["url"].as_str().unwrap().to_owned();
    text.lines().map(line).collect()
}

#[test]
fn a_listing_is_sorted_searched_and_written_as_lines() {
    let desk = Desk::new();
    for (url, priority) in
        [("https://a.example/1", "3"), ("https://a.example/2", "9"), ("https://b.example/3", "6")]
    {
        desk.ok(&["frontier", "submit", url, "--priority", priority]);
    }
    let list = |args: &[&str]| desk.ok(&[&["frontier", "list"], args].concat());
    let sorted = urls(&list(&["--sort", "priority", "--desc", "--ndjson"]));
    assert_eq!(sorted, ["https://a.example/2", "https://b.example/3", "https://a.example/1"]);
    assert_eq!(urls(&list(&["--search", "B.EXAMPLE", "--ndjson"])), ["https://b.example/3"]);
    assert_eq!(urls(&list(&["--ndjson", "--limit", "2"])).len(), 2);
    assert_eq!(list(&["--search", "nothing", "--ndjson"]), "");
    let page = desk.json(&["frontier", "list", "--sort", "priority", "--limit", "1"]);
    assert_eq!(page["total"], 3);
    let next = page["next"].as_str().unwrap();
    let rest = desk.json(&["frontier", "list", "--after", next]);
    assert_eq!(rest["tasks"][0]["url"], "https://b.example/3", "the place knows its order");
    assert_eq!((&rest["next"], &rest["total"]), (&Value::Null, &Value::Null));
    assert!(list(&["--limit", "1"]).contains("1 of 3; there are more: say --after id.asc."));
    desk.fails(&["frontier", "list", "--after", next, "--sort", "due"], 2, "another order");
    desk.fails(&["frontier", "list", "--after", "x"], 2, "not a place in a list");
    desk.fails(&["frontier", "list", "--status", "gone"], 2, "pending, fetching, fetched");
    desk.fails(&["frontier", "list", "--host", "c.example"], 2, "no host is called `c.example`");
}

#[test]
fn addresses_are_forgotten_by_name_filter_and_age() {
    let desk = Desk::new();
    let submit = [
        "https://a.example/1",
        "https://a.example/2",
        "https://b.example/3",
        "https://b.example/4",
    ];
    desk.ok(&[&["frontier", "submit"], &submit[..]].concat());
    for command in ["delete", "retry"] {
        desk.fails(&["frontier", command], 2, "nothing is selected");
        desk.fails(&["frontier", command, "https://c.example/"], 2, "is not in the frontier");
        desk.fails(&["frontier", command, "c"], 2, "neither an id nor an address");
        desk.fails(&["frontier", command, "--host", "c.example"], 2, "no host is called");
    }
    desk.fails(&["frontier", "purge", "--older-than", "soon"], 2, "not a time span");
    desk.fails(&["frontier", "purge"], 2, "--older-than");

    let told = desk.ok(&["frontier", "delete", "--host", "B.example", "--dry-run"]);
    assert_eq!(told, "2 addresses would be forgotten\n");
    let gone = desk.json(&["frontier", "delete", "http://a.example/1#top"]);
    assert_eq!((&gone["deleted"], &gone["spared"]), (&1.into(), &0.into()));
    let tasks = desk.json(&["frontier", "list", "--host", "https://b.example/"]);
    let id = tasks["tasks"][0]["id"].as_str().unwrap();
    assert_eq!(desk.ok(&["frontier", "delete", id]), "1 address is forgotten\n");
    assert_eq!(
        desk.ok(&["frontier", "purge", "--older-than", "0s"]),
        "0 addresses are forgotten\n"
    );
    let waiting = ["frontier", "purge", "--older-than", "0s", "--status", "pending,failed"];
    assert_eq!(
        desk.ok(&[&waiting[..], &["--host", "b.example"]].concat()),
        "1 address is forgotten\n"
    );
    assert_eq!(desk.json(&["frontier", "list"])["total"], 1);
    assert_eq!(desk.ok(&["frontier", "retry", "--all"]), "0 addresses are asked for again\n");
    assert_eq!(
        desk.ok(&["frontier", "retry", "https://a.example/2"]),
        "1 address is asked for again\n"
    );
    desk.ok(&["source", "add", "--no-check", "https://example.com/rss"]);
    assert_eq!(
        desk.ok(&["frontier", "delete", "--all"]),
        "1 address is forgotten, 1 left alone (under way, or channels of a source)\n"
    );
}

#[test]
fn an_import_tells_which_lines_are_wrong() {
    let desk = Desk::new();
    let mut lines = String::from("# backlog\n\nhttps://a.example/1\nnope\n");
    lines.extend((0..30).map(|n| format!("ftp://a.example/{n}\n")));
    lines.push_str("https://a.example/1\r\n");
    fs::write(desk.path().join("in.txt"), &lines).unwrap();
    let told = desk.ok(&["frontier", "import", "in.txt", "--rejects", "bad.tsv"]);
    assert!(told.starts_with("1 new, 1 known (0 raised), 31 rejected\n  line 4: nope: "), "{told}");
    assert!(
        told.contains("\n  line 23: ftp://a.example/18") && told.contains("and 11 more"),
        "{told}"
    );
    let bad = fs::read_to_string(desk.path().join("bad.tsv")).unwrap();
    let rows: Vec<Vec<&str>> = bad.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 31);
    assert_eq!((rows[0][0], rows[0][1], rows[0][3]), ("4", "url_malformed", "nope"));
    assert_eq!((rows[30][0], rows[30][1], rows[30][3]), ("34", "url_scheme", "ftp://a.example/29"));

    // The file is for programs: an address is what it was.
    fs::write(desk.path().join("strange.txt"), "ftp://a.example/\u{200f}\u{9b}\u{2028}x\n")
        .unwrap();
    desk.run(&["frontier", "import", "strange.txt", "--rejects", "bad.tsv"]);
    let bad = fs::read_to_string(desk.path().join("bad.tsv")).unwrap();
    assert!(bad.ends_with("\tftp://a.example/\u{200f}\u{9b}\u{2028}x\n"), "{bad:?}");

    let endless = format!("https://a.example/2\n{}\nhttps://a.example/1\n", "x".repeat(200_000));
    let told = reply_to(&desk, &["frontier", "import", "-"], &endless).stdout;
    assert!(told.starts_with("1 new, 1 known (0 raised), 1 rejected\n  line 2: xxx"), "{told}");
    assert!(told.len() < 500, "{}", told.len());

    let again = reply_to(&desk, &["frontier", "import", "-", "--json"], &lines);
    let report: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(
        (&report["new"], &report["known"], &report["rejected_total"]),
        (&0.into(), &2.into(), &31.into())
    );
    assert_eq!(report["rejected"].as_array().unwrap().len(), 20);
    assert_eq!(report["rejected"][0]["line"], 4);
    desk.fails(&["frontier", "import", "none.txt"], 2, "cannot read none.txt");
    desk.fails(&["frontier", "import", "in.txt", "--rejects", "no/dir"], 2, "cannot write no/dir");
}

#[test]
fn a_host_is_looked_at_slowed_down_and_blocked() {
    let desk = Desk::new();
    desk.ok(&["frontier", "submit", "https://a.example/1", "https://b.example/2"]);
    let shown = desk.json(&["host", "show", "https://A.example/whatever"]);
    assert_eq!((&shown["name"], &shown["pause_from"]), (&"a.example".into(), &"default".into()));
    assert_eq!(shown["queued"]["page"], 1);
    let told = desk.ok(&["host", "slow", "a.example", "--delay", "10s"]);
    assert_eq!(told, "a.example gets 1 request at a time, with pauses of 10s (operator)\n");
    let told = desk.ok(&["host", "concurrency", "a.example", "3"]);
    assert!(told.starts_with("a.example gets 3 requests at a time"), "{told}");
    assert_eq!(
        desk.ok(&["host", "block", "a.example"]),
        "a.example is blocked until it is unblocked\n"
    );
    assert!(desk.ok(&["host", "block", "b.example", "--for", "2h"]).contains("(in 2h)"));
    assert_eq!(desk.json(&["host", "list", "--blocked"])["hosts"].as_array().unwrap().len(), 2);
    let text = desk.ok(&["host", "show", "a.example"]);
    assert!(text.contains("blocked until it is unblocked") && text.contains("0 of 3"), "{text}");
    assert!(desk.ok(&["host", "unblock", "a.example"]).contains("gets 3 requests"));
    let page = desk.ok(&["host", "list", "--limit", "1"]);
    assert!(page.contains("a.example") && page.contains("--after a.example"), "{page}");
    assert!(desk.ok(&["host", "list", "--after", "a.example"]).contains("b.example"));
    desk.ok(&["host", "slow", "a.example", "--delay", "0"]);
    assert_eq!(desk.json(&["host", "show", "a.example"])["pause_from"], "default");

    desk.fails(&["host", "show", "c.example"], 2, "no host is called `c.example`");
    desk.fails(&["host", "block", "no host"], 2, "no host is called `no host`");
    desk.fails(&["host", "unblock", "c.example"], 2, "no host is called `c.example`");
    assert!(desk.ok(&["host", "block", "https://c.example/x"]).contains("c.example is blocked"));
    desk.fails(&["host", "slow", "a.example", "--delay", "fast"], 2, "not a time span");
    desk.fails(&["host", "block", "a.example", "--for", "soon"], 2, "not a time span");
    desk.fails(
        &["host", "block", "a.example", "--until", "2001-01-01T00:00:00Z"],
        2,
        "in the future",
    );
    desk.fails(&["host", "concurrency", "a.example", "0"], 2, "1..=1000");
}

/// An engine that runs notices what another process changes.
#[test]
fn a_running_engine_hears_that_a_host_is_unblocked() {
    let desk = Desk::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/story", server.local_addr().unwrap());
    let allowed = ["--set", "fetch.allow_networks=127.0.0.0/8"];
    desk.ok(&[&["frontier", "submit", &address][..], &allowed].concat());
    desk.ok(&["host", "block", &address]);
    let mut child = engine(&desk, &allowed);
    while !feedmill::db::EngineLock::is_held(&desk.path().join("feedmill-data/feedmill.db")) {
        std::thread::yield_now();
    }
    server.set_nonblocking(true).unwrap();
    assert!(server.accept().is_err(), "a blocked host is not asked");
    server.set_nonblocking(false).unwrap();
    desk.ok(&["host", "unblock", &address]);
    let asked = server.accept().unwrap();
    let spared = desk.json(&["frontier", "delete", "--all"]);
    assert_eq!(spared["spared"], 1, "what is under way stays");
    drop((asked, server));
    terminate(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A publisher who answers every request alike, whatever it is for.
fn publisher(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    host
}

const LOCAL: [&str; 2] = ["--set", "fetch.allow_networks=127.0.0.0/8"];

#[test]
fn a_channel_that_is_disabled_is_told_shown_and_taken_up_again() {
    let desk = Desk::new();
    let host =
        publisher("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let url = format!("http://{host}/feed");
    desk.ok(&[&["source", "add", "--no-check", &url, "--name", "lost"], &LOCAL[..]].concat());
    let once = || desk.run(&[&["once", "--lanes", "poll"], &LOCAL[..]].concat());
    let mut told = String::new();
    for poll in 0..3 {
        if poll > 0 {
            desk.ok(&["frontier", "retry", &url]);
        }
        told = once().stderr;
    }
    assert!(told.contains("ERROR") && told.contains("a channel is disabled"), "{told}");
    assert!(told.contains("lost") && told.contains("not_found"), "{told}");

    let list = desk.ok(&["source", "list"]);
    assert!(
        list.contains("enabled, 1 of 1 channel disabled") && list.contains("failing"),
        "{list}"
    );
    assert_eq!(desk.json(&["source", "list"])["sources"][0]["disabled_channels"], 1);
    let show = desk.ok(&["source", "show", "lost"]);
    assert!(show.contains("disabled ") && show.contains(": not_found"), "{show}");
    assert!(show.contains("only probed") && show.contains("`feedmill source enable`"), "{show}");
    let explained = desk.ok(&["explain", "lost"]);
    assert!(
        explained.contains("failing, since ") && explained.contains("next poll   in 2d"),
        "{explained}"
    );

    let events = desk.json(&["events", "--kind", "source.disabled", "--since", "1h"]);
    let event = &events["events"][0];
    assert_eq!(
        (&event["payload"]["url"], &event["payload"]["code"]),
        (&Value::from(url.as_str()), &"not_found".into())
    );
    assert_eq!(events["next"], event["seq"]);
    let text = desk.ok(&["events"]);
    assert!(text.contains("source.health") && text.contains("; failing; not_found: "), "{text}");
    let after = event["seq"].to_string();
    assert_eq!(desk.ok(&["events", "--after", &after, "--kind", "source.disabled"]), "no events\n");
    desk.fails(&["events", "--kind", "source.gone"], 2, "source.disabled");

    let day = fs::read_dir(desk.path().join("feedmill-data/out/events")).unwrap().next().unwrap();
    let lines = fs::read_to_string(day.unwrap().path()).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = lines.iter().find(|line| line["event"]["kind"] == "source.disabled").unwrap();
    assert_eq!((&line["url"], &line["event"]["seq"]), (&event["payload"]["url"], &event["seq"]));

    desk.ok(&["source", "enable", "lost"]);
    let explained = desk.ok(&["explain", "lost"]);
    assert!(explained.contains("state       polled"), "{explained}");
    assert!(explained.contains("next poll   now"), "{explained}");
    assert_eq!(
        desk.json(&["events", "--kind", "source.enabled"])["events"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn explain_tells_what_a_host_waits_for() {
    let desk = Desk::new();
    let host = publisher(
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7777\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    let url = |path: &str| format!("http://{host}/{path}");
    desk.ok(&[
        &["source", "add", "--no-check", &url("a"), &url("b"), "--name", "busy"],
        &LOCAL[..],
    ]
    .concat());
    desk.run(&[&["once", "--lanes", "poll"], &LOCAL[..]].concat());
    let explained = desk.ok(&["explain", "busy"]);
    let waits = explained.lines().filter(|line| line.starts_with("host "));
    let waits: Vec<_> = waits.collect();
    assert_eq!(waits.len(), 2, "both of its feeds wait: {explained}");
    for line in waits {
        assert!(
            line.contains("127.0.0.1 waits until ") && line.contains("asked to come back at"),
            "{line}"
        );
    }
    assert!(desk.ok(&["explain", &url("b")]).contains("127.0.0.1 waits until "));
    let of_host = desk.ok(&["explain", "127.0.0.1"]);
    assert!(of_host.contains("waits       127.0.0.1 waits until "), "{of_host}");
    assert!(of_host.contains(&url("a")) && of_host.contains(&url("b")), "{of_host}");
    let json = desk.json(&["explain", "127.0.0.1"]);
    assert!(json["waits"]["why"].as_str().unwrap().contains("rate_limited"), "{json}");
    desk.fails(&["explain", "nobody"], 2, "no source, no known host and no address");
}

/// A source that cannot be read is in no group: that it is there is said all the same.
#[test]
fn the_status_of_sources_counts_those_that_are_damaged() {
    let desk = Desk::new();
    for name in ["a", "b"] {
        desk.ok(&["source", "add", "--no-check", &format!("https://{name}.example/feed")]);
    }
    assert_eq!(desk.json(&["source", "status"])["damaged"], 0);
    let conn = rusqlite::Connection::open(desk.path().join("feedmill-data/feedmill.db")).unwrap();
    let sql = "UPDATE source SET spec = '{' WHERE id = (SELECT min(id) FROM source)";
    assert_eq!(conn.execute(sql, []).unwrap(), 1);
    let status = desk.json(&["source", "status"]);
    assert_eq!((&status["sources"], &status["damaged"]), (&1.into(), &1.into()), "{status}");
    assert!(desk.ok(&["source", "status"]).contains("1 damaged source left out"));
}

/// An item without a guid is known by its page. Read again, it is the entry that it was, in its last form.
#[test]
fn a_damaged_entry_without_a_guid_is_restored_in_its_last_form() {
    let desk = Desk::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (title, page) = (Arc::new(Mutex::new("First words")), format!("http://{host}/a"));
    let served = Arc::clone(&title);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut asked) = (stream.unwrap(), [0; 4096]);
            let length = stream.read(&mut asked).unwrap();
            let is_feed = asked[..length].starts_with(b"GET /feed ");
            let (status, body) = match is_feed {
                true => (
                    "200 OK",
                    format!(
                        "<rss version='2.0'><channel><title>P</title><item><title>{}</title><link>{page}</link>\
                     <pubDate>Mon, 02 Nov 2026 10:00:00 GMT</pubDate></item></channel></rss>",
                        served.lock().unwrap()
                    ),
                ),
                false => ("404 Not Found", String::new()),
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/rss+xml\r\n");
            let length = body.len();
            let answer =
                format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let url = format!("http://{host}/feed");
    let local = |args: &[&str]| desk.ok(&[args, &LOCAL[..]].concat());
    local(&["source", "add", "--no-check", &url, "--name", "p"]);
    local(&["once"]);
    *title.lock().unwrap() = "Last words";
    local(&["frontier", "retry", &url]);
    local(&["once"]);
    let conn = rusqlite::Connection::open(desk.path().join("feedmill-data/feedmill.db")).unwrap();
    let entries = || {
        let mut select = conn.prepare("SELECT hex(id), body FROM entry ORDER BY row").unwrap();
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.collect::<Result<Vec<(String, String)>, _>>().unwrap()
    };
    let before = entries();
    assert!(before.len() == 1 && before[0].1.contains("Last words"), "{before:?}");
    for damage in ["body = 'x'", "body = 'x', link_hash = x'01'", "content_hash = x'01'"] {
        conn.execute(&format!("UPDATE entry SET {damage}"), []).unwrap();
        local(&["replay", "--yes"]);
        assert_eq!(entries(), before, "{damage}");
    }
}
