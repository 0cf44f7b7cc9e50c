//! Text inside markup: entities, tags to be dropped, characters that must not get through.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use encoding_rs::WINDOWS_1252;
use memchr::memchr;

/// HTML's names for U+00A0 to U+00FF, in that order.
const LATIN_1: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy \
    reg macr deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 \
    frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml \
    Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave \
    Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil \
    egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml \
    divide oslash ugrave uacute ucirc uuml yacute thorn yuml";

/// The Greek capitals from U+0391, then the small letters from U+03B1; `-` stands where there is
/// none.
const GREEK: &str = "Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda Mu Nu Xi \
    Omicron Pi Rho - Sigma Tau Upsilon Phi Chi Psi Omega - - - - - - - alpha beta gamma delta \
    epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigmaf sigma tau upsilon phi \
    chi psi omega";

/// The other names of HTML 4, each followed by its code point in hexadecimal.
const SYMBOLS: &str = "OElig 152 oelig 153 Scaron 160 scaron 161 Yuml 178 fnof 192 circ 2c6 tilde 2dc ensp 2002 \
    emsp 2003 thinsp 2009 zwnj 200c zwj 200d lrm 200e rlm 200f ndash 2013 mdash 2014 lsquo \
    2018 rsquo 2019 sbquo 201a ldquo 201c rdquo 201d bdquo 201e dagger 2020 Dagger 2021 bull \
    2022 hellip 2026 permil 2030 prime 2032 Prime 2033 lsaquo 2039 rsaquo 203a oline 203e \
    frasl 2044 euro 20ac trade 2122 larr 2190 uarr 2191 rarr 2192 darr 2193 harr 2194 rArr \
    21d2 hArr 21d4 part 2202 prod 220f sum 2211 minus 2212 radic 221a infin 221e asymp 2248 ne \
    2260 le 2264 ge 2265 loz 25ca spades 2660 clubs 2663 hearts 2665 diams 2666 thetasym 3d1 \
    upsih 3d2 piv 3d6 weierp 2118 image 2111 real 211c alefsym 2135 crarr 21b5 lArr 21d0 uArr \
    21d1 dArr 21d3 forall 2200 exist 2203 empty 2205 nabla 2207 isin 2208 notin 2209 ni 220b \
    lowast 2217 prop 221d ang 2220 and 2227 or 2228 cap 2229 cup 222a int 222b there4 2234 sim \
    223c cong 2245 equiv 2261 sub 2282 sup 2283 nsub 2284 sube 2286 supe 2287 oplus 2295 \
    otimes 2297 perp 22a5 sdot 22c5 lceil 2308 rceil 2309 lfloor 230a rfloor 230b lang 2329 \
    rang 232a";

/// What was odd about text, for those who can mend it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    /// An `&` that starts no entity.
    pub(crate) bare_ampersand: Seen,
    /// A `<` that starts no tag.
    pub(crate) bare_bracket: Seen,
    /// A name that HTML has and XML has not.
    pub(crate) html_entity: Seen,
    /// A name that nobody knows.
    pub(crate) unknown_entity: Seen,
    /// A control character that was written by its number.
    pub(crate) control: Seen,
}

/// How often something was seen, and the first case of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) count: u32,
    pub(crate) first: String,
}

impl Seen {
    /// Notes a case; only the start of the first one is kept.
    pub(crate) fn note(&mut self, case: &str) {
        if self.count == 0 {
            self.first = case.chars().take(20).collect();
        }
        self.count = self.count.saturating_add(1);
    }
}

/// HTML 4's names beyond those of XML.
static NAMES: LazyLock<HashMap<&'static str, char>> = LazyLock::new(|| {
    let latin = (0xa0..).zip(LATIN_1.split_ascii_whitespace());
    let greek = (0x391..).zip(GREEK.split_ascii_whitespace()).filter(|(_, name)| *name != "-");
    let mut words = SYMBOLS.split_ascii_whitespace();
    let symbols = std::iter::from_fn(|| {
        let (name, code) = (words.next()?, words.next()?);
        Some((u32::from_str_radix(code, 16).ok()?, name))
    });
    let all = latin.chain(greek).chain(symbols);
    all.filter_map(|(code, name)| Some((name, char::from_u32(code)?))).collect()
});

