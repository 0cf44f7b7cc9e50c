//! Who wrote an article: names, not roles, and not "By".
//!
//! Declarations and bylines each give a list of names. Lists with the same names are one candidate;
//! a model that saw which places tell the truth chooses. No name is made up or put together.

use std::sync::LazyLock;

use super::Evidence;
use super::clean::fold;
use super::declared::Declared;
use super::features::Row;
use super::form::count;
use super::model::Model;
use super::names::{MAX_NAMES, is_person, leading_names, names};
use super::page::{NameHint, Page};
use super::title::SiteNames;

static MODEL: LazyLock<Option<Model>> =
    LazyLock::new(|| Model::read(include_str!("model/authors.txt")));

/// A candidate needs this score.
const ENOUGH: f32 = -2.0;
/// What it is worth that the feed names the same.
const FEED: f32 = 1.5;

/// The places that may tell names.
const SOURCES: [&str; 17] = [
    "ld",
    "parsely",
    "sailthru",
    "author",
    "article_author",
    "other",
    "cls_name",
    "rel",
    "itemprop",
    "href",
    "href_any",
    "text",
    "cls_by",
    "cls_author",
    "cls_any",
    "by_in",
    "bynext",
];
const OTHER_METAS: &[&str] = &[
    "dc.creator",
    "dcterms.creator",
    "dc:creator",
    "byl",
    "article:author_name",
    "citation_author",
    "og:author",
    "cxenseparse:author",
    "cxense:author",
    "creator",
    "twitter:creator_name",
    "mediator_author",
    "author_name",
    "byline",
    "dc.contributor",
    "shareaholic:article_author_name",
    "rnews:author",
    "owner",
];

/// A list of names, and a bit for each place that tells it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub names: Vec<String>,
    keys: Vec<String>,
    sources: u32,
    in_feed: bool,
}

/// The lists of names of a page.
pub(super) fn collect(declared: &Declared, page: &Page, evidence: &Evidence<'_>) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let mut add = |source: Option<usize>, names: Vec<String>| {
        if names.is_empty() {
            return;
        }
        let mut keys: Vec<String> = names.iter().map(|name| fold(name)).collect();
        keys.sort();
        let bits = source.map_or(0, |bit| 1 << bit);
        match found.iter_mut().find(|known| known.keys == keys) {
            Some(known) => {
                known.sources |= bits;
                known.in_feed |= source.is_none();
            }
            None => found.push(Candidate { names, keys, sources: bits, in_feed: source.is_none() }),
        }
    };
    for (bit, (texts, shown)) in sources(declared, page).into_iter().enumerate() {
        add(Some(bit), names(&texts, shown));
    }
    add(None, names(evidence.authors, false));
    found
}

/// What each place says, and whether it is shown on the page rather than declared.
fn sources(declared: &Declared, page: &Page) -> [(Vec<String>, bool); SOURCES.len()] {
    let meta = |name: &str, most: usize| -> Vec<String> {
        let named = declared.metas.iter().filter(|(known, _)| known == name);
        let named = named.map(|(_, content)| content);
        let named = named.filter(|text| !text.starts_with("http") && !text.starts_with('/'));
        named.take(most).cloned().collect()
    };
    let first = |name: &str| (meta(name, 1), false);
    let other = || {
        let most = |name: &str| if name == "citation_author" { MAX_NAMES } else { 1 };
        OTHER_METAS.iter().map(|name| meta(name, most(name))).find(|names| !names.is_empty())
    };
    let named = |wanted: &dyn Fn(&NameHint) -> bool, most: usize| {
        let apart = ["comment", "bio", "avatar", "related", "card", "list"];
        let hint = page.names.iter().find(|hint| {
            wanted(hint)
                && (3..=most).contains(&hint.text.len())
                && !apart.iter().any(|word| hint.names.contains(word))
        });
        (hint.map(|hint| hint.text.clone()).into_iter().collect::<Vec<_>>(), true)
    };
    let itemprop = page
        .names
        .iter()
        .find(|hint| hint.itemprop == "name" && super::marks::names_author(&hint.names))
        .or_else(|| {
            page.names.iter().find(|hint| matches!(hint.itemprop.as_str(), "author" | "creator"))
        });
    let (near, anywhere) = linked(page);
    [
        (declared.ld.authors.clone(), false),
        first("parsely-author"),
        first("sailthru.author"),
        first("author"),
        first("article:author"),
        (other().unwrap_or_default(), false),
        named(&|hint| is_name_element(&hint.names), 80),
        (page.rel_authors.iter().filter(|text| !text.is_empty()).take(1).cloned().collect(), true),
        (itemprop.map(|hint| hint.text.clone()).into_iter().collect(), true),
        (near, true),
        (anywhere, true),
        (opening(page), true),
        named(&|hint| hint.names.contains("byline"), 80),
        named(&|hint| has_word(&hint.names, "author") || has_word(&hint.names, "autor"), 80),
        named(&|hint| hint.names.contains("author") || hint.names.contains("autor"), 50),
        (inside(page), true),
        (after_by(page), true),
    ]
}

