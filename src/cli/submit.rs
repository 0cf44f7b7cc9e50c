//! `feedmill frontier submit`: hands addresses to the queue, few or millions.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use super::run::progress_line;
use super::{Context, Failure, text};
use crate::frontier::SubmitReport;
use crate::model::{Kind, NewTask, Origin, Source, SourceId};

/// Addresses that go to the store at once.
const BATCH: usize = 1_000;
/// Rejections that are told in full to people.
const SHOWN: usize = 20;

/// Hands addresses to the queue
///
/// They come from the command line, from a file with one address in a line, or with `-` from
/// standard input. Empty lines and lines that begin with # are left out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill frontier submit https://example.com/story
  feedmill frontier submit --file addresses.txt --source example
  sort -u *.txt | feedmill frontier submit -")]
pub(super) struct Args {
    /// The addresses, or - for standard input
    #[arg(value_name = "URL", required_unless_present = "file", conflicts_with = "file")]
    urls: Vec<String>,
    /// A file with one address in a line
    #[arg(long)]
    file: Option<PathBuf>,
    /// What is behind them
    #[arg(long, default_value = "article")]
    kind: Submitted,
    /// The source that they belong to, by name or id
    #[arg(long)]
    source: Option<String>,
    /// 1 to 10, 10 is served first [default: that of the source, else 5]
    #[arg(long, value_name = "1-10", value_parser = clap::value_parser!(u8).range(1..=10))]
    priority: Option<u8>,
}

/// What can be handed in.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Submitted {
    Article,
    Feed,
    Sitemap,
}

impl Submitted {
    const fn kind(self) -> Kind {
        match self {
            Self::Article => Kind::Article,
            Self::Feed => Kind::Feed,
            Self::Sitemap => Kind::Sitemap,
        }
    }
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let mut lines = input(args)?;
    let store = context.store_or_new().await?;
    let (source, usual) = match &args.source {
        Some(name) => {
            let (source, _) = store.source(name).await?;
            (Some(source.id), source.spec.priority)
        }
        None => (None, Source::DEFAULT_PRIORITY),
    };
    let priority = args.priority.unwrap_or(usual);
    let progress = progress_line(context);
    let mut report = SubmitReport::default();
    loop {
        let batch = next_batch(&mut lines)?;
        if batch.is_empty() {
            break;
        }
        let tasks = batch.into_iter().map(|url| task(url, args.kind.kind(), source, priority));
        add(&mut report, store.submit(tasks.collect()).await?);
        progress.set_message(summary(&report));
        progress.tick();
    }
    progress.finish_and_clear();
    context.out.done(&report, &told(&report))?;
    match (report.new + report.known, report.rejected.len()) {
        (0, 1..) => Err(Failure::failed("all_rejected", "none of the addresses could be taken")),
        _ => Ok(()),
    }
}

type Lines = Box<dyn Iterator<Item = Result<String, Failure>> + Send>;

/// Where the addresses come from, opened.
fn input(args: &Args) -> Result<Lines, Failure> {
    let unreadable = |name: &str, error: &io::Error| {
        Failure::usage("unreadable_input", format!("cannot read {name}: {error}"))
    };
    let read = move |name: String, from: Box<dyn BufRead + Send>| -> Lines {
        let lines = from.split(b'\n').map(move |line| match line {
            Ok(line) => Ok(String::from_utf8_lossy(&line).trim().to_owned()),
            Err(error) => Err(unreadable(&name, &error)),
        });
        Box::new(lines.filter(|line| line.as_ref().map_or(true, |line| is_address(line))))
    };
    match (&args.file, args.urls.as_slice()) {
        (Some(path), _) => {
            let name = path.display().to_string();
            let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
            Ok(read(name, Box::new(BufReader::new(file))))
        }
        (None, [dash]) if dash == "-" => {
            Ok(read("standard input".to_owned(), Box::new(BufReader::new(io::stdin()))))
        }
        (None, _) => Ok(Box::new(args.urls.clone().into_iter().map(Ok))),
    }
}

fn is_address(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

fn next_batch(lines: &mut Lines) -> Result<Vec<String>, Failure> {
    lines.take(BATCH).collect()
}

fn task(url: String, kind: Kind, source: Option<SourceId>, base_priority: u8) -> NewTask {
    let origin = Origin::Manual;
    NewTask { url, kind, origin, source, base_priority, depth: 0, parent: None, not_before: None }
}

fn add(report: &mut SubmitReport, more: SubmitReport) {
    report.new += more.new;
    report.known += more.known;
    report.raised += more.raised;
    report.rejected.extend(more.rejected);
}

fn summary(report: &SubmitReport) -> String {
    let SubmitReport { new, known, raised, rejected } = report;
    let [new, known, raised, rejected] =
        [*new, *known, *raised, rejected.len() as u64].map(text::number);
    format!("{new} new, {known} known ({raised} raised), {rejected} rejected")
}

fn told(report: &SubmitReport) -> String {
    let mut told = summary(report);
    for rejected in report.rejected.iter().take(SHOWN) {
        let url = text::one_line(&rejected.url);
        let reason = text::one_line(&rejected.reason);
        told.push_str(&format!("\n  {url}: {reason}"));
    }
    if let Some(more @ 1..) = report.rejected.len().checked_sub(SHOWN) {
        told.push_str(&format!("\n  and {more} more, which --json lists"));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::Rejected;

    #[test]
    fn the_report_is_honest_about_what_it_leaves_out() {
        let rejected = |n: usize| Rejected {
            url: format!("no {n}"),
            code: "url_malformed",
            reason: "malformed".into(),
        };
        let mut report =
            SubmitReport { new: 1_500, known: 2, raised: 1, rejected: vec![rejected(0)] };
        assert_eq!(told(&report), "1,500 new, 2 known (1 raised), 1 rejected\n  no 0: malformed");
        add(
            &mut report,
            SubmitReport { rejected: (1..23).map(rejected).collect(), ..SubmitReport::default() },
        );
        assert!(told(&report).contains("23 rejected"));
        assert!(told(&report).ends_with("\n  and 3 more, which --json lists"));
        assert_eq!(told(&report).lines().count(), 22);
    }
}
