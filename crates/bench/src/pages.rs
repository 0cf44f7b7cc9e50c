//! Pages of a corpus: a directory with `pages/ID.html` or `.html.gz`, and `truth.json` beside them
//! that names the address of each.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use feedmill_formats::charset::{self, Markup};
use feedmill_formats::decode;
use serde_json::Value;

/// The largest page that is read.
const MAX_PAGE: usize = 64 << 20;

/// A page of a corpus.
#[derive(Debug)]
pub(crate) struct SavedPage {
    pub(crate) id: String,
    pub(crate) url: String,
    pub(crate) html: String,
}

/// Reads all pages of a corpus, by their ids.
pub(crate) fn read(dir: &Path) -> anyhow::Result<Vec<SavedPage>> {
    let truth: BTreeMap<String, Value> = match std::fs::read(dir.join("truth.json")) {
        Ok(bytes) => serde_json::from_slice(&bytes).context("truth.json")?,
        Err(_) => BTreeMap::new(),
    };
    let inner = dir.join("pages");
    let inner = if inner.is_dir() { inner } else { dir.to_path_buf() };
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(&inner).with_context(|| inner.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(id) = name.strip_suffix(".html.gz").or_else(|| name.strip_suffix(".html")) else {
            continue;
        };
        let bytes = std::fs::read(&path)?;
        let coding = decode::is_gzip(&bytes).then_some("gzip");
        let bytes = decode::capped(&bytes, coding, MAX_PAGE)?;
        let url = truth.get(id).and_then(|told| told.get("url")?.as_str()).unwrap_or_default();
        let html = charset::decode(&bytes, None, Markup::Html).text.into_owned();
        pages.push(SavedPage { id: id.to_owned(), url: url.to_owned(), html });
    }
    pages.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(pages)
}
