//! The bulk protocol: lines, parts of a request, and what its answer means. Pure.

use std::collections::HashSet;

use serde_json::{Value, json};

/// What is to happen to a document.
pub(super) enum Action {
    /// It is made, unless it is there.
    Create(Value),
    /// It becomes this, unless something later is there.
    Index(Value),
    /// These fields of it become this; it is made when it is not there.
    Update(Value),
    /// It goes.
    Delete,
}

/// The lines for one event.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) seq: i64,
    /// The document.
    pub(super) id: String,
    pub(super) text: Vec<u8>,
}

impl Line {
    pub(super) fn new(
        seq: i64,
        index: &str,
        id: &str,
        action: &Action,
    ) -> Result<Self, serde_json::Error> {
        let at = json!({"_index": index, "_id": id});
        let (head, body) = match action {
            Action::Create(document) => (json!({"create": at}), Some(document.clone())),
            Action::Index(document) => {
                let place = json!({"_index": index, "_id": id, "version": seq,
                    "version_type": "external_gte"});
                (json!({"index": place}), Some(document.clone()))
            }
            Action::Update(document) => {
                (json!({"update": at}), Some(json!({"doc": document, "doc_as_upsert": true})))
            }
            Action::Delete => (json!({"delete": at}), None),
        };
        let mut text = serde_json::to_vec(&head)?;
        text.push(b'\n');
        if let Some(body) = body {
            serde_json::to_writer(&mut text, &body)?;
            text.push(b'\n');
        }
        Ok(Self { seq, id: id.to_owned(), text })
    }
}

/// Parts that each fit into a request; a line that is larger alone is a part.
pub(super) fn parts(lines: &[Line], max_bytes: usize) -> Vec<&[Line]> {
    let mut parts = Vec::new();
    let (mut start, mut size) = (0, 0);
    for (at, line) in lines.iter().enumerate() {
        if size + line.text.len() > max_bytes && at > start {
            parts.extend(lines.get(start..at));
            (start, size) = (at, 0);
        }
        size += line.text.len();
    }
    parts.extend(lines.get(start..).filter(|rest| !rest.is_empty()));
    parts
}

/// The lines to send again, from those that have to be: what is about the same document and came
/// later goes again as well, so that the last word stays the last.
pub(super) fn again<'a>(lines: &'a [Line], places: &[usize]) -> Vec<&'a Line> {
    let mut ids = HashSet::new();
    let mut lines: Vec<(usize, &Line)> = lines.iter().enumerate().collect();
    lines.retain(|(at, line)| {
        let is_one = places.contains(at);
        if is_one {
            ids.insert(&line.id);
        }
        is_one || ids.contains(&line.id)
    });
    lines.into_iter().map(|(_, line)| line).collect()
}

/// What became of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is there, or was.
    Taken,
    /// The cluster is too busy for it.
    Again,
    /// It will never be taken as it is.
    Refused(String),
    /// No line would be taken.
    Away(String),
}

/// What an item of an answer says.
pub(super) fn verdict(item: &Value) -> Verdict {
    let Some((action, result)) = item.as_object().and_then(|item| item.iter().next()) else {
        return Verdict::Away("does not answer as a cluster does".to_owned());
    };
    let status = result.get("status").and_then(Value::as_u64).unwrap_or_default();
    match (status, action.as_str()) {
        (200..300, _) => Verdict::Taken,
        // It is there already, or something later is.
        (409, "create" | "index") => Verdict::Taken,
        (404, "delete") => Verdict::Taken,
        (409 | 429 | 500..600, _) => Verdict::Again,
        (401 | 403, _) => Verdict::Away(format!("answers {status}{}", reason(result))),
        _ => Verdict::Refused(format!("{status}{}", reason(result))),
    }
}

/// Why, as far as an answer says.
pub(super) fn reason(answer: &Value) -> String {
    let error = answer.get("error").unwrap_or(answer);
    let mut told = Vec::new();
    let mut cause = Some(error);
    while let Some(error) = cause.filter(|_| told.len() < 3) {
        let kind = error.get("type").and_then(Value::as_str).unwrap_or_default();
        let why = error.get("reason").and_then(Value::as_str).or_else(|| error.as_str());
        if let Some(why) = why {
            let why: String = why.chars().take(300).collect();
            told.push(if kind.is_empty() { why } else { format!("{kind}: {why}") });
        }
        cause = error.get("caused_by");
    }
    if told.is_empty() { String::new() } else { format!(": {}", told.join("; ")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(seq: i64, length: usize) -> Line {
        Line { seq, id: String::new(), text: vec![b'x'; length] }
    }

    proptest! {
        #[test]
        fn parts_hold_all_lines_in_order_and_fit(lengths in prop::collection::vec(1usize..50, 0..40), max in 1usize..120) {
            let lines: Vec<Line> = (0i64..).zip(&lengths).map(|(seq, length)| line(seq, *length)).collect();
            let parts = parts(&lines, max);
            let all: Vec<i64> = parts.iter().flat_map(|part| part.iter().map(|line| line.seq)).collect();
            prop_assert_eq!(all, (0..lines.len() as i64).collect::<Vec<_>>());
            for part in parts {
                let size: usize = part.iter().map(|line| line.text.len()).sum();
                prop_assert!(!part.is_empty() && (size <= max || part.len() == 1));
            }
        }
    }

    #[test]
    fn what_came_later_goes_again_with_what_came_before() {
        let ids = ["a", "b", "a", "c", "b"];
        let line = |(seq, id): (i64, &&str)| Line { id: (*id).to_owned(), ..line(seq, 1) };
        let lines: Vec<Line> = (0..).zip(&ids).map(line).collect();
        let seqs =
            |places: &[usize]| again(&lines, places).iter().map(|it| it.seq).collect::<Vec<_>>();
        assert_eq!(seqs(&[0]), [0, 2]);
        assert_eq!(seqs(&[1, 3]), [1, 3, 4]);
        assert_eq!(seqs(&[2]), [2]);
        assert_eq!(seqs(&[]), [] as [i64; 0]);
    }

    #[test]
    fn answers_are_told_apart() {
        let item = |action: &str, status: u64| {
            let error = json!({"type": "t", "reason": "r", "caused_by": {"reason": "c"}});
            json!({action: {"status": status, "error": error}})
        };
        for (action, status, expected) in [
            ("create", 201, Verdict::Taken),
            ("create", 409, Verdict::Taken),
            ("index", 409, Verdict::Taken),
            ("update", 409, Verdict::Again),
            ("delete", 404, Verdict::Taken),
            ("create", 429, Verdict::Again),
            ("create", 503, Verdict::Again),
            ("create", 400, Verdict::Refused("400: t: r; c".into())),
            ("update", 404, Verdict::Refused("404: t: r; c".into())),
            ("create", 403, Verdict::Away("answers 403: t: r; c".into())),
        ] {
            assert_eq!(verdict(&item(action, status)), expected, "{action} {status}");
        }
        assert!(matches!(verdict(&json!(7)), Verdict::Away(_)));
    }
}
