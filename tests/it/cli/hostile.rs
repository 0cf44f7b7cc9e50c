//! Text of publishers on a terminal and in spreadsheets, and who may read what is written.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use feedmill::db::Connection;

use super::Desk;
use super::articles::{FIRST, desk};

const TITLE: &str =
    "=HYPERLINK(1) \u{202e}exe.cod \u{2066}x\u{2069} \u{200f}\u{61c} \u{1b}[2J\u{9b}8m\u{7}";

/// A desk whose articles, log and tasks all have the title.
fn hostile() -> Desk {
    let desk = desk();
    let conn = Connection::open(desk.path().join("feedmill-data/feedmill.db")).unwrap();
    conn.execute(
        "UPDATE article SET body = json_set(body, '$.title', ?1, '$.site_name', ?1, '$.section', ?1,
           '$.authors', json_array(?1), '$.abstract', ?1), checksum = NULL",
        [TITLE],
    )
    .unwrap();
    let sql =
        "UPDATE event SET payload = json_set(payload, '$.title', ?1, '$.url', ?1), checksum = NULL";
    conn.execute(sql, [TITLE]).unwrap();
    conn.execute("UPDATE fetch_state SET reason = ?1", [TITLE]).unwrap();
    desk
}

fn is_unsafe(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && !matches!(c, '\n' | '\t'))
}

#[test]
fn no_command_lets_text_of_publishers_change_the_terminal() {
    let desk = hostile();
    for args in [
        &["article", "list"][..],
        &["article", "show", FIRST],
        &["article", "copies", FIRST],
        &["article", "revisions", FIRST],
        &["events"],
        &["frontier", "list"],
        &["explain", FIRST],
    ] {
        for json in [&[][..], &["--json"]] {
            let args = [args, json].concat();
            let reply = desk.run(&args);
            assert_eq!(reply.code, 0, "{args:?}: {}", reply.stderr);
            let said = format!("{}{}", reply.stdout, reply.stderr);
            assert!(!said.contains(is_unsafe), "{args:?}: {said:?}");
        }
    }
    for args in [&["article", "list"][..], &["article", "show", FIRST], &["events"]] {
        assert!(desk.ok(args).contains("\\u202eexe.cod"), "{args:?}");
    }
    // A program reads what was written.
    let shown = desk.json(&["article", "show", FIRST]);
    assert_eq!(shown["title"].as_str().or_else(|| shown["article"]["title"].as_str()), Some(TITLE));
}

#[test]
fn colours_are_shown_as_colours_and_text_of_publishers_has_none() {
    let desk = hostile();
    desk.ok(&["forget", FIRST, "--by", TITLE, "--why", TITLE, "--yes"]);
    let colored = |args: &[&str]| {
        let mut command = desk.command(args);
        super::reply(command.env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR"))
    };
    for args in [
        &["sink", "list"][..],
        &["sink", "show", "ndjson"],
        &["forget", "--list"],
        &["host", "list"],
        &["doctor"],
        &["article", "list"],
        &["events"],
        &["frontier", "list"],
    ] {
        let reply = colored(args);
        assert_eq!(reply.code, 0, "{args:?}: {}", reply.stderr);
        let said = reply.stdout;
        let ours = ["\u{1b}[38;5;9m", "\u{1b}[38;5;10m", "\u{1b}[38;5;11m", "\u{1b}[39m"];
        let words = ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[1m", "\u{1b}[0m"];
        let plain = [&ours[..], &words].concat().iter().fold(said.clone(), |s, c| s.replace(c, ""));
        assert!(args == ["events"] || said.contains('\u{1b}'), "{args:?}: {said:?}");
        assert!(!plain.contains(is_unsafe), "{args:?}: {said:?}");
        // Only what stands in the title is written out.
        let title = "\\u001b[2J\\u009b8m\\u0007";
        assert!(!plain.replace(title, "").contains("\\u001b"), "{args:?}: {said:?}");
        assert!(!desk.run(args).stdout.contains('\u{1b}'), "{args:?}");
    }
}

#[test]
fn cells_are_no_formulas_and_files_are_their_owners() {
    let desk = hostile();
    let read = |name: &str| fs::read_to_string(desk.path().join(name)).unwrap();
    let mode =
        |name: &str| fs::metadata(desk.path().join(name)).unwrap().permissions().mode() & 0o777;
    desk.ok(&["export", "--out", "safe.csv"]);
    desk.ok(&["export", "--out", "raw.csv", "--raw-cells", "--mode", "0644"]);
    assert!(read("safe.csv").contains(",'=HYPERLINK(1)") && !read("safe.csv").contains(",="));
    assert!(read("raw.csv").contains(",=HYPERLINK(1)"));
    assert_eq!((mode("safe.csv"), mode("raw.csv")), (0o600, 0o644));
    for name in ["a.ndjson", "a.parquet", "a.sqlite", "a.warc.gz"] {
        desk.ok(&["export", "--out", name]);
        assert_eq!(mode(name), 0o600, "{name}");
    }
    desk.ok(&["export", "--out", "b.sqlite", "--mode", "640"]);
    assert_eq!(mode("b.sqlite"), 0o640);
    desk.ok(&["raw", "export", "--out", "b.warc.gz", "--mode", "0644"]);
    assert_eq!(mode("b.warc.gz"), 0o644);
    let reply = desk.run(&["export", "--out", "c.csv", "--mode", "0777"]);
    assert!(reply.code == 2 && reply.stderr.contains("0600"), "{}", reply.stderr);
}

#[test]
fn a_table_of_sources_has_no_formulas_and_is_imported_as_it_was() {
    let desk = Desk::new();
    let list = "name,url,feed_url,category\n'=cmd|' /C calc'!A0,https://a.example/,https://a.example/feed,\"-1+1, x\"\n";
    fs::write(desk.path().join("list.csv"), list).unwrap();
    desk.ok(&["source", "import", "list.csv"]);
    let table = desk.ok(&["source", "export", "--format", "csv"]);
    assert!(table.contains("\n'=cmd|' /C calc'!A0,") && table.contains("\"'-1+1, x\""), "{table}");
    let raw = desk.ok(&["source", "export", "--format", "csv", "--raw-cells"]);
    assert!(raw.contains("\n=cmd|' /C calc'!A0,"), "{raw}");
    let other = Desk::new();
    fs::write(other.path().join("again.csv"), &table).unwrap();
    other.ok(&["source", "import", "again.csv"]);
    assert_eq!(other.ok(&["source", "export", "--format", "csv"]), table);
    let name = other.json(&["source", "export"])["sources"][0]["name"].clone();
    assert_eq!(name, "=cmd|' /C calc'!A0");
}
