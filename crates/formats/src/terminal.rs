//! Text of publishers on a terminal.
//!
//! Control characters move the cursor and change the terminal; characters that change the direction of
//! writing show a text in another order than it has, so that `exe.cod` reads as `doc.exe`. Both are shown
//! as what they are.

use std::borrow::Cow;

/// Whether a character changes the direction in which others are shown.
#[must_use]
pub const fn is_bidi(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// The text with every character that `is_unsafe` picks written as `\u202e`, which is also what JSON
/// calls it.
fn with_escapes(text: &str, is_unsafe: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// A text as a terminal may show it; line ends and tabs stay.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    with_escapes(text, |c| is_bidi(c) || (c.is_control() && !matches!(c, '\n' | '\t')))
}

/// Colours and weights that our own programs write, as in `\x1b[32m`: words, tables and log lines.
const STYLES: [&str; 13] =
    ["0", "1", "2", "3", "31", "32", "33", "34", "35", "39", "38;5;9", "38;5;10", "38;5;11"];

/// The same for a text that a program of ours has coloured: only its own colours stay. Whatever else
/// begins like one moves the cursor or hides text.
#[must_use]
pub fn escaped_but_colors(text: &str) -> String {
    let mut pieces = text.split('\u{1b}');
    let mut shown = escaped(pieces.next().unwrap_or_default()).into_owned();
    for piece in pieces {
        let style = piece.strip_prefix('[').and_then(|rest| rest.split_once('m'));
        let is_ours = style.is_some_and(|(style, _)| STYLES.contains(&style));
        shown.push_str(if is_ours { "\u{1b}" } else { "\\u001b" });
        shown.push_str(&escaped(piece));
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_changes_how_text_is_shown_is_shown_itself() {
        for (text, expected) in [
            ("plain, \n\tlines", "plain, \n\tlines"),
            ("\u{202e}exe.cod", "\\u202eexe.cod"),
            ("\u{2066}a\u{2069}\u{200f}\u{61c}", "\\u2066a\\u2069\\u200f\\u061c"),
            ("\u{1b}[2J\u{9b}31m\u{7f}\r", "\\u001b[2J\\u009b31m\\u007f\\u000d"),
            ("שלום", "שלום"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn only_our_own_colours_stay() {
        for (text, expected) in [
            ("plain", "plain"),
            ("\u{1b}[31mred\u{1b}[0m \u{9b}", "\u{1b}[31mred\u{1b}[0m \\u009b"),
            ("\u{1b}[1mhead\u{1b}[0m", "\u{1b}[1mhead\u{1b}[0m"),
            ("\u{1b}[2J\u{1b}[8mhidden", "\\u001b[2J\\u001b[8mhidden"),
            ("\u{1b}]0;title\u{7} m", "\\u001b]0;title\\u0007 m"),
            ("\u{1b}", "\\u001b"),
            ("\u{1b}\u{1b}[31m", "\\u001b\u{1b}[31m"),
        ] {
            assert_eq!(escaped_but_colors(text), expected);
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_left_changes_the_terminal(text: String) {
            let shown = escaped(&text).into_owned();
            prop_assert!(!shown.contains(|c: char| is_bidi(c) || (c.is_control() && !matches!(c, '\n' | '\t'))));
        }
    }
}
