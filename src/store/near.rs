//! Which articles tell the same with the same words. Pure.
//!
//! An index finds those that may: each article is kept under the few smallest hashes of its sketch,
//! and whoever has one of them in common is a candidate. Who is a copy is decided here, by the share
//! of text in common. The index must never decide, and this must never look anything up.

use std::collections::{HashMap, HashSet};

use feedmill_formats::sketch::Sketch;
use feedmill_formats::url as web;

use serde::Serialize;

use crate::model::{Article, ArticleFact, ArticleId, ArticleRow, Near, Ts};

/// Articles that one key may lead to; the latest are looked at, as copies come soon after.
pub(super) const PER_KEY: i64 = 64;
/// Candidates that are compared at the most, those with most keys in common first.
const COMPARED: usize = 32;
/// The share of text that makes a copy of another publisher's article: a wire story that was cut
/// down to half of it and has a head and a tail of its own.
const SHARE: f64 = 0.35;
/// The same within one site. Its articles share what stands below all of them, so it is more.
const SHARE_ON_SITE: f64 = 0.6;
/// Hashes in common that are no accident: fewer say nothing about a share.
const MARKS: usize = 4;

/// An article that a new one may be a copy of.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Which.
    pub id: ArticleId,
    /// Whose: a registrable domain.
    pub site: String,
    /// The first of the copies that it is one of itself.
    pub cluster: Option<ArticleId>,
    /// Whether these are at several sites.
    pub wire: bool,
    /// What its text is compared by.
    pub sketch: Sketch,
}

/// What is around an article, as far as it decides about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Company {
    /// The first other article with its very text.
    pub twin: Option<Candidate>,
    /// Articles that have a part of it in common, perhaps.
    pub candidates: Vec<Candidate>,
    /// Others are kept as copies of it.
    pub leads: bool,
}

/// Articles that tell the same with the same words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cluster {
    /// The first of them that we had.
    pub cluster: ArticleId,
    /// They are at several publishers' sites.
    pub wire: bool,
    /// How many sites these are.
    pub sites: usize,
    /// Who had it first.
    pub first: FirstPublisher,
    /// All of them, in the order in which we had them.
    pub articles: Vec<ArticleRow>,
}

/// Who published something first, as far as the pages say when; when they do not, it counts when we
/// first had them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FirstPublisher {
    /// The article.
    pub id: ArticleId,
    /// Where it is.
    pub url: String,
    /// Whose it is.
    pub site: String,
    /// When that was.
    pub at: Ts,
}

impl Cluster {
    /// What copies have in common, as the store lists them; nothing when there are none.
    #[must_use]
    pub fn of(articles: Vec<ArticleRow>) -> Option<Self> {
        let at = |row: &ArticleRow| row.article.published.unwrap_or(row.first_seen);
        let first = articles.iter().min_by_key(|row| at(row))?;
        let first = FirstPublisher {
            id: first.id,
            url: first.article.url.clone(),
            site: site(&first.article),
            at: at(first),
        };
        let leader = articles.first()?;
        let cluster = leader.near.as_ref().map_or(leader.id, |near| near.cluster);
        let sites: HashSet<String> = articles.iter().map(|row| site(&row.article)).collect();
        Some(Self { cluster, wire: sites.len() > 1, sites: sites.len(), first, articles })
    }
}

impl Candidate {
    /// What an article is for those that come after it.
    #[must_use]
    pub fn of(fact: &ArticleFact, near: Option<&Near>) -> Self {
        Self {
            id: fact.id,
            site: site(&fact.article),
            cluster: near.map(|near| near.cluster),
            wire: near.is_some_and(|near| near.wire),
            sketch: fact.sketch.clone(),
        }
    }

    fn joined(&self, share: f64, site: &str) -> Near {
        Near {
            cluster: self.cluster.unwrap_or(self.id),
            nearest: self.id,
            // As it is kept: to a thousandth.
            share: (share * 1_000.0).round() / 1_000.0,
            wire: self.wire || self.site != site,
        }
    }
}

/// Whose an article is: the registrable domain of its address.
#[must_use]
pub fn site(article: &Article) -> String {
    web::parse(&article.url).map(|url| web::site(&web::host(&url)).to_owned()).unwrap_or_default()
}

/// The rows to compare, of those that were found under the keys of an article; a row is given once
/// for each key.
pub(super) fn to_compare(found: impl IntoIterator<Item = i64>) -> Vec<i64> {
    let mut keys: HashMap<i64, u32> = HashMap::new();
    for row in found {
        *keys.entry(row).or_default() += 1;
    }
    let mut rows: Vec<(u32, i64)> = keys.into_iter().map(|(row, keys)| (keys, row)).collect();
    rows.sort_unstable_by(|one, other| other.cmp(one));
    rows.into_iter().take(COMPARED).map(|(_, row)| row).collect()
}

