//! JSON as publishers write it, cut into pieces before it is read.
//!
//! Each piece is read by itself, so that one that cannot be read, or a document that ends too early,
//! costs no other; strings that JSON does not allow are mended. No more is held than is asked for.

use std::ops::Range;

use serde_json::{Map, Value};

use super::draft::MOST;
use crate::xml::text::Seen;

pub(super) type Object = Map<String, Value>;

/// The members of an object or a list, as they stand in the document, one after the other.
pub(super) struct Pieces<'a> {
    document: &'a str,
    at: usize,
    max_depth: usize,
    is_object: bool,
    is_over: bool,
    is_first: bool,
    /// Whether its end was found.
    pub(super) is_whole: bool,
    /// Whether it is nested too deep to be cut.
    pub(super) is_too_deep: bool,
    /// Commas with nothing before or behind them.
    pub(super) gaps: usize,
}

impl<'a> Pieces<'a> {
    /// Those of what stands in this part of the document; the part starts with a bracket.
    pub(super) fn of(document: &'a str, part: &Range<usize>, max_depth: usize) -> Self {
        let bracket = document.as_bytes().get(part.start);
        Self {
            document: document.get(..part.end).unwrap_or(document),
            at: part.start + 1,
            max_depth,
            is_object: bracket == Some(&b'{'),
            is_over: !matches!(bracket, Some(b'{' | b'[')),
            is_first: true,
            is_whole: false,
            is_too_deep: false,
            gaps: 0,
        }
    }

    /// Goes behind the next comma or bracket; the end of what stands before it, if that is a piece.
    fn pass(&mut self) -> Option<usize> {
        let bytes = self.document.as_bytes();
        let mut depth = 0_usize;
        while let Some(b) = bytes.get(self.at) {
            match b {
                b'"' => self.at = end_of_string(bytes, self.at).unwrap_or(bytes.len()),
                b'{' | b'[' if depth >= self.max_depth => {
                    (self.is_over, self.is_too_deep) = (true, true);
                    return None;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth > 0 => depth -= 1,
                b',' | b'}' | b']' if depth == 0 => {
                    (self.is_over, self.is_whole) = (*b != b',', *b != b',');
                    self.at += 1;
                    return Some(self.at - 1);
                }
                _ => {}
            }
            self.at += 1;
        }
        self.is_over = true;
        // A list inside of what broke off may have whole pieces.
        (self.is_object && depth > 0).then_some(bytes.len())
    }
}

impl Iterator for Pieces<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while !self.is_over {
            let start = self.at;
            let piece = start..self.pass()?;
            let text = self.document.get(piece.clone()).unwrap_or_default();
            let start = piece.start + (text.len() - text.trim_start().len());
            let end = start + text.trim().len();
            let is_only = std::mem::take(&mut self.is_first) && self.is_over;
            if start < end {
                return Some(start..end);
            }
            self.gaps += usize::from(!is_only);
        }
        None
    }
}

/// Where the string that starts here ends.
fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

/// The name of a member of an object, and where its value is.
pub(super) fn member(document: &str, piece: &Range<usize>) -> Option<(String, Range<usize>)> {
    document.as_bytes().get(piece.start).filter(|b| **b == b'"')?;
    let end = end_of_string(document.as_bytes(), piece.start).filter(|end| *end < piece.end)?;
    let key = string(document.get(piece.start..=end)?, &mut Seen::default())?;
    let rest = document.get(end + 1..piece.end)?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    Some((key, piece.end - value.len()..piece.end))
}

/// An object, of which only the members of these names are read.
#[derive(Default)]
pub(super) struct Members {
    pub(super) read: Object,
    /// Those that cannot be read.
    pub(super) bad: Vec<String>,
}

/// Reads the members of these names; what is mended is noted.
pub(super) fn members(
    document: &str,
    part: &Range<usize>,
    names: &[&str],
    mended: &mut Seen,
) -> Members {
    let mut found = Members::default();
    let mut pieces = Pieces::of(document, part, usize::MAX);
    for piece in pieces.by_ref() {
        match member(document, &piece) {
            Some((key, at)) if names.contains(&key.as_str()) => {
                match value(document, &at, 2, mended) {
                    Some(value) => drop(found.read.insert(key, value)),
                    None => found.bad.push(key),
                }
            }
            Some(_) => {}
            None => mended.note(document.get(piece).unwrap_or_default()),
        }
    }
    note_gaps(&pieces, mended);
    found
}

pub(super) fn note_gaps(pieces: &Pieces<'_>, mended: &mut Seen) {
    for _ in 0..pieces.gaps {
        mended.note("a comma too many");
    }
}

