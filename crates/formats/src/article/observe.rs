//! What the models are told about a page, for those who train them.

use super::candidates::{self, Judge};
use super::dates::Days;
use super::features::Row;
use super::title::SiteNames;
use super::{Evidence, Reading, authors};

/// The features of a table, by name.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The names of the columns.
    pub names: Vec<&'static str>,
    /// A row for each thing.
    pub rows: Vec<Vec<f32>>,
}

/// A page as the models see it.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// What it is called.
    pub title: String,
    /// The texts of its blocks.
    pub texts: Vec<String>,
    /// The features of its blocks.
    pub blocks: Table,
    /// The ranges of blocks of its candidates.
    pub ranges: Vec<std::ops::Range<usize>>,
    /// The features of its candidates.
    pub candidates: Table,
    /// Lists of names that may be its authors.
    pub authors: Vec<Vec<String>>,
    /// The features of those.
    pub author_rows: Table,
    /// Days that may be its own.
    pub days: Vec<String>,
    /// The features of those.
    pub day_rows: Table,
}

/// Observes a page; nothing when it cannot be read.
#[must_use]
pub fn observe(html: &str, url: &str) -> Observed {
    let evidence = Evidence::default();
    let Ok(reading) = Reading::new(html, url, &evidence) else { return Observed::default() };
    let sheet = reading.sheet(&evidence);
    let mut row = Row::new(Some(Vec::new()));
    let mut observed = Observed { title: reading.title(&evidence), ..Observed::default() };
    for (index, block) in reading.page.blocks.iter().enumerate() {
        observed.texts.push(reading.page.text(block).to_owned());
        sheet.tell(index, &mut row);
        observed.blocks.add(&row);
    }
    let found = candidates::find(&sheet);
    let judge = Judge::new(&sheet);
    for candidate in &found {
        judge.tell(candidate, found.len(), &mut row);
        observed.ranges.push(candidate.blocks.clone());
        observed.candidates.add(&row);
    }
    let site = SiteNames::of(&reading.declared, reading.base.as_ref());
    let names = authors::collect(&reading.declared, &reading.page, &evidence);
    for candidate in &names {
        authors::tell(candidate, &names, &site, &mut row);
        observed.authors.push(candidate.names.clone());
        observed.author_rows.add(&row);
    }
    let days = Days::collect(&reading.declared, &reading.page, url, &evidence);
    for candidate in &days.candidates {
        days.tell(candidate, &mut row);
        observed.days.push(candidate.day.to_string());
        observed.day_rows.add(&row);
    }
    observed
}

impl Table {
    fn add(&mut self, row: &Row) {
        if let Some(names) = row.names.as_ref().filter(|_| self.names.is_empty()) {
            self.names.clone_from(names);
        }
        self.rows.push(row.told().to_vec());
    }
}
