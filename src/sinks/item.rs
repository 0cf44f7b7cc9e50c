//! An event with what it is about, as sinks hand it on. Pure.

use std::io;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::model::{ArticleId, ArticleRow, EntryId, EntryRow, Event, EventKind, Reference, Source};
use crate::store::outbox::{Joined, Trail, Wanted};
use crate::store::{DamagedRow, DamagedTable};

/// What an event is about, as that is now.
#[derive(Clone, Debug, PartialEq)]
pub enum About {
    /// Everything that there is to say is in the event.
    Event,
    /// An entry.
    Entry(Box<EntryRow>),
    /// An article and its text.
    Article(Box<ArticleRow>, String),
}

/// An event with what it is about.
#[derive(Clone, Debug)]
pub struct Item {
    /// What changed.
    pub event: Event,
    /// What it is about.
    pub about: About,
    /// Whose it is.
    pub source: Option<Arc<Source>>,
    /// How it came to us, when it is an article.
    pub trail: Arc<Trail>,
}

/// What an event says of itself in a line.
#[derive(Serialize)]
struct Told<'a> {
    seq: i64,
    at: crate::model::Ts,
    kind: EventKind,
    subject: &'a str,
}

/// What an event's kind speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Something that a feed has.
    Entry,
    /// An article that is kept.
    Article,
    /// Something else, or something that is gone.
    Other,
}

impl Subject {
    /// What events of this kind speak of.
    #[must_use]
    pub(super) const fn of(kind: EventKind) -> Self {
        match kind {
            EventKind::EntryNew | EventKind::EntryUpdated | EventKind::EntryDeleted => Self::Entry,
            EventKind::ArticleNew | EventKind::ArticleUpdated | EventKind::ArticleDuplicate => {
                Self::Article
            }
            EventKind::ArticleFailed
            | EventKind::ArticleThin
            | EventKind::ArticleWithdrawn
            | EventKind::SourceDisabled
            | EventKind::SourceEnabled
            | EventKind::SourceHealth
            | EventKind::SourceDiscovered
            | EventKind::SourceQuota
            | EventKind::FeedMoved
            | EventKind::FeedGone => Self::Other,
        }
    }
}

impl Item {
    /// What has to be read to make items of these events.
    #[must_use]
    pub fn wanted(events: &[Event]) -> Wanted {
        let mut wanted = Wanted::default();
        for event in events {
            match (Subject::of(event.kind), event.subject.parse::<ArticleId>()) {
                (Subject::Entry, Ok(id)) => wanted.entries.push(EntryId(*id.as_bytes())),
                (Subject::Article, Ok(id)) => wanted.articles.push(id),
                _ => {}
            }
            wanted.sources.extend(event.source);
        }
        wanted.entries.sort_unstable();
        wanted.entries.dedup();
        wanted.articles.sort_unstable();
        wanted.articles.dedup();
        wanted.sources.sort_unstable();
        wanted.sources.dedup();
        wanted
    }

