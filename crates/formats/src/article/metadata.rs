//! Who wrote the article, when, and what it is called: declarations weighed against each other.
//!
//! JSON-LD is believed first, then meta elements, then what the page shows, then the feed. Every
//! value is one that some source gave; addresses are made absolute and are http(s) or dropped.

use dom_query::{Document, NodeData, NodeRef};

use super::clean::{self, fold};
use super::jsonld::{self, Ld};
use super::{Evidence, title};
use crate::date::{self, Ts};
use crate::rights::Rights;
use crate::url::{self, Url};

/// The most elements of one kind that are looked at.
const MAX_KIND: usize = 20;
/// The most tags an article keeps.
const MAX_TAGS: usize = 50;

const PUBLISHED: &[&str] = &[
    "article:published_time",
    "og:published_time",
    "datepublished",
    "parsely-pub-date",
    "sailthru.date",
    "publish-date",
    "publishdate",
    "publication_date",
    "pubdate",
    "dc.date.issued",
    "dcterms.created",
    "dc.date",
    "citation_publication_date",
    "date",
];
const UPDATED: &[&str] = &[
    "article:modified_time",
    "og:updated_time",
    "datemodified",
    "last-modified",
    "dcterms.modified",
];
const AUTHORS: &[&str] = &[
    "author",
    "article:author",
    "parsely-author",
    "sailthru.author",
    "byl",
    "dc.creator",
    "dcterms.creator",
    "citation_author",
];

/// The name that pages may address us by in a meta element.
const OUR_NAME: &str = "feedmill";

/// Everything a page declares, before it is weighed.
#[derive(Debug, Default)]
pub(super) struct Declared {
    pub ld: Ld,
    /// Names in lower case, and their contents.
    metas: Vec<(String, String)>,
    pub title: Option<String>,
    canonical: Option<String>,
    language: Option<String>,
    pub headings: Vec<String>,
    times: Vec<Time>,
    authors: Vec<String>,
    bylines: Vec<String>,
}

/// A `time` element or a date in microdata.
#[derive(Debug)]
struct Time {
    at: Ts,
    updated: bool,
    declared: bool,
}

/// What was settled.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub title: String,
    pub canonical_url: Option<String>,
    pub authors: Vec<String>,
    pub published: Option<Ts>,
    pub updated: Option<Ts>,
    pub language: Option<String>,
    pub site_name: Option<String>,
    pub section: Option<String>,
    pub tags: Vec<String>,
    pub lead_image: Option<String>,
}

impl Declared {
    /// Collects in one pass over the document.
    pub(super) fn collect(document: &Document) -> Self {
        let mut found = Self::default();
        let mut scripts = Vec::new();
        for node in document.root().descendants_it() {
            let name = node.query(|inner| match &inner.data {
                NodeData::Element(element) => Some(element.name.local.to_string()),
                _ => None,
            });
            match name.flatten().as_deref() {
                None => {}
                Some("script") if scripts.len() < MAX_KIND && is_json_ld(&node) => {
                    scripts.push(node.text().to_string());
                }
                Some(name) => found.element(&node, name),
            }
        }
        found.ld = jsonld::read(&scripts);
        found
    }

    fn element(&mut self, node: &NodeRef<'_>, name: &str) {
        match name {
            "html" => self.language = value(node, "lang").or_else(|| value(node, "xml:lang")),
            "meta" => self.meta(node),
            "title" if self.title.is_none() => self.title = clean::plain(&node.text()),
            "link" if has_token(node, "rel", "canonical") && self.canonical.is_none() => {
                self.canonical = value(node, "href");
            }
            "h1" if self.headings.len() < MAX_KIND => {
                self.headings.extend(Some(clean::squeeze(&node.text())).filter(|h| !h.is_empty()));
            }
            "time" => self.time(node),
            _ if value(node, "itemprop").is_some() => self.microdata(node),
            "a" if has_token(node, "rel", "author") => self.author(node),
            "a" | "span" | "div" | "p" | "address" | "li" => self.byline(node),
            _ => {}
        }
    }

