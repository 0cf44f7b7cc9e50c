//! `feedmill frontier submit` and `import`: addresses for the queue, few or millions.
//!
//! Lines are read as they are needed and handed on a batch at a time, so that a file of any length
//! takes the same room. What broke off is simply done again: known addresses are known.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tokio::time::Instant;

use super::meter::Line as Meter;
use super::{Context, Failure, text};
use crate::app::submit;
use crate::db::private;
use crate::fetch::Guard;
use crate::frontier::{Rejected, SubmitReport};
use crate::model::{Kind, NewTask, Source};

/// Addresses that go to the store at once.
const BATCH: usize = 2_000;
/// And no more than so many bytes of them.
const BATCH_BYTES: usize = 1 << 20;
/// Rejections that are told in full.
const SHOWN: usize = 20;
/// And so much of each address.
const SHOWN_CHARS: usize = 200;
/// Bytes of a line that are read; no address is as long.
const LONGEST: u64 = 1 << 16;

/// Hands addresses to the queue
///
/// They come from the command line, from a file with one address in a line, or with `-` from
/// standard input. Empty lines and lines that begin with # are left out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill frontier submit https://example.com/story
  feedmill frontier submit https://example.com/a https://example.com/b --priority 9
  sort -u *.txt | feedmill frontier submit -")]
pub(super) struct Args {
    /// The addresses, or - for standard input
    #[arg(value_name = "URL", required_unless_present = "file", conflicts_with = "file")]
    urls: Vec<String>,
    /// A file with one address in a line
    #[arg(long)]
    file: Option<PathBuf>,
    #[command(flatten)]
    as_what: AsWhat,
}

/// Takes a file of addresses in, one in a line
///
/// Empty lines and lines that begin with # are left out. If it is interrupted, start it again: what it
/// knows it knows. Lines that are no addresses are reported and do no harm.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill frontier import addresses.txt --source example
  zcat backlog.gz | feedmill frontier import - --priority 3 --rejects bad.tsv")]
pub(super) struct Import {
    /// The file, or - for standard input
    file: PathBuf,
    /// Writes every rejected line here: number, code, reason and address, with tabs between
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    #[command(flatten)]
    as_what: AsWhat,
}

/// What addresses are handed in as.
#[derive(Debug, clap::Args)]
struct AsWhat {
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

/// An address, and the line of the file that it is from.
type Line = (Option<u64>, String);
type Lines = Box<dyn Iterator<Item = Result<Line, Failure>> + Send>;

/// A line that was turned away.
#[derive(Debug, Serialize)]
struct Reject {
    line: Option<u64>,
    #[serde(flatten)]
    rejected: Rejected,
}

/// What became of all lines.
#[derive(Debug, Default, Serialize)]
struct Report {
    new: u64,
    known: u64,
    raised: u64,
    /// The first ones.
    rejected: Vec<Reject>,
    rejected_total: u64,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let lines = match (&args.file, args.urls.as_slice()) {
        (Some(path), _) => read(path)?,
        (None, [dash]) if dash == "-" => read(Path::new(dash))?,
        (None, _) => Box::new(args.urls.clone().into_iter().map(|url| Ok((None, url)))),
    };
    take(lines, &args.as_what, None, context).await
}

pub(super) async fn import(args: &Import, context: &Context) -> Result<(), Failure> {
    let lines = read(&args.file)?;
    let rejects = match &args.rejects {
        Some(path) => Some(private::create_output(path).map_err(|error| unwritable(path, &error))?),
        None => None,
    };
    let mut rejects = args.rejects.as_deref().zip(rejects.map(BufWriter::new));
    take(lines, &args.as_what, rejects.as_mut(), context).await
}

type Rejects<'a> = (&'a Path, BufWriter<File>);

