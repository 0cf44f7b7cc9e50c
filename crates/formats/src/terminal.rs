//! Text of publishers on a terminal.
//!
//! Control characters move the cursor and change the terminal; characters that change the direction of
//! writing show a text in another order than it has, so that `exe.cod` reads as `doc.exe`; others end a
//! line, or are not shown at all, so that two different texts look the same. All of them are shown as
//! what they are. The joiners U+200C and U+200D stay: languages and emoji need them.

use std::borrow::Cow;

/// Whether a character is not shown itself but changes how others are shown, ends a line, or hides in a
/// text. Control characters are not among these.
#[must_use]
pub const fn is_format(c: char) -> bool {
    matches!(
        c,
        // Direction of writing.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        // Ends of lines and of paragraphs.
        | '\u{2028}' | '\u{2029}'
        // Characters without width, and fillers and blanks that are none.
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{200b}'
        | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        // Controls of shorthand, music and hieroglyphs.
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{13430}'..='\u{1343f}'
        // Joiners and operators without width, directions, and deprecated format characters.
        | '\u{2060}'..='\u{206f}'
        // Annotations, and tags.
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// Whether a terminal must not get this character; line ends and tabs it may.
#[must_use]
pub fn is_unsafe(c: char) -> bool {
    is_format(c) || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// A text as a terminal may show it; line ends and tabs stay. What must not get there is written as
/// `\u202e`, which is also what JSON calls it.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
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

/// The same in one line: line ends and tabs are shown as `\n` and `\t`.
#[must_use]
pub fn escaped_line(text: &str) -> Cow<'_, str> {
    match escaped(text) {
        line if line.contains(['\n', '\t']) => {
            line.replace('\n', "\\n").replace('\t', "\\t").into()
        }
        line => line,
    }
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
            ("a\u{2028}b\u{2029}", "a\\u2028b\\u2029"),
            ("pay\u{200b}pal\u{feff}\u{180e}\u{2060}", "pay\\u200bpal\\ufeff\\u180e\\u2060"),
            ("\u{206a}\u{206f}\u{fff9}\u{fffb}", "\\u206a\\u206f\\ufff9\\ufffb"),
            ("a\u{ad}b\u{3164}\u{115f}\u{1d173}", "a\\u00adb\\u3164\\u115f\\ud834\\udd73"),
            ("\u{e0000}\u{e007f}", "\\udb40\\udc00\\udb40\\udc7f"),
            ("שלום", "שלום"),
            (
                "می\u{200c}خواهم \u{1f469}\u{200d}\u{1f52c}",
                "می\u{200c}خواهم \u{1f469}\u{200d}\u{1f52c}",
            ),
        ] {
            assert_eq!(escaped(text), expected);
        }
        assert_eq!(escaped_line("a\n\tb\u{1b}c"), "a\\n\\tb\\u001bc");
        assert_eq!(escaped_line("plain"), "plain");
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
            prop_assert!(!shown.contains(is_unsafe));
            let colored = escaped_but_colors(&text);
            let is_left = colored.contains(|c| c != '\u{1b}' && is_unsafe(c));
            prop_assert!(!is_left);
        }
    }
}
