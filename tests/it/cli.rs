//! The command line as people and scripts meet it.

mod access;
mod add;
mod admin;
mod articles;
mod hostile;
mod reading;
mod selectors;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};

use assert_cmd::Command;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kill::ANYWHERE;
use crate::process::Process;

/// A directory to work in, and the binary in it with an environment of its own.
struct Desk(TempDir);

struct Reply {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = assert_cmd::cargo::cargo_bin_cmd!("feedmill");
        command.current_dir(self.path()).env_clear().args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Reply {
        reply(&mut self.command(args))
    }

    /// Runs what must succeed.
    fn ok(&self, args: &[&str]) -> String {
        let reply = self.run(args);
        assert_eq!(reply.code, 0, "{args:?}: {}", reply.stderr);
        reply.stdout
    }

    fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }

    /// Runs what must fail, with one sentence that has these words.
    fn fails(&self, args: &[&str], code: i32, words: &str) -> String {
        let reply = self.run(args);
        assert_eq!(reply.code, code, "{args:?}: {}{}", reply.stdout, reply.stderr);
        assert_eq!(reply.stderr.lines().count(), 1, "{args:?}: {}", reply.stderr);
        assert!(reply.stderr.starts_with("error: "), "{args:?}: {}", reply.stderr);
        assert!(reply.stderr.contains(words), "{args:?}: {}", reply.stderr);
        reply.stderr
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.path()).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn reply(command: &mut Command) -> Reply {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Reply { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn reply_to(desk: &Desk, args: &[&str], stdin: &str) -> Reply {
    reply(desk.command(args).write_stdin(stdin))
}

#[test]
fn help_names_every_command() {
    let desk = Desk::new();
    let help = desk.ok(&["--help"]);
    for command in [
        "init",
        "run",
        "once",
        "demo",
        "source",
        "frontier",
        "host",
        "article",
        "events",
        "migrate",
        "backup",
        "restore",
        "move",
        "config",
        "doctor",
        "disk",
        "completions",
        "Quick start:",
    ] {
        assert!(help.contains(command), "{command}");
    }
    assert!(!help.contains("--clock"), "the test clock is hidden");
    assert!(desk.ok(&["source", "add", "--help"]).contains("Examples:"));
    assert!(desk.ok(&["--version"]).starts_with("feedmill "));
    assert_eq!(desk.run(&[]).code, 2);
}

#[test]
fn bad_input_gives_one_sentence_and_leaves_nothing_behind() {
    let desk = Desk::new();
    let add = |url| ["source", "add", "--no-check", url];
    desk.fails(&["disk", "--bogus"], 2, "unexpected argument '--bogus'");
    desk.fails(&["sourc"], 2, "unrecognized subcommand");
    desk.fails(&["source", "add"], 2, "<URL>");
    desk.fails(&["run", "--lanes", "fast"], 2, "one of poll, page, media");
    desk.fails(&["source", "list", "--set", "workers"], 2, "KEY=VALUE");
    desk.fails(&["source", "list", "--set", "fetch.worker=3"], 2, "did you mean `fetch.workers`?");
    desk.fails(&["source", "list", "--set", "fetch.workers=0"], 2, "choose 1 to 1000");
    desk.fails(&["source", "list", "--config", "none.toml"], 2, "cannot read none.toml");
    desk.fails(&["config", "check", "none.toml"], 2, "cannot read none.toml");
    desk.fails(&["source", "list", "--clock", "fast"], 2, "not a clock");
    desk.fails(&add("file:///etc/passwd"), 2, "give an http or https address");
    desk.fails(&add("example.com/feed"), 2, "https:// in front");
    let told = desk.fails(&add("https://ann:hunter2@example.com/"), 2, "without them");
    assert!(!told.contains("hunter2"), "{told}");
    desk.fails(&add("http://127.0.0.1/feed"), 2, "not a public address");
    desk.fails(&["source", "add", "https://example.com/f", "--priority", "11"], 2, "1 to 10");
    desk.fails(&["source", "add", "https://example.com/f", "--interval", "soon"], 2, "time span");
    desk.fails(&["frontier", "list", "--status", "lost"], 2, "one of pending, fetching");
    desk.fails(&["frontier", "list", "--after", "7"], 2, "not a place in a list");
    desk.fails(&["frontier", "delete"], 2, "nothing is selected");
    desk.fails(&["frontier", "submit", "--file", "none.txt"], 2, "cannot read none.txt");
    desk.fails(&["article", "list", "--since", "monday"], 2, "such as 2h");
    desk.fails(&["migrate", "down", "--yes"], 1, "cannot open the database");
    assert_eq!(desk.files(), Vec::<String>::new());
}

#[test]
fn a_broken_file_is_told_with_its_place() {
    let desk = Desk::new();
    fs::write(desk.path().join("feedmill.toml"), "[fetch]\nworkers = = 3\n").unwrap();
    desk.fails(&["source", "list"], 2, "feedmill.toml line 2");
    fs::write(desk.path().join("feedmill.toml"), "[fetch]\nworker = 3\n").unwrap();
    desk.fails(&["source", "list"], 2, "did you mean `fetch.workers`?");
    desk.fails(&["config", "check"], 2, "line 2");
    fs::write(desk.path().join("feedmill.toml"), "nope = 1\n[fetch]\nworkers = 0.5\n").unwrap();
    let reply = desk.run(&["config", "check"]);
    assert_eq!(reply.code, 2);
    assert_eq!(reply.stderr.matches("error: ").count(), 2, "{}", reply.stderr);
    assert_eq!(desk.files(), ["feedmill.toml"]);
}

#[test]
fn a_data_directory_that_cannot_be_made_is_named() {
    let desk = Desk::new();
    fs::write(desk.path().join("file"), "").unwrap();
    for command in [&["source", "list"][..], &["init"], &["run"], &["once"], &["migrate", "up"]] {
        let args = [command, &["--data-dir", "file/below", "--quiet"]].concat();
        desk.fails(&args, 1, "file/below");
    }
    let reply = desk.run(&["doctor", "--data-dir", "file/below"]);
    assert_eq!(reply.code, 1);
    assert!(reply.stdout.contains("fail  data directory"), "{}", reply.stdout);
    assert_eq!(desk.files(), ["file"]);
}

#[test]
fn errors_are_json_on_request() {
    let desk = Desk::new();
    desk.ok(&["migrate", "up"]);
    for (args, code) in [
        (&["source", "show", "nobody"][..], "unknown_source"),
        (&["source", "add", "ftp://example.com/"], "url_scheme"),
        (&["disk", "--bogus"], "usage"),
        (&["disk", "--set", "nope=1"], "config_invalid"),
    ] {
        let reply = desk.run(&[args, &["--json"]].concat());
        let line = reply.stderr.lines().last().unwrap();
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["error"]["code"], code, "{line}");
        assert_eq!(reply.stderr.lines().count(), 1, "{}", reply.stderr);
        assert!(reply.stdout.is_empty());
    }
}

#[test]
fn a_source_is_added_changed_and_forgotten() {
    let desk = Desk::new();
    desk.fails(&["source", "list"], 1, "there is no database");
    assert!(!desk.path().join("feedmill-data").exists(), "looking makes nothing");
    desk.ok(&["migrate", "up"]);
    assert!(desk.ok(&["source", "list"]).contains("feedmill source add"));
    let told = desk.ok(&[
        "source",
        "add",
        "--no-check",
        "https://example.com/rss",
        "https://example.com/news-sitemap.xml",
        "--category",
        "world",
        "--priority",
        "8",
        "--rate-limit",
        "2s",
        "--interval",
        "30m",
    ]);
    assert_eq!(told, "example.com is followed: 1 feed, 1 sitemap\n");
    desk.fails(&["source", "add", "--no-check", "https://example.com/other"], 1, "exists already");
    desk.ok(&[
        "source",
        "add",
        "--no-check",
        "https://example.com/other",
        "--name",
        "other",
        "--sitemap",
    ]);
    let table = desk.ok(&["source", "list"]);
    let lines: Vec<_> =
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(lines[0], ["name", "state", "health", "mode", "channels", "category", "priority"]);
    assert_eq!(lines[1][..3], ["example.com", "enabled", "feed"]);
    assert_eq!(lines.len(), 3);

    let shown = desk.json(&["source", "show", "example.com"]);
    assert_eq!(shown["source"]["category"], "world");
    assert_eq!(shown["channels"][1]["kind"], "sitemap");
    let text = desk.ok(&["source", "show", "example.com"]);
    assert!(text.contains("interval    30m") && text.contains("rate limit  2s"), "{text}");
    let pace = |flags: &[&'static str]| [&["source", "pace", "example.com"], flags].concat();
    assert!(desk.ok(&pace(&["--interval", "2h"])).contains("is polled every 2h"));
    assert!(desk.ok(&pace(&["--policy", "ewma"])).contains("is polled by ewma"));
    let text = desk.ok(&["source", "show", "example.com"]);
    assert!(text.contains("policy      ewma") && !text.contains("interval"), "{text}");
    assert!(desk.ok(&pace(&["--default"])).contains("as schedule.policy says"));
    assert!(desk.ok(&pace(&[])).contains("No 429 response has slowed it down"));
    assert!(desk.json(&pace(&[]))["channels"][0]["learned_interval_ms"].is_null());
    assert!(desk.ok(&pace(&["--forget"])).contains("learned interval of 0 channels"));
    desk.fails(&pace(&["--forget", "--interval", "2h"]), 2, "cannot be used with");
    desk.fails(&pace(&["--interval", "0s"]), 2, "interval");
    desk.fails(&pace(&["--interval", "10m", "--policy", "ewma"]), 2, "leave out the policy");
    let told = desk.ok(&pace(&["--min-interval", "1m", "--max-interval", "2h"]));
    assert!(told.contains("at least 1m apart, at most 2h apart"), "{told}");
    let text = desk.ok(&["source", "show", "example.com"]);
    assert!(text.contains("at least    1m") && text.contains("at most     2h"), "{text}");
    desk.ok(&pace(&["--default"]));

    let set = |flags: &[&'static str]| [&["source", "set", "example.com"], flags].concat();
    desk.fails(&set(&[]), 2, "nothing is to be changed");
    desk.fails(&set(&["--priority", "11"]), 2, "choose 1 to 10");
    desk.fails(&set(&["--article-url-pattern", "(news"]), 2, "the pattern `(news`");
    desk.fails(&set(&["--drop", "https://example.com/other"]), 2, "no channel of this source");
    desk.fails(&set(&["--clear", "cron"]), 2, "there is no field `cron`");
    desk.fails(&set(&["--add", "http://10.0.0.1/feed"]), 2, "not a public address");
    desk.fails(&set(&["--name", "other"]), 1, "exists already");
    let told = desk.ok(&set(&[
        "--url",
        "https://example.com/home",
        "--tag",
        "europe",
        "--tag",
        "sport",
        "--discover",
        "no",
        "--mode",
        "both",
        "--max-depth",
        "-1",
        "--article-url-pattern",
        "/news/",
        "--body",
        ".text",
        "--add",
        "https://example.com/atom.xml",
        "--drop",
        "https://example.com/news-sitemap.xml",
        "--clear",
        "rate_limit",
        "--category",
        "",
    ]));
    assert_eq!(told, "example.com is changed\n");
    let shown = desk.json(&["source", "show", "example.com"]);
    let source = &shown["source"];
    assert_eq!(source["feed_urls"][1], "https://example.com/atom.xml");
    assert_eq!(source["sitemap_urls"].as_array().unwrap().len(), 0);
    assert_eq!((&source["category"], &source["rate_limit_ms"]), (&Value::Null, &Value::Null));
    assert_eq!(shown["channels"].as_array().unwrap().len(), 3, "two feeds and the home page");
    let text = desk.ok(&["source", "show", "example.com"]);
    for words in ["tags        europe, sport", "discovery   off", "depth       without end"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    desk.ok(&set(&["--clear", "tags", "--clear", "selectors", "--priority", ""]));
    let shown = desk.json(&["source", "show", "example.com"]);
    assert_eq!((&shown["source"]["tags"], &shown["source"]["priority"]), (&Value::Null, &json!(5)));

    desk.ok(&["source", "disable", "example.com", "--reason", "they asked"]);
    let shown = desk.ok(&["source", "show", "example.com"]);
    assert!(shown.contains("disabled (they asked) since 20"), "{shown}");
    desk.ok(&["source", "enable", "example.com"]);
    assert_eq!(
        desk.json(&["source", "show", "example.com"])["source"]["disable_reason"],
        Value::Null
    );

    desk.fails(&["source", "remove", "example.com"], 2, "--yes");
    desk.fails(&["source", "remove", "nobody", "--yes"], 1, "feedmill source list");
    desk.ok(&["source", "remove", "example.com", "--yes"]);
    desk.fails(&["source", "enable", "example.com"], 1, "no source is called `example.com`");
    assert_eq!(desk.json(&["source", "list"])["sources"].as_array().unwrap().len(), 1);
    assert_eq!(desk.ok(&["source", "remove", "other", "--yes", "--quiet"]), "");
}

#[test]
fn every_listing_is_json_on_request() {
    let desk = Desk::new();
    desk.ok(&["migrate", "up"]);
    for args in [
        &["source", "list"][..],
        &["frontier", "stats"],
        &["frontier", "list"],
        &["frontier", "retry", "--all"],
        &["frontier", "delete", "--all", "--dry-run"],
        &["frontier", "purge", "--older-than", "90d"],
        &["host", "list"],
        &["article", "list"],
        &["article", "list", "--since", "2h"],
        &["migrate", "status"],
        &["migrate", "up"],
        &["config", "show"],
        &["config", "reference"],
        &["config", "check"],
        &["doctor"],
        &["disk"],
        &["completions", "zsh"],
        &["once"],
        &["init"],
    ] {
        assert!(desk.json(args).is_object(), "{args:?}");
    }
}

#[test]
fn articles_that_are_not_there_are_said_to_be_missing() {
    let desk = Desk::new();
    desk.ok(&["migrate", "up"]);
    assert_eq!(desk.ok(&["article", "list"]), "no articles\n");
    desk.fails(&["article", "list", "--source", "nobody"], 1, "nobody");
    desk.fails(&["article", "show", "https://example.com/a"], 1, "no article is kept");
    desk.fails(&["article", "show", &"0f".repeat(32)], 1, "no article is kept");
    desk.fails(&["article", "show", "0f0f"], 2, "neither an id of 64 hex digits nor an address");
}

#[test]
fn the_schema_goes_up_and_down() {
    let desk = Desk::new();
    let applied = |desk: &Desk| {
        let steps = desk.json(&["migrate", "status"])["steps"].clone();
        steps.as_array().unwrap().iter().filter(|step| step["applied"] == true).count()
    };
    assert_eq!(applied(&desk), 0);
    assert_eq!(desk.files(), Vec::<String>::new(), "looking makes nothing");
    assert!(desk.ok(&["migrate", "up"]).starts_with("took 0001_foundation"));
    assert_eq!(desk.ok(&["migrate", "up"]), "the schema is current\n");
    let all = applied(&desk);
    assert!(all >= 1);
    desk.fails(&["migrate", "down"], 2, "--yes");
    assert_eq!(applied(&desk), all);

    let engine =
        feedmill::db::EngineLock::take(&desk.path().join("feedmill-data/feedmill.db.lock"))
            .unwrap();
    desk.fails(&["migrate", "down", "--yes"], 1, "stop it first");
    assert!(desk.ok(&["doctor"]).contains("engine           runs"));
    drop(engine);
    desk.ok(&["migrate", "down", "--yes"]);
    assert_eq!(applied(&desk), all - 1);
}

#[test]
fn configuration_is_shown_checked_and_explained() {
    let desk = Desk::new();
    let example = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/feedmill.example.toml"));
    assert_eq!(desk.ok(&["config", "reference"]), example.unwrap());
    let shown = desk.ok(&["config", "show", "--set", "fetch.workers=7"]);
    assert!(shown.contains("workers = 7 # from the command line"), "{shown}");
    assert!(desk.ok(&["config", "check"]).contains("the defaults are in effect"));
    fs::write(desk.path().join("other.toml"), "[fetch]\nworkers = 7\n").unwrap();
    assert_eq!(desk.ok(&["config", "check", "other.toml"]), "other.toml is fine\n");
    let shown = desk.json(&["config", "show", "--config", "other.toml"]);
    assert_eq!(shown["config"]["fetch"]["workers"], 7);
}

#[test]
fn init_makes_a_place_to_work_in_once() {
    let desk = Desk::new();
    let told = desk.ok(&["init", "--contact", "https://example.org/bot"]);
    assert!(told.contains("feedmill source add") && !told.contains("set contact"), "{told}");
    assert_eq!(desk.files(), ["feedmill-data", "feedmill.toml"]);
    let file = desk.path().join("feedmill.toml");
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("\ncontact = \"https://example.org/bot\"\n"), "{written}");
    assert!(desk.ok(&["doctor"]).contains("(+https://example.org/bot)"));

    let again = desk.run(&["init", "--contact", "https://example.org/other"]);
    assert_eq!(again.code, 0);
    assert!(again.stderr.contains("kept as it is"), "{}", again.stderr);
    assert!(again.stdout.contains("exists already and is kept"), "{}", again.stdout);
    assert_eq!(fs::read_to_string(&file).unwrap(), written);

    let desk = Desk::new();
    desk.fails(&["init", "--contact", "größe"], 2, "plain ASCII");
    assert_eq!(desk.files(), Vec::<String>::new());
    assert!(desk.ok(&["init", "elsewhere"]).contains("set contact"));
    assert_eq!(desk.files(), ["elsewhere", "feedmill.toml"]);
    assert_eq!(desk.json(&["config", "show"])["config"]["data_dir"], "elsewhere");
}

#[test]
fn doctor_and_disk_look_and_change_nothing() {
    let desk = Desk::new();
    let told = desk.ok(&["doctor"]);
    for (health, check) in
        [("ok  ", "data directory"), ("ok  ", "disk space"), ("warn", "contact"), ("ok  ", "clock")]
    {
        assert!(told.contains(&format!("{health}  {check}")), "{check}: {told}");
    }
    let disk = desk.json(&["disk"]);
    assert_eq!((&disk["total"], &disk["paused"]), (&0.into(), &false.into()));
    assert_eq!(desk.files(), Vec::<String>::new());

    desk.ok(&["init", "--quiet"]);
    assert!(desk.ok(&["doctor"]).contains("is sound"));
    assert!(desk.json(&["disk"])["total"].as_u64().unwrap() > 0);
    let full = ["--set", "retention.min_free=1000TB"];
    assert!(desk.ok(&[&["disk"], &full[..]].concat()).contains("work is paused until"));
    assert_eq!(desk.run(&[&["doctor"], &full[..]].concat()).code, 1);
    fs::write(desk.path().join("feedmill.toml"), "nope = 1").unwrap();
    let reply = desk.run(&["doctor"]);
    assert_eq!(reply.code, 1);
    assert!(reply.stdout.starts_with("fail  configuration"), "{}", reply.stdout);
}

#[test]
fn once_is_silent_when_nothing_is_new() {
    let desk = Desk::new();
    desk.ok(&["init", "--quiet"]);
    let reply = desk.run(&["once"]);
    assert_eq!((reply.code, reply.stdout.as_str(), reply.stderr.as_str()), (0, "", ""));
}

#[test]
fn completions_know_the_commands() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(desk.ok(&["completions", shell]).contains("frontier"), "{shell}");
    }
    desk.fails(&["completions", "tcsh"], 2, "tcsh");
}

/// A reader that closes the pipe early has what it wanted.
#[test]
fn a_closed_pipe_is_no_failure() {
    let desk = Desk::new();
    let binary = assert_cmd::cargo::cargo_bin!("feedmill");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = std::process::Command::new(binary)
        .args(["config", "reference"])
        .current_dir(desk.path())
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(ended.stderr.is_empty());
}

/// An engine as a process of its own.
fn engine(desk: &Desk, args: &[&str]) -> Process {
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("feedmill"));
    command
        .args(["run", "--set", "fetch.contact=test@example.org", "--set", ANYWHERE])
        .args(args)
        .current_dir(desk.path())
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Process::spawn(&mut command)
}

fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

/// The first signal ends it in order and with a summary.
#[test]
fn run_stops_when_it_is_told_to() {
    let desk = Desk::new();
    let mut child = engine(&desk, &["--lanes", "poll"]);
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(told.next().unwrap().starts_with("following 0 sources"));
    // The engine takes its lock only once it listens to signals.
    while !feedmill::db::EngineLock::is_held(&desk.path().join("feedmill-data/feedmill.db")) {
        std::thread::yield_now();
    }
    desk.fails(&["once", "--quiet"], 1, "already runs");
    assert!(desk.ok(&["source", "list"]).contains("no sources yet"));
    terminate(&child);
    let mut summary = String::new();
    child.stdout.take().unwrap().read_to_string(&mut summary).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(summary.starts_with("0 requests"), "{summary}");
}

/// The second signal does not wait for a publisher that keeps us waiting.
#[test]
fn a_second_signal_ends_at_once() {
    let desk = Desk::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/story", silent.local_addr().unwrap());
    let allowed = ["--set", "fetch.allow_networks=127.0.0.0/8"];
    desk.ok(&[&["frontier", "submit", &address][..], &allowed].concat());
    let mut child = engine(&desk, &allowed);
    let _waiting = silent.accept().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    terminate(&child);
    assert!(told.any(|line| line.starts_with("stopping: ")));
    terminate(&child);
    assert!(told.any(|line| line.starts_with("error: stopped at once")));
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn how_a_source_is_asked_is_set_shown_and_never_told() {
    let desk = Desk::new();
    fs::write(desk.path().join("token"), "hunter2\n").unwrap();
    let url = "https://alder.example/feed";
    let add = ["source", "add", "--no-check", url, "--name", "alder", "--bearer", "@token"];
    let added = desk.ok(&[&add[..], &["--header", "X-Key: hunter1", "--json"]].concat());
    assert!(added.contains("\"x-key\": \"***\"") && !added.contains("hunter"), "{added}");
    let shown = desk.ok(&["source", "show", "alder"]);
    assert!(shown.contains("with header x-key, a token") && !shown.contains("hunter"), "{shown}");
    assert!(!desk.ok(&["source", "export"]).contains("hunter"));
    let basic = ["source", "access", "alder", "--basic", "ann:hunter3"];
    assert!(desk.ok(&basic).contains("with the password of ann"));
    // Without flags it shows what is set, and changes nothing.
    desk.ok(&[&basic[..], &["--header", "X-Key: hunter1", "--cookie", "id=hunter5"]].concat());
    let access = ["source", "access", "alder"];
    let kept = "alder is asked with header x-key, a cookie, the password of ann\n";
    assert_eq!(desk.ok(&access), kept);
    let value = desk.json(&access);
    assert_eq!((&value["source"], &value["access"]["cookie"]), (&"alder".into(), &"***".into()));
    assert!(!value.to_string().contains("hunter"), "{value}");
    assert_eq!(desk.ok(&access), kept);
    let clear = desk.run(&[&access[..], &["--clear", "--cookie", "a=b"]].concat());
    assert!(clear.code == 2 && clear.stderr.contains("cannot be used with"), "{}", clear.stderr);
    assert_eq!(desk.ok(&access), kept);
    assert!(desk.ok(&[&access[..], &["--clear"]].concat()).contains("like everybody"));
    assert_eq!(desk.ok(&access), "alder is asked like everybody\n");
    for (flags, words) in [
        (["--header", "hunter4"], "`NAME: VALUE`"),
        (["--header", "Cookie: hunter4"], "give it as the cookie"),
        (["--basic", "hunter4"], "USER:PASSWORD"),
        (["--proxy", "hunter4"], "http://host:port"),
    ] {
        let told = desk.fails(&[&["source", "access", "alder"], &flags[..]].concat(), 2, words);
        assert!(!told.contains("hunter4"), "{told}");
    }
    desk.fails(&["source", "access", "alder", "--bearer", "@nothing"], 1, "cannot read nothing");
}