async fn take(
    mut lines: Lines,
    as_what: &AsWhat,
    mut rejects: Option<&mut Rejects<'_>>,
    context: &Context,
) -> Result<(), Failure> {
    let store = context.store_or_new().await?;
    let (source, usual) = match &as_what.source {
        Some(name) => {
            let (source, _) = store.source(name).await?;
            (Some(source.id), source.spec.priority)
        }
        None => (None, Source::DEFAULT_PRIORITY),
    };
    let (kind, priority) = (as_what.kind.kind(), as_what.priority.unwrap_or(usual));
    let guard = Guard::new(&context.load()?.config.fetch);
    let mut progress = Meter::new(context);
    let (mut report, began) = (Report::default(), Instant::now());
    loop {
        let batch = next_batch(&mut lines)?;
        if batch.is_empty() {
            break;
        }
        let urls = batch.iter().map(|(_, url)| url.clone());
        let tasks = urls.map(|url| NewTask::manual(url, kind, source, priority)).collect();
        let done = submit::submit(&*store, &guard, tasks).await?;
        let turned_away = report.add(done, &batch);
        if let Some((path, file)) = &mut rejects {
            write(file, &turned_away).map_err(|error| unwritable(path, &error))?;
        }
        report.show(turned_away);
        progress.tell(format!("{}, {}", report.summary(), report.rate(began)));
    }
    progress.clear();
    if let Some((path, file)) = rejects {
        file.flush().map_err(|error| unwritable(path, &error))?;
    }
    context.out.done(&report, &report.told())?;
    match (report.new + report.known, report.rejected_total) {
        (0, 1..) => Err(Failure::failed("all_rejected", "none of the addresses could be taken")),
        _ => Ok(()),
    }
}

/// The next lines, as many as go to the store at once.
fn next_batch(lines: &mut Lines) -> Result<Vec<Line>, Failure> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < BATCH && bytes < BATCH_BYTES {
        let Some(line) = lines.next().transpose()? else { break };
        bytes += line.1.len();
        batch.push(line);
    }
    Ok(batch)
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage("unwritable_output", format!("cannot write {}: {error}", path.display()))
}

/// The addresses of a file, or with `-` of standard input, with their lines.
fn read(path: &Path) -> Result<Lines, Failure> {
    let stdin = path == Path::new("-");
    let name = if stdin { "standard input".to_owned() } else { path.display().to_string() };
    let unreadable = move |error: io::Error| {
        Failure::usage("unreadable_input", format!("cannot read {name}: {error}"))
    };
    let from: Box<dyn BufRead + Send> = if stdin {
        Box::new(BufReader::new(io::stdin()))
    } else {
        Box::new(BufReader::new(File::open(path).map_err(&unreadable)?))
    };
    let lines = (1..).zip(capped(from)).map(move |(number, line)| match line {
        Ok(line) => Ok((Some(number), String::from_utf8_lossy(&line).trim().to_owned())),
        Err(error) => Err(unreadable(error)),
    });
    Ok(Box::new(lines.filter(|line| line.as_ref().map_or(true, |(_, line)| is_address(line)))))
}

/// The lines of a file, without what is too long for any address: it need not fit into memory.
fn capped(mut from: Box<dyn BufRead + Send>) -> impl Iterator<Item = io::Result<Vec<u8>>> + Send {
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        match from.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        let cut = line.len() as u64 == LONGEST && line.last() != Some(&b'\n');
        let rest = if cut { from.skip_until(b'\n') } else { Ok(0) };
        Some(rest.map(|_| line))
    })
}

