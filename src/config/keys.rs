//! What can be set: every key with its documentation and type, taken from the schema of `Config`.
//!
//! The schema is the one list of truth; the loader, the reference and the messages all ask here.
//! A path is the key's dotted name; in a known path `*` stands for a name that the user chooses.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::Config;

/// A key that can be set.
pub(super) struct Key {
    pub(super) path: String,
    pub(super) doc: String,
    /// What a value must be, to end the sentence "must be …".
    pub(super) wanted: String,
    /// May be given as `<key>_file`, and is never printed.
    pub(super) secret: bool,
    /// The kinds of entry that have it; none for all.
    pub(super) kinds: Vec<String>,
    kind: Kind,
}

/// How a value written as plain text, in a variable or flag, is to be read.
enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    List,
    Integers,
}

/// A table that holds keys.
pub(super) struct Section {
    pub(super) path: String,
    pub(super) doc: String,
}

/// What a path stands for.
pub(super) enum Place {
    Section,
    /// A key, or `<key>_file` of a secret one.
    Key {
        key: &'static Key,
        is_file: bool,
    },
}

/// What entries of one kind have that others may not have.
pub(super) struct Variant {
    pub(super) kind: String,
    pub(super) doc: String,
    /// Names and documentation of its keys.
    pub(super) keys: Vec<(String, String)>,
}

/// All keys and sections.
pub(super) struct Keys {
    keys: Vec<Key>,
    sections: Vec<Section>,
    /// Kinds of entries that the user names.
    pub(super) variants: Vec<Variant>,
}

pub(super) static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<Config>();
    let mut keys = Keys { keys: Vec::new(), sections: Vec::new(), variants: Vec::new() };
    keys.add(String::new(), schema.as_value(), "", None);
    keys
});

impl Keys {
    /// Adds a key or section. A key of an entry that only some kinds have is of this `kind`.
    fn add(&mut self, path: String, schema: &Value, fallback: &str, kind: Option<&str>) {
        let doc = schema.get("description").and_then(Value::as_str).unwrap_or(fallback).to_owned();
        let tables: Vec<_> = list(schema, "oneOf")
            .iter()
            .chain([schema])
            .filter_map(|table| Some((text(table, "description"), properties(table)?)))
            .collect();
        if let Some(entry) = schema.get("additionalProperties").filter(|entry| entry.is_object()) {
            self.add(join(&path, "*"), entry, "", None);
        } else if tables.is_empty() {
            self.add_key(path, doc, schema, kind);
            return;
        }
        for (about, properties) in tables {
            let tag = properties.get("kind").and_then(|tag| tag.get("const"));
            let tag = tag.and_then(Value::as_str);
            self.variants.extend(tag.map(|tag| variant(tag, about, properties)));
            let kind = tag.or(kind);
            for (name, property) in properties {
                // A tag has no doc comment of its own: what it selects is its documentation.
                let fallback = if property.get("const").is_some() { about } else { "" };
                self.add(join(&path, name), property, fallback, kind);
            }
        }
        if self.section(&path).is_none() {
            self.sections.push(Section { path, doc });
        }
    }

    fn add_key(&mut self, path: String, doc: String, schema: &Value, kind: Option<&str>) {
        let kinds = kind.map(str::to_owned);
        if let Some(known) = self.keys.iter_mut().find(|key| key.path == path) {
            known.kinds.extend(kinds);
            return;
        }
        self.keys.push(Key {
            wanted: wanted(schema),
            secret: schema.get("writeOnly").is_some(),
            kinds: kinds.into_iter().collect(),
            kind: Kind::of(schema),
            path,
            doc,
        });
    }

    /// What this path stands for; `None` when it is unknown.
    pub(super) fn find(&'static self, path: &str) -> Option<Place> {
        if self.section(path).is_some() {
            return Some(Place::Section);
        }
        let key = |path: &str| self.keys.iter().find(|key| matches(&key.path, path));
        if let Some(key) = key(path) {
            return Some(Place::Key { key, is_file: false });
        }
        let key = path.strip_suffix("_file").and_then(key).filter(|key| key.secret)?;
        Some(Place::Key { key, is_file: true })
    }

