//! Text of publishers on a terminal and in spreadsheets, and who may read what is written.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use feedmill::db::Connection;

use assert_cmd::Command;

use super::articles::{FIRST, desk};
use super::{Desk, reply};

const TITLE: &str = "=HYPERLINK(1) \u{202e}exe.cod \u{2066}x\u{2069} \u{200f}\u{61c} \u{200b}\u{2028}\u{e0041} \u{1b}[2J\u{9b}8m\u{7}";

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
    let hides =
        matches!(c, '\u{200b}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    turns || hides || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// What a command shows on a terminal, without colours.
fn on_terminal(desk: &Desk, args: &[&str]) -> String {
    let program = desk.command(&[]).get_program().to_string_lossy().into_owned();
    let args: String = args.iter().map(|arg| format!(" '{arg}'")).collect();
    let mut script = std::process::Command::new("script");
    script.args(["--quiet", "--return", "--flush", "/dev/null", "--command"]);
    script.arg(format!("{program}{args}")).current_dir(desk.path());
    let path = std::env::var_os("PATH").unwrap_or_default();
    script.env_clear().envs([("PATH", path), ("NO_COLOR", "1".into())]);
    let output = script.stdin(std::process::Stdio::null()).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n");
    assert!(output.status.success(), "{args}: {shown}");
    shown
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
        let reply = desk.run(args);
        assert_eq!(reply.code, 0, "{args:?}: {}", reply.stderr);
        let said = format!("{}{}", reply.stdout, reply.stderr);
        assert!(!said.contains(is_unsafe), "{args:?}: {said:?}");
        let shown = on_terminal(&desk, &[args, &["--json"]].concat());
        assert!(shown.starts_with('{') && !shown.contains(is_unsafe), "{args:?}: {shown:?}");
    }
    let shown = on_terminal(&desk, &["frontier", "list", "--ndjson"]);
    assert!(shown.starts_with('{') && !shown.contains(is_unsafe), "{shown:?}");
    for args in [&["article", "list"][..], &["article", "show", FIRST], &["events"]] {
        assert!(desk.ok(args).contains("\\u202eexe.cod"), "{args:?}");
        assert!(on_terminal(&desk, args).contains("\\u202eexe.cod"), "{args:?}");
    }
    // A program reads what was written, and so does somebody who looks at its JSON on a terminal.
    let args = ["article", "show", FIRST];
    let shown = on_terminal(&desk, &[&args[..], &["--json"]].concat());
    for value in [desk.json(&args), serde_json::from_str(&shown).unwrap()] {
        assert_eq!(
            value["title"].as_str().or_else(|| value["article"]["title"].as_str()),
            Some(TITLE)
        );
    }
}

