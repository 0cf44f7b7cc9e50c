//! Lists in JSON: arrays of addresses or objects, by themselves, under a name, or one for each category.
//!
//! The text is cut into the elements of its outermost arrays, each with its line and the names that lead
//! to it, and each is read alone: no more than one of them is held as a tree.

use std::collections::BTreeSet;
use std::ops::Range;

use feedmill_formats::json;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::{
    ACCESS_IGNORED, Entry, ListError, MAX_NOTES, MAX_ROW, ROW_LIMITS, Row, as_feed, entry, excerpt,
    is_known, oversized, sets_access,
};
use crate::sources::fields;

/// Names of arrays that say what is in them, and no category.
const WRAPPERS: &[&str] =
    &["seeds", "sources", "feeds", "urls", "items", "data", "results", "subscriptions"];
/// Objects inside each other that are looked into for arrays.
const DEEP: usize = 4;

/// Checks the whole text, and counts the rows in it.
pub(super) fn count(text: &str) -> Result<usize, ListError> {
    let text = text.trim_start_matches('\u{feff}');
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| ListError::Json(error.to_string()))?;
    match Elements::of(text) {
        Elements { rows: 0, .. } if is_single(text) => Ok(1),
        Elements { rows: 0, .. } if text.trim() == "[]" => Err(ListError::Empty),
        Elements { rows: 0, .. } => Err(ListError::NoArray),
        Elements { rows, .. } => Ok(rows),
    }
}

/// Whether the whole text is one row: an object that names an address.
fn is_single(text: &str) -> bool {
    let object = text.len() <= MAX_ROW && json::check(text.as_bytes(), ROW_LIMITS).is_ok();
    let alone = match object {
        true => serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default(),
        false => Map::new(),
    };
    alone.keys().any(|name| is_address(name))
}

/// Which elements of the text's outermost arrays are rows, and how many.
struct Elements {
    /// Only those under a name that says what is in it.
    only_wrapped: bool,
    rows: usize,
}

impl Elements {
    fn of(text: &str) -> Self {
        let (mut all, mut wrapped) = (0, 0);
        Cutter::cut(text, &mut |path, _| {
            all += 1;
            wrapped += usize::from(is_wrapped(path));
            true
        });
        Self { only_wrapped: wrapped > 0, rows: if wrapped > 0 { wrapped } else { all } }
    }
}

fn is_wrapped(path: &[String]) -> bool {
    path.first().is_some_and(|name| WRAPPERS.contains(&name.to_lowercase().as_str()))
}

/// Calls `each` with every row of a text that was counted.
pub(super) fn read(
    text: &str,
    notes: &mut Vec<String>,
    each: &mut dyn FnMut(Row) -> bool,
) -> Result<(), ListError> {
    let text = text.trim_start_matches('\u{feff}');
    let elements = Elements::of(text);
    let (mut line, mut counted) = (1, 0);
    let mut strange = BTreeSet::new();
    let mut access = false;
    let mut found = |path: &[String], range: Range<usize>| {
        if elements.only_wrapped && !is_wrapped(path) {
            return true;
        }
        let passed = text.get(counted..range.start).unwrap_or_default();
        line += passed.bytes().filter(|byte| *byte == b'\n').count() as u64;
        counted = range.start;
        each(Row { line, entry: row(text, path, range, &mut strange, &mut access) })
    };
    match elements.rows {
        0 => drop(found(&[], 0..text.len())),
        _ => Cutter::cut(text, &mut found),
    }
    notes.extend(access.then(|| ACCESS_IGNORED.to_owned()));
    let more = strange.len() > MAX_NOTES;
    let named = strange.iter().take(MAX_NOTES);
    notes.extend(named.map(|name| format!("the field `{name}` means nothing here")));
    notes.extend(more.then(|| "other fields mean nothing here either".to_owned()));
    Ok(())
}

fn is_address(name: &str) -> bool {
    matches!(fields::canonical(name).as_str(), "url" | "feed_urls" | "sitemap_urls")
}

fn row(
    text: &str,
    path: &[String],
    range: Range<usize>,
    strange: &mut BTreeSet<String>,
    access: &mut bool,
) -> Result<Entry, String> {
    if let Some(refusal) = oversized(range.len()) {
        return Err(refusal);
    }
    let value = text.get(range).unwrap_or_default();
    json::check(value.as_bytes(), ROW_LIMITS).map_err(|error| error.to_string())?;
    let value = serde_json::from_str(value).map_err(|error| error.to_string())?;
    let last = path.last().filter(|name| !WRAPPERS.contains(&name.to_lowercase().as_str()));
    let mut entry = match value {
        Value::String(address) => {
            Entry { said: vec![("url".to_owned(), json!(bare(&address)))], disabled: None }
        }
        Value::Object(mut fields) => {
            take_id(&mut fields);
            *access |= fields.iter().any(|(name, value)| sets_access(name, value));
            let unknown = fields.keys().filter(|name| !is_known(name)).map(|name| excerpt(name));
            let room = (MAX_NOTES + 1).saturating_sub(strange.len());
            strange.extend(unknown.take(room));
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
struct Cutter<'t, 'f> {
    text: &'t str,
    at: usize,
    /// Called with the names that lead to an array and the place of each of its elements.
    found: &'f mut dyn FnMut(&[String], Range<usize>) -> bool,
    is_over: bool,
}

impl<'t, 'f> Cutter<'t, 'f> {
    /// Calls `found` with every element of the outermost arrays, until it says `false`.
    fn cut(text: &'t str, found: &'f mut dyn FnMut(&[String], Range<usize>) -> bool) {
        Cutter { text, at: 0, found, is_over: false }.walk(&mut Vec::new());
    }

    fn peek(&mut self) -> Option<u8> {
        if self.is_over {
            return None;
        }
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
                    self.is_over |= !(self.found)(path, start..self.at);
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
