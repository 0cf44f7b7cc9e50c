//! The mappings of indexes: strict, so that a slip is found when it is made.

use serde_json::{Map, Value, json};

fn of(kinds: &[(&str, &str)]) -> Map<String, Value> {
    let field = |kind: &str| match kind {
        "date" => json!({"type": "date", "format": "strict_date_optional_time||epoch_millis"}),
        "text" => json!({"type": "text", "analyzer": "standard"}),
        "stored" => json!({"type": "text", "index": false}),
        "unmapped" => json!({"type": "object", "enabled": false}),
        "both" => json!({"type": "text", "fields": {"keyword": {"type": "keyword"}}}),
        kind => json!({"type": kind}),
    };
    kinds.iter().map(|(name, kind)| ((*name).to_owned(), field(kind))).collect()
}

fn strict(properties: Map<String, Value>) -> Value {
    let strict = ("dynamic".to_owned(), Value::String("strict".to_owned()));
    let properties = ("properties".to_owned(), Value::Object(properties));
    Value::Object([strict, properties].into_iter().collect())
}

/// north-cloud's documents (ORIGINS 1.1).
pub(super) fn raw_content() -> Value {
    let mut fields = of(&[
        ("id", "keyword"),
        ("url", "keyword"),
        ("source_name", "keyword"),
        ("title", "text"),
        ("raw_text", "text"),
        ("raw_html", "stored"),
        ("meta_description", "text"),
        ("meta_keywords", "keyword"),
        ("og_type", "keyword"),
        ("og_title", "text"),
        ("og_description", "text"),
        ("og_image", "keyword"),
        ("og_url", "keyword"),
        ("author", "text"),
        ("published_date", "date"),
        ("canonical_url", "keyword"),
        ("article_section", "keyword"),
        ("classification_status", "keyword"),
        ("classified_at", "date"),
        ("crawled_at", "date"),
        ("word_count", "integer"),
    ]);
    let json_ld = of(&[
        ("jsonld_headline", "text"),
        ("jsonld_description", "text"),
        ("jsonld_article_section", "keyword"),
        ("jsonld_author", "text"),
        ("jsonld_publisher_name", "text"),
        ("jsonld_url", "keyword"),
        ("jsonld_image_url", "keyword"),
        ("jsonld_date_published", "date"),
        ("jsonld_date_created", "date"),
        ("jsonld_date_modified", "date"),
        ("jsonld_word_count", "integer"),
        ("jsonld_keywords", "keyword"),
        ("jsonld_schema_type", "keyword"),
        ("jsonld_location", "text"),
        ("jsonld_raw", "unmapped"),
    ]);
    let meta = of(&[
        ("twitter_card", "keyword"),
        ("twitter_site", "keyword"),
        ("og_image_width", "integer"),
        ("og_image_height", "integer"),
        ("og_site_name", "keyword"),
        ("created_at", "date"),
        ("updated_at", "date"),
        ("article_opinion", "keyword"),
        ("article_content_tier", "keyword"),
        ("detected_content_type", "both"),
        ("page_type", "both"),
        ("indigenous_region", "both"),
    ]);
    fields.insert("json_ld_data".to_owned(), strict(json_ld));
    fields.insert("meta".to_owned(), strict(meta));
    strict(fields)
}

/// Our own documents.
pub(super) fn articles() -> Value {
    let mut fields = of(&[
        ("id", "keyword"),
        ("url", "keyword"),
        ("canonical_url", "keyword"),
        ("title", "text"),
        ("text", "text"),
        ("abstract", "text"),
        ("authors", "both"),
        ("published", "date"),
        ("updated", "date"),
        ("first_seen", "date"),
        ("last_seen", "date"),
        ("language", "keyword"),
        ("site_name", "keyword"),
        ("section", "keyword"),
        ("tags", "keyword"),
        ("lead_image", "keyword"),
        ("word_count", "integer"),
        ("confidence", "float"),
        ("method", "keyword"),
        ("revision", "integer"),
        ("content_hash", "keyword"),
        ("duplicate_of", "keyword"),
        ("cluster", "keyword"),
        ("rights", "unmapped"),
        ("sources", "keyword"),
        ("categories", "keyword"),
        ("seq", "long"),
    ]);
    let source =
        of(&[("id", "keyword"), ("name", "keyword"), ("category", "keyword"), ("tags", "keyword")]);
    fields.insert("source".to_owned(), strict(source));
    strict(fields)
}
