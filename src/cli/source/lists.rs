//! `feedmill source import` and `export`: lists of sources, in and out.

use bytes::Bytes;
use feedmill_formats::url::{self as web, Url};

use super::super::meter::Line as Meter;
use super::super::{Context, Failure, document, text};
use super::rehearse;
use crate::app::import::{self, ImportError, ImportOptions, Report, Row};
use crate::app::{self, lists::Synced};
use crate::config::Config;
use crate::fetch::Guard;
use crate::sources::lists::{self, Format, List};
use crate::sources::plan::Followed;
use crate::sources::specify;

/// Rows of one kind that are told in full.
const SHOWN: usize = 50;

/// Adds the sources of a list
///
/// The list may be OPML, a table (CSV) whose first line names its columns, JSON, or plain addresses, one
/// in a line; which of them is told by its content. What is followed already is left alone, so that a
/// list can be imported again at any time: only what is missing is added. Nothing is fetched by the
/// import itself: new sources are polled by the engine, a long list one after another.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Columns of a table, in any order: name, url (the home page), feed_url, sitemap_url, category, tags,
priority, rate_limit, ingestion_mode, poll_interval and more; docs/OPERATIONS.md has them all.

Examples:
  feedmill source import subscriptions.opml
  feedmill source import publishers.csv --strict
  feedmill --data-dir old source export --format json | feedmill source import -")]
pub(in crate::cli) struct Import {
    /// The list, or - for standard input
    file: String,
    /// How it is written: opml, csv, json or urls [default: what it looks like]
    #[arg(long)]
    format: Option<Format>,
    /// Adds nothing at all when a row cannot be followed
    #[arg(long)]
    strict: bool,
    /// Shows what would be found and what it would cost, and stores nothing
    #[arg(long)]
    rehearse: bool,
}

/// Prints all sources as a list
///
/// JSON is whole but for secrets, and can be imported again as it is. A table has all but headers and
/// proxies, OPML has the feeds with their names and labels, and urls only the addresses.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Export {
    /// How it is written: opml, csv, json or urls
    #[arg(long, default_value = "opml")]
    format: Format,
    /// Writes cells of a table as they are, also those that spreadsheets take for formulas
    #[arg(long)]
    raw_cells: bool,
}

/// Adds the sources of a list; those that are followed already are left alone.
pub(super) async fn import(args: &Import, context: &Context) -> Result<(), Failure> {
    let body = Bytes::from(document::local_up_to(&args.file, lists::MAX_BYTES)?);
    let unreadable = |error: &lists::ListError| {
        Failure::failed(error.code(), format!("{error}; nothing was added"))
    };
    let config = context.load()?.config;
    let guard = Guard::new(&config.fetch);
    let permit = move |url: &Url| guard.check_url(url).map_err(|refusal| refusal.to_string());
    if args.rehearse {
        let list = lists::read(&body, args.format).map_err(|error| unreadable(&error))?;
        drop(body);
        return rehearsed(list, &permit, &config, context).await;
    }
    // What cannot be read makes no store.
    let total = match lists::ListText::open(&body, args.format) {
        Ok(list) => text::number(list.rows as u64),
        Err(error) => return Err(unreadable(&error)),
    };
    let store = context.store_or_new().await?;
    let import = async |dry_run, watch: &mut (dyn FnMut(u64) + Send)| {
        let (guard, now) = (Guard::new(&config.fetch), context.clock.now());
        let permit = move |url: &Url| guard.check_url(url).map_err(|refusal| refusal.to_string());
        let followed = Followed::of(&store.sources().await?, app::key_rules(&config));
        let format = args.format;
        let options = ImportOptions { format, dry_run, max_rows: lists::MAX_ROWS, now };
        let imported = import::import(&*store, body.clone(), followed, permit, options, watch);
        imported.await.map_err(|error| match error {
            ImportError::List(error) => unreadable(&error),
            ImportError::Source(error) => error.into(),
            ImportError::Reader => Failure::failed("reader", error.to_string()),
        })
    };
    if args.strict {
        let mut report = import(true, &mut |_| {}).await?;
        if report.refused > 0 {
            report.rows.retain(|row| row.result == "refused");
            report.added = 0;
            context.out.emit(&report, |_| told(&report))?;
            let message = "nothing was added: not every row can be followed, and --strict was said";
            return Err(Failure::failed("refused_rows", message));
        }
    }
    let mut progress = Meter::new(context);
    let mut watch = |done| progress.tell(format!("{} of {total} sources", text::number(done)));
    let report = import(false, &mut watch).await?;
    progress.clear();
    context.out.emit(&report, |_| told(&report))?;
    match (report.added + report.known, report.refused) {
        (0, 1..) => Err(Failure::failed("all_refused", "none of the rows could be followed")),
        _ => Ok(()),
    }
}

