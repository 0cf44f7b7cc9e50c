//! The rules of ARCHITECTURE.md that a machine can hold: who may know whom, what the formats crate
//! stays free of, how files begin and how long they may be.
//!
//! Each rule is a function from text to breaches, tried on made-up text beside its use.

mod paths;
mod promises;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Modules by rank, the highest first: one may only use what is below it.
const RANKS: &[&[&str]] = &[
    &["main"],
    &["cli"],
    &["demo"],
    &["api"],
    &["app"],
    &["sources", "fetch", "sinks"],
    &["frontier", "schedule", "archive", "handle", "store"],
    &["db", "model", "clock", "config", "metrics", "progress", "telemetry"],
];

/// The only uses within a rank.
const BESIDE: &[(&str, &str)] = &[
    ("config", "db"),
    ("config", "model"),
    ("handle", "schedule"),
    ("store", "frontier"),
    ("clock", "model"),
    ("progress", "metrics"),
    ("progress", "model"),
    ("progress", "telemetry"),
    ("telemetry", "config"),
];

/// What a module must do without, although its rank or the manifest would allow it.
const BANS: &[(&str, &[&str])] = &[
    ("frontier", &["reqwest", "hyper", "std::net", "std::fs"]),
    ("schedule", &["crate::clock", "crate::db", "tokio", "rusqlite", "std::fs", "std::net"]),
    ("handle", &["crate::clock", "crate::db", "tokio", "rusqlite", "std::fs", "std::net"]),
    ("model", &["tokio", "rusqlite", "reqwest", "std::fs"]),
    ("sinks", &["crate::handle", "crate::archive", "crate::frontier", "rusqlite"]),
];

/// What the formats crate must not pull in, by whatever way.
const NOT_IN_FORMATS: &[&str] = &["tokio", "reqwest", "rusqlite", "axum", "hyper"];

const MAIN_LINES: usize = 40;
const FILE_LINES: usize = 800;

#[derive(Debug, PartialEq, Eq)]
struct Breach {
    file: String,
    line: usize,
    rule: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.rule)
    }
}

fn assert_none(breaches: &[Breach]) {
    let told: Vec<_> = breaches.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "rules are broken:\n{}", told.join("\n"));
}

fn rank(module: &str) -> Option<usize> {
    RANKS.iter().position(|rank| rank.contains(&module))
}

/// `src/store/sqlite/read.rs` is `["store", "sqlite", "read"]`.
fn module_path(file: &str) -> Vec<&str> {
    let inner = file.strip_prefix("src/").unwrap_or(file);
    let inner = inner.strip_suffix(".rs").unwrap_or(inner);
    inner.split('/').filter(|part| *part != "mod").collect()
}

/// Uses that go up, sideways, or where a ban stands.
fn breaches_of_direction(file: &str, code: &str) -> Vec<Breach> {
    let within = module_path(file);
    // lib.rs declares everything; a file of tests may use what it tests.
    if within == ["lib"] || within.ends_with(&["tests"]) {
        return vec![];
    }
    let Some(module) = within.first() else { return vec![] };
    let breach = |line, rule| Breach { file: file.into(), line, rule };
    let Some(own) = rank(module) else {
        return vec![breach(1, format!("`{module}` has no rank: give it one in RANKS"))];
    };
    let mut breaches = Vec::new();
    for path in paths::paths(code) {
        let named = from_root(&path.segments, within.len());
        if let [root, used, ..] = named.as_slice()
            && root == "crate"
            && let Some(other) = rank(used)
            && used != module
            && other <= own
            && !BESIDE.contains(&(module, used))
        {
            let why = if other < own { "is above it" } else { "is beside it" };
            breaches.push(breach(path.line, format!("`{module}` must not use `{used}`: it {why}")));
        }
        let full = format!("{}::", named.join("::"));
        for (_, bans) in BANS.iter().filter(|(banned, _)| banned == module) {
            for ban in bans.iter().filter(|ban| full.starts_with(&format!("{ban}::"))) {
                breaches.push(breach(path.line, format!("`{module}` must not use `{ban}`")));
            }
        }
    }
    breaches
}

