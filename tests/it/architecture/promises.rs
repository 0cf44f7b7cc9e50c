//! Papers that name the test of each promise: every test that they name exists.

use std::collections::BTreeSet;

const PAPERS: [&str; 2] = ["docs/RELIABILITY.md", "SECURITY.md"];

/// Shorter words between backticks are commands and settings.
const SHORTEST_NAME: usize = 15;

/// The tests that the last column of a paper's tables names.
fn named(paper: &str) -> BTreeSet<&str> {
    let rows = paper.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.filter(|name| name.len() >= SHORTEST_NAME).collect()
}

/// The functions that code declares.
fn declared(code: &str) -> BTreeSet<&str> {
    let after = code.split("fn ").skip(1);
    after
        .filter_map(|rest| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next())
        .collect()
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let files = super::files(&["src", "tests", "crates"]);
    let code: String = files.into_iter().map(|(_, text)| text).collect();
    let known = declared(&code);
    for paper in PAPERS {
        let text = std::fs::read_to_string(super::root().join(paper)).unwrap();
        let names = named(&text);
        assert!(names.len() > 20, "{paper} names {names:?} only");
        // The contract's suites are modules that a macro makes.
        let missing: Vec<_> = names
            .into_iter()
            .filter(|name| !known.contains(name) && !code.contains(&format!("mod {name}")))
            .collect();
        assert_eq!(missing, Vec::<&str>::new(), "{paper} names tests that do not exist");
    }
}

#[test]
fn names_are_read_from_the_last_column() {
    let paper = "| Promise | Test |\n| --- | --- |\n| with `a_setting_that_is_long` | `a_test_that_is_there`, `another_test_of_it` |\nno `row_at_all_in_this_line`";
    assert_eq!(
        named(paper).into_iter().collect::<Vec<_>>(),
        ["a_test_that_is_there", "another_test_of_it"]
    );
    assert!(declared("pub async fn a_test_that_is_there() {}").contains("a_test_that_is_there"));
}
