//! `feedmill replay`: today's handlers over yesterday's bytes.

use serde_json::{Value, json};

use super::article::{Since, window};
use super::meter::Line;
use super::out::Out;
use super::{Context, Failure, text};
use crate::app;
use crate::app::replay::{Changes, Replay, Wanted};
use crate::config::Level;
use crate::model::{Kind, Source, Ts};
use crate::store::Store;

/// Reads archived responses again, and shows and keeps what is different
///
/// No request is made, and nothing changes about when addresses come up. Pages that entries newly
/// link to are not asked for. A second replay finds nothing to change. When a source would get worse,
/// nothing is kept of any.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill replay --source example.com --since 7d --dry-run
  feedmill replay --kind article --max-loss 1% --yes")]
pub(super) struct Args {
    /// The name or id of a source; may be repeated [default: all sources]
    #[arg(long)]
    source: Vec<String>,
    /// Those that came within this time (2h) or since this time (2026-01-31T00:00:00Z) [default: all
    /// that are kept]
    #[arg(long, value_name = "SPAN|TIME")]
    since: Option<Since>,
    /// Those that came before this time
    #[arg(long, value_name = "SPAN|TIME")]
    until: Option<Since>,
    /// Only feeds, or only articles
    #[arg(long, value_parser = kind)]
    kind: Option<Kind>,
    /// Keeps nothing when a source loses more than this share of its entries, its articles or one of
    /// their fields
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "2%")]
    max_loss: f64,
    /// Keeps it whatever is lost
    #[arg(long)]
    force: bool,
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

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let percent = number.ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "write 0% to 100%, such as 2%".to_owned())
}

/// A source, and what reading again changes about it.
struct Report {
    wanted: Wanted,
    changes: Changes,
}

impl Report {
    fn name(&self) -> &str {
        &self.wanted.source.spec.name
    }

    fn value(&self) -> Value {
        json!({ "source": self.name(), "changes": self.changes, "loss": self.changes.loss() })
    }
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let now = context.clock.now();
    let (since, until) = window(args.since, args.until, now)?;
    let loaded = context.load()?;
    context.log(&loaded, Level::Warn, None);
    let config = &loaded.config;
    let store = context.store().await?;
    let sources = sources(&args.source, &*store).await?;
    let replay = Replay::new(config, store, app::reader(config)?);
    let since = since.unwrap_or(Ts::from_ms(0));
    let mut reports = Vec::with_capacity(sources.len());
    let mut line = Line::new(context);
    for source in sources {
        let name = text::one_line(&source.spec.name);
        let mut watch =
            |documents| line.tell(format!("{name}: {} read", text::count(documents, "document")));
        let wanted = Wanted { kind: args.kind, since, until, source };
        let changes = replay.survey(&wanted, &mut watch).await?;
        reports.push(Report { wanted, changes });
    }
    line.clear();
    let count: u64 = reports.iter().map(|report| report.changes.count()).sum();
    if args.dry_run || count == 0 {
        return context.out.emit(&value(&reports, 0), |out| told(&reports, out));
    }
    context.out.preview(|out| told(&reports, out));
    if !args.force {
        refuse(&reports, args.max_loss)?;
    }
    context.out.confirm(args.yes, &format!("change {}", text::number(count)))?;
    let mut line = Line::new(context);
    let mut applied = 0;
    for report in reports.iter().filter(|report| !report.changes.is_empty()) {
        let mut watch =
            |documents| line.tell(format!("{} kept", text::count(documents, "document")));
        applied += replay.apply(&report.wanted, &mut watch).await?;
    }
    line.clear();
    context.out.done(&value(&reports, applied), &format!("changed {}", text::number(applied)))
}

/// The sources that are named, or all.
async fn sources(named: &[String], store: &dyn Store) -> Result<Vec<Source>, Failure> {
    if named.is_empty() {
        return Ok(store.sources().await?);
    }
    let mut sources = Vec::with_capacity(named.len());
    for name in named {
        sources.push(store.source(name).await?.0);
    }
    Ok(sources)
}

/// Says no when a source gets worse.
fn refuse(reports: &[Report], most: f64) -> Result<(), Failure> {
    let worse = reports.iter().filter(|report| report.changes.loss() > most);
    let worse = worse.map(|report| {
        format!("{} ({:.1} %)", text::one_line(report.name()), report.changes.loss() * 100.0)
    });
    let worse: Vec<String> = worse.collect();
    if worse.is_empty() {
        return Ok(());
    }
    let message = format!(
        "nothing is kept, because more than {:.1} % would be lost of {}: leave them out with \
         --source, or give --max-loss or --force",
        most * 100.0,
        worse.join(", ")
    );
    Err(Failure::failed("gets_worse", message))
}

fn value(reports: &[Report], applied: u64) -> Value {
    let sources: Vec<Value> = reports.iter().map(Report::value).collect();
    json!({ "sources": sources, "applied": applied })
}

/// What changes, source by source; those without a change in one line.
fn told(reports: &[Report], out: &Out) -> String {
    let is_same = |report: &&Report| {
        let Changes { entries, articles, .. } = &report.changes;
        report.changes.is_empty() && entries.lost + articles.lost == 0
    };
    let (same, different): (Vec<&Report>, Vec<&Report>) = reports.iter().partition(is_same);
    let mut parts: Vec<String> = different.iter().map(|report| told_of(report, out)).collect();
    match same.as_slice() {
        [] => {}
        [one] => parts.push(format!("{}; nothing is different", head(one))),
        many => {
            let documents = many.iter().map(|report| report.changes.documents).sum();
            parts.push(format!(
                "{} with {}: nothing is different",
                text::count(many.len() as u64, "source"),
                text::count(documents, "document")
            ));
        }
    }
    if parts.is_empty() { "no sources to read again".to_owned() } else { parts.join("\n\n") }
}

fn head(report: &Report) -> String {
    let documents = text::count(report.changes.documents, "document");
    let gone = match report.changes.gone {
        0 => String::new(),
        gone => format!(", {} no longer kept", text::number(gone)),
    };
    format!("{}: {documents} read{gone}", text::one_line(report.name()))
}

fn told_of(report: &Report, out: &Out) -> String {
    let changes = &report.changes;
    let kinds = [("entries", changes.entries), ("articles", changes.articles)];
    let rows = kinds.map(|(name, tally)| {
        [
            name.to_owned(),
            text::number(tally.new),
            text::number(tally.changed),
            text::number(tally.lost),
            text::number(tally.restored),
        ]
    });
    let rows = rows.into_iter().chain(changes.fields.iter().map(|(name, fields)| {
        let name = format!("  {name}");
        let [gained, changed, lost] =
            [fields.gained, fields.changed, fields.lost].map(text::number);
        [name, gained, changed, lost, String::new()]
    }));
    let loss = match changes.loss() {
        loss if loss > 0.0 => format!("; {:.1} % worse", loss * 100.0),
        _ => String::new(),
    };
    let table = out.table(["what", "new", "changed", "lost", "restored"], rows.collect());
    format!("{}{loss}\n\n{table}", head(report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_written_as_percent() {
        assert_eq!(percent("2%"), Ok(0.02));
        assert_eq!(percent(" 50 %"), Ok(0.5));
        assert_eq!(percent("0"), Ok(0.0));
        for wrong in ["", "x", "-1%", "101%", "NaN"] {
            assert!(percent(wrong).unwrap_err().contains("such as 2%"), "{wrong}");
        }
    }
}
