//! What is a name: what stands around it is taken away, and what only looks like one is left out.
//!
//! It knows words and how they are written, nothing of pages.

use super::clean::{self, fold};

/// The most names that a byline in running text has.
const MAX_BYLINE: usize = 4;
/// The most names that are kept.
pub(super) const MAX_NAMES: usize = 20;

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
pub(super) fn leading_names(text: &str) -> Vec<String> {
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
pub(super) fn is_person(name: &str) -> bool {
    let words: Vec<&str> = name.split(' ').collect();
    let capital = |word: Option<&&str>| word.is_some_and(|word| is_capital(word));
    (2..=4).contains(&words.len())
        && capital(words.first())
        && capital(words.last())
        && !name.chars().any(|c| c.is_ascii_digit())
        && !words.iter().any(|word| TEAMS.contains(&word.to_lowercase().as_str()))
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
    }
}
