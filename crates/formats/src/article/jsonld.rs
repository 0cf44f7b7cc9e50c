//! What a page says of itself in JSON-LD.
//!
//! Publishers write it by hand and by plugin, so every shape is met: one object, a list, a graph,
//! authors as strings, objects and references. What is not understood is passed over.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::clean;
use crate::date::{self, Ts};

/// The most objects that are looked at.
const MAX_OBJECTS: usize = 2_000;

/// The article object of a page, as far as it has one.
#[derive(Clone, Debug, Default)]
pub(super) struct Ld {
    pub headline: Option<String>,
    pub body: Option<String>,
    pub authors: Vec<String>,
    pub published: Option<Ts>,
    pub updated: Option<Ts>,
    pub language: Option<String>,
    pub image: Option<String>,
    pub section: Option<String>,
    pub keywords: Vec<String>,
    pub publisher: Option<String>,
}

type Object = Map<String, Value>;

/// Reads all the JSON-LD scripts of a page.
pub(super) fn read(scripts: &[String]) -> Ld {
    let values: Vec<Value> = scripts.iter().filter_map(|script| parse(script)).collect();
    let objects = objects(&values);
    let by_id: HashMap<&str, &Object> = objects
        .iter()
        .filter(|object| object.len() > 1)
        .filter_map(|object| Some((object.get("@id")?.as_str()?, *object)))
        .collect();
    let articles = objects.iter().filter(|object| is_article(object));
    // The first of those that say most: other articles of the page are mentioned in passing.
    let told = |object: &Object| {
        ["headline", "datePublished", "author", "articleBody"]
            .iter()
            .filter(|name| object.contains_key(**name))
            .count()
    };
    let article = articles.rev().max_by_key(|object| told(object));
    let mut ld = article.map(|article| from_article(article, &by_id)).unwrap_or_default();
    if ld.published.is_none() {
        let page =
            objects.iter().find(|object| types(object).any(|name| name.ends_with("WebPage")));
        let page = page.map(|page| from_article(page, &by_id)).unwrap_or_default();
        (ld.published, ld.updated) = (page.published, ld.updated.or(page.updated));
    }
    if ld.publisher.is_none() {
        let site = objects.iter().find(|object| {
            types(object).any(|name| matches!(name, "NewsMediaOrganization" | "WebSite"))
        });
        ld.publisher = site.and_then(|site| text(site.get("name")?));
    }
    ld
}

fn parse(script: &str) -> Option<Value> {
    let script = script.trim().trim_start_matches("<!--").trim_end_matches("-->");
    let script = script.trim().trim_start_matches("//<![CDATA[").trim_end_matches("//]]>");
    serde_json::from_str(script).ok().or_else(|| {
        // Line breaks inside strings are the most common slip.
        let mended: String = script.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        serde_json::from_str(mended.trim().trim_end_matches(';')).ok()
    })
}

/// All objects, outer ones first, without those of lists of other pages.
fn objects(values: &[Value]) -> Vec<&Object> {
    let mut found = Vec::new();
    let mut waiting: Vec<&Value> = values.iter().rev().collect();
    while let Some(value) = waiting.pop() {
        match value {
            Value::Array(items) => waiting.extend(items.iter().rev()),
            Value::Object(object) if found.len() < MAX_OBJECTS => {
                found.push(object);
                let inner = object.iter().filter(|(name, _)| {
                    !matches!(name.as_str(), "itemListElement" | "comment" | "hasPart" | "review")
                });
                waiting.extend(
                    inner
                        .map(|(_, value)| value)
                        .filter(|value| value.is_object() || value.is_array()),
                );
            }
            _ => {}
        }
    }
    found
}

fn types(object: &Object) -> impl Iterator<Item = &str> {
    object.get("@type").into_iter().flat_map(strings)
}

fn is_article(object: &Object) -> bool {
    types(object)
        .any(|name| name.ends_with("Article") || name.ends_with("BlogPosting") || name == "Review")
}

/// A string, or the strings of a list.
fn strings(value: &Value) -> impl Iterator<Item = &str> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().filter_map(Value::as_str)
}

