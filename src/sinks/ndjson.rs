//! Lines of JSON in a file a day, such as `entries/2026-11-15.ndjson`.
//!
//! `entries` and `articles` have what was read, `events` what else happened: to sources, to their
//! channels, and to pages that were given up.
//!
//! The cursor remembers how long each file was when it was saved. After a crash a file is cut back
//! to that length, so that no line is torn and none is written twice.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Sink, SinkError};
use crate::model::{ArticleId, EntryId, Event, EventKind};
use crate::store::Store;

/// The folders that lines go to.
const FOLDERS: [&str; 3] = ["articles", "entries", "events"];

/// Writes lines below a directory.
pub struct Ndjson {
    dir: PathBuf,
    store: Arc<dyn Store>,
    /// Lengths of the files of the last day, by their path below the directory.
    lengths: BTreeMap<String, u64>,
}

impl Ndjson {
    /// A sink that writes below `dir`.
    #[must_use]
    pub fn new(dir: PathBuf, store: Arc<dyn Store>) -> Self {
        Self { dir, store, lengths: BTreeMap::new() }
    }

    /// The line for an event: what it is about, as it is now, and the event.
    async fn line(&self, event: &Event) -> Result<Option<Value>, SinkError> {
        let id = event.subject.parse::<ArticleId>();
        let about = match (folder_of(event.kind), id) {
            ("events", _) => {
                let mut line = event.payload.clone();
                put(&mut line, "subject", json!(event.subject));
                Some(line)
            }
            ("entries", Ok(id)) => {
                let entry = self.store.entry(EntryId(*id.as_bytes())).await?;
                entry.map(serde_json::to_value).transpose()?
            }
            (_, Ok(id)) => match self.store.article(id).await? {
                Some((row, text)) => {
                    let mut article = serde_json::to_value(&row)?;
                    let source = match row.source {
                        Some(id) => self.store.source_by_id(id).await?,
                        None => None,
                    };
                    let spec = source.map(|source| source.spec);
                    put(&mut article, "source", json!(spec.as_ref().map(|spec| &spec.name)));
                    put(&mut article, "category", json!(spec.and_then(|spec| spec.category)));
                    put(&mut article, "text", Value::String(text));
                    Some(article)
                }
                None => None,
            },
            (_, Err(_)) => None,
        };
        // Taken down since: there is nothing to hand on.
        let Some(mut line) = about else { return Ok(None) };
        let about = json!({"seq": event.seq, "at": event.at, "kind": event.kind});
        put(&mut line, "event", about);
        Ok(Some(line))
    }
}

#[async_trait]
impl Sink for Ndjson {
    async fn resume(&mut self, state: &Value) -> Result<(), SinkError> {
        self.lengths = serde_json::from_value(state.clone()).unwrap_or_default();
        for folder in FOLDERS {
            let dir = self.dir.join(folder);
            fs::create_dir_all(&dir).map_err(io(&dir))?;
        }
        for (name, length) in &self.lengths {
            let path = self.dir.join(name);
            match OpenOptions::new().write(true).open(&path) {
                Ok(file) => {
                    let have = file.metadata().map_err(io(&path))?.len();
                    if have > *length {
                        file.set_len(*length).map_err(io(&path))?;
                    }
                }
                // Moved away by its reader: a new one begins.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(io(&path)(error)),
            }
        }
        Ok(())
    }

    fn prepare(&mut self, batch: &[Event]) -> Result<Option<Value>, SinkError> {
        let mut begun = false;
        for event in batch {
            let name = file_of(event);
            if !self.lengths.contains_key(&name) {
                // Whatever is there already is not ours to cut.
                let length = self.dir.join(&name).metadata().map_or(0, |file| file.len());
                self.lengths.insert(name, length);
                begun = true;
            }
        }
        Ok(begun.then(|| json!(self.lengths)))
    }

    async fn deliver(&mut self, batch: &[Event]) -> Result<Value, SinkError> {
        let mut texts: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for event in batch {
            let name = file_of(event);
            let Some(line) = self.line(event).await? else { continue };
            let text = texts.entry(name).or_default();
            serde_json::to_writer(&mut *text, &line)?;
            text.push(b'\n');
        }
        for (name, text) in texts {
            let path = self.dir.join(&name);
            let length = append(&path, &text)?;
            self.lengths.insert(name, length);
        }
        // Only the last day of each folder can still grow.
        let last: BTreeMap<_, _> = FOLDERS
            .iter()
            .filter_map(|folder| self.lengths.iter().rfind(|(name, _)| name.starts_with(folder)))
            .map(|(name, length)| (name.clone(), *length))
            .collect();
        self.lengths = last;
        Ok(json!(self.lengths))
    }
}

fn put(line: &mut Value, key: &str, value: Value) {
    if let Value::Object(fields) = line {
        fields.insert(key.to_owned(), value);
    }
}

/// The folder that an event's line goes to.
const fn folder_of(kind: EventKind) -> &'static str {
    match kind {
        EventKind::EntryNew | EventKind::EntryUpdated | EventKind::EntryDeleted => "entries",
        EventKind::ArticleNew | EventKind::ArticleUpdated | EventKind::ArticleDuplicate => {
            "articles"
        }
        EventKind::ArticleFailed
        | EventKind::ArticleThin
        | EventKind::ArticleWithdrawn
        | EventKind::SourceDisabled
        | EventKind::SourceEnabled
        | EventKind::SourceHealth
        | EventKind::SourceDiscovered
        | EventKind::FeedMoved
        | EventKind::FeedGone => "events",
    }
}

/// The file that an event's line goes to, below the directory.
fn file_of(event: &Event) -> String {
    format!("{}/{}.ndjson", folder_of(event.kind), event.at.day())
}

/// Appends, durably; answers with the new length.
fn append(path: &Path, text: &[u8]) -> Result<u64, SinkError> {
    let write = || -> std::io::Result<u64> {
        let new = !path.try_exists()?;
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(text)?;
        file.sync_data()?;
        if let Some(dir) = path.parent().filter(|_| new) {
            // A new name has to be brought to disk as well.
            File::open(dir)?.sync_all()?;
        }
        Ok(file.metadata()?.len())
    };
    write().map_err(io(path))
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> SinkError {
    let target = path.display().to_string();
    move |source| SinkError::Io { target, source }
}
