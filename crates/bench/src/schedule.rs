//! When to poll: ours beside what others do, on the same feeds, at equal numbers of polls.
//!
//! Virtual time, one seed. Without a file: made-up feeds (W1), their cold start (W3), with
//! publishers' wishes (W4), and the cost of a decision over many feeds (W5). With `--replay`: real
//! publication times (W2).

mod dice;
mod peers;
mod plot;
mod sim;
mod workload;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use feedmill::model::PollPolicy;
use feedmill::schedule::{Found, Hints, State};

use crate::report::{Better, Report};
use peers::{Ours, Peer, Rule};
use plot::Curve;
use sim::{Planner as _, Score, run as simulate};
use workload::Workload;

/// Made-up feeds.
const FEEDS: usize = 6000;
/// Days before scoring, and scored.
const DAYS: (u32, u32) = (14, 42);
/// Polls a feed and day at which loss is measured.
const SPARSE: f64 = 2.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Replays real publication times from this file instead of made-up ones
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Writes every poll of our policy to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Draws delay against polls for all policies into this file
    #[arg(long, value_name = "FILE", default_value = "docs/schedule.svg")]
    plot: PathBuf,
    /// Feeds in the loop that measures the cost of a decision
    #[arg(long, default_value_t = 10_000_000)]
    feeds: usize,
    /// What everything random follows from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &Args, quiet: bool) -> anyhow::Result<Report> {
    let mut report = Report::new("schedule");
    match &args.replay {
        Some(file) => {
            let work = workload::replay(file)?;
            let seed = yardstick(&work, args.seed);
            let ours = compare(&work, seed, args, quiet, &mut report)?;
            for (name, value, limit) in [
                ("replay_mean_ratio", ours.mean / seed.mean, 0.45),
                ("replay_p95_ratio", ours.p95 / seed.p95, 0.33),
                ("replay_p99_ratio", ours.p99 / seed.p99, 0.18),
                ("replay_macro_ratio", ours.macro_mean / seed.macro_mean, 0.20),
            ] {
                report.bar(name, value, limit, Better::Lower);
            }
            let cold = work.cold(DAYS.0);
            cold_start(&cold, args.seed, &mut report);
            sparse(&work, args.seed, &mut report);
        }
        None => {
            let work = workload::synthetic(FEEDS, DAYS, false, args.seed);
            let seed = yardstick(&work, args.seed);
            let ours = compare(&work, seed, args, quiet, &mut report)?;
            report.bar("w1_mean_ratio", ours.mean / seed.mean, 0.46, Better::Lower);
            report.bar("w1_p95_ratio", ours.p95 / seed.p95, 0.26, Better::Lower);
            cold_start(&work.cold(DAYS.0), args.seed, &mut report);
            sparse(&work, args.seed, &mut report);
            wishes(args.seed, &mut report);
            decisions(args.feeds, &mut report);
        }
    }
    Ok(report)
}

/// The seed's policy: what the others are measured by.
fn yardstick(work: &Workload, seed: u64) -> Score {
    peer(work, Rule::Seed(1.0), seed)
}

fn peer(work: &Workload, rule: Rule, seed: u64) -> Score {
    simulate(work, &mut Peer::new(rule, work.feeds.len(), seed), seed, |_, _| {})
}

fn ours(work: &Workload, budget: f64, seed: u64) -> Score {
    let mut ours = Ours::new(PollPolicy::Value, work.feeds.len(), budget, seed);
    simulate(work, &mut ours, seed, |_, _| {})
}

/// All policies at as many polls as the seed's makes, as a table and a plot.
fn compare(
    work: &Workload,
    seed: Score,
    args: &Args,
    quiet: bool,
    report: &mut Report,
) -> anyhow::Result<Score> {
    // A little less than the seed's own: the budget is met, not exceeded.
    let budget = seed.polls_per_day * 0.994;
    let mut polls = Vec::new();
    let mut value = Ours::new(PollPolicy::Value, work.feeds.len(), budget, args.seed);
    let best = simulate(work, &mut value, args.seed, |feed, at| polls.push((feed, at)));
    let again = ours(work, budget, args.seed);
    report.bar("hash_differs", f64::from(u8::from(best.hash != again.hash)), 0.0, Better::Lower);
    report.bar(
        "budget_error_percent",
        100.0 * (best.polls_per_day / budget - 1.0).abs(),
        1.0,
        Better::Lower,
    );
    report.figure("polls_per_day", best.polls_per_day);
    report.figure("seed_polls_per_day", seed.polls_per_day);
    if let Some(path) = &args.out {
        let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
        for (feed, at) in polls {
            writeln!(out, "{{\"feed\":{feed},\"at\":{at}}}")?;
        }
        out.flush()?;
    }
    let curves = curves(work, seed, best, args.seed);
    plot::write(&args.plot, &curves, seed.polls_per_day)?;
    if !quiet {
        table(&curves, seed.polls_per_day)?;
    }
    Ok(best)
}