/// What an article is a copy of: of its twin, or of the candidate with most text in common, if that
/// is enough.
#[must_use]
pub fn nearest(fact: &ArticleFact, company: &Company) -> Option<Near> {
    let site = site(&fact.article);
    if let Some(twin) = &company.twin {
        return Some(twin.joined(1.0, &site)).filter(|near| near.cluster != fact.id);
    }
    let mut best: Option<(f64, &Candidate)> = None;
    for candidate in company.candidates.iter().filter(|candidate| candidate.id != fact.id) {
        let common = fact.sketch.common(&candidate.sketch);
        let enough = if candidate.site == site { SHARE_ON_SITE } else { SHARE };
        let is_better = best.is_none_or(|(share, _)| common.share > share);
        if common.marks >= MARKS && common.share >= enough && is_better {
            best = Some((common.share, candidate));
        }
    }
    let near = best.map(|(share, candidate)| candidate.joined(share, &site));
    near.filter(|near| near.cluster != fact.id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::apply::tests::article_fact;
    use super::*;
    use crate::model::UrlHash;

    /// So many words that nobody else uses.
    fn words(of: &str, from: usize, to: usize) -> String {
        (from..to).map(|n| format!("{of}{n} ")).collect()
    }

    fn near(url: &str, text: &str, known: &[Candidate]) -> Option<Near> {
        let company = Company { candidates: known.to_vec(), ..Company::default() };
        nearest(&article_fact(url, text), &company)
    }

    fn known(url: &str, text: &str) -> Candidate {
        Candidate::of(&article_fact(url, text), None)
    }

    #[test]
    fn a_wire_story_with_another_head_and_tail_is_a_copy() {
        let first = known("https://www.a.example/1", &words("wire", 0, 300));
        let local = format!("{}{}{}", words("h", 0, 30), words("wire", 60, 250), words("t", 0, 40));
        let copy = near("https://b.example/1", &local, std::slice::from_ref(&first)).unwrap();
        assert_eq!((copy.cluster, copy.nearest, copy.wire), (first.id, first.id, true));
        assert!((0.6..0.9).contains(&copy.share), "{}", copy.share);
        assert!(copy.reason().ends_with("as well, at several publishers"), "{}", copy.reason());
        // The next one may be nearer to the copy: the cluster is still that of the first.
        let second = Candidate {
            cluster: Some(first.id),
            wire: true,
            ..known("https://b.example/1", &local)
        };
        let third =
            near("https://www.b.example/2", &local, &[first.clone(), second.clone()]).unwrap();
        assert_eq!((third.cluster, third.nearest, third.share), (first.id, second.id, 1.0));
        assert!(third.wire, "the words are at a.example as well");
    }

    #[test]
    fn what_stands_below_every_article_of_a_site_makes_no_copy() {
        let below = words("newsletter", 0, 60);
        let first = known("https://a.example/1", &format!("{}{below}", words("one", 0, 60)));
        let other = format!("{}{below}", words("two", 0, 60));
        assert_eq!(near("https://a.example/2", &other, std::slice::from_ref(&first)), None);
        let again = format!("Corrected: {}{below}", words("one", 0, 55));
        let again = near("https://a.example/3", &again, &[first]).unwrap();
        assert!(!again.wire);
    }

    #[test]
    fn a_few_words_in_common_say_nothing() {
        let first = known("https://a.example/1", "this story is being updated");
        assert_eq!(near("https://b.example/1", "this story is being updated now", &[first]), None);
        assert_eq!(near("https://b.example/1", "", &[known("https://a.example/1", "")]), None);
    }

    #[test]
    fn an_article_is_no_copy_of_itself_nor_of_its_own_copies() {
        let text = words("w", 0, 100);
        let own = known("https://a.example/1", &text);
        let copy = Candidate { cluster: Some(own.id), ..known("https://b.example/1", &text) };
        assert_eq!(near("https://a.example/1", &text, &[own, copy.clone()]), None);
        let fact = article_fact("https://a.example/1", &text);
        let company = Company { twin: Some(copy), ..Company::default() };
        assert_eq!(nearest(&fact, &company), None);
    }

    #[test]
    fn the_very_same_text_needs_no_comparison() {
        let twin = Candidate { sketch: Sketch::default(), ..known("https://a.example/1", "x") };
        let company = Company { twin: Some(twin.clone()), ..Company::default() };
        let near = nearest(&article_fact("https://b.example/1", "x"), &company).unwrap();
        assert_eq!(near, Near { cluster: twin.id, nearest: twin.id, share: 1.0, wire: true });
    }

    #[test]
    fn those_with_most_keys_in_common_are_compared_the_latest_first() {
        assert_eq!(to_compare([3, 5, 9, 5, 7, 5, 7]), [5, 7, 9, 3]);
        assert_eq!(to_compare(0..100).len(), COMPARED);
        assert!(to_compare([]).is_empty());
    }

    #[test]
    fn a_site_is_a_registrable_domain() {
        let of = |url: &str| site(&article_fact(url, "").article);
        assert_eq!(of("https://news.a.co.uk/1"), "a.co.uk");
        assert_eq!(of("no address"), "");
        assert_eq!(article_fact("https://a/1", "").id, UrlHash::of("https://a/1"));
    }

    proptest! {
        #[test]
        fn the_order_of_candidates_does_not_matter_and_the_share_is_enough(
            parts in prop::collection::vec((0_usize..150, 50_usize..200), 1..6),
            taken in 50_usize..200,
        ) {
            let mut all: Vec<Candidate> = parts
                .iter()
                .enumerate()
                .map(|(n, (from, length))| {
                    let text = words("w", *from, from + length);
                    known(&format!("https://s{n}.example/1"), &text)
                })
                .collect();
            let text = format!("{}{}", words("w", 0, taken), words("own", 0, 40));
            let one = near("https://b.example/1", &text, &all);
            all.reverse();
            let other = near("https://b.example/1", &text, &all);
            prop_assert_eq!(one.as_ref().map(|near| near.share), other.map(|near| near.share));
            if let Some(near) = one {
                prop_assert!((SHARE..=1.0).contains(&near.share) && near.wire);
                prop_assert!(all.iter().any(|candidate| candidate.id == near.nearest));
            }
        }
    }
}
