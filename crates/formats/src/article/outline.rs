//! Sums over the elements of a page: how much text each holds, of what kind, and how much like an
//! article it looks by the rules that Readability made known.
//!
//! Everything is counted per block once; an element's figure is the difference of two running sums.

use std::ops::Range;

use super::form::{Form, count, real};
use super::marks::{MARKS, Mark, Marks};
use super::page::Page;
use super::tags::{Sem, Tag};

/// Marks of elements that Readability takes for something else than an article.
const AGAINST: Marks = Marks::of(&[
    Mark::Share,
    Mark::Related,
    Mark::Comment,
    Mark::Nav,
    Mark::Footer,
    Mark::Side,
    Mark::Ad,
    Mark::News,
    Mark::Cookie,
    Mark::Hide,
]);
const FOR: Marks = Marks::of(&[Mark::Body, Mark::Cont]);
/// Under this share of function words, a page's language is one that the list does not know.
const KNOWN_LANGUAGE: f32 = 0.08;

/// What an element holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub chars: f32,
    pub paragraphs: f32,
    pub sentences: f32,
    /// Characters in long blocks with few links.
    pub prose: f32,
    /// Its part of the page's characters.
    pub share: f32,
    /// The part of its characters that are links.
    pub links: f32,
    pub blocks: f32,
    /// Readability's score.
    pub score: f32,
}

/// For each mark, each meaning and hiding: the share of the nearest element around that has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    pub marks: [f32; MARKS],
    pub sems: [f32; Sem::ALL.len()],
    pub hidden: f32,
}

/// The figures of a page.
#[derive(Debug)]
pub(super) struct Outline {
    /// By block.
    pub forms: Vec<Form>,
    /// Fingerprints of all words.
    pub words: Vec<u64>,
    /// By element.
    pub held: Vec<Held>,
    pub around: Vec<Around>,
    /// Characters, link characters and prose before each block, and after the last.
    pub chars: Vec<f32>,
    pub links: Vec<f32>,
    /// The element that Readability would choose.
    pub top: usize,
    /// The page's characters and prose, at least 1.
    pub total: f32,
    pub prose: f32,
}

impl Outline {
    pub(super) fn new(page: &Page) -> Self {
        let mut words = Vec::new();
        let mut forms: Vec<Form> =
            page.blocks.iter().map(|block| Form::read(page.text(block), &mut words)).collect();
        guess_function_words(&mut forms);
        let mut outline = Self {
            held: Vec::new(),
            around: Vec::new(),
            chars: sums(forms.iter().map(|form| form.chars)),
            links: sums(
                page.blocks.iter().zip(&forms).map(|(b, form)| real(b.link_chars).min(form.chars)),
            ),
            forms,
            words,
            top: 0,
            total: 1.0,
            prose: 1.0,
        };
        outline.total = outline.chars.last().copied().unwrap_or_default().max(1.0);
        outline.hold(page);
        outline.score(page);
        outline.look_around(page);
        outline
    }

    /// The words of a block.
    pub(super) fn words_of(&self, form: &Form) -> &[u64] {
        self.words.get(form.hashes.clone()).unwrap_or_default()
    }

    pub(super) fn held(&self, node: usize) -> Held {
        self.held.get(node).copied().unwrap_or_default()
    }

    /// Characters in a range of blocks.
    pub(super) fn chars_in(&self, blocks: &Range<usize>) -> f32 {
        over(&self.chars, blocks)
    }

    /// Whether a block is long and has few links.
    pub(super) fn is_long(&self, block: usize) -> bool {
        let (chars, links) = (over(&self.chars, &(block..block + 1)), self.links_of(block));
        chars > 80.0 && links < 0.35 * chars
    }

    /// The link characters of a block.
    pub(super) fn links_of(&self, block: usize) -> f32 {
        over(&self.links, &(block..block + 1))
    }

    /// The link density of a block.
    pub(super) fn density(&self, block: usize) -> f32 {
        self.links_of(block) / over(&self.chars, &(block..block + 1)).max(1.0)
    }

