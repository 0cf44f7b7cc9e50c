//! Who wrote an article: names, not roles, and not "By".
//!
//! Declarations and bylines each give a list of names. Lists with the same names are one candidate;
//! a model that saw which places tell the truth chooses. No name is made up or put together.

use std::sync::LazyLock;

use super::Evidence;
use super::clean::{self, fold};
use super::declared::Declared;
use super::features::Row;
use super::form::count;
use super::model::Model;
use super::page::{NameHint, Page};
use super::title::SiteNames;

static MODEL: LazyLock<Option<Model>> =
    LazyLock::new(|| Model::read(include_str!("model/authors.txt")));

/// A candidate needs this score.
const ENOUGH: f32 = -2.0;
/// What it is worth that the feed names the same.
const FEED: f32 = 1.5;
/// The most names that a byline in running text has.
const MAX_BYLINE: usize = 4;
/// The most names that are kept.
const MAX_NAMES: usize = 20;

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

/// Words before a name.
const LEADS: &[&str] = &[
    "by",
    "von",
    "par",
    "por",
    "di",
    "da",
    "door",
    "av",
    "af",
    "written by",
    "posted by",
    "article by",
    "geschrieben von",
    "veröffentlicht von",
    "ein beitrag von",
    "author",
    "authors",
    "authored by",
    "articles by",
    "posts by",
    "about",
    "autor",
    "autorin",
    "text",
    "text von",
    "words by",
    "story by",
    "reviewed by",
    "medically reviewed by",
    "from",
    "de",
    "©",
];
/// Words that are no name when they stand alone.
const NOBODY: &str = "\
    admin|administrator|user|author|autor|editor|null|none|undefined|unknown|anonymous|webmaster|root|\
    wordpress|redaktion|redakteur|staff|by|von|full bio|see full bio|follow|view bio|posts|all posts|\
    gast|guest|redazione|website|super user|superuser|updated|published|posted|no author|sponsored|\
    people|home|menu|share|date|datum|registrieren|login|log in|sign in|subscribe|newsletter|contact|\
    manage profile|writer access|last|bluesky|twitter|facebook|linkedin|instagram|youtube|email|e mail|\
    more|md|dvm|phd|mba|rn|jd|esq|dds";
/// Words of the calendar, which stand beside names.
const CALENDAR: &str = "\
    jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec|january|february|march|april|june|july|august|\
    september|october|november|december|mon|tue|tues|wed|thu|thur|fri|sat|sun|monday|tuesday|wednesday|\
    thursday|friday|saturday|sunday|today|yesterday";
/// Words of what somebody is.
const ROLES: &str = "\
    reporter|correspondent|columnist|editor|writer|contributor|journalist|producer|analyst|senior|\
    staff|redakteur|redakteurin|korrespondent|korrespondentin|publisher|specialist|expert";
/// Words that end what somebody is, behind the name.
const OFFICES: &str = "\
    reporter|correspondent|columnist|columnists|editor|writer|contributor|journalist|producer|analyst|\
    publisher|director|manager|designer|marketer|educator|educators|reviewer|representative|founder|\
    consultant|ceo|redakteur|redakteurin";
/// Words before these that belong to them and to no name.
const RANKS: &str = "\
    senior|staff|managing|contributing|executive|associate|assistant|deputy|guest|chief|lead|news|\
    editorial|print|digital|former|general";
/// Words that a name does not end with.
const LOOSE: &str = "on|and|at|in|for|last|the|und|et|am|published|updated|about";
/// Words of teams and companies.
const TEAMS: &[&str] = &[
    "team",
    "staff",
    "desk",
    "editor",
    "editors",
    "editorial",
    "redaktion",
    "press",
    "news",
    "online",
    "magazin",
    "agency",
    "agentur",
    "gmbh",
    "inc",
    "the",
    "for",
    "of",
];
/// Words after which a byline says something else.
const TAILS: &[&str] = &[
    "published",
    "updated",
    "posted",
    "january",
    "february",
    "march",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "follow",
    "staff writer",
];
/// Small words inside names.
const PARTICLES: &[&str] =
    &["van", "von", "de", "der", "la", "di", "da", "bin", "al", "el", "le", "den", "du"];

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

/// Whether a word is written like a name's, also behind an article or particle: O'Hara, d'Arcy.
fn is_capital(word: &str) -> bool {
    let stem = word.split_once(['\'', '’']).filter(|(head, _)| head.chars().count() <= 2);
    word.starts_with(char::is_uppercase)
        || stem.is_some_and(|(_, stem)| stem.starts_with(char::is_uppercase))
}

