//! What an article is called, who wrote it and when, and what else its page declares.
//!
//! Every value is one that some source gave; addresses are made absolute and are http(s) or dropped.

use std::collections::HashSet;

use super::clean::{self, fold};
use super::dates::{self, Days};
use super::declared::Declared;
use super::page::Page;
use super::title::{self, SiteNames};
use super::{Evidence, authors};
use crate::date::{self, Ts};
use crate::rights::Rights;
use crate::url::{self, Url};

/// The most tags an article keeps.
const MAX_TAGS: usize = 50;

/// The name that pages may address us by in a meta element.
const OUR_NAME: &str = "feedmill";

/// What was settled.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub title: String,
    pub canonical_url: Option<String>,
    pub authors: Vec<String>,
    pub published: Option<Ts>,
    pub updated: Option<Ts>,
    pub day: Option<String>,
    pub language: Option<String>,
    pub site_name: Option<String>,
    pub section: Option<String>,
    pub tags: Vec<String>,
    pub lead_image: Option<String>,
    pub rights: Rights,
}

/// Weighs what a page declares and what its feed said.
pub(super) fn settle(
    declared: &Declared,
    page: &Page,
    base: Option<&Url>,
    evidence: &Evidence<'_>,
) -> Facts {
    let ld = &declared.ld;
    let site = SiteNames::of(declared, base);
    let address = base.map(Url::as_str).unwrap_or_default();
    let image = ld.image.clone().filter(|image| is_picture(image)).or_else(|| {
        declared.first_meta(&["og:image:secure_url", "og:image", "twitter:image"], |image| {
            is_picture(image).then(|| image.to_owned())
        })
    });
    let language = declared
        .language
        .clone()
        .or_else(|| ld.language.clone())
        .or_else(|| declared.first_meta(&["og:locale", "content-language", "language"], owned));
    let day = Days::collect(declared, page, address, evidence).best().map(|day| day.to_string());
    Facts {
        title: title::settle(declared, page, &site, evidence),
        canonical_url: canonical(declared, base),
        authors: authors::best(&authors::collect(declared, page, evidence), &site),
        // A day that is only shown is better than none.
        published: dates::published(declared, page, evidence)
            .or_else(|| date::parse(day.as_deref()?)),
        updated: dates::updated(declared, page),
        day,
        language: language.and_then(|tag| primary_language(&tag)),
        site_name: declared.meta_of("og:site_name").or_else(|| ld.publisher.clone()),
        section: declared.meta_of("article:section").or_else(|| ld.section.clone()),
        tags: tags(declared),
        lead_image: image.and_then(|image| absolute(base, &image)),
        rights: rights(declared, base),
    }
}

fn owned(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A reference as an address of its own.
pub(super) fn absolute(base: Option<&Url>, reference: &str) -> Option<String> {
    let found = base.map_or_else(|| url::parse(reference), |base| url::join(base, reference));
    found.ok().map(String::from)
}

/// Whether an address is that of a picture of the article, by its name.
pub(super) fn is_picture(address: &str) -> bool {
    let folded = address.to_ascii_lowercase();
    !folded.starts_with("data:")
        && ![
            "logo",
            "sprite",
            "spacer",
            "1x1",
            "pixel",
            "placeholder",
            "blank.",
            "favicon",
            "avatar",
        ]
        .iter()
        .any(|word| folded.contains(word))
}

/// The page's own address; a home page that every page of a broken site points to is none, and
/// neither is one on another site.
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
        let list = declared.first_meta(&["news_keywords", "keywords"], owned).unwrap_or_default();
        tags.extend(list.split([',', ';']).filter_map(clean::plain));
    }
    if tags.is_empty() {
        tags.extend(declared.tags.iter().filter_map(|tag| clean::plain(tag)));
    }
    let mut seen = HashSet::new();
    tags.into_iter().filter(|tag| seen.insert(fold(tag))).take(MAX_TAGS).collect()
}

/// What the page says about its use.
fn rights(declared: &Declared, base: Option<&Url>) -> Rights {
    // A link leads to a page; JSON-LD may also name a licence.
    let linked = declared.license.as_deref().and_then(|link| absolute(base, link));
    let named = declared.ld.license.as_deref().filter(|name| !url::is_other_scheme(name));
    let copyright = ["copyright", "dc.rights", "dcterms.rights", "rights"];
    let mut rights = Rights {
        license: linked.or_else(|| named.map(|it| absolute(base, it).unwrap_or(it.to_owned()))),
        copyright: (declared.ld.copyright.clone())
            .or_else(|| copyright.iter().find_map(|name| declared.meta_of(name))),
        ..Rights::default()
    };
    for (name, content) in &declared.metas {
        rights.meta(name, content, OUR_NAME);
    }
    rights
}