/// The value that stands here, if it is one. Below so many levels only the brackets are read, and of
/// a list or an object no more than can be kept.
pub(super) fn value(
    document: &str,
    at: &Range<usize>,
    levels: u8,
    mended: &mut Seen,
) -> Option<Value> {
    let text = document.get(at.clone())?;
    match text.as_bytes().first()? {
        b'"' => string(text, mended).map(Value::String),
        bracket @ (b'[' | b'{') => {
            let (mut list, mut object) = (Vec::new(), Object::new());
            let mut pieces = Pieces::of(document, at, usize::MAX);
            let kept = if levels == 0 { 0 } else { MOST + 1 };
            for piece in pieces.by_ref().take(kept) {
                let (key, part) = match bracket {
                    b'[' => (String::new(), piece.clone()),
                    _ => member(document, &piece).unwrap_or((String::new(), 0..0)),
                };
                match value(document, &part, levels.saturating_sub(1), mended) {
                    Some(value) if *bracket == b'[' => list.push(value),
                    Some(value) => drop(object.insert(key, value)),
                    None => mended.note(document.get(piece).unwrap_or_default()),
                }
            }
            note_gaps(&pieces, mended);
            Some(if *bracket == b'[' { Value::Array(list) } else { Value::Object(object) })
        }
        _ => serde_json::from_str(text).ok(),
    }
}

/// A string; raw control characters and escapes that JSON does not know are taken as they are meant.
fn string(text: &str, mended: &mut Seen) -> Option<String> {
    if let Ok(string) = serde_json::from_str(text) {
        return Some(string);
    }
    let end = end_of_string(text.as_bytes(), 0).filter(|end| end + 1 == text.len())?;
    mended.note(text);
    Some(unescaped(text.get(1..end)?))
}

fn unescaped(inside: &str) -> String {
    let mut done = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some((before, after)) = rest.split_once('\\') {
        done.push_str(before);
        let mut chars = after.chars();
        let c = match chars.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b' | 'f') => ' ',
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('u') if unit(after).is_some() => {
                let (c, length) = by_number(after);
                done.push(c);
                rest = after.get(length..).unwrap_or_default();
                continue;
            }
            // Nobody knows this escape: it stays as it is written.
            _ => {
                done.push('\\');
                rest = after;
                continue;
            }
        };
        done.push(c);
        rest = chars.as_str();
    }
    done.push_str(rest);
    done
}

/// The number of `uXXXX`.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// The character of `uXXXX`, or of a pair of them, and how long that is; half a pair is no character.
fn by_number(text: &str) -> (char, usize) {
    let first = unit(text).unwrap_or_default();
    let second = text.get(5..).and_then(|rest| unit(rest.strip_prefix('\\')?));
    let decode = |units: &[u16]| char::decode_utf16(units.iter().copied()).next()?.ok();
    let pair = second.filter(|_| (0xd800..0xdc00).contains(&first));
    match (decode(&[first]), pair.and_then(|second| decode(&[first, second]))) {
        (Some(c), _) => (c, 5),
        (None, Some(c)) => (c, 11),
        (None, None) => (char::REPLACEMENT_CHARACTER, 5),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> (Option<Value>, u32) {
        let mut mended = Seen::default();
        (value(text, &(0..text.len()), 2, &mut mended), mended.count)
    }

    #[test]
    fn strings_are_mended() {
        for (text, meant) in [
            (r#""a\x41""#, "a\\x41"),
            ("\"a\nb\u{1}\"", "a\nb\u{1}"),
            (
                r#""\q \n \" \/ \u00e9 \ud83d\ude00 \ud83d \uzzzz \u12""#,
                "\\q \n \" / \u{e9} \u{1f600} \u{fffd} \\uzzzz \\u12",
            ),
        ] {
            assert_eq!(read(text), (Some(Value::from(meant)), 1), "{text}");
        }
        assert_eq!(read(r#""a" "b""#), (None, 0));
        assert_eq!(read("nope"), (None, 0));
    }

    #[test]
    fn a_comma_too_many_is_told() {
        assert_eq!(read("[1, 2,]"), (Some(serde_json::json!([1, 2])), 1));
        assert_eq!(read("[]"), (Some(serde_json::json!([])), 0));
        assert_eq!(read("{ }"), (Some(serde_json::json!({})), 0));
        assert_eq!(read(r#"{"a": 1,, "b": x}"#), (Some(serde_json::json!({ "a": 1 })), 2));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let many = format!("[{}1]", "1,".repeat(100_000));
        assert_eq!(read(&many).0.unwrap().as_array().unwrap().len(), MOST + 1);
        assert_eq!(read("[[[1]]]").0, Some(serde_json::json!([[[]]])));
    }

    proptest! {
        #[test]
        fn good_json_is_read_as_it_is(
            strings in prop::collection::vec("\\PC{0,12}", 0..5),
            number in any::<i64>(),
        ) {
            let json = serde_json::json!({ "a": strings, "b": number, "c": null, "d": { "e": true } });
            prop_assert_eq!(read(&json.to_string()), (Some(json), 0));
        }

        #[test]
        fn any_text_ends_well(text in "[\\[\\]{}\",:\\\\ua1d8 \n]{0,60}") {
            let whole = 0..text.len();
            let found: Vec<_> = Pieces::of(&text, &whole, 10).collect();
            prop_assert!(found.iter().all(|piece| text.get(piece.clone()).is_some()));
            read(&text);
        }
    }
}
