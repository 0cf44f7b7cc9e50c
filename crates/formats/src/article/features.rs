//! What the model is told about each block: its form, the names and figures of the elements around
//! it, its place, its neighbours, and what the page declares about itself.
//!
//! The order and the names of the features are part of the model. Everything here is a figure; what
//! it means, the trees say.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use xxhash_rust::xxh3::xxh3_64;

use super::form::{Form, Spread, count, narrow, real};
use super::marks::{self, Mark, Marks};
use super::outline::{Held, Outline, over, sums};
use super::page::{Block, Page};
use super::said::Said;
use super::tags::Tag;

/// Room for the features of a block: a byte can name any of them.
pub(super) const WIDTH: usize = 256;

/// Marks that speak against a block when they are near it.
const NEGATIVE: Marks = Marks::of(&[
    Mark::Share,
    Mark::Related,
    Mark::Comment,
    Mark::Nav,
    Mark::Footer,
    Mark::Side,
    Mark::Ad,
    Mark::News,
    Mark::Author,
    Mark::Meta,
    Mark::Caption,
    Mark::Tags,
    Mark::Cookie,
    Mark::List,
    Mark::Hide,
]);

const SEMS: [&str; 13] = [
    "t_article",
    "t_main",
    "t_aside",
    "t_header",
    "t_footer",
    "t_nav",
    "t_figure",
    "t_form",
    "t_table",
    "t_ul",
    "t_blockquote",
    "t_section",
    "t_details",
];
/// The elements around a block whose figures are told.
const RINGS: [[&str; 8]; 3] = [
    ["q1share", "q1ld", "q1avg", "q1plong", "q1np", "q1tshare", "q1rs", "q1pos"],
    ["q2share", "q2ld", "q2avg", "q2plong", "q2np", "q2tshare", "q2rs", "q2pos"],
    ["q3share", "q3ld", "q3avg", "q3plong", "q3np", "q3tshare", "q3rs", "q3pos"],
];
const NEIGHBOURS: [(isize, [&str; 3]); 4] = [
    (-2, ["n-2lc", "n-2ld", "n-2tag"]),
    (-1, ["n-1lc", "n-1ld", "n-1tag"]),
    (1, ["n1lc", "n1ld", "n1tag"]),
    (2, ["n2lc", "n2ld", "n2tag"]),
];

/// The features of one block, and their names when somebody wants to know.
#[derive(Debug)]
pub(super) struct Row {
    pub values: [f32; WIDTH],
    len: usize,
    pub names: Option<Vec<&'static str>>,
}

impl Row {
    pub(super) const fn new(names: Option<Vec<&'static str>>) -> Self {
        Self { values: [0.0; WIDTH], len: 0, names }
    }

    pub(super) fn put(&mut self, name: &'static str, value: f32) {
        if let Some(slot) = self.values.get_mut(self.len) {
            *slot = value;
            self.len += 1;
        }
        if let Some(names) = &mut self.names {
            names.push(name);
        }
    }

    fn flag(&mut self, name: &'static str, value: bool) {
        self.put(name, f32::from(u8::from(value)));
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.names = self.names.take().map(|_| Vec::new());
    }

    pub(super) fn told(&self) -> &[f32] {
        self.values.get(..self.len).unwrap_or_default()
    }
}

/// Figures of all blocks with the same tag and class in the same surroundings.
#[derive(Clone, Copy, Debug, Default)]
struct Likes {
    blocks: f32,
    chars: f32,
    links: f32,
    long: f32,
}

type Counts<T> = HashMap<u64, T, BuildHasherDefault<Spread>>;

/// Everything that features are made of.
#[derive(Debug)]
pub(super) struct Sheet<'a> {
    pub page: &'a Page,
    pub outline: &'a Outline,
    /// By block: how alike it is to the titles, the description and the declared body.
    pub title_likeness: Vec<f32>,
    pub described: Vec<f32>,
    pub declared: Vec<f32>,
    /// By block: whether it names an author, starts with one, and names the site.
    named: Vec<[bool; 3]>,
    body_length: f32,
    /// The block that shows the title.
    pub title: Option<usize>,
    /// The nearest elements around each block that hold more blocks.
    rings: Vec<[usize; 3]>,
    likes: Vec<u64>,
    likes_by: Counts<Likes>,
    siblings: Counts<u32>,
    repeats: Vec<f32>,
    texts: Vec<u64>,
    copies: Counts<u32>,
    later: Vec<bool>,
    good: Vec<f32>,
    since_good: Vec<f32>,
    until_good: Vec<f32>,
    best_scores: Vec<f32>,
    articles: f32,
}

