//! What an article is called: its headline, without the name of the site around it.
//!
//! Titles are declared up to five times and shown once. The heading that agrees with a declared
//! title is the one that a reader sees; nothing is ever put together from parts of two.

use std::ops::Range;

use super::Evidence;
use super::clean::{self, fold, likeness};
use super::declared::Declared;
use super::page::Page;
use crate::simhash::words;
use crate::url::{self, Url};

/// Signs that stand between a headline and the name of a site, with spaces around them.
const SEPARATORS: &[char] =
    &['|', '–', '—', '-', ':', '·', '•', '»', '«', '›', '~', '/', '\\', '<', '>'];
/// Those after which a last part of few words is the site's, even if nothing else says so.
const ENDING: &[char] = &['|', '–', '—', '-', '»', '·', '•', ':'];

/// The headline: a heading that agrees with a declared title, else the best declared one.
pub(super) fn settle(
    declared: &Declared,
    page: &Page,
    site: &SiteNames,
    evidence: &Evidence<'_>,
) -> String {
    let all: Vec<&str> = page
        .headings
        .iter()
        .map(|(text, _)| text.as_str())
        .filter(|text| !text.is_empty())
        .collect();
    let own: Vec<&str> = all.iter().copied().filter(|heading| !site.is_part(heading)).collect();
    let headings: Vec<&str> = if own.is_empty() { all } else { own };
    let headings = headings.get(..6).unwrap_or(&headings);
    let ld = declared.ld.headline.clone().or_else(|| declared.ld.name.clone());
    let [og, twitter] = ["og:title", "twitter:title"].map(|name| declared.meta_of(name));
    let html = declared.title.clone();
    let feed = evidence.title.and_then(clean::plain);
    let cut = |title: &Option<String>| title.as_deref().map(|title| site.cut(title, headings));
    let short =
        |title: &Option<String>| title.as_deref().map(|title| site.cut_end(title, headings));
    let known: Vec<String> = [cut(&ld), cut(&og), cut(&twitter), short(&html), cut(&feed)]
        .into_iter()
        .flatten()
        .collect();
    agreeing(headings, &known)
        .or_else(|| contained(headings, &known))
        .map(str::to_owned)
        .or_else(|| {
            let meta = ["title", "dc.title", "parsely-title", "headline"];
            let meta = meta.iter().find_map(|name| declared.meta_of(name));
            let declared =
                [short(&og), cut(&ld), short(&twitter), cut(&feed), short(&html), short(&meta)];
            declared.into_iter().flatten().find(|title| !site.is_part(title))
        })
        .or_else(|| headings.first().map(|heading| (*heading).to_owned()))
        .or(html)
        .unwrap_or_default()
}

/// The heading that is most alike to a declared title.
fn agreeing<'a>(headings: &[&'a str], known: &[String]) -> Option<&'a str> {
    let mut best: Option<(f32, &str)> = None;
    for heading in headings {
        let alike = known.iter().map(|title| likeness(heading, title)).fold(0.0, f32::max);
        if alike >= 0.5 && best.is_none_or(|(score, _)| alike > score) {
            best = Some((alike, heading));
        }
    }
    best.map(|(_, heading)| heading)
}

/// A heading of some words that is part of a declared title, or the other way round.
fn contained<'a>(headings: &[&'a str], known: &[String]) -> Option<&'a str> {
    headings.iter().copied().find(|heading| {
        let heading = fold(heading);
        heading.split(' ').count() >= 3
            && known.iter().map(|title| fold(title)).any(|title| {
                !title.is_empty() && (title.contains(&heading) || heading.contains(&title))
            })
    })
}

/// What the site is called, in one case.
#[derive(Debug)]
pub(super) struct SiteNames {
    /// Without spaces.
    names: Vec<String>,
    /// The host without dots and without what every host starts with.
    host: String,
    /// Its first label.
    label: String,
}

impl SiteNames {
    pub(super) fn of(declared: &Declared, base: Option<&Url>) -> Self {
        let metas =
            ["og:site_name", "application-name", "apple-mobile-web-app-title", "twitter:site"];
        let named = metas.iter().filter_map(|name| declared.meta_of(name));
        let names = named.chain(declared.ld.sites.iter().cloned()).map(|name| squash(&name));
        let mut names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        names.sort();
        names.dedup();
        let host = base.map(url::host).unwrap_or_default();
        let start = ["www.", "m.", "amp.", "blog.", "news."].iter();
        let host = start.into_iter().find_map(|start| host.strip_prefix(start)).unwrap_or(&host);
        let label = host.split('.').next().map(squash).unwrap_or_default();
        Self { names, host: squash(host), label }
    }

    /// Whether a text is the site's name.
    pub(super) fn is_name(&self, text: &str) -> bool {
        let text = squash(text);
        text.is_empty() || self.names.contains(&text)
    }

