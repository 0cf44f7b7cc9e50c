//! `feedmill raw`: what came back, byte for byte.

use std::path::PathBuf;

use clap::Subcommand;
use feedmill_formats::decode;
use serde_json::json;

use super::article::{Since, window};
use super::meter::Line;
use super::{Context, Failure, select, text};
use crate::app::{self, keep, raw};
use crate::archive::{Stored, Why};
use crate::config::{FileMode, Level};
use crate::model::{FetchId, FetchRecord};
use crate::store::{FetchFilter, Store};

/// Shows, hands out and checks responses as they came
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Show(Show),
    Export(Export),
    Verify(Verify),
    Prune(Prune),
}

/// Shows a response as it came
///
/// Of an address it is the last one that is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill raw show https://example.com/story
  feedmill raw show https://example.com/feed.xml --decoded > feed.xml
  feedmill raw show 01982d7e-3a52-7cc0-a0d0-6a1f3e1f7a11 --headers")]
pub(super) struct Show {
    /// The id of a fetch, or an address
    #[arg(value_name = "FETCH|URL")]
    what: String,
    /// Prints the headers of the request and of the response
    #[arg(long, group = "part")]
    headers: bool,
    /// Writes the body as it came
    #[arg(long, group = "part")]
    body: bool,
    /// Writes the body without its content coding
    #[arg(long, group = "part")]
    decoded: bool,
}

/// Writes responses to a WARC file of their own
///
/// The file needs no other: a response whose body was the same as an earlier one has it here.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill raw export --source example.com --since 7d --out week.warc.gz
  feedmill raw export --since 2026-01-31T00:00:00Z --until 2026-02-01T00:00:00Z --out day.warc.gz")]
pub(super) struct Export {
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
    #[arg(long, value_name = "FILE.warc.gz")]
    out: PathBuf,
    /// Permissions of the file, such as 0644 where everybody may read it
    #[arg(long, value_name = "MODE", default_value_t)]
    mode: FileMode,
}

/// Reads every record and compares it with its digest and with the index
///
/// It ends with 1 when anything is missing or is not what was written.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    /// Only this segment
    #[arg(long, value_name = "NAME")]
    segment: Option<String>,
}

/// Removes responses that are no longer kept
///
/// An engine does this by itself, once an hour. What is kept is set by `retention.raw_age`,
/// `retention.raw_per_feed` and `retention.raw_size`.
#[derive(Debug, clap::Args)]
pub(super) struct Prune {
    /// Only shows what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Does not ask
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Show(args) => show(args, context).await,
        Command::Export(args) => export(args, context).await,
        Command::Verify(args) => verify(args, context).await,
        Command::Prune(args) => prune(args, context).await,
    }
}

async fn show(args: &Show, context: &Context) -> Result<(), Failure> {
    let config = context.load()?.config;
    let store = context.store().await?;
    let fetch = find(&args.what, &*store).await?;
    let Some(place) = &fetch.raw else { return Err(not_kept(&fetch)) };
    let stored = app::reader(&config)?.stored(place).await?;
    if args.body {
        return context.out.bytes(&stored.body);
    }
    if args.decoded {
        let (coding, limit) = (stored.head.get("content-encoding"), config.fetch.max_decoded);
        let body = decode::capped(&stored.body, coding, limit.as_len())
            .map_err(|error| Failure::failed(error.code(), error.to_string()))?;
        return context.out.bytes(&body);
    }
    let asked = stored.request.as_ref().and_then(|request| request.http());
    let value = json!({
        "fetch": fetch,
        "record": stored.fields.iter().collect::<Vec<_>>(),
        "request": asked.as_ref().map(|(head, _)| (&head.start, &head.headers)),
        "response": (&stored.head.start, &stored.head.headers),
    });
    context.out.emit(&value, |_| {
        let request = stored.request.as_ref().map(|request| request.block.as_slice());
        let heads = [request.unwrap_or_default(), &stored.head_bytes].map(String::from_utf8_lossy);
        let heads = text::plain(&heads.concat().replace("\r\n", "\n"));
        if args.headers { heads } else { format!("{}\n\n{heads}", about(&fetch, &stored)) }
    })
}

/// The fetch with this id, or the last one of an address that was answered.
async fn find(what: &str, store: &dyn Store) -> Result<FetchRecord, Failure> {
    let unknown = || {
        let message = format!(
            "no fetch is known as `{}`: `feedmill explain URL` shows those of an address",
            text::one_line(what)
        );
        Failure::failed("unknown_fetch", message)
    };
    if let Ok(id) = what.parse::<FetchId>() {
        let filter = FetchFilter { ids: vec![id], limit: 1, ..FetchFilter::default() };
        return store.find_fetches(filter).await?.pop().ok_or_else(unknown);
    }
    if store.is_refused(what).await? {
        let message = "it was taken down: `feedmill forget --list` tells by whom and why";
        return Err(Failure::failed("withdrawn", message));
    }
    let mut last: Option<FetchRecord> = None;
    for task in select::named(&[what.to_owned()], store).await? {
        let fetches = store.fetches(task, usize::MAX).await?;
        let answered = fetches.into_iter().filter(|fetch| fetch.status.is_some());
        // Better one that is kept than a later one that is not.
        last = answered.chain(last).max_by_key(|fetch| (fetch.raw.is_some(), fetch.at));
    }
    last.ok_or_else(unknown)
}

fn not_kept(fetch: &FetchRecord) -> Failure {
    let FetchRecord { id, at, .. } = fetch;
    match fetch.status {
        None => Failure::failed("no_answer", format!("fetch {id} of {at} was not answered")),
        Some(_) => {
            let message = format!(
                "the bytes of fetch {id} of {at} are no longer kept: they are older than retention.raw_age, over retention.raw_size, or were lost with their archive segment"
            );
            Failure::failed("no_longer_kept", message)
        }
    }
}

