//! Articles: the CPU time and memory that a page costs, beside a port of Readability on the same
//! pages in the same run.
//!
//! Ours gives text, metadata and clean HTML, as theirs does; Markdown is timed apart. Every page is
//! read several times by each in turn, and its best time counts, so that a busy machine slows both.

use std::hint::black_box;
use std::path::PathBuf;

use anyhow::Context as _;
use feedmill_formats::article::{self, Evidence};

use crate::pages::{self, SavedPage};
use crate::report::{Better, Report};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A directory with pages/ID.html or .html.gz, and truth.json beside pages/
    #[arg(long, required = true)]
    pages: Vec<PathBuf>,
    /// How often each page is read by each
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Times in milliseconds, one for each page.
#[derive(Debug, Default)]
struct Times(Vec<f64>);

impl Times {
    fn at(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a place in a list of pages"
        )]
        let place = (sorted.len().saturating_sub(1) as f64 * part).round() as usize;
        sorted.get(place).copied().unwrap_or_default()
    }

    fn sum(&self) -> f64 {
        self.0.iter().sum()
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Report> {
    let mut saved = Vec::new();
    for dir in &args.pages {
        saved.extend(pages::read(dir)?);
    }
    // Before anything else: memory that others gave back would hide what ours takes.
    let memory = peak_growth(|| {
        for page in &saved {
            black_box(extract(page));
        }
    })?;
    let (mut ours, mut theirs, mut marks) = (Times::default(), Times::default(), Times::default());
    let (mut found, mut bytes) = (0_u32, 0_usize);
    for page in &saved {
        let (mut own, mut other) = (f64::MAX, f64::MAX);
        for _ in 0..args.rounds.max(1) {
            own = own.min(timed(|| extract(page)));
            other = other.min(timed(|| readability(page)));
        }
        ours.0.push(own);
        theirs.0.push(other);
        bytes += page.html.len();
        if let Some(article) = extract(page) {
            found += 1;
            marks.0.push(timed(|| black_box(article::markdown(&article.html, None))));
        }
    }
    let mut report = Report::new("extract");
    let pages = u32::try_from(saved.len()).unwrap_or(u32::MAX);
    report.figure("pages", f64::from(pages));
    report.figure("articles", f64::from(found));
    report.figure("mean_kb", megabytes(bytes) * 1024.0 / f64::from(pages.max(1)));
    report.figure("ms_median", ours.at(0.5));
    report.figure("ms_p95", ours.at(0.95));
    report.figure("dom_smoothie_ms_median", theirs.at(0.5));
    report.figure("dom_smoothie_ms_p95", theirs.at(0.95));
    report.figure("dom_smoothie_max_ms", theirs.at(1.0));
    report.figure("markdown_ms_median", marks.at(0.5));
    report.bar("max_ms", ours.at(1.0), 100.0, Better::Lower);
    report.bar("peak_mb_above_pages", megabytes(memory), 30.0, Better::Lower);
    let ratio = ours.sum() / theirs.sum().max(f64::MIN_POSITIVE);
    report.bar("cpu_ratio_to_dom_smoothie", ratio, 1.25, Better::Lower);
    Ok(report)
}

fn extract(page: &SavedPage) -> Option<article::Extracted> {
    article::extract(&page.html, &page.url, &Evidence::default()).ok()
}

/// Text, metadata and clean HTML as the port of Readability gives them.
fn readability(page: &SavedPage) -> Option<usize> {
    let url = Some(page.url.as_str()).filter(|url| !url.is_empty());
    let mut reader = dom_smoothie::Readability::new(page.html.as_str(), url, None).ok()?;
    reader.parse().ok().map(|article| article.text_content.len() + article.content.len())
}

/// The CPU time of this thread for some work, in milliseconds.
fn timed<T>(work: impl FnOnce() -> T) -> f64 {
    let began = thread_time();
    black_box(work());
    thread_time() - began
}

#[expect(clippy::cast_precision_loss, reason = "a time of this process")]
fn thread_time() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

/// By how many bytes the memory of this process grows at most while something is done.
fn peak_growth(work: impl FnOnce()) -> anyhow::Result<usize> {
    std::fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")?;
    let before = memory("VmRSS:")?;
    work();
    Ok(memory("VmHWM:")?.saturating_sub(before))
}

fn memory(name: &str) -> anyhow::Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).context("no memory")?;
    Ok(kilobytes.parse::<usize>()? << 10)
}

#[expect(clippy::cast_precision_loss, reason = "a size of memory")]
fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
