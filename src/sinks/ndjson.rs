//! Lines of JSON in a file a day, such as `entries/2026-11-15.ndjson`; beside them, if wanted, what
//! was served, as `raw/2026-11-15/ID.blob`.
//!
//! `entries` and `articles` have what was read, `events` what else happened: to sources, to their
//! channels, and to pages that were given up.
//!
//! The cursor remembers how long each file was when it was saved. After a crash a file is cut back
//! to that length, so that no line is torn and none is written twice. A file is compressed only when
//! nothing more can come to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::item::Subject;
use super::{About, Bodies, Item, Sink, SinkError, Taken, permissions};
use crate::db::private;
use crate::model::{EventKind, FetchId};

/// The folders that lines go to.
const FOLDERS: [&str; 3] = ["articles", "entries", "events"];

/// How files are written.
#[derive(Clone)]
pub struct Settings {
    /// Below this directory.
    pub dir: PathBuf,
    /// A file that has grown to this size is followed by another one; 0 for one a day.
    pub max_size: u64,
    /// Files that nothing more comes to are compressed.
    pub compress: bool,
    /// Permissions of files.
    pub mode: u32,
    /// Where what was served is read; `None` leaves it out.
    pub bodies: Option<Arc<dyn Bodies>>,
}

impl Default for Settings {
    fn default() -> Self {
        let (dir, mode) = (PathBuf::new(), permissions::PRIVATE);
        Self { dir, max_size: 0, compress: false, mode, bodies: None }
    }
}

/// What the cursor remembers.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct State {
    /// Lengths of files that can still grow, by their path below the directory.
    open: BTreeMap<String, u64>,
    /// Files that are to be compressed.
    full: BTreeSet<String>,
}

/// Writes lines below a directory.
pub struct Ndjson {
    settings: Settings,
    state: State,
}

