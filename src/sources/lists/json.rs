//! Lists in JSON: arrays of addresses or objects, by themselves, under a name, or one for each category.
//!
//! The text is cut into the elements of its outermost arrays, each with its line and the names that lead
//! to it; then each is read alone.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::{Entry, ListError, Row, as_feed, entry, excerpt, is_known, oversized};
use crate::sources::fields;

/// Names of arrays that say what is in them, and no category.
const WRAPPERS: &[&str] =
    &["seeds", "sources", "feeds", "urls", "items", "data", "results", "subscriptions"];
/// Objects inside each other that are looked into for arrays.
const DEEP: usize = 4;

/// An element of an array.
struct Element {
    /// The names that lead to its array.
    path: Vec<String>,
    range: Range<usize>,
}

pub(super) fn read(text: &str, notes: &mut Vec<String>) -> Result<Vec<Row>, ListError> {
    let text = text.trim_start_matches('\u{feff}');
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| ListError::Json(error.to_string()))?;
    let mut cutter = Cutter { text, at: 0, found: Vec::new() };
    cutter.walk(&mut Vec::new());
    let mut found = cutter.found;
    let wrapped = |element: &Element| {
        element.path.first().is_some_and(|name| WRAPPERS.contains(&name.to_lowercase().as_str()))
    };
    if found.iter().any(wrapped) {
        found.retain(wrapped);
    }
    if found.is_empty() {
        let alone = serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
        if !alone.keys().any(|name| is_address(name)) {
            return Err(if text.trim() == "[]" { ListError::Empty } else { ListError::NoArray });
        }
        found.push(Element { path: Vec::new(), range: 0..text.len() });
    }
    let (mut line, mut counted) = (1, 0);
    let mut strange = BTreeSet::new();
    let mut rows = Vec::with_capacity(found.len());
    for element in found {
        let passed = text.get(counted..element.range.start).unwrap_or_default();
        line += passed.bytes().filter(|byte| *byte == b'\n').count() as u64;
        counted = element.range.start;
        rows.push(Row { line, entry: row(text, &element, &mut strange) });
    }
    notes.extend(strange.iter().map(|name| format!("the field `{name}` means nothing here")));
    Ok(rows)
}

fn is_address(name: &str) -> bool {
    matches!(fields::canonical(name).as_str(), "url" | "feed_urls" | "sitemap_urls")
}

fn row(text: &str, element: &Element, strange: &mut BTreeSet<String>) -> Result<Entry, String> {
    if let Some(refusal) = oversized(element.range.len()) {
        return Err(refusal);
    }
    let value = text.get(element.range.clone()).unwrap_or_default();
    let value = serde_json::from_str(value).map_err(|error| error.to_string())?;
    let last = element.path.last().filter(|name| !WRAPPERS.contains(&name.to_lowercase().as_str()));
    let mut entry = match value {
        Value::String(address) => {
            Entry { said: vec![("url".to_owned(), json!(bare(&address)))], disabled: None }
        }
        Value::Object(mut fields) => {
            take_id(&mut fields);
            strange.extend(fields.keys().filter(|name| !is_known(name)).map(|name| excerpt(name)));
            entry(fields.into_iter().collect())?
        }
        other => {
            return Err(format!(
                "`{}` is neither an address nor an object",
                excerpt(&other.to_string())
            ));
        }
    };
    if let Some(category) = last {
        // What stands under a category is a feed.
        as_feed(&mut entry.said);
        if !entry.said.iter().any(|(name, _)| fields::canonical(name) == "category") {
            entry.said.push(("category".to_owned(), json!(category)));
        }
    }
    Ok(entry)
}

/// Where an object names no address, its id may be one.
fn take_id(fields: &mut Map<String, Value>) {
    if fields.keys().any(|name| is_address(name)) {
        return;
    }
    let id = ["id", "guid"].into_iter().find_map(|name| fields.get(name)?.as_str());
    if let Some(address) = id.map(bare).filter(|id| id.contains("://")) {
        let address = json!(address);
        fields.insert("url".to_owned(), address);
    }
}

/// An address without the mark that some ids have.
fn bare(id: &str) -> &str {
    let id = id.trim();
    id.strip_prefix("url:").unwrap_or(id)
}

/// Walks over JSON that is known to be sound.
struct Cutter<'a> {
    text: &'a str,
    at: usize,
    found: Vec<Element>,
}

impl Cutter<'_> {
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.at += blanks;
        rest.get(blanks).copied()
    }

    fn walk(&mut self, path: &mut Vec<String>) {
        match self.peek() {
            Some(b'[') => self.elements(path),
            Some(b'{') if path.len() < DEEP => self.members(path),
            _ => self.pass(),
        }
    }

    fn elements(&mut self, path: &[String]) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            match byte {
                b']' => break,
                b',' => self.at += 1,
                _ => {
                    let start = self.at;
                    self.pass();
                    self.found.push(Element { path: path.to_vec(), range: start..self.at });
                }
            }
        }
        self.at += 1;
    }

    fn members(&mut self, path: &mut Vec<String>) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            match byte {
                b'}' => break,
                b',' => self.at += 1,
                _ => {
                    let start = self.at;
                    self.pass();
                    let name = self.text.get(start..self.at).unwrap_or_default();
                    path.push(serde_json::from_str(name).unwrap_or_default());
                    // The colon.
                    self.peek();
                    self.at += 1;
                    self.walk(path);
                    path.pop();
                }
            }
        }
        self.at += 1;
    }

    /// Passes over one value.
    fn pass(&mut self) {
        self.peek();
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        for (at, byte) in rest.iter().enumerate() {
            if in_string {
                in_string = escaped || *byte != b'"';
                escaped = !escaped && *byte == b'\\';
                if !in_string && depth == 0 {
                    self.at += at + 1;
                    return;
                }
                continue;
            }
            match byte {
                b'"' => in_string = true,
                b'[' | b'{' => depth += 1,
                b']' | b'}' if depth > 1 => depth -= 1,
                b']' | b'}' if depth == 1 => {
                    self.at += at + 1;
                    return;
                }
                b',' | b':' | b']' | b'}' if depth == 0 => {
                    self.at += at;
                    return;
                }
                _ => {}
            }
        }
        self.at = self.text.len();
    }
}
