//! Reading takes memory that grows with the size of the input alone, whatever the input.
//!
//! Every generator of `fuzz/adversarial.rs` is read by a process of its own, whose highest use of memory
//! the system tells. `FEEDMILL_MEMORY_BYTES` says another size and prints what each takes.

#[path = "../../../fuzz/adversarial.rs"]
mod adversarial;

use std::hint::black_box;
use std::process::Command;

use feedmill_formats::article::{self, Evidence, Links, Statement};
use feedmill_formats::charset::{self, Markup};
use feedmill_formats::{discover, feed, opml, robots, sitemap, sketch, url};

/// The size of the inputs unless another one is said.
const SIZE: usize = 1_000_000;
/// The size of pages: an unoptimised build reads them slowly.
const PAGE_SIZE: usize = 60_000;
/// Bytes of memory for each byte of an input.
const TIMES: usize = 16;
/// Bytes of memory that an input of any size may take: what is inherited, trees of JSON, fixed tables.
const ALWAYS: usize = 40 << 20;
/// Tells the child which generator to read.
const WHICH: &str = "FEEDMILL_MEMORY_OF";

fn size(target: &str) -> usize {
    let told = std::env::var("FEEDMILL_MEMORY_BYTES").ok().and_then(|text| text.parse().ok());
    told.unwrap_or(if target == "article" { PAGE_SIZE } else { SIZE })
}

/// Reads an input once, as the engine does, and keeps the result as long as the engine does.
fn read(target: &str, data: &[u8]) {
    let address = "https://example.com/news/a?b=c";
    match target {
        "feed" => drop(black_box(feed::parse(data, None, address, &feed::Limits::default()))),
        "sitemap" => {
            let long = format!("https://example.com/{}/", "b".repeat(1_900));
            drop(black_box(sitemap::parse(data, &long, &sitemap::Limits::default())));
        }
        "opml" => drop(black_box(opml::parse(data))),
        "robots" => drop(black_box(robots::Robots::parse(data))),
        "article" => page(data, &format!("https://example.com/{}/a", "b".repeat(1_900))),
        _ => {}
    }
}

fn page(data: &[u8], address: &str) {
    let page = charset::decode(data, None, Markup::Html).text;
    if let Ok(article) = article::extract(&page, address, &Evidence::default()) {
        black_box(article::markdown(&article.html, Some(address)));
        black_box(sketch::Sketch::of(&article.text));
    }
    if let Ok(links) = Links::read(&page, address, "feedmill") {
        black_box(links.all());
    }
    black_box(Statement::read(&page));
    if let Ok(url) = url::parse(address) {
        black_box(discover::in_page(&page, &url));
    }
}

/// A figure of this process by its name in `/proc/self/status`, in bytes.
fn status(name: &str) -> usize {
    let told = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse().ok());
    kilobytes.unwrap_or(0_usize) << 10
}

/// What the child does: it reads one input and tells its peak. Without a parent it does nothing.
#[test]
fn one_input_is_read() {
    let which = std::env::var(WHICH).ok().and_then(|text| text.parse::<usize>().ok());
    let Some((target, _, make)) = which.and_then(|which| adversarial::ADVERSARIES.get(which))
    else {
        return;
    };
    let input = make(size(target));
    let before = status("VmRSS");
    read(target, &input);
    println!("peak={}", status("VmHWM").saturating_sub(before));
}

/// The peak of reading this input in a process of its own.
fn peak_of(which: usize) -> Option<usize> {
    let mut child = Command::new(std::env::current_exe().ok()?);
    child.args(["--exact", "one_input_is_read", "--nocapture", "--test-threads=1"]);
    let output = child.env(WHICH, which.to_string()).output().ok()?;
    let told = String::from_utf8_lossy(&output.stdout);
    told.lines().find_map(|line| line.split_once("peak=")?.1.trim().parse().ok())
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux tells the peak in this way")]
fn no_input_takes_more_memory_than_its_size_allows() {
    if std::env::var(WHICH).is_ok() {
        return;
    }
    let names = ["feed", "sitemap", "opml", "robots", "article"];
    let (mut large, mut all) = (Vec::new(), Vec::new());
    for (which, (target, name, _)) in adversarial::ADVERSARIES.iter().enumerate() {
        if !names.contains(target) {
            continue;
        }
        let peak = peak_of(which).unwrap_or_else(|| panic!("{target}, {name}: no peak was told"));
        let line = format!("{target}, {name}: {:.1} MB", peak as f64 / 1e6);
        if peak > TIMES * size(target) + ALWAYS {
            large.push(line.clone());
        }
        all.push((peak, line));
    }
    all.sort_by_key(|(peak, _)| std::cmp::Reverse(*peak));
    for (_, line) in all.iter().take(40) {
        println!("{line}");
    }
    assert!(large.is_empty(), "{large:#?}");
}