    pub(super) fn section(&self, path: &str) -> Option<&Section> {
        self.sections.iter().find(|section| matches(&section.path, path))
    }

    /// The paths of all keys.
    #[cfg(test)]
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.path.as_str())
    }

    /// The known path that is most like this one, unless none is.
    pub(super) fn nearest(&self, path: &str) -> Option<String> {
        let known = self.keys.iter().map(|key| &key.path);
        let sections = self.sections.iter().map(|section| &section.path);
        known
            .chain(sections)
            .filter(|known| !known.is_empty() && !known.ends_with('*'))
            .map(|known| fill(known, path))
            .map(|known| (likeness(path, &known), known))
            .filter(|(likeness, _)| *likeness > 0.6)
            .max_by(|(a, _), (b, _)| a.total_cmp(b))
            .map(|(_, known)| known)
    }
}

impl Key {
    /// Reads a value from plain text. What does not fit stays text, for the type check to refuse.
    pub(super) fn read(&self, raw: &str) -> toml::Value {
        let trimmed = raw.trim();
        let typed = match self.kind {
            Kind::Text => None,
            Kind::Integer => trimmed.parse().ok().map(toml::Value::Integer),
            Kind::Number => trimmed.parse().ok().map(toml::Value::Float),
            Kind::Boolean => match trimmed.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Some(toml::Value::Boolean(true)),
                "false" | "no" | "off" | "0" => Some(toml::Value::Boolean(false)),
                _ => None,
            },
            Kind::List => {
                let items = trimmed.split(',').map(str::trim).filter(|item| !item.is_empty());
                Some(toml::Value::Array(items.map(toml::Value::from).collect()))
            }
            Kind::Integers => {
                let items = trimmed.split(',').map(str::trim).filter(|item| !item.is_empty());
                let numbers: Option<Vec<i64>> = items.map(|item| item.parse().ok()).collect();
                numbers.map(toml::Value::from)
            }
        };
        typed.unwrap_or_else(|| toml::Value::String(raw.to_owned()))
    }

    /// For a key below a name that the user chose, the part of the path up to that name: such an
    /// entry is read as a whole, because its `kind` decides about the rest.
    pub(super) fn unit<'a>(&self, path: &'a str) -> &'a str {
        let Some(star) = self.path.split('.').position(|segment| segment == "*") else {
            return path;
        };
        match path.match_indices('.').nth(star) {
            Some((end, _)) => path.split_at(end).0,
            None => path,
        }
    }
}

impl Kind {
    fn of(schema: &Value) -> Self {
        match text(schema, "type") {
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "array" => match schema.get("items").map(|items| text(items, "type")) {
                Some("integer") => Self::Integers,
                _ => Self::List,
            },
            _ => Self::Text,
        }
    }
}

fn variant(kind: &str, about: &str, properties: &Map<String, Value>) -> Variant {
    let keys = properties.iter().filter(|(name, _)| *name != "kind");
    let keys = keys.map(|(name, schema)| (name.clone(), text(schema, "description").to_owned()));
    Variant { kind: kind.to_owned(), doc: about.to_owned(), keys: keys.collect() }
}

/// A type says itself what it wants in its title; the plain types are named here.
fn wanted(schema: &Value) -> String {
    let title = text(schema, "title");
    if !title.is_empty() {
        return title.to_owned();
    }
    let constants = list(schema, "enum").iter().chain(schema.get("const"));
    let choices: Vec<String> = constants.map(Value::to_string).collect();
    if !choices.is_empty() {
        return choices.join(" or ");
    }
    match (Kind::of(schema), schema.get("items")) {
        (Kind::Integer, _) => "a whole number".to_owned(),
        (Kind::Number, _) => "a number".to_owned(),
        (Kind::Boolean, _) => "true or false".to_owned(),
        (Kind::Integers, _) => "a list of whole numbers".to_owned(),
        (Kind::List, Some(item)) => format!("a list of {}", wanted(item)),
        _ => "text in quotes".to_owned(),
    }
}

fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(schema: &'a Value, name: &str) -> &'a [Value] {
    schema.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The name of the environment variable for a path.
pub(super) fn variable(path: &str) -> String {
    format!("FEEDMILL_{}", path.replace('.', "__").to_ascii_uppercase())
}

fn matches(known: &str, path: &str) -> bool {
    let mut segments = path.split('.');
    known.split('.').all(|k| segments.next().is_some_and(|s| k == s || (k == "*" && !s.is_empty())))
        && segments.next().is_none()
}

/// A known path with the user's own names in it.
fn fill(known: &str, path: &str) -> String {
    let mut own = path.split('.');
    let filled = known.split('.').map(|segment| match (segment, own.next()) {
        ("*", name) => name.unwrap_or("NAME"),
        (segment, _) => segment,
    });
    filled.collect::<Vec<_>>().join(".")
}

/// Like the whole path, or like its last name in another section: `workers` means `fetch.workers`.
fn likeness(path: &str, known: &str) -> f64 {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let whole = strsim::normalized_damerau_levenshtein(path, known);
    whole.max(0.9 * strsim::normalized_damerau_levenshtein(&last(path), &last(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_found() {
        for (path, nearest) in [
            ("fetch.worker", Some("fetch.workers")),
            ("fetch.wrokers", Some("fetch.workers")),
            ("workers", Some("fetch.workers")),
            ("fetcher", Some("fetch")),
            ("schedul.jitter", Some("schedule.jitter")),
            ("retry.workers", Some("fetch.workers")),
            ("data-dir", Some("data_dir")),
            ("sinks.mine.dirs", Some("sinks.mine.dir")),
            ("database.uri", Some("database.url")),
            ("fetch.zzz", None),
            ("qqqqq", None),
        ] {
            assert_eq!(KEYS.nearest(path).as_deref(), nearest, "{path}");
        }
    }

    #[test]
    fn every_key_and_section_is_documented_and_typed() {
        for key in &KEYS.keys {
            assert!(!key.wanted.is_empty(), "{}", key.path);
            assert!(!key.doc.is_empty(), "{} has no doc comment", key.path);
        }
        for section in &KEYS.sections {
            assert!(!section.doc.is_empty(), "{} has no doc comment", section.path);
        }
        assert!(KEYS.keys.len() > 30);
    }

    #[test]
    fn paths_are_told_apart() {
        let found = |path| match KEYS.find(path) {
            Some(Place::Key { is_file: false, .. }) => "key",
            Some(Place::Key { is_file: true, .. }) => "file",
            Some(Place::Section) => "section",
            None => "unknown",
        };
        for (path, expected) in [
            ("data_dir", "key"),
            ("data_dir_file", "unknown"),
            ("database", "section"),
            ("database.url", "key"),
            ("database.url_file", "file"),
            ("sinks", "section"),
            ("sinks.mine", "section"),
            ("sinks.mine.kind", "key"),
            ("sinks.mine.dir", "key"),
            ("sinks.mine.dir.more", "unknown"),
            ("fetch.agent_file", "unknown"),
        ] {
            assert_eq!(found(path), expected, "{path}");
        }
    }

    #[test]
    fn plain_text_is_read_by_the_type_of_its_key() {
        let read = |path, raw| match KEYS.find(path) {
            Some(Place::Key { key, .. }) => key.read(raw).to_string(),
            _ => panic!("{path} is no key"),
        };
        for (path, raw, value) in [
            ("fetch.workers", " 20 ", "20"),
            ("fetch.workers", "many", "\"many\""),
            ("schedule.jitter", "0.1", "0.1"),
            ("schedule.jitter", "0", "0.0"),
            ("robots.apply_to_feeds", "Yes", "true"),
            ("robots.apply_to_feeds", "off", "false"),
            ("robots.apply_to_feeds", "maybe", "\"maybe\""),
            ("fetch.request_timeout", "20", "\"20\""),
            ("fetch.allow_networks", "10.0.0.0/8, 127.0.0.1,", "[\"10.0.0.0/8\", \"127.0.0.1\"]"),
            ("fetch.allow_networks", "", "[]"),
            ("fetch.allow_ports", "80, 443", "[80, 443]"),
            ("fetch.allow_ports", "http", "\"http\""),
        ] {
            assert_eq!(read(path, raw), value, "{path} {raw}");
        }
    }
}
