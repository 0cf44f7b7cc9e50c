//! A small sample of a text: how much of it another text has as well, told from the samples alone.
//!
//! The sample is made of the smallest hashes of the text's shingles. What two texts have in common
//! has the same hashes in both, so it is in both samples, wherever it stands and whatever was put
//! around it. It must never change for the same text: kept sketches are compared with new ones.

use std::collections::{BTreeSet, HashMap};

use xxhash_rust::xxh3::xxh3_64;

use crate::simhash::{is_unspaced, words};

/// Hashes in a sample at the most: an estimated share is off by 6 in 100 on average.
pub const MARKS: usize = 64;
/// The hashes that an index is kept of. A text is found by any one of them.
pub const KEYS: usize = 8;
/// The length of a shingle. A word counts double, a sign of a script without spaces once: five
/// words or ten signs are hardly ever used twice by chance, three words are all the time.
const LENGTH: usize = 10;
/// Bits of a hash that are kept: enough that ten million texts do not meet by chance.
const BITS: u32 = 40;
/// Bytes of a kept hash.
const BYTES: usize = BITS as usize / 8;

/// The sample of a text: hashes of its shingles, the smallest ones, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch(Vec<u64>);

/// What two sketches say about what their texts have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Common {
    /// The part of the shorter text that the other one has as well, 0 to 1.
    pub share: f64,
    /// Hashes in common, which is how sure the share is.
    pub marks: usize,
}

impl Sketch {
    /// The sample of a text, whatever the case, spacing and punctuation of its words.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let folded = text.to_lowercase();
        let words: Vec<(u64, usize)> = words(&folded).map(weighed).collect();
        // The largest of the smallest goes as soon as there is a smaller one.
        let mut marks = BTreeSet::new();
        for hash in shingles(&words) {
            let is_full = marks.len() == MARKS;
            if !is_full || marks.last().is_some_and(|last| hash < *last) {
                marks.insert(hash);
                if marks.len() > MARKS {
                    marks.pop_last();
                }
            }
        }
        Self(marks.into_iter().collect())
    }

    /// What an index finds this text by: texts with a large part in common have one of them in
    /// common as well.
    pub fn keys(&self) -> impl Iterator<Item = i64> {
        self.0.iter().take(KEYS).map(|mark| mark.cast_signed())
    }

    /// How much the texts of two samples have in common.
    #[must_use]
    pub fn common(&self, other: &Self) -> Common {
        // Up to here both samples hold every hash that their texts have.
        let reach = self.reach().min(other.reach());
        let within = |sketch: &Self| sketch.0.partition_point(|mark| *mark <= reach);
        let shorter = within(self).min(within(other));
        let shared = |mark: &&u64| **mark <= reach && other.0.binary_search(mark).is_ok();
        let marks = self.0.iter().filter(shared).count();
        let share = if shorter == 0 { 0.0 } else { marks as f64 / shorter as f64 };
        Common { share, marks }
    }

    fn reach(&self) -> u64 {
        self.0.last().filter(|_| self.0.len() == MARKS).map_or(u64::MAX, |last| *last)
    }

    /// As it is kept.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = |mark: &u64| mark.to_be_bytes().into_iter().skip(size_of::<u64>() - BYTES);
        self.0.iter().flat_map(bytes).collect()
    }

    /// From what is kept; `None` when no text has this sample.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (marks, []) = bytes.as_chunks::<BYTES>() else { return None };
        let number =
            |mark: &[u8; BYTES]| mark.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let marks: Vec<u64> = marks.iter().map(number).collect();
        (marks.len() <= MARKS && marks.is_sorted_by(|one, next| one < next)).then_some(Self(marks))
    }
}

/// How many words an edit put into a text and took out of it, wherever they stand.
#[must_use]
pub fn difference(before: &str, after: &str) -> (u32, u32) {
    let (before, after) = (before.to_lowercase(), after.to_lowercase());
    let mut counts: HashMap<&str, i64> = HashMap::new();
    for word in words(&after) {
        *counts.entry(word).or_default() += 1;
    }
    for word in words(&before) {
        *counts.entry(word).or_default() -= 1;
    }
    counts.values().fold((0, 0), |(added, removed): (u32, u32), count| {
        let size = u32::try_from(count.unsigned_abs()).unwrap_or(u32::MAX);
        if *count > 0 {
            (added.saturating_add(size), removed)
        } else {
            (added, removed.saturating_add(size))
        }
    })
}

fn weighed(word: &str) -> (u64, usize) {
    let weight = if word.starts_with(is_unspaced) { 1 } else { 2 };
    (xxh3_64(word.as_bytes()), weight)
}

