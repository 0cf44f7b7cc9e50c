//! `feedmill export`: articles as one file.

use std::path::PathBuf;

use clap::ValueEnum;

use super::article::{Since, window};
use super::meter::Line;
use super::{Context, Failure, text};
use crate::app::export::{self, Form, Format, Selection};
use crate::app::{self, raw};
use crate::config::FileMode;
use crate::store::{DamagedRow, FetchFilter};

/// Damaged articles that are told in full.
const SHOWN: usize = 20;

/// Writes articles to one file: NDJSON, CSV, Parquet, SQLite, or what was served as WARC
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill export --out articles.parquet
  feedmill export --out week.csv --source example --since 7d
  feedmill export --format warc --out served.warc.gz --since 2026-11-01T00:00:00Z")]
pub(super) struct Args {
    /// How to write it [default: as the file's name ends]
    #[arg(long, value_enum)]
    format: Option<Kind>,
    /// Only those of the source with this name or id
    #[arg(long)]
    source: Option<String>,
    /// Only those that came within this time (2h) or since this time (2026-01-31T00:00:00Z)
    #[arg(long, value_name = "SPAN|TIME")]
    since: Option<Since>,
    /// Only those that came before this time
    #[arg(long, value_name = "SPAN|TIME")]
    until: Option<Since>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Permissions of the file, such as 0644 where everybody may read it
    #[arg(long, value_name = "MODE", default_value_t)]
    mode: FileMode,
    /// Writes cells of a table as they are, also those that spreadsheets take for formulas
    #[arg(long)]
    raw_cells: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Ndjson,
    Csv,
    Parquet,
    Warc,
    Sqlite,
}

impl Kind {
    /// What a file's name says.
    fn of(name: &str) -> Option<Self> {
        let endings: [(&[&str], Self); 5] = [
            (&[".ndjson", ".jsonl"], Self::Ndjson),
            (&[".csv"], Self::Csv),
            (&[".parquet"], Self::Parquet),
            (&[".warc.gz"], Self::Warc),
            (&[".sqlite", ".db", ".sqlite3"], Self::Sqlite),
        ];
        let ends = |list: &[&str]| list.iter().any(|ending| name.ends_with(ending));
        endings.into_iter().find(|(list, _)| ends(list)).map(|(_, kind)| kind)
    }
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let name = args.out.to_string_lossy().to_lowercase();
    let Some(kind) = args.format.or_else(|| Kind::of(&name)) else {
        let message = "the file's name tells no format: add --format ndjson, csv, parquet, warc or \
                       sqlite";
        return Err(Failure::usage("no_format", message));
    };
    let now = context.clock.now();
    let (since, until) = window(args.since, args.until, now)?;
    let config = context.load()?.config;
    let store = context.store().await?;
    let source = match &args.source {
        Some(name) => Some(store.source(name).await?.0),
        None => None,
    };
    let mut line = Line::new(context);
    let file = text::path(&args.out);
    let format = match kind {
        Kind::Ndjson => Format::Ndjson,
        Kind::Csv => Format::Csv,
        Kind::Parquet => Format::Parquet,
        Kind::Sqlite => Format::Sqlite,
        Kind::Warc => {
            let source = source.map(|source| source.id);
            let filter = FetchFilter { source, since, until, ..FetchFilter::default() };
            let mut watch = |n| line.tell(format!("{} written", text::count(n, "response")));
            let (agent, reader) = (config.user_agent(), app::reader(&config)?);
            let by = (agent.as_str(), now);
            let out = (args.out.as_path(), args.mode.bits());
            let done = raw::export(&*store, &reader, filter, by, out, &mut watch).await?;
            line.clear();
            let count = text::count(done.records, "response");
            let bytes = text::bytes(done.bytes);
            return context.out.done(&done, &format!("wrote {count} to {file} ({bytes})"));
        }
    };
    let source = source.map(|source| source.uuid);
    let selection = Selection { source, since, until };
    let mut watch = |n| line.tell(format!("{} written", text::count(n, "article")));
    let form = Form { format, mode: args.mode.bits(), raw_cells: args.raw_cells };
    let done = export::export(&*store, selection, form, &args.out, &mut watch)
        .await
        .map_err(|error| Failure::failed(error.code(), error.to_string()))?;
    line.clear();
    let (count, bytes) = (text::count(done.articles, "article"), text::bytes(done.bytes));
    context.out.done(&done, &format!("wrote {count} to {file} ({bytes})"))?;
    skipped(&done.damaged)
}

/// Fails when articles could not be written because their rows are damaged.
fn skipped(damaged: &[DamagedRow]) -> Result<(), Failure> {
    if damaged.is_empty() {
        return Ok(());
    }
    let count = text::count(damaged.len() as u64, "damaged article");
    let mut message = format!(
        "skipped {count}: `feedmill replay` restores them from the archive, then export again"
    );
    for row in damaged.iter().take(SHOWN) {
        message.push_str(&format!("\n{}", text::one_line(&row.to_string())));
    }
    if let Some(more @ 1..) = damaged.len().checked_sub(SHOWN) {
        message.push_str(&format!("\nand {} more, which --json lists", text::number(more as u64)));
    }
    Err(Failure::failed("damaged_rows", message))
}