/// Whether a class is that of an element with just the name.
fn is_name_element(names: &str) -> bool {
    let squeezed: String = names.chars().filter(|c| !matches!(c, '-' | '_')).collect();
    ["authorname", "bylinename", "bylineauthor", "authorlink", "nameauthor"]
        .iter()
        .any(|word| squeezed.contains(word))
        || has_word(names, "fn")
}

fn has_word(names: &str, word: &str) -> bool {
    names.match_indices(word).any(|(at, _)| {
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase());
        let before = names.get(..at).and_then(|text| text.chars().next_back());
        let after = names.get(at + word.len()..).and_then(|text| text.chars().next());
        !letter(before) && !letter(after)
    })
}

/// Links to pages about people: near the heading, or else anywhere.
fn linked(page: &Page) -> (Vec<String>, Vec<String>) {
    const OTHER: &[&str] = &[
        "more", "view", "see", "all", "about", "read", "follow", "contact", "team", "our", "meet",
        "home", "news", "login", "log", "sign", "mehr", "alle", "zum", "profile", "profil", "bio",
        "full",
    ];
    let heading = page.headings.first().map_or(0, |(_, block)| *block);
    let people = || {
        page.people.iter().filter(|link| {
            let first = fold(&link.text);
            let first = first.split(' ').next().unwrap_or_default();
            let apart = ["comment", "footer", "nav"].iter().any(|word| link.names.contains(word));
            !apart && !OTHER.contains(&first)
        })
    };
    let near = |link: &&NameHint| (heading.saturating_sub(6)..=heading + 15).contains(&link.block);
    match people().find(near) {
        Some(first) => {
            let beside = people().filter(near).filter(|link| link.block <= first.block + 1);
            (beside.take(4).map(|link| link.text.clone()).collect(), Vec::new())
        }
        None => (Vec::new(), people().take(1).map(|link| link.text.clone()).collect()),
    }
}

const BYLINES: &[&str] = &[
    "By",
    "BY",
    "Von",
    "Par",
    "Por",
    "Written by",
    "Words by",
    "Text",
    "Autor",
    "Autorin",
    "Author",
    "Posted by",
    "Story by",
];

/// A short block that starts with "By" and a name; more names may follow.
fn opening(page: &Page) -> Vec<String> {
    let found = page.blocks.iter().find_map(|block| {
        let text = page.text(block);
        if text.len() >= 90 {
            return None;
        }
        let rest = BYLINES.iter().find_map(|word| {
            text.strip_prefix(word).and_then(|rest| rest.strip_prefix([' ', ':']))
        })?;
        Some(leading_names(rest.trim_start())).filter(|names| !names.is_empty())
    });
    found.unwrap_or_default()
}

fn near_heading(page: &Page) -> std::ops::Range<usize> {
    let heading = page.headings.first().map_or(0, |(_, block)| *block);
    heading.saturating_sub(6)..(heading + 16).min(page.blocks.len())
}

