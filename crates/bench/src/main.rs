//! Benchmarks: ours and its peers in the same run on the same work.
//!
//! Machines are noisy, so figures are ratios or counts per CPU-second of this process. Nothing here
//! is needed to build or test the product, and no benchmark is part of the tests.

mod api;
mod duplicates;
mod extract;
mod fairness;
mod features;
mod fetch;
mod follow;
mod frontier;
mod hostile;
mod memory;
mod onboard;
mod pages;
mod parse;
mod report;
mod schedule;
mod sinks;
mod spider;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The product runs on this allocator, so its figures are taken on it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Feedmill beside its peers.
#[derive(Debug, Parser)]
struct Cli {
    /// Prints one JSON object instead of a table
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// The API: lists of a store of a million rows under load, while the engine works
    Api(api::Args),
    /// Near-duplicates: a made-up press with truth, brought into a store that knows many others
    #[command(alias = "dedup")]
    Duplicates(duplicates::Args),
    /// Honest sources beside hostile ones: what is left of their rate of requests
    Fairness(fairness::Args),
    /// Fetching: pages per CPU-second, asked for and archived, beside a bare loop
    Fetch(fetch::Args),
    /// The engine behind many publishers: how soon it finds stories, and whether it keeps its budget
    Follow(follow::Args),
    /// The queue: submissions and claims with completions, per CPU-second
    Frontier(frontier::Args),
    /// The scheduler: delay and polls of all policies, on made-up or real publication times
    Schedule(schedule::Args),
    /// Documents that were made to hurt: seconds and memory until they are refused
    Hostile(hostile::Args),
    /// Memory of a running engine: what it needs after 100,000 articles and after 20,000
    Memory(memory::Args),
    /// Home pages of many publishers: how many of their feeds and news sitemaps are found, politely
    Onboard(onboard::Args),
    /// Articles: CPU time and memory of a page, beside a port of Readability
    Extract(extract::Args),
    /// What the article models are told about the pages of corpora, for train/train.py
    Features(features::Args),
    /// Feeds: megabytes per CPU-second beside other parsers
    Parse(parse::Args),
    /// Sinks: events per second and CPU time per event, to files, Redis and a cluster's stand-in
    Sinks(sinks::Args),
    /// The spider: a site without feeds and with traps, walked once and then followed
    Spider(spider::Args),
    /// Serves a newsroom, for the others
    #[command(hide = true)]
    Newsroom,
    /// Takes bulk requests, for the others
    #[command(hide = true)]
    Bulk,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = match &cli.bench {
        Bench::Api(args) => runtime.block_on(api::run(args))?,
        Bench::Duplicates(args) => runtime.block_on(duplicates::run(args))?,
        Bench::Fairness(args) => runtime.block_on(fairness::run(args))?,
        Bench::Fetch(args) => runtime.block_on(fetch::run(args))?,
        Bench::Newsroom => {
            runtime.block_on(fetch::serve())?;
            return Ok(ExitCode::SUCCESS);
        }
        Bench::Bulk => {
            sinks::serve_bulk()?;
            return Ok(ExitCode::SUCCESS);
        }
        Bench::Sinks(args) => runtime.block_on(sinks::run(args))?,
        Bench::Follow(args) => runtime.block_on(follow::run(args))?,
        Bench::Frontier(args) => runtime.block_on(frontier::run(args))?,
        Bench::Memory(args) => runtime.block_on(memory::run(args))?,
        Bench::Onboard(args) => runtime.block_on(onboard::run(args))?,
        Bench::Spider(args) => runtime.block_on(spider::run(args))?,
        Bench::Schedule(args) => schedule::run(args, cli.json)?,
        Bench::Hostile(args) => hostile::run(args)?,
        Bench::Extract(args) => extract::run(args)?,
        Bench::Features(args) => {
            features::run(args)?;
            return Ok(ExitCode::SUCCESS);
        }
        Bench::Parse(args) => parse::run(args)?,
    };
    report.print(cli.json)?;
    Ok(ExitCode::from(u8::from(!report.passed())))
}