impl Ndjson {
    /// A sink that writes files like that.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, state: State::default() }
    }

    /// The file that lines of that day go to; a new one is begun when there is none, or it is full.
    fn file_for(&mut self, folder: &str, day: &str) -> String {
        let of_day = format!("{folder}/{day}");
        let name = |part: u32| match part {
            1 => format!("{of_day}.ndjson"),
            part => format!("{of_day}.{part}.ndjson"),
        };
        let known = (1..).map_while(|part| {
            let name = name(part);
            let full = self.state.full.contains(&name);
            let packed = self.path(&format!("{name}.gz")).exists();
            let open = self.state.open.contains_key(&name);
            (open || full || packed).then_some((part, name))
        });
        let last = known.last();
        let room = |length: &u64| self.settings.max_size == 0 || *length < self.settings.max_size;
        if let Some((_, name)) = &last
            && self.state.open.get(name).is_some_and(room)
        {
            return name.clone();
        }
        let next = name(last.map_or(1, |(part, _)| part + 1));
        // Whatever is there already is not ours to cut.
        let length = self.path(&next).metadata().map_or(0, |file| file.len());
        self.state.open.insert(next.clone(), length);
        next
    }

    fn path(&self, name: &str) -> PathBuf {
        self.settings.dir.join(name)
    }

    /// Only the last file of each folder can still grow.
    fn close_full(&mut self) {
        let last: BTreeSet<String> = FOLDERS
            .iter()
            .filter_map(|folder| {
                let of_folder = self.state.open.keys().filter(|name| name.starts_with(*folder));
                of_folder.max_by_key(|name| order(name)).cloned()
            })
            .collect();
        let (open, full): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.state.open).into_iter().partition(|(it, _)| last.contains(it));
        self.state.open = open;
        if self.settings.compress {
            self.state.full.extend(full.into_keys());
        }
    }

    /// Compresses what nothing more comes to. It stays to be done until it was done.
    fn compress_full(&mut self) -> Result<(), SinkError> {
        while let Some(name) = self.state.full.first().cloned() {
            compress(&self.path(&name), self.settings.mode)?;
            self.state.full.pop_first();
        }
        Ok(())
    }

    /// Removes what was served of articles that were taken down.
    fn drop_bodies(&self, batch: &[Item]) -> Result<(), SinkError> {
        let gone = batch.iter().filter(|item| item.event.kind == EventKind::ArticleWithdrawn);
        let gone: Vec<String> = gone.flat_map(|item| fetches_of(&item.event.payload)).collect();
        // Also those of a time when they were wanted.
        if gone.is_empty() {
            return Ok(());
        }
        let dir = self.path("raw");
        let days = match fs::read_dir(&dir) {
            Ok(days) => days,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(io(&dir)(error)),
        };
        for day in days {
            let day = day.map_err(io(&dir))?.path();
            for fetch in &gone {
                let path = day.join(format!("{fetch}.blob"));
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(io(&path)(error));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    async fn keep_bodies(&self, batch: &[Item]) -> Result<(), SinkError> {
        let Some(bodies) = &self.settings.bodies else { return Ok(()) };
        let fetches: BTreeMap<FetchId, String> =
            batch.iter().filter_map(|item| Some((fetch_of(item)?, item.event.at.day()))).collect();
        let ids: Vec<FetchId> = fetches.keys().copied().collect();
        let found = bodies.find(&ids).await?;
        for (fetch, day) in fetches {
            let path = self.path(&format!("raw/{day}/{fetch}.blob"));
            let Some(record) = found.get(&fetch).filter(|_| !path.exists()) else { continue };
            if let Some(body) = bodies.body(record).await? {
                put_whole(&path, &body.bytes, self.settings.mode)?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for Ndjson {
    async fn resume(&mut self, state: &Value) -> Result<(), SinkError> {
        self.state = serde_json::from_value(state.clone()).unwrap_or_default();
        for folder in FOLDERS {
            let dir = self.path(folder);
            permissions::directory(&dir, self.settings.mode).map_err(io(&dir))?;
        }
        for (name, length) in &self.state.open {
            let path = self.path(name);
            match private::open_regular(OpenOptions::new().write(true), &path) {
                Ok(file) => {
                    let have = file.metadata().map_err(io(&path))?.len();
                    if have > *length {
                        file.set_len(*length).map_err(io(&path))?;
                    }
                }
                // Moved away by its reader: a new one begins.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io(&path)(error)),
            }
        }
        self.compress_full()
    }

    fn prepare(&mut self, batch: &[Item]) -> Result<Option<Value>, SinkError> {
        let before = self.state.open.len();
        for item in batch {
            self.file_for(folder_of(item), &item.event.at.day());
        }
        Ok((self.state.open.len() > before).then(|| json!(self.state)))
    }

    async fn deliver(&mut self, batch: &[Item]) -> Result<Taken, SinkError> {
        let mut texts: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for item in batch {
            let name = self.file_for(folder_of(item), &item.event.at.day());
            let text = texts.entry(name).or_default();
            item.write(text)?;
            text.push(b'\n');
        }
        self.keep_bodies(batch).await?;
        self.drop_bodies(batch)?;
        for (name, text) in texts {
            let path = self.path(&name);
            let length = append(&path, &text, self.settings.mode)?;
            self.state.open.insert(name, length);
        }
        // What was full before this batch is in the saved cursor: it is not cut back any more.
        self.compress_full()?;
        self.close_full();
        Ok(Taken { state: json!(self.state), refused: Vec::new() })
    }

    async fn check(&mut self) -> Result<String, SinkError> {
        let dir = &self.settings.dir;
        permissions::directory(dir, self.settings.mode).map_err(io(dir))?;
        let path = dir.join(".feedmill-check");
        fs::write(&path, b"").and_then(|()| fs::remove_file(&path)).map_err(io(&path))?;
        Ok(dir.display().to_string())
    }
}

/// Day and part of a file, in the order in which they are written.
fn order(name: &str) -> (String, u32) {
    let file = name.rsplit('/').next().unwrap_or(name);
    let mut parts = file.split('.');
    let day = parts.next().unwrap_or_default().to_owned();
    (day, parts.next().and_then(|part| part.parse().ok()).unwrap_or(1))
}

/// The fetches that an event names.
fn fetches_of(payload: &Value) -> Vec<String> {
    let refs = payload.get("raw_refs").and_then(Value::as_array).into_iter().flatten();
    refs.filter_map(|one| one.get("fetch_id")?.as_str().map(str::to_owned)).collect()
}

/// The fetch that brought what an item is about.
const fn fetch_of(item: &Item) -> Option<FetchId> {
    match &item.about {
        About::Event => None,
        About::Entry(entry) => entry.fetch,
        About::Article(article, _) => article.fetch,
    }
}

/// The folder that an item's line goes to.
const fn folder_of(item: &Item) -> &'static str {
    match Subject::of(item.event.kind) {
        Subject::Entry => "entries",
        Subject::Article => "articles",
        Subject::Other => "events",
    }
}

/// Appends, durably; answers with the new length.
fn append(path: &Path, text: &[u8], mode: u32) -> Result<u64, SinkError> {
    let write = || -> io::Result<u64> {
        let (mut file, new) = permissions::append(path, mode)?;
        file.write_all(text)?;
        file.sync_data()?;
        if new {
            sync_dir(path)?;
        }
        Ok(file.metadata()?.len())
    };
    write().map_err(io(path))
}

/// Writes a file that is there whole or not at all.
fn put_whole(path: &Path, bytes: &[u8], mode: u32) -> Result<(), SinkError> {
    let write = || -> io::Result<()> {
        if let Some(dir) = path.parent() {
            permissions::directory(dir, mode)?;
        }
        let part = path.with_extension("part");
        let mut file = permissions::create(&part, mode)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        sync_dir(path)
    };
    write().map_err(io(path))
}

/// Puts the compressed form in a file's place.
fn compress(path: &Path, mode: u32) -> Result<(), SinkError> {
    let packed = path.with_extension("ndjson.gz");
    let write = || -> io::Result<()> {
        let mut from = match private::read_regular(path) {
            Ok(file) => file,
            // It was done before a crash, or its reader took it away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let part = path.with_extension("gz.part");
        let mut encoder = GzEncoder::new(permissions::create(&part, mode)?, Compression::default());
        io::copy(&mut from, &mut encoder)?;
        encoder.finish()?.sync_all()?;
        fs::rename(&part, &packed)?;
        sync_dir(path)?;
        fs::remove_file(path)
    };
    write().map_err(io(path))
}

/// A new name has to be brought to disk as well.
fn sync_dir(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> SinkError {
    let target = path.display().to_string();
    move |source| SinkError::Io { target, source }
}

#[cfg(test)]
mod tests {
    use feedmill_formats::decode;

    use super::*;
    use crate::model::{Event, EventKind, Ts};

    const DAY: i64 = 86_400_000;

    fn item(seq: i64, at: i64) -> Item {
        let event = Event {
            seq,
            at: Ts::from_ms(at),
            kind: EventKind::FeedGone,
            subject: seq.to_string(),
            source: None,
            payload: json!({}),
        };
        Item { event, about: About::Event, source: None, trail: Default::default() }
    }

    async fn take(sink: &mut Ndjson, batch: &[Item]) -> Value {
        drop(sink.prepare(batch).unwrap());
        sink.deliver(batch).await.unwrap().state
    }

    #[tokio::test]
    async fn a_batch_that_is_cut_after_any_byte_is_there_once() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { dir: dir.path().to_owned(), ..Settings::default() };
        let path = dir.path().join("events/1970-01-01.ndjson");
        let begun = async || {
            let mut sink = Ndjson::new(settings.clone());
            sink.resume(&Value::Null).await.unwrap();
            take(&mut sink, &[item(1, 0)]).await
        };
        let batch = [item(2, 0), item(3, 0)];
        let state = begun().await;
        let saved = fs::read(&path).unwrap().len();
        let mut sink = Ndjson::new(settings.clone());
        sink.resume(&state).await.unwrap();
        take(&mut sink, &batch).await;
        let whole = fs::read(&path).unwrap();
        for cut in saved..=whole.len() {
            // So much reached the disk before a crash.
            fs::write(&path, &whole[..cut]).unwrap();
            let mut sink = Ndjson::new(settings.clone());
            sink.resume(&state).await.unwrap();
            take(&mut sink, &batch[..1]).await;
            take(&mut sink, &batch[1..]).await;
            assert!(fs::read(&path).unwrap() == whole, "cut after byte {cut}");
        }
    }

    #[tokio::test]
    async fn full_files_are_followed_by_others_and_compressed() {
        let dir = tempfile::tempdir().unwrap();
        let dir_ = dir.path().to_owned();
        let settings =
            Settings { dir: dir_, max_size: 200, compress: true, mode: 0o640, bodies: None };
        let mut sink = Ndjson::new(settings.clone());
        sink.resume(&Value::Null).await.unwrap();
        let mut state = Value::Null;
        for seq in 0..6 {
            state = take(&mut sink, &[item(seq, 0)]).await;
        }
        // A crash after writing and before the cursor was saved: what was prepared is taken up.
        let state = sink.prepare(&[item(6, DAY)]).unwrap().unwrap_or(state);
        sink.deliver(&[item(6, DAY)]).await.unwrap();
        let mut sink = Ndjson::new(settings);
        sink.resume(&state).await.unwrap();
        take(&mut sink, &[item(6, DAY)]).await;
        take(&mut sink, &[item(7, DAY)]).await;
        take(&mut sink, &[item(8, 2 * DAY)]).await;
        take(&mut sink, &[item(9, 2 * DAY)]).await;

        let mut lines = Vec::new();
        let mut files: Vec<_> = fs::read_dir(dir.path().join("events"))
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort_by_key(|path| order(path.file_name().unwrap().to_str().unwrap()));
        for path in &files {
            let bytes = fs::read(path).unwrap();
            let coding = path.extension().filter(|end| *end == "gz").map(|_| "gzip");
            let text = decode::capped(&bytes, coding, 1 << 20).unwrap();
            let text = std::str::from_utf8(&text).unwrap();
            lines.extend(text.lines().map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["event"]["seq"].as_i64().unwrap()
            }));
        }
        assert_eq!(lines, (0..10).collect::<Vec<_>>());
        let packed = files.iter().filter(|path| path.extension().is_some_and(|end| end == "gz"));
        assert!(packed.count() >= 3, "{files:?}");
        assert!(files.len() >= 4, "{files:?}");
        for path in &files {
            let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).unwrap());
            assert_eq!(mode & 0o777, 0o640, "{}", path.display());
        }
    }
}
