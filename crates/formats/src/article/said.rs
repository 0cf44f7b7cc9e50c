//! What the page and the feed say about the article before its blocks are judged, and how much of it each
//! block repeats.

use super::form::{Form, Prints, count, prints, shingles};
use super::outline::Outline;

/// The most names of authors and of the site that blocks are compared with.
const MAX_NAMES: usize = 6;

/// What the page and the feed say about the article before its blocks are judged.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The words of each title.
    pub titles: Vec<Vec<u64>>,
    pub description: Vec<u64>,
    /// The words of each author's name, and of each name of the site.
    pub authors: Vec<Vec<u64>>,
    pub sites: Vec<Vec<u64>>,
    /// The words of the declared body, and how many characters they have.
    pub body: Vec<u64>,
    pub body_chars: f32,
}

impl Said {
    pub(super) fn new<'a>(
        titles: impl Iterator<Item = &'a str>,
        authors: impl Iterator<Item = &'a str>,
        sites: impl Iterator<Item = &'a str>,
        description: &str,
        body: &str,
    ) -> Self {
        let distinct = |title: &str| {
            let mut words = prints(title);
            words.sort_unstable();
            words.dedup();
            words
        };
        Self {
            titles: titles.map(distinct).filter(|words| !words.is_empty()).collect(),
            authors: authors.map(prints).filter(|words| words.len() > 1).take(MAX_NAMES).collect(),
            sites: sites.map(prints).filter(|words| !words.is_empty()).take(MAX_NAMES).collect(),
            description: prints(description),
            body: prints(body),
            body_chars: count(body.chars().filter(|c| c.is_alphanumeric()).count()),
        }
    }

    /// Whether a block names an author, starts with one, and names the site.
    pub(super) fn named(&self, outline: &Outline) -> Vec<[bool; 3]> {
        let of_block = |form: &Form| {
            let words = outline.words_of(form);
            let holds =
                |name: &Vec<u64>| words.windows(name.len()).any(|run| run == name.as_slice());
            [
                self.authors.iter().any(holds),
                self.authors.iter().any(|name| words.starts_with(name)),
                self.sites.iter().any(holds),
            ]
        };
        outline.forms.iter().map(of_block).collect()
    }

    /// How alike each short block is to one of the titles, by their words.
    pub(super) fn likeness(&self, outline: &Outline) -> Vec<f32> {
        let mut own = Vec::new();
        let of_block = |form: &Form| {
            let words = outline.words_of(form);
            if words.is_empty() || words.len() > 60 {
                return 0.0;
            }
            own.clear();
            own.extend_from_slice(words);
            own.sort_unstable();
            own.dedup();
            let dice = |title: &Vec<u64>| {
                let shared = own.iter().filter(|word| title.binary_search(word).is_ok()).count();
                2.0 * count(shared) / count(own.len() + title.len())
            };
            self.titles.iter().map(dice).fold(0.0, f32::max)
        };
        outline.forms.iter().map(of_block).collect()
    }

    /// The part of each block that the description repeats.
    pub(super) fn described(&self, outline: &Outline) -> Vec<f32> {
        if self.description.len() < 5 {
            return vec![0.0; outline.forms.len()];
        }
        let known: Prints = shingles(&self.description, 3).collect();
        let of_block = |form: &Form| {
            let words = outline.words_of(form);
            if words.len() < 4 { 0.0 } else { covered(words, &known) }
        };
        outline.forms.iter().map(of_block).collect()
    }

    /// The part of each block that the declared body has, or -1 when there is none.
    pub(super) fn declared(&self, outline: &Outline) -> Vec<f32> {
        let body = &self.body;
        if body.len() < 40 {
            return vec![-1.0; outline.forms.len()];
        }
        let known: Prints = shingles(body, 3).collect();
        let pairs: Prints = shingles(body, 2).collect();
        let single: Prints = body.iter().copied().collect();
        let of_block = |form: &Form| match outline.words_of(form) {
            [word] => f32::from(u8::from(single.contains(word))) * 0.5,
            pair @ [_, _] => {
                f32::from(u8::from(shingles(pair, 2).all(|pair| pairs.contains(&pair)))) * 0.5
            }
            words => covered(words, &known),
        };
        outline.forms.iter().map(of_block).collect()
    }
}

fn covered(words: &[u64], known: &Prints) -> f32 {
    let all = words.len().saturating_sub(2).max(1);
    count(shingles(words, 3).filter(|print| known.contains(print)).count()) / count(all)
}
