//! Documents of 100 MB that were made to hurt: how long until they are refused or read, and how much
//! memory that takes beyond the document itself.
//!
//! The bars are for the limits that everybody has, the one on size among them, which turns all of them
//! away; the other figures are without it, so that the other limits have to hold. Pages of articles
//! come last, beyond their bounds and just within them.

use std::hint::black_box;

use feedmill_formats::article::{self, Evidence};
use feedmill_formats::feed::{self, Limits};
use feedmill_formats::{opml, sitemap};

use crate::report::{Better, Report, cpu_time, rss_mb};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Megabytes of each document
    #[arg(long, default_value_t = 100)]
    megabytes: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Report> {
    let size = args.megabytes * 1_000_000;
    let (mut slowest, mut refusal) = (0_f64, 0_f64);
    let (mut memory, mut unlimited_memory) = (0_f64, 0_f64);
    let mut report = Report::new("hostile");
    for (name, start, piece) in [
        ("deep_s", "<rss><channel>", "<a>"),
        ("attributes_s", "<rss", " a='b'"),
        ("laughs_s", "<!DOCTYPE r [<!ENTITY a '&b;&b;'>]><rss><channel><title>", "&a;"),
        ("cdata_s", "<rss><channel><item><description><![CDATA[", "<p>x "),
        ("brackets_s", "<rss><channel><item><title>", "<a b='<!--"),
        ("html_s", "<rss><channel><item><description>", " href=x &lt;!--"),
        ("items_s", "<rss><channel>", "<item><title>x</title></item>"),
        ("json_deep_s", "{\"items\": ", "["),
        ("json_members_s", "{", "\"a\":1,"),
        ("json_items_s", "{\"items\": [", "{},"),
        ("json_tags_s", "{\"items\": [{\"tags\": [1", ",1"),
    ] {
        let mut document = String::with_capacity(size + piece.len());
        document.push_str(start);
        while document.len() < size {
            document.push_str(piece);
        }
        let before = rss_mb()?;
        refusal = refusal.max(seconds(|| read(document.as_bytes(), &Limits::default())));
        memory = memory.max(rss_mb()? - before);
        let unlimited = Limits { bytes: usize::MAX, ..Limits::default() };
        let spent = seconds(|| read(document.as_bytes(), &unlimited));
        report.figure(name, spent);
        slowest = slowest.max(spent);
        unlimited_memory = unlimited_memory.max(rss_mb()? - before);
    }
    report.bar("refused_s", refusal, 1.0, Better::Lower);
    report.figure("slowest_without_s", slowest);
    report.figure("memory_without_mb", unlimited_memory);
    report.bar("memory_above_input_mb", memory, 50.0, Better::Lower);
    pages(&mut report)?;
    Ok(report)
}

/// Pages beyond the bounds of articles, which are refused, and others as large as they may be.
fn pages(report: &mut Report) -> anyhow::Result<()> {
    let sentence = "The harbour was closed on Tuesday, the port authority said. ";
    let most = article::MAX_BYTES - 100;
    let (mut slowest, mut memory) = (0_f64, 0_f64);
    for (name, piece, size) in [
        ("page_deep_s", "<div>", 500_000),
        ("page_text_s", sentence, 30_000_000),
        ("page_links_s", "<a href=/x>y</a>", 16_000_000),
        ("page_largest_text_s", sentence, most),
        ("page_largest_links_s", "<a href=/x>y</a>", most),
        ("page_most_blocks_s", "<p>The harbour was closed.", 2_000_000),
    ] {
        let html = piece.repeat(size / piece.len());
        let before = rss_mb()?;
        let read = || article::extract(&html, "https://example.com/", &Evidence::default());
        let spent = seconds(|| drop(black_box(read())));
        report.figure(name, spent);
        slowest = slowest.max(spent);
        memory = memory.max(rss_mb()? - before);
    }
    report.bar("page_slowest_s", slowest, 1.0, Better::Lower);
    report.bar("page_memory_above_mb", memory, 100.0, Better::Lower);
    Ok(())
}

fn read(document: &[u8], limits: &Limits) {
    drop(black_box(feed::parse(document, None, "https://example.com/", limits)));
    if limits.bytes < document.len() {
        drop(black_box(sitemap::parse(document, "", &sitemap::Limits::default())));
        drop(black_box(opml::parse(document)));
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let began = cpu_time();
    work();
    (cpu_time() - began).as_secs_f64()
}
