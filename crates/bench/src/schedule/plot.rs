//! Delay against polls for all policies, as an SVG.

use std::fmt::Write as _;
use std::path::Path;

use super::sim::Score;

/// A policy at several numbers of polls.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    pub(crate) scores: Vec<Score>,
}

impl Curve {
    fn sorted(&self) -> Vec<Score> {
        let mut scores = self.scores.clone();
        scores.sort_by(|a, b| a.polls_per_day.total_cmp(&b.polls_per_day));
        scores
    }

    /// The policy at that many polls: between two runs along a straight line on scales of
    /// logarithms, beyond them the nearest one.
    pub(crate) fn at(&self, polls: f64) -> Score {
        let scores = self.sorted();
        let above = scores.iter().position(|score| score.polls_per_day >= polls);
        let pair = above
            .and_then(|above| Some((*scores.get(above.checked_sub(1)?)?, *scores.get(above)?)));
        let Some((low, high)) = pair else {
            let nearest = if above == Some(0) { scores.first() } else { scores.last() };
            return nearest.copied().unwrap_or_default();
        };
        let share =
            (polls / low.polls_per_day).ln() / (high.polls_per_day / low.polls_per_day).ln();
        let between =
            |a: f64, b: f64| (a.max(1e-9).ln() * (1.0 - share) + b.max(1e-9).ln() * share).exp();
        Score {
            polls_per_day: polls,
            mean: between(low.mean, high.mean),
            p50: between(low.p50, high.p50),
            p95: between(low.p95, high.p95),
            p99: between(low.p99, high.p99),
            macro_mean: between(low.macro_mean, high.macro_mean),
            loss: between(low.loss, high.loss),
            wasted: between(low.wasted, high.wasted),
            ..high
        }
    }
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const MARGIN: f64 = 60.0;
const COLOURS: [&str; 6] = ["#c0392b", "#e67e22", "#2c3e50", "#2980b9", "#27ae60", "#7f8c8d"];

/// A scale of logarithms.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64> + Clone) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        Self { low: low * 0.9, high: values.fold(0.0, f64::max) * 1.1 }
    }

    fn place(&self, value: f64) -> f64 {
        (value / self.low).ln() / (self.high / self.low).ln()
    }

    /// 1, 2 and 5 times powers of ten.
    fn marks(&self) -> Vec<f64> {
        let powers = (-2..8).map(|power| 10f64.powi(power));
        let all = powers.flat_map(|ten| [ten, 2.0 * ten, 5.0 * ten]);
        all.filter(|mark| (self.low..=self.high).contains(mark)).collect()
    }
}

/// Draws the mean delay; `polls` is marked.
pub(crate) fn write(path: &Path, curves: &[Curve], polls: f64) -> anyhow::Result<()> {
    let all = || curves.iter().flat_map(|curve| &curve.scores);
    let across = Scale::over(all().map(|score| score.polls_per_day));
    let up = Scale::over(all().map(|score| score.mean));
    let x = |value: f64| MARGIN + across.place(value) * (WIDTH - 2.0 * MARGIN - 110.0);
    let y = |value: f64| HEIGHT - MARGIN - up.place(value) * (HEIGHT - 2.0 * MARGIN);
    let right = x(across.high);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         fill=\"white\"/>\n"
    );
    for mark in across.marks() {
        let (x, bottom) = (x(mark), HEIGHT - MARGIN);
        writeln!(svg, "<path d=\"M{x:.1} {MARGIN}V{bottom}\" stroke=\"#ddd\"/>")?;
        writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{mark}</text>",
            bottom + 16.0
        )?;
    }
    for mark in up.marks() {
        let y = y(mark);
        writeln!(svg, "<path d=\"M{MARGIN} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>")?;
        writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{mark}</text>",
            MARGIN - 6.0,
            y + 4.0
        )?;
    }
    let marked = x(polls);
    writeln!(
        svg,
        "<path d=\"M{marked:.1} {MARGIN}V{}\" stroke=\"#999\" stroke-dasharray=\"4 4\"/>",
        HEIGHT - MARGIN
    )?;
    for ((curve, colour), row) in curves.iter().zip(COLOURS.iter().cycle()).zip(0u8..) {
        let points: Vec<(f64, f64)> =
            curve.sorted().iter().map(|score| (x(score.polls_per_day), y(score.mean))).collect();
        let line: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            line.join(" ")
        )?;
        for (x, y) in points {
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>")?;
        }
        let y = MARGIN + 10.0 + 20.0 * f64::from(row);
        writeln!(
            svg,
            "<text x=\"{}\" y=\"{y}\" fill=\"{colour}\">{}</text>",
            right + 12.0,
            curve.name
        )?;
    }
    writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">polls a day</text>",
        f64::midpoint(MARGIN, right),
        HEIGHT - 16.0
    )?;
    writeln!(svg, "<text x=\"16\" y=\"{}\">mean delay in minutes</text>\n</svg>", MARGIN - 20.0)?;
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(path, svg)?;
    Ok(())
}