impl<'a> Sheet<'a> {
    pub(super) fn new(page: &'a Page, outline: &'a Outline, said: &Said) -> Self {
        let mut sheet = Self {
            page,
            outline,
            title_likeness: said.likeness(outline),
            described: said.described(outline),
            declared: said.declared(outline),
            named: said.named(outline),
            body_length: (said.body_chars / outline.prose).min(2.0),
            title: None,
            rings: Vec::new(),
            likes: Vec::new(),
            likes_by: Counts::default(),
            siblings: Counts::default(),
            repeats: Vec::new(),
            texts: Vec::new(),
            copies: Counts::default(),
            later: Vec::new(),
            good: Vec::new(),
            since_good: Vec::new(),
            until_good: Vec::new(),
            best_scores: Vec::new(),
            articles: 0.0,
        };
        sheet.title = sheet.find_title();
        sheet.find_rings();
        sheet.count_likes();
        sheet.count_copies();
        sheet.find_good();
        sheet
    }

    fn form(&self, block: usize) -> Option<&Form> {
        self.outline.forms.get(block)
    }

    fn find_title(&self) -> Option<usize> {
        let alike =
            |block: &usize| self.title_likeness.get(*block).is_some_and(|like| *like > 0.75);
        let tag = |block: &usize| self.page.blocks.get(*block).map(|block| self.page.tag_of(block));
        let all = || 0..self.page.blocks.len();
        let is_h1 = |block: &usize| tag(block) == Some(Tag::H1);
        let is_heading = |block: &usize| tag(block).is_some_and(|tag| tag.level().is_some());
        (all().filter(alike).find(is_h1))
            .or_else(|| all().filter(alike).find(is_heading))
            .or_else(|| all().find(alike))
            .or_else(|| all().find(is_h1))
    }

    /// The next element around that holds more blocks.
    fn wider(&self, node: usize) -> usize {
        let blocks = self.outline.held(node).blocks;
        let mut around = self.page.around(node).skip(1);
        around.find(|(outer, _)| self.outline.held(*outer).blocks > blocks).map_or(0, |(at, _)| at)
    }

    fn find_rings(&mut self) {
        let mut rings = Vec::with_capacity(self.page.blocks.len());
        let mut last: Option<(usize, [usize; 3])> = None;
        for block in &self.page.blocks {
            let ring = match last {
                Some((node, ring)) if node == block.node => ring,
                _ => {
                    let alone = self.outline.held(block.node).blocks <= 1.0;
                    let first = if alone { self.wider(block.node) } else { block.node };
                    let second = self.wider(first);
                    [first, second, self.wider(second)]
                }
            };
            last = Some((block.node, ring));
            rings.push(ring);
        }
        self.rings = rings;
    }

    fn count_likes(&mut self) {
        let signature = |node: usize| {
            let node = self.page.nodes.get(node);
            node.map_or(0, |node| node.class.rotate_left(7) ^ u64::from(node.tag as u8) << 1)
        };
        for (index, block) in self.page.blocks.iter().enumerate() {
            let outer = self.page.node_of(block).map_or(0, |node| node.parent);
            let key = signature(block.node).wrapping_mul(31) ^ signature(outer).rotate_left(32);
            let likes = self.likes_by.entry(key).or_default();
            likes.blocks += 1.0;
            likes.chars += self.outline.forms.get(index).map_or(0.0, |form| form.chars);
            likes.links += self.outline.links_of(index);
            likes.long += f32::from(u8::from(self.outline.is_long(index)));
            self.likes.push(key);
        }
        let sibling = |index: usize, node: &super::page::Node| {
            signature(index).wrapping_add(u64::from(narrow(node.parent)) << 20)
        };
        for (index, node) in self.page.nodes.iter().enumerate() {
            *self.siblings.entry(sibling(index, node)).or_default() += 1;
            self.articles += f32::from(u8::from(node.tag == Tag::Article));
        }
        let counted = |(index, node): (usize, &super::page::Node)| {
            real(self.siblings.get(&sibling(index, node)).copied().unwrap_or(1))
        };
        // The largest number of like siblings over eight elements around, from the top down: each
        // element remembers those of the elements around it.
        self.best_scores = vec![0.0; self.page.nodes.len()];
        self.repeats = self.page.nodes.iter().enumerate().map(counted).collect();
        for (index, node) in self.page.nodes.iter().enumerate() {
            let outer = if index > 0 && self.outline.held(node.parent).share < 0.9 {
                self.best_scores.get(node.parent).copied().unwrap_or_default()
            } else {
                0.0
            };
            let own = self.outline.held(index).score;
            if let Some(best) = self.best_scores.get_mut(index) {
                *best = own.max(outer);
            }
        }
    }

