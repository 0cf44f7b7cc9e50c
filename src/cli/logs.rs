//! Where log lines go: standard error, around the line of progress when there is one.

use std::io::{self, Write};

use indicatif::ProgressBar;

use crate::config::{Config, Level, Trace};
use crate::telemetry::{Telemetry, TraceError};

/// Starts logging, and tracing where that is configured and an engine runs, which has a line of progress.
/// A second start changes nothing.
pub(super) fn start(
    config: &Config,
    level: Level,
    color: bool,
    progress: Option<&ProgressBar>,
) -> Result<Telemetry, TraceError> {
    let trace = if progress.is_some() { config.trace.clone() } else { Trace::default() };
    let progress = progress.cloned().unwrap_or_else(ProgressBar::hidden);
    Telemetry::start(&config.log, level, color, move || Beside(progress.clone()), &trace)
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
