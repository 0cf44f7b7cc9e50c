//! Which blocks of a page are the article.
//!
//! Three steps: cut what is named or tagged as something else, choose the element that holds the
//! prose that is left, and pick its blocks. Every step can be wrong on some page, so each is
//! checked against how much prose it would lose; nothing here looks at the site's address.

use std::collections::HashSet;

use super::clean;
use super::page::{Block, Page, ratio};
use crate::simhash::words;

/// The body, as paragraphs.
#[derive(Debug)]
pub(super) struct Body {
    pub paragraphs: Vec<String>,
    pub method: &'static str,
    pub confidence: f32,
}

/// Finds the article in a page, with its headline, the body that its JSON-LD holds and the
/// summary that its feed gave.
pub(super) fn find(page: &Page, title: &str, ld: Option<&str>, summary: Option<&str>) -> Body {
    let ld_lines = ld.map(clean::plain_lines).unwrap_or_default();
    let anchors = Anchors::new(&ld_lines.join(" ")).or_else(|| Anchors::new(summary?));
    let view = View::new(page, title, anchors.as_ref());
    let (container, method) = view.container();
    let mut blocks = view.pick(container);
    let mut confidence = view.confidence(container, &blocks);
    let mut method = method;
    if count_words(&blocks) < 25 {
        let all = view.pick(0);
        if count_words(&all) > count_words(&blocks) {
            (blocks, method, confidence) = (all, "page", confidence.min(0.3));
        }
    }
    let found = count_words(&blocks);
    let declared: usize = ld_lines.iter().map(|line| words(line).count()).sum();
    // The page shows much less than it declares: it is built by scripts or shows an excerpt.
    if declared > 50 && declared > found * 3 / 2 {
        return Body { paragraphs: ld_lines, method: "json_ld", confidence: 0.9 };
    }
    let paragraphs = blocks.iter().map(|block| block.text.clone()).collect();
    Body { paragraphs, method, confidence }
}

fn count_words(blocks: &[&Block]) -> usize {
    blocks.iter().map(|block| words(&block.text).count()).sum()
}

/// A text that is known to be of the article, to recognise its blocks by.
struct Anchors {
    shingles: HashSet<String>,
}

impl Anchors {
    /// `None` when the text is too short to tell one block from another.
    fn new(text: &str) -> Option<Self> {
        let shingles = shingles(text);
        (shingles.len() >= 8).then_some(Self { shingles })
    }

    /// Whether most of a block is in the text.
    fn hold(&self, block: &Block) -> bool {
        let own = shingles(&block.text);
        let known = own.iter().filter(|shingle| self.shingles.contains(*shingle)).count();
        own.len() >= 3 && known * 10 >= own.len() * 6
    }
}

fn shingles(text: &str) -> HashSet<String> {
    let folded = clean::fold(text);
    let words: Vec<&str> = folded.split(' ').collect();
    words.windows(3).map(|three| three.join(" ")).collect()
}

/// Sums over the first so many blocks, so that any element's sum is a difference.
struct Sums(Vec<usize>);

impl Sums {
    fn new(values: impl Iterator<Item = usize>) -> Self {
        let mut sums = vec![0];
        let mut total = 0;
        sums.extend(values.map(|value| {
            total += value;
            total
        }));
        Self(sums)
    }

    fn over(&self, (start, end): (usize, usize)) -> usize {
        let at = |index: usize| self.0.get(index).copied().unwrap_or(0);
        at(end).saturating_sub(at(start))
    }
}

/// A page with what was cut, and the prose that is left.
struct View<'a> {
    page: &'a Page,
    title: &'a str,
    /// By element: whether it or one around it was cut.
    cut: Vec<bool>,
    /// Characters of prose that is not cut.
    prose: Sums,
    /// Characters of it that are known to be of the article.
    anchored: Sums,
    /// Characters that are not cut, in links and in all.
    links: Sums,
    chars: Sums,
}

impl<'a> View<'a> {
    fn new(page: &'a Page, title: &'a str, anchors: Option<&Anchors>) -> Self {
        let cut = cut(page, title);
        let is_cut = |block: &Block| cut.get(block.node).copied().unwrap_or(false);
        let kept = |block: &Block| if is_cut(block) { 0 } else { prose(page, block) };
        let prose = Sums::new(page.blocks.iter().map(kept));
        let anchored = Sums::new(page.blocks.iter().map(|block| match anchors {
            Some(anchors) if !is_cut(block) && anchors.hold(block) => block.chars,
            _ => 0,
        }));
        let left = |chars: usize, block: &Block| if is_cut(block) { 0 } else { chars };
        let links = Sums::new(page.blocks.iter().map(|block| left(block.link_chars, block)));
        let chars = Sums::new(page.blocks.iter().map(|block| left(block.chars, block)));
        Self { page, title, cut, prose, anchored, links, chars }
    }

