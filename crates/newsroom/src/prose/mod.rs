//! Generated but plausible news prose in several languages. A story has a cast (people, places,
//! organisations, a share of the vocabulary), so it hangs together and differs from every other
//! story. Plain text only: never markup, never two spaces in a row.

mod de;
mod en;
mod es;
mod fr;

use serde::Serialize;

use crate::rng::{Purpose, Rng};

/// The language a publisher writes in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// English
    #[default]
    En,
    /// German
    De,
    /// French
    Fr,
    /// Spanish
    Es,
}

impl Language {
    pub(crate) const ALL: [Self; 4] = [Self::En, Self::De, Self::Fr, Self::Es];

    /// The ISO 639-1 code.
    pub fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::De => "de",
            Self::Fr => "fr",
            Self::Es => "es",
        }
    }

    pub(crate) fn words(self) -> &'static Words {
        match self {
            Self::En => &en::WORDS,
            Self::De => &de::WORDS,
            Self::Fr => &fr::WORDS,
            Self::Es => &es::WORDS,
        }
    }
}

/// What a language offers. Patterns name a slot in braces: `{p}` person, `{c}` place,
/// `{o}` organisation, `{s}` subject, `{v}` verb, `{x}` object, `{t}` time, `{r}` circumstance,
/// `{q}` quotation, `{n}` number, `{m}` small number; a capital letter capitalises what is put in.
pub(crate) struct Words {
    pub(crate) papers: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    first_names: &'static [&'static str],
    last_names: &'static [&'static str],
    place_heads: &'static [&'static str],
    place_tails: &'static [&'static str],
    organisations: &'static [&'static str],
    subjects: &'static [&'static str],
    verbs: &'static [&'static str],
    objects: &'static [&'static str],
    times: &'static [&'static str],
    circumstances: &'static [&'static str],
    quotations: &'static [&'static str],
    titles: &'static [&'static str],
    ledes: &'static [&'static str],
    sentences: &'static [&'static str],
    headings: &'static [&'static str],
    pub(crate) labels: Labels,
}

/// What stands around an article: none of it belongs to the text.
pub(crate) struct Labels {
    pub(crate) home: &'static str,
    pub(crate) about: &'static str,
    pub(crate) latest: &'static str,
    pub(crate) by: &'static str,
    pub(crate) published: &'static str,
    pub(crate) photo: &'static str,
    pub(crate) cookies: &'static str,
    pub(crate) accept: &'static str,
    pub(crate) share: &'static str,
    pub(crate) advertisement: &'static str,
    pub(crate) advert: &'static str,
    pub(crate) newsletter: &'static str,
    pub(crate) subscribe: &'static str,
    pub(crate) related: &'static str,
    pub(crate) comments: &'static str,
    pub(crate) comment: &'static str,
    pub(crate) rights: &'static str,
    pub(crate) next_page: &'static str,
}

/// A part of an article's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block {
    Paragraph(String),
    Heading(String),
    Quotation(String),
}

impl Block {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Paragraph(text) | Self::Heading(text) | Self::Quotation(text) => text,
        }
    }
}

/// The text of a body as a reader would copy it.
pub(crate) fn joined(blocks: &[Block]) -> String {
    blocks.iter().map(Block::text).collect::<Vec<_>>().join("\n\n")
}

/// What lists and feeds show of a story.
pub(crate) struct Headline {
    pub(crate) title: String,
    pub(crate) lede: String,
    pub(crate) authors: Vec<String>,
}

/// Who and what a story is about.
#[derive(Clone)]
struct Cast {
    people: Vec<String>,
    places: Vec<String>,
    organisations: Vec<String>,
    subjects: Vec<&'static str>,
    verbs: Vec<&'static str>,
    objects: Vec<&'static str>,
    times: Vec<&'static str>,
    circumstances: Vec<&'static str>,
    quotations: Vec<&'static str>,
    /// The turns of phrase of whoever wrote it: without a choice among them, all stories would
    /// look like near-duplicates to a fingerprint.
    sentences: Vec<&'static str>,
}

impl Cast {
    fn of(words: &Words, rng: &mut Rng) -> Self {
        let places: Vec<String> = (0..3).map(|_| place(words, rng)).collect();
        let organisations = rng
            .some(words.organisations, 3)
            .iter()
            .zip(places.iter().cycle())
            .map(|(pattern, place)| pattern.replace("{c}", place))
            .collect();
        Self {
            people: (0..4).map(|_| person(words, rng)).collect(),
            places,
            organisations,
            subjects: rng.some(words.subjects, 5),
            verbs: rng.some(words.verbs, 8),
            objects: rng.some(words.objects, 7),
            times: rng.some(words.times, 6),
            circumstances: rng.some(words.circumstances, 6),
            quotations: rng.some(words.quotations, 5),
            sentences: rng.some(words.sentences, 8),
        }
    }

    /// The first of each kind: title and lede tell of the same thing.
    fn leading(&self) -> Self {
        let mut cast = self.clone();
        cast.places.truncate(1);
        cast.subjects.truncate(1);
        cast.verbs.truncate(1);
        cast.objects.truncate(1);
        cast
    }

