//! Elements that may hold the article, and what can be told of each.
//!
//! A handful of rules name them; a ranker scores them by what it learned. The scores are features of
//! the blocks inside and outside, so that a wrong container costs little.

use std::ops::Range;

use super::features::{Row, Sheet};
use super::form::count;
use super::marks::{Mark, Marks};
use super::outline::{over, sums};
use super::page::Node;
use super::tags::{Sem, Tag};

/// Marks that speak against a container.
const NEGATIVE: Marks = Marks::of(&[
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
    Mark::Author,
    Mark::Tags,
    Mark::Caption,
]);

/// The rules that name candidates.
pub(super) const RULES: [&str; 14] = [
    "r_rtop",
    "r_rtop_par",
    "r_art_max",
    "r_art_first",
    "r_main",
    "r_itemprop",
    "r_body_max",
    "r_body_2",
    "r_cont_max",
    "r_ld",
    "r_cov60",
    "r_cov80",
    "r_cov95",
    "r_root",
];

/// An element that may hold the article.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub node: usize,
    pub blocks: Range<usize>,
    /// A bit for each rule that named it.
    rules: u16,
}

impl Candidate {
    /// The first rule that named it.
    pub(super) fn rule(&self) -> &'static str {
        let rule = RULES.iter().enumerate().find(|(bit, _)| self.rules >> bit & 1 == 1);
        rule.map_or("root", |(_, name)| name.trim_start_matches("r_"))
    }
}

/// The candidates of a page; those that hold the same blocks are one.
pub(super) fn find(sheet: &Sheet<'_>) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for (bit, node) in named(sheet).into_iter().enumerate() {
        let Some(index) = node.filter(|node| sheet.outline.held(*node).chars > 0.0) else {
            continue;
        };
        let Some(node) = sheet.page.nodes.get(index) else { continue };
        match found.iter_mut().find(|other| other.blocks == node.blocks) {
            Some(other) => {
                other.rules |= 1 << bit;
                other.node = other.node.max(index);
            }
            None => {
                found.push(Candidate { node: index, blocks: node.blocks.clone(), rules: 1 << bit })
            }
        }
    }
    found
}

/// The element that each rule names.
fn named(sheet: &Sheet<'_>) -> [Option<usize>; RULES.len()] {
    let (page, outline) = (sheet.page, sheet.outline);
    let prose = |node: &usize| outline.held(*node).prose;
    let all = |is: &dyn Fn(&Node) -> bool| -> Vec<usize> {
        page.nodes.iter().enumerate().filter(|(_, node)| is(node)).map(|(at, _)| at).collect()
    };
    // Of equals the first, except where the last is wanted.
    let most = |nodes: &[usize]| {
        nodes.iter().copied().rev().max_by(|one, other| prose(one).total_cmp(&prose(other)))
    };
    let deepest = |nodes: &[usize], least: f32| {
        let holds = nodes.iter().copied().filter(|node| prose(node) >= least);
        holds.max_by_key(|node| page.nodes.get(*node).map_or(0, |node| node.depth))
    };
    let articles = all(&|node| node.tag == Tag::Article || node.sem == Some(Sem::Article));
    let mains = all(&|node| node.tag == Tag::Main || node.sem == Some(Sem::Main));
    let declared = all(&|node| node.is_article_body);
    let bodies = all(&|node| node.marks.has(Mark::Body));
    let contents = all(&|node| {
        let holds =
            matches!(node.tag, Tag::Div | Tag::Section | Tag::Article | Tag::Main | Tag::Td);
        holds && node.marks.has(Mark::Cont)
    });
    let everything: Vec<usize> = (0..page.nodes.len()).collect();
    let largest = |nodes: &[usize]| most(nodes).map_or(0.0, |node| prose(&node));
    let at_least = |part: f32| deepest(&everything, part * outline.prose);
    let top = outline.top;
    [
        Some(top),
        page.nodes.get(top).map(|node| node.parent),
        most(&articles),
        articles.first().copied(),
        most(&mains),
        most(&declared),
        most(&bodies),
        deepest(&bodies, 0.6 * largest(&bodies)),
        deepest(&contents, 0.8 * largest(&contents)),
        around_declared(sheet),
        at_least(0.6),
        at_least(0.8),
        at_least(0.95),
        Some(0),
    ]
}

/// Characters of each block that the declared body has, as running sums.
fn declared_sums(sheet: &Sheet<'_>) -> Vec<f32> {
    let chars = sheet.outline.forms.iter().zip(&sheet.declared);
    sums(chars.map(|(form, cover)| if *cover > 0.6 { form.chars } else { 0.0 }))
}

/// The deepest element with nearly all the text of the declared body.
fn around_declared(sheet: &Sheet<'_>) -> Option<usize> {
    let hit = declared_sums(sheet);
    let all = hit.last().copied().filter(|all| *all > 200.0)?;
    let holding = sheet.page.nodes.iter().enumerate();
    let holding = holding.filter(|(_, node)| over(&hit, &node.blocks) >= 0.9 * all);
    holding.max_by_key(|(_, node)| node.depth).map(|(index, _)| index)
}