    fn count_copies(&mut self) {
        for block in &self.page.blocks {
            let print = xxh3_64(self.page.text(block).as_bytes());
            let copies = self.copies.entry(print).or_default();
            self.later.push(*copies > 0);
            *copies += 1;
            self.texts.push(print);
        }
    }

    /// Good blocks are long, have few links and end as sentences do.
    fn find_good(&mut self) {
        let is_good: Vec<bool> = (self.outline.forms.iter().enumerate())
            .map(|(index, form)| {
                form.chars > 100.0 && self.outline.density(index) < 0.3 && form.ends_sentence
            })
            .collect();
        let distance = |flags: &mut dyn Iterator<Item = &bool>| -> Vec<f32> {
            let mut since = None;
            let told = flags.map(|good| {
                let told = since.unwrap_or(99.0_f32);
                since = if *good { Some(1.0) } else { since.map(|since: f32| since + 1.0) };
                told.ln_1p()
            });
            told.collect()
        };
        self.since_good = distance(&mut is_good.iter());
        self.until_good = distance(&mut is_good.iter().rev());
        self.until_good.reverse();
        let chars = (self.outline.forms.iter().zip(&is_good))
            .map(|(form, good)| if *good { form.chars } else { 0.0 });
        self.good = sums(chars);
    }

    /// The largest number of like siblings that an element around the block has.
    fn most_repeats(&self, node: usize) -> f32 {
        let around = self.page.around(node).take(8);
        around
            .take_while(|(index, _)| *index > 0 && self.outline.held(*index).share < 0.5)
            .filter(|(_, node)| {
                !matches!(
                    node.tag,
                    Tag::P | Tag::Li | Tag::H2 | Tag::H3 | Tag::Tr | Tag::Td | Tag::Dd | Tag::Dt
                )
            })
            .map(|(index, _)| self.repeats.get(index).copied().unwrap_or(1.0))
            .fold(1.0, f32::max)
    }

    /// Tells everything about a block.
    pub(super) fn tell(&self, index: usize, row: &mut Row) {
        row.clear();
        let (Some(block), Some(form)) = (self.page.blocks.get(index), self.form(index)) else {
            return;
        };
        self.tell_form(index, block, form, row);
        self.tell_around(block, row);
        self.tell_rings(index, row);
        self.tell_place(index, block, row);
        self.tell_neighbours(index, row);
        self.tell_sayings(index, row);
        self.tell_likes(index, block, row);
        self.tell_page(index, row);
    }

    fn tell_form(&self, index: usize, block: &Block, form: &Form, row: &mut Row) {
        let words = form.words.max(1.0);
        row.put("lw", form.words.ln_1p());
        row.put("lc", form.chars.ln_1p());
        row.put("ldens", self.outline.density(index));
        row.put("awl", form.chars / words);
        row.put("nlinks", real(block.links.min(50)));
        row.put("bold", (real(block.bold_chars) / form.chars.max(1.0)).min(1.0));
        row.flag("time", block.has_time);
        row.flag("endp", form.ends_sentence);
        row.flag("endcolon", form.ends_colon);
        row.put("sent", form.sentences.ln_1p());
        row.put("spw", form.sentences / words);
        row.put("cpw", form.commas / words);
        row.put("stop", form.function);
        row.put("caps", form.capitals);
        row.put("digs", form.numbers);
        row.flag("upper", form.shouts);
        row.flag("lower0", form.starts_low);
        row.flag("date", form.has_date);
        row.flag("byl", form.is_byline);
        row.put("boil", form.around);
        row.flag("pipe", form.has_separator);
        row.flag("quest", form.asks);
        row.put("behind", form.behind);
        row.flag("trails", form.trails);
        row.flag("address", form.has_address);
        let tag = self.page.tag_of(block);
        row.put("tag", f32::from(tag.number()));
        row.flag("ish", tag.level().is_some());
    }