/// A hash of every run of words that is just long enough; a text that is shorter is one run.
fn shingles(words: &[(u64, usize)]) -> impl Iterator<Item = u64> {
    (0..words.len()).map_while(|start| {
        let (mut hash, mut length) = (0_u64, 0);
        for (word, weight) in words.iter().skip(start) {
            hash = (hash ^ word).rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            length += weight;
            if length >= LENGTH {
                break;
            }
        }
        (length >= LENGTH || start == 0).then(|| xxh3_64(&hash.to_le_bytes()) >> (64 - BITS))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// So many words that nobody else uses.
    fn story(seed: u64, words: u64) -> String {
        (0..words).map(|n| format!("w{seed}x{n} ")).collect()
    }

    #[test]
    fn a_part_in_common_is_told_by_its_share_wherever_it_stands() {
        let (wire, head, tail) = (story(1, 300), story(2, 50), story(3, 50));
        let whole = Sketch::of(&wire);
        assert_eq!(whole.common(&whole), Common { share: 1.0, marks: MARKS });
        assert!(whole.common(&Sketch::of(&story(4, 300))).marks == 0);
        // Three quarters of a text of 400 words are the wire's 300.
        let local = Sketch::of(&format!("{head}\n\n{wire}\n\n{tail}"));
        assert!(whole.common(&local).share > 0.9, "the wire's text is in it as a whole");
        let half = story(1, 150);
        let other = Sketch::of(&format!("{head}{half}{tail}{}", story(5, 50)));
        let share = whole.common(&other).share;
        assert!((0.35..0.7).contains(&share), "half of 300 words: {share}");
        assert!(whole.keys().any(|key| local.keys().any(|other| other == key)));
    }

    #[test]
    fn an_excerpt_is_in_the_whole() {
        let (whole, part) = (Sketch::of(&story(1, 2_000)), Sketch::of(&story(1, 200)));
        assert!(part.common(&whole).share > 0.9);
    }

    #[test]
    fn scripts_without_spaces_have_longer_shingles() {
        let text = "東京都は新しい条例案を議会に提出した。議会は来週審議する予定である。";
        let sketch = Sketch::of(text);
        let again = Sketch::of(&format!("速報 {text} 続報を待つ"));
        assert!(sketch.common(&again).share > 0.9);
        let other = Sketch::of("大阪府は新しい条例案を撤回した。知事は理由を説明しなかった。");
        assert!(sketch.common(&other).share < 0.1);
    }

    #[test]
    fn an_edit_is_as_large_as_the_words_it_moved_in_and_out() {
        let before = "The mayor said that taxes will not rise.";
        assert_eq!(difference(before, before), (0, 0));
        let after = "The mayor said that taxes will rise, and fees too.";
        assert_eq!(difference(before, after), (3, 1), "and, fees, too; not");
        assert_eq!(difference("", "one One"), (2, 0));
        assert_eq!(difference("one two", "two one"), (0, 0), "only the order is another");
    }

    #[test]
    fn sketches_do_not_change() {
        assert_eq!(Sketch::of(" … "), Sketch::default());
        assert_eq!(Sketch::of("one"), Sketch::of("ONE!"));
        let sketch = Sketch::of("one two three four five six");
        assert_eq!(sketch.keys().collect::<Vec<_>>(), [197_945_261_025, 796_191_108_869]);
        assert_eq!(Sketch::default().common(&sketch), Common { share: 0.0, marks: 0 });
    }

    #[test]
    fn what_no_text_can_have_is_refused() {
        assert_eq!(Sketch::from_bytes(&[]), Some(Sketch::default()));
        assert_eq!(Sketch::from_bytes(&[0; BYTES + 1]), None);
        assert_eq!(Sketch::from_bytes(&[7; 2 * BYTES]), None, "a hash is there once");
        assert_eq!(Sketch::from_bytes(&vec![0; (MARKS + 1) * BYTES]), None);
    }

    proptest! {
        #[test]
        fn a_sketch_is_small_comes_back_and_is_its_own_likeness(text in ".{0,400}") {
            let sketch = Sketch::of(&text);
            prop_assert!(sketch.0.len() <= MARKS && sketch.keys().count() <= KEYS);
            prop_assert_eq!(Sketch::from_bytes(&sketch.to_bytes()), Some(sketch.clone()));
            let own = sketch.common(&sketch);
            prop_assert_eq!(own.marks, sketch.0.len());
        }

        #[test]
        fn likeness_is_mutual_and_at_most_whole(one in "[ab ]{0,300}", other in "[ab ]{0,300}") {
            let (one, other) = (Sketch::of(&one), Sketch::of(&other));
            let common = one.common(&other);
            prop_assert_eq!(common, other.common(&one));
            prop_assert!((0.0..=1.0).contains(&common.share));
        }

        #[test]
        fn any_bytes_are_a_sketch_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Some(sketch) = Sketch::from_bytes(&bytes) {
                prop_assert_eq!(sketch.to_bytes(), bytes);
            }
        }
    }
}
