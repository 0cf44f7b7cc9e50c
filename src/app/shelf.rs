//! Pages as the archive has them, and what selectors make of them.

use std::collections::BTreeSet;

use feedmill_formats::article::{self, Selectors};
use feedmill_formats::charset::{self, Markup};
use feedmill_formats::{decode, url as web};
use serde::Serialize;
use serde_json::{Value, json};

use super::replay::Changes;
use crate::archive::Reader;
use crate::db::DbError;
use crate::frontier::{Order, Sort, TaskFilter};
use crate::handle;
use crate::model::{Ask, FetchId, FetchRecord, Kind, Known, Source, Task, UrlHash};
use crate::store::{FetchFilter, Store};

/// Pages that are looked at for one that is kept, at the most.
const LOOK_BACK: usize = 10;
/// Characters of a text that are shown, and items of a list.
const MAX_SHOWN: usize = 10_000;
const MAX_SHOWN_ITEMS: usize = 200;
/// Fields of an article that nobody would compare by eye.
const LEFT_OUT: [&str; 4] = ["html", "content_hash", "simhash", "confidence"];

/// A page, and what is known besides it.
#[derive(Debug)]
pub struct Page {
    /// Its address.
    pub url: String,
    /// Its markup.
    pub html: String,
    /// What is known besides it.
    pub known: Known,
}

/// A field that is different.
#[derive(Debug, Serialize)]
pub struct Pair {
    /// Its name.
    pub field: String,
    /// As it is.
    pub before: Value,
    /// As it would be.
    pub after: Value,
}

/// A page under both.
#[derive(Debug, Serialize)]
pub struct Compared {
    /// Its address.
    pub url: String,
    /// What the body was found by, or why there is no article.
    pub before: String,
    /// The same with the other selectors.
    pub after: String,
    /// What is different.
    pub fields: Vec<Pair>,
}

impl Compared {
    /// Cuts texts that are too long to be compared by eye.
    pub fn shorten(&mut self) {
        for Pair { before, after, .. } in &mut self.fields {
            [before, after].into_iter().for_each(shorten);
        }
    }
}

/// Cuts long texts, wherever they are in a value, and says so.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((at, _)) = text.char_indices().nth(MAX_SHOWN) {
                text.truncate(at);
                text.push('…');
            }
        }
        Value::Array(items) => {
            items.truncate(MAX_SHOWN_ITEMS);
            items.iter_mut().for_each(shorten);
        }
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Where pages are taken from.
pub struct Shelf<'a> {
    /// What is known of them.
    pub store: &'a dyn Store,
    /// Their bytes.
    pub archive: &'a Reader,
    /// No page is larger, decoded.
    pub max_decoded: usize,
}

impl std::fmt::Debug for Shelf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf").finish_non_exhaustive()
    }
}

impl Shelf<'_> {
    /// The tasks of a source's last pages, enough to find so many that are kept.
    pub async fn last_tasks(&self, source: &Source, wanted: usize) -> Result<Vec<Task>, DbError> {
        let filter = TaskFilter {
            kind: Some(Kind::Article),
            source: Some(source.uuid.clone()),
            order: Order { sort: Sort::Fetched, descending: true },
            limit: wanted * LOOK_BACK,
            ..TaskFilter::default()
        };
        self.store.list(filter).await
    }

    /// The last pages of a source that are kept, so many at the most.
    pub async fn last_pages(&self, source: &Source, wanted: usize) -> Result<Vec<Page>, DbError> {
        let mut found = Vec::new();
        for task in self.last_tasks(source, wanted).await? {
            if found.len() == wanted {
                break;
            }
            found.extend(self.kept(&task).await?);
        }
        Ok(found)
    }

    /// The last form of a page, when it is in the archive.
    pub async fn kept(&self, task: &Task) -> Result<Option<Page>, DbError> {
        let fetches = self.store.fetches(task.id, LOOK_BACK).await?;
        for fetch in fetches.iter().filter(|fetch| fetch.status == Some(200)) {
            if let Some(page) = self.read(fetch, task.url_hash).await? {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// The page of one answer, when it is in the archive.
    pub async fn of_fetch(&self, id: FetchId, hash: UrlHash) -> Result<Option<Page>, DbError> {
        let filter = FetchFilter { ids: vec![id], limit: 1, ..FetchFilter::default() };
        match self.store.find_fetches(filter).await?.first() {
            Some(fetch) => self.read(fetch, hash).await,
            None => Ok(None),
        }
    }

    async fn read(&self, fetch: &FetchRecord, hash: UrlHash) -> Result<Option<Page>, DbError> {
        let Some(raw) = &fetch.raw else { return Ok(None) };
        let Ok(stored) = self.archive.stored(raw).await else { return Ok(None) };
        let coding = stored.head.get("content-encoding");
        let Ok(body) = decode::capped(&stored.body, coding, self.max_decoded) else {
            return Ok(None);
        };
        let html = charset::decode(&body, stored.head.get("content-type"), Markup::Html);
        let known = self.known(hash, &fetch.url).await?;
        Ok(Some(Page { url: fetch.url.clone(), html: html.text.into_owned(), known }))
    }

    /// What is known besides a page.
    pub async fn known(&self, hash: UrlHash, url: &str) -> Result<Known, DbError> {
        let frame_of = web::parse(url).ok().map(|url| web::host(&url));
        self.store.lookup(Ask { evidence: Some(hash), frame_of, ..Ask::default() }).await
    }
}

/// Reads a page under both, and counts what is different.
#[must_use]
pub fn compare(
    page: &Page,
    before: &Selectors,
    after: &Selectors,
    changes: &mut Changes,
) -> Compared {
    let read = |selectors| {
        let evidence = handle::evidence(&page.known, Some(selectors));
        match article::extract(&page.html, &page.url, &evidence) {
            Ok(found) => (format!("by {}", found.method), json!(found)),
            Err(error) => (format!("no article: {error}"), json!({})),
        }
    };
    let ((before, mut old), (after, mut new)) = (read(before), read(after));
    for side in [&mut old, &mut new] {
        side.as_object_mut().into_iter().for_each(|side| {
            side.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
        });
    }
    changes.compare(&old, &new);
    let names = [&old, &new].map(|side| side.as_object().into_iter().flat_map(|side| side.keys()));
    let names: BTreeSet<&String> = names.into_iter().flatten().collect();
    let get = |side: &Value, name: &String| side.get(name).cloned().unwrap_or_default();
    let pairs = names.into_iter().map(|name| Pair {
        field: name.clone(),
        before: get(&old, name),
        after: get(&new, name),
    });
    let fields = pairs.filter(|pair| pair.before != pair.after).collect();
    Compared { url: page.url.clone(), before, after, fields }
}
