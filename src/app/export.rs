//! Articles as one file, for those who work with it elsewhere: NDJSON, CSV, Parquet or SQLite.
//!
//! The file has its name once it is whole. Only reads, so it works beside a running engine.

mod parquet;
mod sqlite;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use feedmill_formats::csv::neutral;
use serde::Serialize;

use crate::db::DbError;
use crate::model::{ArticleId, ArticleRow, Source, SourceId, Ts};
use crate::sinks::permissions;
use crate::store::outbox::Wanted;
use crate::store::{ArticleFilter, DamagedRow, DamagedTable, Store};

/// Articles that are read at a time.
const PAGE: usize = 500;

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The name is taken.
    #[error("{0} exists already: choose another name")]
    Exists(String),
    /// The file could not be written.
    #[error("cannot write {path}: {reason}")]
    Write {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
}

impl ExportError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Db(error) => error.code(),
            Self::Exists(_) => "exists",
            Self::Write { .. } => "unwritable",
        }
    }
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A JSON object per line.
    Ndjson,
    /// A row per article, with a header.
    Csv,
    /// Columns, compressed.
    Parquet,
    /// A table in a database file.
    Sqlite,
}

/// How a file is written, and who may read it.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Its format.
    pub format: Format,
    /// Its permissions.
    pub mode: u32,
    /// Cells of a table stay as they are, also those that spreadsheets take for formulas.
    pub raw_cells: bool,
}

/// Which articles.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Of the source with this name or id.
    pub source: Option<String>,
    /// First seen at or after this time.
    pub since: Option<Ts>,
    /// First seen before this time.
    pub until: Option<Ts>,
}

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Articles in the file.
    pub articles: u64,
    /// Its size.
    pub bytes: u64,
    /// Articles that are not in it because their rows are damaged.
    pub damaged: Vec<DamagedRow>,
}

/// An article as a row: every column a plain value.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) url: String,
    pub(crate) canonical_url: Option<String>,
    pub(crate) title: Option<String>,
    /// Separated by semicolons, as other lists.
    pub(crate) authors: String,
    pub(crate) published: Option<Ts>,
    pub(crate) updated: Option<Ts>,
    pub(crate) first_seen: Ts,
    pub(crate) last_seen: Ts,
    pub(crate) language: Option<String>,
    pub(crate) site_name: Option<String>,
    pub(crate) section: Option<String>,
    pub(crate) tags: String,
    pub(crate) lead_image: Option<String>,
    #[serde(rename = "abstract")]
    pub(crate) abstract_: Option<String>,
    pub(crate) word_count: u32,
    pub(crate) revision: u32,
    pub(crate) duplicate_of: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) category: Option<String>,
    pub(crate) text: String,
}

/// A value of a column.
pub(crate) enum Cell<'a> {
    Text(Option<&'a str>),
    Time(Option<Ts>),
    Number(i64),
}

/// The columns, in their order, and whether each may be missing.
pub(crate) const COLUMNS: [(&str, Kind); 21] = [
    ("id", Kind::Text),
    ("url", Kind::Text),
    ("canonical_url", Kind::Text),
    ("title", Kind::Text),
    ("authors", Kind::Text),
    ("published", Kind::Time),
    ("updated", Kind::Time),
    ("first_seen", Kind::Time),
    ("last_seen", Kind::Time),
    ("language", Kind::Text),
    ("site_name", Kind::Text),
    ("section", Kind::Text),
    ("tags", Kind::Text),
    ("lead_image", Kind::Text),
    ("abstract", Kind::Text),
    ("word_count", Kind::Number),
    ("revision", Kind::Number),
    ("duplicate_of", Kind::Text),
    ("source", Kind::Text),
    ("category", Kind::Text),
    ("text", Kind::Text),
];

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Time,
    Number,
}