    fn range(&self, node: usize) -> (usize, usize) {
        self.page.nodes.get(node).map_or((0, 0), |node| node.blocks)
    }

    fn prose_of(&self, node: usize) -> usize {
        self.prose.over(self.range(node))
    }

    fn is_cut(&self, node: usize) -> bool {
        self.cut.get(node).copied().unwrap_or(false)
    }

    /// The element that holds the article, and how it was told.
    fn container(&self) -> (usize, &'static str) {
        let whole = self.prose_of(0);
        let anchored = self.anchored.over(self.range(0));
        let fits = |node: &usize, percent: usize| {
            self.prose_of(*node) * 100 >= whole * percent
                && self.anchored.over(self.range(*node)) * 2 >= anchored
        };
        let most = |wanted: &dyn Fn(usize) -> bool| {
            (0..self.page.nodes.len())
                .filter(|node| !self.is_cut(*node) && wanted(*node))
                .max_by_key(|node| self.prose_of(*node))
        };
        let tagged = |tag: &'static str| {
            move |node: usize| self.page.nodes.get(node).is_some_and(|node| node.tag == tag)
        };
        let marked = |node: usize| self.page.nodes.get(node).is_some_and(|n| n.is_article_body);
        let named = |node: usize| {
            let node = self.page.nodes.get(node);
            node.is_some_and(|node| node.hints.body && !matches!(node.tag, "p" | "li"))
        };
        if let Some(node) = most(&marked).filter(|node| fits(node, 30)) {
            return (self.with_siblings(node), "itemprop");
        }
        if let Some(node) = most(&named).map(|node| self.deepest(node, &named, 60)) {
            let node = self.with_siblings(node);
            if fits(&node, 30) {
                return (node, "body_name");
            }
        }
        if let Some(node) = most(&tagged("article")).filter(|node| fits(node, 40)) {
            return (node, "article_tag");
        }
        let scored = self.best_scored().map(|node| self.with_prose_around(node));
        if let Some(node) = scored.filter(|node| fits(node, 50)) {
            return (node, "score");
        }
        if let Some(node) = most(&tagged("main")).filter(|node| fits(node, 50)) {
            return (node, "main_tag");
        }
        (self.deepest(0, &|_| true, 80), "cover")
    }

    /// The last wanted element inside `node` that keeps so much of its prose.
    fn deepest(&self, node: usize, wanted: &dyn Fn(usize) -> bool, percent: usize) -> usize {
        let (end, whole) = (self.page.nodes.get(node).map_or(0, |n| n.end), self.prose_of(node));
        let keeps = |inner: &usize| {
            !self.is_cut(*inner) && wanted(*inner) && self.prose_of(*inner) * 100 >= whole * percent
        };
        (node..end).rfind(keeps).unwrap_or(node)
    }

    /// The element around it, when the body goes on in siblings of the same make.
    fn with_siblings(&self, node: usize) -> usize {
        let Some(own) = self.page.nodes.get(node) else { return node };
        let Some(parent) = self.page.nodes.get(own.parent) else { return node };
        let twin = self.page.nodes.iter().enumerate().take(parent.end).skip(own.parent + 1).any(
            |(index, other)| {
                index != node
                    && other.parent == own.parent
                    && other.signature == own.signature
                    && self.prose_of(index) > 0
            },
        );
        if twin && own.tag != "article" { own.parent } else { node }
    }

    /// The element around it, as long as that adds prose and next to no links.
    fn with_prose_around(&self, node: usize) -> usize {
        let mut best = node;
        let mut outer = node;
        while let Some(parent) = self.page.nodes.get(outer).map(|node| node.parent)
            && parent != outer
        {
            outer = parent;
            let prose = self.prose_of(outer) - self.prose_of(best);
            let links = self.links.over(self.range(outer)) - self.links.over(self.range(best));
            if links * 3 > prose {
                break;
            }
            if prose > 0 {
                best = outer;
            }
        }
        best
    }

    /// The element whose own paragraphs say most: prose counts for the element around it, half
    /// for the next one out, a third for the one after.
    fn best_scored(&self) -> Option<usize> {
        let mut scores = vec![0.0_f32; self.page.nodes.len()];
        for block in &self.page.blocks {
            if self.is_cut(block.node) || prose(self.page, block) == 0 {
                continue;
            }
            let commas = block.text.matches([',', '،', '，', '、']).count().min(10);
            let worth = 1.0 + ratio(commas, 1) + ratio(block.chars, 100).min(3.0);
            let inner = matches!(
                self.page.tag_of(block),
                "p" | "pre" | "td" | "blockquote" | "li" | "h2" | "h3" | "dd"
            );
            let mut node = block.node;
            if inner {
                node = self.page.nodes.get(node).map_or(0, |node| node.parent);
            }
            for share in [1.0, 0.5, 0.33] {
                if let Some(score) = scores.get_mut(node) {
                    *score += worth * share;
                }
                let parent = self.page.nodes.get(node).map_or(0, |node| node.parent);
                if parent == node {
                    break;
                }
                node = parent;
            }
        }
        let density = |node: usize| {
            ratio(self.links.over(self.range(node)), self.chars.over(self.range(node)))
        };
        let judged =
            scores.iter().enumerate().map(|(node, score)| (node, score * (1.0 - density(node))));
        judged
            .filter(|(_, score)| *score > 0.0)
            .max_by(|one, other| one.1.total_cmp(&other.1))
            .map(|(node, _)| node)
    }

    /// The blocks of the article inside an element.
    fn pick(&self, container: usize) -> Vec<&'a Block> {
        let (start, end) = self.range(container);
        let inside = self.page.blocks.iter().skip(start).take(end - start);
        let verdicts: Vec<(&Block, bool)> =
            inside.map(|block| (block, self.belongs(block))).collect();
        let mut seen = HashSet::new();
        let mut picked: Vec<&Block> = Vec::new();
        for (at, (block, belongs)) in verdicts.iter().enumerate() {
            let after = verdicts.get(at + 1..).unwrap_or_default();
            let fresh = block.chars < 40 || seen.insert(block.text.as_str());
            if *belongs && fresh && (!self.is_heading(block) || self.heads_something(block, after))
            {
                picked.push(block);
            }
        }
        self.trim(picked)
    }

    fn is_heading(&self, block: &Block) -> bool {
        self.level(block).is_some()
    }

    fn level(&self, block: &Block) -> Option<u8> {
        match self.page.tag_of(block).as_bytes() {
            [b'h', level @ b'1'..=b'6'] => Some(level - b'0'),
            _ => None,
        }
    }

    /// Whether a heading is followed by text of the article before the next one of its rank.
    fn heads_something(&self, heading: &Block, after: &[(&Block, bool)]) -> bool {
        let own = self.level(heading);
        let section = after.iter().take_while(|(block, _)| match self.level(block) {
            Some(level) => own.is_some_and(|own| level > own),
            None => true,
        });
        let mut texts = section.filter(|(block, _)| !self.is_heading(block));
        texts.any(|(_, belongs)| *belongs)
    }

    /// Whether a block inside the container is part of the article.
    fn belongs(&self, block: &Block) -> bool {
        if self.is_cut(block.node) || self.page.tag_of(block) == "h1" {
            return false;
        }
        let short = block.chars < 100;
        let density = block.link_density();
        let linked = density > 0.6 && !(block.chars > 200 && density < 0.8);
        let repeats_title = block.chars < 300
            && !clean::ends_sentence(&block.text)
            && clean::likeness(&block.text, self.title) > 0.8;
        let away = (short || density > 0.3 && block.chars < 250) && clean::leads_away(&block.text);
        let facts = short && (clean::is_byline(&block.text) || clean::is_date_line(&block.text));
        !(linked && !self.is_sentence(block)
            || repeats_title
            || away
            || facts
            || block.chars < 120 && self.in_link_list(block))
    }

    /// A paragraph that is one link and yet a sentence of its own among others.
    fn is_sentence(&self, block: &Block) -> bool {
        self.page.tag_of(block) == "p"
            && clean::ends_sentence(&block.text)
            && !block.text.ends_with(['…', ':'])
            && words(&block.text).count() >= 12
    }

    /// Whether a list item stands in a list of links.
    fn in_link_list(&self, block: &Block) -> bool {
        let mut node = block.node;
        for _ in 0..3 {
            let Some(inner) = self.page.nodes.get(node) else { return false };
            if matches!(inner.tag, "ul" | "ol" | "menu") {
                let (links, chars) = (self.links.over(inner.blocks), self.chars.over(inner.blocks));
                return links * 10 > chars * 6;
            }
            node = inner.parent;
        }
        false
    }

    /// Without the weak lines at both ends: labels, buttons, names.
    fn trim(&self, mut blocks: Vec<&'a Block>) -> Vec<&'a Block> {
        let weak = |block: &&Block| {
            let short = match self.page.tag_of(block) {
                "tr" | "pre" | "blockquote" => 0,
                "p" | "li" => 25,
                _ => 80,
            };
            block.chars < short && !self.is_heading(block) && !clean::ends_sentence(&block.text)
        };
        while blocks.last().is_some_and(|block| weak(block) || self.is_heading(block)) {
            blocks.pop();
        }
        let head = blocks.iter().take_while(|block| weak(block)).count();
        blocks.split_off(head.min(blocks.len()))
    }

    /// How sure the choice is: how much of the page's prose it holds, how little of it is links,
    /// and whether there is enough of it.
    fn confidence(&self, container: usize, blocks: &[&Block]) -> f32 {
        let held = ratio(self.prose_of(container), self.prose_of(0));
        let chars: usize = blocks.iter().map(|block| block.chars).sum();
        let links: usize = blocks.iter().map(|block| block.link_chars).sum();
        let enough = ratio(count_words(blocks), 100).min(1.0);
        held * (1.0 - ratio(links, chars)) * (0.5 + enough / 2.0)
    }
}