    /// Whether a text, or a part of a title, names the site.
    pub(super) fn is_part(&self, text: &str) -> bool {
        let text = squash(text);
        let long = text.chars().count();
        self.names.contains(&text)
            || text.is_empty()
            || long >= 3 && self.host.contains(&text)
            || self.label.len() >= 4 && text.contains(&self.label)
            || self.names.iter().any(|name| {
                name.len() > 3 && (text.contains(name.as_str()) || name.contains(&text))
            })
    }

    /// The title without the site's name at its end or start.
    fn cut(&self, title: &str, headings: &[&str]) -> String {
        let title = clean::plain(title).unwrap_or_default();
        let parts = parts(&title);
        let run = |range: Range<usize>| {
            let (first, last) = (parts.get(range.start)?, parts.get(range.end.checked_sub(1)?)?);
            title.get(first.start..last.end)
        };
        for heading in headings.iter().map(|heading| fold(heading)) {
            if heading.contains(' ') {
                let runs = (0..parts.len())
                    .flat_map(|from| (from + 1..=parts.len()).rev().map(move |to| from..to));
                let mut runs = runs.filter_map(run);
                if let Some(agreed) = runs.find(|run| fold(run) == heading) {
                    return agreed.to_owned();
                }
            }
        }
        let is_site = |at: usize| run(at..at + 1).is_some_and(|part| self.is_part(part));
        let (mut from, mut to) = (0, parts.len());
        while to - from > 1 && is_site(to - 1) {
            to -= 1;
        }
        while to - from > 1 && is_site(from) {
            from += 1;
        }
        run(from..to).unwrap_or(&title).to_owned()
    }

    /// The same, and if nothing was cut, without a last part of few words after three or more.
    fn cut_end(&self, title: &str, headings: &[&str]) -> String {
        let cut = self.cut(title, headings);
        let parts = parts(&cut);
        if let ([.., before, last], true) = (parts.as_slice(), squash(&cut) == squash(title)) {
            let (rest, end) = (cut.get(..before.end), cut.get(last.clone()));
            let sign = cut.get(before.end..last.start).unwrap_or_default().trim();
            if let (Some(rest), Some(end)) = (rest, end)
                && words(end).count() <= 4
                && words(rest).count() >= 3
                && sign.chars().all(|c| ENDING.contains(&c))
                && sign != ":"
            {
                return rest.to_owned();
            }
        }
        cut
    }
}

/// The parts of a title between separators, as ranges of bytes.
fn parts(title: &str) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while let Some(rest) = title.get(at..).filter(|rest| !rest.is_empty()) {
        let gap = rest.trim_start();
        let space = rest.len() - gap.len();
        let sign = gap.len() - gap.trim_start_matches(SEPARATORS).len();
        let after = gap.get(sign..).unwrap_or_default();
        let spaced = space > 0 && after.starts_with(' ');
        if sign > 0 && (spaced || gap.starts_with('|')) {
            if at > start {
                out.push(start..at);
            }
            start = title.len() - after.trim_start().len();
            at = start;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    if title.len() > start {
        out.push(start..title.len());
    }
    out
}

/// Letters and digits in one case, nothing between them.
fn squash(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    fn title(html: &str, address: &str) -> String {
        let tree = Tree::read(html).unwrap();
        let declared = Declared::collect(&tree);
        let site = SiteNames::of(&declared, url::parse(address).ok().as_ref());
        settle(&declared, &Page::read(&tree), &site, &Evidence::default())
    }

    #[test]
    fn headings_that_agree_are_the_title() {
        let html = "<title>Storm hits the harbour | The Paper</title><h1>The Paper</h1>\
                    <h1>Storm hits the harbour</h1>";
        assert_eq!(title(html, "https://thepaper.example/"), "Storm hits the harbour");
        let html = "<title>Storm hits the harbour – at last - Paper</title><h1>Menu</h1>";
        assert_eq!(title(html, "https://paper.example/"), "Storm hits the harbour – at last");
        let html = "<meta property=og:title content='Storm hits harbour'><h1>Unlike this</h1>";
        assert_eq!(title(html, "https://paper.example/"), "Storm hits harbour");
    }

    #[test]
    fn the_name_of_the_site_is_cut() {
        let html = "<title>Paper | Storm: the harbour is shut</title>";
        assert_eq!(title(html, "https://paper.example/"), "Storm: the harbour is shut");
        assert_eq!(title("<title>Storm|Paper</title>", "https://paper.example/"), "Storm");
        assert_eq!(
            title("<title>A well-known storm</title>", "https://x.example/"),
            "A well-known storm"
        );
        assert_eq!(title("<h1>Paper</h1>", "https://paper.example/"), "Paper");
    }

    #[test]
    fn parts_of_titles() {
        let told = |title: &str| -> Vec<String> {
            parts(title).into_iter().map(|part| title.get(part).unwrap().to_owned()).collect()
        };
        assert_eq!(told("a - b | c"), ["a", "b", "c"]);
        assert_eq!(told("a-b c|d"), ["a-b c", "d"]);
        assert_eq!(told("a: b"), ["a: b"]);
        assert!(told(" - ").is_empty() && told("").is_empty());
    }
}
