//! Everything the article model is told about the pages of corpora, for `train/train.py`.
//!
//! `pages.ndjson` has a line for each page; the rows of its blocks and candidates follow each other
//! as little-endian numbers in `blocks.f32` and `candidates.f32`, those of its possible authors and days
//! are in its line, and the names of all columns in `names.json`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use feedmill_formats::article::observe::{Table, observe};
use serde_json::json;

use crate::pages;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories of corpora, each with pages/ and truth.json
    #[arg(required = true)]
    corpora: Vec<PathBuf>,
    /// Where to put the tables
    #[arg(long)]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.out)?;
    let create = |name: &str| anyhow::Ok(BufWriter::new(File::create(args.out.join(name))?));
    let (mut lines, mut blocks) = (create("pages.ndjson")?, create("blocks.f32")?);
    let mut candidates = create("candidates.f32")?;
    let mut names = serde_json::Map::new();
    for dir in &args.corpora {
        let corpus = dir.file_name().context("the corpus has no name")?.to_string_lossy();
        for page in pages::read(dir)? {
            let seen = observe(&page.html, &page.url);
            let ranges: Vec<_> = seen.ranges.iter().map(|range| (range.start, range.end)).collect();
            let line = json!({
                "corpus": corpus, "id": page.id, "url": page.url, "title": seen.title,
                "texts": seen.texts,
                "candidates": ranges, "authors": seen.authors, "author_rows": seen.author_rows.rows,
                "days": seen.days, "day_rows": seen.day_rows.rows,
            });
            writeln!(lines, "{line}")?;
            rows(&mut blocks, &seen.blocks)?;
            rows(&mut candidates, &seen.candidates)?;
            for (kind, table) in [
                ("blocks", &seen.blocks),
                ("candidates", &seen.candidates),
                ("authors", &seen.author_rows),
                ("days", &seen.day_rows),
            ] {
                if !table.names.is_empty() {
                    names.insert(kind.to_owned(), json!(table.names));
                }
            }
        }
    }
    std::fs::write(args.out.join("names.json"), serde_json::to_string(&names)?)?;
    for mut file in [lines, blocks, candidates] {
        file.flush()?;
    }
    Ok(())
}

fn rows(file: &mut impl Write, table: &Table) -> std::io::Result<()> {
    let mut numbers = table.rows.iter().flatten();
    numbers.try_for_each(|number| file.write_all(&number.to_le_bytes()))
}
