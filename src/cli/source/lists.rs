//! `feedmill source import` and `export`: lists of sources, in and out.

use feedmill_formats::url::{self as web, Url};
use futures_util::{StreamExt, stream};
use serde::Serialize;

use super::super::meter::Line as Meter;
use super::super::{Context, Failure, document, text};
use super::rehearse;
use crate::app::{self, lists::Synced};
use crate::config::Config;
use crate::fetch::Guard;
use crate::model::{Admission, Ts};
use crate::sources::lists::{self, Format, List};
use crate::sources::plan::{Followed, Verdict};
use crate::sources::specify;
use crate::store::{SourceError, Store};

/// Sources on their way into the store at a time; those that wait together share a transaction.
const ABREAST: usize = 256;
/// So many are polled at once; of a longer list, the others begin one after another.
const AT_ONCE: usize = 20;
/// Between the first polls of two of those, in milliseconds.
const APART: i64 = 50;
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
}

/// What became of a row.
#[derive(Debug, Serialize)]
struct Told {
    line: u64,
    result: &'static str,
    /// The source that was added, or has it already.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What became of a list.
#[derive(Debug, Serialize)]
struct Report {
    format: Format,
    added: u64,
    known: u64,
    refused: u64,
    /// What of the list means nothing here.
    notes: Vec<String>,
    rows: Vec<Told>,
}

/// Adds the sources of a list; those that are followed already are left alone.
pub(super) async fn import(args: &Import, context: &Context) -> Result<(), Failure> {
    let body = document::local(&args.file)?;
    let list = lists::read(&body, args.format)
        .map_err(|error| Failure::failed(error.code(), format!("{error}; nothing was added")))?;
    drop(body);
    let config = context.load()?.config;
    let guard = Guard::new(&config.fetch);
    let permit = |url: &Url| guard.check_url(url).map_err(|refusal| refusal.to_string());
    if args.rehearse {
        return rehearsed(list, permit, &config, context).await;
    }
    let store = context.store_or_new().await?;
    let mut followed = Followed::of(&store.sources().await?, app::key_rules(&config));
    let (mut report, mut new) = judge(list, &mut followed, permit);
    if args.strict && report.refused > 0 {
        report.rows.retain(|row| row.result == "refused");
        report.added = 0;
        context.out.emit(&report, |_| report.told())?;
        let message = "nothing was added: not every row can be followed, and --strict was said";
        return Err(Failure::failed("refused_rows", message));
    }
    spread(&mut new, context.clock.now());
    admit(&*store, new, &mut report, context).await?;
    context.out.emit(&report, |_| report.told())?;
    match (report.added + report.known, report.refused) {
        (0, 1..) => Err(Failure::failed("all_refused", "none of the rows could be followed")),
        _ => Ok(()),
    }
}

/// Shows what the rows that can be followed would bring; what is wrong with the others is noted.
async fn rehearsed(
    list: List,
    permit: impl Fn(&Url) -> Result<(), String> + Copy,
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

/// Sources to add, each with its place in the report.
type New = Vec<(usize, Admission)>;

fn judge(
    list: List,
    followed: &mut Followed,
    permit: impl Fn(&Url) -> Result<(), String> + Copy,
) -> (Report, New) {
    let (mut rows, mut new) = (Vec::with_capacity(list.rows.len()), Vec::new());
    for row in list.rows {
        let line = row.line;
        let refused = |address, reason| Told {
            line,
            result: "refused",
            name: None,
            address,
            reason: Some(reason),
        };
        let entry = match row.entry {
            Ok(entry) => entry,
            Err(reason) => {
                rows.push(refused(None, reason));
                continue;
            }
        };
        rows.push(match followed.judge(&entry, permit) {
            Verdict::Refused { address, reason, .. } => refused(address, reason),
            Verdict::Known { by, address } => {
                Told { line, result: "known", name: Some(by), address: Some(address), reason: None }
            }
            Verdict::Add { new: admission, instead_of } => {
                let name = Some(admission.spec.name.clone());
                new.push((rows.len(), *admission));
                let result = if instead_of.is_some() { "renamed" } else { "added" };
                let reason = instead_of.map(|title| format!("{title} is another source's name"));
                Told { line, result, name, address: None, reason }
            }
        });
    }
    let count = |result: &str| rows.iter().filter(|row| row.result == result).count() as u64;
    let report = Report {
        format: list.format,
        added: new.len() as u64,
        known: count("known"),
        refused: count("refused"),
        notes: list.notes,
        rows,
    };
    (report, new)
}

/// Lets the first polls of a long list begin one after another.
fn spread(new: &mut New, now: Ts) {
    for (at, (_, admission)) in new.iter_mut().enumerate().skip(AT_ONCE) {
        let after = i64::try_from(at).unwrap_or(i64::MAX).saturating_mul(APART);
        admission.first_poll = Some(Ts::from_ms(now.ms().saturating_add(after)));
    }
}

/// Brings sources into the store, each whole or not at all.
async fn admit(
    store: &dyn Store,
    new: New,
    report: &mut Report,
    context: &Context,
) -> Result<(), Failure> {
    let (total, mut done) = (new.len() as u64, 0);
    let mut progress = Meter::new(context);
    let adding =
        new.into_iter().map(|(at, new)| async move { (at, store.admit_source(new).await) });
    let mut adding = stream::iter(adding).buffered(ABREAST);
    while let Some((at, added)) = adding.next().await {
        done += 1;
        progress.tell(format!("{} of {} sources", text::number(done), text::number(total)));
        match added {
            Ok(_) => {}
            Err(SourceError::NameTaken(name)) => {
                report.added -= 1;
                report.refused += 1;
                if let Some(row) = report.rows.get_mut(at) {
                    let reason = format!("{name} was taken as a name meanwhile; import again");
                    (row.result, row.name, row.reason) = ("refused", None, Some(reason));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    progress.clear();
    Ok(())
}

impl Report {
    fn told(&self) -> String {
        let added = text::count(self.added, "source");
        let [known, refused] = [self.known, self.refused].map(text::number);
        let mut told = format!("{added} added, {known} followed already, {refused} refused");
        for result in ["renamed", "known", "refused"] {
            let rows: Vec<_> = self.rows.iter().filter(|row| row.result == result).collect();
            for row in rows.iter().take(SHOWN) {
                told.push_str(&format!("\n  line {}: {result}: {}", row.line, row.told()));
            }
            if let Some(more @ 1..) = rows.len().checked_sub(SHOWN) {
                let more = text::number(more as u64);
                told.push_str(&format!("\n  and {more} more {result}, which --json lists"));
            }
        }
        for note in &self.notes {
            told.push_str(&format!("\nnote: {}", text::one_line(note)));
        }
        told
    }
}

impl Told {
    fn told(&self) -> String {
        let (name, reason) = (self.name.as_deref(), self.reason.as_deref().unwrap_or_default());
        let address = self.address.as_deref().map(web::without_credentials).unwrap_or_default();
        let told = match (self.result, name) {
            ("known", Some(name)) => format!("{address} is followed by {name}"),
            ("renamed", Some(name)) => format!("{name}: {reason}"),
            _ if address.is_empty() || reason.contains(&address) => reason.to_owned(),
            _ => format!("{address}: {reason}"),
        };
        text::shortened(&text::one_line(&told), 400)
    }
}

/// Prints all sources as a list.
pub(super) async fn export(args: &Export, context: &Context) -> Result<(), Failure> {
    let sources = context.store().await?.sources().await?;
    let written = |format| lists::write(&sources, format);
    let feedless = sources.iter().filter(|source| source.spec.feed_urls.is_empty()).count();
    if args.format == Format::Opml && feedless > 0 {
        let count = text::count(feedless as u64, "source");
        context.out.note(&format!("{count} without feeds left out: OPML has room for feeds alone; --format csv or json has all"));
    }
    let value: serde_json::Value = serde_json::from_str(&written(Format::Json))
        .map_err(|error| Failure::failed("json", error.to_string()))?;
    context.out.emit(&value, |_| written(args.format).trim_end().to_owned())
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
