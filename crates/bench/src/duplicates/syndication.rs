//! A made-up press with the truth about itself: which articles tell the same story.
//!
//! Half of the stories are one publisher's own. The others come from an agency: every paper that
//! takes one cuts it down, sometimes puts its paragraphs in another order, replaces words, and puts a
//! head and a tail of its own around it. The agency's note below is translated into the paper's
//! language, and every paper ends all its articles alike. Some stories repeat a paragraph of
//! background of an earlier one without being the same.

use std::fmt::Write as _;

/// Languages; each has words of its own.
const LANGUAGES: usize = 6;
/// Papers.
const PAPERS: usize = 240;
/// Agencies.
const AGENCIES: usize = 5;
/// Words of a language.
const WORDS: f64 = 20_000.0;
/// How often a copy is in the language of the story; else the note and the head are in another.
const SAME_LANGUAGE: f64 = 0.85;

/// An article, and which story it tells.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) story: usize,
    pub(crate) paper: usize,
    pub(crate) text: String,
}

/// Small deterministic random numbers (`SplitMix64`).
#[derive(Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    /// A number in `0.0..1.0`.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.between(0, at));
        }
    }
}

const fn mixed(seed: u64) -> u64 {
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}

/// A word of a language; frequent ones far more often than others.
fn word(rng: &mut Rng, language: usize) -> String {
    let rank = (rng.share().powf(2.5) * WORDS) as u64;
    let letters = mixed(rank * LANGUAGES as u64 + language as u64 + 77);
    let length = 2 + (letters % 8) as u32;
    let letter = |at: u32| char::from(b'a' + ((letters >> (5 * at + 3)) % 26) as u8);
    (0..length).map(letter).collect()
}

fn sentence(rng: &mut Rng, language: usize) -> String {
    let words: Vec<String> = (0..rng.between(8, 24)).map(|_| word(rng, language)).collect();
    format!("{}.", words.join(" "))
}

fn sentences(rng: &mut Rng, language: usize, low: usize, high: usize) -> String {
    let some: Vec<String> = (0..rng.between(low, high)).map(|_| sentence(rng, language)).collect();
    some.join(" ")
}

const fn language_of(paper: usize) -> usize {
    paper % LANGUAGES
}

/// What does not change from story to story.
struct Press {
    /// What a paper puts below everything.
    footers: Vec<String>,
    /// The note of each agency in each language.
    notes: Vec<Vec<String>>,
    /// Paragraphs that later stories may repeat, by language.
    background: Vec<Vec<String>>,
}

impl Press {
    fn new(rng: &mut Rng) -> Self {
        let note = |rng: &mut Rng| (0..LANGUAGES).map(|l| sentences(rng, l, 2, 2)).collect();
        Self {
            footers: (0..PAPERS).map(|paper| sentences(rng, language_of(paper), 2, 4)).collect(),
            notes: (0..AGENCIES).map(|_| note(rng)).collect(),
            background: vec![Vec::new(); LANGUAGES],
        }
    }

    /// The paragraphs of a story.
    fn story(&mut self, rng: &mut Rng, language: usize) -> Vec<String> {
        let count = rng.between(5, 12);
        let mut story: Vec<String> = (0..count).map(|_| sentences(rng, language, 2, 5)).collect();
        if let Some(old) = self.background.get_mut(language) {
            if !old.is_empty() && rng.chance(0.3) {
                story.extend(old.get(rng.between(0, old.len() - 1)).cloned());
            }
            old.extend(story.first().cloned());
        }
        story
    }

    /// A story as a paper has it; `agency` is where it took it from.
    fn copy(&self, rng: &mut Rng, story: &[String], paper: usize, agency: Option<usize>) -> String {
        let language = language_of(paper);
        let mut parts = vec![sentences(rng, language, 0, 2)];
        if let Some(agency) = agency {
            parts.extend(edited(rng, story));
            parts.push(sentences(rng, language, 0, 2));
            let note = self.notes.get(agency).and_then(|notes| notes.get(language));
            parts.extend(note.cloned());
        } else {
            parts.extend(story.iter().cloned());
        }
        parts.extend(self.footers.get(paper).cloned());
        parts.retain(|part| !part.is_empty());
        parts.join("\n\n")
    }
}

/// What an editor makes of an agency's story: between half of it and all, in this or that order, with
/// a few other words.
fn edited(rng: &mut Rng, story: &[String]) -> Vec<String> {
    let mut story = story.to_vec();
    let wanted = (story.len() as f64 * (0.5 + rng.share() / 2.0)).ceil() as usize;
    if rng.chance(0.33) {
        story.truncate(wanted);
    }
    while story.len() > wanted {
        story.remove(rng.between(0, story.len() - 1));
    }
    if rng.chance(0.4) {
        rng.shuffle(&mut story);
    }
    let rate = 0.02 * rng.share();
    story.iter().map(|part| reworded(rng, part, rate)).collect()
}

fn reworded(rng: &mut Rng, part: &str, rate: f64) -> String {
    let mut text = String::with_capacity(part.len());
    for word in part.split(' ') {
        let space = if text.is_empty() { "" } else { " " };
        let new = rng.chance(rate).then(|| format!("x{}", rng.between(0, 5_000)));
        // Writing to a string cannot fail.
        write!(text, "{space}{}", new.as_deref().unwrap_or(word)).unwrap_or_default();
    }
    text
}

/// Articles that tell so many stories, in any order.
pub(crate) fn press(stories: usize, seed: u64) -> Vec<Copy> {
    let mut rng = Rng(seed);
    let mut press = Press::new(&mut rng);
    let mut copies = Vec::new();
    for story in 0..stories {
        let language = rng.between(0, LANGUAGES - 1);
        let text = press.story(&mut rng, language);
        let agency = rng.chance(0.5).then(|| rng.between(0, AGENCIES - 1));
        let takers = if agency.is_some() { rng.between(2, 10) } else { 1 };
        for _ in 0..takers {
            let speaks =
                if rng.chance(SAME_LANGUAGE) { language } else { rng.between(0, LANGUAGES - 1) };
            let paper = rng.between(0, PAPERS / LANGUAGES - 1) * LANGUAGES + speaks;
            let text = press.copy(&mut rng, &text, paper, agency);
            copies.push(Copy { story, paper, text });
        }
    }
    rng.shuffle(&mut copies);
    copies
}
