//! Documents: north-cloud's `raw_content` (ORIGINS 1.1), field by field, and our own. Pure.

use feedmill_formats::article::{self, Evidence, Statement};
use feedmill_formats::charset::{self, Markup};
use feedmill_formats::date;
use serde_json::{Map, Value, json};

use crate::model::{ArticleRow, Reference};
use crate::sinks::{Body, Item, Redact, Redaction};

/// The index of a source: its name in small letters, digits and single underscores.
pub(super) fn index_of(item: &Item) -> String {
    let name = item.source.as_ref().map_or("", |source| source.spec.name.as_str());
    let mut index = String::new();
    for letter in name.trim().to_lowercase().chars() {
        let letter = if letter.is_ascii_alphanumeric() { letter } else { '_' };
        if letter != '_' || !index.ends_with('_') {
            index.push(letter);
        }
    }
    let index = index.trim_matches('_');
    format!("{}_raw_content", if index.is_empty() { "unknown" } else { index })
}

/// A document as north-cloud's classifier reads it. The item was redacted; what the page says beside
/// it is so here.
pub(super) fn document(
    item: &Item,
    row: &ArticleRow,
    text: &str,
    body: Option<&Body>,
    redact: &Redact,
) -> Value {
    let html = body.map(page);
    let said = html.as_deref().map(Statement::read).unwrap_or_default();
    let article = &row.article;
    let clean = html.as_deref().filter(|_| redact.texts == Redaction::Keep).and_then(|html| {
        article::extract(html, &article.url, &Evidence::default()).ok().map(|found| found.html)
    });
    let meta = |name: &str| said.meta(name).unwrap_or_default();
    let words = |name: &str| said.meta(name).and_then(|text| redact.text(text.to_owned()));
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    put("id", json!(row.id));
    put("url", json!(article.url));
    put("source_name", json!(item.source.as_ref().map_or("", |source| source.spec.name.as_str())));
    put("title", json!(article.title.as_deref().unwrap_or_default()));
    put("raw_text", json!(text));
    put("meta_description", json!(words("description").unwrap_or_default()));
    put("og_type", json!(meta("og:type")));
    put("og_title", json!(meta("og:title")));
    put("og_description", json!(words("og:description").unwrap_or_default()));
    put("published_date", json!(article.published));
    put("classification_status", json!("pending"));
    put("crawled_at", json!(row.last_seen));
    put("word_count", json!(text.split_whitespace().count()));
    let authors = article.authors.join(", ");
    for (name, value) in [
        ("raw_html", clean.unwrap_or_default()),
        ("meta_keywords", meta("keywords").to_owned()),
        ("og_image", meta("og:image").to_owned()),
        ("author", authors),
        ("canonical_url", article.canonical_url.clone().unwrap_or_default()),
        ("article_section", article.section.clone().unwrap_or_default()),
    ] {
        if !value.is_empty() {
            put(name, Value::String(value));
        }
    }
    if let Some(object) = &said.json_ld {
        put("json_ld_data", json_ld(object, redact));
    }
    let more = more(&said);
    if !more.is_empty() {
        put("meta", Value::Object(more));
    }
    Value::Object(fields)
}

/// A page as text.
fn page(body: &Body) -> String {
    charset::decode(&body.bytes, body.media.as_deref(), Markup::Html).text.into_owned()
}

fn more(said: &Statement) -> Map<String, Value> {
    let mut more = Map::new();
    for (name, meta) in [
        ("twitter_card", "twitter:card"),
        ("twitter_site", "twitter:site"),
        ("og_site_name", "og:site_name"),
        ("article_opinion", "article:opinion"),
        ("article_content_tier", "article:content_tier"),
    ] {
        more.extend(said.meta(meta).map(|value| (name.to_owned(), json!(value))));
    }
    for (name, meta) in
        [("og_image_width", "og:image:width"), ("og_image_height", "og:image:height")]
    {
        let number = said.meta(meta).and_then(|value| value.parse::<i32>().ok());
        more.extend(number.map(|number| (name.to_owned(), json!(number))));
    }
    for (name, meta) in
        [("created_at", "article:published_time"), ("updated_at", "article:modified_time")]
    {
        more.extend(said.meta(meta).and_then(moment).map(|at| (name.to_owned(), at)));
    }
    more
}

