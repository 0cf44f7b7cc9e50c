//! What a page says of itself in JSON-LD.
//!
//! Publishers write it by hand and by plugin, so every shape is met: one object, a list, a graph,
//! authors as strings, objects and references. What is not understood is passed over.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::clean;
use crate::json::Budget;

/// The most objects that are looked at.
const MAX_OBJECTS: usize = 2_000;
/// The bytes of memory that the trees of a page's scripts may take together. An article's own take some
/// thousands.
const MAX_TREES: usize = 8 << 20;
/// The most people that one field names.
const MAX_PEOPLE: usize = 200;
/// The most bytes of a name. Many articles and fields may refer to the same one.
const MAX_NAME: usize = 2_000;

/// What the objects of a page say about its article.
#[derive(Clone, Debug, Default)]
pub(super) struct Ld {
    pub headline: Option<String>,
    pub name: Option<String>,
    /// The longest text that is declared as a body.
    pub body: Option<String>,
    pub authors: Vec<String>,
    /// Dates as they are written.
    pub published: Option<String>,
    pub created: Option<String>,
    pub updated: Option<String>,
    /// A date of publication of something else than the article.
    pub other_published: Option<String>,
    pub language: Option<String>,
    pub image: Option<String>,
    pub section: Option<String>,
    pub keywords: Vec<String>,
    pub publisher: Option<String>,
    /// Names of publishers and sites.
    pub sites: Vec<String>,
    pub is_free: Option<bool>,
    pub license: Option<String>,
    pub copyright: Option<String>,
    /// The types of the article object.
    pub types: Vec<String>,
}

pub(super) type Object = Map<String, Value>;

/// Reads all the JSON-LD scripts of a page.
pub(super) fn read(scripts: &[String]) -> Ld {
    let values = trees(scripts);
    let objects = objects(&values);
    let by_id: HashMap<&str, &Object> = objects
        .iter()
        .filter(|object| object.len() > 1)
        .filter_map(|object| Some((object.get("@id")?.as_str()?, *object)))
        .collect();
    let mut articles: Vec<&Object> =
        objects.iter().copied().filter(|object| rank(object).is_some()).collect();
    // Those that say most first: others of the page are mentioned in passing.
    articles.sort_by_key(|object| (rank(object), std::cmp::Reverse(told(object))));
    let field = |name: &str| articles.iter().find_map(|article| text(article.get(name)?));
    let people_of = |name: &str| {
        let named = articles.iter().map(|article| people(article.get(name), &by_id));
        named.into_iter().find(|names| !names.is_empty())
    };
    let dated = |name: &str| articles.iter().find_map(|article| strings(article.get(name)?).next());
    let keywords = articles.iter().find_map(|article| article.get("keywords"));
    let keywords = keywords.into_iter().flat_map(strings).flat_map(|list| list.split(','));
    let published = dated("datePublished").map(str::to_owned);
    let other = objects.iter().find_map(|object| object.get("datePublished")?.as_str());
    Ld {
        headline: field("headline"),
        name: field("name"),
        body: body(&objects),
        authors: people_of("author").or_else(|| people_of("creator")).unwrap_or_default(),
        other_published: other.filter(|_| published.is_none()).map(str::to_owned),
        published,
        created: dated("dateCreated").map(str::to_owned),
        updated: dated("dateModified").map(str::to_owned),
        language: field("inLanguage"),
        image: articles.iter().find_map(|article| article.get("image").and_then(image)),
        section: field("articleSection"),
        keywords: keywords.filter_map(clean::plain).collect(),
        publisher: people_of("publisher").and_then(|names| names.into_iter().next()),
        sites: sites(&objects),
        is_free: articles.iter().find_map(|article| truth(article.get("isAccessibleForFree")?)),
        license: field("license"),
        copyright: field("copyrightNotice").or_else(|| field("copyrightHolder")),
        types: articles
            .first()
            .map(|first| types(first).map(str::to_owned).collect())
            .unwrap_or_default(),
    }
}

/// The object of a page's own article, among all that its scripts hold.
pub(super) fn own_article(scripts: &[String]) -> Option<Object> {
    let values = trees(scripts);
    let articles = objects(&values).into_iter().filter(|object| rank(object).is_some());
    articles.min_by_key(|object| (rank(object), std::cmp::Reverse(told(object)))).cloned()
}

