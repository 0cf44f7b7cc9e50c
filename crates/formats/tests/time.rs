//! Reading takes time that grows with the size of the input alone, whatever the input.
//!
//! Every generator of `fuzz/adversarial.rs` is measured at two sizes. `FEEDMILL_TIME_BYTES` says
//! another size and prints what each takes; with 1000000 and a release build the promise is a second
//! at most.

#[path = "../../../fuzz/adversarial.rs"]
mod adversarial;
#[path = "../../../fuzz/targets.rs"]
mod targets;

use std::hint::black_box;

use feedmill_formats::article::{self, Evidence, Links, Statement};
use feedmill_formats::charset::{self, Markup};
use feedmill_formats::sketch::Sketch;
use feedmill_formats::{discover, url, wall};

/// Reads an input once, as the engine does.
fn read(target: &str, data: &[u8]) {
    if target != "article" {
        return targets::run(target, data);
    }
    let page = charset::decode(data, None, Markup::Html).text;
    let address = "https://example.com/news/a?b=c";
    if let Ok(article) = article::extract(&page, address, &Evidence::default()) {
        black_box(article::markdown(&article.html, Some(address)));
        black_box(Sketch::of(&article.text));
    }
    if let Ok(links) = Links::read(&page, address, "feedmill") {
        black_box(links.all());
    }
    black_box(Statement::read(&page));
    black_box(wall::name(403, |_| false, data));
    if let Ok(url) = url::parse(address) {
        black_box(discover::in_page(&page, &url));
    }
}

/// Seconds of work of this thread: a busy machine is no slow parser.
fn worked() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = told.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.map_or(0.0, |nanos| nanos / 1e9)
}

fn seconds(target: &str, input: &[u8]) -> f64 {
    let began = worked();
    read(target, input);
    worked() - began
}

#[test]
fn no_input_takes_more_time_than_its_size_allows() {
    let size = std::env::var("FEEDMILL_TIME_BYTES").ok().and_then(|text| text.parse().ok());
    let (mut slow, mut all) = (Vec::new(), Vec::new());
    for (target, name, make) in adversarial::ADVERSARIES {
        let took = seconds(target, &make(size.unwrap_or(4_000)));
        all.push((took, format!("{target}, {name}: {took:.3} s")));
        if size.is_some() {
            if took > 1.0 {
                slow.push(format!("{target}, {name}: {took:.2} s"));
            }
            continue;
        }
        // An unoptimised build is slow and not quadratic.
        if took < 0.1 {
            continue;
        }
        let twice = seconds(target, &make(8_000));
        // Up to the bounds of a tree a deep page may cost more than its size alone.
        if twice > took * 3.0 && twice > 1.0 {
            slow.push(format!("{target}, {name}: {took:.2} s, and {twice:.2} s for twice as much"));
        }
    }
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    for (_, line) in all.iter().take(if size.is_some() { 40 } else { 5 }) {
        println!("{line}");
    }
    assert!(slow.is_empty(), "{slow:#?}");
}
