//! `feedmill replay`: today's handlers over yesterday's bytes.

use serde_json::json;

use super::article::{Since, window};
use super::meter::Line;
use super::out::Out;
use super::{Context, Failure, text};
use crate::app;
use crate::app::replay::{Changes, Replay, Wanted};
use crate::config::Level;
use crate::model::Kind;

/// Reads archived responses again, and shows and keeps what is different
///
/// No request is made, and nothing changes about when addresses come up. Pages that entries newly
/// link to are not asked for. A second replay finds nothing to change.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill replay --source example.com --since 7d --dry-run
  feedmill replay --source example.com --since 30d --kind article --yes")]
pub(super) struct Args {
    /// The name or id of the source
    #[arg(long)]
    source: String,
    /// Those that came within this time (2h) or since this time (2026-01-31T00:00:00Z)
    #[arg(long, value_name = "SPAN|TIME")]
    since: Since,
    /// Those that came before this time
    #[arg(long, value_name = "SPAN|TIME")]
    until: Option<Since>,
    /// Only feeds, or only articles
    #[arg(long, value_parser = kind)]
    kind: Option<Kind>,
    /// Only shows what would change
    #[arg(long)]
    dry_run: bool,
    /// Does not ask
    #[arg(long)]
    yes: bool,
}

fn kind(text: &str) -> Result<Kind, String> {
    match text.parse() {
        Ok(kind @ (Kind::Feed | Kind::Article)) => Ok(kind),
        _ => Err("write feed or article".to_owned()),
    }
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let now = context.clock.now();
    let (_, until) = window(Some(args.since), args.until, now)?;
    let loaded = context.load()?;
    context.log(&loaded, Level::Warn, None);
    let config = &loaded.config;
    let store = context.store().await?;
    let (source, _) = store.source(&args.source).await?;
    let wanted = Wanted { kind: args.kind, since: args.since.from(now), until, source };
    let replay = Replay::new(config, store, app::reader(config)?);
    let mut line = Line::new(context);
    let mut watch = |documents| line.tell(format!("{} read", text::count(documents, "document")));
    let changes = replay.survey(&wanted, &mut watch).await?;
    line.clear();
    let name = &wanted.source.spec.name;
    if args.dry_run || changes.is_empty() {
        let value = json!({ "source": name, "changes": changes, "applied": 0 });
        return context.out.emit(&value, |out| told(name, &changes, out));
    }
    context.out.note(&told(name, &changes, &context.out));
    context.out.confirm(args.yes, &format!("change {}", text::number(changes.count())))?;
    let mut line = Line::new(context);
    let mut watch = |documents| line.tell(format!("{} kept", text::count(documents, "document")));
    let applied = replay.apply(&wanted, &mut watch).await?;
    line.clear();
    let value = json!({ "source": name, "changes": changes, "applied": applied });
    context.out.done(&value, &format!("changed {}", text::number(applied)))
}

fn told(source: &str, changes: &Changes, out: &Out) -> String {
    let documents = text::count(changes.documents, "document");
    let gone = match changes.gone {
        0 => String::new(),
        gone => format!(", {} no longer kept", text::number(gone)),
    };
    let source = text::one_line(source);
    let head = format!("{source}: {documents} read{gone}");
    let kinds = [("entries", changes.entries), ("articles", changes.articles)];
    let rows = kinds.map(|(name, tally)| {
        [
            name.to_owned(),
            text::number(tally.new),
            text::number(tally.changed),
            text::number(tally.lost),
        ]
    });
    let rows = rows.into_iter().chain(changes.fields.iter().map(|(name, fields)| {
        let name = format!("  {name}");
        [name, text::number(fields.gained), text::number(fields.changed), text::number(fields.lost)]
    }));
    if changes.is_empty() && changes.entries.lost + changes.articles.lost == 0 {
        return format!("{head}; nothing is different");
    }
    format!("{head}\n\n{}", out.table(["what", "new", "changed", "lost"], rows.collect()))
}
