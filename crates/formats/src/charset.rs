//! From bytes to text: which encoding a document is really in.
//!
//! What the sender says is believed unless the bytes say clearly otherwise. No input fails: what
//! cannot be decoded is replaced and `replaced` says so.

use std::borrow::Cow;
use std::ops::Range;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Where a declaration is looked for, in bytes from the start.
const DECLARATION_WITHIN: usize = 1_024;
/// How much is looked at for a guess; more changes no guess and costs time.
const GUESS_FROM: usize = 1 << 20;

/// How a document declares its own encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// In the XML declaration.
    Xml,
    /// In a `meta` element.
    Html,
}

/// A document as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The text, borrowed when the bytes were UTF-8 already.
    pub text: Cow<'a, str>,
    /// The encoding it was in, by its usual name, as `windows-1252`.
    pub encoding: &'static str,
    /// Whether something could not be decoded and stands as U+FFFD.
    pub replaced: bool,
    /// An encoding that header or document name and that is not the one it is in.
    pub conflict: Option<&'static str>,
    /// Bytes of the mark before the text.
    mark: usize,
}

impl Decoded<'_> {
    /// Where a part of the text is in the bytes that it was decoded from; `None` where that cannot be
    /// told, as beside characters that could not be decoded.
    ///
    /// Parts are asked for in their order: `place` remembers how far the bytes were counted.
    #[must_use]
    pub fn place(
        &self,
        bytes: &[u8],
        part: &Range<usize>,
        place: &mut Place,
    ) -> Option<Range<usize>> {
        let bytes = bytes.get(self.mark..)?;
        let encoding = Encoding::for_label(self.encoding.as_bytes())?;
        // Most documents: the text is the bytes.
        if encoding == UTF_8 && !self.replaced {
            return Some(part.start + self.mark..part.end + self.mark);
        }
        let start = place.go_to(&self.text, part.start, bytes, encoding)?;
        let end = place.go_to(&self.text, part.end, bytes, encoding)?;
        let is_there = || {
            let (text, _) = encoding.decode_without_bom_handling(bytes.get(start..end)?);
            (Some(&*text) == self.text.get(part.clone())).then_some(())
        };
        is_there()?;
        Some(start + self.mark..end + self.mark)
    }
}

/// How far the bytes of a text were counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    text: usize,
    bytes: usize,
}

impl Place {
    fn go_to(
        &mut self,
        text: &str,
        to: usize,
        bytes: &[u8],
        encoding: &'static Encoding,
    ) -> Option<usize> {
        if to < self.text {
            *self = Self::default();
        }
        let passed = text.get(self.text..to)?;
        self.bytes += if encoding == UTF_8 {
            utf8_length(passed, bytes.get(self.bytes..)?)
        } else if encoding == UTF_16LE || encoding == UTF_16BE {
            2 * passed.encode_utf16().count()
        } else if encoding.is_single_byte() {
            passed.chars().count()
        } else {
            encoding.encode(passed).0.len()
        };
        self.text = to;
        Some(self.bytes)
    }
}

/// The bytes that such a text was decoded from: broken ones stand as one character for each run.
fn utf8_length(text: &str, bytes: &[u8]) -> usize {
    let (mut left, mut passed) = (text.len(), 0);
    // A run of broken bytes is no longer than the character in its place: what is behind that is not
    // looked at, as there may be many texts before it.
    let bytes = bytes.get(..text.len() + 4).unwrap_or(bytes);
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid().len();
        if left <= valid {
            return passed + left;
        }
        let broken = chunk.invalid().len();
        left = left.saturating_sub(valid + char::REPLACEMENT_CHARACTER.len_utf8());
        passed += valid + broken;
        if left == 0 {
            break;
        }
    }
    passed
}

/// Decodes a document: by its byte order mark, else as the header says, else as it says itself,
/// else as UTF-8 if it is valid, else by a guess.
#[must_use]
pub fn decode<'a>(bytes: &'a [u8], content_type: Option<&str>, markup: Markup) -> Decoded<'a> {
    if let Some((encoding, length)) = Encoding::for_bom(bytes) {
        let bytes = bytes.get(length..).unwrap_or_default();
        let said = [content_type.and_then(header_charset), own_charset(bytes, markup)];
        return Decoded { mark: length, ..decoded(bytes, encoding, said) };
    }
    if let Some(encoding) = wide_without_mark(bytes) {
        return decoded(bytes, encoding, [None, None]);
    }
    let said = [content_type.and_then(header_charset), own_charset(bytes, markup)];
    // As strict as the standard library's check, and several times as fast.
    let Ok(text) = simdutf8::basic::from_utf8(bytes) else {
        return decoded(bytes, not_utf8(bytes, said), said);
    };
    let declared = said.into_iter().flatten().next().unwrap_or(UTF_8);
    if declared == UTF_8 || is_surely_utf8(text, declared) {
        // Plain ASCII is the same in all of them.
        let said = if text.is_ascii() { [None, None] } else { said };
        let (text, conflict) = (Cow::Borrowed(text), conflict(UTF_8, said));
        return Decoded { text, encoding: UTF_8.name(), replaced: false, conflict, mark: 0 };
    }
    decoded(bytes, declared, said)
}

