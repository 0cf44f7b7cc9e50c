//! A strict stand-in for a search cluster: it keeps documents, enforces the bulk protocol and strict
//! mappings, and can be too busy, too small, or away.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use super::listener::{Answer, Asked, Listener};

/// What the cluster has, and how it behaves.
#[derive(Default)]
pub(super) struct State {
    /// Mappings by index pattern.
    pub(super) templates: BTreeMap<String, Value>,
    /// Documents by index and id, with their versions.
    pub(super) documents: BTreeMap<(String, String), (i64, Value)>,
    /// How often each document was written.
    pub(super) writes: BTreeMap<(String, String), u32>,
    /// So many items are turned away with 429.
    pub(super) busy: usize,
    /// So many requests are answered with 503.
    pub(super) down: usize,
    /// So many requests are cut after they were carried out.
    pub(super) cut: usize,
    /// Bytes of a request at the most; 0 for any.
    pub(super) limit: usize,
    /// Only the form of templates before 7.8 is known.
    pub(super) old: bool,
    pub(super) bulks: usize,
}

/// A cluster on a port of its own.
pub(super) struct Cluster {
    pub(super) listener: Listener,
    pub(super) state: Arc<Mutex<State>>,
}

impl Cluster {
    pub(super) async fn new() -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        let kept = Arc::clone(&state);
        let listener = Listener::new(move |asked| respond(asked, &mut kept.lock().unwrap())).await;
        Self { listener, state }
    }

    pub(super) fn documents(&self, index: &str) -> Vec<Value> {
        let state = self.state.lock().unwrap();
        let of_index = state.documents.iter().filter(|((known, _), _)| known == index);
        of_index.map(|(_, (_, document))| document.clone()).collect()
    }
}

fn said(status: u16, body: &Value) -> Answer {
    Answer::With(status, "content-type: application/json\r\n", body.to_string())
}

fn refused(status: u16, kind: &str, reason: &str) -> Answer {
    said(status, &json!({"error": {"type": kind, "reason": reason}, "status": status}))
}

fn respond(asked: &Asked, state: &mut State) -> Answer {
    if state.down > 0 {
        state.down -= 1;
        return refused(503, "unavailable", "down");
    }
    let path = asked.path.trim_start_matches('/');
    match (asked.method.as_str(), path.split('/').next().unwrap_or_default()) {
        ("GET", "") => said(200, &json!({"version": {"number": "8.15.0"}})),
        ("PUT", "_index_template") if state.old => {
            // Which is what 7.7 says; its errors without a kind are plain texts.
            let error = "Incorrect HTTP method for uri and method [PUT], allowed: [POST]";
            said(405, &json!({"error": error, "status": 405}))
        }
        ("PUT", kind @ ("_index_template" | "_template")) => {
            let body: Value = serde_json::from_slice(&asked.body).unwrap();
            let mappings = match kind {
                "_template" => body["mappings"].clone(),
                _ => body["template"]["mappings"].clone(),
            };
            assert_eq!(mappings["dynamic"], "strict");
            let pattern = body["index_patterns"][0].as_str().unwrap().to_owned();
            state.templates.insert(pattern, mappings);
            said(200, &json!({"acknowledged": true}))
        }
        ("POST", "_bulk") => bulk(asked, state),
        ("POST", pattern) if path.contains("/_delete_by_query") => {
            let body: Value = serde_json::from_slice(&asked.body).unwrap();
            let end = pattern.strip_prefix('*').unwrap();
            let ids = body["query"]["ids"]["values"].as_array().unwrap();
            let before = state.documents.len();
            state
                .documents
                .retain(|(index, id), _| !(index.ends_with(end) && ids.contains(&json!(id))));
            let deleted = before - state.documents.len();
            said(200, &json!({"deleted": deleted, "failures": []}))
        }
        _ => refused(405, "method_not_allowed", path),
    }
}

