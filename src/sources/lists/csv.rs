//! Tables: the first line names the columns, each further row says fields of a source.
//!
//! Values may be quoted, and then hold separators, line ends and doubled quotation marks.

use feedmill_formats::csv::restored;
use serde_json::{Value, json};

use super::{
    ACCESS_IGNORED, ListError, MAX_NOTES, MAX_ROW, Row, entry, excerpt, head, is_known, oversized,
};
use crate::sources::fields;

/// What may stand between two values.
const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// Whether a line names columns: one for an address, or several for something else, which is a table that
/// lacks what it needs.
pub(super) fn is_header(line: &str) -> bool {
    let lacking =
        |separator| columns(line, separator).iter().filter(|name| is_known(name)).count() > 1;
    separator(line).is_some() || SEPARATORS.into_iter().any(lacking)
}

/// The separator with which a line names the most columns, one of them for an address.
fn separator(line: &str) -> Option<char> {
    let known = |separator: char| {
        let names: Vec<String> = columns(line, separator);
        let addressed = |name: &String| {
            matches!(fields::canonical(name).as_str(), "url" | "feed_urls" | "sitemap_urls")
        };
        let known = names.iter().filter(|name| is_known(name)).count();
        names.iter().any(addressed).then_some(known)
    };
    let best = SEPARATORS.into_iter().filter_map(|separator| Some((known(separator)?, separator)));
    // Of equals the first one: a header of one column has none.
    best.rev().max_by_key(|(known, _)| *known).map(|(_, separator)| separator)
}

fn columns(line: &str, separator: char) -> Vec<String> {
    let clean = |name: &str| name.trim().trim_matches('"').trim().to_owned();
    line.split(separator).map(clean).collect()
}

/// A table behind its header.
struct Table<'a> {
    names: Vec<String>,
    records: Records<'a>,
}

impl<'a> Table<'a> {
    fn open(text: &'a str) -> Result<Self, ListError> {
        let text = text.trim_start_matches('\u{feff}');
        let blank = |line: &&str| line.trim().is_empty() || line.starts_with('#');
        let skipped = text.split_inclusive('\n').take_while(blank);
        let (above, before) = skipped.fold((0, 0), |(n, len), line| (n + 1, len + line.len()));
        let body = text.get(before..).unwrap_or_default();
        let header = head(body.lines().next().unwrap_or_default());
        let separator = separator(header).ok_or_else(|| ListError::NoColumn(excerpt(header)))?;
        let mut records = Records { text: body, separator, at: 0, line: above + 1 };
        let Some((_, _, names)) = records.next()? else { return Err(ListError::Empty) };
        let names = names.into_iter().map(|name| name.trim().to_owned()).collect();
        Ok(Self { names, records })
    }

    /// The line, the length and the values of the next row that says something.
    fn next(&mut self) -> Result<Option<(u64, usize, Vec<String>)>, ListError> {
        while let Some((line, bytes, values)) = self.records.next()? {
            let is_empty = values.iter().all(|value| value.trim().is_empty());
            if !is_empty || oversized(bytes).is_some() {
                return Ok(Some((line, bytes, values)));
            }
        }
        Ok(None)
    }
}

/// Checks the whole table, and counts the rows below its header.
pub(super) fn count(text: &str) -> Result<usize, ListError> {
    let mut table = Table::open(text)?;
    let mut rows = 0;
    while table.next()?.is_some() {
        rows += 1;
    }
    Ok(rows)
}

/// Calls `each` with every row below the header.
pub(super) fn read(
    text: &str,
    notes: &mut Vec<String>,
    each: &mut dyn FnMut(Row) -> bool,
) -> Result<(), ListError> {
    let mut table = Table::open(text)?;
    let strange = table.names.iter().filter(|name| !name.is_empty() && !is_known(name));
    let strange = strange.take(MAX_NOTES);
    notes.extend(strange.map(|name| format!("the column `{}` means nothing here", excerpt(name))));
    let is_access = |name: &String| fields::canonical(name) == "access";
    notes.extend(table.names.iter().any(is_access).then(|| ACCESS_IGNORED.to_owned()));
    while let Some((line, bytes, values)) = table.next()? {
        if !each(Row { line, entry: row(&table.names, values, bytes) }) {
            break;
        }
    }
    Ok(())
}

fn row(names: &[String], values: Vec<String>, bytes: usize) -> Result<super::Entry, String> {
    if let Some(refusal) = oversized(bytes) {
        return Err(refusal);
    }
    let beyond = values.get(names.len()..).unwrap_or_default();
    if beyond.iter().any(|value| !value.trim().is_empty()) {
        let (values, names) = (values.len(), names.len());
        return Err(format!(
            "it has {values} values for {names} columns: quote a value that holds a separator"
        ));
    }
    let said = names.iter().cloned().zip(values).filter(|(name, _)| !name.is_empty());
    // An empty cell says nothing.
    let said = said.filter(|(_, value)| !value.trim().is_empty());
    // What was written as a text, so that spreadsheets take it for no formula, is what it was.
    let said: Vec<(String, Value)> =
        said.map(|(name, value)| (name, json!(restored(&value)))).collect();
    entry(said)
}

struct Records<'a> {
    text: &'a str,
    separator: char,
    at: usize,
    line: u64,
}

impl Records<'_> {
    /// The line that a record begins on, its length, and its values; of one that is longer than a row may
    /// be, only those at its start.
    fn next(&mut self) -> Result<Option<(u64, usize, Vec<String>)>, ListError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let (began, mut values, mut value) = (self.line, Vec::new(), String::new());
        // Where the open quotation mark stands, and whether the value was quoted.
        let (mut open, mut quoted) = (None, false);
        let mut chars = rest.char_indices().peekable();
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            let is_kept = at < MAX_ROW;
            match c {
                '"' if open.is_some() => {
                    if chars.next_if(|(_, next)| *next == '"').is_some() {
                        value.push('"');
                    } else {
                        open = None;
                    }
                }
                '"' if value.trim().is_empty() && !quoted => {
                    value.clear();
                    (open, quoted) = (Some(self.line), true);
                }
                '\n' if open.is_none() => {
                    self.line += 1;
                    end = at + 1;
                    break;
                }
                c if c == self.separator && open.is_none() && is_kept => {
                    values.push(std::mem::take(&mut value));
                    quoted = false;
                }
                c => {
                    self.line += u64::from(c == '\n');
                    if is_kept {
                        value.push(c);
                    }
                }
            }
        }
        if let Some(line) = open {
            return Err(ListError::Unclosed(line));
        }
        values.push(value.trim_end_matches('\r').to_owned());
        self.at += end;
        Ok(Some((began, end, values)))
    }
}