type Said = [Option<&'static Encoding>; 2];

fn decoded<'a>(bytes: &'a [u8], encoding: &'static Encoding, said: Said) -> Decoded<'a> {
    let (text, replaced) = encoding.decode_without_bom_handling(bytes);
    let conflict = if bytes.is_ascii() { None } else { conflict(encoding, said) };
    Decoded { text, encoding: encoding.name(), replaced, conflict, mark: 0 }
}

/// What was said and is not so; UTF-16 is decided by a mark, whatever is said in it.
fn conflict(is: &'static Encoding, said: Said) -> Option<&'static str> {
    if is == UTF_16LE || is == UTF_16BE {
        return None;
    }
    said.into_iter().flatten().find(|said| *said != is).map(Encoding::name)
}

/// Text that is valid UTF-8 beyond ASCII is hardly ever anything else. A few pairs of letters of
/// an Asian encoding can look so, therefore it takes more of them there.
fn is_surely_utf8(text: &str, declared: &'static Encoding) -> bool {
    let enough = if declared.is_single_byte() { 1 } else { 4 };
    text.chars().filter(|c| !c.is_ascii()).take(enough).count() == enough
}

/// The encoding of bytes that are not valid UTF-8, whatever was said.
fn not_utf8(bytes: &[u8], said: Said) -> &'static Encoding {
    let is_damaged_utf8 = is_mostly_utf8(bytes);
    let fits = |encoding: &&'static Encoding| {
        if *encoding == UTF_8 {
            return is_damaged_utf8;
        }
        encoding.decode_without_bom_handling_and_without_replacement(bytes).is_some()
    };
    let declared = said.into_iter().flatten();
    if let Some(encoding) = declared.clone().find(fits) {
        return encoding;
    }
    match declared.into_iter().find(|encoding| *encoding != UTF_8) {
        _ if is_damaged_utf8 => UTF_8,
        Some(encoding) => encoding,
        None => guess(bytes),
    }
}

/// Whether broken bytes are rare beside what is valid UTF-8 beyond ASCII.
fn is_mostly_utf8(bytes: &[u8]) -> bool {
    let (mut good, mut broken) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    good >= broken.saturating_mul(4)
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(bytes.get(..GUESS_FROM).unwrap_or(bytes), true);
    detector.guess(None, Utf8Detection::Deny)
}

/// UTF-16 whose byte order mark was lost: markup starts with `<`.
fn wide_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    match bytes {
        [b'<', 0, _, 0, ..] => Some(UTF_16LE),
        [0, b'<', 0, _, ..] => Some(UTF_16BE),
        _ => None,
    }
}

/// The charset parameter of a `Content-Type`.
fn header_charset(content_type: &str) -> Option<&'static Encoding> {
    let (_, label) = content_type
        .split(';')
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    of_label(label.trim().trim_matches(['"', '\'']))
}

/// What the document says of itself; in text read as ASCII so far, UTF-16 must be a lie.
fn own_charset(bytes: &[u8], markup: Markup) -> Option<&'static Encoding> {
    let head = bytes.get(..DECLARATION_WITHIN).unwrap_or(bytes);
    let (head, _) = WINDOWS_1252.decode_without_bom_handling(head);
    let lower = head.to_ascii_lowercase();
    match markup {
        Markup::Xml => {
            let (_, declaration) = lower.split_once("<?xml")?;
            let (declaration, _) = declaration.split_once("?>").unwrap_or((declaration, ""));
            label_after(declaration, "encoding")
        }
        Markup::Html => lower.split("<meta").skip(1).find_map(|meta| {
            let (meta, _) = meta.split_once('>').unwrap_or((meta, ""));
            label_after(meta, "charset")
        }),
    }
}

/// The encoding in `name="label"`, quoted or not, with spaces or without.
fn label_after(text: &str, name: &str) -> Option<&'static Encoding> {
    let (_, rest) = text.split_once(name)?;
    let value = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = |c: char| c.is_ascii_whitespace() || matches!(c, '"' | '\'' | ';' | '/' | '?');
    of_label(value.split(end).next()?)
}

