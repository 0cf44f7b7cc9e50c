//! Which blocks of a page are the article.
//!
//! A model gives every block of the page a probability; what it learned from is in its tables. What
//! is sure enough is taken, at both ends a little more sure; text that stands twice is taken once,
//! and the title, which is a field of its own, not at all.
//! Nothing here looks at the site's address.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::candidates::{self, Candidate, Judge, Ranking};
use super::clean::fold;
use super::features::{Row, Sheet};
use super::form::real;
use super::model::Model;

/// From this probability on a block is the article's.
const ACCEPT: f32 = 0.57;
/// The same before the first and after the last block of some length.
const ACCEPT_AT_ENDS: f32 = 0.63;
/// The same when hardly anything was found.
const ACCEPT_IN_NEED: f32 = 0.25;
/// The same in the same element as a block that is as sure as the next figure says.
const ACCEPT_BESIDE: f32 = 0.28;
/// The same of a last paragraph right behind one.
const ACCEPT_LAST: f32 = 0.15;
const RATHER_SURE: f32 = 0.7;
/// So few words are hardly anything.
const FEW_WORDS: f32 = 25.0;
/// A block with so many words is no label or button.
const SOME_LENGTH: f32 = 10.0;
/// So many blocks back and ahead a paragraph's neighbours are looked for.
const INSET: usize = 2;
/// A text with so many bytes does not stand twice by chance.
const TELLING: usize = 40;

static BLOCKS: LazyLock<Option<Model>> =
    LazyLock::new(|| Model::read(include_str!("model/blocks.txt")));
static RANKER: LazyLock<Option<Model>> =
    LazyLock::new(|| Model::read(include_str!("model/ranker.txt")));

/// What the model says of a page.
#[derive(Debug)]
pub(super) struct Verdict {
    /// The containers that were weighed, with their scores.
    pub candidates: Vec<(Candidate, f32)>,
    /// By block: how sure it is the article's.
    pub sure: Vec<f32>,
}

/// Why a block was taken or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Taken,
    Unlikely,
    WeakEnd,
    Copy,
    Title,
    Repeated,
    Elsewhere,
}

impl Why {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Unlikely => "unlikely",
            Self::WeakEnd => "weak_end",
            Self::Copy => "copy",
            Self::Title => "title",
            Self::Repeated => "repeated_on_host",
            Self::Elsewhere => "not_selected",
        }
    }
}

/// Asks the model about every block.
pub(super) fn judge(sheet: &Sheet<'_>) -> Verdict {
    let (Some(blocks), Some(ranker)) = (BLOCKS.as_ref(), RANKER.as_ref()) else {
        return Verdict { candidates: Vec::new(), sure: vec![0.0; sheet.page.blocks.len()] };
    };
    let found = candidates::find(sheet);
    let judge = Judge::new(sheet);
    let mut row = Row::new(None);
    let mut scores = Vec::with_capacity(found.len());
    for candidate in &found {
        judge.tell(candidate, found.len(), &mut row);
        scores.push(ranker.score(&row.values));
    }
    let ranking = Ranking::new(&found, &scores);
    let sure = (0..sheet.page.blocks.len()).map(|index| {
        sheet.tell(index, &mut row);
        ranking.tell(index, &mut row);
        blocks.probability(&row.values)
    });
    let sure = sure.collect();
    Verdict { candidates: found.into_iter().zip(scores).collect(), sure }
}