/// The character that `name` of `&name;` stands for, by the names of XML and HTML 4 or by number.
pub(crate) fn entity(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        return numbered(number);
    }
    xml_entity(name).or_else(|| NAMES.get(name).copied())
}

fn xml_entity(name: &str) -> Option<char> {
    match name {
        "amp" | "AMP" => Some('&'),
        "lt" | "LT" => Some('<'),
        "gt" | "GT" => Some('>'),
        "quot" | "QUOT" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    }
}

/// `8217` or `x2019`; 128 to 159 mean what they mean in windows-1252, as they do in browsers.
fn numbered(number: &str) -> Option<char> {
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    match u8::try_from(code) {
        Ok(byte @ 0x80..=0x9f) => Some(windows_1252(byte)),
        _ => char::from_u32(code),
    }
}

fn windows_1252(byte: u8) -> char {
    let (text, _) = WINDOWS_1252.decode_without_bom_handling(std::slice::from_ref(&byte));
    text.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Decodes the entities of a text; what is none stays as it is.
pub(crate) fn unescape(text: &str) -> Cow<'_, str> {
    if memchr(b'&', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    unescape_noting(text, &mut Noted::default())
}

/// The same, and notes what was odd.
pub(crate) fn unescape_noting<'a>(text: &'a str, noted: &mut Noted) -> Cow<'a, str> {
    /// The longest name there is, with room for leading zeros.
    const LONGEST: usize = 12;
    let Some(first) = memchr(b'&', text.as_bytes()) else { return Cow::Borrowed(text) };
    let mut decoded = String::with_capacity(text.len());
    let (before, mut rest) = text.split_at_checked(first).unwrap_or((text, ""));
    decoded.push_str(before);
    while let Some(part) = rest.strip_prefix('&') {
        let end = part.bytes().take(LONGEST).position(|b| matches!(b, b';' | b'&' | b' ' | b'<'));
        let name =
            end.and_then(|end| part.get(..end).filter(|_| part.as_bytes().get(end) == Some(&b';')));
        rest = match name.and_then(|name| Some((name, entity(name)?))) {
            Some((name, c)) => {
                if !name.starts_with('#') && xml_entity(name).is_none() {
                    noted.html_entity.note(name);
                }
                if is_allowed(c) {
                    decoded.push(c);
                } else {
                    noted.control.note(rest);
                }
                part.get(name.len() + 1..).unwrap_or_default()
            }
            None => {
                match name.filter(|name| {
                    name.bytes().all(|b| b.is_ascii_alphanumeric()) && !name.is_empty()
                }) {
                    Some(name) => noted.unknown_entity.note(name),
                    None => noted.bare_ampersand.note(rest),
                }
                decoded.push('&');
                part
            }
        };
        let next = memchr(b'&', rest.as_bytes()).unwrap_or(rest.len());
        let (before, after) = rest.split_at_checked(next).unwrap_or((rest, ""));
        decoded.push_str(before);
        rest = after;
    }
    Cow::Owned(decoded)
}

/// Makes text safe to stand in HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Whether a text may hold characters that [`clean`] takes out: a quick look at its bytes, right
/// when it says no.
fn may_need_cleaning(text: &str) -> bool {
    // First whole blocks by few comparisons and without a way out in between, so that the compiler
    // can look at many bytes at once; then those blocks that may only have line ends.
    let is_low = |b: u8| (b < 0x20) | (b == 0x7f) | (b == 0xc2) | (b == 0xef);
    let has_low = |block: &[u8]| block.iter().fold(false, |found, b| found | is_low(*b));
    let is_suspect = |b: u8| is_low(b) & (b != b'\t') & (b != b'\n') & (b != b'\r');
    let has_suspect = |block: &[u8]| block.iter().fold(false, |found, b| found | is_suspect(*b));
    let suspect = |block: &[u8]| has_low(block) && has_suspect(block);
    let mut blocks = text.as_bytes().chunks_exact(64);
    blocks.any(suspect) || suspect(blocks.remainder())
}

fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r') || !(c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'))
}

/// How many control characters a text holds, and the first of them.
pub(crate) fn controls(text: &str) -> Seen {
    let mut seen = Seen::default();
    if may_need_cleaning(text) {
        for c in text.chars().filter(|c| !is_allowed(*c)) {
            match seen.count {
                0 => seen.note(&format!("U+{:04X}", u32::from(c))),
                _ => seen.note(""),
            }
        }
    }
    seen
}

/// Whether a text holds control characters.
pub(crate) fn has_controls(text: &str) -> bool {
    may_need_cleaning(text) && !text.chars().all(is_allowed)
}

/// Drops the control characters that XML forbids and publishers send; those of the second block
/// are windows-1252 that was taken for Latin-1.
pub(crate) fn clean(text: String) -> String {
    if !has_controls(&text) {
        return text;
    }
    let repaired = text.chars().map(|c| match u8::try_from(c) {
        Ok(byte @ 0x80..=0x9f) => windows_1252(byte),
        _ => c,
    });
    repaired.filter(|c| is_allowed(*c)).collect()
}

/// Text on one line: runs of white space become one space, and none is left at the ends.
pub(crate) fn one_line(text: &str) -> String {
    let text = text.trim_ascii();
    if is_plain_line(text) {
        return text.to_owned();
    }
    let mut line = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() && c != '\u{a0}').filter(|w| !w.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    clean(line)
}

/// Whether a text is surely one line as it is: a quick look at its bytes, right when it says yes.
fn is_plain_line(text: &str) -> bool {
    // White space and control characters beyond ASCII start with one of these. No way out in
    // between, so that the compiler can look at many bytes at once.
    let is_odd =
        |b: u8| (b < b' ') | (b == 0x7f) | (b == 0xc2) | (b == 0xef) | (b.wrapping_sub(0xe1) < 3);
    let bytes = text.as_bytes();
    let is_gap = |(a, b): (&u8, &u8)| (*a == b' ') & (*b == b' ');
    let odd = bytes.iter().fold(false, |found, b| found | is_odd(*b));
    let after = bytes.get(1..).unwrap_or_default();
    let gaps = bytes.iter().zip(after).fold(false, |found, pair| found | is_gap(pair));
    !odd && !gaps
}

/// HTML as one line of plain text.
#[must_use]
pub fn plain(html: &str) -> String {
    if memchr(b'<', html.as_bytes()).is_some() {
        one_line(&unescape(&without_tags(html, true)))
    } else {
        one_line(&unescape(html))
    }
}

/// A title that may hold markup, as one line of plain text. Nobody puts scripts into a title: a tag
/// of that name is spoken of, and what follows it stays.
pub(crate) fn title(html: &str) -> String {
    if memchr(b'<', html.as_bytes()).is_some() {
        one_line(&unescape(&without_tags(html, false)))
    } else {
        plain(html)
    }
}

fn without_tags(html: &str, mut hides: bool) -> String {
    let mut kept = String::with_capacity(html.len());
    let mut rest = html;
    // Once an end is missing it is missing for good, and must not be looked for again.
    let mut comments = true;
    while let Some((before, after)) = rest.split_once('<') {
        kept.push_str(before);
        if let Some(comment) = after.strip_prefix("!--").filter(|_| comments) {
            match comment.split_once("-->") {
                Some((_, following)) => {
                    rest = following;
                    continue;
                }
                None => comments = false,
            }
        }
        let Some((tag, following)) = split_tag(after) else {
            kept.push('<');
            rest = after;
            continue;
        };
        let name = tag_name(tag);
        // Words on both sides of a line break or a paragraph must not grow together.
        if !is_inline(name) {
            kept.push(' ');
        }
        rest = following;
        if hides && !tag.starts_with('/') && !tag.ends_with('/') && is_hidden(name) {
            match end_tag(following, name) {
                Some(end) => rest = end,
                None => hides = false,
            }
        }
    }
    kept.push_str(rest);
    kept
}