    fn tell_around(&self, block: &Block, row: &mut Row) {
        let Some(around) = self.outline.around.get(block.node) else { return };
        for (name, share) in marks::NAMES.into_iter().zip(around.marks) {
            row.put(name, share);
        }
        for (name, share) in SEMS.into_iter().zip(around.sems) {
            row.put(name, share);
        }
        row.put("hid", around.hidden);
        let near = |number: &usize| {
            around.marks.get(*number).is_some_and(|share| *share > 0.0 && *share < 0.3)
        };
        row.put("nneg", count(NEGATIVE.numbers().filter(near).count()));
    }

    fn tell_rings(&self, index: usize, row: &mut Row) {
        let Some(ring) = self.rings.get(index) else { return };
        let top = self.outline.held(self.outline.top).score.max(1.0);
        for (node, names) in ring.iter().zip(RINGS) {
            let Held { chars, paragraphs, prose, share, links, blocks, score, .. } =
                self.outline.held(*node);
            let start = self.page.nodes.get(*node).map_or(0, |node| node.blocks.start);
            let [own, density, average, long, number, part, rated, place] = names;
            row.put(own, share);
            row.put(density, links);
            row.put(average, (chars / blocks.max(1.0)).ln_1p());
            row.put(long, prose / chars.max(1.0));
            row.put(number, paragraphs.ln_1p());
            row.put(part, prose / self.outline.prose);
            row.put(rated, score / top);
            row.put(place, (count(index) - count(start)) / (blocks - 1.0).max(1.0));
        }
        let [first, ..] = *ring;
        let held = self.outline.held(first);
        row.put("sps", held.sentences / held.blocks.max(1.0));
    }

    fn tell_place(&self, index: usize, block: &Block, row: &mut Row) {
        let top = self.outline.held(self.outline.top);
        let range = self.page.nodes.get(self.outline.top).map_or(0..0, |node| node.blocks.clone());
        row.flag("intop", range.contains(&index));
        row.put("top_share", top.share);
        let at = (count(index) - count(range.start)) / count(range.len()).max(1.0);
        row.put("postop", at.clamp(-1.0, 2.0));
        let best = self.best_scores.get(block.node).copied().unwrap_or_default();
        row.put("maxrs", best / top.score.max(1.0));
        let last = count(self.page.blocks.len().saturating_sub(1));
        row.put("pos", count(index) / last.max(1.0));
        row.put("cpos", over(&self.outline.chars, &(0..index)) / self.outline.total);
        row.put("bdepth", self.page.node_of(block).map_or(0.0, |node| f32::from(node.depth)));
        let signed = |distance: f32| distance.signum() * distance.abs().ln_1p();
        let chars = |block: usize| over(&self.outline.chars, &(0..block));
        match self.title {
            Some(title) if title == index => {
                row.put("dtitle", 0.0);
                row.put("dtc", 0.0);
            }
            Some(title) => {
                row.put("dtitle", signed(count(index) - count(title)));
                row.put("dtc", signed(chars(index) - chars(title)));
            }
            None => {
                row.put("dtitle", 9.0);
                row.put("dtc", 15.0);
            }
        }
    }

