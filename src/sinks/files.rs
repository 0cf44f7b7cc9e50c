//! One JSON file per item in a directory, as newsfed keeps its feed (ORIGINS 2.1 and 2.2).
//!
//! A file is there whole or not at all. What is there is never changed: its reader may have pinned
//! it. Only an article that is withdrawn takes its file along.

use std::fs;
use std::path::PathBuf;

use async_trait::async_trait;
use feedmill_formats::url::{self as web, KeyRules, UrlHash};
use serde::Serialize;
use uuid::Uuid;

use super::ndjson::io;
use super::{About, Item, Sink, SinkError, Taken, permissions};
use crate::model::{EventKind, Ts};

/// Characters of a summary.
const SUMMARY: usize = 500;

/// Writes files into a directory.
pub struct Files {
    dir: PathBuf,
    /// Permissions of files.
    mode: u32,
    rules: KeyRules,
}

/// An item as newsfed reads it.
#[derive(Debug, Serialize)]
struct NewsItem {
    id: Uuid,
    title: String,
    summary: String,
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    publisher: Option<String>,
    authors: Vec<String>,
    published_at: Ts,
    discovered_at: Ts,
    pinned_at: Option<Ts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_id: Option<String>,
}

impl Files {
    /// A sink that writes files with these permissions into `dir`; addresses are the same by these rules.
    #[must_use]
    pub const fn new(dir: PathBuf, mode: u32, rules: KeyRules) -> Self {
        Self { dir, mode, rules }
    }

    /// The id of what is at an address: the same from feed and page, and a UUID of version 4 by its
    /// form, which is what newsfed's are.
    fn id(&self, address: &str) -> Option<Uuid> {
        let url = web::parse(address).ok()?;
        Some(id_of(UrlHash::of(&web::key(&url, &self.rules))))
    }

    fn item(&self, item: &Item) -> Option<NewsItem> {
        let publisher = item.source.as_ref().map(|source| source.spec.name.clone());
        let source_id = item.source.as_ref().map(|source| source.uuid.clone());
        let titled = |title: &Option<String>| match title.as_deref().map(str::trim) {
            Some(title) if !title.is_empty() => title.to_owned(),
            _ => "(No title)".to_owned(),
        };
        match &item.about {
            About::Event => None,
            About::Entry(row) => {
                let entry = &row.entry;
                let url = entry.canonical_link.clone()?;
                let summary = entry.summary.as_deref().or(entry.content.as_deref());
                let names = entry.authors.iter().filter_map(|author| author.name.clone());
                Some(NewsItem {
                    id: self.id(&url)?,
                    title: titled(&entry.title),
                    summary: cut(&feedmill_formats::feed::plain(summary.unwrap_or_default())),
                    url,
                    publisher,
                    authors: names.collect(),
                    published_at: entry.updated.or(entry.published).unwrap_or(row.first_seen),
                    discovered_at: row.first_seen,
                    pinned_at: None,
                    source_id,
                })
            }
            About::Article(row, text) => {
                let article = &row.article;
                Some(NewsItem {
                    id: id_of(row.id),
                    title: titled(&article.title),
                    summary: cut(article.abstract_.as_deref().unwrap_or(text)),
                    url: article.url.clone(),
                    publisher: article.site_name.clone().or(publisher),
                    authors: article.authors.clone(),
                    published_at: article.updated.or(article.published).unwrap_or(row.first_seen),
                    discovered_at: row.first_seen,
                    pinned_at: None,
                    source_id,
                })
            }
        }
    }

    fn path(&self, id: Uuid) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    fn put(&self, item: &NewsItem) -> Result<(), SinkError> {
        let path = self.path(item.id);
        if path.try_exists().map_err(io(&path))? {
            return Ok(());
        }
        let text = serde_json::to_vec_pretty(item)?;
        let part = self.dir.join(format!(".{}.part", item.id));
        let write = || {
            let mut file = permissions::create(&part, self.mode)?;
            std::io::Write::write_all(&mut file, &text)?;
            file.sync_all()?;
            fs::rename(&part, &path)
        };
        write().map_err(io(&path))
    }

    fn withdraw(&self, subject: &str) -> Result<(), SinkError> {
        let Ok(id) = subject.parse::<UrlHash>() else { return Ok(()) };
        let path = self.path(id_of(id));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io(&path)(error)),
            _ => Ok(()),
        }
    }

    fn make_dir(&self) -> Result<(), SinkError> {
        permissions::directory(&self.dir, self.mode).map_err(io(&self.dir))
    }
}

#[async_trait]
impl Sink for Files {
    async fn deliver(&mut self, batch: &[Item]) -> Result<Taken, SinkError> {
        self.make_dir()?;
        for item in batch {
            match item.event.kind {
                EventKind::ArticleWithdrawn => self.withdraw(&item.event.subject)?,
                // What a feed no longer has stays: newsfed keeps items for ever.
                EventKind::EntryDeleted => {}
                _ => self.item(item).map_or(Ok(()), |item| self.put(&item))?,
            }
        }
        fs::File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(io(&self.dir))?;
        Ok(Taken::default())
    }

    async fn check(&mut self) -> Result<String, SinkError> {
        self.make_dir()?;
        let path = self.dir.join(".feedmill-check");
        fs::write(&path, b"").and_then(|()| fs::remove_file(&path)).map_err(io(&path))?;
        Ok(self.dir.display().to_string())
    }
}

fn id_of(hash: UrlHash) -> Uuid {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

/// The start of a text, in whole characters.
fn cut(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(SUMMARY).collect()
}