impl Verdict {
    /// Chooses the article's blocks; `repeated` tells texts that stand on other pages of the host,
    /// too, by their fingerprint.
    pub(super) fn choose(
        &self,
        sheet: &Sheet<'_>,
        title: &str,
        repeated: Option<&HashSet<u64>>,
    ) -> Vec<Why> {
        let words = |index: usize| sheet.outline.forms.get(index).map_or(0.0, |form| form.words);
        let long = |(index, sure): &(usize, &f32)| **sure > ACCEPT && words(*index) >= SOME_LENGTH;
        let first = self.sure.iter().enumerate().find(long).map(|(index, _)| index);
        let last = self.sure.iter().enumerate().rev().find(long).map(|(index, _)| index);
        let inner = first.zip(last).map(|(first, last)| first..=last);
        let mut taken: Vec<Why> = (self.sure.iter().enumerate())
            .map(|(index, sure)| match &inner {
                _ if *sure <= ACCEPT => Why::Unlikely,
                Some(inner) if !inner.contains(&index) && *sure < ACCEPT_AT_ENDS => Why::WeakEnd,
                _ => Why::Taken,
            })
            .collect();
        self.give_the_benefit(sheet, &mut taken);
        let held = |taken: &[Why]| -> f32 {
            let all = taken.iter().enumerate().filter(|(_, why)| **why == Why::Taken);
            all.map(|(index, _)| words(index)).sum()
        };
        if held(&taken) < FEW_WORDS {
            let more = |sure: &f32| if *sure > ACCEPT_IN_NEED { Why::Taken } else { Why::Unlikely };
            let more: Vec<Why> = self.sure.iter().map(more).collect();
            if held(&more) > held(&taken) {
                taken = more;
            }
        }
        if let Some(repeated) = repeated {
            leave_frame(sheet, repeated, &mut taken);
        }
        let title = fold(title);
        let is_title = |text: &str| {
            !title.is_empty() && text.len() <= 2 * title.len() + TELLING && fold(text) == title
        };
        let mut seen = HashSet::new();
        for (index, why) in taken.iter_mut().enumerate().filter(|(_, why)| **why == Why::Taken) {
            let print = sheet.print(index);
            let text = sheet.page.text_at(index);
            if is_title(text) {
                *why = Why::Title;
            } else if text.len() >= TELLING && !seen.insert(print) {
                *why = Why::Copy;
            }
        }
        taken
    }

    /// Takes headings between sure blocks, and paragraphs between them or behind the last one, which
    /// the model often takes for a note about the author, unless their words are those of a note.
    /// Advertisements and the like may stand in between.
    fn give_the_benefit(&self, sheet: &Sheet<'_>, taken: &mut [Why]) {
        let sure = |index: usize| self.sure.get(index).copied().unwrap_or_default();
        let beside = |index: usize, other: usize| {
            sure(other) >= RATHER_SURE && sheet.stand_together(index, other)
        };
        let before =
            |index: usize| (index.saturating_sub(INSET)..index).any(|at| beside(index, at));
        let behind = |index: usize| (index + 1..=index + INSET).any(|at| beside(index, at));
        let last = taken.iter().rposition(|why| *why == Why::Taken);
        for index in 1..taken.len() {
            let Some(form) = sheet.outline.forms.get(index) else { return };
            let ends_it = last.is_some_and(|last| last + 1 == index) && beside(index, index - 1);
            let least = if ends_it { ACCEPT_LAST } else { ACCEPT_BESIDE };
            let possible = sure(index) > least && sure(index) <= ACCEPT;
            if !possible || form.around >= 1.0 || form.behind > 0.0 {
                continue;
            }
            let Some(block) = sheet.page.blocks.get(index) else { return };
            let is_heading = sheet.page.tag_of(block).level().is_some();
            let marked = real(block.link_chars.max(block.bold_chars));
            let is_plain = marked * 3.0 < form.chars && !form.has_address && !form.trails;
            let is_prose = is_plain && form.words >= SOME_LENGTH && form.ends_sentence;
            let fits = if is_heading {
                beside(index, index - 1) && beside(index, index + 1)
            } else {
                is_prose && before(index) && (behind(index) || last < Some(index))
            };
            if fits && let Some(why) = taken.get_mut(index) {
                *why = Why::Taken;
            }
        }
    }