    fn slot(&self, name: char, rng: &mut Rng) -> String {
        let own = |list: &[String], rng: &mut Rng| {
            list.get(rng.below(list.len())).cloned().unwrap_or_default()
        };
        match name {
            'p' => own(&self.people, rng),
            'c' => own(&self.places, rng),
            'o' => own(&self.organisations, rng),
            's' => rng.pick(&self.subjects).to_owned(),
            'v' => rng.pick(&self.verbs).to_owned(),
            'x' => rng.pick(&self.objects).to_owned(),
            't' => rng.pick(&self.times).to_owned(),
            'r' => rng.pick(&self.circumstances).to_owned(),
            'q' => rng.pick(&self.quotations).to_owned(),
            'm' => rng.between(2, 30).to_string(),
            _ => rng.between(31, 9_800).to_string(),
        }
    }

    /// Fills the slots of a pattern; what stands in one already is avoided in the next.
    fn say(&self, pattern: &str, rng: &mut Rng) -> String {
        let mut said = String::with_capacity(pattern.len() * 2);
        let mut fillings: Vec<String> = Vec::new();
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            if letter != '{' {
                said.push(letter);
                continue;
            }
            let name = letters.next().unwrap_or_default();
            letters.next();
            let mut filling = self.slot(name.to_ascii_lowercase(), rng);
            for _ in 0..4 {
                if !fillings.contains(&filling) {
                    break;
                }
                filling = self.slot(name.to_ascii_lowercase(), rng);
            }
            if name.is_ascii_uppercase() {
                said.push_str(&capitalised(&filling));
            } else {
                said.push_str(&filling);
            }
            fillings.push(filling);
        }
        said
    }
}

/// The name of a town that is on no map.
pub(crate) fn place(words: &Words, rng: &mut Rng) -> String {
    format!("{}{}", rng.pick(words.place_heads), rng.pick(words.place_tails))
}

fn person(words: &Words, rng: &mut Rng) -> String {
    format!("{} {}", rng.pick(words.first_names), rng.pick(words.last_names))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Title, first sentence and authors of the story with this key.
pub(crate) fn headline(language: Language, key: &[u64]) -> Headline {
    opening(language, key).1
}

/// Cast and headline come from one stream, so that the body can go on with the same cast.
fn opening(language: Language, key: &[u64]) -> (Cast, Headline) {
    let words = language.words();
    let mut rng = Rng::of(Purpose::Headline, key);
    let cast = Cast::of(words, &mut rng);
    let leading = cast.leading();
    let title = capitalised(&leading.say(rng.pick(words.titles), &mut rng));
    let lede = leading.say(rng.pick(words.ledes), &mut rng);
    let authors = (0..rng.between(1, 2)).map(|_| person(words, &mut rng)).collect();
    (cast, Headline { title, lede, authors })
}

/// The body of the story with this key; it begins with the lede of its headline.
pub(crate) fn body(language: Language, key: &[u64]) -> Vec<Block> {
    let words = language.words();
    let (cast, headline) = opening(language, key);
    let mut rng = Rng::of(Purpose::Body, key);
    let paragraphs = rng.between(3, 12);
    let mut headings = rng.some(words.headings, 3).into_iter();
    let mut blocks = Vec::with_capacity(paragraphs + 3);
    for index in 0..paragraphs {
        // Long stories are divided; never right after another heading, never before the end.
        if paragraphs >= 7
            && index > 0
            && index % 3 == 0
            && index + 1 < paragraphs
            && let Some(pattern) = headings.next()
        {
            blocks.push(Block::Heading(cast.say(pattern, &mut rng)));
        }
        let mut sentences = Vec::new();
        if index == 0 {
            sentences.push(headline.lede.clone());
        }
        let patterns = rng.between(2, 5);
        sentences
            .extend(rng.some(&cast.sentences, patterns).iter().map(|it| cast.say(it, &mut rng)));
        let text = sentences.join(" ");
        let quoted = index > 1 && rng.chance(0.08);
        blocks.push(if quoted { Block::Quotation(text) } else { Block::Paragraph(text) });
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_story_has_a_clean_text_of_its_own() {
        let mut titles = HashSet::new();
        let mut texts = HashSet::new();
        for language in Language::ALL {
            for number in 0..300 {
                let blocks = body(language, &[1, number]);
                let headline = headline(language, &[1, number]);
                let paragraphs =
                    blocks.iter().filter(|it| !matches!(it, Block::Heading(_))).count();
                assert!((3..=12).contains(&paragraphs));
                assert!(blocks[0].text().starts_with(&headline.lede));
                for block in &blocks {
                    let text = block.text();
                    assert!(!text.contains(['{', '}', '<', '\n']), "{text}");
                    assert!(!text.contains("  ") && text.trim() == text, "{text}");
                }
                titles.insert(headline.title);
                texts.insert(blocks.iter().map(Block::text).collect::<String>());
            }
        }
        assert_eq!(texts.len(), 1_200);
        assert!(titles.len() >= 1_198, "{}", titles.len());
    }

    #[test]
    fn no_two_stories_are_near_duplicates() {
        for language in Language::ALL {
            let shingles: Vec<HashSet<Vec<String>>> = (0..40)
                .map(|number| {
                    let text = joined(&body(language, &[9, number]));
                    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                    words.windows(3).map(<[String]>::to_vec).collect()
                })
                .collect();
            for (index, one) in shingles.iter().enumerate() {
                for other in &shingles[..index] {
                    let common = one.intersection(other).count();
                    assert!(common * 2 < one.len().min(other.len()), "{common} of {}", one.len());
                }
            }
        }
    }
}
