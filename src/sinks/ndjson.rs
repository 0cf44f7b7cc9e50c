//! Lines of JSON in a file a day: `entries/2026-11-15.ndjson` and `articles/2026-11-15.ndjson`.
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

    /// The line for an event: the event, and what it is about as it is now.
    async fn line(&self, event: &Event) -> Result<Option<(&'static str, Value)>, SinkError> {
        let (folder, body) = match event.kind {
            EventKind::EntryNew | EventKind::EntryUpdated => {
                let id: Option<ArticleId> = event.subject.parse().ok();
                let entry = match id {
                    Some(id) => self.store.entry(EntryId(*id.as_bytes())).await?,
                    None => None,
                };
                ("entries", entry.map(serde_json::to_value).transpose()?)
            }
            EventKind::ArticleNew | EventKind::ArticleUpdated | EventKind::ArticleDuplicate => {
                let found = match event.subject.parse() {
                    Ok(id) => self.store.article(id).await?,
                    Err(_) => None,
                };
                let article = found.map(|(row, text)| {
                    let mut article = serde_json::to_value(row)?;
                    article["text"] = Value::String(text);
                    Ok::<_, serde_json::Error>(article)
                });
                ("articles", article.transpose()?)
            }
            _ => return Ok(None),
        };
        // Taken down since: there is nothing to hand on.
        let Some(mut line) = body else { return Ok(None) };
        line["event"] = json!({"seq": event.seq, "at": event.at, "kind": event.kind});
        Ok(Some((folder, line)))
    }
}

#[async_trait]
impl Sink for Ndjson {
    async fn resume(&mut self, state: &Value) -> Result<(), SinkError> {
        self.lengths = serde_json::from_value(state.clone()).unwrap_or_default();
        for folder in ["entries", "articles"] {
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
        // A file of a day that the cursor does not know yet was begun after it was saved.
        let newest = self.lengths.keys().next_back().cloned();
        self.lengths.retain(|name, _| self.dir.join(name).try_exists().unwrap_or(false));
        drop_unknown(&self.dir, &self.lengths, newest.as_deref())
    }

    async fn deliver(&mut self, batch: &[Event]) -> Result<Value, SinkError> {
        let mut texts: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for event in batch {
            let Some((folder, line)) = self.line(event).await? else { continue };
            let text = texts.entry(format!("{folder}/{}.ndjson", event.at.day())).or_default();
            serde_json::to_writer(&mut *text, &line)?;
            text.push(b'\n');
        }
        for (name, text) in texts {
            let path = self.dir.join(&name);
            let length = append(&path, &text)?;
            self.lengths.insert(name, length);
        }
        // Only the last day of each folder can still grow.
        let last: BTreeMap<_, _> = ["articles/", "entries/"]
            .iter()
            .filter_map(|folder| self.lengths.iter().rfind(|(name, _)| name.starts_with(folder)))
            .map(|(name, length)| (name.clone(), *length))
            .collect();
        self.lengths = last;
        Ok(json!(self.lengths))
    }
}

/// Removes what a crash left in files that the saved cursor does not know: their lines will be
/// written again.
fn drop_unknown(
    dir: &Path,
    known: &BTreeMap<String, u64>,
    newest: Option<&str>,
) -> Result<(), SinkError> {
    let newest_day = newest.and_then(|name| name.rsplit('/').next());
    for folder in ["entries", "articles"] {
        let path = dir.join(folder);
        for entry in fs::read_dir(&path).map_err(io(&path))? {
            let entry = entry.map_err(io(&path))?;
            let Ok(file) = entry.file_name().into_string() else { continue };
            let name = format!("{folder}/{file}");
            let later = newest_day.is_none_or(|day| file.as_str() >= day);
            if later && file.ends_with(".ndjson") && !known.contains_key(&name) {
                fs::remove_file(entry.path()).map_err(io(&entry.path()))?;
            }
        }
    }
    Ok(())
}

/// Appends, durably; answers with the new length.
fn append(path: &Path, text: &[u8]) -> Result<u64, SinkError> {
    let write = || -> std::io::Result<u64> {
        let mut file: File = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(text)?;
        file.sync_data()?;
        Ok(file.metadata()?.len())
    };
    write().map_err(io(path))
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> SinkError {
    let target = path.display().to_string();
    move |source| SinkError::Io { target, source }
}