    /// How sure the taken blocks are, by their words.
    pub(super) fn confidence(&self, sheet: &Sheet<'_>, taken: &[usize]) -> f32 {
        let (mut sure, mut all) = (0.0, 0.0);
        for index in taken {
            let words = sheet.outline.forms.get(*index).map_or(0.0, |form| form.words);
            sure += words * self.sure.get(*index).copied().unwrap_or_default();
            all += words;
        }
        // A few words prove little, however sure each of them is.
        sure / f32::max(all, 1.0) * (all / 60.0).min(1.0).sqrt()
    }
}

/// Leaves out what stands on other pages of the host, too. A heading belongs to what follows it; and
/// a page that is nearly all repeated is a copy of others, not their frame.
fn leave_frame(sheet: &Sheet<'_>, repeated: &HashSet<u64>, taken: &mut [Why]) {
    let words = |index: usize| sheet.outline.forms.get(index).map_or(0.0, |form| form.words);
    let (mut all, mut known) = (0.0, 0.0);
    for (index, _) in taken.iter().enumerate().filter(|(_, why)| **why == Why::Taken) {
        all += words(index);
        known += if repeated.contains(&sheet.print(index)) { words(index) } else { 0.0 };
    }
    if known > all / 2.0 {
        return;
    }
    let is_heading = |index: usize| {
        let block = sheet.page.blocks.get(index);
        block.is_some_and(|block| sheet.page.tag_of(block).level().is_some())
    };
    let mut leads_on = false;
    for (index, why) in taken.iter_mut().enumerate().rev().filter(|(_, why)| **why == Why::Taken) {
        let is_frame = repeated.contains(&sheet.print(index));
        if is_frame && !(is_heading(index) && leads_on) {
            *why = Why::Repeated;
        }
        leads_on = *why == Why::Taken;
    }
}

#[cfg(test)]
mod tests {
    use super::super::observe::observe;
    use super::super::{Evidence, extract};
    use super::*;

    #[test]
    fn the_tables_are_of_these_features() {
        let page = format!("<body><h1>A title</h1><p>{}", "Some text of a page. ".repeat(20));
        let seen = observe(&page, "");
        let told = [seen.blocks.names, vec!["r0in", "r0s", "r0d"]].concat();
        assert_eq!(BLOCKS.as_ref().unwrap().names, told);
        assert_eq!(RANKER.as_ref().unwrap().names, seen.candidates.names);
    }

    #[test]
    fn what_stands_on_many_pages_is_no_text_and_headings_lead_on() {
        let frame = "Our reporters answer letters of readers every Friday in the town hall.";
        let own = |n: usize, m: usize| {
            format!(
                "<p>On day {m} the council talked for long about bridge {n} over the river.</p>"
            )
        };
        let page = |n: usize| {
            let text: String = (1..=4).map(|m| own(n, m)).collect();
            let rest: String = (5..=8).map(|m| own(n, m)).collect();
            format!(
                "<body><article><h1>Bridge {n} is built</h1>{text}<p>{frame}</p>\
                 <h2>What happens next</h2>{rest}</article>"
            )
        };
        let read = |n: usize, repeated: Option<&HashSet<u64>>| {
            let evidence = Evidence { repeated, ..Evidence::default() };
            extract(&page(n), "https://example.com/", &evidence).unwrap()
        };
        let prints = |n| read(n, None).prints.into_iter().collect::<HashSet<u64>>();
        let repeated: HashSet<u64> = prints(1).intersection(&prints(2)).copied().collect();
        let (before, after) = (read(3, None), read(3, Some(&repeated)));
        assert!(before.text.contains(frame) && !after.text.contains(frame), "{}", before.text);
        assert!(after.text.contains("What happens next") && after.text.contains("day 8"));
        assert_eq!(before.prints, after.prints, "what is left out is still counted");
        let own: HashSet<u64> = before.prints.iter().copied().collect();
        assert_eq!(read(3, Some(&own)).text, before.text, "a copy keeps its text");
    }
}