impl Row {
    fn new(row: ArticleRow, text: String, source: Option<&Source>) -> Self {
        let article = row.article;
        Self {
            id: row.id.to_string(),
            url: article.url,
            canonical_url: article.canonical_url,
            title: article.title,
            authors: article.authors.join("; "),
            published: article.published,
            updated: article.updated,
            first_seen: row.first_seen,
            last_seen: row.last_seen,
            language: article.language,
            site_name: article.site_name,
            section: article.section,
            tags: article.tags.join("; "),
            lead_image: article.lead_image,
            abstract_: article.abstract_,
            word_count: article.word_count,
            revision: row.revision,
            duplicate_of: row.duplicate_of.map(|id| id.to_string()),
            source: source.map(|source| source.spec.name.clone()),
            category: source.and_then(|source| source.spec.category.clone()),
            text,
        }
    }

    /// Its values, in the order of the columns.
    pub(crate) fn cells(&self) -> [Cell<'_>; 21] {
        use Cell::{Number, Text, Time};
        [
            Text(Some(&self.id)),
            Text(Some(&self.url)),
            Text(self.canonical_url.as_deref()),
            Text(self.title.as_deref()),
            Text(Some(&self.authors)),
            Time(self.published),
            Time(self.updated),
            Time(Some(self.first_seen)),
            Time(Some(self.last_seen)),
            Text(self.language.as_deref()),
            Text(self.site_name.as_deref()),
            Text(self.section.as_deref()),
            Text(Some(&self.tags)),
            Text(self.lead_image.as_deref()),
            Text(self.abstract_.as_deref()),
            Number(self.word_count.into()),
            Number(self.revision.into()),
            Text(self.duplicate_of.as_deref()),
            Text(self.source.as_deref()),
            Text(self.category.as_deref()),
            Text(Some(&self.text)),
        ]
    }
}

/// What takes rows.
trait Writer {
    fn put(&mut self, rows: &[Row]) -> Result<(), String>;
    fn finish(self: Box<Self>) -> Result<(), String>;
}

/// Writes articles to a file.
pub async fn export(
    store: &dyn Store,
    selection: Selection,
    form: Form,
    file: &Path,
    watch: &mut (dyn FnMut(u64) + Send),
) -> Result<Exported, ExportError> {
    if file.exists() {
        return Err(ExportError::Exists(file.display().to_string()));
    }
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let bad = |reason: String| ExportError::Write { path: file.display().to_string(), reason };
    drop(fs::remove_file(partial));
    let written = write(store, selection, form, partial, watch).await;
    let done = written.and_then(|done| {
        let bytes = fs::metadata(partial).map_err(|error| bad(error.to_string()))?.len();
        fs::rename(partial, file).map_err(|error| bad(error.to_string()))?;
        Ok(Exported { bytes, ..done })
    });
    if done.is_err() {
        // What is left of it is of no use; that it cannot be removed is not what went wrong.
        drop(fs::remove_file(partial));
    }
    done
}

async fn write(
    store: &dyn Store,
    selection: Selection,
    form: Form,
    partial: &Path,
    watch: &mut (dyn FnMut(u64) + Send),
) -> Result<Exported, ExportError> {
    let bad = |reason: String| ExportError::Write { path: partial.display().to_string(), reason };
    let mut writer = open(form, partial).map_err(bad)?;
    let mut sources: HashMap<SourceId, Arc<Source>> = HashMap::new();
    let (mut done, mut before) = (Exported::default(), None);
    loop {
        let filter = ArticleFilter {
            source: selection.source.clone(),
            since: selection.since,
            before_row: before,
            limit: PAGE,
        };
        let page = store.article_page(filter).await?;
        before = page.last;
        if before.is_none() {
            break;
        }
        done.damaged.extend(page.damaged);
        let wanted = page.articles.into_iter().map(|(_, row)| row);
        let wanted =
            wanted.filter(|row| selection.until.is_none_or(|until| row.first_seen < until));
        let (rows, damaged) = rows(store, wanted.collect(), &mut sources).await?;
        done.articles += rows.len() as u64;
        done.damaged.extend(damaged);
        writer.put(&rows).map_err(bad)?;
        watch(done.articles);
    }
    writer.finish().map_err(bad)?;
    Ok(done)
}

