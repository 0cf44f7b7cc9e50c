//! Sources written down as a list. JSON is whole but for secrets; the others hold what their format can.

use feedmill_formats::csv::neutral;
use feedmill_formats::opml::{Opml, Subscription};
use serde_json::{Value, json};

use super::Format;
use crate::config::Span;
use crate::model::{Access, NewSource, Source, Website};
use crate::sources::fields::PARTS;

/// The columns of a table, in the order in which they are written; `PART_selector` follow, and then
/// `enabled` and `disable_reason`.
pub const COLUMNS: &[&str] = &[
    "name",
    "url",
    "feed_url",
    "sitemap_url",
    "category",
    "tags",
    "priority",
    "rate_limit",
    "ingestion_mode",
    "poll_interval",
    "min_interval",
    "max_interval",
    "poll_policy",
    "refetch",
    "discover",
    "website",
    "article_selector",
    "pagination_selector",
    "max_pages",
    "article_url_patterns",
    "max_depth",
    "user_agent",
];

/// The list of these sources. Cells of a table that a spreadsheet would take for formulas are written as
/// texts, unless `raw_cells` is set; reading the list again gives the same sources then.
#[must_use]
pub fn write(sources: &[Source], format: Format, raw_cells: bool) -> String {
    match format {
        Format::Opml => outlines(sources).write(),
        Format::Csv => table(sources, raw_cells),
        Format::Json => format!("{:#}\n", json!({ "sources": objects(sources) })),
        Format::Urls => {
            let lines = sources.iter().flat_map(|source| addresses(&source.spec));
            lines.map(|url| format!("{url}\n")).collect()
        }
    }
}

/// The channels of a source; its home page when it has none.
fn addresses(spec: &NewSource) -> Vec<&String> {
    let channels: Vec<_> = spec.feed_urls.iter().chain(&spec.sitemap_urls).collect();
    if channels.is_empty() { vec![&spec.url] } else { channels }
}

fn outlines(sources: &[Source]) -> Opml {
    let feeds = sources.iter().flat_map(|source| {
        let spec = &source.spec;
        let labels: Vec<String> = spec.category.iter().chain(&spec.tags).cloned().collect();
        spec.feed_urls.iter().map(move |feed_url| Subscription {
            title: Some(spec.name.clone()),
            feed_url: feed_url.clone(),
            home_url: Some(spec.url.clone()),
            categories: labels.clone(),
        })
    });
    Opml { title: Some("Feedmill".to_owned()), feeds: feeds.collect(), ..Opml::default() }
}

fn objects(sources: &[Source]) -> Vec<Value> {
    let object = |source: &Source| {
        let open = Access {
            user_agent: source.spec.access.user_agent.clone(),
            bind: source.spec.access.bind.clone(),
            ..Access::default()
        };
        let mut value = json!(NewSource { access: open, ..source.spec.clone() });
        if let Value::Object(fields) = &mut value {
            fields.retain(|_, value| !value.is_null());
            if !source.enabled() {
                fields.insert("enabled".to_owned(), json!(false));
                fields.insert("disable_reason".to_owned(), json!(source.disable_reason));
            }
        }
        value
    };
    sources.iter().map(object).collect()
}

fn table(sources: &[Source], raw_cells: bool) -> String {
    let parts = PARTS.iter().map(|part| format!("{part}_selector"));
    let names: Vec<String> = COLUMNS
        .iter()
        .map(|name| (*name).to_owned())
        .chain(parts)
        .chain(["enabled".to_owned(), "disable_reason".to_owned()])
        .collect();
    let mut out = names.join(",") + "\n";
    for source in sources {
        let shown = |name: &String| {
            let cell = cell(source, name);
            if raw_cells { quoted(&cell) } else { quoted(&neutral(&cell)) }
        };
        let cells: Vec<String> = names.iter().map(shown).collect();
        out.push_str(&cells.join(","));
        out.push('\n');
    }
    out
}

/// What a column says of a source; nothing where it says nothing.
fn cell(source: &Source, name: &str) -> String {
    let spec = &source.spec;
    let span = |span: std::time::Duration| {
        Span::millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)).to_string()
    };
    let list = match &spec.website {
        Some(Website::List { article_selector, pagination_selector, max_pages }) => {
            Some((article_selector, pagination_selector, max_pages))
        }
        Some(Website::Direct) | None => None,
    };
    let value = match name {
        "name" => Some(spec.name.clone()),
        "url" => Some(spec.url.clone()),
        "feed_url" => Some(spec.feed_urls.join(" ")),
        "sitemap_url" => Some(spec.sitemap_urls.join(" ")),
        "category" => spec.category.clone(),
        "tags" => Some(spec.tags.join(";")),
        "priority" => Some(spec.priority.to_string()),
        "rate_limit" => spec.rate_limit.map(span),
        "ingestion_mode" => Some(spec.ingestion_mode.to_string()),
        "poll_interval" => spec.poll_interval.map(span),
        "min_interval" => spec.min_interval.map(span),
        "max_interval" => spec.max_interval.map(span),
        "poll_policy" => spec.poll_policy.map(|policy| policy.to_string()),
        "refetch" => spec.refetch.map(|policy| policy.to_string()),
        "discover" => (!spec.discover).then(|| "no".to_owned()),
        "website" => {
            spec.website.as_ref().map(|_| if list.is_some() { "list" } else { "direct" }.into())
        }
        "article_selector" => list.map(|(article, ..)| article.clone()),
        "pagination_selector" => list.and_then(|(_, next, _)| next.clone()),
        "max_pages" => list.map(|(.., pages)| pages.to_string()),
        "article_url_patterns" => Some(spec.article_url_patterns.join(" ")),
        "max_depth" => spec.max_depth.map(|depth| depth.to_string()),
        "user_agent" => spec.access.user_agent.clone(),
        "enabled" => (!source.enabled()).then(|| "no".to_owned()),
        "disable_reason" => source.disable_reason.clone(),
        part => selector(spec, part),
    };
    value.unwrap_or_default()
}

fn selector(spec: &NewSource, column: &str) -> Option<String> {
    let selectors = json!(spec.selectors);
    match selectors.get(column.strip_suffix("_selector")?)? {
        Value::Array(items) => {
            let texts: Vec<_> = items.iter().filter_map(Value::as_str).collect();
            Some(texts.join(";"))
        }
        other => other.as_str().map(str::to_owned),
    }
}

fn quoted(value: &str) -> String {
    let plain = !value.contains(['"', ',', ';', '\t', '\n', '\r', '#']) && value.trim() == value;
    if plain { value.to_owned() } else { format!("\"{}\"", value.replace('"', "\"\"")) }
}
