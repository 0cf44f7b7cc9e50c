//! What can be said about a source, field by field: the names that flags, columns of a spreadsheet, keys
//! of JSON and the API of a source-manager share. Pure.
//!
//! A field is set from what was written, checked for its form, and cleared by nothing at all. Whether the
//! whole makes a source is not decided here.

use std::str::FromStr;
use std::time::Duration;

use feedmill_formats::article::{Selector, Selectors};
use serde_json::{Map, Value};

use super::SpecError;
use crate::config::Span;
use crate::model::{Access, NewSource, Source, Website};

/// The fields by the names that we write, and what each is.
pub const FIELDS: &[(&str, &str)] = &[
    ("name", "what to call it; the host when it has none"),
    ("url", "the publisher's home page"),
    ("feed_urls", "its feeds, with blanks between"),
    ("sitemap_urls", "its sitemaps, with blanks between"),
    ("category", "a label that its articles carry"),
    ("tags", "more labels, with ; between"),
    ("priority", "1 to 10, 10 is served first"),
    ("rate_limit", "the pause between two requests, such as 2s"),
    ("ingestion_mode", "feed, spider or both"),
    ("poll_interval", "a fixed time between polls, such as 30m"),
    ("min_interval", "at least so long between polls"),
    ("max_interval", "at most so long between polls"),
    ("poll_policy", "value, ewma or fixed"),
    ("refetch", "never, interval or on_lastmod_newer"),
    ("discover", "whether feeds that it does not name are looked for: yes or no"),
    ("website", "direct when the home page is the article, list when it lists them"),
    ("article_selector", "which elements of a list are, or hold, links to articles"),
    ("pagination_selector", "which element is, or holds, the link to the next page"),
    ("max_pages", "how many pages of a list are read"),
    ("article_url_patterns", "expressions that tell articles by their addresses"),
    (
        "max_depth",
        "how many links away from home the spider walks; 0 is home alone, -1 without end",
    ),
    ("selectors", "where the parts of its articles stand"),
    ("user_agent", "the User-Agent for its own site"),
    ("access", "how it is asked"),
];

/// The parts of an article that a selector can name, each also as a field `PART_selector`.
pub(super) const PARTS: &[&str] = &[
    "container",
    "title",
    "body",
    "intro",
    "author",
    "published_time",
    "section",
    "keywords",
    "image",
    "exclude",
];

/// What a source-manager says of every source: its own guesses, where ours know better.
const HOUSE_SELECTORS: &[&str] = &[
    "article",
    "h1",
    "article > div",
    "p.lead",
    ".byline",
    "time[datetime]",
    ".category",
    ".author",
    ".section",
];

/// Sets a field, or clears it when nothing is written. Fields go by any name that lists use for them.
pub fn set(spec: &mut NewSource, name: &str, value: &Value) -> Result<(), SpecError> {
    let key = canonical(name);
    let field = Field { name: &key, value };
    match key.as_str() {
        "name" => spec.name = field.text()?.unwrap_or_default(),
        "url" => spec.url = field.text()?.unwrap_or_default(),
        "feed_urls" => spec.feed_urls = field.addresses()?,
        "sitemap_urls" => spec.sitemap_urls = field.addresses()?,
        "category" => spec.category = field.text()?,
        "tags" => spec.tags = unique(field.list(&[';'])?),
        "priority" => {
            let wanted = "a whole number from 1 to 10";
            spec.priority = field.parse(wanted)?.unwrap_or(Source::DEFAULT_PRIORITY);
        }
        "rate_limit" => spec.rate_limit = field.span(1_000)?,
        "rate_limit_ms" => spec.rate_limit = field.span(1)?,
        "poll_interval" => spec.poll_interval = field.span(1_000)?,
        "poll_interval_ms" => spec.poll_interval = field.span(1)?,
        "feed_poll_interval_minutes" => {
            spec.poll_interval = field.span(60_000)?.filter(|span| !span.is_zero());
        }
        "min_interval" => spec.min_interval = field.span(1_000)?,
        "min_interval_ms" => spec.min_interval = field.span(1)?,
        "max_interval" => spec.max_interval = field.span(1_000)?,
        "max_interval_ms" => spec.max_interval = field.span(1)?,
        "poll_policy" => spec.poll_policy = field.parse("value, ewma or fixed")?,
        "refetch" => spec.refetch = field.parse("never, interval or on_lastmod_newer")?,
        "ingestion_mode" => {
            let fallback = NewSource::new("", "").ingestion_mode;
            spec.ingestion_mode = field.parse("feed, spider or both")?.unwrap_or(fallback);
        }
        "discover" => spec.discover = field.truth()?.unwrap_or(true),
        "article_url_patterns" => spec.article_url_patterns = unique(field.list(&[' ', '\n'])?),
        "max_depth" => {
            spec.max_depth = field.parse("a whole number, or -1 for without end")?;
        }
        "selectors" => selectors(&mut spec.selectors, field)?,
        "website" => website(spec, field)?,
        "article_selector" | "pagination_selector" | "max_pages" => list_part(spec, field)?,
        "user_agent" => spec.access.user_agent = field.text()?,
        "access" => spec.access = access(field)?,
        "managed" => spec.managed = field.object("by and id")?,
        _ => match part(&key) {
            Some(part) => set_part(&mut spec.selectors, part, field)?,
            None => return Err(SpecError::UnknownField(name.to_owned())),
        },
    }
    Ok(())
}

