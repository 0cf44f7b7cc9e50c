//! `feedmill forget`: takedowns.

use std::sync::Arc;

use serde_json::json;

use super::meter::Line;
use super::out::{Out, Shown, Tone};
use super::{Context, Failure, text};
use crate::app::forget::{self, Bytes, ForgetError};
use crate::model::{Scope, Takedown};
use crate::store::Store;
use crate::store::takedown::Doomed;

/// Articles that a dry run names.
const NAMED: usize = 20;

/// Takes down an address, a host or all of a source, for good
///
/// Articles, what feeds say of them and what was served go, every sink is told, and nothing of it is
/// taken in again until --undo. The record of who wanted it and why stays. A host means all hosts below
/// it as well. What feeds served stays in the archive, because it also holds what others wrote; with a
/// host or source its own feeds go too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill forget https://example.com/story --why 'request of the author, ticket 812'
  feedmill forget example.com --scope host --why 'court order' --dry-run
  feedmill forget --list
  feedmill forget https://example.com/story --undo")]
pub(super) struct Args {
    /// An address, a host, or the name or id of a source
    #[arg(value_name = "URL|HOST|SOURCE", required_unless_present = "list")]
    what: Option<String>,
    /// Why, for the record
    #[arg(long, required_unless_present_any = ["list", "undo", "dry_run"])]
    why: Option<String>,
    /// Who wants it, for the record [default: the user who is logged in]
    #[arg(long)]
    by: Option<String>,
    /// What the name stands for, where it could be several: address, host or source
    #[arg(long)]
    scope: Option<Scope>,
    /// Only shows what would go
    #[arg(long)]
    dry_run: bool,
    /// Does not ask
    #[arg(long)]
    yes: bool,
    /// Lists all takedowns, the last one first
    #[arg(long, conflicts_with_all = ["what", "undo"])]
    list: bool,
    /// Refuses it no more; what went does not come back
    #[arg(long, conflicts_with = "dry_run")]
    undo: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let Some(what) = args.what.as_deref().filter(|_| !args.list) else {
        let all = store.takedowns().await?;
        let waiting = store.erasures(None, usize::MAX).await?.len();
        let told = json!({ "takedowns": all, "records_waiting": waiting });
        return context.out.emit(&told, |out| table(&all, waiting, out));
    };
    let by = args.by.clone().unwrap_or_else(user);
    if args.undo {
        let lifted = forget::undo(&*store, what, args.scope, &by).await?;
        let words = format!("{} is no longer refused; what went does not come back", lifted.name);
        return context.out.done(&lifted, &words);
    }
    let meant = forget::resolve(&*store, what, args.scope).await?;
    let doomed = store.doomed(meant.target.clone()).await?;
    if args.dry_run {
        return show(&doomed, &*store, context).await;
    }
    let question = format!("Take down {} ({})", text::one_line(&meant.name), counts(&doomed));
    context.out.confirm(args.yes, &question)?;
    let why = args.why.as_deref().unwrap_or_default().trim();
    if why.is_empty() {
        return Err(Failure::usage("no_reason", "say why: --why goes into the record"));
    }
    let config = context.load()?.config;
    let mut line = Line::new(context);
    let mut gone = 0;
    let watch = &mut |part: &Doomed| {
        gone += part.articles.len() + part.entries.len() + part.fetches.len();
        line.tell(format!("{gone} removed"));
    };
    let takedown = forget::forget(&*store, &meant, (&by, why), watch).await?;
    line.clear();
    let bytes = forget::erase(&config, &context.clock, Arc::clone(&store)).await?;
    context.out.done(&json!({ "takedown": takedown, "bytes": bytes }), &told(&takedown, bytes))
}

impl From<ForgetError> for Failure {
    fn from(error: ForgetError) -> Self {
        match error {
            ForgetError::Source(error) => error.into(),
            ForgetError::Db(error) => error.into(),
            error => Self::usage(error.code(), error.to_string()),
        }
    }
}

/// Who is logged in.
fn user() -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    named.unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()))
}

fn counts(doomed: &Doomed) -> String {
    let (articles, entries) = (doomed.articles.len() as u64, doomed.entries.len() as u64);
    format!(
        "{}, {}, {}",
        text::count(articles, "article"),
        if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") },
        text::count(doomed.fetches.len() as u64, "record")
    )
}

async fn show(doomed: &Doomed, store: &dyn Store, context: &Context) -> Result<(), Failure> {
    let mut named = Vec::new();
    for id in doomed.articles.iter().take(NAMED) {
        named.extend(store.article(*id).await?.map(|(row, _)| row.article.url));
    }
    context.out.emit(doomed, |_| {
        let more = doomed.articles.len().saturating_sub(named.len());
        let more = (more > 0).then(|| format!("  and {more} more"));
        let urls = named.iter().map(|url| format!("  {}", text::one_line(url)));
        let head = std::iter::once(format!("would go: {}", counts(doomed)));
        head.chain(urls).chain(more).collect::<Vec<_>>().join("\n")
    })
}

fn told(takedown: &Takedown, bytes: Bytes) -> String {
    let Takedown { name, articles, entries, records, .. } = takedown;
    let archive = match bytes {
        Bytes::Gone => "nothing of it is in the archive",
        Bytes::LeftToTheEngine => "the engine takes it out of the archive within some minutes",
        Bytes::Elsewhere => "other machines' engines take it out of their archives",
    };
    format!(
        "{} is taken down: {}, {} and {} went; {archive}; it is refused from now on",
        text::one_line(name),
        text::count(*articles, "article"),
        if *entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") },
        text::count(*records, "record"),
    )
}

fn table(all: &[Takedown], waiting: usize, out: &Out) -> String {
    if all.is_empty() {
        return "nothing was ever taken down".to_owned();
    }
    let rows = all.iter().map(|one| {
        let state = match (one.lifted_at, one.done_at) {
            (Some(at), _) => {
                let by = one.lifted_by.as_deref().unwrap_or_default();
                Shown::painted(Tone::Careful, &format!("lifted {at} by {by}"))
            }
            (None, Some(_)) => Shown::painted(Tone::Good, "refused"),
            (None, None) => Shown::painted(Tone::Bad, "unfinished"),
        };
        [
            one.at.to_string().into(),
            one.scope.to_string().into(),
            Shown::from(&one.name),
            state,
            one.articles.to_string().into(),
            one.entries.to_string().into(),
            one.records.to_string().into(),
            Shown::from(&one.by),
            Shown::from(&one.why),
        ]
    });
    let head = ["at", "scope", "what", "state", "articles", "entries", "records", "by", "why"];
    let mut told = out.table(head, rows.collect());
    if waiting > 0 {
        let records = text::count(waiting as u64, "record");
        told.push_str(&format!("\n{records} of the archive wait for an engine to take them out"));
    }
    told
}