/// The name that a text starts with: capitalised words and particles, two to five of them.
fn leading_name(text: &str) -> Option<String> {
    let mut name: Vec<&str> = Vec::new();
    let mut ended = false;
    for word in text.split(' ') {
        let bare = word.trim_end_matches([',', '|', ';', ':']);
        let fits = is_capital(bare) && bare.chars().count() > 1
            || !name.is_empty() && PARTICLES.contains(&bare);
        if ended || !fits || name.len() == 5 || bare.chars().any(|c| c.is_ascii_digit()) {
            break;
        }
        name.push(bare);
        ended = bare != word;
    }
    while name.last().is_some_and(|word| PARTICLES.contains(word)) {
        name.pop();
    }
    (name.len() >= 2).then(|| name.join(" "))
}

/// The names that a text starts with.
fn leading_names(text: &str) -> Vec<String> {
    const BETWEEN: &[&str] = &[", ", " and ", " und ", " et ", " y ", " e ", " & "];
    let mut names = Vec::new();
    let mut rest = Some(text);
    while let Some(name) = rest.and_then(leading_name).filter(|_| names.len() < MAX_BYLINE) {
        let after = rest.and_then(|rest| rest.strip_prefix(name.as_str())).unwrap_or_default();
        rest = BETWEEN.iter().find_map(|word| after.strip_prefix(word));
        names.push(name);
    }
    names
}

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

/// A text without what stands around a name.
fn bare(text: &str) -> String {
    let mut text = text.trim().to_owned();
    let lead = LEADS.iter().filter_map(|lead| {
        let start = text.get(..lead.len())?;
        let rest = text.get(lead.len()..)?;
        (start.eq_ignore_ascii_case(lead) && rest.starts_with([' ', ':'])).then_some(lead.len())
    });
    if let Some(length) = lead.max() {
        text = text.get(length..).unwrap_or_default().trim_start_matches([' ', ':']).to_owned();
    }
    if text.ends_with(')')
        && let Some((start, _)) = text.rsplit_once('(')
    {
        text = start.to_owned();
    }
    let words = text.split_whitespace().filter(|word| !word.contains('@'));
    let text = words.collect::<Vec<_>>().join(" ");
    text.trim_matches(|c: char| " ,;|–-•·/:".contains(c)).to_owned()
}

/// What a byline says before it speaks of dates and roles.
fn before_tail(text: &str) -> &str {
    let folded = text.to_ascii_lowercase();
    // A month may begin a name: Marchand, Juneau.
    let is_whole = |(at, word): &(usize, &str)| {
        let after = folded.get(at + word.len()..).unwrap_or_default();
        let before = folded.get(..*at).unwrap_or_default();
        !after.starts_with(char::is_alphabetic) && !before.ends_with(char::is_alphabetic)
    };
    let ends = TAILS.iter().filter_map(|tail| folded.match_indices(tail).find(is_whole));
    let ends = ends.map(|(at, _)| at);
    let digits = folded.find(|c: char| c.is_ascii_digit());
    match ends.chain(digits).filter(|at| *at > 3).min() {
        Some(at) => {
            text.get(..at).unwrap_or(text).trim_end_matches([' ', ',', '|', '•', '·', '-', '–'])
        }
        None => text,
    }
}

/// The names in what a place says.
pub(super) fn names(texts: &[String], shown: bool) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for text in texts {
        let Some(plain) = clean::plain(text).filter(|text| !text.starts_with("http")) else {
            continue;
        };
        let bare_text = bare(&plain);
        let told = if shown { before_tail(&bare_text) } else { &bare_text };
        for part in split(told) {
            let name = bare(part);
            let name = if shown { without_role(&name) } else { name };
            let words = name.split(' ').count();
            let folded = fold(&name);
            let nameless = folded.is_empty()
                || is_in(&folded, NOBODY)
                || name.chars().count() > 60
                || words > 6
                || ["http", "www.", "{", "@"].iter().any(|sign| name.contains(sign))
                || !name.chars().any(char::is_alphabetic)
                || !name.contains(' ') && name.split('.').filter(|it| it.len() > 1).count() > 2
                || !out.is_empty() && is_office(&name)
                || shown && is_no_name(&name, &folded);
            if !nameless && !out.iter().any(|known| fold(known) == folded) && out.len() < MAX_NAMES
            {
                out.push(name);
            }
        }
    }
    // The site beside a person is where it was published.
    if out.len() > 1 {
        let is_domain = |name: &String| !name.contains(' ') && name.split('.').count() == 2;
        out.retain(|name| !is_domain(name) || name.ends_with('.'));
    }
    out
}

