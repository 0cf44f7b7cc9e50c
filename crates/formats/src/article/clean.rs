//! What the words of a short text say about it, and texts made tidy.
//!
//! Phrases are only ever held against short blocks: a paragraph that happens to speak of cookies
//! or newsletters is a paragraph.

use std::collections::HashSet;

use dom_query::Document;

use crate::simhash::words;

/// Starts of lines that lead away from the article, in lower case.
const LEADS_AWAY: &[&str] = &[
    "about the author",
    "advertisement",
    "all rights reserved",
    "also read",
    "anzeige",
    "article continues",
    "back to top",
    "click here",
    "comments",
    "continue reading",
    "copyright",
    "don't miss",
    "download our app",
    "download the app",
    "filed under",
    "follow us",
    "image credit",
    "image:",
    "in pictures:",
    "join our",
    "leave a comment",
    "leave a reply",
    "lees ook",
    "leer más",
    "lesen sie auch",
    "lire aussi",
    "lire la suite",
    "listen to this article",
    "more from",
    "more on this",
    "more stories",
    "more:",
    "mehr zum thema",
    "most popular",
    "most read",
    "newsletter",
    "photo by",
    "photo:",
    "picture:",
    "post a comment",
    "posted in",
    "read also",
    "read more",
    "read next",
    "recommended",
    "related articles",
    "related posts",
    "related stories",
    "related topics",
    "related:",
    "see also",
    "share on",
    "share this",
    "sign up for",
    "sign up to",
    "skip to",
    "sponsored",
    "story continues",
    "subscribe",
    "support us",
    "tags:",
    "this article was originally published",
    "topics:",
    "trending",
    "watch:",
    "weiterlesen",
    "werbung",
    "you may also like",
    "you might also like",
    "à lire aussi",
    "©",
];
/// Starts of lines that say who wrote it or when; what follows must look like a name or a date.
const SAYS_WHO: &[&str] = &[
    "af",
    "author",
    "autor",
    "av",
    "by",
    "di",
    "door",
    "edited by",
    "editing by",
    "par",
    "por",
    "reporting by",
    "text",
    "von",
    "words by",
    "written by",
];
const SAYS_WHEN: &[&str] = &[
    "actualizado",
    "aktualisiert",
    "first published",
    "last modified",
    "last updated",
    "posted",
    "publicado",
    "published",
    "publié",
    "stand",
    "updated",
    "veröffentlicht",
];

/// Whether a line leads away from the article.
pub(super) fn leads_away(text: &str) -> bool {
    let start = fold_start(text);
    LEADS_AWAY.iter().any(|phrase| starts_with_word(&start, phrase))
}

/// Whether a line says who wrote the article or when.
pub(super) fn is_byline(text: &str) -> bool {
    if text.ends_with(['.', '!', '?']) && words(text).count() > 12 {
        return false;
    }
    let start = fold_start(text);
    let after = |phrase: &&str| {
        starts_with_word(&start, phrase).then(|| text.chars().skip(phrase.chars().count()))
    };
    SAYS_WHO.iter().filter_map(after).any(|mut rest| {
        // "By Jane Doe", not "By then": a capital must follow.
        rest.find(|c| c.is_alphabetic()).is_some_and(char::is_uppercase) && names_only(text, 8)
    }) || SAYS_WHEN.iter().filter_map(after).any(|mut rest| rest.any(|c| c.is_ascii_digit()))
}

/// Whether nearly all longer words of a short text are written as names are.
fn names_only(text: &str, at_most: usize) -> bool {
    let long: Vec<&str> = words(text).skip(1).filter(|word| word.chars().count() > 3).collect();
    let named = long.iter().filter(|word| word.starts_with(|c: char| !c.is_lowercase())).count();
    long.len() <= at_most && named * 3 >= long.len() * 2
}

/// Whether a line is nothing but a date, a time, or how long reading takes.
pub(super) fn is_date_line(text: &str) -> bool {
    let count = words(text).count();
    let digits = text.chars().filter(char::is_ascii_digit).count();
    count <= 9 && digits > 0 && {
        let folded = text.to_lowercase();
        folded.ends_with("min read")
            || folded.ends_with("minute read")
            || folded.ends_with(" ago")
            || !text.ends_with('.') && crate::date::parse(text).is_some()
    }
}

