//! Text into markup: escaping, slugs and the date forms of the web. Pure; never reads a clock.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Escapes for XML and HTML, in text and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// Lower-case ASCII words with dashes between, at most eight of them.
pub(crate) fn slug(text: &str) -> String {
    let folded: String = text.chars().flat_map(char::to_lowercase).map(fold).collect();
    let words = folded.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).take(8).collect::<Vec<_>>().join("-")
}

fn fold(letter: char) -> char {
    match letter {
        'à' | 'á' | 'â' | 'ä' => 'a',
        'è' | 'é' | 'ê' | 'ë' => 'e',
        'í' | 'î' | 'ï' => 'i',
        'ó' | 'ô' | 'ö' => 'o',
        'ù' | 'ú' | 'û' | 'ü' => 'u',
        'ç' => 'c',
        'ñ' => 'n',
        'ß' => 's',
        _ => letter,
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, for HTTP and RSS.
pub(crate) fn http_date(at: i64) -> String {
    moment(at).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// `1994-11-06T08:49:37Z`, for Atom, sitemaps and pages.
pub(crate) fn rfc3339(at: i64) -> String {
    moment(at).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `6.11.1994, 08:49`, for readers.
pub(crate) fn reading_date(at: i64) -> String {
    moment(at).strftime("%-d.%-m.%Y, %H:%M").to_string()
}

/// `1994-11`, the name of a sitemap.
pub(crate) fn month(at: i64) -> String {
    moment(at).strftime("%Y-%m").to_string()
}

/// `1994/11/06`, for story paths.
pub(crate) fn day_path(at: i64) -> String {
    moment(at).strftime("%Y/%m/%d").to_string()
}

pub(crate) fn parse_http_date(text: &str) -> Option<i64> {
    let read = DateTime::strptime("%a, %d %b %Y %H:%M:%S GMT", text.trim()).ok()?;
    Some(read.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

/// The first millisecond of a month written as `1994-11`, and that of the month after it.
pub(crate) fn month_bounds(text: &str) -> Option<(i64, i64)> {
    let first = DateTime::strptime("%Y-%m-%d %H:%M", format!("{text}-01 00:00")).ok()?;
    let next = first.checked_add(jiff::Span::new().months(1)).ok()?;
    let at = |it: DateTime| Some(it.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond());
    Some((at(first)?, at(next)?))
}

fn moment(at: i64) -> Timestamp {
    Timestamp::from_millisecond(at).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_in_each_form() {
        let at = 784_111_777_000;
        assert_eq!(http_date(at), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(parse_http_date(&http_date(at)), Some(at));
        assert_eq!(rfc3339(at), "1994-11-06T08:49:37Z");
        assert_eq!(day_path(at), "1994/11/06");
        let (from, to) = month_bounds(&month(at)).unwrap();
        assert!(from < at && at < to && to - from == 30 * 86_400_000);
        assert_eq!(parse_http_date("yesterday"), None);
    }

    #[test]
    fn slugs_are_plain_ascii() {
        assert_eq!(slug("Große Élan: señor & Söhne, 7"), "grose-elan-senor-sohne-7");
    }
}