/// Whether a part of a list is what the one before it is: `Jane Doe, Print Managing Editor`.
fn is_office(part: &str) -> bool {
    part.rsplit(' ').next().is_some_and(|word| is_in(&word.to_lowercase(), OFFICES))
}

/// Whether what is shown in the place of a name is none.
fn is_no_name(name: &str, folded: &str) -> bool {
    let owned = ["'s", "’s"].iter().any(|end| name.ends_with(end));
    owned || is_in(folded, CALENDAR) || name.chars().any(|c| c.is_ascii_digit())
}

fn is_in(word: &str, list: &str) -> bool {
    list.split('|').any(|known| known == word)
}

/// A shown name without what its bearer is, and without words that led on to something else.
fn without_role(name: &str) -> String {
    let mut words: Vec<&str> = name.split(' ').collect();
    if words.len() > 3 && words.iter().any(|word| is_in(&word.to_lowercase(), ROLES)) {
        let initial =
            words.get(1).is_some_and(|word| word.ends_with('.') || PARTICLES.contains(word));
        words.truncate(if initial { 3 } else { 2 });
    }
    let ranked = words.iter().any(|word| is_in(&word.to_lowercase(), RANKS));
    if words.len() == 3 && !ranked && is_office(name) {
        words.pop();
    }
    while words.len() > 1 && words.last().is_some_and(|word| is_in(&word.to_lowercase(), LOOSE)) {
        words.pop();
    }
    words.join(" ").trim_end_matches(',').to_owned()
}

/// The parts of a list of names.
fn split(text: &str) -> Vec<&str> {
    let mut parts = vec![text];
    for sign in
        [";", ",", " and ", " und ", " et ", " y ", "&", "|", "\n", "/", "•", "·", " – ", " - "]
    {
        parts = parts.into_iter().flat_map(|part| part.split(sign)).collect();
    }
    parts
}

/// Whether a name looks like that of a person.
fn is_person(name: &str) -> bool {
    let words: Vec<&str> = name.split(' ').collect();
    let capital = |word: Option<&&str>| word.is_some_and(|word| is_capital(word));
    (2..=4).contains(&words.len())
        && capital(words.first())
        && capital(words.last())
        && !name.chars().any(|c| c.is_ascii_digit())
        && !words.iter().any(|word| TEAMS.contains(&word.to_lowercase().as_str()))
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

    fn of(text: &str) -> Vec<String> {
        names(&[text.to_owned()], true)
    }

    #[test]
    fn names_without_what_stands_around_them() {
        assert_eq!(of("By Jane Doe and Max Muster"), ["Jane Doe", "Max Muster"]);
        assert_eq!(of("Von Anna Schmidt, Berlin"), ["Anna Schmidt", "Berlin"]);
        assert_eq!(of("Jane Doe | Published 3 May"), ["Jane Doe"]);
        assert_eq!(of("Jane Doe (Reuters)"), ["Jane Doe"]);
        assert_eq!(of("Jane Doe @jane"), ["Jane Doe"]);
        assert_eq!(of("Dave Poe Globe Correspondent"), ["Dave Poe"]);
        assert_eq!(of("Jane Doe, Paper.com"), ["Jane Doe"]);
        assert_eq!(of("Geschrieben von Jane Doe am"), ["Jane Doe"]);
        assert_eq!(of("Jane Doe Writer"), ["Jane Doe"]);
        assert_eq!(of("Jane Doe, Print Managing Editor"), ["Jane Doe"]);
        assert_eq!(of("Jane Doe, DVM"), ["Jane Doe"]);
        assert_eq!(of("Authored by: Jane Doe"), ["Jane Doe"]);
        assert_eq!(names(&["Jane Doe, Senior Director".to_owned()], false), ["Jane Doe"]);
        assert_eq!(names(&["April".to_owned()], false), ["April"], "who is declared may be");
        assert!(of("Dec.").is_empty() && of("Sat").is_empty() && of("George Doe's").is_empty());
        assert!(of("page.head.extra.author").is_empty());
        assert!(of("admin").is_empty() && of("By Staff").is_empty() && of("12").is_empty());
        assert_eq!(names(&["https://x.example/jane".to_owned()], false), Vec::<String>::new());
    }

    #[test]
    fn names_at_the_start_of_texts() {
        assert_eq!(leading_name("Jane van der Doe in Paris").as_deref(), Some("Jane van der Doe"));
        assert_eq!(leading_name("J. R. Doe, Paris").as_deref(), Some("J. R. Doe"));
        assert_eq!(leading_name("then it was"), None);
        assert!(is_person("Jane Doe") && !is_person("News Desk") && !is_person("Jane"));
        assert!(has_word("post-author x", "author") && !has_word("authors", "author"));
    }
}