/// The name of a field in our spelling: case, blanks and strokes do not count, and some have more names.
#[must_use]
pub fn canonical(name: &str) -> String {
    let plain = name.trim().trim_start_matches('\u{feff}').to_lowercase();
    let plain: String =
        plain.chars().map(|c| if c == ' ' || c == '-' || c == '.' { '_' } else { c }).collect();
    let known = match plain.as_str() {
        "title" | "label" | "search_term" | "source" | "publisher" => "name",
        "home" | "home_url" | "homepage" | "home_page" | "html_url" | "htmlurl" | "site"
        | "site_url" | "link" => "url",
        "feed_url" | "feeds" | "feed" | "xml_url" | "xmlurl" | "rss" | "rss_url" => "feed_urls",
        "sitemap_url" | "sitemaps" | "sitemap" => "sitemap_urls",
        "tag" | "labels" => "tags",
        "polling_interval" | "interval" => "poll_interval",
        "policy" => "poll_policy",
        "mode" => "ingestion_mode",
        "patterns" | "article_url_pattern" => "article_url_patterns",
        "scraper_config" | "discovery_mode" => "website",
        _ => return plain,
    };
    known.to_owned()
}

/// The part of an article that `PART_selector` is about.
fn part(key: &str) -> Option<&'static str> {
    let named = match key.strip_suffix("_selector")? {
        "content" | "text" => "body",
        "date" | "published" => "published_time",
        "byline" => "author",
        other => other,
    };
    PARTS.iter().find(|part| **part == named).copied()
}

#[derive(Clone, Copy)]
struct Field<'a> {
    name: &'a str,
    value: &'a Value,
}

