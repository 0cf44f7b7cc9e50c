//! Relative addresses inside HTML, made absolute. Nothing else of the HTML is touched.

use std::borrow::Cow;

use ::url::Url;
use memchr::{memchr, memrchr2};

use crate::room::Room;
use crate::xml::text;

/// Attributes whose value is one address. Pictures that are loaded late have theirs in `data-src`.
const ADDRESSES: [&str; 10] = [
    "href",
    "src",
    "data-src",
    "poster",
    "action",
    "cite",
    "background",
    "longdesc",
    "data",
    "formaction",
];

/// Attributes whose value is a list of addresses, each with a size.
const LISTS: [&str; 2] = ["srcset", "data-srcset"];

/// No address is longer.
const LONGEST: usize = 4_096;

/// The HTML with the addresses in it made absolute; most has none that are not.
pub(super) fn absolute<'a>(html: &'a str, base: &Url, room: &Room) -> Cow<'a, str> {
    let bytes = html.as_bytes();
    let mut done = String::new();
    let (mut at, mut copied) = (0, 0);
    // Whether the place up to which was looked is inside of a tag.
    let (mut looked, mut in_tag) = (0, false);
    while let Some(step) = bytes.get(at..).and_then(|rest| memchr(b'=', rest)) {
        let equals = at + step;
        at = equals + 1;
        let Some((value, is_list)) = value_with_address(html, equals) else { continue };
        // What only looks like an attribute stands outside of a tag.
        let between = bytes.get(looked..equals).unwrap_or_default();
        if let Some(bracket) = memrchr2(b'<', b'>', between) {
            in_tag = between.get(bracket) == Some(&b'<');
        }
        looked = equals;
        let address = text::unescape(html.get(value.clone()).unwrap_or_default().trim());
        let found = if !in_tag {
            None
        } else if is_list {
            absolute_list(&address, base, room)
        } else {
            room.join(base, &address)
        };
        if let Some(found) = found {
            done.push_str(html.get(copied..value.start).unwrap_or_default());
            // The value may stand in quotes of either kind.
            let found = text::escape(&found).replace('"', "&quot;").replace('\'', "&#39;");
            done.push_str(&found);
            (at, copied) = (value.end, value.end);
        }
    }
    if copied == 0 {
        return Cow::Borrowed(html);
    }
    done.push_str(html.get(copied..).unwrap_or_default());
    Cow::Owned(done)
}

/// The addresses of a `srcset` made absolute, if some are not: `a.png 1x, b.png 2x`. An address ends at
/// white space, and may have commas in it.
fn absolute_list(list: &str, base: &Url, room: &Room) -> Option<String> {
    let mut done = String::with_capacity(list.len() + 64);
    let mut rest = list.trim();
    let mut is_changed = false;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        let (address, after) = rest.split_at_checked(end)?;
        let bare = address.trim_end_matches(',');
        // What follows is the size, unless a comma ended the address.
        let has_size = bare.len() == address.len();
        let size = if has_size { after.find(',').unwrap_or(after.len()) } else { 0 };
        let (size, after) = after.split_at_checked(size)?;
        if !bare.is_empty() {
            if !done.is_empty() {
                done.push_str(", ");
            }
            let found = is_relative(bare).then(|| room.join(base, bare)).flatten();
            is_changed |= found.is_some();
            done.push_str(found.as_deref().unwrap_or(bare));
            done.push_str(size.trim_end());
        }
        rest = after.trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace());
    }
    is_changed.then_some(done)
}