fn is_address(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

/// A line for each, with tabs between. The address is last and as it was given: the file is for programs.
fn write(file: &mut impl Write, rejects: &[Reject]) -> io::Result<()> {
    for Reject { line, rejected: Rejected { code, reason, url, .. } } in rejects {
        let reason = text::one_line(reason);
        let line = line.unwrap_or_default();
        writeln!(file, "{line}\t{code}\t{reason}\t{url}")?;
    }
    Ok(())
}

impl Report {
    /// Counts what became of a batch; what was turned away of it, by line.
    fn add(&mut self, done: SubmitReport, batch: &[Line]) -> Vec<Reject> {
        self.new += done.new;
        self.known += done.known;
        self.raised += done.raised;
        self.rejected_total += done.rejected.len() as u64;
        let line = |rejected: &Rejected| batch.get(rejected.at).and_then(|(line, _)| *line);
        let mut rejects: Vec<_> = done
            .rejected
            .into_iter()
            .map(|rejected| Reject { line: line(&rejected), rejected })
            .collect();
        rejects.sort_by_key(|reject| reject.line);
        rejects
    }

    /// Keeps the first ones to show them.
    fn show(&mut self, rejects: Vec<Reject>) {
        let room = SHOWN.saturating_sub(self.rejected.len());
        self.rejected.extend(rejects.into_iter().take(room));
    }

    fn summary(&self) -> String {
        let [new, known, raised, rejected] =
            [self.new, self.known, self.raised, self.rejected_total].map(text::number);
        format!("{new} new, {known} known ({raised} raised), {rejected} rejected")
    }

    fn rate(&self, began: Instant) -> String {
        let lines = u128::from(self.new + self.known + self.rejected_total);
        let rate = lines * 1_000 / began.elapsed().as_millis().max(1);
        format!("{} a second", text::number(u64::try_from(rate).unwrap_or(u64::MAX)))
    }

    fn told(&self) -> String {
        let mut told = self.summary();
        for Reject { line, rejected } in &self.rejected {
            let (url, reason) = (text::one_line(&rejected.url), text::one_line(&rejected.reason));
            let url = text::shortened(&url, SHOWN_CHARS);
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            told.push_str(&format!("\n  {line}{url}: {reason}"));
        }
        if let Some(more @ 1..) = self.rejected_total.checked_sub(self.rejected.len() as u64) {
            let more = text::number(more);
            told.push_str(&format!("\n  and {more} more, which import --rejects FILE writes down"));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(first: u64, n: usize) -> (Vec<Line>, SubmitReport) {
        let lines = (first..).map(Some).zip((0..n).map(|n| format!("no {n}"))).collect();
        let rejected = |at| Rejected {
            at,
            url: format!("no {at}"),
            code: "url_malformed",
            reason: "malformed".into(),
        };
        let rejected = (0..n).map(rejected).collect();
        (lines, SubmitReport { new: 1_500, known: 2, raised: 1, rejected })
    }

    #[test]
    fn a_batch_of_long_lines_is_short() {
        let long = "x".repeat(60_000);
        let mut lines: Lines =
            Box::new(std::iter::repeat_with(move || Ok((None, long.clone()))).take(30));
        let sizes = std::iter::from_fn(|| {
            let batch = next_batch(&mut lines).ok()?;
            (!batch.is_empty()).then_some(batch.len())
        });
        assert_eq!(sizes.collect::<Vec<_>>(), [18, 12]);
    }

    #[test]
    fn the_report_is_honest_about_what_it_leaves_out() {
        let mut report = Report::default();
        let (lines, done) = batch(7, 1);
        let rejects = report.add(done, &lines);
        let mut written = Vec::new();
        write(&mut written, &rejects).unwrap();
        assert_eq!(written, b"7\turl_malformed\tmalformed\tno 0\n");
        report.show(rejects);
        assert_eq!(
            report.told(),
            "1,500 new, 2 known (1 raised), 1 rejected\n  line 7: no 0: malformed"
        );
        let (lines, done) = batch(8, 22);
        let rejects = report.add(done, &lines);
        assert_eq!(rejects.last().unwrap().line, Some(29));
        report.show(rejects);
        assert!(report.told().contains("23 rejected"));
        assert!(report.told().contains("\n  and 3 more, which"));
        assert_eq!(report.told().lines().count(), 22);
    }
}
