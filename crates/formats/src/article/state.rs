//! Texts that a page holds but does not show: declared bodies, and the state of pages that scripts
//! build.
//!
//! They are believed only when they contain what the page shows of the article and have much more
//! of it.

use serde_json::Value;

use super::clean;
use super::form::{Prints, prints, shingles};
use crate::json::Budget;

/// A hidden text needs so many runs of four words to be an article.
const ENOUGH: usize = 120;
/// With fewer, the shown text cannot be recognised in another.
const RECOGNISABLE: usize = 12;
/// The most texts of a page's state that are compared.
const MAX_TEXTS: usize = 8;
/// The bytes of memory that the tree of one state may take.
const MAX_TREE: usize = 16 << 20;

const HOLDERS: &str = "\
    body content articlebody article story bodyhtml body_html html text richtext paragraphs \
    components blocks elements contents fulltext maincontent";
const TEXTS: &str = "value text html content body bodyhtml body_html plaintext paragraph children";
const PARAGRAPHS: &str = "paragraph p heading h2 h3 list-item listitem li";

fn is_in(word: &str, list: &str) -> bool {
    list.split_ascii_whitespace().any(|known| word.eq_ignore_ascii_case(known))
}

/// The bodies in a page's state, the longest first.
pub(super) fn bodies(json: &str) -> Vec<Vec<String>> {
    let Some(state) = Budget::new(MAX_TREE).tree(json) else { return Vec::new() };
    let mut found = Vec::new();
    walk(&state, "", &mut found);
    found.into_iter().map(|(_, paragraphs)| paragraphs).collect()
}

/// Keeps the longest bodies, the longest first. Each may hold all of the one before.
fn keep_longest(found: &mut Vec<(usize, Vec<String>)>) {
    found.sort_by_key(|(prose, _)| std::cmp::Reverse(*prose));
    found.truncate(MAX_TEXTS);
}

/// Collects what looks like a body; JSON is nested 128 levels deep at most.
fn walk(value: &Value, key: &str, found: &mut Vec<(usize, Vec<String>)>) {
    if is_in(key, HOLDERS) && !matches!(value, Value::String(text) if text.len() < 400) {
        let all = paragraphs(value, key);
        let prose = all.iter().filter(|text| text.len() > 60 && ends_sentence(text));
        let (number, length) = prose.fold((0, 0), |(n, sum), text| (n + 1, sum + text.len()));
        if number >= 3 {
            let kept = all.iter().map(|text| text.trim()).filter(|text| text.len() > 25);
            found.push((length, kept.map(str::to_owned).collect()));
            keep_longest(found);
        }
        if length > 0 && !value.is_object() {
            return;
        }
    }
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| walk(value, key, found)),
        Value::Array(items) => items.iter().take(300).for_each(|item| walk(item, "", found)),
        _ => {}
    }
}

/// The paragraphs that a value holds.
fn paragraphs(value: &Value, key: &str) -> Vec<String> {
    match value {
        Value::String(text) => {
            let is_text = is_in(key, TEXTS) && text.trim().contains(' ')
                || matches!(key, "value" | "text") && !text.trim().is_empty();
            if !is_text || text.starts_with("http") || text.starts_with('{') {
                Vec::new()
            } else if text.contains('<') {
                clean::plain_lines(text)
            } else {
                vec![text.clone()]
            }
        }
        Value::Array(items) => items.iter().flat_map(|item| paragraphs(item, key)).collect(),
        Value::Object(fields) => {
            let inner: Vec<String> =
                fields.iter().flat_map(|(key, value)| paragraphs(value, key)).collect();
            let kind =
                ["type", "nodeType", "tag"].iter().find_map(|name| fields.get(*name)?.as_str());
            if kind.is_some_and(|kind| is_in(kind, PARAGRAPHS)) && !inner.is_empty() {
                vec![inner.concat()]
            } else {
                inner
            }
        }
        _ => Vec::new(),
    }
}

fn ends_sentence(text: &str) -> bool {
    let text = text.trim_end().trim_end_matches(['"', '”', '’', ')']);
    text.ends_with(['.', '!', '?', '。', '…'])
}

/// The shortest of the hidden texts that hold much more of the article than is shown.
pub(super) fn rescue(
    shown: &str,
    description: &str,
    hidden: impl Iterator<Item = Vec<String>>,
) -> Option<Vec<String>> {
    let own: Prints = shingles(&prints(shown), 4).collect();
    let known = if own.len() < RECOGNISABLE {
        shingles(&prints(description), 4).collect()
    } else {
        own.clone()
    };
    if known.len() < 5 {
        return None;
    }
    let much_more = |text: &Vec<String>| {
        let all: Prints = shingles(&prints(&text.join("\n")), 4).collect();
        let shared = known.iter().filter(|print| all.contains(print)).count();
        (all.len() >= ENOUGH && all.len() > 2 * own.len() && shared * 2 >= known.len())
            .then_some(all.len())
    };
    let fitting = hidden.filter_map(|text| Some((much_more(&text)?, text)));
    fitting.min_by_key(|(length, _)| *length).map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(from: usize, to: usize) -> Vec<String> {
        let sentence =
            |n| format!("Sentence number {n} of the story tells of the {n} ships that came in.");
        (from..to).map(sentence).collect()
    }

    #[test]
    fn the_body_in_a_state_is_found() {
        let nodes: Vec<Value> = sentences(0, 5)
            .iter()
            .map(|text| serde_json::json!({ "type": "paragraph", "children": [{ "text": text }] }))
            .collect();
        let state = serde_json::json!({ "props": { "article": { "title": "x", "body": nodes } } });
        let found = bodies(&state.to_string());
        assert!(found.contains(&sentences(0, 5)), "{found:?}");
        assert!(bodies("not json").is_empty());
    }

    #[test]
    fn of_bodies_in_each_other_the_longest_are_kept() {
        let text = serde_json::json!({ "text": sentences(0, 50) }).to_string();
        let state = format!("{}{text}{}", "{\"body\":".repeat(60), "}".repeat(60));
        let found = bodies(&state);
        assert_eq!(found.len(), MAX_TEXTS);
        assert!(found.iter().all(|body| *body == sentences(0, 50)));
    }

    #[test]
    fn only_more_of_the_same_is_believed() {
        let shown = sentences(0, 2).join(" ");
        let rescued = |hidden: Vec<String>| rescue(&shown, "", std::iter::once(hidden)).is_some();
        assert!(rescued(sentences(0, 20)));
        assert!(!rescued(sentences(0, 3)), "too little");
        let other = sentences(0, 20).join(" ").replace("ships", "cars").replace("story", "tale");
        assert!(!rescued(vec![other]), "another text");
    }
}