fn of_label(label: &str) -> Option<&'static Encoding> {
    let encoding = Encoding::for_label_no_replacement(label.as_bytes())?;
    Some(if encoding == UTF_16LE || encoding == UTF_16BE { UTF_8 } else { encoding })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn reads(bytes: &[u8], header: Option<&str>, markup: Markup, encoding: &str, text: &str) {
        let decoded = decode(bytes, header, markup);
        assert_eq!((decoded.encoding, &*decoded.text), (encoding, text));
    }

    #[test]
    fn utf_8_is_borrowed() {
        let decoded = decode("caf\u{e9}".as_bytes(), None, Markup::Xml);
        assert!(matches!(decoded.text, Cow::Borrowed("caf\u{e9}")));
        assert!(!decoded.replaced);
        assert!(matches!(decode(b"\xef\xbb\xbfx", None, Markup::Xml).text, Cow::Borrowed("x")));
    }

    #[test]
    fn a_byte_order_mark_beats_the_header() {
        let header = Some("text/xml; charset=iso-8859-1");
        reads(b"\xef\xbb\xbfcaf\xc3\xa9", header, Markup::Xml, "UTF-8", "caf\u{e9}");
        reads(b"\xfe\xff\0<\0a", header, Markup::Xml, "UTF-16BE", "<a");
        reads(b"<\0a\0>\0", None, Markup::Xml, "UTF-16LE", "<a>");
    }

    #[test]
    fn the_header_beats_the_declaration() {
        let bytes = b"<?xml version='1.0' encoding='koi8-r'?>\xe9";
        let text = "<?xml version='1.0' encoding='koi8-r'?>\u{439}";
        let header = Some("application/xml; Charset=\"windows-1251\"");
        reads(bytes, header, Markup::Xml, "windows-1251", text);
    }

    #[test]
    fn a_document_declares_itself() {
        let xml = b"<?xml version=\"1.0\" encoding = \"windows-1251\" ?>\xe9";
        assert_eq!(decode(xml, Some("text/xml"), Markup::Xml).encoding, "windows-1251");
        let html = b"<html><meta name=x><meta charset=windows-1250>\xe8";
        assert_eq!(decode(html, None, Markup::Html).encoding, "windows-1250");
        let old = b"<META http-equiv=x content='text/html; charset=Shift_JIS'>\x83\x65\x83\x58";
        assert_eq!(decode(old, None, Markup::Html).encoding, "Shift_JIS");
    }

    #[test]
    fn a_declaration_that_the_bytes_deny_is_not_believed() {
        let utf8 = "<?xml version='1.0' encoding='iso-8859-1'?>\u{439}\u{439}".as_bytes();
        assert_eq!(decode(utf8, Some("text/xml; charset=us-ascii"), Markup::Xml).encoding, "UTF-8");
        let latin = b"<?xml version='1.0' encoding='utf-8'?>na\xefve caf\xe9s, d\xe9j\xe0 vu";
        let decoded = decode(latin, None, Markup::Xml);
        assert_eq!((decoded.encoding, decoded.replaced), ("windows-1252", false));
        let wide = b"<?xml version='1.0' encoding='utf-16'?>plain";
        assert_eq!(decode(wide, None, Markup::Xml).encoding, "UTF-8");
    }

    #[test]
    fn damaged_utf_8_stays_utf_8() {
        let mut bytes =
            "<?xml version='1.0'?>\u{439}\u{439}\u{439}\u{439}\u{439}".as_bytes().to_vec();
        bytes.pop();
        let decoded = decode(&bytes, None, Markup::Xml);
        assert_eq!((decoded.encoding, decoded.replaced), ("UTF-8", true));
        assert!(decoded.text.ends_with('\u{fffd}'));
    }

    #[test]
    fn nothing_said_is_guessed() {
        let bytes =
            b"\xcf\xf0\xe8\xe2\xe5\xf2, \xea\xe0\xea \xe4\xe5\xeb\xe0 \xf3 \xf2\xe5\xe1\xff";
        assert_eq!(decode(bytes, None, Markup::Html).encoding, "windows-1251");
    }

    proptest! {
        #[test]
        fn any_bytes_become_text(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let header = Some("text/html; charset=big5");
            let decoded = decode(&bytes, header, Markup::Html);
            prop_assert!(decoded.text.len() <= bytes.len() * 3);
            prop_assert!(decode(&bytes, None, Markup::Xml).text.len() <= bytes.len() * 3);
        }
    }
}
