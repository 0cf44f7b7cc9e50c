//! Keeping in step with a source-manager: what its list means for the sources that we have. Pure.
//!
//! It owns what it gave us and nothing else: other sources are never touched. What it never said of a
//! source of its own stays as it is here, what it said and says no longer goes, and what an operator
//! disabled here stays disabled.

use std::collections::{BTreeSet, HashMap, HashSet};

use feedmill_formats::url::{KeyRules, Url};
use serde_json::{Map, Value};

use super::lists::{ACCESS_IGNORED, Entry, entry, sets_access};
use super::plan::{Followed, Verdict};
use super::{check, fields, moves_credentials};
use crate::model::{Admission, Managed, NewSource, Source};

/// How the reason begins for which a source-manager disabled a source.
const BECAUSE: &str = "by its source-manager: ";

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A source is new there.
    Add(Box<Admission>),
    /// One is not what it was.
    Change {
        /// As it is here.
        was: Box<Source>,
        /// As it is to be.
        now: Box<NewSource>,
    },
    /// One is followed again: its id.
    Enable(String),
    /// One is no longer followed: its id, and why.
    Disable(String, String),
}

/// What a list means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    /// What is to be done, in this order.
    pub steps: Vec<Step>,
    /// Sources there that are left alone, and why.
    pub left: Vec<String>,
}

/// Compares a source-manager's list with what we have of it. `permit` has the last word on an address.
pub fn steps(
    by: &str,
    listed: Vec<Map<String, Value>>,
    sources: &[Source],
    rules: KeyRules,
    permit: impl Fn(&Url) -> Result<(), String> + Copy,
) -> Steps {
    let ours = |source: &&Source| source.spec.managed.as_ref().is_some_and(|it| it.by == by);
    let id = |source: &Source| source.spec.managed.as_ref().map(|it| it.id.clone());
    let own: HashMap<String, &Source> =
        sources.iter().filter(ours).filter_map(|source| Some((id(source)?, source))).collect();
    let names: HashSet<&str> = sources.iter().map(|source| source.spec.name.as_str()).collect();
    let mut followed = Followed::of(sources, rules);
    let (mut done, mut seen) = (Steps::default(), HashSet::new());
    for fields in listed {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        let Some(id) = text("id").filter(|id| !id.is_empty()) else {
            done.left.push("a source has no id".to_owned());
            continue;
        };
        let title = text("name").unwrap_or_else(|| id.clone());
        if fields.iter().any(|(name, value)| sets_access(name, value)) {
            done.left.push(format!("{title}: {ACCESS_IGNORED}"));
        }
        let said = fields.into_iter().filter(|(_, value)| !is_nothing(value)).collect();
        let told = entry(said).and_then(|said| {
            let managed = Managed { by: by.to_owned(), id: id.clone(), says: says(&said) };
            match own.get(&id) {
                Some(source) => update(source, managed, &said, &names, permit, &mut done.steps),
                None => {
                    add(&said, managed, &mut followed, permit).map(|step| done.steps.push(step))
                }
            }
        });
        done.left.extend(told.err().map(|reason| format!("{title}: {reason}")));
        seen.insert(id);
    }
    for (id, source) in own {
        if source.enabled() && !seen.contains(&id) {
            let reason = format!("{BECAUSE}it is no longer listed");
            done.steps.push(Step::Disable(source.uuid.clone(), reason));
        }
    }
    done
}

