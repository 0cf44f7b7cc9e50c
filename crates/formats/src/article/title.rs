//! What an article is called: its headline, without the name of the site around it.
//!
//! Titles are declared up to five times and shown once. The heading that agrees with a declared
//! title is the one that a reader sees; nothing is ever put together from parts of two.

use super::Evidence;
use super::clean::{self, fold, likeness};
use super::metadata::Declared;
use crate::simhash::words;
use crate::url::{self, Url};

/// What stands between a headline and the name of a site.
const SEPARATORS: &[&str] = &[" | ", " - ", " – ", " — ", " · ", " • ", " » ", " › ", " :: ", "|"];

/// The headline: a heading that agrees with a declared title, else the best declared one.
pub(super) fn settle(declared: &Declared, base: Option<&Url>, evidence: &Evidence<'_>) -> String {
    let site = SiteNames::of(declared, base);
    let named = declared.headings.iter().filter(|heading| !site.is_name(heading));
    let headings: Vec<&String> = named.take(6).collect();
    let cut = |title: Option<String>| title.map(|title| site.cut(&title, &headings));
    let page_title = |title| cut(title).map(|title| without_short_end(&title));
    let candidates: Vec<String> = [
        cut(declared.ld.headline.clone()),
        page_title(declared.meta_of("og:title")),
        page_title(declared.meta_of("twitter:title")),
        evidence.title.and_then(clean::plain),
        page_title(declared.title.clone()),
    ]
    .into_iter()
    .flatten()
    .filter(|title| !site.is_name(title))
    .collect();
    let agreement = |heading: &str| {
        let alike = candidates.iter().map(|candidate| likeness(heading, candidate));
        alike.fold(0.0, f32::max)
    };
    let mut best: Option<(&String, f32)> = None;
    for heading in &headings {
        let score = agreement(heading);
        if score >= 0.5 && best.is_none_or(|(_, known)| score > known) {
            best = Some((heading, score));
        }
    }
    best.map(|(heading, _)| heading.clone())
        .or_else(|| candidates.into_iter().next())
        .or_else(|| declared.headings.first().cloned())
        .or_else(|| declared.title.clone())
        .unwrap_or_default()
}

/// Without a last part of few words after three or more: the site's name, though not declared.
fn without_short_end(title: &str) -> String {
    let ends = SEPARATORS.iter().filter_map(|separator| title.rsplit_once(separator));
    let cut = ends
        .map(|(start, end)| (start.trim(), words(end).count()))
        .find(|(start, end)| *end <= 4 && words(start).count() >= 3);
    cut.map_or(title, |(start, _)| start).to_owned()
}

/// What the site is called, in one case.
struct SiteNames {
    names: Vec<String>,
    /// The first label of its registrable domain.
    label: String,
}

impl SiteNames {
    fn of(declared: &Declared, base: Option<&Url>) -> Self {
        let metas = ["og:site_name", "application-name", "apple-mobile-web-app-title"];
        let named = metas.iter().filter_map(|name| declared.meta_of(name));
        let names = named.chain(declared.ld.publisher.clone()).map(|name| squash(&name));
        let host = base.map(url::host).unwrap_or_default();
        let label = url::site(&host).split('.').next().map(squash).unwrap_or_default();
        Self { names: names.filter(|name| !name.is_empty()).collect(), label }
    }

    fn is_name(&self, text: &str) -> bool {
        let text = squash(text);
        text.is_empty()
            || self.names.contains(&text)
            || !self.label.is_empty() && text == self.label
    }

    /// Whether a part of a title names the site.
    fn is_part(&self, text: &str) -> bool {
        let squashed = squash(text);
        self.is_name(text)
            || self.names.iter().any(|name| {
                name.len() > 3 && squashed.contains(name.as_str())
                    || squashed.len() > 3 && name.contains(&squashed)
            })
            || self.label.len() > 3 && squashed.contains(&self.label)
    }

    /// The title without the site's name at its end or start.
    fn cut(&self, title: &str, headings: &[&String]) -> String {
        let agreed = headings.iter().find(|heading| {
            let (heading, title) = (fold(heading), fold(title));
            !heading.is_empty() && title != heading && title.contains(&heading)
        });
        for separator in SEPARATORS {
            let mut parts: Vec<&str> = title.split(separator).map(str::trim).collect();
            if parts.len() < 2 {
                continue;
            }
            if let Some(agreed) =
                agreed.filter(|heading| parts.iter().any(|part| fold(part) == fold(heading)))
            {
                return (*agreed).clone();
            }
            while parts.len() > 1 && parts.last().is_some_and(|last| self.is_part(last)) {
                parts.pop();
            }
            while parts.len() > 1 && parts.first().is_some_and(|first| self.is_part(first)) {
                parts.remove(0);
            }
            let kept = parts.join(separator);
            if kept.len() < title.len() {
                return kept;
            }
        }
        title.to_owned()
    }
}

/// Letters and digits only, in lower case: `The Daily Post` and `thedailypost.com` share a name.
fn squash(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use dom_query::Document;

    use super::*;

    fn title(html: &str, evidence: &Evidence<'_>) -> String {
        let base = url::parse("https://www.dailypost.example/news/storm").unwrap();
        settle(&Declared::collect(&Document::from(html)), Some(&base), evidence)
    }

    #[test]
    fn titles_lose_the_name_of_the_site() {
        for (html, expected) in [
            ("<title>Storm hits coast | Daily Post</title>", "Storm hits coast"),
            ("<title>Daily Post - Storm hits coast</title>", "Storm hits coast"),
            ("<title>Storm - a report</title>", "Storm - a report"),
            (
                "<title>Storm hits coast - News - X</title><h1>Logo</h1><h1>Storm hits coast</h1>",
                "Storm hits coast",
            ),
            (
                "<meta property=og:site_name content='The Post'><meta property=og:title \
                 content='Rain &amp; wind — The Post'><h1>The Post</h1>",
                "Rain & wind",
            ),
            ("<h1>Only a heading</h1>", "Only a heading"),
        ] {
            assert_eq!(title(html, &Evidence::default()), expected, "{html}");
        }
        let evidence = Evidence { title: Some("From the feed"), ..Evidence::default() };
        assert_eq!(title("<p>x", &evidence), "From the feed");
    }
}