    fn meta(&mut self, node: &NodeRef<'_>) {
        let name = ["property", "name", "itemprop", "http-equiv"]
            .iter()
            .find_map(|attribute| value(node, attribute));
        if let (Some(name), Some(content)) = (name, value(node, "content")) {
            self.metas.push((name.to_ascii_lowercase(), content));
        }
    }

    fn time(&mut self, node: &NodeRef<'_>) {
        let written = value(node, "datetime").or_else(|| value(node, "content"));
        let Some(at) = written.and_then(|text| date::parse(&text)) else { return };
        if self.times.len() < MAX_KIND {
            let hint = ["class", "itemprop", "data-testid"]
                .iter()
                .filter_map(|attribute| value(node, attribute))
                .collect::<String>()
                .to_ascii_lowercase();
            let declared = hint.contains("publ") || hint.contains("entry-date");
            let updated = hint.contains("updat") || hint.contains("modif");
            self.times.push(Time { at, updated, declared: declared || node.has_attr("pubdate") });
        }
    }

    fn microdata(&mut self, node: &NodeRef<'_>) {
        match value(node, "itemprop").as_deref() {
            Some("author" | "creator") => self.author(node),
            Some("datePublished" | "dateModified") => self.time(node),
            _ => {}
        }
    }

    fn author(&mut self, node: &NodeRef<'_>) {
        if self.authors.len() < MAX_KIND {
            self.authors.extend(names(&clean::squeeze(&node.text())));
        }
    }

    fn byline(&mut self, node: &NodeRef<'_>) {
        let class = value(node, "class").unwrap_or_default().to_ascii_lowercase();
        let says_so = class.contains("byline") || class.contains("author-name");
        if says_so && self.bylines.len() < MAX_KIND {
            let text = clean::squeeze(&node.text());
            if text.chars().count() < 100 {
                self.bylines.extend(names(&text));
            }
        }
    }

    /// The first content of a meta element.
    pub(super) fn meta_of(&self, name: &str) -> Option<String> {
        let found = self.metas.iter().find(|(known, _)| known == name);
        found.and_then(|(_, content)| clean::plain(content))
    }

    fn first_meta<T>(&self, list: &[&str], read: impl Fn(String) -> Option<T>) -> Option<T> {
        list.iter().find_map(|name| self.meta_of(name).and_then(&read))
    }

    /// What the page says about its use.
    pub(super) fn rights(&self) -> Rights {
        let mut rights = Rights::default();
        for (name, content) in &self.metas {
            rights.meta(name, content, OUR_NAME);
        }
        rights
    }

    /// The body that JSON-LD holds.
    pub(super) fn body(&self) -> Option<&str> {
        self.ld.body.as_deref()
    }
}