fn about(fetch: &FetchRecord, stored: &Stored) -> String {
    let place = fetch.raw.as_ref().map(|raw| format!("{} at {}", raw.segment, raw.offset));
    let same = stored.fields.get("WARC-Refers-To-Target-URI").map(|url| {
        format!("{url} of {}", stored.fields.get("WARC-Refers-To-Date").unwrap_or_default())
    });
    let facts = [
        ("fetch", Some(fetch.id.to_string())),
        ("at", Some(fetch.at.to_string())),
        ("from", stored.fields.get("WARC-IP-Address").map(str::to_owned)),
        ("body", Some(text::bytes(fetch.bytes))),
        ("cut off", stored.truncated().map(|why| why.as_str().to_owned())),
        ("same as", same),
        ("record", place),
    ];
    let lines = facts
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<9} {}", text::one_line(&value?))));
    std::iter::once(text::one_line(&fetch.url)).chain(lines).collect::<Vec<_>>().join("\n")
}

async fn export(args: &Export, context: &Context) -> Result<(), Failure> {
    let now = context.clock.now();
    let (since, until) = window(args.since, args.until, now)?;
    let config = context.load()?.config;
    let store = context.store().await?;
    let source = match &args.source {
        Some(name) => Some(store.source(name).await?.0.id),
        None => None,
    };
    let filter = FetchFilter { source, since, until, ..FetchFilter::default() };
    let mut line = Line::new(context);
    let mut watch = |records| line.tell(format!("{} written", text::count(records, "response")));
    let by = (config.user_agent(), now);
    let reader = app::reader(&config)?;
    let out = (args.out.as_path(), args.mode.bits());
    let done = raw::export(&*store, &reader, filter, (&by.0, by.1), out, &mut watch).await?;
    line.clear();
    let gone = match done.gone {
        0 => String::new(),
        gone => format!("; {} are no longer kept", text::number(gone)),
    };
    let count = text::count(done.records, "response");
    let (file, bytes) = (text::path(&args.out), text::bytes(done.bytes));
    context.out.done(&done, &format!("wrote {count} to {file} ({bytes}){gone}"))?;
    match done.unreadable.first() {
        None => Ok(()),
        Some(first) => {
            let n = text::count(done.unreadable.len() as u64, "response");
            Err(Failure::failed("unreadable", format!("{n} could not be read; the first: {first}")))
        }
    }
}

async fn verify(args: &Verify, context: &Context) -> Result<(), Failure> {
    let config = context.load()?.config;
    let store = context.store().await?;
    let mut line = Line::new(context);
    let mut watch = |segment: &str, records| {
        line.tell(format!("{segment}: {} so far", text::count(records, "record")));
    };
    let reader = app::reader(&config)?;
    let found = raw::verify(&*store, &reader, args.segment.as_deref(), &mut watch).await?;
    line.clear();
    if let Some(name) = args.segment.as_ref().filter(|_| found.segments == 0)
        && found.problems.is_empty()
    {
        let message = format!("no segment is called `{}`", text::one_line(name));
        return Err(Failure::failed("unknown_segment", message));
    }
    context.out.emit(&found, |_| {
        let mut told: Vec<String> = found
            .problems
            .iter()
            .map(|problem| {
                let at = problem.offset.map_or_else(String::new, |at| format!(" at {at}"));
                let detail = text::one_line(&problem.detail);
                format!("{}: {}{at}: {detail}", problem.code, problem.segment)
            })
            .collect();
        told.push(format!(
            "{} in {}; {} found by their fetch, {} by none",
            text::count(found.records, "record"),
            text::count(found.segments, "segment"),
            text::count(found.fetches, "answer"),
            text::number(found.unindexed),
        ));
        told.join("\n")
    })?;
    match found.problems.len() as u64 {
        0 => Ok(()),
        n => {
            Err(Failure::failed("archive_damaged", format!("{} found", text::count(n, "problem"))))
        }
    }
}

async fn prune(args: &Prune, context: &Context) -> Result<(), Failure> {
    let loaded = context.load()?;
    context.log(&loaded, Level::Warn, None);
    let store = context.store().await?;
    let plan = keep::would_prune(&loaded.config, &context.clock, &*store).await?;
    if args.dry_run || plan.segments.is_empty() {
        return context.out.emit(&plan, |out| listed(&plan, out));
    }
    context.out.preview(|out| listed(&plan, out));
    context.out.confirm(args.yes, &format!("remove {}", sum(&plan)))?;
    let done = keep::prune(&loaded.config, &context.clock, store).await?;
    context.out.done(&done, &format!("removed {}", sum(&done)))
}

fn listed(plan: &keep::Pruned, out: &super::out::Out) -> String {
    if plan.segments.is_empty() {
        return "nothing is old or too much".to_owned();
    }
    let rows = plan.segments.iter().map(|gone| {
        let why = match gone.why {
            Why::Age => "old",
            Why::Size => "too much",
        };
        [gone.segment.clone(), text::bytes(gone.bytes), why.to_owned()]
    });
    format!("{}\n\n{}", out.table(["segment", "size", "why"], rows.collect()), sum(plan))
}

fn sum(pruned: &keep::Pruned) -> String {
    let segments = text::count(pruned.segments.len() as u64, "segment");
    format!(
        "{segments} ({}) with {}; {} that feeds still need",
        text::bytes(pruned.bytes),
        text::count(pruned.fetches, "response"),
        if pruned.copied == 1 {
            "1 document is kept".to_owned()
        } else {
            format!("{} documents are kept", text::number(pruned.copied))
        },
    )
}
