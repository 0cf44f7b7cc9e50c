//! What an element without parts of its own holds: a line, a title, or HTML.

use std::borrow::Cow;

use encoding_rs::{UTF_8, WINDOWS_1252};

use crate::xml::{Tag, local, text};

/// What an element holds.
pub(super) struct Leaf<'a> {
    /// All text in it, decoded.
    pub(super) text: Cow<'a, str>,
    /// Its inside as it stands in the document.
    pub(super) inner: &'a str,
    pub(super) has_children: bool,
    /// Whether there are control characters in the document.
    pub(super) is_dirty: bool,
}

impl<'a> Leaf<'a> {
    pub(super) const fn new(is_dirty: bool) -> Self {
        Self { text: Cow::Borrowed(""), inner: "", has_children: false, is_dirty }
    }

    pub(super) fn push(&mut self, text: Cow<'a, str>, limit: usize) {
        let room = limit.saturating_sub(self.text.len());
        // White space before a CDATA section is not worth a copy of both.
        if self.text.trim_ascii().is_empty() && text.len() <= room {
            self.text = text;
        } else if room > 0 {
            self.text.to_mut().push_str(cut(&text, room));
        }
    }

    /// One line of text: a date, an address, an identifier.
    pub(super) fn line(&self) -> Option<String> {
        filled(text::one_line(&self.text))
    }

    /// A number.
    pub(super) fn number<T: std::str::FromStr>(&self) -> Option<T> {
        self.text.trim().parse().ok()
    }

    /// HTML, whether it was escaped, in a CDATA section, or simply there.
    pub(super) fn html(&self) -> Option<String> {
        if !self.has_children {
            return self.cleaned(self.text.trim().to_owned());
        }
        let inner = self.inner.trim();
        if inner.contains("<![CDATA[") {
            return self.cleaned(inner.replace("<![CDATA[", "").replace("]]>", ""));
        }
        self.cleaned(inner.to_owned())
    }

    /// The text without control characters, unless there is none.
    fn cleaned(&self, text: String) -> Option<String> {
        filled(if self.is_dirty { text::clean(text) } else { text })
    }

    /// An Atom text construct as HTML, by its type.
    pub(super) fn construct(&self, tag: &Tag<'_>) -> Option<String> {
        let kind = tag.attribute("type").unwrap_or_default().to_ascii_lowercase();
        if kind.contains("xhtml") {
            return self.html().map(|html| without_wrapper(&html).to_owned());
        }
        if let Some(decoded) = self.decoded_base64(tag, &kind) {
            return filled(text::clean(decoded.trim().to_owned()));
        }
        if kind.contains("html") || self.has_children {
            return self.html();
        }
        self.cleaned(text::escape(self.text.trim()))
    }

    /// A title as plain text; in Atom it may say that it is plain already.
    pub(super) fn title(&self, tag: &Tag<'_>, is_atom: bool) -> Option<String> {
        if !is_atom {
            return filled(text::title(&self.html()?));
        }
        let kind = tag.attribute("type").unwrap_or_default().to_ascii_lowercase();
        if let Some(decoded) = self.decoded_base64(tag, &kind) {
            return filled(text::title(&decoded));
        }
        if !self.has_children && !kind.contains("html") {
            return self.line();
        }
        filled(text::title(&self.html()?))
    }

    /// Atom 0.3 says so; in Atom 1.0 everything is Base64 that is neither text nor XML.
    fn decoded_base64(&self, tag: &Tag<'_>, kind: &str) -> Option<String> {
        let is_other = kind.contains('/') && !kind.starts_with("text/") && !kind.contains("xml");
        let mode = tag.attribute("mode");
        let is_encoded = mode.as_ref().map_or(is_other, |mode| mode.eq_ignore_ascii_case("base64"));
        if !is_encoded || self.has_children {
            return None;
        }
        let bytes = base64(&self.text)?;
        let text = UTF_8.decode_without_bom_handling_and_without_replacement(&bytes);
        let text = text.unwrap_or_else(|| WINDOWS_1252.decode_without_bom_handling(&bytes).0);
        Some(text.into_owned())
    }
}

/// The text up to a limit in bytes, at a character's boundary.
pub(super) fn cut(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

/// The text, unless there is none.
pub(super) fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// XHTML stands in a `div` that is not part of it.
fn without_wrapper(html: &str) -> &str {
    let inside = || {
        let (open, rest) = html.split_once('>')?;
        let (inside, end) = rest.rsplit_once("</")?;
        let is_div = |name: &str| local(name.trim()) == "div";
        let name = open.strip_prefix('<')?.split_ascii_whitespace().next()?;
        (is_div(name) && is_div(end.strip_suffix('>')?)).then_some(inside.trim())
    };
    inside().unwrap_or(html)
}

/// Decodes Base64, with white space anywhere and with padding or without.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| {
        Some(u32::from(match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        }))
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0);
    for b in text.trim_end_matches(['=', ' ', '\n', '\r', '\t']).bytes() {
        if b.is_ascii_whitespace() {
            continue;
        }
        bits = (bits << 6) | digit(b)?;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from((bits >> held) & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_or_is_none() {
        for (text, bytes) in [
            ("", Some("")),
            ("QQ==", Some("A")),
            (" Q U\nI ", Some("AB")),
            ("QUJD", Some("ABC")),
            ("not base64!", None),
        ] {
            assert_eq!(base64(text), bytes.map(|bytes| bytes.as_bytes().to_vec()), "{text}");
        }
    }
}