/// Running sums of what is told of candidates.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    sheet: &'a Sheet<'a>,
    headings: Vec<f32>,
    items: Vec<f32>,
    negative: Vec<f32>,
    declared: Vec<f32>,
    linked: Vec<f32>,
    around: Vec<f32>,
    described: Vec<f32>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(sheet: &'a Sheet<'a>) -> Self {
        let (page, outline) = (sheet.page, sheet.outline);
        let tags = || page.blocks.iter().map(|block| page.tag_of(block));
        let one = |is: bool| f32::from(u8::from(is));
        let is_negative = |node: usize| {
            let marks = outline.around.get(node).map(|around| around.marks);
            marks.is_some_and(|marks| {
                NEGATIVE.numbers().any(|n| marks.get(n).is_some_and(|s| *s > 0.0 && *s < 0.3))
            })
        };
        let forms = || outline.forms.iter().enumerate();
        Self {
            sheet,
            headings: sums(tags().map(|tag| one(tag.level().is_some()))),
            items: sums(tags().map(|tag| one(tag == Tag::Li))),
            negative: sums(
                (page.blocks.iter().zip(&outline.forms))
                    .map(|(block, form)| one(is_negative(block.node)) * form.chars),
            ),
            declared: declared_sums(sheet),
            linked: sums(forms().map(|(at, form)| one(outline.density(at) > 0.5) * form.chars)),
            around: sums(forms().map(|(_, form)| form.around * form.chars)),
            described: sums(sheet.described.iter().map(|share| one(*share > 0.5))),
        }
    }

    /// Tells everything about a candidate.
    pub(super) fn tell(&self, candidate: &Candidate, among: usize, row: &mut Row) {
        row.clear();
        let outline = self.sheet.outline;
        let Some(node) = self.sheet.page.nodes.get(candidate.node) else { return };
        let held = outline.held(candidate.node);
        let (blocks, chars) = (count(candidate.blocks.len()).max(1.0), held.chars.max(1.0));
        let one = |is: bool| f32::from(u8::from(is));
        row.put("share", held.share);
        row.put("tshare", held.prose / outline.prose);
        row.put("ld", held.links);
        row.put("lnp", held.paragraphs.ln_1p());
        row.put("lavg", (chars / blocks).ln_1p());
        row.put("plong", held.prose / chars);
        row.put("rs", held.score / outline.held(outline.top).score.max(1.0));
        row.put("depth", f32::from(node.depth));
        row.put("nb", blocks.ln_1p());
        row.put("isart", one(node.tag == Tag::Article));
        row.put("ismain", one(node.tag == Tag::Main));
        row.put("isbody", one(node.marks.has(Mark::Body)));
        row.put("iscont", one(node.marks.has(Mark::Cont)));
        row.put("neg", super::form::real(node.marks.and(NEGATIVE).count()));
        let title = self.sheet.title;
        let inside = title.map(|title| candidate.blocks.contains(&title));
        row.put("hastitle", inside.map_or(-1.0, one));
        let start = candidate.blocks.start;
        let place =
            title.filter(|_| inside == Some(true)).map(|title| count(title - start) / blocks);
        row.put("title_in_top", place.unwrap_or(-1.0));
        let range = &candidate.blocks;
        row.put("nh", over(&self.headings, range) / blocks);
        row.put("nli", over(&self.items, range) / blocks);
        row.put("negshare", over(&self.negative, range) / chars);
        let declared = self.sheet.declared.first().is_some_and(|cover| *cover >= 0.0);
        let cover = over(&self.declared, range);
        let all = self.declared.last().copied().unwrap_or_default().max(1.0);
        row.put("ldcov_in", if declared { cover / all } else { -1.0 });
        row.put("ldcov_frac", if declared { cover / chars } else { -1.0 });
        row.put("has_ld", one(declared));
        row.put("after_title", title.map_or(-1.0, |title| one(start >= title)));
        row.put("sps", held.sentences / blocks);
        row.put("nc", count(among));
        row.put("selfld", over(&self.linked, range) / chars);
        row.put("startshare", over(&outline.chars, &(0..start)) / outline.total);
        let after = range.end..self.sheet.page.blocks.len();
        row.put("endshare", over(&outline.chars, &after) / outline.total);
        row.put("boil", over(&self.around, range) / chars);
        row.put("desc", one(over(&self.described, range) > 0.0));
        for (bit, rule) in RULES.into_iter().enumerate() {
            row.put(rule, one(candidate.rules >> bit & 1 == 1));
        }
    }
}

/// What the ranker's scores say of each block: whether it is in the best candidate, how good that
/// is, and by how much the best candidate with the block beats the best one without it.
#[derive(Debug)]
pub(super) struct Ranking {
    best: Range<usize>,
    score: f32,
    scored: Vec<(Range<usize>, f32)>,
}

impl Ranking {
    pub(super) fn new(candidates: &[Candidate], scores: &[f32]) -> Self {
        let scored: Vec<_> =
            candidates.iter().map(|one| one.blocks.clone()).zip(scores.iter().copied()).collect();
        // Of equals the first.
        let best = scored.iter().rev().max_by(|one, other| one.1.total_cmp(&other.1)).cloned();
        let (best, score) = best.unwrap_or_default();
        Self { best, score, scored }
    }

    pub(super) fn tell(&self, block: usize, row: &mut Row) {
        let (mut with, mut without) = (0.0_f32, 0.0_f32);
        for (range, score) in &self.scored {
            let side = if range.contains(&block) { &mut with } else { &mut without };
            *side = side.max(*score);
        }
        row.put("r0in", f32::from(u8::from(self.best.contains(&block))));
        row.put("r0s", self.score);
        row.put("r0d", with - without);
    }
}
