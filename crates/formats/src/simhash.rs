//! A fingerprint of a text: near-duplicates differ in a few bits, other texts in about half.
//!
//! It must never change for the same text: stored fingerprints are compared with new ones.

use xxhash_rust::xxh3::xxh3_64;

/// Words per shingle: order counts, so that texts on one subject are told apart.
const SHINGLE: usize = 3;

/// The fingerprint of a text over its words, whatever their case, spacing and punctuation.
#[must_use]
pub fn simhash(text: &str) -> u64 {
    let folded = text.to_lowercase();
    let words: Vec<&str> = words(&folded).collect();
    if words.is_empty() {
        return 0;
    }
    let mut votes = [0_i32; 64];
    for shingle in words.windows(SHINGLE.min(words.len())) {
        let hash = xxh3_64(shingle.join(" ").as_bytes());
        for (bit, vote) in votes.iter_mut().enumerate() {
            *vote += if hash >> bit & 1 == 1 { 1 } else { -1 };
        }
    }
    let set = votes.iter().enumerate().filter(|(_, vote)| **vote > 0);
    set.fold(0, |hash, (bit, _)| hash | 1 << bit)
}

/// How many bits two fingerprints differ in: 0 to 64.
#[must_use]
pub const fn distance(one: u64, other: u64) -> u32 {
    (one ^ other).count_ones()
}

/// The words of a text: runs of letters and digits; a sign of a script that is written without
/// spaces is a word of its own.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = chars.find(|(_, c)| c.is_alphanumeric())?;
        let mut end = start + first.len_utf8();
        if !is_unspaced(first) {
            while let Some((at, c)) =
                chars.next_if(|(_, c)| c.is_alphanumeric() && !is_unspaced(*c))
            {
                end = at + c.len_utf8();
            }
        }
        text.get(start..end)
    })
}

/// Han, kana, and the scripts of Thailand, Laos, Burma and Cambodia.
pub(crate) const fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sentences that differ from one seed to the next.
    fn story(seed: u64) -> String {
        (0..200)
            .map(|n| {
                format!(
                    "{:x} ",
                    xxh3_64(&[seed.to_le_bytes(), u64::to_le_bytes(n)].concat()) % 5_000
                )
            })
            .collect()
    }

    #[test]
    fn near_duplicates_are_near_and_others_far() {
        let original = story(1);
        let edited = format!("Update: {original} (corrected)");
        let near = distance(simhash(&original), simhash(&edited));
        let far = distance(simhash(&original), simhash(&story(2)));
        assert!(near <= 6, "{near}");
        assert!(far >= 16, "{far}");
    }

    #[test]
    fn fingerprints_do_not_change() {
        assert_eq!(simhash(""), 0);
        assert_eq!(simhash(" … "), 0);
        assert_eq!(simhash("word"), xxh3_64(b"word"));
        assert_eq!(simhash("one two three"), xxh3_64(b"one two three"));
    }

    #[test]
    fn words_of_many_scripts() {
        let count = |text| words(text).count();
        assert_eq!(words("Don't stop: 2,5 %").collect::<Vec<_>>(), ["Don", "t", "stop", "2", "5"]);
        assert_eq!(count("日本語 text"), 4);
        assert_eq!(count("Новости дня"), 2);
        assert_eq!(count("  \n"), 0);
    }

    proptest! {
        #[test]
        fn spacing_and_case_do_not_matter(words in prop::collection::vec("[a-z]{1,8}", 0..30)) {
            let plain = words.join(" ");
            let shouted = words.join(",\n  ").to_uppercase();
            prop_assert_eq!(simhash(&plain), simhash(&shouted));
        }

        #[test]
        fn any_text_has_words_of_its_own(text in ".*") {
            prop_assert!(words(&text).all(|word| !word.is_empty() && text.contains(word)));
            prop_assert_eq!(distance(simhash(&text), simhash(&text.to_lowercase())), 0);
        }
    }
}