async fn rows(
    store: &dyn Store,
    page: Vec<ArticleRow>,
    sources: &mut HashMap<SourceId, Arc<Source>>,
) -> Result<(Vec<Row>, Vec<DamagedRow>), ExportError> {
    let ids: Vec<ArticleId> = page.iter().map(|row| row.id).collect();
    let owners = page.iter().filter_map(|row| row.source);
    let unknown = owners.filter(|id| !sources.contains_key(id)).collect();
    let wanted = Wanted { articles: ids, sources: unknown, ..Wanted::default() };
    let mut joined = store.join(wanted).await?;
    sources.extend(joined.sources.drain());
    let read = |row: ArticleRow| {
        // Taken down since.
        let (row, text) = joined.articles.remove(&row.id)?;
        let source = row.source.and_then(|id| sources.get(&id)).map(|source| &**source);
        Some(Row::new(row, text, source))
    };
    let rows = page.into_iter().filter_map(read).collect();
    let damaged = std::mem::take(&mut joined.damaged).into_values();
    Ok((rows, damaged.filter(|row| row.table == DamagedTable::Article).collect()))
}

fn open(form: Form, partial: &Path) -> Result<Box<dyn Writer + Send>, String> {
    let file = permissions::create(partial, form.mode).map_err(|error| error.to_string())?;
    let file = BufWriter::new(file);
    Ok(match form.format {
        Format::Ndjson => Box::new(Ndjson(file)),
        Format::Csv => Box::new(Csv::new(file, form.raw_cells)?),
        Format::Parquet => Box::new(parquet::Columns::new(file)?),
        Format::Sqlite => Box::new(sqlite::Table::new(partial)?),
    })
}

struct Ndjson(BufWriter<File>);

impl Writer for Ndjson {
    fn put(&mut self, rows: &[Row]) -> Result<(), String> {
        for row in rows {
            serde_json::to_writer(&mut self.0, row).map_err(|error| error.to_string())?;
            self.0.write_all(b"\n").map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        synced(self.0)
    }
}

/// Rows with a header, after RFC 4180.
struct Csv {
    file: BufWriter<File>,
    raw_cells: bool,
}

impl Csv {
    fn new(mut file: BufWriter<File>, raw_cells: bool) -> Result<Self, String> {
        let head = COLUMNS.map(|(name, _)| name).join(",");
        file.write_all(format!("{head}\r\n").as_bytes()).map_err(|error| error.to_string())?;
        Ok(Self { file, raw_cells })
    }
}

impl Writer for Csv {
    fn put(&mut self, rows: &[Row]) -> Result<(), String> {
        let mut line = String::new();
        for row in rows {
            line.clear();
            for (at, cell) in row.cells().into_iter().enumerate() {
                if at > 0 {
                    line.push(',');
                }
                match cell {
                    Cell::Text(text) if self.raw_cells => {
                        quote(text.unwrap_or_default(), &mut line)
                    }
                    Cell::Text(text) => quote(&neutral(text.unwrap_or_default()), &mut line),
                    Cell::Time(at) => line.extend(at.map(|at| at.to_string())),
                    Cell::Number(number) => line.push_str(&number.to_string()),
                }
            }
            line.push_str("\r\n");
            self.file.write_all(line.as_bytes()).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        synced(self.file)
    }
}

fn quote(text: &str, line: &mut String) {
    if text.contains(['"', ',', '\n', '\r']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

fn synced(file: BufWriter<File>) -> Result<(), String> {
    let file = file.into_inner().map_err(|error: io::IntoInnerError<_>| error.to_string())?;
    file.sync_all().map_err(|error| error.to_string())
}
