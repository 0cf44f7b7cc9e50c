//! Why a page was read as it was, for people.

use serde::Serialize;

use super::selectors::Parts;
use super::{Evidence, NotArticle, Reading, body, choose};

/// A container that was weighed.
#[derive(Clone, Debug, Serialize)]
pub struct Container {
    /// The first rule that named it.
    pub rule: &'static str,
    /// What it looks like: `div#id.class`.
    pub element: String,
    /// Its blocks: the first, and the one after the last.
    pub blocks: (usize, usize),
    /// How well it holds the article, 0 to 1.
    pub score: f32,
}

/// A block and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// How sure it is part of the article, 0 to 1.
    pub sure: f32,
    /// `taken`, or why not.
    pub why: &'static str,
    /// The element it stands in.
    pub element: String,
    /// Its text.
    pub text: String,
}

/// Why a page was read as it was.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The containers that were weighed, the best first.
    pub containers: Vec<Container>,
    /// All blocks in the order of reading.
    pub blocks: Vec<Judged>,
}

/// Explains how a page is read.
///
/// # Errors
/// When the page is too small or too large to be looked at.
pub fn explain(html: &str, url: &str, evidence: &Evidence<'_>) -> Result<Explanation, NotArticle> {
    let reading = Reading::new(html, url, evidence)?;
    let sheet = reading.sheet(evidence);
    let verdict = body::judge(&sheet);
    let parts = evidence.selectors.map(|selectors| Parts::new(&reading.tree, selectors));
    let title = reading.title(evidence);
    let (why, _) = choose(&reading, &sheet, &verdict, (parts.as_ref(), &title), evidence);
    let element = |node: usize| {
        reading.page.nodes.get(node).map_or_else(String::new, |node| reading.tree.selector(node.id))
    };
    let container = |(candidate, score): &(super::candidates::Candidate, f32)| Container {
        rule: candidate.rule(),
        element: element(candidate.node),
        blocks: (candidate.blocks.start, candidate.blocks.end),
        score: *score,
    };
    let mut containers: Vec<Container> = verdict.candidates.iter().map(container).collect();
    containers.sort_by(|one, other| other.score.total_cmp(&one.score));
    let judged = reading.page.blocks.iter().zip(&verdict.sure).zip(&why);
    let blocks = judged.map(|((block, sure), why)| Judged {
        sure: *sure,
        why: why.word(),
        element: element(block.node),
        text: reading.page.text(block).to_owned(),
    });
    Ok(Explanation { containers, blocks: blocks.collect() })
}