    fn tell_neighbours(&self, index: usize, row: &mut Row) {
        for (step, [length, density, tag]) in NEIGHBOURS {
            let near = index.checked_add_signed(step);
            let form = near.and_then(|near| self.form(near));
            row.put(length, form.map_or(0.0, |form| form.chars.ln_1p()));
            row.put(
                density,
                near.filter(|_| form.is_some()).map_or(1.0, |at| self.outline.density(at)),
            );
            let block = near.and_then(|near| self.page.blocks.get(near));
            row.put(tag, block.map_or(-1.0, |block| f32::from(self.page.tag_of(block).number())));
        }
        let ring =
            |at: Option<usize>| at.and_then(|at| self.rings.get(at)).map(|[first, ..]| *first);
        row.flag("n-1same", index > 0 && ring(index.checked_sub(1)) == ring(Some(index)));
        row.flag("n1same", ring(Some(index + 1)) == ring(Some(index)));
        row.put("dprev", self.since_good.get(index).copied().unwrap_or_default());
        row.put("dnext", self.until_good.get(index).copied().unwrap_or_default());
        for (reach, [text, density]) in [(3, ["win3", "winl3"]), (8, ["win8", "winl8"])] {
            let end = (index + reach + 1).min(self.page.blocks.len());
            let range = index.saturating_sub(reach)..end;
            let (chars, links) = (self.outline.chars_in(&range), over(&self.outline.links, &range));
            row.put(text, (chars - links).ln_1p());
            row.put(density, links / chars.max(1.0));
        }
        let all = self.good.last().copied().unwrap_or_default().max(1.0);
        row.put("good_after", over(&self.good, &(index + 1..self.page.blocks.len())) / all);
        row.put("good_before", over(&self.good, &(0..index)) / all);
    }

    fn tell_sayings(&self, index: usize, row: &mut Row) {
        row.put("tsim", self.title_likeness.get(index).copied().unwrap_or_default());
        row.put("ldb", self.declared.get(index).copied().unwrap_or(-1.0));
        row.put("ldblen", self.body_length);
        row.put("desc", self.described.get(index).copied().unwrap_or_default());
        let [author, first, site] = self.named.get(index).copied().unwrap_or_default();
        row.flag("author", author);
        row.flag("author0", first);
        row.flag("site", site);
    }

    fn tell_likes(&self, index: usize, block: &Block, row: &mut Row) {
        let likes = self.likes.get(index).and_then(|key| self.likes_by.get(key));
        let likes = likes.copied().unwrap_or_default();
        row.put("sgn", likes.blocks.ln_1p());
        row.put("sgshare", likes.chars / self.outline.total);
        row.put("sgld", likes.links / likes.chars.max(1.0));
        row.put("sgavg", (likes.chars / likes.blocks.max(1.0)).ln_1p());
        row.put("sglong", likes.long / likes.blocks.max(1.0));
        let first = self.rings.get(index).map_or(0, |[first, ..]| *first);
        row.put("rep1", self.repeats.get(first).copied().unwrap_or(1.0).ln_1p());
        row.put("maxrep", self.most_repeats(block.node).ln_1p());
        let copies = self.texts.get(index).and_then(|text| self.copies.get(text));
        row.put("dup", real(copies.map_or(0, |copies| (copies - 1).min(3))));
        row.flag("dup2", self.later.get(index).copied().unwrap_or_default());
    }

    fn tell_page(&self, index: usize, row: &mut Row) {
        let words: f32 = count(self.outline.words.len());
        row.put("pg_words", words.ln_1p());
        row.put("pg_nb", count(self.page.blocks.len()).ln_1p());
        let links = self.outline.links.last().copied().unwrap_or_default();
        row.put("pg_ld", links / self.outline.total);
        row.put("pg_long", self.outline.prose / self.outline.total);
        row.put("has_art", self.articles.min(2.0));
        let chars = self.form(index).map_or(0.0, |form| form.chars);
        row.put("wordshare", chars / self.outline.total);
        row.put("lshare", chars / self.outline.prose);
    }

    /// Whether the nearest element around both that holds more blocks is the same.
    pub(super) fn stand_together(&self, one: usize, other: usize) -> bool {
        let ring = |block: usize| self.rings.get(block).map(|[first, ..]| *first);
        ring(one).is_some() && ring(one) == ring(other)
    }

    /// The fingerprint of a block's text.
    pub(super) fn print(&self, index: usize) -> u64 {
        self.texts.get(index).copied().unwrap_or_default()
    }
}
