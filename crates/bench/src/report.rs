//! What a benchmark says: figures, and bars that they have to reach.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

/// Which side of a limit is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// A limit and whether it holds.
#[derive(Debug, Serialize)]
pub(crate) struct Bar {
    name: &'static str,
    value: f64,
    limit: f64,
    better: Better,
    ok: bool,
}

/// One benchmark's result.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    bench: &'static str,
    figures: BTreeMap<&'static str, f64>,
    bars: Vec<Bar>,
}

impl Report {
    pub(crate) fn new(bench: &'static str) -> Self {
        Self { bench, figures: BTreeMap::new(), bars: Vec::new() }
    }

    pub(crate) fn figure(&mut self, name: &'static str, value: f64) {
        self.figures.insert(name, value);
    }

    /// A figure with a limit.
    pub(crate) fn bar(&mut self, name: &'static str, value: f64, limit: f64, better: Better) {
        let ok = match better {
            Better::Higher => value >= limit,
            Better::Lower => value <= limit,
        };
        self.figure(name, value);
        self.bars.push(Bar { name, value, limit, better, ok });
    }

    pub(crate) fn passed(&self) -> bool {
        self.bars.iter().all(|bar| bar.ok)
    }

    pub(crate) fn print(&self, json: bool) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if json {
            writeln!(out, "{}", serde_json::to_string_pretty(self)?)?;
            return Ok(());
        }
        for (name, value) in &self.figures {
            let bar = self.bars.iter().find(|bar| bar.name == *name);
            let verdict = bar.map_or_else(String::new, |bar| {
                let (word, side) = (if bar.ok { "ok" } else { "MISSED" }, bar.better);
                let side = if side == Better::Higher { "at least" } else { "at most" };
                format!("{word}: {side} {}", bar.limit)
            });
            writeln!(out, "{name:<28} {value:>14.2}  {verdict}")?;
        }
        Ok(())
    }
}

/// Tells those who wait how far it is.
pub(crate) fn say(what: &str) -> std::io::Result<()> {
    writeln!(std::io::stderr(), "{what} ...")
}

/// CPU time of this process, all threads.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The most memory that this process had at once.
pub(crate) fn rss_mb() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM")).context("no VmHWM")?;
    let kb: f64 = line.split_whitespace().nth(1).context("no figure")?.parse()?;
    Ok(kb / 1000.0)
}