/// What is written where nothing is said.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// The fields that something is said about, by our names for them.
fn says(said: &Entry) -> Vec<String> {
    let names = said.said.iter().map(|(name, _)| fields::canonical(name));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

fn add(
    said: &Entry,
    managed: Managed,
    followed: &mut Followed,
    permit: impl Fn(&Url) -> Result<(), String>,
) -> Result<Step, String> {
    match followed.judge(said, permit) {
        Verdict::Add { mut new, .. } => {
            new.spec.managed = Some(managed);
            new.disabled = new.disabled.map(|reason| format!("{BECAUSE}{reason}"));
            Ok(Step::Add(new))
        }
        Verdict::Known { by, address } => Err(format!("{address} is followed by {by} already")),
        Verdict::Refused { reason, .. } => Err(reason),
    }
}

fn update(
    source: &Source,
    managed: Managed,
    said: &Entry,
    names: &HashSet<&str>,
    permit: impl Fn(&Url) -> Result<(), String>,
    steps: &mut Vec<Step>,
) -> Result<(), String> {
    let mut now = source.spec.clone();
    // What it never said is not its own to take away: feeds that were found stay.
    let before = source.spec.managed.iter().flat_map(|it| &it.says);
    let is_gone =
        |name: &&String| !managed.says.contains(name) && !matches!(name.as_str(), "name" | "url");
    let gone = before.filter(is_gone).map(|name| (name, &Value::Null));
    let said_now = said.said.iter().map(|(name, value)| (name, value));
    for (name, value) in gone.chain(said_now) {
        fields::set(&mut now, name, value).map_err(|error| error.to_string())?;
    }
    now.managed = Some(managed);
    if names.contains(now.name.as_str()) {
        now.name.clone_from(&source.spec.name);
    }
    check(&now, permit).map_err(|error| error.to_string())?;
    if moves_credentials(&source.spec, &now) {
        return Err(
            "it has credentials here, which would go to the new address: change its URL with \
             `feedmill source set`"
                .to_owned(),
        );
    }
    if now != source.spec {
        let was = Box::new(source.clone());
        steps.push(Step::Change { was, now: Box::new(now) });
    }
    let uuid = source.uuid.clone();
    match (&said.disabled, source.enabled()) {
        (Some(reason), true) => steps.push(Step::Disable(uuid, format!("{BECAUSE}{reason}"))),
        (None, false)
            if source.disable_reason.as_ref().is_some_and(|it| it.starts_with(BECAUSE)) =>
        {
            steps.push(Step::Enable(uuid));
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{SourceId, Ts};

    const BY: &str = "http://manager.example:8050";

    fn listed(items: &[Value]) -> Vec<Map<String, Value>> {
        items.iter().filter_map(|item| item.as_object().cloned()).collect()
    }

    fn stepped(items: &[Value], sources: &[Source]) -> Steps {
        steps(BY, listed(items), sources, KeyRules::default(), |_| Ok(()))
    }

    fn source(spec: NewSource, disabled: Option<&str>) -> Source {
        Source {
            id: SourceId(1),
            uuid: format!("uuid of {}", spec.name),
            spec,
            enabled_at: disabled.is_none().then_some(Ts::from_ms(0)),
            disabled_at: None,
            disable_reason: disabled.map(str::to_owned),
            created_at: Ts::from_ms(0),
        }
    }

    fn item(id: &str, name: &str, more: &Value) -> Value {
        let mut item = json!({
            "id": id, "name": name, "url": format!("https://{id}.example"), "rate_limit": "1s",
            "max_depth": 2, "time": ["UTC"], "selectors": {"article": {"title": "h1"}},
            "enabled": true, "feed_url": null, "ingestion_mode": "feed", "type": "news",
        });
        let more = more.as_object().cloned().unwrap_or_default();
        item.as_object_mut().unwrap().extend(more);
        item
    }

    /// What is ours after a first look.
    fn first(items: &[Value]) -> Vec<Source> {
        let added = stepped(items, &[]).steps.into_iter().map(|step| match step {
            Step::Add(new) => source(new.spec, new.disabled.as_deref()),
            other => panic!("{other:?}"),
        });
        added.collect()
    }

    #[test]
    fn a_list_is_added_once_and_followed_from_then_on() {
        let items = [item("a", "A", &json!({})), item("b", "B", &json!({"enabled": false}))];
        let ours = first(&items);
        let managed = ours[0].spec.managed.as_ref().unwrap();
        assert_eq!((managed.by.as_str(), managed.id.as_str()), (BY, "a"));
        assert_eq!(
            ours[1].disable_reason.as_deref(),
            Some("by its source-manager: disabled in its list")
        );
        assert_eq!(stepped(&items, &ours), Steps::default(), "nothing is new");

        let changed = [
            item("a", "A2", &json!({"feed_url": "https://a.example/rss", "rate_limit": "3s"})),
            item("b", "B", &json!({})),
        ];
        let Steps { steps, left } = stepped(&changed, &ours);
        assert!(left.is_empty(), "{left:?}");
        let [Step::Change { was, now }, Step::Enable(enabled)] = steps.as_slice() else {
            panic!("{steps:?}")
        };
        assert_eq!((was.spec.name.as_str(), now.name.as_str()), ("A", "A2"));
        assert_eq!(now.feed_urls, ["https://a.example/rss"]);
        assert_eq!(enabled, "uuid of B");

        let gone = stepped(&changed[..0], &ours).steps;
        let reason = "by its source-manager: it is no longer listed".to_owned();
        assert_eq!(gone, [Step::Disable("uuid of A".into(), reason)]);
    }

    #[test]
    fn others_are_never_touched_and_an_operators_word_stands() {
        let mine = source(NewSource::new("A", "https://a.example/"), None);
        let items = [item("a", "A", &json!({}))];
        let Steps { steps, left } = stepped(&items, std::slice::from_ref(&mine));
        assert!(steps.is_empty() && left[0].contains("is followed by A already"), "{left:?}");
        let named = source(NewSource::new("A", "https://other.example/"), None);
        let Steps { steps, .. } = stepped(&items, &[named]);
        assert!(
            matches!(&steps[0], Step::Add(new) if new.spec.name == "A (a.example)"),
            "{steps:?}"
        );

        let mut ours = first(&items);
        ours[0].spec.category = Some("mine".into());
        ours[0].spec.feed_urls = vec!["https://a.example/found".into()];
        assert_eq!(stepped(&items, &ours), Steps::default(), "what it does not say stays");
        (ours[0].enabled_at, ours[0].disable_reason) = (None, Some("by the operator".into()));
        assert_eq!(stepped(&items, &ours), Steps::default());

        let bad = [item("a", "A", &json!({"rate_limit": "soon"})), json!({"name": "no id"})];
        let Steps { steps, left } = stepped(&bad, &first(&items));
        assert!(steps.is_empty(), "a source that cannot be read is left as it is: {steps:?}");
        assert!(left[0].starts_with("A: `rate_limit`") && left[1].contains("no id"), "{left:?}");
    }

    #[test]
    fn what_it_said_and_says_no_longer_goes_and_what_was_found_stays() {
        let said =
            json!({"feed_url": "https://a.example/rss", "rate_limit": "3s", "category": "x"});
        let ours = first(&[item("a", "A", &said)]);
        let silent = json!({"feed_url": null, "rate_limit": "", "category": null, "max_depth": 0});
        let silent = [item("a", "A", &silent)];
        let Steps { steps, left } = stepped(&silent, &ours);
        let [Step::Change { now, .. }] = steps.as_slice() else { panic!("{steps:?} {left:?}") };
        assert!(now.feed_urls.is_empty() && now.seeks_channels(), "{:?}", now.feed_urls);
        let cleared = (now.rate_limit, now.category.as_ref(), now.max_depth);
        assert_eq!(cleared, (None, None, None));

        let mut found = NewSource::clone(now);
        found.feed_urls = vec!["https://a.example/found".into()];
        found.category = Some("mine".into());
        assert_eq!(stepped(&silent, &[source(found, None)]), Steps::default());

        // Before it was noted what is said, nothing can be told to have gone.
        let mut older = ours[0].clone();
        older.spec.managed.as_mut().unwrap().says.clear();
        let Steps { steps, .. } = stepped(&silent, &[older]);
        let [Step::Change { now, .. }] = steps.as_slice() else { panic!("{steps:?}") };
        assert_eq!(now.feed_urls, ["https://a.example/rss"]);
    }
}