#[test]
fn what_is_for_programs_is_exact_in_pipes_and_harmless_on_a_terminal() {
    let name = "\u{202b}שלום\u{202c} \u{200f}a\u{200b}b\u{feff}c \u{200c}d\u{e0041};=1+1";
    let category = "\u{202b}שלום\u{202c} a\u{200f}b";
    let list = serde_json::json!([{
        "name": name, "category": category, "tags": ["a", "=1+1", "\u{200f}b"],
        "url": "https://a.example/", "feed_url": "https://a.example/feed",
    }]);
    let desk = Desk::new();
    fs::write(desk.path().join("list.json"), list.to_string()).unwrap();
    desk.ok(&["source", "import", "list.json"]);
    let kept = desk.json(&["source", "export"]);
    assert_eq!(kept["sources"][0]["name"], name);
    for format in ["csv", "opml", "json"] {
        let export = ["source", "export", "--format", format];
        let exact = desk.ok(&export);
        assert!(exact.contains('\u{200f}') && !exact.contains("\\u"), "{format}: {exact}");
        let other = Desk::new();
        fs::write(other.path().join("again"), &exact).unwrap();
        other.ok(&["source", "import", "again", "--format", format]);
        assert_eq!(other.ok(&export), exact);
        let again = &other.json(&["source", "export"])["sources"][0];
        for field in ["name", "category", "tags"] {
            assert_eq!(again[field], kept["sources"][0][field], "{format}: {field}");
        }
        let shown = on_terminal(&desk, &export);
        assert!(shown.contains("\\u200f") && !shown.contains(is_unsafe), "{format}: {shown:?}");
    }
    let json = desk.ok(&["source", "list", "--json"]);
    assert!(json.contains('\u{200f}') && !json.contains("\\u200f"), "{json}");
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
fn what_a_question_is_about_is_shown_in_colours_where_there_are_any() {
    let desk = Desk::new();
    let config = "[fetch]\nallow_networks = [\"127.0.0.0/8\"]\n[hosts]\ndelay = \"1ms\"\n";
    fs::write(desk.path().join("feedmill.toml"), config).unwrap();
    let feed = format!("http://127.0.0.1:{}/feed.xml", super::selectors::publisher());
    let run = |args: &[&str], colors: bool| {
        let mut command = desk.command(args);
        super::reply(if colors { command.env("CLICOLOR_FORCE", "1") } else { &mut command })
    };
    let shown = |args: &[&str], head: &str| {
        let reply = run(args, true);
        let heads = reply.stderr.lines().filter(|line| line.starts_with("\u{1b}[1m"));
        let heads: Vec<_> = heads.filter(|line| line.contains(head)).collect();
        assert!(!heads.is_empty(), "{args:?}: {}", reply.stderr);
        assert!(!reply.stderr.contains("\\u001b"), "{args:?}: {}", reply.stderr);
    };
    shown(&["source", "add", &feed, "--name", "press", "--yes"], "newest");
    assert_eq!(run(&["once"], false).code, 0);
    let test = ["source", "test", "press", "--title", "h2.real", "--save", "--yes"];
    shown(&test, "field");
    shown(&["replay", "--kind", "article", "--yes", "--force"], "changed");
    let plain = run(&["source", "add", &feed, "--name", "other", "--yes"], false);
    assert!(
        plain.stderr.contains("\nkind  title") && !plain.stderr.contains('\u{1b}'),
        "{}",
        plain.stderr
    );
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

/// Other users may neither read what is made nor put files of theirs there, even where the umask allows all.
#[test]
fn what_is_made_is_its_owners_whatever_the_umask() {
    let desk = Desk::new();
    let program = assert_cmd::cargo::cargo_bin!("feedmill").display().to_string();
    fs::create_dir(desk.path().join("files")).unwrap();
    fs::write(desk.path().join("files/feed.xml"), "<rss version='2.0'><channel/></rss>").unwrap();
    fs::write(desk.path().join("files/page.html"), "<p>a page").unwrap();
    fs::write(desk.path().join("urls"), "http://127.0.0.1/\n").unwrap();
    let script = format!(
        "umask 000; set -e
         '{program}' init made --contact a@b.example
         '{program}' frontier import urls --rejects rejects || true
         '{program}' parse --quiet --batch files --out parsed
         '{program}' extract --quiet --batch files --out extracted
         '{program}' migrate up --data-dir migrated
         '{program}' --data-dir made backup kept.db
         '{program}' --data-dir restored restore kept.db
         '{program}' demo --seconds 1 --publishers 1 --json"
    );
    let mut command = Command::new("sh");
    command.current_dir(desk.path()).env_clear().env("TMPDIR", desk.path()).args(["-c", &script]);
    let reply = reply(&mut command);
    assert_eq!(reply.code, 0, "{}", reply.stderr);
    let of_demo = fs::read_dir(desk.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let of_demo: Vec<String> = of_demo
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with("feedmill-demo-"))
        .collect();
    assert_eq!(of_demo.len(), 1, "{of_demo:?}");
    let dirs = ["made", "migrated", "restored", &of_demo[0]];
    let files = ["feedmill.toml", "rejects", "parsed", "extracted", "kept.db"];
    for (name, expected) in
        dirs.map(|name| (name, 0o700)).into_iter().chain(files.map(|name| (name, 0o600)))
    {
        let mode = fs::metadata(desk.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, expected, "{name}: {mode:o}");
    }
}

/// In a directory in which others may write, a file of theirs can have the name of one that is under way.
#[test]
fn an_export_is_written_to_a_file_of_its_own() {
    let desk = hostile();
    for name in ["a.warc.gz", "a.csv", "a.ndjson", "a.sqlite", "a.parquet"] {
        let (partial, other) = (format!("{name}.partial"), format!("{name}.other"));
        let other = desk.path().join(other);
        fs::write(&other, "precious").unwrap();
        fs::set_permissions(&other, PermissionsExt::from_mode(0o666)).unwrap();
        fs::hard_link(&other, desk.path().join(partial)).unwrap();
        let command: &[&str] = if name == "a.warc.gz" { &["raw", "export"] } else { &["export"] };
        desk.ok(&[command, &["--out", name]].concat());
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious", "{name}");
        let made = fs::metadata(desk.path().join(name)).unwrap();
        assert_eq!((made.permissions().mode() & 0o777, made.nlink()), (0o600, 1), "{name}");
    }
}

#[test]
fn a_table_of_sources_has_no_formulas_and_is_imported_as_it_was() {
    let desk = Desk::new();
    let list = "name,url,feed_url,category\n'=cmd|' /C calc'!A0,https://a.example/,https://a.example/feed,\"-1+1, x\"\n\
        a;=1+1,https://b.example/,https://b.example/feed,x; @y\n";
    fs::write(desk.path().join("list.csv"), list).unwrap();
    desk.ok(&["source", "import", "list.csv"]);
    let table = desk.ok(&["source", "export", "--format", "csv"]);
    assert!(table.contains("\n'=cmd|' /C calc'!A0,") && table.contains("\"'-1+1, x\""), "{table}");
    assert!(table.contains("\na;'=1+1,") || table.contains("\n\"a;'=1+1\","), "{table}");
    assert!(table.contains(";' @y"), "{table}");
    let raw = desk.ok(&["source", "export", "--format", "csv", "--raw-cells"]);
    assert!(raw.contains("\n=cmd|' /C calc'!A0,"), "{raw}");
    let other = Desk::new();
    fs::write(other.path().join("again.csv"), &table).unwrap();
    other.ok(&["source", "import", "again.csv"]);
    assert_eq!(other.ok(&["source", "export", "--format", "csv"]), table);
    let name = other.json(&["source", "export"])["sources"][0]["name"].clone();
    assert_eq!(name, "=cmd|' /C calc'!A0");
}