/// Shows what the rows that can be followed would bring; what is wrong with the others is noted.
async fn rehearsed(
    list: List,
    permit: &impl Fn(&Url) -> Result<(), String>,
    config: &Config,
    context: &Context,
) -> Result<(), Failure> {
    let rows = list.rows.into_iter().map(|row| {
        let specified = |entry: lists::Entry| {
            specify(&entry.wanted(), permit).map_err(|error| error.to_string())
        };
        (row.line, row.entry.and_then(specified))
    });
    rehearse::run(rows.collect(), config, context).await
}

fn told(report: &Report) -> String {
    let added = text::count(report.added, "source");
    let [known, refused] = [report.known, report.refused].map(text::number);
    let mut told = format!("{added} added, {known} followed already, {refused} refused");
    for result in ["renamed", "known", "refused"] {
        let rows: Vec<_> = report.rows.iter().filter(|row| row.result == result).collect();
        for row in rows.iter().take(SHOWN) {
            told.push_str(&format!("\n  line {}: {result}: {}", row.line, about(row)));
        }
        if let Some(more @ 1..) = rows.len().checked_sub(SHOWN) {
            let more = text::number(more as u64);
            told.push_str(&format!("\n  and {more} more {result}, which --json lists"));
        }
    }
    for note in &report.notes {
        told.push_str(&format!("\nnote: {}", text::one_line(note)));
    }
    told
}

fn about(row: &Row) -> String {
    let (name, reason) = (row.name.as_deref(), row.reason.as_deref().unwrap_or_default());
    let address = row.address.as_deref().map(web::without_credentials).unwrap_or_default();
    let told = match (row.result, name) {
        ("known", Some(name)) => format!("{address} is followed by {name}"),
        ("renamed", Some(name)) => format!("{name}: {reason}"),
        _ if address.is_empty() || reason.contains(&address) => reason.to_owned(),
        _ => format!("{address}: {reason}"),
    };
    text::shortened(&text::one_line(&told), 400)
}

/// Prints all sources as a list.
pub(super) async fn export(args: &Export, context: &Context) -> Result<(), Failure> {
    let sources = context.store().await?.sources().await?;
    let written = |format| lists::write(&sources, format, args.raw_cells);
    let feedless = sources.iter().filter(|source| source.spec.feed_urls.is_empty()).count();
    if args.format == Format::Opml && feedless > 0 {
        let count = text::count(feedless as u64, "source");
        context.out.note(&format!("{count} without feeds left out: OPML has room for feeds alone; --format csv or json has all"));
    }
    let value: serde_json::Value = serde_json::from_str(&written(Format::Json))
        .map_err(|error| Failure::failed("json", error.to_string()))?;
    context.out.document(&value, &written(args.format))
}

/// Follows the lists of the configuration once.
pub(super) async fn sync(context: &Context) -> Result<(), Failure> {
    let config = context.load()?.config;
    let store = context.store_or_new().await?;
    let synced = app::lists::follow(&config, &*store, &context.clock)
        .await
        .map_err(|error| Failure::failed(error.code(), error.to_string()))?;
    context.out.emit(&synced, |_| {
        let Synced { added, changed, enabled, disabled, submitted, left } = &synced;
        let mut told = format!(
            "{} added, {changed} changed, {enabled} enabled, {disabled} disabled; {} new addresses",
            text::count(*added, "source"),
            text::number(*submitted),
        );
        for reason in left {
            told.push_str(&format!("\nleft alone: {}", text::one_line(reason)));
        }
        told
    })
}