/// The characters of a block that count as prose: enough text, and not mostly links.
fn prose(page: &Page, block: &Block) -> usize {
    let least = if matches!(page.tag_of(block), "p" | "pre" | "blockquote") { 20 } else { 60 };
    let is_prose = block.chars >= least && block.link_density() < 0.4;
    if is_prose { block.chars - block.link_chars } else { 0 }
}

/// By element: whether it, or one around it, is not part of any article.
fn cut(page: &Page, title: &str) -> Vec<bool> {
    let by_name = cut_with(page, title, true);
    let by_tag = cut_with(page, title, false);
    let left = |cut: &[bool]| -> usize {
        let kept = page.blocks.iter().filter(|block| !cut.get(block.node).unwrap_or(&false));
        kept.map(|block| prose(page, block)).sum()
    };
    // Names that leave next to nothing mean something else on this site.
    if left(&by_name) * 10 < left(&by_tag) { by_tag } else { by_name }
}

fn cut_with(page: &Page, title: &str, names: bool) -> Vec<bool> {
    let prose = Sums::new(page.blocks.iter().map(|block| prose(page, block)));
    let chars = Sums::new(page.blocks.iter().map(|block| block.chars));
    let whole = prose.over((0, page.blocks.len()));
    let headline = page
        .blocks
        .iter()
        .position(|block| page.tag_of(block) == "h1" && clean::likeness(&block.text, title) > 0.7);
    // Elements that only an article has; what holds one of them is around the article.
    let cores = Sums::new(page.nodes.iter().map(|node| {
        let named = node.is_article_body || node.hints.body && !node.hints.apart;
        let large = prose.over(node.blocks) * 2 >= whole;
        usize::from(whole > 0 && (named || matches!(node.tag, "article" | "main") && large))
    }));
    let mut cut = vec![false; page.nodes.len()];
    let mut in_article = vec![false; page.nodes.len()];
    for (index, node) in page.nodes.iter().enumerate().skip(1) {
        let outer = |flags: &[bool]| flags.get(node.parent).copied().unwrap_or(false);
        let within = outer(&in_article) || matches!(node.tag, "article" | "main");
        let holds_headline = headline
            .is_some_and(|at| (node.blocks.0..node.blocks.1).contains(&at) && node.tag != "h1");
        let held = prose.over(node.blocks);
        let protected = holds_headline || cores.over((index, node.end)) > 0;
        let holds = |percent: usize| held > 0 && held * 100 >= whole * percent;
        let small = chars.over(node.blocks) < 400;
        let apart = names && node.hints.apart
            || matches!(node.tag, "nav" | "menu" | "footer" | "aside" | "figcaption")
            || node.tag == "header" && !outer(&in_article);
        let aside = names && node.hints.aside || node.hints.hidden || node.tag == "form";
        let facts = names && node.hints.facts && small;
        let cuts = !protected && (apart && !holds(85) || (aside || facts) && !holds(50));
        if let (Some(own_cut), Some(own_within)) = (cut.get_mut(index), in_article.get_mut(index)) {
            *own_within = within;
            *own_cut = cuts;
        }
        if outer(&cut)
            && let Some(own) = cut.get_mut(index)
        {
            *own = true;
        }
    }
    cut
}