/// The same path told from the root: as many `super` as the file is deep lead there.
fn from_root(segments: &[String], depth: usize) -> Vec<String> {
    let ups = segments.iter().take_while(|segment| *segment == "super").count();
    let root = match segments.first().map(String::as_str) {
        Some("super") if ups >= depth => ups,
        Some("crate" | "feedmill") => 1,
        _ => return segments.to_vec(),
    };
    std::iter::once("crate".to_owned()).chain(segments[root..].iter().cloned()).collect()
}

/// How a file begins and how long it is.
fn breaches_of_form(file: &str, code: &str) -> Vec<Breach> {
    let breach = |line, rule: String| Breach { file: file.into(), line, rule };
    let mut breaches = Vec::new();
    if !code.starts_with("//!") {
        breaches.push(breach(1, "a file begins with `//!` and says what it is for".into()));
    }
    let lines = code.lines().count();
    if lines > FILE_LINES {
        breaches.push(breach(lines, format!("a file has at most {FILE_LINES} lines")));
    }
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    if file == "src/main.rs" && code.lines().filter(is_code).count() > MAIN_LINES {
        breaches.push(breach(lines, format!("main has at most {MAIN_LINES} lines of code")));
    }
    breaches
}

/// Packages that `package` needs to build or run (not to test) and that it must not, with the way
/// that leads there. `metadata` is what `cargo metadata` prints.
fn unwanted(metadata: &Value, package: &str, unwanted: &[&str]) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: BTreeMap<String, String> = list(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["id"]), text(&package["name"])))
        .collect();
    let needs: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let deps = list(&node["deps"]);
            let built = deps.iter().filter(|dep| {
                list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].as_str() != Some("dev"))
            });
            (text(&node["id"]), built.map(|dep| text(&dep["pkg"])).collect())
        })
        .collect();
    let start = names.iter().find(|(_, name)| *name == package).map(|(id, _)| id.clone());
    let start = start.unwrap_or_else(|| panic!("there is no package {package}"));
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    let mut ways = vec![(start, package.to_owned())];
    while let Some((id, way)) = ways.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        if unwanted.contains(&names[&id].as_str()) {
            found.push(way.clone());
        }
        for need in &needs[&id] {
            ways.push((need.clone(), format!("{way} > {}", names[need])));
        }
    }
    found.sort();
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files below these directories, by their path from the root, with their text.
fn files(below: &[&str]) -> Vec<(String, String)> {
    let mut open: Vec<PathBuf> = below.iter().map(|dir| root().join(dir)).collect();
    let mut found = Vec::new();
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn dependencies_point_one_way() {
    let files = files(&["src"]);
    assert!(files.len() > 50, "only {} files found", files.len());
    let breaches: Vec<_> =
        files.iter().flat_map(|(file, code)| breaches_of_direction(file, code)).collect();
    assert_none(&breaches);
}

#[test]
fn a_use_in_the_wrong_direction_is_found() {
    let told = |file: &str, code: &str| -> Vec<String> {
        breaches_of_direction(file, code).iter().map(ToString::to_string).collect()
    };
    for (file, code, wanted) in [
        ("src/store.rs", "use crate::fetch::X;", "src/store.rs:1: `store` must not use `fetch`"),
        (
            "src/fetch/a.rs",
            "\n\nuse crate::sinks;",
            "src/fetch/a.rs:3: `fetch` must not use `sinks`",
        ),
        ("src/frontier/sqlite/x.rs", "use crate::{model::Ts, store};", "must not use `store`"),
        ("src/frontier.rs", "fn f() { super::handle::go() }", "must not use `handle`"),
        ("src/frontier/a.rs", "use super::super::archive;", "must not use `archive`"),
        ("src/frontier/a.rs", "use reqwest::Client;", "must not use `reqwest`"),
        ("src/handle/a.rs", "use crate::{clock::Clock};", "must not use `crate::clock`"),
        ("src/handle.rs", "use std::{fs, io};", "must not use `std::fs`"),
        ("src/handle.rs", "fn f() { tokio::task::spawn_blocking(g); }", "must not use `tokio`"),
        ("src/sinks/a.rs", "use crate::frontier::Frontier;", "must not use `crate::frontier`"),
        ("src/model.rs", "use crate::db;", "`model` must not use `db`: it is beside it"),
        ("src/config/a.rs", "use crate::app;", "`config` must not use `app`: it is above it"),
        ("src/novel.rs", "", "`novel` has no rank"),
    ] {
        let told = told(file, code);
        assert_eq!(told.len(), 1, "{code}: {told:?}");
        assert!(told[0].contains(wanted), "{}", told[0]);
    }
    for (file, code) in [
        ("src/store.rs", "use crate::frontier::Frontier; use crate::store::apply;"),
        ("src/handle/feed.rs", "use crate::schedule; use super::super::model;"),
        ("src/handle/feed.rs", "#[cfg(test)] mod tests { use crate::clock::Clock; }"),
        ("src/frontier/sqlite.rs", "use super::budget; mod rows; use self::rows::handle;"),
        ("src/frontier/sqlite/a.rs", "use super::super::Frontier; fn store() { fetch() }"),
        ("src/main.rs", "fn main() { feedmill::cli::run() }"),
        ("src/cli/demo.rs", "use crate::{app, demo, store};"),
    ] {
        assert_eq!(told(file, code), Vec::<String>::new(), "{code}");
    }
}

#[test]
fn files_say_what_they_are_for_and_stay_short() {
    let files = files(&["src", "crates", "tests"]);
    assert!(files.iter().any(|(file, _)| file == "src/main.rs"));
    let breaches: Vec<_> =
        files.iter().flat_map(|(file, code)| breaches_of_form(file, code)).collect();
    assert_none(&breaches);
}

#[test]
fn a_file_without_purpose_or_measure_is_found() {
    let lines = |count: usize| format!("//! Why.\n{}", "fn f() {}\n".repeat(count - 1));
    assert_eq!(breaches_of_form("src/a.rs", "use a;\n//! Why.\n").len(), 1);
    assert_eq!(breaches_of_form("src/a.rs", &lines(FILE_LINES)), []);
    assert_eq!(breaches_of_form("src/a.rs", &lines(FILE_LINES + 1)).len(), 1);
    // Of these, the first line is a comment.
    assert_eq!(breaches_of_form("src/main.rs", &lines(MAIN_LINES + 1)), []);
    assert_eq!(breaches_of_form("src/main.rs", &lines(MAIN_LINES + 2)).len(), 1);
    assert_eq!(breaches_of_form("src/domain.rs", &lines(MAIN_LINES + 2)), []);
}

#[test]
fn the_formats_crate_stays_free_of_io() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let told = std::process::Command::new(cargo)
        .args(["metadata", "--format-version=1", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let metadata: Value = serde_json::from_slice(&told.stdout).unwrap();
    let ways = unwanted(&metadata, "feedmill-formats", NOT_IN_FORMATS);
    assert!(ways.is_empty(), "the formats crate pulls in what it must not:\n{}", ways.join("\n"));
    assert!(!unwanted(&metadata, "feedmill", &["tokio"]).is_empty(), "the walk finds nothing");
}

#[test]
fn an_unwanted_package_is_found_however_deep_but_not_among_tests() {
    let dep =
        |pkg: &str, kind: Value| serde_json::json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]});
    let metadata = serde_json::json!({
        "packages": [
            {"id": "1", "name": "ours"}, {"id": "2", "name": "middle"},
            {"id": "3", "name": "tokio"}, {"id": "4", "name": "axum"}, {"id": "5", "name": "hyper"},
        ],
        "resolve": {"nodes": [
            {"id": "1", "deps": [dep("2", Value::Null), dep("4", "dev".into())]},
            {"id": "2", "deps": [dep("3", Value::Null), dep("5", "build".into())]},
            {"id": "3", "deps": []}, {"id": "4", "deps": []}, {"id": "5", "deps": []},
        ]},
    });
    let found = unwanted(&metadata, "ours", NOT_IN_FORMATS);
    assert_eq!(found, ["ours > middle > hyper", "ours > middle > tokio"]);
    assert!(unwanted(&metadata, "tokio", &["axum"]).is_empty());
}
