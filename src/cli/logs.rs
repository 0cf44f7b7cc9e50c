//! Where log lines go: standard error, around the line of progress when there is one.

use std::io::{self, Write};

use indicatif::ProgressBar;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Format, Level, Log};

/// Starts logging. A second start changes nothing.
pub(super) fn start(log: &Log, level: Level, color: bool, progress: Option<&ProgressBar>) {
    let progress = progress.cloned().unwrap_or_else(ProgressBar::hidden);
    // What the libraries below say is of interest only when something is wrong.
    let (ours, below) = match level {
        Level::Error => (LevelFilter::ERROR, LevelFilter::ERROR),
        Level::Warn => (LevelFilter::WARN, LevelFilter::WARN),
        Level::Info => (LevelFilter::INFO, LevelFilter::WARN),
        Level::Debug => (LevelFilter::DEBUG, LevelFilter::WARN),
        Level::Trace => (LevelFilter::TRACE, LevelFilter::DEBUG),
    };
    // A lost connection is ours to tell of, and once: the pool has a line for each.
    let pool = if level == Level::Trace { below } else { LevelFilter::ERROR };
    let filter = Targets::new()
        .with_default(below)
        .with_target("deadpool", pool)
        .with_target("feedmill", ours);
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(color)
        .with_writer(move || Beside(progress.clone()));
    let registry = tracing_subscriber::registry().with(filter);
    let started = match log.format {
        Format::Text => registry.with(lines.with_target(false)).try_init(),
        Format::Json => registry.with(lines.json()).try_init(),
    };
    drop(started);
}

/// Writes to standard error without tearing the line of progress.
struct Beside(ProgressBar);

impl Write for Beside {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().lock().write_all(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}