fn bulk(asked: &Asked, state: &mut State) -> Answer {
    assert_eq!(asked.header("content-type"), Some("application/x-ndjson"));
    assert!(!asked.path.contains("refresh"), "nothing asks for a refresh");
    state.bulks += 1;
    if state.limit > 0 && asked.body.len() > state.limit {
        return refused(413, "too_large", "request entity too large");
    }
    let text = std::str::from_utf8(&asked.body).unwrap();
    if !text.ends_with('\n') {
        return refused(400, "illegal_argument_exception", "must be terminated by a newline");
    }
    let mut lines = text.lines();
    let mut items = Vec::new();
    while let Some(head) = lines.next() {
        let head: Map<String, Value> = serde_json::from_str(head).unwrap();
        let (action, place) = head.into_iter().next().unwrap();
        let body =
            (action != "delete").then(|| serde_json::from_str(lines.next().unwrap()).unwrap());
        items.push(json!({&action: item(&action, &place, body, state)}));
    }
    let errors = items.iter().any(|item| {
        item.as_object().unwrap().values().next().unwrap()["status"].as_u64().unwrap() >= 400
    });
    if state.cut > 0 {
        state.cut -= 1;
        return Answer::Cut;
    }
    said(200, &json!({"took": 1, "errors": errors, "items": items}))
}

fn item(action: &str, place: &Value, body: Option<Value>, state: &mut State) -> Value {
    let index = place["_index"].as_str().unwrap().to_owned();
    let key = (index.clone(), place["_id"].as_str().unwrap().to_owned());
    let failed = |status: u16, kind: &str, reason: &str| {
        json!({"_index": key.0, "_id": key.1, "status": status,
            "error": {"type": kind, "reason": reason}})
    };
    if state.busy > 0 {
        state.busy -= 1;
        return failed(429, "es_rejected_execution_exception", "queue is full");
    }
    let there = state.documents.contains_key(&key);
    if action == "delete" {
        state.documents.remove(&key);
        return json!({"_index": key.0, "_id": key.1, "status": if there { 200 } else { 404 }});
    }
    let body = body.unwrap();
    let document = if action == "update" { body["doc"].clone() } else { body };
    let mapping = state.templates.iter().find(|(pattern, _)| match pattern.strip_prefix('*') {
        Some(end) => index.ends_with(end),
        None => **pattern == index,
    });
    let Some((_, mapping)) = mapping else {
        return failed(400, "illegal_argument_exception", "no template for the index");
    };
    if let Err(reason) = fits(&document, mapping, "") {
        return failed(400, "strict_dynamic_mapping_exception", &reason);
    }
    let version = place.get("version").and_then(Value::as_i64);
    match action {
        "create" if there => return failed(409, "version_conflict_engine_exception", "exists"),
        "index" => {
            let kept = state.documents.get(&key).map(|(version, _)| *version);
            if kept.zip(version).is_some_and(|(kept, new)| new < kept) {
                return failed(409, "version_conflict_engine_exception", "a later one is there");
            }
        }
        _ => {}
    }
    let kept = match (state.documents.get(&key), action) {
        (Some((_, Value::Object(kept))), "update") => {
            let mut kept = kept.clone();
            kept.extend(document.as_object().unwrap().clone());
            Value::Object(kept)
        }
        _ => document,
    };
    *state.writes.entry(key.clone()).or_default() += 1;
    state.documents.insert(key.clone(), (version.unwrap_or(1), kept));
    json!({"_index": key.0, "_id": key.1, "status": if there { 200 } else { 201 }})
}

/// Whether a value fits a strict mapping, and what does not.
fn fits(value: &Value, mapping: &Value, path: &str) -> Result<(), String> {
    if mapping.get("enabled") == Some(&json!(false)) {
        return if value.is_object() || value.is_null() { Ok(()) } else { Err(path.to_owned()) };
    }
    if let Some(properties) = mapping.get("properties") {
        let Some(object) = value.as_object() else {
            return if value.is_null() { Ok(()) } else { Err(format!("{path} is no object")) };
        };
        return object.iter().try_for_each(|(name, inner)| {
            let known =
                properties.get(name).ok_or_else(|| format!("{path}{name} is not allowed"))?;
            fits(inner, known, &format!("{path}{name}."))
        });
    }
    if let Some(items) = value.as_array() {
        return items.iter().try_for_each(|item| fits(item, mapping, path));
    }
    let kind = mapping["type"].as_str().unwrap();
    let good = value.is_null()
        || match kind {
            "keyword" | "text" => value.is_string(),
            "integer" | "long" => value.is_i64() || value.is_u64(),
            "float" => value.is_number(),
            "date" => {
                value.as_str().is_some_and(|text| text.parse::<feedmill::model::Ts>().is_ok())
            }
            other => panic!("{other}"),
        };
    if good { Ok(()) } else { Err(format!("{path} is no {kind}: {value}")) }
}