/// The fields of a JSON-LD object, each in the one form that its mapping has.
fn json_ld(object: &Map<String, Value>, redact: &Redact) -> Value {
    let mut fields = Map::new();
    for (name, key) in [
        ("jsonld_headline", "headline"),
        ("jsonld_description", "description"),
        ("jsonld_article_section", "articleSection"),
        ("jsonld_author", "author"),
        ("jsonld_publisher_name", "publisher"),
        ("jsonld_url", "url"),
        ("jsonld_image_url", "image"),
        ("jsonld_schema_type", "@type"),
        ("jsonld_location", "contentLocation"),
    ] {
        let value = object.get(key).map(plain).filter(|text| !text.is_empty());
        let value = value.and_then(|text| match key {
            "author" => redact.name(text),
            "description" => redact.text(text),
            _ => Some(text),
        });
        fields.extend(value.map(|text| (name.to_owned(), Value::String(text))));
    }
    for (name, key) in [
        ("jsonld_date_published", "datePublished"),
        ("jsonld_date_created", "dateCreated"),
        ("jsonld_date_modified", "dateModified"),
    ] {
        let at = object.get(key).map(plain).and_then(|text| moment(&text));
        fields.extend(at.map(|at| (name.to_owned(), at)));
    }
    let words = object.get("wordCount").map(plain).and_then(|text| text.parse::<i32>().ok());
    fields.extend(words.map(|words| ("jsonld_word_count".to_owned(), json!(words))));
    let keywords = match object.get("keywords") {
        Some(Value::String(list)) => list.split(',').map(|word| word.trim().to_owned()).collect(),
        Some(Value::Array(items)) => items.iter().map(plain).collect(),
        _ => Vec::new(),
    };
    let keywords: Vec<String> = keywords.into_iter().filter(|word| !word.is_empty()).collect();
    if !keywords.is_empty() {
        fields.insert("jsonld_keywords".to_owned(), json!(keywords));
    }
    if !redact.is_off() {
        return Value::Object(fields);
    }
    // Sites write these as texts, objects or lists: one form for all.
    let mut raw = object.clone();
    for key in ["publisher", "author", "image", "mainEntityOfPage", "@context"] {
        if let Some(value) = raw.get_mut(key) {
            *value = Value::String(plain(value));
        }
    }
    fields.insert("jsonld_raw".to_owned(), Value::Object(raw));
    Value::Object(fields)
}

/// A value as one text: itself, its name or address, or those of its items.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Array(items) => {
            let items = items.iter().take(50).map(|item| match item {
                Value::Array(_) => String::new(),
                item => plain(item),
            });
            items.filter(|item| !item.is_empty()).collect::<Vec<_>>().join(", ")
        }
        Value::Object(object) => {
            let named = ["name", "url", "contentUrl", "@id"].iter().find_map(|key| {
                object.get(*key).and_then(Value::as_str).map(|text| text.trim().to_owned())
            });
            named.unwrap_or_default()
        }
        Value::Null | Value::Bool(_) => String::new(),
    }
}

/// A moment in the form that the mapping takes; nothing when it is none.
fn moment(text: &str) -> Option<Value> {
    date::parse(text).map(|at| json!(at))
}

/// Our own document.
pub(super) fn ours(item: &Item, row: &ArticleRow, text: &str) -> Value {
    let article = &row.article;
    let (sources, _) = Reference::gathered(&item.trail.told);
    let source = item.source.as_ref().map(|source| {
        json!({"id": source.uuid, "name": source.spec.name, "category": source.spec.category,
            "tags": source.spec.tags})
    });
    json!({
        "id": row.id, "url": article.url, "canonical_url": article.canonical_url,
        "title": article.title, "text": text, "abstract": article.abstract_,
        "authors": article.authors, "published": article.published, "updated": article.updated,
        "first_seen": row.first_seen, "last_seen": row.last_seen, "language": article.language,
        "site_name": article.site_name, "section": article.section, "tags": article.tags,
        "lead_image": article.lead_image, "word_count": article.word_count,
        "confidence": article.confidence, "method": article.method, "revision": row.revision,
        "content_hash": feedmill_formats::url::UrlHash::from_bytes(row.content_hash),
        "duplicate_of": row.duplicate_of, "cluster": row.near.as_ref().map(|near| near.cluster),
        "rights": article.rights, "source": source, "sources": sources,
        "categories": item.categories(), "seq": item.event.seq,
    })
}