/// Where the value of the attribute before this `=` is, if it is a relative address or a list of
/// addresses, and whether it is the latter.
fn value_with_address(html: &str, equals: usize) -> Option<(std::ops::Range<usize>, bool)> {
    let before = html.as_bytes().get(..equals)?;
    // Most attributes are ruled out by their last letter, and most addresses by their first ones.
    let rest = html.get(equals + 1..)?;
    let is_list = match before.last()?.to_ascii_lowercase() {
        b't' => true,
        b'f' | b'c' | b'r' | b'n' | b'e' | b'd' | b'a' => false,
        _ => return None,
    };
    if !is_list && (rest.starts_with("\"http") || rest.starts_with("'http")) {
        return None;
    }
    let start = before.iter().rposition(|b| !b.is_ascii_alphabetic() && *b != b'-')?;
    let (space, name) = before.get(start..)?.split_first()?;
    let names: &[&str] = if is_list { &LISTS } else { &ADDRESSES };
    if !names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        || !matches!(space, b' ' | b'\n' | b'\t' | b'\r' | b'"' | b'\'')
    {
        return None;
    }
    let longest = if is_list { 4 * LONGEST } else { LONGEST };
    let rest = rest.get(..rest.floor_char_boundary(longest))?;
    let (start, value) = match rest.as_bytes().first()? {
        quote @ (b'"' | b'\'') => {
            let value = rest.get(1..)?;
            (equals + 2, value.get(..memchr(*quote, value.as_bytes())?)?)
        }
        // A list has blanks in it, which only quotes hold together.
        _ if is_list => return None,
        _ => {
            // A quote within is a fault, and no reason to look any further.
            let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'>' | b'"' | b'\'' | b'<');
            let end = rest.as_bytes().iter().position(ends)?;
            let whole = !matches!(rest.as_bytes().get(end), Some(b'"' | b'\'' | b'<'));
            (equals + 1, rest.get(..end).filter(|_| whole)?)
        }
    };
    let is_wanted = if is_list { !value.is_empty() } else { is_relative(value.trim_start()) };
    is_wanted.then_some((start..start + value.len(), is_list))
}

fn is_relative(address: &str) -> bool {
    if address.is_empty() || address.starts_with("http") {
        return false;
    }
    let scheme =
        address.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
    let length = scheme.into_iter().next().map_or(0, str::len);
    address.as_bytes().get(length) != Some(&b':') || length == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resolved(html: &str) -> String {
        absolute(html, &Url::parse("https://example.com/a/b").unwrap(), &Room::of(0)).into_owned()
    }

    #[test]
    fn relative_addresses_become_absolute() {
        for (html, expected) in [
            (r#"<a href="c">x</a>"#, r#"<a href="https://example.com/a/c">x</a>"#),
            ("<img SRC='/i.png?a=1&amp;b=2'>", "<img SRC='https://example.com/i.png?a=1&amp;b=2'>"),
            ("<a href=../d>x</a>", "<a href=https://example.com/d>x</a>"),
            ("<a href=\"//other.example/\">x</a>", "<a href=\"https://other.example/\">x</a>"),
            ("<a href='a&#39;b'>x</a>", "<a href='https://example.com/a/a&#39;b'>x</a>"),
            (
                "<img data-src='/x' srcset=\"/a,b.png 1x, c.png 2x,d.png, https://o.example/e\">",
                "<img data-src='https://example.com/x' srcset=\"https://example.com/a,b.png 1x, \
                 https://example.com/a/c.png 2x, https://example.com/a/d.png, https://o.example/e\">",
            ),
            (
                "<p><a href='#n'>1</a> <img alt='=' src='z'>",
                "<p><a href='https://example.com/a/b#n'>1</a> <img alt='=' src='https://example.com/a/z'>",
            ),
        ] {
            assert_eq!(resolved(html), expected);
        }
    }

    #[test]
    fn everything_else_stays() {
        for html in [
            "<a href='https://example.org/'>x</a><a href='mailto:a@b.c'>y</a><a href=''>z</a>",
            "text with href=\"c\" in it",
            "<b>src=x</b>",
            "<img srcset=a&#32;onload=b><img srcset='https://e.example/a  1x,https://e.example/b'>",
            "<img data-x='x' xsrcset='a' src='data:image/gif;base64,R0lGOD='>",
            "<a href='unclosed",
            "a = b",
        ] {
            assert_eq!(resolved(html), html);
        }
    }

    proptest! {
        #[test]
        fn any_html_ends_well(html in "[<>a= '\"/:hrefsc\u{e9}-]{0,60}") {
            let once = resolved(&html);
            prop_assert!(once.len() >= html.len().saturating_sub(9 * html.len()));
        }
    }
}
