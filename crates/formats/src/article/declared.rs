//! What a page declares about itself, collected in one pass over its tree and not yet weighed.

use html5ever::{Attribute, LocalName, local_name};

use super::jsonld::{self, Ld};
use super::page::Page;
use super::said::Said;
use super::tree::{Data, Id, Tree, attribute};
use super::{Evidence, clean};

/// The most meta elements, and scripts of a kind, that are looked at.
const MAX_METAS: usize = 400;
const MAX_SCRIPTS: usize = 20;
/// Sizes of scripts that may hold the state of a page, its text included.
const STATE: std::ops::Range<usize> = 2_000..3_000_000;

/// Everything a page declares.
#[derive(Debug, Default)]
pub(super) struct Declared {
    pub ld: Ld,
    /// Names in lower case, and their contents.
    pub metas: Vec<(String, String)>,
    pub title: Option<String>,
    pub canonical: Option<String>,
    pub amp: Option<String>,
    pub license: Option<String>,
    pub language: Option<String>,
    /// Scripts that hold JSON but no JSON-LD.
    pub states: Vec<Id>,
    /// Days in scripts under names that speak of publishing and of changing, where nothing better
    /// declares the day of publication.
    pub raw_published: Option<String>,
    pub raw_updated: Option<String>,
    /// What links to the article's tags say.
    pub tags: Vec<String>,
    /// Whether there is a field for a password.
    pub asks_password: bool,
}

impl Declared {
    /// Collects.
    pub(super) fn collect(tree: &Tree) -> Self {
        let mut found = Self::default();
        let mut scripts = Vec::new();
        for id in 0..tree.len() {
            let Data::Element { name, attrs } = tree.data(id) else { continue };
            match name.local {
                local_name!("meta") => found.meta(attrs),
                local_name!("script") if !attrs.is_empty() => {
                    found.script(tree, id, attrs, &mut scripts);
                }
                local_name!("link") => found.link(attrs),
                local_name!("a") if is_tag(attrs) && found.tags.len() < MAX_METAS => {
                    found.tags.push(tree.text(id, 100, false));
                }
                local_name!("title") if found.title.is_none() && in_head(tree, id) => {
                    found.title = Some(tree.text(id, 1_000, false)).filter(|text| !text.is_empty());
                }
                local_name!("html") => {
                    found.language = value(attrs, &local_name!("lang"))
                        .or_else(|| value(attrs, &local_name!("xml:lang")))
                        .map(str::to_owned);
                }
                local_name!("input") => {
                    found.asks_password |= value(attrs, &local_name!("type")) == Some("password");
                }
                _ => {}
            }
        }
        found.ld = jsonld::read(&scripts);
        if found.ld.published.is_none() && found.raw_meta("article:published_time").is_none() {
            found.look_into_scripts(tree);
        }
        found
    }

    /// The JSON-LD scripts of a page.
    pub(super) fn json_ld(tree: &Tree) -> Vec<String> {
        let mut scripts = Vec::new();
        let mut found = Self::default();
        for id in 0..tree.len() {
            if let Data::Element { name, attrs } = tree.data(id)
                && name.local == local_name!("script")
            {
                found.script(tree, id, attrs, &mut scripts);
            }
        }
        scripts
    }

    fn look_into_scripts(&mut self, tree: &Tree) {
        for id in 0..tree.len() {
            if tree.name(id) != Some(&local_name!("script")) {
                continue;
            }
            let Some(child) = tree.first_child(id) else { continue };
            let text = tree.raw_text(child);
            for (published, day) in days_in_script(text) {
                let slot = if published { &mut self.raw_published } else { &mut self.raw_updated };
                slot.get_or_insert_with(|| day.to_owned());
            }
        }
    }

    fn meta(&mut self, attrs: &[Attribute]) {
        let name = [
            local_name!("property"),
            local_name!("name"),
            local_name!("itemprop"),
            local_name!("http-equiv"),
        ];
        let name = name.iter().find_map(|name| value(attrs, name));
        let content = value(attrs, &local_name!("content"));
        if let (Some(name), Some(content)) = (name, content)
            && self.metas.len() < MAX_METAS
        {
            self.metas.push((name.to_ascii_lowercase(), content.to_owned()));
        }
    }

    fn script(&mut self, tree: &Tree, id: Id, attrs: &[Attribute], json_ld: &mut Vec<String>) {
        let kind = value(attrs, &local_name!("type")).unwrap_or_default();
        let is_state = kind.eq_ignore_ascii_case("application/json")
            || value(attrs, &local_name!("id")) == Some("__NEXT_DATA__");
        let Some(Data::Text(text)) = tree.first_child(id).map(|child| tree.data(child)) else {
            return;
        };
        if kind.contains("ld+json") && json_ld.len() < MAX_SCRIPTS {
            json_ld.push(text.to_string());
        } else if is_state && STATE.contains(&text.len()) && self.states.len() < MAX_SCRIPTS {
            self.states.push(id);
        }
    }

    fn link(&mut self, attrs: &[Attribute]) {
        let Some(href) = value(attrs, &local_name!("href")) else { return };
        let rel = value(attrs, &local_name!("rel")).unwrap_or_default();
        for word in rel.split_ascii_whitespace() {
            let slot = match word.to_ascii_lowercase().as_str() {
                "canonical" => &mut self.canonical,
                "amphtml" => &mut self.amp,
                "license" => &mut self.license,
                _ => continue,
            };
            slot.get_or_insert_with(|| href.to_owned());
        }
    }

