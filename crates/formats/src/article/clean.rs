//! Texts made tidy, and compared by their words.

use std::collections::HashSet;

use super::form::count;
use super::page::Page;
use super::tree::Tree;

use crate::simhash::words;

/// The words of a text in one case, to compare texts by.
pub(super) fn fold(text: &str) -> String {
    words(&text.to_lowercase()).collect::<Vec<_>>().join(" ")
}

/// How alike two texts are by their words, 0 to 1.
pub(super) fn likeness(one: &str, other: &str) -> f32 {
    let (one, other) = (fold(one), fold(other));
    let one: HashSet<&str> = one.split_ascii_whitespace().collect();
    let other: HashSet<&str> = other.split_ascii_whitespace().collect();
    let shared = 2 * one.intersection(&other).count();
    count(shared) / count(one.len() + other.len()).max(1.0)
}

/// One line: every run of white space as one space, none at the ends.
pub(super) fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The lines of a text that may hold markup or entities, each squeezed; empty ones are dropped.
pub(super) fn plain_lines(text: &str) -> Vec<String> {
    let marked = text.contains("</") || text.contains("<br") || text.contains("<p");
    let plain = if marked {
        let page = Page::read(&Tree::piece(text));
        page.blocks.iter().map(|block| page.text(block)).collect::<Vec<_>>().join("\n")
    } else if text.contains('&') {
        // Without tags, only entities are left to be read.
        let tree = Tree::piece(&text.replace('<', "&lt;"));
        tree.text(tree.body(), usize::MAX, false)
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