fn value(node: &NodeRef<'_>, name: &str) -> Option<String> {
    node.attr(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn is_json_ld(script: &NodeRef<'_>) -> bool {
    value(script, "type").is_some_and(|kind| kind.contains("ld+json"))
}

fn has_token(node: &NodeRef<'_>, name: &str, token: &str) -> bool {
    value(node, name).is_some_and(|list| {
        list.split_ascii_whitespace().any(|known| known.eq_ignore_ascii_case(token))
    })
}

/// Weighs what a page declares and what its feed said.
pub(super) fn settle(declared: &Declared, url: &str, evidence: &Evidence<'_>) -> Facts {
    let ld = &declared.ld;
    let base = url::parse(url).ok();
    let language = declared
        .language
        .clone()
        .or_else(|| ld.language.clone())
        .or_else(|| declared.first_meta(&["og:locale", "content-language", "language"], Some));
    let image = ld.image.clone().filter(|image| is_picture(image)).or_else(|| {
        declared.first_meta(&["og:image:secure_url", "og:image", "twitter:image"], |image| {
            is_picture(&image).then_some(image)
        })
    });
    Facts {
        title: title::settle(declared, base.as_ref(), evidence),
        canonical_url: canonical(declared, base.as_ref()),
        authors: authors(declared, evidence),
        published: published(declared, evidence),
        updated: updated(declared),
        language: language.and_then(|tag| primary_language(&tag)),
        site_name: declared.meta_of("og:site_name").or_else(|| ld.publisher.clone()),
        section: declared.meta_of("article:section").or_else(|| ld.section.clone()),
        tags: tags(declared),
        lead_image: image.and_then(|image| absolute(base.as_ref(), &image)),
    }
}

fn absolute(base: Option<&Url>, reference: &str) -> Option<String> {
    let found = base.map_or_else(|| url::parse(reference), |base| url::join(base, reference));
    found.ok().map(String::from)
}

fn is_picture(address: &str) -> bool {
    let folded = address.to_ascii_lowercase();
    !["logo", "sprite", "spacer", "1x1", "pixel", "placeholder", "blank."]
        .iter()
        .any(|word| folded.contains(word))
}

/// The page's own address; a home page that every page of a broken site points to is none.
fn canonical(declared: &Declared, base: Option<&Url>) -> Option<String> {
    let given = declared.canonical.clone().or_else(|| declared.meta_of("og:url"))?;
    let found = url::parse(&absolute(base, &given)?).ok()?;
    let is_home = found.path() == "/" && found.query().is_none();
    let from_home = base.is_none_or(|base| base.path() == "/");
    (!is_home || from_home).then(|| found.into())
}

fn primary_language(tag: &str) -> Option<String> {
    let primary = tag.split(['-', '_', ',', ' ']).next()?.to_ascii_lowercase();
    let fits = matches!(primary.len(), 2 | 3) && primary.bytes().all(|b| b.is_ascii_lowercase());
    fits.then_some(primary)
}

fn tags(declared: &Declared) -> Vec<String> {
    let metas = declared.metas.iter().filter(|(name, _)| name == "article:tag");
    let mut tags: Vec<String> = metas.filter_map(|(_, content)| clean::plain(content)).collect();
    tags.extend(declared.ld.keywords.iter().cloned());
    if tags.is_empty() {
        let list = declared.first_meta(&["news_keywords", "keywords"], Some).unwrap_or_default();
        tags.extend(list.split([',', ';']).filter_map(clean::plain));
    }
    dedup(tags, MAX_TAGS)
}

/// Without those that differ from an earlier one only in case or punctuation.
fn dedup(values: Vec<String>, most: usize) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    values.into_iter().filter(|value| seen.insert(fold(value))).take(most).collect()
}

fn published(declared: &Declared, evidence: &Evidence<'_>) -> Option<Ts> {
    let shown = |wanted: bool| {
        let mut times = declared.times.iter();
        times.find(|time| !time.updated && time.declared == wanted).map(|time| time.at)
    };
    declared
        .ld
        .published
        .or_else(|| declared.first_meta(PUBLISHED, |text| date::parse(&text)))
        .or_else(|| shown(true))
        .or(evidence.published)
        .or_else(|| shown(false))
}

fn updated(declared: &Declared) -> Option<Ts> {
    let shown = declared.times.iter().find(|time| time.updated).map(|time| time.at);
    let meta = declared.first_meta(UPDATED, |text| date::parse(&text));
    declared.ld.updated.or(meta).or(shown)
}

fn authors(declared: &Declared, evidence: &Evidence<'_>) -> Vec<String> {
    let ld: Vec<String> = declared.ld.authors.iter().flat_map(|name| names(name)).collect();
    let meta = || {
        let listed = AUTHORS.iter().map(|wanted| {
            let named = declared.metas.iter().filter(|(name, _)| name == wanted);
            named.filter_map(|(_, content)| clean::plain(content)).flat_map(|n| names(&n)).collect()
        });
        listed.into_iter().find(|names: &Vec<String>| !names.is_empty()).unwrap_or_default()
    };
    let feed = || evidence.authors.iter().flat_map(|name| names(name)).collect();
    let sources: [&dyn Fn() -> Vec<String>; 5] =
        [&|| ld.clone(), &meta, &|| declared.authors.clone(), &|| declared.bylines.clone(), &feed];
    let first = sources.iter().map(|source| source()).find(|names| !names.is_empty());
    dedup(first.unwrap_or_default(), MAX_KIND)
}

/// The names in a byline: without "By", roles, addresses and dates.
fn names(text: &str) -> Vec<String> {
    const LEADS: [&str; 9] =
        ["by", "von", "par", "por", "di", "door", "written by", "text", "author"];
    const NOBODY: [&str; 14] = [
        "admin",
        "administrator",
        "anonymous",
        "author",
        "editor",
        "guest",
        "null",
        "redaktion",
        "staff",
        "undefined",
        "unknown",
        "user",
        "webmaster",
        "website",
    ];
    let mut text = text.trim();
    if text.contains("://") {
        return Vec::new();
    }
    for lead in LEADS {
        let start: String = text.chars().take(lead.chars().count()).collect();
        let rest = text.strip_prefix(start.as_str()).unwrap_or(text);
        if start.to_lowercase() == lead && rest.starts_with([' ', ':']) {
            text = rest.trim_start_matches([' ', ':']);
        }
    }
    let parts = text.replace(" and ", ",").replace(" und ", ",").replace(" et ", ",");
    let parts = parts.replace(" & ", ",");
    parts
        .split([',', ';', '|', '•', '·', '/', '\n'])
        .map(|part| clean::squeeze(part).trim_matches(['.', '-', '–', ':']).to_owned())
        .take_while(|part| !part.chars().any(|c| c.is_ascii_digit()))
        .filter(|part| {
            let count = part.split(' ').count();
            part.chars().any(char::is_alphabetic)
                && count <= 6
                && part.chars().count() <= 60
                && !part.contains(['@', '<'])
                && !NOBODY.contains(&part.to_lowercase().as_str())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(html: &str, evidence: &Evidence<'_>) -> Facts {
        let declared = Declared::collect(&Document::from(html));
        settle(&declared, "https://www.dailypost.example/news/storm", evidence)
    }

    #[test]
    fn names_are_people() {
        for (text, expected) in [
            ("By Jane Doe", vec!["Jane Doe"]),
            ("By Jane Doe and Max Muster, 3 May 2026", vec!["Jane Doe", "Max Muster"]),
            ("Von Eva Maier", vec!["Eva Maier"]),
            ("admin", vec![]),
            ("https://example.com/jane", vec![]),
            ("Byron Smith", vec!["Byron Smith"]),
        ] {
            assert_eq!(names(text), expected, "{text}");
        }
    }

    #[test]
    fn sources_are_believed_in_order() {
        let meta = "<meta name=author content='Meta Name'><meta property=article:published_time \
                    content=2026-05-02T00:00:00Z>";
        let shown = "<a rel=author href=/x>Shown Name</a><time class=published \
                     datetime=2026-05-03T00:00:00Z>3 May</time>";
        let authors = ["Feed Name".to_owned()];
        let evidence = Evidence {
            published: date::parse("2026-05-04T00:00:00Z"),
            authors: &authors,
            ..Evidence::default()
        };
        let all = facts(&format!("{meta}{shown}"), &evidence);
        assert_eq!(all.authors, ["Meta Name"]);
        assert_eq!(all.published, date::parse("2026-05-02T00:00:00Z"));
        let less = facts(shown, &evidence);
        assert_eq!(less.authors, ["Shown Name"]);
        assert_eq!(less.published, date::parse("2026-05-03T00:00:00Z"));
        let none = facts("<p>x", &evidence);
        assert_eq!(none.authors, ["Feed Name"]);
        assert_eq!(none.published, evidence.published);
    }

    #[test]
    fn addresses_are_absolute_or_absent() {
        let page = facts(
            "<html lang=en-GB><link rel=canonical href=/news/storm><meta property=og:image \
             content=//cdn.example/a.jpg>",
            &Evidence::default(),
        );
        assert_eq!(page.canonical_url.as_deref(), Some("https://www.dailypost.example/news/storm"));
        assert_eq!(page.lead_image.as_deref(), Some("https://cdn.example/a.jpg"));
        assert_eq!(page.language.as_deref(), Some("en"));
        let broken = facts(
            "<link rel=canonical href=/><meta property=og:image content=/logo.png>",
            &Evidence::default(),
        );
        assert_eq!((broken.canonical_url, broken.lead_image), (None, None));
    }
}
