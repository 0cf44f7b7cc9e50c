//! Blocks of text that stand on many pages of a host: its frame, not its articles. Pure.
//!
//! A host has a small set of fingerprints with counts. Every new article counts its blocks; counts
//! are halved from time to time, so that what a host no longer shows is forgotten, and of too many
//! the rarest and oldest go first. The texts themselves are not kept.

use std::collections::HashSet;

use feedmill_formats::url as web;

use crate::model::{ArticleFact, EventKind, NewEvent};

/// The most fingerprints of a host.
const MOST: usize = 256;
/// The most that one page counts: its first and its last ones, where a frame is.
const OF_PAGE: usize = 64;
/// Pages after which all counts are halved.
const SPAN: u8 = 64;
/// On so many pages, and on one of so many of all pages, a block is no longer one article's own:
/// subheadings and stock phrases come back by chance.
const REPEATED: u8 = 3;
const ONE_OF: u8 = 4;
/// Bytes of a fingerprint and its count.
const ENTRY: usize = 9;

/// The fingerprints of a host, those that were not seen for longest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Prints {
    /// How many pages the counts speak of; halved with them.
    pages: u8,
    counts: Vec<(u64, u8)>,
}

/// The host whose frame an article may tell of, when it does: one that is new, because a page that
/// is read again, and a copy of another, say nothing about other pages.
pub(super) fn host(fact: &ArticleFact, event: Option<&NewEvent>) -> Option<String> {
    let is_new = event.is_some_and(|event| event.kind == EventKind::ArticleNew);
    let url = web::parse(&fact.article.url).ok();
    url.filter(|_| is_new && !fact.prints.is_empty()).map(|url| web::host(&url))
}

impl Prints {
    /// From what is kept; nothing when it is no such thing.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let Some((pages, entries)) = bytes.split_first() else { return Self::default() };
        let read = |entry: &[u8]| {
            let (count, print) = entry.split_last()?;
            Some((u64::from_be_bytes(print.try_into().ok()?), *count))
        };
        Self { pages: *pages, counts: entries.chunks_exact(ENTRY).filter_map(read).collect() }
    }

    /// As it is kept.
    pub(super) fn write(&self) -> Vec<u8> {
        let entries = self.counts.iter().flat_map(|(print, count)| {
            print.to_be_bytes().into_iter().chain(std::iter::once(*count))
        });
        std::iter::once(self.pages).chain(entries).collect()
    }

    /// Counts a page.
    pub(super) fn add(&mut self, page: &[u64]) {
        let half = OF_PAGE / 2;
        let (head, tail) = page.split_at(page.len().min(half));
        let tail = tail.iter().skip(tail.len().saturating_sub(half));
        let mut counted = HashSet::new();
        for print in head.iter().chain(tail).filter(|print| counted.insert(**print)) {
            let known = self.counts.iter().position(|(known, _)| known == print);
            let count = known.map_or(0, |at| self.counts.remove(at).1);
            self.counts.push((*print, count.saturating_add(1)));
        }
        self.pages = self.pages.saturating_add(1);
        if self.pages >= SPAN {
            self.pages /= 2;
            self.counts.iter_mut().for_each(|(_, count)| *count /= 2);
            self.counts.retain(|(_, count)| *count > 0);
        }
        while self.counts.len() > MOST {
            let rarest = self.counts.iter().enumerate().min_by_key(|(_, (_, count))| *count);
            let Some((at, _)) = rarest else { break };
            self.counts.remove(at);
        }
    }

    /// Those that stand on many pages.
    pub(super) fn repeated(&self) -> HashSet<u64> {
        let enough = REPEATED.max(self.pages / ONE_OF);
        let often = self.counts.iter().filter(|(_, count)| *count >= enough);
        often.map(|(print, _)| *print).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A page with a frame and so much text of its own.
    fn page(n: u64, own: u64) -> Vec<u64> {
        std::iter::once(7).chain((1..=own).map(|block| n * 1_000 + block)).chain([8]).collect()
    }

    #[test]
    fn a_frame_is_known_after_three_pages_and_forgotten_when_it_is_gone() {
        let mut prints = Prints::default();
        for n in 1..=2 {
            prints.add(&page(n, 40));
            assert!(prints.repeated().is_empty(), "two may be by chance");
        }
        prints.add(&page(3, 40));
        assert_eq!(prints.repeated(), [7, 8].into());
        for n in 4..=100 {
            prints.add(&page(n, 40));
            assert_eq!(prints.repeated(), [7, 8].into(), "after {n} pages");
        }
        for n in 101..=600 {
            prints.add(&[n * 1_000, n * 1_000 + 1]);
        }
        assert!(prints.repeated().is_empty(), "{prints:?}");
    }

    #[test]
    fn a_block_counts_once_a_page_and_long_pages_by_their_ends() {
        let mut prints = Prints::default();
        prints.add(&[5, 5, 5, 5]);
        assert!(prints.repeated().is_empty());
        for n in 1..=3 {
            prints.add(&page(n, 10_000));
        }
        assert_eq!(prints.repeated(), [7, 8].into());
    }

    #[test]
    fn a_stock_phrase_is_no_frame() {
        let mut prints = Prints::default();
        for n in 1..=200 {
            let phrase = [(n % 10 == 0).then_some(9)];
            let page: Vec<u64> =
                page(n, 5).into_iter().chain(phrase.into_iter().flatten()).collect();
            prints.add(&page);
            assert!(!prints.repeated().contains(&9), "after {n} pages");
        }
        assert_eq!(prints.repeated(), [7, 8].into());
    }

    proptest! {
        #[test]
        fn it_stays_small_and_reads_back(pages in prop::collection::vec(prop::collection::vec(0u64..600, 0..200), 0..80)) {
            let mut prints = Prints::default();
            for page in &pages {
                prints.add(page);
            }
            prop_assert!(prints.counts.len() <= MOST);
            prop_assert_eq!(Prints::read(&prints.write()), prints);
        }

        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            prop_assert!(Prints::read(&bytes).counts.len() <= bytes.len() / ENTRY);
        }
    }
}
