//! Whom a line names.

use super::Author;
use crate::url::MAX_LEN;
use crate::xml::text;

/// The most bytes of a name or a mail address; what is beyond is cut off.
const LONGEST_NAME: usize = 1_000;

/// The people that a line names: one, or a list of them.
///
/// A comma, an `and` or a stroke separates people only where every part is a full name: `Ada Lovelace,
/// Grace Hopper` are two, `Lovelace, Ada` and `de la Cruz, Juana Ines` are one.
pub(super) fn people(line: &str) -> Vec<Author> {
    let line = text::one_line(&text::unescape(line));
    let is_odd = |b: u8| matches!(b, b';' | b',' | b'&' | b'(' | b'<' | b'@' | b'/' | b'|');
    if !line.is_empty() && !line.bytes().any(is_odd) && !line.contains(" and ") {
        return vec![Author { name: Some(line), ..Author::default() }];
    }
    let listed = |parts: Vec<&str>, are: fn(&str) -> bool| {
        (parts.len() > 1 && parts.iter().all(|part| are(part)))
            .then(|| parts.into_iter().filter_map(person).collect())
    };
    let by_semicolon = line.split(';').map(str::trim).filter(|part| !part.is_empty()).collect();
    let by_comma = line.split([',', '&', '|']).flat_map(|part| part.split(" and "));
    let by_comma = by_comma.flat_map(|part| part.split(" / "));
    let by_comma = by_comma.map(str::trim).filter(|part| !part.is_empty()).collect();
    listed(by_semicolon, |_| true)
        .or_else(|| listed(by_comma, is_full_name).filter(|_| !is_turned(&line)))
        .unwrap_or_else(|| person(&line).into_iter().collect())
}

/// The person without what is beyond the limit of a name, and without a page whose address is too long.
/// Entries inherit people, so that this must happen as soon as they are read.
pub(super) fn cut_person(mut person: Author) -> Author {
    for text in [&mut person.name, &mut person.email].into_iter().flatten() {
        if text.len() > LONGEST_NAME {
            text.truncate(text.floor_char_boundary(LONGEST_NAME));
            text.shrink_to_fit();
        }
    }
    person.uri.take_if(|uri| uri.len() > MAX_LEN);
    person
}

/// Whether a line is one name, the family's before the comma: that starts with a particle.
fn is_turned(line: &str) -> bool {
    const PARTICLES: [&str; 12] =
        ["van", "von", "de", "da", "di", "del", "della", "du", "la", "le", "el", "al"];
    let first = line.split([' ', '-']).next().unwrap_or_default().to_lowercase();
    line.matches(',').count() == 1 && PARTICLES.contains(&first.as_str())
}

fn is_full_name(part: &str) -> bool {
    let words: Vec<_> = part.split(' ').collect();
    let is_name = |word: &&str| {
        word.starts_with(|c: char| c.is_alphabetic())
            && !word.contains(|c: char| c.is_ascii_digit() || c == '@')
    };
    let last = words.last().copied().unwrap_or_default();
    let is_capital = |word: &str| word.starts_with(|c: char| !c.is_lowercase());
    (2..=4).contains(&words.len())
        && words.iter().all(is_name)
        && words.first().is_some_and(|first| is_capital(first))
        && is_capital(last)
        && last.chars().filter(|c| c.is_alphabetic()).count() > 1
}

/// The person of a line: `Name`, `mail@host`, `mail@host (Name)` or `Name <mail@host>`.
fn person(line: &str) -> Option<Author> {
    let apart = |open: char, close: char| {
        let (before, rest) = line.split_once(open)?;
        let (inside, after) = rest.split_once(close)?;
        after.trim().is_empty().then_some((before.trim(), inside.trim()))
    };
    let (name, email) = match (apart('(', ')'), apart('<', '>')) {
        (Some((email, name)), _) if is_email(email) => (name, email),
        (Some((name, email)), _) | (_, Some((name, email))) if is_email(email) => (name, email),
        _ if is_email(line) => ("", line),
        _ => (line, ""),
    };
    let email = email.strip_prefix("mailto:").unwrap_or(email);
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let author = Author { name: given(name), email: given(email), uri: None };
    (author != Author::default()).then_some(author)
}

fn is_email(text: &str) -> bool {
    let sound = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
    text.split_once('@').is_some_and(|(user, host)| sound(user) && sound(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_person() {
        for (line, name, email) in [
            ("Ada Lovelace", Some("Ada Lovelace"), None),
            ("ada@example.com", None, Some("ada@example.com")),
            ("ada@example.com (Ada &amp; Co)", Some("Ada & Co"), Some("ada@example.com")),
            ("Ada <ada@example.com>", Some("Ada"), Some("ada@example.com")),
            ("Ada (ada@example.com)", Some("Ada"), Some("ada@example.com")),
            ("Ada (staff)", Some("Ada (staff)"), None),
            ("Lovelace, Ada", Some("Lovelace, Ada"), None),
            ("Smith, J., Miller, K.", Some("Smith, J., Miller, K."), None),
            ("Van Gogh, Vincent Willem", Some("Van Gogh, Vincent Willem"), None),
            ("Ada, Bob", Some("Ada, Bob"), None),
            ("Ada Lovelace, Staff", Some("Ada Lovelace, Staff"), None),
            ("AC/DC", Some("AC/DC"), None),
            ("Barnes and Noble", Some("Barnes and Noble"), None),
            (
                "Ada Lovelace, Countess of Lovelace 1",
                Some("Ada Lovelace, Countess of Lovelace 1"),
                None,
            ),
        ] {
            let authors = people(line);
            let [author] = authors.as_slice() else { panic!("{line}: {authors:?}") };
            assert_eq!((author.name.as_deref(), author.email.as_deref()), (name, email), "{line}");
        }
        assert_eq!(people("  "), []);
    }

    #[test]
    fn a_line_names_several() {
        for line in [
            "Ada Lovelace, Grace Hopper",
            "Ada Lovelace and Grace Hopper",
            "Ada Lovelace &amp; Grace Hopper",
            "Ada Lovelace; Grace Hopper;",
            "Ada Lovelace / Grace Hopper",
            "Ada Lovelace | Grace Hopper",
        ] {
            let names: Vec<_> = people(line).into_iter().filter_map(|author| author.name).collect();
            assert_eq!(names, ["Ada Lovelace", "Grace Hopper"], "{line}");
        }
    }
}
