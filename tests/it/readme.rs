//! The README tells of every command that there is, and of no other.

use std::collections::{BTreeMap, BTreeSet};

use crate::kill::binary;

/// The commands that a help text lists.
fn listed(help: &str) -> BTreeSet<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    let names = lines.filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

fn help(of: &[&str]) -> String {
    let told = binary().args(of).arg("--help").output().unwrap();
    assert!(told.status.success(), "{of:?} has no help");
    String::from_utf8(told.stdout).unwrap()
}

/// Commands of the README's table, each with the parts that it names.
fn tabled(readme: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut commands: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let table = readme.split("## Commands").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|')).skip(2);
    for row in rows {
        let named = row.strip_prefix("| `").and_then(|row| row.split_once('`')).unwrap().0;
        let (name, parts) = named.split_once(' ').unwrap_or((named, ""));
        let parts = parts.split("\\|").map(str::to_owned);
        let parts = parts.filter(|part| part.chars().all(|c| c.is_ascii_lowercase()));
        let known = commands.entry(name.to_owned()).or_default();
        known.extend(parts.filter(|part| !part.is_empty()));
    }
    commands
}

#[test]
fn every_command_stands_in_the_readme_and_no_other_does() {
    let tabled = tabled(&std::fs::read_to_string("README.md").unwrap());
    let there: BTreeMap<String, BTreeSet<String>> = listed(&help(&[]))
        .into_iter()
        .map(|command| {
            let parts = listed(&help(&[&command]));
            (command, parts)
        })
        .collect();
    assert!(there.len() > 25, "{there:?}");
    assert_eq!(tabled, there);
}