    /// The first content of a meta element, as it is written.
    pub(super) fn raw_meta(&self, name: &str) -> Option<&str> {
        self.metas.iter().find(|(known, _)| known == name).map(|(_, content)| content.as_str())
    }

    /// The first content of a meta element.
    pub(super) fn meta_of(&self, name: &str) -> Option<String> {
        self.raw_meta(name).and_then(clean::plain)
    }

    /// The first of the named meta elements that can be read.
    pub(super) fn first_meta<T>(
        &self,
        list: &[&str],
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        list.iter().find_map(|name| self.raw_meta(name).and_then(&read))
    }

    /// What is said about the article, for the blocks to be compared with.
    pub(super) fn said(&self, page: &Page, evidence: &Evidence<'_>) -> Said {
        let metas =
            ["og:title", "twitter:title"].into_iter().filter_map(|name| self.raw_meta(name));
        let headings = page.headings.iter().take(2).map(|(text, _)| text.as_str());
        let titles =
            metas.chain(self.title.as_deref()).chain(headings).chain(self.ld.headline.as_deref());
        let titles = titles.chain(evidence.title);
        let description = self.description().or(evidence.summary).unwrap_or_default();
        let bodies = [self.ld.body.as_deref(), evidence.content];
        let body = bodies.into_iter().flatten().max_by_key(|body| body.len()).unwrap_or_default();
        let metas = ["author", "parsely-author", "sailthru.author", "dc.creator"];
        let authors = metas.iter().filter_map(|name| self.raw_meta(name));
        let authors = authors.chain(self.ld.authors.iter().map(String::as_str));
        let sites = self.raw_meta("og:site_name").into_iter();
        let sites = sites.chain(self.ld.sites.iter().map(String::as_str));
        let plain;
        let body = if body.contains('<') {
            plain = clean::plain_lines(body).join(" ");
            &plain
        } else {
            body
        };
        Said::new(titles, authors, sites, description, body)
    }

    pub(super) fn description(&self) -> Option<&str> {
        self.raw_meta("og:description").or_else(|| self.raw_meta("description"))
    }
}

/// Names of days in scripts, in one case and without what joins their words.
const PUBLISHING: &[&str] = &[
    "datepublished",
    "publishdate",
    "publisheddate",
    "publishedat",
    "pubdate",
    "publicationdate",
    "firstpublished",
    "firstpublishedat",
    "datecreated",
    "createdat",
    "publishtime",
    "publishedtime",
    "displaydate",
];
const UPDATING: &[&str] = &[
    "datemodified",
    "updatedat",
    "modifiedtime",
    "modifieddate",
    "modifiedat",
    "lastmodified",
    "lastupdated",
];

/// Days such as `"publishedAt":"2026-05-03…"`: whether of publishing, and how they are written.
fn days_in_script(text: &str) -> impl Iterator<Item = (bool, &str)> {
    // Days are rare, so that they are looked for, and the names before them.
    let years = text.match_indices("\"20").chain(text.match_indices("\"19"));
    years.filter_map(|(at, _)| {
        let day = text.get(at + 1..at + 11)?;
        let is_day = day.bytes().enumerate().all(|(place, byte)| match place {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
        let before =
            text.get(..at).filter(|_| is_day)?.trim_end_matches([' ', ':', '\\', '"', '=']);
        let start = before.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
        let name = before.get(start.map_or(0, |start| start + 1)..)?;
        let name: String = name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        let published = PUBLISHING.contains(&name.as_str());
        (published || UPDATING.contains(&name.as_str())).then_some((published, day))
    })
}

fn value<'a>(attrs: &'a [Attribute], name: &LocalName) -> Option<&'a str> {
    attribute(attrs, name).map(str::trim).filter(|value| !value.is_empty())
}

/// Whether a link says that it leads to a tag of the page, as microformats do.
fn is_tag(attrs: &[Attribute]) -> bool {
    let rel = value(attrs, &local_name!("rel")).unwrap_or_default();
    rel.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("tag"))
}

/// Whether an element does not stand in a picture, which may have a title, too.
fn in_head(tree: &Tree, id: Id) -> bool {
    let parent = tree.parent(id).and_then(|parent| tree.name(parent));
    parent.is_some_and(|name| matches!(*name, local_name!("head") | local_name!("body")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_in_scripts() {
        let script =
            r#"x={"publishedAt":"2026-05-03T10:00","a":"2025-01-01","updated_at": "2026-06-01"}"#;
        let days: Vec<_> = days_in_script(script).collect();
        assert_eq!(days, [(true, "2026-05-03"), (false, "2026-06-01")]);
    }

    #[test]
    fn what_a_head_holds() {
        let declared = Declared::collect(
            &Tree::read(
                "<html lang=de-AT><title>A  b</title><meta property=og:Title content=' c '>\
                 <meta name=empty content=''><link rel='x canonical' href=/d>\
                 <script type=application/ld+json>{\"@type\":\"Article\",\"headline\":\"H\"}</script>\
                 <svg><title>no</title></svg><input type=password>",
            )
            .unwrap(),
        );
        assert_eq!(declared.title.as_deref(), Some("A b"));
        assert_eq!(declared.meta_of("og:title").as_deref(), Some("c"));
        assert_eq!(declared.metas.len(), 1);
        assert_eq!(declared.canonical.as_deref(), Some("/d"));
        assert_eq!(declared.language.as_deref(), Some("de-AT"));
        assert_eq!(declared.ld.headline.as_deref(), Some("H"));
        assert!(declared.asks_password);
    }
}
