//! Relative addresses inside HTML, made absolute. Nothing else of the HTML is touched.

use std::borrow::Cow;

use ::url::Url;
use memchr::{memchr, memrchr2};

use crate::xml::text;

/// Attributes whose value is one address.
const ADDRESSES: [&str; 9] =
    ["href", "src", "poster", "action", "cite", "background", "longdesc", "data", "formaction"];

/// No address is longer.
const LONGEST: usize = 4_096;

/// The HTML with the addresses in it made absolute; most has none that are not.
pub(super) fn absolute<'a>(html: &'a str, base: &Url) -> Cow<'a, str> {
    let bytes = html.as_bytes();
    let mut done = String::new();
    let (mut at, mut copied) = (0, 0);
    // Whether the place up to which was looked is inside of a tag.
    let (mut looked, mut in_tag) = (0, false);
    while let Some(step) = bytes.get(at..).and_then(|rest| memchr(b'=', rest)) {
        let equals = at + step;
        at = equals + 1;
        let Some(value) = relative_value(html, equals) else { continue };
        // What only looks like an attribute stands outside of a tag.
        let between = bytes.get(looked..equals).unwrap_or_default();
        if let Some(bracket) = memrchr2(b'<', b'>', between) {
            in_tag = between.get(bracket) == Some(&b'<');
        }
        looked = equals;
        let address = text::unescape(html.get(value.clone()).unwrap_or_default().trim());
        if let Some(found) = in_tag.then(|| base.join(&address).ok()).flatten() {
            done.push_str(html.get(copied..value.start).unwrap_or_default());
            done.push_str(&text::escape(found.as_str()));
            (at, copied) = (value.end, value.end);
        }
    }
    if copied == 0 {
        return Cow::Borrowed(html);
    }
    done.push_str(html.get(copied..).unwrap_or_default());
    Cow::Owned(done)
}

/// Where the address is that the attribute before this `=` has, if it is one and relative.
fn relative_value(html: &str, equals: usize) -> Option<std::ops::Range<usize>> {
    let before = html.as_bytes().get(..equals)?;
    // Most attributes are ruled out by their last letter.
    if !matches!(
        before.last()?.to_ascii_lowercase(),
        b'f' | b'c' | b'r' | b'n' | b'e' | b'd' | b'a'
    ) {
        return None;
    }
    let start = before.iter().rposition(|b| !b.is_ascii_alphabetic())?;
    let (space, name) = before.get(start..)?.split_first()?;
    let is_address = ADDRESSES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    if !is_address || !matches!(space, b' ' | b'\n' | b'\t' | b'\r' | b'"' | b'\'') {
        return None;
    }
    let rest = html.get(equals + 1..)?;
    let rest = rest.get(..rest.floor_char_boundary(LONGEST))?;
    let (start, value) = match rest.as_bytes().first()? {
        quote @ (b'"' | b'\'') => {
            let value = rest.get(1..)?;
            (equals + 2, value.get(..memchr(*quote, value.as_bytes())?)?)
        }
        _ => {
            // A quote within is a fault, and no reason to look any further.
            let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'>' | b'"' | b'\'' | b'<');
            let end = rest.as_bytes().iter().position(ends)?;
            let whole = !matches!(rest.as_bytes().get(end), Some(b'"' | b'\'' | b'<'));
            (equals + 1, rest.get(..end).filter(|_| whole)?)
        }
    };
    is_relative(value.trim_start()).then_some(start..start + value.len())
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
        absolute(html, &Url::parse("https://example.com/a/b").unwrap()).into_owned()
    }

    #[test]
    fn relative_addresses_become_absolute() {
        for (html, expected) in [
            (r#"<a href="c">x</a>"#, r#"<a href="https://example.com/a/c">x</a>"#),
            ("<img SRC='/i.png?a=1&amp;b=2'>", "<img SRC='https://example.com/i.png?a=1&amp;b=2'>"),
            ("<a href=../d>x</a>", "<a href=https://example.com/d>x</a>"),
            ("<a href=\"//other.example/\">x</a>", "<a href=\"https://other.example/\">x</a>"),
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
            "<img data-src='x' src='data:image/gif;base64,R0lGOD='>",
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