/// Articles before pages and reviews; `None` for what is neither.
fn rank(object: &Object) -> Option<u8> {
    types(object)
        .filter_map(|name| {
            let name = name.rsplit('/').next()?;
            match name {
                "WebPage" | "Review" | "MedicalWebPage" => Some(1),
                "BlogPosting"
                | "LiveBlogPosting"
                | "SocialMediaPosting"
                | "Recipe"
                | "HowTo"
                | "DiscussionForumPosting"
                | "Report" => Some(0),
                _ => name.ends_with("Article").then_some(0),
            }
        })
        .min()
}

/// How much an object says.
fn told(object: &Object) -> usize {
    let fields = ["headline", "datePublished", "author", "articleBody"];
    fields.iter().filter(|name| object.contains_key(**name)).count()
}

/// The longest declared body, of comments none.
fn body(objects: &[&Object]) -> Option<String> {
    let declared = objects.iter().flat_map(|object| {
        let comment = types(object).any(|name| name.contains("Comment"));
        let fields = ["articleBody", "reviewBody"].into_iter().chain((!comment).then_some("text"));
        fields.filter_map(|field| Some(strings(object.get(field)?).collect::<Vec<_>>().join(" ")))
    });
    declared.max_by_key(String::len).filter(|body| !body.is_empty())
}

/// Names of publishers and sites.
fn sites(objects: &[&Object]) -> Vec<String> {
    let is_site = |name: &str| matches!(name, "Organization" | "NewsMediaOrganization" | "WebSite");
    let own = objects.iter().filter(|object| types(object).any(is_site));
    let own = own.filter_map(|object| object.get("name"));
    let named = objects.iter().filter_map(|object| object.get("publisher"));
    own.chain(named).filter_map(text).collect()
}

/// True or false, also where it is written as a text.
fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// The trees of all scripts; what is beyond their budget is left out.
fn trees(scripts: &[String]) -> Vec<Value> {
    let budget = Budget::new(MAX_TREES);
    scripts.iter().filter_map(|script| parse(script, &budget)).collect()
}

fn parse(script: &str, budget: &Budget) -> Option<Value> {
    let script = script.trim().trim_start_matches("<!--").trim_end_matches("-->");
    let script = script.trim().trim_start_matches("//<![CDATA[").trim_end_matches("//]]>");
    budget.tree(script).or_else(|| {
        // Line breaks inside strings are the most common slip.
        let mended: String = script.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        budget.tree(mended.trim().trim_end_matches(';'))
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

/// The text of a value as a name, of which no more is read than a name can have.
fn name_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => clean::plain(text.get(..text.floor_char_boundary(MAX_NAME))?),
        Value::Array(items) => items.iter().filter(|item| !item.is_array()).find_map(name_in),
        Value::Object(object) => {
            object.get("name").filter(|name| name.is_string()).and_then(name_in)
        }
        _ => None,
    }
}

/// The names of people or organisations, written in any of the usual ways.
fn people(value: Option<&Value>, by_id: &HashMap<&str, &Object>) -> Vec<String> {
    let items =
        value.map(|value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
    let name = |item: &Value| match item {
        Value::Object(object) if !object.contains_key("name") => {
            by_id.get(object.get("@id")?.as_str()?)?.get("name").and_then(name_in)
        }
        other => name_in(other),
    };
    items.unwrap_or_default().iter().filter_map(name).take(MAX_PEOPLE).collect()
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
        assert_eq!(ld.sites, ["The Paper"]);
        assert_eq!(ld.published.as_deref(), Some("2026-05-03T10:00:00Z"));
        assert_eq!(ld.image.as_deref(), Some("/a.jpg"));
        assert_eq!(ld.keywords, ["rain", "wind"]);
        assert_eq!(ld.section.as_deref(), Some("Weather"));
    }

    #[test]
    fn references_to_one_long_name_are_bounded() {
        let name = "b".repeat(400_000);
        let ld = read(&[format!(
            r##"{{"@graph":[{{"@type":"Person","@id":"#a","name":"{name}"}},
            {{"@type":"NewsArticle","author":[{}"Max"]}}]}}"##,
            r##"{"@id":"#a"},"##.repeat(30_000)
        )]);
        assert_eq!(ld.authors.len(), MAX_PEOPLE);
        assert!(ld.authors.iter().all(|name| name.len() == MAX_NAME));
    }

    #[test]
    fn objects_beyond_the_budget_are_left_out() {
        let article = r#"{"@type":"NewsArticle","headline":"Rain"}"#;
        let small = r#"{"":{"":{}}},"#.repeat(100_000);
        let scripts = [format!("[{article},{small}{{}}]"), format!("[{small}{article}]")];
        assert_eq!(read(&scripts[..1]).headline.as_deref(), Some("Rain"));
        assert_eq!(read(&scripts[1..]).headline, None);
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