/// The tag whose `<` was just read and what follows it, or `None` when there is no tag.
fn split_tag(after: &str) -> Option<(&str, &str)> {
    let first = after.chars().next()?;
    if !(first.is_ascii_alphabetic() || matches!(first, '/' | '!' | '?')) {
        return None;
    }
    let end = after.find(['<', '>'])?;
    let (tag, rest) = after.split_at_checked(end)?;
    Some((tag, rest.strip_prefix('>')?))
}

/// The text from the end tag of this name on.
fn end_tag<'a>(html: &'a str, name: &str) -> Option<&'a str> {
    html.match_indices("</").find_map(|(at, _)| {
        let rest = html.get(at..)?;
        let found = rest.get(2..2 + name.len())?;
        found.eq_ignore_ascii_case(name).then_some(rest)
    })
}

fn is_hidden(name: &str) -> bool {
    name.eq_ignore_ascii_case("script") || name.eq_ignore_ascii_case("style")
}

fn tag_name(tag: &str) -> &str {
    let tag = tag.trim_start_matches('/');
    tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or(tag)
}

fn is_inline(name: &str) -> bool {
    const INLINE: &str =
        " a abbr b bdi big cite code em font i mark q s small span strong sub sup u ";
    let name = name.to_ascii_lowercase();
    INLINE.split(' ').any(|inline| inline == name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn entities_are_decoded_and_the_rest_stays() {
        for (text, decoded) in [
            ("&lt;&amp;&gt;&nbsp;&yuml;&Aacute;", "<&>\u{a0}\u{ff}\u{c1}"),
            ("&alpha;&omega;&Omega;&Alpha;&sigmaf;", "\u{3b1}\u{3c9}\u{3a9}\u{391}\u{3c2}"),
            ("&#38;&#x26;&#X26;&#151;&#0000038;", "&&&\u{2014}&"),
            ("&euro;&hellip;&rang;&OElig;", "\u{20ac}\u{2026}\u{232a}\u{152}"),
            ("a & b &; &nope; &#xd800; &#-1; &-;", "a & b &; &nope; &#xd800; &#-1; &-;"),
            ("AT&T; x?a=1&copy=2", "AT&T; x?a=1&copy=2"),
        ] {
            assert_eq!(unescape(text), decoded);
        }
    }

    #[test]
    fn plain_text_has_no_tags_and_one_line() {
        for (html, text) in [
            ("<b>AT&amp;T</b> &#8211; <i>x</i>y", "AT&T \u{2013} xy"),
            ("one<br/>two<p>three</p>\n\t four", "one two three four"),
            ("1 < 2, a <3 b", "1 < 2, a <3 b"),
            ("a<script>if (1 < 2) x()</script>b<STYLE>c</STYLE>", "a b"),
            ("how to use <script> at all", "how to use at all"),
            ("a<!-- <b>x</b> -->b <unclosed", "ab <unclosed"),
            ("bell\u{7}, nul\0, don\u{92}t\u{81}", "bell, nul, don\u{2019}t"),
        ] {
            assert_eq!(plain(html), text);
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[a-z<>&;#x0-9!/ \u{e9}-]{0,60}") {
            prop_assert!(plain(&text).len() <= text.len() * 2);
            prop_assert!(unescape(&text).len() <= text.len());
        }

        #[test]
        fn escaping_is_undone(text in "\\PC{0,40}") {
            let escaped = escape(&text);
            prop_assert_eq!(unescape(&escaped).into_owned(), text);
        }
    }
}