/// "by Name" inside a short block near the heading.
fn inside(page: &Page) -> Vec<String> {
    const WORDS: &[&str] = &["by ", "By ", "BY ", "von ", "Von ", "par ", "Par ", "por ", "Por "];
    let found = near_heading(page).find_map(|block| {
        let text = page.text_at(block);
        // A headline may tell what somebody was hit by.
        if page.headings.first().is_some_and(|(_, heading)| *heading == block) {
            return None;
        }
        let starts = |(at, word): &(usize, &str)| {
            let before = text.get(..*at).and_then(|text| text.chars().next_back());
            !word.is_empty() && before.is_none_or(|c| !c.is_alphanumeric())
        };
        if text.len() >= 160 {
            return None;
        }
        let places = WORDS.iter().flat_map(|word| text.match_indices(word)).filter(starts);
        let names = places.map(|(at, word)| text.get(at + word.len()..).map(leading_names));
        names.flatten().find(|names| !names.is_empty())
    });
    found.unwrap_or_default()
}

/// A block that is just "by", and the name in the next one.
fn after_by(page: &Page) -> Vec<String> {
    const ALONE: &[&str] = &[
        "by",
        "von",
        "par",
        "por",
        "author",
        "autor",
        "autorin",
        "text",
        "written by",
        "posted by",
        "words by",
        "story by",
    ];
    let found = near_heading(page).find_map(|block| {
        let text = fold(page.text_at(block));
        let next = page.text_at(block + 1);
        (ALONE.contains(&text.as_str()) && !next.is_empty() && next.len() < 60).then_some(next)
    });
    found.map(str::to_owned).into_iter().collect()
}

/// Tells everything about a candidate.
pub(super) fn tell(candidate: &Candidate, all: &[Candidate], sites: &SiteNames, row: &mut Row) {
    row.clear();
    let one = |is: bool| f32::from(u8::from(is));
    for (bit, source) in SOURCES.into_iter().enumerate() {
        row.put(source, one(candidate.sources >> bit & 1 == 1));
    }
    let names = &candidate.names;
    let share = |is: &dyn Fn(&String) -> bool| {
        count(names.iter().filter(|name| is(name)).count()) / count(names.len()).max(1.0)
    };
    let any = |is: &dyn Fn(&String) -> bool| one(names.iter().any(is));
    row.put("person", share(&|name| is_person(name)));
    row.put("site", any(&|name| sites.is_name(name)));
    row.put("like_site", any(&|name| sites.is_part(name)));
    row.put("single", one(names.iter().all(|name| !name.contains(' '))));
    row.put("one", one(names.len() == 1));
    row.put("many", one(names.len() >= 3));
    let others = || all.iter().filter(|other| other.keys != candidate.keys);
    let shares = |other: &&Candidate| other.keys.iter().any(|key| candidate.keys.contains(key));
    let agreeing = others().filter(shares).fold(0, |bits, other| bits | other.sources);
    row.put("overlap", one(agreeing != 0));
    row.put("overlaps", count(agreeing.count_ones() as usize));
    row.put("sources", count(candidate.sources.count_ones() as usize));
    row.put("long", any(&|name| name.split(' ').count() >= 5));
    let team = |name: &String| {
        name.split(' ').any(|word| {
            let word = word.to_lowercase();
            matches!(
                word.as_str(),
                "team" | "staff" | "redaktion" | "editor" | "editors" | "news" | "press" | "admin"
            )
        })
    };
    row.put("team", any(&team));
    let within = |inner: &Candidate, outer: &Candidate| {
        inner.keys.len() < outer.keys.len() && inner.keys.iter().all(|key| outer.keys.contains(key))
    };
    row.put("superset", one(others().any(|other| within(other, candidate))));
    row.put("subset", one(others().any(|other| within(candidate, other))));
    row.put("lower", one(names.iter().all(|name| name.to_lowercase() == *name)));
    row.put("candidates", count(all.len()));
}

/// The most likely list of names.
pub(super) fn best(candidates: &[Candidate], sites: &SiteNames) -> Vec<String> {
    let Some(model) = MODEL.as_ref() else { return Vec::new() };
    let mut row = Row::new(None);
    let mut best: Option<(f32, &Candidate)> = None;
    for candidate in candidates {
        tell(candidate, candidates, sites, &mut row);
        let score = model.score(&row.values) + if candidate.in_feed { FEED } else { 0.0 };
        if best.is_none_or(|(known, _)| score > known) {
            best = Some((score, candidate));
        }
    }
    best.filter(|(score, _)| *score > ENOUGH).map(|(_, one)| one.names.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_words() {
        assert!(has_word("post-author x", "author") && !has_word("authors", "author"));
    }
}