/// Whether a text ends as sentences do.
pub(super) fn ends_sentence(text: &str) -> bool {
    let end = text.trim_end_matches(['"', '\'', '”', '’', '»', '“', ')', ']', ' ']);
    end.ends_with(['.', '!', '?', '…', '。', '！', '？', ':', '؟', '।'])
}

fn fold_start(text: &str) -> String {
    text.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '©')
        .chars()
        .take(60)
        .flat_map(char::to_lowercase)
        .collect()
}

fn starts_with_word(text: &str, phrase: &str) -> bool {
    text.strip_prefix(phrase).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// The words of a text in one case, to compare texts by.
pub(super) fn fold(text: &str) -> String {
    words(&text.to_lowercase()).collect::<Vec<_>>().join(" ")
}

/// How alike two texts are by their words, 0 to 1.
pub(super) fn likeness(one: &str, other: &str) -> f32 {
    let (one, other) = (fold(one), fold(other));
    let one: HashSet<&str> = one.split_ascii_whitespace().collect();
    let other: HashSet<&str> = other.split_ascii_whitespace().collect();
    super::page::ratio(2 * one.intersection(&other).count(), one.len() + other.len())
}

/// One line: every run of white space as one space, none at the ends.
pub(super) fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The lines of a text that may hold markup or entities, each squeezed; empty ones are dropped.
pub(super) fn plain_lines(text: &str) -> Vec<String> {
    let marked = text.contains("</") || text.contains("<br") || text.contains("<p");
    let plain = if marked {
        let page = super::page::Page::read(&Document::from(text));
        page.blocks.into_iter().map(|block| block.text).collect::<Vec<_>>().join("\n")
    } else if text.contains('&') {
        // Without tags, only entities are left to be read.
        Document::fragment(text.replace('<', "&lt;")).text().to_string()
    } else {
        text.to_owned()
    };
    plain.lines().map(squeeze).filter(|line| !line.is_empty()).collect()
}

/// A declared value as one plain line; `None` when it says nothing.
pub(super) fn plain(text: &str) -> Option<String> {
    Some(plain_lines(text).join(" ")).filter(|line| !line.is_empty())
}

/// The text, cut at the end of a word when it has more than `most` characters.
pub(super) fn shorten(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let cut: String = text.chars().take(most).collect();
    match cut.rsplit_once(' ') {
        Some((whole, _)) if !whole.is_empty() => whole.to_owned(),
        _ => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_lead_away() {
        for line in ["READ MORE: Another story", "Advertisement", "» Related: x", "© 2026 Paper"]
        {
            assert!(leads_away(line), "{line}");
        }
        for line in ["Readers want more.", "Subscribers left.", "The related costs rose."] {
            assert!(!leads_away(line), "{line}");
        }
    }

    #[test]
    fn bylines_and_dates() {
        for line in ["By Jane Doe", "Von Max Muster, Berlin", "Updated: 3 May 2026, 10:00"] {
            assert!(is_byline(line), "{line}");
        }
        for line in ["By then the doors were shut.", "By 2030 it will be gone.", "Bystanders ran."]
        {
            assert!(!is_byline(line), "{line}");
        }
        for line in ["3 min read", "2 hours ago", "2026-05-03"] {
            assert!(is_date_line(line), "{line}");
        }
        assert!(!is_date_line("He paid 3 euros."));
    }

    #[test]
    fn texts_are_made_tidy() {
        assert_eq!(plain(" Tom &amp; <b>Jerry</b>\n 1 ").unwrap(), "Tom & Jerry 1");
        assert_eq!(plain("a < b &amp; c").unwrap(), "a < b & c");
        assert_eq!(plain(" \n"), None);
        assert_eq!(plain_lines("<p>a</p><p>b</p>"), ["a", "b"]);
        assert_eq!(shorten("one two three", 9), "one two");
        assert_eq!(shorten("one two", 7), "one two");
        assert!(likeness("A storm hits", "a STORM, hits!") > 0.99);
        assert!(likeness("A storm hits", "Something else") < 0.01);
    }
}