impl Field<'_> {
    fn wrong(&self, wanted: &str) -> SpecError {
        let mut given: String = match self.value {
            Value::String(text) => text.chars().take(60).collect(),
            other => other.to_string().chars().take(60).collect(),
        };
        given.retain(|c| !c.is_control());
        let (field, wanted) = (self.name.to_owned(), wanted.to_owned());
        SpecError::Field { field, given, wanted }
    }

    /// Plain text, numbers and truths as they are written; nothing when there is none.
    fn text(&self) -> Result<Option<String>, SpecError> {
        let text = match self.value {
            Value::Null => return Ok(None),
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Bool(truth) => truth.to_string(),
            Value::Array(_) | Value::Object(_) => return Err(self.wrong("plain text")),
        };
        Ok((!text.is_empty()).then_some(text))
    }

    fn parse<T: FromStr>(&self, wanted: &str) -> Result<Option<T>, SpecError> {
        let text = self.text()?.map(|text| text.to_ascii_lowercase());
        text.map(|text| text.parse().map_err(|_| self.wrong(wanted))).transpose()
    }

    /// A time span; a bare number counts so many milliseconds each.
    fn span(&self, unit: u64) -> Result<Option<Duration>, SpecError> {
        let Some(text) = self.text()? else { return Ok(None) };
        let wanted = "a time span such as 2s, 30m or 6h";
        let span = match text.parse::<u64>() {
            Ok(count) => Span::millis(count.saturating_mul(unit)),
            Err(_) => text.parse::<Span>().map_err(|_| self.wrong(wanted))?,
        };
        Ok(Some(span.duration()))
    }

    fn truth(&self) -> Result<Option<bool>, SpecError> {
        match self.text()?.map(|text| text.to_ascii_lowercase()).as_deref() {
            None => Ok(None),
            Some("true" | "yes" | "on" | "1") => Ok(Some(true)),
            Some("false" | "no" | "off" | "0") => Ok(Some(false)),
            Some(_) => Err(self.wrong("yes or no")),
        }
    }

    /// Several values: a list, or text with these between.
    fn list(&self, between: &[char]) -> Result<Vec<String>, SpecError> {
        let items: Vec<String> = match self.value {
            Value::Array(items) => {
                let texts = items.iter().map(|item| Field { name: self.name, value: item }.text());
                texts.filter_map(Result::transpose).collect::<Result<_, _>>()?
            }
            _ => {
                let text = self.text()?.unwrap_or_default();
                text.split(between).map(|item| item.trim().to_owned()).collect()
            }
        };
        Ok(items.into_iter().filter(|item| !item.is_empty()).collect())
    }

    /// Several addresses; a `;` only stands between two when the second one begins like one.
    fn addresses(&self) -> Result<Vec<String>, SpecError> {
        if let Value::String(text) = self.value {
            let spaced = text.replace(";http", " http");
            let items = spaced.split_whitespace().map(|item| item.trim_end_matches(';').to_owned());
            return Ok(unique(items.filter(|item| !item.is_empty()).collect()));
        }
        Ok(unique(self.list(&[' '])?))
    }

    fn object<T: serde::de::DeserializeOwned + Default>(
        &self,
        wanted: &str,
    ) -> Result<T, SpecError> {
        match self.value {
            Value::Null => Ok(T::default()),
            Value::String(text) if text.trim().is_empty() => Ok(T::default()),
            // What is in it may be secret: it is not told.
            value => serde_json::from_value(value.clone()).map_err(|_| SpecError::Field {
                field: self.name.to_owned(),
                given: "…".to_owned(),
                wanted: format!("an object with {wanted}"),
            }),
        }
    }
}