/// The text of a value, of its first item, or of its name.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => clean::plain(text),
        Value::Array(items) => items.iter().find_map(|item| match item {
            Value::Array(_) => None,
            other => text(other),
        }),
        Value::Object(object) => object.get("name")?.as_str().and_then(clean::plain),
        _ => None,
    }
}

fn from_article(article: &Object, by_id: &HashMap<&str, &Object>) -> Ld {
    let field = |name: &str| article.get(name).and_then(text);
    let time = |name: &str| article.get(name)?.as_str().and_then(date::parse);
    let keywords = article.get("keywords").into_iter().flat_map(strings);
    Ld {
        headline: field("headline").or_else(|| field("name")),
        body: article.get("articleBody").and_then(Value::as_str).map(str::to_owned),
        authors: people(article.get("author").or_else(|| article.get("creator")), by_id),
        published: time("datePublished").or_else(|| time("dateCreated")),
        updated: time("dateModified"),
        language: field("inLanguage"),
        image: article.get("image").and_then(image),
        section: field("articleSection"),
        keywords: keywords.flat_map(|list| list.split(',')).filter_map(clean::plain).collect(),
        publisher: people(article.get("publisher"), by_id).into_iter().next(),
    }
}

/// The names of people or organisations, written in any of the usual ways.
fn people(value: Option<&Value>, by_id: &HashMap<&str, &Object>) -> Vec<String> {
    let items =
        value.map(|value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
    let name = |item: &Value| match item {
        Value::Object(object) if !object.contains_key("name") => {
            by_id.get(object.get("@id")?.as_str()?)?.get("name").and_then(text)
        }
        other => text(other),
    };
    items.unwrap_or_default().iter().filter_map(name).collect()
}

/// The address of an image: a string, an object with a `url`, or the first of a list.
fn image(value: &Value) -> Option<String> {
    let first = value.as_array().map_or(Some(value), |items| items.first())?;
    match first {
        Value::String(address) => Some(address.clone()),
        Value::Object(object) => object
            .get("url")
            .or_else(|| object.get("contentUrl"))
            .and_then(Value::as_str)
            .map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_with_references() {
        let ld = read(&[r##"{"@context":"https://schema.org","@graph":[
            {"@type":"WebSite","@id":"#site","name":"The Paper"},
            {"@type":["NewsArticle","Thing"],"headline":"Rain &amp; wind","author":[{"@id":"#jane"},"Max"],
             "publisher":{"@id":"#site"},"datePublished":"2026-05-03T10:00:00Z",
             "image":[{"@type":"ImageObject","url":"/a.jpg"}],"keywords":"rain, wind",
             "articleSection":["Weather"],"inLanguage":"en-GB","isPartOf":{"@id":"#site"}},
            {"@type":"Person","@id":"#jane","name":"Jane Doe"}]}"##
            .to_owned()]);
        assert_eq!(ld.headline.as_deref(), Some("Rain & wind"));
        assert_eq!(ld.authors, ["Jane Doe", "Max"]);
        assert_eq!(ld.publisher.as_deref(), Some("The Paper"));
        assert_eq!(ld.published, date::parse("2026-05-03T10:00:00Z"));
        assert_eq!(ld.image.as_deref(), Some("/a.jpg"));
        assert_eq!(ld.keywords, ["rain", "wind"]);
        assert_eq!(ld.section.as_deref(), Some("Weather"));
    }

    #[test]
    fn slips_are_mended_and_nonsense_passed_over() {
        let ld = read(&[
            "not json".to_owned(),
            "[]".to_owned(),
            "<!--\n{\"@type\":\"Article\",\"headline\":\"Two\nlines\"};\n-->".to_owned(),
        ]);
        assert_eq!(ld.headline.as_deref(), Some("Two lines"));
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read(&[deep]).headline.is_none());
    }

    #[test]
    fn the_article_that_says_most_is_the_pages_own() {
        let ld = read(&[
            r#"[{"@type":"ItemList","itemListElement":[{"@type":"Article","headline":"x"}]},
            {"@type":"Article","headline":"Teaser"},
            {"@type":"Article","headline":"Own","author":"A"}]"#
                .to_owned(),
        ]);
        assert_eq!(ld.headline.as_deref(), Some("Own"));
    }
}