    fn hold(&mut self, page: &Page) {
        let block = |index: usize, block: &super::page::Block| {
            let chars = over(&self.chars, &(index..index + 1));
            let prose = chars > 80.0 && self.links_of(index) < 0.3 * chars;
            chars > 25.0 && (page.tag_of(block) == Tag::P || prose)
        };
        let paragraphs =
            sums(page.blocks.iter().enumerate().map(|(i, b)| f32::from(u8::from(block(i, b)))));
        let sentences = sums(self.forms.iter().map(|form| form.sentences));
        let prose = sums(
            (self.forms.iter().enumerate())
                .map(|(i, form)| if self.is_long(i) { form.chars } else { 0.0 }),
        );
        self.prose = prose.last().copied().unwrap_or_default().max(1.0);
        self.held = (page.nodes.iter())
            .map(|node| {
                let chars = over(&self.chars, &node.blocks);
                Held {
                    chars,
                    paragraphs: over(&paragraphs, &node.blocks),
                    sentences: over(&sentences, &node.blocks),
                    prose: over(&prose, &node.blocks),
                    share: chars / self.total,
                    links: over(&self.links, &node.blocks) / chars.max(1.0),
                    blocks: count(node.blocks.len()),
                    score: 0.0,
                }
            })
            .collect();
    }

    fn score(&mut self, page: &Page) {
        for (index, (block, form)) in page.blocks.iter().zip(&self.forms).enumerate() {
            if form.chars < 25.0 || over(&self.links, &(index..index + 1)) > 0.5 * form.chars {
                continue;
            }
            let score = 1.0 + form.commas + (form.chars / 100.0).min(3.0);
            let leaf = matches!(
                page.tag_of(block),
                Tag::P
                    | Tag::Pre
                    | Tag::Td
                    | Tag::Blockquote
                    | Tag::Li
                    | Tag::H2
                    | Tag::H3
                    | Tag::Figcaption
                    | Tag::Dd
            );
            let around = page.around(block.node).skip(usize::from(leaf));
            for ((node, _), part) in around.zip([1.0, 2.0, 6.0, 9.0]) {
                if let Some(held) = self.held.get_mut(node) {
                    held.score += score / part;
                }
            }
        }
        let mut best = f32::MIN;
        for (index, (node, held)) in page.nodes.iter().zip(&mut self.held).enumerate() {
            let mut bonus = 0.0;
            bonus += if node.marks.and(FOR).is_empty() { 0.0 } else { 25.0 };
            bonus -= if node.marks.and(AGAINST).is_empty() { 0.0 } else { 25.0 };
            bonus += match node.tag {
                Tag::Article | Tag::Main => 10.0,
                Tag::Aside | Tag::Nav | Tag::Footer | Tag::Header | Tag::Form => -25.0,
                _ => 0.0,
            };
            let score =
                if held.score > 0.0 { (held.score + bonus) * (1.0 - held.links) } else { 0.0 };
            if score > best {
                (best, self.top) = (score, index);
            }
            held.score = score.max(0.0);
        }
    }

    fn look_around(&mut self, page: &Page) {
        let nothing = Around { marks: [0.0; MARKS], sems: [0.0; Sem::ALL.len()], hidden: 0.0 };
        self.around = Vec::with_capacity(page.nodes.len());
        for (index, node) in page.nodes.iter().enumerate() {
            let mut around = self.around.get(node.parent).copied().unwrap_or(nothing);
            let share = self.held(index).share.max(1e-4);
            for number in node.marks.numbers() {
                if let Some(own) = around.marks.get_mut(number) {
                    *own = share;
                }
            }
            if let Some(own) = node.sem.and_then(|sem| around.sems.get_mut(sem as usize)) {
                *own = share;
            }
            if node.hidden {
                around.hidden = share;
            }
            self.around.push(around);
        }
    }
}

/// Where the language is not known, sentences get the share of function words that sentences have.
fn guess_function_words(forms: &mut [Form]) {
    let long = || forms.iter().filter(|form| form.chars > 80.0);
    let words: f32 = long().map(|form| form.words).sum();
    let function: f32 = long().map(|form| form.function * form.words).sum();
    if function >= KNOWN_LANGUAGE * words {
        return;
    }
    for form in forms {
        form.function = match (form.ends_sentence, form.chars > 60.0) {
            (true, true) => 0.4,
            (true, false) => 0.3,
            (false, true) => 0.25,
            (false, false) => 0.1,
        };
    }
}

/// Running sums: one more than there are values, the first 0.
pub(super) fn sums(values: impl Iterator<Item = f32>) -> Vec<f32> {
    let mut sum = 0.0;
    let mut out = vec![sum];
    out.extend(values.map(|value| {
        sum += value;
        sum
    }));
    out
}

/// The sum over a range.
pub(super) fn over(sums: &[f32], range: &Range<usize>) -> f32 {
    let at = |index: usize| sums.get(index).copied().unwrap_or_default();
    at(range.end) - at(range.start)
}
