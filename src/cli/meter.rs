//! How far a backup, a move, an import or a purge is: a line that changes where somebody watches, else
//! now and then a line more.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::out::Out;
use super::run::progress_line;
use super::{Context, text};
use crate::app::carry::Watch;
use crate::db::transfer::{Phase, Progress};

/// The time between two lines where nobody watches.
const PAUSE: Duration = Duration::from_secs(1);

/// A line on standard error that tells how far something is.
pub(super) struct Line {
    bar: ProgressBar,
    out: Out,
    /// When it last spoke where nobody watches; at once when that is nothing.
    last: Option<Instant>,
}

impl Line {
    /// A line that is silent about what takes no time.
    pub(super) fn new(context: &Context) -> Self {
        let (bar, out) = (progress_line(context), context.out.clone());
        Self { bar, out, last: Some(Instant::now()) }
    }

    pub(super) fn tell(&mut self, told: String) {
        let now = Instant::now();
        if !self.bar.is_hidden() {
            let escaped = text::plain(&told);
            self.bar.set_message(if escaped == told { told } else { escaped });
            self.bar.tick();
        } else if self.last.is_none_or(|last| now.duration_since(last) >= PAUSE) {
            self.out.note(&told);
            self.last = Some(now);
        }
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Tells of progress on standard error.
pub(super) fn meter(context: &Context) -> Watch {
    let mut line = Line::new(context);
    let mut since: Option<(Phase, Instant, u64)> = None;
    Box::new(move |progress| {
        let now = Instant::now();
        let (began, rows) = match since {
            Some((phase, began, rows)) if phase == progress.phase => (began, rows),
            _ => {
                line.last = None;
                since = Some((progress.phase, now, progress.rows));
                (now, progress.rows)
            }
        };
        line.tell(told(progress, progress.rows.saturating_sub(rows), now.duration_since(began)));
    })
}

/// `copying article: 1,000 of 4,000 rows (25%), 500 rows/s, 6s left`
fn told(progress: &Progress, done: u64, took: Duration) -> String {
    let Progress { phase, table, rows, total } = progress;
    let (what, unit) = match phase {
        Phase::Copy => (format!("copying {table}"), "rows"),
        Phase::Check => (format!("comparing {table}"), "rows"),
        Phase::Pages => ("copying".to_owned(), "pages"),
    };
    let share = rows * 100 / (*total).max(1);
    let sum = format!("{} of {} {unit} ({share}%)", text::number(*rows), text::number(*total));
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    match (done * 1_000).checked_div(ms).filter(|rate| *rate > 0) {
        None => format!("{what}: {sum}"),
        Some(rate) => {
            let left = total.saturating_sub(*rows) / rate;
            format!("{what}: {sum}, {} {unit}/s, {left}s left", text::number(rate))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_a_rate_and_an_end_once_there_is_something_to_tell() {
        let at = |rows| Progress { phase: Phase::Copy, table: "task".into(), rows, total: 4_000 };
        let first = told(&at(1_000), 0, Duration::ZERO);
        assert_eq!(first, "copying task: 1,000 of 4,000 rows (25%)");
        let later = told(&at(2_000), 1_000, Duration::from_secs(2));
        assert_eq!(later, "copying task: 2,000 of 4,000 rows (50%), 500 rows/s, 4s left");
        let pages = Progress { phase: Phase::Pages, table: String::new(), rows: 0, total: 0 };
        assert_eq!(told(&pages, 0, Duration::ZERO), "copying: 0 of 0 pages (0%)");
    }
}