    /// The damaged row without which there is no item for an event.
    #[must_use]
    pub fn damage<'a>(event: &Event, joined: &'a Joined) -> Option<&'a DamagedRow> {
        if joined.damaged.is_empty() {
            return None;
        }
        let table = match Subject::of(event.kind) {
            // That it is gone can be told without it.
            Subject::Entry if event.kind == EventKind::EntryDeleted => None,
            Subject::Entry => Some(DamagedTable::Entry),
            Subject::Article => Some(DamagedTable::Article),
            Subject::Other => None,
        };
        let row = |table, id: String| joined.damaged.get(&(table, id));
        let own = table.and_then(|table| row(table, event.subject.clone()));
        own.or_else(|| row(DamagedTable::Source, event.source?.0.to_string()))
    }

    /// Whether an event says what it is about.
    #[must_use]
    pub fn is_named(event: &Event) -> bool {
        Subject::of(event.kind) == Subject::Other || event.subject.parse::<ArticleId>().is_ok()
    }

    /// Why there is no item for an event whose row was neither taken down nor removed with its source:
    /// the row is lost, or no longer known by its id.
    #[must_use]
    pub fn lost(event: &Event, joined: &Joined) -> Option<String> {
        let is_followed = |id| joined.sources.get(id).is_some_and(|source| source.enabled());
        if !joined.keeps_all || !event.source.as_ref().is_none_or(is_followed) {
            return None;
        }
        let id = event.subject.parse::<ArticleId>().ok()?;
        let (table, is_there) = match Subject::of(event.kind) {
            Subject::Entry if event.kind == EventKind::EntryDeleted => return None,
            Subject::Entry => {
                (DamagedTable::Entry, joined.entries.contains_key(&EntryId(*id.as_bytes())))
            }
            Subject::Article => (DamagedTable::Article, joined.articles.contains_key(&id)),
            Subject::Other => return None,
        };
        (!is_there)
            .then(|| format!("the row of {table} {} is missing; {}", event.subject, table.remedy()))
    }

    /// The item for an event; `None` when what it is about was taken down since.
    #[must_use]
    pub fn of(event: Event, joined: &Joined) -> Option<Self> {
        let id = event.subject.parse::<ArticleId>().ok();
        let about = match Subject::of(event.kind) {
            Subject::Other => About::Event,
            Subject::Entry => match joined.entries.get(&EntryId(*id?.as_bytes())) {
                Some(entry) => About::Entry(Box::new(entry.clone())),
                // That it is gone is all that there is to say of what was taken down.
                None if event.kind == EventKind::EntryDeleted => About::Event,
                None => return None,
            },
            Subject::Article => {
                let (row, text) = joined.articles.get(&id?)?;
                About::Article(Box::new(row.clone()), text.clone())
            }
        };
        let source = event.source.and_then(|id| joined.sources.get(&id)).cloned();
        let trail = match &about {
            About::Article(row, _) => joined.trails.get(&row.task_id).cloned().unwrap_or_default(),
            About::Event | About::Entry(_) => Arc::default(),
        };
        Some(Self { event, about, source, trail })
    }

    /// All categories that it has: of those who told of it, else of its source; then its source's tags.
    #[must_use]
    pub fn categories(&self) -> Vec<&str> {
        let spec = self.source.as_ref().map(|source| &source.spec);
        let mut all = Reference::gathered(&self.trail.told).1;
        let own = spec.and_then(|spec| spec.category.as_deref());
        let tags = spec.into_iter().flat_map(|spec| spec.tags.iter().map(String::as_str));
        for name in own.into_iter().chain(tags) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }

    /// What must stay in order: everything about the same thing.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.event.subject
    }

    /// Writes it as one JSON object: what it is about, whose that is, and the event.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        match &self.about {
            About::Event => {
                // A payload is an object; whatever else it might be goes below a name.
                if self.event.payload.is_object() {
                    serde_json::to_writer(&mut *out, &self.event.payload)?;
                } else {
                    field_first(out, "payload", &self.event.payload)?;
                }
                field(out, "subject", &self.event.subject)?;
            }
            About::Entry(entry) => serde_json::to_writer(&mut *out, entry)?,
            About::Article(article, text) => {
                serde_json::to_writer(&mut *out, article)?;
                field(out, "text", text)?;
            }
        }
        if let About::Article(..) = &self.about {
            let (sources, categories) = Reference::gathered(&self.trail.told);
            field(out, "sources", &sources)?;
            field(out, "categories", &categories)?;
        }
        if let Some(source) = &self.source {
            field(out, "source", &source.spec.name)?;
            field(out, "source_id", &source.uuid)?;
            field(out, "category", &source.spec.category)?;
        }
        let Event { seq, at, kind, subject, .. } = &self.event;
        field(out, "event", &Told { seq: *seq, at: *at, kind: *kind, subject })
    }

    /// The same as a value.
    pub fn value(&self) -> Result<Value, serde_json::Error> {
        let mut line = Vec::new();
        self.write(&mut line)?;
        serde_json::from_slice(&line)
    }
}

/// Adds a field to the object that has just been written.
fn field(out: &mut Vec<u8>, name: &str, value: &impl Serialize) -> Result<(), serde_json::Error> {
    let empty = out.ends_with(b"{}");
    if out.pop() != Some(b'}') {
        return Err(serde_json::Error::io(io::Error::other("not an object")));
    }
    if !empty {
        out.push(b',');
    }
    serde_json::to_writer(&mut *out, name)?;
    out.push(b':');
    serde_json::to_writer(&mut *out, value)?;
    out.push(b'}');
    Ok(())
}

fn field_first(
    out: &mut Vec<u8>,
    name: &str,
    value: &impl Serialize,
) -> Result<(), serde_json::Error> {
    out.extend_from_slice(b"{}");
    field(out, name, value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::Ts;

    fn item(payload: Value) -> Item {
        let event = Event {
            seq: 7,
            at: Ts::from_ms(0),
            kind: EventKind::SourceHealth,
            subject: "s".into(),
            source: None,
            payload,
        };
        Item { event, about: About::Event, source: None, trail: Arc::default() }
    }

    #[test]
    fn a_line_is_what_it_is_about_and_the_event() {
        let event = json!({"seq": 7, "at": "1970-01-01T00:00:00Z", "kind": "source.health",
            "subject": "s"});
        for (payload, expected) in [
            (json!({"a": 1}), json!({"a": 1, "subject": "s", "event": event})),
            (json!({}), json!({"subject": "s", "event": event})),
            (json!([1]), json!({"payload": [1], "subject": "s", "event": event})),
            (json!({"b": {}}), json!({"b": {}, "subject": "s", "event": event})),
        ] {
            assert_eq!(item(payload).value().unwrap(), expected);
        }
    }
}