fn unique(items: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(items.len());
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

/// What a source is given to be let in. A misspelt part must not look as if it were in force.
fn access(field: Field<'_>) -> Result<Access, SpecError> {
    let access = field.object("headers and credentials")?;
    let Ok(Value::Object(known)) = serde_json::to_value(&access) else { return Ok(access) };
    let mut given = field.value.as_object().into_iter().flat_map(Map::keys);
    match given.find(|name| !known.contains_key(*name)) {
        Some(name) => Err(SpecError::UnknownField(format!("{}.{name}", field.name))),
        None => Ok(access),
    }
}

/// Selectors part by part, ours or a source-manager's, whose other parts are for itself.
fn selectors(to: &mut Selectors, field: Field<'_>) -> Result<(), SpecError> {
    let Value::Object(parts) = field.value else {
        let wanted = "an object with a selector for each part";
        return match field.text()? {
            None => {
                *to = Selectors::default();
                Ok(())
            }
            Some(_) => Err(field.wrong(wanted)),
        };
    };
    let manager = parts.get("article").and_then(Value::as_object);
    for (name, value) in manager.unwrap_or(parts) {
        let Some(part) = part(&format!("{name}_selector")) else {
            if manager.is_some() {
                continue;
            }
            return Err(SpecError::UnknownField(format!("{}.{name}", field.name)));
        };
        let guessed = |value: &Value| HOUSE_SELECTORS.iter().any(|guess| value == guess);
        // What a source-manager leaves out of every page, we leave out anyway.
        if manager.is_some() && (guessed(value) || part == "exclude") {
            continue;
        }
        set_part(to, part, Field { name: &format!("{}.{name}", field.name), value })?;
    }
    Ok(())
}

fn set_part(to: &mut Selectors, part: &str, field: Field<'_>) -> Result<(), SpecError> {
    let read = |text: String| {
        Selector::from_str(&text).map_err(|error| SpecError::Selector {
            field: field.name.to_owned(),
            error: error.to_string(),
        })
    };
    if part == "exclude" {
        to.exclude = field.list(&[';'])?.into_iter().map(read).collect::<Result<_, _>>()?;
        return Ok(());
    }
    let selector = field.text()?.map(read).transpose()?;
    let slot = match part {
        "container" => &mut to.container,
        "title" => &mut to.title,
        "body" => &mut to.body,
        "intro" => &mut to.intro,
        "author" => &mut to.author,
        "published_time" => &mut to.published_time,
        "section" => &mut to.section,
        "keywords" => &mut to.keywords,
        _ => &mut to.image,
    };
    *slot = selector;
    Ok(())
}

/// `direct`, `list`, or a whole `scraper_config`, in its own form or in ours.
fn website(spec: &mut NewSource, field: Field<'_>) -> Result<(), SpecError> {
    let wanted = "direct or list";
    let Value::Object(config) = field.value else {
        spec.website = match (field.text()?.as_deref(), spec.website.take()) {
            (None, _) => None,
            (Some("direct"), _) => Some(Website::Direct),
            (Some("list"), Some(list @ Website::List { .. })) => Some(list),
            (Some("list"), _) => Some(empty_list()),
            (Some(_), _) => return Err(field.wrong(wanted)),
        };
        return Ok(());
    };
    let inner = |name: &str| config.get(name).and_then(Value::as_object);
    let mut said: Map<String, Value> = config.clone();
    let (list, article) = (inner("list_config"), inner("article_config"));
    said.retain(|name, _| !matches!(name.as_str(), "list_config" | "article_config"));
    said.extend(list.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
    spec.website = None;
    for (name, value) in &said {
        match canonical(name).as_str() {
            "website" => website(spec, Field { name: "discovery_mode", value })?,
            key @ ("article_selector" | "pagination_selector" | "max_pages") => {
                list_part(spec, Field { name: key, value })?;
            }
            _ => return Err(SpecError::UnknownField(format!("{}.{name}", field.name))),
        }
    }
    for (name, value) in article.into_iter().flatten() {
        match part(name) {
            Some(part) => set_part(&mut spec.selectors, part, Field { name, value })?,
            // Dates are read in any format.
            None if name == "date_format" => {}
            None => return Err(SpecError::UnknownField(format!("{}.{name}", field.name))),
        }
    }
    Ok(())
}

const fn empty_list() -> Website {
    Website::List { article_selector: String::new(), pagination_selector: None, max_pages: 1 }
}

/// What is said of the list on the home page.
fn list_part(spec: &mut NewSource, field: Field<'_>) -> Result<(), SpecError> {
    let Some(text) = field.text()? else { return Ok(()) };
    if !matches!(spec.website, Some(Website::List { .. })) {
        spec.website = Some(empty_list());
    }
    let Some(Website::List { article_selector, pagination_selector, max_pages }) =
        &mut spec.website
    else {
        return Ok(());
    };
    match field.name {
        "article_selector" => *article_selector = text,
        "pagination_selector" => *pagination_selector = Some(text),
        _ => *max_pages = field.parse("a whole number of pages")?.unwrap_or(1),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{IngestionMode, PollPolicy};

    fn said(fields: &[(&str, Value)]) -> Result<NewSource, SpecError> {
        let mut spec = NewSource::new("", "");
        for (name, value) in fields {
            set(&mut spec, name, value)?;
        }
        Ok(spec)
    }

    #[test]
    fn a_spreadsheet_and_json_say_the_same() {
        let sheet = said(&[
            ("Name", json!(" Alder ")),
            ("URL", json!("https://a.example/")),
            ("Feed URL", json!("https://a.example/1;https://a.example/2 https://a.example/1;")),
            ("Rate Limit", json!("10")),
            ("Tags", json!("world news; sport;")),
            ("Priority", json!("7")),
            ("Polling Interval", json!("30m")),
            ("Ingestion Mode", json!("Both")),
            ("Title Selector", json!("h2.title")),
            ("Body Selector", json!(".text")),
            ("discover", json!("no")),
            ("article url patterns", json!("/news/ ^/blog")),
            ("max-depth", json!("-1")),
        ])
        .unwrap();
        let same = said(&[
            ("name", json!("Alder")),
            ("url", json!("https://a.example/")),
            ("feed_urls", json!(["https://a.example/1", "https://a.example/2"])),
            ("rate_limit_ms", json!(10_000)),
            ("tags", json!(["world news", "sport"])),
            ("priority", json!(7)),
            ("poll_interval_ms", json!(1_800_000)),
            ("ingestion_mode", json!("both")),
            ("selectors", json!({"title": "h2.title", "body": ".text"})),
            ("discover", json!(false)),
            ("article_url_patterns", json!(["/news/", "^/blog"])),
            ("max_depth", json!(-1)),
        ])
        .unwrap();
        assert_eq!(sheet, same);
        assert_eq!(sheet.rate_limit, Some(Duration::from_secs(10)));
        assert_eq!(sheet.ingestion_mode, IngestionMode::Both);
    }

    #[test]
    fn nothing_clears_a_field() {
        let mut spec = said(&[
            ("category", json!("x")),
            ("poll_policy", json!("ewma")),
            ("priority", json!(9)),
            ("website", json!("direct")),
            ("title_selector", json!("h1")),
            ("discover", json!("off")),
        ])
        .unwrap();
        assert_eq!((spec.poll_policy, spec.priority), (Some(PollPolicy::Ewma), 9));
        for name in ["category", "poll_policy", "priority", "website", "selectors", "discover"] {
            set(&mut spec, name, &json!("")).unwrap();
        }
        assert_eq!(spec, NewSource::new("", ""));
    }

    #[test]
    fn a_source_managers_source_reads() {
        let spec = said(&[
            ("rate_limit", json!("1m")),
            ("max_depth", Value::Null),
            ("feed_url", Value::Null),
            ("feed_poll_interval_minutes", json!(15)),
            (
                "selectors",
                json!({"article": {"title": ".headline", "body": "article > div", "og_type": "x", "exclude": [".ad"]},
                       "list": {"container": "main"}}),
            ),
        ])
        .unwrap();
        assert_eq!(spec.rate_limit, Some(Duration::from_mins(1)));
        assert_eq!((spec.max_depth, spec.feed_urls.len()), (None, 0));
        assert_eq!(spec.poll_interval, Some(Duration::from_mins(15)));
        assert_eq!(json!(spec.selectors), json!({"title": ".headline"}), "guesses are left out");
    }

    #[test]
    fn a_scraper_config_reads_in_its_own_form() {
        let spec = said(&[(
            "scraper_config",
            json!({
                "discovery_mode": "list",
                "list_config": {"article_selector": "a.story", "pagination_selector": "a.next", "max_pages": 3},
                "article_config": {"title_selector": "h1.t", "content_selector": ".c", "date_format": "2006-01-02"},
            }),
        )])
        .unwrap();
        let list = Website::List {
            article_selector: "a.story".into(),
            pagination_selector: Some("a.next".into()),
            max_pages: 3,
        };
        assert_eq!(spec.website, Some(list));
        assert_eq!(json!(spec.selectors), json!({"title": "h1.t", "body": ".c"}));
        let again = said(&[("website", json!(spec.website))]).unwrap();
        assert_eq!(again.website, spec.website, "what we write reads again");
        let columns = [("article_selector", json!("a")), ("website", json!("list"))];
        assert!(matches!(said(&columns).unwrap().website, Some(Website::List { .. })));
    }

    #[test]
    fn what_a_source_is_given_has_no_unknown_parts() {
        let Value::Object(known) = serde_json::to_value(Access::default()).unwrap() else {
            panic!()
        };
        assert!(said(&[("access", Value::Object(known))]).is_ok());
        let told = said(&[("access", json!({"resolve": "a.test=10.0.0.1"}))]).unwrap_err();
        assert_eq!(told.to_string(), "there is no field `access.resolve`");
    }

    #[test]
    fn what_is_wrong_is_told_with_the_field_and_what_it_takes() {
        for (name, value, words) in [
            ("priority", json!("high"), "`priority` is `high`: write a whole number from 1 to 10"),
            ("Rate Limit", json!("soon"), "`rate_limit` is `soon`: write a time span"),
            ("discover", json!("maybe"), "yes or no"),
            ("mode", json!("crawl"), "feed, spider or both"),
            ("max_depth", json!("deep"), "-1 for without end"),
            ("website", json!("spa"), "direct or list"),
            ("name", json!({"a": 1}), "plain text"),
            ("title_selector", json!("h1["), "`title_selector`"),
            ("cron", json!("* * *"), "there is no field `cron`"),
            ("access", json!({"cookie": {"hunter": 2}}), "an object with headers"),
        ] {
            let told = said(&[(name, value)]).unwrap_err().to_string();
            assert!(told.contains(words) && !told.contains("hunter"), "{told}");
        }
    }
}