/// Each policy over a range of polls.
fn curves(work: &Workload, seed: Score, best: Score, dice: u64) -> Vec<Curve> {
    let each = work.feeds.len() as f64 * 86_400.0 / seed.polls_per_day;
    let sweep = |rules: &[Rule]| rules.iter().map(|rule| peer(work, *rule, dice)).collect();
    let value = [0.25, 0.5, 2.0].map(|share| ours(work, seed.polls_per_day * share, dice));
    let mut ewma = Ours::new(PollPolicy::Ewma, work.feeds.len(), 0.0, dice);
    let curve = |name, scores| Curve { name, scores };
    let fixed = [2.0, 1.2, 0.8, 0.4].map(|share| Rule::Fixed(each * share));
    vec![
        curve("value (ours)", value.into_iter().chain([best]).collect()),
        curve("ewma (ours)", vec![simulate(work, &mut ewma, dice, |_, _| {})]),
        curve("seed EWMA", {
            let mut scores: Vec<Score> = sweep(&[Rule::Seed(2.0), Rule::Seed(0.5)]);
            scores.push(seed);
            scores
        }),
        curve("Miniflux", sweep(&[0.5, 1.0, 2.0].map(Rule::Miniflux))),
        curve("StormCrawler", sweep(&[7200.0, 3600.0, 1200.0, 300.0].map(Rule::StormCrawler))),
        curve("fixed", sweep(&fixed)),
    ]
}

fn table(curves: &[Curve], polls: f64) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "at {polls:.0} polls a day (nearest run where a policy cannot make as many):")?;
    writeln!(
        out,
        "{:<14} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}",
        "policy", "polls/d", "mean", "p50", "p95", "p99", "macro", "loss %", "waste %"
    )?;
    for curve in curves {
        let s = curve.at(polls);
        writeln!(
            out,
            "{:<14} {:>9.0} {:>8.1} {:>8.1} {:>8.1} {:>8.0} {:>8.1} {:>7.3} {:>7.1}",
            curve.name,
            s.polls_per_day,
            s.mean,
            s.p50,
            s.p95,
            s.p99,
            s.macro_mean,
            s.loss,
            s.wasted
        )?;
    }
    writeln!(out)?;
    Ok(())
}

/// The first days, with nothing learned.
fn cold_start(work: &Workload, dice: u64, report: &mut Report) {
    let seed = yardstick(work, dice);
    let budget = seed.polls_per_day * 0.994;
    let ours = ours(work, budget, dice);
    report.bar("cold_mean_ratio", ours.mean / seed.mean, 0.60, Better::Lower);
    let off = 100.0 * (ours.polls_per_day / budget - 1.0).abs();
    report.bar("cold_budget_error_percent", off, 1.0, Better::Lower);
    report.figure("cold_polls_ratio", ours.polls_per_day / seed.polls_per_day);
}

/// Few polls: what leaves the document unseen.
fn sparse(work: &Workload, dice: u64, report: &mut Report) {
    let ours = ours(work, SPARSE * work.feeds.len() as f64, dice);
    report.bar("loss_percent_at_2_a_day", ours.loss, 0.20, Better::Lower);
    report.figure("sparse_polls_per_feed", ours.polls_per_day / work.feeds.len() as f64);
}

/// Publishers that ask for a pace.
fn wishes(dice: u64, report: &mut Report) {
    let work = workload::synthetic(FEEDS, DAYS, true, dice);
    let seed = yardstick(&work, dice);
    let ours = ours(&work, seed.polls_per_day * 0.994, dice);
    report.figure("wishes_mean_ratio", ours.mean / seed.mean);
    report.figure("wishes_complaints_seed", seed.complaints as f64);
    report.bar(
        "wishes_complaints_ratio",
        ours.complaints as f64 / seed.complaints.max(1) as f64,
        0.01,
        Better::Lower,
    );
    report.bar("polls_before_retry_after", ours.hasty as f64, 0.0, Better::Lower);
}

/// The cost of a decision, learning and reason included.
fn decisions(feeds: usize, report: &mut Report) {
    let mut ours = Ours::new(PollPolicy::Value, feeds, 0.0, 1);
    let day = 86_400;
    let start = 1_735_516_800;
    let mut times: Vec<u32> = (0..64).map(|n| start - 64 * day + n * day + n * 977).collect();
    times.sort_unstable();
    let hints = Hints { conditional: true, ..Hints::default() };
    let mut measured = Duration::ZERO;
    let mut rounds = 0u32;
    for round in 0..3u32 {
        let before = crate::report::cpu_time();
        for feed in 0..feeds {
            // Windows of several lengths; later, every fourth poll brings something.
            let at = start + round * 7200 + (feed as u32).wrapping_mul(2_654_435_761) % 3600;
            let new = [at - 1200];
            let dated = match round {
                0 => times.get(..8 + feed % 24).unwrap_or_default(),
                _ if feed % 4 == 0 => &new[..],
                _ => &[],
            };
            let items = (round == 0 || !dated.is_empty()).then_some(32);
            ours.succeeded(feed, &Found { at, dated, undated: 0, items, recent: dated }, &hints);
        }
        if round > 0 {
            measured += crate::report::cpu_time() - before;
            rounds += 1;
        }
    }
    let per_decision = measured.as_secs_f64() * 1e6 / (f64::from(rounds) * feeds as f64);
    report.bar("us_per_decision", per_decision, 20.0, Better::Lower);
    report.bar("bytes_per_feed", size_of::<State>() as f64, 96.0, Better::Lower);
}
